/* Exported cu* functions: stream-ordered memory and its pools.

   Memory lives from its place in one stream to its place in another. Addresses
   are never given out again, so a pool keeps *bytes*: what a stream gave back
   stays reserved, and a later allocation takes it only if the free comes
   before it: in the same stream, by an event, or because the host waited.
   Otherwise the pool reserves more of the device. A synchronisation of the
   host lets go of what exceeds the pool's threshold.

   Bytes in use change when the call is made, whenever the work runs, so that
   they do not depend on when the host waits. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

/* -- a pool's memory -- */

static sim_pool_t *new_pool(uint32_t device, uint64_t max_bytes) {
  sim_state_t *s = sim_state();
  sim_pool_t *p = calloc(1, sizeof *p);
  sim_pool_t **pools =
      p ? realloc(s->pools, (s->pool_count + 1u) * sizeof(sim_pool_t *))
        : NULL;
  if (pools) s->pools = pools;
  if (pools) p->handle = sim_handle_new(SIM_TYPE_POOL, p);
  if (!pools || !p->handle) {
    free(p);
    return NULL;
  }
  s->pools[s->pool_count++] = p;
  p->device = device;
  p->max_bytes = max_bytes;
  for (int i = 1; i < 4; i++) p->reuse[i] = 1;
  p->readers = p->writers = UINT64_C(1) << device;
  return p;
}

/* Of the device: its own one or, by choice, another. */
static sim_pool_t *pool_of(uint32_t device, bool is_default) {
  sim_state_t *s = sim_state();
  sim_pool_t *p =
      is_default ? NULL : sim_handle_number(SIM_TYPE_POOL, s->pool[device]);
  if (!p) p = sim_handle_number(SIM_TYPE_POOL, s->default_pool[device]);
  if (p) return p;
  p = new_pool(device, 0);
  if (!p) return NULL;
  p->is_default = true;
  s->default_pool[device] = p->handle;
  return p;
}

static void remove_block(sim_pool_t *p, uint32_t at) {
  p->blocks[at] = p->blocks[--p->block_count];
}

static void let_go(sim_pool_t *p, uint32_t at) {
  p->reserved -= p->blocks[at].bytes;
  sim_state()->cached_bytes[p->device] -= p->blocks[at].bytes;
  remove_block(p, at);
}

/* Blocks whose frees the host has waited for, down to `keep` bytes. */
static void trim(sim_pool_t *p, uint64_t keep) {
  const sim_queue_t *q = &sim_state()->queue;
  for (uint32_t i = 0; i < p->block_count && p->reserved > keep;) {
    sim_spare_t *b = &p->blocks[i];
    if (sim_clock_at(&q->host, b->lane) < b->seq) {
      i++;
    } else if (p->reserved - keep >= b->bytes) {
      let_go(p, i);
    } else { /* a part of it */
      uint64_t bytes = p->reserved - keep;
      b->bytes -= bytes;
      p->reserved -= bytes;
      sim_state()->cached_bytes[p->device] -= bytes;
    }
  }
}

void sim_pools_trim(uint32_t device, uint64_t keep) {
  const sim_state_t *s = sim_state();
  for (uint32_t i = 0; i < s->pool_count; i++)
    if (s->pools[i]->device == device) trim(s->pools[i], keep);
}

void sim_pools_settle(void) {
  const sim_state_t *s = sim_state();
  for (uint32_t i = 0; i < s->pool_count; i++)
    trim(s->pools[i], s->pools[i]->threshold);
}

/* True if what the lane submits next comes after the block's free. */
static bool is_free_for(const sim_pool_t *p, const sim_spare_t *b,
                        uint32_t lane) {
  const sim_queue_t *q = &sim_state()->queue;
  if (b->lane == lane || sim_clock_at(&q->host, b->lane) >= b->seq)
    return true;
  return p->reuse[RCUDA_POOL_REUSE_EVENTS] &&
         sim_clock_at(&q->lanes[lane]->clock, b->lane) >= b->seq;
}

