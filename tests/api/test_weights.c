/* Checkpoints at the public interface: names, stacks, types, what is missing
   and what is left over, dims that the file decides. */
#include "api.h"

static const char file_name[] = "weights-test.safetensors";

/* A tensor of the file to be written; values count up from `first`. */
typedef struct row {
  const char *name, *dtype, *shape;
  int count, width; /* elements, bytes each */
  int first;
} row_t;

/* bf16 is the upper half of f32. */
static void put_value(FILE *f, const row_t *r, int i) {
  float value = (float)(r->first + i);
  double wide = (double)(r->first + i);
  unsigned char bytes[8];
  if (r->width == 8) {
    memcpy(bytes, &wide, 8);
    (void)fwrite(bytes, 1, 8, f);
  } else {
    memcpy(bytes, &value, 4);
    (void)fwrite(bytes + 4 - r->width, 1, (size_t)r->width, f);
  }
}

static void write_file(const row_t *rows, int n) {
  char header[2048] = "{";
  size_t at = 1, offset = 0;
  for (int i = 0; i < n; i++) {
    size_t bytes = (size_t)(rows[i].count * rows[i].width);
    at += (size_t)snprintf(header + at, sizeof header - at,
                           "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,"
                           "\"data_offsets\":[%zu,%zu]}",
                           i > 0 ? "," : "", rows[i].name, rows[i].dtype,
                           rows[i].shape, offset, offset + bytes);
    offset += bytes;
  }
  at += (size_t)snprintf(header + at, sizeof header - at, "}");
  unsigned char length[8] = {(unsigned char)(at & 255),
                             (unsigned char)(at >> 8)};
  FILE *f = fopen(file_name, "wb");
  assert_non_null(f);
  (void)fwrite(length, 1, 8, f);
  (void)fwrite(header, 1, at, f);
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < rows[i].count; k++) put_value(f, &rows[i], k);
  }
  assert_int_equal(fclose(f), 0);
}

static const char model[] =
    "dim L = 2, D = 3\n"
    "struct Layer { w: f32[D] from \"w\" }\n"
    "struct M {\n"
    "  emb: f32[D] from \"emb\"\n"
    "  head: f32[D] from \"head\" else emb\n"
    "  blk: [L] Layer from \"layers.{}\"\n"
    "}\n"
    "export fn f(m: M) -> (a: f32[L, D], b: f32[D]) {\n"
    "  a[l, d] = m.blk[l].w[d] + m.emb[d]\n"
    "  b[d] = m.head[d]\n"
    "}\n"
    "export fn g(m: M) -> s: f32 {\n"
    "  s = sum[l in L, d in D] m.blk[l].w[d]\n"
    "}\n";

static const row_t good[] = {{"emb", "F32", "[3]", 3, 4, 1},
                             {"layers.0.w", "BF16", "[3]", 3, 2, 10},
                             {"layers.1.w", "F32", "[3]", 3, 4, 20}};

static double result(job_t *job, uint32_t slot, uint64_t i) {
  return tdsl_buffer_read_float(tdsl_run_get_buffer(job->run, slot), i);
}

static tdsl_status_t bind(job_t *job, uint32_t strict, uint32_t convert) {
  return tdsl_executable_bind_weights(job->exe, text(file_name), strict,
                                      convert, &job->error);
}

static void leaves_find_their_tensors(void **state) {
  static const char *const devices[] = {"interp", "interp:f64", "interp:kir",
                                        "cpu"};
  (void)state;
  write_file(good, 3);
  for (int i = 0; i < 4; i++) {
    job_t job;
    open_job(&job, model, devices[i]);
    must(bind(&job, 1, 0), job.error);
    must(tdsl_run_execute(job.run, &job.error), job.error);
    uint32_t a = job.entry->slot_count - 2;
    assert_true(result(&job, a, 0) == 11.0);
    assert_true(result(&job, a, 5) == 25.0);
    assert_true(result(&job, a + 1, 2) == 3.0); /* tied to emb */
    /* the other entry shares what was read: the file is gone by then */
    assert_int_equal(remove(file_name), 0);
    tdsl_executable_t *exe;
    tdsl_run_t *run;
    must(tdsl_executable_create(
             job.program, tdsl_program_find_entry(job.program, text("g")),
             &exe, &job.error),
         job.error);
    must(tdsl_executable_bind_weights(exe, text(file_name), 0, 0,
                                      &job.error),
         job.error);
    must(tdsl_run_create(exe, &run, &job.error), job.error);
    must(tdsl_run_execute(run, &job.error), job.error);
    assert_true(tdsl_buffer_read_float(tdsl_run_get_buffer(run, a), 0) ==
                96.0);
    tdsl_run_destroy(run);
    tdsl_executable_release(exe);
    close_job(&job);
    write_file(good, 3);
  }
}

