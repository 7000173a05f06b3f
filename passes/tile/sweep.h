/* sweep.h: a cascade in one kernel, between the files that build it. */
#ifndef TDSL_PASSES_TILE_SWEEP_H
#define TDSL_PASSES_TILE_SWEEP_H

#include "ir/expr.h"
#include "passes/tile/contraction.h"

/* A product of a tile whose second factor is packed for all rows. */
typedef struct packed {
  tir_node_t *node;      /* NULL: not packed */
  product_t p;
  kir_buffer_t *columns; /* [depth][CASCADE_TILE] */
} packed_t;

typedef struct sweep {
  tile_t *t;
  uint32_t rows;          /* shared parallel indices */
  uint32_t blocked;       /* of these, the one a block has several of */
  int64_t block_rows;     /* 1: none */
  kir_expr_t *values[IX_MAX_RANK]; /* of the rows */
  kir_expr_t *r;          /* row within the block */
  kir_expr_t *begin, *end; /* of the tile */
  kir_buffer_t **states;  /* by node; NULL: a tile or a finishing map */
  packed_t *packed;       /* by node */
  /* by node: the second factor of a sum over extras, [CASCADE_TILE][extra],
   * the same for all rows of the block; NULL: read where it is */
  kir_buffer_t **factors;
  uint32_t **places;      /* by node: where the rows are among its indices */
  /* every element behind `limit + limit_plus` is neutral; NULL: none known */
  tir_expr_t *limit;
  int64_t limit_plus;
} sweep_t;

/* Looks for such a limit (cascade_bound.c). */
bool tile_find_bound(sweep_t *s);

#endif
