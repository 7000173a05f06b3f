/* Whole programs on every engine: lowered once, then compiled in many ways,
   run on the same inputs, and compared with the interpreter of the tensor IR
   and with each other. */
#ifndef TESTS_PIPE_H
#define TESTS_PIPE_H

#include "unit.h"

#include <math.h>
#include <stdio.h>

#include "codegen/build_plan.h"
#include "codegen/llvm/llvm.h"
#include "frontend/lower.h"
#include "frontend/parse.h"
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

/* One way to compile and run. */
typedef struct pipe_way {
  const char *label;
  const char *target;   /* NULL: this host's row */
  const char *off;      /* passes switched off */
  bool separate;        /* no two values share memory */
  bool serial;          /* --plan=serial */
  bool is_kir;          /* kernels interpreted, blocks backwards */
  uint32_t threads;     /* 0: one */
  bool asserts;         /* --checks=all */
  pass_splits_t splits; /* of the depth of products, on a GPU */
} pipe_way_t;

#define PIPE_ALL_OFF                                                          \
  "fold-constants,simplify-tensor,share-common,eliminate-dead,"               \
  "fuse-elementwise,mark-safe-loads"

/* ---- kernels interpreted as a device ------------------------------------ */

typedef struct pipe_device {
  hal_device_t base;
  const pass_kernels_t *kernels;
  bool reversed;
} pipe_device_t;

static void *pipe_alloc(hal_device_t *d, size_t bytes) {
  (void)d;
  return aligned_alloc(64, (bytes + 127) / 64 * 64);
}

static void pipe_release(hal_device_t *d, void *data) {
  (void)d;
  free(data);
}

static bool pipe_copy(hal_device_t *d, td_task_t *task, void *to,
                      const void *from, size_t bytes) {
  (void)d, (void)task;
  memmove(to, from, bytes);
  return true;
}

static bool pipe_fill(hal_device_t *d, td_task_t *task, void *to, int byte,
                      size_t bytes) {
  (void)d, (void)task;
  memset(to, byte, bytes);
  return true;
}

static hal_program_t *pipe_load(hal_device_t *d, td_task_t *task,
                                const plan_t *plan) {
  (void)task, (void)plan;
  return (hal_program_t *)(void *)d;
}

static void pipe_unload(hal_device_t *d, hal_program_t *p) {
  (void)d, (void)p;
}

static bool pipe_launch(hal_device_t *d, hal_program_t *p, td_task_t *task,
                        const hal_launch_t *launch) {
  (void)p;
  const pipe_device_t *self = (const pipe_device_t *)(const void *)d;
  return kir_interpret(task, self->kernels->kernels[launch->kernel_index],
                       launch->buffers, launch->scalars, true,
                       self->reversed);
}

static void pipe_destroy(hal_device_t *d) {
  (void)d;
}

static const hal_vtable_t pipe_vtable = {
    .name = "kir",
    .alloc = pipe_alloc,
    .free = pipe_release,
    .copy = pipe_copy,
    .fill = pipe_fill,
    .load = pipe_load,
    .unload = pipe_unload,
    .launch = pipe_launch,
    .destroy = pipe_destroy,
    .shares_host_memory = true,
};

/* ---- from text to TIR text ---------------------------------------------- */

typedef struct pipe_source {
  const char *folder;   /* of imports besides the library; may be NULL */
  uint32_t dim_count;
  sem_dim_value_t dims[12];
  bool (*config)(void *user, const char *key, bool *is_int, int64_t *out_int,
                 double *out_float);
  bool tests;           /* lower the functions `with test` */
} pipe_source_t;

static uint32_t pipe_import(void *user, td_task_t *task, uint32_t from,
                            const char *name) {
  const pipe_source_t *s = user;
  const char *folders[2] = {s->folder, TDSL_SOURCE_DIR "/stdlib"};
  (void)from;
  for (int i = 0; i < 2; i++) {
    if (folders[i] == NULL) continue;
    const char *path =
        td_arena_printf(&task->arena, "%s/%s.tdsl", folders[i], name);
    td_str_t text;
    if (!td_os_exists(path)) continue;
    if (!td_os_read_file(task, path, 0, &task->arena, &text)) return 0;
    return td_sources_add(task, path, text.data, text.length);
  }
  return 0;
}