/* A tensor that is there wins over `else`. */
static void present_wins(void **state) {
  (void)state;
  row_t rows[] = {good[0], good[1], good[2],
                  {"head", "F32", "[3]", 3, 4, 70}};
  job_t job;
  write_file(rows, 4);
  open_job(&job, model, "interp");
  must(bind(&job, 1, 0), job.error);
  must(tdsl_run_execute(job.run, &job.error), job.error);
  assert_true(result(&job, job.entry->slot_count - 1, 2) == 72.0);
  close_job(&job);
}

typedef struct fault {
  row_t rows[4];
  int count;
  const char *id, *part; /* of the message */
} fault_t;

static void faults_are_named(void **state) {
  static const fault_t faults[] = {
      {{{"emb", "F32", "[3]", 3, 4, 1}, {"layers.0.w", "F32", "[3]", 3, 4, 1}},
       2, "E13", "layers.1.w"},
      {{{"emb", "F32", "[4]", 4, 4, 1}, {"layers.0.w", "F32", "[3]", 3, 4, 1},
        {"layers.1.w", "F32", "[3]", 3, 4, 1}}, 3, "E14", "emb"},
      {{{"emb", "F64", "[3]", 3, 8, 1}, {"layers.0.w", "F32", "[3]", 3, 4, 1},
        {"layers.1.w", "F32", "[3]", 3, 4, 1}}, 3, "E15", "f64"},
  };
  (void)state;
  for (int i = 0; i < 3; i++) {
    job_t job;
    write_file(faults[i].rows, faults[i].count);
    open_job(&job, model, "interp");
    assert_int_equal(bind(&job, 0, 0), TDSL_STATUS_INVALID_PROGRAM);
    const tdsl_diagnostic_t *d = tdsl_error_get_diagnostic(job.error, 0);
    assert_true(same(d->id, faults[i].id));
    assert_true(holds(d->text, faults[i].part));
    tdsl_error_release(job.error);
    tdsl_status_t status = tdsl_run_execute(job.run, &job.error);
    must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R07");
    if (i == 2) { /* asked for, it is rounded */
      must(bind(&job, 0, 1), job.error);
      must(tdsl_run_execute(job.run, &job.error), job.error);
      assert_true(result(&job, job.entry->slot_count - 1, 0) == 1.0);
    }
    close_job(&job);
  }
}

static void count_warnings(const tdsl_diagnostic_t *d, void *user) {
  int *count = user;
  *count += same(d->id, "W04") && d->severity == TDSL_SEVERITY_WARNING;
}

static void leftovers_are_counted(void **state) {
  (void)state;
  row_t rows[] = {good[0], good[1], good[2],
                  {"spare", "I32", "[3]", 3, 4, 70}};
  tdsl_context_desc_t cd = TDSL_CONTEXT_DESC_INIT;
  job_t job = {0};
  int warnings = 0;
  cd.diagnostic = count_warnings;
  cd.diagnostic_user = &warnings;
  write_file(rows, 4);
  tdsl_compile_desc_t desc = source(model, "interp");
  must(tdsl_context_create(&cd, &job.context, &job.error), job.error);
  must(tdsl_program_compile(job.context, &desc, &job.program, &job.error),
       job.error);
  must(tdsl_executable_create(job.program,
                              tdsl_program_get_entry(job.program, 0),
                              &job.exe, &job.error),
       job.error);
  must(bind(&job, 0, 0), job.error);
  assert_int_equal(warnings, 1);
  tdsl_status_t status = bind(&job, 1, 0);
  assert_int_equal(status, TDSL_STATUS_INVALID_PROGRAM);
  tdsl_error_release(job.error);
  close_job(&job);
}

