/* lower_topk.c: the k largest elements of each vector, by selection.
 *
 * The order is total: NaN before numbers, larger before smaller, lower
 * position first among equals.  Pass j finds the first element behind the
 * one that pass j - 1 found, so nothing has to be marked as taken.  Each lane
 * of a pass looks at its own elements; the first of what lanes have is the
 * first of the row.  Class: bitwise. */
#include "passes/tile/tile.h"

static kir_expr_t *is_nan(tile_t *t, kir_expr_t *v) {
  return tile_op2(t, KIR_X_NE, TDSL_DTYPE_BOOL, v, v);
}

static kir_expr_t *both(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_AND, TDSL_DTYPE_BOOL, a, b);
}

static kir_expr_t *either(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_OR, TDSL_DTYPE_BOOL, a, b);
}

static kir_expr_t *negate(tile_t *t, kir_expr_t *a) {
  return kir_op(t->arena, KIR_X_NOT, TDSL_DTYPE_BOOL, 1, &a);
}

kir_expr_t *tile_topk_before(tile_t *t, kir_expr_t *v, kir_expr_t *i,
                             kir_expr_t *w, kir_expr_t *j) {
  kir_expr_t *above = tile_op2(t, KIR_X_GT, TDSL_DTYPE_BOOL, v, w);
  kir_expr_t *equal = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, v, w);
  kir_expr_t *vn = is_nan(t, v), *wn = is_nan(t, w);
  above = either(t, above, both(t, vn, negate(t, wn)));
  equal = either(t, equal, both(t, vn, wn));
  return either(t, above, both(t, equal, tile_less(t, i, j)));
}

/* One for each pass over a row. */
typedef struct top {
  const tir_node_t *node;
  kir_buffer_t *from;
  kir_buffer_t *last, *last_at; /* what the pass before found */
  kir_buffer_t *best, *at;      /* the same of each lane so far */
  kir_expr_t *subs[IX_MAX_RANK];
} top_t;

static kir_expr_t *nowhere(tile_t *t) {
  return tile_int(t, INT64_MAX);
}

static kir_expr_t *chosen(tile_t *t, kir_expr_t *c, kir_expr_t *a,
                          kir_expr_t *b) {
  kir_expr_t *args[3] = {c, a, b};
  return kir_op(t->arena, KIR_X_SELECT, a->type, 3, args);
}

static kir_buffer_t *lanes_of(tile_t *t, kir_block_t *block, const char *name,
                              kir_expr_t *v) {
  const ix_poly_t *lanes[1] = {ix_const(t->module->pool, TILE_LANES)};
  kir_buffer_t *b =
      tile_alloc(t, block, name, v->type, KIR_REGISTER, 1, lanes);
  kir_expr_t *lane;
  kir_block_t *body = tile_lanes(t, block, NULL, &lane);
  tile_store(t, body, b, 1, &lane, v);
  return b;
}

/* A lane takes what is behind the last one and before what it has; among
 * equals it has met the lower position first. */
static void top_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                      kir_expr_t *limit, void *user) {
  top_t *s = user;
  kir_expr_t *index;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &index);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  s->subs[s->from->rank - 1] = index;
  kir_expr_t *v =
      tile_let(t, body, "v",
               kir_load(t->arena, s->from, s->from->rank, s->subs));
  kir_expr_t *last = kir_load(t->arena, s->last, 0, NULL);
  kir_expr_t *last_at = kir_load(t->arena, s->last_at, 0, NULL);
  kir_expr_t *was = kir_load(t->arena, s->best, 1, &lane);
  kir_expr_t *was_at = kir_load(t->arena, s->at, 1, &lane);
  kir_expr_t *is_first_pass = tile_less(t, last_at, tile_int(t, 0));
  kir_expr_t *behind =
      either(t, is_first_pass, tile_topk_before(t, last, last_at, v, index));
  kir_expr_t *is_open =
      tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, was_at, nowhere(t));
  kir_expr_t *above =
      either(t, tile_op2(t, KIR_X_GT, TDSL_DTYPE_BOOL, v, was),
             both(t, is_nan(t, v), negate(t, is_nan(t, was))));
  kir_expr_t *wins =
      tile_let(t, body, "wins", both(t, behind, either(t, is_open, above)));
  tile_store(t, body, s->at, 1, &lane, chosen(t, wins, index, was_at));
  tile_store(t, body, s->best, 1, &lane, chosen(t, wins, v, was));
}

