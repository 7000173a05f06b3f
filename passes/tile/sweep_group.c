/* sweep_group.c: several rows of a sweep at a time, on a CPU.
 *
 * A block (lower_cascade.c) holds many rows, so that what they share is
 * packed once for all of them.  Within a tile the rows go in groups of
 * SWEEP_GROUP, which is what the registers hold of both products:
 *
 *   for each group:
 *     scores of all its rows: SWEEP_GROUP x nr accumulators, over the depth
 *     for each row: maps, maxima, states as seen from maxima that moved
 *     sums with a packed factor: SWEEP_GROUP x nr accumulators, over the tile
 *
 * The scores of a group stay in the first cache between the three, and all of
 * a tile is in lanes.  Masks are judged once more for the group; of one that
 * they cut, rows with nothing in the tile add zeros.  Rows that are left over
 * and tiles that are not complete go row by row.
 * Every accumulator adds the same products in the same order either way: no
 * bit tells how many rows there were. */
#include "passes/tile/sweep.h"

/* Columns of a group's accumulators: four registers a row where there are 32
 * of them, two where there are 16, and a divisor of `width`. */
static int64_t columns_of(const tile_t *t, tdsl_dtype_t type, int64_t width) {
  int64_t lanes = (int64_t)t->target->lanes;
  if (type == TDSL_DTYPE_F64) lanes /= 2;
  int64_t n = lanes * (t->target->registers >= 32 ? 4 : 2);
  while (n > width || width % n != 0) n /= 2;
  return n;
}

int64_t tile_sweep_few_rows(const sweep_t *s, const ix_poly_t *most) {
  enum { FEW_ROWS = 8 };
  int64_t all, rows;
  if (s->t->target->warp != 0 || !ix_is_const(most, &all) || all > FEW_ROWS) {
    return 0;
  }
  for (rows = SWEEP_GROUP; all % rows != 0; rows--) continue;
  return rows > 1 ? rows : 0;
}

/* Rows of a block: whole groups, and whole tiles if that is not more than a
 * cache's worth of what a row keeps: a causal mask ends with both. */
int64_t tile_sweep_block_rows(const sweep_t *s, int64_t most) {
  enum { MOST_ROWS = 192, LEAST_ROWS = 24, MOST_ELEMENTS = 131072 };
  const tile_t *t = s->t;
  int64_t width = 1, size;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    const ix_poly_t *extent = NULL;
    if (s->packed[k].node != NULL) {
      extent = s->packed[k].p.k.members[0]->extent;
    } else if (sweep_is_state(n) && tile_sweep_parallel(n) > s->rows) {
      extent = n->indices[s->rows]->extent;
    }
    if (extent != NULL && ix_is_const(extent, &size)) width += size;
  }
  int64_t rows = MOST_ROWS;
  while (rows * width > MOST_ELEMENTS && rows > LEAST_ROWS) rows /= 2;
  return most < rows ? most : rows;
}

/* ---- the rows of a group ------------------------------------------------- */

void tile_sweep_set_first_row(sweep_t *s) {
  bool is_own = s->alike < s->block_rows;
  s->values[s->blocked] =
      is_own ? kir_add(s->t->arena, s->from, s->group_begin) : s->from;
  tile_sweep_set_rows(s);
}

void tile_sweep_set_group_row(sweep_t *s, kir_expr_t *gr) {
  td_arena_t *arena = s->t->arena;
  s->gr = gr;
  s->r = kir_add(arena, s->group_begin, gr);
  s->values[s->blocked] = kir_add(arena, s->from, s->r);
  tile_sweep_set_rows(s);
}

/* All rows are there, and all elements of the tile. */
static kir_expr_t *is_whole(sweep_t *s, const sweep_span_t *axis) {
  tile_t *t = s->t;
  kir_expr_t *rows = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, s->group_count,
                              tile_int(t, s->group));
  kir_expr_t *full = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, axis->count,
                              tile_int(t, SWEEP_TILE));
  return tile_op2(t, KIR_X_AND, TDSL_DTYPE_BOOL, rows, full);
}

/* ---- what need not be packed --------------------------------------------- */

