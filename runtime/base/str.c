/* Views, nearest names, UTF-8 and the text builder. */
#include "runtime/base/str.h"

#include "runtime/base/num.h"
#include "runtime/base/task.h"

/* memcmp must not see NULL, which an empty view may hold. */
int td_str_cmp(td_str_t a, td_str_t b) {
  size_t n = a.length < b.length ? a.length : b.length;
  int order = n ? memcmp(a.data, b.data, n) : 0;
  if (order) return order < 0 ? -1 : 1;
  return a.length < b.length ? -1 : a.length > b.length;
}

const char *td_str_cstr(td_arena_t *arena, td_str_t s) {
  return td_arena_strndup(arena, s.data, s.length);
}

/* -- nearest names -- */

/* The longest identifier; tensor names are cut to it. */
#define LONGEST_NAME 255u

/* Optimal string alignment: three rows of the table are kept, since a swap
   looks two rows back. */
size_t td_edit_distance(td_str_t a, td_str_t b, size_t cap) {
  uint16_t rows[3][LONGEST_NAME + 1];
  size_t n = a.length < LONGEST_NAME ? a.length : LONGEST_NAME;
  size_t m = b.length < LONGEST_NAME ? b.length : LONGEST_NAME;
  if ((n > m ? n - m : m - n) > cap) return cap + 1;
  for (size_t j = 0; j <= m; j++) rows[0][j] = (uint16_t)j;
  for (size_t i = 1; i <= n; i++) {
    uint16_t *now = rows[i % 3], *up = rows[(i + 2) % 3];
    uint16_t *up2 = rows[(i + 1) % 3];
    now[0] = (uint16_t)i;
    for (size_t j = 1; j <= m; j++) {
      unsigned best = up[j - 1] + (a.data[i - 1] != b.data[j - 1] ? 1u : 0u);
      if (up[j] + 1u < best) best = up[j] + 1u;
      if (now[j - 1] + 1u < best) best = now[j - 1] + 1u;
      if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] &&
          a.data[i - 2] == b.data[j - 1] && up2[j - 2] + 1u < best) {
        best = up2[j - 2] + 1u;
      }
      now[j] = (uint16_t)best;
    }
  }
  size_t distance = rows[n % 3][m];
  return distance > cap ? cap + 1 : distance;
}

td_nearest_t td_nearest_start(td_str_t want) {
  /* A third of the name may differ; one-letter names are near nothing. */
  td_nearest_t n = {want, {NULL, 0}, (want.length + 1) / 3 + 1};
  return n;
}

/* distance is the best so far and shrinks, so later names stop early. */
void td_nearest_offer(td_nearest_t *nearest, td_str_t name) {
  if (nearest->distance == 0) return;
  size_t d = td_edit_distance(nearest->want, name, nearest->distance);
  if (d < nearest->distance) {
    nearest->distance = d;
    nearest->best = name;
  }
}

/* -- UTF-8 -- */

/* The first byte says how many follow; overlong forms, surrogates and values
   above U+10FFFF are malformed (Unicode, table 3-7). */
size_t td_utf8_decode(const char *s, size_t length, uint32_t *out) {
  const unsigned char *p = (const unsigned char *)s;
  if (length == 0) return 0;
  uint32_t code = p[0];
  size_t count = 1;
  uint32_t least = 0;
  if (code >= 0x80) {
    if (code >= 0xc2 && code <= 0xdf) {
      code &= 0x1f, count = 2, least = 0x80;
    } else if (code >= 0xe0 && code <= 0xef) {
      code &= 0x0f, count = 3, least = 0x800;
    } else if (code >= 0xf0 && code <= 0xf4) {
      code &= 0x07, count = 4, least = 0x10000;
    } else {
      return 0;
    }
    if (count > length) return 0;
    for (size_t i = 1; i < count; i++) {
      if ((p[i] & 0xc0) != 0x80) return 0;
      code = code << 6 | (p[i] & 0x3f);
    }
    if (code < least || code > 0x10ffff) return 0;
    if (code >= 0xd800 && code <= 0xdfff) return 0; /* surrogates */
  }
  if (out) *out = code;
  return count;
}

