/* Exported cu* functions: virtual memory. Addresses are reserved, memory is
   made without an address, a mapping brings the two together, and each device
   may touch a mapping only after it was given the right to. One piece of
   memory may have several mappings. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

#define GRANULARITY (UINT64_C(2) << 20)

bool sim_access_apply(const rcuda_access_t *a, uint64_t *readers,
                      uint64_t *writers) {
  if (a->location.type != RCUDA_LOCATION_DEVICE ||
      !sim_is_device(a->location.id) ||
      (a->flags != RCUDA_ACCESS_NONE && a->flags != RCUDA_ACCESS_READ &&
       a->flags != RCUDA_ACCESS_BOTH))
    return false;
  uint64_t bit = UINT64_C(1) << a->location.id;
  *readers = a->flags ? *readers | bit : *readers & ~bit;
  *writers = a->flags == RCUDA_ACCESS_BOTH ? *writers | bit
                                           : *writers & ~bit;
  return true;
}

/* -- address ranges -- */

static sim_reserved_t *reservation(uint64_t address, uint64_t bytes) {
  sim_state_t *s = sim_state();
  for (uint32_t i = 0; i < s->reserved_count; i++) {
    sim_reserved_t *r = &s->reserved[i];
    if (address >= r->address && bytes <= r->bytes &&
        address - r->address <= r->bytes - bytes)
      return r;
  }
  return NULL;
}

/* The wish for an address is heard and, as is allowed, not followed. */
SIM_EXPORT int cuMemAddressReserve(uint64_t *out, size_t bytes,
                                   size_t alignment, uint64_t address,
                                   unsigned long long flags) {
  SIM_ARGS(out, bytes, alignment, address, flags);
  int code = sim_enter("cuMemAddressReserve", true);
  if (code) return code;
  sim_state_t *s = sim_state();
  (void)address;
  if (!out || !bytes || bytes % GRANULARITY || flags ||
      (alignment & (alignment - 1)))
    return sim_leave(RCUDA_INVALID_VALUE);
  uint64_t align = alignment > GRANULARITY ? alignment : GRANULARITY;
  uint64_t window = SIM_WINDOW + SIM_VIRTUAL_WINDOW * SIM_WINDOW_BYTES;
  uint64_t *next = &s->memory.next[SIM_VIRTUAL_WINDOW];
  if (!*next) *next = window + GRANULARITY;
  uint64_t start = (*next + align - 1) / align * align;
  if (bytes > SIM_WINDOW_BYTES ||
      start - window > SIM_WINDOW_BYTES - bytes)
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  sim_reserved_t *list =
      realloc(s->reserved, (s->reserved_count + 1u) * sizeof *list);
  if (!list) return sim_leave(RCUDA_OUT_OF_MEMORY);
  s->reserved = list;
  sim_reserved_t r = {start, bytes};
  s->reserved[s->reserved_count++] = r;
  *next = start + bytes + GRANULARITY; /* a guard lies between */
  *out = start;
  return sim_leave(0);
}

/* True if something is mapped there. */
static bool is_used(uint64_t address, uint64_t bytes) {
  const sim_memory_t *m = &sim_state()->memory;
  for (size_t i = 0; i < m->count; i++) {
    const sim_alloc_t *a = m->list[i];
    if (a->is_live && a->is_mapped && a->address < address + bytes &&
        address < a->address + a->bytes)
      return true;
  }
  return false;
}

SIM_EXPORT int cuMemAddressFree(uint64_t address, size_t bytes) {
  SIM_ARGS(address, bytes);
  int code = sim_enter("cuMemAddressFree", true);
  if (code) return code;
  sim_state_t *s = sim_state();
  sim_reserved_t *r = reservation(address, bytes);
  if (!bytes || !r || r->address != address || r->bytes != bytes ||
      is_used(address, bytes))
    return sim_leave(RCUDA_INVALID_VALUE);
  *r = s->reserved[--s->reserved_count];
  return sim_leave(0);
}

/* -- memory -- */

