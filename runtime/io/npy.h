/* NumPy's .npy arrays (https://numpy.org/neps/nep-0001-npy-format.html) and
   .npz archives of them. Pickled objects are refused, the header's literal is
   read by a closed grammar, and memory is taken only for data that the file
   is long enough to hold. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include "runtime/io/tensor.h"

/* Types f8 f4 f2 i8 i4 i1 u1 b1, and u2 for bf16 bit patterns. Arrays in
   Fortran order come back in row-major order. */
bool io_npy_read(td_task_t *task, td_arena_t *arena, const char *path,
                 io_tensor_t *out);
bool io_npy_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                  const void *data, size_t length, io_tensor_t *out);

/* Version 1.0, little endian; bf16 as u2, 8-bit floats as f4. Atomic. */
bool io_npy_write(td_task_t *task, const char *path,
                  const io_tensor_t *tensor);
/* The same bytes into a builder. */
void io_npy_put(td_buf_t *buf, const io_tensor_t *tensor);

/* All members of an archive, named without ".npy", appended to out. limit
   bounds the sum of their sizes; 0: 4 GiB. */
bool io_npz_read(td_task_t *task, td_arena_t *arena, const char *path,
                 uint64_t limit, io_leaves_t *out);
bool io_npz_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                  const void *data, size_t length, uint64_t limit,
                  io_leaves_t *out);

#endif
