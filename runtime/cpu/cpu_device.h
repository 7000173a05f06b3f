/* cpu_device.h: this machine's cores as a device of runtime/hal. */
#ifndef TDSL_RUNTIME_CPU_DEVICE_H
#define TDSL_RUNTIME_CPU_DEVICE_H

#include "runtime/hal/hal.h"

/* threads 0: the usable cores.  NULL after a diagnostic.  The allocator hook
 * of the task's host must outlive the device.  Several threads may launch;
 * their kernels take turns. */
hal_device_t *rcpu_device_create(td_task_t *task, uint32_t threads);

#endif
