/* lower_topk.c: the k largest elements of each vector, by selection.
 *
 * The order is total: NaN before numbers, larger before smaller, lower
 * position first among equals.  Pass j finds the first element behind the
 * one that pass j - 1 found, so nothing has to be marked as taken. */
#include "passes/tile/tile.h"

static kir_expr_t *is_nan(tile_t *t, kir_expr_t *v) {
  return tile_op2(t, KIR_X_NE, TDSL_DTYPE_BOOL, v, v);
}

static kir_expr_t *both(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_AND, TDSL_DTYPE_BOOL, a, b);
}

static kir_expr_t *either(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_OR, TDSL_DTYPE_BOOL, a, b);
}

static kir_expr_t *negate(tile_t *t, kir_expr_t *a) {
  return kir_op(t->arena, KIR_X_NOT, TDSL_DTYPE_BOOL, 1, &a);
}

kir_expr_t *tile_topk_before(tile_t *t, kir_expr_t *v, kir_expr_t *i,
                             kir_expr_t *w, kir_expr_t *j) {
  kir_expr_t *above = tile_op2(t, KIR_X_GT, TDSL_DTYPE_BOOL, v, w);
  kir_expr_t *equal = tile_op2(t, KIR_X_EQ, TDSL_DTYPE_BOOL, v, w);
  kir_expr_t *vn = is_nan(t, v), *wn = is_nan(t, w);
  above = either(t, above, both(t, vn, negate(t, wn)));
  equal = either(t, equal, both(t, vn, wn));
  return either(t, above, both(t, equal, tile_less(t, i, j)));
}

void tile_lower_topk(tile_t *t, tir_node_t *node) {
  const tir_value_t *x = node->operands[0];
  tile_note(t, "the %lld largest of each row of %s: one pass for each",
            (long long)node->k, x->name);
  kir_buffer_t *from = tile_param(t, x, true, false);
  kir_buffer_t *values = tile_param(t, node->outs[0], false, true);
  kir_buffer_t *positions = tile_param(t, node->outs[1], false, true);
  uint32_t outer = x->rank - 1;
  kir_expr_t *subs[IX_MAX_RANK];
  kir_block_t *block = &t->kernel->body;
  for (uint32_t i = 0; i < outer; i++) {
    block = tile_loop(t, block, KIR_LOOP_BLOCK, "r", tile_int(t, 0),
                      tile_dim(t, x->dims[i]), 1, &subs[i]);
  }
  tdsl_dtype_t type = kir_load(t->arena, from, 0, NULL)->type;
  const ix_poly_t *none[1] = {NULL};
  kir_buffer_t *regs[4]; /* last value, last position, best value, position */
  const char *names[4] = {"last", "last_at", "best", "best_at"};
  for (int i = 0; i < 4; i++) {
    regs[i] = tile_alloc(t, block, names[i],
                         i % 2 == 0 ? type : TDSL_DTYPE_I64, KIR_REGISTER, 0,
                         none);
  }
  kir_expr_t *minus_one = tile_int(t, -1);
  bool is_float = type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
  kir_expr_t *zero = is_float ? kir_const_f(t->arena, type, 0.0)
                              : kir_const_i(t->arena, type, 0);
  tile_store(t, block, regs[0], 0, NULL, zero);
  tile_store(t, block, regs[1], 0, NULL, minus_one);
  kir_expr_t *j, *i;
  kir_block_t *pass = tile_loop(t, block, KIR_LOOP_SERIAL, "j",
                                tile_int(t, 0), tile_int(t, node->k), 1, &j);
  tile_store(t, pass, regs[2], 0, NULL, zero);
  tile_store(t, pass, regs[3], 0, NULL, minus_one);
  kir_block_t *scan =
      tile_loop(t, pass, KIR_LOOP_SERIAL, "i", tile_int(t, 0),
                tile_dim(t, x->dims[outer]), 1, &i);
  subs[outer] = i;
  kir_stmt_t *let = TD_NEW(t->arena, kir_stmt_t);
  let->kind = KIR_LET;
  let->var = kir_var_create(t->kernel, "v", type);
  let->value = kir_load(t->arena, from, x->rank, subs);
  tile_push(t, scan, let);
  kir_expr_t *v = kir_var_ref(t->arena, let->var);
  kir_expr_t *r[4];
  for (int k = 0; k < 4; k++) r[k] = kir_load(t->arena, regs[k], 0, NULL);
  kir_expr_t *is_first = tile_less(t, r[1], tile_int(t, 0));
  kir_expr_t *is_open = tile_less(t, r[3], tile_int(t, 0));
  kir_expr_t *behind =
      either(t, is_first, tile_topk_before(t, r[0], r[1], v, i));
  kir_expr_t *wins = either(t, is_open, tile_topk_before(t, v, i, r[2], r[3]));
  kir_block_t *hit =
      &tile_push(t, scan, tile_if(t, both(t, behind, wins)))->body;
  tile_store(t, hit, regs[2], 0, NULL, v);
  tile_store(t, hit, regs[3], 0, NULL, i);
  subs[outer] = j;
  tile_store(t, pass, values, x->rank, subs, r[2]);
  tile_store(t, pass, positions, x->rank, subs, r[3]);
  tile_store(t, pass, regs[0], 0, NULL, r[2]);
  tile_store(t, pass, regs[1], 0, NULL, r[3]);
}
