/* nest_join.c: nodes of a group that go over a row together, on a CPU.
 *
 * Maps and sums one after the other over the same last index become one loop
 * where each reads what the others make at its own element only: an element
 * is in a register when the next node wants it, what nobody else reads has no
 * place in memory at all, and the waits of a chain of additions are filled by
 * the work of the formulas.  Every sum has the order that it had, and every
 * element the operations that it had.
 * Class: bitwise.  Ledgers: bytes of scratch. */
#include "passes/tile/nest.h"

#include "ir/expr.h"
#include "passes/tile/stage_rows.h"

/* ---- which --------------------------------------------------------------- */

static const tir_index_t *last_of(const nest_t *s) {
  return s->node->indices[s->prefix];
}

bool tile_nest_is_map(const nest_t *s) {
  return s->node->kind == TIR_MAP && s->node->reduce == TIR_REDUCE_NONE &&
         s->par == s->prefix + 1 && s->node->guard == NULL;
}

typedef struct readers {
  const nest_t *made, *by; /* a node, and the one that may read it */
  bool reads, elsewhere;   /* it does; at another element than its own */
} readers_t;

static void note_read(void *user, tir_expr_t *e) {
  readers_t *r = user;
  if (e->op != TIR_X_LOAD || e->u.value != r->made->node->outs[0]) return;
  r->reads = true;
  bool is_own = e->arg_count == r->by->prefix + 1;
  for (uint32_t i = 0; i < e->arg_count && is_own; i++) {
    is_own = e->args[i]->op == TIR_X_INDEX &&
             e->args[i]->u.index == r->by->node->indices[i];
  }
  r->elsewhere |= !is_own;
}

static readers_t read_by(tile_t *t, const nest_t *made, const nest_t *by) {
  readers_t r = {.made = made, .by = by};
  for (uint32_t k = 0; k < tir_node_expr_count(by->node); k++) {
    tir_walk(t->arena, *tir_node_expr(by->node, k), note_read, &r);
  }
  return r;
}

/* Node `next` can go with first .. next - 1. */
static bool can_join(tile_t *t, const nest_t *first, const nest_t *next) {
  if (!tile_nest_is_map(next) && !tile_nest_is_row_sum(t, next)) return false;
  if (last_of(next)->extent != last_of(first)->extent) return false;
  for (const nest_t *s = first; s < next; s++) {
    readers_t r = read_by(t, s, next);
    if (!r.reads) continue;
    if (!tile_nest_is_map(s) || r.elsewhere ||
        s->node->body->type != s->node->outs[0]->dtype) {
      return false;
    }
  }
  return true;
}

void tile_nest_find_joined(tile_t *t, nest_t *states, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) states[k].joined = 1;
  if (t->target->warp != 0 || count < 2) return;
  for (uint32_t k = 0, next; k < count; k = next) {
    next = k + 1;
    if (!tile_nest_is_map(&states[k]) &&
        !tile_nest_is_row_sum(t, &states[k])) {
      continue;
    }
    while (next < count && can_join(t, &states[k], &states[next])) next++;
    states[k].joined = next - k;
    for (uint32_t i = k + 1; i < next; i++) states[i].joined = 0;
    for (uint32_t i = k; i < next; i++) {
      nest_t *s = &states[i];
      s->is_let = tile_nest_is_map(s) && !tile_escapes(t, s->node->outs[0]);
      for (uint32_t o = 0; o < count && s->is_let; o++) {
        s->is_let = (o >= k && o < next) || !read_by(t, s, &states[o]).reads;
      }
    }
  }
}

/* ---- the loop ------------------------------------------------------------ */

typedef struct step {
  nest_t *first, *end; /* of the first row, and of the one behind the last */
  uint32_t k;          /* number of the node */
} step_t;

/* Elements base .. base + 15 of all of them, of one row. */
static void chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                  kir_expr_t *limit, nest_t *first) {
  kir_expr_t *index;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &index);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  for (nest_t *s = first; s < first + first->joined; s++) {
    const tir_node_t *n = s->node;
    if (!tile_nest_is_map(s)) {
      tile_set_index(t, last_of(s), index);
      tile_nest_add(t, s, body, &lane, 1);
      continue;
    }
    tile_nest_set(t, s, s->prefix, index);
    kir_expr_t *v = tile_expr(t, n->body);
    if (n->body->type == n->outs[0]->dtype) {
      v = tile_let(t, body, n->outs[0]->name, v);
      tile_set_element(t, n->outs[0], v);
    }
    if (s->is_let) continue;
    tile_store_value(t, body, n->outs[0], s->par, s->subs, v);
  }
  for (nest_t *s = first; s < first + first->joined; s++) {
    tile_set_element(t, s->node->outs[0], NULL);
  }
}

/* Row after row in each step. */
static void chunk_of_rows(tile_t *t, kir_block_t *block, kir_expr_t *base,
                          kir_expr_t *limit, void *user) {
  const step_t *step = user;
  for (nest_t *s = step->first; s != step->end; s = s->next_row) {
    tile_nest_use_row(t, s, step->k);
    chunk(t, block, base, limit, s);
  }
}

/* Elements base .. base + lanes - 1 of the rows first .. before `end`. */
static void wide_step(tile_t *t, const step_t *step, kir_block_t *block,
                      kir_expr_t *base, int64_t lanes) {
  kir_expr_t *u;
  kir_block_t *part = tile_loop(t, block, KIR_LOOP_UNROLL, "u",
                                tile_int(t, 0), tile_int(t, lanes),
                                TILE_LANES, &u);
  chunk_of_rows(t, part, kir_add(t->arena, base, u), NULL,
                (void *)(uintptr_t)step);
}

