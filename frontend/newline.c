/* newline.c: which line breaks end a statement, and how to go on after an
 * error.  It sits between scanner and parser and gives the parser tokens.
 *
 * The newline rule.  A break is NL only if no ( or [ is open, the token
 * before it can end a statement and the one behind it can begin one; `;`
 * always is NL; NL is also put before } and before the end of the file.
 *
 * Recovery.  The grammar waits for NL behind `error`.  Here is decided where
 * that NL is, because only the filter sees lines and brackets:
 *   1. the tokens up to the next end of a statement at the depth of braces
 *      where the parser waits are left out, silently;
 *   2. a } that closes that depth ends the statement too;
 *   3. outside of braces only a declaration keyword that starts a line ends
 *      the skip, so the body of a spoilt head is not read as declarations;
 *   4. such a keyword inside braces means that a } is missing: the open
 *      ones are closed first.  The end of the file closes them as well.
 * The parser sees only balanced text, so it reports nothing that an earlier
 * error caused. */
#include "frontend/scan.h"
#include "frontend/tdsl.tab.h"

/* Token kinds by the parts they play in the rules above. */
bool ast_can_end(int kind) {
  switch (kind) {
  case TOK_IDENT:
  case TOK_NUM:
  case TOK_STR:
  case TOK_LIT:
  case TOK_DTYPE:
  case ')':
  case ']':
  case '}': return true;
  default: return false;
  }
}

/* These begin a declaration and never a statement. */
static bool starts_declaration_only(int kind) {
  switch (kind) {
  case TOK_IMPORT:
  case TOK_DIM:
  case TOK_DYN:
  case TOK_CONST:
  case TOK_MESH:
  case TOK_STRUCT:
  case TOK_FN:
  case TOK_EXPORT: return true;
  default: return false;
  }
}

bool ast_can_start(int kind) {
  switch (kind) {
  case TOK_IDENT:
  case TOK_REQUIRE:
  case TOK_ASSERT:
  case TOK_FOR:
  case TOK_EACH:
  case TOK_VAR:
  case TOK_CHECKPOINT: return true;
  default: return starts_declaration_only(kind);
  }
}

void ast_filter_start(ast_parser_t *p, td_task_t *task, td_arena_t *arena,
                      uint32_t source) {
  p->task = task;
  p->arena = arena;
  p->errors_before = td_task_errors(task);
  ast_scan_start(&p->scanner, task, arena, source);
}

uint32_t ast_parse_errors(const ast_parser_t *p) {
  return td_task_errors(p->task) - p->errors_before;
}

/* The next token of the source, without giving it to the parser. */
static ast_token_t peek(ast_parser_t *p) {
  if (!p->has_held) {
    p->held = ast_scan_next(&p->scanner);
    p->has_held = true;
  }
  return p->held;
}

/* Counts brackets.  Beyond AST_MAX_DEPTH only recovery gets here, which
 * needs numbers and no places. */
static void open_one(td_loc_t *places, uint32_t *count, td_loc_t loc) {
  if (*count < AST_MAX_DEPTH) places[*count] = loc;
  ++*count;
}

static void count_brackets(ast_parser_t *p, const ast_token_t *t) {
  switch (t->kind) {
  case '(':
  case '[': open_one(p->brackets, &p->bracket_count, t->loc); break;
  case ')':
  case ']':
    if (p->bracket_count > 0) p->bracket_count--;
    break;
  case '{': open_one(p->braces, &p->brace_count, t->loc); break;
  case '}':
    if (p->brace_count > 0) p->brace_count--;
    break;
  default: break;
  }
}

/* Takes the peeked token from the source. */
static ast_token_t take(ast_parser_t *p) {
  ast_token_t t = p->held;
  p->has_held = false;
  count_brackets(p, &t);
  p->previous = t.kind;
  return t;
}

static ast_token_t newline(ast_parser_t *p, ast_nl_t code) {
  ast_token_t t = {.kind = TOK_NL, .code = (int)code};
  t.loc = p->held.loc;
  if (code == AST_NL_LINE) { /* right behind the last token */
    t.loc = p->last.loc;
    t.loc.line = t.loc.end_line;
    t.loc.column = t.loc.end_column;
  }
  return t;
}

/* Reports nothing: makes the parser recover, and skips to where it can. */
static ast_token_t bad(ast_parser_t *p, td_loc_t loc) {
  p->skipping = true;
  p->scanner.quiet = true;
  p->skip_braces = p->brace_count;
  return (ast_token_t){.kind = TOK_AST_YYerror, .loc = loc};
}

/* ( or [ is open where a block or the file ends. */
static ast_token_t unclosed_bracket(ast_parser_t *p) {
  td_loc_t open = p->brackets[p->bracket_count - 1];
  td_diag_t *d = td_diag(p->task, TD_P02, open,
                         "bracket opened at line %u is not closed", open.line);
  td_diag_label(d, p->held.loc, "%s here",
                p->held.kind == '}' ? "the block ends" : "the file ends");
  p->bracket_count = 0;
  p->spoilt_line = p->held.loc.line;
  return bad(p, p->held.loc);
}

