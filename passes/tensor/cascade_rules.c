/* cascade_rules.c: scalar bodies to normal form.
 *
 * Bottom-up, once; every rule moves an operation below a smaller mixed
 * expression or removes one, so there is no search.
 *
 *   a - b = a + (-1) b, a / b = a b^-1          b is not mixed, or one term
 *   a (b + c) = a b + a c                       if b + c is mixed
 *   (a b)^n = a^n b^n; (a + b)^n, n = 2, 3, 4
 *   exp(a + b) = exp a exp b, exp2, 2^x         no term mixed
 *   log(a b) = log a + log b, log(exp a) = a    a, b > 0
 *   sqrt, rsqrt, abs of a product               factors >= 0 for sqrt
 *   if p then a else b = [p] a + [not p] b      p pure
 *   exp(if p then a else -inf) = [p] exp a
 *   round(w x) = round(w) x                     w one exponential, to bf16
 *                                               or f16
 *
 * A pure sum is kept whole: only products are taken apart in pure
 * expressions, since exponentials have to be found among their factors. In a
 * mixed sum what does not vary along the axis becomes one atom, so that
 * differences of large numbers are taken before they are multiplied. */
#include <math.h>

#include "ir/dtype.h"
#include "passes/tensor/cascade_norm.h"

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static bool is_float(const tir_expr_t *e) {
  return tir_dtype_class(e->type) == TIR_CLASS_FLOAT;
}

/* ---- classes ------------------------------------------------------------- */

static uint8_t class_of(const cascade_norm_t *n, const tir_expr_t *e) {
  return (uint8_t)((uintptr_t)td_map_get_u64(&n->classes, key_of(e)) - 1);
}

static void note_class(void *user, tir_expr_t *e) {
  cascade_norm_t *n = user;
  uint8_t c = CASCADE_K;
  if (td_map_get_u64(&n->classes, key_of(e)) != NULL) return;
  for (uint32_t i = 0; i < e->arg_count; i++) c |= class_of(n, e->args[i]);
  if (e->op == TIR_X_INDEX || e->op == TIR_X_LOAD || e->op == TIR_X_DIM) {
    c |= n->classify(n->user, e);
  }
  td_map_put_u64(&n->classes, key_of(e), (void *)(uintptr_t)(c + 1));
}

uint8_t cascade_class(cascade_norm_t *n, tir_expr_t *e) {
  tir_walk(n->arena, e, note_class, n);
  return class_of(n, e);
}

/* ---- refusals ------------------------------------------------------------ */

/* The first one is the innermost: operands are visited before what reads
 * them. */
static const cascade_sum_t *refuse(cascade_norm_t *n, cascade_reason_t reason,
                                   const tir_expr_t *at) {
  if (n->reason == CASCADE_OK) {
    n->reason = reason;
    n->at = at;
  }
  return NULL;
}

const char *cascade_reason_text(cascade_reason_t reason) {
  switch (reason) {
    case CASCADE_OK: break;
    case CASCADE_FUNCTION: return "function";
    case CASCADE_PREDICATE: return "predicate";
    case CASCADE_EXPONENT: return "exponent";
    case CASCADE_ROUNDING: return "rounding";
    case CASCADE_AXIS: return "axis";
    case CASCADE_UPDATE: return "update";
    case CASCADE_TERMS: return "terms";
    case CASCADE_CLASS: return "class";
    case CASCADE_SIGN: return "sign-unknown";
  }
  return "ok";
}

/* ---- rules --------------------------------------------------------------- */

typedef struct visit {
  cascade_norm_t *n;
  bool is_relative;
  td_map_t *done;
} visit_t;

static const cascade_sum_t *sum_of(const visit_t *v, const tir_expr_t *e) {
  return td_map_get_u64(v->done, key_of(e));
}

