/* The road from the text of a TIR function to its run on the CPU, for tests
   of plans: compiled in several ways, run on several dims, and compared with
   the interpreter of TIR on inputs whose sums are exact. */
#ifndef TESTS_ROAD_H
#define TESTS_ROAD_H

#include "codegen/build_plan.h"
#include "codegen/llvm/llvm.h"
#include "ir/kir.h"
#include "ir/target.h"
#include "ir/tir.h"
#include "passes/pass.h"
#include "passes/plan/plan_memory.h"
#include "runtime/base/num.h"
#include "runtime/base/rng.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/hal/exec.h"
#include "runtime/null/null_device.h"
#include "runtime/plan/plan.h"

typedef struct road_mode_t {
  bool separate;         /* no reuse of memory */
  bool no_passes;        /* optional passes off */
  bool asserts;          /* checks = all */
  plan_payload_t payload;
} road_mode_t;

#define ROAD_OFF                                                              \
  "fold-constants,simplify-tensor,share-common,eliminate-dead,"               \
  "fuse-elementwise,mark-safe-loads"

static inline tir_module_t *road_parse(td_task_t *task, const char *text) {
  uint32_t file = td_sources_add(task, "road.tir", text, strlen(text));
  tir_module_t *m = tir_parse(task, &task->arena, file);
  if (m == NULL) {
    print_error("%s\n", task->diags.data[task->diags.length - 1]->text);
  }
  assert_non_null(m);
  assert_true(tir_verify(task, m, "test", true));
  return m;
}

static inline plan_t *road_compile(td_task_t *task, const char *text,
                                   road_mode_t mode) {
  td_arena_t *arena = &task->arena;
  tir_module_t *m = road_parse(task, text);
  pass_options_t options = {.verify = 1, .checks = mode.asserts ? 2 : 1,
                            .disabled = mode.no_passes ? ROAD_OFF : NULL};
  pass_state_t state = {.task = task, .options = &options};
  const ir_target_t *target = ir_target_host();
  pass_tensor_pipeline(&state, m);
  pass_kernels_t kernels = {0};
  for (uint32_t f = 0; f < m->func_count; f++) tir_renumber(m->funcs[f]);
  pass_tile_pipeline(&state, arena, m, target, &kernels);
  mem_layout_t **layouts =
      TD_NEW_ARRAY(arena, mem_layout_t *, m->func_count + 1);
  for (uint32_t f = 0; f < m->func_count; f++) {
    layouts[f] = pass_plan_memory(task, arena, m, m->funcs[f], &kernels,
                                  mode.separate);
  }
  pass_share_params(task, arena, m, &kernels, layouts);
  for (uint32_t k = 0; k < kernels.count; k++) {
    kir_verify(task, kernels.kernels[k], "share-params", false);
  }
  cg_plan_input_t in = {.module = m, .target = target->name,
                        .checks_all = mode.asserts};
  cg_kernel_t *rows = TD_NEW_ARRAY(arena, cg_kernel_t, kernels.count + 1);
  for (uint32_t k = 0; k < kernels.count; k++) {
    rows[k] = (cg_kernel_t){
        .kernel = kernels.kernels[k], .func = kernels.funcs[k],
        .group = kernels.groups[k], .param_values = kernels.param_values[k],
        .symbol = cgl_symbol(arena, kernels.kernels[k])};
  }
  in.kernels = rows;
  in.kernel_count = kernels.count;
  in.layouts = (const mem_layout_t *const *)layouts;
  plan_module_t payload = {.name = "m0", .payload = PLAN_PAYLOAD_OBJECT,
                           .target = target->name};
  if (mode.payload == PLAN_PAYLOAD_KIR) {
    td_buf_t b;
    td_buf_init(&b, task);
    for (uint32_t k = 0; k < kernels.count; k++) {
      kir_print(&b, kernels.kernels[k]);
    }
    payload.payload = PLAN_PAYLOAD_KIR;
    payload.bytes = b.length;
    payload.data = td_buf_finish(&b, arena);
  } else {
    cgl_output_t code = {0};
    cgl_compile(task, arena,
                (const kir_kernel_t *const *)(const void *)kernels.kernels,
                kernels.count, target, CGL_OBJECT, &code);
    payload.bytes = code.bytes;
    payload.data = code.data;
  }
  in.payloads = &payload;
  in.payload_count = 1;
  plan_t *plan = cg_build_plan(task, arena, &in);
  plan_verify(task, plan, "test", false);
  return plan;
}

/* ---- data --------------------------------------------------------------- */

static inline size_t road_count(const hal_arg_t *a) {
  size_t n = 1;
  for (uint32_t d = 0; d < a->rank; d++) n *= (size_t)a->dims[d];
  return n;
}

