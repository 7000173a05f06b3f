/* One 16x8 tile of a matrix product, the unit of mma and of wgmma. Operands
   are unpacked once; the product itself is a loop of broadcasts. */
#ifndef SIM_X_MMA_H
#define SIM_X_MMA_H

#include "runtime/simgpu/tensor.h"
#include "runtime/simgpu/x_half.h"
#include "runtime/simgpu/x_matrix.h"

typedef uint16_t __attribute__((may_alias)) sim_u16;

#define SIM_MAX_K 64 /* of elements; one-bit operands count words */

/* Columns lie as 0 2 4 6 1 3 5 7: the first four are those of the even
   accumulator register of a row, q = 0..3, the others of the odd one. */
#define SIM_COLUMN(n) ((n) / 2 + 4 * ((n) & 1))

/* The 8 x 4E matrix of one register as floats, exactly; E = 32 / bits. */
static inline void sim_widen_register(ptx_type_t type, const void *reg,
                                      float *out) {
  const sim_u16 *h = reg;
  const uint8_t *b = reg;
  const sim_u32 *u = reg;
  switch (type) {
  case PTX_BF16:
    for (uint32_t j = 0; j < 64; j++) out[j] = sim_bf16_f32(h[j]);
    return;
  case PTX_F16:
    for (uint32_t j = 0; j < 64; j++) out[j] = sim_f16_f32(h[j]);
    return;
  case PTX_TF32: /* the low 13 bits are no part of the number */
    for (uint32_t j = 0; j < 32; j++)
      out[j] = sim_as_f32(u[j] & 0xFFFFE000u);
    return;
  case PTX_E5M2: /* the upper half of an f16 */
    for (uint32_t j = 0; j < 128; j++)
      out[j] = sim_f16_f32((uint32_t)b[j] << 8);
    return;
  default: /* e4m3: bias 7, no infinity */
    for (uint32_t j = 0; j < 128; j++) {
      uint32_t sign = (b[j] & 0x80u) << 24, em = b[j] & 0x7Fu;
      uint32_t normal = (em << 20) + 0x3C000000u;
      uint32_t tiny = sim_bits_f32((float)(int32_t)em * 0x1p-9f);
      uint32_t r = em == 0x7F ? 0x7FC00000u : em < 8 ? tiny : normal;
      out[j] = sim_as_f32(r | sign);
    }
    return;
  }
}

/* acc[16][8] (columns in the order above) += a[16][k] b[k][8], in the order
   of k. Products are exact in double, so a fused step gives the same bits. */
#define sim_tile_f64 SIM_X(tile_f64)
void sim_tile_f64(double *acc, const double *a, const double *b, uint32_t k);

/* Accumulators of a tile from and to its registers: 4 of f32, or 2 of
   f16x2. Stores the lanes of m. */
#define sim_tile_load SIM_X(tile_load)
void sim_tile_load(sim_warp_t *w, const uint32_t *rows, ptx_type_t type,
                   double acc[128]);
#define sim_tile_store SIM_X(tile_store)
void sim_tile_store(sim_warp_t *w, const uint32_t *rows, ptx_type_t type,
                    const double acc[128], uint32_t m);

/* A whole tile of f32 accumulators in exact arithmetic, from registers to
   registers; c NULL: from zero. False if the host has no such code or the
   registers overlap in a way that it cannot serve: nothing has happened. */
#define sim_tile_direct SIM_X(tile_direct)
bool sim_tile_direct(sim_warp_t *w, const uint32_t *c, const uint32_t *d,
                     const double *a, const double *b, uint32_t k);

/* acc = a b + acc by the arithmetic the launch asks for; the result is
   rounded by sim_tile_store, or is of the type already. sim_tile_other does
   what is not `exact`. */
#define sim_tile_other SIM_X(tile_other)
void sim_tile_other(sim_warp_t *w, const sim_tensor_types_t *types,
                    double acc[128], const double *a, const double *b,
                    uint32_t k);
#define sim_tile_product SIM_X(tile_product)
void sim_tile_product(sim_warp_t *w, const sim_tensor_types_t *types,
                      double acc[128], const double *a, const double *b,
                      uint32_t k);

#endif
