/* contraction_simt.c: matrix products by blocks of warps.
 *
 *   out[batch.., m, n] =
 *       epilogue(sum over k of a(batch, m, k) * b(batch, k, n))
 *
 * A block iteration makes a tile of mc x nc with warps side by side, and each
 * lane of a warp rows x columns of it in registers.  The operands come to
 * shared memory in stages of a part of the depth:
 *
 *   for each part, and once for each of the stages - 1 before the first:
 *     wait for this part; barrier
 *     start the part stages - 1 ahead
 *     fma over this part, if it is one, out of shared memory
 *   epilogue, by way of shared memory so that lanes run along rows of memory
 *
 * What is one load of the sum's dtype, in vectors, is copied asynchronously.
 * Anything else goes through registers: it is fetched before the fmas and put
 * into its stage behind them.  Where nothing is asynchronous there are two
 * stages, and the barrier stands at the end of each part.
 *
 * In shared memory, with `v` elements in 16 bytes:
 * 1. GROUPS, of what comes through registers: the depth outside, in groups of
 *    v places, a gap behind each:
 *      place(k, i) = (k / v) * (v * size + SIMT_GAP) + (k % v) * size + i
 *    A lane that fetched v neighbours of the depth stores them to v rows; its
 *    mates store to i .. i + 7 of kc / v groups: with a gap of 8 the 32 words
 *    lie in 32 banks.  A lane that multiplies reads v neighbours along i at a
 *    time.
 * 2. PLACES is the same without groups: copies run along i.
 * 3. ROWS has the depth inside, swizzled: a lane reads at_once places of the
 *    depth of each of its rows; eight rows that follow each other, in which
 *    a swizzle meets all banks, belong to as many lanes as there are.
 * Every accumulator adds its products in index order, one rounding each (plan
 * SERIAL), and only those that are there: neither the tile, the stages nor the
 * number of rows changes a bit. */
#include "passes/tile/contraction_simt.h"

#include "ir/expr.h"
#include "runtime/base/num.h"

enum {
  LONG_OPERAND = 24, /* operations of an operand that a small tile is for */
  MOST_STAGES = 4,
  FEW_STAGES = 3,    /* cover the latency of memory; more if there is room */
  MOST_SUMS = 200,   /* registers of a lane for sums and what they are of */
  BLOCKS_A_SM = 2,   /* of large tiles, as their registers have it */
  LISTED_TILES = 4,  /* of one value, in a range of rows */
  MOST_LISTED = 4096, /* rows of a range: a list of them is shared memory */
  FEW_COLUMNS = 16,  /* tiles of a row: what runs at a time has several rows */
};

/* Ordered from large to small. */
static const shape_t shapes[] = {
    {2, 2, 8, 4, 8, 16, 16}, /* 128 x 128 */
    {2, 2, 8, 4, 4, 8, 16},  /* 64 x 64 */
    {4, 1, 8, 4, 4, 8, 16},  /* 128 x 32: few columns */
    {2, 2, 4, 8, 4, 2, 16},  /* 32 x 32: little of both */
    {1, 4, 4, 8, 4, 4, 16},  /* 16 x 128: few rows */
    {1, 4, 1, 32, 4, 1, 32}, /* 4 x 128 */
    {1, 4, 1, 32, 1, 1, 32}, /* 1 x 128 */
};
enum { LARGE, MIDDLE, TALL, SMALL, FLAT, THIN, LINE }; /* ORDER shapes */

/* ---- sizes --------------------------------------------------------------- */

static int64_t blocks_of(const product_t *p, const shape_t *s, int64_t m,
                         int64_t n) {
  int64_t mc = s->warps_m * s->lanes_m * s->rows;
  int64_t nc = s->warps_n * s->lanes_n * s->columns;
  int64_t batch = p->key == NULL ? 1 : contraction_upper(p->group->extent);
  for (uint32_t i = 0; i < p->batch.count; i++) {
    int64_t extent = contraction_upper(p->batch.members[i]->extent);
    if (__builtin_mul_overflow(batch, extent, &batch)) return INT64_MAX;
  }
  int64_t rows = (m - 1) / mc + 1, columns = (n - 1) / nc + 1, all;
  if (__builtin_mul_overflow(rows, columns, &all) ||
      __builtin_mul_overflow(all, batch, &all)) {
    return INT64_MAX;
  }
  return all;
}

