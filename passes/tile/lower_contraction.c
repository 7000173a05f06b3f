/* lower_contraction.c: matrix products by blocked tiles.
 *
 *   out[batch.., m, n] =
 *       epilogue(sum over k of a(batch, m, k) * b(batch, k, n))
 *
 * where m, n and k may each be several indices (flatten.h); n holds the last
 * index of the output, so that lanes run along its rows.  One block
 * iteration makes bm x nc:
 *
 *   for each kc of the depth:
 *     pack b into panels [nc / nr][kc][nr]
 *     for each mc rows:
 *       copy a into rows [mc][kc]
 *       for each panel, for each mr rows: mr x nr accumulators in registers,
 *         taken from and put back to the tile, fma over kc
 *       behind the last depth: epilogue over these mc rows of the tile;
 *       behind each panel, if there is one depth only
 *
 * Where half a panel is enough for the last columns, the micro-kernel makes
 * half.  Sums that nothing follows go from registers to memory.  Packing
 * evaluates the operands as they are, so widening, gathers and fused
 * producers cost no pass of their own.  Every accumulator adds its products
 * in index order (plan SERIAL): neither the tile nor the number of rows
 * changes a bit. */
#include "passes/tile/contraction.h"

#include "ir/expr.h"

/* ---- the micro-kernel --------------------------------------------------- */

/* Accumulators of `rows` rows of each panel at work, lanes of one of them.
 * Row r of accumulators: see row_of and panel_of. */
static kir_block_t *each_accumulator(product_t *p, kir_block_t *block,
                                     int64_t rows, kir_expr_t **r,
                                     kir_expr_t **j) {
  tile_t *t = p->t;
  kir_block_t *unrolled =
      tile_loop(t, block, KIR_LOOP_UNROLL, "r", tile_int(t, 0),
                tile_int(t, rows * p->abreast), 1, r);
  return tile_lanes_of(t, unrolled, p->width, j);
}

/* Row `r` of accumulators belongs to this row, and to this panel behind the
 * first one at work. */
static kir_expr_t *row_of(product_t *p, kir_expr_t *r, int64_t rows) {
  tile_t *t = p->t;
  if (p->abreast == 1) return r;
  if (rows == 1) return tile_int(t, 0);
  return tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, r, tile_int(t, rows));
}

static kir_expr_t *panel_of(product_t *p, kir_expr_t *r, int64_t rows) {
  tile_t *t = p->t;
  if (p->abreast == 1) return tile_int(t, 0);
  if (rows == 1) return r;
  return tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, r, tile_int(t, rows));
}

/* Lane j of row `r` of accumulators, from the first panel at work on. */
static kir_expr_t *lane_of(product_t *p, kir_expr_t *r, int64_t rows,
                           kir_expr_t *j) {
  tile_t *t = p->t;
  if (p->abreast == 1) return j;
  kir_expr_t *first =
      kir_mul(t->arena, panel_of(p, r, rows), tile_int(t, p->nr));
  return kir_add(t->arena, first, j);
}

/* The tile has all rows of the block, or those at work if one depth block is
 * all there is. */
static kir_expr_t *tile_row(product_t *p, kir_expr_t *i) {
  return p->is_shallow ? i : kir_add(p->t->arena, p->ib, i);
}

/* This is the last depth block. */
static kir_expr_t *is_last(product_t *p) {
  tile_t *t = p->t;
  kir_expr_t *end = kir_add(t->arena, p->kb, tile_int(t, p->kc));
  return tile_op2(t, KIR_X_GE, TDSL_DTYPE_BOOL, end,
                  tile_dim(t, p->k.extent));
}

static kir_expr_t *sum_of(product_t *p, kir_buffer_t *acc, kir_expr_t *r,
                          kir_expr_t *j) {
  return kir_load(p->t->arena, acc, 2, (kir_expr_t *[]){r, j});
}

/* Sums of one panel to where the result is. */
static void put_direct(product_t *p, kir_block_t *block, int64_t rows,
                       kir_buffer_t *acc, kir_expr_t *i0, kir_expr_t *base,
                       bool is_whole) {
  tile_t *t = p->t;
  kir_expr_t *r, *j;
  kir_block_t *lanes = each_accumulator(p, block, rows, &r, &j);
  kir_expr_t *column = kir_add(t->arena, base, lane_of(p, r, rows, j));
  if (!is_whole) {
    td_vec_last(&td_vec_last(block)->body)->mask =
        tile_less(t, column, p->nh);
  }
  contraction_set_place(p, kir_add(t->arena, i0, row_of(p, r, rows)),
                        column);
  contraction_put(p, lanes, sum_of(p, acc, r, j));
}