/* Takes bytes that the pool has, in one block, or reserves them. False if
   the device or the pool is full. */
static bool take(sim_pool_t *p, uint32_t lane, uint64_t bytes) {
  sim_state_t *s = sim_state();
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < p->block_count; i++) {
    const sim_spare_t *b = &p->blocks[i];
    if (b->bytes >= bytes && is_free_for(p, b, lane) &&
        (best == UINT32_MAX || b->bytes < p->blocks[best].bytes))
      best = i;
  }
  if (best != UINT32_MAX) {
    s->cached_bytes[p->device] -= bytes;
    p->blocks[best].bytes -= bytes;
    if (!p->blocks[best].bytes) remove_block(p, best);
  } else {
    uint64_t limit = sim_device_bytes();
    uint64_t held = s->live_bytes[p->device] + s->cached_bytes[p->device];
    if (bytes > limit || held > limit - bytes ||
        (p->max_bytes && (bytes > p->max_bytes ||
                          p->reserved > p->max_bytes - bytes)))
      return false;
    p->reserved += bytes;
    if (p->reserved > p->reserved_high) p->reserved_high = p->reserved;
  }
  p->used += bytes;
  if (p->used > p->used_high) p->used_high = p->used;
  return true;
}

void sim_pool_give(sim_alloc_t *a, uint32_t lane, uint64_t seq) {
  sim_state_t *s = sim_state();
  sim_pool_t *p = sim_handle_number(SIM_TYPE_POOL, a->pool);
  a->is_returned = true;
  s->live_bytes[a->device] -= a->bytes;
  if (!p) return; /* destroyed: the device has the bytes back */
  p->used -= a->bytes;
  if (p->block_count == p->block_capacity) {
    uint32_t capacity = p->block_capacity ? p->block_capacity * 2 : 16;
    sim_spare_t *blocks = realloc(p->blocks, capacity * sizeof *blocks);
    if (!blocks) { /* nothing to remember it with */
      p->reserved -= a->bytes;
      return;
    }
    p->blocks = blocks;
    p->block_capacity = capacity;
  }
  sim_spare_t block = {a->bytes, lane, seq};
  p->blocks[p->block_count++] = block;
  s->cached_bytes[a->device] += a->bytes;
}

void sim_pools_free(sim_state_t *s) {
  for (uint32_t i = 0; i < s->pool_count; i++) {
    free(s->pools[i]->blocks);
    free(s->pools[i]);
  }
  free(s->pools);
  s->pools = NULL;
  s->pool_count = 0;
}

/* -- allocation in stream order -- */

/* Of a capture: memory that the graph's launches will make. */
static int capture_alloc(sim_ctx_t *ctx, sim_stream_t *stream,
                         const sim_pool_t *pool, const char *name,
                         uint64_t *out, uint64_t bytes) {
  sim_alloc_t *a = sim_graph_memory(ctx, pool->device, bytes);
  if (!a) return RCUDA_OUT_OF_MEMORY;
  a->readers |= pool->readers;
  a->writers |= pool->writers;
  *out = a->address;
  sim_op_run_t op = {.kind = SIM_RUN_ALLOC, .name = name, .ctx = stream->ctx,
                     .call = sim_state()->calls, .dst = a->address,
                     .bytes = bytes};
  return sim_capture(stream, &op);
}

