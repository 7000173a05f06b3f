/* Exported cu* functions: memory, copies, fills, stream-ordered memory. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

/* -- allocation -- */

static int allocate(sim_ctx_t *ctx, uint64_t *out, size_t bytes) {
  if (!out || !bytes) return RCUDA_INVALID_VALUE;
  sim_alloc_t *a = sim_device_alloc(ctx, bytes, SIM_ALLOC_DEVICE);
  if (!a && sim_state()->queue.pending) {
    /* stream-ordered frees may be queued */
    int code = sim_wait_ctx(ctx->handle);
    if (code) return code;
    a = sim_device_alloc(ctx, bytes, SIM_ALLOC_DEVICE);
  }
  if (!a) return RCUDA_OUT_OF_MEMORY;
  *out = a->address;
  return 0;
}

/* The live allocation that starts at the address and is not already given
   back; NULL with a finding. */
static sim_alloc_t *to_release(const char *call, uint64_t address) {
  const sim_memory_t *memory = &sim_state()->memory;
  sim_alloc_t *a = sim_alloc_find(memory, address);
  if (a && a->is_live && a->address == address && !a->is_ending &&
      a->kind == SIM_ALLOC_DEVICE)
    return a;
  if (a && a->is_live && a->is_ending)
    sim_host_finding(SIM_CHECK_MEM_FREE, call, address, 0,
                     "allocation %u is already freed in stream order", a->id);
  else if (a && !a->is_live)
    sim_host_finding(SIM_CHECK_MEM_FREE, call, address, 0,
                     "allocation %u was freed by call %llu", a->id,
                     (unsigned long long)a->freed_by);
  else if (a)
    sim_host_finding(SIM_CHECK_MEM_FREE, call, address, 0,
                     "an address inside allocation %u", a->id);
  else
    sim_host_finding(SIM_CHECK_MEM_FREE, call, address, 0,
                     "no allocation starts here");
  return NULL;
}

/* Ends an allocation at once. As on a device, what is queued runs before;
   but only what the host has waited for is ordered before the end, and the
   rest is judged. */
static int end_now(sim_ctx_t *ctx, const char *call, const sim_alloc_t *a) {
  sim_op_run_t op = {.kind = SIM_RUN_FREE, .name = call, .ctx = ctx->handle,
                     .call = sim_state()->calls, .dst = a->address,
                     .bytes = a->bytes};
  uint32_t lane = ctx->free_lane;
  uint64_t owner = ctx->handle;
  int code = sim_queue_add(lane, &op, NULL);
  if (code) return code;
  sim_wait_others(owner, lane);
  return sim_wait(owner, &sim_lane_of(lane)->clock);
}

static int release(sim_ctx_t *ctx, const char *call, uint64_t address) {
  if (!address) return 0;
  int code = sim_no_capture();
  if (code) return code;
  const sim_alloc_t *a = to_release(call, address);
  return a ? end_now(ctx, call, a) : RCUDA_INVALID_VALUE;
}

SIM_EXPORT int cuMemAlloc_v2(uint64_t *out, size_t bytes) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemAlloc_v2", &ctx);
  if (code) return code;
  code = sim_no_capture();
  return sim_leave(code ? code : allocate(ctx, out, bytes));
}

SIM_EXPORT int cuMemAllocManaged(uint64_t *out, size_t bytes,
                                 unsigned flags) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemAllocManaged", &ctx);
  (void)out, (void)bytes, (void)flags;
  return code ? code : sim_leave(RCUDA_NOT_SUPPORTED);
}

SIM_EXPORT int cuMemAllocPitch_v2(uint64_t *out, size_t *pitch, size_t width,
                                  size_t height, unsigned element) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemAllocPitch_v2", &ctx);
  if (code) return code;
  if (!pitch || !width || !height || width > SIZE_MAX / 2 ||
      (element != 4 && element != 8 && element != 16))
    return sim_leave(RCUDA_INVALID_VALUE);
  size_t row = (width + 511) / 512 * 512;
  if (height > SIZE_MAX / row) return sim_leave(RCUDA_OUT_OF_MEMORY);
  *pitch = row;
  code = sim_no_capture();
  return sim_leave(code ? code : allocate(ctx, out, row * height));
}

