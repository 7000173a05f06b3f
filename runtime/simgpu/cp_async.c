/* cp.async: what the lanes of a warp have issued, group by group. */
#include "runtime/simgpu/async.h"

#include <stdlib.h>

sim_cp_t *sim_cp_new(sim_warp_t *w, const sim_ins_t *ins) {
  sim_lane_queues_t *q = w->queue;
  if (q->count == q->capacity) {
    uint32_t capacity = q->capacity ? q->capacity * 2 : 16;
    sim_cp_t *ops = capacity > 4096 ? NULL
                                    : realloc(q->ops, capacity * sizeof *ops);
    if (!ops) {
      sim_find(w, ins, SIM_CHECK_ILLEGAL, 32, PTX_SPACE_REG, 0, 0,
               "more than %u copies of a warp are pending", q->capacity);
      return NULL;
    }
    q->ops = ops;
    q->capacity = capacity;
  }
  sim_cp_t *op = &q->ops[q->count++];
  memset(op, 0, sizeof *op);
  op->ins = ins;
  op->serial = q->serial++;
  op->tick = w->cta->async->tick;
  w->cta->async->cp_pending++;
  return op;
}

void sim_cp_move(sim_warp_t *w, sim_cp_t *op, uint32_t lanes) {
  sim_cta_t *cta = w->cta;
  op->moved |= lanes;
  for (; lanes; lanes &= lanes - 1) {
    uint32_t l = (uint32_t)__builtin_ctz(lanes), n = op->bytes[l];
    uint8_t *to = cta->shared + op->dst[l];
    uint8_t *defined = cta->shared_defined + op->dst[l];
    if (n == 16 && sim_is_defined(op->alloc[l], op->offset[l], 16)) {
      memset(defined, 1, 16); /* the usual one */
      memcpy(to, op->alloc[l]->host + op->offset[l], 16);
      continue;
    }
    memset(defined, 1, op->size);
    if (n < op->size) memset(to + n, 0, op->size - n);
    if (!n) continue;
    sim_alloc_t *a = op->alloc[l];
    if (!sim_is_defined(a, op->offset[l], n)) {
      sim_poison_range(a, op->offset[l], n);
      uint32_t bad = sim_undefined_mask(a, op->offset[l], n);
      for (uint32_t k = 0; k < n; k++)
        if (bad >> k & 1) defined[k] = 0;
    }
    memcpy(to, a->host + op->offset[l], n);
  }
}

/* Lanes of an operation are observed: data must be there, and are written at
   the time of the stamp. */
static void observe(sim_warp_t *w, sim_cp_t *op, uint32_t lanes,
                    sim_stamp_t stamp) {
  sim_cta_t *cta = w->cta;
  if (lanes & ~op->moved) sim_cp_move(w, op, lanes & ~op->moved);
  op->mask &= ~lanes;
  stamp.line = (uint32_t)(op->ins - w->code);
  for (; lanes; lanes &= lanes - 1) {
    uint32_t l = (uint32_t)__builtin_ctz(lanes);
    sim_marks_clear(cta, op->dst[l], op->size, SIM_MARK_DEST);
    stamp.lane = (uint8_t)l;
    if (cta->races && !(op->told >> l & 1))
      sim_race_stamp(cta, op->dst[l], op->size, &stamp);
  }
}

static void compact(sim_warp_t *w) {
  sim_lane_queues_t *q = w->queue;
  uint32_t left = 0;
  for (uint32_t k = 0; k < q->count; k++) {
    if (!q->ops[k].mask) continue;
    if (left != k) q->ops[left] = q->ops[k];
    left++;
  }
  w->cta->async->cp_pending -= q->count - left;
  q->count = left;
}

void sim_cp_wait(sim_warp_t *w, uint32_t m, uint32_t n) {
  sim_lane_queues_t *q = w->queue;
  sim_stamp_t stamp = {.clock = w->clocks[w->agent], .sync = w->sync_clock,
                       .serial = ++w->serial, .agent = (uint16_t)w->agent};
  for (uint32_t k = 0; k < q->count; k++) {
    sim_cp_t *op = &q->ops[k];
    uint32_t lanes = 0;
    for (uint32_t l = 0; l < 32; l++) {
      if (!(m & op->mask & 1u << l)) continue;
      if (n == UINT32_MAX ||
          (uint64_t)op->group[l] + n < q->commits[l])
        lanes |= 1u << l;
    }
    if (lanes) observe(w, op, lanes, stamp);
  }
  compact(w);
  q->wait_tick = w->cta->async->tick;
}

void sim_cp_observe(sim_warp_t *w, uint32_t lanes, uint32_t serial) {
  sim_lane_queues_t *q = w->queue;
  for (uint32_t k = 0; k < q->count; k++) {
    sim_cp_t *op = &q->ops[k];
    if (op->serial >= serial) break;
    uint32_t now = lanes & op->mask;
    for (uint32_t left = now; left; left &= left - 1)
      sim_marks_clear(w->cta, op->dst[__builtin_ctz(left)], op->size,
                      SIM_MARK_DEST);
    op->mask &= ~now;
  }
  compact(w);
}