static int allocate(const char *name, uint64_t *out, size_t bytes,
                    const void *pool_handle, bool has_pool,
                    rcuda_stream_t *stream) {
  sim_ctx_t *ctx;
  sim_stream_t *st;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!sim_stream_of(stream, &st)) return sim_leave(RCUDA_INVALID_HANDLE);
  sim_pool_t *p = has_pool ? sim_handle_get(SIM_TYPE_POOL, pool_handle)
                           : pool_of(ctx->device, false);
  if (!p)
    return sim_leave(has_pool ? RCUDA_INVALID_HANDLE : RCUDA_OUT_OF_MEMORY);
  if (!out || !bytes) return sim_leave(RCUDA_INVALID_VALUE);
  if (st && st->graph)
    return sim_leave(capture_alloc(ctx, st, p, name, out, bytes));
  uint64_t pool = p->handle, owner = ctx->handle;
  uint32_t lane = sim_lane_of_stream(ctx, st);
  if (!sim_queue_implicit(lane)) return sim_leave(RCUDA_OUT_OF_MEMORY);
  if (!take(p, lane, bytes)) {
    /* the last resort of the real one, too: wait, and reserve anew */
    uint32_t device = p->device;
    if ((code = sim_wait_ctx(owner)) != 0) return sim_leave(code);
    sim_pools_trim(device, 0);
    p = sim_handle_number(SIM_TYPE_POOL, pool);
    ctx = sim_handle_number(SIM_TYPE_CTX, owner);
    if (!p || !ctx || !take(p, lane, bytes))
      return sim_leave(RCUDA_OUT_OF_MEMORY);
  }
  sim_alloc_t *a = sim_device_alloc(ctx, bytes, SIM_ALLOC_DEVICE);
  if (!a) {
    p->used -= bytes;
    p->reserved -= bytes;
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  }
  a->pool = pool;
  a->has_rights = true;
  a->readers = p->readers;
  a->writers = p->writers;
  *out = a->address;
  sim_op_run_t op = {.kind = SIM_RUN_ALLOC, .name = name, .dst = *out,
                     .bytes = bytes};
  code = sim_submit(ctx, stream, &op);
  if (code) sim_device_free(a);
  return sim_leave(code);
}

SIM_EXPORT int cuMemAllocAsync(uint64_t *out, size_t bytes,
                               rcuda_stream_t *stream) {
  SIM_ARGS(out, bytes, stream);
  return allocate("cuMemAllocAsync", out, bytes, NULL, false, stream);
}

SIM_EXPORT int cuMemAllocFromPoolAsync(uint64_t *out, size_t bytes,
                                       rcuda_pool_t *pool,
                                       rcuda_stream_t *stream) {
  SIM_ARGS(out, bytes, pool, stream);
  return allocate("cuMemAllocFromPoolAsync", out, bytes, pool, true, stream);
}

SIM_EXPORT int cuMemFreeAsync(uint64_t address, rcuda_stream_t *stream) {
  SIM_ARGS(address, stream);
  sim_ctx_t *ctx;
  sim_stream_t *st;
  int code = sim_enter_ctx("cuMemFreeAsync", &ctx);
  if (code) return code;
  if (!sim_stream_of(stream, &st)) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!address) return sim_leave(0);
  if (st && st->graph)
    return sim_leave(sim_capture_free(st, "cuMemFreeAsync", address));
  sim_alloc_t *a = sim_to_release("cuMemFreeAsync", address);
  if (!a || a->is_managed) return sim_leave(RCUDA_INVALID_VALUE);
  a->is_ending = true;
  a->is_given = false;
  sim_op_run_t op = {.kind = SIM_RUN_FREE, .name = "cuMemFreeAsync",
                     .dst = address, .bytes = a->bytes};
  uint32_t lane = sim_lane_of_stream(ctx, st);
  code = sim_submit(ctx, stream, &op);
  if (!code && a->pool) sim_pool_give(a, lane, sim_lane_of(lane)->seq);
  return sim_leave(code);
}

int sim_run_alloc(const sim_op_run_t *op) {
  sim_state_t *s = sim_state();
  sim_alloc_t *a = sim_alloc_find(&s->memory, op->dst);
  if (!a || !a->is_kept || a->is_live) return 0;
  uint64_t *live = &s->live_bytes[a->device], limit = sim_device_bytes();
  uint64_t held = *live + s->cached_bytes[a->device];
  if (a->bytes > limit || held > limit - a->bytes ||
      !sim_alloc_revive(&s->memory, a))
    return RCUDA_OUT_OF_MEMORY;
  *live += a->bytes;
  if (*live > s->peak_bytes[a->device]) s->peak_bytes[a->device] = *live;
  return 0;
}

