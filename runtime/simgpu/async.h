/* What completes later: cp.async, bulk and tensor copies, and the mbarriers
   they report to. Each CTA keeps a ledger of operations that were issued and
   not yet observed; a destination is pending and a source in use until then,
   and touching either is a fault whatever the values are.

   When data really move is the mode's choice: at the last moment allowed, at
   once, or at a seeded moment in between. One host thread runs all CTAs of a
   cluster, so nothing here needs a lock, but for reductions into global
   memory. */
#ifndef SIM_ASYNC_H
#define SIM_ASYNC_H

#include "runtime/simgpu/cluster.h"
#include "runtime/simgpu/race.h"

/* Marks of a word of shared memory. */
enum {
  SIM_MARK_MBAR = 1,  /* belongs to an mbarrier */
  SIM_MARK_DEST = 2,  /* a copy writes it */
  SIM_MARK_SOURCE = 4, /* a copy reads it */
  SIM_MARK_OPERAND = 8 /* a wgmma reads it */
};

/* One cp.async of a warp. */
typedef struct sim_cp_t {
  const sim_ins_t *ins;
  uint32_t mask;  /* lanes whose copy nobody has observed */
  uint32_t moved; /* lanes whose data are there */
  uint32_t tied;  /* lanes whose copy an mbarrier hears of */
  uint32_t told;  /* lanes of which one has heard: their time is fixed, */
  uint32_t time[32]; /* as the warp's when it first tied the lane's copy */
  uint32_t size, serial, tick, delay;
  uint32_t group[32]; /* number of the lane's group */
  uint32_t dst[32];   /* offset in shared memory */
  uint8_t bytes[32];  /* read; the rest of size becomes zero */
  sim_alloc_t *alloc[32];
  uint64_t offset[32]; /* of the source in its allocation */
} sim_cp_t;

/* Of a warp. */
struct sim_lane_queues_t {
  sim_cp_t *ops;
  uint32_t count, capacity;
  uint32_t serial;           /* cp.async instructions so far */
  uint32_t commits[32];      /* groups that each lane has closed */
  uint32_t bulk_commits[32];
  uint32_t wait_tick;        /* of the last wait_group */
  /* a wait that could succeed fails a few times first */
  const void *stall_mbar;
  uint32_t stall_phase, stall_left;
};

/* cp.async.mbarrier.arrive: lanes that arrive once their copies are there. */
typedef struct sim_defer_t {
  sim_warp_t *warp;
  const sim_ins_t *ins;
  uint32_t mask, serial; /* copies with smaller serials */
  uint32_t clock, sync;  /* of the warp when it was issued */
  bool is_fired;
  uint32_t phase;        /* in which it fired */
  uint32_t *clocks;      /* what the warp knew */
} sim_defer_t;

struct sim_mbar_t {
  sim_cta_t *cta;
  uint32_t offset;
  bool is_live;
  uint16_t agent;
  uint32_t phase, expected, pending;
  int64_t tx;
  bool is_observed;     /* somebody waited for the phase before this one */
  uint32_t first_clock; /* phase p completes at first_clock + p + 1 */
  uint32_t init_agent, init_clock, init_sync, init_lane;
  uint32_t *joining;    /* what arrivals of this phase brought along */
  uint32_t *last;       /* the same of the phase before */
  TD_VEC(sim_defer_t) defers;
  uint32_t *seen;       /* by warp of its CTA: phases it waited for, plus 1 */
};

typedef enum sim_copy_kind_t {
  SIM_COPY_LOAD,   /* global to shared, completes on an mbarrier */
  SIM_COPY_SHARED, /* shared to shared of the cluster, likewise */
  SIM_COPY_VALUE,  /* st.async, red.async: from registers, likewise */
  SIM_COPY_STORE   /* shared to global, completes by group */
} sim_copy_kind_t;

