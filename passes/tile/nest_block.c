/* nest_block.c: long rows of a group on a GPU, each by a block of warps.
 *
 * What several nodes read of a row from outside, and what the group makes and
 * reads again, is in shared memory: a row comes from memory once and goes
 * there once.  A map takes the place of a row that it is the last to read,
 * element by element.  All warps bring rows and make maps and what has no
 * order, as maxima; a sum that keeps TIR_LANES partial sums is one half warp's,
 * out of shared memory, in the order that its plan has anywhere; sums that do
 * not wait for each other have warps of their own.  Numbers of a row are known
 * to all threads by name, and go to memory when the row is done with.
 *
 * Nodes that do not wait for each other share a phase; a barrier ends it.
 * Class: bitwise.  Ledgers: bytes read from memory. */
#include "passes/tile/nest.h"

#include "ir/expr.h"
#include "passes/tile/stage_rows.h"
#include "passes/tile/tile_wide.h"
#include "runtime/base/num.h"

enum {
  WARP = 32,
  LONG_ROW = 1024,     /* elements: shorter ones are a half warp's */
  ROW_OF_WARP = 512,   /* elements that are worth a warp */
  MOST_WARPS = 8,      /* of a block; twice that if few blocks fit */
  TERMS = 8,           /* of a sum, asked for together */
};

typedef enum part {
  PART_NUMBER, /* one element a row */
  PART_MAP,    /* a row */
  PART_SUM,    /* a row to a number, in a half warp */
  PART_CHOICE, /* the same in any order */
} part_t;

typedef struct long_row {
  const tir_value_t *value;
  const tir_index_t *index; /* of its maker; NULL: it comes from outside */
  uint32_t last_reader;     /* node */
  bool is_read_elsewhere;   /* at another element than the reader's own */
  int64_t elements;         /* most */
  kir_buffer_t *home;       /* SHARED */
} long_row_t;

typedef struct rows {
  tile_t *t;
  nest_t *states;
  uint32_t prefix;
  part_t *parts;            /* by node */
  kir_buffer_t **results;   /* by node: SHARED, of a sum or of each warp */
  kir_expr_t **numbers;     /* by node: its value, once it is known */
  TD_VEC(long_row_t) kept;
  int64_t elements, bytes;  /* the longest row; all that is kept */
  int64_t warps;
  /* of the present phase: the first node, sums so far */
  uint32_t begin, sums;
  const long_row_t *seen;   /* while uses are looked for */
  uint32_t reader;
  bool waits;
} rows_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- whether ------------------------------------------------------------- */

static bool has_order(const tir_node_t *n) {
  bool is_float = n->body->type == TDSL_DTYPE_F32 ||
                  n->body->type == TDSL_DTYPE_F64;
  bool is_sum =
      n->reduce == TIR_REDUCE_SUM || n->reduce == TIR_REDUCE_PROD;
  return is_float && is_sum;
}

static bool find_part(rows_t *s, uint32_t k) {
  const nest_t *state = &s->states[k];
  const tir_node_t *n = state->node;
  tdsl_dtype_t type = n->body->type;
  bool has_row = n->index_count == s->prefix + 1;
  if (n->kind != TIR_MAP || n->out_count != 1 || type == TDSL_DTYPE_BOOL) {
    return false;
  }
  if (n->reduce == TIR_REDUCE_NONE) {
    s->parts[k] = has_row ? PART_MAP : PART_NUMBER;
    return n->guard == NULL && (has_row || n->index_count == s->prefix) &&
           (has_row || type == n->outs[0]->dtype);
  }
  s->parts[k] = has_order(n) ? PART_SUM : PART_CHOICE;
  bool is_known = n->reduce == TIR_REDUCE_SUM ||
                  n->reduce == TIR_REDUCE_PROD ||
                  n->reduce == TIR_REDUCE_MAX || n->reduce == TIR_REDUCE_MIN;
  return is_known && has_row && state->par == s->prefix &&
         type == n->outs[0]->dtype && tile_nest_is_by_row(s->t, state);
}

static void note_use(void *user, tir_expr_t *e) {
  rows_t *s = user;
  if (e->op != TIR_X_LOAD) return;
  for (size_t i = 0; i < s->kept.length; i++) {
    long_row_t *row = &s->kept.data[i];
    if (row->value != e->u.value) continue;
    const tir_node_t *n = s->states[s->reader].node;
    const tir_expr_t *at = e->args[s->prefix];
    row->last_reader = s->reader;
    row->is_read_elsewhere |= n->index_count == s->prefix ||
                              at->op != TIR_X_INDEX ||
                              at->u.index != n->indices[s->prefix];
  }
}

