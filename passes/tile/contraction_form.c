/* contraction_form.c: which sums are matrix products, and in what tiles. */
#include "passes/tile/contraction.h"

#include "ir/expr.h"
#include "passes/tensor/group_kernels.h"
#include "runtime/base/num.h"

/* ---- analysis ----------------------------------------------------------- */

int64_t contraction_upper(const ix_poly_t *p) {
  int64_t lo, hi;
  return ix_interval(p, &lo, &hi) ? hi : INT64_MAX;
}

typedef struct bounds {
  tile_t *t;
  ix_facts_t *facts;
  bool is_open;
} bounds_t;

/* A subscript read from memory stays within the bounds of what it is read
 * from (its type says so, and entry checks hold it). */
static const ix_poly_t *data_symbol(void *user, const tir_expr_t *e) {
  bounds_t *b = user;
  if (e->op != TIR_X_LOAD || e->u.value->lo == NULL ||
      e->u.value->hi == NULL) {
    return NULL;
  }
  ix_symbol_t *s = ix_symbol_create(b->t->module->pool, e->u.value->name,
                                    IX_SYM_DATA, e->loc);
  s->lo = e->u.value->lo;
  s->hi = e->u.value->hi;
  return ix_sym(b->t->module->pool, s);
}

static void check_bounds(void *user, tir_expr_t *e) {
  bounds_t *b = user;
  if (e->op != TIR_X_LOAD || b->is_open) return;
  ix_pool_t *pool = b->t->module->pool;
  for (uint32_t d = 0; d < e->arg_count; d++) {
    const ix_poly_t *s =
        tir_expr_poly(pool, b->t->arena, e->args[d], data_symbol, b);
    const ix_poly_t *room =
        s == NULL ? NULL : ix_sub(pool, e->u.value->dims[d], s);
    if (room == NULL || !ix_prove_nonnegative(pool, s, b->facts) ||
        !ix_prove_positive(pool, room, b->facts)) {
      b->is_open = true;
    }
  }
}

/* A guard over parallel indices may wait for the end if the operands read in
 * bounds without it. */
static bool guard_can_wait(product_t *p) {
  tile_t *t = p->t;
  tir_node_t *n = p->node;
  if (n->guard == NULL) return true;
  bounds_t b = {t, ix_facts_create(t->module->pool), false};
  for (uint32_t i = 0; i < n->index_count; i++) {
    const tir_index_t *index = n->indices[i];
    if (index->is_reduction &&
        tir_mentions_index(t->arena, n->guard, index)) {
      return false;
    }
    ix_facts_narrow(b.facts, index->symbol, ix_const(t->module->pool, 0),
                    index->extent);
    ix_facts_extent_nonempty(b.facts, t->module->pool, index->extent);
  }
  tir_walk(t->arena, n->body, check_bounds, &b);
  p->has_guard = !b.is_open;
  return p->has_guard;
}

void contraction_fill_group(flat_group_t *g, const product_list_t *l) {
  g->count = l->count;
  for (uint32_t i = 0; i < l->count; i++) g->members[i] = l->indices[i];
}

bool contraction_analyse(product_t *p) {
  tile_t *t = p->t;
  product_form_t form;
  if (t->plan_serial ||
      !group_product_find_form(t->arena, p->node, &form) ||
      !group_product_pays(&form)) {
    return false;
  }
  p->a = form.a;
  p->b = form.b;
  p->key = form.key;
  contraction_fill_group(&p->batch, &form.batch);
  contraction_fill_group(&p->m, &form.m);
  contraction_fill_group(&p->n, &form.n);
  contraction_fill_group(&p->k, &form.k);
  p->m.extent = p->n.extent = p->k.extent = ix_const(t->module->pool, 1);
  flat_group_t *groups[3] = {&p->m, &p->n, &p->k};
  for (int g = 0; g < 3; g++) {
    for (uint32_t i = 0; i < groups[g]->count; i++) {
      groups[g]->extent = ix_mul(t->module->pool, groups[g]->extent,
                                 groups[g]->members[i]->extent);
      if (groups[g]->extent == NULL) return false;
    }
  }
  return guard_can_wait(p);
}

