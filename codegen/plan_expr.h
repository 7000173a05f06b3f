/* plan_expr.h: polynomials and conditions as postfix expressions. */
#ifndef TDSL_CODEGEN_PLAN_EXPR_H
#define TDSL_CODEGEN_PLAN_EXPR_H

#include "ir/tir.h"
#include "runtime/plan/plan.h"

/* The symbols that VAR tokens number, in order. */
typedef TD_VEC(const ix_symbol_t *) cg_vars_t;

plan_expr_t cg_plan_poly(td_task_t *task, td_arena_t *arena,
                         const cg_vars_t *vars, const ix_poly_t *p);
/* A condition over dims and rank-0 slots; unsupported operations are an
 * internal error, since the checker allows no others. */
plan_expr_t cg_plan_condition(td_task_t *task, td_arena_t *arena,
                              const cg_vars_t *vars, const tir_func_t *func,
                              tir_expr_t *e);

#endif
