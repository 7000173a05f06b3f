/* What runs: a launch is worked off by host threads (workers), each of which
   holds one or several blocks (CTAs) whose warps it runs in turn. A warp owns
   a register block where 32 lanes lie side by side, and a reconvergence
   stack. Only the worker that holds a CTA touches it. */
#ifndef SIM_WARP_H
#define SIM_WARP_H

#include "runtime/simgpu/check.h"
#include "runtime/simgpu/decode.h"
#include "runtime/simgpu/device.h"
#include "runtime/simgpu/mem.h"
#include "runtime/simgpu/places.h"

#define SIM_FULL     UINT32_C(0xFFFFFFFF)
#define SIM_BARRIERS 16
#define SIM_LOCKS    64
#define SIM_MBARS    64 /* of a CTA that have a clock of their own */
#define SIM_CACHE    64  /* allocations remembered by a worker */

typedef enum sim_warp_state_t {
  SIM_WARP_READY,
  SIM_WARP_BARRIER, /* waits at barrier `wait` */
  SIM_WARP_SPIN,    /* a failed wait: let others run, then try again */
  SIM_WARP_CLUSTER, /* waits at the cluster's barrier */
  SIM_WARP_GROUP,   /* waits for its warpgroup */
  SIM_WARP_GRID,    /* waits for the launches it depends on */
  SIM_WARP_DONE
} sim_warp_state_t;

/* Lanes that wait: at `at` until `reconv`, then the entry below goes on. */
typedef struct sim_frame_t {
  uint32_t at, reconv, mask;
} sim_frame_t;

#define SIM_NO_RECONV UINT32_MAX

typedef struct sim_call_t {
  uint32_t depth; /* of the stack when the callee began */
  uint32_t ins;   /* the call */
  uint32_t reconv;
} sim_call_t;

typedef struct sim_cta_t sim_cta_t;
typedef struct sim_worker_t sim_worker_t;
typedef struct sim_launch_t sim_launch_t;
typedef struct sim_async_t sim_async_t; /* async.h */
typedef struct sim_lane_queues_t sim_lane_queues_t;
typedef struct sim_mbar_t sim_mbar_t;
typedef struct sim_group_t sim_group_t;
typedef struct sim_its_t sim_its_t;     /* its.h */

struct sim_warp_t {
  uint8_t *r; /* register block */
  uint8_t *u; /* shadow: a byte a lane for each row at offset / 4 (a bit a
                 byte of the lane's value), masks of predicates at the end */
  const sim_ins_t *code;
  const sim_ins_t *ip;   /* where it stopped */
  uint32_t active;       /* lanes that execute */
  uint32_t reconv;       /* code index where they meet others */
  uint32_t live;         /* lanes that exist and have not exited */
  uint32_t carry;        /* condition code, a bit a lane */
  bool is_tainted;       /* some register may be undefined */
  uint8_t state;
  uint8_t wait;          /* barrier id */
  uint16_t id;           /* in its CTA */
  int32_t slice;         /* instructions before others get a turn */
  sim_frame_t *stack;
  uint32_t depth, stack_capacity;
  sim_call_t calls[SIM_MAX_CALLS];
  uint32_t call_depth;
  sim_cta_t *cta;
  sim_worker_t *worker;
  uint8_t *local;        /* local memory: frame bytes a lane */
  uint8_t *local_defined;
  uint64_t executed;     /* instructions, for %clock and the budget */
  uint32_t sync_clock;   /* of bar.warp.sync, for races inside the warp */
  uint32_t serial;       /* of memory instructions, to tell lanes of one */
  uint32_t *clocks;      /* vector clock: one entry an agent */
  uint32_t agent;        /* its own: rank of the CTA * warps + id */
  uint32_t cluster_arrived; /* lanes at the cluster's barrier */
  uint32_t cluster_passed;  /* lanes whose phase is over, not yet waited */
  uint32_t tensor_serial; /* of matrix instructions, for seeded choices */
  uint32_t *fenced;  /* kernels with flags: its clocks at its last fence, */
  uint32_t *pending; /* and what strong reads have brought; else NULL */
  sim_lane_queues_t *queue;    /* pending copies of its lanes, or NULL */
  bool is_late;       /* it knows of a griddepcontrol.wait: see depend.h */
  uint32_t waited_at; /* its clock behind its own first one; 0: none */
  const sim_mbar_t *waits_for; /* in SIM_WARP_SPIN, if for an mbarrier */
  sim_its_t *its; /* its strands under diverge:its, else NULL; the stack,
                     reconv and calls above are then not used */
};

