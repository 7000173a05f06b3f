/* lower_nest.c: a group of maps and reductions as one loop nest.
 *
 * The nodes share their first `prefix` parallel indices, which become block
 * loops; inside, one node runs after the other, and what only the group
 * reads stays in scratch of the block.  The innermost work is done by lanes:
 *   over the last parallel index   maps, and sums that add left to right;
 *   over the last reduction index  sums that keep TIR_LANES partial sums,
 *                                  and order-free reductions along a row;
 *   over the last parallel index, with a row of partial sums for each lane
 *                                  sums whose terms lie in columns.
 * A lane range is a full part without a mask and a masked tail. */
#include "passes/tile/nest.h"

#include "ir/expr.h"
#include "passes/tensor/group_kernels.h"
#include "passes/tile/stage_rows.h"
#include "runtime/base/num.h"

/* ---- what a node is ----------------------------------------------------- */

static uint32_t parallel_count(const tir_node_t *n) {
  uint32_t count = 0;
  while (count < n->index_count && !n->indices[count]->is_reduction) count++;
  return count;
}

static bool is_float(tdsl_dtype_t type) {
  return type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
}

typedef enum strategy {
  BY_OUTPUT, BY_ROW, BY_COLUMN, BY_SCALAR
} strategy_t;

enum {
  REDUCED_CHUNK = 128,  /* outputs of a block */
};

/* Bits are fixed by the node's plan; where they do not depend on the order,
 * lanes run along memory. */
static strategy_t choose(tile_t *t, const tir_node_t *n, uint32_t prefix) {
  uint32_t par = parallel_count(n);
  bool has_out = par > prefix;
  bool is_sum =
      n->reduce == TIR_REDUCE_SUM || n->reduce == TIR_REDUCE_PROD;
  bool is_laned = n->plan == TIR_PLAN_LANES && !t->plan_serial;
  if (is_sum && is_float(n->body->type) && !is_laned) {
    return has_out ? BY_OUTPUT : BY_SCALAR;
  }
  bool is_place =
      n->reduce == TIR_REDUCE_ARGMAX || n->reduce == TIR_REDUCE_ARGMIN;
  if (!has_out || !group_is_column(t->arena, n)) return BY_ROW;
  return is_place ? BY_OUTPUT : BY_COLUMN;
}

/* ---- one node ----------------------------------------------------------- */

void tile_nest_set(tile_t *t, nest_t *s, uint32_t i, kir_expr_t *v) {
  s->subs[s->places == NULL ? i : s->places[i]] = v;
  tile_set_index(t, s->node->indices[i], v);
}

/* Serial loops over indices from .. to - 1; the block inside. */
kir_block_t *tile_nest_loops(tile_t *t, nest_t *s, kir_block_t *block,
                             uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    const tir_index_t *index = s->node->indices[i];
    kir_expr_t *v;
    block = tile_loop(t, block, KIR_LOOP_SERIAL, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent), 1, &v);
    if (i < s->par) {
      tile_nest_set(t, s, i, v);
    } else {
      tile_set_index(t, index, v);
    }
  }
  return block;
}

/* acc[at] = acc[at] OP body, where the guard holds. */
void tile_nest_add(tile_t *t, nest_t *s, kir_block_t *block,
                   kir_expr_t *const *at, uint32_t at_count) {
  if (s->node->guard != NULL) {
    kir_expr_t *guard = tile_expr(t, s->node->guard);
    block = &tile_push(t, block, tile_if(t, guard))->body;
  }
  kir_expr_t *term = tile_expr(t, s->node->body);
  kir_expr_t *acc = kir_load(t->arena, s->acc, at_count, at);
  tile_store(t, block, s->acc, at_count, at,
             tile_combine(t, s->node, acc, term));
}

static kir_buffer_t *accumulator(tile_t *t, nest_t *s, kir_block_t *block,
                                 uint32_t rank) {
  if (s->lanes == 0) s->lanes = TILE_LANES;
  const ix_poly_t *lanes[1] = {ix_const(t->module->pool, s->lanes)};
  return tile_alloc(t, block, "acc", s->node->body->type, KIR_REGISTER, rank,
                    lanes);
}

