/* lower_nest.c: a group of maps and reductions as one loop nest.
 *
 * The nodes share their first `prefix` parallel indices, which become block
 * loops; inside, one node runs after the other, and what only the group
 * reads stays in scratch of the block.  The innermost work is done by lanes:
 *   over the last parallel index   maps, and sums that add left to right;
 *   over the last reduction index  sums that keep TIR_LANES partial sums,
 *                                  and order-free reductions along a row.
 * A lane range is a full part without a mask and a masked tail. */
#include "passes/tile/tile.h"

#include "runtime/base/num.h"

/* A range of an index that lanes cover: lo is a multiple of TILE_LANES. */
typedef struct range {
  kir_expr_t *lo, *hi;
} range_t;

/* One group of lanes starting at `base`; `limit` NULL: all lanes count. */
typedef void (*chunk_fn)(tile_t *t, kir_block_t *block, kir_expr_t *base,
                         kir_expr_t *limit, void *user);

static kir_expr_t *whole_part(tile_t *t, kir_expr_t *hi) {
  if (hi->op == KIR_X_CONST) {
    return tile_int(t, hi->u.i64 / TILE_LANES * TILE_LANES);
  }
  kir_expr_t *rest = tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, hi,
                              tile_int(t, TILE_LANES));
  return tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, hi, rest);
}

/* Calls fn for the full groups in a loop and once for a masked tail. */
static void for_chunks(tile_t *t, kir_block_t *block, const char *name,
                       range_t r, chunk_fn fn, void *user) {
  kir_expr_t *full = whole_part(t, r.hi);
  bool is_const = full->op == KIR_X_CONST && r.lo->op == KIR_X_CONST;
  kir_expr_t *base;
  if (!is_const || full->u.i64 > r.lo->u.i64) {
    kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, name, r.lo, full,
                                  TILE_LANES, &base);
    fn(t, body, base, NULL, user);
  }
  if (is_const && full->u.i64 == r.hi->u.i64) return;
  if (is_const) {
    fn(t, block, full, r.hi, user);
    return;
  }
  /* `full` is at least lo: lo is a multiple of the lanes, and hi > lo or
   * there is nothing to do */
  kir_stmt_t *tail = tile_push(t, block, tile_if(t, tile_less(t, full, r.hi)));
  fn(t, &tail->body, full, r.hi, user);
}

/* Lane loop over base + l < limit; *out_index is base + l. */
static kir_block_t *lanes_at(tile_t *t, kir_block_t *block, kir_expr_t *base,
                             kir_expr_t *limit, kir_expr_t **out_index) {
  kir_expr_t *lane;
  kir_block_t *body = tile_lanes(t, block, NULL, &lane);
  *out_index = kir_add(t->arena, base, lane);
  if (limit != NULL) {
    td_vec_last(block)->mask = tile_less(t, *out_index, limit);
  }
  return body;
}

/* ---- what a node is ------------------------------------------------------ */

static uint32_t parallel_count(const tir_node_t *n) {
  uint32_t count = 0;
  while (count < n->index_count && !n->indices[count]->is_reduction) count++;
  return count;
}

static bool is_float(tdsl_dtype_t type) {
  return type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
}

typedef enum strategy { BY_OUTPUT, BY_ROW, BY_SCALAR } strategy_t;

typedef struct load_count {
  const tir_index_t *row, *out;
  uint32_t row_loads, out_loads;
} load_count_t;

static void count_loads(void *user, tir_expr_t *e) {
  load_count_t *c = user;
  if (e->op != TIR_X_LOAD || e->arg_count == 0) return;
  const tir_expr_t *last = e->args[e->arg_count - 1];
  if (last->op != TIR_X_INDEX) return;
  c->row_loads += last->u.index == c->row;
  c->out_loads += last->u.index == c->out;
}

/* Bits are fixed by the node's plan; where they do not depend on the order,
 * lanes run along memory. */
