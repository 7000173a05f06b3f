/* convert.c: choices between two values, and values that go into places of a
 * written type.
 *
 * A store rounds any float; a parameter does not.  Integers are stored if
 * they provably fit, or if their type is no wider than the place. */
#include "frontend/check.h"

#include <math.h>

/* ---- if, max, min -------------------------------------------------------- */

/* Does the constant keep its value in this dtype? */
static bool const_fits(const sem_expr_t *e, tdsl_dtype_t dtype) {
  if (e->kind != SEM_CONST) return false;
  if (td_dtype_is_int(dtype)) {
    return sem_is_int(e) && e->i64 >= td_dtype_min(dtype) &&
           e->i64 <= td_dtype_max(dtype);
  }
  double v = sem_is_int(e) ? (double)e->i64 : e->f64;
  return isnan(v) || td_round_to(dtype, v) == v;
}

/* Equal types stay, a constant takes the other's, provided it keeps its
 * value; else the arithmetic type. */
static tdsl_dtype_t joined_floats(const sem_expr_t *a, const sem_expr_t *b) {
  tdsl_dtype_t x = a->type.dtype, y = b->type.dtype;
  if (a->is_exact && b->is_exact) return TDSL_DTYPE_F64;
  if (a->is_exact) return const_fits(a, y) ? y : sem_arithmetic(y);
  if (b->is_exact) return const_fits(b, x) ? x : sem_arithmetic(x);
  if (x == y) return x;
  return x == TDSL_DTYPE_F64 || y == TDSL_DTYPE_F64 ? TDSL_DTYPE_F64
                                                    : TDSL_DTYPE_F32;
}

/* As for floats. */
static tdsl_dtype_t joined_ints(const sem_expr_t *a, const sem_expr_t *b) {
  tdsl_dtype_t x = a->type.dtype, y = b->type.dtype;
  if (a->is_exact && b->is_exact) return TDSL_DTYPE_I64;
  if (a->is_exact) return const_fits(a, y) ? y : sem_arithmetic(y);
  if (b->is_exact) return const_fits(b, x) ? x : sem_arithmetic(x);
  if (x == y) return x;
  return x == TDSL_DTYPE_I64 || y == TDSL_DTYPE_I64 ? TDSL_DTYPE_I64
                                                    : TDSL_DTYPE_I32;
}

/* E46 between bools and numbers, E18 between integers and floats. */
static bool report_kinds(sem_ctx_t *c, const sem_expr_t *a,
                         const sem_expr_t *b, td_loc_t loc,
                         const char *what) {
  bool bools = sem_is_bool(a) || sem_is_bool(b);
  td_diag_t *d;
  if (bools || sem_is_struct(a) || sem_is_struct(b)) {
    d = sem_report(c, TD_E46, loc, "%s are %s and %s", what,
                   sem_type_text(c, &a->type), sem_type_text(c, &b->type));
  } else {
    d = sem_report(c, TD_E18, loc, "an integer meets a float: %s are %s and "
                   "%s", what, sem_type_text(c, &a->type),
                   sem_type_text(c, &b->type));
    td_diag_help(d, "write `f32(...)` around the integer");
  }
  td_diag_label(d, a->loc, "%s", sem_type_text(c, &a->type));
  td_diag_label(d, b->loc, "%s", sem_type_text(c, &b->type));
  return false;
}

/* Brings both to one dtype. */
static bool join_kinds(sem_ctx_t *c, sem_expr_t **a, sem_expr_t **b,
                       td_loc_t loc, const char *what, tdsl_dtype_t *out) {
  sem_expr_t *x = *a, *y = *b;
  if (sem_is_bool(x) && sem_is_bool(y)) {
    *out = TDSL_DTYPE_BOOL;
    return true;
  }
  if (sem_is_bool(x) || sem_is_bool(y) || sem_is_struct(x) ||
      sem_is_struct(y)) {
    return report_kinds(c, x, y, loc, what);
  }
  if (sem_is_int(x) && sem_is_int(y)) {
    *out = joined_ints(x, y);
    *a = sem_adopt(c, x, *out);
    *b = sem_adopt(c, y, *out);
    return true;
  }
  if ((sem_is_int(x) && !x->is_exact) || (sem_is_int(y) && !y->is_exact)) {
    return report_kinds(c, x, y, loc, what);
  }
  *out = joined_floats(x, y);
  if (sem_is_int(x) && sem_is_float(y) && !y->is_exact) {
    *out = const_fits(x, y->type.dtype) ? y->type.dtype
                                        : sem_arithmetic(y->type.dtype);
  }
  if (sem_is_int(y) && sem_is_float(x) && !x->is_exact) {
    *out = const_fits(y, x->type.dtype) ? x->type.dtype
                                        : sem_arithmetic(x->type.dtype);
  }
  *a = sem_adopt(c, x, *out);
  *b = sem_adopt(c, y, *out);
  return true;
}

