/* contraction_thin.c: a matrix product of a few rows whose other operand lies
 * along the depth: y[m, n] = sum over k of x[m, k] * w[n, k].
 *
 * Weights are read once and from far away, so nothing may be done to them
 * that costs more than a few instructions a vector: a square of them is
 * loaded row by row, turned in registers, and used for all rows of x before
 * the next one.  Lanes run over columns, and each sum adds its products left
 * to right, as in the other form: the number of rows changes no bit.
 *
 * A square is a line of each of many rows, more streams than the hardware
 * follows to the end of their pages: so each square asks for as many lines of
 * the next columns as it has itself, in the order of memory. */
#include "passes/tile/contraction.h"

#include "runtime/base/num.h"

typedef struct thin {
  product_t *p;
  int64_t rows, size;
  kir_buffer_t *acc, *turned[2]; /* squares of one line; the second: NULL */
} thin_t;

static kir_block_t *each_row(thin_t *s, kir_block_t *block, kir_expr_t **r,
                             kir_expr_t **j) {
  tile_t *t = s->p->t;
  kir_block_t *rows = tile_loop(t, block, KIR_LOOP_UNROLL, "i",
                                tile_int(t, 0), tile_int(t, s->rows), 1, r);
  return tile_lanes_of(t, rows, s->size, j);
}

/* Lines of memory that a whole square has; 0: it is no plain part of rows
 * that follow each other. */
static int64_t lines_of(const thin_t *s) {
  enum { LINE = 64 };
  const product_t *p = s->p;
  const tir_expr_t *b = p->b->op == TIR_X_CAST ? p->b->args[0] : p->b;
  int64_t depth, line;
  if (b->op != TIR_X_LOAD || !ix_is_const(p->k.extent, &depth)) return 0;
  line = LINE / (int64_t)td_dtype_bytes(b->u.value->dtype);
  return depth % line == 0 && s->size * s->size % line == 0
             ? s->size * s->size / line
             : 0;
}

/* Line l of what the square of depth k asks for. */
static void ask_ahead(thin_t *s, kir_block_t *block, kir_expr_t *column,
                      kir_expr_t *k, kir_expr_t *l, int64_t lines) {
  product_t *p = s->p;
  tile_t *t = p->t;
  int64_t depth = 1;
  (void)ix_is_const(p->k.extent, &depth);
  kir_expr_t *at = kir_add(
      t->arena, kir_mul(t->arena, k, tile_int(t, s->size)),
      kir_mul(t->arena, l, tile_int(t, s->size * s->size / lines)));
  kir_expr_t *n = kir_add(t->arena, kir_add(t->arena, p->nb, column),
                          tile_int(t, s->size));
  tile_set_index(t, p->n.flat,
                 kir_add(t->arena, n,
                         tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, at,
                                  tile_int(t, depth))));
  tile_set_index(t, p->k.flat, tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, at,
                                        tile_int(t, depth)));
  const kir_expr_t *load =
      tile_expr(t, p->b->op == TIR_X_CAST ? p->b->args[0] : p->b);
  for (uint32_t i = 0; i < load->arg_count; i++) {
    if (tile_reads_memory(t, load->args[i])) return; /* perhaps beyond */
  }
  tile_ask(t, block, load);
}

/* Depths of a square as a loop, `count` of them or, if 0, all, with what they
 * ask for between them. */
static kir_block_t *each_depth(thin_t *s, kir_block_t *block,
                               kir_expr_t *column, kir_expr_t *k,
                               int64_t count, kir_expr_t **c) {
  tile_t *t = s->p->t;
  int64_t lines = count == 0 ? lines_of(s) : 0;
  kir_expr_t *l, *within;
  if (lines == 0 || s->size % lines != 0) {
    return tile_loop(t, block, KIR_LOOP_UNROLL, "c", tile_int(t, 0),
                     tile_int(t, count == 0 ? s->size : count), 1, c);
  }
  block = tile_loop(t, block, KIR_LOOP_UNROLL, "ahead", tile_int(t, 0),
                    tile_int(t, lines), 1, &l);
  ask_ahead(s, block, column, k, l, lines);
  block = tile_loop(t, block, KIR_LOOP_UNROLL, "c", tile_int(t, 0),
                    tile_int(t, s->size / lines), 1, &within);
  *c = kir_add(t->arena, kir_mul(t->arena, l, tile_int(t, s->size / lines)),
               within);
  return block;
}

/* A square of weights for all rows: depths k .. k + count - 1, those below
 * kh if there is one. */
static void add_square(thin_t *s, kir_block_t *block, kir_buffer_t *turned,
                       kir_expr_t *column, kir_expr_t *k, int64_t count,
                       kir_expr_t *kh) {
  product_t *p = s->p;
  tile_t *t = p->t;
  kir_expr_t *c, *i, *j;
  kir_block_t *depth = each_depth(s, block, column, k, kh == NULL ? 0 : count,
                                  &c);
  kir_expr_t *at = kir_add(t->arena, k, c);
  if (kh != NULL && kh->op != KIR_X_CONST) {
    depth = &tile_push(t, depth, tile_if(t, tile_less(t, at, kh)))->body;
  }
  kir_block_t *lanes = each_row(s, depth, &i, &j);
  contraction_set_place(p, i, tile_int(t, 0));
  tile_set_index(t, p->k.flat, at);
  kir_expr_t *sum = kir_load(t->arena, s->acc, 2, (kir_expr_t *[]){i, j});
  kir_expr_t *factors[3] = {
      tile_expr(t, p->a),
      kir_load(t->arena, turned, 2, (kir_expr_t *[]){c, j}), sum};
  tile_store(t, lanes, s->acc, 2, (kir_expr_t *[]){i, j},
             kir_op(t->arena, KIR_X_FMA, p->type, 3, factors));
}

