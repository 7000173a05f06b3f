/* cascade_gauge.c: what the members of a region are kept relative to.
 *
 * 1. An exponent that varies along the axis: its maximum, a member's if there
 *    is one over the same expression, else a new component.
 * 2. x^k / max|x|^k, k >= 2: the maximum.
 * 3. Moments of one leaf, a number a row: the running mean. A sum of what is
 *    relative to it is 0, so that it, the second moment and the number of
 *    elements say all.
 * 4. What else is differenced and squared: a pivot, the mean of the live
 *    elements in a first box. It is known before the sweep, so nothing is
 *    transported, and rounding is amplified by at most
 *    1 + N / (elements of the box). */
#include <math.h>

#include "passes/tensor/cascade.h"

#include "passes/tensor/tensor.h"

/* ---- gauges -------------------------------------------------------------- */

static cascade_gauge_t *gauge_of(cascade_region_t *r, const tir_expr_t *leaf) {
  for (size_t i = 0; i < r->norm.gauges.length; i++) {
    if (r->norm.gauges.data[i]->leaf == leaf) return r->norm.gauges.data[i];
  }
  return NULL;
}

/* The maximum of a leaf: a member's, or a new one. */
static cascade_component_t *maximum_of(cascade_region_t *r,
                                       const cascade_member_t *m,
                                       tir_expr_t *leaf) {
  for (uint32_t i = 0; i < r->component_count; i++) {
    cascade_component_t *c = r->components[i];
    if (c->reduce != TIR_REDUCE_MAX || c->extra_count > 0) continue;
    if (tir_intern(&r->norm.interner, c->body) == leaf) return c;
  }
  cascade_component_t *c =
      cascade_new_component(r, m, TIR_REDUCE_MAX, NULL, leaf);
  if (c != NULL) cascade_name_component(r, c, m, "max");
  return c;
}

bool cascade_add_exponents(cascade_region_t *r, cascade_member_t *m) {
  for (uint32_t i = 0; i < m->plain->count; i++) {
    const cascade_term_t *t = &m->plain->terms[i];
    for (uint32_t k = 0; k < t->count; k++) {
      const cascade_atom_t *a = t->factors[k].atom;
      if (!cascade_is_exponential(a) || !(a->mentions & CASCADE_U)) continue;
      tir_expr_t *leaf = a->sum->terms[0].factors[0].atom->expr;
      if (gauge_of(r, leaf) != NULL) continue;
      /* a weight that falls with the leaf would need the minimum */
      if (t->factors[k].power < 0) {
        return cascade_refuse(r, m, CASCADE_SIGN, m->body);
      }
      /* f16 holds less than f32, and where it is subnormal rounds more */
      bool is_narrow =
          a->kind == CASCADE_ROUND && a->narrow == TDSL_DTYPE_F16;
      if (!is_narrow && cascade_is_bounded(leaf, t->factors[k].power)) {
        if (r->kind == CASCADE_NONE) r->kind = CASCADE_CONSTANT;
        continue;
      }
      cascade_component_t *c = maximum_of(r, m, leaf);
      if (c == NULL) return cascade_refuse(r, m, CASCADE_TERMS, m->body);
      c->is_gauge = true;
      cascade_need_was(r, c);
      cascade_add_gauge(&r->norm, CASCADE_MINUS, leaf,
                        cascade_state_load(r, c, c->value),
                        cascade_state_load(r, c, c->was));
      r->kind = CASCADE_RUNNING;
    }
  }
  return true;
}

/* abs(x) or max(x, -x), which is how the text without `abs` says it. */
static bool is_magnitude_of(cascade_region_t *r, tir_expr_t *body,
                            const tir_expr_t *x) {
  body = tir_intern(&r->norm.interner, body);
  if (body->op == TIR_X_ABS) return body->args[0] == x;
  return body->op == TIR_X_MAX && body->args[0] == x &&
         body->args[1]->op == TIR_X_NEG && body->args[1]->args[0] == x;
}

