/* The ledger of pending operations: marks of shared memory, who may touch
   what, places of asynchronous operands, and the end of a CTA. */
#include "runtime/simgpu/async.h"

#include "runtime/simgpu/depend.h"

#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/sectors.h"
#include "runtime/simgpu/wgmma.h"

#include <stdlib.h>

/* -- lifetime -- */

bool sim_async_new(sim_cta_t *cta) {
  const sim_kernel_t *k = cta->launch->kernel;
  if (!k->has_async && !k->has_mbar) return true;
  cta->async = calloc(1, sizeof *cta->async);
  if (!cta->async) return false;
  if (cta->launch->options->checks & SIM_CHECK_ASYNC) {
    cta->marks = calloc(cta->shared_bytes / 4 + 8, 1);
    if (!cta->marks) return false;
  }
  cta->async->mbar_at =
      calloc(cta->shared_bytes / 8 + 1, sizeof *cta->async->mbar_at);
  if (!cta->async->mbar_at) return false;
  for (uint32_t n = 0; n < cta->warp_count; n++) {
    cta->warps[n].queue = calloc(1, sizeof *cta->warps[n].queue);
    if (!cta->warps[n].queue) return false;
  }
  return true;
}

static void drop_all(sim_cta_t *cta) {
  sim_async_t *a = cta->async;
  for (uint32_t n = 0; n < a->count; n++) sim_copy_free(a->copies[n]);
  for (uint32_t n = 0; n < a->mbar_count; n++) sim_mbar_free(a->mbars[n]);
  a->count = a->mbar_count = a->cp_pending = 0;
}

void sim_async_free(sim_cta_t *cta) {
  if (!cta->async) return;
  drop_all(cta);
  for (uint32_t n = 0; n < cta->warp_count; n++) {
    if (cta->warps[n].queue) free(cta->warps[n].queue->ops);
    free(cta->warps[n].queue);
  }
  free(cta->marks);
  free(cta->async->mbar_at);
  free(cta->async->mbars);
  free(cta->async->copies);
  free(cta->async);
}

void sim_async_start(sim_cta_t *cta) {
  sim_async_t *a = cta->async;
  if (!a) return;
  drop_all(cta);
  if (cta->marks) memset(cta->marks, 0, cta->shared_bytes / 4 + 8);
  memset(a->mbar_at, 0, (cta->shared_bytes / 8 + 1) * sizeof *a->mbar_at);
  memset(a->agent_clocks, 0, sizeof a->agent_clocks);
  a->tick = 0;
  a->random = cta->random ^ UINT64_C(0xA5A5F00DCAFE1234);
  for (uint32_t n = 0; n < cta->warp_count; n++) {
    sim_lane_queues_t *q = cta->warps[n].queue;
    sim_cp_t *ops = q->ops;
    uint32_t capacity = q->capacity;
    memset(q, 0, sizeof *q);
    q->ops = ops;
    q->capacity = capacity;
  }
}

/* -- modes -- */

uint32_t sim_async_delay(sim_cta_t *cta) {
  return (uint32_t)(sim_random(&cta->async->random) % 12);
}

void sim_async_tick(sim_cta_t *cta) {
  sim_async_t *a = cta->async;
  a->tick++;
  if (cta->launch->options->async != SIM_ASYNC_RANDOM) return;
  for (uint32_t n = 0; n < cta->warp_count; n++) {
    sim_warp_t *w = &cta->warps[n];
    for (uint32_t k = 0; k < w->queue->count; k++) {
      sim_cp_t *op = &w->queue->ops[k];
      if (op->delay && --op->delay == 0)
        sim_cp_move(w, op, op->mask & ~op->moved);
    }
  }
  for (uint32_t n = 0; n < a->count; n++) {
    sim_copy_t *c = a->copies[n];
    if (c->delay && --c->delay == 0 && !c->is_moved && !sim_copy_move(c))
      return;
  }
}

/* -- marks -- */

void sim_marks_set(sim_cta_t *cta, uint32_t offset, uint32_t bytes,
                   uint8_t mark) {
  if (!cta->marks) return;
  for (uint32_t k = offset / 4; k * 4 < offset + bytes; k++)
    cta->marks[k] |= mark;
}

void sim_marks_clear(sim_cta_t *cta, uint32_t offset, uint32_t bytes,
                     uint8_t mark) {
  if (!cta->marks) return;
  for (uint32_t k = offset / 4; k * 4 < offset + bytes; k++)
    cta->marks[k] &= (uint8_t)~mark;
}

static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b,
                    uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

