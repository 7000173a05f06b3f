/* lower_cascade.c: one sweep over an axis, in tiles (docs/cascades.md).
 *
 * The group is: what is known first, tiles (what varies along the axis and
 * only the group reads), states, and maps that finish.  One block holds a few
 * rows:
 *
 *   for each SWEEP_TILE of the axis:
 *     pack what products of tiles share between the rows
 *     for each row:
 *       tiles and maxima, in the order of the text
 *       states as they are seen from the maxima that moved
 *       sums over the tile
 *   for each row: folds, and the maps that finish
 *
 * Tiles begin at multiples of SWEEP_TILE from the lower end of the axis,
 * and lane l of a laned sum takes the elements that are l mod TILE_LANES:
 * neither the number of rows in a block nor the length of the axis moves a
 * bit. A long axis goes in splits that are merged (sweep_merge.c). What a mask
 * empties adds nothing, so trailing masked tiles do not either. */
#include "passes/tile/sweep.h"

#include "passes/tensor/group_kernels.h"
#include "passes/tile/flatten.h"

uint32_t tile_sweep_parallel(const tir_node_t *n) {
  uint32_t count = 0;
  while (count < n->index_count && !n->indices[count]->is_reduction) count++;
  return count;
}

/* Those of a finishing map may be anywhere among its own. */
void tile_sweep_set_rows(sweep_t *s) {
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    if (s->t->nodes[k]->kind != TIR_MAP) continue;
    for (uint32_t i = 0; i < s->rows; i++) {
      tile_set_index(s->t, s->t->nodes[k]->indices[s->places[k][i]],
                     s->values[i]);
    }
  }
}

/* ---- the sweep ----------------------------------------------------------- */

/* A map of a full tile, all of it in lanes. */
static void full_map(sweep_t *s, tir_node_t *n, kir_block_t *block) {
  tile_t *t = s->t;
  kir_expr_t *lane, *subs[IX_MAX_RANK + 1];
  block = tile_lanes_of(t, block, SWEEP_TILE, &lane);
  for (uint32_t i = 0; i < s->rows; i++) subs[i] = s->values[i];
  subs[s->rows] = kir_add(t->arena, s->begin, lane);
  tile_set_index(t, n->indices[s->rows], subs[s->rows]);
  tile_store_value(t, block, n->outs[0], s->rows + 1, subs,
                   tile_expr(t, n->body));
}

void tile_sweep_before(sweep_t *s, uint32_t k, kir_block_t *block) {
  tir_node_t *n = s->t->nodes[k];
  tile_range_t range = {s->begin, s->end};
  if (!n->is_tile) {
    tile_sweep_add(s, k, block);
  } else if (s->packed[k].node != NULL &&
             !(s->packed[k].is_bare && n->guard != NULL)) {
    tile_sweep_product(s, &s->packed[k], block);
  } else if (s->is_full && n->reduce == TIR_REDUCE_NONE && n->guard == NULL) {
    full_map(s, n, block);
  } else {
    tile_lower_one(s->t, n, s->rows, s->values, &range, NULL, block);
  }
}

/* A transport reads states that stand before it, as they were. */
void tile_sweep_moves(sweep_t *s, kir_block_t *block) {
  for (uint32_t k = s->t->node_count; k-- > 0;) {
    const tir_node_t *n = s->t->nodes[k];
    if (n->transport != NULL && sweep_is_sum(n)) tile_sweep_move(s, k, block);
  }
}

void tile_sweep_one_row(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (t->nodes[k]->is_tile || sweep_is_gauge(t->nodes[k])) {
      tile_sweep_before(s, k, block);
    }
  }
  tile_sweep_add_orders(s, block);
  tile_sweep_moves(s, block);
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (sweep_is_sum(t->nodes[k])) tile_sweep_add(s, k, block);
  }
}

/* Rows of the block as a loop; *s->r and the index are set. */
static kir_block_t *each_row(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  if (s->block_rows == 1) {
    s->r = tile_int(t, 0);
    return block;
  }
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "r", tile_int(t, 0), s->count,
                    1, &s->r);
  s->values[s->blocked] = kir_add(t->arena, s->from, s->r);
  tile_sweep_set_rows(s);
  return block;
}

sweep_nodes_t tile_sweep_take_nodes(sweep_t *s, bool is_full) {
  tile_t *t = s->t;
  sweep_nodes_t was = {t->nodes, s->packed};
  if (s->masks.count == 0) return was;
  t->nodes = is_full ? s->masks.full : s->masks.partial;
  if (!is_full) return was;
  s->packed = TD_NEW_ARRAY(t->arena, packed_t, t->node_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    s->packed[k] = was.packed[k];
    if (was.packed[k].node == NULL) continue;
    s->packed[k].node = t->nodes[k];
    s->packed[k].p.has_guard = t->nodes[k]->guard != NULL;
  }
  return was;
}

