/* api_weights.h: checkpoints as the front end and a program hold them. */
#ifndef DRIVER_API_WEIGHTS_H
#define DRIVER_API_WEIGHTS_H

#include "driver/api.h"
#include "frontend/bind.h"

/* A checkpoint's header for bind.h; refers to itself, so it stays in place. */
typedef struct drv_source {
  bind_tensor_t *tensors;
  td_map_t by_name;
  bind_source_t source;
} drv_source_t;

void drv_source_init(drv_source_t *source, td_arena_t *arena,
                     const io_checkpoint_t *checkpoint);

/* Weights that entries of one program share. */
typedef struct drv_stored {
  const char *path, *pattern; /* of the leaf */
  tdsl_buffer_t *buffer;
} drv_stored_t;

/* One checkpoint, open as long as the program. */
struct drv_store {
  struct drv_store *next;
  const char *path;
  bool convert, is_open;
  io_checkpoint_t checkpoint;
  TD_VEC(drv_stored_t) buffers;
};

#endif
