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
 * number of rows changes a bit. Where the depth may be longer than a split of
 * the plan, it begins anew with each, and a total in registers beside it has
 * what the splits before gave. */
#include "passes/tile/contraction_simt.h"

#include "ir/expr.h"
#include "passes/tensor/group_kernels.h"
#include "runtime/base/num.h"

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

/* Operand 0 of the members is a, then come their columns. */
typedef struct regs {
  kir_buffer_t *a, *b[CONTRACTION_SIDES];
} regs_t;

static void load_columns(simt_t *s, kir_block_t *block, const regs_t *regs,
                         const spot_t *at, uint32_t member) {
  /* units that share a place read it alike */
  for (uint32_t u = 0; u < s->unit_count; u++) {
    if (member >= s->units[u].count) continue;
    load_row(s, &s->b[s->units[u].sides[member]], block, regs->b[member], at);
    return;
  }
}

/* All products of a warp at at_once places of the depth. */
static void multiply(simt_t *s, kir_block_t *block, const regs_t *regs,
                     const spot_t *at) {
  kir_expr_t *f, *i, *j, *l;
  bool is_rows_a = s->a.layout == LAYOUT_ROWS;
  bool is_rows_b = s->b[0].layout == LAYOUT_ROWS;
  if (is_rows_a) load_row(s, &s->a, block, regs->a, at);
  for (uint32_t c = 0; c < s->members && is_rows_b; c++) {
    load_columns(s, contraction_simt_where(s, block, c), regs, at, c);
  }
  block = unroll(s, block, "f", s->at_once, &f);
  spot_t one = *at;
  one.place = add(s, at->place, f);
  if (!is_rows_a) load_row(s, &s->a, block, regs->a, &one);
  for (uint32_t c = 0; c < s->members; c++) {
    kir_block_t *body = contraction_simt_where(s, block, c);
    if (!is_rows_b) load_columns(s, body, regs, &one, c);
    body = unroll(s, body, "i", s->shape.rows, &i);
    body = unroll(s, body, "j", s->shape.columns, &j);
    body = lanes(s, body, &l, NULL);
    kir_expr_t *to[4] = {at->w, i, j, l};
    kir_expr_t *factors[3] = {factor(s, &s->a, regs->a, i, f, l),
                              factor(s, &s->b[0], regs->b[c], j, f, l),
                              kir_load(s->t->arena, s->acc[c], 4, to)};
    tile_store(s->t, body, s->acc[c], 4, to,
               kir_op(s->t->arena, KIR_X_FMA, s->p->type, 3, factors));
  }
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
    kir_expr_t *left =
        tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, s->length, kb);
    kh = contraction_name(p, block, "kh", tile_min(t, left, kh));
  }
  spot_t at = {.stage = stage};
  block = warp_loop(s, block, &at.w);
  regs_t regs = {.a = alloc_row(s, &s->a, block, "as")};
  for (uint32_t c = 0; c < s->members; c++) {
    regs.b[c] = alloc_row(s, &s->b[0], block, "bs");
  }
  kir_expr_t *whole = quotient(s, kh, s->v);
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, "g",
                                tile_int(t, 0), whole, 1, &at.group);
  body = unroll(s, body, "e", s->v / s->at_once, &e);
  at.place = times(s, e, s->at_once);
  multiply(s, body, &regs, &at);
  if (tile_is_multiple(p->k.extent, s->v)) return;
  body = tile_loop(t, block, KIR_LOOP_SERIAL, "e", tile_int(t, 0),
                   rest(s, kh, s->v), 1, &at.place);
  at.group = whole;
  multiply(s, body, &regs, &at);
}

typedef enum clearing {
  CLEAR_ALL,  /* sums of this split and of those before */
  NEXT_SPLIT, /* what there is to the total; the next one begins */
  LAST_SPLIT, /* all of it together */
} clearing_t;

/* Adding to -0 changes nothing, adding to +0 would make +0 of -0. */
static void settle(simt_t *s, kir_block_t *block, clearing_t what) {
  tile_t *t = s->t;
  kir_expr_t *w, *i, *j, *l;
  if (what == LAST_SPLIT && !s->has_splits) return;
  block = warp_loop(s, block, &w);
  block = unroll(s, block, "i", s->shape.rows, &i);
  block = unroll(s, block, "j", s->shape.columns, &j);
  block = lanes(s, block, &l, NULL);
  kir_expr_t *at[4] = {w, i, j, l};
  for (uint32_t c = 0; c < s->members; c++) {
    kir_expr_t *zero = contraction_zero(s->p), *sum = NULL;
    if (s->has_splits) {
      sum = what == CLEAR_ALL
                ? kir_const_f(t->arena, s->p->type, -0.0)
                : tile_op2(t, KIR_X_ADD, s->p->type,
                           kir_load(t->arena, s->total[c], 4, at),
                           kir_load(t->arena, s->acc[c], 4, at));
      if (what == LAST_SPLIT) zero = sum;
      else tile_store(t, block, s->total[c], 4, at, sum);
    }
    tile_store(t, block, s->acc[c], 4, at, zero);
  }
}

/* Where the operands of a part of the depth go. */
typedef struct part {
  kir_expr_t *kb, *stage;
} part_t;

/* Starts copies, or fetches what takes long. */
static void begin(simt_t *s, operand_t *o, kir_block_t *block,
                  const part_t *part) {
  if (o->is_async) {
    contraction_simt_start(s, o, block, part->kb, part->stage);
  } else {
    contraction_simt_fetch(s, o, block, part->kb);
  }
}

