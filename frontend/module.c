/* module.c: files and what they declare.
 *
 * A file is read once, known by the name of its source.  Its own names are
 * entered first, then those it imports; order in a file does not matter. */
#include "frontend/check.h"

enum { MAX_IMPORT_DEPTH = 255 };

/* ---- own declarations ---------------------------------------------------- */

/* Every declaration and import takes its name in one space per file, so that
 * a reader never has to ask which of two is meant (E10). */
static bool enter(sem_ctx_t *c, sem_module_t *m, ast_name_t name) {
  td_loc_t *old = td_map_get(&m->places, td_str(name.text));
  if (old != NULL) {
    c->module = m;
    td_diag_t *d = sem_report(c, TD_E10, name.loc,
                              "%s is already defined at %s", name.text,
                              sem_line(c, *old));
    td_diag_label(d, *old, "%s is declared here", name.text);
    td_diag_help(d, "a name is declared once in a file: choose another one");
    return false;
  }
  td_loc_t *loc = TD_NEW(c->arena, td_loc_t);
  *loc = name.loc;
  td_map_put(&m->places, td_str(name.text), loc);
  return true;
}

/* The values are found later (dims.c), since order in a file does not
 * matter. */
static void add_globals(sem_ctx_t *c, sem_module_t *m, const ast_decl_t *d) {
  for (size_t i = 0; i < d->item_count; i++) {
    const ast_item_t *item = &d->items[i];
    if (!enter(c, m, item->name)) continue;
    sem_global_t *g = TD_NEW(c->arena, sem_global_t);
    g->kind = d->kind == AST_DECL_DIM   ? SEM_GLOBAL_DIM
              : d->kind == AST_DECL_DYN ? SEM_GLOBAL_DYN
                                        : SEM_GLOBAL_CONST;
    g->name = td_arena_strdup(c->arena, item->name.text);
    g->loc = item->name.loc;
    g->item = item;
    g->module = m;
    td_map_put(&m->values, td_str(item->name.text), g);
    td_vec_push(c->arena, &c->globals, g);
  }
}

/* Heads are read when an instance is made, not here: generics have no
 * meaning before. */
static void add_fn(sem_ctx_t *c, sem_module_t *m, const ast_decl_t *d) {
  if (!enter(c, m, d->name)) return;
  sem_fn_t *f = TD_NEW(c->arena, sem_fn_t);
  f->name = td_arena_strdup(c->arena, d->name.text);
  f->decl = d;
  f->module = m;
  for (size_t i = 0; i < d->generic_count; i++) {
    if (d->generics[i].is_pack) f->has_packs = true;
    if (d->generics[i].what.text != NULL) f->has_dtypes = true;
  }
  td_map_put(&m->fns, td_str(d->name.text), f);
}

/* Fields are read at the first mention, with the generics of that mention. */
static void add_record(sem_ctx_t *c, sem_module_t *m, const ast_decl_t *d) {
  if (!enter(c, m, d->name)) return;
  sem_record_t *r = TD_NEW(c->arena, sem_record_t);
  r->name = td_arena_strdup(c->arena, d->name.text);
  r->decl = d;
  r->module = m;
  td_map_put(&m->records, td_str(d->name.text), r);
}

/* The names a file declares itself, before its imports: on a clash the
 * import is at fault. */
static void add_own(sem_ctx_t *c, sem_module_t *m) {
  for (size_t i = 0; i < m->ast->decl_count; i++) {
    const ast_decl_t *d = m->ast->decls[i];
    switch (d->kind) {
    case AST_DECL_DIM:
    case AST_DECL_DYN:
    case AST_DECL_CONST: add_globals(c, m, d); break;
    case AST_DECL_FN: add_fn(c, m, d); break;
    case AST_DECL_STRUCT: add_record(c, m, d); break;
    case AST_DECL_IMPORT:
    case AST_DECL_REQUIRE:
    case AST_DECL_MESH: break;
    }
  }
}

/* ---- imports ------------------------------------------------------------- */

/* The names of a list that cannot be found must not be reported again where
 * they are used. */
static void add_failed(sem_ctx_t *c, sem_module_t *m, ast_name_t name) {
  if (!enter(c, m, name)) return;
  td_str_t key = td_str(name.text);
  sem_fn_t *f = TD_NEW(c->arena, sem_fn_t);
  f->name = name.text;
  f->failed = true;
  td_map_put(&m->fns, key, f);
  sem_record_t *r = TD_NEW(c->arena, sem_record_t);
  r->name = name.text;
  r->failed = true;
  td_map_put(&m->records, key, r);
  sem_global_t *g = TD_NEW(c->arena, sem_global_t);
  g->name = name.text;
  g->loc = name.loc;
  g->failed = true;
  g->state = SEM_DONE;
  td_map_put(&m->values, key, g);
}

/* One name may be of one kind only, since a file has one space of names.
 * False if the module does not declare it. */
static bool take_name(sem_ctx_t *c, sem_module_t *m, const sem_module_t *from,
                      ast_name_t name) {
  td_str_t key = td_str(name.text);
  void *fn = td_map_get(&from->fns, key);
  void *record = td_map_get(&from->records, key);
  void *value = td_map_get(&from->values, key);
  if (fn == NULL && record == NULL && value == NULL) return false;
  if (!enter(c, m, name)) return true;
  if (fn != NULL) td_map_put(&m->fns, key, fn);
  if (record != NULL) td_map_put(&m->records, key, record);
  if (value != NULL) td_map_put(&m->values, key, value);
  return true;
}

