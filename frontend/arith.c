/* arith.c: operators and conversions of scalars and whole values.
 *
 * Exact values (constants, integers made of dims) take on the type of the
 * operand they meet; formulas of exact values alone stay exact: integers as
 * polys, floats in binary64.  Other floats are f32, or f64 if one operand is;
 * integers are i32 or i64, which only says where they may be stored: they are
 * computed in 64 bits. */
#include "frontend/check.h"

/* Stacks included. */
bool sem_is_struct(const sem_expr_t *e) {
  return e->type.kind == SEM_STRUCT;
}

/* Scalars are not. */
bool sem_is_tensor(const sem_expr_t *e) {
  return e->type.kind == SEM_TENSOR && e->type.rank > 0;
}

/* Of the elements, whatever the rank. */
bool sem_is_float(const sem_expr_t *e) {
  return !sem_is_struct(e) && td_dtype_is_float(e->type.dtype);
}

/* Of the elements, whatever the rank. */
bool sem_is_int(const sem_expr_t *e) {
  return !sem_is_struct(e) && td_dtype_is_int(e->type.dtype);
}

/* Of the elements, whatever the rank. */
bool sem_is_bool(const sem_expr_t *e) {
  return !sem_is_struct(e) && e->type.dtype == TDSL_DTYPE_BOOL;
}

/* A constant that has not met a type. */
bool sem_is_number_const(const sem_expr_t *e) {
  return e->kind == SEM_CONST && e->is_exact;
}

/* Elementwise: dims and stack stay, the range of integers does not. */
static sem_expr_t *unary_node(sem_ctx_t *c, sem_expr_kind_t kind, sem_op_t op,
                              sem_expr_t *a, tdsl_dtype_t dtype,
                              td_loc_t loc) {
  sem_expr_t *e = sem_new_expr(c, kind, loc);
  e->op = op;
  e->type = a->type;
  e->type.dtype = dtype;
  e->type.syntax = NULL;
  e->type.lo = e->type.hi = NULL;
  e->arg_count = 1;
  e->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 1);
  e->args[0] = a;
  return e;
}

/* ---- integers as polys --------------------------------------------------- */

/* Two of one name stay different: they are different values. */
const ix_poly_t *sem_opaque(sem_ctx_t *c, const char *name, td_loc_t loc,
                            const ix_poly_t *lo, const ix_poly_t *hi) {
  ix_symbol_t *s = ix_symbol_create(c->pool, name, IX_SYM_DATA, loc);
  s->lo = lo;
  s->hi = hi;
  return ix_sym(c->pool, s);
}

/* For tensors a value that stands for any element; only its range is of use. */
const ix_poly_t *sem_element_poly(sem_ctx_t *c, const sem_expr_t *e) {
  if (e->poly != NULL && e->type.rank == 0) return e->poly;
  return sem_opaque(c, "an element", e->loc, e->type.lo, e->type.hi);
}

/* Ranges of elementwise results are intervals, since elements differ. */
static void set_range(sem_ctx_t *c, sem_expr_t *e, const ix_poly_t *p) {
  sem_ends(c, p, &e->type.lo, &e->type.hi);
}

/* Values read from memory are as narrow as their type; formulas are not. */
void sem_set_width(sem_ctx_t *c, const ix_symbol_t *s, tdsl_dtype_t dtype) {
  size_t bits = td_dtype_bytes(dtype) * 8;
  if (bits == 0 || bits >= 64) return;
  td_map_put_u64(&c->widths, (uint64_t)(uintptr_t)s,
                 (void *)(uintptr_t)bits);
}

static const double any_size = 9223372036854775808.0; /* 2^63 */

