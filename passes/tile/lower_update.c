/* lower_update.c: element updates.
 *
 * The output buffer holds the old version when the kernel starts (planning
 * aliases or copies it).  The body may read the old version at the element
 * it writes; if it reads others, the target is a parameter of its own and
 * planning keeps the two apart: all reads come before all writes.
 *
 * An index that alone is a subscript writes elements of its own with each of
 * its values; it becomes a block loop, or the lanes if that subscript is the
 * last.  If all elements are proved distinct, all indices are such.  The
 * others are serial loops, so that the last tuple wins on every run.
 *
 * += that may hit an element twice: contributions are summed in index order
 * into scratch, with the dims that data chooses, then added and rounded
 * once. */
#include "passes/tile/tile.h"

#include "ir/expr.h"
#include "passes/tile/update.h"

typedef struct reads {
  const tir_node_t *node;
  tir_interner_t *interner;
  bool elsewhere;
} reads_t;

static void find_reads(void *user, tir_expr_t *e) {
  reads_t *r = user;
  if (e->op != TIR_X_LOAD || e->u.value != r->node->operands[0]) return;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (tir_intern(r->interner, e->args[i]) !=
        tir_intern(r->interner, r->node->subs[i])) {
      r->elsewhere = true;
    }
  }
}

bool tile_update_reads_elsewhere(td_arena_t *scratch, tir_node_t *node) {
  tir_interner_t interner;
  tir_interner_init(&interner, scratch);
  reads_t r = {node, &interner, false};
  for (uint32_t i = 0; i < tir_node_expr_count(node); i++) {
    tir_walk(scratch, *tir_node_expr(node, i), find_reads, &r);
  }
  /* several tuples may write one element: a read at the written element may
   * then see a new value */
  bool reads_any = false;
  for (uint32_t i = 0; i < tir_node_expr_count(node) && !reads_any; i++) {
    reads_any = tir_mentions_value(scratch, *tir_node_expr(node, i),
                                   node->operands[0]);
  }
  return r.elsewhere || (reads_any && !node->is_distinct);
}

/* Serial loops over the indices that are not `is_own`. */
static kir_block_t *other_loops(tile_t *t, const tir_node_t *n,
                                const bool *is_own, kir_block_t *block) {
  for (uint32_t i = 0; i < n->index_count; i++) {
    const tir_index_t *index = n->indices[i];
    kir_expr_t *v;
    if (is_own[i]) continue;
    block = tile_loop(t, block, KIR_LOOP_SERIAL, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent), 1, &v);
    tile_set_index(t, index, v);
  }
  return block;
}

/* Number of the index that the subscript is; index_count: none. */
static uint32_t plain_index(const tir_node_t *n, const tir_expr_t *sub) {
  uint32_t i = 0;
  while (i < n->index_count &&
         (sub->op != TIR_X_INDEX || sub->u.index != n->indices[i])) {
    i++;
  }
  return i;
}

static void translate_subs(tile_t *t, tir_node_t *n, kir_expr_t **subs) {
  for (uint32_t i = 0; i < n->sub_count; i++) {
    subs[i] = tile_expr(t, n->subs[i]);
  }
}

static kir_block_t *guarded(tile_t *t, tir_node_t *n, kir_block_t *block) {
  if (n->guard == NULL) return block;
  return &tile_push(t, block, tile_if(t, tile_expr(t, n->guard)))->body;
}

/* acc + body, by fma if the body is a product as written. */
static kir_expr_t *add_term(tile_t *t, tir_node_t *n, kir_expr_t *acc) {
  kir_expr_t *term = tile_expr(t, n->body);
  if (n->is_fma && term->op == KIR_X_MUL) {
    return kir_op(t->arena, KIR_X_FMA, acc->type, 3,
                  (kir_expr_t *[]){term->args[0], term->args[1], acc});
  }
  return tile_op2(t, KIR_X_ADD, acc->type, acc, term);
}

static kir_expr_t *as_f64(tile_t *t, kir_expr_t *e) {
  if (e->type == TDSL_DTYPE_F64) return e;
  kir_expr_t *cast = kir_op(t->arena, KIR_X_CAST, TDSL_DTYPE_F64, 1,
                            (kir_expr_t *[]){e});
  cast->u.to = TDSL_DTYPE_F64;
  return cast;
}

/* What was there plus the sum, in f64 if one of them is; the place itself is
 * rounded once. */
static kir_expr_t *add_sum(tile_t *t, kir_expr_t *old, kir_expr_t *sum) {
  if (old->type != sum->type) {
    old = as_f64(t, old);
    sum = as_f64(t, sum);
  }
  return tile_op2(t, KIR_X_ADD, old->type, old, sum);
}

