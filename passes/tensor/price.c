/* price.c: see price.h. */
#include "passes/tensor/price.h"

#include "passes/tensor/group_product.h"
#include "runtime/base/num.h"

enum {
  BLOCK_ROWS = 1024, /* of a product, at most */
  SIMT_SIZE = 64,    /* rows and columns of one, where the row has none */
};

const ir_target_t *tensor_target(const pass_state_t *state) {
  const char *name = state->options->target;
  const ir_target_t *row =
      name == NULL ? NULL : ir_target_find(td_str(name));
  return row != NULL ? row : ir_target_find(td_str("x86-64-v3"));
}

double tensor_most(const ix_poly_t *extent) {
  int64_t lo, hi;
  if (!ix_interval(extent, &lo, &hi)) return 2147483648.0;
  return hi < 0 ? 0.0 : (double)hi;
}

double tensor_elements(const tir_value_t *v) {
  double count = 1.0;
  for (uint32_t d = 0; d < v->rank; d++) count *= tensor_most(v->dims[d]);
  return count;
}

double tensor_tuples(const tir_node_t *n) {
  double count = 1.0;
  for (uint32_t i = 0; i < n->index_count; i++) {
    count *= tensor_most(n->indices[i]->extent);
  }
  return count;
}

/* ---- expressions --------------------------------------------------------- */

typedef struct pricing {
  tensor_price_t *price;
  double count;
  td_map_t read; /* tir_value_t* -> itself */
} pricing_t;

static void price_operation(void *user, tir_expr_t *e) {
  pricing_t *p = user;
  if (e->arg_count == 0 || e->op == TIR_X_LOAD) return;
  if (tensor_is_costly(e)) p->price->specials += p->count;
  else p->price->flops += p->count;
}

void tensor_price_body(td_arena_t *scratch, tir_expr_t *e, double count,
                       tensor_price_t *price) {
  pricing_t p = {.price = price, .count = count};
  tir_walk(scratch, e, price_operation, &p);
}

static void price_load(void *user, tir_expr_t *e) {
  pricing_t *p = user;
  if (e->op != TIR_X_LOAD) return;
  uint64_t key = (uint64_t)(uintptr_t)e->u.value;
  if (td_map_get_u64(&p->read, key) != NULL) return;
  td_map_put_u64(&p->read, key, p);
  double elements = tensor_elements(e->u.value);
  if (elements > p->count) elements = p->count; /* a gather reads parts */
  p->price->bytes += elements * (double)td_dtype_bytes(e->u.value->dtype);
}

void tensor_price_loads(td_arena_t *scratch, tir_expr_t *e, double count,
                        tensor_price_t *price) {
  pricing_t p = {.price = price, .count = count};
  td_map_init(&p.read, scratch);
  tir_walk(scratch, e, price_load, &p);
}

void tensor_price_node(td_arena_t *scratch, tir_node_t *n,
                       tensor_price_t *price) {
  double tuples = tensor_tuples(n);
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_expr_t *e = *tir_node_expr(n, i);
    tensor_price_body(scratch, e, tuples, price);
    tensor_price_loads(scratch, e, tuples, price);
  }
  if (n->reduce != TIR_REDUCE_NONE) price->flops += tuples;
  for (uint32_t i = 0; i < n->out_count; i++) {
    const tir_value_t *v = n->outs[i];
    price->bytes += tensor_elements(v) * (double)td_dtype_bytes(v->dtype);
  }
  price->launches += 1;
}

static double list_count(const product_list_t *l) {
  double count = 1.0;
  for (uint32_t i = 0; i < l->count; i++) {
    count *= tensor_most(l->indices[i]->extent);
  }
  return count;
}

/* Blocks of `size` that count elements are cut into. */
static double pieces(double count, double size) {
  return count <= size ? 1.0 : count / size;
}

/* A block evaluates an operand once for each of its places. */
static double product_visits(td_arena_t *scratch, const ir_target_t *target,
                             const product_form_t *f, const tir_value_t *v) {
  double rows = target->nc > 0 ? BLOCK_ROWS : SIMT_SIZE;
  double columns = target->nc > 0 ? target->nc : SIMT_SIZE;
  double m = list_count(&f->m), n = list_count(&f->n), visits = 0;
  if (tir_mentions_value(scratch, f->a, v)) visits += m * pieces(n, columns);
  if (tir_mentions_value(scratch, f->b, v)) visits += n * pieces(m, rows);
  return visits * list_count(&f->batch) * list_count(&f->k);
}

double tensor_visits(td_arena_t *scratch, const ir_target_t *target,
                     tir_node_t *reader, const tir_value_t *v) {
  product_form_t form;
  double elements = tensor_elements(v), visits = tensor_tuples(reader);
  if (group_product_find_form(scratch, reader, &form) &&
      group_product_pays(&form)) {
    visits = product_visits(scratch, target, &form, v);
  }
  return visits <= elements ? 1.0 : visits / elements;
}

/* ---- sums ---------------------------------------------------------------- */

void tensor_price_add(tensor_price_t *to, const tensor_price_t *from,
                      double times) {
  to->bytes += times * from->bytes;
  to->flops += times * from->flops;
  to->specials += times * from->specials;
  to->launches += times * from->launches;
}

int64_t tensor_price_ns(const ir_target_t *target,
                        const tensor_price_t *price) {
  double ns = price->bytes / target->stream;
  double flops = price->flops / target->flops;
  double specials = price->specials / target->special;
  if (flops > ns) ns = flops;
  if (specials > ns) ns = specials;
  ns += price->launches * target->launch;
  if (ns < 1.0) return 1;
  return ns < 9e18 ? (int64_t)ns : INT64_MAX;
}
