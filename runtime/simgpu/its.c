/* Which strand of a warp runs, and the loop over its instructions. Control
   flow is done here: the handlers of x_ctl.c keep a stack instead. */
#include "runtime/simgpu/its.h"

#include "runtime/simgpu/cluster.h"
#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/race.h"

#define NOBODY SIM_ITS_NOBODY

void sim_its_start(sim_warp_t *w) {
  sim_its_t *t = w->its;
  t->strands[0] = (sim_strand_t){.at = (uint32_t)(w->ip - w->code),
                                 .mask = w->live};
  t->count = 1;
  t->now = 0;
  t->turn = 0;
  t->is_chosen = false;
  memset(t->joined, 0, sizeof t->joined);
  memset(t->votes, 0, sizeof t->votes);
  memset(t->depth, 0, sizeof t->depth);
}

/* -- the list -- */

static void drop(sim_its_t *t, uint32_t n) {
  t->strands[n] = t->strands[--t->count];
  if (t->now == t->count) t->now = n;
}

/* A strand is in the list with its lanes; of the one that runs, w->active
   has them. */
void sim_its_part(sim_warp_t *w, uint32_t mask, uint32_t at) {
  sim_its_t *t = w->its;
  uint64_t ran = t->strands[t->now].ran;
  t->strands[t->count++] = (sim_strand_t){.at = at, .mask = mask, .ran = ran};
  w->active &= ~mask;
  t->strands[t->now].mask = w->active;
}

void sim_its_absorb(sim_warp_t *w, uint32_t other) {
  sim_its_t *t = w->its;
  w->active |= t->strands[other].mask;
  drop(t, other);
  t->strands[t->now].mask = w->active;
}

/* -- whose turn it is -- */

/* The ready one with the smallest place; of several, one that is drawn. */
static uint32_t lowest(sim_warp_t *w) {
  const sim_its_t *t = w->its;
  uint32_t best = NOBODY, ties = 0;
  for (uint32_t n = 0; n < t->count; n++) {
    const sim_strand_t *s = &t->strands[n];
    if (s->state != SIM_STRAND_READY) continue;
    if (best != NOBODY && s->at > t->strands[best].at) continue;
    bool is_tie = best != NOBODY && s->at == t->strands[best].at;
    ties = is_tie ? ties + 1 : 1;
    if (!is_tie || sim_random(&w->cta->random) % ties == 0) best = n;
  }
  return best;
}

/* The one that has not run for longest; `but` only if there is no other. Those
   whose wait has failed come in if it is a loop that they are changed with. */
static uint32_t oldest(sim_warp_t *w, uint32_t but, bool with_spun) {
  const sim_its_t *t = w->its;
  uint32_t best = NOBODY, ties = 0;
  for (uint32_t n = 0; n < t->count; n++) {
    const sim_strand_t *s = &t->strands[n];
    if (n == but || (s->state != SIM_STRAND_READY &&
                     !(with_spun && s->state == SIM_STRAND_SPUN)))
      continue;
    if (best != NOBODY && s->ran > t->strands[best].ran) continue;
    bool is_tie = best != NOBODY && s->ran == t->strands[best].ran;
    ties = is_tie ? ties + 1 : 1;
    if (!is_tie || sim_random(&w->cta->random) % ties == 0) best = n;
  }
  return best == NOBODY && but < t->count &&
                 t->strands[but].state == SIM_STRAND_READY
             ? but
             : best;
}

static const sim_ins_t *enter(sim_warp_t *w, uint32_t n) {
  sim_its_t *t = w->its;
  sim_strand_t *s = &t->strands[n];
  t->now = n;
  t->is_chosen = true;
  s->ran = ++t->turn;
  s->state = SIM_STRAND_READY;
  w->active = s->mask;
  return w->code + s->at;
}

/* No strand is ready: the warp gives way, or, if only its own lanes could
   help, goes on with whoever is there. */
