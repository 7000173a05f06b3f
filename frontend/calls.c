/* calls.c: calls of functions of the text. */
#include "frontend/check.h"

/* ---- matching arguments to parameters ------------------------------------ */

/* E47 with the place of the function's head. */
static void report_count(sem_ctx_t *c, const ast_expr_t *e, const sem_fn_t *fn,
                         const char *format, const char *name) {
  td_diag_t *d = sem_report(c, TD_E47, e->loc, "wrong arguments of %s: %s %s",
                            fn->name, format, name);
  td_diag_label(d, fn->decl->name.loc, "%s is declared here", fn->name);
}

/* Puts the arguments in the order of the parameters; NULL where a default
 * is taken. */
static bool order_args(sem_ctx_t *c, const ast_expr_t *e, const sem_fn_t *fn,
                       const ast_arg_t **out) {
  const ast_decl_t *d = fn->decl;
  bool named = false;
  for (size_t i = 0; i < e->arg_count; i++) {
    const ast_arg_t *a = &e->args[i];
    size_t k = i;
    if (a->value == NULL) {
      report_count(c, e, fn, "a dtype is not a value:", a->dtype_text);
      return false;
    }
    if (a->name.text != NULL) {
      named = true;
      for (k = 0; k < d->param_count; k++) {
        if (d->params[k].name.text == a->name.text) break;
      }
      if (k == d->param_count) {
        report_count(c, e, fn, "it has no parameter", a->name.text);
        return false;
      }
    } else if (named) {
      report_count(c, e, fn, "positional arguments come before named ones,",
                   "not behind them");
      return false;
    }
    if (k >= d->param_count) {
      report_count(c, e, fn, td_arena_printf(c->arena, "%zu given, %zu",
                                             e->arg_count, d->param_count),
                   "wanted");
      return false;
    }
    if (out[k] != NULL) {
      report_count(c, e, fn, "given twice:", d->params[k].name.text);
      return false;
    }
    out[k] = a;
  }
  for (size_t k = 0; k < d->param_count; k++) {
    if (out[k] != NULL || d->params[k].value != NULL) continue;
    report_count(c, e, fn, "no argument for", d->params[k].name.text);
    return false;
  }
  return true;
}

/* By the text: it is asked before there is an instance. */
static bool is_inout_fn(const sem_fn_t *fn) {
  for (size_t i = 0; i < fn->decl->param_count; i++) {
    if (fn->decl->params[i].is_inout) return true;
  }
  return false;
}

/* ---- inout arguments ----------------------------------------------------- */

/* E19. A subscript that depends on an index would be a different place for
 * every tuple. */
static bool check_place(sem_ctx_t *c, const sem_expr_t *e,
                        const ast_expr_t *ast) {
  bool is_place = sem_root(e) != NULL;
  for (const sem_expr_t *p = e; is_place && p->kind != SEM_NAME;
       p = p->args[0]) {
    if (p->kind != SEM_SUBSCRIPT) continue;
    is_place = sem_is_struct(p->args[0]);
    for (uint32_t i = 0; is_place && i < p->sub_count; i++) {
      const sem_expr_t *sub = p->subs[i].expr;
      is_place = sub != NULL && sub->poly != NULL &&
                 !ix_mentions_kind(sub->poly, IX_SYM_INDEX);
    }
  }
  if (!is_place) {
    td_diag_t *d = sem_report(c, TD_E19, ast->loc,
                              "%s cannot be updated by a call",
                              sem_text(c, ast));
    td_diag_help(d, "an `inout` argument is a name, a field, or a stack "
                 "element with subscripts free of indices");
    return false;
  }
  return sem_check_updatable(c, e, ast->loc);
}

/* Arguments are values of the caller, except those of inout parameters. */
static sem_expr_t *check_arg(sem_ctx_t *c, const ast_arg_t *a,
                             const ast_param_t *p) {
  sem_expr_t *e = sem_check_expr(c, a->value);
  if (e == NULL || !p->is_inout) return e;
  return check_place(c, e, a->value) ? e : NULL;
}

