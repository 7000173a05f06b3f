/* Collectives meet. An operation of a communicator waits at the head of its
   lane. Its parts are carried out one after the other when every part that
   they meet belongs to an operation at the head of its lane too; sends and
   receives of one operation do not wait for each other.

   Parts that meet are compared as soon as both are queued, so that ranks that
   disagree are told and do not hang. */
#include "runtime/simgpu/sim_comm.h"

#include <stdlib.h>
#include <time.h>

static sim_queue_t *queue(void) {
  return &sim_state()->queue;
}

void sim_coll_finding(sim_check_t id, const char *name, const char *format,
                      ...) {
  char text[240];
  td_buf_t buf;
  va_list args;
  td_buf_init_fixed(&buf, text, sizeof text);
  va_start(args, format);
  td_buf_vprintf(&buf, format, args);
  va_end(args);
  sim_host_finding(id, name, 0, 0, "%s", text);
}

/* -- an operation's life -- */

void sim_coll_unqueue(sim_coll_t *coll) {
  sim_clique_t *c = coll->clique;
  for (uint32_t i = 0; i < c->queued_count; i++) {
    if (c->queued[i] != coll) continue;
    memmove(&c->queued[i], &c->queued[i + 1],
            (c->queued_count - i - 1) * sizeof *c->queued);
    c->queued_count--;
    break;
  }
  coll->item = NULL;
}

void sim_coll_free(sim_coll_t *coll) {
  if (coll->item) sim_coll_unqueue(coll);
  sim_clock_free(&coll->brings);
  free(coll->parts);
  free(coll);
}

sim_coll_t *sim_coll_copy(const sim_coll_t *from) {
  sim_coll_t *to = malloc(sizeof *to);
  sim_part_t *parts = malloc(from->count * sizeof *parts);
  if (!to || !parts) {
    free(to);
    free(parts);
    return NULL;
  }
  *to = *from;
  to->item = NULL;
  to->since = 0;
  to->brings = (sim_clock_t){0};
  to->parts = parts;
  memcpy(parts, from->parts, from->count * sizeof *parts);
  return to;
}

void sim_coll_ranges(const sim_op_run_t *op, sim_past_t *past) {
  const sim_coll_t *coll = op->coll;
  for (uint32_t i = 0; i < coll->count; i++) {
    const sim_part_t *p = &coll->parts[i];
    uint32_t n = coll->clique->size;
    uint64_t out = sim_part_send_bytes(p, coll->rank, n);
    uint64_t in = sim_part_recv_bytes(p, coll->rank, n);
    if (out) sim_order_add_range(past, p->send, out, 1, 0, 'r');
    if (in) sim_order_add_range(past, p->recv, in, 1, 0, 'w');
  }
}

/* -- meeting -- */

sim_part_t *sim_coll_partner(const sim_coll_t *coll, const sim_part_t *p,
                           uint32_t rank, sim_coll_t **owner) {
  const sim_clique_t *c = coll->clique;
  sim_coll_op_t want =
      p->op == SIM_COLL_SEND ? SIM_COLL_RECV : SIM_COLL_SEND;
  for (uint32_t i = 0; i < c->queued_count; i++) {
    sim_coll_t *other = c->queued[i];
    if (other->rank != rank) continue;
    for (uint32_t k = 0; k < other->count; k++) {
      sim_part_t *q = &other->parts[k];
      if (q->number != p->number ||
          sim_part_is_pair(q) != sim_part_is_pair(p) ||
          (sim_part_is_pair(p) && (q->op != want || q->peer != coll->rank)))
        continue;
      *owner = other;
      return q;
    }
  }
  return NULL;
}

void sim_coll_meets(const sim_coll_t *coll, const sim_part_t *p,
                  uint32_t *first, uint32_t *end) {
  *first = sim_part_is_pair(p) ? p->peer : 0;
  *end = sim_part_is_pair(p) ? p->peer + 1 : coll->clique->size;
}

static void describe(td_buf_t *buf, uint32_t rank, const sim_part_t *p) {
  td_buf_printf(buf, "rank %u: %s of %llu %s", rank, sim_coll_name(p->op),
                (unsigned long long)p->count, sim_dtype_name(p->dtype));
  if (p->op == SIM_COLL_BROADCAST || p->op == SIM_COLL_REDUCE)
    td_buf_printf(buf, " root %u", p->peer);
  if (p->op == SIM_COLL_ALL_REDUCE || p->op == SIM_COLL_REDUCE ||
      p->op == SIM_COLL_REDUCE_SCATTER)
    td_buf_printf(buf, " reduction %d", p->fold.kind);
}

