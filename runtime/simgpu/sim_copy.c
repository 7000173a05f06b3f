/* Exported cu* functions: copies and fills of one, two and three dimensions,
   and how they are executed. Every row is a range that must lie in live
   memory; mappings of reserved ranges may follow each other without a gap. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

#define ADDRESS(p) ((uint64_t)(uintptr_t)(p))

/* An address is a device's if it lies in a window. */
bool sim_is_device_address(uint64_t address) {
  return address - SIM_WINDOW < SIM_WINDOWS * SIM_WINDOW_BYTES;
}

/* -- ranges -- */

/* Host pointer of a range and, in *bytes, how much of it follows there;
   NULL with a finding if it is not wholly inside live allocations. Plain host
   memory is taken as it is. Graph memory need not live yet when a call is
   judged, if the call is of a graph or a launch is to make it. */
typedef enum when_t { WHEN_CALLED, WHEN_ADDED, WHEN_RUN } when_t;

static uint8_t *range(const sim_ctx_t *ctx, uint64_t address,
                      uint64_t *bytes, bool is_write, when_t when,
                      sim_alloc_t **alloc) {
  const sim_memory_t *memory = &sim_state()->memory;
  *alloc = NULL;
  if (!sim_is_device_address(address)) return (uint8_t *)(uintptr_t)address;
  sim_alloc_t *a = sim_alloc_find(memory, address);
  bool is_coming = a && a->is_kept &&
                   (when == WHEN_ADDED ||
                    (when == WHEN_CALLED && a->is_given));
  if (a && !a->is_live && !is_coming) {
    if (a->freed_by)
      sim_host_finding(SIM_CHECK_MEM_FREED, "copy", address, *bytes,
                       "in allocation %u, freed by call %llu", a->id,
                       (unsigned long long)a->freed_by);
    else
      sim_host_finding(SIM_CHECK_MEM_FREED, "copy", address, *bytes,
                       "in allocation %u, which no launch made yet", a->id);
    return NULL;
  }
  uint64_t left = a ? a->address + a->bytes - address : 0;
  const sim_alloc_t *next =
      left && left < *bytes
          ? sim_alloc_find(memory, a->address + a->bytes)
          : NULL;
  if (left < *bytes && !(next && next->is_live && next->is_mapped)) {
    sim_host_finding(SIM_CHECK_MEM_BOUNDS, "copy", address, *bytes,
                     "is not inside one allocation");
    return NULL;
  }
  if (a->has_rights && !sim_alloc_may(a, ctx->device, 0, is_write)) {
    sim_host_finding(SIM_CHECK_MEM_PEER, "copy", address, *bytes,
                     "device %u may not do that with allocation %u",
                     ctx->device, a->id);
    return NULL;
  }
  if (left < *bytes) *bytes = left;
  *alloc = a;
  return a->is_live ? a->host + (address - a->address)
                    : (uint8_t *)(uintptr_t)address;
}

/* An address that a call takes as a device's: in a window, or pinned. Host
   memory behind any other one is not touched. */
static bool is_reachable(uint64_t address, uint64_t bytes) {
  const sim_alloc_t *a = sim_pinned_at(address);
  if (sim_is_device_address(address) ||
      (a && bytes <= a->address + a->bytes - address))
    return true;
  sim_host_finding(SIM_CHECK_MEM_BOUNDS, "copy", address, bytes,
                   "is no memory that a device can reach");
  return false;
}

static bool is_range(const sim_ctx_t *ctx, uint64_t address, uint64_t bytes,
                     bool is_write, when_t when) {
  while (bytes) {
    sim_alloc_t *a;
    uint64_t n = bytes;
    if (!range(ctx, address, &n, is_write, when, &a)) return false;
    address += n;
    bytes -= n;
  }
  return true;
}

