/* updates.c: x := e, x += e, of whole places and of elements. */
#include "frontend/check.h"

/* The root decides: its fields and elements follow it. */
bool sem_check_updatable(sem_ctx_t *c, const sem_expr_t *place,
                         td_loc_t loc) {
  const sem_expr_t *root = sem_root(place);
  while (root != NULL && root->symbol->kind == SEM_PLACE) {
    root = sem_root(root->symbol->place);
  }
  if (root == NULL) {
    sem_report(c, TD_E19, loc, "this is no place that can be updated");
    return false;
  }
  const sem_symbol_t *s = root->symbol;
  if (s->is_var || s->kind == SEM_VAR || s->kind == SEM_INOUT) return true;
  td_diag_t *d = sem_report(c, TD_E19, loc, "%s cannot be updated: it is not "
                            "a `var` or `inout`", s->name);
  td_diag_label(d, s->loc, "%s is declared here", s->name);
  if (s->kind == SEM_PARAM) {
    td_diag_help(d, "declare the parameter as `%s: inout ...`, or start a "
                 "`var` from it", s->name);
  } else if (s->kind == SEM_LOOP) {
    td_diag_help(d, "a loop variable changes by itself");
  } else {
    td_diag_help(d, "define it with `var %s = ...`", s->name);
  }
  return false;
}

/* ---- overlap ------------------------------------------------------------- */

enum { MAX_PATH = 600 };

/* From the place inwards to the name, which comes last. */
static size_t path_of(const sem_expr_t *e, const sem_expr_t **out) {
  size_t n = 0;
  for (; e->kind == SEM_FIELD || e->kind == SEM_SUBSCRIPT; e = e->args[0]) {
    if (n < MAX_PATH) out[n++] = e;
  }
  if (n < MAX_PATH) out[n++] = e;
  return n;
}

/* Different fields, or subscripts of a stack that are provably different. */
static bool steps_differ(sem_ctx_t *c, const sem_expr_t *a,
                         const sem_expr_t *b) {
  if (a->kind == SEM_FIELD && b->kind == SEM_FIELD) {
    return a->field != b->field;
  }
  if (a->kind != SEM_SUBSCRIPT || b->kind != SEM_SUBSCRIPT) return false;
  for (uint32_t i = 0; i < a->sub_count && i < b->sub_count; i++) {
    const sem_expr_t *x = a->subs[i].expr, *y = b->subs[i].expr;
    if (x == NULL || y == NULL) continue;
    const ix_poly_t *d = ix_sub(c->pool, x->poly, y->poly);
    const ix_poly_t *one = ix_const(c->pool, 1);
    if (d == NULL) continue;
    if (sem_nonneg(c, ix_sub(c->pool, d, one))) return true;
    if (sem_nonneg(c, ix_sub(c->pool, ix_neg(c->pool, d), one))) return true;
  }
  return false;
}

/* Places are disjoint only if the same step from the same name differs. */
bool sem_places_overlap(sem_ctx_t *c, const sem_expr_t *a,
                        const sem_expr_t *b) {
  const sem_expr_t *x[MAX_PATH], *y[MAX_PATH];
  size_t n = path_of(a, x), m = path_of(b, y);
  if (n == 0 || m == 0) return false;
  if (x[n - 1]->symbol != y[m - 1]->symbol) {
    /* Places of one `each` are leaves of different structs or the same. */
    const sem_symbol_t *s = x[n - 1]->symbol, *t = y[m - 1]->symbol;
    if (s->kind == SEM_PLACE) return sem_places_overlap(c, s->place, b);
    if (t->kind == SEM_PLACE) return sem_places_overlap(c, a, t->place);
    return false;
  }
  for (size_t i = 1; i < n && i < m; i++) {
    if (steps_differ(c, x[n - 1 - i], y[m - 1 - i])) return false;
  }
  return true;
}

/* ---- whole places -------------------------------------------------------- */