static void pass_over(tile_t *t, const step_t *step, kir_block_t *block,
                      int64_t rows) {
  const nest_t *first = step->first;
  tile_range_t r = {tile_int(t, 0), tile_dim(t, last_of(first)->extent)};
  int64_t lanes = tile_nest_wide(t, r);
  if (lanes == 0) {
    tile_chunks(t, block, last_of(first)->name, r, chunk_of_rows,
                (void *)(uintptr_t)step);
    return;
  }
  kir_expr_t *base;
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL,
                                last_of(first)->name, r.lo, r.hi, lanes,
                                &base);
  if (first->ahead != NULL) {
    tile_nest_carry_step(t, first, body, base);
    tile_nest_use_row(t, step->first, step->k);
  }
  wide_step(t, step, body, base, lanes);
  for (const nest_t *row = first; row != step->end; row = row->next_row) {
    tile_nest_ahead(t, row, body, base, lanes, rows);
  }
}

void tile_nest_joined_open(tile_t *t, nest_t *first, kir_block_t *block) {
  for (nest_t *row = first; row != NULL; row = row->next_row) {
    for (nest_t *s = row; s < row + row->joined; s++) {
      if (!tile_nest_is_map(s)) tile_nest_begin(t, s, block);
    }
  }
}

void tile_nest_joined_step(tile_t *t, nest_t *row, uint32_t k,
                           kir_block_t *block, kir_expr_t *base,
                           int64_t lanes) {
  step_t step = {row, row->next_row, k};
  wide_step(t, &step, block, base, lanes);
}

void tile_nest_joined_close(tile_t *t, nest_t *first, uint32_t k,
                            kir_block_t *block) {
  for (nest_t *row = first; row != NULL; row = row->next_row) {
    tile_nest_use_row(t, row, k);
    for (nest_t *s = row; s < row + row->joined; s++) {
      if (!tile_nest_is_map(s)) tile_nest_fold(t, s, block);
    }
  }
}

/* Rows that are stored go one after the other: the same column of two rows
 * may differ in nothing that a store is compared by with later loads. */
void tile_nest_joined(tile_t *t, nest_t *first, uint32_t k,
                      kir_block_t *block) {
  int64_t rows = 0;
  bool has_store = first->ahead != NULL;
  for (nest_t *row = first; row != NULL; row = row->next_row, rows++) {
    for (nest_t *s = row; s < row + row->joined; s++) {
      has_store |= tile_nest_is_map(s) && !s->is_let;
    }
  }
  tile_nest_joined_open(t, first, block);
  for (nest_t *row = first; row != NULL; row = row->next_row) {
    step_t step = {row, has_store ? row->next_row : NULL, k};
    pass_over(t, &step, block, rows);
    if (!has_store) break;
  }
  tile_nest_joined_close(t, first, k, block);
}

typedef struct row_bytes {
  const tile_t *t;
  td_map_t seen;
  uint32_t prefix;
  int64_t bytes; /* of rows that come from outside */
} row_bytes_t;

static void note_bytes(void *user, tir_expr_t *e) {
  row_bytes_t *r = user;
  if (e->op != TIR_X_LOAD) return;
  const tir_value_t *v = e->u.value;
  uint64_t key = (uint64_t)(uintptr_t)v;
  if (v->rank <= r->prefix || td_map_get_u64(&r->t->homes, key) != NULL ||
      td_map_get_u64(&r->seen, key) != NULL) {
    return;
  }
  td_map_put_u64(&r->seen, key, r);
  int64_t bytes = tile_stage_bytes(v, r->prefix);
  if (__builtin_add_overflow(r->bytes, bytes, &r->bytes)) {
    r->bytes = INT64_MAX;
  }
}

/* Two, where sums have little else to do than to wait for themselves, nothing
 * but numbers is kept of a row, and both rows stay in the first cache. */
int64_t tile_nest_rows(tile_t *t, const nest_t *states, uint32_t count) {
  enum { ROWS = 2, CACHE = 32 * 1024 };
  uint32_t prefix = states[0].prefix;
  int64_t extent;
  if (t->target->warp != 0 || count < 2 || prefix == 0 ||
      !ix_is_const(states[0].node->indices[prefix - 1]->extent, &extent) ||
      extent % ROWS != 0) {
    return 1;
  }
  bool has_sum = false;
  row_bytes_t read = {.t = t, .prefix = prefix};
  td_map_init(&read.seen, t->arena);
  for (uint32_t k = 0; k < count; k++) {
    const nest_t *s = &states[k];
    tir_walk(t->arena, s->node->body, note_bytes, &read);
    bool is_number = s->node->reduce == TIR_REDUCE_NONE &&
                     s->node->index_count == prefix;
    bool is_kept = s->par > prefix && !s->is_let &&
                   td_map_get_u64(&t->homes,
                                  (uint64_t)(uintptr_t)s->node->outs[0]);
    has_sum |= s->joined == 1 && tile_nest_is_row_sum(t, s);
    if (is_kept || s->node->kind != TIR_MAP ||
        !(is_number || tile_nest_is_map(s) || tile_nest_is_row_sum(t, s))) {
      return 1;
    }
  }
  return has_sum && read.bytes <= CACHE / ROWS ? ROWS : 1;
}