void tile_sweep_put_nodes(sweep_t *s, sweep_nodes_t was) {
  s->t->nodes = was.nodes;
  s->packed = was.packed;
}

/* The rows of a tile one by one, with or without their conditions. */
static void sweep_rows(sweep_t *s, kir_block_t *block,
                       const sweep_span_t *axis, bool is_full) {
  tile_t *t = s->t;
  sweep_nodes_t was = tile_sweep_take_nodes(s, is_full);
  block = each_row(s, block);
  if (!is_full && s->block_rows > 1) {
    kir_expr_t *is_live = tile_sweep_judge(s, axis, NULL, false);
    if (is_live != NULL) {
      block = &tile_push(t, block, tile_if(t, is_live))->body;
    }
  }
  tile_sweep_one_row(s, block);
  tile_sweep_put_nodes(s, was);
}

/* One tile of the axis for all rows of the block. */
static void sweep_tile(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  sweep_span_t *axis = TD_NEW(t->arena, sweep_span_t);
  axis->lo = s->begin;
  axis->hi = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, s->end, tile_int(t, 1));
  axis->count = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, s->end, s->begin);
  tile_sweep_scan(s, block, axis, s->block);
  kir_expr_t *may = tile_sweep_judge(s, axis, s->block, false);
  if (may != NULL) block = &tile_push(t, block, tile_if(t, may))->body;
  if (s->alike == s->block_rows) tile_sweep_pack(s, block);
  if (s->in_groups) {
    tile_sweep_groups(s, block, axis);
    return;
  }
  kir_expr_t *must = tile_sweep_judge(s, axis, s->block, true);
  if (must != NULL) {
    kir_expr_t *is_full = tile_let(t, block, "full", must);
    kir_expr_t *is_partial =
        kir_op(t->arena, KIR_X_NOT, TDSL_DTYPE_BOOL, 1, &is_full);
    sweep_rows(s, &tile_push(t, block, tile_if(t, is_full))->body, axis,
               true);
    block = &tile_push(t, block, tile_if(t, is_partial))->body;
  }
  sweep_rows(s, block, axis, false);
}

/* ---- scratch ------------------------------------------------------------- */

void tile_sweep_alloc(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  ix_pool_t *pool = t->module->pool;
  const ix_poly_t *lanes = ix_const(pool, TILE_LANES);
  const ix_poly_t *width = ix_const(pool, SWEEP_TILE);
  const ix_poly_t *rows = ix_const(pool, s->block_rows);
  const ix_poly_t *of_group[2] = {ix_const(pool, s->in_groups ? s->group : 1),
                                  width};
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    const tir_value_t *v = n->outs[0];
    const ix_poly_t *dims[2 * IX_MAX_RANK];
    uint32_t par = tile_sweep_parallel(n), rank = 0;
    if (sweep_is_top(n) || s->is_count[k]) continue;
    if (sweep_is_state(n)) {
      dims[rank++] = rows;
      for (uint32_t i = s->rows; i < par; i++) {
        dims[rank++] = n->indices[i]->extent;
      }
      if (tile_sweep_shares_factor(s, n)) {
        const ix_poly_t *size[2] = {width, n->indices[s->rows]->extent};
        s->factors[k] = tile_alloc(t, block, "factor", n->body->type,
                                   KIR_LOCAL, 2, size);
      }
      if (sweep_is_laned(n)) dims[rank++] = lanes;
      s->states[k] = tile_alloc(t, block, v->name, sweep_type(n), KIR_LOCAL,
                                rank, dims);
      if (!sweep_is_laned(n)) {
        tile_set_home(t, v, s->states[k], s->rows);
        tile_set_lead(t, v, &s->r, NULL);
        continue;
      }
      /* folded, once a row */
      rank -= 2;
      tile_set_home(t, v,
                    tile_alloc(t, block, v->name, v->dtype,
                               rank == 0 ? KIR_REGISTER : KIR_LOCAL, rank,
                               dims + 1),
                    s->rows);
    } else if (n->is_first) {
      tile_set_home(t, v,
                    tile_alloc(t, block, v->name, v->dtype, KIR_LOCAL, 1,
                               &rows),
                    s->rows);
      tile_set_lead(t, v, &s->r, NULL);
    } else if (n->is_tile) {
      tile_set_home(t, v,
                    tile_alloc(t, block, v->name, v->dtype, KIR_LOCAL,
                               s->in_groups ? 2 : 1,
                               s->in_groups ? of_group : &width),
                    s->rows);
      tile_set_lead(t, v, s->in_groups ? &s->gr : NULL, &s->begin);
      if (s->packed[k].node == NULL) continue;
      dims[0] = s->packed[k].p.k.members[0]->extent;
      dims[1] = width;
      s->packed[k].columns = tile_alloc(
          t, block, "columns", s->packed[k].p.type, KIR_LOCAL, 2, dims);
      s->packed[k].in_groups = s->in_groups && !s->packed[k].p.has_guard;
      if (!s->packed[k].in_groups ||
          tile_sweep_is_plain(s, s->packed[k].p.a,
                              s->packed[k].p.k.members[0])) {
        continue;
      }
      dims[1] = dims[0];
      dims[0] = rows;
      s->packed[k].rows = tile_alloc(
          t, block, "rows", s->packed[k].p.type, KIR_LOCAL, 2, dims);
    } else {
      uint32_t mask = 0;
      for (uint32_t i = 0; i < s->rows; i++) mask |= 1u << s->places[k][i];
      for (uint32_t i = 0; i < par; i++) {
        if ((mask >> i & 1) == 0) dims[rank++] = n->indices[i]->extent;
      }
      tile_home_t *home =
          td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)v);
      if (home == NULL) continue; /* goes to memory and nowhere else */
      tile_set_home(t, v,
                    tile_alloc(t, block, v->name, v->dtype,
                               rank == 0 ? KIR_REGISTER : KIR_LOCAL, rank,
                               dims),
                    s->rows);
      home = td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)v);
      home->mask = mask;
    }
  }
  tile_sweep_alloc_tops(s, block);
}