/* E32: two names for one place would make the order of updates visible. */
static bool check_overlap(sem_ctx_t *c, const sem_fn_t *fn,
                          sem_expr_t *const *args) {
  const ast_decl_t *d = fn->decl;
  for (size_t i = 0; i < d->param_count; i++) {
    for (size_t k = 0; k < i; k++) {
      if (!d->params[i].is_inout || !d->params[k].is_inout) continue;
      if (!sem_places_overlap(c, args[k], args[i])) continue;
      td_diag_t *r = sem_report(c, TD_E32, args[i]->loc,
                                "two `inout` arguments overlap: %s and %s of "
                                "%s", d->params[k].name.text,
                                d->params[i].name.text, fn->name);
      td_diag_label(r, args[k]->loc, "the same place");
      td_diag_help(r, "pass different places, or one place once");
      return false;
    }
  }
  return true;
}

/* ---- dtype generics and packs -------------------------------------------- */

/* A formula of constants alone is f32 or i64. */
static tdsl_dtype_t arg_dtype(const sem_expr_t *e) {
  if (sem_is_struct(e)) return TDSL_DTYPE_UNSET;
  if (!e->is_exact) return e->type.dtype;
  return sem_is_int(e) ? TDSL_DTYPE_I64 : TDSL_DTYPE_F32;
}

/* The dtype that the arguments give a generic; constants speak last. */
static tdsl_dtype_t find_dtype(const ast_decl_t *d, const char *name,
                               sem_expr_t *const *args) {
  for (int exact = 0; exact < 2; exact++) {
    for (size_t i = 0; i < d->param_count; i++) {
      const ast_type_t *t = d->params[i].type;
      if (args[i] == NULL || t->dtype != TDSL_DTYPE_UNSET) continue;
      if (t->elem.text != name || args[i]->is_exact != (exact != 0)) continue;
      return arg_dtype(args[i]);
    }
  }
  return TDSL_DTYPE_UNSET;
}

/* False if no parameter mentions the pack. */
static bool find_pack(const ast_decl_t *d, sem_expr_t *const *args,
                      uint32_t *out) {
  for (size_t i = 0; i < d->param_count; i++) {
    const ast_type_t *t = d->params[i].type;
    size_t others = t->stack_count;
    bool has = false;
    for (size_t k = 0; k < t->dim_count; k++) {
      if (t->dims[k].expr == NULL) {
        has = true;
      } else {
        others++;
      }
    }
    if (!has || args[i] == NULL) continue;
    uint32_t rank = args[i]->type.rank;
    *out = rank < others ? 0 : rank - (uint32_t)others;
    return true;
  }
  *out = 0;
  return false;
}

/* The instance that the dtypes and ranks of the arguments ask for. */
static sem_instance_t *choose(sem_ctx_t *c, const ast_expr_t *e, sem_fn_t *fn,
                              sem_expr_t *const *args) {
  const ast_decl_t *d = fn->decl;
  tdsl_dtype_t *dtypes =
      TD_NEW_ARRAY(c->arena, tdsl_dtype_t, d->generic_count);
  size_t n = 0;
  for (size_t i = 0; i < d->generic_count; i++) {
    if (d->generics[i].what.text == NULL) continue;
    dtypes[n] = find_dtype(d, d->generics[i].name.text, args);
    if (dtypes[n++] != TDSL_DTYPE_UNSET) continue;
    td_diag_t *r = sem_report(c, TD_E47, e->loc,
                              "generic %s of %s is not bound by an argument",
                              d->generics[i].name.text, fn->name);
    td_diag_label(r, d->generics[i].loc, "declared here");
    return NULL;
  }
  uint32_t pack = 0;
  if (fn->has_packs && !find_pack(d, args, &pack)) {
    sem_report(c, TD_E47, e->loc, "the pack of %s is not bound by an argument",
               fn->name);
    return NULL;
  }
  return sem_instantiate(c, fn, dtypes, pack, false);
}

/* ---- values of parameters ------------------------------------------------ */

/* Integer scalars take their values along: conditions of the callee may
 * speak of them. */
static void start_matching(sem_ctx_t *c, sem_matching_t *m,
                           sem_instance_t *callee, sem_expr_t *const *args) {
  m->callee = callee;
  m->count = callee->func.generic_count;
  m->generics = callee->func.generics;
  m->values = TD_NEW_ARRAY(c->arena, const ix_poly_t *, m->count);
  m->locs = TD_NEW_ARRAY(c->arena, td_loc_t, m->count);
  m->by = TD_NEW_ARRAY(c->arena, const char *, m->count);
  uint32_t params = callee->func.param_count;
  m->scalars = TD_NEW_ARRAY(c->arena, const ix_symbol_t *, params);
  m->scalar_values = TD_NEW_ARRAY(c->arena, const ix_poly_t *, params);
  for (uint32_t i = 0; i < params; i++) {
    const sem_symbol_t *s = callee->func.params[i];
    const sem_expr_t *value = args[i] != NULL ? args[i] : s->default_value;
    if (callee->head_values[i] == NULL || value == NULL ||
        value->poly == NULL) {
      continue;
    }
    m->scalars[m->scalar_count] = callee->head_values[i];
    m->scalar_values[m->scalar_count++] = value->poly;
  }
}

