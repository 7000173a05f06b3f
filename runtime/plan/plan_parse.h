/* plan_parse.h: what the files of the plan parser share (plan_lex.c
 * plan_parse.c plan_parse_entry.c).
 *
 * The text is hostile until parsed.  Tables grow as lines are read, so their
 * size is bounded by the text; every index is checked by plan_verify
 * afterwards, not here; the first fault ends the parse with F70. */
#ifndef TDSL_RUNTIME_PLAN_PARSE_H
#define TDSL_RUNTIME_PLAN_PARSE_H

#include "runtime/plan/plan_text.h"

typedef enum plan_lexeme {
  PLAN_T_END,
  PLAN_T_WORD,
  PLAN_T_INT,    /* digits */
  PLAN_T_FLOAT,  /* digits with a point or exponent */
  PLAN_T_STRING, /* text: decoded */
  PLAN_T_VAR,    /* text: digits after the $ */
  PLAN_T_PUNCT,
} plan_lexeme_t;

typedef struct plan_parser {
  td_task_t *task;
  td_arena_t *arena;
  uint32_t file;
  td_str_t text;
  size_t at;
  uint32_t line, column;
  bool failed;
  plan_lexeme_t lexeme; /* the token being looked at */
  td_str_t word;
  td_loc_t loc;
  plan_t *plan;
  /* names of the entry being read */
  const plan_var_t *vars;
  uint32_t var_count;
} plan_parser_t;

/* ---- plan_lex.c ---- */
void plan_next(plan_parser_t *);
/* Reports F70 at the current token, once; then everything reads as END. */
void plan_fail(plan_parser_t *, const char *format, ...) TD_PRINTF(2, 3);
bool plan_at(const plan_parser_t *, const char *text); /* word or sign */
bool plan_take(plan_parser_t *, const char *text);
void plan_expect(plan_parser_t *, const char *text);
/* With its sign; 0 after a failure. */
int64_t plan_expect_int(plan_parser_t *);
uint32_t plan_expect_index(plan_parser_t *); /* 0 .. 2^31-1 */
const char *plan_expect_string(plan_parser_t *);
double plan_expect_real(plan_parser_t *); /* `real(1.5)` */
tdsl_dtype_t plan_expect_dtype(plan_parser_t *);
td_loc_t plan_parse_loc(plan_parser_t *); /* `at 1:2:3-4:5`, or nothing */
plan_expr_t plan_parse_expr(plan_parser_t *);

/* ---- plan_parse_entry.c ---- */
/* After the word `entry`. */
void plan_parse_entry(plan_parser_t *, plan_entry_t *);

#endif
