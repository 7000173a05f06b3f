/* lower_map.c: a formula without sums, for lanes of a warp.
 *
 * Elements are counted in groups of n neighbours along the last index, n of
 * them in 16 bytes at most; a lane takes one group at a time, a warp as many
 * as it has lanes, a block iteration TURNS of those one after the other:
 *
 *   q = turn of the block * lanes + lane
 *   last index = q % (extent / n) * n + v, the others from q / (extent / n)
 *
 * Where every operand is read at the formula's own indices, all of them are
 * one index, and what is left behind the last group is done by the first
 * block iteration.  Else the last extent must be a multiple of n, or n is 1.
 * Class: bitwise; every element is computed by the same operations. */
#include "passes/tile/flatten.h"

#include "ir/expr.h"
#include "passes/tile/tile_wide.h"
#include "runtime/base/num.h"

enum {
  TURNS = 4,
  MOST_NEIGHBOURS = 8,
  MOST_COPIES = 256, /* operations of a body, times neighbours */
};

typedef struct map_form {
  tile_t *t;
  tir_node_t *node;
  uint32_t par;
  tir_expr_t *body, *place;   /* place: a load of what is stored */
  tir_index_t *last;
  bool is_flat;               /* all indices are one */
  int64_t n;
  const ix_poly_t *groups;    /* of all elements */
} map_form_t;

/* ---- which form ---------------------------------------------------------- */

typedef struct survey {
  const map_form_t *m;
  bool has_others;     /* loads at other places than the formula's own */
  size_t widest;       /* bytes of what is loaded at the own place */
} survey_t;

static void look(void *user, tir_expr_t *e) {
  survey_t *s = user;
  const map_form_t *m = s->m;
  if (e->op != TIR_X_LOAD || e->arg_count == 0) return;
  bool is_own = e->arg_count == m->par;
  for (uint32_t d = 0; d < e->arg_count && is_own; d++) {
    is_own = e->args[d]->op == TIR_X_INDEX &&
             e->args[d]->u.index == m->node->indices[d] &&
             (d == 0 || e->u.value->dims[d] == m->node->indices[d]->extent);
  }
  s->has_others |= !is_own;
  size_t bytes = td_dtype_bytes(e->u.value->dtype);
  const tir_expr_t *at = e->args[e->arg_count - 1];
  bool is_along = at->op == TIR_X_INDEX &&
                  at->u.index == m->node->indices[m->par - 1];
  if (is_along && bytes > s->widest) s->widest = bytes;
}

/* An index stands elsewhere than in a subscript: the flat one would have to be
 * taken apart for it. */
static bool uses_index(tile_t *t, tir_expr_t *e) {
  td_map_t seen;
  td_map_init(&seen, t->arena);
  TD_VEC(tir_expr_t *) stack = {0};
  td_vec_push(t->arena, &stack, e);
  while (stack.length > 0) {
    tir_expr_t *x = td_vec_pop(&stack);
    if (x->op == TIR_X_INDEX) return true;
    if (x->op == TIR_X_LOAD) continue;
    if (td_map_get_u64(&seen, (uint64_t)(uintptr_t)x) != NULL) continue;
    td_map_put_u64(&seen, (uint64_t)(uintptr_t)x, x);
    for (uint32_t i = 0; i < x->arg_count; i++) {
      td_vec_push(t->arena, &stack, x->args[i]);
    }
  }
  return false;
}

