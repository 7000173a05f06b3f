/* expr.h: helpers over scalar expressions that several passes share.
 * (tir_expr_poly, the bridge to dim polynomials, is declared in tir.h.) */
#ifndef TDSL_IR_EXPR_H
#define TDSL_IR_EXPR_H

#include "ir/tir.h"

/* Hash consing: tir_intern returns the one representative of a structurally
 * equal DAG (locations do not count), so two expressions interned by one
 * interner are equal iff the pointers are.  -0 and +0, and NaNs of other
 * bits, differ.  Values and indices compare by pointer. */
typedef struct tir_interner {
  td_arena_t *arena;
  td_map_t table; /* hash -> chain of representatives */
  td_map_t done;  /* expression -> representative */
  tir_walker_t walker;
} tir_interner_t;

void tir_interner_init(tir_interner_t *, td_arena_t *arena);
tir_expr_t *tir_intern(tir_interner_t *, tir_expr_t *root);

/* The operands aside: equal op, type and payload. */
bool tir_expr_same_head(const tir_expr_t *a, const tir_expr_t *b);

/* Replaces references to from[i] by to[i]; both of length count. */
tir_expr_t *tir_replace_indices(td_arena_t *arena, tir_expr_t *root,
                                uint32_t count,
                                tir_index_t *const *from,
                                tir_expr_t *const *to);

/* Whether an index, or any element of a value, is mentioned. */
bool tir_mentions_index(td_arena_t *scratch, tir_expr_t *root,
                        const tir_index_t *index);
bool tir_mentions_value(td_arena_t *scratch, tir_expr_t *root,
                        const tir_value_t *value);

/* Number of distinct operations in a DAG, leaves not counted. */
size_t tir_expr_size(td_arena_t *scratch, tir_expr_t *root);

#endif
