/* exec.h: runs one entry of a plan on a device.
 *
 * An executor keeps what its runs need (the arena of intermediates, outputs
 * that the caller left out, tables), so that a second run with the same dims
 * allocates nothing.  It belongs to one thread at a time; the device and the
 * loaded program may be shared.
 *
 * Lifetime: host tables are in the arena given to hal_exec_create, device
 * memory is freed by hal_exec_destroy; device, program and plan must outlive
 * it. */
#ifndef TDSL_RUNTIME_HAL_EXEC_H
#define TDSL_RUNTIME_HAL_EXEC_H

#include "runtime/hal/bind.h"
#include "runtime/hal/hal.h"
#include "runtime/hal/trace.h"

typedef struct hal_exec hal_exec_t;

typedef struct hal_exec_options {
  hal_checks_t checks;
  /* Fills the arena and outputs with 0xFF before each run, so that a read of
   * what was never written shows (tests). */
  bool poison;
  /* Adds what each kernel took; waits for the device after each step.  NULL:
   * none. */
  hal_trace_t *trace;
} hal_exec_options_t;

/* What the last run did. */
typedef struct hal_stats {
  uint32_t launches; /* kernels run; those without blocks are skipped */
  uint32_t skipped;
  uint32_t copies;
  double seconds;    /* from the first step to the end of the last */
  /* End of the highest arena buffer that a step touched, in whole lines of 64
   * bytes; the plan's number for these dims. */
  uint64_t arena_bytes, planned_bytes;
  /* Predicted by the kernels' ledgers, summed over the launches made. */
  uint64_t read_bytes, written_bytes, flops;
  uint64_t device_bytes; /* held by the executor, outputs included */
  uint64_t upload_bytes, download_bytes; /* arguments, results, scalars */
  /* On a device with memory of its own: what the plan says that this run
   * needs of it, and the most that the device had in use so far. */
  plan_memory_t memory;
  uint64_t peak_bytes;
  bool is_replayed; /* the steps were launched as one graph */
} hal_stats_t;

hal_exec_t *hal_exec_create(td_task_t *task, td_arena_t *arena,
                            hal_device_t *device, hal_program_t *program,
                            const plan_t *plan, uint32_t entry);
/* Binds, checks, runs to the end.  `args` and `preset` as for hal_bind.
 * Nothing is written if a check at entry fails.  False after diagnostics. */
bool hal_exec_run(hal_exec_t *exec, td_task_t *task, const hal_arg_t *args,
                  const int64_t *preset, const hal_exec_options_t *options);
/* Slot of the last run with its memory: the caller's, or the executor's for
 * an output left out, which stays valid until the next run. */
const hal_arg_t *hal_exec_get(const hal_exec_t *exec, uint32_t slot);
const hal_stats_t *hal_exec_stats(const hal_exec_t *exec);
/* Accepts NULL. */
void hal_exec_destroy(hal_exec_t *exec);

#endif