/* A leaf under the gauges, if they are applied. */
static const cascade_sum_t *leaf_sum(const visit_t *v, tir_expr_t *e,
                                     uint8_t mentions, bool is_exponent) {
  cascade_norm_t *n = v->n;
  const cascade_atom_t *atom = cascade_leaf(n, e, mentions);
  for (size_t i = 0; v->is_relative && i < n->gauges.length; i++) {
    const cascade_gauge_t *g = n->gauges.data[i];
    if (g->leaf != atom->expr) continue;
    if (!g->is_everywhere && !is_exponent) continue;
    const cascade_sum_t *y = cascade_of_atom(n, g->relative, 1);
    const cascade_sum_t *p = cascade_of_atom(n, g->value, 1);
    return g->relation == CASCADE_MINUS ? cascade_add(n, y, 1, p)
                                        : cascade_mul(n, y, p);
  }
  return cascade_of_atom(n, atom, 1);
}

/* A mixed sum: what varies becomes one leaf unless it is one term or relative
 * to a gauge, what does not vary one atom. */
static const cascade_sum_t *collect(const visit_t *v,
                                    const cascade_sum_t *sum,
                                    tdsl_dtype_t type) {
  cascade_norm_t *n = v->n;
  if (sum == NULL) return NULL;
  const cascade_sum_t *along = cascade_of_terms(n, 0, NULL);
  const cascade_sum_t *rest = along, *mixed = along;
  bool has_gauge = false;
  for (uint32_t i = 0; i < sum->count; i++) {
    const cascade_term_t *t = &sum->terms[i];
    const cascade_sum_t *one = cascade_of_terms(n, 1, t);
    uint8_t c = cascade_term_class(t);
    if (c == CASCADE_MIXED) mixed = cascade_add(n, mixed, 1, one);
    else if (c == CASCADE_U) along = cascade_add(n, along, 1, one);
    else rest = cascade_add(n, rest, 1, one);
    for (uint32_t k = 0; k < t->count; k++) {
      has_gauge |= t->factors[k].atom->gauge != NULL ||
                   cascade_is_exponential(t->factors[k].atom);
    }
  }
  if (along->count > 1 && !has_gauge && mixed->count == 0) {
    along = leaf_sum(v, cascade_to_expr(n, along, type), CASCADE_U, false);
  }
  return cascade_add(n, cascade_add(n, mixed, 1, along), 1,
                     cascade_whole(n, rest));
}

static bool is_infinite(const tir_expr_t *e) {
  return e->op == TIR_X_CONST && is_float(e) && isinf(e->u.f64);
}

/* exp of a sum. What varies is one leaf, so that the exponent of a weight has
 * one gauge. */
static const cascade_sum_t *rule_exp(const visit_t *v, tir_expr_t *e,
                                     const tir_expr_t *arg, double base_log) {
  cascade_norm_t *n = v->n;
  const cascade_sum_t *sum = td_map_get_u64(&n->plain, key_of(arg));
  if (sum == NULL) return refuse(n, CASCADE_FUNCTION, e);
  const cascade_sum_t *along = cascade_of_terms(n, 0, NULL);
  const cascade_sum_t *rest = along;
  for (uint32_t i = 0; i < sum->count; i++) {
    const cascade_sum_t *one = cascade_of_terms(n, 1, &sum->terms[i]);
    uint8_t c = cascade_term_class(&sum->terms[i]);
    if (c == CASCADE_MIXED) return refuse(n, CASCADE_EXPONENT, e);
    if (c == CASCADE_U) along = cascade_add(n, along, 1, one);
    else rest = cascade_add(n, rest, 1, one);
  }
  double factor = base_log;
  if (along->count > 0) {
    cascade_term_t t = along->terms[0];
    if (along->count == 1) { /* K factors stay: the leaf is their product */
      factor *= t.coefficient;
      t.coefficient = 1;
      along = cascade_of_terms(n, 1, &t);
    }
    bool is_atom = along->count == 1 && t.count == 1 &&
                   t.factors[0].power == 1 &&
                   t.factors[0].atom->kind == CASCADE_LEAF;
    tir_expr_t *leaf = is_atom ? t.factors[0].atom->expr
                               : cascade_to_expr(n, along, e->type);
    along = leaf_sum(v, leaf, CASCADE_U, true);
  }
  const cascade_sum_t *none = cascade_of_terms(n, 0, NULL);
  const cascade_sum_t *y = none;
  rest = cascade_add(n, none, base_log, rest);
  for (uint32_t i = 0; i < along->count; i++) {
    const cascade_sum_t *one = cascade_of_terms(n, 1, &along->terms[i]);
    if (cascade_term_class(&along->terms[i]) == CASCADE_U) {
      y = cascade_add(n, y, factor, one);
    } else {
      rest = cascade_add(n, rest, factor, one);
    }
  }
  y = cascade_exp(n, y);
  return cascade_mul(n, y, cascade_exp(n, rest));
}

