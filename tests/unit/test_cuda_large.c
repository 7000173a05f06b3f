/* Tensors of more than 2^31 elements, and of more than 2^32: memory of the
   simulated GPU is reserved and costs the host only what is touched, so that
   kernels compute real addresses up to 10 GB away. Values are a code of the
   position, known without any engine. */
#include "kir_cuda_lab.h"

enum { ROW_STEP = 59999 };

/* What element `at` of a large tensor holds. */
static float code_of(int64_t at) {
  return (float)(((uint64_t)at * 2654435761u >> 7) % 1000);
}

/* A kernel's parameters on the device; the first is the large one. */
typedef struct big {
  td_task_t *task;
  td_arena_t arena;
  hal_device_t *device;
  kir_kernel_t *kernel;
  int64_t dims[LAB_MAX_DIMS];
  void *places[LAB_MAX_PARAMS];
  size_t bytes[LAB_MAX_PARAMS];
} big_t;

static void big_open(big_t *b, td_task_t *task, void *state, const char *text,
                     const int64_t *dims) {
  memset(b, 0, sizeof *b);
  b->task = task;
  b->device = ((gpu_t *)state)->device;
  td_arena_init(&b->arena, task);
  b->kernel = lab_parse(task, &b->arena, text);
  lab_t lab = {.kernel = b->kernel};
  for (uint32_t i = 0; i < b->kernel->dim_count; i++) {
    b->dims[i] = lab.dims[i] = dims[i];
  }
  for (uint32_t i = 0; i < b->kernel->param_count; i++) {
    const kir_buffer_t *p = b->kernel->params[i];
    b->bytes[i] = td_dtype_bytes(p->dtype);
    for (uint32_t d = 0; d < p->rank; d++) {
      b->bytes[i] *= (size_t)lab_value(&lab, p->dims[d]);
    }
    b->places[i] = b->device->vtable->alloc(b->device, b->bytes[i]);
    assert_non_null(b->places[i]);
  }
}

static void big_put(big_t *b, uint32_t param, int64_t offset,
                    const void *data, size_t bytes) {
  assert_true((size_t)offset + bytes <= b->bytes[param]);
  assert_true(b->device->vtable->upload(b->device, b->task,
                                        (char *)b->places[param] + offset,
                                        data, bytes));
}

static void big_get(big_t *b, uint32_t param, int64_t offset, void *data,
                    size_t bytes) {
  assert_true((size_t)offset + bytes <= b->bytes[param]);
  assert_true(b->device->vtable->download(b->device, b->task, data,
                                          (char *)b->places[param] + offset,
                                          bytes));
}

/* `count` elements of the code from `at` on, into the large tensor. */
static void big_code(big_t *b, int64_t at, int64_t count) {
  for (int64_t i = at; i < at + count; i += 512) {
    float part[512];
    int64_t n = at + count - i < 512 ? at + count - i : 512;
    for (int64_t k = 0; k < n; k++) part[k] = code_of(i + k);
    big_put(b, 0, i * 4, part, (size_t)n * 4);
  }
}

static void big_run(big_t *b) {
  const hal_vtable_t *v = b->device->vtable;
  lab_t lab = {.task = b->task, .kernel = b->kernel};
  cgc_kernel_t k;
  td_arena_init(&lab.arena, b->task);
  memcpy(lab.dims, b->dims, sizeof lab.dims);
  const char *text = gpu_text(&lab, &k);
  plan_t *plan = gpu_plan(&lab, text, &k);
  hal_program_t *program = v->load(b->device, b->task, plan);
  assert_non_null(program);
  hal_launch_t launch = {
      .kernel = &plan->kernels[0],
      .buffers = b->places,
      .buffer_bytes = b->bytes,
      .scalars = b->dims,
      .block_count = lab_value(&lab, kir_block_count(b->kernel)),
      .scratch_bytes = (size_t)lab_value(&lab, k.scratch_bytes)};
  assert_true(v->launch(b->device, program, b->task, &launch));
  assert_true(v->wait(b->device, b->task));
  v->unload(b->device, program);
  td_arena_free_all(&lab.arena);
}

static void big_close(big_t *b) {
  for (uint32_t i = 0; i < b->kernel->param_count; i++) {
    b->device->vtable->free(b->device, b->places[i]);
  }
  td_arena_free_all(&b->arena);
}

/* ---- rows -------------------------------------------------------------- */

enum { ROWS = 300001, COLUMNS = 8191 }; /* 2.46e9 elements */

/* Rows named by a tensor; 2^31 / 8191 = 262176.0 and 2^31 bytes / 4 / 8191
   = 65544.0 are the places where narrow products would wrap. */