static void pipe_show(td_task_t *task) {
  td_buf_t text;
  td_buf_init(&text, task);
  for (size_t i = 0; i < task->diags.length; i++) {
    td_diag_render(&text, task, task->diags.data[i], false);
  }
  if (text.length > 0) (void)fprintf(stderr, "%s\n", text.data);
  td_buf_free(&text);
}

/* TIR of a program as text, NULL after diagnostics. */
static inline const char *pipe_lower(td_task_t *task, const char *name,
                              const char *text, pipe_source_t *source) {
  uint32_t file = td_sources_add(task, name, text, strlen(text));
  sem_options_t o = {.import = pipe_import, .user = source,
                     .config = source->config, .need_values = true,
                     .mesh_none = true, .dims = source->dims,
                     .dim_count = source->dim_count};
  sem_program_t *p = sem_check(task, &task->arena, file, &o);
  if (td_task_errors(task) > 0) return NULL;
  TD_VEC(const sem_func_t *) list = {0};
  for (uint32_t i = 0; i < p->func_count; i++) {
    const sem_func_t *f = p->funcs[i];
    if (f->has_grad) continue;
    if (source->tests ? f->is_test : f->is_entry && !f->is_test) {
      td_vec_push(&task->arena, &list, f);
    }
  }
  tir_module_t *m = lower_funcs(task, &task->arena, p, (uint32_t)list.length,
                                list.data);
  if (m == NULL) return NULL;
  td_buf_t b;
  td_buf_init(&b, task);
  tir_print(&b, m);
  return td_buf_finish(&b, &task->arena);
}

static tir_module_t *pipe_read(td_task_t *task, const char *tir) {
  uint32_t file = td_sources_add(task, "program.tir", tir, strlen(tir));
  tir_module_t *m = tir_parse(task, &task->arena, file);
  if (m == NULL) {
    pipe_show(task);
    td_raise(task, TDSL_STATUS_INTERNAL, "TIR text is refused");
  }
  return m;
}

/* ---- compiling ---------------------------------------------------------- */

typedef struct pipe_built {
  const pipe_way_t *way;
  plan_t *plan;
  pass_kernels_t kernels;
  hal_device_t *device;
  pipe_device_t interpreter;
  hal_program_t *program;
} pipe_built_t;

static void pipe_payload(td_task_t *task, const pipe_way_t *way,
                         const pass_kernels_t *kernels,
                         const ir_target_t *target, plan_module_t *out) {
  *out = (plan_module_t){.name = "m0", .target = target->name};
  if (way->is_kir) {
    out->payload = PLAN_PAYLOAD_KIR;
    out->data = "";
    return;
  }
  cgl_output_t code = {0};
  cgl_compile(task, &task->arena,
              (const kir_kernel_t *const *)(const void *)kernels->kernels,
              kernels->count, target, CGL_OBJECT, &code);
  out->payload = PLAN_PAYLOAD_OBJECT;
  out->bytes = code.bytes;
  out->data = code.data;
}

/* Each kernel's text must read back and print the same. */
static void pipe_check_text(td_task_t *task, const pass_kernels_t *kernels) {
  for (uint32_t k = 0; k < kernels->count; k++) {
    td_buf_t a, b;
    td_buf_init(&a, task);
    td_buf_init(&b, task);
    kir_print(&a, kernels->kernels[k]);
    uint32_t file = td_sources_add(task, "printed.kir", a.data, a.length);
    kir_kernel_t **again = kir_parse(task, &task->arena, file);
    if (again == NULL) {
      pipe_show(task);
      td_raise(task, TDSL_STATUS_INTERNAL, "KIR text is refused");
    }
    kir_verify(task, again[0], "reread", false);
    kir_print(&b, again[0]);
    TD_CHECK(task, td_str_eq(td_buf_view(&a), td_buf_view(&b)),
             "print, parse, print of %s differs", kernels->kernels[k]->name);
    td_buf_free(&b);
    td_buf_free(&a);
  }
}

