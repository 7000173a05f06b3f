/* contraction_pack.c: operands of a matrix product made ready for the
 * micro-kernel: evaluated once, in the order in which they are read.
 *
 *   panels [nc / nr][kc + 1][nr]   columns of b; past the last one anything,
 *                                  for what they add to is never stored
 *   rows   [mc][kc or kc + 16]     of a
 *
 * Columns of plain memory are packed, and panels of a narrow type widened,
 * while the first rows multiply with them: what moves them has room between
 * multiply-adds, and so has the wait for memory.  Where the depth of b lies
 * along memory, squares of it are loaded by rows and turned in registers.
 * kc + 1: panels are then not a power of two apart, so that one depth of
 * several panels does not compete for one cache set. */
#include "passes/tile/contraction.h"

#include "runtime/base/num.h"

kir_block_t *contraction_lane_steps(tile_t *t, kir_block_t *block,
                                    const char *name, kir_expr_t *count,
                                    kir_expr_t **out_at) {
  kir_expr_t *base, *lane;
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_SERIAL, name,
                                tile_int(t, 0), count, TILE_LANES, &base);
  kir_block_t *inner = tile_lanes(t, body, NULL, &lane);
  *out_at = kir_add(t->arena, base, lane);
  bool is_whole =
      count->op == KIR_X_CONST && count->u.i64 % TILE_LANES == 0;
  if (!is_whole) td_vec_last(body)->mask = tile_less(t, *out_at, count);
  return inner;
}

/* ---- b by columns -------------------------------------------------------- */

/* nr elements of one depth, lanes along the columns. */
static void pack_row(product_t *p, kir_block_t *block, kir_expr_t *panel,
                     kir_expr_t *k, bool is_whole) {
  tile_t *t = p->t;
  kir_expr_t *j;
  kir_block_t *lanes = tile_lanes_of(t, block, p->nr, &j);
  kir_expr_t *column = kir_add(
      t->arena, kir_mul(t->arena, panel, tile_int(t, p->nr)), j);
  tile_set_index(t, p->n.flat, kir_add(t->arena, p->nb, column));
  kir_expr_t *v = tile_expr(t, p->b);
  if (!is_whole) {
    kir_expr_t *arms[3] = {tile_less(t, column, p->nh), v,
                           contraction_zero(p)};
    v = kir_op(t->arena, KIR_X_SELECT, p->type, 3, arms);
  }
  tile_store(t, lanes, p->panels, 3, (kir_expr_t *[]){panel, k, j}, v);
}

/* One depth of all panels after the other: b is read along its rows. */
static void pack_by_columns(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  kir_expr_t *k, *panel;
  kir_expr_t *nr = tile_int(t, p->nr);
  int64_t whole = p->nh->op == KIR_X_CONST ? p->nh->u.i64 / p->nr : -1;
  kir_expr_t *full =
      whole >= 0 ? tile_int(t, whole)
                 : contraction_name(p, block, "full",
                                    tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64,
                                             p->nh, nr));
  kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "k",
                                 tile_int(t, 0), p->kh, 1, &k);
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, k));
  if (whole != 0) {
    kir_block_t *each = tile_loop(t, depth, KIR_LOOP_SERIAL, "p",
                                  tile_int(t, 0), full, 1, &panel);
    pack_row(p, each, panel, k, true);
  }
  if (whole >= 0 && whole * p->nr == p->nh->u.i64) return;
  if (whole >= 0) {
    pack_row(p, depth, full, k, false);
    return;
  }
  kir_expr_t *rest = tile_less(t, kir_mul(t->arena, full, nr), p->nh);
  kir_stmt_t *ragged = tile_push(t, depth, tile_if(t, rest));
  pack_row(p, &ragged->body, full, k, false);
}

/* ---- b by squares -------------------------------------------------------- */

int64_t contraction_turn_lanes(const product_t *p) {
  int64_t lanes = p->t->target->lanes;
  return p->type == TDSL_DTYPE_F64 ? lanes / 2 : lanes;
}

tdsl_dtype_t contraction_turn_type(const product_t *p) {
  const tir_expr_t *b = p->b;
  if (b->op == TIR_X_CAST) b = b->args[0];
  bool is_half = b->op == TIR_X_LOAD && b->u.value->dtype == TDSL_DTYPE_F16 &&
                 p->type == TDSL_DTYPE_F32 && p->t->target->has_f16c &&
                 p->t->target->warp == 0;
  return is_half ? TDSL_DTYPE_F16 : p->type;
}

