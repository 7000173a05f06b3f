/* lower_panels.c: weights laid out as panels (passes/tensor/pack_operands.c).
 *
 *   panels[lead.., p, k, j] = w[.., k or the column of p and j ..]
 *
 * One block iteration makes a few panels, so that rows of w are read in runs
 * of some length.  Lanes run along j; where w's depth
 * lies along memory and the type allows it, squares are turned in registers
 * (contraction_pack.c does the same where a product packs by itself). */
#include "ir/expr.h"
#include "passes/tile/tile.h"

enum { GROUP = 8 };

typedef struct panels {
  tile_t *t;
  tir_node_t *node;
  uint32_t leads;
  kir_expr_t *from, *to;         /* panels of the block */
  tir_expr_t *body;              /* as the panels at work need it */
  kir_expr_t *subs[IX_MAX_RANK]; /* of the output: leads, p, then k and j */
} panels_t;

static tir_index_t *index_of(const panels_t *s, uint32_t from_end) {
  return s->node->indices[s->node->index_count - from_end];
}

static kir_buffer_t *output(panels_t *s) {
  kir_buffer_t *b = tile_param(s->t, s->node->outs[0], false, true);
  b->is_written = true;
  return b;
}

static void put(panels_t *s, kir_block_t *lanes, kir_expr_t *k, kir_expr_t *j,
                kir_expr_t *v) {
  s->subs[s->leads + 1] = k;
  s->subs[s->leads + 2] = j;
  tile_store(s->t, lanes, output(s), s->leads + 3, s->subs, v);
}

static kir_expr_t *element(panels_t *s, kir_expr_t *k, kir_expr_t *j) {
  tile_set_index(s->t, index_of(s, 2), k);
  tile_set_index(s->t, index_of(s, 1), j);
  return tile_expr(s->t, s->body);
}

static kir_block_t *each_panel(panels_t *s, kir_block_t *block) {
  kir_expr_t *p;
  block = tile_loop(s->t, block, KIR_LOOP_SERIAL, "p", s->from, s->to, 1, &p);
  s->subs[s->leads] = p;
  tile_set_index(s->t, index_of(s, 3), p);
  return block;
}

/* Whole panels end where w does, and need not be held there: min(x, last) is
 * x.  Lanes then run along memory. */
static tir_expr_t *without_end(void *user, tir_expr_t *e) {
  (void)user;
  return e->op == TIR_X_MIN ? e->args[0] : e;
}

/* One depth of all panels at a time. */
static void some_by_lanes(panels_t *s, kir_block_t *block, kir_expr_t *from) {
  tile_t *t = s->t;
  kir_expr_t *k, *j;
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "k", from,
                                 tile_dim(t, index_of(s, 2)->extent), 1, &k);
  depth = each_panel(s, depth);
  kir_block_t *lanes =
      tile_lanes_of(t, depth, s->node->outs[0]->panel, &j);
  put(s, lanes, k, j, element(s, k, j));
}

static void by_lanes(panels_t *s, kir_block_t *block, kir_expr_t *from) {
  tile_t *t = s->t;
  int64_t count = 0;
  kir_expr_t *begin = s->from, *end = s->to;
  tir_expr_t *held = s->node->body;
  s->body = tir_rewrite(t->arena, held, without_end, NULL);
  if (tir_expr_size(t->arena, held) != tir_expr_size(t->arena, s->body)) {
    (void)ix_is_const(index_of(s, 3)->extent, &count);
    s->to = tile_min(t, end, tile_int(t, count - 1));
    some_by_lanes(s, block, from);
    s->from = s->to;
    s->to = end;
    s->body = held;
  }
  some_by_lanes(s, block, from);
  s->from = begin;
}

/* The body reads along the depth. */
static bool is_turned(const panels_t *s) {
  const tir_expr_t *e = s->node->body;
  const tir_expr_t *last = e->args[e->arg_count - 1];
  return tir_arithmetic(e->u.value->dtype) == TDSL_DTYPE_F32 &&
         last->op == TIR_X_INDEX && last->u.index == index_of(s, 2);
}

static void by_squares(panels_t *s, kir_block_t *block, int64_t depth) {
  tile_t *t = s->t;
  ix_pool_t *pool = t->module->pool;
  int64_t size = t->target->lanes, nr = s->node->outs[0]->panel;
  const ix_poly_t *dims[2] = {ix_const(pool, size), ix_const(pool, size)};
  kir_expr_t *c, *k, *r, *l;
  block = each_panel(s, block);
  kir_block_t *parts = tile_loop(t, block, KIR_LOOP_SERIAL, "c",
                                 tile_int(t, 0), tile_int(t, nr), size, &c);
  kir_block_t *squares =
      tile_loop(t, parts, KIR_LOOP_SERIAL, "k", tile_int(t, 0),
                tile_int(t, depth / size * size), size, &k);
  kir_buffer_t *turned = tile_alloc(t, squares, "turned", TDSL_DTYPE_F32,
                                    KIR_REGISTER, 2, dims);
  kir_block_t *rows = tile_loop(t, squares, KIR_LOOP_UNROLL, "r",
                                tile_int(t, 0), tile_int(t, size), 1, &r);
  kir_block_t *lanes = tile_lanes_of(t, rows, size, &l);
  tile_store(t, lanes, turned, 2, (kir_expr_t *[]){r, l},
             element(s, kir_add(t->arena, k, l), kir_add(t->arena, c, r)));
  kir_stmt_t *turn = TD_NEW(t->arena, kir_stmt_t);
  turn->kind = KIR_TRANSPOSE;
  turn->buffer = turned;
  tile_push(t, squares, turn);
  rows = tile_loop(t, squares, KIR_LOOP_UNROLL, "r", tile_int(t, 0),
                   tile_int(t, size), 1, &r);
  lanes = tile_lanes_of(t, rows, size, &l);
  put(s, lanes, kir_add(t->arena, k, r), kir_add(t->arena, c, l),
      kir_load(t->arena, turned, 2, (kir_expr_t *[]){r, l}));
}

bool tile_lower_panels(tile_t *t) {
  panels_t s = {.t = t, .node = t->nodes[0], .body = t->nodes[0]->body};
  tir_node_t *n = s.node;
  if (n->kind != TIR_MAP || n->outs[0]->panel == 0 || t->node_count != 1 ||
      n->body->op != TIR_X_LOAD) {
    return false;
  }
  s.leads = n->index_count - 3;
  kir_block_t *block = &t->kernel->body;
  for (uint32_t i = 0; i < s.leads; i++) {
    block = tile_loop(t, block, KIR_LOOP_BLOCK, n->indices[i]->name,
                      tile_int(t, 0), tile_dim(t, n->indices[i]->extent), 1,
                      &s.subs[i]);
    tile_set_index(t, n->indices[i], s.subs[i]);
  }
  kir_expr_t *count = tile_dim(t, index_of(&s, 3)->extent);
  block = tile_loop(t, block, KIR_LOOP_BLOCK, "g", tile_int(t, 0), count,
                    GROUP, &s.from);
  s.to = tile_min(t, kir_add(t->arena, s.from, tile_int(t, GROUP)), count);
  int64_t depth = 0, size = t->target->lanes;
  (void)ix_is_const(index_of(&s, 2)->extent, &depth);
  tile_note(t, "weights as panels of %u columns: %s", n->outs[0]->panel,
            tile_describe(t));
  bool turns = is_turned(&s) && depth >= size;
  if (turns) by_squares(&s, block, depth);
  if (!turns || depth % size != 0) {
    by_lanes(&s, block, tile_int(t, turns ? depth / size * size : 0));
  }
  return true;
}
