/* Exported nccl* functions: collectives, sends and receives, and the groups
   that hold them. A call outside a group is a group of its own. Arguments and
   buffers are judged at the call; the parts of one communicator become one
   operation at the group's end, behind every stream that they name. */
#include "runtime/simgpu/sim_comm.h"

#include <stdlib.h>

#define ADDRESS(p) ((uint64_t)(uintptr_t)(p))

sim_group_t *sim_group(void) {
  sim_thread_t *t = sim_thread();
  if (t && !t->group) t->group = calloc(1, sizeof *t->group);
  return t ? t->group : NULL;
}

void sim_group_free(sim_group_t *g) {
  if (!g) return;
  free(g->calls);
  free(g->made);
  free(g);
}

/* -- arguments -- */

uint64_t sim_part_send_bytes(const sim_part_t *p, uint32_t rank,
                             uint32_t size) {
  uint64_t n = p->count * sim_dtype_bytes(p->dtype);
  switch (p->op) {
  case SIM_COLL_REDUCE_SCATTER:
  case SIM_COLL_ALL_TO_ALL: return n * size;
  case SIM_COLL_BROADCAST: return rank == p->peer ? n : 0;
  case SIM_COLL_RECV: return 0;
  case SIM_COLL_ALL_REDUCE:
  case SIM_COLL_ALL_GATHER:
  case SIM_COLL_REDUCE:
  case SIM_COLL_SEND:
  case SIM_COLL_OPS: break;
  }
  return n;
}

uint64_t sim_part_recv_bytes(const sim_part_t *p, uint32_t rank,
                             uint32_t size) {
  uint64_t n = p->count * sim_dtype_bytes(p->dtype);
  switch (p->op) {
  case SIM_COLL_ALL_GATHER:
  case SIM_COLL_ALL_TO_ALL: return n * size;
  case SIM_COLL_REDUCE: return rank == p->peer ? n : 0;
  case SIM_COLL_SEND: return 0;
  case SIM_COLL_ALL_REDUCE:
  case SIM_COLL_REDUCE_SCATTER:
  case SIM_COLL_BROADCAST:
  case SIM_COLL_RECV:
  case SIM_COLL_OPS: break;
  }
  return n;
}

/* One side of a part: inside one live allocation that the rank's device may
   use. */
static bool judge_buffer(const char *name, const sim_comm_t *comm,
                         uint64_t address, uint64_t bytes, bool is_write) {
  const sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, address);
  const sim_ctx_t *ctx = sim_handle_number(SIM_TYPE_CTX, comm->ctx);
  const char *side = is_write ? "receive" : "send";
  if (!a || (!a->is_live && !a->is_kept))
    sim_coll_finding(SIM_CHECK_COLL_BUFFER, name,
                     "rank %u: the %s buffer is in no live allocation",
                     comm->rank, side);
  else if (address - a->address + bytes > a->bytes)
    sim_coll_finding(SIM_CHECK_COLL_BUFFER, name,
                     "rank %u: %llu bytes of the %s buffer end %llu beyond "
                     "allocation %u",
                     comm->rank, (unsigned long long)bytes, side,
                     (unsigned long long)(address - a->address + bytes -
                                          a->bytes),
                     a->id);
  else if (!ctx || !sim_alloc_may(a, comm->device, ctx->peers, is_write))
    sim_coll_finding(SIM_CHECK_COLL_BUFFER, name,
                     "rank %u on device %u: the %s buffer is on device %u",
                     comm->rank, comm->device, side, a->device);
  else
    return true;
  return false;
}

/* Where in place is defined for the two: at this distance only. */
static bool is_in_place(const sim_part_t *p, uint32_t rank) {
  uint64_t own = p->count * sim_dtype_bytes(p->dtype) * rank;
  switch (p->op) {
  case SIM_COLL_ALL_REDUCE:
  case SIM_COLL_REDUCE:
  case SIM_COLL_BROADCAST: return p->send == p->recv;
  case SIM_COLL_ALL_GATHER: return p->send == p->recv + own;
  case SIM_COLL_REDUCE_SCATTER: return p->recv == p->send + own;
  case SIM_COLL_ALL_TO_ALL:
  case SIM_COLL_SEND:
  case SIM_COLL_RECV:
  case SIM_COLL_OPS: break;
  }
  return false;
}

