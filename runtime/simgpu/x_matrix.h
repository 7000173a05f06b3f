/* What the matrix instructions share. In all of them, register r of an 8x8
   matrix of 16-bit elements, its 32 lanes read as 64 halves, is that matrix
   in row order: lane 4g + q holds row g, columns 2q and 2q + 1. A register of
   E elements a lane is an 8 x 4E matrix in the same way. */
#ifndef SIM_X_MATRIX_H
#define SIM_X_MATRIX_H

#include "runtime/simgpu/x.h"

/* Matrix instructions need all 32 lanes together. True if execution may go
   on. */
static inline bool sim_converged(sim_warp_t *w, const sim_ins_t *i,
                                 uint32_t m) {
  if (m == SIM_FULL) return true;
  uint32_t away = ~m;
  return sim_find(w, i, SIM_CHECK_WARP_MATRIX,
                  (unsigned)__builtin_ctz(away), PTX_SPACE_REG, 0, 0,
                  "lane %s", w->live >> __builtin_ctz(away) & 1
                                 ? "does not take part in its warp's "
                                   "matrix instruction"
                                 : "has exited or never was: a matrix "
                                   "instruction needs all 32");
}

/* The shadow of undefined bytes is looked at only where it can matter. */
static inline bool sim_judges_init(const sim_warp_t *w) {
  return (w->cta->launch->options->checks & SIM_CHECK_INIT) != 0;
}

#endif
