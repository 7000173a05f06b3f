/* group_kernels.c: which nodes become one kernel.
 *
 * Does: gives every MAP, UPDATE and TOPK node a group.
 * Needs: renumbered, verified TIR.
 * Guarantees: groups are adjacent in their block; a group is one node, or
 *   maps and reductions over a shared prefix of parallel indices.
 * Class: bitwise.
 * Ends because: one pass over the nodes.
 * Ledgers: every value that only its group reads stops crossing memory. */
#include "passes/tensor/group_kernels.h"

#include "passes/pass.h"

static uint32_t parallel_count(const tir_node_t *n) {
  uint32_t count = 0;
  while (count < n->index_count && !n->indices[count]->is_reduction) count++;
  return count;
}

uint32_t group_prefix(tir_node_t *const *nodes, uint32_t count) {
  uint32_t prefix = parallel_count(nodes[0]);
  for (uint32_t k = 1; k < count; k++) {
    uint32_t par = parallel_count(nodes[k]);
    if (par < prefix) prefix = par;
    for (uint32_t i = 0; i < prefix; i++) {
      if (nodes[k]->indices[i]->extent != nodes[0]->indices[i]->extent) {
        prefix = i;
      }
    }
  }
  return prefix;
}

static void group_block(tir_block_t *block, uint32_t *next) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) {
      group_block(&n->body_nodes, next);
    } else if (n->kind != TIR_ASSERT) {
      n->group = (*next)++;
    }
  }
}

bool pass_group_kernels(pass_state_t *state, tir_module_t *module) {
  (void)state;
  for (uint32_t f = 0; f < module->func_count; f++) {
    uint32_t next = 1;
    group_block(&module->funcs[f]->nodes, &next);
  }
  return true;
}
