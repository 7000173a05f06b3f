/* The rest of the proof of p >= 0 (language.md 8.3): facts.
 *
 * 5. What ranges do not prove is tried less up to three facts in force, each
 *    once: `require` inequalities, guards, bounds of dims.
 *
 * Sets of facts that an assignment refutes are skipped (witness.c), and so is
 * everything if one refutes p itself; that changes no answer. */
#include "ir/shape_internal.h"

static const int64_t dim_max = 2147483647; /* L01 */

enum {
  FACTS_MAX = 96, /* facts that step 5 combines */
  SPLITS_MAX = 6, /* nested min and max whose cases get facts of their own */
};

/* In a fixed order, each fact once. What does not fit is not used. */
typedef struct fact_list {
  const ix_poly_t *facts[FACTS_MAX];
  size_t count;
} fact_list_t;

static void list_fact(fact_list_t *list, const ix_poly_t *fact) {
  if (!fact || list->count == FACTS_MAX) return;
  for (size_t i = 0; i < list->count; i++)
    if (list->facts[i] == fact) return;
  list->facts[list->count++] = fact;
}

typedef struct symbol_list {
  const ix_symbol_t *symbols[IX_WITNESS_SYMBOLS];
  size_t count;
} symbol_list_t;

static bool list_symbol(void *user, const ix_symbol_t *s) {
  symbol_list_t *list = user;
  bool is_new = list->count < IX_WITNESS_SYMBOLS;
  for (size_t i = 0; i < list->count; i++)
    if (list->symbols[i] == s) is_new = false;
  if (is_new) list->symbols[list->count++] = s;
  return true;
}

/* Facts of the log, then the bounds of all dims that occur: in p, in a fact,
 * or in the range of something that does. */
static void list_facts(ix_proof_t *proof, const ix_poly_t *p,
                       fact_list_t *list) {
  const ix_facts_t *facts = proof->facts;
  ix_pool_t *pool = proof->pool;
  symbol_list_t found = {{NULL}, 0};
  list->count = 0;
  for (size_t i = 0; facts && i < facts->log.length; i++)
    if (facts->log.data[i].kind == IX_FACT_NONNEGATIVE)
      list_fact(list, ix_apply_exact(facts, facts->log.data[i].a));
  ix_each_symbol(p, list_symbol, &found);
  for (size_t i = 0; i < list->count; i++)
    ix_each_symbol(list->facts[i], list_symbol, &found);
  for (size_t i = 0; i < found.count; i++) {
    const ix_symbol_t *s = found.symbols[i];
    const ix_poly_t *lo = ix_symbol_lo(s, facts), *hi = ix_symbol_hi(s, facts);
    const ix_poly_t *d = ix_sym(pool, s);
    ix_each_symbol(lo, list_symbol, &found);
    ix_each_symbol(hi, list_symbol, &found);
    if (d->below.has & IX_HAS_VARYING) continue; /* step 2 uses its range */
    if (hi) list_fact(list, ix_sub(pool, ix_sub(pool, hi, pool->one), d));
    list_fact(list, ix_sub(pool, ix_const(pool, dim_max), d));
  }
}

/* Values of p and of every fact at the points of the witness.  It is large,
 * so the pool keeps it; only a proof at level 0 uses it, and those do not
 * nest. */
typedef struct ix_table {
  fact_list_t list;
  ix_witness_t witness;
  int64_t of_p[IX_WITNESS_POINTS];
  int64_t of_fact[FACTS_MAX][IX_WITNESS_POINTS];
} table_t;

/* Sums stay exact: values beyond this are not used. */
static bool eval_small(const table_t *table, size_t point, const ix_poly_t *p,
                       int64_t *out) {
  const int64_t limit = (int64_t)1 << 58;
  bool ok = ix_witness_eval(&table->witness, point, p, out) && *out > -limit &&
            *out < limit;
  if (!ok) *out = 0;
  return ok;
}

/* True if a point shows that p does not follow from the facts. */
static bool fill_table(ix_proof_t *proof, table_t *table, const ix_poly_t *p) {
  list_facts(proof, p, &table->list);
  ix_witness_make(&table->witness, proof, p, table->list.facts,
                  table->list.count);
  for (size_t k = 0; k < IX_WITNESS_POINTS; k++) {
    bool valid = table->witness.is_valid[k];
    valid = valid && eval_small(table, k, p, &table->of_p[k]);
    if (valid && table->witness.is_full[k] && table->of_p[k] < 0) return true;
    for (size_t i = 0; i < table->list.count; i++)
      valid = valid &&
              eval_small(table, k, table->list.facts[i], &table->of_fact[i][k]);
    table->witness.is_valid[k] = valid;
  }
  return false;
}

