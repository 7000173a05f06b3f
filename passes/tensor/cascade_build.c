/* cascade_build.c: sums back to scalar expressions, and as text.
 *
 * Products are built in the order of their atoms: tests around everything (a
 * test is a select, never a factor), one exponential of the joint exponent,
 * then what stands above the line, then divisions.  Two sums that are equal
 * give equal expressions. */
#include <math.h>

#include "passes/tensor/cascade_norm.h"

typedef struct build {
  cascade_norm_t *n;
  tdsl_dtype_t type;
  bool is_result; /* behind the sweep, which may have seen nothing */
} build_t;

static tir_expr_t *op2(const build_t *b, tir_x_t op, tir_expr_t *x,
                       tir_expr_t *y) {
  return tir_op(b->n->arena, op, b->type, 2, (tir_expr_t *[]){x, y});
}

static tir_expr_t *number(const build_t *b, double v) {
  return tir_const_f(b->n->arena, b->type, v);
}

static tir_expr_t *times(const build_t *b, tir_expr_t *x, tir_expr_t *y) {
  return x == NULL ? y : op2(b, TIR_X_MUL, x, y);
}

static tir_expr_t *build_sum(const build_t *b, const cascade_sum_t *s,
                             int depth);

/* exp(sum) in a narrower type, and back. */
static tir_expr_t *build_round(const build_t *b, const cascade_atom_t *a,
                               int depth) {
  tir_expr_t *x = build_sum(b, a->sum, depth + 1);
  x = tir_op(b->n->arena, TIR_X_EXP, b->type, 1, &x);
  return tir_cast(b->n->arena, b->type,
                  tir_cast(b->n->arena, a->narrow, x));
}

/* A maximum that has seen nothing is -inf, and what it is multiplied with is
 * a sum of nothing: it is read as 0, as in lifts and steps. */
static tir_expr_t *build_leaf(const build_t *b, const cascade_atom_t *a) {
  td_arena_t *arena = b->n->arena;
  for (size_t i = 0; b->is_result && i < b->n->gauges.length; i++) {
    const cascade_gauge_t *g = b->n->gauges.data[i];
    if (g->value != a || g->before == NULL || g->is_mean ||
        g->relation != CASCADE_MINUS) {
      continue;
    }
    tir_expr_t *low = tir_const_f(arena, a->expr->type, -(double)INFINITY);
    tir_expr_t *zero = tir_const_f(arena, a->expr->type, 0);
    tir_expr_t *is_hole = tir_op(arena, TIR_X_EQ, TDSL_DTYPE_BOOL, 2,
                                 (tir_expr_t *[]){a->expr, low});
    return tir_op(arena, TIR_X_SELECT, a->expr->type, 3,
                  (tir_expr_t *[]){is_hole, zero, a->expr});
  }
  return a->expr;
}

/* The atom itself; an exponential is built by its term. */
static tir_expr_t *build_atom(const build_t *b, const cascade_atom_t *a,
                              int depth) {
  if (a->kind == CASCADE_ROUND) return build_round(b, a, depth);
  return a->kind == CASCADE_SUM ? build_sum(b, a->sum, depth + 1)
                                    : build_leaf(b, a);
}

static tir_expr_t *build_power(const build_t *b, tir_expr_t *x, double p) {
  if (p == 0.5) return tir_op(b->n->arena, TIR_X_SQRT, b->type, 1, &x);
  if (p != floor(p) || p > 8) return op2(b, TIR_X_POW, x, number(b, p));
  tir_expr_t *e = x;
  for (int i = 1; i < (int)p; i++) e = op2(b, TIR_X_MUL, e, x);
  return e;
}

/* The joint exponent of a term, NULL if it has none. */
static tir_expr_t *build_exponent(const build_t *b, const cascade_term_t *t,
                                  int depth) {
  const cascade_sum_t *s = cascade_of_terms(b->n, 0, NULL);
  for (uint32_t i = 0; i < t->count; i++) {
    const cascade_factor_t *f = &t->factors[i];
    if (f->atom->kind != CASCADE_EXP) continue;
    s = cascade_add(b->n, s, f->power, f->atom->sum);
  }
  return s->count == 0 ? NULL : build_sum(b, s, depth + 1);
}

/* Without its sign. */
static tir_expr_t *build_term(const build_t *b, const cascade_term_t *t,
                              int depth) {
  td_arena_t *arena = b->n->arena;
  double c = fabs(t->coefficient);
  tir_expr_t *e = c == 1 ? NULL : number(b, c);
  tir_expr_t *x = build_exponent(b, t, depth);
  if (x != NULL) {
    e = times(b, e, tir_op(arena, TIR_X_EXP, b->type, 1, &x));
  }
  for (uint32_t i = 0; i < t->count; i++) {
    const cascade_factor_t *f = &t->factors[i];
    bool is_here = f->atom->kind == CASCADE_LEAF ||
                   f->atom->kind == CASCADE_SUM ||
                   f->atom->kind == CASCADE_ROUND;
    if (!is_here || f->power < 0) continue;
    e = times(b, e, build_power(b, build_atom(b, f->atom, depth), f->power));
  }
  for (uint32_t i = 0; i < t->count; i++) {
    const cascade_factor_t *f = &t->factors[i];
    if (f->atom->kind == CASCADE_EXP || f->power >= 0) continue;
    tir_expr_t *d =
        build_power(b, build_atom(b, f->atom, depth), -f->power);
    e = op2(b, TIR_X_DIV, e == NULL ? number(b, 1) : e, d);
  }
  if (e == NULL) e = number(b, 1);
  for (uint32_t i = t->count; i-- > 0;) {
    const cascade_atom_t *a = t->factors[i].atom;
    if (a->kind != CASCADE_TEST) continue;
    e = tir_op(arena, TIR_X_SELECT, b->type, 3,
               (tir_expr_t *[]){a->expr, e, number(b, 0)});
  }
  return e;
}

