/* tile_wide.h: loads of several neighbours at once.
 *
 * Where neighbours along one index lie side by side in memory, and the place
 * of every n-th one is a multiple of n elements, lanes take n of them by one
 * access.  What is proved here holds wherever the index is a multiple of n:
 * the load is in bounds whatever guards it, and the rows of its buffer are
 * whole multiples of n. */
#ifndef TDSL_PASSES_TILE_WIDE_H
#define TDSL_PASSES_TILE_WIDE_H

#include "passes/tile/tile.h"

typedef struct tile_wide {
  const tir_expr_t *load;
  kir_buffer_t *rows; /* REGISTER [lead.., n, lanes]; set by tile_wide_alloc */
} tile_wide_t;

typedef struct tile_wides {
  const tir_index_t *index;
  int64_t n;
  uint32_t lead_count;        /* dims of the rows before n */
  TD_VEC(tile_wide_t) loads;
} tile_wides_t;

/* Adds the loads of e that n lanes' neighbours along w->index can share; each
 * has at most 16 bytes. */
void tile_wide_find(tile_t *t, tile_wides_t *w, tir_expr_t *e);
/* A place of dtype whose last dim holds the index can be moved n at once. */
bool tile_wide_fits(const tir_value_t *v, int64_t n);
/* Register rows for all of them; `lead` are dims before n, of the warp and of
 * what is unrolled around. */
void tile_wide_alloc(tile_t *t, tile_wides_t *w, kir_block_t *block,
                     uint32_t lead_count, const int64_t *lead);
/* Copies into the rows, in a lane loop; the index is set to element 0. */
void tile_wide_load(tile_t *t, tile_wides_t *w, kir_block_t *lanes,
                    kir_expr_t *const *lead, kir_expr_t *lane);
/* From here on the loads give element v of the rows. */
void tile_wide_use(tile_t *t, tile_wides_t *w, kir_expr_t *const *lead,
                   kir_expr_t *v, kir_expr_t *lane);
/* The loads are of memory again. */
void tile_wide_end(tile_t *t, tile_wides_t *w);

/* A multiple of n whatever its symbols are. */
bool tile_is_multiple(const ix_poly_t *p, int64_t n);

#endif
