/* instances.c: functions for given dtypes and pack lengths.
 *
 * An instance is made when a call (or the program) first needs it: its head
 * is read at once, its body is checked later from a queue, so that calls need
 * no stack.  The head is kept without facts, over the symbols of its own
 * generics; the body reads it with the facts of the function. */
#include "frontend/check.h"

/* Counted for the function being read, so that an entry point can be asked
 * to bind it. */
void sem_use_global(sem_ctx_t *c, const sem_global_t *g) {
  if (c->inst == NULL || g->kind != SEM_GLOBAL_DYN || g->symbol == NULL) {
    return;
  }
  while (c->inst->uses.length <= g->use) {
    td_vec_push(c->arena, &c->inst->uses, 0);
  }
  c->inst->uses.data[g->use] = 1;
}

/* ---- generics ------------------------------------------------------------ */

/* --dim gives generics of a requested entry values, too. */
static const int64_t *given_generic(const sem_ctx_t *c, const char *name) {
  for (uint32_t i = 0; i < c->options->dim_count; i++) {
    if (strcmp(c->options->dims[i].name, name) == 0) {
      return &c->options->dims[i].value;
    }
  }
  return NULL;
}

/* A generic of a function that is run as an entry point is a dynamic dim. */
static const ix_poly_t *entry_dim(sem_ctx_t *c, const char *name,
                                  td_loc_t loc) {
  const int64_t *given = given_generic(c, name);
  if (given != NULL) return ix_const(c->pool, *given);
  sem_global_t *g = TD_NEW(c->arena, sem_global_t);
  g->kind = SEM_GLOBAL_DYN;
  g->name = td_arena_strdup(c->arena, name);
  g->loc = loc;
  g->state = SEM_DONE;
  g->bound = ix_const(c->pool, 2147483647);
  g->symbol = ix_symbol_create(c->pool, g->name, IX_SYM_DYN, loc);
  g->symbol->lo = ix_const(c->pool, 0);
  g->symbol->hi = ix_const(c->pool, 2147483648);
  g->poly = ix_sym(c->pool, g->symbol);
  g->use = (uint32_t)c->dyns.length;
  td_vec_push(c->arena, &c->dyns, g);
  return g->poly;
}

/* In an entry a dim like any other; in an instance a symbol that every call
 * replaces. */
static const ix_poly_t *generic_dim(sem_ctx_t *c, sem_instance_t *inst,
                                    const char *name, td_loc_t loc,
                                    bool is_entry) {
  if (is_entry) return entry_dim(c, name, loc);
  const ix_symbol_t *s =
      ix_symbol_create(c->pool, td_arena_strdup(c->arena, name),
                       IX_SYM_GENERIC, loc);
  inst->func.generics[inst->func.generic_count++] = s;
  return ix_sym(c->pool, s);
}

/* Generics come into scope in order, so that none is used before it is
 * declared. */
static bool bind_generic(sem_ctx_t *c, sem_instance_t *inst,
                         const ast_generic_t *g, const tdsl_dtype_t *dtypes,
                         uint32_t *next_dtype, uint32_t pack, bool is_entry) {
  sem_entry_kind_t kind = g->is_pack              ? SEM_ENTRY_PACK
                          : g->what.text != NULL ? SEM_ENTRY_DTYPE
                                                 : SEM_ENTRY_GENERIC;
  if (g->what.text != NULL && strcmp(g->what.text, "dtype") != 0) {
    td_diag_t *d = sem_report(c, TD_E47, g->what.loc,
                              "a generic is a dim, a pack or `%s: dtype`",
                              g->name.text);
    td_diag_help(d, "write `%s: dtype`", g->name.text);
    return false;
  }
  sem_entry_t *e = sem_declare(c, kind, g->name, false);
  if (e == NULL) return false;
  td_map_put(&inst->generics, td_str(g->name.text), e);
  if (kind == SEM_ENTRY_DTYPE) {
    e->dtype = dtypes[(*next_dtype)++];
  } else if (kind == SEM_ENTRY_GENERIC) {
    e->poly = generic_dim(c, inst, g->name.text, g->name.loc, is_entry);
  } else {
    e->count = pack;
    e->polys = TD_NEW_ARRAY(c->arena, const ix_poly_t *, pack);
    for (uint32_t i = 0; i < pack; i++) {
      const char *name = td_arena_printf(c->arena, "%s.%u", g->name.text, i);
      e->polys[i] = generic_dim(c, inst, name, g->name.loc, is_entry);
    }
  }
  return true;
}

