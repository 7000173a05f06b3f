/* cascade_split.c: bodies of members to components of a state.
 *
 * 1. Guards: what varies along the axis stays a guard, what does not becomes
 *    a factor of the result, and `p > 0` of a product of exponentials asks
 *    whether its exponent is above -inf.
 * 2. Bodies in normal form, without gauges.
 * 3. Gauges: every exponent that varies is kept relative to its maximum, an
 *    existing one if a member has it; x^2 / max|x|^2 relative to the maximum;
 *    and what is differenced and squared relative to a pivot, the mean of a
 *    first box of elements.
 * 4. Bodies again, under the gauges. Terms are grouped by equal factors
 *    outside of the axis, or by equal factors along it, whichever gives fewer
 *    accumulators: that is the rank of the split.
 * 5. Transports: a component seen from a moved gauge is a sum of components,
 *    those that are missing are added. The degree falls, so this ends. */
#include <math.h>

#include "passes/tensor/cascade.h"

#include "ir/dtype.h"
#include "passes/tensor/tensor.h"

bool cascade_refuse(cascade_region_t *r, cascade_member_t *m,
                   cascade_reason_t reason, const tir_expr_t *at) {
  r->refused = m;
  r->reason = reason;
  r->at = at;
  return false;
}

static uint8_t classify(void *user, const tir_expr_t *e) {
  const cascade_region_t *r = user;
  if (e->op == TIR_X_DIM) return CASCADE_K;
  if (e->op == TIR_X_INDEX) {
    for (uint32_t i = 0; i < r->axis_count; i++) {
      if (e->u.index == r->axis[i]) return CASCADE_U;
    }
    return CASCADE_K;
  }
  const tir_node_t *def = e->u.value->def;
  bool depends = def != NULL &&
                 td_map_get_u64(&r->dependents,
                                (uint64_t)(uintptr_t)def) != NULL;
  return depends ? CASCADE_X : CASCADE_K;
}

static bool is_float(tdsl_dtype_t type) {
  return type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
}

/* ---- guards -------------------------------------------------------------- */

static tir_expr_t *both(cascade_region_t *r, tir_expr_t *a, tir_expr_t *b) {
  if (a == NULL) return b;
  return tir_op(r->module->arena, TIR_X_AND, TDSL_DTYPE_BOOL, 2,
                (tir_expr_t *[]){a, b});
}

/* a > 0 of one term whose factors are positive: each exponential that varies
 * is positive unless its exponent is -inf. NULL if a is not of that form. */
static tir_expr_t *positive_test(cascade_region_t *r, tir_expr_t *e) {
  td_arena_t *arena = r->module->arena;
  bool is_left = e->op == TIR_X_GT;
  if (e->op != TIR_X_GT && e->op != TIR_X_LT) return NULL;
  const tir_expr_t *zero = e->args[is_left ? 1 : 0];
  if (zero->op != TIR_X_CONST || !is_float(zero->type) || zero->u.f64 != 0) {
    return NULL;
  }
  const cascade_sum_t *s =
      cascade_normalize(&r->norm, e->args[is_left ? 0 : 1], false);
  tir_expr_t *test = NULL;
  if (s == NULL || s->count != 1 || s->terms[0].coefficient <= 0) return NULL;
  for (uint32_t i = 0; i < s->terms[0].count; i++) {
    const cascade_factor_t *f = &s->terms[0].factors[i];
    if (f->atom->kind != CASCADE_EXP) return NULL;
    if ((f->atom->mentions & CASCADE_U) == 0) continue;
    if (f->power < 0) return NULL;
    tir_expr_t *x =
        cascade_to_expr(&r->norm, f->atom->sum, e->args[0]->type);
    tir_expr_t *low = tir_const_f(arena, x->type, -(double)INFINITY);
    test = both(r, test, tir_op(arena, TIR_X_GT, TDSL_DTYPE_BOOL, 2,
                                (tir_expr_t *[]){x, low}));
  }
  return test;
}

