/* plan_memory.c: which values share storage, and where it lies.
 *
 * Does: merges values into buffers (updates in place, carried values of
 *   loops, results in the caller's memory), notes the copies where that
 *   cannot be, and gives the rest offsets in an arena with reuse.
 * Needs: renumbered TIR, grouped.
 * Guarantees: two values of one buffer, and two buffers of one place, never
 *   live at the same time.
 * Class: bitwise.
 * Ends because: one pass over values and one over buffers.
 * Ledgers: capacity.
 *
 * Positions number the steps in text order; a loop has one for its head and
 * one for its end.  A value lives from the position that defines it to the
 * last that reads it; a read inside a loop of a value from outside lasts to
 * the loop's end.  Values are merged if their lives are disjoint, or touch
 * at one position where the pair is known to be safe (an update that reads
 * its target only where it writes; a loop's head and end). */
#include "passes/plan/plan_memory.h"

#include "passes/tile/update.h"
#include "runtime/base/num.h"

enum { NONE = UINT32_MAX };

typedef struct life {
  const tir_value_t *value;
  uint32_t first, last;
  uint32_t loop_end; /* of the innermost loop that defines it; 0: none */
  uint32_t parent;   /* union-find over value ids */
  int32_t slot;      /* caller's memory; -1: none */
  bool is_fixed;     /* an IN slot: must not be written */
  bool has_storage;
} life_t;

typedef struct planner {
  td_task_t *task;
  td_arena_t *arena;
  ix_pool_t *pool;
  const tir_func_t *func;
  life_t *lives; /* by value id */
  uint32_t count;
  uint32_t position;
  uint32_t loop_head; /* of the innermost loop being numbered; 0: none */
  uint32_t loop_end;
  TD_VEC(uint32_t) order; /* value ids by definition */
  td_map_t node_position; /* node -> position of it (loop: of its end) */
  td_map_t node_head;     /* loop -> position of its head */
  mem_layout_t *layout;
  bool separate;
} planner_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static void *as_pointer(uint32_t n) {
  return (void *)(uintptr_t)(n + 1);
}

static uint32_t as_number(const void *p) {
  return (uint32_t)(uintptr_t)p - 1;
}

/* ---- lives ---------------------------------------------------------------- */

static void define(planner_t *p, const tir_value_t *v, uint32_t at) {
  life_t *l = &p->lives[v->id];
  l->value = v;
  l->first = l->last = at;
  l->loop_end = p->loop_end;
  td_vec_push(p->arena, &p->order, v->id);
}

static void use(planner_t *p, const tir_value_t *v, uint32_t at) {
  life_t *l = &p->lives[v->id];
  if (l->value == NULL) return;
  /* read in a deeper loop than the one that defines it: needed by every
   * iteration; loop ends nest, so the outermost such end is wanted, and it
   * is set when that loop closes (close_loop) */
  if (at > l->last) l->last = at;
}

static void use_load(void *user, tir_expr_t *e) {
  planner_t *p = user;
  if (e->op == TIR_X_LOAD) use(p, e->u.value, p->position);
}

static void number_block(planner_t *p, const tir_block_t *block);

/* Values from before the loop that its body reads live to its end. */
static void close_loop(planner_t *p, uint32_t head, uint32_t end) {
  for (uint32_t i = 0; i < p->count; i++) {
    life_t *l = &p->lives[i];
    if (l->value != NULL && l->first < head && l->last > head &&
        l->last < end) {
      l->last = end;
    }
  }
}

static void number_loop(planner_t *p, tir_node_t *n) {
  uint32_t head = p->position;
  td_map_put_u64(&p->node_head, key_of(n), as_pointer(head));
  uint32_t outer = p->loop_end;
  p->loop_end = 1; /* inside some loop */
  define(p, n->iv, head);
  for (uint32_t i = 0; i < n->operand_count; i++) {
    define(p, n->params[i], head);
  }
  p->position++;
  number_block(p, &n->body_nodes);
  uint32_t end = p->position;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    use(p, n->yields[i], end);
  }
  close_loop(p, head, end);
  p->loop_end = outer;
  for (uint32_t i = 0; i < n->out_count; i++) define(p, n->outs[i], end);
  td_map_put_u64(&p->node_position, key_of(n), as_pointer(end));
}

