/* sweep_state.c: the states of a sweep (lower_cascade.c), one element or one
 * group of lanes at a time: as they start, as they are seen from maxima that
 * moved, and with the terms of a tile added. */
#include "passes/tile/sweep.h"

/* ---- states -------------------------------------------------------------- */

uint32_t tile_sweep_subs(const sweep_t *s, kir_expr_t *const *extras,
                         uint32_t extra_count, kir_expr_t *lane,
                         kir_expr_t **out) {
  uint32_t count = 0;
  out[count++] = s->r;
  for (uint32_t i = 0; i < extra_count; i++) out[count++] = extras[i];
  if (lane != NULL) out[count++] = lane;
  return count;
}

static void extra_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                        kir_expr_t *limit, void *user) {
  sweep_place_t *p = user;
  (void)t;
  p->fn(p, block, base, limit, TILE_LANES);
}

void tile_sweep_places(sweep_place_t *p, kir_block_t *block) {
  tile_t *t = p->s->t;
  const tir_node_t *n = t->nodes[p->k];
  uint32_t par = tile_sweep_parallel(n);
  p->extra_count = par - p->s->rows;
  if (p->extra_count == 0) {
    p->fn(p, block, tile_int(t, 0), NULL, TILE_LANES);
    return;
  }
  bool is_laned = sweep_is_laned(n);
  for (uint32_t i = 0; i + (is_laned ? 0 : 1) < p->extra_count; i++) {
    const tir_index_t *index = n->indices[p->s->rows + i];
    block = tile_loop(t, block, KIR_LOOP_SERIAL, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent), 1, &p->extras[i]);
    tile_set_index(t, index, p->extras[i]);
  }
  if (is_laned) {
    p->fn(p, block, tile_int(t, 0), NULL, TILE_LANES);
    return;
  }
  const tir_index_t *last = n->indices[par - 1];
  int64_t size;
  bool is_const = ix_is_const(last->extent, &size);
  if (is_const && size <= SWEEP_LANES && size % TILE_LANES == 0) {
    p->fn(p, block, tile_int(t, 0), NULL, size);
    return;
  }
  if (is_const && size % SWEEP_LANES == 0) {
    kir_expr_t *base;
    block = tile_loop(t, block, KIR_LOOP_SERIAL, last->name, tile_int(t, 0),
                      tile_int(t, size), SWEEP_LANES, &base);
    p->fn(p, block, base, NULL, SWEEP_LANES);
    return;
  }
  tile_range_t range = {tile_int(t, 0), tile_dim(t, last->extent)};
  tile_chunks(t, block, last->name, range, extra_chunk, p);
}

kir_block_t *tile_sweep_lanes(sweep_place_t *p, kir_block_t *block,
                              kir_expr_t *base, kir_expr_t *limit,
                              int64_t lanes, kir_expr_t **lane,
                              kir_expr_t **subs, uint32_t *count) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[p->k];
  kir_block_t *body = tile_lanes_of(t, block, lanes, lane);
  if (p->extra_count == 0 || sweep_is_laned(n)) {
    kir_expr_t *own = sweep_is_laned(n) ? *lane : NULL;
    *count = tile_sweep_subs(s, p->extras, p->extra_count, own, subs);
    return body;
  }
  kir_expr_t *at = kir_add(t->arena, base, *lane);
  if (limit != NULL) td_vec_last(block)->mask = tile_less(t, at, limit);
  p->extras[p->extra_count - 1] = at;
  tile_set_index(t, n->indices[tile_sweep_parallel(n) - 1], at);
  *count = tile_sweep_subs(s, p->extras, p->extra_count, NULL, subs);
  return body;
}

static void init_chunk(sweep_place_t *p, kir_block_t *block, kir_expr_t *base,
                       kir_expr_t *limit, int64_t lanes) {
  tile_t *t = p->s->t;
  const tir_node_t *n = t->nodes[p->k];
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2];
  uint32_t count;
  kir_expr_t *v = sweep_is_position(n)
                      ? tile_int(t, INT64_MAX)
                      : tile_identity(t, n->reduce, n->body->type);
  if (p->extra_count == 0 && !sweep_is_laned(n)) {
    count = tile_sweep_subs(p->s, NULL, 0, NULL, subs);
    tile_store(t, block, p->s->states[p->k], count, subs, v);
    return;
  }
  kir_block_t *body =
      tile_sweep_lanes(p, block, base, limit, lanes, &lane, subs, &count);
  tile_store(t, body, p->s->states[p->k], count, subs, v);
}

/* ---- transports ---------------------------------------------------------- */

/* What each `was` is at this element: states of the same shape by their
 * element, maxima by the value that was kept. */