void tile_nest_begin(tile_t *t, nest_t *s, kir_block_t *block) {
  kir_expr_t *lane;
  s->acc = accumulator(t, s, block, 1);
  kir_block_t *init = tile_lanes_of(t, block, s->lanes, &lane);
  tile_store(t, init, s->acc, 1, &lane,
             tile_identity(t, s->node->reduce, s->node->body->type));
}

void tile_nest_fold(tile_t *t, nest_t *s, kir_block_t *block) {
  const tir_node_t *n = s->node;
  kir_expr_t *fold = kir_op(t->arena, KIR_X_FOLD, n->body->type, 0, NULL);
  fold->u.buffer = s->acc;
  fold->fold = tile_fold_op(n->reduce);
  tile_store_value(t, block, n->outs[0], s->par, s->subs, fold);
}

bool tile_nest_is_by_row(tile_t *t, const nest_t *s) {
  return choose(t, s->node, s->prefix) == BY_ROW;
}

bool tile_nest_is_row_sum(tile_t *t, const nest_t *s) {
  const tir_node_t *n = s->node;
  return n->reduce == TIR_REDUCE_SUM && n->index_count == s->prefix + 1 &&
         s->par == s->prefix && choose(t, n, s->prefix) == BY_ROW;
}

static void row_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                      kir_expr_t *limit, void *user) {
  nest_t *s = user;
  kir_expr_t *index;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &index);
  tile_set_index(t, s->node->indices[s->node->index_count - 1], index);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_nest_add(t, s, body, &lane, 1);
  if (limit == NULL) tile_nest_ahead(t, s, block, base, TILE_LANES, 1);
}

/* Of the largest there is one, in whatever order: as many lanes as hide what
 * one has to wait for. */
static void wide_choice(tile_t *t, nest_t *s, kir_block_t *block,
                        tile_range_t r) {
  const tir_node_t *n = s->node;
  const tir_index_t *last = n->indices[n->index_count - 1];
  int64_t lanes = tile_nest_wide(t, r);
  kir_expr_t *base;
  tile_nest_choice_open(t, s, block, lanes);
  kir_block_t *inner =
      tile_nest_loops(t, s, block, s->par, n->index_count - 1);
  inner = tile_loop(t, inner, KIR_LOOP_SERIAL, last->name, r.lo, r.hi, lanes,
                    &base);
  tile_nest_choice_step(t, s, inner, base);
  tile_nest_ahead(t, s, inner, base, lanes, 1);
  tile_nest_choice_close(t, s, block);
}

/* One accumulator a lane along the last reduction index, then a fold. */
static void reduce_by_row(tile_t *t, nest_t *s, kir_block_t *block) {
  tir_node_t *n = s->node;
  block = tile_nest_loops(t, s, block, s->prefix, s->par);
  const tir_index_t *last = n->indices[n->index_count - 1];
  tile_range_t r = {tile_int(t, 0), tile_dim(t, last->extent)};
  if (tile_nest_is_choice(s) && tile_nest_wide(t, r) > 0) {
    wide_choice(t, s, block, r);
    return;
  }
  tile_nest_begin(t, s, block);
  kir_block_t *inner =
      tile_nest_loops(t, s, block, s->par, n->index_count - 1);
  tile_chunks(t, inner, last->name, r, row_chunk, s);
  tile_nest_fold(t, s, block);
}

/* One output element a lane; the reduction runs left to right. */
static void output_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                         kir_expr_t *limit, void *user) {
  nest_t *s = user;
  tir_node_t *n = s->node;
  kir_expr_t *index, *lane;
  s->acc = accumulator(t, s, block, 1);
  kir_block_t *init = tile_lanes(t, block, NULL, &lane);
  tile_store(t, init, s->acc, 1, &lane,
             tile_identity(t, n->reduce, n->body->type));
  kir_block_t *inner = tile_nest_terms(t, s, block);
  kir_block_t *body = tile_lanes_at(t, inner, base, limit, &index);
  tile_nest_set(t, s, s->par - 1, index);
  lane = kir_var_ref(t->arena, td_vec_last(inner)->var);
  tile_nest_add(t, s, body, &lane, 1);
  tile_nest_total(t, s, block);
  body = tile_lanes_at(t, block, base, limit, &index);
  tile_nest_set(t, s, s->par - 1, index);
  lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_store_value(t, body, n->outs[0], s->par, s->subs,
                   kir_load(t->arena, s->acc, 1, &lane));
}

