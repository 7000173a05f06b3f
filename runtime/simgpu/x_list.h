/* Operands that lie in an instruction's list: rows of any width, addresses as
   a base and a constant. */
#ifndef SIM_X_LIST_H
#define SIM_X_LIST_H

#include "runtime/simgpu/x.h"

static inline uint64_t sim_item(sim_warp_t *w, const sim_ins_t *i, uint32_t n,
                                uint32_t l) {
  uint32_t entry = sim_list(w, i, n);
  return (entry & 3u) == SIM_ROW_64 ? sim_row64(w, entry & ~3u)[l]
                                    : sim_row(w, entry & ~3u)[l];
}

static inline uint64_t sim_item_address(sim_warp_t *w, const sim_ins_t *i,
                                        uint32_t n, uint32_t l) {
  uint64_t base = sim_item(w, i, n, l), plus = sim_item(w, i, n + 1, l);
  return (sim_list(w, i, n) & 3u) == SIM_ROW_64 ? base + plus
                                                : (uint32_t)(base + plus);
}

#endif
