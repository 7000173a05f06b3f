/* Open addressing with linear probing over entry numbers; the entries
   themselves sit in an array in insertion order. Load at most one half. */
#include "runtime/base/map.h"

#include "runtime/base/task.h"

/* Multiply and fold, eight bytes at a time. Good enough to spread names and
   structural keys; not for files, where XXH3 is used. */
static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

/* The length goes in first, so that a text and the same text with zero bytes
   behind it differ. */
uint64_t td_hash_bytes(const void *data, size_t length, uint64_t seed) {
  const unsigned char *p = data;
  uint64_t h = mix(seed, length);
  while (length >= 8) {
    uint64_t v;
    memcpy(&v, p, 8);
    h = mix(h, v);
    p += 8;
    length -= 8;
  }
  uint64_t v = 0;
  if (length) memcpy(&v, p, length);
  h = mix(h, v);
  return mix(h, h >> 32);
}

uint64_t td_hash_u64(uint64_t value, uint64_t seed) {
  uint64_t h = mix(seed, value);
  return mix(h, h >> 32);
}

/* Takes no memory before the first put. */
void td_map_init(td_map_t *map, td_arena_t *arena) {
  *map = (td_map_t){.arena = arena};
}

/* The slot that holds the key, or the free slot where it would go. */
static size_t find_slot(const td_map_t *map, const td_str_t *key,
                        uint64_t number, uint64_t hash) {
  size_t mask = map->slot_count - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    uint32_t slot = map->slots[i];
    if (slot == 0) return i;
    const td_map_entry_t *e = &map->entries[slot - 1];
    if (e->hash != hash) continue;
    if (key ? td_str_eq(e->key, *key) : e->number == number) return i;
  }
}

/* key NULL: a number key. An empty map has no slots to probe. */
static td_map_entry_t *find(const td_map_t *map, const td_str_t *key,
                            uint64_t number) {
  if (map->length == 0) return NULL;
  uint64_t hash = key ? td_hash_bytes(key->data, key->length, 0)
                      : td_hash_u64(number, 0);
  uint32_t slot = map->slots[find_slot(map, key, number, hash)];
  return slot ? &map->entries[slot - 1] : NULL;
}

/* Twice the slots, and room for half as many entries; both old arrays stay in
   the arena, together no larger than the new. Entry numbers are 32 bits. */
static void grow(td_map_t *map) {
  if (map->length >= UINT32_MAX / 4) {
    td_raise(map->arena->task, TDSL_STATUS_LIMIT, "map is too large");
  }
  size_t count = map->slot_count ? map->slot_count * 2 : 16;
  map->slots = TD_NEW_ARRAY(map->arena, uint32_t, count);
  map->slot_count = count;
  for (size_t n = 0; n < map->length; n++) {
    size_t i = map->entries[n].hash & (count - 1);
    while (map->slots[i]) i = (i + 1) & (count - 1);
    map->slots[i] = (uint32_t)n + 1;
  }
  size_t capacity = 0;
  map->entries = td_vec_grow(map->arena, map->entries, map->length,
                             count / 2, &capacity, sizeof *map->entries);
  map->capacity = capacity;
}

/* Growing first keeps a slot free even when the key turns out to be there,
   which costs one early growth at most. */
static void *put(td_map_t *map, const td_str_t *key, uint64_t number,
                 void *value) {
  if (map->length * 2 >= map->slot_count) grow(map);
  uint64_t hash = key ? td_hash_bytes(key->data, key->length, 0)
                      : td_hash_u64(number, 0);
  size_t slot = find_slot(map, key, number, hash);
  if (map->slots[slot]) {
    td_map_entry_t *e = &map->entries[map->slots[slot] - 1];
    void *old = e->value;
    e->value = value;
    return old;
  }
  td_map_entry_t *e = &map->entries[map->length];
  if (key) {
    e->key = td_str_n(td_str_cstr(map->arena, *key), key->length);
  }
  e->number = number;
  e->hash = hash;
  e->value = value;
  map->slots[slot] = (uint32_t)++map->length;
  return NULL;
}

/* The public forms differ in the kind of key only. */
void *td_map_get(const td_map_t *map, td_str_t key) {
  td_map_entry_t *e = find(map, &key, 0);
  return e ? e->value : NULL;
}

void *td_map_get_u64(const td_map_t *map, uint64_t key) {
  td_map_entry_t *e = find(map, NULL, key);
  return e ? e->value : NULL;
}

bool td_map_has(const td_map_t *map, td_str_t key) {
  return find(map, &key, 0) != NULL;
}

void *td_map_put(td_map_t *map, td_str_t key, void *value) {
  return put(map, &key, 0, value);
}

void *td_map_put_u64(td_map_t *map, uint64_t key, void *value) {
  return put(map, NULL, key, value);
}

void td_pool_init(td_pool_t *pool, td_arena_t *arena) {
  td_map_init(&pool->map, arena);
}

/* The key's own copy is the interned text; the value is not used. */
const char *td_pool_intern(td_pool_t *pool, td_str_t text) {
  td_map_entry_t *e = find(&pool->map, &text, 0);
  if (e) return e->key.data;
  put(&pool->map, &text, 0, NULL);
  return pool->map.entries[pool->map.length - 1].key.data;
}

const char *td_intern(td_task_t *task, td_str_t text) {
  return td_pool_intern(&task->pool, text);
}
