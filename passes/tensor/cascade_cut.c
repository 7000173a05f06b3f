/* cascade_cut.c: a sweep with too few rows to fill the machine is cut along
 * its axis.
 *
 *     %l: [t; u in S] cascade 1 ..
 *
 * becomes states of splits, a kernel with a block for each split of each row,
 *
 *     %l.split: [split in (S + 1023) / 1024, t; u in 1024] cascade 2
 *         where split * 1024 + u < S ..
 *
 * and their merge, which is a sweep over the splits whose parts are one split
 * each:
 *
 *     %l: [t; split in ..] cascade 3 merge  transport of %l.split
 *
 * Splits and the order of merging are those of the plan, which a block that
 * walks the whole axis keeps as well: only the number of rows decides, and it
 * moves no bit. */
#include <math.h>

#include "passes/tensor/cascade.h"

#include "passes/tensor/group_kernels.h"
#include "passes/tensor/price.h"
#include "passes/tensor/tensor.h"

enum { CPU_ROWS = 4 }; /* fewer leave cores idle */

typedef struct cut {
  td_task_t *task;
  tir_module_t *module;
  td_arena_t *arena, *scratch;
  tir_block_t *block;
  size_t begin, end;  /* the cascade in the block */
  uint32_t rows, number;
  const ix_poly_t *axis_extent, *count; /* of the axis; of splits */
  const ix_poly_t *kept; /* of splits that have memory; NULL: all */
  tir_index_t *split;
  td_map_t values;    /* tir_value_t* of the cascade -> that of a split */
  td_map_t tiles;     /* tir_value_t* -> itself: of a tile */
  TD_VEC(tir_node_t *) places; /* maps that make places behind the merge */
  /* the node that is rewritten */
  const tir_index_t *from_axis;
  tir_index_t *to_axis, *split_here;
} cut_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static bool is_state(const tir_node_t *n) {
  return n->kind == TIR_MAP && !n->is_tile && !n->is_first;
}

static bool is_place(const tir_node_t *n) {
  return n->reduce == TIR_REDUCE_ARGMAX || n->reduce == TIR_REDUCE_ARGMIN;
}

/* Place of the axis among the indices; of a first node none. */
static uint32_t axis_place(const tir_node_t *n) {
  return n->is_first ? UINT32_MAX
         : n->is_tile ? tensor_parallel(n) - 1
                      : n->index_count - 1;
}

/* ---- when ---------------------------------------------------------------- */

static bool has_few_rows(const cut_t *c, const ir_target_t *target) {
  const tir_node_t *n = c->block->data[c->begin];
  int64_t most = target->warp == 0 ? CPU_ROWS : (int64_t)target->sms - 1;
  int64_t product = 1, lo, hi;
  for (uint32_t i = 0; i < c->rows; i++) {
    if (!ix_interval(n->indices[i]->extent, &lo, &hi) ||
        __builtin_mul_overflow(product, hi, &product)) {
      return false;
    }
  }
  return product <= most;
}

static bool is_long(const cut_t *c) {
  int64_t lo, hi;
  return !ix_interval(c->axis_extent, &lo, &hi) || hi > GROUP_SPLIT;
}

static bool has_room(const cut_t *c) {
  for (size_t i = c->begin; i < c->end; i++) {
    const tir_node_t *n = c->block->data[i];
    if (n->kind == TIR_TOPK) continue; /* of what a member reads as well */
    /* where nothing passes a guard, a split has a place all the same */
    if (is_place(n) && n->guard != NULL) return false;
    bool is_float = n->body->type == TDSL_DTYPE_F32 ||
                    n->body->type == TDSL_DTYPE_F64;
    if (n->outs[0]->rank + 1 >= IX_MAX_RANK || !is_float) return false;
  }
  return true;
}

/* ---- one split ----------------------------------------------------------- */

static tir_expr_t *place_of(const cut_t *c) {
  td_arena_t *arena = c->arena;
  tir_expr_t *start = tir_op(
      arena, TIR_X_MUL, TDSL_DTYPE_I64, 2,
      (tir_expr_t *[]){tir_index_ref(arena, c->split_here),
                       tir_const_i(arena, TDSL_DTYPE_I64, GROUP_SPLIT)});
  return tir_op(arena, TIR_X_ADD, TDSL_DTYPE_I64, 2,
                (tir_expr_t *[]){start, tir_index_ref(arena, c->to_axis)});
}

