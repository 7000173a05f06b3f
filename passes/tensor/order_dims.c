/* order_dims.c
 *
 * Does: gives the last place among the dims of a value that a map makes to
 *   the dim along which its maker and its readers go through memory.
 * Needs: verified TIR; cascades have taken what they read.
 * Guarantees: the same elements; the value is no result, no operand and no
 *   part of a cascade.
 * Class: bitwise.
 * Ends because: one pass over the nodes; a dim moves once.
 * Ledgers: none of its own; lines of memory that are read for one element.
 *
 * A function that is mapped over columns makes what it keeps of each column
 * behind the indices it is mapped over: dims [c, s] of a tensor [s, c].  As
 * written, the maker would read a line of memory for each element, and so
 * would who puts elements back.  Votes are counted: each load of the maker
 * that varies along the last dim, each map that reads with its own last
 * index, each reduction that reads along its last one.  Products have none:
 * they lay out what they read. */
#include "passes/tensor/group_kernels.h"
#include "passes/tensor/tensor.h"

typedef struct votes {
  tir_node_t *maker;
  bool is_bound; /* it has uses that are no loads */
  uint32_t by_dim[IX_MAX_RANK];
} votes_t;

typedef struct order {
  tir_module_t *module;
  td_arena_t scratch;
  td_map_t values;           /* tir_value_t* -> votes_t* */
  votes_t *of;               /* whose body is walked */
  const tir_node_t *reader;
  const tir_func_t *func;    /* of the reader before */
  bool has_changed;
} order_t;

static votes_t *votes_of(const order_t *o, const tir_value_t *v) {
  return td_map_get_u64(&o->values, (uint64_t)(uintptr_t)v);
}

static void bind(const order_t *o, const tir_value_t *v) {
  votes_t *votes = votes_of(o, v);
  if (votes != NULL) votes->is_bound = true;
}

/* What the maker reads along. */
static void note_body(void *user, tir_expr_t *e) {
  order_t *o = user;
  const tir_node_t *n = o->of->maker;
  if (e->op != TIR_X_LOAD || e->arg_count < 2 ||
      !tir_mentions_index(&o->scratch, e, n->indices[n->index_count - 1])) {
    return;
  }
  const tir_expr_t *last = e->args[e->arg_count - 1];
  for (uint32_t d = 0; d < n->index_count && last->op == TIR_X_INDEX; d++) {
    o->of->by_dim[d] += last->u.index == n->indices[d];
  }
}

static void add_candidate(void *user, tir_func_t *func, tir_block_t *block,
                          tir_node_t *n) {
  (void)func, (void)block;
  order_t *o = user;
  if (n->kind != TIR_MAP || n->reduce != TIR_REDUCE_NONE ||
      n->out_count != 1 || n->cascade != 0 || n->index_count < 2 ||
      n->outs[0]->rank != n->index_count || n->outs[0]->panel != 0) {
    return;
  }
  votes_t *votes = TD_NEW(&o->scratch, votes_t);
  votes->maker = n;
  td_map_put_u64(&o->values, (uint64_t)(uintptr_t)n->outs[0], votes);
  o->of = votes;
  tir_walk(&o->scratch, n->body, note_body, o);
}

static void note_load(void *user, tir_expr_t *e) {
  order_t *o = user;
  const tir_node_t *n = o->reader;
  votes_t *votes = e->op == TIR_X_LOAD ? votes_of(o, e->u.value) : NULL;
  if (votes == NULL) return;
  votes->is_bound |= n->cascade != 0;
  if (n->kind != TIR_MAP || n->index_count == 0 || group_is_contraction(n)) {
    return;
  }
  const tir_index_t *last = n->indices[n->index_count - 1];
  for (uint32_t d = 0; d < e->arg_count; d++) {
    votes->by_dim[d] += e->args[d]->op == TIR_X_INDEX &&
                        e->args[d]->u.index == last;
  }
}

static void note_node(void *user, tir_func_t *func, tir_block_t *block,
                      tir_node_t *n) {
  (void)block;
  order_t *o = user;
  o->reader = n;
  for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
    tir_walk(&o->scratch, *tir_node_expr(n, k), note_load, o);
  }
  for (uint32_t k = 0; k < n->operand_count; k++) bind(o, n->operands[k]);
  for (uint32_t k = 0; n->kind == TIR_LOOP && k < n->operand_count; k++) {
    bind(o, n->yields[k]);
  }
  for (uint32_t s = 0; func != o->func && s < func->slot_count; s++) {
    if (func->slots[s].result != NULL) bind(o, func->slots[s].result);
  }
  o->func = func;
}

/* The dim that becomes the last one; the rank: they stay. */
static uint32_t winner(const votes_t *v) {
  uint32_t rank = v->maker->index_count, best = rank - 1;
  for (uint32_t d = 0; d + 1 < rank; d++) {
    if (v->by_dim[d] > v->by_dim[best]) best = d;
  }
  return v->is_bound || best == rank - 1 ? rank : best;
}

static tir_expr_t *reorder_load(void *user, tir_expr_t *e) {
  const order_t *o = user;
  const votes_t *v = e->op == TIR_X_LOAD ? votes_of(o, e->u.value) : NULL;
  uint32_t best = v == NULL ? 0 : winner(v), n = 0;
  tir_expr_t *args[IX_MAX_RANK];
  if (v == NULL || best == e->arg_count) return e;
  for (uint32_t d = 0; d < e->arg_count; d++) {
    if (d != best) args[n++] = e->args[d];
  }
  args[n++] = e->args[best];
  tir_expr_t *load = tir_load(o->module->arena, e->u.value, n, args);
  load->loc = e->loc;
  return load;
}

static void reorder(order_t *o, votes_t *v) {
  tir_node_t *n = v->maker;
  uint32_t best = winner(v), last = n->index_count - 1;
  if (best > last) return;
  tir_value_t *out = n->outs[0];
  tir_index_t *index = n->indices[best];
  const ix_poly_t *dim = out->dims[best];
  for (uint32_t d = best; d < last; d++) {
    n->indices[d] = n->indices[d + 1];
    out->dims[d] = out->dims[d + 1];
  }
  n->indices[last] = index;
  out->dims[last] = dim;
  o->has_changed = true;
}

bool pass_order_dims(pass_state_t *state, tir_module_t *module) {
  order_t o = {.module = module};
  td_arena_init(&o.scratch, state->task);
  td_map_init(&o.values, &o.scratch);
  tensor_each_node(module, add_candidate, &o);
  tensor_each_node(module, note_node, &o);
  (void)tensor_rewrite_all(module, reorder_load, &o);
  for (size_t i = 0; i < o.values.length; i++) {
    reorder(&o, o.values.entries[i].value);
  }
  td_arena_free_all(&o.scratch);
  return o.has_changed;
}
