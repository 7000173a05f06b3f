/* Control flow, warp-level exchanges and barriers. */
#include "runtime/simgpu/depend.h"
#include "runtime/simgpu/race.h"
#include "runtime/simgpu/sync.h"
#include "runtime/simgpu/flags.h"
#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/x.h"

/* The start of a basic block: lanes that wait for each other meet, the block
   is counted, and a used-up slice lets other warps run. */
SIM_DEF(block) {
  const sim_kernel_t *k = w->cta->launch->kernel;
  uint32_t at = (uint32_t)(i - k->code);
  (void)m;
  if (at == w->reconv) return sim_pop(w);
  const sim_block_t *b = &k->blocks.data[i->imm];
  uint32_t lanes = (uint32_t)__builtin_popcount(w->active);
  w->worker->block_runs[i->imm]++;
  w->worker->block_lanes[i->imm] += lanes;
  w->executed += b->count;
  w->slice -= (int32_t)b->count;
  if (w->slice <= 0) {
    w->ip = i + 1;
    return NULL;
  }
  return i + 1;
}

/* The end of a device function, or of an entry whose text just stops. */
SIM_DEF(end) {
  if (w->call_depth == 0) return sim_exit_lanes(w, i, m);
  sim_call_t *call = &w->calls[--w->call_depth];
  const sim_ins_t *from = w->code + call->ins;
  sim_call_frames(w, from, from->list_writes, from->count, w->active);
  return sim_pop(w);
}

SIM_DEF(nop) {
  (void)w, (void)m;
  return i + 1;
}

SIM_DEF(bra) {
  return sim_branch(w, i, m);
}

/* brx.idx: one target after another, lanes of equal index together. */
SIM_DEF(brx) {
  const sim_u32 *index = sim_row(w, i->a);
  const sim_kernel_t *k = w->cta->launch->kernel;
  uint32_t left = m;
  if (m == 0) return i + 1;
  for (uint32_t l = 0; l < 32; l++) {
    if (SIM_BIT(m) && index[l] >= i->count) {
      if (!sim_find(w, i, SIM_CHECK_ILLEGAL, l, PTX_SPACE_REG, index[l], 0,
                    "branch index beyond its table of %u", i->count))
        return NULL;
      left &= ~(1u << l);
    }
  }
  uint32_t first = (uint32_t)__builtin_ctz(left | 1u << 31);
  uint32_t same = 0;
  for (uint32_t l = 0; l < 32; l++) {
    if ((left >> l & 1) && index[l] == index[first]) same |= 1u << l;
  }
  if (same != w->active) {
    /* the lanes of other indices come back to this instruction */
    uint32_t rest = w->active & ~same;
    sim_frame_t frames[2] = {{i->reconv, w->reconv, w->active},
                             {(uint32_t)(i - k->code), i->reconv, rest}};
    for (unsigned n = i->reconv == w->reconv ? 1 : 0; n < 2; n++) {
      if (!sim_push(w, i, frames[n])) return NULL;
    }
    w->reconv = i->reconv;
    w->active = same;
    w->worker->counters[SIM_COUNTER_DIVERGED]++;
  }
  return k->code + sim_list(w, i, index[first]);
}

SIM_DEF(call) {
  const sim_kernel_t *k = w->cta->launch->kernel;
  if (m == 0) return i + 1;
  sim_call_frames(w, i, 0, i->list_writes, m);
  /* the caller goes on after the call with all its lanes */
  if (!sim_push(w, i,
                (sim_frame_t){(uint32_t)(i + 1 - k->code), w->reconv,
                              w->active}))
    return NULL;
  w->calls[w->call_depth++] =
      (sim_call_t){w->depth, (uint32_t)(i - k->code), w->reconv};
  w->reconv = SIM_NO_RECONV;
  w->active = m;
  return k->code + i->target;
}

/* Of a device function: to its end, where all lanes meet. */
SIM_DEF(ret) {
  if (i->sub) return sim_exit_lanes(w, i, m); /* of the entry */
  return sim_branch(w, i, m);
}

SIM_DEF(exit) {
  return sim_exit_lanes(w, i, m);
}

