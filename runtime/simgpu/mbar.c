/* mbarriers: phases, arrivals, transactions, and what their waits order. */
#include "runtime/simgpu/async.h"

#include "runtime/simgpu/grid.h"

#include <stdlib.h>

#define MAX_COUNT ((1u << 20) - 1)

static uint32_t at(const sim_mbar_t *m) {
  return m->offset - m->cta->launch->shared_start;
}

void sim_mbar_text(const sim_mbar_t *m, char *text, size_t bytes) {
  td_buf_t buf;
  td_buf_init_fixed(&buf, text, bytes);
  td_buf_printf(&buf,
                "the mbarrier at shared+0x%x in phase %u, %u of %u arrivals "
                "missing, %lld bytes expected",
                at(m), m->phase, m->pending, m->expected, (long long)m->tx);
}

void sim_mbar_free(sim_mbar_t *m) {
  for (size_t n = 0; n < m->defers.length; n++)
    free(m->defers.data[n].clocks);
  free(m->defers.data);
  free(m->joining);
  free(m->seen);
  free(m);
}

/* -- life -- */

static bool no_memory(sim_warp_t *w, const sim_ins_t *ins) {
  return sim_find(w, ins, SIM_CHECK_ILLEGAL, 32, PTX_SPACE_REG, 0, 0,
                  "the host has no memory for asynchronous operations");
}

/* The object of a place; *failed if there is no memory for a new one. */
static sim_mbar_t *object(sim_cta_t *cta, uint32_t offset) {
  sim_async_t *a = cta->async;
  uint16_t number = a->mbar_at[offset / 8];
  if (number) return a->mbars[number - 1];
  if (a->mbar_count == a->mbar_capacity) {
    uint32_t capacity = a->mbar_capacity ? a->mbar_capacity * 2 : 16;
    sim_mbar_t **mbars =
        capacity > 32768 ? NULL
                         : realloc(a->mbars, capacity * sizeof *mbars);
    if (!mbars) return NULL;
    a->mbars = mbars;
    a->mbar_capacity = capacity;
  }
  sim_mbar_t *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->joining = calloc((size_t)cta->clock_words * 2, sizeof *m->joining);
  m->seen = calloc(cta->warp_count, sizeof *m->seen);
  if (!m->joining || !m->seen) {
    sim_mbar_free(m);
    return NULL;
  }
  uint32_t slot = a->mbar_count < SIM_MBARS ? a->mbar_count : SIM_MBARS - 1;
  m->last = m->joining + cta->clock_words;
  m->cta = cta;
  m->offset = offset;
  m->agent = (uint16_t)(cta->reader_count + cta->cluster_rank * SIM_MBARS +
                        slot);
  a->mbars[a->mbar_count++] = m;
  a->mbar_at[offset / 8] = (uint16_t)a->mbar_count;
  return m;
}

/* An mbarrier's clock goes on when its place is used again. */
static uint32_t *slot_clock(const sim_mbar_t *m) {
  uint32_t slot = m->agent - m->cta->reader_count -
                  m->cta->cluster_rank * SIM_MBARS;
  return &m->cta->async->agent_clocks[slot];
}

bool sim_mbar_init(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                   sim_cta_t *cta, uint32_t offset, uint32_t count) {
  sim_mbar_t *m = object(cta, offset);
  if (!m) return no_memory(w, ins) && false;
  if (m->is_live &&
      !sim_find(w, ins, SIM_CHECK_MBAR_INIT, lane, PTX_SPACE_SHARED, at(m),
                8, "is an mbarrier already and was not invalidated"))
    return false;
  if ((count == 0 || count > MAX_COUNT) &&
      !sim_find(w, ins, SIM_CHECK_MBAR_INIT, lane, PTX_SPACE_SHARED, at(m),
                8, "is initialised for %u arrivals", count))
    return false;
  sim_marks_clear(cta, offset, 8, SIM_MARK_MBAR);
  if (!sim_async_access(w, cta, ins, lane, offset, 8, SIM_RACE_WRITE))
    return false;
  m->is_live = true;
  m->phase = 0;
  m->expected = m->pending = count;
  m->tx = 0;
  m->is_observed = true;
  m->first_clock = *slot_clock(m);
  m->init_agent = w->agent;
  m->init_clock = w->clocks[w->agent];
  m->init_sync = w->sync_clock;
  m->init_lane = lane;
  memset(m->joining, 0, sizeof *m->joining * cta->clock_words * 2);
  memset(m->seen, 0, sizeof *m->seen * cta->warp_count);
  memset(cta->shared + offset, SIM_POISON, 8);
  memset(cta->shared_defined + offset, 0, 8);
  sim_marks_set(cta, offset, 8, SIM_MARK_MBAR);
  return true;
}

