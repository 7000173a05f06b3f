/* cascade_norm.c: atoms, terms and sums in normal form.
 *
 * 1. Everything is hash-consed by search: a body has tens of terms, and the
 *    tables of one region a few hundred sums.
 * 2. exp(c m) is held as exp(m)^c, so that products of exponentials, their
 *    powers and quotients are all one rule: powers add.
 * 3. A test is 0 or 1: [p]^n = [p], and [p][not p] = 0.
 * 4. Coefficients are doubles: those of programs are small whole numbers and
 *    the constants of the text, and a sum that must vanish has equal terms,
 *    not nearly equal ones. */
#include "passes/tensor/cascade_norm.h"

#include <math.h>

#include "runtime/base/num.h"

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

void cascade_norm_init(cascade_norm_t *n, td_task_t *task, td_arena_t *arena,
                       uint8_t (*classify)(void *, const tir_expr_t *),
                       void *user) {
  *n = (cascade_norm_t){.task = task, .arena = arena, .classify = classify,
                        .user = user};
  tir_interner_init(&n->interner, arena);
  td_map_init(&n->classes, arena);
  td_map_init(&n->plain, arena);
  td_map_init(&n->relative, arena);
  td_map_init(&n->leaves, arena);
}

uint8_t cascade_term_class(const cascade_term_t *term) {
  uint8_t c = CASCADE_K;
  for (uint32_t i = 0; i < term->count; i++) {
    c |= term->factors[i].atom->mentions;
  }
  return c;
}

/* ---- atoms --------------------------------------------------------------- */

static cascade_atom_t *new_atom(cascade_norm_t *n, cascade_kind_t kind,
                                uint8_t mentions) {
  cascade_atom_t *a = TD_NEW(n->arena, cascade_atom_t);
  a->kind = kind;
  a->id = (uint32_t)n->atoms.length;
  a->mentions = mentions;
  td_vec_push(n->arena, &n->atoms, a);
  return a;
}

/* Enough for what appears as a factor of a maximum; never a proof by range. */
static bool is_known_positive(const tir_expr_t *e) {
  if (e->op == TIR_X_ABS || e->op == TIR_X_SQRT || e->op == TIR_X_EXP ||
      e->op == TIR_X_EXP2 || e->op == TIR_X_RSQRT) {
    return true;
  }
  if (e->op == TIR_X_CONST) return e->u.f64 >= 0;
  if (e->op == TIR_X_CAST && e->args[0]->op == TIR_X_DIM) return true;
  return e->op == TIR_X_MUL && e->args[0] == e->args[1];
}

const cascade_atom_t *cascade_leaf(cascade_norm_t *n, tir_expr_t *e,
                                   uint8_t mentions) {
  e = tir_intern(&n->interner, e);
  cascade_atom_t *a = td_map_get_u64(&n->leaves, key_of(e));
  if (a != NULL) return a;
  a = new_atom(n, CASCADE_LEAF, mentions);
  a->expr = e;
  a->is_positive = is_known_positive(e);
  td_map_put_u64(&n->leaves, key_of(e), a);
  return a;
}

const cascade_atom_t *cascade_test(cascade_norm_t *n, tir_expr_t *e,
                                   uint8_t mentions) {
  bool is_negated = false;
  while (e->op == TIR_X_NOT) {
    is_negated = !is_negated;
    e = e->args[0];
  }
  e = tir_intern(&n->interner, e);
  cascade_atom_t *a = td_map_get_u64(&n->leaves, key_of(e));
  if (a == NULL) {
    cascade_atom_t *no = new_atom(n, CASCADE_TEST, mentions);
    a = new_atom(n, CASCADE_TEST, mentions);
    a->expr = e;
    no->expr = tir_intern(&n->interner,
                          tir_op(n->arena, TIR_X_NOT, TDSL_DTYPE_BOOL, 1,
                                 &e));
    a->complement = no;
    no->complement = a;
    a->is_positive = no->is_positive = true;
    td_map_put_u64(&n->leaves, key_of(e), a);
  }
  return is_negated ? a->complement : a;
}

bool cascade_is_exponential(const cascade_atom_t *a) {
  return a->kind == CASCADE_EXP || a->kind == CASCADE_ROUND;
}

