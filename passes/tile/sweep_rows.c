/* sweep_rows.c: which rows of a sweep (lower_cascade.c) are a block, by what
 * the second factors of its products have in common. */
#include "passes/tile/sweep.h"

#include <string.h>

/* Deepest product that is packed: columns of a tile are all there, on a CPU
 * in a cache. */
static int64_t most_depth(const tile_t *t) {
  return t->target->warp > 0 ? 512 : 8192;
}

typedef struct quotient {
  const tir_index_t *index;
  int64_t by; /* of index / by, the same everywhere; 0: not seen */
  tir_expr_t *zero;
} quotient_t;

static tir_expr_t *without_quotient(void *user, tir_expr_t *e) {
  quotient_t *q = user;
  if (e->op != TIR_X_DIV || e->type != TDSL_DTYPE_I64 ||
      e->args[0]->op != TIR_X_INDEX || e->args[0]->u.index != q->index ||
      e->args[1]->op != TIR_X_CONST || e->args[1]->u.i64 < 2) {
    return e;
  }
  int64_t by = e->args[1]->u.i64;
  if (q->by != 0 && q->by != by) return e;
  q->by = by;
  return q->zero;
}

int64_t tile_sweep_rows_alike(const sweep_t *s, tir_expr_t *e,
                              const tir_index_t *index) {
  td_arena_t *arena = s->t->arena;
  int64_t extent;
  if (!tir_mentions_index(arena, e, index)) return INT64_MAX;
  quotient_t q = {.index = index,
                  .zero = tir_const_i(arena, TDSL_DTYPE_I64, 0)};
  tir_expr_t *rest = tir_rewrite(arena, e, without_quotient, &q);
  bool is_even = q.by > 1 && ix_is_const(index->extent, &extent) &&
                 extent % q.by == 0;
  return is_even && !tir_mentions_index(arena, rest, index) ? q.by : 1;
}

/* How many times the rows that share keys a block takes, if a table says where
 * keys are: heads of one place lie side by side there, and places of one head
 * far apart.  Some blocks are left for threads. */
static int64_t neighbours(const sweep_t *s, uint32_t blocked, int64_t alike) {
  enum { LEAST_BLOCKS = 4, MOST_HEADS = 8 };
  const tir_node_t *n = s->t->nodes[0];
  int64_t heads = 1, blocks = 1, size;
  bool has_table = false;
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    has_table |= s->packed[k].node != NULL &&
                 tile_sweep_has_table(s, s->packed[k].p.b);
  }
  if (!has_table) return 1;
  for (uint32_t i = 0; i < s->rows; i++) {
    if (!ix_is_const(n->indices[i]->extent, &size)) return 1;
    if (i == blocked) size /= alike;
    if (__builtin_mul_overflow(blocks, size, &blocks)) return 1;
    if (i == blocked) heads = size;
  }
  int64_t some = MOST_HEADS;
  while (some > 1 && (heads % some != 0 || blocks / some < LEAST_BLOCKS)) {
    some /= 2;
  }
  return some;
}

/* The row index that a block has several of: one that no second factor
 * mentions, or else one that they mention as a quotient only, as where
 * several heads have the same keys; then as many rows as have one. */
static void choose_rows(sweep_t *s, const int64_t *alike) {
  tile_t *t = s->t;
  for (int by_quotient = 0; by_quotient < 2; by_quotient++) {
    for (uint32_t i = s->rows; i-- > 0;) {
      tir_index_t *index = t->nodes[0]->indices[i];
      int64_t most = contraction_upper(index->extent);
      if (by_quotient == 0 ? alike[i] < INT64_MAX || most < 2 : alike[i] < 2) {
        continue;
      }
      if (by_quotient > 0) most = alike[i];
      int64_t group = tile_sweep_few_rows(
          s, by_quotient > 0 ? ix_const(t->module->pool, most)
                             : index->extent);
      if (by_quotient > 0 && group == 0) continue;
      s->blocked = i;
      s->alike = s->block_rows = most < SWEEP_ROWS ? most : SWEEP_ROWS;
      if (t->target->warp != 0) return;
      s->is_few = group > 0;
      s->group = group > 0 ? group : SWEEP_GROUP;
      s->alike = s->block_rows = tile_sweep_block_rows(s, most);
      if (by_quotient > 0) s->block_rows *= neighbours(s, i, most);
      s->in_groups = s->is_few || s->block_rows >= SWEEP_GROUP;
      return;
    }
  }
}

