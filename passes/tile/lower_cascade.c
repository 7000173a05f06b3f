/* lower_cascade.c: one sweep over an axis, in tiles (docs/cascades.md).
 *
 * The group is: tiles (what varies along the axis and only the group reads),
 * states, and maps that finish.  One block holds a few rows:
 *
 *   for each CASCADE_TILE of the axis:
 *     pack what products of tiles share between the rows
 *     for each row:
 *       tiles and maxima, in the order of the text
 *       states as they are seen from the maxima that moved
 *       sums over the tile
 *   for each row: folds, and the maps that finish
 *
 * Tiles begin at multiples of CASCADE_TILE from the lower end of the axis,
 * and lane l of a laned sum takes the elements that are l mod TILE_LANES:
 * neither the number of rows in a block nor the length of the axis moves a
 * bit. What a mask empties adds nothing, so trailing masked tiles do not
 * either. */
#include "passes/tile/sweep.h"

#include "passes/tensor/group_kernels.h"

enum {
  CASCADE_TILE = 64, /* elements of the axis: the chunk of the plan */
  CASCADE_LANES = 64, /* of an accumulator in registers, at most */
  CASCADE_FACTOR = 256, /* widest row of a factor that is packed */
  CASCADE_ROWS = 64, /* rows that share what was packed */
};

static uint32_t parallel_count(const tir_node_t *n) {
  uint32_t count = 0;
  while (count < n->index_count && !n->indices[count]->is_reduction) count++;
  return count;
}

static bool is_state(const tir_node_t *n) {
  return n->cascade != 0 && !n->is_tile;
}

static bool is_laned(const tir_node_t *n) {
  return n->reduce == TIR_REDUCE_SUM && n->plan == TIR_PLAN_LANES;
}

static kir_expr_t *let_of(tile_t *t, kir_block_t *block, const char *name,
                          kir_expr_t *e) {
  if (e->op == KIR_X_CONST || e->op == KIR_X_VAR) return e;
  kir_stmt_t *let = TD_NEW(t->arena, kir_stmt_t);
  let->kind = KIR_LET;
  let->var = kir_var_create(t->kernel, name, e->type);
  let->value = e;
  tile_push(t, block, let);
  return kir_var_ref(t->arena, let->var);
}

/* The rows' indices of all nodes; those of a finishing map may be anywhere
 * among its own. */
static void set_rows(sweep_t *s) {
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    for (uint32_t i = 0; i < s->rows; i++) {
      tile_set_index(s->t, s->t->nodes[k]->indices[s->places[k][i]],
                     s->values[i]);
    }
  }
}

static void place_rows(sweep_t *s) {
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    uint32_t *places = TD_NEW_ARRAY(t->arena, uint32_t, n->index_count + 1);
    for (uint32_t i = 0; i < s->rows; i++) places[i] = i;
    bool ok = n->cascade != 0 || group_row_places(t->arena, t->nodes, k, n,
                                                  s->rows, places);
    TD_CHECK(t->task, ok, "%s does not finish a row", n->outs[0]->name);
    s->places[k] = places;
  }
}

/* A finishing map with its rows in front, and where each index was. */
static void lower_finish(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  uint32_t *places = s->places[k], count = s->rows;
  tir_node_t *copy = TD_NEW(t->arena, tir_node_t);
  *copy = *n;
  copy->indices = TD_NEW_ARRAY(t->arena, tir_index_t *, n->index_count + 1);
  for (uint32_t i = 0; i < n->index_count; i++) {
    bool is_row = false;
    for (uint32_t r = 0; r < s->rows; r++) is_row |= places[r] == i;
    if (!is_row) places[count++] = i;
  }
  for (uint32_t i = 0; i < n->index_count; i++) {
    copy->indices[i] = n->indices[places[i]];
  }
  tile_lower_one(t, copy, s->rows, s->values, NULL, places, block);
}

/* ---- states -------------------------------------------------------------- */

/* Subscripts of a state's element: the row, the extras, and the lane of a
 * laned sum. */