bool contraction_turns(product_t *p) {
  return contraction_runs_along(p, p->b, &p->k) &&
         !contraction_runs_along(p, p->b, &p->n);
}

static void turn(tile_t *t, kir_block_t *block, kir_buffer_t *square) {
  kir_stmt_t *s = TD_NEW(t->arena, kir_stmt_t);
  s->kind = KIR_TRANSPOSE;
  s->buffer = square;
  tile_push(t, block, s);
}

void contraction_turn(product_t *p, kir_block_t *block,
                      kir_buffer_t *const *turned, uint32_t count,
                      kir_expr_t *column, kir_expr_t *k, kir_expr_t *kh) {
  tile_t *t = p->t;
  int64_t size = contraction_turn_lanes(p);
  kir_expr_t *r, *l;
  kir_block_t *rows = tile_loop(t, block, KIR_LOOP_UNROLL, "r",
                                tile_int(t, 0), tile_int(t, size), 1, &r);
  kir_expr_t *n = kir_add(t->arena, column, r);
  int64_t width = p->is_thin ? size : p->nr;
  bool is_inside = p->nh->op == KIR_X_CONST && p->nh->u.i64 % width == 0;
  if (!is_inside) {
    /* past the end the last column again */
    kir_expr_t *last = kir_add(t->arena, p->nh, tile_int(t, -1));
    n = contraction_name(p, rows, "n", tile_min(t, n, last));
  }
  for (uint32_t i = 0; i < count; i++) {
    kir_block_t *lanes = tile_lanes_of(t, rows, size, &l);
    kir_expr_t *depth =
        kir_add(t->arena, kir_add(t->arena, k, tile_int(t, i * size)), l);
    tile_set_index(t, p->n.flat, kir_add(t->arena, p->nb, n));
    tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, depth));
    kir_expr_t *v = tile_expr(t, p->b);
    if (kh != NULL) {
      kir_expr_t *arms[3] = {tile_less(t, depth, kh), v, contraction_zero(p)};
      v = kir_op(t->arena, KIR_X_SELECT, p->type, 3, arms);
    }
    tile_store(t, lanes, turned[i], 2, (kir_expr_t *[]){r, l}, v);
  }
  for (uint32_t i = 0; i < count; i++) turn(t, block, turned[i]);
}

static void pack_square(product_t *p, kir_block_t *block,
                        kir_buffer_t *turned, kir_expr_t *panel,
                        kir_expr_t *c, kir_expr_t *k, kir_expr_t *kh) {
  tile_t *t = p->t;
  int64_t size = contraction_turn_lanes(p);
  kir_expr_t *base = kir_mul(t->arena, panel, tile_int(t, p->nr));
  contraction_turn(p, block, &turned, 1, kir_add(t->arena, base, c), k, kh);
  kir_expr_t *r, *j;
  kir_block_t *rows = tile_loop(t, block, KIR_LOOP_UNROLL, "r",
                                tile_int(t, 0), tile_int(t, size), 1, &r);
  kir_block_t *lanes = tile_lanes_of(t, rows, size, &j);
  kir_expr_t *to[3] = {panel, kir_add(t->arena, k, r),
                       kir_add(t->arena, c, j)};
  tile_store(t, lanes, p->panels, 3, to,
             kir_load(t->arena, turned, 2, (kir_expr_t *[]){r, j}));
}

/* Squares along the depth, then the next ones of the panel. A last one may
 * reach past the depth, where panels have room. */