static strategy_t choose(tile_t *t, const tir_node_t *n, uint32_t prefix) {
  uint32_t par = parallel_count(n);
  if (n->reduce == TIR_REDUCE_ARGMAX || n->reduce == TIR_REDUCE_ARGMIN) {
    return BY_SCALAR;
  }
  bool has_out = par > prefix;
  bool is_sum =
      n->reduce == TIR_REDUCE_SUM || n->reduce == TIR_REDUCE_PROD;
  if (is_sum && is_float(n->body->type)) {
    if (n->plan == TIR_PLAN_LANES && !t->plan_serial) return BY_ROW;
    return has_out ? BY_OUTPUT : BY_SCALAR;
  }
  if (!has_out) return BY_ROW;
  load_count_t c = {n->indices[n->index_count - 1], n->indices[par - 1], 0,
                    0};
  tir_walk(t->arena, n->body, count_loads, &c);
  return c.row_loads >= c.out_loads ? BY_ROW : BY_OUTPUT;
}

/* ---- one node ------------------------------------------------------------ */

typedef struct nest {
  tir_node_t *node;
  uint32_t prefix, par;
  kir_expr_t *subs[IX_MAX_RANK]; /* output subscripts so far */
  kir_buffer_t *acc;
  range_t last;                  /* of the last parallel index */
} nest_t;

static void set_parallel(tile_t *t, nest_t *s, uint32_t i, kir_expr_t *v) {
  s->subs[i] = v;
  tile_set_index(t, s->node->indices[i], v);
}

/* Serial loops over indices from .. to - 1; the block inside. */
static kir_block_t *serial_loops(tile_t *t, nest_t *s, kir_block_t *block,
                                 uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    const tir_index_t *index = s->node->indices[i];
    kir_expr_t *v;
    block = tile_loop(t, block, KIR_LOOP_SERIAL, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent), 1, &v);
    if (i < s->par) {
      set_parallel(t, s, i, v);
    } else {
      tile_set_index(t, index, v);
    }
  }
  return block;
}

/* acc[at] = acc[at] OP body, where the guard holds. */
static void accumulate(tile_t *t, nest_t *s, kir_block_t *block,
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
  const ix_poly_t *lanes[1] = {ix_const(t->module->pool, TILE_LANES)};
  return tile_alloc(t, block, "acc", s->node->body->type, KIR_REGISTER, rank,
                    lanes);
}

static void row_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                      kir_expr_t *limit, void *user) {
  nest_t *s = user;
  kir_expr_t *index;
  kir_block_t *body = lanes_at(t, block, base, limit, &index);
  tile_set_index(t, s->node->indices[s->node->index_count - 1], index);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  accumulate(t, s, body, &lane, 1);
}

/* One accumulator a lane along the last reduction index, then a fold. */
static void reduce_by_row(tile_t *t, nest_t *s, kir_block_t *block) {
  tir_node_t *n = s->node;
  block = serial_loops(t, s, block, s->prefix, s->par);
  s->acc = accumulator(t, s, block, 1);
  kir_expr_t *lane;
  kir_block_t *init = tile_lanes(t, block, NULL, &lane);
  tile_store(t, init, s->acc, 1, &lane,
             tile_identity(t, n->reduce, n->body->type));
  kir_block_t *inner =
      serial_loops(t, s, block, s->par, n->index_count - 1);
  const tir_index_t *last = n->indices[n->index_count - 1];
  range_t r = {tile_int(t, 0), tile_dim(t, last->extent)};
  for_chunks(t, inner, last->name, r, row_chunk, s);
  kir_expr_t *fold = kir_op(t->arena, KIR_X_FOLD, n->body->type, 0, NULL);
  fold->u.buffer = s->acc;
  fold->fold = tile_fold_op(n->reduce);
  tile_store_value(t, block, n->outs[0], s->par, s->subs, fold);
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
  kir_block_t *inner = serial_loops(t, s, block, s->par, n->index_count);
  kir_block_t *body = lanes_at(t, inner, base, limit, &index);
  set_parallel(t, s, s->par - 1, index);
  lane = kir_var_ref(t->arena, td_vec_last(inner)->var);
  accumulate(t, s, body, &lane, 1);
  body = lanes_at(t, block, base, limit, &index);
  set_parallel(t, s, s->par - 1, index);
  lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_store_value(t, body, n->outs[0], s->par, s->subs,
                   kir_load(t->arena, s->acc, 1, &lane));
}

