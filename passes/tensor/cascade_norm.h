/* cascade_norm.h: the normal form of scalar bodies that cascades need.
 *
 * A body becomes a sum of terms, each a number times a product of atoms with
 * powers.  Every atom is classed by what it mentions:
 *   K  row constants: known before the sweep;
 *   U  varies along the reduction axis;
 *   X  holds a result of an earlier reduction over the same axis.
 * No atom is mixed: what cannot be taken apart is refused, with the
 * expression at fault.  Atoms, terms and sums are hash-consed: two of one
 * state are equal iff their pointers are.  Everything lies in the arena of
 * the state.
 *
 * Called by find_cascades and by its tests, which print sums as text. */
#ifndef TDSL_PASSES_TENSOR_CASCADE_NORM_H
#define TDSL_PASSES_TENSOR_CASCADE_NORM_H

#include "ir/expr.h"

enum {
  CASCADE_K = 0,
  CASCADE_U = 1,
  CASCADE_X = 2,
  CASCADE_MIXED = 3, /* U and X: of expressions only */
  CASCADE_MAX_TERMS = 64,
  CASCADE_MAX_FACTORS = 24,
};

/* Why a body has no normal form; the texts are those of remarks. */
typedef enum cascade_reason {
  CASCADE_OK = 0,
  CASCADE_FUNCTION,  /* an operation without a split */
  CASCADE_PREDICATE, /* a condition that compares U with X */
  CASCADE_EXPONENT,  /* exp of a product of U and X */
  CASCADE_ROUNDING,  /* a mixed value rounded to an integer */
  CASCADE_AXIS,      /* a result read along the axis */
  CASCADE_UPDATE,    /* an operand changes between the members */
  CASCADE_TERMS,     /* more than CASCADE_MAX_TERMS */
  CASCADE_CLASS,     /* needs the class `approximate` */
  CASCADE_SIGN,      /* a factor of unknown sign */
} cascade_reason_t;

typedef enum cascade_kind {
  CASCADE_LEAF, /* an expression that is kept whole */
  CASCADE_EXP,  /* e to the power of `sum`, whose first coefficient is 1 */
  CASCADE_ROUND, /* the same, rounded to a narrower type */
  CASCADE_SUM,  /* a sum of class X or K, kept whole */
  CASCADE_TEST, /* 1 where expr holds, else 0 */
} cascade_kind_t;

typedef struct cascade_atom cascade_atom_t;
typedef struct cascade_sum cascade_sum_t;
typedef struct cascade_gauge cascade_gauge_t;

struct cascade_atom {
  cascade_kind_t kind;
  uint32_t id;             /* order of creation */
  uint8_t mentions;        /* CASCADE_K, U or X */
  bool is_positive;        /* >= 0 wherever it is a number */
  tir_expr_t *expr;        /* LEAF, TEST: interned */
  const cascade_sum_t *sum; /* EXP, ROUND, SUM */
  tdsl_dtype_t narrow;     /* ROUND: BF16 or F16 */
  const cascade_atom_t *complement; /* TEST */
  const cascade_gauge_t *gauge; /* LEAF: it is relative to this gauge */
};

typedef struct cascade_factor {
  const cascade_atom_t *atom;
  double power;
} cascade_factor_t;

/* Factors are sorted by id, no power is 0. */
typedef struct cascade_term {
  double coefficient;
  uint32_t count;
  const cascade_factor_t *factors;
} cascade_term_t;

/* Terms are sorted by their factors, no coefficient is 0. */
struct cascade_sum {
  uint32_t id;
  uint32_t count;
  const cascade_term_t *terms;
};

/* What an expression along the axis is kept relative to: read as
 * (leaf - value) + value, or as (leaf / value) * value. */
typedef enum cascade_relation {
  CASCADE_MINUS,
  CASCADE_OVER,
} cascade_relation_t;
struct cascade_gauge {
  cascade_relation_t relation;
  tir_expr_t *leaf;    /* interned, class U */
  tir_expr_t *present; /* its value, interned */
  tir_expr_t *before;  /* its value before a part was merged; NULL: fixed */
  /* Applied to the leaf wherever it stands; else in exponents only. Set by
   * the caller before each cascade_normalize. */
  bool is_everywhere;
  bool is_mean; /* of the same elements: a sum of the relative leaf is 0 */
  /* the leaf seen from the gauge; the gauge, of class X; how far it moved:
   * before - present, or before / present */
  const cascade_atom_t *relative, *value, *step;
};