typedef struct sim_barrier_t {
  uint32_t arrived;    /* threads */
  uint32_t expected;   /* 0: idle */
  uint64_t waiting;    /* warps */
  uint64_t joined;     /* warps that arrived or wait */
  uint32_t reduction;  /* accumulated */
  uint8_t kind;        /* 1 sync/arrive, 2 red */
  bool is_all;         /* no count given: all threads of the CTA */
} sim_barrier_t;

typedef struct sim_race_word_t sim_race_word_t;

/* Vectors of clocks, for words that several agents read; entry 0 is none. */
typedef struct sim_vectors_t {
  uint32_t *data; /* capacity * agents */
  uint32_t count, capacity, free_list;
} sim_vectors_t;

struct sim_cta_t {
  sim_worker_t *worker;
  sim_launch_t *launch;
  uint64_t linear;
  uint32_t index[3];
  uint32_t cluster_rank;
  sim_warp_t *warps;
  uint32_t warp_count, done, max_warps;
  uint32_t turn;         /* where the round of warps stands */
  uint64_t random;       /* state of its schedule */
  sim_barrier_t barriers[SIM_BARRIERS];
  uint8_t *shared;       /* from offset 0, the reserve included */
  uint8_t *shared_defined; /* a byte a byte */
  uint32_t shared_bytes; /* end of what may be accessed */
  sim_race_word_t *races; /* one for each word, or NULL */
  sim_vectors_t vectors; /* of those words */
  uint64_t *tags;        /* likewise; kernels have one of the two */
  uint32_t stamp;        /* of the last barrier, unlike that of any before */
  uint32_t generation;   /* of the CTA: records of earlier ones are void */
  /* A vector clock has an entry for each agent: the warps of the cluster by
     rank, its warpgroups, whose mma_async read until a wait, then SIM_MBARS
     mbarriers of each CTA, whose copies complete in their phases. Kernels
     that use the async proxy keep a second clock behind it, of what is
     ordered for that proxy. */
  uint32_t reader_count; /* agents that are warps or warpgroups */
  uint32_t group_agents; /* of the CTA's first warpgroup */
  uint32_t agent_count;
  uint32_t clock_words;  /* agent_count once or twice */
  uint32_t *barrier_clocks; /* what joined each barrier brought along */
  uint32_t *cluster_clocks; /* of rank 0: what joins the cluster's barrier,
                               then what the last phase brought along */
  sim_places_t places;   /* of rank 0: flags of the cluster, see flags.h */
  uint32_t *remote;      /* by agent: clock of its last access from outside */
  uint32_t epoch;        /* number of barriers of the whole CTA so far */
  sim_cta_t **cluster;   /* its CTAs by rank; NULL outside clusters */
  uint32_t cluster_count;
  bool is_running;
  bool has_waited;       /* some warp passed a griddepcontrol.wait */
  uint64_t ordinal;      /* the n-th block that the launch runs */
  uint32_t owner;        /* of sectors: its cluster's number */
  struct sim_l2_run_t *l2_runs; /* its stream of sectors, see l2.h */
  size_t l2_count, l2_capacity;
  sim_async_t *async;    /* mbarriers and copies of this CTA, or NULL */
  uint8_t *marks;        /* of words that asynchronous operations use, with
                            their checks on; SIM_MARK_* */
  sim_group_t *groups;   /* warpgroups, or NULL */
  uint32_t group_count;
  uint32_t free_registers; /* given back by setmaxnreg */
  void *blocks;          /* one allocation behind the pointers above */
};

