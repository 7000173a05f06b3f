/* The loop over a warp's instructions, and its reconvergence stack.

   A divergent branch leaves a frame with all lanes at the reconvergence
   point, then one with the lanes that did not jump, and goes on with those
   that did. Whoever reaches the point leaves, and the next frame goes on. No
   frame is added for a point that is already the current one, so a loop that
   lanes leave one by one needs no more stack than a loop they leave
   together. */
#include "runtime/simgpu/cluster.h"
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

/* What the block's own count cannot know: lanes whose guard holds. */
static void count_guarded(sim_warp_t *w, const sim_ins_t *i, uint32_t mask) {
  uint64_t *c = w->worker->counters;
  uint32_t lanes = (uint32_t)__builtin_popcount(mask);
  c[SIM_COUNTER_LANE_INST] += lanes;
  if (!i->flops) return;
  unsigned which = i->cls == SIM_CLASS_F16   ? SIM_COUNTER_FLOP_F16
                   : i->cls == SIM_CLASS_F64 ? SIM_COUNTER_FLOP_F64
                                             : SIM_COUNTER_FLOP_F32;
  c[which] += (uint64_t)lanes * i->flops;
}

/* The same loop with notes of values and counts by instruction. */
static void run_watched(sim_warp_t *w) {
  const sim_ins_t *i = w->ip;
  bool notes = w->cta->launch->options->checks & SIM_CHECK_NOTE;
  const uint64_t *c = w->worker->counters;
  while (i) {
    uint32_t mask = w->active & (sim_pred(w, i->guard) ^ i->flip);
    uint32_t finite = 0;
    uint64_t sectors = c[SIM_COUNTER_GLOBAL_SECTORS];
    uint64_t wavefronts = c[SIM_COUNTER_SHARED_WAVEFRONTS];
    if (i->is_guarded) count_guarded(w, i, mask);
    if (w->is_tainted && !sim_undef_step(w, i, mask)) break;
    if (notes) {
      sim_note_before(w, i, mask);
      finite = sim_note_finite(w, i);
    }
    const sim_ins_t *now = i;
    i = i->fn(w, i, mask);
    if (finite) sim_note_after(w, now, mask, finite);
    if (!w->worker->lines || now->is_block) continue;
    sim_line_t *line = &w->worker->lines[now - w->code];
    line->warp_inst++;
    line->lane_inst += (uint32_t)__builtin_popcount(mask);
    line->sectors += c[SIM_COUNTER_GLOBAL_SECTORS] - sectors;
    line->wavefronts += c[SIM_COUNTER_SHARED_WAVEFRONTS] - wavefronts;
  }
}

void sim_warp_run(sim_warp_t *w) {
  const sim_ins_t *i = w->ip;
  if (w->cta->launch->options->checks & SIM_CHECK_NOTE ||
      w->worker->lines) {
    run_watched(w);
    return;
  }
  const uint8_t *rows = w->r;
  while (i) {
    uint32_t mask =
        w->active &
        (*(const sim_u32 *)(const void *)(rows + i->guard) ^ i->flip);
    if (__builtin_expect(i->is_guarded, 0)) count_guarded(w, i, mask);
    if (__builtin_expect(w->is_tainted, 0) && !sim_undef_step(w, i, mask))
      break;
    i = i->fn(w, i, mask);
  }
}
