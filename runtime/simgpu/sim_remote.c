/* Collectives with ranks in other processes. A rank tells the others of a part
   when its operation is queued, puts what it sends into shared memory when
   the operation is at the head of its lane, and carries the part out, for
   itself alone, when all that it meets are that far. It says what it has
   carried out, and then the bytes that it has read may go. */
#include "runtime/simgpu/sim_comm.h"

#include <stdlib.h>

enum { BROKEN_MISMATCH = 1, BROKEN_CIRCLE };

/* -- meeting -- */

int sim_remote_join(sim_clique_t *c) {
  const char *why = "";
  coll_nccl_id_t id;
  int code = 0;
  memcpy(id.bytes, c->id, sizeof id.bytes);
  if (c->has_no_shm) return 0;
  if (!c->shm) code = sim_shm_open(&id, c->size, &c->shm, &why);
  if (code == COLL_NCCL_INTERNAL_ERROR) {
    c->has_no_shm = true;
    return 0;
  }
  for (uint32_t r = 0; !code && r < c->size; r++) {
    if (!c->comms[r] || sim_shm_is_own(c->shm, r)) continue;
    code = sim_shm_claim(c->shm, r, c->devices[r]);
    why = "a rank is there twice";
  }
  if (code == COLL_NCCL_INVALID_USAGE)
    sim_coll_finding(SIM_CHECK_COLL_MISMATCH, "ncclCommInitRank",
                     "communicator %u: %s", c->number, why);
  if (code) return sim_comm_fail(NULL, code, "%s", why);
  if (!sim_shm_is_ready(c->shm)) return 0;
  c->is_shared = true;
  sim_remote_start();
  for (uint32_t r = 0; r < c->size; r++)
    if (!c->comms[r]) c->devices[r] = sim_shm_device(c->shm, r);
  return 0;
}

void sim_remote_drop(sim_clique_t *c) {
  sim_shm_close(c->shm);
  c->shm = NULL;
}

void sim_remote_leave(sim_clique_t *c, uint32_t rank) {
  sim_shm_leave(c->shm, rank);
  for (uint32_t r = 0; r < c->size; r++)
    if (c->comms[r]) return;
  sim_remote_drop(c);
}

void sim_remote_name_missing(const sim_clique_t *c, td_buf_t *buf) {
  const char *comma = "";
  for (uint32_t r = 0; r < c->size; r++) {
    if (c->shm ? sim_shm_is_here(c->shm, r) : c->comms[r] != 0) continue;
    td_buf_printf(buf, "%s%u", comma, r);
    comma = ", ";
  }
}

/* -- parts of others -- */

typedef struct want_t {
  uint64_t kind, peer, number;
} want_t;

static bool is_wanted(const sim_shm_part_t *p, const void *arg) {
  const want_t *w = arg;
  return p->kind == w->kind && p->number == w->number &&
         (w->kind == SIM_SHM_ALL || p->peer == w->peer);
}

static uint64_t kind_of(const sim_part_t *p) {
  return p->op == SIM_COLL_SEND   ? SIM_SHM_SEND
         : p->op == SIM_COLL_RECV ? SIM_SHM_RECV
                                  : SIM_SHM_ALL;
}

/* What a part of `rank` meets at another rank. */
static want_t wants(uint64_t kind, uint32_t rank, uint64_t number) {
  return (want_t){kind == SIM_SHM_SEND   ? SIM_SHM_RECV
                  : kind == SIM_SHM_RECV ? SIM_SHM_SEND
                                         : SIM_SHM_ALL,
                  rank, number};
}

static bool find_partner(const sim_coll_t *coll, const sim_part_t *p,
                         uint32_t r, sim_shm_part_t *out) {
  want_t w = wants(kind_of(p), coll->rank, p->number);
  return sim_shm_find(coll->clique->shm, r, is_wanted, &w, out);
}