/* Positive terms come first, so that a - b is one operation. */
static tir_expr_t *build_sum(const build_t *b, const cascade_sum_t *s,
                             int depth) {
  TD_CHECK(b->n->task, depth < 32, "a sum is nested too deeply");
  tir_expr_t *e = NULL;
  for (int sign = 0; sign < 2; sign++) {
    for (uint32_t i = 0; i < s->count; i++) {
      const cascade_term_t *t = &s->terms[i];
      if ((t->coefficient < 0) != (sign == 1)) continue;
      tir_expr_t *x = build_term(b, t, depth);
      if (e != NULL) {
        e = op2(b, sign == 1 ? TIR_X_SUB : TIR_X_ADD, e, x);
      } else if (sign == 1) {
        e = tir_op(b->n->arena, TIR_X_NEG, b->type, 1, &x);
      } else {
        e = x;
      }
    }
  }
  return e == NULL ? number(b, 0) : e;
}

tir_expr_t *cascade_to_expr(cascade_norm_t *n, const cascade_sum_t *sum,
                            tdsl_dtype_t type) {
  build_t b = {n, type, false};
  return tir_intern(&n->interner, build_sum(&b, sum, 0));
}

tir_expr_t *cascade_result_to_expr(cascade_norm_t *n,
                                   const cascade_sum_t *sum,
                                   tdsl_dtype_t type) {
  build_t b = {n, type, true};
  return tir_intern(&n->interner, build_sum(&b, sum, 0));
}

/* ---- text ---------------------------------------------------------------- */

static void print_expr(td_buf_t *out, const tir_expr_t *e, int depth) {
  static const char *const names[] = {
#define TIR_SCALAR(id, text, ...) text,
#include "ir/tir_ops.def"
  };
  if (depth > 12) {
    td_buf_puts(out, "...");
    return;
  }
  if (e->op == TIR_X_CONST) {
    if (e->type == TDSL_DTYPE_F32 || e->type == TDSL_DTYPE_F64) {
      td_buf_f64(out, e->u.f64);
    } else {
      td_buf_printf(out, "%lld", (long long)e->u.i64);
    }
    return;
  }
  if (e->op == TIR_X_INDEX) {
    td_buf_puts(out, e->u.index->name);
    return;
  }
  if (e->op == TIR_X_DIM) {
    ix_print(out, e->u.dim);
    return;
  }
  bool is_load = e->op == TIR_X_LOAD;
  td_buf_puts(out, is_load ? e->u.value->name : names[e->op]);
  if (is_load && e->arg_count == 0) return;
  td_buf_putc(out, is_load ? '[' : '(');
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (i > 0) td_buf_puts(out, ", ");
    print_expr(out, e->args[i], depth + 1);
  }
  td_buf_putc(out, is_load ? ']' : ')');
}

void cascade_print_expr(td_buf_t *out, const tir_expr_t *e) {
  print_expr(out, e, 0);
}

static void print_term(td_buf_t *out, const cascade_term_t *t);

static void print_sum(td_buf_t *out, const cascade_sum_t *s) {
  for (uint32_t i = 0; i < s->count; i++) {
    const cascade_term_t *t = &s->terms[i];
    if (i > 0) td_buf_puts(out, t->coefficient < 0 ? " - " : " + ");
    else if (t->coefficient < 0) td_buf_putc(out, '-');
    print_term(out, t);
  }
  if (s->count == 0) td_buf_putc(out, '0');
}

static void print_term(td_buf_t *out, const cascade_term_t *t) {
  double c = fabs(t->coefficient);
  if (c != 1 || t->count == 0) td_buf_f64(out, c);
  for (uint32_t i = 0; i < t->count; i++) {
    const cascade_factor_t *f = &t->factors[i];
    if (i > 0 || c != 1) td_buf_putc(out, '*');
    switch (f->atom->kind) {
      case CASCADE_LEAF: print_expr(out, f->atom->expr, 0); break;
      case CASCADE_TEST:
        td_buf_putc(out, '[');
        print_expr(out, f->atom->expr, 0);
        td_buf_putc(out, ']');
        break;
      case CASCADE_ROUND:
        td_buf_puts(out, "round ");
        /* fallthrough */
      case CASCADE_EXP:
        td_buf_puts(out, "exp(");
        print_sum(out, f->atom->sum);
        td_buf_putc(out, ')');
        break;
      case CASCADE_SUM:
        td_buf_putc(out, '(');
        print_sum(out, f->atom->sum);
        td_buf_putc(out, ')');
        break;
    }
    if (f->power != 1) {
      td_buf_putc(out, '^');
      td_buf_f64(out, f->power);
    }
  }
}

void cascade_print(td_buf_t *out, const cascade_sum_t *sum) {
  print_sum(out, sum);
}