/* Two parts that meet agree in all that both say. */
static bool agree(const sim_part_t *a, const sim_part_t *b) {
  if (a->count != b->count || a->dtype != b->dtype) return false;
  return sim_part_is_pair(a) || (a->op == b->op && a->peer == b->peer &&
                        a->fold.kind == b->fold.kind);
}

bool sim_coll_agrees(const sim_coll_t *coll, const sim_part_t *p, uint32_t r,
                     const sim_part_t *q, bool is_captured) {
  if (agree(p, q) && is_captured == coll->is_captured) return true;
  char text[240];
  td_buf_t buf;
  td_buf_init_fixed(&buf, text, sizeof text);
  td_buf_printf(&buf, "communicator %u, number %llu: ",
                coll->clique->number, (unsigned long long)p->number);
  if (agree(p, q)) {
    td_buf_printf(&buf, "rank %u launches a captured %s, rank %u calls it",
                  coll->is_captured ? coll->rank : r, sim_coll_name(p->op),
                  coll->is_captured ? r : coll->rank);
  } else {
    describe(&buf, r, q);
    td_buf_puts(&buf, "; ");
    describe(&buf, coll->rank, p);
  }
  sim_coll_finding(agree(p, q) ? SIM_CHECK_COLL_CAPTURE
                               : SIM_CHECK_COLL_MISMATCH,
                   coll->item->op.name, "%s", text);
  coll->clique->is_broken = true;
  return false;
}

static void compare(const sim_coll_t *coll, const sim_part_t *p) {
  uint32_t first, end;
  sim_coll_meets(coll, p, &first, &end);
  for (uint32_t r = first; r < end; r++) {
    sim_coll_t *other;
    const sim_part_t *q = r == coll->rank && !sim_part_is_pair(p)
                              ? NULL
                              : sim_coll_partner(coll, p, r, &other);
    if (q && !sim_coll_agrees(coll, p, r, q, other->is_captured)) return;
  }
}

void sim_coll_queued(sim_queued_t *item) {
  sim_coll_t *coll = item->op.coll;
  sim_clique_t *c = coll->clique;
  sim_comm_t *comm = sim_handle_number(SIM_TYPE_COMM, coll->comm);
  coll->item = item;
  if (c->queued_count == c->queued_capacity) {
    uint32_t capacity = c->queued_capacity ? c->queued_capacity * 2 : 16;
    sim_coll_t **list = realloc(c->queued, capacity * sizeof *list);
    if (!list) { /* nobody would find it */
      c->is_broken = true;
      return;
    }
    c->queued = list;
    c->queued_capacity = capacity;
  }
  c->queued[c->queued_count++] = coll;
  for (uint32_t i = 0; i < coll->count; i++) {
    sim_part_t *p = &coll->parts[i];
    p->is_done = p->is_entered = false;
    p->entry = p->compared = 0;
    if (!comm) { /* of a graph: its communicator has ended */
      c->is_broken = true;
      continue;
    }
    p->number = p->op == SIM_COLL_SEND   ? comm->sent[p->peer]++
                : p->op == SIM_COLL_RECV ? comm->received[p->peer]++
                                         : comm->collectives++;
  }
  if (comm && c->is_shared) sim_remote_queued(coll);
  for (uint32_t i = 0; comm && !c->is_shared && i < coll->count; i++)
    compare(coll, &coll->parts[i]);
  sim_coll_judge_order(coll);
}

/* -- running -- */

/* At the head of its lane, with everything before it done. */
static bool is_entered(const sim_coll_t *coll) {
  const sim_lane_t *lane = sim_lane_of(coll->item->lane);
  return lane->head == coll->item && sim_queue_is_ready(coll->item);
}

bool sim_coll_is_next(const sim_coll_t *coll, const sim_part_t *p) {
  for (const sim_part_t *q = coll->parts; q < p; q++)
    if (!sim_part_is_pair(q) && !q->is_done) return false;
  return true;
}

/* The operation never runs. The contexts of a disagreement are broken; those
   of a rank that is missing are not. */
static void fail(sim_coll_t *coll, int async, bool breaks) {
  sim_comm_t *comm = sim_handle_number(SIM_TYPE_COMM, coll->comm);
  sim_queued_t *item = coll->item;
  sim_ctx_t *ctx = sim_handle_number(SIM_TYPE_CTX, item->op.ctx);
  if (comm && !comm->async) comm->async = async;
  if (comm)
    sim_comm_fail(comm, async, "%s %llu was not carried out",
                  sim_coll_name(coll->parts[0].op),
                  (unsigned long long)coll->parts[0].number);
  if (ctx && breaks && !ctx->sticky && !sim_state()->options.is_warning)
    ctx->sticky = RCUDA_LAUNCH_FAILED;
  if (ctx) ctx->once = RCUDA_LAUNCH_FAILED;
  sim_queue_drop_head(item);
}

