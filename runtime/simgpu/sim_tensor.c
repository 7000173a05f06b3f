/* Exported cu* functions: tensor maps. Only tiled maps without interleaving
   are simulated; the rest is refused as not supported. */
#include "runtime/simgpu/sim_cuda.h"
#include "runtime/simgpu/tensor_map.h"

enum { SWIZZLE_NONE, SWIZZLE_32, SWIZZLE_64, SWIZZLE_128, SWIZZLE_LAST = 6 };
enum { INTERLEAVE_NONE, INTERLEAVE_16, INTERLEAVE_32 };

#define MAX_PROMOTION 3 /* 256 bytes; a hint */
#define MAX_FILL      1 /* NaN that asks for a zero product */

static uint8_t element_bytes(int type) {
  static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 0;
}

static bool is_float(int type) {
  return type >= RCUDA_TENSOR_F16;
}

/* What the device's own rules say, whether simulated or not. */
static bool is_valid(const sim_map_t *m, int interleave, int swizzle,
                     int promotion, int fill) {
  if (interleave < INTERLEAVE_NONE || interleave > INTERLEAVE_32 ||
      swizzle < SWIZZLE_NONE || swizzle > SWIZZLE_LAST || promotion < 0 ||
      promotion > MAX_PROMOTION || fill < 0 || fill > MAX_FILL)
    return false;
  if (fill && !is_float(m->type)) return false;
  if (interleave != INTERLEAVE_NONE && m->rank < 3) return false;
  uint64_t align = interleave == INTERLEAVE_32 ? 32 : 16;
  if (m->address % align) return false;
  for (uint32_t d = 0; d < m->rank; d++) {
    if (m->dims[d] == 0 || m->dims[d] > UINT64_C(1) << 32) return false;
    if (m->box[d] == 0 || m->box[d] > 256) return false;
    if (m->step[d] == 0 || m->step[d] > 8) return false;
    if (d && (m->strides[d] % align || m->strides[d] >= UINT64_C(1) << 40))
      return false;
  }
  if (interleave == INTERLEAVE_32 && swizzle != SWIZZLE_32) return false;
  if (interleave != INTERLEAVE_NONE) return true;
  uint32_t row = m->box[0] * m->bytes;
  if (row % 16) return false;
  uint32_t width = swizzle == SWIZZLE_32   ? 32
                   : swizzle == SWIZZLE_64 ? 64
                                           : 128;
  return swizzle == SWIZZLE_NONE || row <= width;
}

SIM_EXPORT int cuTensorMapEncodeTiled(
    rcuda_tensor_map_t *out, int type, unsigned rank, void *address,
    const uint64_t *dims, const uint64_t *strides, const unsigned *box,
    const unsigned *steps, int interleave, int swizzle, int promotion,
    int fill) {
  SIM_ARGS(out, type, rank, address, dims, strides, box, steps, interleave,
           swizzle, promotion, fill);
  sim_map_t m = {0};
  int code = sim_enter("cuTensorMapEncodeTiled", true);
  if (code) return code;
  if (!out || (uintptr_t)out % 64 || !address || !dims || !box || !steps ||
      rank < 1 || rank > 5 || (rank > 1 && !strides) || !element_bytes(type))
    return sim_leave(RCUDA_INVALID_VALUE);
  if (sim_state()->row->cc < 90) return sim_leave(RCUDA_NOT_SUPPORTED);
  m.rank = (uint8_t)rank;
  m.type = (uint8_t)type;
  m.swizzle = (uint8_t)swizzle;
  m.fill = (uint8_t)fill;
  m.bytes = element_bytes(type);
  m.address = (uint64_t)(uintptr_t)address;
  for (unsigned d = 0; d < rank; d++) {
    m.dims[d] = dims[d];
    m.box[d] = box[d];
    m.step[d] = steps[d];
    if (d) m.strides[d] = strides[d - 1];
  }
  if (!is_valid(&m, interleave, swizzle, promotion, fill))
    return sim_leave(RCUDA_INVALID_VALUE);
  /* swizzles of other atoms, interleaving, and what rounds in flight */
  if (swizzle > SWIZZLE_128 || interleave != INTERLEAVE_NONE ||
      type >= RCUDA_TENSOR_TF32)
    return sim_leave(RCUDA_NOT_SUPPORTED);
  sim_map_encode(&m, (uint8_t *)out);
  return sim_leave(0);
}

SIM_EXPORT int cuTensorMapReplaceAddress(rcuda_tensor_map_t *map,
                                         void *address) {
  SIM_ARGS(map, address);
  sim_map_t m;
  int code = sim_enter("cuTensorMapReplaceAddress", true);
  if (code) return code;
  if (!map || (uintptr_t)map % 64 || !address || (uintptr_t)address % 16 ||
      !sim_map_decode((const uint8_t *)map, &m))
    return sim_leave(RCUDA_INVALID_VALUE);
  m.address = (uint64_t)(uintptr_t)address;
  sim_map_encode(&m, (uint8_t *)map);
  return sim_leave(0);
}