/* Upper bound of the magnitude of an atom; dims count as 2^31. */
static double atom_size(sem_ctx_t *c, const ix_atom_t *a) {
  const double dim = 2147483648.0, any = any_size;
  if (a->kind != IX_ATOM_SYMBOL) {
    return (a->below.has & 1u << IX_SYM_DATA) != 0 ? any : dim;
  }
  if (a->symbol->kind != IX_SYM_DATA) return dim;
  int64_t lo = 0, hi = 0;
  if (ix_interval(ix_sym(c->pool, a->symbol), &lo, &hi)) {
    double x = -(double)lo, y = (double)hi;
    return x > y ? x : y;
  }
  size_t bits = (size_t)(uintptr_t)td_map_get_u64(
      &c->widths, (uint64_t)(uintptr_t)a->symbol);
  return bits == 0 ? any : (double)(UINT64_C(1) << (bits - 1));
}

/* Proofs take integers to be exact.  Of dims and indices that is so, tensors
 * would be too large before it is not; data may be any 64 bits. */
static bool may_wrap(sem_ctx_t *c, const ix_poly_t *p) {
  double size = 0;
  if ((p->below.has & 1u << IX_SYM_DATA) == 0) return false;
  for (uint32_t i = 0; i < p->term_count; i++) {
    const ix_term_t *t = &p->terms[i];
    double product = t->coefficient < 0 ? -(double)t->coefficient
                                        : (double)t->coefficient;
    bool has_data = false;
    for (uint32_t k = 0; k < t->atom_count; k++) {
      product *= atom_size(c, t->atoms[k]);
      has_data = has_data ||
                 (t->atoms[k]->below.has & 1u << IX_SYM_DATA) != 0;
    }
    /* One value alone cannot wrap. */
    if (p->term_count == 1 && t->atom_count == 1 && t->coefficient == 1) {
      return false;
    }
    if (has_data) size += product;
  }
  if (size < any_size) return false;
  const ix_poly_t *lo = NULL, *hi = NULL;
  sem_ends(c, p, &lo, &hi);
  return lo == NULL || hi == NULL;
}

/* The same poly read twice in a statement is one value, so that a guard on
 * it helps the read. */
static const ix_poly_t *wrapped(sem_ctx_t *c, const ix_poly_t *p,
                                td_loc_t loc) {
  char key[1 + sizeof p] = "W";
  memcpy(key + 1, &p, sizeof p);
  td_str_t name = td_str_n(key, sizeof key);
  const ix_poly_t *q = td_map_get(&c->data, name);
  if (q == NULL) {
    q = sem_opaque(c, sem_slice(c, loc), loc, NULL, NULL);
    td_map_put(&c->data, name, (void *)(uintptr_t)q);
  }
  return q;
}

/* Gives e the value p; a value that no longer fits a poly stands for itself. */
static void set_poly(sem_ctx_t *c, sem_expr_t *e, const ix_poly_t *p) {
  if (e->type.rank > 0) {
    if (p != NULL) set_range(c, e, p);
    return;
  }
  enum { TOO_LONG = 48 };
  if (p != NULL && p->term_count > TOO_LONG) {
    const ix_poly_t *lo = NULL, *hi = NULL;
    sem_ends(c, p, &lo, &hi);
    p = sem_opaque(c, "a sum", e->loc, lo, hi);
  }
  if (p != NULL && c->quiet == 0 && may_wrap(c, p)) {
    p = wrapped(c, p, e->loc);
  }
  e->poly = p != NULL ? p : sem_opaque(c, "a value", e->loc, NULL, NULL);
}

/* Larger powers would be large polys; they stand for themselves. */
static const ix_poly_t *poly_power(sem_ctx_t *c, const ix_poly_t *p,
                                   const sem_expr_t *n) {
  if (n->kind != SEM_CONST || n->i64 > 8) return NULL;
  const ix_poly_t *r = ix_const(c->pool, 1);
  for (int64_t i = 0; i < n->i64; i++) r = ix_mul(c->pool, r, p);
  return r;
}

/* E37. Division by zero cannot happen at run time, so nothing has to say
 * what it would give. */
