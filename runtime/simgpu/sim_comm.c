/* Exported nccl* functions: communicators, from the unique id to the end, and
   what belongs to one: registered buffers, made operators, errors.

   Ranks are host threads of one process, one thread with a group, or processes.
   A call that needs the other ranks joins their clique first and then waits,
   outside a group at once, inside one at its end. Whoever waits looks for
   ranks of other processes too (sim_remote.c). */
#define _GNU_SOURCE 1 /* getrandom */

#include "runtime/simgpu/sim_comm.h"

#include <stdlib.h>
#include <sys/random.h>

#define ID_MAGIC "tdsl simulated collectives"

SIM_EXPORT int ncclGetVersion(int *out) {
  SIM_ARGS(out);
  int code = sim_enter("ncclGetVersion", false);
  if (code) return code;
  if (out) *out = 22809;
  return sim_leave(out ? 0 : COLL_NCCL_INVALID_ARGUMENT);
}

SIM_EXPORT int ncclGetUniqueId(coll_nccl_id_t *out) {
  SIM_ARGS(out);
  int code = sim_enter("ncclGetUniqueId", false);
  if (code) return code;
  if (!out) return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  memset(out, 0, sizeof *out);
  uint64_t random[2] = {0}; /* no other process, before or after, has it */
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return sim_leave(COLL_NCCL_SYSTEM_ERROR);
  td_buf_t buf;
  td_buf_init_fixed(&buf, out->bytes, sizeof out->bytes);
  td_buf_printf(&buf, ID_MAGIC " %llu %llx %llx",
                (unsigned long long)++sim_state()->unique_ids,
                (unsigned long long)random[0], (unsigned long long)random[1]);
  return sim_leave(0);
}

SIM_EXPORT const char *ncclGetErrorString(int code) {
  static const char *const texts[COLL_NCCL_RESULTS] = {
      "no error",
      "unhandled cuda error",
      "unhandled system error",
      "internal error",
      "invalid argument",
      "invalid usage",
      "remote process exited or there was a network error",
      "NCCL operation in progress"};
  return code >= 0 && code < COLL_NCCL_RESULTS ? texts[code]
                                               : "unknown result code";
}

sim_comm_t *sim_comm_of(const void *handle) {
  return sim_handle_get(SIM_TYPE_COMM, handle);
}

/* Of a communicator, or of any; lives until the next error. */
SIM_EXPORT const char *ncclGetLastError(coll_nccl_comm_t *handle) {
  SIM_ARGS(handle);
  if (sim_enter("ncclGetLastError", false)) return "";
  sim_state_t *s = sim_state();
  const sim_comm_t *comm = sim_comm_of(handle);
  const char *text = comm ? comm->error : s->coll_error;
  sim_leave(0);
  return text;
}

int sim_comm_fail(sim_comm_t *comm, int code, const char *format, ...) {
  sim_state_t *s = sim_state();
  td_buf_t buf;
  va_list args;
  td_buf_init_fixed(&buf, s->coll_error, sizeof s->coll_error);
  va_start(args, format);
  td_buf_vprintf(&buf, format, args);
  va_end(args);
  if (comm) memcpy(comm->error, s->coll_error, sizeof comm->error);
  return code;
}

bool sim_clique_is_complete(const sim_clique_t *c) {
  return c->arrived == c->size || c->is_shared;
}

int sim_enter_comm(const char *name, const void *handle, sim_comm_t **out) {
  int code = sim_enter(name, false);
  if (code) return code;
  sim_comm_t *comm = sim_comm_of(handle);
  *out = comm;
  if (!comm)
    return sim_leave(sim_comm_fail(NULL, COLL_NCCL_INVALID_ARGUMENT,
                                   "%s: no such communicator", name));
  if (comm->async && comm->async != COLL_NCCL_IN_PROGRESS)
    return sim_leave(comm->async);
  return 0;
}

/* -- cliques -- */