/* Conjuncts of a guard, by class. */
static bool split_guard(cascade_region_t *r, cascade_member_t *m,
                        tir_expr_t *e, int depth) {
  cascade_norm_t *n = &r->norm;
  uint8_t c = cascade_class(n, e);
  if (e->op == TIR_X_AND && depth < 64) {
    return split_guard(r, m, e->args[0], depth + 1) &&
           split_guard(r, m, e->args[1], depth + 1);
  }
  if (c == CASCADE_U) {
    m->live = both(r, m->live, e);
  } else if (c == CASCADE_MIXED) {
    tir_expr_t *test = positive_test(r, e);
    if (test == NULL) return cascade_refuse(r, m, CASCADE_PREDICATE, e);
    m->live = both(r, m->live, test);
  } else {
    const cascade_atom_t *test = cascade_test(n, e, CASCADE_X);
    m->factor =
        cascade_mul(n, m->factor, cascade_of_atom(n, test, 1));
  }
  return true;
}

/* ---- components ---------------------------------------------------------- */

typedef struct mention {
  const cascade_region_t *r;
  const cascade_member_t *m;
  cascade_component_t *c;
} mention_t;

static void note_extra(void *user, tir_expr_t *e) {
  mention_t *s = user;
  if (e->op != TIR_X_INDEX) return;
  for (uint32_t i = 0; i < s->r->row_count; i++) {
    if (s->r->rows[i] == e->u.index) return;
  }
  for (uint32_t i = 0; i < s->c->extra_count; i++) {
    if (s->c->extras[i] == e->u.index) return;
  }
  for (uint32_t i = 0; i < s->m->parallel; i++) {
    if (s->m->indices[i] != e->u.index) continue;
    s->c->extras[s->c->extra_count++] = s->m->indices[i];
  }
}

/* A value over rows and extras. */
tir_value_t *cascade_state_value(cascade_region_t *r,
                                const cascade_component_t *c,
                                const char *name) {
  const ix_poly_t *dims[2 * IX_MAX_RANK];
  for (uint32_t i = 0; i < r->row_count; i++) dims[i] = r->rows[i]->extent;
  for (uint32_t i = 0; i < c->extra_count; i++) {
    dims[r->row_count + i] = c->extras[i]->extent;
  }
  tir_value_t *v =
      tir_value_create(r->module->arena, name, c->type,
                       r->row_count + c->extra_count, dims);
  v->loc = c->loc;
  return v;
}

tir_expr_t *cascade_state_load(cascade_region_t *r,
                              const cascade_component_t *c,
                              const tir_value_t *v) {
  tir_expr_t *subs[2 * IX_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i < r->row_count; i++) {
    subs[count++] = tir_index_ref(r->module->arena, r->rows[i]);
  }
  for (uint32_t i = 0; i < c->extra_count; i++) {
    subs[count++] = tir_index_ref(r->module->arena, c->extras[i]);
  }
  return tir_load(r->module->arena, v, count, subs);
}

void cascade_need_was(cascade_region_t *r, cascade_component_t *c) {
  if (c->was != NULL) return;
  c->was = cascade_state_value(
      r, c, td_arena_printf(r->module->arena, "%s.was", c->name));
}

/* Whether the member's own value can be the component's: equal dims in the
 * same order and no rounding. */
static bool can_take(const cascade_region_t *r, const cascade_member_t *m,
                     const cascade_component_t *c) {
  if (m->parallel != r->row_count + c->extra_count) return false;
  bool is_exact = m->node->outs[0]->dtype == c->type;
  if (!is_exact && is_float(c->type)) return false;
  for (uint32_t i = 0; i < m->parallel; i++) {
    const tir_index_t *want =
        i < r->row_count ? r->rows[i] : c->extras[i - r->row_count];
    if (m->indices[i] != want) return false;
  }
  return true;
}

