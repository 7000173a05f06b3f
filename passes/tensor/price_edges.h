/* price_edges.h: what an edge between two nodes costs as it is, and what it
 * would cost the other way.
 *
 * The price of a kernel is that of its group: operations of all nodes, bytes
 * of what it reads from others and of what others read from it, each value
 * once, and one launch. */
#ifndef TDSL_PASSES_TENSOR_PRICE_EDGES_H
#define TDSL_PASSES_TENSOR_PRICE_EDGES_H

#include "passes/tensor/price.h"

typedef struct tensor_edge_prices tensor_edge_prices_t;

/* All groups of a function; lives in `arena`. */
tensor_edge_prices_t *tensor_edge_prices_create(td_arena_t *arena,
                                                const ir_target_t *target,
                                                const tir_func_t *func);
/* Somebody outside of its group reads it, or it is a result. */
bool tensor_edge_leaves(const tensor_edge_prices_t *p, const tir_value_t *v);
/* Node that makes it; NULL: none. */
const tir_node_t *tensor_edge_maker(const tensor_edge_prices_t *p,
                                    const tir_value_t *v);
/* Nanoseconds as it is and the other way: of the one kernel, and of it cut in
 * two where v would be stored; or of the two kernels, and of them if the
 * reader computed v for itself. */
void tensor_edge_price(tensor_edge_prices_t *p, const tir_value_t *v,
                const tir_node_t *reader, int64_t *is, int64_t *other);

#endif
