/* cmd_replay.c: tdslc replay DIR FILE...: compiles a corpus, one file a
 * kernel, so that what a change did to the generated code is a diff of two
 * folders:
 *
 *   DIR/PROGRAM/kNN_FUNCTION_VALUE.kir   every kernel, after all tile passes
 *   DIR/PROGRAM/plan.txt                 steps and memory
 *
 * A program that is refused is named and passed over. */
#include <string.h>

#include "driver/api_backend.h"
#include "driver/options.h"

typedef struct replay {
  cli_t *cli;
  tdsl_compile_desc_t desc;
  const char *folder; /* of this program */
  unsigned kernels;
} replay_t;

/* "llama" of "examples/llama/llama.tdsl" */
static const char *program_name(td_arena_t *arena, const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash != NULL ? slash + 1 : path;
  const char *dot = strrchr(name, '.');
  size_t n = dot != NULL ? (size_t)(dot - name) : strlen(name);
  return td_arena_strndup(arena, name, n);
}

static void write_text(td_task_t *task, const char *folder, const char *name,
                       const td_buf_t *text) {
  (void)td_os_write_atomic(task, td_os_join(&task->arena, folder, name),
                           text->data, text->length);
}

static void write_kernels(td_task_t *task, replay_t *r, drv_backend_t *b) {
  const char *folder =
      td_os_join(&task->arena, r->folder,
                 program_name(&task->arena,
                              td_str_cstr(&task->arena, r->desc.file)));
  if (!td_os_make_folders(task, folder)) return;
  td_buf_t text;
  td_buf_init(&text, task);
  for (uint32_t k = 0; k < b->kernels.count; k++) {
    const kir_kernel_t *kernel = b->kernels.kernels[k];
    td_buf_clear(&text);
    kir_print(&text, kernel);
    write_text(task, folder,
               td_arena_printf(&task->arena, "%s.kir", kernel->name), &text);
    r->kernels++;
  }
  td_buf_clear(&text);
  plan_print(&text, b->plan, false);
  write_text(task, folder, "plan.txt", &text);
  td_buf_free(&text);
}

static void work(td_task_t *task, void *arg) {
  replay_t *r = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  drv_compile_t *c = TD_NEW(&arena, drv_compile_t);
  drv_backend_t *b = TD_NEW(&arena, drv_backend_t);
  drv_payloads_t *payloads = TD_NEW(&arena, drv_payloads_t);
  const char *target = cli_value(r->cli, CLI_OPT_TARGET);
  drv_compile_init(c, task, &arena, r->cli->context, &r->desc);
  c->device = (drv_device_t){.engine = DRV_PLAN,
                             .target = target != NULL ? target : ""};
  if (!drv_compile_all(c) || !drv_backend_init(b, c)) return;
  drv_backend_tensor(b);
  drv_backend_kernels(b);
  drv_backend_memory(b);
  drv_payloads_kir(b, payloads);
  drv_backend_plan(b, payloads);
  write_kernels(task, r, b);
}

static int replay_file(replay_t *r, const char *path) {
  tdsl_error_t *error = NULL;
  drv_call_t call = {.context = r->cli->context};
  r->desc.file = cli_text(path);
  r->desc.mesh_none = 1;
  tdsl_status_t status = drv_call(&call, work, r, &error);
  int code = cli_end(r->cli, status, &error);
  if (code != CLI_OK) (void)fprintf(stderr, "%s: passed over\n", path);
  return code;
}

int cli_do_REPLAY(cli_t *cli) {
  replay_t r = {.cli = cli};
  if (cli->operand_count < 2) {
    return cli_usage(cli, "a folder and programs are wanted");
  }
  if (!cli_desc(cli, &r.desc)) return CLI_USAGE;
  int code = cli_open(cli), refused = 0;
  bool is_open = code == CLI_OK;
  r.folder = cli->operands[0];
  for (int i = 1; i < cli->operand_count && is_open; i++) {
    int one = replay_file(&r, cli->operands[i]);
    if (one == CLI_INTERNAL) code = one;
    refused += one != CLI_OK;
  }
  if (is_open) {
    (void)printf("%u kernels of %d programs, %d passed over\n", r.kernels,
                 cli->operand_count - 1 - refused, refused);
  }
  cli_desc_free(&r.desc);
  return code;
}
