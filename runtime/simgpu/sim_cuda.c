/* Exported cu* functions: start, devices, contexts. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

/* -- start -- */

SIM_EXPORT int cuInit(unsigned flags) {
  SIM_ARGS(flags);
  int code = sim_enter("cuInit", false);
  if (code) return code;
  sim_state_t *s = sim_state();
  if (flags) return sim_leave(RCUDA_INVALID_VALUE);
  if (!s->has_key) return sim_leave(RCUDA_OUT_OF_MEMORY);
  /* a misspelled mode must not pass for the default one */
  if (!sim_options_usable()) return sim_leave(RCUDA_INVALID_VALUE);
  s->is_up = true;
  return sim_leave(0);
}

SIM_EXPORT int cuDriverGetVersion(int *out) {
  SIM_ARGS(out);
  int code = sim_enter("cuDriverGetVersion", false);
  if (code) return code;
  if (out) *out = 13000;
  return sim_leave(out ? 0 : RCUDA_INVALID_VALUE);
}

static const struct {
  int code;
  const char *name, *text;
} errors[] = {
#define SIM_ERROR(code, name, text) {code, #name, text},
#include "runtime/simgpu/sim_errors.def"
#undef SIM_ERROR
};

SIM_EXPORT int cuGetErrorName(int code, const char **out) {
  SIM_ARGS(code, out);
  int mine = sim_enter("cuGetErrorName", false);
  if (mine) return mine;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = NULL;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == code) *out = errors[i].name;
  return sim_leave(*out ? 0 : RCUDA_INVALID_VALUE);
}

SIM_EXPORT int cuGetErrorString(int code, const char **out) {
  SIM_ARGS(code, out);
  int mine = sim_enter("cuGetErrorString", false);
  if (mine) return mine;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = NULL;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == code) *out = errors[i].text;
  return sim_leave(*out ? 0 : RCUDA_INVALID_VALUE);
}

/* -- devices -- */

bool sim_is_device(int device) {
  return device >= 0 && (uint32_t)device < sim_state()->device_count;
}

SIM_EXPORT int cuDeviceGetCount(int *out) {
  SIM_ARGS(out);
  int code = sim_enter("cuDeviceGetCount", true);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = (int)sim_state()->device_count;
  return sim_leave(0);
}

SIM_EXPORT int cuDeviceGet(int *out, int ordinal) {
  SIM_ARGS(out, ordinal);
  int code = sim_enter("cuDeviceGet", true);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(ordinal)) return sim_leave(RCUDA_INVALID_DEVICE);
  *out = ordinal;
  return sim_leave(0);
}

SIM_EXPORT int cuDeviceGetName(char *out, int length, int device) {
  SIM_ARGS(out, length, device);
  int code = sim_enter("cuDeviceGetName", true);
  if (code) return code;
  if (!out || length <= 0) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  td_buf_t buf;
  td_buf_init_fixed(&buf, out, (size_t)length);
  td_buf_puts(&buf, sim_state()->row->name);
  return sim_leave(0);
}

SIM_EXPORT int cuDeviceGetUuid_v2(rcuda_uuid_t *out, int device) {
  SIM_ARGS(out, device);
  int code = sim_enter("cuDeviceGetUuid_v2", true);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  memset(out, 0, sizeof *out);
  memcpy(out->bytes, "simgpu", 6);
  memcpy(out->bytes + 8, sim_state()->row->key,
         strlen(sim_state()->row->key));
  out->bytes[15] = (char)device;
  return sim_leave(0);
}

SIM_EXPORT int cuDeviceTotalMem_v2(size_t *out, int device) {
  SIM_ARGS(out, device);
  int code = sim_enter("cuDeviceTotalMem_v2", true);
  if (code) return code;
  sim_state_t *s = sim_state();
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  *out = s->options.memory ? s->options.memory : s->row->memory;
  return sim_leave(0);
}

SIM_EXPORT int cuDeviceGetPCIBusId(char *out, int length, int device) {
  SIM_ARGS(out, length, device);
  int code = sim_enter("cuDeviceGetPCIBusId", true);
  if (code) return code;
  if (!out || length < 13) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  td_buf_t buf;
  td_buf_init_fixed(&buf, out, (size_t)length);
  td_buf_printf(&buf, "0000:%02x:00.0", device + 1);
  return sim_leave(0);
}

/* Simulated devices of one process are all linked to each other. */
SIM_EXPORT int cuDeviceCanAccessPeer(int *out, int device, int peer) {
  SIM_ARGS(out, device, peer);
  int code = sim_enter("cuDeviceCanAccessPeer", true);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device) || !sim_is_device(peer))
    return sim_leave(RCUDA_INVALID_DEVICE);
  *out = device != peer;
  return sim_leave(0);
}

