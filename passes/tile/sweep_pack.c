/* sweep_pack.c: products of a sweep (lower_cascade.c) whose second factor is
 * the same for several rows: it is packed once a tile, with lanes along the
 * axis or along an index of the state. */
#include "passes/tile/sweep.h"

#include "runtime/base/num.h"

/* ---- columns ------------------------------------------------------------- */

typedef struct contiguity {
  const tir_index_t *along;
  uint32_t yes, no;
} contiguity_t;

static void count_contiguous(void *user, tir_expr_t *e) {
  contiguity_t *c = user;
  /* integers say where: a page table is no factor */
  bool is_place = e->type == TDSL_DTYPE_I64;
  if (e->op != TIR_X_LOAD || e->arg_count == 0 || is_place) return;
  const tir_expr_t *last = e->args[e->arg_count - 1];
  while (last->op == TIR_X_ADD || last->op == TIR_X_SUB) last = last->args[0];
  bool is_along = last->op == TIR_X_INDEX && last->u.index == c->along;
  c->yes += is_along;
  c->no += !is_along;
}

/* Squares of n x n that are read along the depth and turned in registers: a
 * load along the axis would be one for each element. The one at element c of
 * the tile and depth i. */
static kir_buffer_t *turned_square(sweep_t *s, packed_t *pk,
                                   kir_block_t *block, int64_t n,
                                   kir_expr_t *c, kir_expr_t *i) {
  tile_t *t = s->t;
  product_t *p = &pk->p;
  kir_expr_t *r, *l;
  const ix_poly_t *dims[2] = {ix_const(t->module->pool, n),
                              ix_const(t->module->pool, n)};
  kir_buffer_t *square =
      tile_alloc(t, block, "square", contraction_turn_type(p), KIR_REGISTER, 2,
                 dims);
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_UNROLL, "r", tile_int(t, 0),
                                tile_int(t, n), 1, &r);
  body = tile_lanes_of(t, body, n, &l);
  tile_set_index(t, p->k.members[0], kir_add(t->arena, i, l));
  tile_set_index(t, pk->node->indices[s->rows],
                 kir_add(t->arena, kir_add(t->arena, s->begin, c), r));
  tile_store(t, body, square, 2, (kir_expr_t *[]){r, l}, tile_expr(t, p->b));
  kir_stmt_t *turn = TD_NEW(t->arena, kir_stmt_t);
  turn->kind = KIR_TRANSPOSE;
  turn->buffer = square;
  tile_push(t, block, turn);
  return square;
}

static void pack_squares(sweep_t *s, packed_t *pk, kir_block_t *block,
                         int64_t n) {
  tile_t *t = s->t;
  kir_expr_t *i, *c, *r, *l;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "c", tile_int(t, 0),
                    tile_int(t, SWEEP_TILE), n, &c);
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "i", tile_int(t, 0),
                    tile_dim(t, pk->p.k.members[0]->extent), n, &i);
  kir_buffer_t *square = turned_square(s, pk, block, n, c, i);
  block = tile_loop(t, block, KIR_LOOP_UNROLL, "r", tile_int(t, 0),
                    tile_int(t, n), 1, &r);
  block = tile_lanes_of(t, block, n, &l);
  kir_expr_t *to[2] = {kir_add(t->arena, i, r), kir_add(t->arena, c, l)};
  tile_store(t, block, pk->columns, 2, to,
             kir_load(t->arena, square, 2, (kir_expr_t *[]){r, l}));
}

int64_t tile_sweep_square(const sweep_t *s, const packed_t *pk) {
  tile_t *t = s->t;
  int64_t depth, n = (int64_t)t->target->lanes;
  contiguity_t c = {.along = pk->p.k.members[0]};
  if (t->target->warp != 0) return 0;
  if (pk->p.type == TDSL_DTYPE_F64) n /= 2;
  if (n > TILE_LANES) n = TILE_LANES;
  tir_walk(t->arena, pk->p.b, count_contiguous, &c);
  bool is_whole = ix_is_const(pk->p.k.members[0]->extent, &depth) &&
                  depth % n == 0;
  return is_whole && n >= 2 && c.yes > c.no ? n : 0;
}

/* Memory runs along the depth. */
static bool runs_deep(const sweep_t *s, const packed_t *pk) {
  int64_t depth;
  contiguity_t c = {.along = pk->p.k.members[0]};
  tir_walk(s->t->arena, pk->p.b, count_contiguous, &c);
  return c.yes > c.no &&
         ix_is_const(pk->p.k.members[0]->extent, &depth) && depth >= TILE_LANES;
}

