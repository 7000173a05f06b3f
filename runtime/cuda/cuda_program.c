/* cuda_program.c: from a plan's CUDA C to kernels that can be launched.
 *
 * NVRTC makes machine code and PTX of each module.  The driver gets the
 * machine code; if it says that it is none for this device, the PTX, which it
 * compiles itself; if that is too new for it, the error says which of toolkit
 * and driver is behind. */
#include "runtime/cuda/cuda_impl.h"

#include "runtime/cuda/cuda_about.h"
#include "runtime/cuda/cuda_cubin.h"
#include "runtime/cuda/cuda_nvrtc.h"
#include "runtime/hal/bind.h"

enum { LOG_BYTES = 8192, EXTRA_ARGS = 4 };

typedef struct loading {
  rcuda_gpu_t *d;
  td_task_t *task;
  const plan_t *plan;
  hal_program_t *program;
  rcuda_nvrtc_t nvrtc;
  const char *choice; /* which form of code, and why */
} loading_t;

/* ---- one module ---------------------------------------------------------- */

static int load_image(rcuda_gpu_t *d, const void *image, char *log,
                      rcuda_module_t **out) {
  int options[2] = {RCUDA_JIT_ERROR_LOG, RCUDA_JIT_ERROR_LOG_BYTES};
  void *values[2] = {log, (void *)(uintptr_t)LOG_BYTES};
  log[0] = '\0';
  return d->driver.module_load(out, image, 2, options, values);
}

/* The image does not suit this device, which another form may. */
static bool is_unsuited(int code) {
  return code == RCUDA_INVALID_IMAGE || code == RCUDA_NO_BINARY_FOR_GPU ||
         code == RCUDA_INVALID_PTX || code == RCUDA_UNSUPPORTED_PTX_VERSION;
}

static const char *text_of(rcuda_gpu_t *d, int result) {
  const char *text = NULL;
  bool is_known = d->driver.error_text(result, &text) == 0 && text != NULL;
  return is_known ? text : "unknown error";
}

/* Both forms were refused. */
static void explain(loading_t *l, const plan_module_t *m,
                    const rcuda_code_t *code, const int results[2],
                    const char *log) {
  rcuda_gpu_t *d = l->d;
  td_diag_t *diag = td_diag(
      l->task, TD_B06, TD_NO_LOC, "%s: module %s, made for %s, is refused",
      d->base.vtable->name, m->name, code->arch);
  if (code->cubin_bytes > 0) {
    td_diag_note(diag, "as machine code: %s (%d)", text_of(d, results[0]),
                 results[0]);
  }
  td_diag_note(diag, "as PTX: %s (%d)", text_of(d, results[1]), results[1]);
  if (d->report_count == NULL) td_diag_note(diag, "%s", l->choice);
  if (results[1] == RCUDA_UNSUPPORTED_PTX_VERSION) {
    td_diag_help(diag, "take a newer driver, or an older toolkit");
  }
  if (log[0] != '\0') td_diag_note(diag, "%s", log);
}

/* The simulator runs PTX, of which nobody knows what the assembler makes. */
static void tell_registers(void *user, const char *kernel,
                           uint32_t registers) {
  const rcuda_gpu_t *d = user;
  (void)d->tell_registers(kernel, registers);
}

static bool load_module(loading_t *l, const plan_module_t *m,
                        const rcuda_code_t *code, bool is_cached,
                        rcuda_module_t **out) {
  rcuda_gpu_t *d = l->d;
  char *log = td_arena_alloc(&l->task->arena, LOG_BYTES + 1);
  int results[2] = {RCUDA_NO_BINARY_FOR_GPU, RCUDA_SUCCESS};
  rcuda_enter(d);
  if (code->cubin_bytes > 0) {
    if (d->tell_registers != NULL) {
      rcuda_cubin_registers(code->cubin, code->cubin_bytes, tell_registers, d);
    }
    results[0] = load_image(d, code->cubin, log, out);
  }
  bool is_ptx = is_unsuited(results[0]);
  if (is_ptx) results[1] = load_image(d, code->ptx, log, out);
  rcuda_leave(d);
  int result = results[is_ptx];
  td_log(l->task, TDSL_SEVERITY_NOTE, d->base.vtable->name,
         "module %s, made for %s%s: %s; %s", m->name, code->arch,
         is_cached ? ", from the cache" : "", is_ptx ? "PTX" : "machine code",
         d->report_count != NULL ? "the simulator takes PTX" : l->choice);
  if (result == RCUDA_SUCCESS) return true;
  *out = NULL;
  if (!is_unsuited(result)) rcuda_fail(d, l->task, result, "loading kernels");
  if (!is_cached) explain(l, m, code, results, log);
  return false;
}