static bool check_divisor(sem_ctx_t *c, const sem_expr_t *b,
                          const ix_poly_t *q) {
  if (c->quiet > 0 || c->unproved > 0 || sem_positive(c, q)) return true;
  const char *text = sem_poly_text(c, q);
  td_diag_t *d = sem_report(c, TD_E37, b->loc,
                            "cannot prove that the divisor is positive: %s",
                            text);
  if (ix_is_const(q, &(int64_t){0})) {
    td_diag_help(d, "a divisor of integers must be positive");
  } else if ((q->below.has & IX_HAS_VARYING) == 0) {
    td_diag_help(d, "add `require %s >= 1`, or a guard", text);
  } else {
    td_diag_help(d, "guard it: `if %s > 0 then ... else ...`", text);
  }
  return false;
}

/* The value in normal form; false after E37. NULL where it is not known. */
static bool int_poly(sem_ctx_t *c, sem_op_t op, const sem_expr_t *a,
                     const sem_expr_t *b, const ix_poly_t **out) {
  const ix_poly_t *p = sem_element_poly(c, a), *q = sem_element_poly(c, b);
  switch (op) {
  case SEM_OP_ADD: *out = ix_add(c->pool, p, q); return true;
  case SEM_OP_SUB: *out = ix_sub(c->pool, p, q); return true;
  case SEM_OP_MUL: *out = ix_mul(c->pool, p, q); return true;
  case SEM_OP_MIN: *out = ix_min(c->pool, p, q); return true;
  case SEM_OP_MAX: *out = ix_max(c->pool, p, q); return true;
  case SEM_OP_POW: *out = poly_power(c, p, b); return true;
  case SEM_OP_DIV:
  case SEM_OP_MOD:
    if (!check_divisor(c, b, q)) return false;
    *out = op == SEM_OP_DIV ? ix_div(c->pool, p, q, c->facts)
                            : ix_mod(c->pool, p, q, c->facts);
    return true;
  default: *out = NULL; return true;
  }
}

/* ---- dims of operands ---------------------------------------------------- */

/* No broadcasting: equal dims, or a scalar on one side. */
bool sem_dims_agree(sem_ctx_t *c, sem_expr_t *a, sem_expr_t *b, td_loc_t loc,
                    const char *what) {
  if (a->type.rank == 0 || b->type.rank == 0) return true;
  if (sem_differing_dim(c, &a->type, &b->type) == (int)a->type.rank) {
    return true;
  }
  sem_report_dims(c, loc, td_arena_printf(c->arena, " in `%s`", what),
                  &a->type, a->loc, "left", &b->type, b->loc, "right");
  return false;
}

/* The operand that the dims of the result come from. */
static const sem_expr_t *shaped(const sem_expr_t *a, const sem_expr_t *b) {
  return a->type.rank > 0 ? a : b;
}

/* ---- conversions --------------------------------------------------------- */

/* The one rounding of a constant. */
static sem_expr_t *typed_const(sem_ctx_t *c, const sem_expr_t *e,
                               tdsl_dtype_t dtype) {
  sem_expr_t *k = sem_new_expr(c, SEM_CONST, e->loc);
  k->type = sem_scalar(dtype);
  k->is_unknown = e->is_unknown;
  k->i64 = e->i64;
  k->poly = e->poly;
  k->type.lo = e->type.lo;
  k->type.hi = e->type.hi;
  if (td_dtype_is_float(dtype)) {
    double v = td_dtype_is_int(e->type.dtype) ? (double)e->i64 : e->f64;
    /* An f32 constant keeps its digits for the f64 mode; engines that compute
     * in f32 round it when they use it. */
    k->f64 = dtype == TDSL_DTYPE_F32 ? v : td_round_to(dtype, v);
    k->poly = NULL;
  }
  return k;
}

/* An exact value takes the type on, going into the arms of an exact `if`; a
 * float is only widened, never rounded. */