static void free_clique(sim_clique_t *c) {
  sim_shm_close(c->shm);
  free(c->comms);
  free(c->devices);
  free(c->is_gone);
  free(c->queued);
  free(c->split.colors);
  free(c->split.keys);
  free(c->split.comms);
  free(c->split.out);
  free(c->split.is_here);
  free(c);
}

static sim_clique_t *new_clique(uint32_t size, const coll_nccl_id_t *id) {
  sim_state_t *s = sim_state();
  sim_clique_t *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->size = size;
  c->comms = calloc(size, sizeof *c->comms);
  c->devices = calloc(size, sizeof *c->devices);
  c->is_gone = calloc(size, sizeof *c->is_gone);
  c->split.colors = calloc(size, sizeof(int));
  c->split.keys = calloc(size, sizeof(int));
  c->split.comms = calloc(size, sizeof(uint64_t));
  c->split.out = calloc(size, sizeof(coll_nccl_comm_t **));
  c->split.is_here = calloc(size, sizeof(bool));
  sim_clique_t **list =
      realloc(s->cliques, (s->clique_count + 1u) * sizeof *list);
  if (list) s->cliques = list;
  if (!c->comms || !c->devices || !c->is_gone || !c->split.colors ||
      !c->split.keys || !c->split.comms || !c->split.out ||
      !c->split.is_here || !list) {
    free_clique(c);
    return NULL;
  }
  if (id) memcpy(c->id, id->bytes, sizeof c->id);
  s->cliques[s->clique_count++] = c;
  c->number = s->clique_count;
  return c;
}

static sim_clique_t *find_clique(const coll_nccl_id_t *id) {
  const sim_state_t *s = sim_state();
  for (uint32_t i = 0; i < s->clique_count; i++)
    if (!sim_clique_is_complete(s->cliques[i]) &&
        memcmp(s->cliques[i]->id, id->bytes, sizeof id->bytes) == 0)
      return s->cliques[i];
  return NULL;
}

static void free_comm(sim_comm_t *comm) {
  sim_handle_drop(comm->handle);
  free(comm->sent);
  free(comm->received);
  free(comm);
}

void sim_comms_free(sim_state_t *s) {
  for (size_t i = 0; i < s->slot_count; i++)
    if (s->slots[i].object && s->slots[i].type == SIM_TYPE_COMM)
      free_comm(s->slots[i].object);
  for (uint32_t i = 0; i < s->clique_count; i++) free_clique(s->cliques[i]);
  free(s->cliques);
  s->cliques = NULL;
  s->clique_count = 0;
  sim_coll_reset();
}

/* One more rank of it; NULL without memory. */
static sim_comm_t *join(sim_clique_t *c, uint32_t rank, sim_ctx_t *ctx) {
  sim_comm_t *comm = calloc(1, sizeof *comm);
  if (!comm) return NULL;
  comm->sent = calloc(c->size, sizeof *comm->sent);
  comm->received = calloc(c->size, sizeof *comm->received);
  if (comm->sent && comm->received)
    comm->handle = sim_handle_new(SIM_TYPE_COMM, comm);
  if (!comm->handle) {
    free(comm->sent);
    free(comm->received);
    free(comm);
    return NULL;
  }
  comm->clique = c;
  comm->rank = rank;
  comm->ctx = ctx->handle;
  comm->device = ctx->device;
  comm->is_blocking = true;
  c->comms[rank] = comm->handle;
  c->devices[rank] = ctx->device;
  c->arrived++;
  if (sim_clique_is_complete(c) && sim_state()->queue.has_cond)
    pthread_cond_broadcast(&sim_state()->queue.idle);
  return comm;
}

/* Ranks that are not there, as a list. */
static void name_missing(td_buf_t *buf, const bool *is_here,
                         const uint64_t *comms, uint32_t size) {
  const char *comma = "";
  for (uint32_t i = 0; i < size; i++) {
    if (is_here ? is_here[i] : comms[i] != 0) continue;
    td_buf_printf(buf, "%s%u", comma, i);
    comma = ", ";
  }
}