/* ---- columns ------------------------------------------------------------ */

typedef struct column {
  nest_t *nest;
  kir_expr_t *base, *limit; /* of the lanes */
} column_t;

/* Terms k0 .. k0 + 15 of every lane, each into its own row; those at `end`
 * and behind are not there. */
static void add_terms(tile_t *t, const column_t *c, kir_block_t *block,
                      kir_expr_t *k0, kir_expr_t *end) {
  nest_t *s = c->nest;
  const tir_index_t *last = s->node->indices[s->node->index_count - 1];
  kir_expr_t *r, *index;
  block = tile_loop(t, block, KIR_LOOP_UNROLL, "r", tile_int(t, 0),
                    tile_int(t, TILE_LANES), 1, &r);
  kir_expr_t *k = kir_add(t->arena, k0, r);
  if (end != NULL) {
    block = &tile_push(t, block, tile_if(t, tile_less(t, k, end)))->body;
  }
  kir_block_t *body = tile_lanes_at(t, block, c->base, c->limit, &index);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_set_index(t, last, k);
  tile_nest_set(t, s, s->par - 1, index);
  tile_nest_add(t, s, body, (kir_expr_t *[]){r, lane}, 2);
}

/* acc[r] = acc[r] OP acc[r + half], as a fold of lanes would. */
static void fold_rows(tile_t *t, nest_t *s, kir_block_t *block,
                      int64_t half) {
  kir_expr_t *r, *lane;
  kir_block_t *rows = tile_loop(t, block, KIR_LOOP_UNROLL, "r",
                                tile_int(t, 0), tile_int(t, half), 1, &r);
  kir_block_t *body = tile_lanes(t, rows, NULL, &lane);
  kir_expr_t *at[2] = {r, lane};
  kir_expr_t *from[2] = {kir_add(t->arena, r, tile_int(t, half)), lane};
  tile_store(t, body, s->acc, 2, at,
             tile_op2(t, tile_fold_op(s->node->reduce), s->node->body->type,
                      kir_load(t->arena, s->acc, 2, at),
                      kir_load(t->arena, s->acc, 2, from)));
}

/* One output element a lane, with TIR_LANES partial sums each. */
static void column_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                         kir_expr_t *limit, void *user) {
  nest_t *s = user;
  tir_node_t *n = s->node;
  column_t c = {s, base, limit};
  kir_expr_t *r, *lane, *k0, *index;
  const ix_poly_t *lanes = ix_const(t->module->pool, TILE_LANES);
  s->acc = tile_alloc(t, block, "acc", n->body->type, KIR_REGISTER, 2,
                      (const ix_poly_t *[]){lanes, lanes});
  kir_block_t *init = tile_loop(t, block, KIR_LOOP_UNROLL, "r",
                                tile_int(t, 0), tile_int(t, TILE_LANES), 1,
                                &r);
  init = tile_lanes(t, init, NULL, &lane);
  tile_store(t, init, s->acc, 2, (kir_expr_t *[]){r, lane},
             tile_identity(t, n->reduce, n->body->type));
  kir_block_t *inner = tile_nest_loops(t, s, block, s->par, n->index_count - 1);
  const tir_index_t *last = n->indices[n->index_count - 1];
  kir_expr_t *end = tile_dim(t, last->extent);
  kir_expr_t *full = tile_whole_part(t, end);
  kir_block_t *body = tile_loop(t, inner, KIR_LOOP_SERIAL, last->name,
                                tile_int(t, 0), full, TILE_LANES, &k0);
  add_terms(t, &c, body, k0, NULL);
  add_terms(t, &c, inner, full, end);
  for (int64_t half = TILE_LANES / 2; half > 0; half /= 2) {
    fold_rows(t, s, block, half);
  }
  body = tile_lanes_at(t, block, base, limit, &index);
  tile_nest_set(t, s, s->par - 1, index);
  lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_store_value(t, body, n->outs[0], s->par, s->subs,
                   kir_load(t->arena, s->acc, 2,
                            (kir_expr_t *[]){tile_int(t, 0), lane}));
}

/* The element of a map, or what an update puts into its place, at the
 * indices set. */
