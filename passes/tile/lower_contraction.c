/* lower_contraction.c: matrix products by blocked tiles.
 *
 *   out[batch.., m, n] =
 *       epilogue(sum over k of a(batch, m, k) * b(batch, k, n))
 *
 * where m, n and k may each be several indices (flatten.h); n holds the last
 * index of the output, so that lanes run along its rows.  One block
 * iteration makes a tile of mc x nc:
 *
 *   for each kc of the depth:
 *     pack b into panels [nc / nr][kc][nr], zeros past the edge
 *     copy a into rows [mc][kc]
 *     for each panel, for each mr rows: mr x nr accumulators in registers,
 *       taken from and put back to the tile, fma over kc
 *   epilogue over the tile, row by row
 *
 * Packing evaluates the operands as they are, so widening, gathers and fused
 * producers cost no pass of their own.  Every accumulator adds its products
 * in index order (plan SERIAL): neither the tile nor the number of rows
 * changes a bit. */
#include "passes/tile/contraction.h"

#include "ir/expr.h"

/* ---- packing ------------------------------------------------------------ */

static kir_expr_t *at_least_mask(tile_t *t, kir_expr_t *i, kir_expr_t *end) {
  return tile_less(t, i, end);
}

/* Loop in steps of TILE_LANES from 0 to `count` (of at most `limit`), lanes
 * masked at the end; *out_at is the lane's position. */
static kir_block_t *lane_steps(tile_t *t, kir_block_t *block, const char *name,
                               kir_expr_t *count, kir_expr_t **out_at) {
  kir_expr_t *base, *lane;
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, name,
                                tile_int(t, 0), count, TILE_LANES, &base);
  kir_block_t *inner = tile_lanes(t, body, NULL, &lane);
  *out_at = kir_add(t->arena, base, lane);
  td_vec_last(body)->mask = at_least_mask(t, *out_at, count);
  return inner;
}


/* b into panels, lanes along n: one row of nr elements for each k. */
static void pack_by_columns(product_t *p, kir_block_t *block,
                            kir_expr_t *panel) {
  tile_t *t = p->t;
  kir_expr_t *k, *j;
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "k",
                                 tile_int(t, 0), p->kh, 1, &k);
  kir_block_t *lanes = tile_lanes_of(t, depth, p->nr, &j);
  kir_expr_t *column = kir_add(
      t->arena, kir_mul(t->arena, panel, tile_int(t, p->nr)), j);
  kir_expr_t *n = kir_add(t->arena, p->nb, column);
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, k));
  tile_set_index(t, p->n.flat, n);
  kir_expr_t *inside = tile_less(t, column, p->nh);
  kir_expr_t *v = kir_op(
      t->arena, KIR_X_SELECT, p->type, 3,
      (kir_expr_t *[]){inside, tile_expr(t, p->b), contraction_zero(p)});
  tile_store(t, lanes, p->panels, 3, (kir_expr_t *[]){panel, k, j}, v);
}

/* b into panels, lanes along k: one column at a time. */
static void pack_by_depth(product_t *p, kir_block_t *block,
                          kir_expr_t *panel) {
  tile_t *t = p->t;
  kir_expr_t *j, *k;
  kir_block_t *columns = tile_loop(t, block, KIR_LOOP_SERIAL, "j",
                                   tile_int(t, 0), tile_int(t, p->nr), 1, &j);
  kir_expr_t *column = kir_add(
      t->arena, kir_mul(t->arena, panel, tile_int(t, p->nr)), j);
  kir_stmt_t *inside =
      tile_push(t, columns, tile_if(t, tile_less(t, column, p->nh)));
  kir_block_t *lanes = lane_steps(t, &inside->body, "k", p->kh, &k);
  tile_set_index(t, p->n.flat, kir_add(t->arena, p->nb, column));
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, k));
  tile_store(t, lanes, p->panels, 3, (kir_expr_t *[]){panel, k, j},
             tile_expr(t, p->b));
  lanes = lane_steps(t, &inside->orelse, "k", p->kh, &k);
  tile_store(t, lanes, p->panels, 3, (kir_expr_t *[]){panel, k, j},
             contraction_zero(p));
}

static void copy_rows(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  kir_expr_t *i, *k;
  bool by_rows = p->m.count > 0 && !contraction_runs_along(p, p->a, &p->k) &&
                 contraction_runs_along(p, p->a, &p->m);
  kir_block_t *lanes;
  if (by_rows) {
    kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "k",
                                   tile_int(t, 0), p->kh, 1, &k);
    lanes = lane_steps(t, depth, "i", p->mh, &i);
  } else {
    kir_block_t *rows = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                  tile_int(t, 0), p->mh, 1, &i);
    lanes = lane_steps(t, rows, "k", p->kh, &k);
  }
  tile_set_index(t, p->m.flat, kir_add(t->arena, p->mb, i));
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, k));
  tile_store(t, lanes, p->rows, 2, (kir_expr_t *[]){i, k},
             tile_expr(t, p->a));
}

