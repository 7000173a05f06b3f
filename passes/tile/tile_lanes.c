/* tile_lanes.c: ranges in groups of lanes. */
#include "passes/tile/tile.h"

kir_expr_t *tile_whole_part(tile_t *t, kir_expr_t *hi) {
  if (hi->op == KIR_X_CONST) {
    return tile_int(t, hi->u.i64 / TILE_LANES * TILE_LANES);
  }
  kir_expr_t *rest = tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, hi,
                              tile_int(t, TILE_LANES));
  return tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, hi, rest);
}

void tile_chunks(tile_t *t, kir_block_t *block, const char *name,
                 tile_range_t r, tile_chunk_fn fn, void *user) {
  kir_expr_t *full = tile_whole_part(t, r.hi);
  bool is_const = full->op == KIR_X_CONST && r.lo->op == KIR_X_CONST;
  kir_expr_t *base;
  if (!is_const || full->u.i64 > r.lo->u.i64) {
    kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, name, r.lo, full,
                                  TILE_LANES, &base);
    fn(t, body, base, NULL, user);
  }
  if (is_const && full->u.i64 == r.hi->u.i64) return;
  if (is_const) {
    fn(t, block, full, r.hi, user);
    return;
  }
  /* `full` is at least lo: lo is a multiple of the lanes, and hi > lo or
   * there is nothing to do */
  kir_stmt_t *tail = tile_push(t, block, tile_if(t, tile_less(t, full, r.hi)));
  fn(t, &tail->body, full, r.hi, user);
}

kir_block_t *tile_lanes_at(tile_t *t, kir_block_t *block, kir_expr_t *base,
                           kir_expr_t *limit, kir_expr_t **out_index) {
  kir_expr_t *lane;
  kir_block_t *body = tile_lanes(t, block, NULL, &lane);
  *out_index = kir_add(t->arena, base, lane);
  if (limit != NULL) {
    td_vec_last(block)->mask = tile_less(t, *out_index, limit);
  }
  return body;
}
