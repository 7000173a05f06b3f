/* Everything that is JSON: config.json, tensors and structs, cases. What is
   read as values is written and read again without change. */
#include "runtime/io/config.h"
#include "runtime/io/values.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input_t {
  const uint8_t *data;
  size_t size;
} input_t;

/* Through "results", whose keys are those that were read; a key with a point
   of its own nests where it did not. */
static void again(td_task_t *task, const io_leaves_t *leaves) {
  td_buf_t buf;
  td_buf_init(&buf, task);
  io_results_put(&buf, "f", leaves->data, leaves->length, NULL, 0);
  io_json_t j;
  io_leaves_t back = {0};
  td_str_t key;
  io_json_begin(&j, task, &task->arena, 0, td_buf_view(&buf));
  if (!io_json_object(&j)) abort();
  while (io_json_key(&j, &key)) {
    bool is_results = td_str_eqc(key, "results");
    if (is_results ? !io_values_next(&j, "", &back) : !io_json_skip(&j)) break;
  }
  bool ok = io_json_end(&j);
  if (!ok) return; /* names that are no field names: "", "a.", "dtype" */
  if (back.length != leaves->length) return;
  for (size_t i = 0; i < back.length; i++) {
    const io_tensor_t *a = &leaves->data[i].tensor, *b = &back.data[i].tensor;
    if (a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0) {
      abort();
    }
  }
}

static void body(td_task_t *task, void *arg) {
  const input_t *in = arg;
  td_str_t text = td_str_n((const char *)in->data, in->size);
  io_config_t config;
  io_leaves_t leaves = {0};
  io_cases_t cases;
  uint32_t file = td_sources_add_file(task, "fuzz.json");
  if (io_config_parse(task, &task->arena, file, text, &config)) {
    io_config_get(&config, td_str("a.b"));
    io_config_warn(task, &config);
  }
  io_cases_parse(task, &task->arena, file, text, &cases);
  if (io_values_parse(task, &task->arena, file, text, "x", &leaves)) {
    again(task, &leaves);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_task_t task;
  input_t in = {data, size};
  td_task_init(&task, NULL);
  if (td_task_run(&task, body, &in) != TDSL_STATUS_OK) abort();
  td_task_free(&task);
  return 0;
}