int sim_check_ranges(const sim_ctx_t *ctx, const sim_op_run_t *op,
                     bool is_graph) {
  when_t when = is_graph ? WHEN_ADDED : WHEN_CALLED;
  for (uint64_t row = 0; row < sim_op_rows(op); row++) {
    uint64_t src = sim_op_src(op, row), dst = sim_op_dst(op, row);
    if (op->kind == SIM_RUN_COPY &&
        ((op->src_is_device && !is_reachable(src, op->bytes)) ||
         !is_range(ctx, src, op->bytes, false, when)))
      return RCUDA_INVALID_VALUE;
    if ((op->dst_is_device && !is_reachable(dst, op->bytes)) ||
        !is_range(ctx, dst, op->bytes, true, when))
      return RCUDA_INVALID_VALUE;
  }
  return 0;
}

/* -- execution -- */

/* Undefined bytes stay undefined where they go, and must not leave: false
   with a finding, and the bytes as they are. */
static bool copy_piece(uint8_t *q, const uint8_t *p, uint64_t n,
                       sim_alloc_t *to, uint64_t dst, sim_alloc_t *from,
                       uint64_t src) {
  const sim_state_t *s = sim_state();
  bool defined = true;
  if (from) {
    defined = sim_is_defined(from, src - from->address, n);
    sim_poison_range(from, src - from->address, n);
  }
  if (to) sim_poison_range(to, dst - to->address, n);
  bool is_found = !defined && !to && (s->options.checks & SIM_CHECK_INIT);
  if (is_found) {
    uint64_t at = 0;
    while (sim_is_defined(from, src - from->address + at, 1)) at++;
    sim_host_finding(SIM_CHECK_INIT_USE, "copy to the host", src + at, n,
                     "byte %llu of allocation %u was never written",
                     (unsigned long long)(src - from->address + at),
                     from->id);
  }
  memmove(q, p, n);
  if (!to) return !is_found;
  sim_define(to, dst - to->address, n);
  for (uint64_t k = 0; !defined && k < n; k++) {
    if (!sim_is_defined(from, src - from->address + k, 1))
      sim_undefine(to, dst - to->address + k, 1);
  }
  return true;
}

int sim_run_copy(const sim_op_run_t *op, sim_ctx_t *ctx) {
  bool is_good = true;
  for (uint64_t row = 0; row < sim_op_rows(op); row++) {
    uint64_t src = sim_op_src(op, row), dst = sim_op_dst(op, row);
    uint64_t left = op->bytes;
    if (src < dst + left && dst < src + left)
      sim_host_finding(SIM_CHECK_MEM_BOUNDS, "copy", dst, left,
                       "source and destination overlap");
    while (left) {
      sim_alloc_t *from, *to;
      uint64_t n = left, m;
      uint8_t *p = range(ctx, src, &n, false, WHEN_RUN, &from);
      m = n;
      uint8_t *q = p ? range(ctx, dst, &m, true, WHEN_RUN, &to) : NULL;
      if (!p || !q) return RCUDA_ILLEGAL_ADDRESS;
      is_good &= copy_piece(q, p, m, to, dst, from, src);
      sim_count_copy(from, to, m);
      src += m;
      dst += m;
      left -= m;
    }
  }
  return is_good || sim_state()->options.is_warning
             ? 0
             : sim_check_row(SIM_CHECK_INIT_USE)->code;
}

int sim_run_fill(const sim_op_run_t *op, sim_ctx_t *ctx) {
  for (uint64_t row = 0; row < sim_op_rows(op); row++) {
    uint64_t dst = sim_op_dst(op, row), left = op->bytes;
    while (left) {
      sim_alloc_t *to;
      uint64_t n = left;
      uint8_t *q = range(ctx, dst, &n, true, WHEN_RUN, &to);
      if (!q) return RCUDA_ILLEGAL_ADDRESS;
      if (to) sim_poison_range(to, dst - to->address, n);
      for (uint64_t k = 0; k < n; k += op->width)
        memcpy(q + k, &op->value, op->width);
      if (to) sim_define(to, dst - to->address, n);
      dst += n;
      left -= n;
    }
  }
  return 0;
}