/* EXP, ROUND and SUM atoms are found by the sum below them. */
static const cascade_atom_t *atom_over(cascade_norm_t *n, cascade_kind_t kind,
                                       const cascade_sum_t *sum,
                                       tdsl_dtype_t narrow) {
  uint8_t mentions = CASCADE_K;
  for (size_t i = 0; i < n->atoms.length; i++) {
    const cascade_atom_t *a = n->atoms.data[i];
    if (a->kind == kind && a->sum == sum && a->narrow == narrow) return a;
  }
  for (uint32_t i = 0; i < sum->count; i++) {
    mentions |= cascade_term_class(&sum->terms[i]);
  }
  TD_CHECK(n->task, mentions != CASCADE_MIXED, "a mixed sum became an atom");
  cascade_atom_t *a = new_atom(n, kind, mentions);
  a->sum = sum;
  a->narrow = narrow;
  a->is_positive = cascade_is_exponential(a);
  return a;
}

/* ---- terms --------------------------------------------------------------- */

static int compare_factors(const cascade_term_t *a, const cascade_term_t *b) {
  for (uint32_t i = 0; i < a->count && i < b->count; i++) {
    if (a->factors[i].atom != b->factors[i].atom) {
      return a->factors[i].atom->id < b->factors[i].atom->id ? -1 : 1;
    }
    if (a->factors[i].power != b->factors[i].power) {
      return a->factors[i].power > b->factors[i].power ? -1 : 1;
    }
  }
  if (a->count == b->count) return 0;
  return a->count > b->count ? -1 : 1; /* the number comes last */
}

/* Product of two terms; coefficient 0 if a test and its complement meet. */
static bool multiply_terms(cascade_norm_t *n, const cascade_term_t *a,
                           const cascade_term_t *b, cascade_term_t *out) {
  cascade_factor_t *f =
      TD_NEW_ARRAY(n->arena, cascade_factor_t, a->count + b->count + 1);
  uint32_t i = 0, j = 0, count = 0;
  out->coefficient = a->coefficient * b->coefficient;
  while (i < a->count || j < b->count) {
    cascade_factor_t next;
    if (j == b->count ||
        (i < a->count && a->factors[i].atom->id < b->factors[j].atom->id)) {
      next = a->factors[i++];
    } else if (i == a->count ||
               b->factors[j].atom->id < a->factors[i].atom->id) {
      next = b->factors[j++];
    } else {
      next = a->factors[i++];
      next.power += b->factors[j++].power;
    }
    if (next.atom->kind == CASCADE_TEST) next.power = 1;
    if (next.power != 0) f[count++] = next;
  }
  for (i = 0; i < count; i++) {
    for (j = 0; j < count; j++) {
      if (f[i].atom->complement == f[j].atom && i != j) out->coefficient = 0;
    }
  }
  out->count = count;
  out->factors = f;
  return count <= CASCADE_MAX_FACTORS;
}

/* ---- sums ---------------------------------------------------------------- */

static bool same_terms(const cascade_sum_t *s, uint32_t count,
                       const cascade_term_t *terms) {
  if (s->count != count) return false;
  for (uint32_t i = 0; i < count; i++) {
    if (s->terms[i].coefficient != terms[i].coefficient ||
        compare_factors(&s->terms[i], &terms[i]) != 0) {
      return false;
    }
  }
  return true;
}

/* Equal terms are collected; a coefficient that is a rounding error of those
 * that met is 0. */
const cascade_sum_t *cascade_of_terms(cascade_norm_t *n, uint32_t count,
                                      const cascade_term_t *terms) {
  cascade_term_t *sorted = TD_NEW_ARRAY(n->arena, cascade_term_t, count + 1);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = 0;
    while (at < kept && compare_factors(&sorted[at], &terms[i]) < 0) at++;
    if (at < kept && compare_factors(&sorted[at], &terms[i]) == 0) {
      double a = sorted[at].coefficient, b = terms[i].coefficient;
      sorted[at].coefficient =
          fabs(a + b) < 1e-13 * fabs(a) ? 0 : a + b;
      continue;
    }
    for (uint32_t k = kept; k > at; k--) sorted[k] = sorted[k - 1];
    sorted[at] = terms[i];
    kept++;
  }
  uint32_t length = 0;
  for (uint32_t i = 0; i < kept; i++) {
    if (sorted[i].coefficient != 0) sorted[length++] = sorted[i];
  }
  if (length > CASCADE_MAX_TERMS) return NULL;
  for (size_t i = 0; i < n->sums.length; i++) {
    if (same_terms(n->sums.data[i], length, sorted)) return n->sums.data[i];
  }
  cascade_sum_t *s = TD_NEW(n->arena, cascade_sum_t);
  s->id = (uint32_t)n->sums.length;
  s->count = length;
  s->terms = sorted;
  td_vec_push(n->arena, &n->sums, s);
  return s;
}