static int check_props(const rcuda_memory_props_t *p) {
  if (!p || p->type != RCUDA_MEM_PINNED ||
      p->location.type != RCUDA_LOCATION_DEVICE)
    return RCUDA_INVALID_VALUE;
  if (!sim_is_device(p->location.id)) return RCUDA_INVALID_DEVICE;
  return p->handles || p->flags.compression ? RCUDA_NOT_SUPPORTED : 0;
}

SIM_EXPORT int cuMemGetAllocationGranularity(
    size_t *out, const rcuda_memory_props_t *props, int option) {
  SIM_ARGS(out, props, option);
  int code = sim_enter("cuMemGetAllocationGranularity", true);
  if (code) return code;
  if (!out || option < 0 || option > RCUDA_GRANULARITY_RECOMMENDED)
    return sim_leave(RCUDA_INVALID_VALUE);
  code = check_props(props);
  if (!code) *out = GRANULARITY;
  return sim_leave(code);
}

SIM_EXPORT int cuMemCreate(uint64_t *out, size_t bytes,
                           const rcuda_memory_props_t *props,
                           unsigned long long flags) {
  SIM_ARGS(out, bytes, props, flags);
  int code = sim_enter("cuMemCreate", true);
  if (code) return code;
  sim_state_t *s = sim_state();
  if (!out || !bytes || bytes % GRANULARITY || flags)
    return sim_leave(RCUDA_INVALID_VALUE);
  code = check_props(props);
  if (code) return sim_leave(code);
  uint32_t device = (uint32_t)props->location.id;
  uint64_t limit = sim_device_bytes();
  uint64_t *live = &s->live_bytes[device];
  if (bytes > limit || *live + s->cached_bytes[device] > limit - bytes)
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  sim_physical_t *p = calloc(1, sizeof *p);
  if (p) p->storage = sim_storage_new(&s->memory, device, bytes);
  if (p && p->storage) p->handle = sim_handle_new(SIM_TYPE_PHYSICAL, p);
  if (!p || !p->handle) {
    if (p && p->storage) sim_storage_free(p->storage);
    free(p);
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  }
  p->is_held = true;
  *live += bytes;
  if (*live > s->peak_bytes[device]) s->peak_bytes[device] = *live;
  *out = p->handle;
  return sim_leave(0);
}

/* It goes when neither its handle nor a mapping is left. */
static void settle(sim_physical_t *p) {
  if (p->is_held || p->mappings) return;
  sim_state()->live_bytes[p->storage->device] -= p->storage->bytes;
  sim_handle_drop(p->handle);
  sim_storage_free(p->storage);
  free(p);
}

SIM_EXPORT int cuMemRelease(uint64_t handle) {
  SIM_ARGS(handle);
  int code = sim_enter("cuMemRelease", true);
  if (code) return code;
  sim_physical_t *p = sim_handle_number(SIM_TYPE_PHYSICAL, handle);
  if (!p || !p->is_held) return sim_leave(RCUDA_INVALID_VALUE);
  p->is_held = false;
  settle(p);
  return sim_leave(0);
}

/* -- mappings -- */

SIM_EXPORT int cuMemMap(uint64_t address, size_t bytes, size_t offset,
                        uint64_t handle, unsigned long long flags) {
  SIM_ARGS(address, bytes, offset, handle, flags);
  int code = sim_enter("cuMemMap", true);
  if (code) return code;
  sim_physical_t *p = sim_handle_number(SIM_TYPE_PHYSICAL, handle);
  if (!p || !p->is_held || offset || flags || address % GRANULARITY ||
      bytes != p->storage->bytes || !reservation(address, bytes) ||
      is_used(address, bytes))
    return sim_leave(RCUDA_INVALID_VALUE);
  sim_alloc_t *a =
      sim_alloc_map(&sim_state()->memory, address, p->storage);
  if (!a) return sim_leave(RCUDA_OUT_OF_MEMORY);
  a->made_by = sim_state()->calls;
  a->pool = 0;
  a->physical = handle;
  p->mappings++;
  return sim_leave(0);
}