static bool keep(rows_t *s, const tir_value_t *v, const tir_index_t *index) {
  int64_t lo, hi, bytes = tile_stage_bytes(v, s->prefix);
  if (v->rank != s->prefix + 1 || v->dtype == TDSL_DTYPE_BOOL ||
      bytes > (int64_t)s->t->target->shared_most ||
      !ix_interval(v->dims[s->prefix], &lo, &hi)) {
    return false;
  }
  long_row_t row = {.value = v, .index = index, .elements = hi};
  if (hi > s->elements) s->elements = hi;
  td_vec_push(s->t->arena, &s->kept, row);
  return true;
}

static bool find_kept(rows_t *s) {
  tile_t *t = s->t;
  tile_rows_t outside = {0};
  tile_stage_find(t, s->prefix, &outside);
  for (size_t i = 0; i < outside.length; i++) {
    const tile_row_t *row = &outside.data[i];
    if (row->is_refused || row->readers < 2) continue;
    if (!keep(s, row->value, NULL)) return false;
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (s->parts[k] != PART_MAP ||
        td_map_get_u64(&t->homes, key_of(n->outs[0])) == NULL) {
      continue;
    }
    if (!keep(s, n->outs[0], n->indices[s->prefix])) return false;
  }
  for (s->reader = 0; s->reader < t->node_count; s->reader++) {
    tir_node_t *n = t->nodes[s->reader];
    for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
      tir_walk(t->arena, *tir_node_expr(n, i), note_use, s);
    }
  }
  return s->kept.length > 0;
}

/* The row whose place the output of node k takes. */
static long_row_t *place_before(rows_t *s, const long_row_t *row,
                                uint32_t k) {
  for (size_t i = 0; i < s->kept.length && row->index != NULL; i++) {
    long_row_t *was = &s->kept.data[i];
    if (was != row && was->last_reader == k && !was->is_read_elsewhere &&
        was->value->dtype == row->value->dtype &&
        was->value->dims[s->prefix] == row->value->dims[s->prefix]) {
      return was;
    }
  }
  return NULL;
}

static uint32_t maker_of(const rows_t *s, const long_row_t *row) {
  uint32_t k = 0;
  while (k < s->t->node_count && s->t->nodes[k]->outs[0] != row->value) k++;
  return k;
}

static bool find_bytes(rows_t *s) {
  for (size_t i = 0; i < s->kept.length; i++) {
    const long_row_t *row = &s->kept.data[i];
    if (place_before(s, row, maker_of(s, row)) != NULL) continue;
    s->bytes += (row->elements * (int64_t)td_dtype_bytes(row->value->dtype) +
                 15) / 16 * 16;
  }
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    if (s->parts[k] == PART_SUM) s->bytes += 16;
    if (s->parts[k] == PART_CHOICE) s->bytes += 8 * 2 * MOST_WARPS;
  }
  return s->bytes <= (int64_t)s->t->target->shared_most;
}

/* ---- pieces -------------------------------------------------------------- */

static kir_expr_t *add(rows_t *s, kir_expr_t *a, kir_expr_t *b) {
  return kir_add(s->t->arena, a, b);
}

static kir_expr_t *times(rows_t *s, kir_expr_t *a, int64_t n) {
  return kir_mul(s->t->arena, a, tile_int(s->t, n));
}

static kir_block_t *warps(rows_t *s, kir_block_t *block, int64_t from,
                          int64_t to, kir_expr_t **w) {
  return tile_loop(s->t, block, KIR_LOOP_WARP, "w", tile_int(s->t, from),
                   tile_int(s->t, to), 1, w);
}

/* All threads over 0 .. end - 1; *at is the place of each. */
static kir_block_t *spread(rows_t *s, kir_block_t *block, const char *name,
                           kir_expr_t *w, const ix_poly_t *end,
                           kir_expr_t **at, kir_expr_t **lane) {
  tile_t *t = s->t;
  int64_t threads = s->warps * WARP;
  kir_expr_t *base, *hi = tile_dim(t, end);
  block = tile_loop(t, block, KIR_LOOP_SERIAL, name, tile_int(t, 0), hi,
                    threads, &base);
  kir_block_t *body = tile_lanes_of(t, block, WARP, lane);
  *at = add(s, add(s, base, times(s, w, WARP)), *lane);
  if (!tile_is_multiple(end, threads)) {
    td_vec_last(block)->mask = tile_less(t, *at, hi);
  }
  return body;
}

