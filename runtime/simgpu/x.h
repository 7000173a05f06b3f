/* What the handler files share. They are compiled once for each host
   instruction set, with SIM_VARIANT naming it, and must give the same bits in
   all: no contraction, no host mathematics library. */
#ifndef SIM_X_H
#define SIM_X_H

#include "runtime/simgpu/warp.h"

#include <string.h>

#define SIM_GLUE2(a, b) a##b
#define SIM_GLUE(a, b)  SIM_GLUE2(a, b)
#define SIM_X(name)     SIM_GLUE(sim_x_##name, SIM_VARIANT)

#define SIM_HANDLER(name, propagation)                                        \
  const sim_ins_t *SIM_X(name)(sim_warp_t * w, const sim_ins_t *i,            \
                               uint32_t m);
#include "runtime/simgpu/handlers.def"
#undef SIM_HANDLER

#define SIM_DEF(name)                                                         \
  const sim_ins_t *SIM_X(name)(sim_warp_t * w, const sim_ins_t *i, uint32_t m)

/* Rows never overlap in part, so lanes are independent of each other. */
#if defined(__clang__)
#define SIM_LANES                                                             \
  _Pragma("clang loop vectorize(assume_safety)") for (uint32_t l = 0; l < 32; \
                                                      l++)
#else
#define SIM_LANES _Pragma("GCC ivdep") for (uint32_t l = 0; l < 32; l++)
#endif

/* Runs `value`, an expression of lane l, for the lanes of m into d. */
#define SIM_STORE(type, d, value)                                             \
  do {                                                                        \
    if (m == SIM_FULL) {                                                      \
      SIM_LANES d[l] = (type)(value);                                         \
    } else {                                                                  \
      SIM_LANES {                                                             \
        type keep_ = d[l], new_ = (type)(value);                              \
        d[l] = (m >> l & 1) ? new_ : keep_;                                   \
      }                                                                       \
    }                                                                         \
  } while (0)

/* One bit a lane from a byte a lane (0 or 0xFF). */
static inline uint32_t sim_mask_of(const uint8_t t[32]) {
  uint32_t out = 0;
  for (int k = 0; k < 4; k++) {
    uint64_t x;
    memcpy(&x, t + 8 * k, 8);
    x &= UINT64_C(0x8080808080808080);
    out |= (uint32_t)((x * UINT64_C(0x0002040810204081)) >> 56) << (8 * k);
  }
  return out;
}

/* mask bit l as 0 or 1. */
#define SIM_BIT(mask) ((mask) >> l & 1u)

static inline float sim_as_f32(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
static inline uint32_t sim_bits_f32(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}
static inline double sim_as_f64(uint64_t bits) {
  double f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
static inline uint64_t sim_bits_f64(double f) {
  uint64_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

#define SIM_NAN_F32 UINT32_C(0x7FFFFFFF)
#define SIM_NAN_F64 UINT64_C(0x7FFFFFFFFFFFFFFF)

#endif
