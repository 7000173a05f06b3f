/* remark.c: recording and printing of remarks. */
#include "passes/remark.h"

#include <stdarg.h>

const remark_info_t pass_remark_table[REMARK_CODE_COUNT] = {
#define REMARK(id, name, kind, sentence) {name, REMARK_##kind, sentence},
#include "passes/remarks.def"
};

remark_t *pass_remark(pass_state_t *state, const char *pass,
                      remark_code_t code, td_loc_t loc, const char *format,
                      ...) {
  struct pass_remarks *to = state->remarks;
  if (to == NULL) return NULL;
  td_buf_t text;
  va_list args;
  td_buf_init(&text, state->task);
  va_start(args, format);
  td_buf_vprintf(&text, format, args);
  va_end(args);
  remark_t *r = TD_NEW(to->arena, remark_t);
  r->pass = pass;
  r->code = code;
  r->text = td_arena_strndup(to->arena, text.data, text.length);
  td_buf_free(&text);
  pass_remark_place(r, loc);
  td_vec_push(to->arena, &to->list, r);
  return r;
}

void pass_remark_place(remark_t *remark, td_loc_t loc) {
  if (remark == NULL || remark->place_count == REMARK_PLACES) return;
  remark->places[remark->place_count++] = loc;
}

void pass_remark_number(remark_t *remark, const char *name,
                        const ix_poly_t *value) {
  if (remark == NULL || value == NULL) return;
  if (remark->number_count == REMARK_NUMBERS) return;
  remark->numbers[remark->number_count++] = (remark_number_t){name, value};
}

const char *pass_remark_reader(const tir_node_t *reader) {
  return reader->out_count > 0 ? reader->outs[0]->name : "an assertion";
}

void pass_remark_names(const pass_state_t *state, const tir_module_t *module,
                       const tir_func_t *func, remark_names_t *names) {
  if (state->remarks == NULL) return;
  names->func = func->name;
  tir_print_names(state->remarks->arena, module, func, &names->of);
}

static const char *name_of(const remark_names_t *names,
                           const tir_value_t *value) {
  const char *name =
      td_map_get_u64(&names->of, (uint64_t)(uintptr_t)value);
  return name != NULL ? name : value->name;
}

void pass_remark_edge(remark_t *remark, const remark_names_t *names,
                      const tir_value_t *value, const tir_node_t *reader) {
  if (remark == NULL) return;
  remark->func = names->func;
  remark->from = name_of(names, value);
  remark->to = reader->out_count > 0 ? name_of(names, reader->outs[0])
                                     : pass_remark_reader(reader);
}

/* ---- printing ----------------------------------------------------------- */

static const char *const kind_names[] = {"done", "refused", "note"};

static bool touches(const remark_t *r, uint32_t file, uint32_t line) {
  for (uint32_t i = 0; i < r->place_count; i++) {
    const td_loc_t *l = &r->places[i];
    uint32_t last = l->end_line > l->line ? l->end_line : l->line;
    if (l->file == file && l->line <= line && line <= last) return true;
  }
  return false;
}

static void put_place(td_buf_t *out, td_task_t *task, td_loc_t loc) {
  const td_source_t *s = td_sources_get(task, loc.file);
  td_buf_printf(out, "%s:%u:%u", s != NULL ? s->name : "?", loc.line,
                loc.column);
}

/* "bytes kept: 4*R*N, at most 4194304": the second part only where the first is
 * no number and the dims have bounds. */
void pass_remark_number_print(td_buf_t *out, const remark_number_t *n) {
  int64_t lo, hi, exact;
  for (const char *c = n->name; *c != '\0'; c++) {
    td_buf_putc(out, *c == '_' ? ' ' : *c);
  }
  td_buf_puts(out, ": ");
  ix_print(out, n->value);
  if (!ix_is_const(n->value, &exact) && ix_interval(n->value, &lo, &hi)) {
    td_buf_printf(out, ", at most %lld", (long long)hi);
  }
}

