/* sweep_masks.c: what masks leave of the tiles of a sweep.
 *
 * A condition masks a sweep if every state is the identity where it fails: a
 * maximum of `if c then s else -inf`, a sum with a weight exp(s - g) of such
 * an s, or a guard. From conditions on integers three things are known of a
 * tile and the rows of a block:
 *
 *   empty    no element can hold: the tile is not visited
 *   full     every element holds: the rows are computed without conditions
 *   partial  else
 *
 * by intervals: an index of the axis has those of the tile, the row index
 * that a block has several of those of the block, and a tensor of integers
 * (documents) the least and the largest of what is read there. Comparisons
 * that can be solved for the axis are bounds of the loop over tiles: what
 * lies outside them is not even asked about. What is left out would have
 * merged identities, so no bit changes. */
#include "passes/tile/sweep.h"

#include <math.h>

enum { DEPTH_LIMIT = 16 };

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- which conditions ---------------------------------------------------- */

static const tir_index_t *axis_of(const tir_node_t *n) {
  return n->is_tile ? n->indices[tile_sweep_parallel(n) - 1]
                    : n->indices[n->index_count - 1];
}

/* In the indices of the masks, so that equal conditions of two nodes are one
 * pointer. */
static tir_expr_t *canonical(sweep_masks_t *m, const sweep_t *s,
                             const tir_node_t *n, tir_expr_t *e) {
  tir_index_t *from[IX_MAX_RANK + 1];
  tir_expr_t *to[IX_MAX_RANK + 1];
  for (uint32_t i = 0; i < s->rows; i++) {
    from[i] = n->indices[i];
    to[i] = tir_index_ref(s->t->arena, m->rows[i]);
  }
  from[s->rows] = (tir_index_t *)(uintptr_t)key_of(axis_of(n));
  to[s->rows] = tir_index_ref(s->t->arena, m->axis);
  return tir_intern(&m->interner, tir_replace_indices(s->t->arena, e,
                                                      s->rows + 1, from, to));
}

typedef TD_VEC(tir_expr_t *) conds_t;

typedef struct finding {
  sweep_t *s;
  const tir_node_t *node; /* whose expressions are looked at */
  conds_t conds;          /* of one state */
} finding_t;

/* The conjuncts of a condition. */
static void of_condition(finding_t *f, tir_expr_t *c, int depth) {
  if (depth == DEPTH_LIMIT) return;
  if (c->op == TIR_X_AND) {
    of_condition(f, c->args[0], depth + 1);
    of_condition(f, c->args[1], depth + 1);
    return;
  }
  td_vec_push(f->s->t->arena, &f->conds,
              canonical(&f->s->masks, f->s, f->node, c));
}

static const tir_node_t *tile_of(const sweep_t *s, const tir_expr_t *load) {
  for (uint32_t k = 0; load->op == TIR_X_LOAD && k < s->t->node_count; k++) {
    const tir_node_t *n = s->t->nodes[k];
    if (n->is_tile && n->outs[0] == load->u.value) return n;
  }
  return NULL;
}

static bool is_number(const tir_expr_t *e, double v) {
  return e->op == TIR_X_CONST && e->type != TDSL_DTYPE_I64 &&
         e->type != TDSL_DTYPE_BOOL && e->u.f64 == v;
}

/* e is `hole` (-inf of a maximum, 0 of a sum) where a condition fails. */
static void of_body(finding_t *f, tir_expr_t *e, double hole, int depth) {
  if (depth == DEPTH_LIMIT) return;
  const tir_node_t *tile = tile_of(f->s, e);
  if (tile != NULL && tile->reduce == TIR_REDUCE_NONE) {
    const tir_node_t *outer = f->node;
    f->node = tile;
    of_body(f, tile->body, hole, depth + 1);
    f->node = outer;
  } else if (e->op == TIR_X_SELECT && is_number(e->args[2], hole)) {
    of_condition(f, e->args[0], 0);
    of_body(f, e->args[1], hole, depth + 1);
  } else if (hole == 0 && e->op == TIR_X_MUL) {
    of_body(f, e->args[0], 0, depth + 1);
    of_body(f, e->args[1], 0, depth + 1);
  } else if (hole == 0 && e->op == TIR_X_EXP) {
    tir_expr_t *score = e->args[0];
    if (score->op == TIR_X_SUB) score = score->args[0];
    of_body(f, score, -(double)INFINITY, depth + 1);
  }
}

