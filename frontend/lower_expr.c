/* lower_expr.c: one element of a formula.
 *
 * A tensor-valued formula is never built as such: lo_elem is asked for the
 * element at given coordinates and asks its operands for theirs.  A scalar
 * operand of a tensor ignores the coordinates, which is how it spreads.
 *
 * Chains that grow to the left (a + b + c + ...) are laid flat first, so
 * recursion is only as deep as the text nests. */
#include "frontend/lower_impl.h"

/* ---- small constructors ------------------------------------------------- */

tir_expr_t *lo_op1(lo_t *lo, tir_x_t op, tdsl_dtype_t type, tir_expr_t *a,
                   td_loc_t loc) {
  tir_expr_t *e = tir_op(lo->arena, op, type, 1, &a);
  e->loc = loc;
  return e;
}

tir_expr_t *lo_op2(lo_t *lo, tir_x_t op, tdsl_dtype_t type, tir_expr_t *a,
                   tir_expr_t *b, td_loc_t loc) {
  tir_expr_t *args[] = {a, b};
  tir_expr_t *e = tir_op(lo->arena, op, type, 2, args);
  e->loc = loc;
  return e;
}

/* Conditions that inlining has decided; passes fold the rest. */
static bool is_bool(const tir_expr_t *e, bool value) {
  return e->op == TIR_X_CONST && e->type == TDSL_DTYPE_BOOL &&
         (e->u.i64 != 0) == value;
}

/* The type is that of the arms, which the caller has made equal. */
tir_expr_t *lo_select(lo_t *lo, tir_expr_t *c, tir_expr_t *a, tir_expr_t *b,
                      td_loc_t loc) {
  if (is_bool(c, true)) return a;
  if (is_bool(c, false)) return b;
  tir_expr_t *args[] = {c, a, b};
  tir_expr_t *e = tir_op(lo->arena, TIR_X_SELECT, a->type, 3, args);
  e->loc = loc;
  return e;
}

tir_expr_t *lo_int(lo_t *lo, int64_t value) {
  return tir_const_i(lo->arena, TDSL_DTYPE_I64, value);
}

tir_expr_t *lo_dim(lo_t *lo, const ix_poly_t *poly) {
  int64_t n;
  TD_CHECK(lo->task, poly != NULL, "a dim overflows 64 bits");
  return ix_is_const(poly, &n) ? lo_int(lo, n) : tir_dim(lo->arena, poly);
}

tir_expr_t *lo_zero(lo_t *lo, tdsl_dtype_t type) {
  return td_dtype_is_float(type) ? tir_const_f(lo->arena, type, 0)
                                 : tir_const_i(lo->arena, type, 0);
}

tir_expr_t *lo_coerce(lo_t *lo, tir_expr_t *e, tdsl_dtype_t type) {
  if (e->type == type) return e;
  if (e->op == TIR_X_CONST && td_dtype_is_float(type)) {
    double v = td_dtype_is_float(e->type) ? e->u.f64 : (double)e->u.i64;
    tir_expr_t *c = tir_const_f(lo->arena, type, v);
    c->loc = e->loc;
    return c;
  }
  return tir_cast(lo->arena, type, e);
}

tir_expr_t *lo_and(lo_t *lo, tir_expr_t *a, tir_expr_t *b) {
  if (a == NULL || (b != NULL && is_bool(a, true))) return b;
  if (b == NULL || is_bool(b, true)) return a;
  return lo_op2(lo, TIR_X_AND, TDSL_DTYPE_BOOL, a, b, b->loc);
}

static tir_expr_t *negated(lo_t *lo, tir_expr_t *c) {
  if (c->op == TIR_X_CONST)
    return tir_const_i(lo->arena, TDSL_DTYPE_BOOL, c->u.i64 == 0);
  return lo_op1(lo, TIR_X_NOT, TDSL_DTYPE_BOOL, c, c->loc);
}

/* lo_elem where `cond` is known to hold (NULL: nothing new). */
static tir_expr_t *elem_under(lo_t *lo, tir_expr_t *cond,
                              const sem_expr_t *e, tir_expr_t *const *at) {
  tir_expr_t *outer = lo->guard;
  lo->guard = lo_and(lo, outer, cond);
  tir_expr_t *r = lo_elem(lo, e, at);
  lo->guard = outer;
  return r;
}

