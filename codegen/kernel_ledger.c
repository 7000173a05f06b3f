/* kernel_ledger.c: see kernel_ledger.h. */
#include "codegen/kernel_ledger.h"

#include "ir/tir.h"
#include "runtime/base/num.h"

typedef struct ledger {
  td_task_t *task;
  td_arena_t *arena;
  const cg_kernel_t *kernel;
  const cg_vars_t *dims;
} ledger_t;

static bool is_known(void *user, const ix_symbol_t *s) {
  const cg_vars_t *vars = user;
  for (size_t i = 0; i < vars->length; i++) {
    if (vars->data[i] == s) return true;
  }
  return false;
}

static plan_expr_t of_poly(const ledger_t *l, const ix_poly_t *p) {
  return cg_plan_poly(l->task, l->arena, l->dims, p);
}

/* The nodes that the kernel computes, in text order. */
typedef TD_VEC(tir_node_t *) nodes_t;

static void collect(const ledger_t *l, const tir_block_t *block,
                    nodes_t *out) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) {
      collect(l, &n->body_nodes, out);
    } else if (n->group == l->kernel->group) {
      td_vec_push(l->arena, out, n);
    }
  }
}

/* ---- operations ---------------------------------------------------------- */

/* One for each arithmetic operation on floats that a tuple makes, functions
 * included; a sum's addition is one more. */
static void count_op(void *user, tir_expr_t *e) {
  int64_t *count = user;
  bool is_float =
      e->type == TDSL_DTYPE_F32 || e->type == TDSL_DTYPE_F64;
  bool is_op = e->op != TIR_X_CONST && e->op != TIR_X_LOAD &&
               e->op != TIR_X_SELECT && e->op != TIR_X_CAST &&
               e->op != TIR_X_UNIFORM && e->op != TIR_X_ROUND_TF32;
  *count += is_float && is_op;
}

static plan_expr_t flops_of(const ledger_t *l, tir_node_t *n) {
  /* of a product, what its operands take is done once and not per tuple */
  bool is_product = n->is_fma && n->reduce == TIR_REDUCE_SUM;
  int64_t ops =
      is_product ? 2 : n->reduce == TIR_REDUCE_SUM || n->is_accumulate;
  for (uint32_t k = 0; !is_product && k < tir_node_expr_count(n); k++) {
    tir_walk(l->arena, *tir_node_expr(n, k), count_op, &ops);
  }
  plan_expr_t all = plan_const(l->arena, ops);
  for (uint32_t k = 0; ops > 0 && k < n->index_count; k++) {
    const ix_poly_t *extent = n->indices[k]->extent;
    if (!ix_each_symbol(extent, is_known, (void *)(uintptr_t)l->dims)) {
      return plan_const(l->arena, 0);
    }
    all = plan_join(l->arena, PLAN_X_MUL, all, of_poly(l, extent));
  }
  return all;
}

/* ---- places that a subscript takes --------------------------------------- */

/* The accesses of one value: the subscripts of the first, per dim, while all
 * others have the same. */
typedef struct accesses {
  const tir_value_t *value;
  tir_expr_t *const *subs; /* of the first; NULL: none so far */
  bool is_mixed[IX_MAX_RANK];
  bool is_whole;           /* read by other means than subscripts */
} accesses_t;

static bool is_same(const tir_expr_t *a, const tir_expr_t *b) {
  if (a == b) return true;
  if (a->op != b->op || a->type != b->type) return false;
  switch (a->op) {
    case TIR_X_CONST:
      return a->type == TDSL_DTYPE_I64 && a->u.i64 == b->u.i64;
    case TIR_X_INDEX:
      return a->u.index == b->u.index;
    case TIR_X_DIM:
      return a->u.dim == b->u.dim;
    case TIR_X_LOAD:
      return a->u.value == b->u.value && a->arg_count == 0;
    default:
      return false;
  }
}

static void note_access(accesses_t *a, tir_expr_t *const *subs) {
  if (a->subs == NULL) a->subs = subs;
  for (uint32_t d = 0; d < a->value->rank; d++) {
    if (!is_same(a->subs[d], subs[d])) a->is_mixed[d] = true;
  }
}

static void note_load(void *user, tir_expr_t *e) {
  accesses_t *a = user;
  if (e->op == TIR_X_LOAD && e->u.value == a->value) note_access(a, e->args);
}

/* A dim whose subscript is an index tells the tuples of that index apart;
 * asked for dim `d`, which is not its own witness. */
static bool is_told_apart(const accesses_t *a, const tir_index_t *index,
                          uint32_t d) {
  uint32_t end = a->subs[d]->op == TIR_X_INDEX ? d : a->value->rank;
  for (uint32_t i = 0; i < end; i++) {
    const tir_expr_t *e = a->subs[i];
    if (i == d || a->is_mixed[i]) continue;
    if (e->op == TIR_X_INDEX && e->u.index == index) return true;
  }
  return false;
}