SIM_DEF(trap) {
  if (m == 0) return i + 1;
  unsigned lane = (unsigned)__builtin_ctz(m);
  if (!sim_find(w, i, SIM_CHECK_TRAP, lane, PTX_SPACE_REG, 0, 0,
                "the kernel executed trap"))
    return NULL;
  return sim_exit_lanes(w, i, m);
}

/* Lets the others run. */
SIM_DEF(nanosleep) {
  if (m == 0) return i + 1;
  w->ip = i + 1;
  w->state = SIM_WARP_SPIN;
  w->waits_for = NULL;
  return NULL;
}

/* griddepcontrol: sub 0 wait, 1 launch_dependents. */
SIM_DEF(griddep) {
  if (m == 0) return i + 1;
  if (i->sub) {
    sim_depend_trigger(w);
    return i + 1;
  }
  w->ip = i + 1;
  return sim_depend_wait(w) ? i + 1 : NULL;
}

SIM_DEF(fence) {
  if (m && i->sub2 == 0) sim_sync_fence(w);
  if (m && i->sub2 != SIM_FENCE_NONE) sim_flag_fence(w);
  return i + 1;
}

SIM_DEF(activemask) {
  sim_u32 *d = sim_row(w, i->d);
  uint32_t value = w->active;
  SIM_STORE(uint32_t, d, value);
  return i + 1;
}

/* -- exchanges -- */

/* Lanes of m that the first one's mask names: each lane must be in its own
   mask, and the lanes of a mask that live must all be here with that mask.
   Several groups, as of the two halves of a warp, may meet at an instruction.
   0 after a report. */
static uint32_t members(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                        uint32_t offset) {
  const sim_u32 *mask = sim_row(w, offset);
  uint32_t first = mask[__builtin_ctz(m)], differ = 0, group = m;
  SIM_LANES differ |= mask[l] ^ first;
  if (OPT_ONLY(differ == 0 && first == m)) return m;
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    if (!SIM_BIT(mask[l])) {
      if (!sim_find(w, i, SIM_CHECK_WARP_MASK, l, PTX_SPACE_REG, 0, 0,
                    "lane is not in its own mask 0x%08x", mask[l]))
        return 0;
    }
    if (mask[l] != first) group &= ~(1u << l);
  }
  uint32_t missing = first & w->live & ~group;
  if (missing == 0) return group;
  uint32_t away = (unsigned)__builtin_ctz(missing);
  bool is_here = m >> away & 1;
  bool goes_on =
      is_here ? sim_find(w, i, SIM_CHECK_WARP_MASK, away, PTX_SPACE_REG, 0, 0,
                         "masks differ: 0x%08x and 0x%08x", mask[away], first)
              : sim_find(w, i, SIM_CHECK_WARP_MASK, away, PTX_SPACE_REG, 0, 0,
                         "lane is named by the mask 0x%08x and does not take "
                         "part",
                         first);
  return goes_on ? group : 0;
}

/* An exchange is made by one group after the other. */
#define BY_GROUPS(name, offset)                                               \
  do {                                                                        \
    uint32_t group_ = members(w, i, m, offset);                               \
    if (group_ == 0) return NULL;                                             \
    if (group_ != m) {                                                        \
      const sim_ins_t *next_ = SIM_X(name)(w, i, group_);                     \
      return next_ == NULL ? NULL : SIM_X(name)(w, i, m & ~group_);           \
    }                                                                         \
  } while (0)

