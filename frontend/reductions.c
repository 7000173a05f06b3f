/* reductions.c: sum[i, j in E where cond] body, and sum(t), max(a, b). */
#include "frontend/check.h"

/* The operators of the text by the numbers of the tree. */
static sem_reduce_t reduce_op(sem_ctx_t *c, ast_reduce_t op) {
  switch (op) {
  case AST_REDUCE_SUM: return SEM_SUM;
  case AST_REDUCE_MAX: return SEM_MAX;
  case AST_REDUCE_MIN: return SEM_MIN;
  case AST_REDUCE_PROD: return SEM_PROD;
  case AST_REDUCE_ANY: return SEM_ANY;
  case AST_REDUCE_ALL: return SEM_ALL;
  case AST_REDUCE_ARGMAX: return SEM_ARGMAX;
  case AST_REDUCE_ARGMIN: return SEM_ARGMIN;
  }
  TD_ICE(c->task, "reduction %d", (int)op);
}

/* Their result is an index of the range, not a value. */
static bool is_position(sem_reduce_t op) {
  return op == SEM_ARGMAX || op == SEM_ARGMIN;
}

/* The body as what the operator takes; NULL after E46. */
static sem_expr_t *check_kind(sem_ctx_t *c, sem_reduce_t op,
                              const char *word, const ast_expr_t *ast,
                              sem_expr_t *body) {
  bool wants_bool = op == SEM_ANY || op == SEM_ALL;
  if (sem_is_struct(body) || sem_is_bool(body) != wants_bool) {
    const char *text = sem_text(c, ast);
    td_diag_t *d = sem_report(c, TD_E46, ast->loc,
                              "expected %s here, `%s` got %s",
                              wants_bool ? "bool" : "a number", word,
                              sem_type_text(c, &body->type));
    if (wants_bool) {
      td_diag_help(d, "the body ends before a comparison: put parentheses "
                   "around it, as in `%s[i] (a > b)`, or write `%s != 0`",
                   word, text);
    } else {
      td_diag_help(d, "count with `if %s then 1 else 0`", text);
    }
    return NULL;
  }
  return sem_settle(c, body);
}

/* ---- ranges of integer results ------------------------------------------- */

/* Number of tuples, for the range of a count. */
static const ix_poly_t *volume(sem_ctx_t *c, const sem_expr_t *e) {
  const ix_poly_t *n = ix_const(c->pool, 1);
  for (uint32_t i = 0; i < e->index_count; i++) {
    n = ix_mul(c->pool, n, e->indices[i]->extent);
  }
  return n;
}

/* Does at least one tuple pass? Else the identity is a possible result. */
static bool surely_some(sem_ctx_t *c, const sem_expr_t *e) {
  if (e->guard != NULL) return false;
  for (uint32_t i = 0; i < e->index_count; i++) {
    if (!sem_positive(c, e->indices[i]->extent)) return false;
  }
  return true;
}

/* lo <= element < hi gives the range of the whole. */
static void result_range(sem_ctx_t *c, sem_expr_t *e, const ix_poly_t *lo,
                         const ix_poly_t *hi) {
  const ix_poly_t *zero = ix_const(c->pool, 0), *one = ix_const(c->pool, 1);
  bool some = surely_some(c, e);
  switch (e->reduce) {
  case SEM_SUM:
    if (lo == NULL || !sem_nonneg(c, lo)) return;
    e->type.lo = zero;
    if (hi != NULL) {
      const ix_poly_t *top = ix_mul(c->pool, volume(c, e),
                                    ix_sub(c->pool, hi, one));
      e->type.hi = ix_add(c->pool, top, one);
    }
    return;
  case SEM_PROD:
    if (lo != NULL && sem_nonneg(c, lo)) e->type.lo = zero;
    return;
  case SEM_MAX:
    e->type.hi = hi;
    e->type.lo = some ? lo : NULL;
    return;
  case SEM_MIN:
    e->type.lo = lo;
    e->type.hi = some ? hi : NULL;
    return;
  case SEM_ANY:
  case SEM_ALL:
  case SEM_ARGMAX:
  case SEM_ARGMIN: return;
  }
}

/* ---- one reduction ------------------------------------------------------- */

