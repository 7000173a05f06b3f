/* api_exec.c: the road of plans: devices of a context, loading, running. */
#include "driver/api_cuda.h"

#include "runtime/base/env.h"
#include "runtime/base/num.h"
#include "runtime/null/null_device.h"
#if TDSL_WITH_LLVM
#include "runtime/cpu/cpu_device.h"
#endif

/* ---- devices ------------------------------------------------------------ */

static hal_device_t *make_device(td_task_t *task, tdsl_context_t *context,
                                 const drv_device_t *device) {
  switch (device->hal) {
    case DRV_HAL_KIR: return drv_kir_device_create(&task->host);
    case DRV_HAL_NULL: return rnull_device_create(task);
    case DRV_HAL_CPU: {
#if TDSL_WITH_LLVM
      uint32_t threads = context->thread_count;
      if (threads == 0) threads = (uint32_t)td_env_int(TD_ENV_THREADS);
      return rcpu_device_create(task, threads);
#else
      (void)context;
      td_diag_t *d = td_diag(task, TD_B02, TD_NO_LOC,
                             "this build has no CPU back end");
      td_diag_note(d, "interp and interp:kir work");
      return NULL;
#endif
    }
    case DRV_HAL_CUDA:
    case DRV_HAL_SIM: return drv_gpu_create(task, device, context->disk);
    case DRV_HAL_COUNT: break;
  }
  return NULL;
}

/* A context drives one GPU, and one kind of simulated machine. */
static bool is_same_gpu(td_task_t *task, tdsl_context_t *context,
                        const drv_device_t *device) {
  bool is_sim = device->hal == DRV_HAL_SIM;
  bool is_new = context->devices[device->hal] == NULL;
  if (is_sim && is_new) {
    context->gpu_machine = device->machine;
    context->gpu_count = device->count;
  } else if (is_new && device->hal == DRV_HAL_CUDA) {
    context->gpu_ordinal = device->ordinal;
  }
  bool same = is_sim ? context->gpu_machine == device->machine &&
                           context->gpu_count == device->count
                     : device->hal != DRV_HAL_CUDA ||
                           context->gpu_ordinal == device->ordinal;
  if (!same) {
    td_diag(task, TD_B04, TD_NO_LOC, "this context has another %s already",
            is_sim ? "simulated machine" : "GPU");
  }
  return same;
}

/* Interpreters and the recording device compile nothing. */
static bool uses_disk(drv_hal_t kind) {
  return kind == DRV_HAL_CPU || kind == DRV_HAL_CUDA || kind == DRV_HAL_SIM;
}

/* Made on first use and kept until the context ends. The lock is held while
 * a device is made, so an unwinding has to let go of it. */
static void unlock(void *mutex) {
  td_mutex_unlock(mutex);
}

hal_device_t *drv_device_open(td_task_t *task, tdsl_context_t *context,
                              const drv_device_t *which) {
  drv_hal_t kind = which->hal;
  td_defer(task, unlock, &context->lock);
  td_mutex_lock(&context->lock);
  if (context->cache == NULL) context->cache = drv_cache_create(context);
  if (!context->has_disk && uses_disk(kind)) {
    context->has_disk = true;
    context->disk = hal_cache_open(task, context->disk_folder,
                                   context->disk_mode);
  }
  bool is_same = is_same_gpu(task, context, which);
  if (is_same && context->devices[kind] == NULL) {
    context->devices[kind] = make_device(task, context, which);
  }
  hal_device_t *device = is_same ? context->devices[kind] : NULL;
  bool is_complete = context->cache != NULL;
  td_undefer(task, true);
  if (!is_complete || (device == NULL && td_task_errors(task) == 0)) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for the device");
  }
  return device;
}

void drv_devices_close(tdsl_context_t *context) {
  for (int i = 0; i < DRV_HAL_COUNT; i++) {
    hal_device_t *device = context->devices[i];
    if (device != NULL) device->vtable->destroy(device);
    context->devices[i] = NULL;
  }
  drv_cache_destroy(context->cache);
  context->cache = NULL;
}

