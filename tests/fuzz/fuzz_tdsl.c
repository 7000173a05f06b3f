/* Any bytes as a .tdsl source.  Parsing and dumping must end without a
 * crash; what parses must be formatted to a text that parses to an equal
 * tree and formats to itself. */
#include "frontend/parse.h"
#include "tests/fuzz/fuzz.h"

/* Texts of messages are made for every error found. */
static void render(td_task_t *task) {
  td_buf_t text;
  td_buf_init(&text, task);
  for (size_t i = 0; i < task->diags.length; i++) {
    td_diag_render(&text, task, task->diags.data[i], false);
  }
  td_buf_free(&text);
}

static void work(td_task_t *task, void *arg) {
  const fuzz_input_t *in = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  td_buf_t text, once, twice;
  td_buf_init(&text, task);
  td_buf_init(&once, task);
  td_buf_init(&twice, task);
  uint32_t source = td_sources_add(task, "in.tdsl", in->data, in->size);
  ast_file_t *file = ast_parse(task, &arena, source);
  fuzz_demand(file->has_errors == (td_task_errors(task) > 0), "has_errors");
  ast_print(task, &text, file);
  ast_dump_tokens(task, source, &text);
  if (file->has_errors) {
    render(task);
    return;
  }
  fuzz_demand(fmt_source(task, source, &once), "fmt refuses what parses");
  uint32_t again = td_sources_add(task, "once.tdsl", once.data, once.length);
  ast_file_t *file2 = ast_parse(task, &arena, again);
  fuzz_demand(!file2->has_errors, "fmt makes a text that does not parse");
  fuzz_demand(ast_equal(file, file2), "fmt changes the tree");
  fuzz_demand(fmt_source(task, again, &twice), "fmt refuses its own text");
  fuzz_demand(td_str_eq(td_buf_view(&once), td_buf_view(&twice)),
              "fmt does not keep its own text");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input_t in = {(const char *)data, size};
  td_task_t task;
  td_task_init(&task, NULL);
  tdsl_status_t status = td_task_run(&task, work, &in);
  if (status != TDSL_STATUS_OK) fprintf(stderr, "%s\n", task.message);
  fuzz_demand(status == TDSL_STATUS_OK, "unwound");
  td_task_free(&task);
  return 0;
}
