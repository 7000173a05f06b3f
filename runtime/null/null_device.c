/* null_device.c: see null_device.h.
 *
 * The record outlives the tasks of single calls, so its memory comes from
 * the allocator hook directly.  A record that cannot grow ends early with
 * the line "(out of memory)" and the calls go on. */
#include "runtime/null/null_device.h"

#include <stdlib.h>

typedef struct rnull_block {
  struct rnull_block *next;
  void *base;          /* what the host gave; NULL: the caller's memory */
  unsigned char *data; /* aligned */
  size_t bytes, total; /* asked for; of `base` */
  uint32_t number;
  bool is_free;
} rnull_block_t;

typedef struct rnull_device {
  hal_device_t base;
  tdsl_allocator_t allocator;
  rnull_block_t *blocks;
  uint32_t own_count, foreign_count;
  char *record;
  size_t length, capacity;
  bool has_failed;
} rnull_device_t;

struct hal_program {
  uint32_t kernel_count;
};

enum { LINE = 64 };

static rnull_device_t *self_of(hal_device_t *device) {
  return (rnull_device_t *)(void *)device;
}

/* NULL stays NULL; bytes 0 frees. */
static void *host_realloc(rnull_device_t *d, void *old, size_t old_bytes,
                          size_t bytes) {
  if (old == NULL && bytes == 0) return NULL;
  const tdsl_allocator_t *a = &d->allocator;
  if (a->function != NULL) return a->function(old, old_bytes, bytes, a->user);
  if (bytes > 0) return realloc(old, bytes);
  free(old);
  return NULL;
}

/* ---- record -------------------------------------------------------------- */

static void put(rnull_device_t *d, const char *text, size_t length) {
  if (d->has_failed) return;
  if (d->length + length + 32 > d->capacity) {
    size_t capacity = (d->length + length + 256) * 2;
    char *grown = host_realloc(d, d->record, d->capacity, capacity);
    if (grown == NULL) {
      d->has_failed = true;
      return;
    }
    d->record = grown;
    d->capacity = capacity;
  }
  memcpy(d->record + d->length, text, length);
  d->length += length;
  d->record[d->length] = '\0';
}

#define RECORD(d, ...)                                                        \
  do {                                                                        \
    char storage_[256];                                                       \
    td_buf_t line_;                                                           \
    td_buf_init_fixed(&line_, storage_, sizeof storage_);                     \
    td_buf_printf(&line_, __VA_ARGS__);                                       \
    put((d), line_.data, line_.length);                                       \
  } while (0)

const char *rnull_device_record(const hal_device_t *device) {
  const rnull_device_t *d = (const rnull_device_t *)(const void *)device;
  if (d->has_failed) return "(out of memory)\n";
  return d->record != NULL ? d->record : "";
}

void rnull_device_clear(hal_device_t *device) {
  rnull_device_t *d = self_of(device);
  d->length = 0;
  if (d->record != NULL) d->record[0] = '\0';
}

/* ---- memory -------------------------------------------------------------- */

static rnull_block_t *add_block(rnull_device_t *d, void *base, void *data,
                                size_t bytes) {
  rnull_block_t *b = host_realloc(d, NULL, 0, sizeof *b);
  if (b == NULL) return NULL;
  memset(b, 0, sizeof *b);
  b->base = base;
  b->data = data;
  b->bytes = bytes;
  b->number = base == NULL ? ++d->foreign_count : ++d->own_count;
  b->next = d->blocks;
  d->blocks = b;
  return b;
}

static void put_address(rnull_device_t *d, const void *data, size_t bytes) {
  uintptr_t at = (uintptr_t)data;
  for (rnull_block_t *b = d->blocks; b != NULL; b = b->next) {
    uintptr_t start = (uintptr_t)b->data;
    bool is_inside = at >= start && at < start + b->bytes;
    if (b->is_free || (!is_inside && at != start)) continue;
    RECORD(d, " %c%u+%llu:%llu", b->base == NULL ? 'h' : 'm', b->number,
           (unsigned long long)(at - start), (unsigned long long)bytes);
    return;
  }
  rnull_block_t *b = add_block(d, NULL, (void *)at, bytes);
  if (b != NULL) {
    RECORD(d, " h%u+0:%llu", b->number, (unsigned long long)bytes);
  }
}

