/* Operations between submission and execution. A call queues its operation;
   it runs when the host waits for it (or asks often enough), not before, so
   that whatever the host did not wait for has visibly not happened.

   A lane is a chain of operations that run one after another: a stream, the
   legacy default stream of a context, or one chain of nodes of an executable
   graph. A clock holds, for each lane, the number of the last operation that
   is known to come before; an operation's clock holds its own number too. A
   happens before B exactly if B's clock has reached A's number in A's lane.
   The edges: order in a lane, events, the rules of the legacy default stream,
   dependencies of graph nodes, collectives from rank to rank, and the host,
   which has waited for some and submits after that.

   A launch may begin before what it depends on has completed (programmatic
   dependent launch): it has a second, early clock of what comes before its
   beginning; the other one holds from its griddepcontrol.wait on. A launch that
   completes without having waited says nothing about what it depends on, which
   leaves a gap in the clock of a launch that depends on it in the same way.

   All of it is guarded by the driver's lock. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "runtime/simgpu/mem.h"

typedef struct sim_clock_t {
  uint64_t *at; /* by lane; lanes beyond count: 0 */
  uint32_t count;
} sim_clock_t;

typedef struct sim_op_launch_t {
  uint64_t func;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared;
  bool is_cooperative;
  bool is_programmatic; /* begins when those before it in its stream let it */
  uint8_t *params; /* malloc'd copy */
} sim_op_launch_t;

typedef enum sim_run_kind_t {
  SIM_RUN_LAUNCH,
  SIM_RUN_COPY,
  SIM_RUN_FILL,
  SIM_RUN_HOST,
  SIM_RUN_EMPTY,
  SIM_RUN_ALLOC, /* stream-ordered memory begins */
  SIM_RUN_FREE,  /* and ends */
  SIM_RUN_EVENT, /* a record of an event */
  SIM_RUN_WAIT,  /* in graphs: waits for the event's newest record */
  SIM_RUN_CHILD, /* in graphs: another graph */
  SIM_RUN_UNMAP, /* a mapping ends */
  SIM_RUN_COLL   /* a rank's part of collectives */
} sim_run_kind_t;

/* One operation. What it points to is malloc'd and freed by sim_op_free. */
typedef struct sim_op_run_t {
  sim_run_kind_t kind;
  uint64_t ctx;
  const char *name; /* of the call, for reports */
  uint64_t call;    /* its number */
  sim_op_launch_t launch;
  uint64_t dst, src; /* device or host addresses; dst of ALLOC and FREE */
  uint64_t bytes;    /* of a row */
  bool dst_is_device, src_is_device; /* the call says so */
  uint64_t rows, dst_pitch, src_pitch;
  uint64_t planes, dst_plane, src_plane; /* of 3D copies; 0 and 1 are one */
  uint32_t value, width;
  void (*host)(void *user);
  void *user;
  uint8_t *staged;   /* what a pageable source held at the call */
  bool is_hashed;    /* a pinned source, */
  uint64_t hash;     /* which held this at the call */
  bool touches_host; /* a parameter points to pinned memory */
  uint64_t event;    /* of SIM_RUN_EVENT and _WAIT */
  uint64_t serial;   /* of that record */
  uint64_t graph;    /* of SIM_RUN_CHILD: handle of its own clone */
  struct sim_coll_t *coll; /* of SIM_RUN_COLL; owned */
} sim_op_run_t;

/* Rows of a copy or fill, over all planes, and where the i-th begins. */
static inline uint64_t sim_op_rows(const sim_op_run_t *op) {
  return op->planes > 1 ? op->rows * op->planes : op->rows;
}
static inline uint64_t sim_op_dst(const sim_op_run_t *op, uint64_t i) {
  return op->dst + i / op->rows * op->dst_plane +
         i % op->rows * op->dst_pitch;
}
static inline uint64_t sim_op_src(const sim_op_run_t *op, uint64_t i) {
  return op->src + i / op->rows * op->src_plane +
         i % op->rows * op->src_pitch;
}
/* The first byte after the last row. */
static inline uint64_t sim_op_dst_end(const sim_op_run_t *op) {
  return sim_op_dst(op, sim_op_rows(op) - 1) + op->bytes;
}
static inline uint64_t sim_op_src_end(const sim_op_run_t *op) {
  return sim_op_src(op, sim_op_rows(op) - 1) + op->bytes;
}

