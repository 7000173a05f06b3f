/* contraction_simt_grid.c: which tile of a product a block of warps makes.
 *
 * Units, which are sides with common ends, lie side by side: tiles of the
 * first one's columns, then those of the next one. A block is of one unit, and
 * what differs between them, where columns come from and what follows, is
 * behind a condition that all its threads share. */
#include "passes/tile/contraction_simt.h"

enum {
  LISTED_TILES = 4,   /* of one value, in a range of rows */
  MOST_LISTED = 4096, /* rows of a range: a list of them is shared memory */
  FEW_COLUMNS = 16,   /* tiles of a row: what runs at a time has several rows */
};

/* ---- units --------------------------------------------------------------- */

static bool has_member(const unit_t *u, uint32_t member) {
  return member < u->count;
}

static bool all_have(const simt_t *s, uint32_t member) {
  bool all = true;
  for (uint32_t u = 0; u < s->unit_count; u++) {
    all &= has_member(&s->units[u], member);
  }
  return all;
}

/* The block is of this unit. */
static kir_expr_t *is_of(simt_t *s, const unit_t *u) {
  kir_expr_t *is = NULL;
  if (u != &s->units[0]) {
    is = tile_op2(s->t, KIR_X_GE, TDSL_DTYPE_BOOL, s->piece, u->first);
  }
  if (u != &s->units[s->unit_count - 1]) {
    is = both(s, is, tile_less(s->t, s->piece, u->end));
  }
  return is;
}

void contraction_simt_each_unit(simt_t *s, kir_block_t *block,
                                uint32_t member, simt_unit_fn build,
                                void *user) {
  for (uint32_t u = 0; u < s->unit_count; u++) {
    unit_t *unit = &s->units[u];
    if (!has_member(unit, member)) continue;
    kir_block_t *body = block;
    kir_expr_t *is = is_of(s, unit);
    if (is != NULL) body = &tile_push(s->t, block, tile_if(s->t, is))->body;
    contraction_select(s->p, unit->lead);
    build(s, body, unit, user);
  }
}

kir_block_t *contraction_simt_where(simt_t *s, kir_block_t *block,
                                    uint32_t member) {
  kir_expr_t *is = NULL;
  if (all_have(s, member)) return block;
  for (uint32_t u = 0; u < s->unit_count; u++) {
    if (!has_member(&s->units[u], member)) continue;
    kir_expr_t *one = is_of(s, &s->units[u]);
    is = is == NULL ? one : tile_op2(s->t, KIR_X_OR, TDSL_DTYPE_BOOL, is, one);
  }
  return &tile_push(s->t, block, tile_if(s->t, is))->body;
}

/* ---- the order of tiles ---------------------------------------------------*/

static const ix_poly_t *tiles_of(product_t *p, const ix_poly_t *extent,
                                 int64_t size) {
  ix_pool_t *pool = p->t->module->pool;
  return ix_div(pool, ix_add(pool, extent, ix_const(pool, size - 1)),
                ix_const(pool, size), NULL);
}

/* Tiles of the columns of all units; where each begins. NULL: too many. */
static const ix_poly_t *find_columns(simt_t *s) {
  product_t *p = s->p;
  ix_pool_t *pool = s->t->module->pool;
  const ix_poly_t *all = ix_const(pool, 0);
  for (uint32_t u = 0; u < s->unit_count; u++) {
    unit_t *unit = &s->units[u];
    unit->first = tile_dim(s->t, all);
    const ix_poly_t *own =
        tiles_of(p, p->sides[unit->lead].n.extent, p->nc);
    all = own == NULL ? NULL : ix_add(pool, all, own);
    if (all == NULL) return NULL;
    unit->end = tile_dim(s->t, all);
  }
  return all;
}

/* Column of tiles `at` is that of a unit. */
static void set_columns(simt_t *s, kir_block_t *block, kir_expr_t *at) {
  product_t *p = s->p;
  kir_expr_t *first = s->units[0].first;
  if (s->unit_count > 1) {
    s->piece = contraction_name(p, block, "piece", at);
    for (uint32_t u = 1; u < s->unit_count; u++) {
      kir_expr_t *arms[3] = {tile_less(s->t, s->piece, s->units[u].first),
                             first, s->units[u].first};
      first = kir_op(s->t->arena, KIR_X_SELECT, TDSL_DTYPE_I64, 3, arms);
    }
    at = tile_op2(s->t, KIR_X_SUB, TDSL_DTYPE_I64, s->piece, first);
  }
  p->nb = contraction_name(p, block, "nb", times(s, at, p->nc));
}

/* Block loop over columns of tiles. */
static kir_block_t *column_blocks(simt_t *s, kir_block_t *block,
                                  const ix_poly_t *columns, kir_expr_t **at) {
  tile_t *t = s->t;
  if (s->unit_count > 1) {
    return tile_loop(t, block, KIR_LOOP_BLOCK, "piece", tile_int(t, 0),
                     tile_dim(t, columns), 1, at);
  }
  *at = NULL;
  return tile_loop(t, block, KIR_LOOP_BLOCK, "nb", tile_int(t, 0),
                   tile_dim(t, s->p->n.extent), s->p->nc, &s->p->nb);
}

