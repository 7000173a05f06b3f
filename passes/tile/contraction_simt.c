/* contraction_simt.c: matrix products by blocks of warps.
 *
 *   out[batch.., m, n] =
 *       epilogue(sum over k of a(batch, m, k) * b(batch, k, n))
 *
 * A block iteration makes a tile of mc x nc with warps side by side, and each
 * lane of a warp rows x columns of it in registers:
 *
 *   for each kc of the depth, and once before the first:
 *     fetch the next kc from memory into registers
 *     fma over this kc, if it is one, out of shared memory
 *     put what was fetched into the other half of shared memory; barrier
 *   epilogue, by way of shared memory so that lanes run along rows of memory
 *
 * Both operands lie in shared memory with the depth as the outer dim: groups
 * of `v` places of the depth, in each the rows (columns) of one place after
 * the other, and a gap behind the group:
 *
 *   place(k, i) = (k / v) * (v * size + GAP) + (k % v) * size + i
 *
 * 1. A lane that fetches v neighbours of the depth stores them to v rows; its
 *    mates store to i .. i + 7 of kc / v groups: with GAP = 8 words the 32
 *    words lie in 32 banks.  Where neighbours cannot be fetched at once lanes
 *    run along memory one by one.
 * 2. A lane that multiplies reads v neighbours along i at a time; lanes of
 *    one row of lanes read the same ones, the others neighbours of those.
 * 3. Every accumulator adds its products in index order, one rounding each
 *    (plan SERIAL), and only those that are there: neither the tile nor the
 *    number of rows changes a bit. */
#include "passes/tile/contraction_simt.h"

#include "ir/expr.h"
#include "runtime/base/num.h"