bool tile_sweep_is_plain(const sweep_t *s, const tir_expr_t *e,
                         const tir_index_t *last) {
  if (e->op != TIR_X_LOAD || e->arg_count == 0 ||
      e->type != e->u.value->dtype) {
    return false;
  }
  const tir_expr_t *place = e->args[e->arg_count - 1];
  const tile_home_t *home =
      td_map_get_u64(&s->t->homes, (uint64_t)(uintptr_t)e->u.value);
  bool is_memory = home == NULL || (home->buffer != NULL &&
                                    home->buffer->space == KIR_GLOBAL);
  return is_memory && place->op == TIR_X_INDEX && place->u.index == last;
}

/* Used once, so that packing it would not be worth its stores: a load, widened
 * or not, that only the last subscript moves along the row. */
static bool is_along(const sweep_t *s, tir_expr_t *f,
                     const tir_index_t *extra) {
  tile_t *t = s->t;
  if (f->op == TIR_X_CAST) f = f->args[0];
  if (f->op != TIR_X_LOAD || f->arg_count == 0) return false;
  const tir_expr_t *last = f->args[f->arg_count - 1];
  for (uint32_t i = 0; i + 1 < f->arg_count; i++) {
    if (tir_mentions_index(t->arena, f->args[i], extra)) return false;
  }
  return last->op == TIR_X_INDEX && last->u.index == extra &&
         td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)f->u.value) == NULL;
}

void tile_sweep_leave_in_place(sweep_t *s) {
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (!s->in_groups || s->factors[k] == NULL || s->masks.inside != NULL) {
      continue;
    }
    tir_expr_t *f = n->body->args[1];
    const tir_index_t *axis = n->indices[n->index_count - 1];
    const tir_index_t *extra = n->indices[s->rows];
    if (s->is_few && is_along(s, f, extra)) {
      s->factors[k] = NULL;
      s->in_place[k] = true;
      continue;
    }
    if (!tile_sweep_is_plain(s, f, extra) || f->arg_count < 2) continue;
    const tir_expr_t *row = f->args[f->arg_count - 2];
    if (row->op != TIR_X_INDEX || row->u.index != axis ||
        f->u.value->dims[f->arg_count - 1] != extra->extent) {
      continue;
    }
    s->factors[k] = NULL;
    s->in_place[k] = true;
  }
}

/* ---- SWEEP_GROUP x nr accumulators --------------------------------------- */

typedef struct micro {
  tile_t *t;
  kir_buffer_t *acc;
  int64_t mr, nr;
} micro_t;

static micro_t micro_open(const sweep_t *s, kir_block_t *block,
                          tdsl_dtype_t type, int64_t mr, int64_t nr) {
  tile_t *t = s->t;
  ix_pool_t *pool = t->module->pool;
  const ix_poly_t *dims[2] = {ix_const(pool, mr), ix_const(pool, nr)};
  return (micro_t){t, tile_alloc(t, block, "acc", type, KIR_REGISTER, 2, dims),
                   mr, nr};
}

/* Lanes of one row of the accumulators, in a loop over the rows. */
static kir_block_t *micro_rows(const micro_t *m, kir_block_t *block,
                               kir_expr_t **r, kir_expr_t **l) {
  block = tile_loop(m->t, block, KIR_LOOP_UNROLL, "r", tile_int(m->t, 0),
                    tile_int(m->t, m->mr), 1, r);
  return tile_lanes_of(m->t, block, m->nr, l);
}

static kir_expr_t *micro_load(const micro_t *m, kir_expr_t *r,
                              kir_expr_t *l) {
  return kir_load(m->t->arena, m->acc, 2, (kir_expr_t *[]){r, l});
}

static void micro_store(const micro_t *m, kir_block_t *block, kir_expr_t *r,
                        kir_expr_t *l, kir_expr_t *v) {
  tile_store(m->t, block, m->acc, 2, (kir_expr_t *[]){r, l}, v);
}