/* ---- programs ----------------------------------------------------------- */

/* The program takes the references over as they are made. */
static void take_objects(tdsl_program_t *p, const drv_payloads_t *payloads) {
  p->objects = payloads->objects.data;
  p->object_count = (uint32_t)payloads->objects.length;
}

typedef struct objects {
  tdsl_context_t *context;
  drv_payloads_t *payloads;
} objects_t;

static void drop_objects(void *arg) {
  const objects_t *o = arg;
  for (size_t i = 0; i < o->payloads->objects.length; i++) {
    drv_object_release(o->context, o->payloads->objects.data[i]);
  }
}

/* Rows of one family stand in the order of what they need: code of an
 * earlier one runs on the host of a later one. */
static bool runs_here(td_task_t *task, const ir_target_t *target) {
  const ir_target_t *host = ir_target_host();
  bool is_before = false;
  for (uint32_t i = 0; host != NULL && ir_target_get(i) != NULL; i++) {
    const ir_target_t *row = ir_target_get(i);
    bool is_family = strncmp(row->name, host->name, 3) == 0;
    is_before |= row == target && is_family;
    if (row == host) break;
  }
  if (host == NULL || is_before) return true;
  td_diag_t *d = td_diag(task, TD_B07, TD_NO_LOC,
                         "this CPU does not run code for %s", target->name);
  td_diag_note(d, "it is %s; `dump` prints the code for any machine",
               host->name);
  return false;
}

bool drv_program_load(tdsl_program_t *p, drv_compile_t *c) {
  drv_backend_t *b = TD_NEW(c->arena, drv_backend_t);
  drv_payloads_t *payloads = TD_NEW(c->arena, drv_payloads_t);
  objects_t *objects = TD_NEW(c->arena, objects_t);
  p->hal = drv_device_open(c->task, c->context, &c->device);
  if (p->hal == NULL) return false;
  bool is_gpu = c->device.hal == DRV_HAL_CUDA || c->device.hal == DRV_HAL_SIM;
  if (is_gpu && !drv_gpu_target(c->task, p->hal, &c->device)) return false;
  if (!drv_backend_init(b, c)) return false;
  if (c->device.hal == DRV_HAL_CPU && !runs_here(c->task, b->target)) {
    return false;
  }
  if (!drv_checked_keep(p, c)) return false;
  drv_debug_begin(b);
  drv_backend_tensor(b);
  drv_backend_kernels(b);
  drv_backend_memory(b);
  *objects = (objects_t){c->context, payloads};
  td_defer(c->task, drop_objects, objects);
  if (c->device.hal == DRV_HAL_CPU) drv_payloads_object(b, payloads);
  else if (is_gpu) drv_payloads_cuda(b, payloads);
  else drv_payloads_kir(b, payloads);
  drv_backend_plan(b, payloads);
  drv_debug_end(b);
  td_undefer(c->task, false);
  take_objects(p, payloads);
  p->plan = b->plan;
  p->tuning = b->tuning;
  p->entry_count = p->plan->entry_count;
  p->plans = p->plan->entries;
  c->task->stage = "load";
  p->loaded = p->hal->vtable->load(p->hal, c->task, p->plan);
  return p->loaded != NULL;
}

void drv_program_unload(tdsl_program_t *p) {
  if (p->loaded != NULL) p->hal->vtable->unload(p->hal, p->loaded);
  for (uint32_t i = 0; i < p->object_count; i++) {
    drv_object_release(p->context, p->objects[i]);
  }
  p->loaded = NULL;
  p->object_count = 0;
}

/* ---- runs --------------------------------------------------------------- */

/* What of the dims the arguments tell before the check. */
typedef struct known {
  int64_t *dims;
  bool *bound;
} known_t;

/* Results that the host has not bound get memory that it may keep. Dims that
 * cannot be told are left to hal_bind, which reports them. */
