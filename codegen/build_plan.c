/* build_plan.c: see build_plan.h. */
#include "codegen/build_plan.h"

#include "codegen/kernel_ledger.h"
#include "codegen/plan_expr.h"
#include "runtime/base/num.h"

typedef struct builder {
  td_task_t *task;
  td_arena_t *arena;
  const cg_plan_input_t *input;
  plan_t *plan;
  const tir_func_t *func;
  const mem_layout_t *layout;
  plan_entry_t *entry;
  cg_vars_t vars;            /* dims, then loop variables */
  TD_VEC(plan_var_t) var_rows;
  TD_VEC(plan_step_t) steps;
} builder_t;

static plan_expr_t poly(builder_t *b, const ix_poly_t *p) {
  return cg_plan_poly(b->task, b->arena, &b->vars, p);
}

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- variables and slots ------------------------------------------------ */

static void add_var(builder_t *b, const ix_symbol_t *s, bool is_loop) {
  plan_var_t row = {.name = s->name, .is_loop = is_loop, .loc = s->loc,
                    .bound = INT32_MAX};
  int64_t hi;
  if (!is_loop && s->hi != NULL && ix_is_const(s->hi, &hi)) {
    row.bound = hi - 1;
  }
  td_vec_push(b->arena, &b->vars, s);
  td_vec_push(b->arena, &b->var_rows, row);
}

static void find_loops(builder_t *b, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    const tir_node_t *n = block->data[i];
    if (n->kind != TIR_LOOP) continue;
    add_var(b, n->iv->symbol, true);
    find_loops(b, &n->body_nodes);
  }
}

/* scale * var + offset, of exactly one dim. */
static bool is_linear(const ix_poly_t *p, const ix_symbol_t **var,
                      int64_t *scale, int64_t *offset) {
  *var = NULL;
  *offset = 0;
  for (uint32_t i = 0; i < p->term_count; i++) {
    const ix_term_t *t = &p->terms[i];
    if (t->atom_count == 0) {
      *offset = t->coefficient;
    } else if (t->atom_count == 1 && *var == NULL &&
               t->atoms[0]->kind == IX_ATOM_SYMBOL && t->coefficient > 0) {
      *var = t->atoms[0]->symbol;
      *scale = t->coefficient;
    } else {
      return false;
    }
  }
  return *var != NULL;
}

static uint32_t var_index(builder_t *b, const ix_symbol_t *s) {
  for (size_t i = 0; i < b->vars.length; i++) {
    if (b->vars.data[i] == s) return (uint32_t)i;
  }
  TD_ICE(b->task, "dim %s is not of this entry", s->name);
}

static void fill_slot(builder_t *b, plan_slot_t *out, const tir_slot_t *in) {
  const tir_value_t *v = in->value != NULL ? in->value : in->result;
  out->name = in->name;
  out->kind = in->kind == TIR_IN    ? PLAN_IN
              : in->kind == TIR_OUT ? PLAN_OUT
                                    : PLAN_INOUT;
  out->dtype = v->dtype;
  out->rank = v->rank;
  for (uint32_t d = 0; d < v->rank; d++) {
    int64_t lo = 0, hi = INT64_MAX;
    out->dims[d] = poly(b, v->dims[d]);
    out->dim_text[d] = in->dim_text[d] != NULL
                           ? in->dim_text[d]
                           : ix_text(b->arena, v->dims[d]);
    out->dim_bound[d] = ix_interval(v->dims[d], &lo, &hi) ? hi : INT64_MAX;
  }
  if (in->lo != NULL && in->hi != NULL) {
    out->has_range = true;
    out->lo = poly(b, in->lo);
    out->hi = poly(b, in->hi);
  }
  out->has_default = in->has_default;
  out->default_i64 = in->default_i64;
  out->default_f64 = in->default_f64;
  out->is_weight = in->is_weight;
  out->file_pattern = in->file_pattern;
  out->stack_count = in->stack_count;
  out->else_slot = in->else_slot;
  out->loc = in->loc;
}