static bool holds(const conds_t *conds, const tir_expr_t *c) {
  for (size_t i = 0; i < conds->length; i++) {
    if (conds->data[i] == c) return true;
  }
  return false;
}

typedef struct integers {
  bool ok;
} integers_t;

static void note_integer(void *user, tir_expr_t *e) {
  integers_t *s = user;
  s->ok &= e->type == TDSL_DTYPE_I64 || e->type == TDSL_DTYPE_BOOL;
  if (e->op != TIR_X_LOAD) return;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    const tir_expr_t *a = e->args[i];
    s->ok &= a->op == TIR_X_INDEX &&
             a->u.index->extent == e->u.value->dims[i];
  }
}

/* Of integers, and readable whatever else a condition says: a tile asks about
 * elements that the text may guard. */
static bool is_integer(const sweep_t *s, tir_expr_t *c) {
  integers_t all = {true};
  tir_walk(s->t->arena, c, note_integer, &all);
  return all.ok;
}

/* Conditions that mask all states. */
static void find_common(sweep_t *s, conds_t *common) {
  bool is_first = true;
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    const tir_node_t *n = s->t->nodes[k];
    if (sweep_is_top(n)) {
      /* of a tile, which is padded; else all elements may be wanted */
      n = n->operands[0]->def;
      if (n == NULL || !n->is_tile || n->kind != TIR_MAP) {
        common->length = 0;
        return;
      }
    } else if (!sweep_is_state(n)) {
      continue;
    }
    finding_t f = {.s = s, .node = n};
    double hole = n->reduce == TIR_REDUCE_SUM ? 0 : -(double)INFINITY;
    if (n->guard != NULL) of_condition(&f, n->guard, 0);
    if (n->reduce == TIR_REDUCE_SUM || n->reduce == TIR_REDUCE_MAX ||
        n->is_tile) {
      of_body(&f, n->body, hole, 0);
    }
    conds_t both = {0};
    for (size_t i = 0; i < f.conds.length; i++) {
      tir_expr_t *c = f.conds.data[i];
      bool is_new = !holds(&both, c) && is_integer(s, c);
      if (is_new && (is_first || holds(common, c))) {
        td_vec_push(s->t->arena, &both, c);
      }
    }
    *common = both;
    is_first = false;
  }
}

/* ---- rows without conditions --------------------------------------------- */

typedef struct assumed {
  sweep_t *s;
  const tir_node_t *node;
} assumed_t;

static bool is_true(const tir_expr_t *e) {
  return e->op == TIR_X_CONST && e->u.i64 != 0;
}

static tir_expr_t *assume(void *user, tir_expr_t *e) {
  assumed_t *a = user;
  sweep_masks_t *m = &a->s->masks;
  if (e->op == TIR_X_SELECT && is_true(e->args[0])) return e->args[1];
  if (e->type != TDSL_DTYPE_BOOL || e->op == TIR_X_CONST) return e;
  if (e->op == TIR_X_AND && is_true(e->args[0])) return e->args[1];
  if (e->op == TIR_X_AND && is_true(e->args[1])) return e->args[0];
  const tir_expr_t *c = canonical(m, a->s, a->node, e);
  for (uint32_t i = 0; i < m->count; i++) {
    if (m->conds[i] == c) {
      return tir_const_i(a->s->t->arena, TDSL_DTYPE_BOOL, 1);
    }
  }
  return e;
}

static tir_expr_t *both(sweep_t *s, tir_expr_t *a, tir_expr_t *b) {
  if (a == NULL || b == NULL) return a == NULL ? b : a;
  return tir_op(s->t->arena, TIR_X_AND, TDSL_DTYPE_BOOL, 2,
                (tir_expr_t *[]){a, b});
}

/* What no row changes of the conditions: lengths, page tails. What lies
 * behind need not be numbers, and 0 times it would not be 0. */
static void find_padding(sweep_t *s) {
  sweep_masks_t *m = &s->masks;
  for (uint32_t i = 0; i < m->count; i++) {
    bool has_row = false;
    for (uint32_t k = 0; k < s->rows; k++) {
      has_row |= tir_mentions_index(s->t->arena, m->conds[i], m->rows[k]);
    }
    if (!has_row) m->inside = both(s, m->inside, m->conds[i]);
  }
}

