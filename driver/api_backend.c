/* api_backend.c: the order of the back end: passes, memory, plan. */
#include "driver/api_backend.h"

#include "codegen/build_plan.h"
#include "codegen/cuda/cuda.h"
#include "passes/plan/plan_memory.h"
#include "runtime/base/env.h"
#include "runtime/base/os.h"

enum { TUNING_BYTES = 1 << 24 };

/* A text of the descriptor wins over the environment; NULL: neither. */
static const char *choose(drv_backend_t *b, tdsl_string_t given,
                          td_env_id_t knob) {
  if (given.length > 0) return td_str_cstr(b->c->arena, given);
  return td_env_set(knob);
}

/* A file that is named and cannot be used is a warning. */
static void open_tuning(drv_backend_t *b) {
  drv_compile_t *c = b->c;
  const tdsl_compile_desc_t *d = c->desc;
  const char *path = choose(b, d->tuning, TD_ENV_TUNING);
  bool has_text = d->tuning_text.data != NULL;
  bool is_none = has_text ? d->tuning_text.length == 0
                          : path == NULL || path[0] == '\0';
  if (is_none) return;
  drv_tuning_t *t = TD_NEW(c->arena, drv_tuning_t);
  *t = (drv_tuning_t){.arena = c->arena, .task = c->task, .target = b->target};
  td_str_t text = d->tuning_text;
  if (!has_text && !td_os_exists(path)) {
    td_diag_t *diag = td_diag(c->task, TD_W07, TD_NO_LOC,
                              "%s is not used: there is no such file", path);
    td_diag_help(diag, "`tdslc bench FILE --tune --tuning %s` makes it", path);
    return;
  }
  if (!has_text &&
      !td_os_read_file(c->task, path, TUNING_BYTES, c->arena, &text)) {
    return;
  }
  if (!drv_tuning_read(c->task, c->arena,
                       has_text ? "the tuning text" : path, text, &t->rows)) {
    return;
  }
  b->tuning = t;
  b->options.sizes = drv_tuning_sizes;
  b->options.sizes_user = t;
}

bool drv_backend_init(drv_backend_t *b, drv_compile_t *c) {
  const tdsl_compile_desc_t *d = c->desc;
  memset(b, 0, sizeof *b);
  b->c = c;
  b->target = c->device.target != NULL && c->device.target[0] != '\0'
                  ? ir_target_find(td_str(c->device.target))
                  : ir_target_host();
  if (b->target == NULL) {
    td_diag_t *diag = td_diag(c->task, TD_B07, TD_NO_LOC,
                              "this CPU has no machine row");
    td_diag_help(diag, "name one: --device cpu:x86-64-v2");
    return false;
  }
  b->options.target = b->target->name;
  b->options.disabled = choose(b, d->disable_passes, TD_ENV_DISABLE_PASS);
  b->options.stop_after = choose(b, d->stop_after, TD_ENV_STOP_AFTER);
  b->options.verify = (int)td_env_int(TD_ENV_VERIFY);
  b->options.checks = c->checks == TDSL_CHECKS_ALL ? 2 : 1;
  b->options.all_cascades = td_env_list_has(TD_ENV_CASCADES, "all");
  b->options.lazy_gauges = td_env_list_has(TD_ENV_CASCADES, "lazy");
  const char *splits = td_env_text(TD_ENV_SPLITS);
  b->options.splits = strcmp(splits, "all") == 0   ? PASS_SPLITS_ALL
                      : strcmp(splits, "off") == 0 ? PASS_SPLITS_OFF
                                                   : PASS_SPLITS_PAY;
  b->options.plan_serial = d->plan_free == 2;
  b->state.task = c->task;
  b->state.options = &b->options;
  open_tuning(b);
  return pass_check_options(c->task, &b->options);
}

void drv_backend_tensor(drv_backend_t *b) {
  pass_tensor_pipeline(&b->state, b->c->tir);
  for (uint32_t f = 0; f < b->c->tir->func_count; f++) {
    tir_renumber(b->c->tir->funcs[f]);
  }
}

void drv_backend_kernels(drv_backend_t *b) {
  pass_tile_pipeline(&b->state, b->c->arena, b->c->tir, b->target,
                     &b->kernels);
}

/* ---- memory ------------------------------------------------------------- */

void drv_backend_memory(drv_backend_t *b) {
  drv_compile_t *c = b->c;
  uint32_t n = c->tir->func_count;
  bool separate = strcmp(td_env_text(TD_ENV_PLAN_ALLOC), "separate") == 0;
  mem_layout_t **layouts = TD_NEW_ARRAY(c->arena, mem_layout_t *, n + 1);
  c->task->stage = "plan-memory";
  for (uint32_t f = 0; f < n; f++) {
    const tir_func_t *func = c->tir->funcs[f];
    layouts[f] = pass_plan_memory(c->task, c->arena, c->tir, func,
                                  &b->kernels, separate);
  }
  pass_share_params(c->task, c->arena, c->tir, &b->kernels, layouts);
  b->layouts = (const mem_layout_t *const *)layouts;
}

/* ---- the plan ----------------------------------------------------------- */

void drv_backend_plan(drv_backend_t *b, const drv_payloads_t *payloads) {
  drv_compile_t *c = b->c;
  const pass_kernels_t *k = &b->kernels;
  cg_kernel_t *rows = TD_NEW_ARRAY(c->arena, cg_kernel_t, k->count + 1);
  for (uint32_t i = 0; i < k->count; i++) {
    rows[i] = (cg_kernel_t){.kernel = k->kernels[i],
                            .func = k->funcs[i],
                            .group = k->groups[i],
                            .param_values = k->param_values[i],
                            .module = payloads->kernels[i].module,
                            .symbol = payloads->kernels[i].symbol};
    if (payloads->launches != NULL) {
      rows[i].threads = payloads->launches[i].threads;
      rows[i].shared_bytes = payloads->launches[i].dynamic_bytes;
      rows[i].workers = payloads->launches[i].workers;
      rows[i].scratch_bytes = payloads->launches[i].scratch_bytes;
    }
  }
  cg_plan_input_t input = {.module = c->tir,
                           .kernel_count = k->count,
                           .kernels = rows,
                           .layouts = b->layouts,
                           .payload_count = payloads->module_count,
                           .payloads = payloads->modules,
                           .target = b->target->name,
                           .checks_all = b->options.checks >= 2};
  plan_t *plan = cg_build_plan(c->task, c->arena, &input);
  if (b->options.verify >= 1) {
    (void)plan_verify(c->task, plan, "build-plan", false);
  }
  b->plan = plan;
}