/* E41: of an empty range there is no position to return. */
static bool check_position_range(sem_ctx_t *c, const ast_expr_t *e,
                                 const sem_expr_t *r) {
  const char *word = ast_reduce_text(e->reduce);
  if (r->index_count != 1) {
    td_diag_t *d = sem_report(c, TD_E47, e->loc,
                              "`%s` takes one index and gives its value",
                              word);
    td_diag_help(d, "number the pairs: `%s[p in N * M] x[p / M, p %% M]`",
                 word);
    return false;
  }
  const sem_index_t *i = r->indices[0];
  if (c->quiet > 0 || c->unproved > 0 || sem_positive(c, i->extent)) {
    return true;
  }
  const char *text = sem_poly_text(c, i->extent);
  td_diag_t *d = sem_report(c, TD_E41, e->loc,
                            "the range of `%s` may be empty: %s in %s", word,
                            i->name, text);
  td_diag_label(d, i->loc, "%s in %s", i->name, text);
  td_diag_help(d, "an empty range has no position: add `require %s`",
               sem_inequality_text(
                   c, ix_sub(c->pool, i->extent, ix_const(c->pool, 1))));
  return false;
}

/* Sums and products of integers are i64: they are computed exactly. */
static void result_type(sem_ctx_t *c, sem_expr_t *r, const sem_expr_t *body,
                        const ix_poly_t *lo, const ix_poly_t *hi) {
  if (is_position(r->reduce)) {
    const sem_index_t *i = r->indices[0];
    r->type = sem_scalar(TDSL_DTYPE_I64);
    r->type.lo = i->lo;
    r->type.hi = ix_add(c->pool, i->lo, i->extent);
  } else if (sem_is_int(body)) {
    bool sums = r->reduce == SEM_SUM || r->reduce == SEM_PROD;
    r->type = sem_scalar(sums ? TDSL_DTYPE_I64
                              : sem_arithmetic(body->type.dtype));
    result_range(c, r, lo, hi);
  } else {
    r->type = sem_scalar(sem_arithmetic(body->type.dtype));
  }
  if (td_dtype_is_int(r->type.dtype)) {
    r->poly = sem_opaque(c, "a reduction", r->loc, r->type.lo, r->type.hi);
  }
}

/* All binders before any range: an index may stand alone in a subscript next
 * to another one. */
static bool declare_binders(sem_ctx_t *c, const ast_expr_t *e, sem_expr_t *r,
                            sem_seek_t *seeks) {
  bool ok = true;
  for (size_t i = 0; i < e->binder_count; i++) {
    const ast_binder_t *b = &e->binders[i];
    sem_entry_t *entry = sem_declare(c, SEM_ENTRY_INDEX, b->name, false);
    sem_index_t *index = sem_new_index(c, b->name.text, b->name.loc);
    if (entry == NULL) {
      ok = false;
    } else {
      entry->index = index;
    }
    r->indices[r->index_count++] = index;
    seeks[i].index = index;
    seeks[i].range = b->range;
  }
  return ok;
}

/* Scope, ranges, guard, body, in this order; the names end with it, and are
 * kept for E02. */
sem_expr_t *sem_reduction(sem_ctx_t *c, const ast_expr_t *e) {
  sem_expr_t *r = sem_new_expr(c, SEM_REDUCE, e->loc);
  r->reduce = reduce_op(c, e->reduce);
  r->indices = TD_NEW_ARRAY(c->arena, sem_index_t *, e->binder_count);
  sem_seek_t *seeks = TD_NEW_ARRAY(c->arena, sem_seek_t, e->binder_count);
  size_t scope = sem_scope_mark(c), mark = ix_facts_mark(c->facts);
  for (size_t i = 0; i < e->binder_count; i++) {
    /* A written range sees what is in scope outside of the reduction. */
    if (e->binders[i].range != NULL) seeks[i].range = e->binders[i].range;
  }
  bool ok = declare_binders(c, e, r, seeks);
  const ast_expr_t *formulas[2] = {e->kids[0], e->where};
  if (ok) sem_find_ranges(c, seeks, e->binder_count, formulas, 2, false);
  /* Without ranges the body is still read, for faults of its own. */
  bool ranged = ok;
  for (size_t i = 0; ok && i < e->binder_count; i++) {
    if (seeks[i].failed) ranged = false;
  }
  sem_expr_t *body = NULL;
  const ix_poly_t *lo = NULL, *hi = NULL;
  bool guard_ok = true;
  if (ok) {
    uint32_t unproved = c->unproved;
    if (!ranged) c->unproved++;
    for (uint32_t i = 0; i < r->index_count; i++) {
      if (!sem_assume_nonempty(c, r->indices[i])) c->unproved++;
    }
    if (e->where != NULL) {
      sem_expr_t *guard = sem_check_cond(c, e->where);
      guard_ok = guard != NULL;
      if (guard_ok && !sem_assume(c, guard, true)) c->unproved++;
      r->guard = guard;
    }
    body = sem_check_expr(c, e->kids[0]);
    if (body != NULL && sem_is_int(body) && body->poly != NULL) {
      sem_ends(c, body->poly, &lo, &hi);
    }
    c->unproved = unproved;
  }
  ix_facts_release(c->facts, mark);
  sem_scope_release(c, scope);
  for (size_t i = 0; i < e->binder_count; i++) {
    td_vec_push(c->arena, &c->ended,
                (sem_ended_t){e->binders[i].name.text, e->loc});
  }
  if (body == NULL || !guard_ok || !ranged) return NULL;
  const char *word = ast_reduce_text(e->reduce);
  if (body->type.rank > 0 && !sem_is_struct(body)) {
    td_diag_t *d = sem_report(c, TD_E38, e->kids[0]->loc,
                              "the body of a reduction is a scalar, this is "
                              "%s", sem_type_text(c, &body->type));
    td_diag_help(d, "write indices instead of `:`, or name the tensor and "
                 "use `%s(t)`", word);
    return NULL;
  }
  body = check_kind(c, r->reduce, word, e->kids[0], body);
  if (body == NULL) return NULL;
  if (is_position(r->reduce) && !check_position_range(c, e, r)) return NULL;
  r->arg_count = 1;
  r->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 1);
  r->args[0] = body;
  result_type(c, r, body, lo, hi);
  return r;
}