static void put_whole_or_ragged(product_t *p, kir_block_t *block,
                                int64_t rows, kir_buffer_t *acc,
                                kir_expr_t *i0, kir_expr_t *base) {
  tile_t *t = p->t;
  int64_t n;
  if (ix_is_const(p->n.extent, &n) && n % p->nr == 0) {
    put_direct(p, block, rows, acc, i0, base, true);
    return;
  }
  if (p->width < p->nr) { /* the last one */
    put_direct(p, block, rows, acc, i0, base, false);
    return;
  }
  kir_expr_t *end =
      kir_add(t->arena, base, tile_int(t, p->abreast * p->nr));
  kir_stmt_t *choice = tile_push(
      t, block,
      tile_if(t, tile_op2(t, KIR_X_LE, TDSL_DTYPE_BOOL, end, p->nh)));
  put_direct(p, &choice->body, rows, acc, i0, base, true);
  put_direct(p, &choice->orelse, rows, acc, i0, base, false);
}

/* Column j of the panel that begins at `base`. */
static kir_expr_t *tile_column(product_t *p, kir_expr_t *base,
                               kir_expr_t *j) {
  return p->is_narrow ? j : kir_add(p->t->arena, base, j);
}

static void put_tile(product_t *p, kir_block_t *block, int64_t rows,
                     kir_buffer_t *acc, kir_expr_t *i0, kir_expr_t *base) {
  tile_t *t = p->t;
  kir_expr_t *r, *j;
  kir_block_t *lanes = each_accumulator(p, block, rows, &r, &j);
  kir_expr_t *to[2] = {
      tile_row(p, kir_add(t->arena, i0, row_of(p, r, rows))),
      tile_column(p, base, lane_of(p, r, rows, j))};
  tile_store(t, lanes, p->tile, 2, to, sum_of(p, acc, r, j));
}

/* `rows` rows from i0 on, of the panels at work. */
static void micro_kernel(product_t *p, kir_block_t *block, int64_t rows,
                         kir_expr_t *i0, kir_expr_t *panel) {
  tile_t *t = p->t;
  ix_pool_t *pool = t->module->pool;
  const ix_poly_t *dims[2] = {ix_const(pool, rows * p->abreast),
                              ix_const(pool, p->width)};
  kir_buffer_t *acc =
      tile_alloc(t, block, "acc", p->type, KIR_REGISTER, 2, dims);
  kir_expr_t *r, *j, *k;
  kir_expr_t *base = kir_mul(t->arena, panel, tile_int(t, p->nr));
  kir_block_t *first = block, *body;
  if (!p->is_shallow) {
    kir_expr_t *is_first =
        tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, p->kb, tile_int(t, 0));
    kir_stmt_t *begin = tile_push(t, block, tile_if(t, is_first));
    first = &begin->body;
    body = each_accumulator(p, &begin->orelse, rows, &r, &j);
    kir_expr_t *at[2] = {
        tile_row(p, kir_add(t->arena, i0, row_of(p, r, rows))),
        kir_add(t->arena, base, lane_of(p, r, rows, j))};
    tile_store(t, body, acc, 2, (kir_expr_t *[]){r, j},
               kir_load(t->arena, p->tile, 2, at));
  }
  body = each_accumulator(p, first, rows, &r, &j);
  tile_store(t, body, acc, 2, (kir_expr_t *[]){r, j}, contraction_zero(p));
  kir_block_t *depth = contraction_depth(p, block, p->packed != NULL, &k);
  body = each_accumulator(p, depth, rows, &r, &j);
  kir_expr_t *row = kir_add(t->arena, i0, row_of(p, r, rows));
  kir_expr_t *of = kir_add(t->arena, panel, panel_of(p, r, rows));
  kir_expr_t *factors[3] = {contraction_row(p, row, k),
                            contraction_column(p, of, k, j),
                            sum_of(p, acc, r, j)};
  tile_store(t, body, acc, 2, (kir_expr_t *[]){r, j},
             kir_op(t->arena, KIR_X_FMA, p->type, 3, factors));
  if (!p->is_direct) {
    put_tile(p, block, rows, acc, i0, base);
  } else if (p->is_shallow) {
    put_whole_or_ragged(p, block, rows, acc, i0, base);
  } else {
    kir_stmt_t *choice = tile_push(t, block, tile_if(t, is_last(p)));
    put_whole_or_ragged(p, &choice->body, rows, acc, i0, base);
    put_tile(p, &choice->orelse, rows, acc, i0, base);
  }
}

