#include "runtime/simgpu/flags.h"

#include "runtime/simgpu/race.h"

bool sim_flag_access(sim_warp_t *w, const sim_ins_t *ins, uint64_t place,
                     char kind) {
  sim_cta_t *cta = w->cta;
  uint32_t words = cta->clock_words;
  uint32_t *clock = sim_place_at(&cta->cluster[0]->places, place);
  if (!clock) return false;
  if (kind != 'w')
    sim_learn(ins->mods & SIM_MOD_ACQUIRE ? w->clocks : w->pending, clock,
              words);
  if (kind == 'r') return false;
  bool releases = ins->mods & SIM_MOD_RELEASE;
  /* a plain store ends what the place carried, a read-modify-write goes on
     with it */
  if (kind == 'w') memset(clock, 0, words * sizeof *clock);
  sim_learn(clock, releases ? w->clocks : w->fenced, words);
  return releases;
}

void sim_flag_fence(sim_warp_t *w) {
  uint32_t words = w->cta->clock_words;
  if (!w->fenced) return;
  sim_learn(w->clocks, w->pending, words);
  memcpy(w->fenced, w->clocks, words * sizeof *w->clocks);
  /* what the warp does from now on is a later time */
  w->clocks[w->agent]++;
}
