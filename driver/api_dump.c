/* api_dump.c: texts of the stages, and canonical source. */
#include "driver/api.h"

#include <string.h>

/* The closed list, in the order of compilation. */
tdsl_string_t tdsl_stage_get_list(void) {
  return td_str("tokens\nast\ntir\n");
}

typedef struct dump_call {
  tdsl_context_t *context;
  tdsl_compile_desc_t desc;
  tdsl_string_t stage, kernel;
  tdsl_text_fn_t text;
  void *user;
} dump_call_t;

static void unknown_stage(td_task_t *task, tdsl_string_t stage) {
  td_diag_t *d = td_diag(task, TD_B11, TD_NO_LOC, "no stage is called '%.*s'",
                         TD_STR_ARG(stage));
  td_nearest_t nearest = td_nearest_start(stage);
  tdsl_string_t list = tdsl_stage_get_list();
  const char *at = list.data, *end = list.data + list.length;
  while (at < end) {
    const char *line = memchr(at, '\n', (size_t)(end - at));
    td_nearest_offer(&nearest, td_str_n(at, (size_t)(line - at)));
    at = line + 1;
  }
  if (nearest.best.data != NULL) {
    td_diag_help(d, "did you mean '%.*s'?", TD_STR_ARG(nearest.best));
  }
}

static void dump_work(td_task_t *task, void *arg) {
  dump_call_t *call = arg;
  drv_compile_t c;
  td_arena_t arena;
  td_buf_t out;
  td_arena_init(&arena, task);
  td_buf_init(&out, task);
  drv_compile_init(&c, task, &arena, call->context, &call->desc);
  if (!drv_compile_source(&c)) return;
  if (td_str_eqc(call->stage, "tokens")) {
    ast_dump_tokens(task, c.source, &out);
  } else if (td_str_eqc(call->stage, "ast")) {
    if (drv_compile_parse(&c)) ast_print(task, &out, c.ast);
  } else if (td_str_eqc(call->stage, "tir")) {
    if (!drv_compile_all(&c)) return;
    tir_print(&out, c.tir);
  } else {
    unknown_stage(task, call->stage);
    return;
  }
  call->text(td_buf_view(&out), call->user);
  td_buf_free(&out);
}

tdsl_status_t tdsl_program_dump(tdsl_context_t *context,
                                const tdsl_compile_desc_t *desc,
                                tdsl_string_t stage, tdsl_string_t kernel,
                                tdsl_text_fn_t text, void *user,
                                tdsl_error_t **out_error) {
  dump_call_t work = {.context = context, .stage = stage, .kernel = kernel,
                      .text = text, .user = user};
  if (!drv_desc_read(desc, &work.desc)) {
    return drv_refuse(context, TDSL_STATUS_INVALID_ARGUMENT,
                      "the descriptor is of another version", out_error);
  }
  drv_call_t call = {context, desc->diagnostic, desc->diagnostic_user, NULL};
  return drv_call(&call, dump_work, &work, out_error);
}

/* ---- fmt ----------------------------------------------------------------- */

typedef struct format_call {
  tdsl_string_t file, source;
  tdsl_text_fn_t text;
  void *user;
} format_call_t;

static void format_work(td_task_t *task, void *arg) {
  format_call_t *call = arg;
  td_buf_t out;
  const char *name = td_str_cstr(&task->arena, call->file);
  uint32_t file =
      td_sources_add(task, name, call->source.data, call->source.length);
  td_buf_init(&out, task);
  if (fmt_source(task, file, &out)) call->text(td_buf_view(&out), call->user);
  td_buf_free(&out);
}

tdsl_status_t tdsl_source_format(tdsl_context_t *context, tdsl_string_t file,
                                 tdsl_string_t source, tdsl_text_fn_t text,
                                 void *user, tdsl_error_t **out_error) {
  format_call_t work = {file, source, text, user};
  drv_call_t call = {.context = context};
  return drv_call(&call, format_work, &work, out_error);
}