static void number_block(planner_t *p, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    /* nodes of one kernel share a position: they read and write at once */
    bool joins = i > 0 && n->group != 0 &&
                 block->data[i - 1]->group == n->group;
    if (!joins) p->position++;
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
    td_map_put_u64(&p->node_position, key_of(n), as_pointer(p->position));
    for (uint32_t k = 0; k < n->out_count; k++) {
      define(p, n->outs[k], p->position);
    }
  }
}

/* ---- merging ----------------------------------------------------------------- */

static uint32_t root_of(planner_t *p, uint32_t id) {
  while (p->lives[id].parent != id) {
    p->lives[id].parent = p->lives[p->lives[id].parent].parent;
    id = p->lives[id].parent;
  }
  return id;
}

/* Whether a and b, of different buffers, may be one.  `touch`: the position
 * at which the one may end and the other begin. */
static bool are_disjoint(const life_t *a, const life_t *b, uint32_t touch) {
  if (a->last < b->first || b->last < a->first) return true;
  if (a->last == b->first && a->last == touch) return true;
  return b->last == a->first && b->last == touch;
}

static bool same_shape(const tir_value_t *a, const tir_value_t *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (uint32_t d = 0; d < a->rank; d++) {
    if (a->dims[d] != b->dims[d]) return false;
  }
  return true;
}

/* Puts a and b into one buffer if every pair of their members allows it. */
static bool merge(planner_t *p, uint32_t a, uint32_t b, uint32_t touch) {
  uint32_t ra = root_of(p, a), rb = root_of(p, b);
  if (ra == rb) return true;
  life_t *la = &p->lives[ra], *lb = &p->lives[rb];
  if (!same_shape(la->value, lb->value)) return false;
  if (la->is_fixed || lb->is_fixed) return false;
  if (la->slot >= 0 && lb->slot >= 0) return false;
  for (uint32_t i = 0; i < p->count; i++) {
    if (p->lives[i].value == NULL || root_of(p, i) != ra) continue;
    for (uint32_t j = 0; j < p->count; j++) {
      if (p->lives[j].value == NULL || root_of(p, j) != rb) continue;
      if (!are_disjoint(&p->lives[i], &p->lives[j], touch)) return false;
    }
  }
  lb->parent = ra;
  if (la->slot < 0) la->slot = lb->slot;
  la->has_storage |= lb->has_storage;
  return true;
}

static void merge_updates(planner_t *p, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) merge_updates(p, &n->body_nodes);
    if (n->kind != TIR_UPDATE) continue;
    uint32_t at = as_number(td_map_get_u64(&p->node_position, key_of(n)));
    bool ok = !tile_update_reads_elsewhere(p->arena, n) &&
              merge(p, n->operands[0]->id, n->outs[0]->id, at);
    if (ok) continue;
    mem_copy_t *copy = TD_NEW(p->arena, mem_copy_t);
    copy->to = n->outs[0]->id;
    copy->from = n->operands[0]->id;
    td_map_put_u64(&p->layout->update_copy, key_of(n), copy);
  }
}

/* param and out are always one buffer; init and yield join if they can. */
static void merge_loops(planner_t *p, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind != TIR_LOOP) continue;
    uint32_t head = as_number(td_map_get_u64(&p->node_head, key_of(n)));
    uint32_t end = as_number(td_map_get_u64(&p->node_position, key_of(n)));
    mem_loop_t *loop = TD_NEW(p->arena, mem_loop_t);
    loop->node = n;
    td_map_put_u64(&p->layout->loops, key_of(n), loop);
    for (uint32_t k = 0; k < n->operand_count; k++) {
      uint32_t param = n->params[k]->id;
      TD_CHECK(p->task, merge(p, param, n->outs[k]->id, end),
               "carried value %s has two shapes", n->params[k]->name);
      (void)merge(p, n->operands[k]->id, param, head);
      (void)merge(p, n->yields[k]->id, param, end);
    }
    merge_loops(p, &n->body_nodes);
  }
}

