/* Programmatic dependent launch, as a kernel sees it. A launch may begin
   before those it depends on have completed; griddepcontrol.wait is where they
   have. What a block touches before is early: it runs beside them. A warp is
   past the wait if it executed it, or if a barrier, an mbarrier or a flag has
   told it of one that did.

   A held launch stops at its waits, so that what lies before really runs
   before the launch that it depends on. */
#ifndef SIM_DEPEND_H
#define SIM_DEPEND_H

#include "runtime/simgpu/warp.h"

/* griddepcontrol.wait: false if the warp must stop here. */
bool sim_depend_wait(sim_warp_t *w);
/* griddepcontrol.launch_dependents. */
void sim_depend_trigger(sim_warp_t *w);
/* Not yet past a wait: the question of a launch that has_early. */
bool sim_depend_is_early(sim_warp_t *w);

/* True if what the warp touches now is early. */
static inline bool sim_is_early(sim_warp_t *w, const sim_launch_t *launch) {
  return launch->has_early && !w->is_late && sim_depend_is_early(w);
}

/* What a held launch has noted in allocations, put aside while another one
   runs: sectors, entries of the cache, bytes touched. */
typedef struct sim_aside_t {
  sim_alloc_t *alloc;
  sim_sector_t *sectors;
  uint32_t *l2;
  uint64_t *touched[SIM_TOUCHES];
  uint64_t unique[2];
} sim_aside_t;

/* Takes all of it out of the allocations: malloc'd, *count of them; NULL if
   there is none or no memory (then it is forgotten). */
sim_aside_t *sim_aside_take(sim_memory_t *memory, size_t *count);
/* Puts it back in place of what the other launch noted, and frees the list. */
void sim_aside_give(sim_memory_t *memory, sim_aside_t *list, size_t count);

#endif
