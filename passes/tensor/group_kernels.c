/* group_kernels.c: a kernel for every node, and what all who deal with groups
 * must know of them.
 *
 * Does: gives every MAP, UPDATE and TOPK node a group.
 * Needs: verified TIR, settled scalars.
 * Guarantees: a group is one node, or the nodes of one cascade; groups are
 *   adjacent in their block and counted from 1 in its order.
 * Class: bitwise.
 * Ends because: one pass over the nodes.
 * Ledgers: none; join_kernels makes the groups that save bytes. */
#include "passes/tensor/group_kernels.h"

#include "passes/tensor/tensor.h"
#include "runtime/base/num.h"

static bool is_float(tdsl_dtype_t type) {
  return type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
}

bool group_is_contraction(const tir_node_t *n) {
  return n->kind == TIR_MAP && n->reduce == TIR_REDUCE_SUM && n->is_fma &&
         n->plan == TIR_PLAN_SERIAL && is_float(n->body->type) &&
         n->body->op == TIR_X_MUL && tensor_parallel(n) > 0;
}

uint32_t group_cascade_rows(tir_node_t *const *nodes, uint32_t count) {
  uint32_t rows = UINT32_MAX;
  for (uint32_t i = 0; i < count; i++) {
    if (nodes[i]->cascade == 0) continue;
    uint32_t par = tensor_parallel(nodes[i]) - (nodes[i]->is_tile ? 1 : 0);
    if (nodes[i]->kind == TIR_TOPK) par = nodes[i]->operands[0]->rank - 1;
    if (par < rows) rows = par;
  }
  return rows;
}

/* Prefix that a node allows by itself: reductions along a row take all
 * their parallel indices, the others keep the last one for lanes. */
static uint32_t own_prefix(const tir_node_t *n) {
  uint32_t par = tensor_parallel(n);
  bool is_sum = n->reduce == TIR_REDUCE_SUM || n->reduce == TIR_REDUCE_PROD;
  if (is_sum && is_float(n->body->type) && n->plan == TIR_PLAN_SERIAL) {
    return par == 0 ? 0 : par - 1;
  }
  return par;
}

typedef struct load_count {
  td_arena_t *scratch;
  const tir_index_t *row, *out;
  uint32_t row_loads, out_loads; /* of what varies along the row */
} load_count_t;

static void count_loads(void *user, tir_expr_t *e) {
  load_count_t *c = user;
  if (e->op != TIR_X_LOAD || e->arg_count == 0) return;
  const tir_expr_t *last = e->args[e->arg_count - 1];
  if (last->op != TIR_X_INDEX) return;
  c->row_loads += last->u.index == c->row;
  c->out_loads += last->u.index == c->out &&
                  tir_mentions_index(c->scratch, e, c->row);
}

bool group_is_column(td_arena_t *scratch, const tir_node_t *n) {
  enum { COLUMN_BODY = 40 }; /* operations that are worth TIR_LANES copies */
  uint32_t par = tensor_parallel(n);
  if (n->kind != TIR_MAP || n->reduce == TIR_REDUCE_NONE || par == 0) {
    return false;
  }
  load_count_t c = {.scratch = scratch,
                    .row = n->indices[n->index_count - 1],
                    .out = n->indices[par - 1]};
  tir_walk(scratch, n->body, count_loads, &c);
  bool is_place =
      n->reduce == TIR_REDUCE_ARGMAX || n->reduce == TIR_REDUCE_ARGMIN;
  return c.out_loads > c.row_loads &&
         (is_place || tir_expr_size(scratch, n->body) <= COLUMN_BODY);
}

uint32_t group_prefix(tir_node_t *const *nodes, uint32_t count) {
  uint32_t prefix = UINT32_MAX, least = UINT32_MAX;
  for (uint32_t k = 0; k < count; k++) {
    uint32_t par = tensor_parallel(nodes[k]);
    if (par < least) least = par;
    if (nodes[k]->reduce == TIR_REDUCE_NONE) continue;
    uint32_t own = own_prefix(nodes[k]);
    if (own < prefix) prefix = own;
  }
  if (prefix == UINT32_MAX) prefix = least == 0 ? 0 : least - 1;
  if (least < prefix) prefix = least;
  for (uint32_t k = 1; k < count; k++) {
    for (uint32_t i = 0; i < prefix; i++) {
      if (nodes[k]->indices[i]->extent != nodes[0]->indices[i]->extent) {
        prefix = i;
      }
    }
  }
  return prefix;
}

