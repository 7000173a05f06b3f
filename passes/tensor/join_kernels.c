/* join_kernels.c: which kernels become one.
 *
 * Does: puts neighbours into one group, and moves up what belongs to a group
 *   further above.
 * Needs: every node that is to be a kernel has a group (group_kernels).
 * Guarantees: groups are adjacent in their block; a group is what it was, or
 *   - products side by side, with the maps that read their elements and the
 *     updates that only store them (their ends); or
 *   - maps and row reductions over a shared prefix of parallel indices; or
 *   - a cascade and the maps that finish it.
 * Class: bitwise.
 * Ends because: one pass over the nodes; a node moves up once.
 * Ledgers: every value that only its group reads stops crossing memory, what
 *   several products read is read once, and there are fewer launches.
 *
 * A node joins the group before it if it reads something of the group, and
 * reads it with the shared prefix unchanged: then what it needs is complete
 * within one block iteration.  Scratch of a block is capped, so that it
 * stays in cache.  A product joins products with an equal operand. */
#include "passes/tensor/group_kernels.h"
#include "passes/tensor/price.h"
#include "passes/tensor/group_product.h"
#include "passes/tensor/report_edges.h"
#include "runtime/base/num.h"

enum {
  SCRATCH_LIMIT = 1024 * 1024, /* half of a core's second cache */
  GROUP_LIMIT = 24,
  CASCADE_LIMIT = 64, /* nodes of a cascade and what finishes it */
  OPERATION_LIMIT = 1500, /* of a kernel: code costs more than linear time */
  VALUE_LIMIT = 400,      /* values of a kernel: GPUs take 4 KiB of arguments */
  SIDE_LIMIT = 4,         /* products of a kernel: each has a tile */
  WINDOW = 48,            /* nodes that are looked at further below */
  FAR = 512,              /* nodes that panels move up at most */
};

/* A group that grows. */
typedef struct group {
  td_arena_t scratch;
  bool has_tiles;
  tir_node_t *nodes[CASCADE_LIMIT + 1];
  uint32_t count;
  size_t size;     /* operations */
  td_map_t values; /* tir_value_t* -> itself: read or defined */
  size_t value_count;
  product_form_t sides[SIDE_LIMIT];
  uint32_t side_count;
  bool is_product;
  tensor_limit_t limit; /* what the last refusal was about */
} group_t;

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
    if (j->nodes[k]->outs[0] == v) return j->nodes[k];
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
  if (count >= GROUP_LIMIT) return too_many_nodes(g, GROUP_LIMIT);
  nodes[count] = n; /* room was left */
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
    if (nodes[k]->kind == TIR_UPDATE) continue;
    int64_t part = scratch_of(nodes[k]->outs[0], j.prefix);
    if (__builtin_add_overflow(bytes, part, &bytes)) bytes = INT64_MAX;
  }
  if (j.is_refused) return REMARK_CODE_FUSE_UNSPLITTABLE;
  return judge_part(g, bytes);
}

/* ---- products and their ends --------------------------------------------- */

/* A load of the group that is not the element of the reader's own tuple. */
static void check_element(void *user, tir_expr_t *e) {
  join_t *j = user;
  if (e->op != TIR_X_LOAD) return;
  const tir_node_t *def = definer(j, e->u.value);
  if (def == NULL) return;
  j->reads_group = true;
  j->is_refused |= !group_product_is_parallel(def, j->reader);
  for (uint32_t i = 0; i < e->arg_count && !j->is_refused; i++) {
    j->is_refused = e->args[i]->op != TIR_X_INDEX ||
                    e->args[i]->u.index != j->reader->indices[i];
  }
}

/* A map or an update that reads elements of the products at its own
 * indices. */
static remark_code_t judge_end(group_t *g, tir_node_t *n) {
  td_arena_t *scratch = &g->scratch;
  tir_node_t **nodes = g->nodes;
  uint32_t count = g->count;
  join_t j = {.scratch = scratch, .nodes = nodes, .count = count,
              .reader = n};
  bool is_update = n->kind == TIR_UPDATE;
  if (n->cascade != 0 || (n->kind != TIR_MAP && !is_update)) {
    return REMARK_CODE_FUSE_KIND;
  }
  if (is_update && !may_store(&j, n)) return REMARK_CODE_FUSE_KIND;
  if (n->reduce != TIR_REDUCE_NONE) return REMARK_CODE_FUSE_UNSPLITTABLE;
  if (count >= GROUP_LIMIT) return too_many_nodes(g, GROUP_LIMIT);
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_walk(scratch, *tir_node_expr(n, i), check_element, &j);
  }
  if (!j.reads_group) return REMARK_CODE_FUSE_ORDER;
  return j.is_refused ? REMARK_CODE_FUSE_UNSPLITTABLE : REMARK_CODE_FUSE_DONE;
}

