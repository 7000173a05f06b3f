/* A checkpoint: one .safetensors file, or the shards that a
   model.safetensors.index.json lists, seen as one set of named tensors. */
#ifndef IO_SHARDS_H
#define IO_SHARDS_H

#include "runtime/io/safetensors.h"

typedef struct io_checkpoint_tensor_t {
  const io_st_tensor_t *tensor;
  const io_safetensors_t *shard; /* shard->path for messages */
  bool used; /* set by whoever binds it; see io_checkpoint_unused */
} io_checkpoint_tensor_t;

typedef struct io_checkpoint_t {
  const char *path;
  TD_VEC(io_safetensors_t *) shards;
  TD_VEC(io_checkpoint_tensor_t *) tensors; /* in the order of the file(s) */
  td_map_t by_name; /* to io_checkpoint_tensor_t * */
} io_checkpoint_t;

/* path: a .safetensors file, an index (.json), or a folder that holds
   model.safetensors.index.json or model.safetensors. Data pointers are valid
   until the close. On false nothing is left open. */
bool io_checkpoint_open(td_task_t *task, td_arena_t *arena, const char *path,
                        io_checkpoint_t *out);
void io_checkpoint_close(io_checkpoint_t *checkpoint);

/* NULL if there is none. */
io_checkpoint_tensor_t *io_checkpoint_find(const io_checkpoint_t *checkpoint,
                                           td_str_t name);
/* The most similar name, for "did you mean"; data NULL if none is near. */
td_str_t io_checkpoint_nearest(const io_checkpoint_t *checkpoint,
                               td_str_t name);
size_t io_checkpoint_unused(const io_checkpoint_t *checkpoint);

#endif