/* Shared memory of two stages by way of registers, or of the epilogue. */
static int64_t least_bytes(const product_t *p, const shape_t *s) {
  int64_t bytes = (int64_t)td_dtype_bytes(p->type), v = 16 / bytes;
  int64_t mc = s->warps_m * s->lanes_m * s->rows;
  int64_t nc = s->warps_n * s->lanes_n * s->columns;
  int64_t stages = 2 * s->depth * (mc + nc) + 4 * s->depth / v * SIMT_GAP;
  int64_t rows = s->rows % 4 == 0 ? 4 : s->rows;
  int64_t tail = s->warps_m * s->warps_n * s->lanes_m * rows *
                 (s->lanes_n * s->columns + v);
  return (stages > tail ? stages : tail) * bytes;
}

/* The largest tile that is filled and leaves enough blocks for the device. */
static shape_t choose_shape(const product_t *p, const ir_target_t *target) {
  int64_t m = contraction_group_rows(p);
  int64_t n = contraction_upper(p->n.extent);
  int kind = MIDDLE;
  if (m < 1) m = 1;
  if (n < 1) n = 1;
  bool is_wide = p->type == TDSL_DTYPE_F64;
  if (m <= 2) {
    kind = LINE;
  } else if (m <= 8) {
    kind = THIN;
  } else if (m <= 16) {
    kind = FLAT;
  } else if (n <= 32) {
    kind = m <= 32 ? SMALL : TALL;
  } else if (m <= 32) {
    kind = n <= 64 ? SMALL : FLAT;
  } else if (!is_wide && m > 64 && n > 64 &&
             blocks_of(p, &shapes[LARGE], m, n) >= target->sms) {
    kind = LARGE;
  }
  /* a lane evaluates an operand at as many places as its tile has */
  size_t size = tir_expr_size(p->t->arena, p->a);
  size_t other = tir_expr_size(p->t->arena, p->b);
  if (size > LONG_OPERAND || other > LONG_OPERAND) kind = SMALL;
  if (least_bytes(p, &shapes[kind]) > (int64_t)target->shared_most) {
    kind = SMALL;
  }
  shape_t shape = shapes[kind];
  if (is_wide) shape.depth = 16;
  return shape;
}

static void count_load(void *user, tir_expr_t *e) {
  *(uint32_t *)user += e->op == TIR_X_LOAD;
}

/* One load, in vectors, of the sum's dtype, at places that do not depend on
 * what memory holds. */
static bool may_be_async(const simt_t *s, const operand_t *o) {
  if (!s->t->target->has_async || o->wides.loads.length != 1 ||
      o->wides.loads.data[0].load != o->e ||
      o->e->u.value->dtype != s->p->type) {
    return false;
  }
  uint32_t loads = 0;
  tir_walk(s->t->arena, o->e, count_load, &loads);
  return loads == 1;
}