/* Nothing but the file says what V and D are; adjacent dims may merge. */
static void the_file_decides_dims(void **state) {
  static const char open_dims[] =
      "dim V, D, H = 2\n"
      "struct M {\n"
      "  b: f32[D] from \"b\"\n"
      "  w: f32[V, H, D] from \"w\"\n"
      "}\n"
      "export fn f(m: M) -> s: f32[V] {\n"
      "  s[v] = sum[h in H, d in D] m.w[v, h, d] * m.b[d]\n"
      "}\n";
  static const row_t rows[] = {{"b", "F32", "[3]", 3, 4, 1},
                               {"w", "F32", "[5,6]", 30, 4, 0}};
  (void)state;
  job_t job = {0};
  write_file(rows, 2);
  tdsl_compile_desc_t desc = source(open_dims, "cpu");
  must(tdsl_context_create(NULL, &job.context, &job.error), job.error);
  tdsl_status_t status =
      tdsl_program_compile(job.context, &desc, &job.program, &job.error);
  must_fail(status, job.error, TDSL_STATUS_INVALID_PROGRAM, "E56");
  desc.weights = text(file_name);
  must(tdsl_program_compile(job.context, &desc, &job.program, &job.error),
       job.error);
  job.entry = tdsl_program_get_entry(job.program, 0);
  assert_int_equal(job.entry->slots[1].dim_value[0], 5);
  assert_int_equal(job.entry->slots[1].dim_value[2], 3);
  assert_true(job.entry->slots[1].is_weight);
  assert_true(same(job.entry->slots[1].file_pattern, "w"));
  must(tdsl_executable_create(job.program, job.entry, &job.exe, &job.error),
       job.error);
  must(bind(&job, 1, 0), job.error);
  must(tdsl_run_create(job.exe, &job.run, &job.error), job.error);
  must(tdsl_run_execute(job.run, &job.error), job.error);
  /* 0 1 2 3 4 5 with 1 2 3 1 2 3 */
  assert_true(result(&job, 2, 0) == 0 + 2 + 6 + 3 + 8 + 15);
  close_job(&job);
}

enum { ROWS = 20, COLUMNS = 70, DEPTH = 66 };

/* y = x w^T, in whole numbers that f32 holds. */
static void check_product(job_t *job, const float *x, const float *w) {
  uint32_t y = job->entry->slot_count - 1;
  must(tdsl_run_execute(job->run, &job->error), job->error);
  for (int m = 0; m < ROWS; m++) {
    for (int n = 0; n < COLUMNS; n++) {
      double want = 0;
      for (int k = 0; k < DEPTH; k++) {
        want += (double)x[m * DEPTH + k] * (double)w[n * DEPTH + k];
      }
      assert_true(result(job, y, (uint64_t)(m * COLUMNS + n)) == want);
    }
  }
}

static uint32_t launches(const job_t *job) {
  tdsl_run_stats_t stats = {.struct_bytes = sizeof stats};
  assert_int_equal(tdsl_run_get_stats(job->run, &stats), TDSL_STATUS_OK);
  return stats.launch_count;
}

/* Weights that are bound are laid out for the product once; what the caller
 * gives in their place may change from run to run. */
static void panels_follow_their_weights(void **state) {
  static const char linear[] =
      "dim M = 20, N = 70, K = 66\n"
      "struct L { w: f32[N, K] from \"w\" }\n"
      "export fn f(l: L, x: f32[M, K]) -> y: f32[M, N] {\n"
      "  y[m, n] = sum[k] x[m, k] * l.w[n, k]\n"
      "}\n";
  static const row_t rows[] = {{"w", "F32", "[70,66]", 4620, 4, 1}};
  static const char *const devices[] = {"interp:kir", "cpu"};
  static _Alignas(16) float x[ROWS * DEPTH], w[COLUMNS * DEPTH];
  (void)state;
  write_file(rows, 1);
  for (int d = 0; d < 2; d++) {
    job_t job;
    open_job(&job, linear, devices[d]);
    must(bind(&job, 1, 0), job.error);
    tdsl_tensor_desc_t desc = {TDSL_DTYPE_F32, 2, {ROWS, DEPTH}};
    tdsl_buffer_t *in, *own;
    must(tdsl_buffer_wrap(job.context, &desc, x, sizeof x, &in, &job.error),
         job.error);
    must(tdsl_run_set_buffer(job.run, 1, in, &job.error), job.error);
    for (int i = 0; i < COLUMNS * DEPTH; i++) w[i] = (float)(i + 1);
    for (int i = 0; i < ROWS * DEPTH; i++) x[i] = (float)(i % 5);
    check_product(&job, x, w);
    assert_int_equal(launches(&job), 2);
    for (int i = 0; i < ROWS * DEPTH; i++) x[i] = (float)(i % 7);
    check_product(&job, x, w);
    assert_int_equal(launches(&job), 1);
    desc = (tdsl_tensor_desc_t){TDSL_DTYPE_F32, 2, {COLUMNS, DEPTH}};
    must(tdsl_buffer_wrap(job.context, &desc, w, sizeof w, &own, &job.error),
         job.error);
    must(tdsl_run_set_buffer(job.run, 0, own, &job.error), job.error);
    for (int round = 2; round < 4; round++) {
      for (int i = 0; i < COLUMNS * DEPTH; i++) w[i] = (float)(i % round);
      check_product(&job, x, w);
      assert_int_equal(launches(&job), 2);
    }
    tdsl_buffer_release(own);
    tdsl_buffer_release(in);
    close_job(&job);
  }
}

