/* Polynomials in normal form: the pool that makes them unique, arithmetic,
 * floor division.
 *
 * 1. A poly is built as a list of terms in the pool's scratch space, sorted,
 *    combined, and looked up; only a new one is copied to the arena.
 * 2. Order is by the names of atoms, then by age, so that printing is a walk.
 * 3. Division takes out what the divisor divides monomial by monomial; what
 *    remains is an atom unless its range is known.
 * 4. NULL means that the result has no form here: a coefficient left i64 or a
 *    limit of shape.h was passed.  It is a value like any other until the
 *    caller asks, so a formula is built without tests in between. */
#include "ir/shape_internal.h"

#include "runtime/base/num.h"

/* ---- order ------------------------------------------------------------ */

static int compare_u32(uint32_t a, uint32_t b) {
  return (a > b) - (a < b);
}

static int poly_compare(const ix_poly_t *a, const ix_poly_t *b);

/* Symbols first, then floors, remainders, min, max; age decides only between
 * symbols that share a name, and then no text can show the difference. */
int ix_atom_compare(const ix_atom_t *a, const ix_atom_t *b) {
  int order;
  if (a == b) return 0;
  if (a->kind != b->kind)
    return compare_u32((uint32_t)a->kind, (uint32_t)b->kind);
  if (a->kind == IX_ATOM_SYMBOL) {
    order = strcmp(a->symbol->name, b->symbol->name);
    return order ? order : compare_u32(a->symbol->id, b->symbol->id);
  }
  order = poly_compare(a->p, b->p);
  if (order == 0) order = poly_compare(a->q, b->q);
  return order ? order : compare_u32(a->id, b->id);
}

/* Factor by factor; of two with a common start the longer one is first, which
 * puts the constant term last. */
static int term_compare(const ix_term_t *a, const ix_term_t *b) {
  uint32_t n = a->atom_count < b->atom_count ? a->atom_count : b->atom_count;
  if (a->atoms == b->atoms && a->atom_count == b->atom_count) return 0;
  for (uint32_t i = 0; i < n; i++) {
    int order = ix_atom_compare(a->atoms[i], b->atoms[i]);
    if (order) return order;
  }
  return compare_u32(b->atom_count, a->atom_count);
}

/* Depth is capped by IX_MAX_DEPTH, as every recursion over polys. */
static int poly_compare(const ix_poly_t *a, const ix_poly_t *b) {
  uint32_t n = a->term_count < b->term_count ? a->term_count : b->term_count;
  if (a == b) return 0;
  for (uint32_t i = 0; i < n; i++) {
    int order = term_compare(&a->terms[i], &b->terms[i]);
    if (order) return order;
    if (a->terms[i].coefficient != b->terms[i].coefficient)
      return a->terms[i].coefficient < b->terms[i].coefficient ? -1 : 1;
  }
  return compare_u32(b->term_count, a->term_count);
}

/* ---- building --------------------------------------------------------- */

/* begin, any number of puts, finish: one poly at a time.  Nothing called in
 * between may build another one. */
static void begin(ix_pool_t *pool) {
  pool->terms.length = 0;
  pool->factors.length = 0;
  pool->overflow = false;
}

/* The factors stay where they are until finish: in an older poly, or in the
 * pool's scratch space. */
static void put(ix_pool_t *pool, int64_t coefficient,
                const ix_atom_t *const *atoms, uint32_t count) {
  ix_term_t term = {coefficient, count, atoms};
  if (coefficient == 0) return;
  if (count > IX_MAX_DEGREE) pool->overflow = true;
  td_vec_push(pool->arena, &pool->terms, term);
}

/* The product of two sorted factor lists, in scratch space that the caller
 * has reserved. */