static void store_element(tile_t *t, nest_t *s, kir_block_t *block) {
  tir_node_t *n = s->node;
  kir_expr_t *subs[IX_MAX_RANK];
  if (n->kind != TIR_UPDATE) {
    tile_store_value(t, block, n->outs[0], s->par, s->subs,
                     tile_expr(t, n->body));
    return;
  }
  for (uint32_t i = 0; i < n->sub_count; i++) {
    subs[i] = tile_expr(t, n->subs[i]);
  }
  tile_store_value(t, block, n->outs[0], n->sub_count, subs,
                   tile_expr(t, n->body));
}

static void wide_map(tile_t *t, nest_t *s, kir_block_t *block,
                     int64_t lanes) {
  const tir_index_t *last = s->node->indices[s->par - 1];
  kir_expr_t *base, *lane;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, last->name, s->last.lo,
                    s->last.hi, lanes, &base);
  if (s->ahead != NULL) {
    tile_nest_carry_step(t, s, block, base);
    for (uint32_t i = 0; i < s->prefix; i++) {
      tile_nest_set(t, s, i, s->subs[i]);
    }
  }
  kir_block_t *body = tile_lanes_of(t, block, lanes, &lane);
  tile_nest_set(t, s, s->par - 1, kir_add(t->arena, base, lane));
  store_element(t, s, body);
  tile_nest_ahead(t, s, block, base, lanes, 1);
}

static void map_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                      kir_expr_t *limit, void *user) {
  nest_t *s = user;
  kir_expr_t *index;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &index);
  tile_nest_set(t, s, s->par - 1, index);
  store_element(t, s, body);
}

static void reduce_scalar(tile_t *t, nest_t *s, kir_block_t *block) {
  tir_node_t *n = s->node;
  block = tile_nest_loops(t, s, block, s->prefix, s->par);
  s->acc = accumulator(t, s, block, 0);
  tile_store(t, block, s->acc, 0, NULL,
             tile_identity(t, n->reduce, n->body->type));
  kir_block_t *inner = tile_nest_terms(t, s, block);
  tile_nest_add(t, s, inner, NULL, 0);
  tile_nest_total(t, s, block);
  tile_store_value(t, block, n->outs[0], s->par, s->subs,
                   kir_load(t->arena, s->acc, 0, NULL));
}

static void lower_node(tile_t *t, nest_t *s, kir_block_t *block) {
  tir_node_t *n = s->node;
  bool has_out = s->par > s->prefix;
  const tir_index_t *last = has_out ? n->indices[s->par - 1] : NULL;
  if (has_out && s->last.hi == NULL) {
    s->last.lo = tile_int(t, 0);
    s->last.hi = tile_dim(t, last->extent);
  }
  if (n->reduce == TIR_REDUCE_NONE) {
    if (!has_out) {
      store_element(t, s, block);
      return;
    }
    block = tile_nest_loops(t, s, block, s->prefix, s->par - 1);
    int64_t lanes = tile_nest_wide(t, s->last);
    if (lanes > 0) wide_map(t, s, block, lanes);
    else tile_chunks(t, block, last->name, s->last, map_chunk, s);
    return;
  }
  if (n->reduce == TIR_REDUCE_ARGMAX || n->reduce == TIR_REDUCE_ARGMIN) {
    if (choose(t, n, s->prefix) == BY_ROW) {
      tile_nest_place(t, s, block);
      return;
    }
    block = tile_nest_loops(t, s, block, s->prefix, s->par - 1);
    tile_chunks(t, block, last->name, s->last, tile_nest_place_columns, s);
    return;
  }
  switch (choose(t, n, s->prefix)) {
    case BY_ROW: reduce_by_row(t, s, block); return;
    case BY_OUTPUT:
      block = tile_nest_loops(t, s, block, s->prefix, s->par - 1);
      tile_chunks(t, block, last->name, s->last, output_chunk, s);
      return;
    case BY_COLUMN:
      block = tile_nest_loops(t, s, block, s->prefix, s->par - 1);
      tile_chunks(t, block, last->name, s->last, column_chunk, s);
      return;
    case BY_SCALAR: reduce_scalar(t, s, block); return;
  }
}

