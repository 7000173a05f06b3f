/* body.c: the body of one instance, with the facts of its function. */
#include "frontend/check.h"

/* ---- facts of the head --------------------------------------------------- */

/* A dim of a parameter is a size, so it is not negative. */
static void add_dim_fact(sem_ctx_t *c, void *user, const sem_dim_t *dim) {
  (void)user;
  int64_t number = 0;
  const ix_poly_t *p = dim->size;
  if (p == NULL || ix_is_const(p, &number)) return;
  if (ix_as_symbol(p) != NULL || sem_nonneg(c, p)) return;
  ix_facts_add(c->facts, p);
}

/* A fresh set for each body: facts of one function never reach another. */
static void start_facts(sem_ctx_t *c, sem_instance_t *inst) {
  c->facts = ix_facts_create(c->pool);
  for (size_t i = 0; i < c->base_requires.length; i++) {
    sem_assume_require(c, c->base_requires.data[i]);
  }
  sem_assume_sizes(c);
  for (size_t i = 0; i < inst->conditions.length; i++) {
    sem_assume_require(c, inst->conditions.data[i].cond);
  }
}

/* The value of an integer scalar takes the range of its type along. */
static void apply_symbol(sem_ctx_t *c, sem_symbol_t *s,
                         const sem_type_t *raw) {
  s->type = *raw;
  sem_type_apply(c, &s->type);
  if (s->value != NULL) {
    ix_symbol_t *v = (ix_symbol_t *)(uintptr_t)s->value;
    v->lo = s->type.lo;
    v->hi = s->type.hi;
  }
}

/* ---- requires as an entry point checks them ------------------------------ */

/* What an equality puts for a name; NULL for a name that stays. */
static const ix_poly_t *replacement(void *user, const ix_symbol_t *s) {
  sem_ctx_t *c = user;
  const ix_poly_t *name = ix_sym(c->pool, s);
  const ix_poly_t *p = ix_apply_facts(c->pool, name, c->facts);
  p = ix_restore_facts(c->pool, p, c->facts);
  return p == name ? NULL : p;
}

/* Quotients of divisibility facts stay as they are: their conditions still
 * have to be checked. */
static const ix_poly_t *settled(sem_ctx_t *c, const ix_poly_t *p) {
  return p == NULL ? NULL : ix_subst(c->pool, p, replacement, c, NULL);
}

/* A copy in which names that `require N == M` replaced are gone, since no
 * argument binds them; calls go on with the original.  Left chains in a
 * loop: a condition may be a long one. */
static const sem_expr_t *settled_copy(sem_ctx_t *c, const sem_expr_t *e) {
  const sem_expr_t *top = NULL;
  const sem_expr_t **slot = &top;
  while (e != NULL) {
    sem_expr_t *copy = TD_NEW(c->arena, sem_expr_t);
    *copy = *e;
    copy->poly = settled(c, e->poly);
    *slot = copy;
    if (e->arg_count == 0) break;
    copy->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, e->arg_count);
    for (uint32_t i = 1; i < e->arg_count; i++) {
      copy->args[i] = settled_copy(c, e->args[i]);
    }
    slot = &copy->args[0];
    e = e->args[0];
  }
  return top;
}

/* True for equalities alone; the quotient of a divisibility fact is restored
 * to the name. */
bool sem_is_replaced(sem_ctx_t *c, const sem_global_t *g,
                     const ix_facts_t *facts) {
  const ix_poly_t *name = ix_sym(c->pool, g->symbol);
  const ix_poly_t *p = ix_apply_facts(c->pool, name, facts);
  return ix_restore_facts(c->pool, p, facts) != name;
}

/* The bound of a dim that an equality replaced: no argument binds the dim, so
 * its bound is a condition on what stands for it. */
static sem_require_t bound_require(sem_ctx_t *c, const sem_global_t *g) {
  sem_expr_t *e = TD_NEW(c->arena, sem_expr_t);
  sem_expr_t *sides = TD_NEW_ARRAY(c->arena, sem_expr_t, 2);
  const ix_poly_t *polys[2] = {settled(c, ix_sym(c->pool, g->symbol)),
                               g->bound};
  e->kind = SEM_BINARY;
  e->op = SEM_OP_LE;
  e->type = sem_scalar(TDSL_DTYPE_BOOL);
  e->loc = g->item->loc;
  e->arg_count = 2;
  e->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 2);
  for (int i = 0; i < 2; i++) {
    sides[i].kind = SEM_DIM;
    sides[i].type = sem_scalar(TDSL_DTYPE_I64);
    sides[i].poly = polys[i];
    sides[i].loc = g->item->loc;
    e->args[i] = &sides[i];
  }
  return (sem_require_t){e, g->item->loc};
}