/* False if it is nothing that a rank says. */
static bool read_part(const sim_shm_part_t *from, uint32_t size,
                      sim_part_t *out) {
  if (from->op >= SIM_COLL_OPS || from->dtype >= COLL_NCCL_DTYPES ||
      from->fold > COLL_NCCL_OPS || from->peer >= size ||
      from->count > UINT64_MAX / 8 / size)
    return false;
  *out = (sim_part_t){.op = (sim_coll_op_t)from->op,
                      .dtype = (int)from->dtype,
                      .peer = (uint32_t)from->peer,
                      .count = from->count,
                      .number = from->number};
  out->fold.kind = (int)from->fold;
  out->fold.bits = from->fold_bits;
  return kind_of(out) == from->kind;
}

static void break_clique(sim_clique_t *c, uint32_t why) {
  c->is_broken = true;
  for (uint32_t r = 0; r < c->size; r++)
    if (c->comms[r]) sim_shm_break(c->shm, r, why);
}

/* What another rank wrote makes no sense. */
static void corrupt(const sim_coll_t *coll, uint32_t rank) {
  sim_coll_finding(SIM_CHECK_COLL_MISMATCH, coll->item->op.name,
                   "communicator %u: what rank %u has left in shared memory "
                   "makes no sense",
                   coll->clique->number, rank);
  break_clique(coll->clique, BROKEN_MISMATCH);
}

/* Compares the part with those it meets that have come since. */
static void compare(const sim_coll_t *coll, sim_part_t *p) {
  uint32_t first, end;
  sim_coll_meets(coll, p, &first, &end);
  for (uint32_t r = first; r < end && !coll->clique->is_broken; r++) {
    sim_shm_part_t other;
    sim_part_t q;
    bool is_self = r == coll->rank && !sim_part_is_pair(p);
    if (is_self || p->compared >> r & 1 || !find_partner(coll, p, r, &other))
      continue;
    p->compared |= UINT64_C(1) << r;
    if (!read_part(&other, coll->clique->size, &q))
      corrupt(coll, r);
    else if (!sim_coll_agrees(coll, p, r, &q, other.is_captured != 0))
      break_clique(coll->clique, BROKEN_MISMATCH);
  }
}

static void publish(sim_coll_t *coll, sim_part_t *p, bool is_late) {
  sim_shm_part_t out = {.kind = kind_of(p),
                        .op = p->op,
                        .dtype = (uint64_t)p->dtype,
                        .fold = (uint64_t)p->fold.kind,
                        .fold_bits = p->fold.bits,
                        .peer = p->peer,
                        .count = p->count,
                        .number = p->number,
                        .is_captured = coll->is_captured};
  if (!p->entry)
    p->entry = sim_shm_publish(coll->clique->shm, coll->rank, &out, is_late);
}

void sim_remote_queued(sim_coll_t *coll) {
  for (uint32_t i = 0; i < coll->count; i++) {
    publish(coll, &coll->parts[i], false);
    compare(coll, &coll->parts[i]);
  }
}

/* -- running -- */

/* What the part sends lies where others can read it. */
static bool enter(sim_coll_t *coll, sim_part_t *p) {
  sim_clique_t *c = coll->clique;
  uint64_t bytes = sim_part_send_bytes(p, coll->rank, c->size);
  const uint8_t *from =
      bytes ? sim_coll_source(p->send, bytes, coll->rank) : NULL;
  if ((bytes && !from) || !sim_coll_read_scalar(p)) return false;
  if (bytes) {
    uint8_t *to = sim_shm_put(c->shm, coll->rank, p->entry, bytes);
    if (!to) {
      sim_coll_finding(SIM_CHECK_COLL_BUFFER, coll->item->op.name,
                       "rank %u: no room for %llu bytes in shared memory",
                       coll->rank, (unsigned long long)bytes);
      return false;
    }
    memcpy(to, from, bytes);
    sim_shm_unmap(to, bytes);
  }
  sim_shm_part_t *own = sim_shm_own(c->shm, coll->rank, p->entry);
  own->fold_bits = p->fold.bits;
  own->held_key = 0;
  own->is_entered = 1;
  sim_shm_update(c->shm, coll->rank, p->entry);
  p->is_entered = true;
  return true;
}