/* ---- the micro-kernel --------------------------------------------------- */

static kir_block_t *each_accumulator(product_t *p, kir_block_t *block,
                                     int64_t rows, kir_expr_t **r,
                                     kir_expr_t **j) {
  tile_t *t = p->t;
  kir_block_t *unrolled = tile_loop(t, block, KIR_LOOP_UNROLL, "r",
                                    tile_int(t, 0), tile_int(t, rows), 1, r);
  return tile_lanes_of(t, unrolled, p->nr, j);
}

/* `rows` rows from i0 on, of one panel. */
static void micro_kernel(product_t *p, kir_block_t *block, int64_t rows,
                         kir_expr_t *i0, kir_expr_t *panel) {
  tile_t *t = p->t;
  ix_pool_t *pool = t->module->pool;
  const ix_poly_t *dims[2] = {ix_const(pool, rows), ix_const(pool, p->nr)};
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
    kir_expr_t *at[2] = {kir_add(t->arena, i0, r),
                         kir_add(t->arena, base, j)};
    tile_store(t, body, acc, 2, (kir_expr_t *[]){r, j},
               kir_load(t->arena, p->tile, 2, at));
  }
  body = each_accumulator(p, first, rows, &r, &j);
  tile_store(t, body, acc, 2, (kir_expr_t *[]){r, j}, contraction_zero(p));
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "k",
                                 tile_int(t, 0), p->kh, 1, &k);
  body = each_accumulator(p, depth, rows, &r, &j);
  kir_expr_t *row[2] = {kir_add(t->arena, i0, r), k};
  kir_expr_t *column[3] = {panel, k, j};
  kir_expr_t *regs[2] = {r, j};
  kir_expr_t *factors[3] = {kir_load(t->arena, p->rows, 2, row),
                            kir_load(t->arena, p->panels, 3, column),
                            kir_load(t->arena, acc, 2, regs)};
  tile_store(t, body, acc, 2, regs,
             kir_op(t->arena, KIR_X_FMA, p->type, 3, factors));
  body = each_accumulator(p, block, rows, &r, &j);
  kir_expr_t *to[2] = {kir_add(t->arena, i0, r), kir_add(t->arena, base, j)};
  tile_store(t, body, p->tile, 2, to,
             kir_load(t->arena, acc, 2, (kir_expr_t *[]){r, j}));
}

/* The end of as many groups of `rows` rows as there are behind `from`. */
static kir_expr_t *whole_rows(product_t *p, kir_expr_t *from, int64_t rows) {
  tile_t *t = p->t;
  if (p->mh->op == KIR_X_CONST && from->op == KIR_X_CONST) {
    return tile_int(t, p->mh->u.i64 - (p->mh->u.i64 - from->u.i64) % rows);
  }
  kir_expr_t *rest = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, p->mh, from);
  kir_expr_t *over =
      tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, rest, tile_int(t, rows));
  return tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, p->mh, over);
}

/* All rows of a panel: as many as fit at a time, then fewer. */
static void sweep_rows(product_t *p, kir_block_t *block, kir_expr_t *panel) {
  tile_t *t = p->t;
  int64_t sizes[3] = {p->mr, 4, 1};
  int64_t most = contraction_upper(p->m.extent);
  kir_expr_t *from = tile_int(t, 0);
  int64_t last = INT64_MAX;
  for (int s = 0; s < 3; s++) {
    int64_t rows = sizes[s];
    if (rows >= last || rows > most) continue;
    last = rows;
    kir_expr_t *to = rows == 1 ? p->mh : whole_rows(p, from, rows);
    if (to->op == KIR_X_CONST && from->op == KIR_X_CONST &&
        to->u.i64 == from->u.i64) {
      continue;
    }
    kir_expr_t *i0;
    kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, "i", from, to,
                                  rows, &i0);
    micro_kernel(p, body, rows, i0, panel);
    from = to;
  }
}

/* ---- the epilogue ------------------------------------------------------- */

static void put_element(product_t *p, kir_block_t *block, kir_buffer_t *b,
                        uint32_t count, kir_expr_t *const *subs,
                        kir_expr_t *v, void *user) {
  (void)user;
  tile_store(p->t, block, b, count, subs, v);
}

static void epilogue(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  kir_expr_t *i, *j;
  kir_block_t *rows = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                tile_int(t, 0), p->mh, 1, &i);
  kir_block_t *lanes = lane_steps(t, rows, "j", p->nh, &j);
  if (p->m.count > 0) {
    tile_set_index(t, p->m.flat, kir_add(t->arena, p->mb, i));
  }
  tile_set_index(t, p->n.flat, kir_add(t->arena, p->nb, j));
  kir_expr_t *v =
      kir_load(t->arena, p->tile, 2, (kir_expr_t *[]){i, j});
  v->is_safe = true; /* scratch is as wide as the lanes */
  contraction_finish(p, lanes, v, put_element, NULL);
}