/* log of one term whose factors are positive. */
static const cascade_sum_t *rule_log(const visit_t *v, tir_expr_t *e,
                                     const cascade_sum_t *a, double scale) {
  cascade_norm_t *n = v->n;
  if (a == NULL || a->count != 1 || a->terms[0].coefficient <= 0) {
    return refuse(n, CASCADE_FUNCTION, e);
  }
  const cascade_term_t *t = &a->terms[0];
  const cascade_sum_t *s = cascade_number(n, log(t->coefficient));
  for (uint32_t i = 0; i < t->count; i++) {
    const cascade_atom_t *f = t->factors[i].atom;
    double p = t->factors[i].power;
    const cascade_sum_t *one;
    if (f->kind == CASCADE_EXP) {
      one = f->sum;
    } else if (f->kind == CASCADE_LEAF && f->is_positive) {
      tir_expr_t *arg = f->expr;
      one = leaf_sum(v, tir_op(n->arena, TIR_X_LOG, arg->type, 1, &arg),
                     f->mentions, false);
    } else {
      return refuse(n, CASCADE_FUNCTION, e);
    }
    s = cascade_add(n, s, p, one);
  }
  return collect(v, cascade_add(n, cascade_of_terms(n, 0, NULL), scale, s),
                 e->type);
}

/* [p] of a condition: of one class, or made of such by and, or, not. */
static const cascade_sum_t *rule_test(const visit_t *v, tir_expr_t *e) {
  cascade_norm_t *n = v->n;
  uint8_t c = class_of(n, e);
  if (c != CASCADE_MIXED) return cascade_of_atom(n, cascade_test(n, e, c), 1);
  if (e->op == TIR_X_NOT) {
    return cascade_add(n, cascade_number(n, 1), -1, sum_of(v, e->args[0]));
  }
  if (e->op == TIR_X_AND || e->op == TIR_X_OR) {
    const cascade_sum_t *a = sum_of(v, e->args[0]), *b = sum_of(v, e->args[1]);
    const cascade_sum_t *both = cascade_mul(n, a, b);
    if (e->op == TIR_X_AND) return both;
    return cascade_add(n, cascade_add(n, a, 1, b), -1, both);
  }
  return refuse(n, CASCADE_PREDICATE, e);
}

static const cascade_sum_t *rule_select(const visit_t *v, tir_expr_t *e) {
  cascade_norm_t *n = v->n;
  const cascade_sum_t *p = sum_of(v, e->args[0]);
  const cascade_sum_t *no;
  if (p == NULL) return refuse(n, CASCADE_PREDICATE, e->args[0]);
  if (class_of(n, e->args[0]) == CASCADE_MIXED) {
    no = cascade_add(n, cascade_number(n, 1), -1, p);
  } else {
    no = cascade_of_atom(n, p->terms[0].factors[0].atom->complement, 1);
  }
  return cascade_add(n, cascade_mul(n, p, sum_of(v, e->args[1])), 1,
                     cascade_mul(n, no, sum_of(v, e->args[2])));
}

/* The chosen arm of `if p then a else -inf`, NULL if e is not one. */
static const tir_expr_t *masked_arm(const tir_expr_t *e, bool *is_first) {
  if (e->op != TIR_X_SELECT) return NULL;
  for (int i = 1; i < 3; i++) {
    const tir_expr_t *hole = e->args[3 - i];
    if (is_infinite(hole) && hole->u.f64 < 0) {
      *is_first = i == 1;
      return e->args[i];
    }
  }
  return NULL;
}