/* What ranks of this process did before is known to each other. */
static void hear(sim_coll_t *coll, const sim_part_t *p) {
  uint32_t first, end;
  sim_coll_meets(coll, p, &first, &end);
  for (uint32_t r = first; r < end; r++) {
    sim_coll_t *other = NULL;
    sim_part_t *q = r == coll->rank && !sim_part_is_pair(p)
                        ? NULL
                        : sim_coll_partner(coll, p, r, &other);
    if (!q) continue;
    sim_coll_hear(coll, p, other);
    sim_coll_hear(other, q, coll);
  }
}

static void finish(sim_coll_t *coll, sim_part_t *p) {
  sim_shm_t *shm = coll->clique->shm;
  hear(coll, p);
  if (p->op == SIM_COLL_RECV)
    sim_shm_set_received(shm, coll->rank, p->peer, p->number + 1);
  else if (p->op != SIM_COLL_SEND)
    sim_shm_set_collectives(shm, coll->rank, p->number + 1);
  sim_coll_part_done(coll, p);
  sim_shm_done(shm, coll->rank, p->entry);
}

/* A receive whose sender has come. */
static bool take(sim_coll_t *coll, sim_part_t *p) {
  sim_clique_t *c = coll->clique;
  sim_shm_part_t from;
  if (!find_partner(coll, p, p->peer, &from) || !from.is_entered)
    return false;
  uint64_t bytes = sim_part_recv_bytes(p, coll->rank, c->size);
  const uint8_t *in =
      bytes ? sim_shm_map(c->shm, p->peer, &from, bytes) : NULL;
  if (bytes && !in)
    corrupt(coll, p->peer);
  else if (bytes && !sim_coll_deliver(p->recv, in, bytes))
    break_clique(c, BROKEN_MISMATCH);
  sim_shm_unmap(in, bytes);
  if (!c->is_broken) finish(coll, p);
  return true;
}

/* A collective that all ranks have come to. */
static bool meet(sim_coll_t *coll, sim_part_t *p) {
  sim_clique_t *c = coll->clique;
  uint32_t n = c->size, bad = UINT32_MAX;
  sim_shm_part_t from[SIM_MAX_DEVICES];
  sim_part_t parts[SIM_MAX_DEVICES], *all[SIM_MAX_DEVICES];
  const uint8_t *in[SIM_MAX_DEVICES] = {NULL};
  uint64_t sent[SIM_MAX_DEVICES] = {0};
  for (uint32_t r = 0; r < n; r++)
    if (!find_partner(coll, p, r, &from[r]) || !from[r].is_entered)
      return false;
  for (uint32_t r = 0; bad == UINT32_MAX && r < n; r++) {
    all[r] = &parts[r];
    if (!read_part(&from[r], n, &parts[r]) || parts[r].op != p->op ||
        parts[r].count != p->count || parts[r].dtype != p->dtype ||
        parts[r].peer != p->peer || parts[r].fold.kind != p->fold.kind) {
      bad = r;
      break;
    }
    sent[r] = sim_part_send_bytes(&parts[r], r, n);
    if (!sent[r]) continue;
    in[r] = sim_shm_map(c->shm, r, &from[r], sent[r]);
    if (!in[r]) bad = r;
  }
  uint64_t bytes = sim_part_recv_bytes(p, coll->rank, n);
  uint8_t *out = bytes && bad == UINT32_MAX ? malloc(bytes) : NULL;
  if (bad != UINT32_MAX) {
    corrupt(coll, bad);
  } else if (bytes && !out) {
    break_clique(c, BROKEN_MISMATCH);
  } else if (bytes) {
    sim_coll_result(out, in, all, n, coll->rank);
    if (!sim_coll_deliver(p->recv, out, bytes))
      break_clique(c, BROKEN_MISMATCH);
  }
  free(out);
  for (uint32_t r = 0; r < n; r++) sim_shm_unmap(in[r], sent[r]);
  if (!c->is_broken) finish(coll, p);
  return true;
}

