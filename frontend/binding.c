/* binding.c: what the generics of a callee stand for.
 *
 * Dims of parameters and arguments make pairs, in order, those of structs leaf
 * by leaf.  A pair whose parameter dim holds exactly one unbound generic,
 * linearly, binds it by exact division; pairs with several wait.  At the end
 * every pair must be equal. */
#include "frontend/check.h"

typedef struct pair {
  const sem_dim_t *param, *arg;
  uint32_t index; /* of the parameter */
  bool done;
} pair_t;

typedef struct pairs {
  sem_ctx_t *c;
  sem_matching_t *m;
  sem_expr_t *const *args;
  TD_VEC(pair_t) list;
  uint32_t index;
} pairs_t;

/* Generics that are not bound yet stay as they are. */
const ix_poly_t *sem_matching_map(void *user, const ix_symbol_t *s) {
  const sem_matching_t *m = user;
  for (uint32_t i = 0; i < m->count; i++) {
    if (m->generics[i] == s) return m->values[i];
  }
  for (uint32_t i = 0; i < m->scalar_count; i++) {
    if (m->scalars[i] == s) return m->scalar_values[i];
  }
  return NULL;
}

/* ---- pairs --------------------------------------------------------------- */

/* E16 with the mapped call that was probably meant. */
static bool rank_fault(sem_ctx_t *c, const pairs_t *p, const sem_type_t *param,
                       const sem_type_t *arg, td_loc_t loc) {
  const sem_symbol_t *s = p->m->callee->func.params[p->index];
  td_diag_t *d = sem_report(
      c, TD_E16, loc, "%s of %s has rank %u, this is %s", s->name,
      p->m->callee->func.name, param->rank, sem_type_text(c, arg));
  td_diag_label(d, s->loc, "%s", sem_type_text(c, param));
  if (arg->rank > param->rank) {
    td_diag_help(d, "map the call: give the argument indices, and `:` for "
                 "the dims that the function takes");
  }
  return false;
}

/* Structs are of one declaration, so their fields pair one to one. */
static bool add_pairs(pairs_t *p, const sem_type_t *param,
                      const sem_type_t *arg, td_loc_t loc) {
  sem_ctx_t *c = p->c;
  if (param->rank != arg->rank) return rank_fault(c, p, param, arg, loc);
  for (uint32_t i = 0; i < param->rank; i++) {
    td_vec_push(c->arena, &p->list,
                (pair_t){&param->dims[i], &arg->dims[i], p->index, false});
  }
  if (param->kind == SEM_TENSOR) return true;
  for (uint32_t i = 0; i < param->record->field_count; i++) {
    if (!add_pairs(p, &param->record->fields[i].type,
                   &arg->record->fields[i].type, loc)) {
      return false;
    }
  }
  return true;
}

/* A struct where a tensor is wanted, or another struct: nothing to compare. */
static bool kinds_match(sem_ctx_t *c, const pairs_t *p,
                        const sem_type_t *param, const sem_expr_t *arg) {
  const sem_symbol_t *s = p->m->callee->func.params[p->index];
  bool ok = param->kind == arg->type.kind;
  if (ok && param->kind == SEM_STRUCT) {
    ok = param->record->syntax == arg->type.record->syntax;
  }
  if (ok) return true;
  td_diag_t *d = sem_report(c, TD_E47, arg->loc, "%s of %s is %s, this is %s",
                            s->name, p->m->callee->func.name,
                            sem_type_text(c, param),
                            sem_type_text(c, &arg->type));
  td_diag_label(d, s->loc, "declared here");
  return false;
}

/* ---- binding ------------------------------------------------------------- */

typedef struct unbound {
  const sem_matching_t *m;
  uint32_t count, last;
} unbound_t;

/* Counts different generics, not mentions. */
static bool visit_unbound(void *user, const ix_symbol_t *s) {
  unbound_t *u = user;
  for (uint32_t i = 0; i < u->m->count; i++) {
    if (u->m->generics[i] != s || u->m->values[i] != NULL) continue;
    if (u->count == 0 || u->last != i) u->count++;
    u->last = i;
  }
  return true;
}

/* How many generics of the poly have no value, and the last of them. */
static unbound_t unbound_in(const sem_matching_t *m, const ix_poly_t *p) {
  unbound_t u = {m, 0, 0};
  ix_each_symbol(p, visit_unbound, &u);
  return u;
}

static void report_pair(pairs_t *p, const pair_t *pair);

