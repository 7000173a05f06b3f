/* nest_splits.c: sums of products in nested loops, on targets with warps,
 * where their plan has splits (contraction_split.c): the accumulator begins
 * anew with each GROUP_DEPTH tuples, and a total beside it has what the splits
 * before gave, left to right.  -0 is what a total begins with: adding to it
 * changes nothing. */
#include "passes/tile/nest.h"

#include "ir/expr.h"
#include "passes/tensor/group_kernels.h"

bool tile_has_splits(const tile_t *t, const tir_node_t *n) {
  int64_t depth = 1, lo, hi;
  bool is_product = n->kind == TIR_MAP && n->reduce == TIR_REDUCE_SUM &&
                    n->is_fma && n->plan == TIR_PLAN_SERIAL &&
                    n->cascade == 0;
  if (t->target->warp == 0 || t->plan_serial || !is_product) return false;
  for (uint32_t i = 0; i < n->index_count; i++) {
    const tir_index_t *index = n->indices[i];
    if (!index->is_reduction) continue;
    if (!ix_interval(index->extent, &lo, &hi) ||
        __builtin_mul_overflow(depth, hi, &depth)) {
      return true;
    }
  }
  return depth > GROUP_DEPTH;
}

/* Lanes of the accumulator; the subscript that is one of them, if any. */
static kir_block_t *each_lane(tile_t *t, nest_t *s, kir_block_t *block,
                              kir_expr_t **lane, uint32_t *rank) {
  *rank = s->acc->rank;
  return *rank == 0 ? block : tile_lanes_of(t, block, s->lanes, lane);
}

static void add_to_total(tile_t *t, nest_t *s, kir_block_t *block,
                         kir_buffer_t *to, bool clears) {
  kir_expr_t *lane = NULL;
  uint32_t rank;
  tdsl_dtype_t type = s->acc->dtype;
  kir_block_t *body = each_lane(t, s, block, &lane, &rank);
  tile_store(t, body, to, rank, &lane,
             tile_op2(t, KIR_X_ADD, type,
                      kir_load(t->arena, s->total, rank, &lane),
                      kir_load(t->arena, s->acc, rank, &lane)));
  if (!clears) return;
  tile_store(t, body, s->acc, rank, &lane, kir_const_f(t->arena, type, 0.0));
}

/* One index: splits outside, their tuples inside. */
static kir_block_t *one_index(tile_t *t, nest_t *s, kir_block_t *block,
                              const tir_index_t *index) {
  kir_expr_t *first, *v, *size = tile_int(t, GROUP_DEPTH);
  kir_expr_t *hi = tile_dim(t, index->extent);
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "split", tile_int(t, 0), hi,
                    GROUP_DEPTH, &first);
  kir_expr_t *is_next =
      tile_op2(t, KIR_X_GT, TDSL_DTYPE_BOOL, first, tile_int(t, 0));
  add_to_total(t, s, &tile_push(t, block, tile_if(t, is_next))->body,
               s->total, true);
  kir_expr_t *end = tile_min(t, kir_add(t->arena, first, size), hi);
  block = tile_loop(t, block, KIR_LOOP_SERIAL, index->name, first, end, 1, &v);
  tile_set_index(t, index, v);
  return block;
}

kir_block_t *tile_nest_terms(tile_t *t, nest_t *s, kir_block_t *block) {
  tir_node_t *n = s->node;
  s->total = NULL;
  if (!tile_has_splits(t, n)) {
    return tile_nest_loops(t, s, block, s->par, n->index_count);
  }
  kir_expr_t *lane = NULL;
  uint32_t rank;
  s->total = tile_alloc(t, block, "total", s->acc->dtype, KIR_REGISTER,
                        s->acc->rank, s->acc->dims);
  kir_block_t *body = each_lane(t, s, block, &lane, &rank);
  tile_store(t, body, s->total, rank, &lane,
             kir_const_f(t->arena, s->acc->dtype, -0.0));
  if (s->par + 1 == n->index_count) {
    return one_index(t, s, block, n->indices[s->par]);
  }
  block = tile_nest_loops(t, s, block, s->par, n->index_count);
  /* where the tuple is in the order of all */
  kir_expr_t *at = NULL, *zero = tile_int(t, 0);
  for (uint32_t i = s->par; i < n->index_count; i++) {
    kir_expr_t *v = tile_expr(t, tir_index_ref(t->arena, n->indices[i]));
    at = at == NULL
             ? v
             : kir_add(t->arena,
                       kir_mul(t->arena, at,
                               tile_dim(t, n->indices[i]->extent)),
                       v);
  }
  at = tile_let(t, block, "at", at);
  kir_expr_t *over = tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, at,
                              tile_int(t, GROUP_DEPTH));
  kir_expr_t *begins[2] = {
      tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, over, zero),
      tile_op2(t, KIR_X_GT, TDSL_DTYPE_BOOL, at, zero)};
  kir_expr_t *is_next =
      tile_op2(t, KIR_X_AND, TDSL_DTYPE_BOOL, begins[0], begins[1]);
  add_to_total(t, s, &tile_push(t, block, tile_if(t, is_next))->body,
               s->total, true);
  return block;
}

void tile_nest_total(tile_t *t, nest_t *s, kir_block_t *block) {
  if (s->total != NULL) add_to_total(t, s, block, s->acc, false);
}