static bool judge_buffers(const char *name, const sim_comm_t *comm,
                          const sim_part_t *p) {
  uint32_t size = comm->clique->size;
  uint64_t out = sim_part_send_bytes(p, comm->rank, size);
  uint64_t in = sim_part_recv_bytes(p, comm->rank, size);
  if ((out && !judge_buffer(name, comm, p->send, out, false)) ||
      (in && !judge_buffer(name, comm, p->recv, in, true)))
    return false;
  if (!out || !in || p->send >= p->recv + in || p->recv >= p->send + out ||
      is_in_place(p, comm->rank))
    return true;
  sim_coll_finding(SIM_CHECK_COLL_BUFFER, name,
                   "rank %u: send and receive buffers overlap, and not as "
                   "in place",
                   comm->rank);
  return false;
}

static int judge(const char *name, sim_comm_t *comm, const sim_part_t *p,
                 bool folds, int op, const void *stream, sim_fold_t *fold) {
  sim_stream_t *s;
  uint32_t size = comm->clique->size;
  if (!sim_clique_is_complete(comm->clique))
    return sim_comm_fail(comm, COLL_NCCL_INVALID_ARGUMENT,
                         "%s before the communicator is ready", name);
  if (comm->is_finalized)
    return sim_comm_fail(comm, COLL_NCCL_INVALID_USAGE,
                         "%s on a finalized communicator", name);
  if (p->dtype < 0 || p->dtype >= COLL_NCCL_DTYPES || p->peer >= size ||
      p->count > UINT64_MAX / 8 / size)
    return sim_comm_fail(comm, COLL_NCCL_INVALID_ARGUMENT,
                         "%s: dtype %d, root or peer %u, count %llu", name,
                         p->dtype, p->peer, (unsigned long long)p->count);
  if (folds && !sim_fold_of(comm, op, p->dtype, fold))
    return sim_comm_fail(comm, COLL_NCCL_INVALID_ARGUMENT,
                         "%s: no reduction %d of %s", name, op,
                         sim_dtype_name(p->dtype));
  if (!sim_stream_of(stream, &s))
    return sim_comm_fail(comm, COLL_NCCL_CUDA_ERROR, "%s: a dead stream",
                         name);
  const sim_ctx_t *ctx = sim_handle_number(SIM_TYPE_CTX, comm->ctx);
  if (!ctx || ctx->sticky)
    return sim_comm_fail(comm, COLL_NCCL_CUDA_ERROR, "%s: a broken context",
                         name);
  if (s && s->ctx != comm->ctx)
    return sim_comm_fail(comm, COLL_NCCL_INVALID_ARGUMENT,
                         "%s: a stream of another context", name);
  return judge_buffers(name, comm, p)
             ? 0
             : sim_comm_fail(comm, COLL_NCCL_INVALID_ARGUMENT,
                             "%s: a bad buffer", name);
}

/* -- from a group to operations -- */

/* Queues the operation behind every stream that its calls name. */
static int submit(sim_comm_t *comm, sim_op_run_t *op,
                  const sim_group_t *g) {
  sim_ctx_t *ctx = sim_handle_number(SIM_TYPE_CTX, comm->ctx);
  sim_stream_t *first = NULL, *s;
  bool has_first = false, ok = true;
  uint32_t lane = 0;
  sim_clock_t after = {0};
  for (uint32_t pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; ok && i < g->count; i++) {
      if (g->calls[i].comm != comm->handle) continue;
      if (!sim_stream_of(g->calls[i].stream, &s)) continue;
      if (pass == 0 && !has_first) {
        first = s;
        has_first = true;
        lane = sim_lane_of_stream(ctx, s);
      } else if (s == first) {
        continue;
      } else if (first && first->graph) {
        /* one node, after all of them and before what follows in each */
        if (s && s->graph == first->graph) {
          if (pass == 0)
            ok = sim_nodes_join(&first->last, &s->last);
          else
            s->last.count = 0,
            ok = sim_nodes_join(&s->last, &first->last);
        }
      } else {
        uint32_t other = sim_lane_of_stream(ctx, s);
        const sim_clock_t *mine = &sim_lane_of(lane)->clock;
        if (pass == 0)
          ok = sim_clock_join(&after, &sim_lane_of(other)->clock);
        else
          ok = sim_lane_join(other, mine, mine);
      }
    }
    if (pass == 1) break;
    op->ctx = comm->ctx;
    op->call = sim_state()->calls;
    op->coll->is_captured = first && first->graph;
    int code = !ok                     ? RCUDA_OUT_OF_MEMORY
               : first && first->graph ? sim_capture(first, op)
                                       : sim_queue_add(lane, op, &after, NULL);
    sim_clock_free(&after);
    if (code) return COLL_NCCL_CUDA_ERROR;
    if (first) first->polls = 1;
  }
  return ok ? 0 : COLL_NCCL_SYSTEM_ERROR;
}