/* Operations of a lane whose completion is not known: above after, up to and
   with last. */
typedef struct sim_gap_t {
  uint32_t lane;
  uint64_t after, last; /* last 0: none */
} sim_gap_t;

struct sim_flight_t;

typedef struct sim_queued_t {
  struct sim_queued_t *next; /* in its lane */
  sim_op_run_t op;
  sim_clock_t clock;
  uint32_t lane;
  uint64_t seq;   /* its number in the lane: SIM_SEQ_STEP, twice that, ... */
  uint64_t issue; /* and among all operations */
  bool has_early;
  sim_clock_t early; /* before its beginning, if that is less */
  uint64_t depends;  /* on this launch of its lane, or 0 */
  sim_gap_t gap;
  uint64_t number; /* of the launch, from 1; 0: not begun */
  struct sim_flight_t *flight; /* a launch that has begun */
  bool was_tracked, has_waited, has_early_trigger; /* one that has ended */
} sim_queued_t;

/* Between two numbers of a lane lies that of "a collective has read what the
   later one sends": other ranks know that before it completes. */
#define SIM_SEQ_STEP 2u

typedef struct sim_lane_t {
  uint64_t ctx;
  bool is_blocking; /* waits for the default stream and is waited for */
  bool is_default;
  bool is_open;     /* something may still submit to it */
  sim_queued_t *head, *tail; /* pending */
  uint64_t seq;      /* of the newest operation */
  sim_clock_t clock; /* before the next operation */
  bool has_start;    /* if that is less: */
  sim_clock_t start; /* before the beginning of a programmatic launch */
  bool has_sure;     /* likewise, after waits for programmatic events: */
  sim_clock_t sure;  /* before the beginning of anything */
  uint64_t work;     /* warp instructions until the last one that ran */
} sim_lane_t;

/* Bytes that an executed operation read and wrote. */
typedef struct sim_range_t {
  uint64_t start, bytes, rows, pitch;
  char kind; /* 'r', 'w', or 'l': begins or ends the memory's life */
} sim_range_t;

typedef struct sim_touched_t {
  uint64_t address, bytes; /* of the allocation */
  uint64_t *bits[SIM_TOUCHES]; /* as in sim_alloc_t */
} sim_touched_t;

typedef struct sim_past_t {
  const char *name;
  uint64_t call;
  char kernel[64];
  uint32_t lane;
  uint64_t seq;
  uint64_t safe; /* 0, or: operations issued later are ordered after it */
  sim_range_t *ranges; /* malloc'd */
  uint32_t range_count;
  sim_touched_t *touched;
  uint32_t touched_count;
} sim_past_t;

/* What comes after an operation also comes after the clock: a collective has
   joined lanes while later work was queued already. */
typedef struct sim_edge_t {
  uint32_t lane;
  uint64_t seq, safe; /* as in sim_past_t */
  sim_clock_t clock;
} sim_edge_t;

typedef struct sim_queue_t {
  sim_lane_t **lanes;
  uint32_t lane_count;
  sim_clock_t host;  /* what the host has waited for */
  uint64_t issued, pending;
  uint64_t collectives; /* of the pending ones */
  uint64_t early;       /* of the pending ones, those with an early clock */
  uint64_t random;   /* state of the order, when it is seeded */
  bool is_running;   /* some thread executes operations, */
  pthread_t runner;  /* this one, */
  bool in_host;      /* and is inside a host function, unlocked */
  bool has_cond;
  pthread_cond_t idle;
  sim_past_t *past;  /* operations that others may conflict with */
  size_t past_count, past_capacity;
  sim_edge_t *edges; /* in order of creation */
  size_t edge_count, edge_capacity;
} sim_queue_t;

