/* sweep_finish.c: around the tiles of a sweep (lower_cascade.c). Before the
 * first one, what it is relative to is computed; behind the last one lanes are
 * folded, and maps make results of the states. */
#include "passes/tile/sweep.h"

#include "passes/tensor/group_kernels.h"
#include "passes/tile/flatten.h"

void tile_sweep_place_rows(sweep_t *s) {
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    if (n->kind != TIR_MAP) continue;
    uint32_t *places = TD_NEW_ARRAY(t->arena, uint32_t, n->index_count + 1);
    for (uint32_t i = 0; i < s->rows; i++) places[i] = i;
    bool ok = n->cascade != 0 || group_row_places(t->arena, t->nodes, k, n,
                                                  s->rows, places);
    TD_CHECK(t->task, ok, "%s does not finish a row", n->outs[0]->name);
    s->places[k] = places;
  }
}

void tile_sweep_firsts(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (!t->nodes[k]->is_first) continue;
    tile_lower_one(t, t->nodes[k], s->rows, s->values, NULL, NULL, block);
  }
}

/* ---- maps over more than one block --------------------------------------- */

static bool is_finish(const tir_node_t *n) {
  return n->cascade == 0 && n->kind == TIR_MAP;
}

static const ix_poly_t *elements_of(const tile_t *t, const tir_node_t *n) {
  const ix_poly_t *product = ix_const(t->module->pool, 1);
  for (uint32_t i = 0; i < n->index_count && product != NULL; i++) {
    product = ix_mul(t->module->pool, product, n->indices[i]->extent);
  }
  return product;
}

bool tile_sweep_is_spread(const sweep_t *s, uint32_t k) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  if (s->spread == NULL || !is_finish(n)) return false;
  bool is_home = td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)n->outs[0]) !=
                 NULL;
  return !is_home && elements_of(t, n) == s->spread;
}

/* What all blocks would store is stored by the first one; that is for values
 * which no other node of the group reads. */
void tile_sweep_find_spread(sweep_t *s) {
  tile_t *t = s->t;
  int64_t lo, hi;
  if (s->rows != 0) return;
  for (uint32_t k = 0; k < t->node_count && s->spread == NULL; k++) {
    const tir_node_t *n = t->nodes[k];
    if (!is_finish(n) || n->index_count == 0) continue;
    const ix_poly_t *size = elements_of(t, n);
    if (size == NULL || (ix_interval(size, &lo, &hi) && hi <= SWEEP_SPREAD)) {
      continue;
    }
    s->spread = size;
    if (!tile_sweep_is_spread(s, k)) s->spread = NULL;
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_value_t *v = t->nodes[k]->outs[0];
    bool is_home = td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)v) != NULL;
    if (is_home && tile_escapes(t, v)) s->spread = NULL;
  }
}

/* Of the block's part of all elements, which are counted in index order. */
static void spread_map(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  flat_group_t g = {.count = n->index_count};
  flat_group_t *groups[1] = {&g};
  kir_expr_t *size = tile_dim(t, s->spread);
  kir_expr_t *next =
      kir_add(t->arena, s->chunk, tile_int(t, SWEEP_SPREAD));
  tile_range_t range = {s->chunk, tile_min(t, next, size)};
  tir_node_t *copy = TD_NEW(t->arena, tir_node_t);
  *copy = *n;
  for (uint32_t i = 0; i < n->index_count; i++) g.members[i] = n->indices[i];
  flat_finish(t, &g, "e");
  if (g.count > 1) {
    tir_value_t *view = TD_NEW(t->arena, tir_value_t);
    *view = *n->outs[0];
    view->rank = 1;
    view->dims[0] = s->spread;
    tile_view_param(t, n->outs[0], view)->is_written = true;
    copy->outs = TD_NEW_ARRAY(t->arena, tir_value_t *, 1);
    copy->outs[0] = view;
    copy->body = flat_rewrite(t, groups, 1, n->body);
    copy->index_count = 1;
    copy->indices = TD_NEW_ARRAY(t->arena, tir_index_t *, 1);
    copy->indices[0] = g.flat;
  }
  tile_lower_one(t, copy, 0, NULL, &range, NULL, block);
}

/* ---- results ------------------------------------------------------------- */