/* The sum is kept in the arithmetic type of the body. */
static kir_expr_t *zero_of(tile_t *t, tdsl_dtype_t type) {
  return tile_identity(t, TIR_REDUCE_SUM, type);
}

/* ---- independent elements ----------------------------------------------- */

/* An index that alone is a subscript writes elements of its own with each of
 * its values. */
typedef struct own {
  bool *is_own;             /* by index */
  bool *is_covered;         /* by dim of the target */
  const tir_index_t *lanes; /* the one that is the last subscript, or NULL */
} own_t;

static own_t find_own(tile_t *t, const tir_node_t *n) {
  own_t o = {TD_NEW_ARRAY(t->arena, bool, n->index_count + 1),
             TD_NEW_ARRAY(t->arena, bool, n->sub_count + 1), NULL};
  for (uint32_t d = 0; d < n->sub_count; d++) {
    uint32_t i = plain_index(n, n->subs[d]);
    /* of a diagonal one dim is enough */
    if (i == n->index_count || o.is_own[i]) continue;
    o.is_own[i] = o.is_covered[d] = true;
    if (d + 1 == n->sub_count) o.lanes = n->indices[i];
  }
  return o;
}

/* Block loops over these indices, lanes excepted. */
static kir_block_t *own_loops(tile_t *t, const tir_node_t *n, const own_t *o,
                              kir_block_t *block) {
  for (uint32_t i = 0; i < n->index_count; i++) {
    const tir_index_t *index = n->indices[i];
    kir_expr_t *v;
    if (!o->is_own[i] || index == o->lanes) continue;
    block = tile_loop(t, block, KIR_LOOP_BLOCK, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent), 1, &v);
    tile_set_index(t, index, v);
  }
  return block;
}

/* ---- writing as it comes ------------------------------------------------ */

typedef struct direct {
  tir_node_t *node;
  kir_buffer_t *out;
  const tir_index_t *lanes;
} direct_t;

static void store_element(tile_t *t, const direct_t *d, kir_block_t *block) {
  tir_node_t *n = d->node;
  block = guarded(t, n, block);
  kir_expr_t *subs[IX_MAX_RANK];
  translate_subs(t, n, subs);
  kir_expr_t *v;
  if (n->is_accumulate) {
    kir_expr_t *sum = add_term(t, n, zero_of(t, n->body->type));
    kir_expr_t *old = kir_load(t->arena, d->out, n->sub_count, subs);
    d->out->is_read = true;
    v = add_sum(t, old, sum);
  } else {
    v = tile_expr(t, n->body);
  }
  tile_store(t, block, d->out, n->sub_count, subs, v);
}

static void store_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                        kir_expr_t *limit, void *user) {
  const direct_t *d = user;
  kir_expr_t *index;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &index);
  tile_set_index(t, d->lanes, index);
  store_element(t, d, body);
}

static void direct(tile_t *t, tir_node_t *n, kir_buffer_t *out) {
  direct_t d = {.node = n, .out = out};
  own_t o = find_own(t, n);
  if (n->is_distinct) {
    for (uint32_t i = 0; i < n->index_count; i++) o.is_own[i] = true;
    if (o.lanes == NULL && n->index_count > 0) {
      o.lanes = n->indices[n->index_count - 1];
    }
  }
  d.lanes = o.lanes;
  kir_block_t *block = own_loops(t, n, &o, &t->kernel->body);
  block = other_loops(t, n, o.is_own, block);
  if (o.lanes == NULL) {
    store_element(t, &d, block);
    return;
  }
  tile_range_t r = {tile_int(t, 0), tile_dim(t, d.lanes->extent)};
  tile_chunks(t, block, d.lanes->name, r, store_chunk, &d);
}

/* ---- summing first ------------------------------------------------------ */

typedef struct summing {
  tir_node_t *node;
  kir_buffer_t *out, *sum, *hit;
  own_t own;             /* covered dims are not in scratch */
  uint32_t rank;         /* of the scratch */
} summing_t;

/* Subscripts of scratch from those of the target. */
static void scratch_subs(const summing_t *s, kir_expr_t *const *subs,
                         kir_expr_t *lane, kir_expr_t **out) {
  uint32_t k = 0;
  for (uint32_t d = 0; d < s->node->sub_count; d++) {
    if (!s->own.is_covered[d]) out[k++] = subs[d];
  }
  if (lane != NULL) out[k] = lane;
}

/* Serial loops over the elements of scratch; subscripts of the target that
 * scratch has. */
static kir_block_t *element_loops(tile_t *t, const summing_t *s,
                                  kir_block_t *block, kir_expr_t **subs) {
  const tir_node_t *n = s->node;
  for (uint32_t d = 0; d < n->sub_count; d++) {
    if (s->own.is_covered[d]) continue;
    block = tile_loop(t, block, KIR_LOOP_SERIAL, "e", tile_int(t, 0),
                      tile_dim(t, n->outs[0]->dims[d]), 1, &subs[d]);
  }
  return block;
}

