/* api_dlpack.c: tensors shared with other libraries, in their common form
 * (https://github.com/dmlc/dlpack).  Own declarations of its frozen structs;
 * the layout is asserted. */
#include "driver/api.h"

#include "runtime/base/num.h"

typedef struct dl_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides; /* strides count elements; NULL: compact */
  uint64_t byte_offset;
} dl_tensor_t;

typedef struct dl_managed {
  dl_tensor_t tensor;
  void *manager;
  void (*deleter)(struct dl_managed *self);
} dl_managed_t;

typedef struct dl_versioned {
  uint32_t major, minor;
  void *manager;
  void (*deleter)(struct dl_versioned *self);
  uint64_t flags; /* bit 0: read-only */
  dl_tensor_t tensor;
} dl_versioned_t;

_Static_assert(sizeof(dl_tensor_t) == 48, "frozen layout");
_Static_assert(offsetof(dl_tensor_t, rank) == 16, "frozen layout");
_Static_assert(offsetof(dl_tensor_t, code) == 20, "frozen layout");
_Static_assert(offsetof(dl_tensor_t, shape) == 24, "frozen layout");
_Static_assert(offsetof(dl_tensor_t, byte_offset) == 40, "frozen layout");
_Static_assert(sizeof(dl_managed_t) == 64, "frozen layout");
_Static_assert(sizeof(dl_versioned_t) == 80, "frozen layout");

enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_READ_ONLY = 1, DL_MAJOR = 1 };