static const cascade_sum_t *rule_masked_exp(const visit_t *v, tir_expr_t *e,
                                            double base_log) {
  cascade_norm_t *n = v->n;
  bool is_first;
  const tir_expr_t *arm = masked_arm(e->args[0], &is_first);
  bool is_mixed = class_of(n, e->args[0]) == CASCADE_MIXED;
  if (arm == NULL || !is_mixed) {
    return rule_exp(v, e, e->args[0], base_log);
  }
  tir_expr_t *cond = e->args[0]->args[0];
  if (class_of(n, cond) == CASCADE_MIXED) {
    return refuse(n, CASCADE_PREDICATE, cond);
  }
  const cascade_atom_t *p = cascade_test(n, cond, class_of(n, cond));
  return cascade_mul(n, cascade_of_atom(n, is_first ? p : p->complement, 1),
                     rule_exp(v, e, arm, base_log));
}

static const cascade_sum_t *rule_div(const visit_t *v, tir_expr_t *e) {
  cascade_norm_t *n = v->n;
  const cascade_sum_t *b = sum_of(v, e->args[1]);
  if (b == NULL || b->count != 1) {
    return refuse(n, CASCADE_FUNCTION, e);
  }
  return cascade_mul(n, sum_of(v, e->args[0]), cascade_power(n, b, -1));
}

/* A weight that the text rounds, as to what a matrix unit takes: its part
 * along the axis is rounded, seen from the gauge. */
static const cascade_sum_t *rule_round(const visit_t *v, tir_expr_t *e,
                                       tdsl_dtype_t narrow) {
  const cascade_sum_t *a = sum_of(v, e->args[0]);
  const cascade_sum_t *s = a == NULL || a->count != 1
                               ? NULL
                               : cascade_round(v->n, &a->terms[0], narrow);
  return s != NULL ? s : refuse(v->n, CASCADE_ROUNDING, e);
}

static const cascade_sum_t *rule_cast(const visit_t *v, tir_expr_t *e) {
  tdsl_dtype_t to = e->u.to;
  bool is_wide = to == TDSL_DTYPE_F32 || to == TDSL_DTYPE_F64;
  bool from_float = is_float(e->args[0]);
  if (from_float && is_wide &&
      !(to == TDSL_DTYPE_F32 && e->args[0]->type == TDSL_DTYPE_F64)) {
    return sum_of(v, e->args[0]);
  }
  bool is_f8 = to == TDSL_DTYPE_F8E4M3 || to == TDSL_DTYPE_F8E5M2;
  if (to == TDSL_DTYPE_BF16 || to == TDSL_DTYPE_F16) {
    return rule_round(v, e, to);
  }
  return refuse(v->n, is_f8 ? CASCADE_CLASS : CASCADE_ROUNDING, e);
}

/* A mixed expression of operands in normal form. */
static const cascade_sum_t *rule_mixed(const visit_t *v, tir_expr_t *e) {
  cascade_norm_t *n = v->n;
  const cascade_sum_t *a = e->arg_count > 0 ? sum_of(v, e->args[0]) : NULL;
  const cascade_sum_t *b = e->arg_count > 1 ? sum_of(v, e->args[1]) : NULL;
  const cascade_sum_t *none = cascade_of_terms(n, 0, NULL);
  switch (e->op) {
    case TIR_X_NEG: return cascade_add(n, none, -1, a);
    case TIR_X_ADD: return collect(v, cascade_add(n, a, 1, b), e->type);
    case TIR_X_SUB: return collect(v, cascade_add(n, a, -1, b), e->type);
    case TIR_X_MUL: return cascade_mul(n, a, b);
    case TIR_X_DIV: return rule_div(v, e);
    case TIR_X_POW:
      if (e->args[1]->op == TIR_X_CONST && a != NULL) {
        bool is_int = !is_float(e->args[1]);
        return cascade_power(n, a, is_int ? (double)e->args[1]->u.i64
                                          : e->args[1]->u.f64);
      }
      return NULL;
    case TIR_X_EXP: return rule_masked_exp(v, e, 1);
    case TIR_X_EXP2: return rule_masked_exp(v, e, log(2));
    case TIR_X_LOG: return rule_log(v, e, a, 1);
    case TIR_X_LOG2: return rule_log(v, e, a, 1 / log(2));
    case TIR_X_SQRT: return cascade_power(n, a, 0.5);
    case TIR_X_RSQRT: return cascade_power(n, a, -0.5);
    case TIR_X_SELECT: return rule_select(v, e);
    case TIR_X_CAST: return rule_cast(v, e);
    case TIR_X_FLOOR: case TIR_X_CEIL: case TIR_X_ROUND:
      return refuse(n, CASCADE_ROUNDING, e);
    case TIR_X_ROUND_TF32: return refuse(n, CASCADE_ROUNDING, e);
    case TIR_X_CONST: case TIR_X_INDEX: case TIR_X_DIM: case TIR_X_LOAD:
    case TIR_X_NOT: case TIR_X_ABS: case TIR_X_SIN: case TIR_X_COS:
    case TIR_X_TANH: case TIR_X_ERF: case TIR_X_MOD: case TIR_X_MIN:
    case TIR_X_MAX: case TIR_X_EQ: case TIR_X_NE: case TIR_X_LT:
    case TIR_X_LE: case TIR_X_GT: case TIR_X_GE: case TIR_X_AND:
    case TIR_X_OR: case TIR_X_UNIFORM: case TIR_X_COUNT:
      break;
  }
  return NULL;
}

