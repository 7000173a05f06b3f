/* Are the elements that a statement updates distinct? (language.md 5.2)
 *
 * An index is determined if the subscripts' values give its value.  Rules are
 * applied until none adds anything:
 * 1. a range of one value;
 * 2. a subscript c*i + r, c not zero and r known;
 * 3. c*X + k*j + r with r known, X a whole number and k*j covering less than
 *    one step of c: j (and then X, by rule 2 or by this one again);
 * 4. known e/q and e%q give e, which is then one more subscript.
 * Data read with determined indices is known. */
#include "ir/shape_internal.h"

enum { INDICES_MAX = 32, SUBSCRIPTS_MAX = 32 };

/* Subscripts grow by what rule 4 adds; the first ones are the statement's. */
typedef struct work {
  ix_pool_t *pool;
  const ix_facts_t *facts;
  const ix_poly_t *subscripts[SUBSCRIPTS_MAX];
  size_t subscript_count;
  const ix_symbol_t *const *indices;
  size_t index_count;
  bool is_determined[INDICES_MAX];
  const ix_read_t *reads;
  size_t read_count;
} work_t;

/* index_count if s is no index of the statement. */
static size_t place_of(const work_t *w, const ix_symbol_t *s) {
  size_t i = 0;
  while (i < w->index_count && w->indices[i] != s) i++;
  return i;
}

static const ix_read_t *read_of(const work_t *w, const ix_symbol_t *s) {
  for (size_t i = 0; i < w->read_count; i++)
    if (w->reads[i].data == s) return &w->reads[i];
  return NULL;
}

/* Dims, scalars and loop variables are one value for all tuples. */
static bool is_known_symbol(void *user, const ix_symbol_t *s) {
  const work_t *w = user;
  size_t i = place_of(w, s);
  const ix_read_t *read = read_of(w, s);
  if (i < w->index_count) return w->is_determined[i];
  for (size_t k = 0; read && k < read->index_count; k++) {
    i = place_of(w, read->indices[k]);
    if (i < w->index_count && !w->is_determined[i]) return false;
  }
  return true;
}

/* The value of p follows from what is determined. */
static bool is_known(work_t *w, const ix_poly_t *p) {
  return p && ix_each_symbol(p, is_known_symbol, w);
}

/* |c| as a poly, for a coefficient of numbers and dims that is never zero. */
static const ix_poly_t *magnitude(work_t *w, const ix_poly_t *c) {
  const ix_poly_t *n = ix_neg(w->pool, c);
  if (!c || (c->below.has & IX_HAS_VARYING)) return NULL;
  if (ix_prove_positive(w->pool, c, w->facts)) return c;
  return ix_prove_positive(w->pool, n, w->facts) ? n : NULL;
}

/* NULL, hence nothing proved, if an end is unknown. */
static const ix_poly_t *extent_of(work_t *w, const ix_symbol_t *s) {
  return ix_sub(w->pool, ix_symbol_hi(s, w->facts), ix_symbol_lo(s, w->facts));
}

/* Rule 3 for index j in p: rest is p without j, k its coefficient. */
static bool is_low_digit(work_t *w, size_t j, const ix_poly_t *k,
                         const ix_poly_t *rest) {
  ix_pool_t *pool = w->pool;
  const ix_poly_t *steps[INDICES_MAX], *reach;
  size_t count = 0;
  k = magnitude(w, k);
  for (size_t i = 0; i < w->index_count; i++) {
    const ix_poly_t *c, *r;
    if (i == j || w->is_determined[i] || !ix_mentions(rest, w->indices[i]))
      continue;
    if (!ix_split_linear(pool, rest, w->indices[i], &c, &r)) return false;
    steps[count] = magnitude(w, c);
    if (!steps[count++]) return false;
    rest = r;
  }
  if (!k || count == 0 || !is_known(w, rest)) return false;
  reach = ix_mul(pool, k, ix_sub(pool, extent_of(w, w->indices[j]), pool->one));
  for (size_t i = 0; i < count; i++) {
    bool divides = true;
    for (size_t n = 0; n < count && divides; n++)
      divides = ix_mod(pool, steps[n], steps[i], w->facts) == pool->zero;
    if (divides &&
        ix_prove_positive(pool, ix_sub(pool, steps[i], reach), w->facts))
      return true;
  }
  return false;
}

/* Rules 2 and 3 for one subscript. */
static bool read_subscript(work_t *w, const ix_poly_t *p) {
  bool progress = false;
  for (size_t i = 0; i < w->index_count; i++) {
    const ix_poly_t *c, *rest;
    if (w->is_determined[i] || !ix_mentions(p, w->indices[i]) ||
        !ix_split_linear(w->pool, p, w->indices[i], &c, &rest))
      continue;
    if (is_known(w, rest) ? magnitude(w, c) != NULL
                          : is_low_digit(w, i, c, rest))
      w->is_determined[i] = progress = true;
  }
  return progress;
}

/* Some subscript is c * atom + r with c never zero and r known. */
static bool is_atom_known(work_t *w, const ix_atom_t *atom) {
  ix_pool_t *pool = w->pool;
  for (size_t n = 0; n < w->subscript_count; n++) {
    const ix_poly_t *p = w->subscripts[n], *c = pool->zero, *rest = p;
    for (uint32_t i = 0; i < p->term_count; i++) {
      const ix_term_t *t = &p->terms[i];
      for (uint32_t k = 0; k < t->atom_count; k++) {
        if (t->atoms[k] != atom) continue;
        c = ix_add(pool, c, ix_term_poly(pool, t, k));
        rest = ix_sub(pool, rest, ix_term_poly(pool, t, t->atom_count));
        break;
      }
    }
    if (c && c != pool->zero && is_known(w, rest) && magnitude(w, c))
      return true;
  }
  return false;
}

