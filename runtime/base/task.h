/* The state of one API call: the host's hooks, what was reported, the sources
   that reports point into, and where to unwind to. Belongs to one thread.

     td_task_t task;
     td_task_init(&task, host);
     status = td_task_run(&task, work, &argument);
     ... read task.diags, task.message ...
     td_task_free(&task);
*/
#ifndef TD_TASK_H
#define TD_TASK_H

#include "runtime/base/arena.h"
#include "runtime/base/diag.h"
#include "runtime/base/map.h"
#include "runtime/base/status.h"
#include "runtime/base/str.h"
#include "runtime/base/vec.h"

#include <setjmp.h>

#define TD_MAX_ERRORS 20

/* Copied from the context's descriptor. All zero: malloc, silence, never. */
typedef struct td_host_t {
  tdsl_allocator_t allocator;
  tdsl_log_t log;
  tdsl_cancel_t cancel;
} td_host_t;

typedef struct td_source_t {
  const char *name; /* as shown in messages */
  const char *text; /* a copy, NUL-terminated; NULL for a data file */
  size_t length;
} td_source_t;

typedef struct td_trap_t {
  jmp_buf place;
  struct td_trap_t *outer;
  struct td_cleanup_t *cleanups; /* those registered before the trap */
} td_trap_t;

/* Closes something that is not memory when a failure unwinds over its
   holder. Lives in the task's arena. */
typedef struct td_cleanup_t {
  void (*function)(void *arg);
  void *arg;
  struct td_cleanup_t *below;
} td_cleanup_t;

struct td_task_t {
  td_host_t host;
  const char *stage; /* name of the running pass or stage, for messages */
  td_trap_t *trap;
  tdsl_status_t status; /* of the last failure that unwound */
  char message[512];    /* its text; "" if none */
  td_block_t blocks;    /* ring of everything allocated and not detached */
  td_arena_t arena;     /* reports, sources, interned names */
  td_pool_t pool;
  TD_VEC(td_source_t) sources; /* entry i is file i + 1 */
  TD_VEC(td_diag_t *) diags;
  uint32_t errors, warnings; /* reported, kept or not */
  td_cleanup_t *cleanups;    /* newest first */
};

/* host may be NULL. Allocates nothing. */
void td_task_init(td_task_t *task, const td_host_t *host);
/* Frees everything allocated through the task and not detached. */
void td_task_free(td_task_t *task);

/* Calls fn(task, arg). OK if it returned; if it unwound, the status, with
   task->message set. Runs may nest. A run inside which errors were reported
   is still OK here: ask td_task_status. */
tdsl_status_t td_task_run(td_task_t *task,
                          void (*fn)(td_task_t *task, void *arg), void *arg);

/* The number of errors reported so far; a stage compares before and after. */
static inline uint32_t td_task_errors(const td_task_t *task) {
  return task->errors;
}

/* The status that the call should return: that of the unwinding, or by the
   first error reported (P E L: program, F: file, R: argument, B: missing),
   or OK. */
tdsl_status_t td_task_status(const td_task_t *task);

/* Unwinds with CANCELLED if the host asks for it. Call it in long loops. */
void td_task_poll(td_task_t *task);

/* Registers fn(arg) for unwinding; td_undefer drops the newest, calling it if
   `call` says so. Strictly nested. Registering takes memory and may itself
   unwind, so it comes before what it is to close is opened. */
void td_defer(td_task_t *task, void (*function)(void *arg), void *arg);
void td_undefer(td_task_t *task, bool call);

/* Adds a source and returns its number (from 1). name and text are copied.
   td_sources_add_file is for data files, which have a name and no lines. */
uint32_t td_sources_add(td_task_t *task, const char *name, const char *text,
                        size_t length);
uint32_t td_sources_add_file(td_task_t *task, const char *name);
/* NULL for 0 and unknown numbers. */
const td_source_t *td_sources_get(const td_task_t *task, uint32_t file);

/* One log line to the host; dropped without a log hook. */
void td_log(td_task_t *task, tdsl_severity_t level, const char *category,
            const char *format, ...) TD_PRINTF(4, 5);

#endif
