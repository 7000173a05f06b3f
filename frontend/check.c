/* check.c: the order of work.
 *
 *   1. files and their declarations      module.c
 *   2. dims, consts, axes, requires      dims.c facts.c
 *   3. structs that nothing mentions     types.c
 *   4. heads of functions, then bodies from a queue that calls may fill
 *   5. calls sorted, callees first (E34); entry points (E17, E56); grads
 *   6. the program */
#include "frontend/check.h"

/* ---- 3. structs ---------------------------------------------------------- */

/* Structs of the checked file that no type mentions are read too: a fault in
 * one should not wait for its first use. */
static void check_records(sem_ctx_t *c, sem_module_t *m) {
  c->module = m;
  for (size_t i = 0; i < m->ast->decl_count; i++) {
    const ast_decl_t *d = m->ast->decls[i];
    if (d->kind != AST_DECL_STRUCT) continue;
    sem_record_t *r = td_map_get(&m->records, td_str(d->name.text));
    if (r != NULL && r->decl == d) sem_check_record(c, r);
  }
}

/* ---- 4. functions -------------------------------------------------------- */

/* One dtype for each generic that could be one; only as many as there are
 * dtype generics are looked at. */
static tdsl_dtype_t *default_dtypes(sem_ctx_t *c, const ast_decl_t *d) {
  tdsl_dtype_t *dtypes =
      TD_NEW_ARRAY(c->arena, tdsl_dtype_t, d->generic_count);
  for (size_t i = 0; i < d->generic_count; i++) dtypes[i] = TDSL_DTYPE_F32;
  return dtypes;
}

/* Bodies may call what has no instance yet, which then joins the queue
 * behind them. */
static void drain(sem_ctx_t *c, size_t *next) {
  while (*next < c->queue.length) {
    sem_check_body(c, c->queue.data[(*next)++]);
  }
  c->inst = NULL;
}

/* First the functions whose instance is known from their text. Those with
 * dtype generics or packs follow only if no call has made an instance: then
 * a default stands in, so that their names are checked at least. */
static void check_functions(sem_ctx_t *c, sem_module_t *m, size_t *next) {
  for (int generic = 0; generic < 2; generic++) {
    for (size_t i = 0; i < m->ast->decl_count; i++) {
      const ast_decl_t *d = m->ast->decls[i];
      if (d->kind != AST_DECL_FN) continue;
      sem_fn_t *fn = td_map_get(&m->fns, td_str(d->name.text));
      if (fn == NULL || fn->decl != d) continue;
      bool open = fn->has_dtypes || fn->has_packs;
      if (open != (generic != 0) || fn->instances.length > 0) continue;
      sem_instance_t *inst =
          sem_instantiate(c, fn, default_dtypes(c, d), 1, false);
      if (inst != NULL) inst->is_default = fn->has_dtypes;
    }
    drain(c, next);
  }
}

/* ---- the requested entry ------------------------------------------------- */

/* The caller asked for a function by name (--entry), so there is no place in
 * the text; the file itself is named. */
static void no_entry(sem_ctx_t *c, const char *name) {
  c->module = c->main;
  td_loc_t loc = {c->main->file, 0, 0, 0, 0};
  td_diag_t *d = sem_report(c, TD_E44, loc, "no function %s in %s", name,
                            td_sources_get(c->task, c->main->file)->name);
  td_nearest_t n = td_nearest_start(td_str(name));
  for (size_t i = 0; i < c->main->fns.length; i++) {
    td_nearest_offer(&n, c->main->fns.entries[i].key);
  }
  if (n.best.data != NULL) {
    td_diag_help(d, "did you mean `%.*s`?", TD_STR_ARG(n.best));
  }
}

/* The pack of an entry takes the dims that the given argument has beyond
 * those that are written. */