/* Type codes: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 and 12 f8. */
static const struct {
  tdsl_dtype_t dtype;
  uint8_t code, bits;
} types[] = {
    {TDSL_DTYPE_F64, 2, 64},    {TDSL_DTYPE_F32, 2, 32},
    {TDSL_DTYPE_F16, 2, 16},    {TDSL_DTYPE_BF16, 4, 16},
    {TDSL_DTYPE_F8E4M3, 10, 8}, {TDSL_DTYPE_F8E5M2, 12, 8},
    {TDSL_DTYPE_I64, 0, 64},    {TDSL_DTYPE_I32, 0, 32},
    {TDSL_DTYPE_I8, 0, 8},      {TDSL_DTYPE_U8, 1, 8},
    {TDSL_DTYPE_BOOL, 6, 8},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static void drop(void *managed, bool is_versioned) {
  if (is_versioned) {
    dl_versioned_t *v = managed;
    if (v->deleter != NULL) v->deleter(v);
  } else {
    dl_managed_t *m = managed;
    if (m->deleter != NULL) m->deleter(m);
  }
}

void drv_dlpack_drop(tdsl_buffer_t *b) {
  drop(b->owned, b->is_versioned);
}

/* ---- in ------------------------------------------------------------------ */

typedef struct import_call {
  tdsl_context_t *context;
  void *managed;
  bool is_versioned;
  tdsl_buffer_t *made;
} import_call_t;

static void refuse(td_task_t *task, const char *rule) {
  td_diag(task, TD_R08, TD_NO_LOC, "DLPack tensor: %s", rule);
}

/* Compact and row-major; dims of extent 1 may have any stride. */
static bool is_dense(const dl_tensor_t *t) {
  int64_t step = 1;
  if (t->strides == NULL) return true;
  for (int32_t d = t->rank; d > 0; d--) {
    if (t->shape[d - 1] == 0) return true;
    if (t->shape[d - 1] != 1 && t->strides[d - 1] != step) return false;
    if (!td_mul_i64(step, t->shape[d - 1], &step)) return false;
  }
  return true;
}

static tdsl_dtype_t dtype_of(const dl_tensor_t *t) {
  for (int i = 0; i < TYPE_COUNT; i++) {
    if (types[i].code == t->code && types[i].bits == t->bits &&
        t->lanes == 1) {
      return types[i].dtype;
    }
  }
  return TDSL_DTYPE_UNSET;
}

static void import_work(td_task_t *task, void *arg) {
  import_call_t *c = arg;
  const dl_versioned_t *v = c->managed;
  const dl_managed_t *m = c->managed;
  if (c->is_versioned && v->major != DL_MAJOR) {
    refuse(task, "its version is not known");
    return;
  }
  const dl_tensor_t *t = c->is_versioned ? &v->tensor : &m->tensor;
  tdsl_tensor_desc_t desc = {.dtype = dtype_of(t)};
  size_t count, bytes;
  if (t->device_type != DL_CPU && t->device_type != DL_CUDA_HOST) {
    refuse(task, "it is not in the memory of the host");
    return;
  }
  if (t->rank < 0 || t->rank > TDSL_MAX_RANK) {
    refuse(task, "it has more than 12 dims");
    return;
  }
  desc.rank = (uint32_t)t->rank;
  for (int32_t d = 0; d < t->rank; d++) desc.dims[d] = t->shape[d];
  if (desc.dtype == TDSL_DTYPE_UNSET) {
    refuse(task, "its element type has no counterpart");
  } else if (!drv_tensor_bytes(&desc, &count, &bytes)) {
    refuse(task, "its size overflows");
  } else if (!is_dense(t)) {
    refuse(task, "it is not dense and row-major");
  } else {
    void *data = (char *)t->data + t->byte_offset;
    if (bytes > 0 && ((uintptr_t)data & 15) != 0) {
      refuse(task, "its base is not aligned to 16 bytes");
      return;
    }
    c->made = drv_buffer_wrap(task, c->context, &desc, data,
                              DRV_MEMORY_DLPACK);
    c->made->owned = c->managed;
    c->made->is_versioned = c->is_versioned;
    c->made->is_readonly =
        c->is_versioned && (v->flags & DL_READ_ONLY) != 0;
  }
}

tdsl_status_t tdsl_buffer_import_dlpack(tdsl_context_t *context,
                                        void *managed, int versioned,
                                        tdsl_buffer_t **out_buffer,
                                        tdsl_error_t **out_error) {
  import_call_t c = {context, managed, versioned != 0, NULL};
  drv_call_t call = {.context = context};
  tdsl_status_t status = drv_call(&call, import_work, &c, out_error);
  if (status != TDSL_STATUS_OK && c.made == NULL) {
    drop(managed, versioned != 0);
  }
  *out_buffer = c.made;
  return status;
}

/* ---- out ----------------------------------------------------------------- */

/* One block: the managed tensor, its shape and strides, the buffer. */
typedef struct exported {
  dl_versioned_t managed;
  int64_t shape[TDSL_MAX_RANK], strides[TDSL_MAX_RANK];
  tdsl_buffer_t *buffer;
  tdsl_context_t *context;
} exported_t;

static void end_export(dl_versioned_t *managed) {
  exported_t *e = managed->manager;
  tdsl_context_t *context = e->context;
  tdsl_buffer_release(e->buffer);
  drv_free(context, e, sizeof *e);
  drv_context_release(context);
}

tdsl_status_t tdsl_buffer_export_dlpack(tdsl_buffer_t *buffer,
                                        void **out_managed,
                                        tdsl_error_t **out_error) {
  tdsl_context_t *context = buffer->context;
  *out_managed = NULL;
  if (out_error != NULL) *out_error = NULL;
  exported_t *e = drv_alloc(context, sizeof *e);
  if (e == NULL) {
    return drv_refuse(context, TDSL_STATUS_OUT_OF_MEMORY, "out of memory",
                      out_error);
  }
  dl_tensor_t *t = &e->managed.tensor;
  int64_t step = 1;
  for (uint32_t d = buffer->desc.rank; d > 0; d--) {
    e->shape[d - 1] = buffer->desc.dims[d - 1];
    e->strides[d - 1] = step;
    int64_t n = e->shape[d - 1];
    step = td_wrap_mul(step, n > 0 ? n : 1);
  }
  for (int i = 0; i < TYPE_COUNT; i++) {
    if (types[i].dtype != buffer->desc.dtype) continue;
    t->code = types[i].code;
    t->bits = types[i].bits;
  }
  t->lanes = 1;
  t->data = drv_buffer_expose(buffer);
  t->device_type = DL_CPU;
  t->rank = (int32_t)buffer->desc.rank;
  t->shape = e->shape;
  t->strides = e->strides;
  e->managed.major = DL_MAJOR;
  e->managed.manager = e;
  e->managed.deleter = end_export;
  e->managed.flags = buffer->is_readonly ? DL_READ_ONLY : 0;
  e->buffer = buffer;
  e->context = context;
  tdsl_buffer_retain(buffer);
  drv_context_retain(context);
  *out_managed = &e->managed;
  return TDSL_STATUS_OK;
}
