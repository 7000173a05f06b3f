/* join_judge.c: see join_judge.h.
 *
 * A node joins the group before it if it reads something of the group, and
 * reads it with the shared prefix unchanged: then what it needs is complete
 * within one block iteration.  Scratch of a block is capped, so that it
 * stays in cache.  A product joins products with an equal operand. */
#include "passes/tensor/join_judge.h"

#include "passes/tensor/group_kernels.h"
#include "runtime/base/num.h"

enum {
  SCRATCH_LIMIT = GROUP_ROW_BYTES,
  OPERATION_LIMIT = 1500, /* of a kernel: code costs more than linear time */
  VALUE_LIMIT = 400,      /* values of a kernel: GPUs take 4 KiB of arguments */
};

static remark_code_t too_much(group_t *g, remark_code_t code,
                              const char *what, int64_t need, int64_t most) {
  g->limit = (tensor_limit_t){what, need, most};
  return code;
}

static remark_code_t too_many_nodes(group_t *g, int64_t most) {
  return too_much(g, REMARK_CODE_FUSE_REGISTERS, "nodes", g->count + 1, most);
}

/* A part that a block keeps. */
static remark_code_t judge_part(group_t *g, int64_t bytes) {
  return bytes <= SCRATCH_LIMIT
             ? REMARK_CODE_FUSE_DONE
             : too_much(g, REMARK_CODE_FUSE_SHARED_BYTES, "part_bytes", bytes,
                        SCRATCH_LIMIT);
}

/* ---- joining ------------------------------------------------------------- */

typedef struct join {
  td_arena_t *scratch;
  tir_node_t *const *nodes;
  uint32_t count;
  const tir_node_t *reader;
  uint32_t prefix;
  bool reads_group, is_refused;
} join_t;

static const tir_node_t *definer(const join_t *j, const tir_value_t *v) {
  for (uint32_t k = 0; k < j->count; k++) {
    for (uint32_t i = 0; i < j->nodes[k]->out_count; i++) {
      if (j->nodes[k]->outs[i] == v) return j->nodes[k];
    }
  }
  return NULL;
}

static void check_load(void *user, tir_expr_t *e) {
  join_t *j = user;
  const tir_node_t *def =
      e->op == TIR_X_LOAD ? definer(j, e->u.value) : NULL;
  if (def == NULL) return;
  j->reads_group = true;
  if (e->arg_count < j->prefix || def->kind == TIR_UPDATE) {
    j->is_refused = true;
    return;
  }
  for (uint32_t i = 0; i < j->prefix; i++) {
    if (e->args[i]->op != TIR_X_INDEX ||
        e->args[i]->u.index != j->reader->indices[i]) {
      j->is_refused = true;
    }
  }
}

static void check_reads(join_t *j, tir_node_t *reader) {
  j->reader = reader;
  for (uint32_t i = 0; i < tir_node_expr_count(reader); i++) {
    tir_walk(j->scratch, *tir_node_expr(reader, i), check_load, j);
  }
}

/* Largest bytes of one block's part of a value; INT64_MAX if unknown. */
static int64_t scratch_of(const tir_value_t *v, uint32_t prefix) {
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

static bool group_mentions(const join_t *j, const tir_value_t *v) {
  for (uint32_t k = 0; k < j->count; k++) {
    for (uint32_t i = 0; i < tir_node_expr_count(j->nodes[k]); i++) {
      if (tir_mentions_value(j->scratch, *tir_node_expr(j->nodes[k], i), v)) {
        return true;
      }
    }
  }
  return false;
}

/* An update that stores each element once, into what the group does not
 * read. */
static bool may_store(const join_t *j, tir_node_t *n) {
  const tir_value_t *target = n->operands[0];
  if (n->is_accumulate || !n->is_distinct || n->guard != NULL ||
      definer(j, target) != NULL || group_mentions(j, target)) {
    return false;
  }
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    if (tir_mentions_value(j->scratch, *tir_node_expr(n, i), target)) {
      return false;
    }
  }
  return true;
}

/* A reduction whose last parallel index would be the blocks': each of them
 * would take a column, element by element, past all others. */
static bool has_column(group_t *g, uint32_t count, uint32_t prefix) {
  for (uint32_t k = 0; k < count; k++) {
    const tir_node_t *n = g->nodes[k];
    if (tensor_parallel(n) == prefix &&
        group_is_column(&g->scratch, n)) {
      return true;
    }
  }
  return false;
}

