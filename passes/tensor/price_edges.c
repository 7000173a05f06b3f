/* price_edges.c: see price_edges.h. */
#include "passes/tensor/price_edges.h"

#include "runtime/base/num.h"

typedef struct use {
  const tir_node_t *maker;
  uint32_t readers; /* nodes, and results */
  uint32_t outside; /* of them, those of no or another group */
} use_t;

typedef struct members {
  TD_VEC(tir_node_t *) nodes;
} members_t;

struct tensor_edge_prices {
  td_arena_t *arena;
  const ir_target_t *target;
  td_map_t uses;   /* tir_value_t* -> use_t* */
  td_map_t groups; /* number -> members_t* */
  td_map_t seen;   /* tir_value_t* -> itself: of the node at hand */
  const tir_node_t *reader; /* NULL: a result */
};

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static use_t *use_of(const tensor_edge_prices_t *p, const tir_value_t *v) {
  return td_map_get_u64(&p->uses, key_of(v));
}

static double bytes_of(const tir_value_t *v) {
  return tensor_elements(v) * (double)td_dtype_bytes(v->dtype);
}

/* ---- who reads what ------------------------------------------------------ */

static void note_use(tensor_edge_prices_t *p, const tir_value_t *v) {
  use_t *u = use_of(p, v);
  if (u == NULL || td_map_get_u64(&p->seen, key_of(v)) != NULL) return;
  td_map_put_u64(&p->seen, key_of(v), u);
  u->readers++;
  u->outside += p->reader == NULL || p->reader->group == 0 ||
                p->reader->group != u->maker->group;
}

static void note_load(void *user, tir_expr_t *e) {
  if (e->op == TIR_X_LOAD) note_use(user, e->u.value);
}

static void add_member(tensor_edge_prices_t *p, tir_node_t *n) {
  if (n->group == 0) return;
  members_t *m = td_map_get_u64(&p->groups, n->group);
  if (m == NULL) {
    m = TD_NEW(p->arena, members_t);
    td_map_put_u64(&p->groups, n->group, m);
  }
  td_vec_push(p->arena, &m->nodes, n);
}

static void scan(tensor_edge_prices_t *p, const tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    p->reader = n;
    td_map_init(&p->seen, p->arena);
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(p->arena, *tir_node_expr(n, k), note_load, p);
    }
    if (n->transport != NULL) tir_walk(p->arena, n->transport, note_load, p);
    for (uint32_t k = 0; k < n->operand_count; k++) {
      note_use(p, n->operands[k]);
    }
    if (n->kind == TIR_LOOP) {
      scan(p, &n->body_nodes);
      p->reader = n;
      td_map_init(&p->seen, p->arena);
      for (uint32_t k = 0; k < n->operand_count; k++) {
        note_use(p, n->yields[k]);
      }
    }
    add_member(p, n);
    for (uint32_t k = 0; k < n->out_count; k++) {
      use_t *u = TD_NEW(p->arena, use_t);
      u->maker = n;
      td_map_put_u64(&p->uses, key_of(n->outs[k]), u);
    }
  }
}

tensor_edge_prices_t *tensor_edge_prices_create(td_arena_t *arena,
                                                const ir_target_t *target,
                                                const tir_func_t *func) {
  tensor_edge_prices_t *p = TD_NEW(arena, tensor_edge_prices_t);
  p->arena = arena;
  p->target = target;
  td_map_init(&p->uses, arena);
  td_map_init(&p->groups, arena);
  scan(p, &func->nodes);
  p->reader = NULL;
  td_map_init(&p->seen, arena);
  for (uint32_t s = 0; s < func->slot_count; s++) {
    if (func->slots[s].result != NULL) note_use(p, func->slots[s].result);
  }
  return p;
}

bool tensor_edge_leaves(const tensor_edge_prices_t *p, const tir_value_t *v) {
  const use_t *u = use_of(p, v);
  return u == NULL || u->outside > 0;
}

const tir_node_t *tensor_edge_maker(const tensor_edge_prices_t *p,
                                    const tir_value_t *v) {
  const use_t *u = use_of(p, v);
  return u == NULL ? NULL : u->maker;
}

/* ---- a kernel ------------------------------------------------------------ */

typedef struct kernel {
  const tensor_edge_prices_t *p;
  uint32_t group;
  double tuples; /* of the node at hand */
  td_map_t read;
  tensor_price_t *price;
} kernel_t;

static void add_load(void *user, tir_expr_t *e) {
  kernel_t *k = user;
  if (e->op != TIR_X_LOAD) return;
  const tir_value_t *v = e->u.value;
  const use_t *u = use_of(k->p, v);
  if (u != NULL && u->maker->group == k->group) return;
  if (td_map_get_u64(&k->read, key_of(v)) != NULL) return;
  td_map_put_u64(&k->read, key_of(v), k);
  double elements = tensor_elements(v);
  if (elements > k->tuples) elements = k->tuples; /* a gather reads parts */
  k->price->bytes += elements * (double)td_dtype_bytes(v->dtype);
}

