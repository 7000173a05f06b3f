/* tir_interp_store.c: between registers of the interpreter and tensors.
 *
 * Loads widen exactly; stores round once, and keep the low bits of integers.
 * All rounding is that of runtime/base/num.
 *
 * Where the lanes lie in memory decides the speed of a matrix product more
 * than its arithmetic, so a load knows the pattern of its offsets: one
 * element for all (a row of the left factor), neighbours (a row of the right
 * one), or anything else.  The last is the usual case of weights stored
 * [out, in] with lanes over `out`: each lane then walks along its own row,
 * and strips of neighbours are read for all lanes at once. */
#include "ir/tir_interp.h"

#include "runtime/base/num.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

size_t tir_element_bytes(tir_mode_t mode, tdsl_dtype_t dtype) {
  if (dtype == TDSL_DTYPE_F32 && mode == TIR_F64) return 8;
  return td_dtype_bytes(dtype);
}

/* How storage reads: F32 held as doubles is F64 to the loops below. */
static tdsl_dtype_t storage(tir_mode_t mode, tdsl_dtype_t dtype) {
  if (dtype == TDSL_DTYPE_F32 && mode == TIR_F64) return TDSL_DTYPE_F64;
  return dtype;
}

/* The bodies below differ in types and one conversion only. Lanes beyond n
 * are never touched: the element after the last may be somebody else's. */
#define STORE(T, value)                                                       \
  do {                                                                        \
    T *z = to;                                                                \
    for (uint32_t l = 0; l < n; l++) z[l] = (value);                          \
  } while (0)

void tir_store(tir_mode_t mode, tdsl_dtype_t dtype, void *to, tir_rep_t rep,
               const void *reg, uint32_t n) {
  const float *s = reg;
  const double *d = reg;
  const int64_t *i = reg;
  const uint8_t *b = reg;
  bool is_s = rep == TIR_REP_S;
  switch (storage(mode, dtype)) {
  case TDSL_DTYPE_F64:
    if (is_s) STORE(double, (double)s[l]);
    else STORE(double, d[l]);
    break;
  case TDSL_DTYPE_F32:
    if (is_s) STORE(float, s[l]);
    else STORE(float, (float)d[l]);
    break;
  case TDSL_DTYPE_F16:
    if (is_s) STORE(uint16_t, td_f32_to_f16(s[l]));
    else STORE(uint16_t, td_f64_to_f16(d[l]));
    break;
  case TDSL_DTYPE_BF16:
    if (is_s) STORE(uint16_t, td_f32_to_bf16(s[l]));
    else STORE(uint16_t, td_f64_to_bf16(d[l]));
    break;
  case TDSL_DTYPE_F8E4M3:
    if (is_s) STORE(uint8_t, td_f32_to_f8e4m3(s[l]));
    else STORE(uint8_t, td_f64_to_f8e4m3(d[l]));
    break;
  case TDSL_DTYPE_F8E5M2:
    if (is_s) STORE(uint8_t, td_f32_to_f8e5m2(s[l]));
    else STORE(uint8_t, td_f64_to_f8e5m2(d[l]));
    break;
  case TDSL_DTYPE_I64: STORE(int64_t, i[l]); break;
  case TDSL_DTYPE_I32: STORE(uint32_t, (uint32_t)(uint64_t)i[l]); break;
  case TDSL_DTYPE_I8:
  case TDSL_DTYPE_U8: STORE(uint8_t, (uint8_t)(uint64_t)i[l]); break;
  case TDSL_DTYPE_BOOL: STORE(uint8_t, b[l]); break;
  case TDSL_DTYPE_UNSET:
  case TDSL_DTYPE_FORCE32: break;
  }
}

/* at(l): element offset of lane l. */
#define LOAD_LOOP(T, R, widen)                                                \
  do {                                                                        \
    const T *x = data;                                                        \
    R *z = reg;                                                               \
    for (uint32_t l = 0; l < n; l++) {                                        \
      T v = x[at == NULL ? (int64_t)l * step : at[l]];                        \
      z[l] = (widen);                                                         \
    }                                                                         \
  } while (0)
