/* contraction.h: a matrix product as its two files see it: what is multiplied
 * (contraction_form.c), and the tiles (lower_contraction.c). */
#ifndef TDSL_PASSES_TILE_CONTRACTION_H
#define TDSL_PASSES_TILE_CONTRACTION_H

#include "passes/tile/flatten.h"

enum { CONTRACTION_NODES = 32 }; /* more than a group has */

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
  /* over flat indices; see contraction_prepare */
  tir_expr_t *guard;
  tir_expr_t *tails[CONTRACTION_NODES];  /* bodies of the maps behind it */
  tir_expr_t *places[CONTRACTION_NODES]; /* of what leaves the group, as load */
} product_t;

/* Sorts the indices of p->node into batch, rows, columns and depth; false if
 * it is no product that pays, or one of another form. */
bool contraction_analyse(product_t *p);
/* Tile sizes of the target, no larger than what there is. */
void contraction_choose_sizes(product_t *p);
/* ---- contraction_ends.c ---- */
kir_expr_t *contraction_zero(product_t *p);
/* Most loads of e move along memory with this index. */
bool contraction_runs_along(product_t *p, tir_expr_t *e,
                            const flat_group_t *g);
/* Block loops over tiles of mc x nc; sets mb and nb. */
kir_block_t *contraction_grid(product_t *p, kir_block_t *block);
/* min(size, extent - from), a number if it is one. */
kir_expr_t *contraction_part(product_t *p, kir_expr_t *from,
                             const ix_poly_t *extent, int64_t size);
kir_expr_t *contraction_name(product_t *p, kir_block_t *block,
                             const char *name, kir_expr_t *e);
/* Where an output element goes. */
typedef void (*contraction_store_fn)(product_t *p, kir_block_t *block,
                                     kir_buffer_t *b, uint32_t count,
                                     kir_expr_t *const *subs, kir_expr_t *v,
                                     void *user);
/* Fills guard, tails and places. */
void contraction_prepare(product_t *p);
/* From a sum to all that is stored, at the indices set. */
void contraction_finish(product_t *p, kir_block_t *block, kir_expr_t *sum,
                        contraction_store_fn store, void *user);

/* contraction_simt.c: the form for blocks of warps. */
void contraction_build_simt(product_t *p);

/* Largest value of a dim; INT64_MAX if there is none. */
int64_t contraction_upper(const ix_poly_t *p);

#endif
