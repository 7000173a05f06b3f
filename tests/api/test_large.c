/* Sizes that a 32-bit offset or a whole number of tiles would get wrong: a
   tensor of more than 2^31 elements on memory of the host, of which few pages
   exist, and products with no extent a multiple of anything. */
#define _DEFAULT_SOURCE
#include <sys/mman.h>

#include "api.h"

static const char *const devices[] = {"cpu", "interp", "interp:kir"};
enum { DEVICES = sizeof devices / sizeof devices[0] };

static tdsl_buffer_t *wrap(job_t *job, tdsl_dtype_t dtype, int64_t rows,
                           int64_t columns, void *data, size_t bytes) {
  tdsl_tensor_desc_t desc = {dtype, columns > 0 ? 2 : 1, {rows, columns}};
  tdsl_buffer_t *buffer = NULL;
  must(tdsl_buffer_wrap(job->context, &desc, data, bytes, &buffer,
                        &job->error),
       job->error);
  return buffer;
}

/* Takes the buffer over. */
static void give(job_t *job, uint32_t slot, tdsl_buffer_t *buffer) {
  must(tdsl_run_set_buffer(job->run, slot, buffer, &job->error), job->error);
  tdsl_buffer_release(buffer);
}

/* ---- rows beyond 2^31 bytes ---------------------------------------------- */

enum { ROWS = 262144, COLUMNS = 8960, PICKED = 5 };

static const char gather[] =
    "dim R = 262144, C = 8960\n"
    "dyn N <= 1024\n"
    "export fn f(w: u8[R, C], id: i32[N] in R) -> y: u8[N, C] {\n"
    "  y[n, c] = w[id[n], c]\n"
    "}\n";

/* 2^31 / 8960 = 239674.5: the third row is the last that lies below. */
static const int32_t picked[PICKED] = {262143, 0, 239673, 239674, 239675};

static unsigned char cell(int32_t row, int column) {
  return (unsigned char)(row * 7 + column * 3 + column / 256);
}

static void beyond_31_bits(void **state) {
  (void)state;
  static unsigned char y[PICKED][COLUMNS];
  size_t bytes = (size_t)ROWS * COLUMNS;
  unsigned char *w = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(w != MAP_FAILED);
  for (int i = 0; i < PICKED; i++) {
    unsigned char *row = w + (size_t)picked[i] * COLUMNS;
    for (int c = 0; c < COLUMNS; c++) row[c] = cell(picked[i], c);
  }
  for (int d = 0; d < DEVICES; d++) {
    job_t job;
    open_job(&job, gather, devices[d]);
    static int32_t id[PICKED + 3];
    memcpy(id, picked, sizeof picked);
    give(&job, 0, wrap(&job, TDSL_DTYPE_U8, ROWS, COLUMNS, w, bytes));
    give(&job, 1, wrap(&job, TDSL_DTYPE_I32, PICKED, 0, id, sizeof picked));
    memset(y, 0, sizeof y);
    give(&job, 2, wrap(&job, TDSL_DTYPE_U8, PICKED, COLUMNS, y, sizeof y));
    must(tdsl_run_execute(job.run, &job.error), job.error);
    for (int i = 0; i < PICKED; i++) {
      for (int c = 0; c < COLUMNS; c++) {
        if (y[i][c] != cell(picked[i], c)) {
          fail_msg("%s: row %d, column %d is %d, wanted %d", devices[d],
                   (int)picked[i], c, y[i][c], cell(picked[i], c));
        }
      }
    }
    close_job(&job);
  }
  assert_int_equal(munmap(w, bytes), 0);
}

/* ---- one bad id among many ----------------------------------------------- */

static const char lookup[] =
    "dim V = 5\n"
    "dyn N <= 4096\n"
    "export fn f(w: f32[V], id: i32[N] in V) -> y: f32[N] {\n"
    "  y[n] = w[id[n]]\n"
    "}\n";

