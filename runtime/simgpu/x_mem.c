/* Loads and stores. */
#include "runtime/simgpu/x_mem.h"

/* Which bits of a lane's `bytes` bytes are undefined, for one access. */
static uint32_t undefined_bytes(const sim_warp_t *w, const sim_access_t *x,
                                uint32_t l, ptx_space_t space) {
  if (space == PTX_SPACE_GLOBAL)
    return sim_undefined_mask(x->alloc[l], x->offset[l], x->size);
  const uint8_t *d = space == PTX_SPACE_SHARED ? x->cta->shared_defined
                                               : w->local_defined;
  uint32_t out = 0;
  for (uint32_t k = 0; k < x->size; k++)
    out |= (uint32_t)(d[x->offset[l] + k] == 0) << k;
  return out;
}

static bool all_defined(const uint8_t *d, size_t bytes) {
  uint8_t all = 1;
  for (size_t k = 0; k < bytes; k++) all &= d[k];
  return all;
}

/* True if every byte the lanes read is defined. */
static bool is_defined(const sim_warp_t *w, const sim_access_t *x,
                       ptx_space_t space) {
  uint32_t lanes = (uint32_t)__builtin_popcount(x->mask);
  if (space == PTX_SPACE_GLOBAL) {
    if (x->is_run || x->is_same)
      return sim_is_defined(x->alloc[x->first], x->offset[x->first],
                            (uint64_t)(x->is_same ? 1 : lanes) * x->size);
    for (uint32_t l = 0; l < 32; l++) {
      if ((x->mask >> l & 1) &&
          !sim_is_defined(x->alloc[l], x->offset[l], x->size))
        return false;
    }
    return true;
  }
  const uint8_t *d = space == PTX_SPACE_SHARED ? x->cta->shared_defined
                                               : w->local_defined;
  if (x->is_run)
    return all_defined(d + x->offset[x->first], (size_t)lanes * x->size);
  if (x->is_same) return all_defined(d + x->offset[x->first], x->size);
  if (x->size == 4) {
    uint32_t all = 0x01010101u;
    for (uint32_t l = 0; l < 32; l++) {
      if (x->mask >> l & 1)
        all &= *(const sim_u32 *)(const void *)(d + x->offset[l]);
    }
    return all == 0x01010101u;
  }
  for (uint32_t l = 0; l < 32; l++) {
    if ((x->mask >> l & 1) && !all_defined(d + x->offset[l], x->size))
      return false;
  }
  return true;
}

/* Words from anywhere, and consecutive elements, without extension: whole
   rows at once. */
static bool load_run(sim_warp_t *w, const sim_ins_t *i,
                     const sim_access_t *x) {
  if (i->lanes == 1 && i->bytes == 4 && sim_kind(i, 0) == SIM_ROW_32 &&
      !x->is_run) {
    sim_u32 *d = sim_row(w, i->d);
    if (x->is_same) {
      uint32_t m = x->mask;
      uint32_t v = *(const sim_u32 *)(const void *)x->host[x->first];
      SIM_STORE(uint32_t, d, v);
      return true;
    }
    for (uint32_t l = 0; l < 32; l++) {
      if (x->mask >> l & 1) d[l] = *(const sim_u32 *)(const void *)x->host[l];
    }
    return true;
  }
  if (x->mask != SIM_FULL || !x->is_run || (i->mods & SIM_MOD_SIGNED))
    return false;
  const uint8_t *p = x->host[0];
  uint32_t step = i->lanes;
  for (uint32_t e = 0; e < step; e++) {
    uint32_t row = sim_element_row(w, i, e);
    if ((row & 3u) == SIM_ROW_32 && i->bytes == 4) {
      sim_u32 *d = sim_row(w, row & ~3u);
      const sim_u32 *s = (const sim_u32 *)(const void *)(p + 4 * e);
      for (uint32_t l = 0; l < 32; l++) d[l] = s[l * step];
    } else if ((row & 3u) == SIM_ROW_64 && i->bytes == 8) {
      sim_u64 *d = sim_row64(w, row & ~3u);
      const sim_u64 *s = (const sim_u64 *)(const void *)(p + 8 * e);
      for (uint32_t l = 0; l < 32; l++) d[l] = s[l * step];
    } else if ((row & 3u) == SIM_ROW_32 && i->bytes == 2) {
      sim_u32 *d = sim_row(w, row & ~3u);
      for (uint32_t l = 0; l < 32; l++)
        d[l] = (uint32_t)sim_load_raw(p + 2 * (l * step + e), 2);
    } else {
      for (uint32_t l = 0; l < 32; l++)
        sim_put_element(w, i, row, l,
            sim_load_raw(p + i->bytes * (l * step + e), i->bytes));
    }
  }
  return true;
}