static void set_was(sweep_place_t *p, kir_expr_t *const *subs, uint32_t count) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (n->was == NULL || !sweep_is_sum(n)) continue;
    if (s->states[k]->rank != count) continue;
    tile_set_element(t, n->was, kir_load(t->arena, s->states[k], count, subs));
  }
}

static kir_expr_t *moved(sweep_place_t *p) {
  tile_t *t = p->s->t;
  for (uint32_t i = 0; i < p->hoisted_count; i++) {
    td_map_put_u64(&t->done, (uint64_t)(uintptr_t)p->hoisted[i],
                   p->hoisted_values[i]);
  }
  return tile_expr(t, t->nodes[p->k]->transport);
}

static void move_chunk(sweep_place_t *p, kir_block_t *block, kir_expr_t *base,
                       kir_expr_t *limit, int64_t lanes) {
  tile_t *t = p->s->t;
  const tir_node_t *n = t->nodes[p->k];
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2];
  uint32_t count;
  kir_block_t *body = block;
  if (p->extra_count == 0 && !sweep_is_laned(n)) {
    count = tile_sweep_subs(p->s, NULL, 0, NULL, subs);
  } else {
    body = tile_sweep_lanes(p, block, base, limit, lanes, &lane, subs, &count);
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
void tile_sweep_move(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  sweep_place_t p = {.s = s, .k = k, .fn = move_chunk};
  kir_expr_t *values[8];
  exps_t x = {.count = 0};
  tir_walk(t->arena, t->nodes[k]->transport, note_exp, &x);
  for (uint32_t i = 0; i < x.count; i++) {
    values[i] = tile_let(t, block, "step", tile_expr(t, x.found[i]));
  }
  p.hoisted = x.found;
  p.hoisted_values = values;
  p.hoisted_count = x.count;
  tile_sweep_places(&p, block);
}

/* ---- sums over a tile ---------------------------------------------------- */

typedef struct adding {
  sweep_t *s;
  uint32_t k;
  kir_buffer_t *acc; /* in tile_sweep_registers */
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

kir_buffer_t *tile_sweep_registers(tile_t *t, kir_block_t *block,
                                   tdsl_dtype_t type, int64_t lanes) {
  const ix_poly_t *dims[1] = {ix_const(t->module->pool, lanes)};
  return tile_alloc(t, block, "acc", type, KIR_REGISTER, 1, dims);
}

/* The terms of a tile added to a->acc, TILE_LANES at a time. */
static void add_chunks(adding_t *a, kir_block_t *block) {
  sweep_t *s = a->s;
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[a->k];
  const char *name = n->indices[n->index_count - 1]->name;
  if (!s->is_full) {
    tile_chunks(t, block, name, (tile_range_t){s->begin, s->end}, axis_chunk,
                a);
    return;
  }
  kir_expr_t *c;
  block = tile_loop(t, block, KIR_LOOP_UNROLL, name, tile_int(t, 0),
                    tile_int(t, SWEEP_TILE), TILE_LANES, &c);
  axis_chunk(t, block, kir_add(t->arena, s->begin, c), NULL, a);
}

/* The largest or smallest of a full tile: all of it in lanes, then folded.
 * Of these there is one, in whatever order they are compared. */
static kir_buffer_t *take_all(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  kir_buffer_t *acc =
      tile_sweep_registers(t, block, n->body->type, SWEEP_TILE);
  kir_expr_t *lane;
  kir_block_t *body = tile_lanes_of(t, block, SWEEP_TILE, &lane);
  tile_set_index(t, n->indices[n->index_count - 1],
                 kir_add(t->arena, s->begin, lane));
  tile_store(t, body, acc, 1, &lane, tile_expr(t, n->body));
  return acc;
}

/* A lazy maximum stays unless the part exceeds it by more than a margin, or
 * is no number. What has seen nothing is -inf and is exceeded by any. */
static kir_expr_t *unless_far(tile_t *t, const tir_node_t *n, kir_expr_t *was,
                              kir_expr_t *part, kir_expr_t *joint) {
  tdsl_dtype_t type = n->body->type;
  kir_expr_t *limit = tile_op2(t, KIR_X_ADD, type, was,
                               kir_const_f(t->arena, type, TIR_LAZY_MARGIN));
  kir_expr_t *is_near = tile_op2(t, KIR_X_LE, TDSL_DTYPE_BOOL, part, limit);
  return kir_op(t->arena, KIR_X_SELECT, type, 3,
                (kir_expr_t *[]){is_near, was, joint});
}

/* Into a number or into lanes of a state. */
static void add_along(sweep_place_t *p, kir_block_t *block) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[p->k];
  adding_t a = {.s = s, .k = p->k};
  kir_expr_t *lane, *subs[IX_MAX_RANK + 2];
  uint32_t count;
  if (s->is_full && n->reduce != TIR_REDUCE_SUM && n->guard == NULL) {
    a.acc = take_all(s, p->k, block);
  } else {
    a.acc = tile_sweep_registers(t, block, n->body->type, TILE_LANES);
    kir_block_t *body = tile_lanes(t, block, NULL, &lane);
    kir_expr_t *own = sweep_is_laned(n) ? lane : NULL;
    count = tile_sweep_subs(s, p->extras, p->extra_count, own, subs);
    kir_expr_t *first = sweep_is_laned(n)
                            ? kir_load(t->arena, s->states[p->k], count, subs)
                            : tile_identity(t, n->reduce, n->body->type);
    tile_store(t, body, a.acc, 1, &lane, first);
    add_chunks(&a, block);
  }
  if (sweep_is_laned(n)) {
    kir_block_t *body = tile_lanes(t, block, NULL, &lane);
    count = tile_sweep_subs(s, p->extras, p->extra_count, lane, subs);
    tile_store(t, body, s->states[p->k], count, subs,
               kir_load(t->arena, a.acc, 1, &lane));
    return;
  }
  kir_expr_t *fold = kir_op(t->arena, KIR_X_FOLD, n->body->type, 0, NULL);
  fold->u.buffer = a.acc;
  fold->fold = tile_fold_op(n->reduce);
  count = tile_sweep_subs(s, NULL, 0, NULL, subs);
  kir_expr_t *was = kir_load(t->arena, s->states[p->k], count, subs);
  kir_expr_t *part = tile_let(t, block, "part", fold);
  if (n->was != NULL) {
    was = tile_let(t, block, "was", was);
    tile_set_element(t, n->was, was);
  }
  kir_expr_t *joint =
      tile_op2(t, tile_fold_op(n->reduce), n->body->type, was, part);
  if (n->is_lazy) joint = unless_far(t, n, was, part, joint);
  tile_store(t, block, s->states[p->k], count, subs, joint);
}

/* Of one row: as many lanes as the registers hold, so that the second factor
 * is read in the order of memory. */
static bool add_wide(sweep_place_t *p, kir_block_t *block) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[p->k];
  const tir_index_t *axis = n->indices[n->index_count - 1];
  const tir_index_t *extra = n->indices[s->rows];
  int64_t size, room = (int64_t)t->target->registers / 4 *
                       (int64_t)t->target->lanes;
  if (s->block_rows > 1 || t->target->warp != 0 || sweep_is_laned(n) ||
      tile_sweep_parallel(n) != s->rows + 1 || n->guard != NULL ||
      n->body->type != TDSL_DTYPE_F32 || !ix_is_const(extra->extent, &size) ||
      size % SWEEP_LANES != 0 || size <= SWEEP_LANES || size > room) {
    return false;
  }
  kir_expr_t *c, *lane, *u, *subs[2] = {s->r, NULL}, *own[2];
  const ix_poly_t *dims[2] = {ix_const(t->module->pool, size / SWEEP_LANES),
                              ix_const(t->module->pool, SWEEP_LANES)};
  kir_buffer_t *acc =
      tile_alloc(t, block, "acc", n->body->type, KIR_REGISTER, 2, dims);
  for (int pass = 0; pass < 3; pass++) {
    kir_block_t *body = block;
    if (pass == 1) {
      body = tile_loop(t, block, KIR_LOOP_SERIAL, axis->name, s->begin, s->end,
                       1, &u);
      tile_set_index(t, axis, u);
      tile_sweep_ahead_of_terms(s, p->k, body, u, tile_int(t, 0), size);
    }
    body = tile_loop(t, body, KIR_LOOP_UNROLL, "c", tile_int(t, 0),
                     tile_int(t, size / SWEEP_LANES), 1, &c);
    body = tile_lanes_of(t, body, SWEEP_LANES, &lane);
    subs[1] = kir_add(t->arena,
                      kir_mul(t->arena, c, tile_int(t, SWEEP_LANES)), lane);
    own[0] = c;
    own[1] = lane;
    tile_set_index(t, extra, subs[1]);
    kir_expr_t *in_memory = kir_load(t->arena, s->states[p->k], 2, subs);
    kir_expr_t *here = kir_load(t->arena, acc, 2, own);
    if (pass == 0) {
      tile_store(t, body, acc, 2, own, in_memory);
    } else if (pass == 1) {
      tile_store(t, body, acc, 2, own,
                 tile_combine(t, n, here, tile_expr(t, n->body)));
    } else {
      tile_store(t, body, s->states[p->k], 2, subs, here);
    }
  }
  return true;
}

