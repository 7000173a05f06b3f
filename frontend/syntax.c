/* syntax.c: what the parser says about text that is no program, and the
 * names of tokens in messages and dumps.
 *
 * P04 names what stands there and the classes of what could: "an operator"
 * and not fourteen of them.  Where something forgotten earlier is the likely
 * cause, a label points at it. */
#include "frontend/build.h"
#include "frontend/parse.h"
#include "frontend/tdsl.tab.h"

/* Tokens with a fixed text; the others are named by their class. */
static const struct {
  int kind;
  const char *text;
  bool is_word; /* a reserved word that one might take for a name */
} tokens[] = {
    {TOK_IMPORT, "import", true},
    {TOK_DIM, "dim", true},
    {TOK_DYN, "dyn", true},
    {TOK_CONST, "const", true},
    {TOK_REQUIRE, "require", true},
    {TOK_ASSERT, "assert", true},
    {TOK_MESH, "mesh", true},
    {TOK_STRUCT, "struct", true},
    {TOK_FN, "fn", true},
    {TOK_EXPORT, "export", true},
    {TOK_FOR, "for", true},
    {TOK_IN, "in", true},
    {TOK_EACH, "each", true},
    {TOK_VAR, "var", true},
    {TOK_IF, "if", true},
    {TOK_THEN, "then", true},
    {TOK_ELSE, "else", true},
    {TOK_AND, "and", true},
    {TOK_OR, "or", true},
    {TOK_NOT, "not", true},
    {TOK_WHERE, "where", true},
    {TOK_WITH, "with", true},
    {TOK_FROM, "from", true},
    {TOK_INOUT, "inout", true},
    {TOK_AS, "as", true},
    {TOK_PARTIAL, "partial", true},
    {TOK_CHECKPOINT, "checkpoint", true},
    {TOK_ASSIGN, ":=", false},
    {TOK_ADDEQ, "+=", false},
    {TOK_ARROW, "->", false},
    {TOK_EQ, "==", false},
    {TOK_NE, "!=", false},
    {TOK_LE, "<=", false},
    {TOK_GE, ">=", false},
    {TOK_ELLIPSIS, "...", false},
    {TOK_DOTDOT, "..", false},
    {'[', "[", false},
    {']', "]", false},
    {'(', "(", false},
    {')', ")", false},
    {'{', "{", false},
    {'}', "}", false},
    {',', ",", false},
    {'.', ".", false},
    {':', ":", false},
    {'=', "=", false},
    {'<', "<", false},
    {'>', ">", false},
    {'+', "+", false},
    {'-', "-", false},
    {'*', "*", false},
    {'/', "/", false},
    {'%', "%", false},
    {'^', "^", false},
    {'|', "|", false},
    {'@', "@", false},
    {TOK_IDENT, "IDENT", false},
    {TOK_NUM, "NUM", false},
    {TOK_STR, "STR", false},
    {TOK_DTYPE, "DTYPE", false},
    {TOK_LIT, "LIT", false},
    {TOK_REDUCE, "REDUCE", false},
    {TOK_NL, "NL", false},
    {TOK_YYEOF, "END", false},
    {AST_BAD, "BAD", false},
    {AST_COMMENT, "COMMENT", false},
};

/* The row of a kind, or the number of rows. */
static size_t token_row(int kind) {
  size_t count = sizeof tokens / sizeof tokens[0], i = 0;
  while (i < count && tokens[i].kind != kind) i++;
  return i;
}

const char *ast_token_name(int kind) {
  size_t i = token_row(kind);
  return i < sizeof tokens / sizeof tokens[0] ? tokens[i].text : "?";
}

/* A word that cannot be a name although it looks like one. */
static bool is_reserved(const ast_token_t *t) {
  size_t i = token_row(t->kind);
  bool is_word = i < sizeof tokens / sizeof tokens[0] && tokens[i].is_word;
  return is_word || t->kind == TOK_REDUCE || t->kind == TOK_DTYPE ||
         t->kind == TOK_LIT;
}

/* Long texts are cut: a message is one line. */
enum { SHOWN_BYTES_MAX = 40 };

static const char *shown(td_arena_t *arena, const char *text) {
  size_t length = strlen(text);
  if (length <= SHOWN_BYTES_MAX) return text;
  size_t cut = SHOWN_BYTES_MAX;
  while (cut > 0 && ((unsigned char)text[cut] & 0xC0) == 0x80) cut--;
  return td_arena_printf(arena, "%.*s...", (int)cut, text);
}

const char *ast_token_words(td_arena_t *arena, const ast_token_t *t) {
  static const char *const literals[] = {"false", "true", "inf"};
  switch (t->kind) {
  case TOK_IDENT:
    return td_arena_printf(arena, "name `%s`", shown(arena, t->text));
  case TOK_NUM:
    return td_arena_printf(arena, "number `%s`", shown(arena, t->text));
  case TOK_STR:
    return td_arena_printf(arena, "text \"%s\"", shown(arena, t->text));
  case TOK_DTYPE: return td_arena_printf(arena, "dtype `%s`", t->text);
  case TOK_REDUCE:
    return td_arena_printf(arena, "`%s`",
                           ast_reduce_text((ast_reduce_t)t->code));
  case TOK_LIT: return td_arena_printf(arena, "`%s`", literals[t->code]);
  case TOK_YYEOF: return "end of file";
  case TOK_NL:
    switch ((ast_nl_t)t->code) {
    case AST_NL_LINE: return "end of line";
    case AST_NL_SEMICOLON: return "`;`";
    case AST_NL_BRACE: return "`}`";
    case AST_NL_END: return "end of file";
    }
    return "end of line";
  default: return td_arena_printf(arena, "`%s`", ast_token_name(t->kind));
  }
}

