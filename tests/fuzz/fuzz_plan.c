/* Any bytes as the text of a plan.  Parsing and verifying must end without a
 * crash; what both accept must print to a text that parses to itself, and
 * its entries must run to an end on the device that computes nothing, with
 * or without reports.  (Loops and sizes are bounded.) */
#include "runtime/base/num.h"
#include "runtime/hal/exec.h"
#include "runtime/null/null_device.h"
#include "tests/fuzz/fuzz.h"

typedef struct input {
  const char *data;
  size_t size;
  hal_device_t *device; /* closed by whoever made it, also on unwinding */
  hal_program_t *program;
  hal_exec_t *exec;
} input_t;

static plan_t *read_text(td_task_t *task, td_arena_t *arena, const char *data,
                         size_t size) {
  uint32_t file = td_sources_add(task, "in.plan", data, size);
  plan_t *plan = plan_parse(task, arena, file);
  fuzz_demand((plan == NULL) == (td_task_errors(task) > 0), "silent refusal");
  return plan;
}

/* Zeros of the right shapes, at dims of at most 3. */
static void run_entry(td_task_t *task, td_arena_t *arena, input_t *in,
                      const plan_t *plan, uint32_t number) {
  const plan_entry_t *e = &plan->entries[number];
  int64_t *dims = TD_NEW_ARRAY(arena, int64_t, e->var_count + 1);
  hal_arg_t *args = TD_NEW_ARRAY(arena, hal_arg_t, e->slot_count + 1);
  for (uint32_t d = 0; d < e->dim_count; d++) {
    dims[d] = e->vars[d].bound < 3 ? e->vars[d].bound : 3;
  }
  plan_env_t env = {dims, NULL};
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const plan_slot_t *slot = &e->slots[s];
    hal_arg_t *a = &args[s];
    size_t bytes = td_dtype_bytes(slot->dtype);
    if (slot->kind == PLAN_OUT) continue;
    a->is_set = true;
    a->dtype = slot->dtype;
    a->rank = slot->rank;
    for (uint32_t d = 0; d < slot->rank; d++) {
      if (!plan_eval(&slot->dims[d], &env, &a->dims[d])) return;
      if (a->dims[d] < 0 || a->dims[d] > 4096) return;
      bytes *= (size_t)a->dims[d];
      if (bytes > 1 << 20) return;
    }
    a->data = td_arena_alloc(arena, bytes + 1);
  }
  in->exec = hal_exec_create(task, arena, in->device, in->program, plan,
                             number);
  hal_exec_options_t options = {.checks = HAL_CHECKS_ALL};
  (void)hal_exec_run(in->exec, task, args, dims, &options);
  hal_exec_destroy(in->exec);
  in->exec = NULL;
}

static void work(td_task_t *task, void *arg) {
  input_t *in = arg;
  td_arena_t arena;
  td_buf_t once, twice;
  td_arena_init(&arena, task);
  td_buf_init(&once, task);
  td_buf_init(&twice, task);
  plan_t *plan = read_text(task, &arena, in->data, in->size);
  if (plan == NULL || !plan_verify(task, plan, "parse", true)) return;
  plan_print(&once, plan, true);
  plan_t *again = read_text(task, &arena, once.data, once.length);
  fuzz_demand(again != NULL, "own text is refused");
  fuzz_demand(plan_verify(task, again, "print", true), "own text is not valid");
  plan_print(&twice, again, true);
  fuzz_demand(td_str_eq(td_buf_view(&once), td_buf_view(&twice)),
              "print, parse, print is not the identity");
  in->device = rnull_device_create(task);
  in->program = in->device->vtable->load(in->device, task, plan);
  for (uint32_t i = 0; i < plan->entry_count; i++) {
    run_entry(task, &arena, in, plan, i);
  }
}

/* A plan whose own claims about memory are false is found when it runs. */
static bool may_end(const td_task_t *task, tdsl_status_t status) {
  return status == TDSL_STATUS_INTERNAL &&
         strstr(task->message, "memory plan does not hold") != NULL;
}

static void close_device(void *arg) {
  input_t *in = arg;
  hal_exec_destroy(in->exec);
  if (in->device == NULL) return;
  in->device->vtable->unload(in->device, in->program);
  in->device->vtable->destroy(in->device);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input_t in = {.data = (const char *)data, .size = size};
  fuzz_run(&(fuzz_job_t){.work = work, .arg = &in, .polls = FUZZ_POLLS,
                         .may_end = may_end, .close = close_device});
  return 0;
}
