/* contraction_simt_size.c: the tile of a product by blocks of warps, and what
 * it takes of shared memory and registers. */
#include "passes/tile/contraction_simt.h"

#include "ir/expr.h"
#include "runtime/base/num.h"

enum {
  LONG_OPERAND = 24, /* operations of an operand that a small tile is for */
  MOST_STAGES = 4,
  FEW_STAGES = 3,    /* cover the latency of memory; more if there is room */
  MOST_SUMS = 200,   /* registers of a lane for sums, totals beside them, and
                        what they are of: 55 are left for places and loops */
  MOST_WARPS = 8,    /* of a block: each lane may have 255 registers */
  LARGE_SUMS = 128,  /* of a lane, of all sides of a unit */
  WIDE_DEPTH = 16,   /* of f64 */
};

/* Ordered from large to small. */
static const shape_t shapes[] = {
    {2, 2, 8, 4, 8, 16, 16}, /* 128 x 128 */
    {2, 2, 8, 4, 8, 8, 16},  /* 128 x 64: of two sides each */
    {2, 2, 8, 4, 4, 8, 16},  /* 64 x 64 */
    {4, 1, 8, 4, 4, 8, 16},  /* 128 x 32: few columns */
    {2, 2, 4, 8, 4, 2, 16},  /* 32 x 32: little of both */
    {1, 4, 4, 8, 4, 4, 16},  /* 16 x 128: few rows */
    {1, 4, 1, 32, 4, 1, 32}, /* 4 x 128 */
    {1, 4, 1, 32, 1, 1, 32}, /* 1 x 128 */
    /* all columns of some rows */
    {2, 2, 8, 4, 4, 16, 16}, /* 64 x 128 */
    {1, 4, 4, 8, 8, 8, 16},  /* 32 x 256 */
    {1, 4, 4, 8, 8, 12, 16}, /* 32 x 384 */
    {1, 4, 4, 8, 8, 16, 16}, /* 32 x 512 */
};
enum {
  LARGE, BROAD, MIDDLE, TALL, SMALL, FLAT, THIN, LINE,
  ROW_128, ROW_256, ROW_384, ROW_512,
}; /* ORDER shapes */

/* ---- sizes --------------------------------------------------------------- */

/* Columns of a tile of each unit, at most and at least; tiles of that width. */
typedef struct widths {
  int64_t most, least;
} widths_t;

static widths_t widths_of(const simt_t *s) {
  widths_t w = {1, INT64_MAX};
  for (uint32_t u = 0; u < s->unit_count; u++) {
    int64_t n =
        contraction_upper(s->p->sides[s->units[u].lead].n.extent);
    if (n < 1) n = 1;
    if (n > w.most) w.most = n;
    if (n < w.least) w.least = n;
  }
  return w;
}

static int64_t blocks_of(const simt_t *of, const shape_t *s, int64_t m) {
  const product_t *p = of->p;
  int64_t mc = s->warps_m * s->lanes_m * s->rows;
  int64_t nc = s->warps_n * s->lanes_n * s->columns;
  int64_t batch = p->key == NULL ? 1 : contraction_upper(p->group->extent);
  for (uint32_t i = 0; i < p->batch.count; i++) {
    int64_t extent = contraction_upper(p->batch.members[i]->extent);
    if (__builtin_mul_overflow(batch, extent, &batch)) return INT64_MAX;
  }
  int64_t rows = (m - 1) / mc + 1, columns = 0, all;
  for (uint32_t u = 0; u < of->unit_count; u++) {
    int64_t n = contraction_upper(p->sides[of->units[u].lead].n.extent);
    if (__builtin_add_overflow(columns, (n < 1 ? 0 : n - 1) / nc + 1,
                               &columns)) {
      return INT64_MAX;
    }
  }
  if (__builtin_mul_overflow(rows, columns, &all) ||
      __builtin_mul_overflow(all, batch, &all)) {
    return INT64_MAX;
  }
  return all;
}

/* Shared memory of two stages by way of registers, or of the epilogue. */
static int64_t least_bytes(const simt_t *of, const shape_t *s) {
  const product_t *p = of->p;
  int64_t count = of->members;
  int64_t bytes = (int64_t)td_dtype_bytes(p->type), v = 16 / bytes;
  int64_t mc = s->warps_m * s->lanes_m * s->rows;
  int64_t nc = s->warps_n * s->lanes_n * s->columns;
  int64_t stages = 2 * s->depth * (mc + count * nc) +
                   2 * (1 + count) * s->depth / v * SIMT_GAP;
  int64_t rows = s->rows % 4 == 0 ? 4 : s->rows;
  int64_t tail = count * s->warps_m * s->warps_n * s->lanes_m * rows *
                 (s->lanes_n * s->columns + v);
  return (stages > tail ? stages : tail) * bytes;
}