static void place_of(const sim_warp_t *w, const sim_ins_t *ins, char *out,
                     size_t bytes) {
  const sim_kernel_t *k = w->cta->launch->kernel;
  sim_place_text(k, (uint32_t)(ins - k->code), out, bytes);
}

/* A pending cp.async under an access. */
static bool touched_cp(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                       uint32_t lane, uint32_t offset, uint32_t bytes,
                       sim_warp_t *owner, const sim_cp_t *op, uint32_t l) {
  const sim_lane_queues_t *q = owner->queue;
  uint32_t at = offset - cta->launch->shared_start;
  bool is_open = op->group[l] == q->commits[l] && !(op->tied >> l & 1);
  bool is_mine = owner == w && l == lane;
  char place[128];
  place_of(w, op->ins, place, sizeof place);
  if (ins->handler == SIM_H_cp_async && is_mine &&
      op->group[l] == q->commits[l])
    return sim_find(w, ins, SIM_CHECK_ASYNC_GROUP, lane, PTX_SPACE_SHARED,
                    at, bytes,
                    "two copies of one group go to one address (%s)", place);
  if (is_open)
    return sim_find(w, ins, SIM_CHECK_ASYNC_GROUP, lane, PTX_SPACE_SHARED,
                    at, bytes,
                    "the copy by warp %u lane %u (%s) was never committed "
                    "to a group, so no wait covers it",
                    owner->id, l, place);
  if (owner != w && q->wait_tick < op->tick && w->queue->wait_tick &&
      !w->queue->serial)
    return sim_find(w, ins, SIM_CHECK_ASYNC_GROUP, lane, PTX_SPACE_SHARED,
                    at, bytes,
                    "the copy by warp %u lane %u (%s) is pending: this warp "
                    "has waited, but a wait covers the own thread's groups "
                    "only, and it issued none",
                    owner->id, l, place);
  return sim_find(w, ins, SIM_CHECK_ASYNC_EARLY, lane, PTX_SPACE_SHARED, at,
                  bytes,
                  "the copy by warp %u lane %u (%s, group %u of %u) has not "
                  "been waited for",
                  owner->id, l, place, op->group[l], q->commits[l]);
}

static bool touched_copy(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                         uint32_t lane, uint32_t offset, uint32_t bytes,
                         const sim_copy_t *c) {
  uint32_t at = offset - cta->launch->shared_start;
  char place[128];
  place_of(w, c->ins, place, sizeof place);
  if (c->kind == SIM_COPY_STORE) {
    if (c->group == c->warp->queue->bulk_commits[c->lane])
      return sim_find(w, ins, SIM_CHECK_ASYNC_GROUP, lane, PTX_SPACE_SHARED,
                      at, bytes,
                      "the copy by warp %u lane %u (%s) that reads this was "
                      "never committed to a group",
                      c->warp->id, c->lane, place);
    return sim_find(w, ins, SIM_CHECK_ASYNC_SOURCE, lane, PTX_SPACE_SHARED,
                    at, bytes,
                    "the copy by warp %u lane %u (%s) still reads it: no "
                    "wait_group.read covers it yet",
                    c->warp->id, c->lane, place);
  }
  return sim_find(w, ins, SIM_CHECK_ASYNC_EARLY, lane, PTX_SPACE_SHARED, at,
                  bytes,
                  "the copy by warp %u lane %u (%s) is pending: nobody has "
                  "waited for its mbarrier",
                  c->warp->id, c->lane, place);
}

/* The copy's part in shared memory of cta, source or destination. */
static bool covers(const sim_copy_t *c, const sim_cta_t *cta, uint32_t offset,
                   uint32_t bytes, unsigned flags) {
  bool is_write = flags & SIM_RACE_WRITE;
  if (c->kind == SIM_COPY_STORE)
    return is_write && !c->is_released && c->cta == cta &&
           overlap(c->shared, c->bytes, offset, bytes);
  /* reductions may meet */
  if (c->cta == cta && overlap(c->shared, c->bytes, offset, bytes) &&
      !(c->apply && (flags & SIM_RACE_ATOMIC)))
    return true;
  return c->kind == SIM_COPY_SHARED && is_write && c->from == cta &&
         overlap(c->from_offset, c->bytes, offset, bytes);
}

