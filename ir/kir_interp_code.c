/* kir_interp_code.c: kernels to steps, statement by statement; expressions
 * are kir_interp_expr.c's.
 *
 * Registers are slots taken in order and given back at the end of the
 * statement (or of the block, for variables). */
#include "ir/kir_interp.h"

/* What goes beyond was made to go beyond. */
enum { MAX_STEPS = 1 << 22 };

/* Returns the number of the step, for jumps that are aimed later. */
uint32_t kir_code_emit(kir_code_t *c, kir_step_t step) {
  if (c->steps.length >= MAX_STEPS) {
    td_raise(c->task, TDSL_STATUS_LIMIT, "kernel %s is too large",
             c->kernel->name);
  }
  td_vec_push(c->arena, &c->steps, step);
  return (uint32_t)c->steps.length - 1;
}

/* Taken in order; whoever opened a statement or block gives back what was
 * taken since by resetting slots_used. All are wide: they are few. */
void *kir_code_register(kir_code_t *c) {
  if (c->slots_used == c->slots.length) {
    /* the odd size spreads slots over the sets of a cache */
    unsigned char *slot = td_arena_alloc(c->arena, KIR_WIDTH * 8 + 64);
    td_vec_push(c->arena, &c->slots, slot);
  }
  return c->slots.data[c->slots_used++];
}

/* Before anything of a statement is evaluated: laziness and lanes are decided
 * by these. */
static void find_traits(kir_code_t *c, const kir_stmt_t *s) {
  for (uint32_t i = 0; i < kir_stmt_expr_count(s); i++) {
    kir_code_traits(c, kir_stmt_expr(s, i));
  }
}

/* One warp after the other, or backwards. */
static void warp_loop(kir_code_t *c, const kir_stmt_t *s) {
  int64_t *var = kir_code_register(c);
  kir_expr_t first = {.op = KIR_X_CONST, .type = TDSL_DTYPE_I64};
  kir_expr_t end = first;
  first.u.i64 = c->reversed ? s->hi->u.i64 - 1 : s->lo->u.i64;
  end.u.i64 = c->reversed ? s->lo->u.i64 - 1 : s->hi->u.i64;
  kir_code_emit(c, (kir_step_t){.run = kir_copy_fn(KIR_REP_I),
                                .n = 1,
                                .out = var,
                                .a = kir_code_constant(c, &first)});
  c->vars[s->var->id] = (kir_value_t){var, false};
  uint32_t start =
      kir_code_emit(c, (kir_step_t){.run = kir_run_warp, .a = var});
  kir_code_block(c, &s->body);
  kir_code_emit(c, (kir_step_t){.run = kir_run_next_warp,
                                .out = var,
                                .b = kir_code_constant(c, &end),
                                .number = c->reversed ? -1 : 1,
                                .jump = start});
}

/* Serial and unrolled loops alike: in order, one after the other.
 * The bound is read once, since the body may store to what it came from. */
static void counted_loop(kir_code_t *c, const kir_stmt_t *s) {
  if (s->loop == KIR_LOOP_WARP) {
    warp_loop(c, s);
    return;
  }
  int64_t *var = kir_code_register(c);
  void *hi = kir_code_register(c);
  size_t mark = c->slots_used;
  const void *lo = kir_code_eval(c, s->lo).reg;
  kir_code_emit(c, (kir_step_t){.run = kir_copy_fn(KIR_REP_I),
                                .n = 1,
                                .out = hi,
                                .a = kir_code_eval(c, s->hi).reg});
  kir_code_forget(c);
  uint32_t enter = kir_code_emit(
      c, (kir_step_t){.run = kir_run_enter, .out = var, .a = lo, .b = hi});
  c->slots_used = mark;
  c->vars[s->var->id] = (kir_value_t){var, false};
  kir_code_block(c, &s->body);
  kir_code_emit(c, (kir_step_t){.run = kir_run_next,
                                .out = var,
                                .b = hi,
                                .number = s->step,
                                .jump = enter + 1});
  c->steps.data[enter].jump = (uint32_t)c->steps.length;
}