static const sim_ins_t *give_way(sim_warp_t *w) {
  sim_its_t *t = w->its;
  uint32_t spun = NOBODY, at_barrier = NOBODY, at_cluster = NOBODY;
  uint32_t waits = NOBODY;
  bool only_mbars = true;
  for (uint32_t n = 0; n < t->count; n++) {
    const sim_strand_t *s = &t->strands[n];
    switch ((sim_strand_state_t)s->state) {
    case SIM_STRAND_SPUN:
      only_mbars = only_mbars && s->waits_for;
      if (spun == NOBODY || !s->waits_for) spun = n;
      break;
    case SIM_STRAND_BARRIER: at_barrier = n; break;
    case SIM_STRAND_CLUSTER: at_cluster = n; break;
    case SIM_STRAND_SYNC:
      if (waits == NOBODY || s->at < t->strands[waits].at) waits = n;
      break;
    case SIM_STRAND_READY: break;
    }
  }
  uint32_t one = spun != NOBODY         ? spun
                 : at_barrier != NOBODY ? at_barrier
                 : at_cluster != NOBODY ? at_cluster
                                        : waits;
  if (one == waits) {
    t->strands[one].is_forced = true;
    return enter(w, one);
  }
  const sim_strand_t *s = &t->strands[one];
  t->now = one;
  w->ip = w->code + s->at;
  w->active = s->mask;
  w->waits_for = one == spun && only_mbars ? s->waits_for : NULL;
  w->wait = s->barrier;
  w->state = one == spun         ? SIM_WARP_SPIN
             : one == at_barrier ? SIM_WARP_BARRIER
                                 : SIM_WARP_CLUSTER;
  return NULL;
}

/* Who waited for the cluster's barrier and may pass it. */
static void wake(sim_warp_t *w) {
  sim_its_t *t = w->its;
  for (uint32_t n = 0; n < t->count; n++) {
    sim_strand_t *s = &t->strands[n];
    if (s->state == SIM_STRAND_CLUSTER && !(s->mask & w->cluster_arrived))
      s->state = SIM_STRAND_READY;
  }
}

typedef enum turn_t {
  SMALLEST, /* the next by place */
  BACKWARD, /* `now` has branched back */
  FAILED    /* `now` has tried a wait in vain */
} turn_t;

static const sim_ins_t *choose(sim_warp_t *w, turn_t turn) {
  sim_its_t *t = w->its;
  wake(w);
  uint32_t n = turn == SMALLEST ? lowest(w)
                                : oldest(w, t->now, turn == BACKWARD);
  return n == NOBODY ? give_way(w) : enter(w, n);
}

/* The strand that runs goes on elsewhere, perhaps after others. */
static void leave(sim_warp_t *w, const sim_ins_t *i) {
  sim_strand_t *s = &w->its->strands[w->its->now];
  s->at = (uint32_t)(i - w->code);
  s->mask = w->active;
}

/* -- control flow -- */

/* The start of a basic block. NULL: the warp gives way. */
static const sim_ins_t *block(sim_warp_t *w, const sim_ins_t *i) {
  sim_its_t *t = w->its;
  if (t->count > 1 && !t->is_chosen) {
    leave(w, i);
    wake(w);
    uint32_t n = lowest(w);
    if (n != t->now) return enter(w, n);
  }
  t->is_chosen = false;
  const sim_block_t *b = &w->cta->launch->kernel->blocks.data[i->imm];
  w->executed += b->count;
  w->slice -= (int32_t)b->count;
  if (w->slice > 0) return i + 1;
  leave(w, i + 1);
  w->ip = i + 1;
  return NULL;
}

/* Lanes of `taken` go to the target, the others on. */
static const sim_ins_t *branch(sim_warp_t *w, const sim_ins_t *i,
                               uint32_t taken) {
  uint32_t rest = w->active & ~taken, at = (uint32_t)(i - w->code);
  w->worker->counters[SIM_COUNTER_BRANCHES]++;
  if (taken == 0) return i + 1;
  if (rest) {
    w->worker->counters[SIM_COUNTER_DIVERGED]++;
    sim_its_part(w, rest, at + 1);
  }
  if (!rest && i->target > at) return w->code + i->target;
  leave(w, w->code + i->target);
  return choose(w, i->target > at ? SMALLEST : BACKWARD);
}