static void set_operand(simt_t *s, operand_t *o, tir_expr_t *e,
                        const flat_group_t *outer, kir_expr_t *base,
                        bool is_m) {
  product_t *p = s->p;
  const shape_t *h = &s->shape;
  int64_t threads = s->warps * SIMT_WARP, size = is_m ? p->mc : p->nc;
  o->e = e;
  o->outer = outer;
  o->base = base;
  o->size = size;
  o->lanes = is_m ? h->lanes_m : h->lanes_n;
  o->count = is_m ? h->rows : h->columns;
  int64_t run = contraction_run(p, e, outer);
  bool is_longer = run > contraction_run(p, e, &p->k);
  o->is_deep = size % s->v != 0 || !is_longer;
  o->wides = (tile_wides_t){.index = o->is_deep ? p->k.flat : outer->flat,
                            .n = s->v};
  const ix_poly_t *extent = o->is_deep ? p->k.extent : outer->extent;
  if (tile_is_multiple(extent, s->v)) tile_wide_find(s->t, &o->wides, e);
  /* one by one, lanes run along memory all the same */
  bool is_wide = o->wides.loads.length > 0;
  if (!is_wide) o->is_deep = !is_longer;
  o->v = is_wide ? s->v : 1;
  o->groups = size * s->shape.depth / o->v;
  o->slots = (o->groups + threads - 1) / threads;
  o->is_async = may_be_async(s, o);
  o->layout = !o->is_async ? LAYOUT_GROUPS
              : o->is_deep ? LAYOUT_ROWS
                           : LAYOUT_PLACES;
  o->each = o->is_async ? h->depth * size
                        : h->depth / s->v * (s->v * size + SIMT_GAP);
}

static int64_t registers(const simt_t *s, int64_t at_once) {
  int64_t count = s->shape.rows * s->shape.columns;
  count += s->a.count * (s->a.layout == LAYOUT_ROWS ? at_once : 1);
  count += s->b.count * (s->b.layout == LAYOUT_ROWS ? at_once : 1);
  return count * (int64_t)td_dtype_bytes(s->p->type) / 4;
}

/* Bytes of so many stages; the epilogue's place is used behind them. */
static int64_t stage_bytes(const simt_t *s, int64_t stages) {
  return stages * (s->a.each + s->b.each) *
         (int64_t)td_dtype_bytes(s->p->type);
}

static void choose_stages(simt_t *s) {
  const ir_target_t *target = s->t->target;
  bool has_rows =
      s->a.layout == LAYOUT_ROWS || s->b.layout == LAYOUT_ROWS;
  s->stages = 2;
  s->at_once = !has_rows                                ? 1
               : registers(s, s->v) <= MOST_SUMS        ? s->v
               : s->v > 2 && registers(s, 2) <= MOST_SUMS ? 2
                                                        : 1;
  if (!s->a.is_async && !s->b.is_async) return;
  s->stages = MOST_STAGES;
  while (s->stages > FEW_STAGES &&
         stage_bytes(s, s->stages) > (int64_t)target->shared) {
    s->stages--;
  }
  if (stage_bytes(s, s->stages) > (int64_t)target->shared_most) s->stages = 2;
}

static void alloc_shared(simt_t *s, operand_t *o, const char *name,
                         kir_block_t *block) {
  ix_pool_t *pool = s->t->module->pool;
  bool is_rows = o->layout == LAYOUT_ROWS;
  int64_t deep = s->shape.depth;
  const ix_poly_t *dims[3] = {ix_const(pool, s->stages * o->each), NULL, NULL};
  if (o->is_async) {
    dims[0] = ix_const(pool, s->stages);
    dims[1] = ix_const(pool, is_rows ? o->size : deep);
    dims[2] = ix_const(pool, is_rows ? deep : o->size);
  }
  o->shared = tile_alloc(s->t, block, name, s->p->type, KIR_SHARED,
                         o->is_async ? 3 : 1, dims);
  o->shared->is_swizzled = is_rows;
}

static void alloc_operand(simt_t *s, operand_t *o, const char *name,
                          kir_block_t *block) {
  ix_pool_t *pool = s->t->module->pool;
  const ix_poly_t *row_dims[3] = {ix_const(pool, s->warps),
                                  ix_const(pool, o->slots),
                                  ix_const(pool, SIMT_WARP)};
  if (is_listed(s, o->outer)) {
    o->rows = tile_alloc(s->t, block, "row_at", TDSL_DTYPE_I64, KIR_REGISTER,
                         3, row_dims);
  }
  if (o->is_async) return;
  int64_t lead[2] = {s->warps, o->slots};
  const ix_poly_t *dims[4] = {ix_const(pool, s->warps),
                              ix_const(pool, o->slots), ix_const(pool, o->v),
                              ix_const(pool, SIMT_WARP)};
  tile_wide_alloc(s->t, &o->wides, block, 2, lead);
  o->stage = tile_alloc(s->t, block, name, s->p->type, KIR_REGISTER, 4, dims);
}

