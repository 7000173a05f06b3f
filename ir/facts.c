/* Facts in force: what `require`, guards, declarations and nonempty ranges
 * say (language.md 5, 8.1, 8.3).
 *
 * 1. Everything is a log; a scope is a length of it.  Ranges of symbols are
 *    entries too, and the latest wins.
 * 2. A lower bound of one dim is such an entry as well, and no fact.
 * 3. What enters later may simplify a floor or remainder in an older fact; the
 *    subscript it was meant for is formed after both and is simplified, so
 *    the older fact is entered again in its new form.
 * 4. An equality is applied when something is formed, proved or looked up. */
#include "ir/shape_internal.h"

#include "runtime/base/num.h"

static const int64_t dim_max = 2147483647; /* L01 */

ix_facts_t *ix_facts_create(ix_pool_t *pool) {
  ix_facts_t *facts = TD_NEW(pool->arena, ix_facts_t);
  facts->pool = pool;
  return facts;
}

size_t ix_facts_mark(const ix_facts_t *facts) {
  return facts->log.length;
}

/* Entries above the mark are forgotten; the polys they named stay in the
 * pool. */
void ix_facts_release(ix_facts_t *facts, size_t mark) {
  while (facts->log.length > mark) {
    ix_fact_t last = td_vec_pop(&facts->log);
    if (last.kind == IX_FACT_EQUAL) facts->equal_count--;
  }
}

static void push(ix_facts_t *facts, ix_fact_t fact) {
  td_vec_push(facts->pool->arena, &facts->log, fact);
}

/* ---- equalities ------------------------------------------------------- */

/* Maps the one symbol that an equality replaces. */
static const ix_poly_t *replaced(void *user, const ix_atom_t *atom) {
  const ix_fact_t *equal = user;
  return atom->symbol && atom->symbol == equal->symbol ? equal->a : NULL;
}

/* No value mentions a symbol that was replaced before it, so one pass in order
 * is enough. */
static const ix_poly_t *apply(ix_proof_t *proof, const ix_poly_t *p) {
  const ix_facts_t *facts = proof->facts;
  if (!facts || facts->equal_count == 0) return p;
  for (size_t i = 0; i < facts->log.length && p; i++) {
    ix_fact_t *fact = &facts->log.data[i];
    if (fact->kind == IX_FACT_EQUAL && ix_may_mention(&p->below, fact->symbol))
      p = ix_rebuild(proof, p, replaced, fact);
  }
  return p;
}

const ix_poly_t *ix_apply_facts(ix_pool_t *pool, const ix_poly_t *p,
                                const ix_facts_t *facts) {
  ix_proof_t proof = ix_proof_start(pool, facts);
  proof.budget = IX_REBUILD_BUDGET;
  return apply(&proof, p);
}

/* Ends of ranges are looked up inside proofs: exact divisions only, so that no
 * proof starts another one from the beginning. */
const ix_poly_t *ix_apply_exact(const ix_facts_t *facts, const ix_poly_t *p) {
  ix_proof_t proof;
  if (!p || !facts || facts->equal_count == 0) return p;
  proof = ix_proof_start(facts->pool, facts);
  proof.level = IX_PROOF_LEVELS;
  return apply(&proof, p);
}

typedef struct ix_swap {
  const ix_symbol_t *from;
  const ix_poly_t *to;
} ix_swap_t;

static const ix_poly_t *swapped(void *user, const ix_atom_t *atom) {
  const ix_swap_t *swap = user;
  return atom->symbol && atom->symbol == swap->from ? swap->to : NULL;
}

/* The new dim a/b of `require a % b == 0` as the floor that it is, so that
 * nothing made by this poly knows of it. */
static const ix_poly_t *without_quotient(ix_proof_t *proof,
                                         const ix_poly_t *p,
                                         const ix_fact_t *fact) {
  ix_pool_t *pool = proof->pool;
  ix_swap_t swap = {.from = ix_as_symbol(ix_divide(proof, fact->a, fact->b))};
  if (!swap.from || !ix_may_mention(&p->below, swap.from)) return p;
  swap.to = ix_div(pool, ix_sym(pool, fact->symbol), fact->b, NULL);
  const ix_poly_t *back = ix_rebuild(proof, p, swapped, &swap);
  return back ? back : p;
}

