/* Where strands of a warp wait for each other. */
#include "runtime/simgpu/its.h"

#include "runtime/simgpu/race.h"

typedef enum kind_t {
  FREE,  /* waits for nobody of its warp */
  NAMED, /* for the lanes of a mask */
  WHOLE, /* for all lanes that live */
  JOIN   /* a barrier that lanes join on their own */
} kind_t;

/* What an instruction waits for; of NAMED ones, the row of masks. */
static kind_t kind_of(const sim_ins_t *i, uint32_t *row) {
  switch (i->handler) {
  case SIM_H_shfl: *row = i->e; return NAMED;
  case SIM_H_vote:
  case SIM_H_ballot:
  case SIM_H_match:
  case SIM_H_redux: *row = i->b; return NAMED;
  case SIM_H_elect:
  case SIM_H_warp_sync: *row = i->a; return NAMED;
  case SIM_H_bar_sync:
  case SIM_H_bar_arrive:
  case SIM_H_bar_red: return i->mods & SIM_MOD_ALIGNED ? WHOLE : JOIN;
  case SIM_H_cluster_arrive:
  case SIM_H_cluster_wait: return i->mods & SIM_MOD_ALIGNED ? WHOLE : FREE;
  case SIM_H_ldmatrix:
  case SIM_H_stmatrix:
  case SIM_H_movmatrix:
  case SIM_H_mma_float:
  case SIM_H_mma_f64:
  case SIM_H_mma_int:
  case SIM_H_wgmma_fence:
  case SIM_H_wgmma:
  case SIM_H_wgmma_commit:
  case SIM_H_wgmma_wait:
  case SIM_H_setmaxnreg: return WHOLE;
  default: return FREE;
  }
}

static uint32_t lowest(uint32_t mask) {
  return (uint32_t)__builtin_ctz(mask);
}

/* The strand that runs has lanes m at the instruction and waits there; its
   other lanes, which a guard holds back, go on. */
static sim_gather_t wait_here(sim_warp_t *w, const sim_ins_t *i, uint32_t m) {
  sim_strand_t *s = &w->its->strands[w->its->now];
  uint32_t at = (uint32_t)(i - w->code);
  if (w->active & ~m) sim_its_part(w, w->active & ~m, at + 1);
  s->at = at;
  s->mask = w->active;
  s->state = SIM_STRAND_SYNC;
  return SIM_GATHER_WAIT;
}

/* -- masks, the whole warp -- */

/* Takes over who waits at the instruction for the same lanes if all that are
   needed are then there. */
static sim_gather_t meet(sim_warp_t *w, const sim_ins_t *i, uint32_t *m,
                         uint32_t need, const sim_u32 *masks) {
  sim_its_t *t = w->its;
  uint32_t at = (uint32_t)(i - w->code), here = *m, first = lowest(*m);
  if ((need & ~here) == 0) return SIM_GATHER_GO;
  for (uint32_t n = 0; n < t->count; n++) {
    const sim_strand_t *s = &t->strands[n];
    if (n == t->now || s->state != SIM_STRAND_SYNC || s->at != at) continue;
    uint32_t other = masks ? masks[lowest(s->mask)] : 0;
    if (!masks || other == masks[first]) {
      here |= s->mask;
      continue;
    }
    if ((other & *m) &&
        !sim_find(w, i, SIM_CHECK_WARP_MASK, lowest(other & *m),
                  PTX_SPACE_REG, 0, 0, "masks differ: 0x%08x and 0x%08x",
                  masks[first], other))
      return SIM_GATHER_END;
  }
  if (need & ~here) return wait_here(w, i, *m);
  for (uint32_t n = t->count; n-- > 0;) {
    const sim_strand_t *s = &t->strands[n];
    if (n != t->now && s->state == SIM_STRAND_SYNC && s->at == at &&
        (s->mask & here))
      sim_its_absorb(w, n);
  }
  *m = here;
  return SIM_GATHER_GO;
}

static sim_gather_t meet_named(sim_warp_t *w, const sim_ins_t *i,
                               uint32_t *m, uint32_t row) {
  const sim_u32 *masks = sim_row(w, row);
  uint32_t first = masks[lowest(*m)], all = 0, others = 0;
  for (uint32_t l = 0; l < 32; l++) {
    if (!(*m >> l & 1)) continue;
    all |= masks[l];
    if (masks[l] != first) others |= 1u << l;
  }
  if ((all & w->live & ~*m) == 0) return SIM_GATHER_GO;
  /* of several masks, each waits for its own lanes */
  if (others) {
    sim_its_part(w, others, (uint32_t)(i - w->code));
    *m &= ~others;
  }
  return meet(w, i, m, first & w->live, masks);
}

/* -- barriers that lanes join on their own -- */