static bool run_part(sim_coll_t *coll, sim_part_t *p) {
  sim_clique_t *c = coll->clique;
  bool any = false;
  publish(coll, p, true);
  if (!p->entry || (!sim_part_is_pair(p) && !sim_coll_is_next(coll, p)))
    return false;
  compare(coll, p);
  if (c->is_broken) return true;
  if (!p->is_entered) {
    any = true;
    if (!enter(coll, p)) {
      break_clique(c, BROKEN_MISMATCH);
      return true;
    }
  }
  if (p->op == SIM_COLL_SEND) {
    if (sim_shm_received(c->shm, p->peer, coll->rank) <= p->number)
      return any;
    finish(coll, p);
    return true;
  }
  return (p->op == SIM_COLL_RECV ? take(coll, p) : meet(coll, p)) || any;
}

bool sim_remote_run(sim_coll_t *coll) {
  bool any = false;
  for (uint32_t k = 0; k < coll->count && !coll->clique->is_broken; k++)
    if (!coll->parts[k].is_done) any |= run_part(coll, &coll->parts[k]);
  return any || coll->clique->is_broken;
}

bool sim_remote_is_wanted(const sim_coll_t *coll) {
  const sim_clique_t *c = coll->clique;
  for (uint32_t k = 0; k < coll->count; k++) {
    const sim_part_t *p = &coll->parts[k];
    uint32_t first, end;
    sim_shm_part_t other;
    if (p->is_done) continue;
    sim_coll_meets(coll, p, &first, &end);
    for (uint32_t r = first; r < end; r++)
      if (!c->comms[r] && find_partner(coll, p, r, &other) &&
          other.is_entered)
        return true;
  }
  return false;
}

/* -- waiting -- */

/* What the operation is queued behind, in words that other processes know. */
static void tell_held(sim_coll_t *coll) {
  const sim_coll_t *head = NULL;
  const sim_queue_t *q = &sim_state()->queue;
  for (uint32_t i = 0; !head && i < q->lane_count; i++) {
    const sim_coll_t *h = sim_coll_head(i, &coll->item->clock);
    if (h && h != coll && h->clique->is_shared) head = h;
  }
  const sim_part_t *by = NULL;
  for (uint32_t k = 0; head && !by && k < head->count; k++)
    if (!head->parts[k].is_done) by = &head->parts[k];
  for (uint32_t k = 0; k < coll->count; k++) {
    const sim_part_t *p = &coll->parts[k];
    if (!p->entry || p->is_entered) continue;
    sim_shm_part_t *own =
        sim_shm_own(coll->clique->shm, coll->rank, p->entry);
    sim_shm_part_t old = *own;
    own->held_key = by ? sim_shm_key(head->clique->shm) : 0;
    own->held_rank = by ? head->rank : 0;
    own->held_kind = by ? kind_of(by) : 0;
    own->held_peer = by ? by->peer : 0;
    own->held_number = by ? by->number : 0;
    if (memcmp(&old, own, sizeof old) != 0)
      sim_shm_update(coll->clique->shm, coll->rank, p->entry);
  }
}

void sim_remote_poll(sim_clique_t *c) {
  uint32_t rank;
  uint32_t why = c->is_broken ? 0 : sim_shm_broken(c->shm, &rank);
  if (!why) return;
  /* this process may see the fault itself, and better */
  for (uint32_t i = 0; i < c->queued_count; i++)
    for (uint32_t k = 0; k < c->queued[i]->count; k++)
      compare(c->queued[i], &c->queued[i]->parts[k]);
  if (c->is_broken) return;
  sim_coll_finding(why == BROKEN_CIRCLE ? SIM_CHECK_COLL_DEADLOCK
                                        : SIM_CHECK_COLL_MISMATCH,
                   "collective", "communicator %u: rank %u has found a fault",
                   c->number, rank);
  break_clique(c, why);
}

const sim_part_t *sim_remote_lacks(const sim_coll_t *coll, bool gone,
                                   uint32_t *rank) {
  const sim_shm_t *shm = coll->clique->shm;
  for (uint32_t k = 0; k < coll->count; k++) {
    const sim_part_t *p = &coll->parts[k];
    uint32_t first, end;
    sim_shm_part_t q;
    if (p->is_done) continue;
    sim_coll_meets(coll, p, &first, &end);
    for (uint32_t r = first; r < end; r++) {
      if (r == coll->rank) continue;
      bool is_there = find_partner(coll, p, r, &q) && q.is_entered;
      /* a sender waits until its bytes have been read */
      if (p->op == SIM_COLL_SEND)
        is_there = sim_shm_received(shm, r, coll->rank) > p->number;
      if (is_there || (gone && !sim_shm_is_gone(shm, r))) continue;
      *rank = r;
      return p;
    }
  }
  return NULL;
}