static void pack_by_squares(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  ix_pool_t *pool = t->module->pool;
  int64_t size = contraction_turn_lanes(p);
  const ix_poly_t *dims[2] = {ix_const(pool, size), ix_const(pool, size)};
  kir_expr_t *panel, *c, *k;
  kir_expr_t *step = tile_int(t, size);
  kir_expr_t *up = kir_add(t->arena, p->nh, tile_int(t, p->nr - 1));
  kir_expr_t *count = tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, up,
                               tile_int(t, p->nr));
  if (p->nh->op == KIR_X_CONST) {
    count = tile_int(t, (p->nh->u.i64 + p->nr - 1) / p->nr);
  }
  kir_block_t *panels = tile_loop(t, block, KIR_LOOP_SERIAL, "p",
                                  tile_int(t, 0), count, 1, &panel);
  kir_block_t *parts = tile_loop(t, panels, KIR_LOOP_SERIAL, "c",
                                 tile_int(t, 0), tile_int(t, p->nr), size,
                                 &c);
  kir_buffer_t *turned =
      tile_alloc(t, parts, "turned", p->type, KIR_REGISTER, 2, dims);
  bool is_const = p->kh->op == KIR_X_CONST;
  kir_expr_t *whole =
      is_const ? tile_int(t, p->kh->u.i64 / size * size)
               : tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, p->kh,
                          tile_op2(t, KIR_X_MOD, TDSL_DTYPE_I64, p->kh,
                                   step));
  if (!is_const) whole = contraction_name(p, parts, "whole", whole);
  kir_block_t *depth = tile_loop(t, parts, KIR_LOOP_SERIAL, "k",
                                 tile_int(t, 0), whole, size, &k);
  pack_square(p, depth, turned, panel, c, k, NULL);
  if (is_const && whole->u.i64 == p->kh->u.i64) return;
  kir_block_t *rest = parts;
  if (!is_const) {
    rest = &tile_push(t, parts, tile_if(t, tile_less(t, whole, p->kh)))->body;
  }
  pack_square(p, rest, turned, panel, c, whole, p->kh);
}

/* ---- b as panels --------------------------------------------------------- */

typedef struct finder {
  int64_t nr;
  const tir_index_t *depth;
  const tir_expr_t *found;
  uint32_t count;
  int64_t period; /* 0: depths are divided in ways that do not agree */
} finder_t;

static bool divides_depth(const finder_t *f, const tir_expr_t *e) {
  return (e->op == TIR_X_DIV || e->op == TIR_X_MOD) &&
         e->args[0]->op == TIR_X_INDEX && e->args[0]->u.index == f->depth &&
         e->args[1]->op == TIR_X_CONST && e->args[1]->u.i64 > 0;
}

static void find_panels(void *user, tir_expr_t *e) {
  finder_t *f = user;
  if (e->op == TIR_X_LOAD && e->u.value->panel == f->nr) {
    f->found = e;
    f->count++;
  }
  if (!divides_depth(f, e)) return;
  int64_t by = e->args[1]->u.i64;
  if (f->period == 0) return;
  if (by % f->period == 0) f->period = by;
  else if (f->period % by != 0) f->period = 0;
}

/* Depth / by and depth % by, of depth = group * period + within. */
typedef struct split {
  product_t *p;
  finder_t f;
} split_t;

static tir_expr_t *split_depth(void *user, tir_expr_t *e) {
  split_t *s = user;
  td_arena_t *arena = s->p->t->arena;
  if (!divides_depth(&s->f, e)) return e;
  tir_expr_t *part[2] = {tir_index_ref(arena, s->p->within), e->args[1]};
  tir_expr_t *within = tir_op(arena, e->op, e->type, 2, part);
  if (e->op == TIR_X_MOD) return within;
  int64_t times = s->p->period / e->args[1]->u.i64;
  tir_expr_t *group[2] = {tir_index_ref(arena, s->p->group_index),
                          tir_const_i(arena, e->type, times)};
  tir_expr_t *sum[2] = {tir_op(arena, TIR_X_MUL, e->type, 2, group), within};
  return tir_op(arena, TIR_X_ADD, e->type, 2, sum);
}

/* Elements share what panels hold if all depths of a block do. */
static void split_depths(product_t *p, const finder_t *f) {
  enum { MOST_PERIOD = 32 };
  tile_t *t = p->t;
  tir_module_t *module = (tir_module_t *)(uintptr_t)t->module;
  int64_t depth;
  if (f->period <= 1 || f->period > MOST_PERIOD ||
      !ix_is_const(p->k.extent, &depth) || depth % f->period != 0 ||
      TILE_LANES % f->period * (f->period % TILE_LANES) != 0) {
    return;
  }
  p->period = f->period;
  p->group_index =
      tir_index_create(module, "g", ix_const(module->pool, depth / p->period),
                       false);
  p->within = tir_index_create(module, "i",
                               ix_const(module->pool, p->period), false);
  split_t s = {p, *f};
  for (uint32_t k = 0; k < p->side_count; k++) {
    p->sides[k].b = tir_rewrite(t->arena, p->sides[k].b, split_depth, &s);
  }
}

/* What is made of panels costs more than a wider type: many rows have it made
 * once for all of them. */
