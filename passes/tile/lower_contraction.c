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
 * Where a part of a panel is enough for the last columns, the micro-kernel
 * makes that.  Sums that nothing follows go from registers to memory.  Packing
 * evaluates the operands as they are, so widening, gathers and fused
 * producers cost no pass of their own.  Every accumulator adds its products
 * in index order (plan SERIAL): neither the tile nor the number of rows
 * changes a bit. */
#include "passes/tile/contraction.h"

#include "ir/expr.h"

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
    kir_expr_t *at[2] = {contraction_tile_row(p, i),
                         contraction_tile_column(p, base, j)};
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
    int64_t nc = p->sides[side->lead].nc + (p->rest > 0 ? p->nr : 0);
    contraction_select(p, s);
    const ix_poly_t *panel_dims[3] = {
        ix_const(pool, contraction_panel_count(p, nc)),
        ix_const(pool, p->kc + 1), ix_const(pool, p->nr)};
    if (p->is_along || (side->packed == NULL && !p->b_lies)) {
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
    contraction_sweep_rows(p, block, panel);
  }
  if (p->is_narrow) finish_panel(p, block, panel);
}

static void part_of_panel(product_t *p, kir_block_t *block, uint32_t lead,
                          kir_expr_t *panel) {
  tile_t *t = p->t;
  int64_t n;
  if (!ix_is_const(p->n.extent, &n) || n - p->rest > p->nc ||
      p->side_count > 1) {
    kir_expr_t *base = kir_mul(t->arena, panel, tile_int(t, p->nr));
    block = &tile_push(t, block, tile_if(t, tile_less(t, base, p->nh)))->body;
  }
  p->width = contraction_width_of_rest(p);
  one_panel(p, block, lead, panel);
  p->width = p->nr;
}

/* Of the only side: the rest goes with the last whole columns. */
static kir_expr_t *columns_and_rest(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  int64_t n;
  if (ix_is_const(p->n.extent, &n) && n - p->rest <= p->nc) {
    return tile_int(t, n);
  }
  kir_expr_t *left = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64,
                              tile_dim(t, p->n.extent), p->nb);
  kir_expr_t *is_last = tile_op2(t, KIR_X_LE, TDSL_DTYPE_BOOL, left,
                                 tile_int(t, p->nc + p->rest));
  kir_expr_t *arms[3] = {is_last, left, tile_int(t, p->nc)};
  return contraction_name(
      p, block, "nh", kir_op(t->arena, KIR_X_SELECT, TDSL_DTYPE_I64, 3, arms));
}

/* How many columns of each lead are there, where its grid has not said. */
static void count_columns(product_t *p, kir_block_t *block) {
  for (uint32_t s = 0; s < p->side_count; s++) {
    product_side_t *side = &p->sides[s];
    if (side->lead != s || side->nh != NULL) continue;
    side->nh = p->rest > 0 ? columns_and_rest(p, block)
                           : part_of(p, block, "nh", side->nb,
                                     side->n.extent, side->nc);
  }
  contraction_select(p, 0);
}

/* Of the side at work, a part of one not counted. */
static kir_expr_t *panels_of(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  int64_t over = contraction_width_of_rest(p) > 0 ? 0 : p->nr - 1;
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
  if (contraction_width_of_rest(p) > 0) {
    contraction_select(p, lead);
    part_of_panel(p, rows, lead, count);
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
    if (p->packed == NULL && !p->b_lies && !p->is_along) {
      contraction_pack_b(p, depth);
    }
  }
  kir_block_t *rows = each_rows(p, depth, bh);
  if (!p->a_lies) contraction_copy_a(p, rows);
  for (uint32_t s = 0; s < p->side_count; s++) {
    if (p->sides[s].lead == s) sweep_lead(p, rows, s, panel_count[s]);
  }
  if (p->is_direct || p->is_narrow) return;
  if (!p->is_shallow) {
    rows = &tile_push(t, rows, tile_if(t, contraction_is_last(p)))->body;
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
  if (p.is_rows && !contraction_has_rows(&p)) return false;
  contraction_find_sides(&p);
  if (p.is_rows && is_simt && !contraction_simt_has_rows(&p)) return false;
  bool is_part = t->split != NULL && !t->split->is_merge;
  if (is_part) contraction_split_prepare(&p);
  else if (!p.is_rows) contraction_prepare(&p);
  if (is_simt) {
    if (t->split != NULL && !is_part) contraction_build_merge(&p);
    else contraction_build_simt(&p);
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
