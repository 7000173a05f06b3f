/* contraction_group.c: products whose columns are chosen by data.
 *
 *   y[t, n] = sum over k of x[t, k] * w[to[t], k, n]
 *
 * Taken as it stands this is a product of one row for each t, which reads a
 * whole matrix for it.  Here the rows are grouped by what to[t] is: a block
 * iteration has one value e of it and a range of rows; it lists those of the
 * range that have this value, and goes on with them as with the rows of any
 * product, whose columns are w[e, k, n].  Where there is none it ends.  Every
 * row has one value, within the bounds of its type, so it is made once.
 *
 * The order of rows in a list does not depend on threads, and no sum depends
 * on it. */
#include "passes/tile/contraction.h"

#include "ir/expr.h"

enum { WARP = 32 };

/* What chooses is replaced by the value that a block has. */
static tir_expr_t *replace_key(void *user, tir_expr_t *e) {
  const product_t *p = user;
  return group_product_is_key(e, p->key) ? tir_index_ref(p->t->arena, p->group)
                                         : e;
}

void contraction_find_group(product_t *p) {
  tile_t *t = p->t;
  const tir_expr_t *key = p->key;
  if (key == NULL) return;
  p->group = tir_index_create((tir_module_t *)(uintptr_t)t->module,
                              key->u.value->name, key->u.value->hi, false);
}

tir_expr_t *contraction_group_columns(product_t *p, tir_expr_t *b) {
  return p->key == NULL ? b : tir_rewrite(p->t->arena, b, replace_key, p);
}

int64_t contraction_group_rows(const product_t *p) {
  int64_t m = contraction_upper(p->m.extent);
  if (p->key == NULL) return m;
  int64_t groups = contraction_upper(p->group->extent);
  int64_t expected = groups > 0 ? m / groups : m;
  if (expected > INT64_MAX / 2) return m;
  expected = 2 * expected < 1 ? 1 : 2 * expected;
  return expected < m ? expected : m;
}

/* ---- the list ------------------------------------------------------------ */

/* Row `i` of the range, if it is one of the group. */
static kir_expr_t *is_member(product_t *p, kir_expr_t *row) {
  tile_t *t = p->t;
  tile_set_index(t, p->m.flat, row);
  kir_expr_t *is_in = tile_less(t, row, tile_dim(t, p->m.extent));
  kir_expr_t *value = tile_expr(t, p->flat_key);
  kir_expr_t *group = tile_expr(t, tir_index_ref(t->arena, p->group));
  return tile_op2(t, KIR_X_AND, TDSL_DTYPE_BOOL, is_in,
                  tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, value, group));
}

static kir_expr_t *load_of(product_t *p, const kir_buffer_t *b,
                           kir_expr_t *at) {
  return kir_load(p->t->arena, b, 1, &at);
}

static kir_buffer_t *alloc_list(product_t *p, kir_block_t *block,
                                const char *name, kir_space_t space,
                                int64_t size) {
  const ix_poly_t *dims[1] = {ix_const(p->t->module->pool, size)};
  return tile_alloc(p->t, block, name, TDSL_DTYPE_I32, space, 1, dims);
}

/* By one thread, row by row. */
static void list_serially(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  kir_expr_t *i, *zero = tile_int(t, 0);
  p->list = alloc_list(p, block, "list", KIR_LOCAL, p->range);
  kir_buffer_t *found = alloc_list(p, block, "found", KIR_LOCAL, 1);
  tile_store(t, block, found, 1, &zero, zero);
  kir_block_t *body =
      tile_loop(t, block, KIR_LOOP_SERIAL, "i", p->first,
                kir_add(t->arena, p->first, tile_int(t, p->range)), 1, &i);
  body = &tile_push(t, body, tile_if(t, is_member(p, i)))->body;
  kir_expr_t *at = load_of(p, found, zero);
  tile_store(t, body, p->list, 1, &at, i);
  tile_store(t, body, found, 1, &zero,
             kir_add(t->arena, at, tile_int(t, 1)));
  p->count = contraction_name(p, block, "count", at);
}

static void barrier(product_t *p, kir_block_t *block) {
  kir_stmt_t *one = TD_NEW(p->t->arena, kir_stmt_t);
  one->kind = KIR_BARRIER;
  tile_push(p->t, block, one);
}

/* Lane loop of all threads: *id is the thread. */
static kir_block_t *threads(product_t *p, kir_block_t *block, kir_expr_t *w,
                            kir_expr_t **id, kir_stmt_t **loop) {
  tile_t *t = p->t;
  kir_expr_t *l;
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_LANE, "l", tile_int(t, 0),
                                tile_int(t, WARP), 1, &l);
  *loop = td_vec_last(block);
  *id = kir_add(t->arena, kir_mul(t->arena, w, tile_int(t, WARP)), l);
  return body;
}