/* -- calls -- */

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
  sim_stream_t *s;
  if (!sim_stream_of(stream, &s)) return RCUDA_INVALID_HANDLE;
  int code = sim_check_ranges(ctx, op, s && s->graph);
  if (code) return code;
  bool has_host = sim_pinned_at(op->src) || sim_pinned_at(op->dst);
  code = sim_submit(ctx, stream, op);
  if (!code && is_sync && has_host)
    code = sim_wait(owner, &sim_lane_of(lane)->clock);
  return code;
}

/* Which addresses of a copy its name says are a device's. */
typedef enum ends_t { ENDS_ANY, ENDS_H2D, ENDS_D2H, ENDS_D2D } ends_t;

static int copy(const char *name, ends_t ends, uint64_t dst, uint64_t src,
                size_t bytes, const void *stream, bool is_sync) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!bytes) return sim_leave(0);
  if (!dst || !src) return sim_leave(RCUDA_INVALID_VALUE);
  sim_op_run_t op = copy_op(name, dst, src, bytes);
  op.dst_is_device = ends == ENDS_H2D || ends == ENDS_D2D;
  op.src_is_device = ends == ENDS_D2H || ends == ENDS_D2D;
  return sim_leave(submit_copy(ctx, &op, stream, is_sync));
}

SIM_EXPORT int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes) {
  SIM_ARGS(dst, src, bytes);
  return copy("cuMemcpyHtoD_v2", ENDS_H2D, dst, ADDRESS(src), bytes, NULL,
              true);
}
SIM_EXPORT int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes) {
  SIM_ARGS(dst, src, bytes);
  return copy("cuMemcpyDtoH_v2", ENDS_D2H, ADDRESS(dst), src, bytes, NULL,
              true);
}
SIM_EXPORT int cuMemcpyDtoD_v2(uint64_t dst, uint64_t src, size_t bytes) {
  SIM_ARGS(dst, src, bytes);
  return copy("cuMemcpyDtoD_v2", ENDS_D2D, dst, src, bytes, NULL, true);
}
SIM_EXPORT int cuMemcpy(uint64_t dst, uint64_t src, size_t bytes) {
  SIM_ARGS(dst, src, bytes);
  return copy("cuMemcpy", ENDS_ANY, dst, src, bytes, NULL, true);
}
SIM_EXPORT int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src,
                                    size_t bytes, rcuda_stream_t *stream) {
  SIM_ARGS(dst, src, bytes, stream);
  return copy("cuMemcpyHtoDAsync_v2", ENDS_H2D, dst, ADDRESS(src), bytes,
              stream, false);
}
SIM_EXPORT int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes,
                                    rcuda_stream_t *stream) {
  SIM_ARGS(dst, src, bytes, stream);
  return copy("cuMemcpyDtoHAsync_v2", ENDS_D2H, ADDRESS(dst), src, bytes,
              stream, false);
}
SIM_EXPORT int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes,
                                    rcuda_stream_t *stream) {
  SIM_ARGS(dst, src, bytes, stream);
  return copy("cuMemcpyDtoDAsync_v2", ENDS_D2D, dst, src, bytes, stream,
              false);
}
SIM_EXPORT int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t bytes,
                             rcuda_stream_t *stream) {
  SIM_ARGS(dst, src, bytes, stream);
  return copy("cuMemcpyAsync", ENDS_ANY, dst, src, bytes, stream, false);
}
/* Each end lies in its context's device. */
static int copy_peer(const char *name, uint64_t dst, const void *dst_ctx,
                     uint64_t src, const void *src_ctx, size_t bytes,
                     const void *stream, bool is_sync) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  const sim_ctx_t *to = sim_handle_get(SIM_TYPE_CTX, dst_ctx);
  const sim_ctx_t *from = sim_handle_get(SIM_TYPE_CTX, src_ctx);
  if (!to || !from) return sim_leave(RCUDA_INVALID_CONTEXT);
  if (!bytes) return sim_leave(0);
  const sim_memory_t *memory = &sim_state()->memory;
  const sim_alloc_t *a = sim_alloc_find(memory, dst);
  const sim_alloc_t *b = sim_alloc_find(memory, src);
  if (!a || !b || a->device != to->device || b->device != from->device)
    return sim_leave(RCUDA_INVALID_VALUE);
  sim_op_run_t op = copy_op(name, dst, src, bytes);
  return sim_leave(submit_copy(ctx, &op, stream, is_sync));
}

