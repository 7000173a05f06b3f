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

bool sim_clock_copy(sim_clock_t *to, const sim_clock_t *from) {
  if (to->count) memset(to->at, 0, to->count * sizeof *to->at);
  return sim_clock_join(to, from);
}

bool sim_clock_covers(const sim_clock_t *to, const sim_clock_t *from) {
  for (uint32_t i = 0; i < from->count; i++)
    if (from->at[i] > sim_clock_at(to, i)) return false;
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

bool sim_lane_join(uint32_t id, const sim_clock_t *clock,
                   const sim_clock_t *sure) {
  sim_lane_t *lane = queue()->lanes[id];
  if (sure != clock && !lane->has_sure) {
    if (!sim_clock_copy(&lane->sure, &lane->clock)) return false;
    lane->has_sure = true;
  }
  return sim_clock_join(&lane->clock, clock) &&
         (!lane->has_start || sim_clock_join(&lane->start, sure)) &&
         (!lane->has_sure || sim_clock_join(&lane->sure, sure));
}

bool sim_queue_implicit(uint32_t id) {
  sim_queue_t *q = queue();
  sim_lane_t *lane = q->lanes[id];
  bool ok = sim_lane_join(id, &q->host, &q->host);
  for (uint32_t i = 0; ok && i < q->lane_count; i++) {
    const sim_lane_t *other = q->lanes[i];
    if (i == id || other->ctx != lane->ctx) continue;
    if ((lane->is_default && other->is_blocking) ||
        (lane->is_blocking && other->is_default))
      ok = sim_lane_join(id, &other->clock, &other->clock);
  }
  return ok;
}

/* -- submission -- */

static void free_queued(sim_queued_t *q) {
  sim_op_free(&q->op);
  sim_clock_free(&q->clock);
  sim_clock_free(&q->early);
  free(q);
}

/* Lets those that depend on it begin before it has completed. */
bool sim_has_trigger(const sim_op_run_t *op) {
  const sim_func_t *f =
      op->kind == SIM_RUN_LAUNCH
          ? sim_handle_number(SIM_TYPE_FUNC, op->launch.func)
          : NULL;
  return f && f->kernel && f->kernel->has_trigger;
}

/* What comes before the operation's beginning, if that is less than what comes
   before the rest of it. */
static bool set_early(sim_queued_t *item, const sim_lane_t *lane,
                      const sim_clock_t *early) {
  bool is_chosen = item->op.launch.is_programmatic && lane->has_start;
  if (!early && is_chosen) early = &lane->start;
  if (!early && lane->has_sure) early = &lane->sure;
  if (!early || sim_clock_covers(early, &lane->clock)) return true;
  if (!sim_clock_copy(&item->early, early) ||
      !sim_clock_join(&item->early, &queue()->host))
    return false;
  item->has_early = true;
  uint64_t last = sim_clock_at(&lane->clock, item->lane);
  if (sim_clock_at(&item->early, item->lane) < last) item->depends = last;
  return true;
}

/* What may begin early after the operation comes after this. */
static bool set_start(sim_lane_t *lane, const sim_queued_t *item) {
  if (item->op.kind != SIM_RUN_EVENT && item->op.kind != SIM_RUN_EMPTY)
    lane->has_sure = false;
  if (!sim_has_trigger(&item->op)) {
    lane->has_start = false;
    return true;
  }
  if (!sim_clock_copy(&lane->start,
                      item->has_early ? &item->early : &lane->clock))
    return false;
  lane->has_start = true;
  return true;
}

static int refuse(sim_queued_t *item, const sim_op_run_t *op) {
  sim_op_run_t gone = *op;
  if (item) sim_clock_free(&item->clock);
  if (item) sim_clock_free(&item->early);
  free(item);
  sim_op_free(&gone);
  return RCUDA_OUT_OF_MEMORY;
}

int sim_queue_add(uint32_t id, const sim_op_run_t *op,
                  const sim_clock_t *after, const sim_clock_t *early) {
  sim_queue_t *q = queue();
  sim_lane_t *lane = q->lanes[id];
  sim_queued_t *item = calloc(1, sizeof *item);
  if (!item) return refuse(item, op);
  item->op = *op;
  item->lane = id;
  if (!sim_queue_implicit(id) || (after && !sim_lane_join(id, after, after)) ||
      !clock_reserve(&lane->clock, id + 1) ||
      !set_early(item, lane, early) || !set_start(lane, item) ||
      !sim_clock_join(&item->clock, &lane->clock))
    return refuse(item, op);
  item->seq = lane->seq += SIM_SEQ_STEP;
  item->issue = ++q->issued;
  item->clock.at[id] = lane->clock.at[id] = item->seq;
  if (lane->tail)
    lane->tail->next = item;
  else
    lane->head = item;
  lane->tail = item;
  q->pending++;
  q->early += item->has_early;
  if (op->kind == SIM_RUN_COLL) {
    q->collectives++;
    sim_coll_queued(item);
    if (q->has_cond) pthread_cond_broadcast(&q->idle);
  }
  if (q->pending > MAX_PENDING) sim_queue_flush();
  return 0;
}

bool sim_queue_begin(uint32_t id, const sim_op_run_t *op, sim_clock_t *out) {
  const sim_lane_t *lane = queue()->lanes[id];
  bool is_chosen = op->launch.is_programmatic && lane->has_start;
  return sim_queue_implicit(id) &&
         sim_clock_copy(out, is_chosen        ? &lane->start
                             : lane->has_sure ? &lane->sure
                                              : &lane->clock);
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
  q->early -= item->has_early;
}

/* The next operation of the lane, if its beginning runs before this launch
   does: a launch that may begin early, in a drawn order. */
static sim_queued_t *overlaps(const sim_queued_t *item,
                              const sim_clock_t *clock) {
  sim_queued_t *next = queue()->lanes[item->lane]->head;
  if (sim_state()->options.streams != SIM_STREAMS_RANDOM || !next ||
      next->op.kind != SIM_RUN_LAUNCH || next->depends != item->seq ||
      next->op.touches_host || next->op.ctx != item->op.ctx ||
      (clock && next->seq > sim_clock_at(clock, item->lane)) ||
      !sim_queue_is_ready(next))
    return NULL;
  return next;
}

static void number(sim_queued_t *item) {
  if (item->op.kind == SIM_RUN_LAUNCH && !item->number)
    item->number = ++sim_state()->launches;
}

static void run_one(sim_queued_t *item, const sim_clock_t *clock) {
  sim_queue_t *q = queue();
  sim_lane_t *lane = q->lanes[item->lane];
  bool joins = item->op.kind == SIM_RUN_EMPTY ||
               item->op.kind == SIM_RUN_EVENT;
  for (uint32_t i = 0; joins && i < item->clock.count; i++) {
    /* work done elsewhere that this one waited for */
    if (q->lanes[i]->work > lane->work && item->clock.at[i] != 0)
      lane->work = q->lanes[i]->work;
  }
  while (item) {
    unlink_head(item);
    number(item);
    sim_queued_t *next =
        item->op.kind == SIM_RUN_LAUNCH ? overlaps(item, clock) : NULL;
    if (next) {
      number(next);
      sim_run_held(next);
    }
    sim_run_queued(item, &lane->work);
    free_queued(item);
    item = next;
  }
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
    while ((item = choose(clock)) != NULL) run_one(item, clock);
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
    sim_order_close(&target);
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

void sim_queue_push(const sim_clock_t *clock) {
  const sim_queue_t *q = queue();
  sim_clock_t target = {0}, wide = {0}; /* its owner may go meanwhile */
  bool ok = !q->is_running && sim_clock_join(&target, clock) &&
            sim_clock_join(&wide, clock);
  while (ok) {
    run_until(&wide);
    ok = !sim_queue_is_done(&target) && sim_coll_widen(&wide);
  }
  sim_clock_free(&target);
  sim_clock_free(&wide);
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
