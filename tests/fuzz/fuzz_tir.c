/* Any bytes as a .tir text.  Parsing and verifying must end without a crash;
 * what both accept must print to a text that parses to itself, and its
 * functions without parameters must run to an end, with or without reports.
 * (Loops and sizes are bounded by a budget of polls.) */
#include "ir/tir.h"
#include "tests/fuzz/fuzz.h"

static tir_module_t *read_text(td_task_t *task, td_arena_t *arena,
                               const char *data, size_t size) {
  uint32_t file = td_sources_add(task, "in.tir", data, size);
  tir_module_t *m = tir_parse(task, arena, file);
  fuzz_demand((m == NULL) == (td_task_errors(task) > 0), "silent refusal");
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
  const fuzz_input_t *in = arg;
  td_arena_t arena;
  td_buf_t once, twice;
  td_arena_init(&arena, task);
  td_buf_init(&once, task);
  td_buf_init(&twice, task);
  tir_module_t *m = read_text(task, &arena, in->data, in->size);
  if (m == NULL || !tir_verify(task, m, "parse", true)) return;
  tir_print(&once, m);
  tir_module_t *again = read_text(task, &arena, once.data, once.length);
  fuzz_demand(again != NULL, "own text is refused");
  fuzz_demand(tir_verify(task, again, "print", true), "own text is not valid");
  tir_print(&twice, again);
  fuzz_demand(td_str_eq(td_buf_view(&once), td_buf_view(&twice)),
              "print, parse, print is not the identity");
  run(task, &arena, m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input_t in = {(const char *)data, size};
  fuzz_run(&(fuzz_job_t){.work = work, .arg = &in, .polls = FUZZ_POLLS});
  return 0;
}