sem_expr_t *sem_adopt(sem_ctx_t *c, sem_expr_t *e, tdsl_dtype_t dtype) {
  if (e->is_exact && e->kind == SEM_CONST) return typed_const(c, e, dtype);
  if (e->is_exact && e->kind == SEM_SELECT) {
    sem_expr_t *k = sem_new_expr(c, SEM_SELECT, e->loc);
    *k = *e;
    k->is_exact = false;
    k->type.dtype = dtype;
    k->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 3);
    k->args[0] = e->args[0];
    for (int i = 1; i < 3; i++) {
      sem_expr_t *arm = (sem_expr_t *)(uintptr_t)e->args[i];
      k->args[i] = sem_adopt(c, arm, dtype);
    }
    return k;
  }
  if (td_dtype_is_float(dtype)) {
    if (sem_is_int(e)) {
      bool is_narrow = dtype != sem_arithmetic(dtype);
      return unary_node(c, is_narrow ? SEM_CAST : SEM_WIDEN, SEM_OP_NONE, e,
                        dtype, e->loc);
    }
    if (e->is_exact) {
      return unary_node(c, SEM_CAST, SEM_OP_NONE, e, dtype, e->loc);
    }
    if (dtype == TDSL_DTYPE_F64 && e->type.dtype != TDSL_DTYPE_F64) {
      return unary_node(c, SEM_WIDEN, SEM_OP_NONE, e, dtype, e->loc);
    }
    return e;
  }
  if (!e->is_exact) return e;
  sem_expr_t *k = sem_new_expr(c, e->kind, e->loc);
  *k = *e;
  k->is_exact = false;
  k->type.dtype = dtype;
  return k;
}

/* What an exact value is if it meets nothing. */
sem_expr_t *sem_settle(sem_ctx_t *c, sem_expr_t *e) {
  if (!e->is_exact) return e;
  return sem_adopt(c, e, sem_is_int(e) ? TDSL_DTYPE_I64 : TDSL_DTYPE_F32);
}

/* ---- operators ----------------------------------------------------------- */

/* ORDER sem_op: the comparisons are neighbours. */
static bool is_comparison(sem_op_t op) {
  return op >= SEM_OP_EQ && op <= SEM_OP_GE;
}

/* As written in the language. */
static const char *op_text(sem_op_t op) {
  static const char *const words[] = {
      [SEM_OP_ADD] = "+",  [SEM_OP_SUB] = "-",   [SEM_OP_MUL] = "*",
      [SEM_OP_DIV] = "/",  [SEM_OP_MOD] = "%",   [SEM_OP_POW] = "^",
      [SEM_OP_MIN] = "min", [SEM_OP_MAX] = "max", [SEM_OP_EQ] = "==",
      [SEM_OP_NE] = "!=",  [SEM_OP_LT] = "<",    [SEM_OP_LE] = "<=",
      [SEM_OP_GT] = ">",   [SEM_OP_GE] = ">=",   [SEM_OP_AND] = "and",
      [SEM_OP_OR] = "or"};
  return words[op];
}

/* Bools and structs take no part in arithmetic. */
static bool wants_number(sem_ctx_t *c, const sem_expr_t *e, sem_op_t op) {
  if (sem_is_struct(e)) {
    td_diag_t *d = sem_report(c, TD_E46, e->loc,
                              "expected a number here, this is a struct %s",
                              e->type.record->name);
    td_diag_help(d, "structs allow `=`, `:=`, `+=`, casts and `each`");
    return false;
  }
  if (!sem_is_bool(e)) return true;
  td_diag_t *d = sem_report(c, TD_E46, e->loc,
                            "expected a number here, `%s` got a bool",
                            op_text(op));
  td_diag_help(d, "`if b then 1 else 0` or `i32(b)` makes a number of a bool");
  return false;
}

/* Lazy, of single bools; the guards they make are assumed by the caller. */
static sem_expr_t *logic(sem_ctx_t *c, sem_op_t op, sem_expr_t *a,
                         sem_expr_t *b, td_loc_t loc) {
  const sem_expr_t *sides[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    const sem_expr_t *s = sides[i];
    if (sem_is_bool(s) && s->type.rank == 0) continue;
    td_diag_t *d = sem_report(c, TD_E46, s->loc,
                              "`%s` wants one bool on each side, this is %s",
                              op_text(op), sem_type_text(c, &s->type));
    td_diag_help(d, sem_is_bool(s) ? "reduce it with `all(...)` or `any(...)`"
                                   : "compare it: `x != 0`");
    return NULL;
  }
  if (a->kind == SEM_CONST && b->kind == SEM_CONST) {
    sem_number_t r;
    sem_fold_binary(c, op, sem_number_of(a), sem_number_of(b), loc, &r);
    return sem_number_expr(c, r, loc);
  }
  sem_expr_t *e = unary_node(c, SEM_BINARY, op, a, TDSL_DTYPE_BOOL, loc);
  e->arg_count = 2;
  e->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 2);
  e->args[0] = a;
  e->args[1] = b;
  return e;
}