static void *device_alloc(hal_device_t *device, size_t bytes) {
  rnull_device_t *d = self_of(device);
  size_t total;
  if (__builtin_add_overflow(bytes, (size_t)LINE, &total)) return NULL;
  unsigned char *block = host_realloc(d, NULL, 0, total);
  if (block == NULL) return NULL;
  memset(block, 0, total);
  size_t skip = (LINE - (uintptr_t)block % LINE) % LINE;
  rnull_block_t *b = add_block(d, block, block + skip, bytes);
  if (b == NULL) {
    (void)host_realloc(d, block, total, 0);
    return NULL;
  }
  b->total = total;
  RECORD(d, "alloc m%u %llu\n", b->number, (unsigned long long)bytes);
  return b->data;
}

static void device_free(hal_device_t *device, void *data) {
  rnull_device_t *d = self_of(device);
  for (rnull_block_t *b = d->blocks; b != NULL; b = b->next) {
    if (b->data != data || b->is_free || b->base == NULL) continue;
    RECORD(d, "free m%u\n", b->number);
    (void)host_realloc(d, b->base, b->total, 0);
    b->is_free = true;
    return;
  }
}

static bool device_copy(hal_device_t *device, td_task_t *task, void *to,
                        const void *from, size_t bytes) {
  rnull_device_t *d = self_of(device);
  (void)task;
  put(d, "copy", 4);
  put_address(d, to, bytes);
  put_address(d, from, bytes);
  put(d, "\n", 1);
  memmove(to, from, bytes);
  return true;
}

static bool device_fill(hal_device_t *device, td_task_t *task, void *to,
                        int byte, size_t bytes) {
  rnull_device_t *d = self_of(device);
  (void)task;
  put(d, "fill", 4);
  put_address(d, to, bytes);
  RECORD(d, " %d\n", byte);
  memset(to, byte, bytes);
  return true;
}

/* ---- programs ------------------------------------------------------------ */

static hal_program_t *program_load(hal_device_t *device, td_task_t *task,
                                   const plan_t *plan) {
  rnull_device_t *d = self_of(device);
  hal_program_t *p = host_realloc(d, NULL, 0, sizeof *p);
  if (p == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for the kernels");
  }
  p->kernel_count = plan->kernel_count;
  RECORD(d, "load %u kernels\n", plan->kernel_count);
  return p;
}

static void program_unload(hal_device_t *device, hal_program_t *program) {
  rnull_device_t *d = self_of(device);
  if (program == NULL) return;
  RECORD(d, "unload %u kernels\n", program->kernel_count);
  (void)host_realloc(d, program, sizeof *program, 0);
}

static bool device_launch(hal_device_t *device, hal_program_t *program,
                          td_task_t *task, const hal_launch_t *launch) {
  rnull_device_t *d = self_of(device);
  TD_CHECK(task, launch->kernel_index < program->kernel_count,
           "kernel %u of %u", launch->kernel_index, program->kernel_count);
  RECORD(d, "launch %s", launch->kernel->name);
  for (uint32_t i = 0; i < launch->kernel->buffer_count; i++) {
    put_address(d, launch->buffers[i], launch->buffer_bytes[i]);
  }
  for (uint32_t i = 0; i < launch->kernel->scalar_count; i++) {
    RECORD(d, "%s%lld", i == 0 ? " scalars " : ",",
           (long long)launch->scalars[i]);
  }
  RECORD(d, " blocks %lld scratch %llu\n", (long long)launch->block_count,
         (unsigned long long)launch->scratch_bytes);
  return true;
}

static bool device_wait(hal_device_t *device, td_task_t *task) {
  (void)task;
  put(self_of(device), "wait\n", 5);
  return true;
}

static void device_destroy(hal_device_t *device) {
  if (device == NULL) return;
  rnull_device_t *d = self_of(device);
  for (rnull_block_t *b = d->blocks; b != NULL;) {
    rnull_block_t *next = b->next;
    if (b->base != NULL && !b->is_free) {
      (void)host_realloc(d, b->base, b->total, 0);
    }
    (void)host_realloc(d, b, sizeof *b, 0);
    b = next;
  }
  (void)host_realloc(d, d->record, d->capacity, 0);
  rnull_device_t last = *d;
  (void)host_realloc(&last, d, sizeof *d, 0);
}

static const hal_vtable_t vtable = {
    .name = "null",
    .alloc = device_alloc,
    .free = device_free,
    .copy = device_copy,
    .fill = device_fill,
    .load = program_load,
    .unload = program_unload,
    .launch = device_launch,
    .wait = device_wait,
    .destroy = device_destroy,
    .shares_host_memory = true,
};

hal_device_t *rnull_device_create(td_task_t *task) {
  rnull_device_t start = {.allocator = task->host.allocator};
  rnull_device_t *d = host_realloc(&start, NULL, 0, sizeof *d);
  if (d == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory for the device");
  }
  *d = start;
  d->base.vtable = &vtable;
  return &d->base;
}
