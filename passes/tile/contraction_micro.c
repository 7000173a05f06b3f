/* contraction_micro.c: the innermost part of a matrix product: mr x nr sums in
 * registers, along the depth of a block. */
#include "passes/tile/contraction.h"

#include "ir/expr.h"

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
kir_expr_t *contraction_tile_row(product_t *p, kir_expr_t *i) {
  return p->is_shallow ? i : kir_add(p->t->arena, p->ib, i);
}

/* This is the last depth block. */
kir_expr_t *contraction_is_last(product_t *p) {
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
  if (contraction_is_whole(p)) {
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
kir_expr_t *contraction_tile_column(product_t *p, kir_expr_t *base,
                                    kir_expr_t *j) {
  return p->is_narrow ? j : kir_add(p->t->arena, base, j);
}

static void put_tile(product_t *p, kir_block_t *block, int64_t rows,
                     kir_buffer_t *acc, kir_expr_t *i0, kir_expr_t *base) {
  tile_t *t = p->t;
  kir_expr_t *r, *j;
  kir_block_t *lanes = each_accumulator(p, block, rows, &r, &j);
  kir_expr_t *to[2] = {
      contraction_tile_row(p, kir_add(t->arena, i0, row_of(p, r, rows))),
      contraction_tile_column(p, base, lane_of(p, r, rows, j))};
  tile_store(t, lanes, p->tile, 2, to, sum_of(p, acc, r, j));
}

/* A line's first element after the other, of a row of this operand: `row` is
 * of the index `outer`. */
static void ask_row(product_t *p, kir_block_t *block, tir_expr_t *e,
                    const flat_group_t *outer, const flat_group_t *inner,
                    kir_expr_t *row) {
  enum { LINE = 64 };
  tile_t *t = p->t;
  int64_t line = p->type == TDSL_DTYPE_F64 ? LINE / 8 : LINE / 4, width = 0;
  (void)ix_is_const(inner->extent, &width);
  tile_set_index(t, outer->flat, row);
  for (int64_t l = 0; l < width; l += line) {
    tile_set_index(t, inner->flat, tile_int(t, l));
    contraction_ask(p, block, e);
  }
}

/* Depth loop that asks for the operands of the next product of the batch, and
 * for where its sums go. */
static kir_block_t *depth_and_next(product_t *p, kir_block_t *block,
                                   int64_t rows, kir_expr_t *i0,
                                   kir_expr_t *panel, kir_expr_t **k) {
  tile_t *t = p->t;
  int64_t m = 0, depth = 0, step = CONTRACTION_NEXT;
  kir_expr_t *base, *within;
  (void)ix_is_const(p->m.extent, &m);
  (void)ix_is_const(p->k.extent, &depth);
  int64_t groups = (m + p->mr - 1) / p->mr;
  kir_expr_t *group =
      i0->op == KIR_X_CONST
          ? tile_int(t, i0->u.i64 / rows)
          : tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, i0, tile_int(t, rows));
  kir_expr_t *turn = kir_add(
      t->arena, kir_mul(t->arena, panel, tile_int(t, groups)), group);
  kir_expr_t *first = contraction_name(
      p, block, "next",
      kir_mul(t->arena, turn, tile_int(t, depth / step)));
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "k", tile_int(t, 0), p->kh,
                    step, &base);
  kir_expr_t *row = kir_add(
      t->arena, first,
      tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, base, tile_int(t, step)));
  const tir_index_t *z = p->batch.members[p->batch.count - 1];
  tile_set_index(t, z, kir_add(t->arena, p->batch_at, tile_int(t, 1)));
  ask_row(p, block, p->a, &p->m, &p->k, row);
  ask_row(p, block, p->b, &p->k, &p->n, row);
  if (p->is_direct) {
    tile_set_element(t, p->places[0]->u.value, NULL);
    ask_row(p, block, p->places[0], &p->m, &p->n, row);
  }
  tile_set_index(t, z, p->batch_at);
  block = tile_loop(t, block, KIR_LOOP_UNROLL, "within", tile_int(t, 0),
                    tile_int(t, step), 1, &within);
  *k = kir_add(t->arena, base, within);
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, *k));
  return block;
}

/* Panels that lie one behind the other, in the order of use. */
static bool has_next_panel(const product_t *p) {
  if (p->packed == NULL) {
    return !p->b_lies && contraction_panel_count(p, p->nc) > 1;
  }
  const tir_expr_t *depth = p->packed->args[p->packed->arg_count - 2];
  return p->period == 1 && depth->op == TIR_X_INDEX &&
         depth->u.index == p->k.flat;
}

/* Groups of rows that may ask for the next panel while they multiply; too few
 * of them would ask for too much at a time. */
static int64_t asking_groups(const product_t *p) {
  enum { LEAST = 3 };
  if (p->abreast > 1 || p->width < p->nr || !has_next_panel(p)) return 0;
  int64_t rows = p->mh->op == KIR_X_CONST ? p->mh->u.i64 : p->mc;
  int64_t groups = (rows + p->mr - 1) / p->mr;
  if (p->packed != NULL && p->is_along) groups--;
  return groups < LEAST ? 0 : groups;
}

