/* lower_call.c: inlining.
 *
 * A call is a new frame: parameters are bound to views of the arguments (or
 * to the caller's cells, for inout), generic dims to what they stand for,
 * and the body is lowered in place.  Nothing is shared between two calls of
 * one function.  The checker has excluded recursion. */
#include "frontend/lower_impl.h"

static bool is_scalar_type(const sem_type_t *type) {
  return type->kind == SEM_TENSOR && type->rank == 0;
}

/* Functions from scalars to scalars: silu, gelu.  Their definitions stay
 * formulas, so that a call is as good as the text written out. */
static bool is_scalar_func(const sem_func_t *f) {
  for (uint32_t i = 0; i < f->param_count; i++)
    if (f->params[i]->kind == SEM_INOUT ||
        !is_scalar_type(&f->params[i]->type))
      return false;
  for (uint32_t i = 0; i < f->result_count; i++)
    if (!is_scalar_type(&f->results[i]->type)) return false;
  return true;
}

/* What a parameter is bound to, in the frame of the caller.  A scalar is the
 * formula itself, shared by all that reads it; a tensor is a view, stored
 * first only if it is a formula.  Nothing that the callee writes through an
 * inout can change it: values have versions. */
static lo_binding_t *argument(lo_t *lo, const sem_symbol_t *param,
                              const sem_expr_t *arg) {
  if (param->kind == SEM_INOUT) return lo_place(lo, arg);
  lo_binding_t *b = TD_NEW(lo->arena, lo_binding_t);
  lo_value_t v;
  if (is_scalar_type(&param->type)) {
    tir_expr_t *e = lo_coerce(lo, lo_scalar(lo, arg),
                              tir_arithmetic(param->type.dtype));
    v = lo_value_one(lo, lo_view_scalar(lo, e));
  } else {
    v = lo_value_named(lo, arg, td_arena_printf(lo->arena, "%s.%s",
                                                lo->name, param->name));
  }
  b->count = v.count;
  b->leaves = v.leaves;
  return b;
}

/* Values are put in terms of dynamic dims here, so that polys of a frame need
 * one replacement however deep it is. */
static void bind_generics(lo_t *lo, lo_frame_t *f, const sem_expr_t *call) {
  uint32_t n = call->binding_count;
  f->binding_count = n;
  f->generics = TD_NEW_ARRAY(lo->arena, const ix_symbol_t *, n);
  f->values = TD_NEW_ARRAY(lo->arena, const ix_poly_t *, n);
  for (uint32_t i = 0; i < n; i++) {
    f->generics[i] = call->bindings[i].generic;
    f->values[i] = lo_poly(lo, call->bindings[i].value);
  }
}

/* Functions do not recurse, but a chain of thousands of them would use the
 * stack up. */
static void check_depth(lo_t *lo, const sem_expr_t *call) {
  if (lo->frame->depth < LO_MAX_DEPTH) return;
  td_diag_t *d = td_diag(lo->task, TD_L04, call->loc,
                         "calls nest deeper than %d, at the call of %s",
                         LO_MAX_DEPTH, call->callee->name);
  td_diag_help(d, "write part of the chain as a `for`, or in one function");
  td_raise(lo->task, TDSL_STATUS_INVALID_PROGRAM, "calls nest too deep");
}

/* Forty functions that each call the one before twice are a short text. */
static void check_count(lo_t *lo, const sem_expr_t *call) {
  if (++lo->call_count <= LO_MAX_CALLS) return;
  td_diag_t *d = td_diag(lo->task, TD_B01, call->loc,
                         "this version cannot compile programs of more than "
                         "%d calls, here of %s", LO_MAX_CALLS,
                         call->callee->name);
  td_diag_help(d, "name the value of a call that is made twice, or a loop");
  td_raise(lo->task, TDSL_STATUS_UNAVAILABLE, "program is too large");
}

/* What a result holds at the end of the body. */
static lo_value_t result_value(lo_t *lo, const sem_symbol_t *symbol) {
  const lo_binding_t *b = lo_lookup(lo, symbol);
  TD_CHECK(lo->task, b != NULL, "result %s is not defined", symbol->name);
  lo_value_t v = {b->count, b->leaves};
  if (b->cells == NULL) return v;
  v.leaves = TD_NEW_ARRAY(lo->arena, const lo_view_t *, b->count);
  for (uint32_t i = 0; i < b->count; i++) v.leaves[i] = b->cells[i]->now;
  return v;
}

void lo_inline(lo_t *lo, const sem_expr_t *call, const char *const *names,
               const lo_order_t *orders, lo_value_t *results) {
  const sem_func_t *func = call->callee;
  check_depth(lo, call);
  check_count(lo, call);
  lo_frame_t *f = TD_NEW(lo->arena, lo_frame_t);
  f->func = func;
  f->caller = lo->frame;
  f->depth = lo->frame->depth + 1;
  td_map_init(&f->symbols, lo->arena);
  td_map_init(&f->indices, lo->arena);
  f->prefix = lo->name;
  f->is_scalar = is_scalar_func(func);
  f->is_tf32 = lo->frame->is_tf32 || func->is_tf32;
  f->is_approx = lo->frame->is_approx || func->is_approx;
  /* The names outlive the statement that gave them: locals refer to them. */
  const char **copies = TD_NEW_ARRAY(lo->arena, const char *,
                                     func->result_count);
  for (uint32_t i = 0; i < func->result_count; i++) copies[i] = names[i];
  f->result_names = copies;
  f->result_orders = orders;
  bind_generics(lo, f, call);
  for (uint32_t i = 0; i < func->param_count; i++) {
    lo_binding_t *b = argument(lo, func->params[i], call->args[i]);
    td_map_put_u64(&f->symbols, (uint64_t)(uintptr_t)func->params[i], b);
  }
  const char *outer_name = lo->name;
  lo->frame = f;
  lo_block(lo, func->body);
  for (uint32_t i = 0; i < func->result_count; i++)
    results[i] = result_value(lo, func->results[i]);
  lo->frame = f->caller;
  lo->name = outer_name;
}

lo_value_t lo_call_value(lo_t *lo, const sem_expr_t *call) {
  const sem_func_t *func = call->callee;
  const char *outer_name = lo->name;
  lo->name =
      td_arena_printf(lo->arena, "%s.%s", outer_name, func->name);
  const char **names =
      TD_NEW_ARRAY(lo->arena, const char *, func->result_count);
  lo_value_t *results =
      TD_NEW_ARRAY(lo->arena, lo_value_t, func->result_count);
  for (uint32_t i = 0; i < func->result_count; i++)
    names[i] = i == 0 ? lo->name
                      : td_arena_printf(lo->arena, "%s.%s", lo->name,
                                        func->results[i]->name);
  lo_inline(lo, call, names, NULL, results);
  lo->name = outer_name;
  return results[0];
}
