/* kir_interp_expr.c: expressions to steps.
 *
 * A value is one or, if it may differ between lanes, one a lane; where both
 * meet the narrow one is spread. Within a statement an expression is evaluated
 * once. */
#include "ir/kir_interp.h"

#include "runtime/base/num.h"

/* Choices and loads inside each other: what goes beyond was made to. */
enum { MAX_DEPTH = 255 };

enum { TRAIT_SEEN = 1, TRAIT_LOADS = 2, TRAIT_WIDE = 4 };

/* Keys of maps; equal only for the same node, never for equal text. */
static uint64_t key_of(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

/* ---- dims and constants ---------------------------------------------------*/

/* Dims are numbers while a kernel runs, so whatever is made of them alone is
 * a constant of the program. */
static bool dim_value(void *user, const ix_symbol_t *s, int64_t *out) {
  const kir_code_t *c = user;
  for (uint32_t i = 0; i < c->kernel->dim_count; i++) {
    if (c->kernel->dims[i] != s) continue;
    *out = c->scalars[i];
    return true;
  }
  return false;
}

bool kir_code_dim(const kir_code_t *c, const ix_poly_t *p, int64_t *out) {
  return p != NULL && ix_eval(p, dim_value, (void *)(uintptr_t)c, out);
}

void *kir_code_constant(kir_code_t *c, const kir_expr_t *e) {
  union { float s; double d; int64_t i; uint8_t b; uint64_t bits; } v = {0};
  if (e->op == KIR_X_DIM) {
    if (!kir_code_dim(c, e->u.dim, &v.i)) c->failed = true;
  } else {
    switch (kir_rep_of(e->type)) {
      case KIR_REP_S: v.s = (float)e->u.f64; break;
      case KIR_REP_D: v.d = e->u.f64; break;
      case KIR_REP_I: v.i = e->u.i64; break;
      case KIR_REP_B: v.b = e->u.i64 != 0; break;
    }
  }
  struct { uint64_t bits, type; } key = {v.bits, (uint64_t)e->type};
  td_str_t text = td_str_n((const char *)&key, sizeof key);
  uint64_t *reg = td_map_get(&c->constants, text);
  if (reg == NULL) {
    reg = TD_NEW(c->arena, uint64_t);
    *reg = v.bits;
    td_map_put(&c->constants, text, reg);
  }
  return reg;
}

/* The same in every lane; `reg` is what kir_code_constant gave. */
static void *wide_constant(kir_code_t *c, void *reg, kir_rep_t rep) {
  uint64_t key = key_of(reg);
  void *wide = td_map_get_u64(&c->wide_constants, key);
  if (wide == NULL) {
    wide = TD_NEW_ARRAY(c->arena, uint64_t, KIR_WIDTH);
    kir_step_t s = {.n = KIR_WIDTH, .out = wide, .a = reg};
    kir_spread_fn(rep)(NULL, &s);
    td_map_put_u64(&c->wide_constants, key, wide);
  }
  return wide;
}

/* ---- what is known of expressions -----------------------------------------*/

/* 0 for what find_trait has not seen. */
static uint32_t trait_of(const kir_code_t *c, const kir_expr_t *e) {
  return (uint32_t)(uintptr_t)td_map_get_u64(&c->traits, key_of(e));
}

/* Operands come first.  A variable is wide where it can be seen at all, so
 * what is found once holds. */
static void find_trait(void *user, const kir_expr_t *e) {
  kir_code_t *c = user;
  uint32_t t = TRAIT_SEEN;
  if (e->op == KIR_X_LOAD || e->op == KIR_X_FOLD) t |= TRAIT_LOADS;
  if (e->op == KIR_X_VAR && c->vars[e->u.var->id].is_wide) t |= TRAIT_WIDE;
  for (uint32_t i = 0; i < e->arg_count; i++) t |= trait_of(c, e->args[i]);
  td_map_put_u64(&c->traits, key_of(e), (void *)(uintptr_t)t);
}

void kir_code_traits(kir_code_t *c, const kir_expr_t *e) {
  kir_walker_t walker;
  kir_walker_init(&walker, c->arena);
  kir_walk_into(&walker, e, find_trait, c);
}

/* ---- values of the statement ----------------------------------------------*/

/* The log is what memo_release undoes: values made under a jump or a mask
 * must not be found outside of it. */
static void memo_put(kir_code_t *c, uint64_t key, void *reg) {
  td_map_put_u64(&c->memo, key, reg);
  td_vec_push(c->arena, &c->memo_log, key);
}

static void memo_release(kir_code_t *c, size_t mark) {
  while (c->memo_log.length > mark) {
    td_map_put_u64(&c->memo, td_vec_pop(&c->memo_log), NULL);
  }
}

void kir_code_forget(kir_code_t *c) {
  memo_release(c, 0);
}

/* A register is at least 8-aligned: bit 0 of the entry says wide. */
static bool memo_find(const kir_code_t *c, const kir_expr_t *e,
                      kir_value_t *out) {
  uintptr_t v = (uintptr_t)td_map_get_u64(&c->memo, key_of(e));
  out->reg = (void *)(v & ~(uintptr_t)1);
  out->is_wide = (v & 1) != 0;
  return v != 0;
}

/* The spread copy is remembered like a value of its own, under the key with
 * bit 0 set. */
static kir_value_t widen(kir_code_t *c, kir_value_t v, kir_rep_t rep,
                         const kir_expr_t *e) {
  if (c->lanes == 0 || v.is_wide) return v;
  if (e->op == KIR_X_CONST || e->op == KIR_X_DIM) {
    return (kir_value_t){wide_constant(c, v.reg, rep), true};
  }
  uint64_t key = key_of(e) | 1;
  void *known = td_map_get_u64(&c->memo, key);
  if (known == NULL) {
    known = kir_code_register(c);
    kir_code_emit(c, (kir_step_t){.run = kir_spread_fn(rep),
                                  .n = c->lanes,
                                  .out = known,
                                  .a = v.reg});
    memo_put(c, key, known);
  }
  return (kir_value_t){known, true};
}

/* ---- expressions ----------------------------------------------------------*/

/* Arms without loads cannot be told from evaluated ones, so they are simply
 * evaluated: that keeps programs flat. */
static bool is_lazy(const kir_code_t *c, const kir_expr_t *e) {
  uint32_t loads = 0;
  if (e->op != KIR_X_SELECT && e->op != KIR_X_AND && e->op != KIR_X_OR) {
    return false;
  }
  for (uint32_t i = 1; i < e->arg_count; i++) {
    loads |= trait_of(c, e->args[i]) & TRAIT_LOADS;
  }
  return loads != 0;
}

/* Operands to evaluate before the operation itself, in any case. */
static uint32_t strict_count(const kir_code_t *c, const kir_expr_t *e) {
  return is_lazy(c, e) ? 1 : e->arg_count;
}

/* What both arms need whatever they choose is evaluated before the choice,
 * or chains of choices would double it at every link. */
static void eval_common(kir_code_t *c, const kir_expr_t *a,
                        const kir_expr_t *b) {
  td_map_t first;
  TD_VEC(const kir_expr_t *) stack = {0};
  td_map_init(&first, c->arena);
  const kir_expr_t *roots[2] = {a, b};
  for (int arm = 0; arm < 2; arm++) {
    td_map_t seen;
    td_map_init(&seen, c->arena);
    td_vec_push(c->arena, &stack, roots[arm]);
    while (stack.length > 0) {
      const kir_expr_t *e = td_vec_pop(&stack);
      if (e->arg_count == 0) continue;
      if (arm == 1 && td_map_get_u64(&first, key_of(e)) != NULL) {
        (void)kir_code_eval(c, e);
        continue;
      }
      td_map_t *into = arm == 0 ? &first : &seen;
      if (td_map_get_u64(into, key_of(e)) != NULL) continue;
      td_map_put_u64(into, key_of(e), c);
      for (uint32_t i = 0; i < strict_count(c, e); i++) {
        td_vec_push(c->arena, &stack, e->args[i]);
      }
    }
  }
}

/* The arms of a lazy operation: NULL stands for a constant. */
static const kir_expr_t *arm_of(const kir_expr_t *e, int number) {
  if (e->op == KIR_X_SELECT) return e->args[1 + number];
  bool is_arm = (e->op == KIR_X_AND) == (number == 0);
  return is_arm ? e->args[1] : NULL;
}

/* The condition is one value: a jump around each arm. */
static kir_value_t jump_over(kir_code_t *c, const kir_expr_t *e,
                             const void *cond) {
  kir_rep_t rep = kir_rep_of(e->type);
  uint32_t wide = 0, jumps[2] = {0, 0};
  for (uint32_t i = 1; i < e->arg_count; i++) {
    wide |= trait_of(c, e->args[i]) & TRAIT_WIDE;
  }
  kir_value_t out = {kir_code_register(c), wide != 0};
  kir_expr_t boolean = {.op = KIR_X_CONST, .type = TDSL_DTYPE_BOOL};
  for (int i = 0; i < 2; i++) {
    size_t mark = c->memo_log.length;
    if (i == 0) {
      jumps[0] = kir_code_emit(c, (kir_step_t){.run = kir_run_jump_unless,
                                               .a = cond});
    }
    const kir_expr_t *arm = arm_of(e, i);
    boolean.u.i64 = e->op == KIR_X_OR;
    kir_value_t v;
    if (arm == NULL) {
      v = (kir_value_t){kir_code_constant(c, &boolean), false};
    } else {
      v = kir_code_eval(c, arm);
    }
    bool spread = out.is_wide && !v.is_wide;
    kir_code_emit(c, (kir_step_t){.run = spread ? kir_spread_fn(rep)
                                                : kir_copy_fn(rep),
                                  .n = out.is_wide ? c->lanes : 1,
                                  .out = out.reg,
                                  .a = v.reg});
    memo_release(c, mark);
    if (i == 0) {
      jumps[1] = kir_code_emit(c, (kir_step_t){.run = kir_run_jump});
    }
    c->steps.data[jumps[i]].jump = (uint32_t)c->steps.length;
  }
  return out;
}

const uint8_t *kir_code_arm_mask(kir_code_t *c, const void *cond, int arm) {
  uint8_t *mask = kir_code_register(c);
  kir_code_emit(c, (kir_step_t){.run = arm == 0 ? kir_run_mask_and
                                                : kir_run_mask_and_not,
                                .n = c->lanes,
                                .out = mask,
                                .a = cond,
                                .mask = c->mask});
  return mask;
}

/* Lanes differ: each arm under the lanes that chose it. */
static kir_value_t mask_arms(kir_code_t *c, const kir_expr_t *e,
                             const void *cond) {
  kir_rep_t rep = kir_rep_of(e->type);
  const uint8_t *before = c->mask;
  kir_value_t arms[2];
  kir_expr_t boolean = {.op = KIR_X_CONST, .type = TDSL_DTYPE_BOOL};
  for (int i = 0; i < 2; i++) {
    const kir_expr_t *arm = arm_of(e, i);
    size_t mark = c->memo_log.length;
    c->mask = kir_code_arm_mask(c, cond, i);
    boolean.u.i64 = e->op == KIR_X_OR;
    if (arm == NULL) {
      arms[i].reg = kir_code_register(c);
      kir_code_emit(c, (kir_step_t){.run = kir_spread_fn(rep),
                                    .n = c->lanes,
                                    .out = arms[i].reg,
                                    .a = kir_code_constant(c, &boolean)});
    } else {
      arms[i] = widen(c, kir_code_eval(c, arm), rep, arm);
    }
    c->mask = before;
    memo_release(c, mark);
  }
  kir_value_t out = {kir_code_register(c), true};
  kir_code_emit(c, (kir_step_t){.run = kir_lane_fn(KIR_X_SELECT, rep, rep,
                                                   false),
                                .n = c->lanes,
                                .out = out.reg,
                                .a = cond,
                                .b = arms[0].reg,
                                .c = arms[1].reg});
  return out;
}

static kir_value_t lazy(kir_code_t *c, const kir_expr_t *e) {
  kir_value_t cond = kir_code_eval(c, e->args[0]);
  if (e->op == KIR_X_SELECT) eval_common(c, e->args[1], e->args[2]);
  kir_value_t v = cond.is_wide ? mask_arms(c, e, cond.reg)
                               : jump_over(c, e, cond.reg);
  return v;
}

/* e = base + lane with a base that does not move: lanes are neighbours. Sums
 * of more levels are read lane by lane. */
static bool split_lane(kir_code_t *c, kir_expr_t *e, int depth,
                       kir_expr_t **base) {
  enum { MAX_SUM = 64 };
  bool wide = (trait_of(c, e) & TRAIT_WIDE) != 0;
  if (!wide || c->lane == NULL || depth > MAX_SUM) return false;
  if (e->op == KIR_X_VAR && e->u.var == c->lane) {
    *base = NULL;
    return true;
  }
  if (e->op != KIR_X_ADD && e->op != KIR_X_SUB) return false;
  for (int i = 0; i < 2; i++) {
    kir_expr_t *moving = e->args[i], *fixed = e->args[1 - i];
    if (trait_of(c, fixed) & TRAIT_WIDE) continue;
    if (e->op == KIR_X_SUB && i == 1) continue;
    kir_expr_t *rest;
    if (!split_lane(c, moving, depth + 1, &rest)) return false;
    if (rest == NULL && e->op == KIR_X_ADD) {
      *base = fixed;
      return true;
    }
    if (rest == NULL) rest = kir_const_i(c->arena, TDSL_DTYPE_I64, 0);
    *base = kir_op(c->arena, e->op, TDSL_DTYPE_I64, 2,
                   (kir_expr_t *[]){rest, fixed});
    kir_walker_t walker;
    kir_walker_init(&walker, c->arena);
    kir_walk_into(&walker, *base, find_trait, c);
    return true;
  }
  return false;
}

/* Subscripts are evaluated here, for lane 0 where the lanes are neighbours. */
kir_access_t *kir_code_access(kir_code_t *c, const kir_buffer_t *b,
                              uint32_t count, kir_expr_t *const *subs,
                              td_loc_t loc) {
  kir_access_t *a = TD_NEW(c->arena, kir_access_t);
  a->memory = kir_code_memory(c, b, NULL);
  a->count = count;
  a->loc = loc;
  for (uint32_t d = 0; d < count; d++) {
    kir_expr_t *base;
    bool is_last = d + 1 == count && d + 1 == b->rank;
    if (is_last && split_lane(c, subs[d], 0, &base)) {
      a->is_row = true;
      kir_expr_t zero = {.op = KIR_X_CONST, .type = TDSL_DTYPE_I64};
      a->subs[d] = base == NULL ? kir_code_constant(c, &zero)
                                : kir_code_eval(c, base).reg;
      continue;
    }
    kir_value_t v = kir_code_eval(c, subs[d]);
    a->subs[d] = v.reg;
    a->is_wide[d] = v.is_wide;
    a->any_wide |= v.is_wide;
  }
  return a;
}

/* A uniform place is read once for all lanes; the step still needs to know
 * how many there are, to see whether any of them counts. */
static kir_value_t memory(kir_code_t *c, const kir_expr_t *e) {
  kir_access_t *a =
      kir_code_access(c, e->u.buffer, e->arg_count, e->args, e->loc);
  bool is_wide = a->any_wide || a->is_row;
  kir_value_t out = {kir_code_register(c), is_wide};
  kir_code_emit(c, (kir_step_t){.run = e->op == KIR_X_FOLD ? kir_run_fold
                                                           : kir_run_load,
                                .n = is_wide ? c->lanes : 1,
                                .number = c->lanes,
                                .out = out.reg,
                                .mask = c->mask,
                                .rep = kir_rep_of(e->type),
                                .fold = e->fold,
                                .access = a});
  return out;
}

/* All strict operands have been evaluated. */
static kir_value_t operation(kir_code_t *c, const kir_expr_t *e) {
  kir_value_t args[5];
  bool is_wide = false;
  TD_CHECK(c->task, e->arg_count >= 1 && e->arg_count <= 5, "%u operands",
           e->arg_count);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    args[i] = kir_code_eval(c, e->args[i]);
    is_wide |= args[i].is_wide;
  }
  for (uint32_t i = 0; is_wide && i < e->arg_count; i++) {
    args[i] = widen(c, args[i], kir_rep_of(e->args[i]->type), e->args[i]);
  }
  kir_step_t s = {.n = is_wide ? c->lanes : 1, .rep = kir_rep_of(e->type)};
  bool is_whole =
      e->arg_count > 1 && e->args[1]->type == TDSL_DTYPE_I64;
  s.run = kir_lane_fn(e->op, s.rep, kir_rep_of(e->args[0]->type), is_whole);
  TD_CHECK(c->task, s.run != NULL, "no step for %s", kir_x_text(e->op));
  s.out = kir_code_register(c);
  const void **places[5] = {&s.a, &s.b, &s.c, NULL, NULL};
  if (e->op == KIR_X_UNIFORM) {
    s.number = e->arg_count - 1;
    for (uint32_t i = 2; i < 5; i++) places[i] = &s.more[i - 2];
  }
  for (uint32_t i = 0; i < e->arg_count; i++) *places[i] = args[i].reg;
  if (e->op == KIR_X_CAST) s.to = e->u.to;
  kir_code_emit(c, s);
  return (kir_value_t){s.out, is_wide};
}