cascade_component_t *
cascade_new_component(cascade_region_t *r, const cascade_member_t *m,
              tir_reduce_t reduce, const cascade_sum_t *sum,
              tir_expr_t *body) {
  if (r->component_count == CASCADE_MAX_COMPONENTS) return NULL;
  cascade_component_t *c = TD_NEW(r->scratch, cascade_component_t);
  c->reduce = reduce;
  c->sum = sum;
  c->body = body;
  c->live = m->live;
  c->loc = m->node->loc;
  bool is_place = reduce == TIR_REDUCE_ARGMAX || reduce == TIR_REDUCE_ARGMIN;
  c->type = is_place ? TDSL_DTYPE_I64 : m->node->body->type;
  mention_t s = {r, m, c};
  tir_expr_t *whole = body != NULL ? body
                                   : cascade_to_expr(&r->norm, sum, c->type);
  if (c->live != NULL) tir_walk(r->scratch, c->live, note_extra, &s);
  tir_walk(r->scratch, whole, note_extra, &s);
  r->components[r->component_count++] = c;
  return c;
}

void cascade_name_component(cascade_region_t *r, cascade_component_t *c,
                           const cascade_member_t *m, const char *suffix) {
  c->name = td_arena_printf(r->module->arena, "%s.%s",
                            m->node->outs[0]->name, suffix);
  c->value = cascade_state_value(r, c, c->name);
  c->atom = cascade_leaf(&r->norm, cascade_state_load(r, c, c->value),
                         CASCADE_X);
}

bool cascade_same_live(cascade_region_t *r, tir_expr_t *a, tir_expr_t *b) {
  if (a == NULL || b == NULL) return a == b;
  return tir_intern(&r->norm.interner, a) == tir_intern(&r->norm.interner, b);
}

bool cascade_is_count(cascade_region_t *r, const cascade_component_t *c) {
  return c->reduce == TIR_REDUCE_SUM && c->live == NULL && c->sum != NULL &&
         c->sum == cascade_number(&r->norm, 1);
}

/* The sum of what is relative to the mean of the same elements. */
static bool is_nothing(cascade_norm_t *n, const cascade_sum_t *sum) {
  for (size_t i = 0; i < n->gauges.length; i++) {
    const cascade_gauge_t *g = n->gauges.data[i];
    if (g->is_mean && sum == cascade_of_atom(n, g->relative, 1)) return true;
  }
  return false;
}

/* Whether every term is a weight of this exponent and nothing else along the
 * axis, so that where the exponent is -inf it adds 0 anyway. */
static bool is_weight_of(cascade_region_t *r, const cascade_sum_t *sum,
                         tir_expr_t *live) {
  if (live == NULL || live->op != TIR_X_GT) return false;
  const tir_expr_t *leaf = tir_intern(&r->norm.interner, live->args[0]);
  const tir_expr_t *low = live->args[1];
  if (low->op != TIR_X_CONST || !isinf(low->u.f64) || low->u.f64 > 0) {
    return false;
  }
  for (uint32_t i = 0; i < sum->count; i++) {
    const cascade_term_t *t = &sum->terms[i];
    if (t->count != 1 || t->factors[0].atom->kind != CASCADE_EXP) return false;
    const cascade_atom_t *a = t->factors[0].atom->sum->terms[0].factors[0].atom;
    if (a->gauge == NULL || a->gauge->leaf != leaf) return false;
  }
  return true;
}

/* The accumulator of a sum along the axis (leading coefficient 1), shared
 * between members. */
static cascade_component_t *sum_component(cascade_region_t *r,
                                          const cascade_member_t *member,
                                          const cascade_sum_t *sum) {
  cascade_member_t copy = *member;
  const cascade_member_t *m = &copy;
  if (is_weight_of(r, sum, copy.live)) copy.live = NULL;
  for (uint32_t i = 0; i < r->component_count; i++) {
    cascade_component_t *c = r->components[i];
    if (c->reduce == TIR_REDUCE_SUM && c->sum == sum &&
        c->type == m->node->body->type &&
        cascade_same_live(r, c->live, m->live)) {
      return c;
    }
  }
  cascade_component_t *c =
      cascade_new_component(r, m, TIR_REDUCE_SUM, sum, NULL);
  if (c != NULL) {
    cascade_name_component(r, c, m,
                   td_arena_printf(r->module->arena, "c%u",
                                   r->component_count - 1));
  }
  return c;
}