int sim_comm_await(uint64_t handle) {
  uint64_t end = sim_now_ms() + sim_state()->options.deadline, now;
  for (;;) {
    sim_comm_t *comm = sim_handle_number(SIM_TYPE_COMM, handle);
    if (!comm) return COLL_NCCL_REMOTE_ERROR; /* ended meanwhile */
    sim_clique_t *c = comm->clique;
    if (sim_clique_is_complete(c)) return 0;
    int code = sim_remote_join(c);
    if (code) return comm->async = code;
    if (sim_clique_is_complete(c)) return 0;
    now = sim_now_ms();
    if (now < end) {
      sim_sleep_until(now + 2 < end ? now + 2 : end);
      continue;
    }
    char names[120];
    td_buf_t buf;
    td_buf_init_fixed(&buf, names, sizeof names);
    sim_remote_name_missing(c, &buf);
    sim_coll_finding(SIM_CHECK_COLL_DEADLOCK, "ncclCommInitRank",
                     "communicator %u: rank %u waited %llu ms for rank %s",
                     c->number, comm->rank,
                     (unsigned long long)sim_state()->options.deadline,
                     names);
    comm->async = COLL_NCCL_REMOTE_ERROR;
    return sim_comm_fail(comm, COLL_NCCL_REMOTE_ERROR,
                         "ranks that never came: %s", names);
  }
}

/* -- creation -- */

int sim_comm_begin(coll_nccl_comm_t **out, uint32_t n,
                   const coll_nccl_id_t *id, uint32_t rank, sim_ctx_t *ctx) {
  if (!ctx || ctx->sticky)
    return sim_comm_fail(NULL, COLL_NCCL_CUDA_ERROR, "no usable context");
  sim_clique_t *c = find_clique(id);
  if (!c) c = new_clique(n, id);
  if (!c) return COLL_NCCL_SYSTEM_ERROR;
  if (c->size != n || c->comms[rank]) {
    sim_coll_finding(SIM_CHECK_COLL_MISMATCH, "ncclCommInitRank",
                     c->size != n
                         ? "rank %u says %u ranks, others %u"
                         : "rank %u of %u is there twice; communicator %u",
                     rank, n, c->size != n ? c->size : c->number);
    return COLL_NCCL_INVALID_USAGE;
  }
  for (uint32_t i = 0; i < c->size; i++)
    if (c->comms[i] && c->devices[i] == ctx->device)
      return sim_comm_fail(NULL, COLL_NCCL_INVALID_USAGE,
                           "ranks %u and %u use device %u", i, rank,
                           ctx->device);
  const sim_comm_t *made = join(c, rank, ctx);
  if (!made) return COLL_NCCL_SYSTEM_ERROR;
  *out = (coll_nccl_comm_t *)(uintptr_t)made->handle;
  if (c->shm && c->arrived == c->size) sim_remote_drop(c);
  return 0;
}

static int begin_rank(coll_nccl_comm_t **out, int n, const coll_nccl_id_t *id,
                      int rank, sim_comm_t **made) {
  if (!out || n < 1 || n > SIM_MAX_DEVICES || rank < 0 || rank >= n)
    return sim_comm_fail(NULL, COLL_NCCL_INVALID_ARGUMENT,
                         "rank %d of %d", rank, n);
  int code = sim_comm_begin(out, (uint32_t)n, id, (uint32_t)rank,
                            sim_current());
  if (!code) *made = sim_comm_of(*out);
  return code;
}

