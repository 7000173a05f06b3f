/* The queue of operations: clocks, submission, and the order of execution. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

#define MAX_PENDING 8192u /* beyond, the oldest run unasked */
#define MAX_LANES   4096u /* beyond, closed ones are used again */

static sim_queue_t *queue(void) {
  return &sim_state()->queue;
}

/* -- clocks -- */

static bool clock_reserve(sim_clock_t *c, uint32_t count) {
  if (count <= c->count) return true;
  uint64_t *at = realloc(c->at, count * sizeof *at);
  if (!at) return false;
  memset(at + c->count, 0, (count - c->count) * sizeof *at);
  c->at = at;
  c->count = count;
  return true;
}

bool sim_clock_join(sim_clock_t *to, const sim_clock_t *from) {
  if (!clock_reserve(to, from->count)) return false;
  for (uint32_t i = 0; i < from->count; i++)
    if (from->at[i] > to->at[i]) to->at[i] = from->at[i];
  return true;
}

void sim_clock_free(sim_clock_t *c) {
  free(c->at);
  c->at = NULL;
  c->count = 0;
}

/* -- lanes -- */

sim_lane_t *sim_lane_of(uint32_t id) {
  return queue()->lanes[id];
}

static void lane_init(sim_lane_t *lane, uint64_t ctx, bool is_blocking,
                      bool is_default) {
  lane->ctx = ctx;
  lane->is_blocking = is_blocking;
  lane->is_default = is_default;
  lane->is_open = true;
}

uint32_t sim_lane_new(uint64_t ctx, bool is_blocking, bool is_default) {
  sim_queue_t *q = queue();
  for (uint32_t i = 0; q->lane_count >= MAX_LANES && i < q->lane_count; i++) {
    if (q->lanes[i]->is_open || q->lanes[i]->head) continue;
    lane_init(q->lanes[i], ctx, is_blocking, is_default);
    return i;
  }
  sim_lane_t *lane = calloc(1, sizeof *lane);
  sim_lane_t **lanes =
      lane ? realloc(q->lanes, (q->lane_count + 1) * sizeof *lanes) : NULL;
  if (!lanes) {
    free(lane);
    return UINT32_MAX;
  }
  q->lanes = lanes;
  lane_init(lane, ctx, is_blocking, is_default);
  q->lanes[q->lane_count] = lane;
  return q->lane_count++;
}

void sim_lane_close(uint32_t id) {
  sim_lane_of(id)->is_open = false;
}

bool sim_queue_implicit(uint32_t id) {
  sim_queue_t *q = queue();
  sim_lane_t *lane = q->lanes[id];
  bool ok = sim_clock_join(&lane->clock, &q->host);
  for (uint32_t i = 0; ok && i < q->lane_count; i++) {
    const sim_lane_t *other = q->lanes[i];
    if (i == id || other->ctx != lane->ctx) continue;
    if ((lane->is_default && other->is_blocking) ||
        (lane->is_blocking && other->is_default))
      ok = sim_clock_join(&lane->clock, &other->clock);
  }
  return ok;
}

/* -- submission -- */

static void free_queued(sim_queued_t *q) {
  sim_op_free(&q->op);
  sim_clock_free(&q->clock);
  free(q);
}

int sim_queue_add(uint32_t id, const sim_op_run_t *op,
                  const sim_clock_t *after) {
  sim_queue_t *q = queue();
  sim_lane_t *lane = q->lanes[id];
  sim_queued_t *item = calloc(1, sizeof *item);
  if (item) item->op = *op;
  if (!item || !sim_queue_implicit(id) ||
      (after && !sim_clock_join(&lane->clock, after)) ||
      !clock_reserve(&lane->clock, id + 1) ||
      !sim_clock_join(&item->clock, &lane->clock)) {
    sim_op_run_t gone = *op;
    if (item) sim_clock_free(&item->clock);
    free(item);
    sim_op_free(&gone);
    return RCUDA_OUT_OF_MEMORY;
  }
  item->lane = id;
  item->seq = ++lane->seq;
  item->issue = ++q->issued;
  item->clock.at[id] = lane->clock.at[id] = item->seq;
  if (lane->tail)
    lane->tail->next = item;
  else
    lane->head = item;
  lane->tail = item;
  q->pending++;
  if (op->kind == SIM_RUN_COLL) {
    q->collectives++;
    sim_coll_queued(item);
    if (q->has_cond) pthread_cond_broadcast(&q->idle);
  }
  if (q->pending > MAX_PENDING) sim_queue_flush();
  return 0;
}

/* -- execution -- */

bool sim_queue_is_done(const sim_clock_t *clock) {
  const sim_queue_t *q = queue();
  for (uint32_t i = 0; i < q->lane_count; i++) {
    const sim_queued_t *head = q->lanes[i]->head;
    if (head && head->seq <= sim_clock_at(clock, i)) return false;
  }
  return true;
}

/* Everything before the head of its lane has run. */
bool sim_queue_is_ready(const sim_queued_t *item) {
  const sim_queue_t *q = queue();
  for (uint32_t i = 0; i < q->lane_count; i++) {
    const sim_queued_t *head = q->lanes[i]->head;
    if (i != item->lane && head &&
        head->seq <= sim_clock_at(&item->clock, i))
      return false;
  }
  return true;
}

