/* A .tir text that the verifier accepts must go through all passes: each
 * leaves valid text, kernels verify, memory and steps make a valid plan.
 * Nothing is run. */
#include "codegen/build_plan.h"
#include "ir/target.h"
#include "passes/pass.h"
#include "passes/plan/plan_memory.h"
#include "tests/fuzz/fuzz.h"

static void plan(td_task_t *task, td_arena_t *arena, const tir_module_t *m,
                 pass_kernels_t *kernels, const ir_target_t *target,
                 bool separate) {
  mem_layout_t **layouts =
      TD_NEW_ARRAY(arena, mem_layout_t *, m->func_count + 1);
  for (uint32_t f = 0; f < m->func_count; f++) {
    layouts[f] =
        pass_plan_memory(task, arena, m, m->funcs[f], kernels, separate);
  }
  pass_share_params(task, arena, m, kernels, layouts);
  cg_kernel_t *rows = TD_NEW_ARRAY(arena, cg_kernel_t, kernels->count + 1);
  for (uint32_t k = 0; k < kernels->count; k++) {
    kir_verify(task, kernels->kernels[k], "share-params", false);
    rows[k] = (cg_kernel_t){.kernel = kernels->kernels[k],
                            .func = kernels->funcs[k],
                            .group = kernels->groups[k],
                            .param_values = kernels->param_values[k],
                            .symbol = kernels->kernels[k]->name};
  }
  plan_module_t payload = {.name = "m0", .payload = PLAN_PAYLOAD_KIR,
                           .data = ""};
  cg_plan_input_t in = {
      .module = m, .target = target->name, .kernels = rows,
      .kernel_count = kernels->count, .payloads = &payload,
      .payload_count = 1,
      .layouts = (const mem_layout_t *const *)(const void *)layouts};
  (void)plan_verify(task, cg_build_plan(task, arena, &in), "build-plan",
                    false);
}

/* Lowering makes dims from 0 on, and plans rest on that. */
static bool has_plain_dims(const tir_module_t *m) {
  for (uint32_t f = 0; f < m->func_count; f++) {
    for (uint32_t d = 0; d < m->funcs[f]->dim_count; d++) {
      const ix_symbol_t *s = m->funcs[f]->dims[d];
      int64_t lo;
      if (s->lo == NULL || !ix_is_const(s->lo, &lo) || lo != 0) return false;
    }
  }
  return true;
}

static void work(td_task_t *task, void *arg) {
  const fuzz_input_t *in = arg;
  uint32_t file = td_sources_add(task, "in.tir", in->data, in->size);
  /* the first byte draws the way */
  unsigned way = in->size > 0 ? (unsigned char)in->data[in->size - 1] : 0;
  tir_module_t *m = tir_parse(task, &task->arena, file);
  if (m == NULL || !tir_verify(task, m, "parse", true)) return;
  if (!has_plain_dims(m)) return;
  pass_options_t options = {.verify = 2, .checks = way & 1 ? 2 : 1,
                            .disabled = way & 2 ? "all" : NULL,
                            .plan_serial = (way & 4) != 0};
  pass_state_t state = {.task = task, .options = &options};
  const ir_target_t *target = ir_target_get(way >> 3 & 3);
  pass_kernels_t kernels = {0};
  pass_tensor_pipeline(&state, m);
  for (uint32_t f = 0; f < m->func_count; f++) tir_renumber(m->funcs[f]);
  pass_tile_pipeline(&state, &task->arena, m, target, &kernels);
  plan(task, &task->arena, m, &kernels, target, (way & 32) != 0);
}

static bool may_end(const td_task_t *task, tdsl_status_t status) {
  (void)task;
  return status == TDSL_STATUS_INVALID_PROGRAM;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input_t in = {(const char *)data, size};
  fuzz_run(&(fuzz_job_t){.work = work, .arg = &in, .polls = FUZZ_POLLS,
                         .may_end = may_end});
  return 0;
}