/* ---- operators ---------------------------------------------------------- */

static tir_x_t op_of(lo_t *lo, sem_op_t op) {
  switch (op) {
  case SEM_OP_NONE: break;
  case SEM_OP_NEG: return TIR_X_NEG;
  case SEM_OP_NOT: return TIR_X_NOT;
  case SEM_OP_ABS: return TIR_X_ABS;
  case SEM_OP_FLOOR: return TIR_X_FLOOR;
  case SEM_OP_CEIL: return TIR_X_CEIL;
  case SEM_OP_ROUND: return TIR_X_ROUND;
  case SEM_OP_EXP: return TIR_X_EXP;
  case SEM_OP_EXP2: return TIR_X_EXP2;
  case SEM_OP_LOG: return TIR_X_LOG;
  case SEM_OP_LOG2: return TIR_X_LOG2;
  case SEM_OP_SQRT: return TIR_X_SQRT;
  case SEM_OP_RSQRT: return TIR_X_RSQRT;
  case SEM_OP_SIN: return TIR_X_SIN;
  case SEM_OP_COS: return TIR_X_COS;
  case SEM_OP_TANH: return TIR_X_TANH;
  case SEM_OP_ERF: return TIR_X_ERF;
  case SEM_OP_ADD: return TIR_X_ADD;
  case SEM_OP_SUB: return TIR_X_SUB;
  case SEM_OP_MUL: return TIR_X_MUL;
  case SEM_OP_DIV: return TIR_X_DIV;
  case SEM_OP_MOD: return TIR_X_MOD;
  case SEM_OP_POW: return TIR_X_POW;
  case SEM_OP_MIN: return TIR_X_MIN;
  case SEM_OP_MAX: return TIR_X_MAX;
  case SEM_OP_EQ: return TIR_X_EQ;
  case SEM_OP_NE: return TIR_X_NE;
  case SEM_OP_LT: return TIR_X_LT;
  case SEM_OP_LE: return TIR_X_LE;
  case SEM_OP_GT: return TIR_X_GT;
  case SEM_OP_GE: return TIR_X_GE;
  case SEM_OP_AND: return TIR_X_AND;
  case SEM_OP_OR: return TIR_X_OR;
  }
  TD_ICE(lo->task, "operator %d", (int)op);
}

static bool is_comparison(sem_op_t op) {
  return op == SEM_OP_EQ || op == SEM_OP_NE || op == SEM_OP_LT ||
         op == SEM_OP_LE || op == SEM_OP_GT || op == SEM_OP_GE;
}

/* The type in which two operands meet. */
static tdsl_dtype_t meet(const tir_expr_t *a, const tir_expr_t *b) {
  if (a->type == b->type) return a->type;
  if (a->type == TDSL_DTYPE_F64 || b->type == TDSL_DTYPE_F64)
    return TDSL_DTYPE_F64;
  if (a->type == TDSL_DTYPE_F32 || b->type == TDSL_DTYPE_F32)
    return TDSL_DTYPE_F32;
  return TDSL_DTYPE_I64;
}

/* A whole exponent that the checker has made a float of: as an integer it
 * tells POW that it is whole.  A cast in the text is longer than what it
 * casts. */
static bool is_implied(const sem_expr_t *e) {
  if (e->kind != SEM_WIDEN && e->kind != SEM_CAST) return false;
  const sem_expr_t *from = e->args[0];
  return td_dtype_is_int(from->type.dtype) && e->loc.line == from->loc.line &&
         e->loc.column == from->loc.column &&
         e->loc.end_line == from->loc.end_line &&
         e->loc.end_column == from->loc.end_column;
}

/* The value of an exponent that is a constant integer. */
static bool whole_constant(lo_t *lo, const sem_expr_t *e, int64_t *out) {
  if (is_implied(e)) e = e->args[0];
  if (e->kind == SEM_DIM) return ix_is_const(lo_poly(lo, e->poly), out);
  if (e->kind != SEM_CONST || !td_dtype_is_int(e->type.dtype)) return false;
  *out = e->i64;
  return true;
}