/* acc[r][l] += a * b, one rounding. */
static void micro_add(const micro_t *m, kir_block_t *block, kir_expr_t *r,
                      kir_expr_t *l, kir_expr_t *a, kir_expr_t *b) {
  kir_expr_t *factors[3] = {a, b, micro_load(m, r, l)};
  micro_store(m, block, r, l,
              kir_op(m->t->arena, KIR_X_FMA, m->acc->dtype, 3, factors));
}

/* ---- the first product: scores ------------------------------------------- */

/* The first factor's rows, side by side for the broadcasts. */
void tile_sweep_pack_rows(sweep_t *s, packed_t *pk, kir_block_t *block) {
  tile_t *t = s->t;
  product_t *p = &pk->p;
  const tir_index_t *index = p->k.members[0];
  int64_t depth = 0;
  kir_expr_t *i, *l;
  (void)ix_is_const(index->extent, &depth);
  int64_t lanes = depth % TILE_LANES == 0 ? TILE_LANES : 1;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "i", tile_int(t, 0),
                    tile_int(t, depth), lanes, &i);
  if (lanes > 1) {
    block = tile_lanes(t, block, NULL, &l);
    i = kir_add(t->arena, i, l);
  }
  tile_set_index(t, index, i);
  tile_store(t, block, pk->rows, 2, (kir_expr_t *[]){s->r, i},
             tile_expr(t, p->a));
}

static void whole_product(sweep_t *s, packed_t *pk, kir_block_t *block) {
  tile_t *t = s->t;
  product_t *p = &pk->p;
  tile_home_t *home =
      td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)pk->node->outs[0]);
  int64_t n = s->is_few ? tile_sweep_square(s, pk) : 0;
  int64_t nr = columns_of(t, p->type, SWEEP_TILE);
  kir_expr_t *c0 = tile_int(t, 0), *i, *r, *l;
  if (n > 0) {
    block = tile_loop(t, block, KIR_LOOP_SERIAL, "c", c0,
                      tile_int(t, SWEEP_TILE), n, &c0);
    tile_sweep_group_square(s, pk, block, n, c0);
    return;
  }
  if (nr < SWEEP_TILE) {
    block = tile_loop(t, block, KIR_LOOP_SERIAL, "c", c0,
                      tile_int(t, SWEEP_TILE), nr, &c0);
  }
  micro_t m = micro_open(s, block, p->type, s->group, nr);
  kir_block_t *body = micro_rows(&m, block, &r, &l);
  micro_store(&m, body, r, l, kir_const_f(t->arena, p->type, 0.0));
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                 tile_int(t, 0),
                                 tile_dim(t, p->k.members[0]->extent), 1, &i);
  body = micro_rows(&m, depth, &r, &l);
  kir_expr_t *row[2] = {kir_add(t->arena, s->group_begin, r), i}, *a;
  kir_expr_t *column[2] = {i, kir_add(t->arena, c0, l)};
  if (pk->rows != NULL) {
    a = kir_load(t->arena, pk->rows, 2, row);
  } else {
    tile_sweep_set_group_row(s, r);
    tile_set_index(t, p->k.members[0], i);
    a = tile_expr(t, p->a);
  }
  micro_add(&m, body, r, l, a, kir_load(t->arena, pk->columns, 2, column));
  body = micro_rows(&m, block, &r, &l);
  kir_expr_t *to[2] = {r, kir_add(t->arena, c0, l)};
  tile_store(t, body, home->buffer, 2, to, micro_load(&m, r, l));
}

/* ---- the second product: sums with a packed factor ----------------------- */

bool tile_sweep_is_whole_sum(const sweep_t *s, uint32_t k) {
  const tir_node_t *n = s->t->nodes[k];
  if (!sweep_is_sum(n) || (!s->in_place[k] && s->factors[k] == NULL)) {
    return false;
  }
  const tir_expr_t *w = n->body->args[0];
  if (w->op != TIR_X_LOAD) return false;
  for (uint32_t i = 0; i < s->t->node_count; i++) {
    const tir_node_t *tile = s->t->nodes[i];
    if (tile->is_tile && tile->outs[0] == w->u.value) return true;
  }
  return false;
}

/* Where row q of the accumulators is: a register row has SWEEP_LANES numbers
 * at most, so one of a state may be several of them. */