/* `+=` stores a sum of integers: it has to fit, like any store. */
static bool check_sum(sem_ctx_t *c, sem_expr_t *old, sem_expr_t *value,
                      const sem_type_t *place, const char *name) {
  if (!td_dtype_is_int(place->dtype) || sem_is_struct(value)) return true;
  sem_expr_t *sum =
      sem_binary(c, SEM_OP_ADD, old, value, value->loc, value->loc);
  return sum != NULL && sem_for_store(c, sum, place, name) != NULL;
}

/* Structs are added leaf by leaf. */
static bool check_addable(sem_ctx_t *c, const sem_type_t *place,
                          td_loc_t loc) {
  if (place->kind == SEM_STRUCT || place->dtype != TDSL_DTYPE_BOOL) {
    return true;
  }
  td_diag_t *d = sem_report(c, TD_E46, loc, "`+=` adds numbers, this is bool");
  td_diag_help(d, "write `:=` with `or`");
  return false;
}

/* The place without being read: it is not a use of the name. */
static sem_expr_t *check_place(sem_ctx_t *c, const ast_expr_t *e) {
  const ast_expr_t *root = e;
  while (ast_left(root) != NULL) root = ast_left(root);
  c->place_base = root;
  sem_expr_t *place = sem_check_expr(c, e);
  c->place_base = NULL;
  return place;
}

/* What += adds is the term of a sum, which accumulates in the arithmetic of
 * the place: a constant is not rounded to a narrow place before it is
 * added. */
static sem_expr_t *as_contribution(sem_ctx_t *c, sem_expr_t *value,
                                   tdsl_dtype_t place) {
  if (value->kind != SEM_CONST || !td_dtype_is_float(place)) return value;
  bool is_wide = place == TDSL_DTYPE_F64;
  return sem_adopt(c, value, is_wide ? TDSL_DTYPE_F64 : TDSL_DTYPE_F32);
}

/* A scalar may update a whole tensor: it spreads, as in arithmetic. */
static sem_stmt_t *update_whole(sem_ctx_t *c, const ast_stmt_t *s,
                                sem_expr_t *place) {
  const ast_expr_t *ast = s->lhss[0].place;
  sem_stmt_t *stmt = sem_new_stmt(c, SEM_UPDATE, s->loc);
  if (s->where != NULL) {
    td_diag_t *d = sem_report(c, TD_E52, s->where->loc,
                              "`where` needs subscripts on the left");
    td_diag_help(d, "write `%s[i, ...] %s ... where ...`", sem_text(c, ast),
                 s->is_add ? "+=" : ":=");
    return NULL;
  }
  bool ok = place == NULL || sem_check_updatable(c, place, ast->loc);
  c->allowed_call = s->value;
  sem_expr_t *value = sem_check_formula(c, s->value);
  c->allowed_call = NULL;
  if (place == NULL || value == NULL || !ok) return NULL;
  const char *name = sem_text(c, ast);
  if (s->is_add && (!check_addable(c, &place->type, s->loc) ||
                    !check_sum(c, place, value, &place->type, name))) {
    return NULL;
  }
  if (s->is_add && place->type.kind == SEM_TENSOR) {
    value = as_contribution(c, value, place->type.dtype);
  }
  bool adds_int = s->is_add && sem_is_int(place) && sem_is_int(value);
  if (!adds_int) {
    value = sem_whole_value(c, value, &place->type, name, ast->loc, true);
  } else {
    sem_type_t open = place->type;
    open.lo = open.hi = NULL;
    open.dtype = TDSL_DTYPE_I64;
    value = sem_whole_value(c, value, &open, name, ast->loc, true);
  }
  if (value == NULL) return NULL;
  stmt->place = place;
  stmt->value = value;
  stmt->is_accumulate = s->is_add;
  stmt->is_distinct = true;
  return stmt;
}

/* ---- elements: the indices ----------------------------------------------- */

