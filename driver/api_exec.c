/* api_exec.c: runs a plan on a device of runtime/hal. */
#include "driver/api.h"

bool drv_run_plan(td_task_t *task, td_arena_t *arena, tdsl_run_t *run,
                  const hal_arg_t *args) {
  return drv_run_interp(task, arena, run, args);
}
