/* Kernels for GPUs that have less than any real one: tiles become smaller
   where that helps, and what cannot be is refused at its statement, by the
   limit's number. */
#include "kir_cuda_lab.h"

#include "ir/tir_text.h"
#include "passes/pass.h"

/* A product of 128 x 128 tiles on a GPU that has room for them. */
static const char product[] =
    "func @f(in a: f32[M, 384], in b: f32[384, 512], out c: f32[M, 512]) "
    "dims(M in 0..5000) {\n"
    "  %c: f32[M, 512] = reduce.sum fma [m in M, n in 512; k in 384] "
    "mul(%a[m, k], %b[k, n])\n"
    "  return c = %c\n"
    "}\n";

typedef struct small {
  ir_target_t row;
  const char *text;  /* TIR */
  const char *cuda;  /* out */
  cgc_kernel_t kernel;
} small_t;

static small_t small_row(const char *text) {
  return (small_t){.row = *ir_target_gpu(80), .text = text};
}

static void compile(td_task_t *task, void *arg) {
  small_t *s = arg;
  uint32_t file = td_sources_add(task, "t.tir", s->text, strlen(s->text));
  tir_module_t *m = tir_parse(task, &task->arena, file);
  assert_non_null(m);
  pass_options_t options = {.verify = 2, .target = "sm_80"};
  pass_state_t state = {.task = task, .options = &options};
  pass_kernels_t kernels = {0};
  pass_tensor_pipeline(&state, m);
  tir_renumber(m->funcs[0]);
  pass_tile_pipeline(&state, &task->arena, m, &s->row, &kernels);
  assert_int_equal(kernels.count, 1);
  cgc_options_t form = {.target = &s->row};
  td_buf_t out;
  td_buf_init(&out, task);
  cgc_emit(task, &task->arena,
           (const kir_kernel_t *const *)(const void *)kernels.kernels, 1,
           &form, &out, &s->kernel);
  s->cuda = td_buf_finish(&out, &task->arena);
}

static void refused(small_t *s, const char *message) {
  td_task_t task;
  td_task_init(&task, NULL);
  tdsl_status_t status = td_task_run(&task, compile, s);
  assert_int_equal(status, TDSL_STATUS_LIMIT);
  assert_string_equal(unit_first_id(&task), "B13");
  const td_diag_t *d = task.diags.data[0];
  if (strstr(d->text, message) == NULL) fail_msg("`%s`", d->text);
  assert_int_equal(d->loc.line, 2); /* the statement */
  td_task_free(&task);
}

/* Shared bytes of a block with this row, which has to hold them. */
static uint32_t made(small_t *s, const char *tile) {
  td_task_t task;
  td_task_init(&task, NULL);
  tdsl_status_t status = td_task_run(&task, compile, s);
  lab_show(&task);
  assert_int_equal(status, TDSL_STATUS_OK);
  if (strstr(s->cuda, tile) == NULL) fail_msg("%s", s->cuda);
  assert_true(s->kernel.shared_bytes <= s->row.shared_most);
  assert_int_equal(s->kernel.dynamic_bytes,
                   s->kernel.shared_bytes > s->row.shared
                       ? s->kernel.shared_bytes
                       : 0);
  uint32_t bytes = s->kernel.shared_bytes;
  td_task_free(&task);
  return bytes;
}

static void test_tiles(void **state) {
  (void)state;
  small_t s = small_row(product);
  assert_int_equal(made(&s, "128 x 128, 16 of the depth at a time, in 3 "),
                   49152);
  s.row.shared = 20000; /* asks for more at its launch */
  assert_int_equal(made(&s, "128 x 128, 16 of the depth at a time, in 3 "),
                   49152);
  s.row.shared_most = 40000; /* too little for three */
  assert_int_equal(made(&s, "128 x 128, 16 of the depth at a time, in 2 "),
                   34816);
  s.row.shared = s.row.shared_most = 20000;
  made(&s, "a block makes 32 x 32, ");
  s.row.has_async = false;
  made(&s, "a block makes 32 x 32, ");
  s.row.shared = s.row.shared_most = 4000;
  refused(&s, "in the 4000 bytes of shared memory of a block of sm_80");
}

static void test_params(void **state) {
  (void)state;
  small_t s = small_row(product);
  s.row.param_bytes = 64; /* 3 buffers, a dim and four of our own */
  made(&s, "matrix product");
  s.row.param_bytes = 56;
  refused(&s, "needs 64 bytes of parameters, a kernel of sm_80 has 56");
}

/* Rows that a block could share its memory with lie elsewhere where there is
   little: nothing is refused. */
static void test_rows(void **state) {
  static const char rows[] =
      "func @f(in x: f32[R, 512], out y: f32[R, 512]) dims(R in 0..100) {\n"
      "  %m: f32[R] = reduce.max [r in R; i in 512] %x[r, i]\n"
      "  %y: f32[R, 512] = map [r in R, i in 512] sub(%x[r, i], %m[r])\n"
      "  return y = %y\n"
      "}\n";
  (void)state;
  small_t s = small_row(rows);
  assert_int_equal(made(&s, "x: its rows are read once"), 8 * (2048 + 64));
  s.row.shared = s.row.shared_most = 4200;
  assert_int_equal(made(&s, "2 in a thread block"), 2 * 2048);
  s.row.shared = s.row.shared_most = 2000;
  assert_int_equal(made(&s, "scratch 2048 B each"), 0);
}

/* What a multiprocessor holds, by the rules of NVIDIA's programming guide. */
static void resident_blocks(void **state) {
  static const struct {
    uint32_t sm, threads, registers, shared, blocks;
    ir_limit_t limit;
  } rows[] = {
      {90, 384, 168, 0, 1, IR_LIMIT_REGISTERS},
      {80, 128, 64, 0, 8, IR_LIMIT_REGISTERS},
      {80, 128, 57, 0, 8, IR_LIMIT_REGISTERS}, /* by eights */
      {80, 100, 64, 0, 8, IR_LIMIT_REGISTERS}, /* whole warps */
      {90, 128, 32, 200000, 1, IR_LIMIT_SHARED},
      {90, 128, 32, 49152, 4, IR_LIMIT_SHARED}, /* and 1 KiB each */
      {75, 128, 32, 16384, 4, IR_LIMIT_SHARED},
      {90, 1024, 16, 1024, 2, IR_LIMIT_WARPS},
      {75, 1024, 32, 0, 1, IR_LIMIT_WARPS},
      {90, 32, 16, 0, 32, IR_LIMIT_BLOCKS},
      {86, 32, 16, 0, 16, IR_LIMIT_BLOCKS},
      {90, 1024, 255, 0, 0, IR_LIMIT_REGISTERS}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    ir_limit_t limit;
    uint32_t blocks =
        ir_target_resident(ir_target_gpu(rows[i].sm), rows[i].threads,
                           rows[i].registers, rows[i].shared, &limit);
    if (blocks != rows[i].blocks || limit != rows[i].limit) {
      fail_msg("row %zu: %u blocks, limit %d", i, blocks, (int)limit);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles),
                                     cmocka_unit_test(test_params),
                                     cmocka_unit_test(resident_blocks),
                                     cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