/* ---- the kernel --------------------------------------------------------- */

/* A sum over nothing is zero: no depth block will say so. */
static void clear_if_empty(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  int64_t depth;
  if (ix_is_const(p->k.extent, &depth) && depth > 0) return;
  kir_expr_t *none = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL,
                              tile_dim(t, p->k.extent), tile_int(t, 0));
  kir_stmt_t *empty = tile_push(t, block, tile_if(t, none));
  kir_expr_t *i, *j;
  kir_block_t *rows = tile_loop(t, &empty->body, KIR_LOOP_SERIAL, "i",
                                tile_int(t, 0), p->mh, 1, &i);
  kir_block_t *lanes = lane_steps(t, rows, "j", p->nh, &j);
  tile_store(t, lanes, p->tile, 2, (kir_expr_t *[]){i, j}, contraction_zero(p));
}

static void build(product_t *p) {
  tile_t *t = p->t;
  ix_pool_t *pool = t->module->pool;
  kir_block_t *block = &t->kernel->body;
  block = contraction_grid(p, block);
  const ix_poly_t *panel_dims[3] = {ix_const(pool, p->nc / p->nr),
                                    ix_const(pool, p->kc),
                                    ix_const(pool, p->nr)};
  /* rows apart by a few more than kc, so that equal columns of several rows
   * do not compete for one cache set */
  const ix_poly_t *row_dims[2] = {ix_const(pool, p->mc),
                                  ix_const(pool, p->kc + TILE_LANES)};
  /* the epilogue's lanes may reach past the last column */
  const ix_poly_t *tile_dims[2] = {ix_const(pool, p->mc),
                                   ix_const(pool, p->nc + TILE_LANES)};
  p->panels = tile_alloc(t, block, "panels", p->type, KIR_LOCAL, 3,
                         panel_dims);
  p->rows = tile_alloc(t, block, "rows", p->type, KIR_LOCAL, 2, row_dims);
  p->tile = tile_alloc(t, block, "tile", p->type, KIR_LOCAL, 2, tile_dims);
  p->mh = contraction_name(p, block, "mh",
                           contraction_part(p, p->mb, p->m.extent, p->mc));
  p->nh = contraction_name(p, block, "nh",
                           contraction_part(p, p->nb, p->n.extent, p->nc));
  kir_expr_t *up = kir_add(t->arena, p->nh, tile_int(t, p->nr - 1));
  kir_expr_t *panel_count = contraction_name(
      p, block, "np",
      tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, up, tile_int(t, p->nr)));
  clear_if_empty(p, block);
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "kb",
                                 tile_int(t, 0), tile_dim(t, p->k.extent),
                                 p->kc, &p->kb);
  p->kh = contraction_name(p, depth, "kh",
                           contraction_part(p, p->kb, p->k.extent, p->kc));
  kir_expr_t *panel;
  kir_block_t *packing = tile_loop(t, depth, KIR_LOOP_SERIAL, "p",
                                   tile_int(t, 0), panel_count, 1, &panel);
  if (contraction_runs_along(p, p->b, &p->k) &&
      !contraction_runs_along(p, p->b, &p->n)) {
    pack_by_depth(p, packing, panel);
  } else {
    pack_by_columns(p, packing, panel);
  }
  copy_rows(p, depth);
  kir_block_t *panels = tile_loop(t, depth, KIR_LOOP_SERIAL, "p",
                                  tile_int(t, 0), panel_count, 1, &panel);
  sweep_rows(p, panels, panel);
  epilogue(p, block);
}

static void describe(product_t *p) {
  tile_t *t = p->t;
  tile_note(t, "matrix product with what follows it: %s", tile_describe(t));
  tile_note(t, "rows %s, columns %s, depth %s",
            ix_text(t->arena, p->m.extent), ix_text(t->arena, p->n.extent),
            ix_text(t->arena, p->k.extent));
  tile_note(t,
            "a block makes %lld x %lld, %lld of the depth at a time; %lld x "
            "%lld stay in registers (row of %s, or all there is)",
            (long long)p->mc, (long long)p->nc, (long long)p->kc,
            (long long)p->mr, (long long)p->nr, t->target->name);
  tile_note(t, "each sum adds its products left to right, with one rounding");
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
  if (!is_simt) contraction_choose_sizes(&p);
  flat_finish(t, &p.m, "m");
  flat_finish(t, &p.n, "n");
  flat_finish(t, &p.k, "k");
  flat_group_t *groups[3] = {&p.m, &p.n, &p.k};
  p.a = flat_rewrite(t, groups, 3, p.a);
  p.b = flat_rewrite(t, groups, 3, p.b);
  contraction_prepare(&p);
  if (is_simt) {
    contraction_build_simt(&p);
    return true;
  }
  describe(&p);
  build(&p);
  return true;
}