/* The nearest name of the module is nearly always what was meant. */
static void not_in_module(sem_ctx_t *c, const sem_module_t *from,
                          ast_name_t name) {
  td_diag_t *d = sem_report(c, TD_E44, name.loc, "module %s has no %s",
                            from->name, name.text);
  td_nearest_t n = td_nearest_start(td_str(name.text));
  for (size_t i = 0; i < from->places.length; i++) {
    td_nearest_offer(&n, from->places.entries[i].key);
  }
  if (n.best.data != NULL) {
    td_diag_help(d, "did you mean `%.*s`?", TD_STR_ARG(n.best));
    td_diag_edit(d, name.loc, td_str_cstr(c->arena, n.best));
  }
}

/* An import without a list takes what the module declares, not what it
 * imports in turn. */
static void take_all(sem_ctx_t *c, sem_module_t *m, const sem_module_t *from,
                     td_loc_t loc) {
  for (size_t i = 0; i < from->ast->decl_count; i++) {
    const ast_decl_t *d = from->ast->decls[i];
    if (d->kind == AST_DECL_FN || d->kind == AST_DECL_STRUCT) {
      take_name(c, m, from, (ast_name_t){d->name.text, loc});
    } else if (d->kind != AST_DECL_MESH) {
      for (size_t k = 0; k < d->item_count; k++) {
        take_name(c, m, from, (ast_name_t){d->items[k].name.text, loc});
      }
    }
  }
}

/* A module that cannot be read makes this one incomplete: names that may
 * have come from it are not reported as unknown. */
static void follow(sem_ctx_t *c, sem_module_t *m, const ast_decl_t *d) {
  uint32_t file = 0;
  m->import_loc = d->loc;
  if (c->options->import != NULL) {
    file = c->options->import(c->options->user, c->task, m->file,
                              d->name.text);
  }
  sem_module_t *from = NULL;
  if (file == 0) {
    td_diag_t *r = sem_report(c, TD_E44, d->name.loc,
                              "module %s is not found", d->name.text);
    td_diag_note(r, "looked for %s.tdsl in the folder of this file, the "
                 "include folders and the library", d->name.text);
  } else {
    from = sem_load(c, file, d->name.text, m, d->loc);
  }
  if (from == NULL) {
    m->is_incomplete = m->is_incomplete || !d->has_names;
    for (size_t i = 0; i < d->name_count; i++) add_failed(c, m, d->names[i]);
    return;
  }
  if (!d->has_names) {
    take_all(c, m, from, d->loc);
    m->is_incomplete = m->is_incomplete || from->is_incomplete;
    return;
  }
  for (size_t i = 0; i < d->name_count; i++) {
    if (take_name(c, m, from, d->names[i])) continue;
    if (!from->is_incomplete) not_in_module(c, from, d->names[i]);
    add_failed(c, m, d->names[i]);
  }
}

/* Walks the chain of importers back to the module that is read a second
 * time, a label for each step. */
static void report_cycle(sem_ctx_t *c, sem_module_t *again,
                         sem_module_t *importer, td_loc_t loc) {
  td_diag_t *d = sem_report(c, TD_E34, loc,
                            "modules import each other: %s is being read",
                            again->name);
  for (sem_module_t *m = importer; m != NULL && m != again;
       m = m->importer) {
    if (m->importer != NULL) {
      td_diag_label(d, m->importer->import_loc, "%s imports %s",
                    m->importer->name, m->name);
    }
  }
  td_diag_help(d, "move what both need into a third file");
}

/* A file is known by the name of its source: the host may register it anew
 * for every import. */
sem_module_t *sem_load(sem_ctx_t *c, uint32_t file, const char *name,
                       sem_module_t *importer, td_loc_t loc) {
  const td_source_t *source = td_sources_get(c->task, file);
  TD_CHECK(c->task, source != NULL, "file %u is not registered", file);
  for (size_t i = 0; i < c->modules.length; i++) {
    sem_module_t *m = c->modules.data[i];
    const td_source_t *s = td_sources_get(c->task, m->file);
    if (m->file != file && strcmp(s->name, source->name) != 0) continue;
    if (m->state == SEM_DONE) return m;
    report_cycle(c, m, importer, loc);
    return NULL;
  }
  sem_module_t *m = TD_NEW(c->arena, sem_module_t);
  m->name = td_arena_strdup(c->arena, name);
  m->file = file;
  m->importer = importer;
  m->depth = importer == NULL ? 0 : importer->depth + 1;
  td_map_init(&m->values, c->arena);
  td_map_init(&m->fns, c->arena);
  td_map_init(&m->records, c->arena);
  td_map_init(&m->axes, c->arena);
  td_map_init(&m->places, c->arena);
  td_vec_push(c->arena, &c->modules, m);
  m->state = SEM_BUSY;
  if (m->depth > MAX_IMPORT_DEPTH) {
    sem_report(c, TD_L04, loc, "imports nest deeper than %d",
               MAX_IMPORT_DEPTH);
    m->ast = TD_NEW(c->arena, ast_file_t);
    m->state = SEM_DONE;
    return NULL;
  }
  m->ast = ast_parse(c->task, c->arena, file);
  if (m->ast->has_errors) m->is_incomplete = true;
  add_own(c, m);
  for (size_t i = 0; i < m->ast->decl_count; i++) {
    if (m->ast->decls[i]->kind == AST_DECL_IMPORT) {
      follow(c, m, m->ast->decls[i]);
    }
  }
  m->state = SEM_DONE;
  return m;
}