SIM_EXPORT int cuMemFree_v2(uint64_t address) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemFree_v2", &ctx);
  return code ? code : sim_leave(release(ctx, "cuMemFree", address));
}

SIM_EXPORT int cuMemGetInfo_v2(size_t *available, size_t *total) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemGetInfo_v2", &ctx);
  if (code) return code;
  sim_state_t *s = sim_state();
  uint64_t limit = s->options.memory ? s->options.memory : s->row->memory;
  if (available) *available = limit - s->live_bytes[ctx->device];
  if (total) *total = limit;
  return sim_leave(0);
}

SIM_EXPORT int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes,
                                       uint64_t address) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemGetAddressRange_v2", &ctx);
  if (code) return code;
  sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, address);
  if (!a || !a->is_live) return sim_leave(RCUDA_NOT_FOUND);
  if (base) *base = a->address;
  if (bytes) *bytes = a->bytes;
  return sim_leave(0);
}

/* -- host memory -- */

static int pin(sim_ctx_t *ctx, void *host, size_t bytes, bool is_ours) {
  sim_state_t *s = sim_state();
  sim_alloc_t *a = sim_alloc_new(&s->memory, ctx->device, bytes,
                                 SIM_ALLOC_HOST, host);
  if (!a) return RCUDA_OUT_OF_MEMORY;
  a->context = ctx->handle;
  a->made_by = s->calls;
  a->name = is_ours ? "pinned" : NULL;
  return 0;
}

static int host_alloc(const char *name, void **out, size_t bytes,
                      unsigned flags) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  (void)flags;
  if (code) return code;
  if (!out || !bytes) return sim_leave(RCUDA_INVALID_VALUE);
  code = sim_no_capture();
  if (code) return sim_leave(code);
  void *host = NULL;
  if (posix_memalign(&host, 4096, bytes))
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  memset(host, SIM_POISON, bytes);
  code = pin(ctx, host, bytes, true);
  if (code)
    free(host);
  else
    *out = host;
  return sim_leave(code);
}

SIM_EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  return host_alloc("cuMemHostAlloc", out, bytes, flags);
}

SIM_EXPORT int cuMemAllocHost_v2(void **out, size_t bytes) {
  return host_alloc("cuMemAllocHost_v2", out, bytes, 0);
}

static sim_alloc_t *pinned(const void *host) {
  sim_alloc_t *a = sim_alloc_find(&sim_state()->memory,
                                  (uint64_t)(uintptr_t)host);
  return a && a->is_live && a->kind == SIM_ALLOC_HOST ? a : NULL;
}

SIM_EXPORT int cuMemFreeHost(void *host) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemFreeHost", &ctx);
  if (code) return code;
  sim_alloc_t *a = pinned(host);
  if (!a || !a->name || a->host != host)
    return sim_leave(RCUDA_INVALID_VALUE);
  code = sim_no_capture();
  if (!code) code = end_now(ctx, "cuMemFreeHost", a);
  if (!pinned(host)) free(host);
  return sim_leave(code);
}

SIM_EXPORT int cuMemHostRegister_v2(void *host, size_t bytes,
                                    unsigned flags) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemHostRegister_v2", &ctx);
  (void)flags;
  if (code) return code;
  if (!host || !bytes) return sim_leave(RCUDA_INVALID_VALUE);
  if (pinned(host)) return sim_leave(RCUDA_HOST_REGISTERED);
  return sim_leave(pin(ctx, host, bytes, false));
}

SIM_EXPORT int cuMemHostUnregister(void *host) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemHostUnregister", &ctx);
  if (code) return code;
  sim_alloc_t *a = pinned(host);
  if (!a || a->name || a->host != host)
    return sim_leave(RCUDA_HOST_NOT_REGISTERED);
  return sim_leave(end_now(ctx, "cuMemHostUnregister", a));
}

