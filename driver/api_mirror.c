/* api_mirror.c: buffers whose contents stay on a device between runs.
 *
 * A buffer of the library whose memory no host has a pointer to is copied to
 * the device by the first run that reads it and from the device when somebody
 * asks: weights go over once, state stays there.  Which side is current:
 *
 *   device_is_current   the device's memory holds the contents
 *   host_is_old         only the device's does
 *
 * A pointer that was handed out may be used at any time, so such a buffer is
 * copied in every run, unless the host has promised to ask anew
 * (tdsl_buffer_set_resident).  The context's lock is over all of it, since
 * weights are shared by runs of many threads. */
#include "driver/api.h"

enum { DRV_LEAST_BYTES = 64 };

static bool may_stay(const tdsl_buffer_t *b) {
  if (b->memory == DRV_MEMORY_DLPACK) return false;
  return b->is_resident || (!b->is_exposed && b->memory != DRV_MEMORY_HOST);
}

/* ---- to the host --------------------------------------------------------- */

static void fetch_work(td_task_t *task, void *arg) {
  tdsl_buffer_t *b = arg;
  if (b->bytes > 0 &&
      !b->device->vtable->download(b->device, task, b->data, b->device_data,
                                   b->bytes)) {
    td_raise(task, TDSL_STATUS_INTERNAL, "the contents cannot be read back");
  }
}

static void unlock(void *mutex) {
  td_mutex_unlock(mutex);
}

void drv_buffer_bring(td_task_t *task, tdsl_buffer_t *b) {
  if (!atomic_load(&b->host_is_old)) return;
  td_defer(task, unlock, &b->context->lock);
  td_mutex_lock(&b->context->lock);
  if (atomic_load(&b->host_is_old)) {
    fetch_work(task, b);
    atomic_store(&b->host_is_old, false);
  }
  td_undefer(task, true);
}

static void bring(td_task_t *task, void *arg) {
  drv_buffer_bring(task, arg);
}

bool drv_buffer_fetch(tdsl_buffer_t *b) {
  if (!atomic_load(&b->host_is_old)) return true;
  td_task_t task;
  td_task_init(&task, &b->context->host);
  tdsl_status_t status = td_task_run(&task, bring, b);
  td_task_free(&task);
  return status == TDSL_STATUS_OK;
}

void *drv_buffer_open(tdsl_buffer_t *b) {
  if (!drv_buffer_fetch(b)) return NULL;
  b->device_is_current = false;
  return b->data;
}

void *drv_buffer_expose(tdsl_buffer_t *b) {
  void *data = drv_buffer_open(b);
  if (data != NULL) b->is_exposed = true;
  return data;
}

void drv_buffer_unplace(tdsl_buffer_t *b) {
  if (b->device_data != NULL) {
    b->device->vtable->free(b->device, b->device_data);
  }
  b->device_data = NULL;
  b->device_is_current = false;
}

/* ---- to the device ------------------------------------------------------- */

typedef struct place_call {
  tdsl_buffer_t *buffer;
  hal_device_t *device;
  bool is_read;
  size_t copied;
} place_call_t;

static void place_work(td_task_t *task, void *arg) {
  place_call_t *c = arg;
  tdsl_buffer_t *b = c->buffer;
  if (b->device_data == NULL) {
    b->device = c->device;
    /* memory of a device is never empty: PLAN's sums count on it */
    b->device_data = c->device->vtable->alloc(
        c->device, b->bytes > 0 ? b->bytes : DRV_LEAST_BYTES);
  }
  if (b->device_data == NULL || b->device_is_current || !c->is_read) return;
  if (b->bytes > 0 && !c->device->vtable->upload(c->device, task,
                                                 b->device_data, b->data,
                                                 b->bytes)) {
    td_raise(task, TDSL_STATUS_INTERNAL, "the contents cannot be copied");
  }
  b->device_is_current = true;
  c->copied = b->bytes;
}

/* Whoever uses the host's memory needs it current, and leaves the device's
 * old if it writes. */
static void use_host(td_task_t *task, tdsl_buffer_t *b, bool is_written) {
  drv_buffer_bring(task, b);
  if (is_written) b->device_is_current = false;
}

/* Another thread may be placing it just now. */
static bool is_elsewhere(tdsl_buffer_t *b, const hal_device_t *device) {
  td_mutex_lock(&b->context->lock);
  bool result = b->device_data != NULL && b->device != device;
  td_mutex_unlock(&b->context->lock);
  return result;
}

size_t drv_buffer_use(td_task_t *task, tdsl_buffer_t *b, hal_device_t *device,
                      const plan_slot_t *slot, bool on_host, hal_arg_t *arg) {
  bool is_own = device != NULL && !device->vtable->shares_host_memory;
  if (!is_own || !may_stay(b) || is_elsewhere(b, device)) {
    use_host(task, b, slot->kind != PLAN_IN);
    if (!is_own || !may_stay(b)) return 0;
    drv_buffer_unplace(b); /* of another device */
  }
  /* values that the entry's checks look at */
  if (on_host || slot->rank == 0 || slot->has_range) use_host(task, b, false);
  place_call_t call = {b, device, slot->kind != PLAN_OUT, 0};
  td_defer(task, unlock, &b->context->lock);
  td_mutex_lock(&b->context->lock);
  place_work(task, &call);
  td_undefer(task, true);
  arg->device_data = b->device_data;
  return call.copied;
}

void drv_buffer_used(tdsl_buffer_t *b, const plan_slot_t *slot, bool is_good) {
  if (slot->kind == PLAN_IN || b->device_data == NULL) return;
  b->device_is_current = is_good;
  if (is_good) atomic_store(&b->host_is_old, true);
}

/* ---- public -------------------------------------------------------------- */

static void fetch_public(td_task_t *task, void *arg) {
  use_host(task, arg, false);
}

tdsl_status_t tdsl_buffer_fetch(tdsl_buffer_t *buffer,
                                tdsl_error_t **out_error) {
  drv_call_t call = {.context = buffer->context};
  return drv_call(&call, fetch_public, buffer, out_error);
}

typedef struct resident_call {
  tdsl_buffer_t *buffer;
  bool is_on;
} resident_call_t;

static void resident_work(td_task_t *task, void *arg) {
  resident_call_t *c = arg;
  tdsl_buffer_t *b = c->buffer;
  if (b->memory == DRV_MEMORY_DLPACK && c->is_on) {
    td_raise(task, TDSL_STATUS_INVALID_ARGUMENT,
             "memory of a DLPack tensor is used in place");
  }
  if (!c->is_on) use_host(task, b, true);
  b->is_resident = c->is_on;
}

tdsl_status_t tdsl_buffer_set_resident(tdsl_buffer_t *buffer, uint32_t on,
                                       tdsl_error_t **out_error) {
  resident_call_t c = {buffer, on != 0};
  drv_call_t call = {.context = buffer->context};
  return drv_call(&call, resident_work, &c, out_error);
}