SIM_EXPORT int cuMemcpyPeer(uint64_t dst, rcuda_ctx_t *dst_ctx, uint64_t src,
                            rcuda_ctx_t *src_ctx, size_t bytes) {
  SIM_ARGS(dst, dst_ctx, src, src_ctx, bytes);
  return copy_peer("cuMemcpyPeer", dst, dst_ctx, src, src_ctx, bytes, NULL,
                   true);
}
SIM_EXPORT int cuMemcpyPeerAsync(uint64_t dst, rcuda_ctx_t *dst_ctx,
                                 uint64_t src, rcuda_ctx_t *src_ctx,
                                 size_t bytes, rcuda_stream_t *stream) {
  SIM_ARGS(dst, dst_ctx, src, src_ctx, bytes, stream);
  return copy_peer("cuMemcpyPeerAsync", dst, dst_ctx, src, src_ctx, bytes,
                   stream, false);
}

/* -- boxes -- */

/* One end: 1 host, 2 device, 4 whatever the address is. Arrays (3) do not
   exist here. */
static bool is_place(int type) {
  return type == RCUDA_MEMORY_HOST || type == RCUDA_MEMORY_DEVICE ||
         type == RCUDA_MEMORY_UNIFIED;
}

int sim_copy_op(const char *name, const rcuda_copy3d_t *c,
                sim_op_run_t *op) {
  if (!is_place(c->src_type) || !is_place(c->dst_type))
    return RCUDA_INVALID_VALUE;
  uint64_t src = c->src_type == RCUDA_MEMORY_HOST ? ADDRESS(c->src_host)
                                                  : c->src_device;
  uint64_t dst = c->dst_type == RCUDA_MEMORY_HOST ? ADDRESS(c->dst_host)
                                                  : c->dst_device;
  uint64_t src_pitch = c->src_pitch ? c->src_pitch : c->src_x + c->width;
  uint64_t dst_pitch = c->dst_pitch ? c->dst_pitch : c->dst_x + c->width;
  uint64_t src_rows = c->src_height ? c->src_height : c->src_y + c->height;
  uint64_t dst_rows = c->dst_height ? c->dst_height : c->dst_y + c->height;
  bool has_planes = c->depth > 1 || c->src_z || c->dst_z;
  if (!src || !dst || c->height > INT32_MAX || c->depth > INT32_MAX ||
      src_pitch < c->src_x + c->width ||
      dst_pitch < c->dst_x + c->width || src_pitch > INT32_MAX ||
      dst_pitch > INT32_MAX ||
      (has_planes && (src_rows < c->src_y + c->height ||
                      dst_rows < c->dst_y + c->height)))
    return RCUDA_INVALID_VALUE;
  *op = copy_op(name, 0, 0, c->width);
  op->src_is_device = c->src_type == RCUDA_MEMORY_DEVICE;
  op->dst_is_device = c->dst_type == RCUDA_MEMORY_DEVICE;
  op->rows = c->height;
  op->planes = c->depth;
  op->src_pitch = src_pitch;
  op->dst_pitch = dst_pitch;
  op->src_plane = src_pitch * src_rows;
  op->dst_plane = dst_pitch * dst_rows;
  op->src = src + c->src_z * op->src_plane + c->src_y * src_pitch + c->src_x;
  op->dst = dst + c->dst_z * op->dst_plane + c->dst_y * dst_pitch + c->dst_x;
  return 0;
}