/* FUSE_DONE: may join; else why not. */
static remark_code_t judge_join(group_t *g, tir_node_t *n) {
  td_arena_t *scratch = &g->scratch;
  tir_node_t **nodes = g->nodes;
  uint32_t count = g->count;
  join_t j = {.scratch = scratch, .nodes = nodes, .count = count};
  if (n->cascade != 0 || (n->kind == TIR_UPDATE && !may_store(&j, n)) ||
      (n->kind != TIR_MAP && n->kind != TIR_UPDATE)) {
    return REMARK_CODE_FUSE_KIND;
  }
  if (group_is_contraction(n)) return REMARK_CODE_FUSE_COSTS_MORE;
  if (count >= GROUP_NODES) return too_many_nodes(g, GROUP_NODES);
  nodes[count] = n; /* room was left */
  j.prefix = group_prefix(nodes, count + 1);
  /* single numbers need no loops to share */
  bool is_number = tensor_parallel(nodes[0]) == 0 && tensor_parallel(n) == 0;
  if (j.prefix == 0 && !is_number) return REMARK_CODE_FUSE_UNSPLITTABLE;
  check_reads(&j, n);
  if (!j.reads_group) return REMARK_CODE_FUSE_ORDER;
  if (has_column(g, count + 1, j.prefix)) return REMARK_CODE_FUSE_COLUMNS;
  int64_t bytes = 0;
  for (uint32_t k = 0; k < count; k++) {
    /* a smaller prefix may break what joined before */
    join_t before = {.scratch = scratch, .nodes = nodes, .count = k,
                     .prefix = j.prefix};
    check_reads(&before, nodes[k]);
    j.is_refused |= before.is_refused;
    if (nodes[k]->kind == TIR_UPDATE) continue;
    int64_t part = scratch_of(nodes[k]->outs[0], j.prefix);
    if (__builtin_add_overflow(bytes, part, &bytes)) bytes = INT64_MAX;
  }
  if (j.is_refused) return REMARK_CODE_FUSE_UNSPLITTABLE;
  return judge_part(g, bytes);
}

/* ---- products and their ends --------------------------------------------- */

/* A map or an update that reads elements of the products at its own
 * indices. */
static remark_code_t judge_end(group_t *g, tir_node_t *n) {
  td_arena_t *scratch = &g->scratch;
  tir_node_t **nodes = g->nodes;
  uint32_t count = g->count;
  join_t j = {.scratch = scratch, .nodes = nodes, .count = count};
  bool is_update = n->kind == TIR_UPDATE;
  if (n->cascade != 0 || (n->kind != TIR_MAP && !is_update)) {
    return REMARK_CODE_FUSE_KIND;
  }
  if (is_update && !may_store(&j, n)) return REMARK_CODE_FUSE_KIND;
  if (n->reduce != TIR_REDUCE_NONE) return REMARK_CODE_FUSE_UNSPLITTABLE;
  if (count >= GROUP_NODES) return too_many_nodes(g, GROUP_NODES);
  bool is_elsewhere;
  if (!group_product_reads(scratch, nodes, count, n, &is_elsewhere)) {
    return REMARK_CODE_FUSE_ORDER;
  }
  return is_elsewhere ? REMARK_CODE_FUSE_UNSPLITTABLE : REMARK_CODE_FUSE_DONE;
}

/* A map over the rows, and more, that finishes what a cascade computed. */
static remark_code_t judge_finish(group_t *g, tir_node_t *n) {
  int64_t bytes = 0;
  if (n->kind != TIR_MAP || n->cascade != 0) return REMARK_CODE_FUSE_KIND;
  if (g->count >= GROUP_CASCADE_NODES) {
    return too_many_nodes(g, GROUP_CASCADE_NODES);
  }
  join_t j = {.scratch = &g->scratch, .nodes = g->nodes, .count = g->count};
  check_reads(&j, n);
  if (!j.reads_group) return REMARK_CODE_FUSE_ORDER;
  if (!group_is_finish(&g->scratch, g->nodes, g->count, n, SCRATCH_LIMIT,
                       &bytes)) {
    return REMARK_CODE_FUSE_UNSPLITTABLE;
  }
  return judge_part(g, bytes);
}

/* ---- a group that grows -------------------------------------------------- */