/* ---- the products -------------------------------------------------------- */

/* Where the depth is looked at: the stage, the group of v places, the first
 * place in it. */
typedef struct spot {
  kir_expr_t *stage, *group, *place, *w;
} spot_t;

/* One operand's elements there, into registers: of one place of the depth, or
 * of at_once. */
static void load_row(simt_t *s, const operand_t *o, kir_block_t *block,
                     kir_buffer_t *to, const spot_t *at) {
  bool is_rows = o->layout == LAYOUT_ROWS, is_m = o == &s->a;
  int64_t n = neighbours(s, o), moved = is_rows ? s->at_once : n;
  kir_expr_t *g, *r = tile_int(s->t, 0), *l, *from[3], *subs[3];
  block = unroll(s, block, "g", o->count / n, &g);
  if (is_rows) block = unroll(s, block, "r", n, &r);
  block = lanes(s, block, &l, NULL);
  int64_t of_n = s->shape.warps_n, lanes_n = s->shape.lanes_n;
  kir_expr_t *warp = is_m ? quotient(s, at->w, of_n) : rest(s, at->w, of_n);
  kir_expr_t *lane = is_m ? quotient(s, l, lanes_n) : rest(s, l, lanes_n);
  kir_expr_t *i = add(s, times(s, warp, o->lanes * o->count),
                      add(s, times(s, g, o->lanes * n),
                          add(s, times(s, lane, n), r)));
  uint32_t rank =
      contraction_simt_place(s, o, at->stage, at->group, at->place, i, from);
  kir_expr_t *load = kir_load(s->t->arena, o->shared, rank, from);
  uint32_t count = 0;
  subs[count++] = add(s, times(s, g, n), r);
  if (is_rows) subs[count++] = tile_int(s->t, 0);
  subs[count++] = l;
  if (moved == 1) {
    tile_store(s->t, block, to, count, subs, load);
  } else {
    tile_push(s->t, block,
              kir_copy_stmt(s->t->kernel, moved, to, count, subs, load));
  }
}

static kir_expr_t *factor(simt_t *s, const operand_t *o, kir_buffer_t *regs,
                          kir_expr_t *i, kir_expr_t *f, kir_expr_t *l) {
  kir_expr_t *subs[3] = {i, o->layout == LAYOUT_ROWS ? f : l, l};
  return kir_load(s->t->arena, regs, o->layout == LAYOUT_ROWS ? 3 : 2, subs);
}

/* All products of a warp at at_once places of the depth. */
static void multiply(simt_t *s, kir_block_t *block, kir_buffer_t *const *regs,
                     const spot_t *at) {
  kir_expr_t *f, *i, *j, *l;
  const operand_t *of[2] = {&s->a, &s->b};
  for (int k = 0; k < 2; k++) {
    if (of[k]->layout == LAYOUT_ROWS) {
      load_row(s, of[k], block, regs[k], at);
    }
  }
  block = unroll(s, block, "f", s->at_once, &f);
  spot_t one = *at;
  one.place = add(s, at->place, f);
  for (int k = 0; k < 2; k++) {
    if (of[k]->layout != LAYOUT_ROWS) {
      load_row(s, of[k], block, regs[k], &one);
    }
  }
  block = unroll(s, block, "i", s->shape.rows, &i);
  block = unroll(s, block, "j", s->shape.columns, &j);
  block = lanes(s, block, &l, NULL);
  kir_expr_t *to[4] = {at->w, i, j, l};
  kir_expr_t *factors[3] = {factor(s, &s->a, regs[0], i, f, l),
                            factor(s, &s->b, regs[1], j, f, l),
                            kir_load(s->t->arena, s->acc, 4, to)};
  tile_store(s->t, block, s->acc, 4, to,
             kir_op(s->t->arena, KIR_X_FMA, s->p->type, 3, factors));
}