static kir_expr_t *folded(tile_t *t, kir_block_t *block, kir_buffer_t *b,
                          kir_x_t op, const char *name) {
  kir_expr_t *fold = kir_op(t->arena, KIR_X_FOLD, b->dtype, 0, NULL);
  fold->u.buffer = b;
  fold->fold = op;
  return tile_let(t, block, name, fold);
}

/* Lowest position of the largest that lanes have. */
static kir_expr_t *first_of_lanes(tile_t *t, kir_block_t *block, top_t *s) {
  kir_expr_t *lane;
  kir_expr_t *most = folded(t, block, s->best, KIR_X_MAX, "most");
  kir_block_t *body = tile_lanes(t, block, NULL, &lane);
  kir_expr_t *v = kir_load(t->arena, s->best, 1, &lane);
  kir_expr_t *hit = either(t, tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, v, most),
                           both(t, is_nan(t, v), is_nan(t, most)));
  tile_store(t, body, s->at, 1, &lane,
             chosen(t, hit, kir_load(t->arena, s->at, 1, &lane), nowhere(t)));
  return folded(t, block, s->at, KIR_X_MIN, "place");
}

void tile_lower_topk(tile_t *t, tir_node_t *node) {
  const tir_value_t *x = node->operands[0];
  tile_note(t, "the %lld largest of each row of %s: one pass for each",
            (long long)node->k, x->name);
  top_t s = {.node = node, .from = tile_param(t, x, true, false)};
  kir_buffer_t *values = tile_param(t, node->outs[0], false, true);
  kir_buffer_t *positions = tile_param(t, node->outs[1], false, true);
  uint32_t outer = x->rank - 1;
  kir_block_t *block = &t->kernel->body;
  for (uint32_t i = 0; i < outer; i++) {
    block = tile_loop(t, block, KIR_LOOP_BLOCK, "r", tile_int(t, 0),
                      tile_dim(t, x->dims[i]), 1, &s.subs[i]);
  }
  tdsl_dtype_t type = kir_load(t->arena, s.from, 0, NULL)->type;
  const ix_poly_t *none[1] = {NULL};
  s.last = tile_alloc(t, block, "last", type, KIR_REGISTER, 0, none);
  s.last_at =
      tile_alloc(t, block, "last_at", TDSL_DTYPE_I64, KIR_REGISTER, 0, none);
  kir_expr_t *least = tile_identity(t, TIR_REDUCE_MAX, type), *j;
  tile_store(t, block, s.last, 0, NULL, least);
  tile_store(t, block, s.last_at, 0, NULL, tile_int(t, -1));
  kir_block_t *pass = tile_loop(t, block, KIR_LOOP_SERIAL, "j",
                                tile_int(t, 0), tile_int(t, node->k), 1, &j);
  s.best = lanes_of(t, pass, "best", least);
  s.at = lanes_of(t, pass, "at", nowhere(t));
  tile_range_t r = {tile_int(t, 0), tile_dim(t, x->dims[outer])};
  tile_chunks(t, pass, "i", r, top_chunk, &s);
  kir_expr_t *place = first_of_lanes(t, pass, &s);
  s.subs[outer] = place;
  /* of two zeros the one that stands there */
  kir_expr_t *v = tile_let(t, pass, "v",
                           kir_load(t->arena, s.from, x->rank, s.subs));
  tile_store(t, pass, s.last, 0, NULL, v);
  tile_store(t, pass, s.last_at, 0, NULL, place);
  s.subs[outer] = j;
  tile_store(t, pass, values, x->rank, s.subs, v);
  tile_store(t, pass, positions, x->rank, s.subs, place);
}
