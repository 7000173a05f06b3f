/* A record as text for people and as JSON for tools.

   The text: one line `file:line:col: error[ID]: message`, the source line
   with its spans underlined (carets for the place itself, dashes for labels),
   notes, the excerpts of labels on other lines, help. Columns count what a
   terminal shows: a tab runs to the next multiple of 8, wide characters take
   two, combining ones none. */
#include "runtime/base/diag.h"
#include "runtime/base/task.h"

#define TAB_STOP 8u

/* Escapes are the eight basic colors, which every theme keeps readable. */
static const char *const red = "\x1b[1;31m";
static const char *const yellow = "\x1b[1;33m";
static const char *const blue = "\x1b[1;34m";
static const char *const bold = "\x1b[1m";
static const char *const plain = "\x1b[0m";

typedef struct render_t {
  td_buf_t *buf;
  td_task_t *task;
  bool color;
  int gutter; /* columns of the widest line number, at least 2 */
} render_t;

/* A line of a source without its end (LF, CRLF or the file's). */
static td_str_t line_of(const td_source_t *source, uint32_t line) {
  const char *p = source->text, *end = p + source->length;
  for (uint32_t n = 1; n < line; n++) {
    p = memchr(p, '\n', (size_t)(end - p));
    if (!p) return td_str_n(end, 0);
    p++;
  }
  const char *stop = memchr(p, '\n', (size_t)(end - p));
  size_t length = (size_t)((stop ? stop : end) - p);
  if (length && p[length - 1] == '\r') length--;
  return td_str_n(p, length);
}

/* One character of a line: its bytes, what it shows as, and how many columns
   from `at`. Control characters and bad bytes show as one '?'. */
static size_t next_char(td_str_t line, size_t byte, unsigned at,
                        unsigned *columns, bool *shown) {
  uint32_t code;
  size_t n = td_utf8_decode(line.data + byte, line.length - byte, &code);
  *shown = false;
  *columns = 1;
  if (n == 0) return 1;
  if (code == '\t') {
    *columns = TAB_STOP - at % TAB_STOP;
  } else if (code >= 0x20 && !(code >= 0x7f && code < 0xa0)) {
    *columns = (unsigned)td_utf8_width(code);
    *shown = true;
  }
  return n;
}

/* Shown columns before a byte column (1-based) of a line. Columns past the
   end count as one each: carets may point behind the last character. */
/* Bytes inside a character count as its start, so a span that cuts a
   character is widened rather than shifted. */
static unsigned columns_before(td_str_t line, uint32_t column) {
  unsigned at = 0, width;
  bool shown;
  size_t byte = 0, stop = column ? column - 1 : 0;
  while (byte < stop && byte < line.length) {
    byte += next_char(line, byte, at, &width, &shown);
    at += width;
  }
  return stop > line.length ? at + 1 : at;
}

/* The columns of a line that are shown; the rest is "...". */
typedef struct window_t {
  unsigned from, to;
  bool cut; /* something is left out on the right */
} window_t;

/* A generated line of a megabyte would bury its own message. */
enum { MOST_COLUMNS = 240, BEFORE_MARK = 80, DOTS = 3 };

/* All of a usual line; of a long one what stands around a column of it. */
static window_t window_of(td_str_t line, unsigned around) {
  unsigned width = columns_before(line, (uint32_t)line.length + 1);
  window_t w = {0, width, false};
  if (width <= MOST_COLUMNS) return w;
  if (around > width) around = width;
  if (around > BEFORE_MARK) w.from = around - BEFORE_MARK;
  if (width - w.from > MOST_COLUMNS) {
    w.to = w.from + MOST_COLUMNS;
    w.cut = true;
  }
  return w;
}

/* A column of the line as a column of the window, edges included. */
static unsigned in_window(const window_t *w, unsigned column) {
  unsigned shift = w->from ? DOTS : 0;
  if (column < w->from) return 0;
  return (column > w->to && w->cut ? w->to : column) - w->from + shift;
}

/* The line as columns_before counts it: what is shown and where the carets
   go must agree for any bytes at all. A wide character that an edge cuts is
   blank. */
