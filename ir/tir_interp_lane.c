/* tir_interp_lane.c: what one instruction does to all its lanes, and the
 * conversions between registers and storage.
 *
 * Every float operation is one IEEE operation of its register's type; the
 * functions that are not (exp, pow ...) are computed in binary64 and rounded.
 * Loops over lanes are plain, so that the compiler may vectorize them: that
 * changes no bit, since lanes do not meet.
 *
 * Operations are total.  A lane whose value nobody wants may hold anything:
 * an integer divided by zero gives 0, a sum that leaves 64 bits wraps, a cast
 * of NaN is 0.  Checked runs mark such lanes, and tir_interp_check.c decides
 * whether it matters.  Each macro has one arithmetic expression per register
 * type; read `x[l]`, `y[l]` as the operands of lane l. */
#include "ir/tir_interp.h"

#include <math.h>

#include "ir/dtype.h"
#include "runtime/base/rng.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* ---- scalar rules of the language ---------------------------------------- */

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

/* ---- casts --------------------------------------------------------------- */

static int64_t clamp_int(tdsl_dtype_t to, int64_t v) {
  if (v < td_dtype_min(to)) return td_dtype_min(to);
  return v > td_dtype_max(to) ? td_dtype_max(to) : v;
}

/* From an integer's own bits to a narrow float in one rounding. */
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

/* Integers and bools; floats never come here. */
static int64_t lane_i64(tir_rep_t rep, const void *reg, uint32_t l) {
  if (rep == TIR_REP_I) return ((const int64_t *)reg)[l];
  return ((const uint8_t *)reg)[l];
}

static bool is_float_rep(tir_rep_t rep) {
  return rep == TIR_REP_S || rep == TIR_REP_D;
}

#define CONVERT(T, R)                                                         \
  do {                                                                        \
    const T *x = arg;                                                         \
    R *z = out;                                                               \
    for (uint32_t l = 0; l < n; l++) z[l] = (R)x[l];                          \
  } while (0)

/* The casts that are one conversion of C, in the loops worth having; false
 * for the others. */
static bool exec_plain_cast(tir_mode_t mode, const tir_instr_t *in, void *out,
                            const void *arg, uint32_t n) {
  tdsl_dtype_t to = in->e->u.to;
  if (to == TDSL_DTYPE_I64 && in->arg_rep == TIR_REP_I)
    CONVERT(int64_t, int64_t);
  else if (to == TDSL_DTYPE_F32 && mode == TIR_F32 &&
           in->arg_rep == TIR_REP_I)
    CONVERT(int64_t, float);
  else if (to == TDSL_DTYPE_F32 && mode == TIR_F32 &&
           in->arg_rep == TIR_REP_S)
    CONVERT(float, float);
  else if (to == TDSL_DTYPE_F64 && in->arg_rep == TIR_REP_I)
    CONVERT(int64_t, double);
  else if (to == TDSL_DTYPE_F64 && in->arg_rep == TIR_REP_S)
    CONVERT(float, double);
  else
    return false;
  return true;
}

/* Every pair of types, one lane at a time; the common ones are plain casts. */
static void exec_cast(const tir_code_t *code, const tir_instr_t *in,
                      void *out, const void *arg, uint32_t n) {
  tir_mode_t mode = code->interp->mode;
  tdsl_dtype_t to = in->e->u.to;
  bool from_float = is_float_rep(in->arg_rep);
  if (exec_plain_cast(mode, in, out, arg, n)) return;
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

/* ---- operations ---------------------------------------------------------- */

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

/* Operations whose text is the same for both widths of float. */
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

/* A whole exponent is exact in binary64 for every power that is not 0 or
 * inf. */
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

/* Wrapping where the language wraps; is_bad says where that happened. */
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

/* An f32 constant has all its digits until here: the float register rounds
 * it, the binary64 one of the f64 mode does not. */
static void exec_const(const tir_instr_t *in, void *out, uint32_t n) {
  switch (in->rep) {
  case TIR_REP_S: *(float *)out = (float)in->e->u.f64; break;
  case TIR_REP_D: *(double *)out = in->e->u.f64; break;
  case TIR_REP_I: *(int64_t *)out = in->e->u.i64; break;
  case TIR_REP_B: *(uint8_t *)out = in->e->u.i64 != 0; break;
  }
  tir_spread(in->rep, out, n);
}

static void exec_index(const tir_code_t *code, const tir_instr_t *in,
                       int64_t *out, uint32_t n) {
  const tir_axis_t *axis = &code->axes[in->axis];
  EACH out[l] = axis->is_lane ? axis->lanes[l] : axis->at;
}

/* A pure function of its integers, so tuples may be drawn in any order. */
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

/* No `default:`: an operation without a meaning does not build. */
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
    tir_spread(TIR_REP_I, out, n);
    break;
  case TIR_X_INDEX: exec_index(code, in, out, n); break;
  case TIR_X_LOAD: tir_exec_load(code, in, out, n); break;
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