static uint32_t entry_pack(const sem_options_t *o, const ast_decl_t *d) {
  for (size_t i = 0; i < d->param_count && i < o->arg_count; i++) {
    const ast_type_t *t = d->params[i].type;
    int64_t others = (int64_t)t->stack_count;
    bool has = false;
    for (size_t k = 0; k < t->dim_count; k++) {
      if (t->dims[k].expr == NULL) has = true;
      else others++;
    }
    if (!has || o->arg_ranks == NULL || o->arg_ranks[i] < 0) continue;
    int64_t n = o->arg_ranks[i] - others;
    return n < 0 ? 0 : n > IX_MAX_RANK ? IX_MAX_RANK : (uint32_t)n;
  }
  return 1;
}

/* A dtype generic of an entry is that of the first argument whose dtype is
 * known: f32 serves where nobody says. */
static tdsl_dtype_t entry_dtype(const sem_options_t *o, const ast_decl_t *d,
                                const char *name) {
  for (size_t i = 0; i < d->param_count && i < o->arg_count; i++) {
    const ast_type_t *t = d->params[i].type;
    if (t->dtype != TDSL_DTYPE_UNSET || t->elem.text != name) continue;
    if (o->arg_dtypes == NULL) break;
    if (o->arg_dtypes[i] != TDSL_DTYPE_UNSET) return o->arg_dtypes[i];
  }
  return TDSL_DTYPE_F32;
}

/* An exported function is an entry point as it is; any other becomes one by
 * an instance whose generics are dynamic dims or numbers. */
static void make_entry(sem_ctx_t *c) {
  const sem_options_t *o = c->options;
  if (o->entry == NULL) return;
  sem_fn_t *fn = td_map_get(&c->main->fns, td_str(o->entry));
  if (fn == NULL) {
    if (!c->main->is_incomplete) no_entry(c, o->entry);
    return;
  }
  if (fn->failed) return;
  const ast_decl_t *d = fn->decl;
  if (d->is_export) return;
  tdsl_dtype_t *dtypes = default_dtypes(c, d);
  size_t n = 0;
  for (size_t i = 0; i < d->generic_count; i++) {
    if (d->generics[i].what.text == NULL) continue;
    dtypes[n++] = entry_dtype(o, d, d->generics[i].name.text);
  }
  c->entry = sem_instantiate(c, fn, dtypes, entry_pack(o, d), true);
}

/* ---- values from outside the text ---------------------------------------- */

/* Only a dim of the file, or of the requested entry, takes a value. */
static bool takes_value(const sem_ctx_t *c, const ast_decl_t *entry,
                        const char *name) {
  const sem_global_t *g = td_map_get(&c->main->values, td_str(name));
  if (g != NULL) return g->kind != SEM_GLOBAL_CONST;
  for (size_t i = 0; entry != NULL && i < entry->generic_count; i++) {
    const ast_generic_t *generic = &entry->generics[i];
    if (generic->what.text == NULL && !generic->is_pack &&
        strcmp(generic->name.text, name) == 0) {
      return true;
    }
  }
  return false;
}

/* The place is the command line or the call of the host: only the file can
 * be named. */
static void no_target(sem_ctx_t *c, const char *what, const char *name,
                      td_nearest_t *near) {
  c->module = c->main;
  td_loc_t loc = {c->main->file, 0, 0, 0, 0};
  td_diag_t *d = sem_report(c, TD_E44, loc, "no %s %s in %s takes a value",
                            what, name,
                            td_sources_get(c->task, c->main->file)->name);
  if (near->best.data != NULL) {
    td_diag_help(d, "did you mean `%.*s`?", TD_STR_ARG(near->best));
  }
}

static void check_given_dims(sem_ctx_t *c, const ast_decl_t *entry) {
  const sem_options_t *o = c->options;
  for (uint32_t i = 0; i < o->dim_count; i++) {
    if (takes_value(c, entry, o->dims[i].name)) continue;
    td_nearest_t near = td_nearest_start(td_str(o->dims[i].name));
    for (size_t k = 0; k < c->main->values.length; k++) {
      const sem_global_t *g = c->main->values.entries[k].value;
      if (g->kind == SEM_GLOBAL_CONST) continue;
      td_nearest_offer(&near, c->main->values.entries[k].key);
    }
    for (size_t k = 0; entry != NULL && k < entry->generic_count; k++) {
      const ast_generic_t *generic = &entry->generics[k];
      if (generic->what.text != NULL || generic->is_pack) continue;
      td_nearest_offer(&near, td_str(generic->name.text));
    }
    no_target(c, "dim", o->dims[i].name, &near);
  }
}