/* The end of as many groups of `rows` rows as there are behind `from`. */
static kir_expr_t *whole_rows(product_t *p, kir_expr_t *from, int64_t rows) {
  tile_t *t = p->t;
  kir_expr_t *rest = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, p->mh, from);
  kir_expr_t *over =
      tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, rest, tile_int(t, rows));
  return tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, p->mh, over);
}

static void some_rows(product_t *p, kir_block_t *block, kir_expr_t *panel,
                      kir_expr_t *from, kir_expr_t *to, int64_t rows) {
  kir_expr_t *i0;
  kir_block_t *body = tile_loop(p->t, block, KIR_LOOP_SERIAL, "i", from, to,
                                rows, &i0);
  micro_kernel(p, body, rows, i0, panel);
}

/* All rows of a panel. A number known now is shared out evenly, so that no
 * group is much smaller than the others; else as many as fit at a time, then
 * fewer. */
static void sweep_rows(product_t *p, kir_block_t *block, kir_expr_t *panel) {
  tile_t *t = p->t;
  kir_expr_t *from = tile_int(t, 0);
  if (p->mh->op == KIR_X_CONST) {
    int64_t all = p->mh->u.i64, groups = (all + p->mr - 1) / p->mr;
    int64_t rows = all / groups, larger = all % groups;
    kir_expr_t *to = tile_int(t, larger * (rows + 1));
    if (larger > 0) some_rows(p, block, panel, from, to, rows + 1);
    if (larger < groups) some_rows(p, block, panel, to, p->mh, rows);
    return;
  }
  int64_t sizes[3] = {p->mr, 4, 1};
  int64_t most = contraction_upper(p->m.extent), last = INT64_MAX;
  for (int s = 0; s < 3; s++) {
    int64_t rows = sizes[s];
    if (rows >= last || rows > most) continue;
    last = rows;
    kir_expr_t *to = rows == 1 ? p->mh : whole_rows(p, from, rows);
    some_rows(p, block, panel, from, to, rows);
    from = to;
  }
}

/* ---- the epilogue ------------------------------------------------------- */

/* Over mh rows of the lead at work and `count` columns from `base` on; `sum`
 * NULL: from the tiles. */
static void epilogue(product_t *p, kir_block_t *block, kir_expr_t *base,
                     kir_expr_t *count, kir_expr_t *sum) {
  tile_t *t = p->t;
  kir_expr_t *i, *j;
  kir_block_t *rows = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                tile_int(t, 0), p->mh, 1, &i);
  kir_block_t *lanes = contraction_lane_steps(t, rows, "j", count, &j);
  contraction_set_place(p, i, kir_add(t->arena, base, j));
  for (uint32_t s = 0; s < p->side_count; s++) {
    if (p->sides[s].lead != p->lead) continue;
    kir_expr_t *at[2] = {tile_row(p, i), tile_column(p, base, j)};
    p->sums[s] = sum;
    if (sum != NULL) continue;
    p->sums[s] = kir_load(t->arena, p->sides[s].tile, 2, at);
    p->sums[s]->is_safe = true; /* scratch is as wide as the lanes */
  }
  contraction_put(p, lanes, NULL);
}

static void finish_all(product_t *p, kir_block_t *block, kir_expr_t *sum) {
  for (uint32_t s = 0; s < p->side_count; s++) {
    if (p->sides[s].lead != s) continue;
    contraction_select(p, s);
    epilogue(p, block, tile_int(p->t, 0), p->nh, sum);
  }
}

/* The sums of the panels at work, while they are in the first cache. */
static void finish_panel(product_t *p, kir_block_t *block,
                         kir_expr_t *panel) {
  tile_t *t = p->t;
  int64_t n;
  kir_expr_t *base = kir_mul(t->arena, panel, tile_int(t, p->nr));
  kir_expr_t *count = tile_int(t, p->abreast * p->nr);
  if (!ix_is_const(p->n.extent, &n) || n % p->nr != 0) {
    kir_expr_t *left = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, p->nh, base);
    count = contraction_name(p, block, "width", tile_min(t, left, count));
  }
  epilogue(p, block, base, count, NULL);
}

