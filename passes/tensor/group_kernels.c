/* group_kernels.c: which nodes become one kernel.
 *
 * Does: gives every MAP, UPDATE and TOPK node a group.
 * Needs: verified TIR, settled scalars.
 * Guarantees: groups are adjacent in their block; a group is one node, or a
 *   contraction with the maps that read its elements (its epilogue), or maps
 *   and row reductions over a shared prefix of parallel indices.
 * Class: bitwise.
 * Ends because: one pass over the nodes.
 * Ledgers: every value that only its group reads stops crossing memory.
 *
 * A node joins the group before it if it reads something of the group, and
 * reads it with the shared prefix unchanged: then what it needs is complete
 * within one block iteration.  Scratch of a block is capped, so that it
 * stays in cache. */
#include "passes/tensor/group_kernels.h"

#include "passes/tensor/report_edges.h"
#include "passes/tensor/tensor.h"
#include "runtime/base/num.h"

enum {
  SCRATCH_LIMIT = 1024 * 1024, /* half of a core's second cache */
  GROUP_LIMIT = 24,
  CASCADE_LIMIT = 64, /* nodes of a cascade and what finishes it */
  OPERATION_LIMIT = 1500, /* of a kernel: code costs more than linear time */
  VALUE_LIMIT = 400,      /* values of a kernel: GPUs take 4 KiB of arguments */
};

static bool is_float(tdsl_dtype_t type) {
  return type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
}

bool group_is_contraction(const tir_node_t *n) {
  return n->kind == TIR_MAP && n->reduce == TIR_REDUCE_SUM && n->is_fma &&
         n->plan == TIR_PLAN_SERIAL && is_float(n->body->type) &&
         n->body->op == TIR_X_MUL && tensor_parallel(n) > 0;
}

uint32_t group_cascade_rows(tir_node_t *const *nodes, uint32_t count) {
  uint32_t rows = UINT32_MAX;
  for (uint32_t i = 0; i < count; i++) {
    if (nodes[i]->cascade == 0) continue;
    uint32_t par = tensor_parallel(nodes[i]) - (nodes[i]->is_tile ? 1 : 0);
    if (par < rows) rows = par;
  }
  return rows;
}

/* Prefix that a node allows by itself: reductions along a row take all
 * their parallel indices, the others keep the last one for lanes. */
static uint32_t own_prefix(const tir_node_t *n) {
  uint32_t par = tensor_parallel(n);
  bool is_sum = n->reduce == TIR_REDUCE_SUM || n->reduce == TIR_REDUCE_PROD;
  if (is_sum && is_float(n->body->type) && n->plan == TIR_PLAN_SERIAL) {
    return par == 0 ? 0 : par - 1;
  }
  return par;
}

uint32_t group_prefix(tir_node_t *const *nodes, uint32_t count) {
  uint32_t prefix = UINT32_MAX, least = UINT32_MAX;
  for (uint32_t k = 0; k < count; k++) {
    uint32_t par = tensor_parallel(nodes[k]);
    if (par < least) least = par;
    if (nodes[k]->reduce == TIR_REDUCE_NONE) continue;
    uint32_t own = own_prefix(nodes[k]);
    if (own < prefix) prefix = own;
  }
  if (prefix == UINT32_MAX) prefix = least == 0 ? 0 : least - 1;
  if (least < prefix) prefix = least;
  for (uint32_t k = 1; k < count; k++) {
    for (uint32_t i = 0; i < prefix; i++) {
      if (nodes[k]->indices[i]->extent != nodes[0]->indices[i]->extent) {
        prefix = i;
      }
    }
  }
  return prefix;
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
    if (j->nodes[k]->outs[0] == v) return j->nodes[k];
  }
  return NULL;
}

