/* stage_rows.h: rows of a group kept by the threads that work on them. */
#ifndef TDSL_PASSES_TILE_STAGE_ROWS_H
#define TDSL_PASSES_TILE_STAGE_ROWS_H

#include "passes/tile/tile.h"

/* A value that nodes of a group read by the group's prefix. */
typedef struct tile_row {
  const tir_value_t *value;
  uint32_t readers;         /* nodes */
  const tir_node_t *last;
  bool is_refused;          /* it may not be read but where a node does */
} tile_row_t;

typedef TD_VEC(tile_row_t) tile_rows_t;

/* Those that come from outside of the group, in the order of the text. */
void tile_stage_find(tile_t *t, uint32_t prefix, tile_rows_t *out);
/* Most bytes of a value behind its first `prefix` dims; INT64_MAX: unknown. */
int64_t tile_stage_bytes(const tir_value_t *v, uint32_t prefix);
/* Dims of a block's scratch for it: on a GPU, if it is small, the largest
 * that they can be. */
void tile_stage_dims(const tile_t *t, const tir_value_t *v, uint32_t prefix,
                const ix_poly_t **out);
/* Brings rows that several nodes read to scratch; later loads are of it.
 * prefix_subs: the indices of the block. */
void tile_stage_rows(tile_t *t, kir_block_t *block,
                     kir_expr_t *const *prefix_subs, uint32_t prefix);

#endif
