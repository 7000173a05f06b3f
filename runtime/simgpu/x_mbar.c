/* mbarrier instructions. Operands: mbarrier, offset, [count, bytes, state or
   parity]. */
#include "runtime/simgpu/async.h"
#include "runtime/simgpu/x_async.h"
#include "runtime/simgpu/x_list.h"

/* A state holds the phase and what was missing before the arrival. */
static uint64_t state_of(const sim_mbar_t *m) {
  return (uint64_t)m->phase << 32 | m->pending;
}

/* Where the lane's mbarrier lies; as sim_async_place. */
static bool place(sim_warp_t *w, const sim_ins_t *i, uint32_t l,
                  sim_cta_t **cta, uint32_t *offset) {
  return sim_async_place(w, i, l, sim_item_address(w, i, 0, l), 8, 8,
                         i->sub2 & SIM_MBAR_GENERIC, cta, offset);
}

/* The lane's mbarrier; NULL if the lane is left out or, with *go_on false,
   the launch ended. */
static sim_mbar_t *find(sim_warp_t *w, const sim_ins_t *i, uint32_t l,
                        bool *go_on) {
  sim_cta_t *cta;
  uint32_t offset;
  *go_on = place(w, i, l, &cta, &offset);
  return *go_on && cta ? sim_mbar_at(w, i, l, cta, offset, go_on) : NULL;
}

SIM_DEF(mbar_init) {
  for (uint32_t l = 0; l < 32; l++) {
    sim_cta_t *cta;
    uint32_t offset;
    if (!SIM_BIT(m)) continue;
    if (!place(w, i, l, &cta, &offset)) return NULL;
    if (cta && !sim_mbar_init(w, i, l, cta, offset,
                              (uint32_t)sim_item(w, i, 2, l)))
      return NULL;
  }
  return i + 1;
}

SIM_DEF(mbar_inval) {
  for (uint32_t l = 0; l < 32; l++) {
    bool go_on = true;
    if (!SIM_BIT(m)) continue;
    sim_mbar_t *b = find(w, i, l, &go_on);
    if (!go_on || (b && !sim_mbar_inval(w, i, l, b))) return NULL;
  }
  return i + 1;
}

SIM_DEF(mbar_expect) {
  for (uint32_t l = 0; l < 32; l++) {
    bool go_on = true;
    if (!SIM_BIT(m)) continue;
    sim_mbar_t *b = find(w, i, l, &go_on);
    if (!go_on ||
        (b && !sim_mbar_expect(w, i, l, b,
                               (int64_t)(uint32_t)sim_item(w, i, 2, l))))
      return NULL;
  }
  return i + 1;
}

SIM_DEF(mbar_complete) {
  for (uint32_t l = 0; l < 32; l++) {
    bool go_on = true;
    if (!SIM_BIT(m)) continue;
    sim_mbar_t *b = find(w, i, l, &go_on);
    if (!go_on ||
        (b && !sim_mbar_complete(w, i, l, b,
                                 (int64_t)(uint32_t)sim_item(w, i, 2, l))))
      return NULL;
  }
  return i + 1;
}

/* True if all lanes of m name one place. */
static bool is_one_place(sim_warp_t *w, const sim_ins_t *i, uint32_t m) {
  uint64_t first = sim_item_address(w, i, 0, (uint32_t)__builtin_ctz(m));
  for (uint32_t l = 0; l < 32; l++)
    if (SIM_BIT(m) && sim_item_address(w, i, 0, l) != first) return false;
  return true;
}

/* All lanes arrive once at one mbarrier that misses at least as many: 1 if
   that is done, 0 if it is not so simple, -1 if the launch ended. */
static int arrive_together(sim_warp_t *w, const sim_ins_t *i, uint32_t m) {
  uint32_t lane = (uint32_t)__builtin_ctz(m);
  uint32_t count = (uint32_t)__builtin_popcount(m);
  bool go_on = true;
  if (i->count > 2 || (i->writes & SIM_WRITES_D) || i->sub2 & ~1u ||
      count == 1 || !is_one_place(w, i, m))
    return 0;
  for (uint32_t l = lane; l < 32; l++) {
    sim_mbar_t *b = SIM_BIT(m) ? find(w, i, l, &go_on) : NULL;
    if (!go_on) return -1;
    if (SIM_BIT(m) && (!b || b->pending < count)) return 0;
    if (b && b->init_agent != w->agent) break; /* the same for all lanes */
  }
  sim_mbar_t *b = find(w, i, lane, &go_on);
  if (!sim_mbar_arrive(w, i, lane, b, count, 0, true, w->clocks)) return -1;
  w->clocks[w->agent]++;
  return 1;
}