tir_expr_t *tile_sweep_inside(sweep_t *s, const tir_node_t *n) {
  sweep_masks_t *m = &s->masks;
  tir_index_t *from[1] = {(tir_index_t *)(uintptr_t)key_of(m->axis)};
  tir_expr_t *to[1] = {tir_index_ref(s->t->arena, axis_of(n))};
  return m->inside == NULL ? NULL
                           : tir_replace_indices(s->t->arena, m->inside, 1,
                                                 from, to);
}

/* Copies of the nodes for partial tiles: products with what may lie behind a
 * length are left out, where the product is not of packed factors. */
static void make_partial(sweep_t *s) {
  tile_t *t = s->t;
  s->masks.partial = TD_NEW_ARRAY(t->arena, tir_node_t *, t->node_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    s->masks.partial[k] = n;
    if (!sweep_is_state(n) || n->reduce != TIR_REDUCE_SUM ||
        s->factors[k] != NULL || s->masks.inside == NULL) {
      continue;
    }
    tir_node_t *copy = TD_NEW(t->arena, tir_node_t);
    *copy = *n;
    copy->guard = both(s, tile_sweep_inside(s, n), n->guard);
    s->masks.partial[k] = copy;
  }
}

/* Copies of the nodes for tiles where all conditions hold. */
static void make_full(sweep_t *s) {
  tile_t *t = s->t;
  s->masks.full = TD_NEW_ARRAY(t->arena, tir_node_t *, t->node_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = TD_NEW(t->arena, tir_node_t);
    *n = *t->nodes[k];
    s->masks.full[k] = n;
    if (!n->is_tile && !sweep_is_state(n)) continue;
    assumed_t a = {s, t->nodes[k]};
    n->body = tir_rewrite(t->arena, n->body, assume, &a);
    if (n->guard == NULL) continue;
    n->guard = tir_rewrite(t->arena, n->guard, assume, &a);
    if (is_true(n->guard)) n->guard = NULL;
  }
}

/* ---- bounds of the axis -------------------------------------------------- */

static tir_x_t flipped(tir_x_t op) {
  switch (op) {
    case TIR_X_LT: return TIR_X_GT;
    case TIR_X_LE: return TIR_X_GE;
    case TIR_X_GT: return TIR_X_LT;
    case TIR_X_GE: return TIR_X_LE;
    default: return op;
  }
}

/* c as `axis REL limit`, terms moved to the other side; false if it is not
 * of that form. */
static bool solve(sweep_t *s, const tir_expr_t *c, sweep_bound_t *out) {
  td_arena_t *arena = s->t->arena;
  const tir_index_t *axis = s->masks.axis;
  tir_x_t op = c->op;
  bool is_ordered = op == TIR_X_LT || op == TIR_X_LE || op == TIR_X_GT ||
                    op == TIR_X_GE || op == TIR_X_EQ;
  if (!is_ordered || c->args[0]->type != TDSL_DTYPE_I64) return false;
  tir_expr_t *left = c->args[0], *right = c->args[1];
  bool is_left = tir_mentions_index(arena, left, axis);
  if (is_left == tir_mentions_index(arena, right, axis)) return false;
  if (!is_left) {
    tir_expr_t *e = left;
    left = right;
    right = e;
    op = flipped(op);
  }
  for (int i = 0; left->op != TIR_X_INDEX; i++) {
    bool is_sum = left->op == TIR_X_ADD || left->op == TIR_X_SUB;
    if (!is_sum || i == DEPTH_LIMIT) return false;
    bool in_first = tir_mentions_index(arena, left->args[0], axis);
    if (in_first == tir_mentions_index(arena, left->args[1], axis)) {
      return false;
    }
    tir_expr_t *inner = left->args[in_first ? 0 : 1];
    tir_expr_t *other = left->args[in_first ? 1 : 0];
    bool is_negative = left->op == TIR_X_SUB && !in_first;
    tir_expr_t *moved[2] = {right, other};
    if (is_negative) {
      moved[0] = other;
      moved[1] = right;
      op = flipped(op);
    }
    bool is_plus = left->op == TIR_X_SUB && in_first;
    right = tir_op(arena, is_plus ? TIR_X_ADD : TIR_X_SUB, TDSL_DTYPE_I64, 2,
                   moved);
    left = inner;
  }
  *out = (sweep_bound_t){.op = op, .limit = right};
  return true;
}

