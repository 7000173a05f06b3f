/* tir_text.c: the tables behind tir_text.h, made from tir_ops.def.
 *
 * Asked with a number out of range, as a module that a fault has damaged may
 * have, they answer `?` instead of reading past the table: the printer must
 * get through, for its output is what the fault is reported with. */
#include "ir/tir_text.h"

typedef struct scalar_row {
  const char *text;
  int arity;
} scalar_row_t;

static const scalar_row_t scalar_rows[] = {
#define TIR_SCALAR(id, text, arity, class, sentence) {text, arity},
#include "ir/tir_ops.def"
};

static const char *const kind_rows[] = {
#define TIR_NODE(id, text, sentence) text,
#include "ir/tir_ops.def"
};

/* ORDER TIR: the rows follow tir_reduce_t. */
static const char *const reduce_rows[] = {
    "", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};
_Static_assert(sizeof reduce_rows / sizeof reduce_rows[0] ==
                   TIR_REDUCE_ARGMIN + 1,
               "one word a reduction");

const char *tir_x_text(tir_x_t op) {
  return op < TIR_X_COUNT ? scalar_rows[op].text : "?";
}

int tir_x_arity(tir_x_t op) {
  return op < TIR_X_COUNT ? scalar_rows[op].arity : 0;
}

const char *tir_kind_text(tir_kind_t kind) {
  return kind < TIR_KIND_COUNT ? kind_rows[kind] : "?";
}

const char *tir_reduce_text(tir_reduce_t reduce) {
  return reduce <= TIR_REDUCE_ARGMIN ? reduce_rows[reduce] : "?";
}

bool tir_is_reserved(td_str_t word) {
  static const char *const words[] = {"inf", "nan", "true", "false",
                                      "in",  "let", "where", "loc",
                                      "transport"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (td_str_eqc(word, words[i])) return true;
  return false;
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t tir_word_length(td_str_t text) {
  size_t n = 0;
  while (n < text.length) {
    char c = text.data[n];
    char next = n + 1 < text.length ? text.data[n + 1] : ' ';
    bool dot = c == '.' && (is_letter(next) || is_digit(next));
    if (!is_letter(c) && !is_digit(c) && !dot) break;
    n++;
  }
  return n;
}

bool tir_is_word(td_str_t text) {
  return text.length > 0 && is_letter(text.data[0]) &&
         tir_word_length(text) == text.length;
}