/* E18: an integer that is not exact beside a float. */
static void report_mixed(sem_ctx_t *c, const sem_expr_t *a,
                         const sem_expr_t *b, td_loc_t loc, sem_op_t op) {
  const sem_expr_t *i = sem_is_int(a) ? a : b, *f = sem_is_int(a) ? b : a;
  td_diag_t *d = sem_report(c, TD_E18, loc,
                            "an integer meets a float in `%s`", op_text(op));
  td_diag_label(d, i->loc, "%s", sem_type_text(c, &i->type));
  td_diag_label(d, f->loc, "%s", sem_type_text(c, &f->type));
  td_diag_help(d, "write the conversion: `f32(%s)`", sem_slice(c, i->loc));
}

/* Dims from the operand that has some. */
static sem_expr_t *node(sem_ctx_t *c, sem_op_t op, sem_expr_t *a,
                        sem_expr_t *b, tdsl_dtype_t dtype, td_loc_t loc) {
  sem_expr_t *e = sem_new_expr(c, SEM_BINARY, loc);
  e->op = op;
  e->type = shaped(a, b)->type;
  e->type.dtype = dtype;
  e->type.syntax = NULL;
  e->type.lo = e->type.hi = NULL;
  e->arg_count = 2;
  e->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 2);
  e->args[0] = a;
  e->args[1] = b;
  return e;
}

/* Exact and made of dims; `if c then 1 else 2` is exact and is not. */
static bool is_dim(const sem_expr_t *e) {
  return e->is_exact && e->kind != SEM_SELECT;
}

/* Where the value may be stored; it is computed in 64 bits either way. */
static tdsl_dtype_t int_result(const sem_expr_t *a, const sem_expr_t *b) {
  tdsl_dtype_t x = sem_arithmetic(a->type.dtype);
  tdsl_dtype_t y = sem_arithmetic(b->type.dtype);
  if (a->is_exact) return y;
  if (b->is_exact) return x;
  return x == TDSL_DTYPE_I64 || y == TDSL_DTYPE_I64 ? TDSL_DTYPE_I64
                                                    : TDSL_DTYPE_I32;
}

/* Comparisons of dims that are decided by their difference fold, so that
 * guards over dims vanish. */
static sem_expr_t *int_binary(sem_ctx_t *c, sem_op_t op, sem_expr_t *a,
                              sem_expr_t *b, td_loc_t loc) {
  if (is_comparison(op)) {
    int64_t d = 0;
    const ix_poly_t *p = ix_sub(c->pool, a->poly, b->poly);
    if (is_dim(a) && is_dim(b) && p != NULL && ix_is_const(p, &d)) {
      sem_number_t x = {SEM_NUMBER_INT, d, 0}, y = {SEM_NUMBER_INT, 0, 0}, r;
      sem_fold_binary(c, op, x, y, loc, &r);
      return sem_number_expr(c, r, loc);
    }
    return node(c, op, a, b, TDSL_DTYPE_BOOL, loc);
  }
  if (op == SEM_OP_POW && (b->kind != SEM_CONST || b->i64 < 0)) {
    td_diag_t *d = sem_report(c, TD_E18, b->loc, "the power of an integer "
                              "wants a constant exponent of at least 0");
    td_diag_help(d, "make the base a float: `f32(x) ^ n`");
    return NULL;
  }
  const ix_poly_t *p = NULL;
  if (!int_poly(c, op, a, b, &p)) return NULL;
  if (is_dim(a) && is_dim(b)) return sem_dim_value(c, p, loc);
  sem_expr_t *e = node(c, op, a, b, int_result(a, b), loc);
  set_poly(c, e, p);
  return e;
}

