/* f16 and bf16 arithmetic, single and in pairs. A sum, difference or product
   of halves rounded to f32 first is rounded right a second time, since 24
   bits are more than twice 11 and two; a fused product-sum is not, and goes
   through rounding to odd. */
#include "runtime/simgpu/x_half.h"

#include "runtime/simgpu/sfu.h"

#include <math.h>

static inline float widen(uint32_t h, bool bf16) {
  return bf16 ? sim_bf16_f32(h) : sim_f16_f32(h);
}

static inline uint32_t flush(uint32_t h, bool bf16) {
  return (h & (bf16 ? 0x7F80u : 0x7C00u)) ? h : h & 0x8000u;
}

/* The last steps: .ftz, .sat, .relu. */
static inline uint32_t finish(uint32_t h, bool bf16, uint32_t mods) {
  if (mods & SIM_MOD_FTZ) h = flush(h, bf16);
  if (mods & (SIM_MOD_SAT | SIM_MOD_RELU)) {
    float f = widen(h, bf16);
    if (mods & SIM_MOD_SAT)
      return f > 0 ? (f < 1 ? h : bf16 ? 0x3F80u : 0x3C00u) : 0;
    if (f != f) return 0x7FFF;
    return h & 0x8000u ? 0 : h;
  }
  return h;
}

static inline uint32_t narrow(float f, bool bf16) {
  return bf16 ? sim_f32_bf16(f) : sim_f32_f16(f);
}

static inline uint32_t add(uint32_t a, uint32_t b, uint32_t c, bool bf16,
                           uint32_t mods) {
  (void)c;
  return finish(narrow(widen(a, bf16) + widen(b, bf16), bf16), bf16, mods);
}

static inline uint32_t sub(uint32_t a, uint32_t b, uint32_t c, bool bf16,
                           uint32_t mods) {
  (void)c;
  return finish(narrow(widen(a, bf16) - widen(b, bf16), bf16), bf16, mods);
}

static inline uint32_t mul(uint32_t a, uint32_t b, uint32_t c, bool bf16,
                           uint32_t mods) {
  (void)c;
  float p = widen(a, bf16) * widen(b, bf16);
  /* a tiny bf16 product would be rounded twice: take it exactly */
  if (bf16 && fabsf(p) < 1e-36f)
    return finish(sim_narrow(&sim_format_bf16,
                             (double)widen(a, bf16) * (double)widen(b, bf16),
                             SIM_RN, false),
                  bf16, mods);
  return finish(narrow(p, bf16), bf16, mods);
}

static inline uint32_t fma_half(uint32_t a, uint32_t b, uint32_t c, bool bf16,
                                uint32_t mods) {
  double s = sim_fma_odd((double)widen(a, bf16), (double)widen(b, bf16),
                         (double)widen(c, bf16));
  return finish(sim_narrow(bf16 ? &sim_format_bf16 : &sim_format_f16, s,
                           SIM_RN, false),
                bf16, mods);
}

static inline uint32_t pick(uint32_t a, uint32_t b, bool bf16, uint32_t mods,
                            bool max) {
  float x = widen(a, bf16), y = widen(b, bf16);
  uint32_t sign = 0;
  if (mods & SIM_MOD_XORSIGN) {
    sign = (a ^ b) & 0x8000u;
    a &= 0x7FFFu, b &= 0x7FFFu;
    x = fabsf(x), y = fabsf(y);
  }
  if ((x != x && y != y) ||
      ((mods & SIM_MOD_NAN) && (x != x || y != y)))
    return 0x7FFF;
  if (x != x) return b;
  if (y != y) return a;
  uint32_t r = x == y ? (max ? a & b : a | b)
                      : (max ? x > y : x < y) ? a : b;
  return finish(r | sign, bf16, mods & SIM_MOD_FTZ);
}

static inline uint32_t min_half(uint32_t a, uint32_t b, uint32_t c, bool bf16,
                                uint32_t mods) {
  (void)c;
  return pick(a, b, bf16, mods, false);
}
static inline uint32_t max_half(uint32_t a, uint32_t b, uint32_t c, bool bf16,
                                uint32_t mods) {
  (void)c;
  return pick(a, b, bf16, mods, true);
}
static inline uint32_t abs_half(uint32_t a, uint32_t b, uint32_t c, bool bf16,
                                uint32_t mods) {
  (void)b, (void)c;
  return finish(a & 0x7FFFu, bf16, mods & SIM_MOD_FTZ);
}
static inline uint32_t neg_half(uint32_t a, uint32_t b, uint32_t c, bool bf16,
                                uint32_t mods) {
  (void)b, (void)c;
  return finish(a ^ 0x8000u, bf16, mods & SIM_MOD_FTZ);
}
static inline uint32_t ex2_half(uint32_t a, uint32_t b, uint32_t c, bool bf16,
                                uint32_t mods) {
  (void)b, (void)c;
  if (mods & SIM_MOD_FTZ) a = flush(a, bf16);
  double x = (double)widen(a, bf16);
  if (x != x) return 0x7FFF;
  x = x > 300 ? 300 : x < -300 ? -300 : x;
  return finish(sim_narrow(bf16 ? &sim_format_bf16 : &sim_format_f16,
                           sim_exp2(x), SIM_RN, false),
                bf16, mods);
}
static inline uint32_t tanh_half(uint32_t a, uint32_t b, uint32_t c,
                                 bool bf16, uint32_t mods) {
  (void)b, (void)c, (void)mods;
  return narrow(sim_tanh(widen(a, bf16)), bf16);
}

#define HALF(name, fn)                                                        \
  SIM_DEF(name) {                                                             \
    sim_u32 *d = sim_row(w, i->d);                                            \
    const sim_u32 *a = sim_row(w, i->a), *b = sim_row(w, i->b),               \
                  *c = sim_row(w, i->c);                                      \
    bool bf16 = sim_is_bf16(i->type), is_pair = sim_is_pair(i->type);         \
    for (uint32_t l = 0; l < 32; l++) {                                       \
      if (!SIM_BIT(m)) continue;                                              \
      uint32_t low = fn(a[l] & 0xFFFFu, b[l] & 0xFFFFu, c[l] & 0xFFFFu, bf16, \
                        i->mods);                                             \
      uint32_t high = is_pair ? fn(a[l] >> 16, b[l] >> 16, c[l] >> 16, bf16,  \
                                   i->mods)                                   \
                              : 0;                                            \
      d[l] = low | high << 16;                                                \
    }                                                                         \
    return i + 1;                                                             \
  }

HALF(add_h, add)
HALF(sub_h, sub)
HALF(mul_h, mul)
HALF(fma_h, fma_half)
HALF(min_h, min_half)
HALF(max_h, max_half)
HALF(abs_h, abs_half)
HALF(neg_h, neg_half)
HALF(ex2_h, ex2_half)
HALF(tanh_h, tanh_half)
