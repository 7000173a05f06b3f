/* Communicators of the collective library, over the devices of one process or
   of several.

   A clique is a communicator as all its ranks see it, a comm is one rank's
   handle on it. A rank's call becomes a part; the parts of one communicator in
   one group become one operation (sim_coll_t) of a stream, which waits at the
   head of its lane until the parts it meets are at the heads of theirs. Parts
   meet by number: the k-th collective of every rank, the k-th send to a rank
   and its k-th receive. All of it is guarded by the driver's lock. */
#ifndef SIM_COMM_H
#define SIM_COMM_H

#include "runtime/coll/nccl_types.h"
#include "runtime/simgpu/sim_cuda.h"
#include "runtime/simgpu/sim_shm.h"

typedef enum sim_coll_op_t {
  SIM_COLL_ALL_REDUCE,
  SIM_COLL_REDUCE_SCATTER,
  SIM_COLL_ALL_GATHER,
  SIM_COLL_BROADCAST,
  SIM_COLL_REDUCE,
  SIM_COLL_ALL_TO_ALL,
  SIM_COLL_SEND,
  SIM_COLL_RECV,
  SIM_COLL_OPS
} sim_coll_op_t;

/* What is folded, and how: one of the vendor's, or a scalar before a sum. */
typedef struct sim_fold_t {
  int kind;       /* coll_nccl_op_t; OPS: the made one */
  uint64_t bits;  /* its scalar, as the dtype has it */
  uint64_t where; /* or the address of that on the device */
} sim_fold_t;

typedef struct sim_part_t {
  sim_coll_op_t op;
  int dtype;
  sim_fold_t fold;
  uint32_t peer; /* of sends and receives; the root of others */
  uint64_t count; /* as the call gave it */
  uint64_t send, recv;
  uint64_t number; /* among what it can meet, from 0 */
  bool is_done;
  /* of communicators over several processes (sim_remote.c): */
  uint64_t entry;    /* in shared memory; 0: not yet */
  bool is_entered;   /* its bytes are there */
  uint64_t compared; /* a bit a rank */
} sim_part_t;

typedef struct sim_coll_t {
  struct sim_clique_t *clique;
  uint64_t comm; /* handle */
  uint32_t rank;
  sim_part_t *parts;
  uint32_t count;
  bool is_captured;
  sim_queued_t *item; /* NULL: not queued */
  uint64_t since;     /* milliseconds, when it was first seen to wait; 0 */
  sim_clock_t brings; /* what other ranks did before: it comes before all that
                         follows here */
} sim_coll_t;

typedef struct sim_coll_stats_t {
  uint64_t calls, bytes, steps; /* sent by the rank */
} sim_coll_stats_t;

typedef struct sim_comm_t {
  uint64_t handle, ctx;
  struct sim_clique_t *clique;
  uint32_t rank, device;
  int async; /* coll_nccl_result_t */
  bool is_blocking, is_finalized;
  bool is_split_open; /* a split of it waits for other ranks */
  uint64_t splits;    /* so far */
  uint32_t registered; /* buffers */
  uint64_t collectives, *sent, *received; /* so far; by peer */
  bool has_group;   /* calls of an open group, of this thread: */
  pthread_t thread;
  sim_coll_stats_t stats[SIM_COLL_OPS];
  char error[240]; /* the newest, as text */
} sim_comm_t;

/* A split that some ranks have called. */
typedef struct sim_split_t {
  int *colors, *keys; /* by rank of the parent */
  uint64_t *comms;    /* handles of the children made */
  coll_nccl_comm_t ***out;
  bool *is_here;
  uint32_t arrived;
} sim_split_t;

typedef struct sim_clique_t {
  uint32_t number; /* from 1, in order of creation */
  char id[COLL_NCCL_ID_BYTES];
  uint32_t size, arrived;
  uint64_t *comms; /* handles by rank; 0: not there yet */
  uint32_t *devices;
  bool *is_gone;   /* ranks that ended */
  bool is_broken;  /* its ranks disagree: nothing runs any more */
  sim_coll_t **queued; /* in order of queueing */
  uint32_t queued_count, queued_capacity;
  sim_split_t split;
  sim_shm_t *shm; /* where ranks of other processes are, or are waited for */
  bool is_shared; /* some are */
  bool has_no_shm; /* nothing but ranks of this process can come */
} sim_clique_t;

/* One of an open group, or alone. */
typedef struct sim_group_call_t {
  uint64_t comm;
  sim_part_t part;
  const void *stream;
} sim_group_call_t;

typedef struct sim_group_t {
  uint32_t depth;
  int error; /* the first of its calls */
  sim_group_call_t *calls;
  uint32_t count, capacity;
  uint64_t *made; /* handles of communicators begun in it */
  uint32_t made_count, made_capacity;
  uint32_t splits; /* begun in it */
  uint64_t split_of; /* handle of the last one's parent */
} sim_group_t;

/* -- exported, under the vendor's names, each twice: with the letter p for
   those who put a function of their own before it -- */