/* Decided if it can be, so that ends of ranges stay short. */
static const ix_poly_t *smaller(sem_ctx_t *c, const ix_poly_t *a,
                                const ix_poly_t *b) {
  if (a == NULL || b == NULL) return NULL;
  if (sem_nonneg(c, ix_sub(c->pool, b, a))) return a;
  if (sem_nonneg(c, ix_sub(c->pool, a, b))) return b;
  return ix_min(c->pool, a, b);
}

/* The same for upper ends. */
static const ix_poly_t *larger(sem_ctx_t *c, const ix_poly_t *a,
                               const ix_poly_t *b) {
  if (a == NULL || b == NULL) return NULL;
  if (sem_nonneg(c, ix_sub(c->pool, a, b))) return a;
  if (sem_nonneg(c, ix_sub(c->pool, b, a))) return b;
  return ix_max(c->pool, a, b);
}

/* A constant condition between constants leaves one of them, in the type
 * that both would have had. */
static sem_expr_t *folded_select(sem_ctx_t *c, const sem_expr_t *cond,
                                 sem_expr_t *a, sem_expr_t *b) {
  if (cond->kind != SEM_CONST) return NULL;
  if (!sem_is_number_const(a) || !sem_is_number_const(b)) return NULL;
  sem_expr_t *chosen = cond->i64 ? a : b, *other = cond->i64 ? b : a;
  if (sem_is_int(chosen) && sem_is_float(other)) {
    sem_number_t n = {SEM_NUMBER_FLOAT, 0, (double)chosen->i64};
    return sem_number_expr(c, n, chosen->loc);
  }
  return chosen;
}

/* An exact value as an exact float. */
static sem_expr_t *exact_float(sem_ctx_t *c, sem_expr_t *e) {
  if (sem_is_float(e)) return e;
  if (e->kind == SEM_CONST) {
    sem_number_t n = {SEM_NUMBER_FLOAT, 0, (double)e->i64};
    return sem_number_expr(c, n, e->loc);
  }
  e = sem_adopt(c, e, TDSL_DTYPE_F64);
  e->is_exact = true;
  return e;
}

/* The range of an integer is the hull of what the arms are under their
 * guards. */
sem_expr_t *sem_select(sem_ctx_t *c, sem_expr_t *cond, sem_expr_t *a,
                       sem_expr_t *b, td_loc_t loc) {
  sem_expr_t *folded = folded_select(c, cond, a, b);
  if (folded != NULL) return folded;
  tdsl_dtype_t dtype = TDSL_DTYPE_F64;
  bool exact = a->is_exact && b->is_exact;
  if (exact && sem_is_int(a) && sem_is_int(b)) {
    dtype = TDSL_DTYPE_I64;
  } else if (exact) {
    a = exact_float(c, a);
    b = exact_float(c, b);
  } else if (!join_kinds(c, &a, &b, loc, "the arms of `if`", &dtype)) {
    return NULL;
  }
  if (a->type.rank != b->type.rank || !sem_dims_agree(c, a, b, loc, "if")) {
    if (a->type.rank != b->type.rank) {
      sem_report_dims(c, loc, " in the arms of `if`", &a->type, a->loc,
                      "then", &b->type, b->loc, "else");
    }
    return NULL;
  }
  sem_expr_t *e = sem_new_expr(c, SEM_SELECT, loc);
  e->is_exact = exact;
  e->type = a->type;
  e->type.dtype = dtype;
  e->type.syntax = NULL;
  e->arg_count = 3;
  e->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 3);
  e->args[0] = cond;
  e->args[1] = a;
  e->args[2] = b;
  if (td_dtype_is_int(dtype)) {
    e->type.lo = smaller(c, a->type.lo, b->type.lo);
    e->type.hi = larger(c, a->type.hi, b->type.hi);
    if (e->type.rank == 0) {
      e->poly = sem_opaque(c, "if", loc, e->type.lo, e->type.hi);
    }
  }
  return e;
}

