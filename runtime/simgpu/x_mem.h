/* Accesses of a warp to memory, shared by loads, stores and atomics. */
#ifndef SIM_X_MEM_H
#define SIM_X_MEM_H

#include "runtime/simgpu/cluster.h"
#include "runtime/simgpu/count.h"
#include "runtime/simgpu/depend.h"
#include "runtime/simgpu/flags.h"
#include "runtime/simgpu/race.h"
#include "runtime/simgpu/x.h"

/* Where the lanes' bytes lie in the host, once bounds, alignment, state and
   right were judged. */
typedef struct sim_access_t {
  uint32_t mask;      /* lanes that may go on (a fault drops its lane) */
  uint32_t size;      /* bytes a lane */
  bool is_run;        /* lane l at base + (l - first) * size */
  bool is_same;       /* all lanes at one address */
  uint32_t first;     /* lowest lane of the mask */
  uint8_t *host[32];
  sim_alloc_t *alloc[32]; /* of global accesses */
  uint64_t offset[32];    /* in the allocation, or in shared or local memory */
  sim_cta_t *cta;         /* whose shared memory */
} sim_access_t;

/* The addresses of an instruction: the row at a plus the constant. */
static inline void sim_addresses(sim_warp_t *w, const sim_ins_t *i,
                                 uint64_t out[32]) {
  uint64_t plus = i->imm;
  if (sim_kind(i, 1) == SIM_ROW_64) {
    const sim_u64 *a = sim_row64(w, i->a);
    SIM_LANES out[l] = a[l] + plus;
  } else {
    const sim_u32 *a = sim_row(w, i->a);
    SIM_LANES out[l] = (uint32_t)(a[l] + (uint32_t)plus);
  }
}

/* False if the launch must end. kind: 'r' read, 'w' write, 'a' both. */
#define sim_global_access SIM_X(global_access)
bool sim_global_access(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                       const uint64_t address[32], uint32_t size, char kind,
                       sim_access_t *out);
#define sim_shared_access SIM_X(shared_access)
bool sim_shared_access(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                       const uint64_t address[32], uint32_t size, char kind,
                       sim_access_t *out);
#define sim_local_access SIM_X(local_access)
bool sim_local_access(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                      const uint64_t address[32], uint32_t size, char kind,
                      sim_access_t *out);

/* The lanes whose shared addresses lie in the CTA of the lowest one's: an
   access works on one CTA at a time. */
static inline uint32_t sim_one_cta(const sim_warp_t *w, uint32_t m,
                                   const uint64_t address[32]) {
  if (m == 0 || !w->cta->launch->kernel->has_cluster) return m;
  uint64_t cta = address[__builtin_ctz(m)] >> SIM_RANK_SHIFT;
  uint32_t out = 0;
  for (uint32_t l = 0; l < 32; l++)
    out |= (uint32_t)(SIM_BIT(m) && address[l] >> SIM_RANK_SHIFT == cta) << l;
  return out;
}

/* The pattern of the lanes of m (not 0) of an instruction that has a place for
   one: the one of last time if it still holds; NULL if it is not worth
   learning. */
#define sim_usual SIM_X(usual)
sim_pattern_t *sim_usual(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                         const uint64_t address[32], uint32_t size,
                         bool is_shared);

/* The usual loads and stores: a pattern that was seen before, nothing that
   could be reported. 1: done; 0: not usual, nothing has happened yet; -1: a
   finding ended the launch. */
#define sim_fast_shared SIM_X(fast_shared)
int sim_fast_shared(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                    const uint64_t address[32], bool is_write);
#define sim_fast_global SIM_X(fast_global)
int sim_fast_global(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                    const uint64_t address[32], bool is_write);

static inline uint64_t sim_load_raw(const uint8_t *p, uint32_t bytes) {
  uint64_t v = 0;
  switch (bytes) {
  case 1: return *p;
  case 2: {
    uint16_t x;
    memcpy(&x, p, 2);
    return x;
  }
  case 4: {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
  }
  default: memcpy(&v, p, 8); return v;
  }
}

/* The row of element e, and its class. */
static inline uint32_t sim_element_row(const sim_warp_t *w,
                                       const sim_ins_t *i, uint32_t e) {
  return i->lanes == 1 ? i->d | sim_kind(i, 0) : sim_list(w, i, e);
}

/* What was loaded into lane l of that row, widened. */
static inline void sim_put_element(sim_warp_t *w, const sim_ins_t *i,
                                   uint32_t row, uint32_t l, uint64_t raw) {
  unsigned bits = i->bytes * 8u;
  if ((i->mods & SIM_MOD_SIGNED) && bits < 64 && (raw >> (bits - 1) & 1))
    raw |= ~UINT64_C(0) << bits;
  if ((row & 3u) == SIM_ROW_64)
    sim_row64(w, row & ~3u)[l] = raw;
  else if ((row & 3u) == SIM_ROW_32)
    sim_row(w, row & ~3u)[l] =
        i->sub2 ? (uint32_t)raw & 0xFFFFu : (uint32_t)raw;
}

#endif
