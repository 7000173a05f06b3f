/* nest_choice.c: the largest or smallest of a row of floats, on a CPU.
 *
 * A NaN wins over all numbers and one zero over the other, which costs more
 * than the comparison.  So a row is first gone through as if there were
 * neither: a lane keeps what is larger and notes a NaN in a register of its
 * own.  If there was one, or the result is 0, the row is gone through again
 * by the rules.  Class: bitwise. */
#include "passes/tile/nest.h"

static bool is_float(tdsl_dtype_t type) {
  return type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
}

bool tile_nest_is_choice(const nest_t *s) {
  const tir_node_t *n = s->node;
  return (n->reduce == TIR_REDUCE_MAX || n->reduce == TIR_REDUCE_MIN) &&
         is_float(n->body->type) && n->guard == NULL;
}

static kir_buffer_t *row(tile_t *t, kir_block_t *block, const nest_t *s,
                         const char *name) {
  const ix_poly_t *lanes[1] = {ix_const(t->module->pool, s->lanes)};
  return tile_alloc(t, block, name, s->node->body->type, KIR_REGISTER, 1,
                    lanes);
}

static void fill(tile_t *t, kir_block_t *block, const nest_t *s,
                 kir_buffer_t *b, kir_expr_t *v) {
  kir_expr_t *lane;
  kir_block_t *init = tile_lanes_of(t, block, s->lanes, &lane);
  tile_store(t, init, b, 1, &lane, v);
}

void tile_nest_choice_open(tile_t *t, nest_t *s, kir_block_t *block,
                           int64_t lanes) {
  const tir_node_t *n = s->node;
  s->lanes = lanes;
  if (s->acc == NULL) s->acc = row(t, block, s, "acc");
  if (s->odd == NULL) s->odd = row(t, block, s, "odd");
  fill(t, block, s, s->acc, tile_identity(t, n->reduce, n->body->type));
  fill(t, block, s, s->odd, kir_const_f(t->arena, n->body->type, 1));
}

static kir_expr_t *either(tile_t *t, kir_expr_t *c, kir_expr_t *a,
                          kir_expr_t *b) {
  kir_expr_t *args[3] = {c, a, b};
  return kir_op(t->arena, KIR_X_SELECT, a->type, 3, args);
}

void tile_nest_choice_step(tile_t *t, nest_t *s, kir_block_t *block,
                           kir_expr_t *base) {
  const tir_node_t *n = s->node;
  kir_expr_t *lane;
  kir_block_t *body = tile_lanes_of(t, block, s->lanes, &lane);
  tile_set_index(t, n->indices[n->index_count - 1],
                 kir_add(t->arena, base, lane));
  kir_expr_t *v = tile_let(t, body, "v", tile_expr(t, n->body));
  kir_expr_t *acc = kir_load(t->arena, s->acc, 1, &lane);
  kir_expr_t *odd = kir_load(t->arena, s->odd, 1, &lane);
  kir_expr_t *wins = n->reduce == TIR_REDUCE_MAX
                         ? tile_op2(t, KIR_X_LT, TDSL_DTYPE_BOOL, acc, v)
                         : tile_op2(t, KIR_X_LT, TDSL_DTYPE_BOOL, v, acc);
  tile_store(t, body, s->acc, 1, &lane, either(t, wins, v, acc));
  tile_store(t, body, s->odd, 1, &lane,
             either(t, tile_op2(t, KIR_X_NE, TDSL_DTYPE_BOOL, v, v), v, odd));
}

static kir_expr_t *folded(tile_t *t, const nest_t *s, kir_buffer_t *b) {
  kir_expr_t *fold =
      kir_op(t->arena, KIR_X_FOLD, s->node->body->type, 0, NULL);
  fold->u.buffer = b;
  fold->fold = tile_fold_op(s->node->reduce);
  return fold;
}

/* By the rules. */
static void again(tile_t *t, nest_t *s, kir_block_t *block) {
  const tir_node_t *n = s->node;
  const tir_index_t *last = n->indices[n->index_count - 1];
  kir_expr_t *base, *lane;
  fill(t, block, s, s->acc, tile_identity(t, n->reduce, n->body->type));
  kir_block_t *inner =
      tile_nest_loops(t, s, block, s->par, n->index_count - 1);
  inner = tile_loop(t, inner, KIR_LOOP_SERIAL, last->name, tile_int(t, 0),
                    tile_dim(t, last->extent), s->lanes, &base);
  inner = tile_lanes_of(t, inner, s->lanes, &lane);
  tile_set_index(t, last, kir_add(t->arena, base, lane));
  tile_nest_add(t, s, inner, &lane, 1);
}

void tile_nest_choice_close(tile_t *t, nest_t *s, kir_block_t *block) {
  const tir_node_t *n = s->node;
  kir_expr_t *v = tile_let(t, block, "first", folded(t, s, s->acc));
  kir_expr_t *odd = tile_let(t, block, "odd", folded(t, s, s->odd));
  tile_store_value(t, block, n->outs[0], s->par, s->subs, v);
  kir_expr_t *zero = kir_const_f(t->arena, n->body->type, 0);
  kir_expr_t *is_odd =
      tile_op2(t, KIR_X_OR, TDSL_DTYPE_BOOL,
               tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, v, zero),
               tile_op2(t, KIR_X_NE, TDSL_DTYPE_BOOL, odd, odd));
  block = &tile_push(t, block, tile_if(t, is_odd))->body;
  again(t, s, block);
  tile_store_value(t, block, n->outs[0], s->par, s->subs,
                   folded(t, s, s->acc));
}
