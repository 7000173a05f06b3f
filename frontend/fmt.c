/* fmt.c: `tdslc fmt`.  Canonical text that keeps what the author decided:
 * comments, paragraphs (one blank line at most), which statements share a
 * line, where a statement goes on in the next line, and whether + - * / % ^
 * have blanks around them.  Everything else has one form:
 *
 *   - two blanks of indentation for each block; lines that continue a
 *     statement are four deeper, or stand below the first thing inside the
 *     bracket that is open there;
 *   - a block stays on one line if it was on one and fits;
 *   - a line of more than 100 columns is broken where it costs least: few
 *     brackets deep, and at a loose operator rather than a tight one;
 *   - in neighbouring lines comments behind code stand in one column, and
 *     so do the types of fields, and their `from`.
 *
 * Why the result formats to itself: what a first run adds (a break, a brace
 * moved up) a second run finds in the source and keeps, and every decision
 * of layout looks only at what stands to the left in the output and at what
 * is kept.  Why it means the same: no token is added or lost but `;`, and a
 * line is only broken where a break is no NL.
 *
 * The walk is over a flat list; nothing recurses. */
#include "frontend/fmt_items.h"
#include "frontend/parse.h"
#include "frontend/tdsl.tab.h"

enum {
  WIDTH = 100,         /* columns of a line */
  INDENT = 2,          /* of a block */
  CONTINUE = 4,        /* of a line that continues a statement */
  ALIGN_MAX = 60,      /* brackets further right do not align what follows */
  EARLY = 24,          /* a break so near to the start of the line is */
  POOR = 7,            /* this much worse */
  COMMENT_SPREAD = 40, /* lines so different in width do not share a */
  FIELD_SPREAD = 24,   /* column of comments, or of `from` */
};

/* A line of the result.  Code is in one buffer, comments behind it apart,
 * so that they can be aligned in the end. */
typedef struct line {
  size_t from, to;           /* code, offsets in the buffer */
  size_t width;              /* of the code's last row */
  const fmt_item_t *comment; /* behind the code, or NULL */
  bool blank_before;
  /* A field alone on its line: where its type and its `from` begin, as
   * columns of the code before alignment; 0 if they do not. */
  bool is_field;
  size_t type_at, from_at;
  size_t type_pad, from_pad; /* blanks to put in there */
} line_t;

typedef struct bracket {
  size_t column;      /* behind the bracket */
  size_t line_indent; /* of the line it stands in */
  bool hanging;       /* the last of its line */
} bracket_t;

typedef struct writer {
  td_arena_t arena;
  fmt_items_t items;
  td_buf_t code;
  TD_VEC(line_t) lines;
  TD_VEC(bracket_t) brackets;
  TD_VEC(bool) blocks; /* open ones: on one line? */
  size_t indent;       /* of the current line */
  size_t break_at;     /* item before which the line is to be broken */
  bool has_code;       /* the line has more than comments */
} writer_t;

static size_t block_indent(const writer_t *w) {
  return w->blocks.length * INDENT;
}

static size_t column(const writer_t *w) {
  return td_vec_last(&w->lines).width;
}

/* ---- output ----------------------------------------------------------- */

static void put(writer_t *w, const fmt_item_t *item) {
  line_t *line = &td_vec_last(&w->lines);
  td_buf_str(&w->code, item->text);
  line->to = w->code.length;
  line->width = item->is_multiline ? item->width : line->width + item->width;
  if (item->kind != AST_COMMENT) w->has_code = true;
}

static void put_text(writer_t *w, const char *text) {
  line_t *line = &td_vec_last(&w->lines);
  td_buf_puts(&w->code, text);
  line->to = w->code.length;
  line->width += strlen(text);
}