static uint32_t state_subs(const sweep_t *s, kir_expr_t *const *extras,
                           uint32_t extra_count, kir_expr_t *lane,
                           kir_expr_t **out) {
  uint32_t count = 0;
  out[count++] = s->r;
  for (uint32_t i = 0; i < extra_count; i++) out[count++] = extras[i];
  if (lane != NULL) out[count++] = lane;
  return count;
}

/* Calls fn for lanes over the last extra index, in serial loops over the
 * others; for a state of one number, once. */
typedef struct place {
  sweep_t *s;
  uint32_t k;             /* number of the node */
  kir_expr_t *extras[IX_MAX_RANK];
  uint32_t extra_count;
  void (*fn)(struct place *, kir_block_t *block, kir_expr_t *base,
             kir_expr_t *limit, int64_t lanes);
  tir_expr_t **hoisted;   /* of a transport, and their values */
  kir_expr_t **hoisted_values;
  uint32_t hoisted_count;
} place_t;

static void extra_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                        kir_expr_t *limit, void *user) {
  place_t *p = user;
  (void)t;
  p->fn(p, block, base, limit, TILE_LANES);
}

static void each_place(place_t *p, kir_block_t *block) {
  tile_t *t = p->s->t;
  const tir_node_t *n = t->nodes[p->k];
  uint32_t par = parallel_count(n);
  p->extra_count = par - p->s->rows;
  if (p->extra_count == 0) {
    p->fn(p, block, tile_int(t, 0), NULL, TILE_LANES);
    return;
  }
  for (uint32_t i = 0; i + 1 < p->extra_count; i++) {
    const tir_index_t *index = n->indices[p->s->rows + i];
    block = tile_loop(t, block, KIR_LOOP_SERIAL, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent), 1, &p->extras[i]);
    tile_set_index(t, index, p->extras[i]);
  }
  const tir_index_t *last = n->indices[par - 1];
  int64_t size;
  bool is_const = ix_is_const(last->extent, &size);
  if (is_const && size <= CASCADE_LANES && size % TILE_LANES == 0) {
    p->fn(p, block, tile_int(t, 0), NULL, size);
    return;
  }
  if (is_const && size % CASCADE_LANES == 0) {
    kir_expr_t *base;
    block = tile_loop(t, block, KIR_LOOP_SERIAL, last->name, tile_int(t, 0),
                      tile_int(t, size), CASCADE_LANES, &base);
    p->fn(p, block, base, NULL, CASCADE_LANES);
    return;
  }
  tile_range_t range = {tile_int(t, 0), tile_dim(t, last->extent)};
  tile_chunks(t, block, last->name, range, extra_chunk, p);
}

/* A lane loop over elements of the last extra (or over the lanes of a laned
 * sum); *subs is the element of the state there. */
static kir_block_t *lanes_of(place_t *p, kir_block_t *block, kir_expr_t *base,
                             kir_expr_t *limit, int64_t lanes,
                             kir_expr_t **lane, kir_expr_t **subs,
                             uint32_t *count) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[p->k];
  kir_block_t *body = tile_lanes_of(t, block, lanes, lane);
  if (p->extra_count == 0) {
    *count = state_subs(s, NULL, 0, is_laned(n) ? *lane : NULL, subs);
    return body;
  }
  kir_expr_t *at = kir_add(t->arena, base, *lane);
  if (limit != NULL) td_vec_last(block)->mask = tile_less(t, at, limit);
  p->extras[p->extra_count - 1] = at;
  tile_set_index(t, n->indices[parallel_count(n) - 1], at);
  *count = state_subs(s, p->extras, p->extra_count, NULL, subs);
  return body;
}

static void init_chunk(place_t *p, kir_block_t *block, kir_expr_t *base,
                       kir_expr_t *limit, int64_t lanes) {
  tile_t *t = p->s->t;
  const tir_node_t *n = t->nodes[p->k];
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2];
  uint32_t count;
  kir_expr_t *v = tile_identity(t, n->reduce, n->body->type);
  if (p->extra_count == 0 && !is_laned(n)) {
    count = state_subs(p->s, NULL, 0, NULL, subs);
    tile_store(t, block, p->s->states[p->k], count, subs, v);
    return;
  }
  kir_block_t *body =
      lanes_of(p, block, base, limit, lanes, &lane, subs, &count);
  tile_store(t, body, p->s->states[p->k], count, subs, v);
}

