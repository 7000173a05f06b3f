/* kir_interp_lane.c: what one step does to all its lanes.
 *
 * Every float operation is one IEEE operation of its register's type; the
 * functions that are not (exp, pow ...) are computed in binary64 and rounded.
 * Loops over lanes are plain, so that the compiler may vectorize them: that
 * changes no bit, since lanes do not meet. */
#include "ir/kir_interp.h"

#include <math.h>

#include "ir/tir_interp.h"
#include "runtime/base/num.h"
#include "runtime/base/rng.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

kir_rep_t kir_rep_of(tdsl_dtype_t arithmetic) {
  switch ((int)arithmetic) {
    case TDSL_DTYPE_F32: return KIR_REP_S;
    case TDSL_DTYPE_F64: return KIR_REP_D;
    case TDSL_DTYPE_BOOL: return KIR_REP_B;
    default: return KIR_REP_I;
  }
}

size_t kir_rep_bytes(kir_rep_t rep) {
  switch (rep) {
    case KIR_REP_S: return sizeof(float);
    case KIR_REP_D: return sizeof(double);
    case KIR_REP_I: return sizeof(int64_t);
    case KIR_REP_B: return 1;
  }
  return 8;
}

/* ---- scalar rules of the language -----------------------------------------*/

/* A float exponent of a negative base has no value unless it is 0. */
static double power(double x, double y) {
  if (y == 0) return 1;
  return x < 0 ? (double)NAN : pow(x, y);
}

/* Wraps; the checker has proved the exponent to be >= 0. */
static int64_t int_power(int64_t x, int64_t n) {
  int64_t r = 1;
  for (; n > 0; n >>= 1) {
    if (n & 1) r = td_wrap_mul(r, x);
    x = td_wrap_mul(x, x);
  }
  return r;
}

/* Divisors are proved positive where the value is wanted; elsewhere 0. */
static inline int64_t divide(int64_t x, int64_t y) {
  return y > 0 ? td_floor_div(x, y) : 0;
}
static inline int64_t modulo(int64_t x, int64_t y) {
  return y > 0 ? td_floor_mod(x, y) : 0;
}

/* ---- steps ----------------------------------------------------------------*/

#define EACH for (uint32_t l = 0; l < s->n; l++)
#define STEP(name) static void name(kir_machine_t *m, const kir_step_t *s)
#define ONE(name, T, R, value)                                                \
  STEP(name) {                                                                \
    const T *x = s->a;                                                        \
    R *z = s->out;                                                            \
    (void)m;                                                                  \
    EACH z[l] = (value);                                                      \
  }
#define TWO(name, T, R, value)                                                \
  STEP(name) {                                                                \
    const T *x = s->a, *y = s->b;                                             \
    R *z = s->out;                                                            \
    (void)m;                                                                  \
    EACH z[l] = (value);                                                      \
  }
/* A binary64 function, rounded to the register. */
#define FUNCTION(name, call)                                                  \
  STEP(name##_s) {                                                            \
    const float *x = s->a;                                                    \
    float *z = s->out;                                                        \
    (void)m;                                                                  \
    EACH {                                                                    \
      double v = (double)x[l];                                                \
      z[l] = (float)(call);                                                   \
    }                                                                         \
  }                                                                           \
  STEP(name##_d) {                                                            \
    const double *x = s->a;                                                   \
    double *z = s->out;                                                       \
    (void)m;                                                                  \
    EACH {                                                                    \
      double v = x[l];                                                        \
      z[l] = (call);                                                          \
    }                                                                         \
  }