/* Waits now, or leaves that to the group's end. */
static int settle(sim_comm_t *comm) {
  sim_group_t *g = sim_group();
  if (!g) return COLL_NCCL_SYSTEM_ERROR;
  if (!comm->is_blocking)
    return sim_clique_is_complete(comm->clique) ? 0 : COLL_NCCL_IN_PROGRESS;
  if (!g->depth) return sim_comm_await(comm->handle);
  if (g->made_count == g->made_capacity) {
    uint32_t capacity = g->made_capacity ? g->made_capacity * 2 : 8;
    uint64_t *list = realloc(g->made, capacity * sizeof *list);
    if (!list) return COLL_NCCL_SYSTEM_ERROR;
    g->made = list;
    g->made_capacity = capacity;
  }
  g->made[g->made_count++] = comm->handle;
  return 0;
}

static int config_of(const coll_nccl_config_t *config, bool *is_blocking) {
  *is_blocking = true;
  if (!config) return 0;
  if (config->magic != COLL_NCCL_CONFIG_MAGIC || config->bytes < 24 ||
      (config->blocking != COLL_NCCL_UNDEF && config->blocking != 0 &&
       config->blocking != 1))
    return sim_comm_fail(NULL, COLL_NCCL_INVALID_ARGUMENT,
                         "a configuration that was not initialised");
  if (config->blocking == 0) *is_blocking = false;
  return 0;
}

static int init_rank(const char *name, coll_nccl_comm_t **out, int n,
                     const coll_nccl_id_t *id, int rank,
                     const coll_nccl_config_t *config) {
  bool is_blocking;
  sim_comm_t *comm = NULL;
  int code = sim_enter(name, false);
  if (code) return code;
  code = config_of(config, &is_blocking);
  if (!code) code = begin_rank(out, n, id, rank, &comm);
  if (code) return sim_leave(code);
  comm->is_blocking = is_blocking;
  return sim_leave(settle(comm));
}

SIM_EXPORT int ncclCommInitRank(coll_nccl_comm_t **out, int n,
                                coll_nccl_id_t id, int rank) {
  SIM_ARGS(out, n, rank);
  return init_rank("ncclCommInitRank", out, n, &id, rank, NULL);
}

SIM_EXPORT int ncclCommInitRankConfig(coll_nccl_comm_t **out, int n,
                                      coll_nccl_id_t id, int rank,
                                      coll_nccl_config_t *config) {
  SIM_ARGS(out, n, rank, config);
  return init_rank("ncclCommInitRankConfig", out, n, &id, rank, config);
}

/* One rank for each device, all at once, in the devices' primary contexts. */
SIM_EXPORT int ncclCommInitAll(coll_nccl_comm_t **out, int n,
                               const int *devices) {
  SIM_ARGS(out, n, devices);
  int code = sim_enter("ncclCommInitAll", false);
  if (code) return code;
  sim_state_t *s = sim_state();
  if (!s->is_up) return sim_leave(COLL_NCCL_CUDA_ERROR);
  if (!out || n < 1 || (uint32_t)n > s->device_count)
    return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  for (int i = 0; i < n; i++) {
    int device = devices ? devices[i] : i;
    if (device < 0 || (uint32_t)device >= s->device_count)
      return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
    for (int k = 0; k < i; k++)
      if ((devices ? devices[k] : k) == device)
        return sim_leave(COLL_NCCL_INVALID_USAGE);
    if (!sim_primary(device)) return sim_leave(COLL_NCCL_CUDA_ERROR);
  }
  sim_clique_t *c = new_clique((uint32_t)n, NULL);
  for (int i = 0; c && i < n; i++) {
    const sim_comm_t *comm = join(c, (uint32_t)i,
                                  sim_primary(devices ? devices[i] : i));
    if (!comm) return sim_leave(COLL_NCCL_SYSTEM_ERROR);
    out[i] = (coll_nccl_comm_t *)(uintptr_t)comm->handle;
  }
  return sim_leave(c ? 0 : COLL_NCCL_SYSTEM_ERROR);
}

/* -- splitting -- */

/* All ranks are there: a clique for each color, ranks by key, then by their
   old rank. */
