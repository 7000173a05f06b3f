/* stage_rows.c: rows that several nodes of a group read, on a GPU.
 *
 * A row (all of a value behind the shared prefix) that more than one node
 * reads is brought into scratch of the block once, in vectors where they are
 * proved; what stays in the block has room for the largest row, so that the
 * emitter can put it into shared memory.  What a guard or a choice keeps away
 * may hold what nobody wrote, unless it comes from outside: then all of it is
 * there, and masked rows are brought as well.
 * Class: bitwise.  Ledgers: bytes read from memory. */
#include "passes/tile/stage_rows.h"

#include "passes/tile/tile_wide.h"
#include "runtime/base/num.h"

enum { ROW_BYTES = 16 * 1024 }; /* of a worker: three share a block's memory */

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

int64_t tile_stage_bytes(const tir_value_t *v, uint32_t prefix) {
  int64_t bytes = (int64_t)td_dtype_bytes(v->dtype);
  for (uint32_t d = prefix; d < v->rank; d++) {
    int64_t lo, hi;
    if (!ix_interval(v->dims[d], &lo, &hi) ||
        __builtin_mul_overflow(bytes, hi, &bytes)) {
      return INT64_MAX;
    }
  }
  return bytes;
}

void tile_stage_dims(const tile_t *t, const tir_value_t *v, uint32_t prefix,
                const ix_poly_t **out) {
  bool is_small = tile_stage_bytes(v, prefix) <= ROW_BYTES;
  for (uint32_t d = prefix; d < v->rank; d++) {
    int64_t lo, hi;
    out[d - prefix] = v->dims[d];
    if (t->target->warp == 0 || !is_small) continue;
    if (!ix_interval(v->dims[d], &lo, &hi)) continue;
    out[d - prefix] = ix_const(t->module->pool, hi < 1 ? 1 : hi);
  }
}

/* ---- which rows ---------------------------------------------------------- */

typedef struct search {
  tile_t *t;
  const tir_node_t *node;
  uint32_t prefix;
  bool has_choice;   /* of the node: what it reads may depend */
  tile_rows_t *rows;
} search_t;

static tile_row_t *row_of(search_t *s, const tir_value_t *v) {
  for (size_t i = 0; i < s->rows->length; i++) {
    if (s->rows->data[i].value == v) return &s->rows->data[i];
  }
  tile_row_t row = {.value = v};
  td_vec_push(s->t->arena, s->rows, row);
  return &td_vec_last(s->rows);
}

/* All of it is there: a map has every element, and what comes from outside the
 * caller has filled. */
static bool is_whole(const tir_func_t *func, const tir_value_t *v) {
  if (v->def != NULL && v->def->kind == TIR_MAP && v->def->cascade == 0) {
    return true;
  }
  for (uint32_t i = 0; i < func->slot_count; i++) {
    if (func->slots[i].value == v) return true;
  }
  return false;
}

static void note_choice(void *user, tir_expr_t *e) {
  search_t *s = user;
  s->has_choice |= e->op == TIR_X_SELECT || e->op == TIR_X_AND ||
                   e->op == TIR_X_OR;
}

static void note_load(void *user, tir_expr_t *e) {
  search_t *s = user;
  if (e->op != TIR_X_LOAD) return;
  const tir_value_t *v = e->u.value;
  if (v->rank <= s->prefix || td_map_get_u64(&s->t->homes, key_of(v))) return;
  tile_row_t *row = row_of(s, v);
  row->readers += row->last != s->node;
  row->last = s->node;
  row->is_refused |= s->has_choice && !is_whole(s->t->func, v);
  for (uint32_t i = 0; i < s->prefix; i++) {
    const tir_index_t *index = s->node->indices[i];
    row->is_refused |= e->args[i]->op != TIR_X_INDEX ||
                       e->args[i]->u.index != index ||
                       v->dims[i] != index->extent;
  }
}

void tile_stage_find(tile_t *t, uint32_t prefix, tile_rows_t *out) {
  search_t s = {.t = t, .prefix = prefix, .rows = out};
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    s.node = n;
    s.has_choice = n->guard != NULL;
    tir_walk(t->arena, n->body, note_choice, &s);
    for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
      tir_walk(t->arena, *tir_node_expr(n, i), note_load, &s);
    }
  }
}

/* ---- bringing them ------------------------------------------------------- */

static void bring(tile_t *t, kir_block_t *block, const tir_value_t *v,
                  kir_expr_t *const *prefix_subs, uint32_t prefix) {
  const ix_poly_t *dims[IX_MAX_RANK];
  kir_expr_t *subs[IX_MAX_RANK], *l, *at;
  uint32_t last = v->rank - 1;
  kir_buffer_t *from = tile_param(t, v, true, false);
  from->is_read = true;
  tile_stage_dims(t, v, prefix, dims);
  kir_buffer_t *to = tile_alloc(t, block, v->name, v->dtype, KIR_LOCAL,
                                v->rank - prefix, dims);
  for (uint32_t d = 0; d < prefix; d++) subs[d] = prefix_subs[d];
  for (uint32_t d = prefix; d < last; d++) {
    block = tile_loop(t, block, KIR_LOOP_SERIAL, "d", tile_int(t, 0),
                      tile_dim(t, v->dims[d]), 1, &subs[d]);
  }
  int64_t n = 16 / (int64_t)td_dtype_bytes(v->dtype);
  bool is_wide = v->rank > 1 && tile_wide_fits(v, n) &&
                 tile_is_multiple(dims[last - prefix], n);
  if (!is_wide) n = 1;
  const ix_poly_t *groups =
      ix_div(t->module->pool, v->dims[last], ix_const(t->module->pool, n),
             NULL);
  kir_expr_t *end = tile_dim(t, groups);
  block = tile_loop(t, block, KIR_LOOP_SERIAL, "c", tile_int(t, 0), end,
                    TILE_LANES, &at);
  kir_block_t *lanes = tile_lanes(t, block, NULL, &l);
  at = kir_add(t->arena, at, l);
  td_vec_last(block)->mask = tile_less(t, at, end);
  subs[last] = kir_mul(t->arena, at, tile_int(t, n));
  kir_expr_t *load = kir_load(t->arena, from, v->rank, subs);
  if (n > 1) {
    tile_push(t, lanes,
              kir_copy_stmt(t->kernel, n, to, v->rank - prefix, subs + prefix,
                            load));
  } else {
    tile_store(t, lanes, to, v->rank - prefix, subs + prefix, load);
  }
  tile_set_home(t, v, to, prefix);
}

void tile_stage_rows(tile_t *t, kir_block_t *block,
                     kir_expr_t *const *prefix_subs, uint32_t prefix) {
  tile_rows_t rows = {0};
  int64_t used = 0;
  if (t->target->warp == 0 || t->node_count < 2 || prefix == 0) return;
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_value_t *v = t->nodes[k]->outs[0];
    int64_t bytes = tile_stage_bytes(v, prefix);
    bool is_here = td_map_get_u64(&t->homes, key_of(v)) != NULL;
    if (is_here && v->rank > prefix && bytes <= ROW_BYTES) used += bytes;
  }
  tile_stage_find(t, prefix, &rows);
  for (size_t i = 0; i < rows.length; i++) {
    const tile_row_t *row = &rows.data[i];
    if (row->is_refused || row->readers < 2) continue;
    int64_t bytes = tile_stage_bytes(row->value, prefix);
    if (bytes > ROW_BYTES - used) continue;
    used += bytes;
    tile_note(t, "%s: its rows are read once", row->value->name);
    bring(t, block, row->value, prefix_subs, prefix);
  }
}
