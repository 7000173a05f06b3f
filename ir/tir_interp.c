/* tir_interp.c: storage, lifetimes, loops and the entry of the interpreter.
 *
 * Storage is counted, so that a loop's init, its parameter and a result may
 * be one buffer, and an update whose target nobody reads again is made in
 * place.  A value dies after the last node of its own block that reads it,
 * directly or inside a nested block.
 *
 * Without this a loop that writes one row of a cache in each of a thousand
 * steps would copy the cache a thousand times.  With it, the buffer that the
 * caller passed for an `inout` slot is updated in place from the first step
 * to the last, as an engine would.
 *
 * Memory is loose memory of the task: whatever a failure leaves behind goes
 * with the task. */
#include "ir/tir_interp.h"

#include "ir/dtype.h"

/* ---- cells --------------------------------------------------------------- */

static uint64_t key_of(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

tir_cell_t *tir_cell(tir_interp_t *in, const tir_value_t *value) {
  return td_map_get_u64(&in->cells, key_of(value));
}

/* Also finds it: a loop's body is analysed once but run often. */
static tir_cell_t *cell_create(tir_interp_t *in, const tir_value_t *value,
                               uint32_t depth) {
  tir_cell_t *cell = tir_cell(in, value);
  if (cell != NULL) return cell;
  cell = TD_NEW(&in->arena, tir_cell_t);
  cell->depth = depth;
  td_map_put_u64(&in->cells, key_of(value), cell);
  return cell;
}

/* Dims and strides from the value's dims. */
static void cell_shape(tir_interp_t *in, tir_cell_t *cell,
                       const tir_value_t *value) {
  tir_tensor_t *t = &cell->tensor;
  t->dtype = value->dtype;
  t->rank = value->rank;
  cell->count = 1;
  for (uint32_t i = value->rank; i-- > 0;) {
    t->dims[i] = tir_extent(in, value->dims[i]);
    cell->strides[i] = cell->count;
    if (!td_mul_i64(cell->count, t->dims[i], &cell->count))
      td_raise(in->task, TDSL_STATUS_LIMIT, "%s is too big", value->name);
  }
}

void tir_cell_allocate(tir_interp_t *in, const tir_value_t *value) {
  tir_cell_t *cell = tir_cell(in, value);
  size_t bytes = 0;
  cell_shape(in, cell, value);
  if (!td_mul_size((size_t)cell->count,
                   tir_element_bytes(in->mode, value->dtype), &bytes))
    td_raise(in->task, TDSL_STATUS_LIMIT, "%s is too big", value->name);
  tir_memory_t *memory = td_alloc(in->task, sizeof *memory);
  memset(memory, 0, sizeof *memory);
  memory->references = 1;
  memory->data = td_alloc(in->task, bytes == 0 ? 1 : bytes);
  cell->memory = memory;
  cell->tensor.data = memory->data;
}

void tir_cell_share(tir_interp_t *in, tir_cell_t *to,
                    const tir_cell_t *from) {
  (void)in;
  from->memory->references++;
  to->tensor = from->tensor;
  memcpy(to->strides, from->strides, sizeof to->strides);
  to->count = from->count;
  to->memory = from->memory;
}

/* Idempotent, for lists of deaths may name what a loop took over. */
void tir_cell_release(tir_interp_t *in, tir_cell_t *cell) {
  tir_memory_t *memory = cell->memory;
  cell->memory = NULL;
  cell->tensor.data = NULL;
  if (memory == NULL || --memory->references > 0) return;
  if (memory->is_borrowed) return; /* the caller's, described in the arena */
  td_free(in->task, memory->data);
  td_free(in->task, memory);
}

/* ---- lifetimes ----------------------------------------------------------- */

typedef TD_VEC(const tir_node_t *) path_t;

typedef struct lifetimes {
  tir_interp_t *in;
  path_t path; /* node being looked at in each open block */
} lifetimes_t;

typedef struct deaths {
  TD_VEC(tir_cell_t *) cells;
} deaths_t;

/* The user is the node of the value's own block: what an inner block reads
 * must live until the whole inner block is done. */
static void note_read(lifetimes_t *lt, const tir_value_t *value) {
  tir_cell_t *cell = tir_cell(lt->in, value);
  TD_CHECK(lt->in->task, cell != NULL && cell->depth < lt->path.length,
           "%s is read where it is not defined", value->name);
  const tir_node_t *user = lt->path.data[cell->depth];
  if (cell->last_user != user) cell->is_read_inside = false;
  cell->last_user = user;
  if (lt->path.length > cell->depth + 1) cell->is_read_inside = true;
}

static void note_load(void *user, tir_expr_t *e) {
  if (e->op == TIR_X_LOAD) note_read(user, e->u.value);
}

/* An assert also reads what explains its failure, if that is still there. */
static void note_all(void *user, tir_expr_t *e) {
  lifetimes_t *lt = user;
  const tir_node_t *all = tir_asserted_all(e);
  if (all == NULL || tir_cell(lt->in, e->u.value)->depth + 1 != lt->path.length)
    return;
  td_arena_t scratch;
  td_arena_init(&scratch, lt->in->task);
  tir_walk(&scratch, all->body, note_load, lt);
  if (all->guard != NULL) tir_walk(&scratch, all->guard, note_load, lt);
  td_arena_free_all(&scratch);
}

static void note_block(lifetimes_t *lt, const tir_block_t *nodes);

/* Reads first, then what the node defines: a value that nobody reads dies
 * with the node that made it. */
static void note_node(lifetimes_t *lt, tir_node_t *node) {
  tir_interp_t *in = lt->in;
  uint32_t depth = (uint32_t)lt->path.length - 1;
  td_arena_t scratch;
  td_arena_init(&scratch, in->task);
  for (uint32_t i = 0; i < tir_node_expr_count(node); i++)
    tir_walk(&scratch, *tir_node_expr(node, i), note_load, lt);
  if (node->kind == TIR_ASSERT)
    tir_walk(&scratch, node->body, note_all, lt);
  td_arena_free_all(&scratch);
  for (uint32_t i = 0; i < node->operand_count; i++)
    note_read(lt, node->operands[i]);
  if (node->kind == TIR_LOOP) {
    cell_create(in, node->iv, depth + 1)->is_kept = true;
    for (uint32_t i = 0; i < node->operand_count; i++)
      (void)cell_create(in, node->params[i], depth + 1);
    note_block(lt, &node->body_nodes);
    for (uint32_t i = 0; i < node->operand_count; i++)
      tir_cell(in, node->yields[i])->is_kept = true;
  }
  for (uint32_t i = 0; i < node->out_count; i++)
    cell_create(in, node->outs[i], depth)->last_user = node;
}

static void note_block(lifetimes_t *lt, const tir_block_t *nodes) {
  td_vec_push(&lt->in->arena, &lt->path, NULL);
  for (size_t i = 0; i < nodes->length; i++) {
    td_vec_last(&lt->path) = nodes->data[i];
    note_node(lt, nodes->data[i]);
  }
  (void)td_vec_pop(&lt->path);
}

/* Inverts last_user: for each node, the cells to release after it. */
static void find_deaths(tir_interp_t *in) {
  for (size_t i = 0; i < in->cells.length; i++) {
    tir_cell_t *cell = in->cells.entries[i].value;
    if (cell->is_kept || cell->last_user == NULL) continue;
    uint64_t key = key_of(cell->last_user);
    deaths_t *deaths = td_map_get_u64(&in->deaths, key);
    if (deaths == NULL) {
      deaths = TD_NEW(&in->arena, deaths_t);
      td_map_put_u64(&in->deaths, key, deaths);
    }
    td_vec_push(&in->arena, &deaths->cells, cell);
  }
  /* A kept value outlives every node. */
  for (size_t i = 0; i < in->cells.length; i++) {
    tir_cell_t *cell = in->cells.entries[i].value;
    if (cell->is_kept) cell->last_user = NULL;
  }
}

/* ---- loops --------------------------------------------------------------- */

static bool run_block(tir_interp_t *in, const tir_block_t *nodes);

/* Parameters take over the inits. An init that dies with this loop and is
 * not read inside leaves its own cell, so that the body may update it in
 * place. */
static void enter_loop(tir_interp_t *in, const tir_node_t *node,
                       tir_cell_t *carried) {
  for (uint32_t i = 0; i < node->operand_count; i++)
    tir_cell_share(in, &carried[i], tir_cell(in, node->operands[i]));
  for (uint32_t i = 0; i < node->operand_count; i++) {
    tir_cell_t *init = tir_cell(in, node->operands[i]);
    if (init->last_user == node && !init->is_read_inside)
      tir_cell_release(in, init);
  }
}

/* A yield may be a value from outside the loop, which lives on. */
static void release_inner(tir_interp_t *in, const tir_node_t *node,
                          const tir_value_t *value) {
  tir_cell_t *cell = tir_cell(in, value);
  if (cell->depth == tir_cell(in, node->iv)->depth) tir_cell_release(in, cell);
}

/* A new scope: every value of the body is made anew and gone at the end,
 * except what was yielded. */
static bool run_iteration(tir_interp_t *in, const tir_node_t *node,
                          int64_t at, tir_cell_t *carried) {
  tir_cell_t *iv = tir_cell(in, node->iv);
  tir_cell_allocate(in, node->iv);
  memcpy(iv->tensor.data, &at, sizeof at);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    tir_cell_share(in, tir_cell(in, node->params[i]), &carried[i]);
    tir_cell_release(in, &carried[i]);
  }
  if (!run_block(in, &node->body_nodes)) return false;
  for (uint32_t i = 0; i < node->operand_count; i++)
    tir_cell_share(in, &carried[i], tir_cell(in, node->yields[i]));
  release_inner(in, node, node->iv);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    release_inner(in, node, node->params[i]);
    release_inner(in, node, node->yields[i]);
  }
  return true;
}

