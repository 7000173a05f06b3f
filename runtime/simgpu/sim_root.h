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
  SIM_TYPE_LIBRARY,
  SIM_TYPE_KERNEL,
  SIM_TYPE_PHYSICAL, /* memory without an address */
  SIM_TYPE_COMM,
  SIM_TYPE_REDUCTION
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
  int once;   /* of a collective that never ran: the next wait's result */
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

/* Nodes of a graph, by index, and the port of each that the edge starts from:
   RCUDA_PORT_*, all but the ordinary one let a launch begin early. */
typedef struct sim_nodes_t {
  uint32_t *list;
  uint8_t *port;
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
  rcuda_node_t **lent; /* by cuStreamGetCaptureInfo */
  rcuda_edge_t *lent_edges;
  sim_nodes_t last; /* of a capture: what its next node comes after */
} sim_stream_t;

typedef struct sim_event_t {
  uint64_t handle, ctx;
  uint32_t flags, polls;
  bool is_recorded;
  uint64_t serial; /* of the newest record */
  sim_clock_t clock; /* of that record */
  bool has_start;    /* it fires before the launch has completed: */
  sim_clock_t start; /* what comes before it then */
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
  uint64_t number;   /* among all graphs of the process */
  bool frees_before; /* executable: ends what its last launch left */
  sim_node_t **nodes;
  uint32_t count, capacity;
  bool is_capturing, is_broken; /* a capture, one that went wrong */
  int mode;                     /* of the capture */
  pthread_t thread;             /* that began it */
  uint32_t *lanes, lane_count;  /* of an executable graph */
} sim_graph_t;

/* Memory that a stream gave back and its pool may give out again: at once in
   its own lane, elsewhere to what comes after the free. */
typedef struct sim_spare_t {
  uint64_t bytes;
  uint32_t lane;
  uint64_t seq; /* of the free in that lane */
} sim_spare_t;

typedef struct sim_pool_t {
  uint64_t handle;
  uint32_t device;
  bool is_default;
  int reuse[4];       /* by RCUDA_POOL_REUSE_* */
  uint64_t max_bytes; /* 0: no limit */
  uint64_t threshold; /* what it keeps over a synchronisation */
  uint64_t reserved, reserved_high, used, used_high;
  uint64_t readers, writers; /* a bit a device */
  sim_spare_t *blocks;
  uint32_t block_count, block_capacity;
} sim_pool_t;

/* An operator made by ncclRedOpCreatePreMulSum. */
typedef struct sim_redop_t {
  uint64_t comm; /* 0: destroyed */
  int dtype;
  uint64_t bits, where; /* its scalar, or where the device has it */
} sim_redop_t;

typedef struct sim_reserved_t {
  uint64_t address, bytes;
} sim_reserved_t;

typedef struct sim_physical_t {
  uint64_t handle;
  sim_alloc_t *storage;
  bool is_held;      /* its handle was not released */
  uint32_t mappings;
} sim_physical_t;

typedef enum sim_way_t {
  SIM_COPY_H2D,
  SIM_COPY_D2H,
  SIM_COPY_D2D,
  SIM_COPY_P2P,
  SIM_COPY_KINDS
} sim_way_t;

/* What is kept of a finished launch. */
typedef struct sim_record_t {
  char kernel[96];
  uint64_t number;
  uint32_t device, grid[3], block[3], cluster[3];
  uint32_t shared_static, shared_dynamic, registers, local;
  bool is_assembled; /* registers are an assembler's, no estimate */
  sim_occupancy_t occupancy;
  uint64_t live_bytes, peak_bytes;
  int result;
  sim_totals_t totals;
  char *lines; /* malloc'd JSON of the counts by source line, or NULL */
  char *allocations; /* likewise of the bytes by allocation */
} sim_record_t;

/* What simgpu_registers was told of kernels of a name. */
typedef struct sim_given_t {
  char *kernel;   /* malloc'd */
  uint32_t count; /* registers of a thread; 0: none was told */
} sim_given_t;

