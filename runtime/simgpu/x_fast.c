/* The usual loads and stores. An instruction's lanes mostly have the pattern
   of last time, in memory that is there, defined and in order: then one
   comparison of the lanes' distances stands for all that the slow way judges
   lane by lane. Whatever is unusual goes the slow way from the start. */
#include "runtime/simgpu/async.h"
#include "runtime/simgpu/pattern.h"
#include "runtime/simgpu/sectors.h"
#include "runtime/simgpu/x_mem.h"

#define PATIENCE 16u /* new patterns in a row before most are not learnt */

static bool is_known(const sim_pattern_t *p, uint32_t m,
                     const uint64_t address[32], uint32_t size) {
  uint64_t base = address[p->first & 31], differ = 0;
  if (p->mask != m || p->size != size) return false;
  if (!p->any_phase && (base & 127) != p->phase) return false;
  if (m == SIM_FULL) {
    SIM_LANES differ |= (address[l] - base) ^ (uint64_t)(int64_t)p->rel[l];
  } else {
    SIM_LANES {
      uint64_t in = 0 - (uint64_t)(m >> l & 1);
      differ |= ((address[l] - base) ^ (uint64_t)(int64_t)p->rel[l]) & in;
    }
  }
  return differ == 0;
}

sim_pattern_t *sim_usual(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                         const uint64_t address[32], uint32_t size,
                         bool is_shared) {
  sim_pattern_t *p = &w->worker->patterns[i->memory];
  if (is_known(p, m, address, size)) {
    p->misses = 0;
    return p;
  }
  if (p->misses < UINT16_MAX) p->misses++;
  if (p->misses > PATIENCE && p->misses & 63) return NULL;
  return sim_pattern_fill(p, m, address, size, is_shared) ? p : NULL;
}

/* Every element is a 32-bit row of 4 bytes. */
static bool is_words(const sim_warp_t *w, const sim_ins_t *i) {
  if (i->bytes != 4) return false;
  for (uint32_t e = 0; e < i->lanes; e++)
    if ((sim_element_row(w, i, e) & 3u) != SIM_ROW_32) return false;
  return true;
}

typedef uint32_t quad_t __attribute__((vector_size(16), may_alias));

/* Four words from each of 32 places into four rows, four lanes at a time. */
static void load_quads(sim_warp_t *w, const sim_ins_t *i, const uint8_t *base,
                       const int32_t *rel) {
  uint8_t *d[4];
  for (uint32_t e = 0; e < 4; e++)
    d[e] = w->r + (sim_element_row(w, i, e) & ~3u);
  for (uint32_t l = 0; l < 32; l += 4) {
    quad_t q[4], r[4];
    for (uint32_t k = 0; k < 4; k++) memcpy(&q[k], base + rel[l + k], 16);
    quad_t a = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5);
    quad_t b = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);
    quad_t c = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);
    quad_t f = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(c, f, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(c, f, 2, 3, 6, 7);
    for (uint32_t e = 0; e < 4; e++) memcpy(d[e] + 4 * l, &r[e], 16);
  }
}

static void store_quads(sim_warp_t *w, const sim_ins_t *i, uint8_t *base,
                        const int32_t *rel) {
  const uint8_t *s[4];
  for (uint32_t e = 0; e < 4; e++)
    s[e] = w->r + (sim_element_row(w, i, e) & ~3u);
  for (uint32_t l = 0; l < 32; l += 4) {
    quad_t q[4], r[4];
    for (uint32_t e = 0; e < 4; e++) memcpy(&q[e], s[e] + 4 * l, 16);
    quad_t a = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5);
    quad_t b = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);
    quad_t c = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);
    quad_t f = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(c, f, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(c, f, 2, 3, 6, 7);
    for (uint32_t k = 0; k < 4; k++) memcpy(base + rel[l + k], &r[k], 16);
  }
}