bool sim_mbar_inval(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                    sim_mbar_t *m) {
  m->is_live = false;
  sim_marks_clear(m->cta, m->offset, 8, SIM_MARK_MBAR);
  if (m->tx == 0) return true;
  return sim_find(w, ins, SIM_CHECK_MBAR_TX, lane, PTX_SPACE_SHARED, at(m),
                  8, "is invalidated while %lld bytes are expected",
                  (long long)m->tx);
}

sim_mbar_t *sim_mbar_at(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                        sim_cta_t *cta, uint32_t offset, bool *go_on) {
  uint16_t number = cta->async->mbar_at[offset / 8];
  sim_mbar_t *m = number ? cta->async->mbars[number - 1] : NULL;
  *go_on = true;
  if (!m || !m->is_live) {
    *go_on = sim_find(w, ins, SIM_CHECK_MBAR_INIT, lane, PTX_SPACE_SHARED,
                      offset - cta->launch->shared_start, 8,
                      m ? "was invalidated"
                        : "is used before it is initialised");
    return NULL;
  }
  bool is_ordered =
      m->init_agent != w->agent
          ? w->clocks[m->init_agent] >= m->init_clock
          : m->init_lane == lane || m->init_clock < w->clocks[w->agent] ||
                m->init_sync != w->sync_clock;
  if (!is_ordered)
    *go_on = sim_find(w, ins, SIM_CHECK_MBAR_INIT, lane, PTX_SPACE_SHARED,
                      at(m), 8,
                      "its initialisation by warp %u lane %u is not ordered "
                      "before this use",
                      m->init_agent % cta->warp_count, m->init_lane);
  return *go_on ? m : NULL;
}

/* -- phases -- */

static void finish(sim_mbar_t *m) {
  size_t bytes = m->cta->clock_words * sizeof *m->joining;
  if (m->pending || m->tx || !m->expected) return;
  uint32_t clock = m->first_clock + m->phase + 1;
  m->joining[m->agent] = clock;
  if (*slot_clock(m) < clock) *slot_clock(m) = clock;
  memcpy(m->last, m->joining, bytes);
  memset(m->joining, 0, bytes);
  m->phase++;
  m->pending = m->expected;
  m->is_observed = false;
  m->cta->worker->progress++;
}

static bool judge_tx(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                     const sim_mbar_t *m) {
  if (m->tx <= (int64_t)MAX_COUNT && m->tx >= -(int64_t)MAX_COUNT)
    return true;
  return sim_find(w, ins, SIM_CHECK_MBAR_TX, lane, PTX_SPACE_SHARED, at(m),
                  8, "its transaction count becomes %lld; the range is "
                     "2^20 - 1 either way",
                  (long long)m->tx);
}

bool sim_mbar_expect(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                     sim_mbar_t *m, int64_t tx) {
  m->tx += tx;
  return judge_tx(w, ins, lane, m);
}

bool sim_mbar_complete(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                       sim_mbar_t *m, int64_t tx) {
  m->tx -= tx;
  if (!judge_tx(w, ins, lane, m)) return false;
  finish(m);
  return true;
}

/* Who arrives has heard, in whatever way, of all arrivals of the phase before:
   it does not run ahead of those who have yet to wait for that phase, as long
   as it is not the last to arrive. */
static bool has_heard(const sim_mbar_t *m, const uint32_t *clocks) {
  for (uint32_t a = 0; a < m->cta->reader_count; a++)
    if (m->last[a] > clocks[a]) return false;
  return true;
}

