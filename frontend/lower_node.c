/* lower_node.c: nodes from expressions over canonical indices.
 *
 * The leading dims of what is emitted are the canonical indices that its
 * expressions mention, in the order of the stack (outermost first).  Each
 * node gets fresh indices and a copy of its expressions, so that nothing is
 * shared between nodes and passes may edit in place. */
#include "frontend/lower_impl.h"

/* ---- canonical indices -------------------------------------------------- */

const ix_poly_t *lo_extent(lo_t *lo, const ix_poly_t *extent) {
  int64_t n;
  if (ix_is_const(extent, &n))
    return n < 0 ? ix_const(lo->pool, 0) : extent;
  if (ix_prove_nonnegative(lo->pool, extent, lo->facts)) return extent;
  return ix_max(lo->pool, extent, ix_const(lo->pool, 0));
}

tir_index_t *lo_push_index(lo_t *lo, const char *name,
                           const ix_poly_t *extent, td_loc_t loc) {
  tir_index_t *index =
      tir_index_create(lo->module, name, extent, false);
  index->loc = loc;
  td_vec_push(lo->arena, &lo->active, index);
  return index;
}

/* Lists of indices are short (at most a few dozen), so plain searches. */
static bool holds(uint32_t count, tir_index_t *const *list,
                  const tir_index_t *index) {
  for (uint32_t i = 0; i < count; i++)
    if (list[i] == index) return true;
  return false;
}

typedef struct marks {
  lo_t *lo;
  bool *seen; /* for each entry of lo->active */
} marks_t;

/* An index that is not on the stack has gone out of scope: a fault of ours
 * that would otherwise surface as a wrong loop. */
static void mark_index(void *user, tir_expr_t *e) {
  marks_t *m = user;
  if (e->op != TIR_X_INDEX) return;
  /* Inner indices are the common case, so from the top. */
  for (size_t i = m->lo->active.length; i-- > 0;) {
    if (m->lo->active.data[i] != e->u.index) continue;
    m->seen[i] = true;
    return;
  }
  TD_ICE(m->lo->task, "index %s is used outside of its scope",
         e->u.index->name);
}

void lo_free_indices(lo_t *lo, uint32_t count, tir_expr_t *const *exprs,
                     uint32_t own_count, tir_index_t *const *own,
                     lo_indices_t *out) {
  td_arena_t scratch;
  td_arena_init(&scratch, lo->task);
  marks_t m = {lo, TD_NEW_ARRAY(&scratch, bool, lo->active.length)};
  tir_walker_t walker;
  tir_walker_init(&walker, &scratch);
  for (uint32_t i = 0; i < count; i++)
    if (exprs[i] != NULL)
      tir_walk_into(&walker, exprs[i], mark_index, &m);
  for (size_t i = 0; i < lo->active.length; i++) {
    tir_index_t *index = lo->active.data[i];
    if (m.seen[i] && !holds(own_count, own, index))
      td_vec_push(lo->arena, out, index);
  }
  td_arena_free_all(&scratch);
}

void lo_view_indices(lo_t *lo, const lo_view_t *view, lo_indices_t *out) {
  if (view->value == NULL) {
    lo_free_indices(lo, 1, &view->scalar, 0, NULL, out);
    return;
  }
  tir_expr_t *exprs[IX_MAX_RANK];
  for (uint32_t i = 0; i < view->value->rank; i++)
    exprs[i] = view->subs[i].fixed;
  lo_free_indices(lo, view->value->rank, exprs, 0, NULL, out);
}

void lo_join_indices(lo_t *lo, const lo_indices_t *a, const lo_indices_t *b,
                     lo_indices_t *out) {
  lo_indices_t all = {0};
  for (size_t i = 0; i < lo->active.length; i++) {
    tir_index_t *index = lo->active.data[i];
    if (holds((uint32_t)a->length, a->data, index) ||
        holds((uint32_t)b->length, b->data, index))
      td_vec_push(lo->arena, &all, index);
  }
  *out = all;
}

/* ---- copying expressions into a node ------------------------------------ */

typedef struct renaming {
  lo_t *lo;
  lo_indices_t from;
  lo_indices_t to; /* of the node */
  tir_rewriter_t rewriter;
} renaming_t;

static tir_expr_t *rename_index(void *user, tir_expr_t *e) {
  renaming_t *r = user;
  if (e->op != TIR_X_INDEX) return e;
  for (size_t i = 0; i < r->from.length; i++) {
    if (r->from.data[i] != e->u.index) continue;
    e->u.index = r->to.data[i];
    return e;
  }
  TD_ICE(r->lo->task, "index %s is not among those of the node",
         e->u.index->name);
}

