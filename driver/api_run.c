/* api_run.c: run states: arguments, the call itself, what it left. */
#include "driver/api.h"

#include "runtime/base/num.h"

static const plan_entry_t *entry_of(const tdsl_run_t *run) {
  return &run->exe->program->plans[run->exe->index];
}

static drv_call_t frame_of(const tdsl_run_t *run) {
  const tdsl_program_t *program = run->exe->program;
  drv_call_t call = {.context = program->context, .sources = &program->task};
  return call;
}

void drv_arg_set(drv_arg_t *arg, tdsl_buffer_t *buffer) {
  tdsl_buffer_release(arg->buffer);
  arg->buffer = buffer;
  arg->has_scalar = false;
}

/* ---- life ------------------------------------------------------------------- */

typedef struct run_call {
  tdsl_run_t *run;
  uint32_t slot;
  tdsl_buffer_t *buffer;
  bool is_real;
  int64_t integer;
  double real;
} run_call_t;

static void create_work(td_task_t *task, void *arg) {
  tdsl_run_t *run = arg;
  const plan_entry_t *e = entry_of(run);
  td_arena_init(&run->arena, task);
  run->args = TD_NEW_ARRAY(&run->arena, drv_arg_t, e->slot_count + 1);
  run->results =
      TD_NEW_ARRAY(&run->arena, tdsl_buffer_t *, e->slot_count + 1);
  run->dims = TD_NEW_ARRAY(&run->arena, int64_t, e->var_count + 1);
  td_arena_detach(&run->arena);
}

tdsl_status_t tdsl_run_create(tdsl_executable_t *exe, tdsl_run_t **out_run,
                              tdsl_error_t **out_error) {
  tdsl_context_t *context = exe->program->context;
  *out_run = NULL;
  tdsl_run_t *run = drv_alloc(context, sizeof *run);
  if (run == NULL) {
    return drv_refuse(context, TDSL_STATUS_OUT_OF_MEMORY, "out of memory",
                      out_error);
  }
  run->exe = exe;
  drv_call_t call = frame_of(run);
  tdsl_status_t status = drv_call(&call, create_work, run, out_error);
  if (status != TDSL_STATUS_OK) {
    drv_free(context, run, sizeof *run);
    return status;
  }
  tdsl_executable_retain(exe);
  *out_run = run;
  return status;
}

void tdsl_run_destroy(tdsl_run_t *run) {
  if (run == NULL) return;
  tdsl_context_t *context = run->exe->program->context;
  const plan_entry_t *e = entry_of(run);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    tdsl_buffer_release(run->args[s].buffer);
    tdsl_buffer_release(run->results[s]);
  }
  td_task_t task;
  td_task_init(&task, &context->host);
  td_arena_attach(&run->arena, &task);
  td_task_free(&task);
  drv_context_retain(context);
  tdsl_executable_release(run->exe);
  drv_free(context, run, sizeof *run);
  drv_context_release(context);
}

/* ---- arguments ---------------------------------------------------------------- */

static const plan_slot_t *slot_at(td_task_t *task, const run_call_t *c) {
  const plan_entry_t *e = entry_of(c->run);
  if (c->slot >= e->slot_count) {
    td_diag(task, TD_R07, e->loc, "%s has no slot number %u", e->name,
            c->slot);
    return NULL;
  }
  return &e->slots[c->slot];
}

static void set_buffer_work(td_task_t *task, void *arg) {
  run_call_t *c = arg;
  if (slot_at(task, c) == NULL) return;
  tdsl_buffer_retain(c->buffer);
  drv_arg_set(&c->run->args[c->slot], c->buffer);
}

tdsl_status_t tdsl_run_set_buffer(tdsl_run_t *run, uint32_t slot,
                                  tdsl_buffer_t *buffer,
                                  tdsl_error_t **out_error) {
  run_call_t c = {.run = run, .slot = slot, .buffer = buffer};
  drv_call_t call = frame_of(run);
  return drv_call(&call, set_buffer_work, &c, out_error);
}

