/* cp.async. Operands: dst, dst offset, src, src offset, [bytes or
   predicate]. */
#include "runtime/simgpu/x_async.h"

#include "runtime/simgpu/async.h"
#include "runtime/simgpu/x_list.h"
#include "runtime/simgpu/x_mem.h"
#include "runtime/simgpu/sectors.h"

/* Bytes that each lane reads; false if the launch must end. */
static bool source_bytes(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                         uint8_t out[32]) {
  uint32_t size = (uint32_t)i->imm;
  for (uint32_t l = 0; l < 32; l++) {
    uint64_t n = size;
    if (i->sub2 == SIM_CP_SIZE) {
      n = sim_item(w, i, 4, l);
      if (SIM_BIT(m) && n > size) {
        if (!sim_find(w, i, SIM_CHECK_MEM_BOUNDS, l, PTX_SPACE_REG, 0, 0,
                      "%u source bytes in a copy of %u", (uint32_t)n, size))
          return false;
        n = size;
      }
    } else if (i->sub2) {
      bool p = sim_pred(w, sim_list(w, i, 4) & ~3u) >> l & 1;
      if (p == (i->sub2 == SIM_CP_IGNORE)) n = 0;
    }
    out[l] = (uint8_t)n;
  }
  return true;
}

SIM_DEF(cp_async) {
  uint64_t dst[32], src[32];
  uint8_t bytes[32];
  uint32_t size = (uint32_t)i->imm, full = 0;
  sim_cta_t *cta = w->cta;
  sim_access_t to, from;
  if (m == 0) return i + 1;
  sim_async_tick(cta);
  for (uint32_t l = 0; l < 32; l++) {
    dst[l] = sim_item_address(w, i, 0, l);
    src[l] = sim_item_address(w, i, 2, l);
  }
  if (!source_bytes(w, i, m, bytes)) return NULL;
  if (!sim_shared_access(w, i, m, dst, size, 'w', &to)) return NULL;
  m = to.mask;
  for (uint32_t l = 0; l < 32; l++)
    if (SIM_BIT(m) && bytes[l] == size) full |= 1u << l;
  if (full) {
    if (!sim_global_access(w, i, full, src, size, 'r', &from)) return NULL;
    m &= from.mask | ~full;
    full = from.mask;
  }
  if (m == 0) return i + 1;
  sim_cp_t *op = sim_cp_new(w, i);
  if (!op) return NULL;
  op->size = size;
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    op->bytes[l] = bytes[l];
    if (full >> l & 1) {
      bool joint = from.is_run || from.is_same;
      uint32_t k = joint ? from.first : l;
      op->alloc[l] = from.alloc[k];
      op->offset[l] = from.offset[k] +
                      (joint && !from.is_same ? (uint64_t)(l - k) * size : 0);
    } else if (bytes[l]) {
      if (!sim_async_global_place(w, i, l, src[l], bytes[l], size, 'r',
                                  &op->alloc[l]))
        return NULL;
      if (!op->alloc[l]) continue;
      op->offset[l] = src[l] - op->alloc[l]->address;
      sim_count_global(w->worker, 1u << l, src, bytes[l], false);
      if (cta->launch->uses_sectors &&
          !sim_sectors_run(w, i, op->alloc[l], src[l], bytes[l],
                           SIM_TOUCH_READ, l))
        return NULL;
    }
    op->dst[l] = (uint32_t)to.offset[l];
    op->group[l] = w->queue->commits[l];
    op->mask |= 1u << l;
    w->worker->counters[SIM_COUNTER_ASYNC_BYTES] += bytes[l];
    if (!cta->marks) continue;
    if ((cta->marks[op->dst[l] / 4] & SIM_MARK_DEST) &&
        !sim_find(w, i, SIM_CHECK_ASYNC_GROUP, l, PTX_SPACE_SHARED,
                  op->dst[l] - cta->launch->shared_start, size,
                  "two lanes of one copy write to one address"))
      return NULL;
    sim_marks_set(cta, op->dst[l], size, SIM_MARK_DEST);
  }
  switch (cta->launch->options->async) {
  case SIM_ASYNC_IMMEDIATE: sim_cp_move(w, op, op->mask); break;
  case SIM_ASYNC_RANDOM: op->delay = 1 + sim_async_delay(cta); break;
  case SIM_ASYNC_LATE: break;
  }
  return i + 1;
}

SIM_DEF(cp_commit) {
  sim_async_tick(w->cta);
  for (uint32_t l = 0; l < 32; l++) w->queue->commits[l] += SIM_BIT(m);
  return i + 1;
}

SIM_DEF(cp_wait) {
  if (m == 0) return i + 1;
  sim_async_tick(w->cta);
  uint64_t n = i->imm;
  sim_cp_wait(w, m, n > UINT32_MAX ? UINT32_MAX - 1 : (uint32_t)n);
  return i + 1;
}

/* A group of what is open, and a wait for all. */
SIM_DEF(cp_wait_all) {
  if (m == 0) return i + 1;
  sim_async_tick(w->cta);
  for (uint32_t l = 0; l < 32; l++) w->queue->commits[l] += SIM_BIT(m);
  sim_cp_wait(w, m, 0);
  return i + 1;
}
