/* tensor.c: see tensor.h. */
#include "passes/tensor/tensor.h"

#include "runtime/base/num.h"

static void each_in(tir_func_t *func, tir_block_t *block, tensor_node_fn fn,
                    void *user) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    fn(user, func, block, n);
    if (n->kind == TIR_LOOP) each_in(func, &n->body_nodes, fn, user);
  }
}

void tensor_each_node(tir_module_t *module, tensor_node_fn fn, void *user) {
  for (uint32_t f = 0; f < module->func_count; f++) {
    each_in(module->funcs[f], &module->funcs[f]->nodes, fn, user);
  }
}

typedef struct rewrite_all {
  td_arena_t *arena;
  tir_map_fn map;
  void *user;
  bool has_changed;
} rewrite_all_t;

/* The map sees a fresh copy; a change shows as another pointer than that
 * copy, or as operands that changed. tir_rewrite copies always, so the old
 * and the new roots are compared by structure. */
static void rewrite_node(void *user, tir_func_t *func, tir_block_t *block,
                         tir_node_t *n) {
  (void)func;
  (void)block;
  rewrite_all_t *r = user;
  uint32_t count = tir_node_expr_count(n);
  if (count == 0) return;
  td_arena_t scratch;
  td_arena_init(&scratch, r->arena->task);
  tir_interner_t interner;
  tir_interner_init(&interner, &scratch);
  tir_rewriter_t rewriter;
  tir_rewriter_init(&rewriter, r->arena, r->map, r->user);
  for (uint32_t i = 0; i < count; i++) {
    tir_expr_t **slot = tir_node_expr(n, i);
    tir_expr_t *fresh = tir_rewrite_into(&rewriter, *slot);
    if (tir_intern(&interner, fresh) == tir_intern(&interner, *slot)) {
      continue;
    }
    *slot = fresh;
    r->has_changed = true;
  }
  td_arena_free_all(&scratch);
}

bool tensor_rewrite_all(tir_module_t *module, tir_map_fn map, void *user) {
  rewrite_all_t r = {module->arena, map, user, false};
  tensor_each_node(module, rewrite_node, &r);
  return r.has_changed;
}

uint32_t tensor_parallel(const tir_node_t *n) {
  uint32_t count = 0;
  while (count < n->index_count && !n->indices[count]->is_reduction) count++;
  return count;
}

/* ---- replacements -------------------------------------------------------- */

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

void tensor_replacements_init(tensor_replacements_t *r, td_arena_t *scratch) {
  td_map_init(&r->map, scratch);
}

void tensor_replace(tensor_replacements_t *r, const tir_value_t *from,
                    tir_value_t *to) {
  td_map_put_u64(&r->map, key_of(from), to);
}

/* Chains end: a replacement is always defined earlier than what it replaces. */
static tir_value_t *final_value(const tensor_replacements_t *r,
                                tir_value_t *v) {
  for (;;) {
    tir_value_t *next = td_map_get_u64(&r->map, key_of(v));
    if (next == NULL) return v;
    v = next;
  }
}

static tir_expr_t *replace_load(void *user, tir_expr_t *e) {
  const tensor_replacements_t *r = user;
  if (e->op == TIR_X_LOAD) {
    e->u.value = final_value(r, (tir_value_t *)(uintptr_t)e->u.value);
  }
  return e;
}

typedef struct apply {
  const tensor_replacements_t *r;
  const tir_func_t *func;
} apply_t;

static void apply_node(void *user, tir_func_t *func, tir_block_t *block,
                       tir_node_t *n) {
  (void)block;
  const apply_t *a = user;
  if (func != a->func) return;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    n->operands[i] = final_value(a->r, n->operands[i]);
    if (n->yields != NULL) n->yields[i] = final_value(a->r, n->yields[i]);
  }
}

void tensor_apply_replacements(tir_module_t *module, tir_func_t *func,
                               const tensor_replacements_t *r) {
  if (r->map.length == 0) return;
  apply_t a = {r, func};
  tensor_each_node(module, apply_node, &a);
  tensor_rewrite_all(module, replace_load, (void *)(uintptr_t)r);
  for (uint32_t s = 0; s < func->slot_count; s++) {
    tir_slot_t *slot = &func->slots[s];
    if (slot->result != NULL) slot->result = final_value(r, slot->result);
  }
}

bool tensor_is_costly(const tir_expr_t *e) {
  switch (e->op) {
    case TIR_X_EXP: case TIR_X_EXP2: case TIR_X_LOG: case TIR_X_LOG2:
    case TIR_X_SIN: case TIR_X_COS: case TIR_X_TANH: case TIR_X_ERF:
    case TIR_X_POW: case TIR_X_UNIFORM: case TIR_X_SQRT: case TIR_X_RSQRT:
    case TIR_X_DIV: case TIR_X_MOD:
      return true;
    case TIR_X_CONST: case TIR_X_INDEX: case TIR_X_DIM: case TIR_X_LOAD:
    case TIR_X_NEG: case TIR_X_NOT: case TIR_X_ABS: case TIR_X_FLOOR:
    case TIR_X_CEIL: case TIR_X_ROUND: case TIR_X_ADD: case TIR_X_SUB:
    case TIR_X_MUL: case TIR_X_MIN: case TIR_X_MAX: case TIR_X_EQ:
    case TIR_X_NE: case TIR_X_LT: case TIR_X_LE: case TIR_X_GT:
    case TIR_X_GE: case TIR_X_AND: case TIR_X_OR: case TIR_X_SELECT:
    case TIR_X_CAST: case TIR_X_ROUND_TF32: case TIR_X_COUNT:
      break;
  }
  return false;
}

const ix_poly_t *tensor_bytes(ix_pool_t *pool, const tir_value_t *v) {
  const ix_poly_t *bytes = ix_const(pool, (int64_t)td_dtype_bytes(v->dtype));
  for (uint32_t d = 0; d < v->rank; d++) {
    bytes = ix_mul(pool, bytes, v->dims[d]);
  }
  return bytes;
}