/* Bytes of what a block keeps; INT64_MAX if that is no number. */
static int64_t local_bytes(const kir_block_t *block) {
  int64_t all = 0;
  for (size_t i = 0; i < block->length; i++) {
    const kir_stmt_t *one = block->data[i];
    if (one->kind != KIR_ALLOC || one->buffer->space != KIR_LOCAL) continue;
    int64_t bytes = (int64_t)td_dtype_bytes(one->buffer->dtype), n;
    for (uint32_t d = 0; d < one->buffer->rank; d++) {
      if (!ix_is_const(one->buffer->dims[d], &n) ||
          __builtin_mul_overflow(bytes, n, &bytes)) {
        return INT64_MAX;
      }
    }
    if (__builtin_add_overflow(all, bytes + 15, &all)) return INT64_MAX;
  }
  return all;
}

/* Lanes of a GPU run along the depth where memory does: along the axis each
 * would touch another row of it. Columns are then an odd number of places
 * apart, so that lanes along either meet in no bank, if there is room. */
void tile_sweep_choose_lanes(sweep_t *s, const kir_block_t *block) {
  tile_t *t = s->t;
  int64_t used = local_bytes(block);
  for (uint32_t k = 0; k < t->node_count && t->target->warp > 0; k++) {
    packed_t *pk = &s->packed[k];
    int64_t depth = 0;
    if (pk->node == NULL || !runs_deep(s, pk)) continue;
    (void)ix_is_const(pk->p.k.members[0]->extent, &depth);
    depth *= (int64_t)td_dtype_bytes(pk->p.type);
    if (used > (int64_t)ir_target_worker_shared(t->target) - depth) continue;
    used += depth;
    pk->is_along_depth = true;
    pk->columns->dims[1] = ix_const(t->module->pool, SWEEP_TILE + 1);
  }
}

/* An element of the axis after the other; past the end zeros. */
static void pack_depth(sweep_t *s, packed_t *pk, kir_block_t *block) {
  tile_t *t = s->t;
  product_t *p = &pk->p;
  int64_t depth = 0, lanes = SWEEP_LANES;
  kir_expr_t *c, *i, *l;
  (void)ix_is_const(p->k.members[0]->extent, &depth);
  while (lanes > TILE_LANES && depth % lanes != 0) lanes /= 2;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "c", tile_int(t, 0),
                    tile_int(t, SWEEP_TILE), 1, &c);
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "i", tile_int(t, 0),
                    tile_int(t, depth), lanes, &i);
  kir_block_t *body = tile_lanes_of(t, block, lanes, &l);
  kir_expr_t *k = kir_add(t->arena, i, l);
  kir_expr_t *at = kir_add(t->arena, s->begin, c);
  if (depth % lanes != 0) {
    td_vec_last(block)->mask = tile_less(t, k, tile_int(t, depth));
  }
  tile_set_index(t, p->k.members[0], k);
  tile_set_index(t, pk->node->indices[s->rows], at);
  kir_expr_t *zero = kir_const_f(t->arena, p->type, 0.0);
  kir_expr_t *v = kir_op(t->arena, KIR_X_SELECT, p->type, 3,
                         (kir_expr_t *[]){tile_less(t, at, s->end),
                                          tile_expr(t, p->b), zero});
  tile_store(t, body, pk->columns, 2, (kir_expr_t *[]){k, c}, v);
}

/* With lanes along the axis, masked at its end. */
static void pack_lanes(sweep_t *s, packed_t *pk, kir_block_t *block) {
  tile_t *t = s->t;
  if (pk->is_along_depth) {
    pack_depth(s, pk, block);
    return;
  }
  product_t *p = &pk->p;
  kir_expr_t *i, *l;
  tir_index_t *axis = pk->node->indices[s->rows];
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                 tile_int(t, 0),
                                 tile_dim(t, p->k.members[0]->extent), 1, &i);
  kir_block_t *lanes = tile_lanes_of(t, depth, SWEEP_TILE, &l);
  kir_expr_t *at = kir_add(t->arena, s->begin, l);
  tile_set_index(t, p->k.members[0], i);
  tile_set_index(t, axis, at);
  kir_expr_t *zero = kir_const_f(t->arena, p->type, 0.0);
  kir_expr_t *v = kir_op(t->arena, KIR_X_SELECT, p->type, 3,
                         (kir_expr_t *[]){tile_less(t, at, s->end),
                                          tile_expr(t, p->b), zero});
  tile_store(t, lanes, pk->columns, 2, (kir_expr_t *[]){i, l}, v);
}

