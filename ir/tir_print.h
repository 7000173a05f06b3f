/* tir_print.h: what the two files of the TIR printer share.
 * tir_print_expr.c has names, polynomials and expressions, tir_print.c nodes
 * and functions. */
#ifndef TDSL_IR_TIR_PRINT_H
#define TDSL_IR_TIR_PRINT_H

#include "ir/tir_text.h"

typedef struct tir_printer {
  td_buf_t *out;
  td_arena_t arena; /* names and tables, dropped at the end */
  td_arena_t *module_arena; /* names of renamed dims live with the pool */
  ix_pool_t *pool;
  bool with_locs;
  td_map_t value_names; /* tir_value_t -> const char * */
  td_map_t word_names;  /* ix_symbol_t of a dim, tir_index_t -> name */
  td_map_t taken_values, taken_words; /* text -> non-NULL */
  td_map_t renamed; /* ix_symbol_t -> ix_poly_t, dims whose name changed */
  td_map_t lets;    /* of one node: tir_expr_t -> number + 1 */
  int depth;        /* of indentation */
} tir_printer_t;

/* Gives a name that no other value, dim or index in sight has. The first
 * call for an object decides; values and dims keep theirs for the function,
 * an index until its words are dropped. */
void tir_name_value(tir_printer_t *, const tir_value_t *);
void tir_name_dim(tir_printer_t *, const ix_symbol_t *);
void tir_name_index(tir_printer_t *, const tir_index_t *);
/* NULL if it has none. */
const char *tir_name_of(const td_map_t *names, const void *of);

void tir_put_indent(tir_printer_t *);
void tir_put_poly(tir_printer_t *, const ix_poly_t *);
void tir_put_value(tir_printer_t *, const tir_value_t *); /* with its % */
void tir_put_constant(tir_printer_t *, const tir_expr_t *);
/* Shared expressions as the $n of the last tir_put_lets, except the root
 * itself if it is the one being defined (`is_let`). */
void tir_put_expr(tir_printer_t *, const tir_expr_t *root, bool is_let);
/* `let` lines for what the roots of a node share; true if there were any. */
bool tir_put_lets(tir_printer_t *, tir_expr_t *const *roots, uint32_t count);

#endif
