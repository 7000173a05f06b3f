/* ranges.c: where an index takes its range from.
 *
 * In this order: `in E`; on the left of a result or annotated name the
 * declared dim; else the dims of all subscripts in which the index stands
 * alone (accesses with | excluded), which must be equal (E04), at least one
 * (E03).  Bases of subscripts are typed in quiet mode for this, before the
 * indices have ranges: only their dims matter. */
#include "frontend/check.h"

/* The tree sees symbols as constants; here they are being made. */
static ix_symbol_t *own_symbol(const sem_index_t *index) {
  return (ix_symbol_t *)(uintptr_t)index->symbol;
}

/* The symbol has the range as well: that is where proofs look. */
static void set_range(sem_ctx_t *c, sem_seek_t *s, const ix_poly_t *lo,
                      const ix_poly_t *hi) {
  s->index->lo = lo;
  s->index->extent = ix_sub(c->pool, hi, lo);
  own_symbol(s->index)->lo = lo;
  own_symbol(s->index)->hi = hi;
}

/* ---- written ------------------------------------------------------------- */

/* The expression may not mention indices or data (E49), nor the index
 * itself. */
static void take_written(sem_ctx_t *c, sem_seek_t *s, bool is_left) {
  const ix_poly_t *lo = NULL, *hi = NULL;
  const char *what =
      td_arena_printf(c->arena, "the range of %s:", s->index->name);
  if (!sem_read_range(c, s->range, what, &lo, &hi)) {
    s->failed = true;
    return;
  }
  int64_t start = 1;
  if (is_left && !(ix_is_const(lo, &start) && start == 0)) {
    td_diag_t *d = sem_report(c, TD_E48, s->range->loc,
                              "a range on the left starts at 0, this one "
                              "at %s", sem_poly_text(c, lo));
    td_diag_help(d, "write `%s in %s` and add %s where it is used",
                 s->index->name,
                 sem_poly_text(c, ix_sub(c->pool, hi, lo)),
                 sem_poly_text(c, lo));
    s->failed = true;
    return;
  }
  set_range(c, s, lo, hi);
  const char *text = s->range->lo == NULL ? sem_text(c, s->range->hi) : NULL;
  s->dim = (sem_dim_t){s->index->extent, text, s->range->loc};
  if (is_left && !sem_check_dim(c, &s->dim, s->range->loc)) s->failed = true;
}

/* From 0, as long as the dim. */
static void take_dim(sem_ctx_t *c, sem_seek_t *s, const sem_dim_t *dim) {
  set_range(c, s, ix_const(c->pool, 0), dim->size);
  s->dim = *dim;
}

/* ---- found in formulas --------------------------------------------------- */

typedef struct search {
  sem_ctx_t *c;
  sem_seek_t *seeks;
  size_t count;
} search_t;

/* The index that stands alone here, or NULL. */
static sem_seek_t *wanted(search_t *s, const ast_expr_t *e) {
  if (e == NULL || e->kind != AST_NAME) return NULL;
  for (size_t i = 0; i < s->count; i++) {
    if (strcmp(s->seeks[i].index->name, e->text) == 0) return &s->seeks[i];
  }
  return NULL;
}

/* E04 shows both dims and both accesses. */
static void report_two(sem_ctx_t *c, const sem_seek_t *s,
                       const sem_dim_t *dim, const ast_expr_t *base) {
  const char *name = s->index->name;
  td_diag_t *d = sem_report(c, TD_E04, base->loc,
                            "index %s has two ranges: %s from %s, %s from %s",
                            name, sem_dim_text(c, &s->dim), s->from_text,
                            sem_dim_text(c, dim), sem_text(c, base));
  td_diag_label(d, s->from, "%s in %s", name, sem_value_text(c, &s->dim));
  td_diag_label(d, base->loc, "%s in %s", name, sem_value_text(c, dim));
  td_diag_help(d, "say which one is meant: `%s in %s`", name,
               sem_dim_text(c, &s->dim));
  if (sem_may_be_equal(c, s->dim.size, dim->size)) {
    td_diag_help(d, "or, if they are always equal: `require %s == %s`",
                 sem_poly_text(c, s->dim.size), sem_poly_text(c, dim->size));
  }
}

/* The first access gives the range, all others must agree. */
static void found(sem_ctx_t *c, sem_seek_t *s, const sem_dim_t *dim,
                  const ast_expr_t *base, const ast_expr_t *access) {
  if (s->range != NULL || s->declared != NULL || s->failed) return;
  if (dim->size == NULL) return;
  if (s->index->extent == NULL) {
    take_dim(c, s, dim);
    s->from = access->loc;
    s->from_text = sem_text(c, base);
    return;
  }
  if (sem_same_dim(c, s->dim.size, dim->size)) return;
  report_two(c, s, dim, base);
  s->failed = true;
}