static tir_expr_t *in_split(void *user, tir_expr_t *e) {
  const cut_t *c = user;
  if (e->op == TIR_X_INDEX && e->u.index == c->from_axis) return place_of(c);
  if (e->op != TIR_X_LOAD) return e;
  tir_value_t *v = td_map_get_u64(&c->values, key_of(e->u.value));
  if (v == NULL) return e;
  tir_expr_t *subs[IX_MAX_RANK];
  subs[0] = tir_index_ref(c->arena, c->split_here);
  for (uint32_t i = 0; i < e->arg_count; i++) subs[i + 1] = e->args[i];
  if (td_map_get_u64(&c->tiles, key_of(e->u.value)) != NULL) {
    subs[c->rows + 1] = tir_index_ref(c->arena, c->to_axis);
  }
  return tir_load(c->arena, v, e->arg_count + 1, subs);
}

static tir_value_t *split_value(cut_t *c, const tir_value_t *v,
                                const tir_node_t *n, const char *suffix) {
  const ix_poly_t *dims[IX_MAX_RANK];
  dims[0] = c->kept == NULL ? c->count : c->kept;
  for (uint32_t i = 0; i < v->rank; i++) dims[i + 1] = v->dims[i];
  if (n->is_tile) {
    dims[c->rows + 1] = ix_const(c->module->pool, GROUP_SPLIT);
  }
  tir_value_t *new = tir_value_create(
      c->arena, td_arena_printf(c->arena, "%s.%s", v->name, suffix), v->dtype,
      v->rank + 1, dims);
  new->loc = v->loc;
  td_map_put_u64(&c->values, key_of(v), new);
  return new;
}

typedef struct memory {
  const cut_t *c;
  bool found;
} memory_t;

static void note_memory(void *user, tir_expr_t *e) {
  memory_t *m = user;
  if (e->op != TIR_X_LOAD || e->arg_count == 0) return;
  m->found |= td_map_get_u64(&m->c->values, key_of(e->u.value)) == NULL;
}

static tir_expr_t *both(const cut_t *c, tir_expr_t *a, tir_expr_t *b) {
  if (a == NULL || b == NULL) return a == NULL ? b : a;
  return tir_op(c->arena, TIR_X_AND, TDSL_DTYPE_BOOL, 2,
                (tir_expr_t *[]){a, b});
}

/* Behind the end of the axis nothing is read, and nothing counts. */
static void guard_end(cut_t *c, tir_node_t *n, bool reads_memory) {
  int64_t size;
  if (n->is_first || (ix_is_const(c->axis_extent, &size) &&
                      size % GROUP_SPLIT == 0)) {
    return;
  }
  tir_expr_t *live = tir_op(
      c->arena, TIR_X_LT, TDSL_DTYPE_BOOL, 2,
      (tir_expr_t *[]){place_of(c), tir_dim(c->arena, c->axis_extent)});
  if (n->reduce != TIR_REDUCE_NONE) {
    n->guard = both(c, live, n->guard);
  } else if (reads_memory) {
    n->body = tir_op(c->arena, TIR_X_SELECT, n->body->type, 3,
                     (tir_expr_t *[]){live, n->body,
                                      tir_const_f(c->arena, n->body->type,
                                                  0)});
  }
}

static tir_node_t *split_node(cut_t *c, const tir_node_t *old) {
  tir_node_t *n = TD_NEW(c->arena, tir_node_t);
  *n = *old;
  uint32_t at = axis_place(old);
  n->cascade = c->number;
  n->index_count = old->index_count + 1;
  n->indices = TD_NEW_ARRAY(c->arena, tir_index_t *, n->index_count);
  n->indices[0] = c->split_here = c->split;
  c->from_axis = NULL;
  for (uint32_t i = 0; i < old->index_count; i++) {
    n->indices[i + 1] = old->indices[i];
    if (i != at) continue;
    c->from_axis = old->indices[i];
    c->to_axis = tir_index_create(c->module, old->indices[i]->name,
                                  ix_const(c->module->pool, GROUP_SPLIT),
                                  old->indices[i]->is_reduction);
    n->indices[i + 1] = c->to_axis;
  }
  memory_t m = {c, false};
  tir_walk(c->scratch, old->body, note_memory, &m);
  n->outs = TD_NEW_ARRAY(c->arena, tir_value_t *, 1);
  /* its own `was` is read by the transport */
  n->outs[0] = split_value(c, old->outs[0], old, "split");
  n->outs[0]->def = n;
  if (old->is_tile) {
    td_map_put_u64(&c->tiles, key_of(old->outs[0]), n->outs[0]);
  }
  if (old->was != NULL) n->was = split_value(c, old->was, old, "split");
  n->body = tir_rewrite(c->arena, old->body, in_split, c);
  if (old->guard != NULL) {
    n->guard = tir_rewrite(c->arena, old->guard, in_split, c);
  }
  if (old->transport != NULL) {
    n->transport = tir_rewrite(c->arena, old->transport, in_split, c);
  }
  guard_end(c, n, m.found);
  return n;
}

