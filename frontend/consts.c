/* consts.c: arithmetic of constants, exactly in i64 and in binary64.
 *
 * A constant is rounded once, to the type of the operand that it meets
 * (arith.c); until then integers are exact or an error (E45) and floats are
 * binary64 numbers of IEEE arithmetic. */
#include "frontend/check.h"

#include <math.h>

/* Shortest text that reads back as the same number. */
const char *sem_number_text(sem_ctx_t *c, sem_number_t n) {
  char text[TD_F64_TEXT];
  switch (n.kind) {
  case SEM_NUMBER_INT:
    return td_arena_printf(c->arena, "%lld", (long long)n.i);
  case SEM_NUMBER_BOOL: return n.i ? "true" : "false";
  case SEM_NUMBER_FLOAT:
    td_format_f64(text, n.f);
    return td_arena_strdup(c->arena, text);
  case SEM_NUMBER_NONE:
  case SEM_NUMBER_UNKNOWN: break;
  }
  return "unknown";
}

/* Exact until it meets a float. */
static sem_number_t of_int(int64_t i) {
  return (sem_number_t){SEM_NUMBER_INT, i, 0};
}

/* Binary64 until it meets a type. */
static sem_number_t of_float(double f) {
  return (sem_number_t){SEM_NUMBER_FLOAT, 0, f};
}

/* Result of a comparison of constants. */
static sem_number_t of_bool(bool b) {
  return (sem_number_t){SEM_NUMBER_BOOL, b, 0};
}

/* One rounding, as when an integer constant meets a float. */
static double as_float(sem_number_t n) {
  return n.kind == SEM_NUMBER_INT ? (double)n.i : n.f;
}

/* n ^ e, e >= 0, by squaring; false past i64. */
static bool int_power(int64_t n, int64_t e, int64_t *out) {
  int64_t result = 1;
  if (n == 0 || n == 1) {
    *out = e == 0 ? 1 : n;
    return true;
  }
  if (n == -1) {
    *out = e % 2 == 0 ? 1 : -1;
    return true;
  }
  if (e > 63) return false;
  for (int64_t i = 0; i < e; i++) {
    if (!td_mul_i64(result, n, &result)) return false;
  }
  *out = result;
  return true;
}

/* x ^ e for whole e in -8..8 is a product from left to right. */
static double float_power(double x, sem_number_t e) {
  if (e.kind == SEM_NUMBER_INT && e.i >= -8 && e.i <= 8) {
    int64_t n = e.i < 0 ? -e.i : e.i;
    double result = n == 0 ? 1 : x;
    for (int64_t i = 1; i < n; i++) result *= x;
    return e.i < 0 ? 1 / result : result;
  }
  return pow(x, as_float(e));
}

/* Overflow is an error and never a wrap: a constant is what the author
 * wrote, not what a register holds. */
static bool fold_ints(sem_ctx_t *c, sem_op_t op, int64_t a, int64_t b,
                      td_loc_t loc, sem_number_t *out) {
  int64_t r = 0;
  bool fits = true;
  switch (op) {
  case SEM_OP_ADD: fits = td_add_i64(a, b, &r); break;
  case SEM_OP_SUB: fits = td_sub_i64(a, b, &r); break;
  case SEM_OP_MUL: fits = td_mul_i64(a, b, &r); break;
  case SEM_OP_DIV:
  case SEM_OP_MOD:
    if (b <= 0) {
      td_diag_t *d = sem_report(c, TD_E37, loc,
                                "the divisor of an integer is %lld",
                                (long long)b);
      td_diag_help(d, "a divisor must be positive; `%lld.0` divides floats",
                   (long long)b);
      return false;
    }
    r = op == SEM_OP_DIV ? td_floor_div(a, b) : td_floor_mod(a, b);
    break;
  case SEM_OP_POW:
    if (b < 0) {
      td_diag_t *d = sem_report(c, TD_E18, loc,
                                "an integer to the power of %lld is a float",
                                (long long)b);
      td_diag_help(d, "write `f32(%lld) ^ %lld` or `%lld.0`", (long long)a,
                   (long long)b, (long long)a);
      return false;
    }
    fits = int_power(a, b, &r);
    break;
  case SEM_OP_MIN: r = a < b ? a : b; break;
  case SEM_OP_MAX: r = a > b ? a : b; break;
  case SEM_OP_EQ: *out = of_bool(a == b); return true;
  case SEM_OP_NE: *out = of_bool(a != b); return true;
  case SEM_OP_LT: *out = of_bool(a < b); return true;
  case SEM_OP_LE: *out = of_bool(a <= b); return true;
  case SEM_OP_GT: *out = of_bool(a > b); return true;
  case SEM_OP_GE: *out = of_bool(a >= b); return true;
  default: TD_ICE(c->task, "no operator of integers: %d", (int)op);
  }
  if (!fits) {
    sem_report(c, TD_E45, loc,
               "constant arithmetic leaves the range of i64: %lld and %lld",
               (long long)a, (long long)b);
    return false;
  }
  *out = of_int(r);
  return true;
}

/* max(-0, +0) = +0, NaN if either is. */
static double float_choice(double a, double b, bool is_max) {
  if (isnan(a) || isnan(b)) return (double)NAN;
  if (a == b) return signbit(a) == is_max ? b : a;
  return (a > b) == is_max ? a : b;
}

/* What config has not said yet stays unknown through arithmetic; comparisons
 * of it are left to the caller. */
