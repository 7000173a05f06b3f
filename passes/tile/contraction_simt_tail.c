/* contraction_simt_tail.c: what is done with the sums of a block of warps.
 *
 * Lanes hold rows x columns of the tile, apart in memory.  Some rows at a time
 * they go to shared memory, each warp's to a place of its own, and come back
 * with lanes along rows of memory, n neighbours each; there the maps of the
 * group are evaluated and stored.  A row in shared memory has a gap of one
 * vector, so that rows of lanes start in other banks. */
#include "passes/tile/contraction_simt.h"

#include "ir/expr.h"
#include "runtime/base/num.h"

enum { LONG_TAIL = 48 }; /* operations of an epilogue that is written once */

/* Rows of n neighbours of what leaves the group, in its order. */
typedef struct outlets {
  int64_t n;
  kir_expr_t *v, *l;
  uint32_t next, count;
  kir_buffer_t *rows[CONTRACTION_NODES];
} outlets_t;

static void alloc_outlets(simt_t *s, outlets_t *o, kir_block_t *block) {
  product_t *p = s->p;
  ix_pool_t *pool = s->t->module->pool;
  const ix_poly_t *dims[2] = {ix_const(pool, o->n), ix_const(pool, SIMT_WARP)};
  for (uint32_t k = 0; k < s->t->node_count && o->n > 1; k++) {
    if (p->places[k] == NULL || p->leads[k] != p->lead) continue;
    const tir_value_t *v = p->places[k]->u.value;
    o->rows[o->count++] = tile_alloc(s->t, block, v->name, v->dtype,
                                     KIR_REGISTER, 2, dims);
  }
}

static void store_one(product_t *p, kir_block_t *block, kir_buffer_t *b,
                      uint32_t count, kir_expr_t *const *subs, kir_expr_t *v,
                      void *user) {
  outlets_t *o = user;
  if (o->n == 1) {
    tile_store(p->t, block, b, count, subs, v);
    return;
  }
  tile_store(p->t, block, o->rows[o->next++], 2,
             (kir_expr_t *[]){o->v, o->l}, v);
}

/* The rows to memory, at the indices of their first element. */
static void store_rows(simt_t *s, outlets_t *o, kir_block_t *block,
                       kir_expr_t *l) {
  tile_t *t = s->t;
  uint32_t next = 0;
  for (uint32_t k = 0; k < t->node_count; k++) {
    if (s->p->places[k] == NULL || s->p->leads[k] != s->p->lead) continue;
    tile_set_element(t, s->p->places[k]->u.value, NULL);
    kir_expr_t *to = tile_expr(t, s->p->places[k]);
    kir_buffer_t *b = (kir_buffer_t *)(uintptr_t)to->u.buffer;
    kir_expr_t *from[2] = {tile_int(t, 0), l};
    b->is_read = false;
    tile_push(t, block,
              kir_copy_stmt(t->kernel, o->n, b, to->arg_count, to->args,
                            kir_load(t->arena, o->rows[next++], 2, from)));
  }
}

/* Neighbours that lanes store at once: stored places of the unit take so
 * many, if all of them can. */
static int64_t width_of(simt_t *s) {
  product_t *p = s->p;
  size_t size = 0, widest = td_dtype_bytes(p->type);
  if (!tile_is_multiple(p->n.extent, s->v)) return 1;
  int64_t n = s->v;
  for (uint32_t k = 0; k < s->t->node_count; k++) {
    if (p->leads[k] != p->lead) continue;
    if (p->tails[k] != NULL) {
      size += tir_expr_size(s->t->arena, p->tails[k]);
    }
    if (p->places[k] == NULL) continue;
    const tir_value_t *v = p->places[k]->u.value;
    const tir_expr_t *last = p->places[k]->args[p->places[k]->arg_count - 1];
    if (td_dtype_bytes(v->dtype) > widest || !tile_wide_fits(v, n) ||
        last->op != TIR_X_INDEX || last->u.index != p->n.flat) {
      return 1;
    }
  }
  /* all lanes of a warp have some */
  const shape_t *h = &s->shape;
  int64_t sums = h->lanes_m * tail_rows(s) * h->lanes_n * h->columns;
  return size > LONG_TAIL || sums / n % SIMT_WARP != 0 ? 1 : n;
}

/* Row i of a lane, if lanes have n rows next to each other. */
static kir_expr_t *row_of(simt_t *s, kir_expr_t *lane, kir_expr_t *i,
                          int64_t n) {
  return add(s, times(s, quotient(s, i, n), n * s->shape.lanes_m),
             add(s, times(s, lane, n), rest(s, i, n)));
}

/* So many rows of a lane lie together in shared memory: what the lanes of a
 * column store then begins where those of the column before it end. */