/* ---- the cache ----------------------------------------------------------- */

enum { FIELDS = RCUDA_CODE_FIELDS + 2 };

/* What the compiler reads of a text: all but the lines that are comments,
 * which hold names and places of the program. */
static td_str_t code_of(td_arena_t *arena, const char *text) {
  size_t length = strlen(text), n = 0;
  char *out = td_arena_alloc(arena, length + 1);
  for (const char *at = text; *at != '\0';) {
    const char *end = strchr(at, '\n');
    size_t line = end != NULL ? (size_t)(end - at) + 1 : strlen(at);
    const char *word = at + strspn(at, " ");
    if (word[0] != '/' || word[1] != '/') {
      memcpy(out + n, at, line);
      n += line;
    }
    at += line;
  }
  return td_str_n(out, n);
}

static void key_of(loading_t *l, td_arena_t *arena,
                   const rcuda_source_t *source, hal_field_t out[FIELDS]) {
  out[0] = (hal_field_t){"kind", td_str("cuda")};
  rcuda_code_fields(arena, &l->nvrtc, source, out + 1);
  td_str_t code = code_of(arena, source->text);
  out[FIELDS - 1] = (hal_field_t){"text", hal_cache_digest(arena, code)};
}

static bool from_cache(loading_t *l, td_arena_t *arena,
                       const hal_field_t key[FIELDS], rcuda_code_t *out) {
  hal_entry_t entry;
  if (!hal_cache_get(l->d->cache, l->task, arena, key, FIELDS, &entry)) {
    return false;
  }
  const td_str_t *ptx = hal_entry_part(&entry, "ptx");
  const td_str_t *cubin = hal_entry_part(&entry, "cubin");
  const td_str_t *arch = hal_entry_part(&entry, "arch");
  if (ptx == NULL || cubin == NULL || arch == NULL) {
    hal_cache_drop(l->d->cache, l->task, key, FIELDS, "a part is missing");
    return false;
  }
  *out = (rcuda_code_t){.arch = arch->data,
                        .ptx_bytes = ptx->length,
                        .ptx = ptx->data,
                        .cubin_bytes = cubin->length,
                        .cubin = cubin->data,
                        .log = ""};
  return true;
}

/* With the names of the kernels, for whoever lists the cache. */
static void to_cache(loading_t *l, td_arena_t *arena, uint32_t module,
                     const hal_field_t key[FIELDS],
                     const rcuda_code_t *code) {
  const char *names = "";
  for (uint32_t k = 0; k < l->plan->kernel_count; k++) {
    if (l->plan->kernels[k].module != module) continue;
    names = td_arena_printf(arena, "%s%s%s", names,
                            names[0] != '\0' ? " " : "",
                            l->plan->kernels[k].name);
  }
  const hal_part_t parts[] = {
      {HAL_CACHE_SHOWN, td_str(names)},
      {"arch", td_str(code->arch)},
      {"ptx", td_str_n(code->ptx, code->ptx_bytes)},
      {"cubin", td_str_n(code->cubin, code->cubin_bytes)}};
  hal_cache_put(l->d->cache, l->task, key, FIELDS, parts, 4);
}

/* ---- all of them --------------------------------------------------------- */

/* What the driver does not take of the cache is made anew. */
static bool make_module(loading_t *l, td_arena_t *arena, uint32_t m,
                        const rcuda_source_t *source) {
  const plan_module_t *module = &l->plan->modules[m];
  rcuda_code_t code;
  hal_field_t key[FIELDS];
  key_of(l, arena, source, key);
  if (from_cache(l, arena, key, &code)) {
    if (load_module(l, module, &code, true, &l->program->modules[m])) {
      return true;
    }
    hal_cache_drop(l->d->cache, l->task, key, FIELDS, "it cannot be loaded");
  }
  if (td_task_errors(l->task) > 0) return false; /* it was required */
  if (!rcuda_compile(l->task, arena, &l->nvrtc, source, &code) ||
      !load_module(l, module, &code, false, &l->program->modules[m])) {
    return false;
  }
  if (code.log[0] == '\0') {
    to_cache(l, arena, m, key, &code);
  } else {
    /* text of ours that a compiler wonders about: nobody should miss it */
    td_log(l->task, TDSL_SEVERITY_WARNING, "nvrtc", "%s", code.log);
  }
  return true;
}

