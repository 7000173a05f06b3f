/* tir_interp_lane.c: what one instruction does to all its lanes, and the
 * conversions between registers and storage.
 *
 * Every float operation is one IEEE operation of its register's type; the
 * functions that are not (exp, pow ...) are computed in binary64 and rounded.
 * Loops over lanes are plain, so that the compiler may vectorize them: that
 * changes no bit, since lanes do not meet. */
#include "ir/tir_interp.h"

#include <math.h>

#include "ir/dtype.h"
#include "runtime/base/rng.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* ---- scalar rules of the language ------------------------------------------------ */

/* A float exponent of a negative base has no value unless it is 0. */
static double power(double x, double y) {
  if (y == 0) return 1;
  return x < 0 ? (double)NAN : pow(x, y);
}

/* Products wrap, so the order of the multiplications does not show. */
static int64_t integer_power(int64_t x, int64_t n, bool *wrapped) {
  int64_t r = 1, square = x;
  for (uint64_t e = n < 0 ? 0 : (uint64_t)n; e != 0; e >>= 1) {
    int64_t t;
    if (e & 1) {
      if (!td_mul_i64(r, square, &t)) *wrapped = true;
      r = td_wrap_mul(r, square);
    }
    if (e > 1 && !td_mul_i64(square, square, &t)) *wrapped = true;
    square = td_wrap_mul(square, square);
  }
  if (n < 0) {
    *wrapped = true;
    return 0;
  }
  return r;
}

/* Nearest tf32 value of a binary64 one, in one rounding: a significand of 11
 * bits, whose last has the weight of 2^-136 at least (a subnormal f32). */
static double tf32_of_f64(double x) {
  int exponent;
  if (!isfinite(x) || x == 0) return x;
  (void)frexp(x, &exponent); /* |x| = 0.5..1 * 2^exponent */
  int unit = exponent - 11;
  if (unit < -136) unit = -136;
  double r = ldexp(rint(ldexp(x, -unit)), unit);
  return fabs(r) > 0x1.ffcp127 ? copysign((double)INFINITY, x) : r;
}

/* ---- casts -------------------------------------------------------------------------- */

static int64_t clamp_int(tdsl_dtype_t to, int64_t v) {
  if (v < td_dtype_min(to)) return td_dtype_min(to);
  return v > td_dtype_max(to) ? td_dtype_max(to) : v;
}

static double cast_int(tir_mode_t mode, tdsl_dtype_t to, int64_t v) {
  unsigned char place[8];
  if (to == TDSL_DTYPE_F64 || (to == TDSL_DTYPE_F32 && mode == TIR_F64))
    return (double)v;
  if (to == TDSL_DTYPE_F32) return (double)(float)v;
  td_store_i64(to, place, v);
  return td_load_f64(to, place);
}

/* The value a float place holds after a store, as binary64. */
static double cast_float(tir_mode_t mode, tdsl_dtype_t to, double v) {
  if (to == TDSL_DTYPE_F32 && mode == TIR_F64) return v;
  return td_round_to(to, v);
}

static double lane_f64(tir_rep_t rep, const void *reg, uint32_t l) {
  switch (rep) {
  case TIR_REP_S: return (double)((const float *)reg)[l];
  case TIR_REP_D: return ((const double *)reg)[l];
  case TIR_REP_I: return (double)((const int64_t *)reg)[l];
  case TIR_REP_B: return (double)((const uint8_t *)reg)[l];
  }
  return 0;
}

static int64_t lane_i64(tir_rep_t rep, const void *reg, uint32_t l) {
  if (rep == TIR_REP_I) return ((const int64_t *)reg)[l];
  return ((const uint8_t *)reg)[l];
}

static bool is_float_rep(tir_rep_t rep) {
  return rep == TIR_REP_S || rep == TIR_REP_D;
}

static void exec_cast(const tir_code_t *code, const tir_instr_t *in,
                      void *out, const void *arg, uint32_t n) {
  tir_mode_t mode = code->interp->mode;
  tdsl_dtype_t to = in->e->u.to;
  bool from_float = is_float_rep(in->arg_rep);
  for (uint32_t l = 0; l < n; l++) {
    if (is_float_rep(in->rep)) {
      double v = from_float
                     ? cast_float(mode, to, lane_f64(in->arg_rep, arg, l))
                     : cast_int(mode, to, lane_i64(in->arg_rep, arg, l));
      if (in->rep == TIR_REP_S)
        ((float *)out)[l] = (float)v;
      else
        ((double *)out)[l] = v;
    } else if (in->rep == TIR_REP_I) {
      int64_t v = from_float ? td_f64_to_i64(lane_f64(in->arg_rep, arg, l))
                             : lane_i64(in->arg_rep, arg, l);
      ((int64_t *)out)[l] = clamp_int(to, v);
    } else {
      ((uint8_t *)out)[l] = from_float
                                ? lane_f64(in->arg_rep, arg, l) != 0
                                : lane_i64(in->arg_rep, arg, l) != 0;
    }
  }
}