/* ---- other reducers ------------------------------------------------------ */

/* max(a(u) + b(x)) and max(a(u) b(x)), b > 0; everything else must be pure. */
static bool split_other(cascade_region_t *r, cascade_member_t *m) {
  cascade_norm_t *n = &r->norm;
  tir_node_t *node = m->node;
  bool is_order = node->reduce == TIR_REDUCE_MAX ||
                  node->reduce == TIR_REDUCE_MIN;
  uint8_t class = cascade_class(n, m->body);
  tir_expr_t *body = m->body;
  const cascade_sum_t *rest = cascade_of_terms(n, 0, NULL);
  const cascade_sum_t *scale = cascade_number(n, 1);
  if (m->factor->terms[0].count > 0) {
    return cascade_refuse(r, m, CASCADE_PREDICATE, node->guard);
  }
  if ((class & CASCADE_X) != 0) {
    if (!is_order || !is_float(body->type)) {
      return cascade_refuse(r, m, CASCADE_FUNCTION, m->body);
    }
    const cascade_sum_t *s = cascade_normalize(n, m->body, false);
    if (s == NULL) return cascade_refuse(r, m, n->reason, n->at);
    const cascade_sum_t *along = rest;
    for (uint32_t i = 0; i < s->count; i++) {
      const cascade_sum_t *one = cascade_of_terms(n, 1, &s->terms[i]);
      uint8_t c = cascade_term_class(&s->terms[i]);
      if (c == CASCADE_U) {
        along = cascade_add(n, along, 1, one);
      } else if (c != CASCADE_MIXED) {
        rest = cascade_add(n, rest, 1, one);
      } else if (s->count > 1) {
        return cascade_refuse(r, m, CASCADE_SIGN, m->body);
      } else {
        along = cascade_part(n, &s->terms[0], true);
        scale = cascade_part(n, &s->terms[0], false);
        const cascade_term_t *t = &scale->terms[0];
        bool is_positive = t->coefficient > 0;
        for (uint32_t k = 0; k < t->count; k++) {
          is_positive &= t->factors[k].atom->is_positive;
        }
        if (!is_positive) return cascade_refuse(r, m, CASCADE_SIGN, m->body);
      }
    }
    body = cascade_to_expr(n, along, body->type);
  }
  cascade_component_t *c =
      cascade_new_component(r, m, node->reduce, NULL, body);
  if (c == NULL) return cascade_refuse(r, m, CASCADE_TERMS, m->body);
  bool is_itself =
      (class & CASCADE_X) == 0 && is_order && can_take(r, m, c);
  if (is_itself) {
    c->name = node->outs[0]->name;
    c->value = node->outs[0];
    c->atom = cascade_leaf(n, cascade_state_load(r, c, c->value), CASCADE_X);
    return true;
  }
  cascade_name_component(r, c, m, "c");
  if (!is_float(c->type)) { /* X was refused above */
    m->copied = cascade_state_load(r, c, c->value);
    return true;
  }
  m->result = cascade_add(
      n, cascade_mul(n, scale, cascade_of_atom(n, c->atom, 1)), 1, rest);
  return true;
}

/* A place stands while its maximum does: that of another member, or a new
 * one. Of two places the lower one counts, and none where the maximum moved. */