/* All lanes that live have joined: the warp does. */
static bool join_whole(sim_warp_t *w, uint32_t id) {
  sim_its_t *t = w->its;
  const sim_ins_t *i = w->code + t->joins[id];
  sim_barrier_t *b = &w->cta->barriers[id];
  uint32_t m = t->joined[id], lane = lowest(m);
  uint32_t count = sim_kind(i, 2) ? sim_row(w, i->b)[lane] : 0;
  bool waits = false;
  for (uint32_t n = 0; n < t->count; n++)
    waits = waits || (t->strands[n].state == SIM_STRAND_BARRIER &&
                      t->strands[n].barrier == id);
  if (i->handler == SIM_H_bar_red) sim_barrier_add(b, i, t->votes[id], m);
  t->joined[id] = t->votes[id] = 0;
  w->worker->counters[SIM_COUNTER_BARRIERS]++;
  uint8_t state = w->state;
  w->ip = i + 1; /* of none yet: a finding sets it to NULL */
  sim_barrier_join(w, i, id, count, i->handler == SIM_H_bar_red ? 2 : 1,
                   waits);
  w->state = state; /* strands wait, not the warp */
  return w->ip != NULL;
}

static sim_gather_t join(sim_warp_t *w, const sim_ins_t *i, uint32_t m) {
  sim_its_t *t = w->its;
  sim_strand_t *s = &t->strands[t->now];
  uint32_t lane = lowest(m), id = sim_row(w, i->a)[lane];
  uint32_t count = sim_kind(i, 2) ? sim_row(w, i->b)[lane] : 32;
  uint32_t at = (uint32_t)(i - w->code);
  /* the handler joins whole warps, and says what is wrong with numbers */
  if (id >= SIM_BARRIERS || count == 0 || count % 32 ||
      (m == w->live && !t->joined[id]))
    return SIM_GATHER_GO;
  uint32_t again = t->joined[id] & m;
  if (again &&
      !sim_find(w, i, SIM_CHECK_BAR_COUNT, lowest(again), PTX_SPACE_REG, id,
                0, "the lane joins barrier %u again before it completed", id))
    return SIM_GATHER_END;
  t->joined[id] |= m;
  t->joins[id] = at;
  if (i->handler == SIM_H_bar_red) {
    uint32_t p = sim_pred(w, i->c);
    if (i->mods & SIM_MOD_NEG_C) p = ~p;
    t->votes[id] = (t->votes[id] & ~m) | (p & m);
  }
  bool waits = i->handler != SIM_H_bar_arrive;
  if (waits) {
    if (w->active & ~m) sim_its_part(w, w->active & ~m, at + 1);
    s->at = at + 1;
    s->mask = w->active;
    s->state = SIM_STRAND_BARRIER;
    s->barrier = (uint8_t)id;
  }
  if ((w->live & ~t->joined[id]) == 0 && !join_whole(w, id))
    return SIM_GATHER_END;
  return waits ? SIM_GATHER_LEFT : SIM_GATHER_PAST;
}

bool sim_its_release(sim_warp_t *w, uint32_t id, uint32_t reduction) {
  sim_its_t *t = w->its;
  bool any = false;
  for (uint32_t n = 0; n < t->count; n++) {
    sim_strand_t *s = &t->strands[n];
    if (s->state != SIM_STRAND_BARRIER || s->barrier != id) continue;
    s->state = SIM_STRAND_READY;
    sim_barrier_deliver(w, w->code + s->at - 1, reduction, s->mask);
    any = true;
  }
  if (any && w->state == SIM_WARP_BARRIER) w->state = SIM_WARP_READY;
  return any;
}

sim_gather_t sim_its_gather(sim_warp_t *w, const sim_ins_t *i, uint32_t *m) {
  sim_strand_t *s = &w->its->strands[w->its->now];
  uint32_t row = 0;
  kind_t kind = kind_of(i, &row);
  if (kind == FREE || *m == 0) return SIM_GATHER_GO;
  if (kind == JOIN) return join(w, i, *m);
  if (s->is_forced) {
    s->is_forced = false;
    return SIM_GATHER_GO;
  }
  return kind == NAMED ? meet_named(w, i, m, row)
                       : meet(w, i, m, w->live, NULL);
}

uint32_t sim_its_misses(sim_warp_t *w, uint32_t mask) {
  sim_its_t *t = w->its;
  for (uint32_t n = 0; n < t->count; n++) {
    sim_strand_t *s = &t->strands[n];
    uint32_t row;
    if (s->state != SIM_STRAND_SYNC || s->mask & mask ||
        kind_of(w->code + s->at, &row) != WHOLE)
      continue;
    s->is_forced = true;
    return n;
  }
  return SIM_ITS_NOBODY;
}

bool sim_its_exited(sim_warp_t *w) {
  sim_its_t *t = w->its;
  for (uint32_t n = 0; n < t->count; n++) {
    /* those at a mask look again */
    if (t->strands[n].state == SIM_STRAND_SYNC)
      t->strands[n].state = SIM_STRAND_READY;
  }
  for (uint32_t id = 0; id < SIM_BARRIERS; id++) {
    if (!t->joined[id]) continue;
    t->joined[id] &= w->live;
    if (t->joined[id] && (w->live & ~t->joined[id]) == 0 &&
        !join_whole(w, id))
      return false;
  }
  return true;
}