/* ---- slots ---------------------------------------------------------------------- */

static void place_slots(planner_t *p) {
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    if (slot->value == NULL) continue;
    life_t *l = &p->lives[slot->value->id];
    l->value = slot->value;
    l->slot = (int32_t)s;
    l->is_fixed = slot->kind == TIR_IN;
    l->has_storage = true;
  }
}

static void place_results(planner_t *p) {
  uint32_t end = p->position + 1;
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    if (slot->kind == TIR_INOUT &&
        root_of(p, slot->value->id) != root_of(p, slot->result->id)) {
      (void)merge(p, slot->value->id, slot->result->id, 0);
    }
  }
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    if (slot->kind != TIR_OUT) continue;
    life_t *l = &p->lives[root_of(p, slot->result->id)];
    if (l->slot < 0 && !l->is_fixed) l->slot = (int32_t)s;
  }
  (void)end;
}

/* ---- buffers --------------------------------------------------------------------- */

static const ix_poly_t *align_up(planner_t *p, const ix_poly_t *bytes) {
  const ix_poly_t *line = ix_const(p->pool, 64);
  const ix_poly_t *sum = ix_add(p->pool, bytes, ix_const(p->pool, 63));
  return ix_mul(p->pool, ix_div(p->pool, sum, line, NULL), line);
}

static void fill_buffer(planner_t *p, mem_buffer_t *b, const tir_value_t *v,
                        int32_t slot) {
  b->name = v->name;
  b->dtype = v->dtype;
  b->rank = v->rank;
  b->slot = slot;
  b->is_used = true;
  const ix_poly_t *bytes =
      ix_const(p->pool, (int64_t)td_dtype_bytes(v->dtype));
  for (uint32_t d = 0; d < v->rank; d++) {
    b->dims[d] = v->dims[d];
    bytes = ix_mul(p->pool, bytes, v->dims[d]);
  }
  if (bytes == NULL) {
    td_raise(p->task, TDSL_STATUS_LIMIT, "the size of %s leaves 64 bits",
             v->name);
  }
  b->bytes = bytes;
}

/* a >= b for all dims >= 0: every coefficient of the difference is. */
static bool is_at_least(planner_t *p, const ix_poly_t *a, const ix_poly_t *b) {
  const ix_poly_t *d = ix_sub(p->pool, a, b);
  for (uint32_t i = 0; d != NULL && i < d->term_count; i++) {
    if (d->terms[i].coefficient < 0) return false;
  }
  return d != NULL;
}

/* A stretch of the arena, used by buffers that live one after another. */
typedef struct region {
  const ix_poly_t *bytes;
  uint32_t busy_until; /* last position of its present buffer */
} region_t;

typedef struct pending {
  uint32_t buffer, first, last;
} pending_t;

typedef TD_VEC(pending_t) pendings_t;
typedef TD_VEC(region_t) regions_t;

/* Best region that is free at `first`: an equal one, else one that is larger,
 * else one that may grow. NONE: open another. */
static uint32_t find_region(planner_t *p, const regions_t *regions,
                            const ix_poly_t *bytes, uint32_t first) {
  uint32_t larger = NONE, smaller = NONE;
  for (uint32_t r = 0; r < regions->length; r++) {
    const region_t *region = &regions->data[r];
    if (region->busy_until >= first || p->separate) continue;
    if (region->bytes == bytes) return r;
    if (larger == NONE && is_at_least(p, region->bytes, bytes)) larger = r;
    if (smaller == NONE && is_at_least(p, bytes, region->bytes)) smaller = r;
  }
  return larger != NONE ? larger : smaller;
}

