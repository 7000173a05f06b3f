/* The one hash map: text or 64-bit keys to pointers, in an arena, iterated in
   insertion order so that no printed text depends on the hash.

     for (size_t i = 0; i < m.length; i++) use(m.entries[i].key, ....value);

   Entries are never removed; putting NULL makes a key read as absent. One map
   uses one kind of key. */
#ifndef TD_MAP_H
#define TD_MAP_H

#include "runtime/base/str.h"

typedef struct td_map_entry_t {
  td_str_t key; /* text keys: a copy in the map's arena, NUL-terminated */
  uint64_t number; /* number keys */
  uint64_t hash;
  void *value;
} td_map_entry_t;

typedef struct td_map_t {
  td_arena_t *arena;
  td_map_entry_t *entries; /* in insertion order; moved by a put */
  size_t length, capacity;
  uint32_t *slots; /* entry number + 1, 0 = free; size a power of two */
  size_t slot_count;
} td_map_t;

void td_map_init(td_map_t *map, td_arena_t *arena);

/* NULL if absent. */
void *td_map_get(const td_map_t *map, td_str_t key);
void *td_map_get_u64(const td_map_t *map, uint64_t key);

/* True if the key was ever put, whatever the value. */
bool td_map_has(const td_map_t *map, td_str_t key);

/* Sets or replaces. Returns the previous value, NULL if there was none. */
void *td_map_put(td_map_t *map, td_str_t key, void *value);
void *td_map_put_u64(td_map_t *map, uint64_t key, void *value);

/* Interning: one pointer per distinct text, NUL-terminated, so that names
   compare with ==. A pool lives as long as its arena. */
typedef struct td_pool_t {
  td_map_t map;
} td_pool_t;

void td_pool_init(td_pool_t *pool, td_arena_t *arena);
const char *td_pool_intern(td_pool_t *pool, td_str_t text);

/* In the task's own pool; the text lives as long as the task, so what must
   survive the call (TIR, PLAN) copies it. */
const char *td_intern(td_task_t *task, td_str_t text);

/* The hash of the map, also useful for structural hashing. Not for files. */
uint64_t td_hash_bytes(const void *data, size_t length, uint64_t seed);
uint64_t td_hash_u64(uint64_t value, uint64_t seed);

#endif
