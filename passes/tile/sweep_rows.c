/* sweep_rows.c: which rows of a sweep (lower_cascade.c) are a block, by what
 * the second factors of its products have in common. */
#include "passes/tile/sweep.h"

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

/* Products of tiles whose second factor is the same for several rows. */
void tile_sweep_find_products(sweep_t *s) {
  tile_t *t = s->t;
  int64_t alike[IX_MAX_RANK];
  bool any = false;
  for (uint32_t i = 0; i < s->rows; i++) alike[i] = INT64_MAX;
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