void tile_sweep_find_masks(sweep_t *s) {
  sweep_masks_t *m = &s->masks;
  conds_t common = {0};
  tir_interner_init(&m->interner, s->t->arena);
  for (uint32_t k = 0; k < s->t->node_count && m->axis == NULL; k++) {
    const tir_node_t *n = s->t->nodes[k];
    if (sweep_is_state(n)) {
      m->axis = n->indices[n->index_count - 1];
      m->rows = n->indices;
    }
  }
  find_common(s, &common);
  m->count = (uint32_t)common.length;
  m->conds = common.data;
  m->bounds = TD_NEW_ARRAY(s->t->arena, sweep_bound_t, m->count + 1);
  for (uint32_t i = 0; i < m->count; i++) {
    m->is_bound |= solve(s, m->conds[i], &m->bounds[i]);
  }
  if (m->count == 0) return;
  find_padding(s);
  make_partial(s);
  make_full(s);
}

/* ---- intervals ----------------------------------------------------------- */

typedef struct view {
  sweep_t *s;
  kir_block_t *block; /* where tensors are looked through */
  const sweep_span_t *axis, *row; /* NULL: as the index is set */
} view_t;

static kir_expr_t *op_i64(const view_t *v, kir_x_t op, kir_expr_t *a,
                          kir_expr_t *b) {
  return tile_op2(v->s->t, op, TDSL_DTYPE_I64, a, b);
}

static kir_expr_t *op_bool(const view_t *v, kir_x_t op, kir_expr_t *a,
                           kir_expr_t *b) {
  return tile_op2(v->s->t, op, TDSL_DTYPE_BOOL, a, b);
}

typedef struct scan {
  kir_buffer_t *acc;
  tir_expr_t *load;
  const tir_index_t *index;
  kir_expr_t *origin; /* of the span */
  tir_reduce_t reduce;
} scan_t;

static void scan_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                       kir_expr_t *limit, void *user) {
  scan_t *c = user;
  kir_expr_t *at;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &at);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_set_index(t, c->index, kir_add(t->arena, c->origin, at));
  kir_expr_t *acc = kir_load(t->arena, c->acc, 1, &lane);
  tile_store(t, body, c->acc, 1, &lane,
             tile_op2(t, tile_fold_op(c->reduce), TDSL_DTYPE_I64, acc,
                      tile_expr(t, c->load)));
}

/* Least or largest of what a load gives over a span of one index. */
static kir_expr_t *scan(const view_t *v, tir_expr_t *load,
                        const tir_index_t *index, const sweep_span_t *span,
                        tir_reduce_t reduce) {
  tile_t *t = v->s->t;
  kir_expr_t *was = td_map_get_u64(&t->indices, key_of(index)), *lane;
  scan_t c = {.load = load, .index = index, .origin = span->lo,
              .reduce = reduce};
  const ix_poly_t *dims[1] = {ix_const(t->module->pool, TILE_LANES)};
  c.acc = tile_alloc(t, v->block, "seen", TDSL_DTYPE_I64, KIR_REGISTER, 1,
                     dims);
  kir_block_t *body = tile_lanes(t, v->block, NULL, &lane);
  tile_store(t, body, c.acc, 1, &lane,
             tile_identity(t, reduce, TDSL_DTYPE_I64));
  tile_range_t range = {tile_int(t, 0), span->count};
  tile_chunks(t, v->block, index->name, range, scan_chunk, &c);
  kir_expr_t *fold = kir_op(t->arena, KIR_X_FOLD, TDSL_DTYPE_I64, 0, NULL);
  fold->u.buffer = c.acc;
  fold->fold = tile_fold_op(reduce);
  if (was != NULL) tile_set_index(t, index, was);
  return tile_let(t, v->block,
                  reduce == TIR_REDUCE_MIN ? "least" : "largest", fold);
}

static bool span_of_load(const view_t *v, const tir_expr_t *e,
                         const sweep_span_t *span, sweep_span_t *out) {
  const sweep_masks_t *m = &v->s->masks;
  for (uint32_t i = 0; i < m->scan_count; i++) {
    if (m->scans[i].load != e || m->scans[i].span != span) continue;
    *out = m->scans[i].values;
    return true;
  }
  return false; /* along both, or not looked through */
}