/* Nothing is skipped: one bad byte makes the whole invalid. */
bool td_utf8_valid(const char *s, size_t length) {
  for (size_t i = 0; i < length;) {
    size_t n = td_utf8_decode(s + i, length - i, NULL);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

/* The blocks that matter for source text and file names, not the whole of
   Unicode: first, last, columns; ascending. */
static const struct {
  uint32_t first, last;
  int columns;
} widths[] = {
    {0x300, 0x36f, 0},     {0x483, 0x489, 0},     {0x591, 0x5bd, 0},
    {0x610, 0x61a, 0},     {0x64b, 0x65f, 0},     {0x1100, 0x115f, 2},
    {0x1ab0, 0x1aff, 0},   {0x1dc0, 0x1dff, 0},   {0x200b, 0x200f, 0},
    {0x20d0, 0x20ff, 0},   {0x2e80, 0x303e, 2},   {0x3041, 0x4dbf, 2},
    {0x4e00, 0xa4cf, 2},   {0xa960, 0xa97c, 2},   {0xac00, 0xd7a3, 2},
    {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},   {0xfe20, 0xfe2f, 0},
    {0xfe30, 0xfe6f, 2},   {0xfeff, 0xfeff, 0},   {0xff00, 0xff60, 2},
    {0xffe0, 0xffe6, 2},   {0x1f300, 0x1f64f, 2}, {0x1f680, 0x1f6ff, 2},
    {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2}, {0xe0100, 0xe01ef, 0},
};

/* The table is short and ascending, so the search stops early for ASCII. */
int td_utf8_width(uint32_t code) {
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    if (code < widths[i].first) return 1;
    if (code <= widths[i].last) return widths[i].columns;
  }
  return 1;
}

/* -- the builder -- */

/* Never written: capacity 0 marks it. */
static const char empty_text[1] = "";

/* data always points at a text, so an empty builder prints as one. */
void td_buf_init(td_buf_t *buf, td_task_t *task) {
  *buf = (td_buf_t){(char *)(uintptr_t)empty_text, 0, 0, task};
}

void td_buf_init_fixed(td_buf_t *buf, char *storage, size_t bytes) {
  storage[0] = 0;
  *buf = (td_buf_t){storage, 0, bytes, NULL};
}

/* Leaves an empty builder that can be used again. */
void td_buf_free(td_buf_t *buf) {
  if (buf->task) {
    if (buf->capacity) td_free(buf->task, buf->data);
    td_buf_init(buf, buf->task);
  }
}

/* An untouched builder has no memory of its own to write a NUL into. */
void td_buf_clear(td_buf_t *buf) {
  buf->length = 0;
  if (buf->capacity) buf->data[0] = 0;
}

/* Room for count more bytes and the NUL; returns how many may be added, less
   than count only in fixed storage. */
static size_t make_room(td_buf_t *buf, size_t count) {
  size_t left = buf->capacity - buf->length;
  if (count < left) return count;
  if (!buf->task) return left - 1;
  if (count > SIZE_MAX / 4 - buf->length) {
    td_raise(buf->task, TDSL_STATUS_LIMIT, "text is too long");
  }
  size_t size = buf->capacity ? buf->capacity : 64;
  while (size - buf->length <= count) size *= 2;
  buf->data = td_realloc(buf->task, buf->capacity ? buf->data : NULL, size);
  buf->capacity = size;
  return count;
}

/* All others come down to this. data must not point into the builder. */
void td_buf_put(td_buf_t *buf, const char *data, size_t length) {
  if (length == 0) return;
  length = make_room(buf, length);
  memcpy(buf->data + buf->length, data, length);
  buf->length += length;
  buf->data[buf->length] = 0;
}

void td_buf_putc(td_buf_t *buf, char c) { td_buf_put(buf, &c, 1); }
void td_buf_puts(td_buf_t *buf, const char *text) {
  td_buf_put(buf, text, strlen(text));
}
void td_buf_str(td_buf_t *buf, td_str_t s) {
  td_buf_put(buf, s.data, s.length);
}

void td_buf_pad(td_buf_t *buf, char c, size_t count) {
  count = count ? make_room(buf, count) : 0;
  if (count == 0) return;
  memset(buf->data + buf->length, c, count);
  buf->length += count;
  buf->data[buf->length] = 0;
}

/* Numbers go through a fixed place; their texts are short. */
void td_buf_f64(td_buf_t *buf, double value) {
  char text[TD_F64_TEXT];
  td_buf_put(buf, text, td_format_f64(text, value));
}

void td_buf_f32(td_buf_t *buf, float value) {
  char text[TD_F64_TEXT];
  td_buf_put(buf, text, td_format_f32(text, value));
}

/* Well-formed UTF-8 stays as it is; JSON asks to escape only quotes,
   backslashes and control characters. */
void td_buf_json(td_buf_t *buf, td_str_t s) {
  static const char hex[] = "0123456789abcdef";
  td_buf_putc(buf, '"');
  for (size_t i = 0; i < s.length;) {
    size_t n = td_utf8_decode(s.data + i, s.length - i, NULL);
    unsigned char c = (unsigned char)s.data[i];
    if (n == 0) {
      td_buf_puts(buf, "\\ufffd");
      n = 1;
    } else if (c == '"' || c == '\\') {
      td_buf_putc(buf, '\\');
      td_buf_putc(buf, (char)c);
    } else if (c == '\n') {
      td_buf_puts(buf, "\\n");
    } else if (c < 0x20 || c == 0x7f) {
      char code[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
      td_buf_put(buf, code, sizeof code);
    } else {
      td_buf_put(buf, s.data + i, n);
    }
    i += n;
  }
  td_buf_putc(buf, '"');
}

/* If the copy unwinds the builder is freed with the task. */
const char *td_buf_finish(td_buf_t *buf, td_arena_t *arena) {
  const char *text = td_arena_strndup(arena, buf->data, buf->length);
  td_buf_free(buf);
  return text;
}

/* -- formatting -- */

typedef struct spec_t {
  bool left, zero, plus;
  int width, precision; /* precision -1: none */
  int size;             /* bytes of the integer argument */
} spec_t;

/* Blanks on the side that the flags say. */
static void put_padded(td_buf_t *buf, const spec_t *spec, const char *text,
                       size_t length) {
  size_t pad = spec->width > 0 && (size_t)spec->width > length
                   ? (size_t)spec->width - length
                   : 0;
  if (!spec->left) td_buf_pad(buf, ' ', pad);
  td_buf_put(buf, text, length);
  if (spec->left) td_buf_pad(buf, ' ', pad);
}

/* Digits are made from the right; a precision, or the 0 flag, adds zeros in
   front, then comes the sign. */
static void put_number(td_buf_t *buf, const spec_t *spec, uint64_t magnitude,
                       bool negative, unsigned base, bool upper) {
  char text[320]; /* widths above this are cut by the zero padding below */
  const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  char *end = text + sizeof text, *p = end;
  do {
    *--p = digits[magnitude % base];
    magnitude /= base;
  } while (magnitude);
  int sign = negative || spec->plus;
  int least = spec->precision >= 0               ? spec->precision
              : spec->zero && !spec->left ? spec->width - sign
                                                 : 0;
  if (least > 300) least = 300;
  while (end - p < least) *--p = '0';
  if (sign) *--p = negative ? '-' : '+';
  put_padded(buf, spec, p, (size_t)(end - p));
}

/* A width or precision; absurd ones are cut instead of overflowing. */
static const char *read_count(const char *f, int *out) {
  int value = 0;
  while (*f >= '0' && *f <= '9') {
    if (value < 100000) value = value * 10 + (*f - '0');
    f++;
  }
  *out = value;
  return f;
}

/* The length modifiers; all integer types are 1, 2, 4 or 8 bytes here. */
static const char *read_size(const char *f, spec_t *spec) {
  spec->size = (int)sizeof(int);
  if (f[0] == 'h') {
    spec->size = f[1] == 'h' ? 1 : 2;
    return f + (f[1] == 'h' ? 2 : 1);
  }
  if (f[0] == 'l' && f[1] == 'l') {
    spec->size = (int)sizeof(long long);
    return f + 2;
  }
  if (*f == 'l' || *f == 'z' || *f == 't' || *f == 'j') {
    spec->size = *f == 'j' ? (int)sizeof(intmax_t) : (int)sizeof(long);
    return f + 1;
  }
  return f;
}

_Static_assert(sizeof(long) == 8 && sizeof(size_t) == 8 &&
                   sizeof(ptrdiff_t) == 8,
               "read_size takes l, z and t as 8 bytes");

/* Plain text is copied in runs; each conversion is read completely before
   its argument is taken. Integer types of one size share a branch, so long
   long is taken as long. */
void td_buf_vprintf(td_buf_t *buf, const char *f, va_list args) {
  for (;;) {
    const char *next = f;
    while (*next && *next != '%') next++;
    td_buf_put(buf, f, (size_t)(next - f));
    if (!*next) return;
    f = next + 1;
    spec_t spec = {.precision = -1};
    for (;; f++) {
      if (*f == '-') spec.left = true;
      else if (*f == '0') spec.zero = true;
      else if (*f == '+') spec.plus = true;
      else break;
    }
    if (*f == '*') {
      spec.width = va_arg(args, int);
      f++;
      if (spec.width < 0) spec.left = true, spec.width = -spec.width;
    } else {
      f = read_count(f, &spec.width);
    }
    if (*f == '.') {
      f++;
      if (*f == '*') {
        spec.precision = va_arg(args, int);
        f++;
      } else {
        f = read_count(f, &spec.precision);
      }
    }
    f = read_size(f, &spec);
    char kind = *f++;
    if (kind == 'd' || kind == 'i') {
      int64_t v = spec.size == 8 ? va_arg(args, long) : va_arg(args, int);
      if (spec.size == 1) v = (signed char)v;
      if (spec.size == 2) v = (short)v;
      uint64_t m = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
      put_number(buf, &spec, m, v < 0, 10, false);
    } else if (kind == 'u' || kind == 'x' || kind == 'X') {
      uint64_t v = spec.size == 8 ? va_arg(args, unsigned long)
                                  : va_arg(args, unsigned);
      if (spec.size == 1) v &= 0xff;
      if (spec.size == 2) v &= 0xffff;
      spec.plus = false;
      put_number(buf, &spec, v, false, kind == 'u' ? 10 : 16, kind == 'X');
    } else if (kind == 's') {
      const char *s = va_arg(args, const char *);
      if (!s) s = "(null)";
      size_t n = spec.precision < 0 ? strlen(s)
                                    : strnlen(s, (size_t)spec.precision);
      put_padded(buf, &spec, s, n);
    } else if (kind == 'c') {
      char c = (char)va_arg(args, int);
      put_padded(buf, &spec, &c, 1);
    } else if (kind == 'g') {
      char text[TD_F64_TEXT];
      size_t n = td_format_f64(text, va_arg(args, double));
      put_padded(buf, &spec, text, n);
    } else if (kind == '%') {
      td_buf_putc(buf, '%');
    } else if (buf->task) {
      TD_ICE(buf->task, "conversion %%%c is not supported", kind);
    } else {
      return;
    }
  }
}

void td_buf_printf(td_buf_t *buf, const char *format, ...) {
  va_list args;
  va_start(args, format);
  td_buf_vprintf(buf, format, args);
  va_end(args);
}
