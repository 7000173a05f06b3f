/* parse.h: text of a .tdsl file -> tokens -> tree, and back (fmt).
 *
 * All three report syntax errors P01..P08 and L04 to the task and go on at
 * the end of the statement, field or declaration. */
#ifndef TDSL_FRONTEND_PARSE_H
#define TDSL_FRONTEND_PARSE_H

#include "frontend/ast.h"

/* The tree of a source already in the task's source table; it lives in
 * arena.  After errors it holds what could be read (has_errors is set).
 * Never NULL; NULL is kept for a caller's own failure paths.  The text must
 * outlive the call, not the tree. */
ast_file_t *ast_parse(td_task_t *task, td_arena_t *arena, uint32_t source);

/* `dump tokens`: one token a line with its place, the inserted NL included.
 * Errors of the scanner are reported and end the line of a bad token. */
void ast_dump_tokens(td_task_t *task, uint32_t source, td_buf_t *out);

/* `tdslc fmt`: canonical text, comments and paragraphs kept.  False, with
 * diagnostics and out untouched, if the source has syntax errors.  The
 * result parses to an equal tree and formats to itself. */
bool fmt_source(td_task_t *task, uint32_t source, td_buf_t *out);

#endif
