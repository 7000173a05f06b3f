/* Warpgroups: four warps, the first a multiple of four, whose mma_async
   instructions form one queue. An entry exists from the first warp that
   issues it until all four have waited for its group; it is carried out for
   the four together, once all have issued it: at the wait (late), at once, or
   at a seeded moment in between. */
#ifndef SIM_WGMMA_H
#define SIM_WGMMA_H

#include "runtime/simgpu/race.h"

#define SIM_GROUP_WARPS 4u
#define SIM_ALL_WARPS   15u
#define SIM_NO_COMMIT   UINT32_MAX

/* A matrix descriptor, taken apart. Offsets in bytes. */
typedef struct sim_matrix_t {
  uint32_t start, lbo, sbo;
  uint32_t base;  /* pattern start >> 7, bits 0-2 */
  uint32_t width; /* of the swizzle, 0: none */
  bool is_mn;     /* M or N runs fastest, else K */
} sim_matrix_t;

/* Bits of sim_ins_t.imm of mma_async. */
#define SIM_WGMMA_N(imm)      ((uint32_t)(imm) & 0xFFFu)
#define SIM_WGMMA_K(imm)      ((uint32_t)((imm) >> 12) & 0xFFFu)
#define SIM_WGMMA_NEG_A       (UINT64_C(1) << 24)
#define SIM_WGMMA_NEG_B       (UINT64_C(1) << 25)
#define SIM_WGMMA_TRANS_A     (UINT64_C(1) << 26)
#define SIM_WGMMA_TRANS_B     (UINT64_C(1) << 27)
#define SIM_WGMMA_REGISTERS   (UINT64_C(1) << 28) /* A in registers */

typedef struct sim_wgmma_t {
  const sim_ins_t *ins;
  uint64_t a, b;   /* descriptors */
  uint32_t group;  /* number of its commit, or SIM_NO_COMMIT */
  uint8_t arrived; /* warps that have issued it, a bit each */
  bool adds;       /* scale-d */
  bool is_done;
  sim_writers_t writers; /* of B, when the first warp issued it */
} sim_wgmma_t;

struct sim_group_t {
  sim_cta_t *cta;
  uint32_t first;       /* number of its first warp */
  sim_wgmma_t *ops;     /* [0] is number `base` of the warpgroup */
  uint32_t base, count, capacity;
  uint32_t issued[SIM_GROUP_WARPS];    /* by each warp so far */
  uint32_t committed[SIM_GROUP_WARPS]; /* of those */
  uint32_t commits[SIM_GROUP_WARPS];   /* groups */
  uint8_t waiting;      /* warps that wait for the others */
  uint32_t clock;       /* waits so far: its time as a reader */
  uint32_t target[SIM_GROUP_WARPS]; /* groups below it must be complete */
  /* By register row: who touched it since the last fence (SIM_TOUCHED, or the
     shape of an mma_async), and what is pending. */
  uint16_t *touched[SIM_GROUP_WARPS];
  uint8_t *pending[SIM_GROUP_WARPS];
  /* setmaxnreg */
  uint32_t changes[SIM_GROUP_WARPS]; /* executed */
  uint32_t registers[SIM_GROUP_WARPS];
};

#define SIM_TOUCHED   1u
#define SIM_PENDING_D 1u
#define SIM_PENDING_A 2u

/* Carries one entry out for all four warps; false if the launch ended. */
typedef bool (*sim_wgmma_run_t)(sim_group_t *g, const sim_wgmma_t *op);

/* Of a CTA whose kernel has warpgroup instructions: allocates its groups;
   false if the host has no memory. */
bool sim_groups_new(sim_cta_t *cta);
void sim_groups_free(sim_cta_t *cta);
void sim_groups_start(sim_cta_t *cta);
/* A warp has ended: nothing of it may be pending. */
bool sim_group_exit(sim_warp_t *w);

/* The warp's group if all lanes of four warps are there; NULL with a finding
   otherwise (and w->ip NULL if the launch ended). */
sim_group_t *sim_group_of(sim_warp_t *w, const sim_ins_t *ins, uint32_t m);

/* wgmma.fence, mma_async, commit_group. False if the launch ended. */
bool sim_wgmma_fence(sim_warp_t *w, sim_group_t *g);
bool sim_wgmma_issue(sim_warp_t *w, sim_group_t *g, const sim_ins_t *ins,
                     sim_wgmma_run_t run);
bool sim_wgmma_commit(sim_warp_t *w, sim_group_t *g, const sim_ins_t *ins,
                      sim_wgmma_run_t run);
/* wait_group n: the next instruction, or NULL if the warp blocks. */
const sim_ins_t *sim_wgmma_wait(sim_warp_t *w, sim_group_t *g,
                                const sim_ins_t *ins, uint32_t n,
                                sim_wgmma_run_t run);
/* setmaxnreg */
const sim_ins_t *sim_group_registers(sim_warp_t *w, sim_group_t *g,
                                     const sim_ins_t *ins);

/* An ordinary instruction that touches registers of some mma_async. False if
   the launch ended. */
bool sim_wgmma_touch(sim_warp_t *w, const sim_ins_t *ins);

/* A write to words that a pending mma_async may still read: the finding. */
bool sim_wgmma_touched(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                       uint32_t lane, uint32_t offset, uint32_t bytes);

/* -- operands in shared memory, wgmma_operands.c -- */

sim_matrix_t sim_wgmma_matrix(uint64_t descriptor, bool is_mn);
/* Offset of a piece. A matrix of R rows (of M or N), each of 32 bytes along K,
   is 2 R pieces of 16 bytes: of a row if K runs fastest (piece n: row n / 2,
   half n % 2), else of eight rows at one k (rows 8 (n / 16) on, k n % 16). */
uint32_t sim_wgmma_piece(const sim_matrix_t *m, uint32_t n);
/* The given rows, 32 bytes each, and whether each is wholly defined. Bytes
   outside shared memory read as poison. */
void sim_wgmma_read(const sim_cta_t *cta, const sim_matrix_t *m,
                    uint32_t first, uint32_t rows, uint8_t *out,
                    bool *is_undefined);
/* Judges bounds, and order after the writes, of the pieces of some rows. The
   first warp looks at every piece and leaves in *writers whom the others,
   too, must have heard of. False if the launch ended. */
bool sim_wgmma_judge(sim_warp_t *w, const sim_ins_t *ins,
                     const sim_matrix_t *m, char name, uint32_t first,
                     uint32_t rows, bool is_first, sim_writers_t *writers);
/* The matrices in shared memory of an entry, one or two; how many. */
uint32_t sim_wgmma_matrices(const sim_wgmma_t *op, sim_matrix_t out[2],
                            uint32_t rows[2]);
/* Their words are in use, or no longer. */
void sim_wgmma_mark(sim_cta_t *cta, const sim_wgmma_t *op, bool is_used);

#endif