typedef struct collect {
  sem_ctx_t *c;
  TD_VEC(ast_name_t) found;
  TD_VEC(const ast_expr_t *) not_index; /* bases, functions */
  TD_VEC(const char *) bound;           /* by reductions inside */
} collect_t;

/* Names of functions and bases of accesses are no indices. */
static bool in_exprs(const collect_t *k, const ast_expr_t *e) {
  for (size_t i = 0; i < k->not_index.length; i++) {
    if (k->not_index.data[i] == e) return true;
  }
  return false;
}

/* A name that nothing in scope explains is an index of the statement. */
static bool visit_name(ast_expr_t *e, void *user) {
  collect_t *k = user;
  sem_ctx_t *c = k->c;
  if (e->kind == AST_REDUCE) {
    for (size_t i = 0; i < e->binder_count; i++) {
      td_vec_push(c->arena, &k->bound, e->binders[i].name.text);
    }
  }
  if (e->kind == AST_CALL || e->kind == AST_FIELD ||
      e->kind == AST_SUBSCRIPT) {
    td_vec_push(c->arena, &k->not_index, e->kids[0]);
  }
  if (e->kind != AST_NAME || in_exprs(k, e)) return true;
  if (sem_lookup(c, e->text) != NULL ||
      sem_lookup_global(c, e->text) != NULL) {
    return true;
  }
  for (size_t i = 0; i < k->bound.length; i++) {
    if (k->bound.data[i] == e->text) return true;
  }
  for (size_t i = 0; i < k->found.length; i++) {
    if (k->found.data[i].text == e->text) return true;
  }
  td_vec_push(c->arena, &k->found, (ast_name_t){e->text, e->loc});
  return true;
}

/* In the order of the text, which is the order of the tuples. */
static void collect_sub(collect_t *k, const ast_sub_t *sub) {
  if (sub->form == AST_SUB_ALL) return;
  if (sub->form == AST_SUB_EXPR) {
    ast_visit(k->c->task, sub->expr, visit_name, k);
    return;
  }
  for (size_t i = 0; i < k->found.length; i++) {
    if (k->found.data[i].text == sub->name.text) return;
  }
  td_vec_push(k->c->arena, &k->found, sub->name);
}

/* A written range is taken from the subscript that has it. */
static bool declare_indices(sem_ctx_t *c, const ast_expr_t *place,
                            const collect_t *k, sem_seek_t *seeks) {
  bool ok = true;
  for (size_t i = 0; i < k->found.length; i++) {
    ast_name_t name = k->found.data[i];
    seeks[i].index = sem_new_index(c, name.text, name.loc);
    sem_entry_t *e = sem_declare(c, SEM_ENTRY_INDEX, name, false);
    if (e == NULL) {
      ok = false;
    } else {
      e->index = seeks[i].index;
    }
    for (size_t j = 0; j < place->sub_count; j++) {
      const ast_sub_t *sub = &place->subs[j];
      if (sub->form == AST_SUB_INDEX && sub->name.text == name.text) {
        seeks[i].range = sub->range;
      }
    }
  }
  return ok;
}

/* ---- elements: is every element written once? ---------------------------- */

typedef struct reads {
  sem_ctx_t *c;
  const sem_stmt_t *stmt;
  TD_VEC(ix_read_t) list;
} reads_t;

typedef struct symbols {
  const ix_symbol_t **list;
  size_t count, room;
} symbols_t;

/* Indices that a read depends on. */
static bool visit_index(void *user, const ix_symbol_t *s) {
  symbols_t *out = user;
  if (s->kind != IX_SYM_INDEX) return true;
  for (size_t i = 0; i < out->count; i++) {
    if (out->list[i] == s) return true;
  }
  if (out->count < out->room) out->list[out->count++] = s;
  return true;
}

/* Values of names are the same for all tuples; formulas may depend on every
 * index. */