/* base: the first lane's address in the host. */
static void load_rows(sim_warp_t *w, const sim_ins_t *i,
                      const sim_pattern_t *p, const uint8_t *base) {
  uint32_t m = p->mask;
  bool words = is_words(w, i);
  if (words && p->is_same) {
    for (uint32_t e = 0; e < i->lanes; e++) {
      sim_u32 *d = sim_row(w, sim_element_row(w, i, e) & ~3u);
      uint32_t v = *(const sim_u32 *)(const void *)(base + 4 * e);
      SIM_STORE(uint32_t, d, v);
    }
    return;
  }
  if (words && m == SIM_FULL && i->lanes == 4) {
    load_quads(w, i, base, p->rel);
    return;
  }
  if (words && m == SIM_FULL && i->lanes == 1 && p->is_run) {
    memcpy(sim_row(w, i->d), base, 128);
    return;
  }
  for (uint32_t e = 0; e < i->lanes; e++) {
    uint32_t row = sim_element_row(w, i, e);
    const uint8_t *from = base + e * i->bytes;
    if (words && m == SIM_FULL) {
      sim_u32 *d = sim_row(w, row & ~3u);
      for (uint32_t l = 0; l < 32; l++)
        d[l] = *(const sim_u32 *)(const void *)(from + p->rel[l]);
    } else if (i->bytes == 2 && m == SIM_FULL && (row & 3u) == SIM_ROW_32 &&
               !(i->mods & SIM_MOD_SIGNED)) {
      sim_u32 *d = sim_row(w, row & ~3u);
      for (uint32_t l = 0; l < 32; l++)
        d[l] = (uint32_t)sim_load_raw(from + p->rel[l], 2);
    } else {
      for (uint32_t l = 0; l < 32; l++)
        if (SIM_BIT(m))
          sim_put_element(w, i, row, l,
                          sim_load_raw(from + p->rel[l], i->bytes));
    }
  }
}

static void store_rows(sim_warp_t *w, const sim_ins_t *i,
                       const sim_pattern_t *p, uint8_t *base) {
  uint32_t m = p->mask;
  bool words = m == SIM_FULL && is_words(w, i);
  if (words && i->lanes == 4) {
    store_quads(w, i, base, p->rel);
    return;
  }
  if (words && i->lanes == 1 && p->is_run) {
    memcpy(base, sim_row(w, i->d), 128);
    return;
  }
  for (uint32_t e = 0; e < i->lanes; e++) {
    uint32_t row = sim_element_row(w, i, e);
    uint8_t *to = base + e * i->bytes;
    bool wide = (row & 3u) == SIM_ROW_64;
    const sim_u32 *s = sim_row(w, row & ~3u);
    const sim_u64 *s64 = sim_row64(w, row & ~3u);
    if (words) {
      for (uint32_t l = 0; l < 32; l++)
        *(sim_u32 *)(void *)(to + p->rel[l]) = s[l];
      continue;
    }
    for (uint32_t l = 0; l < 32; l++) {
      if (!SIM_BIT(m)) continue;
      uint64_t v = wide ? s64[l] : s[l];
      uint8_t *at = to + p->rel[l];
      switch (i->bytes) {
      case 1: memcpy(at, &v, 1); break;
      case 2: memcpy(at, &v, 2); break;
      case 4: memcpy(at, &v, 4); break;
      default: memcpy(at, &v, 8); break;
      }
    }
  }
}

/* -- shared memory -- */

static bool all_ones(const uint8_t *d, size_t bytes) {
  uint8_t all = 1;
  for (size_t k = 0; k < bytes; k++) all &= d[k];
  return all;
}

/* d: definedness at the first lane's offset, a byte a byte. */
static bool is_defined(const sim_pattern_t *p, const uint8_t *d) {
  if (p->is_run)
    return all_ones(d, (size_t)__builtin_popcount(p->mask) * p->size);
  uint64_t all = UINT64_C(0x0101010101010101);
  for (uint32_t n = 0; n < p->distinct; n++) {
    const uint8_t *at = d + p->rel[p->lane[n]];
    uint64_t a = 0, b;
    switch (p->size) {
    case 4: all &= *(const sim_u32 *)(const void *)at | ~UINT64_C(0) << 32;
      break;
    case 8: all &= *(const sim_u64 *)(const void *)at; break;
    case 16:
      memcpy(&a, at, 8);
      memcpy(&b, at + 8, 8);
      all &= a & b;
      break;
    default:
      if (!all_ones(at, p->size)) return false;
    }
  }
  return all == UINT64_C(0x0101010101010101);
}

/* Any word that asynchronous operations use. */
static bool is_marked(const sim_pattern_t *p, const uint8_t *marks,
                      uint64_t base) {
  uint32_t words = p->size <= 4 ? 1 : p->size / 4u, any = 0;
  for (uint32_t n = 0; n < p->distinct; n++) {
    const uint8_t *at = marks + (base + (uint64_t)(int64_t)
                                            p->rel[p->lane[n]]) / 4;
    for (uint32_t k = 0; k < words; k++) any |= at[k];
  }
  return any != 0;
}

static void define(const sim_pattern_t *p, uint8_t *d) {
  if (p->is_run) {
    memset(d, 1, (size_t)__builtin_popcount(p->mask) * p->size);
    return;
  }
  for (uint32_t n = 0; n < p->distinct; n++) {
    uint8_t *at = d + p->rel[p->lane[n]];
    if (p->size == 4)
      *(sim_u32 *)(void *)at = 0x01010101u;
    else
      memset(at, 1, p->size);
  }
}

