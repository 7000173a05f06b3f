/* cuda_device.c: see cuda_device.h.
 *
 * One stream, one context (the primary one, pushed for the time of a call, so
 * that the calling thread's own is not disturbed), one lock over both.  What
 * is queued runs in order, so scratch is shared by all launches.
 *
 * A fault inside a kernel shows at the next call that waits, and stays: the
 * device is then of no more use, which every later call reports. */
#include "runtime/cuda/cuda_impl.h"

#include "runtime/base/env.h"

enum { MOST_REPORTS = 4 };

/* ---- calls --------------------------------------------------------------- */

_Noreturn void rcuda_fail(rcuda_gpu_t *d, td_task_t *task, int code,
                          const char *what) {
  const char *name = NULL, *text = NULL;
  if (d->driver.error_name(code, &name) != 0) name = NULL;
  if (d->driver.error_text(code, &text) != 0) text = NULL;
  td_buf_t out;
  td_buf_init(&out, task);
  td_buf_printf(&out, "%s: %s: %s (%s, %d)", d->base.vtable->name, what,
                text != NULL ? text : "unknown error",
                name != NULL ? name : "no name", code);
  size_t count = d->report_count != NULL ? d->report_count() : 0;
  for (size_t i = 0; i < count && i < MOST_REPORTS; i++) {
    char finding[1024];
    (void)d->report_text(i, finding, sizeof finding);
    td_buf_printf(&out, "\n%s", finding);
    rcuda_names_explain(d, i, &out);
  }
  const char *message = td_buf_finish(&out, &task->arena);
  bool is_memory = code == RCUDA_OUT_OF_MEMORY;
  td_raise(task, is_memory ? TDSL_STATUS_OUT_OF_MEMORY : TDSL_STATUS_INTERNAL,
           "%s", message);
}

void rcuda_enter(rcuda_gpu_t *d) {
  td_mutex_lock(&d->lock);
  (void)d->driver.context_push(d->context);
}

void rcuda_leave(rcuda_gpu_t *d) {
  rcuda_ctx_t *popped = NULL;
  (void)d->driver.context_pop(&popped);
  td_mutex_unlock(&d->lock);
}

bool rcuda_is_capturing(const rcuda_gpu_t *d) {
  return d->is_capturing && pthread_equal(d->capturer, pthread_self()) != 0;
}

rcuda_stream_t *rcuda_stream(rcuda_gpu_t *d) {
  return rcuda_is_capturing(d) ? d->capture_stream : d->stream;
}

/* Findings that no call failed for: of copies, and those that only warn. The
 * simulator has printed them; whose memory it was it cannot know. */
static void tell_new(rcuda_gpu_t *d, td_task_t *task) {
  size_t count = d->report_count != NULL ? d->report_count() : 0;
  for (; d->told < count; d->told++) {
    td_buf_t out;
    td_buf_init(&out, task);
    rcuda_names_explain(d, d->told, &out);
    if (out.length > 0) {
      td_log(task, TDSL_SEVERITY_WARNING, d->base.vtable->name, "%.*s",
             (int)out.length - 3, out.data + 2);
    }
    td_buf_free(&out);
  }
}

/* What fails in a capture is not run: it will fail again outside, or not. */
bool rcuda_end_call(rcuda_gpu_t *d, td_task_t *task, int code,
                    const char *what) {
  bool is_kept = rcuda_is_capturing(d);
  if (is_kept && code != RCUDA_SUCCESS) d->capture_has_failed = true;
  rcuda_leave(d);
  if (code != RCUDA_SUCCESS && !is_kept) rcuda_fail(d, task, code, what);
  if (code == RCUDA_SUCCESS) tell_new(d, task);
  return true;
}

static bool device_wait(hal_device_t *device, td_task_t *task) {
  rcuda_gpu_t *d = rcuda_self(device);
  rcuda_enter(d);
  int code = d->driver.stream_wait(d->stream);
  return rcuda_end_call(d, task, code,
                  d->last_kernel != NULL ? d->last_kernel : "waiting");
}

/* ---- launches ------------------------------------------------------------ */

/* Scratch for all workers; the old one may still be in use by what is
 * queued, which freeing waits for. */
