/* layouts.c: layout marks and attributes, as far as one file says: axes are
 * known and used once (E26), static extents divide (E23), attributes exist
 * and stand where they may (E40). */
#include "frontend/check.h"

/* A library file without a mesh of its own may be marked by axes of the
 * program. */
static const sem_axis_t *find_axis(sem_ctx_t *c, const char *name) {
  sem_axis_t *axis = td_map_get(&c->module->axes, td_str(name));
  if (axis == NULL) axis = td_map_get(&c->main->axes, td_str(name));
  return axis;
}

/* Marks that say how a value moves, not where it lies. */
static bool is_movement(const char *name) {
  return strcmp(name, "none") == 0 || strcmp(name, "ring") == 0;
}

/* Axes seen in one layout. */
typedef struct seen {
  const char *names[2 * IX_MAX_RANK];
  uint32_t count;
} seen_t;

/* E26 for an axis that is unknown, or stands twice in the layout that `seen`
 * gathers. */
static const sem_axis_t *use_axis(sem_ctx_t *c, ast_name_t name,
                                  seen_t *seen) {
  if (name.text == NULL) return NULL; /* the parser has complained */
  const sem_axis_t *axis = find_axis(c, name.text);
  if (axis == NULL) {
    td_diag_t *d = sem_report(c, TD_E26, name.loc, "unknown axis %s",
                              name.text);
    td_nearest_t n = td_nearest_start(td_str(name.text));
    for (size_t i = 0; i < c->module->axes.length; i++) {
      td_nearest_offer(&n, c->module->axes.entries[i].key);
    }
    if (n.best.data != NULL) {
      td_diag_help(d, "did you mean `%.*s`?", TD_STR_ARG(n.best));
    } else {
      td_diag_help(d, "axes are declared by `mesh (%s = 2)`", name.text);
    }
    return NULL;
  }
  for (uint32_t i = 0; i < seen->count; i++) {
    if (strcmp(seen->names[i], axis->name) != 0) continue;
    td_diag_t *d = sem_report(c, TD_E26, name.loc,
                              "axis %s stands twice in a layout", name.text);
    td_diag_help(d, "an axis cuts one dim");
    return NULL;
  }
  if (seen->count < 2 * IX_MAX_RANK) seen->names[seen->count++] = axis->name;
  return axis;
}

/* ---- E23 ----------------------------------------------------------------- */

/* A dozen is enough to choose from. */
static const char *divisors_of(sem_ctx_t *c, int64_t n) {
  enum { MOST = 12 };
  td_buf_t out;
  td_buf_init(&out, c->task);
  int count = 0;
  for (int64_t i = 2; i <= n && i < 100000 && count < MOST; i++) {
    if (n % i != 0) continue;
    td_buf_printf(&out, "%s%lld", count++ > 0 ? ", " : "", (long long)i);
  }
  return td_buf_finish(&out, c->arena);
}

/* Static extents only; dynamic ones are checked at entry. A dim smaller than
 * the axis may be cut over a part of it. */
static void check_divides(sem_ctx_t *c, const ast_shard_t *shard,
                          const sem_dim_t *dim, int64_t ranks) {
  int64_t n = 0;
  const char *fn = shard->fn.text;
  bool zigzag = fn != NULL && strcmp(fn, "zigzag") == 0;
  if (fn != NULL && strcmp(fn, "pad") == 0) return;
  if (ranks <= 1 || dim == NULL || dim->size == NULL) return;
  if (!ix_is_const(dim->size, &n) || n == 0) return;
  int64_t pieces = zigzag ? 2 * ranks : ranks;
  if (n % pieces == 0) return;
  if (fn == NULL && n < ranks && ranks % n == 0) return; /* sub-axis */
  td_diag_t *d = sem_report(c, TD_E23, shard->loc,
                            "%s = %lld is not divisible by %lld%s",
                            sem_dim_text(c, dim), (long long)n,
                            (long long)pieces,
                            zigzag ? " (zigzag takes two pieces a rank)"
                                   : "");
  td_diag_note(d, "divisors of %lld: %s", (long long)n, divisors_of(c, n));
  if (fn == NULL && shard->axis_count == 1) {
    int64_t piece = (n + ranks - 1) / ranks;
    td_diag_help(d, "`%s@pad(%s)` pads each piece to %lld, %lld elements in "
                 "all are waste", sem_dim_text(c, dim), shard->axes[0].text,
                 (long long)piece, (long long)(piece * ranks - n));
  }
}