#define LOAD_FLOAT(T, widen)                                                  \
  do {                                                                        \
    if (is_s) LOAD_LOOP(T, float, widen);                                     \
    else LOAD_LOOP(T, double, (double)(widen));                               \
  } while (0)

/* Element l is at data[at[l]], or at data[l * step] without `at`. Inlined
 * into three callers, so that each loop knows its form. */
static inline void load(tir_mode_t mode, tdsl_dtype_t dtype,
                        const void *data, const int64_t *at, int64_t step,
                        void *reg, uint32_t n) {
  bool is_s = mode == TIR_F32;
  switch (storage(mode, dtype)) {
  case TDSL_DTYPE_F64: LOAD_LOOP(double, double, v); break;
  case TDSL_DTYPE_F32: LOAD_LOOP(float, float, v); break;
  case TDSL_DTYPE_F16: LOAD_FLOAT(uint16_t, td_f16_to_f32(v)); break;
  case TDSL_DTYPE_BF16: LOAD_FLOAT(uint16_t, td_bf16_to_f32(v)); break;
  case TDSL_DTYPE_F8E4M3: LOAD_FLOAT(uint8_t, td_f8e4m3_to_f32(v)); break;
  case TDSL_DTYPE_F8E5M2: LOAD_FLOAT(uint8_t, td_f8e5m2_to_f32(v)); break;
  case TDSL_DTYPE_I64: LOAD_LOOP(int64_t, int64_t, v); break;
  case TDSL_DTYPE_I32: LOAD_LOOP(int32_t, int64_t, v); break;
  case TDSL_DTYPE_I8: LOAD_LOOP(int8_t, int64_t, v); break;
  case TDSL_DTYPE_U8: LOAD_LOOP(uint8_t, int64_t, v); break;
  case TDSL_DTYPE_BOOL: LOAD_LOOP(uint8_t, uint8_t, v != 0); break;
  case TDSL_DTYPE_UNSET:
  case TDSL_DTYPE_FORCE32: break;
  }
}

static void load_gather(tir_mode_t mode, tdsl_dtype_t dtype, const void *data,
                        const int64_t *at, void *reg, uint32_t n) {
  load(mode, dtype, data, at, 0, reg, n);
}

static void load_dense(tir_mode_t mode, tdsl_dtype_t dtype, const void *data,
                       void *reg, uint32_t n) {
  load(mode, dtype, data, NULL, 1, reg, n);
}

void tir_fetch(tir_mode_t mode, tdsl_dtype_t dtype, const void *from,
               void *reg) {
  load(mode, dtype, from, NULL, 0, reg, 1);
}

#define SPREAD(T)                                                             \
  do {                                                                        \
    T *z = reg;                                                               \
    for (uint32_t l = 1; l < n; l++) z[l] = z[0];                             \
  } while (0)

/* Copies lane 0 to all lanes. */
void tir_spread(tir_rep_t rep, void *reg, uint32_t n) {
  switch (rep) {
  case TIR_REP_S: SPREAD(float); break;
  case TIR_REP_D: SPREAD(double); break;
  case TIR_REP_I: SPREAD(int64_t); break;
  case TIR_REP_B: SPREAD(uint8_t); break;
  }
}

/* Offsets of lanes whose subscripts are out of range become 0 and the lane
 * reads as 0; unsigned arithmetic, since such subscripts may be anything. */
static void load_checked(const tir_code_t *code, tir_instr_t *in, void *reg,
                         uint32_t n) {
  const tir_access_t *a = in->access;
  int64_t at[TIR_WIDTH];
  uint8_t out[TIR_WIDTH];
  size_t bytes = tir_element_bytes(code->interp->mode, a->cell->tensor.dtype);
  const unsigned char *data = a->cell->tensor.data;
  for (uint32_t l = 0; l < n; l++) {
    at[l] = a->scalar + (a->offsets == NULL ? 0 : a->offsets[l]);
    out[l] = 0;
  }
  for (uint32_t i = 0; i < a->vector_count; i++) {
    const tir_vector_sub_t *sub = &a->vectors[i];
    const int64_t *v = tir_reg(code, sub->reg);
    uint64_t extent = (uint64_t)sub->extent, stride = (uint64_t)sub->stride;
    for (uint32_t l = 0; l < n; l++) {
      out[l] |= (uint64_t)v[l] >= extent;
      at[l] = (int64_t)((uint64_t)at[l] + (uint64_t)v[l] * stride);
    }
  }
  bool any = false;
  for (uint32_t l = 0; l < n; l++) any |= out[l] != 0;
  if (in->bad != NULL) {
    in->any_bad = any;
    memcpy(in->bad, out, n);
  }
  if (!any) {
    load_gather(code->interp->mode, a->cell->tensor.dtype, data, at, reg, n);
    return;
  }
  size_t lane_bytes = in->rep == TIR_REP_B ? 1 : in->rep == TIR_REP_S ? 4 : 8;
  for (uint32_t l = 0; l < n; l++) {
    tir_lane_t one = {.i = 0};
    if (!out[l])
      tir_fetch(code->interp->mode, a->cell->tensor.dtype,
                data + (size_t)at[l] * bytes, &one);
    memcpy((unsigned char *)reg + l * lane_bytes, &one, lane_bytes);
  }
}

