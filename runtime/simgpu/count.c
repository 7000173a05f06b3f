#include "runtime/simgpu/count.h"

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
  uint32_t first = (uint32_t)__builtin_ctz(mask);
  uint64_t base = address[first] - (uint64_t)first * size;
  bool run = (((mask >> first) + 1) & (mask >> first)) == 0, same = true;
  for (uint32_t l = 0; l < 32; l++) {
    if (!(mask >> l & 1)) continue;
    run &= address[l] == base + (uint64_t)l * size;
    same &= address[l] == address[first];
  }
  uint64_t sectors, distinct;
  if (run) {
    sectors = ((address[first] + bytes - 1) >> 5) - (address[first] >> 5) + 1;
    distinct = bytes;
  } else if (same) {
    sectors = ((address[first] + size - 1) >> 5) - (address[first] >> 5) + 1;
    distinct = size;
  } else {
    sectors = distinct_sectors(mask, address, size);
    distinct = bytes;
  }
  c[SIM_COUNTER_GLOBAL_SECTORS] += sectors;
  c[SIM_COUNTER_GLOBAL_SECTORS_IDEAL] += (distinct + 31) / 32;
}

void sim_count_shared(sim_worker_t *worker, uint32_t mask,
                      const uint64_t *offset, uint32_t size,
                      bool is_write) {
  uint64_t *c = worker->counters;
  uint32_t lanes = (uint32_t)__builtin_popcount(mask);
  uint64_t bytes = (uint64_t)lanes * size;
  c[is_write ? SIM_COUNTER_SHARED_WRITTEN : SIM_COUNTER_SHARED_READ] += bytes;
  if (!worker->is_counting || lanes == 0) return;
  uint32_t first = (uint32_t)__builtin_ctz(mask);
  bool run = true, same = true;
  for (uint32_t l = 0; l < 32; l++) {
    if (!(mask >> l & 1)) continue;
    run &= offset[l] == offset[first] + (uint64_t)(l - first) * size;
    same &= offset[l] == offset[first];
  }
  if (same) {
    c[SIM_COUNTER_SHARED_WAVEFRONTS]++;
    c[SIM_COUNTER_SHARED_IDEAL]++;
    return;
  }
  uint32_t per_phase = size <= 4 ? 32 : size == 8 ? 16 : 8;
  uint32_t words = size <= 4 ? 1 : size / 4;
  uint32_t wavefronts = 0, distinct_words = 0;
  if (words == 1 && size == 4) {
    /* usually every bank serves one word */
    uint64_t held[32];
    uint32_t seen = 0, clash = 0;
    for (uint32_t l = 0; l < 32; l++) {
      if (!(mask >> l & 1)) continue;
      uint64_t word = offset[l] >> 2;
      uint32_t bank = word & 31, bit = 1u << bank;
      clash |= (seen & bit) && held[bank] != word;
      held[bank] = word;
      seen |= bit;
    }
    if (!clash) {
      c[SIM_COUNTER_SHARED_WAVEFRONTS]++;
      c[SIM_COUNTER_SHARED_IDEAL]++;
      return;
    }
  }
  for (uint32_t phase = 0; phase < 32; phase += per_phase) {
    uint32_t part = mask >> phase;
    if (per_phase < 32) part &= (1u << per_phase) - 1;
    if (!part) continue;
    if (run && size >= 4) {
      wavefronts++;
      distinct_words += (uint32_t)__builtin_popcount(part) * words;
      continue;
    }
    uint32_t fill[32] = {0}, worst = 0;
    uint64_t held[32][32];
    for (uint32_t l = 0; l < per_phase; l++) {
      if (!(part >> l & 1)) continue;
      for (uint32_t k = 0; k < words; k++) {
        uint64_t word = offset[phase + l] / 4 + k;
        uint32_t bank = word & 31, n = 0;
        while (n < fill[bank] && held[bank][n] != word) n++;
        if (n < fill[bank]) continue;
        held[bank][fill[bank]++] = word;
        distinct_words++;
        if (fill[bank] > worst) worst = fill[bank];
      }
    }
    wavefronts += worst;
  }
  c[SIM_COUNTER_SHARED_WAVEFRONTS] += wavefronts;
  c[SIM_COUNTER_SHARED_IDEAL] += (distinct_words + 31) / 32;
}