/* ---- the kernel --------------------------------------------------------- */

/* mc rows of the block after the other; sets ib and mh. */
static kir_block_t *each_rows(product_t *p, kir_block_t *block,
                              kir_expr_t *bh) {
  tile_t *t = p->t;
  if (p->bm == p->mc) {
    p->ib = tile_int(t, 0);
    p->mh = bh;
    return block;
  }
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "ib", tile_int(t, 0), bh,
                    p->mc, &p->ib);
  kir_expr_t *left = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, bh, p->ib);
  p->mh = p->is_even
              ? tile_int(t, p->mc)
              : contraction_name(p, block, "mh",
                                 tile_min(t, left, tile_int(t, p->mc)));
  return block;
}

/* A sum over nothing is zero: no depth block will say so. */
static void clear_if_empty(product_t *p, kir_block_t *block, kir_expr_t *bh) {
  tile_t *t = p->t;
  int64_t depth;
  if (ix_is_const(p->k.extent, &depth) && depth > 0) return;
  kir_expr_t *none = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL,
                              tile_dim(t, p->k.extent), tile_int(t, 0));
  kir_stmt_t *empty = tile_push(t, block, tile_if(t, none));
  p->ib = tile_int(t, 0);
  p->mh = bh;
  finish_all(p, &empty->body, contraction_zero(p));
}

/* Panels and sums of each side, rows for all of them. */
static void alloc_scratch(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  ix_pool_t *pool = t->module->pool;
  /* rows an odd number of lines apart, so that equal columns of several rows
   * do not compete for one cache set */
  int64_t lines = p->kc / TILE_LANES;
  const ix_poly_t *row_dims[2] = {
      ix_const(pool, p->mc),
      ix_const(pool, (lines + 1 - lines % 2) * TILE_LANES)};
  int64_t rows = p->is_shallow ? p->mc : p->bm;
  for (uint32_t s = 0; s < p->side_count; s++) {
    product_side_t *side = &p->sides[s];
    int64_t nc = p->sides[side->lead].nc;
    const ix_poly_t *panel_dims[3] = {ix_const(pool, nc / p->nr),
                                      ix_const(pool, p->kc + 1),
                                      ix_const(pool, p->nr)};
    if (side->packed == NULL && !p->b_lies) {
      side->panels = tile_alloc(t, block, "panels", p->type, KIR_LOCAL, 3,
                                panel_dims);
    }
    if (s == 0 && !p->a_lies) {
      p->rows = tile_alloc(t, block, "rows", p->type, KIR_LOCAL, 2, row_dims);
    }
    if (p->is_direct && p->is_shallow) continue;
    /* the epilogue's lanes may reach past the last column */
    int64_t columns =
        (p->is_narrow ? p->abreast * p->nr : nc) + TILE_LANES;
    const ix_poly_t *tile_dims[2] = {ix_const(pool, rows),
                                     ix_const(pool, columns)};
    side->tile = tile_alloc(t, block, "tile", p->type, KIR_LOCAL, 2,
                            tile_dims);
  }
  contraction_select(p, 0);
}

/* What is there of `size` from one of its multiples on. */
static kir_expr_t *part_of(product_t *p, kir_block_t *block, const char *name,
                           kir_expr_t *from, const ix_poly_t *extent,
                           int64_t size) {
  int64_t all;
  if (ix_is_const(extent, &all) && all % size == 0) {
    return tile_int(p->t, all < size ? all : size);
  }
  return contraction_name(p, block, name,
                          contraction_part(p, from, extent, size));
}

/* The panels at work, one or p->abreast, of all sides of a lead, then what
 * follows if their sums are complete and near. */
static void one_panel(product_t *p, kir_block_t *block, uint32_t lead,
                      kir_expr_t *panel) {
  for (uint32_t s = lead; s < p->side_count; s++) {
    if (p->sides[s].lead != lead) continue;
    contraction_select(p, s);
    /* which a panel does not depend on */
    tile_set_index(p->t, p->n.flat, p->nb);
    sweep_rows(p, block, panel);
  }
  if (p->is_narrow) finish_panel(p, block, panel);
}

