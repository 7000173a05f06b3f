/* Shared memory in which ranks of a communicator meet that live in several
   processes. Its name follows from the unique id, only its owner may open it,
   and it is gone from the file system as soon as all ranks are there, so that
   nothing is left behind however they end. Each rank holds a lock of the file
   system on a byte of its own: that is how others see it die.

   Every word has one writer, its rank; nothing is ever locked while ranks
   work, and no process can leave another one waiting for a lock. A rank tells
   its parts (sim_part_t) in a ring of entries, in order of queueing. What it
   sends lies in its own area of the file and goes when every reader has said
   that it is through. All that is read from others is checked: it is another
   process's, and may be anything. Guarded by the driver's lock. */
#ifndef SIM_SHM_H
#define SIM_SHM_H

#include "runtime/coll/nccl_types.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_SHM_RANKS   16u
#define SIM_SHM_ENTRIES 256u

/* What a rank says of a part; whole words, since they are copied so. */
enum { SIM_SHM_ALL, SIM_SHM_SEND, SIM_SHM_RECV };

typedef struct sim_shm_part_t {
  uint64_t kind; /* SIM_SHM_*: whom it meets */
  uint64_t op, dtype, fold, fold_bits, peer, count, number;
  uint64_t is_captured;
  uint64_t is_entered;    /* all before it is done, its bytes lie here: */
  uint64_t offset, bytes; /* in the rank's area */
  /* while it is not: what it waits behind. The key of a communicator, the
     rank there, and which part; key 0: none. */
  uint64_t held_key, held_rank, held_kind, held_peer, held_number;
} sim_shm_part_t;

typedef struct sim_shm_t sim_shm_t;

/* Opens or makes the memory of an id for `size` ranks: a result of the
   library, and unless it is 0 *why in words. COLL_NCCL_INTERNAL_ERROR: there
   is no shared memory here. */
int sim_shm_open(const coll_nccl_id_t *id, uint32_t size, sim_shm_t **out,
                 const char **why);
/* Gives back what the process has of it; its ranks that have not left will be
   seen to have died. */
void sim_shm_close(sim_shm_t *shm);
/* The process has this rank: COLL_NCCL_INVALID_USAGE if a living one is there
   already. */
int sim_shm_claim(sim_shm_t *shm, uint32_t rank, uint32_t device);
/* The rank ends; what it has said and sent stays. */
void sim_shm_leave(sim_shm_t *shm, uint32_t rank);
bool sim_shm_is_own(const sim_shm_t *shm, uint32_t rank);
bool sim_shm_is_here(const sim_shm_t *shm, uint32_t rank);
/* It left, or its process died. */
bool sim_shm_is_gone(const sim_shm_t *shm, uint32_t rank);
uint32_t sim_shm_device(const sim_shm_t *shm, uint32_t rank);
/* All ranks are there; then the name goes. */
bool sim_shm_is_ready(sim_shm_t *shm);
/* The same for all ids of a communicator; never 0. */
uint64_t sim_shm_key(const sim_shm_t *shm);

/* An own rank has found that nothing goes on any more: why, not 0. And who of
   all ranks has, 0 if nobody. */
void sim_shm_break(sim_shm_t *shm, uint32_t rank, uint32_t why);
uint32_t sim_shm_broken(const sim_shm_t *shm, uint32_t *rank);

/* -- splits: the n-th of the communicator, from 1 -- */
void sim_shm_split(sim_shm_t *shm, uint32_t rank, uint64_t n, int color,
                   int key);
/* False if the rank has not called it yet. */
bool sim_shm_split_of(const sim_shm_t *shm, uint32_t rank, uint64_t n,
                      int *color, int *key);

/* -- parts of own ranks -- */
/* A new entry: its number from 1, or 0 while the ring is full or parts that
   were queued before have none. `is_late`: of a part that got 0 when it was
   queued and is to run now. */
uint64_t sim_shm_publish(sim_shm_t *shm, uint32_t rank,
                         const sim_shm_part_t *part, bool is_late);
/* The entry as it was published or updated last. */
sim_shm_part_t *sim_shm_own(sim_shm_t *shm, uint32_t rank, uint64_t entry);
/* Tells others that *sim_shm_own has changed. */
void sim_shm_update(sim_shm_t *shm, uint32_t rank, uint64_t entry);
/* Where the entry's bytes are to be written, until sim_shm_unmap; NULL if the
   host has no room. */
uint8_t *sim_shm_put(sim_shm_t *shm, uint32_t rank, uint64_t entry,
                     uint64_t bytes);
/* The entry's part is carried out: others need it no longer than they read. */
void sim_shm_done(sim_shm_t *shm, uint32_t rank, uint64_t entry);
/* The own rank has carried out all collectives below the number, all receives
   from a rank below it. */
void sim_shm_set_collectives(sim_shm_t *shm, uint32_t rank, uint64_t number);
void sim_shm_set_received(sim_shm_t *shm, uint32_t rank, uint32_t from,
                          uint64_t number);

/* -- parts of any rank -- */
typedef bool (*sim_shm_test_t)(const sim_shm_part_t *part, const void *arg);
/* The first entry that passes; false if there is none. */
bool sim_shm_find(const sim_shm_t *shm, uint32_t rank, sim_shm_test_t test,
                  const void *arg, sim_shm_part_t *out);
uint64_t sim_shm_collectives(const sim_shm_t *shm, uint32_t rank);
uint64_t sim_shm_received(const sim_shm_t *shm, uint32_t rank,
                          uint32_t from);
/* The bytes of an entered part; NULL if they are not what it says. */
const uint8_t *sim_shm_map(const sim_shm_t *shm, uint32_t rank,
                           const sim_shm_part_t *part, uint64_t bytes);
void sim_shm_unmap(const void *bytes, uint64_t count);

#endif
