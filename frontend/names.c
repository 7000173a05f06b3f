/* names.c: one space of names for dims, consts, parameters, locals, loop
 * variables and indices, in which nothing may be hidden.
 *
 * The scope of a function is a map from interned names to entries plus a
 * stack of the names in order, so that a block takes away what it added. */
#include "frontend/check.h"

/* Names are interned, so their addresses are as good as their letters, and
 * cheaper. */
static uint64_t key_of(const char *name) {
  return (uint64_t)(uintptr_t)name;
}

/* Innermost scope and outermost are one map, because nothing can hide. */
sem_entry_t *sem_lookup(const sem_ctx_t *c, const char *name) {
  return td_map_get_u64(&c->scope, key_of(name));
}

/* Dims and consts that this file declares or imports. */
sem_global_t *sem_lookup_global(const sem_ctx_t *c, const char *name) {
  return td_map_get(&c->module->values, td_str(name));
}

/* Other files are named, since a line number alone would mislead. */
const char *sem_line(sem_ctx_t *c, td_loc_t loc) {
  if (c->module == NULL || loc.file == c->module->file) {
    return td_arena_printf(c->arena, "line %u", loc.line);
  }
  const td_source_t *source = td_sources_get(c->task, loc.file);
  return td_arena_printf(c->arena, "line %u of %s", loc.line,
                         source == NULL ? "another file" : source->name);
}

/* E10 where the text defines again what it may have meant to update, E05
 * where a new thing would hide an old one of another kind. */
static void taken(sem_ctx_t *c, ast_name_t name, td_loc_t old, bool is_again) {
  td_diag_t *d;
  if (is_again) {
    d = sem_report(c, TD_E10, name.loc, "%s is already defined at %s",
                   name.text, sem_line(c, old));
    td_diag_help(d, "to change a value, define it with `var %s` and write "
                 "`:=` here; else choose another name", name.text);
  } else {
    d = sem_report(c, TD_E05, name.loc, "%s hides %s of %s", name.text,
                   name.text, sem_line(c, old));
    td_diag_help(d, "nothing in scope may be hidden: choose another name");
  }
  if (old.line != 0) td_diag_label(d, old, "%s is declared here", name.text);
}

/* A name whose first declaration failed is not reported a second time. */
sem_entry_t *sem_declare(sem_ctx_t *c, sem_entry_kind_t kind, ast_name_t name,
                         bool is_definition) {
  sem_entry_t *old = sem_lookup(c, name.text);
  const sem_global_t *global = sem_lookup_global(c, name.text);
  if (old != NULL || global != NULL) {
    td_loc_t loc = old != NULL ? old->loc : global->loc;
    if (old == NULL || old->kind != SEM_ENTRY_FAILED) {
      bool is_local = old != NULL && (old->kind == SEM_ENTRY_SYMBOL ||
                                      old->kind == SEM_ENTRY_FAILED);
      taken(c, name, loc, is_definition && is_local);
    }
    return NULL;
  }
  sem_entry_t *e = TD_NEW(c->arena, sem_entry_t);
  e->kind = kind;
  e->name = name.text;
  e->loc = name.loc;
  td_map_put_u64(&c->scope, key_of(name.text), e);
  td_vec_push(c->arena, &c->stack, e);
  return e;
}

/* What is on the stack beyond the mark belongs to the block or statement
 * that took it. */
size_t sem_scope_mark(const sem_ctx_t *c) {
  return c->stack.length;
}

/* W02 for a local that nobody reads.  Parameters, results, indices and loop
 * variables are interfaces; of several left sides one may be unwanted. */
static void warn_unused(sem_ctx_t *c, const sem_entry_t *e) {
  if (e->kind != SEM_ENTRY_SYMBOL || e->is_used || e->is_exempt) return;
  if (e->symbol == NULL || e->name[0] == '_') return;
  if (e->symbol->kind != SEM_LOCAL && e->symbol->kind != SEM_VAR) return;
  td_diag_t *d = sem_report(c, TD_W02, e->loc, "%s is never used", e->name);
  td_diag_help(d, "remove its definition, or begin its name with `_`");
}

