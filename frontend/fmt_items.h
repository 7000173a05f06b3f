/* fmt_items.h: what fmt lays out: the tokens of a source and its comments in
 * one list, with what their places in the grammar mean for blanks.  Between
 * fmt_items.c, which makes the list, and fmt.c, which prints it. */
#ifndef TDSL_FRONTEND_FMT_ITEMS_H
#define TDSL_FRONTEND_FMT_ITEMS_H

#include "frontend/scan.h"

typedef struct fmt_item {
  int kind;          /* token number, or AST_COMMENT */
  td_str_t text;     /* as printed */
  size_t width;      /* columns of the text's last line */
  uint32_t breaks;   /* line breaks between it and the item before */
  bool is_line;      /* comment to the end of the line */
  bool is_multiline; /* comment with a line break inside */
  bool ends;         /* token: a statement, field or declaration ends here */
  bool semicolon;    /* ends: and a line break alone would not show it */
  bool starts;       /* token: first of a statement, field or declaration */
  bool field;        /* starts a field of a struct */
  bool prefix_minus; /* - with nothing on its left */
  bool tight;        /* + - * / % ^ written without blanks around */
  bool wide_at;      /* @ with a blank before it: a mark on a whole type */
  bool prefix_close; /* ] of sum[i] or [L] Block: what follows is apart */
  bool apart;        /* ( of import nn (...) */
} fmt_item_t;

typedef struct fmt_items {
  fmt_item_t *data;
  size_t count;
} fmt_items_t;

/* The items of a source without syntax errors. */
fmt_items_t fmt_collect(td_task_t *task, td_arena_t *arena, uint32_t source);

/* Whether a blank stands between two neighbours on one line.  The second
 * one may be anything but the first item of the line. */
bool fmt_blank_between(const fmt_item_t *a, const fmt_item_t *b);

/* How good it is to break the line before b, behind a: small is good,
 * FMT_NO_BREAK is never. */
enum { FMT_NO_BREAK = 99 };
int fmt_break_rank(const fmt_item_t *a, const fmt_item_t *b);

#endif
