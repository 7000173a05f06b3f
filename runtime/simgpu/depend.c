#include "runtime/simgpu/depend.h"

#include <stdlib.h>

bool sim_depend_wait(sim_warp_t *w) {
  sim_launch_t *launch = w->cta->launch;
  if (!launch->has_early) return true;
  __atomic_store_n(&launch->has_waited, true, __ATOMIC_RELAXED);
  if (!w->waited_at) {
    /* what it gives away from now on tells of the wait, nothing older does */
    w->waited_at = ++w->clocks[w->agent];
    w->is_late = true;
    w->cta->has_waited = true;
  }
  if (!launch->is_held) return true;
  w->state = SIM_WARP_GRID;
  return false;
}

void sim_depend_trigger(sim_warp_t *w) {
  sim_launch_t *launch = w->cta->launch;
  if (sim_is_early(w, launch))
    __atomic_store_n(&launch->has_early_trigger, true, __ATOMIC_RELAXED);
}

bool sim_depend_is_early(sim_warp_t *w) {
  sim_cta_t **ctas = w->cta->cluster;
  for (uint32_t c = 0; c < w->cta->cluster_count; c++) {
    if (!ctas[c]->has_waited) continue;
    for (uint32_t n = 0; n < ctas[c]->warp_count; n++) {
      const sim_warp_t *v = &ctas[c]->warps[n];
      if (!v->waited_at || w->clocks[v->agent] < v->waited_at) continue;
      w->is_late = true;
      return false;
    }
  }
  return true;
}

static bool has_notes(const sim_alloc_t *a) {
  bool any = a->sectors || a->l2 || a->unique[0] || a->unique[1];
  for (int k = 0; k < SIM_TOUCHES; k++) any = any || a->touched[k];
  return any;
}

static void move_notes(sim_aside_t *to, sim_alloc_t *a) {
  *to = (sim_aside_t){.alloc = a, .sectors = a->sectors, .l2 = a->l2};
  memcpy(to->touched, a->touched, sizeof to->touched);
  memcpy(to->unique, a->unique, sizeof to->unique);
  memset(a->touched, 0, sizeof a->touched);
  memset(a->unique, 0, sizeof a->unique);
  a->sectors = NULL;
  a->l2 = NULL;
}

sim_aside_t *sim_aside_take(sim_memory_t *m, size_t *count) {
  size_t n = 0;
  for (size_t i = 0; i < m->count; i++) n += has_notes(m->list[i]);
  sim_aside_t *list = n ? malloc(n * sizeof *list) : NULL;
  *count = 0;
  for (size_t i = 0; list && i < m->count; i++)
    if (has_notes(m->list[i])) move_notes(&list[(*count)++], m->list[i]);
  return list;
}

void sim_aside_give(sim_memory_t *m, sim_aside_t *list, size_t count) {
  sim_memory_forget_sectors(m);
  for (size_t i = 0; i < count; i++) {
    sim_alloc_t *a = list[i].alloc;
    a->sectors = list[i].sectors;
    a->l2 = list[i].l2;
    memcpy(a->touched, list[i].touched, sizeof a->touched);
    memcpy(a->unique, list[i].unique, sizeof a->unique);
  }
  free(list);
}
