/* group_product.c: see group_product.h. */
#include "passes/tensor/group_product.h"

#include "passes/tensor/group_kernels.h"
#include "passes/tensor/price.h"

enum {
  MIN_DEPTH = 4,
  MIN_COLUMNS = TIR_LANES / 2,
  MIN_WORK = 4096,
  MOST_GROUPS = 1024, /* values of a key: each has a block of its own */
  FEW_ROWS = 2,       /* of a value, or there is nothing to share */
};

static void add_index(product_list_t *l, tir_index_t *index) {
  l->indices[l->count++] = index;
}

static bool ends_with(const product_list_t *l, const tir_index_t *index) {
  return l->count > 0 && l->indices[l->count - 1] == index;
}

/* ---- rows that choose their columns -------------------------------------- */

bool group_product_is_key(const tir_expr_t *e, const tir_expr_t *key) {
  if (e->op != TIR_X_LOAD || e->u.value != key->u.value) return false;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (e->args[i]->op != TIR_X_INDEX ||
        e->args[i]->u.index != key->args[i]->u.index) {
      return false;
    }
  }
  return true;
}

/* A number from memory, at parallel indices, that its type bounds from 0 on. */
static bool may_be_key(const tir_expr_t *e) {
  int64_t lo, hi;
  if (e->op != TIR_X_LOAD || e->arg_count == 0 ||
      e->u.value->lo == NULL || e->u.value->hi == NULL ||
      !ix_is_const(e->u.value->lo, &lo) || lo != 0 ||
      !ix_interval(e->u.value->hi, &lo, &hi) || hi < 1 || hi > MOST_GROUPS) {
    return false;
  }
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (e->args[i]->op != TIR_X_INDEX || e->args[i]->u.index->is_reduction) {
      return false;
    }
  }
  return true;
}

static void find_key(void *user, tir_expr_t *e) {
  const tir_expr_t **key = user;
  if (e->op != TIR_X_LOAD || *key != NULL) return;
  for (uint32_t d = 0; d < e->arg_count; d++) {
    if (may_be_key(e->args[d])) *key = e->args[d];
  }
}

typedef struct unkeyed {
  td_arena_t *arena;
  const tir_expr_t *key;
} unkeyed_t;

static tir_expr_t *drop_key(void *user, tir_expr_t *e) {
  const unkeyed_t *u = user;
  return group_product_is_key(e, u->key)
             ? tir_const_i(u->arena, TDSL_DTYPE_I64, 0)
             : e;
}

static bool has_index(const product_list_t *l, const tir_index_t *index) {
  for (uint32_t i = 0; i < l->count; i++) {
    if (l->indices[i] == index) return true;
  }
  return false;
}

/* Indices that b knows by a key alone are those of rows, if there are no
 * others and each value of the key has several. */
static void group_rows(td_arena_t *scratch, product_form_t *f) {
  const tir_expr_t *key = NULL;
  product_list_t in_key = {0}, rows = {0}, batch = {0}, columns = {0};
  double count = 1.0;
  int64_t lo, hi;
  if (f->m.count > 0 || f->node->guard != NULL) return;
  tir_walk(scratch, f->b, find_key, &key);
  if (key == NULL || !ix_interval(key->u.value->hi, &lo, &hi)) return;
  for (uint32_t i = 0; i < key->arg_count; i++) {
    add_index(&in_key, (tir_index_t *)(uintptr_t)key->args[i]->u.index);
  }
  if (has_index(&in_key, f->node->indices[f->par - 1])) return;
  unkeyed_t u = {scratch, key};
  tir_expr_t *b = tir_rewrite(scratch, f->b, drop_key, &u);
  for (uint32_t i = 0; i < f->par; i++) {
    tir_index_t *index = f->node->indices[i];
    if (has_index(&in_key, index)) {
      if (tir_mentions_index(scratch, b, index)) return;
      add_index(&rows, index);
      count *= tensor_most(index->extent);
    } else {
      add_index(has_index(&f->n, index) ? &columns : &batch, index);
    }
  }
  if (columns.count == 0 || count < FEW_ROWS * (double)hi) return;
  f->m = rows;
  f->n = columns;
  f->batch = batch;
  f->key = key;
}