static void pipe_build(td_task_t *task, const char *tir,
                       const pipe_way_t *way, pipe_built_t *out) {
  td_arena_t *arena = &task->arena;
  tir_module_t *m = pipe_read(task, tir);
  pass_options_t options = {.verify = way->is_kir ? 2 : 1,
                            .disabled = way->off, .plan_serial = way->serial,
                            .checks = way->asserts ? 2 : 1,
                            .splits = way->splits};
  pass_state_t state = {.task = task, .options = &options};
  const ir_target_t *target = way->target == NULL
                                  ? ir_target_host()
                                  : ir_target_find(td_str(way->target));
  memset(out, 0, sizeof *out);
  out->way = way;
  pass_tensor_pipeline(&state, m);
  for (uint32_t f = 0; f < m->func_count; f++) tir_renumber(m->funcs[f]);
  pass_tile_pipeline(&state, arena, m, target, &out->kernels);
  const pass_kernels_t *kernels = &out->kernels;
  if (way->is_kir) pipe_check_text(task, kernels);
  const mem_layout_t **layouts =
      TD_NEW_ARRAY(arena, const mem_layout_t *, m->func_count + 1);
  for (uint32_t f = 0; f < m->func_count; f++) {
    layouts[f] = pass_plan_memory(task, arena, m, m->funcs[f], kernels,
                                  way->separate);
  }
  pass_share_params(task, arena, m, &out->kernels,
                    (mem_layout_t *const *)(const void *)layouts);
  cg_plan_input_t in = {.module = m, .target = target->name,
                        .checks_all = way->asserts};
  cg_kernel_t *rows = TD_NEW_ARRAY(arena, cg_kernel_t, kernels->count + 1);
  for (uint32_t k = 0; k < kernels->count; k++) {
    rows[k] = (cg_kernel_t){
        .kernel = kernels->kernels[k], .func = kernels->funcs[k],
        .group = kernels->groups[k],
        .param_values = kernels->param_values[k],
        .symbol = cgl_symbol(arena, kernels->kernels[k])};
  }
  in.kernels = rows;
  in.kernel_count = kernels->count;
  in.layouts = layouts;
  plan_module_t payload;
  pipe_payload(task, way, kernels, target, &payload);
  in.payloads = &payload;
  in.payload_count = 1;
  out->plan = cg_build_plan(task, arena, &in);
  plan_verify(task, out->plan, "build-plan", false);
  out->interpreter = (pipe_device_t){{&pipe_vtable}, kernels, true};
  out->device = way->is_kir
                    ? &out->interpreter.base
                    : rcpu_device_create(task, way->threads ? way->threads : 1);
  TD_CHECK(task, out->device != NULL, "no device");
  out->program = out->device->vtable->load(out->device, task, out->plan);
  if (out->program == NULL) {
    pipe_show(task);
    td_raise(task, TDSL_STATUS_INTERNAL, "cannot load");
  }
}

static inline void pipe_close(pipe_built_t *built) {
  if (built->device == NULL) return;
  built->device->vtable->unload(built->device, built->program);
  built->device->vtable->destroy(built->device);
  built->device = NULL;
}

/* ---- data --------------------------------------------------------------- */

typedef enum pipe_data {
  PIPE_EXACT,   /* small whole numbers: sums are exact in f32 */
  PIPE_RANDOM,  /* -1 to 1 */
  PIPE_SPECIAL, /* NaN, infinities, zeros of both signs, ties */
} pipe_data_t;

static size_t pipe_count(const hal_arg_t *a) {
  size_t n = 1;
  for (uint32_t d = 0; d < a->rank; d++) n *= (size_t)a->dims[d];
  return n;
}

static double pipe_number(pipe_data_t kind, double u) {
  static const double special[] = {0, -0.0, 1, 1, -1, 2, (double)INFINITY,
                                   -(double)INFINITY, (double)NAN, 0.5, 0.5,
                                   -3};
  if (kind == PIPE_EXACT) return floor(u * 9) - 4;
  if (kind == PIPE_RANDOM) return 2 * u - 1;
  return special[(int)(u * 12)];
}

