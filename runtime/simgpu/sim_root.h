/* The driver's state. The Driver API has no handle to hang it on, so it lies
   in the one mutable static of the project. One lock guards everything; a
   call that runs a kernel holds it until the kernel ends.

   Handles are numbers with a type, a generation and an index, cast to the
   interface's pointer types: use after destroy, a handle of another type and
   a stray pointer are all seen. */
#ifndef SIM_ROOT_H
#define SIM_ROOT_H

#include "runtime/cuda/cuda_types.h"
#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/sim_queue.h"

#define SIM_MAX_DEVICES 16
#define SIM_EXPORT      __attribute__((visibility("default")))

typedef enum sim_type_t {
  SIM_TYPE_NONE,
  SIM_TYPE_CTX,
  SIM_TYPE_MODULE,
  SIM_TYPE_FUNC,
  SIM_TYPE_STREAM,
  SIM_TYPE_EVENT,
  SIM_TYPE_GRAPH,
  SIM_TYPE_NODE,
  SIM_TYPE_EXEC,
  SIM_TYPE_POOL,
  SIM_TYPE_LIBRARY
} sim_type_t;

typedef struct sim_slot_t {
  void *object; /* NULL: free */
  uint32_t generation;
  uint8_t type;
} sim_slot_t;

typedef struct sim_ctx_t {
  uint64_t handle;
  uint32_t device;
  uint32_t flags;
  bool is_primary;
  int sticky; /* result of the fault that broke it */
  uint64_t peers; /* devices whose memory its kernels may touch */
  uint64_t limits[3];
  uint32_t lane;      /* of its legacy default stream */
  uint32_t free_lane; /* of frees that the host orders */
} sim_ctx_t;

typedef struct sim_module_t {
  uint64_t handle, ctx;
  td_task_t task; /* owns the arena */
  td_arena_t arena;
  ptx_module_t *ptx;
  bool is_library;
  uint64_t library; /* handle, for kernels of a library */
} sim_module_t;

typedef struct sim_func_t {
  uint64_t handle, module;
  const ptx_func_t *ptx;
  sim_kernel_t *kernel;
  int max_dynamic; /* 0: not raised */
  int non_portable;
} sim_func_t;

/* Nodes of a graph, by index. */
typedef struct sim_nodes_t {
  uint32_t *list;
  uint32_t count, capacity;
} sim_nodes_t;

typedef struct sim_stream_t {
  uint64_t handle, ctx, id;
  uint32_t flags;
  int priority;
  uint32_t lane;
  uint32_t polls; /* queries that still answer "not ready" */
  uint64_t graph; /* handle of the graph being captured, or 0 */
  bool is_origin;
  sim_nodes_t last; /* of a capture: what its next node comes after */
} sim_stream_t;

typedef struct sim_event_t {
  uint64_t handle, ctx;
  uint32_t flags, polls;
  bool is_recorded;
  uint64_t serial; /* of the newest record */
  sim_clock_t clock; /* of that record */
  uint64_t work;     /* of its lane when the record ran */
  uint64_t graph;    /* recorded during this capture */
  sim_nodes_t last;  /* then: what it stands for */
} sim_event_t;

typedef struct sim_node_t {
  uint64_t handle;   /* of the node; its object is the graph */
  uint64_t origin;   /* of an executable graph: the node it was made from */
  sim_op_run_t op;
  sim_nodes_t after; /* dependencies */
  uint32_t chain;    /* of an executable graph: index of its lane */
} sim_node_t;

typedef struct sim_graph_t {
  uint64_t handle, ctx;
  sim_node_t **nodes;
  uint32_t count, capacity;
  bool is_capturing, is_broken; /* a capture, one that went wrong */
  int mode;                     /* of the capture */
  pthread_t thread;             /* that began it */
  uint32_t *lanes, lane_count;  /* of an executable graph */
} sim_graph_t;

/* What is kept of a finished launch. */
typedef struct sim_record_t {
  char kernel[96];
  uint64_t number;
  uint32_t device, grid[3], block[3], cluster[3];
  uint32_t shared_static, shared_dynamic, registers, local;
  sim_occupancy_t occupancy;
  uint64_t live_bytes, peak_bytes;
  int result;
  sim_totals_t totals;
  char *lines; /* malloc'd JSON of the counts by source line, or NULL */
} sim_record_t;