static kir_buffer_t *alloc_row(simt_t *s, const operand_t *o,
                               kir_block_t *block, const char *name) {
  ix_pool_t *pool = s->t->module->pool;
  const ix_poly_t *dims[3] = {ix_const(pool, o->count),
                              ix_const(pool, SIMT_WARP),
                              ix_const(pool, SIMT_WARP)};
  bool is_rows = o->layout == LAYOUT_ROWS;
  if (is_rows) dims[1] = ix_const(pool, s->at_once);
  return tile_alloc(s->t, block, name, s->p->type, KIR_REGISTER,
                    is_rows ? 3 : 2, dims);
}

/* What is there of one part of the depth: groups of v places, then the rest,
 * which there is only where nobody reads several at once. */
static void compute(simt_t *s, kir_block_t *block, kir_expr_t *kb,
                    kir_expr_t *stage) {
  tile_t *t = s->t;
  product_t *p = s->p;
  kir_expr_t *e;
  kir_expr_t *kh = tile_int(t, s->shape.depth);
  if (!tile_is_multiple(p->k.extent, s->shape.depth)) {
    kh = contraction_name(
        p, block, "kh", contraction_part(p, kb, p->k.extent, s->shape.depth));
  }
  spot_t at = {.stage = stage};
  block = warp_loop(s, block, &at.w);
  kir_buffer_t *regs[2] = {alloc_row(s, &s->a, block, "as"),
                           alloc_row(s, &s->b, block, "bs")};
  kir_expr_t *whole = quotient(s, kh, s->v);
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, "g",
                                tile_int(t, 0), whole, 1, &at.group);
  body = unroll(s, body, "e", s->v / s->at_once, &e);
  at.place = times(s, e, s->at_once);
  multiply(s, body, regs, &at);
  if (tile_is_multiple(p->k.extent, s->v)) return;
  body = tile_loop(t, block, KIR_LOOP_SERIAL, "e", tile_int(t, 0),
                   rest(s, kh, s->v), 1, &at.place);
  at.group = whole;
  multiply(s, body, regs, &at);
}

static void clear(simt_t *s, kir_block_t *block) {
  kir_expr_t *w, *i, *j, *l;
  block = warp_loop(s, block, &w);
  block = unroll(s, block, "i", s->shape.rows, &i);
  block = unroll(s, block, "j", s->shape.columns, &j);
  block = lanes(s, block, &l, NULL);
  kir_expr_t *at[4] = {w, i, j, l};
  tile_store(s->t, block, s->acc, 4, at, contraction_zero(s->p));
}

static void simple(simt_t *s, kir_block_t *block, kir_kind_t kind,
                   int64_t number) {
  kir_stmt_t *one = TD_NEW(s->t->arena, kir_stmt_t);
  one->kind = kind;
  one->step = number;
  tile_push(s->t, block, one);
}

/* Turns before the first bring what it and those after it begin with: what
 * operands cost is written out once. */
static void main_loop(simt_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  operand_t *of[2] = {&s->a, &s->b};
  bool is_async = s->a.is_async || s->b.is_async;
  int64_t kc = s->shape.depth, ahead = (s->stages - 1) * kc;
  kir_expr_t *kb, *depth = tile_dim(t, s->p->k.extent);
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, "kb",
                                tile_int(t, -ahead), depth, kc, &kb);
  kir_expr_t *next =
      contraction_name(s->p, body, "next", add(s, kb, tile_int(t, ahead)));
  kir_expr_t *stage = contraction_name(
      s->p, body, "stage", rest(s, quotient(s, next, kc), s->stages));
  if (is_async) {
    simple(s, body, KIR_WAIT, s->stages - 2);
    simple(s, body, KIR_BARRIER, 0);
  }
  kir_stmt_t *more = tile_push(t, body, tile_if(t, tile_less(t, next, depth)));
  for (int i = 0; i < 2; i++) {
    if (of[i]->is_async) {
      contraction_simt_start(s, of[i], &more->body, next, stage);
    } else {
      contraction_simt_fetch(s, of[i], &more->body, next);
    }
  }
  if (is_async) simple(s, body, KIR_COMMIT, 0);
  kir_stmt_t *here = tile_push(
      t, body, tile_if(t, tile_op2(t, KIR_X_GE, TDSL_DTYPE_BOOL, kb,
                                   tile_int(t, 0))));
  kir_expr_t *now = contraction_name(s->p, &here->body, "now",
                                     rest(s, quotient(s, kb, kc), s->stages));
  compute(s, &here->body, kb, now);
  if (!s->a.is_async || !s->b.is_async) {
    more = tile_push(t, body, tile_if(t, tile_less(t, next, depth)));
  }
  for (int i = 0; i < 2; i++) {
    if (of[i]->is_async) continue;
    contraction_simt_put(s, of[i], &more->body, next, stage);
  }
  if (!is_async) simple(s, body, KIR_BARRIER, 0);
  simple(s, block, KIR_BARRIER, 0);
}