typedef struct spot {
  kir_expr_t *row, *at; /* of the group; of the state's row */
} spot_t;

static spot_t spot_of(const micro_t *m, int64_t pieces, kir_expr_t *r0,
                      kir_expr_t *d0, kir_expr_t *q, kir_expr_t *l) {
  tile_t *t = m->t;
  td_arena_t *arena = t->arena;
  if (pieces == 1) {
    return (spot_t){kir_add(arena, r0, q), kir_add(arena, d0, l)};
  }
  kir_expr_t *n = tile_int(t, pieces);
  kir_expr_t *row = tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, q, n);
  kir_expr_t *piece = tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, q, n);
  piece = kir_mul(arena, piece, tile_int(t, m->nr));
  return (spot_t){kir_add(arena, r0, row),
                  kir_add(arena, d0, kir_add(arena, piece, l))};
}

void tile_sweep_whole_sum(sweep_t *s, uint32_t k, kir_block_t *block,
                          kir_expr_t *from, kir_expr_t *to, int64_t rows,
                          int64_t nr) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  const tir_index_t *axis = n->indices[n->index_count - 1];
  int64_t width = 0, pieces = 1;
  (void)ix_is_const(n->indices[s->rows]->extent, &width);
  kir_expr_t *r0 = tile_int(t, 0), *d0 = tile_int(t, 0), *u, *q, *l;
  if (rows < s->group) {
    block = tile_loop(t, block, KIR_LOOP_SERIAL, "r", r0,
                      tile_int(t, s->group), rows, &r0);
  }
  if (nr < width) {
    block = tile_loop(t, block, KIR_LOOP_SERIAL, "d", d0, tile_int(t, width),
                      nr, &d0);
  }
  while (nr / pieces > SWEEP_LANES || nr % pieces != 0) pieces++;
  micro_t m =
      micro_open(s, block, n->body->type, rows * pieces, nr / pieces);
  kir_block_t *body = micro_rows(&m, block, &q, &l);
  spot_t spot = spot_of(&m, pieces, r0, d0, q, l);
  kir_expr_t *at[2] = {kir_add(t->arena, s->group_begin, spot.row), spot.at};
  micro_store(&m, body, q, l, kir_load(t->arena, s->states[k], 2, at));
  kir_block_t *terms = tile_loop(t, block, KIR_LOOP_SERIAL, axis->name, from,
                                 to, 1, &u);
  tile_sweep_set_first_row(s);
  tile_set_index(t, axis, u);
  if (s->is_few) tile_sweep_ahead_of_terms(s, k, terms, u, d0, nr);
  body = micro_rows(&m, terms, &q, &l);
  spot = spot_of(&m, pieces, r0, d0, q, l);
  kir_expr_t *factor = NULL;
  if (s->in_place[k]) {
    tile_set_index(t, n->indices[s->rows], spot.at);
    factor = tile_expr(t, n->body->args[1]);
  } else {
    kir_expr_t *place[2] = {
        tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, u, s->begin), spot.at};
    factor = kir_load(t->arena, s->factors[k], 2, place);
  }
  tile_sweep_set_group_row(s, spot.row);
  tile_set_index(t, axis, u);
  micro_add(&m, body, q, l, tile_expr(t, n->body->args[0]), factor);
  body = micro_rows(&m, block, &q, &l);
  spot = spot_of(&m, pieces, r0, d0, q, l);
  at[0] = kir_add(t->arena, s->group_begin, spot.row);
  at[1] = spot.at;
  tile_store(t, body, s->states[k], 2, at, micro_load(&m, q, l));
}

static void all_of_sum(sweep_t *s, uint32_t k, kir_block_t *block) {
  const tir_node_t *n = s->t->nodes[k];
  int64_t width = 0;
  (void)ix_is_const(n->indices[s->rows]->extent, &width);
  tile_sweep_whole_sum(s, k, block, s->begin, s->group_end, s->group,
                       columns_of(s->t, n->body->type, width));
}

/* ---- a tile -------------------------------------------------------------- */

