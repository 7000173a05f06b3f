/* api_system.c: what this build is and what it finds on this machine. */
#include "driver/api.h"

#include "driver/build_info.h"
#include "ir/target.h"
#include "runtime/base/env.h"

typedef struct system_call {
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
  row(&out, c->as_json, "nvrtc", "not supported by this version");
  row(&out, c->as_json, "nccl", "not supported by this version");
  row(&out, c->as_json, "mpi", "not supported by this version");
  if (c->where) {
    const char *cpus =
        td_arena_printf(&task->arena, "%d usable", td_os_cpu_count());
    row(&out, c->as_json, "processors", cpus);
    row(&out, c->as_json, "devices", "cpu interp interp:f64 interp:kir null");
    put_knobs(&out, c->as_json);
  }
  if (c->as_json) td_buf_puts(&out, "}\n");
  c->text(td_buf_view(&out), c->user);
  td_buf_free(&out);
}

tdsl_status_t tdsl_system_describe(tdsl_context_t *context, uint32_t where,
                                   uint32_t as_json, tdsl_text_fn_t text,
                                   void *user, tdsl_error_t **out_error) {
  system_call_t c = {where != 0, as_json != 0, text, user};
  drv_call_t call = {.context = context};
  return drv_call(&call, describe_work, &c, out_error);
}
