/* tir_lex.c: tokens of the text forms of TIR and KIR.
 *
 * Tokens are views of the source text, except strings, which are decoded.
 * Blanks and line ends only separate; `//` begins a comment.  One token is
 * looked at, the text behind it has not been read: going back is a matter of
 * restoring the cursor. */
#include "ir/tir_parse.h"

void tir_fail(tir_parser_t *p, const char *format, ...) {
  va_list args;
  if (!p->failed) {
    va_start(args, format);
    const char *text = td_arena_vprintf(&p->scratch, format, args);
    va_end(args);
    (void)td_diag(p->task, TD_F70, p->now.loc, "%s", text);
  }
  p->failed = true;
  p->now.token = TIR_T_END;
  p->now.word = td_str("");
}

/* The byte that many places ahead, -1 past the end. The text is not relied
 * on to end in NUL, nor to be free of it. */
static int peek(const tir_parser_t *p, size_t ahead) {
  size_t at = p->now.at + ahead;
  return at < p->text.length ? (unsigned char)p->text.data[at] : -1;
}

/* Keeps the line and column, which are what every report points with. */
static void skip(tir_parser_t *p, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    bool is_line = p->text.data[p->now.at++] == '\n';
    p->now.line += is_line ? 1 : 0;
    p->now.column = is_line ? 1 : p->now.column + 1;
  }
}

static void skip_blanks(tir_parser_t *p) {
  for (;;) {
    int c = peek(p, 0);
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      skip(p, 1);
    } else if (c == '/' && peek(p, 1) == '/') {
      while (peek(p, 0) != '\n' && peek(p, 0) >= 0) skip(p, 1);
    } else {
      return;
    }
  }
}

static td_str_t rest(const tir_parser_t *p) {
  return td_str_n(p->text.data + p->now.at, p->text.length - p->now.at);
}

/* The sigil is not part of the word. An empty word is possible after `@` and
 * `$`; whoever expects a name then refuses it. */
static void lex_word(tir_parser_t *p, tir_token_t token, size_t sigil) {
  skip(p, sigil);
  td_str_t text = rest(p);
  text.length = tir_word_length(text);
  skip(p, text.length);
  p->now.token = token;
  p->now.word = text;
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

static size_t digits(const tir_parser_t *p, size_t from) {
  while (is_digit(peek(p, from))) from++;
  return from;
}

/* `0..9` is a range: a point belongs to a number only before a digit. A sign
 * never does; constants have one of their own. */
static void lex_number(tir_parser_t *p) {
  size_t n = digits(p, 0);
  p->now.token = TIR_T_INT;
  if (peek(p, n) == '.' && is_digit(peek(p, n + 1))) {
    p->now.token = TIR_T_FLOAT;
    n = digits(p, n + 1);
  }
  if (peek(p, n) == 'e' || peek(p, n) == 'E') {
    size_t sign = peek(p, n + 1) == '+' || peek(p, n + 1) == '-' ? 1 : 0;
    if (is_digit(peek(p, n + 1 + sign))) {
      p->now.token = TIR_T_FLOAT;
      n = digits(p, n + 1 + sign);
    }
  }
  p->now.word = td_str_n(p->text.data + p->now.at, n);
  skip(p, n);
  if (tir_word_length(rest(p)) > 0) tir_fail(p, "malformed number");
}

/* Four hexadecimal digits after `\u`, as UTF-8; td_buf_json writes control
 * characters so, nothing above. */
static bool lex_unicode(tir_parser_t *p, td_buf_t *b) {
  uint32_t code = 0;
  for (size_t i = 0; i < 4; i++) {
    int c = peek(p, i);
    int digit = is_digit(c)              ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return false;
    code = code * 16 + (uint32_t)digit;
  }
  if (code == 0 || (code >= 0xd800 && code < 0xe000)) return false;
  skip(p, 4);
  if (code < 0x80) {
    td_buf_putc(b, (char)code);
  } else if (code < 0x800) {
    td_buf_putc(b, (char)(0xc0 | code >> 6));
    td_buf_putc(b, (char)(0x80 | (code & 0x3f)));
  } else {
    td_buf_putc(b, (char)(0xe0 | code >> 12));
    td_buf_putc(b, (char)(0x80 | (code >> 6 & 0x3f)));
    td_buf_putc(b, (char)(0x80 | (code & 0x3f)));
  }
  return true;
}

/* After a backslash. False for one that td_buf_json never writes. */
static bool lex_escape(tir_parser_t *p, td_buf_t *b) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  int c = peek(p, 0);
  if (c < 0) return false;
  skip(p, 1);
  if (c == 'u') return lex_unicode(p, b);
  for (size_t i = 0; from[i] != '\0'; i++)
    if (c == from[i]) {
      td_buf_putc(b, to[i]);
      return true;
    }
  return false;
}

