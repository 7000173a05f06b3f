/* bounds.c: every subscript is shown to be in range; guards narrow.
 *
 * The procedure itself is in ir/ (prove.c); here conditions of the text
 * become facts for it, integers read from memory become data, and what cannot
 * be shown becomes E08 or E09. */
#include "frontend/check.h"

/* NULL is not provable: the poly was too large to form. */
bool sem_nonneg(sem_ctx_t *c, const ix_poly_t *p) {
  return p != NULL && ix_prove_nonnegative(c->pool, p, c->facts);
}

/* As above. */
bool sem_positive(sem_ctx_t *c, const ix_poly_t *p) {
  return p != NULL && ix_prove_positive(c->pool, p, c->facts);
}

/* What interval arithmetic can say without indices and data. */
void sem_ends(sem_ctx_t *c, const ix_poly_t *p, const ix_poly_t **out_lo,
              const ix_poly_t **out_hi) {
  *out_lo = *out_hi = NULL;
  if (p != NULL) ix_ends(c->pool, p, c->facts, out_lo, out_hi);
}

/* An end that is NULL asks for nothing. */
bool sem_in_range(sem_ctx_t *c, const ix_poly_t *p, const ix_poly_t *lo,
                  const ix_poly_t *hi) {
  if (p == NULL) return false;
  const ix_poly_t *one = ix_const(c->pool, 1);
  if (lo != NULL && !sem_nonneg(c, ix_sub(c->pool, p, lo))) return false;
  return hi == NULL ||
         sem_nonneg(c, ix_sub(c->pool, ix_sub(c->pool, hi, one), p));
}

/* ---- data ---------------------------------------------------------------- */

/* The same element read twice in a statement is one datum, so that a guard on
 * it helps the read.  The key is its root, fields and subscript polys. */
static bool data_key(td_buf_t *key, const sem_expr_t *e) {
  for (;;) {
    if (e->kind == SEM_NAME) {
      td_buf_put(key, "N", 1);
      td_buf_put(key, (const char *)&e->symbol, sizeof e->symbol);
      return true;
    }
    if (e->kind == SEM_FIELD) {
      td_buf_put(key, "F", 1);
      td_buf_put(key, (const char *)&e->field, sizeof e->field);
    } else if (e->kind == SEM_SUBSCRIPT && e->otherwise == NULL) {
      td_buf_put(key, "S", 1);
      for (uint32_t i = 0; i < e->sub_count; i++) {
        const sem_expr_t *sub = e->subs[i].expr;
        if (sub != NULL && sub->poly == NULL) return false;
        const ix_poly_t *p = sub == NULL ? NULL : sub->poly;
        td_buf_put(key, (const char *)&p, sizeof p);
      }
    } else {
      return false;
    }
    e = e->args[0];
  }
}

/* Subscripts of stacks on the way count: they decide what is read. */
static uint32_t sub_total(const sem_expr_t *e) {
  uint32_t n = 0;
  for (; e->kind == SEM_FIELD || e->kind == SEM_SUBSCRIPT; e = e->args[0]) {
    n += e->sub_count;
  }
  return n;
}

/* Named by its text, as messages show it. A name whose dtype is not written
 * may hold more bits than its type says. */
static sem_datum_t *new_datum(sem_ctx_t *c, const sem_expr_t *read) {
  sem_datum_t *d = TD_NEW(c->arena, sem_datum_t);
  const char *name = c->quiet > 0 ? "a datum" : sem_slice(c, read->loc);
  ix_symbol_t *s =
      ix_symbol_create(c->pool, name, IX_SYM_DATA, read->loc);
  s->lo = read->type.lo;
  s->hi = read->type.hi;
  d->symbol = s;
  bool is_held = sem_root(read) == NULL || sem_root(read)->kind != SEM_NAME ||
                 sem_root(read)->symbol->is_written ||
                 sem_root(read)->type.kind == SEM_STRUCT;
  if (is_held) sem_set_width(c, s, read->type.dtype);
  d->subs = TD_NEW_ARRAY(c->arena, const ix_poly_t *, sub_total(read));
  for (const sem_expr_t *e = read;
       e->kind == SEM_FIELD || e->kind == SEM_SUBSCRIPT; e = e->args[0]) {
    for (uint32_t i = 0; i < e->sub_count; i++) {
      const sem_expr_t *sub = e->subs[i].expr;
      if (sub != NULL && sub->poly != NULL) {
        d->subs[d->sub_count++] = sub->poly;
      }
    }
  }
  td_map_put_u64(&c->datum_of, (uint64_t)(uintptr_t)s, d);
  return d;
}

/* Without a key, for reads through formulas, each read is a value of its
 * own. */
