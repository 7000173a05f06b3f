/* A dense row-major tensor in memory, and named lists of them: the form in
   which every file format hands over its contents. */
#ifndef IO_TENSOR_H
#define IO_TENSOR_H

#include "runtime/base/num.h"
#include "runtime/base/task.h"

#define IO_MAX_RANK 12

typedef struct io_tensor_t {
  tdsl_dtype_t dtype;
  int rank;
  int64_t dims[IO_MAX_RANK];
  size_t count; /* elements */
  size_t bytes;
  void *data; /* 16-aligned, in the arena it was read into; never NULL */
} io_tensor_t;

/* A tensor under a dotted name ("m.blk.wq"). */
typedef struct io_leaf_t {
  const char *name;
  io_tensor_t tensor;
  /* The type to write when it differs from the stored one: results that the
     f64 interpreter keeps unrounded. UNSET: the tensor's own. */
  tdsl_dtype_t declared;
} io_leaf_t;

typedef TD_VEC(io_leaf_t) io_leaves_t;

/* NULL if there is none of this name. */
const io_leaf_t *io_leaves_find(const io_leaves_t *leaves, td_str_t name);

/* Fills count and bytes from dtype, rank and dims (all >= 0). False if the
   size overflows or exceeds 2^62 bytes. */
bool io_tensor_size(io_tensor_t *tensor);

/* io_tensor_size and zeroed memory. False as above. */
bool io_tensor_alloc(io_tensor_t *tensor, td_arena_t *arena);

/* The same values in another type of the same kind (float to float, integer
   to integer). Every element must be exactly representable, else F62, which
   names the first that is not. */
bool io_tensor_convert(td_task_t *task, td_arena_t *arena, uint32_t file,
                       const io_tensor_t *from, tdsl_dtype_t dtype,
                       io_tensor_t *out);

/* "[2, 3]" */
void io_put_dims(td_buf_t *buf, const int64_t *dims, int rank);

#endif