static void add_fresh(renaming_t *r, tir_index_t *index, bool is_reduction) {
  tir_index_t *fresh = tir_index_create(r->lo->module, index->name,
                                        index->extent, is_reduction);
  fresh->loc = index->loc;
  td_vec_push(r->lo->arena, &r->from, index);
  td_vec_push(r->lo->arena, &r->to, fresh);
}

/* parallel: all indices of the node that are not reduced. */
/* One rewriter for all expressions of a node keeps what they share. */
static void start_renaming(renaming_t *r, lo_t *lo,
                           const lo_indices_t *parallel) {
  *r = (renaming_t){.lo = lo};
  for (size_t i = 0; i < parallel->length; i++)
    add_fresh(r, parallel->data[i], false);
  tir_rewriter_init(&r->rewriter, lo->arena, rename_index, r);
}

static tir_expr_t *renamed(renaming_t *r, tir_expr_t *e) {
  return e == NULL ? NULL : tir_rewrite_into(&r->rewriter, e);
}

static tir_expr_t *same(void *user, tir_expr_t *e) {
  (void)user;
  return e;
}

tir_expr_t *lo_copy_expr(lo_t *lo, tir_expr_t *e) {
  return tir_rewrite(lo->arena, e, same, NULL);
}

/* ---- emitting ----------------------------------------------------------- */

void lo_add_node(lo_t *lo, tir_node_t *node) {
  if (++lo->node_count > LO_MAX_NODES) {
    td_diag_t *d = td_diag(lo->task, TD_B01, node->loc,
                           "this version cannot compile programs of more "
                           "than %d operations after inlining",
                           LO_MAX_NODES);
    td_diag_help(d, "fewer calls inside calls, or a loop");
    td_raise(lo->task, TDSL_STATUS_UNAVAILABLE, "program is too large");
  }
  td_task_poll(lo->task);
  node->is_approx = lo->frame->is_approx;
  td_vec_push(lo->arena, lo->block, node);
}

/* The dims of a value are the extents of the node's own indices, pointer for
 * pointer: the verifier compares them so. */
static tir_value_t *new_out(lo_t *lo, tir_node_t *node, const char *name,
                            tdsl_dtype_t dtype, const lo_indices_t *dims) {
  if (dims->length > IX_MAX_RANK) {
    td_diag_t *d = td_diag(lo->task, TD_L03, node->loc,
                           "%s has rank %zu with the indices it is mapped "
                           "over, and %d is the highest",
                           name, dims->length, IX_MAX_RANK);
    td_diag_help(d, "name the value for fewer indices at a time, or merge "
                 "two dims");
    td_raise(lo->task, TDSL_STATUS_INVALID_PROGRAM, "rank is too high");
  }
  const ix_poly_t *extents[IX_MAX_RANK];
  for (size_t i = 0; i < dims->length; i++)
    extents[i] = dims->data[i]->extent;
  tir_value_t *v = tir_value_create(lo->arena, name, dtype,
                                    (uint32_t)dims->length, extents);
  v->loc = node->loc;
  v->def = node;
  if (v->rank == 0 && td_dtype_is_int(dtype))
    v->symbol = ix_symbol_create(lo->pool, name, IX_SYM_DATA, node->loc);
  node->outs[0] = v;
  return v;
}

/* The body in the arithmetic type of its place; a float of 64 bits goes
 * into a narrower one by the store, with one rounding. */
static tir_expr_t *fit(lo_t *lo, tir_expr_t *body, tdsl_dtype_t dtype) {
  tdsl_dtype_t type = tir_arithmetic(dtype);
  if (type == TDSL_DTYPE_F32 && body->type == TDSL_DTYPE_F64) return body;
  return lo_coerce(lo, body, type);
}

/* Canonical indices that the expressions mention beside own and reduced ones,
 * together with those that the spec wants. */
static void outer_of(lo_t *lo, const lo_spec_t *spec, uint32_t count,
                     tir_expr_t *const *exprs, lo_indices_t *out) {
  lo_indices_t own = {0}, found = {0}, wanted = {0};
  for (uint32_t i = 0; i < spec->own_count; i++)
    td_vec_push(lo->arena, &own, spec->own[i]);
  for (uint32_t i = 0; i < spec->red_count; i++)
    td_vec_push(lo->arena, &own, spec->red[i]);
  for (uint32_t i = 0; i < spec->outer_count; i++)
    td_vec_push(lo->arena, &wanted, spec->outer[i]);
  lo_free_indices(lo, count, exprs, (uint32_t)own.length, own.data, &found);
  lo_join_indices(lo, &found, &wanted, out);
}

