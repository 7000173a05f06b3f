/* expr.c: polynomials of integer expressions, hash consing, substitution.
 *
 * A polynomial says the same as its expression as long as nothing wraps: the
 * checker's bounds make sure of that for subscripts and ranges, which is all
 * that polynomials are asked about.  What has no normal form (a select, a
 * load of rank > 0, a cast to a narrow type) is opaque, and the caller may
 * give it a symbol with the range that it knows.
 *
 * Interned expressions are compared by pointer.  That makes common
 * subexpressions a matter of one walk, and lets passes ask whether two nodes
 * compute the same thing. */
#include "ir/expr.h"

#include "ir/dtype.h"

/* ---- to polynomials ------------------------------------------------------ */

typedef struct poly_walk {
  ix_pool_t *pool;
  tir_opaque_fn opaque;
  void *user;
  td_map_t done; /* expression -> ix_poly_t; absent: not expressible */
} poly_walk_t;

/* NULL for an operand that has no form; arithmetic passes that on. */
static const ix_poly_t *poly_of(const poly_walk_t *w, const tir_expr_t *e) {
  return td_map_get_u64(&w->done, (uint64_t)(uintptr_t)e);
}

static const ix_poly_t *poly_opaque(const poly_walk_t *w,
                                    const tir_expr_t *e) {
  return w->opaque == NULL ? NULL : w->opaque(w->user, e);
}

/* What e is when its operands are known; NULL makes it opaque. Divisors of
 * the language are positive, so floor(p/q) is well formed. */
static const ix_poly_t *poly_build(const poly_walk_t *w,
                                   const tir_expr_t *e) {
  const ix_poly_t *a = e->arg_count > 0 ? poly_of(w, e->args[0]) : NULL;
  const ix_poly_t *b = e->arg_count > 1 ? poly_of(w, e->args[1]) : NULL;
  switch (e->op) {
  case TIR_X_CONST: return ix_const(w->pool, e->u.i64);
  case TIR_X_INDEX: return ix_sym(w->pool, e->u.index->symbol);
  case TIR_X_DIM: return e->u.dim;
  case TIR_X_LOAD:
    if (e->arg_count > 0 || e->u.value->symbol == NULL) return NULL;
    return ix_sym(w->pool, e->u.value->symbol);
  case TIR_X_NEG: return ix_neg(w->pool, a);
  case TIR_X_ADD: return ix_add(w->pool, a, b);
  case TIR_X_SUB: return ix_sub(w->pool, a, b);
  case TIR_X_MUL: return ix_mul(w->pool, a, b);
  case TIR_X_DIV: return ix_div(w->pool, a, b, NULL);
  case TIR_X_MOD: return ix_mod(w->pool, a, b, NULL);
  case TIR_X_MIN: return ix_min(w->pool, a, b);
  case TIR_X_MAX: return ix_max(w->pool, a, b);
  case TIR_X_CAST: return e->u.to == TDSL_DTYPE_I64 ? a : NULL;
  case TIR_X_NOT: case TIR_X_ABS: case TIR_X_FLOOR: case TIR_X_CEIL:
  case TIR_X_ROUND: case TIR_X_EXP: case TIR_X_EXP2: case TIR_X_LOG:
  case TIR_X_LOG2: case TIR_X_SQRT: case TIR_X_RSQRT: case TIR_X_SIN:
  case TIR_X_COS: case TIR_X_TANH: case TIR_X_ERF: case TIR_X_POW:
  case TIR_X_EQ: case TIR_X_NE: case TIR_X_LT: case TIR_X_LE:
  case TIR_X_GT: case TIR_X_GE: case TIR_X_AND: case TIR_X_OR:
  case TIR_X_SELECT: case TIR_X_ROUND_TF32: case TIR_X_UNIFORM:
  case TIR_X_COUNT: return NULL;
  }
  return NULL;
}

/* Only integers have forms; others may still be asked of `opaque` by the
 * integer operation above them (a cast). */
static void poly_visit(void *user, tir_expr_t *e) {
  poly_walk_t *w = user;
  if (e->type != TDSL_DTYPE_I64) return;
  const ix_poly_t *p = poly_build(w, e);
  if (p == NULL) p = poly_opaque(w, e);
  if (p != NULL)
    td_map_put_u64(&w->done, (uint64_t)(uintptr_t)e, (void *)(uintptr_t)p);
}

const ix_poly_t *tir_expr_poly(ix_pool_t *pool, td_arena_t *scratch,
                               const tir_expr_t *e, tir_opaque_fn opaque,
                               void *user) {
  poly_walk_t w = {.pool = pool, .opaque = opaque, .user = user};
  /* The walk hands out mutable expressions but nothing here writes one. */
  tir_expr_t *root = (tir_expr_t *)(uintptr_t)e;
  td_map_init(&w.done, scratch);
  tir_walk(scratch, root, poly_visit, &w);
  return poly_of(&w, e);
}

/* ---- hash consing -------------------------------------------------------- */

typedef struct chain {
  tir_expr_t *e;
  struct chain *next;
} chain_t;

/* What makes two heads of one operation differ. Floats by their bits: -0 is
 * not 0, and every NaN is only itself. */
