/* settle_scalars.c
 *
 * Does: gives a value of its own to every loop bound that is more than a
 *   number of dims or a load of rank 0, to the condition (and both sides of a
 *   comparison) of every assert, and to a loop variable that is carried.
 * Needs: verified TIR.
 * Guarantees: the run time can read bounds and conditions from buffers;
 *   operands of an ASSERT are its condition, left and right side; loop
 *   variables occur in expressions only.
 * Class: bitwise.
 * Ends because: one pass over the nodes.
 * Ledgers: a few bytes. */
#include "passes/tensor/tensor.h"

typedef struct settle {
  tir_module_t *module;
  bool checks;
  bool has_changed;
} settle_t;

/* A map over nothing that computes e, inserted before position *at. */
static tir_value_t *name_scalar(settle_t *s, tir_block_t *block, size_t *at,
                                const char *name, tir_expr_t *e) {
  td_arena_t *arena = s->module->arena;
  tir_node_t *map = tir_node_create(arena, TIR_MAP, 1);
  map->body = e;
  map->loc = e->loc;
  tir_value_t *v = tir_value_create(arena, name, e->type, 0, NULL);
  v->def = map;
  v->loc = e->loc;
  map->outs[0] = v;
  td_vec_push(arena, block, map);
  for (size_t i = block->length - 1; i > *at; i--) {
    block->data[i] = block->data[i - 1];
  }
  block->data[*at] = map;
  (*at)++;
  s->has_changed = true;
  return v;
}

static bool is_settled(settle_t *s, tir_expr_t *e) {
  if (e->op == TIR_X_LOAD && e->arg_count == 0) return true;
  const ix_poly_t *p =
      tir_expr_poly(s->module->pool, s->module->arena, e, NULL, NULL);
  return p != NULL && !ix_mentions_kind(p, IX_SYM_DATA);
}

static tir_expr_t *settle_bound(settle_t *s, tir_block_t *block, size_t *at,
                                const char *name, tir_expr_t *e) {
  if (is_settled(s, e)) return e;
  return tir_load(s->module->arena, name_scalar(s, block, at, name, e), 0,
                  NULL);
}

static bool is_compare(const tir_expr_t *e) {
  return e->op == TIR_X_EQ || e->op == TIR_X_NE || e->op == TIR_X_LT ||
         e->op == TIR_X_LE || e->op == TIR_X_GT || e->op == TIR_X_GE;
}

static void settle_assert(settle_t *s, tir_block_t *block, size_t *at,
                          tir_node_t *n) {
  if (n->operand_count > 0) return;
  tir_expr_t *body = n->body;
  n->operands = TD_NEW_ARRAY(s->module->arena, tir_value_t *, 3);
  n->operands[n->operand_count++] =
      name_scalar(s, block, at, "condition", body);
  if (is_compare(body)) {
    n->operands[n->operand_count++] =
        name_scalar(s, block, at, "left", body->args[0]);
    n->operands[n->operand_count++] =
        name_scalar(s, block, at, "right", body->args[1]);
  }
  n->body = tir_load(s->module->arena, n->operands[0], 0, NULL);
  n->body->loc = body->loc;
}

/* A loop variable is an argument of kernels and has no memory. */
static bool is_variable(const tir_value_t *v) {
  return v->def == NULL && v->rank == 0 && v->symbol != NULL &&
         v->symbol->kind == IX_SYM_LOOP;
}

static void settle_values(settle_t *s, tir_block_t *block, size_t *at,
                          tir_value_t **values, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    if (!is_variable(values[k])) continue;
    tir_expr_t *e = tir_load(s->module->arena, values[k], 0, NULL);
    values[k] = name_scalar(s, block, at, values[k]->name, e);
  }
}

static void settle_block(settle_t *s, tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    settle_values(s, block, &i, n->operands, n->operand_count);
    if (n->kind == TIR_ASSERT && s->checks) settle_assert(s, block, &i, n);
    if (n->kind != TIR_LOOP) continue;
    settle_block(s, &n->body_nodes);
    size_t last = n->body_nodes.length;
    settle_values(s, &n->body_nodes, &last, n->yields, n->operand_count);
    n->lo = settle_bound(s, block, &i, "from", n->lo);
    n->hi = settle_bound(s, block, &i, "to", n->hi);
  }
}

bool pass_settle_scalars(pass_state_t *state, tir_module_t *module) {
  settle_t s = {module, state->options->checks >= 2, false};
  for (uint32_t f = 0; f < module->func_count; f++) {
    settle_block(&s, &module->funcs[f]->nodes);
    if (s.has_changed) tir_renumber(module->funcs[f]);
  }
  return s.has_changed;
}