/* Whole numbers from -4 to 4, in range of the slot. */
static inline void road_fill(hal_arg_t *a, const plan_slot_t *s,
                             const int64_t *dims, int64_t seed) {
  plan_env_t env = {dims, NULL};
  int64_t lo = -4, hi = 5;
  size_t width = td_dtype_bytes(s->dtype);
  if (s->has_range) {
    assert_true(plan_eval(&s->lo, &env, &lo));
    assert_true(plan_eval(&s->hi, &env, &hi));
  }
  if (s->dtype == TDSL_DTYPE_U8 || s->dtype == TDSL_DTYPE_BOOL) lo = 0;
  if (s->dtype == TDSL_DTYPE_BOOL) hi = 2;
  for (size_t i = 0; i < road_count(a); i++) {
    int64_t counter = (int64_t)i;
    double u = (double)td_uniform(seed, &counter, 1);
    td_store_i64(s->dtype, (char *)a->data + i * width,
                 lo + (int64_t)(u * (double)(hi > lo ? hi - lo : 0)));
  }
}

/* Arguments of an entry at given dims: inputs filled, outputs not set. */
static inline hal_arg_t *road_args(td_task_t *task, const plan_entry_t *e,
                                   const int64_t *dims) {
  td_arena_t *arena = &task->arena;
  hal_arg_t *args = TD_NEW_ARRAY(arena, hal_arg_t, e->slot_count + 1);
  plan_env_t env = {dims, NULL};
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const plan_slot_t *slot = &e->slots[s];
    hal_arg_t *a = &args[s];
    a->dtype = slot->dtype;
    a->rank = slot->rank;
    for (uint32_t d = 0; d < slot->rank; d++) {
      assert_true(plan_eval(&slot->dims[d], &env, &a->dims[d]));
    }
    a->data = td_arena_alloc(
        arena, road_count(a) * td_dtype_bytes(slot->dtype) + 16);
    if (slot->kind == PLAN_OUT) continue;
    a->is_set = true;
    road_fill(a, slot, dims, s + 1);
  }
  return args;
}

/* The interpreter's answers: outputs and the last state of inouts. */
static inline tir_tensor_t *road_expected(td_task_t *task, const char *text,
                                          uint32_t entry, const int64_t *dims,
                                          const hal_arg_t *args) {
  tir_module_t *m = road_parse(task, text);
  const tir_func_t *f = m->funcs[entry];
  tir_tensor_t *t =
      TD_NEW_ARRAY(&task->arena, tir_tensor_t, f->slot_count + 1);
  for (uint32_t s = 0; s < f->slot_count; s++) {
    t[s].dtype = args[s].dtype;
    t[s].rank = args[s].rank;
    memcpy(t[s].dims, args[s].dims, sizeof t[s].dims);
    size_t bytes = road_count(&args[s]) * td_dtype_bytes(args[s].dtype);
    if (!args[s].is_set) continue;
    t[s].data = td_arena_alloc(&task->arena, bytes + 1);
    memcpy(t[s].data, args[s].data, bytes);
  }
  tir_interp_options_t options = {.mode = TIR_F32, .checks = 1};
  assert_true(
      tir_interpret(task, &task->arena, m, f, dims, t, &options));
  return t;
}

static inline void road_report(td_task_t *task, const plan_t *plan) {
  td_buf_t b;
  td_buf_init(&b, task);
  plan_print(&b, plan, false);
  for (size_t i = 0; i < task->diags.length; i++) {
    td_diag_render(&b, task, task->diags.data[i], false);
  }
  print_error("%s\n", b.data);
  td_buf_free(&b);
}

/* Runs one entry and wants exactly what the interpreter gives; a second run
   on the same executor must do the same and allocate nothing. */
static inline void road_run(td_task_t *task, hal_device_t *device,
                            const char *text, const plan_t *plan,
                            uint32_t entry, const int64_t *dims) {
  const plan_entry_t *e = &plan->entries[entry];
  hal_program_t *program = device->vtable->load(device, task, plan);
  assert_non_null(program);
  hal_exec_t *x =
      hal_exec_create(task, &task->arena, device, program, plan, entry);
  hal_exec_options_t options = {.checks = HAL_CHECKS_ALL, .poison = true};
  uint64_t held = 0;
  for (int run = 0; run < 2; run++) {
    hal_arg_t *args = road_args(task, e, dims);
    tir_tensor_t *want = road_expected(task, text, entry, dims, args);
    bool ok = hal_exec_run(x, task, args, dims, &options);
    if (!ok) road_report(task, plan);
    assert_true(ok);
    for (uint32_t s = 0; s < e->slot_count; s++) {
      if (e->slots[s].kind == PLAN_IN) continue;
      const hal_arg_t *got = hal_exec_get(x, s);
      size_t bytes = road_count(got) * td_dtype_bytes(got->dtype);
      if (bytes > 0 && memcmp(got->data, want[s].data, bytes) != 0) {
        road_report(task, plan);
        print_error("entry %s, slot %s\n", e->name, e->slots[s].name);
        assert_memory_equal(got->data, want[s].data, bytes);
      }
    }
    const hal_stats_t *stats = hal_exec_stats(x);
    assert_true(stats->arena_bytes <= stats->planned_bytes);
    if (run == 1) assert_int_equal(stats->device_bytes, held);
    held = stats->device_bytes;
  }
  hal_exec_destroy(x);
  device->vtable->unload(device, program);
}

#endif