static void map_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                      kir_expr_t *limit, void *user) {
  nest_t *s = user;
  kir_expr_t *index;
  kir_block_t *body = lanes_at(t, block, base, limit, &index);
  set_parallel(t, s, s->par - 1, index);
  tile_store_value(t, body, s->node->outs[0], s->par, s->subs,
                   tile_expr(t, s->node->body));
}

static void reduce_scalar(tile_t *t, nest_t *s, kir_block_t *block) {
  tir_node_t *n = s->node;
  block = serial_loops(t, s, block, s->prefix, s->par);
  s->acc = accumulator(t, s, block, 0);
  tile_store(t, block, s->acc, 0, NULL,
             tile_identity(t, n->reduce, n->body->type));
  kir_block_t *inner = serial_loops(t, s, block, s->par, n->index_count);
  accumulate(t, s, inner, NULL, 0);
  tile_store_value(t, block, n->outs[0], s->par, s->subs,
                   kir_load(t->arena, s->acc, 0, NULL));
}

/* Position of the largest (smallest) value: the first of equals, the first
 * NaN before all, 0 if nothing passes the guard. */
static void reduce_position(tile_t *t, nest_t *s, kir_block_t *block) {
  tir_node_t *n = s->node;
  tdsl_dtype_t type = n->body->type;
  block = serial_loops(t, s, block, s->prefix, s->par);
  s->acc = accumulator(t, s, block, 0);
  kir_buffer_t *at = tile_alloc(t, block, "at", TDSL_DTYPE_I64, KIR_REGISTER,
                                0, NULL);
  kir_buffer_t *seen = tile_alloc(t, block, "seen", TDSL_DTYPE_BOOL,
                                  KIR_REGISTER, 0, NULL);
  tile_store(t, block, s->acc, 0, NULL, tile_identity(t, n->reduce, type));
  tile_store(t, block, at, 0, NULL, tile_int(t, 0));
  kir_expr_t *no = kir_const_i(t->arena, TDSL_DTYPE_BOOL, 0);
  kir_expr_t *yes = kir_const_i(t->arena, TDSL_DTYPE_BOOL, 1);
  tile_store(t, block, seen, 0, NULL, no);
  kir_block_t *inner = serial_loops(t, s, block, s->par, n->index_count);
  if (n->guard != NULL) {
    inner = &tile_push(t, inner, tile_if(t, tile_expr(t, n->guard)))->body;
  }
  kir_stmt_t *let = TD_NEW(t->arena, kir_stmt_t);
  let->kind = KIR_LET;
  let->var = kir_var_create(t->kernel, "v", type);
  let->value = tile_expr(t, n->body);
  tile_push(t, inner, let);
  kir_expr_t *v = kir_var_ref(t->arena, let->var);
  kir_expr_t *best = kir_load(t->arena, s->acc, 0, NULL);
  kir_x_t wins = n->reduce == TIR_REDUCE_ARGMAX ? KIR_X_GT : KIR_X_LT;
  kir_expr_t *take = tile_op2(t, wins, TDSL_DTYPE_BOOL, v, best);
  if (is_float(type)) {
    kir_expr_t *nan = tile_op2(t, KIR_X_NE, TDSL_DTYPE_BOOL, v, v);
    kir_expr_t *not_yet = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, best, best);
    kir_expr_t *first = tile_op2(t, KIR_X_AND, TDSL_DTYPE_BOOL, nan, not_yet);
    take = tile_op2(t, KIR_X_OR, TDSL_DTYPE_BOOL, take, first);
  }
  kir_expr_t *unseen =
      kir_op(t->arena, KIR_X_NOT, TDSL_DTYPE_BOOL, 1,
             (kir_expr_t *[]){kir_load(t->arena, seen, 0, NULL)});
  take = tile_op2(t, KIR_X_OR, TDSL_DTYPE_BOOL, unseen, take);
  kir_block_t *hit = &tile_push(t, inner, tile_if(t, take))->body;
  kir_expr_t *position = td_map_get_u64(
      &t->indices, (uint64_t)(uintptr_t)n->indices[n->index_count - 1]);
  tile_store(t, hit, s->acc, 0, NULL, v);
  tile_store(t, hit, at, 0, NULL, position);
  tile_store(t, hit, seen, 0, NULL, yes);
  tile_store_value(t, block, n->outs[0], s->par, s->subs,
                   kir_load(t->arena, at, 0, NULL));
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
      tile_store_value(t, block, n->outs[0], s->par, s->subs,
                       tile_expr(t, n->body));
      return;
    }
    block = serial_loops(t, s, block, s->prefix, s->par - 1);
    for_chunks(t, block, last->name, s->last, map_chunk, s);
    return;
  }
  switch (choose(t, n, s->prefix)) {
    case BY_ROW: reduce_by_row(t, s, block); return;
    case BY_OUTPUT:
      block = serial_loops(t, s, block, s->prefix, s->par - 1);
      for_chunks(t, block, last->name, s->last, output_chunk, s);
      return;
    case BY_SCALAR:
      if (n->reduce == TIR_REDUCE_ARGMAX || n->reduce == TIR_REDUCE_ARGMIN) {
        reduce_position(t, s, block);
      } else {
        reduce_scalar(t, s, block);
      }
      return;
  }
}