static size_t operations(td_arena_t *scratch, tir_node_t *n) {
  size_t size = 0;
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    size += tir_expr_size(scratch, *tir_node_expr(n, i));
  }
  return size;
}

/* Values that a group has not met. */
typedef struct fresh {
  const td_map_t *old;
  td_map_t seen;
  size_t count;
} fresh_t;

static void note_value(fresh_t *f, const tir_value_t *value) {
  uint64_t key = (uint64_t)(uintptr_t)value;
  if (td_map_get_u64(f->old, key) != NULL ||
      td_map_get_u64(&f->seen, key) != NULL) {
    return;
  }
  f->count++;
  td_map_put_u64(&f->seen, key, (void *)(uintptr_t)key);
}

static void note_values(void *user, tir_expr_t *e) {
  if (e->op == TIR_X_LOAD) note_value(user, e->u.value);
}

static void find_fresh(group_t *g, tir_node_t *n, fresh_t *f) {
  *f = (fresh_t){.old = &g->values};
  td_map_init(&f->seen, &g->scratch);
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_walk(&g->scratch, *tir_node_expr(n, i), note_values, f);
  }
  for (uint32_t i = 0; i < n->out_count; i++) note_value(f, n->outs[i]);
}

static remark_code_t judge_room(group_t *g, tir_node_t *n) {
  fresh_t f;
  find_fresh(g, n, &f);
  size_t values = g->value_count + f.count;
  size_t size = g->size + operations(&g->scratch, n);
  if (values > VALUE_LIMIT) {
    return too_much(g, REMARK_CODE_FUSE_REGISTERS, "values", (int64_t)values,
                    VALUE_LIMIT);
  }
  return size <= OPERATION_LIMIT
             ? REMARK_CODE_FUSE_DONE
             : too_much(g, REMARK_CODE_FUSE_REGISTERS, "operations",
                        (int64_t)size, OPERATION_LIMIT);
}

void group_accept(group_t *g, tir_node_t *n) {
  fresh_t f;
  product_form_t form;
  find_fresh(g, n, &f);
  g->value_count += f.count;
  for (size_t i = 0; i < f.seen.length; i++) {
    uint64_t key = f.seen.entries[i].number;
    td_map_put_u64(&g->values, key, (void *)(uintptr_t)key);
  }
  g->size += operations(&g->scratch, n);
  if (g->is_product && group_product_find_form(&g->scratch, n, &form)) {
    g->sides[g->side_count++] = form;
  }
  g->nodes[g->count++] = n;
}

/* The first product is made in tiles, whatever the target. */
static bool has_tiles(const group_t *g) {
  return g->has_tiles && g->side_count > 0 &&
         g->sides[0].node->guard == NULL && group_product_pays(&g->sides[0]);
}

static bool has_known_columns(const product_form_t *f) {
  int64_t n;
  for (uint32_t i = 0; i < f->n.count; i++) {
    if (!ix_is_const(f->n.indices[i]->extent, &n) || n <= 0) return false;
  }
  return true;
}

/* Columns of sides are cut into equally many pieces: they are all equal, or
 * all are known now. */
static bool may_share_grid(const group_t *g, const product_form_t *f) {
  bool are_equal = true, are_known = has_known_columns(f);
  for (uint32_t i = 0; i < g->side_count; i++) {
    are_equal &= group_product_is_parallel(g->sides[i].node, f->node);
    are_known &= has_known_columns(&g->sides[i]);
  }
  return are_equal || are_known;
}

/* A product beside those that are there. */
static remark_code_t judge_side(group_t *g, tir_node_t *n) {
  product_form_t form;
  join_t j = {.scratch = &g->scratch, .nodes = g->nodes, .count = g->count,
              .reader = n};
  check_reads(&j, n);
  if (j.reads_group) return REMARK_CODE_FUSE_COSTS_MORE;
  if (!has_tiles(g) ||
      !group_product_find_form(&g->scratch, n, &form) ||
      !group_product_pays(&form) ||
      !group_product_is_side(&g->scratch, &g->sides[0], &form) ||
      !may_share_grid(g, &form)) {
    return REMARK_CODE_FUSE_ORDER;
  }
  if (g->count >= GROUP_NODES) return too_many_nodes(g, GROUP_NODES);
  return g->side_count < GROUP_SIDES
             ? REMARK_CODE_FUSE_DONE
             : too_much(g, REMARK_CODE_FUSE_REGISTERS, "products",
                        g->side_count + 1, GROUP_SIDES);
}

