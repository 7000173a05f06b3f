/* nest_ahead.c: the next row of what is read by rows, a part in each pass
 * over this one: while a group computes with a row in a cache, memory has
 * nothing else to do.  A pass asks for as much as its share of the work, so
 * that memory is asked evenly. */
#include "passes/tile/nest.h"

#include "ir/expr.h"
#include "runtime/base/num.h"

int64_t tile_nest_wide(const tile_t *t, tile_range_t r) {
  int64_t lanes = 4 * (int64_t)t->target->lanes;
  bool is_wide = t->target->warp == 0 && lanes > TILE_LANES &&
                 r.lo->op == KIR_X_CONST && r.hi->op == KIR_X_CONST &&
                 r.lo->u.i64 % lanes == 0 && r.hi->u.i64 % lanes == 0;
  return is_wide ? lanes : 0;
}

/* Of what depends on the place in the row; the rest is computed once. */
typedef struct work {
  td_map_t moves; /* expressions that do */
  const tir_index_t *along;
  int64_t amount;
} work_t;

static bool does_move(const work_t *w, const tir_expr_t *e) {
  if (e->op == TIR_X_INDEX) return e->u.index == w->along;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (td_map_get_u64(&w->moves, (uint64_t)(uintptr_t)e->args[i]) != NULL) {
      return true;
    }
  }
  return false;
}

/* A function or a quotient is worth many additions. */
static void note_work(void *user, tir_expr_t *e) {
  enum { FUNCTION = 8, QUOTIENT = 4 };
  work_t *w = user;
  if (!does_move(w, e)) return;
  (void)td_map_put_u64(&w->moves, (uint64_t)(uintptr_t)e, e);
  switch ((int)e->op) {
    case TIR_X_INDEX: case TIR_X_LOAD: return;
    case TIR_X_EXP: case TIR_X_EXP2: case TIR_X_LOG: case TIR_X_LOG2:
    case TIR_X_SIN: case TIR_X_COS: case TIR_X_TANH: case TIR_X_ERF:
    case TIR_X_POW: w->amount += FUNCTION; return;
    case TIR_X_DIV: w->amount += QUOTIENT; return;
    default: w->amount += 1; return;
  }
}

/* Of `parts`, rounded. */
static int64_t share(int64_t work, int64_t all, int64_t parts) {
  if (work > all) work = all;
  return (2 * parts * work + all) / (2 * all);
}

int64_t tile_nest_work(tile_t *t, const nest_t *s) {
  work_t work = {.along = s->node->indices[s->prefix], .amount = 1};
  td_map_init(&work.moves, t->arena);
  tir_walk(t->arena, s->node->body, note_work, &work);
  return work.amount;
}

void tile_nest_share_work(tile_t *t, nest_t *states, uint32_t count,
                          bool carries) {
  enum { QUARTERS = 4, LEAD = 2048, ROW_WORK = 12 };
  int64_t all = 0;
  nest_t *last = states;
  if (t->target->warp != 0 || count < 2) return;
  for (uint32_t k = carries ? states[0].joined : 0; k < count; k++) {
    nest_t *s = &states[k];
    if (s->node->index_count != s->prefix + 1) continue;
    nest_t *first = s;
    while (first->joined == 0) first--;
    if (first == s) s->work_before = all;
    int64_t amount = tile_nest_work(t, s);
    first->work += amount;
    all += amount;
  }
  /* the last pass, which stores, asks for what the others have no time for */
  if (carries && all > ROW_WORK) {
    for (uint32_t k = 0; k < count; k++) {
      if (states[k].work > 0) last = &states[k];
    }
    all = last->work_before < ROW_WORK ? ROW_WORK : last->work_before;
    last->work = all - last->work_before;
  }
  /* in quarters of a row: a step then asks for whole lines, each once */
  for (uint32_t k = 0; k < count; k++) {
    nest_t *s = &states[k];
    if (s->work == 0) continue;
    int64_t from = share(s->work_before, all, QUARTERS);
    s->work = share(s->work_before + s->work, all, QUARTERS) - from;
    s->work_before = from;
    s->all_work = QUARTERS;
    s->lead = carries ? LEAD : 0;
  }
}

void tile_nest_ahead(tile_t *t, const nest_t *s, kir_block_t *block,
                     kir_expr_t *base, int64_t lanes, int64_t rows) {
  enum { LINE = 64, LARGE_ROWS = 4 << 20 };
  const tir_node_t *n = s->node;
  int64_t width = 0;
  if (s->work == 0 || s->prefix == 0 || n->index_count != s->prefix + 1 ||
      !ix_is_const(n->indices[s->prefix]->extent, &width) ||
      width > INT32_MAX) {
    return;
  }
  kir_expr_t *first = base;
  if (s->work < s->all_work) {
    first = kir_add(t->arena, tile_int(t, s->work_before * width),
                    kir_mul(t->arena, base, tile_int(t, s->work)));
    first = tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, first,
                     tile_int(t, s->all_work));
  }
  first = kir_add(t->arena, first, tile_int(t, s->lead));
  for (size_t i = 0; i < t->params.length; i++) {
    kir_buffer_t *b = t->params.data[i];
    int64_t bytes = (int64_t)td_dtype_bytes(b->dtype), size;
    int64_t line = LINE / bytes;
    bool is_rows = b->is_read && !b->is_written && b->rank == n->index_count;
    for (uint32_t d = 0; d < b->rank && is_rows; d++) {
      is_rows = b->dims[d] == n->indices[d]->extent &&
                ix_is_const(b->dims[d], &size) &&
                !__builtin_mul_overflow(bytes, size, &bytes);
    }
    if (!is_rows || bytes < LARGE_ROWS) continue;
    for (int64_t l = 0; l * s->all_work < lanes * s->work; l += line) {
      kir_stmt_t *ask = TD_NEW(t->arena, kir_stmt_t);
      ask->kind = KIR_PREFETCH;
      ask->buffer = b;
      ask->sub_count = b->rank;
      ask->subs = TD_NEW_ARRAY(t->arena, kir_expr_t *, b->rank);
      for (uint32_t d = 0; d < s->prefix; d++) ask->subs[d] = s->subs[d];
      ask->subs[s->prefix - 1] =
          kir_add(t->arena, s->subs[s->prefix - 1], tile_int(t, rows));
      ask->subs[s->prefix] = kir_add(t->arena, first, tile_int(t, l));
      tile_push(t, block, ask);
    }
  }
}