typedef uint64_t (*sim_apply_fn_t)(const sim_ins_t *i, uint64_t old,
                                   uint64_t b, uint64_t c, bool is_global);

/* A tensor map, decoded. Sizes in elements, strides in bytes. */
typedef struct sim_map_t {
  uint64_t address;
  uint64_t dims[5], strides[5]; /* strides[0] is the element's size */
  uint32_t box[5], step[5];
  uint8_t rank, type, swizzle, fill;
  uint8_t bytes;      /* of an element */
  uint32_t extent[5]; /* elements of the box in each dimension */
  uint32_t box_bytes;
} sim_map_t;

typedef struct sim_copy_t {
  sim_copy_kind_t kind;
  const sim_ins_t *ins;
  sim_warp_t *warp; /* issuer */
  uint32_t lane, tick, delay;
  sim_cta_t *cta;   /* whose shared memory is read or written */
  uint32_t shared;  /* offset there */
  uint32_t bytes;
  uint64_t global;  /* of linear copies */
  sim_cta_t *from;  /* of copies inside the cluster */
  uint32_t from_offset;
  bool is_tensor;
  uint64_t map_address;
  uint8_t map_bytes[128]; /* when it was issued */
  sim_map_t map;
  int32_t at[5];
  sim_apply_fn_t apply;   /* reductions, else NULL */
  sim_ins_t element;      /* of those: type and operation */
  uint8_t value[16], value_defined[16];
  sim_mbar_t *mbar;
  uint32_t group;    /* of the lane's bulk groups */
  uint8_t *staging;  /* of stores whose source was read: data, then a byte a
                        byte that tells of definedness */
  bool is_read;      /* source no longer in use */
  bool is_moved;     /* destination written */
  bool is_released;  /* store: wait_group.read has seen it */
  uint32_t phase;    /* of the mbarrier when it moved */
} sim_copy_t;

/* Of a CTA. */
struct sim_async_t {
  uint16_t *mbar_at; /* number of the mbarrier + 1 at each 8 bytes */
  sim_mbar_t **mbars;
  uint32_t mbar_count, mbar_capacity;
  sim_copy_t **copies; /* issued by this CTA, in order */
  uint32_t count, capacity;
  uint32_t cp_pending; /* cp.async of all warps that nobody has observed */
  uint32_t tick;       /* asynchronous instructions so far */
  uint64_t random;
  uint32_t agent_clocks[SIM_MBARS]; /* where the next user of a slot begins */
};

/* Adds what a CTA needs; false if the host has no memory. */
bool sim_async_new(sim_cta_t *cta);
void sim_async_free(sim_cta_t *cta);
void sim_async_start(sim_cta_t *cta);
/* All warps of the CTA, or of its cluster, have ended: nothing may be
   pending. */
void sim_async_end(sim_cta_t *cta);

/* An access to marked words; flags as of sim_race_access. False if a finding
   ended the launch. */
bool sim_async_touch(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                     uint32_t lane, uint32_t offset, uint32_t bytes,
                     unsigned flags);
/* The same for a lane's access to global memory. */
bool sim_async_global(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                      uint64_t address, uint32_t bytes, bool is_write);

/* Judges an access of the async proxy (or, without SIM_RACE_ASYNC in flags,
   of an ordinary one) to any number of bytes of shared memory: marks, order,
   fences. wgmma operands use it too. */
bool sim_async_access(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                      uint32_t lane, uint32_t offset, uint32_t bytes,
                      unsigned flags);
/* fence.proxy.async: what is ordered so far is so for the async proxy. */
void sim_async_fence(sim_warp_t *w);

/* The CTA and offset of a shared address (generic ones if is_generic) that
   `bytes` bytes at a multiple of align start at. False with *cta NULL if the
   launch must end, true with *cta NULL if this lane is to be left out. */
bool sim_async_place(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                     uint64_t address, uint32_t bytes, uint32_t align,
                     bool is_generic, sim_cta_t **cta, uint32_t *offset);