static void barrier(rows_t *s, kir_block_t *block) {
  kir_stmt_t *stmt = TD_NEW(s->t->arena, kir_stmt_t);
  stmt->kind = KIR_BARRIER;
  tile_push(s->t, block, stmt);
}

static void bring(rows_t *s, kir_block_t *block, const long_row_t *row) {
  tile_t *t = s->t;
  const tir_value_t *v = row->value;
  const ix_poly_t *extent = v->dims[s->prefix];
  kir_expr_t *w, *at, *lane, *subs[IX_MAX_RANK];
  kir_buffer_t *from = tile_param(t, v, true, false);
  int64_t n = 16 / (int64_t)td_dtype_bytes(v->dtype);
  if (!tile_wide_fits(v, n)) n = 1;
  const ix_poly_t *groups =
      ix_div(t->module->pool, extent, ix_const(t->module->pool, n), NULL);
  block = warps(s, block, 0, s->warps, &w);
  block = spread(s, block, "c", w, groups, &at, &lane);
  at = times(s, at, n);
  for (uint32_t d = 0; d < s->prefix; d++) subs[d] = s->states[0].subs[d];
  subs[s->prefix] = at;
  kir_expr_t *load = kir_load(t->arena, from, v->rank, subs);
  if (n > 1) {
    tile_push(t, block,
              kir_copy_stmt(t->kernel, n, row->home, 1, &at, load));
  } else {
    tile_store(t, block, row->home, 1, &at, load);
  }
}

/* ---- nodes --------------------------------------------------------------- */

static void make_map(rows_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  nest_t *state = &s->states[k];
  const tir_node_t *n = state->node;
  kir_expr_t *w, *at, *lane;
  block = warps(s, block, 0, s->warps, &w);
  block = spread(s, block, n->indices[s->prefix]->name, w,
                 n->indices[s->prefix]->extent, &at, &lane);
  tile_nest_set(t, state, s->prefix, at);
  tile_store_value(t, block, n->outs[0], state->par, state->subs,
                   tile_expr(t, n->body));
}

static kir_expr_t *fold_of(rows_t *s, const nest_t *state) {
  const tir_node_t *n = state->node;
  kir_expr_t *fold = kir_op(s->t->arena, KIR_X_FOLD, n->body->type, 0, NULL);
  fold->u.buffer = state->acc;
  fold->fold = tile_fold_op(n->reduce);
  return fold;
}

static void add_terms(rows_t *s, nest_t *state, kir_block_t *block,
                      kir_expr_t *base, kir_expr_t *limit) {
  tile_t *t = s->t;
  kir_expr_t *index;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &index);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_set_index(t, state->node->indices[s->prefix], index);
  tile_nest_add(t, state, body, &lane, 1);
}

/* Element i is the term of lane i % TIR_LANES, wherever a sum is made. */
static void make_sum(rows_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  nest_t *state = &s->states[k];
  const tir_index_t *last = state->node->indices[s->prefix];
  int64_t mine = s->sums++ % s->warps, step = TERMS * TILE_LANES;
  kir_expr_t *w, *u, *base, *zero = tile_int(t, 0);
  kir_expr_t *hi = tile_dim(t, last->extent), *whole = tile_whole_part(t, hi);
  kir_expr_t *steps = zero;
  block = warps(s, block, mine, mine + 1, &w);
  state->lanes = TILE_LANES;
  tile_nest_begin(t, state, block);
  if (hi->op == KIR_X_CONST) {
    steps = tile_int(t, hi->u.i64 / step * step);
  } else {
    steps = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, hi,
                     tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, hi,
                              tile_int(t, step)));
  }
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, last->name, zero,
                                steps, step, &base);
  body = tile_loop(t, body, KIR_LOOP_UNROLL, "u", zero, tile_int(t, step),
                   TILE_LANES, &u);
  add_terms(s, state, body, add(s, base, u), NULL);
  if (!tile_is_multiple(last->extent, step)) {
    body = tile_loop(t, block, KIR_LOOP_SERIAL, last->name, steps, whole,
                     TILE_LANES, &base);
    add_terms(s, state, body, base, NULL);
  }
  if (!tile_is_multiple(last->extent, TILE_LANES)) {
    body = &tile_push(t, block, tile_if(t, tile_less(t, whole, hi)))->body;
    add_terms(s, state, body, whole, hi);
  }
  tile_store(t, block, s->results[k], 1, &zero, fold_of(s, state));
}