static uint64_t payload_bits(const tir_expr_t *e) {
  switch (e->op) {
  case TIR_X_CONST:
    if (tir_dtype_class(e->type) == TIR_CLASS_FLOAT)
      return td_f64_bits(e->u.f64);
    return (uint64_t)e->u.i64;
  case TIR_X_INDEX: return (uint64_t)(uintptr_t)e->u.index;
  case TIR_X_DIM: return (uint64_t)(uintptr_t)e->u.dim;
  case TIR_X_LOAD: return (uint64_t)(uintptr_t)e->u.value;
  case TIR_X_CAST: return (uint64_t)e->u.to;
  default: return 0; /* the other operations are their operands */
  }
}

bool tir_expr_same_head(const tir_expr_t *a, const tir_expr_t *b) {
  return a->op == b->op && a->type == b->type &&
         a->arg_count == b->arg_count && payload_bits(a) == payload_bits(b);
}

void tir_interner_init(tir_interner_t *in, td_arena_t *arena) {
  in->arena = arena;
  td_map_init(&in->table, arena);
  td_map_init(&in->done, arena);
  tir_walker_init(&in->walker, arena);
}

static bool same_args(const tir_expr_t *a, tir_expr_t *const *args) {
  for (uint32_t i = 0; i < a->arg_count; i++)
    if (a->args[i] != args[i]) return false;
  return true;
}

/* Operands are representatives already, so comparing them is comparing
 * pointers. The first of equal expressions is the representative; a copy is
 * made only if an operand was replaced. */
static void intern_one(void *user, tir_expr_t *e) {
  tir_interner_t *in = user;
  uint64_t hash = td_hash_u64(payload_bits(e), (uint64_t)e->op * 64 +
                                                   (uint64_t)e->type);
  bool changed = false;
  tir_expr_t **args = NULL;
  if (e->arg_count > 0)
    args = TD_NEW_ARRAY(in->arena, tir_expr_t *, e->arg_count);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    args[i] = td_map_get_u64(&in->done, (uint64_t)(uintptr_t)e->args[i]);
    changed |= args[i] != e->args[i];
    hash = td_hash_u64((uint64_t)(uintptr_t)args[i], hash);
  }
  chain_t *head = td_map_get_u64(&in->table, hash);
  for (chain_t *c = head; c != NULL; c = c->next)
    if (tir_expr_same_head(c->e, e) && same_args(c->e, args)) {
      td_map_put_u64(&in->done, (uint64_t)(uintptr_t)e, c->e);
      return;
    }
  tir_expr_t *own = e;
  if (changed) {
    own = TD_NEW(in->arena, tir_expr_t);
    *own = *e;
    own->args = args;
  }
  chain_t *link = TD_NEW(in->arena, chain_t);
  link->e = own;
  link->next = head;
  td_map_put_u64(&in->table, hash, link);
  td_map_put_u64(&in->done, (uint64_t)(uintptr_t)e, own);
}

tir_expr_t *tir_intern(tir_interner_t *in, tir_expr_t *root) {
  tir_walk_into(&in->walker, root, intern_one, in);
  return td_map_get_u64(&in->done, (uint64_t)(uintptr_t)root);
}

/* ---- substitution and questions ------------------------------------------ */

typedef struct replace {
  uint32_t count;
  tir_index_t *const *from;
  tir_expr_t *const *to;
} replace_t;

static tir_expr_t *replace_one(void *user, tir_expr_t *e) {
  const replace_t *r = user;
  if (e->op != TIR_X_INDEX) return e;
  for (uint32_t i = 0; i < r->count; i++)
    if (e->u.index == r->from[i]) return r->to[i];
  return e;
}

tir_expr_t *tir_replace_indices(td_arena_t *arena, tir_expr_t *root,
                                uint32_t count, tir_index_t *const *from,
                                tir_expr_t *const *to) {
  replace_t r = {count, from, to};
  return tir_rewrite(arena, root, replace_one, &r);
}

typedef struct question {
  const void *wanted;
  bool found;
  size_t size;
} question_t;

static void ask_index(void *user, tir_expr_t *e) {
  question_t *q = user;
  if (e->op == TIR_X_INDEX && e->u.index == q->wanted) q->found = true;
}

static void ask_value(void *user, tir_expr_t *e) {
  question_t *q = user;
  if (e->op == TIR_X_LOAD && e->u.value == q->wanted) q->found = true;
}

/* ORDER TIR: leaves come first in tir_ops.def. */
static void count_one(void *user, tir_expr_t *e) {
  question_t *q = user;
  if (e->op > TIR_X_LOAD) q->size++;
}

bool tir_mentions_index(td_arena_t *scratch, tir_expr_t *root,
                        const tir_index_t *index) {
  question_t q = {index, false, 0};
  tir_walk(scratch, root, ask_index, &q);
  return q.found;
}

bool tir_mentions_value(td_arena_t *scratch, tir_expr_t *root,
                        const tir_value_t *value) {
  question_t q = {value, false, 0};
  tir_walk(scratch, root, ask_value, &q);
  return q.found;
}

size_t tir_expr_size(td_arena_t *scratch, tir_expr_t *root) {
  question_t q = {NULL, false, 0};
  tir_walk(scratch, root, count_one, &q);
  return q.size;
}