/* Lanes over the last extra, terms left to right. */
static void add_chunk(sweep_place_t *p, kir_block_t *block, kir_expr_t *base,
                      kir_expr_t *limit, int64_t lanes) {
  sweep_t *s = p->s;
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[p->k];
  if (p->extra_count == 0 || sweep_is_laned(n)) {
    add_along(p, block);
    return;
  }
  adding_t a = {.s = s, .k = p->k};
  a.acc = tile_sweep_registers(t, block, n->body->type, lanes);
  kir_expr_t *lane, *u, *subs[IX_MAX_RANK + 2];
  uint32_t count;
  kir_block_t *body =
      tile_sweep_lanes(p, block, base, limit, lanes, &lane, subs, &count);
  tile_store(t, body, a.acc, 1, &lane,
             kir_load(t->arena, s->states[p->k], count, subs));
  const tir_index_t *axis = n->indices[n->index_count - 1];
  kir_block_t *terms = tile_loop(t, block, KIR_LOOP_SERIAL, axis->name,
                                 s->begin, s->end, 1, &u);
  tile_set_index(t, axis, u);
  if (limit == NULL) {
    tile_sweep_ahead_of_terms(s, p->k, terms, u, base, lanes);
  }
  body = tile_sweep_lanes(p, terms, base, limit, lanes, &lane, subs, &count);
  if (s->factors[p->k] != NULL) {
    kir_expr_t *at[2] = {tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, u, s->begin),
                         p->extras[0]};
    a.factor = kir_load(t->arena, s->factors[p->k], 2, at);
  }
  add_term(&a, body, lane);
  body = tile_sweep_lanes(p, block, base, limit, lanes, &lane, subs, &count);
  tile_store(t, body, s->states[p->k], count, subs,
             kir_load(t->arena, a.acc, 1, &lane));
}