/* ---- sizes -------------------------------------------------------------- */

enum {
  MOST_BLOCKS = 8,        /* wanted: a few for each thread of a small machine */
  FEW_BLOCKS = 2,
  LEAST_COLUMNS = 64,     /* of a block, or too much of a is copied */
  MOST_ROWS = 1024,       /* of a block: bounds its tile of sums */
  DYNAMIC_PIECES = 3,     /* of mc rows, in a block of a dynamic number */
  MOST_MC = 3,            /* times the target's mc */
  FEW_ROWS = 32,
  THIN_COLUMNS = 64,
  NEAR_DEPTH = 128,
  NEAR_WAY = 4096,        /* bytes of a way of the first cache */
  NEAR_LINE = 64,
  NEAR_LINES = 7,         /* of one set that stay in it: all ways but one */
  NEAR_BYTES = 16384,
  STREAM_DEPTH = 1 << 15, /* elements of a few rows that stay in L2 */
};
/* Multiply-adds of a block that are worth a thread's attention, and of one
 * beside whose work packing more than once is little. */
static const int64_t least_work = 1 << 19, large_work = 1 << 28;

static int64_t round_up(int64_t v, int64_t to) {
  return (v + to - 1) / to * to;
}

/* Rows that divide all there are, not many more than the target's; 0: none.
 * Rows of all blocks are then a number known now. */
static int64_t even_rows(const product_t *p, int64_t m) {
  int64_t most = p->mc + p->mc / 7;
  if (m <= most) return m;
  for (int64_t rows = most; rows > most / 2; rows--) {
    if (m % rows == 0) return rows;
  }
  return 0;
}

int64_t contraction_width_of_rest(const product_t *p) {
  enum { NARROW = 32 }; /* bytes */
  int64_t n, size = p->type == TDSL_DTYPE_F64 ? 8 : 4;
  if (!ix_is_const(p->n.extent, &n) || n % p->nr == 0) return 0;
  if (n % p->nr <= p->nr / 4 && p->nr / 4 * size >= NARROW) return p->nr / 4;
  return n % p->nr <= p->nr / 2 ? p->nr / 2 : 0;
}

bool contraction_is_whole(const product_t *p) {
  int64_t n;
  return p->width == p->nr && ix_is_const(p->n.extent, &n) &&
         (n % p->nr == 0 || contraction_width_of_rest(p) > 0);
}

/* Columns behind the last whole panel that are so few that they need no block
 * of their own: beside it others would wait for the block that has more. */
static int64_t few_behind(const product_t *p, int64_t n) {
  int64_t width = contraction_width_of_rest(p);
  bool is_few = p->side_count == 1 && n > p->nr && width > 0 &&
                width <= p->nr / 4;
  return is_few ? n % p->nr : 0;
}

/* The next larger number of blocks that m rows are shared out to, by whole
 * pieces of mc; 0: none. */
static int64_t more_blocks(const product_t *p, int64_t m, int64_t blocks) {
  int64_t pieces = (m + p->mc - 1) / p->mc;
  for (int64_t b = blocks + 1; b <= pieces; b++) {
    if (!p->is_even || pieces % b == 0) return b;
  }
  return 0;
}

static int64_t block_rows(const product_t *p, int64_t m, int64_t blocks) {
  int64_t pieces = (m + p->mc - 1) / p->mc;
  return (pieces + blocks - 1) / blocks * p->mc;
}

/* Sides whose columns are packed as they are used. */
static uint32_t count_along(const product_t *p) {
  uint32_t count = 0;
  for (uint32_t s = 0; s < p->side_count; s++) count += p->sides[s].is_along;
  return count;
}

/* Blocks as large as may be, since what is packed serves all of one; but
 * enough of them, if there is enough to do. */
