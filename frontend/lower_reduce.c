/* lower_reduce.c: reductions, topk, and formulas that must be stored.
 *
 * A reduction becomes a node over the indices that occur free in it; where
 * it stood, a load reads it back.  Its guard is `where` behind the lazy
 * conditions around it. */
#include "frontend/lower_impl.h"

static tir_reduce_t reduce_of(lo_t *lo, sem_reduce_t op) {
  switch (op) {
  case SEM_SUM: return TIR_REDUCE_SUM;
  case SEM_PROD: return TIR_REDUCE_PROD;
  case SEM_MAX: return TIR_REDUCE_MAX;
  case SEM_MIN: return TIR_REDUCE_MIN;
  case SEM_ANY: return TIR_REDUCE_ANY;
  case SEM_ALL: return TIR_REDUCE_ALL;
  case SEM_ARGMAX: return TIR_REDUCE_ARGMAX;
  case SEM_ARGMIN: return TIR_REDUCE_ARGMIN;
  }
  TD_ICE(lo->task, "reduction %d", (int)op);
}

/* Binders of one reduction are bound anew each time it is lowered. */
void lo_bind_index(lo_t *lo, const sem_index_t *index, tir_expr_t *value) {
  td_map_put_u64(&lo->frame->indices, (uint64_t)(uintptr_t)index, value);
}

/* The binders of a reduction: each runs from 0, its value has the lower end
 * of the range added. */
static void push_binders(lo_t *lo, const sem_expr_t *e, lo_reduction_t *r,
                         tir_index_t **red) {
  for (uint32_t i = 0; i < e->index_count; i++) {
    const sem_index_t *index = e->indices[i];
    const ix_poly_t *extent = lo_extent(lo, lo_poly(lo, index->extent));
    red[i] = lo_push_index(lo, index->name, extent, index->loc);
    tir_expr_t *value = tir_index_ref(lo->arena, red[i]);
    const ix_poly_t *low = lo_poly(lo, index->lo);
    int64_t n;
    if (!ix_is_const(low, &n) || n != 0) {
      tir_expr_t *offset = lo_dim(lo, low);
      value = lo_op2(lo, TIR_X_ADD, TDSL_DTYPE_I64, value, offset,
                     index->loc);
      if (e->reduce == SEM_ARGMAX || e->reduce == SEM_ARGMIN)
        r->offset = offset;
    }
    lo_bind_index(lo, index, value);
  }
}

/* All elements of a tensor, in row-major order. */
static tir_expr_t *all_elements(lo_t *lo, const sem_expr_t *e,
                                tir_index_t **red) {
  const sem_expr_t *t = e->args[0];
  tir_expr_t *at[IX_MAX_RANK];
  for (uint32_t i = 0; i < t->type.rank; i++) {
    red[i] = lo_push_index(lo, "i", lo_poly(lo, t->type.dims[i].size),
                           e->loc);
    at[i] = tir_index_ref(lo->arena, red[i]);
  }
  return lo_elem(lo, t, at);
}

/* The steps follow the text: ranges, `where`, body.  `where` is evaluated
 * under the guard around the reduction, the body under both.  A product stays
 * at the top of the body, which is how engines know to add it by fma. */
void lo_reduction(lo_t *lo, const sem_expr_t *e, tir_expr_t *const *at,
                  lo_reduction_t *out) {
  uint32_t count =
      e->kind == SEM_REDUCE ? e->index_count : e->args[0]->type.rank;
  tir_index_t **red = TD_NEW_ARRAY(lo->arena, tir_index_t *, count);
  tir_expr_t *outer = lo->guard, *body;
  *out = (lo_reduction_t){.offset = NULL};
  if (e->kind == SEM_REDUCE_ALL) {
    body = all_elements(lo, e, red);
  } else {
    push_binders(lo, e, out, red);
    if (e->guard != NULL)
      lo->guard = lo_and(lo, outer, lo_scalar(lo, e->guard));
    body = lo_elem(lo, e->args[0], e->args[0]->type.rank == 0 ? NULL : at);
  }
  bool is_position = e->reduce == SEM_ARGMAX || e->reduce == SEM_ARGMIN;
  if (!is_position)
    body = lo_coerce(lo, body, tir_arithmetic(e->type.dtype));
  out->spec = (lo_spec_t){
      .name = td_arena_printf(lo->arena, "%s_%s", lo->name,
                              sem_reduce_text(e->reduce)),
      .loc = e->loc,
      .dtype = is_position ? TDSL_DTYPE_I64 : body->type,
      .red_count = count,
      .red = red,
      .reduce = reduce_of(lo, e->reduce),
      .guard = lo->guard,
      .body = body};
  if (is_position) {
    out->spec.lo = ix_const(lo->pool, 0);
    out->spec.hi = red[0]->extent;
  }
  lo->guard = outer;
}

/* Loads of rank 0: all dims of the node are outer indices, which the view
 * fixes. */
tir_expr_t *lo_reduce(lo_t *lo, const sem_expr_t *e, tir_expr_t *const *at) {
  size_t mark = lo->active.length;
  lo_reduction_t r;
  lo_reduction(lo, e, at, &r);
  const lo_view_t *view = lo_emit_map(lo, &r.spec);
  lo->active.length = mark;
  tir_expr_t *value = lo_view_load(lo, view, NULL, e->loc);
  if (r.offset != NULL)
    value = lo_op2(lo, TIR_X_ADD, TDSL_DTYPE_I64, value, r.offset, e->loc);
  return value;
}