static int64_t rows_together(const simt_t *s, int64_t n_rows,
                             int64_t n_columns) {
  int64_t words = (int64_t)td_dtype_bytes(s->p->type) / 4;
  int64_t n = s->shape.lanes_n * n_columns * words / 4;
  return n < 1 ? 1 : n > n_rows ? n_rows : n;
}

/* Row of the tile that a row in shared memory is. */
static kir_expr_t *tile_row(simt_t *s, kir_expr_t *row, int64_t n) {
  int64_t in_tile = neighbours(s, &s->a);
  if (in_tile == n || s->shape.lanes_m == 1) return row;
  kir_expr_t *lane = rest(s, quotient(s, row, n), s->shape.lanes_m);
  kir_expr_t *i = add(s, times(s, quotient(s, row, n * s->shape.lanes_m), n),
                      rest(s, row, n));
  return row_of(s, lane, i, in_tile);
}

/* Rows ig * n_rows .. + n_rows of every lane's sums, of one member, to shared
 * memory. */
static void put_sums(simt_t *s, kir_block_t *block, kir_expr_t *w,
                     uint32_t member, int64_t ig, int64_t n_rows) {
  tile_t *t = s->t;
  const shape_t *h = &s->shape;
  int64_t n_columns = neighbours(s, &s->b[0]);
  kir_expr_t *i, *g, *l;
  kir_expr_t *own = times(s, w, h->lanes_m * n_rows * s->stride);
  kir_block_t *body = unroll(s, block, "i", n_rows, &i);
  body = unroll(s, body, "g", h->columns / n_columns, &g);
  body = lanes(s, body, &l, NULL);
  int64_t together = rows_together(s, n_rows, n_columns);
  kir_expr_t *row = row_of(s, quotient(s, l, h->lanes_n), i, together);
  kir_expr_t *column = add(s, times(s, g, h->lanes_n * n_columns),
                           times(s, rest(s, l, h->lanes_n), n_columns));
  kir_expr_t *to = add(s, own, add(s, times(s, row, s->stride), column));
  kir_expr_t *from[4] = {w, add(s, i, tile_int(t, ig * n_rows)),
                         times(s, g, n_columns), l};
  kir_expr_t *sums = kir_load(t->arena, s->acc[member], 4, from);
  if (n_columns == 1) {
    tile_store(t, body, s->tail[member], 1, &to, sums);
  } else {
    tile_push(t, body, kir_copy_stmt(t->kernel, n_columns, s->tail[member], 1,
                                     &to, sums));
  }
}

/* Rows ig * n_rows .. + n_rows of every lane, through shared memory; n:
 * neighbours at once. */
static void finish_rows(simt_t *s, kir_block_t *block, const unit_t *unit,
                        int64_t ig, int64_t n) {
  tile_t *t = s->t;
  product_t *p = s->p;
  const shape_t *h = &s->shape;
  int64_t n_rows = tail_rows(s);
  int64_t width = h->lanes_n * h->columns, height = h->lanes_m * n_rows;
  int64_t together = rows_together(s, n_rows, neighbours(s, &s->b[0]));
  kir_expr_t *w, *l, *c, *v;
  block = warp_loop(s, block, &w);
  kir_expr_t *own = times(s, w, height * s->stride);
  for (uint32_t m = 0; m < unit->count; m++) {
    put_sums(s, block, w, m, ig, n_rows);
  }
  /* lanes along rows of memory */
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "c", tile_int(t, 0),
                    tile_int(t, height * width / n), SIMT_WARP, &c);
  ix_pool_t *pool = t->module->pool;
  const ix_poly_t *dims[2] = {ix_const(pool, n), ix_const(pool, SIMT_WARP)};
  kir_buffer_t *sum[CONTRACTION_SIDES];
  tile_wides_t wides = {.index = p->n.flat, .n = n};
  kir_stmt_t *loop;
  if (n > 1) {
    for (uint32_t m = 0; m < unit->count; m++) {
      sum[m] = tile_alloc(t, block, "sum", p->type, KIR_REGISTER, 2, dims);
    }
    for (uint32_t k = 1; k < t->node_count; k++) {
      if (p->leads[k] != p->lead || p->tails[k] == NULL) continue;
      tile_wide_find(t, &wides, p->tails[k]);
    }
    tile_wide_alloc(t, &wides, block, 0, NULL);
  }
  outlets_t outlets = {.n = n};
  alloc_outlets(s, &outlets, block);
  int64_t first_row = ig * height;
  for (int step = n > 1 ? 0 : 1; step < (n > 1 ? 3 : 2); step++) {
    v = tile_int(t, 0);
    kir_block_t *each = step == 1 ? unroll(s, block, "v", n, &v) : block;
    kir_block_t *body = lanes(s, each, &l, &loop);
    kir_expr_t *number = add(s, c, l);
    kir_expr_t *row = quotient(s, number, width / n);
    kir_expr_t *column = times(s, rest(s, number, width / n), n);
    kir_expr_t *place = add(s, own, add(s, times(s, row, s->stride), column));
    kir_expr_t *mi = add(
        s, add(s, p->mb, tile_int(t, first_row)),
        add(s, times(s, quotient(s, w, h->warps_n), h->lanes_m * h->rows),
            tile_row(s, row, together)));
    kir_expr_t *ni = add(
        s, p->nb, add(s, times(s, rest(s, w, h->warps_n), width), column));
    if (n == 1) ni = add(s, ni, v);
    loop->mask = both(
        s,
        p->m.count == 0 ? tile_less(t, mi, tile_int(t, 1))
                        : is_one(s, mi, &p->m, p->mc),
        is_below(s, ni, p->n.extent, p->nc));
    if (n > 1) ni = add(s, ni, v);
    if (p->m.count > 0) {
      tile_set_index(t, p->m.flat, contraction_row_at(p, mi));
    }
    tile_set_index(t, p->n.flat, ni);
    if (step == 0) {
      for (uint32_t m = 0; m < unit->count; m++) {
        kir_expr_t *at[2] = {tile_int(t, 0), l};
        tile_push(t, body,
                  kir_copy_stmt(t->kernel, n, sum[m], 2, at,
                                kir_load(t->arena, s->tail[m], 1, &place)));
      }
      tile_wide_load(t, &wides, body, NULL, l);
    } else if (step == 1) {
      outlets.v = v;
      outlets.l = l;
      kir_expr_t *at[2] = {v, l};
      for (uint32_t m = 0; m < unit->count; m++) {
        p->sums[unit->sides[m]] =
            n > 1 ? kir_load(t->arena, sum[m], 2, at)
                  : kir_load(t->arena, s->tail[m], 1, &place);
      }
      tile_wide_use(t, &wides, NULL, v, l);
      contraction_finish(p, body, NULL, store_one, &outlets);
      tile_wide_end(t, &wides);
    } else {
      store_rows(s, &outlets, body, l);
    }
  }
}

