/* dlpack_layout.h: DLPack's public layout, as any other library declares it:
 * typed here apart from include/tdsl, which the tests judge. */
#ifndef TDSL_TESTS_DLPACK_LAYOUT_H
#define TDSL_TESTS_DLPACK_LAYOUT_H

#include <stdint.h>

typedef struct tensor {
  void *data;
  int32_t device_type, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} tensor_t;

typedef struct managed {
  tensor_t tensor;
  void *manager;
  void (*deleter)(struct managed *);
} managed_t;

typedef struct versioned {
  uint32_t major, minor;
  void *manager;
  void (*deleter)(struct versioned *);
  uint64_t flags;
  tensor_t tensor;
} versioned_t;

#endif
