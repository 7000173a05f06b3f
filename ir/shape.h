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

/* Limits that keep hostile programs cheap: past them arithmetic returns NULL
 * just as it does on overflow. Weight counts the nodes of a poly written out
 * as a tree, depth the nesting of atoms, degree the factors of a monomial. */
enum {
  IX_MAX_TERMS = 256,
  IX_MAX_DEGREE = 32,
  IX_MAX_DEPTH = 24,
  IX_MAX_WEIGHT = 2048,
};

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

/* What occurs in a poly, at any depth: 1 << ix_symbol_kind_t, and these. */
enum {
  IX_HAS_FLOOR = 1 << 8,
  IX_HAS_MOD = 1 << 9,
  IX_HAS_CHOICE = 1 << 10, /* min or max */
  /* symbols that vary inside a statement; what is left without them is dims */
  IX_HAS_VARYING = 1 << IX_SYM_INDEX | 1 << IX_SYM_LOOP | 1 << IX_SYM_DATA,
};

/* Facts about everything below a poly or atom, for quick answers. */
typedef struct ix_summary {
  uint32_t has;    /* bits as above */
  uint32_t depth;  /* nesting of atoms */
  uint32_t weight; /* nodes as a tree */
  uint64_t names;  /* bit id % 64 of every symbol */
} ix_summary_t;

struct ix_atom {
  ix_atom_kind_t kind;
  uint32_t id;               /* order of creation in the pool */
  const ix_symbol_t *symbol; /* SYMBOL */
  const ix_poly_t *p, *q;    /* the others */
  ix_summary_t below;        /* itself included */
  const ix_atom_t *next;     /* chain of the pool's table */
};

/* One monomial: coefficient times a sorted product of atoms (repeats allowed
 * for powers); atom_count 0 is the constant term. */
typedef struct ix_term {
  int64_t coefficient;
  uint32_t atom_count;
  const ix_atom_t *const *atoms;
} ix_term_t;

/* Terms are sorted by the names of their factors, the constant term last. */
struct ix_poly {
  uint32_t term_count; /* 0: the number zero */
  const ix_term_t *terms;
  uint64_t hash;
  uint32_t id; /* order of creation in the pool */
  ix_summary_t below;
  const ix_poly_t *next; /* chain of the pool's table */
};

ix_pool_t *ix_pool_create(td_arena_t *arena);

/* New symbol; never merged with another of the same name.  A dim starts with
 * the lower bound of its kind, everything else without a range: the creator
 * sets lo and hi before the first use. */
ix_symbol_t *ix_symbol_create(ix_pool_t *pool, const char *name,
                              ix_symbol_kind_t kind, td_loc_t loc);

const ix_poly_t *ix_const(ix_pool_t *pool, int64_t value);
const ix_poly_t *ix_sym(ix_pool_t *pool, const ix_symbol_t *symbol);

/* Arithmetic in normal form.  On overflow of a coefficient past i64, and past
 * the limits above, they return NULL; every function here accepts NULL
 * operands and then returns NULL, so that a chain is checked once at its
 * end. */
const ix_poly_t *ix_add(ix_pool_t *, const ix_poly_t *, const ix_poly_t *);
const ix_poly_t *ix_sub(ix_pool_t *, const ix_poly_t *, const ix_poly_t *);
const ix_poly_t *ix_mul(ix_pool_t *, const ix_poly_t *, const ix_poly_t *);
const ix_poly_t *ix_neg(ix_pool_t *, const ix_poly_t *);
/* Floor division and modulus by a divisor that is known to be positive (the
 * caller has proved it: E37), simplified as language.md 8.1 says; the prover
 * decides 0 <= r <= q-1 under the facts.  Equalities in force are applied to
 * the operands first.  NULL for a divisor that is a number <= 0. */
typedef struct ix_facts ix_facts_t; /* see the proofs below; NULL: defaults */
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
/* Calls fn once or more for every symbol at any depth, in printed order, until
 * it returns false; false if it did. */
typedef bool (*ix_symbol_fn)(void *user, const ix_symbol_t *s);
bool ix_each_symbol(const ix_poly_t *p, ix_symbol_fn fn, void *user);

/* p = coefficient * s + rest with s in neither; false if s occurs otherwise
 * (in a power, under / or %, in min or max). Absent: coefficient zero. Binding
 * of a generic from 2*N or T + 1 goes through it. */
bool ix_split_linear(ix_pool_t *pool, const ix_poly_t *p, const ix_symbol_t *s,
                     const ix_poly_t **out_coefficient,
                     const ix_poly_t **out_rest);

/* Replaces symbols, all at once.  `map` returns the replacement or NULL to
 * keep one. Floors and remainders are simplified anew under the facts. */
typedef const ix_poly_t *(*ix_subst_fn)(void *user, const ix_symbol_t *s);
const ix_poly_t *ix_subst(ix_pool_t *pool, const ix_poly_t *p, ix_subst_fn map,
                          void *user, const ix_facts_t *facts);

/* Value under an assignment; false if a symbol has none, on overflow, or on
 * a divisor <= 0. */
typedef bool (*ix_value_fn)(void *user, const ix_symbol_t *s, int64_t *out);
bool ix_eval(const ix_poly_t *p, ix_value_fn value, void *user, int64_t *out);

/* Interval of p, both ends included, when every symbol lies in its own
 * constant range (used for planning bounds and 32-bit decisions); a dim
 * without a bound reaches 2^31-1.  False where an end is unknown. */
bool ix_interval(const ix_poly_t *p, int64_t *out_lo, int64_t *out_hi);