/* All calls of one communicator. */
static int launch(sim_comm_t *comm, const sim_group_t *g, const char *name) {
  sim_coll_t *coll = calloc(1, sizeof *coll);
  if (coll) coll->parts = calloc(g->count, sizeof *coll->parts);
  if (!coll || !coll->parts) {
    free(coll);
    return COLL_NCCL_SYSTEM_ERROR;
  }
  coll->clique = comm->clique;
  coll->comm = comm->handle;
  coll->rank = comm->rank;
  for (uint32_t i = 0; i < g->count; i++)
    if (g->calls[i].comm == comm->handle)
      coll->parts[coll->count++] = g->calls[i].part;
  comm->has_group = false;
  sim_op_run_t op = {.kind = SIM_RUN_COLL, .name = name, .coll = coll};
  return submit(comm, &op, g);
}

static int launch_all(sim_group_t *g, const char *name) {
  int code = 0;
  for (uint32_t i = 0; !code && i < g->count; i++) {
    bool is_first = true;
    for (uint32_t k = 0; k < i; k++)
      if (g->calls[k].comm == g->calls[i].comm) is_first = false;
    sim_comm_t *comm = sim_handle_number(SIM_TYPE_COMM, g->calls[i].comm);
    if (comm && is_first) code = launch(comm, g, name);
  }
  return code;
}

/* Forgets the calls; the communicators are free for other threads. */
static void empty(sim_group_t *g) {
  for (uint32_t i = 0; i < g->count; i++) {
    sim_comm_t *comm = sim_handle_number(SIM_TYPE_COMM, g->calls[i].comm);
    if (comm) comm->has_group = false;
  }
  g->count = g->made_count = g->splits = 0;
  g->error = 0;
}

/* Its number among what it can meet; a capture's is that of a launch now. */
static uint64_t number_of(const sim_group_t *g, const sim_comm_t *comm,
                          const sim_part_t *part) {
  bool is_send = part->op == SIM_COLL_SEND;
  bool is_pair = is_send || part->op == SIM_COLL_RECV;
  uint64_t n = is_send   ? comm->sent[part->peer]
               : is_pair ? comm->received[part->peer]
                         : comm->collectives;
  for (uint32_t i = 0; i < g->count; i++) {
    const sim_part_t *p = &g->calls[i].part;
    if (g->calls[i].comm != comm->handle) continue;
    n += is_pair ? p->op == part->op && p->peer == part->peer
                 : p->op != SIM_COLL_SEND && p->op != SIM_COLL_RECV;
  }
  return n;
}

static bool keep(sim_group_t *g, sim_comm_t *comm, const sim_part_t *part,
                 const void *stream) {
  if (g->count == g->capacity) {
    uint32_t capacity = g->capacity ? g->capacity * 2 : 16;
    sim_group_call_t *calls = realloc(g->calls, capacity * sizeof *calls);
    if (!calls) return false;
    g->calls = calls;
    g->capacity = capacity;
  }
  sim_group_call_t call = {comm->handle, *part, stream};
  g->calls[g->count++] = call;
  comm->has_group = true;
  comm->thread = pthread_self();
  return true;
}

/* -- the calls -- */