/* What is done with squares where all of the tile is in memory, and what
 * else. Squares reach past s->end where the mask of the rows ends inside a
 * tile: what they read there is no row's, and memory all the same. */
typedef void (*with_squares_fn)(sweep_t *s, packed_t *pk, kir_block_t *block,
                                int64_t n);
static void where_it_fits(sweep_t *s, packed_t *pk, kir_block_t *block,
                          with_squares_fn squares,
                          void (*lanes)(sweep_t *, packed_t *,
                                        kir_block_t *)) {
  tile_t *t = s->t;
  int64_t length, n = tile_sweep_square(s, pk);
  const ix_poly_t *extent = pk->node->indices[s->rows]->extent;
  if (n == 0) {
    lanes(s, pk, block);
  } else if (ix_is_const(extent, &length) && length % SWEEP_TILE == 0) {
    squares(s, pk, block, n);
  } else {
    kir_expr_t *last = kir_add(t->arena, s->begin, tile_int(t, SWEEP_TILE - 1));
    kir_expr_t *fits = tile_less(t, last, tile_dim(t, extent));
    kir_stmt_t *choice = tile_push(t, block, tile_if(t, fits));
    squares(s, pk, &choice->body, n);
    lanes(s, pk, &choice->orelse);
  }
}

static void pack_columns(sweep_t *s, packed_t *pk, kir_block_t *block) {
  if (s->block_rows == 1) return; /* used as it is read */
  if (s->is_few && tile_sweep_square(s, pk) > 0 && !pk->p.has_guard) {
    /* by rows that go one by one */
    kir_expr_t *is_part = tile_op2(
        s->t, KIR_X_LT, TDSL_DTYPE_BOOL,
        tile_op2(s->t, KIR_X_SUB, TDSL_DTYPE_I64, s->end, s->begin),
        tile_int(s->t, SWEEP_TILE));
    block = &tile_push(s->t, block, tile_if(s->t, is_part))->body;
  }
  where_it_fits(s, pk, block, pack_squares, pack_lanes);
}

/* ---- factors of sums ----------------------------------------------------- */

/* The second factor of a sum: rows of memory become neighbours, and are
 * widened once. */
static void pack_factor(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  const tir_index_t *axis = n->indices[n->index_count - 1];
  const tir_index_t *extra = n->indices[s->rows];
  kir_expr_t *u, *base, *lane;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, axis->name, s->begin, s->end, 1,
                    &u);
  int64_t width = 0, lanes = SWEEP_LANES;
  (void)ix_is_const(extra->extent, &width);
  while (width % lanes != 0) lanes /= 2;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, extra->name, tile_int(t, 0),
                    tile_dim(t, extra->extent), lanes, &base);
  block = tile_lanes_of(t, block, lanes, &lane);
  kir_expr_t *d = kir_add(t->arena, base, lane);
  tile_set_index(t, axis, u);
  tile_set_index(t, extra, d);
  kir_expr_t *at[2] = {tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, u, s->begin), d};
  kir_expr_t *v = tile_expr(t, n->body->args[1]);
  tir_expr_t *inside = tile_sweep_inside(s, n);
  if (inside != NULL) {
    v = kir_op(t->arena, KIR_X_SELECT, v->type, 3,
               (kir_expr_t *[]){tile_expr(t, inside), v,
                                kir_const_f(t->arena, v->type, 0.0)});
  }
  tile_store(t, block, s->factors[k], 2, at, v);
}

void tile_sweep_pack(sweep_t *s, kir_block_t *block) {
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    packed_t *pk = &s->packed[k];
    if (pk->node != NULL) pack_columns(s, pk, block);
    if (s->factors[k] != NULL) pack_factor(s, k, block);
  }
}

/* Whether a sum's second factor is the same for all rows of the block. */
bool tile_sweep_shares_factor(const sweep_t *s, const tir_node_t *n) {
  td_arena_t *arena = s->t->arena;
  int64_t size;
  if (s->block_rows == 1 || !sweep_is_state(n) || n->reduce != TIR_REDUCE_SUM ||
      n->guard != NULL || n->body->op != TIR_X_MUL ||
      tile_sweep_parallel(n) != s->rows + 1 ||
      !ix_is_const(n->indices[s->rows]->extent, &size) ||
      size % TILE_LANES != 0 || size > SWEEP_FACTOR) {
    return false;
  }
  tir_expr_t *f = n->body->args[1];
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    if (tir_mentions_value(arena, f, s->t->nodes[k]->outs[0])) return false;
  }
  return tir_mentions_index(arena, f, n->indices[s->rows]) &&
         tile_sweep_rows_alike(s, f, n->indices[s->blocked]) >=
             s->alike;
}