const cascade_sum_t *cascade_number(cascade_norm_t *n, double v) {
  return cascade_of_terms(n, 1, &(cascade_term_t){v, 0, NULL});
}

const cascade_sum_t *cascade_of_atom(cascade_norm_t *n,
                                     const cascade_atom_t *atom,
                                     double power) {
  cascade_factor_t *f = TD_NEW(n->arena, cascade_factor_t);
  *f = (cascade_factor_t){atom, power};
  return cascade_of_terms(n, 1, &(cascade_term_t){1, 1, f});
}

const cascade_sum_t *cascade_add(cascade_norm_t *n, const cascade_sum_t *a,
                                 double factor, const cascade_sum_t *b) {
  if (a == NULL || b == NULL) return NULL;
  uint32_t count = a->count + b->count;
  cascade_term_t *terms = TD_NEW_ARRAY(n->arena, cascade_term_t, count + 1);
  for (uint32_t i = 0; i < a->count; i++) terms[i] = a->terms[i];
  for (uint32_t i = 0; i < b->count; i++) {
    terms[a->count + i] = b->terms[i];
    terms[a->count + i].coefficient *= factor;
  }
  return cascade_of_terms(n, count, terms);
}

const cascade_sum_t *cascade_mul(cascade_norm_t *n, const cascade_sum_t *a,
                                 const cascade_sum_t *b) {
  if (a == NULL || b == NULL) return NULL;
  if (a->count * b->count > CASCADE_MAX_TERMS) return NULL;
  uint32_t count = 0;
  cascade_term_t *terms =
      TD_NEW_ARRAY(n->arena, cascade_term_t, a->count * b->count + 1);
  for (uint32_t i = 0; i < a->count; i++) {
    for (uint32_t j = 0; j < b->count; j++) {
      if (!multiply_terms(n, &a->terms[i], &b->terms[j], &terms[count++])) {
        return NULL;
      }
    }
  }
  return cascade_of_terms(n, count, terms);
}

static bool is_whole(double v) {
  return v == floor(v) && fabs(v) < 1e9;
}

/* (a b)^n = a^n b^n for whole n, and for a, b >= 0. */
static const cascade_sum_t *term_power(cascade_norm_t *n,
                                       const cascade_term_t *t, double p) {
  cascade_factor_t *f =
      TD_NEW_ARRAY(n->arena, cascade_factor_t, t->count + 1);
  if (!is_whole(p) && t->coefficient < 0) return NULL;
  for (uint32_t i = 0; i < t->count; i++) {
    double q = t->factors[i].power;
    bool is_even = is_whole(q / 2);
    /* (x^2)^0.5 is abs(x), not x */
    if (!is_whole(p) && !t->factors[i].atom->is_positive) return NULL;
    if (!is_whole(p) && is_even && !t->factors[i].atom->is_positive) {
      return NULL;
    }
    f[i] = t->factors[i];
    if (f[i].atom->kind != CASCADE_TEST) f[i].power = q * p;
  }
  return cascade_of_terms(
      n, 1, &(cascade_term_t){pow(t->coefficient, p), t->count, f});
}

const cascade_sum_t *cascade_power(cascade_norm_t *n, const cascade_sum_t *a,
                                   double p) {
  if (a == NULL) return NULL;
  if (a->count == 1) return term_power(n, &a->terms[0], p);
  if (p != 1 && p != 2 && p != 3 && p != 4) return NULL;
  const cascade_sum_t *s = a;
  for (int i = 1; i < (int)p; i++) s = cascade_mul(n, s, a);
  return s;
}