static const ix_atom_t *const *
merge_factors(ix_pool_t *pool, const ix_term_t *a, const ix_term_t *b) {
  uint32_t i = 0, j = 0, n = 0;
  if (a->atom_count == 0) return b->atoms; /* nothing may be reserved */
  if (b->atom_count == 0) return a->atoms;
  const ix_atom_t **out = pool->factors.data + pool->factors.length;
  while (i < a->atom_count || j < b->atom_count) {
    bool first =
        j == b->atom_count ||
        (i < a->atom_count && ix_atom_compare(a->atoms[i], b->atoms[j]) <= 0);
    out[n++] = first ? a->atoms[i++] : b->atoms[j++];
  }
  pool->factors.length += n;
  return out;
}

/* Shell sort: the lists are short and mostly sorted already, and the order is
 * total up to terms that are combined next. */
static void sort_terms(ix_term_t *terms, size_t count) {
  static const size_t gaps[] = {1577, 701, 301, 132, 57, 23, 10, 4, 1};
  for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++) {
    size_t gap = gaps[g];
    for (size_t i = gap; i < count; i++) {
      ix_term_t moving = terms[i];
      size_t j = i;
      for (; j >= gap && term_compare(&terms[j - gap], &moving) > 0; j -= gap)
        terms[j] = terms[j - gap];
      terms[j] = moving;
    }
  }
}

/* Atoms are unique in the pool, so pointers decide. */
static bool same_terms(const ix_poly_t *p, const ix_term_t *terms,
                       size_t count) {
  if (p->term_count != count) return false;
  for (size_t i = 0; i < count; i++) {
    if (p->terms[i].coefficient != terms[i].coefficient ||
        p->terms[i].atom_count != terms[i].atom_count)
      return false;
    for (uint32_t k = 0; k < terms[i].atom_count; k++)
      if (p->terms[i].atoms[k] != terms[i].atoms[k]) return false;
  }
  return true;
}

/* Adds what is below a part to what is below the whole. */
static void summarize(ix_summary_t *sum, const ix_summary_t *part) {
  sum->has |= part->has;
  sum->names |= part->names;
  if (part->depth > sum->depth) sum->depth = part->depth;
  /* no overflow: every part is below IX_MAX_WEIGHT, the count is small */
  sum->weight += part->weight;
}

/* The unique poly with these sorted, combined, nonzero terms. */
static const ix_poly_t *intern(ix_pool_t *pool, const ix_term_t *terms,
                               size_t count) {
  uint64_t hash = td_hash_u64(count, 1);
  ix_summary_t below = {0, 0, 1, 0};
  const ix_poly_t *head;
  ix_poly_t *poly;
  ix_term_t *copy;
  if (count > IX_MAX_TERMS) return NULL;
  for (size_t i = 0; i < count; i++) {
    hash = td_hash_u64((uint64_t)terms[i].coefficient, hash);
    below.weight++;
    for (uint32_t k = 0; k < terms[i].atom_count; k++) {
      hash = td_hash_u64(terms[i].atoms[k]->id, hash);
      summarize(&below, &terms[i].atoms[k]->below);
    }
  }
  if (below.weight > IX_MAX_WEIGHT) return NULL;
  head = td_map_get_u64(&pool->polys, hash);
  for (const ix_poly_t *p = head; p; p = p->next)
    if (same_terms(p, terms, count)) return p;
  poly = TD_NEW(pool->arena, ix_poly_t);
  copy = TD_NEW_ARRAY(pool->arena, ix_term_t, count);
  for (size_t i = 0; i < count; i++) {
    uint32_t n = terms[i].atom_count;
    copy[i] = terms[i];
    if (n > 0) {
      const ix_atom_t **atoms = TD_NEW_ARRAY(pool->arena, const ix_atom_t *, n);
      memcpy(atoms, terms[i].atoms, n * sizeof *atoms);
      copy[i].atoms = atoms;
    }
  }
  poly->term_count = (uint32_t)count;
  poly->terms = copy;
  poly->hash = hash;
  poly->id = pool->poly_count++;
  poly->below = below;
  poly->next = head;
  td_map_put_u64(&pool->polys, hash, poly);
  return poly;
}

