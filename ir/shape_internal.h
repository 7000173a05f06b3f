/* shape_internal.h: what the files behind shape.h share (shape.c shape_use.c
 * facts.c prove.c prove_facts.c witness.c
 * distinct.c).  Nobody else includes it. */
#ifndef TDSL_IR_SHAPE_INTERNAL_H
#define TDSL_IR_SHAPE_INTERNAL_H

#include "ir/shape.h"
#include "runtime/base/map.h"
#include "runtime/base/vec.h"

enum { IX_MAX_RAISED = 8 };

struct ix_pool {
  td_arena_t *arena;
  td_map_t polys, atoms;             /* hash -> chain through `next` */
  TD_VEC(const ix_poly_t *) symbols; /* by symbol id; NULL until asked for */
  uint32_t poly_count, atom_count;
  const ix_poly_t *zero, *one;
  /* The poly being built: terms in any order, and the factors of those that
   * are not shared with an older poly. Reused by every operation. */
  TD_VEC(ix_term_t) terms;
  TD_VEC(const ix_atom_t *) factors;
  bool overflow;
  struct ix_table *table; /* of prove.c, made when first needed */
  const ix_symbol_t *rests[IX_MAX_RAISED]; /* symbols d' >= 0, see prove.c */
};

typedef enum ix_fact_kind {
  IX_FACT_NONNEGATIVE, /* a >= 0 */
  IX_FACT_RANGE,       /* a <= symbol < b, either NULL */
  IX_FACT_EQUAL,       /* symbol == a, replaced everywhere */
} ix_fact_kind_t;

typedef struct ix_fact {
  ix_fact_kind_t kind;
  const ix_symbol_t *symbol;
  const ix_poly_t *a, *b;
} ix_fact_t;

/* A log: scopes are marks in it, later ranges of a symbol win. */
struct ix_facts {
  ix_pool_t *pool;
  TD_VEC(ix_fact_t) log;
  size_t equal_count;
  uint32_t nesting; /* of ranges being narrowed, see facts.c */
};

/* One run of the procedure.  Work is counted so that no input is slow: when
 * the budget is spent, everything further counts as unproved.  Level 0 may
 * subtract facts; proofs that serve another proof (a factor's sign, the rest
 * of a division) are at a higher level and stay within steps 1 to 4. */
typedef struct ix_proof {
  ix_pool_t *pool;
  const ix_facts_t *facts;
  int32_t budget;
  uint32_t level;
} ix_proof_t;

enum {
  IX_PROOF_BUDGET = 20000,    /* of one proof; what succeeds takes hundreds */
  IX_REBUILD_BUDGET = 160000, /* of all proofs for the floors of one poly */
  IX_PROOF_LEVELS = 16,
};

static inline ix_proof_t ix_proof_start(ix_pool_t *pool,
                                        const ix_facts_t *facts) {
  ix_proof_t proof = {pool, facts, IX_PROOF_BUDGET, 0};
  return proof;
}

/* Takes work from the budget; false when it is spent. */
static inline bool ix_spend(ix_proof_t *proof, int32_t work) {
  if (proof->budget > 0) proof->budget -= work;
  return proof->budget > 0;
}

/* ---- shape.c */
/* Total order of atoms, by kind and name, then age. */
int ix_atom_compare(const ix_atom_t *a, const ix_atom_t *b);
const ix_poly_t *ix_of_atom(ix_pool_t *pool, const ix_atom_t *atom);
/* coefficient * product of atoms. */
const ix_poly_t *ix_monomial(ix_pool_t *pool, int64_t coefficient,
                             const ix_atom_t *const *atoms, size_t count);
/* A term of p on its own, without the factor at `skip` (count: keep all). */
const ix_poly_t *ix_term_poly(ix_pool_t *pool, const ix_term_t *term,
                              size_t skip);
const ix_poly_t *ix_scale(ix_pool_t *pool, const ix_poly_t *p, int64_t by);
const ix_poly_t *ix_divide(ix_proof_t *, const ix_poly_t *, const ix_poly_t *);
const ix_poly_t *ix_modulo(ix_proof_t *, const ix_poly_t *, const ix_poly_t *);
/* p with atoms replaced at any depth: map gives a poly, or NULL to keep the
 * atom and look inside it. */
typedef const ix_poly_t *(*ix_atom_map_fn)(void *user, const ix_atom_t *atom);
const ix_poly_t *ix_rebuild(ix_proof_t *proof, const ix_poly_t *p,
                            ix_atom_map_fn map, void *user);
/* Is s among the names that may occur below? (quick, may err towards yes) */
static inline bool ix_may_mention(const ix_summary_t *below,
                                  const ix_symbol_t *s) {
  return (below->names >> (s->id % 64) & 1) != 0;
}

/* ---- facts.c */
/* The equalities in force, with exact divisions only: starts no proof. */
const ix_poly_t *ix_apply_exact(const ix_facts_t *facts, const ix_poly_t *p);
/* p is k * atom + c with k > 0: as a fact it says atom >= *out_least. */
bool ix_is_bound(const ix_poly_t *p, const ix_atom_t **out_atom,
                 int64_t *out_least);

/* ---- prove.c */
/* Steps 1 to 4. */
bool ix_prove_ranged(ix_proof_t *proof, const ix_poly_t *p);
/* The first min or max, those that are factors of p before those inside. */
const ix_atom_t *ix_first_choice(const ix_poly_t *p);
/* p for the two values x may have; true if proving one of them is enough. */
bool ix_split_choice(ix_proof_t *proof, const ix_poly_t *p, const ix_atom_t *x,
                     const ix_poly_t *out_cases[2]);
/* p with varying atoms replaced by the end of their range that makes it least
 * (greatest), monomial by monomial; NULL if an end is missing. */
const ix_poly_t *ix_least(ix_proof_t *proof, const ix_poly_t *p);
const ix_poly_t *ix_greatest(ix_proof_t *proof, const ix_poly_t *p);
bool ix_atom_nonnegative(ix_proof_t *proof, const ix_atom_t *atom);

/* ---- prove_facts.c */
/* At level 0 the whole procedure, above it steps 1 to 4. */
bool ix_proof_nonnegative(ix_proof_t *proof, const ix_poly_t *p);

/* ---- witness.c */
enum { IX_WITNESS_SYMBOLS = 64, IX_WITNESS_POINTS = 14 };

/* Assignments within the ranges, and within the facts about dims.  A poly that
 * steps 1 to 4 can prove is >= 0 at all of them, so a negative value spares
 * the attempt.  It changes no answer. */
typedef struct ix_witness {
  const ix_symbol_t *symbols[IX_WITNESS_SYMBOLS];
  size_t symbol_count;
  const ix_poly_t *lo[IX_WITNESS_SYMBOLS], *hi[IX_WITNESS_SYMBOLS];
  int64_t values[IX_WITNESS_POINTS][IX_WITNESS_SYMBOLS];
  bool is_known[IX_WITNESS_SYMBOLS]; /* at the point being made */
  bool is_valid[IX_WITNESS_POINTS];
  bool is_full[IX_WITNESS_POINTS]; /* satisfies every fact */
} ix_witness_t;

void ix_witness_make(ix_witness_t *w, ix_proof_t *proof, const ix_poly_t *p,
                     const ix_poly_t *const *facts, size_t fact_count);
bool ix_witness_eval(const ix_witness_t *w, size_t point, const ix_poly_t *p,
                     int64_t *out);

#endif
