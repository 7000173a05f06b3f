/* plan_lex.c: tokens and expressions of the text form of plans. */
#include "runtime/plan/plan_parse.h"

#include "runtime/base/num.h"

enum { MAX_DEPTH = 200 };

void plan_fail(plan_parser_t *p, const char *format, ...) {
  va_list args;
  if (!p->failed) {
    va_start(args, format);
    const char *text = td_arena_vprintf(p->arena, format, args);
    va_end(args);
    td_diag(p->task, TD_F70, p->loc, "%s", text);
  }
  p->failed = true;
  p->lexeme = PLAN_T_END;
  p->word = td_str("end of text");
}

/* ---- characters ---------------------------------------------------------- */

static int peek(const plan_parser_t *p, size_t ahead) {
  size_t at = p->at + ahead;
  return at < p->text.length ? (unsigned char)p->text.data[at] : -1;
}

static void skip(plan_parser_t *p, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    bool is_line = p->text.data[p->at++] == '\n';
    p->line += is_line ? 1 : 0;
    p->column = is_line ? 1 : p->column + 1;
  }
}

static bool is_digit(int c) {
  return c >= '0' && c <= '9';
}

static bool is_letter(int c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static size_t digits(const plan_parser_t *p, size_t from) {
  while (is_digit(peek(p, from))) from++;
  return from;
}

static void take(plan_parser_t *p, plan_lexeme_t lexeme, size_t bytes) {
  p->lexeme = lexeme;
  p->word = td_str_n(p->text.data + p->at, bytes);
  skip(p, bytes);
}

/* `0 .. 9` keeps its dots: a point belongs to a number before a digit only.
 * A sign is a token of its own. */
static void lex_number(plan_parser_t *p) {
  size_t n = digits(p, 0);
  plan_lexeme_t kind = PLAN_T_INT;
  if (peek(p, n) == '.' && is_digit(peek(p, n + 1))) {
    kind = PLAN_T_FLOAT;
    n = digits(p, n + 1);
  }
  if (peek(p, n) == 'e') {
    size_t sign = peek(p, n + 1) == '+' || peek(p, n + 1) == '-' ? 1 : 0;
    if (is_digit(peek(p, n + 1 + sign))) {
      kind = PLAN_T_FLOAT;
      n = digits(p, n + 1 + sign);
    }
  }
  take(p, kind, n);
}

static int hex_digit(int c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What td_buf_json writes: two-character escapes, and \u00XX. */
static bool lex_escape(plan_parser_t *p, td_buf_t *b) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  int c = peek(p, 0);
  if (c < 0) return false;
  skip(p, 1);
  if (c == 'u') {
    int hi = hex_digit(peek(p, 2)), lo = hex_digit(peek(p, 3));
    bool ok = peek(p, 0) == '0' && peek(p, 1) == '0' && hi >= 0 && hi < 8 &&
              lo >= 0 && hi + lo > 0;
    if (!ok) return false;
    td_buf_putc(b, (char)(hi * 16 + lo));
    skip(p, 4);
    return true;
  }
  for (size_t i = 0; from[i] != '\0'; i++) {
    if (c != from[i]) continue;
    td_buf_putc(b, to[i]);
    return true;
  }
  return false;
}

static void lex_string(plan_parser_t *p) {
  td_buf_t b;
  td_buf_init(&b, p->task);
  skip(p, 1);
  bool ok = true;
  while (ok && peek(p, 0) != '"') {
    int c = peek(p, 0);
    ok = c >= ' ';
    if (!ok) break;
    skip(p, 1);
    if (c == '\\') {
      ok = lex_escape(p, &b);
    } else {
      td_buf_putc(&b, (char)c);
    }
  }
  if (ok) skip(p, 1);
  ok = ok && td_utf8_valid(b.data, b.length);
  p->lexeme = PLAN_T_STRING;
  p->word = td_str(td_buf_finish(&b, p->arena));
  if (!ok) plan_fail(p, "malformed string");
}

static void lex_punct(plan_parser_t *p) {
  static const char *const two[] = {"..", "==", "!=", "<=", ">=", "&&", "||"};
  td_str_t rest = td_str_n(p->text.data + p->at, p->text.length - p->at);
  size_t n = 0;
  for (size_t i = 0; i < sizeof two / sizeof two[0]; i++) {
    if (td_str_starts(rest, two[i])) n = 2;
  }
  int c = peek(p, 0);
  if (n == 0 && c > 0 && strchr("()[]{},:=+-*/%<>", c) != NULL) n = 1;
  if (n == 0) {
    plan_fail(p, "unexpected character");
    return;
  }
  take(p, PLAN_T_PUNCT, n);
}

void plan_next(plan_parser_t *p) {
  if (p->failed) return;
  int c;
  while ((c = peek(p, 0)) == ' ' || c == '\n' || c == '\t' || c == '\r') {
    skip(p, 1);
  }
  p->loc = (td_loc_t){p->file, p->line, p->column, 0, 0};
  if (c < 0) {
    p->lexeme = PLAN_T_END;
    p->word = td_str("end of text");
  } else if (is_digit(c)) {
    lex_number(p);
  } else if (is_letter(c)) {
    size_t n = 1;
    while (is_letter(peek(p, n)) || is_digit(peek(p, n))) n++;
    take(p, PLAN_T_WORD, n);
  } else if (c == '"') {
    lex_string(p);
  } else if (c == '$') {
    skip(p, 1);
    take(p, PLAN_T_VAR, digits(p, 0));
  } else {
    lex_punct(p);
  }
}

/* ---- tokens -------------------------------------------------------------- */

bool plan_at(const plan_parser_t *p, const char *text) {
  return (p->lexeme == PLAN_T_WORD || p->lexeme == PLAN_T_PUNCT) &&
         td_str_eqc(p->word, text);
}

bool plan_take(plan_parser_t *p, const char *text) {
  if (!plan_at(p, text)) return false;
  plan_next(p);
  return true;
}

void plan_expect(plan_parser_t *p, const char *text) {
  if (plan_take(p, text)) return;
  plan_fail(p, "expected `%s`, got `%.*s`", text, TD_STR_ARG(p->word));
}

/* Digits up to 2^63, so that the smallest integer can be negated. */
static bool digits_value(td_str_t word, bool is_negative, int64_t *out) {
  uint64_t n = 0, limit = (uint64_t)INT64_MAX + (is_negative ? 1 : 0);
  for (size_t i = 0; i < word.length; i++) {
    uint64_t digit = (uint64_t)(word.data[i] - '0');
    if (n > (limit - digit) / 10) return false;
    n = n * 10 + digit;
  }
  *out = is_negative ? (int64_t)(0 - n) : (int64_t)n;
  return word.length > 0;
}

int64_t plan_expect_int(plan_parser_t *p) {
  bool is_negative = plan_take(p, "-");
  int64_t value = 0;
  if (p->lexeme != PLAN_T_INT ||
      !digits_value(p->word, is_negative, &value)) {
    plan_fail(p, "expected an integer, got `%.*s`", TD_STR_ARG(p->word));
    return 0;
  }
  plan_next(p);
  return value;
}

uint32_t plan_expect_index(plan_parser_t *p) {
  int64_t value = plan_expect_int(p);
  if (value >= 0 && value <= INT32_MAX) return (uint32_t)value;
  plan_fail(p, "%lld is no index", (long long)value);
  return 0;
}

const char *plan_expect_string(plan_parser_t *p) {
  if (p->lexeme != PLAN_T_STRING) {
    plan_fail(p, "expected a string, got `%.*s`", TD_STR_ARG(p->word));
    return "";
  }
  const char *text = td_str_cstr(p->arena, p->word);
  plan_next(p);
  return text;
}

double plan_expect_real(plan_parser_t *p) {
  double value = 0;
  plan_expect(p, "real");
  plan_expect(p, "(");
  bool is_negative = plan_take(p, "-");
  if (p->failed || !td_parse_f64(p->word, &value)) {
    plan_fail(p, "expected a number");
    return 0;
  }
  plan_next(p);
  plan_expect(p, ")");
  return is_negative ? -value : value;
}

tdsl_dtype_t plan_expect_dtype(plan_parser_t *p) {
  tdsl_dtype_t dtype = TDSL_DTYPE_UNSET;
  if (p->lexeme == PLAN_T_WORD) dtype = td_dtype_parse(p->word);
  if (dtype == TDSL_DTYPE_UNSET) {
    plan_fail(p, "expected a dtype, got `%.*s`", TD_STR_ARG(p->word));
    return TDSL_DTYPE_F32;
  }
  plan_next(p);
  return dtype;
}

td_loc_t plan_parse_loc(plan_parser_t *p) {
  td_loc_t l = {0};
  if (!plan_take(p, "at")) return l;
  l.file = plan_expect_index(p);
  plan_expect(p, ":");
  l.line = plan_expect_index(p);
  plan_expect(p, ":");
  l.column = plan_expect_index(p);
  plan_expect(p, "-");
  l.end_line = plan_expect_index(p);
  plan_expect(p, ":");
  l.end_column = plan_expect_index(p);
  return l;
}

/* ---- expressions --------------------------------------------------------- */

typedef TD_VEC(plan_token_t) tokens_t;

static void push(plan_parser_t *p, tokens_t *out, plan_x_t op,
                 int64_t value) {
  plan_token_t t = {.op = op, .value = value};
  td_vec_push(p->arena, out, t);
}

/* The operation of a sign or a function name; COUNT: none. */
static plan_x_t find_op(const plan_parser_t *p, bool is_infix) {
  for (int i = 0; i < PLAN_X_COUNT; i++) {
    plan_sign_t s = plan_sign((plan_x_t)i);
    if (s.pops > 0 && (s.level > 0) == is_infix && plan_at(p, s.text)) {
      return (plan_x_t)i;
    }
  }
  return PLAN_X_COUNT;
}

static void parse_level(plan_parser_t *p, tokens_t *out, int level,
                        int depth);

static void parse_name(plan_parser_t *p, tokens_t *out) {
  for (uint32_t i = 0; i < p->var_count; i++) {
    if (!td_str_eqc(p->word, p->vars[i].name)) continue;
    push(p, out, PLAN_X_VAR, i);
    plan_next(p);
    return;
  }
  plan_fail(p, "unknown dim `%.*s`", TD_STR_ARG(p->word));
}

static void parse_call(plan_parser_t *p, tokens_t *out, plan_x_t op,
                       int depth) {
  plan_next(p);
  plan_expect(p, "(");
  parse_level(p, out, 1, depth + 1);
  if (plan_sign(op).pops == 2) {
    plan_expect(p, ",");
    parse_level(p, out, 1, depth + 1);
  }
  plan_expect(p, ")");
  push(p, out, op, 0);
}

static void parse_leaf(plan_parser_t *p, tokens_t *out, int depth) {
  int64_t value;
  if (depth > MAX_DEPTH) {
    plan_fail(p, "expression is nested too deeply");
    return;
  }
  plan_x_t op = find_op(p, false);
  if (op != PLAN_X_COUNT) {
    parse_call(p, out, op, depth);
  } else if (plan_take(p, "(")) {
    parse_level(p, out, 1, depth + 1);
    plan_expect(p, ")");
  } else if (plan_at(p, "real")) {
    plan_token_t t = {.op = PLAN_X_REAL};
    t.real = plan_expect_real(p);
    td_vec_push(p->arena, out, t);
  } else if (plan_take(p, "slot")) {
    plan_expect(p, "(");
    push(p, out, PLAN_X_SCALAR, plan_expect_index(p));
    plan_expect(p, ")");
  } else if (p->lexeme == PLAN_T_VAR) {
    if (!digits_value(p->word, false, &value)) plan_fail(p, "no variable");
    if (!p->failed) push(p, out, PLAN_X_VAR, value);
    plan_next(p);
  } else if (p->lexeme == PLAN_T_WORD) {
    parse_name(p, out);
  } else {
    push(p, out, PLAN_X_CONST, plan_expect_int(p));
  }
}

/* A chain of signs of at least this level.  A chain is a loop; recursion is
 * over levels and parentheses only. */
static void parse_level(plan_parser_t *p, tokens_t *out, int level,
                        int depth) {
  parse_leaf(p, out, depth);
  while (!p->failed) {
    plan_x_t op = find_op(p, true);
    if (op == PLAN_X_COUNT || plan_sign(op).level < level) return;
    plan_next(p);
    parse_level(p, out, plan_sign(op).level + 1, depth);
    push(p, out, op, 0);
  }
}

plan_expr_t plan_parse_expr(plan_parser_t *p) {
  tokens_t tokens = {0};
  parse_level(p, &tokens, 1, 0);
  plan_expr_t e = {(uint32_t)tokens.length, tokens.data};
  return e;
}
