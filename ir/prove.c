/* The proof of p >= 0 from ranges: language.md 8.3, steps 1 to 4, and nothing
 * beyond.  Step 5, which subtracts facts in force, is in prove_facts.c.
 *
 * 1. max and min are taken apart: where p rises with a max, or falls with a
 *    min, one operand that works is enough; else both must.
 * 2. Indices, loop variables and data become an end of their range, monomial
 *    by monomial.  What is left is made of dims.
 * 3. Dims and floors become their least value plus a rest that is >= 0; if no
 *    coefficient is negative, p is proved.  A least value may be another dim:
 *    from the fact S - T >= 0 the dim S becomes T + S'.
 * 4. Else one or two of r - q*A >= 0, q*A + q-1 - r >= 0 are subtracted, for
 *    the floors A = floor(r/q) in p.
 *
 * Every step is sound by itself: the result is <= p, or p is one of the cases.
 * Work is counted (shape_internal.h). */
#include "ir/shape_internal.h"

#include "runtime/base/num.h"

enum {
  FLOORS_MAX = 6, /* floors of one p that step 4 looks at */
  ENDS_MAX = 256, /* replacements of step 2 in one p */
};

/* ---- step 1: min and max ---------------------------------------------- */

static bool is_choice(const ix_atom_t *a) {
  return a->kind == IX_ATOM_MIN || a->kind == IX_ATOM_MAX;
}

/* The first one, those that are factors of p before those inside. */
const ix_atom_t *ix_first_choice(const ix_poly_t *p) {
  if (!(p->below.has & IX_HAS_CHOICE)) return NULL;
  for (uint32_t i = 0; i < p->term_count; i++)
    for (uint32_t k = 0; k < p->terms[i].atom_count; k++)
      if (is_choice(p->terms[i].atoms[k])) return p->terms[i].atoms[k];
  for (uint32_t i = 0; i < p->term_count; i++) {
    for (uint32_t k = 0; k < p->terms[i].atom_count; k++) {
      const ix_atom_t *a = p->terms[i].atoms[k], *found = NULL;
      if (!(a->below.has & IX_HAS_CHOICE)) continue;
      found = ix_first_choice(a->p);
      return found ? found : ix_first_choice(a->q);
    }
  }
  return NULL;
}

/* How p moves when x grows. */
enum { STAYS = 0, RISES = 1, FALLS = 2, EITHER = 3 };

static unsigned poly_direction(ix_proof_t *proof, const ix_poly_t *p,
                               const ix_atom_t *x);

/* An atom that is no larger than x cannot hold x.  q > 0, so a floor moves
 * with its p; a remainder moves both ways. */
static unsigned atom_direction(ix_proof_t *proof, const ix_atom_t *a,
                               const ix_atom_t *x) {
  unsigned d;
  if (a == x) return RISES;
  if (a->kind == IX_ATOM_SYMBOL || a->below.weight <= x->below.weight)
    return STAYS;
  d = poly_direction(proof, a->q, x);
  if (is_choice(a)) return d | poly_direction(proof, a->p, x);
  if (d != STAYS) return EITHER;
  d = poly_direction(proof, a->p, x);
  return a->kind == IX_ATOM_MOD && d != STAYS ? EITHER : d;
}

static unsigned poly_direction(ix_proof_t *proof, const ix_poly_t *p,
                               const ix_atom_t *x) {
  unsigned all = STAYS;
  if (!(p->below.has & IX_HAS_CHOICE)) return STAYS;
  for (uint32_t i = 0; i < p->term_count; i++) {
    const ix_term_t *t = &p->terms[i];
    unsigned d = STAYS;
    uint32_t moving = 0;
    for (uint32_t k = 0; k < t->atom_count; k++) {
      unsigned one = atom_direction(proof, t->atoms[k], x);
      if (one == STAYS) continue;
      d = moving > 0 ? EITHER : one;
      moving = k + 1;
    }
    for (uint32_t k = 0; k < t->atom_count && d != STAYS; k++)
      if (k + 1 != moving && !ix_atom_nonnegative(proof, t->atoms[k]))
        d = EITHER;
    if (d != STAYS && d != EITHER && t->coefficient < 0) d ^= RISES | FALLS;
    all |= d;
  }
  return all;
}

typedef struct swap {
  const ix_atom_t *from;
  const ix_poly_t *to;
} swap_t;