/* A map over the rows, and more, that finishes what a cascade computed. */
static remark_code_t judge_finish(group_t *g, tir_node_t *n) {
  td_arena_t *scratch = &g->scratch;
  tir_node_t **nodes = g->nodes;
  uint32_t count = g->count;
  uint32_t rows = group_cascade_rows(nodes, count);
  uint32_t places[IX_MAX_RANK];
  if (n->kind != TIR_MAP || n->cascade != 0) return REMARK_CODE_FUSE_KIND;
  if (count >= CASCADE_LIMIT) return too_many_nodes(g, CASCADE_LIMIT);
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
      return judge_part(g, INT64_MAX);
    }
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

static void accept(group_t *g, tir_node_t *n) {
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
  if (g->count >= GROUP_LIMIT) return too_many_nodes(g, GROUP_LIMIT);
  return g->side_count < SIDE_LIMIT
             ? REMARK_CODE_FUSE_DONE
             : too_much(g, REMARK_CODE_FUSE_REGISTERS, "products",
                        g->side_count + 1, SIDE_LIMIT);
}

static remark_code_t judge(group_t *g, tir_node_t *n) {
  if (n->kind == TIR_LOOP || n->kind == TIR_ASSERT) {
    return REMARK_CODE_FUSE_KIND;
  }
  g->limit = (tensor_limit_t){0};
  remark_code_t room = judge_room(g, n);
  if (room != REMARK_CODE_FUSE_DONE) return room;
  if (g->nodes[0]->cascade != 0) return judge_finish(g, n);
  if (!g->is_product) return judge_join(g, n);
  if (group_is_contraction(n)) return judge_side(g, n);
  /* only tiles store elsewhere */
  if (n->kind == TIR_UPDATE && !has_tiles(g)) return REMARK_CODE_FUSE_KIND;
  return judge_end(g, n);
}

/* ---- moving up ----------------------------------------------------------- */

typedef struct passing {
  const tir_block_t *block;
  size_t from, to;
  bool is_held; /* by a value that is made on the way */
} passing_t;

static void check_held(passing_t *p, const tir_value_t *v) {
  for (size_t i = p->from; i < p->to && !p->is_held; i++) {
    const tir_node_t *n = p->block->data[i];
    for (uint32_t k = 0; k < n->out_count; k++) p->is_held |= n->outs[k] == v;
  }
}

static void check_load_held(void *user, tir_expr_t *e) {
  if (e->op == TIR_X_LOAD) check_held(user, e->u.value);
}

static bool reads_value(td_arena_t *scratch, const tir_node_t *n,
                        const tir_value_t *v) {
  for (uint32_t i = 0; i < n->operand_count; i++) {
    if (n->operands[i] == v) return true;
  }
  if (n->kind == TIR_LOOP) return true; /* its body may */
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_node_t *node = (tir_node_t *)(uintptr_t)n;
    if (tir_mentions_value(scratch, *tir_node_expr(node, i), v)) return true;
  }
  return false;
}

/* Node `to` needs nothing that is made between, and what it overwrites is
 * read by nobody there. */
static bool may_pass(td_arena_t *scratch, const tir_block_t *block,
                     size_t from, size_t to) {
  tir_node_t *n = block->data[to];
  passing_t p = {block, from, to, false};
  for (uint32_t i = 0; i < n->operand_count; i++) {
    check_held(&p, n->operands[i]);
  }
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_walk(scratch, *tir_node_expr(n, i), check_load_held, &p);
  }
  for (size_t i = from; i < to && n->kind == TIR_UPDATE && !p.is_held; i++) {
    p.is_held = reads_value(scratch, block->data[i], n->operands[0]);
  }
  return !p.is_held;
}

/* Brings the next node that belongs to the group to position `at`. */
static bool bring(group_t *g, tir_block_t *block, size_t at) {
  for (size_t i = at + 1; i < block->length && i <= at + WINDOW; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP || n->kind == TIR_ASSERT) continue;
    if (judge(g, n) != REMARK_CODE_FUSE_DONE ||
        !may_pass(&g->scratch, block, at, i)) {
      continue;
    }
    for (size_t k = i; k > at; k--) block->data[k] = block->data[k - 1];
    block->data[at] = n;
    return true;
  }
  return false;
}

/* ---- remarks ------------------------------------------------------------- */

typedef struct shared {
  ix_pool_t *pool;
  const ix_poly_t *bytes;
  td_map_t seen;
} shared_t;

static void add_shared(void *user, tir_expr_t *e) {
  shared_t *s = user;
  if (e->op != TIR_X_LOAD || e->u.value->rank == 0) return;
  uint64_t key = (uint64_t)(uintptr_t)e->u.value;
  if (td_map_get_u64(&s->seen, key) != NULL) return;
  td_map_put_u64(&s->seen, key, s);
  s->bytes = ix_add(s->pool, s->bytes, tensor_bytes(s->pool, e->u.value));
}

