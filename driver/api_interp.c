/* api_interp.c: runs on the interpreter of the tensor IR.  In its f64 mode
 * values of type f32 are held as doubles and never rounded, so arguments are
 * widened and results are given back wide. */
#include "driver/api.h"

#include "runtime/base/num.h"

typedef struct interp {
  td_task_t *task;
  td_arena_t *arena; /* of this run */
  tdsl_run_t *run;
  const plan_entry_t *entry;
  tir_mode_t mode;
  const hal_binding_t *binding;
  tir_tensor_t *tensors;
} interp_t;

static bool is_wide(const interp_t *in, tdsl_dtype_t dtype) {
  return in->mode == TIR_F64 && dtype == TDSL_DTYPE_F32;
}

static void widen(double *to, const float *from, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] = (double)from[i];
}

static void narrow(float *to, const double *from, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] = (float)from[i];
}

static size_t count_of(const interp_t *in, uint32_t s) {
  return in->binding->bytes[s] / td_dtype_bytes(in->entry->slots[s].dtype);
}

static tdsl_tensor_desc_t desc_of(const interp_t *in, uint32_t s) {
  const hal_arg_t *a = &in->binding->args[s];
  tdsl_tensor_desc_t desc = {.dtype = in->entry->slots[s].dtype};
  desc.rank = in->entry->slots[s].rank;
  for (uint32_t d = 0; d < desc.rank; d++) desc.dims[d] = a->dims[d];
  if (is_wide(in, desc.dtype)) desc.dtype = TDSL_DTYPE_F64;
  return desc;
}

/* A number given by value as an element in memory. */
static void *cell(const interp_t *in, uint32_t s) {
  const hal_arg_t *a = &in->binding->args[s];
  tdsl_dtype_t dtype = in->entry->slots[s].dtype;
  void *data = td_arena_alloc(in->arena, 16);
  if (a->number.is_real) td_store_f64(dtype, data, a->number.r);
  else td_store_i64(dtype, data, a->number.i);
  return data;
}

/* In place where the interpreter reads and writes the caller's bytes. */
static void lend(interp_t *in, uint32_t s) {
  const plan_slot_t *slot = &in->entry->slots[s];
  const hal_arg_t *a = &in->binding->args[s];
  tir_tensor_t *t = &in->tensors[s];
  const void *data = a->is_value ? cell(in, s) : a->data;
  t->dtype = slot->dtype;
  t->rank = slot->rank;
  for (uint32_t d = 0; d < t->rank; d++) t->dims[d] = a->dims[d];
  t->data = (void *)(uintptr_t)data;
  if (!is_wide(in, t->dtype)) return;
  if (slot->kind == PLAN_INOUT) {
    /* kept as a result: the caller's own memory gets rounded values */
    tdsl_tensor_desc_t desc = desc_of(in, s);
    tdsl_buffer_t *b = drv_run_result(in->task, in->run, s, &desc);
    b->declared = slot->dtype;
    t->data = b->data;
  } else {
    t->data = TD_NEW_ARRAY(in->arena, double, count_of(in, s) + 1);
  }
  widen(t->data, data, count_of(in, s));
}

static void take(interp_t *in, uint32_t s) {
  const plan_slot_t *slot = &in->entry->slots[s];
  const hal_arg_t *a = &in->binding->args[s];
  const void *data = in->tensors[s].data;
  bool wide = is_wide(in, slot->dtype);
  size_t bytes = in->binding->bytes[s];
  if (slot->kind == PLAN_INOUT) {
    if (wide) narrow(a->data, data, count_of(in, s));
    return;
  }
  if (a->is_set && !wide) {
    tdsl_buffer_release(in->run->results[s]);
    in->run->results[s] = NULL;
    if (bytes > 0) memcpy(a->data, data, bytes);
    return;
  }
  tdsl_tensor_desc_t desc = desc_of(in, s);
  tdsl_buffer_t *b = drv_run_result(in->task, in->run, s, &desc);
  if (wide) b->declared = slot->dtype;
  if (b->bytes > 0) memcpy(b->data, data, b->bytes);
  if (a->is_set) narrow(a->data, data, count_of(in, s));
}

hal_checks_t drv_hal_checks(tdsl_checks_t checks) {
  return checks == TDSL_CHECKS_NONE  ? HAL_CHECKS_NONE
         : checks == TDSL_CHECKS_ALL ? HAL_CHECKS_ALL
                                     : HAL_CHECKS_ENTRY;
}

bool drv_run_interp(td_task_t *task, td_arena_t *arena, tdsl_run_t *run,
                    const hal_arg_t *args) {
  const tdsl_program_t *p = run->exe->program;
  const plan_entry_t *e = &p->plans[run->exe->index];
  hal_binding_t *binding = &run->binding;
  interp_t in = {task, arena, run, e, p->device.mode, binding, NULL};
  hal_checks_t checks = drv_hal_checks(p->checks);
  if (!hal_bind(binding, task, args, drv_entry_preset(arena, e, args), checks,
                true)) {
    return false;
  }
  uint64_t start = td_os_now_ns();
  in.tensors = TD_NEW_ARRAY(arena, tir_tensor_t, e->slot_count + 1);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (e->slots[s].kind != PLAN_OUT) lend(&in, s);
  }
  tir_interp_options_t options = {.mode = in.mode, .checks = (int)checks};
  if (e->is_test) options.checks = 2;
  if (!tir_interpret(task, arena, p->tir, p->tir->funcs[run->exe->index],
                     binding->vars, in.tensors, &options)) {
    return false;
  }
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (e->slots[s].kind != PLAN_IN) take(&in, s);
  }
  run->stats.seconds = (double)(td_os_now_ns() - start) * 1e-9;
  return true;
}