static const ix_poly_t *swapped(void *user, const ix_atom_t *atom) {
  const swap_t *swap = user;
  return atom == swap->from ? swap->to : NULL;
}

bool ix_split_choice(ix_proof_t *proof, const ix_poly_t *p, const ix_atom_t *x,
                     const ix_poly_t *out_cases[2]) {
  swap_t first = {x, x->p}, second = {x, x->q};
  out_cases[0] = ix_rebuild(proof, p, swapped, &first);
  out_cases[1] = ix_rebuild(proof, p, swapped, &second);
  return poly_direction(proof, p, x) ==
         (x->kind == IX_ATOM_MAX ? RISES : FALLS);
}

/* Step 1 for the min or max x of p. */
static bool prove_choice(ix_proof_t *proof, const ix_poly_t *p,
                         const ix_atom_t *x) {
  const ix_poly_t *cases[2];
  bool one_is_enough = ix_split_choice(proof, p, x, cases);
  bool first = ix_prove_ranged(proof, cases[0]);
  return first == one_is_enough ? first : ix_prove_ranged(proof, cases[1]);
}

/* ---- step 2: ends of ranges ------------------------------------------- */

/* By ranges alone: this serves a larger proof. */
bool ix_atom_nonnegative(ix_proof_t *proof, const ix_atom_t *a) {
  switch (a->kind) {
  case IX_ATOM_SYMBOL:
    return !(a->below.has & IX_HAS_VARYING) || /* dims are */
           ix_proof_nonnegative(proof, ix_symbol_lo(a->symbol, proof->facts));
  case IX_ATOM_FLOOR: return ix_proof_nonnegative(proof, a->p);
  case IX_ATOM_MOD: return true;
  case IX_ATOM_MIN:
    return ix_proof_nonnegative(proof, a->p) &&
           ix_proof_nonnegative(proof, a->q);
  case IX_ATOM_MAX:
    return ix_proof_nonnegative(proof, a->p) ||
           ix_proof_nonnegative(proof, a->q);
  }
  return false;
}

/* Steps 3 and 4 take dims and floors of dims. */
static bool needs_end(const ix_atom_t *a) {
  return a->kind == IX_ATOM_MOD || (a->below.has & IX_HAS_VARYING) != 0;
}

/* The factor of t to replace by an end: one whose cofactor is >= 0. */
static bool pick_factor(ix_proof_t *proof, const ix_term_t *t,
                        uint32_t *out_factor) {
  for (uint32_t k = 0; k < t->atom_count; k++) {
    bool others = true;
    if (!needs_end(t->atoms[k])) continue;
    for (uint32_t j = 0; j < t->atom_count && others; j++)
      others = j == k || ix_atom_nonnegative(proof, t->atoms[j]);
    *out_factor = k;
    if (others) return true;
  }
  return false;
}

/* NULL wherever no end is known; the operations pass it on. */
static const ix_poly_t *end_of(ix_proof_t *proof, const ix_poly_t *p,
                               bool upper) {
  return upper ? ix_greatest(proof, p) : ix_least(proof, p);
}

static const ix_poly_t *floor_end(ix_proof_t *proof, const ix_atom_t *a,
                                  bool upper) {
  if (!(a->q->below.has & IX_HAS_VARYING))
    return ix_divide(proof, end_of(proof, a->p, upper), a->q);
  /* A divisor that varies is at least 1. */
  if (!ix_proof_nonnegative(proof, a->p)) return NULL;
  return upper ? ix_greatest(proof, a->p) : proof->pool->zero;
}

/* The end of a min or max, again as a min or max: only ix_ends gets here, a
 * proof has taken them apart before. */
static const ix_poly_t *choice_end(ix_proof_t *proof, const ix_atom_t *a,
                                   bool upper) {
  const ix_poly_t *p = end_of(proof, a->p, upper);
  const ix_poly_t *q = end_of(proof, a->q, upper);
  bool one_is_enough = upper == (a->kind == IX_ATOM_MIN);
  if (one_is_enough && (!p || !q)) return p ? p : q;
  return a->kind == IX_ATOM_MIN ? ix_min(proof->pool, p, q)
                                : ix_max(proof->pool, p, q);
}