/* ---- sum(t), max(a, b) --------------------------------------------------- */

/* Row-major over all elements: the order that an index for each dim would
 * give. */
static sem_expr_t *reduce_all(sem_ctx_t *c, const ast_expr_t *e) {
  const char *word = ast_reduce_text(e->reduce);
  sem_reduce_t op = reduce_op(c, e->reduce);
  sem_expr_t *t = sem_check_expr(c, e->kids[0]);
  if (t == NULL) return NULL;
  if (is_position(op) || sem_is_struct(t) || t->type.rank == 0) {
    td_diag_t *d;
    if (is_position(op)) {
      d = sem_report(c, TD_E47, e->loc, "`%s` needs an index", word);
      td_diag_help(d, "write `%s[i] x[i]`", word);
    } else {
      d = sem_report(c, TD_E47, e->loc, "`%s(t)` reduces a tensor, this is %s",
                     word, sem_type_text(c, &t->type));
      td_diag_help(d, "`%s[i] ...` reduces a formula over an index", word);
    }
    return NULL;
  }
  t = check_kind(c, op, word, e->kids[0], t);
  if (t == NULL) return NULL;
  sem_expr_t *r = sem_new_expr(c, SEM_REDUCE_ALL, e->loc);
  r->reduce = op;
  r->arg_count = 1;
  r->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 1);
  r->args[0] = t;
  tdsl_dtype_t dtype = sem_arithmetic(t->type.dtype);
  bool sums = op == SEM_SUM || op == SEM_PROD;
  if (td_dtype_is_int(dtype) && sums) dtype = TDSL_DTYPE_I64;
  r->type = sem_scalar(dtype);
  if (td_dtype_is_int(dtype)) {
    const ix_poly_t *zero = ix_const(c->pool, 0);
    bool positive = t->type.lo != NULL && sem_nonneg(c, t->type.lo);
    if (positive && sums) r->type.lo = zero;
    if (op == SEM_MAX) r->type.hi = t->type.hi;
    if (op == SEM_MIN) r->type.lo = t->type.lo;
    r->poly = sem_opaque(c, "a reduction", r->loc, r->type.lo, r->type.hi);
  }
  return r;
}

/* One operand is reduced, two are compared. */
sem_expr_t *sem_reduction_call(sem_ctx_t *c, const ast_expr_t *e) {
  bool choice =
      e->reduce == AST_REDUCE_MAX || e->reduce == AST_REDUCE_MIN;
  if (e->kid_count == 1) return reduce_all(c, e);
  if (e->kid_count != 2 || !choice) {
    td_diag_t *d = sem_report(c, TD_E47, e->loc,
                              "`%s` of %zu values: one tensor is reduced%s",
                              ast_reduce_text(e->reduce), e->kid_count,
                              choice ? ", two operands are compared" : "");
    if (choice) td_diag_help(d, "write `max(a, max(b, c))`");
    return NULL;
  }
  sem_expr_t *a = sem_check_expr(c, e->kids[0]);
  sem_expr_t *b = sem_check_expr(c, e->kids[1]);
  if (a == NULL || b == NULL) return NULL;
  return sem_choice(c, e->reduce == AST_REDUCE_MAX ? SEM_OP_MAX : SEM_OP_MIN,
                    a, b, e->loc);
}