static void make_choice(rows_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  nest_t *state = &s->states[k];
  const tir_index_t *last = state->node->indices[s->prefix];
  kir_expr_t *w, *at, *lane;
  block = warps(s, block, 0, s->warps, &w);
  state->lanes = WARP;
  tile_nest_begin(t, state, block);
  kir_block_t *body = spread(s, block, last->name, w, last->extent, &at,
                             &lane);
  tile_set_index(t, last, at);
  tile_nest_add(t, state, body, &lane, 1);
  tile_store(t, block, s->results[k], 1, &w, fold_of(s, state));
}

/* A number by its name. */
static void make_known(rows_t *s, uint32_t k, kir_block_t *block,
                       kir_expr_t *v) {
  const tir_value_t *out = s->states[k].node->outs[0];
  s->numbers[k] = tile_let(s->t, block, out->name, v);
  tile_set_element(s->t, out, s->numbers[k]);
}

/* ---- phases -------------------------------------------------------------- */

/* The nodes of the phase have ended for all. */
static void end_phase(rows_t *s, uint32_t end, kir_block_t *block) {
  tile_t *t = s->t;
  barrier(s, block);
  for (uint32_t k = s->begin; k < end; k++) {
    const tir_node_t *n = s->states[k].node;
    if (s->parts[k] != PART_SUM && s->parts[k] != PART_CHOICE) continue;
    kir_expr_t *at = tile_int(t, 0);
    kir_expr_t *v = kir_load(t->arena, s->results[k], 1, &at);
    for (int64_t w = 1; s->parts[k] == PART_CHOICE && w < s->warps; w++) {
      at = tile_int(t, w);
      v = tile_op2(t, tile_fold_op(n->reduce), n->body->type, v,
                   kir_load(t->arena, s->results[k], 1, &at));
    }
    make_known(s, k, block, v);
  }
  s->begin = end;
  s->sums = 0;
}

/* A thread may read what it made itself, at its own element. */
static void note_wait(void *user, tir_expr_t *e) {
  rows_t *s = user;
  const tir_node_t *n = s->states[s->reader].node;
  if (e->op != TIR_X_LOAD) return;
  for (uint32_t k = s->begin; k < s->reader; k++) {
    if (s->states[k].node->outs[0] != e->u.value) continue;
    bool is_own = s->parts[k] == PART_MAP && s->parts[s->reader] == PART_MAP &&
                  e->args[s->prefix]->op == TIR_X_INDEX &&
                  e->args[s->prefix]->u.index == n->indices[s->prefix];
    s->waits |= s->parts[k] != PART_NUMBER && !is_own;
  }
}

/* Maps may be stored where something that others read was before. */
static bool has_to_wait(rows_t *s, uint32_t k) {
  tir_node_t *n = s->states[k].node;
  s->reader = k;
  s->waits = false;
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_walk(s->t->arena, *tir_node_expr(n, i), note_wait, s);
  }
  for (uint32_t i = s->begin; i < k && s->parts[k] == PART_MAP; i++) {
    s->waits |= s->parts[i] == PART_SUM || s->parts[i] == PART_CHOICE;
  }
  return s->waits;
}

static void make_nodes(rows_t *s, kir_block_t *block) {
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    if (k > s->begin && has_to_wait(s, k)) end_phase(s, k, block);
    switch (s->parts[k]) {
      case PART_NUMBER:
        make_known(s, k, block, tile_expr(s->t, s->states[k].node->body));
        break;
      case PART_MAP: make_map(s, k, block); break;
      case PART_SUM: make_sum(s, k, block); break;
      case PART_CHOICE: make_choice(s, k, block); break;
    }
  }
}