bool sim_async_touch(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                     uint32_t lane, uint32_t offset, uint32_t bytes,
                     unsigned flags) {
  uint8_t marks = 0;
  for (uint32_t k = offset / 4; k * 4 < offset + bytes; k++)
    marks |= cta->marks[k];
  if (marks & SIM_MARK_MBAR)
    return sim_find(w, ins, SIM_CHECK_MBAR_ACCESS, lane, PTX_SPACE_SHARED,
                    offset - cta->launch->shared_start, bytes,
                    "belongs to an mbarrier, which only mbarrier "
                    "instructions may touch");
  if (!(marks & SIM_MARK_DEST) && !(flags & SIM_RACE_WRITE)) return true;
  for (uint32_t n = 0; n < cta->warp_count; n++) {
    sim_warp_t *owner = &cta->warps[n];
    for (uint32_t k = 0; k < owner->queue->count; k++) {
      const sim_cp_t *op = &owner->queue->ops[k];
      for (uint32_t l = 0; l < 32; l++) {
        if ((op->mask >> l & 1) &&
            overlap(op->dst[l], op->size, offset, bytes))
          return touched_cp(w, cta, ins, lane, offset, bytes, owner, op, l);
      }
    }
  }
  for (uint32_t r = 0; r < cta->cluster_count; r++) {
    const sim_async_t *a = cta->cluster[r]->async;
    for (uint32_t n = 0; a && n < a->count; n++) {
      if (covers(a->copies[n], cta, offset, bytes, flags))
        return touched_copy(w, cta, ins, lane, offset, bytes, a->copies[n]);
    }
  }
  return !(marks & SIM_MARK_OPERAND) || !(flags & SIM_RACE_WRITE) ||
         sim_wgmma_touched(w, cta, ins, lane, offset, bytes);
}

/* -- global memory in use -- */

/* True if bytes at address are in the global side of the copy. */
static bool covers_global(const sim_copy_t *c, uint64_t address,
                          uint32_t bytes) {
  if (c->kind != SIM_COPY_LOAD && c->kind != SIM_COPY_STORE) return false;
  if (!c->is_tensor) return overlap(c->global, c->bytes, address, bytes);
  const sim_map_t *m = &c->map;
  uint32_t index[5] = {0};
  for (;;) { /* row after row */
    uint64_t row = m->address;
    bool in = true;
    for (uint32_t d = 1; d < m->rank; d++) {
      int64_t x = (int64_t)c->at[d] + (int64_t)index[d] * m->step[d];
      in = in && x >= 0 && (uint64_t)x < m->dims[d];
      if (in) row += (uint64_t)x * m->strides[d];
    }
    int64_t low = c->at[0] < 0 ? 0 : c->at[0];
    int64_t high = (int64_t)c->at[0] + m->extent[0];
    if (high > (int64_t)m->dims[0]) high = (int64_t)m->dims[0];
    if (in && low < high &&
        overlap(row + (uint64_t)low * m->bytes,
                (uint64_t)(high - low) * m->bytes, address, bytes))
      return true;
    uint32_t d = 1;
    while (d < m->rank && ++index[d] == m->extent[d]) index[d++] = 0;
    if (d >= m->rank) return false;
  }
}

bool sim_async_global(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                      uint64_t address, uint32_t bytes, bool is_write) {
  char place[128];
  const sim_cta_t *cta = w->cta;
  for (uint32_t n = 0; n < cta->async->count; n++) {
    const sim_copy_t *c = cta->async->copies[n];
    if (is_write && c->is_tensor && !c->is_released &&
        overlap(c->map_address, 128, address, bytes)) {
      place_of(w, c->ins, place, sizeof place);
      return sim_find(w, ins, SIM_CHECK_ASYNC_SOURCE, lane, PTX_SPACE_GLOBAL,
                      address, bytes,
                      "belongs to the tensor map of a pending copy by warp "
                      "%u lane %u (%s)",
                      c->warp->id, c->lane, place);
    }
    if (c->kind == SIM_COPY_LOAD && !is_write) continue;
    if (!covers_global(c, address, bytes)) continue;
    place_of(w, c->ins, place, sizeof place);
    if (c->kind == SIM_COPY_LOAD)
      return sim_find(w, ins, SIM_CHECK_ASYNC_SOURCE, lane, PTX_SPACE_GLOBAL,
                      address, bytes,
                      "the copy by warp %u lane %u (%s) still reads it",
                      c->warp->id, c->lane, place);
    return sim_find(w, ins, SIM_CHECK_ASYNC_EARLY, lane, PTX_SPACE_GLOBAL,
                    address, bytes,
                    "the copy by warp %u lane %u (%s) still writes it: no "
                    "wait_group covers it yet",
                    c->warp->id, c->lane, place);
  }
  if (!is_write) return true;
  for (uint32_t n = 0; n < cta->warp_count; n++) {
    const sim_lane_queues_t *q = cta->warps[n].queue;
    for (uint32_t k = 0; k < q->count; k++) {
      const sim_cp_t *op = &q->ops[k];
      for (uint32_t left = op->mask; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(left);
        if (!op->bytes[l] ||
            !overlap(op->alloc[l]->address + op->offset[l], op->bytes[l],
                     address, bytes))
          continue;
        place_of(w, op->ins, place, sizeof place);
        return sim_find(w, ins, SIM_CHECK_ASYNC_SOURCE, lane,
                        PTX_SPACE_GLOBAL, address, bytes,
                        "the copy by warp %u lane %u (%s) still reads it",
                        n, l, place);
      }
    }
  }
  return true;
}