/* Wherever it stands: first, at the ends of what is judged at a time, last. */
static void one_bad_id(void **state) {
  (void)state;
  enum { COUNT = 2051 };
  static const int places[] = {0, 511, 512, 1700, 2047, 2048, 2050};
  static int32_t id[COUNT + 16];
  static float w[8] = {0, 1, 2, 3, 4}, y[COUNT + 16];
  for (int d = 0; d < DEVICES; d++) {
    job_t job;
    open_job(&job, lookup, devices[d]);
    give(&job, 0, wrap(&job, TDSL_DTYPE_F32, 5, 0, w, 5 * sizeof *w));
    give(&job, 1, wrap(&job, TDSL_DTYPE_I32, COUNT, 0, id,
                       COUNT * sizeof *id));
    give(&job, 2, wrap(&job, TDSL_DTYPE_F32, COUNT, 0, y, COUNT * sizeof *y));
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
      char place[24];
      for (int i = 0; i < COUNT; i++) id[i] = i % 5;
      id[places[p]] = p % 2 == 0 ? 5 : -1;
      tdsl_status_t status = tdsl_run_execute(job.run, &job.error);
      assert_int_equal(status, TDSL_STATUS_INVALID_ARGUMENT);
      (void)snprintf(place, sizeof place, "id[%d] = %d", places[p],
                     (int)id[places[p]]);
      const tdsl_diagnostic_t *first =
          tdsl_error_get_diagnostic(job.error, 0);
      assert_true(same(first->id, "R04") && holds(first->text, place));
      tdsl_error_release(job.error);
      job.error = NULL;
    }
    for (int i = 0; i < COUNT; i++) id[i] = i % 5;
    must(tdsl_run_execute(job.run, &job.error), job.error);
    for (int i = 0; i < COUNT; i++) assert_true(y[i] == (float)(i % 5));
    close_job(&job);
  }
}

/* ---- products without a whole tile --------------------------------------- */

enum { M = 1000, N = 999, K = 1001 };

typedef struct product {
  const char *text;
  int a_by_column, b_by_column; /* how the operands lie in memory */
} product_t;

static const product_t products[] = {
  {"dyn M <= 1024, N <= 1024, K <= 1024\n"
   "export fn mm(a: bf16[M, K], b: bf16[N, K]) -> c: f32[M, N] {\n"
   "  c[m, n] = sum[k] a[m, k] * b[n, k]\n}\n", 0, 0},
  {"dyn M <= 1024, N <= 1024, K <= 1024\n"
   "export fn mm(a: bf16[K, M], b: bf16[K, N]) -> c: f32[M, N] {\n"
   "  c[m, n] = sum[k] a[k, m] * b[k, n]\n}\n", 1, 1},
};

static int draw(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (int)(*state >> 16) % 9 - 4;
}

/* Upper half of an f32: exact for small integers. */
static uint16_t bf16(int value) {
  float f = (float)value;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static void no_whole_tile(void **state) {
  (void)state;
  int *a = calloc(M * K, sizeof *a), *b = calloc(N * K, sizeof *b);
  int *want = calloc(M * N, sizeof *want);
  uint16_t *a16 = aligned_alloc(64, M * K * 2 + 48);
  uint16_t *b16 = aligned_alloc(64, (N * K * 2 + 63) / 64 * 64);
  float *c = aligned_alloc(64, (M * N * 4 + 63) / 64 * 64);
  assert_true(a && b && want && a16 && b16 && c);
  uint32_t seed = 9;
  for (int i = 0; i < M * K; i++) a[i] = draw(&seed);
  for (int i = 0; i < N * K; i++) b[i] = draw(&seed);
  for (int m = 0; m < M; m++) {
    for (int n = 0; n < N; n++) {
      int sum = 0;
      for (int k = 0; k < K; k++) sum += a[m * K + k] * b[n * K + k];
      want[m * N + n] = sum;
    }
  }
  for (size_t p = 0; p < sizeof products / sizeof products[0]; p++) {
    const product_t *form = &products[p];
    for (int m = 0; m < M; m++) {
      for (int k = 0; k < K; k++) {
        a16[form->a_by_column ? k * M + m : m * K + k] = bf16(a[m * K + k]);
      }
    }
    for (int n = 0; n < N; n++) {
      for (int k = 0; k < K; k++) {
        b16[form->b_by_column ? k * N + n : n * K + k] = bf16(b[n * K + k]);
      }
    }
    job_t job;
    open_job(&job, form->text, "cpu");
    int64_t ar = form->a_by_column ? K : M, br = form->b_by_column ? K : N;
    give(&job, 0, wrap(&job, TDSL_DTYPE_BF16, ar, M + K - ar, a16, M * K * 2));
    give(&job, 1, wrap(&job, TDSL_DTYPE_BF16, br, N + K - br, b16, N * K * 2));
    give(&job, 2, wrap(&job, TDSL_DTYPE_F32, M, N, c, M * N * 4));
    must(tdsl_run_execute(job.run, &job.error), job.error);
    for (int i = 0; i < M * N; i++) {
      if (c[i] != (float)want[i]) {
        fail_msg("form %zu: [%d, %d] is %g, wanted %d", p, i / N, i % N,
                 (double)c[i], want[i]);
      }
    }
    close_job(&job);
  }
  free(a);
  free(b);
  free(want);
  free(a16);
  free(b16);
  free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(beyond_31_bits),
      cmocka_unit_test(one_bad_id),
      cmocka_unit_test(no_whole_tile),
  };
  return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
