/* fmt_items.c: tokens and comments of a source in one list, for fmt.c.
 *
 *   1. The scanner gives all tokens and, as nobody else asks for them, the
 *      comments, each with its place; line breaks are counted from places.
 *   2. The newline filter goes over the same source and says behind which
 *      tokens a statement ends.  So fmt has no copy of the newline rule.
 *   3. One pass with a stack of brackets finds out what a token's place in
 *      the grammar would say about blanks: is - a sign, is [ a stack. */
#include "frontend/fmt_items.h"
#include "frontend/tdsl.tab.h"

/* Columns of a text, all code points taken as one wide; behind the last
 * line break. */
static size_t width_of(td_str_t text) {
  size_t width = 0;
  for (size_t i = 0; i < text.length; i++) {
    unsigned char c = (unsigned char)text.data[i];
    if (c == '\n') {
      width = 0;
    } else if ((c & 0xC0) != 0x80) {
      width++;
    }
  }
  return width;
}

/* ---- collecting ------------------------------------------------------- */

typedef TD_VEC(fmt_item_t) item_list_t;

typedef struct collector {
  td_arena_t *arena;
  const td_source_t *source;
  size_t line_offset; /* of the line below */
  uint32_t line;
  uint32_t last_line; /* where the item before ends */
  item_list_t items;
} collector_t;

/* Offset of a place.  Places come in order, so lines are counted once. */
static size_t offset_of(collector_t *c, uint32_t line, uint32_t column) {
  while (c->line < line) {
    const char *text = c->source->text + c->line_offset;
    const char *end = memchr(text, '\n', c->source->length - c->line_offset);
    c->line_offset += (size_t)(end - text) + 1;
    c->line++;
  }
  return c->line_offset + column - 1;
}

/* A comment without CR, and without blanks at its end. */
static td_str_t clean(td_arena_t *arena, td_str_t text) {
  char *copy = td_arena_alloc(arena, text.length + 1);
  size_t n = 0;
  for (size_t i = 0; i < text.length; i++) {
    if (text.data[i] != '\r') copy[n++] = text.data[i];
  }
  while (n > 0 && (copy[n - 1] == ' ' || copy[n - 1] == '\t')) n--;
  return td_str_n(copy, n);
}

/* Appends a token or comment with its text as in the source. */
static fmt_item_t *add(collector_t *c, const ast_token_t *t) {
  size_t from = offset_of(c, t->loc.line, t->loc.column);
  size_t to = offset_of(c, t->loc.end_line, t->loc.end_column);
  fmt_item_t item = {.kind = t->kind};
  item.text = td_str_n(c->source->text + from, to - from);
  item.breaks = t->loc.line - c->last_line;
  if (t->kind == AST_COMMENT) {
    item.is_line = item.text.data[1] == '/';
    item.is_multiline = t->loc.line != t->loc.end_line;
    item.text = clean(c->arena, item.text);
  }
  item.width = width_of(item.text);
  c->last_line = t->loc.end_line;
  td_vec_push(c->arena, &c->items, item);
  return &td_vec_last(&c->items);
}

static bool is_real(const fmt_item_t *item) {
  return item->kind != AST_COMMENT;
}

/* Where statements end.  The filter is asked once more: it knows. */
static void mark_ends(td_task_t *task, td_arena_t *arena, uint32_t source,
                      item_list_t *items) {
  ast_parser_t *p = TD_NEW(arena, ast_parser_t);
  ast_filter_start(p, task, arena, source);
  fmt_item_t *before = NULL;
  size_t i = 0;
  for (;;) {
    ast_token_t t = ast_filter_next(p);
    if (t.kind == TOK_YYEOF) break;
    if (t.kind == TOK_NL) {
      if (before && before->kind != '{') before->ends = true;
      continue;
    }
    while (!is_real(&items->data[i])) i++;
    TD_CHECK(task, items->data[i].kind == t.kind, "fmt lost a token");
    items->data[i].starts = !before || before->ends || before->kind == '{';
    if (before && before->ends) {
      before->semicolon = t.kind != '}' && !ast_can_start(t.kind);
    }
    before = &items->data[i++];
  }
}

/* ---- what blanks mean ------------------------------------------------- */

static bool is_arithmetic(int kind) {
  return kind == '+' || kind == '-' || kind == '*' || kind == '/' ||
         kind == '%' || kind == '^';
}

/* Texts of tokens point into the source, so neighbours can be compared.
 * Touching in the source: nothing between the two texts. */
static bool touch(const fmt_item_t *a, const fmt_item_t *b) {
  return is_real(a) && is_real(b) &&
         a->text.data + a->text.length == b->text.data;
}