static void check_given_axes(sem_ctx_t *c) {
  const sem_options_t *o = c->options;
  for (uint32_t i = 0; i < o->axis_count; i++) {
    td_nearest_t near = td_nearest_start(td_str(o->axes[i].name));
    bool found = false;
    for (size_t k = 0; k < c->modules.length && !found; k++) {
      const td_map_t *axes = &c->modules.data[k]->axes;
      found = td_map_get(axes, td_str(o->axes[i].name)) != NULL;
      for (size_t n = 0; n < axes->length; n++) {
        td_nearest_offer(&near, axes->entries[n].key);
      }
    }
    if (!found) no_target(c, "mesh axis", o->axes[i].name, &near);
  }
}

/* A misspelt --dim or --mesh would leave the wish unheard. */
static void check_given(sem_ctx_t *c) {
  if (c->main->is_incomplete) return;
  const sem_options_t *o = c->options;
  const sem_fn_t *fn =
      o->entry != NULL ? td_map_get(&c->main->fns, td_str(o->entry)) : NULL;
  check_given_dims(c, fn != NULL ? fn->decl : NULL);
  check_given_axes(c);
}

/* ---- 5. order of calls --------------------------------------------------- */

typedef struct visit {
  sem_instance_t *inst;
  size_t edge;
} visit_t;

/* The report stands where the cycle is left open: at the call that leads
 * from the function called again into the cycle. The call that closes it is
 * the second label. */
static void report_recursion(sem_ctx_t *c, const visit_t *stack, size_t depth,
                             const sem_instance_t *again, td_loc_t closing) {
  size_t i = depth;
  while (i > 0 && stack[i - 1].inst != again) i--;
  const visit_t *from = &stack[i - 1];
  td_loc_t loc = from->inst->edges.data[from->edge].loc;
  c->module = from->inst->fn->module;
  td_diag_t *d;
  if (i == depth) {
    d = sem_report(c, TD_E34, loc, "%s calls itself", again->func.name);
  } else {
    d = sem_report(c, TD_E34, loc, "%s calls itself: through %s",
                   again->func.name,
                   from->inst->edges.data[from->edge].callee->func.name);
    td_diag_label(d, closing, "and here %s is called again",
                  again->func.name);
  }
  td_diag_help(d, "there is no recursion: write a `for` over a fixed range");
}

/* What a function does not do itself but its callees do, as far as others
 * must know. */
static void inherit(sem_instance_t *inst, const sem_instance_t *callee) {
  if (callee->func.has_grad) inst->func.has_grad = true;
  if (callee->stops_grad) inst->stops_grad = true;
}

/* Depth first with a stack of our own; appends callees before callers. */
static void sort_calls(sem_ctx_t *c, sem_instance_t *root) {
  TD_VEC(visit_t) stack = {0};
  if (root->state != SEM_NEW) return;
  root->state = SEM_BUSY;
  td_vec_push(c->arena, &stack, (visit_t){root, 0});
  while (stack.length > 0) {
    visit_t *top = &td_vec_last(&stack);
    sem_instance_t *inst = top->inst;
    if (top->edge == inst->edges.length) {
      inst->state = SEM_DONE;
      if (inst->has_own_grad || inst->has_element_update ||
          inst->func.has_inout) {
        inst->stops_grad = true;
      }
      for (size_t i = 0; i < inst->edges.length; i++) {
        inherit(inst, inst->edges.data[i].callee);
      }
      td_vec_push(c->arena, &c->sorted, inst);
      (void)td_vec_pop(&stack);
      if (stack.length > 0) td_vec_last(&stack).edge++;
      continue;
    }
    sem_edge_t edge = inst->edges.data[top->edge];
    if (edge.callee->state == SEM_NEW) {
      edge.callee->state = SEM_BUSY;
      td_vec_push(c->arena, &stack, (visit_t){edge.callee, 0});
      continue;
    }
    if (edge.callee->state == SEM_BUSY) {
      report_recursion(c, stack.data, stack.length, edge.callee, edge.loc);
    }
    top->edge++;
  }
}

