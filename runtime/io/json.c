/* Iterative throughout: depth lives in io_json_t, not on the C stack. */
#include "runtime/io/json.h"

#include "runtime/base/num.h"

/* Counted on from the last time, so that asking for every value of a long
   text stays linear. */
void io_json_place(io_json_t *j, uint32_t *line, uint32_t *column) {
  if (j->line == 0 || j->place_at > j->at) {
    j->line = j->column = 1;
    j->place_at = 0;
  }
  for (; j->place_at < j->at && j->place_at < j->text.length;
       j->place_at++) {
    j->column++;
    if (j->text.data[j->place_at] == '\n') j->line++, j->column = 1;
  }
  *line = j->line;
  *column = j->column;
}

bool io_json_fail(io_json_t *j, td_diag_id_t id, const char *format, ...) {
  if (j->failed) return false;
  j->failed = true;
  td_loc_t loc = {j->file, 0, 0, 0, 0};
  io_json_place(j, &loc.line, &loc.column);
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(&j->task->arena, format, args);
  va_end(args);
  td_diag(j->task, id, loc, "%s", text);
  return false;
}

/* A fault of form, under the id that the format has for it. */
static bool bad(io_json_t *j, const char *what) {
  return io_json_fail(j, j->not_json, "not JSON: %s", what);
}

/* Nothing is read yet, so nothing can fail here. */
void io_json_begin(io_json_t *j, td_task_t *task, td_arena_t *arena,
                   uint32_t file, td_str_t text) {
  memset(j, 0, sizeof *j);
  j->task = task;
  j->arena = arena;
  j->file = file;
  j->text = text;
  j->not_json = TD_F04;
  j->duplicate = TD_F05;
}

/* -- the lexical level -- */

/* The four characters of the RFC and no others. */
static void skip_space(io_json_t *j) {
  while (j->at < j->text.length) {
    char c = j->text.data[j->at];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
    j->at++;
  }
}

/* The next character that is no blank, or NUL at the end; a NUL in the text
   itself begins no value and ends as a fault. */
static char look(io_json_t *j) {
  skip_space(j);
  return j->at < j->text.length ? j->text.data[j->at] : '\0';
}

/* What follows a word is checked by whoever wants the next token. */
static bool eat_word(io_json_t *j, const char *word) {
  size_t n = strlen(word);
  if (j->text.length - j->at < n ||
      memcmp(j->text.data + j->at, word, n) != 0) {
    return bad(j, "unknown word");
  }
  j->at += n;
  return true;
}

/* isdigit follows the locale. */
static bool is_digit(const io_json_t *j, size_t at) {
  return at < j->text.length && j->text.data[at] >= '0' &&
         j->text.data[at] <= '9';
}

/* number = [-] (0 | 1-9 digits) [. digits] [e [+-] digits] */
static bool eat_number(io_json_t *j, td_str_t *out) {
  size_t start = j->at, at = start;
  const char *s = j->text.data;
  size_t n = j->text.length;
  if (at < n && s[at] == '-') at++;
  size_t digits = at;
  while (is_digit(j, at)) at++;
  if (at == digits) return bad(j, "a number needs digits");
  if (s[digits] == '0' && at - digits > 1) {
    return bad(j, "a number begins with 0");
  }
  if (at < n && s[at] == '.') {
    size_t from = ++at;
    while (is_digit(j, at)) at++;
    if (at == from) return bad(j, "digits must follow the point");
  }
  if (at < n && (s[at] == 'e' || s[at] == 'E')) {
    at++;
    if (at < n && (s[at] == '+' || s[at] == '-')) at++;
    size_t from = at;
    while (is_digit(j, at)) at++;
    if (at == from) return bad(j, "digits must follow the exponent");
  }
  *out = td_str_n(s + start, at - start);
  j->at = at;
  return true;
}