static bool is_costly(const product_t *p, uint32_t loads) {
  int64_t m = contraction_upper(p->m.extent);
  return (p->period > 1 || loads > 1) && m > p->t->target->mr;
}

void contraction_find_panels(product_t *p) {
  int64_t nr = p->t->target->nr;
  finder_t f = {.nr = p->type == TDSL_DTYPE_F64 ? nr / 2 : nr,
                .depth = p->k.flat, .period = 1};
  uint32_t most = 0;
  for (uint32_t s = 0; s < p->side_count; s++) {
    f.count = 0;
    f.found = NULL;
    tir_walk(p->t->arena, p->sides[s].b, find_panels, &f);
    p->sides[s].packed = f.found;
    if (f.count > most) most = f.count;
  }
  p->period = 1;
  if (most > 0) split_depths(p, &f);
  for (uint32_t s = 0; s < p->side_count && is_costly(p, most); s++) {
    if (p->sides[s].packed == NULL) continue;
    p->sides[s].is_made = true;
    p->sides[s].packed = NULL;
  }
  contraction_select(p, 0);
}

/* All of them in b are set to the elements of lane j of a panel. */
typedef struct elements {
  product_t *p;
  kir_expr_t *panel, *j; /* j NULL: they are nothing special any more */
} elements_t;

static void set_element(void *user, tir_expr_t *e) {
  elements_t *s = user;
  product_t *p = s->p;
  tile_t *t = p->t;
  if (e->op != TIR_X_LOAD || e->u.value->panel != p->nr) return;
  if (s->j == NULL) {
    tile_set_element(t, e->u.value, NULL);
    return;
  }
  kir_expr_t *subs[IX_MAX_RANK];
  uint32_t leads = e->arg_count - 3;
  for (uint32_t i = 0; i < leads; i++) subs[i] = tile_expr(t, e->args[i]);
  subs[leads] = s->panel;
  subs[leads + 1] = tile_expr(t, e->args[leads + 1]);
  subs[leads + 2] = s->j;
  kir_buffer_t *b = tile_param(t, e->u.value, true, false);
  tile_set_element(t, e->u.value, kir_load(t->arena, b, leads + 3, subs));
}

/* b from panels; the depth is set. */
static kir_expr_t *from_panels(product_t *p, kir_expr_t *panel,
                               kir_expr_t *j) {
  tile_t *t = p->t;
  kir_expr_t *first =
      p->nb->op == KIR_X_CONST
          ? tile_int(t, p->nb->u.i64 / p->nr)
          : tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, p->nb,
                     tile_int(t, p->nr));
  elements_t s = {p, kir_add(t->arena, first, panel), j};
  tir_walk(t->arena, p->b, set_element, &s);
  /* what is made of the elements: a wider type, or codes and scales */
  kir_expr_t *e = tile_expr(t, p->b);
  s.j = NULL;
  tir_walk(t->arena, p->b, set_element, &s);
  return e;
}

/* ---- b along with its first use ------------------------------------------ */

kir_expr_t *contraction_panel(const product_t *p, kir_expr_t *panel) {
  return p->is_along && p->bm == p->mc ? tile_int(p->t, 0) : panel;
}

int64_t contraction_panel_count(const product_t *p, int64_t nc) {
  return p->is_along && p->bm == p->mc ? 1 : nc / p->nr;
}

/* For a load that reads nothing else. */
void contraction_ask(product_t *p, kir_block_t *block, tir_expr_t *e) {
  tile_t *t = p->t;
  kir_expr_t *load = tile_expr(t, e);
  kir_stmt_t *ask = TD_NEW(t->arena, kir_stmt_t);
  ask->kind = KIR_PREFETCH;
  ask->buffer = (kir_buffer_t *)(uintptr_t)load->u.buffer;
  ask->sub_count = load->arg_count;
  ask->subs = TD_NEW_ARRAY(t->arena, kir_expr_t *, load->arg_count);
  for (uint32_t i = 0; i < load->arg_count; i++) ask->subs[i] = load->args[i];
  tile_push(t, block, ask);
}

/* Rows of b are as far apart as they like, which no hardware foresees: those
 * some depths on are asked for, each line once or, where rows begin inside of
 * lines, the one more that they touch. */