/* Of all nodes but one; false: none is left. */
static bool price_group(const tensor_edge_prices_t *p, uint32_t group,
                        const tir_node_t *without, tensor_price_t *price) {
  members_t *m = td_map_get_u64(&p->groups, group);
  kernel_t k = {.p = p, .group = group, .price = price};
  size_t count = m == NULL ? 0 : m->nodes.length, left = 0;
  td_map_init(&k.read, p->arena);
  for (size_t i = 0; i < count; i++) {
    tir_node_t *n = m->nodes.data[i];
    if (n == without) continue;
    left++;
    k.tuples = tensor_tuples(n);
    for (uint32_t x = 0; x < tir_node_expr_count(n); x++) {
      tir_expr_t *e = *tir_node_expr(n, x);
      tensor_price_body(p->arena, e, k.tuples, price);
      tir_walk(p->arena, e, add_load, &k);
    }
    if (n->reduce != TIR_REDUCE_NONE) price->flops += k.tuples;
    for (uint32_t o = 0; o < n->out_count; o++) {
      /* an update writes what it has tuples for */
      double bytes = n->kind == TIR_UPDATE
                         ? k.tuples * (double)td_dtype_bytes(n->outs[o]->dtype)
                         : bytes_of(n->outs[o]);
      if (tensor_edge_leaves(p, n->outs[o])) price->bytes += bytes;
    }
  }
  if (left > 0) price->launches += 1;
  return left > 0;
}

static int64_t add_ns(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t ns_of(const tensor_edge_prices_t *p, tensor_price_t *price) {
  if (price->bytes < 0) price->bytes = 0;
  return price->launches > 0 ? tensor_price_ns(p->target, price) : 0;
}

/* ---- an edge ------------------------------------------------------------- */

/* Values that only their kernel has, and that the reader would need. */
typedef struct needed {
  tensor_edge_prices_t *p;
  uint32_t group;
  td_map_t seen;
  double bytes;
} needed_t;

static void add_needed(void *user, tir_expr_t *e) {
  needed_t *d = user;
  if (e->op != TIR_X_LOAD) return;
  const tir_value_t *v = e->u.value;
  const use_t *u = use_of(d->p, v);
  if (u == NULL || u->maker->group != d->group || u->outside > 0 ||
      td_map_get_u64(&d->seen, key_of(v)) != NULL) {
    return;
  }
  td_map_put_u64(&d->seen, key_of(v), d);
  d->bytes += bytes_of(v);
}

/* The reader computes v for itself, as often as it reads it. */
static void recompute(tensor_edge_prices_t *p, const tir_value_t *v,
                      const use_t *u, const tir_node_t *reader,
                      tensor_price_t *maker, tensor_price_t *to) {
  tir_node_t *n = (tir_node_t *)(uintptr_t)u->maker;
  double tuples = tensor_tuples(n);
  double times = tuples * tensor_visits(p->arena, p->target,
                                        (tir_node_t *)(uintptr_t)reader, v);
  needed_t d = {.p = p, .group = n->group};
  td_map_init(&d.seen, p->arena);
  if (u->readers == 1) {
    *maker = (tensor_price_t){0};
    price_group(p, n->group, n, maker);
  }
  to->bytes -= bytes_of(v);
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_expr_t *e = *tir_node_expr(n, i);
    tensor_price_body(p->arena, e, times, to);
    tensor_price_loads(p->arena, e, tuples, to);
    tir_walk(p->arena, e, add_needed, &d);
  }
  if (n->reduce != TIR_REDUCE_NONE) to->flops += times;
  maker->bytes += d.bytes;
}

void tensor_edge_price(tensor_edge_prices_t *p, const tir_value_t *v,
                const tir_node_t *reader, int64_t *is, int64_t *other) {
  const use_t *u = use_of(p, v);
  tensor_price_t maker = {0}, to = {0};
  double bytes = bytes_of(v);
  price_group(p, u->maker->group, NULL, &maker);
  if (reader->group != 0 && reader->group == u->maker->group) {
    *is = ns_of(p, &maker);
    maker.bytes += u->outside > 0 ? bytes : 2 * bytes;
    maker.launches += 1;
    *other = ns_of(p, &maker);
    return;
  }
  price_group(p, reader->group, NULL, &to);
  *is = add_ns(ns_of(p, &maker), ns_of(p, &to));
  if (u->maker->kind == TIR_MAP && reader->group != 0) {
    recompute(p, v, u, reader, &maker, &to);
  } else { /* nothing could compute it there: the bytes alone */
    maker.bytes -= bytes;
    to.bytes -= bytes;
  }
  *other = add_ns(ns_of(p, &maker), ns_of(p, &to));
}
