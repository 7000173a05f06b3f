/* Exported cu* functions: memory of devices and of the host, pointers. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>
#include <unistd.h>

/* -- allocation -- */

static sim_alloc_t *pinned(const void *host) {
  sim_alloc_t *a = sim_alloc_find(&sim_state()->memory,
                                  (uint64_t)(uintptr_t)host);
  return a && a->is_live && a->kind == SIM_ALLOC_HOST ? a : NULL;
}

static int allocate(sim_ctx_t *ctx, uint64_t *out, size_t bytes) {
  if (!out || !bytes) return RCUDA_INVALID_VALUE;
  uint32_t device = ctx->device;
  sim_alloc_t *a = sim_device_alloc(ctx, bytes, SIM_ALLOC_DEVICE);
  if (!a) {
    /* stream-ordered frees may be queued, and pools may hold memory */
    int code = sim_wait_ctx(ctx->handle);
    if (code) return code;
    sim_pools_trim(device, 0);
    a = sim_device_alloc(ctx, bytes, SIM_ALLOC_DEVICE);
  }
  if (!a) return RCUDA_OUT_OF_MEMORY;
  *out = a->address;
  return 0;
}

/* The live allocation that starts at the address and is not already given
   back; NULL with a finding. */
sim_alloc_t *sim_to_release(const char *call, uint64_t address) {
  const sim_memory_t *memory = &sim_state()->memory;
  sim_alloc_t *a = sim_alloc_find(memory, address);
  bool is_live = a && (a->is_kept ? a->is_given : a->is_live);
  if (is_live && a->address == address && !a->is_ending && !a->is_mapped &&
      (a->kind == SIM_ALLOC_DEVICE || a->is_managed))
    return a;
  if (is_live && a->is_ending)
    sim_host_finding(SIM_CHECK_MEM_FREE, call, address, 0,
                     "allocation %u is already freed in stream order", a->id);
  else if (a && !is_live)
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
int sim_end_now(sim_ctx_t *ctx, sim_run_kind_t kind, const char *call,
                uint64_t address, uint64_t bytes) {
  sim_op_run_t op = {.kind = kind, .name = call, .ctx = ctx->handle,
                     .call = sim_state()->calls, .dst = address,
                     .bytes = bytes};
  uint32_t lane = ctx->free_lane;
  uint64_t owner = ctx->handle;
  int code = sim_queue_add(lane, &op, NULL, NULL);
  if (code) return code;
  sim_wait_others(owner, lane);
  return sim_wait(owner, &sim_lane_of(lane)->clock);
}

static int release(sim_ctx_t *ctx, const char *call, uint64_t address) {
  if (!address) return 0;
  int code = sim_no_capture();
  if (code) return code;
  sim_alloc_t *a = sim_to_release(call, address);
  if (!a) return RCUDA_INVALID_VALUE;
  void *managed = a->is_managed ? a->host : NULL;
  a->is_given = false;
  code = sim_end_now(ctx, SIM_RUN_FREE, call, address, a->bytes);
  if (managed && !pinned(managed)) free(managed);
  return code;
}

SIM_EXPORT int cuMemAlloc_v2(uint64_t *out, size_t bytes) {
  SIM_ARGS(out, bytes);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemAlloc_v2", &ctx);
  if (code) return code;
  code = sim_no_capture();
  return sim_leave(code ? code : allocate(ctx, out, bytes));
}

SIM_EXPORT int cuMemAllocPitch_v2(uint64_t *out, size_t *pitch, size_t width,
                                  size_t height, unsigned element) {
  SIM_ARGS(out, pitch, width, height, element);
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
  SIM_ARGS(address);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemFree_v2", &ctx);
  return code ? code : sim_leave(release(ctx, "cuMemFree", address));
}

SIM_EXPORT int cuMemGetInfo_v2(size_t *available, size_t *total) {
  SIM_ARGS(available, total);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemGetInfo_v2", &ctx);
  if (code) return code;
  sim_state_t *s = sim_state();
  uint64_t limit = s->options.memory ? s->options.memory : s->row->memory;
  if (available)
    *available = limit - s->live_bytes[ctx->device] -
                 s->cached_bytes[ctx->device];
  if (total) *total = limit;
  return sim_leave(0);
}

SIM_EXPORT int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes,
                                       uint64_t address) {
  SIM_ARGS(base, bytes, address);
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

static int own_pages(sim_ctx_t *ctx, size_t bytes, void **out) {
  void *host = NULL;
  /* poison touches every page: more than there is must fail here */
  if (bytes / 4096 >= (size_t)sysconf(_SC_PHYS_PAGES))
    return RCUDA_OUT_OF_MEMORY;
  if (posix_memalign(&host, 4096, bytes)) return RCUDA_OUT_OF_MEMORY;
  memset(host, SIM_POISON, bytes);
  int code = pin(ctx, host, bytes, true);
  if (code)
    free(host);
  else
    *out = host;
  return code;
}

static int host_alloc(const char *name, void **out, size_t bytes,
                      unsigned flags) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!out || !bytes || flags > 7) return sim_leave(RCUDA_INVALID_VALUE);
  code = sim_no_capture();
  if (code) return sim_leave(code);
  return sim_leave(own_pages(ctx, bytes, out));
}