/* With was == now all around, the transport is a product with exp(0). */
static bool is_scaling(const tir_node_t *n) {
  const tir_expr_t *e = n->transport;
  if (e->op != TIR_X_MUL) return false;
  for (int i = 0; i < 2; i++) {
    const tir_expr_t *was = e->args[i];
    if (was->op == TIR_X_LOAD && was->u.value == n->was &&
        e->args[1 - i]->op == TIR_X_EXP) {
      return true;
    }
  }
  return false;
}

kir_block_t *tile_sweep_if_moved(sweep_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  kir_expr_t *any = NULL, *subs[IX_MAX_RANK + 2];
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (sweep_is_sum(n) && n->transport != NULL && !is_scaling(n)) {
      return block;
    }
    if (!sweep_is_gauge(n) || n->was == NULL) continue;
    kir_expr_t *was =
        td_map_get_u64(&t->elements, (uint64_t)(uintptr_t)n->was);
    uint32_t count = tile_sweep_subs(s, NULL, 0, NULL, subs);
    kir_expr_t *moved =
        tile_op2(t, KIR_X_NE, TDSL_DTYPE_BOOL, was,
                 kir_load(t->arena, s->states[k], count, subs));
    any = any == NULL ? moved
                      : tile_op2(t, KIR_X_OR, TDSL_DTYPE_BOOL, any, moved);
  }
  if (any == NULL) return block;
  return &tile_push(t, block, tile_if(t, any))->body;
}

void tile_sweep_init(sweep_t *s, uint32_t k, kir_block_t *block) {
  if (s->is_count[k]) return;
  sweep_place_t p = {.s = s, .k = k, .fn = init_chunk};
  tile_sweep_places(&p, block);
}

/* Elements a .. b - 1, as a number of the node's type. */
kir_expr_t *tile_sweep_span(tile_t *t, const tir_node_t *n, kir_expr_t *a,
                            kir_expr_t *b) {
  kir_expr_t *count = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, b, a);
  kir_expr_t *cast =
      kir_op(t->arena, KIR_X_CAST, n->body->type, 1, &count);
  cast->u.to = n->body->type;
  return cast;
}

void tile_sweep_add(sweep_t *s, uint32_t k, kir_block_t *block) {
  const tir_node_t *n = s->t->nodes[k];
  if (s->is_count[k]) {
    tile_set_element(s->t, n->was,
                     tile_sweep_span(s->t, n, s->origin, s->begin));
    tile_set_element(s->t, n->outs[0],
                     tile_sweep_span(s->t, n, s->origin, s->end));
    return;
  }
  sweep_place_t p = {.s = s, .k = k, .fn = add_chunk};
  if (n->reduce == TIR_REDUCE_SUM) {
    if (!add_wide(&p, block)) tile_sweep_places(&p, block);
  } else {
    add_along(&p, block); /* maxima and minima have no extras */
  }
}