/* True if a rank that has completed the part knows that the other one came to
   it: all that sends or folds into what the rank receives. */
static bool hears(const sim_part_t *p, uint32_t rank, uint32_t other) {
  switch (p->op) {
  case SIM_COLL_BROADCAST: return other == p->peer;
  case SIM_COLL_REDUCE: return rank == p->peer;
  case SIM_COLL_SEND: return false;
  case SIM_COLL_ALL_REDUCE:
  case SIM_COLL_REDUCE_SCATTER:
  case SIM_COLL_ALL_GATHER:
  case SIM_COLL_ALL_TO_ALL:
  case SIM_COLL_RECV:
  case SIM_COLL_OPS: break;
  }
  return true;
}

void sim_coll_hear(sim_coll_t *coll, const sim_part_t *p,
                   const sim_coll_t *other) {
  sim_clock_t clock = {0};
  if (coll == other || !hears(p, coll->rank, other->rank)) return;
  if (sim_clock_copy(&clock, &other->item->clock)) {
    /* it has been read there, not completed */
    clock.at[other->item->lane]--;
    sim_clock_join(&coll->brings, &clock);
  }
  sim_clock_free(&clock);
}

void sim_coll_part_done(sim_coll_t *coll, sim_part_t *p) {
  p->is_done = true;
  sim_coll_count_part(coll->clique, coll->rank, p);
}

/* The part and all it meets, if they are there: true if it was carried out. */
static bool run_part(sim_coll_t *coll, sim_part_t *p) {
  sim_coll_t *owners[SIM_MAX_DEVICES] = {NULL};
  sim_part_t *parts[SIM_MAX_DEVICES] = {NULL};
  uint32_t first, end, n = 0;
  if (!sim_part_is_pair(p) && !sim_coll_is_next(coll, p)) return false;
  sim_coll_meets(coll, p, &first, &end);
  for (uint32_t r = first; r < end; r++, n++) {
    parts[n] = p;
    owners[n] = coll;
    if (r == coll->rank && !sim_part_is_pair(p)) continue;
    parts[n] = sim_coll_partner(coll, p, r, &owners[n]);
    if (!parts[n] || !is_entered(owners[n]) ||
        (!sim_part_is_pair(p) && !sim_coll_is_next(owners[n], parts[n])))
      return false;
  }
  bool sends = p->op == SIM_COLL_SEND;
  int code = !sim_part_is_pair(p) ? sim_coll_move(coll->clique, parts)
             : sends ? sim_coll_transfer(coll->clique, coll, p, owners[0],
                                         parts[0])
                     : sim_coll_transfer(coll->clique, owners[0], parts[0],
                                         coll, p);
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t k = 0; k < n; k++)
      sim_coll_hear(owners[i], parts[i], owners[k]);
    if (sim_part_is_pair(p)) sim_coll_hear(owners[i], parts[i], coll);
    if (sim_part_is_pair(p)) sim_coll_hear(coll, p, owners[i]);
  }
  for (uint32_t i = 0; i < n; i++) sim_coll_part_done(owners[i], parts[i]);
  if (sim_part_is_pair(p)) sim_coll_part_done(coll, p);
  if (code) coll->clique->is_broken = true;
  return true;
}

static bool is_finished(const sim_coll_t *coll) {
  for (uint32_t i = 0; i < coll->count; i++)
    if (!coll->parts[i].is_done) return false;
  return true;
}

sim_coll_t *sim_coll_head(uint32_t lane, const sim_clock_t *clock) {
  const sim_queued_t *head = sim_lane_of(lane)->head;
  if (!head || head->op.kind != SIM_RUN_COLL ||
      (clock && head->seq > sim_clock_at(clock, lane)))
    return NULL;
  return head->op.coll;
}

bool sim_coll_advance(const sim_clock_t *clock) {
  bool any = false;
  for (uint32_t i = 0; i < queue()->lane_count; i++) {
    sim_coll_t *coll = sim_coll_head(i, clock);
    if (!coll) continue;
    if (coll->clique->is_shared) sim_remote_poll(coll->clique);
    if (coll->clique->is_broken) {
      fail(coll, COLL_NCCL_INVALID_USAGE, true);
      return true;
    }
    if (!is_entered(coll)) continue;
    if (coll->clique->is_shared)
      any |= sim_remote_run(coll);
    for (uint32_t k = 0; !coll->clique->is_shared && k < coll->count; k++)
      if (!coll->parts[k].is_done) any |= run_part(coll, &coll->parts[k]);
    if (!is_finished(coll) || coll->clique->is_broken) continue;
    sim_order_add_edge(coll->item, &coll->brings);
    sim_queue_done(coll->item);
    any = true;
  }
  return any;
}