/* x ^ n: products from left to right for n of -8 .. 8; of integers, whose
 * products wrap and so may be grouped in any way, for every n. */
static tir_expr_t *power(lo_t *lo, tir_expr_t *x, const sem_expr_t *exponent,
                         tir_expr_t *const *at, td_loc_t loc) {
  int64_t n;
  bool is_float = td_dtype_is_float(x->type);
  if (whole_constant(lo, exponent, &n) &&
      (is_float ? n >= -8 && n <= 8 : n >= 0)) {
    tir_expr_t *one = is_float ? tir_const_f(lo->arena, x->type, 1)
                               : tir_const_i(lo->arena, x->type, 1);
    if (n == 0) return one;
    tir_expr_t *r = NULL;
    if (!is_float && n > 8) {
      for (tir_expr_t *square = x;; ) {
        if (n & 1)
          r = r == NULL ? square
                        : lo_op2(lo, TIR_X_MUL, x->type, r, square, loc);
        n >>= 1;
        if (n == 0) return r;
        square = lo_op2(lo, TIR_X_MUL, x->type, square, square, loc);
      }
    }
    int64_t count = n < 0 ? -n : n;
    r = x;
    for (int64_t i = 1; i < count; i++)
      r = lo_op2(lo, TIR_X_MUL, x->type, r, x, loc);
    return n > 0 ? r : lo_op2(lo, TIR_X_DIV, x->type, one, r, loc);
  }
  if (is_implied(exponent)) exponent = exponent->args[0];
  tir_expr_t *y = lo_elem(lo, exponent, at);
  if (td_dtype_is_float(y->type)) y = lo_coerce(lo, y, x->type);
  return lo_op2(lo, TIR_X_POW, x->type, x, y, loc);
}

/* a is lowered already, being the left of a chain. */
static tir_expr_t *binary(lo_t *lo, const sem_expr_t *e, tir_expr_t *a,
                          tir_expr_t *const *at) {
  tdsl_dtype_t type = tir_arithmetic(e->type.dtype);
  const sem_expr_t *right = e->args[1];
  tir_expr_t *const *right_at = right->type.rank == 0 ? NULL : at;
  if (e->op == SEM_OP_AND || e->op == SEM_OP_OR) {
    bool is_and = e->op == SEM_OP_AND;
    if (is_bool(a, !is_and)) return a;
    tir_expr_t *known = is_and ? a : negated(lo, a);
    tir_expr_t *b = elem_under(lo, known, right, right_at);
    if (is_bool(a, is_and)) return b;
    return lo_op2(lo, op_of(lo, e->op), TDSL_DTYPE_BOOL, a, b, e->loc);
  }
  if (e->op == SEM_OP_POW)
    return power(lo, lo_coerce(lo, a, type), right, right_at, e->loc);
  tir_expr_t *b = lo_elem(lo, right, right_at);
  tdsl_dtype_t operands = is_comparison(e->op) ? meet(a, b) : type;
  a = lo_coerce(lo, a, operands);
  b = lo_coerce(lo, b, operands);
  return lo_op2(lo, op_of(lo, e->op), type, a, b, e->loc);
}

/* ---- chains to the left ------------------------------------------------- */

static bool is_link(const sem_expr_t *e) {
  return e->kind == SEM_BINARY || e->kind == SEM_UNARY ||
         e->kind == SEM_CAST || e->kind == SEM_WIDEN;
}

/* One step of a chain: e applied to its left operand a. */
static tir_expr_t *link_up(lo_t *lo, const sem_expr_t *e, tir_expr_t *a,
                           tir_expr_t *const *at) {
  tdsl_dtype_t type = tir_arithmetic(e->type.dtype);
  if (e->kind == SEM_BINARY) return binary(lo, e, a, at);
  if (e->kind == SEM_WIDEN) return lo_coerce(lo, a, type);
  if (e->kind == SEM_CAST) {
    /* To the type it has; or a constant, which rounds once when used. */
    if (type == e->type.dtype &&
        (a->type == type ||
         (a->op == TIR_X_CONST && td_dtype_is_float(type))))
      return lo_coerce(lo, a, type);
    tir_expr_t *c = tir_cast(lo->arena, e->type.dtype, a);
    c->loc = e->loc;
    return c;
  }
  if (e->op == SEM_OP_NOT) return negated(lo, a);
  return lo_op1(lo, op_of(lo, e->op), type, lo_coerce(lo, a, type), e->loc);
}