/* The numbers of the lanes are a constant register. */
static void lane_loop(kir_code_t *c, const kir_stmt_t *s) {
  int64_t *numbers = TD_NEW_ARRAY(c->arena, int64_t, KIR_WIDTH);
  for (int64_t l = 0; l < KIR_WIDTH; l++) numbers[l] = l;
  c->lanes = (uint32_t)s->hi->u.i64;
  c->lane = s->var;
  c->vars[s->var->id] = (kir_value_t){numbers, true};
  if (s->mask != NULL) {
    find_traits(c, s);
    c->mask = kir_code_wide(c, s->mask).reg;
    kir_code_forget(c);
  }
  kir_code_block(c, &s->body);
  c->mask = NULL;
  c->lane = NULL;
  c->lanes = 0;
}

/* Both arms run, each under its lanes; an arm without lanes does nothing, as
 * its loads and stores see to. */
static void masked_if(kir_code_t *c, const kir_stmt_t *s, const void *cond) {
  const uint8_t *before = c->mask;
  const kir_block_t *arms[2] = {&s->body, &s->orelse};
  for (int i = 0; i < 2; i++) {
    if (arms[i]->length == 0) continue;
    c->mask = kir_code_arm_mask(c, cond, i);
    kir_code_block(c, arms[i]);
    c->mask = before;
  }
}

/* The condition is copied out of the statement's temporaries, because the
 * arms may overwrite those. */
static void if_stmt(kir_code_t *c, const kir_stmt_t *s) {
  uint8_t *cond = kir_code_register(c);
  size_t mark = c->slots_used;
  kir_value_t v = kir_code_eval(c, s->mask);
  kir_code_forget(c);
  kir_code_emit(c, (kir_step_t){.run = kir_copy_fn(KIR_REP_B),
                                .n = v.is_wide ? c->lanes : 1,
                                .out = cond,
                                .a = v.reg});
  c->slots_used = mark;
  if (v.is_wide) {
    masked_if(c, s, cond);
    return;
  }
  uint32_t over =
      kir_code_emit(c, (kir_step_t){.run = kir_run_jump_unless, .a = cond});
  kir_code_block(c, &s->body);
  uint32_t out = kir_code_emit(c, (kir_step_t){.run = kir_run_jump});
  c->steps.data[over].jump = (uint32_t)c->steps.length;
  kir_code_block(c, &s->orelse);
  c->steps.data[out].jump = (uint32_t)c->steps.length;
}

/* Value first, then subscripts; neither can change what the other reads. */
static void store(kir_code_t *c, const kir_stmt_t *s) {
  kir_rep_t rep = kir_rep_of(s->value->type);
  kir_value_t v = c->lanes > 0 ? kir_code_wide(c, s->value)
                               : kir_code_eval(c, s->value);
  kir_access_t *a =
      kir_code_access(c, s->buffer, s->sub_count, s->subs, s->loc);
  kir_code_emit(c, (kir_step_t){.run = kir_run_store,
                                .n = c->lanes > 0 ? c->lanes : 1,
                                .a = v.reg,
                                .mask = c->mask,
                                .rep = rep,
                                .access = a});
}

/* Subscripts of the neighbour `i` places on. */
static kir_expr_t **neighbour(kir_code_t *c, const kir_buffer_t *b,
                              kir_expr_t *const *subs, int64_t i) {
  kir_expr_t **out = TD_NEW_ARRAY(c->arena, kir_expr_t *, b->rank);
  for (uint32_t d = 0; d < b->rank; d++) out[d] = subs[d];
  uint32_t along = kir_copy_dim(b);
  kir_expr_t *number = kir_const_i(c->arena, TDSL_DTYPE_I64, i);
  out[along] = kir_add(c->arena, out[along], number);
  kir_code_traits(c, out[along]);
  return out;
}

/* A place in memory that is not a multiple of the elements is a fault. */
static void check_aligned(kir_code_t *c, const kir_stmt_t *s,
                          const kir_buffer_t *b, kir_expr_t *const *subs) {
  if (!c->checks || b->space == KIR_REGISTER) return;
  kir_access_t *a = kir_code_access(c, b, b->rank, subs, s->loc);
  kir_code_emit(c, (kir_step_t){.run = kir_run_aligned,
                                .n = a->any_wide || a->is_row ? c->lanes : 1,
                                .number = s->step,
                                .mask = c->mask,
                                .access = a});
}

