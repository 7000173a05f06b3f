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
  drv_value_t *values;
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

/* In place where the interpreter reads and writes the caller's bytes. */
static void lend(interp_t *in, uint32_t s) {
  const drv_value_t *v = &in->values[s];
  tir_tensor_t *t = &in->tensors[s];
  t->dtype = v->desc.dtype;
  t->rank = v->desc.rank;
  for (uint32_t d = 0; d < t->rank; d++) t->dims[d] = v->desc.dims[d];
  t->data = v->data;
  if (!is_wide(in, t->dtype)) return;
  tdsl_tensor_desc_t desc = v->desc;
  desc.dtype = TDSL_DTYPE_F64;
  if (in->entry->slots[s].kind == PLAN_INOUT) {
    /* kept as a result: the caller's own memory gets rounded values */
    tdsl_buffer_t *b = drv_run_result(in->task, in->run, s, &desc);
    b->declared = TDSL_DTYPE_F32;
    t->data = b->data;
  } else {
    t->data = TD_NEW_ARRAY(in->arena, double, v->count + 1);
  }
  widen(t->data, v->data, v->count);
}

static void take(interp_t *in, uint32_t s) {
  const plan_slot_t *slot = &in->entry->slots[s];
  const tir_tensor_t *t = &in->tensors[s];
  drv_value_t *v = &in->values[s];
  if (slot->kind == PLAN_INOUT) {
    if (is_wide(in, t->dtype)) narrow(v->data, t->data, v->count);
    return;
  }
  bool wide = is_wide(in, slot->dtype);
  tdsl_tensor_desc_t desc = {.dtype = slot->dtype, .rank = t->rank};
  if (wide) desc.dtype = TDSL_DTYPE_F64;
  for (uint32_t d = 0; d < t->rank; d++) desc.dims[d] = t->dims[d];
  if (v->is_bound && !wide) {
    tdsl_buffer_release(in->run->results[s]);
    in->run->results[s] = NULL;
    if (v->bytes > 0) memcpy(v->data, t->data, v->bytes);
    return;
  }
  tdsl_buffer_t *b = drv_run_result(in->task, in->run, s, &desc);
  if (wide) b->declared = slot->dtype;
  if (b->bytes > 0) memcpy(b->data, t->data, b->bytes);
  if (v->is_bound) narrow(v->data, t->data, v->count);
}

bool drv_run_interp(td_task_t *task, td_arena_t *arena, tdsl_run_t *run,
                    drv_value_t *values) {
  const tdsl_program_t *p = run->exe->program;
  const plan_entry_t *e = &p->plans[run->exe->index];
  interp_t in = {task, arena, run, e, p->device.mode, values, NULL};
  in.tensors = TD_NEW_ARRAY(arena, tir_tensor_t, e->slot_count + 1);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (e->slots[s].kind != PLAN_OUT) lend(&in, s);
  }
  tir_interp_options_t options = {.mode = in.mode};
  options.checks = p->checks == TDSL_CHECKS_ALL    ? 2
                   : p->checks == TDSL_CHECKS_NONE ? 0
                                                   : 1;
  if (e->is_test) options.checks = 2;
  if (!tir_interpret(task, arena, p->tir, p->tir->funcs[run->exe->index],
                     run->dims, in.tensors, &options)) {
    return false;
  }
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (e->slots[s].kind != PLAN_IN) take(&in, s);
  }
  return true;
}
