/* lower_update.c: element updates.
 *
 * The output buffer holds the old version when the kernel starts (planning
 * aliases or copies it).  The body may read the old version at the element
 * it writes; if it reads others, the target is a parameter of its own and
 * planning keeps the two apart: all reads come before all writes.
 *
 * A store with :=, or += whose elements are proved distinct, writes
 * directly, block by block.  Other +=: contributions are summed per element
 * in index order into scratch, then added and rounded once; other :=: one
 * block, so that the last tuple wins on every run. */
#include "passes/tile/tile.h"

#include "ir/expr.h"
#include "passes/tile/update.h"

typedef struct reads {
  const tir_node_t *node;
  tir_interner_t *interner;
  bool elsewhere;
} reads_t;

static void find_reads(void *user, tir_expr_t *e) {
  reads_t *r = user;
  if (e->op != TIR_X_LOAD || e->u.value != r->node->operands[0]) return;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (tir_intern(r->interner, e->args[i]) !=
        tir_intern(r->interner, r->node->subs[i])) {
      r->elsewhere = true;
    }
  }
}

bool tile_update_reads_elsewhere(td_arena_t *scratch, tir_node_t *node) {
  tir_interner_t interner;
  tir_interner_init(&interner, scratch);
  reads_t r = {node, &interner, false};
  for (uint32_t i = 0; i < tir_node_expr_count(node); i++) {
    tir_walk(scratch, *tir_node_expr(node, i), find_reads, &r);
  }
  /* several tuples may write one element: a read at the written element may
   * then see a new value */
  bool reads_any = false;
  for (uint32_t i = 0; i < tir_node_expr_count(node) && !reads_any; i++) {
    reads_any = tir_mentions_value(scratch, *tir_node_expr(node, i),
                                   node->operands[0]);
  }
  return r.elsewhere || (reads_any && !node->is_distinct);
}

/* Loops over all indices of the node: block loops if tuples are independent,
 * else serial ones. */
static kir_block_t *tuple_loops(tile_t *t, tir_node_t *n, kir_loop_t kind,
                                kir_block_t *block) {
  for (uint32_t i = 0; i < n->index_count; i++) {
    const tir_index_t *index = n->indices[i];
    kir_expr_t *v;
    block = tile_loop(t, block, kind, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent), 1, &v);
    tile_set_index(t, index, v);
  }
  return block;
}

static void translate_subs(tile_t *t, tir_node_t *n, kir_expr_t **subs) {
  for (uint32_t i = 0; i < n->sub_count; i++) {
    subs[i] = tile_expr(t, n->subs[i]);
  }
}

static kir_block_t *guarded(tile_t *t, tir_node_t *n, kir_block_t *block) {
  if (n->guard == NULL) return block;
  return &tile_push(t, block, tile_if(t, tile_expr(t, n->guard)))->body;
}

/* acc + body, by fma if the body is a product as written. */
static kir_expr_t *add_term(tile_t *t, tir_node_t *n, kir_expr_t *acc) {
  kir_expr_t *term = tile_expr(t, n->body);
  if (n->is_fma && term->op == KIR_X_MUL) {
    return kir_op(t->arena, KIR_X_FMA, acc->type, 3,
                  (kir_expr_t *[]){term->args[0], term->args[1], acc});
  }
  return tile_op2(t, KIR_X_ADD, acc->type, acc, term);
}

/* The sum is kept in the arithmetic type that the body and the place meet
 * in; the place itself is rounded once. */
static kir_expr_t *zero_of(tile_t *t, tdsl_dtype_t type) {
  return tile_identity(t, TIR_REDUCE_SUM, type);
}

static void direct(tile_t *t, tir_node_t *n, kir_buffer_t *out) {
  kir_loop_t kind = n->is_distinct ? KIR_LOOP_BLOCK : KIR_LOOP_SERIAL;
  kir_block_t *block = tuple_loops(t, n, kind, &t->kernel->body);
  block = guarded(t, n, block);
  kir_expr_t *subs[IX_MAX_RANK];
  translate_subs(t, n, subs);
  kir_expr_t *v;
  if (n->is_accumulate) {
    kir_expr_t *sum = add_term(t, n, zero_of(t, n->body->type));
    kir_expr_t *old = kir_load(t->arena, out, n->sub_count, subs);
    out->is_read = true;
    v = tile_op2(t, KIR_X_ADD, n->body->type, old, sum);
  } else {
    v = tile_expr(t, n->body);
  }
  tile_store(t, block, out, n->sub_count, subs, v);
}

/* Serial loops over every element of a tensor. */
static kir_block_t *element_loops(tile_t *t, const tir_value_t *v,
                                  kir_block_t *block, kir_expr_t **subs) {
  for (uint32_t i = 0; i < v->rank; i++) {
    block = tile_loop(t, block, KIR_LOOP_SERIAL, "e", tile_int(t, 0),
                      tile_dim(t, v->dims[i]), 1, &subs[i]);
  }
  return block;
}

static void summed(tile_t *t, tir_node_t *n, kir_buffer_t *out) {
  kir_block_t *body = &t->kernel->body;
  const tir_value_t *v = n->outs[0];
  kir_expr_t *subs[IX_MAX_RANK], *at[IX_MAX_RANK];
  kir_buffer_t *sum = tile_alloc(t, body, "sum", n->body->type, KIR_LOCAL,
                                 v->rank, v->dims);
  kir_buffer_t *hit = tile_alloc(t, body, "hit", TDSL_DTYPE_BOOL, KIR_LOCAL,
                                 v->rank, v->dims);
  kir_block_t *clear = element_loops(t, v, body, at);
  tile_store(t, clear, sum, v->rank, at, zero_of(t, n->body->type));
  tile_store(t, clear, hit, v->rank, at,
             kir_const_i(t->arena, TDSL_DTYPE_BOOL, 0));
  kir_block_t *tuples =
      guarded(t, n, tuple_loops(t, n, KIR_LOOP_SERIAL, body));
  translate_subs(t, n, subs);
  kir_expr_t *acc = kir_load(t->arena, sum, n->sub_count, subs);
  tile_store(t, tuples, sum, n->sub_count, subs, add_term(t, n, acc));
  tile_store(t, tuples, hit, n->sub_count, subs,
             kir_const_i(t->arena, TDSL_DTYPE_BOOL, 1));
  kir_block_t *finish = element_loops(t, v, body, at);
  kir_expr_t *was_hit = kir_load(t->arena, hit, v->rank, at);
  finish = &tile_push(t, finish, tile_if(t, was_hit))->body;
  out->is_read = true;
  kir_expr_t *old = kir_load(t->arena, out, v->rank, at);
  tile_store(t, finish, out, v->rank, at,
             tile_op2(t, KIR_X_ADD, n->body->type, old,
                      kir_load(t->arena, sum, v->rank, at)));
}

void tile_lower_update(tile_t *t, tir_node_t *node) {
  kir_buffer_t *out = tile_param(t, node->outs[0], false, true);
  if (!tile_update_reads_elsewhere(t->arena, node)) {
    /* reads of the old version at the written element: the same buffer */
    tile_set_home(t, node->operands[0], out, 0);
  }
  if (!node->is_accumulate || node->is_distinct) {
    direct(t, node, out);
  } else {
    summed(t, node, out);
  }
}