/* Only quotients are put back: N == M says nothing about which of the two
 * names the user wrote.  Latest first, since values hold later names. */
const ix_poly_t *ix_restore_facts(ix_pool_t *pool, const ix_poly_t *p,
                                  const ix_facts_t *facts) {
  ix_proof_t proof = ix_proof_start(pool, facts);
  const ix_poly_t *sum = p;
  proof.level = IX_PROOF_LEVELS;
  if (!p || !facts) return p;
  for (size_t i = facts->log.length; i-- > 0;) {
    const ix_fact_t *fact = &facts->log.data[i];
    if (fact->kind != IX_FACT_EQUAL || !fact->b) continue;
    p = fact->a->term_count == 1 ? sum : pool->zero;
    for (uint32_t k = 0; k < p->term_count; k++) {
      const ix_poly_t *term =
          ix_term_poly(pool, &p->terms[k], p->terms[k].atom_count);
      const ix_poly_t *whole = ix_divide(&proof, term, fact->a);
      if (!whole || ix_modulo(&proof, term, fact->a) != pool->zero) continue;
      whole = ix_mul(pool, whole, ix_sym(pool, fact->symbol));
      whole = ix_add(pool, ix_sub(pool, sum, term), whole);
      if (whole) sum = whole;
    }
    sum = without_quotient(&proof, sum, fact);
  }
  return sum;
}

bool ix_equal(ix_pool_t *pool, const ix_poly_t *a, const ix_poly_t *b,
              const ix_facts_t *facts) {
  a = ix_apply_facts(pool, a, facts);
  return a && a == ix_apply_facts(pool, b, facts);
}

/* ---- ranges ----------------------------------------------------------- */

const ix_poly_t *ix_symbol_lo(const ix_symbol_t *s, const ix_facts_t *f) {
  for (size_t i = f ? f->log.length : 0; i-- > 0;) {
    const ix_fact_t *fact = &f->log.data[i];
    if (fact->kind == IX_FACT_RANGE && fact->symbol == s && fact->a)
      return ix_apply_exact(f, fact->a);
  }
  return ix_apply_exact(f, s->lo);
}

const ix_poly_t *ix_symbol_hi(const ix_symbol_t *s, const ix_facts_t *f) {
  for (size_t i = f ? f->log.length : 0; i-- > 0;) {
    const ix_fact_t *fact = &f->log.data[i];
    if (fact->kind == IX_FACT_RANGE && fact->symbol == s && fact->b)
      return ix_apply_exact(f, fact->b);
  }
  return ix_apply_exact(f, s->hi);
}

/* ---- entering facts --------------------------------------------------- */

/* Changes no atom: a rebuild by it only simplifies. */
static const ix_poly_t *kept(void *user, const ix_atom_t *atom) {
  (void)user;
  (void)atom;
  return NULL;
}

static bool is_known(const ix_facts_t *facts, const ix_poly_t *p) {
  for (size_t i = 0; i < facts->log.length; i++)
    if (facts->log.data[i].kind == IX_FACT_NONNEGATIVE &&
        facts->log.data[i].a == p)
      return true;
  return false;
}

/* Point 3 above: `names` are those of the entry just made. */
static void renew(ix_facts_t *facts, uint64_t names) {
  size_t count = facts->log.length;
  for (size_t i = 0; i < count; i++) {
    ix_fact_t fact = facts->log.data[i];
    ix_proof_t proof;
    if (fact.kind != IX_FACT_NONNEGATIVE || !(fact.a->below.names & names) ||
        !(fact.a->below.has & (IX_HAS_FLOOR | IX_HAS_MOD)))
      continue;
    proof = ix_proof_start(facts->pool, facts);
    fact.a = ix_rebuild(&proof, fact.a, kept, NULL);
    if (fact.a && fact.a->below.has && !is_known(facts, fact.a))
      push(facts, fact);
  }
}

