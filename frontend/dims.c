/* dims.c: dims, consts and config keys of files, and mesh axes.
 *
 * A static dim is a number, a poly of other static dims, or (checked without
 * values) a symbol that stands for every value.  A dynamic dim is a symbol
 * between 0 and its bound. */
#include "frontend/check.h"

enum { MAX_DIM = 2147483647, MAX_GLOBAL_DEPTH = 255 };

/* --dim names a dim as the checked file sees it; a private dim of a library
 * file is not meant. */
static const int64_t *given_value(const sem_ctx_t *c, const sem_global_t *g) {
  if (td_map_get(&c->main->values, td_str(g->name)) != g) return NULL;
  for (uint32_t i = 0; i < c->options->dim_count; i++) {
    if (strcmp(c->options->dims[i].name, g->name) == 0) {
      return &c->options->dims[i].value;
    }
  }
  return NULL;
}

/* 0 is allowed: a static dim may be empty where a dynamic one may. */
static bool check_size(sem_ctx_t *c, const sem_global_t *g, int64_t value,
                       td_loc_t loc, const char *what) {
  if (value >= 0 && value <= MAX_DIM) return true;
  td_diag_t *d = sem_report(c, TD_L01, loc, "%s %s is %lld, not in 0 .. 2^31-1",
                            what, g->name, (long long)value);
  td_diag_help(d, "a dim holds at most 2147483647 elements: split it in two");
  return false;
}

/* ---- config -------------------------------------------------------------- */

/* config("key", default) in the value of a dim or const. */
static sem_expr_t *config_value(sem_ctx_t *c, sem_global_t *g,
                                const ast_expr_t *e) {
  bool fits = (e->arg_count == 1 || e->arg_count == 2) &&
              e->args[0].value != NULL && e->args[0].name.text == NULL &&
              e->args[0].value->kind == AST_STRING;
  if (fits && e->arg_count == 2) {
    fits = e->args[1].value != NULL && e->args[1].name.text == NULL;
  }
  if (!fits) {
    sem_report(c, TD_E47, e->loc,
               "config wants a key in quotes and perhaps a default");
    return NULL;
  }
  const char *key = e->args[0].value->text;
  const ast_expr_t *fallback = e->arg_count == 2 ? e->args[1].value : NULL;
  if (g->config_key == NULL) g->config_key = td_arena_strdup(c->arena, key);
  bool is_int = false;
  int64_t i = 0;
  double f = 0;
  if (c->options->config != NULL &&
      c->options->config(c->options->user, key, &is_int, &i, &f)) {
    sem_number_t n = {is_int ? SEM_NUMBER_INT : SEM_NUMBER_FLOAT, i, f};
    return sem_number_expr(c, n, e->loc);
  }
  bool is_open = c->options->config == NULL && !c->options->need_values;
  if (is_open && (fallback == NULL || g->kind == SEM_GLOBAL_DIM)) {
    return sem_number_expr(c, (sem_number_t){SEM_NUMBER_UNKNOWN, 0, 0},
                           e->loc);
  }
  if (fallback != NULL) return sem_check_expr(c, fallback);
  td_diag_t *d =
      sem_report(c, TD_E39, e->loc, "config has no number \"%s\"", key);
  if (c->options->config == NULL) {
    td_diag_note(d, "no config.json was given");
    td_diag_help(d, "give one with `--config FILE`");
  }
  if (g->kind == SEM_GLOBAL_DIM) {
    td_diag_help(d, "give a value with `--dim %s=N` or a default: "
                 "`config(\"%s\", 1)`", g->name, key);
  } else {
    td_diag_help(d, "give a default: `config(\"%s\", 1.0)`", key);
  }
  return NULL;
}

/* config has a meaning only while the value of a dim or const is read. */
sem_expr_t *sem_config(sem_ctx_t *c, const ast_expr_t *e) {
  if (c->global == NULL) {
    td_diag_t *d = sem_report(c, TD_E47, e->loc,
                              "config stands in `dim` and `const` only");
    td_diag_help(d, "write `const X = %s` at the top of the file",
                 sem_text(c, e));
    return NULL;
  }
  return config_value(c, c->global, e);
}

/* ---- values -------------------------------------------------------------- */