/* x^k / g^k, k >= 2, where g is the maximum of abs(x). */
void cascade_add_scales(cascade_region_t *r, const cascade_member_t *m) {
  for (uint32_t i = 0; i < m->plain->count; i++) {
    const cascade_term_t *t = &m->plain->terms[i];
    for (uint32_t k = 0; k < t->count; k++) {
      const cascade_factor_t *f = &t->factors[k];
      if (f->atom->kind != CASCADE_LEAF || f->power < 2) continue;
      if (f->atom->mentions != CASCADE_U) continue;
      if (gauge_of(r, f->atom->expr) != NULL) continue;
      for (uint32_t j = 0; j < r->component_count; j++) {
        cascade_component_t *c = r->components[j];
        bool is_over = false;
        for (uint32_t q = 0; q < t->count; q++) {
          is_over |= t->factors[q].atom == c->atom &&
                     t->factors[q].power == -f->power;
        }
        if (!is_over || c->reduce != TIR_REDUCE_MAX ||
            !is_magnitude_of(r, c->body, f->atom->expr)) {
          continue;
        }
        c->is_gauge = true;
        cascade_need_was(r, c);
        cascade_add_gauge(&r->norm, CASCADE_OVER, f->atom->expr,
                          cascade_state_load(r, c, c->value),
                          cascade_state_load(r, c, c->was));
        if (r->kind == CASCADE_NONE) r->kind = CASCADE_SCALE;
        break;
      }
    }
  }
}

/* Whether two terms along the axis differ by exactly one power of a leaf, and
 * their other factors differ: the difference x - m, multiplied out. */
static bool is_difference(cascade_norm_t *n, const cascade_term_t *a,
                          const cascade_term_t *b,
                          const cascade_atom_t *leaf) {
  const cascade_sum_t *x = cascade_of_atom(n, leaf, 1);
  const cascade_sum_t *ua = cascade_part(n, a, true);
  const cascade_sum_t *ub = cascade_part(n, b, true);
  return cascade_mul(n, ub, x) == ua &&
         cascade_part(n, a, false) != cascade_part(n, b, false);
}

static bool is_differenced(cascade_region_t *r, const cascade_member_t *m,
                           const cascade_atom_t *leaf) {
  for (uint32_t i = 0; i < m->plain->count; i++) {
    for (uint32_t k = 0; k < m->plain->count; k++) {
      if (i != k && is_difference(&r->norm, &m->plain->terms[i],
                                  &m->plain->terms[k], leaf)) {
        return true;
      }
    }
  }
  return false;
}

/* Mean of the live elements among the first CASCADE_PIVOT_BOX of each axis
 * index, known before the sweep; 0 if there are none, or if it is no finite
 * number: what the text makes of such elements then comes out of the sums. */
