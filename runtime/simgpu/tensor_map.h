/* The 128 bytes of a tensor map in this driver's own encoding. Only the driver
   that made one can read it, on real devices too. */
#ifndef SIM_TENSOR_MAP_H
#define SIM_TENSOR_MAP_H

#include "runtime/simgpu/async.h"

/* Fills all 128 bytes; the fields were judged. */
void sim_map_encode(const sim_map_t *map, uint8_t out[128]);
/* False if the bytes are no tensor map, or a damaged one. */
bool sim_map_decode(const uint8_t bytes[128], sim_map_t *map);

#endif