/* A dim that stands for every value it may have. */
static void make_symbol(sem_ctx_t *c, sem_global_t *g, ix_symbol_kind_t kind) {
  g->symbol = ix_symbol_create(c->pool, g->name, kind, g->loc);
  g->poly = ix_sym(c->pool, g->symbol);
}

/* Known dims are numbers in all polys, so nothing has to substitute them
 * later. */
static void set_number(sem_ctx_t *c, sem_global_t *g, int64_t value) {
  g->number = (sem_number_t){SEM_NUMBER_INT, value, 0};
  g->poly = ix_const(c->pool, value);
}

/* In this order: --dim, a number, a poly of other static dims, a symbol
 * where nothing is known yet. */
static bool resolve_dim(sem_ctx_t *c, sem_global_t *g) {
  const int64_t *given = given_value(c, g);
  if (given != NULL) {
    set_number(c, g, *given);
    return check_size(c, g, *given, g->loc, "dim");
  }
  if (g->item->value == NULL) {
    make_symbol(c, g, IX_SYM_STATIC);
    return true;
  }
  sem_expr_t *e = sem_check_expr(c, g->item->value);
  if (e == NULL) return false;
  if (e->is_unknown) {
    make_symbol(c, g, IX_SYM_STATIC);
    return true;
  }
  if (!sem_is_int(e) || !e->is_exact || e->kind == SEM_SELECT) {
    td_diag_t *d = sem_report(c, TD_E45, g->item->value->loc,
                              "dim %s is not an integer", g->name);
    if (g->config_key != NULL && sem_is_number_const(e)) {
      td_diag_note(d, "config \"%s\" is %s", g->config_key,
                   sem_number_text(c, sem_number_of(e)));
    }
    return false;
  }
  int64_t value = 0;
  if (ix_is_const(e->poly, &value)) {
    set_number(c, g, value);
    return check_size(c, g, value, g->item->value->loc, "dim");
  }
  if (ix_mentions_kind(e->poly, IX_SYM_DYN)) {
    td_diag_t *d = sem_report(c, TD_E49, g->item->value->loc,
                              "dim %s depends on a dynamic dim", g->name);
    td_diag_help(d, "a dim is known when compiling; write the expression "
                 "where it is needed");
    return false;
  }
  g->poly = e->poly;
  return true;
}

/* The bound is a static expression. With --dim the dim is static, and its
 * bound is checked all the same by what uses it. */
static bool resolve_dyn(sem_ctx_t *c, sem_global_t *g) {
  const int64_t *given = given_value(c, g);
  sem_expr_t *e = sem_check_expr(c, g->item->value);
  if (e == NULL) return false;
  td_loc_t loc = g->item->value->loc;
  if (e->is_unknown) {
    g->bound = ix_const(c->pool, MAX_DIM);
  } else if (!sem_is_int(e) || !e->is_exact || e->kind == SEM_SELECT) {
    sem_report(c, TD_E45, loc, "the bound of %s is not an integer", g->name);
    return false;
  } else if (ix_mentions_kind(e->poly, IX_SYM_DYN)) {
    td_diag_t *d = sem_report(c, TD_E49, loc,
                              "the bound of %s depends on a dynamic dim",
                              g->name);
    td_diag_help(d, "bound it by a number, and add `require %s <= %s`",
                 g->name, sem_text(c, g->item->value));
    return false;
  } else {
    g->bound = e->poly;
  }
  int64_t value = 0;
  if (ix_is_const(g->bound, &value) &&
      !check_size(c, g, value, loc, "the bound of")) {
    return false;
  }
  if (given != NULL) {
    set_number(c, g, *given);
    if (!check_size(c, g, *given, g->loc, "dim")) return false;
    if (!ix_is_const(g->bound, &value) || *given <= value) return true;
    /* A variant for one size takes nothing that the program would refuse. */
    td_diag_t *d = sem_report(c, TD_R02, g->loc,
                              "dim %s = %lld from --dim exceeds its bound %lld",
                              g->name, (long long)*given, (long long)value);
    td_diag_help(d, "raise the bound: `dyn %s <= %lld`", g->name,
                 (long long)*given);
    return false;
  }
  make_symbol(c, g, IX_SYM_DYN);
  g->symbol->lo = ix_const(c->pool, 0);
  g->symbol->hi = ix_add(c->pool, g->bound, ix_const(c->pool, 1));
  g->use = (uint32_t)c->dyns.length;
  td_vec_push(c->arena, &c->dyns, g);
  return true;
}