/* A lane evaluates an operand at as many places as its tile has. */
static bool has_long_operand(const simt_t *s) {
  const product_t *p = s->p;
  size_t size = tir_expr_size(s->t->arena, p->a);
  for (uint32_t k = 0; k < p->side_count; k++) {
    size_t other = tir_expr_size(s->t->arena, p->sides[k].b);
    if (other > size) size = other;
  }
  return size > LONG_OPERAND;
}

bool pass_product_tile(uint32_t number, pass_sizes_t *out) {
  if (number >= sizeof shapes / sizeof shapes[0]) return false;
  const shape_t *h = &shapes[number];
  out->mc = (uint32_t)(h->warps_m * h->lanes_m * h->rows);
  out->nc = (uint32_t)(h->warps_n * h->lanes_n * h->columns);
  return true;
}

static void warn_of_sizes(const simt_t *s, const char *what) {
  td_diag(s->t->task, TD_W07, s->t->kernel->loc,
          "%s that the tuning file has for kernel %s does not fit it, and is "
          "not used",
          what, s->t->kernel->name);
}

/* What a tuning file asks for, in place of what was chosen. */
static void take_asked(const simt_t *s, shape_t *shape) {
  const pass_sizes_t *asked = &s->t->sizes;
  int64_t bytes = (int64_t)td_dtype_bytes(s->p->type);
  shape_t other = *shape;
  pass_sizes_t of = {0};
  if (asked->mc > 0) {
    uint32_t i = 0;
    while (pass_product_tile(i, &of) &&
           (of.mc != asked->mc || of.nc != asked->nc)) {
      i++;
    }
    TD_CHECK(s->t->task, i < sizeof shapes / sizeof shapes[0],
             "no tile of %u x %u", asked->mc, asked->nc);
    other = shapes[i];
    if (bytes > 4) other.depth = WIDE_DEPTH;
  }
  if (asked->kc > 0) other.depth = asked->kc;
  if (memcmp(&other, shape, sizeof other) == 0) return;
  int64_t sums = other.rows * other.columns * s->members * bytes / 4;
  if (has_long_operand(s) || sums > LARGE_SUMS ||
      (bytes > 4 && other.depth > WIDE_DEPTH) ||
      least_bytes(s, &other) > (int64_t)s->t->target->shared_most) {
    warn_of_sizes(s, "the tile");
    return;
  }
  *shape = other;
}

/* The largest tile that is filled and leaves enough blocks for the device. */
static shape_t choose_shape(const simt_t *s) {
  const product_t *p = s->p;
  const ir_target_t *target = s->t->target;
  int64_t m = contraction_group_rows(p);
  widths_t w = widths_of(s);
  int64_t n = w.most;
  int kind = MIDDLE;
  if (m < 1) m = 1;
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
  } else if (!is_wide && s->members == 1 && m > 64 && w.least > 64 &&
             blocks_of(s, &shapes[LARGE], m) >= target->sms) {
    kind = LARGE;
  } else if (!is_wide && s->members == 2 && m > 64 &&
             blocks_of(s, &shapes[BROAD], m) >= target->sms) {
    kind = BROAD;
  }
  int64_t sums = shapes[kind].rows * shapes[kind].columns * s->members;
  if (has_long_operand(s) || sums > LARGE_SUMS ||
      least_bytes(s, &shapes[kind]) > (int64_t)target->shared_most) {
    kind = SMALL;
  }
  shape_t shape = shapes[kind];
  if (is_wide) shape.depth = WIDE_DEPTH;
  take_asked(s, &shape);
  return shape;
}

/* Registers of a lane for sums, for totals where the depth has splits, and
 * for the elements of so many places of the depth that they are made of. */
static int64_t kept_words(const simt_t *s, int64_t operands) {
  const shape_t *h = &s->shape;
  int64_t count = s->members * h->rows * h->columns;
  if (s->has_splits) count *= 2;
  return (count + operands) * (int64_t)td_dtype_bytes(s->p->type) / 4;
}

static void count_load(void *user, tir_expr_t *e) {
  *(uint32_t *)user += e->op == TIR_X_LOAD;
}

/* Words of an operand's part of a stage that a thread has in registers while
 * the part before is multiplied: none of what is copied asynchronously. */