/* Outer and own indices in the order in which the output has them. */
static void order_indices(lo_t *lo, const lo_spec_t *spec,
                          const lo_indices_t *outer, lo_indices_t *out) {
  const lo_order_t *order = spec->order;
  lo_indices_t wanted = {0};
  for (uint32_t i = 0; order != NULL && i < order->count; i++) {
    tir_index_t *found = NULL;
    if (order->items[i].index == NULL && order->items[i].dim < spec->own_count)
      found = spec->own[order->items[i].dim];
    for (size_t k = 0; k < outer->length; k++)
      if (outer->data[k] == order->items[i].index) found = outer->data[k];
    if (found != NULL && !holds((uint32_t)wanted.length, wanted.data, found))
      td_vec_push(lo->arena, &wanted, found);
  }
  if (wanted.length == outer->length + spec->own_count) {
    *out = wanted;
    return;
  }
  for (size_t i = 0; i < outer->length; i++)
    td_vec_push(lo->arena, out, outer->data[i]);
  for (uint32_t i = 0; i < spec->own_count; i++)
    td_vec_push(lo->arena, out, spec->own[i]);
}

/* The output as a view with a slot for each own index. */
static const lo_view_t *own_view(lo_t *lo, const lo_spec_t *spec,
                                 tir_value_t *value,
                                 const lo_indices_t *parallel) {
  lo_view_t *v = TD_NEW(lo->arena, lo_view_t);
  v->value = value;
  v->dtype = value->dtype;
  v->rank = spec->own_count;
  v->dims = TD_NEW_ARRAY(lo->arena, const ix_poly_t *, v->rank);
  v->subs = TD_NEW_ARRAY(lo->arena, lo_sub_t, value->rank);
  for (uint32_t k = 0; k < v->rank; k++) v->dims[k] = spec->own[k]->extent;
  for (uint32_t i = 0; i < value->rank; i++) {
    uint32_t k = 0;
    while (k < v->rank && spec->own[k] != parallel->data[i]) k++;
    if (k < v->rank)
      v->subs[i].slot = k;
    else
      v->subs[i].fixed = tir_index_ref(lo->arena, parallel->data[i]);
  }
  return v;
}

/* The guard of a map goes into its body: zeros where it is false, which no
 * reader looks at.  A constant needs none. */
const lo_view_t *lo_emit_map(lo_t *lo, const lo_spec_t *spec) {
  tir_expr_t *body = spec->body, *guard = spec->guard;
  if (spec->reduce == TIR_REDUCE_NONE) {
    body = fit(lo, body, spec->dtype);
    if (lo->guard != NULL && body->op != TIR_X_CONST)
      body = lo_select(lo, lo->guard, body, lo_zero(lo, body->type),
                       spec->loc);
    guard = NULL;
  }
  tir_expr_t *exprs[] = {body, guard};
  lo_indices_t outer = {0}, parallel = {0};
  outer_of(lo, spec, 2, exprs, &outer);
  order_indices(lo, spec, &outer, &parallel);

  renaming_t r;
  start_renaming(&r, lo, &parallel);
  for (uint32_t i = 0; i < spec->red_count; i++)
    add_fresh(&r, spec->red[i], true);
  tir_node_t *node = tir_node_create(lo->arena, TIR_MAP, 1);
  node->loc = spec->loc;
  node->index_count = (uint32_t)r.to.length;
  node->indices = r.to.data;
  node->reduce = spec->reduce;
  node->guard = renamed(&r, guard);
  node->body = renamed(&r, body);
  node->uses_tf32 = spec->reduce == TIR_REDUCE_SUM && lo->frame->is_tf32;
  tir_value_t *v = new_out(lo, node, spec->name, spec->dtype, &parallel);
  v->is_written = spec->is_written;
  v->lo = spec->lo;
  v->hi = spec->hi;
  if (spec->reduce != TIR_REDUCE_NONE) tir_assign_plan(lo->arena, node);
  lo_add_node(lo, node);
  return own_view(lo, spec, v, &parallel);
}

/* ---- cells -------------------------------------------------------------- */

static bool is_index(const lo_sub_t *sub, const tir_index_t *index) {
  return sub->fixed != NULL && sub->fixed->op == TIR_X_INDEX &&
         sub->fixed->u.index == index;
}

/* Whether the current version is just a value with dims [outer..., dims...]
 * in the dtype of the place; then it can be updated or carried as it is. */
static bool is_whole(const lo_cell_t *cell, uint32_t outer_count,
                     tir_index_t *const *outer) {
  const lo_view_t *now = cell->now;
  const tir_value_t *v = now->value;
  if (v == NULL || v->dtype != cell->dtype ||
      v->rank != outer_count + cell->rank)
    return false;
  for (uint32_t i = 0; i < outer_count; i++)
    if (!is_index(&now->subs[i], outer[i]) || v->dims[i] != outer[i]->extent)
      return false;
  for (uint32_t j = 0; j < cell->rank; j++) {
    const lo_sub_t *sub = &now->subs[outer_count + j];
    if (sub->fixed != NULL || sub->slot != j ||
        v->dims[outer_count + j] != cell->dims[j])
      return false;
  }
  return true;
}

