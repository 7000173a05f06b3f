/* sweep_ahead.c: what a sweep of one row or of few asks memory for ahead of
 * its use.
 *
 * Such a sweep reads each key and value once and is as fast as memory.  It
 * reads squares of the keys (sweep_pack.c) and parts of rows of the values,
 * which the hardware does not foresee, and computes in between; so every
 * square and every part of a row asks for as many lines of the next tile as it
 * has itself.  Lines are asked for in the order of memory, for then the
 * hardware goes on from what it was asked for. */
#include "passes/tile/sweep.h"

#include "runtime/base/num.h"

enum { LINE = 64, ROWS_AHEAD = 16, TURNS_AHEAD = 2 };

static void note_read(void *user, tir_expr_t *e) {
  bool *reads = user;
  *reads |= e->op == TIR_X_LOAD;
}

/* What is read, where it is only widened. */
static tir_expr_t *read_by(tir_expr_t *e) {
  return e->op == TIR_X_CAST ? e->args[0] : e;
}

/* Elements of a line of what e reads; 0: there is more than one row to use
 * it, or nothing is read. */
static int64_t line_of(const sweep_t *s, tir_expr_t *e) {
  e = read_by(e);
  bool is_used_again = s->block_rows > 1 && !s->is_few;
  if (is_used_again || s->t->target->warp != 0 || e->op != TIR_X_LOAD) {
    return 0;
  }
  return LINE / (int64_t)td_dtype_bytes(e->u.value->dtype);
}

bool tile_sweep_has_table(const sweep_t *s, tir_expr_t *e) {
  bool reads = false;
  e = read_by(e);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    tir_walk(s->t->arena, e->args[i], note_read, &reads);
  }
  return reads;
}

/* The row of e that is asked for: one behind the end of the axis is no fault
 * of memory, but of a table that says where rows are. */
static kir_expr_t *row_ahead(sweep_t *s, tir_expr_t *e,
                             const tir_index_t *axis, kir_expr_t *row) {
  tile_t *t = s->t;
  if (!tile_sweep_has_table(s, e)) return row;
  kir_expr_t *last = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64,
                              tile_dim(t, axis->extent), tile_int(t, 1));
  return tile_min(t, row, last);
}

bool tile_sweep_is_widened(const tir_expr_t *e) {
  return e->op != TIR_X_LOAD || e->type != e->u.value->dtype;
}

/* Memory forgets what it is asked for while it has no place, so it is asked
 * once far ahead and once more near its use.  Not where the hardware finds the
 * way and arithmetic is what takes the time: of narrow numbers, widened and
 * used by several rows, there are few bytes for each multiplication. */
static bool asks_twice(const sweep_t *s, tir_expr_t *e) {
  return !s->is_few || !tile_sweep_is_widened(e) || tile_sweep_has_table(s, e);
}

/* The element of e at the indices set. */
static void ask(sweep_t *s, kir_block_t *block, tir_expr_t *e) {
  tile_ask(s->t, block, tile_expr(s->t, read_by(e)));
}

static kir_expr_t *op(tile_t *t, kir_x_t x, kir_expr_t *a, int64_t b) {
  if (a->op == KIR_X_CONST) {
    return tile_int(t, x == KIR_X_DIV ? a->u.i64 / b : a->u.i64 % b);
  }
  return tile_op2(t, x, TDSL_DTYPE_I64, a, tile_int(t, b));
}

int64_t tile_sweep_lines(const sweep_t *s, const packed_t *pk, int64_t n) {
  int64_t line = line_of(s, pk->p.b), depth = 0;
  bool is_whole = line > 0 && n * n % line == 0 &&
                  ix_is_const(pk->p.k.members[0]->extent, &depth) &&
                  (n * n % depth == 0 || depth % (n * n) == 0);
  return is_whole ? n * n / line : 0;
}

/* Squares follow each other along the depth; the one at depth i asks for n * n
 * elements from i * n on of the n rows behind row c, line by line as it is
 * used: all of them at once would leave no place for anything else that
 * misses the first cache. */
