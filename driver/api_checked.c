/* api_checked.c: what a checked run of compiled code tests before it runs.
 *
 * Subscripts, duplicate writes, integers that wrap and assertions are
 * properties of the program and its arguments, not of the engine.  So a
 * checked program keeps its tensor IR as it was lowered, and each run goes
 * through the interpreter first, on copies of what it writes.  It reports R05,
 * R06 and R10 with values and places, and nothing is written if it does.
 * The compiled asserts run too, on the engine's own numbers. */
#include "driver/api.h"

#include "runtime/base/num.h"

/* A checked program keeps this; passes get a second one, for they edit in
 * place. */
bool drv_checked_keep(tdsl_program_t *p, drv_compile_t *c) {
  if (p->checks != TDSL_CHECKS_ALL) return true;
  uint32_t warnings = c->task->warnings;
  p->tir = c->tir;
  bool ok = drv_compile_lower(c);
  c->task->warnings = warnings; /* the same ones again */
  return ok;
}

/* An input as it is, a copy of what is written, a number in memory. */
static void give(td_arena_t *arena, const plan_slot_t *slot,
                 const hal_arg_t *a, size_t bytes, tir_tensor_t *t) {
  t->dtype = slot->dtype;
  t->rank = slot->rank;
  for (uint32_t d = 0; d < t->rank; d++) t->dims[d] = a->dims[d];
  if (slot->kind == PLAN_OUT) return;
  if (!a->is_value && slot->kind == PLAN_IN) {
    t->data = a->data;
    return;
  }
  t->data = td_arena_alloc(arena, bytes + sizeof(double));
  if (!a->is_value) {
    if (bytes > 0) memcpy(t->data, a->data, bytes);
  } else if (a->number.is_real) {
    td_store_f64(slot->dtype, t->data, a->number.r);
  } else {
    td_store_i64(slot->dtype, t->data, a->number.i);
  }
}

bool drv_checked_run(td_task_t *task, tdsl_run_t *run,
                     const hal_arg_t *args, const int64_t *preset) {
  const tdsl_program_t *p = run->exe->program;
  const plan_entry_t *e = &p->plans[run->exe->index];
  if (p->checks != TDSL_CHECKS_ALL) return true;
  td_arena_t arena; /* copies may be large: dropped before the run itself */
  td_arena_init(&arena, task);
  hal_binding_t b;
  hal_binding_init(&b, &arena, p->plan, e);
  bool ok = hal_bind(&b, task, args, preset, HAL_CHECKS_ALL, true);
  if (ok) {
    tir_tensor_t *tensors =
        TD_NEW_ARRAY(&arena, tir_tensor_t, e->slot_count + 1);
    for (uint32_t s = 0; s < e->slot_count; s++) {
      give(&arena, &e->slots[s], &b.args[s], b.bytes[s], &tensors[s]);
    }
    tir_interp_options_t options = {.mode = TIR_F32, .checks = 2};
    ok = tir_interpret(task, &arena, p->tir, p->tir->funcs[run->exe->index],
                       b.vars, tensors, &options);
  }
  td_arena_free_all(&arena);
  return ok;
}