/* Tries p less the chosen facts and `more` others, in order. */
static bool subtract(ix_proof_t *proof, const table_t *table,
                     const ix_poly_t *p, size_t chosen[3], size_t count,
                     size_t more) {
  size_t first = count ? chosen[count - 1] + 1 : 0;
  for (size_t i = first; i < table->list.count; i++) {
    bool refuted = false;
    const ix_poly_t *less = p;
    chosen[count] = i;
    if (proof->budget <= 0) return false;
    if (more > 1) {
      if (subtract(proof, table, p, chosen, count + 1, more - 1)) return true;
      continue;
    }
    for (size_t k = 0; k < IX_WITNESS_POINTS && !refuted; k++) {
      int64_t value = table->of_p[k];
      if (!table->witness.is_valid[k]) continue;
      for (size_t j = 0; j <= count; j++) value -= table->of_fact[chosen[j]][k];
      refuted = value < 0;
    }
    if (refuted) continue;
    for (size_t j = 0; j <= count; j++)
      less = ix_sub(proof->pool, less, table->list.facts[chosen[j]]);
    if (ix_prove_ranged(proof, less)) return true;
  }
  return false;
}

/* One fact, then two, then three: the fewest that do are found first. */
static bool prove_by_facts(ix_proof_t *proof, const ix_poly_t *p,
                           bool *out_refuted) {
  size_t chosen[3];
  if (!proof->pool->table)
    proof->pool->table = TD_NEW(proof->pool->arena, table_t);
  *out_refuted = fill_table(proof, proof->pool->table, p);
  if (*out_refuted) return false;
  for (size_t count = 1; count <= 3; count++)
    if (subtract(proof, proof->pool->table, p, chosen, 0, count)) return true;
  return false;
}

/* All steps.  Where one set of facts does not serve both cases of a min or
 * max, each case gets its own. */
static bool prove_all(ix_proof_t *proof, const ix_poly_t *p, unsigned splits) {
  const ix_poly_t *cases[2];
  const ix_atom_t *x;
  bool refuted = false, one_is_enough, first;
  if (!p) return false;
  if (ix_prove_ranged(proof, p)) return true;
  if (prove_by_facts(proof, p, &refuted)) return true;
  x = ix_first_choice(p);
  if (refuted || !x || splits == SPLITS_MAX || proof->budget <= 0) return false;
  one_is_enough = ix_split_choice(proof, p, x, cases);
  first = prove_all(proof, cases[0], splits + 1);
  return first == one_is_enough ? first
                                : prove_all(proof, cases[1], splits + 1);
}

bool ix_proof_nonnegative(ix_proof_t *proof, const ix_poly_t *p) {
  int32_t rest = 0; /* of the budget, beyond what one proof may use */
  int64_t value;
  bool proved;
  if (!p) return false;
  if (ix_is_const(p, &value)) return value >= 0;
  if (proof->level > 0) return ix_prove_ranged(proof, p);
  if (proof->budget > IX_PROOF_BUDGET) rest = proof->budget - IX_PROOF_BUDGET;
  proof->budget -= rest;
  proof->level = 1;
  proved = prove_all(proof, p, 0);
  proof->level = 0;
  proof->budget += rest;
  return proved;
}

/* ---- questions from outside ------------------------------------------- */

bool ix_prove_nonnegative(ix_pool_t *pool, const ix_poly_t *p,
                          const ix_facts_t *facts) {
  ix_proof_t proof = ix_proof_start(pool, facts);
  return ix_proof_nonnegative(&proof, ix_apply_facts(pool, p, facts));
}

bool ix_prove_positive(ix_pool_t *pool, const ix_poly_t *p,
                       const ix_facts_t *facts) {
  return ix_prove_nonnegative(pool, ix_sub(pool, p, pool->one), facts);
}

/* Ranges only, as for the ends inside a proof. */
void ix_ends(ix_pool_t *pool, const ix_poly_t *p, const ix_facts_t *facts,
             const ix_poly_t **out_lo, const ix_poly_t **out_hi) {
  ix_proof_t proof = ix_proof_start(pool, facts);
  proof.level = 1;
  p = ix_apply_facts(pool, p, facts);
  *out_lo = p ? ix_least(&proof, p) : NULL;
  *out_hi = p ? ix_add(pool, ix_greatest(&proof, p), pool->one) : NULL;
}