void tile_sweep_ahead_of_square(sweep_t *s, packed_t *pk, kir_block_t *block,
                                int64_t n, kir_expr_t *c, kir_expr_t *i,
                                kir_expr_t *l) {
  tile_t *t = s->t;
  int64_t line = line_of(s, pk->p.b), depth = 0;
  (void)ix_is_const(pk->p.k.members[0]->extent, &depth);
  const tir_index_t *axis = pk->node->indices[s->rows];
  kir_expr_t *at = kir_add(t->arena, kir_mul(t->arena, i, tile_int(t, n)),
                           kir_mul(t->arena, l, tile_int(t, line)));
  kir_expr_t *here = kir_add(t->arena, kir_add(t->arena, s->begin, c),
                             op(t, KIR_X_DIV, at, depth));
  int64_t rows[2] = {s->ready != NULL ? TURNS_AHEAD * n : SWEEP_TILE, n};
  for (int k = 0; k < (asks_twice(s, pk->p.b) ? 2 : 1); k++) {
    kir_expr_t *row = kir_add(t->arena, here, tile_int(t, rows[k]));
    tile_set_index(t, axis, row_ahead(s, pk->p.b, axis, row));
    tile_set_index(t, pk->p.k.members[0], op(t, KIR_X_MOD, at, depth));
    ask(s, block, pk->p.b);
  }
}

/* Element `at` of the next tile of e, which has rows of `width`. */
static void ask_in_tile(sweep_t *s, kir_block_t *block, tir_expr_t *e,
                        const tir_index_t *axis, const tir_index_t *along,
                        kir_expr_t *at, int64_t width) {
  tile_t *t = s->t;
  kir_expr_t *row = kir_add(t->arena, s->begin, tile_int(t, SWEEP_TILE));
  row = kir_add(t->arena, row, op(t, KIR_X_DIV, at, width));
  tile_set_index(t, axis, row_ahead(s, e, axis, row));
  tile_set_index(t, along, op(t, KIR_X_MOD, at, width));
  ask(s, block, e);
}

/* A part of a row, for all rows of a tile, and then the next part: whichever
 * it is, what is asked for follows what was asked for before, so that the
 * hardware sees one stream and runs ahead of it. */
void tile_sweep_ahead_of_terms(sweep_t *s, uint32_t k, kir_block_t *block,
                               kir_expr_t *u, kir_expr_t *base,
                               int64_t lanes) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  if (n->body->op != TIR_X_MUL) return;
  for (int i = 0; i < 2; i++) {
    tir_expr_t *e = n->body->args[i];
    const tir_index_t *axis = n->indices[n->index_count - 1];
    const tir_index_t *along = n->indices[tile_sweep_parallel(n) - 1];
    int64_t line = line_of(s, e), width = 0;
    if (line == 0 || !tir_mentions_index(t->arena, e, along) ||
        !tir_mentions_index(t->arena, e, axis)) {
      continue;
    }
    /* a table may be shorter than the axis where a guard says so */
    if (n->guard != NULL && row_ahead(s, e, axis, u) != u) continue;
    bool is_known = s->ready == NULL && ix_is_const(along->extent, &width) &&
                    width % lanes == 0;
    kir_expr_t *at = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, u, s->begin);
    at = kir_add(t->arena, kir_mul(t->arena, base, tile_int(t, SWEEP_TILE)),
                 kir_mul(t->arena, at, tile_int(t, lanes)));
    for (int64_t l = 0; l < lanes && is_known; l += line) {
      ask_in_tile(s, block, e, axis, along,
                  kir_add(t->arena, at, tile_int(t, l)), width);
    }
    if (is_known && !asks_twice(s, e)) {
      tile_set_index(t, axis, u);
      continue;
    }
    int64_t rows = s->ready != NULL ? TURNS_AHEAD * s->turn : ROWS_AHEAD;
    at = kir_add(t->arena, u, tile_int(t, rows));
    tile_set_index(t, axis, row_ahead(s, e, axis, at));
    for (int64_t l = 0; l < lanes; l += line) {
      tile_set_index(t, along, kir_add(t->arena, base, tile_int(t, l)));
      ask(s, block, e);
    }
    tile_set_index(t, axis, u);
  }
}