/* Equal monomials are neighbours after sorting; those that cancel vanish. */
static const ix_poly_t *finish(ix_pool_t *pool) {
  ix_term_t *terms = pool->terms.data;
  size_t n = 0;
  if (pool->overflow) return NULL;
  sort_terms(terms, pool->terms.length);
  for (size_t i = 0; i < pool->terms.length; i++) {
    if (n > 0 && term_compare(&terms[n - 1], &terms[i]) == 0) {
      if (!td_add_i64(terms[n - 1].coefficient, terms[i].coefficient,
                      &terms[n - 1].coefficient))
        return NULL;
      if (terms[n - 1].coefficient == 0) n--;
    } else {
      terms[n++] = terms[i];
    }
  }
  return intern(pool, terms, n);
}

/* ---- the pool --------------------------------------------------------- */

/* zero and one come first, so that their ids are the same in every pool. */
ix_pool_t *ix_pool_create(td_arena_t *arena) {
  ix_pool_t *pool = TD_NEW(arena, ix_pool_t);
  pool->arena = arena;
  td_map_init(&pool->polys, arena);
  td_map_init(&pool->atoms, arena);
  pool->zero = ix_const(pool, 0);
  pool->one = ix_const(pool, 1);
  return pool;
}

ix_symbol_t *ix_symbol_create(ix_pool_t *pool, const char *name,
                              ix_symbol_kind_t kind, td_loc_t loc) {
  ix_symbol_t *symbol = TD_NEW(pool->arena, ix_symbol_t);
  symbol->name = td_arena_strdup(pool->arena, name);
  symbol->kind = kind;
  symbol->id = (uint32_t)pool->symbols.length;
  symbol->loc = loc;
  if (kind == IX_SYM_STATIC) symbol->lo = pool->one;
  if (kind == IX_SYM_DYN || kind == IX_SYM_GENERIC) symbol->lo = pool->zero;
  td_vec_push(pool->arena, &pool->symbols, NULL);
  return symbol;
}

const ix_poly_t *ix_const(ix_pool_t *pool, int64_t value) {
  begin(pool);
  put(pool, value, NULL, 0);
  return finish(pool);
}

const ix_poly_t *ix_of_atom(ix_pool_t *pool, const ix_atom_t *atom) {
  return ix_monomial(pool, 1, &atom, 1);
}

/* The atom of a symbol is made when it is first used in a formula. */
const ix_poly_t *ix_sym(ix_pool_t *pool, const ix_symbol_t *symbol) {
  const ix_poly_t *poly = pool->symbols.data[symbol->id];
  ix_atom_t *atom;
  if (poly) return poly;
  atom = TD_NEW(pool->arena, ix_atom_t);
  atom->kind = IX_ATOM_SYMBOL;
  atom->id = pool->atom_count++;
  atom->symbol = symbol;
  atom->below.has = 1u << symbol->kind;
  atom->below.weight = 1;
  atom->below.names = (uint64_t)1 << (symbol->id % 64);
  poly = ix_of_atom(pool, atom);
  pool->symbols.data[symbol->id] = poly;
  return poly;
}

/* The unique atom of this kind and these operands, as a poly. */
static const ix_poly_t *of_operands(ix_pool_t *pool, ix_atom_kind_t kind,
                                    const ix_poly_t *p, const ix_poly_t *q) {
  static const uint32_t bits[] = {0, IX_HAS_FLOOR, IX_HAS_MOD, IX_HAS_CHOICE,
                                  IX_HAS_CHOICE};
  uint64_t hash = td_hash_u64(q->id, td_hash_u64(p->id, (uint64_t)kind));
  const ix_atom_t *head = td_map_get_u64(&pool->atoms, hash);
  ix_summary_t below = {bits[kind], 0, 1, 0};
  ix_atom_t *atom;
  for (const ix_atom_t *a = head; a; a = a->next)
    if (a->kind == kind && a->p == p && a->q == q) return ix_of_atom(pool, a);
  summarize(&below, &p->below);
  summarize(&below, &q->below);
  below.depth++;
  if (below.depth > IX_MAX_DEPTH || below.weight > IX_MAX_WEIGHT) return NULL;
  atom = TD_NEW(pool->arena, ix_atom_t);
  atom->kind = kind;
  atom->id = pool->atom_count++;
  atom->p = p;
  atom->q = q;
  atom->below = below;
  atom->next = head;
  td_map_put_u64(&pool->atoms, hash, atom);
  return ix_of_atom(pool, atom);
}