static bool run_loop(tir_interp_t *in, const tir_node_t *node) {
  tir_scalar_t lo, hi;
  if (!tir_eval_scalar(in, node->lo, &lo)) return false;
  if (!tir_eval_scalar(in, node->hi, &hi)) return false;
  td_arena_t arena;
  td_arena_init(&arena, in->task);
  tir_cell_t *carried =
      TD_NEW_ARRAY(&arena, tir_cell_t, node->operand_count);
  enter_loop(in, node, carried);
  bool ok = true;
  for (int64_t at = lo.i64; ok && at < hi.i64; at++)
    ok = run_iteration(in, node, at, carried);
  for (uint32_t i = 0; ok && i < node->out_count; i++) {
    tir_cell_share(in, tir_cell(in, node->outs[i]), &carried[i]);
    tir_cell_release(in, &carried[i]);
  }
  td_arena_free_all(&arena);
  return ok;
}

/* ---- blocks -------------------------------------------------------------- */

/* No `default:`: a kind without a meaning does not build. */
static bool run_node(tir_interp_t *in, const tir_node_t *node) {
  switch (node->kind) {
  case TIR_MAP: return tir_run_map(in, node);
  case TIR_UPDATE: return tir_run_update(in, node);
  case TIR_TOPK: return tir_run_topk(in, node);
  case TIR_LOOP: return run_loop(in, node);
  case TIR_ASSERT:
    if (!in->is_checked && !in->func->is_test) return true;
    return tir_run_assert(in, node);
  case TIR_KIND_COUNT: break;
  }
  TD_ICE(in->task, "unknown kind of node");
}

