/* api_error.c: failures and diagnostics as values for the host. */
#include "driver/api.h"

#include <string.h>

struct tdsl_error {
  td_arena_t arena; /* holds all of it, this struct included; detached */
  td_host_t host;
  tdsl_status_t status;
  tdsl_string_t message;
  tdsl_string_t reproducer; /* folder, or empty */
  uint32_t count;
  tdsl_diagnostic_t *diagnostics;
};

/* Stands in when there is no memory for one; never freed. */
static const struct tdsl_error no_memory = {
    .status = TDSL_STATUS_OUT_OF_MEMORY,
    .message = {"out of memory", 13},
};

/* ---- records ------------------------------------------------------------- */

static tdsl_span_t span(td_task_t *task, td_arena_t *arena, td_loc_t loc) {
  const td_source_t *source = td_sources_get(task, loc.file);
  tdsl_span_t s = {.line = loc.line,
                   .column = loc.column,
                   .end_line = loc.end_line,
                   .end_column = loc.end_column};
  s.file = td_str(source != NULL ? td_arena_strdup(arena, source->name) : "");
  return s;
}

static tdsl_string_t copy(td_arena_t *arena, const char *text) {
  return td_str(td_arena_strdup(arena, text));
}

static const tdsl_string_t *copy_all(td_arena_t *arena,
                                     const char *const *texts, size_t count) {
  tdsl_string_t *out = TD_NEW_ARRAY(arena, tdsl_string_t, count + 1);
  for (size_t i = 0; i < count; i++) out[i] = copy(arena, texts[i]);
  return out;
}

static tdsl_string_t rendered(td_task_t *task, td_arena_t *arena,
                              const td_diag_t *d, bool color) {
  td_buf_t text;
  td_buf_init(&text, task);
  td_diag_render(&text, task, d, color);
  size_t length = text.length;
  return td_str_n(td_buf_finish(&text, arena), length);
}

static void convert(td_task_t *task, td_arena_t *arena, const td_diag_t *d,
                    tdsl_diagnostic_t *out) {
  size_t labels = d->labels.length;
  tdsl_span_t *spans = TD_NEW_ARRAY(arena, tdsl_span_t, labels + 1);
  tdsl_string_t *texts = TD_NEW_ARRAY(arena, tdsl_string_t, labels + 1);
  for (size_t i = 0; i < labels; i++) {
    spans[i] = span(task, arena, d->labels.data[i].loc);
    texts[i] = copy(arena, d->labels.data[i].text);
  }
  out->struct_bytes = sizeof *out;
  out->severity = d->severity;
  out->id = td_str(td_diag_name(d->id));
  out->text = copy(arena, d->text);
  out->span = span(task, arena, d->loc);
  out->label_count = (uint32_t)labels;
  out->label_spans = spans;
  out->label_texts = texts;
  out->note_count = (uint32_t)d->notes.length;
  out->notes = copy_all(arena, d->notes.data, d->notes.length);
  out->help_count = (uint32_t)d->helps.length;
  out->helps = copy_all(arena, d->helps.data, d->helps.length);
  out->rendered = rendered(task, arena, d, false);
  out->rendered_color = rendered(task, arena, d, true);
  td_buf_t json;
  td_buf_init(&json, task);
  td_diag_json(&json, task, d);
  out->json = td_str_n(NULL, json.length);
  out->json.data = td_buf_finish(&json, arena);
}

/* ---- the end of a call --------------------------------------------------- */

typedef struct report {
  const drv_call_t *call;
  tdsl_status_t status;
  const char *message; /* of an unwinding, or "" */
  bool want_error;
  tdsl_error_t *error;
} report_t;

/* Unwound: its own message. Else the first error's text. */
static const char *summary(td_task_t *task, const report_t *r) {
  if (r->message[0] != '\0') return r->message;
  for (size_t i = 0; i < task->diags.length; i++) {
    const td_diag_t *d = task->diags.data[i];
    if (d->severity != TDSL_SEVERITY_ERROR) continue;
    return td_arena_printf(&task->arena, "%s: %s", td_diag_name(d->id),
                           d->text);
  }
  return td_status_name(r->status);
}

