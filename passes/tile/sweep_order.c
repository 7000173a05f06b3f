/* sweep_order.c: states that say where something is: the place of a maximum,
 * and the k largest with theirs.
 *
 * A place goes with a maximum over the same body, its partner: it changes
 * only where that moved, so a tile is looked through a second time only then.
 * The k largest are kept in the order of `topk`; a tile is looked at 16
 * elements at a time, and one by one where the largest of these belongs among
 * the k.  Parts come in index order, so that of equals the first stays. */
#include "passes/tile/sweep.h"

#include "ir/expr.h"

static const int64_t NONE = INT64_MAX; /* place of what has seen nothing */

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static kir_expr_t *either(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_OR, TDSL_DTYPE_BOOL, a, b);
}

static kir_expr_t *both(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_AND, TDSL_DTYPE_BOOL, a, b);
}

static kir_expr_t *negate(tile_t *t, kir_expr_t *a) {
  return kir_op(t->arena, KIR_X_NOT, TDSL_DTYPE_BOOL, 1, &a);
}

static kir_expr_t *equal(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, a, b);
}

/* ---- partners ------------------------------------------------------------ */

/* The maximum whose `was` the transport of a place reads. */
typedef struct partner {
  const sweep_t *s;
  uint32_t at;
} partner_t;

static void note_partner(void *user, tir_expr_t *e) {
  partner_t *p = user;
  const tile_t *t = p->s->t;
  for (uint32_t i = 0; e->op == TIR_X_LOAD && i < t->node_count; i++) {
    const tir_node_t *m = t->nodes[i];
    if (sweep_is_gauge(m) && m->was == e->u.value) p->at = i;
  }
}

static void find_partner(sweep_t *s, uint32_t k) {
  const tir_node_t *n = s->t->nodes[k];
  partner_t p = {s, UINT32_MAX};
  if (n->transport != NULL) {
    tir_walk(s->t->arena, n->transport, note_partner, &p);
  }
  TD_CHECK(s->t->task, p.at != UINT32_MAX, "the place %s has no maximum",
           n->outs[0]->name);
  s->partners[k] = p.at;
}

void tile_sweep_open_orders(sweep_t *s) {
  tile_t *t = s->t;
  s->partners = TD_NEW_ARRAY(t->arena, uint32_t, t->node_count);
  s->tops = TD_NEW_ARRAY(t->arena, sweep_top_t *, t->node_count);
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_node_t *n = t->nodes[k];
    if (sweep_is_position(n)) find_partner(s, k);
    if (!sweep_is_top(n)) continue;
    const tir_value_t *from = n->operands[0];
    tir_expr_t *subs[IX_MAX_RANK];
    TD_CHECK(t->task, from->rank == s->rows + 1 && n->k <= TIR_MAX_TOP,
             "%s is not of a row", n->outs[0]->name);
    sweep_top_t *top = s->tops[k] = TD_NEW(t->arena, sweep_top_t);
    for (uint32_t i = 0; i <= s->rows; i++) {
      top->indices[i] = tir_index_create(
          (tir_module_t *)key_of(t->module), "i", from->dims[i], false);
      subs[i] = tir_index_ref(t->arena, top->indices[i]);
    }
    top->load = tir_load(t->arena, from, from->rank, subs);
    /* one element of what the splits left, by its place */
    const tir_node_t *def = from->def;
    if (n->is_merge && def != NULL && def->kind == TIR_MAP) {
      top->load = tir_replace_indices(t->arena, def->body, def->index_count,
                                      def->indices, subs);
    }
    top->type = top->load->type;
  }
}

/* ---- places -------------------------------------------------------------- */

typedef struct placing {
  sweep_t *s;
  uint32_t k;
  kir_expr_t *best;
  kir_buffer_t *at; /* one a lane */
} placing_t;