/* A replaced dim takes its bound along, as a condition on what replaced it. */
void sem_settle_requires(sem_ctx_t *c, uint32_t count,
                         const sem_require_t *from, sem_func_t *func) {
  TD_VEC(sem_require_t) list = {0};
  for (uint32_t i = 0; i < count; i++) {
    sem_require_t r = from[i];
    r.cond = settled_copy(c, r.cond);
    td_vec_push(c->arena, &list, r);
  }
  for (size_t i = 0; i < c->dyns.length; i++) {
    const sem_global_t *g = c->dyns.data[i];
    if (g->item == NULL || !sem_is_replaced(c, g, c->facts)) continue;
    /* Those of the files are in the program, not in every function. */
    if (func != NULL && sem_is_replaced(c, g, c->base_facts)) continue;
    td_vec_push(c->arena, &list, bound_require(c, g));
  }
  if (func != NULL) {
    func->require_count = (uint32_t)list.length;
    func->requires = list.data;
  } else {
    c->program->require_count = (uint32_t)list.length;
    c->program->requires = list.data;
  }
}

/* ---- names of the head --------------------------------------------------- */

/* An inout has another value in the body than its preconditions speak of, so
 * it gets a symbol of its own. */
static void declare_head(sem_ctx_t *c, sem_instance_t *inst) {
  const ast_decl_t *d = inst->fn->decl;
  for (size_t i = 0; i < d->generic_count; i++) {
    const ast_generic_t *g = &d->generics[i];
    const sem_entry_t *old =
        td_map_get(&inst->generics, td_str(g->name.text));
    sem_entry_t *e = sem_declare(c, old->kind, g->name, false);
    if (e == NULL) continue;
    e->poly = old->poly;
    e->dtype = old->dtype;
    e->count = old->count;
    e->polys = old->polys;
  }
  for (size_t i = 0; i < d->param_count; i++) {
    sem_symbol_t *s = inst->func.params[i];
    if (s->kind == SEM_INOUT && s->value != NULL) {
      s->value = ix_symbol_create(c->pool, s->name, IX_SYM_DATA, s->loc);
    }
    apply_symbol(c, s, &inst->params[i]);
    if (s->value != NULL) sem_set_width(c, s->value, s->type.dtype);
    sem_entry_t *e =
        sem_declare(c, SEM_ENTRY_SYMBOL, d->params[i].name, true);
    if (e != NULL) e->symbol = s;
  }
  for (uint32_t i = 0; i < inst->func.param_count; i++) {
    sem_each_dim(c, &inst->func.params[i]->type, add_dim_fact, NULL);
  }
  for (size_t i = 0; i < d->result_count; i++) {
    apply_symbol(c, inst->func.results[i], &inst->results[i]);
    if (d->results[i].name.text == NULL) continue;
    sem_entry_t *e =
        sem_declare(c, SEM_ENTRY_SYMBOL, d->results[i].name, true);
    if (e == NULL) continue;
    e->symbol = inst->func.results[i];
    e->is_pending = true;
  }
}

/* Parameters are sizes of what the caller has; results are made here. */
static void check_results(sem_ctx_t *c, sem_instance_t *inst) {
  for (uint32_t i = 0; i < inst->func.result_count; i++) {
    const sem_symbol_t *s = inst->func.results[i];
    sem_check_created(c, &s->type, s->loc, s->name);
  }
  for (uint32_t i = 0; i < inst->func.param_count; i++) {
    const sem_symbol_t *s = inst->func.params[i];
    sem_check_sizes(c, &s->type, s->loc, s->name);
  }
}

/* E30, once the whole body is read: a definition may stand in a checkpoint
 * block. */
static void check_defined(sem_ctx_t *c, sem_instance_t *inst) {
  const ast_decl_t *d = inst->fn->decl;
  for (size_t i = 0; i < d->result_count; i++) {
    const ast_name_t *name = &d->results[i].name;
    if (name->text == NULL) continue;
    const sem_entry_t *e = sem_lookup(c, name->text);
    if (e == NULL || e->kind != SEM_ENTRY_SYMBOL || !e->is_pending) continue;
    td_diag_t *r = sem_report(c, TD_E30, name->loc,
                              "result %s is never defined", name->text);
    td_diag_label(r, d->results[i].type->loc, "declared as %s",
                  sem_type_text(c, &e->symbol->type));
    td_diag_help(r, "define it in the body at its top level: `%s%s = ...`",
                 name->text, e->symbol->type.rank > 0 ? "[i, ...]" : "");
  }
}

/* ---- the short form -> type = expr --------------------------------------- */