#define COMPARE(name, op)                                                     \
  TWO(name##_s, float, uint8_t, x[l] op y[l])                                 \
  TWO(name##_d, double, uint8_t, x[l] op y[l])                                \
  TWO(name##_i, int64_t, uint8_t, x[l] op y[l])                               \
  TWO(name##_b, uint8_t, uint8_t, x[l] op y[l])

ONE(neg_s, float, float, -x[l])
ONE(neg_d, double, double, -x[l])
ONE(neg_i, int64_t, int64_t, td_wrap_sub(0, x[l]))
ONE(not_b, uint8_t, uint8_t, !x[l])
ONE(abs_s, float, float, fabsf(x[l]))
ONE(abs_d, double, double, fabs(x[l]))
ONE(abs_i, int64_t, int64_t, x[l] < 0 ? td_wrap_sub(0, x[l]) : x[l])
ONE(floor_s, float, float, floorf(x[l]))
ONE(floor_d, double, double, floor(x[l]))
ONE(ceil_s, float, float, ceilf(x[l]))
ONE(ceil_d, double, double, ceil(x[l]))
ONE(round_s, float, float, rintf(x[l]))
ONE(round_d, double, double, rint(x[l]))
ONE(sqrt_s, float, float, sqrtf(x[l]))
ONE(sqrt_d, double, double, sqrt(x[l]))
ONE(tf32_s, float, float, td_round_tf32(x[l]))
FUNCTION(exp, exp(v))
FUNCTION(exp2, exp2(v))
FUNCTION(log, log(v))
FUNCTION(log2, log2(v))
FUNCTION(rsqrt, 1 / sqrt(v))
FUNCTION(sin, sin(v))
FUNCTION(cos, cos(v))
FUNCTION(tanh, tanh(v))
FUNCTION(erf, erf(v))
TWO(add_s, float, float, x[l] + y[l])
TWO(add_d, double, double, x[l] + y[l])
TWO(add_i, int64_t, int64_t, td_wrap_add(x[l], y[l]))
TWO(sub_s, float, float, x[l] - y[l])
TWO(sub_d, double, double, x[l] - y[l])
TWO(sub_i, int64_t, int64_t, td_wrap_sub(x[l], y[l]))
TWO(mul_s, float, float, x[l] * y[l])
TWO(mul_d, double, double, x[l] * y[l])
TWO(mul_i, int64_t, int64_t, td_wrap_mul(x[l], y[l]))
TWO(div_s, float, float, x[l] / y[l])
TWO(div_d, double, double, x[l] / y[l])
TWO(div_i, int64_t, int64_t, divide(x[l], y[l]))
TWO(mod_i, int64_t, int64_t, modulo(x[l], y[l]))
TWO(min_s, float, float, tir_min_s(x[l], y[l]))
TWO(min_d, double, double, tir_min_d(x[l], y[l]))
TWO(min_i, int64_t, int64_t, x[l] < y[l] ? x[l] : y[l])
TWO(max_s, float, float, tir_max_s(x[l], y[l]))
TWO(max_d, double, double, tir_max_d(x[l], y[l]))
TWO(max_i, int64_t, int64_t, x[l] > y[l] ? x[l] : y[l])
TWO(and_b, uint8_t, uint8_t, x[l] & y[l])
TWO(or_b, uint8_t, uint8_t, x[l] | y[l])
TWO(pow_s, float, float, (float)power((double)x[l], (double)y[l]))
TWO(pow_d, double, double, power(x[l], y[l]))
TWO(pow_i, int64_t, int64_t, int_power(x[l], y[l]))
COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)

/* A whole exponent takes any base. */
STEP(powi_s) {
  const float *x = s->a;
  const int64_t *y = s->b;
  float *z = s->out;
  (void)m;
  EACH z[l] = (float)pow((double)x[l], (double)y[l]);
}
STEP(powi_d) {
  const double *x = s->a;
  const int64_t *y = s->b;
  double *z = s->out;
  (void)m;
  EACH z[l] = pow(x[l], (double)y[l]);
}

/* The processor's fused multiply-add has the bits of fmaf and fma, which
 * also exist without one, so the choice does not show. */
#define FMA_LOOP(T, fused)                                                    \
  do {                                                                        \
    const T *x = s->a, *y = s->b, *c = s->c;                                  \
    T *z = s->out;                                                            \
    (void)m;                                                                  \
    EACH z[l] = fused(x[l], y[l], c[l]);                                      \
  } while (0)
STEP(fma_s) { FMA_LOOP(float, fmaf); }
STEP(fma_d) { FMA_LOOP(double, fma); }
#if defined(__x86_64__) && defined(__GNUC__)
#define FMA_TARGET __attribute__((target("avx2,fma")))
FMA_TARGET STEP(fast_fma_s) { FMA_LOOP(float, __builtin_fmaf); }
FMA_TARGET STEP(fast_fma_d) { FMA_LOOP(double, __builtin_fma); }
static bool has_fma(void) {
  return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
}
#else
#define fast_fma_s fma_s
#define fast_fma_d fma_d
static bool has_fma(void) {
  return false;
}
#endif

#define CHOOSE(name, T)                                                       \
  STEP(name) {                                                                \
    const uint8_t *p = s->a;                                                  \
    const T *x = s->b, *y = s->c;                                             \
    T *z = s->out;                                                            \
    (void)m;                                                                  \
    EACH z[l] = p[l] ? x[l] : y[l];                                           \
  }
CHOOSE(select_s, float)
CHOOSE(select_d, double)
CHOOSE(select_i, int64_t)
CHOOSE(select_b, uint8_t)

#define SPREAD(name, T)                                                       \
  STEP(name) {                                                                \
    T v = *(const T *)s->a;                                                   \
    T *z = s->out;                                                            \
    (void)m;                                                                  \
    EACH z[l] = v;                                                            \
  }
SPREAD(spread_s, float)
SPREAD(spread_d, double)
SPREAD(spread_i, int64_t)
SPREAD(spread_b, uint8_t)
ONE(copy_s, float, float, x[l])
ONE(copy_d, double, double, x[l])
ONE(copy_i, int64_t, int64_t, x[l])
ONE(copy_b, uint8_t, uint8_t, x[l])

STEP(uniform_s) {
  float *z = s->out;
  (void)m;
  EACH {
    int64_t counters[4] = {((const int64_t *)s->b)[l]};
    for (int64_t i = 1; i < s->number; i++) {
      counters[i] = ((const int64_t *)s->more[i - 1])[l];
    }
    z[l] = td_uniform(((const int64_t *)s->a)[l], counters, (int)s->number);
  }
}

/* ---- casts ----------------------------------------------------------------*/

static int64_t clamp_int(tdsl_dtype_t to, int64_t v) {
  if (v < td_dtype_min(to)) return td_dtype_min(to);
  return v > td_dtype_max(to) ? td_dtype_max(to) : v;
}

/* An integer in a float type, rounded once. */
static double float_of_int(tdsl_dtype_t to, int64_t v) {
  unsigned char place[8];
  td_store_i64(to, place, v);
  return td_load_f64(to, place);
}

#define CAST_FROM(name, T, is_float, as_f64, as_i64)                          \
  STEP(name) {                                                                \
    const T *x = s->a;                                                        \
    (void)m;                                                                  \
    EACH {                                                                    \
      double v = 0;                                                           \
      int64_t i = 0;                                                          \
      if (is_float) {                                                         \
        v = td_round_to(s->to, (as_f64));                                     \
      } else if (td_dtype_is_float(s->to)) {                                  \
        v = float_of_int(s->to, (as_i64));                                    \
      }                                                                       \
      switch (s->rep) {                                                       \
        case KIR_REP_S: ((float *)s->out)[l] = (float)v; break;               \
        case KIR_REP_D: ((double *)s->out)[l] = v; break;                     \
        case KIR_REP_I:                                                       \
          i = clamp_int(s->to, (as_i64));                                     \
          ((int64_t *)s->out)[l] = i;                                         \
          break;                                                              \
        case KIR_REP_B: ((uint8_t *)s->out)[l] = x[l] != 0; break;            \
      }                                                                       \
    }                                                                         \
  }
CAST_FROM(cast_s, float, true, (double)x[l], td_f64_to_i64((double)x[l]))
CAST_FROM(cast_d, double, true, x[l], td_f64_to_i64(x[l]))
CAST_FROM(cast_i, int64_t, false, 0, x[l])
CAST_FROM(cast_b, uint8_t, false, 0, x[l])

/* ---- tables ---------------------------------------------------------------*/

#define BY_REP(name)                                                          \
  ((kir_step_fn[]){name##_s, name##_d, name##_i, name##_b})[arg_rep]
#define BY_NUMBER(name)                                                       \
  ((kir_step_fn[]){name##_s, name##_d, name##_i, NULL})[rep]
#define BY_FLOAT(name) ((kir_step_fn[]){name##_s, name##_d, NULL, NULL})[rep]

/* NULL: no such operation at this type, which kir_verify excludes. */
kir_step_fn kir_lane_fn(kir_x_t op, kir_rep_t rep, kir_rep_t arg_rep,
                        bool is_whole) {
  bool fast = op == KIR_X_FMA && has_fma();
  switch (op) {
    case KIR_X_NEG: return BY_NUMBER(neg);
    case KIR_X_NOT: return not_b;
    case KIR_X_ABS: return BY_NUMBER(abs);
    case KIR_X_FLOOR: return BY_FLOAT(floor);
    case KIR_X_CEIL: return BY_FLOAT(ceil);
    case KIR_X_ROUND: return BY_FLOAT(round);
    case KIR_X_EXP: return BY_FLOAT(exp);
    case KIR_X_EXP2: return BY_FLOAT(exp2);
    case KIR_X_LOG: return BY_FLOAT(log);
    case KIR_X_LOG2: return BY_FLOAT(log2);
    case KIR_X_SQRT: return BY_FLOAT(sqrt);
    case KIR_X_RSQRT: return BY_FLOAT(rsqrt);
    case KIR_X_SIN: return BY_FLOAT(sin);
    case KIR_X_COS: return BY_FLOAT(cos);
    case KIR_X_TANH: return BY_FLOAT(tanh);
    case KIR_X_ERF: return BY_FLOAT(erf);
    case KIR_X_ADD: return BY_NUMBER(add);
    case KIR_X_SUB: return BY_NUMBER(sub);
    case KIR_X_MUL: return BY_NUMBER(mul);
    case KIR_X_DIV: return BY_NUMBER(div);
    case KIR_X_MOD: return mod_i;
    case KIR_X_POW:
      if (is_whole && rep != KIR_REP_I) return BY_FLOAT(powi);
      return BY_NUMBER(pow);
    case KIR_X_MIN: return BY_NUMBER(min);
    case KIR_X_MAX: return BY_NUMBER(max);
    case KIR_X_FMA: return fast ? BY_FLOAT(fast_fma) : BY_FLOAT(fma);
    case KIR_X_EQ: return BY_REP(eq);
    case KIR_X_NE: return BY_REP(ne);
    case KIR_X_LT: return BY_REP(lt);
    case KIR_X_LE: return BY_REP(le);
    case KIR_X_GT: return BY_REP(gt);
    case KIR_X_GE: return BY_REP(ge);
    case KIR_X_AND: return and_b;
    case KIR_X_OR: return or_b;
    case KIR_X_SELECT:
      return ((kir_step_fn[]){select_s, select_d, select_i, select_b})[rep];
    case KIR_X_CAST: return BY_REP(cast);
    case KIR_X_ROUND_TF32: return tf32_s;
    case KIR_X_UNIFORM: return uniform_s;
    case KIR_X_CONST: case KIR_X_VAR: case KIR_X_DIM: case KIR_X_LOAD:
    case KIR_X_FOLD: case KIR_X_COUNT:
      break;
  }
  return NULL;
}

kir_step_fn kir_spread_fn(kir_rep_t rep) {
  return ((kir_step_fn[]){spread_s, spread_d, spread_i, spread_b})[rep];
}

kir_step_fn kir_copy_fn(kir_rep_t rep) {
  return ((kir_step_fn[]){copy_s, copy_d, copy_i, copy_b})[rep];
}

void kir_combine(kir_x_t op, kir_rep_t rep, void *out, const void *a,
                 const void *b, uint32_t n) {
  kir_step_t s = {.n = n, .out = out, .a = a, .b = b};
  kir_step_fn run = kir_lane_fn(op, rep, rep, false);
  run(NULL, &s);
}

void kir_run_mask_and(kir_machine_t *m, const kir_step_t *s) {
  const uint8_t *c = s->a;
  uint8_t *z = s->out;
  (void)m;
  EACH z[l] = c[l] & (s->mask == NULL ? 1 : s->mask[l]);
}

void kir_run_mask_and_not(kir_machine_t *m, const kir_step_t *s) {
  const uint8_t *c = s->a;
  uint8_t *z = s->out;
  (void)m;
  EACH z[l] = (c[l] ^ 1) & (s->mask == NULL ? 1 : s->mask[l]);
}