static void place_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                        kir_expr_t *limit, void *user) {
  placing_t *p = user;
  const tir_node_t *n = t->nodes[p->k];
  kir_expr_t *index;
  kir_block_t *body = tile_lanes_at(t, block, base, limit, &index);
  kir_expr_t *lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  tile_set_index(t, n->indices[n->index_count - 1], index);
  if (n->guard != NULL) {
    body = &tile_push(t, body, tile_if(t, tile_expr(t, n->guard)))->body;
  }
  kir_expr_t *v = tile_expr(t, n->body);
  kir_expr_t *is_hit =
      either(t, equal(t, v, p->best),
             both(t, negate(t, equal(t, v, v)),
                  negate(t, equal(t, p->best, p->best))));
  kir_expr_t *args[3] = {is_hit, index, tile_int(t, NONE)};
  tile_store(t, body, p->at, 1, &lane,
             tile_min(t, kir_load(t->arena, p->at, 1, &lane),
                      kir_op(t->arena, KIR_X_SELECT, TDSL_DTYPE_I64, 3,
                             args)));
}

/* What stood first is no longer the largest, or there was nothing. */
static kir_expr_t *has_changed(tile_t *t, kir_expr_t *was, kir_expr_t *now,
                               kir_expr_t *place) {
  kir_expr_t *is_number = equal(t, was, was);
  return either(t, equal(t, place, tile_int(t, NONE)),
                both(t, is_number, negate(t, equal(t, was, now))));
}

static void add_position(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  const tir_node_t *m = t->nodes[s->partners[k]];
  kir_expr_t *was = td_map_get_u64(&t->elements, key_of(m->was));
  kir_expr_t *lane;
  placing_t p = {.s = s, .k = k};
  TD_CHECK(t->task, was != NULL, "%s comes before its maximum",
           n->outs[0]->name);
  p.best = tile_let(t, block, "best",
                    kir_load(t->arena, s->states[s->partners[k]], 1, &s->r));
  kir_expr_t *place = kir_load(t->arena, s->states[k], 1, &s->r);
  block = &tile_push(t, block, tile_if(t, has_changed(t, was, p.best, place)))
               ->body;
  p.at = tile_sweep_registers(t, block, TDSL_DTYPE_I64, TILE_LANES);
  kir_block_t *body = tile_lanes(t, block, NULL, &lane);
  tile_store(t, body, p.at, 1, &lane, tile_int(t, NONE));
  tile_chunks(t, block, "i", (tile_range_t){s->begin, s->end}, place_chunk,
              &p);
  kir_expr_t *fold = kir_op(t->arena, KIR_X_FOLD, TDSL_DTYPE_I64, 0, NULL);
  fold->u.buffer = p.at;
  fold->fold = KIR_X_MIN;
  tile_store(t, block, s->states[k], 1, &s->r, fold);
}

static void finish_position(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  kir_expr_t *place = kir_load(t->arena, s->states[k], 1, &s->r);
  kir_expr_t *args[3] = {equal(t, place, tile_int(t, NONE)), tile_int(t, 0),
                         place};
  tile_store_value(t, block, t->nodes[k]->outs[0], s->rows, s->values,
                   kir_op(t->arena, KIR_X_SELECT, TDSL_DTYPE_I64, 3, args));
}

/* ---- the k largest ------------------------------------------------------- */

/* A row's k pairs while a tile or a part is put among them. */
typedef struct ranking {
  tile_t *t;
  const sweep_top_t *top;
  int64_t k;
  kir_buffer_t *values[TIR_MAX_TOP], *places[TIR_MAX_TOP]; /* of one number */
  kir_buffer_t *value, *place; /* what goes down */
  kir_expr_t *end; /* of a chunk */
} ranking_t;

static kir_expr_t *get(tile_t *t, kir_buffer_t *b) {
  return kir_load(t->arena, b, 0, NULL);
}

static kir_buffer_t *cell(tile_t *t, kir_block_t *block, const char *name,
                          tdsl_dtype_t type) {
  return tile_alloc(t, block, name, type, KIR_REGISTER, 0, NULL);
}