static void choose_block(product_t *p, int64_t m, int64_t n, int64_t k) {
  int64_t batch = p->key == NULL ? 1 : contraction_upper(p->group->extent);
  int64_t row_blocks = 1, column_blocks = 1, size;
  /* rows are copied for each block of columns, which cost nothing themselves */
  bool is_by_rows = !p->a_lies && count_along(p) == p->side_count &&
                    ix_is_const(p->m.extent, &size);
  for (uint32_t i = 0; i < p->batch.count; i++) {
    int64_t extent = contraction_upper(p->batch.members[i]->extent);
    if (__builtin_mul_overflow(batch, extent, &batch)) batch = INT64_MAX;
  }
  while (block_rows(p, m, row_blocks) > MOST_ROWS) {
    row_blocks = more_blocks(p, m, row_blocks);
  }
  column_blocks = (n + p->nc - 1) / p->nc;
  int64_t wanted = MOST_BLOCKS;
  if (!__builtin_mul_overflow(m, n, &size) &&
      !__builtin_mul_overflow(size, k, &size)) {
    wanted = size / large_work;
  }
  wanted += wanted % 2; /* shared out evenly by an even number of threads */
  if (wanted > MOST_BLOCKS) wanted = MOST_BLOCKS;
  if (wanted < FEW_BLOCKS) wanted = FEW_BLOCKS;
  for (;;) {
    p->bm = block_rows(p, m, row_blocks);
    p->nc = round_up((n + column_blocks - 1) / column_blocks, p->nr);
    if (batch >= wanted || batch * row_blocks * column_blocks >= wanted) {
      return;
    }
    if (!__builtin_mul_overflow(p->bm, p->nc, &size) &&
        !__builtin_mul_overflow(size, k, &size) && size < 2 * least_work) {
      return;
    }
    int64_t more = more_blocks(p, m, row_blocks);
    if (more > 0 && (is_by_rows || p->bm >= 2 * p->nc)) {
      row_blocks = more;
    } else if (p->nc >= 2 * LEAST_COLUMNS) {
      column_blocks++;
    } else if (more > 0) {
      row_blocks = more;
    } else {
      return;
    }
  }
}

/* Rows whose sums may be kept until all columns are there. */
static int64_t rows_that_fit(const product_t *p) {
  int64_t bytes = 0, size = p->type == TDSL_DTYPE_F64 ? 8 : 4;
  for (uint32_t s = 0; s < p->side_count; s++) {
    int64_t n = contraction_upper(p->sides[s].n.extent);
    if (n > GROUP_ROW_BYTES) return 1;
    bytes += (round_up(n, p->nr) + TILE_LANES) * size;
  }
  return bytes > GROUP_ROW_BYTES ? 1 : GROUP_ROW_BYTES / bytes;
}

/* Blocks of whole rows, `most` at most; enough of them, if there is enough to
 * do. */
static void choose_row_block(product_t *p, int64_t m, int64_t n, int64_t k,
                             int64_t most) {
  int64_t blocks = 1, size;
  p->nc = 0;
  for (uint32_t s = 0; s < p->side_count; s++) {
    p->nc += round_up(contraction_upper(p->sides[s].n.extent), p->nr);
  }
  for (;;) {
    int64_t more = more_blocks(p, m, blocks);
    p->bm = block_rows(p, m, blocks);
    if (more == 0) return;
    bool is_large = __builtin_mul_overflow(p->bm, n, &size) ||
                    __builtin_mul_overflow(size, k, &size) ||
                    size >= 2 * least_work;
    if (p->bm <= most && (blocks >= MOST_BLOCKS || !is_large)) return;
    blocks = more;
  }
}

/* Sides whose columns come as panels. */
static uint32_t count_packed(const product_t *p) {
  uint32_t count = 0;
  for (uint32_t s = 0; s < p->side_count; s++) {
    count += p->sides[s].packed != NULL;
  }
  return count;
}

