/* plan_memory.h: lifetimes to buffers and arena offsets. */
#ifndef TDSL_PASSES_PLAN_MEMORY_H
#define TDSL_PASSES_PLAN_MEMORY_H

#include "ir/memory.h"

/* `crosses` tells which values exist between kernels (by value id); the
 * others stay inside one.  `separate`: no two values share storage but what
 * has to (a check on the planner). */
mem_layout_t *pass_plan_memory(td_task_t *task, td_arena_t *arena,
                               const tir_module_t *module,
                               const tir_func_t *func, const bool *crosses,
                               bool separate);

#endif