SIM_DEF(mbar_arrive) {
  const sim_mbar_t *last = NULL;
  uint32_t phase = 0, flags = i->sub2;
  if (m == 0) return i + 1;
  int together = arrive_together(w, i, m);
  if (together) return together > 0 ? i + 1 : NULL;
  for (uint32_t l = 0; l < 32; l++) {
    bool go_on = true;
    if (!SIM_BIT(m)) continue;
    sim_mbar_t *b = find(w, i, l, &go_on);
    if (!go_on) return NULL;
    if (!b) continue;
    uint64_t value = i->count > 2 ? sim_item(w, i, 2, l) : 1;
    uint32_t count = flags & SIM_MBAR_EXPECT ? 1 : (uint32_t)value;
    if ((flags & SIM_MBAR_EXPECT) &&
        !sim_mbar_expect(w, i, l, b, (int64_t)(uint32_t)value))
      return NULL;
    uint64_t state = state_of(b);
    /* lanes of a warp know the same */
    bool is_new = b != last || b->phase != phase;
    last = b;
    phase = b->phase;
    const uint32_t *clocks =
        is_new && !(flags & SIM_MBAR_RELAXED) ? w->clocks : NULL;
    if (!sim_mbar_arrive(w, i, l, b, count,
                         flags & SIM_MBAR_DROP ? count : 0,
                         !(flags & SIM_MBAR_PARTIAL), clocks))
      return NULL;
    if (i->writes & SIM_WRITES_D) sim_row64(w, i->d)[l] = state;
  }
  if (!(flags & SIM_MBAR_RELAXED)) w->clocks[w->agent]++;
  return i + 1;
}

/* A wait that could succeed first fails a seeded number of times: programs
   must try again. */
static bool stalls(sim_warp_t *w, const sim_mbar_t *b) {
  sim_lane_queues_t *q = w->queue;
  if (b->phase == 0 || w->clocks[b->agent] >= b->first_clock + b->phase)
    return false;
  if (q->stall_mbar != b || q->stall_phase != b->phase) {
    q->stall_mbar = b;
    q->stall_phase = b->phase;
    q->stall_left = sim_async_delay(w->cta) % 3;
  }
  if (!q->stall_left) return false;
  q->stall_left--;
  return true;
}

/* True if the lane's wait is over; *go_on false if the launch ended. */
static bool is_over(sim_warp_t *w, const sim_ins_t *i, uint32_t l,
                    const sim_mbar_t *b, bool *go_on) {
  uint64_t value = sim_item(w, i, 2, l);
  if (i->sub2 & SIM_MBAR_PARITY) return (b->phase & 1) != (value & 1);
  uint32_t phase = (uint32_t)(value >> 32);
  if (b->phase == phase) return false;
  if (b->phase != phase + 1)
    *go_on = sim_find(w, i, SIM_CHECK_MBAR_PHASE, l, PTX_SPACE_SHARED,
                      b->offset - w->cta->launch->shared_start, 8,
                      "the state is of phase %u and the mbarrier in phase %u",
                      phase, b->phase);
  return true;
}

SIM_DEF(mbar_test) {
  uint32_t over = 0;
  sim_mbar_t *last = NULL;
  const sim_mbar_t *seen = NULL;
  bool stalled = false;
  if (m == 0) return i + 1;
  for (uint32_t l = 0; l < 32; l++) {
    bool go_on = true;
    if (!SIM_BIT(m)) continue;
    sim_mbar_t *b = find(w, i, l, &go_on);
    if (!go_on) return NULL;
    if (!b) {
      over |= 1u << l;
      continue;
    }
    if (b->cta != w->cta) {
      if (!sim_find(w, i, SIM_CHECK_MEM_SPACE, l, PTX_SPACE_SHARED,
                    b->offset, 8,
                    "lies in another CTA: only its own threads may wait"))
        return NULL;
      over |= 1u << l;
      continue;
    }
    if (b != last) {
      if (!sim_mbar_poll(w, i, b)) return NULL;
      stalled = (i->sub2 & SIM_MBAR_TRY) && stalls(w, b);
      last = b;
    }
    bool yes = is_over(w, i, l, b, &go_on);
    if (!go_on) return NULL;
    if (!yes || stalled) continue;
    over |= 1u << l;
    if (b == seen) continue; /* lanes of a warp learn together */
    seen = b;
    if (!sim_mbar_observe(w, i, l, b, !(i->sub2 & SIM_MBAR_RELAXED),
                          i->sub2 & SIM_MBAR_PARITY))
      return NULL;
  }
  sim_set_pred(w, i->d, over, m);
  if (over) return i + 1;
  w->waits_for = last;
  w->state = SIM_WARP_SPIN;
  w->ip = i + 1;
  return NULL;
}

SIM_DEF(mbar_count) {
  sim_u32 *d = sim_row(w, i->d);
  for (uint32_t l = 0; l < 32; l++)
    if (SIM_BIT(m)) d[l] = (uint32_t)sim_item(w, i, 0, l);
  return i + 1;
}

/* cp.async.mbarrier.arrive: lanes of one mbarrier together. */
SIM_DEF(cp_mbar) {
  sim_mbar_t *of[32] = {NULL};
  if (m == 0) return i + 1;
  for (uint32_t l = 0; l < 32; l++) {
    bool go_on = true;
    if (SIM_BIT(m)) of[l] = find(w, i, l, &go_on);
    if (!go_on) return NULL;
  }
  for (uint32_t l = 0; l < 32; l++) {
    uint32_t lanes = 0;
    if (!of[l]) continue;
    sim_mbar_t *b = of[l];
    for (uint32_t k = l; k < 32; k++) {
      if (of[k] != b) continue;
      lanes |= 1u << k;
      of[k] = NULL;
    }
    if (!sim_mbar_defer(w, i, lanes, b, !(i->sub2 & SIM_MBAR_NOINC)))
      return NULL;
  }
  return i + 1;
}

SIM_DEF(proxy_fence) {
  if (m) sim_async_fence(w);
  return i + 1;
}