static void set_scalar_work(td_task_t *task, void *arg) {
  run_call_t *c = arg;
  const plan_slot_t *slot = slot_at(task, c);
  if (slot == NULL) return;
  if (slot->rank > 0 || slot->kind != PLAN_IN) {
    td_diag(task, TD_R07, slot->loc, "%s: a buffer is wanted", slot->name);
    return;
  }
  drv_arg_t *to = &c->run->args[c->slot];
  bool is_float = td_dtype_is_float(slot->dtype);
  if (c->is_real && !is_float) {
    td_diag(task, TD_R07, slot->loc, "%s: is %s, not a float", slot->name,
            td_dtype_name(slot->dtype));
    return;
  }
  bool fits = is_float || (c->integer >= td_dtype_min(slot->dtype) &&
                           c->integer <= td_dtype_max(slot->dtype));
  if (!fits) {
    td_diag(task, TD_R07, slot->loc, "%s: %lld is no value of type %s",
            slot->name, (long long)c->integer, td_dtype_name(slot->dtype));
    return;
  }
  drv_arg_set(to, NULL);
  if (c->is_real) td_store_f64(slot->dtype, to->scalar, c->real);
  else td_store_i64(slot->dtype, to->scalar, c->integer);
  to->has_scalar = true;
}

tdsl_status_t tdsl_run_set_int(tdsl_run_t *run, uint32_t slot, int64_t value,
                               tdsl_error_t **out_error) {
  run_call_t c = {.run = run, .slot = slot, .integer = value};
  drv_call_t call = frame_of(run);
  return drv_call(&call, set_scalar_work, &c, out_error);
}

tdsl_status_t tdsl_run_set_float(tdsl_run_t *run, uint32_t slot, double value,
                                 tdsl_error_t **out_error) {
  run_call_t c = {
      .run = run, .slot = slot, .is_real = true, .real = value};
  drv_call_t call = frame_of(run);
  return drv_call(&call, set_scalar_work, &c, out_error);
}

/* ---- the call ------------------------------------------------------------------ */

static void from_buffer(const tdsl_buffer_t *b, drv_value_t *out) {
  *out = (drv_value_t){.desc = b->desc,
                       .data = b->data,
                       .bytes = b->bytes,
                       .count = (size_t)tdsl_buffer_get_count(b),
                       .is_bound = true,
                       .is_readonly = b->is_readonly,
                       .from_slot = -1};
}

void drv_run_values(tdsl_run_t *run, drv_value_t *values) {
  const plan_entry_t *e = entry_of(run);
  tdsl_buffer_t *const *weights = run->exe->weights;
  for (uint32_t s = 0; s < e->slot_count; s++) {
    drv_arg_t *arg = &run->args[s];
    values[s] = (drv_value_t){.from_slot = -1};
    if (arg->buffer != NULL) {
      from_buffer(arg->buffer, &values[s]);
    } else if (arg->has_scalar) {
      values[s] = (drv_value_t){.desc = {.dtype = e->slots[s].dtype},
                                .data = arg->scalar,
                                .count = 1,
                                .bytes = td_dtype_bytes(e->slots[s].dtype),
                                .is_bound = true,
                                .from_slot = -1};
    } else if (weights != NULL && weights[s] != NULL) {
      from_buffer(weights[s], &values[s]);
    }
  }
}

static bool same_desc(const tdsl_tensor_desc_t *a,
                      const tdsl_tensor_desc_t *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (uint32_t d = 0; same && d < a->rank; d++) {
    same = a->dims[d] == b->dims[d];
  }
  return same;
}

tdsl_buffer_t *drv_run_result(td_task_t *task, tdsl_run_t *run, uint32_t s,
                              const tdsl_tensor_desc_t *desc) {
  tdsl_buffer_t *old = run->results[s];
  if (old != NULL && same_desc(&old->desc, desc) &&
      atomic_load(&old->references) == 1) {
    return old; /* nobody else holds it */
  }
  tdsl_buffer_t *made =
      drv_buffer_new(task, run->exe->program->context, desc);
  tdsl_buffer_release(old);
  run->results[s] = made;
  return made;
}