bool group_product_find_form(td_arena_t *scratch, tir_node_t *n,
                             product_form_t *out) {
  product_list_t only_x = {0}, only_y = {0};
  if (!group_is_contraction(n)) return false;
  *out = (product_form_t){.node = n, .par = tensor_parallel(n)};
  tir_expr_t *x = n->body->args[0], *y = n->body->args[1];
  if (out->par == n->index_count) return false;
  for (uint32_t i = 0; i < out->par; i++) {
    bool in_x = tir_mentions_index(scratch, x, n->indices[i]);
    bool in_y = tir_mentions_index(scratch, y, n->indices[i]);
    if (!in_x && !in_y) return false;
    add_index(in_x && in_y ? &out->batch : in_x ? &only_x : &only_y,
              n->indices[i]);
  }
  for (uint32_t i = out->par; i < n->index_count; i++) {
    add_index(&out->k, n->indices[i]);
  }
  const tir_index_t *last = n->indices[out->par - 1];
  bool is_x = ends_with(&only_x, last);
  if (!is_x && !ends_with(&only_y, last)) return false;
  out->n = is_x ? only_x : only_y;
  out->m = is_x ? only_y : only_x;
  out->a = is_x ? y : x; /* fma(x, y, z) has the bits of fma(y, x, z) */
  out->b = is_x ? x : y;
  group_rows(scratch, out);
  return true;
}

static double count_of(const product_list_t *l) {
  double count = 1.0;
  for (uint32_t i = 0; i < l->count; i++) {
    count *= tensor_most(l->indices[i]->extent);
  }
  return count;
}

bool group_product_pays(const product_form_t *f) {
  double n = count_of(&f->n), k = count_of(&f->k);
  return k >= MIN_DEPTH && n >= MIN_COLUMNS &&
         n * k * count_of(&f->m) >= MIN_WORK;
}

bool group_product_is_parallel(const tir_node_t *x, const tir_node_t *y) {
  uint32_t par = tensor_parallel(x);
  if (tensor_parallel(y) != par) return false;
  for (uint32_t i = 0; i < par; i++) {
    if (x->indices[i]->extent != y->indices[i]->extent) return false;
  }
  return true;
}

static bool are_known(const product_list_t *l) {
  int64_t n;
  for (uint32_t i = 0; i < l->count; i++) {
    if (!ix_is_const(l->indices[i]->extent, &n) || n <= 0) return false;
  }
  return true;
}

bool group_product_row_prefix(const product_form_t *f, uint32_t *prefix) {
  if (f->m.count == 0 || f->key != NULL || f->node->guard != NULL ||
      !are_known(&f->n) || !are_known(&f->k)) {
    return false;
  }
  *prefix = f->par - f->n.count;
  for (uint32_t i = 0; i < f->n.count; i++) {
    if (f->node->indices[*prefix + i] != f->n.indices[i]) return false;
  }
  return true;
}

int64_t group_product_row_columns(int64_t depth) {
  return depth > GROUP_DEPTH ? 256 : 512;
}

/* Tiles of warps, as wide as a lane has registers for. Shared memory has two
 * stages of both operands, or all sums and what warps keep of rows. */
int64_t group_product_row_tile(const ir_target_t *target, int64_t columns,
                               int64_t depth, int64_t kept,
                               int64_t *out_width) {
  enum { SIZE = 4, GAP = 64 }; /* bytes of f32; elements between groups */
  static const int64_t tiles[][2] = {{128, 32}, {64, 64}, {64, 128},
                                     {32, 256}, {32, 384},
                                     {32, 512}};
  for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
    int64_t rows = tiles[i][0], width = tiles[i][1], own;
    if (columns > width || columns < 1) continue;
    if (width > group_product_row_columns(depth)) return 0;
    int64_t stages = 2 * (GROUP_ROW_DEPTH * (rows + width) + GAP);
    int64_t sums = rows * (width + 4);
    if (__builtin_mul_overflow(kept, (int64_t)GROUP_ROW_WARPS, &own) ||
        stages * SIZE > (int64_t)target->shared_most ||
        own > (int64_t)target->shared_most - sums * SIZE) {
      return 0;
    }
    *out_width = width;
    return rows;
  }
  return 0;
}

/* ---- what follows -------------------------------------------------------- */

typedef struct following {
  tir_node_t *const *nodes;
  uint32_t count;
  const tir_node_t *reader;
  bool reads, is_elsewhere;
} following_t;

