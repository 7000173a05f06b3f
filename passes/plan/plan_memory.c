/* plan_memory.c: which values share storage, and where it lies.
 *
 * Does: merges values into buffers (updates and maps in place, carried
 *   values of loops, results in the caller's memory), notes the copies where
 *   that cannot be, and gives the rest offsets in an arena with reuse.
 * Needs: renumbered TIR, grouped, lowered to kernels.
 * Guarantees: two values of one buffer, and two buffers of one place, never
 *   live at the same time.
 * Class: bitwise.
 * Ends because: one pass over nodes, values, buffers; sets only grow.
 * Ledgers: capacity; bytes of copies.
 *
 * 1. Values of two sets may become one buffer if the lives of each pair are
 *    disjoint, or the pair touches at one position in one of the ways below.
 * 2. update: the target ends where the new version begins.  Allowed if the
 *    node reads its target only at the element that it writes, or not at
 *    all; lowering then keeps both in one parameter.
 * 3. map: an operand of equal shape ends where the output begins.  Allowed
 *    if the operand is read by maps of the kernel only, each at the element
 *    that it computes, none of them after the node that writes the output: a
 *    kernel computes each element of a map once.  pass_share_params makes
 *    the two parameters one.
 * 4. loop: a carried value's parameter and result are one buffer always.  An
 *    initial value that ends at the head, and a yield that the parameter
 *    does not outlive, join it; otherwise there is a copy at the head or at
 *    the end of the iteration. */
#include "passes/plan/planner.h"

#include "passes/tensor/group_kernels.h"
#include "passes/tile/update.h"

/* ---- sets ---------------------------------------------------------------- */

static bool same_shape(const tir_value_t *a, const tir_value_t *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (uint32_t d = 0; d < a->rank; d++) {
    if (a->dims[d] != b->dims[d]) return false;
  }
  return true;
}

typedef enum touch { APART, MEETING } touch_t;

/* Puts `ending` and `beginning` into one buffer if every pair of members of
 * their sets allows it.  MEETING: the one may end where the other begins. */
static bool merge(planner_t *p, uint32_t ending, uint32_t beginning,
                  touch_t touch) {
  uint32_t a = p->set_of[ending], b = p->set_of[beginning];
  planner_set_t *x = &p->sets[a], *y = &p->sets[b];
  if (a == b) return true;
  if (!same_shape(p->lives[ending].value, p->lives[beginning].value)) {
    return false;
  }
  if (x->is_fixed || y->is_fixed || (x->slot >= 0 && y->slot >= 0)) {
    return false;
  }
  for (size_t i = 0; i < x->members.length; i++) {
    for (size_t j = 0; j < y->members.length; j++) {
      uint32_t u = x->members.data[i], v = y->members.data[j];
      const planner_life_t *l = &p->lives[u], *m = &p->lives[v];
      bool meets = touch == MEETING && u == ending && v == beginning &&
                   l->last == m->first;
      if (!meets && l->last >= m->first && m->last >= l->first) return false;
    }
  }
  for (size_t j = 0; j < y->members.length; j++) {
    td_vec_push(p->arena, &x->members, y->members.data[j]);
    p->set_of[y->members.data[j]] = a;
  }
  y->members.length = 0;
  if (x->slot < 0) x->slot = y->slot;
  return true;
}

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- updates ------------------------------------------------------------- */

static void merge_updates(planner_t *p, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) merge_updates(p, &n->body_nodes);
    if (n->kind != TIR_UPDATE) continue;
    bool ok = !p->separate && !tile_update_reads_elsewhere(p->arena, n) &&
              merge(p, n->operands[0]->id, n->outs[0]->id, MEETING);
    if (ok) continue;
    mem_copy_t *copy = TD_NEW(p->arena, mem_copy_t);
    copy->to = n->outs[0]->id; /* values until buffers are made */
    copy->from = n->operands[0]->id;
    td_map_put_u64(&p->layout->update_copy, key_of(n), copy);
  }
}

/* ---- loops --------------------------------------------------------------- */

/* What has to be one buffer, before anything that only may. */
static void start_loops(planner_t *p, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind != TIR_LOOP) continue;
    mem_loop_t *loop = TD_NEW(p->arena, mem_loop_t);
    loop->node = n;
    td_map_put_u64(&p->layout->loops, key_of(n), loop);
    for (uint32_t k = 0; k < n->operand_count; k++) {
      uint32_t param = n->params[k]->id;
      TD_CHECK(p->task, merge(p, param, n->outs[k]->id, APART),
               "carried value %s has two homes", n->params[k]->name);
    }
    start_loops(p, &n->body_nodes);
  }
}

