/* shape.h: dims and index expressions as interned polynomials.
 *
 * A dim is a polynomial with integer coefficients over atoms, kept as a sorted
 * list of monomials (docs/language.md, dim expressions).  The same form
 * serves subscripts: an atom is then an index, a loop variable or an opaque
 * integer read from data.  Polynomials are hash-consed: two of one pool are
 * equal iff their pointers are equal.  A pool and all it holds live in one
 * arena and are dropped with it.  Not thread safe: one pool per compile.
 *
 * Everything printed from here is sorted by the names of atoms, never by
 * address or time of creation. */
#ifndef TDSL_IR_SHAPE_H
#define TDSL_IR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/arena.h"
#include "runtime/base/diag.h"
#include "runtime/base/str.h"

typedef struct ix_pool ix_pool_t;
typedef struct ix_poly ix_poly_t;
typedef struct ix_atom ix_atom_t;
typedef struct ix_symbol ix_symbol_t;

enum { IX_MAX_RANK = 12 };

/* What a symbol stands for; decides its default lower bound. */
typedef enum ix_symbol_kind {
  IX_SYM_STATIC,  /* static dim: >= 1, <= 2^31-1                         */
  IX_SYM_DYN,     /* dynamic dim: >= 0, <= bound                         */
  IX_SYM_GENERIC, /* generic dim of a function: >= 0                     */
  IX_SYM_INDEX,   /* iteration index of a statement or reduction         */
  IX_SYM_LOOP,    /* variable of a `for`                                 */
  IX_SYM_DATA,    /* an integer read from memory, or a scalar parameter  */
} ix_symbol_kind_t;

/* A named unknown.  Identity is the pointer; `id` orders symbols of equal
 * name.  The range is lo <= s < hi where known (NULL: no bound). */
struct ix_symbol {
  const char *name;
  ix_symbol_kind_t kind;
  uint32_t id;
  const ix_poly_t *lo;
  const ix_poly_t *hi;
  td_loc_t loc; /* declaration */
};

typedef enum ix_atom_kind {
  IX_ATOM_SYMBOL,
  IX_ATOM_FLOOR, /* floor(p / q), q > 0 */
  IX_ATOM_MOD,   /* p mod q, 0 <= result < q */
  IX_ATOM_MIN,
  IX_ATOM_MAX,
} ix_atom_kind_t;

struct ix_atom {
  ix_atom_kind_t kind;
  uint32_t id;               /* order of creation in the pool */
  const ix_symbol_t *symbol; /* SYMBOL */
  const ix_poly_t *p, *q;    /* the others */
};

/* One monomial: coefficient times a sorted product of atoms (repeats allowed
 * for powers); atom_count 0 is the constant term. */
typedef struct ix_term {
  int64_t coefficient;
  uint32_t atom_count;
  const ix_atom_t *const *atoms;
} ix_term_t;

struct ix_poly {
  uint32_t term_count; /* 0: the number zero */
  const ix_term_t *terms;
  uint64_t hash;
};

ix_pool_t *ix_pool_create(td_arena_t *arena);

/* New symbol; never merged with another of the same name. */
ix_symbol_t *ix_symbol_create(ix_pool_t *pool, const char *name,
                              ix_symbol_kind_t kind, td_loc_t loc);

const ix_poly_t *ix_const(ix_pool_t *pool, int64_t value);
const ix_poly_t *ix_sym(ix_pool_t *pool, const ix_symbol_t *symbol);

/* Arithmetic in normal form.  On overflow of a coefficient past i64 they
 * return NULL; every function here accepts NULL operands and then returns
 * NULL, so that a chain is checked once at its end. */
const ix_poly_t *ix_add(ix_pool_t *, const ix_poly_t *, const ix_poly_t *);
const ix_poly_t *ix_sub(ix_pool_t *, const ix_poly_t *, const ix_poly_t *);
const ix_poly_t *ix_mul(ix_pool_t *, const ix_poly_t *, const ix_poly_t *);
const ix_poly_t *ix_neg(ix_pool_t *, const ix_poly_t *);
/* Floor division and modulus by a divisor that is known to be positive,
 * simplified as language.md 8.1 says (`a prover` decides 0 <= r <= q-1). */