/* The operand at the bottom first, then each link over it. */
static tir_expr_t *chain(lo_t *lo, const sem_expr_t *e,
                         tir_expr_t *const *at) {
  td_arena_t scratch;
  td_arena_init(&scratch, lo->task);
  TD_VEC(const sem_expr_t *) links = {0};
  const sem_expr_t *bottom = e;
  for (; is_link(bottom); bottom = bottom->args[0])
    td_vec_push(&scratch, &links, bottom);
  tir_expr_t *r = lo_elem(lo, bottom, bottom->type.rank == 0 ? NULL : at);
  for (size_t i = links.length; i-- > 0;) {
    const sem_expr_t *link = links.data[i];
    r = link_up(lo, link, r, link->type.rank == 0 ? NULL : at);
  }
  td_arena_free_all(&scratch);
  return r;
}

/* ---- the rest ----------------------------------------------------------- */

static tir_expr_t *constant(lo_t *lo, const sem_expr_t *e) {
  tdsl_dtype_t type = tir_arithmetic(e->type.dtype);
  tir_expr_t *c = td_dtype_is_float(type)
                      ? tir_const_f(lo->arena, type, e->f64)
                      : tir_const_i(lo->arena, type, e->i64);
  c->loc = e->loc;
  return c;
}

/* Each arm under what the condition says of it; where the condition is a
 * number by now, only the arm that it chooses. */
static tir_expr_t *choice(lo_t *lo, const sem_expr_t *e,
                          tir_expr_t *const *at) {
  tdsl_dtype_t type = tir_arithmetic(e->type.dtype);
  tir_expr_t *c = lo_scalar(lo, e->args[0]);
  tir_expr_t *arms[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    const sem_expr_t *arm = e->args[1 + i];
    if (is_bool(c, i == 1)) continue; /* never chosen */
    tir_expr_t *known = i == 0 ? c : negated(lo, c);
    arms[i] = lo_coerce(
        lo, elem_under(lo, known, arm, arm->type.rank == 0 ? NULL : at),
        type);
  }
  if (arms[0] == NULL) return arms[1];
  if (arms[1] == NULL) return arms[0];
  return lo_select(lo, c, arms[0], arms[1], e->loc);
}

/* x[e.. | v]: a test for each subscript that is not an index over just
 * that dim. */
static tir_expr_t *padded(lo_t *lo, const sem_expr_t *e) {
  tdsl_dtype_t type = tir_arithmetic(e->type.dtype);
  const lo_view_t *base = lo_view(lo, e->args[0]);
  tir_expr_t *subs[IX_MAX_RANK], *inside = NULL;
  for (uint32_t i = 0; i < e->sub_count; i++) {
    td_loc_t loc = e->subs[i].loc;
    tir_expr_t *s = lo_scalar(lo, e->subs[i].expr);
    subs[i] = s;
    if (s->op == TIR_X_INDEX && s->u.index->extent == base->dims[i])
      continue;
    tir_expr_t *low = lo_op2(lo, TIR_X_GE, TDSL_DTYPE_BOOL, s,
                             lo_int(lo, 0), loc);
    tir_expr_t *high = lo_op2(lo, TIR_X_LT, TDSL_DTYPE_BOOL, s,
                              lo_dim(lo, base->dims[i]), loc);
    inside = lo_and(lo, inside, lo_and(lo, low, high));
  }
  tir_expr_t *value =
      lo_coerce(lo, lo_view_load(lo, base, subs, e->loc), type);
  if (inside == NULL) return value;
  tir_expr_t *other =
      elem_under(lo, negated(lo, inside), e->otherwise, NULL);
  return lo_select(lo, inside, value, lo_coerce(lo, other, type), e->loc);
}

/* Subscripts of a formula, `(a + b)[i, :]`: the element of the formula. */
static tir_expr_t *subscripted(lo_t *lo, const sem_expr_t *e,
                               tir_expr_t *const *at) {
  tir_expr_t *inner[IX_MAX_RANK];
  uint32_t slot = 0;
  for (uint32_t i = 0; i < e->sub_count; i++)
    inner[i] = e->subs[i].expr == NULL ? at[slot++]
                                       : lo_scalar(lo, e->subs[i].expr);
  return lo_elem(lo, e->args[0], inner);
}