static bool run_block(tir_interp_t *in, const tir_block_t *nodes) {
  for (size_t i = 0; i < nodes->length; i++) {
    td_task_poll(in->task);
    if (!run_node(in, nodes->data[i])) return false;
    const deaths_t *deaths =
        td_map_get_u64(&in->deaths, key_of(nodes->data[i]));
    for (size_t k = 0; deaths != NULL && k < deaths->cells.length; k++)
      if (deaths->cells.data[k]->memory != NULL)
        tir_cell_release(in, deaths->cells.data[k]);
  }
  return true;
}

/* ---- entry --------------------------------------------------------------- */

/* Binds a slot's value to the caller's tensor, which must have its type. */
static void bind_slot(tir_interp_t *in, const tir_slot_t *slot,
                      const tir_tensor_t *tensor) {
  const tir_value_t *value = slot->value;
  tir_cell_t *cell = tir_cell(in, value);
  cell_shape(in, cell, value);
  bool same = tensor->dtype == value->dtype && tensor->rank == value->rank;
  for (uint32_t i = 0; same && i < value->rank; i++)
    same = tensor->dims[i] == cell->tensor.dims[i];
  TD_CHECK(in->task, same && (tensor->data != NULL || cell->count == 0),
           "the tensor for %s has another type", slot->name);
  tir_memory_t *memory = TD_NEW(&in->arena, tir_memory_t);
  memory->references = 1;
  memory->is_borrowed = true;
  memory->is_writable = slot->kind == TIR_INOUT;
  memory->data = tensor->data;
  cell->memory = memory;
  cell->tensor.data = tensor->data;
}