/* The map is kept free of dead names, so that a later block may use them
 * again. */
void sem_scope_release(sem_ctx_t *c, size_t mark) {
  for (size_t i = mark; i < c->stack.length; i++) {
    warn_unused(c, c->stack.data[i]);
  }
  while (c->stack.length > mark) {
    td_map_put_u64(&c->scope, key_of(td_vec_last(&c->stack)->name), NULL);
    (void)td_vec_pop(&c->stack);
  }
}

/* ---- unknown names ------------------------------------------------------- */

/* The innermost operator that has the reduction on its left and the name on
 * its right. */
typedef struct find_op {
  td_loc_t reduction, name;
  const ast_expr_t *found;
} find_op_t;

/* Does one span lie in another? Columns are in bytes, ends exclusive. */
static bool inside(td_loc_t part, td_loc_t whole) {
  bool after = part.line > whole.line ||
               (part.line == whole.line && part.column >= whole.column);
  bool before = part.line < whole.end_line ||
                (part.line == whole.end_line &&
                 part.column < whole.end_column);
  return part.file == whole.file && after && before;
}

/* Parents come first, so the last match is the innermost. */
static bool visit_op(ast_expr_t *e, void *user) {
  find_op_t *f = user;
  if (e->kind == AST_BINARY && inside(f->reduction, e->kids[0]->loc) &&
      inside(f->name, e->kids[1]->loc)) {
    f->found = e;
  }
  return true;
}

/* E02. The commonest slip: the body of a reduction ends before + and -, and
 * the index is used behind it. */
static bool ended_reduction(sem_ctx_t *c, const ast_expr_t *e) {
  const sem_ended_t *ended = NULL;
  for (size_t i = 0; i < c->ended.length; i++) {
    if (c->ended.data[i].name == e->text) ended = &c->ended.data[i];
  }
  if (ended == NULL) return false;
  find_op_t f = {ended->loc, e->loc, NULL};
  for (size_t i = 0; i < c->formula.length && f.found == NULL; i++) {
    ast_visit(c->task, (ast_expr_t *)(uintptr_t)c->formula.data[i], visit_op,
              &f);
  }
  const char *op = f.found == NULL ? NULL : ast_op_text(f.found->op);
  td_diag_t *d;
  if (op != NULL) {
    d = sem_report(c, TD_E02, e->loc,
                   "index %s is not bound here: its reduction ended at `%s`",
                   e->text, op);
    td_diag_label(d, ended->loc, "ends before `%s`", op);
    td_diag_help(d, "put parentheses around the body: "
                 "`[%s] (... %s ...)`; the body of a reduction takes `*` and "
                 "`/` and stops at `+`, `-` and comparisons", e->text, op);
  } else {
    d = sem_report(c, TD_E02, e->loc,
                   "index %s is not bound here: its reduction has ended",
                   e->text);
    td_diag_label(d, ended->loc, "%s belongs to this reduction", e->text);
  }
  return true;
}

/* Keys whose value was taken away are not candidates. */
static void offer_map(td_nearest_t *n, const td_map_t *map) {
  for (size_t i = 0; map != NULL && i < map->length; i++) {
    if (map->entries[i].value != NULL) {
      td_nearest_offer(n, map->entries[i].key);
    }
  }
}

static const char *const other_languages[][2] = {
    {"relu", "nn"},      {"silu", "nn"},      {"gelu", "nn"},
    {"sigmoid", "nn"},   {"rmsnorm", "nn"},   {"layernorm", "nn"},
    {"rope", "nn"},      {"dropout", "nn"},   {"gelu_tanh", "nn"},
    {"softmax", "softmax"}, {"logsumexp", "softmax"}, {NULL, NULL}};

/* For functions the library is tried as well: who writes relu without an
 * import should be told where it is. */