SIM_EXPORT int cuDeviceGetP2PAttribute(int *out, int attribute, int device,
                                       int peer) {
  SIM_ARGS(out, attribute, device, peer);
  int code = sim_enter("cuDeviceGetP2PAttribute", true);
  if (code) return code;
  if (!out || attribute < 1 || attribute > 5)
    return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device) || !sim_is_device(peer) || device == peer)
    return sim_leave(RCUDA_INVALID_DEVICE);
  *out = attribute != 4; /* 4: arrays, which do not exist here */
  return sim_leave(0);
}

/* -- contexts: a stack for each host thread -- */

sim_ctx_t *sim_current(void) {
  sim_thread_t *stack = sim_thread();
  if (!stack || stack->depth == 0) return NULL;
  return sim_handle_number(SIM_TYPE_CTX, stack->handles[stack->depth - 1]);
}

int *sim_thread_mode(void) {
  sim_thread_t *stack = sim_thread();
  return stack ? &stack->mode : NULL;
}

static bool push(uint64_t handle) {
  sim_thread_t *stack = sim_thread();
  if (!stack || stack->depth == 64) return false;
  stack->handles[stack->depth++] = handle;
  return true;
}

static sim_ctx_t *new_ctx(int device, unsigned flags, bool is_primary) {
  sim_ctx_t *ctx = calloc(1, sizeof *ctx);
  if (!ctx) return NULL;
  ctx->device = (uint32_t)device;
  ctx->flags = flags;
  ctx->is_primary = is_primary;
  ctx->peers = UINT64_C(1) << device;
  ctx->limits[0] = 1024;
  ctx->limits[1] = 1 << 20;
  ctx->limits[2] = 8 << 20;
  ctx->handle = sim_handle_new(SIM_TYPE_CTX, ctx);
  if (!ctx->handle) {
    free(ctx);
    return NULL;
  }
  ctx->lane = sim_lane_new(ctx->handle, false, true);
  ctx->free_lane = sim_lane_new(ctx->handle, false, false);
  if (ctx->lane == UINT32_MAX || ctx->free_lane == UINT32_MAX) {
    sim_queue_drop_ctx(ctx->handle);
    sim_handle_drop(ctx->handle);
    free(ctx);
    return NULL;
  }
  return ctx;
}

/* Copies into pinned memory that nobody has waited for. */
static void report_unobserved(const sim_ctx_t *ctx) {
  const sim_queue_t *q = &sim_state()->queue;
  for (uint32_t i = 0; i < q->lane_count; i++) {
    if (q->lanes[i]->ctx != ctx->handle) continue;
    for (const sim_queued_t *p = q->lanes[i]->head; p; p = p->next) {
      if (p->op.kind != SIM_RUN_COPY || sim_is_device_address(p->op.dst))
        continue;
      sim_host_finding(SIM_CHECK_ORDER_HOST, p->op.name, p->op.dst,
                       p->op.bytes,
                       "the context ends and the host never waited for the "
                       "copy of call %llu",
                       (unsigned long long)p->op.call);
    }
  }
}

/* Everything of the context dies with it; allocations are reported. */
static void destroy_ctx(sim_ctx_t *ctx, bool reports) {
  sim_state_t *s = sim_state();
  if (reports && !ctx->sticky) report_unobserved(ctx);
  uint64_t handle = ctx->handle;
  sim_queue_wait_ctx(handle);
  ctx = sim_handle_number(SIM_TYPE_CTX, handle);
  if (!ctx) return; /* a host function was queued, and its time used */
  sim_queue_drop_ctx(handle);
  uint64_t count = 0, bytes = 0, first = 0;
  for (size_t i = 0; i < s->memory.count;) {
    sim_alloc_t *a = s->memory.list[i];
    if (a->is_live && a->context == ctx->handle &&
        a->kind != SIM_ALLOC_PARAM) {
      if (a->kind == SIM_ALLOC_DEVICE || a->kind == SIM_ALLOC_HOST) {
        count++;
        bytes += a->bytes;
        if (!first) first = a->address;
      }
      bool is_host = a->kind == SIM_ALLOC_HOST;
      void *host = a->host;
      sim_device_free(a);
      if (is_host && a->name) free(host); /* made by cuMemAllocHost */
      i = 0; /* releasing may have dropped older records */
    } else {
      i++;
    }
  }
  if (count && reports && !ctx->sticky)
    sim_host_finding(SIM_CHECK_MEM_LEAK, "context end", first, bytes,
                     "%llu allocations of %llu bytes were not freed",
                     (unsigned long long)count, (unsigned long long)bytes);
  for (size_t i = 0; i < s->slot_count; i++) {
    sim_slot_t *slot = &s->slots[i];
    if (slot->object) sim_drop_object(slot, ctx->handle);
  }
  sim_handle_drop(ctx->handle);
  free(ctx);
}

