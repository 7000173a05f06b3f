/* contraction_simt_move.c: the operands of a product by blocks of warps on
 * their way from memory to a stage of shared memory: asynchronously, or by
 * way of registers. */
#include "passes/tile/contraction_simt.h"

#include "ir/expr.h"

uint32_t contraction_simt_place(simt_t *s, const operand_t *o,
                                kir_expr_t *stage, kir_expr_t *group,
                                kir_expr_t *in_group, kir_expr_t *i,
                                kir_expr_t **subs) {
  if (o->layout == LAYOUT_GROUPS) {
    kir_expr_t *row = add(s, times(s, group, s->v * o->size + SIMT_GAP),
                          times(s, in_group, o->size));
    subs[0] = add(s, add(s, times(s, stage, o->each), row), i);
    return 1;
  }
  kir_expr_t *k = add(s, times(s, group, s->v), in_group);
  subs[0] = stage;
  subs[1] = o->layout == LAYOUT_ROWS ? i : k;
  subs[2] = o->layout == LAYOUT_ROWS ? k : i;
  return 3;
}

/* A group of v elements of one operand, as a lane sees it. */
typedef struct slot {
  kir_expr_t *w, *u, *l;
  kir_expr_t *outer, *k;      /* of element 0, in the tile */
  kir_expr_t *is_there;       /* the slot is one at all; NULL: always */
} slot_t;

static void find_slot(simt_t *s, const operand_t *o, slot_t *at) {
  int64_t threads = s->warps * SIMT_WARP;
  kir_expr_t *number = add(s, times(s, at->u, threads),
                           add(s, times(s, at->w, SIMT_WARP), at->l));
  at->is_there = NULL;
  if (o->groups % threads != 0) {
    at->is_there = tile_less(s->t, number, tile_int(s->t, o->groups));
  }
  if (o->is_deep) {
    int64_t across = s->shape.depth / o->v;
    at->k = times(s, rest(s, number, across), o->v);
    at->outer = quotient(s, number, across);
  } else {
    int64_t across = o->size / o->v;
    at->outer = times(s, rest(s, number, across), o->v);
    at->k = quotient(s, number, across);
  }
}

/* Sets the operand's indices to element v of a slot; whether it is one, NULL:
 * always. */
static kir_expr_t *set_element(simt_t *s, const operand_t *o,
                               const slot_t *at, kir_expr_t *kb,
                               kir_expr_t *v) {
  kir_expr_t *outer = add(s, o->base, at->outer), *k = add(s, kb, at->k);
  kir_expr_t **moving = o->is_deep ? &k : &outer;
  kir_expr_t *first[2] = {outer, k};
  *moving = add(s, *moving, v);
  if (o->rows != NULL) {
    kir_expr_t *subs[3] = {at->w, at->u, at->l};
    tile_set_index(s->t, o->outer->flat,
                   kir_load(s->t->arena, o->rows, 3, subs));
  } else if (o->outer->count > 0) {
    tile_set_index(s->t, o->outer->flat, outer);
  }
  kir_expr_t *at_k = s->origin == NULL ? k : add(s, s->origin, k);
  tile_set_index(s->t, s->p->k.flat, at_k);
  /* with all v neighbours inside, or none, it is the same for all */
  bool is_wide = o->wides.loads.length > 0;
  kir_expr_t *is_in = NULL;
  if (!tile_is_multiple(s->p->k.extent, s->shape.depth)) {
    is_in = tile_less(s->t, is_wide ? first[1] : k, s->length);
  }
  if (o->outer->count > 0) {
    is_in = both(s, is_one(s, is_wide ? first[0] : outer, o->outer, o->size),
                 is_in);
  }
  return both(s, at->is_there, is_in);
}

void contraction_simt_find_rows(simt_t *s, operand_t *o,
                                kir_block_t *block) {
  slot_t at;
  if (o->rows == NULL) return;
  block = warp_loop(s, block, &at.w);
  block = unroll(s, block, "u", o->slots, &at.u);
  kir_block_t *body = lanes(s, block, &at.l, NULL);
  find_slot(s, o, &at);
  kir_expr_t *subs[3] = {at.w, at.u, at.l};
  /* the list reaches a tile past its end */
  kir_expr_t *row = contraction_row_at(s->p, add(s, o->base, at.outer));
  if (at.is_there != NULL) {
    kir_expr_t *arms[3] = {at.is_there, row, tile_int(s->t, 0)};
    row = kir_op(s->t->arena, KIR_X_SELECT, TDSL_DTYPE_I64, 3, arms);
  }
  tile_store(s->t, body, o->rows, 3, subs, row);
}