/* ---- storage -------------------------------------------------------------------------- */

size_t tir_element_bytes(tir_mode_t mode, tdsl_dtype_t dtype) {
  if (dtype == TDSL_DTYPE_F32 && mode == TIR_F64) return 8;
  return td_dtype_bytes(dtype);
}

/* How storage reads: F32 held as doubles is F64 to the loops below. */
static tdsl_dtype_t storage(tir_mode_t mode, tdsl_dtype_t dtype) {
  if (dtype == TDSL_DTYPE_F32 && mode == TIR_F64) return TDSL_DTYPE_F64;
  return dtype;
}

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
static void spread(tir_rep_t rep, void *reg, uint32_t n) {
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

static void exec_load(const tir_code_t *code, tir_instr_t *in, void *reg,
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
    spread(in->rep, reg, n);
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

/* ---- operations -------------------------------------------------------------------------- */

#define EACH for (uint32_t l = 0; l < n; l++)
#define ONE(T, R, value)                                                      \
  do {                                                                        \
    const T *x = a;                                                           \
    R *z = out;                                                               \
    EACH z[l] = (value);                                                      \
  } while (0)
#define TWO(T, R, value)                                                      \
  do {                                                                        \
    const T *x = a, *y = b;                                                   \
    R *z = out;                                                               \
    EACH z[l] = (value);                                                      \
  } while (0)
/* The same text for both float registers. */
#define FLOAT1(s_value, d_value)                                              \
  do {                                                                        \
    if (rep == TIR_REP_S) ONE(float, float, s_value);                         \
    else ONE(double, double, d_value);                                        \
  } while (0)
#define FLOAT2(s_value, d_value)                                              \
  do {                                                                        \
    if (rep == TIR_REP_S) TWO(float, float, s_value);                         \
    else TWO(double, double, d_value);                                        \
  } while (0)
/* A binary64 function, rounded to the register. */
#define FUNCTION(call)                                                        \
  do {                                                                        \
    if (rep == TIR_REP_S) {                                                   \
      const float *xs = a;                                                    \
      float *z = out;                                                         \
      EACH {                                                                  \
        double v = (double)xs[l];                                             \
        z[l] = (float)(call);                                                 \
      }                                                                       \
    } else {                                                                  \
      const double *xs = a;                                                   \
      double *z = out;                                                        \
      EACH {                                                                  \
        double v = xs[l];                                                     \
        z[l] = (call);                                                        \
      }                                                                       \
    }                                                                         \
  } while (0)
#define COMPARE(op)                                                           \
  do {                                                                        \
    switch (in->arg_rep) {                                                    \
    case TIR_REP_S: TWO(float, uint8_t, x[l] op y[l]); break;                 \
    case TIR_REP_D: TWO(double, uint8_t, x[l] op y[l]); break;                \
    case TIR_REP_I: TWO(int64_t, uint8_t, x[l] op y[l]); break;               \
    case TIR_REP_B: TWO(uint8_t, uint8_t, x[l] op y[l]); break;               \
    }                                                                         \
  } while (0)

static void exec_float(tir_x_t op, tir_rep_t rep, void *out, const void *a,
                       const void *b, uint32_t n) {
  switch (op) {
  case TIR_X_NEG: FLOAT1(-x[l], -x[l]); break;
  case TIR_X_ABS: FLOAT1(fabsf(x[l]), fabs(x[l])); break;
  case TIR_X_FLOOR: FLOAT1(floorf(x[l]), floor(x[l])); break;
  case TIR_X_CEIL: FLOAT1(ceilf(x[l]), ceil(x[l])); break;
  case TIR_X_ROUND: FLOAT1(rintf(x[l]), rint(x[l])); break;
  case TIR_X_SQRT: FLOAT1(sqrtf(x[l]), sqrt(x[l])); break;
  case TIR_X_EXP: FUNCTION(exp(v)); break;
  case TIR_X_EXP2: FUNCTION(exp2(v)); break;
  case TIR_X_LOG: FUNCTION(log(v)); break;
  case TIR_X_LOG2: FUNCTION(log2(v)); break;
  case TIR_X_RSQRT: FUNCTION(1 / sqrt(v)); break;
  case TIR_X_SIN: FUNCTION(sin(v)); break;
  case TIR_X_COS: FUNCTION(cos(v)); break;
  case TIR_X_TANH: FUNCTION(tanh(v)); break;
  case TIR_X_ERF: FUNCTION(erf(v)); break;
  case TIR_X_ADD: FLOAT2(x[l] + y[l], x[l] + y[l]); break;
  case TIR_X_SUB: FLOAT2(x[l] - y[l], x[l] - y[l]); break;
  case TIR_X_MUL: FLOAT2(x[l] * y[l], x[l] * y[l]); break;
  case TIR_X_DIV: FLOAT2(x[l] / y[l], x[l] / y[l]); break;
  case TIR_X_MIN: FLOAT2(tir_min_s(x[l], y[l]), tir_min_d(x[l], y[l])); break;
  case TIR_X_MAX: FLOAT2(tir_max_s(x[l], y[l]), tir_max_d(x[l], y[l])); break;
  case TIR_X_ROUND_TF32:
    FLOAT1(td_round_tf32(x[l]), tf32_of_f64(x[l]));
    break;
  default: break; /* the verifier knows no others over floats */
  }
}

static void exec_pow(const tir_instr_t *in, tir_rep_t y_rep, void *out,
                     const void *a, const void *b, uint32_t n) {
  EACH {
    double x = lane_f64(in->rep, a, l), y = lane_f64(y_rep, b, l);
    double v = y_rep == TIR_REP_I ? pow(x, y) : power(x, y);
    if (in->rep == TIR_REP_S)
      ((float *)out)[l] = (float)v;
    else
      ((double *)out)[l] = v;
  }
}

/* Divisors are proved positive where the value is wanted; elsewhere 0. */
static inline int64_t divide(int64_t x, int64_t y) {
  return y > 0 ? td_floor_div(x, y) : 0;
}
static inline int64_t modulo(int64_t x, int64_t y) {
  return y > 0 ? td_floor_mod(x, y) : 0;
}

static void exec_int(tir_x_t op, void *out, const void *a, const void *b,
                     uint32_t n) {
  bool wrapped;
  switch (op) {
  case TIR_X_NEG: ONE(int64_t, int64_t, td_wrap_sub(0, x[l])); break;
  case TIR_X_ABS:
    ONE(int64_t, int64_t, x[l] < 0 ? td_wrap_sub(0, x[l]) : x[l]);
    break;
  case TIR_X_ADD: TWO(int64_t, int64_t, td_wrap_add(x[l], y[l])); break;
  case TIR_X_SUB: TWO(int64_t, int64_t, td_wrap_sub(x[l], y[l])); break;
  case TIR_X_MUL: TWO(int64_t, int64_t, td_wrap_mul(x[l], y[l])); break;
  case TIR_X_DIV: TWO(int64_t, int64_t, divide(x[l], y[l])); break;
  case TIR_X_MOD: TWO(int64_t, int64_t, modulo(x[l], y[l])); break;
  case TIR_X_MIN: TWO(int64_t, int64_t, x[l] < y[l] ? x[l] : y[l]); break;
  case TIR_X_MAX: TWO(int64_t, int64_t, x[l] > y[l] ? x[l] : y[l]); break;
  case TIR_X_POW:
    TWO(int64_t, int64_t, integer_power(x[l], y[l], &wrapped));
    break;
  default: break;
  }
}

/* Whether an integer operation left i64 or divided by what is not positive;
 * looked at in checked runs only. */
static bool is_bad(tir_x_t op, int64_t x, int64_t y) {
  int64_t t;
  bool wrapped = false;
  switch (op) {
  case TIR_X_NEG: case TIR_X_ABS: return x == INT64_MIN;
  case TIR_X_ADD: return !td_add_i64(x, y, &t);
  case TIR_X_SUB: return !td_sub_i64(x, y, &t);
  case TIR_X_MUL: return !td_mul_i64(x, y, &t);
  case TIR_X_DIV: case TIR_X_MOD: return y <= 0;
  case TIR_X_POW: (void)integer_power(x, y, &wrapped); return wrapped;
  default: return false;
  }
}

static void check_int(tir_instr_t *in, const void *a, const void *b,
                      uint32_t n) {
  const int64_t *x = a, *y = b;
  in->any_bad = false;
  EACH {
    in->bad[l] = is_bad(in->e->op, x[l], y == NULL ? 0 : y[l]);
    in->any_bad |= in->bad[l] != 0;
  }
}

#define CHOOSE(T)                                                             \
  do {                                                                        \
    const uint8_t *c = a;                                                     \
    const T *x = b, *y = tir_reg(code, in->args[2]);                          \
    T *z = out;                                                               \
    EACH z[l] = c[l] ? x[l] : y[l];                                           \
  } while (0)

static void exec_select(const tir_code_t *code, const tir_instr_t *in,
                        void *out, const void *a, const void *b, uint32_t n) {
  switch (in->rep) {
  case TIR_REP_S: CHOOSE(float); break;
  case TIR_REP_D: CHOOSE(double); break;
  case TIR_REP_I: CHOOSE(int64_t); break;
  case TIR_REP_B: CHOOSE(uint8_t); break;
  }
}

static void exec_const(const tir_instr_t *in, void *out, uint32_t n) {
  switch (in->rep) {
  case TIR_REP_S: *(float *)out = (float)in->e->u.f64; break;
  case TIR_REP_D: *(double *)out = in->e->u.f64; break;
  case TIR_REP_I: *(int64_t *)out = in->e->u.i64; break;
  case TIR_REP_B: *(uint8_t *)out = in->e->u.i64 != 0; break;
  }
  spread(in->rep, out, n);
}

static void exec_index(const tir_code_t *code, const tir_instr_t *in,
                       int64_t *out, uint32_t n) {
  const tir_axis_t *axis = &code->axes[in->axis];
  EACH out[l] = axis->is_lane ? axis->lanes[l] : axis->at;
}

static void exec_uniform(const tir_code_t *code, const tir_instr_t *in,
                         void *out, uint32_t n) {
  EACH {
    int64_t counters[4] = {0};
    for (uint32_t i = 1; i < in->arg_count; i++)
      counters[i - 1] = ((const int64_t *)tir_reg(code, in->args[i]))[l];
    int64_t seed = ((const int64_t *)tir_reg(code, in->args[0]))[l];
    float v = td_uniform(seed, counters, (int)in->arg_count - 1);
    if (in->rep == TIR_REP_S)
      ((float *)out)[l] = v;
    else
      ((double *)out)[l] = (double)v;
  }
}

void tir_exec(tir_code_t *code, tir_instr_t *in, uint32_t n) {
  void *out = tir_reg(code, (uint32_t)(in - code->instrs.data));
  const void *a =
      in->arg_count > 0 ? tir_reg(code, in->args[0]) : NULL;
  const void *b =
      in->arg_count > 1 ? tir_reg(code, in->args[1]) : NULL;
  switch (in->e->op) {
  case TIR_X_CONST: exec_const(in, out, n); break;
  case TIR_X_DIM:
    *(int64_t *)out = tir_dim_value(code->interp, in->e->u.dim);
    spread(TIR_REP_I, out, n);
    break;
  case TIR_X_INDEX: exec_index(code, in, out, n); break;
  case TIR_X_LOAD: exec_load(code, in, out, n); break;
  case TIR_X_POW:
    if (in->rep != TIR_REP_I) {
      exec_pow(in, code->instrs.data[in->args[1]].rep, out, a, b, n);
      break;
    } /* fall through */
  case TIR_X_NEG: case TIR_X_ABS: case TIR_X_FLOOR: case TIR_X_CEIL:
  case TIR_X_ROUND: case TIR_X_EXP: case TIR_X_EXP2: case TIR_X_LOG:
  case TIR_X_LOG2: case TIR_X_SQRT: case TIR_X_RSQRT: case TIR_X_SIN:
  case TIR_X_COS: case TIR_X_TANH: case TIR_X_ERF: case TIR_X_ADD:
  case TIR_X_SUB: case TIR_X_MUL: case TIR_X_DIV: case TIR_X_MOD:
  case TIR_X_MIN: case TIR_X_MAX: case TIR_X_ROUND_TF32:
    if (in->rep == TIR_REP_I)
      exec_int(in->e->op, out, a, b, n);
    else
      exec_float(in->e->op, in->rep, out, a, b, n);
    if (in->bad != NULL) check_int(in, a, b, n);
    break;
  case TIR_X_NOT: ONE(uint8_t, uint8_t, !x[l]); break;
  case TIR_X_AND: TWO(uint8_t, uint8_t, x[l] & y[l]); break;
  case TIR_X_OR: TWO(uint8_t, uint8_t, x[l] | y[l]); break;
  case TIR_X_EQ: COMPARE(==); break;
  case TIR_X_NE: COMPARE(!=); break;
  case TIR_X_LT: COMPARE(<); break;
  case TIR_X_LE: COMPARE(<=); break;
  case TIR_X_GT: COMPARE(>); break;
  case TIR_X_GE: COMPARE(>=); break;
  case TIR_X_SELECT: exec_select(code, in, out, a, b, n); break;
  case TIR_X_CAST: exec_cast(code, in, out, a, n); break;
  case TIR_X_UNIFORM: exec_uniform(code, in, out, n); break;
  case TIR_X_COUNT: break;
  }
}