/* One way to wait at most (none, 1, 2 or 4) and the others up to 0x80. */
static bool are_ctx_flags(unsigned flags) {
  unsigned waits = flags & 7u;
  return flags <= 0xFF && (waits & (waits - 1)) == 0;
}

SIM_EXPORT int cuCtxCreate_v4(rcuda_ctx_t **out,
                              const rcuda_ctx_params_t *params,
                              unsigned flags, int device) {
  SIM_ARGS(out, params, flags, device);
  int code = sim_enter("cuCtxCreate_v4", true);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  if (!are_ctx_flags(flags)) return sim_leave(RCUDA_INVALID_VALUE);
  if (params && (params->affinity_count || params->graphics))
    return sim_leave(RCUDA_NOT_SUPPORTED);
  sim_ctx_t *ctx = new_ctx(device, flags, false);
  if (!ctx || !push(ctx->handle)) return sim_leave(RCUDA_OUT_OF_MEMORY);
  *out = (rcuda_ctx_t *)(uintptr_t)ctx->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuCtxCreate_v2(rcuda_ctx_t **out, unsigned flags,
                              int device) {
  SIM_ARGS(out, flags, device);
  return cuCtxCreate_v4(out, NULL, flags, device);
}

SIM_EXPORT int cuCtxDestroy_v2(rcuda_ctx_t *handle) {
  SIM_ARGS(handle);
  int code = sim_enter("cuCtxDestroy_v2", true);
  if (code) return code;
  sim_ctx_t *ctx = sim_handle_get(SIM_TYPE_CTX, handle);
  if (!ctx || ctx->is_primary) return sim_leave(RCUDA_INVALID_CONTEXT);
  sim_thread_t *stack = sim_thread();
  if (stack && stack->depth &&
      stack->handles[stack->depth - 1] == ctx->handle)
    stack->depth--;
  destroy_ctx(ctx, true);
  return sim_leave(0);
}

SIM_EXPORT int cuCtxPushCurrent_v2(rcuda_ctx_t *handle) {
  SIM_ARGS(handle);
  int code = sim_enter("cuCtxPushCurrent_v2", true);
  if (code) return code;
  if (!sim_handle_get(SIM_TYPE_CTX, handle))
    return sim_leave(RCUDA_INVALID_CONTEXT);
  return sim_leave(push((uint64_t)(uintptr_t)handle) ? 0
                                                     : RCUDA_INVALID_VALUE);
}

SIM_EXPORT int cuCtxPopCurrent_v2(rcuda_ctx_t **out) {
  SIM_ARGS(out);
  int code = sim_enter("cuCtxPopCurrent_v2", true);
  if (code) return code;
  sim_thread_t *stack = sim_thread();
  if (!stack || !stack->depth) return sim_leave(RCUDA_INVALID_CONTEXT);
  uint64_t handle = stack->handles[--stack->depth];
  if (out) *out = (rcuda_ctx_t *)(uintptr_t)handle;
  return sim_leave(0);
}

SIM_EXPORT int cuCtxSetCurrent(rcuda_ctx_t *handle) {
  SIM_ARGS(handle);
  int code = sim_enter("cuCtxSetCurrent", true);
  if (code) return code;
  sim_thread_t *stack = sim_thread();
  if (!stack) return sim_leave(RCUDA_OUT_OF_MEMORY);
  if (!handle) {
    if (stack->depth) stack->depth--;
    return sim_leave(0);
  }
  if (!sim_handle_get(SIM_TYPE_CTX, handle))
    return sim_leave(RCUDA_INVALID_CONTEXT);
  if (!stack->depth) stack->depth = 1;
  stack->handles[stack->depth - 1] = (uint64_t)(uintptr_t)handle;
  return sim_leave(0);
}

SIM_EXPORT int cuCtxGetCurrent(rcuda_ctx_t **out) {
  SIM_ARGS(out);
  int code = sim_enter("cuCtxGetCurrent", true);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  sim_ctx_t *ctx = sim_current();
  *out = ctx ? (rcuda_ctx_t *)(uintptr_t)ctx->handle : NULL;
  return sim_leave(0);
}

SIM_EXPORT int cuCtxGetDevice(int *out) {
  SIM_ARGS(out);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuCtxGetDevice", &ctx);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = (int)ctx->device;
  return sim_leave(0);
}

SIM_EXPORT int cuCtxGetFlags(unsigned *out) {
  SIM_ARGS(out);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuCtxGetFlags", &ctx);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = ctx->flags;
  return sim_leave(0);
}

SIM_EXPORT int cuCtxSynchronize(void) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuCtxSynchronize", &ctx);
  if (code) return code;
  code = sim_no_capture();
  return sim_leave(code ? code : sim_wait_ctx(ctx->handle));
}

