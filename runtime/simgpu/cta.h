/* One block of a launch: its memory, which a worker keeps and uses for one
   block after another, and how it starts. */
#ifndef SIM_CTA_H
#define SIM_CTA_H

#include "runtime/simgpu/warp.h"

/* CTAs of a cluster. */
static inline uint32_t sim_cluster_size(const sim_launch_t *launch) {
  return launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
}

/* What one costs the host. */
uint64_t sim_cta_bytes(const sim_launch_t *launch);
/* NULL without memory. */
sim_cta_t *sim_cta_new(sim_worker_t *worker);
void sim_cta_free(sim_cta_t *cta);

/* Makes it the block of that number: registers, shared memory, clocks as at
   the beginning. is_first: its memory was never used. */
void sim_cta_start(sim_cta_t *cta, uint64_t linear, bool is_first);

#endif
