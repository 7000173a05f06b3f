/* tir_text.h: words that the printer and the parser of TIR agree on.
 *
 *   func @rows(in x: bf16[R, 1024], out y: bf16[R, 1024])
 *       dims(R in 0..65537) {
 *     %m: f32[R] = reduce.max [r in R; i in 1024] %x[r, i]
 *     %y: bf16[R, 1024] = map [r in R, i in 1024] exp(sub(%x[r, i], %m[r]))
 *     return y = %y
 *   }
 *
 * docs/tir.md has the grammar.  Names: `%x` values, `@f` functions, `$0`
 * expressions that occur more than once in a node, bare words indices and
 * dynamic dims.  Everything is made unique by a suffix `.1`, `.2`. */
#ifndef TDSL_IR_TIR_TEXT_H
#define TDSL_IR_TIR_TEXT_H

#include "ir/tir.h"

/* Loops nest at most this deep; the parser refuses more, and walks over
 * blocks may recurse so far. */
enum { TIR_MAX_NESTING = 255 };

/* "add", "select" ...; the parser finds them by td_str_eqc. */
const char *tir_x_text(tir_x_t op);
int tir_x_arity(tir_x_t op);               /* -1: any number */
const char *tir_kind_text(tir_kind_t kind);
const char *tir_reduce_text(tir_reduce_t reduce); /* "sum"; "" for NONE */

/* A word that a dim or index may not have as its printed name. */
bool tir_is_reserved(td_str_t word);
/* Bytes of letters, digits, `_`, and dots before one of these (so that a
 * range `A..B` is not one word), from the start of the text. */
size_t tir_word_length(td_str_t text);
/* A whole word that begins with a letter or `_`. */
bool tir_is_word(td_str_t text);

#endif