/* As judge_tags of x_access.c, an address at a time. */
static bool judge(sim_warp_t *w, const sim_ins_t *i, const sim_pattern_t *p,
                  uint32_t base, bool is_write) {
  uint64_t *tags = w->cta->tags;
  uint32_t words = p->size <= 4 ? 1 : p->size / 4u;
  uint64_t plain = sim_tag(w, (uint32_t)(i - w->code), 0, 15, is_write, false);
  uint64_t many = (uint64_t)SIM_TAG_MANY_WARPS << 30 |
                  (uint64_t)SIM_TAG_MANY_LANES << 24;
  const uint64_t who = UINT64_C(0xFFF) << 24, stamp = plain >> 44;
  for (uint32_t n = 0; n < p->distinct; n++) {
    uint32_t offset = base + (uint32_t)p->rel[p->lane[n]];
    /* of lanes that write one address, the first is judged */
    uint32_t lane = is_write ? p->lane[n] : p->who[n];
    uint64_t now = plain | (uint64_t)lane << 24;
    if (p->size < 4) {
      uint64_t bytes = ((UINT64_C(1) << p->size) - 1) << (offset & 3);
      now = (now & ~(UINT64_C(15) << 20)) | bytes << 20;
    }
    for (uint32_t k = 0; k < words; k++) {
      uint64_t *tag = &tags[offset / 4 + k], old = *tag;
      if (old >> 44 != stamp) {
        *tag = now;
      } else if (old == now) {
        continue;
      } else if (!((old | now) >> 19 & 1) && ((old ^ now) >> 30 & 63)) {
        /* two warps read */
        *tag = (now & ~who) | many | (old & UINT64_C(15) << 20);
      } else if (!sim_tag_meet(w, i, tag, now, lane, offset, p->size)) {
        return false;
      }
      if (p->who[n] != lane)
        *tag = (*tag & ~(UINT64_C(63) << 24)) |
               (uint64_t)SIM_TAG_MANY_LANES << 24;
    }
  }
  return true;
}

static bool judge_records(sim_warp_t *w, const sim_ins_t *i,
                          const sim_pattern_t *p, uint32_t base,
                          bool is_write) {
  w->serial++;
  for (uint32_t n = 0; n < p->distinct; n++) {
    if (!sim_race_access(w, w->cta, i, is_write ? p->lane[n] : p->who[n],
                         base + (uint32_t)p->rel[p->lane[n]], p->size,
                         is_write ? SIM_RACE_WRITE : 0))
      return false;
  }
  return true;
}

int sim_fast_shared(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                    const uint64_t address[32], bool is_write) {
  sim_worker_t *worker = w->worker;
  const sim_launch_t *launch = worker->launch;
  sim_cta_t *cta = w->cta;
  uint32_t size = (uint32_t)i->bytes * i->lanes;
  if (w->is_tainted || (w->fenced && i->mods & SIM_MOD_STRONG)) return 0;
  const sim_pattern_t *p = sim_usual(w, i, m, address, size, true);
  if (!p) return 0;
  uint64_t base = address[p->first];
  if (base & (size - 1) || base + (uint64_t)(int64_t)p->low <
                               launch->shared_start ||
      base + (uint64_t)p->high + size > launch->shared_end ||
      base >= launch->shared_end)
    return 0;
  if (cta->marks && is_marked(p, cta->marks, base)) return 0;
  if (!is_write && !is_defined(p, cta->shared_defined + base)) return 0;
  uint64_t *c = worker->counters;
  c[is_write ? SIM_COUNTER_SHARED_WRITTEN : SIM_COUNTER_SHARED_READ] +=
      (uint64_t)__builtin_popcount(m) * size;
  if (worker->is_counting) {
    c[SIM_COUNTER_SHARED_WAVEFRONTS] += p->wavefronts;
    c[SIM_COUNTER_SHARED_IDEAL] += (p->words + 31u) / 32;
  }
  if (cta->tags ? !judge(w, i, p, (uint32_t)base, is_write)
                : cta->races &&
                      !judge_records(w, i, p, (uint32_t)base, is_write))
    return -1;
  if (is_write) {
    worker->progress += w->fenced != NULL; /* a flag may be among them */
    store_rows(w, i, p, cta->shared + base);
    define(p, cta->shared_defined + base);
  } else {
    load_rows(w, i, p, cta->shared + base);
  }
  return 1;
}

/* -- global memory -- */

#define SPAN_AT_ONCE 16384 /* bytes whose pages are asked together */

static bool global_defined(const sim_pattern_t *p, const sim_alloc_t *a,
                           uint64_t offset) {
  int64_t span = (int64_t)p->high - p->low + p->size;
  if (span <= SPAN_AT_ONCE &&
      sim_is_defined(a, offset + (uint64_t)(int64_t)p->low, (uint64_t)span))
    return true;
  for (uint32_t n = 0; n < p->distinct; n++) {
    int64_t rel = p->rel[p->lane[n]];
    if (!sim_is_defined(a, offset + (uint64_t)rel, p->size)) return false;
  }
  return true;
}