/* Leaf by leaf; the first that would round is reported. */
static bool exact_struct(sem_ctx_t *c, const sem_struct_t *from,
                         const sem_struct_t *to, td_loc_t loc,
                         bool is_inout) {
  if (from == to) return true;
  for (uint32_t i = 0; i < from->field_count; i++) {
    const sem_type_t *a = &from->fields[i].type, *b = &to->fields[i].type;
    if (a->kind == SEM_STRUCT) {
      if (!exact_struct(c, a->record, b->record, loc, is_inout)) return false;
      continue;
    }
    if (sem_dtype_passes(a->dtype, b->dtype, is_inout)) continue;
    td_diag_t *d = sem_report(
        c, TD_E12, loc, "field %s is %s here, the parameter wants %s",
        from->fields[i].name, td_dtype_name(a->dtype),
        td_dtype_name(b->dtype));
    td_diag_label(d, from->fields[i].loc, "declared here");
    if (!is_inout && td_dtype_is_float(b->dtype)) {
      td_diag_help(d, "write the conversion: `%s(...)`",
                   td_dtype_name(b->dtype));
    }
    return false;
  }
  return true;
}

/* An inout is read and written, so its range must hold in both directions. */
static bool same_range(sem_ctx_t *c, const sem_type_t *a,
                       const sem_type_t *b) {
  if ((a->lo == NULL) != (b->lo == NULL)) return false;
  if ((a->hi == NULL) != (b->hi == NULL)) return false;
  return (a->lo == NULL || sem_same_dim(c, a->lo, b->lo)) &&
         (a->hi == NULL || sem_same_dim(c, a->hi, b->hi));
}

/* No conversion at all: the callee writes into the caller's place. */
static bool check_inout(sem_ctx_t *c, const sem_expr_t *arg,
                        const sem_type_t *param, const char *name) {
  if (param->kind == SEM_STRUCT) {
    return exact_struct(c, arg->type.record, param->record, arg->loc, true);
  }
  if (arg->type.dtype != param->dtype) {
    td_diag_t *d = sem_report(c, TD_E12, arg->loc,
                              "%s is updated as %s, this is %s", name,
                              sem_type_text(c, param),
                              sem_type_text(c, &arg->type));
    td_diag_help(d, "an `inout` argument has exactly the parameter's type");
    return false;
  }
  if (same_range(c, &arg->type, param)) return true;
  td_diag_t *d = sem_report(c, TD_E42, arg->loc,
                            "%s is updated within another range than this "
                            "place has", name);
  td_diag_help(d, "an `inout` argument has the `in` of the parameter");
  return false;
}

/* Types of parameters in the terms of the call, then each argument to its
 * own. */
static bool convert_args(sem_ctx_t *c, sem_matching_t *m, sem_expr_t **args) {
  bool ok = true;
  for (uint32_t i = 0; i < m->callee->func.param_count; i++) {
    const sem_symbol_t *s = m->callee->func.params[i];
    sem_type_t param = m->callee->params[i];
    if (args[i] == NULL) {
      args[i] = (sem_expr_t *)(uintptr_t)s->default_value;
      continue;
    }
    sem_type_subst(c, &param, sem_matching_map, m);
    if (s->kind == SEM_INOUT) {
      ok = check_inout(c, args[i], &param, s->name) && ok;
    } else if (param.kind == SEM_STRUCT) {
      ok = exact_struct(c, args[i]->type.record, param.record, args[i]->loc,
                        false) && ok;
    } else {
      args[i] = sem_for_param(c, args[i], &param, s->name);
      ok = args[i] != NULL && ok;
    }
  }
  return ok;
}

/* ---- requires of the callee (E07) ---------------------------------------- */