/* Where they go may be what they were made of: all have read that before. */
static void store_numbers(rows_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  kir_expr_t *w;
  kir_block_t *body = NULL;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_value_t *v = s->states[k].node->outs[0];
    bool is_here = td_map_get_u64(&t->homes, key_of(v)) != NULL;
    if (s->parts[k] == PART_MAP || (is_here && !tile_escapes(t, v))) continue;
    if (body == NULL) {
      end_phase(s, t->node_count, block);
      body = warps(s, block, 0, 1, &w);
    }
    kir_buffer_t *to =
        is_here ? tile_output(t, v) : tile_param(t, v, false, true);
    tile_store(t, body, to, s->prefix, s->states[k].subs, s->numbers[k]);
  }
}

/* ---- the kernel ---------------------------------------------------------- */

static void describe(rows_t *s) {
  tile_t *t = s->t;
  const char *names = "";
  tile_note(t, "rows: %s", tile_describe(t));
  for (size_t i = 0; i < s->kept.length; i++) {
    if (s->kept.data[i].index != NULL) continue;
    names = td_arena_printf(t->arena, "%s%s%s", names,
                            names[0] == '\0' ? "" : ", ",
                            s->kept.data[i].value->name);
  }
  tile_note(t, "a block of %lld warps makes a row in shared memory, %lld B of "
               "it", (long long)s->warps, (long long)s->bytes);
  if (names[0] != '\0') tile_note(t, "rows that are read once: %s", names);
}

static void alloc(rows_t *s, kir_block_t *block) {
  tile_t *t = s->t;
  ix_pool_t *pool = t->module->pool;
  for (size_t i = 0; i < s->kept.length; i++) {
    long_row_t *row = &s->kept.data[i];
    const long_row_t *was = place_before(s, row, maker_of(s, row));
    const ix_poly_t *dims[1] = {ix_const(pool, row->elements)};
    row->home = was != NULL ? was->home
                            : tile_alloc(t, block, row->value->name,
                                         row->value->dtype, KIR_SHARED, 1,
                                         dims);
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    bool is_sum = s->parts[k] == PART_SUM;
    const tir_node_t *n = t->nodes[k];
    if (!is_sum && s->parts[k] != PART_CHOICE) continue;
    const ix_poly_t *dims[1] = {ix_const(pool, is_sum ? 1 : s->warps)};
    s->results[k] = tile_alloc(t, block, n->outs[0]->name, n->body->type,
                               KIR_SHARED, 1, dims);
  }
}

static void choose_warps(rows_t *s) {
  int64_t n = s->elements / ROW_OF_WARP;
  bool is_lonely = s->bytes > (int64_t)s->t->target->sm_shared / 3;
  s->warps = 2;
  while (s->warps < MOST_WARPS && s->warps * 2 <= n) s->warps *= 2;
  if (is_lonely) s->warps *= 2;
}

bool tile_lower_long_rows(tile_t *t, nest_t *states, uint32_t prefix) {
  rows_t s = {.t = t, .states = states, .prefix = prefix};
  if (t->target->warp != WARP || t->node_count < 2 || prefix == 0) {
    return false;
  }
  s.parts = TD_NEW_ARRAY(t->arena, part_t, t->node_count);
  s.results = TD_NEW_ARRAY(t->arena, kir_buffer_t *, t->node_count);
  s.numbers = TD_NEW_ARRAY(t->arena, kir_expr_t *, t->node_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (!find_part(&s, k)) return false;
  }
  if (!find_kept(&s) || s.elements < LONG_ROW || !find_bytes(&s)) return false;
  choose_warps(&s);
  describe(&s);
  kir_block_t *block = &t->kernel->body;
  for (uint32_t i = 0; i < prefix; i++) {
    const tir_index_t *index = t->nodes[0]->indices[i];
    kir_expr_t *v;
    block = tile_loop(t, block, KIR_LOOP_BLOCK, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent), 1, &v);
    for (uint32_t k = 0; k < t->node_count; k++) {
      tile_nest_set(t, &states[k], i, v);
    }
  }
  alloc(&s, block);
  bool is_brought = false;
  for (size_t i = 0; i < s.kept.length; i++) {
    if (s.kept.data[i].index != NULL) continue;
    bring(&s, block, &s.kept.data[i]);
    is_brought = true;
  }
  for (size_t i = 0; i < s.kept.length; i++) {
    tile_set_home(t, s.kept.data[i].value, s.kept.data[i].home, prefix);
  }
  if (is_brought) barrier(&s, block);
  make_nodes(&s, block);
  store_numbers(&s, block);
  return true;
}