static void add_slots(builder_t *b) {
  TD_VEC(plan_bind_t) binds = {0};
  plan_entry_t *e = b->entry;
  e->slot_count = b->func->slot_count;
  e->slots = TD_NEW_ARRAY(b->arena, plan_slot_t, e->slot_count + 1);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const tir_slot_t *slot = &b->func->slots[s];
    fill_slot(b, &e->slots[s], slot);
    if (slot->value == NULL) continue;
    for (uint32_t d = 0; d < slot->value->rank; d++) {
      const ix_symbol_t *var;
      plan_bind_t bind = {.slot = s, .dim = d};
      if (is_linear(slot->value->dims[d], &var, &bind.scale, &bind.offset)) {
        bind.var = var_index(b, var);
        td_vec_push(b->arena, &binds, bind);
      }
    }
  }
  e->binds = binds.data;
  e->bind_count = (uint32_t)binds.length;
  e->require_count = b->func->require_count;
  e->requires = TD_NEW_ARRAY(b->arena, plan_require_t, e->require_count + 1);
  for (uint32_t r = 0; r < e->require_count; r++) {
    const tir_require_t *in = &b->func->requires[r];
    e->requires[r].cond = cg_plan_condition(b->task, b->arena, &b->vars,
                                            b->func, in->cond);
    e->requires[r].text = in->text;
    e->requires[r].loc = in->loc;
  }
}

/* ---- buffers ------------------------------------------------------------ */

static void add_buffers(builder_t *b) {
  plan_entry_t *e = b->entry;
  const mem_layout_t *m = b->layout;
  e->buffer_count = m->buffer_count;
  e->buffers = TD_NEW_ARRAY(b->arena, plan_buffer_t, e->buffer_count + 1);
  for (uint32_t i = 0; i < e->buffer_count; i++) {
    const mem_buffer_t *in = &m->buffers[i];
    plan_buffer_t *out = &e->buffers[i];
    out->name = in->name;
    out->dtype = in->dtype;
    out->rank = in->rank;
    for (uint32_t d = 0; d < in->rank; d++) {
      out->dims[d] = poly(b, in->dims[d]);
    }
    out->bytes = poly(b, in->bytes);
    out->place = in->slot >= 0 ? PLAN_AT_SLOT : PLAN_AT_ARENA;
    if (in->slot >= 0) {
      out->slot = (uint32_t)in->slot;
      e->slots[in->slot].buffer = i;
    } else {
      out->offset = poly(b, in->offset);
    }
    out->first_step = UINT32_MAX;
  }
  e->arena_bytes = poly(b, m->arena_bytes);
}

static uint32_t buffer_of(builder_t *b, const tir_value_t *v) {
  uint32_t i = b->layout->value_buffer[v->id];
  TD_CHECK(b->task, i != UINT32_MAX, "value %s has no buffer", v->name);
  return i;
}

/* ---- steps -------------------------------------------------------------- */

static plan_step_t *add_step(builder_t *b, plan_step_kind_t kind,
                             td_loc_t loc) {
  plan_step_t s = {.kind = kind, .loc = loc, .lo_buffer = -1,
                   .hi_buffer = -1};
  td_vec_push(b->arena, &b->steps, s);
  return &td_vec_last(&b->steps);
}

static void add_copies(builder_t *b, const mem_copies_t *copies,
                       td_loc_t loc) {
  for (size_t i = 0; i < copies->length; i++) {
    plan_step_t *s = add_step(b, PLAN_STEP_COPY, loc);
    s->buffer_count = 2;
    s->buffers = TD_NEW_ARRAY(b->arena, uint32_t, 2);
    s->buffers[0] = copies->data[i].to;
    s->buffers[1] = copies->data[i].from;
  }
}

static void add_launch(builder_t *b, const tir_node_t *n, uint32_t k) {
  const cg_kernel_t *kernel = &b->input->kernels[k];
  plan_step_t *s = add_step(b, PLAN_STEP_LAUNCH, kernel->kernel->loc);
  s->kernel = k;
  s->is_once = n->outs[0]->is_kept;
  s->buffer_count = kernel->kernel->param_count;
  s->buffers = TD_NEW_ARRAY(b->arena, uint32_t, s->buffer_count + 1);
  for (uint32_t i = 0; i < s->buffer_count; i++) {
    s->buffers[i] = buffer_of(b, kernel->param_values[i]);
  }
  s->scalar_count = kernel->kernel->dim_count;
  s->scalars = TD_NEW_ARRAY(b->arena, plan_expr_t, s->scalar_count + 1);
  for (uint32_t i = 0; i < s->scalar_count; i++) {
    s->scalars[i] =
        plan_var_expr(b->arena, var_index(b, kernel->kernel->dims[i]));
  }
}