bool sim_coll_widen(sim_clock_t *target) {
  bool grows = false;
  for (uint32_t i = 0; i < queue()->lane_count; i++) {
    const sim_coll_t *coll = sim_coll_head(i, target);
    for (uint32_t k = 0; coll && k < coll->count; k++) {
      const sim_part_t *p = &coll->parts[k];
      uint32_t first, end;
      if (p->is_done) continue;
      sim_coll_meets(coll, p, &first, &end);
      for (uint32_t r = first; r < end; r++) {
        sim_coll_t *other;
        if (!sim_coll_partner(coll, p, r, &other)) continue;
        const sim_queued_t *item = other->item;
        if (item->seq <= sim_clock_at(target, item->lane)) continue;
        grows = sim_clock_join(target, &item->clock) || grows;
      }
    }
  }
  return grows;
}

/* -- waiting -- */

uint64_t sim_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool sim_sleep_until(uint64_t ms) {
  sim_state_t *s = sim_state();
  sim_queue_t *q = queue();
  if (!q->has_cond) q->has_cond = pthread_cond_init(&q->idle, NULL) == 0;
  if (!q->has_cond || sim_now_ms() >= ms) return false;
  struct timespec end = {.tv_sec = (time_t)(ms / 1000),
                         .tv_nsec = (long)(ms % 1000) * 1000000};
  pthread_cond_timedwait(&q->idle, &s->mutex, &end);
  return true;
}

/* The first unfinished part of the operation that lacks a rank; *rank: which.
   gone: only ranks that have ended. */
static const sim_part_t *lacks(const sim_coll_t *coll, bool gone,
                               uint32_t *rank) {
  const sim_clique_t *c = coll->clique;
  if (c->is_shared) return sim_remote_lacks(coll, gone, rank);
  for (uint32_t k = 0; k < coll->count; k++) {
    const sim_part_t *p = &coll->parts[k];
    uint32_t first, end;
    sim_coll_t *other;
    if (p->is_done) continue;
    sim_coll_meets(coll, p, &first, &end);
    for (uint32_t r = first; r < end; r++) {
      const sim_comm_t *comm = sim_handle_number(SIM_TYPE_COMM, c->comms[r]);
      bool has_ended = c->is_gone[r] || !comm ||
                       !sim_handle_number(SIM_TYPE_CTX, comm->ctx);
      if ((gone && !has_ended) || sim_coll_partner(coll, p, r, &other))
        continue;
      *rank = r;
      return p;
    }
  }
  return NULL;
}

/* -- circles: an operation waits for the operations at the heads of the lanes
   that hold back what it is to meet -- */

typedef struct search_t {
  uint32_t path[64]; /* lanes */
  uint32_t length;
  bool seen[4096];
} search_t;

static bool is_circle(search_t *s, uint32_t lane);

/* The head that holds back an operation; true if that closes a circle. */
static bool held_back(search_t *s, const sim_coll_t *other) {
  const sim_queued_t *item = other->item;
  if (is_entered(other)) return is_circle(s, item->lane);
  for (uint32_t i = 0; i < queue()->lane_count; i++) {
    const sim_coll_t *head = sim_coll_head(i, &item->clock);
    if (head && head != other && is_circle(s, i)) return true;
  }
  return false;
}

static bool is_circle(search_t *s, uint32_t lane) {
  const sim_coll_t *coll = sim_coll_head(lane, NULL);
  for (uint32_t i = 0; i < s->length; i++) {
    if (s->path[i] != lane) continue;
    memmove(s->path, s->path + i, (s->length - i) * sizeof *s->path);
    s->length -= i;
    return true;
  }
  if (!coll || s->length == 64 || lane >= 4096 || s->seen[lane]) return false;
  s->seen[lane] = true;
  s->path[s->length++] = lane;
  for (uint32_t k = 0; k < coll->count; k++) {
    const sim_part_t *p = &coll->parts[k];
    uint32_t first, end;
    sim_coll_t *other;
    if (p->is_done) continue;
    sim_coll_meets(coll, p, &first, &end);
    for (uint32_t r = first; r < end; r++) {
      const sim_part_t *q = sim_coll_partner(coll, p, r, &other);
      if (!q || other == coll) continue;
      if (is_entered(other) &&
          (sim_part_is_pair(q) || sim_coll_is_next(other, q)))
        continue;
      if (held_back(s, other)) return true;
    }
  }
  s->length--;
  return false;
}