static void check_load(void *user, tir_expr_t *e) {
  join_t *j = user;
  if (e->op != TIR_X_LOAD || definer(j, e->u.value) == NULL) return;
  j->reads_group = true;
  if (e->arg_count < j->prefix) {
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

/* FUSE_DONE: may join; else why not. */
static remark_code_t judge_join(td_arena_t *scratch, tir_node_t **nodes,
                                uint32_t count, tir_node_t *n) {
  if (n->kind != TIR_MAP || n->cascade != 0) return REMARK_CODE_FUSE_KIND;
  if (group_is_contraction(n)) return REMARK_CODE_FUSE_COSTS_MORE;
  if (count >= GROUP_LIMIT) return REMARK_CODE_FUSE_REGISTERS;
  nodes[count] = n; /* room was left */
  join_t j = {.scratch = scratch, .nodes = nodes, .count = count};
  j.prefix = group_prefix(nodes, count + 1);
  /* single numbers need no loops to share */
  bool is_number = tensor_parallel(nodes[0]) == 0 && tensor_parallel(n) == 0;
  if (j.prefix == 0 && !is_number) return REMARK_CODE_FUSE_UNSPLITTABLE;
  check_reads(&j, n);
  if (!j.reads_group) return REMARK_CODE_FUSE_ORDER;
  int64_t bytes = 0;
  for (uint32_t k = 0; k < count; k++) {
    /* a smaller prefix may break what joined before */
    join_t before = {.scratch = scratch, .nodes = nodes, .count = k,
                     .prefix = j.prefix};
    check_reads(&before, nodes[k]);
    j.is_refused |= before.is_refused;
    int64_t part = scratch_of(nodes[k]->outs[0], j.prefix);
    if (__builtin_add_overflow(bytes, part, &bytes)) bytes = INT64_MAX;
  }
  if (j.is_refused) return REMARK_CODE_FUSE_UNSPLITTABLE;
  return bytes <= SCRATCH_LIMIT ? REMARK_CODE_FUSE_DONE
                                : REMARK_CODE_FUSE_SHARED_BYTES;
}

/* A map that reads elements of the contraction at its own indices. */
static remark_code_t judge_end(td_arena_t *scratch, tir_node_t **nodes,
                               uint32_t count, tir_node_t *n) {
  if (n->kind != TIR_MAP) return REMARK_CODE_FUSE_KIND;
  if (group_is_contraction(n)) return REMARK_CODE_FUSE_COSTS_MORE;
  if (n->reduce != TIR_REDUCE_NONE) return REMARK_CODE_FUSE_UNSPLITTABLE;
  if (count >= GROUP_LIMIT) return REMARK_CODE_FUSE_REGISTERS;
  uint32_t par = tensor_parallel(nodes[0]);
  join_t j = {.scratch = scratch, .nodes = nodes, .count = count,
              .prefix = par};
  check_reads(&j, n);
  if (!j.reads_group) return REMARK_CODE_FUSE_ORDER;
  if (tensor_parallel(n) != par) return REMARK_CODE_FUSE_UNSPLITTABLE;
  for (uint32_t i = 0; i < par; i++) {
    if (n->indices[i]->extent != nodes[0]->indices[i]->extent) {
      return REMARK_CODE_FUSE_UNSPLITTABLE;
    }
  }
  return j.is_refused ? REMARK_CODE_FUSE_UNSPLITTABLE : REMARK_CODE_FUSE_DONE;
}

typedef struct rows {
  tir_node_t *const *nodes;
  uint32_t count, rows;
  const tir_node_t *reader;
  td_arena_t *scratch;
  uint32_t *places; /* UINT32_MAX: not known yet */
  bool is_refused, reads_group;
} rows_t;

/* A load of a value of the group, with its rows at `from`. */
static void place_rows(rows_t *s, const tir_expr_t *e, const uint32_t *from) {
  const tir_node_t *n = s->reader;
  s->reads_group = true;
  for (uint32_t i = 0; i < s->rows; i++) {
    const tir_expr_t *a = e->args[from == NULL ? i : from[i]];
    uint32_t at = 0;
    while (at < n->index_count && (a->op != TIR_X_INDEX ||
                                   n->indices[at] != a->u.index)) {
      at++;
    }
    bool is_known = s->places[i] != UINT32_MAX;
    if (at == n->index_count || (is_known && s->places[i] != at)) {
      s->is_refused = true;
      return;
    }
    s->places[i] = at;
  }
}

static void note_rows(void *user, tir_expr_t *e) {
  rows_t *s = user;
  if (e->op != TIR_X_LOAD || s->is_refused) return;
  for (uint32_t k = 0; k < s->count; k++) {
    tir_node_t *def = s->nodes[k];
    uint32_t from[IX_MAX_RANK];
    if (def->outs[0] != e->u.value) continue;
    bool is_plain = def->cascade != 0;
    if (!is_plain && !group_row_places(s->scratch, s->nodes, k, def, s->rows,
                                       from)) {
      s->is_refused = true;
      return;
    }
    place_rows(s, e, is_plain ? NULL : from);
  }
}

/* A group has tens of nodes, and finishing maps read a few: asking anew costs
 * less than remembering. */
bool group_row_places(td_arena_t *scratch, tir_node_t *const *nodes,
                      uint32_t count, tir_node_t *n, uint32_t rows,
                      uint32_t *places) {
  rows_t s = {nodes, count, rows, n, scratch, places, false, false};
  for (uint32_t i = 0; i < rows; i++) places[i] = UINT32_MAX;
  tir_walk(scratch, n->body, note_rows, &s);
  for (uint32_t i = 0; i < rows; i++) {
    s.is_refused |= places[i] == UINT32_MAX;
    for (uint32_t k = 0; k < i; k++) s.is_refused |= places[i] == places[k];
  }
  return (s.reads_group || rows == 0) && !s.is_refused;
}

/* A map over the rows, and more, that finishes what a cascade computed. */
static remark_code_t judge_finish(td_arena_t *scratch, tir_node_t **nodes,
                                  uint32_t count, tir_node_t *n) {
  uint32_t rows = group_cascade_rows(nodes, count);
  uint32_t places[IX_MAX_RANK];
  if (n->kind != TIR_MAP || n->cascade != 0) return REMARK_CODE_FUSE_KIND;
  if (count >= CASCADE_LIMIT) return REMARK_CODE_FUSE_REGISTERS;
  if (n->reduce != TIR_REDUCE_NONE || tensor_parallel(n) < rows) {
    return REMARK_CODE_FUSE_UNSPLITTABLE;
  }
  join_t j = {.scratch = scratch, .nodes = nodes, .count = count};
  check_reads(&j, n);
  if (!j.reads_group) return REMARK_CODE_FUSE_ORDER;
  if (!group_row_places(scratch, nodes, count, n, rows, places)) {
    return REMARK_CODE_FUSE_UNSPLITTABLE;
  }
  int64_t bytes = (int64_t)td_dtype_bytes(n->outs[0]->dtype);
  for (uint32_t i = 0; i < tensor_parallel(n); i++) {
    int64_t lo, hi;
    bool is_row = false;
    for (uint32_t k = 0; k < rows; k++) is_row |= places[k] == i;
    if (is_row) continue;
    if (!ix_interval(n->indices[i]->extent, &lo, &hi) ||
        __builtin_mul_overflow(bytes, hi, &bytes)) {
      return REMARK_CODE_FUSE_SHARED_BYTES;
    }
  }
  return bytes <= SCRATCH_LIMIT ? REMARK_CODE_FUSE_DONE
                                : REMARK_CODE_FUSE_SHARED_BYTES;
}

static size_t operations(td_arena_t *scratch, tir_node_t *n) {
  size_t size = 0;
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    size += tir_expr_size(scratch, *tir_node_expr(n, i));
  }
  return size;
}

typedef struct values {
  td_map_t seen; /* tir_value_t* */
  size_t count;
} values_t;

static void note_value(values_t *v, const tir_value_t *value) {
  uint64_t key = (uint64_t)(uintptr_t)value;
  v->count += td_map_get_u64(&v->seen, key) == NULL;
  td_map_put_u64(&v->seen, key, v);
}

static void note_values(void *user, tir_expr_t *e) {
  if (e->op == TIR_X_LOAD) note_value(user, e->u.value);
}

/* With what n reads and defines, at most a kernel's worth of values. */
static bool has_room(td_arena_t *scratch, values_t *v, tir_node_t *n) {
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_walk(scratch, *tir_node_expr(n, i), note_values, v);
  }
  for (uint32_t i = 0; i < n->out_count; i++) note_value(v, n->outs[i]);
  return v->count <= VALUE_LIMIT;
}