/* -- circles -- */

typedef struct node_t {
  sim_clique_t *clique;
  uint32_t rank;
  sim_shm_part_t part;
} node_t;

typedef struct walk_t {
  node_t path[64];
  uint32_t length, steps;
} walk_t;

static bool is_same(const node_t *a, const node_t *b) {
  return a->clique == b->clique && a->rank == b->rank &&
         a->part.kind == b->part.kind && a->part.peer == b->part.peer &&
         a->part.number == b->part.number;
}

static sim_clique_t *clique_of(uint64_t key) {
  const sim_state_t *s = sim_state();
  for (uint32_t i = 0; key && i < s->clique_count; i++)
    if (s->cliques[i]->is_shared && s->cliques[i]->shm &&
        sim_shm_key(s->cliques[i]->shm) == key)
      return s->cliques[i];
  return NULL;
}

/* The entered part that holds back a queued one; false if nothing is known. */
static bool find_holder(const sim_shm_part_t *held, node_t *out) {
  want_t w = {held->held_kind, held->held_peer, held->held_number};
  out->clique = clique_of(held->held_key);
  out->rank = (uint32_t)held->held_rank;
  return out->clique && held->held_rank < out->clique->size &&
         sim_shm_find(out->clique->shm, out->rank, is_wanted, &w,
                      &out->part) &&
         out->part.is_entered;
}

/* A part that has come waits for those it meets, which wait behind others.
   That a part waits behind another does not change until that is done, so what
   is read piece by piece is still a circle. */
static bool walk(walk_t *w, const node_t *at) {
  for (uint32_t i = 0; i < w->length; i++) {
    if (!is_same(&w->path[i], at)) continue;
    w->length -= i;
    memmove(w->path, w->path + i, w->length * sizeof *w->path);
    return true;
  }
  if (w->length == 64 || w->steps++ > 1000) return false;
  w->path[w->length++] = *at;
  bool is_pair = at->part.kind != SIM_SHM_ALL;
  uint32_t first = is_pair ? (uint32_t)at->part.peer : 0;
  uint32_t end = is_pair ? first + 1 : at->clique->size;
  want_t want = wants(at->part.kind, at->rank, at->part.number);
  for (uint32_t r = first; r < end && r < at->clique->size; r++) {
    sim_shm_part_t other;
    node_t holder;
    if (!sim_shm_find(at->clique->shm, r, is_wanted, &want, &other) ||
        other.is_entered || !find_holder(&other, &holder))
      continue;
    if (walk(w, &holder)) return true;
  }
  w->length--;
  return false;
}

static const char *name_of(uint64_t op) {
  return op < SIM_COLL_OPS ? sim_coll_name((sim_coll_op_t)op) : "?";
}

static void report_circle(const sim_coll_t *coll, const walk_t *w) {
  char text[240];
  td_buf_t buf;
  td_buf_init_fixed(&buf, text, sizeof text);
  td_buf_puts(&buf, "a circle:");
  for (uint32_t i = 0; i < w->length; i++)
    td_buf_printf(&buf, "%s rank %u of communicator %u at %s %llu",
                  i ? ";" : "", w->path[i].rank, w->path[i].clique->number,
                  name_of(w->path[i].part.op),
                  (unsigned long long)w->path[i].part.number);
  sim_remote_queues(coll->clique, &buf);
  sim_coll_finding(SIM_CHECK_COLL_DEADLOCK, coll->item->op.name, "%s", text);
}