static int grow_scratch(rcuda_gpu_t *d, size_t bytes) {
  if (bytes <= d->scratch_bytes) return RCUDA_SUCCESS;
  if (rcuda_is_capturing(d)) return RCUDA_CAPTURE_UNSUPPORTED;
  if (d->scratch != 0) rcuda_heap_free(d, d->scratch);
  d->scratch = 0;
  d->scratch_bytes = 0;
  d->scratch_number++;
  int code = rcuda_heap_alloc(d, bytes, &d->scratch);
  if (code == RCUDA_SUCCESS) d->scratch_bytes = bytes;
  return code;
}

static int launch_kernel(rcuda_gpu_t *d, hal_program_t *program,
                         const hal_launch_t *l) {
  const plan_kernel_t *k = l->kernel;
  plan_grid_t grid;
  rcuda_args_t *args = &program->args;
  plan_grid(k, l->block_count, l->scratch_bytes, d->sm_count,
            program->resident[l->kernel_index], &grid);
  int code = RCUDA_SUCCESS;
  if (grid.scratch_stride > 0) {
    code = grow_scratch(d, grid.scratch_stride * (size_t)grid.workers);
  }
  if (code != RCUDA_SUCCESS) return code;
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->buffer_count; i++) {
    args->values[n++] = rcuda_address(l->buffers[i]);
  }
  for (uint32_t i = 0; i < k->scalar_count; i++) {
    args->values[n++] = (uint64_t)l->scalars[i];
  }
  args->values[n++] = d->scratch;
  args->values[n++] = (uint64_t)grid.scratch_stride;
  args->values[n++] = (uint64_t)grid.workers;
  args->values[n++] = (uint64_t)l->block_count;
  for (uint32_t i = 0; i < n; i++) args->pointers[i] = &args->values[i];
  return d->driver.launch(program->kernels[l->kernel_index], grid.blocks, 1, 1,
                          k->threads / k->workers, k->workers, 1,
                          k->shared_bytes, rcuda_stream(d),
                          args->pointers, NULL);
}

static bool device_launch(hal_device_t *device, hal_program_t *program,
                          td_task_t *task, const hal_launch_t *launch) {
  rcuda_gpu_t *d = rcuda_self(device);
  if (launch->block_count <= 0) return true;
  rcuda_enter(d);
  d->last_kernel = launch->kernel->name;
  rcuda_names_note(d, launch);
  int code = launch_kernel(d, program, launch);
  return rcuda_end_call(d, task, code, launch->kernel->name);
}

/* ---- the device ---------------------------------------------------------- */

static void device_destroy(hal_device_t *device) {
  if (device == NULL) return;
  rcuda_gpu_t *d = rcuda_self(device);
  tdsl_allocator_t allocator = d->allocator;
  if (d->context != NULL) {
    rcuda_enter(d);
    rcuda_memory_close(d);
    for (int i = 0; i < 2; i++) {
      if (d->marks[i] != NULL) (void)d->driver.event_destroy(d->marks[i]);
    }
    if (d->capture_stream != NULL) {
      (void)d->driver.stream_destroy(d->capture_stream);
    }
    if (d->stream != NULL) (void)d->driver.stream_destroy(d->stream);
    rcuda_leave(d);
    (void)d->driver.context_release(d->ordinal);
  }
  rcuda_names_close(d);
  if (d->driver.library != NULL) rcuda_driver_close(&d->driver);
  if (d->has_lock) td_mutex_free(&d->lock);
  if (d->has_capture_lock) td_mutex_free(&d->capture_lock);
  (void)allocator.function(d, sizeof *d, 0, allocator.user);
}

static void device_machine(hal_device_t *device, hal_program_t *program,
                           plan_machine_t *out) {
  *out = (plan_machine_t){.sms = rcuda_self(device)->sm_count,
                          .resident = program->resident};
}

static uint64_t device_peak(hal_device_t *device) {
  rcuda_gpu_t *d = rcuda_self(device);
  td_mutex_lock(&d->lock);
  uint64_t bytes = d->heap.most_used_bytes;
  td_mutex_unlock(&d->lock);
  return bytes;
}