/* One copy that host and devices share: the host's. Since work runs when the
   host waits for it, the host touches it between, never during, launches. */
SIM_EXPORT int cuMemAllocManaged(uint64_t *out, size_t bytes,
                                 unsigned flags) {
  SIM_ARGS(out, bytes, flags);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemAllocManaged", &ctx);
  if (code) return code;
  if (!out || !bytes ||
      (flags != RCUDA_ATTACH_GLOBAL && flags != RCUDA_ATTACH_HOST))
    return sim_leave(RCUDA_INVALID_VALUE);
  code = sim_no_capture();
  if (code) return sim_leave(code);
  void *host = NULL;
  code = own_pages(ctx, bytes, &host);
  if (code) return sim_leave(code);
  pinned(host)->is_managed = true;
  *out = (uint64_t)(uintptr_t)host;
  return sim_leave(0);
}

SIM_EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  SIM_ARGS(out, bytes, flags);
  return host_alloc("cuMemHostAlloc", out, bytes, flags);
}

SIM_EXPORT int cuMemAllocHost_v2(void **out, size_t bytes) {
  SIM_ARGS(out, bytes);
  return host_alloc("cuMemAllocHost_v2", out, bytes, 0);
}

SIM_EXPORT int cuMemFreeHost(void *host) {
  SIM_ARGS(host);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemFreeHost", &ctx);
  if (code) return code;
  sim_alloc_t *a = pinned(host);
  if (!a || !a->name || a->host != host || a->is_managed)
    return sim_leave(RCUDA_INVALID_VALUE);
  code = sim_no_capture();
  if (!code)
    code = sim_end_now(ctx, SIM_RUN_FREE, "cuMemFreeHost", a->address,
                       a->bytes);
  if (!pinned(host)) free(host);
  return sim_leave(code);
}

SIM_EXPORT int cuMemHostRegister_v2(void *host, size_t bytes,
                                    unsigned flags) {
  SIM_ARGS(host, bytes, flags);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemHostRegister_v2", &ctx);
  if (code) return code;
  uint64_t first = (uint64_t)(uintptr_t)host;
  if (!host || !bytes || flags > 15 || bytes > UINT64_MAX - first ||
      sim_is_device_address(first))
    return sim_leave(RCUDA_INVALID_VALUE);
  if (pinned(host) || pinned((const char *)host + (bytes - 1)))
    return sim_leave(RCUDA_HOST_REGISTERED);
  return sim_leave(pin(ctx, host, bytes, false));
}

SIM_EXPORT int cuMemHostUnregister(void *host) {
  SIM_ARGS(host);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemHostUnregister", &ctx);
  if (code) return code;
  sim_alloc_t *a = pinned(host);
  if (!a || a->name || a->host != host)
    return sim_leave(RCUDA_HOST_NOT_REGISTERED);
  return sim_leave(sim_end_now(ctx, SIM_RUN_FREE, "cuMemHostUnregister",
                               a->address, a->bytes));
}

SIM_EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *out, void *host,
                                            unsigned flags) {
  SIM_ARGS(out, host, flags);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuMemHostGetDevicePointer_v2", &ctx);
  if (code) return code;
  if (!out || flags || !pinned(host)) return sim_leave(RCUDA_INVALID_VALUE);
  *out = (uint64_t)(uintptr_t)host;
  return sim_leave(0);
}