bool sim_mbar_arrive(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                     sim_mbar_t *m, uint32_t count, uint32_t drop,
                     bool may_complete, const uint32_t *clocks) {
  if (count == 0 || count > MAX_COUNT || count > m->pending ||
      drop > m->expected) {
    if (!sim_find(w, ins, SIM_CHECK_MBAR_ARRIVE, lane, PTX_SPACE_SHARED,
                  at(m), 8, "%u arrivals where %u of %u are missing in "
                            "phase %u",
                  count, m->pending, m->expected, m->phase))
      return false;
    return true;
  }
  if (!may_complete && count == m->pending &&
      !sim_find(w, ins, SIM_CHECK_MBAR_ARRIVE, lane, PTX_SPACE_SHARED, at(m),
                8, "a .noComplete arrival is the last one of phase %u",
                m->phase))
    return false;
  if (m->phase && !m->is_observed &&
      (count == m->pending || !has_heard(m, clocks ? clocks : w->clocks))) {
    m->is_observed = true; /* once */
    if (!sim_find(w, ins, SIM_CHECK_MBAR_PHASE, lane, PTX_SPACE_SHARED,
                  at(m), 8,
                  "arrives in phase %u and nobody has waited for phase %u",
                  m->phase, m->phase - 1))
      return false;
  }
  if (clocks) sim_learn(m->joining, clocks, m->cta->clock_words);
  m->expected -= drop;
  m->pending -= count;
  finish(m);
  return true;
}

/* -- arrivals that follow cp.async -- */

static bool fire(sim_mbar_t *m, size_t n) {
  sim_defer_t *d = &m->defers.data[n];
  sim_warp_t *w = d->warp;
  sim_stamp_t stamp = {.clock = d->clock, .sync = d->sync, .serial = 0,
                       .agent = (uint16_t)w->agent};
  for (uint32_t k = 0; k < w->queue->count; k++) {
    sim_cp_t *op = &w->queue->ops[k];
    uint32_t lanes = op->mask & d->mask;
    if (op->serial >= d->serial) break;
    if (lanes & ~op->moved) sim_cp_move(w, op, lanes & ~op->moved);
    stamp.line = (uint32_t)(op->ins - w->code);
    lanes &= ~op->told;
    op->told |= lanes;
    for (; lanes && w->cta->races; lanes &= lanes - 1) {
      uint32_t l = (uint32_t)__builtin_ctz(lanes);
      stamp.lane = (uint8_t)l;
      stamp.clock = op->time[l];
      sim_race_stamp(w->cta, op->dst[l], op->size, &stamp);
    }
  }
  d->is_fired = true;
  d->phase = m->phase;
  return sim_mbar_arrive(w, d->ins, (uint32_t)__builtin_ctz(d->mask), m,
                         (uint32_t)__builtin_popcount(d->mask), 0, true,
                         d->clocks);
}

bool sim_mbar_defer(sim_warp_t *w, const sim_ins_t *ins, uint32_t lanes,
                    sim_mbar_t *m, bool is_counted) {
  size_t bytes = w->cta->clock_words * sizeof(uint32_t);
  if (m->defers.length == m->defers.capacity) {
    size_t capacity = m->defers.capacity ? m->defers.capacity * 2 : 8;
    sim_defer_t *data =
        realloc(m->defers.data, capacity * sizeof *data);
    if (!data) return no_memory(w, ins) && false;
    m->defers.data = data;
    m->defers.capacity = capacity;
  }
  sim_defer_t *d = &m->defers.data[m->defers.length];
  *d = (sim_defer_t){.warp = w, .ins = ins, .mask = lanes,
                     .serial = w->queue->serial,
                     .clock = w->clocks[w->agent], .sync = w->sync_clock,
                     .clocks = malloc(bytes)};
  if (!d->clocks) return no_memory(w, ins) && false;
  memcpy(d->clocks, w->clocks, bytes);
  for (uint32_t k = 0; k < w->queue->count; k++) {
    sim_cp_t *op = &w->queue->ops[k];
    for (uint32_t left = lanes & ~op->tied; left; left &= left - 1)
      op->time[__builtin_ctz(left)] = d->clock;
    op->tied |= lanes;
  }
  m->defers.length++;
  if (is_counted) m->pending += (uint32_t)__builtin_popcount(lanes);
  w->clocks[w->agent]++;
  return m->cta->launch->options->async != SIM_ASYNC_IMMEDIATE ||
         fire(m, m->defers.length - 1);
}