#define SIM_NCCL_ALIAS(name)                                                  \
  extern __typeof__(nccl##name) pnccl##name                                   \
      __attribute__((alias("nccl" #name), visibility("default")));
int ncclGetVersion(int *out);
int ncclGetUniqueId(coll_nccl_id_t *out);
const char *ncclGetErrorString(int code);
const char *ncclGetLastError(coll_nccl_comm_t *handle);
int ncclCommInitRank(coll_nccl_comm_t **out, int n, coll_nccl_id_t id, int
    rank);
int ncclCommInitRankConfig(coll_nccl_comm_t **out, int n, coll_nccl_id_t id,
    int rank, coll_nccl_config_t *config);
int ncclCommInitAll(coll_nccl_comm_t **out, int n, const int *devices);
int ncclCommSplit(coll_nccl_comm_t *handle, int color, int key,
    coll_nccl_comm_t **out, coll_nccl_config_t *config);
int ncclCommFinalize(coll_nccl_comm_t *handle);
int ncclCommDestroy(coll_nccl_comm_t *handle);
int ncclCommAbort(coll_nccl_comm_t *handle);
int ncclCommGetAsyncError(coll_nccl_comm_t *handle, int *out);
int ncclCommCount(const coll_nccl_comm_t *handle, int *out);
int ncclCommUserRank(const coll_nccl_comm_t *handle, int *out);
int ncclCommCuDevice(const coll_nccl_comm_t *handle, int *out);
int ncclRedOpCreatePreMulSum(int *out, void *scalar, int dtype, int residence,
    coll_nccl_comm_t *handle);
int ncclRedOpDestroy(int number, coll_nccl_comm_t *handle);
int ncclMemAlloc(void **out, size_t bytes);
int ncclMemFree(void *p);
int ncclCommRegister(const coll_nccl_comm_t *handle, void *p, size_t bytes,
    void **out);
int ncclCommDeregister(const coll_nccl_comm_t *handle, void *registered);
int ncclAllReduce(const void *send, void *recv, size_t count, int dtype, int
    op, coll_nccl_comm_t *comm, rcuda_stream_t *stream);
int ncclReduceScatter(const void *send, void *recv, size_t count, int dtype,
    int op, coll_nccl_comm_t *comm, rcuda_stream_t *stream);
int ncclAllGather(const void *send, void *recv, size_t count, int dtype,
    coll_nccl_comm_t *comm, rcuda_stream_t *stream);
int ncclBroadcast(const void *send, void *recv, size_t count, int dtype, int
    root, coll_nccl_comm_t *comm, rcuda_stream_t *stream);
int ncclBcast(void *p, size_t count, int dtype, int root, coll_nccl_comm_t
    *comm, rcuda_stream_t *stream);
int ncclReduce(const void *send, void *recv, size_t count, int dtype, int op,
    int root, coll_nccl_comm_t *comm, rcuda_stream_t *stream);
int ncclAlltoAll(const void *send, void *recv, size_t count, int dtype,
    coll_nccl_comm_t *comm, rcuda_stream_t *stream);
int ncclSend(const void *send, size_t count, int dtype, int peer,
    coll_nccl_comm_t *comm, rcuda_stream_t *stream);
int ncclRecv(void *recv, size_t count, int dtype, int peer, coll_nccl_comm_t
    *comm, rcuda_stream_t *stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(coll_nccl_sim_t *info);

/* A reduction by its number; false if it is none of the communicator. */
bool sim_fold_of(const sim_comm_t *comm, int number, int dtype,
                 sim_fold_t *out);
sim_comm_t *sim_comm_of(const void *handle);
/* Enters a call on a usable communicator; 0, or the result to return. */
int sim_enter_comm(const char *name, const void *handle, sim_comm_t **out);
/* The result, remembered as the communicator's newest error. */
int sim_comm_fail(sim_comm_t *comm, int code, const char *format, ...)
    TD_PRINTF(3, 4);
/* One more rank of the id's communicator, in the context. */
int sim_comm_begin(coll_nccl_comm_t **out, uint32_t size,
                   const coll_nccl_id_t *id, uint32_t rank, sim_ctx_t *ctx);
/* Waits until all ranks of it are there. */
int sim_comm_await(uint64_t handle);
int sim_split_await(uint64_t parent);
/* The group of the calling thread; NULL without memory. */
sim_group_t *sim_group(void);
const char *sim_coll_name(sim_coll_op_t op);
const char *sim_dtype_name(int dtype);
uint32_t sim_dtype_bytes(int dtype);
/* Bytes that the part reads and writes at its rank. */
uint64_t sim_part_send_bytes(const sim_part_t *p, uint32_t rank,
                             uint32_t size);
uint64_t sim_part_recv_bytes(const sim_part_t *p, uint32_t rank,
                             uint32_t size);

/* Carries out one collective (parts by rank) or one transfer (a send and its
   receive): 0, or the driver's result. */
int sim_coll_move(sim_clique_t *clique, sim_part_t *const *parts);
int sim_coll_transfer(sim_clique_t *clique, const sim_coll_t *from,
                      const sim_part_t *send, const sim_coll_t *to,
                      const sim_part_t *recv);
/* Folds the elements that lie at in[0..n) by rank into out; a made operator
   has a scalar for each rank. chunk: its place in a ring. */
void sim_fold_elements(uint8_t *out, const uint8_t *const *in, uint32_t n,
                       int dtype, const sim_fold_t *const *folds,
                       uint64_t count, uint64_t chunk_elements,
                       uint32_t first_chunk);
/* Counts what the part sends; see sim_coll_count.c. */
void sim_coll_count_part(const sim_clique_t *clique, uint32_t rank,
                         const sim_part_t *part);
/* Adds the call to the record. */
void sim_coll_record(const sim_comm_t *comm, const sim_part_t *part,
                     const void *stream, uint32_t depth);
/* A finding of the family coll. */
void sim_coll_finding(sim_check_t id, const char *call, const char *format,
                      ...) TD_PRINTF(3, 4);
/* Two communicators in different orders on two devices. */
void sim_coll_judge_order(const sim_coll_t *coll);
/* The part is carried out: what the other rank did before it comes before what
   this one does after, if the part tells it so. */
void sim_coll_hear(sim_coll_t *coll, const sim_part_t *part,
                   const sim_coll_t *other);
uint64_t sim_now_ms(void);
/* Sleeps until something changes or the time comes; false after it. */
bool sim_sleep_until(uint64_t ms);
void sim_coll_unqueue(sim_coll_t *coll);
/* All ranks are there. */
bool sim_clique_is_complete(const sim_clique_t *clique);

/* -- what sim_coll.c and sim_remote.c share -- */
static inline bool sim_part_is_pair(const sim_part_t *p) {
  return p->op == SIM_COLL_SEND || p->op == SIM_COLL_RECV;
}
/* The ranks that the part meets, beside its own: [*first, *end). */
void sim_coll_meets(const sim_coll_t *coll, const sim_part_t *part,
                    uint32_t *first, uint32_t *end);
/* The queued part of a rank of this process that meets the given one; NULL if
   it has not come. *owner: its operation. */
sim_part_t *sim_coll_partner(const sim_coll_t *coll, const sim_part_t *part,
                             uint32_t rank, sim_coll_t **owner);
/* False, with a finding, if the part of a rank that it meets says something
   else. */
bool sim_coll_agrees(const sim_coll_t *coll, const sim_part_t *part,
                     uint32_t rank, const sim_part_t *other,
                     bool is_captured);
/* Collectives of one operation go in order. */
bool sim_coll_is_next(const sim_coll_t *coll, const sim_part_t *part);
void sim_coll_part_done(sim_coll_t *coll, sim_part_t *part);
/* The head of a lane, if it is a collective before the clock (NULL: any). */
sim_coll_t *sim_coll_head(uint32_t lane, const sim_clock_t *clock);
/* Bytes at an address that the rank sends; NULL with a finding. */
const uint8_t *sim_coll_source(uint64_t address, uint64_t bytes,
                               uint32_t rank);
bool sim_coll_deliver(uint64_t address, const uint8_t *from, uint64_t bytes);
bool sim_coll_read_scalar(sim_part_t *part);
/* What the rank receives from the parts of all ranks and their bytes. */
void sim_coll_result(uint8_t *out, const uint8_t *const *in,
                     sim_part_t *const *parts, uint32_t ranks,
                     uint32_t rank);

/* -- ranks in other processes (sim_remote.c) -- */
/* The clique has no rank of its own missing but of others: looks for them.
   0, or why not. */
int sim_remote_join(sim_clique_t *clique);
/* A rank of this process ends. */
void sim_remote_leave(sim_clique_t *clique, uint32_t rank);
void sim_remote_drop(sim_clique_t *clique);
/* The operation was queued: tells the others. */
void sim_remote_queued(sim_coll_t *coll);
/* Goes on with an operation at the head of its lane: true if it could. */
bool sim_remote_run(sim_coll_t *coll);
/* Looks whether others have found a fault, and says what is held back. */
void sim_remote_poll(sim_clique_t *clique);
/* The first unfinished part that lacks a rank; gone: one that has ended. */
const sim_part_t *sim_remote_lacks(const sim_coll_t *coll, bool gone,
                                   uint32_t *rank);
/* Reports a circle through the operation, and ends what is in it. */
bool sim_remote_circle(sim_coll_t *coll);
/* All queues of the communicator, as text. */
void sim_remote_queues(const sim_clique_t *clique, td_buf_t *buf);
void sim_remote_name_missing(const sim_clique_t *clique, td_buf_t *buf);
/* A rank elsewhere has come to what the operation waits behind others for. */
bool sim_remote_is_wanted(const sim_coll_t *coll);
/* Begins the thread that serves such ranks, if it is not there. */
void sim_remote_start(void);
/* The calling rank's split: 0 when done, IN_PROGRESS, or why not. */
int sim_remote_split(sim_comm_t *comm);

#endif