/* The file ends inside of braces.  After other errors braces are not to be
 * trusted, and nothing is said. */
static ast_token_t unclosed_brace(ast_parser_t *p) {
  if (ast_parse_errors(p) == 0) {
    uint32_t last =
        p->brace_count < AST_MAX_DEPTH ? p->brace_count : AST_MAX_DEPTH;
    td_diag_t *d = td_diag(p->task, TD_P04, p->held.loc,
                           "unexpected end of file, expected `}`");
    td_diag_label(d, p->braces[last - 1], "this `{` is not closed");
  }
  return bad(p, p->held.loc);
}

static void stop_skipping(ast_parser_t *p) {
  p->skipping = false;
  p->scanner.quiet = false;
  p->bracket_count = 0;
}

/* Ends the skip with NL, then the } that are missing, each with its NL. */
static ast_token_t close_braces(ast_parser_t *p) {
  p->closing = p->skip_braces;
  p->closing_newline = false;
  p->brace_count = 0;
  stop_skipping(p);
  return newline(p, AST_NL_END);
}

/* Leaves out tokens up to the end of the statement, field or declaration;
 * returns the NL there. */
static ast_token_t skip(ast_parser_t *p) {
  for (;;) {
    ast_token_t t = peek(p);
    bool here = p->brace_count == p->skip_braces;
    bool fresh = t.newline_before || p->previous == TOK_NL;
    if (t.kind == 0) return close_braces(p);
    if (fresh && starts_declaration_only(t.kind)) {
      if (p->skip_braces > 0 || p->brace_count > 0) return close_braces(p);
      stop_skipping(p);
      return newline(p, AST_NL_LINE);
    }
    if (p->skip_braces == 0) {
      if (fresh && t.kind == TOK_REQUIRE && here) {
        stop_skipping(p);
        return newline(p, AST_NL_LINE);
      }
    } else if (here) {
      bool can_end = ast_can_end(p->previous) || p->previous == AST_BAD;
      if (t.kind == '}') {
        stop_skipping(p);
        return newline(p, AST_NL_BRACE);
      }
      if (t.kind == TOK_NL && p->bracket_count == 0) {
        stop_skipping(p);
        return take(p);
      }
      if (t.newline_before && p->bracket_count == 0 && can_end &&
          ast_can_start(t.kind)) {
        stop_skipping(p);
        return newline(p, AST_NL_LINE);
      }
    }
    if (t.kind == '{' || t.kind == '}') p->bracket_count = 0;
    take(p);
  }
}

static ast_token_t next(ast_parser_t *p) {
  if (p->closing > 0) { /* made up: } NL } NL ... */
    ast_token_t t = newline(p, AST_NL_END);
    if (p->closing_newline) {
      p->closing--;
    } else {
      t.kind = '}';
    }
    p->closing_newline = !p->closing_newline;
    return t;
  }
  ast_token_t t = peek(p);
  if (p->skipping) return skip(p);
  bool ends = t.kind == '}' || t.kind == 0;
  if (t.kind == AST_BAD) {
    take(p);
    return bad(p, t.loc);
  }
  if (ends && p->bracket_count > 0) return unclosed_bracket(p);
  if (ast_can_end(p->previous) && p->last.kind != TOK_NL) {
    if (t.kind == '}') return newline(p, AST_NL_BRACE);
    if (t.kind == 0) return newline(p, AST_NL_END);
    if (t.newline_before && p->bracket_count == 0 && ast_can_start(t.kind)) {
      return newline(p, AST_NL_LINE);
    }
  }
  if (t.kind == 0 && p->brace_count > 0) return unclosed_brace(p);
  if ((t.kind == '(' || t.kind == '[' || t.kind == '{') &&
      p->bracket_count + p->brace_count >= AST_MAX_DEPTH) {
    ast_too_deep(p, t.loc);
    return bad(p, t.loc);
  }
  return take(p);
}

ast_token_t ast_filter_next(ast_parser_t *p) {
  p->old_bracket_count = p->bracket_count;
  p->old_brace_count = p->brace_count;
  p->last = next(p);
  return p->last;
}

/* The parser may have refused the last token (then it is the first one to
 * look at when skipping), or have used it: looking at it again does no harm
 * unless it is NL, which the parser keeps. */
void ast_filter_recover(ast_parser_t *p) {
  if (p->skipping || p->closing > 0) return;
  bool newline_taken = p->last.kind == TOK_NL;
  if (newline_taken && p->brace_count > 0 && p->bracket_count == 0) return;
  p->skipping = true;
  p->scanner.quiet = true;
  if (!newline_taken && !p->has_held) {
    p->bracket_count = p->old_bracket_count;
    p->brace_count = p->old_brace_count;
    p->held = p->last;
    p->has_held = true;
  }
  p->skip_braces = p->brace_count;
}