typedef struct reads {
  tir_node_t *const *nodes;
  uint32_t at; /* the reader's number */
  uint32_t prefix;
} reads_t;

static void keep_prefix(void *user, tir_expr_t *e) {
  reads_t *r = user;
  const tir_node_t *n = r->nodes[r->at];
  if (e->op != TIR_X_LOAD) return;
  for (uint32_t k = 0; k < r->at; k++) {
    if (r->nodes[k]->outs[0] != e->u.value) continue;
    for (uint32_t i = 0; i < r->prefix; i++) {
      const tir_expr_t *a = e->args[i];
      if (a->op != TIR_X_INDEX || a->u.index != n->indices[i]) r->prefix = i;
    }
  }
}

uint32_t group_nest_prefix(td_arena_t *scratch, tir_node_t *const *nodes,
                           uint32_t count) {
  reads_t r = {.nodes = nodes, .prefix = group_prefix(nodes, count)};
  for (r.at = 1; r.at < count; r.at++) {
    tir_node_t *n = nodes[r.at];
    if (n->body != NULL) tir_walk(scratch, n->body, keep_prefix, &r);
    if (n->guard != NULL) tir_walk(scratch, n->guard, keep_prefix, &r);
  }
  return r.prefix;
}

const ix_poly_t *group_at_most(ix_pool_t *pool, const ix_poly_t *x,
                               int64_t most) {
  const ix_poly_t *left = ix_sub(pool, ix_const(pool, most + 1), x);
  if (left == NULL) return NULL;
  return ix_min(pool, ix_max(pool, left, ix_const(pool, 0)),
                ix_const(pool, 1));
}

/* ---- rows of a cascade --------------------------------------------------- */

typedef struct rows {
  tir_node_t *const *nodes;
  uint32_t count, rows;
  const tir_node_t *reader;
  td_arena_t *scratch;
  uint32_t *places; /* UINT32_MAX: not known yet */
  bool is_refused, reads_group;
} rows_t;

/* A load of a value of the group, with its rows at `from`. */
static void place_rows(rows_t *s, const tir_expr_t *e, const uint32_t *from) {
  const tir_node_t *n = s->reader;
  s->reads_group = true;
  for (uint32_t i = 0; i < s->rows; i++) {
    const tir_expr_t *a = e->args[from == NULL ? i : from[i]];
    uint32_t at = 0;
    while (at < n->index_count && (a->op != TIR_X_INDEX ||
                                   n->indices[at] != a->u.index)) {
      at++;
    }
    bool is_known = s->places[i] != UINT32_MAX;
    if (at == n->index_count || (is_known && s->places[i] != at)) {
      s->is_refused = true;
      return;
    }
    s->places[i] = at;
  }
}

static void note_rows(void *user, tir_expr_t *e) {
  rows_t *s = user;
  if (e->op != TIR_X_LOAD || s->is_refused) return;
  for (uint32_t k = 0; k < s->count; k++) {
    tir_node_t *def = s->nodes[k];
    uint32_t from[IX_MAX_RANK];
    if (def->outs[0] != e->u.value &&
        (def->out_count < 2 || def->outs[1] != e->u.value)) {
      continue;
    }
    bool is_plain = def->cascade != 0;
    if (!is_plain && !group_row_places(s->scratch, s->nodes, k, def, s->rows,
                                       from)) {
      s->is_refused = true;
      return;
    }
    place_rows(s, e, is_plain ? NULL : from);
  }
}

/* A group has tens of nodes, and finishing maps read a few: asking anew costs
 * less than remembering. */