bool ix_is_bound(const ix_poly_t *p, const ix_atom_t **out_atom,
                 int64_t *out_least) {
  const ix_term_t *t = p->terms;
  int64_t c = 0;
  if (p->term_count == 0 || p->term_count > 2 || t->atom_count != 1 ||
      t->coefficient <= 0)
    return false;
  if (p->term_count == 2) {
    if (t[1].atom_count != 0) return false;
    c = t[1].coefficient;
  }
  if (c == INT64_MIN) return false;
  *out_atom = t->atoms[0];
  *out_least = -td_floor_div(c, t->coefficient);
  return true;
}

/* Logs a fact that no range can take, with what follows from it at once. */
static void enter(ix_facts_t *facts, const ix_poly_t *p) {
  ix_pool_t *pool = facts->pool;
  const ix_atom_t *atom = NULL;
  int64_t least = 0, now;
  bool is_bound = ix_is_bound(p, &atom, &least);
  if (is_known(facts, p)) return;
  if (is_bound && atom->symbol && !(atom->below.has & IX_HAS_VARYING) &&
      ix_is_const(ix_symbol_lo(atom->symbol, facts), &now)) {
    /* as a least value it does all that it would do as a fact */
    if (now < least)
      ix_facts_narrow(facts, atom->symbol, ix_const(pool, least), NULL);
    return;
  }
  push(facts, (ix_fact_t){IX_FACT_NONNEGATIVE, NULL, p, NULL});
  /* floor(r/q) >= m gives r >= m*q */
  if (is_bound && atom->kind == IX_ATOM_FLOOR && least >= 1)
    ix_facts_add(facts, ix_sub(pool, atom->p, ix_scale(pool, atom->q, least)));
  renew(facts, p->below.names);
}

void ix_facts_narrow(ix_facts_t *facts, const ix_symbol_t *s,
                     const ix_poly_t *lo, const ix_poly_t *hi) {
  push(facts, (ix_fact_t){IX_FACT_RANGE, s, lo, hi});
  renew(facts, (uint64_t)1 << (s->id % 64));
}

/* The one index, loop variable or datum of p with coefficient 1 or -1, the
 * rest being free of such; *out_rest is p without it. */
static const ix_symbol_t *compared(ix_pool_t *pool, const ix_poly_t *p,
                                   bool *out_is_lower,
                                   const ix_poly_t **out_rest) {
  const ix_term_t *found = NULL;
  for (uint32_t i = 0; i < p->term_count; i++) {
    const ix_term_t *t = &p->terms[i];
    for (uint32_t k = 0; k < t->atom_count; k++) {
      if (!(t->atoms[k]->below.has & IX_HAS_VARYING)) continue;
      if (found || t->atom_count != 1 || !t->atoms[k]->symbol ||
          (t->coefficient != 1 && t->coefficient != -1))
        return NULL;
      found = t;
    }
  }
  if (!found) return NULL;
  *out_is_lower = found->coefficient == 1;
  *out_rest = ix_sub(pool, p, ix_term_poly(pool, found, found->atom_count));
  return *out_rest ? found->atoms[0]->symbol : NULL;
}

/* Ranges within ranges (loops whose ends are loop variables) that are known to
 * hold something because the innermost one does. */
enum { NONEMPTY_NESTING = 16 };

/* True if the fact went into the range of a symbol. */
static bool narrow_by(ix_facts_t *facts, const ix_poly_t *p) {
  ix_pool_t *pool = facts->pool;
  const ix_poly_t *rest, *now, *end;
  bool is_lower;
  const ix_symbol_t *s = compared(pool, p, &is_lower, &rest);
  if (!s) return false;
  end = is_lower ? ix_neg(pool, rest) : ix_add(pool, rest, pool->one);
  now = is_lower ? ix_symbol_lo(s, facts) : ix_symbol_hi(s, facts);
  if (!end) return false;
  if (end == now) return true;
  if (now && !ix_prove_nonnegative(pool,
                                   is_lower ? ix_sub(pool, end, now)
                                            : ix_sub(pool, now, end),
                                   facts))
    return false;
  ix_facts_narrow(facts, s, is_lower ? end : NULL, is_lower ? NULL : end);
  /* Where this guard holds the range holds the value of s. */
  now = ix_symbol_lo(s, facts);
  end = ix_symbol_hi(s, facts);
  if (now && end && facts->nesting < NONEMPTY_NESTING) {
    facts->nesting++;
    ix_facts_extent_nonempty(facts, pool, ix_sub(pool, end, now));
    facts->nesting--;
  }
  return true;
}

