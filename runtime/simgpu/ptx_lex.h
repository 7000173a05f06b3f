/* Reads PTX text token by token. Comments and blanks disappear; a statement
   may hold tabs, odd spacing and pasted inline assembly. */
#ifndef SIM_PTX_LEX_H
#define SIM_PTX_LEX_H

#include "runtime/base/str.h"

typedef enum ptx_token_t {
  PTX_TOKEN_END,
  PTX_TOKEN_WORD,   /* letters, digits, _ $ %, not starting with a digit */
  PTX_TOKEN_DOT,    /* .word, colons pairs included: ".shared::cta" */
  PTX_TOKEN_NUMBER, /* integer: value */
  PTX_TOKEN_F32,    /* 0f........: value holds the bits */
  PTX_TOKEN_F64,    /* 0d................ or decimal with a point */
  PTX_TOKEN_STRING, /* text without its quotes */
  PTX_TOKEN_PUNCT,  /* one character: punct */
  PTX_TOKEN_BAD     /* text says what */
} ptx_token_t;

typedef struct ptx_lexer_t {
  const char *at, *end;
  uint32_t line;
  /* The current token. */
  ptx_token_t kind;
  char punct;
  td_str_t text;
  uint64_t value;
  const char *start; /* where it began */
} ptx_lexer_t;

/* Starts before the first token. */
void ptx_lex_start(ptx_lexer_t *lexer, td_str_t text);
void ptx_lex_next(ptx_lexer_t *lexer);

/* A number with a point right behind it, which a version has too: an operand
   reads it again as a decimal. */
bool ptx_lex_has_point(const ptx_lexer_t *lexer);
void ptx_lex_decimal(ptx_lexer_t *lexer);

/* The current token is the first word of an instruction: extends it over the
   dotted rest and returns the whole name. */
td_str_t ptx_lex_mnemonic(ptx_lexer_t *lexer);

/* True if the next character after blanks is c; consumes nothing. */
bool ptx_lex_peek(ptx_lexer_t *lexer, char c);

static inline bool ptx_is_punct(const ptx_lexer_t *lexer, char c) {
  return lexer->kind == PTX_TOKEN_PUNCT && lexer->punct == c;
}

#endif
