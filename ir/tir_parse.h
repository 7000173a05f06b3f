/* tir_parse.h: what the files of the TIR parser share (tir_lex.c tir_parse.c
 * tir_parse_node.c tir_parse_expr.c).
 *
 * The text is hostile until parsed: nothing recurses over expressions,
 * blocks and polynomials nest to a cap, every count is checked against what
 * was really read, and the first fault ends the parse with F70. */
#ifndef TDSL_IR_TIR_PARSE_H
#define TDSL_IR_TIR_PARSE_H

#include "ir/tir_text.h"
#include "runtime/base/num.h"

typedef enum tir_token {
  TIR_T_END,
  TIR_T_WORD,   /* text: a word */
  TIR_T_VALUE,  /* text: after the % */
  TIR_T_FUNC,   /* text: after the @ */
  TIR_T_LET,    /* text: digits after the $ */
  TIR_T_INT,    /* text: digits */
  TIR_T_FLOAT,  /* text: with a point or exponent */
  TIR_T_STRING, /* text: decoded, in the arena */
  TIR_T_PUNCT,  /* text: one or two characters */
} tir_token_t;

/* The token being looked at, and where the next one begins. Copied to read
 * something later in the text first. */
typedef struct tir_cursor {
  tir_token_t token;
  td_str_t word;
  td_loc_t loc;
  size_t at;
  uint32_t line, column; /* of `at` */
} tir_cursor_t;

typedef struct tir_parser {
  td_task_t *task;
  td_arena_t *arena;  /* of the module */
  td_arena_t scratch; /* tables and token texts, dropped at the end */
  uint32_t file;
  td_str_t text;
  bool failed;
  tir_cursor_t now;
  tir_module_t *module;
  tir_func_t *func;
  td_map_t values; /* text -> tir_value_t, NULL out of scope */
  TD_VEC(const char *) declared; /* names in scope, inner blocks last */
  td_map_t dims;   /* text -> ix_symbol_t of the function */
  /* The node being read. */
  TD_VEC(tir_index_t *) indices;
  TD_VEC(tir_expr_t *) lets;
} tir_parser_t;

/* Moves to the next token. */
void tir_next(tir_parser_t *);
/* Reports F70 at the current token, once; then everything reads as END. */
void tir_fail(tir_parser_t *, const char *format, ...) TD_PRINTF(2, 3);

bool tir_at_punct(const tir_parser_t *, const char *text);
bool tir_at_word(const tir_parser_t *, const char *text);
/* Skips it if it is there. */
bool tir_take_punct(tir_parser_t *, const char *text);
bool tir_take_word(tir_parser_t *, const char *text);
/* Fails if it is not. */
void tir_expect_punct(tir_parser_t *, const char *text);
/* A non-negative integer; 0 after a failure. */
int64_t tir_expect_int(tir_parser_t *);
/* A word or a string, copied into the module; "" after a failure. */
const char *tir_expect_name(tir_parser_t *);
const char *tir_expect_string(tir_parser_t *);

/* Never NULL: after a failure some expression or number. */
tir_expr_t *tir_parse_expr(tir_parser_t *);
const ix_poly_t *tir_parse_poly(tir_parser_t *);
/* A constant with its sign. */
tir_expr_t *tir_parse_constant(tir_parser_t *);
/* Reads `%name` of a value in scope; NULL after a failure. */
tir_value_t *tir_parse_use(tir_parser_t *);

/* `loc("name":line:column)`; without it `here`, a place in this text. */
td_loc_t tir_parse_loc(tir_parser_t *, td_loc_t here);
/* `A..B` after its `in`; either end may be missing. */
void tir_parse_range(tir_parser_t *, const ix_poly_t **lo,
                     const ix_poly_t **hi);
/* A value with a name and nothing else, not in scope. */
tir_value_t *tir_new_value(tir_parser_t *, td_str_t name, td_loc_t loc);
/* `bf16[R, 1024]`: dtype and dims of a value. */
void tir_parse_type(tir_parser_t *, tir_value_t *);
/* Scalars of integer type stand for themselves in polynomials. */
void tir_give_symbol(tir_parser_t *, tir_value_t *, ix_symbol_kind_t kind);
/* Into scope, to the end of the innermost open block. */
void tir_declare(tir_parser_t *, tir_value_t *);
/* `let $0 = E` ...: fills `lets`. */
void tir_parse_lets(tir_parser_t *);
/* Nodes up to the word or brace that the owner of the block expects. */
void tir_parse_block(tir_parser_t *, tir_block_t *, int depth);

#endif