enum {
  GAP = 8,
  LONG_OPERAND = 24, /* operations of an operand that a small tile is for */
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
  int64_t batch = 1;
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

/* The largest tile that is filled and leaves enough blocks for the device. */
static shape_t choose_shape(const product_t *p, const ir_target_t *target) {
  int64_t m = contraction_upper(p->m.extent);
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
  shape_t shape = shapes[kind];
  if (is_wide) shape.depth = 16;
  return shape;
}

static void set_operand(simt_t *s, operand_t *o, tir_expr_t *e,
                        const flat_group_t *outer, kir_expr_t *base,
                        int64_t size) {
  product_t *p = s->p;
  int64_t threads = s->warps * SIMT_WARP;
  o->e = e;
  o->outer = outer;
  o->base = base;
  o->size = size;
  bool is_along = outer->count > 0 && contraction_runs_along(p, e, outer);
  o->is_deep = size % s->v != 0 || !is_along ||
               contraction_runs_along(p, e, &p->k);
  o->half = s->shape.depth / s->v * (s->v * size + GAP);
  o->wides = (tile_wides_t){.index = o->is_deep ? p->k.flat : outer->flat,
                            .n = s->v};
  const ix_poly_t *extent = o->is_deep ? p->k.extent : outer->extent;
  if (tile_is_multiple(extent, s->v)) tile_wide_find(s->t, &o->wides, e);
  /* one by one, lanes run along memory all the same */
  bool is_wide = o->wides.loads.length > 0;
  if (!is_wide && is_along) o->is_deep = contraction_runs_along(p, e, &p->k);
  o->v = is_wide ? s->v : 1;
  o->groups = size * s->shape.depth / o->v;
  o->slots = (o->groups + threads - 1) / threads;
}

static void alloc_operand(simt_t *s, operand_t *o, const char *name,
                          kir_block_t *block) {
  ix_pool_t *pool = s->t->module->pool;
  int64_t lead[2] = {s->warps, o->slots};
  const ix_poly_t *dims[4] = {ix_const(pool, s->warps),
                              ix_const(pool, o->slots), ix_const(pool, o->v),
                              ix_const(pool, SIMT_WARP)};
  tile_wide_alloc(s->t, &o->wides, block, 2, lead);
  o->stage = tile_alloc(s->t, block, name, s->p->type, KIR_REGISTER, 4, dims);
}

/* ---- from memory to shared memory ---------------------------------------- */

/* A group of v elements of one operand, as a lane sees it. */
typedef struct slot {
  kir_expr_t *w, *u, *l;
  kir_expr_t *outer, *k;      /* of element 0, in the tile */
  kir_expr_t *is_there;       /* the slot is one at all; NULL: always */
} slot_t;

static void find_slot(simt_t *s, const operand_t *o, slot_t *at) {
  int64_t threads = s->warps * SIMT_WARP;
  kir_expr_t *number = add(s, times(s, at->u, threads),
                           add(s, times(s, at->w, SIMT_WARP), at->l));
  at->is_there = NULL;
  if (o->groups % threads != 0) {
    at->is_there = tile_less(s->t, number, tile_int(s->t, o->groups));
  }
  if (o->is_deep) {
    int64_t across = s->shape.depth / o->v;
    at->k = times(s, rest(s, number, across), o->v);
    at->outer = quotient(s, number, across);
  } else {
    int64_t across = o->size / o->v;
    at->outer = times(s, rest(s, number, across), o->v);
    at->k = quotient(s, number, across);
  }
}

/* Sets the operand's indices to element v of a slot; whether it is one, NULL:
 * always. */
static kir_expr_t *set_element(simt_t *s, const operand_t *o,
                               const slot_t *at, kir_expr_t *kb,
                               kir_expr_t *v) {
  kir_expr_t *outer = add(s, o->base, at->outer), *k = add(s, kb, at->k);
  kir_expr_t **moving = o->is_deep ? &k : &outer;
  kir_expr_t *first[2] = {outer, k};
  *moving = add(s, *moving, v);
  if (o->outer->count > 0) tile_set_index(s->t, o->outer->flat, outer);
  tile_set_index(s->t, s->p->k.flat, k);
  /* with all v neighbours inside, or none, it is the same for all */
  bool is_wide = o->wides.loads.length > 0;
  kir_expr_t *is_in = is_below(s, is_wide ? first[1] : k, s->p->k.extent,
                               s->shape.depth);
  if (o->outer->count > 0) {
    is_in = both(s, is_below(s, is_wide ? first[0] : outer, o->outer->extent,
                             o->size),
                 is_in);
  }
  return both(s, at->is_there, is_in);
}

static kir_expr_t *value_at(simt_t *s, const operand_t *o, const slot_t *at,
                            kir_expr_t *kb, kir_expr_t *v) {
  kir_expr_t *is_in = set_element(s, o, at, kb, v);
  kir_expr_t *value = tile_expr(s->t, o->e);
  if (is_in == NULL) return value;
  kir_expr_t *args[3] = {is_in, value, contraction_zero(s->p)};
  return kir_op(s->t->arena, KIR_X_SELECT, s->p->type, 3, args);
}

/* Starts what takes long: loads from memory. */
static void fetch(simt_t *s, operand_t *o, kir_block_t *block,
                  kir_expr_t *kb) {
  slot_t at;
  bool is_wide = o->wides.loads.length > 0;
  block = warp_loop(s, block, &at.w);
  block = unroll(s, block, "u", o->slots, &at.u);
  if (is_wide) {
    kir_stmt_t *loop;
    kir_block_t *body = lanes(s, block, &at.l, &loop);
    find_slot(s, o, &at);
    loop->mask = set_element(s, o, &at, kb, tile_int(s->t, 0));
    tile_wide_load(s->t, &o->wides, body, (kir_expr_t *[]){at.w, at.u}, at.l);
    return;
  }
  kir_expr_t *v = tile_int(s->t, 0);
  kir_block_t *body = lanes(s, block, &at.l, NULL);
  find_slot(s, o, &at);
  kir_expr_t *subs[4] = {at.w, at.u, v, at.l};
  tile_store(s->t, body, o->stage, 4, subs, value_at(s, o, &at, kb, v));
}

static kir_expr_t *shared_place(simt_t *s, const operand_t *o,
                                kir_expr_t *half, kir_expr_t *group,
                                kir_expr_t *in_group, kir_expr_t *i) {
  kir_expr_t *start = add(s, times(s, half, o->half), tile_int(s->t, o->at));
  kir_expr_t *row = add(s, times(s, group, s->v * o->size + GAP),
                        times(s, in_group, o->size));
  return add(s, add(s, start, row), i);
}

/* What was fetched goes into a half of shared memory. */
static void put(simt_t *s, operand_t *o, kir_block_t *block, kir_expr_t *kb,
                kir_expr_t *half) {
  slot_t at;
  bool is_wide = o->wides.loads.length > 0;
  kir_expr_t *v;
  block = warp_loop(s, block, &at.w);
  block = unroll(s, block, "u", o->slots, &at.u);
  if (is_wide) {
    kir_block_t *each = unroll(s, block, "v", o->v, &v);
    kir_block_t *body = lanes(s, each, &at.l, NULL);
    find_slot(s, o, &at);
    tile_wide_use(s->t, &o->wides, (kir_expr_t *[]){at.w, at.u}, v, at.l);
    kir_expr_t *subs[4] = {at.w, at.u, v, at.l};
    tile_store(s->t, body, o->stage, 4, subs, value_at(s, o, &at, kb, v));
    tile_wide_end(s->t, &o->wides);
  }
  kir_stmt_t *loop;
  bool is_copy = is_wide && !o->is_deep;
  kir_block_t *each = is_copy ? block : unroll(s, block, "v", o->v, &v);
  kir_block_t *body = lanes(s, each, &at.l, &loop);
  find_slot(s, o, &at);
  loop->mask = at.is_there;
  kir_expr_t *in_group = is_wide && o->is_deep ? v : rest(s, at.k, s->v);
  kir_expr_t *to = shared_place(s, o, half, quotient(s, at.k, s->v), in_group,
                                at.outer);
  if (!is_copy) {
    kir_expr_t *from[4] = {at.w, at.u, v, at.l};
    tile_store(s->t, body, s->shared, 1, &to,
               kir_load(s->t->arena, o->stage, 4, from));
    return;
  }
  kir_expr_t *from[4] = {at.w, at.u, tile_int(s->t, 0), at.l};
  tile_push(s->t, body,
            kir_copy_stmt(s->t->kernel, s->v, s->shared, 1, &to,
                          kir_load(s->t->arena, o->stage, 4, from)));
}

/* ---- the products -------------------------------------------------------- */

/* One operand's elements at a place of the depth, into registers. */
static void load_row(simt_t *s, const operand_t *o, kir_block_t *block,
                     kir_buffer_t *to, kir_expr_t *half, kir_expr_t *group,
                     kir_expr_t *place, kir_expr_t *w, bool is_m) {
  const shape_t *h = &s->shape;
  int64_t count = is_m ? h->rows : h->columns;
  int64_t n = in_group(s, count);
  int64_t across = is_m ? h->lanes_m : h->lanes_n;
  kir_expr_t *g, *l;
  block = unroll(s, block, "g", count / n, &g);
  block = lanes(s, block, &l, NULL);
  kir_expr_t *warp = is_m ? quotient(s, w, h->warps_n) : rest(s, w, h->warps_n);
  kir_expr_t *lane = is_m ? quotient(s, l, h->lanes_n) : rest(s, l, h->lanes_n);
  kir_expr_t *i = add(s, times(s, warp, across * count),
                      add(s, times(s, g, across * n), times(s, lane, n)));
  kir_expr_t *from = shared_place(s, o, half, group, place, i);
  kir_expr_t *load = kir_load(s->t->arena, s->shared, 1, &from);
  kir_expr_t *subs[2] = {times(s, g, n), l};
  if (n == 1) {
    tile_store(s->t, block, to, 2, subs, load);
  } else {
    tile_push(s->t, block,
              kir_copy_stmt(s->t->kernel, n, to, 2, subs, load));
  }
}

/* All products of a warp at one place of the depth. */
static void multiply(simt_t *s, kir_block_t *block, kir_buffer_t *const *regs,
                     kir_expr_t *half, kir_expr_t *group, kir_expr_t *place,
                     kir_expr_t *w) {
  kir_expr_t *i, *j, *l;
  load_row(s, &s->a, block, regs[0], half, group, place, w, true);
  load_row(s, &s->b, block, regs[1], half, group, place, w, false);
  block = unroll(s, block, "i", s->shape.rows, &i);
  block = unroll(s, block, "j", s->shape.columns, &j);
  block = lanes(s, block, &l, NULL);
  kir_expr_t *at[4] = {w, i, j, l}, *row[2] = {i, l}, *column[2] = {j, l};
  kir_expr_t *factors[3] = {kir_load(s->t->arena, regs[0], 2, row),
                            kir_load(s->t->arena, regs[1], 2, column),
                            kir_load(s->t->arena, s->acc, 4, at)};
  tile_store(s->t, block, s->acc, 4, at,
             kir_op(s->t->arena, KIR_X_FMA, s->p->type, 3, factors));
}

/* What is there of one kc: groups of v places, then the rest. */
static void compute(simt_t *s, kir_block_t *block, kir_expr_t *kb,
                    kir_expr_t *half) {
  tile_t *t = s->t;
  product_t *p = s->p;
  ix_pool_t *pool = t->module->pool;
  kir_expr_t *w, *g, *e;
  kir_expr_t *kh = tile_int(t, s->shape.depth);
  if (!tile_is_multiple(p->k.extent, s->shape.depth)) {
    kh = contraction_name(
        p, block, "kh", contraction_part(p, kb, p->k.extent, s->shape.depth));
  }
  block = warp_loop(s, block, &w);
  kir_buffer_t *regs[2];
  const ix_poly_t *dims[2] = {ix_const(pool, s->shape.rows),
                              ix_const(pool, SIMT_WARP)};
  regs[0] = tile_alloc(t, block, "as", p->type, KIR_REGISTER, 2, dims);
  dims[0] = ix_const(pool, s->shape.columns);
  regs[1] = tile_alloc(t, block, "bs", p->type, KIR_REGISTER, 2, dims);
  kir_expr_t *whole = quotient(s, kh, s->v);
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, "g",
                                tile_int(t, 0), whole, 1, &g);
  body = unroll(s, body, "e", s->v, &e);
  multiply(s, body, regs, half, g, e, w);
  if (tile_is_multiple(p->k.extent, s->v)) return;
  body = tile_loop(t, block, KIR_LOOP_SERIAL, "e", tile_int(t, 0),
                   rest(s, kh, s->v), 1, &e);
  multiply(s, body, regs, half, whole, e, w);
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

static void bring(simt_t *s, kir_block_t *block, kir_expr_t *kb,
                  kir_expr_t *half, bool is_fetch) {
  operand_t *both_of[2] = {&s->a, &s->b};
  for (int i = 0; i < 2; i++) {
    if (is_fetch) fetch(s, both_of[i], block, kb);
    else put(s, both_of[i], block, kb, half);
  }
}

static void barrier(simt_t *s, kir_block_t *block) {
  kir_stmt_t *meet = TD_NEW(s->t->arena, kir_stmt_t);
  meet->kind = KIR_BARRIER;
  tile_push(s->t, block, meet);
}

/* The turn before the first one brings the first kc: what operands cost is
 * written out once. */
static void main_loop(simt_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  kir_expr_t *kb, *depth = tile_dim(t, s->p->k.extent);
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, "kb",
                                tile_int(t, -s->shape.depth), depth,
                                s->shape.depth, &kb);
  kir_expr_t *next = contraction_name(
      s->p, body, "next", add(s, kb, tile_int(t, s->shape.depth)));
  kir_expr_t *half = contraction_name(
      s->p, body, "half", rest(s, quotient(s, next, s->shape.depth), 2));
  kir_stmt_t *more = tile_push(t, body, tile_if(t, tile_less(t, next, depth)));
  bring(s, &more->body, next, NULL, true);
  kir_stmt_t *here = tile_push(
      t, body, tile_if(t, tile_op2(t, KIR_X_GE, TDSL_DTYPE_BOOL, kb,
                                   tile_int(t, 0))));
  kir_expr_t *other =
      tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, tile_int(t, 1), half);
  compute(s, &here->body, kb, other);
  more = tile_push(t, body, tile_if(t, tile_less(t, next, depth)));
  bring(s, &more->body, next, half, false);
  barrier(s, body);
}