static void put_text(td_buf_t *out, td_task_t *task, const remark_t *r) {
  put_place(out, task, r->places[0]);
  td_buf_printf(out, ": remark[%s]: ", pass_remark_table[r->code].name);
  for (const char *c = r->text; *c != '\0'; c++) {
    td_buf_putc(out, *c);
    if (*c == '\n') td_buf_puts(out, "     ");
  }
  td_buf_putc(out, '\n');
  for (uint32_t i = 1; i < r->place_count; i++) {
    td_buf_puts(out, "   = at ");
    put_place(out, task, r->places[i]);
    td_buf_putc(out, '\n');
  }
  for (uint32_t i = 0; i < r->number_count; i++) {
    td_buf_puts(out, "   = ");
    pass_remark_number_print(out, &r->numbers[i]);
    td_buf_putc(out, '\n');
  }
  if (r->hint != NULL) td_buf_printf(out, "help: %s\n", r->hint);
}

static void put_json_place(td_buf_t *out, td_task_t *task, td_loc_t loc) {
  const td_source_t *s = td_sources_get(task, loc.file);
  td_buf_puts(out, "{\"file\":");
  if (s != NULL) td_buf_json(out, td_str(s->name));
  else td_buf_puts(out, "null");
  td_buf_printf(out, ",\"line\":%u,\"column\":%u,\"end_line\":%u,"
                "\"end_column\":%u}",
                loc.line, loc.column, loc.end_line, loc.end_column);
}

static void put_json(td_buf_t *out, td_task_t *task, td_arena_t *arena,
                     const remark_t *r) {
  const remark_info_t *info = &pass_remark_table[r->code];
  td_buf_printf(out, "{\"schema\":1,\"pass\":\"%s\",\"kind\":\"%s\","
                "\"where\":[",
                r->pass, kind_names[info->kind]);
  for (uint32_t i = 0; i < r->place_count; i++) {
    if (i > 0) td_buf_putc(out, ',');
    put_json_place(out, task, r->places[i]);
  }
  td_buf_printf(out, "],\"code\":\"%s\",\"text\":", info->name);
  td_buf_json(out, td_str(r->text));
  td_buf_puts(out, ",\"numbers\":{");
  for (uint32_t i = 0; i < r->number_count; i++) {
    const remark_number_t *n = &r->numbers[i];
    int64_t lo, hi;
    td_buf_printf(out, "%s\"%s\":{\"value\":", i > 0 ? "," : "", n->name);
    td_buf_json(out, td_str(ix_text(arena, n->value)));
    if (ix_interval(n->value, &lo, &hi)) {
      td_buf_printf(out, ",\"most\":%lld", (long long)hi);
    }
    td_buf_putc(out, '}');
  }
  td_buf_puts(out, "},\"hint\":");
  if (r->hint != NULL) td_buf_json(out, td_str(r->hint));
  else td_buf_puts(out, "null");
  if (r->from != NULL) {
    td_buf_puts(out, ",\"edge\":{\"function\":");
    td_buf_json(out, td_str(r->func));
    td_buf_puts(out, ",\"from\":");
    td_buf_json(out, td_str(r->from));
    td_buf_puts(out, ",\"to\":");
    td_buf_json(out, td_str(r->to));
    td_buf_putc(out, '}');
  }
  td_buf_puts(out, "}\n");
}

void pass_remarks_print(td_buf_t *out, td_task_t *task,
                        const struct pass_remarks *remarks, uint32_t file,
                        uint32_t line, bool as_json) {
  for (size_t i = 0; i < remarks->list.length; i++) {
    const remark_t *r = remarks->list.data[i];
    if (line > 0 && !touches(r, file, line)) continue;
    if (as_json) put_json(out, task, remarks->arena, r);
    else put_text(out, task, r);
  }
}