/* -- places -- */

bool sim_async_place(sim_warp_t *w, const sim_ins_t *ins, uint32_t lane,
                     uint64_t address, uint32_t bytes, uint32_t align,
                     bool is_generic, sim_cta_t **cta, uint32_t *offset) {
  const sim_launch_t *launch = w->cta->launch;
  *cta = NULL;
  if (is_generic) {
    if (address - SIM_SHARED_BASE >= SIM_SPACE_BYTES)
      return sim_find(w, ins, SIM_CHECK_MEM_SPACE, lane, PTX_SPACE_REG,
                      address, bytes, "is no address of shared memory");
    address -= SIM_SHARED_BASE;
  }
  sim_cta_t *found = sim_cluster_resolve(w->cta, address, offset);
  if (!found)
    return sim_find(w, ins, SIM_CHECK_MEM_BOUNDS, lane, PTX_SPACE_SHARED,
                    address, bytes, "names no CTA of the cluster of %u",
                    w->cta->cluster_count);
  if (found != w->cta) {
    if (sim_cluster_is_gone(found))
      return sim_find(w, ins, SIM_CHECK_CLUSTER_EXIT, lane, PTX_SPACE_SHARED,
                      address, bytes, "CTA %u of the cluster has exited",
                      found->cluster_rank);
    sim_cluster_touch(w, found);
  }
  if (*offset < launch->shared_start ||
      (uint64_t)*offset + bytes > launch->shared_end)
    return sim_find(w, ins, SIM_CHECK_MEM_BOUNDS, lane, PTX_SPACE_SHARED,
                    *offset - launch->shared_start, bytes,
                    "is outside the %u bytes of shared memory",
                    launch->shared_end - launch->shared_start);
  if (*offset & (align - 1))
    return sim_find(w, ins, SIM_CHECK_MEM_ALIGN, lane, PTX_SPACE_SHARED,
                    *offset, bytes, "is no multiple of %u", align);
  *cta = found;
  return true;
}

bool sim_async_global_place(sim_warp_t *w, const sim_ins_t *ins,
                            uint32_t lane, uint64_t address, uint64_t bytes,
                            uint32_t align, char kind,
                            sim_alloc_t **alloc) {
  const sim_launch_t *launch = w->cta->launch;
  uint32_t shown = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
  sim_alloc_t *a = sim_alloc_find(launch->memory, address);
  *alloc = NULL;
  if (a && !a->is_live)
    return sim_find(w, ins, SIM_CHECK_MEM_FREED, lane, PTX_SPACE_GLOBAL,
                    address, shown,
                    "in allocation %u of %llu bytes, freed by call %llu",
                    a->id, (unsigned long long)a->bytes,
                    (unsigned long long)a->freed_by);
  if (!a)
    return sim_find(w, ins, SIM_CHECK_MEM_BOUNDS, lane, PTX_SPACE_GLOBAL,
                    address, shown, "is in no allocation");
  if (address - a->address + bytes > a->bytes)
    return sim_find(
        w, ins, SIM_CHECK_MEM_BOUNDS, lane, PTX_SPACE_GLOBAL, address, shown,
        "ends %llu bytes beyond allocation %u of %llu bytes",
        (unsigned long long)(address - a->address + bytes - a->bytes), a->id,
        (unsigned long long)a->bytes);
  if (address & (align - 1))
    return sim_find(w, ins, SIM_CHECK_MEM_ALIGN, lane, PTX_SPACE_GLOBAL,
                    address, shown, "is no multiple of %u", align);
  if (!sim_alloc_may(a, launch->device, launch->peers,
                     kind == 'w' || kind == 'a'))
    return sim_find(w, ins, SIM_CHECK_MEM_PEER, lane, PTX_SPACE_GLOBAL,
                    address, shown,
                    a->has_rights ? "device %u did not let this one do that"
                                  : "belongs to device %u, which is no peer",
                    a->device);
  if ((kind == 'w' || kind == 'a') && a->is_read_only)
    return sim_find(w, ins, SIM_CHECK_MEM_READONLY, lane, PTX_SPACE_GLOBAL,
                    address, shown, "is read-only");
  *alloc = a;
  if (kind == 'm') return true;
  if (launch->is_tracking)
    sim_touch(a, address - a->address, bytes, kind, sim_is_early(w, launch));
  return !launch->uses_sectors ||
         sim_sectors_run(w, ins, a, address, bytes,
                         sim_touch_flags(ins, kind), lane);
}