/* The body of a step: in lanes, or the block itself. */
static kir_block_t *step_of(tile_t *t, const summing_t *s, kir_block_t *block,
                            kir_expr_t *base, kir_expr_t *limit,
                            kir_expr_t **lane) {
  *lane = NULL;
  if (s->own.lanes == NULL) return block;
  kir_expr_t *index;
  block = tile_lanes_at(t, block, base, limit, &index);
  tile_set_index(t, s->own.lanes, index);
  /* the lane is what the loop's variable says */
  *lane = index->op == KIR_X_ADD ? index->args[1] : index;
  return block;
}

static void sum_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                      kir_expr_t *limit, void *user) {
  summing_t *s = user;
  tir_node_t *n = s->node;
  kir_expr_t *at[IX_MAX_RANK], *in[IX_MAX_RANK + 1], *lane;
  /* a step's subscripts hold its lane, so each step makes its own */
  kir_block_t *clear = element_loops(t, s, block, at);
  clear = step_of(t, s, clear, base, limit, &lane);
  scratch_subs(s, at, lane, in);
  tile_store(t, clear, s->sum, s->rank, in, zero_of(t, n->body->type));
  tile_store(t, clear, s->hit, s->rank, in,
             kir_const_i(t->arena, TDSL_DTYPE_BOOL, 0));
  kir_block_t *add = other_loops(t, n, s->own.is_own, block);
  add = step_of(t, s, add, base, limit, &lane);
  add = guarded(t, n, add);
  translate_subs(t, n, at);
  scratch_subs(s, at, lane, in);
  kir_expr_t *acc = kir_load(t->arena, s->sum, s->rank, in);
  tile_store(t, add, s->sum, s->rank, in, add_term(t, n, acc));
  tile_store(t, add, s->hit, s->rank, in,
             kir_const_i(t->arena, TDSL_DTYPE_BOOL, 1));
  kir_block_t *finish = element_loops(t, s, block, at);
  finish = step_of(t, s, finish, base, limit, &lane);
  for (uint32_t d = 0; d < n->sub_count; d++) {
    if (s->own.is_covered[d]) at[d] = tile_expr(t, n->subs[d]);
  }
  scratch_subs(s, at, lane, in);
  kir_expr_t *was_hit = kir_load(t->arena, s->hit, s->rank, in);
  finish = &tile_push(t, finish, tile_if(t, was_hit))->body;
  s->out->is_read = true;
  kir_expr_t *old = kir_load(t->arena, s->out, n->sub_count, at);
  tile_store(t, finish, s->out, n->sub_count, at,
             add_sum(t, old, kir_load(t->arena, s->sum, s->rank, in)));
}

static void summed(tile_t *t, tir_node_t *n, kir_buffer_t *out) {
  summing_t s = {.node = n, .out = out, .own = find_own(t, n)};
  kir_block_t *block = own_loops(t, n, &s.own, &t->kernel->body);
  kir_expr_t *base = NULL, *limit = NULL;
  const ix_poly_t *dims[IX_MAX_RANK + 1];
  for (uint32_t d = 0; d < n->sub_count; d++) {
    if (!s.own.is_covered[d]) dims[s.rank++] = n->outs[0]->dims[d];
  }
  if (s.own.lanes != NULL) {
    limit = tile_dim(t, s.own.lanes->extent);
    block = tile_loop(t, block, KIR_LOOP_BLOCK, s.own.lanes->name,
                      tile_int(t, 0), limit, TILE_LANES, &base);
    dims[s.rank++] = ix_const(t->module->pool, TILE_LANES);
  }
  s.sum = tile_alloc(t, block, "sum", n->body->type, KIR_LOCAL, s.rank, dims);
  s.hit =
      tile_alloc(t, block, "hit", TDSL_DTYPE_BOOL, KIR_LOCAL, s.rank, dims);
  sum_chunk(t, block, base, limit, &s);
}

void tile_lower_update(tile_t *t, tir_node_t *node) {
  kir_buffer_t *out = tile_param(t, node->outs[0], false, true);
  if (!tile_update_reads_elsewhere(t->arena, node)) {
    /* reads of the old version at the written element: the same buffer */
    tile_set_home(t, node->operands[0], out, 0);
  }
  bool sums = node->is_accumulate && !node->is_distinct;
  tile_note(t, "elements of %s: %s", node->outs[0]->name,
            sums ? "summed in scratch in index order, then added"
            : node->is_distinct
                ? "each written once, in any order"
                : "in index order, for some may be written twice");
  if (!sums) {
    direct(t, node, out);
  } else {
    summed(t, node, out);
  }
}
