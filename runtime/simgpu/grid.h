/* Runs a launch: blocks on the host's threads, warps in a seeded order. */
#ifndef SIM_GRID_H
#define SIM_GRID_H

#include "runtime/simgpu/warp.h"

/* Counters of one finished launch. */
typedef struct sim_totals_t {
  uint64_t counters[SIM_COUNTER_COUNT];
  uint64_t mix[SIM_CLASS_COUNT];
  sim_line_t *lines; /* malloc'd, by code index; NULL if not asked for */
} sim_totals_t;

/* Fills shared_start, dynamic_start, shared_end from the kernel, the dynamic
   size and the seed: user shared memory starts at any offset that the
   declared alignments allow. */
void sim_launch_layout(sim_launch_t *launch);

/* Takes what the launch needs: false without memory. Then it goes, a held one
   until its blocks wait and, no longer held, once more; and it ends, with its
   result in launch->result: 0, or what a finding gave. What was begun is to be
   ended, whether or not it went. */
bool sim_launch_begin(sim_launch_t *launch);
void sim_launch_go(sim_launch_t *launch);
void sim_launch_end(sim_launch_t *launch, sim_totals_t *out);

/* The next number of a seeded sequence (splitmix64). */
uint64_t sim_random(uint64_t *state);

#endif
