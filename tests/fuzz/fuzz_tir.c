/* Any bytes as a .tir text.  Parsing and verifying must end without a crash;
 * what both accept must print to a text that parses to itself, and its
 * functions without parameters must run to an end, with or without reports.
 * (Loops and sizes are bounded by a budget of polls.) */
#include "ir/tir.h"
#include "runtime/base/task.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct input {
  const char *data;
  size_t size;
} input_t;

/* The host's cancel hook: a run may be long, a fuzzer's may not. */
static int out_of_budget(void *user) {
  return --*(int *)user < 0;
}

/* Refuses sizes that no run of a fuzzer should reach. */
static void *small_alloc(void *old, size_t old_bytes, size_t new_bytes,
                         void *user) {
  (void)old_bytes;
  (void)user;
  if (new_bytes == 0) {
    free(old);
    return NULL;
  }
  return new_bytes > ((size_t)64 << 20) ? NULL : realloc(old, new_bytes);
}

static void demand(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "fuzz_tir: %s\n", what);
  abort();
}

static tir_module_t *read_text(td_task_t *task, td_arena_t *arena,
                               const char *data, size_t size) {
  uint32_t file = td_sources_add(task, "in.tir", data, size);
  tir_module_t *m = tir_parse(task, arena, file);
  demand((m == NULL) == (td_task_errors(task) > 0), "silent refusal");
  return m;
}

static void run(td_task_t *task, td_arena_t *arena, const tir_module_t *m) {
  for (uint32_t i = 0; i < m->func_count; i++) {
    const tir_func_t *f = m->funcs[i];
    if (f->slot_count > 0 || f->dim_count > 0) continue;
    for (int way = 0; way < 4; way++) {
      tir_interp_options_t options = {way & 1 ? TIR_F64 : TIR_F32,
                                      way & 2 ? 2 : 0, false};
      (void)tir_interpret(task, arena, m, f, NULL, NULL, &options);
    }
  }
}

static void work(td_task_t *task, void *arg) {
  const input_t *in = arg;
  td_arena_t arena;
  td_buf_t once, twice;
  td_arena_init(&arena, task);
  td_buf_init(&once, task);
  td_buf_init(&twice, task);
  tir_module_t *m = read_text(task, &arena, in->data, in->size);
  if (m == NULL || !tir_verify(task, m, "parse", true)) return;
  tir_print(&once, m);
  tir_module_t *again = read_text(task, &arena, once.data, once.length);
  demand(again != NULL, "own text is refused");
  demand(tir_verify(task, again, "print", true), "own text is not valid");
  tir_print(&twice, again);
  demand(td_str_eq(td_buf_view(&once), td_buf_view(&twice)),
         "print, parse, print is not the identity");
  run(task, &arena, m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input_t in = {(const char *)data, size};
  int budget = 20000;
  td_host_t host = {.allocator = {small_alloc, NULL},
                    .cancel = {out_of_budget, &budget}};
  td_task_t task;
  td_task_init(&task, &host);
  tdsl_status_t status = td_task_run(&task, work, &in);
  bool expected = status == TDSL_STATUS_OK ||
                  status == TDSL_STATUS_OUT_OF_MEMORY ||
                  status == TDSL_STATUS_LIMIT ||
                  status == TDSL_STATUS_CANCELLED;
  if (!expected) fprintf(stderr, "%s\n", task.message);
  demand(expected, "unwound");
  td_task_free(&task);
  return 0;
}