/* What is left behind the last whole panel fits half of one. */
static bool has_half(const product_t *p) {
  int64_t n;
  return ix_is_const(p->n.extent, &n) && n % p->nr > 0 &&
         n % p->nr <= p->nr / 2;
}

static void half_panel(product_t *p, kir_block_t *block, uint32_t lead,
                       kir_expr_t *panel) {
  tile_t *t = p->t;
  int64_t n;
  if (!ix_is_const(p->n.extent, &n) || n > p->nc || p->side_count > 1) {
    kir_expr_t *base = kir_mul(t->arena, panel, tile_int(t, p->nr));
    block = &tile_push(t, block, tile_if(t, tile_less(t, base, p->nh)))->body;
  }
  p->width = p->nr / 2;
  one_panel(p, block, lead, panel);
  p->width = p->nr;
}

/* How many columns of each lead are there, where its grid has not said. */
static void count_columns(product_t *p, kir_block_t *block) {
  for (uint32_t s = 0; s < p->side_count; s++) {
    product_side_t *side = &p->sides[s];
    if (side->lead != s || side->nh != NULL) continue;
    side->nh = part_of(p, block, "nh", side->nb, side->n.extent, side->nc);
  }
  contraction_select(p, 0);
}

/* Of the side at work, a half not counted. */
static kir_expr_t *panels_of(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  int64_t over = has_half(p) ? 0 : p->nr - 1;
  if (p->nh->op == KIR_X_CONST) {
    return tile_int(t, (p->nh->u.i64 + over) / p->nr);
  }
  kir_expr_t *up = kir_add(t->arena, p->nh, tile_int(t, over));
  return contraction_name(p, block, "np",
                          tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, up,
                                   tile_int(t, p->nr)));
}

/* Panels from .. to, p->abreast at a time. */
static void some_panels(product_t *p, kir_block_t *rows, uint32_t lead,
                        kir_expr_t *from, kir_expr_t *to) {
  kir_expr_t *panel;
  kir_block_t *panels = tile_loop(p->t, rows, KIR_LOOP_SERIAL, "p", from, to,
                                  p->abreast, &panel);
  contraction_select(p, lead);
  one_panel(p, panels, lead, panel);
}

static void sweep_lead(product_t *p, kir_block_t *rows, uint32_t lead,
                       kir_expr_t *count) {
  tile_t *t = p->t;
  kir_expr_t *whole = count, *many = tile_int(t, p->abreast);
  int64_t abreast = p->abreast;
  if (abreast > 1 && count->op == KIR_X_CONST) {
    whole = tile_int(t, count->u.i64 / abreast * abreast);
  } else if (abreast > 1) {
    kir_expr_t *over = tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, count, many);
    whole = contraction_name(
        p, rows, "abreast",
        tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, count, over));
  }
  some_panels(p, rows, lead, tile_int(t, 0), whole);
  p->abreast = 1;
  bool is_all = whole == count || (count->op == KIR_X_CONST &&
                                   whole->u.i64 == count->u.i64);
  if (!is_all) some_panels(p, rows, lead, whole, count);
  if (has_half(p)) {
    contraction_select(p, lead);
    half_panel(p, rows, lead, count);
  }
  p->abreast = abreast;
}

static void build(product_t *p) {
  tile_t *t = p->t;
  kir_block_t *block = contraction_grid(p, &t->kernel->body, p->bm);
  alloc_scratch(p, block);
  if (p->is_rows) contraction_alloc_rows(p, block);
  kir_expr_t *bh;
  if (p->key == NULL) {
    bh = part_of(p, block, "bh", p->mb, p->m.extent, p->bm);
  } else {
    block = contraction_group(p, block, 0, 0);
    bh = p->count;
  }
  kir_expr_t *panel_count[CONTRACTION_SIDES];
  count_columns(p, block);
  for (uint32_t s = 0; s < p->side_count; s++) {
    if (p->sides[s].lead != s) continue;
    contraction_select(p, s);
    panel_count[s] = panels_of(p, block);
  }
  clear_if_empty(p, block, bh);
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "kb",
                                 tile_int(t, 0), tile_dim(t, p->k.extent),
                                 p->kc, &p->kb);
  p->kh = part_of(p, depth, "kh", p->kb, p->k.extent, p->kc);
  for (uint32_t s = 0; s < p->side_count; s++) {
    contraction_select(p, s);
    if (p->packed == NULL && !p->b_lies) contraction_pack_b(p, depth);
  }
  kir_block_t *rows = each_rows(p, depth, bh);
  if (!p->a_lies) contraction_copy_a(p, rows);
  for (uint32_t s = 0; s < p->side_count; s++) {
    if (p->sides[s].lead == s) sweep_lead(p, rows, s, panel_count[s]);
  }
  if (p->is_direct || p->is_narrow) return;
  if (!p->is_shallow) {
    rows = &tile_push(t, rows, tile_if(t, is_last(p)))->body;
  }
  if (p->is_rows) contraction_finish_rows(p, rows);
  else finish_all(p, rows, NULL);
}

