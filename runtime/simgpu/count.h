/* Ledgers of memory traffic, by the rules that GPU profilers count by. */
#ifndef SIM_COUNT_H
#define SIM_COUNT_H

#include "runtime/simgpu/warp.h"

/* One global request of the lanes in mask, `size` bytes each: bytes moved and
   distinct 32-byte sectors. */
void sim_count_global(sim_worker_t *worker, uint32_t mask,
                      const uint64_t *address, uint32_t size, bool is_write);
/* What a shared request costs: 32 banks of 4 bytes, a phase for each 128
   bytes; the cost of a phase is the largest number of distinct words in one
   bank. words: distinct 4-byte words of the whole request. */
void sim_shared_cost(uint32_t mask, const uint64_t *offset, uint32_t size,
                     uint16_t *wavefronts, uint16_t *words);
/* Counts one shared request. */
void sim_count_shared(sim_worker_t *worker, uint32_t mask,
                      const uint64_t *offset, uint32_t size, bool is_write);

#endif