static void assign_offsets(planner_t *p, pendings_t *pending) {
  regions_t regions = {0};
  uint32_t *where = TD_NEW_ARRAY(p->arena, uint32_t,
                                 p->layout->buffer_count + 1);
  for (size_t i = 0; i < pending->length; i++) {
    pending_t *n = &pending->data[i];
    const ix_poly_t *bytes =
        align_up(p, p->layout->buffers[n->buffer].bytes);
    uint32_t r = find_region(p, &regions, bytes, n->first);
    if (r == NONE) {
      region_t fresh = {bytes, 0};
      r = (uint32_t)regions.length;
      td_vec_push(p->arena, &regions, fresh);
    } else if (!is_at_least(p, regions.data[r].bytes, bytes)) {
      regions.data[r].bytes = bytes;
    }
    regions.data[r].busy_until = n->last;
    where[n->buffer] = r;
  }
  const ix_poly_t **starts =
      TD_NEW_ARRAY(p->arena, const ix_poly_t *, regions.length + 1);
  const ix_poly_t *at = ix_const(p->pool, 0);
  for (size_t r = 0; r < regions.length; r++) {
    starts[r] = at;
    at = ix_add(p->pool, at, regions.data[r].bytes);
  }
  for (size_t i = 0; i < pending->length; i++) {
    uint32_t b = pending->data[i].buffer;
    p->layout->buffers[b].offset = starts[where[b]];
  }
  p->layout->arena_bytes = at;
}

/* One buffer for each root; then lives of buffers, in order of birth. */
static void make_buffers(planner_t *p, const bool *crosses) {
  mem_layout_t *layout = p->layout;
  layout->value_buffer = TD_NEW_ARRAY(p->arena, uint32_t, p->count + 1);
  layout->buffers = TD_NEW_ARRAY(p->arena, mem_buffer_t, p->count * 2 + 1);
  pending_t *spans = TD_NEW_ARRAY(p->arena, pending_t, p->count + 1);
  uint32_t *of_root = TD_NEW_ARRAY(p->arena, uint32_t, p->count + 1);
  for (uint32_t i = 0; i < p->count; i++) {
    of_root[i] = layout->value_buffer[i] = NONE;
  }
  /* the caller's memory first, in slot order, then by definition */
  TD_VEC(uint32_t) ids = {0};
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    const tir_value_t *v = slot->value != NULL ? slot->value : slot->result;
    td_vec_push(p->arena, &ids, v->id);
  }
  for (size_t i = 0; i < p->order.length; i++) {
    td_vec_push(p->arena, &ids, p->order.data[i]);
  }
  for (size_t i = 0; i < ids.length; i++) {
    uint32_t id = ids.data[i];
    life_t *l = &p->lives[id];
    if (l->value == NULL || layout->value_buffer[id] != NONE) continue;
    if (!l->has_storage && !crosses[id]) continue;
    uint32_t root = root_of(p, id);
    life_t *r = &p->lives[root];
    if (of_root[root] == NONE) {
      of_root[root] = layout->buffer_count++;
      spans[of_root[root]] = (pending_t){of_root[root], l->first, l->last};
      fill_buffer(p, &layout->buffers[of_root[root]], l->value, r->slot);
    }
    pending_t *span = &spans[of_root[root]];
    if (l->first < span->first) span->first = l->first;
    if (l->last > span->last) span->last = l->last;
    layout->value_buffer[id] = of_root[root];
  }
  pendings_t pending = {0};
  for (uint32_t b = 0; b < layout->buffer_count; b++) {
    if (layout->buffers[b].slot < 0) {
      td_vec_push(p->arena, &pending, spans[b]);
    }
  }
  /* insertion sort by birth: few hundred buffers, nearly sorted */
  for (size_t i = 1; i < pending.length; i++) {
    pending_t x = pending.data[i];
    size_t j = i;
    for (; j > 0 && pending.data[j - 1].first > x.first; j--) {
      pending.data[j] = pending.data[j - 1];
    }
    pending.data[j] = x;
  }
  assign_offsets(p, &pending);
}

/* ---- copies ------------------------------------------------------------------------ */

static uint32_t buffer_of(planner_t *p, const tir_value_t *v) {
  uint32_t b = p->layout->value_buffer[v->id];
  TD_CHECK(p->task, b != NONE, "value %s has no storage", v->name);
  return b;
}

