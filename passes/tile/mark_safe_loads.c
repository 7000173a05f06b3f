/* mark_safe_loads.c
 *
 * Does: marks loads that stay in bounds whatever guards them, so that
 *   emitters need neither a branch nor a mask for them.
 * Needs: verified KIR.
 * Guarantees: a marked load is in bounds for every value that the loops
 *   around give their variables, masked lanes included.
 * Class: bitwise.
 * Ends because: one walk; each proof has a budget.
 * Ledgers: compute. */
#include "passes/pass.h"

typedef struct safe {
  kir_kernel_t *kernel;
  ix_pool_t *pool;
  ix_facts_t *facts;
  td_arena_t scratch;
  td_map_t polys; /* kir_expr_t* -> ix_poly_t* */
  td_map_t seen;
  bool has_changed;
} safe_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* Index arithmetic as a polynomial; NULL for what has none.  Recursion is
 * bounded by the verifier's cap on depth. */
static const ix_poly_t *poly_of(safe_t *s, const kir_expr_t *e) {
  if (e->type != TDSL_DTYPE_I64) return NULL;
  if (e->op == KIR_X_CONST) return ix_const(s->pool, e->u.i64);
  if (e->op == KIR_X_DIM) return e->u.dim;
  if (e->op == KIR_X_VAR) {
    return e->u.var->symbol == NULL ? NULL : ix_sym(s->pool, e->u.var->symbol);
  }
  if (e->arg_count != 2) return NULL;
  const ix_poly_t *known = td_map_get_u64(&s->polys, key_of(e));
  if (known != NULL) return known;
  const ix_poly_t *a = poly_of(s, e->args[0]), *b = poly_of(s, e->args[1]);
  const ix_poly_t *r = NULL;
  if (a == NULL || b == NULL) return NULL;
  switch ((int)e->op) {
    case KIR_X_ADD: r = ix_add(s->pool, a, b); break;
    case KIR_X_SUB: r = ix_sub(s->pool, a, b); break;
    case KIR_X_MUL: r = ix_mul(s->pool, a, b); break;
    case KIR_X_MIN: r = ix_min(s->pool, a, b); break;
    case KIR_X_MAX: r = ix_max(s->pool, a, b); break;
    case KIR_X_DIV: case KIR_X_MOD:
      if (ix_prove_positive(s->pool, b, s->facts)) {
        r = e->op == KIR_X_DIV ? ix_div(s->pool, a, b, s->facts)
                               : ix_mod(s->pool, a, b, s->facts);
      }
      break;
    default: break;
  }
  if (r != NULL) td_map_put_u64(&s->polys, key_of(e), (void *)(uintptr_t)r);
  return r;
}

static bool is_in_bounds(safe_t *s, const kir_expr_t *e) {
  const kir_buffer_t *b = e->u.buffer;
  for (uint32_t d = 0; d < e->arg_count; d++) {
    const ix_poly_t *p = poly_of(s, e->args[d]);
    if (p == NULL || !ix_prove_nonnegative(s->pool, p, s->facts)) {
      return false;
    }
    const ix_poly_t *room = ix_sub(s->pool, b->dims[d], p);
    if (room == NULL || !ix_prove_positive(s->pool, room, s->facts)) {
      return false;
    }
  }
  return true;
}

/* Facts are the same for all of it, so any order does; a stack of our own,
 * since sums of a million terms are one chain. */
static void visit_expr(safe_t *s, kir_expr_t *root) {
  TD_VEC(kir_expr_t *) stack = {0};
  td_vec_push(s->seen.arena, &stack, root);
  while (stack.length > 0) {
    kir_expr_t *e = td_vec_pop(&stack);
    if (e->arg_count == 0 && e->op != KIR_X_LOAD) continue;
    if (td_map_get_u64(&s->seen, key_of(e)) != NULL) continue;
    td_map_put_u64(&s->seen, key_of(e), e);
    for (uint32_t i = 0; i < e->arg_count; i++) {
      td_vec_push(s->seen.arena, &stack, e->args[i]);
    }
    if (e->op != KIR_X_LOAD || e->is_safe) continue;
    if (e->u.buffer->space == KIR_REGISTER || !is_in_bounds(s, e)) continue;
    e->is_safe = true;
    s->has_changed = true;
  }
}

/* hi - lo is a multiple of the step, so that var + step <= hi. */
static bool has_whole_steps(const kir_stmt_t *loop) {
  const kir_expr_t *lo = loop->lo, *hi = loop->hi;
  if (lo->op != KIR_X_CONST) return false;
  if (hi->op == KIR_X_CONST) {
    return (hi->u.i64 - lo->u.i64) % loop->step == 0;
  }
  if (lo->u.i64 % loop->step != 0 || hi->op != KIR_X_SUB) return false;
  const kir_expr_t *rest = hi->args[1];
  return rest->op == KIR_X_MOD && rest->args[0] == hi->args[0] &&
         rest->args[1]->op == KIR_X_CONST &&
         rest->args[1]->u.i64 % loop->step == 0;
}

static void visit_block(safe_t *s, kir_block_t *block);

static void visit_loop(safe_t *s, kir_stmt_t *loop) {
  const ix_poly_t *lo = poly_of(s, loop->lo), *hi = poly_of(s, loop->hi);
  size_t mark = ix_facts_mark(s->facts);
  /* an expression shared with another loop's body is judged there anew:
   * variables differ, so the expression objects do too */
  if (lo != NULL && hi != NULL) {
    ix_facts_narrow(s->facts, loop->var->symbol, lo, hi);
    if (loop->loop != KIR_LOOP_LANE) {
      ix_facts_extent_nonempty(s->facts, s->pool, ix_sub(s->pool, hi, lo));
    }
    if (loop->step > 1 && has_whole_steps(loop)) {
      const ix_poly_t *next =
          ix_add(s->pool, ix_sym(s->pool, loop->var->symbol),
                 ix_const(s->pool, loop->step));
      ix_facts_add(s->facts, ix_sub(s->pool, hi, next));
    }
  }
  if (loop->mask != NULL) visit_expr(s, loop->mask);
  visit_block(s, &loop->body);
  ix_facts_release(s->facts, mark);
}

static void visit_block(safe_t *s, kir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    kir_stmt_t *st = block->data[i];
    if (st->kind == KIR_LOOP) {
      visit_loop(s, st);
      continue;
    }
    if (st->mask != NULL) visit_expr(s, st->mask);
    if (st->value != NULL) visit_expr(s, st->value);
    for (uint32_t k = 0; k < st->sub_count; k++) visit_expr(s, st->subs[k]);
    visit_block(s, &st->body);
    visit_block(s, &st->orelse);
  }
}

bool pass_mark_safe_loads(pass_state_t *state, kir_kernel_t *kernel) {
  safe_t s = {.kernel = kernel, .pool = kernel->pool};
  td_arena_init(&s.scratch, state->task);
  td_map_init(&s.polys, &s.scratch);
  td_map_init(&s.seen, &s.scratch);
  s.facts = ix_facts_create(kernel->pool);
  visit_block(&s, &kernel->body);
  td_arena_free_all(&s.scratch);
  return s.has_changed;
}