static bool load(sim_warp_t *w, const sim_ins_t *i, const sim_access_t *x,
                 ptx_space_t space) {
  if (x->mask == 0) return true;
  bool defined = is_defined(w, x, space);
  /* shared and local storage starts as poison, global pages on demand */
  if (!defined && space == PTX_SPACE_GLOBAL) {
    for (uint32_t l = 0; l < 32; l++) {
      if (!(x->mask >> l & 1)) continue;
      uint32_t at = x->is_run || x->is_same ? x->first : l;
      uint64_t plus = x->is_same || !x->is_run
                          ? 0
                          : (uint64_t)(l - x->first) * x->size;
      sim_poison_range(x->alloc[at], x->offset[at] + plus, x->size);
    }
  }
  if (!load_run(w, i, x)) {
    for (uint32_t e = 0; e < i->lanes; e++) {
      uint32_t row = sim_element_row(w, i, e);
      for (uint32_t l = 0; l < 32; l++) {
        if (!(x->mask >> l & 1)) continue;
        const uint8_t *p = x->is_same ? x->host[x->first]
                           : x->is_run
                               ? x->host[x->first] +
                                     (size_t)(l - x->first) * x->size
                               : x->host[l];
        sim_put_element(w, i, row, l, sim_load_raw(p + e * i->bytes, i->bytes));
      }
    }
  }
  if (defined && !w->is_tainted) return true;
  if (!(w->cta->launch->options->checks & SIM_CHECK_INIT)) return true;
  w->is_tainted = w->is_tainted || !defined;
  for (uint32_t l = 0; l < 32; l++) {
    if (!(x->mask >> l & 1)) continue;
    uint32_t bits = 0;
    if (!defined) {
      sim_access_t one = *x;
      if (x->is_run || x->is_same) {
        one.alloc[l] = x->alloc[x->first];
        one.offset[l] = x->offset[x->first] +
                        (x->is_same ? 0
                                    : (uint64_t)(l - x->first) * x->size);
      }
      bits = undefined_bytes(w, &one, l, space);
    }
    for (uint32_t e = 0; e < i->lanes; e++) {
      uint32_t row = sim_element_row(w, i, e);
      if ((row & 3u) == SIM_ROW_NONE) continue;
      uint32_t part = bits >> (e * i->bytes) & ((1u << i->bytes) - 1);
      /* an undefined sign spoils what it is spread over */
      if ((i->mods & SIM_MOD_SIGNED) && (part >> (i->bytes - 1) & 1))
        part |= 0xFFu << i->bytes;
      sim_shadow(w, row & ~3u)[l] = (uint8_t)part;
    }
  }
  return true;
}