static const sim_ins_t *table(sim_warp_t *w, const sim_ins_t *i, uint32_t m) {
  const sim_u32 *index = sim_row(w, i->a);
  uint32_t at = (uint32_t)(i - w->code), out = 0, first = NOBODY;
  bool is_back = false, parts = false;
  if (m == 0) return i + 1;
  for (uint32_t l = 0; l < 32; l++) {
    if (!(m >> l & 1) || index[l] < i->count) continue;
    if (!sim_find(w, i, SIM_CHECK_ILLEGAL, l, PTX_SPACE_REG, index[l], 0,
                  "branch index beyond its table of %u", i->count))
      return NULL;
    out |= 1u << l;
  }
  if (w->active & ~m) sim_its_part(w, w->active & ~m, at + 1);
  m &= ~out;
  if (m == 0) return i + 1;
  /* the lanes of one index stay, those of each other one part */
  first = index[__builtin_ctz(m)];
  for (uint32_t left = m; left;) {
    uint32_t one = index[__builtin_ctz(left)], same = 0;
    for (uint32_t l = 0; l < 32; l++)
      if ((left >> l & 1) && index[l] == one) same |= 1u << l;
    left &= ~same;
    uint32_t to = sim_list(w, i, one);
    is_back = is_back || to <= at;
    if (one == first) continue;
    sim_its_part(w, same, to);
    parts = true;
  }
  w->worker->counters[SIM_COUNTER_DIVERGED] += parts;
  leave(w, w->code + sim_list(w, i, first));
  return choose(w, is_back ? BACKWARD : SMALLEST);
}

static const sim_ins_t *call(sim_warp_t *w, const sim_ins_t *i, uint32_t m) {
  sim_its_t *t = w->its;
  uint32_t at = (uint32_t)(i - w->code);
  if (m == 0) return i + 1;
  sim_call_frames(w, i, 0, i->list_writes, m);
  for (uint32_t l = 0; l < 32; l++)
    if (m >> l & 1) t->calls[t->depth[l]++][l] = at;
  if (w->active == m) return w->code + i->target;
  sim_its_part(w, w->active & ~m, at + 1);
  leave(w, w->code + i->target);
  return choose(w, SMALLEST);
}

static const sim_ins_t *exit_lanes(sim_warp_t *w, const sim_ins_t *i,
                                   uint32_t m) {
  sim_its_t *t = w->its;
  if (m == 0) return i + 1;
  leave(w, i);
  uint32_t missing = sim_its_misses(w, m);
  if (missing != NOBODY) return enter(w, missing);
  w->live &= ~m;
  w->active &= ~m;
  w->ip = i + 1;
  leave(w, i + 1);
  if (w->active == 0) drop(t, t->now);
  if (w->cta->launch->kernel->has_cluster && !sim_cluster_exit(w, i, m))
    return NULL;
  if (!sim_its_exited(w)) return NULL;
  if (w->live == 0) {
    w->state = SIM_WARP_DONE;
    return NULL;
  }
  return w->active ? i + 1 : choose(w, SMALLEST);
}

/* The end of a function: lanes return to where each was called. */
static const sim_ins_t *end(sim_warp_t *w, const sim_ins_t *i) {
  sim_its_t *t = w->its;
  uint32_t left = w->active, first = NOBODY;
  if (t->depth[__builtin_ctz(left)] == 0) return exit_lanes(w, i, left);
  while (left) {
    uint32_t lane = (uint32_t)__builtin_ctz(left), same = 0;
    uint32_t from = t->calls[t->depth[lane] - 1][lane];
    for (uint32_t l = 0; l < 32; l++)
      if ((left >> l & 1) && t->calls[t->depth[l] - 1][l] == from)
        same |= 1u << l, t->depth[l]--;
    left &= ~same;
    const sim_ins_t *c = w->code + from;
    sim_call_frames(w, c, c->list_writes, c->count, same);
    if (first == NOBODY)
      first = from;
    else
      sim_its_part(w, same, from + 1);
  }
  leave(w, w->code + first + 1);
  return choose(w, SMALLEST);
}

static const sim_ins_t *control(sim_warp_t *w, const sim_ins_t *i,
                                uint32_t m) {
  switch (i->handler) {
  case SIM_H_bra: return branch(w, i, m);
  case SIM_H_brx: return table(w, i, m);
  case SIM_H_call: return call(w, i, m);
  case SIM_H_ret: return i->sub ? exit_lanes(w, i, m) : branch(w, i, m);
  case SIM_H_end: return end(w, i);
  default: break; /* exit, trap */
  }
  if (i->handler == SIM_H_trap && m &&
      !sim_find(w, i, SIM_CHECK_TRAP, (unsigned)__builtin_ctz(m),
                PTX_SPACE_REG, 0, 0, "the kernel executed trap"))
    return NULL;
  return exit_lanes(w, i, m);
}

