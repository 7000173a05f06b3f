/* null_device.h: accepts and records every call, and computes nothing.
 *
 * Memory is real and zeroed, copies and fills are made, kernels are not run:
 * tests read the order of calls from the record.  Addresses appear in it as
 * a number of an allocation and an offset ("m2+64"), memory of the caller as
 * a number by first mention ("h1"), so that a record is the same each
 * time. */
#ifndef TDSL_RUNTIME_NULL_DEVICE_H
#define TDSL_RUNTIME_NULL_DEVICE_H

#include "runtime/hal/hal.h"

hal_device_t *rnull_device_create(td_task_t *task);
/* The record so far, one call a line; borrowed until the next call. */
const char *rnull_device_record(const hal_device_t *device);
void rnull_device_clear(hal_device_t *device);

#endif