/* Each thread looks at every so-manieth row, twice: to count its own, and,
 * when it knows how many the threads before it have, to list them.  Behind
 * the last one the list is filled up to `size` with a row that there is. */
static void list_by_threads(product_t *p, kir_block_t *block, int64_t warps,
                            int64_t size) {
  tile_t *t = p->t;
  td_arena_t *arena = t->arena;
  int64_t all = warps * WARP;
  kir_expr_t *w, *id, *i, *zero = tile_int(t, 0);
  kir_stmt_t *loop;
  const ix_poly_t *lanes[1] = {ix_const(t->module->pool, WARP)};
  p->list = alloc_list(p, block, "list", KIR_SHARED, p->range + size);
  kir_buffer_t *counts = alloc_list(p, block, "counts", KIR_SHARED, all + 1);
  kir_expr_t *limit = tile_int(t, p->range);
  for (int step = 0; step < 2; step++) {
    kir_block_t *warp =
        tile_loop(t, block, KIR_LOOP_WARP, "warp", zero, tile_int(t, warps),
                  1, &w);
    kir_buffer_t *own = tile_alloc(t, warp, step == 0 ? "own" : "at",
                                   TDSL_DTYPE_I64, KIR_REGISTER, 1, lanes);
    kir_block_t *body = threads(p, warp, w, &id, &loop);
    kir_expr_t *l = kir_var_ref(arena, loop->var);
    tile_store(t, body, own, 1, &l, zero);
    if (step == 1) {
      kir_block_t *before = tile_loop(t, warp, KIR_LOOP_SERIAL, "i", zero,
                                      tile_int(t, all), 1, &i);
      body = threads(p, before, w, &id, &loop);
      l = kir_var_ref(arena, loop->var);
      loop->mask = tile_less(t, i, id);
      tile_store(t, body, own, 1, &l,
                 kir_add(arena, load_of(p, own, l), load_of(p, counts, i)));
    }
    kir_block_t *rows = tile_loop(t, warp, KIR_LOOP_SERIAL, "r", zero, limit,
                                  all, &i);
    body = threads(p, rows, w, &id, &loop);
    l = kir_var_ref(arena, loop->var);
    kir_expr_t *in_range = kir_add(arena, i, id);
    kir_expr_t *row = kir_add(arena, p->first, in_range);
    loop->mask = is_member(p, row);
    if (p->range % all != 0) {
      loop->mask = tile_op2(t, KIR_X_AND, TDSL_DTYPE_BOOL,
                            tile_less(t, in_range, limit), loop->mask);
    }
    kir_expr_t *at = load_of(p, own, l);
    if (step == 1) tile_store(t, body, p->list, 1, &at, row);
    tile_store(t, body, own, 1, &l, kir_add(arena, at, tile_int(t, 1)));
    body = threads(p, warp, w, &id, &loop);
    l = kir_var_ref(arena, loop->var);
    if (step == 0) {
      tile_store(t, body, counts, 1, &id, load_of(p, own, l));
    } else {
      kir_expr_t *last = tile_int(t, all - 1), *end = tile_int(t, all);
      loop->mask = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, id, last);
      tile_store(t, body, counts, 1, &end, load_of(p, own, l));
    }
    barrier(p, block);
  }
  p->count = contraction_name(p, block, "count",
                              load_of(p, counts, tile_int(t, all)));
  kir_block_t *warp = tile_loop(t, block, KIR_LOOP_WARP, "warp", zero,
                                tile_int(t, warps), 1, &w);
  for (int64_t from = 0; from < size; from += all) {
    kir_block_t *body = threads(p, warp, w, &id, &loop);
    id = kir_add(arena, id, tile_int(t, from));
    if (from + all > size) loop->mask = tile_less(t, id, tile_int(t, size));
    kir_expr_t *at = kir_add(arena, p->count, id);
    tile_store(t, body, p->list, 1, &at, p->first);
  }
  barrier(p, block);
}

kir_block_t *contraction_group(product_t *p, kir_block_t *block,
                               int64_t warps, int64_t size) {
  tile_t *t = p->t;
  if (warps == 0) list_serially(p, block);
  else list_by_threads(p, block, warps, size);
  kir_expr_t *is_some = tile_less(t, tile_int(t, 0), p->count);
  return &tile_push(t, block, tile_if(t, is_some))->body;
}

kir_block_t *contraction_group_grid(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  kir_expr_t *group;
  block = contraction_batch(p, block);
  block = tile_loop(t, block, KIR_LOOP_BLOCK, p->group->name, tile_int(t, 0),
                    tile_dim(t, p->group->extent), 1, &group);
  tile_set_index(t, p->group, group);
  return tile_loop(t, block, KIR_LOOP_BLOCK, "from", tile_int(t, 0),
                   tile_dim(t, p->m.extent), p->range, &p->first);
}

kir_expr_t *contraction_row_at(product_t *p, kir_expr_t *at) {
  return p->key == NULL ? at : load_of(p, p->list, at);
}