/* A side of a condition, as it reads at the call. */
static const char *mapped_text(sem_ctx_t *c, const sem_expr_t *e,
                               sem_matching_t *m) {
  if (e->poly == NULL) return "?";
  return sem_poly_text(
      c, ix_subst(c->pool, e->poly, sem_matching_map, m, c->facts));
}

/* E07 shows the condition in the terms of the call and where both it and the
 * generics come from. */
static bool prove_requires(sem_ctx_t *c, const ast_expr_t *e,
                           sem_matching_t *m) {
  static const char *const words[] = {
      [SEM_OP_EQ] = "==", [SEM_OP_NE] = "!=", [SEM_OP_LT] = "<",
      [SEM_OP_LE] = "<=", [SEM_OP_GT] = ">",  [SEM_OP_GE] = ">="};
  if (c->quiet > 0 || c->unproved > 0) return true;
  for (size_t i = 0; i < m->callee->conditions.length; i++) {
    const sem_require_t *r = &m->callee->conditions.data[i];
    if (sem_prove(c, r->cond, sem_matching_map, m) > 0) continue;
    const sem_expr_t *cond = r->cond;
    td_diag_t *d;
    if (cond->kind == SEM_BINARY && cond->op >= SEM_OP_EQ &&
        cond->op <= SEM_OP_GE && cond->args[0]->poly != NULL &&
        cond->args[1]->poly != NULL) {
      const char *a = mapped_text(c, cond->args[0], m);
      const char *b = mapped_text(c, cond->args[1], m);
      d = sem_report(c, TD_E07, e->loc,
                     "cannot prove %s %s %s, required by %s", a,
                     words[cond->op], b, m->callee->func.name);
      td_diag_help(d, "add `require %s %s %s`", a, words[cond->op], b);
    } else {
      d = sem_report(c, TD_E07, e->loc,
                     "cannot prove a condition that %s requires",
                     m->callee->func.name);
    }
    td_diag_label(d, r->loc, "required here");
    for (uint32_t k = 0; k < m->count; k++) {
      if (m->locs[k].line == 0) continue;
      td_diag_label(d, m->locs[k], "%s = %s", m->generics[k]->name,
                    sem_poly_text(c, m->values[k]));
    }
    return false;
  }
  return true;
}

/* ---- the call ------------------------------------------------------------ */

/* TOPK has two, others what the callee declares. */
uint32_t sem_result_count(const sem_expr_t *call) {
  return call->kind == SEM_CALL ? call->callee->result_count : 2;
}

/* Kept in the tree: lowering puts them in for the generics. */
static void set_bindings(sem_ctx_t *c, sem_expr_t *x,
                         const sem_matching_t *m) {
  x->binding_count = m->count;
  x->bindings = TD_NEW_ARRAY(c->arena, sem_binding_t, m->count);
  for (uint32_t i = 0; i < m->count; i++) {
    x->bindings[i] = (sem_binding_t){m->generics[i], m->values[i]};
  }
}

/* For results after the first, whose types are wanted later. */
static const ix_poly_t *binding_map(void *user, const ix_symbol_t *s) {
  const sem_expr_t *call = user;
  for (uint32_t i = 0; i < call->binding_count; i++) {
    if (call->bindings[i].generic == s) return call->bindings[i].value;
  }
  return NULL;
}

/* The text of dims is dropped: it is in the terms of the callee. */
sem_type_t sem_result_type(sem_ctx_t *c, const sem_expr_t *call, uint32_t i) {
  if (i == 0) return call->type;
  if (call->kind == SEM_TOPK) {
    sem_type_t t = call->type;
    t.dtype = TDSL_DTYPE_I64;
    t.lo = ix_const(c->pool, 0);
    t.hi = call->args[0]->type.dims[0].size;
    return t;
  }
  const sem_instance_t *inst = (const sem_instance_t *)call->callee;
  sem_type_t t = inst->results[i];
  sem_type_subst(c, &t, binding_map, (void *)(uintptr_t)call);
  for (uint32_t k = 0; k < t.rank; k++) t.dims[k].text = NULL;
  t.syntax = NULL;
  return t;
}

/* E31. Inside of expressions there is no order to ask about. */
static bool check_standing(sem_ctx_t *c, const ast_expr_t *e,
                           const sem_fn_t *fn) {
  if (c->quiet > 0 || !is_inout_fn(fn) || c->allowed_call == e) return true;
  td_diag_t *d = sem_report(c, TD_E31, e->loc,
                            "a call that updates its arguments must stand "
                            "alone: %s has an `inout` parameter", fn->name);
  td_diag_help(d, "name its result first: `r = %s(...)`", fn->name);
  return false;
}