static void begin_columns(simt_t *s, kir_block_t *block, const unit_t *unit,
                          void *part) {
  for (uint32_t c = 0; c < unit->count; c++) {
    begin(s, &s->b[unit->sides[c]], block, part);
  }
}

static void put(simt_t *s, operand_t *o, kir_block_t *block,
                const part_t *part) {
  if (o->is_async) return;
  contraction_simt_put(s, o, block, part->kb, part->stage);
}

static void put_columns(simt_t *s, kir_block_t *block, const unit_t *unit,
                        void *part) {
  for (uint32_t c = 0; c < unit->count; c++) {
    put(s, &s->b[unit->sides[c]], block, part);
  }
}

/* Splits of the plan, one after the other; from where to where each goes.
 * Turns of the first begin `ahead` of it. */
static kir_block_t *each_split(simt_t *s, kir_block_t *block, int64_t ahead,
                               kir_expr_t **lo, kir_expr_t **hi) {
  tile_t *t = s->t;
  kir_expr_t *first, *zero = tile_int(t, 0), *before = tile_int(t, -ahead);
  *lo = before;
  *hi = s->length;
  if (!s->has_splits) return block;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "split", zero, s->length,
                    GROUP_DEPTH, &first);
  kir_expr_t *is_next = tile_op2(t, KIR_X_GT, TDSL_DTYPE_BOOL, first, zero);
  settle(s, &tile_push(t, block, tile_if(t, is_next))->body, NEXT_SPLIT);
  kir_expr_t *arms[3] = {is_next, first, before};
  *lo = contraction_name(
      s->p, block, "from",
      kir_op(t->arena, KIR_X_SELECT, TDSL_DTYPE_I64, 3, arms));
  kir_expr_t *end = add(s, first, tile_int(t, GROUP_DEPTH));
  if (!tile_is_multiple(s->p->k.extent, GROUP_DEPTH)) {
    end = tile_min(t, end, s->length);
  }
  *hi = contraction_name(s->p, block, "to", end);
  return block;
}

/* Turns before the first bring what it and those after it begin with: what
 * operands cost is written out once. */
static void main_loop(simt_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  bool is_async_b = s->b[0].is_async;
  bool is_async = s->a.is_async || is_async_b;
  int64_t kc = s->shape.depth, ahead = (s->stages - 1) * kc;
  kir_expr_t *kb, *depth = s->length, *lo, *hi;
  kir_block_t *splits = each_split(s, block, ahead, &lo, &hi);
  kir_block_t *body =
      tile_loop(t, splits, KIR_LOOP_SERIAL, "kb", lo, hi, kc, &kb);
  kir_expr_t *next =
      contraction_name(s->p, body, "next", add(s, kb, tile_int(t, ahead)));
  kir_expr_t *stage = contraction_name(
      s->p, body, "stage", rest(s, quotient(s, next, kc), s->stages));
  if (is_async) {
    simple(s, body, KIR_WAIT, s->stages - 2);
    simple(s, body, KIR_BARRIER, 0);
  }
  kir_stmt_t *more = tile_push(t, body, tile_if(t, tile_less(t, next, depth)));
  part_t part = {next, stage};
  begin(s, &s->a, &more->body, &part);
  contraction_simt_each_unit(s, &more->body, 0, begin_columns, &part);
  if (is_async) simple(s, body, KIR_COMMIT, 0);
  kir_stmt_t *here = tile_push(
      t, body, tile_if(t, tile_op2(t, KIR_X_GE, TDSL_DTYPE_BOOL, kb,
                                   tile_int(t, 0))));
  kir_expr_t *now = contraction_name(s->p, &here->body, "now",
                                     rest(s, quotient(s, kb, kc), s->stages));
  compute(s, &here->body, kb, now);
  if (!s->a.is_async || !is_async_b) {
    more = tile_push(t, body, tile_if(t, tile_less(t, next, depth)));
  }
  put(s, &s->a, &more->body, &part);
  if (!is_async_b) {
    contraction_simt_each_unit(s, &more->body, 0, put_columns, &part);
  }
  if (!is_async) simple(s, body, KIR_BARRIER, 0);
  simple(s, block, KIR_BARRIER, 0);
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
            ix_text(t->arena, p->m.extent), contraction_columns_text(p),
            ix_text(t->arena, p->k.extent));
  if (p->side_count > 1) {
    tile_note(t, "%u products side by side, %u of them in a block",
              p->side_count, s->members);
  }
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
  if (p->is_rows) {
    tile_note(t, "a block has all columns of its rows; each warp finishes "
                 "rows out of its tile");
  }
  tile_note(t, "rows are fetched %s, columns %s", how(&s->a), how(&s->b[0]));
  contraction_split_describe(s);
}

void contraction_build_simt(product_t *p) {
  tile_t *t = p->t;
  simt_t s = {.p = p, .t = t};
  TD_CHECK(t->task, t->target->warp == SIMT_WARP, "warps of %u",
           t->target->warp);
  contraction_simt_choose(&s);
  contraction_split_judge(&s);
  kir_block_t *block = contraction_simt_grid(&s, &t->kernel->body);
  contraction_simt_set_operands(&s);
  describe(&s);
  contraction_simt_alloc(&s, block);
  if (p->is_rows) contraction_simt_alloc_rows(&s, block);
  contraction_simt_find_rows(&s, &s.a, block);
  contraction_split_depth(&s, block);
  settle(&s, block, CLEAR_ALL);
  main_loop(&s, block);
  settle(&s, block, LAST_SPLIT);
  if (p->is_rows) contraction_simt_finish_rows(&s, block);
  else contraction_simt_each_unit(&s, block, 0, contraction_simt_finish, NULL);
  if (p->key != NULL) simple(&s, block, KIR_BARRIER, 0);
}
