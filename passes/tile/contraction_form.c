/* contraction_form.c: which sums are matrix products, and in what tiles. */
#include "passes/tile/contraction.h"

#include "ir/expr.h"
#include "passes/tensor/group_kernels.h"

enum { MIN_DEPTH = 4, MIN_WORK = 4096 };

/* ---- analysis ----------------------------------------------------------- */

static void add_member(flat_group_t *g, tir_index_t *index) {
  g->members[g->count++] = index;
}

int64_t contraction_upper(const ix_poly_t *p) {
  int64_t lo, hi;
  return ix_interval(p, &lo, &hi) ? hi : INT64_MAX;
}

static bool sort_indices(product_t *p, tir_expr_t *x, tir_expr_t *y) {
  td_arena_t *arena = p->t->arena;
  tir_node_t *n = p->node;
  flat_group_t only_x = {0}, only_y = {0};
  tir_index_t *last = n->indices[p->par - 1];
  for (uint32_t i = 0; i < p->par; i++) {
    bool in_x = tir_mentions_index(arena, x, n->indices[i]);
    bool in_y = tir_mentions_index(arena, y, n->indices[i]);
    if (in_x && in_y) {
      add_member(&p->batch, n->indices[i]);
    } else if (in_x) {
      add_member(&only_x, n->indices[i]);
    } else if (in_y) {
      add_member(&only_y, n->indices[i]);
    } else {
      return false;
    }
  }
  for (uint32_t i = p->par; i < n->index_count; i++) {
    add_member(&p->k, n->indices[i]);
  }
  bool x_has_last =
      only_x.count > 0 && only_x.members[only_x.count - 1] == last;
  bool y_has_last =
      only_y.count > 0 && only_y.members[only_y.count - 1] == last;
  if (!x_has_last && !y_has_last) return false;
  p->n = x_has_last ? only_x : only_y;
  p->m = x_has_last ? only_y : only_x;
  p->a = x_has_last ? y : x; /* fma(x, y, z) has the bits of fma(y, x, z) */
  p->b = x_has_last ? x : y;
  return true;
}

/* Small products are left to the nest, where nothing is packed. */
static bool pays(const product_t *p) {
  int64_t n = contraction_upper(p->n.extent);
  int64_t k = contraction_upper(p->k.extent);
  int64_t m = contraction_upper(p->m.extent), work;
  if (k < MIN_DEPTH || n < TILE_LANES / 2) return false;
  if (__builtin_mul_overflow(n, k, &work) ||
      __builtin_mul_overflow(work, m, &work)) {
    return true;
  }
  return work >= MIN_WORK;
}

typedef struct bounds {
  tile_t *t;
  ix_facts_t *facts;
  bool is_open;
} bounds_t;

/* A subscript read from memory stays within the bounds of what it is read
 * from (its type says so, and entry checks hold it). */
static const ix_poly_t *data_symbol(void *user, const tir_expr_t *e) {
  bounds_t *b = user;
  if (e->op != TIR_X_LOAD || e->u.value->lo == NULL ||
      e->u.value->hi == NULL) {
    return NULL;
  }
  ix_symbol_t *s = ix_symbol_create(b->t->module->pool, e->u.value->name,
                                    IX_SYM_DATA, e->loc);
  s->lo = e->u.value->lo;
  s->hi = e->u.value->hi;
  return ix_sym(b->t->module->pool, s);
}

static void check_bounds(void *user, tir_expr_t *e) {
  bounds_t *b = user;
  if (e->op != TIR_X_LOAD || b->is_open) return;
  ix_pool_t *pool = b->t->module->pool;
  for (uint32_t d = 0; d < e->arg_count; d++) {
    const ix_poly_t *s =
        tir_expr_poly(pool, b->t->arena, e->args[d], data_symbol, b);
    const ix_poly_t *room =
        s == NULL ? NULL : ix_sub(pool, e->u.value->dims[d], s);
    if (room == NULL || !ix_prove_nonnegative(pool, s, b->facts) ||
        !ix_prove_positive(pool, room, b->facts)) {
      b->is_open = true;
    }
  }
}

/* A guard over parallel indices may wait for the end if the operands read in
 * bounds without it. */
static bool guard_can_wait(product_t *p) {
  tile_t *t = p->t;
  tir_node_t *n = p->node;
  if (n->guard == NULL) return true;
  bounds_t b = {t, ix_facts_create(t->module->pool), false};
  for (uint32_t i = 0; i < n->index_count; i++) {
    const tir_index_t *index = n->indices[i];
    if (index->is_reduction &&
        tir_mentions_index(t->arena, n->guard, index)) {
      return false;
    }
    ix_facts_narrow(b.facts, index->symbol, ix_const(t->module->pool, 0),
                    index->extent);
    ix_facts_extent_nonempty(b.facts, t->module->pool, index->extent);
  }
  tir_walk(t->arena, n->body, check_bounds, &b);
  p->has_guard = !b.is_open;
  return p->has_guard;
}

bool contraction_analyse(product_t *p) {
  tile_t *t = p->t;
  tir_node_t *n = p->node;
  if (t->plan_serial || !group_is_contraction(n) || n->index_count == p->par) {
    return false;
  }
  if (!sort_indices(p, n->body->args[0], n->body->args[1])) return false;
  p->m.extent = p->n.extent = p->k.extent = ix_const(t->module->pool, 1);
  flat_group_t *groups[3] = {&p->m, &p->n, &p->k};
  for (int g = 0; g < 3; g++) {
    for (uint32_t i = 0; i < groups[g]->count; i++) {
      groups[g]->extent = ix_mul(t->module->pool, groups[g]->extent,
                                 groups[g]->members[i]->extent);
      if (groups[g]->extent == NULL) return false;
    }
  }
  return pays(p) && guard_can_wait(p);
}

/* ---- sizes -------------------------------------------------------------- */

/* Tile sizes of the target, no larger than what there is. */
void contraction_choose_sizes(product_t *p) {
  const ir_target_t *target = p->t->target;
  bool is_wide = p->type == TDSL_DTYPE_F64;
  p->mr = target->mr;
  p->nr = is_wide ? target->nr / 2 : target->nr;
  p->mc = target->mc;
  p->nc = target->nc;
  p->kc = is_wide ? target->kc / 2 : target->kc;
  int64_t m = contraction_upper(p->m.extent);
  int64_t n = contraction_upper(p->n.extent);
  int64_t k = contraction_upper(p->k.extent);
  if (m < p->mc) p->mc = m;
  while (p->nc - p->nr >= n) p->nc -= p->nr;
  if (k < p->kc) p->kc = (k + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
  p->is_shallow = k <= p->kc;
  if (p->mr > m) p->mr = m;
  /* few rows, of a number known now: groups of one size, if there is one
   * that is nearly as large */
  int64_t rows;
  if (!ix_is_const(p->m.extent, &rows) || rows > target->mc) return;
  for (int64_t size = p->mr; size > 1 && size * 2 > target->mr; size--) {
    if (rows % size != 0) continue;
    p->mr = size;
    break;
  }
}