/* 1: bound; 0: waits; -1: reported. */
static int try_bind(pairs_t *p, pair_t *pair) {
  sem_ctx_t *c = p->c;
  sem_matching_t *m = p->m;
  unbound_t u = unbound_in(m, pair->param->size);
  if (u.count == 0) {
    pair->done = true;
    return 1;
  }
  if (u.count > 1) return 0;
  const ix_poly_t *k = NULL, *rest = NULL;
  int64_t step = 0;
  if (!ix_split_linear(c->pool, pair->param->size, m->generics[u.last], &k,
                       &rest) ||
      !ix_is_const(k, &step) || step <= 0) {
    return 0;
  }
  rest = ix_subst(c->pool, rest, sem_matching_map, m, c->facts);
  const ix_poly_t *value = ix_sub(c->pool, pair->arg->size, rest);
  if (step > 1) {
    const ix_poly_t *whole = value;
    value = ix_div(c->pool, whole, k, c->facts);
    if (!sem_same_dim(c, ix_mul(c->pool, value, k), whole)) {
      report_pair(p, pair);
      return -1;
    }
  }
  if (value == NULL) return 0;
  pair->done = true;
  m->values[u.last] = value;
  m->locs[u.last] = p->args[pair->index]->loc;
  m->by[u.last] = sem_dim_text(c, pair->arg);
  if (c->quiet > 0 || c->unproved > 0 || sem_nonneg(c, value)) return 1;
  td_diag_t *d = sem_report(c, TD_E53, p->args[pair->index]->loc,
                            "generic %s of %s would be %s, which may be "
                            "negative", m->generics[u.last]->name,
                            m->callee->func.name, sem_poly_text(c, value));
  td_diag_help(d, "add `require %s`", sem_inequality_text(c, value));
  return -1;
}

/* ---- messages ------------------------------------------------------------ */

/* A bare generic is shown as the dim that bound it. */
static const char *bound_text(const sem_matching_t *m, const ix_poly_t *p) {
  const ix_symbol_t *s = ix_as_symbol(p);
  for (uint32_t i = 0; s != NULL && i < m->count; i++) {
    if (m->generics[i] == s && m->values[i] != NULL) return m->by[i];
  }
  return NULL;
}

/* The parameter's type as far as it is known, for messages. */
static sem_type_t wanted_type(sem_ctx_t *c, const sem_matching_t *m,
                              uint32_t index) {
  sem_type_t t = m->callee->params[index];
  for (uint32_t i = 0; i < t.rank; i++) {
    t.dims[i].text = bound_text(m, t.dims[i].size);
    const ix_poly_t *p = ix_subst(c->pool, t.dims[i].size, sem_matching_map,
                                  (void *)(uintptr_t)m, c->facts);
    if (p != NULL) t.dims[i].size = p;
  }
  return t;
}

/* Where the generics of the dim at fault got their values: one of the two
 * arguments is wrong, and only the author knows which. */
static void label_binder(pairs_t *p, td_diag_t *d, const pair_t *pair) {
  const sem_matching_t *m = p->m;
  for (uint32_t i = 0; i < m->count; i++) {
    if (m->values[i] == NULL || m->locs[i].line == 0) continue;
    if (!ix_mentions(pair->param->size, m->generics[i])) continue;
    td_loc_t own = p->args[pair->index]->loc;
    if (memcmp(&own, &m->locs[i], sizeof own) == 0) continue;
    td_diag_label(d, m->locs[i], "binds %s = %s", m->generics[i]->name,
                  m->by[i]);
  }
}

/* Which of two arguments is wrong nobody can say; the declared dim of this one
 * is where a slip of the pen would be. */
static void help_pair(sem_ctx_t *c, td_diag_t *d, const pairs_t *p,
                      const pair_t *pair, const ix_poly_t *value,
                      const char *wanted) {
  if (value == NULL || unbound_in(p->m, value).count > 0) return;
  const sem_expr_t *root = sem_root(p->args[pair->index]);
  bool is_plain = p->args[pair->index]->type.kind == SEM_TENSOR;
  if (root != NULL && is_plain && pair->arg->loc.line != 0 &&
      pair->arg->text != NULL) {
    td_diag_help(d, "%s declares %s with %s; if %s is meant, write it there",
                 sem_line(c, pair->arg->loc), root->symbol->name,
                 pair->arg->text, wanted);
  }
  if (sem_may_be_equal(c, value, pair->arg->size)) {
    td_diag_help(d, "if they are always equal: `require %s == %s`",
                 sem_poly_text(c, value), sem_poly_text(c, pair->arg->size));
  }
}