SIM_EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *out, void *host,
                                            unsigned flags) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemHostGetDevicePointer_v2", &ctx);
  if (code) return code;
  if (!out || flags || !pinned(host)) return sim_leave(RCUDA_INVALID_VALUE);
  *out = (uint64_t)(uintptr_t)host;
  return sim_leave(0);
}

SIM_EXPORT int cuPointerGetAttribute(void *out, int attribute,
                                     uint64_t address) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuPointerGetAttribute", &ctx);
  if (code) return code;
  sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, address);
  if (!out || !a || !a->is_live) return sim_leave(RCUDA_INVALID_VALUE);
  uint64_t wide = 0;
  uint32_t narrow = 0;
  size_t bytes = sizeof wide;
  const void *from = &wide;
  switch (attribute) {
  case RCUDA_POINTER_CONTEXT: wide = a->context; break;
  case RCUDA_POINTER_MEMORY_TYPE:
    narrow = a->kind == SIM_ALLOC_HOST ? RCUDA_MEMORY_HOST
                                       : RCUDA_MEMORY_DEVICE;
    from = &narrow;
    bytes = sizeof narrow;
    break;
  case RCUDA_POINTER_DEVICE_POINTER: wide = address; break;
  case RCUDA_POINTER_HOST_POINTER:
    if (a->kind != SIM_ALLOC_HOST) return sim_leave(RCUDA_INVALID_VALUE);
    wide = address;
    break;
  case RCUDA_POINTER_DEVICE_ORDINAL:
    narrow = a->device;
    from = &narrow;
    bytes = sizeof narrow;
    break;
  case RCUDA_POINTER_RANGE_START: wide = a->address; break;
  case RCUDA_POINTER_RANGE_BYTES: wide = a->bytes; break;
  default: return sim_leave(RCUDA_NOT_SUPPORTED);
  }
  memcpy(out, from, bytes);
  return sim_leave(0);
}

/* -- stream-ordered memory: it lives from its place in one stream to its
   place in another; addresses are never given out again -- */

SIM_EXPORT int cuMemAllocAsync(uint64_t *out, size_t bytes,
                               rcuda_stream_t *stream) {
  sim_ctx_t *ctx;
  sim_stream_t *st;
  int code = sim_enter_ctx("cuMemAllocAsync", &ctx);
  if (code) return code;
  if (!sim_stream_of(stream, &st)) return sim_leave(RCUDA_INVALID_HANDLE);
  if (st && st->graph) return sim_leave(RCUDA_CAPTURE_UNSUPPORTED);
  code = allocate(ctx, out, bytes);
  if (code) return sim_leave(code);
  sim_op_run_t op = {.kind = SIM_RUN_ALLOC, .name = "cuMemAllocAsync",
                     .dst = *out, .bytes = bytes};
  return sim_leave(sim_submit(ctx, stream, &op));
}

SIM_EXPORT int cuMemFreeAsync(uint64_t address, rcuda_stream_t *stream) {
  sim_ctx_t *ctx;
  sim_stream_t *st;
  int code = sim_enter_ctx("cuMemFreeAsync", &ctx);
  if (code) return code;
  if (!sim_stream_of(stream, &st)) return sim_leave(RCUDA_INVALID_HANDLE);
  if (st && st->graph) return sim_leave(RCUDA_CAPTURE_UNSUPPORTED);
  if (!address) return sim_leave(0);
  sim_alloc_t *a = to_release("cuMemFreeAsync", address);
  if (!a) return sim_leave(RCUDA_INVALID_VALUE);
  a->is_ending = true;
  sim_op_run_t op = {.kind = SIM_RUN_FREE, .name = "cuMemFreeAsync",
                     .dst = address, .bytes = a->bytes};
  return sim_leave(sim_submit(ctx, stream, &op));
}

/* -- copies and fills -- */

static bool pinned_at(uint64_t address) {
  return pinned((const void *)(uintptr_t)address) != NULL;
}

static sim_op_run_t copy_op(const char *name, uint64_t dst, uint64_t src,
                            size_t bytes) {
  sim_op_run_t op = {.kind = SIM_RUN_COPY, .name = name, .dst = dst,
                     .src = src, .bytes = bytes, .rows = 1};
  return op;
}