bool sim_async_access(sim_warp_t *w, sim_cta_t *cta, const sim_ins_t *ins,
                      uint32_t lane, uint32_t offset, uint32_t bytes,
                      unsigned flags) {
  if (cta->marks) {
    uint8_t marks = 0;
    for (uint32_t k = offset / 4; k * 4 < offset + bytes; k++)
      marks |= cta->marks[k];
    if (marks && !sim_async_touch(w, cta, ins, lane, offset, bytes, flags))
      return false;
  }
  return !cta->races ||
         sim_race_access(w, cta, ins, lane, offset, bytes, flags);
}

void sim_async_fence(sim_warp_t *w) {
  sim_cta_t *cta = w->cta;
  if (!cta->launch->kernel->has_proxy) return;
  memcpy(w->clocks + cta->agent_count, w->clocks,
         cta->agent_count * sizeof *w->clocks);
  /* what the warp writes from now on is a later time */
  w->clocks[w->agent]++;
}

/* -- the end -- */

static bool end_warp(sim_warp_t *w) {
  char place[128];
  for (uint32_t k = 0; k < w->queue->count; k++) {
    const sim_cp_t *op = &w->queue->ops[k];
    uint32_t l = (uint32_t)__builtin_ctz(op->mask);
    bool is_open = op->group[l] == w->queue->commits[l] &&
                   !(op->tied >> l & 1);
    place_of(w, op->ins, place, sizeof place);
    if (!sim_find(w, op->ins,
                  is_open ? SIM_CHECK_ASYNC_GROUP : SIM_CHECK_ASYNC_EXIT, l,
                  PTX_SPACE_SHARED, op->dst[l] - w->cta->launch->shared_start,
                  op->size,
                  is_open ? "the CTA ends and the copy (%s) was never "
                            "committed to a group"
                          : "the CTA ends and nobody has waited for the "
                            "copy (%s)",
                  place))
      return false;
  }
  w->queue->count = 0;
  return true;
}

static bool end_copy(sim_copy_t *c) {
  sim_warp_t *w = c->warp;
  bool is_store = c->kind == SIM_COPY_STORE;
  bool is_open = is_store &&
                 c->group == w->queue->bulk_commits[c->lane];
  if (!is_store || !c->is_released) {
    if (!sim_find(w, c->ins,
                  is_open ? SIM_CHECK_ASYNC_GROUP : SIM_CHECK_ASYNC_EXIT,
                  c->lane, PTX_SPACE_SHARED,
                  c->shared - c->cta->launch->shared_start, c->bytes,
                  is_open ? "the CTA ends and the copy was never committed "
                            "to a group"
                  : is_store
                      ? "the CTA ends and no wait_group covers the copy, "
                        "which may still read its shared memory"
                      : "the CTA ends and nobody has waited for the copy's "
                        "mbarrier"))
      return false;
  }
  return !is_store || c->is_moved || sim_copy_move(c);
}

void sim_async_end(sim_cta_t *cta) {
  sim_async_t *a = cta->async;
  if (!a) return;
  for (uint32_t n = 0; n < cta->warp_count; n++)
    if (!end_warp(&cta->warps[n])) return;
  for (uint32_t n = 0; n < a->count; n++)
    if (!end_copy(a->copies[n])) return;
  for (uint32_t n = 0; n < a->mbar_count; n++) {
    const sim_mbar_t *m = a->mbars[n];
    if (!m->is_live || m->tx == 0) continue;
    sim_warp_t *w = &cta->warps[m->init_agent % cta->warp_count];
    char text[120];
    sim_mbar_text(m, text, sizeof text);
    if (!sim_find(w, cta->launch->kernel->code +
                         cta->launch->kernel->entry,
                  SIM_CHECK_MBAR_TX, 32, PTX_SPACE_SHARED,
                  m->offset - cta->launch->shared_start, 8,
                  "the CTA ends with %s", text))
      return;
  }
}
