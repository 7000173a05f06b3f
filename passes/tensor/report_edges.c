/* report_edges.c: remarks on values between nodes; see report_edges.h. */
#include "passes/tensor/report_edges.h"

#include "passes/tensor/group_kernels.h"
#include "passes/tensor/price.h"
#include "runtime/base/num.h"

typedef struct refusal {
  uint32_t group;
  remark_code_t why;
} refusal_t;

struct tensor_edges {
  pass_state_t *state;
  const tir_module_t *module;
  td_arena_t arena;
  td_map_t refusals; /* tir_node_t* -> refusal_t* */
  td_map_t makers;   /* tir_value_t* -> tir_node_t* */
  td_map_t told;     /* value and reader, of the node at hand */
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
  td_map_init(&e->makers, &e->arena);
  return e;
}

void tensor_edges_free(tensor_edges_t *e) {
  if (e != NULL) td_arena_free_all(&e->arena);
}

void tensor_edges_refuse(tensor_edges_t *e, const tir_node_t *node,
                         uint32_t group, remark_code_t why) {
  if (e == NULL) return;
  refusal_t *r = TD_NEW(&e->arena, refusal_t);
  *r = (refusal_t){group, why};
  td_map_put_u64(&e->refusals, key_of(node), r);
}

/* ---- one edge ----------------------------------------------------------- */

static bool is_alone(const tir_node_t *n) {
  return n->kind != TIR_MAP;
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

static void explain(remark_t *m, remark_code_t code) {
  if (m == NULL) return;
  switch (code) {
    case REMARK_CODE_FUSE_COSTS_MORE:
      m->hint = "a product reads each element once for every row or column "
                "of the other factor";
      break;
    case REMARK_CODE_FUSE_SHARED_BYTES:
      m->hint = "a dim with a smaller bound would let the part stay in cache";
      break;
    default: break;
  }
}

/* What crossing memory costs, or would have. */
static void report_prices(const tensor_edges_t *e, remark_t *m,
                          const tir_value_t *v, remark_code_t code) {
  const ir_target_t *target = tensor_target(e->state);
  ix_pool_t *pool = e->module->pool;
  double elements = tensor_elements(v);
  tensor_price_t crossing = {
      .bytes = 2.0 * elements * (double)td_dtype_bytes(v->dtype),
      .launches = 1};
  const ix_poly_t *ns = ix_const(pool, tensor_price_ns(target, &crossing));
  pass_remark_number(
      m, code == REMARK_CODE_FUSE_DONE ? "price_ns_if_apart" : "price_ns", ns);
}

static void report(tensor_edges_t *e, const tir_value_t *v,
                   const tir_node_t *maker) {
  const tir_node_t *n = e->reader;
  const char *reader = n->out_count > 0 ? n->outs[0]->name : "an assertion";
  bool is_one = n->group != 0 && n->group == maker->group;
  remark_code_t code = is_one ? REMARK_CODE_FUSE_DONE : why_apart(e, maker);
  remark_t *m =
      is_one ? pass_remark(e->state, "join-kernels", code, n->loc,
                           "%s and %s are one kernel", v->name, reader)
             : pass_remark(e->state, "join-kernels", code, n->loc,
                           "%s is written to memory before %s reads it: %s",
                           v->name, reader, pass_remark_table[code].sentence);
  pass_remark_place(m, maker->loc);
  const ix_poly_t *bytes = tensor_bytes(e->module->pool, v);
  pass_remark_number(m, is_one ? "bytes_kept" : "bytes_crossing", bytes);
  if (m != NULL) report_prices(e, m, v, code);
  explain(m, code);
}

/* ---- all edges ---------------------------------------------------------- */

static void note_use(tensor_edges_t *e, const tir_value_t *v) {
  const tir_node_t *maker = td_map_get_u64(&e->makers, key_of(v));
  if (maker == NULL || v->rank == 0 || maker == e->reader) return;
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
    for (uint32_t k = 0; k < n->operand_count; k++) {
      note_use(e, n->operands[k]);
    }
    if (n->kind == TIR_LOOP) report_block(e, &n->body_nodes);
    for (uint32_t k = 0; k < n->out_count; k++) {
      td_map_put_u64(&e->makers, key_of(n->outs[k]), n);
    }
  }
}

void tensor_edges_report(tensor_edges_t *e, const tir_func_t *func) {
  if (e != NULL) report_block(e, &func->nodes);
}
