/* cuda_impl.h: state shared by the files of the CUDA device. */
#ifndef TDSL_RUNTIME_CUDA_IMPL_H
#define TDSL_RUNTIME_CUDA_IMPL_H

#include "runtime/base/os.h"
#include "runtime/cuda/cuda_device.h"

/* Device memory that is in use or kept for the next request. */
typedef struct rcuda_block {
  rcuda_ptr_t at;
  size_t bytes;
  bool is_used;
} rcuda_block_t;

typedef struct rcuda_heap {
  rcuda_block_t *blocks;
  size_t count, capacity;
  size_t used_bytes, most_used_bytes; /* handed out, now and at most */
  size_t held_bytes;                  /* of the driver */
  bool keeps;                         /* freed blocks stay */
} rcuda_heap_t;

/* Memory of the host that the device reads and writes by itself; copies go
 * through two halves in turn. */
typedef struct rcuda_stage {
  char *half[2];
  rcuda_event_t *done[2]; /* the device is through with the half */
  bool is_busy[2];
  bool has_failed;        /* there is none to be had: copies go without */
} rcuda_stage_t;

typedef struct rcuda_told rcuda_told_t; /* cuda_names.c */

typedef struct rcuda_gpu {
  hal_device_t base;
  tdsl_allocator_t allocator;
  rcuda_driver_t driver;
  rcuda_sim_count_t report_count; /* NULL: a real driver */
  rcuda_sim_get_t report_text;
  rcuda_sim_get_t report_get;   /* the same as JSON */
  rcuda_told_t *names;          /* NULL: nothing was launched yet */
  size_t told;                  /* findings whose tensor was said */
  rcuda_sim_count_t counters_count; /* NULL: nothing is counted */
  rcuda_sim_get_t counters_get;
  rcuda_sim_registers_t tell_registers; /* NULL: a real driver */
  rcuda_device_t ordinal;
  char name[128];
  uint32_t sm, sm_count;
  rcuda_ctx_t *context;
  rcuda_stream_t *stream;
  td_mutex_t lock; /* over the stream and what follows */
  bool has_lock;
  rcuda_heap_t heap;
  rcuda_stage_t stage;
  rcuda_event_t *marks[2]; /* made on first use; NULL: no clock */
  rcuda_ptr_t scratch;     /* of all workers of a launch */
  size_t scratch_bytes;
  uint64_t scratch_number; /* counts its changes: graphs have its address */
  /* a capture: one at a time, on a stream of its own */
  td_mutex_t capture_lock;
  bool has_capture_lock;
  rcuda_stream_t *capture_stream;
  pthread_t capturer;      /* while is_capturing */
  bool is_capturing, capture_has_failed;
  hal_cache_t *cache;      /* of compiled modules, or NULL */
  const char *last_kernel; /* for messages; a loaded plan's, or NULL */
} rcuda_gpu_t;

/* Arguments of the launch being made: 64 bits each. */
typedef struct rcuda_args {
  uint64_t *values;
  void **pointers;
} rcuda_args_t;

/* A plan's kernels, loaded: one allocation of `bytes`. */
struct hal_program {
  size_t bytes;
  uint32_t module_count;
  rcuda_module_t **modules; /* by module of the plan */
  rcuda_func_t **kernels;   /* by kernel of the plan */
  uint32_t *resident;       /* the same: blocks a multiprocessor holds, or 0 */
  rcuda_args_t args;        /* under the device's lock */
};

/* Device addresses are kept as pointers nobody follows. */
static inline rcuda_ptr_t rcuda_address(const void *p) {
  return (rcuda_ptr_t)(uintptr_t)p;
}

static inline rcuda_gpu_t *rcuda_self(hal_device_t *device) {
  return (rcuda_gpu_t *)(void *)device;
}

/* ---- cuda_device.c ---- */
/* The context current and the lock held; no failure may unwind in between. */
void rcuda_enter(rcuda_gpu_t *d);
void rcuda_leave(rcuda_gpu_t *d);
_Noreturn void rcuda_fail(rcuda_gpu_t *d, td_task_t *task, int code,
                          const char *what);

/* The stream for what this thread does now. */
rcuda_stream_t *rcuda_stream(rcuda_gpu_t *d);
bool rcuda_is_capturing(const rcuda_gpu_t *d); /* this thread */
/* Ends a call: leaves, and fails if it did not go well. */
bool rcuda_end_call(rcuda_gpu_t *d, td_task_t *task, int code,
                    const char *what);

/* ---- cuda_memory.c: the context is entered where no task is given ---- */
int rcuda_heap_alloc(rcuda_gpu_t *d, size_t bytes, rcuda_ptr_t *out);
void rcuda_heap_free(rcuda_gpu_t *d, rcuda_ptr_t at);
void rcuda_memory_close(rcuda_gpu_t *d);
void *rcuda_alloc(hal_device_t *device, size_t bytes);
void rcuda_free(hal_device_t *device, void *data);
void *rcuda_alloc_queued(hal_device_t *device, size_t bytes);
void rcuda_free_queued(hal_device_t *device, void *data);
bool rcuda_copy(hal_device_t *device, td_task_t *task, void *to,
                const void *from, size_t bytes);
bool rcuda_upload(hal_device_t *device, td_task_t *task, void *to,
                  const void *from, size_t bytes);
bool rcuda_download(hal_device_t *device, td_task_t *task, void *to,
                    const void *from, size_t bytes);
bool rcuda_fill(hal_device_t *device, td_task_t *task, void *to, int byte,
                size_t bytes);

/* ---- cuda_names.c: under the device's lock, which `tell` takes ---- */
/* Keeps what tensors the launch has, if the driver is a simulated one. */
void rcuda_names_note(rcuda_gpu_t *d, const hal_launch_t *launch);
void rcuda_names_tell(hal_device_t *device, const plan_slot_t *slot,
                      const int64_t *vars, const void *data, size_t bytes);
/* Where the finding's address lies, as a line; nothing if that is unknown. */
void rcuda_names_explain(const rcuda_gpu_t *d, size_t finding, td_buf_t *out);
void rcuda_names_close(rcuda_gpu_t *d);

/* ---- cuda_graph.c ---- */
bool rcuda_has_graphs(const rcuda_gpu_t *d);
bool rcuda_capture_begin(hal_device_t *device, td_task_t *task);
hal_graph_t *rcuda_capture_end(hal_device_t *device, bool keep);
bool rcuda_graph_launch(hal_device_t *device, td_task_t *task,
                        hal_graph_t *graph);
void rcuda_graph_free(hal_device_t *device, hal_graph_t *graph);
bool rcuda_mark(hal_device_t *device, td_task_t *task, int which);
bool rcuda_elapsed(hal_device_t *device, double *out_seconds);

/* ---- cuda_program.c ---- */
hal_program_t *rcuda_load(hal_device_t *device, td_task_t *task,
                          const plan_t *plan);
void rcuda_unload(hal_device_t *device, hal_program_t *program);

#endif