static void transport_place(cascade_region_t *r, cascade_component_t *c,
                            cascade_component_t *best) {
  td_arena_t *arena = r->module->arena;
  cascade_need_was(r, best);
  cascade_need_was(r, c);
  tir_expr_t *now = cascade_state_load(r, best, best->value);
  tir_expr_t *was = cascade_state_load(r, best, best->was);
  tir_expr_t *same = tir_op(arena, TIR_X_EQ, TDSL_DTYPE_BOOL, 2,
                            (tir_expr_t *[]){was, now});
  tir_expr_t *is_nan = tir_op(arena, TIR_X_NE, TDSL_DTYPE_BOOL, 2,
                              (tir_expr_t *[]){was, was});
  same = tir_op(arena, TIR_X_OR, TDSL_DTYPE_BOOL, 2,
                (tir_expr_t *[]){same, is_nan});
  c->transport = tir_op(
      arena, TIR_X_SELECT, TDSL_DTYPE_I64, 3,
      (tir_expr_t *[]){same, cascade_state_load(r, c, c->was),
                       tir_const_i(arena, TDSL_DTYPE_I64, INT64_MAX)});
}

static bool add_partner(cascade_region_t *r, cascade_component_t *c) {
  tir_reduce_t want = c->reduce == TIR_REDUCE_ARGMAX ? TIR_REDUCE_MAX
                                                     : TIR_REDUCE_MIN;
  tir_expr_t *body = tir_intern(&r->norm.interner, c->body);
  cascade_component_t *partner = NULL;
  for (uint32_t i = 0; i < r->component_count && partner == NULL; i++) {
    cascade_component_t *other = r->components[i];
    if (other->reduce == want && other->extra_count == c->extra_count &&
        cascade_same_live(r, other->live, c->live) &&
        tir_intern(&r->norm.interner, other->body) == body) {
      partner = other;
    }
  }
  for (uint32_t i = 0; i < r->member_count && partner == NULL; i++) {
    const cascade_member_t *m = &r->members[i];
    if (m->node->loc.line != c->loc.line || m->node->reduce != c->reduce ||
        m->body != c->body) {
      continue;
    }
    partner = cascade_new_component(r, m, want, NULL, c->body);
    if (partner == NULL) return false;
    partner->type = c->body->type;
    cascade_name_component(r, partner, m, "best");
  }
  if (partner == NULL) return false;
  transport_place(r, c, partner);
  return true;
}

/* ---- the split of a sum -------------------------------------------------- */

/* The value of a component; the number of elements needs no state. */
static const cascade_sum_t *component_value(cascade_region_t *r,
                                            const cascade_member_t *m,
                                            const cascade_sum_t *along,
                                            double *out_lead) {
  cascade_norm_t *n = &r->norm;
  *out_lead = along->terms[0].coefficient;
  const cascade_sum_t *unit =
      cascade_add(n, cascade_of_terms(n, 0, NULL), 1 / *out_lead, along);
  if (is_nothing(n, unit)) return cascade_of_terms(n, 0, NULL);
  if (unit == cascade_number(n, 1) && m->live == NULL) {
    const ix_poly_t *count = ix_const(r->module->pool, 1);
    for (uint32_t i = 0; i < r->axis_count; i++) {
      count = ix_mul(r->module->pool, count, r->axis[i]->extent);
    }
    if (count != NULL) {
      tir_expr_t *e = tir_cast(r->module->arena, m->node->body->type,
                               tir_dim(r->module->arena, count));
      return cascade_of_atom(n, cascade_leaf(n, e, CASCADE_K), 1);
    }
  }
  cascade_component_t *c = sum_component(r, m, unit);
  return c == NULL ? NULL : cascade_of_atom(n, c->atom, 1);
}

static const cascade_sum_t *without_number(cascade_norm_t *n,
                                           const cascade_sum_t *part) {
  cascade_term_t t = part->terms[0];
  t.coefficient = 1;
  return cascade_of_terms(n, 1, &t);
}

typedef struct groups {
  uint32_t count;
  const cascade_sum_t *keys[CASCADE_MAX_TERMS];
  const cascade_sum_t *sums[CASCADE_MAX_TERMS];
} groups_t;

