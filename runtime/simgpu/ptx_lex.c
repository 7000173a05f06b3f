#include "runtime/simgpu/ptx_lex.h"

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '$' || c == '%';
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void ptx_lex_start(ptx_lexer_t *lexer, td_str_t text) {
  memset(lexer, 0, sizeof *lexer);
  lexer->at = text.data;
  lexer->end = text.data + text.length;
  lexer->line = 1;
}

static void skip_blanks(ptx_lexer_t *lexer) {
  const char *p = lexer->at, *end = lexer->end;
  while (p < end) {
    char c = *p;
    if (c == '\n') {
      lexer->line++;
      p++;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' ||
               c == '\v') {
      p++;
    } else if (c == '/' && end - p >= 2 && p[1] == '/') {
      while (p < end && *p != '\n') p++;
    } else if (c == '/' && end - p >= 2 && p[1] == '*') {
      const char *q = p + 2;
      uint32_t lines = 0;
      while (q < end && !(*q == '*' && end - q >= 2 && q[1] == '/'))
        lines += *q++ == '\n';
      if (q == end) break; /* it never ends: ptx_lex_next() says so */
      lexer->line += lines;
      p = q + 2;
    } else {
      break;
    }
  }
  lexer->at = p;
}

bool ptx_lex_peek(ptx_lexer_t *lexer, char c) {
  const char *at = lexer->at;
  uint32_t line = lexer->line;
  skip_blanks(lexer);
  bool found = lexer->at < lexer->end && *lexer->at == c;
  lexer->at = at;
  lexer->line = line;
  return found;
}

static void bad(ptx_lexer_t *lexer, const char *what) {
  lexer->kind = PTX_TOKEN_BAD;
  lexer->text = td_str(what);
}

/* 0f and 0d with exactly the digits of the format. */
static void hex_float(ptx_lexer_t *lexer, int digits) {
  const char *p = lexer->at + 2;
  uint64_t value = 0;
  for (int i = 0; i < digits; i++, p++) {
    int v = p < lexer->end ? hex_value(*p) : -1;
    if (v < 0) {
      bad(lexer, "malformed floating-point literal");
      return;
    }
    value = value << 4 | (uint64_t)v;
  }
  if (p < lexer->end && (is_letter(*p) || is_digit(*p))) {
    bad(lexer, "malformed floating-point literal");
    return;
  }
  lexer->value = value;
  lexer->at = p;
  lexer->kind = digits == 8 ? PTX_TOKEN_F32 : PTX_TOKEN_F64;
}

/* "1.0": the digits as an integer over a power of ten, both of which f64
   holds, so that one division rounds once. Longer ones are refused; what
   needs them is written 0d. */
void ptx_lex_decimal(ptx_lexer_t *lexer) {
  const char *p = lexer->start, *end = lexer->end;
  uint64_t digits = 0;
  double scale = 1;
  bool is_behind = false;
  for (; p < end && (is_digit(*p) || (*p == '.' && !is_behind)); p++) {
    if (*p == '.') {
      is_behind = true;
      continue;
    }
    digits = digits * 10 + (uint64_t)(*p - '0');
    if (is_behind) scale *= 10;
    if (digits > (UINT64_C(1) << 53) || scale > 1e22) {
      bad(lexer, "a decimal with too many digits");
      return;
    }
  }
  if (p < end && (is_letter(*p) || *p == '.')) {
    bad(lexer, "malformed number");
    return;
  }
  double value = (double)digits / scale;
  memcpy(&lexer->value, &value, sizeof value);
  lexer->at = p;
  lexer->kind = PTX_TOKEN_F64;
}

bool ptx_lex_has_point(const ptx_lexer_t *lexer) {
  const char *p = lexer->at;
  return lexer->kind == PTX_TOKEN_NUMBER && lexer->end - p >= 2 &&
         *p == '.' && is_digit(p[1]);
}

