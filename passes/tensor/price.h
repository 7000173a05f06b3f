/* price.h: what a way of computing costs on a machine row, in four ledgers.
 *
 * Prices choose between forms of equal bits only: extents count by their
 * upper bounds, rates come from the row of the target, and nothing measured
 * enters.  A kernel's time is its dearest ledger, plus its launch. */
#ifndef TDSL_PASSES_TENSOR_PRICE_H
#define TDSL_PASSES_TENSOR_PRICE_H

#include "ir/target.h"
#include "passes/tensor/tensor.h"

typedef struct tensor_price {
  double bytes;    /* to and from memory */
  double flops;    /* simple operations */
  double specials; /* functions and divisions */
  double launches; /* kernels */
} tensor_price_t;

/* Row of the compile; the most common one where none was named. */
const ir_target_t *tensor_target(const pass_state_t *state);

/* Upper bounds as numbers: of a dim; of all elements of a value; of all
 * tuples of a node, reductions included. */
double tensor_most(const ix_poly_t *extent);
double tensor_elements(const tir_value_t *v);
double tensor_tuples(const tir_node_t *n);

/* Adds `count` evaluations of an expression, without its loads. */
void tensor_price_body(td_arena_t *scratch, tir_expr_t *e, double count,
                       tensor_price_t *price);
/* Adds what `count` evaluations read: each value at most once as a whole. */
void tensor_price_loads(td_arena_t *scratch, tir_expr_t *e, double count,
                        tensor_price_t *price);
/* A node as a kernel of its own. */
void tensor_price_node(td_arena_t *scratch, tir_node_t *n,
                       tensor_price_t *price);
/* How often one reader evaluates what stands in place of its loads of v, in
 * elements of v, at least 1: a block of a product evaluates an operand once for
 * each place that it has there. */
double tensor_visits(td_arena_t *scratch, const ir_target_t *target,
                     tir_node_t *reader, const tir_value_t *v);
/* Adds `times` times one price to another. */
void tensor_price_add(tensor_price_t *to, const tensor_price_t *from,
                      double times);
/* Nanoseconds, at least 1. */
int64_t tensor_price_ns(const ir_target_t *target,
                        const tensor_price_t *price);

#endif