/* E35 stops here: without them the types of an exported function have no
 * meaning. */
static bool read_generics(sem_ctx_t *c, sem_instance_t *inst,
                          const tdsl_dtype_t *dtypes, uint32_t pack,
                          bool is_entry) {
  const ast_decl_t *d = inst->fn->decl;
  bool ok = true;
  uint32_t next_dtype = 0;
  size_t room = d->generic_count + pack;
  inst->func.generics = TD_NEW_ARRAY(c->arena, const ix_symbol_t *, room);
  if (d->is_export && d->generic_count > 0) {
    td_diag_t *r = sem_report(c, TD_E35, d->generics[0].loc,
                              "exported function %s has generics",
                              d->name.text);
    td_diag_help(r, "an entry point takes dims of the file: write "
                 "`dyn %s <= 65536` or `dim %s = 64` above it",
                 d->generics[0].name.text, d->generics[0].name.text);
    return false;
  }
  bool has_pack = false;
  for (size_t i = 0; i < d->generic_count; i++) {
    const ast_generic_t *g = &d->generics[i];
    if (g->is_pack && has_pack) {
      sem_report(c, TD_E47, g->loc, "%s has more than one pack",
                 d->name.text);
      return false;
    }
    has_pack = has_pack || g->is_pack;
    ok = bind_generic(c, inst, g, dtypes, &next_dtype, pack, is_entry) && ok;
  }
  return ok;
}

/* ---- parameters and results ---------------------------------------------- */

/* An integer parameter stands for itself in polys, so that `require` and
 * guards can speak of it. */
static void make_scalar_value(sem_ctx_t *c, sem_symbol_t *s) {
  if (s->type.kind != SEM_TENSOR || s->type.rank > 0 ||
      !td_dtype_is_int(s->type.dtype)) {
    return;
  }
  ix_symbol_t *v = ix_symbol_create(c->pool, s->name, IX_SYM_DATA, s->loc);
  v->lo = s->type.lo;
  v->hi = s->type.hi;
  s->value = v;
  sem_set_width(c, v, s->type.dtype);
}

/* A default is a constant of the callee's file, converted once here and put
 * into calls that leave it out. */
static bool read_default(sem_ctx_t *c, const ast_param_t *p,
                         sem_symbol_t *s) {
  if (p->value == NULL) return true;
  sem_expr_t *e = sem_check_expr(c, p->value);
  if (e == NULL) return false;
  if (!e->is_exact && e->kind != SEM_CONST) {
    td_diag_t *d = sem_report(c, TD_E45, p->value->loc,
                              "the default of %s is not a constant",
                              p->name.text);
    td_diag_help(d, "defaults are numbers, consts and static dims");
    return false;
  }
  if (s->type.kind != SEM_TENSOR || s->type.rank > 0) {
    sem_report(c, TD_E47, p->value->loc,
               "only a scalar parameter has a default, %s is %s",
               p->name.text, sem_type_text(c, &s->type));
    return false;
  }
  e = sem_for_param(c, e, &s->type, p->name.text);
  s->default_value = e;
  return e != NULL;
}

/* A parameter whose type is wrong is still declared, else every mention of
 * it would be reported. */
static bool read_param(sem_ctx_t *c, sem_instance_t *inst,
                       const ast_param_t *p, sem_type_t *type) {
  bool ok = p->type != NULL && sem_read_type(c, p->type, type);
  if (ok) sem_restore_type(c, type);
  sem_symbol_t *s = sem_new_symbol(
      c, p->is_inout ? SEM_INOUT : SEM_PARAM, p->name.text, p->name.loc);
  inst->func.params[inst->func.param_count++] = s;
  sem_entry_t *e = sem_declare(c, SEM_ENTRY_SYMBOL, p->name, true);
  if (e != NULL) {
    e->symbol = s;
    if (!ok) e->kind = SEM_ENTRY_FAILED;
  }
  if (!ok) return false;
  s->type = *type;
  s->is_written = true;
  if (p->is_inout) inst->func.has_inout = true;
  make_scalar_value(c, s);
  return e != NULL && read_default(c, p, s);
}