/* The digits of \u, either case. */
static bool hex4(io_json_t *j, size_t at, uint32_t *out) {
  if (j->text.length - at < 4) return bad(j, "text ends in an escape");
  uint32_t v = 0;
  for (size_t i = at; i < at + 4; i++) {
    char c = j->text.data[i];
    uint32_t d;
    if (c >= '0' && c <= '9') d = (uint32_t)(c - '0');
    else if (c >= 'a' && c <= 'f') d = (uint32_t)(c - 'a' + 10);
    else if (c >= 'A' && c <= 'F') d = (uint32_t)(c - 'A' + 10);
    else return bad(j, "four hexadecimal digits must follow \\u");
    v = v << 4 | d;
  }
  *out = v;
  return true;
}

/* Bytes of a code point in UTF-8; surrogates do not come here. */
static size_t encode(char *to, uint32_t code) {
  if (code < 0x80) {
    to[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    to[0] = (char)(0xc0 | code >> 6);
    to[1] = (char)(0x80 | (code & 0x3f));
    return 2;
  }
  if (code < 0x10000) {
    to[0] = (char)(0xe0 | code >> 12);
    to[1] = (char)(0x80 | (code >> 6 & 0x3f));
    to[2] = (char)(0x80 | (code & 0x3f));
    return 3;
  }
  to[0] = (char)(0xf0 | code >> 18);
  to[1] = (char)(0x80 | (code >> 12 & 0x3f));
  to[2] = (char)(0x80 | (code >> 6 & 0x3f));
  to[3] = (char)(0x80 | (code & 0x3f));
  return 4;
}

/* The escape at j->at (behind the backslash) to `to`; 0 on a fault. */
static size_t eat_escape(io_json_t *j, char *to) {
  if (j->at >= j->text.length) return bad(j, "text is not closed");
  char c = j->text.data[j->at++];
  switch (c) {
    case '"':
    case '\\':
    case '/': *to = c; return 1;
    case 'b': *to = '\b'; return 1;
    case 'f': *to = '\f'; return 1;
    case 'n': *to = '\n'; return 1;
    case 'r': *to = '\r'; return 1;
    case 't': *to = '\t'; return 1;
    case 'u': break;
    default: return bad(j, "unknown escape");
  }
  uint32_t code, low;
  if (!hex4(j, j->at, &code)) return 0;
  j->at += 4;
  if (code == 0) return bad(j, "U+0000 in a text");
  if (code >= 0xdc00 && code <= 0xdfff) return bad(j, "lone surrogate");
  if (code >= 0xd800 && code <= 0xdbff) {
    if (j->text.length - j->at < 6 || j->text.data[j->at] != '\\' ||
        j->text.data[j->at + 1] != 'u') {
      return bad(j, "lone surrogate");
    }
    if (!hex4(j, j->at + 2, &low)) return 0;
    if (low < 0xdc00 || low > 0xdfff) return bad(j, "lone surrogate");
    j->at += 6;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  return encode(to, code);
}

static bool eat_text(io_json_t *j, td_str_t *out) {
  size_t start = ++j->at; /* behind the quote */
  const char *s = j->text.data;
  bool escaped = false;
  /* First to the closing quote, so that the copy can be sized: an escape is
     never shorter than what it stands for. */
  for (;;) {
    if (j->at >= j->text.length) return bad(j, "text is not closed");
    unsigned char c = (unsigned char)s[j->at];
    if (c == '"') break;
    if (c < 0x20) return bad(j, "control character in a text");
    if (c == '\\') {
      escaped = true;
      j->at += 2;
      continue;
    }
    size_t n = td_utf8_decode(s + j->at, j->text.length - j->at, NULL);
    if (n == 0) return bad(j, "text is not UTF-8");
    j->at += n;
  }
  size_t end = j->at++;
  *out = td_str_n(s + start, end - start);
  if (!escaped) return true;
  char *copy = td_arena_alloc(j->arena, end - start + 1);
  size_t length = 0;
  for (j->at = start; j->at < end;) {
    if (s[j->at] != '\\') {
      copy[length++] = s[j->at++];
      continue;
    }
    j->at++;
    size_t n = eat_escape(j, copy + length);
    if (n == 0) return false;
    length += n;
  }
  j->at = end + 1;
  *out = td_str_n(copy, length);
  return true;
}

/* -- keys -- */

/* The zeroed struct is ready for the next object at this depth. */
static void free_keys(io_json_t *j, io_json_keys_t *k) {
  td_free(j->task, k->key);
  td_free(j->task, k->slots);
  memset(k, 0, sizeof *k);
}

/* The key is known to be new and the table to have room. */
static void place(io_json_keys_t *k, uint32_t number) {
  td_str_t key = k->key[number];
  uint64_t hash = td_hash_bytes(key.data, key.length, 0);
  uint32_t mask = k->slot_count - 1;
  uint32_t i = (uint32_t)hash & mask;
  while (k->slots[i]) i = (i + 1) & mask;
  k->slots[i] = number + 1;
}

/* False if the object has had this key. */
/* Arrays are at most half full. Growing keeps count, so if it unwinds the
   arrays are freed with the task. */
static bool add_key(io_json_t *j, td_str_t key) {
  io_json_keys_t *k = &j->keys[j->depth - 1];
  if (k->count * 2 >= k->slot_count) {
    if (k->count >= UINT32_MAX / 8) return bad(j, "object is too large");
    uint32_t size = k->slot_count ? k->slot_count * 2 : 16;
    k->key = td_realloc(j->task, k->key, size / 2 * sizeof *k->key);
    td_free(j->task, k->slots);
    k->slots = NULL; /* the next line may unwind */
    k->slots = td_alloc(j->task, size * sizeof *k->slots);
    memset(k->slots, 0, size * sizeof *k->slots);
    k->slot_count = size;
    for (uint32_t n = 0; n < k->count; n++) place(k, n);
  }
  uint64_t hash = td_hash_bytes(key.data, key.length, 0);
  uint32_t mask = k->slot_count - 1;
  for (uint32_t i = (uint32_t)hash & mask; k->slots[i]; i = (i + 1) & mask) {
    if (td_str_eq(k->key[k->slots[i] - 1], key)) {
      return io_json_fail(j, j->duplicate, "key \"%.*s\" occurs twice",
                          TD_STR_ARG(key));
    }
  }
  k->key[k->count] = key;
  place(k, k->count++);
  return true;
}

/* -- structure -- */

/* For messages; indexed by kind. */
static const char *kind_name(io_json_kind_t kind) {
  static const char *const names[] = {"nothing", "null",     "true or false",
                                      "a number", "a text", "an array",
                                      "an object"};
  return names[kind];
}

/* One character tells the kinds apart; whether the token is well-formed shows
   when it is read. */
io_json_kind_t io_json_peek(io_json_t *j) {
  if (j->failed) return IO_JSON_NONE;
  char c = look(j);
  switch (c) {
    case '{': return IO_JSON_OBJECT;
    case '[': return IO_JSON_ARRAY;
    case '"': return IO_JSON_TEXT;
    case 't':
    case 'f': return IO_JSON_BOOL;
    case 'n': return IO_JSON_NULL;
    default: break;
  }
  if (c == '-' || (c >= '0' && c <= '9')) return IO_JSON_NUMBER;
  bad(j, j->at == j->text.length                      ? "it ends too early"
         : td_str_starts(j->text, "\xef\xbb\xbf") && !j->at
             ? "a byte order mark comes first"
             : "a value is wanted here");
  return IO_JSON_NONE;
}

/* The next value must be of this kind. */
static bool want(io_json_t *j, io_json_kind_t kind) {
  io_json_kind_t found = io_json_peek(j);
  if (found == kind) return true;
  return io_json_fail(j, TD_F07, "%s is wanted here, this is %s",
                      kind_name(kind), kind_name(found));
}

/* The depth is checked before anything is stored at it. */
static bool enter(io_json_t *j, io_json_kind_t kind) {
  if (!want(j, kind)) return false;
  if (j->depth == IO_JSON_MAX_DEPTH) {
    return io_json_fail(j, TD_F06, "nested more than %d deep",
                        IO_JSON_MAX_DEPTH);
  }
  j->open[j->depth++] = j->text.data[j->at++];
  j->first = true;
  return true;
}

/* Both leave `first` set, which the first call for an item clears. */
bool io_json_object(io_json_t *j) { return enter(j, IO_JSON_OBJECT); }
bool io_json_array(io_json_t *j) { return enter(j, IO_JSON_ARRAY); }

/* Past the comma before the next item, or out of the array or object. */
static bool next_item(io_json_t *j, char close) {
  if (j->failed) return false;
  char c = look(j);
  bool first = j->first;
  j->first = false;
  if (c == close) {
    j->at++;
    j->depth--;
    if (close == '}') free_keys(j, &j->keys[j->depth]);
    return false;
  }
  if (first) return true;
  if (c != ',') {
    return bad(j, close == '}' ? "',' or '}' is wanted here"
                               : "',' or ']' is wanted here");
  }
  j->at++;
  if (look(j) == close) return bad(j, "a value must follow the comma");
  return true;
}

bool io_json_item(io_json_t *j) { return next_item(j, ']'); }

/* The key is entered in the set before its value is read: nested objects have
   sets of their own. */
bool io_json_key(io_json_t *j, td_str_t *key) {
  if (!next_item(j, '}')) return false;
  if (look(j) != '"') return bad(j, "a key in quotes is wanted here");
  if (!eat_text(j, key) || !add_key(j, *key)) return false;
  if (look(j) != ':') return bad(j, "':' must follow a key");
  j->at++;
  return true;
}

/* A reader that stopped may hold sets at any depth. */
bool io_json_end(io_json_t *j) {
  if (!j->failed) {
    look(j);
    if (j->at < j->text.length) bad(j, "something follows the value");
  }
  for (int i = 0; i < IO_JSON_MAX_DEPTH; i++) {
    if (j->keys[i].key) free_keys(j, &j->keys[i]);
  }
  return !j->failed;
}

/* -- values -- */

/* Each checks the kind before it consumes anything, so the message of F07
   points at the value. */
bool io_json_text(io_json_t *j, td_str_t *out) {
  return want(j, IO_JSON_TEXT) && eat_text(j, out);
}

bool io_json_number_text(io_json_t *j, td_str_t *out) {
  return want(j, IO_JSON_NUMBER) && eat_number(j, out);
}

bool io_json_int(io_json_t *j, int64_t *out) {
  td_str_t text;
  if (!io_json_number_text(j, &text)) return false;
  if (td_parse_i64(text, out)) return true;
  return io_json_fail(j, TD_F07, "an integer of 64 bits is wanted here");
}

/* Integers too; large ones round. */
bool io_json_number(io_json_t *j, double *out) {
  td_str_t text;
  return io_json_number_text(j, &text) && td_parse_f64(text, out);
}

bool io_json_bool(io_json_t *j, bool *out) {
  if (!want(j, IO_JSON_BOOL)) return false;
  *out = j->text.data[j->at] == 't';
  return eat_word(j, *out ? "true" : "false");
}

bool io_json_null(io_json_t *j) {
  return want(j, IO_JSON_NULL) && eat_word(j, "null");
}

/* Skipped values are read all the same, or a malformed one would pass. */
static bool skip_scalar(io_json_t *j, io_json_kind_t kind) {
  td_str_t text;
  bool truth;
  switch (kind) {
    case IO_JSON_TEXT: return io_json_text(j, &text);
    case IO_JSON_NUMBER: return io_json_number_text(j, &text);
    case IO_JSON_BOOL: return io_json_bool(j, &truth);
    case IO_JSON_NULL: return io_json_null(j);
    case IO_JSON_NONE:
    case IO_JSON_ARRAY:
    case IO_JSON_OBJECT: break;
  }
  return false;
}

/* A loop over the reader's own stack instead of recursion: depth is what a
   hostile text has most of. */
bool io_json_skip(io_json_t *j) {
  int depth = j->depth;
  for (;;) {
    io_json_kind_t kind = io_json_peek(j);
    if (kind == IO_JSON_ARRAY || kind == IO_JSON_OBJECT) {
      if (!enter(j, kind)) return false;
    } else if (!skip_scalar(j, kind)) {
      return false;
    }
    /* On to the next item of the innermost open one, leaving those that end
       here. */
    for (;;) {
      if (j->depth == depth) return true;
      td_str_t key;
      bool more = j->open[j->depth - 1] == '{' ? io_json_key(j, &key)
                                               : io_json_item(j);
      if (j->failed) return false;
      if (more) break;
    }
  }
}