/* Reports a circle and ends what is in it; false if there is none. */
static bool break_circle(const sim_clock_t *target) {
  search_t *s = calloc(1, sizeof *s);
  bool found = false;
  for (uint32_t i = 0; s && !found && i < queue()->lane_count; i++)
    if (sim_coll_head(i, target)) found = is_circle(s, i);
  if (found) {
    char text[240];
    td_buf_t buf;
    td_buf_init_fixed(&buf, text, sizeof text);
    td_buf_puts(&buf, "a circle:");
    for (uint32_t i = 0; i < s->length; i++) {
      const sim_coll_t *coll = sim_coll_head(s->path[i], NULL);
      td_buf_printf(&buf, "%s rank %u of communicator %u at %s %llu",
                    i ? ";" : "", coll->rank, coll->clique->number,
                    sim_coll_name(coll->parts[0].op),
                    (unsigned long long)coll->parts[0].number);
    }
    sim_coll_finding(SIM_CHECK_COLL_DEADLOCK,
                     sim_coll_head(s->path[0], NULL)->item->op.name, "%s",
                     text);
    for (uint32_t i = 0; i < s->length; i++)
      sim_coll_head(s->path[i], NULL)->clique->is_broken = true;
  }
  free(s);
  return found;
}

/* A rank that has ended or that took too long; in words, with all queues if
   they lie in several processes. */
static void report_missing(const sim_coll_t *coll, const sim_part_t *p,
                           uint32_t rank, bool gone) {
  char text[240];
  td_buf_t buf;
  td_buf_init_fixed(&buf, text, sizeof text);
  td_buf_printf(&buf, "communicator %u: ", coll->clique->number);
  if (gone)
    td_buf_printf(&buf, "rank %u has ended, and rank %u waits for it", rank,
                  coll->rank);
  else
    td_buf_printf(&buf, "rank %u waited %llu ms for rank %u", coll->rank,
                  (unsigned long long)sim_state()->options.deadline, rank);
  td_buf_printf(&buf, " at %s %llu", sim_coll_name(p->op),
                (unsigned long long)p->number);
  if (coll->clique->is_shared) sim_remote_queues(coll->clique, &buf);
  sim_coll_finding(SIM_CHECK_COLL_DEADLOCK, coll->item->op.name, "%s", text);
}

/* All ranks are there and nothing goes on: what this one said, or what others
   say that they have read, is no longer what was written. */
static void report_stuck(const sim_coll_t *coll) {
  sim_coll_finding(SIM_CHECK_COLL_DEADLOCK, coll->item->op.name,
                   "communicator %u: rank %u waited %llu ms at %s %llu, and "
                   "all ranks are there: their shared memory was changed",
                   coll->clique->number, coll->rank,
                   (unsigned long long)sim_state()->options.deadline,
                   sim_coll_name(coll->parts[0].op),
                   (unsigned long long)coll->parts[0].number);
}

sim_blocked_t sim_coll_blocked(const sim_clock_t *target, bool may_wait) {
  uint64_t now = sim_now_ms(), limit = sim_state()->options.deadline;
  uint64_t end = UINT64_MAX;
  bool any = false;
  uint32_t rank = 0;
  if (break_circle(target)) return SIM_BLOCKED_FREED;
  for (uint32_t i = 0; i < queue()->lane_count; i++) {
    sim_coll_t *coll = sim_coll_head(i, target);
    if (!coll || !is_entered(coll)) continue;
    any = true;
    if (coll->clique->is_shared && sim_remote_circle(coll))
      return SIM_BLOCKED_FREED;
    if (!coll->since) coll->since = now;
    const sim_part_t *p = lacks(coll, true, &rank);
    bool gone = p != NULL;
    if (!gone) p = lacks(coll, false, &rank);
    bool is_late = now - coll->since >= limit;
    if (gone || (is_late && (p || coll->clique->is_shared))) {
      if (p) report_missing(coll, p, rank, gone);
      else report_stuck(coll);
      fail(coll, COLL_NCCL_REMOTE_ERROR, false);
      return SIM_BLOCKED_FREED;
    }
    if (p && coll->since + limit < end) end = coll->since + limit;
    /* other processes do not call here: look again soon */
    if (coll->clique->is_shared && now + 1 < end) end = now + 1;
  }
  if (!any || !may_wait) return SIM_BLOCKED_PENDING;
  sim_sleep_until(end == UINT64_MAX ? now + 1000 : end);
  return SIM_BLOCKED_FREED;
}
