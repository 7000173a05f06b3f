/* contraction.h: a matrix product as its two files see it: what is multiplied
 * (contraction_form.c), and the tiles (lower_contraction.c). */
#ifndef TDSL_PASSES_TILE_CONTRACTION_H
#define TDSL_PASSES_TILE_CONTRACTION_H

#include "passes/tile/flatten.h"

typedef struct product {
  tile_t *t;
  tir_node_t *node;
  uint32_t par;
  tir_expr_t *a, *b;        /* over flat indices */
  flat_group_t batch, m, n, k;
  bool has_guard;           /* of parallel indices; applied at the end */
  bool is_shallow;          /* one block holds all of the depth */
  int64_t mr, nr, mc, nc, kc;
  kir_buffer_t *rows, *panels, *tile;
  kir_expr_t *mb, *nb, *kb; /* where the tile and the depth block begin */
  kir_expr_t *mh, *nh, *kh; /* how much of each is there */
  tdsl_dtype_t type;
} product_t;

/* Sorts the indices of p->node into batch, rows, columns and depth; false if
 * it is no product that pays, or one of another form. */
bool contraction_analyse(product_t *p);
/* Tile sizes of the target, no larger than what there is. */
void contraction_choose_sizes(product_t *p);
/* Largest value of a dim; INT64_MAX if there is none. */
int64_t contraction_upper(const ix_poly_t *p);

#endif