/* ---- products ------------------------------------------------------------ */

/* Sums of `lanes` elements from `first` of the tile on, to where the tile is
 * read. */
static void store_scores(sweep_t *s, packed_t *pk, kir_block_t *block,
                         kir_expr_t *first, kir_buffer_t *acc,
                         int64_t lanes) {
  tile_t *t = s->t;
  product_t *p = &pk->p;
  tir_node_t *n = pk->node;
  kir_expr_t *l, *subs[IX_MAX_RANK + 1];
  kir_block_t *body = tile_lanes_of(t, block, lanes, &l);
  kir_expr_t *at = kir_add(t->arena, s->begin, kir_add(t->arena, first, l));
  kir_expr_t *v = kir_load(t->arena, acc, 1, &l);
  td_vec_last(block)->mask = tile_less(t, at, s->end);
  tile_set_index(t, n->indices[s->rows], at);
  if (p->has_guard) {
    v = kir_op(t->arena, KIR_X_SELECT, p->type, 3,
               (kir_expr_t *[]){tile_expr(t, n->guard), v,
                                kir_const_f(t->arena, p->type, 0.0)});
  }
  for (uint32_t k = 0; k < s->rows; k++) subs[k] = s->values[k];
  subs[s->rows] = at;
  tile_store_value(t, body, n->outs[0], s->rows + 1, subs, v);
}

static void packed_product(sweep_t *s, packed_t *pk, kir_block_t *block) {
  tile_t *t = s->t;
  product_t *p = &pk->p;
  kir_expr_t *i, *l;
  kir_buffer_t *acc = tile_sweep_registers(t, block, p->type, SWEEP_TILE);
  kir_block_t *body = tile_lanes_of(t, block, SWEEP_TILE, &l);
  tile_store(t, body, acc, 1, &l, kir_const_f(t->arena, p->type, 0.0));
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                 tile_int(t, 0),
                                 tile_dim(t, p->k.members[0]->extent), 1, &i);
  tile_set_index(t, p->k.members[0], i);
  kir_expr_t *a = tile_let(t, depth, "a", tile_expr(t, p->a));
  body = tile_lanes_of(t, depth, SWEEP_TILE, &l);
  kir_expr_t *factors[3] = {
      a, kir_load(t->arena, pk->columns, 2, (kir_expr_t *[]){i, l}),
      kir_load(t->arena, acc, 1, &l)};
  tile_store(t, body, acc, 1, &l,
             kir_op(t->arena, KIR_X_FMA, p->type, 3, factors));
  store_scores(s, pk, block, tile_int(t, 0), acc, SWEEP_TILE);
}

/* One row has no use for what is packed but once. */
static void lanes_product(sweep_t *s, packed_t *pk, kir_block_t *block) {
  pack_lanes(s, pk, block);
  packed_product(s, pk, block);
}

/* Rows of a square as a loop, with what it asks memory for between them: *r is
 * the row. */
static kir_block_t *rows_of_square(sweep_t *s, packed_t *pk,
                                   kir_block_t *block, int64_t n,
                                   kir_expr_t *c, kir_expr_t *i,
                                   kir_expr_t **r) {
  tile_t *t = s->t;
  int64_t lines = tile_sweep_lines(s, pk, n);
  kir_expr_t *l, *within;
  if (lines == 0 || n % lines != 0) {
    return tile_loop(t, block, KIR_LOOP_UNROLL, "r", tile_int(t, 0),
                     tile_int(t, n), 1, r);
  }
  block = tile_loop(t, block, KIR_LOOP_UNROLL, "ahead", tile_int(t, 0),
                    tile_int(t, lines), 1, &l);
  tile_sweep_ahead_of_square(s, pk, block, n, c, i, l);
  if (n == lines) {
    *r = l;
    return block;
  }
  block = tile_loop(t, block, KIR_LOOP_UNROLL, "r", tile_int(t, 0),
                    tile_int(t, n / lines), 1, &within);
  *r = kir_add(t->arena, kir_mul(t->arena, l, tile_int(t, n / lines)), within);
  return block;
}

