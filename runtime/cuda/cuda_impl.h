/* cuda_impl.h: state shared by the files of the CUDA device. */
#ifndef TDSL_RUNTIME_CUDA_IMPL_H
#define TDSL_RUNTIME_CUDA_IMPL_H

#include "runtime/base/os.h"
#include "runtime/cuda/cuda_device.h"

typedef struct rcuda_gpu {
  hal_device_t base;
  tdsl_allocator_t allocator;
  rcuda_driver_t driver;
  rcuda_sim_count_t report_count; /* NULL: a real driver */
  rcuda_sim_get_t report_text;
  rcuda_sim_count_t counters_count; /* NULL: nothing is counted */
  rcuda_sim_get_t counters_get;
  rcuda_device_t ordinal;
  char name[128];
  uint32_t sm, sm_count;
  rcuda_ctx_t *context;
  rcuda_stream_t *stream;
  td_mutex_t lock; /* over the stream and what follows */
  bool has_lock;
  rcuda_ptr_t scratch;     /* of all workers of a launch */
  size_t scratch_bytes;
  hal_cache_t *cache;      /* of compiled modules, or NULL */
  const char *last_kernel; /* for messages; a loaded plan's, or NULL */
} rcuda_gpu_t;

/* Arguments of the launch being made: 64 bits each. */
typedef struct rcuda_args {
  uint64_t *values;
  void **pointers;
} rcuda_args_t;

typedef struct rcuda_grid {
  int64_t workers; /* block iterations at a time */
  unsigned blocks;
} rcuda_grid_t;

/* A plan's kernels, loaded: one allocation of `bytes`. */
struct hal_program {
  size_t bytes;
  uint32_t module_count;
  rcuda_module_t **modules; /* by module of the plan */
  rcuda_func_t **kernels;   /* by kernel of the plan */
  rcuda_args_t args;        /* under the device's lock */
};

/* ---- cuda_device.c ---- */
/* The context current and the lock held; no failure may unwind in between. */
void rcuda_enter(rcuda_gpu_t *d);
void rcuda_leave(rcuda_gpu_t *d);
_Noreturn void rcuda_fail(rcuda_gpu_t *d, td_task_t *task, int code,
                          const char *what);

/* ---- cuda_program.c ---- */
hal_program_t *rcuda_load(hal_device_t *device, td_task_t *task,
                          const plan_t *plan);
void rcuda_unload(hal_device_t *device, hal_program_t *program);

#endif