bool sim_clock_join(sim_clock_t *to, const sim_clock_t *from);
static inline uint64_t sim_clock_at(const sim_clock_t *c, uint32_t lane) {
  return lane < c->count ? c->at[lane] : 0;
}
void sim_clock_free(sim_clock_t *c);
/* *to becomes a copy; false without memory. */
bool sim_clock_copy(sim_clock_t *to, const sim_clock_t *from);
/* to has reached all that from has. */
bool sim_clock_covers(const sim_clock_t *to, const sim_clock_t *from);

/* A new lane of the context; UINT32_MAX without memory. */
uint32_t sim_lane_new(uint64_t ctx, bool is_blocking, bool is_default);
sim_lane_t *sim_lane_of(uint32_t id);
/* Nothing more will be submitted; what is queued still runs. */
void sim_lane_close(uint32_t id);
/* What the lane runs next comes after the clock, and begins after `sure`,
   which is less after a programmatic event. */
bool sim_lane_join(uint32_t id, const sim_clock_t *clock,
                   const sim_clock_t *sure);

/* Queues the operation at the lane's end; takes what it owns, also if it
   fails. A clock, unless NULL, comes before it too; early, unless NULL, is all
   that comes before its beginning. */
int sim_queue_add(uint32_t lane, const sim_op_run_t *op,
                  const sim_clock_t *after, const sim_clock_t *early);
/* Adds what the legacy default stream's rules put before an operation of the
   lane that is submitted now. */
bool sim_queue_implicit(uint32_t lane);

/* True if everything before the clock has run. */
bool sim_queue_is_done(const sim_clock_t *clock);
/* The host waits: runs what is missing, in an order that respects every
   edge, and remembers that it waited. */
void sim_queue_wait(const sim_clock_t *clock);
/* The same without waiting for other host threads: false if some rank of a
   collective has not come yet. */
bool sim_queue_try(const sim_clock_t *clock);
/* Runs what is missing as far as that goes now. The host has not waited. */
void sim_queue_push(const sim_clock_t *clock);
/* Everything before the head of its lane has run. */
bool sim_queue_is_ready(const sim_queued_t *item);
/* A collective at the head of its lane is done. */
void sim_queue_done(sim_queued_t *item);
/* What would come before the beginning of the operation, were it submitted to
   the lane now. False without memory. */
bool sim_queue_begin(uint32_t lane, const sim_op_run_t *op, sim_clock_t *out);
/* Lets those that depend on it begin before it has completed. */
bool sim_has_trigger(const sim_op_run_t *op);
/* It goes without having run. */
void sim_queue_drop_head(sim_queued_t *item);
void sim_queue_wait_ctx(uint64_t ctx);
/* Runs everything without the host having waited for it. */
void sim_queue_flush(void);
/* The context's operations are dropped unexecuted. */
void sim_queue_drop_ctx(uint64_t ctx);

/* -- order.c: unordered operations that touch the same bytes -- */

/* True if the launch must note which bytes it touches: some operation may be
   unordered with it. */
bool sim_order_must_track(const sim_queued_t *q);
/* Judges the executed operation against those before and keeps it. The
   touched bytes of allocations (sim_alloc_t) are taken away. */
void sim_order_executed(sim_queued_t *q, bool was_tracked);
/* The operation after which the clock comes: those that it brings along. Takes
   the clock. */
void sim_order_add_edge(const sim_queued_t *item, sim_clock_t *clock);
/* Adds to a clock what edges bring. */
void sim_order_close(sim_clock_t *clock);
/* A launch has run: what that says to those that may have begun early. */
void sim_order_inform(const sim_queued_t *item);
/* Forgets what nobody can conflict with any more. */
void sim_order_prune(void);
void sim_order_free(sim_past_t *past);
/* Rows that the operation touched; kind as in sim_range_t. */
void sim_order_add_range(sim_past_t *past, uint64_t start, uint64_t bytes,
                         uint64_t rows, uint64_t pitch, char kind);

/* Pinned memory: hashes of sources at the call and at execution. */
void sim_order_hash(sim_op_run_t *op);
void sim_order_check_hash(const sim_op_run_t *op);
/* An executed operation wrote these host bytes (0, 0: unknown ones): pending
   sources among them are looked at again. */
void sim_order_host_write(uint64_t address, uint64_t bytes, bool is_before);

#endif