static void open_ranking(ranking_t *r, sweep_t *s, uint32_t k,
                         const sweep_pairs_t *from, kir_block_t *block) {
  tile_t *t = s->t;
  *r = (ranking_t){.t = t, .top = s->tops[k], .k = t->nodes[k]->k};
  r->value = cell(t, block, "v", r->top->type);
  r->place = cell(t, block, "at", TDSL_DTYPE_I64);
  for (int64_t i = 0; i < r->k; i++) {
    kir_expr_t *at[2] = {s->r, tile_int(t, i)};
    r->values[i] = cell(t, block, "top", r->top->type);
    r->places[i] = cell(t, block, "top_at", TDSL_DTYPE_I64);
    tile_store(t, block, r->values[i], 0, NULL,
               kir_load(t->arena, from->values, 2, at));
    tile_store(t, block, r->places[i], 0, NULL,
               kir_load(t->arena, from->places, 2, at));
  }
}

static void close_ranking(const ranking_t *r, sweep_t *s,
                          const sweep_pairs_t *to, kir_block_t *block) {
  for (int64_t i = 0; i < r->k; i++) {
    kir_expr_t *at[2] = {s->r, tile_int(r->t, i)};
    tile_store(r->t, block, to->values, 2, at, get(r->t, r->values[i]));
    tile_store(r->t, block, to->places, 2, at, get(r->t, r->places[i]));
  }
}

/* r->value goes down until it meets what stands behind it, and that goes on. */
static void insert(const ranking_t *r, kir_block_t *block) {
  tile_t *t = r->t;
  kir_expr_t *none = tile_int(t, NONE);
  for (int64_t i = 0; i < r->k; i++) {
    kir_expr_t *w = tile_let(t, block, "w", get(t, r->values[i]));
    kir_expr_t *j = tile_let(t, block, "j", get(t, r->places[i]));
    kir_expr_t *v = get(t, r->value), *at = get(t, r->place);
    kir_expr_t *wins = either(t, equal(t, j, none),
                              tile_topk_before(t, v, at, w, j));
    wins = both(t, negate(t, equal(t, at, none)), wins);
    kir_block_t *body = &tile_push(t, block, tile_if(t, wins))->body;
    tile_store(t, body, r->values[i], 0, NULL, v);
    tile_store(t, body, r->places[i], 0, NULL, at);
    tile_store(t, body, r->value, 0, NULL, w);
    tile_store(t, body, r->place, 0, NULL, j);
  }
}

static void set_axis(const ranking_t *r, const sweep_t *s, kir_expr_t *at) {
  tile_set_index(r->t, r->top->indices[s->rows], at);
}

typedef struct ranked_chunk {
  ranking_t *r;
  sweep_t *s;
} ranked_chunk_t;

static void rank_chunk(tile_t *t, kir_block_t *block, kir_expr_t *base,
                       kir_expr_t *limit, void *user) {
  ranked_chunk_t *c = user;
  ranking_t *r = c->r;
  kir_expr_t *lane, *index, *u;
  kir_buffer_t *acc =
      tile_sweep_registers(t, block, r->top->type, TILE_LANES);
  kir_block_t *body = tile_lanes(t, block, NULL, &lane);
  tile_store(t, body, acc, 1, &lane,
             tile_identity(t, TIR_REDUCE_MAX, r->top->type));
  body = tile_lanes_at(t, block, base, limit, &index);
  lane = kir_var_ref(t->arena, td_vec_last(block)->var);
  set_axis(r, c->s, index);
  tile_store(t, body, acc, 1, &lane, tile_expr(t, r->top->load));
  kir_expr_t *fold = kir_op(t->arena, KIR_X_FOLD, r->top->type, 0, NULL);
  fold->u.buffer = acc;
  fold->fold = KIR_X_MAX;
  kir_expr_t *best = tile_let(t, block, "best", fold);
  kir_expr_t *last = get(t, r->values[r->k - 1]);
  kir_expr_t *is_below = tile_op2(t, KIR_X_LE, TDSL_DTYPE_BOOL, best, last);
  kir_expr_t *may = either(t, negate(t, is_below),
                           equal(t, get(t, r->places[r->k - 1]),
                                 tile_int(t, NONE)));
  kir_expr_t *end = limit != NULL ? limit
                                  : kir_add(t->arena, base,
                                            tile_int(t, TILE_LANES));
  block = &tile_push(t, block, tile_if(t, may))->body;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "i", base, end, 1, &u);
  set_axis(r, c->s, u);
  tile_store(t, block, r->value, 0, NULL, tile_expr(t, r->top->load));
  tile_store(t, block, r->place, 0, NULL, u);
  insert(r, block);
}