static void put_line(td_buf_t *buf, td_str_t line, const window_t *w) {
  unsigned at = 0, width;
  bool shown;
  if (w->from) td_buf_puts(buf, "...");
  for (size_t byte = 0; byte < line.length && at < w->to;) {
    size_t n = next_char(line, byte, at, &width, &shown);
    unsigned end = at + width;
    if (at >= w->from || end > w->from) {
      bool whole = at >= w->from && end <= w->to;
      if (shown && whole) td_buf_put(buf, line.data + byte, n);
      else if (!shown && line.data[byte] != '\t') td_buf_putc(buf, '?');
      else td_buf_pad(buf, ' ', (end < w->to ? end : w->to) -
                                  (at > w->from ? at : w->from));
    }
    byte += n;
    at = end;
  }
  if (w->cut) td_buf_puts(buf, "...");
}

/* Escapes take no columns, so they can go anywhere. */
static void paint(render_t *r, const char *escape) {
  if (r->color) td_buf_puts(r->buf, escape);
}

/* Lines hold no blanks at their end. */
static void end_line(render_t *r) {
  td_buf_t *b = r->buf;
  while (b->length && b->data[b->length - 1] == ' ') b->length--;
  td_buf_putc(b, '\n');
}

/* "12 | " for a line, "   | " for what stands below it. */
static void put_gutter(render_t *r, uint32_t line) {
  paint(r, blue);
  if (line) td_buf_printf(r->buf, "%*u |", r->gutter, line);
  else td_buf_printf(r->buf, "%*s |", r->gutter, "");
  paint(r, plain);
  td_buf_putc(r->buf, ' ');
}

/* A span on one line, in shown columns, the end exclusive. */
typedef struct mark_t {
  unsigned first, end;
  bool primary;
  const char *text;
} mark_t;

/* More spans on one line could not be told apart; the rest is left out. */
#define MOST_MARKS 16

typedef struct marks_t {
  mark_t mark[MOST_MARKS];
  int count;
} marks_t;

/* A span without extent is shown one column wide. */
static void add_mark(marks_t *marks, td_str_t line, td_loc_t loc,
                     bool primary, const char *text) {
  if (marks->count == MOST_MARKS) return;
  mark_t m = {columns_before(line, loc.column), 0, primary, text};
  if (loc.end_line > loc.line) { /* goes on below: to the end of the line */
    m.end = columns_before(line, (uint32_t)line.length + 1);
  } else if (loc.end_line) {
    m.end = columns_before(line, loc.end_column);
  }
  if (m.end <= m.first) m.end = m.first + 1;
  /* Kept from left to right, so that labels can go from right to left. */
  int at = marks->count++;
  while (at > 0 && marks->mark[at - 1].first > m.first) {
    marks->mark[at] = marks->mark[at - 1];
    at--;
  }
  marks->mark[at] = m;
}

/* The row of carets and dashes below a line. */
static void underline(render_t *r, const marks_t *marks) {
  unsigned at = 0;
  for (int i = 0; i < marks->count; i++) {
    const mark_t *m = &marks->mark[i];
    unsigned end = m->end;
    /* Of two that overlap the later start wins the common part. */
    if (i + 1 < marks->count && marks->mark[i + 1].first < end) {
      end = marks->mark[i + 1].first;
    }
    if (m->first > at) {
      td_buf_pad(r->buf, ' ', m->first - at);
      at = m->first;
    }
    if (end <= at) continue;
    paint(r, m->primary ? red : blue);
    td_buf_pad(r->buf, m->primary ? '^' : '-', end - at);
    paint(r, plain);
    at = end;
  }
}

/* The line, its underlines, and the labels: the rightmost beside its span,
   the others below, each at the start of its own. */
