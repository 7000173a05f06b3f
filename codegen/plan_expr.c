/* plan_expr.c: see plan_expr.h. */
#include "codegen/plan_expr.h"

typedef TD_VEC(plan_token_t) tokens_t;

static void push(td_arena_t *arena, tokens_t *out, plan_x_t op,
                 int64_t value) {
  plan_token_t t = {.op = op, .value = value};
  td_vec_push(arena, out, t);
}

static uint32_t var_of(td_task_t *task, const cg_vars_t *vars,
                       const ix_symbol_t *s) {
  for (size_t i = 0; i < vars->length; i++) {
    if (vars->data[i] == s) return (uint32_t)i;
  }
  TD_ICE(task, "dim %s has no place in the plan", s->name);
}

static void poly(td_task_t *task, td_arena_t *arena, const cg_vars_t *vars,
                 tokens_t *out, const ix_poly_t *p);

static void atom(td_task_t *task, td_arena_t *arena, const cg_vars_t *vars,
                 tokens_t *out, const ix_atom_t *a) {
  if (a->kind == IX_ATOM_SYMBOL) {
    push(arena, out, PLAN_X_VAR, var_of(task, vars, a->symbol));
    return;
  }
  poly(task, arena, vars, out, a->p);
  poly(task, arena, vars, out, a->q);
  plan_x_t op = a->kind == IX_ATOM_FLOOR ? PLAN_X_DIV
                : a->kind == IX_ATOM_MOD ? PLAN_X_MOD
                : a->kind == IX_ATOM_MIN ? PLAN_X_MIN
                                         : PLAN_X_MAX;
  push(arena, out, op, 0);
}

static void poly(td_task_t *task, td_arena_t *arena, const cg_vars_t *vars,
                 tokens_t *out, const ix_poly_t *p) {
  if (p->term_count == 0) push(arena, out, PLAN_X_CONST, 0);
  for (uint32_t t = 0; t < p->term_count; t++) {
    const ix_term_t *term = &p->terms[t];
    bool has_value = term->coefficient != 1 || term->atom_count == 0;
    if (has_value) push(arena, out, PLAN_X_CONST, term->coefficient);
    for (uint32_t i = 0; i < term->atom_count; i++) {
      atom(task, arena, vars, out, term->atoms[i]);
      if (i > 0 || has_value) push(arena, out, PLAN_X_MUL, 0);
    }
    if (t > 0) push(arena, out, PLAN_X_ADD, 0);
  }
}

plan_expr_t cg_plan_poly(td_task_t *task, td_arena_t *arena,
                         const cg_vars_t *vars, const ix_poly_t *p) {
  tokens_t tokens = {0};
  poly(task, arena, vars, &tokens, p);
  plan_expr_t e = {(uint32_t)tokens.length, tokens.data};
  return e;
}

/* ---- conditions --------------------------------------------------------- */

static plan_x_t op_of(td_task_t *task, tir_x_t op) {
  switch ((int)op) {
    case TIR_X_ADD: return PLAN_X_ADD;
    case TIR_X_SUB: return PLAN_X_SUB;
    case TIR_X_MUL: return PLAN_X_MUL;
    case TIR_X_DIV: return PLAN_X_DIV;
    case TIR_X_MOD: return PLAN_X_MOD;
    case TIR_X_MIN: return PLAN_X_MIN;
    case TIR_X_MAX: return PLAN_X_MAX;
    case TIR_X_NEG: return PLAN_X_NEG;
    case TIR_X_NOT: return PLAN_X_NOT;
    case TIR_X_EQ: return PLAN_X_EQ;
    case TIR_X_NE: return PLAN_X_NE;
    case TIR_X_LT: return PLAN_X_LT;
    case TIR_X_LE: return PLAN_X_LE;
    case TIR_X_GT: return PLAN_X_GT;
    case TIR_X_GE: return PLAN_X_GE;
    case TIR_X_AND: return PLAN_X_AND;
    case TIR_X_OR: return PLAN_X_OR;
    default: TD_ICE(task, "operation %d in a condition at entry", (int)op);
  }
}

/* Depth is that of a written condition: the parser caps it. */
static void condition(td_task_t *task, td_arena_t *arena,
                      const cg_vars_t *vars, const tir_func_t *func,
                      tokens_t *out, const tir_expr_t *e) {
  if (e->op == TIR_X_DIM) {
    poly(task, arena, vars, out, e->u.dim);
    return;
  }
  if (e->op == TIR_X_CONST) {
    bool is_real = e->type == TDSL_DTYPE_F32 || e->type == TDSL_DTYPE_F64;
    plan_token_t t = {.op = is_real ? PLAN_X_REAL : PLAN_X_CONST};
    if (is_real) {
      t.real = e->type == TDSL_DTYPE_F32 ? (double)(float)e->u.f64
                                         : e->u.f64;
    } else {
      t.value = e->u.i64;
    }
    td_vec_push(arena, out, t);
    return;
  }
  if (e->op == TIR_X_LOAD) {
    for (uint32_t s = 0; s < func->slot_count; s++) {
      if (func->slots[s].value == e->u.value) {
        push(arena, out, PLAN_X_SCALAR, s);
        return;
      }
    }
    TD_ICE(task, "condition at entry reads %s", e->u.value->name);
  }
  for (uint32_t i = 0; i < e->arg_count; i++) {
    condition(task, arena, vars, func, out, e->args[i]);
  }
  if (e->op == TIR_X_CAST) {
    bool to_real = e->type == TDSL_DTYPE_F32 || e->type == TDSL_DTYPE_F64;
    if (to_real) push(arena, out, PLAN_X_FLOAT, 0);
    return;
  }
  push(arena, out, op_of(task, e->op), 0);
}

plan_expr_t cg_plan_condition(td_task_t *task, td_arena_t *arena,
                              const cg_vars_t *vars, const tir_func_t *func,
                              tir_expr_t *e) {
  tokens_t tokens = {0};
  condition(task, arena, vars, func, &tokens, e);
  plan_expr_t out = {(uint32_t)tokens.length, tokens.data};
  return out;
}