/* What is ranked in a split: -inf behind the end, which has higher places
 * than all that is there. */
static tir_node_t *padded_node(cut_t *c, const tir_node_t *top) {
  td_arena_t *arena = c->arena;
  const tir_value_t *from = top->operands[0];
  tir_node_t *n = tir_node_create(arena, TIR_MAP, 1);
  tir_expr_t *subs[IX_MAX_RANK];
  const ix_poly_t *dims[IX_MAX_RANK];
  n->cascade = c->number;
  n->is_tile = true;
  n->loc = top->loc;
  n->index_count = from->rank + 1;
  n->indices = TD_NEW_ARRAY(arena, tir_index_t *, n->index_count);
  n->indices[0] = c->split_here = c->split;
  for (uint32_t i = 0; i < from->rank; i++) {
    bool is_axis = i + 1 == from->rank;
    n->indices[i + 1] = tir_index_create(
        c->module, "i",
        is_axis ? ix_const(c->module->pool, GROUP_SPLIT) : from->dims[i],
        false);
    if (is_axis) c->to_axis = n->indices[i + 1];
    subs[i] = is_axis ? place_of(c) : tir_index_ref(arena, n->indices[i + 1]);
  }
  for (uint32_t i = 0; i < n->index_count; i++) {
    dims[i] = i == 0 ? c->count : n->indices[i]->extent;
  }
  tir_expr_t *load = tir_load(arena, from, from->rank, subs);
  tir_expr_t *live = tir_op(
      arena, TIR_X_LT, TDSL_DTYPE_BOOL, 2,
      (tir_expr_t *[]){place_of(c), tir_dim(arena, c->axis_extent)});
  n->body = tir_op(arena, TIR_X_SELECT, load->type, 3,
                   (tir_expr_t *[]){live, load,
                                    tir_const_f(arena, load->type,
                                                -(double)INFINITY)});
  n->outs[0] = tir_value_create(
      arena, td_arena_printf(arena, "%s.split", from->name), from->dtype,
      n->index_count, dims);
  n->outs[0]->loc = n->loc;
  n->outs[0]->def = n;
  return n;
}

/* topk of a row of `from`. */
static tir_node_t *top_node(cut_t *c, const tir_node_t *old,
                            tir_value_t *from, uint32_t number) {
  td_arena_t *arena = c->arena;
  tir_node_t *n = TD_NEW(arena, tir_node_t);
  const ix_poly_t *dims[IX_MAX_RANK];
  *n = *old;
  n->cascade = number;
  n->operands = TD_NEW_ARRAY(arena, tir_value_t *, 1);
  n->operands[0] = from;
  n->outs = TD_NEW_ARRAY(arena, tir_value_t *, 2);
  for (uint32_t i = 0; i < from->rank; i++) dims[i] = from->dims[i];
  dims[from->rank - 1] = ix_const(c->module->pool, old->k);
  for (int i = 0; i < 2; i++) {
    n->outs[i] = tir_value_create(
        arena, td_arena_printf(arena, "%s.split", old->outs[i]->name),
        old->outs[i]->dtype, from->rank, dims);
    n->outs[i]->loc = old->loc;
    n->outs[i]->def = n;
  }
  return n;
}

/* ---- the merge ----------------------------------------------------------- */

