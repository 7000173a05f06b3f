#include "runtime/simgpu/pattern.h"

#include "runtime/simgpu/count.h"

/* Lanes that share an address; the lanes' addresses are multiples of size, so
   two accesses are equal or disjoint. */
static void find_distinct(sim_pattern_t *p) {
  p->distinct = 0;
  for (uint32_t l = 0; l < 32; l++) {
    uint32_t n = 0;
    if (!(p->mask >> l & 1)) continue;
    while (n < p->distinct && p->rel[p->lane[n]] != p->rel[l]) n++;
    if (n < p->distinct) {
      p->who[n] = 32;
      continue;
    }
    p->lane[n] = p->who[n] = (uint8_t)l;
    p->distinct++;
  }
}

static void find_sectors(sim_pattern_t *p) {
  int32_t at = (int32_t)(p->phase & 31u);
  p->sectors = 0;
  for (uint32_t d = 0; d < p->distinct; d++) {
    int32_t rel = p->rel[p->lane[d]] + at;
    int32_t sector = rel >> 5; /* rounds down, also below zero */
    uint32_t bytes = p->size >= 32
                         ? UINT32_MAX
                         : ((UINT32_C(1) << p->size) - 1) << (rel & 31);
    uint32_t n = 0;
    while (n < p->sectors && p->sector[n] != sector) n++;
    if (n == p->sectors) {
      p->sector[n] = sector;
      p->bytes[n] = 0;
      p->sectors++;
    }
    p->bytes[n] |= bytes;
  }
}

bool sim_pattern_fill(sim_pattern_t *p, uint32_t m,
                      const uint64_t address[32], uint32_t size,
                      bool is_shared) {
  uint32_t first = (uint32_t)__builtin_ctz(m);
  uint64_t base = address[first];
  p->mask = 0;
  if (size > 32 || base & (size - 1)) return false;
  p->low = p->high = 0;
  p->is_run = p->is_same = true;
  for (uint32_t l = 0; l < 32; l++) {
    int64_t rel = (int64_t)(address[l] - base);
    p->rel[l] = 0;
    if (!(m >> l & 1)) {
      /* a run has no gaps */
      if (m >> l) p->is_run = p->is_run && l < first;
      continue;
    }
    if (rel < -(1 << 30) || rel > (1 << 30) || rel & (size - 1)) return false;
    p->rel[l] = (int32_t)rel;
    p->is_run = p->is_run && rel == (int64_t)(l - first) * size;
    p->is_same = p->is_same && rel == 0;
    if (rel < p->low) p->low = (int32_t)rel;
    if (rel > p->high) p->high = (int32_t)rel;
  }
  p->is_shared = is_shared;
  p->size = (uint8_t)size;
  p->first = (uint8_t)first;
  p->phase = (uint16_t)(base & 127);
  p->mask = m;
  find_distinct(p);
  /* whole words that move together keep their conflicts: banks only rotate */
  p->any_phase = p->is_same || (is_shared ? size >= 4 : p->is_run);
  if (is_shared)
    sim_shared_cost(m, address, size, &p->wavefronts, &p->words);
  else
    find_sectors(p);
  return true;
}
