/* cuDeviceGetAttribute: limits from the machine's row, and which features the
   simulated driver has. Textures, surfaces, interoperation with other
   interfaces and other processes are not simulated: 0. */
#include "runtime/simgpu/sim_cuda.h"

/* Single against double precision, by published rates. */
static int double_ratio(uint32_t cc) {
  switch (cc) {
  case 75: return 32;
  case 86:
  case 89: return 64;
  default: return 2;
  }
}

static int limit(const sim_device_row_t *r, int attribute, int device) {
  switch (attribute) {
  case RCUDA_DEV_MAX_THREADS_PER_BLOCK:
  case RCUDA_DEV_MAX_BLOCK_X:
  case RCUDA_DEV_MAX_BLOCK_Y: return 1024;
  case RCUDA_DEV_MAX_BLOCK_Z: return 64;
  case RCUDA_DEV_MAX_GRID_X: return INT32_MAX;
  case RCUDA_DEV_MAX_GRID_Y:
  case RCUDA_DEV_MAX_GRID_Z: return 65535;
  case RCUDA_DEV_SHARED_PER_BLOCK: return 49152;
  case RCUDA_DEV_CONSTANT_BYTES: return 65536;
  case RCUDA_DEV_WARP_SIZE: return 32;
  case RCUDA_DEV_MAX_PITCH: return INT32_MAX;
  case RCUDA_DEV_REGISTERS_PER_BLOCK:
  case RCUDA_DEV_REGISTERS_PER_SM: return (int)r->registers;
  case RCUDA_DEV_CLOCK_KHZ: return (int)r->clock_khz;
  case RCUDA_DEV_TEXTURE_ALIGN:
  case RCUDA_DEV_SURFACE_ALIGN: return 512;
  case RCUDA_DEV_TEXTURE_PITCH_ALIGN: return 32;
  case RCUDA_DEV_SM_COUNT: return (int)r->sms;
  case RCUDA_DEV_PCI_BUS: return device + 1;
  case RCUDA_DEV_MEMORY_CLOCK_KHZ: return (int)r->memory_khz;
  case RCUDA_DEV_MEMORY_BUS_BITS: return (int)r->bus_bits;
  case RCUDA_DEV_L2_BYTES: return (int)r->l2;
  case RCUDA_DEV_THREADS_PER_SM: return (int)(r->warps * 32);
  case RCUDA_DEV_COPY_ENGINES: return (int)r->copy_engines;
  case RCUDA_DEV_CC_MAJOR: return (int)(r->cc / 10);
  case RCUDA_DEV_CC_MINOR: return (int)(r->cc % 10);
  case RCUDA_DEV_SHARED_PER_SM: return (int)r->shared_sm;
  case RCUDA_DEV_SHARED_PER_BLOCK_OPTIN: return (int)r->shared_optin;
  case RCUDA_DEV_DOUBLE_RATIO: return double_ratio(r->cc);
  case RCUDA_DEV_BOARD_GROUP: return device;
  case RCUDA_DEV_BLOCKS_PER_SM: return (int)r->ctas;
  case RCUDA_DEV_RESERVED_SHARED: return r->cc >= 80 ? 1024 : 0;
  case RCUDA_DEV_MEMORY_DOMAINS: return r->cc >= 90 ? 4 : 1;
  case RCUDA_DEV_NUMA_ID:
  case RCUDA_DEV_HOST_NUMA_ID: return -1; /* no such nodes */
  case RCUDA_DEV_CLUSTER_LAUNCH:
  case RCUDA_DEV_TENSOR_MAP: return r->cc >= 90;
  default: return 0;
  }
}

static bool has_feature(int attribute) {
  switch (attribute) {
  case RCUDA_DEV_OVERLAP:
  case RCUDA_DEV_MAP_HOST_MEMORY:
  case RCUDA_DEV_CONCURRENT_KERNELS:
  case RCUDA_DEV_ECC:
  case RCUDA_DEV_UNIFIED_ADDRESSING:
  case RCUDA_DEV_STREAM_PRIORITIES:
  case RCUDA_DEV_GLOBAL_L1:
  case RCUDA_DEV_LOCAL_L1:
  case RCUDA_DEV_MANAGED_MEMORY:
  case RCUDA_DEV_COMPUTE_PREEMPTION:
  case RCUDA_DEV_HOST_POINTERS:
  case RCUDA_DEV_COOPERATIVE_LAUNCH:
  case RCUDA_DEV_HOST_REGISTER:
  case RCUDA_DEV_VIRTUAL_MEMORY:
  case RCUDA_DEV_MEMORY_POOLS: return true;
  default: return false;
  }
}

SIM_EXPORT int cuDeviceGetAttribute(int *out, int attribute, int device) {
  SIM_ARGS(out, attribute, device);
  int code = sim_enter("cuDeviceGetAttribute", true);
  if (code) return code;
  if (!out || attribute < 1 || attribute > RCUDA_DEV_LAST)
    return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  *out = has_feature(attribute)
             ? 1
             : limit(sim_state()->row, attribute, device);
  return sim_leave(0);
}
