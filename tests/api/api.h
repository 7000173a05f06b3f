/* What the tests of the public interface share. They see <tdsl/...> alone. */
#ifndef TESTS_API_H
#define TESTS_API_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tdsl/tdsl.h>

static inline tdsl_string_t text(const char *s) {
  return (tdsl_string_t){s, strlen(s)};
}

static inline int same(tdsl_string_t a, const char *b) {
  return a.length == strlen(b) && memcmp(a.data, b, a.length) == 0;
}

static inline int holds(tdsl_string_t a, const char *b) {
  size_t n = strlen(b);
  for (size_t i = 0; i + n <= a.length; i++)
    if (memcmp(a.data + i, b, n) == 0) return 1;
  return 0;
}

/* must(CALL, error): shows why, then fails. A macro, since the call sets the
   error that stands beside it. */
#define must(call, error)                                                     \
  do {                                                                        \
    tdsl_status_t must_status = (call);                                       \
    must_hold(must_status, (error));                                          \
  } while (0)

static inline void must_hold(tdsl_status_t status, tdsl_error_t *error) {
  if (status != TDSL_STATUS_OK) {
    tdsl_string_t s = tdsl_error_get_message(error);
    print_error("%.*s\n", (int)s.length, s.data);
  }
  assert_int_equal(status, TDSL_STATUS_OK);
  assert_null(error);
}

/* The id of the first diagnostic of an error, which is released. */
static inline void must_fail(tdsl_status_t status, tdsl_error_t *error,
                             tdsl_status_t wanted, const char *id) {
  assert_int_equal(status, wanted);
  assert_non_null(error);
  assert_int_equal(tdsl_error_get_status(error), wanted);
  if (id != NULL) {
    assert_true(tdsl_error_get_diagnostic_count(error) > 0);
    const tdsl_diagnostic_t *d = tdsl_error_get_diagnostic(error, 0);
    if (!same(d->id, id)) {
      print_error("%.*s\n", (int)d->rendered.length, d->rendered.data);
    }
    assert_true(same(d->id, id));
  }
  tdsl_error_release(error);
}

/* Everything between a text and a result. */
typedef struct job {
  tdsl_context_t *context;
  tdsl_program_t *program;
  const tdsl_entry_t *entry;
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  tdsl_error_t *error;
} job_t;

static inline tdsl_compile_desc_t source(const char *program,
                                         const char *device) {
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  desc.file = text("test.tdsl");
  desc.text = text(program);
  desc.device = text(device);
  return desc;
}

static inline void open_job(job_t *job, const char *program,
                            const char *device) {
  memset(job, 0, sizeof *job);
  tdsl_compile_desc_t desc = source(program, device);
  must(tdsl_context_create(NULL, &job->context, &job->error), job->error);
  must(tdsl_program_compile(job->context, &desc, &job->program, &job->error),
       job->error);
  job->entry = tdsl_program_get_entry(job->program, 0);
  assert_non_null(job->entry);
  must(tdsl_executable_create(job->program, job->entry, &job->exe,
                              &job->error),
       job->error);
  must(tdsl_run_create(job->exe, &job->run, &job->error), job->error);
}

static inline void close_job(job_t *job) {
  tdsl_run_destroy(job->run);
  tdsl_executable_release(job->exe);
  tdsl_program_release(job->program);
  tdsl_context_destroy(job->context);
}

static inline tdsl_buffer_t *vector(tdsl_context_t *context, float *data,
                                    int64_t n) {
  tdsl_tensor_desc_t desc = {TDSL_DTYPE_F32, 1, {n}};
  tdsl_buffer_t *buffer = NULL;
  tdsl_error_t *error = NULL;
  tdsl_status_t status = tdsl_buffer_wrap(
      context, &desc, data, (size_t)n * sizeof *data, &buffer, &error);
  must(status, error);
  return buffer;
}

#endif