/* ---- transports ---------------------------------------------------------- */

/* What each `was` is at this element: states of the same shape by their
 * element, maxima by the value that was kept. */
static void set_was(place_t *p, kir_expr_t *const *subs, uint32_t count) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (n->was == NULL || n->reduce != TIR_REDUCE_SUM) continue;
    if (s->states[k]->rank != count) continue;
    tile_set_element(t, n->was, kir_load(t->arena, s->states[k], count, subs));
  }
}

static kir_expr_t *moved(place_t *p) {
  tile_t *t = p->s->t;
  for (uint32_t i = 0; i < p->hoisted_count; i++) {
    td_map_put_u64(&t->done, (uint64_t)(uintptr_t)p->hoisted[i],
                   p->hoisted_values[i]);
  }
  return tile_expr(t, t->nodes[p->k]->transport);
}

static void move_chunk(place_t *p, kir_block_t *block, kir_expr_t *base,
                       kir_expr_t *limit, int64_t lanes) {
  tile_t *t = p->s->t;
  const tir_node_t *n = t->nodes[p->k];
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2];
  uint32_t count;
  kir_block_t *body = block;
  if (p->extra_count == 0 && !is_laned(n)) {
    count = state_subs(p->s, NULL, 0, NULL, subs);
  } else {
    body = lanes_of(p, block, base, limit, lanes, &lane, subs, &count);
  }
  set_was(p, subs, count);
  tile_store(t, body, p->s->states[p->k], count, subs, moved(p));
}

typedef struct exps {
  tir_expr_t *found[8];
  uint32_t count;
} exps_t;

static void note_exp(void *user, tir_expr_t *e) {
  exps_t *x = user;
  if (e->op == TIR_X_EXP && x->count < 8) x->found[x->count++] = e;
}

/* Exponentials of a transport are of maxima alone: once a row, not once an
 * element. */
static void move_state(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  place_t p = {.s = s, .k = k, .fn = move_chunk};
  kir_expr_t *values[8];
  exps_t x = {.count = 0};
  tir_walk(t->arena, t->nodes[k]->transport, note_exp, &x);
  for (uint32_t i = 0; i < x.count; i++) {
    values[i] = let_of(t, block, "step", tile_expr(t, x.found[i]));
  }
  p.hoisted = x.found;
  p.hoisted_values = values;
  p.hoisted_count = x.count;
  each_place(&p, block);
}

/* ---- sums over a tile ---------------------------------------------------- */

typedef struct adding {
  sweep_t *s;
  uint32_t k;
  kir_buffer_t *acc; /* in registers */
  kir_expr_t *factor; /* the packed one, here; or NULL */
} adding_t;

/* acc[at] = acc[at] OP body where the guard holds. */
static void add_term(adding_t *a, kir_block_t *block, kir_expr_t *at) {
  tile_t *t = a->s->t;
  const tir_node_t *n = t->nodes[a->k];
  if (n->guard != NULL) {
    block = &tile_push(t, block, tile_if(t, tile_expr(t, n->guard)))->body;
  }
  kir_expr_t *term = a->factor == NULL
                         ? tile_expr(t, n->body)
                         : tile_op2(t, KIR_X_MUL, n->body->type,
                                    tile_expr(t, n->body->args[0]),
                                    a->factor);
  tile_store(t, block, a->acc, 1, &at,
             tile_combine(t, n, kir_load(t->arena, a->acc, 1, &at), term));
}

static void axis_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                       kir_expr_t *limit, void *user) {
  adding_t *a = user;
  const tir_node_t *n = t->nodes[a->k];
  kir_expr_t *at;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &at);
  tile_set_index(t, n->indices[n->index_count - 1], at);
  add_term(a, body, kir_var_ref(t->arena, td_vec_last(block)->var));
}

static kir_buffer_t *registers(tile_t *t, kir_block_t *block,
                               tdsl_dtype_t type, int64_t lanes) {
  const ix_poly_t *dims[1] = {ix_const(t->module->pool, lanes)};
  return tile_alloc(t, block, "acc", type, KIR_REGISTER, 1, dims);
}