static void number(ptx_lexer_t *lexer) {
  const char *p = lexer->at, *end = lexer->end;
  uint64_t value = 0;
  unsigned base = 10;
  if (*p == '0' && end - p >= 2) {
    char c = p[1];
    if (c == 'f' || c == 'F') {
      hex_float(lexer, 8);
      return;
    }
    if (c == 'd' || c == 'D') {
      hex_float(lexer, 16);
      return;
    }
    if (c == 'x' || c == 'X') {
      base = 16;
      p += 2;
    } else if (c == 'b' || c == 'B') {
      base = 2;
      p += 2;
    } else if (is_digit(c)) {
      base = 8;
      p += 1;
    }
  }
  const char *first = p;
  while (p < end) {
    int v = hex_value(*p);
    if (v < 0 || (unsigned)v >= base) break;
    uint64_t next = value * base + (unsigned)v;
    if (value > (UINT64_MAX - (unsigned)v) / base) {
      bad(lexer, "number too large");
      return;
    }
    value = next;
    p++;
  }
  if (p == first) {
    bad(lexer, "malformed number");
    return;
  }
  if (p < end && *p == 'U') p++;
  if (p < end && (is_letter(*p) || is_digit(*p))) {
    bad(lexer, "malformed number");
    return;
  }
  lexer->kind = PTX_TOKEN_NUMBER;
  lexer->value = value;
  lexer->at = p;
}

/* The characters of a name's dotted rest: ".b32", ".shared::cta". */
static const char *dotted(const char *p, const char *end) {
  while (p < end) {
    if (is_letter(*p) || is_digit(*p) || *p == '.') {
      p++;
    } else if (*p == ':' && end - p >= 3 && p[1] == ':' &&
               (is_letter(p[2]) || is_digit(p[2]))) {
      p += 2;
    } else {
      break;
    }
  }
  return p;
}

void ptx_lex_next(ptx_lexer_t *lexer) {
  skip_blanks(lexer);
  const char *p = lexer->at, *end = lexer->end;
  lexer->start = p;
  lexer->text = td_str_n(p, 0);
  if (p >= end) {
    lexer->kind = PTX_TOKEN_END;
    return;
  }
  char c = *p;
  if (is_letter(c)) {
    while (p < end && (is_letter(*p) || is_digit(*p))) p++;
    lexer->kind = PTX_TOKEN_WORD;
  } else if (is_digit(c)) {
    number(lexer);
    if (lexer->kind != PTX_TOKEN_BAD)
      lexer->text = td_str_n(lexer->start, (size_t)(lexer->at -
                                                    lexer->start));
    return;
  } else if (c == '.' && end - p >= 2 && (is_letter(p[1]) ||
                                          is_digit(p[1]))) {
    p++;
    while (p < end && (is_letter(*p) || is_digit(*p) ||
                       (*p == ':' && end - p >= 3 && p[1] == ':'))) {
      p += *p == ':' ? 2 : 1;
    }
    lexer->kind = PTX_TOKEN_DOT;
  } else if (c == '"') {
    const char *q = p + 1;
    while (q < end && *q != '"' && *q != '\n') {
      q += *q == '\\' && end - q >= 2 ? 2 : 1;
    }
    if (q >= end || *q != '"') {
      bad(lexer, "unterminated string");
      return;
    }
    lexer->kind = PTX_TOKEN_STRING;
    lexer->text = td_str_n(p + 1, (size_t)(q - p - 1));
    lexer->at = q + 1;
    return;
  } else if (c == '/' && end - p >= 2 && p[1] == '*') {
    bad(lexer, "unterminated comment");
    return;
  } else if ((unsigned char)c < 32 || (unsigned char)c >= 127) {
    bad(lexer, "a byte that PTX does not use");
    return;
  } else {
    lexer->kind = PTX_TOKEN_PUNCT;
    lexer->punct = c;
    p++;
  }
  lexer->text = td_str_n(lexer->start, (size_t)(p - lexer->start));
  lexer->at = p;
}

td_str_t ptx_lex_mnemonic(ptx_lexer_t *lexer) {
  lexer->at = dotted(lexer->at, lexer->end);
  lexer->text = td_str_n(lexer->start, (size_t)(lexer->at - lexer->start));
  return lexer->text;
}