/* The values an integer can have in the view; false: not known. */
static bool span_of(const view_t *v, tir_expr_t *e, sweep_span_t *out,
                    int depth) {
  tile_t *t = v->s->t;
  sweep_masks_t *m = &v->s->masks;
  sweep_span_t a, b;
  bool along_axis = v->axis != NULL &&
                    tir_mentions_index(t->arena, e, m->axis);
  bool along_row = v->row != NULL &&
                   tir_mentions_index(t->arena, e, m->rows[v->s->blocked]);
  if (e->type != TDSL_DTYPE_I64 || depth == DEPTH_LIMIT) return false;
  if (!along_axis && !along_row) {
    if (v->axis == NULL && tir_mentions_index(t->arena, e, m->axis)) {
      return false;
    }
    out->lo = out->hi = tile_expr(t, e);
    return true;
  }
  switch (e->op) {
    case TIR_X_INDEX:
      *out = along_axis ? *v->axis : *v->row;
      return true;
    case TIR_X_LOAD:
      return span_of_load(v, e, along_axis ? v->axis : v->row, out);
    case TIR_X_ADD:
      if (!span_of(v, e->args[0], &a, depth + 1) ||
          !span_of(v, e->args[1], &b, depth + 1)) {
        return false;
      }
      out->lo = kir_add(t->arena, a.lo, b.lo);
      out->hi = kir_add(t->arena, a.hi, b.hi);
      return true;
    case TIR_X_SUB:
      if (!span_of(v, e->args[0], &a, depth + 1) ||
          !span_of(v, e->args[1], &b, depth + 1)) {
        return false;
      }
      out->lo = op_i64(v, KIR_X_SUB, a.lo, b.hi);
      out->hi = op_i64(v, KIR_X_SUB, a.hi, b.lo);
      return true;
    case TIR_X_DIV:
      if (e->args[1]->op != TIR_X_CONST || e->args[1]->u.i64 <= 0 ||
          !span_of(v, e->args[0], &a, depth + 1)) {
        return false;
      }
      out->lo = op_i64(v, KIR_X_DIV, a.lo, tile_expr(t, e->args[1]));
      out->hi = op_i64(v, KIR_X_DIV, a.hi, tile_expr(t, e->args[1]));
      return true;
    default:
      return false;
  }
}

/* Whether c can hold, or must hold, for elements of the view; NULL: nothing
 * is known. */
static kir_expr_t *judge(const view_t *v, tir_expr_t *c, bool must,
                         int depth) {
  if (depth == DEPTH_LIMIT) return NULL;
  if (c->op == TIR_X_AND || c->op == TIR_X_OR) {
    kir_expr_t *a = judge(v, c->args[0], must, depth + 1);
    kir_expr_t *b = judge(v, c->args[1], must, depth + 1);
    if (a != NULL && b != NULL) {
      return op_bool(v, c->op == TIR_X_AND ? KIR_X_AND : KIR_X_OR, a, b);
    }
    /* what is not known can hold, and need not */
    bool is_weaker = (c->op == TIR_X_AND) == must;
    return is_weaker ? NULL : a != NULL ? a : b;
  }
  if (c->op == TIR_X_NOT) {
    kir_expr_t *a = judge(v, c->args[0], !must, depth + 1);
    if (a == NULL) return NULL;
    return kir_op(v->s->t->arena, KIR_X_NOT, TDSL_DTYPE_BOOL, 1, &a);
  }
  sweep_span_t a, b;
  if (c->arg_count != 2 || !span_of(v, c->args[0], &a, 0) ||
      !span_of(v, c->args[1], &b, 0)) {
    return NULL;
  }
  switch (c->op) {
    case TIR_X_LT:
      return op_bool(v, KIR_X_LT, must ? a.hi : a.lo, must ? b.lo : b.hi);
    case TIR_X_LE:
      return op_bool(v, KIR_X_LE, must ? a.hi : a.lo, must ? b.lo : b.hi);
    case TIR_X_GT:
      return op_bool(v, KIR_X_GT, must ? a.lo : a.hi, must ? b.hi : b.lo);
    case TIR_X_GE:
      return op_bool(v, KIR_X_GE, must ? a.lo : a.hi, must ? b.hi : b.lo);
    case TIR_X_EQ:
      /* both are one number, the same; or the intervals meet */
      return op_bool(v, KIR_X_AND,
                     op_bool(v, KIR_X_LE, must ? a.hi : a.lo,
                             must ? b.lo : b.hi),
                     op_bool(v, KIR_X_LE, must ? b.hi : b.lo,
                             must ? a.lo : a.hi));
    default:
      return NULL;
  }
}

