/* sweep_merge.c: splits of a long axis and how they meet.
 *
 * The plan of a sweep cuts the axis into splits of GROUP_SPLIT elements. A
 * split starts from the identities, and splits are merged left to right into
 * totals: both are seen from the maxima of the two, then added. A block may
 * walk all splits itself (lower_cascade.c), or every split has a block of its
 * own and a second kernel merges what they left (tile_lower_merge): the same
 * statements in the same order, so that no bit tells which it was. Merging
 * the identity changes nothing, so an axis within one split has no totals. */
#include "passes/tile/sweep.h"

#include "passes/tensor/group_kernels.h"

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- totals -------------------------------------------------------------- */

void tile_sweep_alloc_totals(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  s->totals = TD_NEW_ARRAY(t->arena, kir_buffer_t *, t->node_count);
  s->folded = TD_NEW_ARRAY(t->arena, kir_buffer_t *, t->node_count);
  s->plain = TD_NEW_ARRAY(t->arena, tir_node_t *, t->node_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    const ix_poly_t *dims[2 * IX_MAX_RANK];
    uint32_t rank = 0;
    s->plain[k] = n;
    if (!sweep_is_state(n) || s->is_count[k]) continue;
    dims[rank++] = ix_const(t->module->pool, s->block_rows);
    for (uint32_t i = s->rows; i < tile_sweep_parallel(n); i++) {
      dims[rank++] = n->indices[i]->extent;
    }
    const char *name = td_arena_printf(t->arena, "%s.all", n->outs[0]->name);
    s->totals[k] = tile_alloc(t, block, name, sweep_type(n), KIR_LOCAL, rank,
                              dims);
    s->folded[k] = s->states[k];
    if (!sweep_is_laned(n)) continue;
    name = td_arena_printf(t->arena, "%s.part", n->outs[0]->name);
    s->folded[k] = tile_alloc(t, block, name, n->body->type, KIR_LOCAL, rank,
                              dims);
    s->plain[k] = TD_NEW(t->arena, tir_node_t);
    *s->plain[k] = *n;
    s->plain[k]->plan = TIR_PLAN_SERIAL;
  }
  tile_sweep_alloc_total_tops(s, block);
}

void tile_sweep_use_totals(sweep_t *s) {
  tile_t *t = s->t;
  t->nodes = s->plain;
  s->states = s->totals;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (!sweep_is_state(n) || s->is_count[k]) continue;
    tile_set_home(t, n->outs[0], s->totals[k], s->rows);
    tile_set_lead(t, n->outs[0], &s->r, NULL);
  }
  tile_sweep_use_total_tops(s);
}

/* ---- merging ------------------------------------------------------------- */

static void fold_lanes(sweep_place_t *p, kir_block_t *block,
                       kir_expr_t *base, kir_expr_t *limit, int64_t lanes) {
  sweep_t *s = p->s;
  kir_expr_t *subs[IX_MAX_RANK + 2];
  (void)base;
  (void)limit;
  (void)lanes;
  kir_expr_t *sum = tile_sweep_fold(p, block);
  uint32_t count =
      tile_sweep_subs(s, p->extras, p->extra_count, NULL, subs);
  tile_store(s->t, block, s->folded[p->k], count, subs, sum);
}

/* total += part, both as they are seen now. */
static void meet_chunk(sweep_place_t *p, kir_block_t *block, kir_expr_t *base,
                       kir_expr_t *limit, int64_t lanes) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  tdsl_dtype_t type = t->nodes[p->k]->body->type;
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2];
  uint32_t count;
  kir_block_t *body = block;
  if (p->extra_count == 0) {
    count = tile_sweep_subs(s, NULL, 0, NULL, subs);
  } else {
    body = tile_sweep_lanes(p, block, base, limit, lanes, &lane, subs, &count);
  }
  tile_store(t, body, s->totals[p->k], count, subs,
             tile_op2(t, KIR_X_ADD, type,
                      kir_load(t->arena, s->totals[p->k], count, subs),
                      kir_load(t->arena, s->folded[p->k], count, subs)));
}

/* States of one side as they are seen from the maxima of both. */
static void move_side(sweep_t *s, kir_block_t *block, kir_buffer_t **states,
                      kir_expr_t *const *was) {
  tile_t *t = s->t;
  s->states = states;
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (was[k] != NULL && t->nodes[k]->was != NULL) {
      tile_set_element(t, t->nodes[k]->was, was[k]);
    }
  }
  tile_sweep_moves(s, block);
}

