/* cascade_constant.c: exponents that need no maximum.
 *
 * 1. Range facts. If a leaf lies between bounds such that no weight leaves f32
 *    however many are added, the gauge is the constant 0: nothing moves.
 *    Bounds come from constants, tanh, sin and cos, and from products of rows
 *    of norm <= 1 (x * rsqrt(sum x^2 + eps)).
 * 2. A maximum that served only as gauge is then replaced: by 0, and by -inf
 *    where nothing was live, which is where the sum of weights is 0. That
 *    changes no result if what leaves the region is the same whatever number
 *    the maximum is. That is shown by the normal form of each result, read
 *    for a live row with the maximum as the only thing that varies: none of
 *    its terms mentions it.
 * 3. Under any gauge, a maximum that is none and cancels in every result,
 *    without a live row being assumed, is no state: results are taken from
 *    their normal forms. */
#include <math.h>

#include "passes/tensor/cascade.h"

#include "passes/tensor/tensor.h"

enum { DEPTH_LIMIT = 16 };

static const double MOST = 61.0;   /* exp(61) * 2^31 terms < 2^120 */
static const double LEAST = -83.0; /* exp(-83) > 2^-120 */

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- range facts --------------------------------------------------------- */

typedef struct range {
  double lo, hi;
} range_t;

static bool range_of(const tir_expr_t *e, range_t *out, int depth);

static bool is_square(const tir_expr_t *e, const tir_value_t *x) {
  return e->op == TIR_X_MUL && e->args[0]->op == TIR_X_LOAD &&
         e->args[1]->op == TIR_X_LOAD && e->args[0]->u.value == x &&
         e->args[1]->u.value == x;
}

/* rsqrt(sum of x^2 along the last subscript, plus what is not negative). */
static bool is_inverse_norm(const tir_expr_t *e, const tir_value_t *x) {
  if (e->op != TIR_X_RSQRT) return false;
  const tir_expr_t *sum = e->args[0];
  if (sum->op == TIR_X_ADD && sum->args[1]->op == TIR_X_CONST &&
      sum->args[1]->u.f64 >= 0) {
    sum = sum->args[0];
  }
  const tir_node_t *def = sum->op == TIR_X_LOAD ? sum->u.value->def : NULL;
  if (def == NULL || def->kind != TIR_MAP || def->reduce != TIR_REDUCE_SUM ||
      def->guard != NULL || !is_square(def->body, x)) {
    return false;
  }
  const tir_expr_t *load = def->body->args[0];
  uint32_t last = load->arg_count;
  if (last == 0 || def->index_count != last) return false;
  for (uint32_t i = 0; i < last; i++) {
    if (load->args[i]->op != TIR_X_INDEX ||
        load->args[i]->u.index != def->indices[i] ||
        def->body->args[1]->args[i]->op != TIR_X_INDEX ||
        def->body->args[1]->args[i]->u.index != def->indices[i]) {
      return false;
    }
  }
  return def->indices[last - 1]->is_reduction &&
         def->indices[last - 1]->extent == x->dims[last - 1] &&
         sum->arg_count == last - 1;
}

/* A row of `load` has norm <= 1: its map is x times the inverse norm, at the
 * map's own indices. */
static bool is_unit_row(const tir_expr_t *load) {
  const tir_node_t *n = load->op == TIR_X_LOAD ? load->u.value->def : NULL;
  if (n == NULL || n->kind != TIR_MAP || n->reduce != TIR_REDUCE_NONE ||
      n->body->op != TIR_X_MUL || n->body->args[0]->op != TIR_X_LOAD) {
    return false;
  }
  const tir_expr_t *x = n->body->args[0];
  for (uint32_t i = 0; i < x->arg_count; i++) {
    if (x->args[i]->op != TIR_X_INDEX || x->args[i]->u.index != n->indices[i]) {
      return false;
    }
  }
  const tir_expr_t *r = n->body->args[1];
  if (!is_inverse_norm(r, x->u.value)) return false;
  const tir_expr_t *sum = r->args[0]->op == TIR_X_ADD ? r->args[0]->args[0]
                                                      : r->args[0];
  for (uint32_t i = 0; i < sum->arg_count; i++) {
    if (sum->args[i]->op != TIR_X_INDEX ||
        sum->args[i]->u.index != n->indices[i]) {
      return false;
    }
  }
  return true;
}

