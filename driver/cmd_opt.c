/* cmd_opt.c: tdslc opt FILE: reads a text form, verifies, prints it again.
 * A developers' command: it alone, with replay, knows the compiler's inside. */
#include <string.h>

#include "driver/options.h"
#include "ir/tir.h"
#include "runtime/base/os.h"
#include "runtime/base/task.h"

typedef struct opt {
  cli_t *cli;
  const char *path;
} opt_t;

static void print(td_buf_t *text) {
  (void)fwrite(text->data, 1, text->length, stdout);
  td_buf_free(text);
}

static void tir_work(td_task_t *task, td_arena_t *arena, uint32_t file) {
  tir_module_t *m = tir_parse(task, arena, file);
  if (m == NULL || !tir_verify(task, m, "opt", true)) return;
  td_buf_t text;
  td_buf_init(&text, task);
  tir_print(&text, m);
  print(&text);
}

static void work(td_task_t *task, void *arg) {
  const opt_t *o = arg;
  td_arena_t arena;
  td_str_t text;
  td_arena_init(&arena, task);
  if (!td_os_read_file(task, o->path, 0, &arena, &text)) return;
  uint32_t file = td_sources_add(task, o->path, text.data, text.length);
  tir_work(task, &arena, file);
}

/* A text that is refused is a wrong program here, not a wrong data file. */
int cli_do_OPT(cli_t *cli) {
  if (cli->operand_count != 1) return cli_usage(cli, "one file is wanted");
  td_task_t task;
  opt_t o = {cli, cli->operands[0]};
  td_task_init(&task, NULL);
  tdsl_status_t status = td_task_run(&task, work, &o);
  for (size_t i = 0; i < task.diags.length; i++) {
    td_buf_t text;
    td_buf_init(&text, &task);
    td_diag_render(&text, &task, task.diags.data[i], cli->has_color);
    (void)fwrite(text.data, 1, text.length, stderr);
    td_buf_free(&text);
  }
  if (status != TDSL_STATUS_OK) {
    (void)fprintf(stderr, "tdslc opt: %s\n", task.message);
  }
  bool is_wrong = td_task_errors(&task) > 0;
  td_task_free(&task);
  if (status == TDSL_STATUS_INTERNAL) return CLI_INTERNAL;
  return is_wrong || status != TDSL_STATUS_OK ? CLI_WRONG : CLI_OK;
}