static void build(td_task_t *task, void *arg) {
  report_t *r = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  tdsl_error_t *e = TD_NEW(&arena, tdsl_error_t);
  e->host = task->host;
  e->status = r->status;
  e->message = copy(&arena, summary(task, r));
  e->count = (uint32_t)task->diags.length;
  e->diagnostics = TD_NEW_ARRAY(&arena, tdsl_diagnostic_t, e->count + 1);
  for (uint32_t i = 0; i < e->count; i++) {
    convert(task, &arena, task->diags.data[i], &e->diagnostics[i]);
  }
  tdsl_diagnostic_fn_t fn = r->call->diagnostic;
  void *user = r->call->diagnostic_user;
  if (fn == NULL) {
    fn = r->call->context->diagnostic;
    user = r->call->context->diagnostic_user;
  }
  for (uint32_t i = 0; i < e->count && fn != NULL; i++) {
    fn(&e->diagnostics[i], user);
  }
  if (r->status == TDSL_STATUS_OK || !r->want_error) {
    td_arena_free_all(&arena);
    return;
  }
  td_arena_detach(&arena);
  e->arena = arena;
  r->error = e;
}

tdsl_status_t drv_call_on(td_task_t *task, const drv_call_t *call,
                          drv_work_fn work, void *arg,
                          tdsl_error_t **out_error) {
  if (out_error != NULL) *out_error = NULL;
  tdsl_status_t status = td_task_run(task, work, arg);
  char message[sizeof task->message];
  memcpy(message, task->message, sizeof message);
  if (status == TDSL_STATUS_OK) {
    message[0] = '\0';
    status = td_task_status(task);
  }
  if (status == TDSL_STATUS_OK && task->diags.length == 0) return status;
  report_t r = {call, status, message, out_error != NULL, NULL};
  tdsl_status_t reported = td_task_run(task, build, &r);
  if (reported != TDSL_STATUS_OK && status == TDSL_STATUS_OK) {
    status = reported;
  }
  if (out_error != NULL && status != TDSL_STATUS_OK) {
    *out_error = r.error != NULL ? r.error : (tdsl_error_t *)&no_memory;
  }
  return status;
}

static void nothing(td_task_t *task, void *arg) {
  const report_t *r = arg;
  td_raise(task, r->status, "%s", r->message);
}

tdsl_status_t drv_refuse(tdsl_context_t *context, tdsl_status_t status,
                         const char *message, tdsl_error_t **out_error) {
  tdsl_context_t none;
  memset(&none, 0, sizeof none);
  drv_call_t call = {.context = context != NULL ? context : &none};
  report_t r = {&call, status, message, false, NULL};
  return drv_call(&call, nothing, &r, out_error);
}

typedef struct note {
  tdsl_error_t *error;
  const char *folder;
} note_t;

static void add_note(td_task_t *task, void *arg) {
  note_t *n = arg;
  (void)task;
  n->error->reproducer = copy(&n->error->arena, n->folder);
}

void drv_error_note(tdsl_error_t *error, const char *folder) {
  if (error == NULL || error == &no_memory) return;
  td_task_t task;
  note_t n = {error, folder};
  td_task_init(&task, &error->host);
  td_arena_attach(&error->arena, &task);
  (void)td_task_run(&task, add_note, &n); /* without it, if need be */
  td_arena_detach(&error->arena);
  td_task_free(&task);
}

/* ---- reading ------------------------------------------------------------- */

tdsl_status_t tdsl_error_get_status(const tdsl_error_t *e) {
  return e != NULL ? e->status : TDSL_STATUS_OK;
}

tdsl_string_t tdsl_error_get_message(const tdsl_error_t *e) {
  return e != NULL ? e->message : td_str("");
}

tdsl_string_t tdsl_error_get_reproducer(const tdsl_error_t *e) {
  return e != NULL ? e->reproducer : td_str("");
}

uint32_t tdsl_error_get_diagnostic_count(const tdsl_error_t *e) {
  return e != NULL ? e->count : 0;
}

const tdsl_diagnostic_t *tdsl_error_get_diagnostic(const tdsl_error_t *e,
                                                   uint32_t index) {
  if (e == NULL || index >= e->count) return NULL;
  return &e->diagnostics[index];
}

void tdsl_error_release(tdsl_error_t *e) {
  if (e == NULL || e == &no_memory) return;
  td_task_t task;
  td_host_t host = e->host;
  td_arena_t arena = e->arena;
  td_task_init(&task, &host);
  td_arena_attach(&arena, &task);
  td_task_free(&task);
}

tdsl_string_t tdsl_diagnostic_explain(tdsl_string_t id) {
  td_diag_id_t i = td_diag_find(id);
  return td_str(i != TD_DIAG_NONE ? td_diag_page(i) : "");
}

tdsl_string_t tdsl_diagnostic_title(tdsl_string_t id) {
  td_diag_id_t i = td_diag_find(id);
  return td_str(i != TD_DIAG_NONE ? td_diag_title(i) : "");
}

tdsl_string_t tdsl_diagnostic_list(uint32_t index) {
  bool is_one = index < TD_DIAG_COUNT - 1;
  return td_str(is_one ? td_diag_name((td_diag_id_t)(index + 1)) : "");
}