/* A condition that keeps the product from being read as a whole may be one
 * that full tiles do not have. */
static bool analyse_bare(const sweep_t *s, const tir_node_t *n,
                         product_t *p) {
  tile_t *t = s->t;
  if (t->target->warp == 0 || n->guard == NULL) return false;
  tir_node_t *bare = TD_NEW(t->arena, tir_node_t);
  *bare = *n;
  bare->guard = NULL;
  *p = (product_t){.t = t, .node = bare, .par = s->rows + 1,
                   .type = n->body->type};
  return contraction_analyse(p);
}

/* ---- conditions that can wait -------------------------------------------- */

typedef struct places {
  const sweep_t *s;
  const tir_node_t *node;
  bool are_memory; /* of all loads so far, whatever the guard is */
} places_t;

/* A subscript within `dim` that no condition made so: an index as it is, or a
 * quotient of one, or a number that the guard knows nothing of. */
static bool is_within(const places_t *p, tir_expr_t *sub,
                      const ix_poly_t *dim) {
  td_arena_t *arena = p->s->t->arena;
  tir_expr_t *guard = p->node->guard;
  int64_t by = 1, extent, size;
  bool is_number = ix_is_const(dim, &size);
  if (sub->op == TIR_X_CONST) {
    return is_number && sub->u.i64 >= 0 && sub->u.i64 < size;
  }
  if (sub->op == TIR_X_LOAD && sub->arg_count == 0) {
    return !tir_mentions_value(arena, guard, sub->u.value);
  }
  if (sub->op == TIR_X_DIV && sub->args[1]->op == TIR_X_CONST) {
    by = sub->args[1]->u.i64;
    sub = sub->args[0];
  }
  if (sub->op != TIR_X_INDEX || by < 1) return false;
  const ix_poly_t *own = NULL;
  for (uint32_t i = 0; i < p->node->index_count; i++) {
    if (p->node->indices[i] == sub->u.index) own = sub->u.index->extent;
  }
  if (own == NULL) {
    return by == 1 && !tir_mentions_index(arena, guard, sub->u.index);
  }
  if (own == dim) return true;
  return is_number && ix_is_const(own, &extent) && (extent - 1) / by < size;
}

static void note_place(void *user, tir_expr_t *e) {
  places_t *p = user;
  if (e->op != TIR_X_LOAD) return;
  for (uint32_t d = 0; d < e->arg_count; d++) {
    p->are_memory &= is_within(p, e->args[d], e->u.value->dims[d]);
  }
}

/* m chooses by the guard of n, and has no use for n where it fails. */
static bool asks_first(const sweep_t *s, const tir_node_t *n,
                       const tir_node_t *m) {
  tir_expr_t *to[IX_MAX_RANK + 1], *e = m->body;
  tir_interner_t in;
  uint32_t par = s->rows + 1;
  if (!m->is_tile || m->reduce != TIR_REDUCE_NONE || m->index_count != par ||
      m->guard != NULL || e->op != TIR_X_SELECT ||
      tir_mentions_value(s->t->arena, e->args[0], n->outs[0]) ||
      tir_mentions_value(s->t->arena, e->args[2], n->outs[0])) {
    return false;
  }
  for (uint32_t i = 0; i < par; i++) {
    to[i] = tir_index_ref(s->t->arena, m->indices[i]);
  }
  tir_interner_init(&in, s->t->arena);
  return tir_intern(&in, tir_replace_indices(s->t->arena, n->guard, par,
                                             n->indices, to)) ==
         tir_intern(&in, e->args[0]);
}

static bool mentions(const sweep_t *s, tir_expr_t *e, const tir_value_t *v) {
  return e != NULL && tir_mentions_value(s->t->arena, e, v);
}

