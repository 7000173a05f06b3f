/* Arenas over blocks of the task. Small requests are cut from the top block;
   one that is large gets a block of its own below the top, so that the rest
   of the top is not lost. */
#include "runtime/base/arena.h"

#include "runtime/base/task.h"

#if defined(__SANITIZE_ADDRESS__)
#define TD_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TD_ASAN 1
#endif
#endif
#ifdef TD_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region((p), (n))
#define UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#define RED_ZONE 16u /* bytes left poisoned between neighbours */
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#define RED_ZONE 0u
#endif

/* First block; later ones double up to the largest. Most arenas of a small
   program fit the first few, and one of a large program wastes at most the
   largest. */
#define FIRST_BLOCK ((size_t)4096)
#define LARGEST_BLOCK ((size_t)1 << 20)

void td_arena_init(td_arena_t *arena, td_task_t *task) {
  *arena = (td_arena_t){.task = task};
}

/* A block from the task, poisoned as a whole: bytes become usable only when
   they are handed out, so a read of what nobody asked for is reported. */
static td_block_t *new_block(td_arena_t *arena, size_t bytes) {
  td_block_t *block = (td_block_t *)td_alloc(arena->task, bytes) - 1;
  POISON(block + 1, bytes);
  return block;
}

/* The sum below cannot overflow after the first test. What is left of a block
   that is replaced is lost until the arena is freed; the quarter rule bounds
   that loss to a third of what is in use. */
void *td_arena_alloc(td_arena_t *arena, size_t bytes) {
  if (bytes > SIZE_MAX / 4) {
    td_raise(arena->task, TDSL_STATUS_OUT_OF_MEMORY,
             "out of memory: %zu bytes", bytes);
  }
  arena->total += bytes;
#ifdef TDSL_ARENA_MALLOC
  td_block_t *own = new_block(arena, bytes ? bytes : 1);
  own->below = arena->top;
  arena->top = own;
  UNPOISON(own + 1, own->bytes);
  memset(own + 1, 0, own->bytes);
  return own + 1;
#else
  size_t need = ((bytes ? bytes : 1) + 15) / 16 * 16 + RED_ZONE;
  size_t room = arena->top ? arena->top->bytes - arena->used : 0;
  char *p;
  if (need <= room) {
    p = (char *)(arena->top + 1) + arena->used;
    arena->used += need;
  } else if (arena->top && need > arena->top->bytes / 4) {
    td_block_t *own = new_block(arena, need);
    own->below = arena->top->below;
    arena->top->below = own;
    p = (char *)(own + 1);
  } else {
    size_t size = FIRST_BLOCK;
    if (arena->top && arena->top->bytes >= FIRST_BLOCK) {
      size = arena->top->bytes * 2;
    }
    if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
    if (size < need) size = need;
    td_block_t *block = new_block(arena, size);
    block->below = arena->top;
    arena->top = block;
    arena->used = need;
    p = (char *)(block + 1);
  }
  UNPOISON(p, bytes ? bytes : 1);
  memset(p, 0, bytes);
  return p;
#endif
}

/* Division instead of multiplication: the product might wrap. */
void *td_arena_alloc_array(td_arena_t *arena, size_t count, size_t size) {
  if (size && count > SIZE_MAX / 4 / size) {
    td_raise(arena->task, TDSL_STATUS_LIMIT,
             "array of %zu items of %zu bytes is too large", count, size);
  }
  return td_arena_alloc(arena, count * size);
}

/* The blocks' memory goes back to the host, who may not know about poison, so
   it is lifted first. The arena keeps its task. */
void td_arena_free_all(td_arena_t *arena) {
  td_block_t *block = arena->top;
  while (block) {
    td_block_t *below = block->below;
    UNPOISON(block + 1, block->bytes);
    td_free(arena->task, block + 1);
    block = below;
  }
  td_arena_init(arena, arena->task);
}

/* Only the links to the task's ring are cut; the chain through `below` still
   holds the blocks together. */
void td_arena_detach(td_arena_t *arena) {
  for (td_block_t *b = arena->top; b; b = b->below) {
    b->prev->next = b->next;
    b->next->prev = b->prev;
    b->prev = b->next = NULL;
  }
  arena->task = NULL;
}

/* Appended to the ring in any order: a ring has none. */
void td_arena_attach(td_arena_t *arena, td_task_t *task) {
  arena->task = task;
  for (td_block_t *b = arena->top; b; b = b->below) {
    b->prev = task->blocks.prev;
    b->next = &task->blocks;
    b->prev->next = b;
    task->blocks.prev = b;
  }
}

const char *td_arena_strndup(td_arena_t *arena, const char *text,
                             size_t length) {
  char *copy = td_arena_alloc(arena, length + 1);
  if (length) memcpy(copy, text, length);
  return copy;
}

const char *td_arena_strdup(td_arena_t *arena, const char *text) {
  return td_arena_strndup(arena, text, strlen(text));
}

/* Through a builder, since the length is not known before. */
const char *td_arena_vprintf(td_arena_t *arena, const char *format,
                             va_list args) {
  td_buf_t buf;
  td_buf_init(&buf, arena->task);
  td_buf_vprintf(&buf, format, args);
  return td_buf_finish(&buf, arena);
}

const char *td_arena_printf(td_arena_t *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(arena, format, args);
  va_end(args);
  return text;
}

/* -- vec.h -- */

void *td_vec_grow(td_arena_t *arena, const void *data, size_t length,
                  size_t need, size_t *capacity, size_t item_bytes) {
  size_t size = *capacity ? *capacity : 4;
  while (size < need) {
    if (size > SIZE_MAX / 8) {
      td_raise(arena->task, TDSL_STATUS_LIMIT, "vector is too long");
    }
    size *= 2;
  }
  void *grown = td_arena_alloc_array(arena, size, item_bytes);
  if (length) memcpy(grown, data, length * item_bytes);
  *capacity = size;
  return grown;
}
