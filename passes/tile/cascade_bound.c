/* cascade_bound.c: where a sweep may end because everything behind is masked.
 *
 * A state is bounded by `axis <= E` if every element behind E is neutral to
 * it: a maximum of `if axis <= E and .. then s else -inf`, or a sum with a
 * weight exp(s - g) of such an s, or a guard that says so.  The sweep ends
 * behind the largest E of the rows of a block if all states have the same
 * bound and E grows or falls evenly with the row.  What is left out would
 * have merged identities: no bit changes. */
#include "passes/tile/sweep.h"

#include <math.h>

enum { DEPTH_LIMIT = 16 };

typedef struct bound {
  const tile_t *t;
  tir_node_t *node;  /* in whose indices the bound is */
  tir_expr_t *limit; /* axis <= limit, or NULL */
  int64_t plus;      /* axis < limit: -1 */
} bound_t;

static const tir_index_t *axis_of(const tir_node_t *n) {
  uint32_t par = 0;
  while (par < n->index_count && !n->indices[par]->is_reduction) par++;
  return n->is_tile ? n->indices[par - 1] : n->indices[n->index_count - 1];
}

static tir_node_t *tile_of(const bound_t *b, const tir_expr_t *load) {
  for (uint32_t k = 0; load->op == TIR_X_LOAD && k < b->t->node_count; k++) {
    tir_node_t *n = b->t->nodes[k];
    if (n->is_tile && n->outs[0] == load->u.value) return n;
  }
  return NULL;
}

/* A conjunct `axis <= E` or `axis < E` of a condition. */
static bool of_condition(bound_t *b, tir_node_t *n, tir_expr_t *c,
                         int depth) {
  if (depth > DEPTH_LIMIT) return false;
  if (c->op == TIR_X_AND) {
    return of_condition(b, n, c->args[0], depth + 1) ||
           of_condition(b, n, c->args[1], depth + 1);
  }
  if (c->op != TIR_X_LE && c->op != TIR_X_LT) return false;
  const tir_index_t *axis = axis_of(n);
  if (c->args[0]->op != TIR_X_INDEX || c->args[0]->u.index != axis ||
      tir_mentions_index(b->t->arena, c->args[1], axis)) {
    return false;
  }
  b->node = n;
  b->limit = c->args[1];
  b->plus = c->op == TIR_X_LT ? -1 : 0;
  return true;
}

static bool is_number(const tir_expr_t *e, double v) {
  return e->op == TIR_X_CONST && e->type != TDSL_DTYPE_I64 &&
         e->type != TDSL_DTYPE_BOOL && e->u.f64 == v;
}

/* e is `hole` (-inf of a maximum, 0 of a sum) behind the bound. */
static bool of_body(bound_t *b, tir_node_t *n, tir_expr_t *e, double hole,
                    int depth) {
  if (depth > DEPTH_LIMIT) return false;
  tir_node_t *tile = tile_of(b, e);
  if (tile != NULL && tile->reduce == TIR_REDUCE_NONE) {
    return of_body(b, tile, tile->body, hole, depth + 1);
  }
  if (e->op == TIR_X_SELECT && is_number(e->args[2], hole)) {
    return of_condition(b, n, e->args[0], depth + 1) ||
           of_body(b, n, e->args[1], hole, depth + 1);
  }
  if (hole != 0) return false;
  if (e->op == TIR_X_MUL) {
    return of_body(b, n, e->args[0], 0, depth + 1) ||
           of_body(b, n, e->args[1], 0, depth + 1);
  }
  if (e->op == TIR_X_EXP && e->args[0]->op == TIR_X_SUB) {
    return of_body(b, n, e->args[0]->args[0], -(double)INFINITY, depth + 1);
  }
  return false;
}

static bool of_state(bound_t *b, tir_node_t *n) {
  double hole = n->reduce == TIR_REDUCE_SUM ? 0 : -(double)INFINITY;
  if (n->guard != NULL && of_condition(b, n, n->guard, 0)) return true;
  return n->reduce != TIR_REDUCE_MIN && of_body(b, n, n->body, hole, 0);
}

/* E is affine in the row that a block has several of. */
static bool is_even(const sweep_t *s, const bound_t *b) {
  ix_pool_t *pool = s->t->module->pool;
  const ix_poly_t *p = tir_expr_poly(pool, s->t->arena, b->limit, NULL, NULL);
  const ix_poly_t *slope, *rest;
  int64_t constant;
  if (p == NULL) return false;
  if (s->block_rows == 1) return true;
  return ix_split_linear(pool, p, b->node->indices[s->blocked]->symbol,
                         &slope, &rest) &&
         ix_is_const(slope, &constant);
}

bool tile_find_bound(sweep_t *s) {
  tile_t *t = s->t;
  bound_t all = {.t = t};
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    bound_t one = {.t = t};
    if (n->cascade == 0 || n->is_tile) continue;
    if (!of_state(&one, n)) return false;
    if (all.limit == NULL) all = one;
    if (one.limit != all.limit || one.plus != all.plus) return false;
  }
  if (all.limit == NULL || !is_even(s, &all)) return false;
  s->limit = all.limit;
  s->limit_plus = all.plus;
  return true;
}