/* ---- the kernel ---------------------------------------------------------- */

static void describe(simt_t *s) {
  product_t *p = s->p;
  tile_t *t = s->t;
  const shape_t *h = &s->shape;
  tile_note(t, "matrix product with what follows it: %s", tile_describe(t));
  tile_note(t, "rows %s, columns %s, depth %s",
            ix_text(t->arena, p->m.extent), ix_text(t->arena, p->n.extent),
            ix_text(t->arena, p->k.extent));
  tile_note(t,
            "a block makes %lld x %lld, %lld of the depth at a time, twice in "
            "shared memory",
            (long long)p->mc, (long long)p->nc, (long long)h->depth);
  tile_note(t, "%lld x %lld warps of %lld x %lld lanes, %lld x %lld sums each",
            (long long)h->warps_m, (long long)h->warps_n,
            (long long)h->lanes_m, (long long)h->lanes_n, (long long)h->rows,
            (long long)h->columns);
  tile_note(t, "rows are fetched %s, columns %s",
            s->a.wides.loads.length > 0 ? "in vectors" : "one by one",
            s->b.wides.loads.length > 0 ? "in vectors" : "one by one");
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
  kir_block_t *block = contraction_grid(p, &t->kernel->body, p->mc);
  set_operand(&s, &s.a, p->a, &p->m, p->mb, p->mc);
  set_operand(&s, &s.b, p->b, &p->n, p->nb, p->nc);
  describe(&s);
  s.b.at = 2 * s.a.half;
  int64_t n_rows = in_group(&s, h->rows);
  s.stride = h->lanes_n * h->columns + s.v;
  int64_t elements = s.b.at + 2 * s.b.half;
  int64_t tail = s.warps * h->lanes_m * n_rows * s.stride;
  if (tail > elements) elements = tail;
  const ix_poly_t *size[1] = {ix_const(pool, elements)};
  s.shared = tile_alloc(t, block, "tiles", p->type, KIR_SHARED, 1, size);
  const ix_poly_t *dims[4] = {ix_const(pool, s.warps), ix_const(pool, h->rows),
                              ix_const(pool, h->columns),
                              ix_const(pool, SIMT_WARP)};
  s.acc = tile_alloc(t, block, "acc", p->type, KIR_REGISTER, 4, dims);
  alloc_operand(&s, &s.a, "rows", block);
  alloc_operand(&s, &s.b, "columns", block);
  clear(&s, block);
  main_loop(&s, block);
  int64_t n = contraction_simt_width(&s);
  for (int64_t ig = 0; ig < h->rows / n_rows; ig++) {
    contraction_simt_finish(&s, block, ig, n_rows, n);
  }
}
