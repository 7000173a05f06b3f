/* safetensors files (https://github.com/huggingface/safetensors): a length, a
   JSON header, data. Read by mapping; nothing in the header is believed
   before all of it has been checked against the file's length, and memory is
   taken in proportion to the header's own bytes, never to a number in it.
   Each defect has an id of its own, F10 to F25. */
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include "runtime/base/os.h"
#include "runtime/io/tensor.h"

typedef struct io_st_tensor_t {
  const char *name;
  const char *dtype_name; /* as in the file: "BF16" */
  tdsl_dtype_t dtype;     /* UNSET for types that tdsl does not compute with */
  unsigned bits;          /* of one element */
  int rank;
  const int64_t *dims;
  /* Into the map; any alignment. NULL if the tensor has no bytes. */
  const unsigned char *data;
  size_t bytes;
} io_st_tensor_t;

typedef struct io_st_text_t {
  const char *key, *value;
} io_st_text_t;

typedef struct io_safetensors_t {
  const char *path;
  uint32_t file; /* of the task that opened it, for messages */
  td_file_map_t map; /* empty when parsed from memory */
  TD_VEC(io_st_tensor_t) tensors; /* in the order of the header */
  TD_VEC(io_st_text_t) metadata;
  td_map_t by_name; /* to io_st_tensor_t * */
} io_safetensors_t;

/* The struct and the arena must live until the close; data pointers are
   valid until then. On false nothing is left open. */
bool io_safetensors_open(td_task_t *task, td_arena_t *arena,
                         const char *path, io_safetensors_t *out);
/* From memory, which must outlive the result. */
bool io_safetensors_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                          const void *data, size_t length,
                          io_safetensors_t *out);
void io_safetensors_close(io_safetensors_t *st);

/* NULL if there is none. */
const io_st_tensor_t *io_safetensors_find(const io_safetensors_t *st,
                                          td_str_t name);

/* Writes tensors of our types by descending alignment, then name; the header
   is padded so that the data begins at a multiple of 8. Atomic. */
bool io_safetensors_write(td_task_t *task, const char *path,
                          const io_leaf_t *tensors, size_t count);

/* The format's name of one of our types ("F8_E4M3"). */
const char *io_st_dtype_name(tdsl_dtype_t dtype);

#endif
