/* api_system.c: what this build is and what it finds on this machine. */
#include "driver/api.h"

#include "driver/build_info.h"
#include "ir/target.h"
#include "runtime/base/env.h"
#include "runtime/cuda/cuda_about.h"

typedef struct system_call {
  tdsl_context_t *context;
  bool where, as_json;
  tdsl_text_fn_t text;
  void *user;
} system_call_t;

static void row(td_buf_t *out, bool as_json, const char *key,
                const char *value) {
  if (!as_json) {
    td_buf_printf(out, "%-12s %s\n", key, value);
    return;
  }
  td_buf_puts(out, ", ");
  td_buf_json(out, td_str(key));
  td_buf_puts(out, ": ");
  td_buf_json(out, td_str(value));
}

static void put_knobs(td_buf_t *out, bool as_json) {
  td_buf_puts(out, as_json ? ", \"knobs\": [" : "\n");
  for (int i = 0; i < TD_ENV_COUNT; i++) {
    const td_env_row_t *r = td_env_row((td_env_id_t)i);
    const char *value = td_env_text((td_env_id_t)i);
    if (!as_json) {
      td_buf_printf(out, "%-20s = %s%s\n  %s%s\n", r->name,
                    value[0] ? value : "-",
                    td_env_set((td_env_id_t)i) ? "" : " (default)",
                    r->sentence, r->affects_output ? "; changes output" : "");
      continue;
    }
    td_buf_printf(out, "%s{\"name\": \"%s\", \"value\": ", i ? ", " : "",
                  r->name);
    td_buf_json(out, td_str(value));
    td_buf_printf(out, ", \"set\": %s}",
                  td_env_set((td_env_id_t)i) ? "true" : "false");
  }
  if (as_json) td_buf_puts(out, "]");
}

/* Those that this machine can run on. */
static const char *device_list(td_arena_t *arena,
                               const rcuda_about_t *about) {
  bool has_nvrtc = false, has_driver = false, has_sim = false;
  for (size_t i = 0; i < about->length; i++) {
    const rcuda_about_row_t *r = &about->data[i];
    bool is_here = strncmp(r->value, "not found", 9) != 0;
    if (strcmp(r->key, "nvrtc") == 0) has_nvrtc = is_here;
    if (strcmp(r->key, "simulator") == 0) has_sim = is_here;
    if (strcmp(r->key, "gpu") == 0) has_driver = r->value[0] != 'n';
  }
  return td_arena_printf(arena, "%sinterp interp:f64 interp:kir null%s%s",
                         TDSL_WITH_LLVM ? "cpu " : "",
                         has_nvrtc && has_driver ? " cuda" : "",
                         has_nvrtc && has_sim ? " sim" : "");
}

/* "looked": {"nvrtc": ["NAME: REASON", ...], ...}, "gpus": [...] */
static void put_lists(td_buf_t *out, const rcuda_about_t *about) {
  bool is_first = true;
  td_buf_puts(out, ", \"looked\": {");
  for (size_t i = 0; i < about->length; i++) {
    const rcuda_about_row_t *r = &about->data[i];
    if (r->places[0] == '\0') continue;
    td_buf_printf(out, "%s\"%s\": [", is_first ? "" : ", ", r->key);
    is_first = false;
    for (const char *at = r->places; *at != '\0';) {
      size_t n = strcspn(at, "\n");
      if (at != r->places) td_buf_puts(out, ", ");
      td_buf_json(out, td_str_n(at + 2, n - 2)); /* without its indent */
      at += n + 1;
    }
    td_buf_putc(out, ']');
  }
  td_buf_puts(out, "}, \"gpus\": [");
  is_first = true;
  for (size_t i = 0; i < about->length; i++) {
    const rcuda_about_row_t *r = &about->data[i];
    if (strcmp(r->key, "gpu") != 0) continue;
    if (!is_first) td_buf_puts(out, ", ");
    is_first = false;
    td_buf_json(out, td_str(r->value));
  }
  td_buf_putc(out, ']');
}

static void describe_work(td_task_t *task, void *arg) {
  system_call_t *c = arg;
  td_buf_t out;
  const ir_target_t *target = ir_target_host();
  td_buf_init(&out, task);
  if (c->as_json) {
    td_buf_puts(&out, "{\"schema\": 1, \"tdsl\": \"" TDSL_BUILD_VERSION "\"");
  } else {
    td_buf_puts(&out, "tdsl         " TDSL_BUILD_VERSION "\n");
  }
  row(&out, c->as_json, "commit", TDSL_BUILD_COMMIT);
  row(&out, c->as_json, "compiler", TDSL_BUILD_COMPILER);
  row(&out, c->as_json, "llvm",
      TDSL_WITH_LLVM ? TDSL_BUILD_LLVM : "not built in");
  row(&out, c->as_json, "cpu", target != NULL ? target->name : "unknown");
  rcuda_about_t about = {0};
  rcuda_about(task, &task->arena, c->where, &about);
  for (size_t i = 0; i < about.length; i++) {
    const rcuda_about_row_t *r = &about.data[i];
    if (c->as_json && strcmp(r->key, "gpu") == 0) continue; /* below */
    row(&out, c->as_json, r->key, r->value);
    if (c->where && !c->as_json) td_buf_puts(&out, r->places);
  }
  row(&out, c->as_json, "nccl", "not supported by this version");
  row(&out, c->as_json, "mpi", "not supported by this version");
  if (c->where) {
    const char *cpus =
        td_arena_printf(&task->arena, "%d usable", td_os_cpu_count());
    row(&out, c->as_json, "processors", cpus);
    const char *cache =
        hal_cache_folder(&task->arena, c->context->disk_folder);
    row(&out, c->as_json, "cache", cache != NULL ? cache : "no folder");
    row(&out, c->as_json, "devices", device_list(&task->arena, &about));
    if (c->as_json) put_lists(&out, &about);
    put_knobs(&out, c->as_json);
  }
  if (c->as_json) td_buf_puts(&out, "}\n");
  c->text(td_buf_view(&out), c->user);
  td_buf_free(&out);
}

tdsl_status_t tdsl_system_describe(tdsl_context_t *context, uint32_t where,
                                   uint32_t as_json, tdsl_text_fn_t text,
                                   void *user, tdsl_error_t **out_error) {
  system_call_t c = {context, where != 0, as_json != 0, text, user};
  drv_call_t call = {.context = context};
  return drv_call(&call, describe_work, &c, out_error);
}