static const tir_node_t *maker_of(const following_t *f,
                                  const tir_value_t *v) {
  for (uint32_t k = 0; k < f->count; k++) {
    if (f->nodes[k]->outs[0] == v) return f->nodes[k];
  }
  return NULL;
}

/* A load of the group that is not the element of the reader's own tuple. */
static void check_element(void *user, tir_expr_t *e) {
  following_t *f = user;
  const tir_node_t *def =
      e->op == TIR_X_LOAD ? maker_of(f, e->u.value) : NULL;
  if (def == NULL) return;
  f->reads = true;
  f->is_elsewhere |= !group_product_is_parallel(def, f->reader);
  for (uint32_t i = 0; i < e->arg_count && !f->is_elsewhere; i++) {
    f->is_elsewhere = e->args[i]->op != TIR_X_INDEX ||
                      e->args[i]->u.index != f->reader->indices[i];
  }
}

bool group_product_reads(td_arena_t *scratch, tir_node_t *const *nodes,
                         uint32_t count, tir_node_t *reader,
                         bool *is_elsewhere) {
  following_t f = {.nodes = nodes, .count = count, .reader = reader};
  for (uint32_t i = 0; i < tir_node_expr_count(reader); i++) {
    tir_walk(scratch, *tir_node_expr(reader, i), check_element, &f);
  }
  *is_elsewhere = f.is_elsewhere;
  return f.reads;
}

bool group_product_has_rows(td_arena_t *scratch, tir_node_t *const *nodes,
                            uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    bool is_elsewhere;
    if (group_is_contraction(nodes[k])) continue;
    if (nodes[k]->reduce != TIR_REDUCE_NONE ||
        !group_product_reads(scratch, nodes, k, nodes[k], &is_elsewhere) ||
        is_elsewhere) {
      return true;
    }
  }
  return false;
}

/* ---- sides --------------------------------------------------------------- */

typedef struct adoption {
  td_arena_t *arena;
  uint32_t count;
  tir_index_t *from[2 * IX_MAX_RANK];
  tir_expr_t *to[2 * IX_MAX_RANK];
} adoption_t;

static bool pair(adoption_t *d, const product_list_t *from,
                 const product_list_t *to) {
  if (from->count != to->count) return false;
  for (uint32_t i = 0; i < from->count; i++) {
    if (from->indices[i]->extent != to->indices[i]->extent) return false;
    d->from[d->count] = from->indices[i];
    d->to[d->count++] = tir_index_ref(d->arena, to->indices[i]);
  }
  return true;
}

static bool pair_all(adoption_t *d, const product_form_t *first,
                           const product_form_t *f) {
  if (!pair(d, &f->batch, &first->batch) || !pair(d, &f->m, &first->m) ||
      !pair(d, &f->k, &first->k)) {
    return false;
  }
  return !group_product_is_parallel(first->node, f->node) ||
         pair(d, &f->n, &first->n);
}

tir_expr_t *group_product_adopt(td_arena_t *arena, const product_form_t *first,
                                const product_form_t *f, tir_expr_t *e) {
  adoption_t d = {.arena = arena};
  if (!pair_all(&d, first, f)) return e;
  return tir_replace_indices(arena, e, d.count, d.from, d.to);
}

bool group_product_is_side(td_arena_t *scratch, const product_form_t *first,
                           const product_form_t *f) {
  const tir_node_t *x = first->node, *y = f->node;
  adoption_t d = {.arena = scratch};
  if (x->guard != NULL || y->guard != NULL || x->uses_tf32 != y->uses_tf32 ||
      x->body->type != y->body->type || !pair_all(&d, first, f)) {
    return false;
  }
  tir_interner_t interner;
  tir_interner_init(&interner, scratch);
  tir_expr_t *a =
      tir_replace_indices(scratch, f->a, d.count, d.from, d.to);
  if ((f->key == NULL) != (first->key == NULL)) return false;
  if (f->key != NULL &&
      !group_product_is_key(
          tir_replace_indices(scratch, (tir_expr_t *)(uintptr_t)f->key,
                              d.count, d.from, d.to),
          first->key)) {
    return false;
  }
  return tir_intern(&interner, a) == tir_intern(&interner, first->a);
}
