/* tile_wide.c: see tile_wide.h. */
#include "passes/tile/tile_wide.h"

#include "ir/expr.h"
#include "runtime/base/num.h"

enum { MOST_BYTES = 16, MOST_LOADS = 16 };

bool tile_is_multiple(const ix_poly_t *p, int64_t n) {
  for (uint32_t i = 0; i < p->term_count; i++) {
    if (p->terms[i].coefficient % n != 0) return false;
  }
  return true;
}

bool tile_wide_fits(const tir_value_t *v, int64_t n) {
  size_t bytes = td_dtype_bytes(v->dtype) * (size_t)n;
  if (v->rank == 0 || n < 2 || bytes > MOST_BYTES) return false;
  return v->rank == 1 || tile_is_multiple(v->dims[v->rank - 1], n);
}

/* ---- in bounds whatever guards it --------------------------------------- */

typedef struct range {
  tile_t *t;
  ix_facts_t *facts;
} range_t;

/* What a subscript is read from holds numbers within its bounds. */
static const ix_poly_t *data_symbol(void *user, const tir_expr_t *e) {
  range_t *r = user;
  if (e->op != TIR_X_LOAD || e->u.value->lo == NULL ||
      e->u.value->hi == NULL) {
    return NULL;
  }
  ix_pool_t *pool = r->t->module->pool;
  ix_symbol_t *s =
      ix_symbol_create(pool, e->u.value->name, IX_SYM_DATA, e->loc);
  s->lo = e->u.value->lo;
  s->hi = e->u.value->hi;
  return ix_sym(pool, s);
}

static void note_index(void *user, tir_expr_t *e) {
  range_t *r = user;
  if (e->op != TIR_X_INDEX) return;
  ix_pool_t *pool = r->t->module->pool;
  ix_facts_narrow(r->facts, e->u.index->symbol, ix_const(pool, 0),
                  e->u.index->extent);
  ix_facts_extent_nonempty(r->facts, pool, e->u.index->extent);
}

static bool is_in_bounds(tile_t *t, const tir_expr_t *load) {
  ix_pool_t *pool = t->module->pool;
  range_t r = {t, ix_facts_create(pool)};
  for (uint32_t d = 0; d < load->arg_count; d++) {
    tir_walk(t->arena, load->args[d], note_index, &r);
  }
  for (uint32_t d = 0; d < load->arg_count; d++) {
    const ix_poly_t *s =
        tir_expr_poly(pool, t->arena, load->args[d], data_symbol, &r);
    const ix_poly_t *room =
        s == NULL ? NULL : ix_sub(pool, load->u.value->dims[d], s);
    if (room == NULL || !ix_prove_nonnegative(pool, s, r.facts) ||
        !ix_prove_positive(pool, room, r.facts)) {
      return false;
    }
  }
  return true;
}

/* ---- which loads -------------------------------------------------------- */

typedef struct finder {
  tile_t *t;
  tile_wides_t *w;
  td_map_t refused; /* tir_value_t* -> non-NULL */
} finder_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* Small trees; equal text means equal places. */
static bool same(const tir_expr_t *a, const tir_expr_t *b, int depth) {
  if (a == b) return true;
  if (depth > 16 || a->op != b->op || a->arg_count != b->arg_count) {
    return false;
  }
  switch ((int)a->op) {
    case TIR_X_INDEX: return a->u.index == b->u.index;
    case TIR_X_DIM: return a->u.dim == b->u.dim;
    case TIR_X_LOAD:
      if (a->u.value != b->u.value) return false;
      break;
    case TIR_X_CONST: return a->type == TDSL_DTYPE_I64 &&
                             b->type == TDSL_DTYPE_I64 &&
                             a->u.i64 == b->u.i64;
    case TIR_X_ADD: case TIR_X_SUB: case TIR_X_MUL: case TIR_X_DIV:
    case TIR_X_MOD: break;
    default: return false;
  }
  for (uint32_t i = 0; i < a->arg_count; i++) {
    if (!same(a->args[i], b->args[i], depth + 1)) return false;
  }
  return true;
}

static bool is_along(const finder_t *f, const tir_expr_t *e) {
  const tir_value_t *v = e->u.value;
  tile_t *t = f->t;
  if (e->arg_count == 0 || !tile_wide_fits(v, f->w->n)) return false;
  const tir_expr_t *last = e->args[e->arg_count - 1];
  if (last->op != TIR_X_INDEX || last->u.index != f->w->index) return false;
  for (uint32_t d = 0; d + 1 < e->arg_count; d++) {
    if (tir_mentions_index(t->arena, e->args[d], f->w->index)) return false;
  }
  tile_home_t *home = td_map_get_u64(&t->homes, key_of(v));
  bool is_memory = home == NULL || (home->buffer != NULL &&
                                    home->buffer->space == KIR_GLOBAL);
  return is_memory && td_map_get_u64(&t->elements, key_of(v)) == NULL &&
         is_in_bounds(t, e);
}

