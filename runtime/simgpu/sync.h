/* What is ordered between blocks that talk through global memory. A CTA is
   one agent: it has a clock of how far it has heard of every other CTA.
   Locations that strong or atomic operations use carry clocks from who
   releases to who acquires:

     release (or a fence, then a strong or atomic write)   gives the clock
     acquire (or a strong or atomic read, then a fence)    takes it

   Two customs are no races though the rules of PTX call them so: volatile
   reads of what a relaxed read has announced (the last block of a reduction),
   and the ordinary read that begins a loop of compare-and-swap.

   An access that conflicts with one it has not heard of is a race, even when
   this schedule brought right values. Kernels with more than SIM_SYNC_CTAS
   blocks are not judged. */
#ifndef SIM_SYNC_H
#define SIM_SYNC_H

#include "runtime/simgpu/sectors.h"

#define SIM_SYNC_CTAS 2048u

struct sim_sync_t;

/* NULL if the kernel is not judged; freed after the launch. */
struct sim_sync_t *sim_sync_new(sim_launch_t *launch);
void sim_sync_free(struct sim_sync_t *sync);

/* fence, membar at a scope of the device or wider. */
void sim_sync_fence(sim_warp_t *w);
/* Judges bytes of a sector and remembers them; false if a finding ended the
   launch. flags: SIM_TOUCH_*. */
bool sim_sync_touch(sim_warp_t *w, const sim_ins_t *ins, uint64_t sector,
                    uint32_t bytes, unsigned flags, uint32_t lane);

#endif
