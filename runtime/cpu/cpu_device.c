/* cpu_device.c: see cpu_device.h.
 *
 * Kernels are machine code linked by cpu_orc, blocks are shared out by
 * cpu_pool, each worker with a scratch of its own.  Everything is done when
 * a call returns, so there is nothing to wait for. */
#include "runtime/cpu/cpu_device.h"

#include "runtime/base/os.h"
#include "runtime/cpu/cpu_orc.h"
#include "runtime/cpu/cpu_pool.h"

#include <stdlib.h>

enum { LINE = 64 };

typedef struct rcpu_device {
  hal_device_t base;
  tdsl_allocator_t allocator;
  rcpu_pool_t *pool;
  td_mutex_t launching; /* over scratch and the run that uses it */
  void *scratch;        /* threads times `stride` bytes */
  size_t stride;
} rcpu_device_t;

struct hal_program {
  rcpu_code_t *code;
  rcpu_kernel_fn *kernels; /* by kernel of the plan */
  size_t bytes;            /* of this struct with its table */
};

static rcpu_device_t *self_of(hal_device_t *device) {
  return (rcpu_device_t *)(void *)device;
}

/* ---- memory -------------------------------------------------------------- */

static void *host_alloc(const tdsl_allocator_t *a, size_t bytes) {
  if (a->function != NULL) return a->function(NULL, 0, bytes, a->user);
  return malloc(bytes);
}

static void host_free(const tdsl_allocator_t *a, void *data, size_t bytes) {
  if (data == NULL) return;
  if (a->function != NULL) {
    (void)a->function(data, bytes, 0, a->user);
  } else {
    free(data);
  }
}

/* Hosts align to 16, kernels want whole lines: the block is larger and a
 * header before the returned address says where it began. */
typedef struct header {
  void *block;
  size_t bytes;
} header_t;

static void *device_alloc(hal_device_t *device, size_t bytes) {
  rcpu_device_t *d = self_of(device);
  size_t lines;
  if (__builtin_add_overflow(bytes, (size_t)2 * LINE, &lines)) return NULL;
  char *block = host_alloc(&d->allocator, lines);
  if (block == NULL) return NULL;
  td_os_use_large_pages(block, lines);
  size_t skip = LINE + (LINE - (uintptr_t)block % LINE) % LINE;
  header_t head = {block, lines};
  memcpy(block + skip - sizeof head, &head, sizeof head);
  return block + skip;
}

static void device_free(hal_device_t *device, void *data) {
  header_t head;
  if (data == NULL) return;
  memcpy(&head, (char *)data - sizeof head, sizeof head);
  host_free(&self_of(device)->allocator, head.block, head.bytes);
}

static bool device_copy(hal_device_t *device, td_task_t *task, void *to,
                        const void *from, size_t bytes) {
  (void)device, (void)task;
  memmove(to, from, bytes);
  return true;
}

static bool device_fill(hal_device_t *device, td_task_t *task, void *to,
                        int byte, size_t bytes) {
  (void)device, (void)task;
  memset(to, byte, bytes);
  return true;
}

/* ---- programs ------------------------------------------------------------ */

static void program_unload(hal_device_t *device, hal_program_t *program) {
  if (program == NULL) return;
  rcpu_code_destroy(program->code);
  host_free(&self_of(device)->allocator, program, program->bytes);
}

static bool link_kernels(hal_program_t *p, td_task_t *task,
                         const plan_t *plan) {
  for (uint32_t m = 0; m < plan->module_count; m++) {
    const plan_module_t *module = &plan->modules[m];
    if (module->payload != PLAN_PAYLOAD_OBJECT) {
      td_diag(task, TD_B06, TD_NO_LOC, "module %s is no machine code",
              module->name);
      return false;
    }
    if (!rcpu_code_add(p->code, task, module->data, module->bytes)) {
      return false;
    }
  }
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    p->kernels[k] = rcpu_code_find(p->code, task, plan->kernels[k].symbol);
    if (p->kernels[k] == NULL) return false;
  }
  return true;
}

