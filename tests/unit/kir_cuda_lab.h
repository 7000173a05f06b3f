/* Kernels of kir_lab.h as CUDA C on a GPU or on the simulated one, compared
   with the interpreter.  The tests that use it skip where there is neither,
   or no NVRTC. */
#ifndef TESTS_KIR_CUDA_LAB_H
#define TESTS_KIR_CUDA_LAB_H

#include "kir_lab.h"

#include "codegen/cuda/cuda.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_nvrtc.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__, 0, 0, 0, 0})

/* One device for a program of tests: its task outlives theirs. */
typedef struct gpu_t {
  td_task_t task;
  hal_device_t *device; /* NULL: there is none */
  const char *simulated;
} gpu_t;

static inline void gpu_work(td_task_t *task, void *arg) {
  gpu_t *g = arg;
  rcuda_nvrtc_t nvrtc;
  rcuda_device_desc_t desc = {.simulated = g->simulated};
  if (!rcuda_nvrtc_open(task, &task->arena, &nvrtc)) return;
  rcuda_nvrtc_close(&nvrtc);
  if (getenv("TDSL_LIBCUDA") != NULL) desc.simulated = NULL;
  else desc.library = TDSL_BUILD_DIR "/libtdsl_simgpu.so";
  if (desc.library != NULL && !td_os_exists(desc.library)) return;
  g->device = rcuda_device_create(task, &desc);
}

/* `simulated`: items of TDSL_SIM_MODE, the model and the number of devices. */
static inline int gpu_open_as(void **state, const char *simulated) {
  gpu_t *g = calloc(1, sizeof *g);
  g->simulated = simulated;
  td_task_init(&g->task, NULL);
  (void)td_task_run(&g->task, gpu_work, g);
  if (g->device == NULL) {
    lab_show(&g->task);
    print_message("needs NVRTC, and libtdsl_simgpu.so or a GPU\n");
  }
  *state = g;
  return 0;
}

static inline int gpu_open(void **state) {
  return gpu_open_as(state, "model:h100,devices:1");
}

static inline int gpu_close(void **state) {
  gpu_t *g = *state;
  if (g->device != NULL) g->device->vtable->destroy(g->device);
  td_task_free(&g->task);
  free(g);
  return 0;
}

/* The text of the lab's kernel and how it is launched. */
static inline const char *gpu_text(lab_t *lab, cgc_kernel_t *out) {
  td_buf_t text;
  cgc_options_t options = {.target = ir_target_gpu(80), .has_lines = false};
  const kir_kernel_t *kernels[1] = {lab->kernel};
  td_buf_init(&text, lab->task);
  cgc_emit(lab->task, &lab->arena, kernels, 1, &options, &text, out);
  return td_buf_finish(&text, &lab->arena);
}

/* A plan of one kernel, without entries. */
static inline plan_t *gpu_plan(lab_t *lab, const char *text,
                               const cgc_kernel_t *k) {
  plan_t *plan = TD_NEW(&lab->arena, plan_t);
  plan->module_count = plan->kernel_count = 1;
  plan->modules = TD_NEW(&lab->arena, plan_module_t);
  plan->kernels = TD_NEW(&lab->arena, plan_kernel_t);
  plan->modules[0] = (plan_module_t){.name = "test",
                                     .payload = PLAN_PAYLOAD_CUDA,
                                     .target = "sm_80",
                                     .bytes = strlen(text),
                                     .data = text};
  plan->kernels[0] = (plan_kernel_t){.name = lab->kernel->name,
                                     .symbol = k->symbol,
                                     .buffer_count = lab->kernel->param_count,
                                     .scalar_count = lab->kernel->dim_count,
                                     .threads = k->threads,
                                     .workers = k->workers,
                                     .shared_bytes = k->dynamic_bytes};
  return plan;
}

/* Runs the kernel over `other` on the device. */
static inline void gpu_call(lab_t *lab, hal_device_t *d) {
  const hal_vtable_t *v = d->vtable;
  cgc_kernel_t k;
  const char *text = gpu_text(lab, &k);
  plan_t *plan = gpu_plan(lab, text, &k);
  void *places[LAB_MAX_PARAMS];
  size_t bytes[LAB_MAX_PARAMS];
  hal_program_t *program = v->load(d, lab->task, plan);
  if (program == NULL) {
    lab_show(lab->task);
    print_error("%s\n", text);
  }
  assert_non_null(program);
  for (uint32_t i = 0; i < lab->kernel->param_count; i++) {
    bytes[i] = lab->counts[i] * td_dtype_bytes(lab->kernel->params[i]->dtype);
    places[i] = v->alloc(d, bytes[i]);
    assert_non_null(places[i]);
    assert_true(v->upload(d, lab->task, places[i], lab->other[i], bytes[i]));
  }
  hal_launch_t launch = {
      .kernel = &plan->kernels[0],
      .buffers = places,
      .buffer_bytes = bytes,
      .scalars = lab->dims,
      .block_count = lab_value(lab, kir_block_count(lab->kernel)),
      .scratch_bytes = (size_t)lab_value(lab, k.scratch_bytes)};
  assert_true(v->launch(d, program, lab->task, &launch));
  assert_true(v->wait(d, lab->task));
  for (uint32_t i = 0; i < lab->kernel->param_count; i++) {
    assert_true(
        v->download(d, lab->task, lab->other[i], places[i], bytes[i]));
    v->free(d, places[i]);
  }
  v->unload(d, program);
}

/* Interpreter and device leave equal bits. */
static inline void gpu_check(td_task_t *task, void *state, const char *text,
                             const int64_t *dims) {
  gpu_t *g = state;
  lab_t lab;
  lab_open(&lab, task, text, dims);
  lab_copy(&lab);
  lab_interpret(&lab, false);
  gpu_call(&lab, g->device);
  lab_compare(&lab, g->device->vtable->name);
  lab_close(&lab);
}

/* GPU_TEST(name) { ... task, state ... } */
#define GPU_TEST(name)                                                       \
  static void name##_body(td_task_t *task, void *state);                     \
  static void name(void **state) {                                           \
    td_task_t task;                                                          \
    if (((gpu_t *)*state)->device == NULL) skip();                           \
    td_task_init(&task, NULL);                                               \
    tdsl_status_t status = td_task_run(&task, name##_body, *state);          \
    if (status != TDSL_STATUS_OK) print_error("%s\n", task.message);         \
    assert_int_equal(status, TDSL_STATUS_OK);                                \
    td_task_free(&task);                                                     \
  }                                                                          \
  static void name##_body(td_task_t *task, void *state)

#endif