static bool visit_datum(void *user, const ix_symbol_t *s) {
  reads_t *r = user;
  if (s->kind != IX_SYM_DATA) return true;
  for (size_t i = 0; i < r->list.length; i++) {
    if (r->list.data[i].data == s) return true;
  }
  const sem_datum_t *d =
      td_map_get_u64(&r->c->datum_of, (uint64_t)(uintptr_t)s);
  size_t room = r->stmt->index_count;
  symbols_t found = {TD_NEW_ARRAY(r->c->arena, const ix_symbol_t *, room), 0,
                     room};
  if (d == NULL) {
    /* Made by a formula: it may depend on any index, unless it is a name. */
    if (sem_is_name_value(r->c, s)) return true;
    for (uint32_t i = 0; i < r->stmt->index_count; i++) {
      found.list[found.count++] = r->stmt->indices[i]->symbol;
    }
  } else {
    for (uint32_t i = 0; i < d->sub_count; i++) {
      ix_each_symbol(d->subs[i], visit_index, &found);
    }
  }
  if (found.count == 0) return true;
  td_vec_push(r->c->arena, &r->list,
              (ix_read_t){s, found.list, found.count});
  return true;
}

typedef struct one_index {
  ix_pool_t *pool;
  const ix_symbol_t *index;
  int64_t value;
} one_index_t;

/* One index at a value, the others free. */
static const ix_poly_t *put_value(void *user, const ix_symbol_t *s) {
  const one_index_t *o = user;
  return s == o->index ? ix_const(o->pool, o->value) : NULL;
}

/* Do i = 0 and i = value give the same subscripts? */
static bool same_element(sem_ctx_t *c, const sem_stmt_t *stmt,
                         const ix_symbol_t *index, int64_t value) {
  for (uint32_t i = 0; i < stmt->sub_count; i++) {
    if (stmt->subs[i] == NULL) continue;
    one_index_t a = {c->pool, index, 0}, b = {c->pool, index, value};
    const ix_poly_t *p = stmt->subs[i]->poly;
    if (ix_subst(c->pool, p, put_value, &a, c->facts) !=
        ix_subst(c->pool, p, put_value, &b, c->facts)) {
      return false;
    }
  }
  return true;
}

/* Two neighbouring tuples are shown if they already meet. */
static void report_same(sem_ctx_t *c, const ast_stmt_t *s,
                        const sem_stmt_t *stmt, const ix_symbol_t *index) {
  const char *name = index == NULL ? "" : index->name;
  td_diag_t *d;
  if (index != NULL && same_element(c, stmt, index, 1)) {
    d = sem_report(c, TD_E11, s->lhss[0].place->loc,
                   "tuples with %s = 0 and %s = 1 write the same element",
                   name, name);
  } else {
    d = sem_report(c, TD_E11, s->lhss[0].place->loc,
                   "tuples with different %s write the same element", name);
  }
  td_diag_help(d, "`+=` adds all contributions; or choose subscripts that "
               "tell the tuples apart");
}

/* Sums may meet. For `:=` the proof decides between silence, E11 and W01. */
static bool check_distinct(sem_ctx_t *c, const ast_stmt_t *s,
                           sem_stmt_t *stmt) {
  const ix_poly_t *subs[IX_MAX_RANK];
  size_t n = 0;
  reads_t r = {.c = c, .stmt = stmt};
  for (uint32_t i = 0; i < stmt->sub_count; i++) {
    if (stmt->subs[i] == NULL) continue;
    subs[n++] = stmt->subs[i]->poly;
    ix_each_symbol(stmt->subs[i]->poly, visit_datum, &r);
  }
  const ix_symbol_t **indices =
      TD_NEW_ARRAY(c->arena, const ix_symbol_t *, stmt->index_count);
  for (uint32_t i = 0; i < stmt->index_count; i++) {
    indices[i] = stmt->indices[i]->symbol;
  }
  const ix_symbol_t *fault = NULL;
  ix_distinct_t result =
      ix_prove_distinct(c->pool, subs, n, indices, stmt->index_count,
                        r.list.data, r.list.length, c->facts, &fault);
  stmt->is_distinct = result == IX_DISTINCT_PROVED;
  if (s->is_add || result == IX_DISTINCT_PROVED) return true;
  if (result == IX_DISTINCT_SAME) {
    report_same(c, s, stmt, fault);
    return false;
  }
  td_diag_t *d = sem_report(c, TD_W01, s->lhss[0].place->loc,
                            "writes could not be proved distinct%s%s",
                            fault != NULL ? ": index " : "",
                            fault != NULL ? fault->name : "");
  td_diag_note(d, "if two tuples write one element, its value is one of "
               "theirs; `--checks=all` finds that (R05)");
  return true;
}