const ix_poly_t *contraction_simt_tiles(simt_t *s) {
  product_t *p = s->p;
  ix_pool_t *pool = s->t->module->pool;
  const ix_poly_t *all = tiles_of(p, p->m.extent, p->mc);
  const ix_poly_t *columns = find_columns(s);
  if (all == NULL || columns == NULL) return NULL;
  all = ix_mul(pool, all, columns);
  for (uint32_t i = 0; i < p->batch.count && all != NULL; i++) {
    all = ix_mul(pool, all, p->batch.members[i]->extent);
  }
  return all;
}

/* Rows of tiles that are gone through together, column by column, so that
 * what runs at a time reads little; 0: all of a row, if there are few. */
static int64_t rows_at_a_time(const simt_t *s, const ix_poly_t *columns) {
  const product_t *p = s->p;
  int64_t n, slots = slots_of(s);
  if (!ix_is_const(columns, &n) || n <= FEW_COLUMNS || p->m.count == 0 ||
      contraction_upper(p->m.extent) <= p->mc) {
    return 0;
  }
  int64_t few = 8 * p->mc + (slots + 7) / 8 * p->nc;
  int64_t many = 16 * p->mc + (slots + 15) / 16 * p->nc;
  return few <= many ? 8 : 16;
}

/* Rows that a block finds its own among: several tiles of each value, so
 * that few are filled in part; as many blocks share them as there is room for
 * on the device. */
static void choose_range(simt_t *s, const ix_poly_t *pieces) {
  product_t *p = s->p;
  int64_t m = contraction_upper(p->m.extent), tiles, all;
  int64_t groups = contraction_upper(p->group->extent);
  int64_t range = LISTED_TILES * p->mc * (groups < 1 ? 1 : groups);
  if (range > MOST_LISTED) range = MOST_LISTED;
  if (range > m) range = m < 1 ? 1 : m;
  p->range = range;
  int64_t slots = slots_of(s);
  int64_t blocks = (m - 1) / range + 1, columns;
  columns = pieces == NULL ? INT64_MAX : contraction_upper(pieces);
  s->turns = 1;
  if (__builtin_mul_overflow(blocks, columns, &all) ||
      __builtin_mul_overflow(all, groups, &all) || all >= slots) {
    return;
  }
  tiles = (contraction_group_rows(p) - 1) / p->mc + 1;
  s->turns = slots / (all < 1 ? 1 : all);
  if (s->turns > tiles) s->turns = tiles;
  if (s->turns > range / p->mc) s->turns = range / p->mc;
  if (s->turns < 1) s->turns = 1;
}

/* Values, ranges, turns, columns; then the tiles of a turn. */
static kir_block_t *listed_grid(simt_t *s, kir_block_t *block,
                                const ix_poly_t *columns) {
  product_t *p = s->p;
  tile_t *t = s->t;
  kir_expr_t *turn = tile_int(t, 0), *at;
  choose_range(s, columns);
  block = contraction_group_grid(p, block);
  if (s->turns > 1) {
    block = tile_loop(t, block, KIR_LOOP_BLOCK, "turn", tile_int(t, 0),
                      tile_int(t, s->turns), 1, &turn);
  }
  block = column_blocks(s, block, columns, &at);
  if (at != NULL) set_columns(s, block, at);
  block = contraction_group(p, block, s->warps, p->mc);
  return tile_loop(t, block, KIR_LOOP_SERIAL, "mb", times(s, turn, p->mc),
                   p->count, s->turns * p->mc, &p->mb);
}

kir_block_t *contraction_simt_grid(simt_t *s, kir_block_t *block) {
  product_t *p = s->p;
  tile_t *t = s->t;
  ix_pool_t *pool = t->module->pool;
  const ix_poly_t *rows = tiles_of(p, p->m.extent, p->mc);
  const ix_poly_t *columns = find_columns(s);
  TD_CHECK(t->task, columns != NULL || s->unit_count == 1,
           "more columns than there are numbers");
  if (p->key != NULL) return listed_grid(s, block, columns);
  block = contraction_split_grid(s, block);
  int64_t n = columns == NULL ? 0 : rows_at_a_time(s, columns), across = 0;
  const ix_poly_t *all =
      columns == NULL ? NULL : ix_mul(pool, rows, columns);
  kir_expr_t *tile, *at;
  block = contraction_batch(p, block);
  if (n == 0 || all == NULL) {
    block = tile_loop(t, block, KIR_LOOP_BLOCK, "mb", tile_int(t, 0),
                      tile_dim(t, p->m.extent), p->mc, &p->mb);
    block = column_blocks(s, block, columns, &at);
    if (at != NULL) set_columns(s, block, at);
    return block;
  }
  s->rows_at_a_time = n;
  (void)ix_is_const(columns, &across);
  block = tile_loop(t, block, KIR_LOOP_BLOCK, "tile", tile_int(t, 0),
                    tile_dim(t, all), 1, &tile);
  kir_expr_t *first = contraction_name(
      p, block, "first", times(s, quotient(s, tile, n * across), n));
  kir_expr_t *left = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, tile_dim(t, rows),
                              first);
  kir_expr_t *high = contraction_name(
      p, block, "high", tile_op2(t, KIR_X_MAX, TDSL_DTYPE_I64,
                                 tile_min(t, left, tile_int(t, n)),
                                 tile_int(t, 1)));
  kir_expr_t *in = contraction_name(p, block, "in", rest(s, tile, n * across));
  kir_expr_t *row = add(s, first, tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, in,
                                           high));
  p->mb = contraction_name(p, block, "mb", times(s, row, p->mc));
  set_columns(s, block, tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, in, high));
  return block;
}