static const ix_poly_t *atom_end(ix_proof_t *proof, const ix_atom_t *a,
                                 bool upper) {
  ix_pool_t *pool = proof->pool;
  switch (a->kind) {
  case IX_ATOM_SYMBOL:
    if (!upper) return ix_symbol_lo(a->symbol, proof->facts);
    return ix_sub(pool, ix_symbol_hi(a->symbol, proof->facts), pool->one);
  case IX_ATOM_FLOOR: return floor_end(proof, a, upper);
  case IX_ATOM_MOD: return upper ? ix_sub(pool, a->q, pool->one) : pool->zero;
  case IX_ATOM_MIN:
  case IX_ATOM_MAX: return choice_end(proof, a, upper);
  }
  return NULL;
}

/* An end may hold data again (the bounds of a loop), hence the rounds. */
const ix_poly_t *ix_least(ix_proof_t *proof, const ix_poly_t *p) {
  ix_pool_t *pool = proof->pool;
  for (uint32_t round = 0; p && round < ENDS_MAX; round++) {
    const ix_term_t *t = NULL;
    const ix_poly_t *end;
    uint32_t k = 0;
    for (uint32_t i = 0; i < p->term_count && !t; i++)
      for (uint32_t j = 0; j < p->terms[i].atom_count && !t; j++)
        if (needs_end(p->terms[i].atoms[j])) t = &p->terms[i];
    if (!t) return p;
    if (!ix_spend(proof, 1) || !pick_factor(proof, t, &k)) return NULL;
    end = atom_end(proof, t->atoms[k], t->coefficient < 0);
    end = ix_mul(pool, ix_term_poly(pool, t, k), end);
    p = ix_sub(pool, p, ix_term_poly(pool, t, t->atom_count));
    p = ix_add(pool, p, end);
  }
  return NULL;
}

const ix_poly_t *ix_greatest(ix_proof_t *proof, const ix_poly_t *p) {
  const ix_poly_t *n = ix_neg(proof->pool, p);
  return ix_neg(proof->pool, ix_least(proof, n));
}

/* ---- step 3: dims and floors by their least values --------------------- */

static bool atom_least(ix_proof_t *proof, const ix_atom_t *a, int64_t *out);

/* Every term is least where all its factors are, if nothing is negative: the
 * value there.  False if p is not of that kind. */
static bool poly_least(ix_proof_t *proof, const ix_poly_t *p, int64_t *out) {
  int64_t sum = 0;
  if (!ix_spend(proof, (int32_t)p->term_count)) return false;
  for (uint32_t i = 0; i < p->term_count; i++) {
    const ix_term_t *t = &p->terms[i];
    int64_t product = t->coefficient, least;
    for (uint32_t k = 0; k < t->atom_count; k++)
      if (t->coefficient < 0 || !atom_least(proof, t->atoms[k], &least) ||
          (least < 0 && t->atom_count > 1) ||
          !td_mul_i64(product, least, &product))
        return false;
    if (!td_add_i64(sum, product, &sum)) return false;
  }
  *out = sum;
  return true;
}

/* The best of r's least value over q, and of what facts say of this floor. */
static bool floor_least(ix_proof_t *proof, const ix_atom_t *a, int64_t *out) {
  const ix_facts_t *facts = proof->facts;
  int64_t r, q;
  bool found = poly_least(proof, a->p, &r);
  if (found && ix_is_const(a->q, &q)) {
    *out = td_floor_div(r, q);
  } else if (found) {
    /* q >= 1; at least 1 if r - q is clearly >= 0 */
    *out = r < 0 ? r : 0;
    if (poly_least(proof, ix_sub(proof->pool, a->p, a->q), &r) && r >= 0)
      *out = 1;
  }
  /* Facts A - c >= 0; renewed facts are in the form of p. */
  for (size_t i = 0; facts && i < facts->log.length; i++) {
    const ix_fact_t *fact = &facts->log.data[i];
    const ix_atom_t *bounded;
    int64_t c;
    if (fact->kind == IX_FACT_NONNEGATIVE &&
        ix_is_bound(fact->a, &bounded, &c) && bounded == a &&
        (!found || c > *out)) {
      *out = c;
      found = true;
    }
  }
  return found;
}