static void set_rows(const sweep_t *s, const sweep_top_t *top) {
  for (uint32_t i = 0; i < s->rows; i++) {
    tile_set_index(s->t, top->indices[i], s->values[i]);
  }
}

static void add_top(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  ranking_t r;
  ranked_chunk_t c = {&r, s};
  set_rows(s, s->tops[k]);
  open_ranking(&r, s, k, &s->tops[k]->state, block);
  tile_chunks(t, block, "i", (tile_range_t){s->begin, s->end}, rank_chunk,
              &c);
  close_ranking(&r, s, &s->tops[k]->state, block);
}

static void init_pairs(sweep_t *s, const sweep_top_t *top, int64_t k,
                       const sweep_pairs_t *pairs, kir_block_t *block) {
  tile_t *t = s->t;
  for (int64_t i = 0; i < k; i++) {
    kir_expr_t *at[2] = {s->r, tile_int(t, i)};
    tile_store(t, block, pairs->values, 2, at,
               tile_identity(t, TIR_REDUCE_MAX, top->type));
    tile_store(t, block, pairs->places, 2, at, tile_int(t, NONE));
  }
}

static void finish_top(sweep_t *s, uint32_t k, kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  kir_expr_t *subs[IX_MAX_RANK];
  for (uint32_t i = 0; i < s->rows; i++) subs[i] = s->values[i];
  for (int64_t i = 0; i < n->k; i++) {
    kir_expr_t *at[2] = {s->r, tile_int(t, i)};
    const sweep_pairs_t *state = &s->tops[k]->state;
    kir_expr_t *place = kir_load(t->arena, state->places, 2, at);
    kir_expr_t *args[3] = {equal(t, place, tile_int(t, NONE)), tile_int(t, 0),
                           place};
    subs[s->rows] = tile_int(t, i);
    tile_store_value(t, block, n->outs[0], s->rows + 1, subs,
                     kir_load(t->arena, state->values, 2, at));
    tile_store_value(t, block, n->outs[1], s->rows + 1, subs,
                     kir_op(t->arena, KIR_X_SELECT, TDSL_DTYPE_I64, 3, args));
  }
}

static sweep_pairs_t alloc_pairs(sweep_t *s, uint32_t k, const char *suffix,
                                 kir_block_t *block) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  const ix_poly_t *dims[2] = {ix_const(t->module->pool, s->block_rows),
                              ix_const(t->module->pool, n->k)};
  const char *names[2];
  for (int i = 0; i < 2; i++) {
    names[i] =
        td_arena_printf(t->arena, "%s%s", n->outs[i]->name, suffix);
  }
  return (sweep_pairs_t){
      tile_alloc(t, block, names[0], s->tops[k]->type, KIR_LOCAL, 2, dims),
      tile_alloc(t, block, names[1], TDSL_DTYPE_I64, KIR_LOCAL, 2, dims)};
}

/* What finishes reads the pairs where they are. */
static void set_homes(sweep_t *s, uint32_t k, const sweep_pairs_t *pairs) {
  tile_t *t = s->t;
  const tir_node_t *n = t->nodes[k];
  tile_set_home(t, n->outs[0], pairs->values, s->rows);
  tile_set_home(t, n->outs[1], pairs->places, s->rows);
  for (int i = 0; i < 2; i++) tile_set_lead(t, n->outs[i], &s->r, NULL);
}

