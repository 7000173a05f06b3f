/* api_buffer.c: dense tensors in memory. */
#include "driver/api.h"

#include <math.h>

#include "runtime/base/num.h"
#include "runtime/io/npy.h"

/* Vector loads run best from here; the contract asks for 16. */
enum { DRV_ALIGNMENT = 64 };

bool drv_tensor_bytes(const tdsl_tensor_desc_t *desc, size_t *out_count,
                      size_t *out_bytes) {
  io_tensor_t t = {.dtype = desc->dtype, .rank = (int)desc->rank};
  if (desc->rank > TDSL_MAX_RANK || td_dtype_bytes(desc->dtype) == 0) {
    return false;
  }
  for (uint32_t d = 0; d < desc->rank; d++) t.dims[d] = desc->dims[d];
  if (!io_tensor_size(&t)) return false;
  *out_count = t.count;
  *out_bytes = t.bytes;
  return true;
}

static tdsl_buffer_t *new_buffer(td_task_t *task, tdsl_context_t *context,
                                 const tdsl_tensor_desc_t *desc) {
  size_t count, bytes;
  if (!drv_tensor_bytes(desc, &count, &bytes)) {
    td_raise(task, TDSL_STATUS_INVALID_ARGUMENT,
             "no tensor has this dtype, rank and dims");
  }
  tdsl_buffer_t *b = drv_alloc(context, sizeof *b);
  if (b == NULL) td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "out of memory");
  atomic_init(&b->references, 1);
  b->context = context;
  drv_context_retain(context);
  b->desc = *desc;
  b->bytes = bytes;
  return b;
}

tdsl_buffer_t *drv_buffer_new(td_task_t *task, tdsl_context_t *context,
                              const tdsl_tensor_desc_t *desc) {
  tdsl_buffer_t *b = new_buffer(task, context, desc);
  b->owned_bytes = b->bytes + DRV_ALIGNMENT;
  b->owned = drv_alloc(context, b->owned_bytes);
  if (b->owned == NULL) {
    size_t bytes = b->bytes;
    tdsl_buffer_release(b);
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes",
             bytes);
  }
  uintptr_t base = (uintptr_t)b->owned;
  size_t skip = (DRV_ALIGNMENT - base % DRV_ALIGNMENT) % DRV_ALIGNMENT;
  b->data = (char *)b->owned + skip;
  return b;
}

tdsl_buffer_t *drv_buffer_wrap(td_task_t *task, tdsl_context_t *context,
                               const tdsl_tensor_desc_t *desc, void *data,
                               drv_memory_t memory) {
  tdsl_buffer_t *b = new_buffer(task, context, desc);
  b->data = data;
  b->memory = memory;
  b->is_readonly = memory == DRV_MEMORY_MAPPED;
  return b;
}

void drv_buffer_tensor(td_task_t *task, tdsl_buffer_t *b,
                       io_tensor_t *out) {
  size_t bytes;
  memset(out, 0, sizeof *out);
  out->dtype = b->desc.dtype;
  out->rank = (int)b->desc.rank;
  for (uint32_t d = 0; d < b->desc.rank; d++) out->dims[d] = b->desc.dims[d];
  drv_tensor_bytes(&b->desc, &out->count, &bytes);
  out->bytes = b->bytes;
  drv_buffer_bring(task, b);
  out->data = b->data;
}

/* ---- public -------------------------------------------------------------- */

typedef struct buffer_call {
  tdsl_context_t *context;
  const tdsl_tensor_desc_t *desc;
  void *data;
  size_t bytes;
  tdsl_string_t path;
  tdsl_dtype_t wanted;
  const tdsl_buffer_t *from;
  tdsl_buffer_t *made;
} buffer_call_t;

static void create_work(td_task_t *task, void *arg) {
  buffer_call_t *c = arg;
  c->made = drv_buffer_new(task, c->context, c->desc);
}

tdsl_status_t tdsl_buffer_create(tdsl_context_t *context,
                                 const tdsl_tensor_desc_t *desc,
                                 tdsl_buffer_t **out_buffer,
                                 tdsl_error_t **out_error) {
  buffer_call_t c = {.context = context, .desc = desc};
  drv_call_t call = {.context = context};
  tdsl_status_t status = drv_call(&call, create_work, &c, out_error);
  *out_buffer = c.made;
  return status;
}

static void wrap_work(td_task_t *task, void *arg) {
  buffer_call_t *c = arg;
  size_t count, bytes;
  if (!drv_tensor_bytes(c->desc, &count, &bytes)) {
    td_raise(task, TDSL_STATUS_INVALID_ARGUMENT,
             "no tensor has this dtype, rank and dims");
  }
  if (bytes != c->bytes) {
    td_diag(task, TD_R08, TD_NO_LOC,
            "the memory has %zu bytes, the tensor %zu", c->bytes, bytes);
  } else if (bytes > 0 && ((uintptr_t)c->data & 15) != 0) {
    td_diag(task, TD_R08, TD_NO_LOC,
            "the base is not aligned to 16 bytes");
  } else {
    c->made = drv_buffer_wrap(task, c->context, c->desc, c->data,
                              DRV_MEMORY_HOST);
  }
}