/* What each further side does not read again. */
static void report_sides(pass_state_t *state, tir_module_t *module,
                         group_t *g) {
  if (state->remarks == NULL || g->side_count < 2) return;
  ix_pool_t *pool = module->pool;
  shared_t s = {.pool = pool, .bytes = ix_const(pool, 0)};
  td_map_init(&s.seen, &g->scratch);
  tir_walk(&g->scratch, g->sides[0].a, add_shared, &s);
  const ir_target_t *target = tensor_target(state);
  for (uint32_t i = 1; i < g->side_count; i++) {
    const tir_node_t *first = g->sides[0].node, *n = g->sides[i].node;
    remark_t *m = pass_remark(
        state, "join-kernels", REMARK_CODE_FUSE_DONE, n->loc,
        "%s is made beside %s, with what both multiply brought once",
        n->outs[0]->name, first->outs[0]->name);
    pass_remark_place(m, first->loc);
    pass_remark_number(m, "bytes_not_loaded", s.bytes);
    tensor_price_t apart = {0}, shared = {0}, beside;
    tensor_price_node(&g->scratch, g->sides[0].node, &apart);
    tensor_price_node(&g->scratch, g->sides[i].node, &apart);
    tensor_price_loads(&g->scratch, g->sides[0].a,
                       tensor_tuples(first), &shared);
    shared.launches = 1;
    beside = apart;
    tensor_price_add(&beside, &shared, -1.0);
    pass_remark_number(m, "price_ns",
                       ix_const(pool, tensor_price_ns(target, &beside)));
    pass_remark_number(m, "price_ns_if_apart",
                       ix_const(pool, tensor_price_ns(target, &apart)));
  }
}

/* ---- the pass ------------------------------------------------------------ */

typedef struct joining {
  pass_state_t *state;
  tir_module_t *module;
  tensor_edges_t *edges;
  uint32_t last; /* group */
} joining_t;

/* The group that begins at i, its nodes side by side; how many they are. */
static uint32_t grow(joining_t *j, tir_block_t *block, size_t i) {
  group_t g = {.count = 0};
  td_arena_init(&g.scratch, j->state->task);
  td_map_init(&g.values, &g.scratch);
  tir_node_t *n = block->data[i];
  uint32_t was = n->group;
  g.has_tiles = !j->state->options->plan_serial;
  g.is_product = group_is_contraction(n) && n->cascade == 0;
  accept(&g, n);
  while (i + g.count < block->length && g.count < CASCADE_LIMIT &&
         block->data[i + g.count]->group == was) {
    accept(&g, block->data[i + g.count]);
  }
  j->last++;
  while (n->kind == TIR_MAP && i + g.count < block->length) {
    size_t at = i + g.count;
    tir_node_t *m = block->data[at];
    remark_code_t code = judge(&g, m);
    if (code != REMARK_CODE_FUSE_DONE) {
      tensor_limit_t limit = g.limit; /* bring asks about others */
      if (g.is_product && bring(&g, block, at)) continue;
      g.limit = limit;
      tensor_edges_refuse(j->edges, m, j->last, code, &g.limit);
      break;
    }
    accept(&g, m);
  }
  for (uint32_t k = 0; k < g.count; k++) g.nodes[k]->group = j->last;
  report_sides(j->state, j->module, &g);
  td_arena_free_all(&g.scratch);
  return g.count;
}

/* Panels are made before the products that could be sides but for them. */
static void hoist_panels(joining_t *j, tir_block_t *block) {
  td_arena_t scratch;
  td_arena_init(&scratch, j->state->task);
  for (size_t i = 1; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind != TIR_MAP || n->outs[0]->panel == 0) continue;
    size_t at = i;
    while (at > 0 && i - at < FAR &&
           may_pass(&scratch, block, at - 1, i)) {
      at--;
    }
    for (size_t k = i; k > at; k--) block->data[k] = block->data[k - 1];
    block->data[at] = n;
  }
  td_arena_free_all(&scratch);
}

static void join_block(joining_t *j, tir_block_t *block) {
  hoist_panels(j, block);
  for (size_t i = 0; i < block->length;) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) join_block(j, &n->body_nodes);
    i += n->kind == TIR_LOOP || n->kind == TIR_ASSERT ? 1
                                                      : grow(j, block, i);
  }
}

bool pass_join_kernels(pass_state_t *state, tir_module_t *module) {
  for (uint32_t f = 0; f < module->func_count; f++) {
    joining_t j = {.state = state, .module = module};
    j.edges = tensor_edges_create(state, module);
    join_block(&j, &module->funcs[f]->nodes);
    tir_renumber(module->funcs[f]);
    tensor_edges_report(j.edges, module->funcs[f]);
    tensor_edges_free(j.edges);
  }
  return true;
}