static int call(const char *name, sim_part_t part, int op, bool folds,
                const void *handle, const void *stream) {
  sim_comm_t *comm;
  int code = sim_enter_comm(name, handle, &comm);
  sim_group_t *g = sim_group();
  if (code) {
    if (g && g->depth && !g->error) g->error = code;
    return code;
  }
  if (!g) return sim_leave(COLL_NCCL_SYSTEM_ERROR);
  if (comm->has_group && !pthread_equal(comm->thread, pthread_self()))
    sim_coll_finding(SIM_CHECK_COLL_ORDER, name,
                     "communicator %u, rank %u: used while another thread's "
                     "group holds calls of it",
                     comm->clique->number, comm->rank);
  code = judge(name, comm, &part, folds, op, stream, &part.fold);
  if (!code) part.number = number_of(g, comm, &part);
  if (!code && !keep(g, comm, &part, stream)) code = COLL_NCCL_SYSTEM_ERROR;
  if (!code) sim_coll_record(comm, &part, stream, g->depth);
  if (g->depth) {
    if (code && !g->error) g->error = code;
    return sim_leave(code);
  }
  if (!code) code = launch_all(g, name);
  empty(g);
  return sim_leave(code);
}

#define PART(id, n, t, to, from, into)                                        \
  (sim_part_t) {                                                              \
    .op = SIM_COLL_##id, .count = n, .dtype = t, .peer = (uint32_t)(to),      \
    .send = ADDRESS(from), .recv = ADDRESS(into)                              \
  }

SIM_EXPORT int ncclAllReduce(const void *send, void *recv, size_t count,
                             int dtype, int op, coll_nccl_comm_t *comm,
                             rcuda_stream_t *stream) {
  SIM_ARGS(send, recv, count, dtype, op, comm, stream);
  return call("ncclAllReduce",
              PART(ALL_REDUCE, count, dtype, 0, send, recv), op, true, comm,
              stream);
}

SIM_EXPORT int ncclReduceScatter(const void *send, void *recv, size_t count,
                                 int dtype, int op, coll_nccl_comm_t *comm,
                                 rcuda_stream_t *stream) {
  SIM_ARGS(send, recv, count, dtype, op, comm, stream);
  return call("ncclReduceScatter",
              PART(REDUCE_SCATTER, count, dtype, 0, send, recv), op, true,
              comm, stream);
}

SIM_EXPORT int ncclAllGather(const void *send, void *recv, size_t count,
                             int dtype, coll_nccl_comm_t *comm,
                             rcuda_stream_t *stream) {
  SIM_ARGS(send, recv, count, dtype, comm, stream);
  return call("ncclAllGather",
              PART(ALL_GATHER, count, dtype, 0, send, recv), 0, false, comm,
              stream);
}

SIM_EXPORT int ncclBroadcast(const void *send, void *recv, size_t count,
                             int dtype, int root, coll_nccl_comm_t *comm,
                             rcuda_stream_t *stream) {
  SIM_ARGS(send, recv, count, dtype, root, comm, stream);
  return call("ncclBroadcast",
              PART(BROADCAST, count, dtype, root, send, recv), 0, false, comm,
              stream);
}

SIM_EXPORT int ncclBcast(void *p, size_t count, int dtype, int root,
                         coll_nccl_comm_t *comm, rcuda_stream_t *stream) {
  SIM_ARGS(p, count, dtype, root, comm, stream);
  return call("ncclBcast", PART(BROADCAST, count, dtype, root, p, p), 0,
              false, comm, stream);
}

SIM_EXPORT int ncclReduce(const void *send, void *recv, size_t count,
                          int dtype, int op, int root,
                          coll_nccl_comm_t *comm, rcuda_stream_t *stream) {
  SIM_ARGS(send, recv, count, dtype, op, root, comm, stream);
  return call("ncclReduce", PART(REDUCE, count, dtype, root, send, recv), op,
              true, comm, stream);
}

SIM_EXPORT int ncclAlltoAll(const void *send, void *recv, size_t count,
                            int dtype, coll_nccl_comm_t *comm,
                            rcuda_stream_t *stream) {
  SIM_ARGS(send, recv, count, dtype, comm, stream);
  return call("ncclAlltoAll",
              PART(ALL_TO_ALL, count, dtype, 0, send, recv), 0, false, comm,
              stream);
}

