/* Memory with a lifetime instead of an owner. Everything a stage makes is
   taken from an arena and dropped whole. Blocks come from the host's
   allocator through the task; what is still held when the task ends is freed
   then, so nothing leaks when a failure unwinds over the arena's holder.
   Under ASan unused bytes are poisoned; with TDSL_ARENA_MALLOC every
   allocation is a block of its own, so that overruns hit a red zone. */
#ifndef TD_ARENA_H
#define TD_ARENA_H

#include "runtime/base/status.h"

#include <stdarg.h>

/* One allocation from the host, on the list of its task. The payload follows
   the header and is 16-aligned. */
typedef struct td_block_t {
  struct td_block_t *prev, *next; /* the task's list; NULL when detached */
  struct td_block_t *below;       /* the arena's list: the older block */
  size_t bytes;                   /* payload size */
} td_block_t;

_Static_assert(sizeof(td_block_t) % 16 == 0, "payloads stay 16-aligned");

typedef struct td_arena_t {
  td_task_t *task;
  td_block_t *top;   /* the block being filled; older ones through below */
  size_t used;       /* bytes used of top */
  size_t total;      /* bytes handed out since the last reset, for ledgers */
} td_arena_t;

/* Starts empty; allocates nothing. */
void td_arena_init(td_arena_t *arena, td_task_t *task);

/* Zeroed, 16-aligned, never NULL (out of memory unwinds). 0 bytes give a
   distinct valid pointer. Lives until td_arena_free_all. */
void *td_arena_alloc(td_arena_t *arena, size_t bytes);

/* count * size with the multiplication checked (raises LIMIT). */
void *td_arena_alloc_array(td_arena_t *arena, size_t count, size_t size);

/* Frees every block. The arena is empty and usable again. */
void td_arena_free_all(td_arena_t *arena);

/* An arena that outlives its task (a program's, a context's): detach before
   the task ends, attach to the task of the next call before allocating.
   Attached again it can be freed by td_arena_free_all. Both tasks must have
   the same allocator. */
void td_arena_detach(td_arena_t *arena);
void td_arena_attach(td_arena_t *arena, td_task_t *task);

/* NUL-terminated copies. The format is that of td_buf_printf. */
const char *td_arena_strdup(td_arena_t *arena, const char *text);
const char *td_arena_strndup(td_arena_t *arena, const char *text,
                             size_t length);
const char *td_arena_printf(td_arena_t *arena, const char *format, ...)
    TD_PRINTF(2, 3);
const char *td_arena_vprintf(td_arena_t *arena, const char *format,
                             va_list args);

#define TD_NEW(arena, type) ((type *)td_arena_alloc((arena), sizeof(type)))
#define TD_NEW_ARRAY(arena, type, n)                                          \
  ((type *)td_arena_alloc_array((arena), (size_t)(n), sizeof(type)))

/* Loose memory for what grows and shrinks (builders, hash tables outside an
   arena). Not zeroed. Freed with the task if not before. */
void *td_alloc(td_task_t *task, size_t bytes);
void *td_realloc(td_task_t *task, void *old, size_t bytes);
void td_free(td_task_t *task, void *old);

#endif
