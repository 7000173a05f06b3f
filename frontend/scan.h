/* scan.h: what scanner, newline filter and parser share; nobody else.
 *
 * tdsl.l cuts text into tokens, newline.c decides which line breaks end a
 * statement and how to go on after an error, tdsl.y calls ast_yylex for the
 * result.  All state is in ast_parser_t, one for each file parsed. */
#ifndef TDSL_FRONTEND_SCAN_H
#define TDSL_FRONTEND_SCAN_H

#include "frontend/ast.h"
#include "runtime/base/task.h"

/* What an inserted NL token stands for; messages name it. */
typedef enum ast_nl {
  AST_NL_LINE,      /* a line break */
  AST_NL_SEMICOLON, /* ; */
  AST_NL_BRACE,     /* inserted before } */
  AST_NL_END        /* inserted before the end of the file */
} ast_nl_t;

/* A token.  `kind` is a token number of tdsl.tab.h, or AST_BAD. */
typedef struct ast_token {
  int kind;
  int code;         /* LIT: 0 false, 1 true, 2 inf; REDUCE: ast_reduce_t;
                       NL: ast_nl_t */
  const char *text; /* IDENT, REDUCE, DTYPE interned; NUM; STR no quotes */
  td_loc_t loc;
  bool newline_before;
  bool reported; /* P07 or P08 was given for it; the parser says no more */
} ast_token_t;

/* Kinds that never reach the parser: a character sequence that was reported
 * already, and (only if asked for) a comment. */
enum { AST_BAD = -2, AST_COMMENT = -3 };

typedef struct ast_scanner {
  td_task_t *task;
  td_arena_t *arena; /* texts of tokens, and the scanner's own buffers */
  uint32_t source;
  void *flex;
  uint32_t line;     /* of the next character, from 1 */
  size_t offset;     /* of the next character, from 0 */
  size_t line_start; /* offset of the first character of the line */
  td_loc_t last;     /* of the last token, for the end of the file */
  bool newline;      /* a line break since the last token */
  bool keep_comments;
  bool ended; /* an unclosed comment took the rest */
  bool quiet; /* skipping after an error: report nothing more */
} ast_scanner_t;

/* Starts on a source of the task.  The scanner's memory is the arena's. */
void ast_scan_start(ast_scanner_t *scanner, td_task_t *task, td_arena_t *arena,
                    uint32_t source);
/* The next token; kind 0 at the end, again and again. */
ast_token_t ast_scan_next(ast_scanner_t *scanner);

typedef struct ast_parser {
  td_task_t *task;
  td_arena_t *arena;
  ast_scanner_t scanner;
  ast_file_t *file;
  TD_VEC(ast_decl_t *) decls;
  uint32_t errors_before; /* of the task, when this parse began */

  /* The filter (newline.c).  Open brackets and braces have the places where
   * they were opened; beyond AST_MAX_DEPTH together they are only counted. */
  td_loc_t brackets[AST_MAX_DEPTH], braces[AST_MAX_DEPTH];
  uint32_t bracket_count, brace_count;
  uint32_t old_bracket_count, old_brace_count; /* before `last` */
  int previous;     /* kind of the last token of the source taken */
  ast_token_t last; /* the last token given to the parser */
  ast_token_t held; /* read, not yet given */
  bool has_held;
  bool skipping;        /* after an error, until a statement can begin */
  uint32_t skip_braces; /* depth at which the parser waits */
  uint32_t spoilt_line; /* a } in brackets (P02) makes the rest of its
                           line unreadable */
  uint32_t closing;     /* } to be made up, each followed by NL */
  bool closing_newline;
} ast_parser_t;

void ast_filter_start(ast_parser_t *p, td_task_t *task, td_arena_t *arena,
                      uint32_t source);
/* The next token after the newline rule. */
ast_token_t ast_filter_next(ast_parser_t *p);
/* The parser met an error at or before the last token it was given: leave
 * out what belongs to the statement, field or declaration. */
void ast_filter_recover(ast_parser_t *p);
/* Errors of this parse so far. */
uint32_t ast_parse_errors(const ast_parser_t *p);

/* L04 at this place. */
void ast_too_deep(ast_parser_t *p, td_loc_t loc);

/* Whether a token of this kind can end a statement, or begin one: the two
 * halves of the newline rule. */
bool ast_can_end(int kind);
bool ast_can_start(int kind);

/* The name of a token as in the grammar ("IDENT", "fn", "->"), and as a
 * reader would call this one ("name `w`", "`->`", "end of line"). */
const char *ast_token_name(int kind);
const char *ast_token_words(td_arena_t *arena, const ast_token_t *token);

#endif
