/* f32 and f64 arithmetic, comparisons and approximate functions. NaN results
   are canonical. Without qualifiers a handler is one plain loop; rounding
   modes, .ftz and .sat take slower ones. */
#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/sfu.h"
#include "runtime/simgpu/x.h"

#include <math.h>

static inline float ftz(float x) {
  uint32_t bits = sim_bits_f32(x);
  return (bits & 0x7F800000u) ? x : sim_as_f32(bits & 0x80000000u);
}

static inline uint32_t canonical(float x) {
  return x != x ? SIM_NAN_F32 : sim_bits_f32(x);
}

static inline uint64_t canonical64(double x) {
  return x != x ? SIM_NAN_F64 : sim_bits_f64(x);
}

/* Clamps to [0, 1]; NaN becomes +0. */
static inline float saturate(float x) {
  return x > 0 ? (x < 1 ? x : 1) : 0;
}

static inline uint32_t finish(float x, uint32_t mods) {
  if (mods & SIM_MOD_FTZ) x = ftz(x);
  if (mods & SIM_MOD_SAT) x = saturate(x);
  return canonical(x);
}

/* Approximate functions, by how far hardware may be from the true value. */
typedef enum bound_t {
  BOUND_NONE, /* a rounded operation */
  BOUND_RCP,
  BOUND_SQRT,
  BOUND_RSQRT,
  BOUND_DIV,
  BOUND_EX2,
  BOUND_LG2,
  BOUND_SIN,
  BOUND_COS,
  BOUND_TANH
} bound_t;

/* The true value of an approximate function and its documented bound; a bound
   of 0 where none is promised, or the value is a special one. Where the
   rounded result stands for the true value, the bound is smaller by that. */
static double true_value(bound_t which, float a, float b, float result,
                         double *bound) {
  double x = (double)a, r = (double)result, size = r < 0 ? -r : r;
  uint32_t e = sim_bits_f32(result) >> 23 & 0xFF;
  /* one unit in the last place */
  double ulp = sim_as_f64((uint64_t)(e + 1023 - 127 - 23) << 52);
  double large = x < 0 ? -x : x;
  *bound = 0;
  if (e == 0 || e == 0xFF) return r;
  switch (which) {
  case BOUND_RCP: *bound = ulp; return 1 / x;
  case BOUND_SQRT: *bound = size * 0x1p-23; return sqrt(x);
  case BOUND_RSQRT: *bound = size * 0x1.11p-23; return 1 / sqrt(x);
  case BOUND_DIV: *bound = 2 * ulp; return x / (double)b;
  case BOUND_EX2:
    *bound = x == 0 ? 0 : 2 * ulp;
    return large < 200 ? sim_exp2(x) : r;
  case BOUND_LG2:
    *bound = x > 0.5 && x < 2 ? 0x1.b8p-23 : size * 0x1.7p-23;
    return r;
  case BOUND_SIN:
  case BOUND_COS:
    *bound = x == 0 || large > 314.15 ? 0
             : large > 6.2831         ? 0x1.3ap-15
                                      : 0x1.58p-21;
    return r;
  case BOUND_TANH: *bound = size * 0x1.ff8p-12; return r;
  default: return r;
  }
}

/* Moves results to the edge of what is promised, up or down by the seed. */
static void perturb(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                    bound_t which, const float a[32], const float b[32]) {
  /* the rounded forms share these handlers */
  if (which == BOUND_DIV ? i->cls != SIM_CLASS_SFU
                         : !(i->mods & SIM_MOD_APPROX))
    return;
  sim_f32 *d = (sim_f32 *)(void *)(w->r + i->d);
  uint64_t state =
      w->cta->launch->options->seed * UINT64_C(0x9E3779B97F4A7C15) +
      w->cta->linear * 1315423911u + w->id * 2654435761u + ++w->tensor_serial;
  uint64_t up = sim_random(&state);
  for (uint32_t l = 0; l < 32; l++) {
    double bound, at = true_value(which, a[l], b[l], d[l], &bound);
    if (!SIM_BIT(m) || bound == 0) continue;
    double want = up >> l & 1 ? at + bound : at - bound;
    float f = (float)want;
    /* rounding must not carry it over the edge */
    double over = up >> l & 1 ? (double)f - want : want - (double)f;
    uint32_t bits = sim_bits_f32(f);
    bool grows = (up >> l & 1) != (bits >> 31); /* away from zero */
    if (over > 0) f = sim_as_f32(grows ? bits - 1 : bits + 1);
    if (f - f == 0) d[l] = f;
  }
}