SIM_EXPORT int ncclSend(const void *send, size_t count, int dtype, int peer,
                        coll_nccl_comm_t *comm, rcuda_stream_t *stream) {
  SIM_ARGS(send, count, dtype, peer, comm, stream);
  return call("ncclSend", PART(SEND, count, dtype, peer, send, NULL), 0,
              false, comm, stream);
}

SIM_EXPORT int ncclRecv(void *recv, size_t count, int dtype, int peer,
                        coll_nccl_comm_t *comm, rcuda_stream_t *stream) {
  SIM_ARGS(recv, count, dtype, peer, comm, stream);
  return call("ncclRecv", PART(RECV, count, dtype, peer, NULL, recv), 0,
              false, comm, stream);
}

/* -- groups -- */

SIM_EXPORT int ncclGroupStart(void) {
  int code = sim_enter("ncclGroupStart", false);
  if (code) return code;
  sim_group_t *g = sim_group();
  if (g) g->depth++;
  return sim_leave(g ? 0 : COLL_NCCL_SYSTEM_ERROR);
}

/* One level less. 0 and *is_last, or the result of a call too many. */
static int close_group(const char *name, sim_group_t **out, bool *is_last) {
  int code = sim_enter(name, false);
  if (code) return code;
  sim_group_t *g = sim_group();
  *out = g;
  if (!g) return sim_leave(COLL_NCCL_SYSTEM_ERROR);
  if (!g->depth) {
    sim_coll_finding(SIM_CHECK_COLL_GROUP, name, "no group is open");
    return sim_leave(COLL_NCCL_INVALID_USAGE);
  }
  *is_last = --g->depth == 0;
  return 0;
}

SIM_EXPORT int ncclGroupEnd(void) {
  sim_group_t *g;
  bool is_last;
  int code = close_group("ncclGroupEnd", &g, &is_last);
  if (code) return code;
  if (!is_last) return sim_leave(g->error);
  code = g->error;
  if (!code && g->count && g->made_count) {
    sim_coll_finding(SIM_CHECK_COLL_GROUP, "ncclGroupEnd",
                     "communicators are begun and used in one group");
    code = COLL_NCCL_INVALID_USAGE;
  }
  if (!code) code = launch_all(g, "ncclGroupEnd");
  /* waiting gives the lock away: the lists must not be the thread's then */
  sim_group_t mine = *g;
  g->made = NULL;
  g->made_capacity = 0;
  empty(g);
  for (uint32_t i = 0; i < mine.made_count; i++) {
    int one = sim_comm_await(mine.made[i]);
    if (!code) code = one;
  }
  if (!code && mine.splits) code = sim_split_await(mine.split_of);
  free(mine.made);
  return sim_leave(code);
}

/* There is no clock here, so the estimate stays what the vendor's library
   writes for "not known". Nothing of the group is carried out. */
SIM_EXPORT int ncclGroupSimulateEnd(coll_nccl_sim_t *info) {
  SIM_ARGS(info);
  sim_group_t *g;
  bool is_last;
  int code = close_group("ncclGroupSimulateEnd", &g, &is_last);
  if (code) return code;
  if (info && info->magic != COLL_NCCL_SIM_MAGIC)
    code = COLL_NCCL_INVALID_ARGUMENT;
  if (info && !code) info->estimated_us = -1.0f;
  if (!code) code = g->error;
  if (is_last) empty(g);
  return sim_leave(code);
}

SIM_NCCL_ALIAS(AllReduce)
SIM_NCCL_ALIAS(ReduceScatter)
SIM_NCCL_ALIAS(AllGather)
SIM_NCCL_ALIAS(Broadcast)
SIM_NCCL_ALIAS(Bcast)
SIM_NCCL_ALIAS(Reduce)
SIM_NCCL_ALIAS(AlltoAll)
SIM_NCCL_ALIAS(Send)
SIM_NCCL_ALIAS(Recv)
SIM_NCCL_ALIAS(GroupStart)
SIM_NCCL_ALIAS(GroupEnd)
SIM_NCCL_ALIAS(GroupSimulateEnd)
