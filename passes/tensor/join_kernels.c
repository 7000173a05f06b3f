/* join_kernels.c: which kernels become one.
 *
 * Does: puts neighbours into one group, and moves up what belongs to a group
 *   further above.
 * Needs: every node that is to be a kernel has a group (group_kernels).
 * Guarantees: groups are adjacent in their block; a group is what it was, or
 *   - products side by side, with the maps that read their elements and the
 *     updates that only store them (their ends), or with maps, reductions and
 *     updates that read rows of them; or
 *   - maps and row reductions over a shared prefix of parallel indices; or
 *   - a cascade and the maps that finish it.
 * Class: bitwise.
 * Ends because: one pass over the nodes; a node moves up once.
 * Ledgers: every value that only its group reads stops crossing memory, what
 *   several products read is read once, and there are fewer launches.
 *
 * What may join is for join_judge.c to say. */
#include "passes/tensor/group_kernels.h"
#include "passes/tensor/join_judge.h"

enum {
  WINDOW = 48, /* nodes that are looked at further below */
  FAR = 512,   /* nodes that panels move up at most */
};

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
    if (group_judge(g, n) != REMARK_CODE_FUSE_DONE ||
        !may_pass(&g->scratch, block, at, i)) {
      continue;
    }
    for (size_t k = i; k > at; k--) block->data[k] = block->data[k - 1];
    block->data[at] = n;
    return true;
  }
  return false;
}

/* How many nodes from `at` on make the group one of rows: some that it needs,
 * and one that reads it. *code is the refusal of the first if there is none. */
static uint32_t find_rows(group_t *g, const tir_block_t *block, size_t at,
                          remark_code_t *code) {
  enum { HELPERS = 4 };
  uint32_t count = g->count, found = 0;
  bool is_open = g->is_product;
  for (uint32_t k = 0; is_open && k <= HELPERS && at + k < block->length;
       k++) {
    tir_node_t *n = block->data[at + k];
    if (n->kind == TIR_LOOP || n->kind == TIR_ASSERT) break;
    remark_code_t now = group_judge_rows(g, n, false);
    if (k == 0 && *code == REMARK_CODE_FUSE_UNSPLITTABLE) *code = now;
    if (now == REMARK_CODE_FUSE_DONE) {
      found = k + 1;
      break;
    }
    is_open = now == REMARK_CODE_FUSE_ORDER &&
              group_judge_rows(g, n, true) == REMARK_CODE_FUSE_DONE;
    if (is_open) g->nodes[g->count++] = n; /* for as long as one looks */
  }
  g->count = count;
  return found;
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
  g.target = tensor_target(j->state);
  g.is_product = group_is_contraction(n) && n->cascade == 0;
  group_accept(&g, n);
  while (i + g.count < block->length && g.count < GROUP_CASCADE_NODES &&
         block->data[i + g.count]->group == was) {
    group_accept(&g, block->data[i + g.count]);
  }
  j->last++;
  while (n->kind == TIR_MAP && i + g.count < block->length) {
    size_t at = i + g.count;
    tir_node_t *m = block->data[at];
    remark_code_t code = group_judge(&g, m);
    if (code != REMARK_CODE_FUSE_DONE) {
      tensor_limit_t limit = g.limit; /* bring asks about others */
      if (g.is_product && bring(&g, block, at)) continue;
      g.limit = limit;
      uint32_t more = find_rows(&g, block, at, &code);
      g.is_rows |= more > 0;
      for (uint32_t k = 0; k < more; k++) group_accept(&g, block->data[at + k]);
      if (more > 0) continue;
      tensor_edges_refuse(j->edges, m, j->last, code, &g.limit);
      break;
    }
    group_accept(&g, m);
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
