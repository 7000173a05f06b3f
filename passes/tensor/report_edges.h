/* report_edges.h: for each value that one node makes and another reads,
 * whether it crosses memory, and why.
 *
 * join_kernels tells of the nodes that it could not put beside others; once
 * all have their groups, each edge gives one remark: what it is, its bytes, the
 * price of the two kernels or the one, and the price of the other way. */
#ifndef TDSL_PASSES_TENSOR_REPORT_EDGES_H
#define TDSL_PASSES_TENSOR_REPORT_EDGES_H

#include "passes/remark.h"

typedef struct tensor_edges tensor_edges_t;

/* What would be exceeded, for the numbers of a remark; NULL: nothing. */
typedef struct tensor_limit {
  const char *what;   /* "part_bytes" */
  int64_t need, most; /* need INT64_MAX: it has no bound */
} tensor_limit_t;

/* NULL if nobody listens; the others then do nothing. */
tensor_edges_t *tensor_edges_create(pass_state_t *, const tir_module_t *);
/* `node` did not join `group`, which ends before it. */
void tensor_edges_refuse(tensor_edges_t *, const tir_node_t *node,
                         uint32_t group, remark_code_t why,
                         const tensor_limit_t *limit);
void tensor_edges_report(tensor_edges_t *, const tir_func_t *func);
void tensor_edges_free(tensor_edges_t *);

#endif
