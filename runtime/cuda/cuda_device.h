/* cuda_device.h: an NVIDIA GPU, or what stands in for one, as a device of
 * runtime/hal. */
#ifndef TDSL_RUNTIME_CUDA_DEVICE_H
#define TDSL_RUNTIME_CUDA_DEVICE_H

#include "runtime/cuda/cuda_dl.h"
#include "runtime/hal/cache.h"
#include "runtime/hal/hal.h"

typedef struct rcuda_device_desc {
  const char *library;   /* path of the driver; NULL: the usual search */
  uint32_t ordinal;
  const char *simulated; /* items for simgpu_configure; NULL: a real driver */
  hal_cache_t *cache;    /* of compiled modules, or NULL; outlives the device */
} rcuda_device_desc_t;

/* NULL after B04 or B05.  The allocator hook of the task's host must outlive
 * the device.  Several threads may launch; work is done in the order of the
 * calls. */
hal_device_t *rcuda_device_create(td_task_t *task,
                                  const rcuda_device_desc_t *desc);

/* Launches that the simulated driver has counters of, and a line of JSON for
 * one: as much as fits, the length of the whole is returned.  Nothing on a
 * real driver. */
size_t rcuda_counters_count(const hal_device_t *device);
size_t rcuda_counters_get(const hal_device_t *device, size_t index, char *out,
                          size_t bytes);

/* Ten times the compute capability. */
uint32_t rcuda_device_sm(const hal_device_t *device);
/* "NVIDIA H200"; lives as long as the device. */
const char *rcuda_device_name(const hal_device_t *device);

#endif
