/* contraction_ends.c: what all forms of a matrix product share: the grid of
 * its tiles, and what is done with a sum that is complete. */
#include "passes/tile/contraction.h"

#include "ir/expr.h"

kir_expr_t *contraction_zero(product_t *p) {
  return kir_const_f(p->t->arena, p->type, 0.0);
}

/* ---- along memory -------------------------------------------------------- */

typedef struct contiguity {
  const tir_index_t *along;
  uint32_t yes, no;
} contiguity_t;

static void count_contiguous(void *user, tir_expr_t *e) {
  contiguity_t *c = user;
  if (e->op != TIR_X_LOAD || e->arg_count == 0) return;
  const tir_expr_t *last = e->args[e->arg_count - 1];
  while (last->op == TIR_X_ADD || last->op == TIR_X_SUB) last = last->args[0];
  bool is_along = last->op == TIR_X_INDEX && last->u.index == c->along;
  c->yes += is_along;
  c->no += !is_along;
}

bool contraction_runs_along(product_t *p, tir_expr_t *e,
                            const flat_group_t *g) {
  contiguity_t c = {g->flat, 0, 0};
  tir_walk(p->t->arena, e, count_contiguous, &c);
  return c.yes > 0 && c.yes >= c.no;
}

/* Elements side by side of one load. */
static int64_t run_of(const tir_expr_t *e, const flat_group_t *g) {
  int64_t run = INT64_MAX, hi = 0, n = 1;
  if (e->op == TIR_X_MUL && e->args[0]->op == TIR_X_CONST) {
    n = e->args[0]->u.i64;
    e = e->args[1];
  }
  if (e->op == TIR_X_MOD) {
    const tir_expr_t *by = e->args[1];
    if (by->op == TIR_X_CONST) hi = by->u.i64;
    if (by->op == TIR_X_DIM) hi = contraction_upper(by->u.dim);
    run = hi;
    e = e->args[0];
  }
  if (e->op != TIR_X_INDEX || e->u.index != g->flat || n <= 0) return 0;
  return run / n;
}

typedef struct runs {
  const flat_group_t *along;
  uint32_t yes, no;
  int64_t least;
} runs_t;

static void count_runs(void *user, tir_expr_t *e) {
  runs_t *r = user;
  if (e->op != TIR_X_LOAD || e->arg_count == 0) return;
  const tir_expr_t *last = e->args[e->arg_count - 1];
  while (last->op == TIR_X_ADD || last->op == TIR_X_SUB) last = last->args[0];
  int64_t run = run_of(last, r->along);
  r->yes += run > 0;
  r->no += run == 0;
  if (run > 0 && run < r->least) r->least = run;
}

int64_t contraction_run(product_t *p, tir_expr_t *e, const flat_group_t *g) {
  runs_t r = {g, 0, 0, INT64_MAX};
  if (g->count == 0) return 0;
  tir_walk(p->t->arena, e, count_runs, &r);
  return r.yes > 0 && r.yes >= r.no ? r.least : 0;
}

/* ---- tiles --------------------------------------------------------------- */

kir_block_t *contraction_batch(product_t *p, kir_block_t *block) {
  tile_t *t = p->t;
  for (uint32_t i = 0; i < p->batch.count; i++) {
    const tir_index_t *index = p->batch.members[i];
    kir_expr_t *v;
    block = tile_loop(t, block, KIR_LOOP_BLOCK, index->name, tile_int(t, 0),
                      tile_dim(t, index->extent), 1, &v);
    tile_set_index(t, index, v);
    p->batch_at = v;
  }
  return block;
}

static kir_block_t *row_blocks(product_t *p, kir_block_t *block,
                               int64_t rows) {
  tile_t *t = p->t;
  return tile_loop(t, block, KIR_LOOP_BLOCK, "mb", tile_int(t, 0),
                   tile_dim(t, p->m.extent), rows, &p->mb);
}

/* Batches, rows, columns: columns move fastest, or rows where b is packed, so
 * that its panels are still near for the next rows. */
kir_block_t *contraction_grid(product_t *p, kir_block_t *block,
                              int64_t rows) {
  tile_t *t = p->t;
  bool is_packed =
      p->packed != NULL && p->side_count == 1 && p->key == NULL;
  block = p->key == NULL ? contraction_batch(p, block)
                         : contraction_group_grid(p, block);
  if (p->key != NULL) p->mb = tile_int(t, 0);
  else if (!is_packed) block = row_blocks(p, block, rows);
  if (p->side_count > 1) return contraction_side_grid(p, block);
  int64_t n;
  kir_expr_t *end = p->rest > 0 && ix_is_const(p->n.extent, &n)
                        ? tile_int(t, n - p->rest)
                        : tile_dim(t, p->n.extent);
  block = tile_loop(t, block, KIR_LOOP_BLOCK, "nb", tile_int(t, 0), end,
                    p->nc, &p->nb);
  p->sides[0].nc = p->nc;
  p->sides[0].nb = p->nb;
  return is_packed ? row_blocks(p, block, rows) : block;
}