static const hal_vtable_t vtables[2] = {
#define TABLE(text)                                                       \
  {.name = text, .alloc = rcuda_alloc, .free = rcuda_free,                \
   .copy = rcuda_copy, .upload = rcuda_upload,                            \
   .download = rcuda_download, .fill = rcuda_fill, .load = rcuda_load,    \
   .unload = rcuda_unload, .launch = device_launch, .wait = device_wait,  \
   .capture_begin = rcuda_capture_begin,                                  \
   .capture_end = rcuda_capture_end,                                      \
   .graph_launch = rcuda_graph_launch, .graph_free = rcuda_graph_free,    \
   .mark = rcuda_mark, .elapsed = rcuda_elapsed,                          \
   .machine = device_machine, .peak_bytes = device_peak,                  \
   .alloc_queued = rcuda_alloc_queued, .free_queued = rcuda_free_queued,  \
   .tell = rcuda_names_tell,                                              \
   .destroy = device_destroy, .shares_host_memory = false}
    TABLE("cuda"), TABLE("sim"),
#undef TABLE
};

size_t rcuda_counters_count(const hal_device_t *device) {
  const rcuda_gpu_t *d = (const rcuda_gpu_t *)(const void *)device;
  return d->counters_count != NULL ? d->counters_count() : 0;
}

size_t rcuda_counters_get(const hal_device_t *device, size_t index, char *out,
                          size_t bytes) {
  const rcuda_gpu_t *d = (const rcuda_gpu_t *)(const void *)device;
  return d->counters_get != NULL ? d->counters_get(index, out, bytes) : 0;
}

uint32_t rcuda_device_sm(const hal_device_t *device) {
  return ((const rcuda_gpu_t *)(const void *)device)->sm;
}

const char *rcuda_device_name(const hal_device_t *device) {
  return ((const rcuda_gpu_t *)(const void *)device)->name;
}

/* What a simulated driver says of an option that it does not take. */
static void add_problem(const rcuda_gpu_t *d, td_diag_t *diag) {
  char text[256] = "";
  rcuda_sim_get_t get = NULL;
  void *at = td_os_dlsym(d->driver.library, RCUDA_SIM_PROBLEM);
  memcpy(&get, &at, sizeof at);
  if (get != NULL) (void)get(0, text, sizeof text);
  if (text[0] != '\0') td_diag_note(diag, "%s", text);
}

static bool refuse(td_task_t *task, rcuda_gpu_t *d, int code,
                   const char *what) {
  const char *text = NULL;
  if (d->driver.error_text(code, &text) != 0 || text == NULL) {
    text = "unknown error";
  }
  bool is_none = code == RCUDA_STUB_LIBRARY || code == RCUDA_NO_DEVICE;
  td_diag_t *diag =
      td_diag(task, TD_B04, TD_NO_LOC, "%s: %s: %s (%d)",
              d->base.vtable->name, what,
              is_none ? "there is no GPU here" : text, code);
  td_diag_note(diag, "the driver's library is %s", d->driver.path);
  if (d->report_count != NULL) { /* a simulated one */
    add_problem(d, diag);
    return false;
  }
  if (code == RCUDA_STUB_LIBRARY) {
    td_diag_note(diag, "it is the toolkit's, for linking only");
  }
  td_diag_help(diag, "--device sim runs the same code without a GPU");
  return false;
}

static bool configure(td_task_t *task, rcuda_gpu_t *d, const char *items) {
  void *at = td_os_dlsym(d->driver.library, RCUDA_SIM_CONFIGURE);
  rcuda_sim_configure_t set = NULL;
  memcpy(&set, &at, sizeof at);
  at = td_os_dlsym(d->driver.library, RCUDA_SIM_REPORT_COUNT);
  memcpy(&d->report_count, &at, sizeof at);
  at = td_os_dlsym(d->driver.library, RCUDA_SIM_REPORT_TEXT);
  memcpy(&d->report_text, &at, sizeof at);
  if (d->report_text == NULL) d->report_count = NULL;
  at = td_os_dlsym(d->driver.library, RCUDA_SIM_REPORT_GET);
  memcpy(&d->report_get, &at, sizeof at);
  at = td_os_dlsym(d->driver.library, RCUDA_SIM_COUNTERS_COUNT);
  memcpy(&d->counters_count, &at, sizeof at);
  at = td_os_dlsym(d->driver.library, RCUDA_SIM_COUNTERS_GET);
  memcpy(&d->counters_get, &at, sizeof at);
  if (d->counters_get == NULL) d->counters_count = NULL;
  at = td_os_dlsym(d->driver.library, RCUDA_SIM_REGISTERS);
  memcpy(&d->tell_registers, &at, sizeof at);
  if (items == NULL) return true;
  if (set != NULL && set(items) == 0) return true;
  td_diag_t *diag = td_diag(task, TD_B04, TD_NO_LOC,
                            "%s does not take \"%s\"", d->driver.path, items);
  add_problem(d, diag);
  td_diag_note(diag, "a process simulates one kind of machine at a time");
  return false;
}