/* Terms with equal factors on one side; what stands on the other adds up. */
static void group_terms(cascade_norm_t *n, const cascade_sum_t *s,
                        bool by_axis, groups_t *g) {
  g->count = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    const cascade_sum_t *key =
        without_number(n, cascade_part(n, &s->terms[i], by_axis));
    const cascade_sum_t *other =
        without_number(n, cascade_part(n, &s->terms[i], !by_axis));
    other = cascade_add(n, cascade_of_terms(n, 0, NULL),
                        s->terms[i].coefficient, other);
    uint32_t k = 0;
    while (k < g->count && g->keys[k] != key) k++;
    if (k == g->count) {
      g->keys[g->count] = key;
      g->sums[g->count++] = other;
    } else {
      g->sums[k] = cascade_add(n, g->sums[k], 1, other);
    }
  }
}

/* A maximum that moves is applied to its leaf where every term has it as an
 * exponent: W = sum of (s - g) exp(s - g), but a plain sum of s stays one. */
static void set_gauges(cascade_region_t *r, const cascade_member_t *m) {
  for (size_t i = 0; i < r->norm.gauges.length; i++) {
    cascade_gauge_t *g = r->norm.gauges.data[i];
    g->is_everywhere = true;
    if (g->before == NULL || g->relation != CASCADE_MINUS || g->is_mean) {
      continue;
    }
    for (uint32_t k = 0; k < m->plain->count; k++) {
      const cascade_term_t *t = &m->plain->terms[k];
      bool has_leaf = false, has_exponent = false;
      for (uint32_t f = 0; f < t->count; f++) {
        const cascade_atom_t *a = t->factors[f].atom;
        has_leaf |= a->kind == CASCADE_LEAF && a->expr == g->leaf;
        has_exponent |= cascade_is_exponential(a) &&
                        (a->mentions & CASCADE_U) != 0 &&
                        a->sum->terms[0].factors[0].atom->expr == g->leaf;
      }
      if (has_leaf && !has_exponent) g->is_everywhere = false;
    }
  }
}

static bool split_sum(cascade_region_t *r, cascade_member_t *m) {
  cascade_norm_t *n = &r->norm;
  set_gauges(r, m);
  const cascade_sum_t *s = cascade_normalize(n, m->body, true);
  groups_t *outside = TD_NEW(r->scratch, groups_t);
  groups_t *along = TD_NEW(r->scratch, groups_t);
  if (s == NULL) return cascade_refuse(r, m, n->reason, n->at);
  group_terms(n, s, false, outside);
  group_terms(n, s, true, along);
  bool by_axis = along->count <= outside->count;
  const groups_t *g = by_axis ? along : outside;
  const cascade_sum_t *result = cascade_of_terms(n, 0, NULL);
  for (uint32_t i = 0; i < g->count; i++) {
    double lead;
    const cascade_sum_t *u = by_axis ? g->keys[i] : g->sums[i];
    const cascade_sum_t *x = by_axis ? g->sums[i] : g->keys[i];
    const cascade_sum_t *c = component_value(r, m, u, &lead);
    result = cascade_add(n, result, lead, cascade_mul(n, c, x));
  }
  m->result = cascade_mul(n, m->factor, result);
  return m->result != NULL || cascade_refuse(r, m, CASCADE_TERMS, m->body);
}

/* ---- transports ---------------------------------------------------------- */