#define SIM_MAX_ARGS 12

/* Of a host thread. */
typedef struct sim_thread_t {
  int mode; /* how it restricts itself while something captures */
  uint32_t depth; /* of the context stack */
  uint64_t handles[64];
  uint64_t args[SIM_MAX_ARGS]; /* of the call that begins */
  uint32_t arg_count;
  struct sim_group_t *group; /* of collectives; see sim_comm.h */
  uint64_t *streams; /* CU_STREAM_PER_THREAD: one for each context */
  uint32_t stream_count;
  uint64_t call;   /* number of its newest call in the record, from 1 */
  uint32_t number; /* threads are numbered as they first call */
} sim_thread_t;

/* A call, as the record has it. */
typedef struct sim_traced_t {
  const char *name;
  uint64_t args[SIM_MAX_ARGS];
  uint32_t arg_count;
  uint32_t thread; /* its number */
  int result;
  bool is_done;
} sim_traced_t;

typedef struct sim_state_t {
  pthread_mutex_t mutex;
  bool has_options, is_up, has_key;
  pthread_key_t key; /* of sim_thread_t */
  uint32_t threads;  /* seen so far */
  sim_traced_t *trace;
  size_t trace_count, trace_capacity;
  uint64_t trace_dropped; /* calls before the first that is kept */
  sim_options_t options;
  const sim_device_row_t *row;
  uint32_t device_count;
  sim_memory_t memory;
  uint64_t live_bytes[SIM_MAX_DEVICES], peak_bytes[SIM_MAX_DEVICES];
  uint64_t cached_bytes[SIM_MAX_DEVICES]; /* held by pools, in no use */
  sim_pool_t **pools;
  uint32_t pool_count;
  uint64_t default_pool[SIM_MAX_DEVICES], pool[SIM_MAX_DEVICES]; /* handles */
  struct sim_clique_t **cliques; /* communicators; see sim_comm.h */
  uint32_t clique_count;
  sim_redop_t *redops;
  uint32_t redop_count;
  uint64_t unique_ids;
  char coll_error[240]; /* the newest */
  uint64_t coll_links[SIM_MAX_DEVICES][SIM_MAX_DEVICES]; /* bytes */
  char (*coll_records)[512]; /* lines of JSON */
  size_t coll_record_count, coll_record_capacity;
  pthread_t remote; /* looks for ranks elsewhere; see sim_remote_thread.c */
  bool has_remote, is_remote_over;
  int remote_stop; /* read atomically */
  pid_t remote_process; /* that has the thread */
  struct sim_meeting_t *meetings; /* orders of communicators */
  uint32_t meeting_count;
  sim_reserved_t *reserved; /* address ranges */
  uint32_t reserved_count;
  uint64_t copied[SIM_COPY_KINDS]; /* bytes */
  uint64_t links[SIM_MAX_DEVICES][SIM_MAX_DEVICES]; /* of these, by link */
  sim_report_t report;
  size_t order_findings; /* of the family order, so far */
  size_t printed; /* findings already written out */
  sim_slot_t *slots;
  size_t slot_count, slot_capacity;
  uint64_t primary[SIM_MAX_DEVICES]; /* handles */
  uint32_t primary_uses[SIM_MAX_DEVICES];
  uint32_t primary_flags[SIM_MAX_DEVICES];
  uint64_t calls, fail_seen, launches, streams, graphs, serial;
  sim_queue_t queue;
  sim_record_t *records;
  size_t record_count, record_capacity;
  uint8_t forms[2048]; /* rows of ptx_ops.def that some kernel used */
  char problem[256]; /* the last option that was refused */
  sim_given_t *given;
  size_t given_count, given_capacity;
  int said[1024]; /* functions whose absence was told, by hash */
} sim_state_t;

sim_state_t *sim_state(void);
/* Under the lock, before the first call: the key of threads, options from the
   environment, one h100. */