static void choose(map_form_t *m) {
  tile_t *t = m->t;
  ix_pool_t *pool = t->module->pool;
  tir_node_t *n = m->node;
  survey_t s = {.m = m, .widest = td_dtype_bytes(n->outs[0]->dtype)};
  tir_walk(t->arena, n->body, look, &s);
  m->is_flat = !s.has_others && !uses_index(t, n->body);
  m->n = 16 / (int64_t)s.widest;
  if (m->n > MOST_NEIGHBOURS) m->n = MOST_NEIGHBOURS;
  int64_t size = (int64_t)tir_expr_size(t->arena, n->body);
  while (m->n > 1 && size * m->n > MOST_COPIES) m->n /= 2;
  tir_expr_t *subs[IX_MAX_RANK];
  for (uint32_t i = 0; i < m->par; i++) {
    subs[i] = tir_index_ref(t->arena, n->indices[i]);
  }
  m->body = n->body;
  m->place = tir_load(t->arena, n->outs[0], m->par, subs);
  m->last = n->indices[m->par - 1];
  if (m->is_flat && m->par > 1) {
    flat_group_t all = {.count = m->par};
    flat_group_t *groups[1] = {&all};
    for (uint32_t i = 0; i < m->par; i++) all.members[i] = n->indices[i];
    flat_finish(t, &all, "i");
    if (all.extent == NULL) {
      m->is_flat = false;
    } else {
      m->body = flat_rewrite(t, groups, 1, m->body);
      m->place = flat_rewrite(t, groups, 1, m->place);
      m->last = all.flat;
    }
  }
  if (m->is_flat) {
    m->groups = ix_div(pool, m->last->extent, ix_const(pool, m->n), NULL);
    return;
  }
  while (m->n > 1 && (!tile_is_multiple(m->last->extent, m->n) ||
                      !tile_wide_fits(n->outs[0], m->n))) {
    m->n /= 2;
  }
  m->groups = ix_div(pool, m->last->extent, ix_const(pool, m->n), NULL);
  for (uint32_t i = 0; i + 1 < m->par && m->groups != NULL; i++) {
    m->groups = ix_mul(pool, m->groups, n->indices[i]->extent);
  }
}

/* ---- the kernel ---------------------------------------------------------- */

/* Sets the indices to element v of group q. */
static void set_group(map_form_t *m, kir_expr_t *q, kir_expr_t *v) {
  tile_t *t = m->t;
  kir_expr_t *rest = q;
  if (!m->is_flat && m->par > 1) {
    const ix_poly_t *across = ix_div(t->module->pool, m->last->extent,
                                     ix_const(t->module->pool, m->n), NULL);
    kir_expr_t *n = tile_dim(t, across);
    rest = tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, q, n);
    q = tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, q, n);
    for (uint32_t i = m->par - 1; i > 0; i--) {
      const tir_index_t *index = m->node->indices[i - 1];
      if (i == 1) {
        tile_set_index(t, index, rest);
        break;
      }
      kir_expr_t *extent = tile_dim(t, index->extent);
      tile_set_index(t, index, tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, rest,
                                        extent));
      rest = tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, rest, extent);
    }
  }
  kir_expr_t *first = kir_mul(t->arena, q, tile_int(t, m->n));
  tile_set_index(t, m->last, kir_add(t->arena, first, v));
}

/* The element at the present indices: its buffer and subscripts. */
static kir_expr_t *place_of(map_form_t *m, kir_buffer_t **out) {
  kir_expr_t *at = tile_expr(m->t, m->place);
  *out = (kir_buffer_t *)(uintptr_t)at->u.buffer;
  (*out)->is_read = false;
  (*out)->is_written = true;
  return at;
}

static kir_block_t *lanes(map_form_t *m, kir_block_t *block, kir_expr_t **l,
                          kir_stmt_t **loop) {
  kir_block_t *body = tile_loop(m->t, block, KIR_LOOP_LANE, "l",
                                tile_int(m->t, 0),
                                tile_int(m->t, m->t->target->warp), 1, l);
  *loop = td_vec_last(block);
  return body;
}

/* Lane l's group: (turn * lanes + l) behind the block's first. */
static kir_expr_t *group_of(map_form_t *m, kir_expr_t *first, kir_expr_t *l,
                            kir_stmt_t *loop) {
  tile_t *t = m->t;
  kir_expr_t *q = kir_add(t->arena, first, l);
  loop->mask = tile_less(t, q, tile_dim(t, m->groups));
  return q;
}

static void build_wide(map_form_t *m, kir_block_t *block, kir_expr_t *first) {
  tile_t *t = m->t;
  ix_pool_t *pool = t->module->pool;
  kir_expr_t *l, *v;
  kir_stmt_t *loop;
  kir_buffer_t *to;
  const tir_value_t *out = m->node->outs[0];
  tile_wides_t wides = {.index = m->last, .n = m->n};
  tile_wide_find(t, &wides, m->body);
  tile_wide_alloc(t, &wides, block, 0, NULL);
  const ix_poly_t *dims[2] = {ix_const(pool, m->n),
                              ix_const(pool, t->target->warp)};
  kir_buffer_t *rows = tile_alloc(t, block, out->name, out->dtype,
                                  KIR_REGISTER, 2, dims);
  kir_block_t *body = lanes(m, block, &l, &loop);
  if (wides.loads.length > 0) {
    set_group(m, group_of(m, first, l, loop), tile_int(t, 0));
    tile_wide_load(t, &wides, body, NULL, l);
  } else {
    (void)td_vec_pop(block);
  }
  kir_block_t *each = tile_loop(t, block, KIR_LOOP_UNROLL, "v",
                                tile_int(t, 0), tile_int(t, m->n), 1, &v);
  body = lanes(m, each, &l, &loop);
  set_group(m, group_of(m, first, l, loop), v);
  tile_wide_use(t, &wides, NULL, v, l);
  tile_store(t, body, rows, 2, (kir_expr_t *[]){v, l}, tile_expr(t, m->body));
  tile_wide_end(t, &wides);
  body = lanes(m, block, &l, &loop);
  set_group(m, group_of(m, first, l, loop), tile_int(t, 0));
  kir_expr_t *at = place_of(m, &to);
  kir_expr_t *from[2] = {tile_int(t, 0), l};
  tile_push(t, body,
            kir_copy_stmt(t->kernel, m->n, to, at->arg_count, at->args,
                          kir_load(t->arena, rows, 2, from)));
}

