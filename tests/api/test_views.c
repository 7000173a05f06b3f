/* Views of larger arrays, as other libraries hand them over: rows of an array
   run on every engine and are exact; transposed arrays, columns, padded rows
   are refused by their rule before anything runs, and their owner is told
   once. */
#include "api.h"
#include "dlpack_layout.h"

static const char *const devices[] = {"interp", "interp:f64", "interp:kir",
                                      "cpu", "sim:h100"};
enum { DEVICES = sizeof devices / sizeof devices[0], ROWS = 10, COLUMNS = 12 };

static const char program[] =
    "dyn M <= 64, N <= 64\n"
    "export fn f(x: f32[M, N]) -> y: f32[M] {\n"
    "  y[m] = sum[n] x[m, n] * f32(n + 1)\n"
    "}\n";

typedef struct view {
  managed_t managed;
  int64_t shape[2], strides[2];
  int ended;
  _Alignas(64) float data[ROWS * COLUMNS];
} view_t;

static void end(managed_t *m) {
  ++*(int *)m->manager;
}

static void set_up(view_t *v, int64_t rows, int64_t columns, int64_t step,
                   int64_t each, uint64_t first) {
  memset(v, 0, sizeof *v);
  for (int i = 0; i < ROWS * COLUMNS; i++) v->data[i] = (float)(i % 31 - 15);
  v->shape[0] = rows;
  v->shape[1] = columns;
  v->strides[0] = step;
  v->strides[1] = each;
  v->managed = (managed_t){.tensor = {.data = v->data,
                                      .device_type = 1,
                                      .rank = 2,
                                      .code = 2,
                                      .bits = 32,
                                      .lanes = 1,
                                      .shape = v->shape,
                                      .strides = v->strides,
                                      .byte_offset = first * sizeof(float)},
                           .manager = &v->ended,
                           .deleter = end};
}

/* False where NVRTC is missing. */
static int open_device(job_t *job, const char *device) {
  memset(job, 0, sizeof *job);
  tdsl_compile_desc_t desc = source(program, device);
  must(tdsl_context_create(NULL, &job->context, &job->error), job->error);
  tdsl_status_t status = tdsl_program_compile(job->context, &desc,
                                              &job->program, &job->error);
  if (status == TDSL_STATUS_UNAVAILABLE) {
    tdsl_error_release(job->error);
    tdsl_context_destroy(job->context);
    return 0;
  }
  must(status, job->error);
  job->entry = tdsl_program_get_entry(job->program, 0);
  must(tdsl_executable_create(job->program, job->entry, &job->exe,
                              &job->error), job->error);
  must(tdsl_run_create(job->exe, &job->run, &job->error), job->error);
  return 1;
}

/* Rows `first` .. of the array, used where they lie. */
static void run_rows(job_t *job, const char *device, int64_t first,
                     int64_t rows) {
  static view_t v;
  tdsl_buffer_t *x = NULL;
  set_up(&v, rows, COLUMNS, COLUMNS, 1, (uint64_t)(first * COLUMNS));
  must(tdsl_buffer_import_dlpack(job->context, &v.managed, 0, &x,
                                 &job->error), job->error);
  assert_ptr_equal(tdsl_buffer_get_data(x), v.data + first * COLUMNS);
  must(tdsl_run_set_buffer(job->run, 0, x, &job->error), job->error);
  must(tdsl_run_execute(job->run, &job->error), job->error);
  for (int64_t m = 0; m < rows; m++) {
    double want = 0;
    for (int64_t n = 0; n < COLUMNS; n++) {
      want += (double)v.data[(first + m) * COLUMNS + n] * (double)(n + 1);
    }
    double got = tdsl_buffer_read_float(tdsl_run_get_buffer(job->run, 1),
                                        (uint64_t)m);
    if (got != want) {
      fail_msg("%s: rows %d .. %d: y[%d] is %g, not %g", device, (int)first,
               (int)(first + rows), (int)m, got, want);
    }
  }
  assert_int_equal(v.ended, 0);
  tdsl_buffer_release(x);
  /* the run still holds it */
  must(tdsl_run_set_buffer(job->run, 0,
                           tdsl_run_get_buffer(job->run, 1), &job->error),
       job->error);
  assert_int_equal(v.ended, 1);
}

static void refuse(job_t *job, view_t *v) {
  tdsl_buffer_t *x = NULL;
  tdsl_status_t status =
      tdsl_buffer_import_dlpack(job->context, &v->managed, 0, &x,
                                &job->error);
  assert_null(x);
  must_fail(status, job->error, TDSL_STATUS_INVALID_ARGUMENT, "R08");
  assert_int_equal(v->ended, 1);
}

static void on_every_engine(void **state) {
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    job_t job;
    static view_t v;
    if (!open_device(&job, devices[d])) continue;
    run_rows(&job, devices[d], 2, 3);
    set_up(&v, 7, 5, 1, 7, 0); /* a [5, 7] array turned */
    refuse(&job, &v);
    set_up(&v, 4, 5, 10, 2, 0); /* every second column */
    refuse(&job, &v);
    set_up(&v, 4, 5, COLUMNS, 1, 0); /* the first columns: padded rows */
    refuse(&job, &v);
    set_up(&v, 3, COLUMNS, -COLUMNS, 1, 5 * COLUMNS); /* backwards */
    refuse(&job, &v);
    set_up(&v, 2, COLUMNS, COLUMNS, 1, 1); /* 4 bytes behind */
    refuse(&job, &v);
    /* a step along a dim of one element is no step */
    run_rows(&job, devices[d], 9, 1);
    run_rows(&job, devices[d], 0, ROWS);
    close_job(&job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(on_every_engine)};
  return cmocka_run_group_tests_name("views", tests, NULL, NULL);
}