/* ---- one mark ------------------------------------------------------------ */

/* dim NULL: the extent is not known here, as for a suffix of a struct. */
static void check_shard(sem_ctx_t *c, const ast_shard_t *shard,
                        const sem_dim_t *dim, seen_t *seen, bool is_left) {
  if (shard->form == AST_SHARD_AXIS && is_movement(shard->axes[0].text)) {
    if (is_left) return;
    td_diag_t *d = sem_report(c, TD_E26, shard->loc,
                              "`@%s` moves a value: it stands on an index of "
                              "a left side", shard->axes[0].text);
    td_diag_help(d, "a type without a mark is whole");
    return;
  }
  if (shard->form == AST_SHARD_LAYOUT) {
    const char *fn = shard->fn.text;
    if (strcmp(fn, "zigzag") != 0 && strcmp(fn, "cyclic") != 0 &&
        strcmp(fn, "pad") != 0) {
      td_diag_t *d = sem_report(c, TD_E26, shard->fn.loc,
                                "unknown layout function %s", fn);
      td_diag_help(d, "there are `zigzag(a)`, `cyclic(a)` and `pad(a)`");
      return;
    }
    if (shard->axis_count != 1) {
      sem_report(c, TD_E26, shard->loc, "%s takes one axis, the only one of "
                 "its dim", fn);
      return;
    }
  }
  int64_t ranks = 1;
  for (size_t i = 0; i < shard->axis_count; i++) {
    const sem_axis_t *axis = use_axis(c, shard->axes[i], seen);
    if (axis == NULL) return;
    if (axis->size < 0 || ranks < 0 ||
        !td_mul_i64(ranks, axis->size, &ranks)) {
      ranks = -1;
    }
  }
  check_divides(c, shard, dim, ranks);
}

/* One layout is a type: its stacks, dims and suffixes together. */
void sem_check_marks(sem_ctx_t *c, const ast_type_t *t,
                     const sem_type_t *type) {
  seen_t seen = {.count = 0};
  uint32_t next = 0;
  for (size_t i = 0; i < t->stack_count; i++) {
    if (t->stacks[i].shard != NULL) {
      check_shard(c, t->stacks[i].shard, &type->dims[next], &seen, false);
    }
    next++;
  }
  for (size_t i = 0; i < t->dim_count; i++) {
    const ast_dim_t *dim = &t->dims[i];
    const sem_dim_t *size = NULL;
    if (type->kind == SEM_TENSOR && dim->expr != NULL && next < type->rank) {
      size = &type->dims[next++];
    }
    if (dim->shard == NULL) continue;
    if (type->kind == SEM_STRUCT) {
      sem_report(c, TD_E26, dim->shard->loc,
                 "a mark cuts a dim; the generics of a struct have none");
      continue;
    }
    check_shard(c, dim->shard, size, &seen, false);
  }
  for (size_t i = 0; i < t->suffix_count; i++) {
    const ast_suffix_t *s = &t->suffixes[i];
    if (s->form == AST_SUFFIX_SHARD) {
      check_shard(c, s->shard, NULL, &seen, false);
    }
    for (size_t k = 0; s->form == AST_SUFFIX_PARTIAL && k < s->axis_count;
         k++) {
      use_axis(c, s->axes[k], &seen);
    }
  }
}

/* On the left `@none` and `@ring` are allowed as well. */
void sem_check_left_marks(sem_ctx_t *c, const ast_expr_t *left,
                          const sem_type_t *type) {
  seen_t seen = {.count = 0};
  for (size_t i = 0; i < left->sub_count && i < type->rank; i++) {
    const ast_sub_t *sub = &left->subs[i];
    if (sub->form != AST_SUB_INDEX || sub->shard == NULL) continue;
    check_shard(c, sub->shard, &type->dims[i], &seen, true);
  }
}

/* ---- attributes (E40) ---------------------------------------------------- */

