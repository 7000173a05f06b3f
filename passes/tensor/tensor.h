/* tensor.h: small things that tensor passes share. */
#ifndef TDSL_PASSES_TENSOR_H
#define TDSL_PASSES_TENSOR_H

#include "ir/expr.h"
#include "passes/pass.h"

/* Calls fn for every node of the module, in text order, loops' bodies after
 * their loop. */
typedef void (*tensor_node_fn)(void *user, tir_func_t *func,
                               tir_block_t *block, tir_node_t *node);
void tensor_each_node(tir_module_t *module, tensor_node_fn fn, void *user);

/* Rewrites all expressions of all nodes; true if any changed. */
bool tensor_rewrite_all(tir_module_t *module, tir_map_fn map, void *user);

/* Number of leading parallel indices. */
uint32_t tensor_parallel(const tir_node_t *node);

/* Replacing values: filled by tensor_replace, applied by
 * tensor_apply_replacements to loads, operands, yields and results. */
typedef struct tensor_replacements {
  td_map_t map; /* tir_value_t* -> tir_value_t* */
} tensor_replacements_t;
void tensor_replacements_init(tensor_replacements_t *r, td_arena_t *scratch);
void tensor_replace(tensor_replacements_t *r, const tir_value_t *from,
                    tir_value_t *to);
void tensor_apply_replacements(tir_module_t *module, tir_func_t *func,
                               const tensor_replacements_t *r);

/* True for functions that cost tens of operations: exp, pow, division ... */
bool tensor_is_costly(const tir_expr_t *e);

/* Bytes of a whole value, over the dims of the program; NULL past 2^63. */
const ix_poly_t *tensor_bytes(ix_pool_t *pool, const tir_value_t *v);

#endif