/* `was` of a state is what a split left. */
static tir_expr_t *of_part(void *user, tir_expr_t *e) {
  const cut_t *c = user;
  if (e->op != TIR_X_LOAD) return e;
  for (size_t i = c->begin; i < c->end; i++) {
    const tir_node_t *n = c->block->data[i];
    if (n->was == NULL || n->was != e->u.value) continue;
    tir_value_t *part = td_map_get_u64(&c->values, key_of(n->outs[0]));
    tir_expr_t *subs[IX_MAX_RANK];
    subs[0] = tir_index_ref(c->arena, c->split_here);
    for (uint32_t k = 0; k < e->arg_count; k++) subs[k + 1] = e->args[k];
    return tir_load(c->arena, part, e->arg_count + 1, subs);
  }
  return e;
}

/* The maximum that a place is the place of. */
static const tir_node_t *partner_of(const cut_t *c, const tir_node_t *place) {
  for (size_t i = c->begin; i < c->end; i++) {
    const tir_node_t *n = c->block->data[i];
    if (n != place && n->was != NULL &&
        tir_mentions_value(c->scratch, place->transport, n->was)) {
      return n;
    }
  }
  TD_ICE(c->task, "the place %s has no maximum",
         place->outs[0]->name);
}

/* Behind the merge: place `inner` of split `at`, or 0 if there are no splits.
 * value = at * size + inner. */
static void put_place(cut_t *c, tir_node_t *map, tir_expr_t *at,
                      tir_expr_t *inner) {
  td_arena_t *arena = c->arena;
  tir_expr_t *size = tir_const_i(arena, TDSL_DTYPE_I64, GROUP_SPLIT);
  tir_expr_t *zero = tir_const_i(arena, TDSL_DTYPE_I64, 0);
  tir_expr_t *start = tir_op(arena, TIR_X_MUL, TDSL_DTYPE_I64, 2,
                             (tir_expr_t *[]){at, size});
  tir_expr_t *whole = tir_op(arena, TIR_X_ADD, TDSL_DTYPE_I64, 2,
                             (tir_expr_t *[]){start, inner});
  tir_expr_t *is_any = tir_op(arena, TIR_X_LT, TDSL_DTYPE_BOOL, 2,
                              (tir_expr_t *[]){zero,
                                               tir_dim(arena, c->count)});
  map->body = tir_op(arena, TIR_X_SELECT, TDSL_DTYPE_I64, 3,
                     (tir_expr_t *[]){is_any, whole, zero});
  map->outs[0]->def = map;
  td_vec_push(c->scratch, &c->places, map);
}

/* A merge finds the split; a map behind it the place. */
static tir_node_t *at_split(cut_t *c, tir_node_t *n) {
  td_arena_t *arena = c->arena;
  tir_value_t *v = n->outs[0];
  tir_expr_t *subs[IX_MAX_RANK];
  tir_node_t *map = tir_node_create(arena, TIR_MAP, 1);
  map->loc = n->loc;
  map->outs[0] = v;
  map->index_count = v->rank;
  map->indices = TD_NEW_ARRAY(arena, tir_index_t *, v->rank + 1);
  for (uint32_t i = 0; i < v->rank; i++) {
    map->indices[i] =
        tir_index_create(c->module, n->indices[i]->name, v->dims[i], false);
    subs[i + 1] = tir_index_ref(arena, map->indices[i]);
  }
  n->outs = TD_NEW_ARRAY(arena, tir_value_t *, 1);
  n->outs[0] = tir_value_create(arena,
                                td_arena_printf(arena, "%s.at", v->name),
                                TDSL_DTYPE_I64, v->rank, v->dims);
  n->outs[0]->loc = v->loc;
  n->outs[0]->def = n;
  subs[0] = tir_load(arena, n->outs[0], v->rank, subs + 1);
  put_place(c, map, subs[0],
            tir_load(arena, td_map_get_u64(&c->values, key_of(v)),
                     v->rank + 1, subs));
  return n;
}

