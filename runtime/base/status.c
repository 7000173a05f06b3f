/* Names of statuses, and the two ways to unwind. The message is formatted
   into the task itself, so that running out of memory can be reported. */
#include "runtime/base/status.h"

#include "runtime/base/task.h"

const char *td_status_name(tdsl_status_t status) {
  switch (status) {
    case TDSL_STATUS_OK: return "ok";
    case TDSL_STATUS_INVALID_PROGRAM: return "invalid program";
    case TDSL_STATUS_INVALID_FILE: return "invalid file";
    case TDSL_STATUS_INVALID_ARGUMENT: return "invalid argument";
    case TDSL_STATUS_IO: return "input or output failed";
    case TDSL_STATUS_UNAVAILABLE: return "unavailable";
    case TDSL_STATUS_OUT_OF_MEMORY: return "out of memory";
    case TDSL_STATUS_LIMIT: return "limit reached";
    case TDSL_STATUS_CANCELLED: return "cancelled";
    case TDSL_STATUS_INTERNAL: return "internal error";
    case TDSL_STATUS_FORCE32: break;
  }
  return "unknown";
}

/* The public spelling of the same text. */
tdsl_string_t tdsl_status_get_name(tdsl_status_t status) {
  return td_str(td_status_name(status));
}

/* A failure outside td_task_run has nowhere to go: that is a broken rule of
   ours, found by the first test that runs the code, and no host can repair
   it. Returning is not possible and neither is reporting. */
static _Noreturn void unwind(td_task_t *task) {
  td_trap_t *trap = task->trap;
  if (!trap) __builtin_trap();
  while (task->cleanups != trap->cleanups) td_undefer(task, true);
  longjmp(trap->place, 1);
}

/* Formatting into the task takes no memory; a long message is cut. */
void td_raise(td_task_t *task, tdsl_status_t status, const char *format,
              ...) {
  td_buf_t text;
  td_buf_init_fixed(&text, task->message, sizeof task->message);
  va_list args;
  va_start(args, format);
  td_buf_vprintf(&text, format, args);
  va_end(args);
  task->status = status;
  unwind(task);
}

/* The function and line are for us: no file name, since that would hold the
   path of the machine that built the library. */
void td_ice(td_task_t *task, const char *function, int line,
            const char *format, ...) {
  td_buf_t text;
  td_buf_init_fixed(&text, task->message, sizeof task->message);
  td_buf_printf(&text, "internal error in %s (%s, line %d): ",
                task->stage ? task->stage : "no stage", function, line);
  va_list args;
  va_start(args, format);
  td_buf_vprintf(&text, format, args);
  va_end(args);
  task->status = TDSL_STATUS_INTERNAL;
  unwind(task);
}
