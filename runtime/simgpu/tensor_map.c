#include "runtime/simgpu/tensor_map.h"

#define MAGIC UINT32_C(0x504D5444)

typedef struct wire_t {
  uint32_t magic;
  uint8_t rank, type, swizzle, fill;
  uint64_t address;
  uint64_t strides[4]; /* of dimensions 1 to 4 */
  uint32_t dims[5];    /* less one: 2^32 is a size */
  uint16_t box[5];     /* less one */
  uint8_t step[5];
  uint8_t bytes;
  uint64_t unused[4];
  uint64_t checksum;
} wire_t;
_Static_assert(sizeof(wire_t) == 128, "a tensor map has 128 bytes");

static uint64_t checksum(const wire_t *wire) {
  return td_hash_bytes(wire, sizeof *wire - sizeof wire->checksum, 97);
}

void sim_map_encode(const sim_map_t *map, uint8_t out[128]) {
  wire_t w;
  memset(&w, 0, sizeof w);
  w.magic = MAGIC;
  w.rank = map->rank;
  w.type = map->type;
  w.swizzle = map->swizzle;
  w.fill = map->fill;
  w.address = map->address;
  w.bytes = map->bytes;
  for (uint32_t d = 0; d < map->rank; d++) {
    w.dims[d] = (uint32_t)(map->dims[d] - 1);
    w.box[d] = (uint16_t)(map->box[d] - 1);
    w.step[d] = (uint8_t)map->step[d];
    if (d) w.strides[d - 1] = map->strides[d];
  }
  w.checksum = checksum(&w);
  memcpy(out, &w, sizeof w);
}

bool sim_map_decode(const uint8_t bytes[128], sim_map_t *map) {
  wire_t w;
  memcpy(&w, bytes, sizeof w);
  memset(map, 0, sizeof *map);
  if (w.magic != MAGIC || w.checksum != checksum(&w) || w.rank < 1 ||
      w.rank > 5)
    return false;
  map->rank = w.rank;
  map->type = w.type;
  map->swizzle = w.swizzle;
  map->fill = w.fill;
  map->address = w.address;
  map->bytes = w.bytes;
  map->box_bytes = w.bytes;
  for (uint32_t d = 0; d < w.rank; d++) {
    map->dims[d] = (uint64_t)w.dims[d] + 1;
    map->box[d] = w.box[d] + 1u;
    map->step[d] = w.step[d];
    map->strides[d] = d ? w.strides[d - 1] : w.bytes;
    /* dimension 0 is always read whole */
    map->extent[d] = d ? (map->box[d] + map->step[d] - 1) / map->step[d]
                       : map->box[0];
    map->box_bytes *= map->extent[d];
  }
  return true;
}