static kir_block_t *rows_of_group(sweep_t *s, kir_block_t *block,
                                  kir_expr_t *count) {
  kir_expr_t *gr;
  block = tile_loop(s->t, block, KIR_LOOP_SERIAL, "r", tile_int(s->t, 0),
                    count, 1, &gr);
  tile_sweep_set_group_row(s, gr);
  return block;
}

/* What is done row by row between the products. */
static void between(sweep_t *s, kir_block_t *block, bool is_masked) {
  tile_t *t = s->t;
  sweep_nodes_t was = tile_sweep_take_nodes(s, !is_masked);
  block = rows_of_group(s, block, tile_int(t, s->group));
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (s->packed[k].in_groups) continue;
    if (t->nodes[k]->is_tile || sweep_is_gauge(t->nodes[k])) {
      tile_sweep_before(s, k, block);
    }
  }
  tile_sweep_add_orders(s, block);
  tile_sweep_moves(s, tile_sweep_if_moved(s, block));
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (sweep_is_sum(t->nodes[k]) && !tile_sweep_is_whole_sum(s, k)) {
      tile_sweep_add(s, k, block);
    }
  }
  tile_sweep_put_nodes(s, was);
}

static void whole_group(sweep_t *s, kir_block_t *block, kir_expr_t *must) {
  tile_t *t = s->t;
  s->is_full = true;
  if (s->ready != NULL) tile_sweep_first_scores(s, block);
  for (uint32_t k = 0; k < t->node_count && s->ready == NULL; k++) {
    if (s->packed[k].in_groups) whole_product(s, &s->packed[k], block);
  }
  if (must != NULL) {
    kir_stmt_t *choice = tile_push(t, block, tile_if(t, must));
    between(s, &choice->body, false);
    between(s, &choice->orelse, true);
  } else {
    between(s, block, s->masks.count > 0);
  }
  if (s->ready != NULL) tile_sweep_take_turns(s, block);
  for (uint32_t k = 0; k < t->node_count && s->ready == NULL; k++) {
    if (tile_sweep_is_whole_sum(s, k)) all_of_sum(s, k, block);
  }
  s->is_full = false;
}

static void single_rows(sweep_t *s, kir_block_t *block,
                        const sweep_span_t *axis) {
  tile_t *t = s->t;
  sweep_nodes_t was = tile_sweep_take_nodes(s, false);
  block = rows_of_group(s, block, s->group_count);
  kir_expr_t *is_live = tile_sweep_judge(s, axis, NULL, false);
  if (is_live != NULL) block = &tile_push(t, block, tile_if(t, is_live))->body;
  tile_sweep_one_row(s, block);
  tile_sweep_put_nodes(s, was);
}

void tile_sweep_groups(sweep_t *s, kir_block_t *block,
                       const sweep_span_t *axis) {
  tile_t *t = s->t;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "g", tile_int(t, 0), s->count,
                    s->group, &s->group_begin);
  kir_expr_t *left =
      tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, s->count, s->group_begin);
  s->group_count =
      tile_let(t, block, "n", tile_min(t, left, tile_int(t, s->group)));
  sweep_span_t *rows = TD_NEW(t->arena, sweep_span_t);
  rows->lo = kir_add(t->arena, s->from, s->group_begin);
  rows->count = s->group_count;
  rows->hi = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64,
                      kir_add(t->arena, rows->lo, rows->count),
                      tile_int(t, 1));
  kir_expr_t *may = tile_sweep_judge(s, axis, rows, false);
  if (may != NULL) block = &tile_push(t, block, tile_if(t, may))->body;
  if (s->alike < s->block_rows) {
    tile_sweep_set_first_row(s);
    tile_sweep_pack(s, block);
  }
  kir_stmt_t *choice = tile_push(t, block, tile_if(t, is_whole(s, axis)));
  kir_expr_t *must = tile_sweep_judge(s, axis, rows, true);
  /* tensors are looked through for the rows of the block */
  if (must == NULL) must = tile_sweep_judge(s, axis, s->block, true);
  kir_expr_t *lo = s->begin;
  s->group_end = s->end;
  tile_sweep_range(s, &choice->body, rows, &lo, &s->group_end);
  whole_group(s, &choice->body, must);
  single_rows(s, &choice->orelse, axis);
}
