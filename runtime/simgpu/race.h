/* Barriers of a block and the order they make: which access to shared memory
   comes before which. Each warp has a clock and knows how far it has heard of
   every other warp; a barrier joins that knowledge. An access is a race if it
   conflicts with an earlier one that its warp has not heard of, even when the
   values came out right this time. */
#ifndef SIM_RACE_H
#define SIM_RACE_H

#include "runtime/simgpu/warp.h"

/* What is remembered of a 4-byte word. */
struct sim_race_word_t {
  uint32_t generation;    /* of the CTA that wrote this record */
  uint32_t write_clock;   /* of the last writer; 0: none */
  uint32_t write_sync;    /* its bar.warp.sync clock */
  uint32_t write_line;    /* code index of the store */
  uint16_t write_warp;
  uint8_t write_lane;
  uint8_t write_bytes;    /* mask */
  uint32_t read_clock;    /* of the last reader, 0: none since the write */
  uint32_t read_sync;
  uint32_t read_line;
  uint16_t read_warp;
  uint8_t read_lane;      /* 32: several lanes of that warp */
  uint8_t read_bytes;     /* of all readers */
  uint64_t readers;       /* warps that read since the write */
  uint32_t read_epoch;    /* of the whole CTA when they did */
  uint32_t serial;        /* of the instruction that wrote last */
  bool is_atomic;         /* the last write was an atomic operation */
};

/* Joins barrier id; waits if `waits`. Returns the next instruction, NULL if
   the warp blocks or the launch ended. count 0: all threads of the CTA. */
const sim_ins_t *sim_barrier_join(sim_warp_t *w, const sim_ins_t *ins,
                                  uint32_t id, uint32_t count, uint8_t kind,
                                  bool waits);
/* A warp has exited: barriers of the whole CTA may be complete now. */
void sim_barrier_exit(sim_warp_t *w);

/* Judges an access of one lane to shared memory of the CTA; bytes <= 16,
   aligned. False if a finding ended the launch. */
bool sim_race_access(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                     uint32_t offset, uint32_t bytes, bool is_write,
                     bool is_atomic);

#endif