/* What each of them asks for at a depth: elements `from` on. */
typedef struct asking {
  kir_buffer_t *panels;
  kir_expr_t *subs[IX_MAX_RANK];
  kir_expr_t *from;
  int64_t part; /* elements; the same whether a group is small or large */
} asking_t;

/* Each of so many groups has its part of the next panel. */
static void find_part(product_t *p, kir_block_t *block, int64_t groups,
                      int64_t rows, kir_expr_t *i0, kir_expr_t *panel,
                      asking_t *a) {
  tile_t *t = p->t;
  td_arena_t *arena = t->arena;
  a->part = (p->nr + groups - 1) / groups;
  a->panels = contraction_next_panel(p, block, panel, a->subs);
  kir_expr_t *group =
      i0->op == KIR_X_CONST
          ? tile_int(t, i0->u.i64 / rows)
          : tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, i0, tile_int(t, rows));
  if (p->packed != NULL && p->is_along) {
    group = kir_add(arena, group, tile_int(t, -1));
  }
  a->from = contraction_name(
      p, block, "from",
      kir_mul(arena, kir_mul(arena, group, p->kh), tile_int(t, a->part)));
}

static void ask_part(product_t *p, kir_block_t *block, const asking_t *a,
                     kir_expr_t *k) {
  tile_t *t = p->t;
  uint32_t count = p->packed != NULL ? p->packed->arg_count : 3;
  kir_stmt_t *ask = TD_NEW(t->arena, kir_stmt_t);
  ask->kind = KIR_PREFETCH;
  ask->buffer = a->panels;
  ask->sub_count = count;
  ask->subs = TD_NEW_ARRAY(t->arena, kir_expr_t *, count);
  for (uint32_t i = 0; i + 1 < count; i++) ask->subs[i] = a->subs[i];
  ask->subs[count - 1] =
      kir_add(t->arena, a->from,
              kir_mul(t->arena, k, tile_int(t, a->part)));
  tile_push(t, block, ask);
}

/* Where sums go when they are complete: lines that no cache has are brought
 * while they are added up. */
static void ask_place(product_t *p, kir_block_t *block, int64_t rows,
                      kir_expr_t *i0, kir_expr_t *base) {
  enum { LINE = 64 };
  tile_t *t = p->t;
  int64_t line = LINE / (p->type == TDSL_DTYPE_F64 ? 8 : 4), n;
  bool is_aligned = ix_is_const(p->n.extent, &n) && n % line == 0;
  kir_expr_t *r;
  tile_set_element(t, p->places[0]->u.value, NULL);
  kir_block_t *each = tile_loop(t, block, KIR_LOOP_UNROLL, "r",
                                tile_int(t, 0), tile_int(t, rows), 1, &r);
  for (int64_t l = 0; l < p->width + (is_aligned ? 0 : line); l += line) {
    int64_t at = l < p->width ? l : p->width - 1;
    contraction_set_place(p, kir_add(t->arena, i0, r),
                          kir_add(t->arena, base, tile_int(t, at)));
    contraction_ask(p, each, p->places[0]);
  }
}

/* One multiply-add of all sums for each depth; `is_bringing`: with columns
 * that are brought here, and are `is_kept` for other rows. */
static void add_depths(product_t *p, kir_block_t *block, int64_t rows,
                       kir_buffer_t *acc, kir_expr_t *i0, kir_expr_t *panel,
                       bool is_bringing, bool is_kept) {
  tile_t *t = p->t;
  kir_expr_t *r, *j, *k;
  kir_buffer_t *line = NULL;
  bool is_from_panels = p->packed != NULL && (is_bringing || !p->is_along);
  asking_t asking;
  int64_t groups = is_bringing ? 0 : asking_groups(p);
  if (groups > 0) find_part(p, block, groups, rows, i0, panel, &asking);
  kir_block_t *depth =
      p->asks_next ? depth_and_next(p, block, rows, i0, panel, &k)
                   : contraction_depth(p, block, is_from_panels, &k);
  if (groups > 0) ask_part(p, depth, &asking, k);
  if (is_bringing) line = contraction_bring(p, depth, panel, k, is_kept);
  kir_block_t *body = each_accumulator(p, depth, rows, &r, &j);
  kir_expr_t *row = kir_add(t->arena, i0, row_of(p, r, rows));
  kir_expr_t *of = kir_add(t->arena, panel, panel_of(p, r, rows));
  kir_expr_t *factors[3] = {contraction_row(p, row, k),
                            line != NULL ? kir_load(t->arena, line, 1, &j)
                                         : contraction_column(p, of, k, j),
                            sum_of(p, acc, r, j)};
  tile_store(t, body, acc, 2, (kir_expr_t *[]){r, j},
             kir_op(t->arena, KIR_X_FMA, p->type, 3, factors));
}

