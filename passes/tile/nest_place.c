/* nest_place.c: where the largest or smallest of a row or a column stands.
 *
 * The first of equals; the first NaN before all numbers; 0 if nothing passes
 * the guard.  Along a row first the value is found, then its lowest place:
 * neither depends on the order of the lanes.  Columns side by side have a
 * lane each, which goes down and keeps what it met first.  Class: bitwise. */
#include "passes/tile/nest.h"

/* No place; behind all others. */
static kir_expr_t *nowhere(tile_t *t) {
  return tile_int(t, INT64_MAX);
}

static bool is_float(tdsl_dtype_t type) {
  return type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
}

static kir_expr_t *both(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_AND, TDSL_DTYPE_BOOL, a, b);
}

static kir_expr_t *either(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_OR, TDSL_DTYPE_BOOL, a, b);
}

static kir_expr_t *chosen(tile_t *t, kir_expr_t *c, kir_expr_t *a,
                          kir_expr_t *b) {
  kir_expr_t *args[3] = {c, a, b};
  return kir_op(t->arena, KIR_X_SELECT, a->type, 3, args);
}

static void fill(tile_t *t, kir_block_t *block, kir_buffer_t *b,
                 kir_expr_t *v) {
  kir_expr_t *lane;
  kir_block_t *body = tile_lanes(t, block, NULL, &lane);
  tile_store(t, body, b, 1, &lane, v);
}

static kir_buffer_t *lanes_of(tile_t *t, kir_block_t *block, const char *name,
                              kir_expr_t *v) {
  const ix_poly_t *lanes[1] = {ix_const(t->module->pool, TILE_LANES)};
  kir_buffer_t *b =
      tile_alloc(t, block, name, v->type, KIR_REGISTER, 1, lanes);
  fill(t, block, b, v);
  return b;
}

/* Where the guard holds. */
static kir_block_t *guarded(tile_t *t, const tir_node_t *n,
                            kir_block_t *block) {
  if (n->guard == NULL) return block;
  return &tile_push(t, block, tile_if(t, tile_expr(t, n->guard)))->body;
}

/* ---- a row --------------------------------------------------------------- */

typedef struct place {
  nest_t *nest;
  kir_expr_t *best;  /* the largest (smallest) value; NaN if there is one */
  kir_buffer_t *at;  /* lowest place of it so far, one a lane */
} place_t;

static void value_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                        kir_expr_t *limit, void *user) {
  nest_t *s = user;
  kir_expr_t *index;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &index);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_set_index(t, s->node->indices[s->node->index_count - 1], index);
  tile_nest_add(t, s, body, &lane, 1);
  if (limit == NULL) tile_nest_ahead(t, s, block, base, TILE_LANES, 1);
}

static void place_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                        kir_expr_t *limit, void *user) {
  place_t *p = user;
  tir_node_t *n = p->nest->node;
  kir_expr_t *index;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &index);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_set_index(t, n->indices[n->index_count - 1], index);
  body = guarded(t, n, body);
  kir_expr_t *v = tile_expr(t, n->body);
  kir_expr_t *hit = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, v, p->best);
  if (is_float(n->body->type)) {
    kir_expr_t *nan = tile_op2(t, KIR_X_NE, TDSL_DTYPE_BOOL, v, v);
    kir_expr_t *is_nan =
        tile_op2(t, KIR_X_NE, TDSL_DTYPE_BOOL, p->best, p->best);
    hit = either(t, hit, both(t, is_nan, nan));
  }
  kir_expr_t *at = chosen(t, hit, index, nowhere(t));
  tile_store(t, body, p->at, 1, &lane,
             tile_min(t, kir_load(t->arena, p->at, 1, &lane), at));
}

static kir_expr_t *folded(tile_t *t, kir_block_t *block, kir_buffer_t *b,
                          kir_x_t op, const char *name) {
  kir_expr_t *fold = kir_op(t->arena, KIR_X_FOLD, b->dtype, 0, NULL);
  fold->u.buffer = b;
  fold->fold = op;
  return tile_let(t, block, name, fold);
}

static kir_expr_t *or_first(tile_t *t, kir_expr_t *at) {
  kir_expr_t *none = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, at, nowhere(t));
  return chosen(t, none, tile_int(t, 0), at);
}

void tile_nest_place(tile_t *t, nest_t *s, kir_block_t *block) {
  tir_node_t *n = s->node;
  const tir_index_t *last = n->indices[n->index_count - 1];
  tile_range_t r = {tile_int(t, 0), tile_dim(t, last->extent)};
  block = tile_nest_loops(t, s, block, s->prefix, s->par);
  tile_nest_begin(t, s, block);
  tile_chunks(t, block, last->name, r, value_chunk, s);
  place_t p = {.nest = s};
  p.best = folded(t, block, s->acc, tile_fold_op(n->reduce), "best");
  p.at = lanes_of(t, block, "at", nowhere(t));
  tile_chunks(t, block, last->name, r, place_chunk, &p);
  kir_expr_t *at = folded(t, block, p.at, KIR_X_MIN, "place");
  tile_store_value(t, block, n->outs[0], s->par, s->subs, or_first(t, at));
}

/* ---- columns ------------------------------------------------------------- */

void tile_nest_place_columns(tile_t *t, kir_block_t *block, kir_expr_t *base,
                             kir_expr_t *limit, void *user) {
  nest_t *s = user;
  tir_node_t *n = s->node;
  const tir_index_t *last = n->indices[n->index_count - 1];
  kir_expr_t *k, *index;
  kir_buffer_t *best = lanes_of(t, block, "best",
                                tile_identity(t, n->reduce, n->body->type));
  kir_buffer_t *at = lanes_of(t, block, "at", nowhere(t));
  kir_block_t *down = tile_loop(t, block, KIR_LOOP_SERIAL, last->name,
                                tile_int(t, 0), tile_dim(t, last->extent), 1,
                                &k);
  kir_block_t *body = tile_lanes_at(t, down, base, limit, &index);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(down)->var);
  tile_set_index(t, last, k);
  tile_nest_set(t, s, s->par - 1, index);
  body = guarded(t, n, body);
  kir_expr_t *v = tile_let(t, body, "v", tile_expr(t, n->body));
  kir_expr_t *was = kir_load(t->arena, best, 1, &lane);
  kir_expr_t *was_at = kir_load(t->arena, at, 1, &lane);
  bool is_most = n->reduce == TIR_REDUCE_ARGMAX;
  kir_expr_t *wins = tile_op2(t, is_most ? KIR_X_GT : KIR_X_LT,
                              TDSL_DTYPE_BOOL, v, was);
  if (is_float(n->body->type)) {
    wins = either(t, wins,
                  both(t, tile_op2(t, KIR_X_NE, TDSL_DTYPE_BOOL, v, v),
                       tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, was, was)));
  }
  kir_expr_t *is_first =
      tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, was_at, nowhere(t));
  wins = tile_let(t, body, "wins", either(t, is_first, wins));
  tile_store(t, body, at, 1, &lane, chosen(t, wins, k, was_at));
  tile_store(t, body, best, 1, &lane, chosen(t, wins, v, was));
  body = tile_lanes_at(t, block, base, limit, &index);
  tile_nest_set(t, s, s->par - 1, index);
  lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_store_value(t, body, n->outs[0], s->par, s->subs,
                   or_first(t, kir_load(t->arena, at, 1, &lane)));
}