/* A value that is read at two places stays with ordinary loads: what stands
 * for a load is found by its value. */
static void look(void *user, tir_expr_t *e) {
  finder_t *f = user;
  if (e->op != TIR_X_LOAD) return;
  const tir_value_t *v = e->u.value;
  for (size_t i = 0; i < f->w->loads.length; i++) {
    const tir_expr_t *known = f->w->loads.data[i].load;
    if (known->u.value != v) continue;
    bool is_same = e->arg_count == known->arg_count;
    for (uint32_t d = 0; d < e->arg_count && is_same; d++) {
      is_same = same(e->args[d], known->args[d], 0);
    }
    if (is_same) return;
    td_map_put_u64(&f->refused, key_of(v), f);
    return;
  }
  if (f->w->loads.length >= MOST_LOADS || !is_along(f, e)) {
    td_map_put_u64(&f->refused, key_of(v), f);
    return;
  }
  tile_wide_t one = {.load = e};
  td_vec_push(f->t->arena, &f->w->loads, one);
}

void tile_wide_find(tile_t *t, tile_wides_t *w, tir_expr_t *e) {
  finder_t f = {.t = t, .w = w};
  td_map_init(&f.refused, t->arena);
  tir_walk(t->arena, e, look, &f);
  size_t kept = 0;
  for (size_t i = 0; i < w->loads.length; i++) {
    const tir_value_t *v = w->loads.data[i].load->u.value;
    if (td_map_get_u64(&f.refused, key_of(v)) != NULL) continue;
    w->loads.data[kept++] = w->loads.data[i];
  }
  w->loads.length = kept;
}

/* ---- rows --------------------------------------------------------------- */

void tile_wide_alloc(tile_t *t, tile_wides_t *w, kir_block_t *block,
                     uint32_t lead_count, const int64_t *lead) {
  ix_pool_t *pool = t->module->pool;
  const ix_poly_t *dims[IX_MAX_RANK];
  for (uint32_t d = 0; d < lead_count; d++) dims[d] = ix_const(pool, lead[d]);
  dims[lead_count] = ix_const(pool, w->n);
  dims[lead_count + 1] = ix_const(pool, t->target->warp);
  w->lead_count = lead_count;
  for (size_t i = 0; i < w->loads.length; i++) {
    tile_wide_t *one = &w->loads.data[i];
    const tir_value_t *v = one->load->u.value;
    one->rows = tile_alloc(t, block, v->name, v->dtype, KIR_REGISTER,
                           lead_count + 2, dims);
  }
}

static void place(const tile_wides_t *w, kir_expr_t *const *lead,
                  kir_expr_t *v, kir_expr_t *lane, kir_expr_t **out) {
  for (uint32_t d = 0; d < w->lead_count; d++) out[d] = lead[d];
  out[w->lead_count] = v;
  out[w->lead_count + 1] = lane;
}

void tile_wide_load(tile_t *t, tile_wides_t *w, kir_block_t *lanes,
                    kir_expr_t *const *lead, kir_expr_t *lane) {
  kir_expr_t *to[IX_MAX_RANK];
  place(w, lead, tile_int(t, 0), lane, to);
  for (size_t i = 0; i < w->loads.length; i++) {
    tile_wide_t *one = &w->loads.data[i];
    kir_expr_t *load = tile_expr(t, (tir_expr_t *)(uintptr_t)one->load);
    tile_push(t, lanes,
              kir_copy_stmt(t->kernel, w->n, one->rows, w->lead_count + 2, to,
                            load));
  }
}

void tile_wide_use(tile_t *t, tile_wides_t *w, kir_expr_t *const *lead,
                   kir_expr_t *v, kir_expr_t *lane) {
  kir_expr_t *at[IX_MAX_RANK];
  place(w, lead, v, lane, at);
  for (size_t i = 0; i < w->loads.length; i++) {
    const tile_wide_t *one = &w->loads.data[i];
    tile_set_element(t, one->load->u.value,
                     kir_load(t->arena, one->rows, w->lead_count + 2, at));
  }
}

void tile_wide_end(tile_t *t, tile_wides_t *w) {
  for (size_t i = 0; i < w->loads.length; i++) {
    tile_set_element(t, w->loads.data[i].load->u.value, NULL);
  }
}
