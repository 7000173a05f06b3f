/* npy and npz: no crash, no leak; an array that was read is written and read
   again without change. */
#include "runtime/io/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input_t {
  const uint8_t *data;
  size_t size;
} input_t;

static void again(td_task_t *task, const io_tensor_t *t) {
  io_tensor_t back;
  td_buf_t buf;
  td_buf_init(&buf, task);
  io_npy_put(&buf, t);
  if (!io_npy_parse(task, &task->arena, 0, buf.data, buf.length, &back)) {
    abort();
  }
  if (back.rank != t->rank || back.dtype != t->dtype ||
      back.bytes != t->bytes || memcmp(back.data, t->data, t->bytes) != 0) {
    abort();
  }
  td_buf_free(&buf);
}

static void body(td_task_t *task, void *arg) {
  const input_t *in = arg;
  io_tensor_t t;
  io_leaves_t leaves = {0};
  if (io_npy_parse(task, &task->arena, 0, in->data, in->size, &t)) {
    again(task, &t);
  }
  /* A limit far below the default, so that packed zeros cost no time. */
  if (io_npz_parse(task, &task->arena, 0, in->data, in->size, 1 << 20,
                   &leaves)) {
    for (size_t i = 0; i < leaves.length; i++) {
      again(task, &leaves.data[i].tensor);
    }
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