void tile_sweep_open(sweep_t *s) {
  tile_t *t = s->t;
  flat_merge_places(t);
  s->rows = group_cascade_rows(t->nodes, t->node_count);
  s->states = TD_NEW_ARRAY(t->arena, kir_buffer_t *, t->node_count);
  s->packed = TD_NEW_ARRAY(t->arena, packed_t, t->node_count);
  s->factors = TD_NEW_ARRAY(t->arena, kir_buffer_t *, t->node_count);
  s->in_place = TD_NEW_ARRAY(t->arena, bool, t->node_count);
  s->places = TD_NEW_ARRAY(t->arena, uint32_t *, t->node_count);
  s->is_count = TD_NEW_ARRAY(t->arena, bool, t->node_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    s->is_count[k] = sweep_is_gauge(n) && n->reduce == TIR_REDUCE_SUM &&
                     n->guard == NULL && n->body->op == TIR_X_CONST &&
                     n->body->u.f64 == 1 && !n->is_merge &&
                     tile_sweep_parallel(n) == s->rows;
  }
  tile_sweep_place_rows(s);
  tile_sweep_open_orders(s);
}

/* All tiles of lo .. hi, where a tile begins at lo. */
static void sweep_tiles(sweep_t *s, kir_block_t *block, kir_expr_t *lo,
                        kir_expr_t *hi) {
  tile_t *t = s->t;
  kir_block_t *tiles = tile_loop(t, block, KIR_LOOP_SERIAL, "j0", lo, hi,
                                 SWEEP_TILE, &s->begin);
  kir_expr_t *next = kir_add(t->arena, s->begin, tile_int(t, SWEEP_TILE));
  s->end = tile_let(t, tiles, "j1", tile_min(t, next, hi));
  sweep_tile(s, tiles);
}

/* One split after the other, each from the identities, into the totals. */
static void sweep_splits(sweep_t *s, kir_block_t *block, kir_expr_t *lo,
                         kir_expr_t *hi) {
  tile_t *t = s->t;
  kir_expr_t *size = tile_int(t, GROUP_SPLIT), *at;
  kir_expr_t *first = lo;
  if (lo->op != KIR_X_CONST) {
    first = kir_mul(t->arena,
                    tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, lo, size), size);
  }
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "split", first, hi,
                    GROUP_SPLIT, &at);
  kir_block_t *body = each_row(s, block);
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (sweep_is_state(t->nodes[k])) tile_sweep_init(s, k, body);
  }
  tile_sweep_init_tops(s, false, body);
  s->origin = at;
  lo = tile_let(t, block, "from",
                tile_op2(t, KIR_X_MAX, TDSL_DTYPE_I64, lo, at));
  hi = tile_let(t, block, "to",
                tile_min(t, hi, kir_add(t->arena, at, size)));
  s->split_end = hi;
  if (s->block != NULL) {
    s->values[s->blocked] = s->from;
    tile_sweep_set_rows(s);
  }
  sweep_tiles(s, block, lo, hi);
  tile_sweep_merge(s, each_row(s, block));
}