typedef struct cascade_norm {
  td_task_t *task;
  td_arena_t *arena;
  tir_interner_t interner;
  /* Class of a leaf: INDEX, LOAD (the subscripts are joined to it), DIM.
   * Set by the caller. */
  uint8_t (*classify)(void *user, const tir_expr_t *leaf);
  void *user;
  TD_VEC(cascade_atom_t *) atoms;
  TD_VEC(cascade_sum_t *) sums;
  TD_VEC(cascade_gauge_t *) gauges;
  td_map_t classes;  /* tir_expr_t* -> class + 1 */
  td_map_t plain;    /* tir_expr_t* -> cascade_sum_t*, no gauge applied */
  td_map_t relative; /* the same with the gauges that there are */
  td_map_t leaves;   /* tir_expr_t* -> cascade_atom_t* */
  cascade_reason_t reason; /* first refusal of cascade_normalize */
  const tir_expr_t *at;    /* and the expression at fault */
} cascade_norm_t;

void cascade_norm_init(cascade_norm_t *, td_task_t *, td_arena_t *arena,
                       uint8_t (*classify)(void *, const tir_expr_t *),
                       void *user);

/* Class of an expression, CASCADE_MIXED included. */
uint8_t cascade_class(cascade_norm_t *, tir_expr_t *e);
uint8_t cascade_term_class(const cascade_term_t *term);

/* The normal form; NULL after a refusal (reason, at).  With is_relative the
 * gauges are applied. */
const cascade_sum_t *cascade_normalize(cascade_norm_t *, tir_expr_t *e,
                                       bool is_relative);
/* A leaf is read relative to a gauge from here on. */
cascade_gauge_t *cascade_add_gauge(cascade_norm_t *, cascade_relation_t,
                                   tir_expr_t *leaf, tir_expr_t *present,
                                   tir_expr_t *before);

/* The gauge is the mean of the elements so far, 0 of none. */
cascade_gauge_t *cascade_add_mean(cascade_norm_t *, tir_expr_t *leaf,
                                  tir_expr_t *present, tir_expr_t *before);

/* ---- arithmetic: NULL when there are too many terms ---- */

const cascade_sum_t *cascade_number(cascade_norm_t *, double v);
const cascade_sum_t *cascade_of_atom(cascade_norm_t *, const cascade_atom_t *,
                                     double power);
const cascade_sum_t *cascade_of_terms(cascade_norm_t *, uint32_t count,
                                      const cascade_term_t *terms);
const cascade_sum_t *cascade_add(cascade_norm_t *, const cascade_sum_t *a,
                                 double factor, const cascade_sum_t *b);
const cascade_sum_t *cascade_mul(cascade_norm_t *, const cascade_sum_t *a,
                                 const cascade_sum_t *b);
/* Of one term, or a whole power 2 .. 4 of a sum; else NULL. */
const cascade_sum_t *cascade_power(cascade_norm_t *, const cascade_sum_t *a,
                                   double n);
/* The atom of a pure expression; `mentions` counts for a new one. */
const cascade_atom_t *cascade_leaf(cascade_norm_t *, tir_expr_t *e,
                                   uint8_t mentions);
const cascade_atom_t *cascade_test(cascade_norm_t *, tir_expr_t *e,
                                   uint8_t mentions);
/* exp(sum), as a sum of one term. */
const cascade_sum_t *cascade_exp(cascade_norm_t *, const cascade_sum_t *sum);
const cascade_sum_t *cascade_whole(cascade_norm_t *,
                                   const cascade_sum_t *sum);
/* A term with its weight rounded: round(w x) is read as round(w) x where w is
 * one exponential along the axis, under tests, and x does not vary. That is
 * one rounding for each element, as the text has it, of another scale. NULL:
 * the term is of another form. */
const cascade_sum_t *cascade_round(cascade_norm_t *, const cascade_term_t *,
                                   tdsl_dtype_t narrow);
/* e to some power, rounded or not. */
bool cascade_is_exponential(const cascade_atom_t *);
/* The factors of a term that vary along the axis, or the others with the
 * coefficient, as a sum of one term. */
const cascade_sum_t *cascade_part(cascade_norm_t *, const cascade_term_t *,
                                  bool is_along);

/* What becomes of a sum when every gauge moves by its step: the translation
 * law of its members. */
const cascade_sum_t *cascade_translate(cascade_norm_t *,
                                       const cascade_sum_t *sum);

/* Back to expressions of type F32 or F64 (cascade_build.c). */
tir_expr_t *cascade_to_expr(cascade_norm_t *, const cascade_sum_t *sum,
                            tdsl_dtype_t type);

/* The result of a sum behind its sweep: a maximum among its factors that has
 * seen nothing is read as 0, for 0 times -inf is no number. */
tir_expr_t *cascade_result_to_expr(cascade_norm_t *, const cascade_sum_t *sum,
                                   tdsl_dtype_t type);

/* `2*x^2*exp(y) - m`, for tests, remarks and certificates. */
void cascade_print(td_buf_t *out, const cascade_sum_t *sum);
void cascade_print_expr(td_buf_t *out, const tir_expr_t *e);
const char *cascade_reason_text(cascade_reason_t reason);

#endif