static bool fire_due(sim_mbar_t *m) {
  uint32_t missing = m->pending, waiting = 0, phase = m->phase;
  for (size_t n = 0; n < m->defers.length; n++)
    if (!m->defers.data[n].is_fired)
      waiting += (uint32_t)__builtin_popcount(m->defers.data[n].mask);
  if (!waiting) return true;
  bool is_due = waiting >= missing;
  if (!is_due && m->cta->launch->options->async == SIM_ASYNC_RANDOM)
    is_due = sim_random(&m->cta->async->random) % 4 == 0;
  for (size_t n = 0; is_due && n < m->defers.length; n++) {
    if (m->phase != phase) break;
    if (!m->defers.data[n].is_fired && !fire(m, n)) return false;
  }
  return true;
}

/* -- waits -- */

static bool deliver(const sim_mbar_t *m) {
  uint32_t phase = m->phase;
  const sim_cta_t *cta = m->cta;
  for (uint32_t r = 0; r < cta->cluster_count; r++) {
    const sim_async_t *a = cta->cluster[r]->async;
    for (uint32_t n = 0; a && n < a->count && m->phase == phase; n++) {
      sim_copy_t *c = a->copies[n];
      if (c->mbar == m && !c->is_moved && !sim_copy_move(c)) return false;
    }
  }
  return true;
}

bool sim_mbar_poll(sim_warp_t *w, const sim_ins_t *ins, sim_mbar_t *m) {
  uint32_t phase = m->phase;
  sim_async_tick(m->cta);
  if (m->defers.length && m->phase == phase && !fire_due(m)) return false;
  if (m->phase != phase || m->pending) return true;
  if (!deliver(m)) return false;
  if (m->phase != phase || m->tx >= 0) return true;
  return sim_find(w, ins, SIM_CHECK_MBAR_TX, 32, PTX_SPACE_SHARED, at(m), 8,
                  "%lld bytes more arrived than phase %u expects",
                  (long long)-m->tx, phase);
}

/* A warp that waited for every phase so far, one after the other, and now
   finds the barrier two phases on, cannot tell the two apart. */
static bool judge_phase(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                        const sim_mbar_t *m) {
  uint32_t *seen = &m->seen[w->id];
  uint32_t step = m->phase - (*seen & ~(1u << 31));
  bool has_gap = *seen >> 31;
  bool is_behind = !has_gap && *seen && step >= 3 && step % 2 == 1;
  *seen = m->phase | (uint32_t)(has_gap || (step != 1 && step != 0)) << 31;
  if (!is_behind) return true;
  return sim_find(w, ins, SIM_CHECK_MBAR_PHASE, lane, PTX_SPACE_SHARED,
                  at(m), 8,
                  "the waiter is %u phases behind: parity cannot tell phase "
                  "%u from phase %u",
                  step - 1, m->phase - step, m->phase - 1);
}

bool sim_mbar_observe(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                      sim_mbar_t *m, bool is_acquire, bool by_parity) {
  if (m->phase == 0) return true; /* the phase before the first */
  if (by_parity && !judge_phase(w, ins, lane, m)) return false;
  if (is_acquire) sim_learn(w->clocks, m->last, m->cta->clock_words);
  m->is_observed = true;
  size_t left = 0;
  for (size_t n = 0; n < m->defers.length; n++) {
    sim_defer_t *d = &m->defers.data[n];
    if (!d->is_fired || d->phase >= m->phase) {
      m->defers.data[left++] = *d;
      continue;
    }
    sim_cp_observe(d->warp, d->mask, d->serial);
    free(d->clocks);
  }
  m->defers.length = left;
  sim_copy_observe(m);
  return true;
}
