/* kernel_ledger.h: what one launch of a kernel reads, writes and computes,
 * as expressions over the kernel's scalars: what `explain`, traces and `bench`
 * compare with the ceilings of a machine. */
#ifndef TDSL_CODEGEN_KERNEL_LEDGER_H
#define TDSL_CODEGEN_KERNEL_LEDGER_H

#include "codegen/build_plan.h"
#include "codegen/plan_expr.h"

/* Fills out->ledger from out->is_read and out->is_written. `dims`: the
 * kernel's scalars. Bytes are those of the elements touched, each counted
 * once: where every access has the same subscript, a dim counts as many
 * places as that subscript can take (one layer of a stack of weights, the
 * rows that tokens pick from a table), else the whole of it. */
void cg_kernel_ledger(td_task_t *task, td_arena_t *arena,
                      const cg_kernel_t *kernel, const cg_vars_t *dims,
                      plan_kernel_t *out);

#endif