/* ---- 5. entry points ----------------------------------------------------- */

typedef struct bound {
  sem_ctx_t *c;
  uint8_t *is_bound; /* by sem_global.use */
  bool progress;
} bound_t;

typedef struct one_dyn {
  bound_t *b;
  const ix_symbol_t *symbol; /* the only one that is not bound */
  uint32_t count;
} one_dyn_t;

/* Position in c->dyns, by which uses and bindings are counted; -1 for a
 * symbol that is no dynamic dim of a file. */
static int64_t dyn_number(const sem_ctx_t *c, const ix_symbol_t *s) {
  for (size_t i = 0; i < c->dyns.length; i++) {
    if (c->dyns.data[i]->symbol == s) return (int64_t)i;
  }
  return -1;
}

/* Counts the dynamic dims of a poly that no parameter has bound so far. */
static bool visit_dyn(void *user, const ix_symbol_t *s) {
  one_dyn_t *o = user;
  if (s->kind != IX_SYM_DYN || s == o->symbol) return true;
  int64_t n = dyn_number(o->b->c, s);
  if (n < 0 || o->b->is_bound[n]) return true;
  o->symbol = s;
  o->count++;
  return true;
}

/* The rule of calls, for an entry point: a dim that holds exactly one
 * unbound name, linearly, binds it from the argument's extent. */
static void bind_dim(sem_ctx_t *c, void *user, const sem_dim_t *dim) {
  bound_t *b = user;
  one_dyn_t o = {b, NULL, 0};
  ix_each_symbol(dim->size, visit_dyn, &o);
  const ix_poly_t *k = NULL, *rest = NULL;
  int64_t step = 0;
  if (o.count != 1 ||
      !ix_split_linear(c->pool, dim->size, o.symbol, &k, &rest) ||
      !ix_is_const(k, &step) || step <= 0) {
    return;
  }
  b->is_bound[dyn_number(c, o.symbol)] = 1;
  b->progress = true;
}

/* E17. Without a parameter that has the dim, nobody could say how large it
 * is at run time. */
static void report_unbound(sem_ctx_t *c, const sem_instance_t *inst,
                           const sem_global_t *g, td_loc_t loc) {
  td_diag_t *d = sem_report(c, TD_E17, loc,
                            "dim %s is not bound by any parameter of %s",
                            g->name, inst->func.name);
  td_diag_label(d, g->loc, "%s is dynamic", g->name);
  td_diag_help(d, "a parameter that has it as a dim, or `dim %s = N` in "
               "place of `dyn`", g->name);
}

typedef struct find_use {
  const ix_symbol_t *symbol;
  td_loc_t loc;
} find_use_t;

/* The place in a result type that mentions the dim, where the reader looks
 * first. */
static void find_in_dim(sem_ctx_t *c, void *user, const sem_dim_t *dim) {
  find_use_t *f = user;
  (void)c;
  if (f->loc.line == 0 && ix_mentions(dim->size, f->symbol)) {
    f->loc = dim->loc;
  }
}

/* Dynamic dims mentioned by a function and by all that it calls; inlining
 * brings the latter into the entry. */