tdsl_status_t tdsl_buffer_wrap(tdsl_context_t *context,
                               const tdsl_tensor_desc_t *desc, void *data,
                               size_t data_bytes, tdsl_buffer_t **out_buffer,
                               tdsl_error_t **out_error) {
  buffer_call_t c = {.context = context, .desc = desc, .data = data,
                     .bytes = data_bytes};
  drv_call_t call = {.context = context};
  tdsl_status_t status = drv_call(&call, wrap_work, &c, out_error);
  *out_buffer = c.made;
  return status;
}

void tdsl_buffer_retain(tdsl_buffer_t *b) {
  if (b != NULL) atomic_fetch_add(&b->references, 1);
}

void tdsl_buffer_release(tdsl_buffer_t *b) {
  if (b == NULL || atomic_fetch_sub(&b->references, 1) != 1) return;
  tdsl_context_t *context = b->context;
  drv_buffer_unplace(b);
  if (b->memory == DRV_MEMORY_DLPACK) drv_dlpack_drop(b);
  if (b->memory == DRV_MEMORY_OWN) {
    drv_free(context, b->owned, b->owned_bytes);
  }
  drv_free(context, b, sizeof *b);
  drv_context_release(context);
}

const tdsl_tensor_desc_t *tdsl_buffer_get_desc(const tdsl_buffer_t *b) {
  return &b->desc;
}

void *tdsl_buffer_get_data(tdsl_buffer_t *b) {
  return b == NULL ? NULL : drv_buffer_expose(b);
}

size_t tdsl_buffer_get_bytes(const tdsl_buffer_t *b) {
  return b->bytes;
}

uint64_t tdsl_buffer_get_count(const tdsl_buffer_t *b) {
  return b->bytes / td_dtype_bytes(b->desc.dtype);
}

double tdsl_buffer_read_float(const tdsl_buffer_t *b, uint64_t index) {
  size_t step = td_dtype_bytes(b->desc.dtype);
  if (index >= tdsl_buffer_get_count(b)) return 0;
  if (!drv_buffer_fetch((tdsl_buffer_t *)(uintptr_t)b)) return (double)NAN;
  return td_load_f64(b->desc.dtype, (const char *)b->data + index * step);
}

int64_t tdsl_buffer_read_int(const tdsl_buffer_t *b, uint64_t index) {
  size_t step = td_dtype_bytes(b->desc.dtype);
  if (index >= tdsl_buffer_get_count(b)) return 0;
  if (!drv_buffer_fetch((tdsl_buffer_t *)(uintptr_t)b)) return 0;
  const char *place = (const char *)b->data + index * step;
  if (td_dtype_is_float(b->desc.dtype)) {
    return td_f64_to_i64(td_load_f64(b->desc.dtype, place));
  }
  return td_load_i64(b->desc.dtype, place);
}

/* ---- npy ----------------------------------------------------------------- */

static void load_work(td_task_t *task, void *arg) {
  buffer_call_t *c = arg;
  td_arena_t arena;
  io_tensor_t t, converted;
  td_arena_init(&arena, task);
  const char *path = td_str_cstr(&arena, c->path);
  if (!io_npy_read(task, &arena, path, &t)) return;
  if (c->wanted != TDSL_DTYPE_UNSET && c->wanted != t.dtype) {
    uint32_t file = td_sources_add_file(task, path);
    if (!io_tensor_convert(task, &arena, file, &t, c->wanted, &converted)) {
      return;
    }
    t = converted;
  }
  tdsl_tensor_desc_t desc = {.dtype = t.dtype, .rank = (uint32_t)t.rank};
  for (int d = 0; d < t.rank; d++) desc.dims[d] = t.dims[d];
  c->made = drv_buffer_new(task, c->context, &desc);
  if (t.bytes > 0) memcpy(c->made->data, t.data, t.bytes);
}

tdsl_status_t tdsl_buffer_load_npy(tdsl_context_t *context,
                                   tdsl_string_t path, tdsl_dtype_t wanted,
                                   tdsl_buffer_t **out_buffer,
                                   tdsl_error_t **out_error) {
  buffer_call_t c = {.context = context, .path = path, .wanted = wanted};
  drv_call_t call = {.context = context};
  tdsl_status_t status = drv_call(&call, load_work, &c, out_error);
  *out_buffer = c.made;
  return status;
}

static void save_work(td_task_t *task, void *arg) {
  buffer_call_t *c = arg;
  td_arena_t arena;
  io_tensor_t t;
  td_arena_init(&arena, task);
  drv_buffer_tensor(task, (tdsl_buffer_t *)(uintptr_t)c->from, &t);
  (void)io_npy_write(task, td_str_cstr(&arena, c->path), &t);
}

tdsl_status_t tdsl_buffer_save_npy(const tdsl_buffer_t *buffer,
                                   tdsl_string_t path,
                                   tdsl_error_t **out_error) {
  buffer_call_t c = {.from = buffer, .path = path};
  drv_call_t call = {.context = buffer->context};
  return drv_call(&call, save_work, &c, out_error);
}