typedef struct ix_facts ix_facts_t; /* frontend/bounds or NULL: defaults */
const ix_poly_t *ix_div(ix_pool_t *, const ix_poly_t *, const ix_poly_t *,
                        const ix_facts_t *facts);
const ix_poly_t *ix_mod(ix_pool_t *, const ix_poly_t *, const ix_poly_t *,
                        const ix_facts_t *facts);
const ix_poly_t *ix_min(ix_pool_t *, const ix_poly_t *, const ix_poly_t *);
const ix_poly_t *ix_max(ix_pool_t *, const ix_poly_t *, const ix_poly_t *);

bool ix_is_const(const ix_poly_t *p, int64_t *out_value);
/* The poly is exactly one symbol with coefficient 1. */
const ix_symbol_t *ix_as_symbol(const ix_poly_t *p);
bool ix_mentions(const ix_poly_t *p, const ix_symbol_t *s);
bool ix_mentions_kind(const ix_poly_t *p, ix_symbol_kind_t kind);

/* Replaces symbols.  `map` returns the replacement or NULL to keep one. */
typedef const ix_poly_t *(*ix_subst_fn)(void *user, const ix_symbol_t *s);
const ix_poly_t *ix_subst(ix_pool_t *pool, const ix_poly_t *p,
                          ix_subst_fn map, void *user,
                          const ix_facts_t *facts);

/* Value under an assignment; false if a symbol has none, on overflow, or on
 * a divisor <= 0. */
typedef bool (*ix_value_fn)(void *user, const ix_symbol_t *s, int64_t *out);
bool ix_eval(const ix_poly_t *p, ix_value_fn value, void *user, int64_t *out);

/* Interval of p when every symbol lies in its own constant range (used for
 * planning bounds and 32-bit decisions).  False where an end is unknown. */
bool ix_interval(const ix_poly_t *p, int64_t *out_lo, int64_t *out_hi);

/* Text in source syntax: `2*N + T/4 - 1`; terms and factors sorted by name. */
void ix_print(td_buf_t *out, const ix_poly_t *p);
const char *ix_text(td_arena_t *arena, const ix_poly_t *p);

/* ---- proofs (language.md 8.3), a closed procedure, no search beyond it --- */

/* A set of facts p >= 0 in force, plus narrowed ranges of symbols; scopes
 * nest: facts are dropped back to a mark when a guard's arm ends. */
ix_facts_t *ix_facts_create(ix_pool_t *pool);
size_t ix_facts_mark(const ix_facts_t *facts);
void ix_facts_release(ix_facts_t *facts, size_t mark);
void ix_facts_add(ix_facts_t *facts, const ix_poly_t *nonnegative);
/* Narrows the range of a symbol while in force (NULL: leave that end). */
void ix_facts_narrow(ix_facts_t *facts, const ix_symbol_t *s,
                     const ix_poly_t *lo, const ix_poly_t *hi);
/* `require a == b` with a name alone on one side, and `a % b == 0`: turns
 * into a replacement applied by ix_apply_facts to polys made before. */
void ix_facts_equal(ix_facts_t *facts, const ix_symbol_t *s,
                    const ix_poly_t *value);
const ix_poly_t *ix_apply_facts(ix_pool_t *, const ix_poly_t *,
                                const ix_facts_t *);
/* Inequality p >= 0, p > 0, a == b (normal forms identical). */
bool ix_prove_nonnegative(ix_pool_t *, const ix_poly_t *p, const ix_facts_t *);
bool ix_prove_positive(ix_pool_t *, const ix_poly_t *p, const ix_facts_t *);
/* Known range of a symbol under facts (narrowed if so); NULL: none. */
const ix_poly_t *ix_symbol_lo(const ix_symbol_t *s, const ix_facts_t *f);
const ix_poly_t *ix_symbol_hi(const ix_symbol_t *s, const ix_facts_t *f);

#endif