/* Decoded into the scratch arena. NUL, raw control characters and malformed
 * UTF-8 are refused: names end up in C strings and in messages. */
static void lex_string(tir_parser_t *p) {
  td_buf_t b;
  td_buf_init(&b, p->task);
  skip(p, 1);
  bool ok = true;
  while (ok && peek(p, 0) != '"') {
    int c = peek(p, 0);
    ok = c >= ' ';
    if (!ok) break;
    skip(p, 1);
    if (c == '\\')
      ok = lex_escape(p, &b);
    else
      td_buf_putc(&b, (char)c);
  }
  if (ok) skip(p, 1);
  ok = ok && td_utf8_valid(b.data, b.length);
  p->now.token = TIR_T_STRING;
  p->now.word = td_str(td_buf_finish(&b, &p->scratch));
  if (!ok) tir_fail(p, "malformed string");
}

/* The longest match first. */
static void lex_punct(tir_parser_t *p) {
  static const char *const two[] = {"..", ":=", "+=", "==", "!=", "<=", ">="};
  static const char one[] = "()[]{},;:=+-*/%<>";
  size_t n = 0;
  for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
    if (td_str_starts(rest(p), two[i])) n = 2;
  if (n == 0 && strchr(one, peek(p, 0)) != NULL) n = 1;
  p->now.token = TIR_T_PUNCT;
  p->now.word = td_str_n(p->text.data + p->now.at, n);
  if (n == 0)
    tir_fail(p, "unexpected character");
  else
    skip(p, n);
}

static bool is_word_byte(int c) {
  char text[1] = {(char)c};
  return c > 0 && tir_word_length(td_str_n(text, 1)) == 1;
}

/* Nothing moves after a failure, so loops that wait for a token must also
 * ask for `failed` or for the end of the text. */
void tir_next(tir_parser_t *p) {
  if (p->failed) return;
  skip_blanks(p);
  td_loc_t loc = {p->file, p->now.line, p->now.column, 0, 0};
  p->now.loc = loc;
  int c = peek(p, 0);
  if (c < 0) {
    p->now.token = TIR_T_END;
    p->now.word = td_str("end of text");
  } else if (c == '%' && is_word_byte(peek(p, 1))) {
    lex_word(p, TIR_T_VALUE, 1);
  } else if (c == '@') {
    lex_word(p, TIR_T_FUNC, 1);
  } else if (c == '$') {
    lex_word(p, TIR_T_LET, 1);
  } else if (is_digit(c)) {
    lex_number(p);
  } else if (is_word_byte(c)) {
    lex_word(p, TIR_T_WORD, 0);
  } else if (c == '"') {
    lex_string(p);
  } else {
    lex_punct(p);
  }
}

bool tir_at_punct(const tir_parser_t *p, const char *text) {
  return p->now.token == TIR_T_PUNCT && td_str_eqc(p->now.word, text);
}

bool tir_at_word(const tir_parser_t *p, const char *text) {
  return p->now.token == TIR_T_WORD && td_str_eqc(p->now.word, text);
}

bool tir_take_punct(tir_parser_t *p, const char *text) {
  if (!tir_at_punct(p, text)) return false;
  tir_next(p);
  return true;
}

bool tir_take_word(tir_parser_t *p, const char *text) {
  if (!tir_at_word(p, text)) return false;
  tir_next(p);
  return true;
}

void tir_expect_punct(tir_parser_t *p, const char *text) {
  if (!tir_take_punct(p, text))
    tir_fail(p, "expected `%s`, got `%.*s`", text, TD_STR_ARG(p->now.word));
}

int64_t tir_expect_int(tir_parser_t *p) {
  int64_t value = 0;
  if (p->now.token != TIR_T_INT || !td_parse_i64(p->now.word, &value)) {
    tir_fail(p, "expected an integer");
    return 0;
  }
  tir_next(p);
  return value;
}

const char *tir_expect_string(tir_parser_t *p) {
  const char *text = "";
  if (p->now.token == TIR_T_STRING)
    text = td_str_cstr(p->arena, p->now.word);
  else
    tir_fail(p, "expected a string");
  tir_next(p);
  return text;
}

const char *tir_expect_name(tir_parser_t *p) {
  if (p->now.token == TIR_T_STRING) return tir_expect_string(p);
  const char *text = "";
  if (p->now.token == TIR_T_WORD)
    text = td_str_cstr(p->arena, p->now.word);
  else
    tir_fail(p, "expected a name");
  tir_next(p);
  return text;
}