typedef struct sim_pattern_t sim_pattern_t;

/* What one instruction, then one source line, was worth. */
typedef struct sim_line_t {
  uint64_t warp_inst, lane_inst, sectors, wavefronts;
} sim_line_t;

/* One host thread at work on a launch. */
struct sim_worker_t {
  sim_launch_t *launch;
  uint64_t counters[SIM_COUNTER_COUNT];
  uint64_t mix[SIM_CLASS_COUNT]; /* of instructions counted one by one */
  uint64_t *block_runs;  /* executions of each basic block */
  uint64_t *block_lanes;
  sim_alloc_t *cache[SIM_CACHE];
  sim_line_t *lines;     /* by code index, if they are asked for */
  sim_pattern_t *patterns; /* by sim_ins_t.memory */
  td_thread_t thread;
  sim_cta_t **ctas;      /* held at once */
  uint32_t cta_count;
  uint64_t executed;
  uint64_t clocked;      /* of these, already in the launch's clock */
  uint64_t progress;     /* phases of barriers that completed, stores and
                            atomics that change global memory, exits */
  bool is_counting;      /* sectors and conflicts */
} __attribute__((aligned(64))); /* no two in a line of the host's cache */

struct sim_launch_t {
  const sim_kernel_t *kernel;
  sim_memory_t *memory;
  const sim_device_row_t *row;
  uint32_t device;
  uint64_t peers;        /* mask of devices it may touch */
  uint32_t grid[3], block[3], cluster[3];
  uint64_t cta_total;
  uint64_t run_total;    /* of them, those that run */
  uint64_t *sample;      /* their clusters in order, or NULL: all */
  uint32_t threads;      /* of a CTA */
  uint32_t dynamic_shared;
  uint32_t shared_start; /* where user shared memory begins */
  uint32_t dynamic_start, shared_end;
  const uint8_t *params; /* kernel->func->param_bytes of them */
  sim_alloc_t *param_alloc;
  const sim_options_t *options;
  bool uses_sectors;     /* keeps what it does to each, see sectors.h */
  bool is_judging;       /* and finds races between CTAs */
  bool has_l2;
  bool is_threaded;      /* several host threads work on it */
  uint32_t stamp;        /* of its sectors */
  struct sim_details_t *details;
  struct sim_l2_t *l2;
  struct sim_sync_t *sync; /* of kernels whose blocks talk */
  bool is_tracking;      /* notes the global bytes that it touches */
  bool has_early;        /* may begin before what it depends on: depend.h */
  bool is_held;          /* stops at its waits */
  bool has_waited;       /* some block has executed one */
  bool has_early_trigger; /* some launch_dependents came before any */
  sim_worker_t *workers; /* while it is under way */
  uint32_t worker_count;
  uint64_t number;       /* of the launch, from 1 */
  sim_report_t *report;
  /* Progress. */
  uint64_t next_cta;     /* taken by workers, atomically */
  int stop;              /* set by a fault; read atomically */
  td_mutex_t mutex;      /* of result and the findings */
  int result;
  uint64_t clock;        /* executed warp instructions, for %globaltimer */
  int locks[SIM_LOCKS];  /* of atomic operations, by address */
};

/* Runs the warp until it blocks, ends or has used its slice. */
void sim_warp_run(sim_warp_t *w);

/* Control flow, shared by the variants' handlers. */
const sim_ins_t *sim_branch(sim_warp_t *w, const sim_ins_t *ins,
                            uint32_t taken);
/* Adds a frame of waiting lanes; false if a fault ended the launch. */
bool sim_push(sim_warp_t *w, const sim_ins_t *ins, sim_frame_t frame);
/* Goes on with whoever waits; NULL if the warp is done. */
const sim_ins_t *sim_pop(sim_warp_t *w);
const sim_ins_t *sim_exit_lanes(sim_warp_t *w, const sim_ins_t *ins,
                                uint32_t mask);

