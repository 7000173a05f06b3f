/* Records: made, bounded, and their ids' table. Rendering is in
   diag_render.c. */
#include "runtime/base/diag.h"

#include "runtime/base/task.h"

/* Row i is the id with the number i; 0 is no id. Enum and table come from the
   same file, so they cannot differ in order. */
static const struct {
  const char *name, *title, *page;
} ids[] = {
    {"", "", ""},
#define TD_DIAG(id, title, page) {#id, title, page},
#include "runtime/base/diag.def"
#undef TD_DIAG
};

const char *td_diag_name(td_diag_id_t id) { return ids[id].name; }
const char *td_diag_title(td_diag_id_t id) { return ids[id].title; }
const char *td_diag_page(td_diag_id_t id) { return ids[id].page; }

td_diag_id_t td_diag_find(td_str_t name) {
  for (int i = 1; i < TD_DIAG_COUNT; i++) {
    if (td_str_eqc(name, ids[i].name)) return (td_diag_id_t)i;
  }
  return TD_DIAG_NONE;
}

/* A span that is only a point ends where it begins. Spans of different files
   cannot be joined; the first is kept. */
td_loc_t td_loc_join(td_loc_t a, td_loc_t b) {
  if (a.line == 0 || b.line == 0 || a.file != b.file) return a.line ? a : b;
  a.end_line = b.end_line ? b.end_line : b.line;
  a.end_column = b.end_line ? b.end_column : b.column;
  return a;
}

/* Ends do not matter: two reports that begin at one place are about one
   thing. */
static bool same_place(td_loc_t a, td_loc_t b) {
  return a.file == b.file && a.line == b.line && a.column == b.column;
}

/* Files are read hundreds of tensors at a time and may all be wrong; so are
   warnings bounded, more loosely. */
#define MAX_WARNINGS 200u

/* The counts include d itself already. */
static bool is_kept(td_task_t *task, const td_diag_t *d) {
  for (size_t i = 0; i < task->diags.length; i++) {
    const td_diag_t *old = task->diags.data[i];
    if (old->id == d->id && same_place(old->loc, d->loc) &&
        strcmp(old->text, d->text) == 0) {
      return false;
    }
  }
  if (d->severity == TDSL_SEVERITY_ERROR) {
    return task->errors <= TD_MAX_ERRORS;
  }
  return task->warnings <= MAX_WARNINGS;
}

/* The record is made even when it is not kept, so that callers may go on to
   describe it without asking. */
td_diag_t *td_diag(td_task_t *task, td_diag_id_t id, td_loc_t loc,
                   const char *format, ...) {
  td_diag_t *d = TD_NEW(&task->arena, td_diag_t);
  d->id = id;
  d->loc = loc;
  d->task = task;
  bool is_warning = td_diag_name(id)[0] == 'W';
  d->severity = is_warning ? TDSL_SEVERITY_WARNING : TDSL_SEVERITY_ERROR;
  va_list args;
  va_start(args, format);
  d->text = td_arena_vprintf(&task->arena, format, args);
  va_end(args);
  if (is_warning) task->warnings++;
  else task->errors++;
  if (is_kept(task, d)) td_vec_push(&task->arena, &task->diags, d);
  return d;
}

/* The detail functions differ in where the text goes only. */
#define FORMAT(diag, text)                                                    \
  const char *text;                                                           \
  do {                                                                        \
    va_list args;                                                             \
    va_start(args, format);                                                   \
    text = td_arena_vprintf(&(diag)->task->arena, format, args);              \
    va_end(args);                                                             \
  } while (0)

void td_diag_beside(td_diag_t *diag, const char *format, ...) {
  FORMAT(diag, text);
  diag->beside = text;
}

void td_diag_label(td_diag_t *diag, td_loc_t loc, const char *format, ...) {
  FORMAT(diag, text);
  td_diag_label_t label = {loc, text};
  td_vec_push(&diag->task->arena, &diag->labels, label);
}

void td_diag_note(td_diag_t *diag, const char *format, ...) {
  FORMAT(diag, text);
  td_vec_push(&diag->task->arena, &diag->notes, text);
}

void td_diag_help(td_diag_t *diag, const char *format, ...) {
  FORMAT(diag, text);
  td_vec_push(&diag->task->arena, &diag->helps, text);
}

void td_diag_edit(td_diag_t *diag, td_loc_t loc, const char *replacement) {
  td_diag_edit_t edit = {loc,
                         td_arena_strdup(&diag->task->arena, replacement)};
  td_vec_push(&diag->task->arena, &diag->edits, edit);
}
