#include "runtime/simgpu/device.h"

#include <string.h>

static const sim_device_row_t rows[] = {
#define SIM_DEVICE(key, name, cc, targets, suffix, sms, warps, ctas, regs,   \
                   shared, optin, l2, memory, cluster, copies, clock,        \
                   mclock, bus)                                              \
  {key, name, cc, targets, suffix, sms, warps, ctas, regs, shared, optin,    \
   l2, memory, cluster, copies, clock, mclock, bus},
#include "runtime/simgpu/sim_device.def"
#undef SIM_DEVICE
};

const sim_device_row_t *sim_device_at(unsigned index) {
  return index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}

const sim_device_row_t *sim_device_find(const char *key) {
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].key, key) == 0) return &rows[i];
  }
  return NULL;
}

sim_occupancy_t sim_occupancy(const sim_device_row_t *row, uint32_t threads,
                              uint32_t registers, uint32_t shared_bytes) {
  uint32_t warps = (threads + 31) / 32;
  /* registers are given out by warp in units of 256, eight a thread */
  uint32_t per_warp = ((registers ? registers : 1) + 7) / 8 * 8 * 32;
  uint32_t shared = (shared_bytes + 1024 + 127) / 128 * 128;
  if (warps == 0) warps = 1;
  sim_occupancy_t out = {row->ctas, 0, "ctas"};
  uint32_t by_warps = row->warps / warps;
  uint32_t by_registers = row->registers / per_warp / warps;
  uint32_t by_shared = row->shared_sm / shared;
  if (by_warps < out.ctas) {
    out.ctas = by_warps;
    out.limiter = "warps";
  }
  if (by_registers < out.ctas) {
    out.ctas = by_registers;
    out.limiter = "registers";
  }
  if (by_shared < out.ctas) {
    out.ctas = by_shared;
    out.limiter = "shared";
  }
  out.warps = out.ctas * warps;
  return out;
}