/* E06 of a call: both shapes, the dim, its origin on both sides. */
static void report_pair(pairs_t *p, const pair_t *pair) {
  sem_ctx_t *c = p->c;
  const sem_matching_t *m = p->m;
  const sem_expr_t *arg = p->args[pair->index];
  const sem_symbol_t *s = m->callee->func.params[pair->index];
  const char *name = m->callee->func.name;
  sem_type_t raw = m->callee->params[pair->index];
  const ix_poly_t *value =
      ix_subst(c->pool, pair->param->size, sem_matching_map,
               (void *)(uintptr_t)m, c->facts);
  sem_dim_t wanted = {value == NULL ? pair->param->size : value,
                      bound_text(m, pair->param->size), TD_NO_LOC};
  td_diag_t *d;
  if (arg->type.kind == SEM_STRUCT) {
    d = sem_report(c, TD_E06, arg->loc,
                   "dims do not match in the call of `%s`: %s of %s is %s, "
                   "wanted %s", name, sem_dim_text(c, pair->param),
                   raw.record->name, sem_value_text(c, pair->arg),
                   sem_value_text(c, &wanted));
    td_diag_beside(d, "%s", sem_type_text(c, &arg->type));
    td_diag_label(d, s->loc, "%s", sem_type_text(c, &raw));
  } else {
    sem_type_t want = wanted_type(c, m, pair->index);
    d = sem_report(c, TD_E06, arg->loc,
                   "dims do not match in the call of `%s`: %s and %s", name,
                   sem_shape_text(c, &want), sem_shape_text(c, &arg->type));
    td_diag_beside(d, "%s", sem_shape_text(c, &arg->type));
    td_diag_note(d, "`%s` of %s wants %s; dim %d differs: %s against %s",
                 s->name, name, sem_type_text(c, &raw),
                 (int)(pair->param - m->callee->params[pair->index].dims),
                 sem_value_text(c, &wanted), sem_value_text(c, pair->arg));
    td_diag_label(d, s->loc, "%s", sem_type_text(c, &raw));
    if (arg->type.rank == 2 && want.rank == 2 &&
        sem_same_dim(c, want.dims[0].size, arg->type.dims[1].size) &&
        sem_same_dim(c, want.dims[1].size, arg->type.dims[0].size)) {
      td_diag_help(d, "the argument is transposed: `t[j, i] = x[i, j]`");
    }
  }
  label_binder(p, d, pair);
  if (pair->arg->loc.line != 0) {
    td_diag_label(d, pair->arg->loc, "%s is declared here",
                  sem_dim_text(c, pair->arg));
  }
  help_pair(c, d, p, pair, value, sem_dim_text(c, &wanted));
}

/* E47: a generic is never passed, so a parameter has to show it. */
static bool report_unbound(pairs_t *p, td_loc_t loc) {
  sem_ctx_t *c = p->c;
  for (uint32_t i = 0; i < p->m->count; i++) {
    if (p->m->values[i] != NULL) continue;
    td_diag_t *d = sem_report(c, TD_E47, loc,
                              "generic %s of %s is not bound by an argument",
                              p->m->generics[i]->name,
                              p->m->callee->func.name);
    td_diag_label(d, p->m->generics[i]->loc, "%s is declared here",
                  p->m->generics[i]->name);
    td_diag_help(d, "a parameter binds it whose dim is %s, 2*%s or %s + 1; "
                 "generics are never passed", p->m->generics[i]->name,
                 p->m->generics[i]->name, p->m->generics[i]->name);
    return false;
  }
  return true;
}

/* Passes over the pairs until none binds any more; then all are compared. */
bool sem_match_args(sem_ctx_t *c, sem_matching_t *m, sem_expr_t *const *args,
                    td_loc_t call_loc) {
  pairs_t p = {.c = c, .m = m, .args = args};
  bool ok = true;
  for (uint32_t i = 0; i < m->callee->func.param_count; i++) {
    const sem_type_t *param = &m->callee->params[i];
    p.index = i;
    if (args[i] == NULL) continue; /* reported by the caller */
    ok = kinds_match(c, &p, param, args[i]) &&
         add_pairs(&p, param, &args[i]->type, args[i]->loc) && ok;
  }
  if (!ok) return false;
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = 0; i < p.list.length; i++) {
      pair_t *pair = &p.list.data[i];
      if (pair->done) continue;
      int r = try_bind(&p, pair);
      if (r < 0) return false;
      progress = progress || r > 0;
    }
  }
  if (!report_unbound(&p, call_loc)) return false;
  for (size_t i = 0; i < p.list.length; i++) {
    const pair_t *pair = &p.list.data[i];
    const ix_poly_t *value = ix_subst(c->pool, pair->param->size,
                                      sem_matching_map, m, c->facts);
    if (value != NULL && sem_same_dim(c, value, pair->arg->size)) continue;
    report_pair(&p, pair);
    return false;
  }
  return true;
}