/* The pairs of all splits, one behind the other. */
static tir_node_t *pairs_node(cut_t *c, const tir_node_t *split) {
  td_arena_t *arena = c->arena;
  const tir_value_t *from = split->outs[0];
  tir_node_t *n = tir_node_create(arena, TIR_MAP, 1);
  tir_expr_t *subs[IX_MAX_RANK];
  const ix_poly_t *dims[IX_MAX_RANK];
  tir_expr_t *k = tir_const_i(arena, TDSL_DTYPE_I64, split->k);
  uint32_t last = from->rank - 2;
  n->cascade = c->number + 1;
  n->is_tile = true;
  n->loc = split->loc;
  n->index_count = from->rank - 1;
  n->indices = TD_NEW_ARRAY(arena, tir_index_t *, n->index_count);
  for (uint32_t i = 0; i <= last; i++) {
    dims[i] = i < last ? from->dims[i + 1]
                       : ix_mul(c->module->pool, c->count,
                                ix_const(c->module->pool, split->k));
    n->indices[i] = tir_index_create(c->module, i < last ? "i" : "pair",
                                     dims[i], false);
    subs[i + 1] = tir_index_ref(arena, n->indices[i]);
  }
  tir_expr_t *args[2] = {subs[last + 1], k};
  subs[0] = tir_op(arena, TIR_X_DIV, TDSL_DTYPE_I64, 2, args);
  subs[last + 1] = tir_op(arena, TIR_X_MOD, TDSL_DTYPE_I64, 2, args);
  n->body = tir_load(arena, from, from->rank, subs);
  n->outs[0] = tir_value_create(
      arena, td_arena_printf(arena, "%s.pairs", from->name), from->dtype,
      n->index_count, dims);
  n->outs[0]->loc = n->loc;
  n->outs[0]->def = n;
  return n;
}

/* Of these the k largest, whose places say which pairs they are. */
static tir_node_t *merge_top(cut_t *c, const tir_node_t *old,
                             const tir_node_t *split, tir_node_t *pairs) {
  td_arena_t *arena = c->arena;
  tir_node_t *n = top_node(c, old, pairs->outs[0], c->number + 1);
  tir_node_t *map = tir_node_create(arena, TIR_MAP, 1);
  tir_value_t *v = old->outs[1];
  tir_expr_t *subs[IX_MAX_RANK];
  n->is_merge = true;
  n->outs[0] = old->outs[0];
  n->outs[0]->def = n;
  n->outs[1]->name = td_arena_printf(arena, "%s.at", v->name);
  map->loc = old->loc;
  map->outs[0] = v;
  map->index_count = v->rank;
  map->indices = TD_NEW_ARRAY(arena, tir_index_t *, v->rank);
  for (uint32_t i = 0; i < v->rank; i++) {
    map->indices[i] = tir_index_create(c->module, i + 1 < v->rank ? "i" : "j",
                                       v->dims[i], false);
    subs[i + 1] = tir_index_ref(arena, map->indices[i]);
  }
  tir_expr_t *at = tir_load(arena, n->outs[1], v->rank, subs + 1);
  tir_expr_t *args[2] = {at, tir_const_i(arena, TDSL_DTYPE_I64, old->k)};
  subs[0] = tir_op(arena, TIR_X_DIV, TDSL_DTYPE_I64, 2, args);
  subs[v->rank] = tir_op(arena, TIR_X_MOD, TDSL_DTYPE_I64, 2, args);
  put_place(c, map, subs[0],
            tir_load(arena, split->outs[1], v->rank + 1, subs));
  return n;
}

static tir_node_t *merge_node(cut_t *c, const tir_node_t *old) {
  tir_node_t *n = TD_NEW(c->arena, tir_node_t);
  *n = *old;
  uint32_t par = tensor_parallel(old);
  n->cascade = c->number + 1;
  n->is_merge = true;
  n->is_lazy = false;
  n->is_fma = false;
  n->plan = TIR_PLAN_SERIAL;
  n->guard = NULL;
  n->index_count = par + 1;
  n->indices = TD_NEW_ARRAY(c->arena, tir_index_t *, n->index_count);
  for (uint32_t i = 0; i < par; i++) n->indices[i] = old->indices[i];
  n->indices[par] = c->split_here =
      tir_index_create(c->module, "split", c->count, true);
  if (is_place(old)) old = partner_of(c, old);
  if (old->transport != NULL) {
    n->body = tir_rewrite(c->arena, old->transport, of_part, c);
  } else {
    tir_expr_t *subs[IX_MAX_RANK];
    subs[0] = tir_index_ref(c->arena, c->split_here);
    for (uint32_t i = 0; i < par; i++) {
      subs[i + 1] = tir_index_ref(c->arena, old->indices[i]);
    }
    n->body = tir_load(c->arena, td_map_get_u64(&c->values,
                                                key_of(old->outs[0])),
                       par + 1, subs);
  }
  if (is_place(n)) return at_split(c, n);
  n->outs[0]->def = n;
  return n;
}