GPU_TEST(test_gathered_rows) {
  static const char text[] =
      "kernel pick(in w: f32[R, C], in id: i32[N], out y: f32[N, C])\n"
      "    dims(R in 0..400000, C in 0..10000, N in 0..65) {\n"
      "  loop.block n in 0 .. N {\n"
      "    loop.serial c in 0 .. C step 16 {\n"
      "      loop.lane l in 0 .. 16 where c + l < C {\n"
      "        y[n, c + l] = w[safe id[n], c + l]\n"
      "      }\n"
      "    }\n"
      "  }\n"
      "}\n";
  static const int32_t rows[] = {0,      300000, 65543,  65544,
                                 262176, 262177, 131088, 262175};
  enum { PICKED = sizeof rows / sizeof rows[0] };
  static float y[PICKED][COLUMNS];
  big_t b;
  big_open(&b, task, state, text, DIMS(ROWS, COLUMNS, PICKED));
  for (int i = 0; i < PICKED; i++) {
    big_code(&b, (int64_t)rows[i] * COLUMNS, COLUMNS);
  }
  big_put(&b, 1, 0, rows, sizeof rows);
  big_run(&b);
  big_get(&b, 2, 0, y, sizeof y);
  for (int i = 0; i < PICKED; i++) {
    for (int c = 0; c < COLUMNS; c++) {
      float want = code_of((int64_t)rows[i] * COLUMNS + c);
      if (y[i][c] != want) {
        fail_msg("row %d, column %d is %g, wanted %g", (int)rows[i], c,
                 (double)y[i][c], (double)want);
      }
    }
  }
  big_close(&b);
}

/* The same memory written, every 59999th row. */
GPU_TEST(test_written_rows) {
  static const char text[] =
      "kernel put(inout w: f32[R, C], in y: f32[N, C])\n"
      "    dims(R in 0..400000, C in 0..10000, N in 0..65) {\n"
      "  loop.block r in 0 .. R step 59999 {\n"
      "    loop.serial c in 0 .. C step 16 {\n"
      "      loop.lane l in 0 .. 16 where c + l < C {\n"
      "        w[r, c + l] = y[r / 59999, c + l] * 2.0\n"
      "      }\n"
      "    }\n"
      "  }\n"
      "}\n";
  enum { WRITTEN = (ROWS - 1) / ROW_STEP + 1 };
  static float y[WRITTEN][COLUMNS], got[COLUMNS];
  big_t b;
  big_open(&b, task, state, text, DIMS(ROWS, COLUMNS, WRITTEN));
  for (int i = 0; i < WRITTEN; i++) {
    for (int c = 0; c < COLUMNS; c++) y[i][c] = code_of(i * 100003 + c);
  }
  big_put(&b, 1, 0, y, sizeof y);
  big_run(&b);
  for (int i = 0; i < WRITTEN; i++) {
    big_get(&b, 0, (int64_t)i * ROW_STEP * COLUMNS * 4, got, sizeof got);
    for (int c = 0; c < COLUMNS; c++) {
      assert_true(got[c] == 2 * y[i][c]);
    }
  }
  big_close(&b);
}

/* ---- one long dim ------------------------------------------------------ */

/* Positions past 2^31 are values of a loop's variable; the last group has
   five lanes. */
GPU_TEST(test_long_vector) {
  static const char text[] =
      "kernel far(in x: f32[N], out y: f32[M, 16])\n"
      "    dims(N in 0..4000000000, M in 0..100) {\n"
      "  loop.block i in 0 .. N step 400000007 {\n"
      "    loop.lane l in 0 .. 16 where i + l < N {\n"
      "      y[i / 400000007, l] = x[i + l]\n"
      "    }\n"
      "  }\n"
      "}\n";
  enum { GROUPS = 9 };
  static const int64_t step = 400000007;
  const int64_t n = step * (GROUPS - 1) + 5;
  float y[GROUPS][16] = {{0}};
  big_t b;
  big_open(&b, task, state, text, DIMS(n, GROUPS));
  for (int g = 0; g < GROUPS; g++) {
    big_code(&b, g * step, g < GROUPS - 1 ? 16 : 5);
  }
  big_put(&b, 1, 0, y, sizeof y);
  big_run(&b);
  big_get(&b, 1, 0, y, sizeof y);
  for (int g = 0; g < GROUPS; g++) {
    for (int l = 0; l < 16; l++) {
      float want = g < GROUPS - 1 || l < 5 ? code_of(g * step + l) : 0;
      assert_true(y[g][l] == want);
    }
  }
  big_close(&b);
}

/* More than 2^32 elements, of one byte. */
GPU_TEST(test_bytes_beyond_32_bits) {
  static const char text[] =
      "kernel bytes(in x: u8[R, C], out y: i64[R])\n"
      "    dims(R in 0..10, C in 0..2000000000) {\n"
      "  loop.block r in 0 .. R {\n"
      "    y[r] = x[r, C - 1] + x[R - 1 - r, r * 3]\n"
      "  }\n"
      "}\n";
  enum { R = 5 };
  const int64_t c = 1000000007;
  int64_t y[R];
  big_t b;
  big_open(&b, task, state, text, DIMS(R, c));
  for (int64_t r = 0; r < R; r++) {
    unsigned char last = (unsigned char)(10 + r), head[16] = {0};
    for (int i = 0; i < 16; i++) head[i] = (unsigned char)(100 + 16 * r + i);
    big_put(&b, 0, r * c, head, sizeof head);
    big_put(&b, 0, r * c + c - 1, &last, 1);
  }
  big_run(&b);
  big_get(&b, 1, 0, y, sizeof y);
  for (int r = 0; r < R; r++) {
    assert_int_equal(y[r], 10 + r + 100 + 16 * (R - 1 - r) + r * 3);
  }
  big_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gathered_rows),
      cmocka_unit_test(test_written_rows),
      cmocka_unit_test(test_long_vector),
      cmocka_unit_test(test_bytes_beyond_32_bits),
  };
  return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