static void ask_ahead(product_t *p, kir_block_t *block, kir_expr_t *base,
                      kir_expr_t *k) {
  enum { DEPTHS_AHEAD = 16, LINE = 64 };
  tile_t *t = p->t;
  int64_t line = LINE / (int64_t)td_dtype_bytes(p->type), pitch;
  const tir_value_t *from = p->b->u.value;
  bool is_aligned = ix_is_const(from->dims[from->rank - 1], &pitch) &&
                    pitch % line == 0;
  kir_expr_t *ahead = kir_add(t->arena, k, tile_int(t, DEPTHS_AHEAD));
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, ahead));
  for (int64_t l = 0; l < p->width + (is_aligned ? 0 : line); l += line) {
    int64_t at = l < p->width ? l : p->width - 1;
    tile_set_index(t, p->n.flat,
                   kir_add(t->arena, p->nb,
                           kir_add(t->arena, base, tile_int(t, at))));
    contraction_ask(p, block, p->b);
  }
}

/* Column of the block at the depth set. */
static kir_expr_t *from_memory(product_t *p, kir_expr_t *column) {
  tile_t *t = p->t;
  tile_set_index(t, p->n.flat, kir_add(t->arena, p->nb, column));
  kir_expr_t *v = tile_expr(t, p->b);
  if (contraction_is_whole(p)) return v;
  kir_expr_t *arms[3] = {tile_less(t, column, p->nh), v, contraction_zero(p)};
  return kir_op(t->arena, KIR_X_SELECT, p->type, 3, arms);
}

kir_buffer_t *contraction_bring(product_t *p, kir_block_t *block,
                                kir_expr_t *panel, kir_expr_t *k,
                                bool is_kept) {
  tile_t *t = p->t;
  kir_expr_t *j, *base = kir_mul(t->arena, panel, tile_int(t, p->nr));
  const ix_poly_t *dims[1] = {ix_const(t->module->pool, p->width)};
  kir_buffer_t *line =
      tile_alloc(t, block, "line", p->type, KIR_REGISTER, 1, dims);
  if (p->packed == NULL) ask_ahead(p, block, base, k);
  kir_block_t *lanes = tile_lanes_of(t, block, p->width, &j);
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, k));
  kir_expr_t *v = p->packed != NULL
                      ? from_panels(p, panel, j)
                      : from_memory(p, kir_add(t->arena, base, j));
  tile_store(t, lanes, line, 1, &j, v);
  if (is_kept) {
    kir_expr_t *to[3] = {contraction_panel(p, panel), k, j};
    tile_store(t, lanes, p->panels, 3, to,
               kir_load(t->arena, line, 1, &j));
  }
  return line;
}

kir_block_t *contraction_depth(product_t *p, kir_block_t *block,
                               bool is_from_panels, kir_expr_t **k) {
  tile_t *t = p->t;
  if (p->period == 1 || !is_from_panels) {
    block = tile_loop(t, block, KIR_LOOP_SERIAL, "k", tile_int(t, 0), p->kh,
                      1, k);
    tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, *k));
    return block;
  }
  kir_expr_t *base, *within;
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "k", tile_int(t, 0), p->kh,
                    p->period, &base);
  kir_expr_t *from = kir_add(t->arena, p->kb, base);
  tile_set_index(t, p->group_index,
                 tile_let(t, block, "g",
                          tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, from,
                                   tile_int(t, p->period))));
  block = tile_loop(t, block, KIR_LOOP_UNROLL, "within", tile_int(t, 0),
                    tile_int(t, p->period), 1, &within);
  *k = kir_add(t->arena, base, within);
  tile_set_index(t, p->within, within);
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, *k));
  return block;
}

kir_expr_t *contraction_column(product_t *p, kir_expr_t *panel, kir_expr_t *k,
                               kir_expr_t *j) {
  tile_t *t = p->t;
  if (p->b_lies) {
    kir_expr_t *base = kir_mul(t->arena, panel, tile_int(t, p->nr));
    contraction_set_place(p, tile_int(t, 0), kir_add(t->arena, base, j));
    tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, k));
    return tile_expr(t, p->b);
  }
  if (p->packed == NULL || p->is_along) {
    kir_expr_t *at[3] = {contraction_panel(p, panel), k, j};
    return kir_load(t->arena, p->panels, 3, at);
  }
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, k));
  return from_panels(p, panel, j);
}

/* The next panel is asked for, a little at each depth of those that multiply
 * with this one: the first rows that use it would wait for most of it. */
