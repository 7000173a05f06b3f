/* api_format.c: canonical layout of a source text. */
#include "driver/api.h"

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
