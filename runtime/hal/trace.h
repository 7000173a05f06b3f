/* trace.h: what the kernels of a run took, beside what the plan said they
 * would move and compute.
 *
 * One row a kernel, summed over launches and runs.  A trace belongs to one
 * executor; its rows are in the arena it was made in. */
#ifndef TDSL_RUNTIME_HAL_TRACE_H
#define TDSL_RUNTIME_HAL_TRACE_H

#include "runtime/plan/plan.h"

typedef struct hal_trace_row {
  uint64_t launches;
  double seconds, least; /* in all; of the fastest launch */
  double bytes, flops;   /* in all, by the kernel's ledger */
} hal_trace_row_t;

typedef struct hal_trace {
  const plan_t *plan;
  hal_trace_row_t *rows; /* by kernel of the plan */
  hal_trace_row_t copies;
} hal_trace_t;

void hal_trace_init(hal_trace_t *trace, td_arena_t *arena,
                    const plan_t *plan);
/* One launch; scalars as they were given to it. */
void hal_trace_launch(hal_trace_t *trace, uint32_t kernel,
                      const int64_t *scalars, double seconds);
void hal_trace_copy(hal_trace_t *trace, size_t bytes, double seconds);
/* A table, slowest kernels first: share, launches, time, rates. */
void hal_trace_print(td_buf_t *out, const hal_trace_t *trace);

#endif