/* ---- arithmetic ------------------------------------------------------- */

const ix_poly_t *ix_monomial(ix_pool_t *pool, int64_t coefficient,
                             const ix_atom_t *const *atoms, size_t count) {
  begin(pool);
  put(pool, coefficient, atoms, (uint32_t)count);
  return finish(pool);
}

const ix_poly_t *ix_term_poly(ix_pool_t *pool, const ix_term_t *term,
                              size_t skip) {
  begin(pool);
  if (skip < term->atom_count) {
    td_vec_reserve(pool->arena, &pool->factors, term->atom_count);
    for (size_t k = 0; k < term->atom_count; k++)
      if (k != skip) td_vec_push(pool->arena, &pool->factors, term->atoms[k]);
    put(pool, term->coefficient, pool->factors.data, term->atom_count - 1);
  } else {
    put(pool, term->coefficient, term->atoms, term->atom_count);
  }
  return finish(pool);
}

/* Keeps the order of terms, as does every operation that only changes
 * coefficients; sorting what is sorted is one pass. */
const ix_poly_t *ix_scale(ix_pool_t *pool, const ix_poly_t *p, int64_t by) {
  if (!p) return NULL;
  begin(pool);
  for (uint32_t i = 0; i < p->term_count; i++) {
    const ix_term_t *t = &p->terms[i];
    int64_t c;
    if (!td_mul_i64(t->coefficient, by, &c)) return NULL;
    put(pool, c, t->atoms, t->atom_count);
  }
  return finish(pool);
}

const ix_poly_t *ix_neg(ix_pool_t *pool, const ix_poly_t *p) {
  return ix_scale(pool, p, -1);
}

/* The terms of both, side by side; finish combines them. */
const ix_poly_t *ix_add(ix_pool_t *pool, const ix_poly_t *a,
                        const ix_poly_t *b) {
  if (!a || !b) return NULL;
  if (a->term_count == 0) return b;
  if (b->term_count == 0) return a;
  begin(pool);
  for (uint32_t i = 0; i < a->term_count; i++)
    put(pool, a->terms[i].coefficient, a->terms[i].atoms,
        a->terms[i].atom_count);
  for (uint32_t i = 0; i < b->term_count; i++)
    put(pool, b->terms[i].coefficient, b->terms[i].atoms,
        b->terms[i].atom_count);
  return finish(pool);
}

const ix_poly_t *ix_sub(ix_pool_t *pool, const ix_poly_t *a,
                        const ix_poly_t *b) {
  if (!a || !b) return NULL;
  if (a == b) return pool->zero;
  begin(pool);
  for (uint32_t i = 0; i < a->term_count; i++)
    put(pool, a->terms[i].coefficient, a->terms[i].atoms,
        a->terms[i].atom_count);
  for (uint32_t i = 0; i < b->term_count; i++) {
    int64_t c;
    /* -INT64_MIN has no place, although a - b might */
    if (!td_sub_i64(0, b->terms[i].coefficient, &c)) return NULL;
    put(pool, c, b->terms[i].atoms, b->terms[i].atom_count);
  }
  return finish(pool);
}

/* Term by term.  Room for all factors is taken first, because the terms put
 * so far point into the scratch space. */