/* ---- the order of tiles ---------------------------------------------------*/

static const ix_poly_t *tiles_of(product_t *p, const ix_poly_t *extent,
                                 int64_t size) {
  ix_pool_t *pool = p->t->module->pool;
  return ix_div(pool, ix_add(pool, extent, ix_const(pool, size - 1)),
                ix_const(pool, size), NULL);
}

/* Rows of tiles that are gone through together, column by column, so that
 * what runs at a time reads little; 0: all of a row, if there are few. */
static int64_t rows_at_a_time(product_t *p, const ix_poly_t *columns) {
  int64_t n, slots = (int64_t)p->t->target->sms * BLOCKS_A_SM;
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
static void choose_range(simt_t *s) {
  product_t *p = s->p;
  int64_t m = contraction_upper(p->m.extent), tiles, all;
  int64_t groups = contraction_upper(p->group->extent);
  int64_t range = LISTED_TILES * p->mc * (groups < 1 ? 1 : groups);
  if (range > MOST_LISTED) range = MOST_LISTED;
  if (range > m) range = m < 1 ? 1 : m;
  p->range = range;
  int64_t slots = BLOCKS_A_SM * (int64_t)s->t->target->sms;
  int64_t n = contraction_upper(p->n.extent);
  int64_t blocks = (m - 1) / range + 1, columns = (n - 1) / p->nc + 1;
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
static kir_block_t *listed_grid(simt_t *s, kir_block_t *block) {
  product_t *p = s->p;
  tile_t *t = s->t;
  kir_expr_t *turn = tile_int(t, 0);
  choose_range(s);
  block = contraction_group_grid(p, block);
  if (s->turns > 1) {
    block = tile_loop(t, block, KIR_LOOP_BLOCK, "turn", tile_int(t, 0),
                      tile_int(t, s->turns), 1, &turn);
  }
  block = tile_loop(t, block, KIR_LOOP_BLOCK, "nb", tile_int(t, 0),
                    tile_dim(t, p->n.extent), p->nc, &p->nb);
  block = contraction_group(p, block, s->warps, p->mc);
  return tile_loop(t, block, KIR_LOOP_SERIAL, "mb", times(s, turn, p->mc),
                   p->count, s->turns * p->mc, &p->mb);
}

static kir_block_t *grid(simt_t *s, kir_block_t *block) {
  product_t *p = s->p;
  tile_t *t = s->t;
  ix_pool_t *pool = t->module->pool;
  if (p->key != NULL) return listed_grid(s, block);
  const ix_poly_t *rows = tiles_of(p, p->m.extent, p->mc);
  const ix_poly_t *columns = tiles_of(p, p->n.extent, p->nc);
  int64_t n = rows_at_a_time(p, columns), across = 0;
  const ix_poly_t *all = ix_mul(pool, rows, columns);
  s->rows_at_a_time = n;
  if (n == 0 || all == NULL) return contraction_grid(p, block, p->mc);
  (void)ix_is_const(columns, &across);
  kir_expr_t *tile;
  block = contraction_batch(p, block);
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
  p->nb = contraction_name(
      p, block, "nb",
      times(s, tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, in, high), p->nc));
  return block;
}

/* ---- the kernel ---------------------------------------------------------- */

static const char *how(const operand_t *o) {
  return o->is_async                  ? "asynchronously"
         : o->wides.loads.length > 0 ? "in vectors"
                                     : "one by one";
}

static void describe(simt_t *s) {
  product_t *p = s->p;
  tile_t *t = s->t;
  const shape_t *h = &s->shape;
  tile_note(t, "matrix product with what follows it: %s", tile_describe(t));
  tile_note(t, "rows %s, columns %s, depth %s",
            ix_text(t->arena, p->m.extent), ix_text(t->arena, p->n.extent),
            ix_text(t->arena, p->k.extent));
  tile_note(t,
            "a block makes %lld x %lld, %lld of the depth at a time, in %lld "
            "stages of shared memory",
            (long long)p->mc, (long long)p->nc, (long long)h->depth,
            (long long)s->stages);
  tile_note(t, "%lld x %lld warps of %lld x %lld lanes, %lld x %lld sums each",
            (long long)h->warps_m, (long long)h->warps_n,
            (long long)h->lanes_m, (long long)h->lanes_n, (long long)h->rows,
            (long long)h->columns);
  if (s->rows_at_a_time > 0) {
    tile_note(t, "tiles column by column, %lld rows of them at a time",
              (long long)s->rows_at_a_time);
  }
  if (p->key != NULL) {
    tile_note(t,
              "rows grouped by %s: a block finds its own among %lld, %lld "
              "blocks share them",
              p->key->u.value->name, (long long)p->range,
              (long long)s->turns);
  }
  tile_note(t, "rows are fetched %s, columns %s", how(&s->a), how(&s->b));
  tile_note(t, "each sum adds its products left to right, with one rounding");
}

void contraction_build_simt(product_t *p) {
  tile_t *t = p->t;
  ix_pool_t *pool = t->module->pool;
  simt_t s = {.p = p, .t = t};
  TD_CHECK(t->task, t->target->warp == SIMT_WARP, "warps of %u",
           t->target->warp);
  s.shape = choose_shape(p, t->target);
  const shape_t *h = &s.shape;
  s.warps = h->warps_m * h->warps_n;
  s.v = 16 / (int64_t)td_dtype_bytes(p->type);
  p->mc = h->warps_m * h->lanes_m * h->rows;
  p->nc = h->warps_n * h->lanes_n * h->columns;
  kir_block_t *block = grid(&s, &t->kernel->body);
  set_operand(&s, &s.a, p->a, &p->m, p->mb, true);
  set_operand(&s, &s.b, p->b, &p->n, p->nb, false);
  choose_stages(&s);
  describe(&s);
  int64_t n_rows = tail_rows(&s);
  s.stride = h->lanes_n * h->columns + s.v;
  alloc_shared(&s, &s.a, "rows", block);
  alloc_shared(&s, &s.b, "columns", block);
  const ix_poly_t *size[1] = {
      ix_const(pool, s.warps * h->lanes_m * n_rows * s.stride)};
  s.tail = tile_alloc(t, block, "sums", p->type, KIR_SHARED, 1, size);
  const ix_poly_t *dims[4] = {ix_const(pool, s.warps), ix_const(pool, h->rows),
                              ix_const(pool, h->columns),
                              ix_const(pool, SIMT_WARP)};
  s.acc = tile_alloc(t, block, "acc", p->type, KIR_REGISTER, 4, dims);
  alloc_operand(&s, &s.a, "row", block);
  alloc_operand(&s, &s.b, "column", block);
  contraction_simt_find_rows(&s, &s.a, block);
  clear(&s, block);
  main_loop(&s, block);
  int64_t n = contraction_simt_width(&s);
  for (int64_t ig = 0; ig < h->rows / n_rows; ig++) {
    contraction_simt_finish(&s, block, ig, n_rows, n);
  }
  if (p->key != NULL) simple(&s, block, KIR_BARRIER, 0);
}