static bool store(sim_warp_t *w, const sim_ins_t *i, const sim_access_t *x,
                  ptx_space_t space) {
  if (x->mask == 0) return true;
  for (uint32_t e = 0; e < i->lanes; e++) {
    uint32_t row = sim_element_row(w, i, e);
    bool wide = (row & 3u) == SIM_ROW_64;
    const sim_u32 *s = sim_row(w, row & ~3u);
    const sim_u64 *s64 = sim_row64(w, row & ~3u);
    if (x->is_run && x->mask == SIM_FULL && i->bytes == 4 && !wide) {
      sim_u32 *d = (sim_u32 *)(void *)(x->host[0] + 4 * e);
      uint32_t step = i->lanes;
      for (uint32_t l = 0; l < 32; l++) d[l * step] = s[l];
      continue;
    }
    for (uint32_t l = 0; l < 32; l++) {
      if (!(x->mask >> l & 1)) continue;
      uint8_t *p = x->is_run || x->is_same ? x->host[x->first] : x->host[l];
      if (x->is_run && !x->is_same) p += (size_t)(l - x->first) * x->size;
      p += e * i->bytes;
      uint64_t v = wide ? s64[l] : s[l];
      memcpy(p, &v, i->bytes);
    }
  }
  /* what was stored is defined, but for the undefined bytes of registers */
  uint32_t lanes = (uint32_t)__builtin_popcount(x->mask);
  if (space == PTX_SPACE_GLOBAL && (x->is_run || x->is_same)) {
    sim_define(x->alloc[x->first], x->offset[x->first],
               (uint64_t)(x->is_same ? 1 : lanes) * x->size);
  } else {
    uint8_t *d = space == PTX_SPACE_SHARED ? x->cta->shared_defined
                                           : w->local_defined;
    if (space != PTX_SPACE_GLOBAL && x->is_run) {
      memset(d + x->offset[x->first], 1, (size_t)lanes * x->size);
    } else {
      for (uint32_t l = 0; l < 32; l++) {
        if (!(x->mask >> l & 1)) continue;
        if (space == PTX_SPACE_GLOBAL)
          sim_define(x->alloc[l], x->offset[l], x->size);
        else
          memset(d + x->offset[l], 1, x->size);
      }
    }
  }
  if (!w->is_tainted) return true;
  for (uint32_t e = 0; e < i->lanes; e++) {
    uint32_t row = sim_element_row(w, i, e);
    if ((row & 3u) == SIM_ROW_NONE) continue;
    for (uint32_t l = 0; l < 32; l++) {
      uint8_t bits = sim_shadow(w, row & ~3u)[l];
      if (!(x->mask >> l & 1) || !bits) continue;
      bool joint = space == PTX_SPACE_GLOBAL && (x->is_run || x->is_same);
      uint64_t at = joint ? x->offset[x->first] +
                                (x->is_same
                                     ? 0
                                     : (uint64_t)(l - x->first) * x->size)
                          : x->offset[l];
      for (uint32_t k = 0; k < i->bytes; k++) {
        if (!(bits >> k & 1)) continue;
        uint64_t byte = at + e * i->bytes + k;
        if (space == PTX_SPACE_GLOBAL)
          sim_undefine(x->alloc[joint ? x->first : l], byte, 1);
        else
          (space == PTX_SPACE_SHARED ? x->cta->shared_defined
                                     : w->local_defined)[byte] = 0;
      }
    }
  }
  return true;
}

/* -- one space each -- */

static bool load_from(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                      const uint64_t *address, ptx_space_t space) {
  sim_access_t x;
  uint32_t size = (uint32_t)i->bytes * i->lanes;
  while (space == PTX_SPACE_SHARED) {
    uint32_t part = sim_one_cta(w, m, address);
    if (part == m) break;
    if (!sim_shared_access(w, i, part, address, size, 'r', &x) ||
        !load(w, i, &x, space))
      return false;
    m &= ~part;
  }
  if (m == 0) return true;
  bool ok = space == PTX_SPACE_GLOBAL
                ? sim_global_access(w, i, m, address, size, 'r', &x)
            : space == PTX_SPACE_SHARED
                ? sim_shared_access(w, i, m, address, size, 'r', &x)
                : sim_local_access(w, i, m, address, size, 'r', &x);
  return ok && load(w, i, &x, space);
}

static bool store_to(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                     const uint64_t *address, ptx_space_t space) {
  sim_access_t x;
  uint32_t size = (uint32_t)i->bytes * i->lanes;
  while (space == PTX_SPACE_SHARED) {
    uint32_t part = sim_one_cta(w, m, address);
    if (part == m) break;
    if (!sim_shared_access(w, i, part, address, size, 'w', &x) ||
        !store(w, i, &x, space))
      return false;
    m &= ~part;
  }
  if (m == 0) return true;
  bool ok = space == PTX_SPACE_GLOBAL
                ? sim_global_access(w, i, m, address, size, 'w', &x)
            : space == PTX_SPACE_SHARED
                ? sim_shared_access(w, i, m, address, size, 'w', &x)
                : sim_local_access(w, i, m, address, size, 'w', &x);
  if (!ok || x.mask == 0) return ok;
  w->worker->progress += space == PTX_SPACE_SHARED && w->fenced;
  /* poison goes under a first partial store, not over it */
  if (space == PTX_SPACE_GLOBAL) {
    w->worker->progress++;
    for (uint32_t l = 0; l < 32; l++) {
      if (!(x.mask >> l & 1)) continue;
      uint64_t lanes = x.is_run && !x.is_same
                           ? (uint64_t)__builtin_popcount(x.mask)
                           : 1;
      sim_poison_range(x.alloc[l], x.offset[l], lanes * size);
      if (x.is_run || x.is_same) break;
    }
  }
  return store(w, i, &x, space);
}

