/* build_plan.h: kernels, memory and order of a module as a PLAN. */
#ifndef TDSL_CODEGEN_BUILD_PLAN_H
#define TDSL_CODEGEN_BUILD_PLAN_H

#include "ir/kir.h"
#include "ir/memory.h"
#include "runtime/plan/plan.h"

/* One kernel as the tile passes made it: which group of which function it
 * computes, and the values behind its parameters. */
typedef struct cg_kernel {
  const kir_kernel_t *kernel;
  const tir_func_t *func;
  uint32_t group;
  const tir_value_t *const *param_values;
  uint32_t module;        /* index of the payload it was emitted into */
  const char *symbol;
  /* GPU: see plan_kernel_t; scratch that is not shared memory. */
  uint32_t threads, workers, shared_bytes;
  const ix_poly_t *scratch_bytes; /* NULL: all LOCAL buffers */
} cg_kernel_t;

typedef struct cg_plan_input {
  const tir_module_t *module;
  uint32_t kernel_count;
  const cg_kernel_t *kernels;
  const mem_layout_t *const *layouts; /* one for each function */
  uint32_t payload_count;
  const plan_module_t *payloads;
  const char *target;
  bool checks_all;        /* keep asserts */
} cg_plan_input_t;

/* All data of the plan are in `arena`; payload bytes are referred to. */
plan_t *cg_build_plan(td_task_t *task, td_arena_t *arena,
                      const cg_plan_input_t *input);

/* What an entry wants and gives (dims, slots, binds, requires), without
 * buffers and steps: for engines that run the tensor IR. */
void cg_build_interface(td_task_t *task, td_arena_t *arena,
                        const tir_module_t *module, const tir_func_t *func,
                        plan_entry_t *out);

#endif