static void clear_attribute(int attribute, void *out) {
  bool is_byte = attribute == RCUDA_POINTER_IS_MANAGED ||
                 attribute == RCUDA_POINTER_MAPPED;
  bool is_word = attribute == RCUDA_POINTER_MEMORY_TYPE ||
                 attribute == RCUDA_POINTER_ACCESS_FLAGS ||
                 attribute == RCUDA_POINTER_DEVICE_ORDINAL;
  memset(out, 0, is_byte ? 1 : is_word ? 4 : 8);
}

/* Fills *out; its size depends on the attribute. */
static int pointer_attribute(const sim_alloc_t *a, int attribute,
                             uint64_t address, void *out) {
  uint64_t wide = 0;
  uint32_t narrow = 0;
  bool is_wide = false;
  uint8_t yes;
  switch (attribute) {
  case RCUDA_POINTER_CONTEXT: wide = a->context, is_wide = true; break;
  case RCUDA_POINTER_MEMORY_TYPE:
    narrow = a->kind == SIM_ALLOC_HOST && !a->is_managed
                 ? RCUDA_MEMORY_HOST
                 : RCUDA_MEMORY_DEVICE;
    break;
  case RCUDA_POINTER_DEVICE_POINTER: wide = address, is_wide = true; break;
  case RCUDA_POINTER_HOST_POINTER:
    if (a->kind != SIM_ALLOC_HOST) return RCUDA_INVALID_VALUE;
    wide = address, is_wide = true;
    break;
  case RCUDA_POINTER_BUFFER_ID: wide = a->id, is_wide = true; break;
  case RCUDA_POINTER_IS_MANAGED: /* a byte, as the next but one */
  case RCUDA_POINTER_MAPPED:
    yes = attribute == RCUDA_POINTER_MAPPED || a->is_managed;
    memcpy(out, &yes, 1);
    return 0;
  case RCUDA_POINTER_DEVICE_ORDINAL: narrow = a->device; break;
  case RCUDA_POINTER_RANGE_START: wide = a->address, is_wide = true; break;
  case RCUDA_POINTER_RANGE_BYTES: wide = a->bytes, is_wide = true; break;
  case RCUDA_POINTER_ACCESS_FLAGS:
    narrow = sim_alloc_may(a, sim_current()->device, sim_current()->peers,
                           true)
                 ? RCUDA_ACCESS_BOTH
             : sim_alloc_may(a, sim_current()->device, sim_current()->peers,
                             false)
                 ? RCUDA_ACCESS_READ
                 : RCUDA_ACCESS_NONE;
    break;
  case RCUDA_POINTER_MEMPOOL: wide = a->pool, is_wide = true; break;
  default: return RCUDA_NOT_SUPPORTED;
  }
  if (is_wide)
    memcpy(out, &wide, sizeof wide);
  else
    memcpy(out, &narrow, sizeof narrow);
  return 0;
}

SIM_EXPORT int cuPointerGetAttribute(void *out, int attribute,
                                     uint64_t address) {
  SIM_ARGS(out, attribute, address);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuPointerGetAttribute", &ctx);
  if (code) return code;
  const sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, address);
  if (!out || !a || !a->is_live) return sim_leave(RCUDA_INVALID_VALUE);
  return sim_leave(pointer_attribute(a, attribute, address, out));
}

/* Several at once. An address that the driver does not know is no error: what
   is asked stays zero. */
SIM_EXPORT int cuPointerGetAttributes(unsigned count, int *attributes,
                                      void **data, uint64_t address) {
  SIM_ARGS(count, attributes, data, address);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuPointerGetAttributes", &ctx);
  if (code) return code;
  if (!count || !attributes || !data) return sim_leave(RCUDA_INVALID_VALUE);
  sim_alloc_t nobody = {.is_managed = false};
  const sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, address);
  bool is_known = a && a->is_live;
  for (unsigned i = 0; i < count; i++) {
    uint64_t value = 0;
    if (!data[i]) return sim_leave(RCUDA_INVALID_VALUE);
    code = pointer_attribute(is_known ? a : &nobody, attributes[i], address,
                             is_known ? data[i] : &value);
    if (code == RCUDA_NOT_SUPPORTED) return sim_leave(RCUDA_INVALID_VALUE);
    if (!is_known || code) clear_attribute(attributes[i], data[i]);
  }
  return sim_leave(0);
}