static int64_t fetched_words(const simt_t *s, tir_expr_t *e, int64_t size) {
  const shape_t *h = &s->shape;
  uint32_t loads = 0;
  if (s->t->target->has_async && e->op == TIR_X_LOAD &&
      e->u.value->dtype == s->p->type) {
    return 0;
  }
  tir_walk(s->t->arena, e, count_load, &loads);
  return size * h->depth / (h->warps_m * h->warps_n * SIMT_WARP) * loads;
}

/* The most registers of a lane: each side has what it fetches. */
static int64_t needed_words(const simt_t *s) {
  const product_t *p = s->p;
  const shape_t *h = &s->shape;
  int64_t nc = h->warps_n * h->lanes_n * h->columns;
  int64_t count = h->rows + h->columns;
  count += fetched_words(s, p->a, h->warps_m * h->lanes_m * h->rows);
  for (uint32_t k = 0; k < p->side_count; k++) {
    count += fetched_words(s, p->sides[k].b, nc);
  }
  return kept_words(s, count);
}

/* A lane that has no room for its sums and what is beside them leaves half of
 * its columns to one of another warp: the tile stays what it is, and so do all
 * bits. The assembler would put some into memory, where it wants. */
static void share_columns(simt_t *s) {
  shape_t *h = &s->shape;
  while (needed_words(s) > MOST_SUMS && h->columns % 2 == 0 &&
         h->warps_m * h->warps_n < MOST_WARPS) {
    h->warps_n *= 2;
    h->columns /= 2;
  }
}

/* ---- whole rows ---------------------------------------------------------- */

/* Bytes of what is kept of a row beside its sums; INT64_MAX: no number. */
static int64_t kept_of_row(const product_t *p) {
  const tile_t *t = p->t;
  int64_t all = 0;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_value_t *v = t->nodes[k]->outs[0];
    int64_t bytes = (int64_t)td_dtype_bytes(v->dtype), n;
    if (t->nodes[k]->kind == TIR_UPDATE) continue;
    for (uint32_t d = p->prefix; d < v->rank; d++) {
      if (!ix_is_const(v->dims[d], &n) ||
          __builtin_mul_overflow(bytes, n, &bytes)) {
        return INT64_MAX;
      }
    }
    if (__builtin_add_overflow(all, bytes + 15, &all)) return INT64_MAX;
  }
  return all;
}

static int64_t row_tile(const product_t *p, int64_t *out_width) {
  int64_t n;
  if (!ix_is_const(p->sides[0].n.extent, &n)) return 0;
  return group_product_row_tile(p->t->target, n,
                                contraction_upper(p->k.extent),
                                kept_of_row(p), out_width);
}

bool contraction_simt_has_rows(product_t *p) {
  int64_t width;
  return p->side_count == 1 && p->key == NULL && !p->has_guard &&
         p->type == TDSL_DTYPE_F32 && p->n.count == 1 &&
         row_tile(p, &width) > 0;
}