/* A product of a tile that is only wanted where its condition holds, and
 * reads memory in any case: all readers look at the condition themselves. */
static bool can_wait(const sweep_t *s, const tir_node_t *n) {
  const tir_value_t *v = n->outs[0];
  if (n->kind != TIR_MAP || !n->is_tile || n->reduce != TIR_REDUCE_SUM ||
      n->guard == NULL || tile_sweep_parallel(n) != s->rows + 1) {
    return false;
  }
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    const tir_node_t *m = s->t->nodes[k];
    if (m == n) continue;
    if (m->kind != TIR_MAP) {
      for (uint32_t i = 0; i < m->operand_count; i++) {
        if (m->operands[i] == v) return false;
      }
      continue;
    }
    if (mentions(s, m->guard, v) || mentions(s, m->transport, v)) return false;
    if (mentions(s, m->body, v) && !asks_first(s, n, m)) return false;
  }
  places_t p = {.s = s, .node = n, .are_memory = true};
  tir_walk(s->t->arena, n->body, note_place, &p);
  return p.are_memory;
}

/* Then it is computed without, for whole tiles and all rows at once. */
static void drop_guards(sweep_t *s) {
  tile_t *t = s->t;
  tir_node_t **nodes = NULL;
  for (uint32_t k = 0; k < t->node_count && t->target->warp == 0; k++) {
    if (!can_wait(s, t->nodes[k])) continue;
    if (nodes == NULL) {
      nodes = TD_NEW_ARRAY(t->arena, tir_node_t *, t->node_count);
      memcpy(nodes, t->nodes, t->node_count * sizeof *nodes);
    }
    nodes[k] = TD_NEW(t->arena, tir_node_t);
    *nodes[k] = *t->nodes[k];
    nodes[k]->guard = NULL;
  }
  if (nodes != NULL) t->nodes = nodes;
}

/* ---- products ------------------------------------------------------------ */

/* Products of tiles whose second factor is the same for several rows. */
void tile_sweep_find_products(sweep_t *s) {
  tile_t *t = s->t;
  int64_t alike[IX_MAX_RANK];
  bool any = false;
  for (uint32_t i = 0; i < s->rows; i++) alike[i] = INT64_MAX;
  drop_guards(s);
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    product_t p = {.t = t, .node = n, .par = s->rows + 1};
    if (!n->is_tile || n->reduce != TIR_REDUCE_SUM) continue;
    p.type = n->body->type;
    int64_t depth;
    bool is_bare = false;
    if (!contraction_analyse(&p)) {
      is_bare = analyse_bare(s, n, &p);
      if (!is_bare) continue;
    }
    if (p.key != NULL || p.k.count != 1 || p.n.count < 1 ||
        (p.n.count > 1 && t->target->warp == 0) ||
        p.n.members[p.n.count - 1] != n->indices[s->rows] ||
        !ix_is_const(p.k.members[0]->extent, &depth) ||
        depth > most_depth(t)) {
      continue;
    }
    s->packed[k].node = n;
    s->packed[k].p = p;
    s->packed[k].is_bare = is_bare;
    if (is_bare) continue;
    any = true;
    for (uint32_t i = 0; i < s->rows; i++) {
      bool in_m = false;
      for (uint32_t j = 0; j < p.m.count; j++) {
        in_m |= p.m.members[j] == n->indices[i];
      }
      int64_t rows = in_m ? INT64_MAX
                          : tile_sweep_rows_alike(s, p.b, n->indices[i]);
      if (rows == INT64_MAX && !in_m) rows = 1; /* in neither factor */
      if (rows == INT64_MAX) continue;
      alike[i] = alike[i] == INT64_MAX || alike[i] == rows ? rows : 1;
    }
  }
  s->alike = s->block_rows = 1;
  if (any) choose_rows(s, alike);
  /* what is packed for several rows is packed for all tiles */
  for (uint32_t k = 0; k < t->node_count && s->block_rows > 1; k++) {
    if (s->packed[k].is_bare) s->packed[k].node = NULL;
  }
}