kir_buffer_t *contraction_next_panel(product_t *p, kir_block_t *block,
                                     kir_expr_t *panel, kir_expr_t **subs) {
  tile_t *t = p->t;
  kir_expr_t *next = kir_add(t->arena, panel, tile_int(t, 1));
  kir_expr_t *is_there = tile_less(
      t, kir_mul(t->arena, next, tile_int(t, p->nr)), p->nh);
  kir_expr_t *or_first[3] = {is_there, next, tile_int(t, 0)};
  kir_expr_t *wrapped = kir_op(t->arena, KIR_X_SELECT, TDSL_DTYPE_I64, 3,
                               or_first);
  if (p->packed == NULL) {
    /* behind the last one the first again, for the next rows */
    subs[0] = contraction_name(p, block, "then", wrapped);
    subs[1] = tile_int(t, 0);
    return p->panels;
  }
  const tir_expr_t *e = p->packed;
  uint32_t leads = e->arg_count - 3;
  for (uint32_t i = 0; i < leads; i++) subs[i] = tile_expr(t, e->args[i]);
  subs[leads + 1] = p->kb;
  if (!p->is_shallow) {
    /* behind the last one of a depth block comes the first of the next */
    kir_expr_t *depths[3] = {
        is_there, p->kb, kir_add(t->arena, p->kb, tile_int(t, p->kc))};
    next = wrapped;
    subs[leads + 1] = contraction_name(
        p, block, "depth",
        kir_op(t->arena, KIR_X_SELECT, TDSL_DTYPE_I64, 3, depths));
  }
  kir_expr_t *first = tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, p->nb,
                               tile_int(t, p->nr));
  subs[leads] = contraction_name(p, block, "then",
                                 kir_add(t->arena, first, next));
  return tile_param(t, e->u.value, true, false);
}

/* Panel by panel, as they lie. */
static void pack_from_panels(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  kir_expr_t *panel, *k, *j;
  kir_expr_t *up = kir_add(t->arena, p->nh, tile_int(t, p->nr - 1));
  kir_expr_t *count = tile_op2(t, KIR_X_DIV, TDSL_DTYPE_I64, up,
                               tile_int(t, p->nr));
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "p", tile_int(t, 0), count, 1,
                    &panel);
  /* which a panel does not depend on */
  tile_set_index(t, p->n.flat, p->nb);
  block = contraction_depth(p, block, true, &k);
  block = tile_lanes_of(t, block, p->nr, &j);
  tile_store(t, block, p->panels, 3, (kir_expr_t *[]){panel, k, j},
             from_panels(p, panel, j));
}

void contraction_pack_b(product_t *p, kir_block_t *block) {
  if (p->is_made) {
    pack_from_panels(p, block);
  } else if (contraction_turns(p)) {
    pack_by_squares(p, block);
  } else {
    pack_by_columns(p, block);
  }
}

/* ---- a ------------------------------------------------------------------- */

kir_expr_t *contraction_row(product_t *p, kir_expr_t *i, kir_expr_t *k) {
  tile_t *t = p->t;
  if (!p->a_lies) {
    return kir_load(t->arena, p->rows, 2, (kir_expr_t *[]){i, k});
  }
  contraction_set_place(p, i, tile_int(t, 0));
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, k));
  return tile_expr(t, p->a);
}

/* Lanes along the depth, or along the rows where those are neighbours. */
void contraction_copy_a(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  kir_expr_t *i, *k;
  bool by_rows = p->m.count > 0 && p->key == NULL &&
                 !contraction_runs_along(p, p->a, &p->k) &&
                 contraction_runs_along(p, p->a, &p->m);
  kir_block_t *lanes;
  if (by_rows) {
    kir_block_t *depth = tile_loop(t, block, KIR_LOOP_SERIAL, "k",
                                   tile_int(t, 0), p->kh, 1, &k);
    lanes = contraction_lane_steps(t, depth, "i", p->mh, &i);
  } else {
    kir_block_t *rows = tile_loop(t, block, KIR_LOOP_SERIAL, "i",
                                  tile_int(t, 0), p->mh, 1, &i);
    lanes = contraction_lane_steps(t, rows, "k", p->kh, &k);
  }
  contraction_set_place(p, i, tile_int(t, 0));
  tile_set_index(t, p->k.flat, kir_add(t->arena, p->kb, k));
  tile_store(t, lanes, p->rows, 2, (kir_expr_t *[]){i, k},
             tile_expr(t, p->a));
}