SIM_EXPORT int cuCtxGetLimit(size_t *out, int limit) {
  SIM_ARGS(out, limit);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuCtxGetLimit", &ctx);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  if (limit < 0 || limit > 2) return sim_leave(215);
  *out = ctx->limits[limit];
  return sim_leave(0);
}

SIM_EXPORT int cuCtxSetLimit(int limit, size_t value) {
  SIM_ARGS(limit, value);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuCtxSetLimit", &ctx);
  if (code) return code;
  if (limit < 0 || limit > 2) return sim_leave(215);
  ctx->limits[limit] = value;
  return sim_leave(0);
}

SIM_EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  SIM_ARGS(least, greatest);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuCtxGetStreamPriorityRange", &ctx);
  if (code) return code;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return sim_leave(0);
}

SIM_EXPORT int cuCtxEnablePeerAccess(rcuda_ctx_t *peer, unsigned flags) {
  SIM_ARGS(peer, flags);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuCtxEnablePeerAccess", &ctx);
  if (code) return code;
  sim_ctx_t *other = sim_handle_get(SIM_TYPE_CTX, peer);
  if (!other) return sim_leave(RCUDA_INVALID_CONTEXT);
  if (flags || other->device == ctx->device)
    return sim_leave(RCUDA_INVALID_VALUE);
  if (ctx->peers >> other->device & 1) return sim_leave(RCUDA_PEER_ENABLED);
  ctx->peers |= UINT64_C(1) << other->device;
  return sim_leave(0);
}

SIM_EXPORT int cuCtxDisablePeerAccess(rcuda_ctx_t *peer) {
  SIM_ARGS(peer);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuCtxDisablePeerAccess", &ctx);
  if (code) return code;
  sim_ctx_t *other = sim_handle_get(SIM_TYPE_CTX, peer);
  if (!other) return sim_leave(RCUDA_INVALID_CONTEXT);
  if (other->device == ctx->device || !(ctx->peers >> other->device & 1))
    return sim_leave(RCUDA_PEER_NOT_ENABLED);
  ctx->peers &= ~(UINT64_C(1) << other->device);
  return sim_leave(0);
}

/* -- primary contexts -- */

sim_ctx_t *sim_primary(int device) {
  sim_state_t *s = sim_state();
  sim_ctx_t *ctx = sim_handle_number(SIM_TYPE_CTX, s->primary[device]);
  if (ctx) return ctx;
  ctx = new_ctx(device, s->primary_flags[device], true);
  if (!ctx) return NULL;
  s->primary[device] = ctx->handle;
  s->primary_uses[device] = 0;
  return ctx;
}

SIM_EXPORT int cuDevicePrimaryCtxRetain(rcuda_ctx_t **out, int device) {
  SIM_ARGS(out, device);
  int code = sim_enter("cuDevicePrimaryCtxRetain", true);
  if (code) return code;
  sim_state_t *s = sim_state();
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  if (!sim_primary(device)) return sim_leave(RCUDA_OUT_OF_MEMORY);
  s->primary_uses[device]++;
  *out = (rcuda_ctx_t *)(uintptr_t)s->primary[device];
  return sim_leave(0);
}

static void end_primary(int device) {
  sim_state_t *s = sim_state();
  sim_ctx_t *ctx = sim_handle_number(SIM_TYPE_CTX, s->primary[device]);
  if (ctx) destroy_ctx(ctx, true);
  s->primary[device] = 0;
  s->primary_uses[device] = 0;
}

SIM_EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  SIM_ARGS(device);
  int code = sim_enter("cuDevicePrimaryCtxRelease_v2", true);
  if (code) return code;
  sim_state_t *s = sim_state();
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  if (!s->primary_uses[device]) return sim_leave(RCUDA_INVALID_CONTEXT);
  if (--s->primary_uses[device] == 0) end_primary(device);
  return sim_leave(0);
}

SIM_EXPORT int cuDevicePrimaryCtxReset_v2(int device) {
  SIM_ARGS(device);
  int code = sim_enter("cuDevicePrimaryCtxReset_v2", true);
  if (code) return code;
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  end_primary(device);
  return sim_leave(0);
}

SIM_EXPORT int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  SIM_ARGS(device, flags);
  int code = sim_enter("cuDevicePrimaryCtxSetFlags_v2", true);
  if (code) return code;
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  if (!are_ctx_flags(flags)) return sim_leave(RCUDA_INVALID_VALUE);
  sim_state()->primary_flags[device] = flags;
  return sim_leave(0);
}

SIM_EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags,
                                          int *active) {
  SIM_ARGS(device, flags, active);
  int code = sim_enter("cuDevicePrimaryCtxGetState", true);
  if (code) return code;
  sim_state_t *s = sim_state();
  if (!flags || !active) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  *flags = s->primary_flags[device];
  *active = s->primary_uses[device] != 0;
  return sim_leave(0);
}
