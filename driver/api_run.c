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
  arg->is_value = false;
}

/* ---- life ---------------------------------------------------------------- */

typedef struct run_call {
  tdsl_run_t *run;
  uint32_t slot;
  tdsl_buffer_t *buffer;
  plan_number_t number;
} run_call_t;

static void create_work(td_task_t *task, void *arg) {
  tdsl_run_t *run = arg;
  const plan_entry_t *e = entry_of(run);
  td_arena_init(&run->arena, task);
  run->args = TD_NEW_ARRAY(&run->arena, drv_arg_t, e->slot_count + 1);
  run->results =
      TD_NEW_ARRAY(&run->arena, tdsl_buffer_t *, e->slot_count + 1);
  hal_binding_init(&run->binding, &run->arena, NULL, e);
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
  drv_execs_release(run);
  td_task_t task;
  td_task_init(&task, &context->host);
  td_arena_attach(&run->arena, &task);
  td_task_free(&task);
  drv_context_retain(context);
  tdsl_executable_release(run->exe);
  drv_free(context, run, sizeof *run);
  drv_context_release(context);
}

/* ---- arguments ----------------------------------------------------------- */

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
  drv_arg_set(to, NULL);
  to->number = c->number;
  to->is_value = true;
}

tdsl_status_t tdsl_run_set_int(tdsl_run_t *run, uint32_t slot, int64_t value,
                               tdsl_error_t **out_error) {
  run_call_t c = {.run = run, .slot = slot, .number = {.i = value}};
  drv_call_t call = frame_of(run);
  return drv_call(&call, set_scalar_work, &c, out_error);
}

tdsl_status_t tdsl_run_set_float(tdsl_run_t *run, uint32_t slot, double value,
                                 tdsl_error_t **out_error) {
  run_call_t c = {
      .run = run, .slot = slot, .number = {.is_real = true, .r = value}};
  drv_call_t call = frame_of(run);
  return drv_call(&call, set_scalar_work, &c, out_error);
}

/* ---- the call ------------------------------------------------------------ */

static void from_buffer(const tdsl_buffer_t *b, hal_arg_t *out) {
  *out = (hal_arg_t){.is_set = true,
                     .is_read_only = b->is_readonly,
                     .dtype = b->desc.dtype,
                     .rank = b->desc.rank,
                     .data = b->data};
  for (uint32_t d = 0; d < b->desc.rank; d++) out->dims[d] = b->desc.dims[d];
}

/* What the slot's argument is in, or NULL; not results made by us. */
static tdsl_buffer_t *buffer_of(const tdsl_run_t *run, uint32_t s) {
  const drv_arg_t *arg = &run->args[s];
  tdsl_buffer_t *const *weights = run->exe->weights;
  if (arg->buffer != NULL || arg->is_value) return arg->buffer;
  return weights != NULL ? weights[s] : NULL;
}

void drv_run_args(tdsl_run_t *run, hal_arg_t *args) {
  const plan_entry_t *e = entry_of(run);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const drv_arg_t *arg = &run->args[s];
    const tdsl_buffer_t *b = buffer_of(run, s);
    args[s] = (hal_arg_t){0};
    if (b != NULL) {
      from_buffer(b, &args[s]);
      bool is_bound = arg->buffer == NULL && e->slots[s].kind == PLAN_IN;
      if (is_bound) args[s].constant = run->exe->weights_number;
    } else if (arg->is_value) {
      args[s] = (hal_arg_t){
          .is_set = true, .is_value = true, .number = arg->number};
    }
  }
}

void drv_run_place(td_task_t *task, tdsl_run_t *run, hal_arg_t *args) {
  const tdsl_program_t *p = run->exe->program;
  const plan_entry_t *e = entry_of(run);
  bool on_host = p->checks == TDSL_CHECKS_ALL; /* an interpreter looks too */
  run->placed_bytes = 0;
  for (uint32_t s = 0; s < e->slot_count; s++) {
    tdsl_buffer_t *b = buffer_of(run, s);
    if (b == NULL && e->slots[s].kind == PLAN_OUT) b = run->results[s];
    if (b == NULL) continue;
    run->placed_bytes +=
        drv_buffer_use(task, b, p->hal, &e->slots[s], on_host, &args[s]);
  }
}

void drv_run_placed(tdsl_run_t *run, const hal_arg_t *args, bool is_good) {
  const plan_entry_t *e = entry_of(run);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    tdsl_buffer_t *b = buffer_of(run, s);
    if (b == NULL && e->slots[s].kind == PLAN_OUT) b = run->results[s];
    if (b == NULL || args[s].device_data == NULL) continue;
    drv_buffer_used(b, &e->slots[s], is_good);
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
  hal_arg_t *args = TD_NEW_ARRAY(&arena, hal_arg_t, e->slot_count + 1);
  run->has_run = false;
  run->stats = (tdsl_run_stats_t){0};
  task->stage = "run";
  drv_run_args(run, args);
  bool is_plan = run->exe->program->device.engine == DRV_PLAN;
  if (!is_plan) drv_run_place(task, run, args);
  run->has_run = is_plan ? drv_run_plan(task, &arena, run, args)
                         : drv_run_interp(task, &arena, run, args);
  td_arena_free_all(&arena);
}

tdsl_status_t tdsl_run_execute(tdsl_run_t *run, tdsl_error_t **out_error) {
  drv_call_t call = frame_of(run);
  return drv_call(&call, execute_work, run, out_error);
}

/* ---- what is left -------------------------------------------------------- */

tdsl_buffer_t *tdsl_run_get_buffer(tdsl_run_t *run, uint32_t slot) {
  const plan_entry_t *e = entry_of(run);
  if (slot >= e->slot_count || !run->has_run) return NULL;
  if (e->slots[slot].kind == PLAN_IN) return NULL;
  if (run->results[slot] != NULL) return run->results[slot];
  if (run->args[slot].buffer != NULL) return run->args[slot].buffer;
  tdsl_buffer_t *const *weights = run->exe->weights;
  return weights != NULL ? weights[slot] : NULL;
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

/* ---- results as text ----------------------------------------------------- */

typedef struct write_call {
  tdsl_run_t *run;
  tdsl_text_fn_t text;
  void *user;
} write_call_t;

static size_t collect(td_task_t *task, tdsl_run_t *run,
                      plan_slot_kind_t kind, io_leaf_t *out) {
  const plan_entry_t *e = entry_of(run);
  size_t n = 0;
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (e->slots[s].kind != kind) continue;
    tdsl_buffer_t *b = tdsl_run_get_buffer(run, s);
    out[n].name = e->slots[s].name;
    out[n].declared = e->slots[s].dtype;
    drv_buffer_tensor(task, b, &out[n].tensor);
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
  size_t result_count = collect(task, c->run, PLAN_OUT, results);
  size_t state_count = collect(task, c->run, PLAN_INOUT, state);
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