static void new_line(writer_t *w, size_t indent, bool blank_before) {
  line_t line = {.from = w->code.length, .to = w->code.length};
  line.blank_before = blank_before;
  td_vec_push(&w->arena, &w->lines, line);
  td_buf_pad(&w->code, ' ', indent);
  td_vec_last(&w->lines).to = w->code.length;
  td_vec_last(&w->lines).width = indent;
  w->indent = indent;
  w->has_code = false;
}

/* Where a line begins that continues a statement with this item. */
static size_t continue_at(const writer_t *w, const fmt_item_t *item) {
  if (w->brackets.length == 0) return block_indent(w) + CONTINUE;
  const bracket_t *b = &td_vec_last(&w->brackets);
  bool closes = item->kind == ')' || item->kind == ']';
  if (b->hanging) return b->line_indent + (closes ? 0 : CONTINUE);
  if (b->column > ALIGN_MAX) return block_indent(w) + CONTINUE;
  return b->column;
}

/* ---- looking ahead ---------------------------------------------------- */

/* Does item i start a new line whatever the width? */
static bool forced_break(const writer_t *w, size_t i) {
  const fmt_item_t *item = &w->items.data[i];
  return item->breaks > 0 || w->items.data[i - 1].is_line;
}

/* Columns from item `from` up to the end of the statement, or with `block`
 * up to the } that closes the { at `from`; anything above WIDTH if that
 * does not go on one line. */
static size_t flat_width(const writer_t *w, size_t from, bool block) {
  size_t width = w->items.data[from].width, depth = block ? 1 : 0;
  const fmt_item_t *all = w->items.data;
  if (!block && all[from].ends) return width;
  for (size_t i = from + 1; i < w->items.count && width <= WIDTH; i++) {
    const fmt_item_t *item = &all[i];
    if (item->breaks > 0 || item->is_line || item->is_multiline) break;
    if (item->starts && all[i - 1].kind != '{') width++; /* the ; */
    width += fmt_blank_between(item - 1, item) ? item->width + 1 : item->width;
    if (item->kind == '{') depth++;
    if (item->kind == '}' && --depth == 0) return width;
    if (depth == 0 && item->ends) return width;
  }
  return (size_t)WIDTH + 1;
}

/* Before which item the line that begins with item `from`, at the current
 * column, should be broken; 0 if it fits up to its end. */
static size_t choose_break(writer_t *w, size_t from) {
  const fmt_item_t *all = w->items.data;
  size_t col = column(w) + all[from].width, start = column(w), best = 0;
  int depth = (int)w->brackets.length, best_rank = 0;
  bool overflow = false;
  if (all[from].kind == '(' || all[from].kind == '[') depth++;
  for (size_t i = from + 1; i < w->items.count; i++) {
    const fmt_item_t *item = &all[i];
    if (all[i - 1].ends || forced_break(w, i) || item->is_multiline ||
        all[i - 1].kind == '{') {
      break;
    }
    bool closes = item->kind == ')' || item->kind == ']';
    if (closes) depth--;
    bool blank = fmt_blank_between(item - 1, item);
    int rank = fmt_break_rank(item - 1, item);
    if (rank != FMT_NO_BREAK) {
      rank += depth * 16 + (col < start + EARLY ? POOR : 0);
      if (best == 0 || rank <= best_rank) {
        best = i;
        best_rank = rank;
      }
    }
    if (item->is_line) break;
    col += item->width + (blank ? 1 : 0);
    if (item->kind == '(' || item->kind == '[') depth++;
    if (col > WIDTH) overflow = true;
    if (overflow && best != 0) return best;
  }
  return 0;
}

/* ---- the walk --------------------------------------------------------- */

/* Notes the parts of a field that are aligned. */
static void note_cells(writer_t *w, size_t i) {
  const fmt_item_t *item = &w->items.data[i];
  line_t *line = &td_vec_last(&w->lines);
  if (item->field && line->width == w->indent) line->is_field = true;
  if (!line->is_field || w->brackets.length > 0) return;
  if (item->kind == TOK_FROM) line->from_at = line->width;
  if (i > 0 && item[-1].kind == ':') line->type_at = line->width;
}