static void pipe_fill_arg(hal_arg_t *a, const plan_slot_t *s,
                          const int64_t *dims, int64_t seed,
                          pipe_data_t kind) {
  plan_env_t env = {dims, NULL};
  int64_t lo = -4, hi = 5;
  size_t width = td_dtype_bytes(s->dtype);
  if (s->has_range) {
    (void)plan_eval(&s->lo, &env, &lo);
    (void)plan_eval(&s->hi, &env, &hi);
  } else if (s->dtype == TDSL_DTYPE_BOOL || s->dtype == TDSL_DTYPE_U8) {
    lo = 0;
    hi = s->dtype == TDSL_DTYPE_BOOL ? 2 : 9;
  }
  for (size_t i = 0; i < pipe_count(a); i++) {
    int64_t counter = (int64_t)i;
    double u = (double)td_uniform(seed, &counter, 1);
    char *to = (char *)a->data + i * width;
    if (td_dtype_is_float(s->dtype)) {
      td_store_f64(s->dtype, to, pipe_number(kind, u));
    } else {
      td_store_i64(s->dtype, to,
                   lo + (int64_t)(u * (double)(hi > lo ? hi - lo : 0)));
    }
  }
}

/* Arguments of an entry at given dims: inputs filled, outputs not set. */
static inline hal_arg_t *pipe_args(td_task_t *task, const plan_entry_t *e,
                            const int64_t *dims, int64_t seed,
                            pipe_data_t kind) {
  td_arena_t *arena = &task->arena;
  hal_arg_t *args = TD_NEW_ARRAY(arena, hal_arg_t, e->slot_count + 1);
  plan_env_t env = {dims, NULL};
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const plan_slot_t *slot = &e->slots[s];
    hal_arg_t *a = &args[s];
    a->dtype = slot->dtype;
    a->rank = slot->rank;
    for (uint32_t d = 0; d < slot->rank; d++) {
      TD_CHECK(task, plan_eval(&slot->dims[d], &env, &a->dims[d]), "dim");
    }
    a->data = td_arena_alloc(
        arena, pipe_count(a) * td_dtype_bytes(slot->dtype) + 16);
    if (slot->kind == PLAN_OUT) continue;
    a->is_set = true;
    pipe_fill_arg(a, slot, dims, seed * 100 + s + 1, kind);
  }
  return args;
}

/* Arguments that were not given stay unset. */
static inline hal_arg_t *pipe_copy_args(td_task_t *task, const plan_entry_t *e,
                                 const hal_arg_t *from) {
  hal_arg_t *args = TD_NEW_ARRAY(&task->arena, hal_arg_t, e->slot_count + 1);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    args[s] = from[s];
    if (from[s].data == NULL) continue;
    size_t bytes = pipe_count(&from[s]) * td_dtype_bytes(from[s].dtype);
    args[s].data = td_arena_alloc(&task->arena, bytes + 16);
    memcpy(args[s].data, from[s].data, bytes);
  }
  return args;
}

/* ---- running ------------------------------------------------------------ */

/* Results by slot; data NULL for inputs. */
typedef struct pipe_result {
  hal_arg_t *slots;
} pipe_result_t;

static pipe_result_t pipe_run(td_task_t *task, const pipe_built_t *built,
                              uint32_t entry, const int64_t *dims,
                              const hal_arg_t *args) {
  const plan_entry_t *e = &built->plan->entries[entry];
  hal_exec_t *x = hal_exec_create(task, &task->arena, built->device,
                                  built->program, built->plan, entry);
  hal_exec_options_t o = {.poison = true,
                          .checks = built->way->asserts ? HAL_CHECKS_ALL
                                                        : HAL_CHECKS_ENTRY};
  hal_arg_t *own = pipe_copy_args(task, e, args);
  pipe_result_t r = {TD_NEW_ARRAY(&task->arena, hal_arg_t, e->slot_count + 1)};
  if (!hal_exec_run(x, task, own, dims, &o)) {
    if (!built->way->asserts) pipe_show(task);
    hal_exec_destroy(x);
    td_raise(task, TDSL_STATUS_INTERNAL, "%s: %s does not run",
             built->way->label, e->name);
  }
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (e->slots[s].kind == PLAN_IN) continue;
    r.slots[s] = *hal_exec_get(x, s);
    size_t bytes = pipe_count(&r.slots[s]) * td_dtype_bytes(r.slots[s].dtype);
    void *copy = td_arena_alloc(&task->arena, bytes + 1);
    if (bytes > 0) memcpy(copy, r.slots[s].data, bytes);
    r.slots[s].data = copy;
  }
  hal_exec_destroy(x);
  return r;
}