static const ast_name_t unnamed = {"_", {0, 0, 0, 0, 0}};

/* A result has its type from the beginning and no value before its
 * definition. */
static bool read_result(sem_ctx_t *c, sem_instance_t *inst,
                        const ast_result_t *r, sem_type_t *type) {
  bool ok = r->type != NULL && sem_read_type(c, r->type, type);
  if (ok) sem_restore_type(c, type);
  ast_name_t name = r->name.text == NULL ? unnamed : r->name;
  if (r->name.text == NULL) name.loc = r->loc;
  sem_symbol_t *s = sem_new_symbol(c, SEM_RESULT, name.text, name.loc);
  inst->func.results[inst->func.result_count++] = s;
  if (r->name.text != NULL) {
    sem_entry_t *e = sem_declare(c, SEM_ENTRY_SYMBOL, name, true);
    if (e == NULL) return false;
    e->symbol = s;
    e->is_pending = true;
    if (!ok) e->kind = SEM_ENTRY_FAILED;
  }
  s->type = *type;
  s->is_written = true;
  return ok;
}

/* Requires that wait for the parameters. */
typedef struct find_param {
  const ast_decl_t *decl;
  bool found;
} find_param_t;

/* Conditions over dims alone can serve types of parameters; those over
 * parameters cannot. */
static bool visit_param(ast_expr_t *e, void *user) {
  find_param_t *f = user;
  for (size_t i = 0; e->kind == AST_NAME && i < f->decl->param_count; i++) {
    if (f->decl->params[i].name.text == e->text) f->found = true;
  }
  /* `N == M` would put M for N in the types of parameters, and no argument
   * would bind N. */
  if (e->kind == AST_BINARY && e->op == AST_OP_EQ &&
      (e->kids[1]->kind != AST_INT || e->kids[1]->i64 != 0)) {
    f->found = true;
  }
  return !f->found;
}

/* Requires of the body's top level are part of the head: a call proves them,
 * and types of parameters (those over dims) and results may need them. */
static void read_requires(sem_ctx_t *c, sem_instance_t *inst,
                          bool of_params) {
  const ast_block_t *body = inst->fn->decl->body;
  for (size_t i = 0; body != NULL && i < body->count; i++) {
    const ast_stmt_t *s = body->stmts[i];
    if (s->kind != AST_STMT_REQUIRE) continue;
    for (size_t k = 0; k < s->expr_count; k++) {
      find_param_t f = {inst->fn->decl, false};
      ast_visit(c->task, s->exprs[k], visit_param, &f);
      if (f.found == of_params) sem_require_expr(c, s->exprs[k], inst);
    }
  }
}

/* Parameters in order, conditions, then results, whose dims may need the
 * conditions. */
static bool read_head(sem_ctx_t *c, sem_instance_t *inst,
                      const tdsl_dtype_t *dtypes, uint32_t pack,
                      bool is_entry) {
  const ast_decl_t *d = inst->fn->decl;
  if (!read_generics(c, inst, dtypes, pack, is_entry)) return false;
  bool ok = true;
  inst->params = TD_NEW_ARRAY(c->arena, sem_type_t, d->param_count);
  inst->results = TD_NEW_ARRAY(c->arena, sem_type_t, d->result_count);
  inst->func.params =
      TD_NEW_ARRAY(c->arena, sem_symbol_t *, d->param_count);
  inst->func.results =
      TD_NEW_ARRAY(c->arena, sem_symbol_t *, d->result_count);
  inst->head_values =
      TD_NEW_ARRAY(c->arena, const ix_symbol_t *, d->param_count);
  uint32_t before = td_task_errors(c->task);
  read_requires(c, inst, false);
  for (size_t i = 0; i < d->param_count; i++) {
    ok = read_param(c, inst, &d->params[i], &inst->params[i]) && ok;
    inst->head_values[i] = inst->func.params[i]->value;
  }
  if (!ok) return false;
  read_requires(c, inst, true);
  if (td_task_errors(c->task) != before) return false;
  for (size_t i = 0; i < d->result_count; i++) {
    ok = read_result(c, inst, &d->results[i], &inst->results[i]) && ok;
  }
  return ok;
}

