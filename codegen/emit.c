/* emit.c: see emit.h. */
#include "codegen/emit.h"

enum { NAME_MOST = 40 };

/* The last part of a path: text must not depend on the folder. */
static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/* Quotes, backslashes and what is not ASCII would need escapes that compilers
 * read in different ways. */
static bool is_plain(char c) {
  return c > 0x20 && c < 0x7f && c != '"' && c != '\\';
}

const char *cg_line_name(td_task_t *task, td_arena_t *arena, uint32_t file) {
  const td_source_t *s = td_sources_get(task, file);
  if (s == NULL || s->name == NULL) return NULL;
  const char *name = base_name(s->name);
  size_t n = strlen(name), root = sizeof CG_LINE_ROOT - 1;
  char *out = td_arena_alloc(arena, root + n + 1);
  memcpy(out, CG_LINE_ROOT, root);
  for (size_t i = 0; i < n; i++) {
    out[root + i] = is_plain(name[i]) ? name[i] : '_';
  }
  return out;
}

static void put_line_mark(cg_text_t *t) {
  if (!t->has_lines || t->loc.line == 0) return;
  const char *name = cg_line_name(t->task, &t->task->arena, t->loc.file);
  if (name == NULL) return;
  td_buf_printf(t->out, "#line %u \"%s\"\n", t->loc.line, name);
}

static void put(cg_text_t *t, const char *format, va_list args) {
  put_line_mark(t);
  td_buf_pad(t->out, ' ', (size_t)t->indent * 2);
  td_buf_vprintf(t->out, format, args);
  td_buf_putc(t->out, '\n');
}

void cg_line(cg_text_t *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  put(t, format, args);
  va_end(args);
}

void cg_open(cg_text_t *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  put(t, format, args);
  va_end(args);
  t->indent++;
}

void cg_close(cg_text_t *t, const char *format, ...) {
  va_list args;
  t->indent--;
  va_start(args, format);
  put(t, format, args);
  va_end(args);
}

void cg_comment(cg_text_t *t, td_str_t text) {
  td_buf_pad(t->out, ' ', (size_t)t->indent * 2);
  td_buf_puts(t->out, "//");
  if (text.length > 0) td_buf_putc(t->out, ' ');
  for (size_t i = 0; i < text.length; i++) {
    char c = text.data[i];
    if (c >= 0x20 && c < 0x7f && c != '\\') {
      td_buf_putc(t->out, c);
    } else {
      td_buf_printf(t->out, "<%02x>", (unsigned)(unsigned char)c);
    }
  }
  td_buf_putc(t->out, '\n');
}

const char *cg_ascii(td_arena_t *arena, const char *name) {
  size_t n = strlen(name);
  if (n > NAME_MOST) n = NAME_MOST;
  char *out = td_arena_alloc(arena, n + 1);
  for (size_t i = 0; i < n; i++) {
    char c = name[i];
    bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '_';
    out[i] = ok ? c : '_';
  }
  return out;
}

const char *cg_name(td_arena_t *arena, const char *prefix, uint32_t number,
                    const char *name) {
  return td_arena_printf(arena, "%s%u_%s", prefix, number,
                         cg_ascii(arena, name));
}
