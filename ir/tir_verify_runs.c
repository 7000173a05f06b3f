/* tir_verify_runs.c: the rules of a cascade that no node shows by itself.
 *
 * Nodes of one cascade stand side by side, since one sweep computes them: the
 * rows they share come first among their indices, and what the sweep runs
 * along is the last index of each state. A text may claim anything, and what
 * lowers a sweep relies on all of it. */
#include "ir/tir_verify_runs.h"

typedef struct run {
  tir_node_t *const *nodes;
  size_t count;
} run_t;

static bool is_state(const tir_node_t *node) {
  return !node->is_tile && !node->is_first;
}

static uint32_t parallel(const tir_node_t *node) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->index_count; i++) {
    count += !node->indices[i]->is_reduction;
  }
  return count;
}

/* Parallel indices that every node of the run has. A tile's last one is along
 * the axis. */
static uint32_t shared_rows(const run_t *run) {
  uint32_t rows = UINT32_MAX;
  for (size_t i = 0; i < run->count; i++) {
    const tir_node_t *node = run->nodes[i];
    uint32_t own = parallel(node);
    if (node->is_tile && own > 0) own--;
    if (own < rows) rows = own;
  }
  return rows;
}

static const char *fault_of(const run_t *run, const tir_node_t **at) {
  const ix_poly_t *axis = NULL;
  bool merges = false;
  for (size_t i = 0; i < run->count; i++) {
    *at = run->nodes[i];
    if ((*at)->kind != TIR_MAP) return "a cascade has maps and reductions only";
  }
  uint32_t rows = shared_rows(run);
  for (size_t i = 0; i < run->count; i++) {
    const tir_node_t *node = run->nodes[i];
    if (!is_state(node)) continue;
    const ix_poly_t *own = node->indices[node->index_count - 1]->extent;
    *at = node;
    if (axis != NULL && own != axis) return "states run along two axes";
    if (axis != NULL && node->is_merge != merges) {
      return "a cascade merges in some of its states only";
    }
    axis = own;
    merges = node->is_merge;
  }
  *at = run->nodes[0];
  if (axis == NULL) return "a cascade has no state";
  for (size_t i = 0; i < run->count; i++) {
    const tir_node_t *node = run->nodes[i];
    *at = node;
    for (uint32_t k = 0; k < rows; k++) {
      if (node->indices[k]->extent != run->nodes[0]->indices[k]->extent) {
        return "nodes of a cascade have different rows";
      }
    }
    if (node->is_tile && node->indices[parallel(node) - 1]->extent != axis) {
      return "a tile is not along the axis of its cascade";
    }
  }
  return NULL;
}

const char *tir_verify_runs(td_map_t *seen, const tir_block_t *block,
                            const tir_node_t **at) {
  for (size_t i = 0; i < block->length;) {
    const tir_node_t *first = block->data[i];
    run_t run = {.nodes = &block->data[i], .count = 1};
    while (i + run.count < block->length &&
           block->data[i + run.count]->cascade == first->cascade) {
      run.count++;
    }
    i += run.count;
    if (first->cascade == 0) continue;
    *at = first;
    if (td_map_put_u64(seen, first->cascade, run.nodes[0]) != NULL) {
      return "nodes of a cascade stand apart";
    }
    const char *fault = fault_of(&run, at);
    if (fault != NULL) return fault;
  }
  return NULL;
}