typedef struct sim_state_t {
  pthread_mutex_t mutex;
  bool has_options, is_up;
  pthread_key_t key; /* of each thread's context stack */
  sim_options_t options;
  const sim_device_row_t *row;
  uint32_t device_count;
  sim_memory_t memory;
  uint64_t live_bytes[SIM_MAX_DEVICES], peak_bytes[SIM_MAX_DEVICES];
  sim_report_t report;
  size_t order_findings; /* of the family order, so far */
  size_t printed; /* findings already written out */
  sim_slot_t *slots;
  size_t slot_count, slot_capacity;
  uint64_t primary[SIM_MAX_DEVICES]; /* handles */
  uint32_t primary_uses[SIM_MAX_DEVICES];
  uint32_t primary_flags[SIM_MAX_DEVICES];
  uint64_t calls, fail_seen, launches, streams, serial;
  sim_queue_t queue;
  sim_record_t *records;
  size_t record_count, record_capacity;
  uint8_t forms[2048]; /* rows of ptx_ops.def that some kernel used */
  int said[1024]; /* functions whose absence was told, by hash */
} sim_state_t;

sim_state_t *sim_state(void);

/* Counts by code index as text; the caller frees it. */
char *sim_lines_text(const sim_kernel_t *kernel, const sim_line_t *lines);
void sim_records_free(sim_state_t *state);

/* Begins a call: takes the lock, counts, injects failures. 0, or the result
   to return (the lock is then already given back). */
int sim_enter(const char *name, bool needs_init);
/* As sim_enter, and the current context into *ctx: 201 without one, its
   sticky result if it is broken. */
int sim_enter_ctx(const char *name, sim_ctx_t **ctx);
int sim_leave(int result);

uint64_t sim_handle_new(sim_type_t type, void *object);
/* NULL for a handle that is dead or of another type. */
void *sim_handle_get(sim_type_t type, const void *handle);
void *sim_handle_number(sim_type_t type, uint64_t handle);
void sim_handle_drop(uint64_t handle);

sim_ctx_t *sim_current(void);
/* Device memory that belongs to the context; NULL when full. */
sim_alloc_t *sim_device_alloc(sim_ctx_t *ctx, uint64_t bytes,
                              sim_alloc_kind_t kind);
void sim_device_free(sim_alloc_t *alloc);

/* Runs an operation whose turn has come, and judges its order; a fault
   becomes the context's sticky result. *work grows by its instructions. */
void sim_run_queued(sim_queued_t *item, uint64_t *work);
/* Queues it, or adds it to the graph that the stream captures. */
int sim_submit(sim_ctx_t *ctx, const void *stream, sim_op_run_t *op);
void sim_op_free(sim_op_run_t *op);
/* A copy with its own memory; false without memory. */
bool sim_op_copy(sim_op_run_t *to, const sim_op_run_t *from);
bool sim_is_device_address(uint64_t address);
/* Gives an operation to a lane, with what copies need at the call: pageable
   sources are taken, pinned destinations poisoned. *is_now: the call must
   wait for it (a pageable destination). */
int sim_submit_lane(uint32_t lane, sim_op_run_t *op,
                    const sim_clock_t *after, bool *is_now);
/* The host waits for the clock, a context, or a stream (NULL: the default
   one): the sticky result of the context that it leaves behind. */
int sim_wait(uint64_t ctx, const sim_clock_t *clock);
int sim_wait_ctx(uint64_t ctx);
/* Runs everything of the context that other lanes hold. */
void sim_wait_others(uint64_t ctx, uint32_t lane);
uint32_t sim_lane_of_stream(const sim_ctx_t *ctx, const sim_stream_t *s);
/* The stream of a handle: NULL and the two special values are the default
   one (*out NULL). False if the handle is dead. */
bool sim_stream_of(const void *handle, sim_stream_t **out);

/* -- captures (sim_graph.c) -- */
bool sim_nodes_add(sim_nodes_t *nodes, uint32_t index);
bool sim_nodes_join(sim_nodes_t *to, const sim_nodes_t *from);
void sim_nodes_free(sim_nodes_t *nodes);
/* Adds to the graph that the stream captures; takes what op owns. */
int sim_capture(sim_stream_t *stream, const sim_op_run_t *op);
/* 0, or the result of a call that must not be made while the calling thread
   or, in the strictest mode, any other captures; the captures break. */
int sim_no_capture(void);
/* Likewise of the default stream, while a blocking stream captures. */
int sim_no_implicit(const sim_ctx_t *ctx);
/* How the calling thread restricts itself (cuThreadExchange...). */
int *sim_thread_mode(void);
void sim_graph_free(sim_graph_t *graph);
void sim_stream_free(sim_stream_t *stream);
void sim_event_free(sim_event_t *event);

/* Module loading and decoding. */
sim_func_t *sim_func_of(const void *handle);
int sim_decode_func(sim_func_t *func, ptx_error_t *error);

/* A finding without an instruction: of the host's calls. */
void sim_host_finding(sim_check_t id, const char *call, uint64_t address,
                      uint64_t bytes, const char *format, ...)
    TD_PRINTF(5, 6);
/* Writes what was reported since the last time. */
void sim_flush_report(void);
void sim_write_record(const sim_record_t *record);

#endif
