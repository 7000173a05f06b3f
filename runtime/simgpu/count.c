#include "runtime/simgpu/count.h"

#include "runtime/simgpu/pattern.h"

/* Distinct sectors by a small hash set: at most 32 lanes times 2 sectors. */
static uint32_t distinct_sectors(uint32_t mask, const uint64_t *address,
                                 uint32_t size) {
  uint64_t set[128];
  uint8_t used[128] = {0};
  uint32_t count = 0;
  uint64_t last = ~UINT64_C(0);
  for (uint32_t l = 0; l < 32; l++) {
    if (!(mask >> l & 1)) continue;
    uint64_t first = address[l] >> 5, end = (address[l] + size - 1) >> 5;
    for (uint64_t s = first; s <= end; s++) {
      if (s == last) continue;
      last = s;
      uint32_t at = (uint32_t)(s * UINT64_C(0x9E3779B97F4A7C15) >> 57);
      while (used[at] && set[at] != s) at = (at + 1) & 127;
      if (used[at]) continue;
      used[at] = 1;
      set[at] = s;
      count++;
    }
  }
  return count;
}

void sim_count_global(sim_worker_t *worker, uint32_t mask,
                      const uint64_t *address, uint32_t size,
                      bool is_write) {
  uint64_t *c = worker->counters;
  uint32_t lanes = (uint32_t)__builtin_popcount(mask);
  uint64_t bytes = (uint64_t)lanes * size;
  c[SIM_COUNTER_GLOBAL_REQUESTS]++;
  c[is_write ? SIM_COUNTER_GLOBAL_WRITTEN : SIM_COUNTER_GLOBAL_READ] += bytes;
  if (!worker->is_counting || lanes == 0) return;
  sim_pattern_t p;
  uint64_t sectors, distinct = bytes;
  if (sim_pattern_fill(&p, mask, address, size, false)) {
    sectors = p.sectors;
    distinct = (uint64_t)p.distinct * size;
  } else {
    sectors = distinct_sectors(mask, address, size);
  }
  c[SIM_COUNTER_GLOBAL_SECTORS] += sectors;
  c[SIM_COUNTER_GLOBAL_SECTORS_IDEAL] += (distinct + 31) / 32;
}

/* The same for 16 bytes a lane, aligned: eight lanes a phase, and eight
   groups of four banks that work as one. */
static void cost_16(uint32_t mask, const uint64_t *offset,
                    uint16_t *wavefronts, uint16_t *words) {
  uint32_t key[64], total = 0, distinct = 0;
  uint64_t used = 0;
  for (uint32_t left = mask; left; left &= left - 1) {
    uint32_t chunk = (uint32_t)(offset[__builtin_ctz(left)] >> 4);
    uint32_t at = chunk * 0x9E3779B1u >> 26;
    while ((used >> at & 1) && key[at] != chunk) at = (at + 1) & 63;
    if (used >> at & 1) continue;
    used |= UINT64_C(1) << at;
    key[at] = chunk;
    distinct++;
  }
  bool all_differ = distinct == (uint32_t)__builtin_popcount(mask);
  for (uint32_t phase = 0; phase < 32; phase += 8) {
    uint8_t fill[8] = {0}, worst = 0;
    for (uint32_t l = phase; l < phase + 8; l++) {
      bool again = !(mask >> l & 1);
      for (uint32_t j = phase; !all_differ && j < l; j++)
        again = again || ((mask >> j & 1) && offset[j] == offset[l]);
      if (again) continue;
      uint8_t n = ++fill[offset[l] >> 4 & 7];
      worst = n > worst ? n : worst;
    }
    total += worst;
  }
  *wavefronts = (uint16_t)(distinct == 1 ? 1 : total);
  *words = (uint16_t)(distinct * 4);
}

void sim_shared_cost(uint32_t mask, const uint64_t *offset, uint32_t size,
                     uint16_t *wavefronts, uint16_t *words) {
  if (size == 16) {
    cost_16(mask, offset, wavefronts, words);
    return;
  }
  uint32_t per_phase = size <= 4 ? 32 : size == 8 ? 16 : 8;
  uint32_t per_lane = size <= 4 ? 1 : size / 4;
  uint64_t seen[32 * 8];
  uint32_t total = 0, distinct = 0;
  uint32_t first = (uint32_t)__builtin_ctz(mask);
  bool same = true;
  for (uint32_t phase = 0; phase < 32; phase += per_phase) {
    uint32_t fill[32] = {0}, worst = 0;
    uint64_t held[32][32];
    for (uint32_t l = phase; l < phase + per_phase; l++) {
      if (!(mask >> l & 1)) continue;
      same = same && offset[l] == offset[first];
      for (uint32_t k = 0; k < per_lane; k++) {
        uint64_t word = offset[l] / 4 + k;
        uint32_t bank = word & 31, n = 0;
        while (n < fill[bank] && held[bank][n] != word) n++;
        if (n < fill[bank]) continue;
        held[bank][fill[bank]++] = word;
        if (fill[bank] > worst) worst = fill[bank];
        /* a word that an earlier phase had is not ideal twice */
        for (n = 0; n < distinct && seen[n] != word; n++) {}
        if (n == distinct) seen[distinct++] = word;
      }
    }
    total += worst;
  }
  /* one address is broadcast at once, however wide */
  *wavefronts = (uint16_t)(same ? 1 : total);
  *words = (uint16_t)distinct;
}

void sim_count_shared(sim_worker_t *worker, uint32_t mask,
                      const uint64_t *offset, uint32_t size,
                      bool is_write) {
  uint64_t *c = worker->counters;
  uint16_t wavefronts, words;
  uint64_t bytes = (uint64_t)__builtin_popcount(mask) * size;
  c[is_write ? SIM_COUNTER_SHARED_WRITTEN : SIM_COUNTER_SHARED_READ] += bytes;
  if (!worker->is_counting || mask == 0) return;
  sim_shared_cost(mask, offset, size, &wavefronts, &words);
  c[SIM_COUNTER_SHARED_WAVEFRONTS] += wavefronts;
  c[SIM_COUNTER_SHARED_IDEAL] += (words + 31u) / 32;
}