static void use_square(thin_t *s, kir_block_t *block, kir_expr_t *column,
                       kir_expr_t *k, int64_t count, kir_expr_t *kh) {
  contraction_turn(s->p, block, s->turned, 1, column, k, kh);
  add_square(s, block, s->turned[0], column, k, count, kh);
}

/* Both squares of a line of memory: rows a power of two apart share one place
 * of a cache, from which a line is gone when a second square wants it. */
static void use_pair(thin_t *s, kir_block_t *block, kir_expr_t *column,
                     kir_expr_t *k) {
  tile_t *t = s->p->t;
  contraction_turn(s->p, block, s->turned, 2, column, k, NULL);
  add_square(s, block, s->turned[0], column, k, s->size, NULL);
  add_square(s, block, s->turned[1], column,
             kir_add(t->arena, k, tile_int(t, s->size)), s->size, NULL);
}

static void all_depths(thin_t *s, kir_block_t *block, kir_expr_t *column) {
  product_t *p = s->p;
  tile_t *t = p->t;
  kir_expr_t *k, *depth = tile_dim(t, p->k.extent);
  int64_t known;
  bool is_known = ix_is_const(p->k.extent, &known);
  kir_expr_t *whole =
      is_known ? tile_int(t, known / s->size * s->size)
               : tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, depth,
                          tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, depth,
                                   tile_int(t, s->size)));
  if (!is_known) whole = contraction_name(p, block, "whole", whole);
  bool is_paired = s->turned[1] != NULL && is_known &&
                   known / s->size % 2 == 0;
  kir_block_t *squares =
      tile_loop(t, block, KIR_LOOP_SERIAL, "k", tile_int(t, 0), whole,
                is_paired ? 2 * s->size : s->size, &k);
  if (is_paired) use_pair(s, squares, column, k);
  else use_square(s, squares, column, k, s->size, NULL);
  if (is_known && known % s->size == 0) return;
  if (is_known) {
    use_square(s, block, column, whole, known % s->size,
               tile_int(t, known));
    return;
  }
  kir_stmt_t *rest =
      tile_push(t, block, tile_if(t, tile_less(t, whole, depth)));
  use_square(s, &rest->body, column, whole, s->size - 1, depth);
}

static void put_rows(thin_t *s, kir_block_t *block, kir_expr_t *column) {
  product_t *p = s->p;
  tile_t *t = p->t;
  kir_expr_t *i, *j;
  kir_block_t *lanes = each_row(s, block, &i, &j);
  kir_expr_t *n = kir_add(t->arena, column, j);
  if (p->nh->op != KIR_X_CONST || p->nh->u.i64 % s->size != 0) {
    td_vec_last(&td_vec_last(block)->body)->mask = tile_less(t, n, p->nh);
  }
  contraction_set_place(p, i, n);
  for (uint32_t k = 0; k < p->side_count; k++) {
    if (p->sides[k].lead != p->lead) continue;
    p->sums[k] = kir_load(t->arena, p->sides[k].acc, 2,
                          (kir_expr_t *[]){i, j});
  }
  contraction_put(p, lanes, NULL);
}

/* The columns of one lead: those of each of its sides, a few at a time. */
static void build_lead(thin_t *s, kir_block_t *block, uint32_t lead) {
  product_t *p = s->p;
  tile_t *t = p->t;
  ix_pool_t *pool = t->module->pool;
  product_side_t *of = &p->sides[lead];
  if (of->nh == NULL) {
    of->nh = contraction_name(
        p, block, "nh",
        contraction_part(p, of->nb, of->n.extent, of->nc));
  }
  kir_expr_t *column, *i, *j;
  kir_block_t *columns = tile_loop(t, block, KIR_LOOP_SERIAL, "j",
                                   tile_int(t, 0), of->nh, s->size, &column);
  const ix_poly_t *acc_dims[2] = {ix_const(pool, s->rows),
                                  ix_const(pool, s->size)};
  const ix_poly_t *square[2] = {ix_const(pool, s->size),
                                ix_const(pool, s->size)};
  for (uint32_t k = lead; k < p->side_count; k++) {
    if (p->sides[k].lead != lead) continue;
    contraction_select(p, k);
    s->acc = tile_alloc(t, columns, "acc", p->type, KIR_REGISTER, 2,
                        acc_dims);
    tdsl_dtype_t type = contraction_turn_type(p);
    for (int q = 0; q < (type == TDSL_DTYPE_F16 ? 2 : 1); q++) {
      s->turned[q] = tile_alloc(t, columns, "turned", type, KIR_REGISTER, 2,
                                square);
    }
    p->sides[k].acc = s->acc;
    kir_block_t *lanes = each_row(s, columns, &i, &j);
    tile_store(t, lanes, s->acc, 2, (kir_expr_t *[]){i, j},
               contraction_zero(p));
    all_depths(s, columns, column);
  }
  put_rows(s, columns, column);
}

void contraction_build_thin(product_t *p) {
  thin_t s = {.p = p, .rows = p->mc, .size = contraction_turn_lanes(p)};
  kir_block_t *block = contraction_grid(p, &p->t->kernel->body, p->bm);
  p->ib = p->kb = tile_int(p->t, 0);
  for (uint32_t k = 0; k < p->side_count; k++) {
    if (p->sides[k].lead == k) build_lead(&s, block, k);
  }
}
