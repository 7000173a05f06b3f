/* A typed growing array in an arena. Old storage stays in the arena when it
   grows (at most as much again as the final size), so pointers to elements
   survive no push but never dangle into freed memory either. Zero-initialise;
   no init call, no free call.

     TD_VEC(int) v = {0};
     td_vec_push(arena, &v, 7);
     for (size_t i = 0; i < v.length; i++) use(v.data[i]);
*/
#ifndef TD_VEC_H
#define TD_VEC_H

#include "runtime/base/arena.h"

#define TD_VEC(type)                                                          \
  struct {                                                                    \
    type *data;                                                               \
    size_t length, capacity;                                                  \
  }

/* Returns new storage with room for at least need elements, the first length
   copied, the rest zero; raises LIMIT when the size overflows. */
void *td_vec_grow(td_arena_t *arena, const void *data, size_t length,
                  size_t need, size_t *capacity, size_t item_bytes);

/* Makes room for `extra` more elements. */
#define td_vec_reserve(arena, v, extra)                                       \
  ((v)->capacity - (v)->length < (size_t)(extra)                              \
       ? (void)((v)->data = td_vec_grow(                                      \
                    (arena), (v)->data, (v)->length,                          \
                    (v)->length + (size_t)(extra), &(v)->capacity,            \
                    sizeof *(v)->data))                                       \
       : (void)0)

/* Appends; the item may be a compound literal with commas. It must not push
   to the same vector itself. */
#define td_vec_push(arena, v, ...)                                            \
  (td_vec_reserve(arena, v, 1),                                               \
   (void)((v)->data[(v)->length++] = (__VA_ARGS__)))

#define td_vec_last(v) ((v)->data[(v)->length - 1])
#define td_vec_pop(v) ((v)->data[--(v)->length])

#endif
