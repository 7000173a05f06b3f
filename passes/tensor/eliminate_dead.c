/* eliminate_dead.c
 *
 * Does: drops nodes whose results nothing needs, carried values that only
 *   feed themselves, and asserts in builds that do not test them.
 * Needs: verified TIR.
 * Guarantees: what is left is needed for a result or a test.
 * Class: bitwise.
 * Ends because: liveness only grows, then one sweep.
 * Ledgers: all four. */
#include "passes/tensor/tensor.h"

typedef struct live {
  td_map_t values;
  bool has_grown;
  bool keeps_asserts;
} live_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static bool is_live(const live_t *l, const tir_value_t *v) {
  return td_map_get_u64(&l->values, key_of(v)) != NULL;
}

static void mark(live_t *l, const tir_value_t *v) {
  if (is_live(l, v)) return;
  td_map_put_u64(&l->values, key_of(v), l);
  l->has_grown = true;
}

static void mark_load(void *user, tir_expr_t *e) {
  if (e->op == TIR_X_LOAD) mark(user, e->u.value);
}

static bool is_needed(const live_t *l, const tir_node_t *n) {
  if (n->kind == TIR_ASSERT) return l->keeps_asserts;
  for (uint32_t i = 0; i < n->out_count; i++) {
    if (is_live(l, n->outs[i])) return true;
  }
  return n->was != NULL && is_live(l, n->was);
}

static bool holds_assert(const live_t *l, const tir_block_t *block) {
  if (!l->keeps_asserts) return false;
  for (size_t i = 0; i < block->length; i++) {
    const tir_node_t *n = block->data[i];
    if (n->kind == TIR_ASSERT) return true;
    if (n->kind == TIR_LOOP && holds_assert(l, &n->body_nodes)) return true;
  }
  return false;
}

static bool loop_is_needed(const live_t *l, const tir_node_t *n) {
  return is_needed(l, n) || holds_assert(l, &n->body_nodes);
}

static void mark_block(live_t *l, td_arena_t *scratch,
                       const tir_block_t *block) {
  for (size_t i = block->length; i > 0; i--) {
    tir_node_t *n = block->data[i - 1];
    if (n->kind == TIR_LOOP) {
      if (!loop_is_needed(l, n)) continue;
      for (uint32_t k = 0; k < n->operand_count; k++) {
        /* needed after the loop or by what the body computes */
        if (is_live(l, n->outs[k])) mark(l, n->params[k]);
        if (!is_live(l, n->params[k])) continue;
        mark(l, n->yields[k]);
        mark(l, n->operands[k]);
      }
      mark_block(l, scratch, &n->body_nodes);
    } else if (!is_needed(l, n)) {
      continue;
    } else {
      for (uint32_t k = 0; k < n->operand_count; k++) {
        mark(l, n->operands[k]);
      }
    }
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(scratch, *tir_node_expr(n, k), mark_load, l);
    }
    if (n->transport != NULL) tir_walk(scratch, n->transport, mark_load, l);
  }
}

/* Removes carried values that are not live. */
static bool trim_loop(const live_t *l, tir_node_t *n) {
  uint32_t kept = 0;
  for (uint32_t k = 0; k < n->operand_count; k++) {
    if (!is_live(l, n->params[k])) continue;
    n->operands[kept] = n->operands[k];
    n->params[kept] = n->params[k];
    n->yields[kept] = n->yields[k];
    n->outs[kept] = n->outs[k];
    kept++;
  }
  bool changed = kept != n->operand_count;
  n->operand_count = n->out_count = kept;
  return changed;
}

static bool sweep(const live_t *l, tir_block_t *block) {
  size_t kept = 0;
  bool changed = false;
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    bool needed =
        n->kind == TIR_LOOP ? loop_is_needed(l, n) : is_needed(l, n);
    if (!needed) continue;
    if (n->kind == TIR_LOOP) {
      changed |= trim_loop(l, n);
      changed |= sweep(l, &n->body_nodes);
    }
    block->data[kept++] = n;
  }
  changed |= kept != block->length;
  block->length = kept;
  return changed;
}

bool pass_eliminate_dead(pass_state_t *state, tir_module_t *module) {
  bool changed = false;
  for (uint32_t f = 0; f < module->func_count; f++) {
    tir_func_t *func = module->funcs[f];
    td_arena_t scratch;
    td_arena_init(&scratch, state->task);
    live_t l = {.keeps_asserts = state->options->checks >= 2};
    td_map_init(&l.values, &scratch);
    for (uint32_t s = 0; s < func->slot_count; s++) {
      if (func->slots[s].result != NULL) mark(&l, func->slots[s].result);
    }
    do {
      l.has_grown = false;
      mark_block(&l, &scratch, &func->nodes);
    } while (l.has_grown);
    if (sweep(&l, &func->nodes)) {
      changed = true;
      tir_renumber(func);
    }
    td_arena_free_all(&scratch);
  }
  return changed;
}