/* ---- elements ------------------------------------------------------------ */

/* Subscripts are proved in range under the guard of the statement. */
static bool check_subs(sem_ctx_t *c, const ast_expr_t *ast,
                       const sem_expr_t *base, sem_stmt_t *stmt,
                       sem_type_t *kept) {
  bool ok = true;
  *kept = sem_scalar(base->type.dtype);
  kept->lo = base->type.lo;
  kept->hi = base->type.hi;
  for (size_t i = 0; i < ast->sub_count; i++) {
    const ast_sub_t *sub = &ast->subs[i];
    if (sub->form == AST_SUB_ALL) {
      kept->dims[kept->rank++] = base->type.dims[i];
      continue;
    }
    sem_expr_t *e = NULL;
    if (sub->form == AST_SUB_INDEX) {
      sem_entry_t *entry = sem_lookup(c, sub->name.text);
      if (entry == NULL || entry->kind != SEM_ENTRY_INDEX) return false;
      e = sem_index_expr(c, entry->index, sub->loc);
    } else {
      e = sem_check_subscript(c, sub->expr);
    }
    if (e == NULL) {
      ok = false;
      continue;
    }
    if (e->is_exact) e = sem_settle(c, e);
    ast_expr_t name = {.kind = AST_NAME, .text = sub->name.text,
                       .loc = sub->loc};
    const ast_expr_t *shown =
        sub->form == AST_SUB_EXPR ? sub->expr : &name;
    ok = sem_prove_subscript(c, e, &base->type.dims[i], ast->kids[0], shown) &&
         ok;
    stmt->subs[i] = e;
  }
  sem_check_left_marks(c, ast, &base->type);
  return ok;
}

/* The right side is a store into the element, or its kept dims. */
static bool check_element_value(sem_ctx_t *c, const ast_stmt_t *s,
                                const sem_expr_t *base, sem_stmt_t *stmt,
                                const sem_type_t *kept, sem_expr_t *value) {
  const char *name = sem_text(c, s->lhss[0].place);
  if (s->is_add) {
    sem_expr_t *old = sem_new_expr(c, SEM_SUBSCRIPT, s->lhss[0].place->loc);
    old->type = *kept;
    if (sem_is_int(old) && kept->rank == 0) {
      old->poly = sem_opaque(c, name, old->loc, kept->lo, kept->hi);
    }
    if (!check_addable(c, &base->type, s->loc) ||
        !check_sum(c, old, value, kept, name)) {
      return false;
    }
  }
  if (s->is_add) value = as_contribution(c, value, kept->dtype);
  sem_type_t place = *kept;
  if (s->is_add && sem_is_int(base) && sem_is_int(value)) {
    place.lo = place.hi = NULL;
    place.dtype = TDSL_DTYPE_I64;
  }
  stmt->value =
      sem_whole_value(c, value, &place, name, s->lhss[0].place->loc, false);
  return stmt->value != NULL;
}

/* Ranges, guard, subscripts, value: all are read before the fault of one of
 * them ends the statement. */