static bool compile_modules(loading_t *l) {
  const plan_t *plan = l->plan;
  for (uint32_t m = 0; m < plan->module_count; m++) {
    const plan_module_t *module = &plan->modules[m];
    td_arena_t arena; /* code is large and needed for a moment */
    td_arena_init(&arena, l->task);
    rcuda_source_t source = {
        .text = td_arena_strndup(&arena, module->data, module->bytes),
        .name = module->name,
        .arch = module->target,
        .has_lines = l->d->report_text != NULL,
        .plan = plan};
    if (!make_module(l, &arena, m, &source)) return false;
    td_arena_free_all(&arena);
  }
  return true;
}

static void choose_form(loading_t *l) {
  int major = 0, minor = 0, driver = 0;
  bool is_known = l->nvrtc.version(&major, &minor) == 0 &&
                  l->d->driver.driver_version(&driver) == 0;
  l->choice = rcuda_choice_text(&l->task->arena,
                                is_known ? major * 1000 + minor * 10 : 0,
                                driver);
}

/* What the device makes of a kernel: for people, for the size of its grid,
 * and refused here, by the statement that it is of, where a launch would only
 * fail. */
static bool check_kernel(rcuda_gpu_t *d, td_task_t *task, const plan_t *plan,
                         hal_program_t *p, uint32_t index) {
  const plan_kernel_t *kernel = &plan->kernels[index];
  rcuda_func_t *function = p->kernels[index];
  static const int wanted[4] = {RCUDA_FUNC_MAX_THREADS, RCUDA_FUNC_REGISTERS,
                                RCUDA_FUNC_SHARED_BYTES,
                                RCUDA_FUNC_LOCAL_BYTES};
  int v[4] = {0}, blocks = 0, code = RCUDA_SUCCESS;
  const rcuda_driver_t *driver = &d->driver;
  if (driver->function_attribute == NULL) return true;
  rcuda_enter(d);
  for (int i = 0; i < 4 && code == RCUDA_SUCCESS; i++) {
    code = driver->function_attribute(&v[i], wanted[i], function);
  }
  if (driver->occupancy == NULL || code != RCUDA_SUCCESS ||
      driver->occupancy(&blocks, function, (int)kernel->threads,
                        kernel->shared_bytes) != 0) {
    blocks = 0;
  }
  p->resident[index] = blocks > 0 ? (uint32_t)blocks : 0;
  rcuda_leave(d);
  if (code != RCUDA_SUCCESS) return true; /* it may still be launched */
  td_log(task, TDSL_SEVERITY_NOTE, d->base.vtable->name,
         "kernel %s: %u threads, %d registers, %d bytes shared, %d bytes "
         "local, %d blocks a multiprocessor", kernel->name, kernel->threads,
         v[1], v[2] + (int)kernel->shared_bytes, v[3], blocks);
  if (v[0] <= 0 || kernel->threads <= (uint32_t)v[0]) return true;
  td_diag_t *diag = td_diag(
      task, TD_B06, hal_locate(task, plan, kernel->loc),
      "%s: kernel %s has %u threads a block; with its %d registers and %d "
      "bytes of shared memory the device takes %d", d->base.vtable->name,
      kernel->name, kernel->threads, v[1], v[2], v[0]);
  td_diag_note(diag, "made for %s", plan->modules[kernel->module].target);
  return false;
}

/* More shared memory than every launch may have is asked for once. */
static bool ask_shared(rcuda_gpu_t *d, td_task_t *task, const plan_t *plan,
                       const plan_kernel_t *kernel, rcuda_func_t *function) {
  int code = RCUDA_NOT_SUPPORTED;
  if (kernel->shared_bytes == 0) return true;
  if (d->driver.function_set != NULL) {
    rcuda_enter(d);
    code = d->driver.function_set(function, RCUDA_FUNC_MAX_DYNAMIC_SHARED,
                                  (int)kernel->shared_bytes);
    rcuda_leave(d);
  }
  if (code == RCUDA_SUCCESS) return true;
  td_diag_t *diag = td_diag(
      task, TD_B06, hal_locate(task, plan, kernel->loc),
      "%s: kernel %s needs %u bytes of shared memory, which the device does "
      "not give: %s (%d)", d->base.vtable->name, kernel->name,
      kernel->shared_bytes, text_of(d, code), code);
  td_diag_note(diag, "made for %s", plan->modules[kernel->module].target);
  return false;
}