/* Sixteen terms at a time, into a number or into lanes of a state. */
static void add_along(place_t *p, kir_block_t *block) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[p->k];
  adding_t a = {s, p->k, registers(t, block, n->body->type, TILE_LANES),
                NULL};
  tile_range_t range = {s->begin, s->end};
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2];
  kir_block_t *body = tile_lanes(t, block, NULL, &lane);
  uint32_t count = state_subs(s, NULL, 0, is_laned(n) ? lane : NULL, subs);
  kir_expr_t *first = is_laned(n)
                          ? kir_load(t->arena, s->states[p->k], count, subs)
                          : tile_identity(t, n->reduce, n->body->type);
  tile_store(t, body, a.acc, 1, &lane, first);
  tile_chunks(t, block, n->indices[n->index_count - 1]->name, range,
              axis_chunk, &a);
  if (is_laned(n)) {
    body = tile_lanes(t, block, NULL, &lane);
    count = state_subs(s, NULL, 0, lane, subs);
    tile_store(t, body, s->states[p->k], count, subs,
               kir_load(t->arena, a.acc, 1, &lane));
    return;
  }
  kir_expr_t *fold = kir_op(t->arena, KIR_X_FOLD, n->body->type, 0, NULL);
  fold->u.buffer = a.acc;
  fold->fold = tile_fold_op(n->reduce);
  count = state_subs(s, NULL, 0, NULL, subs);
  kir_expr_t *was = kir_load(t->arena, s->states[p->k], count, subs);
  kir_expr_t *part = let_of(t, block, "part", fold);
  if (n->was != NULL) {
    was = let_of(t, block, "was", was);
    tile_set_element(t, n->was, was);
  }
  tile_store(t, block, s->states[p->k], count, subs,
             tile_op2(t, tile_fold_op(n->reduce), n->body->type, was, part));
}

/* Lanes over the last extra, terms left to right. */
static void add_chunk(place_t *p, kir_block_t *block, kir_expr_t *base,
                      kir_expr_t *limit, int64_t lanes) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[p->k];
  if (p->extra_count == 0) {
    add_along(p, block);
    return;
  }
  adding_t a = {s, p->k, registers(t, block, n->body->type, lanes), NULL};
  kir_expr_t *lane, *u, *subs[IX_MAX_RANK + 2];
  uint32_t count;
  kir_block_t *body =
      lanes_of(p, block, base, limit, lanes, &lane, subs, &count);
  tile_store(t, body, a.acc, 1, &lane,
             kir_load(t->arena, s->states[p->k], count, subs));
  const tir_index_t *axis = n->indices[n->index_count - 1];
  kir_block_t *terms = tile_loop(t, block, KIR_LOOP_SERIAL, axis->name,
                                 s->begin, s->end, 1, &u);
  tile_set_index(t, axis, u);
  body = lanes_of(p, terms, base, limit, lanes, &lane, subs, &count);
  if (s->factors[p->k] != NULL) {
    kir_expr_t *at[2] = {tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, u, s->begin),
                         p->extras[0]};
    a.factor = kir_load(t->arena, s->factors[p->k], 2, at);
  }
  add_term(&a, body, lane);
  body = lanes_of(p, block, base, limit, lanes, &lane, subs, &count);
  tile_store(t, body, s->states[p->k], count, subs,
             kir_load(t->arena, a.acc, 1, &lane));
}

/* ---- tiles --------------------------------------------------------------- */

/* A product's second factor, the same for all rows of the block, with lanes
 * along the axis; zeros past the end. */
static void pack_columns(sweep_t *s, packed_t *pk, kir_block_t *block) {
  tile_t *t = s->t;
  product_t *p = &pk->p;
  kir_expr_t *i, *l;
  tir_index_t *axis = pk->node->indices[s->rows];
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                 tile_int(t, 0),
                                 tile_dim(t, p->k.members[0]->extent), 1, &i);
  kir_block_t *lanes = tile_lanes_of(t, depth, CASCADE_TILE, &l);
  kir_expr_t *at = kir_add(t->arena, s->begin, l);
  tile_set_index(t, p->k.members[0], i);
  tile_set_index(t, axis, at);
  kir_expr_t *zero = kir_const_f(t->arena, p->type, 0.0);
  kir_expr_t *v = kir_op(t->arena, KIR_X_SELECT, p->type, 3,
                         (kir_expr_t *[]){tile_less(t, at, s->end),
                                          tile_expr(t, p->b), zero});
  tile_store(t, lanes, pk->columns, 2, (kir_expr_t *[]){i, l}, v);
}

