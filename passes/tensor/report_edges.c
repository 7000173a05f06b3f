/* report_edges.c: remarks on values between nodes; see report_edges.h. */
#include "passes/tensor/report_edges.h"

#include "passes/tensor/group_kernels.h"
#include "passes/tensor/price_edges.h"
#include "runtime/base/num.h"

enum { ROUNDING = 2 }; /* ns: each way is the sum of two */

typedef struct refusal {
  uint32_t group;
  remark_code_t why;
  tensor_limit_t limit;
} refusal_t;

struct tensor_edges {
  pass_state_t *state;
  const tir_module_t *module;
  td_arena_t arena;
  td_map_t refusals; /* tir_node_t* -> refusal_t* */
  td_map_t told;     /* values, of the node at hand */
  tensor_edge_prices_t *prices; /* of the function at hand */
  remark_names_t names;
  const tir_node_t *reader;
};

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

tensor_edges_t *tensor_edges_create(pass_state_t *state,
                                    const tir_module_t *module) {
  if (state->remarks == NULL) return NULL;
  tensor_edges_t *e = TD_NEW(state->remarks->arena, tensor_edges_t);
  e->state = state;
  e->module = module;
  td_arena_init(&e->arena, state->task);
  td_map_init(&e->refusals, &e->arena);
  return e;
}

void tensor_edges_free(tensor_edges_t *e) {
  if (e != NULL) td_arena_free_all(&e->arena);
}

void tensor_edges_refuse(tensor_edges_t *e, const tir_node_t *node,
                         uint32_t group, remark_code_t why,
                         const tensor_limit_t *limit) {
  if (e == NULL) return;
  refusal_t *r = TD_NEW(&e->arena, refusal_t);
  *r = (refusal_t){group, why, *limit};
  td_map_put_u64(&e->refusals, key_of(node), r);
}

/* ---- one edge ----------------------------------------------------------- */

static bool is_alone(const tir_node_t *n) {
  return n->kind != TIR_MAP || n->outs[0]->panel != 0;
}

/* Nodes in other blocks and such as never join have reasons of their own; a
 * node that never met the maker's group has work before it. */
static remark_code_t why_apart(const tensor_edges_t *e,
                               const tir_node_t *maker) {
  const refusal_t *r = td_map_get_u64(&e->refusals, key_of(e->reader));
  if (is_alone(maker) || is_alone(e->reader)) return REMARK_CODE_FUSE_KIND;
  if (r != NULL && r->group == maker->group) return r->why;
  if (group_is_contraction(e->reader)) return REMARK_CODE_FUSE_COSTS_MORE;
  return REMARK_CODE_FUSE_ORDER;
}

static void explain(remark_t *m, remark_code_t code, bool is_product) {
  if (m == NULL) return;
  switch (code) {
    case REMARK_CODE_FUSE_COSTS_MORE:
      m->hint = is_product ? "a product reads each element once for every row "
                             "or column of the other factor"
                           : "a row is finished where it is made if one block "
                             "makes all of it: with a smaller factor, or more "
                             "rows";
      break;
    case REMARK_CODE_FUSE_SHARED_BYTES:
      m->hint = "a dim with a smaller bound would let the part stay in cache";
      break;
    default: break;
  }
}

static void report_limit(const tensor_edges_t *e, remark_t *m) {
  const refusal_t *r = td_map_get_u64(&e->refusals, key_of(e->reader));
  ix_pool_t *pool = e->module->pool;
  if (r == NULL || r->limit.what == NULL) return;
  if (r->limit.need != INT64_MAX) {
    pass_remark_number(m, r->limit.what, ix_const(pool, r->limit.need));
  }
  const char *most = td_arena_printf(e->state->remarks->arena, "most_%s",
                                     r->limit.what);
  pass_remark_number(m, most, ix_const(pool, r->limit.most));
}

static void report(tensor_edges_t *e, const tir_value_t *v,
                   const tir_node_t *maker) {
  const tir_node_t *n = e->reader;
  ix_pool_t *pool = e->module->pool;
  const char *reader = pass_remark_reader(n);
  bool is_one = n->group != 0 && n->group == maker->group;
  remark_code_t code = is_one ? REMARK_CODE_FUSE_DONE : why_apart(e, maker);
  int64_t is, other;
  tensor_edge_price(e->prices, v, n, &is, &other);
  /* whatever it costs, a product needs whole rows or columns */
  if (code == REMARK_CODE_FUSE_COSTS_MORE && other < is - ROUNDING) {
    code = REMARK_CODE_FUSE_UNSPLITTABLE;
  }
  remark_t *m =
      is_one ? pass_remark(e->state, "join-kernels", code, n->loc,
                           "%s and %s are one kernel", v->name, reader)
             : pass_remark(e->state, "join-kernels", code, n->loc,
                           "%s is written to memory before %s reads it: %s",
                           v->name, reader, pass_remark_table[code].sentence);
  pass_remark_place(m, maker->loc);
  pass_remark_edge(m, &e->names, v, n);
  const char *name = !is_one                      ? "bytes_crossing"
                     : tensor_edge_leaves(e->prices, v) ? "bytes_not_loaded"
                                                  : "bytes_kept";
  pass_remark_number(m, name, tensor_bytes(pool, v));
  pass_remark_number(m, "price_ns", ix_const(pool, is));
  pass_remark_number(m, is_one ? "price_ns_if_apart" : "price_ns_if_fused",
                     ix_const(pool, other));
  if (code == REMARK_CODE_FUSE_SHARED_BYTES ||
      code == REMARK_CODE_FUSE_REGISTERS) {
    report_limit(e, m);
  }
  explain(m, code, group_is_contraction(n));
}

/* ---- all edges ---------------------------------------------------------- */

static void note_use(tensor_edges_t *e, const tir_value_t *v) {
  const tir_node_t *maker = tensor_edge_maker(e->prices, v);
  if (maker == NULL || maker == e->reader) return;
  if (td_map_get_u64(&e->told, key_of(v)) != NULL) return;
  td_map_put_u64(&e->told, key_of(v), e);
  report(e, v, maker);
}

static void note_load(void *user, tir_expr_t *x) {
  if (x->op == TIR_X_LOAD) note_use(user, x->u.value);
}

static void report_block(tensor_edges_t *e, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    e->reader = n;
    td_map_init(&e->told, &e->arena);
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(&e->arena, *tir_node_expr(n, k), note_load, e);
    }
    if (n->transport != NULL) tir_walk(&e->arena, n->transport, note_load, e);
    for (uint32_t k = 0; k < n->operand_count; k++) {
      note_use(e, n->operands[k]);
    }
    if (n->kind != TIR_LOOP) continue;
    td_map_t told = e->told;
    report_block(e, &n->body_nodes);
    e->told = told;
    e->reader = n;
    for (uint32_t k = 0; k < n->operand_count; k++) note_use(e, n->yields[k]);
  }
}

void tensor_edges_report(tensor_edges_t *e, const tir_func_t *func) {
  if (e == NULL) return;
  pass_remark_names(e->state, e->module, func, &e->names);
  const ir_target_t *target = tensor_target(e->state);
  e->prices = tensor_edge_prices_create(&e->arena, target, func);
  report_block(e, &func->nodes);
}
