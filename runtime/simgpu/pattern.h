/* What is known of the addresses that a memory instruction used last. Lane
   patterns repeat in loops, so bounds, sectors, bank conflicts and which
   lanes share an address are worked out once and then looked up: a pattern is
   found again when the lanes' distances from the first lane's address and
   that address's place in a sector or in the banks are the same. */
#ifndef SIM_PATTERN_H
#define SIM_PATTERN_H

#include "runtime/simgpu/warp.h"

struct sim_pattern_t {
  sim_alloc_t *alloc;  /* global: the one used last, or NULL */
  uint32_t mask;       /* lanes; 0: the pattern is not filled */
  uint16_t phase;      /* address of the first lane modulo 128 */
  uint16_t misses;     /* in a row */
  uint8_t size;        /* bytes of a lane, a power of two */
  uint8_t first;       /* lowest lane */
  bool is_shared;      /* what was worked out: banks, or sectors */
  bool is_run;         /* lane l at base + (l - first) * size */
  bool is_same;        /* one address */
  bool any_phase;      /* holds for every place of the first address */
  uint8_t distinct;    /* addresses */
  uint8_t lane[32];    /* of each distinct address, a lane that uses it */
  uint8_t who[32];     /* the same, 32 if several lanes do */
  int32_t low, high;   /* smallest and largest of rel */
  int32_t rel[32];     /* distance from the first lane's address */
  /* shared */
  uint16_t wavefronts, words;
  /* global: sectors by their distance from the first address's one, and the
     bytes touched in each */
  uint8_t sectors;
  int32_t sector[32];
  uint32_t bytes[32];
};

/* Fills it from the addresses of the lanes of m (not 0); false if they have
   no usable shape: far apart, not aligned. */
bool sim_pattern_fill(sim_pattern_t *p, uint32_t m,
                      const uint64_t address[32], uint32_t size,
                      bool is_shared);

#endif