/* The second factor of a sum: rows of memory become neighbours, and are
 * widened once. */
static void pack_factor(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  const tir_index_t *axis = n->indices[n->index_count - 1];
  const tir_index_t *extra = n->indices[s->rows];
  kir_expr_t *u, *base, *lane;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, axis->name, s->begin, s->end, 1,
                    &u);
  block = tile_loop(t, block, KIR_LOOP_SERIAL, extra->name, tile_int(t, 0),
                    tile_dim(t, extra->extent), TILE_LANES, &base);
  block = tile_lanes(t, block, NULL, &lane);
  kir_expr_t *d = kir_add(t->arena, base, lane);
  tile_set_index(t, axis, u);
  tile_set_index(t, extra, d);
  kir_expr_t *at[2] = {tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, u, s->begin), d};
  tile_store(t, block, s->factors[k], 2, at, tile_expr(t, n->body->args[1]));
}

/* Whether a sum's second factor is the same for all rows of the block. */
static bool has_shared_factor(const sweep_t *s, const tir_node_t *n) {
  td_arena_t *arena = s->t->arena;
  int64_t size;
  if (s->block_rows == 1 || !is_state(n) || n->reduce != TIR_REDUCE_SUM ||
      n->guard != NULL || n->body->op != TIR_X_MUL ||
      parallel_count(n) != s->rows + 1 ||
      !ix_is_const(n->indices[s->rows]->extent, &size) ||
      size % TILE_LANES != 0 || size > CASCADE_FACTOR) {
    return false;
  }
  tir_expr_t *f = n->body->args[1];
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    if (tir_mentions_value(arena, f, s->t->nodes[k]->outs[0])) return false;
  }
  return tir_mentions_index(arena, f, n->indices[s->rows]) &&
         !tir_mentions_index(arena, f, n->indices[s->blocked]);
}

static void packed_product(sweep_t *s, packed_t *pk, kir_block_t *block) {
  tile_t *t = s->t;
  product_t *p = &pk->p;
  tir_node_t *n = pk->node;
  kir_expr_t *i, *l;
  kir_buffer_t *acc = registers(t, block, p->type, CASCADE_TILE);
  kir_block_t *body = tile_lanes_of(t, block, CASCADE_TILE, &l);
  tile_store(t, body, acc, 1, &l, kir_const_f(t->arena, p->type, 0.0));
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                 tile_int(t, 0),
                                 tile_dim(t, p->k.members[0]->extent), 1, &i);
  tile_set_index(t, p->k.members[0], i);
  kir_expr_t *a = let_of(t, depth, "a", tile_expr(t, p->a));
  body = tile_lanes_of(t, depth, CASCADE_TILE, &l);
  kir_expr_t *factors[3] = {
      a, kir_load(t->arena, pk->columns, 2, (kir_expr_t *[]){i, l}),
      kir_load(t->arena, acc, 1, &l)};
  tile_store(t, body, acc, 1, &l,
             kir_op(t->arena, KIR_X_FMA, p->type, 3, factors));
  body = tile_lanes_of(t, block, CASCADE_TILE, &l);
  kir_expr_t *at = kir_add(t->arena, s->begin, l);
  kir_expr_t *v = kir_load(t->arena, acc, 1, &l);
  td_vec_last(block)->mask = tile_less(t, at, s->end);
  tile_set_index(t, n->indices[s->rows], at);
  if (p->has_guard) {
    v = kir_op(t->arena, KIR_X_SELECT, p->type, 3,
               (kir_expr_t *[]){tile_expr(t, n->guard), v,
                                kir_const_f(t->arena, p->type, 0.0)});
  }
  kir_expr_t *subs[IX_MAX_RANK + 1];
  for (uint32_t k = 0; k < s->rows; k++) subs[k] = s->values[k];
  subs[s->rows] = at;
  tile_store_value(t, body, n->outs[0], s->rows + 1, subs, v);
}

