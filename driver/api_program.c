/* api_program.c: compiled programs and the description of their entries. */
#include "driver/api.h"

#include "codegen/build_plan.h"

/* ---- life ---------------------------------------------------------------- */

void tdsl_program_retain(tdsl_program_t *p) {
  if (p != NULL) atomic_fetch_add(&p->references, 1);
}

void tdsl_program_release(tdsl_program_t *p) {
  if (p == NULL || atomic_fetch_sub(&p->references, 1) != 1) return;
  tdsl_context_t *context = p->context;
  drv_program_unload(p);
  drv_stores_close(p);
  if (p->weights.top != NULL) {
    td_arena_attach(&p->weights, &p->task);
  }
  td_task_free(&p->task); /* with its arenas */
  drv_free(context, p, sizeof *p);
  drv_context_release(context);
}

/* ---- description --------------------------------------------------------- */

static int64_t static_value(const plan_expr_t *e) {
  plan_env_t none = {0};
  int64_t value;
  for (uint32_t i = 0; i < e->count; i++) {
    if (e->tokens[i].op == PLAN_X_VAR) return -1;
  }
  return plan_eval(e, &none, &value) ? value : -1;
}

static void describe_slot(const plan_slot_t *in, tdsl_slot_t *out) {
  out->name = td_str(in->name);
  out->kind = in->kind == PLAN_IN    ? TDSL_SLOT_IN
              : in->kind == PLAN_OUT ? TDSL_SLOT_OUT
                                     : TDSL_SLOT_INOUT;
  out->dtype = in->dtype;
  out->rank = in->rank;
  out->has_default = in->has_default;
  out->is_weight = in->is_weight;
  out->else_slot = in->else_slot;
  out->file_pattern = td_str(in->file_pattern != NULL ? in->file_pattern : "");
  for (uint32_t d = 0; d < in->rank; d++) {
    out->dim_text[d] = td_str(in->dim_text[d]);
    out->dim_value[d] = static_value(&in->dims[d]);
    out->dim_bound[d] = in->dim_bound[d];
  }
  int64_t lo = in->has_range ? static_value(&in->lo) : 0;
  int64_t hi = in->has_range ? static_value(&in->hi) : -1;
  if (in->has_range && hi >= 0) {
    out->lo = lo;
    out->hi = hi;
  }
}

void drv_program_describe(tdsl_program_t *p) {
  td_arena_t *arena = &p->arena;
  p->entries = TD_NEW_ARRAY(arena, tdsl_entry_t, p->entry_count + 1);
  for (uint32_t i = 0; i < p->entry_count; i++) {
    const plan_entry_t *in = &p->plans[i];
    tdsl_entry_t *out = &p->entries[i];
    tdsl_slot_t *slots =
        TD_NEW_ARRAY(arena, tdsl_slot_t, in->slot_count + 1);
    for (uint32_t s = 0; s < in->slot_count; s++) {
      describe_slot(&in->slots[s], &slots[s]);
    }
    out->name = td_str(in->name);
    out->index = i;
    out->slot_count = in->slot_count;
    out->slots = slots;
    out->is_test = in->is_test;
  }
}

/* The interpreter runs TIR; what it needs at entry is the same as for a
 * plan. */
static void describe_interp(tdsl_program_t *p, drv_compile_t *c) {
  p->tir = c->tir;
  p->entry_count = c->tir->func_count;
  plan_entry_t *entries =
      TD_NEW_ARRAY(&p->arena, plan_entry_t, p->entry_count + 1);
  for (uint32_t f = 0; f < p->entry_count; f++) {
    cg_build_interface(c->task, &p->arena, c->tir, c->tir->funcs[f],
                       &entries[f]);
  }
  p->plans = entries;
}

void drv_program_build(tdsl_program_t *p, drv_compile_t *c) {
  if (c->device.engine == DRV_INTERP) describe_interp(p, c);
  else if (!drv_program_load(p, c)) return;
  drv_program_describe(p);
}

uint32_t tdsl_program_get_entry_count(const tdsl_program_t *p) {
  return p->entry_count;
}

const tdsl_entry_t *tdsl_program_get_entry(const tdsl_program_t *p,
                                           uint32_t index) {
  return index < p->entry_count ? &p->entries[index] : NULL;
}

const tdsl_entry_t *tdsl_program_find_entry(const tdsl_program_t *p,
                                            tdsl_string_t name) {
  for (uint32_t i = 0; i < p->entry_count; i++) {
    if (td_str_eq(p->entries[i].name, name)) return &p->entries[i];
  }
  return NULL;
}