/* False if nothing is known; min and max occur under floors only. */
static bool atom_least(ix_proof_t *proof, const ix_atom_t *a, int64_t *out) {
  int64_t p, q;
  bool has_p, has_q;
  switch (a->kind) {
  case IX_ATOM_SYMBOL:
    if (a->below.has & IX_HAS_VARYING) return false;
    if (!ix_is_const(ix_symbol_lo(a->symbol, proof->facts), out)) *out = 0;
    return true;
  case IX_ATOM_FLOOR: return floor_least(proof, a, out);
  case IX_ATOM_MOD: *out = 0; return true;
  case IX_ATOM_MIN:
  case IX_ATOM_MAX:
    has_p = poly_least(proof, a->p, &p);
    has_q = poly_least(proof, a->q, &q);
    if (a->kind == IX_ATOM_MIN ? !has_p || !has_q : !has_p && !has_q)
      return false;
    if (has_p && has_q) *out = (p < q) == (a->kind == IX_ATOM_MIN) ? p : q;
    else
      *out = has_p ? p : q;
    return true;
  }
  return false;
}

static bool no_negative(const ix_poly_t *p) {
  for (uint32_t i = 0; i < p->term_count; i++)
    if (p->terms[i].coefficient < 0) return false;
  return true;
}

/* p with every atom x written as least + x'; x' goes by the name of x. */
static bool holds(ix_proof_t *proof, const ix_poly_t *p) {
  ix_pool_t *pool = proof->pool;
  const ix_poly_t *sum = pool->zero;
  int64_t value = 0;
  if (!p || !ix_spend(proof, 1 + (int32_t)p->term_count)) return false;
  /* The value where all rests are 0 settles most failures without algebra. */
  for (uint32_t i = 0; i < p->term_count; i++) {
    int64_t product = p->terms[i].coefficient, least;
    for (uint32_t k = 0; k < p->terms[i].atom_count; k++)
      if (!atom_least(proof, p->terms[i].atoms[k], &least) ||
          !td_mul_i64(product, least, &product))
        return false;
    if (!td_add_i64(value, product, &value)) return false;
  }
  if (value < 0) return false;
  for (uint32_t i = 0; i < p->term_count; i++) {
    const ix_term_t *t = &p->terms[i];
    const ix_poly_t *product = ix_const(pool, t->coefficient);
    for (uint32_t k = 0; k < t->atom_count && product; k++) {
      int64_t least;
      const ix_poly_t *x = ix_of_atom(pool, t->atoms[k]);
      if (!atom_least(proof, t->atoms[k], &least)) return false;
      product = ix_mul(pool, product, ix_add(pool, x, ix_const(pool, least)));
      if (product && !ix_spend(proof, (int32_t)product->term_count))
        return false;
    }
    sum = ix_add(pool, sum, product);
  }
  return sum && no_negative(sum);
}

/* ---- step 4: what a floor is ------------------------------------------ */

/* Floors at any depth of p, each once. */
static size_t floors_of(const ix_poly_t *p, const ix_atom_t **out,
                        size_t count) {
  if (!(p->below.has & IX_HAS_FLOOR)) return count;
  for (uint32_t i = 0; i < p->term_count; i++) {
    for (uint32_t k = 0; k < p->terms[i].atom_count; k++) {
      const ix_atom_t *a = p->terms[i].atoms[k];
      bool is_new = a->kind == IX_ATOM_FLOOR && count < FLOORS_MAX;
      for (size_t j = 0; j < count; j++)
        if (out[j] == a) is_new = false;
      if (is_new) out[count++] = a;
      if (a->kind != IX_ATOM_SYMBOL)
        count = floors_of(a->q, out, floors_of(a->p, out, count));
    }
  }
  return count;
}

/* Step 3, then step 4 with one fact, then with two (one may count twice). */
static bool prove_floors(ix_proof_t *proof, const ix_poly_t *p) {
  ix_pool_t *pool = proof->pool;
  const ix_atom_t *floors[FLOORS_MAX];
  const ix_poly_t *facts[2 * FLOORS_MAX];
  size_t count = 0, floor_count;
  if (holds(proof, p)) return true;
  floor_count = floors_of(p, floors, 0);
  for (size_t i = 0; i < floor_count; i++) {
    const ix_atom_t *a = floors[i];
    const ix_poly_t *rest = /* r - q*A, which is in 0 .. q-1 */
        ix_sub(pool, a->p, ix_mul(pool, a->q, ix_of_atom(pool, a)));
    facts[count++] = rest;
    facts[count++] = ix_sub(pool, ix_sub(pool, a->q, pool->one), rest);
  }
  for (size_t i = 0; i < count; i++)
    if (holds(proof, ix_sub(pool, p, facts[i]))) return true;
  for (size_t i = 0; i < count; i++) {
    const ix_poly_t *less = ix_sub(pool, p, facts[i]);
    for (size_t j = i; j < count; j++)
      if (holds(proof, ix_sub(pool, less, facts[j]))) return true;
  }
  return false;
}