/* max and min keep a storage type that both sides have, like `if`. */
sem_expr_t *sem_choice(sem_ctx_t *c, sem_op_t op, sem_expr_t *a,
                       sem_expr_t *b, td_loc_t loc) {
  const char *what = op == SEM_OP_MAX ? "the operands of max"
                                      : "the operands of min";
  tdsl_dtype_t dtype = TDSL_DTYPE_UNSET;
  bool exact = a->is_exact && b->is_exact;
  if (exact || sem_is_struct(a) || sem_is_struct(b)) {
    return sem_binary(c, op, a, b, loc, loc);
  }
  if (sem_is_int(a) && sem_is_int(b)) dtype = joined_ints(a, b);
  if (!sem_dims_agree(c, a, b, loc, op == SEM_OP_MAX ? "max" : "min")) {
    return NULL;
  }
  if (dtype == TDSL_DTYPE_UNSET) {
    if (!join_kinds(c, &a, &b, loc, what, &dtype)) return NULL;
    if (dtype == TDSL_DTYPE_BOOL) {
      sem_report(c, TD_E46, loc, "expected numbers here, %s are bools", what);
      return NULL;
    }
  }
  sem_expr_t *e = sem_binary(c, op, a, b, loc, loc);
  if (e != NULL) e->type.dtype = dtype;
  return e;
}

/* ---- stores -------------------------------------------------------------- */

/* E12 shows what is stored, where, and the cast that would do it. */
static td_diag_t *report_fit(sem_ctx_t *c, const sem_expr_t *e,
                             const sem_type_t *place, const char *name) {
  sem_type_t scalar = sem_scalar(place->dtype);
  td_diag_t *d;
  if (sem_is_number_const(e)) {
    d = sem_report(c, TD_E12, e->loc,
                   "%s does not fit %s: %s is %s",
                   sem_number_text(c, sem_number_of(e)),
                   td_dtype_name(place->dtype), name,
                   sem_type_text(c, place));
  } else {
    d = sem_report(c, TD_E12, e->loc,
                   "%s does not fit %s without rounding or loss: %s is %s",
                   sem_type_text(c, &e->type), sem_type_text(c, &scalar),
                   name, sem_type_text(c, place));
  }
  td_diag_help(d, "write the conversion: `%s(%s)`",
               td_dtype_name(place->dtype), sem_slice(c, e->loc));
  return d;
}

/* i32 into i32 keeps the low bits; no proof is asked for. */
static bool has_no_wider(tdsl_dtype_t from, tdsl_dtype_t to) {
  return from == to || to == TDSL_DTYPE_I64 ||
         (to == TDSL_DTYPE_I32 && from != TDSL_DTYPE_I64);
}

/* Tensors by the range of their elements. */
static bool element_in(sem_ctx_t *c, const sem_expr_t *e, const ix_poly_t *lo,
                       const ix_poly_t *hi) {
  return sem_in_range(c, sem_element_poly(c, e), lo, hi);
}

/* By type, or by a proof that the value lies in the range of the dtype. */
static bool fits_dtype(sem_ctx_t *c, const sem_expr_t *e,
                       tdsl_dtype_t dtype) {
  if (!e->is_exact && has_no_wider(e->type.dtype, dtype)) return true;
  if (c->quiet > 0 || c->unproved > 0) return true;
  if (dtype == TDSL_DTYPE_I64) return true;
  return element_in(c, e, ix_const(c->pool, td_dtype_min(dtype)),
                    ix_const(c->pool, td_dtype_max(dtype) + 1));
}

/* E42 for places whose type has `in`. */
static bool check_in(sem_ctx_t *c, const sem_expr_t *e,
                     const sem_type_t *place, const char *name) {
  bool natural = place->dtype == TDSL_DTYPE_I8 ||
                 place->dtype == TDSL_DTYPE_U8;
  if (place->lo == NULL || c->quiet > 0 || c->unproved > 0) return true;
  if (natural && e->type.dtype == place->dtype) return true;
  if (element_in(c, e, place->lo, place->hi)) return true;
  const ix_poly_t *lo = NULL, *hi = NULL;
  const ix_poly_t *p = sem_element_poly(c, e);
  sem_ends(c, p, &lo, &hi);
  td_diag_t *d = sem_report(
      c, TD_E42, e->loc, "cannot prove that this lies in %s .. %s, as %s "
      "wants", sem_poly_text(c, place->lo), sem_poly_text(c, place->hi),
      name);
  if (lo != NULL || hi != NULL) {
    td_diag_note(d, "its range is %s .. %s",
                 lo == NULL ? "unknown" : sem_poly_text(c, lo),
                 hi == NULL ? "unknown" : sem_poly_text(c, hi));
  } else {
    td_diag_note(d, "nothing is known of its range");
  }
  td_diag_help(d, "a guard, or `in` on its own type");
  return false;
}

