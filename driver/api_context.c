/* api_context.c: contexts, their memory, and the frame of every call. */
#include "driver/api.h"

#include <string.h>

#include "driver/build_info.h"
#include "runtime/base/env.h"

tdsl_string_t tdsl_version_get_text(void) {
  return td_str(TDSL_BUILD_VERSION);
}

bool drv_is_known(uint32_t struct_bytes, size_t known) {
  return struct_bytes >= sizeof(uint32_t) && struct_bytes <= known;
}

/* ---- memory -------------------------------------------------------------- */

/* The default allocator is that of the task. */
static tdsl_allocator_t allocator_of(const td_host_t *host) {
  if (host->allocator.function != NULL) return host->allocator;
  td_task_t task;
  td_task_init(&task, NULL);
  return task.host.allocator;
}

void *drv_alloc(tdsl_context_t *context, size_t bytes) {
  const tdsl_allocator_t *a = &context->host.allocator;
  void *data = a->function(NULL, 0, bytes, a->user);
  if (data != NULL) memset(data, 0, bytes);
  return data;
}

void drv_free(tdsl_context_t *context, void *data, size_t bytes) {
  const tdsl_allocator_t *a = &context->host.allocator;
  if (data != NULL) a->function(data, bytes, 0, a->user);
}

/* ---- life ---------------------------------------------------------------- */

tdsl_status_t tdsl_context_create(const tdsl_context_desc_t *desc,
                                  tdsl_context_t **out_context,
                                  tdsl_error_t **out_error) {
  tdsl_context_desc_t d = TDSL_CONTEXT_DESC_INIT;
  *out_context = NULL;
  if (out_error != NULL) *out_error = NULL;
  if (desc != NULL) {
    if (!drv_is_known(desc->struct_bytes, sizeof d)) {
      return drv_refuse(NULL, TDSL_STATUS_INVALID_ARGUMENT,
                        "the context's descriptor is of another version",
                        out_error);
    }
    memcpy(&d, desc, desc->struct_bytes);
  }
  td_host_t host = {d.allocator, d.log, d.cancel};
  host.allocator = allocator_of(&host);
  tdsl_context_t *c = host.allocator.function(NULL, 0, sizeof *c,
                                              host.allocator.user);
  if (c == NULL) {
    return drv_refuse(NULL, TDSL_STATUS_OUT_OF_MEMORY, "out of memory",
                      out_error);
  }
  memset(c, 0, sizeof *c);
  atomic_init(&c->references, 1);
  c->host = host;
  c->thread_count = d.thread_count;
  c->diagnostic = d.diagnostic;
  c->diagnostic_user = d.diagnostic_user;
  c->disk_mode = d.cache == TDSL_CACHE_ON        ? HAL_CACHE_ON
                 : d.cache == TDSL_CACHE_OFF     ? HAL_CACHE_OFF
                 : d.cache == TDSL_CACHE_REQUIRE ? HAL_CACHE_REQUIRE
                                                 : HAL_CACHE_DEFAULT;
  if (d.cache_folder.length > 0) {
    c->disk_folder_bytes = d.cache_folder.length + 1;
    c->disk_folder = drv_alloc(c, c->disk_folder_bytes);
    if (c->disk_folder == NULL) {
      (void)host.allocator.function(c, sizeof *c, 0, host.allocator.user);
      return drv_refuse(NULL, TDSL_STATUS_OUT_OF_MEMORY, "out of memory",
                        out_error);
    }
    memcpy(c->disk_folder, d.cache_folder.data, d.cache_folder.length);
  }
  (void)td_mutex_init(&c->lock);
  *out_context = c;
  return TDSL_STATUS_OK;
}

void drv_context_retain(tdsl_context_t *c) {
  atomic_fetch_add(&c->references, 1);
}

void drv_context_release(tdsl_context_t *c) {
  if (c == NULL || atomic_fetch_sub(&c->references, 1) != 1) return;
  tdsl_allocator_t a = c->host.allocator;
  drv_devices_close(c);
  hal_cache_close(c->disk);
  drv_free(c, c->disk_folder, c->disk_folder_bytes);
  td_mutex_free(&c->lock);
  a.function(c, sizeof *c, 0, a.user);
}

void tdsl_context_destroy(tdsl_context_t *c) {
  drv_context_release(c);
}

/* ---- calls --------------------------------------------------------------- */

tdsl_status_t drv_call(const drv_call_t *call, drv_work_fn work, void *arg,
                       tdsl_error_t **out_error) {
  td_task_t task;
  td_task_init(&task, &call->context->host);
  if (call->sources != NULL) {
    /* lent: a push copies, since nothing is free */
    task.sources.data = call->sources->sources.data;
    task.sources.length = call->sources->sources.length;
    task.sources.capacity = task.sources.length;
  }
  tdsl_status_t status = drv_call_on(&task, call, work, arg, out_error);
  td_task_free(&task);
  return status;
}