#define USUAL(name, fn, space, fast, is_write)                                \
  SIM_DEF(name) {                                                             \
    uint64_t address[32];                                                     \
    if (m == 0) return i + 1;                                                 \
    sim_addresses(w, i, address);                                             \
    int done = fast(w, i, m, address, is_write);                              \
    if (done > 0) return i + 1;                                               \
    return !done && fn(w, i, m, address, space) ? i + 1 : NULL;               \
  }
USUAL(ld_global, load_from, PTX_SPACE_GLOBAL, sim_fast_global, false)
USUAL(ld_shared, load_from, PTX_SPACE_SHARED, sim_fast_shared, false)
USUAL(st_global, store_to, PTX_SPACE_GLOBAL, sim_fast_global, true)
USUAL(st_shared, store_to, PTX_SPACE_SHARED, sim_fast_shared, true)

#define PLAIN(name, fn, space)                                                \
  SIM_DEF(name) {                                                             \
    uint64_t address[32];                                                     \
    sim_addresses(w, i, address);                                             \
    return fn(w, i, m, address, space) ? i + 1 : NULL;                        \
  }
PLAIN(ld_local, load_from, PTX_SPACE_LOCAL)
PLAIN(st_local, store_to, PTX_SPACE_LOCAL)

/* Lanes of a generic access, by the window that their address falls into. */
static void sort_lanes(uint32_t m, uint64_t address[32], uint32_t *shared,
                       uint32_t *local) {
  *shared = *local = 0;
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    if (address[l] - SIM_SHARED_BASE < SIM_SPACE_BYTES) {
      *shared |= 1u << l;
      address[l] -= SIM_SHARED_BASE;
    } else if (address[l] - SIM_LOCAL_BASE < SIM_SPACE_BYTES) {
      *local |= 1u << l;
      address[l] -= SIM_LOCAL_BASE;
    }
  }
}

#define GENERIC(name, fn)                                                     \
  SIM_DEF(name) {                                                             \
    uint64_t address[32];                                                     \
    uint32_t shared, local;                                                   \
    if (m == 0) return i + 1;                                                 \
    sim_addresses(w, i, address);                                             \
    sort_lanes(m, address, &shared, &local);                                  \
    bool ok = fn(w, i, m & ~shared & ~local, address, PTX_SPACE_GLOBAL) &&    \
              fn(w, i, shared, address, PTX_SPACE_SHARED) &&                  \
              fn(w, i, local, address, PTX_SPACE_LOCAL);                      \
    return ok ? i + 1 : NULL;                                                 \
  }
GENERIC(ld_generic, load_from)
GENERIC(st_generic, store_to)

/* Parameters of the kernel at a constant offset: one value for all lanes. */
SIM_DEF(ld_param) {
  const sim_launch_t *launch = w->cta->launch;
  for (uint32_t e = 0; e < i->lanes; e++) {
    uint32_t row = sim_element_row(w, i, e);
    uint64_t raw =
        sim_load_raw(launch->params + i->imm + e * i->bytes, i->bytes);
    for (uint32_t l = 0; l < 32; l++) {
      if (SIM_BIT(m)) sim_put_element(w, i, row, l, raw);
    }
    if (w->is_tainted && (row & 3u) != SIM_ROW_NONE) {
      for (uint32_t l = 0; l < 32; l++)
        if (SIM_BIT(m)) sim_shadow(w, row & ~3u)[l] = 0;
    }
  }
  return i + 1;
}
