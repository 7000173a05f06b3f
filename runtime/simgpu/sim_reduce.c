/* What collectives do to values: elements of the twelve types folded over
   ranks. Narrow floats are folded in f32, f64 in f64, integers in their own
   width, and the result is rounded once; a ring rounds at every hop, as the
   rank there stores what it passes on. */
#include "runtime/simgpu/sfu.h"
#include "runtime/simgpu/sim_comm.h"

#include <math.h>

#define MAX_RANKS SIM_MAX_DEVICES

typedef union value_t {
  float f32;
  double f64;
  uint64_t bits; /* of an integer, extended by its sign if it has one */
} value_t;

static const struct {
  const char *name;
  uint32_t bytes;
  char kind; /* i, u, f (folded in f32), d */
  const sim_format_t *format;
} dtypes[COLL_NCCL_DTYPES] = {
    {"i8", 1, 'i', NULL},  {"u8", 1, 'u', NULL},
    {"i32", 4, 'i', NULL}, {"u32", 4, 'u', NULL},
    {"i64", 8, 'i', NULL}, {"u64", 8, 'u', NULL},
    {"f16", 2, 'f', &sim_format_f16},
    {"f32", 4, 'f', NULL}, {"f64", 8, 'd', NULL},
    {"bf16", 2, 'f', &sim_format_bf16},
    {"f8e4m3", 1, 'f', &sim_format_e4m3},
    {"f8e5m2", 1, 'f', &sim_format_e5m2}};

const char *sim_dtype_name(int dtype) {
  return dtypes[dtype].name;
}

uint32_t sim_dtype_bytes(int dtype) {
  return dtypes[dtype].bytes;
}

/* -- elements -- */

static uint64_t extend(uint64_t bits, uint32_t bytes, bool is_signed) {
  uint32_t shift = 64 - 8 * bytes;
  bits <<= shift;
  return is_signed ? (uint64_t)((int64_t)bits >> shift) : bits >> shift;
}

static value_t load(int dtype, const uint8_t *p) {
  value_t v = {.bits = 0};
  uint64_t bits = 0;
  memcpy(&bits, p, dtypes[dtype].bytes);
  if (dtypes[dtype].kind == 'd')
    memcpy(&v.f64, &bits, 8);
  else if (dtypes[dtype].format)
    v.f32 = (float)sim_widen(dtypes[dtype].format, (uint32_t)bits);
  else if (dtypes[dtype].kind == 'f')
    memcpy(&v.f32, &bits, 4);
  else
    v.bits = extend(bits, dtypes[dtype].bytes, dtypes[dtype].kind == 'i');
  return v;
}

/* fp8 saturates, as the vendor's conversion does by default. */
static void store(int dtype, uint8_t *p, value_t v) {
  uint64_t bits = v.bits;
  if (dtypes[dtype].kind == 'd')
    memcpy(&bits, &v.f64, 8);
  else if (dtypes[dtype].format)
    bits = sim_narrow(dtypes[dtype].format, (double)v.f32, SIM_RN,
                      dtypes[dtype].bytes == 1);
  else if (dtypes[dtype].kind == 'f')
    memcpy(&bits, &v.f32, 4);
  memcpy(p, &bits, dtypes[dtype].bytes);
}

static value_t rounded(int dtype, value_t v) {
  uint8_t bytes[8];
  store(dtype, bytes, v);
  return load(dtype, bytes);
}

/* -- operators -- */

static float combine_f32(int kind, float a, float b) {
  switch (kind) {
  case COLL_NCCL_PROD: return a * b;
  case COLL_NCCL_MAX: return isnan(a) || b > a ? b : a;
  case COLL_NCCL_MIN: return isnan(a) || b < a ? b : a;
  default: return a + b;
  }
}

static double combine_f64(int kind, double a, double b) {
  switch (kind) {
  case COLL_NCCL_PROD: return a * b;
  case COLL_NCCL_MAX: return isnan(a) || b > a ? b : a;
  case COLL_NCCL_MIN: return isnan(a) || b < a ? b : a;
  default: return a + b;
  }
}

static uint64_t combine_bits(int kind, bool is_signed, uint64_t a,
                             uint64_t b) {
  bool is_less = is_signed ? (int64_t)a < (int64_t)b : a < b;
  switch (kind) {
  case COLL_NCCL_PROD: return a * b;
  case COLL_NCCL_MAX: return is_less ? b : a;
  case COLL_NCCL_MIN: return is_less ? a : b;
  default: return a + b;
  }
}

static value_t combine(int dtype, int kind, value_t a, value_t b) {
  value_t out = {.bits = 0};
  char is = dtypes[dtype].kind;
  if (is == 'd')
    out.f64 = combine_f64(kind, a.f64, b.f64);
  else if (is == 'f')
    out.f32 = combine_f32(kind, a.f32, b.f32);
  else /* wraps in the element's width */
    out.bits = extend(combine_bits(kind, is == 'i', a.bits, b.bits),
                      dtypes[dtype].bytes, is == 'i');
  return out;
}

static value_t divided(int dtype, value_t v, uint32_t n) {
  char is = dtypes[dtype].kind;
  if (is == 'd')
    v.f64 /= n;
  else if (is == 'f')
    v.f32 /= (float)n;
  else if (is == 'i')
    v.bits = (uint64_t)((int64_t)v.bits / (int64_t)n);
  else
    v.bits /= n;
  return v;
}

/* -- order -- */

/* The ranks in the order in which they are folded. */
static void make_order(uint32_t *order, uint32_t n, uint32_t chunk,
                       uint64_t *random) {
  sim_reduce_t how = sim_state()->options.reduce;
  /* a ring's chunk starts behind the rank where it ends */
  for (uint32_t i = 0; i < n; i++)
    order[i] = how == SIM_REDUCE_RING ? (chunk + 1 + i) % n : i;
  for (uint32_t i = n; how == SIM_REDUCE_RANDOM && i-- > 1;) {
    uint32_t k = (uint32_t)(sim_random(random) % (i + 1));
    uint32_t swap = order[i];
    order[i] = order[k];
    order[k] = swap;
  }
}

void sim_fold_elements(uint8_t *out, const uint8_t *const *in, uint32_t n,
                       int dtype, const sim_fold_t *const *folds,
                       uint64_t count, uint64_t chunk_elements,
                       uint32_t first_chunk) {
  const sim_fold_t *fold = folds[0];
  uint32_t order[MAX_RANKS], bytes = dtypes[dtype].bytes;
  bool hops = sim_state()->options.reduce == SIM_REDUCE_RING;
  int kind = fold->kind == COLL_NCCL_OPS || fold->kind == COLL_NCCL_AVG
                 ? COLL_NCCL_SUM
                 : fold->kind;
  uint64_t random = sim_state()->options.seed ^ count;
  for (uint64_t i = 0; i < count; i++) {
    if (i % chunk_elements == 0)
      make_order(order, n, first_chunk + (uint32_t)(i / chunk_elements),
                 &random);
    value_t sum = {.bits = 0};
    for (uint32_t k = 0; k < n; k++) {
      value_t v = load(dtype, in[order[k]] + i * bytes);
      if (fold->kind == COLL_NCCL_OPS) {
        const uint8_t *own = (const uint8_t *)&folds[order[k]]->bits;
        v = combine(dtype, COLL_NCCL_PROD, v, load(dtype, own));
      }
      sum = k ? combine(dtype, kind, sum, v) : v;
      if (hops) sum = rounded(dtype, sum);
    }
    if (fold->kind == COLL_NCCL_AVG) sum = divided(dtype, sum, n);
    store(dtype, out + i * bytes, sum);
  }
}