static hal_program_t *program_load(hal_device_t *device, td_task_t *task,
                                   const plan_t *plan) {
  rcpu_device_t *d = self_of(device);
  size_t bytes = sizeof(hal_program_t) +
                 ((size_t)plan->kernel_count + 1) * sizeof(rcpu_kernel_fn);
  hal_program_t *p = host_alloc(&d->allocator, bytes);
  if (p == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for the kernels");
  }
  memset(p, 0, bytes);
  p->bytes = bytes;
  p->kernels = (rcpu_kernel_fn *)(void *)(p + 1);
  p->code = rcpu_code_create(task);
  if (p->code == NULL || !link_kernels(p, task, plan)) {
    program_unload(device, p);
    return NULL;
  }
  return p;
}

/* ---- launches ------------------------------------------------------------ */

typedef struct job {
  rcpu_kernel_fn kernel;
  const hal_launch_t *launch;
  char *scratch;
  size_t stride;
} job_t;

static void run_blocks(void *context, uint32_t worker, int64_t begin,
                       int64_t end) {
  const job_t *job = context;
  job->kernel(job->launch->buffers, job->launch->scalars,
              job->scratch + worker * job->stride, begin, end);
}

/* Scratch of at least `bytes` for each worker; false: no memory. */
static bool grow_scratch(rcpu_device_t *d, size_t bytes) {
  if (d->scratch != NULL && bytes <= d->stride) return true;
  /* a page between workers keeps prefetchers out of each other's lines */
  size_t stride, total;
  if (__builtin_add_overflow(bytes, (size_t)4095, &stride)) return false;
  stride = stride / 4096 * 4096 + LINE;
  if (__builtin_mul_overflow(stride, (size_t)rcpu_pool_threads(d->pool),
                             &total)) {
    return false;
  }
  device_free(&d->base, d->scratch);
  d->stride = 0;
  d->scratch = device_alloc(&d->base, total);
  if (d->scratch == NULL) return false;
  d->stride = stride;
  return true;
}

static bool device_launch(hal_device_t *device, hal_program_t *program,
                          td_task_t *task, const hal_launch_t *launch) {
  rcpu_device_t *d = self_of(device);
  td_mutex_lock(&d->launching);
  bool ok = grow_scratch(d, launch->scratch_bytes);
  if (ok) {
    job_t job = {program->kernels[launch->kernel_index], launch, d->scratch,
                 d->stride};
    rcpu_pool_run(d->pool, launch->block_count, run_blocks, &job);
  }
  td_mutex_unlock(&d->launching);
  if (!ok) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY,
             "no memory for the scratch of %s: %zu bytes a thread",
             launch->kernel->name, launch->scratch_bytes);
  }
  return true;
}

static void device_destroy(hal_device_t *device) {
  if (device == NULL) return;
  rcpu_device_t *d = self_of(device);
  tdsl_allocator_t allocator = d->allocator;
  device_free(device, d->scratch);
  rcpu_pool_destroy(d->pool);
  td_mutex_free(&d->launching);
  host_free(&allocator, d, sizeof *d);
}

static const hal_vtable_t vtable = {
    .name = "cpu",
    .alloc = device_alloc,
    .free = device_free,
    .copy = device_copy,
    .fill = device_fill,
    .load = program_load,
    .unload = program_unload,
    .launch = device_launch,
    .destroy = device_destroy,
    .shares_host_memory = true,
};

hal_device_t *rcpu_device_create(td_task_t *task, uint32_t threads) {
  const tdsl_allocator_t *allocator = &task->host.allocator;
  rcpu_device_t *d = host_alloc(allocator, sizeof *d);
  if (d == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for the device");
  }
  memset(d, 0, sizeof *d);
  d->base.vtable = &vtable;
  d->allocator = *allocator;
  d->pool = rcpu_pool_create(threads);
  if (d->pool == NULL || !td_mutex_init(&d->launching)) {
    rcpu_pool_destroy(d->pool);
    host_free(allocator, d, sizeof *d);
    td_diag(task, TD_B04, TD_NO_LOC, "cpu: no threads can be started");
    return NULL;
  }
  return &d->base;
}
