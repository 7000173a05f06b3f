/* Text: views, comparison, nearest names, and a builder whose number
   formatting never looks at the host's locale. */
#ifndef TD_STR_H
#define TD_STR_H

#include "runtime/base/arena.h"

#include <string.h>

typedef tdsl_string_t td_str_t;

static inline td_str_t td_str(const char *text) {
  td_str_t s = {text, text ? strlen(text) : 0};
  return s;
}

static inline td_str_t td_str_n(const char *data, size_t length) {
  td_str_t s = {data, length};
  return s;
}

static inline bool td_str_eq(td_str_t a, td_str_t b) {
  return a.length == b.length &&
         (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static inline bool td_str_eqc(td_str_t a, const char *b) {
  return td_str_eq(a, td_str(b));
}

static inline bool td_str_starts(td_str_t s, const char *prefix) {
  size_t n = strlen(prefix);
  return s.length >= n && memcmp(s.data, prefix, n) == 0;
}

static inline bool td_str_ends(td_str_t s, const char *suffix) {
  size_t n = strlen(suffix);
  return s.length >= n && memcmp(s.data + s.length - n, suffix, n) == 0;
}

/* Bytewise order, a prefix first; for printing in a stable order. */
int td_str_cmp(td_str_t a, td_str_t b);

/* A NUL-terminated copy. */
const char *td_str_cstr(td_arena_t *arena, td_str_t s);

/* For "%.*s". */
#define TD_STR_ARG(s) (int)(s).length, (s).data

/* Insertions, deletions, replacements and swaps of neighbours, in bytes.
   Distances above cap come back as cap + 1. Names beyond 255 bytes are
   compared by their first 255. */
size_t td_edit_distance(td_str_t a, td_str_t b, size_t cap);

/* Gathers candidates for "did you mean": start from TD_NEAREST_INIT, offer
   each name, read best (NULL: nothing near enough). Ties keep the first. */
typedef struct td_nearest_t {
  td_str_t want;
  td_str_t best; /* data NULL: none */
  size_t distance;
} td_nearest_t;

td_nearest_t td_nearest_start(td_str_t want);
void td_nearest_offer(td_nearest_t *nearest, td_str_t name);

/* UTF-8: bytes of the well-formed sequence at s (1 to 4), or 0 if malformed
   or at the end. The code point goes to *out if out is not NULL. */
size_t td_utf8_decode(const char *s, size_t length, uint32_t *out);
bool td_utf8_valid(const char *s, size_t length);

/* Columns a code point takes when shown: 0 (combining), 1 or 2 (wide). */
int td_utf8_width(uint32_t code);

/* A growing text; always NUL-terminated once something was added, and after
   td_buf_init data points at "". Memory is loose memory of the task. */
typedef struct td_buf_t {
  char *data;
  size_t length;
  size_t capacity; /* 0: data is not ours */
  td_task_t *task; /* NULL: fixed storage */
} td_buf_t;

void td_buf_init(td_buf_t *buf, td_task_t *task);
/* Over storage of the caller, which truncates instead of growing. Needs no
   task and no td_buf_free. bytes >= 1. */
void td_buf_init_fixed(td_buf_t *buf, char *storage, size_t bytes);
void td_buf_free(td_buf_t *buf);
void td_buf_clear(td_buf_t *buf); /* length 0; keeps the memory */

void td_buf_putc(td_buf_t *buf, char c);
void td_buf_puts(td_buf_t *buf, const char *text);
void td_buf_put(td_buf_t *buf, const char *data, size_t length);
void td_buf_str(td_buf_t *buf, td_str_t s);
void td_buf_pad(td_buf_t *buf, char c, size_t count);

/* Conversions d i u x X c s %: flags '-', '0', '+', width and precision
   (also '*'), lengths hh h l ll z t j. %g, without width, is td_buf_f64.
   Anything else is an internal error. */
void td_buf_printf(td_buf_t *buf, const char *format, ...) TD_PRINTF(2, 3);
void td_buf_vprintf(td_buf_t *buf, const char *format, va_list args);

/* Shortest decimal text that reads back as the same value, as in num.h. */
void td_buf_f64(td_buf_t *buf, double value);
void td_buf_f32(td_buf_t *buf, float value);

/* A JSON string literal with its quotes. Malformed UTF-8 becomes U+FFFD. */
void td_buf_json(td_buf_t *buf, td_str_t s);

/* The text as an arena string; frees the builder. */
const char *td_buf_finish(td_buf_t *buf, td_arena_t *arena);

static inline td_str_t td_buf_view(const td_buf_t *buf) {
  return td_str_n(buf->data, buf->length);
}

#endif
