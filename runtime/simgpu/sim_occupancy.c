/* Exported cu* functions: how many blocks and clusters a machine holds. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

static int blocks_per_sm(const sim_func_t *f, int threads, size_t dynamic) {
  if (threads <= 0 || threads > 1024 || dynamic > UINT32_MAX / 2) return 0;
  sim_occupancy_t o =
      sim_occupancy(sim_state()->row, (uint32_t)threads,
                    f->kernel->registers,
                    f->kernel->static_shared + (uint32_t)dynamic);
  return (int)o.ctas;
}

static int max_blocks(const char *name, int *out, rcuda_func_t *handle,
                      int threads, size_t dynamic, unsigned flags) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  sim_func_t *f = sim_func_of(handle);
  if (!f) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out || threads <= 0 || flags > 1)
    return sim_leave(RCUDA_INVALID_VALUE);
  *out = blocks_per_sm(f, threads, dynamic);
  return sim_leave(0);
}

SIM_EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *out, rcuda_func_t *handle, int threads, size_t dynamic,
    unsigned flags) {
  SIM_ARGS(out, handle, threads, dynamic, flags);
  return max_blocks("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
                    out, handle, threads, dynamic, flags);
}

SIM_EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(
    int *out, rcuda_func_t *handle, int threads, size_t dynamic) {
  SIM_ARGS(out, handle, threads, dynamic);
  return max_blocks("cuOccupancyMaxActiveBlocksPerMultiprocessor", out,
                    handle, threads, dynamic, 0);
}

SIM_EXPORT int cuOccupancyAvailableDynamicSMemPerBlock(
    size_t *out, rcuda_func_t *handle, int blocks, int threads) {
  SIM_ARGS(out, handle, blocks, threads);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuOccupancyAvailableDynamicSMemPerBlock", &ctx);
  if (code) return code;
  sim_func_t *f = sim_func_of(handle);
  if (!f) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out || blocks <= 0 || threads <= 0)
    return sim_leave(RCUDA_INVALID_VALUE);
  const sim_device_row_t *row = sim_state()->row;
  uint64_t each = row->shared_sm / (uint32_t)blocks;
  if (each > row->shared_optin + 1024ull) each = row->shared_optin + 1024ull;
  uint64_t used = f->kernel->static_shared + 1024ull;
  *out = each > used ? (each - used) / 128 * 128 : 0;
  return sim_leave(0);
}

/* The block size, in warps, that keeps the most threads of an SM busy; of
   equals the largest. The grid that fills the machine with it once. */
static int potential(const char *name, int *grid, int *block,
                     rcuda_func_t *handle, size_t (*dynamic_of)(int threads),
                     size_t dynamic, int limit, unsigned flags) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  const sim_func_t *f = sim_func_of(handle);
  int most = 0, best = 0, best_blocks = 0;
  if (!f) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!grid || !block || limit < 0 || flags > 1)
    return sim_leave(RCUDA_INVALID_VALUE);
  sim_func_attribute(f, RCUDA_FUNC_MAX_THREADS, &most);
  if (limit && limit < most) most = limit;
  for (int threads = most; threads > 0;
       threads = threads % 32 ? threads / 32 * 32 : threads - 32) {
    size_t bytes = dynamic_of ? dynamic_of(threads) : dynamic;
    int blocks = blocks_per_sm(f, threads, bytes);
    if (blocks * threads <= best * best_blocks) continue;
    best = threads;
    best_blocks = blocks;
  }
  if (!best) return sim_leave(RCUDA_INVALID_VALUE);
  *block = best;
  *grid = best_blocks * (int)sim_state()->row->sms;
  return sim_leave(0);
}

SIM_EXPORT int cuOccupancyMaxPotentialBlockSize(
    int *grid, int *block, rcuda_func_t *handle,
    size_t (*dynamic_of)(int threads), size_t dynamic, int limit) {
  SIM_ARGS(grid, block, handle, dynamic_of, dynamic, limit);
  return potential("cuOccupancyMaxPotentialBlockSize", grid, block, handle,
                   dynamic_of, dynamic, limit, 0);
}

SIM_EXPORT int cuOccupancyMaxPotentialBlockSizeWithFlags(
    int *grid, int *block, rcuda_func_t *handle,
    size_t (*dynamic_of)(int threads), size_t dynamic, int limit,
    unsigned flags) {
  SIM_ARGS(grid, block, handle, dynamic_of, dynamic, limit, flags);
  return potential("cuOccupancyMaxPotentialBlockSizeWithFlags", grid, block,
                   handle, dynamic_of, dynamic, limit, flags);
}

/* Clusters at once, as if SMs were not grouped: an upper bound of what
   hardware holds. */
SIM_EXPORT int cuOccupancyMaxActiveClusters(int *out, rcuda_func_t *handle,
                                            const rcuda_launch_config_t *c) {
  SIM_ARGS(out, handle, c);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuOccupancyMaxActiveClusters", &ctx);
  if (code) return code;
  sim_func_t *f = sim_func_of(handle);
  sim_op_run_t op = {.kind = SIM_RUN_LAUNCH};
  if (!f) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out || !c || (c->attribute_count && !c->attributes))
    return sim_leave(RCUDA_INVALID_VALUE);
  const sim_device_row_t *row = sim_state()->row;
  if (!row->max_cluster) return sim_leave(RCUDA_INVALID_CLUSTER);
  code = sim_prepare_geometry(f, c, &op);
  if (code) return sim_leave(code);
  const uint32_t *k = op.launch.cluster;
  int blocks = blocks_per_sm(
      f, (int)(c->block[0] * c->block[1] * c->block[2]), c->shared_bytes);
  *out = blocks * (int)row->sms / (int)(k[0] * k[1] * k[2]);
  return sim_leave(0);
}