static kir_expr_t *value_at(simt_t *s, const operand_t *o, const slot_t *at,
                            kir_expr_t *kb, kir_expr_t *v) {
  kir_expr_t *is_in = set_element(s, o, at, kb, v);
  kir_expr_t *value = tile_expr(s->t, o->e);
  if (is_in == NULL) return value;
  kir_expr_t *args[3] = {is_in, value, contraction_zero(s->p)};
  return kir_op(s->t->arena, KIR_X_SELECT, s->p->type, 3, args);
}

/* Starts what takes long: loads from memory. */
void contraction_simt_fetch(simt_t *s, operand_t *o, kir_block_t *block,
                            kir_expr_t *kb) {
  slot_t at;
  bool is_wide = o->wides.loads.length > 0;
  block = warp_loop(s, block, &at.w);
  block = unroll(s, block, "u", o->slots, &at.u);
  if (is_wide) {
    kir_stmt_t *loop;
    kir_block_t *body = lanes(s, block, &at.l, &loop);
    find_slot(s, o, &at);
    loop->mask = set_element(s, o, &at, kb, tile_int(s->t, 0));
    tile_wide_load(s->t, &o->wides, body, (kir_expr_t *[]){at.w, at.u}, at.l);
    return;
  }
  kir_expr_t *v = tile_int(s->t, 0);
  kir_block_t *body = lanes(s, block, &at.l, NULL);
  find_slot(s, o, &at);
  kir_expr_t *subs[4] = {at.w, at.u, v, at.l};
  tile_store(s->t, body, o->stage, 4, subs, value_at(s, o, &at, kb, v));
}

/* Starts the copies of a part of the depth, which are waited for later. */
void contraction_simt_start(simt_t *s, operand_t *o, kir_block_t *block,
                            kir_expr_t *kb, kir_expr_t *stage) {
  slot_t at;
  kir_stmt_t *loop;
  kir_expr_t *subs[3];
  block = warp_loop(s, block, &at.w);
  block = unroll(s, block, "u", o->slots, &at.u);
  kir_block_t *body = lanes(s, block, &at.l, &loop);
  find_slot(s, o, &at);
  loop->mask = at.is_there;
  at.is_there = NULL;
  kir_expr_t *is_in = set_element(s, o, &at, kb, tile_int(s->t, 0));
  bool is_rows = o->layout == LAYOUT_ROWS;
  subs[0] = stage;
  subs[1] = is_rows ? at.outer : at.k;
  subs[2] = is_rows ? at.k : at.outer;
  kir_stmt_t *copy = kir_copy_stmt(s->t->kernel, s->v, o->shared, 3, subs,
                                   tile_expr(s->t, o->e));
  copy->kind = KIR_ASYNC;
  copy->mask = is_in;
  tile_push(s->t, body, copy);
}

/* What was fetched goes into a stage. */
void contraction_simt_put(simt_t *s, operand_t *o, kir_block_t *block,
                          kir_expr_t *kb, kir_expr_t *stage) {
  slot_t at;
  bool is_wide = o->wides.loads.length > 0;
  kir_expr_t *v, *to;
  block = warp_loop(s, block, &at.w);
  block = unroll(s, block, "u", o->slots, &at.u);
  if (is_wide) {
    kir_block_t *each = unroll(s, block, "v", o->v, &v);
    kir_block_t *body = lanes(s, each, &at.l, NULL);
    find_slot(s, o, &at);
    tile_wide_use(s->t, &o->wides, (kir_expr_t *[]){at.w, at.u}, v, at.l);
    kir_expr_t *subs[4] = {at.w, at.u, v, at.l};
    tile_store(s->t, body, o->stage, 4, subs, value_at(s, o, &at, kb, v));
    tile_wide_end(s->t, &o->wides);
  }
  kir_stmt_t *loop;
  bool is_copy = is_wide && !o->is_deep;
  kir_block_t *each = is_copy ? block : unroll(s, block, "v", o->v, &v);
  kir_block_t *body = lanes(s, each, &at.l, &loop);
  find_slot(s, o, &at);
  loop->mask = at.is_there;
  kir_expr_t *in_group = is_wide && o->is_deep ? v : rest(s, at.k, s->v);
  (void)contraction_simt_place(s, o, stage, quotient(s, at.k, s->v), in_group,
                               at.outer, &to);
  if (!is_copy) {
    kir_expr_t *from[4] = {at.w, at.u, v, at.l};
    tile_store(s->t, body, o->shared, 1, &to,
               kir_load(s->t->arena, o->stage, 4, from));
    return;
  }
  kir_expr_t *from[4] = {at.w, at.u, tile_int(s->t, 0), at.l};
  tile_push(s->t, body,
            kir_copy_stmt(s->t->kernel, s->v, o->shared, 1, &to,
                          kir_load(s->t->arena, o->stage, 4, from)));
}
