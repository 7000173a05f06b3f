/* plan_memory.h: lifetimes to buffers and arena offsets. */
#ifndef TDSL_PASSES_PLAN_MEMORY_H
#define TDSL_PASSES_PLAN_MEMORY_H

#include "ir/memory.h"
#include "passes/pass.h"

/* Layout of one function, whose kernels are among `kernels`.  `separate`: no
 * two values share storage but what has to (a check on the planner; answers
 * are the same). */
mem_layout_t *pass_plan_memory(td_task_t *task, td_arena_t *arena,
                               const tir_module_t *module,
                               const tir_func_t *func,
                               const pass_kernels_t *kernels, bool separate);

/* Where a kernel got two parameters of one buffer, because a map works in
 * place, makes them one parameter.  After all layouts, before emission;
 * `layouts` is parallel to module->funcs. */
void pass_share_params(td_task_t *task, td_arena_t *arena,
                       const tir_module_t *module, pass_kernels_t *kernels,
                       mem_layout_t *const *layouts);

#endif