void tile_sweep_finish_all(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (sweep_is_state(n) || sweep_is_top(n)) tile_sweep_finish(s, k, block);
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (t->nodes[k]->cascade != 0) continue;
    tile_sweep_finish_map(s, k, block);
  }
}

void tile_lower_cascade(tile_t *t) {
  sweep_t s = {.t = t};
  kir_block_t *block = &t->kernel->body;
  tile_sweep_open(&s);
  tile_sweep_find_products(&s);
  tir_node_t **nodes = t->nodes;
  tile_note(t, "one sweep: %s", tile_describe(t));
  tile_note(t, "blocks of %lld rows, %d elements of the axis at a time",
            (long long)s.block_rows, SWEEP_TILE);
  if (t->wants != NULL) {
    tile_note(t, "this kernel if there are many rows or the axis is short, "
                 "else the next two: by dims, at launch");
  }
  block = tile_chosen(t, block);
  const tir_node_t *first = t->nodes[0];
  const ix_poly_t *axis = NULL;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (sweep_is_state(n)) axis = n->indices[n->index_count - 1]->extent;
  }
  for (uint32_t i = 0; i < s.rows; i++) {
    if (s.block_rows > 1 && i == s.blocked) continue;
    block = tile_loop(t, block, KIR_LOOP_BLOCK, first->indices[i]->name,
                      tile_int(t, 0), tile_dim(t, first->indices[i]->extent),
                      1, &s.values[i]);
  }
  if (s.block_rows > 1) {
    kir_expr_t *hi = tile_dim(t, first->indices[s.blocked]->extent);
    block = tile_loop(t, block, KIR_LOOP_BLOCK, first->indices[s.blocked]->name,
                      tile_int(t, 0), hi, s.block_rows, &s.from);
    s.values[s.blocked] = s.from;
    kir_expr_t *left = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, hi, s.from);
    s.count = tile_let(t, block, "rows",
                       tile_min(t, left, tile_int(t, s.block_rows)));
  }
  tile_sweep_set_rows(&s);
  s.r = tile_int(t, 0);
  tile_sweep_alloc(&s, block);
  bool has_splits = contraction_upper(axis) > GROUP_SPLIT;
  kir_buffer_t **states = s.states;
  if (has_splits) {
    tile_sweep_alloc_totals(&s, block);
    s.states = s.totals;
    t->nodes = s.plain;
    tile_note(t, "splits of %d elements, merged left to right", GROUP_SPLIT);
  }
  tile_sweep_choose_lanes(&s, block);
  kir_block_t *body = each_row(&s, block);
  tile_sweep_firsts(&s, body);
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (sweep_is_state(t->nodes[k])) tile_sweep_init(&s, k, body);
    if (s.packed[k].rows != NULL) tile_sweep_pack_rows(&s, &s.packed[k], body);
  }
  tile_sweep_init_tops(&s, has_splits, body);
  s.states = states;
  t->nodes = nodes;
  if (s.block_rows > 1) {
    sweep_span_t *row = TD_NEW(t->arena, sweep_span_t);
    kir_expr_t *last = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, s.count,
                                tile_int(t, 1));
    s.values[s.blocked] = s.from;
    tile_sweep_set_rows(&s);
    row->lo = s.from;
    row->count = s.count;
    row->hi = kir_add(t->arena, s.from, last);
    s.block = row;
  }
  kir_expr_t *lo = tile_int(t, 0), *hi = tile_dim(t, axis);
  s.origin = lo;
  tile_sweep_find_masks(&s);
  tile_sweep_leave_in_place(&s);
  if (s.masks.count > 0) {
    tile_note(t, "tiles that masks empty are left out, full ones have no "
                 "conditions");
  }
  tile_sweep_scan(&s, block, NULL, s.block);
  tile_sweep_range(&s, block, s.block, &lo, &hi);
  tile_sweep_choose_turns(&s, block, hi);
  if (has_splits) {
    sweep_splits(&s, block, lo, hi);
    tile_sweep_use_totals(&s);
  } else {
    sweep_tiles(&s, block, lo, hi);
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (!s.is_count[k]) continue;
    tile_set_element(t, n->outs[0],
                     tile_sweep_span(t, n, tile_int(t, 0),
                                     tile_dim(t, axis)));
  }
  tile_sweep_finish_all(&s, each_row(&s, block));
}