/* At the end of an iteration all carried values change at once: a yield
 * that lies in the buffer of another carried value goes through a buffer of
 * its own. */
static void loop_copies(planner_t *p, mem_loop_t *loop) {
  const tir_node_t *n = loop->node;
  mem_copies_t late = {0};
  for (uint32_t k = 0; k < n->operand_count; k++) {
    uint32_t param = buffer_of(p, n->params[k]);
    uint32_t init = buffer_of(p, n->operands[k]);
    uint32_t yield = buffer_of(p, n->yields[k]);
    if (init != param) {
      mem_copy_t c = {param, init};
      td_vec_push(p->arena, &loop->before, c);
    }
    if (yield == param) continue;
    bool is_other_param = false;
    for (uint32_t j = 0; j < n->operand_count; j++) {
      is_other_param |= j != k && buffer_of(p, n->params[j]) == yield;
    }
    mem_copy_t c = {param, yield};
    if (is_other_param) {
      uint32_t temp = p->layout->buffer_count++;
      mem_buffer_t *b = &p->layout->buffers[temp];
      fill_buffer(p, b, n->params[k], -1);
      b->offset = p->layout->arena_bytes;
      p->layout->arena_bytes = ix_add(p->pool, p->layout->arena_bytes,
                                      align_up(p, b->bytes));
      mem_copy_t save = {temp, yield};
      td_vec_push(p->arena, &loop->after, save);
      c.from = temp;
    }
    td_vec_push(p->arena, &late, c);
  }
  for (size_t i = 0; i < late.length; i++) {
    td_vec_push(p->arena, &loop->after, late.data[i]);
  }
}

static void make_copies(planner_t *p) {
  mem_layout_t *layout = p->layout;
  for (size_t i = 0; i < layout->loops.length; i++) {
    loop_copies(p, layout->loops.entries[i].value);
  }
  for (size_t i = 0; i < layout->update_copy.length; i++) {
    mem_copy_t *c = layout->update_copy.entries[i].value;
    c->to = layout->value_buffer[c->to];
    c->from = layout->value_buffer[c->from];
  }
  for (uint32_t s = 0; s < p->func->slot_count; s++) {
    const tir_slot_t *slot = &p->func->slots[s];
    if (slot->kind == TIR_IN) continue;
    uint32_t from = buffer_of(p, slot->result);
    if (layout->buffers[from].slot == (int32_t)s) continue;
    uint32_t to = NONE;
    if (slot->kind == TIR_INOUT) {
      to = buffer_of(p, slot->value);
    } else {
      to = layout->buffer_count++;
      fill_buffer(p, &layout->buffers[to], slot->result, (int32_t)s);
    }
    mem_copy_t c = {to, from};
    td_vec_push(p->arena, &layout->last, c);
  }
}

mem_layout_t *pass_plan_memory(td_task_t *task, td_arena_t *arena,
                               const tir_module_t *module,
                               const tir_func_t *func, const bool *crosses,
                               bool separate) {
  planner_t p = {.task = task, .arena = arena, .pool = module->pool,
                 .func = func, .count = func->value_count,
                 .separate = separate};
  p.layout = TD_NEW(arena, mem_layout_t);
  p.layout->func = func;
  td_map_init(&p.layout->update_copy, arena);
  td_map_init(&p.layout->loops, arena);
  td_map_init(&p.node_position, arena);
  td_map_init(&p.node_head, arena);
  p.lives = TD_NEW_ARRAY(arena, life_t, p.count + 1);
  for (uint32_t i = 0; i < p.count; i++) {
    p.lives[i].parent = i;
    p.lives[i].slot = -1;
  }
  place_slots(&p);
  number_block(&p, &func->nodes);
  uint32_t end = p.position + 1;
  for (uint32_t s = 0; s < func->slot_count; s++) {
    if (func->slots[s].result != NULL) {
      use(&p, func->slots[s].result, end);
    }
  }
  merge_updates(&p, &func->nodes);
  merge_loops(&p, &func->nodes);
  place_results(&p);
  make_buffers(&p, crosses);
  make_copies(&p);
  return p.layout;
}
