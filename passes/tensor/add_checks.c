/* add_checks.c
 *
 * Does: in builds for --checks=all, puts a test before each node that could
 *   read or write out of range, wrap an integer, divide by what is not
 *   positive, or write one element twice.  A test computes a fault word: 0,
 *   or the number of the R id that it found (5, 10), which the run time reads
 *   before it goes on.
 * Needs: verified TIR as lowered; runs before all other passes.
 * Guarantees: nothing is tested that the text would not have evaluated: arms
 *   not chosen, terms whose guard is false.  No value changes.
 * Class: bitwise.
 * Ends because: tests are added for the nodes that were there before.
 * Ledgers: all of them up, by about what is tested.
 *
 * ok(e) is the condition that evaluating e does no harm, built from the leaves
 * up; what intervals decide is left out.  A test is `any` over all tuples of
 * `not ok`, with conditions evaluated first and lazily, as in the text. */
#include "passes/tensor/tensor.h"

#include "runtime/base/num.h"

enum { FAULT_TWICE = 5, FAULT_RANGE = 10 };

__extension__ typedef __int128 wide_t; /* intervals of 64-bit arithmetic */

typedef struct bounds {
  wide_t lo, hi;
} bounds_t;

/* What is known of an expression of the node at hand. */
typedef struct known {
  bounds_t range;   /* I64 */
  tir_expr_t *ok;   /* NULL: always */
} known_t;

typedef struct checks {
  tir_module_t *module;
  td_arena_t *scratch;
  td_map_t known;   /* tir_expr_t* -> known_t* */
  tir_node_t *node;
  tir_block_t *out; /* the block being rebuilt */
} checks_t;

static const bounds_t anything = {INT64_MIN, INT64_MAX};

/* ---- building ----------------------------------------------------------- */

static tir_expr_t *op2(checks_t *c, tir_x_t op, tdsl_dtype_t type,
                       tir_expr_t *a, tir_expr_t *b) {
  tir_expr_t *args[2] = {a, b};
  return tir_op(c->module->arena, op, type, 2, args);
}

static tir_expr_t *test(checks_t *c, tir_x_t op, tir_expr_t *a,
                        tir_expr_t *b) {
  return op2(c, op, TDSL_DTYPE_BOOL, a, b);
}

static tir_expr_t *whole(checks_t *c, int64_t v) {
  return tir_const_i(c->module->arena, TDSL_DTYPE_I64, v);
}

static tir_expr_t *real(checks_t *c, double v) {
  return tir_const_f(c->module->arena, TDSL_DTYPE_F64, v);
}

static tir_expr_t *both(checks_t *c, tir_expr_t *a, tir_expr_t *b) {
  if (a == NULL) return b;
  return b == NULL ? a : test(c, TIR_X_AND, a, b);
}

static tir_expr_t *either(checks_t *c, tir_expr_t *a, tir_expr_t *b) {
  return test(c, TIR_X_OR, a, b);
}

static tir_expr_t *negate(checks_t *c, tir_expr_t *a) {
  return tir_op(c->module->arena, TIR_X_NOT, TDSL_DTYPE_BOOL, 1, &a);
}

static tir_expr_t *choose(checks_t *c, tir_expr_t *cond, tir_expr_t *yes,
                          tir_expr_t *no) {
  tir_expr_t *args[3] = {cond, yes, no};
  return tir_op(c->module->arena, TIR_X_SELECT, yes->type, 3, args);
}

static tir_expr_t *truth(checks_t *c) {
  return tir_const_i(c->module->arena, TDSL_DTYPE_BOOL, 1);
}

/* ---- intervals ---------------------------------------------------------- */

static wide_t least(wide_t a, wide_t b) {
  return a < b ? a : b;
}

static wide_t most(wide_t a, wide_t b) {
  return a > b ? a : b;
}

static bounds_t of_poly(const ix_poly_t *p) {
  int64_t lo, hi;
  return ix_interval(p, &lo, &hi) ? (bounds_t){lo, hi} : anything;
}

static bounds_t of_value(const tir_value_t *v) {
  bounds_t b = {td_dtype_min(v->dtype), td_dtype_max(v->dtype)};
  if (v->lo != NULL) b.lo = most(b.lo, of_poly(v->lo).lo);
  if (v->hi != NULL) b.hi = least(b.hi, of_poly(v->hi).hi - 1);
  return b;
}

