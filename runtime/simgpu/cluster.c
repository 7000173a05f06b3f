#include "runtime/simgpu/cluster.h"

sim_cta_t *sim_cluster_resolve(const sim_cta_t *self, uint64_t address,
                               uint32_t *offset) {
  uint64_t rank = address >> SIM_RANK_SHIFT;
  *offset = (uint32_t)address & SIM_OFFSET_MASK;
  if (rank == 0) return (sim_cta_t *)(uintptr_t)self;
  return rank <= self->cluster_count ? self->cluster[rank - 1] : NULL;
}

/* -- the barrier: each lane is outside, has arrived, or may pass -- */

static bool is_complete(const sim_cta_t *first) {
  for (uint32_t c = 0; c < first->cluster_count; c++) {
    const sim_cta_t *cta = first->cluster[c];
    for (uint32_t n = 0; n < cta->warp_count; n++) {
      const sim_warp_t *w = &cta->warps[n];
      if (w->live & ~w->cluster_arrived) return false;
    }
  }
  return true;
}

static void try_complete(sim_cta_t *first) {
  size_t bytes = first->clock_words * sizeof *first->cluster_clocks;
  uint32_t *joining = first->cluster_clocks;
  if (!is_complete(first)) return;
  for (uint32_t c = 0; c < first->cluster_count; c++) {
    sim_cta_t *cta = first->cluster[c];
    for (uint32_t n = 0; n < cta->warp_count; n++) {
      sim_warp_t *w = &cta->warps[n];
      w->cluster_passed |= w->cluster_arrived;
      w->cluster_arrived = 0;
      if (w->state == SIM_WARP_CLUSTER) w->state = SIM_WARP_READY;
    }
  }
  /* who waits for this phase has done so before the next can complete */
  memcpy(joining + first->clock_words, joining, bytes);
  memset(joining, 0, bytes);
}

static bool is_converged(sim_warp_t *w, const sim_ins_t *ins, uint32_t m) {
  uint32_t away = w->live & ~m;
  if (!away || !(ins->mods & SIM_MOD_ALIGNED)) return true;
  return sim_find(w, ins, SIM_CHECK_BAR_DIVERGED,
                  (unsigned)__builtin_ctz(away), PTX_SPACE_REG, 0, 0,
                  "lane does not take part in the cluster's barrier");
}

bool sim_cluster_arrive(sim_warp_t *w, const sim_ins_t *ins, uint32_t m,
                        bool is_release) {
  sim_cta_t *first = w->cta->cluster[0];
  uint32_t again = m & (w->cluster_arrived | w->cluster_passed);
  if (!is_converged(w, ins, m)) return false;
  if (again &&
      !sim_find(w, ins, SIM_CHECK_CLUSTER_PHASE,
                (unsigned)__builtin_ctz(again), PTX_SPACE_REG, 0, 0,
                "lane arrives again without having waited"))
    return false;
  w->cluster_arrived |= m & ~again;
  if (is_release) {
    for (uint32_t n = 0; n < first->clock_words; n++)
      if (w->clocks[n] > first->cluster_clocks[n])
        first->cluster_clocks[n] = w->clocks[n];
    w->clocks[w->agent]++;
  }
  try_complete(first);
  return true;
}

const sim_ins_t *sim_cluster_wait(sim_warp_t *w, const sim_ins_t *ins,
                                  uint32_t m) {
  sim_cta_t *first = w->cta->cluster[0];
  const uint32_t *heard = first->cluster_clocks + first->clock_words;
  uint32_t never = m & ~(w->cluster_arrived | w->cluster_passed);
  if (!is_converged(w, ins, m)) return NULL;
  if (never &&
      !sim_find(w, ins, SIM_CHECK_CLUSTER_PHASE,
                (unsigned)__builtin_ctz(never), PTX_SPACE_REG, 0, 0,
                "lane waits without having arrived"))
    return NULL;
  if (m & w->cluster_arrived) {
    w->state = SIM_WARP_CLUSTER;
    w->ip = ins;
    return NULL;
  }
  w->cluster_passed &= ~m;
  for (uint32_t n = 0; n < first->clock_words; n++)
    if (heard[n] > w->clocks[n]) w->clocks[n] = heard[n];
  w->sync_clock++;
  return ins + 1;
}

/* The last warp of a CTA has ended: every access from another CTA must be
   ordered before the end of one of its warps, whatever happened this time. */
static bool is_left_alone(sim_warp_t *w, const sim_ins_t *ins) {
  const sim_cta_t *cta = w->cta;
  uint32_t mine = cta->cluster_rank * cta->warp_count;
  for (uint32_t a = 0; a < cta->reader_count; a++) {
    if (!cta->remote[a] || a - mine < cta->warp_count) continue;
    bool heard = false;
    for (uint32_t n = 0; n < cta->warp_count && !heard; n++)
      heard = cta->warps[n].clocks[a] >= cta->remote[a];
    if (heard) continue;
    return sim_find(w, ins, SIM_CHECK_CLUSTER_EXIT, 32, PTX_SPACE_SHARED, 0,
                    0,
                    "the CTA ends and has not waited for warp %u of CTA %u "
                    "of its cluster, which uses its shared memory",
                    a % cta->warp_count, a / cta->warp_count);
  }
  return true;
}

bool sim_cluster_exit(sim_warp_t *w, const sim_ins_t *ins, uint32_t m) {
  sim_cta_t *cta = w->cta, *first = cta->cluster[0];
  uint32_t open = m & (w->cluster_arrived | w->cluster_passed);
  if (open &&
      !sim_find(w, ins, SIM_CHECK_CLUSTER_PHASE,
                (unsigned)__builtin_ctz(open), PTX_SPACE_REG, 0, 0,
                "lane has arrived at the cluster's barrier and exits "
                "without waiting"))
    return false;
  w->cluster_arrived &= ~m;
  w->cluster_passed &= ~m;
  try_complete(first);
  bool is_last = true;
  for (uint32_t n = 0; n < cta->warp_count && is_last; n++)
    is_last = cta->warps[n].live == 0;
  return !is_last || cta->cluster_count == 1 || is_left_alone(w, ins);
}