/* One element after the other: nobody can tell. */
static void copy(kir_code_t *c, const kir_stmt_t *s) {
  const kir_buffer_t *from = s->value->u.buffer;
  check_aligned(c, s, s->buffer, s->subs);
  check_aligned(c, s, from, s->value->args);
  for (int64_t i = 0; i < s->step; i++) {
    kir_stmt_t one = *s;
    kir_expr_t *load = kir_load(c->arena, from, from->rank,
                                neighbour(c, from, s->value->args, i));
    load->loc = s->loc;
    kir_code_traits(c, load);
    one.kind = KIR_STORE;
    one.subs = neighbour(c, s->buffer, s->subs, i);
    one.value = load;
    store(c, &one);
    kir_code_forget(c);
  }
}

/* Subscripts and condition now, elements when somebody has waited. */
static void async(kir_code_t *c, const kir_stmt_t *s) {
  const kir_expr_t *from = s->value;
  const uint8_t *is_there = NULL;
  if (s->mask != NULL) {
    is_there = kir_code_wide(c, s->mask).reg;
  }
  kir_access_t *to =
      kir_code_access(c, s->buffer, s->sub_count, s->subs, s->loc);
  kir_code_emit(
      c, (kir_step_t){.run = kir_run_async,
                      .n = c->lanes,
                      .number = s->step,
                      .mask = c->mask,
                      .b = is_there,
                      .access = to,
                      .from = kir_code_access(c, from->u.buffer,
                                              from->arg_count, from->args,
                                              s->loc)});
}

/* The warps of a barrier. */
static void barrier(kir_code_t *c, const kir_stmt_t *s) {
  uint32_t n = kir_warp_count(c->kernel);
  bool is_part = s->step > 0;
  kir_code_emit(c, (kir_step_t){.run = kir_run_barrier,
                                .number = is_part ? s->lo->u.i64 : 0,
                                .n = is_part ? (uint32_t)s->hi->u.i64 : n});
}

/* Copied, not renamed: the value must stay what it was when memory changes. */
static void let(kir_code_t *c, const kir_stmt_t *s) {
  void *reg = kir_code_register(c);
  size_t mark = c->slots_used;
  kir_value_t v = kir_code_eval(c, s->value);
  kir_code_emit(c, (kir_step_t){.run = kir_copy_fn(kir_rep_of(s->var->type)),
                                .n = v.is_wide ? c->lanes : 1,
                                .out = reg,
                                .a = v.reg});
  c->slots_used = mark;
  c->vars[s->var->id] = (kir_value_t){reg, v.is_wide};
}

/* A lane loop finds its own traits: its mask mentions the lane, which exists
 * only inside. */
static void statement(kir_code_t *c, const kir_stmt_t *s) {
  bool is_lane = s->kind == KIR_LOOP && s->loop == KIR_LOOP_LANE;
  if (!is_lane) find_traits(c, s);
  switch (s->kind) {
    case KIR_LOOP:
      if (is_lane) {
        lane_loop(c, s);
      } else {
        counted_loop(c, s);
      }
      return;
    case KIR_IF: if_stmt(c, s); return;
    case KIR_LET: let(c, s); break;
    case KIR_STORE: store(c, s); break;
    case KIR_COPY: copy(c, s); break;
    case KIR_TRANSPOSE: {
      kir_access_t *a = TD_NEW(c->arena, kir_access_t);
      a->memory = kir_code_memory(c, s->buffer, NULL);
      kir_code_emit(c, (kir_step_t){.run = kir_run_transpose, .access = a});
      return;
    }
    case KIR_PREFETCH: return; /* there is nothing it could change */
    case KIR_ASYNC: async(c, s); break;
    case KIR_COMMIT:
      kir_code_emit(c, (kir_step_t){.run = kir_run_commit});
      return;
    case KIR_WAIT:
      kir_code_emit(c,
                    (kir_step_t){.run = kir_run_wait, .number = s->step});
      return;
    case KIR_BARRIER: barrier(c, s); return;
    case KIR_ALLOC: {
      kir_access_t *a = TD_NEW(c->arena, kir_access_t);
      a->memory = kir_code_memory(c, s->buffer, NULL);
      kir_code_emit(c, (kir_step_t){.run = kir_run_alloc, .access = a});
      break;
    }
    case KIR_COMMENT: case KIR_KIND_COUNT: return;
  }
  kir_code_forget(c);
}

void kir_code_block(kir_code_t *c, const kir_block_t *block) {
  size_t mark = c->slots_used;
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *s = block->data[i];
    size_t before = c->slots_used;
    statement(c, s);
    /* a let keeps its register to the end of the block */
    c->slots_used = s->kind == KIR_LET ? before + 1 : before;
  }
  c->slots_used = mark;
}