const cascade_sum_t *cascade_part(cascade_norm_t *n, const cascade_term_t *t,
                                  bool is_along) {
  cascade_factor_t *f =
      TD_NEW_ARRAY(n->arena, cascade_factor_t, t->count + 1);
  uint32_t count = 0;
  for (uint32_t i = 0; i < t->count; i++) {
    bool along = (t->factors[i].atom->mentions & CASCADE_U) != 0;
    if (along == is_along) f[count++] = t->factors[i];
  }
  double c = is_along ? 1 : t->coefficient;
  return cascade_of_terms(n, 1, &(cascade_term_t){c, count, f});
}

const cascade_sum_t *cascade_whole(cascade_norm_t *n,
                                   const cascade_sum_t *sum) {
  if (sum == NULL || sum->count < 2) return sum;
  return cascade_of_atom(
      n, atom_over(n, CASCADE_SUM, sum, TDSL_DTYPE_UNSET), 1);
}

const cascade_sum_t *cascade_round(cascade_norm_t *n, const cascade_term_t *t,
                                   tdsl_dtype_t narrow) {
  cascade_factor_t *f =
      TD_NEW_ARRAY(n->arena, cascade_factor_t, t->count + 1);
  const cascade_atom_t *weight = NULL;
  uint32_t count = 0;
  for (uint32_t i = 0; i < t->count; i++) {
    const cascade_atom_t *a = t->factors[i].atom;
    bool is_along = (a->mentions & CASCADE_U) != 0;
    if (is_along && a->kind != CASCADE_TEST) {
      if (a->kind != CASCADE_EXP || t->factors[i].power != 1 ||
          weight != NULL) {
        return NULL;
      }
      weight = a;
    } else {
      f[count++] = t->factors[i];
    }
  }
  if (weight == NULL || t->coefficient <= 0) return NULL;
  weight = atom_over(n, CASCADE_ROUND, weight->sum, narrow);
  return cascade_mul(
      n, cascade_of_terms(n, 1, &(cascade_term_t){t->coefficient, count, f}),
      cascade_of_atom(n, weight, 1));
}

/* exp(c m + c' m' + ...) as exp(m + c'/c m' + ...)^c; a number is a
 * coefficient. */
const cascade_sum_t *cascade_exp(cascade_norm_t *n,
                                 const cascade_sum_t *sum) {
  if (sum == NULL) return NULL;
  double number = 0;
  cascade_term_t *terms =
      TD_NEW_ARRAY(n->arena, cascade_term_t, sum->count + 1);
  uint32_t count = 0;
  for (uint32_t i = 0; i < sum->count; i++) {
    if (sum->terms[i].count == 0) number += sum->terms[i].coefficient;
    else terms[count++] = sum->terms[i];
  }
  const cascade_sum_t *result = cascade_number(n, exp(number));
  if (count == 0) return result;
  double lead = terms[0].coefficient;
  for (uint32_t i = 0; i < count; i++) terms[i].coefficient /= lead;
  const cascade_sum_t *below = cascade_of_terms(n, count, terms);
  return cascade_mul(
      n, result,
      cascade_of_atom(
          n, atom_over(n, CASCADE_EXP, below, TDSL_DTYPE_UNSET), lead));
}

/* ---- gauges -------------------------------------------------------------- */

static tir_expr_t *op2(cascade_norm_t *n, tir_x_t op, tdsl_dtype_t type,
                       tir_expr_t *a, tir_expr_t *b) {
  return tir_op(n->arena, op, type, 2, (tir_expr_t *[]){a, b});
}

/* v, or `instead` where v is `hole`. */
static tir_expr_t *unless(cascade_norm_t *n, tir_expr_t *v, double hole,
                          tir_expr_t *instead, tir_expr_t *otherwise) {
  tir_expr_t *is_hole = op2(n, TIR_X_EQ, TDSL_DTYPE_BOOL, v,
                            tir_const_f(n->arena, v->type, hole));
  return tir_op(n->arena, TIR_X_SELECT, v->type, 3,
                (tir_expr_t *[]){is_hole, instead, otherwise});
}

/* The one guard of empty and masked rows (docs/cascades.md): a gauge that has
 * seen nothing is read as neutral, in lifts and in steps. */