/* The kernels of a group, one after the other. */
static void add_launches(builder_t *b, const tir_node_t *n) {
  const cg_plan_input_t *in = b->input;
  uint32_t count = 0;
  for (uint32_t k = 0; k < in->kernel_count; k++) {
    if (in->kernels[k].func != b->func || in->kernels[k].group != n->group) {
      continue;
    }
    add_launch(b, n, k);
    count++;
  }
  TD_CHECK(b->task, count > 0, "group %u has no kernel", n->group);
}

static void add_assert(builder_t *b, const tir_node_t *n) {
  if (!b->input->checks_all) return;
  /* one integer is the fault word of a check, not a condition */
  bool is_check =
      n->operand_count == 1 && n->operands[0]->dtype == TDSL_DTYPE_I64;
  plan_step_t *s = add_step(
      b, is_check ? PLAN_STEP_CHECK : PLAN_STEP_ASSERT, n->loc);
  s->text = n->text;
  s->buffer_count = n->operand_count;
  s->buffers = TD_NEW_ARRAY(b->arena, uint32_t, s->buffer_count + 1);
  for (uint32_t i = 0; i < s->buffer_count; i++) {
    s->buffers[i] = buffer_of(b, n->operands[i]);
  }
}

/* A loop bound is a number of dims and outer loop variables, or element 0 of
 * a buffer (passes leave no other form). */
static int32_t bound(builder_t *b, tir_expr_t *e, plan_expr_t *out) {
  const ix_poly_t *p =
      tir_expr_poly(b->input->module->pool, b->arena, e, NULL, NULL);
  if (p != NULL && !ix_mentions_kind(p, IX_SYM_DATA)) {
    *out = poly(b, p);
    return -1;
  }
  TD_CHECK(b->task, e->op == TIR_X_LOAD && e->arg_count == 0,
           "loop bound of an unexpected form");
  return (int32_t)buffer_of(b, e->u.value);
}

static void add_block(builder_t *b, const tir_block_t *block);

static void add_loop(builder_t *b, const tir_node_t *n) {
  const mem_loop_t *loop = td_map_get_u64(&b->layout->loops, key_of(n));
  add_copies(b, &loop->before, n->loc);
  plan_expr_t lo = {0}, hi = {0};
  int32_t lo_buffer = bound(b, n->lo, &lo), hi_buffer = bound(b, n->hi, &hi);
  plan_step_t *s = add_step(b, PLAN_STEP_LOOP, n->loc);
  uint32_t head = (uint32_t)b->steps.length - 1;
  s->var = var_index(b, n->iv->symbol);
  s->lo = lo;
  s->hi = hi;
  s->lo_buffer = lo_buffer;
  s->hi_buffer = hi_buffer;
  add_block(b, &n->body_nodes);
  add_copies(b, &loop->after, n->loc);
  plan_step_t *end = add_step(b, PLAN_STEP_END, n->loc);
  end->other = head;
  b->steps.data[head].other = (uint32_t)b->steps.length - 1;
}

/* What updates of the kernel that begins at `first` start from. */
static void add_update_copies(builder_t *b, const tir_block_t *block,
                              size_t first) {
  uint32_t group = block->data[first]->group;
  for (size_t i = first;
       i < block->length && block->data[i]->group == group; i++) {
    const tir_node_t *n = block->data[i];
    const mem_copy_t *copy =
        td_map_get_u64(&b->layout->update_copy, key_of(n));
    if (copy == NULL || copy->to == copy->from) continue;
    mem_copies_t one = {0};
    td_vec_push(b->arena, &one, *copy);
    add_copies(b, &one, n->loc);
  }
}

static void add_block(builder_t *b, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    const tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) {
      add_loop(b, n);
    } else if (n->kind == TIR_ASSERT) {
      add_assert(b, n);
    } else if (i == 0 || block->data[i - 1]->group != n->group) {
      add_update_copies(b, block, i);
      add_launches(b, n);
    }
  }
}

/* ---- lives -------------------------------------------------------------- */

static void note_use(plan_entry_t *e, uint32_t buffer, uint32_t step) {
  plan_buffer_t *b = &e->buffers[buffer];
  if (b->first_step == UINT32_MAX) b->first_step = step;
  b->last_step = step;
}

