/* kir_text.h: words that the printer and the parser of KIR agree on.
 *
 *   kernel k03_scale(in x: bf16[R, 1024], out y: f32[R, 1024])
 *       dims(R in 0..65537) {
 *     loop.block r in 0 .. R {
 *       alloc local e: f32[1024]
 *       loop.serial i in 0 .. 1024 step 16 {
 *         loop.lane l in 0 .. 16 where i + l < R {
 *           let $0 = exp(x[r, i + l])
 *           e[i + l] = $0 / ($0 + 1.0)
 *
 * docs/kir.md has the grammar.  Bare words name buffers, variables and dims,
 * made unique where they are visible by a suffix `.1`, `.2`; `$0` is an
 * expression that occurs more than once in the statement below it. */
#ifndef TDSL_IR_KIR_TEXT_H
#define TDSL_IR_KIR_TEXT_H

#include "ir/kir.h"

/* Statements nest at most this deep: what walks over blocks may recurse. */
enum { KIR_MAX_NESTING = 255 };

/* How an operation is written. */
typedef enum kir_class {
  KIR_CLASS_leaf, KIR_CLASS_unary, KIR_CLASS_binary, KIR_CLASS_compare,
  KIR_CLASS_logic, KIR_CLASS_other,
} kir_class_t;

const char *kir_x_text(kir_x_t op);   /* "add" */
int kir_x_arity(kir_x_t op);          /* -1: any number */
kir_class_t kir_x_class(kir_x_t op);
/* "+" and how tightly it binds, from 1; NULL: written as a call. */
const char *kir_x_infix(kir_x_t op, int *out_level);
/* The operation between two operands; false if the text is none. */
bool kir_x_find_infix(td_str_t text, kir_x_t *out);

const char *kir_kind_text(kir_kind_t kind);
const char *kir_space_text(kir_space_t space);  /* "local" */
const char *kir_loop_text(kir_loop_t loop);     /* "loop.block" */
const char *kir_symbol_text(ix_symbol_kind_t kind); /* "dyn" */

/* A word that nothing may have as its printed name. */
bool kir_is_reserved(td_str_t word);

/* An index computation of a few leaves, or a load with such subscripts: the
 * printer repeats it where it is shared instead of naming it. */
bool kir_is_small(const kir_expr_t *e);

#endif
