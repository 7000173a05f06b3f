/* kir_parse.h: what the files of the KIR parser share (kir_parse.c
 * kir_parse_expr.c).
 *
 * Tokens, polynomials and the first fault are those of the TIR parser, which
 * is embedded: its `dims` are the kernel's, its module owns the pool.  The
 * text is hostile until parsed: nothing recurses over expressions, blocks
 * nest to a cap, and the first fault ends the parse with F70. */
#ifndef TDSL_IR_KIR_PARSE_H
#define TDSL_IR_KIR_PARSE_H

#include "ir/kir_text.h"
#include "ir/tir_parse.h"

/* What a word stands for; one of the two. */
typedef struct kir_name {
  kir_buffer_t *buffer;
  kir_var_t *var;
} kir_name_t;

typedef struct kir_parser {
  tir_parser_t t;
  kir_kernel_t *kernel;
  td_map_t names; /* text -> kir_name_t, NULL out of scope */
  TD_VEC(const char *) declared; /* names in scope, inner blocks last */
  TD_VEC(kir_expr_t *) lets;     /* $0, $1 ... of the statement */
} kir_parser_t;

/* Never NULL: after a failure some expression. */
kir_expr_t *kir_parse_expr(kir_parser_t *);
/* The buffer of the word looked at, skipped; NULL after a failure. */
kir_buffer_t *kir_parse_buffer(kir_parser_t *);
/* `[a, b]`, the bracket not yet read; *out in the kernel's arena. */
uint32_t kir_parse_subs(kir_parser_t *, kir_expr_t ***out);

#endif