/* A constant integer exponent stays an integer: the power is then a product
 * of fixed order. */
static sem_expr_t *power(sem_ctx_t *c, sem_expr_t *a, sem_expr_t *b,
                         td_loc_t loc) {
  /* An integer exponent is no operand that meets a float. */
  bool is_f64 = a->type.dtype == TDSL_DTYPE_F64 && !a->is_exact;
  if (!sem_is_int(b) && !b->is_exact && b->type.dtype == TDSL_DTYPE_F64) {
    is_f64 = true;
  }
  tdsl_dtype_t dtype = is_f64 ? TDSL_DTYPE_F64 : TDSL_DTYPE_F32;
  bool is_exact = a->is_exact && b->is_exact;
  if (is_exact) dtype = TDSL_DTYPE_F64;
  if (sem_is_int(b) && b->kind == SEM_CONST && b->is_exact) {
    b = sem_adopt(c, b, TDSL_DTYPE_I64); /* a product, language.md 7 */
  } else if (sem_is_int(b) && !b->is_exact) {
    b = unary_node(c, SEM_CAST, SEM_OP_NONE, b, dtype, b->loc);
  } else if (!is_exact || sem_is_int(b)) {
    b = sem_adopt(c, b, dtype);
  }
  if (!is_exact || sem_is_int(a)) a = sem_adopt(c, a, dtype);
  sem_expr_t *e = node(c, SEM_OP_POW, a, b, dtype, loc);
  e->is_exact = is_exact;
  return e;
}

/* Exact operands alone give an exact result in binary64, rounded once where
 * it meets a type. */
static sem_expr_t *float_binary(sem_ctx_t *c, sem_op_t op, sem_expr_t *a,
                                sem_expr_t *b, td_loc_t loc,
                                td_loc_t op_loc) {
  if (op == SEM_OP_MOD) {
    td_diag_t *d = sem_report(c, TD_E18, op_loc,
                              "an integer meets a float: `%%` is for "
                              "integers");
    td_diag_label(d, a->loc, "%s", sem_type_text(c, &a->type));
    td_diag_help(d, "`x - n * floor(x / n)` is the remainder of floats");
    return NULL;
  }
  if (op == SEM_OP_POW && sem_is_float(a)) return power(c, a, b, loc);
  if (op == SEM_OP_POW && a->is_exact) return power(c, a, b, loc);
  if ((sem_is_int(a) && !a->is_exact) || (sem_is_int(b) && !b->is_exact)) {
    report_mixed(c, a, b, op_loc, op);
    return NULL;
  }
  bool is_exact = a->is_exact && b->is_exact;
  bool is_f64 = (!a->is_exact && a->type.dtype == TDSL_DTYPE_F64) ||
                (!b->is_exact && b->type.dtype == TDSL_DTYPE_F64);
  tdsl_dtype_t dtype =
      is_exact || is_f64 ? TDSL_DTYPE_F64 : TDSL_DTYPE_F32;
  if (!is_exact || sem_is_int(a)) a = sem_adopt(c, a, dtype);
  if (!is_exact || sem_is_int(b)) b = sem_adopt(c, b, dtype);
  sem_expr_t *e =
      node(c, op, a, b, is_comparison(op) ? TDSL_DTYPE_BOOL : dtype, loc);
  e->is_exact = is_exact && !is_comparison(op);
  return e;
}