void tile_lower_one(tile_t *t, tir_node_t *node, uint32_t prefix,
                    kir_expr_t *const *values, const tile_range_t *last,
                    const uint32_t *places, kir_block_t *block) {
  nest_t *s = TD_NEW(t->arena, nest_t);
  s->node = node;
  s->places = places;
  s->prefix = prefix;
  s->par = parallel_count(node);
  for (uint32_t i = 0; i < prefix; i++) tile_nest_set(t, s, i, values[i]);
  if (last != NULL) s->last = *last;
  lower_node(t, s, block);
}

/* ---- the group ---------------------------------------------------------- */

/* Whether lanes of this lone node run over its last parallel index: then
 * that index stays inside the block, in chunks. */
static bool keeps_last(tile_t *t, const tir_node_t *n, uint32_t par) {
  if (par == 0) return false;
  if (n->reduce == TIR_REDUCE_NONE) return true;
  strategy_t s = choose(t, n, par - 1);
  return s == BY_OUTPUT || s == BY_COLUMN;
}

static void describe(tile_t *t, const nest_t *states, uint32_t prefix) {
  static const char *const ways[] = {
      [BY_OUTPUT] = "lanes over outputs, terms left to right",
      [BY_ROW] = "lanes over terms, folded by halves",
      [BY_COLUMN] = "lanes over outputs, each with 16 partial results",
      [BY_SCALAR] = "terms left to right"};
  tile_note(t, "%s: %s", t->node_count > 1 ? "rows" : "one formula",
            tile_describe(t));
  tile_note(t, "blocks over the first %u of the parallel indices", prefix);
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = states[k].node;
    if (n->reduce == TIR_REDUCE_NONE) continue;
    tile_note(t, "%s: %s", n->outs[0]->name,
              ways[choose(t, n, prefix)]);
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (states[k].joined < 2) continue;
    const char *names = states[k].node->outs[0]->name;
    for (uint32_t i = 1; i < states[k].joined; i++) {
      names = td_arena_printf(t->arena, "%s, %s", names,
                              states[k + i].node->outs[0]->name);
    }
    tile_note(t, "one pass over the row: %s", names);
  }
}

/* What is too large for a cache is not read from one by the next kernel. */
static void stream_outputs(tile_t *t) {
  enum { LARGE = 32 << 20 };
  if (t->target->warp != 0) return;
  for (size_t i = 0; i < t->params.length; i++) {
    kir_buffer_t *b = t->params.data[i];
    int64_t bytes = (int64_t)td_dtype_bytes(b->dtype), size;
    bool is_known = b->is_written && !b->is_read;
    for (uint32_t d = 0; d < b->rank && is_known; d++) {
      is_known = ix_is_const(b->dims[d], &size) &&
                 !__builtin_mul_overflow(bytes, size, &bytes);
    }
    b->is_streamed = is_known && bytes >= LARGE;
  }
}

void tile_nest_use_row(tile_t *t, nest_t *s, uint32_t k) {
  nest_t *states = s - k;
  for (uint32_t i = 0; i < t->node_count; i++) {
    for (uint32_t d = 0; d < states[i].prefix; d++) {
      tile_nest_set(t, &states[i], d, states[i].subs[d]);
    }
    if (states[i].home == NULL) continue;
    td_map_put_u64(&t->homes,
                   (uint64_t)(uintptr_t)states[i].node->outs[0],
                   states[i].home);
  }
}

/* States of the row that is `r` behind the first. */
static void add_row(tile_t *t, nest_t *states, int64_t r) {
  nest_t *more = TD_NEW_ARRAY(t->arena, nest_t, t->node_count);
  nest_t *last = states;
  while (last->next_row != NULL) last = last->next_row;
  for (uint32_t k = 0; k < t->node_count; k++) {
    uint32_t d = states[k].prefix - 1;
    more[k] = states[k];
    more[k].next_row = NULL;
    more[k].subs[d] = kir_add(t->arena, states[k].subs[d], tile_int(t, r));
    last[k].next_row = &more[k];
  }
}

/* What stays in the block. */
static void make_homes(tile_t *t, nest_t *states, kir_block_t *block) {
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_value_t *v = t->nodes[k]->outs[0];
    uint32_t prefix = states[k].prefix;
    tile_home_t *home =
        td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)v);
    bool is_here = home != NULL && home->buffer != NULL &&
                   home->buffer->space == KIR_GLOBAL;
    if (home == NULL || is_here || states[k].is_let) continue;
    uint32_t rank = v->rank - prefix;
    const ix_poly_t *dims[IX_MAX_RANK];
    tile_stage_dims(t, v, prefix, dims);
    tile_set_home(t, v,
                  tile_alloc(t, block, v->name, v->dtype,
                             rank == 0 ? KIR_REGISTER : KIR_LOCAL, rank,
                             dims),
                  prefix);
    states[k].home = td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)v);
  }
}