void ix_facts_add(ix_facts_t *facts, const ix_poly_t *nonnegative) {
  const ix_poly_t *p = ix_apply_facts(facts->pool, nonnegative, facts);
  int64_t value;
  /* a false fact stays: the code under it is never reached */
  if (!p || (ix_is_const(p, &value) && value >= 0)) return;
  if (p->below.has == 0 || !narrow_by(facts, p)) enter(facts, p);
}

void ix_facts_guard(ix_facts_t *facts, const ix_poly_t *nonnegative) {
  ix_facts_add(facts, nonnegative);
}

/* Both inequalities: on one index they leave a range of one value. */
void ix_facts_guard_zero(ix_facts_t *facts, const ix_poly_t *d) {
  ix_facts_guard(facts, d);
  ix_facts_guard(facts, ix_neg(facts->pool, d));
}

void ix_facts_guard_nonzero(ix_facts_t *facts, const ix_poly_t *d) {
  ix_pool_t *pool = facts->pool;
  const ix_poly_t *n = ix_neg(pool, d);
  if (ix_prove_nonnegative(pool, d, facts))
    ix_facts_guard(facts, ix_sub(pool, d, pool->one));
  else if (ix_prove_nonnegative(pool, n, facts))
    ix_facts_guard(facts, ix_sub(pool, n, pool->one));
}

/* ---- equalities, divisibility, nonempty ranges ------------------------ */

/* divisor: of the fact `symbol % divisor == 0`, or NULL. */
static void replace(ix_facts_t *facts, const ix_symbol_t *s,
                    const ix_poly_t *value, const ix_poly_t *divisor) {
  ix_pool_t *pool = facts->pool;
  const ix_poly_t *lo = ix_symbol_lo(s, facts), *hi = ix_symbol_hi(s, facts);
  size_t count = facts->log.length;
  push(facts, (ix_fact_t){IX_FACT_EQUAL, s, value, divisor});
  facts->equal_count++;
  /* What was known of the name is known of the value. */
  if (lo) ix_facts_add(facts, ix_sub(pool, value, lo));
  if (s->kind == IX_SYM_STATIC) ix_facts_extent_nonempty(facts, pool, value);
  if (hi) ix_facts_add(facts, ix_sub(pool, ix_sub(pool, hi, pool->one), value));
  if (!(1u << s->kind & IX_HAS_VARYING))
    ix_facts_add(facts, ix_sub(pool, ix_const(pool, dim_max), value));
  for (size_t i = 0; i < count; i++) {
    const ix_fact_t *fact = &facts->log.data[i];
    if (fact->kind == IX_FACT_NONNEGATIVE && ix_mentions(fact->a, s))
      ix_facts_add(facts, fact->a);
  }
}

/* A name can be replaced once; a second equality compares its value. */
static bool is_replaced(const ix_facts_t *facts, const ix_symbol_t *s) {
  for (size_t i = 0; i < facts->log.length; i++)
    if (facts->log.data[i].kind == IX_FACT_EQUAL &&
        facts->log.data[i].symbol == s)
      return true;
  return false;
}

void ix_facts_equal(ix_facts_t *facts, const ix_symbol_t *s,
                    const ix_poly_t *value) {
  value = ix_apply_facts(facts->pool, value, facts);
  if (!value) return;
  if (is_replaced(facts, s) || ix_mentions(value, s))
    ix_facts_guard_zero(facts,
                        ix_sub(facts->pool, ix_sym(facts->pool, s), value));
  else
    replace(facts, s, value, NULL);
}

/* A name that `require` may replace: anything that is one value throughout the
 * function. */
static const ix_symbol_t *replaceable(const ix_poly_t *p,
                                      const ix_poly_t *other) {
  const ix_symbol_t *s = ix_as_symbol(p);
  if (!s || !other || s->kind == IX_SYM_INDEX || s->kind == IX_SYM_LOOP)
    return NULL;
  return ix_mentions(other, s) ? NULL : s;
}

