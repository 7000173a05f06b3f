/* diverge:its, independent thread scheduling: the lanes of a warp are a list
   of strands, each with a place in the code of its own, and one runs at a
   time. They part at branches and come together only where a .sync
   instruction makes them, so that nothing may be built on meeting elsewhere.

     which runs    the one whose place is smallest; of several at one place,
                   one drawn by the seed. After a branch backwards or a wait
                   that failed, the one that has not run for longest, so that
                   lanes may wait for one another.
     .sync         waits for the lanes that its mask names and that have not
                   exited; those who come with the same mask go on as one.
     .aligned,     wait for all lanes of the warp. A lane that can no longer
     matrices      come is a fault: it waits elsewhere, or exits.
     barriers      without .aligned are joined lane by lane.

   If nobody can run and some wait for lanes of their own warp, the first of
   them is executed with whoever is there, and its own checks report who is
   missing. Calls return lane by lane, so strands need no stack. */
#ifndef SIM_ITS_H
#define SIM_ITS_H

#include "runtime/simgpu/warp.h"

typedef enum sim_strand_state_t {
  SIM_STRAND_READY,
  SIM_STRAND_SPUN,    /* a wait failed: others first, then again */
  SIM_STRAND_SYNC,    /* waits for lanes at the instruction at its place */
  SIM_STRAND_BARRIER, /* at a barrier without .aligned; place: behind it */
  SIM_STRAND_CLUSTER  /* likewise of the cluster; place: the wait */
} sim_strand_state_t;

typedef struct sim_strand_t {
  uint32_t at;    /* code index of its next instruction */
  uint32_t mask;  /* lanes; no two strands share one */
  uint64_t ran;   /* turn in which it began to run last */
  uint8_t state;
  uint8_t barrier;
  bool is_forced; /* the .sync instruction there waits no longer */
  const sim_mbar_t *waits_for; /* if SPUN, for an mbarrier */
} sim_strand_t;

struct sim_its_t {
  sim_strand_t strands[32];
  uint32_t count;
  uint32_t now;       /* of the one that runs, or ran last */
  uint64_t turn;
  bool is_chosen;     /* `now` was just chosen: not weighed again */
  /* Barriers without .aligned that some lanes have joined. */
  uint32_t joined[SIM_BARRIERS];
  uint32_t votes[SIM_BARRIERS]; /* bar.red: predicates of these */
  uint32_t joins[SIM_BARRIERS]; /* code index of the last join */
  /* Call stack of each lane: code indices of the calls. */
  uint8_t depth[32];
  uint32_t calls[SIM_MAX_CALLS][32];
};

/* All lanes at the entry. */
void sim_its_start(sim_warp_t *w);
/* As sim_warp_run. */
void sim_its_run(sim_warp_t *w);
/* Barrier id is complete: wakes strands that wait there and delivers. False
   if none does, because the warp waits as a whole. */
bool sim_its_release(sim_warp_t *w, uint32_t id, uint32_t reduction);

/* -- between its.c, which chooses and runs, and its_sync.c -- */

/* Lanes of the strand that runs become one of their own, ready at a place. */
void sim_its_part(sim_warp_t *w, uint32_t mask, uint32_t at);
/* The strand that runs takes over the lanes of another, which is gone. */
void sim_its_absorb(sim_warp_t *w, uint32_t other);

typedef enum sim_gather_t {
  SIM_GATHER_GO,   /* the instruction is executed now */
  SIM_GATHER_WAIT, /* the strand waits; another must run */
  SIM_GATHER_PAST, /* what there was to do is done: go on behind it */
  SIM_GATHER_LEFT, /* the same, but another must run */
  SIM_GATHER_END   /* a finding ended the launch */
} sim_gather_t;

/* The strand that runs is at an instruction with lanes *m under its guard; if
   lanes must be waited for there, it waits, or takes over those that waited,
   whose lanes are added to *m. */
sim_gather_t sim_its_gather(sim_warp_t *w, const sim_ins_t *ins, uint32_t *m);
/* Lanes are about to exit: a strand that waits for them at an instruction
   which wants the whole warp, now ready to say so; its number, or
   SIM_ITS_NOBODY. */
#define SIM_ITS_NOBODY UINT32_MAX
uint32_t sim_its_misses(sim_warp_t *w, uint32_t mask);
/* Lanes have exited: who waited for them alone goes on. False if a finding
   ended the launch. */
bool sim_its_exited(sim_warp_t *w);

#endif