void sim_first_time(void);

/* Counts by code index as text; the caller frees it. */
char *sim_lines_text(const sim_kernel_t *kernel, const sim_line_t *lines);
/* Bytes of sectors that the launch which just ran read and wrote, by
   allocation, as text, and forgotten in the allocations; the caller frees. */
char *sim_allocations_text(sim_memory_t *memory);
void sim_records_free(sim_state_t *state);
/* Registers of a thread that an assembler said, 0: none did
   (sim_registers.c). */
uint32_t sim_registers_given(const char *kernel);
void sim_registers_free(sim_state_t *state);

/* -- the record of calls (sim_trace.c): each with its arguments by value --
   The first statement of an exported function; the macros turn up to twelve
   numbers and pointers into a list. */
#define SIM_ARGS(...)                                                         \
  do {                                                                        \
    const uint64_t list_[] = {SIM_EACH(__VA_ARGS__)};                         \
    sim_trace_args(list_, sizeof list_ / sizeof *list_);                      \
  } while (0)
#define SIM_NUM(x) (uint64_t)(uintptr_t)(x)
#define SIM_EACH(...)                                                         \
  SIM_PICK(__VA_ARGS__, SIM_E12, SIM_E11, SIM_E10, SIM_E9, SIM_E8, SIM_E7,    \
           SIM_E6, SIM_E5, SIM_E4, SIM_E3, SIM_E2, SIM_E1, )(__VA_ARGS__)
#define SIM_PICK(a, b, c, d, e, f, g, h, i, j, k, l, name, ...) name
#define SIM_E1(a)       SIM_NUM(a)
#define SIM_E2(a, ...)  SIM_NUM(a), SIM_E1(__VA_ARGS__)
#define SIM_E3(a, ...)  SIM_NUM(a), SIM_E2(__VA_ARGS__)
#define SIM_E4(a, ...)  SIM_NUM(a), SIM_E3(__VA_ARGS__)
#define SIM_E5(a, ...)  SIM_NUM(a), SIM_E4(__VA_ARGS__)
#define SIM_E6(a, ...)  SIM_NUM(a), SIM_E5(__VA_ARGS__)
#define SIM_E7(a, ...)  SIM_NUM(a), SIM_E6(__VA_ARGS__)
#define SIM_E8(a, ...)  SIM_NUM(a), SIM_E7(__VA_ARGS__)
#define SIM_E9(a, ...)  SIM_NUM(a), SIM_E8(__VA_ARGS__)
#define SIM_E10(a, ...) SIM_NUM(a), SIM_E9(__VA_ARGS__)
#define SIM_E11(a, ...) SIM_NUM(a), SIM_E10(__VA_ARGS__)
#define SIM_E12(a, ...) SIM_NUM(a), SIM_E11(__VA_ARGS__)
void sim_trace_args(const uint64_t *list, size_t count);
/* Under the lock: a call begins, and how it ends. */
void sim_trace_begin(const char *name);
void sim_trace_end(int result);
void sim_trace_free(sim_state_t *state);
void sim_group_free(struct sim_group_t *group);
/* A sim_thread_t; the second when its thread ends, without the lock. */
void sim_thread_free(void *thread);
void sim_thread_ended(void *thread);
/* What the driver keeps for the calling thread; NULL without memory. */
sim_thread_t *sim_thread(void);

/* Begins a call: takes the lock, counts, injects failures. 0, or the result
   to return (the lock is then already given back). */
int sim_enter(const char *name, bool needs_init);
/* As sim_enter, and the current context into *ctx: 201 without one, its
   sticky result if it is broken. */
int sim_enter_ctx(const char *name, sim_ctx_t **ctx);
int sim_leave(int result);
/* Whether what was configured can be done; if not, says why on stderr. */
bool sim_options_usable(void);
/* Says why an option cannot be had, on stderr and for simgpu_problem; false. */
bool sim_refuse_option(const char *format, ...) TD_PRINTF(1, 2);
/* Completes the name of a call of the driver, as cuMemAlloc to cuMemAlloc_v2,
   in place; false if there is none. */