static inline pipe_result_t pipe_reference(td_task_t *task,
                                           const tir_module_t *m,
                                    uint32_t entry, const int64_t *dims,
                                    const hal_arg_t *args) {
  const tir_func_t *f = m->funcs[entry];
  tir_tensor_t *t =
      TD_NEW_ARRAY(&task->arena, tir_tensor_t, f->slot_count + 1);
  pipe_result_t r = {TD_NEW_ARRAY(&task->arena, hal_arg_t, f->slot_count + 1)};
  for (uint32_t s = 0; s < f->slot_count; s++) {
    t[s].dtype = args[s].dtype;
    t[s].rank = args[s].rank;
    memcpy(t[s].dims, args[s].dims, sizeof args[s].dims);
    size_t bytes = pipe_count(&args[s]) * td_dtype_bytes(args[s].dtype);
    if (!args[s].is_set) continue;
    t[s].data = td_arena_alloc(&task->arena, bytes + 1);
    memcpy(t[s].data, args[s].data, bytes);
  }
  tir_interp_options_t o = {.mode = TIR_F32, .checks = 2};
  if (!tir_interpret(task, &task->arena, m, f, dims, t, &o)) {
    pipe_show(task);
    td_raise(task, TDSL_STATUS_INTERNAL, "the interpreter refuses %s",
             f->name);
  }
  for (uint32_t s = 0; s < f->slot_count; s++) {
    if (f->slots[s].kind == TIR_IN) continue;
    r.slots[s] = args[s];
    r.slots[s].data = t[s].data;
  }
  return r;
}

/* ---- comparing ---------------------------------------------------------- */

/* Equal bits, any NaN equal to any NaN; else the first difference. */
static bool pipe_is_same(tdsl_dtype_t dtype, const char *a, const char *b) {
  if (memcmp(a, b, td_dtype_bytes(dtype)) == 0) return true;
  if (!td_dtype_is_float(dtype)) return false;
  return isnan(td_load_f64(dtype, a)) && isnan(td_load_f64(dtype, b));
}

/* tolerance 0: equal bits; else a part of the largest magnitude. */
static inline bool pipe_compare(td_task_t *task, const plan_entry_t *e,
                         const pipe_result_t *want, const pipe_result_t *got,
                         double tolerance, const char *label) {
  (void)task;
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (e->slots[s].kind == PLAN_IN) continue;
    const hal_arg_t *a = &want->slots[s], *b = &got->slots[s];
    tdsl_dtype_t type = a->dtype;
    size_t width = td_dtype_bytes(type), wrong = 0;
    double top = 0;
    double unit = type == TDSL_DTYPE_BF16  ? 0x1p-7
                  : type == TDSL_DTYPE_F16 ? 0x1p-10
                  : width == 1             ? 0x1p-2
                                           : 0;
    for (size_t i = 0; i < pipe_count(a); i++) {
      double v = fabs(td_load_f64(type, (char *)a->data + i * width));
      if (isfinite(v) && v > top) top = v;
    }
    for (size_t i = 0; i < pipe_count(a); i++) {
      const char *x = (char *)a->data + i * width;
      const char *y = (char *)b->data + i * width;
      if (pipe_is_same(type, x, y)) continue;
      double v = td_load_f64(type, x), w = td_load_f64(type, y);
      if (tolerance > 0 && td_dtype_is_float(type) &&
          fabs(v - w) <= (tolerance + unit) * top) {
        continue;
      }
      if (wrong++ == 0) {
        (void)fprintf(stderr, "  %s: %s %s[%zu] is %.9g, not %.9g\n", label,
                      e->name, e->slots[s].name, i, w, v);
      }
    }
    if (wrong > 0) {
      (void)fprintf(stderr, "  %zu of %zu wrong\n", wrong, pipe_count(a));
      return false;
    }
  }
  return true;
}

#endif