static cascade_gauge_t *add_gauge(cascade_norm_t *n,
                                  cascade_relation_t relation,
                                  tir_expr_t *leaf, tir_expr_t *present,
                                  tir_expr_t *before, bool is_mean) {
  double inf = (double)INFINITY;
  cascade_gauge_t *g = TD_NEW(n->arena, cascade_gauge_t);
  tdsl_dtype_t type = leaf->type;
  tir_expr_t *zero = tir_const_f(n->arena, type, 0);
  tir_expr_t *one = tir_const_f(n->arena, type, 1);
  tir_expr_t *seen, *step = NULL;
  g->relation = relation;
  g->leaf = tir_intern(&n->interner, leaf);
  g->present = tir_intern(&n->interner, present);
  g->before = before;
  g->is_everywhere = true;
  g->is_mean = is_mean;
  if (is_mean) { /* 0 where nothing has been seen */
    seen = op2(n, TIR_X_SUB, type, leaf, present);
    step = op2(n, TIR_X_SUB, type, before, present);
  } else if (relation == CASCADE_MINUS) {
    seen = before == NULL ? present
                          : unless(n, present, -inf, zero, present);
    seen = op2(n, TIR_X_SUB, type, leaf, seen);
    if (before != NULL) {
      step = unless(n, before, -inf, zero,
                    op2(n, TIR_X_SUB, type, before, present));
    }
  } else {
    seen = unless(n, present, 0, zero, op2(n, TIR_X_DIV, type, leaf, present));
    if (before != NULL) {
      step = unless(n, present, 0, one,
                    op2(n, TIR_X_DIV, type, before, present));
      step = unless(n, before, -inf, one, step);
    }
  }
  cascade_atom_t *relative =
      (cascade_atom_t *)(uintptr_t)cascade_leaf(n, seen, CASCADE_U);
  relative->gauge = g;
  g->relative = relative;
  g->value = cascade_leaf(n, present, CASCADE_X);
  if (step != NULL) g->step = cascade_leaf(n, step, CASCADE_X);
  td_vec_push(n->arena, &n->gauges, g);
  return g;
}

cascade_gauge_t *cascade_add_gauge(cascade_norm_t *n,
                                   cascade_relation_t relation,
                                   tir_expr_t *leaf, tir_expr_t *present,
                                   tir_expr_t *before) {
  return add_gauge(n, relation, leaf, present, before, false);
}

cascade_gauge_t *cascade_add_mean(cascade_norm_t *n, tir_expr_t *leaf,
                                  tir_expr_t *present, tir_expr_t *before) {
  return add_gauge(n, CASCADE_MINUS, leaf, present, before, true);
}

/* One factor after all gauges have moved: y becomes y + step or y * step. */
static const cascade_sum_t *translate_factor(cascade_norm_t *n,
                                             const cascade_factor_t *f) {
  const cascade_gauge_t *g = f->atom->gauge;
  const cascade_sum_t *y = cascade_of_atom(n, f->atom, 1);
  if (f->atom->kind == CASCADE_LEAF && g != NULL && g->step != NULL) {
    const cascade_sum_t *step = cascade_of_atom(n, g->step, 1);
    y = g->relation == CASCADE_MINUS ? cascade_add(n, y, 1, step)
                                     : cascade_mul(n, y, step);
  } else if (cascade_is_exponential(f->atom) &&
             (f->atom->mentions & CASCADE_U) != 0) {
    /* one level: a sum under exp holds leaves */
    const cascade_sum_t *below = cascade_translate(n, f->atom->sum);
    const cascade_sum_t *e = cascade_number(n, 1);
    for (uint32_t i = 0; below != NULL && i < below->count; i++) {
      e = cascade_mul(n, e, cascade_exp(n, cascade_of_terms(
                                               n, 1, &below->terms[i])));
    }
    if (f->atom->kind == CASCADE_ROUND && e != NULL && below != NULL) {
      e = e->count == 1 ? cascade_round(n, &e->terms[0], f->atom->narrow)
                        : NULL;
    }
    return cascade_power(n, e, f->power);
  }
  return cascade_power(n, y, f->power);
}

const cascade_sum_t *cascade_translate(cascade_norm_t *n,
                                       const cascade_sum_t *sum) {
  const cascade_sum_t *result = cascade_of_terms(n, 0, NULL);
  for (uint32_t i = 0; i < sum->count; i++) {
    const cascade_sum_t *t = cascade_number(n, sum->terms[i].coefficient);
    for (uint32_t k = 0; k < sum->terms[i].count; k++) {
      t = cascade_mul(n, t, translate_factor(n, &sum->terms[i].factors[k]));
    }
    result = cascade_add(n, result, 1, t);
  }
  return result;
}