/* ---- the group ----------------------------------------------------------- */

/* Whether lanes of this lone node run over its last parallel index: then
 * that index stays inside the block, in chunks. */
static bool keeps_last(tile_t *t, const tir_node_t *n, uint32_t par) {
  if (par == 0) return false;
  if (n->reduce == TIR_REDUCE_NONE) return true;
  return choose(t, n, par - 1) == BY_OUTPUT;
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
  for (uint32_t i = 0; i < prefix; i++) {
    const tir_index_t *index = first->indices[i];
    kir_expr_t *v;
    block = tile_loop(t, block, KIR_LOOP_BLOCK, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent), 1, &v);
    for (uint32_t k = 0; k < t->node_count; k++) {
      set_parallel(t, &states[k], i, v);
    }
  }
  int64_t extent;
  bool is_short = is_alone && states[0].par > prefix &&
                  ix_is_const(first->indices[prefix]->extent, &extent) &&
                  extent <= TILE_CHUNK;
  if (is_alone && states[0].par > prefix && !is_short) {
    const tir_index_t *index = first->indices[prefix];
    kir_expr_t *hi = tile_dim(t, index->extent), *lo;
    block = tile_loop(t, block, KIR_LOOP_BLOCK, index->name, tile_int(t, 0),
                      hi, TILE_CHUNK, &lo);
    states[0].last.lo = lo;
    states[0].last.hi =
        tile_min(t, kir_add(t->arena, lo, tile_int(t, TILE_CHUNK)), hi);
  }
  /* what stays in the block */
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_value_t *v = t->nodes[k]->outs[0];
    tile_home_t *home =
        td_map_get_u64(&t->homes, (uint64_t)(uintptr_t)v);
    if (home == NULL || home->buffer != NULL) continue;
    uint32_t rank = v->rank - prefix;
    home->buffer = tile_alloc(t, block, v->name, v->dtype,
                              rank == 0 ? KIR_REGISTER : KIR_LOCAL, rank,
                              v->dims + prefix);
    home->dropped = prefix;
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    lower_node(t, &states[k], block);
  }
}
