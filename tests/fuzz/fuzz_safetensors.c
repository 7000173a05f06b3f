/* safetensors and its index: no crash, no leak, and what is accepted can be
   looked up and lies inside the file. */
#include "runtime/io/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input_t {
  const uint8_t *data;
  size_t size;
} input_t;

static void body(td_task_t *task, void *arg) {
  const input_t *in = arg;
  io_safetensors_t st;
  uint32_t file = td_sources_add_file(task, "fuzz.safetensors");
  bool ok = io_safetensors_parse(task, &task->arena, file, in->data, in->size,
                                 &st);
  if (ok != (td_task_errors(task) == 0)) abort();
  if (!ok) {
    td_buf_t buf;
    td_buf_init(&buf, task);
    td_diag_render(&buf, task, task->diags.data[0], false);
    td_diag_json(&buf, task, task->diags.data[0]);
    return;
  }
  size_t total = 0;
  for (size_t i = 0; i < st.tensors.length; i++) {
    const io_st_tensor_t *t = &st.tensors.data[i];
    if (io_safetensors_find(&st, td_str(t->name)) != t) abort();
    if (t->bytes && (t->data < in->data ||
                     t->data + t->bytes > in->data + in->size)) {
      abort();
    }
    total += t->bytes;
  }
  if (total > in->size) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_task_t task;
  input_t in = {data, size};
  td_task_init(&task, NULL);
  if (td_task_run(&task, body, &in) != TDSL_STATUS_OK) abort();
  td_task_free(&task);
  return 0;
}