/* Kinds, then dims, then constants, then the two kinds of arithmetic. */
sem_expr_t *sem_binary(sem_ctx_t *c, sem_op_t op, sem_expr_t *a,
                       sem_expr_t *b, td_loc_t loc, td_loc_t op_loc) {
  if (op == SEM_OP_AND || op == SEM_OP_OR) return logic(c, op, a, b, loc);
  bool both_bools = sem_is_bool(a) && sem_is_bool(b) &&
                    (op == SEM_OP_EQ || op == SEM_OP_NE);
  if (!both_bools &&
      (!wants_number(c, a, op) || !wants_number(c, b, op))) {
    return NULL;
  }
  if (!sem_dims_agree(c, a, b, op_loc, op_text(op))) return NULL;
  bool unknown = a->is_unknown || b->is_unknown;
  if (a->kind == SEM_CONST && b->kind == SEM_CONST &&
      (both_bools || (a->is_exact && b->is_exact)) &&
      !(unknown && is_comparison(op)) && !(unknown && op == SEM_OP_MOD)) {
    sem_number_t r;
    bool mod = op == SEM_OP_MOD && (!sem_is_int(a) || !sem_is_int(b));
    if (!mod) {
      if (!sem_fold_binary(c, op, sem_number_of(a), sem_number_of(b), op_loc,
                           &r)) {
        return NULL;
      }
      return sem_number_expr(c, r, loc);
    }
  }
  if (both_bools) return node(c, op, a, b, TDSL_DTYPE_BOOL, loc);
  if (sem_is_int(a) && sem_is_int(b)) return int_binary(c, op, a, b, loc);
  return float_binary(c, op, a, b, loc, op_loc);
}

/* Of a value known not to be negative it is the value. */
static const ix_poly_t *abs_poly(sem_ctx_t *c, const sem_expr_t *a) {
  const ix_poly_t *p = sem_element_poly(c, a), *lo = NULL, *hi = NULL;
  if (sem_nonneg(c, p)) return p;
  sem_ends(c, p, &lo, &hi);
  const ix_poly_t *top = NULL; /* max(hi, 1 - lo) */
  if (lo != NULL && hi != NULL) {
    top = ix_max(c->pool, hi, ix_sub(c->pool, ix_const(c->pool, 1), lo));
  }
  return sem_opaque(c, "abs", a->loc, ix_const(c->pool, 0), top);
}

/* Functions of exact integers give floats, as of exact floats. */
sem_expr_t *sem_unary(sem_ctx_t *c, sem_op_t op, sem_expr_t *a, td_loc_t loc,
                      const char *what) {
  if (op != SEM_OP_NOT && (sem_is_bool(a) || sem_is_struct(a))) {
    sem_report(c, TD_E46, a->loc, "expected a number here, `%s` got %s", what,
               sem_is_bool(a) ? "a bool" : "a struct");
    return NULL;
  }
  if (a->kind == SEM_CONST && (a->is_exact || op == SEM_OP_NOT)) {
    sem_number_t r;
    if (!sem_fold_unary(c, op, sem_number_of(a), loc, &r)) return NULL;
    return sem_number_expr(c, r, loc);
  }
  if (op == SEM_OP_NOT) {
    return unary_node(c, SEM_UNARY, op, a, TDSL_DTYPE_BOOL, loc);
  }
  if (!sem_is_int(a)) {
    sem_expr_t *e = unary_node(c, SEM_UNARY, op, a,
                               sem_arithmetic(a->type.dtype), loc);
    e->is_exact = a->is_exact;
    return e;
  }
  if (op == SEM_OP_NEG || op == SEM_OP_ABS) {
    const ix_poly_t *p = op == SEM_OP_ABS
                             ? abs_poly(c, a)
                             : ix_neg(c->pool, sem_element_poly(c, a));
    if (is_dim(a) && op == SEM_OP_NEG) return sem_dim_value(c, p, loc);
    sem_expr_t *e = unary_node(c, SEM_UNARY, op, a,
                               sem_arithmetic(a->type.dtype), loc);
    set_poly(c, e, p);
    return e;
  }
  if (a->is_exact) {
    sem_expr_t *e =
        unary_node(c, SEM_UNARY, op, sem_adopt(c, a, TDSL_DTYPE_F64),
                   TDSL_DTYPE_F64, loc);
    e->is_exact = true;
    return e;
  }
  td_diag_t *d = sem_report(c, TD_E18, a->loc,
                            "`%s` wants a float, this is %s", what,
                            sem_type_text(c, &a->type));
  td_diag_help(d, "write `%s(f32(...))`", what);
  return NULL;
}