static const char *const fn_attributes[] = {
    "tf32",          "approx",        "test",          "pipeline",
    "auto_layout",   "keep_gathered", "combine_early", NULL};

/* The list is short enough to be shown. */
static void unknown_attribute(sem_ctx_t *c, const ast_attr_t *a) {
  td_diag_t *d = sem_report(c, TD_E40, a->loc, "unknown attribute %s",
                            a->name.text);
  td_nearest_t n = td_nearest_start(td_str(a->name.text));
  for (size_t i = 0; fn_attributes[i] != NULL; i++) {
    td_nearest_offer(&n, td_str(fn_attributes[i]));
  }
  if (n.best.data != NULL) {
    td_diag_help(d, "did you mean `%.*s`?", TD_STR_ARG(n.best));
  } else {
    td_diag_help(d, "there are tf32, approx, test, pipeline, auto_layout, "
                 "keep_gathered, combine_early, and checkpoint on `for`");
  }
}

/* An index name and one of the known schedules. */
static bool is_schedule(const ast_attr_t *a) {
  static const char *const names[] = {"gpipe", "1f1b", "zb1p"};
  if (!a->has_args || a->arg_count != 2) return false;
  const ast_expr_t *index = a->args[0].value, *name = a->args[1].value;
  if (index == NULL || index->kind != AST_NAME || name == NULL) return false;
  if (name->kind != AST_STRING) return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(name->text, names[i]) == 0) return true;
  }
  return strncmp(name->text, "interleaved(", 12) == 0;
}

/* A test makes its own data, so nothing could be passed to it. */
static void check_test(sem_ctx_t *c, sem_instance_t *inst,
                       const ast_attr_t *a) {
  inst->func.is_test = true;
  if (inst->func.param_count == 0 && inst->func.result_count == 0) return;
  td_diag_t *d = sem_report(c, TD_E40, a->loc,
                            "a test has no parameters and no results");
  td_diag_help(d, "make its data with formulas and `uniform`");
}

/* Those that only later stages look at are checked for their form. */
void sem_check_attributes(sem_ctx_t *c, sem_instance_t *inst) {
  const ast_decl_t *d = inst->fn->decl;
  for (size_t i = 0; i < d->attr_count; i++) {
    const ast_attr_t *a = &d->attrs[i];
    const char *name = a->name.text;
    size_t k = 0;
    while (fn_attributes[k] != NULL && strcmp(fn_attributes[k], name) != 0) {
      k++;
    }
    if (strcmp(name, "checkpoint") == 0) {
      td_diag_t *r = sem_report(c, TD_E40, a->loc,
                                "`checkpoint` stands on a `for`");
      td_diag_help(r, "in a body: `checkpoint { ... }`");
    } else if (fn_attributes[k] == NULL) {
      unknown_attribute(c, a);
    } else if (strcmp(name, "pipeline") == 0) {
      if (is_schedule(a)) continue;
      td_diag_t *r = sem_report(c, TD_E40, a->loc,
                                "pipeline wants an index and a schedule");
      td_diag_help(r, "write `pipeline(m, \"1f1b\")`; schedules are gpipe, "
                   "1f1b, interleaved(2), zb1p");
    } else if (a->has_args) {
      sem_report(c, TD_E40, a->loc, "attribute %s has no arguments", name);
    } else if (strcmp(name, "tf32") == 0) {
      inst->func.is_tf32 = true;
    } else if (strcmp(name, "approx") == 0) {
      inst->func.is_approx = true;
    } else if (strcmp(name, "test") == 0) {
      check_test(c, inst, a);
    }
  }
}

/* A loop has one attribute. */
void sem_loop_attributes(sem_ctx_t *c, const ast_stmt_t *s) {
  for (size_t i = 0; i < s->attr_count; i++) {
    const ast_attr_t *a = &s->attrs[i];
    if (strcmp(a->name.text, "checkpoint") == 0 && !a->has_args) continue;
    td_diag_t *d = sem_report(c, TD_E40, a->loc,
                              "%s is no attribute of a `for`", a->name.text);
    td_diag_help(d, "`for l in L with checkpoint { ... }` is the only one");
  }
}
