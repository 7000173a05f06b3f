/* cuda_cubin.h: what machine code says of its kernels.
 *
 * A cubin is an ELF file of 64 bits for machine 190. Its section .nv.info is
 * a list of records: a form (u8), a name (u8), and a number (u16); form 4 has
 * that many bytes behind it. Name 0x2f has the index of a symbol and the
 * registers that each of its threads takes, both u32. */
#ifndef TDSL_RUNTIME_CUDA_CUBIN_H
#define TDSL_RUNTIME_CUDA_CUBIN_H

#include "runtime/base/str.h"

typedef void (*rcuda_cubin_fn)(void *user, const char *kernel,
                               uint32_t registers);
/* Calls `see` for each kernel of the image; for none of one that is no cubin,
 * damaged or cut off. Names lie in the image. */
void rcuda_cubin_registers(const void *image, size_t bytes,
                           rcuda_cubin_fn see, void *user);

#endif