static void execute_work(td_task_t *task, void *arg) {
  tdsl_run_t *run = arg;
  const plan_entry_t *e = entry_of(run);
  td_arena_t arena;
  td_arena_init(&arena, task);
  drv_value_t *values = TD_NEW_ARRAY(&arena, drv_value_t, e->slot_count + 1);
  run->has_run = false;
  task->stage = "entry";
  drv_run_values(run, values);
  if (!drv_entry_check(task, &arena, e, run->exe->program->checks, values,
                       run->dims)) {
    return;
  }
  task->stage = "run";
  uint64_t start = td_os_now_ns();
  run->stats = (tdsl_run_stats_t){0};
  if (!drv_run_interp(task, &arena, run, values)) return;
  run->stats.seconds = (double)(td_os_now_ns() - start) * 1e-9;
  run->has_run = true;
  td_arena_free_all(&arena);
}

tdsl_status_t tdsl_run_execute(tdsl_run_t *run, tdsl_error_t **out_error) {
  drv_call_t call = frame_of(run);
  return drv_call(&call, execute_work, run, out_error);
}

/* ---- what is left ----------------------------------------------------------------- */

tdsl_buffer_t *tdsl_run_get_buffer(tdsl_run_t *run, uint32_t slot) {
  const plan_entry_t *e = entry_of(run);
  if (slot >= e->slot_count || !run->has_run) return NULL;
  if (e->slots[slot].kind == PLAN_IN) return NULL;
  if (run->results[slot] != NULL) return run->results[slot];
  return run->args[slot].buffer;
}

tdsl_status_t tdsl_run_get_stats(const tdsl_run_t *run,
                                 tdsl_run_stats_t *out_stats) {
  uint32_t bytes = out_stats->struct_bytes;
  if (!drv_is_known(bytes, sizeof *out_stats)) {
    return TDSL_STATUS_INVALID_ARGUMENT;
  }
  tdsl_run_stats_t stats = run->stats;
  stats.struct_bytes = bytes;
  memcpy(out_stats, &stats, bytes);
  return TDSL_STATUS_OK;
}

/* ---- results as text ---------------------------------------------------------------- */

typedef struct write_call {
  tdsl_run_t *run;
  tdsl_text_fn_t text;
  void *user;
} write_call_t;

static size_t collect(tdsl_run_t *run, plan_slot_kind_t kind,
                      io_leaf_t *out) {
  const plan_entry_t *e = entry_of(run);
  size_t n = 0;
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (e->slots[s].kind != kind) continue;
    const tdsl_buffer_t *b = tdsl_run_get_buffer(run, s);
    out[n].name = e->slots[s].name;
    out[n].declared = e->slots[s].dtype;
    drv_buffer_tensor(b, &out[n].tensor);
    n++;
  }
  return n;
}

static void write_work(td_task_t *task, void *arg) {
  write_call_t *c = arg;
  const plan_entry_t *e = entry_of(c->run);
  td_arena_t arena;
  td_arena_init(&arena, task);
  if (!c->run->has_run) {
    td_raise(task, TDSL_STATUS_INVALID_ARGUMENT, "nothing has run yet");
  }
  io_leaf_t *results = TD_NEW_ARRAY(&arena, io_leaf_t, e->slot_count + 1);
  io_leaf_t *state = TD_NEW_ARRAY(&arena, io_leaf_t, e->slot_count + 1);
  size_t result_count = collect(c->run, PLAN_OUT, results);
  size_t state_count = collect(c->run, PLAN_INOUT, state);
  td_buf_t text;
  td_buf_init(&text, task);
  io_results_put(&text, e->name, results, result_count, state, state_count);
  c->text(td_buf_view(&text), c->user);
  td_buf_free(&text);
}

tdsl_status_t tdsl_run_write_results(tdsl_run_t *run, tdsl_text_fn_t text,
                                     void *user, tdsl_error_t **out_error) {
  write_call_t c = {run, text, user};
  drv_call_t call = frame_of(run);
  return drv_call(&call, write_work, &c, out_error);
}
