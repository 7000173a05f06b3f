/* How the simulated tensor cores add: exactly, or in the blocks that were
   measured on hardware. */
#ifndef SIM_TENSOR_H
#define SIM_TENSOR_H

#include "runtime/simgpu/warp.h"

/* Element types of D (and C), A and B. */
typedef struct sim_tensor_types_t {
  ptx_type_t d, a, b;
} sim_tensor_types_t;

/* One block adds c and `block` products: every term is cut, towards zero, to
   `fraction` bits below the largest one's leading bit (but at least
   2^least), the sum is exact, and the result is rounded. Blocks follow each
   other through c. */
typedef struct sim_tensor_model_t {
  uint32_t block;
  uint32_t fraction;
  int32_t least;      /* exponent */
  uint32_t keep;      /* fraction bits of the result; 0: all of its type */
  bool is_nearest;    /* else towards zero */
  bool is_open_with_c; /* only measured for c = 0 */
  bool is_open;       /* not known: computed exactly and counted */
} sim_tensor_model_t;

sim_tensor_model_t sim_tensor_model(const sim_device_row_t *row,
                                    const sim_tensor_types_t *types);

/* Significand bits behind the point and least exponent of an element. */
void sim_tensor_format(ptx_type_t type, uint32_t *fraction, int32_t *emin);

/* Counts operations, 2 M N K of them, as a whole and by the type of A. */
void sim_tensor_count(sim_worker_t *worker, ptx_type_t a, uint64_t flop);

/* Bits of one element of a matrix operand; 0 if it cannot be one. */
uint32_t sim_element_bits(ptx_type_t type);

#endif