/* How many panels a few rows take at a time: a sum that waits for the one
 * before leaves the multipliers idle, if there are not enough others. */
static int64_t panels_abreast(const product_t *p, int64_t rows) {
  enum { ENOUGH = 8 }; /* registers of sums */
  int64_t lanes = p->t->target->lanes, abreast = 1;
  if (p->type == TDSL_DTYPE_F64) lanes /= 2;
  if (count_packed(p) < p->side_count || rows <= 0 || rows > p->mr ||
      lanes <= 0) {
    return 1;
  }
  while (2 * abreast * rows * p->nr <= ENOUGH * lanes) abreast *= 2;
  for (uint32_t s = 0; s < p->side_count; s++) {
    int64_t nc = p->sides[p->sides[s].lead].nc;
    while (abreast > 1 && abreast * p->nr > nc) abreast /= 2;
  }
  return abreast;
}

static bool all_turn(product_t *p) {
  bool all = true;
  for (uint32_t s = 0; s < p->side_count && all; s++) {
    contraction_select(p, s);
    all = contraction_turns(p);
  }
  contraction_select(p, 0);
  return all;
}

/* A few rows, weights along the depth: registers hold a square of weights
 * and all sums. */
static bool suits_thin(product_t *p, int64_t m, int64_t n, int64_t k) {
  int64_t size = contraction_turn_lanes(p), rows;
  int64_t left = p->t->target->registers - size - 2;
  return !p->is_rows && p->key == NULL && count_packed(p) == 0 &&
         !p->is_made &&
         ix_is_const(p->m.extent, &rows) &&
         rows == m && m > 0 && m <= left && n >= size && k >= size &&
         all_turn(p);
}

/* An element of memory as it is, neighbours along this index. */
static bool is_plain(const product_t *p, const tir_expr_t *e,
                     const flat_group_t *along) {
  if (e->op != TIR_X_LOAD || e->arg_count == 0 || along->count != 1 ||
      e->u.value->dtype != p->type) {
    return false;
  }
  const tir_expr_t *last = e->args[e->arg_count - 1];
  return last->op == TIR_X_INDEX && last->u.index == along->flat;
}

/* Equal columns of the rows of a micro-kernel lie in so few sets of the first
 * cache, so many bytes apart, that they push each other out. */
static bool rows_compete(const product_t *p, int64_t bytes) {
  int64_t places = 1; /* that rows lie at, before they repeat */
  while (places < p->mr && bytes * places % NEAR_WAY != 0) places++;
  return (p->mr + places - 1) / places > NEAR_LINES;
}

static void note_load(void *user, tir_expr_t *e) {
  bool *reads = user;
  *reads |= e->op == TIR_X_LOAD;
}

static bool reads_places(const product_t *p, const tir_expr_t *load) {
  bool reads = false;
  for (uint32_t i = 0; i < load->arg_count; i++) {
    tir_walk(p->t->arena, load->args[i], note_load, &reads);
  }
  return reads;
}

/* Columns as they lie in memory, at places that nothing needs to be read for,
 * or panels of a narrow type that several groups of rows would widen. */
static bool suits_along(const product_t *p, const product_side_t *side) {
  if (side->packed != NULL) {
    return td_dtype_bytes(side->packed->u.value->dtype) <
               td_dtype_bytes(p->type) &&
           contraction_upper(p->m.extent) > p->mr;
  }
  if (side->is_made || p->k.count != 1 ||
      !is_plain(p, side->b, &side->n)) {
    return false;
  }
  return !reads_places(p, side->b);
}

/* Operands that a copy would not bring closer: rows that do not compete for a
 * few sets of the first cache, and columns that it holds as a whole.  What
 * has to be copied may be so by whoever uses it first. */