/* The next operation among those at or before the clock (NULL: all): the one
   issued first, or any that may run. */
static sim_queued_t *choose(const sim_clock_t *clock) {
  sim_queue_t *q = queue();
  bool is_random = sim_state()->options.streams == SIM_STREAMS_RANDOM;
  sim_queued_t *best = NULL;
  uint32_t ready = 0;
  for (uint32_t i = 0; i < q->lane_count; i++) {
    sim_queued_t *head = q->lanes[i]->head;
    if (!head || (clock && head->seq > sim_clock_at(clock, i))) continue;
    if (head->op.kind == SIM_RUN_COLL) continue; /* for sim_coll.c */
    if (!is_random) {
      /* collectives wait, so the oldest is not always ready */
      if ((!best || head->issue < best->issue) &&
          (!q->collectives || sim_queue_is_ready(head)))
        best = head;
    } else if (sim_queue_is_ready(head) &&
               sim_random(&q->random) % ++ready == 0) {
      best = head;
    }
  }
  return best;
}

/* Takes the head off its lane. */
static void unlink_head(sim_queued_t *item) {
  sim_queue_t *q = queue();
  sim_lane_t *lane = q->lanes[item->lane];
  lane->head = item->next;
  if (!lane->head) lane->tail = NULL;
  q->pending--;
  q->collectives -= item->op.kind == SIM_RUN_COLL;
}

static void run_one(sim_queued_t *item) {
  sim_queue_t *q = queue();
  sim_lane_t *lane = q->lanes[item->lane];
  unlink_head(item);
  bool joins = item->op.kind == SIM_RUN_EMPTY ||
               item->op.kind == SIM_RUN_EVENT;
  for (uint32_t i = 0; joins && i < item->clock.count; i++) {
    /* work done elsewhere that this one waited for */
    if (q->lanes[i]->work > lane->work && item->clock.at[i] != 0)
      lane->work = q->lanes[i]->work;
  }
  sim_run_queued(item, &lane->work);
  free_queued(item);
}

void sim_queue_drop_head(sim_queued_t *item) {
  unlink_head(item);
  free_queued(item);
}

void sim_queue_done(sim_queued_t *item) {
  unlink_head(item);
  sim_order_executed(item, false);
  free_queued(item);
}

/* One thread executes at a time; the others wait for it. */
static bool begin(void) {
  sim_state_t *s = sim_state();
  sim_queue_t *q = queue();
  if (!q->has_cond) q->has_cond = pthread_cond_init(&q->idle, NULL) == 0;
  if (!q->has_cond) return false;
  if (q->is_running && pthread_equal(q->runner, pthread_self())) return false;
  while (q->is_running) pthread_cond_wait(&q->idle, &s->mutex);
  q->is_running = true;
  q->runner = pthread_self();
  return true;
}

static void end(void) {
  sim_queue_t *q = queue();
  q->is_running = false;
  pthread_cond_broadcast(&q->idle);
}

/* Runs what is at or before the clock, as far as collectives let it. */
static void run_until(const sim_clock_t *clock) {
  sim_queued_t *item;
  if (!begin()) return;
  do {
    while ((item = choose(clock)) != NULL) run_one(item);
  } while (queue()->collectives && sim_coll_advance(clock));
  end();
}

static bool wait_for(const sim_clock_t *clock, bool may_wait) {
  sim_queue_t *q = queue();
  sim_clock_t target = {0}, wide = {0};
  bool is_mine = q->is_running && pthread_equal(q->runner, pthread_self());
  bool ok = sim_clock_join(&target, clock) && sim_clock_join(&wide, clock);
  while (ok) {
    run_until(&wide);
    if (is_mine || sim_queue_is_done(&target)) break;
    if (sim_coll_widen(&wide)) continue;
    if (sim_coll_blocked(&wide, may_wait) == SIM_BLOCKED_PENDING) ok = false;
  }
  if (ok) {
    sim_clock_join(&q->host, &target);
    sim_order_prune();
    sim_pools_settle();
  }
  sim_clock_free(&target);
  sim_clock_free(&wide);
  return ok;
}

void sim_queue_wait(const sim_clock_t *clock) {
  wait_for(clock, true);
}

bool sim_queue_try(const sim_clock_t *clock) {
  return wait_for(clock, false);
}

void sim_queue_wait_ctx(uint64_t ctx) {
  sim_queue_t *q = queue();
  sim_clock_t all = {0};
  bool ok = true;
  for (uint32_t i = 0; ok && i < q->lane_count; i++)
    if (q->lanes[i]->ctx == ctx)
      ok = sim_clock_join(&all, &q->lanes[i]->clock);
  if (ok) sim_queue_wait(&all);
  sim_clock_free(&all);
}

void sim_queue_flush(void) {
  run_until(NULL);
}

void sim_queue_drop_ctx(uint64_t ctx) {
  sim_queue_t *q = queue();
  for (uint32_t i = 0; i < q->lane_count; i++) {
    sim_lane_t *lane = q->lanes[i];
    if (lane->ctx != ctx) continue;
    while (lane->head) {
      sim_queued_t *item = lane->head;
      unlink_head(item);
      free_queued(item);
    }
    lane->tail = NULL;
    lane->is_open = false;
    lane->ctx = 0;
  }
}