const ix_poly_t *ix_mul(ix_pool_t *pool, const ix_poly_t *a,
                        const ix_poly_t *b) {
  size_t room = 0;
  if (!a || !b) return NULL;
  if (a == pool->one) return b;
  if (b == pool->one) return a;
  if ((size_t)a->term_count * b->term_count > 4 * IX_MAX_TERMS) return NULL;
  begin(pool);
  for (uint32_t i = 0; i < a->term_count; i++)
    for (uint32_t j = 0; j < b->term_count; j++)
      room += a->terms[i].atom_count + b->terms[j].atom_count;
  td_vec_reserve(pool->arena, &pool->factors, room);
  for (uint32_t i = 0; i < a->term_count; i++) {
    for (uint32_t j = 0; j < b->term_count; j++) {
      const ix_term_t *s = &a->terms[i], *t = &b->terms[j];
      int64_t c;
      if (!td_mul_i64(s->coefficient, t->coefficient, &c)) return NULL;
      put(pool, c, merge_factors(pool, s, t), s->atom_count + t->atom_count);
    }
  }
  return finish(pool);
}

/* min and max share everything but the side a constant difference picks. */
static const ix_poly_t *choice(ix_pool_t *pool, ix_atom_kind_t kind,
                               const ix_poly_t *a, const ix_poly_t *b) {
  const ix_poly_t *d = ix_sub(pool, a, b);
  int64_t value;
  if (!a || !b) return NULL;
  if (ix_is_const(d, &value))
    return (value <= 0) == (kind == IX_ATOM_MIN) ? a : b;
  if (poly_compare(a, b) > 0) return of_operands(pool, kind, b, a);
  return of_operands(pool, kind, a, b);
}

const ix_poly_t *ix_min(ix_pool_t *pool, const ix_poly_t *a,
                        const ix_poly_t *b) {
  return choice(pool, IX_ATOM_MIN, a, b);
}

const ix_poly_t *ix_max(ix_pool_t *pool, const ix_poly_t *a,
                        const ix_poly_t *b) {
  return choice(pool, IX_ATOM_MAX, a, b);
}

/* ---- floor division --------------------------------------------------- */

/* Writes the factors of t that are left after those of m are taken out to
 * scratch space; false if m does not divide t. */
static bool factor_out(ix_pool_t *pool, const ix_term_t *t, const ix_term_t *m,
                       const ix_atom_t *const **out) {
  const ix_atom_t **rest = pool->factors.data + pool->factors.length;
  uint32_t j = 0, n = 0;
  for (uint32_t i = 0; i < t->atom_count; i++) {
    if (j < m->atom_count && t->atoms[i] == m->atoms[j]) j++;
    else
      rest[n++] = t->atoms[i];
  }
  if (j < m->atom_count) return false;
  pool->factors.length += n;
  *out = rest;
  return true;
}

/* p = k * q for an integer k: all that a divisor of several terms divides. */
static bool is_multiple(const ix_poly_t *p, const ix_poly_t *q, int64_t *out) {
  int64_t k, c;
  *out = 1;
  if (p == q) return true;
  if (p->term_count != q->term_count) return false;
  c = q->terms[0].coefficient;
  if (c == -1 || p->terms[0].coefficient % c != 0) return false;
  k = p->terms[0].coefficient / c;
  for (uint32_t i = 0; i < p->term_count; i++)
    if (term_compare(&p->terms[i], &q->terms[i]) != 0 ||
        !td_mul_i64(k, q->terms[i].coefficient, &c) ||
        c != p->terms[i].coefficient)
      return false;
  *out = k;
  return true;
}

/* p = quotient * q + rest, rest without what q divides. One of the two is
 * built at a time, because there is one scratch space. */