/* Widens lives to the loop head .. end where they cross its border. */
static void widen(plan_entry_t *e, uint32_t head, uint32_t end) {
  for (uint32_t k = 0; k < e->buffer_count; k++) {
    plan_buffer_t *b = &e->buffers[k];
    if (b->first_step == UINT32_MAX || b->last_step <= head ||
        b->first_step >= end) {
      continue;
    }
    bool is_inner = b->first_step > head && b->last_step < end;
    if (is_inner) continue;
    if (b->first_step > head) b->first_step = head;
    if (b->last_step < end) b->last_step = end;
  }
}

/* What is made once lives throughout. */
static void keep_once(builder_t *b, plan_entry_t *e) {
  for (uint32_t i = 0; i < e->step_count; i++) {
    const plan_step_t *s = &e->steps[i];
    if (!s->is_once) continue;
    const plan_kernel_t *k = &b->plan->kernels[s->kernel];
    for (uint32_t n = 0; n < s->buffer_count; n++) {
      if (!k->is_written[n]) continue;
      e->buffers[s->buffers[n]].first_step = 0;
      e->buffers[s->buffers[n]].last_step = e->step_count - 1;
    }
  }
}

/* First and last step of every buffer; one that is used inside and outside
 * of a loop lasts as long as the loop. */
static void note_lives(builder_t *b) {
  plan_entry_t *e = b->entry;
  for (uint32_t i = 0; i < e->step_count; i++) {
    const plan_step_t *s = &e->steps[i];
    for (uint32_t k = 0; k < s->buffer_count; k++) {
      note_use(e, s->buffers[k], i);
    }
    if (s->lo_buffer >= 0) note_use(e, (uint32_t)s->lo_buffer, i);
    if (s->hi_buffer >= 0) note_use(e, (uint32_t)s->hi_buffer, i);
  }
  for (uint32_t i = 0; i < e->step_count; i++) {
    if (e->steps[i].kind == PLAN_STEP_END) widen(e, e->steps[i].other, i);
  }
  keep_once(b, e);
  for (uint32_t k = 0; k < e->buffer_count; k++) {
    if (e->buffers[k].first_step == UINT32_MAX) e->buffers[k].first_step = 0;
  }
}

/* ---- kernels ------------------------------------------------------------ */

/* An update leaves elements as they are, so that what was there before
 * counts as read, whether or not the kernel loads it. */
static void note_kept(const cg_kernel_t *k, const tir_block_t *block,
                      plan_kernel_t *out) {
  for (size_t b = 0; b < block->length; b++) {
    const tir_node_t *n = block->data[b];
    if (n->kind == TIR_LOOP) note_kept(k, &n->body_nodes, out);
    if (n->kind != TIR_UPDATE || n->group != k->group) continue;
    for (uint32_t i = 0; i < out->buffer_count; i++) {
      if (k->param_values[i] == n->outs[0]) out->is_read[i] = true;
    }
  }
}

/* The last of several kernels of a group adds up what the one before it left
 * of the group's work. */
static bool is_merge(const cg_plan_input_t *in, uint32_t k) {
  const cg_kernel_t *x = &in->kernels[k];
  bool follows = k > 0 && in->kernels[k - 1].func == x->func &&
                 in->kernels[k - 1].group == x->group;
  bool is_last = k + 1 == in->kernel_count ||
                 in->kernels[k + 1].func != x->func ||
                 in->kernels[k + 1].group != x->group;
  return follows && is_last;
}

