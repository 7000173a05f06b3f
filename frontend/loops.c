/* loops.c: `for`, and `each` expanded leaf by leaf. */
#include "frontend/check.h"

/* ---- for ----------------------------------------------------------------- */

/* A bound of a loop is read once, so it may stand for itself in polys only if
 * it is made of dims. */
static bool is_fixed(const ix_poly_t *p) {
  return p != NULL && (p->below.has & IX_HAS_VARYING) == 0;
}

/* A bound that depends on data counts by its ends: it is read once, and the
 * data may change in the body. */
static void loop_range(sem_ctx_t *c, ix_symbol_t *v, const sem_expr_t *lo,
                       const sem_expr_t *hi) {
  const ix_poly_t *a, *b, *one = ix_const(c->pool, 1);
  v->lo = lo->poly;
  v->hi = hi->poly;
  if (!is_fixed(lo->poly)) sem_ends(c, lo->poly, &v->lo, &a);
  if (!is_fixed(hi->poly)) {
    sem_ends(c, hi->poly, &a, &b);
    v->hi = b == NULL ? NULL : ix_sub(c->pool, b, one);
  }
}

/* Its own symbol in polys; the range follows. */
static sem_symbol_t *loop_symbol(sem_ctx_t *c, ast_name_t name) {
  sem_symbol_t *s = sem_new_symbol(c, SEM_LOOP, name.text, name.loc);
  s->type = sem_scalar(TDSL_DTYPE_I64);
  s->is_written = true;
  s->value = ix_symbol_create(c->pool, s->name, IX_SYM_LOOP, name.loc);
  return s;
}

/* May the value be held in 32 bits by its type? */
static bool is_i32(const sem_expr_t *e) {
  bool fits = e->kind == SEM_CONST && e->i64 >= INT32_MIN &&
              e->i64 <= INT32_MAX;
  return fits || sem_arithmetic(e->type.dtype) == TDSL_DTYPE_I32;
}

/* The body is checked once, for any iteration: inside of it the range is not
 * empty. */
sem_stmt_t *sem_check_for(sem_ctx_t *c, const ast_stmt_t *s) {
  sem_stmt_t *stmt = sem_new_stmt(c, SEM_FOR, s->loc);
  sem_loop_attributes(c, s);
  sem_expr_t *lo = NULL;
  if (s->range->lo == NULL) {
    lo = sem_number_expr(c, (sem_number_t){SEM_NUMBER_INT, 0, 0},
                         s->range->loc);
  } else {
    lo = sem_check_int(c, s->range->lo);
  }
  sem_expr_t *hi = sem_check_int(c, s->range->hi);
  size_t scope = sem_scope_mark(c), mark = ix_facts_mark(c->facts);
  sem_entry_t *e = sem_declare(c, SEM_ENTRY_SYMBOL, s->names[0], false);
  sem_symbol_t *loop = loop_symbol(c, s->names[0]);
  if (e != NULL) e->symbol = loop;
  bool ok = lo != NULL && hi != NULL, is_entered = ok;
  if (ok) {
    lo = sem_settle(c, lo);
    hi = sem_settle(c, hi);
    ix_symbol_t *v = (ix_symbol_t *)(uintptr_t)loop->value;
    loop_range(c, v, lo, hi);
    loop->type.lo = v->lo;
    loop->type.hi = v->hi;
    if (is_i32(s->range->lo == NULL ? hi : lo) && is_i32(hi)) {
      /* Between two i32 it is one, whatever is known of them. */
      loop->type.dtype = TDSL_DTYPE_I32;
      sem_set_width(c, v, TDSL_DTYPE_I32);
    }
    if (v->lo != NULL && v->hi != NULL) {
      const ix_poly_t *extent = ix_sub(c->pool, v->hi, v->lo);
      int64_t number = 0;
      is_entered = !ix_is_const(extent, &number) || number > 0;
      if (is_entered) ix_facts_extent_nonempty(c->facts, c->pool, extent);
    }
  }
  if (!is_entered) c->unproved++;
  c->loop_depth++;
  stmt->body = sem_check_block(c, s->body);
  c->loop_depth--;
  if (!is_entered) c->unproved--;
  ix_facts_release(c->facts, mark);
  sem_scope_release(c, scope);
  if (!ok || e == NULL) return NULL;
  stmt->loop = loop;
  stmt->lo = lo;
  stmt->hi = hi;
  return stmt;
}

/* ---- each: the leaves ---------------------------------------------------- */

typedef struct path {
  uint32_t fields[256];
  uint32_t length;
} path_t;

typedef struct leaf {
  path_t path;
  sem_type_t type;     /* as declared */
  uint32_t stack_rank; /* dims of the stacks around it */
  const ix_poly_t *stacks[IX_MAX_RANK];
} leaf_t;