/* -- pools -- */

SIM_EXPORT int cuMemPoolCreate(rcuda_pool_t **out,
                               const rcuda_pool_props_t *props) {
  SIM_ARGS(out, props);
  int code = sim_enter("cuMemPoolCreate", true);
  if (code) return code;
  if (!out || !props || props->type != RCUDA_MEM_PINNED ||
      props->location.type != RCUDA_LOCATION_DEVICE)
    return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(props->location.id))
    return sim_leave(RCUDA_INVALID_DEVICE);
  if (props->handles || props->usage) return sim_leave(RCUDA_NOT_SUPPORTED);
  sim_pool_t *p = new_pool((uint32_t)props->location.id, props->max_bytes);
  if (!p) return sim_leave(RCUDA_OUT_OF_MEMORY);
  *out = (rcuda_pool_t *)(uintptr_t)p->handle;
  return sim_leave(0);
}

static int with_pool(const char *name, const void *handle,
                     sim_pool_t **out) {
  int code = sim_enter(name, true);
  if (code) return code;
  *out = sim_handle_get(SIM_TYPE_POOL, handle);
  return *out ? 0 : sim_leave(RCUDA_INVALID_HANDLE);
}

/* What is allocated lives on; its bytes return to the device when freed. */
SIM_EXPORT int cuMemPoolDestroy(rcuda_pool_t *handle) {
  SIM_ARGS(handle);
  sim_pool_t *p;
  int code = with_pool("cuMemPoolDestroy", handle, &p);
  if (code) return code;
  if (p->is_default) return sim_leave(RCUDA_INVALID_VALUE);
  sim_state_t *s = sim_state();
  while (p->block_count) let_go(p, 0);
  for (uint32_t i = 0; i < s->pool_count; i++) {
    if (s->pools[i] != p) continue;
    s->pools[i] = s->pools[--s->pool_count];
    break;
  }
  sim_handle_drop(p->handle);
  free(p->blocks);
  free(p);
  return sim_leave(0);
}

SIM_EXPORT int cuMemPoolTrimTo(rcuda_pool_t *handle, size_t keep) {
  SIM_ARGS(handle, keep);
  sim_pool_t *p;
  int code = with_pool("cuMemPoolTrimTo", handle, &p);
  if (code) return code;
  trim(p, keep);
  return sim_leave(0);
}

SIM_EXPORT int cuMemPoolSetAttribute(rcuda_pool_t *handle, int attribute,
                                     const void *value) {
  SIM_ARGS(handle, attribute, value);
  sim_pool_t *p;
  int code = with_pool("cuMemPoolSetAttribute", handle, &p), word;
  uint64_t wide;
  if (code) return code;
  if (!value) return sim_leave(RCUDA_INVALID_VALUE);
  switch (attribute) {
  case RCUDA_POOL_REUSE_EVENTS:
  case RCUDA_POOL_REUSE_OPPORTUNISTIC:
  case RCUDA_POOL_REUSE_INTERNAL:
    memcpy(&word, value, sizeof word);
    p->reuse[attribute] = word != 0;
    return sim_leave(0);
  case RCUDA_POOL_RELEASE_THRESHOLD:
    memcpy(&p->threshold, value, sizeof p->threshold);
    return sim_leave(0);
  case RCUDA_POOL_RESERVED_HIGH:
  case RCUDA_POOL_USED_HIGH: /* set back, to nothing but 0 */
    memcpy(&wide, value, sizeof wide);
    if (wide) return sim_leave(RCUDA_INVALID_VALUE);
    if (attribute == RCUDA_POOL_USED_HIGH)
      p->used_high = p->used;
    else
      p->reserved_high = p->reserved;
    return sim_leave(0);
  default: return sim_leave(RCUDA_INVALID_VALUE);
  }
}