static void add_kernels(builder_t *b) {
  const cg_plan_input_t *in = b->input;
  plan_t *plan = b->plan;
  plan->kernel_count = in->kernel_count;
  plan->kernels = TD_NEW_ARRAY(b->arena, plan_kernel_t, in->kernel_count + 1);
  for (uint32_t k = 0; k < in->kernel_count; k++) {
    const kir_kernel_t *kernel = in->kernels[k].kernel;
    plan_kernel_t *out = &plan->kernels[k];
    cg_vars_t dims = {0};
    for (uint32_t d = 0; d < kernel->dim_count; d++) {
      td_vec_push(b->arena, &dims, kernel->dims[d]);
    }
    out->name = kernel->name;
    out->module = in->kernels[k].module;
    out->symbol = in->kernels[k].symbol;
    out->card = kernel->card != NULL ? kernel->card : "";
    out->loc = kernel->loc;
    out->buffer_count = kernel->param_count;
    out->is_read = TD_NEW_ARRAY(b->arena, bool, kernel->param_count + 1);
    out->is_written = TD_NEW_ARRAY(b->arena, bool, kernel->param_count + 1);
    for (uint32_t i = 0; i < kernel->param_count; i++) {
      const kir_buffer_t *p = kernel->params[i];
      /* what the kernel writes itself before it reads it is no input */
      const tir_node_t *def = in->kernels[k].param_values[i]->def;
      bool is_own = def != NULL && def->kind == TIR_MAP &&
                    def->group == in->kernels[k].group;
      out->is_read[i] = p->is_read && !is_own;
      out->is_written[i] = p->is_written;
    }
    cg_kernel_ledger(b->task, b->arena, &in->kernels[k], &dims, out);
    note_kept(&in->kernels[k], &in->kernels[k].func->nodes, out);
    if (is_merge(in, k)) out->ledger.flops = (plan_expr_t){0};
    out->scalar_count = kernel->dim_count;
    out->block_count = cg_plan_poly(b->task, b->arena, &dims,
                                    kir_block_count(kernel));
    const ix_poly_t *scratch = in->kernels[k].scratch_bytes;
    if (scratch == NULL) scratch = kir_scratch_bytes(kernel);
    out->scratch_bytes = cg_plan_poly(b->task, b->arena, &dims, scratch);
    out->threads = in->kernels[k].threads;
    out->workers = in->kernels[k].workers;
    out->shared_bytes = in->kernels[k].shared_bytes;
  }
}

/* Interface of a function: all that does not depend on kernels. */
static void describe_entry(builder_t *b, const tir_func_t *func,
                           plan_entry_t *e) {
  b->func = func;
  b->entry = e;
  memset(&b->vars, 0, sizeof b->vars);
  memset(&b->var_rows, 0, sizeof b->var_rows);
  memset(&b->steps, 0, sizeof b->steps);
  for (uint32_t d = 0; d < b->func->dim_count; d++) {
    add_var(b, b->func->dims[d], false);
  }
  find_loops(b, &b->func->nodes);
  e->name = b->func->name;
  e->is_test = b->func->is_test;
  e->loc = b->func->loc;
  e->dim_count = b->func->dim_count;
  e->vars = b->var_rows.data;
  e->var_count = (uint32_t)b->var_rows.length;
  add_slots(b);
}

static void add_entry(builder_t *b, uint32_t f) {
  plan_entry_t *e = &b->plan->entries[f];
  describe_entry(b, b->input->module->funcs[f], e);
  b->layout = b->input->layouts[f];
  add_buffers(b);
  add_block(b, &b->func->nodes);
  add_copies(b, &b->layout->last, b->func->loc);
  e->steps = b->steps.data;
  e->step_count = (uint32_t)b->steps.length;
  note_lives(b);
}

static plan_t *start_plan(builder_t *b) {
  td_task_t *task = b->task;
  plan_t *plan = b->plan = TD_NEW(b->arena, plan_t);
  plan->arena = b->arena;
  plan->target = b->input->target;
  plan->file_count = (uint32_t)task->sources.length;
  plan->files = TD_NEW_ARRAY(b->arena, const char *, plan->file_count + 1);
  for (uint32_t i = 0; i < plan->file_count; i++) {
    plan->files[i] = td_arena_strdup(b->arena, task->sources.data[i].name);
  }
  plan->entry_count = b->input->module->func_count;
  plan->entries =
      TD_NEW_ARRAY(b->arena, plan_entry_t, plan->entry_count + 1);
  return plan;
}

plan_t *cg_build_plan(td_task_t *task, td_arena_t *arena,
                      const cg_plan_input_t *input) {
  task->stage = "build-plan";
  builder_t b = {.task = task, .arena = arena, .input = input};
  plan_t *plan = start_plan(&b);
  plan->module_count = input->payload_count;
  plan->modules = TD_NEW_ARRAY(arena, plan_module_t, plan->module_count + 1);
  for (uint32_t i = 0; i < plan->module_count; i++) {
    plan->modules[i] = input->payloads[i];
  }
  add_kernels(&b);
  for (uint32_t f = 0; f < plan->entry_count; f++) add_entry(&b, f);
  return plan;
}

void cg_build_interface(td_task_t *task, td_arena_t *arena,
                        const tir_module_t *module, const tir_func_t *func,
                        plan_entry_t *out) {
  task->stage = "build-plan";
  cg_plan_input_t input = {.module = module};
  builder_t b = {.task = task, .arena = arena, .input = &input};
  describe_entry(&b, func, out);
}