static const ix_poly_t *split_off(ix_pool_t *pool, const ix_poly_t *p,
                                  const ix_poly_t *q, bool want_rest) {
  const ix_term_t *m = q->terms;
  int64_t k;
  if (q->term_count != 1) {
    if (is_multiple(p, q, &k))
      return want_rest ? pool->zero : ix_const(pool, k);
    return want_rest ? p : pool->zero;
  }
  begin(pool);
  td_vec_reserve(pool->arena, &pool->factors,
                 (size_t)p->term_count * (IX_MAX_DEGREE + 1));
  for (uint32_t i = 0; i < p->term_count; i++) {
    const ix_term_t *t = &p->terms[i];
    const ix_atom_t *const *left = t->atoms;
    int64_t c = m->coefficient;
    if (!factor_out(pool, t, m, &left)) {
      if (want_rest) put(pool, t->coefficient, t->atoms, t->atom_count);
    } else if (c == -1 && t->coefficient == INT64_MIN) {
      return NULL;
    } else {
      /* floor towards minus infinity, whichever sign the divisor has */
      int64_t whole = t->coefficient / c, over = t->coefficient % c;
      if (over != 0 && (over < 0) != (c < 0)) {
        whole--;
        over += c;
      }
      if (want_rest) put(pool, over, t->atoms, t->atom_count);
      else
        put(pool, whole, left, t->atom_count - m->atom_count);
    }
  }
  return finish(pool);
}

/* 0 <= r <= q - 1 */
static bool is_reduced(ix_proof_t *proof, const ix_poly_t *r,
                       const ix_poly_t *q) {
  const ix_poly_t *top = ix_sub(proof->pool, q, proof->pool->one);
  return ix_proof_nonnegative(proof, r) &&
         ix_proof_nonnegative(proof, ix_sub(proof->pool, top, r));
}

/* What both operations begin with; false: the result is NULL. */
static bool division(ix_proof_t *proof, const ix_poly_t *p, const ix_poly_t *q,
                     const ix_poly_t **out_rest) {
  int64_t number;
  if (!p || !q) return false;
  if (ix_is_const(q, &number) && number <= 0) return false;
  *out_rest = split_off(proof->pool, p, q, true);
  return *out_rest != NULL;
}

/* whole + floor(r/q), the floor as a number where it is known.  Only r, never
 * p, reaches an atom: (N + 5) / 2 is (N + 1) / 2 + 2, so that forms which
 * differ by whole divisors share the atom. */
const ix_poly_t *ix_divide(ix_proof_t *proof, const ix_poly_t *p,
                           const ix_poly_t *q) {
  ix_pool_t *pool = proof->pool;
  const ix_poly_t *whole, *r;
  int64_t number;
  if (!division(proof, p, q, &r)) return NULL;
  whole = split_off(pool, p, q, false);
  if (r == pool->zero || is_reduced(proof, r, q)) return whole;
  if (ix_is_const(r, &number) && number < 0 &&
      ix_proof_nonnegative(proof, ix_add(pool, q, r)))
    return ix_sub(pool, whole, pool->one);
  return ix_add(pool, whole, of_operands(pool, IX_ATOM_FLOOR, r, q));
}

const ix_poly_t *ix_modulo(ix_proof_t *proof, const ix_poly_t *p,
                           const ix_poly_t *q) {
  const ix_poly_t *r;
  if (!division(proof, p, q, &r)) return NULL;
  if (r == proof->pool->zero || is_reduced(proof, r, q)) return r;
  return of_operands(proof->pool, IX_ATOM_MOD, r, q);
}

const ix_poly_t *ix_div(ix_pool_t *pool, const ix_poly_t *p, const ix_poly_t *q,
                        const ix_facts_t *facts) {
  ix_proof_t proof = ix_proof_start(pool, facts);
  return ix_divide(&proof, ix_apply_facts(pool, p, facts),
                   ix_apply_facts(pool, q, facts));
}

const ix_poly_t *ix_mod(ix_pool_t *pool, const ix_poly_t *p, const ix_poly_t *q,
                        const ix_facts_t *facts) {
  ix_proof_t proof = ix_proof_start(pool, facts);
  return ix_modulo(&proof, ix_apply_facts(pool, p, facts),
                   ix_apply_facts(pool, q, facts));
}