static bool is_control(const sim_ins_t *i) {
  return (i->handler >= SIM_H_end && i->handler <= SIM_H_trap &&
          i->handler != SIM_H_nop);
}

/* -- the loop -- */

/* Each instruction on its own: strands meet and part inside a block. */
static void count(sim_warp_t *w, const sim_ins_t *i, uint32_t mask) {
  sim_worker_t *worker = w->worker;
  uint64_t *c = worker->counters;
  int special = sim_special_of(i->handler);
  if (i->handler == SIM_H_end) return;
  c[SIM_COUNTER_WARP_INST]++;
  worker->mix[i->cls]++;
  if (i->cls == SIM_CLASS_SFU) c[SIM_COUNTER_SFU]++;
  if (special >= 0) c[SIM_COUNTER_SFU_RCP + special]++;
  sim_count_lanes(w, i, mask);
}

/* An instruction could not go on: the warp as a whole waits (true), or its
   strand alone. */
static bool stops(sim_warp_t *w) {
  sim_strand_t *s = &w->its->strands[w->its->now];
  if (!w->ip) return true; /* the launch ends */
  leave(w, w->ip);
  switch ((sim_warp_state_t)w->state) {
  case SIM_WARP_SPIN:
    s->state = SIM_STRAND_SPUN;
    s->waits_for = w->waits_for;
    break;
  case SIM_WARP_CLUSTER: s->state = SIM_STRAND_CLUSTER; break;
  default: return true;
  }
  w->state = SIM_WARP_READY;
  return false;
}

/* Lanes of a warp are one agent of the race checks. What fences and flags
   order between them counts as if bar.warp.sync had: no false alarm, and the
   stack judges the same programs without this. */
static bool orders_lanes(const sim_ins_t *i) {
  return (i->handler == SIM_H_fence && i->sub2 != SIM_FENCE_NONE) ||
         i->mods & (SIM_MOD_ACQUIRE | SIM_MOD_RELEASE);
}

static const sim_ins_t *step(sim_warp_t *w, const sim_ins_t *i,
                             bool is_watched) {
  uint32_t mask = w->active & (sim_pred(w, i->guard) ^ i->flip);
  sim_watch_t watch;
  bool is_flow = is_control(i);
  if (i->is_block) {
    if (w->is_tainted) sim_undef_step(w, i, mask);
    return block(w, i);
  }
  sim_gather_t gathered =
      is_flow ? SIM_GATHER_GO : sim_its_gather(w, i, &mask);
  if (gathered == SIM_GATHER_END) return NULL;
  if (gathered == SIM_GATHER_WAIT) return choose(w, SMALLEST);
  if (w->is_tainted && !sim_undef_step(w, i, mask)) return NULL;
  if (is_watched) sim_watch_before(w, i, mask, &watch);
  const sim_ins_t *next;
  if (gathered == SIM_GATHER_PAST)
    next = i + 1;
  else if (gathered == SIM_GATHER_LEFT)
    next = choose(w, SMALLEST);
  else if (is_flow)
    next = control(w, i, mask);
  else
    next = i->fn(w, i, mask);
  if (is_watched) sim_watch_after(w, i, mask, &watch);
  bool is_done = is_flow || gathered == SIM_GATHER_LEFT;
  if (next || w->ip != i || is_done) count(w, i, mask);
  if (mask && orders_lanes(i)) sim_warp_tick(w);
  if (next || is_done) return next;
  return stops(w) ? NULL : choose(w, FAILED);
}

void sim_its_run(sim_warp_t *w) {
  sim_its_t *t = w->its;
  bool is_watched = sim_is_watched(w);
  for (uint32_t n = 0; n < t->count; n++)
    if (t->strands[n].state == SIM_STRAND_SPUN)
      t->strands[n].state = SIM_STRAND_READY;
  wake(w);
  const sim_ins_t *i;
  if (t->strands[t->now].state == SIM_STRAND_READY) {
    i = w->code + t->strands[t->now].at;
    w->active = t->strands[t->now].mask;
  } else {
    i = choose(w, SMALLEST);
  }
  while (i) i = step(w, i, is_watched);
}
