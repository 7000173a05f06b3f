/* group_kernels.h: what the lowering of a group must know of grouping. */
#ifndef TDSL_PASSES_TENSOR_GROUP_KERNELS_H
#define TDSL_PASSES_TENSOR_GROUP_KERNELS_H

#include "ir/tir.h"

/* Number of leading parallel indices that all nodes of a group share and
 * that loads inside the group pass on unchanged. */
uint32_t group_prefix(tir_node_t *const *nodes, uint32_t count);

#endif