/* ---- the sweep ----------------------------------------------------------- */

static void sweep_row(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    tile_range_t range = {s->begin, s->end};
    if (n->is_tile && s->packed[k].node != NULL) {
      packed_product(s, &s->packed[k], block);
    } else if (n->is_tile) {
      tile_lower_one(t, n, s->rows, s->values, &range, NULL, block);
    } else if (is_state(n) && n->reduce != TIR_REDUCE_SUM) {
      place_t p = {.s = s, .k = k};
      add_along(&p, block);
    }
  }
  /* a transport reads states that stand before it, as they were */
  for (uint32_t k = t->node_count; k-- > 0;) {
    if (t->nodes[k]->transport != NULL) move_state(s, k, block);
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (!is_state(t->nodes[k]) || t->nodes[k]->reduce != TIR_REDUCE_SUM) {
      continue;
    }
    place_t p = {.s = s, .k = k, .fn = add_chunk};
    each_place(&p, block);
  }
}

/* Rows of the block as a loop; *s->r and the index are set. */
static kir_block_t *each_row(sweep_t *s, kir_block_t *block,
                             kir_expr_t *first, kir_expr_t *count) {
  tile_t *t = s->t;
  if (s->block_rows == 1) {
    s->r = tile_int(t, 0);
    return block;
  }
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "r", tile_int(t, 0), count, 1,
                    &s->r);
  s->values[s->blocked] = kir_add(t->arena, first, s->r);
  set_rows(s);
  return block;
}

/* Behind the last live element of a row, by its bound. */
static kir_expr_t *row_end(sweep_t *s) {
  tile_t *t = s->t;
  return kir_add(t->arena, tile_expr(t, s->limit),
                 tile_int(t, 1 + s->limit_plus));
}

/* The same for a block: the bound is affine in the row, so one of its ends
 * has the largest. */
static kir_expr_t *live_length(sweep_t *s, kir_block_t *block,
                               kir_expr_t *from, kir_expr_t *count,
                               kir_expr_t *length) {
  tile_t *t = s->t;
  if (s->block_rows > 1) {
    s->values[s->blocked] = from;
    set_rows(s);
  }
  kir_expr_t *end = row_end(s);
  if (s->block_rows > 1) {
    kir_expr_t *last = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, count,
                                tile_int(t, 1));
    s->values[s->blocked] = kir_add(t->arena, from, last);
    set_rows(s);
    end = tile_op2(t, KIR_X_MAX, TDSL_DTYPE_I64, end, row_end(s));
    s->values[s->blocked] = from;
    set_rows(s);
  }
  return let_of(t, block, "live", tile_min(t, length, end));
}

static void store_chunk(place_t *p, kir_block_t *block, kir_expr_t *base,
                        kir_expr_t *limit, int64_t lanes) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[p->k];
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2], *at[2 * IX_MAX_RANK];
  uint32_t count;
  kir_block_t *body =
      lanes_of(p, block, base, limit, lanes, &lane, subs, &count);
  for (uint32_t i = 0; i < s->rows; i++) at[i] = s->values[i];
  for (uint32_t i = 0; i < p->extra_count; i++) at[s->rows + i] = p->extras[i];
  tile_store_value(t, body, n->outs[0], s->rows + p->extra_count, at,
                   kir_load(t->arena, s->states[p->k], count, subs));
}

/* Lanes are folded; what others read goes to memory. */
static void finish_state(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  kir_expr_t *subs[IX_MAX_RANK + 2], *lane;
  place_t p = {.s = s, .k = k, .fn = store_chunk};
  if (parallel_count(n) > s->rows) {
    if (tile_escapes(t, n->outs[0])) each_place(&p, block);
    return;
  }
  kir_expr_t *v;
  if (is_laned(n)) {
    kir_buffer_t *acc = registers(t, block, n->body->type, TILE_LANES);
    kir_block_t *body = tile_lanes(t, block, NULL, &lane);
    uint32_t count = state_subs(s, NULL, 0, lane, subs);
    tile_store(t, body, acc, 1, &lane,
               kir_load(t->arena, s->states[k], count, subs));
    v = kir_op(t->arena, KIR_X_FOLD, n->body->type, 0, NULL);
    v->u.buffer = acc;
    v->fold = KIR_X_ADD;
  } else {
    uint32_t count = state_subs(s, NULL, 0, NULL, subs);
    v = kir_load(t->arena, s->states[k], count, subs);
    if (!tile_escapes(t, n->outs[0])) return;
  }
  tile_store_value(t, block, n->outs[0], s->rows, s->values, v);
}