/* Products, quotients and exponentials are taken apart even if pure. */
static const cascade_sum_t *rule_pure(const visit_t *v, tir_expr_t *e) {
  cascade_norm_t *n = v->n;
  const cascade_sum_t *s = NULL;
  if (e->op == TIR_X_CONST && isfinite(e->u.f64)) {
    return cascade_number(n, e->u.f64);
  }
  if (e->op == TIR_X_NEG || e->op == TIR_X_MUL || e->op == TIR_X_DIV ||
      e->op == TIR_X_EXP || e->op == TIR_X_EXP2) {
    cascade_reason_t before = n->reason;
    s = rule_mixed(v, e);
    n->reason = before; /* it can be kept whole instead */
  }
  return s != NULL ? s : leaf_sum(v, e, class_of(n, e), false);
}

static void visit(void *user, tir_expr_t *e) {
  const visit_t *v = user;
  cascade_norm_t *n = v->n;
  if (td_map_get_u64(v->done, key_of(e)) != NULL) return;
  bool is_mixed = class_of(n, e) == CASCADE_MIXED;
  const cascade_sum_t *s = NULL;
  if (e->type == TDSL_DTYPE_BOOL) {
    s = rule_test(v, e);
  } else if (is_float(e)) {
    s = is_mixed ? rule_mixed(v, e) : rule_pure(v, e);
    bool is_hole = is_mixed && e->op == TIR_X_SELECT &&
                   masked_arm(e, &(bool){false}) != NULL;
    if (is_hole) s = NULL; /* exp above it may take it apart */
    if (s == NULL && !is_hole) refuse(n, CASCADE_FUNCTION, e);
  } else if (is_mixed) {
    refuse(n, e->op == TIR_X_CAST ? CASCADE_ROUNDING : CASCADE_AXIS, e);
  }
  if (s != NULL) {
    td_map_put_u64(v->done, key_of(e), (void *)(uintptr_t)key_of(s));
  }
}

/* Exponents are always read without gauges, so that their leaf is found. */
const cascade_sum_t *cascade_normalize(cascade_norm_t *n, tir_expr_t *e,
                                       bool is_relative) {
  n->reason = CASCADE_OK;
  n->at = NULL;
  cascade_class(n, e);
  visit_t v = {n, false, &n->plain};
  tir_walk(n->arena, e, visit, &v);
  if (is_relative && n->reason == CASCADE_OK) {
    td_map_init(&n->relative, n->arena);
    v = (visit_t){n, true, &n->relative};
    tir_walk(n->arena, e, visit, &v);
  }
  const cascade_sum_t *s = sum_of(&v, e);
  if (s == NULL) refuse(n, CASCADE_FUNCTION, e);
  return n->reason == CASCADE_OK ? s : NULL;
}