tir_value_t *lo_cell_value(lo_t *lo, lo_cell_t *cell, uint32_t outer_count,
                           tir_index_t *const *outer) {
  if (is_whole(cell, outer_count, outer)) return cell->now->value;
  return lo_cell_copy(lo, cell, outer_count, outer);
}

/* A map of the current version in the type and dims of the place. */
tir_value_t *lo_cell_copy(lo_t *lo, lo_cell_t *cell, uint32_t outer_count,
                          tir_index_t *const *outer) {
  size_t mark = lo->active.length;
  tir_index_t *own[IX_MAX_RANK];
  tir_expr_t *at[IX_MAX_RANK];
  for (uint32_t j = 0; j < cell->rank; j++) {
    own[j] = lo_push_index(lo, "i", cell->dims[j], cell->loc);
    at[j] = tir_index_ref(lo->arena, own[j]);
  }
  lo_spec_t spec = {.name = cell->name,
                    .loc = cell->loc,
                    .dtype = cell->dtype,
                    .is_written = cell->is_written,
                    .own_count = cell->rank,
                    .own = own,
                    .body = lo_view_load(lo, cell->now, at, cell->loc),
                    .outer_count = outer_count,
                    .outer = outer};
  cell->now = lo_emit_map(lo, &spec);
  lo->active.length = mark;
  TD_CHECK(lo->task, is_whole(cell, outer_count, outer),
           "a version of %s depends on an index that its loop does not know",
           cell->name);
  return cell->now->value;
}

/* The target must have every outer index that the update depends on: two
 * tuples of an index that it lacked would write one element.  So the old
 * version is spread over them first if need be. */
void lo_emit_update(lo_t *lo, lo_cell_t *cell, const lo_spec_t *spec,
                    uint32_t sub_count, tir_expr_t *const *subs,
                    bool is_accumulate, bool is_distinct) {
  TD_CHECK(lo->task, sub_count == cell->rank, "%u subscripts on rank %u",
           sub_count, cell->rank);
  tir_expr_t *body = fit(lo, spec->body, cell->dtype);
  tir_expr_t *exprs[IX_MAX_RANK + 2];
  uint32_t count = 0;
  for (uint32_t i = 0; i < sub_count; i++) exprs[count++] = subs[i];
  exprs[count++] = body;
  exprs[count++] = spec->guard;
  lo_indices_t found = {0}, old = {0}, outer = {0};
  outer_of(lo, spec, count, exprs, &found);
  lo_view_indices(lo, cell->now, &old);
  lo_join_indices(lo, &found, &old, &outer);
  uint32_t outer_count = (uint32_t)outer.length;
  tir_value_t *target = lo_cell_value(lo, cell, outer_count, outer.data);

  lo_indices_t parallel = {0};
  for (uint32_t i = 0; i < outer_count; i++)
    td_vec_push(lo->arena, &parallel, outer.data[i]);
  for (uint32_t i = 0; i < spec->own_count; i++)
    td_vec_push(lo->arena, &parallel, spec->own[i]);

  renaming_t r;
  start_renaming(&r, lo, &parallel);
  tir_node_t *node = tir_node_create(lo->arena, TIR_UPDATE, 1);
  node->loc = spec->loc;
  node->index_count = (uint32_t)r.to.length;
  node->indices = r.to.data;
  node->guard = renamed(&r, spec->guard);
  node->body = renamed(&r, body);
  node->operand_count = 1;
  node->operands = TD_NEW_ARRAY(lo->arena, tir_value_t *, 1);
  node->operands[0] = target;
  node->sub_count = target->rank;
  node->subs = TD_NEW_ARRAY(lo->arena, tir_expr_t *, target->rank);
  for (uint32_t i = 0; i < outer_count; i++)
    node->subs[i] = tir_index_ref(lo->arena, r.to.data[i]);
  for (uint32_t i = 0; i < sub_count; i++)
    node->subs[outer_count + i] = renamed(&r, subs[i]);
  node->is_accumulate = is_accumulate;
  node->is_distinct = is_distinct;
  if (is_accumulate) tir_assign_plan(lo->arena, node);
  tir_value_t *v = tir_value_create(lo->arena, cell->name, cell->dtype,
                                    target->rank, target->dims);
  v->loc = spec->loc;
  v->is_written = cell->is_written;
  if (v->rank == 0 && td_dtype_is_int(v->dtype))
    v->symbol = ix_symbol_create(lo->pool, v->name, IX_SYM_DATA, v->loc);
  v->def = node;
  node->outs[0] = v;
  lo_add_node(lo, node);
  cell->now = lo_view_of(lo, v, &outer);
}
