/* api_repro.c: what a report of an internal error needs.
 *
 * Compiling is deterministic, so after a failure the same compilation is made
 * once more with a hook that keeps the IR after each pass; what it has when
 * the failure comes again is the IR before the failing pass.  Sources, that
 * IR, a GPU's CUDA C and a command go to one folder. */
#include "driver/api_cuda.h"

#include "driver/build_info.h"

typedef struct repro {
  tdsl_context_t *context;
  const tdsl_compile_desc_t *desc;
  const char *folder;
  const char *message;
  td_task_t *task;   /* of the second compilation */
  td_buf_t tir;      /* the last text of the tensor IR */
  const char *target; /* what m0.cu and so on are for; NULL: no GPU's */
  bool has_kernels;
} repro_t;

static void keep_text(void *user, const char *pass, const char *text,
                      size_t length) {
  repro_t *r = user;
  pass_id_t id = pass_find(pass, strlen(pass));
  if (id == PASS_COUNT || pass_table[id].level != PASS_TIR) return;
  td_buf_clear(&r->tir);
  td_buf_put(&r->tir, text, length);
}

static void write_file(repro_t *r, const char *name, td_str_t text) {
  const char *path = td_os_join(&r->task->arena, r->folder, name);
  (void)td_os_write_atomic(r->task, path, text.data, text.length);
}

/* Modules as NVRTC got them. The arena that they are in ends with the
 * compilation. */
static void write_cuda(repro_t *r, const drv_payloads_t *payloads) {
  if (!td_os_make_folders(r->task, r->folder)) return;
  for (uint32_t m = 0; m < payloads->module_count; m++) {
    const plan_module_t *module = &payloads->modules[m];
    write_file(r, td_arena_printf(&r->task->arena, "%s.cu", module->name),
               td_str_n(module->data, module->bytes));
    r->target = module->target;
  }
}

static void compile_again(td_task_t *task, void *arg) {
  repro_t *r = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  drv_compile_t *c = TD_NEW(&arena, drv_compile_t);
  drv_backend_t *b = TD_NEW(&arena, drv_backend_t);
  drv_payloads_t *payloads = TD_NEW(&arena, drv_payloads_t);
  drv_compile_init(c, task, &arena, r->context, r->desc);
  if (!drv_device_parse(task, &arena, r->desc->device, &c->device)) return;
  bool is_gpu = c->device.hal == DRV_HAL_CUDA || c->device.hal == DRV_HAL_SIM;
  if (is_gpu) {
    hal_device_t *device = drv_device_open(task, r->context, &c->device);
    if (device == NULL || !drv_gpu_target(task, device, &c->device)) return;
  }
  if (!drv_compile_all(c) || !drv_backend_init(b, c)) return;
  tir_print(&r->tir, c->tir);
  b->options.dump = keep_text;
  b->options.dump_user = r;
  drv_backend_tensor(b);
  r->has_kernels = true;
  drv_backend_kernels(b);
  drv_backend_memory(b);
  if (is_gpu) {
    drv_payloads_cuda(b, payloads);
    write_cuda(r, payloads);
  } else {
    drv_payloads_kir(b, payloads);
  }
  drv_backend_plan(b, payloads);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

static void write_all(td_task_t *task, void *arg) {
  repro_t *r = arg;
  td_buf_t text;
  if (!td_os_make_folders(task, r->folder)) return;
  for (size_t i = 0; i < task->sources.length; i++) {
    const td_source_t *s = &task->sources.data[i];
    const char *name = base_name(s->name);
    if (s->text == NULL || !td_str_ends(td_str(name), ".tdsl")) continue;
    write_file(r, name, td_str_n(s->text, s->length));
  }
  if (r->tir.length > 0) write_file(r, "before.tir", td_buf_view(&r->tir));
  const char *stage = task->stage != NULL ? task->stage : "unknown";
  td_buf_init(&text, task);
  td_buf_printf(&text,
                "tdsl " TDSL_BUILD_VERSION " (" TDSL_BUILD_COMMIT ")\n"
                "%s\nstage: %s\n\n"
                "before.tir is the tensor IR in front of it:\n\n"
                "  tdslc opt before.tir --passes %s\n",
                r->message, stage,
                r->has_kernels ? "lower-to-tiles,mark-safe-loads" : stage);
  if (r->target != NULL) {
    td_buf_printf(&text, "\nm0.cu and so on are the kernels for %s:\n\n"
                  "  nvcc -cubin -arch=%s -std=c++17 -fmad=false m0.cu\n",
                  r->target, r->target);
  }
  write_file(r, "README", td_buf_view(&text));
  td_buf_free(&text);
}

bool drv_reproduce(tdsl_context_t *context, const tdsl_compile_desc_t *desc,
                   const char *folder, const char *message) {
  td_task_t task;
  tdsl_compile_desc_t again = *desc;
  repro_t r = {.context = context,
               .desc = &again,
               .folder = folder,
               .message = message,
               .task = &task};
  again.diagnostic = NULL;
  td_task_init(&task, &context->host);
  td_buf_init(&r.tir, &task);
  (void)td_task_run(&task, compile_again, &r);
  uint32_t before = td_task_errors(&task);
  bool ok = td_task_run(&task, write_all, &r) == TDSL_STATUS_OK &&
            td_task_errors(&task) == before;
  td_task_free(&task);
  return ok;
}
