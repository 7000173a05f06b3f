/* join_judge.h: a group that grows, and whether a node may join it. */
#ifndef TDSL_PASSES_TENSOR_JOIN_JUDGE_H
#define TDSL_PASSES_TENSOR_JOIN_JUDGE_H

#include "passes/tensor/group_product.h"
#include "passes/tensor/price.h"
#include "passes/tensor/report_edges.h"

enum {
  GROUP_NODES = 24,
  GROUP_CASCADE_NODES = 64, /* of a cascade and what finishes it */
  GROUP_SIDES = 4,          /* products of a kernel: each has a tile */
};

typedef struct group {
  td_arena_t scratch;
  bool has_tiles;
  tir_node_t *nodes[GROUP_CASCADE_NODES + 1];
  uint32_t count;
  size_t size;     /* operations */
  td_map_t values; /* tir_value_t* -> itself: read or defined */
  size_t value_count;
  product_form_t sides[GROUP_SIDES];
  uint32_t side_count;
  bool is_product;
  bool is_rows; /* what follows the products is done row by row */
  const ir_target_t *target;
  tensor_limit_t limit; /* what the last refusal was about */
} group_t;

/* FUSE_DONE: the node may join as the group is; else why not, with numbers in
 * g->limit. */
remark_code_t group_judge(group_t *g, tir_node_t *n);
/* The same if what follows the products were done row by row. `is_helper`: it
 * reads nothing of the group, and somebody who does needs it. */
remark_code_t group_judge_rows(group_t *g, tir_node_t *n, bool is_helper);
void group_accept(group_t *g, tir_node_t *n);

#endif