/* Integers have a dtype and perhaps a range to fit. */
static sem_expr_t *int_store(sem_ctx_t *c, sem_expr_t *e,
                             const sem_type_t *place, const char *name) {
  if (!sem_is_int(e) || !fits_dtype(c, e, place->dtype)) {
    report_fit(c, e, place, name);
    return NULL;
  }
  if (!check_in(c, e, place, name)) return NULL;
  return sem_adopt(c, e, place->dtype);
}

/* What no conversion by itself would do. */
static bool kinds_meet(sem_ctx_t *c, const sem_expr_t *e,
                       const sem_type_t *place, const char *name) {
  bool is_bool = place->dtype == TDSL_DTYPE_BOOL;
  if (sem_is_struct(e) || sem_is_bool(e) != is_bool) {
    td_diag_t *d = sem_report(c, TD_E46, e->loc,
                              "expected %s here: %s is %s, this is %s",
                              is_bool ? "bool" : "a number", name,
                              sem_type_text(c, place),
                              sem_type_text(c, &e->type));
    if (is_bool) td_diag_help(d, "compare it: `x != 0`");
    return false;
  }
  if (td_dtype_is_float(place->dtype) && sem_is_int(e) && !e->is_exact) {
    td_diag_t *d = sem_report(c, TD_E18, e->loc,
                              "an integer meets a float: %s is %s, this is "
                              "%s", name, sem_type_text(c, place),
                              sem_type_text(c, &e->type));
    td_diag_help(d, "write `f32(%s)`", sem_slice(c, e->loc));
    return false;
  }
  return true;
}

/* The store itself rounds a float; the tree says so by the written type of
 * the place. */
sem_expr_t *sem_for_store(sem_ctx_t *c, sem_expr_t *e,
                          const sem_type_t *place, const char *name) {
  if (!kinds_meet(c, e, place, name)) return NULL;
  if (td_dtype_is_int(place->dtype)) return int_store(c, e, place, name);
  return sem_adopt(c, e, place->dtype);
}

/* ---- parameters ---------------------------------------------------------- */

/* Every value of the first is one of the second. */
static bool is_exact_into(tdsl_dtype_t from, tdsl_dtype_t to) {
  if (from == to || to == TDSL_DTYPE_F64) return true;
  if (to == TDSL_DTYPE_F32) return from != TDSL_DTYPE_F64;
  bool f8 = from == TDSL_DTYPE_F8E4M3 || from == TDSL_DTYPE_F8E5M2;
  return f8 && (to == TDSL_DTYPE_F16 || to == TDSL_DTYPE_BF16);
}

/* For leaves of structs, where there is no expression to look at. */
bool sem_dtype_passes(tdsl_dtype_t from, tdsl_dtype_t to, bool is_inout) {
  if (from == to) return true;
  if (is_inout) return false;
  if (td_dtype_is_float(from) && td_dtype_is_float(to)) {
    return is_exact_into(from, to);
  }
  return td_dtype_is_int(from) && td_dtype_is_int(to) &&
         has_no_wider(from, to);
}

/* f32 and f64 take every constant, as they do in formulas; narrow parameters
 * only what they hold exactly. */
static sem_expr_t *float_param(sem_ctx_t *c, sem_expr_t *e,
                               const sem_type_t *param, const char *name) {
  bool is_wide = param->dtype == TDSL_DTYPE_F32 ||
                 param->dtype == TDSL_DTYPE_F64;
  bool fits = e->is_exact ? is_wide || e->is_unknown ||
                                (e->kind == SEM_CONST &&
                                 const_fits(e, param->dtype))
                          : is_exact_into(e->type.dtype, param->dtype);
  if (!fits) {
    td_diag_t *d = report_fit(c, e, param, name);
    td_diag_note(d, "a store rounds, a parameter does not");
    return NULL;
  }
  return sem_adopt(c, e, param->dtype);
}

/* As a store, but a parameter never rounds and a float never becomes an
 * integer. */
sem_expr_t *sem_for_param(sem_ctx_t *c, sem_expr_t *e,
                          const sem_type_t *param, const char *name) {
  if (!kinds_meet(c, e, param, name)) return NULL;
  if (td_dtype_is_float(param->dtype)) return float_param(c, e, param, name);
  if (param->dtype == TDSL_DTYPE_BOOL) return e;
  if (sem_is_float(e)) {
    td_diag_t *d = sem_report(c, TD_E18, e->loc,
                              "an integer meets a float: %s is %s, this is "
                              "%s", name, sem_type_text(c, param),
                              sem_type_text(c, &e->type));
    td_diag_help(d, "write `%s(%s)`", td_dtype_name(param->dtype),
                 sem_slice(c, e->loc));
    return NULL;
  }
  return int_store(c, e, param, name);
}