const ix_poly_t *sem_datum(sem_ctx_t *c, const sem_expr_t *read) {
  td_buf_t key;
  td_buf_init(&key, c->task);
  sem_datum_t *d = NULL;
  if (c->quiet == 0 && data_key(&key, read)) {
    d = td_map_get(&c->data, td_buf_view(&key));
    if (d == NULL) {
      d = new_datum(c, read);
      td_map_put(&c->data, td_buf_view(&key), d);
    }
  } else {
    d = new_datum(c, read);
  }
  td_buf_free(&key);
  return ix_sym(c->pool, d->symbol);
}

/* ---- guards -------------------------------------------------------------- */

/* False if the guard can never hold. */
static bool assume_fact(sem_ctx_t *c, const ix_poly_t *p) {
  int64_t number = 0;
  if (ix_is_const(p, &number)) return number >= 0;
  ix_facts_guard(c->facts, p);
  return true;
}

/* False if the guard is a false comparison of numbers. */
static bool assume_comparison(sem_ctx_t *c, sem_op_t op, const ix_poly_t *a,
                              const ix_poly_t *b) {
  const ix_poly_t *one = ix_const(c->pool, 1);
  const ix_poly_t *ab = ix_sub(c->pool, a, b), *ba = ix_sub(c->pool, b, a);
  int64_t number = 0;
  if (ab == NULL || ba == NULL) return true;
  switch (op) {
  case SEM_OP_LE: return assume_fact(c, ba);
  case SEM_OP_GE: return assume_fact(c, ab);
  case SEM_OP_LT: return assume_fact(c, ix_sub(c->pool, ba, one));
  case SEM_OP_GT: return assume_fact(c, ix_sub(c->pool, ab, one));
  case SEM_OP_EQ:
    if (ix_is_const(ab, &number)) return number == 0;
    ix_facts_guard_zero(c->facts, ab);
    return true;
  case SEM_OP_NE:
    if (ix_is_const(ab, &number)) return number != 0;
    ix_facts_guard_nonzero(c->facts, ab);
    return true;
  default: return true;
  }
}

/* What holds in the else arm, and right of an `or`. */
static sem_op_t negated(sem_op_t op) {
  switch (op) {
  case SEM_OP_EQ: return SEM_OP_NE;
  case SEM_OP_NE: return SEM_OP_EQ;
  case SEM_OP_LT: return SEM_OP_GE;
  case SEM_OP_GE: return SEM_OP_LT;
  case SEM_OP_LE: return SEM_OP_GT;
  case SEM_OP_GT: return SEM_OP_LE;
  default: return op;
  }
}

/* Conjunctions that are true and disjunctions that are false give both
 * parts; anything else gives nothing. */
bool sem_assume(sem_ctx_t *c, const sem_expr_t *cond, bool truth) {
  /* More facts than this in one guard help no proof and cost every one. */
  enum { MOST = 64 };
  bool possible = true;
  if (c->quiet > 0) return true;
  for (int i = 0; i < MOST; i++) {
    if (cond->kind == SEM_CONST) return possible && (cond->i64 != 0) == truth;
    if (cond->kind == SEM_UNARY && cond->op == SEM_OP_NOT) {
      cond = cond->args[0];
      truth = !truth;
      continue;
    }
    if (cond->kind != SEM_BINARY) break;
    if (cond->op == (truth ? SEM_OP_AND : SEM_OP_OR)) {
      possible = sem_assume(c, cond->args[1], truth) && possible;
      cond = cond->args[0];
      continue;
    }
    if (cond->op < SEM_OP_EQ || cond->op > SEM_OP_GE) break;
    const sem_expr_t *a = cond->args[0], *b = cond->args[1];
    if (!sem_is_int(a) || !sem_is_int(b) || a->poly == NULL ||
        b->poly == NULL) {
      break;
    }
    return assume_comparison(c, truth ? cond->op : negated(cond->op), a->poly,
                             b->poly) &&
           possible;
  }
  return possible;
}

/* ---- subscripts ---------------------------------------------------------- */

typedef struct ranges_text {
  sem_ctx_t *c;
  td_buf_t text;
  uint32_t count;
} ranges_text_t;

/* Each range once, at most four: more would hide the message. */
static bool visit_range(void *user, const ix_symbol_t *s) {
  ranges_text_t *r = user;
  bool varies = s->kind == IX_SYM_INDEX || s->kind == IX_SYM_LOOP ||
                s->kind == IX_SYM_DATA;
  if (!varies || r->count >= 4) return true;
  const ix_poly_t *lo = ix_symbol_lo(s, r->c->facts);
  const ix_poly_t *hi = ix_symbol_hi(s, r->c->facts);
  if (lo == NULL && hi == NULL) return true;
  const char *one = td_arena_printf(
      r->c->arena, "%s in %s .. %s", s->name,
      lo == NULL ? "?" : sem_poly_text(r->c, lo),
      hi == NULL ? "?" : sem_poly_text(r->c, hi));
  if (strstr(r->text.data, one) != NULL) return true;
  if (r->count++ > 0) td_buf_puts(&r->text, ", ");
  td_buf_puts(&r->text, one);
  return true;
}