/* ---- products and their rows --------------------------------------------- */

/* The rows and batch of all products, as leading indices of each. */
static bool row_prefix(const group_t *g, uint32_t *prefix) {
  for (uint32_t s = 0; s < g->side_count; s++) {
    uint32_t own;
    if (!group_product_row_prefix(&g->sides[s], &own)) return false;
    if (s > 0 && own != *prefix) return false;
    *prefix = own;
  }
  return g->side_count > 0;
}

static bool has_prefix(const tir_node_t *first, const tir_node_t *n,
                       uint32_t prefix) {
  if (tensor_parallel(n) < prefix) return false;
  for (uint32_t i = 0; i < prefix; i++) {
    if (n->indices[i]->extent != first->indices[i]->extent) return false;
  }
  return true;
}

/* Tuples of a node from index `from` on, at their bounds. */
static double tuples_of(const tir_node_t *n, uint32_t from, uint32_t to) {
  double count = 1.0;
  for (uint32_t i = from; i < to; i++) {
    count *= tensor_most(n->indices[i]->extent);
  }
  return count;
}

/* Blocks have all columns of their rows; as many blocks as cores would take
 * are left, or there is little to do. */
static bool has_blocks(const group_t *g, uint32_t prefix, double columns) {
  enum { MOST_BLOCKS = 8 };
  const double little = 1 << 20, much = 1 << 28; /* multiply-adds */
  const tir_node_t *n = g->sides[0].node;
  double rows = tuples_of(n, 0, prefix);
  double work = rows * columns * tuples_of(n, tensor_parallel(n),
                                           n->index_count);
  double wanted = work / much;
  if (wanted < 2) wanted = 2;
  if (wanted > MOST_BLOCKS) wanted = MOST_BLOCKS;
  return work < little || rows > (wanted - 1) * (double)g->target->mc;
}

/* The same on a device with warps: a block for each multiprocessor, or less
 * for one to do than a launch takes. */
static bool has_device(const group_t *g, uint32_t prefix, double columns,
                       int64_t tile_rows) {
  const tir_node_t *n = g->sides[0].node;
  const ir_target_t *target = g->target;
  double rows = tuples_of(n, 0, prefix);
  double depth = tuples_of(n, tensor_parallel(n), n->index_count);
  double flops = 2 * (double)tile_rows * columns * depth;
  double rate = (double)target->flops / target->sms; /* of one, in 1 / ns */
  return rows > ((double)target->sms - 1) * (double)tile_rows ||
         flops < rate * target->launch;
}

/* Part of a row that a block keeps beside the sums. */
static int64_t kept_bytes(const group_t *g, tir_node_t *n, uint32_t prefix) {
  int64_t bytes = n->kind == TIR_UPDATE ? 0 : scratch_of(n->outs[0], prefix);
  for (uint32_t k = 0; k < g->count; k++) {
    if (g->nodes[k]->kind == TIR_UPDATE) continue;
    int64_t part = scratch_of(g->nodes[k]->outs[0], prefix);
    if (__builtin_add_overflow(bytes, part, &bytes)) return INT64_MAX;
  }
  return bytes;
}

/* What warps finish of a tile of whole rows. */
static remark_code_t judge_warp_rows(group_t *g, tir_node_t *n,
                                     uint32_t prefix, double columns) {
  const product_form_t *f = &g->sides[0];
  int64_t kept = kept_bytes(g, n, prefix), width;
  if (kept < INT64_MAX / 2) kept += GROUP_NODES * 16; /* where each begins */
  if (f->node->body->type != TDSL_DTYPE_F32 || f->n.count != 1 ||
      f->node->guard != NULL) {
    return REMARK_CODE_FUSE_UNSPLITTABLE;
  }
  double terms = tuples_of(f->node, f->par, f->node->index_count);
  int64_t depth = terms > 1e18 ? INT64_MAX : (int64_t)terms;
  int64_t most = group_product_row_columns(depth);
  if (columns > (double)most) {
    int64_t need = columns > 1e18 ? INT64_MAX : (int64_t)columns;
    return too_much(g, REMARK_CODE_FUSE_REGISTERS, "columns", need, most);
  }
  int64_t rows = group_product_row_tile(g->target, (int64_t)columns, depth,
                                        kept, &width);
  if (rows == 0) {
    return too_much(g, REMARK_CODE_FUSE_SHARED_BYTES, "part_bytes", kept,
                    (int64_t)g->target->shared_most);
  }
  if (tuples_of(n, prefix, n->index_count) > columns ||
      !has_device(g, prefix, columns, rows)) {
    return REMARK_CODE_FUSE_COSTS_MORE;
  }
  return REMARK_CODE_FUSE_DONE;
}

