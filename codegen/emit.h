/* emit.h: what emitters of source text share: a builder that indents, names
 * that cannot clash, comments that cannot end early, and the way back from
 * emitted lines to the program's.
 *
 * All text is ASCII and depends on nothing but the input.  Lifetime: texts
 * are in the arena given. */
#ifndef TDSL_CODEGEN_EMIT_H
#define TDSL_CODEGEN_EMIT_H

#include "runtime/base/task.h"

/* Folder that #line names pretend to lie in, so that artefacts do not depend
 * on where the program was. */
#define CG_LINE_ROOT "/tdsl/"

typedef struct cg_text {
  td_task_t *task;
  td_buf_t *out;       /* where lines go; arms are built apart and joined */
  uint32_t indent;     /* levels of two columns */
  bool has_lines;      /* #line in front of lines whose place is known */
  td_loc_t loc;        /* of the statement being emitted; line 0: unknown */
} cg_text_t;

/* One line: indentation, text, newline. */
void cg_line(cg_text_t *t, const char *format, ...) TD_PRINTF(2, 3);
/* The same, then one level deeper; and one less, then the line. */
void cg_open(cg_text_t *t, const char *format, ...) TD_PRINTF(2, 3);
void cg_close(cg_text_t *t, const char *format, ...) TD_PRINTF(2, 3);

/* A user's text as a line of a `//` comment: control and non-ASCII bytes and
 * backslashes become <NN>, so that no compiler joins lines or stops. */
void cg_comment(cg_text_t *t, td_str_t text);

/* PREFIX NUMBER _ then at most 40 letters, digits and `_` of NAME.  The
 * number makes it unique, whatever the name. */
const char *cg_name(td_arena_t *arena, const char *prefix, uint32_t number,
                    const char *name);
/* NAME with anything but letters, digits and `_` replaced, at most 40. */
const char *cg_ascii(td_arena_t *arena, const char *name);

/* "/tdsl/llama.tdsl" of a source's number; NULL: unknown. */
const char *cg_line_name(td_task_t *task, td_arena_t *arena, uint32_t file);

#endif
