/* Vector clocks by place: what flags in memory carry from who raises them to
   who waits for them. */
#ifndef SIM_PLACES_H
#define SIM_PLACES_H

#include <stdbool.h>
#include <stdint.h>

/* All zero is an empty table once `words` is set. */
typedef struct sim_places_t {
  struct sim_place_t *list; /* open addressing */
  uint32_t count, capacity;
  uint32_t words; /* of each clock */
} sim_places_t;

/* The clock of a place, zeros at first; NULL if the host has no memory. It
   stays where it is until the table is freed. */
uint32_t *sim_place_at(sim_places_t *places, uint64_t key);
/* Every clock is zero again. */
void sim_places_clear(sim_places_t *places);
void sim_places_free(sim_places_t *places);

#endif