/* Queues a copy. The calls without a stream return when the host's side is
   free to be used: with pageable memory after the copy or, of a source, once
   it was taken; with pinned memory after the copy. They do not wait for
   device memory, so a stream that does not wait for the default one is not
   ordered after them. */
static int submit_copy(sim_ctx_t *ctx, sim_op_run_t *op, const void *stream,
                       bool is_sync) {
  uint64_t owner = ctx->handle;
  uint32_t lane = ctx->lane;
  int code = sim_check_ranges(ctx, op);
  if (code) return code;
  bool has_host = pinned_at(op->src) || pinned_at(op->dst);
  code = sim_submit(ctx, stream, op);
  if (!code && is_sync && has_host)
    code = sim_wait(owner, &sim_lane_of(lane)->clock);
  return code;
}

static int copy(const char *name, uint64_t dst, uint64_t src, size_t bytes,
                const void *stream, bool is_sync) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!bytes) return sim_leave(0);
  if (!dst || !src) return sim_leave(RCUDA_INVALID_VALUE);
  sim_op_run_t op = copy_op(name, dst, src, bytes);
  return sim_leave(submit_copy(ctx, &op, stream, is_sync));
}

#define ADDRESS(p) ((uint64_t)(uintptr_t)(p))

SIM_EXPORT int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes) {
  return copy("cuMemcpyHtoD_v2", dst, ADDRESS(src), bytes, NULL, true);
}
SIM_EXPORT int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes) {
  return copy("cuMemcpyDtoH_v2", ADDRESS(dst), src, bytes, NULL, true);
}
SIM_EXPORT int cuMemcpyDtoD_v2(uint64_t dst, uint64_t src, size_t bytes) {
  return copy("cuMemcpyDtoD_v2", dst, src, bytes, NULL, true);
}
SIM_EXPORT int cuMemcpy(uint64_t dst, uint64_t src, size_t bytes) {
  return copy("cuMemcpy", dst, src, bytes, NULL, true);
}
SIM_EXPORT int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src,
                                    size_t bytes, rcuda_stream_t *stream) {
  return copy("cuMemcpyHtoDAsync_v2", dst, ADDRESS(src), bytes, stream, false);
}
SIM_EXPORT int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes,
                                    rcuda_stream_t *stream) {
  return copy("cuMemcpyDtoHAsync_v2", ADDRESS(dst), src, bytes, stream, false);
}
SIM_EXPORT int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes,
                                    rcuda_stream_t *stream) {
  return copy("cuMemcpyDtoDAsync_v2", dst, src, bytes, stream, false);
}
SIM_EXPORT int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t bytes,
                             rcuda_stream_t *stream) {
  return copy("cuMemcpyAsync", dst, src, bytes, stream, false);
}
SIM_EXPORT int cuMemcpyPeer(uint64_t dst, rcuda_ctx_t *dst_ctx, uint64_t src,
                            rcuda_ctx_t *src_ctx, size_t bytes) {
  (void)dst_ctx, (void)src_ctx;
  return copy("cuMemcpyPeer", dst, src, bytes, NULL, true);
}
SIM_EXPORT int cuMemcpyPeerAsync(uint64_t dst, rcuda_ctx_t *dst_ctx,
                                 uint64_t src, rcuda_ctx_t *src_ctx,
                                 size_t bytes, rcuda_stream_t *stream) {
  (void)dst_ctx, (void)src_ctx;
  return copy("cuMemcpyPeerAsync", dst, src, bytes, stream, false);
}