typedef TD_VEC(leaf_t) leaves_t;

/* Depth first in the order of declaration, as checkpoints and slots have
 * them. */
static void add_leaves(sem_ctx_t *c, leaves_t *out, const sem_type_t *type,
                       leaf_t *at) {
  uint32_t rank = at->stack_rank;
  if (type->kind == SEM_TENSOR) {
    at->type = *type;
    td_vec_push(c->arena, out, *at);
    return;
  }
  for (uint32_t i = 0; i < type->rank; i++) {
    at->stacks[at->stack_rank++] = type->dims[i].size;
  }
  for (uint32_t i = 0; i < type->record->field_count; i++) {
    at->path.fields[at->path.length++] = i;
    add_leaves(c, out, &type->record->fields[i].type, at);
    at->path.length--;
  }
  at->stack_rank = rank;
}

/* Dims and stacks; dtypes may differ, as those of weights and moments do. */
static bool same_leaf(sem_ctx_t *c, const leaf_t *a, const leaf_t *b) {
  if (a->stack_rank != b->stack_rank) return false;
  for (uint32_t i = 0; i < a->stack_rank; i++) {
    if (!sem_same_dim(c, a->stacks[i], b->stacks[i])) return false;
  }
  return sem_differing_dim(c, &a->type, &b->type) == (int)a->type.rank;
}

/* E06 names the first leaf that differs. */
static bool same_leaves(sem_ctx_t *c, const ast_stmt_t *s,
                        const leaves_t *lists, sem_expr_t *const *values) {
  for (size_t i = 1; i < s->expr_count; i++) {
    const leaves_t *a = &lists[0], *b = &lists[i];
    size_t k = 0;
    while (k < a->length && k < b->length &&
           same_leaf(c, &a->data[k], &b->data[k])) {
      k++;
    }
    if (k == a->length && k == b->length) continue;
    td_diag_t *d = sem_report(
        c, TD_E06, s->exprs[i]->loc, "the structs of `each` differ: %s and "
        "%s", sem_type_text(c, &values[0]->type),
        sem_type_text(c, &values[i]->type));
    td_diag_label(d, s->exprs[0]->loc, "%zu leaves", a->length);
    td_diag_label(d, s->exprs[i]->loc, "%zu leaves", b->length);
    if (k < a->length && k < b->length) {
      td_diag_note(d, "leaf %zu is %s and %s", k + 1,
                   sem_type_text(c, &a->data[k].type),
                   sem_type_text(c, &b->data[k].type));
    }
    return false;
  }
  return true;
}

/* ---- each: places of one leaf -------------------------------------------- */

/* The stack position that the loops are at. */
static sem_expr_t *stack_element(sem_ctx_t *c, sem_expr_t *base,
                                 sem_symbol_t *const *loops) {
  sem_expr_t *e = sem_new_expr(c, SEM_SUBSCRIPT, base->loc);
  e->type = base->type;
  e->type.rank = 0;
  e->type.syntax = NULL;
  e->arg_count = 1;
  e->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 1);
  e->args[0] = base;
  e->sub_count = base->type.rank;
  e->subs = TD_NEW_ARRAY(c->arena, sem_sub_t, e->sub_count);
  for (uint32_t i = 0; i < e->sub_count; i++) {
    e->subs[i].loc = base->loc;
    e->subs[i].expr = sem_name_expr(c, loops[i], base->loc);
  }
  return e;
}

/* The path from the struct to its leaf, a subscript for every stack on the
 * way. */
static sem_expr_t *leaf_place(sem_ctx_t *c, sem_expr_t *root,
                              const leaf_t *leaf,
                              sem_symbol_t *const *loops) {
  sem_expr_t *e = root;
  uint32_t used = 0;
  for (uint32_t i = 0; i < leaf->path.length; i++) {
    if (e->type.rank > 0) {
      uint32_t rank = e->type.rank;
      e = stack_element(c, e, loops + used);
      used += rank;
    }
    sem_expr_t *f = sem_new_expr(c, SEM_FIELD, root->loc);
    f->field = leaf->path.fields[i];
    f->type = sem_field_type(c, &e->type, f->field);
    f->arg_count = 1;
    f->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 1);
    f->args[0] = e;
    e = f;
  }
  return e;
}