static void mark_uses(sem_ctx_t *c, const sem_instance_t *root,
                      uint8_t *uses) {
  TD_VEC(const sem_instance_t *) todo = {0}, done = {0};
  td_vec_push(c->arena, &todo, root);
  while (todo.length > 0) {
    const sem_instance_t *inst = td_vec_pop(&todo);
    bool seen = false;
    for (size_t i = 0; i < done.length && !seen; i++) {
      seen = done.data[i] == inst;
    }
    if (seen) continue;
    td_vec_push(c->arena, &done, inst);
    for (size_t i = 0; i < inst->uses.length; i++) {
      if (inst->uses.data[i]) uses[i] = 1;
    }
    for (size_t i = 0; i < inst->edges.length; i++) {
      td_vec_push(c->arena, &todo, inst->edges.data[i].callee);
    }
  }
}

/* E17 for every dynamic dim that is used and not bound. Repeated passes,
 * since one binding may make another possible. */
static void check_entry(sem_ctx_t *c, sem_instance_t *inst) {
  size_t count = c->dyns.length;
  bound_t b = {c, TD_NEW_ARRAY(c->arena, uint8_t, count + 1), true};
  while (b.progress) {
    b.progress = false;
    for (uint32_t i = 0; i < inst->func.param_count; i++) {
      sem_each_dim(c, &inst->func.params[i]->type, bind_dim, &b);
      sem_each_dim(c, &inst->params[i], bind_dim, &b); /* as declared */
    }
  }
  uint8_t *uses = TD_NEW_ARRAY(c->arena, uint8_t, count + 1);
  mark_uses(c, inst, uses);
  c->inst = inst;
  c->module = inst->fn->module;
  for (size_t i = 0; i < count; i++) {
    const sem_global_t *g = c->dyns.data[i];
    bool is_gone = sem_is_replaced(c, g, c->base_facts);
    if (!uses[i] || b.is_bound[i] || is_gone) continue;
    find_use_t f = {g->symbol, TD_NO_LOC};
    for (uint32_t k = 0; k < inst->func.result_count; k++) {
      sem_each_dim(c, &inst->func.results[k]->type, find_in_dim, &f);
    }
    report_unbound(c, inst, g, f.loc.line != 0 ? f.loc : inst->func.loc);
  }
  c->inst = NULL;
}

/* ---- 6. the program ------------------------------------------------------ */

/* Dims of the files, then those that generics of a requested entry became. */
static void put_dims(sem_ctx_t *c, sem_program_t *p) {
  size_t room = c->globals.length + c->dyns.length;
  p->dims = TD_NEW_ARRAY(c->arena, sem_global_dim_t, room);
  for (size_t i = 0; i < c->globals.length; i++) {
    const sem_global_t *g = c->globals.data[i];
    if (g->kind == SEM_GLOBAL_CONST || g->failed) continue;
    sem_global_dim_t *d = &p->dims[p->dim_count++];
    d->name = g->name;
    d->symbol = g->symbol;
    d->is_dynamic = g->kind == SEM_GLOBAL_DYN && g->symbol != NULL;
    d->value = g->number.kind == SEM_NUMBER_INT ? g->number.i : -1;
    d->bound = g->bound;
    d->config_key = g->config_key;
    d->loc = g->loc;
  }
  for (size_t i = 0; i < c->dyns.length; i++) {
    const sem_global_t *g = c->dyns.data[i];
    if (g->item != NULL) continue; /* declared in a file */
    p->dims[p->dim_count++] = (sem_global_dim_t){
        .name = g->name, .symbol = g->symbol, .is_dynamic = true,
        .value = -1, .bound = g->bound, .loc = g->loc};
  }
}

/* The mesh of the checked file; that of an imported file serves the marks of
 * that file alone. */
static void put_mesh(sem_ctx_t *c, sem_program_t *p) {
  const td_map_t *axes = &c->main->axes;
  p->has_mesh = axes->length > 0;
  p->axis_names = TD_NEW_ARRAY(c->arena, const char *, axes->length);
  p->axis_sizes = TD_NEW_ARRAY(c->arena, int64_t, axes->length);
  for (size_t i = 0; i < axes->length; i++) {
    const sem_axis_t *axis = axes->entries[i].value;
    p->axis_names[p->axis_count] = axis->name;
    p->axis_sizes[p->axis_count++] = axis->size;
  }
}