/* Of one row: squares are added as they are turned. */
static void squares_product(sweep_t *s, packed_t *pk, kir_block_t *block,
                            int64_t n) {
  tile_t *t = s->t;
  product_t *p = &pk->p;
  kir_expr_t *c, *i, *r, *l;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "c", tile_int(t, 0),
                    tile_int(t, SWEEP_TILE), n, &c);
  kir_buffer_t *acc = tile_sweep_registers(t, block, p->type, n);
  kir_block_t *body = tile_lanes_of(t, block, n, &l);
  tile_store(t, body, acc, 1, &l, kir_const_f(t->arena, p->type, 0.0));
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                 tile_int(t, 0),
                                 tile_dim(t, p->k.members[0]->extent), n, &i);
  kir_buffer_t *square = turned_square(s, pk, depth, n, c, i);
  depth = rows_of_square(s, pk, depth, n, c, i, &r);
  tile_set_index(t, p->k.members[0], kir_add(t->arena, i, r));
  kir_expr_t *a = tile_let(t, depth, "a", tile_expr(t, p->a));
  body = tile_lanes_of(t, depth, n, &l);
  kir_expr_t *factors[3] = {
      a, kir_load(t->arena, square, 2, (kir_expr_t *[]){r, l}),
      kir_load(t->arena, acc, 1, &l)};
  tile_store(t, body, acc, 1, &l,
             kir_op(t->arena, KIR_X_FMA, p->type, 3, factors));
  store_scores(s, pk, block, c, acc, n);
}

void tile_sweep_group_square(sweep_t *s, packed_t *pk, kir_block_t *block,
                             int64_t n, kir_expr_t *c) {
  tile_t *t = s->t;
  product_t *p = &pk->p;
  tile_home_t *home =
      td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)pk->node->outs[0]);
  kir_expr_t *i, *r, *row, *l;
  const ix_poly_t *dims[2] = {ix_const(t->module->pool, s->group),
                              ix_const(t->module->pool, n)};
  kir_buffer_t *acc =
      tile_alloc(t, block, "acc", p->type, KIR_REGISTER, 2, dims);
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_UNROLL, "r",
                                tile_int(t, 0), tile_int(t, s->group), 1,
                                &row);
  body = tile_lanes_of(t, body, n, &l);
  kir_expr_t *at[2] = {row, l};
  tile_store(t, body, acc, 2, at, kir_const_f(t->arena, p->type, 0.0));
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                 tile_int(t, 0),
                                 tile_dim(t, p->k.members[0]->extent), n, &i);
  tile_sweep_set_first_row(s);
  kir_buffer_t *square = turned_square(s, pk, depth, n, c, i);
  depth = rows_of_square(s, pk, depth, n, c, i, &r);
  body = tile_loop(t, depth, KIR_LOOP_UNROLL, "r", tile_int(t, 0),
                   tile_int(t, s->group), 1, &row);
  kir_expr_t *place = kir_add(t->arena, i, r), *a;
  if (pk->rows != NULL) {
    kir_expr_t *packed[2] = {kir_add(t->arena, s->group_begin, row), place};
    a = kir_load(t->arena, pk->rows, 2, packed);
  } else {
    tile_sweep_set_group_row(s, row);
    tile_set_index(t, p->k.members[0], place);
    a = tile_expr(t, p->a);
  }
  a = tile_let(t, body, "a", a);
  body = tile_lanes_of(t, body, n, &l);
  at[0] = row;
  at[1] = l;
  kir_expr_t *factors[3] = {
      a, kir_load(t->arena, square, 2, (kir_expr_t *[]){r, l}),
      kir_load(t->arena, acc, 2, at)};
  tile_store(t, body, acc, 2, at,
             kir_op(t->arena, KIR_X_FMA, p->type, 3, factors));
  body = tile_loop(t, block, KIR_LOOP_UNROLL, "r", tile_int(t, 0),
                   tile_int(t, s->group), 1, &row);
  body = tile_lanes_of(t, body, n, &l);
  at[0] = row;
  at[1] = l;
  kir_expr_t *to[2] = {row, kir_add(t->arena, c, l)};
  tile_store(t, body, home->buffer, 2, to, kir_load(t->arena, acc, 2, at));
}

void tile_sweep_product(sweep_t *s, packed_t *pk, kir_block_t *block) {
  if (s->block_rows > 1) {
    packed_product(s, pk, block);
  } else {
    where_it_fits(s, pk, block, squares_product, lanes_product);
  }
}
