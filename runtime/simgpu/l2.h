/* The model of the second-level cache. Each CTA's stream of sectors is cut
   into steps of 64 KiB requested; the CTAs that are resident together (a
   wave) advance step by step, and what a step touches is fetched together.
   Between steps the cache holds the sectors used last; changed ones are
   written when they leave it, or at the end. A launch finds it empty.

   Inside a step nothing depends on the order of CTAs, so the figures are the
   same for every number of host threads. */
#ifndef SIM_L2_H
#define SIM_L2_H

#include "runtime/simgpu/warp.h"

/* A piece of a CTA's stream. */
typedef struct sim_l2_run_t {
  sim_alloc_t *alloc;
  uint32_t sector; /* from the allocation's first */
  uint16_t count;
  bool is_write;
} sim_l2_run_t;

/* Before and after a launch whose waves have `wave` CTAs; capacity in bytes.
   Without memory, or when a wave's streams are longer than SIM_L2_MAX_BYTES,
   the launch goes on without the model. */
#define SIM_L2_MAX_BYTES (UINT64_C(256) << 20)
void sim_l2_begin(sim_launch_t *launch, uint64_t wave);
/* Adds hbm.* and l2.* to the counters. */
void sim_l2_end(sim_launch_t *launch, uint64_t *counters);

/* The CTA requests count sectors from one on. */
void sim_l2_note(sim_cta_t *cta, sim_alloc_t *a, uint64_t sector,
                 uint32_t count, bool is_write);
/* The CTA, the n-th that the launch runs, has ended. */
void sim_l2_cta_end(sim_cta_t *cta, uint64_t n);

#endif