SIM_DEF(shfl) {
  if (m == 0) return i + 1;
  BY_GROUPS(shfl, i->e);
  sim_u32 *d = sim_row(w, i->d);
  uint32_t value[32], r = 0;
  uint8_t undefined[32];
  const sim_u32 *b = sim_row(w, i->b), *c = sim_row(w, i->c);
  memcpy(value, sim_row(w, i->a), sizeof value);
  memcpy(undefined, sim_shadow(w, i->a), sizeof undefined);
  uint32_t from[32], inactive = 0;
  uint8_t valid[32];
  switch (i->sub) {
#define SOURCE(name, lane, condition)                                         \
  name:                                                                       \
  SIM_LANES {                                                                 \
    uint32_t bval = b[l] & 31, clamp = c[l] & 31, seg = c[l] >> 8 & 31;       \
    uint32_t low = l & seg, high = low | (clamp & ~seg), j = (lane);          \
    (void)low;                                                                \
    bool ok = (condition);                                                    \
    valid[l] = ok ? 0xFF : 0;                                                 \
    from[l] = ok ? j : l;                                                     \
  }                                                                           \
  break;
    SOURCE(case 0, l - bval, (int32_t)j >= (int32_t)high) /* up */
    SOURCE(case 1, l + bval, j <= high)                   /* down */
    SOURCE(case 2, l ^ bval, j <= high)                   /* bfly */
    SOURCE(default, low | (bval & ~seg), j <= high)       /* idx */
#undef SOURCE
  }
  for (uint32_t l = 0; l < 32; l++)
    inactive |= (~m >> from[l] & m >> l & 1) << l;
  while (inactive) {
    uint32_t l = (uint32_t)__builtin_ctz(inactive);
    if (!sim_find(w, i, SIM_CHECK_WARP_INACTIVE, l, PTX_SPACE_REG, 0, 0,
                  "reads lane %u, which does not take part", from[l]))
      return NULL;
    from[l] = l;
    inactive &= inactive - 1;
  }
  r = sim_mask_of(valid);
  SIM_STORE(uint32_t, d, value[from[l]]);
  if (w->is_tainted) {
    for (uint32_t l = 0; l < 32; l++)
      if (SIM_BIT(m)) sim_shadow(w, i->d)[l] = undefined[from[l]];
  }
  if (i->mods & SIM_MOD_PAIR) {
    /* the predicate's slot is in the list: all others are taken */
    uint32_t entry = sim_list(w, i, 0);
    sim_set_pred(w, entry & ~3u, r, m);
    if (w->is_tainted) *sim_pred_shadow(w, entry & ~3u) &= ~m;
  }
  return i + 1;
}

/* vote: sub 0 all, 1 any, 2 uni; lanes outside contribute nothing. */
SIM_DEF(vote) {
  if (m == 0) return i + 1;
  BY_GROUPS(vote, i->b);
  uint32_t p = sim_pred(w, i->a);
  if (i->mods & SIM_MOD_NEG_A) p = ~p;
  p &= m;
  bool yes = i->sub == 0 ? p == m : i->sub == 1 ? p != 0 : p == m || !p;
  sim_set_pred(w, i->d, yes ? SIM_FULL : 0, m);
  return i + 1;
}

SIM_DEF(ballot) {
  if (m == 0) return i + 1;
  BY_GROUPS(ballot, i->b);
  uint32_t p = sim_pred(w, i->a);
  if (i->mods & SIM_MOD_NEG_A) p = ~p;
  p &= m;
  sim_u32 *d = sim_row(w, i->d);
  SIM_STORE(uint32_t, d, p);
  return i + 1;
}

/* match: sub 0 any, 1 all */
SIM_DEF(match) {
  if (m == 0) return i + 1;
  BY_GROUPS(match, i->b);
  uint64_t value[32];
  uint32_t out[32];
  bool wide = sim_kind(i, 1) == SIM_ROW_64, all = true;
  for (uint32_t l = 0; l < 32; l++)
    value[l] = wide ? sim_row64(w, i->a)[l] : sim_row(w, i->a)[l];
  uint32_t first = (uint32_t)__builtin_ctz(m);
  for (uint32_t l = 0; l < 32; l++) {
    out[l] = 0;
    if (!SIM_BIT(m)) continue;
    all = all && value[l] == value[first];
    for (uint32_t j = 0; j < 32; j++)
      if ((m >> j & 1) && value[j] == value[l]) out[l] |= 1u << j;
  }
  sim_u32 *d = sim_row(w, i->d);
  if (i->sub) {
    SIM_STORE(uint32_t, d, all ? m : 0);
    if (i->mods & SIM_MOD_PAIR) sim_set_pred(w, i->e, all ? SIM_FULL : 0, m);
  } else {
    SIM_STORE(uint32_t, d, out[l]);
  }
  return i + 1;
}