/* Callees before callers, so that lowering and readers of dumps meet nothing
 * that they have not seen. */
static void put_functions(sem_ctx_t *c, sem_program_t *p) {
  p->funcs = TD_NEW_ARRAY(c->arena, sem_func_t *, c->sorted.length);
  for (size_t i = 0; i < c->sorted.length; i++) {
    sem_instance_t *inst = c->sorted.data[i];
    inst->func.is_entry = inst == c->entry ||
                          (inst->func.is_exported &&
                           inst->fn->module == c->main);
    p->funcs[p->func_count++] = &inst->func;
  }
}

/* What needs all bodies: the order of calls, entry points, derivatives,
 * values that compiling cannot do without. */
static void finish(sem_ctx_t *c) {
  for (size_t i = 0; i < c->queue.length; i++) {
    sort_calls(c, c->queue.data[i]);
  }
  for (size_t i = 0; i < c->queue.length; i++) {
    sem_instance_t *inst = c->queue.data[i];
    bool is_entry = inst == c->entry || (inst->fn->decl->is_export &&
                                         inst->fn->module == c->main);
    if (is_entry || inst->func.is_test) check_entry(c, inst);
    sem_check_grads(c, inst);
  }
  c->inst = NULL;
  if (c->options->need_values) sem_require_values(c);
}

/* Constants before facts, facts before heads, heads before bodies. */
static void check_all(sem_ctx_t *c) {
  size_t next = 0;
  for (size_t i = 0; i < c->modules.length; i++) {
    sem_resolve_module(c, c->modules.data[i]);
    sem_mesh(c, c->modules.data[i]);
  }
  for (size_t i = 0; i < c->modules.length; i++) {
    sem_module_requires(c, c->modules.data[i]);
  }
  sem_assume_sizes(c);
  check_records(c, c->main);
  make_entry(c);
  check_given(c);
  check_functions(c, c->main, &next);
  finish(c);
}

/* A file with syntax errors is not checked: what is missing from its tree
 * would be reported as unknown. */
sem_program_t *sem_check(td_task_t *task, td_arena_t *arena, uint32_t file,
                         const sem_options_t *options) {
  static const sem_options_t none = {0};
  sem_ctx_t *c = TD_NEW(arena, sem_ctx_t);
  c->task = task;
  c->arena = arena;
  c->options = options != NULL ? options : &none;
  c->pool = ix_pool_create(arena);
  c->base_facts = c->facts = ix_facts_create(c->pool);
  c->program = TD_NEW(arena, sem_program_t);
  c->program->pool = c->pool;
  td_map_init(&c->structs, arena);
  td_map_init(&c->scope, arena);
  td_map_init(&c->data, arena);
  td_map_init(&c->datum_of, arena);
  td_map_init(&c->widths, arena);
  c->main = sem_load(c, file, "this file", NULL, TD_NO_LOC);
  bool readable = true;
  for (size_t i = 0; i < c->modules.length; i++) {
    readable = readable && !c->modules.data[i]->ast->has_errors;
  }
  if (c->main != NULL && readable) {
    check_all(c);
    put_dims(c, c->program);
    put_mesh(c, c->program);
    put_functions(c, c->program);
    c->facts = c->base_facts;
    sem_settle_requires(c, (uint32_t)c->requires.length, c->requires.data,
                        NULL);
  }
  return c->program;
}

/* The requested entry wins over an instance of the same function that a call
 * has made. */
const sem_func_t *sem_find_entry(const sem_program_t *program,
                                 const char *name) {
  const sem_func_t *found = NULL;
  for (uint32_t i = 0; i < program->func_count; i++) {
    const sem_func_t *f = program->funcs[i];
    if (strcmp(f->name, name) != 0) continue;
    if (f->is_entry) return f;
    if (f->generic_count == 0 && f->syntax->generic_count == 0) found = f;
  }
  return found;
}