/* Copies arguments of a call (entries first to end of its list: triples of
   from, to, bytes) or its results, in the frames of the lanes of m. */
void sim_call_frames(sim_warp_t *w, const sim_ins_t *call, uint32_t first,
                     uint32_t end, uint32_t m);

/* What the block's own count cannot know: lanes whose guard holds. */
void sim_count_lanes(sim_warp_t *w, const sim_ins_t *ins, uint32_t mask);

/* Around each instruction of a launch that notes values or counts by
   instruction. */
typedef struct sim_watch_t {
  uint32_t finite;
  uint64_t sectors, wavefronts; /* so far */
} sim_watch_t;
static inline bool sim_is_watched(const sim_warp_t *w) {
  return w->cta->launch->options->checks & SIM_CHECK_NOTE ||
         w->worker->lines;
}
void sim_watch_before(sim_warp_t *w, const sim_ins_t *ins, uint32_t mask,
                      sim_watch_t *watch);
void sim_watch_after(sim_warp_t *w, const sim_ins_t *ins, uint32_t mask,
                     const sim_watch_t *watch);

/* Before an instruction of a tainted warp: propagates undefinedness into its
   destinations and judges guards and addresses. False if a fault ended the
   launch. */
bool sim_undef_step(sim_warp_t *w, const sim_ins_t *ins, uint32_t mask);
/* Leaves the tainted state if no row is undefined any more. */
void sim_undef_settle(sim_warp_t *w);

/* -- rows -- */
typedef uint32_t __attribute__((may_alias)) sim_u32;
typedef int32_t __attribute__((may_alias)) sim_s32;
typedef uint64_t __attribute__((may_alias)) sim_u64;
typedef int64_t __attribute__((may_alias)) sim_s64;
typedef float __attribute__((may_alias)) sim_f32;
typedef double __attribute__((may_alias)) sim_f64;

static inline sim_u32 *sim_row(sim_warp_t *w, uint32_t offset) {
  return (sim_u32 *)(void *)(w->r + offset);
}
static inline sim_u64 *sim_row64(sim_warp_t *w, uint32_t offset) {
  return (sim_u64 *)(void *)(w->r + offset);
}
static inline uint32_t sim_pred(const sim_warp_t *w, uint32_t offset) {
  return *(const sim_u32 *)(const void *)(w->r + offset);
}
static inline void sim_set_pred(sim_warp_t *w, uint32_t offset,
                                uint32_t value, uint32_t mask) {
  sim_u32 *p = (sim_u32 *)(void *)(w->r + offset);
  *p = (*p & ~mask) | (value & mask);
}
/* Shadow of a row, and of a predicate. */
static inline uint8_t *sim_shadow(sim_warp_t *w, uint32_t offset) {
  return w->u + offset / 4;
}
static inline sim_u32 *sim_pred_shadow(sim_warp_t *w, uint32_t offset) {
  return (sim_u32 *)(void *)(w->u + w->cta->launch->kernel->block_bytes / 4 +
                             offset);
}
static inline uint32_t sim_list(const sim_warp_t *w, const sim_ins_t *ins,
                                uint32_t i) {
  return w->cta->launch->kernel->lists.data[ins->list + i];
}

/* "st.shared.f32, file.cu:12" of the instruction that is number `at` of the
   code, for the other side of a report; cut at `bytes`. */
void sim_place_text(const sim_kernel_t *k, uint32_t at, char *out,
                    size_t bytes);
/* A fault or finding at an instruction; lane 32 = the whole warp. True if
   execution may go on (warn mode). */
bool sim_find(sim_warp_t *w, const sim_ins_t *ins, sim_check_t id,
              unsigned lane, ptx_space_t space, uint64_t address,
              uint32_t bytes, const char *format, ...) TD_PRINTF(8, 9);

#endif