static void make_results(td_task_t *task, tdsl_run_t *run,
                         const plan_entry_t *e, const known_t *known,
                         hal_arg_t *args) {
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const plan_slot_t *slot = &e->slots[s];
    tdsl_tensor_desc_t desc;
    size_t count, bytes;
    if (slot->kind != PLAN_OUT) continue;
    if (args[s].is_set) {
      tdsl_buffer_release(run->results[s]);
      run->results[s] = NULL;
      continue;
    }
    if (!drv_slot_dims(e, slot, known->dims, known->bound, &desc) ||
        !drv_tensor_bytes(&desc, &count, &bytes)) {
      continue;
    }
    for (uint32_t v = 0; v < e->dim_count; v++) {
      if (known->bound[v] && known->dims[v] > e->vars[v].bound) return;
    }
    tdsl_buffer_t *b = drv_run_result(task, run, s, &desc);
    args[s] = (hal_arg_t){.is_set = true,
                          .dtype = desc.dtype,
                          .rank = desc.rank,
                          .data = b->data};
    memcpy(args[s].dims, desc.dims, sizeof desc.dims);
  }
}

typedef struct exec_call {
  tdsl_run_t *run;
  const tdsl_program_t *program;
  uint32_t entry;
} exec_call_t;

/* Tables of the executor live as long as the run state. */
static void make_exec(td_task_t *task, void *arg) {
  exec_call_t *c = arg;
  const tdsl_program_t *p = c->program;
  drv_exec_t *x = TD_NEW(&c->run->arena, drv_exec_t);
  x->program = p;
  x->exec = hal_exec_create(task, &c->run->arena, p->hal, p->loaded, p->plan,
                            c->entry);
  x->next = c->run->execs;
  c->run->execs = x;
}

static hal_exec_t *exec_of(td_task_t *task, tdsl_run_t *run,
                           const tdsl_program_t *p, uint32_t entry) {
  for (drv_exec_t *x = run->execs; x != NULL; x = x->next) {
    if (x->program == p) return x->exec;
  }
  exec_call_t call = {run, p, entry};
  td_arena_attach(&run->arena, task);
  tdsl_status_t status = td_task_run(task, make_exec, &call);
  td_arena_detach(&run->arena);
  if (status != TDSL_STATUS_OK) {
    td_raise(task, status, "no memory for the run");
  }
  return run->execs->exec;
}

void drv_execs_release(tdsl_run_t *run) {
  for (drv_exec_t *x = run->execs; x != NULL; x = x->next) {
    hal_exec_destroy(x->exec);
  }
  run->execs = NULL;
}

static void take_stats(tdsl_run_t *run, const hal_stats_t *stats) {
  run->stats.launch_count = stats->launches;
  run->stats.seconds = stats->seconds;
  run->stats.arena_bytes = stats->arena_bytes;
  run->stats.planned_bytes = stats->planned_bytes;
  run->stats.read_bytes = stats->read_bytes;
  run->stats.written_bytes = stats->written_bytes;
  run->stats.flops = stats->flops;
  run->stats.upload_bytes = stats->upload_bytes + run->placed_bytes;
  run->stats.download_bytes = stats->download_bytes;
  run->stats.device_bytes = stats->device_bytes;
  run->stats.predicted_device_bytes = stats->memory.all;
  run->stats.scratch_bytes = stats->memory.scratch;
  run->stats.peak_device_bytes = stats->peak_bytes;
  run->stats.is_replayed = stats->is_replayed;
}

/* Also after an unwinding. */
typedef struct placed {
  tdsl_run_t *run;
  const hal_arg_t *args;
  bool is_good;
} placed_t;

static void end_placed(void *arg) {
  const placed_t *p = arg;
  drv_run_placed(p->run, p->args, p->is_good);
}