/* Text in source syntax: `2*N + T/4 - 1`; terms and factors sorted by name,
 * a positive term first if there is one. */
void ix_print(td_buf_t *out, const ix_poly_t *p);
const char *ix_text(td_arena_t *arena, const ix_poly_t *p);

/* ---- proofs (language.md 8.3), a closed procedure, no search beyond it --- */

/* A set of facts p >= 0 in force, plus narrowed ranges of symbols; scopes
 * nest: facts are dropped back to a mark when a guard's arm ends. */
ix_facts_t *ix_facts_create(ix_pool_t *pool);
size_t ix_facts_mark(const ix_facts_t *facts);
void ix_facts_release(ix_facts_t *facts, size_t mark);
/* A `require` inequality, or what a declaration says (each dim of a parameter
 * is >= 0). A lower bound of one dim narrows its range. NULL: none. */
void ix_facts_add(ix_facts_t *facts, const ix_poly_t *nonnegative);
/* Narrows the range of a symbol while in force (NULL: leave that end). The
 * caller knows the new end to be right. */
void ix_facts_narrow(ix_facts_t *facts, const ix_symbol_t *s,
                     const ix_poly_t *lo, const ix_poly_t *hi);
/* `require a == b` with a name alone on one side and a value without it: the
 * name is replaced by the value in all that is formed or proved while in
 * force; ix_apply_facts does it to polys made before. */
void ix_facts_equal(ix_facts_t *facts, const ix_symbol_t *s,
                    const ix_poly_t *value);
/* `require a == b` of any form: the case above if a side is a name, else two
 * inequalities. */
void ix_facts_require_equal(ix_facts_t *facts, const ix_poly_t *a,
                            const ix_poly_t *b);
/* `require a % b == 0`, b > 0: a name a (the first such fact of it) becomes
 * b * (a/b) with a new dim a/b. */
void ix_facts_require_divides(ix_facts_t *facts, const ix_poly_t *a,
                              const ix_poly_t *b);
/* A guard p >= 0: narrows the range of an index, loop variable or datum x if
 * p is x + e or e - x with e free of such and the new end is provably at
 * least as tight; becomes a fact otherwise. a < b is guard(b - 1 - a). */
void ix_facts_guard(ix_facts_t *facts, const ix_poly_t *nonnegative);
/* Guards a == b and a != b, given d = a - b. != counts at an end only. */
void ix_facts_guard_zero(ix_facts_t *facts, const ix_poly_t *d);
void ix_facts_guard_nonzero(ix_facts_t *facts, const ix_poly_t *d);
/* A range that is known to hold an element: extent >= 1, hence every factor
 * of a product >= 1, and p >= q where floor(p/q) >= 1. Call it for each index
 * in whose scope a formula is checked, and for a loop's body. */
void ix_facts_extent_nonempty(ix_facts_t *facts, ix_pool_t *pool,
                              const ix_poly_t *extent);

const ix_poly_t *ix_apply_facts(ix_pool_t *, const ix_poly_t *,
                                const ix_facts_t *);
/* The other way round, for messages: b * (a/b) is shown as a again. */
const ix_poly_t *ix_restore_facts(ix_pool_t *, const ix_poly_t *,
                                  const ix_facts_t *);
/* a == b: normal forms identical under the equalities in force. */
bool ix_equal(ix_pool_t *, const ix_poly_t *a, const ix_poly_t *b,
              const ix_facts_t *);
/* Inequality p >= 0, p > 0. */
bool ix_prove_nonnegative(ix_pool_t *, const ix_poly_t *p, const ix_facts_t *);
bool ix_prove_positive(ix_pool_t *, const ix_poly_t *p, const ix_facts_t *);
/* Known range lo <= s < hi of a symbol under facts (narrowed if so), the
 * default of its kind included; NULL: none. */
const ix_poly_t *ix_symbol_lo(const ix_symbol_t *s, const ix_facts_t *f);
const ix_poly_t *ix_symbol_hi(const ix_symbol_t *s, const ix_facts_t *f);
/* Ends of p free of indices, loop variables and data: *lo <= p < *hi. An
 * integer defined by a formula inherits this range; messages show it. An end
 * that cannot be given is NULL. */
void ix_ends(ix_pool_t *pool, const ix_poly_t *p, const ix_facts_t *facts,
             const ix_poly_t **out_lo, const ix_poly_t **out_hi);

/* ---- element updates: are writes to distinct elements? (language.md 5.2) - */

/* An integer read from memory whose subscripts mention indices. */
typedef struct ix_read {
  const ix_symbol_t *data;           /* IX_SYM_DATA */
  const ix_symbol_t *const *indices; /* those it depends on */
  size_t index_count;
} ix_read_t;

typedef enum ix_distinct {
  IX_DISTINCT_PROVED,
  IX_DISTINCT_SAME,    /* two tuples write one element: E11 */
  IX_DISTINCT_UNKNOWN, /* W01 */
} ix_distinct_t;

/* Subscripts of the element, the statement's indices with their ranges, and
 * the reads that occur in the subscripts and depend on indices (a datum not
 * listed is one value for all tuples).  SAME, UNKNOWN: *out_index is the
 * first index at fault; it may be NULL. */
ix_distinct_t
ix_prove_distinct(ix_pool_t *pool, const ix_poly_t *const *subscripts,
                  size_t subscript_count, const ix_symbol_t *const *indices,
                  size_t index_count, const ix_read_t *reads, size_t read_count,
                  const ix_facts_t *facts, const ix_symbol_t **out_index);

#endif