static bool check_in_scope(sem_ctx_t *c, const ast_stmt_t *s,
                           const sem_expr_t *base, sem_stmt_t *stmt,
                           sem_seek_t *seeks, size_t count) {
  const ast_expr_t *ast = s->lhss[0].place;
  const ast_expr_t *formulas[3] = {ast, s->value, s->where};
  sem_find_ranges(c, seeks, count, formulas, 3, false);
  uint32_t unproved = c->unproved;
  bool ranged = true;
  for (size_t i = 0; i < count; i++) {
    ranged = ranged && !seeks[i].failed;
    if (seeks[i].failed) continue;
    if (!sem_assume_nonempty(c, seeks[i].index)) c->unproved++;
  }
  if (!ranged) c->unproved++;
  bool ok = true;
  if (s->where != NULL) {
    sem_expr_t *guard = sem_check_cond(c, s->where);
    if (guard != NULL && !sem_assume(c, guard, true)) c->unproved++;
    stmt->guard = guard;
    ok = guard != NULL;
  }
  sem_type_t kept;
  ok = check_subs(c, ast, base, stmt, &kept) && ok;
  sem_expr_t *value = sem_check_formula(c, s->value);
  c->unproved = unproved;
  if (!ok || !ranged || value == NULL) return false;
  return check_element_value(c, s, base, stmt, &kept, value) &&
         check_distinct(c, s, stmt);
}

/* Names in the subscripts that are not in scope become indices; those of the
 * right side do not (E01). */
static sem_stmt_t *update_elements(sem_ctx_t *c, const ast_stmt_t *s,
                                   sem_expr_t *base) {
  const ast_expr_t *ast = s->lhss[0].place;
  if (ast->sub_count != base->type.rank) {
    td_diag_t *d = sem_report(c, TD_E16, ast->loc,
                              "%zu subscript%s on rank %u", ast->sub_count,
                              ast->sub_count == 1 ? "" : "s",
                              base->type.rank);
    td_diag_label(d, ast->kids[0]->loc, "%s", sem_type_text(c, &base->type));
    return NULL;
  }
  if (!sem_check_updatable(c, base, ast->kids[0]->loc)) return NULL;
  sem_stmt_t *stmt = sem_new_stmt(c, SEM_UPDATE, s->loc);
  stmt->place = base;
  stmt->is_accumulate = s->is_add;
  stmt->sub_count = (uint32_t)ast->sub_count;
  stmt->subs = TD_NEW_ARRAY(c->arena, const sem_expr_t *, ast->sub_count);
  collect_t k = {.c = c};
  for (size_t i = 0; i < ast->sub_count; i++) collect_sub(&k, &ast->subs[i]);
  sem_seek_t *seeks = TD_NEW_ARRAY(c->arena, sem_seek_t, k.found.length);
  size_t scope = sem_scope_mark(c), mark = ix_facts_mark(c->facts);
  bool ok = declare_indices(c, ast, &k, seeks);
  stmt->index_count = (uint32_t)k.found.length;
  stmt->indices = TD_NEW_ARRAY(c->arena, sem_index_t *, k.found.length);
  for (size_t i = 0; i < k.found.length; i++) {
    stmt->indices[i] = seeks[i].index;
  }
  ok = ok && check_in_scope(c, s, base, stmt, seeks, k.found.length);
  ix_facts_release(c->facts, mark);
  sem_scope_release(c, scope);
  c->inst->has_element_update = true;
  return ok ? stmt : NULL;
}

/* An element of a tensor, or a whole place: a stack position is whole. */
sem_stmt_t *sem_check_update(sem_ctx_t *c, const ast_stmt_t *s) {
  const ast_expr_t *ast = s->lhss[0].place;
  if (ast->kind == AST_SUBSCRIPT) {
    if (ast->other != NULL) {
      sem_report(c, TD_E48, ast->loc, "`|` has no meaning on the left");
      return NULL;
    }
    sem_expr_t *base = check_place(c, ast->kids[0]);
    if (base == NULL) return NULL;
    if (!sem_is_struct(base)) return update_elements(c, s, base);
  }
  return update_whole(c, s, check_place(c, ast));
}