/* ---- for all of them ----------------------------------------------------- */

void tile_sweep_alloc_tops(sweep_t *s, kir_block_t *block) {
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    if (s->tops[k] == NULL) continue;
    s->tops[k]->state = alloc_pairs(s, k, "", block);
    set_homes(s, k, &s->tops[k]->state);
  }
}

void tile_sweep_alloc_total_tops(sweep_t *s, kir_block_t *block) {
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    if (s->tops[k] == NULL) continue;
    s->tops[k]->total = alloc_pairs(s, k, ".all", block);
  }
}

void tile_sweep_init_tops(sweep_t *s, bool of_totals, kir_block_t *block) {
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    const sweep_top_t *top = s->tops[k];
    if (top == NULL) continue;
    init_pairs(s, top, s->t->nodes[k]->k,
               of_totals ? &top->total : &top->state, block);
  }
}

void tile_sweep_add_orders(sweep_t *s, kir_block_t *block) {
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    if (sweep_is_position(s->t->nodes[k])) add_position(s, k, block);
    if (s->tops[k] != NULL) add_top(s, k, block);
  }
}

void tile_sweep_load_top(sweep_t *s, uint32_t k, kir_expr_t *split,
                         kir_block_t *block) {
  tile_t *t = s->t;
  const sweep_top_t *top = s->tops[k];
  int64_t count = t->nodes[k]->k;
  set_rows(s, top);
  for (int64_t i = 0; i < count; i++) {
    kir_expr_t *at[2] = {s->r, tile_int(t, i)};
    kir_expr_t *place = kir_add(
        t->arena, kir_mul(t->arena, split, tile_int(t, count)), at[1]);
    tile_set_index(t, top->indices[s->rows], place);
    tile_store(t, block, top->state.values, 2, at, tile_expr(t, top->load));
    tile_store(t, block, top->state.places, 2, at, place);
  }
}

void tile_sweep_merge_orders(sweep_t *s, kir_block_t *block,
                             kir_expr_t *const *was) {
  tile_t *t = s->t;
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (sweep_is_position(t->nodes[k])) {
      uint32_t m = s->partners[k];
      kir_expr_t *now = kir_load(t->arena, s->totals[m], 1, &s->r);
      kir_expr_t *place = kir_load(t->arena, s->totals[k], 1, &s->r);
      kir_block_t *body =
          &tile_push(t, block,
                     tile_if(t, has_changed(t, was[m], now, place)))
               ->body;
      tile_store(t, body, s->totals[k], 1, &s->r,
                 kir_load(t->arena, s->folded[k], 1, &s->r));
    }
    if (s->tops[k] == NULL) continue;
    ranking_t r;
    open_ranking(&r, s, k, &s->tops[k]->total, block);
    for (int64_t i = 0; i < r.k; i++) {
      kir_expr_t *at[2] = {s->r, tile_int(t, i)};
      const sweep_pairs_t *part = &s->tops[k]->state;
      tile_store(t, block, r.value, 0, NULL,
                 kir_load(t->arena, part->values, 2, at));
      tile_store(t, block, r.place, 0, NULL,
                 kir_load(t->arena, part->places, 2, at));
      insert(&r, block);
    }
    close_ranking(&r, s, &s->tops[k]->total, block);
  }
}

void tile_sweep_use_total_tops(sweep_t *s) {
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    if (s->tops[k] == NULL) continue;
    s->tops[k]->state = s->tops[k]->total;
    set_homes(s, k, &s->tops[k]->state);
  }
}

void tile_sweep_finish_order(sweep_t *s, uint32_t k, kir_block_t *block) {
  if (s->tops[k] != NULL) finish_top(s, k, block);
  else finish_position(s, k, block);
}
