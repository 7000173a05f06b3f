/* A pull reader of JSON (RFC 8259) for files that may be hostile. The caller
   asks for what the format says must come next; no tree is built, so a file
   costs little more memory than its own bytes, all of it from the host's
   allocator. Stricter than the RFC where files lie: a key occurs once in an
   object, nesting is bounded, text is well-formed UTF-8 without U+0000 and
   without a byte order mark, nothing follows the value.

     io_json_begin(&j, task, arena, file, text);
     if (io_json_object(&j)) {
       while (io_json_key(&j, &key)) {
         if (!read_exactly_one_value(&j, key)) break;
       }
     }
     return io_json_end(&j);

   The first fault is reported (F04 to F07, at its line and column) and stops
   the reader: from then on every call returns false. */
#ifndef IO_JSON_H
#define IO_JSON_H

#include "runtime/base/task.h"

#define IO_JSON_MAX_DEPTH 64

typedef enum io_json_kind_t {
  IO_JSON_NONE, /* the end, or a fault */
  IO_JSON_NULL,
  IO_JSON_BOOL,
  IO_JSON_NUMBER,
  IO_JSON_TEXT,
  IO_JSON_ARRAY,
  IO_JSON_OBJECT,
} io_json_kind_t;

/* The keys seen in one open object; loose memory, freed when it closes. */
typedef struct io_json_keys_t {
  td_str_t *key;
  uint32_t *slots;
  uint32_t count, slot_count;
} io_json_keys_t;

typedef struct io_json_t {
  td_task_t *task;
  td_arena_t *arena; /* texts with escapes are decoded into it */
  uint32_t file;     /* for messages */
  td_str_t text;
  size_t at;
  int depth;
  bool failed;
  bool first; /* the open array or object has had no item yet */
  char open[IO_JSON_MAX_DEPTH]; /* '[' or '{' */
  io_json_keys_t keys[IO_JSON_MAX_DEPTH];
  td_diag_id_t not_json, duplicate; /* the format's own ids */
  size_t made; /* elements that "uniform" has made; see values.c */
  size_t place_at; /* how far line and column have been counted */
  uint32_t line, column;
} io_json_t;

/* The text must outlive the reader and what it returns. */
void io_json_begin(io_json_t *j, td_task_t *task, td_arena_t *arena,
                   uint32_t file, td_str_t text);
/* True if all went well and nothing follows the value. Also frees what a
   stopped reader holds, so it is called in any case. */
bool io_json_end(io_json_t *j);

/* The kind of the value that comes next, which is not consumed. */
io_json_kind_t io_json_peek(io_json_t *j);

/* Enter; then io_json_key / io_json_item say whether there is another item,
   and leave at the end. */
bool io_json_object(io_json_t *j);
bool io_json_array(io_json_t *j);
bool io_json_key(io_json_t *j, td_str_t *key);
bool io_json_item(io_json_t *j);

/* One value of this kind; another kind is F07. int: no '.', no exponent, in
   i64. number_text is the token as written. Texts point into the input or
   the arena. */
bool io_json_text(io_json_t *j, td_str_t *out);
bool io_json_int(io_json_t *j, int64_t *out);
bool io_json_number(io_json_t *j, double *out);
bool io_json_number_text(io_json_t *j, td_str_t *out);
bool io_json_bool(io_json_t *j, bool *out);
bool io_json_null(io_json_t *j);
/* Line and column (1-based, in bytes) of what comes next. */
void io_json_place(io_json_t *j, uint32_t *line, uint32_t *column);
/* Any value, checked all the same. */
bool io_json_skip(io_json_t *j);

/* Reports a fault at the place that was read last and stops the reader.
   Always false. */
bool io_json_fail(io_json_t *j, td_diag_id_t id, const char *format, ...)
    TD_PRINTF(3, 4);

#endif