/* One element a lane, at the indices set. */
static void build_one(map_form_t *m, kir_block_t *body) {
  kir_buffer_t *to;
  kir_expr_t *v = tile_expr(m->t, m->body);
  kir_expr_t *at = place_of(m, &to);
  tile_store(m->t, body, to, at->arg_count, at->args, v);
}

/* Elements behind the last group, by the first block iteration. */
static void build_rest(map_form_t *m, kir_block_t *block, kir_expr_t *qb) {
  tile_t *t = m->t;
  if (m->n == 1 || tile_is_multiple(m->last->extent, m->n)) return;
  kir_expr_t *l;
  kir_stmt_t *loop;
  kir_expr_t *is_first = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, qb,
                                  tile_int(t, 0));
  kir_stmt_t *tail = tile_push(t, block, tile_if(t, is_first));
  kir_block_t *body = lanes(m, &tail->body, &l, &loop);
  kir_expr_t *at = kir_add(
      t->arena,
      kir_mul(t->arena, tile_dim(t, m->groups), tile_int(t, m->n)), l);
  loop->mask = tile_less(t, at, tile_dim(t, m->last->extent));
  tile_set_index(t, m->last, at);
  build_one(m, body);
}

static void describe(const map_form_t *m) {
  tile_t *t = m->t;
  tile_note(t, "one formula: %s", tile_describe(t));
  tile_note(t, "a lane takes %lld %s, a warp %u at a time%s", (long long)m->n,
            m->n == 1 ? "element" : "neighbours",
            (unsigned)(t->target->warp * (uint32_t)m->n),
            m->is_flat ? "; all indices are one" : "");
}

bool tile_lower_map(tile_t *t) {
  map_form_t m = {.t = t, .node = t->nodes[0]};
  if (t->target->warp == 0 || t->node_count != 1 ||
      m.node->kind != TIR_MAP || m.node->reduce != TIR_REDUCE_NONE) {
    return false;
  }
  m.par = m.node->index_count;
  if (m.par == 0) return false;
  choose(&m);
  if (m.groups == NULL) return false;
  describe(&m);
  int64_t lanes_of_warp = t->target->warp;
  /* the rest needs a block iteration even if there is no whole group */
  const ix_poly_t *end = m.groups;
  if (m.is_flat && m.n > 1 && !tile_is_multiple(m.last->extent, m.n)) {
    ix_pool_t *pool = t->module->pool;
    end = ix_div(pool, ix_add(pool, m.last->extent, ix_const(pool, m.n - 1)),
                 ix_const(pool, m.n), NULL);
  }
  kir_expr_t *qb, *u;
  kir_block_t *block = tile_loop(t, &t->kernel->body, KIR_LOOP_BLOCK, "q",
                                 tile_int(t, 0), tile_dim(t, end),
                                 TURNS * lanes_of_warp, &qb);
  kir_block_t *turns = tile_loop(t, block, KIR_LOOP_SERIAL, "u",
                                 tile_int(t, 0),
                                 tile_int(t, TURNS * lanes_of_warp),
                                 lanes_of_warp, &u);
  kir_expr_t *first = kir_add(t->arena, qb, u);
  if (m.n > 1) {
    build_wide(&m, turns, first);
  } else {
    kir_expr_t *l;
    kir_stmt_t *loop;
    kir_block_t *body = lanes(&m, turns, &l, &loop);
    set_group(&m, group_of(&m, first, l, loop), tile_int(t, 0));
    build_one(&m, body);
  }
  build_rest(&m, block, qb);
  return true;
}