/* Where results go: to memory from one block only. */
static kir_block_t *once(sweep_t *s, const tir_value_t *v,
                         kir_block_t *block) {
  tile_t *t = s->t;
  if (s->spread == NULL || !tile_escapes(t, v)) return block;
  kir_expr_t *is_first = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, s->chunk,
                                  tile_int(t, 0));
  return &tile_push(t, block, tile_if(t, is_first))->body;
}

/* A finishing map with its rows in front, and where each index was. */
void tile_sweep_finish_map(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  uint32_t *places = s->places[k], count = s->rows;
  if (tile_sweep_is_spread(s, k)) {
    spread_map(s, k, block);
    return;
  }
  block = once(s, n->outs[0], block);
  tir_node_t *copy = TD_NEW(t->arena, tir_node_t);
  *copy = *n;
  copy->indices = TD_NEW_ARRAY(t->arena, tir_index_t *, n->index_count + 1);
  for (uint32_t i = 0; i < n->index_count; i++) {
    bool is_row = false;
    for (uint32_t r = 0; r < s->rows; r++) is_row |= places[r] == i;
    if (!is_row) places[count++] = i;
  }
  for (uint32_t i = 0; i < n->index_count; i++) {
    copy->indices[i] = n->indices[places[i]];
  }
  tile_lower_one(t, copy, s->rows, s->values, NULL, places, block);
}

kir_expr_t *tile_sweep_fold(sweep_place_t *p, kir_block_t *block) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  tdsl_dtype_t type = t->nodes[p->k]->body->type;
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2];
  kir_buffer_t *acc = tile_sweep_registers(t, block, type, TILE_LANES);
  kir_block_t *body = tile_lanes(t, block, NULL, &lane);
  uint32_t count =
      tile_sweep_subs(s, p->extras, p->extra_count, lane, subs);
  tile_store(t, body, acc, 1, &lane,
             kir_load(t->arena, s->states[p->k], count, subs));
  kir_expr_t *fold = kir_op(t->arena, KIR_X_FOLD, type, 0, NULL);
  fold->u.buffer = acc;
  fold->fold = KIR_X_ADD;
  return fold;
}

/* One number of the state, its lanes folded. */
static void store_folded(sweep_place_t *p, kir_block_t *block,
                         kir_expr_t *base, kir_expr_t *limit, int64_t lanes) {
  sweep_t *s = p->s;
  kir_expr_t *at[2 * IX_MAX_RANK];
  (void)base;
  (void)limit;
  (void)lanes;
  for (uint32_t i = 0; i < s->rows; i++) at[i] = s->values[i];
  for (uint32_t i = 0; i < p->extra_count; i++) at[s->rows + i] = p->extras[i];
  tile_store_value(s->t, block, s->t->nodes[p->k]->outs[0],
                   s->rows + p->extra_count, at, tile_sweep_fold(p, block));
}

static void store_chunk(sweep_place_t *p, kir_block_t *block, kir_expr_t *base,
                        kir_expr_t *limit, int64_t lanes) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[p->k];
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2], *at[2 * IX_MAX_RANK];
  uint32_t count;
  kir_block_t *body =
      tile_sweep_lanes(p, block, base, limit, lanes, &lane, subs, &count);
  for (uint32_t i = 0; i < s->rows; i++) at[i] = s->values[i];
  for (uint32_t i = 0; i < p->extra_count; i++) at[s->rows + i] = p->extras[i];
  tile_store_value(t, body, n->outs[0], s->rows + p->extra_count, at,
                   kir_load(t->arena, s->states[p->k], count, subs));
}

void tile_sweep_finish(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  kir_expr_t *subs[IX_MAX_RANK + 2];
  sweep_place_t p = {.s = s, .k = k, .fn = store_chunk};
  if (s->is_count[k]) return;
  block = once(s, n->outs[0], block);
  if (sweep_is_position(n) || sweep_is_top(n)) {
    tile_sweep_finish_order(s, k, block);
  } else if (sweep_is_laned(n)) {
    p.fn = store_folded;
    tile_sweep_places(&p, block);
  } else if (tile_escapes(t, n->outs[0])) {
    if (tile_sweep_parallel(n) > s->rows) {
      tile_sweep_places(&p, block);
      return;
    }
    uint32_t count = tile_sweep_subs(s, NULL, 0, NULL, subs);
    tile_store_value(t, block, n->outs[0], s->rows, s->values,
                     kir_load(t->arena, s->states[k], count, subs));
  }
}
