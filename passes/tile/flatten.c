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

/* ---- places that count elements ------------------------------------------ */

typedef struct places {
  tile_t *t;
  tir_interner_t interner;
  TD_VEC(tir_value_t *) views;
  TD_VEC(const tir_value_t *) of;
  TD_VEC(uint32_t) from;
} places_t;

static bool is_extent(const tir_expr_t *e, const ix_poly_t *extent) {
  int64_t size;
  if (e->op == TIR_X_DIM) return e->u.dim == extent;
  return e->op == TIR_X_CONST && ix_is_const(extent, &size) &&
         size == e->u.i64;
}

/* `e` is place % extent, or place / extent. */
static bool is_step(const tir_expr_t *e, tir_x_t op, const ix_poly_t *extent) {
  return e->op == op && e->type == TDSL_DTYPE_I64 &&
         is_extent(e->args[1], extent);
}

/* The first of the last subscripts that are the digits of one place, which
 * comes out; the number of subscripts if there are none. */
static uint32_t find_digits(places_t *p, const tir_expr_t *load,
                            tir_expr_t **place) {
  const tir_value_t *v = load->u.value;
  uint32_t count = load->arg_count;
  if (count < 2 || count != v->rank ||
      !is_step(load->args[count - 1], TIR_X_MOD, v->dims[count - 1])) {
    return count;
  }
  *place = load->args[count - 1]->args[0];
  tir_expr_t *rest = tir_intern(&p->interner, *place);
  for (uint32_t d = count - 1; d-- > 0;) {
    /* this one is rest / extent of the one behind, or its remainder */
    tir_expr_t *e = load->args[d];
    bool is_last = !is_step(e, TIR_X_MOD, v->dims[d]);
    if (!is_last) e = e->args[0];
    if (!is_step(e, TIR_X_DIV, v->dims[d + 1]) ||
        tir_intern(&p->interner, e->args[0]) != rest) {
      return count;
    }
    if (is_last) return d;
    rest = tir_intern(&p->interner, e);
  }
  return count;
}

static tir_value_t *view_once(places_t *p, const tir_value_t *v,
                              uint32_t from) {
  tile_t *t = p->t;
  for (size_t i = 0; i < p->views.length; i++) {
    if (p->of.data[i] == v && p->from.data[i] == from) {
      return p->views.data[i];
    }
  }
  tir_value_t *view = view_of(t, v, from, v->rank - from);
  tile_view_param(t, v, view)->is_read = true;
  td_vec_push(t->arena, &p->views, view);
  td_vec_push(t->arena, &p->of, v);
  td_vec_push(t->arena, &p->from, from);
  return view;
}

static tir_expr_t *merge_digits(void *user, tir_expr_t *e) {
  places_t *p = user;
  tile_t *t = p->t;
  tir_expr_t *subs[IX_MAX_RANK], *place = NULL;
  if (e->op != TIR_X_LOAD ||
      td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)e->u.value) != NULL) {
    return e;
  }
  uint32_t from = find_digits(p, e, &place);
  if (from == e->arg_count) return e;
  for (uint32_t i = 0; i < from; i++) subs[i] = e->args[i];
  subs[from] = place;
  tir_expr_t *load =
      tir_load(t->arena, view_once(p, e->u.value, from), from + 1, subs);
  load->loc = e->loc;
  return load;
}

void flat_merge_places(tile_t *t) {
  places_t p = {.t = t};
  tir_node_t **nodes = TD_NEW_ARRAY(t->arena, tir_node_t *, t->node_count);
  tir_interner_init(&p.interner, t->arena);
  for (uint32_t k = 0; k < t->node_count; k++) {
    nodes[k] = t->nodes[k];
    if (nodes[k]->kind != TIR_MAP) continue;
    tir_expr_t *body = nodes[k]->body, *guard = nodes[k]->guard;
    size_t before = p.views.length;
    body = tir_rewrite(t->arena, body, merge_digits, &p);
    if (guard != NULL) guard = tir_rewrite(t->arena, guard, merge_digits, &p);
    if (before == p.views.length && before == 0) continue;
    nodes[k] = TD_NEW(t->arena, tir_node_t);
    *nodes[k] = *t->nodes[k];
    nodes[k]->body = body;
    nodes[k]->guard = guard;
  }
  t->nodes = nodes;
}
