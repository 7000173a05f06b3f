/* plan_lives.c: when values live; see planner.h for what a position is. */
#include "passes/plan/planner.h"

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static void put_number(td_map_t *map, const void *key, uint32_t n) {
  td_map_put_u64(map, key_of(key), (void *)(uintptr_t)((uint64_t)n + 1));
}

static uint32_t get_number(const td_map_t *map, const void *key) {
  return (uint32_t)((uintptr_t)td_map_get_u64(map, key_of(key)) - 1);
}

static uint32_t get_number_of(const td_map_t *map, uint32_t group) {
  return (uint32_t)((uintptr_t)td_map_get_u64(map, group) - 1);
}

uint32_t planner_position(const planner_t *p, const tir_node_t *n) {
  return get_number(&p->node_position, n);
}

uint32_t planner_head(const planner_t *p, const tir_node_t *loop) {
  return get_number(&p->loop_head, loop);
}

static void define(planner_t *p, const tir_value_t *v, uint32_t at) {
  planner_life_t *l = &p->lives[v->id];
  l->value = v;
  l->first = l->last = at;
  td_vec_push(p->arena, &p->order, v->id);
}

static void use(planner_t *p, const tir_value_t *v, uint32_t at) {
  planner_life_t *l = &p->lives[v->id];
  if (l->value != NULL && at > l->last) l->last = at;
}

static void use_load(void *user, tir_expr_t *e) {
  planner_t *p = user;
  if (e->op == TIR_X_LOAD) use(p, e->u.value, p->position);
}

static void number_block(planner_t *p, const tir_block_t *block);

/* Values from before the loop that its body reads live to its end. */
static void close_loop(planner_t *p, uint32_t head, uint32_t end) {
  for (uint32_t i = 0; i < p->count; i++) {
    planner_life_t *l = &p->lives[i];
    if (l->value != NULL && l->first < head && l->last > head &&
        l->last < end) {
      l->last = end;
    }
  }
}

static void store(planner_t *p, const tir_value_t *v) {
  p->lives[v->id].is_stored = true;
}

static void number_loop(planner_t *p, tir_node_t *n) {
  uint32_t head = p->position;
  put_number(&p->loop_head, n, head);
  for (uint32_t i = 0; i < n->operand_count; i++) {
    define(p, n->params[i], head);
    store(p, n->params[i]);
    store(p, n->operands[i]);
  }
  number_block(p, &n->body_nodes);
  uint32_t end = ++p->position;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    use(p, n->yields[i], end);
    store(p, n->yields[i]);
  }
  close_loop(p, head, end);
  /* what is yielded ends before the results begin: all carried values
   * change at once, whatever order their copies have */
  p->position++;
  for (uint32_t i = 0; i < n->out_count; i++) {
    define(p, n->outs[i], p->position);
    store(p, n->outs[i]);
  }
  put_number(&p->node_position, n, end);
}

static void number_block(planner_t *p, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    bool joins = i > 0 && n->group != 0 &&
                 block->data[i - 1]->group == n->group;
    if (!joins) p->position++;
    if (n->group != 0) {
      td_map_put_u64(&p->group_position, n->group,
                     (void *)(uintptr_t)((uint64_t)p->position + 1));
    }
    for (uint32_t k = 0; k < n->operand_count; k++) {
      use(p, n->operands[k], p->position);
    }
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(p->arena, *tir_node_expr(n, k), use_load, p);
    }
    if (n->kind == TIR_LOOP) {
      number_loop(p, n);
      continue;
    }
    put_number(&p->node_position, n, p->position);
    for (uint32_t k = 0; k < n->out_count; k++) {
      define(p, n->outs[k], p->position);
    }
  }
}

void planner_find_lives(planner_t *p, const pass_kernels_t *kernels) {
  const tir_func_t *f = p->func;
  for (uint32_t s = 0; s < f->slot_count; s++) {
    if (f->slots[s].value == NULL) continue;
    planner_life_t *l = &p->lives[f->slots[s].value->id];
    l->value = f->slots[s].value;
    l->is_stored = true;
  }
  number_block(p, &f->nodes);
  p->position++;
  for (uint32_t s = 0; s < f->slot_count; s++) {
    if (f->slots[s].result == NULL) continue;
    use(p, f->slots[s].result, p->position);
    store(p, f->slots[s].result);
  }
  /* panels are made once and stay: nobody else is ever where they are */
  for (uint32_t i = 0; i < p->count; i++) {
    planner_life_t *l = &p->lives[i];
    if (l->value == NULL || !l->value->is_kept) continue;
    l->first = 0;
    l->last = p->position;
  }
  for (uint32_t k = 0; k < kernels->count; k++) {
    if (kernels->funcs[k] != f) continue;
    for (uint32_t i = 0; i < kernels->kernels[k]->param_count; i++) {
      const tir_value_t *v = kernels->param_values[k][i];
      /* between kernels of one group, and of no node */
      if (p->lives[v->id].value == NULL) {
        define(p, v, get_number_of(&p->group_position, kernels->groups[k]));
      }
      store(p, v);
    }
  }
}