static bool find_kernels(rcuda_gpu_t *d, td_task_t *task, const plan_t *plan,
                         hal_program_t *p) {
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const plan_kernel_t *kernel = &plan->kernels[k];
    rcuda_enter(d);
    int code = d->driver.module_function(
        &p->kernels[k], p->modules[kernel->module], kernel->symbol);
    rcuda_leave(d);
    if (code == RCUDA_SUCCESS) {
      if (!ask_shared(d, task, plan, kernel, p->kernels[k]) ||
          !check_kernel(d, task, plan, p, k)) {
        return false;
      }
      continue;
    }
    td_diag(task, TD_B06, TD_NO_LOC, "%s: module %s has no kernel %s",
            d->base.vtable->name, plan->modules[kernel->module].name,
            kernel->symbol);
    return false;
  }
  return true;
}

static bool check_plan(td_task_t *task, const plan_t *plan) {
  for (uint32_t m = 0; m < plan->module_count; m++) {
    if (plan->modules[m].payload == PLAN_PAYLOAD_CUDA &&
        plan->modules[m].target != NULL) {
      continue;
    }
    td_diag(task, TD_B06, TD_NO_LOC, "module %s is no CUDA C",
            plan->modules[m].name);
    return false;
  }
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const plan_kernel_t *kernel = &plan->kernels[k];
    bool is_good = kernel->workers >= 1 &&
                   kernel->threads >= kernel->workers &&
                   kernel->threads % kernel->workers == 0 &&
                   kernel->threads <= 1024;
    if (is_good) continue;
    td_diag(task, TD_B06, TD_NO_LOC, "kernel %s has no launch geometry",
            kernel->name);
    return false;
  }
  return true;
}

/* One allocation: the tables follow the struct. */
static hal_program_t *new_program(rcuda_gpu_t *d, const plan_t *plan) {
  size_t args = 0;
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    size_t n = (size_t)plan->kernels[k].buffer_count +
               plan->kernels[k].scalar_count + EXTRA_ARGS;
    if (n > args) args = n;
  }
  size_t pointers =
      (size_t)plan->module_count + plan->kernel_count + args;
  size_t bytes = sizeof(hal_program_t) + args * sizeof(uint64_t) +
                 pointers * sizeof(void *) +
                 plan->kernel_count * sizeof(uint32_t);
  char *data =
      d->allocator.function(NULL, 0, bytes, d->allocator.user);
  if (data == NULL) return NULL;
  memset(data, 0, bytes);
  hal_program_t *p = (hal_program_t *)(void *)data;
  p->bytes = bytes;
  p->module_count = plan->module_count;
  p->args.values = (uint64_t *)(void *)(p + 1);
  p->args.pointers = (void **)(void *)(p->args.values + args);
  p->modules = (rcuda_module_t **)(void *)(p->args.pointers + args);
  p->kernels = (rcuda_func_t **)(void *)(p->modules + plan->module_count);
  p->resident = (uint32_t *)(void *)(p->kernels + plan->kernel_count);
  return p;
}

static void drop_loading(void *arg) {
  loading_t *l = arg;
  if (l->nvrtc.library != NULL) rcuda_nvrtc_close(&l->nvrtc);
  rcuda_unload(&l->d->base, l->program);
}

hal_program_t *rcuda_load(hal_device_t *device, td_task_t *task,
                          const plan_t *plan) {
  loading_t *l = TD_NEW(&task->arena, loading_t);
  l->d = (rcuda_gpu_t *)(void *)device;
  l->task = task;
  l->plan = plan;
  if (!check_plan(task, plan)) return NULL;
  td_defer(task, drop_loading, l);
  l->program = new_program(l->d, plan);
  if (l->program == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for the kernels");
  }
  bool ok = true;
  if (plan->module_count > 0) {
    ok = rcuda_nvrtc_open(task, &task->arena, &l->nvrtc);
    if (ok) choose_form(l);
    ok = ok && compile_modules(l) &&
         find_kernels(l->d, task, plan, l->program);
  }
  hal_program_t *p = l->program;
  if (ok) l->program = NULL; /* what is left is closed */
  td_undefer(task, true);
  return ok ? p : NULL;
}

void rcuda_unload(hal_device_t *device, hal_program_t *program) {
  rcuda_gpu_t *d = (rcuda_gpu_t *)(void *)device;
  if (program == NULL) return;
  rcuda_enter(d);
  (void)d->driver.stream_wait(d->stream);
  for (uint32_t m = 0; m < program->module_count; m++) {
    if (program->modules[m] != NULL) {
      (void)d->driver.module_unload(program->modules[m]);
    }
  }
  d->last_kernel = NULL;
  rcuda_leave(d);
  (void)d->allocator.function(program, program->bytes, 0,
                              d->allocator.user);
}