static void find_near(product_t *p) {
  int64_t k, n, bytes, size = p->type == TDSL_DTYPE_F64 ? 8 : 4;
  for (uint32_t s = 0; s < p->side_count; s++) {
    p->sides[s].is_along = suits_along(p, &p->sides[s]);
  }
  p->is_along = p->sides[0].is_along;
  if (!ix_is_const(p->k.extent, &k)) return;
  bool is_spread =
      k <= NEAR_DEPTH || (k <= p->kc && !rows_compete(p, k * size));
  p->a_lies = is_spread && p->key == NULL && is_plain(p, p->a, &p->k);
  if (p->packed != NULL || p->is_made || p->side_count > 1) return;
  p->b_lies = ix_is_const(p->n.extent, &n) && is_plain(p, p->b, &p->n) &&
              n % (p->nr / 2) == 0 && !__builtin_mul_overflow(n, k, &bytes) &&
              bytes <= NEAR_BYTES / size;
  if (p->b_lies) p->sides[0].is_along = p->is_along = false;
}

/* Halves columns while there are more than `least` and fewer blocks than
 * `wanted`. */
static void halve_columns(product_t *p, int64_t m, int64_t n, int64_t least,
                          int64_t wanted) {
  int64_t pieces = (m + p->mc - 1) / p->mc;
  while (pieces < MOST_BLOCKS && p->nc > least &&
         pieces * ((n + p->nc - 1) / p->nc) < wanted) {
    p->nc = round_up(p->nc / 2, p->nr);
  }
}

/* Columns are packed before: blocks may be small, but for rows that each of
 * them has to copy.  Then they are wide, and rather of fewer rows. */
static void choose_packed_block(product_t *p, int64_t m, int64_t n) {
  enum { WIDE = 640, LEAST_WIDE = 320, LEAST_GROUPS = 4 };
  if (p->a_lies) {
    halve_columns(p, m, n, LEAST_COLUMNS, 2 * MOST_BLOCKS);
  } else {
    halve_columns(p, m, n, WIDE, 2 * MOST_BLOCKS);
    int64_t blocks = (m + p->mc - 1) / p->mc * ((n + p->nc - 1) / p->nc);
    if (p->is_even && p->mc % 2 == 0 && p->mc / 2 >= LEAST_GROUPS * p->mr &&
        blocks < MOST_BLOCKS) {
      p->mc /= 2;
    }
    halve_columns(p, m, n, LEAST_WIDE, MOST_BLOCKS);
  }
  p->bm = p->mc;
}