static tir_expr_t *add_pivot(cascade_region_t *r, const cascade_member_t *m,
                             tir_expr_t *leaf) {
  td_arena_t *arena = r->module->arena;
  ix_pool_t *pool = r->module->pool;
  tdsl_dtype_t type = leaf->type;
  cascade_component_t shape = {.type = type, .loc = m->node->loc};
  tir_index_t *box[2 * IX_MAX_RANK];
  tir_expr_t *to[IX_MAX_RANK];
  tir_node_t *sums[2];
  for (uint32_t i = 0; i < r->row_count; i++) box[i] = r->rows[i];
  for (uint32_t i = 0; i < r->axis_count; i++) {
    const ix_poly_t *extent = ix_min(pool, r->axis[i]->extent,
                                     ix_const(pool, CASCADE_PIVOT_BOX));
    if (extent == NULL) extent = r->axis[i]->extent;
    box[r->row_count + i] =
        tir_index_create(r->module, r->axis[i]->name, extent, true);
    to[i] = tir_index_ref(arena, box[r->row_count + i]);
  }
  for (int k = 0; k < 2; k++) {
    tir_node_t *node = tir_node_create(arena, TIR_MAP, 1);
    node->reduce = TIR_REDUCE_SUM;
    node->index_count = r->row_count + r->axis_count;
    node->indices = TD_NEW_ARRAY(arena, tir_index_t *, node->index_count);
    for (uint32_t i = 0; i < node->index_count; i++) node->indices[i] = box[i];
    tir_expr_t *body = k == 0 ? leaf : tir_const_f(arena, type, 1);
    node->body = tir_replace_indices(arena, body, r->axis_count, r->axis, to);
    if (m->live != NULL) {
      node->guard =
          tir_replace_indices(arena, m->live, r->axis_count, r->axis, to);
    }
    node->loc = m->node->loc;
    tir_assign_plan(r->scratch, node);
    node->outs[0] = cascade_state_value(
        r, &shape,
        td_arena_printf(arena, "%s.%s%u", m->node->outs[0]->name,
                        k == 0 ? "head" : "count", r->pivot_count / 3));
    node->outs[0]->def = node;
    sums[k] = node;
    r->pivots[r->pivot_count++] = node;
  }
  tir_node_t *mean = tir_node_create(arena, TIR_MAP, 1);
  mean->index_count = r->row_count;
  mean->indices = TD_NEW_ARRAY(arena, tir_index_t *, r->row_count);
  for (uint32_t i = 0; i < r->row_count; i++) mean->indices[i] = r->rows[i];
  tir_expr_t *count = cascade_state_load(r, &shape, sums[1]->outs[0]);
  tir_expr_t *one = tir_const_f(arena, type, 1);
  count = tir_op(arena, TIR_X_MAX, type, 2, (tir_expr_t *[]){count, one});
  tir_expr_t *value = tir_op(
      arena, TIR_X_DIV, type, 2,
      (tir_expr_t *[]){cascade_state_load(r, &shape, sums[0]->outs[0]), count});
  tir_expr_t *size = tir_op(arena, TIR_X_ABS, type, 1, &value);
  tir_expr_t *limit = tir_const_f(arena, type, (double)INFINITY);
  tir_expr_t *is_finite = tir_op(arena, TIR_X_LT, TDSL_DTYPE_BOOL, 2,
                                 (tir_expr_t *[]){size, limit});
  mean->body = tir_op(
      arena, TIR_X_SELECT, type, 3,
      (tir_expr_t *[]){is_finite, value, tir_const_f(arena, type, 0)});
  mean->loc = m->node->loc;
  mean->outs[0] = cascade_state_value(
      r, &shape,
      td_arena_printf(arena, "%s.pivot%u", m->node->outs[0]->name,
                      r->pivot_count / 3));
  mean->outs[0]->def = mean;
  r->pivots[r->pivot_count++] = mean;
  return cascade_state_load(r, &shape, mean->outs[0]);
}

/* ---- a running mean ------------------------------------------------------ */

static bool mentions_leaf(const cascade_member_t *m,
                          const cascade_atom_t *leaf) {
  for (uint32_t i = 0; m->plain != NULL && i < m->plain->count; i++) {
    const cascade_term_t *t = &m->plain->terms[i];
    for (uint32_t k = 0; k < t->count; k++) {
      if (t->factors[k].atom == leaf) return true;
    }
  }
  return false;
}

/* Whether all members that have the leaf are plain moments of it over the
 * same elements, one number a row. */
static bool has_plain_moments(cascade_region_t *r, const cascade_member_t *m,
                              const cascade_atom_t *leaf) {
  for (uint32_t i = 0; i < r->member_count; i++) {
    const cascade_member_t *o = &r->members[i];
    if (!mentions_leaf(o, leaf)) continue;
    if (o->parallel != r->row_count || o->body->type != m->body->type ||
        !cascade_same_live(r, o->live, m->live)) {
      return false;
    }
    for (uint32_t k = 0; k < o->plain->count; k++) {
      const cascade_term_t *t = &o->plain->terms[k];
      for (uint32_t f = 0; f < t->count; f++) {
        bool is_along = (t->factors[f].atom->mentions & CASCADE_U) != 0;
        if (is_along && t->factors[f].atom != leaf) return false;
      }
    }
  }
  return true;
}