static int copy2d(const char *name, const rcuda_copy2d_t *c,
                  const void *stream, bool is_sync) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!c || c->src_type < 1 || c->src_type > 4 || c->dst_type < 1 ||
      c->dst_type > 4 || c->src_type == 3 || c->dst_type == 3)
    return sim_leave(RCUDA_INVALID_VALUE);
  if (!c->width || !c->height) return sim_leave(0);
  uint64_t src = c->src_type == RCUDA_MEMORY_HOST ? ADDRESS(c->src_host)
                                                  : c->src_device;
  uint64_t dst = c->dst_type == RCUDA_MEMORY_HOST ? ADDRESS(c->dst_host)
                                                  : c->dst_device;
  uint64_t src_pitch = c->src_pitch ? c->src_pitch : c->src_x + c->width;
  uint64_t dst_pitch = c->dst_pitch ? c->dst_pitch : c->dst_x + c->width;
  if (!src || !dst || src_pitch < c->src_x + c->width ||
      dst_pitch < c->dst_x + c->width)
    return sim_leave(RCUDA_INVALID_VALUE);
  sim_op_run_t op = copy_op(name, dst + c->dst_y * dst_pitch + c->dst_x,
                            src + c->src_y * src_pitch + c->src_x,
                            c->width);
  op.rows = c->height;
  op.dst_pitch = dst_pitch;
  op.src_pitch = src_pitch;
  return sim_leave(submit_copy(ctx, &op, stream, is_sync));
}

SIM_EXPORT int cuMemcpy2D_v2(const rcuda_copy2d_t *c) {
  return copy2d("cuMemcpy2D_v2", c, NULL, true);
}
SIM_EXPORT int cuMemcpy2DUnaligned_v2(const rcuda_copy2d_t *c) {
  return copy2d("cuMemcpy2DUnaligned_v2", c, NULL, true);
}
SIM_EXPORT int cuMemcpy2DAsync_v2(const rcuda_copy2d_t *c,
                                  rcuda_stream_t *stream) {
  return copy2d("cuMemcpy2DAsync_v2", c, stream, false);
}

static int fill(const char *name, uint64_t dst, size_t pitch, uint32_t value,
                uint32_t element, size_t width, size_t height,
                const void *stream) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!width || !height) return sim_leave(0);
  if (!dst || dst % element || width > SIZE_MAX / element)
    return sim_leave(RCUDA_INVALID_VALUE);
  sim_op_run_t op = {.kind = SIM_RUN_FILL, .name = name, .dst = dst,
                     .value = value, .width = element,
                     .bytes = width * element, .rows = height,
                     .dst_pitch = pitch};
  code = sim_check_ranges(ctx, &op);
  if (code) return sim_leave(code);
  return sim_leave(sim_submit(ctx, stream, &op));
}

SIM_EXPORT int cuMemsetD8_v2(uint64_t dst, unsigned char v, size_t n) {
  return fill("cuMemsetD8_v2", dst, 0, v, 1, n, 1, NULL);
}
SIM_EXPORT int cuMemsetD16_v2(uint64_t dst, unsigned short v, size_t n) {
  return fill("cuMemsetD16_v2", dst, 0, v, 2, n, 1, NULL);
}
SIM_EXPORT int cuMemsetD32_v2(uint64_t dst, unsigned v, size_t n) {
  return fill("cuMemsetD32_v2", dst, 0, v, 4, n, 1, NULL);
}
SIM_EXPORT int cuMemsetD8Async(uint64_t dst, unsigned char v, size_t n,
                               rcuda_stream_t *stream) {
  return fill("cuMemsetD8Async", dst, 0, v, 1, n, 1, stream);
}
SIM_EXPORT int cuMemsetD16Async(uint64_t dst, unsigned short v, size_t n,
                                rcuda_stream_t *stream) {
  return fill("cuMemsetD16Async", dst, 0, v, 2, n, 1, stream);
}
SIM_EXPORT int cuMemsetD32Async(uint64_t dst, unsigned v, size_t n,
                                rcuda_stream_t *stream) {
  return fill("cuMemsetD32Async", dst, 0, v, 4, n, 1, stream);
}
SIM_EXPORT int cuMemsetD2D8_v2(uint64_t dst, size_t pitch, unsigned char v,
                               size_t width, size_t height) {
  return fill("cuMemsetD2D8_v2", dst, pitch, v, 1, width, height, NULL);
}
SIM_EXPORT int cuMemsetD2D32_v2(uint64_t dst, size_t pitch, unsigned v,
                                size_t width, size_t height) {
  return fill("cuMemsetD2D32_v2", dst, pitch, v, 4, width, height, NULL);
}