static void excerpt(render_t *r, const td_diag_t *diag,
                    const td_source_t *source, uint32_t file,
                    uint32_t number, bool with_primary) {
  marks_t marks;
  marks.count = 0;
  td_str_t line = line_of(source, number);
  if (with_primary) {
    add_mark(&marks, line, diag->loc, true,
             diag->beside ? diag->beside : "");
  }
  for (size_t i = 0; i < diag->labels.length; i++) {
    const td_diag_label_t *l = &diag->labels.data[i];
    if (l->loc.file == file && l->loc.line == number) {
      add_mark(&marks, line, l->loc, false, l->text);
    }
  }
  int at = 0;
  while (at < marks.count - 1 && !marks.mark[at].primary) at++;
  window_t window = window_of(line, marks.mark[at].first);
  for (int i = 0; i < marks.count; i++) {
    mark_t *m = &marks.mark[i];
    m->first = in_window(&window, m->first);
    m->end = in_window(&window, m->end);
    if (m->end <= m->first) m->end = m->first + 1;
  }
  put_gutter(r, number);
  put_line(r->buf, line, &window);
  end_line(r);
  put_gutter(r, 0);
  underline(r, &marks);
  int last = marks.count - 1;
  if (marks.mark[last].text[0]) {
    td_buf_printf(r->buf, " %s", marks.mark[last].text);
  }
  end_line(r);
  for (int i = last - 1; i >= 0; i--) {
    if (!marks.mark[i].text[0]) continue;
    put_gutter(r, 0);
    td_buf_pad(r->buf, ' ', marks.mark[i].first);
    td_buf_puts(r->buf, marks.mark[i].text);
    end_line(r);
  }
}

/* Continued lines of a note or help are indented to its text. */
static void put_indented(td_buf_t *buf, const char *text, unsigned indent) {
  for (const char *p = text; *p;) {
    const char *stop = strchr(p, '\n');
    size_t n = stop ? (size_t)(stop - p) : strlen(p);
    if (p != text) td_buf_pad(buf, ' ', indent);
    td_buf_put(buf, p, n);
    td_buf_putc(buf, '\n');
    p += n + (stop != NULL);
  }
}

/* Decimal digits of a line number, for the width of the gutter. */
static int digits_of(uint32_t n) {
  int count = 1;
  while (n >= 10) n /= 10, count++;
  return count;
}

/* The first line. Terminals and editors make a link of file:line:col, so
   nothing stands before it. */
static void put_head(render_t *r, const td_diag_t *diag,
                     const td_source_t *source) {
  bool is_error = diag->severity == TDSL_SEVERITY_ERROR;
  paint(r, bold);
  if (source) {
    td_buf_puts(r->buf, source->name);
    if (diag->loc.line) {
      unsigned column = diag->loc.column;
      if (source->text) {
        td_str_t line = line_of(source, diag->loc.line);
        column = columns_before(line, diag->loc.column) + 1;
      }
      td_buf_printf(r->buf, ":%u:%u", diag->loc.line, column);
    }
    td_buf_puts(r->buf, ": ");
  }
  paint(r, is_error ? red : yellow);
  td_buf_printf(r->buf, "%s[%s]", is_error ? "error" : "warning",
                td_diag_name(diag->id));
  paint(r, plain);
  td_buf_printf(r->buf, ": %s\n", diag->text);
}

/* Whether label i is the first on its line, which then is shown for all. */
static bool opens_line(const td_diag_t *diag, size_t i) {
  td_loc_t at = diag->labels.data[i].loc;
  for (size_t j = 0; j < i; j++) {
    td_loc_t other = diag->labels.data[j].loc;
    if (other.file == at.file && other.line == at.line) return false;
  }
  return true;
}

/* The order is that of the design's examples: the place, why (notes), where
   else (other lines), what to do (help). */