/* A map, a reduction of a row or an update that reads rows of the products, or
 * of what follows them, and no other row. `is_helper`: it reads nothing of the
 * group, and somebody who does needs it. */
static remark_code_t judge_rows(group_t *g, tir_node_t *n, bool is_helper) {
  join_t j = {.scratch = &g->scratch, .nodes = g->nodes, .count = g->count};
  bool is_update = n->kind == TIR_UPDATE;
  if (n->cascade != 0 || (n->kind != TIR_MAP && !is_update) ||
      n->outs[0]->panel != 0 || (is_update && !may_store(&j, n))) {
    return REMARK_CODE_FUSE_KIND;
  }
  if (group_is_contraction(n)) return REMARK_CODE_FUSE_COSTS_MORE;
  if (g->count >= GROUP_NODES) return too_many_nodes(g, GROUP_NODES);
  /* tiles of sides beside each other have parts of rows */
  bool is_apart = g->target->warp != 0 && g->side_count > 1;
  if (is_apart || !has_tiles(g) || !row_prefix(g, &j.prefix) ||
      !has_prefix(g->sides[0].node, n, j.prefix)) {
    return REMARK_CODE_FUSE_UNSPLITTABLE;
  }
  check_reads(&j, n);
  if (j.is_refused) return REMARK_CODE_FUSE_UNSPLITTABLE;
  if (j.reads_group == is_helper) return REMARK_CODE_FUSE_ORDER;
  double columns = 0;
  int64_t size = 0;
  for (uint32_t s = 0; s < g->side_count; s++) {
    const tir_node_t *side = g->sides[s].node;
    columns += tuples_of(side, j.prefix, g->sides[s].par);
    size = (int64_t)td_dtype_bytes(side->body->type);
  }
  const tir_node_t *first = g->sides[0].node;
  double depth = tuples_of(first, g->sides[0].par, first->index_count);
  if (g->target->warp != 0) return judge_warp_rows(g, n, j.prefix, columns);
  if (tuples_of(n, j.prefix, n->index_count) > columns ||
      columns * depth * (double)size > GROUP_COLUMN_BYTES ||
      !has_blocks(g, j.prefix, columns)) {
    return REMARK_CODE_FUSE_COSTS_MORE;
  }
  int64_t kept = kept_bytes(g, n, j.prefix);
  double tile = columns * (double)(size * g->target->mc);
  if (tile > GROUP_ROW_BYTES || kept > GROUP_ROW_BYTES) {
    bool is_open = tile > 1e18 || kept > INT64_MAX / 2;
    return judge_part(g, is_open ? INT64_MAX : (int64_t)tile + kept);
  }
  return REMARK_CODE_FUSE_DONE;
}

remark_code_t group_judge(group_t *g, tir_node_t *n) {
  if (n->kind == TIR_LOOP || n->kind == TIR_ASSERT) {
    return REMARK_CODE_FUSE_KIND;
  }
  g->limit = (tensor_limit_t){0};
  remark_code_t room = judge_room(g, n);
  if (room != REMARK_CODE_FUSE_DONE) return room;
  if (g->nodes[0]->cascade != 0) return judge_finish(g, n);
  if (!g->is_product) return judge_join(g, n);
  if (g->is_rows) return judge_rows(g, n, false);
  if (group_is_contraction(n)) return judge_side(g, n);
  /* only tiles store elsewhere */
  if (n->kind == TIR_UPDATE && !has_tiles(g)) return REMARK_CODE_FUSE_KIND;
  return judge_end(g, n);
}

remark_code_t group_judge_rows(group_t *g, tir_node_t *n, bool is_helper) {
  g->limit = (tensor_limit_t){0};
  remark_code_t room = judge_room(g, n);
  return room != REMARK_CODE_FUSE_DONE ? room : judge_rows(g, n, is_helper);
}