void tile_sweep_merge(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  tir_node_t **nodes = t->nodes;
  kir_buffer_t **states = s->states;
  kir_expr_t **total = TD_NEW_ARRAY(t->arena, kir_expr_t *, t->node_count);
  kir_expr_t **part = TD_NEW_ARRAY(t->arena, kir_expr_t *, t->node_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (!sweep_is_laned(nodes[k]) || s->states[k] == NULL) continue;
    sweep_place_t p = {.s = s, .k = k, .fn = fold_lanes};
    tile_sweep_places(&p, block);
  }
  t->nodes = s->plain;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (!sweep_is_gauge(n)) continue;
    if (s->is_count[k]) {
      kir_expr_t *zero = tile_int(t, 0);
      total[k] = tile_sweep_span(t, n, zero, s->origin);
      part[k] = tile_sweep_span(t, n, s->origin, s->split_end);
      tile_set_element(t, n->outs[0],
                       tile_sweep_span(t, n, zero, s->split_end));
      continue;
    }
    total[k] = tile_let(t, block, "was",
                        kir_load(t->arena, s->totals[k], 1, &s->r));
    part[k] = tile_let(t, block, "part",
                       kir_load(t->arena, s->folded[k], 1, &s->r));
    tile_store(t, block, s->totals[k], 1, &s->r,
               tile_op2(t, tile_fold_op(n->reduce), n->body->type, total[k],
                        part[k]));
  }
  tile_sweep_merge_orders(s, block, total);
  tile_home_t **kept = TD_NEW_ARRAY(t->arena, tile_home_t *, t->node_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    kept[k] = td_map_get_u64(&t->homes, key_of(t->nodes[k]->outs[0]));
    if (!sweep_is_gauge(t->nodes[k]) || s->is_count[k]) continue;
    tile_set_home(t, t->nodes[k]->outs[0], s->totals[k], s->rows);
    tile_set_lead(t, t->nodes[k]->outs[0], &s->r, NULL);
  }
  move_side(s, block, s->totals, total);
  move_side(s, block, s->folded, part);
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (!sweep_is_sum(t->nodes[k])) continue;
    sweep_place_t p = {.s = s, .k = k, .fn = meet_chunk};
    tile_sweep_places(&p, block);
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (kept[k] == NULL || !sweep_is_gauge(t->nodes[k])) continue;
    td_map_put_u64(&t->homes, key_of(t->nodes[k]->outs[0]), kept[k]);
  }
  t->nodes = nodes;
  s->states = states;
}

/* ---- the kernel that merges ---------------------------------------------- */

/* What a part's state is read from: in the place that `was` has in the
 * transport, or the whole body. Both trees have one form. */
static tir_expr_t *part_of(const tir_node_t *n, tir_expr_t *moved,
                           tir_expr_t *body, int depth) {
  enum { DEPTH_LIMIT = 24 };
  if (depth == DEPTH_LIMIT || moved->op != body->op) return NULL;
  if (moved->op == TIR_X_LOAD && moved->u.value == n->was) return body;
  for (uint32_t i = 0; i < moved->arg_count && i < body->arg_count; i++) {
    tir_expr_t *e = part_of(n, moved->args[i], body->args[i], depth + 1);
    if (e != NULL) return e;
  }
  return NULL;
}

static void load_chunk(sweep_place_t *p, kir_block_t *block, kir_expr_t *base,
                       kir_expr_t *limit, int64_t lanes) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  tir_node_t *n = t->nodes[p->k];
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2];
  uint32_t count;
  if (sweep_is_position(n)) { /* of the split, of which there is one */
    tile_store(t, block, s->states[p->k], 1, &s->r,
               td_map_get_u64(&t->indices,
                              key_of(n->indices[n->index_count - 1])));
    return;
  }
  tir_expr_t *from = n->transport == NULL
                         ? n->body
                         : part_of(n, n->transport, n->body, 0);
  TD_CHECK(t->task, from != NULL, "%s merges nothing", n->outs[0]->name);
  kir_block_t *body = block;
  if (p->extra_count == 0) {
    count = tile_sweep_subs(s, NULL, 0, NULL, subs);
  } else {
    body = tile_sweep_lanes(p, block, base, limit, lanes, &lane, subs, &count);
  }
  tile_store(t, body, s->states[p->k], count, subs, tile_expr(t, from));
}

void tile_lower_merge(tile_t *t) {
  sweep_t s = {.t = t, .block_rows = 1, .alike = 1};
  kir_block_t *block = &t->kernel->body;
  const tir_index_t *axis = NULL;
  tir_node_t *first = NULL;
  kir_expr_t *at;
  tile_sweep_open(&s);
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (!sweep_is_state(t->nodes[k])) continue;
    first = t->nodes[k];
    axis = first->indices[first->index_count - 1];
  }
  tile_note(t, "merge of splits: %s", tile_describe(t));
  block = tile_chosen(t, block);
  tile_sweep_find_spread(&s);
  if (s.spread != NULL) {
    const ix_poly_t *size =
        ix_max(t->module->pool, s.spread, ix_const(t->module->pool, 1));
    tile_note(t, "blocks of %d elements of what it finishes, each of which "
                 "merges for itself", SWEEP_SPREAD);
    block = tile_loop(t, block, KIR_LOOP_BLOCK, "chunk", tile_int(t, 0),
                      tile_dim(t, size), SWEEP_SPREAD, &s.chunk);
  }
  for (uint32_t i = 0; i < s.rows; i++) {
    const tir_index_t *row = first->indices[i];
    block = tile_loop(t, block, KIR_LOOP_BLOCK, row->name, tile_int(t, 0),
                      tile_dim(t, row->extent), 1, &s.values[i]);
  }
  tile_sweep_set_rows(&s);
  s.r = tile_int(t, 0);
  tile_sweep_alloc(&s, block);
  tile_sweep_alloc_totals(&s, block);
  tile_sweep_firsts(&s, block);
  kir_buffer_t **states = s.states;
  s.states = s.totals;
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (sweep_is_state(t->nodes[k])) tile_sweep_init(&s, k, block);
  }
  tile_sweep_init_tops(&s, true, block);
  s.states = states;
  kir_block_t *parts = tile_loop(t, block, KIR_LOOP_SERIAL, axis->name,
                                 tile_int(t, 0), tile_dim(t, axis->extent), 1,
                                 &at);
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    if (sweep_is_top(n)) tile_sweep_load_top(&s, k, at, parts);
    if (!sweep_is_state(n)) continue;
    tile_set_index(t, n->indices[n->index_count - 1], at);
    sweep_place_t p = {.s = &s, .k = k, .fn = load_chunk};
    tile_sweep_places(&p, parts);
  }
  tile_sweep_merge(&s, parts);
  tile_sweep_use_totals(&s);
  tile_sweep_finish_all(&s, block);
}