/* Dims of the base of a subscript, or NULL. */
static sem_expr_t *quiet_base(sem_ctx_t *c, const ast_expr_t *base) {
  c->quiet++;
  sem_expr_t *e = sem_check_expr(c, base);
  c->quiet--;
  return e;
}

/* For the cure only. */
static void note_guarded(search_t *s, const ast_expr_t *e) {
  for (size_t i = 0; i < e->sub_count; i++) {
    if (e->subs[i].form != AST_SUB_EXPR) continue;
    sem_seek_t *seek = wanted(s, e->subs[i].expr);
    if (seek == NULL || seek->guarded != NULL) continue;
    seek->guarded = e;
    seek->guarded_at = i;
  }
}

/* Bases are typed only where an index stands alone. Inside of an access with
 * | other accesses count as usual. */
static bool visit_access(ast_expr_t *e, void *user) {
  search_t *s = user;
  if (e->kind != AST_SUBSCRIPT) return true;
  if (e->other != NULL) {
    note_guarded(s, e);
    return true;
  }
  bool any = false;
  for (size_t i = 0; i < e->sub_count && !any; i++) {
    any = e->subs[i].form == AST_SUB_EXPR &&
          wanted(s, e->subs[i].expr) != NULL;
  }
  if (!any) return true;
  const sem_expr_t *base = quiet_base(s->c, e->kids[0]);
  for (size_t i = 0; i < e->sub_count; i++) {
    if (e->subs[i].form != AST_SUB_EXPR) continue;
    sem_seek_t *seek = wanted(s, e->subs[i].expr);
    if (seek == NULL) continue;
    if (base == NULL || base->type.rank != e->sub_count) {
      seek->base_failed = true; /* the formula itself reports it */
    } else {
      found(s->c, seek, &base->type.dims[i], e->kids[0], e);
    }
  }
  return true;
}

/* E03. An index inside of an expression says nothing by itself: nothing is
 * solved. */
static void report_none(sem_ctx_t *c, const sem_seek_t *s) {
  const char *name = s->index->name;
  td_diag_t *d = sem_report(c, TD_E03, s->index->loc,
                            "index %s never stands alone in a subscript, so "
                            "it has no range", name);
  if (s->guarded != NULL) {
    const sem_expr_t *base = quiet_base(c, s->guarded->kids[0]);
    td_diag_label(d, s->guarded->loc, "an access with `|` gives no range");
    if (base != NULL && base->type.rank == s->guarded->sub_count) {
      td_diag_help(d, "write the range: `%s in %s`", name,
                   sem_dim_text(c, &base->type.dims[s->guarded_at]));
      return;
    }
  }
  td_diag_help(d, "write the range: `%s in N`, where N is an extent made of "
               "dims and numbers", name);
}

/* Indices with a written or declared range need no search; only if one is
 * open are the formulas visited. */
void sem_find_ranges(sem_ctx_t *c, sem_seek_t *seeks, size_t count,
                     const ast_expr_t *const *formulas, size_t formula_count,
                     bool is_left) {
  bool open = false;
  for (size_t i = 0; i < count; i++) {
    if (seeks[i].range != NULL) {
      take_written(c, &seeks[i], is_left);
    } else if (seeks[i].declared != NULL) {
      take_dim(c, &seeks[i], seeks[i].declared);
    } else {
      open = true;
    }
  }
  search_t s = {c, seeks, count};
  for (size_t i = 0; i < formula_count && open; i++) {
    if (formulas[i] == NULL) continue;
    ast_visit(c->task, (ast_expr_t *)(uintptr_t)formulas[i], visit_access,
              &s);
  }
  for (size_t i = 0; i < count; i++) {
    if (seeks[i].failed || seeks[i].index->extent != NULL) continue;
    if (!seeks[i].base_failed) report_none(c, &seeks[i]);
    seeks[i].failed = true;
  }
}

/* Inside of a formula there is a tuple, so the range holds it. False if the
 * extent is a number and no tuple exists: then nothing is left to prove, and
 * a dim that `--dim` sets to 0 asks for no more than the dynamic one. */
bool sem_assume_nonempty(sem_ctx_t *c, const sem_index_t *index) {
  int64_t number = 0;
  if (c->quiet > 0 || index->extent == NULL) return true;
  if (ix_is_const(index->extent, &number)) return number > 0;
  ix_facts_extent_nonempty(c->facts, c->pool, index->extent);
  return true;
}