bool group_row_places(td_arena_t *scratch, tir_node_t *const *nodes,
                      uint32_t count, tir_node_t *n, uint32_t rows,
                      uint32_t *places) {
  rows_t s = {nodes, count, rows, n, scratch, places, false, false};
  for (uint32_t i = 0; i < rows; i++) places[i] = UINT32_MAX;
  tir_walk(scratch, n->body, note_rows, &s);
  for (uint32_t i = 0; i < rows; i++) {
    s.is_refused |= places[i] == UINT32_MAX;
    for (uint32_t k = 0; k < i; k++) s.is_refused |= places[i] == places[k];
  }
  return (s.reads_group || rows == 0) && !s.is_refused;
}

/* ---- what finishes a cascade --------------------------------------------- */

/* Bytes of a finishing map's value for each row; INT64_MAX if unknown. */
static int64_t bytes_beside(const tir_node_t *n, uint32_t rows,
                            const uint32_t *places) {
  int64_t bytes = (int64_t)td_dtype_bytes(n->outs[0]->dtype);
  for (uint32_t i = 0; i < tensor_parallel(n); i++) {
    int64_t lo, hi;
    bool is_row = false;
    for (uint32_t k = 0; k < rows; k++) is_row |= places[k] == i;
    if (is_row) continue;
    if (!ix_interval(n->indices[i]->extent, &lo, &hi) ||
        __builtin_mul_overflow(bytes, hi, &bytes)) {
      return INT64_MAX;
    }
  }
  return bytes;
}

typedef struct large {
  tir_node_t *const *nodes;
  uint32_t count, rows;
  int64_t limit;
  bool is_read;
} large_t;

/* A value of the group that no scratch holds. */
static void check_large(void *user, tir_expr_t *e) {
  large_t *s = user;
  for (uint32_t k = 0; e->op == TIR_X_LOAD && k < s->count; k++) {
    const tir_node_t *n = s->nodes[k];
    if (n->outs[0] != e->u.value || n->cascade != 0) continue;
    /* one with rows was let in because it is small */
    s->is_read |= s->rows == 0 && bytes_beside(n, 0, NULL) > s->limit;
  }
}

/* A map, or a reduction of a few terms. */
static bool is_short(const tir_node_t *n) {
  enum { TERM_LIMIT = 4096 };
  int64_t terms = 1, lo, hi;
  for (uint32_t i = tensor_parallel(n); i < n->index_count; i++) {
    if (!ix_interval(n->indices[i]->extent, &lo, &hi) ||
        __builtin_mul_overflow(terms, hi, &terms)) {
      return false;
    }
  }
  return terms <= TERM_LIMIT;
}

bool group_is_finish(td_arena_t *scratch, tir_node_t *const *nodes,
                     uint32_t count, tir_node_t *n, int64_t limit,
                     int64_t *out_bytes) {
  uint32_t rows = group_cascade_rows(nodes, count), places[IX_MAX_RANK];
  if (!is_short(n) || tensor_parallel(n) < rows ||
      !group_row_places(scratch, nodes, count, n, rows, places)) {
    return false;
  }
  for (uint32_t i = 0; i < rows; i++) {
    if (places[i] >= tensor_parallel(n)) return false;
  }
  large_t large = {nodes, count, rows, limit, false};
  tir_walk(scratch, n->body, check_large, &large);
  bool may_be_large = false;
  for (uint32_t k = 0; k < count; k++) {
    may_be_large |= rows == 0 && nodes[k]->is_merge;
  }
  *out_bytes = large.is_read   ? INT64_MAX
               : may_be_large ? 0
                              : bytes_beside(n, rows, places);
  return true;
}

/* ---- the pass ------------------------------------------------------------ */

static void group_block(tir_block_t *block, uint32_t *next) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) group_block(&n->body_nodes, next);
    if (n->kind == TIR_LOOP || n->kind == TIR_ASSERT) continue;
    bool is_same = i > 0 && n->cascade != 0 &&
                   block->data[i - 1]->cascade == n->cascade;
    if (!is_same) (*next)++;
    n->group = *next;
  }
}

bool pass_group_kernels(pass_state_t *state, tir_module_t *module) {
  (void)state;
  for (uint32_t f = 0; f < module->func_count; f++) {
    uint32_t last = 0;
    group_block(&module->funcs[f]->nodes, &last);
  }
  return true;
}