/* Rule 4 for a remainder: e % q known, and e / q as well. */
static bool read_remainder(work_t *w, const ix_atom_t *mod) {
  bool paired = false;
  if (mod->kind != IX_ATOM_MOD || !is_known(w, mod->q) ||
      w->subscript_count == SUBSCRIPTS_MAX || !is_atom_known(w, mod))
    return false;
  for (size_t n = 0; n < w->subscript_count; n++)
    if (w->subscripts[n] == mod->p) return false; /* done before */
  for (size_t n = 0; n < w->subscript_count && !paired; n++) {
    const ix_poly_t *p = w->subscripts[n];
    for (uint32_t i = 0; i < p->term_count && !paired; i++)
      for (uint32_t k = 0; k < p->terms[i].atom_count && !paired; k++) {
        const ix_atom_t *a = p->terms[i].atoms[k];
        paired = a->kind == IX_ATOM_FLOOR && a->p == mod->p && a->q == mod->q &&
                 is_atom_known(w, a);
      }
  }
  if (paired) w->subscripts[w->subscript_count++] = mod->p;
  return paired;
}

/* One round of the rules over everything; true if it added something. */
static bool read_all(work_t *w) {
  bool progress = false;
  for (size_t i = 0; i < w->index_count; i++) {
    const ix_poly_t *extent = extent_of(w, w->indices[i]);
    if (w->is_determined[i] || !extent) continue;
    if (ix_prove_nonnegative(w->pool, ix_sub(w->pool, w->pool->one, extent),
                             w->facts))
      w->is_determined[i] = progress = true;
  }
  for (size_t n = 0; n < w->subscript_count; n++) {
    const ix_poly_t *p = w->subscripts[n];
    if (read_subscript(w, p)) progress = true;
    for (uint32_t i = 0; i < p->term_count; i++)
      for (uint32_t k = 0; k < p->terms[i].atom_count; k++)
        if (read_remainder(w, p->terms[i].atoms[k])) progress = true;
  }
  return progress;
}

/* Index i occurs in no subscript, or only under one / or %. */
static bool writes_same(work_t *w, const ix_poly_t *const *subscripts,
                        size_t count, size_t i) {
  const ix_symbol_t *s = w->indices[i];
  const ix_atom_t *under = NULL;
  for (size_t n = 0; n < count; n++) {
    const ix_poly_t *p = subscripts[n];
    for (size_t k = 0; k < w->read_count; k++)
      for (size_t j = 0; j < w->reads[k].index_count; j++)
        if (w->reads[k].indices[j] == s && ix_mentions(p, w->reads[k].data))
          return false;
    for (uint32_t m = 0; m < p->term_count; m++)
      for (uint32_t k = 0; k < p->terms[m].atom_count; k++) {
        const ix_atom_t *a = p->terms[m].atoms[k];
        if (a->symbol == s) return false;
        if (a->kind == IX_ATOM_SYMBOL || a == under ||
            (!ix_mentions(a->p, s) && !ix_mentions(a->q, s)))
          continue;
        if (under || (a->kind != IX_ATOM_FLOOR && a->kind != IX_ATOM_MOD))
          return false;
        under = a;
      }
  }
  if (under) {
    /* M*i / q may still differ for every i, whatever M is */
    const ix_poly_t *c, *rest;
    int64_t number;
    if (ix_mentions(under->q, s)) return false;
    return !ix_split_linear(w->pool, under->p, s, &c, &rest) ||
           ix_is_const(c, &number);
  }
  return true;
}

ix_distinct_t
ix_prove_distinct(ix_pool_t *pool, const ix_poly_t *const *subscripts,
                  size_t subscript_count, const ix_symbol_t *const *indices,
                  size_t index_count, const ix_read_t *reads, size_t read_count,
                  const ix_facts_t *facts, const ix_symbol_t **out_index) {
  work_t w = {.pool = pool,
              .facts = facts,
              .indices = indices,
              .index_count = index_count,
              .reads = reads,
              .read_count = read_count};
  ix_distinct_t answer = IX_DISTINCT_PROVED;
  const ix_symbol_t *culprit = NULL;
  if (index_count > INDICES_MAX || subscript_count > SUBSCRIPTS_MAX) {
    if (out_index) *out_index = indices[0];
    return IX_DISTINCT_UNKNOWN;
  }
  for (size_t n = 0; n < subscript_count; n++) {
    /* a subscript without a normal form says nothing, but hides an index */
    const ix_poly_t *p = ix_apply_facts(pool, subscripts[n], facts);
    if (p) w.subscripts[w.subscript_count++] = p;
    else
      answer = IX_DISTINCT_UNKNOWN;
  }
  while (read_all(&w)) {}
  for (size_t i = 0; i < index_count; i++) {
    bool is_same;
    if (w.is_determined[i]) continue;
    is_same = answer != IX_DISTINCT_SAME &&
              w.subscript_count >= subscript_count &&
              writes_same(&w, w.subscripts, subscript_count, i);
    if (is_same || !culprit) culprit = indices[i];
    if (is_same) answer = IX_DISTINCT_SAME;
    else if (answer == IX_DISTINCT_PROVED)
      answer = IX_DISTINCT_UNKNOWN;
  }
  if (!culprit) answer = IX_DISTINCT_PROVED;
  if (out_index) *out_index = culprit;
  return answer;
}
