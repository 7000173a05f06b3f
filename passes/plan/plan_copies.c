/* plan_copies.c: the copies that shared storage did not save.
 *
 * All copies of one place (a loop's head, the end of an iteration, the end
 * of the function) happen at once: each source is what it was before any of
 * them.  In sequence that needs an order, and a buffer in between where the
 * copies form a cycle (a, b := b, a). */
#include "passes/plan/planner.h"

static uint32_t buffer_of(planner_t *p, const tir_value_t *v) {
  uint32_t b = p->layout->value_buffer[v->id];
  TD_CHECK(p->task, b != PLANNER_NONE, "value %s has no storage", v->name);
  return b;
}

/* A buffer of the same shape that lives at one position. */
static uint32_t add_temporary(planner_t *p, uint32_t like, uint32_t at) {
  mem_buffer_t b = p->buffers.data[like];
  b.slot = -1;
  b.offset = NULL;
  planner_span_t span = {at, at};
  td_vec_push(p->arena, &p->buffers, b);
  td_vec_push(p->arena, &p->spans, span);
  return (uint32_t)p->buffers.length - 1;
}

static bool is_source(const mem_copies_t *copies, uint32_t buffer) {
  for (size_t i = 0; i < copies->length; i++) {
    if (copies->data[i].from == buffer) return true;
  }
  return false;
}

static void drop(mem_copies_t *copies, size_t i) {
  for (size_t k = i + 1; k < copies->length; k++) {
    copies->data[k - 1] = copies->data[k];
  }
  copies->length--;
}

/* Puts simultaneous copies in an order.  A copy whose destination no other
 * one reads can go first; if there is none, all are on cycles, and saving
 * one destination opens its cycle. */
static void sequence(planner_t *p, mem_copies_t *all, uint32_t at,
                     mem_copies_t *out) {
  for (size_t i = all->length; i > 0; i--) {
    mem_copy_t c = all->data[i - 1];
    if (c.to == c.from) drop(all, i - 1);
  }
  while (all->length > 0) {
    size_t next = 0;
    while (next < all->length && is_source(all, all->data[next].to)) next++;
    if (next == all->length) {
      uint32_t saved = all->data[0].to;
      mem_copy_t save = {add_temporary(p, saved, at), saved};
      td_vec_push(p->arena, out, save);
      for (size_t i = 0; i < all->length; i++) {
        if (all->data[i].from == saved) all->data[i].from = save.to;
      }
      next = 0;
    }
    td_vec_push(p->arena, out, all->data[next]);
    drop(all, next);
  }
}

static void loop_copies(planner_t *p, mem_loop_t *loop) {
  const tir_node_t *n = loop->node;
  mem_copies_t before = {0}, after = {0};
  for (uint32_t k = 0; k < n->operand_count; k++) {
    uint32_t param = buffer_of(p, n->params[k]);
    mem_copy_t start = {param, buffer_of(p, n->operands[k])};
    mem_copy_t next = {param, buffer_of(p, n->yields[k])};
    td_vec_push(p->arena, &before, start);
    td_vec_push(p->arena, &after, next);
  }
  sequence(p, &before, planner_head(p, n), &loop->before);
  sequence(p, &after, planner_position(p, n), &loop->after);
}

static void result_copies(planner_t *p) {
  mem_copies_t all = {0};
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    if (slot->kind == TIR_IN) continue;
    mem_copy_t c = {PLANNER_NONE, buffer_of(p, slot->result)};
    for (size_t b = 0; b < p->buffers.length; b++) {
      if (p->buffers.data[b].slot == (int32_t)s) c.to = (uint32_t)b;
    }
    TD_CHECK(p->task, c.to != PLANNER_NONE, "slot %s has no buffer",
             slot->name);
    td_vec_push(p->arena, &all, c);
  }
  sequence(p, &all, p->position, &p->layout->last);
}

void planner_make_copies(planner_t *p) {
  mem_layout_t *layout = p->layout;
  for (size_t i = 0; i < layout->loops.length; i++) {
    loop_copies(p, layout->loops.entries[i].value);
  }
  for (size_t i = 0; i < layout->update_copy.length; i++) {
    mem_copy_t *c = layout->update_copy.entries[i].value;
    c->to = layout->value_buffer[c->to];
    c->from = layout->value_buffer[c->from];
  }
  result_copies(p);
}