/* "a, b or c" */
static const char *join(td_arena_t *arena, const ast_expected_t *e) {
  const char *text = e->words[0];
  for (size_t i = 1; i < e->count; i++) {
    text = td_arena_printf(arena, "%s%s %s", text,
                           i + 1 < e->count ? "," : " or", e->words[i]);
  }
  return text;
}

/* Points at brackets and braces that were probably forgotten: the token can
 * stand nowhere inside of them. */
static void point_at_open(ast_parser_t *p, td_diag_t *d) {
  const ast_token_t *t = &p->last;
  if (p->bracket_count > 0 && p->bracket_count <= AST_MAX_DEPTH &&
      (t->kind == '{' || (t->newline_before && ast_can_start(t->kind)))) {
    td_loc_t open = p->brackets[p->bracket_count - 1];
    td_diag_label(d, open, "the bracket opened here is not closed");
  } else if (p->brace_count > 0 && p->brace_count <= AST_MAX_DEPTH &&
             ast_can_start(t->kind) && t->kind != TOK_IDENT) {
    td_loc_t open = p->braces[p->brace_count - 1];
    td_diag_label(d, open, "the `{` here is not closed");
  }
}

static void say_chained(ast_parser_t *p) {
  td_diag_t *d =
      td_diag(p->task, TD_P03, p->last.loc, "comparisons do not chain");
  td_diag_help(d, "write `a < b and b < c`");
}

void ast_report_syntax(ast_parser_t *p, const ast_expected_t *expected) {
  const ast_token_t *t = &p->last;
  bool stray = t->kind == '}' && p->brace_count == 0;
  /* Where braces went wrong before, what is left over says nothing new. */
  if ((t->kind == 0 || stray) && ast_parse_errors(p) > 0) return;
  if (t->reported || t->loc.line == p->spoilt_line) return;
  if (expected->chained) {
    say_chained(p);
    return;
  }
  const char *got = ast_token_words(p->arena, t);
  td_diag_t *d;
  if (expected->count == 0) {
    d = td_diag(p->task, TD_P04, t->loc, "unexpected %s", got);
  } else {
    d = td_diag(p->task, TD_P04, t->loc, "unexpected %s, expected %s", got,
                join(p->arena, expected));
  }
  point_at_open(p, d);
  if (expected->name && is_reserved(t)) {
    td_diag_note(d, "%s is a reserved word and cannot be a name", got);
  }
  if (t->kind == '=' && expected->value) {
    td_diag_help(d, "a comparison is written `==`");
  }
}

void ast_wrong_brackets(ast_parser_t *p, td_loc_t op_loc, int op,
                        td_loc_t parens, const ast_list_t *list) {
  const char *name = ast_reduce_text((ast_reduce_t)op);
  td_diag_t *d = td_diag(p->task, TD_P01, td_loc_join(op_loc, parens),
                         "index list belongs in square brackets");
  ast_expr_t *const *items = list->items;
  td_buf_t text;
  td_buf_init(&text, p->task);
  for (size_t i = 0; i < list->count; i++) {
    if (i > 0) td_buf_puts(&text, ", ");
    ast_print_expr(p->task, &text, items[i]);
  }
  td_diag_help(d, "write `%s[%s] ...`", name,
               shown(p->arena, td_buf_finish(&text, p->arena)));
}

void ast_too_deep(ast_parser_t *p, td_loc_t loc) {
  td_diag_t *d = td_diag(p->task, TD_L04, loc,
                         "nesting is deeper than %d levels", AST_MAX_DEPTH);
  td_diag_help(d, "name a part of it in a statement of its own");
}

/* ---- dump tokens ------------------------------------------------------ */

static void dump_token(td_buf_t *out, const ast_token_t *t) {
  static const char *const breaks[] = {"line", ";", "}", "end"};
  static const char *const literals[] = {"false", "true", "inf"};
  td_buf_printf(out, "%u:%u-%u:%u %s", t->loc.line, t->loc.column,
                t->loc.end_line, t->loc.end_column, ast_token_name(t->kind));
  switch (t->kind) {
  case TOK_IDENT:
  case TOK_NUM:
  case TOK_DTYPE:
  case TOK_REDUCE: td_buf_printf(out, " %s", t->text); break;
  case TOK_STR: td_buf_printf(out, " \"%s\"", t->text); break;
  case TOK_LIT: td_buf_printf(out, " %s", literals[t->code]); break;
  case TOK_NL: td_buf_printf(out, " %s", breaks[t->code]); break;
  default: break;
  }
  td_buf_putc(out, '\n');
}

void ast_dump_tokens(td_task_t *task, uint32_t source, td_buf_t *out) {
  td_arena_t arena;
  td_arena_init(&arena, task);
  ast_parser_t *p = TD_NEW(&arena, ast_parser_t);
  ast_filter_start(p, task, &arena, source);
  ast_token_t t;
  do {
    t = ast_filter_next(p);
    if (t.kind != TOK_AST_YYerror) dump_token(out, &t);
  } while (t.kind != TOK_YYEOF);
  td_arena_free_all(&arena);
}