static int copy_box(const char *name, const rcuda_copy3d_t *c,
                    const void *stream, bool is_sync) {
  sim_ctx_t *ctx;
  sim_op_run_t op;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!c) return sim_leave(RCUDA_INVALID_VALUE);
  code = sim_copy_op(name, c, &op);
  if (code) return sim_leave(code);
  if (!c->width || !c->height || !c->depth) return sim_leave(0);
  return sim_leave(submit_copy(ctx, &op, stream, is_sync));
}

static int copy2d(const char *name, const rcuda_copy2d_t *c,
                  const void *stream, bool is_sync) {
  if (!c) return copy_box(name, NULL, stream, is_sync);
  rcuda_copy3d_t box = {.src_x = c->src_x, .src_y = c->src_y,
                        .src_type = c->src_type, .src_host = c->src_host,
                        .src_device = c->src_device,
                        .src_pitch = c->src_pitch, .dst_x = c->dst_x,
                        .dst_y = c->dst_y, .dst_type = c->dst_type,
                        .dst_host = c->dst_host,
                        .dst_device = c->dst_device,
                        .dst_pitch = c->dst_pitch, .width = c->width,
                        .height = c->height, .depth = 1};
  return copy_box(name, &box, stream, is_sync);
}

SIM_EXPORT int cuMemcpy2D_v2(const rcuda_copy2d_t *c) {
  SIM_ARGS(c);
  return copy2d("cuMemcpy2D_v2", c, NULL, true);
}
SIM_EXPORT int cuMemcpy2DUnaligned_v2(const rcuda_copy2d_t *c) {
  SIM_ARGS(c);
  return copy2d("cuMemcpy2DUnaligned_v2", c, NULL, true);
}
SIM_EXPORT int cuMemcpy2DAsync_v2(const rcuda_copy2d_t *c,
                                  rcuda_stream_t *stream) {
  SIM_ARGS(c, stream);
  return copy2d("cuMemcpy2DAsync_v2", c, stream, false);
}

SIM_EXPORT int cuMemcpy3D_v2(const rcuda_copy3d_t *c) {
  SIM_ARGS(c);
  return copy_box("cuMemcpy3D_v2", c, NULL, true);
}
SIM_EXPORT int cuMemcpy3DAsync_v2(const rcuda_copy3d_t *c,
                                  rcuda_stream_t *stream) {
  SIM_ARGS(c, stream);
  return copy_box("cuMemcpy3DAsync_v2", c, stream, false);
}

/* -- fills -- */

int sim_fill_op(const char *name, uint64_t dst, size_t pitch, uint32_t value,
                uint32_t element, size_t width, size_t height,
                sim_op_run_t *op) {
  if (!dst || dst % element || width > SIZE_MAX / element ||
      (height > 1 && (pitch % element || pitch < width * element)))
    return RCUDA_INVALID_VALUE;
  sim_op_run_t fill = {.kind = SIM_RUN_FILL, .name = name, .dst = dst,
                       .value = value, .width = element,
                       .dst_is_device = true, .bytes = width * element,
                       .rows = height, .dst_pitch = pitch};
  *op = fill;
  return 0;
}

static int fill(const char *name, uint64_t dst, size_t pitch, uint32_t value,
                uint32_t element, size_t width, size_t height,
                const void *stream) {
  sim_ctx_t *ctx;
  sim_op_run_t op;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!width || !height) return sim_leave(0);
  code = sim_fill_op(name, dst, pitch, value, element, width, height, &op);
  sim_stream_t *s = NULL;
  if (!code && !sim_stream_of(stream, &s)) code = RCUDA_INVALID_HANDLE;
  if (!code) code = sim_check_ranges(ctx, &op, s && s->graph);
  if (code) return sim_leave(code);
  return sim_leave(sim_submit(ctx, stream, &op));
}

