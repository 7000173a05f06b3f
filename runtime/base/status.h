/* Failure paths. A user's mistake is a diagnostic (diag.h) and a false
   return. What nobody can repair on the spot (no memory, a broken invariant
   of ours, a cancel request) unwinds by longjmp to the API edge, which is
   td_task_run in task.h. No foreign frame may lie in between. */
#ifndef TD_STATUS_H
#define TD_STATUS_H

#include <tdsl/base.h>

#include <stdbool.h>

typedef struct td_task_t td_task_t;

#if defined(__GNUC__)
#define TD_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define TD_PRINTF(f, a)
#endif

/* Unwinds to the innermost td_task_run with this status and message. The
   format is that of td_buf_printf. Never returns. */
_Noreturn void td_raise(td_task_t *task, tdsl_status_t status,
                        const char *format, ...) TD_PRINTF(3, 4);

/* Internal error: raises INTERNAL; the message gets the task's stage name and
   the place in our source in front. */
_Noreturn void td_ice(td_task_t *task, const char *function, int line,
                      const char *format, ...) TD_PRINTF(4, 5);

#define TD_ICE(task, ...) td_ice((task), __func__, __LINE__, __VA_ARGS__)

/* An invariant of ours that is checked in every build. */
#define TD_CHECK(task, condition, ...)                                        \
  do {                                                                        \
    if (!(condition)) TD_ICE((task), __VA_ARGS__);                            \
  } while (0)

/* "invalid program" ...; "unknown" for other values. */
const char *td_status_name(tdsl_status_t status);

/* testcase marks a boundary that tests must reach; OPT_ONLY marks a condition
   that is an optimisation only, so that a mutation build may force it. */
#define testcase(x) ((void)(x))
#ifdef TDSL_MUTATE_OPT
#define OPT_ONLY(x) (TDSL_MUTATE_OPT)
#else
#define OPT_ONLY(x) (x)
#endif

#endif