/* Scatters up to TIR_STRIP neighbours of each lane into the rows. */
#define SCATTER(T)                                                            \
  do {                                                                        \
    T *rows = (T *)(void *)a->strip;                                          \
    const T *x = (const T *)(const void *)line;                               \
    for (uint32_t d = 0; d < count; d++) rows[d * code->width + l] = x[d];    \
  } while (0)

static void fill_strip(const tir_code_t *code, tir_access_t *a,
                       tir_rep_t rep, uint32_t n) {
  tir_mode_t mode = code->interp->mode;
  tdsl_dtype_t dtype = a->cell->tensor.dtype;
  size_t bytes = tir_element_bytes(mode, dtype);
  int64_t left = code->inner->extent - code->inner->at;
  uint32_t count = left < TIR_STRIP ? (uint32_t)left : TIR_STRIP;
  const unsigned char *data = a->cell->tensor.data;
  tir_lane_t line[TIR_STRIP];
  for (uint32_t l = 0; l < n; l++) {
    load_dense(mode, dtype, data + (size_t)(a->scalar + a->offsets[l]) * bytes,
               line, count);
    switch (rep) {
    case TIR_REP_S: SCATTER(float); break;
    case TIR_REP_D: SCATTER(double); break;
    case TIR_REP_I: SCATTER(int64_t); break;
    case TIR_REP_B: SCATTER(uint8_t); break;
    }
  }
  a->strip_base = a->scalar;
  a->strip_count = count;
}

/* What a lane reads depends on `scalar` alone once the lanes stand, so a row
 * is right whichever loop moved. */
static void load_strip(const tir_code_t *code, tir_access_t *a, tir_rep_t rep,
                       void *reg, uint32_t n) {
  size_t lane = rep == TIR_REP_B ? 1 : rep == TIR_REP_S ? 4 : 8;
  int64_t row = a->scalar - a->strip_base;
  if (row < 0 || row >= a->strip_count) {
    fill_strip(code, a, rep, n);
    row = 0;
  }
  memcpy(reg, a->strip + (size_t)row * code->width * lane, n * lane);
}

void tir_exec_load(const tir_code_t *code, tir_instr_t *in, void *reg,
                   uint32_t n) {
  tir_access_t *a = in->access;
  tir_mode_t mode = code->interp->mode;
  tdsl_dtype_t dtype = a->cell->tensor.dtype;
  if (a->vector_count > 0) {
    load_checked(code, in, reg, n);
    return;
  }
  const unsigned char *data = a->cell->tensor.data;
  size_t bytes = tir_element_bytes(mode, dtype);
  int64_t first = a->scalar + (a->offsets == NULL ? 0 : a->offsets[0]);
  switch (a->pattern) {
  case TIR_ONE:
    tir_fetch(mode, dtype, data + (size_t)first * bytes, reg);
    tir_spread(in->rep, reg, n);
    break;
  case TIR_DENSE:
    load_dense(mode, dtype, data + (size_t)first * bytes, reg, n);
    break;
  case TIR_GATHER:
    if (a->has_strip) {
      load_strip(code, a, in->rep, reg, n);
      break;
    }
    load_gather(mode, dtype, data + (size_t)a->scalar * bytes, a->offsets,
                reg, n);
    break;
  }
}