/* ---- making -------------------------------------------------------------- */

/* What belongs to the function being checked, put aside while another head is
 * read. */
typedef struct context {
  sem_instance_t *inst;
  sem_module_t *module;
  ix_facts_t *facts;
  td_map_t scope, data, datum_of;
  sem_entry_t **stack;
  size_t stack_length, stack_capacity;
  uint32_t quiet, unproved;
} context_t;

/* A call may need the head of another function while the body of this one is
 * half checked. */
static void put_aside(sem_ctx_t *c, context_t *s) {
  s->inst = c->inst;
  s->module = c->module;
  s->facts = c->facts;
  s->scope = c->scope;
  s->data = c->data;
  s->datum_of = c->datum_of;
  s->stack = c->stack.data;
  s->stack_length = c->stack.length;
  s->stack_capacity = c->stack.capacity;
  s->quiet = c->quiet;
  s->unproved = c->unproved;
  td_map_init(&c->scope, c->arena);
  td_map_init(&c->data, c->arena);
  td_map_init(&c->datum_of, c->arena);
  c->stack.data = NULL;
  c->stack.length = c->stack.capacity = 0;
  c->quiet = c->unproved = 0;
}

/* Errors stay reported; nothing else of the other function remains. */
static void take_back(sem_ctx_t *c, const context_t *s) {
  c->inst = s->inst;
  c->module = s->module;
  c->facts = s->facts;
  c->scope = s->scope;
  c->data = s->data;
  c->datum_of = s->datum_of;
  c->stack.data = s->stack;
  c->stack.length = s->stack_length;
  c->stack.capacity = s->stack_capacity;
  c->quiet = s->quiet;
  c->unproved = s->unproved;
}

/* Few instances of one function exist, so a list serves. */
static sem_instance_t *find(sem_fn_t *fn, const char *key) {
  for (size_t i = 0; i < fn->instances.length; i++) {
    if (strcmp(fn->instances.data[i]->key, key) == 0) {
      return fn->instances.data[i];
    }
  }
  return NULL;
}

/* What a body can depend on: dtypes and the number of dims of the pack. Dims
 * are symbols and need no instance of their own. */
static const char *instance_key(sem_ctx_t *c, const sem_fn_t *fn,
                                const tdsl_dtype_t *dtypes, uint32_t pack,
                                bool is_entry) {
  td_buf_t key;
  td_buf_init(&key, c->task);
  td_buf_printf(&key, "%s%u", is_entry ? "entry " : "",
                fn->has_packs ? pack : 0);
  uint32_t n = 0;
  for (size_t i = 0; i < fn->decl->generic_count; i++) {
    if (fn->decl->generics[i].what.text == NULL) continue;
    td_buf_printf(&key, " %s", td_dtype_name(dtypes[n++]));
  }
  return td_buf_finish(&key, c->arena);
}

/* An instance whose head failed is remembered, so that it is reported once. */
sem_instance_t *sem_instantiate(sem_ctx_t *c, sem_fn_t *fn,
                                const tdsl_dtype_t *dtypes, uint32_t pack,
                                bool is_entry) {
  if (fn->failed) return NULL;
  const char *key = instance_key(c, fn, dtypes, pack, is_entry);
  sem_instance_t *inst = find(fn, key);
  if (inst != NULL) return inst->failed ? NULL : inst;
  inst = TD_NEW(c->arena, sem_instance_t);
  inst->fn = fn;
  inst->key = key;
  inst->func.name = fn->name;
  inst->func.loc = fn->decl->name.loc;
  inst->func.syntax = fn->decl;
  inst->func.is_exported = fn->decl->is_export;
  td_map_init(&inst->generics, c->arena);
  td_vec_push(c->arena, &fn->instances, inst);
  context_t save;
  put_aside(c, &save);
  c->inst = inst;
  c->module = fn->module;
  c->facts = c->base_facts;
  size_t mark = ix_facts_mark(c->facts);
  inst->failed = !read_head(c, inst, dtypes, pack, is_entry);
  ix_facts_release(c->facts, mark);
  take_back(c, &save);
  /* A body whose head is wrong is still no use. */
  if (!inst->failed) td_vec_push(c->arena, &c->queue, inst);
  return inst->failed ? NULL : inst;
}