kir_expr_t *contraction_part(product_t *p, kir_expr_t *from,
                             const ix_poly_t *extent, int64_t size) {
  tile_t *t = p->t;
  int64_t constant;
  if (ix_is_const(extent, &constant) && constant <= size) {
    return tile_int(t, constant);
  }
  kir_expr_t *left =
      tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, tile_dim(t, extent), from);
  return tile_min(t, left, tile_int(t, size));
}

kir_expr_t *contraction_name(product_t *p, kir_block_t *block,
                             const char *name, kir_expr_t *e) {
  return tile_let(p->t, block, name, e);
}

/* ---- the epilogue -------------------------------------------------------- */

static kir_expr_t *stored(tile_t *t, const tir_value_t *v, kir_expr_t *e) {
  if (v->dtype == e->type) return e;
  kir_expr_t *cast = kir_op(t->arena, KIR_X_CAST, tir_arithmetic(v->dtype), 1,
                            (kir_expr_t *[]){e});
  cast->u.to = v->dtype;
  return cast;
}

/* Values of the group are elements while bodies are rewritten, or loads of
 * them would become views of memory; what is stored is memory. */
void contraction_prepare(product_t *p) {
  tile_t *t = p->t;
  flat_group_t *groups[3] = {&p->m, &p->n, &p->k};
  if (p->has_guard) {
    p->guard = flat_rewrite(t, groups, 3, p->node->guard);
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    tir_node_t *n = t->nodes[k];
    const tir_value_t *out = n->outs[0];
    if (!tile_escapes(t, out)) continue;
    tir_expr_t *subs[IX_MAX_RANK];
    for (uint32_t i = 0; i < out->rank; i++) {
      /* the contraction's own indices, which the groups know */
      subs[i] = contraction_adopt(p, k,
                                  n->kind == TIR_UPDATE
                                      ? n->subs[i]
                                      : tir_index_ref(t->arena,
                                                      n->indices[i]));
    }
    groups[1] = &p->sides[p->leads[k]].n;
    p->places[k] =
        flat_rewrite(t, groups, 3, tir_load(t->arena, out, out->rank, subs));
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    tile_set_element(t, t->nodes[k]->outs[0], contraction_zero(p));
  }
  for (uint32_t k = 1; k < t->node_count; k++) {
    if (p->side_of[k] >= 0) continue;
    groups[1] = &p->sides[p->leads[k]].n;
    p->tails[k] = flat_rewrite(t, groups, 3,
                               contraction_adopt(p, k, t->nodes[k]->body));
  }
}

static void store_escaping(product_t *p, kir_block_t *block, uint32_t k,
                           kir_expr_t *v, contraction_store_fn store,
                           void *user) {
  tile_t *t = p->t;
  if (p->places[k] == NULL) return;
  tile_set_element(t, p->places[k]->u.value, NULL);
  kir_expr_t *load = tile_expr(t, p->places[k]);
  kir_buffer_t *b = (kir_buffer_t *)(uintptr_t)load->u.buffer;
  b->is_read = false;
  b->is_written = true;
  store(p, block, b, load->arg_count, load->args, v, user);
}

void contraction_finish(product_t *p, kir_block_t *block, kir_expr_t *sum,
                        contraction_store_fn store, void *user) {
  tile_t *t = p->t;
  if (sum != NULL) p->sums[p->lead] = sum;
  if (p->guard != NULL) {
    p->sums[0] = kir_op(t->arena, KIR_X_SELECT, p->type, 3,
                        (kir_expr_t *[]){tile_expr(t, p->guard), p->sums[0],
                                         contraction_zero(p)});
  }
  for (uint32_t k = 0; k < t->node_count; k++) {
    const tir_value_t *out = t->nodes[k]->outs[0];
    if (p->leads[k] != p->lead) continue;
    kir_expr_t *v = p->side_of[k] >= 0 ? p->sums[p->side_of[k]]
                                       : tile_expr(t, p->tails[k]);
    /* memory may be that of an operand, which later maps must not read */
    bool is_read_again = p->places[k] != NULL && k + 1 < t->node_count;
    if (is_read_again) v = tile_let(t, block, out->name, v);
    store_escaping(p, block, k, v, store, user);
    tile_set_element(t, out, stored(t, out, v));
  }
}

static void put_element(product_t *p, kir_block_t *block, kir_buffer_t *b,
                        uint32_t count, kir_expr_t *const *subs,
                        kir_expr_t *v, void *user) {
  (void)user;
  tile_store(p->t, block, b, count, subs, v);
}

void contraction_put(product_t *p, kir_block_t *lanes, kir_expr_t *sum) {
  contraction_finish(p, lanes, sum, put_element, NULL);
}

void contraction_set_place(product_t *p, kir_expr_t *i, kir_expr_t *j) {
  tile_t *t = p->t;
  if (p->m.count > 0) {
    kir_expr_t *row = kir_add(t->arena, p->mb, kir_add(t->arena, p->ib, i));
    tile_set_index(t, p->m.flat, contraction_row_at(p, row));
  }
  tile_set_index(t, p->n.flat, kir_add(t->arena, p->nb, j));
}
