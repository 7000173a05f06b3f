/* flatten.h: several indices of a node seen as one.
 *
 * A matrix product has rows, columns and a depth; each may be several
 * indices (of heads and elements, of channels and window).  Where a load
 * names them side by side, as memory has them, the load is rewritten to a
 * view with one dim and the flat index; elsewhere an index becomes a
 * quotient and remainder of the flat one. */
#ifndef TDSL_PASSES_TILE_FLATTEN_H
#define TDSL_PASSES_TILE_FLATTEN_H

#include "passes/tile/tile.h"

typedef struct flat_group {
  uint32_t count;
  tir_index_t *members[IX_MAX_RANK];
  tir_index_t *flat;        /* the one index; a member itself if count is 1 */
  const ix_poly_t *extent;  /* product of the members' */
} flat_group_t;

/* Fills flat and extent; count 0 gives extent 1 and an index that is 0. */
void flat_finish(tile_t *t, flat_group_t *g, const char *name);
/* e over flat indices only. */
tir_expr_t *flat_rewrite(tile_t *t, flat_group_t *const *groups,
                         uint32_t group_count, tir_expr_t *e);

/* In all nodes of the group, x[p / 30, p / 6 % 5, p % 6] of a tensor with
 * such dims becomes element p of a view; nodes that change are copied. Before
 * values have homes. */
void flat_merge_places(tile_t *t);

#endif