bool sem_fold_binary(sem_ctx_t *c, sem_op_t op, sem_number_t a,
                     sem_number_t b, td_loc_t loc, sem_number_t *out) {
  if (a.kind == SEM_NUMBER_UNKNOWN || b.kind == SEM_NUMBER_UNKNOWN) {
    *out = (sem_number_t){SEM_NUMBER_UNKNOWN, 0, 0};
    if (op >= SEM_OP_EQ) out->kind = SEM_NUMBER_NONE;
    return true;
  }
  if (op == SEM_OP_AND || op == SEM_OP_OR) {
    *out = of_bool(op == SEM_OP_AND ? a.i && b.i : a.i || b.i);
    return true;
  }
  if (a.kind == SEM_NUMBER_BOOL && b.kind == SEM_NUMBER_BOOL) {
    *out = of_bool((a.i == b.i) == (op == SEM_OP_EQ));
    return true;
  }
  if (a.kind == SEM_NUMBER_INT && b.kind == SEM_NUMBER_INT) {
    return fold_ints(c, op, a.i, b.i, loc, out);
  }
  double x = as_float(a), y = as_float(b);
  switch (op) {
  case SEM_OP_ADD: *out = of_float(x + y); return true;
  case SEM_OP_SUB: *out = of_float(x - y); return true;
  case SEM_OP_MUL: *out = of_float(x * y); return true;
  case SEM_OP_DIV: *out = of_float(x / y); return true;
  case SEM_OP_POW: *out = of_float(float_power(x, b)); return true;
  case SEM_OP_MIN: *out = of_float(float_choice(x, y, false)); return true;
  case SEM_OP_MAX: *out = of_float(float_choice(x, y, true)); return true;
  case SEM_OP_EQ: *out = of_bool(x == y); return true;
  case SEM_OP_NE: *out = of_bool(x != y); return true;
  case SEM_OP_LT: *out = of_bool(x < y); return true;
  case SEM_OP_LE: *out = of_bool(x <= y); return true;
  case SEM_OP_GT: *out = of_bool(x > y); return true;
  case SEM_OP_GE: *out = of_bool(x >= y); return true;
  default: TD_ICE(c->task, "no operator of floats: %d", (int)op);
  }
}

/* The functions of the C library in binary64. The result is rounded once
 * more to the type it meets, which hides their last bit. */
bool sem_fold_unary(sem_ctx_t *c, sem_op_t op, sem_number_t a, td_loc_t loc,
                    sem_number_t *out) {
  if (a.kind == SEM_NUMBER_UNKNOWN) {
    *out = a;
    return true;
  }
  if (op == SEM_OP_NOT) {
    *out = of_bool(!a.i);
    return true;
  }
  if (a.kind == SEM_NUMBER_INT && (op == SEM_OP_NEG || op == SEM_OP_ABS)) {
    if (op == SEM_OP_ABS && a.i >= 0) {
      *out = a;
      return true;
    }
    return fold_ints(c, SEM_OP_SUB, 0, a.i, loc, out);
  }
  double x = as_float(a), r = 0;
  switch (op) {
  case SEM_OP_NEG: r = -x; break;
  case SEM_OP_ABS: r = fabs(x); break;
  case SEM_OP_FLOOR: r = floor(x); break;
  case SEM_OP_CEIL: r = ceil(x); break;
  case SEM_OP_ROUND: r = nearbyint(x); break;
  case SEM_OP_EXP: r = exp(x); break;
  case SEM_OP_EXP2: r = exp2(x); break;
  case SEM_OP_LOG: r = log(x); break;
  case SEM_OP_LOG2: r = log2(x); break;
  case SEM_OP_SQRT: r = sqrt(x); break;
  case SEM_OP_RSQRT: r = 1 / sqrt(x); break;
  case SEM_OP_SIN: r = sin(x); break;
  case SEM_OP_COS: r = cos(x); break;
  case SEM_OP_TANH: r = tanh(x); break;
  case SEM_OP_ERF: r = erf(x); break;
  default: TD_ICE(c->task, "no function of one number: %d", (int)op);
  }
  *out = of_float(r);
  return true;
}

/* NONE for anything but a constant. */
sem_number_t sem_number_of(const sem_expr_t *e) {
  sem_number_t n = {SEM_NUMBER_NONE, 0, 0};
  if (e == NULL || e->kind != SEM_CONST) return n;
  if (e->is_unknown) {
    n.kind = SEM_NUMBER_UNKNOWN;
  } else if (e->type.dtype == TDSL_DTYPE_BOOL) {
    n = of_bool(e->i64 != 0);
  } else if (td_dtype_is_int(e->type.dtype)) {
    n = of_int(e->i64);
  } else {
    n = of_float(e->f64);
  }
  return n;
}

/* An exact constant: it has i64 or f64 for a type until it meets another
 * operand. */
sem_expr_t *sem_number_expr(sem_ctx_t *c, sem_number_t n, td_loc_t loc) {
  sem_expr_t *e = sem_new_expr(c, SEM_CONST, loc);
  e->is_exact = true;
  switch (n.kind) {
  case SEM_NUMBER_INT:
    e->type = sem_scalar(TDSL_DTYPE_I64);
    e->i64 = n.i;
    e->f64 = (double)n.i;
    e->poly = ix_const(c->pool, n.i);
    break;
  case SEM_NUMBER_BOOL:
    e->type = sem_scalar(TDSL_DTYPE_BOOL);
    e->i64 = n.i;
    e->is_exact = false;
    break;
  case SEM_NUMBER_FLOAT:
    e->type = sem_scalar(TDSL_DTYPE_F64);
    e->f64 = n.f;
    break;
  case SEM_NUMBER_UNKNOWN:
    e->type = sem_scalar(TDSL_DTYPE_F64);
    e->f64 = (double)NAN;
    e->is_unknown = true;
    break;
  case SEM_NUMBER_NONE: TD_ICE(c->task, "a constant without a value");
  }
  return e;
}