bool drv_run_plan(td_task_t *task, td_arena_t *arena, tdsl_run_t *run,
                  hal_arg_t *args) {
  const tdsl_program_t *p = run->exe->program, *chosen;
  const plan_entry_t *e = &p->plans[run->exe->index];
  uint32_t entry = run->exe->index;
  hal_exec_options_t options = {.checks = drv_hal_checks(p->checks)};
  known_t known = {TD_NEW_ARRAY(arena, int64_t, e->var_count + 1),
                   TD_NEW_ARRAY(arena, bool, e->var_count + 1)};
  if (p->device.hal == DRV_HAL_NULL) rnull_device_clear(p->hal);
  drv_entry_bind(e, args, known.dims, known.bound);
  make_results(task, run, e, &known, args);
  drv_run_place(task, run, args);
  const int64_t *preset = drv_entry_preset(arena, e, args);
  if (!drv_checked_run(task, run, args, preset)) return false;
  chosen = drv_variant_choose(run->exe, known.dims, known.bound);
  if (chosen != NULL) {
    p = chosen;
    entry = 0;
    preset = drv_entry_preset(arena, &p->plans[0], args);
  } else {
    options.trace = run->trace;
  }
  hal_exec_t *exec = exec_of(task, run, p, entry);
  placed_t *placed = TD_NEW(arena, placed_t);
  *placed = (placed_t){run, args, false};
  td_defer(task, end_placed, placed);
  placed->is_good = hal_exec_run(exec, task, args, preset, &options);
  td_undefer(task, true);
  if (placed->is_good) take_stats(run, hal_exec_stats(exec));
  return placed->is_good;
}

/* ---- traces ------------------------------------------------------------- */

typedef struct trace_call {
  tdsl_run_t *run;
  bool is_on;
  tdsl_text_fn_t text;
  void *user;
} trace_call_t;

static void make_trace(td_task_t *task, void *arg) {
  tdsl_run_t *run = arg;
  (void)task;
  hal_trace_t *trace = TD_NEW(&run->arena, hal_trace_t);
  hal_trace_init(trace, &run->arena, run->exe->program->plan);
  run->trace = trace;
}

static void set_trace_work(td_task_t *task, void *arg) {
  trace_call_t *c = arg;
  tdsl_run_t *run = c->run;
  if (run->exe->program->plan == NULL) {
    td_raise(task, TDSL_STATUS_UNAVAILABLE,
             "the interpreter has no kernels to measure");
  }
  run->trace = NULL;
  if (!c->is_on) return;
  td_arena_attach(&run->arena, task);
  tdsl_status_t status = td_task_run(task, make_trace, run);
  td_arena_detach(&run->arena);
  if (status != TDSL_STATUS_OK) td_raise(task, status, "out of memory");
}

tdsl_status_t tdsl_run_set_trace(tdsl_run_t *run, uint32_t on,
                                 tdsl_error_t **out_error) {
  trace_call_t c = {.run = run, .is_on = on != 0};
  drv_call_t call = {.context = run->exe->program->context};
  return drv_call(&call, set_trace_work, &c, out_error);
}

static void write_trace_work(td_task_t *task, void *arg) {
  trace_call_t *c = arg;
  const tdsl_program_t *p = c->run->exe->program;
  td_buf_t text;
  td_buf_init(&text, task);
  if (p->plan != NULL && p->device.hal == DRV_HAL_NULL) {
    td_buf_puts(&text, rnull_device_record(p->hal));
  } else if (c->run->trace != NULL) {
    hal_trace_print(&text, c->run->trace);
  } else {
    td_raise(task, TDSL_STATUS_INVALID_ARGUMENT, "nothing was measured");
  }
  c->text(td_buf_view(&text), c->user);
  td_buf_free(&text);
}

tdsl_status_t tdsl_run_write_trace(tdsl_run_t *run, tdsl_text_fn_t text,
                                   void *user, tdsl_error_t **out_error) {
  trace_call_t c = {.run = run, .text = text, .user = user};
  drv_call_t call = {.context = run->exe->program->context};
  return drv_call(&call, write_trace_work, &c, out_error);
}
