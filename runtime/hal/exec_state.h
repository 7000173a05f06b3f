/* exec_state.h: what one executor holds, and the parts of a run on it:
 * exec_memory.c places arguments and intermediates, exec_steps.c walks the
 * steps, exec.c runs the whole and replays it as a graph. Private to
 * runtime/hal/exec*.c; one thread at a time. */
#ifndef TDSL_RUNTIME_HAL_EXEC_STATE_H
#define TDSL_RUNTIME_HAL_EXEC_STATE_H

#include "runtime/hal/exec.h"

/* Device memory that grows and never shrinks. */
typedef struct hal_block {
  void *data;
  size_t bytes;
} hal_block_t;

/* Memory of one buffer of the arena, or of several that overlap in it, under
 * TDSL_PLAN_ALLOC=separate. */
typedef struct hal_region {
  size_t offset, end;   /* in the arena that the plan has laid out */
  uint32_t first, last; /* steps */
  uint32_t buffer;      /* one of it, for messages */
  void *data;           /* NULL: not yet, or no longer */
} hal_region_t;

struct hal_exec {
  hal_device_t *device;
  hal_program_t *program;
  const plan_t *plan;
  const plan_entry_t *entry;
  hal_binding_t binding;
  hal_block_t arena;
  hal_block_t cells;       /* rank-0 slots given by value, CELL bytes each */
  hal_block_t *outputs;    /* by slot: memory on the device for what the caller
                          left out, or all slots if it has memory of its own */
  void **slot_places;  /* by slot: device address in this run */
  void **places;       /* by buffer: device address in this run */
  size_t *sizes;       /* by buffer */
  uint64_t *ends;      /* by buffer: end in the arena, whole lines; 0: slot */
  int64_t *limits;     /* by step: upper bound of a running loop */
  void **launch_places;     /* scratch of one launch */
  size_t *launch_sizes;
  int64_t *launch_scalars;
  hal_trace_t *trace;       /* of this run, or NULL */
  /* Under TDSL_PLAN_ALLOC=separate there is no arena: */
  bool is_separate, poisons;
  hal_region_t *regions;
  uint32_t region_count;
  uint32_t *buffer_regions; /* by buffer of the arena */
  size_t *buffer_offsets;   /* in its region */
  /* What launches to be made once have left in the arena, made of these
   * contents, between these addresses; see is_kept. */
  bool has_kept;
  uint64_t *kept_constants; /* by slot */
  void **kept_places;       /* by buffer */
  /* The last run: what it was made of, and its steps as one graph once they
   * were run again with the same. */
  bool has_last;
  uint32_t last_launches;   /* and copies */
  hal_checks_t last_checks;
  bool last_has_kept;
  int64_t *last_vars;       /* dims */
  void **last_places;
  size_t *last_sizes;
  plan_memory_t last_memory; /* what it needed of the device, predicted */
  hal_graph_t *graph;       /* or NULL */
  hal_stats_t graph_stats;
  hal_stats_t stats;
};

/* Memory and addresses for everything the bound run names; with `poison`
 * filled with 0xFF. False with a diagnostic if the device failed; raises
 * OUT_OF_MEMORY, and INTERNAL for a plan that does not hold at these dims. */
bool hal_exec_place(hal_exec_t *x, td_task_t *task, bool poison);

/* What the run has written, into the caller's memory. */
bool hal_exec_fetch(hal_exec_t *x, td_task_t *task);

/* Device to host, counted. */
bool hal_exec_download(hal_exec_t *x, td_task_t *task, void *to,
                       const void *from, size_t bytes);

/* Refuses a plan that is wrong for these dims, before it can touch memory
 * that is not its own: the verifier samples dims. */
_Noreturn void hal_exec_misfit(td_task_t *task, const char *name);

/* Whether what the last run made of weights is still there: of contents that
 * have not changed, at addresses that have not moved. */
bool hal_exec_is_kept(const hal_exec_t *x);
void hal_exec_keep(hal_exec_t *x);

/* exec_separate.c: joins the regions of single buffers that overlap. */
void hal_exec_divide(hal_exec_t *x, uint32_t count);
/* Regions that the step is the first to use come into being: false with a
 * diagnostic, raises OUT_OF_MEMORY. Those that only steps before `next` use
 * end, in the order of what is queued. */
bool hal_exec_begin_step(hal_exec_t *x, td_task_t *task, uint32_t step);
void hal_exec_end_step(hal_exec_t *x, uint32_t next);
/* What a run that failed has left. */
void hal_exec_drop_regions(hal_exec_t *x);

/* Every step of the entry, in order, on the addresses placed. */
bool hal_exec_steps(hal_exec_t *x, td_task_t *task, hal_checks_t checks);
bool hal_exec_wait(hal_exec_t *x, td_task_t *task);

#endif
