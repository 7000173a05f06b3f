/* api_kir_device.c: a device of runtime/hal that interprets KIR.
 *
 * The plan carries the kernels as KIR text, which is read back when the plan
 * is loaded: a run also tests that text and plan say all there is to say.
 * Every access is checked against the buffers' dims. */
#include "driver/api_backend.h"

enum { LINE = 64 };

typedef struct kir_device {
  hal_device_t base;
  td_host_t host;
} kir_device_t;

/* Kernels live in the program's own task, which is never shared: the
 * interpreter only reads them. */
struct hal_program {
  td_task_t task;
  kir_kernel_t **kernels; /* by kernel of the plan */
};

/* A header in front of each block remembers what the hook gave. */
typedef struct block {
  void *base;
  size_t bytes;
} block_t;

static void *host_alloc(const td_host_t *host, size_t bytes) {
  return host->allocator.function(NULL, 0, bytes, host->allocator.user);
}

static void host_free(const td_host_t *host, void *data, size_t bytes) {
  host->allocator.function(data, bytes, 0, host->allocator.user);
}

static const td_host_t *host_of(hal_device_t *device) {
  return &((kir_device_t *)(void *)device)->host;
}

static void *device_alloc(hal_device_t *device, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  size_t total = bytes + 2 * LINE;
  char *base = host_alloc(host_of(device), total);
  if (base == NULL) return NULL;
  char *data = base + LINE + (LINE - (uintptr_t)base % LINE) % LINE;
  block_t head = {base, total};
  memcpy(data - sizeof head, &head, sizeof head);
  return data;
}

static void device_free(hal_device_t *device, void *data) {
  block_t head;
  if (data == NULL) return;
  memcpy(&head, (char *)data - sizeof head, sizeof head);
  host_free(host_of(device), head.base, head.bytes);
}

static bool device_copy(hal_device_t *device, td_task_t *task, void *to,
                        const void *from, size_t bytes) {
  (void)device;
  (void)task;
  memmove(to, from, bytes);
  return true;
}

static bool device_fill(hal_device_t *device, td_task_t *task, void *to,
                        int byte, size_t bytes) {
  (void)device;
  (void)task;
  memset(to, byte, bytes);
  return true;
}

/* ---- programs ----------------------------------------------------------- */

typedef struct load_call {
  hal_program_t *program;
  const plan_t *plan;
} load_call_t;

static void load_module(td_task_t *task, load_call_t *c, uint32_t m) {
  const plan_module_t *module = &c->plan->modules[m];
  td_arena_t *arena = &task->arena;
  if (module->payload != PLAN_PAYLOAD_KIR) {
    td_raise(task, TDSL_STATUS_UNAVAILABLE, "module %s is no KIR text",
             module->name);
  }
  uint32_t file =
      td_sources_add(task, module->name, module->data, module->bytes);
  kir_kernel_t **read = kir_parse(task, arena, file);
  if (read == NULL) {
    TD_ICE(task, "KIR text cannot be read: %s",
           task->diags.length > 0 ? task->diags.data[0]->text : "no reason");
  }
  for (uint32_t k = 0; k < c->plan->kernel_count; k++) {
    const plan_kernel_t *want = &c->plan->kernels[k];
    for (uint32_t i = 0; read[i] != NULL && want->module == m; i++) {
      if (strcmp(read[i]->name, want->symbol) == 0) {
        c->program->kernels[k] = read[i];
      }
    }
  }
}

static void load_work(td_task_t *task, void *arg) {
  load_call_t *c = arg;
  uint32_t n = c->plan->kernel_count;
  task->stage = "load";
  c->program->kernels = TD_NEW_ARRAY(&task->arena, kir_kernel_t *, n + 1);
  for (uint32_t m = 0; n > 0 && m < c->plan->module_count; m++) {
    load_module(task, c, m);
  }
  for (uint32_t k = 0; k < n; k++) {
    TD_CHECK(task, c->program->kernels[k] != NULL, "kernel %s is not there",
             c->plan->kernels[k].symbol);
    (void)kir_verify(task, c->program->kernels[k], "load", false);
  }
}

static void device_unload(hal_device_t *device, hal_program_t *program) {
  if (program == NULL) return;
  td_task_free(&program->task);
  host_free(host_of(device), program, sizeof *program);
}

static hal_program_t *device_load(hal_device_t *device, td_task_t *task,
                                  const plan_t *plan) {
  hal_program_t *p = host_alloc(host_of(device), sizeof *p);
  if (p == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for the kernels");
  }
  load_call_t call = {p, plan};
  td_task_init(&p->task, host_of(device));
  tdsl_status_t status = td_task_run(&p->task, load_work, &call);
  if (status == TDSL_STATUS_OK) return p;
  char message[sizeof p->task.message];
  memcpy(message, p->task.message, sizeof message);
  device_unload(device, p);
  td_raise(task, status, "%s", message);
}

static bool device_launch(hal_device_t *device, hal_program_t *program,
                          td_task_t *task, const hal_launch_t *launch) {
  (void)device;
  return kir_interpret(task, program->kernels[launch->kernel_index],
                       launch->buffers, launch->scalars, true, false);
}

static void device_destroy(hal_device_t *device) {
  kir_device_t *d = (kir_device_t *)(void *)device;
  td_host_t host = d->host;
  host_free(&host, d, sizeof *d);
}

static const hal_vtable_t vtable = {
    .name = "interp:kir",
    .alloc = device_alloc,
    .free = device_free,
    .copy = device_copy,
    .fill = device_fill,
    .load = device_load,
    .unload = device_unload,
    .launch = device_launch,
    .destroy = device_destroy,
    .shares_host_memory = true,
};

hal_device_t *drv_kir_device_create(const td_host_t *host) {
  kir_device_t *d = host_alloc(host, sizeof *d);
  if (d == NULL) return NULL;
  d->base.vtable = &vtable;
  d->host = *host;
  return &d->base;
}
