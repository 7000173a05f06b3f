/* Diagnostics are data: an id, a message, spans with labels, notes, help and
   edits. Whoever finds a fault makes a record; the edge delivers or renders
   it. Texts live in the task's arena, as long as the task. */
#ifndef TD_DIAG_H
#define TD_DIAG_H

#include "runtime/base/vec.h"
#include "runtime/base/str.h"

/* A span of a source: 1-based, columns in bytes, the end exclusive (the column
   after the last byte). line 0: the file as a whole; file 0: no file at all;
   end_line 0: a single point. file is the number td_sources_add gave. */
typedef struct td_loc_t {
  uint32_t file, line, column, end_line, end_column;
} td_loc_t;

#define TD_NO_LOC ((td_loc_t){0, 0, 0, 0, 0})

/* The span from the start of a to the end of b. */
td_loc_t td_loc_join(td_loc_t a, td_loc_t b);

typedef enum td_diag_id_t {
  TD_DIAG_NONE = 0,
#define TD_DIAG(id, title, page) TD_##id,
#include "runtime/base/diag.def"
#undef TD_DIAG
  TD_DIAG_COUNT
} td_diag_id_t;

typedef struct td_diag_label_t {
  td_loc_t loc;
  const char *text; /* "" for an underline without words */
} td_diag_label_t;

typedef struct td_diag_edit_t {
  td_loc_t loc;            /* what to replace; a point inserts */
  const char *replacement;
} td_diag_edit_t;

typedef struct td_diag_t {
  td_diag_id_t id;
  tdsl_severity_t severity;
  td_loc_t loc;
  const char *text;   /* one line, no trailing period */
  const char *beside; /* words after the caret, or NULL */
  TD_VEC(td_diag_label_t) labels;
  TD_VEC(const char *) notes;
  TD_VEC(const char *) helps; /* may hold newlines: continued lines */
  TD_VEC(td_diag_edit_t) edits;
  td_task_t *task;
} td_diag_t;

/* Adds a record and returns it for more detail; never NULL. An exact
   repetition (id, place and text) and errors after the 20th are counted but
   not kept: the record returned then is of no consequence. */
td_diag_t *td_diag(td_task_t *task, td_diag_id_t id, td_loc_t loc,
                   const char *format, ...) TD_PRINTF(4, 5);

void td_diag_beside(td_diag_t *diag, const char *format, ...) TD_PRINTF(2, 3);
void td_diag_label(td_diag_t *diag, td_loc_t loc, const char *format, ...)
    TD_PRINTF(3, 4);
void td_diag_note(td_diag_t *diag, const char *format, ...) TD_PRINTF(2, 3);
void td_diag_help(td_diag_t *diag, const char *format, ...) TD_PRINTF(2, 3);
void td_diag_edit(td_diag_t *diag, td_loc_t loc, const char *replacement);

/* -- what the ids mean -- */
const char *td_diag_name(td_diag_id_t id);  /* "E06" */
const char *td_diag_title(td_diag_id_t id); /* one line */
const char *td_diag_page(td_diag_id_t id);  /* paragraph for explain */
td_diag_id_t td_diag_find(td_str_t name);   /* TD_DIAG_NONE if unknown */

/* -- out -- */
/* Text with excerpts, carets and labels, ending in a newline. color: with
   terminal escapes. */
void td_diag_render(td_buf_t *buf, td_task_t *task, const td_diag_t *diag,
                    bool color);
/* One JSON object without a newline. */
void td_diag_json(td_buf_t *buf, td_task_t *task, const td_diag_t *diag);

#endif
