/* sweep_finish.c: around the tiles of a sweep (lower_cascade.c). Before the
 * first one, what it is relative to is computed; behind the last one lanes are
 * folded, and maps make results of the states. */
#include "passes/tile/sweep.h"

#include "passes/tensor/group_kernels.h"

void tile_sweep_place_rows(sweep_t *s) {
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
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

/* A finishing map with its rows in front, and where each index was. */
void tile_sweep_finish_map(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  uint32_t *places = s->places[k], count = s->rows;
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
  kir_expr_t *subs[IX_MAX_RANK + 2], *lane;
  sweep_place_t p = {.s = s, .k = k, .fn = store_chunk};
  if (tile_sweep_parallel(n) > s->rows) {
    if (tile_escapes(t, n->outs[0])) tile_sweep_places(&p, block);
    return;
  }
  kir_expr_t *v;
  if (sweep_is_laned(n)) {
    kir_buffer_t *acc =
        tile_sweep_registers(t, block, n->body->type, TILE_LANES);
    kir_block_t *body = tile_lanes(t, block, NULL, &lane);
    uint32_t count = tile_sweep_subs(s, NULL, 0, lane, subs);
    tile_store(t, body, acc, 1, &lane,
               kir_load(t->arena, s->states[k], count, subs));
    v = kir_op(t->arena, KIR_X_FOLD, n->body->type, 0, NULL);
    v->u.buffer = acc;
    v->fold = KIR_X_ADD;
  } else {
    uint32_t count = tile_sweep_subs(s, NULL, 0, NULL, subs);
    v = kir_load(t->arena, s->states[k], count, subs);
    if (!tile_escapes(t, n->outs[0])) return;
  }
  tile_store_value(t, block, n->outs[0], s->rows, s->values, v);
}