/* The indices that occur in a subscript, each once. */
typedef struct factors {
  td_arena_t *arena;
  TD_VEC(const tir_index_t *) indices;
} factors_t;

static void note_index(void *user, tir_expr_t *e) {
  factors_t *f = user;
  if (e->op != TIR_X_INDEX) return;
  for (size_t i = 0; i < f->indices.length; i++) {
    if (f->indices.data[i] == e->u.index) return;
  }
  td_vec_push(f->arena, &f->indices, e->u.index);
}

/* At most the extent of the dim, and at most one place for each tuple of the
 * indices in the subscript that no other dim tells apart. */
static plan_expr_t places(const ledger_t *l, const accesses_t *a,
                          uint32_t d) {
  const ix_poly_t *dim = a->value->dims[d];
  factors_t f = {.arena = l->arena};
  tir_walk(l->arena, a->subs[d], note_index, &f);
  plan_expr_t whole = of_poly(l, dim);
  plan_expr_t tuples = plan_const(l->arena, 1);
  for (size_t i = 0; i < f.indices.length; i++) {
    const tir_index_t *index = f.indices.data[i];
    const ix_poly_t *extent = index->extent;
    if (is_told_apart(a, index, d)) continue;
    if (extent == dim) return whole;
    if (!ix_each_symbol(extent, is_known, (void *)(uintptr_t)l->dims)) {
      return whole;
    }
    int64_t n;
    plan_expr_t e = of_poly(l, extent);
    if (!ix_is_const(extent, &n)) { /* an extent below 0 is none */
      e = plan_join(l->arena, PLAN_X_MAX, e, plan_const(l->arena, 0));
    }
    tuples = plan_join(l->arena, PLAN_X_MUL, tuples, e);
  }
  return plan_join(l->arena, PLAN_X_MIN, tuples, whole);
}

static plan_expr_t bytes_of(const ledger_t *l, const kir_buffer_t *p,
                            const accesses_t *a) {
  plan_expr_t bytes =
      plan_const(l->arena, (int64_t)td_dtype_bytes(p->dtype));
  /* leading dims; panels have others behind them */
  bool is_laid_out = a->subs != NULL && !a->is_whole;
  for (uint32_t d = 0; d < p->rank; d++) {
    is_laid_out = is_laid_out && d < a->value->rank &&
                  a->value->dims[d] == p->dims[d];
    bool is_whole = !is_laid_out || a->is_mixed[d];
    bytes = plan_join(l->arena, PLAN_X_MUL, bytes,
                      is_whole ? of_poly(l, p->dims[d]) : places(l, a, d));
  }
  return bytes;
}

/* Where the kernel's nodes touch `value`: loads, and with `is_write` the
 * elements that updates replace. */
static accesses_t find_accesses(const ledger_t *l, const nodes_t *nodes,
                                const tir_value_t *value, bool is_write) {
  accesses_t a = {.value = value};
  for (size_t i = 0; i < nodes->length; i++) {
    tir_node_t *n = nodes->data[i];
    bool is_target = n->kind == TIR_UPDATE &&
                     (n->outs[0] == value || n->operands[0] == value);
    if (is_target) note_access(&a, n->subs);
    if (is_write) continue;
    for (uint32_t k = 0; k < tir_node_expr_count(n); k++) {
      tir_walk(l->arena, *tir_node_expr(n, k), note_load, &a);
    }
    if (n->transport != NULL) {
      tir_walk(l->arena, n->transport, note_load, &a);
    }
    for (uint32_t o = 0; n->kind == TIR_TOPK && o < n->operand_count; o++) {
      if (n->operands[o] == value) a.is_whole = true;
    }
  }
  return a;
}

void cg_kernel_ledger(td_task_t *task, td_arena_t *arena,
                      const cg_kernel_t *kernel, const cg_vars_t *dims,
                      plan_kernel_t *out) {
  ledger_t l = {task, arena, kernel, dims};
  nodes_t nodes = {0};
  collect(&l, &kernel->func->nodes, &nodes);
  plan_expr_t read = {0}, written = {0}, flops = {0};
  for (uint32_t i = 0; i < kernel->kernel->param_count; i++) {
    const kir_buffer_t *p = kernel->kernel->params[i];
    const tir_value_t *value = kernel->param_values[i];
    if (out->is_read[i]) {
      accesses_t a = find_accesses(&l, &nodes, value, false);
      read = plan_join(arena, PLAN_X_ADD, read, bytes_of(&l, p, &a));
    }
    if (out->is_written[i]) {
      accesses_t a = find_accesses(&l, &nodes, value, true);
      written = plan_join(arena, PLAN_X_ADD, written, bytes_of(&l, p, &a));
    }
  }
  for (size_t i = 0; i < nodes.length; i++) {
    flops = plan_join(arena, PLAN_X_ADD, flops, flops_of(&l, nodes.data[i]));
  }
  out->ledger.read_bytes = read;
  out->ledger.written_bytes = written;
  out->ledger.flops = flops;
}