bool sim_remote_circle(sim_coll_t *coll) {
  sim_clique_t *c = coll->clique;
  const sim_state_t *s = sim_state();
  for (uint32_t i = 0; i < s->clique_count; i++) {
    const sim_clique_t *any = s->cliques[i];
    for (uint32_t k = 0; any->is_shared && k < any->queued_count; k++)
      tell_held(any->queued[k]);
  }
  walk_t *w = calloc(1, sizeof *w);
  bool found = false;
  for (uint32_t k = 0; w && !found && k < coll->count; k++) {
    const sim_part_t *p = &coll->parts[k];
    if (p->is_done || !p->is_entered) continue;
    node_t at = {c, coll->rank, *sim_shm_own(c->shm, coll->rank, p->entry)};
    w->length = 0;
    found = walk(w, &at);
  }
  if (found) report_circle(coll, w);
  for (uint32_t i = 0; found && i < w->length; i++)
    break_clique(w->path[i].clique, BROKEN_CIRCLE);
  free(w);
  return found;
}

typedef struct list_t {
  td_buf_t *buf;
  uint32_t count;
} list_t;

static bool list_one(const sim_shm_part_t *p, const void *arg) {
  const list_t *const *l = arg;
  list_t *list;
  memcpy(&list, l, sizeof list);
  if (list->count++ < 4)
    td_buf_printf(list->buf, " %s %llu%s", name_of(p->op),
                  (unsigned long long)p->number, p->is_entered ? "" : "?");
  return false;
}

/* "?" marks what waits behind others in its stream. */
void sim_remote_queues(const sim_clique_t *c, td_buf_t *buf) {
  td_buf_puts(buf, "; queues:");
  for (uint32_t r = 0; r < c->size; r++) {
    list_t list = {buf, 0}, *arg = &list;
    sim_shm_part_t p;
    td_buf_printf(buf, " %u", r);
    sim_shm_find(c->shm, r, list_one, &arg, &p);
    if (list.count > 4) td_buf_printf(buf, " +%u", list.count - 4);
    if (sim_shm_is_gone(c->shm, r)) td_buf_puts(buf, " (ended)");
  }
}

/* -- splits -- */

/* The child's id follows from the parent's, so that its ranks find it. */
static void child_id(const sim_clique_t *c, uint64_t n, int color,
                     coll_nccl_id_t *out) {
  td_buf_t buf;
  memset(out, 0, sizeof *out);
  td_buf_init_fixed(&buf, out->bytes, sizeof out->bytes);
  td_buf_printf(&buf, "split %llx %llx %llx %llu %d",
                (unsigned long long)td_hash_bytes(c->id, sizeof c->id, 0),
                (unsigned long long)td_hash_bytes(c->id, sizeof c->id, 1),
                (unsigned long long)td_hash_bytes(c->id, sizeof c->id, 2),
                (unsigned long long)n, color);
}

int sim_remote_split(sim_comm_t *comm) {
  sim_clique_t *c = comm->clique;
  uint64_t n = comm->splits;
  int colors[SIM_MAX_DEVICES] = {0}, keys[SIM_MAX_DEVICES] = {0};
  for (uint32_t r = 0; r < c->size; r++)
    if (!sim_shm_split_of(c->shm, r, n, &colors[r], &keys[r]))
      return sim_shm_is_gone(c->shm, r) ? COLL_NCCL_REMOTE_ERROR
                                        : COLL_NCCL_IN_PROGRESS;
  comm->is_split_open = false;
  c->split.is_here[comm->rank] = false;
  coll_nccl_comm_t **out = c->split.out[comm->rank];
  int color = colors[comm->rank];
  uint32_t size = 0, rank = 0;
  for (uint32_t r = 0; r < c->size; r++) {
    if (colors[r] != color) continue;
    size++;
    rank += keys[r] < keys[comm->rank] ||
            (keys[r] == keys[comm->rank] && r < comm->rank);
  }
  if (color == COLL_NCCL_NO_COLOR) return 0;
  coll_nccl_id_t id;
  child_id(c, n, color, &id);
  int code = sim_comm_begin(out, size, &id, rank,
                            sim_handle_number(SIM_TYPE_CTX, comm->ctx));
  if (!code) c->split.comms[comm->rank] = (uint64_t)(uintptr_t)*out;
  return code;
}
