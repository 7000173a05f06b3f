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
  td_arena_t *scratch;
} run_t;

static bool is_state(const tir_node_t *node) {
  return node->kind == TIR_MAP && !node->is_tile && !node->is_first;
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
    uint32_t own = node->kind == TIR_TOPK ? node->operands[0]->rank - 1
                                          : parallel(node);
    if (node->is_tile && own > 0) own--;
    if (own < rows) rows = own;
  }
  return rows;
}

/* ---- places and the k largest -------------------------------------------- */

typedef struct mention {
  const run_t *run;
  const tir_node_t *best; /* a maximum whose `was` is read */
  bool reads_tile;
} mention_t;

static void note_mention(void *user, tir_expr_t *e) {
  mention_t *m = user;
  for (size_t i = 0; e->op == TIR_X_LOAD && i < m->run->count; i++) {
    const tir_node_t *node = m->run->nodes[i];
    bool is_order =
        node->reduce == TIR_REDUCE_MAX || node->reduce == TIR_REDUCE_MIN;
    if (is_order && node->was == e->u.value) m->best = node;
    m->reads_tile |= node->is_tile && node->outs[0] == e->u.value;
  }
}

/* A place goes with a maximum: its transport says which. */
static const char *fault_of_place(const run_t *run, const tir_node_t *node,
                                  uint32_t rows) {
  mention_t m = {.run = run};
  if (node->reduce != TIR_REDUCE_ARGMAX && node->reduce != TIR_REDUCE_ARGMIN) {
    return NULL;
  }
  if (parallel(node) != rows || node->outs[0]->dtype != TDSL_DTYPE_I64) {
    return "a place in a cascade is one i64 for each row";
  }
  if (node->transport != NULL) {
    tir_walk(run->scratch, node->transport, note_mention, &m);
  }
  if (m.best != NULL && m.best->is_lazy) {
    return "the place of a lazy maximum is nowhere";
  }
  return m.best == NULL || parallel(m.best) != rows
             ? "a place in a cascade names no maximum"
             : NULL;
}

/* A maximum, or a sum that names what it was and is not moved. */
static const char *fault_of_gauge(const tir_node_t *node, uint32_t rows) {
  bool is_order =
      node->reduce == TIR_REDUCE_MAX || node->reduce == TIR_REDUCE_MIN;
  bool is_sum = node->reduce == TIR_REDUCE_SUM && node->was != NULL &&
                node->transport == NULL;
  bool is_whole = node->plan == TIR_PLAN_SERIAL && parallel(node) == rows;
  return (is_order || is_sum) && !is_whole
             ? "what a cascade is relative to is one number for each row"
             : NULL;
}

static bool is_tile_of(const run_t *run, const tir_value_t *v) {
  for (size_t i = 0; i < run->count; i++) {
    const tir_node_t *node = run->nodes[i];
    if (node->is_tile && node->reduce == TIR_REDUCE_NONE &&
        node->outs[0] == v) {
      return true;
    }
  }
  return false;
}

static const char *fault_of_top(const run_t *run, const tir_node_t *node,
                                uint32_t rows, const ix_poly_t *axis) {
  const tir_value_t *from = node->operands[0];
  bool is_float = from->dtype != TDSL_DTYPE_BOOL &&
                  (tir_arithmetic(from->dtype) == TDSL_DTYPE_F32 ||
                   tir_arithmetic(from->dtype) == TDSL_DTYPE_F64);
  if (from->rank != rows + 1 || node->k < 1 || node->k > TIR_MAX_TOP ||
      !is_float) {
    return "a topk in a cascade is of rows of floats, and of a few";
  }
  if (node->is_merge) {
    return is_tile_of(run, from) ? NULL : "a topk merges what is no tile";
  }
  return from->dims[rows] == axis ? NULL : "a topk is not along the axis";
}

/* Where parts are splits a tile is what a topk is of, and nothing else. */
static const char *fault_of_merge(const run_t *run, tir_node_t *node) {
  mention_t m = {.run = run};
  for (uint32_t i = 0; i < tir_node_expr_count(node); i++) {
    tir_walk(run->scratch, *tir_node_expr(node, i), note_mention, &m);
  }
  return m.reads_tile ? "a merge reads a tile" : NULL;
}

/* ---- the run ------------------------------------------------------------- */

static const char *fault_of(const run_t *run, const tir_node_t **at) {
  const ix_poly_t *axis = NULL;
  bool merges = false;
  for (size_t i = 0; i < run->count; i++) {
    *at = run->nodes[i];
    bool is_top = (*at)->kind == TIR_TOPK && i > 0;
    if ((*at)->kind != TIR_MAP && !is_top) {
      return "a cascade has maps and reductions, and then topk, only";
    }
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
    tir_node_t *node = run->nodes[i];
    *at = node;
    const char *fault = merges ? fault_of_merge(run, node) : NULL;
    if (fault == NULL && node->kind == TIR_TOPK) {
      if (node->is_merge != merges) {
        return "a cascade merges in some of its states only";
      }
      fault = fault_of_top(run, node, rows, axis);
    } else if (fault == NULL && is_state(node)) {
      fault = fault_of_place(run, node, rows);
      if (fault == NULL) fault = fault_of_gauge(node, rows);
    }
    if (fault != NULL) return fault;
    if (node->kind == TIR_TOPK) continue;
    for (uint32_t k = 0; k < rows; k++) {
      if (node->indices[k]->extent != run->nodes[0]->indices[k]->extent) {
        return "nodes of a cascade have different rows";
      }
    }
    if (node->is_tile && !merges &&
        node->indices[parallel(node) - 1]->extent != axis) {
      return "a tile is not along the axis of its cascade";
    }
  }
  return NULL;
}

const char *tir_verify_runs(td_map_t *seen, const tir_block_t *block,
                            const tir_node_t **at) {
  for (size_t i = 0; i < block->length;) {
    const tir_node_t *first = block->data[i];
    run_t run = {.nodes = &block->data[i], .count = 1,
                 .scratch = seen->arena};
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