void td_diag_render(td_buf_t *buf, td_task_t *task, const td_diag_t *diag,
                    bool color) {
  render_t r = {buf, task, color, 2};
  const td_source_t *source = td_sources_get(task, diag->loc.file);
  if (digits_of(diag->loc.line) > r.gutter) {
    r.gutter = digits_of(diag->loc.line);
  }
  for (size_t i = 0; i < diag->labels.length; i++) {
    int n = digits_of(diag->labels.data[i].loc.line);
    if (n > r.gutter) r.gutter = n;
  }
  put_head(&r, diag, source);
  bool has_excerpt = source && source->text && diag->loc.line;
  if (has_excerpt) {
    excerpt(&r, diag, source, diag->loc.file, diag->loc.line, true);
  }
  for (size_t i = 0; i < diag->notes.length; i++) {
    paint(&r, blue);
    td_buf_printf(buf, "%*s = ", r.gutter, "");
    paint(&r, plain);
    put_indented(buf, diag->notes.data[i], (unsigned)r.gutter + 3);
  }
  uint32_t file = diag->loc.file;
  for (size_t i = 0; i < diag->labels.length; i++) {
    td_loc_t at = diag->labels.data[i].loc;
    const td_source_t *s = td_sources_get(task, at.file);
    if (!s || !s->text || at.line == 0 || !opens_line(diag, i)) continue;
    if (has_excerpt && at.file == diag->loc.file &&
        at.line == diag->loc.line) {
      continue;
    }
    if (at.file != file) {
      td_buf_printf(buf, "%*s --> %s:%u\n", r.gutter, "", s->name, at.line);
      file = at.file;
    }
    excerpt(&r, diag, s, at.file, at.line, false);
  }
  for (size_t i = 0; i < diag->helps.length; i++) {
    paint(&r, bold);
    td_buf_puts(buf, "help: ");
    paint(&r, plain);
    put_indented(buf, diag->helps.data[i], 6);
  }
}

/* -- JSON -- */

/* Columns are the shown ones, as in the text, so that tools and people speak
   of the same column. */
static void json_loc(td_buf_t *buf, td_task_t *task, td_loc_t loc) {
  const td_source_t *s = td_sources_get(task, loc.file);
  td_buf_puts(buf, "\"file\":");
  if (s) td_buf_json(buf, td_str(s->name));
  else td_buf_puts(buf, "null");
  unsigned column = loc.column, end = loc.end_column;
  if (s && s->text && loc.line) {
    column = columns_before(line_of(s, loc.line), loc.column) + 1;
    if (loc.end_line) {
      end = columns_before(line_of(s, loc.end_line), loc.end_column) + 1;
    }
  }
  td_buf_printf(buf, ",\"line\":%u,\"column\":%u", loc.line, column);
  td_buf_printf(buf, ",\"end_line\":%u,\"end_column\":%u", loc.end_line, end);
}

static void json_texts(td_buf_t *buf, const char *key,
                       const char *const *texts, size_t count) {
  td_buf_printf(buf, ",\"%s\":[", key);
  for (size_t i = 0; i < count; i++) {
    if (i) td_buf_putc(buf, ',');
    td_buf_json(buf, td_str(texts[i]));
  }
  td_buf_putc(buf, ']');
}

void td_diag_json(td_buf_t *buf, td_task_t *task, const td_diag_t *diag) {
  bool is_error = diag->severity == TDSL_SEVERITY_ERROR;
  td_buf_printf(buf, "{\"id\":\"%s\",\"severity\":\"%s\",",
                td_diag_name(diag->id), is_error ? "error" : "warning");
  json_loc(buf, task, diag->loc);
  td_buf_puts(buf, ",\"text\":");
  td_buf_json(buf, td_str(diag->text));
  td_buf_puts(buf, ",\"beside\":");
  td_buf_json(buf, td_str(diag->beside ? diag->beside : ""));
  td_buf_puts(buf, ",\"labels\":[");
  for (size_t i = 0; i < diag->labels.length; i++) {
    td_buf_puts(buf, i ? ",{" : "{");
    json_loc(buf, task, diag->labels.data[i].loc);
    td_buf_puts(buf, ",\"text\":");
    td_buf_json(buf, td_str(diag->labels.data[i].text));
    td_buf_putc(buf, '}');
  }
  td_buf_putc(buf, ']');
  json_texts(buf, "notes", diag->notes.data, diag->notes.length);
  json_texts(buf, "help", diag->helps.data, diag->helps.length);
  td_buf_puts(buf, ",\"edits\":[");
  for (size_t i = 0; i < diag->edits.length; i++) {
    td_buf_puts(buf, i ? ",{" : "{");
    json_loc(buf, task, diag->edits.data[i].loc);
    td_buf_puts(buf, ",\"replacement\":");
    td_buf_json(buf, td_str(diag->edits.data[i].replacement));
    td_buf_putc(buf, '}');
  }
  td_buf_puts(buf, "]}");
}