static shape_t row_shape(const simt_t *s) {
  static const int kinds[] = {TALL,    MIDDLE,  ROW_128,
                              ROW_256, ROW_384, ROW_512};
  int64_t width = 0, rows = row_tile(s->p, &width);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    const shape_t *h = &shapes[kinds[i]];
    if (h->warps_n * h->lanes_n * h->columns == width &&
        h->warps_m * h->lanes_m * h->rows == rows) {
      return *h;
    }
  }
  TD_ICE(s->t->task, "no tile of %lld x %lld", (long long)rows,
         (long long)width);
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
                        const flat_group_t *outer, bool is_m) {
  product_t *p = s->p;
  const shape_t *h = &s->shape;
  int64_t threads = s->warps * SIMT_WARP, size = is_m ? p->mc : p->nc;
  o->e = e;
  o->outer = outer;
  o->base = is_m ? p->mb : p->nb;
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

/* Several units share the places of a member: where their columns would not
 * lie alike all come through registers. */
static void level_operands(simt_t *s) {
  bool is_alike = true;
  for (uint32_t k = 1; k < s->p->side_count; k++) {
    is_alike &= s->b[k].layout == s->b[0].layout;
  }
  for (uint32_t k = 0; k < s->p->side_count && !is_alike; k++) {
    operand_t *o = &s->b[k];
    o->is_async = false;
    o->layout = LAYOUT_GROUPS;
    o->each = s->shape.depth / s->v * (s->v * o->size + SIMT_GAP);
  }
}

static int64_t registers(const simt_t *s, int64_t at_once) {
  int64_t a = s->a.count * (s->a.layout == LAYOUT_ROWS ? at_once : 1);
  int64_t b = s->b[0].count * (s->b[0].layout == LAYOUT_ROWS ? at_once : 1);
  return kept_words(s, a + b);
}

/* Bytes of so many stages; the epilogue's place is used behind them. */
static int64_t stage_bytes(const simt_t *s, int64_t stages) {
  return stages * (s->a.each + s->members * s->b[0].each) *
         (int64_t)td_dtype_bytes(s->p->type);
}

static void choose_stages(simt_t *s) {
  const ir_target_t *target = s->t->target;
  bool has_rows =
      s->a.layout == LAYOUT_ROWS || s->b[0].layout == LAYOUT_ROWS;
  s->stages = 2;
  s->at_once = !has_rows                                ? 1
               : registers(s, s->v) <= MOST_SUMS        ? s->v
               : s->v > 2 && registers(s, 2) <= MOST_SUMS ? 2
                                                        : 1;
  if (!s->a.is_async && !s->b[0].is_async) return;
  s->stages = MOST_STAGES;
  while (s->stages > FEW_STAGES &&
         stage_bytes(s, s->stages) > (int64_t)target->shared) {
    s->stages--;
  }
  if (stage_bytes(s, s->stages) > (int64_t)target->shared_most) s->stages = 2;
  int64_t asked = s->t->sizes.stages;
  if (asked == 0 || s->p->is_rows) return;
  if (stage_bytes(s, asked) > (int64_t)target->shared_most) {
    warn_of_sizes(s, "the number of stages");
    return;
  }
  s->stages = asked;
}

void contraction_simt_find_units(simt_t *s) {
  product_t *p = s->p;
  for (uint32_t k = 0; k < p->side_count; k++) {
    if (p->sides[k].lead != k) continue;
    unit_t *u = &s->units[s->unit_count++];
    u->lead = k;
    for (uint32_t i = k; i < p->side_count; i++) {
      if (p->sides[i].lead == k) u->sides[u->count++] = i;
    }
    if (u->count > s->members) s->members = u->count;
  }
}

void contraction_simt_choose(simt_t *s) {
  product_t *p = s->p;
  contraction_simt_find_units(s);
  s->has_splits = contraction_split_is_here(s);
  s->shape = p->is_rows ? row_shape(s) : choose_shape(s);
  if (!p->is_rows) share_columns(s);
  const shape_t *h = &s->shape;
  s->warps = h->warps_m * h->warps_n;
  s->v = 16 / (int64_t)td_dtype_bytes(p->type);
  p->mc = h->warps_m * h->lanes_m * h->rows;
  p->nc = h->warps_n * h->lanes_n * h->columns;
  for (uint32_t k = 0; k < p->side_count; k++) p->sides[k].nc = p->nc;
}

void contraction_simt_set_operands(simt_t *s) {
  product_t *p = s->p;
  set_operand(s, &s->a, p->a, &p->m, true);
  for (uint32_t k = 0; k < p->side_count; k++) {
    p->sides[k].nb = p->nb;
    set_operand(s, &s->b[k], p->sides[k].b,
                &p->sides[p->sides[k].lead].n, false);
  }
  level_operands(s);
  choose_stages(s);
  s->stride = s->shape.lanes_n * s->shape.columns + s->v;
}

/* ---- places -------------------------------------------------------------- */

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

void contraction_simt_alloc(simt_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  product_t *p = s->p;
  const shape_t *h = &s->shape;
  ix_pool_t *pool = t->module->pool;
  alloc_shared(s, &s->a, "rows", block);
  alloc_operand(s, &s->a, "row", block);
  const ix_poly_t *size[1] = {
      ix_const(pool, s->warps * h->lanes_m * tail_rows(s) * s->stride)};
  const ix_poly_t *dims[4] = {ix_const(pool, s->warps), ix_const(pool, h->rows),
                              ix_const(pool, h->columns),
                              ix_const(pool, SIMT_WARP)};
  for (uint32_t c = 0; c < s->members; c++) {
    kir_buffer_t *shared = NULL;
    for (uint32_t u = 0; u < s->unit_count; u++) {
      if (c >= s->units[u].count) continue;
      operand_t *o = &s->b[s->units[u].sides[c]];
      if (shared == NULL) alloc_shared(s, o, "columns", block);
      else o->shared = shared;
      shared = o->shared;
      alloc_operand(s, o, "column", block);
    }
    if (!p->is_rows) {
      s->tail[c] = tile_alloc(t, block, "sums", p->type, KIR_SHARED, 1, size);
    }
    s->acc[c] = tile_alloc(t, block, "acc", p->type, KIR_REGISTER, 4, dims);
    if (!s->has_splits) continue;
    s->total[c] =
        tile_alloc(t, block, "total", p->type, KIR_REGISTER, 4, dims);
  }
}