/* Starts a line with item i, and plans where it is to be broken. */
static void begin(writer_t *w, size_t i, size_t indent, bool blank_before) {
  w->items.data[i].tight = false;
  new_line(w, indent, blank_before);
  w->break_at = choose_break(w, i);
}

static void comment(writer_t *w, size_t i, const fmt_item_t *before) {
  const fmt_item_t *item = &w->items.data[i];
  bool level = !before || before->ends || before->kind == '{';
  if (i > 0 && !forced_break(w, i)) {
    if (item->is_line) {
      td_vec_last(&w->lines).comment = item;
    } else {
      put_text(w, " ");
      put(w, item);
      td_vec_last(&w->lines).is_field = false; /* columns are bytes there */
    }
    return;
  }
  bool first = i == 0 || w->items.data[i - 1].kind == '{';
  begin(w, i, level ? block_indent(w) : continue_at(w, item),
        level && !first && item->breaks > 1);
  put(w, item);
}

/* The first token of a statement, field or declaration. */
static void start(writer_t *w, size_t i, const fmt_item_t *before) {
  const fmt_item_t *item = &w->items.data[i];
  if (i == 0) {
    begin(w, i, 0, false);
    return;
  }
  bool in_line = w->blocks.length > 0 && td_vec_last(&w->blocks);
  bool first = before && before->kind == '{';
  bool fresh = forced_break(w, i);
  if (!fresh && !w->has_code) { /* behind a comment that began the line */
    put_text(w, " ");
    w->break_at = choose_break(w, i);
  } else if (in_line && first) {
    put_text(w, " ");
  } else if (in_line || (!fresh && !first &&
                         column(w) + 2 + flat_width(w, i, false) <= WIDTH)) {
    put_text(w, before && before->semicolon ? " " : "; ");
    td_vec_last(&w->lines).is_field = false; /* two on a line */
  } else {
    begin(w, i, block_indent(w),
          item->breaks > 1 && w->items.data[i - 1].kind != '{');
  }
}

static void close_block(writer_t *w, size_t i) {
  bool in_line = td_vec_pop(&w->blocks);
  if (in_line) {
    put_text(w, " ");
  } else {
    begin(w, i, block_indent(w), false);
  }
}

static void go_on(writer_t *w, size_t i) {
  fmt_item_t *item = &w->items.data[i];
  bool moves_up = item->kind == '{' && item[-1].kind != AST_COMMENT;
  if ((forced_break(w, i) && !moves_up) || i == w->break_at) {
    begin(w, i, continue_at(w, item), false);
  } else if (fmt_blank_between(item - 1, item)) {
    put_text(w, " ");
  }
}

static void token(writer_t *w, size_t i, const fmt_item_t *before) {
  const fmt_item_t *item = &w->items.data[i];
  bool closes = item->kind == ')' || item->kind == ']';
  if (item->kind == '}') {
    close_block(w, i);
  } else if (item->starts) {
    start(w, i, before);
  } else {
    go_on(w, i);
  }
  if (closes && w->brackets.length > 0) (void)td_vec_pop(&w->brackets);
  if (item->kind == '{') { /* the blank before it is out already */
    bool fits = column(w) + flat_width(w, i, true) <= WIDTH;
    td_vec_push(&w->arena, &w->blocks, fits);
  }
  note_cells(w, i);
  put(w, item);
  if (item->kind == '(' || item->kind == '[') {
    bool last = i + 1 < w->items.count;
    bool hanging = last && (w->items.data[i + 1].breaks > 0 ||
                            w->items.data[i + 1].is_line);
    bracket_t b = {column(w), w->indent, hanging};
    td_vec_push(&w->arena, &w->brackets, b);
  }
  if (item->semicolon) put_text(w, ";");
}

/* ---- the result ------------------------------------------------------- */