td_diag_t *sem_unknown(sem_ctx_t *c, ast_name_t name, const char *what,
                       const td_map_t *a, const td_map_t *b,
                       const char *const *list) {
  td_diag_t *d =
      sem_report(c, TD_E01, name.loc, "unknown %s %s", what, name.text);
  td_nearest_t n = td_nearest_start(td_str(name.text));
  offer_map(&n, a);
  offer_map(&n, b);
  for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
    td_nearest_offer(&n, td_str(list[i]));
  }
  if (n.best.data != NULL) {
    td_diag_help(d, "did you mean `%.*s`?", TD_STR_ARG(n.best));
    const char *edit = td_str_cstr(c->arena, n.best);
    td_diag_edit(d, name.loc, edit);
  }
  if (list == sem_builtin_names) {
    for (size_t i = 0; other_languages[i][0] != NULL; i++) {
      if (strcmp(name.text, other_languages[i][0]) == 0) {
        td_diag_help(d, "it is in the library: `import %s (%s)`",
                     other_languages[i][1], name.text);
      }
    }
  }
  return d;
}

/* Candidates are all values in scope. That indices are never made by use is
 * the rule people trip over, so it is said. */
void sem_unknown_value(sem_ctx_t *c, const ast_expr_t *e) {
  if (c->quiet > 0 || ended_reduction(c, e)) return;
  td_diag_t *d = sem_report(c, TD_E01, e->loc, "unknown name %s", e->text);
  td_nearest_t n = td_nearest_start(td_str(e->text));
  for (size_t i = 0; i < c->stack.length; i++) {
    td_nearest_offer(&n, td_str(c->stack.data[i]->name));
  }
  offer_map(&n, &c->module->values);
  if (n.best.data != NULL) {
    td_diag_help(d, "did you mean `%.*s`?", TD_STR_ARG(n.best));
    td_diag_edit(d, e->loc, td_str_cstr(c->arena, n.best));
  }
  if (c->type_scope) {
    td_diag_help(d, "declare it: `dim %s = 64`, `dyn %s <= 4096`, or a generic "
                 "of the function or struct", e->text, e->text);
  } else if (td_map_has(&c->module->fns, td_str(e->text)) ||
             sem_is_builtin(e->text)) {
    td_diag_note(d, "%s is a function; its arguments stand in parentheses",
                 e->text);
  } else {
    td_diag_note(d, "only the left side and reductions make indices");
  }
}

/* ---- what goes into the tree --------------------------------------------- */

/* Names are copied: the tree may outlive the task that interned them. */
sem_symbol_t *sem_new_symbol(sem_ctx_t *c, sem_symbol_kind_t kind,
                             const char *name, td_loc_t loc) {
  sem_symbol_t *s = TD_NEW(c->arena, sem_symbol_t);
  s->kind = kind;
  s->name = td_arena_strdup(c->arena, name);
  s->loc = loc;
  s->id = c->inst->next_id++;
  td_vec_push(c->arena, &c->symbols, s);
  return s;
}

/* The index gets its range later; until then its symbol has no ends. */
sem_index_t *sem_new_index(sem_ctx_t *c, const char *name, td_loc_t loc) {
  sem_index_t *i = TD_NEW(c->arena, sem_index_t);
  i->name = td_arena_strdup(c->arena, name);
  i->loc = loc;
  i->id = c->inst->next_id++;
  i->symbol = ix_symbol_create(c->pool, i->name, IX_SYM_INDEX, loc);
  td_vec_push(c->arena, &c->indices, i);
  return i;
}

/* Values of names are the same for all tuples of a statement, other data
 * need not be. */
bool sem_is_name_value(const sem_ctx_t *c, const ix_symbol_t *s) {
  for (size_t i = 0; i < c->symbols.length; i++) {
    if (c->symbols.data[i]->value == s) return true;
  }
  for (uint32_t i = 0; i < c->inst->func.param_count; i++) {
    if (c->inst->func.params[i]->value == s) return true;
  }
  return false;
}
