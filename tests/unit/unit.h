/* What the unit tests share: cmocka, a task around each test, files of the
   tests folder, and the sweep over failing allocations. */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/base/os.h"
#include "runtime/base/task.h"

typedef void (*unit_body_t)(td_task_t *task, void *arg);

/* Runs the body in a task of its own and wants it to end normally. */
static inline void unit_run(unit_body_t body) {
  td_task_t task;
  td_task_init(&task, NULL);
  tdsl_status_t status = td_task_run(&task, body, NULL);
  if (status != TDSL_STATUS_OK) print_error("%s\n", task.message);
  assert_int_equal(status, TDSL_STATUS_OK);
  td_task_free(&task);
}

/* TASK_TEST(name) { ... task ... } defines a cmocka test. */
#define TASK_TEST(name)                                                       \
  static void name##_body(td_task_t *task, void *arg);                        \
  static void name(void **state) {                                            \
    (void)state;                                                              \
    unit_run(name##_body);                                                    \
  }                                                                           \
  static void name##_body(td_task_t *task, void *arg)

/* The parameters of a body that needs only some of them. */
#define UNUSED_ARG (void)task, (void)arg

static inline td_str_t unit_file(td_task_t *task, const char *name) {
  td_str_t text = {NULL, 0};
  const char *path = td_os_join(&task->arena, TDSL_TESTS_DIR, name);
  assert_true(td_os_read_file(task, path, 0, &task->arena, &text));
  return text;
}

/* The id of the first diagnostic, "" if there is none. */
static inline const char *unit_first_id(const td_task_t *task) {
  return task->diags.length ? td_diag_name(task->diags.data[0]->id) : "";
}

/* -- failing allocations -- */

typedef struct unit_memory_t {
  size_t calls, fail_at; /* the call that fails; 0: none */
  bool keep_failing;
  long held; /* blocks not yet freed */
} unit_memory_t;

static inline void *unit_alloc(void *old, size_t old_bytes, size_t new_bytes,
                               void *user) {
  unit_memory_t *m = user;
  (void)old_bytes;
  if (new_bytes == 0) {
    m->held--;
    free(old);
    return NULL;
  }
  m->calls++;
  if (m->fail_at && (m->calls == m->fail_at ||
                     (m->keep_failing && m->calls > m->fail_at))) {
    return NULL;
  }
  if (!old) m->held++;
  return realloc(old, new_bytes);
}

/* Runs the body once to count its allocations, then fails each in turn,
   alone and with all that follow. Every run must end with OUT_OF_MEMORY (or
   normally, if the failing call was not reached) and leave nothing. */
static inline void unit_sweep(unit_body_t body, void *arg) {
  unit_memory_t memory = {0, 0, false, 0};
  td_host_t host = {.allocator = {unit_alloc, &memory}};
  td_task_t task;
  td_task_init(&task, &host);
  assert_int_equal(td_task_run(&task, body, arg), TDSL_STATUS_OK);
  td_task_free(&task);
  assert_int_equal(memory.held, 0);
  size_t count = memory.calls;
  assert_true(count > 0);
  for (size_t n = 1; n <= count; n++) {
    for (int keep = 0; keep < 2; keep++) {
      memory = (unit_memory_t){0, n, keep, 0};
      td_task_init(&task, &host);
      tdsl_status_t status = td_task_run(&task, body, arg);
      assert_int_equal(status, TDSL_STATUS_OUT_OF_MEMORY);
      assert_true(task.message[0]);
      td_task_free(&task);
      assert_int_equal(memory.held, 0);
    }
  }
}

#endif