static bool open_context(td_task_t *task, rcuda_gpu_t *d,
                         uint32_t ordinal) {
  int count = 0, major = 0, minor = 0, sms = 0;
  int code = d->driver.init(0);
  if (code != 0) return refuse(task, d, code, "starting the driver");
  code = d->driver.device_count(&count);
  if (code == 0 && count < 1) code = RCUDA_NO_DEVICE;
  if (code != 0) return refuse(task, d, code, "counting devices");
  if (ordinal >= (uint32_t)count) {
    td_diag(task, TD_B04, TD_NO_LOC,
            "%s: there is no device %u, the last one is %d",
            d->base.vtable->name, ordinal, count - 1);
    return false;
  }
  code = d->driver.device_get(&d->ordinal, (int)ordinal);
  if (code == 0) {
    code = d->driver.device_name(d->name, sizeof d->name, d->ordinal);
  }
  const int wanted[3] = {RCUDA_DEV_CC_MAJOR, RCUDA_DEV_CC_MINOR,
                         RCUDA_DEV_SM_COUNT};
  int *const places[3] = {&major, &minor, &sms};
  for (int i = 0; code == 0 && i < 3; i++) {
    code = d->driver.device_attribute(places[i], wanted[i], d->ordinal);
  }
  if (code != 0) return refuse(task, d, code, "asking for its attributes");
  d->sm = (uint32_t)(major * 10 + minor);
  d->sm_count = sms < 1 ? 1 : (uint32_t)sms;
  code = d->driver.context_retain(&d->context, d->ordinal);
  if (code != 0) return refuse(task, d, code, "making a context");
  rcuda_enter(d);
  code = d->driver.stream_create(&d->stream, RCUDA_STREAM_NON_BLOCKING);
  rcuda_leave(d);
  return code == 0 || refuse(task, d, code, "making a stream");
}

/* What was opened so far, when writing a path or a message unwinds. */
static void drop(void *place) {
  rcuda_gpu_t *d = *(rcuda_gpu_t **)place;
  if (d != NULL) device_destroy(&d->base);
}

hal_device_t *rcuda_device_create(td_task_t *task,
                                  const rcuda_device_desc_t *desc) {
  const tdsl_allocator_t *a = &task->host.allocator;
  rcuda_gpu_t **place = TD_NEW(&task->arena, rcuda_gpu_t *);
  td_defer(task, drop, place);
  rcuda_gpu_t *d = a->function(NULL, 0, sizeof *d, a->user);
  if (d == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for the device");
  }
  memset(d, 0, sizeof *d);
  d->base.vtable = &vtables[desc->simulated != NULL];
  d->allocator = *a;
  d->cache = desc->cache;
  *place = d;
  d->has_lock = td_mutex_init(&d->lock);
  d->has_capture_lock = td_mutex_init(&d->capture_lock);
  const char *pool = td_env_text(TD_ENV_POOL);
  d->heap.keeps = strcmp(pool, "on") == 0 ||
                  (strcmp(pool, "off") != 0 && desc->simulated == NULL);
  bool is_open =
      d->has_lock && d->has_capture_lock &&
      rcuda_driver_open(task, &task->arena, desc->library, &d->driver) &&
      configure(task, d, desc->simulated) &&
      open_context(task, d, desc->ordinal);
  td_undefer(task, !is_open);
  return is_open ? &d->base : NULL;
}