static bool add_transport(cascade_region_t *r, cascade_component_t *c) {
  cascade_norm_t *n = &r->norm;
  const cascade_sum_t *moved = cascade_translate(n, c->sum);
  if (moved == c->sum) return true;
  if (moved == NULL) return false;
  groups_t *g = TD_NEW(r->scratch, groups_t);
  group_terms(n, moved, false, g);
  /* a member to stand for: guard, type and indices are the component's */
  tir_node_t node = {.loc = c->loc};
  tir_value_t name = {.name = c->name};
  tir_value_t *outs[1] = {&name};
  tir_expr_t typed = {.type = c->type};
  node.outs = outs;
  node.body = &typed;
  cascade_member_t m = {.node = &node, .live = c->live};
  for (uint32_t i = 0; i < c->extra_count; i++) {
    m.indices[m.parallel++] = c->extras[i];
  }
  const cascade_sum_t *sum = cascade_of_terms(n, 0, NULL);
  for (uint32_t i = 0; i < g->count; i++) {
    double lead = g->sums[i]->terms[0].coefficient;
    const cascade_sum_t *unit =
        cascade_add(n, cascade_of_terms(n, 0, NULL), 1 / lead, g->sums[i]);
    if (is_nothing(n, unit)) continue;
    cascade_component_t *from = sum_component(r, &m, unit);
    if (from == NULL) return false;
    cascade_need_was(r, from);
    const cascade_atom_t *was =
        cascade_leaf(n, cascade_state_load(r, from, from->was), CASCADE_X);
    sum = cascade_add(n, sum, lead,
                      cascade_mul(n, g->keys[i], cascade_of_atom(n, was, 1)));
  }
  if (sum == NULL) return false;
  c->transport = cascade_to_expr(n, sum, c->type);
  return true;
}

bool cascade_split(cascade_region_t *r) {
  cascade_norm_t *n = &r->norm;
  cascade_norm_init(n, r->state->task, r->module->arena, classify, r);
  r->component_count = 0;
  r->pivot_count = 0;
  r->rewrite_count = 0;
  r->kind = CASCADE_NONE;
  for (uint32_t i = 0; i < r->member_count; i++) {
    cascade_member_t *m = &r->members[i];
    m->live = NULL;
    m->factor = cascade_number(n, 1);
    m->result = NULL;
    m->copied = NULL;
    m->plain = NULL;
    if (m->guard != NULL && !split_guard(r, m, m->guard, 0)) return false;
    bool is_sum = m->node->reduce == TIR_REDUCE_SUM && is_float(m->body->type);
    if (!is_sum) {
      if (!split_other(r, m)) return false;
      continue;
    }
    m->plain = cascade_normalize(n, m->body, false);
    if (m->plain == NULL) return cascade_refuse(r, m, n->reason, n->at);
  }
  for (uint32_t i = 0; i < r->component_count; i++) {
    cascade_component_t *c = r->components[i];
    bool is_place =
        c->reduce == TIR_REDUCE_ARGMAX || c->reduce == TIR_REDUCE_ARGMIN;
    if (is_place && !add_partner(r, c)) {
      return cascade_refuse(r, &r->members[0], CASCADE_TERMS,
                            r->members[0].body);
    }
  }
  for (uint32_t i = 0; i < r->member_count; i++) {
    cascade_member_t *m = &r->members[i];
    if (m->plain == NULL) continue;
    if (!cascade_add_exponents(r, m)) return false;
    cascade_add_scales(r, m);
    if (!cascade_add_pivots(r, m)) return false;
  }
  for (uint32_t i = 0; i < r->member_count; i++) {
    cascade_member_t *m = &r->members[i];
    if (m->plain != NULL && !split_sum(r, m)) return false;
  }
  for (uint32_t i = 0; i < r->component_count; i++) {
    cascade_component_t *c = r->components[i];
    if (c->reduce == TIR_REDUCE_SUM && c->sum != NULL &&
        !add_transport(r, c)) {
      return cascade_refuse(r, &r->members[0], CASCADE_TERMS,
                            r->members[0].body);
    }
  }
  cascade_drop_maxima(r);
  for (uint32_t i = 0; i < r->component_count; i++) {
    cascade_component_t *c = r->components[i];
    if (!r->state->options->lazy_gauges || !cascade_is_only_gauge(r, c)) {
      continue;
    }
    c->is_lazy = true;
    r->kind = CASCADE_LAZY;
  }
  return true;
}