/* Qualifiers that need the lane-by-lane path. */
#define SLOW (SIM_MOD_SAT | SIM_ROUND_MASK)

/* plain: to nearest; exact: in `mode`. */
#define FLOAT(name, plain, exact) APPROX(name, BOUND_NONE, plain, exact)
#define APPROX(name, bound, plain, exact)                                     \
  static inline float name##_plain(float a, float b, float c) {               \
    (void)a, (void)b, (void)c;                                                \
    return plain;                                                             \
  }                                                                           \
  static inline float name##_exact(float a, float b, float c,                 \
                                   sim_round_t mode) {                        \
    (void)a, (void)b, (void)c, (void)mode;                                    \
    return exact;                                                             \
  }                                                                           \
  SIM_DEF(name) {                                                             \
    sim_u32 *d = sim_row(w, i->d);                                            \
    const sim_f32 *a = (const sim_f32 *)(const void *)(w->r + i->a);          \
    const sim_f32 *b = (const sim_f32 *)(const void *)(w->r + i->b);          \
    const sim_f32 *c = (const sim_f32 *)(const void *)(w->r + i->c);          \
    uint32_t mods = i->mods;                                                  \
    sim_round_t mode = (sim_round_t)(mods & SIM_ROUND_MASK);                  \
    float was_a[32], was_b[32];                                               \
    bool moves = (bound) != BOUND_NONE &&                                     \
                 w->cta->launch->options->arith == SIM_ARITH_PERTURBED;       \
    if (moves) {                                                              \
      memcpy(was_a, a, sizeof was_a);                                         \
      memcpy(was_b, b, sizeof was_b);                                         \
    }                                                                         \
    if (!(mods & (SLOW | SIM_MOD_FTZ))) {                                     \
      SIM_STORE(uint32_t, d, canonical(name##_plain(a[l], b[l], c[l])));      \
    } else if (!(mods & SLOW)) {                                              \
      SIM_STORE(uint32_t, d,                                                  \
                canonical(ftz(                                                \
                    name##_plain(ftz(a[l]), ftz(b[l]), ftz(c[l])))));         \
    } else {                                                                  \
      for (uint32_t l = 0; l < 32; l++) {                                     \
        if (!SIM_BIT(m)) continue;                                            \
        float x = a[l], y = b[l], z = c[l];                                   \
        if (mods & SIM_MOD_FTZ) x = ftz(x), y = ftz(y), z = ftz(z);           \
        d[l] = finish(mode == SIM_RN ? name##_plain(x, y, z)                  \
                                     : name##_exact(x, y, z, mode),           \
                      mods);                                                  \
      }                                                                       \
    }                                                                         \
    if (moves) perturb(w, i, m, (bound), was_a, was_b);                       \
    return i + 1;                                                             \
  }

static inline float fma_nearest(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return (float)sim_fma_odd((double)a, (double)b, (double)c);
#endif
}

/* Documented for divisors of large magnitude: a zero, or NaN from infinity. */
static inline float div_approx(float a, float b) {
  if (fabsf(b) > 8.507059173023461586e37f && b - b == 0)
    return a - a == 0 ? copysignf(0.0f, a * b) : a - a;
  return a / b;
}

FLOAT(add_f32, a + b, sim_add_f32(a, b, mode))
FLOAT(sub_f32, a - b, sim_add_f32(a, -b, mode))
FLOAT(mul_f32, a *b, sim_mul_f32(a, b, mode))
FLOAT(fma_f32, fma_nearest(a, b, c), sim_fma_f32(a, b, c, mode))
APPROX(rcp_f32, BOUND_RCP, 1.0f / a, sim_div_f32(1.0f, a, mode))
APPROX(sqrt_f32, BOUND_SQRT, sqrtf(a), sim_sqrt_f32(a, mode))
APPROX(rsqrt_f32, BOUND_RSQRT, (float)(1.0 / sqrt((double)a)), 0.0f)
APPROX(div_f32, BOUND_DIV, a / b, sim_div_f32(a, b, mode))
APPROX(div_fast_f32, BOUND_DIV, div_approx(a, b), 0.0f)
APPROX(sin_f32, BOUND_SIN, sim_sin(a), 0.0f)
APPROX(cos_f32, BOUND_COS, sim_cos(a), 0.0f)
APPROX(tanh_f32, BOUND_TANH, sim_tanh(a), 0.0f)

static inline float ex2(float x) {
  /* beyond these ends every f32 result is 0 or infinity */
  double t = (double)x;
  t = t > 200.0 ? 200.0 : t < -200.0 ? -200.0 : t;
  return x != x ? x : (float)sim_exp2(t);
}
APPROX(ex2_f32, BOUND_EX2, ex2(a), 0.0f)

static inline float lg2(float x) {
  double v = sim_log2((double)x > 0 ? (double)x : 1.0);
  float r = (float)v;
  r = x == 0 ? -INFINITY : r;
  r = x < 0 ? sim_as_f32(SIM_NAN_F32) : r;
  return x - x == 0 ? r : x < 0 ? sim_as_f32(SIM_NAN_F32) : x;
}
APPROX(lg2_f32, BOUND_LG2, lg2(a), 0.0f)

/* One NaN: the other operand; both, or .NaN: canonical. -0 below +0. */
static inline uint32_t pick_f32(float a, float b, uint32_t mods, bool max) {
  uint32_t x = sim_bits_f32(a), y = sim_bits_f32(b);
  uint32_t equal = max ? x & y : x | y;
  bool first = max ? a > b : a < b;
  uint32_t r = a == b ? equal : first ? x : y;
  bool na = a != a, nb = b != b;
  uint32_t sign = (mods & SIM_MOD_XORSIGN) ? (x ^ y) & 0x80000000u : 0;
  r = na ? y : nb ? x : r;
  r = (na && nb) || ((mods & SIM_MOD_NAN) && (na || nb)) ? SIM_NAN_F32 : r;
  return r | sign;
}

#define PICK(name, max)                                                       \
  SIM_DEF(name) {                                                             \
    sim_u32 *d = sim_row(w, i->d);                                            \
    const sim_f32 *a = (const sim_f32 *)(const void *)(w->r + i->a);          \
    const sim_f32 *b = (const sim_f32 *)(const void *)(w->r + i->b);          \
    uint32_t mods = i->mods;                                                  \
    if (mods & (SIM_MOD_FTZ | SIM_MOD_XORSIGN)) {                             \
      for (uint32_t l = 0; l < 32; l++) {                                     \
        if (!SIM_BIT(m)) continue;                                            \
        float x = a[l], y = b[l];                                             \
        uint32_t sign = 0;                                                    \
        if (mods & SIM_MOD_FTZ) x = ftz(x), y = ftz(y);                       \
        if (mods & SIM_MOD_XORSIGN) {                                         \
          sign = (sim_bits_f32(x) ^ sim_bits_f32(y)) & 0x80000000u;           \
          x = fabsf(x), y = fabsf(y);                                         \
        }                                                                     \
        uint32_t r = pick_f32(x, y, mods & SIM_MOD_NAN, max);            \
        d[l] = r == SIM_NAN_F32 ? r : r | sign;                               \
      }                                                                       \
    } else if (mods & SIM_MOD_NAN) {                                          \
      SIM_STORE(uint32_t, d, pick_f32(a[l], b[l], SIM_MOD_NAN, max));         \
    } else {                                                                  \
      SIM_STORE(uint32_t, d, pick_f32(a[l], b[l], 0, max));                   \
    }                                                                         \
    return i + 1;                                                             \
  }
PICK(min_f32, false)
PICK(max_f32, true)

/* Sign operations keep NaN payloads: they are not arithmetic. */
#define SIGN(name, expr)                                                      \
  SIM_DEF(name) {                                                             \
    sim_u32 *d = sim_row(w, i->d);                                            \
    const sim_u32 *a = sim_row(w, i->a), *b = sim_row(w, i->b);               \
    (void)b;                                                                  \
    if (i->mods & SIM_MOD_FTZ) {                                              \
      SIM_STORE(uint32_t, d, sim_bits_f32(ftz(sim_as_f32(expr))));            \
    } else {                                                                  \
      SIM_STORE(uint32_t, d, expr);                                           \
    }                                                                         \
    return i + 1;                                                             \
  }
SIGN(abs_f32, a[l] & 0x7FFFFFFFu)
SIGN(neg_f32, a[l] ^ 0x80000000u)
/* copysign d, a, b takes the sign of a and the magnitude of b */
SIGN(copysign_f32, (b[l] & 0x7FFFFFFFu) | (a[l] & 0x80000000u))

/* -- f64 -- */

#define DOUBLE(name, plain, exact)                                            \
  SIM_DEF(name) {                                                             \
    sim_u64 *d = sim_row64(w, i->d);                                          \
    const sim_f64 *pa = (const sim_f64 *)(const void *)(w->r + i->a);         \
    const sim_f64 *pb = (const sim_f64 *)(const void *)(w->r + i->b);         \
    const sim_f64 *pc = (const sim_f64 *)(const void *)(w->r + i->c);         \
    sim_round_t mode = (sim_round_t)(i->mods & SIM_ROUND_MASK);               \
    for (uint32_t l = 0; l < 32; l++) {                                       \
      if (!SIM_BIT(m)) continue;                                              \
      double a = pa[l], b = pb[l], c = pc[l];                                 \
      (void)a, (void)b, (void)c;                                              \
      d[l] = canonical64(mode == SIM_RN ? (plain) : (exact));                 \
    }                                                                         \
    return i + 1;                                                             \
  }
DOUBLE(add_f64, a + b, sim_op_f64('+', a, b, c, mode))
DOUBLE(sub_f64, a - b, sim_op_f64('-', a, b, c, mode))
DOUBLE(mul_f64, a *b, sim_op_f64('*', a, b, c, mode))
DOUBLE(fma_f64, __builtin_fma(a, b, c), sim_op_f64('f', a, b, c, mode))
DOUBLE(div_f64, a / b, sim_op_f64('/', a, b, c, mode))
DOUBLE(rcp_f64, 1.0 / a, sim_op_f64('/', 1.0, a, c, mode))
DOUBLE(sqrt_f64, sqrt(a), sim_op_f64('s', a, b, c, mode))
DOUBLE(rsqrt_f64, 1.0 / sqrt(a), 0.0)

static inline double pick_f64(double a, double b, bool max) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) {
    uint64_t x = sim_bits_f64(a), y = sim_bits_f64(b);
    return sim_as_f64(max ? x & y : x | y);
  }
  return (max ? a > b : a < b) ? a : b;
}
DOUBLE(min_f64, pick_f64(a, b, false), 0.0)
DOUBLE(max_f64, pick_f64(a, b, true), 0.0)

#define SIGN64(name, expr)                                                    \
  SIM_DEF(name) {                                                             \
    sim_u64 *d = sim_row64(w, i->d);                                          \
    const sim_u64 *a = sim_row64(w, i->a), *b = sim_row64(w, i->b);           \
    (void)b;                                                                  \
    SIM_STORE(uint64_t, d, expr);                                             \
    return i + 1;                                                             \
  }
#define TOP (UINT64_C(1) << 63)
SIGN64(abs_f64, a[l] & ~TOP)
SIGN64(neg_f64, a[l] ^ TOP)
SIGN64(copysign_f64, (b[l] & ~TOP) | (a[l] & TOP))