static void cut(cut_t *c) {
  tir_block_t out = {0};
  td_map_init(&c->values, c->scratch);
  td_map_init(&c->tiles, c->scratch);
  c->split = tir_index_create(c->module, "split", c->count, false);
  for (size_t i = 0; i < c->begin; i++) {
    td_vec_push(c->arena, &out, c->block->data[i]);
  }
  for (size_t i = c->begin; i < c->end; i++) {
    tir_node_t *n = c->block->data[i];
    if (n->kind != TIR_TOPK) {
      td_vec_push(c->arena, &out, split_node(c, n));
      continue;
    }
    tir_node_t *padded = padded_node(c, n);
    tir_node_t *split = top_node(c, n, padded->outs[0], c->number);
    td_vec_push(c->arena, &out, padded);
    td_vec_push(c->arena, &out, split);
    td_map_put_u64(&c->values, key_of(n), split);
  }
  for (size_t i = c->begin; i < c->end; i++) {
    tir_node_t *n = c->block->data[i];
    if (n->is_first) {
      n->cascade = c->number + 1;
      td_vec_push(c->arena, &out, n);
    } else if (is_state(n)) {
      td_vec_push(c->arena, &out, merge_node(c, n));
    } else if (n->kind == TIR_TOPK) {
      const tir_node_t *split = td_map_get_u64(&c->values, key_of(n));
      tir_node_t *pairs = pairs_node(c, split);
      td_vec_push(c->arena, &out, pairs);
      td_vec_push(c->arena, &out, merge_top(c, n, split, pairs));
    }
  }
  for (size_t i = 0; i < c->places.length; i++) {
    td_vec_push(c->arena, &out, c->places.data[i]);
  }
  for (size_t i = c->end; i < c->block->length; i++) {
    td_vec_push(c->arena, &out, c->block->data[i]);
  }
  *c->block = out;
}

static uint32_t next_number(const tir_block_t *block, uint32_t least) {
  for (size_t i = 0; i < block->length; i++) {
    const tir_node_t *n = block->data[i];
    if (n->cascade >= least) least = n->cascade + 1;
    if (n->kind == TIR_LOOP) least = next_number(&n->body_nodes, least);
  }
  return least;
}

static bool cut_block(pass_state_t *state, tir_module_t *module,
                      tir_func_t *func, tir_block_t *block) {
  bool changed = false;
  td_arena_t scratch;
  td_arena_init(&scratch, state->task);
  for (size_t i = 0; i < block->length;) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) {
      changed |= cut_block(state, module, func, &n->body_nodes);
    }
    cut_t c = {.task = state->task, .module = module,
               .arena = module->arena, .scratch = &scratch, .block = block,
               .begin = i, .end = i + 1};
    if (n->cascade == 0 || n->is_merge) {
      i++;
      continue;
    }
    while (c.end < block->length &&
           block->data[c.end]->cascade == n->cascade) {
      c.end++;
    }
    c.rows = group_cascade_rows(&block->data[i], (uint32_t)(c.end - i));
    for (size_t k = c.begin; k < c.end; k++) {
      const tir_node_t *m = block->data[k];
      if (is_state(m)) c.axis_extent = m->indices[m->index_count - 1]->extent;
    }
    ix_pool_t *pool = module->pool;
    c.count = ix_div(pool,
                     ix_add(pool, c.axis_extent,
                            ix_const(pool, GROUP_SPLIT - 1)),
                     ix_const(pool, GROUP_SPLIT), NULL);
    c.number = next_number(&func->nodes, 1);
    i = c.end;
    if (c.count == NULL || !is_long(&c) || !has_room(&c) ||
        !has_few_rows(&c, tensor_target(state))) {
      continue;
    }
    size_t before = block->length;
    cut(&c);
    i = c.end + (block->length - before);
    changed = true;
  }
  td_arena_free_all(&scratch);
  return changed;
}

/* ---- by dims, at launch -------------------------------------------------- */