static int divide(sim_clique_t *parent) {
  sim_split_t *s = &parent->split;
  for (uint32_t first = 0; first < parent->size; first++) {
    uint32_t members[SIM_MAX_DEVICES], n = 0;
    int color = s->colors[first];
    if (color == COLL_NCCL_NO_COLOR) *s->out[first] = NULL;
    if (color == COLL_NCCL_NO_COLOR || s->comms[first]) continue;
    for (uint32_t i = first; i < parent->size; i++) {
      if (s->colors[i] != color) continue;
      uint32_t at = n++;
      for (; at && s->keys[members[at - 1]] > s->keys[i]; at--)
        members[at] = members[at - 1];
      members[at] = i;
    }
    sim_clique_t *c = new_clique(n, NULL);
    if (!c) return COLL_NCCL_SYSTEM_ERROR;
    for (uint32_t k = 0; k < n; k++) {
      const sim_comm_t *old =
          sim_handle_number(SIM_TYPE_COMM, parent->comms[members[k]]);
      sim_ctx_t *ctx =
          old ? sim_handle_number(SIM_TYPE_CTX, old->ctx) : NULL;
      const sim_comm_t *comm = ctx ? join(c, k, ctx) : NULL;
      if (!comm) return COLL_NCCL_REMOTE_ERROR;
      s->comms[members[k]] = comm->handle;
      *s->out[members[k]] = (coll_nccl_comm_t *)(uintptr_t)comm->handle;
    }
  }
  memset(s->comms, 0, parent->size * sizeof *s->comms);
  memset(s->is_here, 0, parent->size * sizeof *s->is_here);
  s->arrived = 0;
  for (uint32_t i = 0; i < parent->size; i++) {
    sim_comm_t *old = sim_handle_number(SIM_TYPE_COMM, parent->comms[i]);
    if (old) old->is_split_open = false;
  }
  return 0;
}

/* A split with ranks in other processes, for all ranks of this one that have
   called it, and then the children: 0, IN_PROGRESS after a pause, or why
   not. */
static int await_remote_split(sim_clique_t *c, uint64_t end) {
  uint64_t now = sim_now_ms();
  int code = 0;
  for (uint32_t r = 0; !code && r < c->size; r++) {
    sim_comm_t *comm = sim_handle_number(SIM_TYPE_COMM, c->comms[r]);
    if (!comm || !comm->is_split_open) continue;
    code = sim_remote_split(comm);
    if (code == COLL_NCCL_IN_PROGRESS && now < end) {
      sim_sleep_until(now + 2);
      return code;
    }
    if (code == COLL_NCCL_IN_PROGRESS) code = COLL_NCCL_REMOTE_ERROR;
    if (code) comm->async = code;
  }
  if (code == COLL_NCCL_REMOTE_ERROR)
    sim_coll_finding(SIM_CHECK_COLL_DEADLOCK, "ncclCommSplit",
                     "communicator %u: some ranks split it and others did "
                     "not",
                     c->number);
  for (uint32_t r = 0; !code && r < c->size; r++) {
    if (c->split.comms[r]) code = sim_comm_await(c->split.comms[r]);
    c->split.comms[r] = 0;
  }
  return code;
}

int sim_split_await(uint64_t handle) {
  uint64_t end = sim_now_ms() + sim_state()->options.deadline;
  for (;;) {
    sim_comm_t *comm = sim_handle_number(SIM_TYPE_COMM, handle);
    if (!comm) return COLL_NCCL_REMOTE_ERROR;
    if (!comm->is_split_open && !comm->clique->split.comms[comm->rank])
      return 0;
    if (comm->clique->is_shared) {
      int code = await_remote_split(comm->clique, end);
      if (code != COLL_NCCL_IN_PROGRESS) return code;
      continue;
    }
    const sim_split_t *s = &comm->clique->split;
    bool is_hopeless = false;
    for (uint32_t i = 0; i < comm->clique->size; i++)
      is_hopeless |= !s->is_here[i] && comm->clique->is_gone[i];
    if (!is_hopeless && sim_sleep_until(end)) continue;
    char names[120];
    td_buf_t buf;
    td_buf_init_fixed(&buf, names, sizeof names);
    name_missing(&buf, s->is_here, NULL, comm->clique->size);
    sim_coll_finding(SIM_CHECK_COLL_DEADLOCK, "ncclCommSplit",
                     "communicator %u: rank %u split it and rank %s did not",
                     comm->clique->number, comm->rank, names);
    comm->async = COLL_NCCL_REMOTE_ERROR;
    return COLL_NCCL_REMOTE_ERROR;
  }
}