void contraction_simt_finish(simt_t *s, kir_block_t *block,
                             const unit_t *unit, void *unused) {
  int64_t n = width_of(s);
  (void)unused;
  for (int64_t ig = 0; ig < s->shape.rows / tail_rows(s); ig++) {
    finish_rows(s, block, unit, ig, n);
  }
}

/* ---- whole rows ---------------------------------------------------------- */

void contraction_simt_alloc_rows(simt_t *s, kir_block_t *block) {
  product_t *p = s->p;
  ix_pool_t *pool = s->t->module->pool;
  const ix_poly_t *dims[2] = {ix_const(pool, p->mc),
                              ix_const(pool, p->nc + s->v)};
  p->sides[0].tile =
      tile_alloc(s->t, block, "tile", p->type, KIR_SHARED, 2, dims);
  p->abreast_rows = s->warps;
  p->is_shallow = true;
  p->ib = tile_int(s->t, 0);
  contraction_alloc_rows(p, block);
}

/* All sums to where their rows are whole. */
static void put_tile(simt_t *s, kir_block_t *block) {
  const shape_t *h = &s->shape;
  int64_t n = neighbours(s, &s->b[0]);
  kir_expr_t *w, *i, *g, *l;
  block = warp_loop(s, block, &w);
  block = unroll(s, block, "i", h->rows, &i);
  block = unroll(s, block, "g", h->columns / n, &g);
  block = lanes(s, block, &l, NULL);
  kir_expr_t *from[4] = {w, i, times(s, g, n), l};
  kir_expr_t *to[2] = {
      add(s, times(s, quotient(s, w, h->warps_n), h->lanes_m * h->rows),
          row_of(s, quotient(s, l, h->lanes_n), i, neighbours(s, &s->a))),
      add(s, times(s, rest(s, w, h->warps_n), h->lanes_n * h->columns),
          add(s, times(s, g, h->lanes_n * n),
              times(s, rest(s, l, h->lanes_n), n)))};
  kir_expr_t *sums = kir_load(s->t->arena, s->acc[0], 4, from);
  kir_buffer_t *tile = s->p->sides[0].tile;
  if (n == 1) {
    tile_store(s->t, block, tile, 2, to, sums);
  } else {
    tile_push(s->t, block, kir_copy_stmt(s->t->kernel, n, tile, 2, to, sums));
  }
}

void contraction_simt_finish_rows(simt_t *s, kir_block_t *block) {
  product_t *p = s->p;
  put_tile(s, block);
  simple(s, block, KIR_BARRIER, 0);
  p->mh = contraction_name(
      p, block, "mh", contraction_part(p, p->mb, p->m.extent, p->mc));
  block = warp_loop(s, block, &p->row_warp);
  contraction_finish_rows(p, block);
}