SIM_EXPORT int cuMemPoolGetAttribute(rcuda_pool_t *handle, int attribute,
                                     void *value) {
  SIM_ARGS(handle, attribute, value);
  sim_pool_t *p;
  int code = with_pool("cuMemPoolGetAttribute", handle, &p);
  if (code) return code;
  if (!value || attribute < 1 || attribute > RCUDA_POOL_USED_HIGH)
    return sim_leave(RCUDA_INVALID_VALUE);
  if (attribute <= RCUDA_POOL_REUSE_INTERNAL) {
    memcpy(value, &p->reuse[attribute], sizeof(int));
    return sim_leave(0);
  }
  const uint64_t all[] = {p->threshold, p->reserved, p->reserved_high,
                          p->used, p->used_high};
  memcpy(value, &all[attribute - RCUDA_POOL_RELEASE_THRESHOLD],
         sizeof(uint64_t));
  return sim_leave(0);
}

/* Of memory that the pool gave out already as well. */
SIM_EXPORT int cuMemPoolSetAccess(rcuda_pool_t *handle,
                                  const rcuda_access_t *list, size_t count) {
  SIM_ARGS(handle, list, count);
  sim_pool_t *p;
  int code = with_pool("cuMemPoolSetAccess", handle, &p);
  if (code) return code;
  if (count && !list) return sim_leave(RCUDA_INVALID_VALUE);
  uint64_t readers = p->readers, writers = p->writers;
  for (size_t i = 0; i < count; i++)
    if (!sim_access_apply(&list[i], &readers, &writers))
      return sim_leave(RCUDA_INVALID_VALUE);
  if (!(readers & writers & UINT64_C(1) << p->device))
    return sim_leave(RCUDA_INVALID_VALUE); /* its own device always may */
  p->readers = readers;
  p->writers = writers;
  const sim_memory_t *m = &sim_state()->memory;
  for (size_t i = 0; i < m->count; i++) {
    if (m->list[i]->pool != p->handle) continue;
    m->list[i]->readers = readers;
    m->list[i]->writers = writers;
  }
  return sim_leave(0);
}

SIM_EXPORT int cuMemPoolGetAccess(int *flags, rcuda_pool_t *handle,
                                  const rcuda_location_t *location) {
  SIM_ARGS(flags, handle, location);
  sim_pool_t *p;
  int code = with_pool("cuMemPoolGetAccess", handle, &p);
  if (code) return code;
  if (!flags || !location || location->type != RCUDA_LOCATION_DEVICE ||
      !sim_is_device(location->id))
    return sim_leave(RCUDA_INVALID_VALUE);
  *flags = p->writers >> location->id & 1   ? RCUDA_ACCESS_BOTH
           : p->readers >> location->id & 1 ? RCUDA_ACCESS_READ
                                            : RCUDA_ACCESS_NONE;
  return sim_leave(0);
}

static int device_pool(const char *name, rcuda_pool_t **out, int device,
                       bool is_default) {
  int code = sim_enter(name, true);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  const sim_pool_t *p = pool_of((uint32_t)device, is_default);
  if (!p) return sim_leave(RCUDA_OUT_OF_MEMORY);
  *out = (rcuda_pool_t *)(uintptr_t)p->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuDeviceGetDefaultMemPool(rcuda_pool_t **out, int device) {
  SIM_ARGS(out, device);
  return device_pool("cuDeviceGetDefaultMemPool", out, device, true);
}

SIM_EXPORT int cuDeviceGetMemPool(rcuda_pool_t **out, int device) {
  SIM_ARGS(out, device);
  return device_pool("cuDeviceGetMemPool", out, device, false);
}

SIM_EXPORT int cuDeviceSetMemPool(int device, rcuda_pool_t *handle) {
  SIM_ARGS(device, handle);
  sim_pool_t *p;
  int code = with_pool("cuDeviceSetMemPool", handle, &p);
  if (code) return code;
  if (!sim_is_device(device)) return sim_leave(RCUDA_INVALID_DEVICE);
  if (p->device != (uint32_t)device) return sim_leave(RCUDA_INVALID_VALUE);
  sim_state()->pool[device] = p->handle;
  return sim_leave(0);
}
