/* Addresses of other CTAs of the cluster, and the cluster's barrier. */
#include "runtime/simgpu/cluster.h"
#include "runtime/simgpu/x.h"

static uint64_t read_any(sim_warp_t *w, unsigned kind, uint32_t offset,
                         uint32_t l) {
  return kind == SIM_ROW_64 ? sim_row64(w, offset)[l] : sim_row(w, offset)[l];
}

static void write_any(sim_warp_t *w, const sim_ins_t *i, uint32_t l,
                      uint64_t value) {
  if (sim_kind(i, 0) == SIM_ROW_64)
    sim_row64(w, i->d)[l] = value;
  else
    sim_row(w, i->d)[l] = (uint32_t)value;
}

/* A generic address outside shared memory has no counterpart elsewhere. */
static bool to_shared(sim_warp_t *w, const sim_ins_t *i, uint32_t l,
                      uint64_t *address) {
  if (i->mods & SIM_MOD_CLUSTER) return true;
  uint64_t generic = *address;
  *address -= SIM_SHARED_BASE;
  if (*address < SIM_SPACE_BYTES) return true;
  *address = 0;
  return sim_find(w, i, SIM_CHECK_MEM_SPACE, l, PTX_SPACE_REG, generic, 0,
                  "is no address of shared memory");
}

SIM_DEF(mapa) {
  const sim_u32 *rank = sim_row(w, i->b);
  uint32_t count = w->cta->cluster_count;
  bool is_generic = !(i->mods & SIM_MOD_CLUSTER);
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    uint64_t a = read_any(w, sim_kind(i, 1), i->a, l);
    if (!to_shared(w, i, l, &a)) return NULL;
    if (rank[l] >= count &&
        !sim_find(w, i, SIM_CHECK_MEM_BOUNDS, l, PTX_SPACE_SHARED, a, 0,
                  "CTA %u of a cluster of %u", rank[l], count))
      return NULL;
    write_any(w, i, l,
              sim_cluster_address(rank[l] & 0x7Fu, (uint32_t)a) +
                  (is_generic ? SIM_SHARED_BASE : 0));
  }
  return i + 1;
}

SIM_DEF(getctarank) {
  sim_u32 *d = sim_row(w, i->d);
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    uint64_t a = read_any(w, sim_kind(i, 1), i->a, l);
    if (!to_shared(w, i, l, &a)) return NULL;
    uint32_t rank = (uint32_t)(a >> SIM_RANK_SHIFT);
    d[l] = rank ? rank - 1 : w->cta->cluster_rank;
  }
  return i + 1;
}

SIM_DEF(cluster_arrive) {
  if (m == 0) return i + 1;
  bool relaxed = (i->mods & SIM_MOD_STRONG) && !(i->mods & SIM_MOD_RELEASE);
  w->worker->counters[SIM_COUNTER_BARRIERS]++;
  return sim_cluster_arrive(w, i, m, !relaxed) ? i + 1 : NULL;
}

SIM_DEF(cluster_wait) {
  if (m == 0) return i + 1;
  return sim_cluster_wait(w, i, m);
}
