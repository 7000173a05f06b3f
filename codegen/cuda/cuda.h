/* cuda.h: KIR kernels to CUDA C.
 *
 * Entry of a kernel:
 *   extern "C" __global__ void SYMBOL(buffers..., scalars..., scratch,
 *                                     scratch_stride, block_count)
 * with a pointer a parameter buffer, a `long long` a scalar (kernel dims),
 * an `unsigned char *` to `workers of the grid` times scratch_stride bytes,
 * and two `long long`.  It is launched with cgc_kernel_t.threads threads a
 * block and any number of blocks; each block has `workers` workers, which
 * take block iterations in turn.  A worker is a warp, half of one if no loop
 * has more than 16 lanes, or one thread where a kernel has nothing to do side
 * by side.  Threads of a worker are along x, workers along y.
 *
 * The text needs no header and no flag but --fmad=false, -std=c++17 and the
 * architecture. */
#ifndef TDSL_CODEGEN_CUDA_H
#define TDSL_CODEGEN_CUDA_H

#include "ir/kir.h"
#include "ir/target.h"

typedef struct cgc_options {
  const ir_target_t *target; /* a GPU */
  bool has_lines;  /* #line directives to the program's text */
} cgc_options_t;

typedef struct cgc_kernel {
  const char *symbol;
  uint32_t threads;            /* of a block */
  uint32_t workers;            /* of a block */
  uint32_t shared_bytes;       /* of a block */
  uint32_t dynamic_bytes;      /* of these, what a launch has to ask for */
  uint32_t registers;          /* of a thread, about: an estimate */
  const ix_poly_t *scratch_bytes; /* of a worker, in global memory */
} cgc_kernel_t;

/* Appends a module with COUNT kernels to out and describes each in
 * kernels[]. `symbols` as cgc_symbol makes them. */
void cgc_emit(td_task_t *task, td_arena_t *arena,
              const kir_kernel_t *const *kernels, uint32_t count,
              const cgc_options_t *options, td_buf_t *out,
              cgc_kernel_t *described);

/* C symbol of a kernel: "tk_", its name with anything but letters, digits
 * and `_` replaced, and eight digits of the hash of its KIR text, so that two
 * names cannot meet. */
const char *cgc_symbol(td_task_t *task, td_arena_t *arena,
                       const kir_kernel_t *kernel);

#endif