/* Seed and counters are integers of 64 bits, the result is an f32. */
static tir_expr_t *draw(lo_t *lo, const sem_expr_t *e) {
  tir_expr_t **args = TD_NEW_ARRAY(lo->arena, tir_expr_t *, e->arg_count);
  for (uint32_t i = 0; i < e->arg_count; i++)
    args[i] =
        lo_coerce(lo, lo_scalar(lo, e->args[i]), TDSL_DTYPE_I64);
  tir_expr_t *r = tir_op(lo->arena, TIR_X_UNIFORM, TDSL_DTYPE_F32,
                         e->arg_count, args);
  r->loc = e->loc;
  return r;
}

static tir_expr_t *index_value(lo_t *lo, const sem_expr_t *e) {
  tir_expr_t *r = td_map_get_u64(&lo->frame->indices,
                                 (uint64_t)(uintptr_t)e->index);
  TD_CHECK(lo->task, r != NULL, "index %s has no value here",
           e->index->name);
  return r;
}

void lo_refuse_grad(lo_t *lo, const sem_expr_t *e) {
  td_diag_t *d = td_diag(lo->task, TD_B01, e->loc,
                         "this version cannot compile grad yet");
  td_diag_help(d, "write the derivative as formulas of its own; `tdslc check` "
               "accepts grad");
  for (const lo_frame_t *f = lo->frame; f != NULL; f = f->caller)
    td_diag_note(d, "in function %s", f->func->name);
  td_raise(lo->task, TDSL_STATUS_UNAVAILABLE, "grad");
}

static tir_expr_t *elem(lo_t *lo, const sem_expr_t *e,
                        tir_expr_t *const *at) {
  tdsl_dtype_t type = tir_arithmetic(e->type.dtype);
  if (is_link(e)) return chain(lo, e, at);
  switch (e->kind) {
  case SEM_CONST: return constant(lo, e);
  case SEM_DIM: return lo_dim(lo, lo_poly(lo, e->poly));
  case SEM_INDEX: return index_value(lo, e);
  case SEM_SELECT: return choice(lo, e, at);
  case SEM_UNIFORM: return draw(lo, e);
  case SEM_REDUCE:
  case SEM_REDUCE_ALL: return lo_coerce(lo, lo_reduce(lo, e, at), type);
  case SEM_NAME:
  case SEM_FIELD: break;
  case SEM_SUBSCRIPT:
    if (e->otherwise != NULL) return padded(lo, e);
    if (!lo_is_chain(e)) return lo_coerce(lo, subscripted(lo, e, at), type);
    break;
  case SEM_CALL: {
    lo_value_t v = lo_call_value(lo, e);
    const lo_view_t *view = v.leaves[0];
    return lo_coerce(lo, lo_view_load(lo, view, at, e->loc), type);
  }
  case SEM_GRAD: lo_refuse_grad(lo, e);
  case SEM_TOPK:
  case SEM_UNARY:
  case SEM_BINARY:
  case SEM_CAST:
  case SEM_WIDEN: TD_ICE(lo->task, "expression of kind %d", (int)e->kind);
  }
  return lo_coerce(lo, lo_view_load(lo, lo_view(lo, e), at, e->loc), type);
}

/* Formulas nest at most as deep as the parser lets them, but calls put those
 * of their bodies on top. */
tir_expr_t *lo_elem(lo_t *lo, const sem_expr_t *e, tir_expr_t *const *at) {
  if (lo->nesting >= LO_MAX_NESTING) {
    td_diag_t *d = td_diag(lo->task, TD_L04, e->loc,
                           "formulas nest deeper than %d through calls",
                           LO_MAX_NESTING);
    td_diag_help(d, "give a part of the formula a name of its own");
    td_raise(lo->task, TDSL_STATUS_INVALID_PROGRAM, "formulas nest too deep");
  }
  lo->nesting++;
  tir_expr_t *r = elem(lo, e, at);
  lo->nesting--;
  return r;
}