/* No result, or several, only where the statement has as many places for
 * them. */
static bool check_results(sem_ctx_t *c, const ast_expr_t *e,
                          const sem_fn_t *fn) {
  size_t count = fn->decl->result_count;
  if (c->quiet > 0 || count == 1) return true;
  if (count == 0) {
    if (c->allowed_call == e && c->stmt != NULL &&
        c->stmt->kind == AST_STMT_CALL) {
      return true;
    }
    td_diag_t *d =
        sem_report(c, TD_E50, e->loc, "%s has no result", fn->name);
    td_diag_label(d, fn->decl->name.loc, "declared here");
    return false;
  }
  if (c->allowed_many == e && c->many_count == count) return true;
  if (c->allowed_call == e && c->stmt != NULL &&
      c->stmt->kind == AST_STMT_CALL) {
    return true;
  }
  td_diag_t *d = sem_report(c, TD_E47, e->loc, "%s has %zu results", fn->name,
                            count);
  td_diag_help(d, "write as many left sides: `a, b = %s(...)`", fn->name);
  return false;
}

/* Arguments, instance, dims, conversions, conditions; each step needs the
 * one before. */
sem_expr_t *sem_call_fn(sem_ctx_t *c, const ast_expr_t *e, sem_fn_t *fn) {
  const ast_decl_t *d = fn->decl;
  const ast_arg_t **given =
      TD_NEW_ARRAY(c->arena, const ast_arg_t *, d->param_count);
  sem_expr_t **args = TD_NEW_ARRAY(c->arena, sem_expr_t *, d->param_count);
  if (!order_args(c, e, fn, given) || !check_standing(c, e, fn)) return NULL;
  const ast_expr_t *allowed_call = c->allowed_call;
  bool ok = true;
  for (size_t i = 0; i < d->param_count; i++) {
    if (given[i] == NULL) continue;
    args[i] = check_arg(c, given[i], &d->params[i]);
    ok = ok && args[i] != NULL;
  }
  c->allowed_call = allowed_call;
  if (!ok || !check_overlap(c, fn, args)) return NULL;
  sem_instance_t *callee = choose(c, e, fn, args);
  if (callee == NULL || !check_results(c, e, fn)) return NULL;
  if (c->quiet == 0 && c->inst != NULL) {
    td_vec_push(c->arena, &c->inst->edges, (sem_edge_t){callee, e->loc});
  }
  sem_matching_t m = {0};
  start_matching(c, &m, callee, args);
  if (!sem_match_args(c, &m, args, e->loc)) return NULL;
  if (!convert_args(c, &m, args) || !prove_requires(c, e, &m)) return NULL;
  sem_expr_t *x = sem_new_expr(c, SEM_CALL, e->loc);
  x->callee = &callee->func;
  x->arg_count = callee->func.param_count;
  x->args = (const sem_expr_t **)(uintptr_t)args;
  set_bindings(c, x, &m);
  if (d->result_count > 0) {
    sem_type_t t = callee->results[0];
    sem_type_subst(c, &t, sem_matching_map, &m);
    for (uint32_t k = 0; k < t.rank; k++) t.dims[k].text = NULL;
    t.syntax = NULL;
    x->type = t;
    if (sem_is_int(x) && t.rank == 0) {
      x->poly = sem_opaque(c, fn->name, e->loc, t.lo, t.hi);
    }
  }
  return x;
}

/* A function of the text comes before one of the language. */
sem_expr_t *sem_call(sem_ctx_t *c, const ast_expr_t *e) {
  const ast_expr_t *name = e->kids[0];
  if (name->kind != AST_NAME) {
    sem_report(c, TD_E01, e->loc, "%s is not a function", sem_text(c, name));
    return NULL;
  }
  sem_fn_t *fn = td_map_get(&c->module->fns, td_str(name->text));
  if (fn != NULL && fn->failed) return NULL;
  if (fn != NULL) return sem_call_fn(c, e, fn);
  if (sem_is_builtin(name->text)) return sem_builtin(c, e, name->text);
  if (c->module->is_incomplete) return NULL;
  sem_unknown(c, (ast_name_t){name->text, name->loc}, "function",
              &c->module->fns, NULL, sem_builtin_names);
  return NULL;
}
