/* f16 and bf16 values in registers, as f32 and back, rounded to nearest. */
#ifndef SIM_X_HALF_H
#define SIM_X_HALF_H

#include "runtime/simgpu/x.h"

static inline float sim_f16_f32(uint32_t h) {
  uint32_t sign = (h & 0x8000u) << 16, em = h & 0x7FFFu;
  uint32_t normal = (em << 13) + 0x38000000u;
  uint32_t special = em << 13 | 0x7F800000u;
  /* a subnormal is its fraction times 2^-24, exactly */
  uint32_t tiny = sim_bits_f32((float)(int32_t)em * 5.9604644775390625e-8f);
  uint32_t r = em >= 0x7C00u ? special : em < 0x400u ? tiny : normal;
  return sim_as_f32(r | sign);
}

static inline uint32_t sim_f32_f16(float f) {
  uint32_t x = sim_bits_f32(f), sign = x >> 16 & 0x8000u;
  uint32_t a = x & 0x7FFFFFFFu;
  uint32_t normal = ((a + 0xFFFu + (a >> 13 & 1)) >> 13) - (112u << 10);
  /* adding 1/2 moves the last bit of a subnormal half to that of a float */
  uint32_t tiny = sim_bits_f32(sim_as_f32(a) + 0.5f) - 0x3F000000u;
  uint32_t r = a < 0x38800000u ? tiny : normal;
  r = a >= 0x477FF000u ? 0x7C00u : r;
  return a > 0x7F800000u ? 0x7FFFu : r | sign;
}

static inline float sim_bf16_f32(uint32_t h) {
  return sim_as_f32(h << 16);
}

static inline uint32_t sim_f32_bf16(float f) {
  uint32_t x = sim_bits_f32(f);
  uint32_t r = (x + 0x7FFFu + (x >> 16 & 1)) >> 16;
  return (x & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFFu : r;
}

static inline bool sim_is_bf16(uint8_t type) {
  return type == PTX_BF16 || type == PTX_BF16X2;
}
static inline bool sim_is_pair(uint8_t type) {
  return type == PTX_F16X2 || type == PTX_BF16X2;
}

#endif
