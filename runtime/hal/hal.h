/* hal.h: what the executor needs of a device.
 *
 * A device is a table of functions over its own state.  Required slots must
 * be filled; optional ones may be NULL.  One thread at a time uses a loaded
 * program's run state; load and unload are serialised by the caller. */
#ifndef TDSL_RUNTIME_HAL_H
#define TDSL_RUNTIME_HAL_H

#include "runtime/plan/plan.h"

typedef struct hal_device hal_device_t;
typedef struct hal_program hal_program_t; /* a plan's kernels, loaded */
typedef struct hal_graph hal_graph_t;     /* captured launches */

typedef struct hal_launch {
  const plan_kernel_t *kernel;
  uint32_t kernel_index;
  void *const *buffers;       /* device addresses of the parameters */
  const size_t *buffer_bytes; /* for checks and for recording devices */
  const int64_t *scalars;
  int64_t block_count;
  size_t scratch_bytes;       /* per worker */
  /* for messages: which buffers of an entry they are, and its variables;
   * entry may be NULL */
  const plan_entry_t *entry;
  const uint32_t *tensors;
  const int64_t *vars;
} hal_launch_t;

typedef struct hal_vtable {
  const char *name;
  /* required: memory of the device, 64-byte aligned; NULL: out of memory */
  void *(*alloc)(hal_device_t *, size_t bytes);
  void (*free)(hal_device_t *, void *data);
  /* required: device to device, host to device, device to host are one where
   * memory is shared with the host */
  bool (*copy)(hal_device_t *, td_task_t *, void *to, const void *from,
               size_t bytes);
  bool (*fill)(hal_device_t *, td_task_t *, void *to, int byte,
               size_t bytes);
  /* required where memory is not shared with the host: host to device, and
   * back; the host's side may be reused when they return */
  bool (*upload)(hal_device_t *, td_task_t *, void *to, const void *from,
                 size_t bytes);
  bool (*download)(hal_device_t *, td_task_t *, void *to, const void *from,
                   size_t bytes);
  /* required: makes the plan's kernels callable; NULL after a diagnostic */
  hal_program_t *(*load)(hal_device_t *, td_task_t *, const plan_t *);
  void (*unload)(hal_device_t *, hal_program_t *);
  /* required: runs (or queues) one kernel; false after a diagnostic */
  bool (*launch)(hal_device_t *, hal_program_t *, td_task_t *,
                 const hal_launch_t *);
  /* optional: waits until everything queued is done */
  bool (*wait)(hal_device_t *, td_task_t *);
  /* optional, all or none: what this thread launches, copies and fills after
   * capture_begin is kept, not run.  capture_end returns it, NULL if it could
   * not be kept or `keep` is false; it never unwinds.  graph_launch queues a
   * graph; false: it is out of date and was not queued.  Programs and memory
   * that it uses must outlive it. */
  bool (*capture_begin)(hal_device_t *, td_task_t *);
  hal_graph_t *(*capture_end)(hal_device_t *, bool keep);
  bool (*graph_launch)(hal_device_t *, td_task_t *, hal_graph_t *);
  void (*graph_free)(hal_device_t *, hal_graph_t *);
  /* optional: a mark (0 or 1) in the queue, and the seconds between the two
   * by the device's clock once both have been passed; false: it has none */
  bool (*mark)(hal_device_t *, td_task_t *, int which);
  bool (*elapsed)(hal_device_t *, double *out_seconds);
  /* required where memory is not shared with the host: what decides how much
   * of it a program's launches need; and the most that was in use at a time
   * since the device was opened */
  void (*machine)(hal_device_t *, hal_program_t *, plan_machine_t *out);
  uint64_t (*peak_bytes)(hal_device_t *);
  void (*destroy)(hal_device_t *);
  /* optional, both or none: memory that begins and ends in the order of what
   * is queued, while work is under way; where there is none, alloc and free
   * serve, and everything launched is done when launch returns */
  void *(*alloc_queued)(hal_device_t *, size_t bytes);
  void (*free_queued)(hal_device_t *, void *data);
  /* optional: an argument lies there from now on; for messages */
  void (*tell)(hal_device_t *, const plan_slot_t *, const int64_t *vars,
               const void *data, size_t bytes);
  bool shares_host_memory;    /* caller's buffers are used in place */
} hal_vtable_t;

struct hal_device {
  const hal_vtable_t *vtable;
  /* the implementation's fields follow in its own struct */
};

#endif