/* ---- scratch ------------------------------------------------------------- */

static void alloc_all(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  ix_pool_t *pool = t->module->pool;
  const ix_poly_t *lanes = ix_const(pool, TILE_LANES);
  const ix_poly_t *width = ix_const(pool, CASCADE_TILE);
  const ix_poly_t *rows = ix_const(pool, s->block_rows);
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    const tir_value_t *v = n->outs[0];
    const ix_poly_t *dims[2 * IX_MAX_RANK];
    uint32_t par = parallel_count(n), rank = 0;
    if (is_state(n)) {
      dims[rank++] = rows;
      for (uint32_t i = s->rows; i < par; i++) {
        dims[rank++] = n->indices[i]->extent;
      }
      if (has_shared_factor(s, n)) {
        const ix_poly_t *size[2] = {width, n->indices[s->rows]->extent};
        s->factors[k] = tile_alloc(t, block, "factor", n->body->type,
                                   KIR_LOCAL, 2, size);
      }
      if (is_laned(n)) dims[rank++] = lanes;
      s->states[k] = tile_alloc(t, block, v->name, n->body->type, KIR_LOCAL,
                                rank, dims);
      if (!is_laned(n)) {
        tile_set_home(t, v, s->states[k], s->rows);
        tile_set_lead(t, v, &s->r, NULL);
        continue;
      }
      tile_set_home(t, v,
                    tile_alloc(t, block, v->name, v->dtype, KIR_REGISTER, 0,
                               NULL),
                    s->rows);
    } else if (n->is_tile) {
      tile_set_home(t, v,
                    tile_alloc(t, block, v->name, v->dtype, KIR_LOCAL, 1,
                               &width),
                    s->rows);
      tile_set_lead(t, v, NULL, &s->begin);
      if (s->packed[k].node == NULL) continue;
      dims[0] = s->packed[k].p.k.members[0]->extent;
      dims[1] = width;
      s->packed[k].columns = tile_alloc(
          t, block, "columns", s->packed[k].p.type, KIR_LOCAL, 2, dims);
    } else {
      uint32_t mask = 0;
      for (uint32_t i = 0; i < s->rows; i++) mask |= 1u << s->places[k][i];
      for (uint32_t i = 0; i < par; i++) {
        if ((mask >> i & 1) == 0) dims[rank++] = n->indices[i]->extent;
      }
      tile_home_t *home =
          td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)v);
      if (home == NULL) continue; /* goes to memory and nowhere else */
      tile_set_home(t, v,
                    tile_alloc(t, block, v->name, v->dtype,
                               rank == 0 ? KIR_REGISTER : KIR_LOCAL, rank,
                               dims),
                    s->rows);
      home = td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)v);
      home->mask = mask;
    }
  }
}

/* Products of tiles whose second factor is the same for several rows, and
 * the row index that it does not mention. */
static void find_products(sweep_t *s) {
  tile_t *t = s->t;
  bool is_shared[IX_MAX_RANK];
  bool any = false;
  for (uint32_t i = 0; i < s->rows; i++) is_shared[i] = true;
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    product_t p = {.t = t, .node = n, .par = s->rows + 1};
    if (!n->is_tile || n->reduce != TIR_REDUCE_SUM) continue;
    p.type = n->body->type;
    int64_t depth;
    if (!contraction_analyse(&p) || p.k.count != 1 || p.n.count != 1 ||
        p.n.members[0] != n->indices[s->rows] ||
        !ix_is_const(p.k.members[0]->extent, &depth) || depth > 512) {
      continue;
    }
    s->packed[k].node = n;
    s->packed[k].p = p;
    any = true;
    for (uint32_t i = 0; i < s->rows; i++) {
      bool in_m = false;
      for (uint32_t j = 0; j < p.m.count; j++) {
        in_m |= p.m.members[j] == n->indices[i];
      }
      is_shared[i] &= in_m;
    }
  }
  s->block_rows = 1;
  for (uint32_t i = s->rows; any && i-- > 0;) {
    int64_t most = contraction_upper(t->nodes[0]->indices[i]->extent);
    if (!is_shared[i] || most < 2) continue;
    s->blocked = i;
    s->block_rows = most < CASCADE_ROWS ? most : CASCADE_ROWS;
    break;
  }
}