bool sim_call_name(char *name, size_t bytes);
bool sim_is_device(int device);

uint64_t sim_handle_new(sim_type_t type, void *object);
/* NULL for a handle that is dead or of another type. */
void *sim_handle_get(sim_type_t type, const void *handle);
void *sim_handle_number(sim_type_t type, uint64_t handle);
void sim_handle_drop(uint64_t handle);

sim_ctx_t *sim_current(void);
/* The device's primary context, begun if need be; NULL without memory. */
sim_ctx_t *sim_primary(int device);
/* Bytes that a device has. */
uint64_t sim_device_bytes(void);
/* Device memory that belongs to the context; NULL when full. */
sim_alloc_t *sim_device_alloc(sim_ctx_t *ctx, uint64_t bytes,
                              sim_alloc_kind_t kind);
void sim_device_free(sim_alloc_t *alloc);

/* -- pools (sim_pool.c) -- */
/* Lets go of memory that the pools of the device keep and whose frees have
   run; keeps at least so many bytes of each pool. */
void sim_pools_trim(uint32_t device, uint64_t keep);
/* After the host has waited: what lies above each pool's threshold goes. */
void sim_pools_settle(void);
/* The allocation's bytes go back to its pool: reusable after the operation
   that ends it. */
void sim_pool_give(sim_alloc_t *alloc, uint32_t lane, uint64_t seq);
void sim_pools_free(sim_state_t *state);
/* Graph memory begins. */
int sim_run_alloc(const sim_op_run_t *op);
/* The live allocation that starts at the address and is not already given
   back; NULL with a finding. */
sim_alloc_t *sim_to_release(const char *call, uint64_t address);
/* Ends memory at once. As on a device, what is queued runs before; but only
   what the host has waited for is ordered before the end, and the rest is
   judged. */
int sim_end_now(sim_ctx_t *ctx, sim_run_kind_t kind, const char *call,
                uint64_t address, uint64_t bytes);

/* -- virtual memory (sim_virtual.c) -- */
void sim_unmap(uint64_t address, uint64_t bytes);
void sim_virtual_free(sim_state_t *state);
/* Applies a right to masks of devices; false if it is none. */
bool sim_access_apply(const rcuda_access_t *access, uint64_t *readers,
                      uint64_t *writers);

/* -- copies (sim_copy.c) -- */
int sim_run_copy(const sim_op_run_t *op, sim_ctx_t *ctx);
int sim_run_fill(const sim_op_run_t *op, sim_ctx_t *ctx);
/* Both ends of a copy or the one of a fill, judged at the call, which may be
   one that adds to a graph. */
int sim_check_ranges(const sim_ctx_t *ctx, const sim_op_run_t *op,
                     bool is_graph);
int sim_copy_op(const char *name, const rcuda_copy3d_t *c, sim_op_run_t *op);
int sim_fill_op(const char *name, uint64_t dst, size_t pitch, uint32_t value,
                uint32_t element, size_t width, size_t height,
                sim_op_run_t *op);
const sim_alloc_t *sim_pinned_at(uint64_t address);
/* Counts bytes moved; NULL is the host. */
void sim_count_copy(const sim_alloc_t *from, const sim_alloc_t *to,
                    uint64_t bytes);

/* Runs an operation whose turn has come, and judges its order; a fault
   becomes the context's sticky result. *work grows by its instructions. */
void sim_run_queued(sim_queued_t *item, uint64_t *work);
/* The beginning of a launch that may begin early, up to its waits. */
void sim_run_held(sim_queued_t *item);
int sim_record_event(const void *event, const void *stream);
/* The event fires with the stream's last launch, by RCUDA_PORT_*; start: what
   comes before that launch begins. */
int sim_record_launch(const void *event, const void *stream, uint8_t port,
                      const sim_clock_t *start);
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
                    const sim_clock_t *after, const sim_clock_t *early,
                    bool *is_now);