/* `-> type = expr` is a body of one definition of the unnamed result. */
static void check_short(sem_ctx_t *c, sem_instance_t *inst,
                        const ast_expr_t *value) {
  sem_symbol_t *s = inst->func.results[0];
  c->allowed_call = value;
  sem_expr_t *e = sem_check_formula(c, value);
  c->allowed_call = NULL;
  inst->func.body = TD_NEW(c->arena, sem_block_t);
  if (e == NULL) return;
  sem_stmt_t *stmt = sem_new_stmt(c, SEM_DEFINE, value->loc);
  e = sem_whole_value(c, e, &s->type, "the result", value->loc, false);
  if (e == NULL) return;
  stmt->value = e;
  stmt->target_count = 1;
  stmt->targets = TD_NEW(c->arena, sem_target_t);
  stmt->targets[0].symbol = s;
  inst->func.body->stmt_count = 1;
  inst->func.body->stmts = TD_NEW(c->arena, sem_stmt_t *);
  inst->func.body->stmts[0] = stmt;
}

/* Everything that belongs to the function before is reset; what the tree
 * keeps lives in the arena. */
void sem_check_body(sem_ctx_t *c, sem_instance_t *inst) {
  const ast_decl_t *d = inst->fn->decl;
  c->inst = inst;
  c->module = inst->fn->module;
  c->stack.length = 0;
  c->exprs.length = c->symbols.length = c->indices.length = 0;
  c->formula.length = c->ended.length = 0;
  c->quiet = c->loop_depth = 0;
  c->unproved = c->is_inconsistent ? 1 : 0;
  td_map_init(&c->scope, c->arena);
  td_map_init(&c->data, c->arena);
  td_map_init(&c->datum_of, c->arena);
  td_map_init(&c->widths, c->arena);
  start_facts(c, inst);
  sem_settle_requires(c, (uint32_t)inst->conditions.length,
                      inst->conditions.data, &inst->func);
  declare_head(c, inst);
  sem_check_attributes(c, inst);
  check_results(c, inst);
  if (d->value != NULL) {
    check_short(c, inst, d->value);
  } else if (d->body != NULL) {
    inst->func.body = sem_check_block(c, d->body);
    check_defined(c, inst);
  } else {
    inst->func.body = TD_NEW(c->arena, sem_block_t);
  }
  sem_scope_release(c, 0);
  sem_finish_function(c);
}

/* ---- facts out of the tree ----------------------------------------------- */

/* NULL stays NULL: most expressions have no poly. */
static const ix_poly_t *restored(sem_ctx_t *c, const ix_poly_t *p) {
  return p == NULL ? NULL : ix_restore_facts(c->pool, p, c->facts);
}

/* A list of all expressions made is walked, not the tree: chains may be
 * long. */
void sem_restore_exprs(sem_ctx_t *c, size_t first) {
  for (size_t i = first; i < c->exprs.length; i++) {
    sem_expr_t *e = c->exprs.data[i];
    e->poly = restored(c, e->poly);
    sem_restore_type(c, &e->type);
    for (uint32_t k = 0; k < e->binding_count; k++) {
      e->bindings[k].value = restored(c, e->bindings[k].value);
    }
  }
}

/* Ends of a symbol are polys as well. */
static void restore_range(sem_ctx_t *c, const ix_symbol_t *symbol) {
  ix_symbol_t *s = (ix_symbol_t *)(uintptr_t)symbol;
  if (s == NULL) return;
  s->lo = restored(c, s->lo);
  s->hi = restored(c, s->hi);
}

/* Nothing that lowering sees mentions the quotient dims that facts have
 * brought in. */
void sem_finish_function(sem_ctx_t *c) {
  sem_restore_exprs(c, 0);
  for (size_t i = 0; i < c->symbols.length; i++) {
    sem_restore_type(c, &c->symbols.data[i]->type);
    restore_range(c, c->symbols.data[i]->value);
  }
  for (uint32_t i = 0; i < c->inst->func.param_count; i++) {
    sem_symbol_t *s = c->inst->func.params[i];
    sem_restore_type(c, &s->type);
    restore_range(c, s->value);
  }
  for (uint32_t i = 0; i < c->inst->func.result_count; i++) {
    sem_restore_type(c, &c->inst->func.results[i]->type);
  }
  for (size_t i = 0; i < c->indices.length; i++) {
    sem_index_t *index = c->indices.data[i];
    index->lo = restored(c, index->lo);
    index->extent = restored(c, index->extent);
    restore_range(c, index->symbol);
  }
  for (size_t i = 0; i < c->extents.length; i++) {
    *c->extents.data[i] = restored(c, *c->extents.data[i]);
  }
  c->extents.length = 0;
}