static void merge_loops(planner_t *p, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind != TIR_LOOP) continue;
    for (uint32_t k = 0; k < n->operand_count; k++) {
      uint32_t param = n->params[k]->id;
      (void)merge(p, n->operands[k]->id, param, MEETING);
      (void)merge(p, param, n->yields[k]->id, APART);
    }
    merge_loops(p, &n->body_nodes);
  }
}

/* ---- maps in place ------------------------------------------------------- */

/* Loads of one operand within a kernel. */
typedef struct in_place {
  const tir_value_t *operand;
  const tir_node_t *node; /* being walked */
  bool is_plain_map, is_refused;
} in_place_t;

static void check_load(void *user, tir_expr_t *e) {
  in_place_t *s = user;
  if (e->op != TIR_X_LOAD || e->u.value != s->operand) return;
  bool ok = s->is_plain_map && e->arg_count == s->node->index_count;
  for (uint32_t i = 0; ok && i < e->arg_count; i++) {
    ok = e->args[i]->op == TIR_X_INDEX &&
         e->args[i]->u.index == s->node->indices[i];
  }
  s->is_refused |= !ok;
}

/* nodes: the kernel's, `writer` the one that makes the output. */
static bool reads_in_place(planner_t *p, tir_node_t *const *nodes,
                           size_t count, size_t writer,
                           const tir_value_t *operand) {
  in_place_t s = {.operand = operand};
  for (size_t i = 0; i < count && !s.is_refused; i++) {
    tir_node_t *n = nodes[i];
    s.node = n;
    s.is_plain_map = n->kind == TIR_MAP && n->reduce == TIR_REDUCE_NONE &&
                     i <= writer;
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(p->arena, *tir_node_expr(n, k), check_load, &s);
    }
  }
  return !s.is_refused;
}

typedef struct operands {
  planner_t *p;
  uint32_t at;
  TD_VEC(const tir_value_t *) found;
} operands_t;

/* Operands that end here, each once. */
static void note_operand(void *user, tir_expr_t *e) {
  operands_t *o = user;
  if (e->op != TIR_X_LOAD) return;
  const planner_life_t *l = &o->p->lives[e->u.value->id];
  if (l->value == NULL || !l->is_stored || l->last != o->at ||
      l->first >= o->at) {
    return;
  }
  for (size_t i = 0; i < o->found.length; i++) {
    if (o->found.data[i] == e->u.value) return;
  }
  td_vec_push(o->p->arena, &o->found, e->u.value);
}

static void merge_kernel(planner_t *p, tir_node_t *const *nodes,
                         size_t count) {
  operands_t o = {.p = p, .at = planner_position(p, nodes[0])};
  for (size_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < tir_node_expr_count(nodes[i]); k++) {
      tir_walk(p->arena, *tir_node_expr(nodes[i], k), note_operand, &o);
    }
  }
  for (size_t w = count; w > 0; w--) {
    const tir_node_t *n = nodes[w - 1];
    if (n->kind != TIR_MAP || n->reduce != TIR_REDUCE_NONE) continue;
    const tir_value_t *out = n->outs[0];
    if (out->rank == 0 || !p->lives[out->id].is_stored) continue;
    for (size_t i = 0; i < o.found.length; i++) {
      const tir_value_t *v = o.found.data[i];
      if (v == NULL || !same_shape(v, out) ||
          !reads_in_place(p, nodes, count, w - 1, v)) {
        continue;
      }
      if (!merge(p, v->id, out->id, MEETING)) continue;
      o.found.data[i] = NULL; /* taken */
      break;
    }
  }
}

static void merge_maps(planner_t *p, const tir_block_t *block) {
  for (size_t i = 0; i < block->length;) {
    tir_node_t *n = block->data[i];
    size_t end = i + 1;
    while (end < block->length && n->group != 0 &&
           block->data[end]->group == n->group) {
      end++;
    }
    if (n->kind == TIR_LOOP) merge_maps(p, &n->body_nodes);
    if (n->kind == TIR_MAP) merge_kernel(p, &block->data[i], end - i);
    i = end;
  }
}