/* Tile sizes of the target, no larger than what there is. */
static void choose_sizes(product_t *p) {
  const ir_target_t *target = p->t->target;
  bool is_wide = p->type == TDSL_DTYPE_F64;
  p->mr = target->mr;
  p->nr = is_wide ? target->nr / 2 : target->nr;
  p->mc = target->mc;
  p->kc = is_wide ? target->kc / 2 : target->kc;
  int64_t m = contraction_group_rows(p), rows;
  int64_t n = contraction_columns(p);
  int64_t k = contraction_upper(p->k.extent);
  if (suits_thin(p, m, n, k)) {
    p->is_thin = true;
    p->nc = n < THIN_COLUMNS ? n : THIN_COLUMNS;
    p->bm = p->mc = m;
    return;
  }
  p->nc = target->nc; /* of all sides together */
  find_near(p);
  /* panels are read once by a few rows: from one end to the other */
  bool is_stream = p->packed != NULL && m > 0 && m <= p->mr &&
                   k <= STREAM_DEPTH / m;
  int64_t unit = p->period > TILE_LANES ? p->period : TILE_LANES;
  if (k < p->kc || is_stream) p->kc = round_up(k, unit);
  p->is_shallow = k <= p->kc;
  p->is_narrow =
      p->is_shallow && !p->is_direct && !p->is_rows &&
      p->nr % TILE_LANES == 0;
  if (!p->is_shallow && k < INT64_MAX / 2) {
    int64_t blocks = (k + p->kc - 1) / p->kc;
    p->kc = round_up((k + blocks - 1) / blocks, unit);
  }
  if (p->mr > m) p->mr = m;
  /* as many elements of a at a time as the target says, in more rows where
   * the depth is less */
  bool is_known =
      p->key == NULL && ix_is_const(p->m.extent, &rows) && rows > 0;
  int64_t most = MOST_MC * target->mc, fit = rows_that_fit(p);
  /* nothing is packed and all panels are near: small blocks cost nothing, and
   * few rows still are several */
  if (!is_known && count_packed(p) == p->side_count && fit > FEW_ROWS) {
    fit = FEW_ROWS;
  }
  p->mc = target->kc * target->mc / (is_wide ? 2 * p->kc : p->kc);
  if (p->mc > most) p->mc = most;
  if (p->is_rows && p->mc > fit) p->mc = fit;
  if (p->mc < target->mr) p->mc = target->mr;
  p->mc -= p->mc % target->mr;
  int64_t even = is_known ? even_rows(p, m) : 0;
  p->is_even = even > 0;
  if (p->is_even) p->mc = even;
  if (m < p->mc) p->mc = m;
  /* of rows that are not known only as many as there surely are blocks for */
  if (!is_known && m > DYNAMIC_PIECES * p->mc) m = DYNAMIC_PIECES * p->mc;
  p->bm = block_rows(p, m, 1);
  if (p->is_rows) {
    choose_row_block(p, m, n, k, p->is_shallow ? MOST_ROWS : fit);
    return;
  }
  if (n >= INT64_MAX / 2) {
    p->nc = 8 * p->nr;
    return;
  }
  if (p->nc > n) p->nc = round_up(n, p->nr);
  if (count_packed(p) < p->side_count) {
    p->rest = few_behind(p, n);
    choose_block(p, m, n - p->rest, k);
    return;
  }
  choose_packed_block(p, m, n);
}

/* Small products of a batch, both operands where they are: each is over before
 * hardware has seen where its rows are, so it asks for those of the next one.
 * Every CONTRACTION_NEXT of the depth a row of each operand, which all groups
 * of rows and panels together have to reach. */
static bool suits_next(const product_t *p) {
  enum { MOST_LINES = 8 };
  int64_t m, n, k, size = p->type == TDSL_DTYPE_F64 ? 8 : 4;
  if (!p->a_lies || !p->b_lies || p->batch.count == 0 || !p->is_shallow ||
      p->m.count != 1 || p->k.count != 1 ||
      !ix_is_const(p->m.extent, &m) || !ix_is_const(p->n.extent, &n) ||
      !ix_is_const(p->k.extent, &k) || p->bm < m || p->nc < n ||
      n % p->nr != 0 || k % CONTRACTION_NEXT != 0 || n > NEAR_BYTES ||
      k > NEAR_BYTES || (n + k) * size > MOST_LINES * NEAR_LINE ||
      reads_places(p, p->a) || reads_places(p, p->b)) {
    return false;
  }
  int64_t slots = (m + p->mr - 1) / p->mr * (n / p->nr) *
                  (k / CONTRACTION_NEXT);
  return p->mr > 1 && slots >= m && slots >= k;
}

void contraction_choose_sizes(product_t *p) {
  choose_sizes(p);
  if (p->key != NULL) {
    int64_t m = contraction_upper(p->m.extent);
    p->range = p->bm = m < MOST_ROWS ? m : MOST_ROWS;
    if (p->mc > p->bm) p->mc = p->bm;
  }
  /* what is widened has room for a panel, not for all of them */
  for (uint32_t s = 0; s < p->side_count && p->bm != p->mc; s++) {
    if (p->sides[s].packed != NULL) p->sides[s].is_along = false;
  }
  contraction_share_columns(
      p, p->is_thin ? contraction_turn_lanes(p) : p->nr);
  int64_t rows = p->is_thin || p->is_rows ? 0 : contraction_upper(p->m.extent);
  p->abreast = panels_abreast(p, rows);
  p->asks_next = !p->is_thin && !p->is_rows && suits_next(p);
}