/* Calls fn for each mapping in the range; false unless whole ones fill it. */
static bool each_mapping(uint64_t address, uint64_t bytes,
                         void (*fn)(sim_alloc_t *a, void *arg), void *arg) {
  for (int pass = 0; pass < 2; pass++) {
    for (uint64_t at = address, left = bytes; left;) {
      sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, at);
      if (!a || !a->is_live || !a->is_mapped || a->address != at ||
          a->bytes > left)
        return false;
      at += a->bytes;
      left -= a->bytes;
      if (pass) fn(a, arg);
    }
  }
  return bytes > 0;
}

static void end_mapping(sim_alloc_t *a, void *arg) {
  (void)arg;
  sim_physical_t *p = sim_handle_number(SIM_TYPE_PHYSICAL, a->physical);
  a->freed_by = sim_state()->calls;
  sim_alloc_release(&sim_state()->memory, a);
  if (!p) return;
  p->mappings--;
  settle(p);
}

void sim_unmap(uint64_t address, uint64_t bytes) {
  each_mapping(address, bytes, end_mapping, NULL);
}

static void nothing(sim_alloc_t *a, void *arg) {
  (void)a, (void)arg;
}

/* What is queued runs before. Without a context nobody knows what the host
   waited for, so nothing is judged. */
SIM_EXPORT int cuMemUnmap(uint64_t address, size_t bytes) {
  SIM_ARGS(address, bytes);
  int code = sim_enter("cuMemUnmap", true);
  if (code) return code;
  if (!each_mapping(address, bytes, nothing, NULL))
    return sim_leave(RCUDA_INVALID_VALUE);
  sim_ctx_t *ctx = sim_current();
  if (ctx && !ctx->sticky)
    return sim_leave(sim_end_now(ctx, SIM_RUN_UNMAP, "cuMemUnmap", address,
                                 bytes));
  sim_queue_flush();
  sim_unmap(address, bytes);
  return sim_leave(0);
}

typedef struct grant_t {
  const rcuda_access_t *list;
  size_t count;
} grant_t;

static void grant(sim_alloc_t *a, void *arg) {
  const grant_t *g = arg;
  for (size_t i = 0; i < g->count; i++)
    sim_access_apply(&g->list[i], &a->readers, &a->writers);
}

SIM_EXPORT int cuMemSetAccess(uint64_t address, size_t bytes,
                              const rcuda_access_t *list, size_t count) {
  SIM_ARGS(address, bytes, list, count);
  int code = sim_enter("cuMemSetAccess", true);
  if (code) return code;
  grant_t g = {list, count};
  uint64_t readers = 0, writers = 0;
  if (!list || !count) return sim_leave(RCUDA_INVALID_VALUE);
  for (size_t i = 0; i < count; i++)
    if (!sim_access_apply(&list[i], &readers, &writers))
      return sim_leave(RCUDA_INVALID_VALUE);
  return sim_leave(each_mapping(address, bytes, grant, &g)
                       ? 0
                       : RCUDA_INVALID_VALUE);
}

SIM_EXPORT int cuMemGetAccess(unsigned long long *flags,
                              const rcuda_location_t *location,
                              uint64_t address) {
  SIM_ARGS(flags, location, address);
  int code = sim_enter("cuMemGetAccess", true);
  if (code) return code;
  const sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, address);
  if (!flags || !location || location->type != RCUDA_LOCATION_DEVICE ||
      !sim_is_device(location->id) || !a || !a->is_live || !a->is_mapped)
    return sim_leave(RCUDA_INVALID_VALUE);
  *flags = a->writers >> location->id & 1   ? RCUDA_ACCESS_BOTH
           : a->readers >> location->id & 1 ? RCUDA_ACCESS_READ
                                            : RCUDA_ACCESS_NONE;
  return sim_leave(0);
}

/* When the library goes: mappings went with the memory's records. */
void sim_virtual_free(sim_state_t *s) {
  for (size_t i = 0; i < s->slot_count; i++) {
    sim_physical_t *p = s->slots[i].object;
    if (!p || s->slots[i].type != SIM_TYPE_PHYSICAL) continue;
    sim_storage_free(p->storage);
    free(p);
    s->slots[i].object = NULL;
  }
  free(s->reserved);
  s->reserved = NULL;
  s->reserved_count = 0;
}
