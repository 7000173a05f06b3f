#include "runtime/simgpu/places.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64u

struct sim_place_t {
  uint64_t key; /* plus 1; 0: free */
  uint32_t *clock;
};

static uint32_t slot_of(const struct sim_place_t *list, uint64_t key,
                        uint32_t capacity) {
  uint32_t at =
      (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (capacity - 1);
  while (list[at].key && list[at].key != key) at = (at + 1) & (capacity - 1);
  return at;
}

/* Twice the room; false without memory. */
static bool grow(sim_places_t *p) {
  uint32_t capacity = p->capacity ? p->capacity * 2 : FIRST_CAPACITY;
  struct sim_place_t *list = calloc(capacity, sizeof *list);
  if (!list) return false;
  for (uint32_t n = 0; n < p->capacity; n++)
    if (p->list[n].key)
      list[slot_of(list, p->list[n].key, capacity)] = p->list[n];
  free(p->list);
  p->list = list;
  p->capacity = capacity;
  return true;
}

uint32_t *sim_place_at(sim_places_t *p, uint64_t key) {
  if (p->count * 2 >= p->capacity && !grow(p)) return NULL;
  struct sim_place_t *out = &p->list[slot_of(p->list, key + 1, p->capacity)];
  if (!out->key) {
    out->clock = calloc(p->words ? p->words : 1, sizeof *out->clock);
    if (!out->clock) return NULL;
    out->key = key + 1;
    p->count++;
  }
  return out->clock;
}

void sim_places_clear(sim_places_t *p) {
  for (uint32_t n = 0; n < p->capacity; n++)
    if (p->list[n].key)
      memset(p->list[n].clock, 0, p->words * sizeof *p->list[n].clock);
}

void sim_places_free(sim_places_t *p) {
  for (uint32_t n = 0; n < p->capacity; n++) free(p->list[n].clock);
  free(p->list);
  memset(p, 0, sizeof *p);
}
