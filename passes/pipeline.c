/* pipeline.c: the order of passes, on one page. */
#include "passes/pass.h"

void pass_tensor_pipeline(pass_state_t *state, tir_module_t *module) {
#define RUN(id) pass_run_tir(state, PASS_ID_##id, pass_##id, module)
  /* What the text says is tested, before anything is moved. */
  RUN(add_checks);
  /* Before all others, whose time grows with the length of a formula. */
  RUN(split_bodies);
  /* No body is longer than a kernel can take. */
  RUN(fold_constants);
  RUN(simplify_tensor);
  RUN(share_common);
  RUN(eliminate_dead);
  RUN(settle_scalars);
  /* Every value is used, none is computed twice. */
  RUN(fuse_elementwise);
  RUN(fold_constants);
  RUN(share_common);
  RUN(eliminate_dead);
  RUN(find_cascades);
  RUN(order_dims);
  RUN(pack_operands);
  /* What is left between kernels is worth its bytes, or has to exist. */
  RUN(group_kernels);
  RUN(join_kernels);
#undef RUN
}

void pass_tile_pipeline(pass_state_t *state, td_arena_t *arena,
                        const tir_module_t *module, const ir_target_t *target,
                        pass_kernels_t *out) {
  state->task->stage = "lower-to-tiles";
  pass_lower_to_tiles(state, arena, module, target, out);
  for (uint32_t i = 0; i < out->count && state->options->verify >= 1; i++) {
    kir_verify(state->task, out->kernels[i], "lower-to-tiles", false);
  }
#define RUN(id) \
  pass_run_kir(state, PASS_ID_##id, pass_##id, out->kernels, out->count)
  RUN(mark_safe_loads);
#undef RUN
}