const lo_view_t *lo_store_formula(lo_t *lo, const sem_expr_t *e,
                                  const char *name) {
  size_t mark = lo->active.length;
  const char *outer_name = lo->name;
  tir_index_t *own[IX_MAX_RANK];
  tir_expr_t *at[IX_MAX_RANK];
  lo->name = name;
  for (uint32_t i = 0; i < e->type.rank; i++) {
    own[i] =
        lo_push_index(lo, "i", lo_poly(lo, e->type.dims[i].size), e->loc);
    at[i] = tir_index_ref(lo->arena, own[i]);
  }
  /* A cast says in which type its result may be kept. */
  bool is_cast = e->kind == SEM_CAST;
  lo_spec_t spec = {.name = name,
                    .loc = e->loc,
                    .dtype = is_cast ? e->type.dtype
                                     : tir_arithmetic(e->type.dtype),
                    .is_written = is_cast,
                    .own_count = e->type.rank,
                    .own = own,
                    .body = lo_elem(lo, e, at)};
  const lo_view_t *view = lo_emit_map(lo, &spec);
  lo->active.length = mark;
  lo->name = outer_name;
  return view;
}

/* ---- topk --------------------------------------------------------------- */

/* The value under a view of rank 1 if it is just [outer..., N]: every other
 * dim fixed by a canonical index of its own over all of that dim. */
static bool is_stack_of_rows(const lo_view_t *view) {
  const tir_value_t *v = view->value;
  if (v == NULL || view->subs[v->rank - 1].fixed != NULL) return false;
  for (uint32_t i = 0; i + 1 < v->rank; i++) {
    const tir_expr_t *s = view->subs[i].fixed;
    if (s == NULL || s->op != TIR_X_INDEX ||
        s->u.index->extent != v->dims[i])
      return false;
    for (uint32_t k = 0; k < i; k++)
      if (view->subs[k].fixed->u.index == s->u.index) return false;
  }
  return true;
}

/* One output of topk, seen like the rows that went in: its outer dims are
 * those of the operand, in the operand's order. */
static const lo_view_t *row_of(lo_t *lo, const lo_view_t *rows,
                               tir_node_t *node, uint32_t out,
                               const char *name, tdsl_dtype_t dtype) {
  const ix_poly_t *dims[IX_MAX_RANK];
  uint32_t rank = rows->value->rank;
  for (uint32_t i = 0; i + 1 < rank; i++) dims[i] = rows->value->dims[i];
  dims[rank - 1] = ix_const(lo->pool, node->k);
  tir_value_t *v = tir_value_create(lo->arena, name, dtype, rank, dims);
  v->loc = node->loc;
  v->def = node;
  node->outs[out] = v;
  lo_view_t *view = TD_NEW(lo->arena, lo_view_t);
  *view = *rows;
  view->value = v;
  view->dtype = dtype;
  view->dims = TD_NEW_ARRAY(lo->arena, const ix_poly_t *, 1);
  view->dims[0] = dims[rank - 1];
  return view;
}

/* The k of topk: a number, or generics that have become one. */
static int64_t row_count(lo_t *lo, const sem_expr_t *e) {
  int64_t k = e->k;
  if (k >= 0 || ix_is_const(lo_poly(lo, e->poly), &k)) return k;
  td_diag_t *d = td_diag(lo->task, TD_B01, e->loc,
                         "this version cannot compile topk of a number that "
                         "is not static");
  td_diag_help(d, "make it a `dim`, or give the generic a value with --dim");
  td_raise(lo->task, TDSL_STATUS_UNAVAILABLE, "topk");
}

/* The node works on whole tensors, so it has no guard: where the place is
 * not reached, the rows are zeros made by the map above it, and the result is
 * not read. */
void lo_topk(lo_t *lo, const sem_expr_t *e, const char *const *names,
             const lo_view_t **values, const lo_view_t **positions) {
  const lo_view_t *rows = lo_view(lo, e->args[0]);
  if (!is_stack_of_rows(rows)) {
    size_t mark = lo->active.length;
    tir_index_t *own = lo_push_index(lo, "i", rows->dims[0], e->loc);
    tir_expr_t *at = tir_index_ref(lo->arena, own);
    lo_spec_t spec = {
        .name = td_arena_printf(lo->arena, "%s.arg", lo->name),
        .loc = e->loc,
        .dtype = rows->dtype,
        .own_count = 1,
        .own = &own,
        .body = lo_view_load(lo, rows, &at, e->loc)};
    rows = lo_emit_map(lo, &spec);
    lo->active.length = mark;
  }
  tir_node_t *node = tir_node_create(lo->arena, TIR_TOPK, 2);
  node->loc = e->loc;
  node->operand_count = 1;
  node->operands = TD_NEW_ARRAY(lo->arena, tir_value_t *, 1);
  node->operands[0] = rows->value;
  node->k = row_count(lo, e);
  *values = row_of(lo, rows, node, 0, names[0], rows->dtype);
  *positions = row_of(lo, rows, node, 1, names[1], TDSL_DTYPE_I64);
  node->outs[1]->lo = ix_const(lo->pool, 0);
  node->outs[1]->hi = rows->dims[0];
  lo_add_node(lo, node);
}
