/* flatten.c: see flatten.h. */
#include "passes/tile/flatten.h"

#include "ir/expr.h"

typedef struct flatten {
  tile_t *t;
  flat_group_t *const *groups;
  uint32_t group_count;
} flatten_t;

void flat_finish(tile_t *t, flat_group_t *g, const char *name) {
  ix_pool_t *pool = t->module->pool;
  g->extent = ix_const(pool, 1);
  for (uint32_t i = 0; i < g->count; i++) {
    g->extent = ix_mul(pool, g->extent, g->members[i]->extent);
  }
  if (g->count == 1) {
    g->flat = g->members[0];
    return;
  }
  g->flat = tir_index_create((tir_module_t *)(uintptr_t)t->module, name,
                             g->extent, false);
}

/* Position of the group's members side by side in the subscripts, last one
 * plain and full; -1: none. */
static int find_run(const tir_expr_t *load, const flat_group_t *g) {
  const tir_value_t *v = load->u.value;
  if (g->count < 2 || load->arg_count < g->count) return -1;
  for (uint32_t d = 0; d + g->count <= load->arg_count; d++) {
    bool matches = true;
    for (uint32_t i = 0; i < g->count && matches; i++) {
      const tir_expr_t *s = load->args[d + i];
      matches = s->op == TIR_X_INDEX && s->u.index == g->members[i] &&
                (i == 0 || v->dims[d + i] == g->members[i]->extent);
    }
    if (matches) return (int)d;
  }
  return -1;
}

/* The same memory with dims from .. from + count - 1 as one. */
static tir_value_t *view_of(tile_t *t, const tir_value_t *v, uint32_t from,
                            uint32_t count) {
  tir_value_t *view = TD_NEW(t->arena, tir_value_t);
  *view = *v;
  view->rank = v->rank - count + 1;
  for (uint32_t d = 0; d < view->rank; d++) {
    if (d < from) {
      view->dims[d] = v->dims[d];
    } else if (d > from) {
      view->dims[d] = v->dims[d + count - 1];
    } else {
      const ix_poly_t *product = ix_const(t->module->pool, 1);
      for (uint32_t i = 0; i < count; i++) {
        product = ix_mul(t->module->pool, product, v->dims[from + i]);
      }
      view->dims[d] = product;
    }
  }
  return view;
}

static tir_expr_t *merge_subscripts(void *user, tir_expr_t *e) {
  flatten_t *f = user;
  if (e->op != TIR_X_LOAD) return e;
  tile_t *t = f->t;
  /* elements of the tile are not memory */
  if (td_map_get_u64(&t->elements, (uint64_t)(uintptr_t)e->u.value) != NULL) {
    return e;
  }
  const tir_value_t *memory = e->u.value;
  bool is_view = false;
  for (uint32_t k = 0; k < f->group_count; k++) {
    const flat_group_t *g = f->groups[k];
    int at = find_run(e, g);
    if (at < 0) continue;
    uint32_t d = (uint32_t)at;
    tir_expr_t *subs[IX_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < e->arg_count; i++) {
      if (i == d) {
        subs[count++] = tir_index_ref(t->arena, g->flat);
      } else if (i < d || i >= d + g->count) {
        subs[count++] = e->args[i];
      }
    }
    td_loc_t loc = e->loc;
    e = tir_load(t->arena, view_of(t, e->u.value, d, g->count), count, subs);
    e->loc = loc;
    is_view = true;
  }
  if (is_view) {
    kir_buffer_t *b = tile_view_param(t, memory, e->u.value);
    b->is_read = true;
  }
  return e;
}

/* Members from the last to the first: remainder, then quotient. */
static void split_flat(tile_t *t, const flat_group_t *g, tir_expr_t **out) {
  tir_expr_t *rest = tir_index_ref(t->arena, g->flat);
  for (uint32_t i = g->count; i > 0; i--) {
    if (i == 1) {
      out[0] = rest;
      break;
    }
    tir_expr_t *extent = tir_dim(t->arena, g->members[i - 1]->extent);
    tir_expr_t *args[2] = {rest, extent};
    out[i - 1] = tir_op(t->arena, TIR_X_MOD, TDSL_DTYPE_I64, 2, args);
    rest = tir_op(t->arena, TIR_X_DIV, TDSL_DTYPE_I64, 2, args);
  }
}

tir_expr_t *flat_rewrite(tile_t *t, flat_group_t *const *groups,
                         uint32_t group_count, tir_expr_t *e) {
  flatten_t f = {t, groups, group_count};
  e = tir_rewrite(t->arena, e, merge_subscripts, &f);
  for (uint32_t k = 0; k < group_count; k++) {
    flat_group_t *g = groups[k];
    if (g->count < 2) continue;
    tir_expr_t *to[IX_MAX_RANK];
    split_flat(t, g, to);
    e = tir_replace_indices(t->arena, e, g->count, g->members, to);
  }
  return e;
}