SIM_EXPORT int ncclCommSplit(coll_nccl_comm_t *handle, int color, int key,
                             coll_nccl_comm_t **out,
                             coll_nccl_config_t *config) {
  SIM_ARGS(handle, color, key, out, config);
  sim_comm_t *comm;
  bool is_blocking;
  int code = sim_enter_comm("ncclCommSplit", handle, &comm);
  if (code) return code;
  code = config_of(config, &is_blocking);
  if (code) return sim_leave(code);
  sim_clique_t *c = comm->clique;
  sim_split_t *s = &c->split;
  sim_group_t *g = sim_group();
  if (!out || (color < 0 && color != COLL_NCCL_NO_COLOR) || !g)
    return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  if (comm->is_finalized || !sim_clique_is_complete(c) ||
      s->is_here[comm->rank])
    return sim_leave(COLL_NCCL_INVALID_USAGE);
  *out = NULL;
  s->colors[comm->rank] = color;
  s->keys[comm->rank] = key;
  s->out[comm->rank] = out;
  s->is_here[comm->rank] = true;
  comm->is_split_open = true;
  comm->splits++;
  if (c->is_shared)
    sim_shm_split(c->shm, comm->rank, comm->splits, color, key);
  else if (++s->arrived == c->size) {
    code = divide(c);
    if (sim_state()->queue.has_cond)
      pthread_cond_broadcast(&sim_state()->queue.idle);
    return sim_leave(code);
  }
  if (g->depth) {
    g->splits++;
    g->split_of = comm->handle;
    return sim_leave(0);
  }
  return sim_leave(is_blocking ? sim_split_await(comm->handle)
                               : COLL_NCCL_IN_PROGRESS);
}

/* -- ending -- */

/* What the rank has queued ends with it; the others will learn. */
static void leave(sim_comm_t *comm) {
  sim_clique_t *c = comm->clique;
  c->is_gone[comm->rank] = true;
  c->comms[comm->rank] = 0;
  for (uint32_t i = 0; i < c->queued_count;) {
    sim_coll_t *coll = c->queued[i];
    if (coll->rank != comm->rank) {
      i++;
      continue;
    }
    sim_queued_t *item = coll->item;
    item->op.kind = SIM_RUN_EMPTY; /* keeps its place in the lane */
    item->op.coll = NULL;
    sim_state()->queue.collectives--;
    sim_coll_free(coll);
  }
  if (c->shm) sim_remote_leave(c, comm->rank);
  free_comm(comm);
  if (sim_state()->queue.has_cond)
    pthread_cond_broadcast(&sim_state()->queue.idle);
}

/* No further calls; what was called still runs. */
SIM_EXPORT int ncclCommFinalize(coll_nccl_comm_t *handle) {
  SIM_ARGS(handle);
  sim_comm_t *comm;
  int code = sim_enter_comm("ncclCommFinalize", handle, &comm);
  if (code) return code;
  if (comm->is_finalized)
    return sim_leave(sim_comm_fail(comm, COLL_NCCL_INVALID_USAGE,
                                   "finalized twice"));
  comm->is_finalized = true;
  return sim_leave(0);
}