const char *contraction_columns_text(const product_t *p) {
  const char *text = ix_text(p->t->arena, p->sides[0].n.extent);
  for (uint32_t s = 1; s < p->side_count; s++) {
    text = td_arena_printf(p->t->arena, "%s and %s", text,
                           ix_text(p->t->arena, p->sides[s].n.extent));
  }
  return text;
}

static void describe(product_t *p) {
  tile_t *t = p->t;
  tile_note(t, "matrix product with what follows it: %s", tile_describe(t));
  int64_t nc = 0;
  for (uint32_t s = 0; s < p->side_count; s++) {
    nc += p->sides[p->sides[s].lead].nc;
  }
  tile_note(t, "rows %s, columns %s, depth %s",
            ix_text(t->arena, p->m.extent), contraction_columns_text(p),
            ix_text(t->arena, p->k.extent));
  if (p->side_count > 1) {
    tile_note(t, "%u products side by side: rows are brought once for all",
              p->side_count);
  }
  if (p->is_rows) {
    tile_note(t, "a block has all columns of its rows, and finishes each row "
                 "out of its tile");
  }
  if (p->is_thin) {
    tile_note(t,
              "few rows: a block makes %lld columns, %lld at a time; squares "
              "of weights are turned in registers and never stored",
              (long long)nc, (long long)contraction_turn_lanes(p));
  } else {
    tile_note(t,
              "a block makes %lld x %lld, %lld rows and %lld of the depth at "
              "a time; %lld x %lld stay in registers (row of %s, or all "
              "there is)",
              (long long)p->bm, (long long)nc, (long long)p->mc,
              (long long)p->kc, (long long)p->mr, (long long)p->nr,
              t->target->name);
  }
  if (p->key != NULL) {
    tile_note(t, "rows grouped by %s: a block finds its own among %lld",
              p->key->u.value->name, (long long)p->range);
  }
  if (p->sides[0].packed != NULL) {
    tile_note(t, "weights come as panels, in the order of use");
  }
  if (p->a_lies || p->b_lies) {
    tile_note(t, "read where it is: %s",
              !p->b_lies ? "the rows' operand"
                         : p->a_lies ? "both operands"
                                     : "the columns' operand");
  }
  tile_note(t, "each sum adds its products left to right, with one rounding");
}

/* One value as it is, at the indices themselves. */
static bool can_be_direct(const product_t *p) {
  const tile_t *t = p->t;
  return t->node_count == 1 && !p->has_guard &&
         p->node->outs[0]->dtype == p->type && p->m.count <= 1 &&
         p->n.count == 1;
}

bool tile_lower_contraction(tile_t *t) {
  product_t p = {.t = t, .node = t->nodes[0]};
  if (p.node->kind != TIR_MAP) return false;
  p.par = 0;
  while (p.par < p.node->index_count &&
         !p.node->indices[p.par]->is_reduction) {
    p.par++;
  }
  p.type = p.node->body->type;
  if (!contraction_analyse(&p)) return false;
  bool is_simt = t->target->warp > 0;
  p.is_direct = can_be_direct(&p);
  p.is_rows = group_product_has_rows(t->arena, t->nodes, t->node_count);
  /* joined for another target, or by a text */
  if (p.is_rows && (is_simt || !contraction_has_rows(&p))) return false;
  contraction_find_sides(&p);
  if (!p.is_rows) contraction_prepare(&p);
  if (is_simt) {
    contraction_build_simt(&p);
    return true;
  }
  contraction_find_panels(&p);
  contraction_choose_sizes(&p);
  p.width = p.nr;
  describe(&p);
  if (p.is_thin) contraction_build_thin(&p);
  else build(&p);
  return true;
}
