/* report.c: diagnostics of the checker and the text that they show. */
#include "frontend/check.h"

/* The instance of a generic function that nobody calls has dtypes chosen by
 * us; faults that may come from the choice are not the author's. */
static bool is_dtype_fault(td_diag_id_t id) {
  return id == TD_E09 || id == TD_E12 || id == TD_E18 || id == TD_E42 ||
         id == TD_E46;
}

/* The text is formatted here: va_lists do not travel into td_diag. */
td_diag_t *sem_report(sem_ctx_t *c, td_diag_id_t id, td_loc_t loc,
                      const char *format, ...) {
  bool silent = c->quiet > 0;
  if (c->inst != NULL && c->inst->is_default && is_dtype_fault(id)) {
    silent = true;
  }
  if (silent) {
    memset(&c->dummy, 0, sizeof c->dummy);
    c->dummy.task = c->task;
    c->dummy.text = "";
    return &c->dummy;
  }
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(c->arena, format, args);
  va_end(args);
  return td_diag(c->task, id, loc, "%s", text);
}

/* ---- slices of the source ------------------------------------------------ */

/* One file at a time: messages come in runs from one file. */
static void index_lines(sem_ctx_t *c, uint32_t file, const td_source_t *s) {
  c->lines_file = file;
  c->lines.length = 0;
  const char *p = s->text, *end = s->text + s->length;
  while (p != NULL && p <= end) {
    td_vec_push(c->arena, &c->lines, p);
    p = memchr(p, '\n', (size_t)(end - p));
    if (p != NULL) p++;
  }
}

/* Source text on one line, cut where it is long; columns are bytes. */
const char *sem_slice(sem_ctx_t *c, td_loc_t loc) {
  enum { LONGEST = 60 };
  const td_source_t *s = td_sources_get(c->task, loc.file);
  if (s == NULL || s->text == NULL || loc.line == 0) return "this";
  if (c->lines_file != loc.file) index_lines(c, loc.file, s);
  if (loc.line > c->lines.length || loc.column == 0) return "this";
  const char *p = c->lines.data[loc.line - 1] + (loc.column - 1);
  const char *end = s->text + s->length;
  if (p >= end) return "this";
  size_t room = (size_t)(end - p), length = room;
  bool cut = loc.end_line != loc.line;
  if (!cut) {
    length = loc.end_column > loc.column ? loc.end_column - loc.column : 1;
  } else {
    const char *newline = memchr(p, '\n', room);
    if (newline != NULL) length = (size_t)(newline - p);
    while (length > 0 && (p[length - 1] == ' ' || p[length - 1] == '\r')) {
      length--;
    }
  }
  if (length > room) length = room;
  if (length > LONGEST) {
    length = LONGEST - 4;
    cut = true;
  }
  return td_arena_printf(c->arena, "%.*s%s", (int)length, p,
                         cut ? " ..." : "");
}

/* As the author wrote it, comments and blanks included. */
const char *sem_text(sem_ctx_t *c, const ast_expr_t *e) {
  return sem_slice(c, e->loc);
}
