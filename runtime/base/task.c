/* Task life, traps, loose memory, sources. All memory of a task hangs on one
   ring of blocks; ending the task empties the ring, so a failure may unwind
   over any number of holders without a leak. */
#include "runtime/base/task.h"

#include <stdlib.h>

/* The hook's contract in terms of libc. */
static void *default_alloc(void *old, size_t old_bytes, size_t new_bytes,
                           void *user) {
  (void)old_bytes;
  (void)user;
  if (new_bytes) return realloc(old, new_bytes);
  free(old);
  return NULL;
}

/* The blocks form a ring with a head inside the task, so a task must not be
   moved after this. */
void td_task_init(td_task_t *task, const td_host_t *host) {
  memset(task, 0, sizeof *task);
  if (host) task->host = *host;
  if (!task->host.allocator.function) {
    task->host.allocator.function = default_alloc;
  }
  task->blocks.prev = task->blocks.next = &task->blocks;
  td_arena_init(&task->arena, task);
  td_pool_init(&task->pool, &task->arena);
}

/* Cleanups come first: they may look at memory of the task. The arena and the
   pool are blocks like any other. */
void td_task_free(td_task_t *task) {
  while (task->cleanups) td_undefer(task, true);
  while (task->blocks.next != &task->blocks) {
    td_free(task, task->blocks.next + 1);
  }
  memset(task, 0, sizeof *task);
}

/* Not inlined: setjmp's frame must be this small one, so that no local of a
   caller can be clobbered. */
__attribute__((noinline)) tdsl_status_t
td_task_run(td_task_t *task, void (*fn)(td_task_t *task, void *arg),
            void *arg) {
  td_trap_t trap;
  trap.outer = task->trap;
  trap.cleanups = task->cleanups;
  task->trap = &trap;
  if (setjmp(trap.place) == 0) {
    fn(task, arg);
    task->trap = trap.outer;
    return TDSL_STATUS_OK;
  }
  task->trap = task->trap->outer;
  return task->status;
}

/* Warnings do not matter, and of several errors the first is the cause. */
tdsl_status_t td_task_status(const td_task_t *task) {
  if (task->status != TDSL_STATUS_OK) return task->status;
  for (size_t i = 0; i < task->diags.length; i++) {
    const td_diag_t *d = task->diags.data[i];
    if (d->severity != TDSL_SEVERITY_ERROR) continue;
    switch (td_diag_name(d->id)[0]) {
      case 'F':
        /* F01 and F02 are the system's refusals, not a malformed file. */
        return d->id == TD_F01 || d->id == TD_F02 ? TDSL_STATUS_IO
                                                  : TDSL_STATUS_INVALID_FILE;
      case 'R': return TDSL_STATUS_INVALID_ARGUMENT;
      case 'B': return TDSL_STATUS_UNAVAILABLE;
      default: return TDSL_STATUS_INVALID_PROGRAM;
    }
  }
  return TDSL_STATUS_OK;
}

void td_task_poll(td_task_t *task) {
  const tdsl_cancel_t *cancel = &task->host.cancel;
  if (cancel->function && cancel->function(cancel->user)) {
    td_raise(task, TDSL_STATUS_CANCELLED, "cancelled by the host");
  }
}

void td_defer(td_task_t *task, void (*function)(void *arg), void *arg) {
  td_cleanup_t *c = TD_NEW(&task->arena, td_cleanup_t);
  *c = (td_cleanup_t){function, arg, task->cleanups};
  task->cleanups = c;
}

/* Taken off the list before it is called, so that a cleanup that fails is not
   called again. Its memory stays in the arena. */
void td_undefer(td_task_t *task, bool call) {
  td_cleanup_t *c = task->cleanups;
  if (!c) return;
  task->cleanups = c->below;
  if (call) c->function(c->arg);
}

/* -- loose memory -- */

/* At the end of the ring; order carries no meaning. */
static void link_block(td_task_t *task, td_block_t *block) {
  td_block_t *ring = &task->blocks;
  block->prev = ring->prev;
  block->next = ring;
  ring->prev->next = block;
  ring->prev = block;
}

static _Noreturn void no_memory(td_task_t *task, size_t bytes) {
  td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes",
           bytes);
}

/* A failed request leaves the old block where it was, on the ring, and it is
   freed with the task. */
void *td_realloc(td_task_t *task, void *old, size_t bytes) {
  const tdsl_allocator_t *a = &task->host.allocator;
  td_block_t *block = old ? (td_block_t *)old - 1 : NULL;
  if (bytes > SIZE_MAX / 2) no_memory(task, bytes);
  size_t old_total = block ? sizeof *block + block->bytes : 0;
  td_block_t *made =
      a->function(block, old_total, sizeof *block + bytes, a->user);
  if (!made) no_memory(task, bytes);
  made->bytes = bytes;
  if (!old) {
    made->below = NULL;
    link_block(task, made);
  } else { /* the header moved with its links */
    made->prev->next = made;
    made->next->prev = made;
  }
  return made + 1;
}

void *td_alloc(td_task_t *task, size_t bytes) {
  return td_realloc(task, NULL, bytes);
}

/* The hook wants the size back, which the header keeps. */
void td_free(td_task_t *task, void *old) {
  if (!old) return;
  td_block_t *block = (td_block_t *)old - 1;
  block->prev->next = block->next;
  block->next->prev = block->prev;
  const tdsl_allocator_t *a = &task->host.allocator;
  a->function(block, sizeof *block + block->bytes, 0, a->user);
}

/* -- sources -- */

uint32_t td_sources_add(td_task_t *task, const char *name, const char *text,
                        size_t length) {
  td_source_t s = {td_arena_strdup(&task->arena, name), NULL, length};
  if (text) s.text = td_arena_strndup(&task->arena, text, length);
  td_vec_push(&task->arena, &task->sources, s);
  return (uint32_t)task->sources.length;
}

/* One entry a name, however often the file is mentioned. */
uint32_t td_sources_add_file(td_task_t *task, const char *name) {
  for (size_t i = 0; i < task->sources.length; i++) {
    const td_source_t *s = &task->sources.data[i];
    if (!s->text && strcmp(s->name, name) == 0) return (uint32_t)i + 1;
  }
  return td_sources_add(task, name, NULL, 0);
}

const td_source_t *td_sources_get(const td_task_t *task, uint32_t file) {
  if (file == 0 || file > task->sources.length) return NULL;
  return &task->sources.data[file - 1];
}

/* Nothing is formatted unless somebody listens. */
void td_log(td_task_t *task, tdsl_severity_t level, const char *category,
            const char *format, ...) {
  const tdsl_log_t *log = &task->host.log;
  if (!log->function) return;
  td_buf_t text;
  td_buf_init(&text, task);
  va_list args;
  va_start(args, format);
  td_buf_vprintf(&text, format, args);
  va_end(args);
  log->function(level, td_str(category), td_buf_view(&text), log->user);
  td_buf_free(&text);
}