static void count_global(sim_worker_t *worker, const sim_pattern_t *p,
                         uint64_t base, bool is_write) {
  uint64_t *c = worker->counters;
  uint64_t lanes = (uint64_t)__builtin_popcount(p->mask), size = p->size;
  c[SIM_COUNTER_GLOBAL_REQUESTS]++;
  c[is_write ? SIM_COUNTER_GLOBAL_WRITTEN : SIM_COUNTER_GLOBAL_READ] +=
      lanes * size;
  if (!worker->is_counting) return;
  uint64_t bytes = p->distinct * size;
  c[SIM_COUNTER_GLOBAL_SECTORS] +=
      p->any_phase ? ((base + bytes - 1) >> 5) - (base >> 5) + 1 : p->sectors;
  c[SIM_COUNTER_GLOBAL_SECTORS_IDEAL] += (bytes + 31) / 32;
}

/* For launches whose bytes are compared with those of others. */
static void track(sim_warp_t *w, const sim_pattern_t *p, sim_alloc_t *a,
                  uint64_t offset, bool is_write) {
  char kind = is_write ? 'w' : 'r';
  bool is_early = sim_is_early(w, w->cta->launch);
  if (p->any_phase) {
    sim_touch(a, offset, (uint64_t)p->distinct * p->size, kind, is_early);
    return;
  }
  for (uint32_t n = 0; n < p->distinct; n++)
    sim_touch(a, offset + (uint64_t)(int64_t)p->rel[p->lane[n]], p->size,
              kind, is_early);
}

static bool touch_sectors(sim_warp_t *w, const sim_ins_t *i,
                          const sim_pattern_t *p, sim_alloc_t *a,
                          uint64_t base, bool is_write) {
  unsigned flags = sim_touch_flags(i, is_write ? 'w' : 'r');
  if (p->any_phase)
    return sim_sectors_run(w, i, a, base, (uint64_t)p->distinct * p->size,
                           flags, p->first);
  return sim_sectors_some(w, i, a, base, p->sector, p->bytes, p->sectors,
                          flags);
}

int sim_fast_global(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                    const uint64_t address[32], bool is_write) {
  sim_worker_t *worker = w->worker;
  const sim_launch_t *launch = worker->launch;
  uint32_t size = (uint32_t)i->bytes * i->lanes;
  if (w->is_tainted || (w->fenced && i->mods & SIM_MOD_STRONG)) return 0;
  /* pending copies may use what is touched */
  const sim_async_t *pending = w->cta->marks ? w->cta->async : NULL;
  if (pending && (pending->count || (pending->cp_pending && is_write)))
    return 0;
  sim_pattern_t *p = sim_usual(w, i, m, address, size, false);
  if (!p) return 0;
  uint64_t base = address[p->first];
  uint64_t low = base + (uint64_t)(int64_t)p->low;
  uint64_t end = base + (uint64_t)p->high + size;
  sim_alloc_t *a = p->alloc;
  if (!a || low - a->address >= a->bytes || !a->is_live) {
    a = sim_alloc_find(launch->memory, low);
    if (!a || !a->is_live) return 0;
    p->alloc = a;
  }
  if (end - a->address > a->bytes || base & (size - 1) ||
      !sim_alloc_may(a, launch->device, launch->peers, is_write) ||
      (is_write && a->is_read_only))
    return 0;
  uint64_t offset = base - a->address;
  if (!is_write) {
    if (!global_defined(p, a, offset)) return 0;
    count_global(worker, p, base, false);
    if (launch->is_tracking) track(w, p, a, offset, false);
    if (launch->uses_sectors && !touch_sectors(w, i, p, a, base, false))
      return -1;
    load_rows(w, i, p, a->host + offset);
    return 1;
  }
  count_global(worker, p, base, true);
  worker->progress++;
  if (launch->is_tracking) track(w, p, a, offset, true);
  if (launch->uses_sectors && !touch_sectors(w, i, p, a, base, true))
    return -1;
  /* poison goes under a first partial store, not over it */
  if (p->any_phase) {
    uint64_t bytes = (uint64_t)p->distinct * size;
    sim_poison_range(a, offset, bytes);
    store_rows(w, i, p, a->host + offset);
    sim_define(a, offset, bytes);
    return 1;
  }
  for (uint32_t n = 0; n < p->distinct; n++)
    sim_poison_range(a, offset + (uint64_t)(int64_t)p->rel[p->lane[n]], size);
  store_rows(w, i, p, a->host + offset);
  for (uint32_t n = 0; n < p->distinct; n++)
    sim_define(a, offset + (uint64_t)(int64_t)p->rel[p->lane[n]], size);
  return 1;
}
