/* Flags between the warps of a CTA or cluster: accesses that release and
   acquire, or relaxed ones beside fences, order what lies around them. Only
   kernels that have such accesses to shared memory (or to generic addresses)
   keep this; order between CTAs is in sync.h.

     release, or a fence and then a strong write    gives the warp's clock
     acquire, or a strong read and then a fence     takes it

   A warp gives and takes as a whole. A fence counts as one of the cluster,
   whatever its scope. */
#ifndef SIM_FLAGS_H
#define SIM_FLAGS_H

#include "runtime/simgpu/places.h"
#include "runtime/simgpu/warp.h"

/* How an access takes part: two conflicting ones are no race if both are
   strong and their scopes include each other's thread. */
enum {
  SIM_STRONG = 1,      /* volatile too */
  SIM_STRONG_LANE = 2, /* even between lanes of one warp: not volatile */
  SIM_STRONG_WIDE = 4, /* of a scope wider than the CTA */
  SIM_STRONG_ALL = 7
};

static inline unsigned sim_strength(const sim_ins_t *ins, bool is_atomic) {
  if (!is_atomic && !(ins->mods & SIM_MOD_STRONG)) return 0;
  return SIM_STRONG | (ins->mods & SIM_MOD_VOLATILE ? 0 : SIM_STRONG_LANE) |
         (ins->mods & SIM_MOD_CTA_SCOPE ? 0 : SIM_STRONG_WIDE);
}

/* Names of places: words of shared memory by the CTA's rank, and of global
   memory. */
static inline uint64_t sim_flag_shared(uint32_t rank, uint64_t offset) {
  return UINT64_C(1) << 63 | (uint64_t)rank << 32 | offset >> 2;
}
static inline uint64_t sim_flag_global(uint64_t address) {
  return address >> 2;
}

/* Clocks go through a place, before the access is judged. kind: 'r' read, 'w'
   write, 'a' both. True if the warp gave its clock away: sim_flag_given then
   ends the time it stands for, once the access is remembered. */
bool sim_flag_access(sim_warp_t *w, const sim_ins_t *ins, uint64_t place,
                     char kind);
static inline void sim_flag_given(sim_warp_t *w) {
  w->clocks[w->agent]++;
}

/* fence, membar. */
void sim_flag_fence(sim_warp_t *w);

#endif
