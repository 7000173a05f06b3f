/* api_cache.h: compiled kernels of a context, shared by its programs. */
#ifndef DRIVER_API_CACHE_H
#define DRIVER_API_CACHE_H

#include "codegen/kernel_key.h"
#include "driver/api.h"

/* Machine code of some kernels; counted, immutable. The bytes follow. */
typedef struct drv_object {
  atomic_uint references;
  size_t bytes;
} drv_object_t;

_Static_assert(sizeof(drv_object_t) % 16 == 0, "code stays aligned");

typedef struct drv_cached {
  cg_key_t key;
  drv_object_t *object;
} drv_cached_t;

/* NULL: out of memory. */
drv_object_t *drv_object_create(tdsl_context_t *context, const void *data,
                                size_t bytes);
const void *drv_object_data(const drv_object_t *object);
void drv_object_retain(drv_object_t *object);
void drv_object_release(tdsl_context_t *context, drv_object_t *object);

/* Safe from any thread. NULL: out of memory. */
drv_cache_t *drv_cache_create(tdsl_context_t *context);
void drv_cache_destroy(drv_cache_t *cache);
/* The caller gets a reference of its own. */
bool drv_cache_get(drv_cache_t *cache, cg_key_t key, drv_object_t **out);
/* Enters all kernels of an object, or none if one of them is known. */
void drv_cache_put(drv_cache_t *cache, const cg_key_t *keys, size_t count,
                   drv_object_t *object);

#endif
