/* The loop over a warp's instructions, and its reconvergence stack.

   A divergent branch leaves a frame with all lanes at the reconvergence
   point, then one with the lanes that did not jump, and goes on with those
   that did. Whoever reaches the point leaves, and the next frame goes on. No
   frame is added for a point that is already the current one, so a loop that
   lanes leave one by one needs no more stack than a loop they leave
   together. */
#include "runtime/simgpu/cluster.h"
#include "runtime/simgpu/its.h"
#include "runtime/simgpu/notes.h"

#include <stdlib.h>

#define MAX_FRAMES 65536u

bool sim_push(sim_warp_t *w, const sim_ins_t *ins, sim_frame_t frame) {
  if (w->depth == w->stack_capacity) {
    uint32_t capacity = w->stack_capacity * 2;
    sim_frame_t *stack = capacity > MAX_FRAMES
                             ? NULL
                             : realloc(w->stack, capacity * sizeof *stack);
    if (!stack) {
      sim_find(w, ins, SIM_CHECK_ILLEGAL, 32, PTX_SPACE_REG, 0, 0,
               "lanes diverge more than %u times inside each other",
               w->stack_capacity);
      return false;
    }
    w->stack = stack;
    w->stack_capacity = capacity;
  }
  w->stack[w->depth++] = frame;
  return true;
}

const sim_ins_t *sim_pop(sim_warp_t *w) {
  while (w->depth) {
    sim_frame_t frame = w->stack[--w->depth];
    while (w->call_depth && w->depth < w->calls[w->call_depth - 1].depth)
      w->call_depth--;
    uint32_t mask = frame.mask & w->live;
    if (!mask) continue;
    w->active = mask;
    w->reconv = frame.reconv;
    return w->code + frame.at;
  }
  w->active = 0;
  w->state = SIM_WARP_DONE;
  return NULL;
}

const sim_ins_t *sim_exit_lanes(sim_warp_t *w, const sim_ins_t *ins,
                                uint32_t mask) {
  w->live &= ~mask;
  w->active &= ~mask;
  w->ip = ins + 1;
  if (w->cta->launch->kernel->has_cluster && !sim_cluster_exit(w, ins, mask))
    return NULL;
  return w->active ? ins + 1 : sim_pop(w);
}

const sim_ins_t *sim_branch(sim_warp_t *w, const sim_ins_t *ins,
                            uint32_t taken) {
  uint32_t all = w->active, rest = all & ~taken;
  w->worker->counters[SIM_COUNTER_BRANCHES]++;
  if (rest == 0) return w->code + ins->target;
  if (taken == 0) return ins + 1;
  w->worker->counters[SIM_COUNTER_DIVERGED]++;
  uint32_t point = ins->reconv, next = (uint32_t)(ins + 1 - w->code);
  if (point != w->reconv &&
      !sim_push(w, ins, (sim_frame_t){point, w->reconv, all}))
    return NULL;
  w->reconv = point;
  if (ins->target == point) {
    w->active = rest;
    return ins + 1;
  }
  if (next != point &&
      !sim_push(w, ins, (sim_frame_t){next, point, rest}))
    return NULL;
  w->active = taken;
  return w->code + ins->target;
}

void sim_call_frames(sim_warp_t *w, const sim_ins_t *call, uint32_t first,
                     uint32_t end, uint32_t m) {
  uint32_t bytes_a_lane = w->cta->launch->kernel->local_bytes;
  for (uint32_t n = first; n + 2 < end; n += 3) {
    uint32_t from = sim_list(w, call, n), to = sim_list(w, call, n + 1);
    uint32_t bytes = sim_list(w, call, n + 2);
    for (uint32_t l = 0; l < 32; l++) {
      if (!(m >> l & 1)) continue;
      size_t frame = (size_t)l * bytes_a_lane;
      memmove(w->local + frame + to, w->local + frame + from, bytes);
      memmove(w->local_defined + frame + to, w->local_defined + frame + from,
              bytes);
    }
  }
}

void sim_count_lanes(sim_warp_t *w, const sim_ins_t *i, uint32_t mask) {
  uint64_t *c = w->worker->counters;
  uint32_t lanes = (uint32_t)__builtin_popcount(mask);
  c[SIM_COUNTER_LANE_INST] += lanes;
  if (!i->flops) return;
  uint64_t flops = (uint64_t)lanes * i->flops;
  if (i->cls == SIM_CLASS_F32) c[SIM_COUNTER_FLOP_F32] += flops;
  if (i->cls == SIM_CLASS_F16) c[SIM_COUNTER_FLOP_F16] += flops;
  if (i->cls == SIM_CLASS_F64) c[SIM_COUNTER_FLOP_F64] += flops;
}

void sim_watch_before(sim_warp_t *w, const sim_ins_t *i, uint32_t mask,
                      sim_watch_t *x) {
  const uint64_t *c = w->worker->counters;
  x->finite = 0;
  x->sectors = c[SIM_COUNTER_GLOBAL_SECTORS];
  x->wavefronts = c[SIM_COUNTER_SHARED_WAVEFRONTS];
  if (!(w->cta->launch->options->checks & SIM_CHECK_NOTE)) return;
  sim_note_before(w, i, mask);
  x->finite = sim_note_finite(w, i);
}

void sim_watch_after(sim_warp_t *w, const sim_ins_t *i, uint32_t mask,
                     const sim_watch_t *x) {
  const uint64_t *c = w->worker->counters;
  if (x->finite) sim_note_after(w, i, mask, x->finite);
  if (!w->worker->lines || i->is_block) return;
  sim_line_t *line = &w->worker->lines[i - w->code];
  line->warp_inst++;
  line->lane_inst += (uint32_t)__builtin_popcount(mask);
  line->sectors += c[SIM_COUNTER_GLOBAL_SECTORS] - x->sectors;
  line->wavefronts += c[SIM_COUNTER_SHARED_WAVEFRONTS] - x->wavefronts;
}

/* The same loop with notes of values and counts by instruction. */
static void run_watched(sim_warp_t *w) {
  const sim_ins_t *i = w->ip;
  while (i) {
    uint32_t mask = w->active & (sim_pred(w, i->guard) ^ i->flip);
    sim_watch_t watch;
    if (i->is_guarded) sim_count_lanes(w, i, mask);
    if (w->is_tainted && !sim_undef_step(w, i, mask)) break;
    sim_watch_before(w, i, mask, &watch);
    const sim_ins_t *now = i;
    i = i->fn(w, i, mask);
    sim_watch_after(w, now, mask, &watch);
  }
}

void sim_warp_run(sim_warp_t *w) {
  const sim_ins_t *i = w->ip;
  if (w->its) {
    sim_its_run(w);
    return;
  }
  if (sim_is_watched(w)) {
    run_watched(w);
    return;
  }
  const uint8_t *rows = w->r;
  while (i) {
    uint32_t mask =
        w->active &
        (*(const sim_u32 *)(const void *)(rows + i->guard) ^ i->flip);
    if (__builtin_expect(i->is_guarded, 0)) sim_count_lanes(w, i, mask);
    if (__builtin_expect(w->is_tainted, 0) && !sim_undef_step(w, i, mask))
      break;
    i = i->fn(w, i, mask);
  }
}