SIM_EXPORT int cuMemsetD8_v2(uint64_t dst, unsigned char v, size_t n) {
  SIM_ARGS(dst, v, n);
  return fill("cuMemsetD8_v2", dst, 0, v, 1, n, 1, NULL);
}
SIM_EXPORT int cuMemsetD16_v2(uint64_t dst, unsigned short v, size_t n) {
  SIM_ARGS(dst, v, n);
  return fill("cuMemsetD16_v2", dst, 0, v, 2, n, 1, NULL);
}
SIM_EXPORT int cuMemsetD32_v2(uint64_t dst, unsigned v, size_t n) {
  SIM_ARGS(dst, v, n);
  return fill("cuMemsetD32_v2", dst, 0, v, 4, n, 1, NULL);
}
SIM_EXPORT int cuMemsetD8Async(uint64_t dst, unsigned char v, size_t n,
                               rcuda_stream_t *stream) {
  SIM_ARGS(dst, v, n, stream);
  return fill("cuMemsetD8Async", dst, 0, v, 1, n, 1, stream);
}
SIM_EXPORT int cuMemsetD16Async(uint64_t dst, unsigned short v, size_t n,
                                rcuda_stream_t *stream) {
  SIM_ARGS(dst, v, n, stream);
  return fill("cuMemsetD16Async", dst, 0, v, 2, n, 1, stream);
}
SIM_EXPORT int cuMemsetD32Async(uint64_t dst, unsigned v, size_t n,
                                rcuda_stream_t *stream) {
  SIM_ARGS(dst, v, n, stream);
  return fill("cuMemsetD32Async", dst, 0, v, 4, n, 1, stream);
}
SIM_EXPORT int cuMemsetD2D8_v2(uint64_t dst, size_t pitch, unsigned char v,
                               size_t width, size_t height) {
  SIM_ARGS(dst, pitch, v, width, height);
  return fill("cuMemsetD2D8_v2", dst, pitch, v, 1, width, height, NULL);
}
SIM_EXPORT int cuMemsetD2D32_v2(uint64_t dst, size_t pitch, unsigned v,
                                size_t width, size_t height) {
  SIM_ARGS(dst, pitch, v, width, height);
  return fill("cuMemsetD2D32_v2", dst, pitch, v, 4, width, height, NULL);
}
SIM_EXPORT int cuMemsetD2D16_v2(uint64_t dst, size_t pitch, unsigned short v,
                                size_t width, size_t height) {
  SIM_ARGS(dst, pitch, v, width, height);
  return fill("cuMemsetD2D16_v2", dst, pitch, v, 2, width, height, NULL);
}
SIM_EXPORT int cuMemsetD2D8Async(uint64_t dst, size_t pitch, unsigned char v,
                                 size_t width, size_t height,
                                 rcuda_stream_t *stream) {
  SIM_ARGS(dst, pitch, v, width, height, stream);
  return fill("cuMemsetD2D8Async", dst, pitch, v, 1, width, height, stream);
}
SIM_EXPORT int cuMemsetD2D16Async(uint64_t dst, size_t pitch,
                                  unsigned short v, size_t width,
                                  size_t height, rcuda_stream_t *stream) {
  SIM_ARGS(dst, pitch, v, width, height, stream);
  return fill("cuMemsetD2D16Async", dst, pitch, v, 2, width, height, stream);
}
SIM_EXPORT int cuMemsetD2D32Async(uint64_t dst, size_t pitch, unsigned v,
                                  size_t width, size_t height,
                                  rcuda_stream_t *stream) {
  SIM_ARGS(dst, pitch, v, width, height, stream);
  return fill("cuMemsetD2D32Async", dst, pitch, v, 4, width, height, stream);
}