/* Node k and what is joined to it, of all rows. */
static void nest_node(tile_t *t, nest_t *states, uint32_t k,
                      kir_block_t *block) {
  bool is_number = states[k].node->index_count == states[k].prefix;
  if (!is_number) {
    tile_nest_joined(t, &states[k], k, block);
    return;
  }
  for (nest_t *s = &states[k]; s != NULL; s = s->next_row) {
    tile_nest_use_row(t, s, k);
    lower_node(t, s, block);
  }
}

void tile_lower_nest(tile_t *t, uint32_t prefix) {
  nest_t *states = TD_NEW_ARRAY(t->arena, nest_t, t->node_count);
  kir_block_t *block = &t->kernel->body;
  tir_node_t *first = t->nodes[0];
  bool is_alone = t->node_count == 1;
  if (is_alone) {
    prefix = parallel_count(first);
    if (keeps_last(t, first, prefix)) prefix--;
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    states[k].node = t->nodes[k];
    states[k].prefix = prefix;
    states[k].par = parallel_count(t->nodes[k]);
  }
  if (tile_lower_long_rows(t, states, prefix)) return;
  tile_nest_find_joined(t, states, t->node_count);
  int64_t rows = is_alone ? 1 : tile_nest_rows(t, states, t->node_count);
  uint32_t last = tile_nest_find_carry(t, states, t->node_count, rows);
  tile_nest_share_work(t, states, t->node_count, last > 0);
  describe(t, states, prefix);
  if (rows > 1) tile_note(t, "%lld rows together", (long long)rows);
  if (last > 0) {
    tile_note(t, "the first pass over the next row goes beside the last one");
  }
  int64_t block_rows = last > 0 ? TILE_CARRY_ROWS : rows;
  for (uint32_t i = 0; i < prefix; i++) {
    const tir_index_t *index = first->indices[i];
    kir_expr_t *v;
    block = tile_loop(t, block, KIR_LOOP_BLOCK, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent),
                      i + 1 < prefix ? 1 : block_rows, &v);
    for (uint32_t k = 0; k < t->node_count; k++) {
      tile_nest_set(t, &states[k], i, v);
    }
  }
  /* elements of a block; a reduced one is worth many */
  int64_t extent, chunk = first->reduce == TIR_REDUCE_NONE ? TILE_CHUNK
                                                           : REDUCED_CHUNK;
  bool is_short = is_alone && states[0].par > prefix &&
                  ix_is_const(first->indices[prefix]->extent, &extent) &&
                  extent <= chunk;
  if (is_alone && states[0].par > prefix && !is_short) {
    const tir_index_t *index = first->indices[prefix];
    kir_expr_t *hi = tile_dim(t, index->extent), *lo;
    block = tile_loop(t, block, KIR_LOOP_BLOCK, index->name, tile_int(t, 0),
                      hi, chunk, &lo);
    states[0].last.lo = lo;
    states[0].last.hi =
        tile_min(t, kir_add(t->arena, lo, tile_int(t, chunk)), hi);
  }
  for (int64_t r = 1; r < rows; r++) add_row(t, states, r);
  for (nest_t *row = states; row != NULL; row = row->next_row) {
    make_homes(t, row, block);
  }
  tile_stage_rows(t, block, states[0].subs, prefix);
  if (last > 0) block = tile_nest_carry_open(t, states, last, rows, block);
  for (uint32_t k = last > 0 ? states[0].joined : 0; k < t->node_count; k++) {
    if (states[k].joined == 0) continue;
    bool is_row_sum = t->target->warp == 0 &&
                      tile_nest_is_row_sum(t, &states[k]);
    if (states[k].joined > 1 || is_row_sum || rows > 1) {
      nest_node(t, states, k, block);
    } else {
      lower_node(t, &states[k], block);
    }
    if (last > 0) tile_nest_use_row(t, states, 0);
  }
  if (last > 0) tile_nest_carry_close(t, states, last, block);
  stream_outputs(t);
}
