/* CTAs of a cluster: addresses of each other's shared memory, and the barrier
   that they share. One host thread runs all CTAs of a cluster, so nothing
   here needs a lock. */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include "runtime/simgpu/warp.h"

/* A shared address is `(rank + 1) << 24 | offset`; a number below 1 << 24
   means the executing CTA. Offsets count from the start of the CTA's shared
   memory, the system's reserve included, as sim_cta_t.shared does. */
#define SIM_RANK_SHIFT  24u
#define SIM_OFFSET_MASK UINT32_C(0xFFFFFF)

static inline uint32_t sim_cluster_address(uint32_t rank, uint32_t offset) {
  return (rank + 1) << SIM_RANK_SHIFT | (offset & SIM_OFFSET_MASK);
}

/* The CTA a shared::cluster address names and the offset there; NULL if the
   cluster has none of that rank. The caller judges the offset, and whether
   the CTA still runs (sim_cluster_is_gone). */
sim_cta_t *sim_cluster_resolve(const sim_cta_t *self, uint64_t address,
                               uint32_t *offset);

static inline bool sim_cluster_is_gone(const sim_cta_t *cta) {
  return cta->done == cta->warp_count;
}

/* Remembers that the warp touched another CTA's shared memory: that CTA must
   not end before it has heard of the access. */
static inline void sim_cluster_touch(const sim_warp_t *w, sim_cta_t *cta) {
  cta->remote[w->agent] = w->clocks[w->agent];
}

/* barrier.cluster: lanes of m arrive; false if a finding ended the launch. */
bool sim_cluster_arrive(sim_warp_t *w, const sim_ins_t *ins, uint32_t m,
                        bool is_release);
/* Lanes of m wait: the next instruction, or NULL if the warp blocks (it then
   executes this one again) or the launch ended. */
const sim_ins_t *sim_cluster_wait(sim_warp_t *w, const sim_ins_t *ins,
                                  uint32_t m);
/* Lanes of a warp exit, or the CTA's last warp has: others may go on now,
   and remote accesses must be over. */
bool sim_cluster_exit(sim_warp_t *w, const sim_ins_t *ins, uint32_t m);

#endif