static bounds_t product(bounds_t a, bounds_t b) {
  wide_t ends[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
  bounds_t r = {ends[0], ends[0]};
  for (int i = 1; i < 4; i++) {
    r.lo = least(r.lo, ends[i]);
    r.hi = most(r.hi, ends[i]);
  }
  return r;
}

static const known_t *fact(const checks_t *c, const tir_expr_t *e) {
  return td_map_get_u64(&c->known, (uint64_t)(uintptr_t)e);
}

static bounds_t range_of(const checks_t *c, const tir_expr_t *e) {
  return fact(c, e)->range;
}

/* Before wrapping: it may leave 64 bits. */
static bounds_t exact_range(const checks_t *c, const tir_expr_t *e) {
  bounds_t a = e->arg_count > 0 ? range_of(c, e->args[0]) : anything;
  bounds_t b = e->arg_count > 1 ? range_of(c, e->args[1]) : anything;
  switch ((int)e->op) {
    case TIR_X_CONST: return (bounds_t){e->u.i64, e->u.i64};
    case TIR_X_INDEX: {
      bounds_t r = {0, of_poly(e->u.index->extent).hi - 1};
      return r.hi < 0 ? (bounds_t){0, 0} : r;
    }
    case TIR_X_DIM: return of_poly(e->u.dim);
    case TIR_X_LOAD: return of_value(e->u.value);
    case TIR_X_NEG: return (bounds_t){-a.hi, -a.lo};
    case TIR_X_ABS: {
      wide_t top = most(-a.lo, a.hi);
      return (bounds_t){a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, top};
    }
    case TIR_X_ADD: return (bounds_t){a.lo + b.lo, a.hi + b.hi};
    case TIR_X_SUB: return (bounds_t){a.lo - b.hi, a.hi - b.lo};
    case TIR_X_MUL: return product(a, b);
    case TIR_X_DIV: /* by at least one */
      return (bounds_t){least(a.lo, 0), most(a.hi, 0)};
    case TIR_X_MOD: return (bounds_t){0, most(b.hi - 1, 0)};
    case TIR_X_MIN:
      return (bounds_t){least(a.lo, b.lo), least(a.hi, b.hi)};
    case TIR_X_MAX: return (bounds_t){most(a.lo, b.lo), most(a.hi, b.hi)};
    case TIR_X_SELECT: {
      bounds_t d = range_of(c, e->args[2]);
      return (bounds_t){least(b.lo, d.lo), most(b.hi, d.hi)};
    }
    case TIR_X_CAST:
      return (bounds_t){td_dtype_min(e->u.to), td_dtype_max(e->u.to)};
    case TIR_X_POW: return (bounds_t){anything.lo, anything.hi + 1};
    default: return anything;
  }
}

static bool fits(bounds_t r, bounds_t in) {
  return r.lo >= in.lo && r.hi <= in.hi;
}

/* ---- what an operation needs -------------------------------------------- */

/* A result near the ends of 64 bits is told by its sign; farther out f64 is
 * precise enough. */
static tir_expr_t *magnitude_ok(checks_t *c, tir_expr_t *wrapped,
                                tir_expr_t *f) {
  tir_expr_t *size = tir_op(c->module->arena, TIR_X_ABS, TDSL_DTYPE_F64, 1,
                            &f);
  tir_expr_t *signs =
      test(c, TIR_X_EQ, test(c, TIR_X_LT, wrapped, whole(c, 0)),
           test(c, TIR_X_LT, f, real(c, 0)));
  return either(c, test(c, TIR_X_LT, size, real(c, 0x1.fffffp62)),
                both(c, test(c, TIR_X_LT, size, real(c, 0x1.00001p63)),
                     signs));
}

static tir_expr_t *as_f64(checks_t *c, tir_expr_t *e) {
  return tir_cast(c->module->arena, TDSL_DTYPE_F64, e);
}

static tir_expr_t *sum_ok(checks_t *c, tir_expr_t *a, tir_expr_t *b,
                          bool subtracts) {
  tir_expr_t *low = whole(c, INT64_MIN), *high = whole(c, INT64_MAX);
  tir_x_t up = subtracts ? TIR_X_ADD : TIR_X_SUB;
  tir_expr_t *positive = test(c, TIR_X_GE, b, whole(c, 0));
  tir_expr_t *below =
      test(c, TIR_X_LE, a, op2(c, up, TDSL_DTYPE_I64, high, b));
  tir_expr_t *above =
      test(c, TIR_X_GE, a, op2(c, up, TDSL_DTYPE_I64, low, b));
  return subtracts ? choose(c, positive, above, below)
                   : choose(c, positive, below, above);
}

/* Overflow of the operation itself; NULL: cannot be. */
static tir_expr_t *operation_ok(checks_t *c, tir_expr_t *e) {
  if (e->type != TDSL_DTYPE_I64) return NULL;
  tir_expr_t *a = e->arg_count > 0 ? e->args[0] : NULL;
  tir_expr_t *b = e->arg_count > 1 ? e->args[1] : NULL;
  if (e->op == TIR_X_DIV || e->op == TIR_X_MOD) {
    return range_of(c, b).lo > 0 ? NULL
                                 : test(c, TIR_X_GT, b, whole(c, 0));
  }
  if (fits(exact_range(c, e), anything)) return NULL;
  switch ((int)e->op) {
    case TIR_X_NEG: case TIR_X_ABS:
      return test(c, TIR_X_NE, a, whole(c, INT64_MIN));
    case TIR_X_ADD: return sum_ok(c, a, b, false);
    case TIR_X_SUB: return sum_ok(c, a, b, true);
    case TIR_X_MUL: case TIR_X_POW:
      return magnitude_ok(c, e,
                          op2(c, e->op, TDSL_DTYPE_F64, as_f64(c, a),
                              as_f64(c, b)));
    default: return NULL;
  }
}

static tir_expr_t *within(checks_t *c, tir_expr_t *e, bounds_t range,
                          bounds_t limits) {
  tir_expr_t *ok = NULL;
  if (range.lo < limits.lo) {
    ok = test(c, TIR_X_GE, e, whole(c, (int64_t)limits.lo));
  }
  if (range.hi > limits.hi) {
    ok = both(c, ok, test(c, TIR_X_LE, e, whole(c, (int64_t)limits.hi)));
  }
  return ok;
}

/* 0 <= e < dim. */
static tir_expr_t *subscript_ok(checks_t *c, tir_expr_t *e,
                                const ix_poly_t *dim) {
  if (e->op == TIR_X_INDEX && e->u.index->extent == dim) return NULL;
  bounds_t r = range_of(c, e);
  tir_expr_t *ok = NULL;
  if (r.lo < 0) ok = test(c, TIR_X_GE, e, whole(c, 0));
  if (r.hi < of_poly(dim).lo) return ok;
  return both(c, ok, test(c, TIR_X_LT, e, tir_dim(c->module->arena, dim)));
}

static tir_expr_t *ok_of(const checks_t *c, const tir_expr_t *e) {
  return e == NULL ? NULL : fact(c, e)->ok;
}

/* Operands first, then what is lazy: only where it would be evaluated. */
static void learn(void *user, tir_expr_t *e) {
  checks_t *c = user;
  if (fact(c, e) != NULL) return;
  known_t *k = TD_NEW(c->scratch, known_t);
  k->range = anything;
  td_map_put_u64(&c->known, (uint64_t)(uintptr_t)e, k);
  if (e->type == TDSL_DTYPE_I64) {
    bounds_t exact = exact_range(c, e);
    k->range = fits(exact, anything) ? exact : anything;
  }
  if (e->op == TIR_X_SELECT) {
    tir_expr_t *yes = ok_of(c, e->args[1]), *no = ok_of(c, e->args[2]);
    k->ok = ok_of(c, e->args[0]);
    if (yes == NULL && no == NULL) return;
    k->ok = both(c, k->ok,
                 choose(c, e->args[0], yes != NULL ? yes : truth(c),
                        no != NULL ? no : truth(c)));
    return;
  }
  if (e->op == TIR_X_AND || e->op == TIR_X_OR) {
    tir_expr_t *right = ok_of(c, e->args[1]);
    k->ok = ok_of(c, e->args[0]);
    if (right == NULL) return;
    tir_expr_t *skips =
        e->op == TIR_X_OR ? e->args[0] : negate(c, e->args[0]);
    k->ok = both(c, k->ok, either(c, skips, right));
    return;
  }
  for (uint32_t i = 0; i < e->arg_count; i++) {
    k->ok = both(c, k->ok, ok_of(c, e->args[i]));
    if (e->op != TIR_X_LOAD) continue;
    k->ok = both(c, k->ok,
                 subscript_ok(c, e->args[i], e->u.value->dims[i]));
  }
  k->ok = both(c, k->ok, operation_ok(c, e));
}

/* ---- nodes of a test ---------------------------------------------------- */

static tir_value_t *add_map(checks_t *c, const char *name, tdsl_dtype_t dtype,
                            uint32_t rank, const ix_poly_t *const *dims,
                            tir_node_t *n) {
  tir_value_t *v =
      tir_value_create(c->module->arena, name, dtype, rank, dims);
  v->def = n;
  v->loc = n->loc = c->node->loc;
  n->outs[0] = v;
  td_vec_push(c->module->arena, c->out, n);
  return v;
}

/* any over all tuples of `count` indices, as fresh ones. */
static tir_value_t *add_any(checks_t *c, uint32_t count,
                            tir_index_t *const *indices, tir_expr_t *bad) {
  td_arena_t *arena = c->module->arena;
  tir_node_t *n = tir_node_create(arena, TIR_MAP, 1);
  tir_expr_t **to = TD_NEW_ARRAY(c->scratch, tir_expr_t *, count + 1);
  n->index_count = count;
  n->indices = TD_NEW_ARRAY(arena, tir_index_t *, count + 1);
  for (uint32_t i = 0; i < count; i++) {
    n->indices[i] = tir_index_create(c->module, indices[i]->name,
                                     indices[i]->extent, true);
    to[i] = tir_index_ref(arena, n->indices[i]);
  }
  n->reduce = count > 0 ? TIR_REDUCE_ANY : TIR_REDUCE_NONE;
  n->body = tir_replace_indices(arena, bad, count, indices, to);
  return add_map(c, "is_bad", TDSL_DTYPE_BOOL, 0, NULL, n);
}

/* The run time stops with the id of `fault` if any tuple is bad. */
static void add_test(checks_t *c, uint32_t count,
                     tir_index_t *const *indices, tir_expr_t *bad,
                     int64_t fault, const char *text) {
  td_arena_t *arena = c->module->arena;
  tir_value_t *any = add_any(c, count, indices, bad);
  tir_node_t *word = tir_node_create(arena, TIR_MAP, 1);
  word->body = choose(c, tir_load(arena, any, 0, NULL), whole(c, fault),
                      whole(c, 0));
  tir_value_t *v = add_map(c, "fault", TDSL_DTYPE_I64, 0, NULL, word);
  tir_node_t *n = tir_node_create(arena, TIR_ASSERT, 0);
  n->loc = c->node->loc;
  n->text = text;
  n->operand_count = 1;
  n->operands = TD_NEW_ARRAY(arena, tir_value_t *, 1);
  n->operands[0] = v;
  n->body = test(c, TIR_X_EQ, tir_load(arena, v, 0, NULL), whole(c, 0));
  td_vec_push(arena, c->out, n);
}

static const char *text_of(checks_t *c, const char *what) {
  const tir_node_t *n = c->node;
  return td_arena_printf(c->module->arena, "%s %s", what,
                         n->out_count > 0 ? n->outs[0]->name : "an assert");
}

static void test_formula(checks_t *c) {
  tir_node_t *n = c->node;
  tir_expr_t *ok = NULL;
  for (uint32_t i = 0; i < tir_node_expr_count(n); i++) {
    tir_walk(c->scratch, *tir_node_expr(n, i), learn, c);
  }
  for (uint32_t i = 0; i < n->sub_count; i++) {
    ok = both(c, ok, ok_of(c, n->subs[i]));
    ok = both(c, ok, subscript_ok(c, n->subs[i], n->outs[0]->dims[i]));
  }
  ok = both(c, ok, ok_of(c, n->body));
  bool is_whole = n->body->type == TDSL_DTYPE_I64;
  if (is_whole && n->reduce == TIR_REDUCE_NONE && n->kind != TIR_ASSERT) {
    tdsl_dtype_t to = n->outs[0]->dtype;
    bounds_t limits = {td_dtype_min(to), td_dtype_max(to)};
    ok = both(c, ok, within(c, n->body, range_of(c, n->body), limits));
  }
  if (n->guard != NULL && ok != NULL) {
    ok = either(c, negate(c, n->guard), ok);
  }
  ok = both(c, ok_of(c, n->guard), ok);
  if (ok == NULL) return;
  add_test(c, n->index_count, n->indices, negate(c, ok), FAULT_RANGE,
           text_of(c, "integer wrapped, or a subscript is out of range, in"));
}

static void copy_indices(checks_t *c, const tir_node_t *from, tir_node_t *to,
                         tir_expr_t **refs) {
  td_arena_t *arena = c->module->arena;
  to->index_count = from->index_count;
  to->indices = TD_NEW_ARRAY(arena, tir_index_t *, from->index_count + 1);
  for (uint32_t i = 0; i < from->index_count; i++) {
    to->indices[i] =
        tir_index_create(c->module, from->indices[i]->name,
                         from->indices[i]->extent,
                         from->indices[i]->is_reduction);
    refs[i] = tir_index_ref(arena, to->indices[i]);
  }
}

static tir_expr_t *moved(checks_t *c, const tir_node_t *from, tir_expr_t *e,
                         tir_expr_t **refs) {
  return e == NULL ? NULL
                   : tir_replace_indices(c->module->arena, e,
                                         from->index_count, from->indices,
                                         refs);
}

/* Loads the element of v at fresh indices, which are given back. */
static tir_expr_t *load_each(checks_t *c, const tir_value_t *v,
                             tir_index_t **indices) {
  tir_expr_t *subs[IX_MAX_RANK];
  for (uint32_t d = 0; d < v->rank; d++) {
    indices[d] = tir_index_create(c->module, "e", v->dims[d], false);
    subs[d] = tir_index_ref(c->module->arena, indices[d]);
  }
  return tir_load(c->module->arena, v, v->rank, subs);
}

/* The reduction again, into f64 or i64: does it fit where it is stored? */
static void test_reduction(checks_t *c) {
  tir_node_t *n = c->node;
  bool sums = n->reduce == TIR_REDUCE_SUM || n->reduce == TIR_REDUCE_PROD;
  if (n->body->type != TDSL_DTYPE_I64 || n->reduce == TIR_REDUCE_ARGMAX ||
      n->reduce == TIR_REDUCE_ARGMIN) {
    return;
  }
  bounds_t range = range_of(c, n->body);
  if (n->reduce == TIR_REDUCE_SUM) {
    bounds_t terms = {0, 1};
    for (uint32_t i = tensor_parallel(n); i < n->index_count; i++) {
      bounds_t extent = {0, of_poly(n->indices[i]->extent).hi};
      terms = product(terms, extent);
      if (terms.hi > INT64_MAX) terms.hi = INT64_MAX;
    }
    range = product(range, terms);
  } else if (n->reduce == TIR_REDUCE_PROD) {
    range = (bounds_t){anything.lo, anything.hi + 1};
  }
  tdsl_dtype_t to = n->outs[0]->dtype;
  bounds_t limits = {td_dtype_min(to), td_dtype_max(to)};
  if (fits(range, limits)) return;
  td_arena_t *arena = c->module->arena;
  tir_value_t *twins[2] = {NULL, NULL};
  for (int wide = 0; wide < (sums ? 2 : 1); wide++) {
    tir_node_t *twin = tir_node_create(arena, TIR_MAP, 1);
    tir_expr_t **refs =
        TD_NEW_ARRAY(c->scratch, tir_expr_t *, n->index_count + 1);
    copy_indices(c, n, twin, refs);
    twin->reduce = n->reduce;
    twin->guard = moved(c, n, n->guard, refs);
    twin->body = moved(c, n, n->body, refs);
    if (wide) {
      twin->body = as_f64(c, twin->body);
      tir_assign_plan(c->scratch, twin);
    }
    twins[wide] =
        add_map(c, n->outs[0]->name, wide ? TDSL_DTYPE_F64 : TDSL_DTYPE_I64,
                n->outs[0]->rank, n->outs[0]->dims, twin);
  }
  tir_index_t *indices[IX_MAX_RANK];
  tir_expr_t *v = load_each(c, twins[0], indices);
  tir_expr_t *ok = within(c, v, anything, limits);
  if (sums) {
    tir_expr_t *f = tir_load(arena, twins[1], v->arg_count, v->args);
    ok = both(c, magnitude_ok(c, v, f), ok);
  }
  if (ok == NULL) return;
  add_test(c, n->outs[0]->rank, indices, negate(c, ok), FAULT_RANGE,
           text_of(c, "integer wrapped in the reduction of"));
}

/* An update of zeros by `body` at the places of the node. */
static tir_value_t *add_scatter(checks_t *c, tir_expr_t *body) {
  tir_node_t *n = c->node;
  td_arena_t *arena = c->module->arena;
  const tir_value_t *target = n->outs[0];
  tir_index_t *indices[IX_MAX_RANK];
  tir_node_t *zero = tir_node_create(arena, TIR_MAP, 1);
  (void)load_each(c, target, indices);
  zero->index_count = target->rank;
  zero->indices = TD_NEW_ARRAY(arena, tir_index_t *, target->rank + 1);
  for (uint32_t d = 0; d < target->rank; d++) zero->indices[d] = indices[d];
  zero->body = whole(c, 0);
  tir_value_t *zeros = add_map(c, "none", TDSL_DTYPE_I64, target->rank,
                               target->dims, zero);
  tir_node_t *u = tir_node_create(arena, TIR_UPDATE, 1);
  tir_expr_t **refs =
      TD_NEW_ARRAY(c->scratch, tir_expr_t *, n->index_count + 1);
  copy_indices(c, n, u, refs);
  u->guard = moved(c, n, n->guard, refs);
  u->body = moved(c, n, body, refs);
  u->is_accumulate = true;
  u->operand_count = 1;
  u->operands = TD_NEW_ARRAY(arena, tir_value_t *, 1);
  u->operands[0] = zeros;
  u->sub_count = n->sub_count;
  u->subs = TD_NEW_ARRAY(arena, tir_expr_t *, n->sub_count + 1);
  for (uint32_t i = 0; i < n->sub_count; i++) {
    u->subs[i] = moved(c, n, n->subs[i], refs);
  }
  return add_map(c, "hits", TDSL_DTYPE_I64, target->rank, target->dims, u);
}

static void test_update(checks_t *c) {
  tir_node_t *n = c->node;
  const tir_value_t *target = n->outs[0];
  tir_index_t *indices[IX_MAX_RANK];
  if (!n->is_accumulate && !n->is_distinct) {
    tir_value_t *hits = add_scatter(c, whole(c, 1));
    tir_expr_t *each = load_each(c, hits, indices);
    add_test(c, target->rank, indices, test(c, TIR_X_GT, each, whole(c, 1)),
             FAULT_TWICE,
             text_of(c, "two tuples write the same element of"));
  }
  bool is_whole = n->body->type == TDSL_DTYPE_I64;
  if (!n->is_accumulate || !is_whole) return;
  tir_value_t *sums = add_scatter(c, n->body);
  tir_expr_t *sum = load_each(c, sums, indices);
  tir_expr_t *old =
      tir_load(c->module->arena, n->operands[0], sum->arg_count, sum->args);
  bounds_t limits = {td_dtype_min(target->dtype),
                     td_dtype_max(target->dtype)};
  tir_expr_t *fresh = op2(c, TIR_X_ADD, TDSL_DTYPE_I64, old, sum);
  tir_expr_t *ok = both(c, sum_ok(c, old, sum, false),
                        within(c, fresh, anything, limits));
  add_test(c, target->rank, indices, negate(c, ok), FAULT_RANGE,
           text_of(c, "integer wrapped in"));
}

/* ---- the module --------------------------------------------------------- */

static void check_block(checks_t *c, tir_block_t *block) {
  tir_block_t fresh = {0};
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *n = block->data[i];
    if (n->kind == TIR_LOOP) check_block(c, &n->body_nodes);
    c->out = &fresh;
    c->node = n;
    td_map_init(&c->known, c->scratch);
    if (n->kind == TIR_MAP || n->kind == TIR_UPDATE ||
        n->kind == TIR_ASSERT) {
      test_formula(c);
    }
    if (n->kind == TIR_MAP) test_reduction(c);
    if (n->kind == TIR_UPDATE) test_update(c);
    td_vec_push(c->module->arena, &fresh, n);
  }
  *block = fresh;
}

bool pass_add_checks(pass_state_t *state, tir_module_t *module) {
  if (state->options->checks < 2) return false;
  for (uint32_t f = 0; f < module->func_count; f++) {
    td_arena_t scratch;
    td_arena_init(&scratch, state->task);
    checks_t c = {.module = module, .scratch = &scratch};
    check_block(&c, &module->funcs[f]->nodes);
    td_arena_free_all(&scratch);
    tir_renumber(module->funcs[f]);
  }
  return true;
}