/* Few rows, as has_few_rows counts them, and a long axis. */
static const ix_poly_t *when_of(const cut_t *c, const ir_target_t *target,
                                const ix_poly_t **rows) {
  ix_pool_t *pool = c->module->pool;
  int64_t most = (int64_t)target->sms - 1, lo, hi;
  const ix_poly_t *few, *is_long = ix_const(pool, 1);
  *rows = ix_const(pool, 1);
  for (uint32_t i = 0; i < c->rows && *rows != NULL; i++) {
    const tir_node_t *n = c->block->data[c->begin];
    *rows = ix_mul(pool, *rows, n->indices[i]->extent);
  }
  if (*rows == NULL || ix_is_const(*rows, &lo) ||
      (ix_interval(*rows, &lo, &hi) && lo > most)) {
    return NULL;
  }
  few = group_at_most(pool, *rows, most);
  if (!ix_interval(c->axis_extent, &lo, &hi) || lo <= GROUP_SPLIT) {
    const ix_poly_t *is_short =
        group_at_most(pool, c->axis_extent, GROUP_SPLIT);
    is_long = is_short == NULL ? NULL : ix_sub(pool, is_long, is_short);
  }
  return few == NULL || is_long == NULL ? NULL : ix_mul(pool, few, is_long);
}

/* The axis where it has to be; a text may say otherwise. */
static bool has_axis(const cut_t *c, const tir_node_t *n) {
  uint32_t at = axis_place(n);
  return n->index_count > 0 && at >= c->rows && at < n->index_count &&
         n->indices[at]->is_reduction != n->is_tile &&
         n->outs[0]->rank + n->is_tile >= c->rows;
}

/* States alone, which are merged with nothing behind. */
static bool is_plain(cut_t *c) {
  for (size_t i = c->begin; i < c->end; i++) {
    const tir_node_t *n = c->block->data[i];
    if (n->kind != TIR_MAP || n->cascade == 0 || n->is_first || n->is_merge ||
        is_place(n) || !has_axis(c, n)) {
      return false;
    }
    const ix_poly_t *extent = n->indices[axis_place(n)]->extent;
    if (c->axis_extent == NULL) c->axis_extent = extent;
    if (c->axis_extent != extent) return false;
  }
  return c->axis_extent != NULL;
}

static void fill(cut_t *c, uint32_t group, cascade_halves_t *out) {
  const tir_block_t *block = c->block;
  size_t first = c->begin;
  while (block->data[first]->cascade == c->number) first++;
  out->part_count = (uint32_t)first;
  out->merge_count = (uint32_t)(block->length - first);
  out->parts = block->data;
  out->merge = block->data + first;
  out->states = TD_NEW_ARRAY(c->arena, tir_value_t *, first + 1);
  for (size_t i = 0; i < block->length; i++) block->data[i]->group = group;
  for (size_t i = 0; i < first; i++) {
    if (!is_state(block->data[i])) continue;
    out->states[out->state_count++] = block->data[i]->outs[0];
  }
}

bool cascade_find_halves(td_task_t *task, tir_module_t *module,
                         const ir_target_t *target,
                         tir_node_t *const *nodes, uint32_t count,
                         cascade_halves_t *out) {
  tir_block_t block = {0};
  td_arena_t scratch;
  ix_pool_t *pool = module->pool;
  cut_t c = {.task = task, .module = module, .arena = module->arena,
             .scratch = &scratch, .block = &block};
  for (uint32_t i = 0; i < count; i++) {
    td_vec_push(module->arena, &block, nodes[i]);
    if (nodes[i]->cascade != 0) c.end = i + 1;
    if (nodes[i]->cascade > c.number) c.number = nodes[i]->cascade;
  }
  c.number++;
  c.rows = group_cascade_rows(nodes, count);
  *out = (cascade_halves_t){0};
  if (c.rows == 0 || !is_plain(&c) || !is_long(&c) || !has_room(&c)) {
    return false;
  }
  out->when = when_of(&c, target, &out->rows);
  const ix_poly_t *last =
      ix_add(pool, c.axis_extent, ix_const(pool, GROUP_SPLIT - 1));
  if (out->when == NULL || last == NULL) return false;
  c.count = ix_div(pool, last, ix_const(pool, GROUP_SPLIT), NULL);
  c.kept = c.count == NULL ? NULL : ix_mul(pool, c.count, out->when);
  if (c.kept == NULL) return false;
  td_arena_init(&scratch, task);
  cut(&c);
  fill(&c, nodes[0]->group, out);
  out->count = c.count;
  out->split = c.split;
  td_arena_free_all(&scratch);
  return true;
}

bool cascade_cut(pass_state_t *state, tir_module_t *module,
                 tir_func_t *func) {
  return cut_block(state, module, func, &func->nodes);
}