/* Sum over the last subscripts of both factors. */
static bool is_unit_product(const tir_node_t *n) {
  if (n->reduce != TIR_REDUCE_SUM || n->body->op != TIR_X_MUL) return false;
  const tir_index_t *along = n->indices[n->index_count - 1];
  if (n->index_count != tensor_parallel(n) + 1) return false;
  for (int i = 0; i < 2; i++) {
    const tir_expr_t *f = n->body->args[i];
    if (f->op != TIR_X_LOAD || f->arg_count == 0) return false;
    const tir_expr_t *last = f->args[f->arg_count - 1];
    if (last->op != TIR_X_INDEX || last->u.index != along ||
        !is_unit_row(f)) {
      return false;
    }
  }
  return true;
}

static bool range_of_load(const tir_expr_t *e, range_t *out, int depth) {
  const tir_node_t *n = e->u.value->def;
  if (n == NULL || n->kind != TIR_MAP || n->guard != NULL) return false;
  if (n->reduce == TIR_REDUCE_NONE) return range_of(n->body, out, depth + 1);
  if (!is_unit_product(n)) return false;
  *out = (range_t){-1.001, 1.001}; /* as it is rounded */
  return true;
}

static bool is_hole(const tir_expr_t *e) {
  return e->op == TIR_X_CONST && isinf(e->u.f64) && e->u.f64 < 0;
}