/* ---- slots --------------------------------------------------------------- */

static void start_sets(planner_t *p) {
  for (uint32_t i = 0; i < p->count; i++) {
    p->set_of[i] = i;
    p->sets[i].slot = -1;
    td_vec_push(p->arena, &p->sets[i].members, i);
  }
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    if (slot->value == NULL) continue;
    p->sets[slot->value->id].slot = (int32_t)s;
    p->sets[slot->value->id].is_fixed = slot->kind == TIR_IN;
  }
}

/* Results go where the caller wants them, if nothing else is there then. */
static void place_results(planner_t *p) {
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    if (slot->kind == TIR_INOUT) {
      (void)merge(p, slot->value->id, slot->result->id, APART);
    }
  }
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    if (slot->kind != TIR_OUT) continue;
    planner_set_t *set = &p->sets[p->set_of[slot->result->id]];
    if (set->slot < 0) set->slot = (int32_t)s;
  }
}

/* ---- buffers ------------------------------------------------------------- */

static planner_span_t span_of(const planner_t *p, const planner_set_t *set) {
  planner_span_t span = {UINT32_MAX, 0};
  for (size_t i = 0; i < set->members.length; i++) {
    const planner_life_t *l = &p->lives[set->members.data[i]];
    if (l->first < span.first) span.first = l->first;
    if (l->last > span.last) span.last = l->last;
  }
  return span;
}

static void add_set(planner_t *p, const tir_value_t *v) {
  uint32_t *buffer_of = p->layout->value_buffer;
  if (buffer_of[v->id] != PLANNER_NONE) return;
  const planner_set_t *set = &p->sets[p->set_of[v->id]];
  uint32_t b = planner_add_buffer(p, v, set->slot, span_of(p, set));
  for (size_t i = 0; i < set->members.length; i++) {
    buffer_of[set->members.data[i]] = b;
  }
}

/* The caller's memory first, in slot order, then by definition. */
static void make_buffers(planner_t *p) {
  p->layout->value_buffer = TD_NEW_ARRAY(p->arena, uint32_t, p->count + 1);
  for (uint32_t i = 0; i < p->count; i++) {
    p->layout->value_buffer[i] = PLANNER_NONE;
  }
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    if (slot->value != NULL) add_set(p, slot->value);
  }
  for (size_t i = 0; i < p->order.length; i++) {
    const planner_life_t *l = &p->lives[p->order.data[i]];
    if (l->is_stored) add_set(p, l->value);
  }
  /* an OUT slot whose result lies elsewhere has a buffer for the copy */
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    if (slot->kind != TIR_OUT) continue;
    uint32_t b = p->layout->value_buffer[slot->result->id];
    if (p->buffers.data[b].slot == (int32_t)s) continue;
    planner_span_t end = {p->position, p->position};
    (void)planner_add_buffer(p, slot->result, (int32_t)s, end);
  }
}

mem_layout_t *pass_plan_memory(td_task_t *task, td_arena_t *arena,
                               const tir_module_t *module,
                               const tir_func_t *func,
                               const pass_kernels_t *kernels, bool separate) {
  task->stage = "plan-memory";
  planner_t p = {.task = task, .arena = arena, .pool = module->pool,
                 .func = func, .count = func->value_count,
                 .separate = separate};
  p.layout = TD_NEW(arena, mem_layout_t);
  p.layout->func = func;
  td_map_init(&p.layout->update_copy, arena);
  td_map_init(&p.layout->loops, arena);
  td_map_init(&p.node_position, arena);
  td_map_init(&p.loop_head, arena);
  td_map_init(&p.group_position, arena);
  p.lives = TD_NEW_ARRAY(arena, planner_life_t, p.count + 1);
  p.sets = TD_NEW_ARRAY(arena, planner_set_t, p.count + 1);
  p.set_of = TD_NEW_ARRAY(arena, uint32_t, p.count + 1);
  planner_find_lives(&p, kernels);
  start_sets(&p);
  start_loops(&p, &func->nodes);
  merge_updates(&p, &func->nodes);
  if (!separate) merge_loops(&p, &func->nodes);
  if (!separate) place_results(&p);
  if (!separate) merge_maps(&p, &func->nodes);
  make_buffers(&p);
  planner_make_copies(&p);
  planner_place_buffers(&p);
  planner_report_large(&p);
  return p.layout;
}