/* ---- step 3 with dims as least values ---------------------------------- */

/* The rest d' of the n-th dim that is raised: a symbol of its own, so that
 * nothing known of d is taken to hold of it. */
static const ix_symbol_t *rest_symbol(ix_pool_t *pool, size_t n) {
  if (!pool->rests[n])
    pool->rests[n] = ix_symbol_create(pool, "'", IX_SYM_GENERIC, TD_NO_LOC);
  return pool->rests[n];
}

/* The fact f as d - g >= 0 for a dim d of p that was not raised yet: where d
 * is in f, and g. */
static const ix_atom_t *find_raise(ix_pool_t *pool, const ix_poly_t *f,
                                   const ix_poly_t *p,
                                   const ix_symbol_t *const *raised,
                                   size_t count, const ix_poly_t **out_g) {
  if (f->term_count < 2 || (f->below.has & IX_HAS_VARYING) ||
      !(f->below.names & p->below.names))
    return NULL;
  for (uint32_t k = 0; k < f->term_count; k++) {
    const ix_term_t *t = &f->terms[k];
    bool is_free = t->atom_count == 1 && t->coefficient == 1 &&
                   t->atoms[0]->symbol && ix_mentions(p, t->atoms[0]->symbol);
    for (size_t i = 0; i < count && is_free; i++)
      is_free = raised[i] != t->atoms[0]->symbol;
    if (!is_free) continue;
    *out_g = ix_sub(pool, ix_of_atom(pool, t->atoms[0]), f);
    if (*out_g && (*out_g)->below.has != 0 &&
        !ix_mentions(*out_g, t->atoms[0]->symbol))
      return t->atoms[0];
  }
  return NULL;
}

/* p with d written as g + d' for every fact d - g >= 0 between dims, floors
 * included; p itself if there is none. */
static const ix_poly_t *raise_dims(ix_proof_t *proof, const ix_poly_t *p) {
  const ix_facts_t *facts = proof->facts;
  const ix_symbol_t *raised[IX_MAX_RAISED];
  size_t count = 0;
  bool again = facts != NULL;
  while (again) {
    again = false;
    for (size_t i = 0; i < facts->log.length; i++) {
      const ix_fact_t *fact = &facts->log.data[i];
      swap_t swap;
      const ix_poly_t *g;
      if (fact->kind != IX_FACT_NONNEGATIVE) continue;
      if (!p || count == IX_MAX_RAISED) return p;
      swap.from = find_raise(proof->pool, fact->a, p, raised, count, &g);
      if (!swap.from) continue;
      swap.to = ix_sym(proof->pool, rest_symbol(proof->pool, count));
      swap.to = ix_add(proof->pool, g, swap.to);
      raised[count++] = swap.from->symbol;
      p = ix_rebuild(proof, p, swapped, &swap);
      again = true;
    }
  }
  return p;
}

/* Steps 3 and 4 on dims and floors of dims: with numbers as least values,
 * then with dims. */
static bool prove_dims(ix_proof_t *proof, const ix_poly_t *p) {
  const ix_poly_t *other;
  if (prove_floors(proof, p)) return true;
  other = raise_dims(proof, p);
  return other && other != p && prove_floors(proof, other);
}

/* Steps 1 to 4. */
bool ix_prove_ranged(ix_proof_t *proof, const ix_poly_t *p) {
  const ix_atom_t *x;
  bool proved;
  int64_t value;
  if (!p || !ix_spend(proof, 1)) return false;
  if (ix_is_const(p, &value)) return value >= 0;
  if (proof->level >= IX_PROOF_LEVELS) return false;
  proof->level++;
  x = ix_first_choice(p);
  if (x) {
    proved = prove_choice(proof, p, x);
  } else {
    p = ix_least(proof, p);
    /* an end may bring a choice between dims */
    proved = p && (ix_first_choice(p) ? ix_prove_ranged(proof, p)
                                      : prove_dims(proof, p));
  }
  proof->level--;
  return proved;
}