/* The first rows of a block bring the columns of a panel. */
static void multiply(product_t *p, kir_block_t *block, int64_t rows,
                     kir_buffer_t *acc, kir_expr_t *i0, kir_expr_t *panel,
                     bool has_first, bool is_all) {
  tile_t *t = p->t;
  if (!p->is_along || !has_first || is_all) {
    add_depths(p, block, rows, acc, i0, panel, p->is_along && has_first,
               !is_all);
    return;
  }
  kir_stmt_t *choice = tile_push(
      t, block,
      tile_if(t, tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL,
                          kir_add(t->arena, p->ib, i0), tile_int(t, 0))));
  add_depths(p, &choice->body, rows, acc, i0, panel, true, true);
  add_depths(p, &choice->orelse, rows, acc, i0, panel, false, false);
}

/* `rows` rows from i0 on, of the panels at work; see some_rows. */
static void micro_kernel(product_t *p, kir_block_t *block, int64_t rows,
                         kir_expr_t *i0, kir_expr_t *panel, bool has_first,
                         bool is_all) {
  tile_t *t = p->t;
  ix_pool_t *pool = t->module->pool;
  const ix_poly_t *dims[2] = {ix_const(pool, rows * p->abreast),
                              ix_const(pool, p->width)};
  kir_buffer_t *acc =
      tile_alloc(t, block, "acc", p->type, KIR_REGISTER, 2, dims);
  kir_expr_t *r, *j;
  kir_expr_t *base = kir_mul(t->arena, panel, tile_int(t, p->nr));
  kir_block_t *first = block, *body;
  if (!p->is_shallow) {
    kir_expr_t *is_first =
        tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, p->kb, tile_int(t, 0));
    kir_stmt_t *begin = tile_push(t, block, tile_if(t, is_first));
    first = &begin->body;
    body = each_accumulator(p, &begin->orelse, rows, &r, &j);
    kir_expr_t *at[2] = {
        contraction_tile_row(p, kir_add(t->arena, i0, row_of(p, r, rows))),
        kir_add(t->arena, base, lane_of(p, r, rows, j))};
    tile_store(t, body, acc, 2, (kir_expr_t *[]){r, j},
               kir_load(t->arena, p->tile, 2, at));
  }
  body = each_accumulator(p, first, rows, &r, &j);
  tile_store(t, body, acc, 2, (kir_expr_t *[]){r, j}, contraction_zero(p));
  /* rows of a list have to be read */
  if (p->is_direct && p->is_shallow && p->abreast == 1 && !p->asks_next &&
      p->key == NULL) {
    ask_place(p, block, rows, i0, base);
  }
  multiply(p, block, rows, acc, i0, panel, has_first, is_all);
  if (!p->is_direct) {
    put_tile(p, block, rows, acc, i0, base);
  } else if (p->is_shallow) {
    put_whole_or_ragged(p, block, rows, acc, i0, base);
  } else {
    kir_stmt_t *choice =
        tile_push(t, block, tile_if(t, contraction_is_last(p)));
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

/* `has_first`: a block's first rows may be among them; `is_all`: all rows of
 * a block are one group, this one. */
static void some_rows(product_t *p, kir_block_t *block, kir_expr_t *panel,
                      kir_expr_t *from, kir_expr_t *to, int64_t rows,
                      bool has_first, bool is_all) {
  kir_expr_t *i0;
  kir_block_t *body = tile_loop(p->t, block, KIR_LOOP_SERIAL, "i", from, to,
                                rows, &i0);
  micro_kernel(p, body, rows, i0, panel, has_first, is_all);
}

/* All rows of a panel. A number known now is shared out evenly, so that no
 * group is much smaller than the others; else as many as fit at a time, then
 * fewer. */
void contraction_sweep_rows(product_t *p, kir_block_t *block,
                            kir_expr_t *panel) {
  tile_t *t = p->t;
  kir_expr_t *from = tile_int(t, 0);
  if (p->mh->op == KIR_X_CONST) {
    int64_t all = p->mh->u.i64, groups = (all + p->mr - 1) / p->mr;
    int64_t rows = all / groups, larger = all % groups;
    kir_expr_t *to = tile_int(t, larger * (rows + 1));
    bool is_all = groups == 1 && p->bm == p->mc;
    if (larger > 0) {
      some_rows(p, block, panel, from, to, rows + 1, true, false);
    }
    if (larger < groups) {
      some_rows(p, block, panel, to, p->mh, rows, larger == 0, is_all);
    }
    return;
  }
  int64_t sizes[3] = {p->mr, 4, 1};
  int64_t most = contraction_upper(p->m.extent), last = INT64_MAX;
  for (int s = 0; s < 3; s++) {
    int64_t rows = sizes[s];
    if (rows >= last || rows > most) continue;
    last = rows;
    kir_expr_t *to = rows == 1 ? p->mh : whole_rows(p, from, rows);
    some_rows(p, block, panel, from, to, rows, true, false);
    from = to;
  }
}