/* Waits for what the rank has called, as far as the others take part. */
SIM_EXPORT int ncclCommDestroy(coll_nccl_comm_t *handle) {
  SIM_ARGS(handle);
  int code = sim_enter("ncclCommDestroy", false);
  if (code) return code;
  sim_comm_t *comm = sim_comm_of(handle);
  if (!comm) return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  uint64_t number = comm->handle;
  for (uint32_t i = 0; comm && i < comm->clique->queued_count;) {
    const sim_coll_t *coll = comm->clique->queued[i];
    if (coll->comm != number) {
      i++;
      continue;
    }
    sim_queue_wait(&coll->item->clock);
    comm = sim_handle_number(SIM_TYPE_COMM, number);
    i = 0;
  }
  if (comm) leave(comm);
  return sim_leave(0);
}

SIM_EXPORT int ncclCommAbort(coll_nccl_comm_t *handle) {
  SIM_ARGS(handle);
  int code = sim_enter("ncclCommAbort", false);
  if (code) return code;
  sim_comm_t *comm = sim_comm_of(handle);
  if (!comm) return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  leave(comm);
  return sim_leave(0);
}

/* -- questions -- */

/* What a rank that does not block waits for may have come. */
static void look_around(sim_comm_t *comm) {
  if (comm->async) return;
  if (!sim_clique_is_complete(comm->clique))
    comm->async = sim_remote_join(comm->clique);
  else if (comm->is_split_open && comm->clique->is_shared) {
    int code = sim_remote_split(comm);
    if (code != COLL_NCCL_IN_PROGRESS) comm->async = code;
  }
}

SIM_EXPORT int ncclCommGetAsyncError(coll_nccl_comm_t *handle, int *out) {
  SIM_ARGS(handle, out);
  int code = sim_enter("ncclCommGetAsyncError", false);
  if (code) return code;
  sim_comm_t *comm = sim_comm_of(handle);
  if (!comm || !out) return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  look_around(comm);
  *out = comm->async                                          ? comm->async
         : sim_clique_is_complete(comm->clique) && !comm->is_split_open
             ? 0
             : COLL_NCCL_IN_PROGRESS;
  return sim_leave(0);
}

static int ask(const char *name, const void *handle, int *out, char what) {
  int code = sim_enter(name, false);
  if (code) return code;
  const sim_comm_t *comm = sim_comm_of(handle);
  if (!comm || !out) return sim_leave(COLL_NCCL_INVALID_ARGUMENT);
  *out = (int)(what == 'n'   ? comm->clique->size
               : what == 'r' ? comm->rank
                             : comm->device);
  return sim_leave(0);
}

SIM_EXPORT int ncclCommCount(const coll_nccl_comm_t *handle, int *out) {
  SIM_ARGS(handle, out);
  return ask("ncclCommCount", handle, out, 'n');
}

SIM_EXPORT int ncclCommUserRank(const coll_nccl_comm_t *handle, int *out) {
  SIM_ARGS(handle, out);
  return ask("ncclCommUserRank", handle, out, 'r');
}

SIM_EXPORT int ncclCommCuDevice(const coll_nccl_comm_t *handle, int *out) {
  SIM_ARGS(handle, out);
  return ask("ncclCommCuDevice", handle, out, 'd');
}

SIM_NCCL_ALIAS(GetVersion)
SIM_NCCL_ALIAS(GetUniqueId)
SIM_NCCL_ALIAS(GetErrorString)
SIM_NCCL_ALIAS(GetLastError)
SIM_NCCL_ALIAS(CommInitRank)
SIM_NCCL_ALIAS(CommInitRankConfig)
SIM_NCCL_ALIAS(CommInitAll)
SIM_NCCL_ALIAS(CommSplit)
SIM_NCCL_ALIAS(CommFinalize)
SIM_NCCL_ALIAS(CommDestroy)
SIM_NCCL_ALIAS(CommAbort)
SIM_NCCL_ALIAS(CommGetAsyncError)
SIM_NCCL_ALIAS(CommCount)
SIM_NCCL_ALIAS(CommUserRank)
SIM_NCCL_ALIAS(CommCuDevice)