/* `value`: what stands before is an operand, so - is a difference and [ a
 * subscript.  Behind sum[i] and [L] it is not, although ] could end one. */
static void classify(td_arena_t *arena, item_list_t *items) {
  TD_VEC(bool) brackets = {0}; /* open ones: prefixes? */
  const fmt_item_t *before = NULL, *before2 = NULL;
  bool in_struct = false;
  for (size_t i = 0; i < items->length; i++) {
    fmt_item_t *item = &items->data[i];
    if (!is_real(item)) continue;
    bool value = before && ast_can_end(before->kind) && !before->prefix_close &&
                 !before->ends;
    if (item->starts) in_struct = item->kind == TOK_STRUCT || in_struct;
    if (item->kind == '}') in_struct = false;
    item->field = in_struct && item->starts && item->kind == TOK_IDENT;
    bool more = i > 0 && i + 1 < items->length;
    if (is_arithmetic(item->kind)) {
      item->prefix_minus = item->kind == '-' && !value;
      item->tight = !item->prefix_minus && more && touch(item - 1, item) &&
                    touch(item, item + 1);
    } else if (item->kind == '@') {
      item->wide_at = i > 0 && !touch(item - 1, item);
    } else if (item->kind == '[' || item->kind == '(') {
      bool stack =
          item->kind == '[' && (!value || (before && before->prefix_close));
      td_vec_push(arena, &brackets,
                  item->kind == '[' && (stack || before->kind == TOK_REDUCE));
      item->apart = before2 && before2->kind == TOK_IMPORT;
    } else if ((item->kind == ']' || item->kind == ')') &&
               brackets.length > 0) {
      item->prefix_close = td_vec_pop(&brackets);
    }
    before2 = before;
    before = item;
  }
}

fmt_items_t fmt_collect(td_task_t *task, td_arena_t *arena, uint32_t source) {
  collector_t c = {.arena = arena, .line = 1, .last_line = 1};
  c.source = td_sources_get(task, source);
  ast_scanner_t scanner;
  ast_scan_start(&scanner, task, arena, source);
  scanner.keep_comments = true;
  for (;;) {
    ast_token_t t = ast_scan_next(&scanner);
    if (t.kind == TOK_YYEOF) break;
    if (t.kind != TOK_NL) add(&c, &t);
  }
  mark_ends(task, arena, source, &c.items);
  classify(arena, &c.items);
  return (fmt_items_t){c.items.data, c.items.length};
}

/* ---- rules between neighbours ----------------------------------------- */

/* Is ( or [ the continuation of what stands before it? */
static bool attaches(const fmt_item_t *a, const fmt_item_t *b) {
  switch (a->kind) {
  case TOK_IDENT: return !b->apart;
  case ')':
  case TOK_REDUCE:
  case TOK_DTYPE: return true;
  case ']': return b->kind == '[' || !a->prefix_close;
  case TOK_PARTIAL: return b->kind == '(';
  default: return false;
  }
}

bool fmt_blank_between(const fmt_item_t *a, const fmt_item_t *b) {
  switch (b->kind) {
  case ')':
  case ']':
  case ',':
  case '.': return false;
  case ':': return a->kind == ','; /* x[t, :] */
  default: break;
  }
  if (a->kind == AST_COMMENT || b->kind == AST_COMMENT) return true;
  switch (a->kind) {
  case '(':
  case '[':
  case '.':
  case '@':
  case TOK_ELLIPSIS: return false;
  default: break;
  }
  if (a->prefix_minus || a->tight || b->tight) return false;
  if (b->kind == '@') return b->wide_at;
  if (b->kind == '(' || b->kind == '[') return !attaches(a, b);
  return true;
}

/* The looser an operator binds, the better the break before it.  Nothing
 * that may begin a statement is listed, except behind a comma, which cannot
 * end one: so no break made here is ever NL. */
int fmt_break_rank(const fmt_item_t *a, const fmt_item_t *b) {
  if (a->kind == ',') return 1;
  switch (b->kind) {
  case TOK_ARROW:
  case TOK_THEN:
  case TOK_ELSE:
  case TOK_WHERE:
  case TOK_WITH:
  case TOK_FROM: return 0;
  case '|': return 1;
  case TOK_OR: return 2;
  case TOK_AND: return 3;
  case TOK_EQ:
  case TOK_NE:
  case TOK_LE:
  case TOK_GE:
  case '<':
  case '>': return 5;
  case '+': return 6;
  case '-': return b->prefix_minus ? FMT_NO_BREAK : 6;
  case '*':
  case '/':
  case '%': return 8;
  case '^': return 10;
  default: return FMT_NO_BREAK;
  }
}