/* The left name goes if both sides are names: `require N == M` leaves M. */
void ix_facts_require_equal(ix_facts_t *facts, const ix_poly_t *a,
                            const ix_poly_t *b) {
  const ix_symbol_t *s;
  a = ix_apply_facts(facts->pool, a, facts);
  b = ix_apply_facts(facts->pool, b, facts);
  if (a == b) return;
  if ((s = replaceable(a, b)) != NULL) ix_facts_equal(facts, s, b);
  else if ((s = replaceable(b, a)) != NULL)
    ix_facts_equal(facts, s, a);
  else
    ix_facts_guard_zero(facts, ix_sub(facts->pool, a, b));
}

/* `H/G`, `H/(2*G)`: the text by which messages show the new dim. */
static const char *quotient_name(ix_pool_t *pool, const ix_poly_t *a,
                                 const ix_poly_t *b) {
  const char *top = ix_text(pool->arena, a), *under = ix_text(pool->arena, b);
  bool top_bare = strpbrk(top, "+-*/% ") == NULL;
  bool under_bare = strpbrk(under, "+-*/% ") == NULL;
  return td_arena_printf(pool->arena, "%s%s%s/%s%s%s", top_bare ? "" : "(", top,
                         top_bare ? "" : ")", under_bare ? "" : "(", under,
                         under_bare ? "" : ")");
}

void ix_facts_require_divides(ix_facts_t *facts, const ix_poly_t *a,
                              const ix_poly_t *b) {
  ix_pool_t *pool = facts->pool;
  const ix_poly_t *rest = ix_mod(pool, a, b, facts);
  const ix_symbol_t *s;
  a = ix_apply_facts(pool, a, facts);
  b = ix_apply_facts(pool, b, facts);
  if (!rest || rest == pool->zero) return;
  ix_facts_add(facts, ix_sub(pool, b, pool->one));
  s = replaceable(a, b);
  if (s && !(1u << s->kind & IX_HAS_VARYING)) {
    ix_symbol_t *q =
        ix_symbol_create(pool, quotient_name(pool, a, b), s->kind, s->loc);
    const ix_poly_t *value = ix_mul(pool, b, ix_sym(pool, q));
    if (value) replace(facts, s, value, b);
  } else {
    ix_facts_add(facts, ix_neg(pool, rest));
  }
}

enum { NONEMPTY_DEPTH = 8 }; /* floors and mins inside each other */

/* p >= 1, and what follows for its factors if p is a single product. */
static void at_least_one(ix_facts_t *facts, const ix_poly_t *p,
                         uint32_t depth) {
  ix_pool_t *pool = facts->pool;
  const ix_term_t *t;
  if (!p || p->below.has == 0 || depth > NONEMPTY_DEPTH) return;
  ix_facts_add(facts, ix_sub(pool, p, pool->one));
  t = p->terms;
  if (p->term_count != 1 || t->coefficient < 0) return;
  for (uint32_t k = 0; k < t->atom_count; k++) {
    const ix_atom_t *a = t->atoms[k];
    ix_proof_t proof = ix_proof_start(pool, facts);
    bool others = true; /* a product >= 1 of nonnegative factors */
    proof.level = 1;
    for (uint32_t j = 0; j < t->atom_count; j++)
      if (j != k && !ix_atom_nonnegative(&proof, t->atoms[j])) others = false;
    if (!others) continue;
    ix_facts_add(facts, ix_sub(pool, ix_of_atom(pool, a), pool->one));
    if (a->kind == IX_ATOM_FLOOR || a->kind == IX_ATOM_MIN)
      at_least_one(facts, a->p, depth + 1);
    if (a->kind == IX_ATOM_MIN) at_least_one(facts, a->q, depth + 1);
  }
}

void ix_facts_extent_nonempty(ix_facts_t *facts, ix_pool_t *pool,
                              const ix_poly_t *extent) {
  at_least_one(facts, ix_apply_facts(pool, extent, facts), 0);
}