/* Consts are constants of the compile, but a poly of dims without value
 * serves as well where only integers are wanted. */
static bool resolve_const(sem_ctx_t *c, sem_global_t *g) {
  sem_expr_t *e = sem_check_expr(c, g->item->value);
  if (e == NULL) return false;
  if (e->kind == SEM_CONST) {
    g->number = sem_number_of(e);
    g->poly = e->poly;
    if (e->is_unknown) make_symbol(c, g, IX_SYM_STATIC);
    return true;
  }
  if (sem_is_int(e) && e->is_exact && e->kind != SEM_SELECT &&
      !ix_mentions_kind(e->poly, IX_SYM_DYN)) {
    g->poly = e->poly;
    return true;
  }
  if (e->is_exact && sem_is_float(e) && e->kind != SEM_SELECT) {
    /* Of static dims without value. */
    g->number.kind = SEM_NUMBER_UNKNOWN;
    make_symbol(c, g, IX_SYM_STATIC);
    return true;
  }
  td_diag_t *d = sem_report(c, TD_E45, g->item->value->loc,
                            "const %s is not known when compiling", g->name);
  td_diag_help(d, "a const is made of numbers, consts and static dims");
  return false;
}

/* Values refer to each other in any order; the state finds circles, the
 * depth keeps the stack small. */
bool sem_resolve_global(sem_ctx_t *c, sem_global_t *g) {
  if (g->state == SEM_DONE) return !g->failed;
  if (g->state == SEM_BUSY) {
    td_diag_t *d = sem_report(c, TD_E34, g->loc,
                              "%s is defined by means of itself", g->name);
    td_diag_help(d, "leave out its value, or one of those that it uses");
    g->failed = true;
    return false;
  }
  if (c->global_depth >= MAX_GLOBAL_DEPTH) {
    if (!c->is_too_deep) {
      sem_report(c, TD_L04, g->loc,
                 "dims and consts depend on each other more than %d deep",
                 MAX_GLOBAL_DEPTH);
    }
    c->is_too_deep = true; /* one such chain has many beginnings */
    g->failed = true;
    g->state = SEM_DONE;
    return false;
  }
  sem_module_t *module = c->module;
  sem_global_t *outer = c->global;
  c->module = g->module;
  c->global = g;
  c->global_depth++;
  g->state = SEM_BUSY;
  bool ok = g->kind == SEM_GLOBAL_DIM   ? resolve_dim(c, g)
            : g->kind == SEM_GLOBAL_DYN ? resolve_dyn(c, g)
                                        : resolve_const(c, g);
  if (!ok) g->failed = true;
  g->state = SEM_DONE;
  c->global_depth--;
  c->global = outer;
  c->module = module;
  return !g->failed;
}

/* Imported names are in the table too; resolving twice does nothing. */
void sem_resolve_module(sem_ctx_t *c, sem_module_t *m) {
  for (size_t i = 0; i < m->values.length; i++) {
    sem_resolve_global(c, m->values.entries[i].value);
  }
}

/* A config value that nobody knows is a float for formulas and a symbol
 * where an integer is wanted. */
sem_expr_t *sem_global_expr(sem_ctx_t *c, sem_global_t *g, td_loc_t loc) {
  g->is_used = true;
  if (!sem_resolve_global(c, g)) return NULL;
  if (g->number.kind != SEM_NUMBER_NONE) {
    sem_expr_t *e = sem_number_expr(c, g->number, loc);
    if (e->is_unknown) e->poly = g->poly;
    return e;
  }
  sem_use_global(c, g);
  return sem_dim_value(c, g->poly, loc);
}

/* NULL means that arithmetic of polys gave up: past i64, or past the limits
 * that keep hostile texts cheap. */