kir_expr_t *tile_sweep_judge(sweep_t *s, const sweep_span_t *axis,
                             const sweep_span_t *row, bool must) {
  sweep_masks_t *m = &s->masks;
  view_t v = {s, NULL, axis, row};
  kir_expr_t *all = NULL;
  for (uint32_t i = 0; i < m->count; i++) {
    /* the loop over tiles keeps to what rows of the block are bounded by */
    bool is_kept = m->bounds[i].limit != NULL && !must && row == s->block;
    if (is_kept && (row != NULL || s->block_rows == 1)) continue;
    kir_expr_t *one = judge(&v, m->conds[i], must, 0);
    if (one == NULL && must) return NULL;
    if (one == NULL) continue;
    all = all == NULL ? one : op_bool(&v, KIR_X_AND, all, one);
  }
  return all;
}

typedef struct loads {
  const view_t *view;
  bool of_axis;
} loads_t;

static void note_scan(void *user, tir_expr_t *e) {
  const loads_t *l = user;
  const view_t *v = l->view;
  sweep_masks_t *m = &v->s->masks;
  td_arena_t *arena = v->s->t->arena;
  if (e->op != TIR_X_LOAD || e->arg_count == 0) return;
  bool along_axis = tir_mentions_index(arena, e, m->axis);
  bool along_row = v->s->block_rows > 1 &&
                   tir_mentions_index(arena, e, m->rows[v->s->blocked]);
  if (along_axis == along_row || along_axis != l->of_axis) return;
  if (m->scan_count == SWEEP_SCANS) return;
  const sweep_span_t *span = along_axis ? v->axis : v->row;
  const tir_index_t *index = along_axis ? m->axis : m->rows[v->s->blocked];
  sweep_scan_t *one = &m->scans[m->scan_count];
  *one = (sweep_scan_t){.load = e, .span = span};
  one->values.lo = scan(v, e, index, span, TIR_REDUCE_MIN);
  one->values.hi = scan(v, e, index, span, TIR_REDUCE_MAX);
  m->scan_count++;
}

void tile_sweep_scan(sweep_t *s, kir_block_t *block, const sweep_span_t *axis,
                     const sweep_span_t *row) {
  view_t v = {s, block, axis, row};
  loads_t l = {&v, axis != NULL};
  for (uint32_t i = 0; i < s->masks.count; i++) {
    tir_walk(s->t->arena, s->masks.conds[i], note_scan, &l);
  }
}

void tile_sweep_range(sweep_t *s, kir_block_t *block, const sweep_span_t *row,
                      kir_expr_t **lo, kir_expr_t **hi) {
  sweep_masks_t *m = &s->masks;
  tile_t *t = s->t;
  view_t v = {s, block, NULL, row};
  kir_expr_t *one = tile_int(t, 1);
  kir_expr_t *first = NULL, *end = NULL;
  for (uint32_t i = 0; i < m->count; i++) {
    const sweep_bound_t *b = &m->bounds[i];
    sweep_span_t limit;
    if (b->limit == NULL || !span_of(&v, b->limit, &limit, 0)) continue;
    bool is_eq = b->op == TIR_X_EQ;
    if (b->op == TIR_X_LT || b->op == TIR_X_LE || is_eq) {
      kir_expr_t *e = b->op == TIR_X_LT ? limit.hi
                                        : kir_add(t->arena, limit.hi, one);
      end = end == NULL ? e : tile_min(t, end, e);
    }
    if (b->op == TIR_X_GT || b->op == TIR_X_GE || is_eq) {
      kir_expr_t *e = b->op == TIR_X_GT ? kir_add(t->arena, limit.lo, one)
                                        : limit.lo;
      first = first == NULL ? e : op_i64(&v, KIR_X_MAX, first, e);
    }
  }
  if (end != NULL) *hi = tile_let(t, block, "live", tile_min(t, *hi, end));
  if (first == NULL) return;
  /* tiles begin where they would */
  kir_expr_t *width = tile_int(t, SWEEP_TILE);
  first = op_i64(&v, KIR_X_MAX, first, tile_int(t, 0));
  first = kir_mul(t->arena, op_i64(&v, KIR_X_DIV, first, width), width);
  *lo = tile_let(t, block, "first", op_i64(&v, KIR_X_MAX, *lo, first));
}