/* The column of the comments of the lines from i on, and in *end the line
 * behind the last that shares it. */
static size_t comment_column(const writer_t *w, size_t i, size_t *end) {
  size_t low = w->lines.data[i].width, high = low, k = i + 1;
  for (; k < w->lines.length; k++) {
    const line_t *line = &w->lines.data[k];
    if (!line->comment || line->blank_before) break;
    size_t new_low = line->width < low ? line->width : low;
    size_t new_high = line->width > high ? line->width : high;
    if (new_high - new_low > COMMENT_SPREAD) break;
    low = new_low;
    high = new_high;
  }
  *end = k;
  return high + 2;
}

/* Aligns the fields of the lines from i on; returns the line behind. */
static size_t align_fields(writer_t *w, size_t i) {
  line_t *lines = w->lines.data;
  size_t k = i, low = SIZE_MAX, high = 0, type_at = 0, from_at = 0;
  for (; k < w->lines.length && lines[k].is_field; k++) {
    size_t at = lines[k].from_at - lines[k].type_at;
    if (k > i && lines[k].blank_before) break;
    if (lines[k].from_at > 0) {
      size_t new_low = at < low ? at : low, new_high = at > high ? at : high;
      if (new_high - new_low > FIELD_SPREAD) break;
      low = new_low;
      high = new_high;
    }
    if (lines[k].type_at > type_at) type_at = lines[k].type_at;
  }
  from_at = type_at + high;
  for (size_t n = i; n < k; n++) {
    line_t *line = &lines[n];
    if (line->type_at > 0) line->type_pad = type_at - line->type_at;
    if (line->from_at > 0) {
      line->from_pad = from_at - line->from_at - line->type_pad;
    }
    line->width += line->type_pad + line->from_pad;
  }
  return k;
}

static void put_code(const writer_t *w, const line_t *line, td_buf_t *out) {
  const char *code = w->code.data + line->from;
  size_t length = line->to - line->from, at = 0;
  if (line->type_pad > 0) {
    td_buf_put(out, code, line->type_at);
    td_buf_pad(out, ' ', line->type_pad);
    at = line->type_at;
  }
  if (line->from_pad > 0) {
    td_buf_put(out, code + at, line->from_at - at);
    td_buf_pad(out, ' ', line->from_pad);
    at = line->from_at;
  }
  td_buf_put(out, code + at, length - at);
}

static void finish(writer_t *w, td_buf_t *out) {
  for (size_t i = 0; i < w->lines.length;) {
    i = w->lines.data[i].is_field ? align_fields(w, i) : i + 1;
  }
  size_t shared = 0, at = 0; /* lines below `shared` have comments at `at` */
  for (size_t i = 0; i < w->lines.length; i++) {
    const line_t *line = &w->lines.data[i];
    if (line->blank_before) td_buf_putc(out, '\n');
    put_code(w, line, out);
    if (line->comment) {
      if (i >= shared) at = comment_column(w, i, &shared);
      td_buf_pad(out, ' ', at - line->width);
      td_buf_str(out, line->comment->text);
    }
    td_buf_putc(out, '\n');
  }
}

bool fmt_source(td_task_t *task, uint32_t source, td_buf_t *out) {
  writer_t w = {0};
  td_arena_init(&w.arena, task);
  bool ok = !ast_parse(task, &w.arena, source)->has_errors;
  if (ok) {
    td_buf_init(&w.code, task);
    w.items = fmt_collect(task, &w.arena, source);
    const fmt_item_t *before = NULL; /* the last token */
    for (size_t i = 0; i < w.items.count; i++) {
      if (w.items.data[i].kind == AST_COMMENT) {
        comment(&w, i, before);
      } else {
        token(&w, i, before);
        before = &w.items.data[i];
      }
    }
    finish(&w, out);
    td_buf_free(&w.code);
  }
  td_arena_free_all(&w.arena);
  return ok;
}