/* "i in 0 .. N, k[i] in 0 .. V" for what a poly mentions. */
static const char *ranges_of(sem_ctx_t *c, const ix_poly_t *p) {
  ranges_text_t r = {c, {0}, 0};
  td_buf_init(&r.text, c->task);
  ix_each_symbol(p, visit_range, &r);
  return td_buf_finish(&r.text, c->arena);
}

/* E09: nothing bounds the value, so the type has to say it. */
static void report_unbounded(sem_ctx_t *c, const sem_dim_t *dim,
                             const ast_expr_t *base, const ast_expr_t *ast) {
  const char *text = sem_text(c, ast);
  const char *dim_text = sem_dim_text(c, dim);
  td_diag_t *d = sem_report(c, TD_E09, ast->loc,
                            "%s is used as an index but its type has no `in`",
                            text);
  td_diag_label(d, base->loc, "dim %s", dim_text);
  td_diag_help(d, "say it in the type, as in `i32[B, T] in %s`; or guard it: "
               "`if %s >= 0 and %s < %s then ... else ...`; or read `[%s | 0]`",
               dim_text, text, text, dim_text, text);
}

/* E08 with the value that would be read, the extent, the ranges that lead
 * there, and the guards that would help. */
static void report_bounds(sem_ctx_t *c, const ix_poly_t *p,
                          const ix_poly_t *worst, bool is_low,
                          const sem_dim_t *dim, const ast_expr_t *base,
                          const ast_expr_t *ast) {
  const char *text = sem_text(c, ast);
  const char *ranges = ranges_of(c, p);
  const char *size = sem_dim_text(c, dim), *shown = size;
  int64_t number = 0;
  if (ix_is_const(dim->size, &number) &&
      strcmp(size, sem_poly_text(c, dim->size)) != 0) {
    shown = td_arena_printf(c->arena, "%s = %lld", size, (long long)number);
  }
  td_diag_t *d = sem_report(
      c, TD_E08, ast->loc, "%s[%s] may read %s where the dim has %s%s%s%s",
      sem_text(c, base), text, sem_poly_text(c, worst), shown,
      ranges[0] != '\0' ? " (" : "", ranges, ranges[0] != '\0' ? ")" : "");
  td_diag_label(d, base->loc, "dim %s", sem_value_text(c, dim));
  if (dim->loc.line != 0) td_diag_label(d, dim->loc, "the dim");
  const ix_poly_t *one = ix_const(c->pool, 1);
  const ix_poly_t *need =
      is_low ? worst
             : ix_sub(c->pool, ix_sub(c->pool, dim->size, one), worst);
  if (is_low) {
    td_diag_help(d, "guard it: `if %s >= 0 then ... else ...`; or read "
                 "`[%s | 0]`", text, text);
  } else {
    td_diag_help(d, "guard it: `if %s < %s then ... else ...`; or read "
                 "`[%s | 0]`", text, size, text);
  }
  if (need != NULL && !ix_is_const(need, &number) &&
      (need->below.has & IX_HAS_VARYING) == 0) {
    td_diag_help(d, "or, if it always holds: `require %s`",
                 sem_inequality_text(c, need));
  } else {
    int name = (int)strcspn(ranges, " ");
    bool is_index = name > 0 && memchr(ranges, '[', (size_t)name) == NULL;
    td_diag_help(d, "or give the index another range: `%.*s in ...`",
                 is_index ? name : 1, is_index ? ranges : "i");
  }
}

/* 0 <= s and s <= n - 1, the two proofs of every access. An end that is not
 * bounded at all is E09. */
bool sem_prove_subscript(sem_ctx_t *c, const sem_expr_t *sub,
                         const sem_dim_t *dim, const ast_expr_t *base,
                         const ast_expr_t *ast) {
  if (c->quiet > 0 || c->unproved > 0 || dim->size == NULL) return true;
  const ix_poly_t *p = sub->poly;
  const ix_poly_t *one = ix_const(c->pool, 1);
  const ix_poly_t *room =
      ix_sub(c->pool, ix_sub(c->pool, dim->size, one), p);
  bool low = sem_nonneg(c, p), high = sem_nonneg(c, room);
  if (low && high) return true;
  const ix_poly_t *lo = NULL, *hi = NULL;
  sem_ends(c, p, &lo, &hi);
  const ix_poly_t *worst = !high ? hi : lo;
  if (!high && hi != NULL) worst = ix_sub(c->pool, hi, one);
  if (worst == NULL) {
    report_unbounded(c, dim, base, ast);
  } else {
    report_bounds(c, p, worst, high, dim, base, ast);
  }
  return false;
}
