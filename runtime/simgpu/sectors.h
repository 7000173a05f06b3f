/* What a launch does to each 32-byte sector of global memory: which bytes are
   read and written, and by which CTA. From it come the counters of distinct
   sectors, races between CTAs and reads through the read-only path of what
   the launch writes.

   As long as one CTA uses a sector, or all only read it, 16 bytes say
   everything; when several use it and one writes, a record by byte is made.
   CTAs of a cluster count as one: its barrier may order them. Where blocks
   talk through global memory, sync.h says what is ordered. */
#ifndef SIM_SECTORS_H
#define SIM_SECTORS_H

#include "runtime/simgpu/warp.h"

enum {
  SIM_TOUCH_READ = 1,
  SIM_TOUCH_WRITE = 2,
  SIM_TOUCH_ATOMIC = 4, /* with WRITE */
  SIM_TOUCH_NC = 8,     /* with READ */
  SIM_TOUCH_STRONG = 16 /* volatile, relaxed, acquire or release */
};

/* Before a launch: what the one before left is void. */
void sim_sectors_begin(sim_launch_t *launch);
/* After it: frees the records by byte. */
void sim_sectors_end(sim_launch_t *launch);

/* Touches the bytes address .. address + bytes of one allocation. lane: to
   name in a report, 32 for several. False if a finding ended the launch. */
bool sim_sectors_run(sim_warp_t *w, const sim_ins_t *ins, sim_alloc_t *a,
                     uint64_t address, uint64_t bytes, unsigned flags,
                     uint32_t lane);
/* Touches count sectors, at distances from that of address, some bytes of
   each. */
bool sim_sectors_some(sim_warp_t *w, const sim_ins_t *ins, sim_alloc_t *a,
                      uint64_t address, const int32_t *sector,
                      const uint32_t *bytes, uint32_t count, unsigned flags);

/* What an instruction does, from its modifiers; kind as sim_touch's. */
static inline unsigned sim_touch_flags(const sim_ins_t *ins, char kind) {
  unsigned out = kind == 'r'   ? SIM_TOUCH_READ
                 : kind == 'w' ? SIM_TOUCH_WRITE
                               : SIM_TOUCH_WRITE | SIM_TOUCH_ATOMIC;
  if (ins->mods & SIM_MOD_NC) out |= SIM_TOUCH_NC;
  if (ins->mods & SIM_MOD_STRONG) out |= SIM_TOUCH_STRONG;
  return out;
}

#endif
