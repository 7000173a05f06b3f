/* lower_update.c: := and +=.
 *
 * An update makes the next version of its cells: a map where the whole is
 * replaced, an update node where elements or one stack position are.  All
 * reads of a statement are of versions taken before its first write. */
#include "frontend/lower_impl.h"

/* Old + new in their common type; the store rounds once. */
static tir_expr_t *added(lo_t *lo, tir_expr_t *old, tir_expr_t *e,
                         td_loc_t loc) {
  tdsl_dtype_t type = old->type;
  if (e->type == TDSL_DTYPE_F64 ||
      (td_dtype_is_float(e->type) && !td_dtype_is_float(type)))
    type = e->type;
  return lo_op2(lo, TIR_X_ADD, type, lo_coerce(lo, old, type),
                lo_coerce(lo, e, type), loc);
}

/* Leaf i of a place replaced or added to: by `from`, or by the formula of
 * the statement. */
static void update_leaf(lo_t *lo, const sem_stmt_t *s,
                        const lo_binding_t *place, uint32_t i,
                        const lo_view_t *from) {
  lo_cell_t *cell = place->cells[i];
  uint32_t fixed = place->prefix_count;
  /* A fresh value in the type of the place is the next version. */
  if (from != NULL && from->value != NULL && fixed == 0 &&
      !s->is_accumulate && from->dtype == cell->dtype) {
    cell->now = from;
    return;
  }
  size_t mark = lo->active.length;
  tir_index_t *own[IX_MAX_RANK];
  tir_expr_t *subs[IX_MAX_RANK];
  tir_expr_t **at = subs + fixed;
  for (uint32_t k = 0; k < fixed; k++) subs[k] = place->prefix[k];
  uint32_t count = cell->rank - fixed;
  for (uint32_t k = 0; k < count; k++) {
    own[k] = lo_push_index(lo, "i", cell->dims[fixed + k], s->loc);
    at[k] = tir_index_ref(lo->arena, own[k]);
  }
  lo_spec_t spec = {.name = cell->name,
                    .loc = s->loc,
                    .dtype = cell->dtype,
                    .is_written = cell->is_written,
                    .guard = lo->guard,
                    .own_count = count,
                    .own = own};
  bool is_plain = from == NULL && fixed == 0 && !s->is_accumulate;
  if (is_plain) {
    spec.guard = NULL;
    cell->now = lo_emit_formula(lo, s->value, at, &spec);
  } else {
    tir_expr_t *e =
        from != NULL
            ? lo_view_load(lo, from, at, s->loc)
            : lo_elem(lo, s->value, s->value->type.rank == 0 ? NULL : at);
    if (s->is_accumulate) {
      const lo_view_t *old = lo_view_fix(lo, cell->now, fixed, subs);
      e = added(lo, lo_view_load(lo, old, at, s->loc), e, s->loc);
    }
    spec.body = e;
    if (fixed == 0)
      cell->now = lo_emit_map(lo, &spec);
    else
      lo_emit_update(lo, cell, &spec, cell->rank, subs, false, true);
  }
  lo->active.length = mark;
}

/* The value first, then the place: a call on the right may itself write to
 * inout arguments, and the place is replaced by what it returns. */
static void update_whole(lo_t *lo, const sem_stmt_t *s) {
  const sem_expr_t *e = s->value;
  lo_value_t from = {0, NULL};
  /* All that is read is read before anything is written. */
  if (e->kind == SEM_CALL) {
    const char **names =
        TD_NEW_ARRAY(lo->arena, const char *, e->callee->result_count);
    lo_value_t *results =
        TD_NEW_ARRAY(lo->arena, lo_value_t, e->callee->result_count);
    for (uint32_t i = 0; i < e->callee->result_count; i++)
      names[i] = lo->name;
    lo_inline(lo, e, names, NULL, results);
    from = results[0];
  } else if (e->type.kind == SEM_STRUCT) {
    from = lo_value(lo, e);
  }
  const lo_binding_t *place = lo_place(lo, s->place);
  for (uint32_t i = 0; i < place->count; i++)
    update_leaf(lo, s, place, i, from.count > 0 ? from.leaves[i] : NULL);
}

/* Subscripts, right side and guard see the version before the statement; the
 * update node makes the one after it.  Stack positions of the place come in
 * front of the subscripts. */
static void update_elements(lo_t *lo, const sem_stmt_t *s) {
  lo_push_indices(lo, s);
  lo_indices_t own = {0};
  for (uint32_t i = 0; i < s->index_count; i++)
    td_vec_push(lo->arena, &own, lo_canonical(lo, s->indices[i]));
  tir_expr_t *outer = lo->guard;
  if (s->guard != NULL)
    lo->guard = lo_and(lo, outer, lo_scalar(lo, s->guard));
  const lo_binding_t *place = lo_place(lo, s->place);
  lo_cell_t *cell = place->cells[0];
  tir_expr_t *subs[IX_MAX_RANK], *at[IX_MAX_RANK];
  uint32_t count = 0, colons = 0;
  for (uint32_t i = 0; i < place->prefix_count; i++)
    subs[count++] = place->prefix[i];
  TD_CHECK(lo->task, count + s->sub_count == cell->rank,
           "%u subscripts on rank %u", count + s->sub_count, cell->rank);
  for (uint32_t i = 0; i < s->sub_count; i++, count++) {
    if (s->subs[i] != NULL) {
      subs[count] = lo_scalar(lo, s->subs[i]);
      continue;
    }
    tir_index_t *index = lo_push_index(lo, "i", cell->dims[count], s->loc);
    td_vec_push(lo->arena, &own, index);
    at[colons] = tir_index_ref(lo->arena, index);
    subs[count] = at[colons++];
  }
  lo_spec_t spec = {.name = cell->name,
                    .loc = s->loc,
                    .own_count = (uint32_t)own.length,
                    .own = own.data,
                    .body = lo_elem(lo, s->value,
                                    s->value->type.rank == 0 ? NULL : at),
                    .guard = lo->guard};
  /* `where` is the update's own: what may have to be made of the old version
   * is for all tuples. */
  lo->guard = outer;
  lo_emit_update(lo, cell, &spec, count, subs, s->is_accumulate,
                 s->is_distinct);
}

/* The name that messages and dumps use for what the statement makes. */
static const char *root_name(lo_t *lo, const sem_expr_t *place) {
  const sem_symbol_t *root;
  uint32_t first, count;
  if (!lo_place_range(place, &root, &first, &count)) return "update";
  const lo_binding_t *b = lo_lookup(lo, root);
  return b != NULL && b->cells != NULL && first < b->count
             ? b->cells[first]->name
             : root->name;
}

void lo_update(lo_t *lo, const sem_stmt_t *s) {
  size_t mark = lo->active.length;
  lo->name = root_name(lo, s->place);
  if (s->sub_count > 0 || s->index_count > 0)
    update_elements(lo, s);
  else
    update_whole(lo, s);
  lo->active.length = mark;
}