sem_expr_t *sem_dim_value(sem_ctx_t *c, const ix_poly_t *poly, td_loc_t loc) {
  int64_t value = 0;
  poly = ix_apply_facts(c->pool, poly, c->facts);
  if (poly == NULL) {
    sem_report(c, TD_E45, loc, "this integer is too large or too long");
    return NULL;
  }
  if (ix_is_const(poly, &value)) {
    return sem_number_expr(c, (sem_number_t){SEM_NUMBER_INT, value, 0}, loc);
  }
  sem_expr_t *e = sem_new_expr(c, SEM_DIM, loc);
  e->type = sem_scalar(TDSL_DTYPE_I64);
  e->is_exact = true;
  e->poly = poly;
  return e;
}

/* The dims of the checked file are all wanted; of imported ones only those
 * that some text uses. */
void sem_require_values(sem_ctx_t *c) {
  for (size_t i = 0; i < c->globals.length; i++) {
    const sem_global_t *g = c->globals.data[i];
    if (g->kind != SEM_GLOBAL_DIM || g->failed || g->symbol == NULL) continue;
    if (!g->is_used && g->module != c->main) continue;
    c->module = g->module;
    td_diag_t *d =
        sem_report(c, TD_E56, g->loc, "dim %s has no value", g->name);
    td_diag_help(d, "give one with `--dim %s=N`, or write `dim %s = N` or "
                 "`dim %s = config(\"key\")`; a checkpoint binds it where it "
                 "is the only unknown dim of a field", g->name, g->name,
                 g->name);
  }
}

/* ---- mesh ---------------------------------------------------------------- */

static bool check_ranks(sem_ctx_t *c, td_loc_t loc, const char *axis,
                        int64_t value) {
  if (value >= 1 && value <= MAX_DIM) return true;
  sem_report(c, TD_L01, loc, "axis %s has %lld ranks, wanted 1 .. 2^31-1",
             axis, (long long)value);
  return false;
}

/* --mesh none and --mesh a=2 come before the text. -1: no value, which
 * checking accepts. */
static int64_t axis_size(sem_ctx_t *c, const ast_item_t *item) {
  if (c->options->mesh_none) return 1;
  for (uint32_t i = 0; i < c->options->axis_count; i++) {
    if (strcmp(c->options->axes[i].name, item->name.text) == 0) {
      int64_t given = c->options->axes[i].value;
      return check_ranks(c, item->name.loc, item->name.text, given) ? given
                                                                    : -1;
    }
  }
  if (item->value == NULL) return -1;
  sem_expr_t *e = sem_check_expr(c, item->value);
  if (e == NULL) return -1;
  int64_t value = 0;
  if (!sem_is_int(e) || !ix_is_const(e->poly, &value)) {
    if (e->is_unknown || (e->is_exact && sem_is_int(e))) return -1;
    sem_report(c, TD_E45, item->value->loc,
               "the size of axis %s is not an integer", item->name.text);
    return -1;
  }
  bool fits = check_ranks(c, item->value->loc, item->name.text, value);
  return fits ? value : -1;
}

/* Axes have names of their own: they never meet dims in one place of the
 * grammar. */
void sem_mesh(sem_ctx_t *c, sem_module_t *m) {
  c->module = m;
  for (size_t i = 0; i < m->ast->decl_count; i++) {
    const ast_decl_t *decl = m->ast->decls[i];
    if (decl->kind != AST_DECL_MESH) continue;
    for (size_t k = 0; k < decl->item_count; k++) {
      const ast_item_t *item = &decl->items[k];
      const char *name = item->name.text;
      if (strcmp(name, "none") == 0 || strcmp(name, "ring") == 0) {
        sem_report(c, TD_E26, item->name.loc,
                   "%s cannot be the name of an axis: as a mark it says how "
                   "to move a value", name);
        continue;
      }
      sem_axis_t *old = td_map_get(&m->axes, td_str(name));
      if (old != NULL) {
        td_diag_t *d = sem_report(c, TD_E10, item->name.loc,
                                  "axis %s is already defined at %s", name,
                                  sem_line(c, old->loc));
        td_diag_label(d, old->loc, "%s is declared here", name);
        continue;
      }
      sem_axis_t *axis = TD_NEW(c->arena, sem_axis_t);
      axis->name = td_arena_strdup(c->arena, name);
      axis->loc = item->name.loc;
      axis->size = axis_size(c, item);
      td_map_put(&m->axes, td_str(name), axis);
    }
  }
}
