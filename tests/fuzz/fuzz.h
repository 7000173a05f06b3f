/* fuzz.h: what the targets that run compiler code share: the input, a claim,
 * and a task whose host hooks bound memory and time, so that a hostile size
 * or an endless loop comes back as a status and not as a dead fuzzer. */
#ifndef TDSL_TESTS_FUZZ_H
#define TDSL_TESTS_FUZZ_H

#include "runtime/base/task.h"

#include <stdio.h>
#include <stdlib.h>

enum { FUZZ_POLLS = 20000, FUZZ_BYTES = 64 << 20 };

typedef struct fuzz_input {
  const char *data; /* not terminated */
  size_t size;
} fuzz_input_t;

static inline void fuzz_demand(bool holds, const char *what) {
  if (holds) return;
  (void)fprintf(stderr, "fuzz: %s\n", what);
  abort();
}

/* The cancel hook; `user` counts polls down. */
static inline int fuzz_out_of_budget(void *user) {
  return --*(int *)user < 0;
}

/* The allocator hook: no single block above FUZZ_BYTES. */
static inline void *fuzz_small_alloc(void *old, size_t old_bytes,
                                     size_t new_bytes, void *user) {
  (void)old_bytes;
  (void)user;
  if (new_bytes == 0) {
    free(old);
    return NULL;
  }
  return new_bytes > FUZZ_BYTES ? NULL : realloc(old, new_bytes);
}

/* How a run may end on any input: done, or at one of the bounds. */
static inline bool fuzz_is_bounded(tdsl_status_t status) {
  return status == TDSL_STATUS_OK || status == TDSL_STATUS_OUT_OF_MEMORY ||
         status == TDSL_STATUS_LIMIT || status == TDSL_STATUS_CANCELLED;
}

typedef struct fuzz_job {
  void (*work)(td_task_t *task, void *arg);
  void *arg;
  int polls; /* how often `work` may ask whether to go on */
  /* Further endings that are fine; NULL for none. */
  bool (*may_end)(const td_task_t *task, tdsl_status_t status);
  /* Drops what `work` opened, also after unwinding; NULL for nothing. */
  void (*close)(void *arg);
} fuzz_job_t;

/* Runs the job in a task of its own; any ending but the expected aborts. */
static inline void fuzz_run(const fuzz_job_t *job) {
  int polls = job->polls;
  td_host_t host = {.allocator = {fuzz_small_alloc, NULL},
                    .cancel = {fuzz_out_of_budget, &polls}};
  td_task_t task;
  td_task_init(&task, &host);
  tdsl_status_t status = td_task_run(&task, job->work, job->arg);
  bool expected = fuzz_is_bounded(status) ||
                  (job->may_end != NULL && job->may_end(&task, status));
  if (!expected) (void)fprintf(stderr, "%s\n", task.message);
  fuzz_demand(expected, "unwound");
  if (job->close != NULL) job->close(job->arg);
  td_task_free(&task);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