static void group_block(pass_state_t *state, tir_block_t *block,
                        uint32_t *next, tensor_edges_t *edges) {
  tir_node_t *nodes[CASCADE_LIMIT + 1];
  td_arena_t scratch;
  td_arena_init(&scratch, state->task);
  for (size_t i = 0; i < block->length;) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP || n->kind == TIR_ASSERT) {
      if (n->kind == TIR_LOOP) group_block(state, &n->body_nodes, next,
                                              edges);
      i++;
      continue;
    }
    uint32_t count = 1;
    nodes[0] = n;
    while (n->cascade != 0 && i + count < block->length &&
           count < CASCADE_LIMIT &&
           block->data[i + count]->cascade == n->cascade) {
      nodes[count] = block->data[i + count];
      count++;
    }
    bool ends = group_is_contraction(n);
    size_t size = operations(&scratch, n);
    values_t values = {.count = 0};
    td_map_init(&values.seen, &scratch);
    (void)has_room(&scratch, &values, n);
    while (n->kind == TIR_MAP && i + count < block->length) {
      tir_node_t *m = block->data[i + count];
      size += operations(&scratch, m);
      bool fits = has_room(&scratch, &values, m) && size <= OPERATION_LIMIT;
      remark_code_t code = !fits  ? REMARK_CODE_FUSE_REGISTERS
                           : n->cascade != 0
                               ? judge_finish(&scratch, nodes, count, m)
                           : ends ? judge_end(&scratch, nodes, count, m)
                                  : judge_join(&scratch, nodes, count, m);
      if (code != REMARK_CODE_FUSE_DONE) {
        tensor_edges_refuse(edges, m, *next, code);
        break;
      }
      nodes[count++] = m;
    }
    for (uint32_t k = 0; k < count; k++) block->data[i + k]->group = *next;
    (*next)++;
    i += count;
  }
  td_arena_free_all(&scratch);
}

bool pass_group_kernels(pass_state_t *state, tir_module_t *module) {
  for (uint32_t f = 0; f < module->func_count; f++) {
    uint32_t next = 1;
    tensor_edges_t *edges = tensor_edges_create(state, module);
    group_block(state, &module->funcs[f]->nodes, &next, edges);
    tensor_edges_report(edges, module->funcs[f]);
    tensor_edges_free(edges);
  }
  return true;
}