/* The same for global memory: its allocation. kind: 'r', 'w', 'a' for a
   reduction, 'm' for a tensor map, whose reading is not counted. */
bool sim_async_global_place(sim_warp_t *w, const sim_ins_t *ins,
                            uint32_t lane, uint64_t address, uint64_t bytes,
                            uint32_t align, char kind,
                            sim_alloc_t **alloc);

void sim_marks_set(sim_cta_t *cta, uint32_t offset, uint32_t bytes,
                   uint8_t mark);
void sim_marks_clear(sim_cta_t *cta, uint32_t offset, uint32_t bytes,
                     uint8_t mark);
/* How many asynchronous instructions a copy waits in random mode. */
uint32_t sim_async_delay(sim_cta_t *cta);
/* One more asynchronous instruction: what is due in random mode moves. */
void sim_async_tick(sim_cta_t *cta);

/* -- cp.async -- */
/* A new entry, all zero; NULL with a finding if memory or room ran out. */
sim_cp_t *sim_cp_new(sim_warp_t *w, const sim_ins_t *ins);
void sim_cp_move(sim_warp_t *w, sim_cp_t *op, uint32_t lanes);
/* Lanes of m wait until at most n of their groups are pending; n UINT32_MAX:
   for all they issued. */
void sim_cp_wait(sim_warp_t *w, uint32_t m, uint32_t n);
/* Lanes whose copies older than serial are observed. */
void sim_cp_observe(sim_warp_t *w, uint32_t lanes, uint32_t serial);

/* -- mbarriers -- */
/* The live one at a place, judged: NULL with *go_on telling whether the
   launch goes on. */
sim_mbar_t *sim_mbar_at(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                        sim_cta_t *cta, uint32_t offset, bool *go_on);
bool sim_mbar_init(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                   sim_cta_t *cta, uint32_t offset, uint32_t count);
bool sim_mbar_inval(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                    sim_mbar_t *m);
bool sim_mbar_expect(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                     sim_mbar_t *m, int64_t tx);
/* Transactions completed: the phase may end. */
bool sim_mbar_complete(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                       sim_mbar_t *m, int64_t tx);
/* clocks: what the arrival releases, or NULL. */
bool sim_mbar_arrive(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                     sim_mbar_t *m, uint32_t count, uint32_t drop,
                     bool may_complete, const uint32_t *clocks);
bool sim_mbar_defer(sim_warp_t *w, const sim_ins_t *ins, uint32_t lanes,
                    sim_mbar_t *m, bool is_counted);
/* What may move the phase on does, in late mode only if nothing else is
   missing. False if the launch ended. */
bool sim_mbar_poll(sim_warp_t *w, const sim_ins_t *ins, sim_mbar_t *m);
/* The warp has seen that the phase before the current one is complete. */
bool sim_mbar_observe(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                      sim_mbar_t *m, bool is_acquire, bool by_parity);
void sim_mbar_free(sim_mbar_t *m);
/* What a failed wait waits for, in words. */
void sim_mbar_text(const sim_mbar_t *m, char *text, size_t bytes);

/* -- bulk copies -- */
/* Takes over a copy whose fields are filled in: judges its places, counts,
   marks and moves it if the mode says so. False if the launch ended. */
bool sim_copy_issue(const sim_copy_t *copy);
/* Reads the source, writes the destination, tells the mbarrier. */
bool sim_copy_move(sim_copy_t *copy);
/* Only reads the source of a store. */
bool sim_copy_read(sim_copy_t *copy);
/* Lanes of m wait for their bulk groups; see sim_cp_wait. */
bool sim_copy_wait(sim_warp_t *w, uint32_t m, uint32_t n, bool only_read);
/* Copies that completed on the mbarrier before its current phase are
   observed. */
void sim_copy_observe(sim_mbar_t *m);
void sim_copy_free(sim_copy_t *copy);

#endif