/* Leaves cost no step: a register that is already filled. */
static kir_value_t leaf(kir_code_t *c, const kir_expr_t *e) {
  if (e->op == KIR_X_VAR) return c->vars[e->u.var->id];
  return (kir_value_t){kir_code_constant(c, e), false};
}

static bool is_leaf(const kir_expr_t *e) {
  return e->op == KIR_X_CONST || e->op == KIR_X_VAR || e->op == KIR_X_DIM;
}

/* Depth-first with a stack of its own, so that a sum of 200,000 terms costs
 * memory and not C stack; only choices and subscripts recurse, to a cap. */
kir_value_t kir_code_eval(kir_code_t *c, const kir_expr_t *root) {
  typedef struct frame { const kir_expr_t *e; uint32_t next; } frame_t;
  TD_VEC(frame_t) stack = {0};
  kir_value_t v;
  if (is_leaf(root)) return leaf(c, root);
  if (memo_find(c, root, &v)) return v;
  if (++c->depth > MAX_DEPTH) {
    td_raise(c->task, TDSL_STATUS_LIMIT,
             "expressions nest too deep in kernel %s", c->kernel->name);
  }
  td_vec_push(c->arena, &stack, (frame_t){root, 0});
  while (stack.length > 0) {
    frame_t *top = &td_vec_last(&stack);
    const kir_expr_t *e = top->e;
    /* subscripts have their own way, see kir_code_access */
    bool is_memory = e->op == KIR_X_LOAD || e->op == KIR_X_FOLD;
    uint32_t strict = is_memory ? 0 : strict_count(c, e);
    if (memo_find(c, e, &v)) {
      (void)td_vec_pop(&stack);
    } else if (top->next < strict) {
      const kir_expr_t *arg = e->args[top->next++]; /* the push moves top */
      if (!is_leaf(arg)) td_vec_push(c->arena, &stack, (frame_t){arg, 0});
    } else {
      if (is_memory) {
        v = memory(c, e);
      } else if (is_lazy(c, e)) {
        v = lazy(c, e);
      } else {
        v = operation(c, e);
      }
      memo_put(c, key_of(e),
               (void *)((uintptr_t)v.reg | (v.is_wide ? 1u : 0u)));
      (void)td_vec_pop(&stack);
    }
  }
  c->depth--;
  return v;
}

kir_value_t kir_code_wide(kir_code_t *c, const kir_expr_t *e) {
  return widen(c, kir_code_eval(c, e), kir_rep_of(e->type), e);
}