SIM_DEF(redux) {
  if (m == 0) return i + 1;
  BY_GROUPS(redux, i->b);
  const sim_u32 *a = sim_row(w, i->a);
  uint32_t r = a[__builtin_ctz(m)];
  for (uint32_t l = (uint32_t)__builtin_ctz(m) + 1; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    uint32_t x = a[l];
    bool less = i->mods & SIM_MOD_SIGNED ? (int32_t)x < (int32_t)r : x < r;
    switch ((sim_atom_t)i->sub) {
    case SIM_ATOM_ADD: r += x; break;
    case SIM_ATOM_MIN: r = less ? x : r; break;
    case SIM_ATOM_MAX: r = less ? r : x; break;
    case SIM_ATOM_AND: r &= x; break;
    case SIM_ATOM_OR: r |= x; break;
    case SIM_ATOM_XOR: r ^= x; break;
    default: break;
    }
  }
  sim_u32 *d = sim_row(w, i->d);
  SIM_STORE(uint32_t, d, r);
  return i + 1;
}

/* The lane that all of the mask elect: the lowest, or under order:random one
   that follows from seed and mask alone. */
static uint32_t elected(const sim_warp_t *w, uint32_t m) {
  const sim_options_t *o = w->worker->launch->options;
  if (o->order == SIM_ORDER_RANDOM) {
    uint64_t draw = o->seed << 32 ^ m;
    uint64_t n = sim_random(&draw) % (uint32_t)__builtin_popcount(m);
    for (; n > 0; n--) m &= m - 1;
  }
  return (uint32_t)__builtin_ctz(m);
}

/* elect.sync */
SIM_DEF(elect) {
  if (m == 0) return i + 1;
  BY_GROUPS(elect, i->a);
  uint32_t lane = elected(w, m);
  if (i->mods & SIM_MOD_PAIR) sim_set_pred(w, i->e, 1u << lane, m);
  if (sim_kind(i, 0) == SIM_ROW_32) {
    sim_u32 *d = sim_row(w, i->d);
    SIM_STORE(uint32_t, d, lane);
  }
  return i + 1;
}

SIM_DEF(warp_sync) {
  if (m == 0) return i + 1;
  BY_GROUPS(warp_sync, i->a);
  sim_warp_tick(w);
  return i + 1;
}

/* -- barriers of the block -- */

/* All lanes of the warp must be here; id and count equal in all. */
static bool barrier_operands(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                             uint32_t *id, uint32_t *count) {
  uint32_t lane = (uint32_t)__builtin_ctz(m);
  *id = sim_row(w, i->a)[lane];
  *count = sim_kind(i, 2) ? sim_row(w, i->b)[lane] : 0;
  if (m != w->live && (i->mods & SIM_MOD_ALIGNED)) {
    uint32_t away = w->live & ~m;
    return sim_find(w, i, SIM_CHECK_BAR_DIVERGED,
                    (unsigned)__builtin_ctz(away ? away : m), PTX_SPACE_REG,
                    0, 0, "lane does not take part in the warp's barrier");
  }
  if (*id >= SIM_BARRIERS)
    return sim_find(w, i, SIM_CHECK_BAR_COUNT, lane, PTX_SPACE_REG, 0, 0,
                    "barrier number %u is above 15", *id);
  if (sim_kind(i, 2) && (*count == 0 || *count % 32))
    return sim_find(w, i, SIM_CHECK_BAR_COUNT, lane, PTX_SPACE_REG, 0, 0,
                    "thread count %u is no multiple of 32", *count);
  return true;
}

SIM_DEF(bar_sync) {
  uint32_t id, count;
  if (m == 0) return i + 1;
  if (!barrier_operands(w, i, m, &id, &count)) return NULL;
  w->worker->counters[SIM_COUNTER_BARRIERS]++;
  return sim_barrier_join(w, i, id, count, 1, true);
}

SIM_DEF(bar_arrive) {
  uint32_t id, count;
  if (m == 0) return i + 1;
  if (!barrier_operands(w, i, m, &id, &count)) return NULL;
  w->worker->counters[SIM_COUNTER_BARRIERS]++;
  return sim_barrier_join(w, i, id, count, 1, false);
}

/* bar.red: the reduction is delivered when the barrier completes. */
SIM_DEF(bar_red) {
  uint32_t id, count;
  if (m == 0) return i + 1;
  if (!barrier_operands(w, i, m, &id, &count)) return NULL;
  w->worker->counters[SIM_COUNTER_BARRIERS]++;
  uint32_t p = sim_pred(w, i->c);
  if (i->mods & SIM_MOD_NEG_C) p = ~p;
  p &= m;
  sim_barrier_add(&w->cta->barriers[id], i, p, m);
  return sim_barrier_join(w, i, id, count, 2, true);
}
