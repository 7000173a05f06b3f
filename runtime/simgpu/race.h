/* Barriers of a block and the order they make: which access to shared memory
   comes before which. Each warp has a clock and knows how far it has heard of
   every other warp; a barrier joins that knowledge. An access is a race if it
   conflicts with an earlier one that its warp has not heard of, even when the
   values came out right this time. */
#ifndef SIM_RACE_H
#define SIM_RACE_H

#include "runtime/simgpu/warp.h"

/* Where all barriers are of the whole CTA, whatever lies before the last one
   is ordered, and a word needs one number: who touched it since.

     bits  0-17 code index of the access, 18 atomic, 19 write,
           20-23 bytes, 24-29 lane (32: several), 30-35 warp (62: several),
           36-43 clock of bar.warp.sync, 44-63 stamp of the barrier

   A stamp that is not the CTA's makes the number void. */
#define SIM_TAG_MANY_LANES 32u
#define SIM_TAG_MANY_WARPS 62u
#define SIM_STAMPS         (1u << 20)

static inline uint64_t sim_tag(const sim_warp_t *w, uint32_t line,
                               uint32_t lane, uint32_t bytes, bool is_write,
                               bool is_atomic) {
  return (line < 0x3FFFF ? line : 0x3FFFF) | (uint64_t)is_atomic << 18 |
         (uint64_t)is_write << 19 | (uint64_t)bytes << 20 |
         (uint64_t)lane << 24 | (uint64_t)w->id << 30 |
         (uint64_t)(w->sync_clock & 255) << 36 |
         (uint64_t)w->cta->stamp << 44;
}

/* Judges a conflict, or joins two accesses that agree; `now` is the new
   access's tag. False if a finding ended the launch. */
bool sim_tag_meet(sim_warp_t *w, const sim_ins_t *ins, uint64_t *tag,
                  uint64_t now, uint32_t lane, uint32_t offset,
                  uint32_t size);

/* What is remembered of a 4-byte word in kernels with partial barriers,
   clusters or asynchronous copies. An agent that reads is a warp of the
   cluster: rank * warps of a CTA + warp; one that writes may be an mbarrier,
   see sim_cta_t.agent_count. */
struct sim_race_word_t {
  uint32_t generation;    /* of the CTA that wrote this record */
  uint32_t write_clock;   /* of the last writer; 0: none */
  uint32_t write_sync;    /* its bar.warp.sync clock */
  uint32_t write_line;    /* code index of the store */
  uint16_t write_agent;
  uint8_t write_lane;
  uint8_t write_bytes;    /* mask */
  uint32_t read_clock;    /* of the last reader, 0: none since the write */
  uint32_t read_sync;
  uint32_t read_line;
  uint16_t read_agent;
  uint8_t read_lane;      /* 32: several lanes of that warp */
  uint8_t read_bytes;     /* of all readers */
  uint32_t read_vector;   /* clocks of all that read unordered, 0: one did */
  uint32_t read_epoch;    /* of the whole CTA when they did */
  uint32_t serial;        /* of the instruction that wrote last */
  uint8_t write_strength; /* SIM_STRONG_* of the last write */
  uint8_t flag_strength;  /* and of the last strong read, which is kept */
  uint8_t flag_bytes;     /* apart: it conflicts with weaker writes only */
  bool is_async;          /* the last write was of the async proxy */
  uint16_t flag_agent;
  uint32_t flag_clock, flag_line;
};

/* Joins barrier id; waits if `waits`. Returns the next instruction, NULL if
   the warp blocks or the launch ended. count 0: all threads of the CTA. */
const sim_ins_t *sim_barrier_join(sim_warp_t *w, const sim_ins_t *ins,
                                  uint32_t id, uint32_t count, uint8_t kind,
                                  bool waits);
/* bar.red: adds predicates p of the lanes of m, before they join. */
void sim_barrier_add(sim_barrier_t *b, const sim_ins_t *ins, uint32_t p,
                     uint32_t m);
/* Puts the reduction of a barrier that is complete into the lanes of m of a
   warp, if the instruction is a bar.red. */
void sim_barrier_deliver(sim_warp_t *w, const sim_ins_t *ins, uint32_t value,
                         uint32_t m);
/* A warp has exited: barriers of the whole CTA may be complete now. */
void sim_barrier_exit(sim_warp_t *w);

/* All that went before is ordered: tags of the CTA become void. */
void sim_new_stamp(sim_cta_t *cta);

/* bar.warp.sync: what lanes of the warp did before is ordered among them. The
   clock of a tag comes round after 256 of them, and an old tag would look like
   one of now; so its lane, which is ordered anyway, is forgotten by then. */
void sim_warp_tick(sim_warp_t *w);

/* A CTA starts: its vectors are void. */
void sim_race_restart(sim_cta_t *cta);

enum {
  SIM_RACE_WRITE = 1,
  SIM_RACE_ATOMIC = 2,
  SIM_RACE_ASYNC = 4, /* through the async proxy */
  SIM_RACE_JUDGE = 8  /* leave no record */
};

/* Judges an access of one lane to shared memory of a CTA of the warp's
   cluster that keeps records (cta->races), and remembers it; flags of the
   enum above. False if a finding ended the launch. */
bool sim_race_access(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                     uint32_t lane, uint32_t offset, uint32_t bytes,
                     unsigned flags);

/* A write that an agent completes at a time of its own: whoever has not heard
   of that time must not touch the bytes. */
typedef struct sim_stamp_t {
  uint32_t clock, sync, line, serial;
  uint16_t agent;
  uint8_t lane; /* 32: of no thread */
  bool is_async, is_atomic;
} sim_stamp_t;

/* Remembers such a write without judging it. */
void sim_race_stamp(sim_cta_t *cta, uint32_t offset, uint32_t bytes,
                    const sim_stamp_t *stamp);

/* Remembers that an agent reads until its clock, without judging: whoever has
   not heard of that time must not write there. */
void sim_race_read_by(sim_cta_t *cta, uint32_t offset, uint32_t bytes,
                      uint32_t agent, uint32_t clock, uint32_t line);

/* Who wrote some bytes last, and when at the latest: what a reader of all of
   them must have heard of. Only of CTAs that keep records. */
#define SIM_MAX_WRITERS 8u
typedef struct sim_writers_t {
  uint32_t count; /* above SIM_MAX_WRITERS: there were more */
  struct {
    uint32_t clock;
    uint16_t agent;
    bool is_async;
  } list[SIM_MAX_WRITERS];
} sim_writers_t;

/* Adds the writers of the words that the bytes lie in. */
void sim_race_writers(const sim_cta_t *cta, uint32_t offset, uint32_t bytes,
                      sim_writers_t *out);
/* True if the warp, reading through the async proxy, comes after all of them;
   false if it does not or a closer look is needed. */
bool sim_race_heard(const sim_warp_t *w, const sim_cta_t *cta,
                    const sim_writers_t *writers);

/* Adds what another clock knows. */
static inline void sim_learn(uint32_t *mine, const uint32_t *theirs,
                             uint32_t count) {
  for (uint32_t k = 0; k < count; k++)
    mine[k] = theirs[k] > mine[k] ? theirs[k] : mine[k];
}

#endif