/* A variant computes the same bits. */
static void variants_agree(void **state) {
  static const char rows[] =
      "import softmax (softmax)\n"
      "dyn B <= 100, N <= 1000\n"
      "export fn f(x: f32[B, N]) -> (y: f32[B, N], m: f32[B, B]) {\n"
      "  y[b, :] = softmax(x[b, :])\n"
      "  m[a, b] = sum[n] x[a, n] * x[b, n]\n"
      "}\n";
  static _Alignas(16) float x[7 * 133];
  (void)state;
  job_t job;
  open_job(&job, rows, "cpu");
  for (int i = 0; i < 7 * 133; i++) {
    x[i] = (float)((i * 7919) % 1013) / 511.0f - 1.0f;
  }
  tdsl_tensor_desc_t desc = {TDSL_DTYPE_F32, 2, {7, 133}};
  tdsl_buffer_t *in, *plain[2];
  must(tdsl_buffer_wrap(job.context, &desc, x, sizeof x, &in, &job.error),
       job.error);
  must(tdsl_run_set_buffer(job.run, 0, in, &job.error), job.error);
  must(tdsl_run_execute(job.run, &job.error), job.error);
  for (uint32_t s = 0; s < 2; s++) {
    plain[s] = tdsl_run_get_buffer(job.run, 1 + s);
    tdsl_buffer_retain(plain[s]);
  }
  const tdsl_dim_value_t lists[3][2] = {{{text("N"), 133}},
                                        {{text("B"), 7}, {text("N"), 133}},
                                        {{text("B"), 8}}};
  const uint32_t counts[3] = {1, 2, 1};
  for (int i = 0; i < 3; i++) {
    must(tdsl_executable_specialize(job.exe, counts[i], lists[i],
                                    &job.error),
         job.error);
    must(tdsl_run_execute(job.run, &job.error), job.error);
    for (uint32_t s = 0; s < 2; s++) {
      tdsl_buffer_t *b = tdsl_run_get_buffer(job.run, 1 + s);
      assert_int_equal(tdsl_buffer_get_bytes(b),
                       tdsl_buffer_get_bytes(plain[s]));
      assert_memory_equal(tdsl_buffer_get_data(b),
                          tdsl_buffer_get_data(plain[s]),
                          tdsl_buffer_get_bytes(b));
    }
  }
  tdsl_dim_value_t wrong = {text("K"), 3};
  tdsl_status_t status =
      tdsl_executable_specialize(job.exe, 1, &wrong, &job.error);
  must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R07");
  wrong = (tdsl_dim_value_t){text("B"), 101};
  status = tdsl_executable_specialize(job.exe, 1, &wrong, &job.error);
  must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R02");
  tdsl_buffer_release(in);
  tdsl_buffer_release(plain[0]);
  tdsl_buffer_release(plain[1]);
  close_job(&job);
}

static int tear_down(void **state) {
  (void)state;
  (void)remove(file_name);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(leaves_find_their_tensors),
      cmocka_unit_test(present_wins),
      cmocka_unit_test(faults_are_named),
      cmocka_unit_test(leftovers_are_counted),
      cmocka_unit_test(the_file_decides_dims),
      cmocka_unit_test(panels_follow_their_weights),
      cmocka_unit_test(variants_agree),
  };
  return cmocka_run_group_tests_name("weights", tests, NULL, tear_down);
}