/* One loop for each stack dim around the leaf. */
static void make_loops(sem_ctx_t *c, const ast_stmt_t *s, const leaf_t *leaf,
                       sem_leaf_t *out) {
  out->loop_count = leaf->stack_rank;
  out->loops = TD_NEW_ARRAY(c->arena, sem_symbol_t *, leaf->stack_rank);
  out->extents =
      TD_NEW_ARRAY(c->arena, const ix_poly_t *, leaf->stack_rank);
  for (uint32_t i = 0; i < leaf->stack_rank; i++) {
    sem_symbol_t *loop =
        loop_symbol(c, (ast_name_t){"position", s->names[0].loc});
    ix_symbol_t *v = (ix_symbol_t *)(uintptr_t)loop->value;
    v->lo = ix_const(c->pool, 0);
    v->hi = leaf->stacks[i];
    loop->type.lo = v->lo;
    loop->type.hi = v->hi;
    out->loops[i] = loop;
    out->extents[i] = leaf->stacks[i];
    td_vec_push(c->arena, &c->extents, &out->extents[i]);
    ix_facts_extent_nonempty(c->facts, c->pool, v->hi);
  }
}

/* The body once for each leaf, with the rank and dims that this leaf
 * declares. */
static bool check_leaf(sem_ctx_t *c, const ast_stmt_t *s,
                       const leaves_t *lists, sem_expr_t *const *roots,
                       size_t number, sem_leaf_t *out) {
  size_t scope = sem_scope_mark(c), mark = ix_facts_mark(c->facts);
  make_loops(c, s, &lists[0].data[number], out);
  bool ok = true;
  for (size_t i = 0; i < s->name_count; i++) {
    sem_entry_t *e = sem_declare(c, SEM_ENTRY_SYMBOL, s->names[i], false);
    if (e == NULL) {
      ok = false;
      continue;
    }
    const leaf_t *leaf = &lists[i].data[number];
    sem_symbol_t *p = sem_new_symbol(c, SEM_PLACE, s->names[i].text,
                                     s->names[i].loc);
    p->place = leaf_place(c, roots[i], leaf, out->loops);
    p->type = leaf->type;
    p->is_written = true;
    e->symbol = p;
    e->is_exempt = true;
  }
  uint32_t before = td_task_errors(c->task);
  if (ok) {
    c->loop_depth++;
    out->body = sem_check_block(c, s->body);
    c->loop_depth--;
  }
  ix_facts_release(c->facts, mark);
  sem_scope_release(c, scope);
  return ok && td_task_errors(c->task) == before;
}

/* A formula has no places to visit. */
static sem_expr_t *check_struct(sem_ctx_t *c, const ast_expr_t *e) {
  sem_expr_t *value = sem_check_expr(c, e);
  if (value == NULL) return NULL;
  if (!sem_is_struct(value)) {
    td_diag_t *d = sem_report(c, TD_E06, e->loc,
                              "`each` visits the leaves of structs, this is "
                              "%s", sem_type_text(c, &value->type));
    td_diag_label(d, e->loc, "no struct");
    return NULL;
  }
  if (sem_root(value) == NULL) {
    td_diag_t *d = sem_report(c, TD_E19, e->loc,
                              "`each` visits places, %s is a formula",
                              sem_text(c, e));
    td_diag_help(d, "name it first: `t = %s`", sem_text(c, e));
    return NULL;
  }
  return value;
}

/* Faults of the body are reported for the first leaf that has them: the
 * others would repeat it. */
sem_stmt_t *sem_check_each(sem_ctx_t *c, const ast_stmt_t *s) {
  sem_stmt_t *stmt = sem_new_stmt(c, SEM_EACH, s->loc);
  if (s->name_count != s->expr_count) {
    sem_report(c, TD_E47, s->loc, "%zu names for %zu structs", s->name_count,
               s->expr_count);
    return NULL;
  }
  sem_expr_t **roots = TD_NEW_ARRAY(c->arena, sem_expr_t *, s->expr_count);
  leaves_t *lists = TD_NEW_ARRAY(c->arena, leaves_t, s->expr_count);
  leaf_t *at = TD_NEW(c->arena, leaf_t);
  bool ok = true;
  for (size_t i = 0; i < s->expr_count; i++) {
    roots[i] = check_struct(c, s->exprs[i]);
    ok = ok && roots[i] != NULL;
    if (roots[i] == NULL) continue;
    memset(at, 0, sizeof *at);
    add_leaves(c, &lists[i], &roots[i]->type, at);
  }
  if (!ok || !same_leaves(c, s, lists, roots)) return NULL;
  stmt->leaves = TD_NEW_ARRAY(c->arena, sem_leaf_t, lists[0].length);
  for (size_t i = 0; i < lists[0].length; i++) {
    if (lists[0].data[i].type.rank == 0) continue; /* scalars are skipped */
    if (!check_leaf(c, s, lists, roots, i,
                    &stmt->leaves[stmt->leaf_count])) {
      return NULL;
    }
    stmt->leaf_count++;
  }
  return stmt;
}