static bool range_of(const tir_expr_t *e, range_t *out, int depth) {
  range_t a, b;
  bool is_float = e->type == TDSL_DTYPE_F32 || e->type == TDSL_DTYPE_F64;
  if (!is_float || depth == DEPTH_LIMIT) return false;
  switch (e->op) {
    case TIR_X_CONST:
      *out = (range_t){e->u.f64, e->u.f64};
      return isfinite(e->u.f64);
    case TIR_X_LOAD:
      return range_of_load(e, out, depth);
    case TIR_X_TANH: case TIR_X_SIN: case TIR_X_COS: case TIR_X_ERF:
      *out = (range_t){-1, 1};
      return true;
    case TIR_X_NEG:
      if (!range_of(e->args[0], &a, depth + 1)) return false;
      *out = (range_t){-a.hi, -a.lo};
      return true;
    case TIR_X_SELECT: /* a masked score is no element */
      if (is_hole(e->args[2])) return range_of(e->args[1], out, depth + 1);
      if (is_hole(e->args[1])) return range_of(e->args[2], out, depth + 1);
      if (!range_of(e->args[1], &a, depth + 1) ||
          !range_of(e->args[2], &b, depth + 1)) {
        return false;
      }
      *out = (range_t){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
      return true;
    case TIR_X_ADD: case TIR_X_SUB:
      if (!range_of(e->args[0], &a, depth + 1) ||
          !range_of(e->args[1], &b, depth + 1)) {
        return false;
      }
      *out = e->op == TIR_X_ADD ? (range_t){a.lo + b.lo, a.hi + b.hi}
                                : (range_t){a.lo - b.hi, a.hi - b.lo};
      return true;
    case TIR_X_MUL: case TIR_X_DIV: {
      if (!range_of(e->args[0], &a, depth + 1) ||
          !range_of(e->args[1], &b, depth + 1)) {
        return false;
      }
      if (e->op == TIR_X_DIV) {
        if (b.lo <= 0 && b.hi >= 0) return false;
        b = (range_t){1 / b.hi, 1 / b.lo};
      }
      double c[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
      *out = (range_t){fmin(fmin(c[0], c[1]), fmin(c[2], c[3])),
                       fmax(fmax(c[0], c[1]), fmax(c[2], c[3]))};
      return true;
    }
    default:
      return false;
  }
}

bool cascade_is_bounded(const tir_expr_t *leaf, double power) {
  range_t r;
  return range_of(leaf, &r, 0) && power > 0 && r.hi * power < MOST &&
         r.lo * power > LEAST;
}

/* ---- maxima that served only as gauges ----------------------------------- */

typedef struct live {
  cascade_region_t *r;
  const cascade_component_t *max;
  int depth;
  bool is_assumed; /* that the row is live: a test for that was decided */
} live_t;

static bool is_test_of(const tir_expr_t *e, double v) {
  for (int i = 0; i < 2; i++) {
    const tir_expr_t *c = e->args[i];
    if (c->op == TIR_X_CONST && c->type != TDSL_DTYPE_I64 && c->u.f64 == v) {
      return true;
    }
  }
  return false;
}

/* What a result is for a live row, over the components. */
static tir_expr_t *as_live(void *user, tir_expr_t *e) {
  live_t *s = user;
  cascade_region_t *r = s->r;
  td_arena_t *arena = r->module->arena;
  if (e->op == TIR_X_EQ && (is_test_of(e, -(double)INFINITY) ||
                            is_test_of(e, 0))) {
    s->is_assumed = true;
    return tir_const_i(arena, TDSL_DTYPE_BOOL, 0);
  }
  if (e->op == TIR_X_NOT && e->args[0]->op == TIR_X_CONST) {
    return tir_const_i(arena, TDSL_DTYPE_BOOL, e->args[0]->u.i64 == 0);
  }
  if (e->op == TIR_X_SELECT && e->args[0]->op == TIR_X_CONST) {
    return e->args[e->args[0]->u.i64 != 0 ? 1 : 2];
  }
  if (e->op != TIR_X_LOAD || e->u.value->def == NULL) return e;
  const tir_node_t *def = e->u.value->def;
  tir_expr_t *body = NULL;
  uint32_t count = def->index_count;
  tir_index_t *const *from = def->indices;
  for (uint32_t i = 0; i < r->member_count; i++) {
    const cascade_member_t *m = &r->members[i];
    if (m->node != def || m->result == NULL) continue;
    body = cascade_to_expr(&r->norm, m->result, def->body->type);
    from = m->indices;
    count = m->parallel;
  }
  bool is_map = def->kind == TIR_MAP && def->reduce == TIR_REDUCE_NONE &&
                td_map_get_u64(&r->dependents, key_of(def)) != NULL;
  if (body == NULL && is_map) body = def->body;
  if (body == NULL || s->depth == DEPTH_LIMIT || e->arg_count != count) {
    return e;
  }
  s->depth++;
  body = tir_replace_indices(arena, body, count, from, e->args);
  body = tir_rewrite(arena, body, as_live, s);
  s->depth--;
  return body;
}

/* The maximum varies, nothing else does. */
static uint8_t only_maximum(void *user, const tir_expr_t *e) {
  const live_t *s = user;
  if (e->op != TIR_X_LOAD) return CASCADE_K;
  if (e->u.value == s->max->value) return CASCADE_U;
  for (uint32_t i = 0; i < s->r->component_count; i++) {
    if (s->r->components[i]->value == e->u.value) return CASCADE_X;
  }
  return CASCADE_K;
}

static bool is_weight_sum(const cascade_component_t *c,
                          const tir_expr_t *leaf) {
  if (c->reduce != TIR_REDUCE_SUM || c->sum == NULL || c->sum->count != 1 ||
      c->extra_count > 0 || c->sum->terms[0].coefficient != 1) {
    return false;
  }
  uint32_t exps = 0;
  for (uint32_t i = 0; i < c->sum->terms[0].count; i++) {
    const cascade_factor_t *f = &c->sum->terms[0].factors[i];
    if (f->atom->kind == CASCADE_TEST) continue;
    if (f->atom->kind != CASCADE_EXP || f->power != 1) return false;
    const cascade_sum_t *s = f->atom->sum;
    if (s->count != 1 || s->terms[0].count != 1 ||
        s->terms[0].factors[0].atom->expr != leaf) {
      return false;
    }
    exps++;
  }
  return exps == 1;
}

typedef struct weights {
  cascade_norm_t *norm;
  const tir_value_t *sum;
} weights_t;

/* A sum of weights is positive in a live row. */
static void note_weights(void *user, tir_expr_t *e) {
  weights_t *w = user;
  if (e->op != TIR_X_LOAD || e->u.value != w->sum) return;
  const cascade_atom_t *a = cascade_leaf(w->norm, e, CASCADE_X);
  ((cascade_atom_t *)(uintptr_t)key_of(a))->is_positive = true;
}

static bool is_same_whatever(cascade_region_t *r, const cascade_component_t *c,
                             const cascade_component_t *sum,
                             tir_expr_t *body) {
  live_t s = {r, c, 0, false};
  cascade_norm_t norm;
  cascade_norm_init(&norm, r->state->task, r->scratch, only_maximum, &s);
  tir_expr_t *whole = tir_rewrite(r->scratch, body, as_live, &s);
  whole = tir_intern(&norm.interner, whole);
  weights_t w = {&norm, sum->value};
  tir_walk(r->scratch, whole, note_weights, &w);
  if ((cascade_class(&norm, whole) & CASCADE_U) == 0) return true;
  const cascade_sum_t *form = cascade_normalize(&norm, whole, false);
  if (form == NULL) return false;
  for (uint32_t i = 0; i < form->count; i++) {
    if ((cascade_term_class(&form->terms[i]) & CASCADE_U) != 0) return false;
  }
  return true;
}

typedef struct outside {
  const cascade_region_t *r;
  const tir_node_t *node;
  const tir_value_t *value;
  bool found;
} outside_t;

static void note_outside(void *user, tir_expr_t *e) {
  outside_t *s = user;
  s->found |= e->op == TIR_X_LOAD && e->u.value == s->value;
}

/* Whether a value is a result, or read by what is no map that depends. */
static bool leaves(cascade_region_t *r, const tir_value_t *v) {
  outside_t s = {.r = r, .value = v};
  for (uint32_t i = 0; i < r->func->slot_count; i++) {
    if (r->func->slots[i].result == v) return true;
  }
  for (size_t i = 0; i < r->block->length; i++) {
    tir_node_t *n = r->block->data[i];
    bool is_inner = n->kind == TIR_MAP && n->reduce == TIR_REDUCE_NONE;
    for (uint32_t k = 0; k < r->member_count; k++) {
      is_inner |= r->members[k].node == n;
    }
    if (n->kind == TIR_LOOP) return true;
    for (uint32_t k = 0; k < n->operand_count; k++) {
      if (n->operands[k] == v) return true;
    }
    if (is_inner) continue;
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(r->scratch, *tir_node_expr(n, k), note_outside, &s);
    }
  }
  return s.found;
}

/* ---- maxima that may be another number ----------------------------------- */

enum { MOST_POWER = 2 }; /* of 2^8 a weight, which sums of f32 have room for */

/* exp(-power g) is what a sum has of the gauge; false: it is no such. */
static bool power_of(const cascade_component_t *c, const cascade_gauge_t *g,
                     double *power) {
  *power = 0;
  for (uint32_t i = 0; c->sum != NULL && i < c->sum->count; i++) {
    const cascade_term_t *t = &c->sum->terms[i];
    double own = 0;
    for (uint32_t k = 0; k < t->count; k++) {
      const cascade_atom_t *a = t->factors[k].atom;
      if (a->gauge == g) return false;
      if (!cascade_is_exponential(a) || !(a->mentions & CASCADE_U)) continue;
      const cascade_term_t *one = &a->sum->terms[0];
      if (one->count == 1 && one->factors[0].atom->gauge == g) {
        if (a->sum->count != 1 || one->factors[0].power != 1) return false;
        own += t->factors[k].power;
      }
    }
    if (i > 0 && own != *power) return false;
    *power = own;
  }
  return *power >= 0 && *power <= MOST_POWER;
}

/* Each exponential is positive, and so is their sum in a live row. */
static bool is_positive_sum(const cascade_component_t *c) {
  bool has_weight = false;
  if (c->reduce != TIR_REDUCE_SUM || c->sum == NULL) return false;
  for (uint32_t i = 0; i < c->sum->count; i++) {
    const cascade_term_t *t = &c->sum->terms[i];
    if (t->coefficient <= 0) return false;
    for (uint32_t k = 0; k < t->count; k++) {
      bool is_test = t->factors[k].atom->kind == CASCADE_TEST;
      if (!is_test && !cascade_is_exponential(t->factors[k].atom)) {
        return false;
      }
      has_weight |= !is_test;
    }
  }
  return has_weight;
}

typedef struct scaled {
  live_t live;
  const cascade_gauge_t *gauge;
  cascade_norm_t norm;
  bool is_ok;
} scaled_t;

/* A state as what it is under no gauge, times exp(-power g). */
static tir_expr_t *as_scaled(void *user, tir_expr_t *e) {
  scaled_t *s = user;
  const cascade_region_t *r = s->live.r;
  td_arena_t *arena = r->module->arena;
  for (uint32_t i = 0; e->op == TIR_X_LOAD && i < r->component_count; i++) {
    const cascade_component_t *c = r->components[i];
    double power;
    if (c->value != e->u.value || c == s->live.max) continue;
    s->is_ok &= power_of(c, s->gauge, &power);
    if (is_positive_sum(c)) {
      const cascade_atom_t *a = cascade_leaf(&s->norm, e, CASCADE_X);
      ((cascade_atom_t *)(uintptr_t)key_of(a))->is_positive = true;
    }
    if (!s->is_ok || power == 0) return e;
    /* at the same row, whose subscripts come first */
    tir_expr_t *args[2] = {
        tir_const_f(arena, e->type, -power),
        tir_load(arena, s->live.max->value, r->row_count, e->args)};
    args[0] = tir_op(arena, TIR_X_MUL, e->type, 2, args);
    args[0] = tir_op(arena, TIR_X_EXP, e->type, 1, args);
    args[1] = e;
    return tir_op(arena, TIR_X_MUL, e->type, 2, args);
  }
  return e;
}

static bool is_free(cascade_region_t *r, const cascade_component_t *c,
                    const cascade_gauge_t *g, tir_expr_t *body) {
  scaled_t s = {.live = {r, c, 0, false}, .gauge = g, .is_ok = true};
  cascade_norm_init(&s.norm, r->state->task, r->scratch, only_maximum,
                    &s.live);
  tir_expr_t *whole = tir_rewrite(r->scratch, body, as_live, &s.live);
  whole = tir_rewrite(r->scratch, whole, as_scaled, &s);
  whole = tir_intern(&s.norm.interner, whole);
  if (!s.is_ok) return false;
  if ((cascade_class(&s.norm, whole) & CASCADE_U) == 0) return true;
  const cascade_sum_t *form = cascade_normalize(&s.norm, whole, false);
  for (uint32_t i = 0; form != NULL && i < form->count; i++) {
    if ((cascade_term_class(&form->terms[i]) & CASCADE_U) != 0) return false;
  }
  return form != NULL;
}

/* What a node behind the sweep gives to those outside, in terms of the sweep's
 * components; NULL: nothing. `copied`: it is a component as it is. */
static tir_expr_t *leaving(cascade_region_t *r, const tir_node_t *n,
                           bool *copied) {
  *copied = false;
  if (td_map_get_u64(&r->dependents, key_of(n)) == NULL) return NULL;
  if (n->kind != TIR_MAP || n->out_count != 1) return NULL;
  if (!leaves(r, n->outs[0])) return NULL;
  tir_expr_t *body = n->reduce == TIR_REDUCE_NONE ? n->body : NULL;
  for (uint32_t k = 0; k < r->member_count; k++) {
    const cascade_member_t *m = &r->members[k];
    if (m->node != n) continue;
    *copied |= m->copied != NULL;
    if (m->result == NULL) continue;
    body = cascade_to_expr(&r->norm, m->result, n->body->type);
  }
  return body;
}

bool cascade_is_only_gauge(cascade_region_t *r, const cascade_component_t *c) {
  const cascade_gauge_t *g = NULL;
  if (c->reduce != TIR_REDUCE_MAX || !c->is_gauge || c->extra_count > 0 ||
      r->kind == CASCADE_SCALE || leaves(r, c->value)) {
    return false;
  }
  for (uint32_t i = 0; i < r->component_count; i++) {
    tir_reduce_t reduce = r->components[i]->reduce; /* goes with a maximum */
    if (reduce == TIR_REDUCE_ARGMAX || reduce == TIR_REDUCE_ARGMIN) {
      return false;
    }
  }
  for (size_t i = 0; i < r->norm.gauges.length; i++) {
    const tir_expr_t *present = r->norm.gauges.data[i]->present;
    if (present->op == TIR_X_LOAD && present->u.value == c->value) {
      g = r->norm.gauges.data[i];
    }
  }
  if (g == NULL || g->relation != CASCADE_MINUS) return false;
  for (size_t i = 0; i < r->block->length; i++) {
    bool is_copied;
    tir_expr_t *body = leaving(r, r->block->data[i], &is_copied);
    if (is_copied || (body != NULL && !is_free(r, c, g, body))) return false;
  }
  return true;
}

static void drop_maximum(cascade_region_t *r, cascade_component_t *c) {
  const cascade_component_t *sum = NULL;
  tir_expr_t *leaf = tir_intern(&r->norm.interner, c->body);
  for (int k = 0; k < 2 && sum == NULL; k++) {
    for (uint32_t i = 0; i < r->component_count; i++) {
      if (is_weight_sum(r->components[i], leaf)) sum = r->components[i];
    }
    if (leaf->op == TIR_X_SELECT) leaf = leaf->args[1];
  }
  bool is_own = false; /* the maximum is a member's own value */
  for (uint32_t i = 0; i < r->member_count; i++) {
    is_own |= r->members[i].node->outs[0] == c->value;
  }
  if (sum == NULL || sum->type != c->type || !is_own ||
      leaves(r, c->value) || !cascade_is_bounded(leaf, 1)) {
    return;
  }
  for (size_t i = 0; i < r->block->length; i++) {
    bool is_copied; /* a maximum that leaves was refused above */
    tir_expr_t *body = leaving(r, r->block->data[i], &is_copied);
    if (body != NULL && !is_same_whatever(r, c, sum, body)) return;
  }
  c->stands_for = sum;
}

/* A body without the maximum, over components; NULL: it depends on it. */
static tir_expr_t *without(cascade_region_t *r, const cascade_component_t *c,
                           tir_expr_t *body) {
  live_t s = {r, c, 0, false};
  cascade_norm_t norm;
  td_arena_t *arena = r->module->arena;
  cascade_norm_init(&norm, r->state->task, arena, only_maximum, &s);
  tir_expr_t *whole = tir_rewrite(arena, body, as_live, &s);
  whole = tir_intern(&norm.interner, whole);
  if ((cascade_class(&norm, whole) & CASCADE_U) == 0) return body;
  if (s.is_assumed) return NULL;
  const cascade_sum_t *form = cascade_normalize(&norm, whole, false);
  if (form == NULL) return NULL;
  for (uint32_t i = 0; i < form->count; i++) {
    if ((cascade_term_class(&form->terms[i]) & CASCADE_U) != 0) return NULL;
  }
  return cascade_to_expr(&norm, form, body->type);
}

/* A maximum that cancels in all results goes, and they no longer read it. */
static bool cancel_maximum(cascade_region_t *r, const cascade_component_t *c) {
  cascade_member_t *own = NULL;
  uint32_t count = 0;
  cascade_rewrite_t made[CASCADE_MAX_MEMBERS];
  for (uint32_t i = 0; i < r->member_count; i++) {
    if (r->members[i].node->outs[0] == c->value) own = &r->members[i];
  }
  if (own == NULL || own->result != NULL || leaves(r, c->value)) return false;
  for (size_t i = 0; i < r->block->length; i++) {
    tir_node_t *n = r->block->data[i];
    if (td_map_get_u64(&r->dependents, key_of(n)) == NULL) continue;
    if (n->kind != TIR_MAP || n->out_count != 1) continue;
    if (!leaves(r, n->outs[0])) continue;
    cascade_rewrite_t w = {n, NULL, n->body};
    for (uint32_t k = 0; k < r->member_count; k++) {
      cascade_member_t *m = &r->members[k];
      if (m->node != n) continue;
      w.member = m;
      w.body = m->result == NULL ? NULL
                                 : cascade_to_expr(&r->norm, m->result,
                                                   n->body->type);
    }
    if (w.body == NULL) continue;
    tir_expr_t *body = without(r, c, w.body);
    if (body == NULL) return false;
    if (body == w.body) continue;
    w.body = body;
    if (count == CASCADE_MAX_MEMBERS) return false;
    made[count++] = w;
  }
  if (count == 0 || r->rewrite_count + count > CASCADE_MAX_MEMBERS) {
    return false;
  }
  for (uint32_t i = 0; i < count; i++) {
    if (made[i].member != NULL) made[i].member->copied = made[i].body;
    else r->rewrites[r->rewrite_count++] = made[i];
  }
  return true;
}

void cascade_drop_maxima(cascade_region_t *r) {
  bool is_constant = r->kind == CASCADE_CONSTANT;
  for (uint32_t i = 0; i < r->component_count;) {
    cascade_component_t *c = r->components[i];
    bool may_go = c->reduce == TIR_REDUCE_MAX && c->extra_count == 0 &&
                  !c->is_gauge;
    if (may_go && is_constant) drop_maximum(r, c);
    if (may_go && !is_constant && r->kind == CASCADE_RUNNING &&
        cancel_maximum(r, c)) {
      r->component_count--;
      for (uint32_t k = i; k < r->component_count; k++) {
        r->components[k] = r->components[k + 1];
      }
      continue;
    }
    i++;
  }
}

tir_node_t *cascade_dropped_node(cascade_region_t *r,
                                 const cascade_component_t *c) {
  td_arena_t *arena = r->module->arena;
  tir_node_t *n = tir_node_create(arena, TIR_MAP, 1);
  n->index_count = r->row_count;
  n->indices = TD_NEW_ARRAY(arena, tir_index_t *, r->row_count);
  for (uint32_t i = 0; i < r->row_count; i++) n->indices[i] = r->rows[i];
  tir_expr_t *zero = tir_const_f(arena, c->type, 0);
  tir_expr_t *none = tir_op(
      arena, TIR_X_EQ, TDSL_DTYPE_BOOL, 2,
      (tir_expr_t *[]){cascade_state_load(r, c->stands_for,
                                          c->stands_for->value), zero});
  n->body = tir_op(arena, TIR_X_SELECT, c->type, 3,
                   (tir_expr_t *[]){none, tir_const_f(arena, c->type,
                                                      -(double)INFINITY),
                                    zero});
  n->loc = c->loc;
  n->outs[0] = c->value;
  c->value->def = n;
  return n;
}