/* The host waits for the clock, a context, or a stream (NULL: the default
   one): the sticky result of the context that it leaves behind. */
int sim_wait(uint64_t ctx, const sim_clock_t *clock);
/* The same, or 600 if a collective lacks ranks. */
int sim_try(uint64_t ctx, const sim_clock_t *clock);
int sim_wait_ctx(uint64_t ctx);
/* Runs everything of the context that other lanes hold. */
void sim_wait_others(uint64_t ctx, uint32_t lane);
uint32_t sim_lane_of_stream(const sim_ctx_t *ctx, const sim_stream_t *s);
/* The stream of a handle: NULL and the two special values are the default
   one (*out NULL). False if the handle is dead. */
bool sim_stream_of(const void *handle, sim_stream_t **out);
/* The calling thread's own stream of the current context, made by its first
   use; NULL without memory. */
sim_stream_t *sim_stream_of_thread(void);

/* -- captures (sim_graph.c) -- */
bool sim_nodes_add(sim_nodes_t *nodes, uint32_t index);
bool sim_nodes_add_port(sim_nodes_t *nodes, uint32_t index, uint8_t port);
bool sim_nodes_join(sim_nodes_t *to, const sim_nodes_t *from);
void sim_nodes_free(sim_nodes_t *nodes);
/* Adds to the graph that the stream captures; takes what op owns. */
int sim_capture(sim_stream_t *stream, const sim_op_run_t *op);
/* Memory that a graph's launches make and end: an address without storage;
   NULL without memory. */
sim_alloc_t *sim_graph_memory(const sim_ctx_t *ctx, uint32_t device,
                              uint64_t bytes);
/* Frees what the same capture allocated. */
int sim_capture_free(sim_stream_t *stream, const char *name,
                     uint64_t address);
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

/* -- collectives (sim_coll.c): an operation waits at the head of its lane
   until the other ranks' are at theirs -- */
typedef enum sim_blocked_t {
  SIM_BLOCKED_FREED, /* something changed: go on */
  SIM_BLOCKED_PENDING /* ranks are missing, and the caller does not wait */
} sim_blocked_t;
void sim_coll_free(struct sim_coll_t *coll);
struct sim_coll_t *sim_coll_copy(const struct sim_coll_t *from);
void sim_coll_ranges(const sim_op_run_t *op, sim_past_t *past);
/* The operation was queued: its parts get their numbers. */
void sim_coll_queued(sim_queued_t *item);
/* Carries out what all ranks have reached, before the clock (NULL: anywhere);
   false if nothing could be. */
bool sim_coll_advance(const sim_clock_t *clock);
/* Adds to the target what the collectives before it wait for; false if that
   is all in it already. */
bool sim_coll_widen(sim_clock_t *target);
/* Nothing before the target can run: ends a circle, or ranks that will never
   come, with a finding; else waits for other threads, if it may. */
sim_blocked_t sim_coll_blocked(const sim_clock_t *target, bool may_wait);
void sim_comms_free(sim_state_t *state);
/* Ends the thread that serves ranks of other processes; without the lock. */
void sim_remote_stop(void);
void sim_coll_json(td_buf_t *buf);
void sim_coll_reset(void);

/* Module loading and decoding. */
sim_func_t *sim_func_of(const void *handle);
int sim_decode_func(sim_func_t *func, ptx_error_t *error);

/* A finding without an instruction: of the host's calls. */
void sim_host_finding(sim_check_t id, const char *call, uint64_t address,
                      uint64_t bytes, const char *format, ...)
    TD_PRINTF(5, 6);
/* Writes what was reported since the last time. */
void sim_flush_report(void);
/* Copies with truncation; the length the whole text has, without its NUL. */
size_t sim_give_text(const td_buf_t *buf, char *out, size_t bytes);
void sim_write_record(const sim_record_t *record);

#endif