static size_t cell_bytes(const tir_interp_t *in, const tir_cell_t *cell) {
  return (size_t)cell->count * tir_element_bytes(in->mode, cell->tensor.dtype);
}

/* Results go to the caller's buffers only after all of them are known, and a
 * result that lies in another inout buffer is set aside first. */
static void give_results(tir_interp_t *in, td_arena_t *arena,
                         tir_tensor_t *tensors) {
  const tir_func_t *func = in->func;
  const void **from = TD_NEW_ARRAY(&in->arena, const void *, func->slot_count);
  for (uint32_t i = 0; i < func->slot_count; i++) {
    const tir_slot_t *slot = &func->slots[i];
    if (slot->kind == TIR_IN) continue;
    const tir_cell_t *cell = tir_cell(in, slot->result);
    size_t bytes = cell_bytes(in, cell);
    from[i] = cell->tensor.data;
    bool is_elsewhere = cell->memory->is_borrowed &&
                        (slot->kind == TIR_OUT || from[i] != tensors[i].data);
    if (slot->kind == TIR_OUT || is_elsewhere) {
      void *copy = td_arena_alloc(arena, bytes);
      if (bytes > 0) memcpy(copy, from[i], bytes);
      from[i] = copy;
    }
  }
  for (uint32_t i = 0; i < func->slot_count; i++) {
    const tir_slot_t *slot = &func->slots[i];
    if (slot->kind == TIR_IN) continue;
    const tir_cell_t *cell = tir_cell(in, slot->result);
    if (slot->kind == TIR_OUT) {
      tensors[i] = cell->tensor;
      tensors[i].data = (void *)(uintptr_t)from[i];
    } else if (from[i] != tensors[i].data && cell->count > 0) {
      memcpy(tensors[i].data, from[i], cell_bytes(in, cell));
    }
  }
}

/* After a report some values are still alive; loops may hold more, which
 * goes with the task. */
static void release_all(tir_interp_t *in) {
  for (size_t i = 0; i < in->cells.length; i++) {
    tir_cell_t *cell = in->cells.entries[i].value;
    if (cell->memory != NULL && !cell->memory->is_borrowed)
      tir_cell_release(in, cell);
  }
}

bool tir_interpret(td_task_t *task, td_arena_t *arena,
                   const tir_module_t *module, const tir_func_t *func,
                   const int64_t *dim_values, tir_tensor_t *tensors,
                   const tir_interp_options_t *options) {
  tir_interp_t in = {.task = task,
                     .func = func,
                     .dim_values = dim_values,
                     .mode = options->mode,
                     .is_checked = options->checks >= 2,
                     .is_reversed = options->order_reversed};
  (void)module;
  td_arena_init(&in.arena, task);
  td_map_init(&in.cells, &in.arena);
  td_map_init(&in.deaths, &in.arena);
  lifetimes_t lt = {.in = &in};
  for (uint32_t i = 0; i < func->slot_count; i++)
    if (func->slots[i].value != NULL)
      (void)cell_create(&in, func->slots[i].value, 0);
  note_block(&lt, &func->nodes);
  for (uint32_t i = 0; i < func->slot_count; i++)
    if (func->slots[i].result != NULL)
      tir_cell(&in, func->slots[i].result)->is_kept = true;
  find_deaths(&in);
  for (uint32_t i = 0; i < func->slot_count; i++)
    if (func->slots[i].value != NULL)
      bind_slot(&in, &func->slots[i], &tensors[i]);
  bool ok = run_block(&in, &func->nodes);
  if (ok) give_results(&in, arena, tensors);
  release_all(&in);
  td_arena_free_all(&in.arena);
  return ok;
}