/* sum / max(count, 1), of what they are or of what they were. */
static tir_expr_t *mean_of(cascade_region_t *r, const cascade_component_t *sum,
                           const cascade_component_t *count, bool was) {
  td_arena_t *arena = r->module->arena;
  tir_expr_t *args[2] = {
      cascade_state_load(r, count, was ? count->was : count->value),
      tir_const_f(arena, sum->type, 1)};
  args[1] = tir_op(arena, TIR_X_MAX, sum->type, 2, args);
  args[0] = cascade_state_load(r, sum, was ? sum->was : sum->value);
  return tir_op(arena, TIR_X_DIV, sum->type, 2, args);
}

/* False: there are too many components. */
static bool add_mean(cascade_region_t *r, const cascade_member_t *m,
                     const cascade_atom_t *leaf) {
  cascade_norm_t *n = &r->norm;
  cascade_component_t *made[2];
  for (int k = 0; k < 2; k++) {
    made[k] = cascade_new_component(
        r, m, TIR_REDUCE_SUM,
        k == 0 ? cascade_of_atom(n, leaf, 1) : cascade_number(n, 1), NULL);
    if (made[k] == NULL) return false;
    made[k]->is_gauge = true;
    cascade_name_component(r, made[k], m, k == 0 ? "sum" : "count");
    cascade_need_was(r, made[k]);
  }
  (void)cascade_add_mean(n, leaf->expr, mean_of(r, made[0], made[1], false),
                         mean_of(r, made[0], made[1], true));
  if (r->kind == CASCADE_NONE) r->kind = CASCADE_MEAN;
  return true;
}

/* Leaves that are differenced, in a member where they come squared. */
bool cascade_add_pivots(cascade_region_t *r, cascade_member_t *m) {
  cascade_norm_t *n = &r->norm;
  bool is_squared = false;
  for (uint32_t i = 0; i < m->plain->count; i++) {
    double degree = 0;
    const cascade_term_t *t = &m->plain->terms[i];
    for (uint32_t k = 0; k < t->count; k++) {
      const cascade_atom_t *a = t->factors[k].atom;
      if (cascade_is_exponential(a) && (a->mentions & CASCADE_U)) return true;
      if (a->kind == CASCADE_LEAF && a->mentions == CASCADE_U &&
          a->expr->op == TIR_X_LOAD && is_differenced(r, m, a)) {
        degree += t->factors[k].power;
      }
    }
    is_squared |= degree >= 2;
  }
  if (!is_squared) return true;
  size_t atoms = n->atoms.length;
  for (size_t i = 0; i < atoms; i++) {
    const cascade_atom_t *a = n->atoms.data[i];
    if (a->kind != CASCADE_LEAF || a->mentions != CASCADE_U) continue;
    if (a->gauge != NULL || a->expr->op != TIR_X_LOAD) continue;
    if (gauge_of(r, a->expr) != NULL || !is_differenced(r, m, a)) continue;
    if (has_plain_moments(r, m, a)) {
      if (add_mean(r, m, a)) continue;
      return cascade_refuse(r, m, CASCADE_TERMS, m->body);
    }
    if (r->pivot_count + 3 > CASCADE_MAX_COMPONENTS) {
      return cascade_refuse(r, m, CASCADE_TERMS, m->body);
    }
    cascade_add_gauge(n, CASCADE_MINUS, a->expr, add_pivot(r, m, a->expr),
                      NULL);
    if (r->kind == CASCADE_NONE) r->kind = CASCADE_PIVOT;
  }
  return true;
}
