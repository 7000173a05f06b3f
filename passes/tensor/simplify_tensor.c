/* simplify_tensor.c
 *
 * Does: rewrites integer `/` and `%` into simpler forms where the ranges of
 *   indices allow it, and decides comparisons that ranges decide.
 * Needs: verified TIR.
 * Guarantees: the same integers and truths.
 * Class: bitwise.
 * Ends because: one bottom-up walk; each proof has a budget.
 * Ledgers: compute. */
#include "passes/tensor/tensor.h"

typedef struct simplify {
  tir_module_t *module;
  td_arena_t *scratch;
  ix_facts_t *facts;
  tir_node_t *node;
  uint32_t budget; /* proofs left for this node */
} simplify_t;

static tir_expr_t *index_of(const simplify_t *s, td_arena_t *arena,
                            const ix_symbol_t *symbol) {
  for (uint32_t i = 0; i < s->node->index_count; i++) {
    if (s->node->indices[i]->symbol == symbol) {
      return tir_index_ref(arena, s->node->indices[i]);
    }
  }
  return NULL;
}

/* A polynomial that mentions indices linearly, and dims, as an expression;
 * NULL if it has another form. */
static tir_expr_t *expr_of_poly(const simplify_t *s, const ix_poly_t *p) {
  td_arena_t *arena = s->module->arena;
  ix_pool_t *pool = s->module->pool;
  tir_expr_t *sum = NULL;
  const ix_poly_t *rest = p;
  for (uint32_t i = 0; i < s->node->index_count; i++) {
    const ix_symbol_t *symbol = s->node->indices[i]->symbol;
    const ix_poly_t *factor = NULL, *other = NULL;
    if (!ix_mentions(rest, symbol)) continue;
    if (!ix_split_linear(pool, rest, symbol, &factor, &other)) return NULL;
    if (ix_mentions_kind(factor, IX_SYM_INDEX)) return NULL;
    rest = other;
    tir_expr_t *term = index_of(s, arena, symbol);
    int64_t one;
    if (!ix_is_const(factor, &one) || one != 1) {
      tir_expr_t *args[2] = {tir_dim(arena, factor), term};
      term = tir_op(arena, TIR_X_MUL, TDSL_DTYPE_I64, 2, args);
    }
    tir_expr_t *args[2] = {sum, term};
    sum = sum == NULL
              ? term
              : tir_op(arena, TIR_X_ADD, TDSL_DTYPE_I64, 2, args);
  }
  if (ix_mentions_kind(rest, IX_SYM_INDEX) ||
      ix_mentions_kind(rest, IX_SYM_LOOP) ||
      ix_mentions_kind(rest, IX_SYM_DATA)) {
    return NULL;
  }
  int64_t zero;
  if (sum == NULL) return tir_dim(arena, rest);
  if (ix_is_const(rest, &zero) && zero == 0) return sum;
  tir_expr_t *args[2] = {sum, tir_dim(arena, rest)};
  return tir_op(arena, TIR_X_ADD, TDSL_DTYPE_I64, 2, args);
}

static const ix_poly_t *poly_of(simplify_t *s, tir_expr_t *e) {
  return tir_expr_poly(s->module->pool, s->scratch, e, NULL, NULL);
}

static tir_expr_t *simplify_quotient(simplify_t *s, tir_expr_t *e) {
  const ix_poly_t *a = poly_of(s, e->args[0]), *b = poly_of(s, e->args[1]);
  if (a == NULL || b == NULL ||
      !ix_prove_positive(s->module->pool, b, s->facts)) {
    return e;
  }
  const ix_poly_t *r = e->op == TIR_X_DIV
                           ? ix_div(s->module->pool, a, b, s->facts)
                           : ix_mod(s->module->pool, a, b, s->facts);
  if (r == NULL) return e;
  tir_expr_t *simple = expr_of_poly(s, r);
  return simple == NULL ? e : simple;
}

static tir_expr_t *truth(simplify_t *s, const tir_expr_t *e, bool value) {
  tir_expr_t *c = tir_const_i(s->module->arena, TDSL_DTYPE_BOOL, value);
  c->loc = e->loc;
  return c;
}

static tir_expr_t *decide(simplify_t *s, tir_expr_t *e) {
  const ix_poly_t *a = poly_of(s, e->args[0]), *b = poly_of(s, e->args[1]);
  if (a == NULL || b == NULL) return e;
  ix_pool_t *pool = s->module->pool;
  bool swaps = e->op == TIR_X_GT || e->op == TIR_X_GE;
  const ix_poly_t *low = swaps ? b : a, *high = swaps ? a : b;
  bool strict = e->op == TIR_X_LT || e->op == TIR_X_GT;
  const ix_poly_t *d = ix_sub(pool, high, low); /* want d > 0 or d >= 0 */
  if (d == NULL) return e;
  if (strict ? ix_prove_positive(pool, d, s->facts)
             : ix_prove_nonnegative(pool, d, s->facts)) {
    return truth(s, e, true);
  }
  const ix_poly_t *n = ix_neg(pool, d);
  if (strict ? ix_prove_nonnegative(pool, n, s->facts)
             : ix_prove_positive(pool, n, s->facts)) {
    return truth(s, e, false);
  }
  return e;
}

static tir_expr_t *simplify(void *user, tir_expr_t *e) {
  simplify_t *s = user;
  if (e->arg_count != 2 || e->args[0]->type != TDSL_DTYPE_I64) return e;
  bool is_quotient = e->op == TIR_X_DIV || e->op == TIR_X_MOD;
  bool is_order = e->op == TIR_X_LT || e->op == TIR_X_LE ||
                  e->op == TIR_X_GT || e->op == TIR_X_GE;
  if ((!is_quotient && !is_order) || s->budget == 0) return e;
  s->budget--;
  return is_quotient ? simplify_quotient(s, e) : decide(s, e);
}

typedef struct changed {
  pass_state_t *state;
  tir_module_t *module;
  bool any;
} changed_t;

static void simplify_node(void *user, tir_func_t *func, tir_block_t *block,
                          tir_node_t *n) {
  (void)func;
  (void)block;
  changed_t *c = user;
  if (n->index_count == 0) return;
  td_arena_t scratch;
  td_arena_init(&scratch, c->state->task);
  ix_pool_t *pool = c->module->pool;
  simplify_t s = {c->module, &scratch, ix_facts_create(pool), n, 64};
  for (uint32_t i = 0; i < n->index_count; i++) {
    const tir_index_t *index = n->indices[i];
    ix_facts_narrow(s.facts, index->symbol, ix_const(pool, 0), index->extent);
    ix_facts_extent_nonempty(s.facts, pool, index->extent);
  }
  tir_interner_t interner;
  tir_interner_init(&interner, &scratch);
  tir_rewriter_t rewriter;
  tir_rewriter_init(&rewriter, c->module->arena, simplify, &s);
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_expr_t **slot = tir_node_expr(n, i);
    tir_expr_t *fresh = tir_rewrite_into(&rewriter, *slot);
    if (tir_intern(&interner, fresh) == tir_intern(&interner, *slot)) {
      continue;
    }
    *slot = fresh;
    c->any = true;
  }
  td_arena_free_all(&scratch);
}

bool pass_simplify_tensor(pass_state_t *state, tir_module_t *module) {
  changed_t c = {state, module, false};
  tensor_each_node(module, simplify_node, &c);
  return c.any;
}