void tile_lower_cascade(tile_t *t) {
  sweep_t s = {.t = t};
  kir_block_t *block = &t->kernel->body;
  s.rows = group_cascade_rows(t->nodes, t->node_count);
  s.states = TD_NEW_ARRAY(t->arena, kir_buffer_t *, t->node_count);
  s.packed = TD_NEW_ARRAY(t->arena, packed_t, t->node_count);
  s.factors = TD_NEW_ARRAY(t->arena, kir_buffer_t *, t->node_count);
  s.places = TD_NEW_ARRAY(t->arena, uint32_t *, t->node_count);
  place_rows(&s);
  find_products(&s);
  tile_note(t, "one sweep: %s", tile_describe(t));
  tile_note(t, "blocks of %lld rows, %d elements of the axis at a time",
            (long long)s.block_rows, CASCADE_TILE);
  const tir_node_t *first = t->nodes[0];
  const ix_poly_t *axis = NULL;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (is_state(n)) axis = n->indices[n->index_count - 1]->extent;
  }
  kir_expr_t *from = NULL, *count = NULL;
  for (uint32_t i = 0; i < s.rows; i++) {
    if (s.block_rows > 1 && i == s.blocked) continue;
    block = tile_loop(t, block, KIR_LOOP_BLOCK, first->indices[i]->name,
                      tile_int(t, 0), tile_dim(t, first->indices[i]->extent),
                      1, &s.values[i]);
  }
  if (s.block_rows > 1) {
    kir_expr_t *hi = tile_dim(t, first->indices[s.blocked]->extent);
    block = tile_loop(t, block, KIR_LOOP_BLOCK, first->indices[s.blocked]->name,
                      tile_int(t, 0), hi, s.block_rows, &from);
    s.values[s.blocked] = from;
    kir_expr_t *left = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, hi, from);
    count = let_of(t, block, "rows",
                   tile_min(t, left, tile_int(t, s.block_rows)));
  }
  set_rows(&s);
  s.r = tile_int(t, 0);
  alloc_all(&s, block);
  kir_block_t *body = each_row(&s, block, from, count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    place_t p = {.s = &s, .k = k, .fn = init_chunk};
    if (is_state(t->nodes[k])) each_place(&p, body);
  }
  kir_expr_t *length = tile_dim(t, axis), *begin;
  if (tile_find_bound(&s)) {
    tile_note(t, "tiles behind the last live element of the rows are left "
                 "out");
    length = live_length(&s, block, from, count, length);
  }
  kir_block_t *tiles = tile_loop(t, block, KIR_LOOP_SERIAL, "j0",
                                 tile_int(t, 0), length, CASCADE_TILE,
                                 &begin);
  s.begin = begin;
  s.end = let_of(t, tiles, "j1",
                 tile_min(t, kir_add(t->arena, begin,
                                     tile_int(t, CASCADE_TILE)),
                          length));
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (s.packed[k].node != NULL) pack_columns(&s, &s.packed[k], tiles);
    if (s.factors[k] != NULL) pack_factor(&s, k, tiles);
  }
  kir_block_t *row = each_row(&s, tiles, from, count);
  if (s.limit != NULL && s.block_rows > 1) {
    kir_expr_t *is_live = tile_less(t, s.begin, row_end(&s));
    row = &tile_push(t, row, tile_if(t, is_live))->body;
  }
  sweep_row(&s, row);
  body = each_row(&s, block, from, count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (is_state(t->nodes[k])) finish_state(&s, k, body);
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (t->nodes[k]->cascade != 0) continue;
    lower_finish(&s, k, body);
  }
}
