/* Bulk and tensor copies: judged, counted and marked when they are issued,
   moved when the mode says so. */
#include "runtime/simgpu/async.h"

#include "runtime/cuda/cuda_types.h"
#include "runtime/simgpu/count.h"
#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/sectors.h"

#include <stdlib.h>

#define ROW_BYTES 2048 /* 256 elements of 8 bytes */

void sim_copy_free(sim_copy_t *c) {
  free(c->staging);
  free(c);
}

/* -- shapes -- */

/* A row of a tensor's box: where it lies in global memory. */
typedef struct row_t {
  uint32_t index[5];
  uint32_t number;    /* of the row in the box */
  bool is_in;         /* inside in all dimensions but the first */
  uint64_t address;   /* of coordinate 0 of dimension 0 */
  int64_t low, high;  /* coordinates in bounds, low >= high: none */
} row_t;

static void locate(const sim_copy_t *c, row_t *r) {
  const sim_map_t *m = &c->map;
  r->is_in = true;
  r->address = m->address;
  for (uint32_t d = 1; d < m->rank; d++) {
    int64_t x = (int64_t)c->at[d] + (int64_t)r->index[d] * m->step[d];
    if (x < 0 || (uint64_t)x >= m->dims[d]) {
      r->is_in = false;
      continue;
    }
    r->address += (uint64_t)x * m->strides[d];
  }
  r->low = c->at[0] < 0 ? 0 : c->at[0];
  r->high = (int64_t)c->at[0] + m->extent[0];
  if (r->high > (int64_t)m->dims[0]) r->high = (int64_t)m->dims[0];
  if (!r->is_in) r->high = r->low;
}

static void first_row(const sim_copy_t *c, row_t *r) {
  memset(r, 0, sizeof *r);
  locate(c, r);
}

static bool next_row(const sim_copy_t *c, row_t *r) {
  uint32_t d = 1;
  while (d < c->map.rank && ++r->index[d] == c->map.extent[d])
    r->index[d++] = 0;
  if (d >= c->map.rank) return false;
  r->number++;
  locate(c, r);
  return true;
}

/* Where the 16 bytes at `offset` of the box lie: swizzles act on bits of the
   shared address. */
static uint32_t chunk_at(const sim_copy_t *c, uint32_t offset) {
  static const uint32_t bits[] = {0, 1, 3, 7};
  uint32_t x = c->shared + offset;
  if (!c->is_tensor) return x;
  return x ^ (x >> 7 & bits[c->map.swizzle]) << 4;
}

/* -- judgement and counts -- */

static void count_range(const sim_copy_t *c, uint64_t address,
                        uint64_t bytes, bool is_write) {
  uint64_t *n = c->warp->worker->counters;
  n[is_write ? SIM_COUNTER_GLOBAL_WRITTEN : SIM_COUNTER_GLOBAL_READ] += bytes;
  if (!c->warp->worker->is_counting || !bytes) return;
  n[SIM_COUNTER_GLOBAL_SECTORS] +=
      ((address + bytes - 1) >> 5) - (address >> 5) + 1;
  n[SIM_COUNTER_GLOBAL_SECTORS_IDEAL] += (bytes + 31) / 32;
}

/* What the copy does to the sectors of the launch. */
static bool touch_range(const sim_copy_t *c, sim_alloc_t *a, uint64_t address,
                        uint64_t bytes) {
  unsigned flags = c->kind != SIM_COPY_STORE ? SIM_TOUCH_READ
                   : c->apply ? SIM_TOUCH_WRITE | SIM_TOUCH_ATOMIC
                              : SIM_TOUCH_WRITE;
  return !bytes || !c->warp->cta->launch->uses_sectors ||
         sim_sectors_run(c->warp, c->ins, a, address, bytes, flags, c->lane);
}

/* The global side must lie in memory that may be used. */
static bool judge_global(const sim_copy_t *c) {
  bool is_write = c->kind == SIM_COPY_STORE;
  char kind = !is_write ? 'r' : c->apply ? 'a' : 'w';
  sim_alloc_t *alloc;
  c->warp->worker->counters[SIM_COUNTER_GLOBAL_REQUESTS]++;
  if (!c->is_tensor) {
    if (!sim_async_global_place(c->warp, c->ins, c->lane, c->global,
                                c->bytes, 16, kind, &alloc) ||
        !alloc)
      return false;
    count_range(c, c->global, c->bytes, is_write);
    return touch_range(c, alloc, c->global, c->bytes);
  }
  row_t r;
  first_row(c, &r);
  do {
    if (r.low >= r.high) continue;
    uint64_t bytes = (uint64_t)(r.high - r.low) * c->map.bytes;
    uint64_t address = r.address + (uint64_t)r.low * c->map.bytes;
    if (!sim_async_global_place(c->warp, c->ins, c->lane, address, bytes, 1,
                                kind, &alloc) ||
        !alloc)
      return false;
    count_range(c, address, bytes, is_write);
    if (!touch_range(c, alloc, address, bytes)) return false;
  } while (next_row(c, &r));
  return true;
}

/* The shared side: order against ordinary accesses, pending operations. */
static bool judge_shared(const sim_copy_t *c) {
  uint64_t *n = c->warp->worker->counters;
  bool reads = c->kind == SIM_COPY_STORE;
  unsigned flags = SIM_RACE_JUDGE | (reads ? 0 : SIM_RACE_WRITE) |
                   (c->kind == SIM_COPY_VALUE ? 0 : SIM_RACE_ASYNC);
  if (c->apply && !reads) flags |= SIM_RACE_ATOMIC;
  n[reads ? SIM_COUNTER_SHARED_READ : SIM_COUNTER_SHARED_WRITTEN] += c->bytes;
  for (uint32_t k = 0; k < c->bytes; k += 16) {
    uint32_t size = c->bytes - k < 16 ? c->bytes - k : 16;
    if (!sim_async_access(c->warp, c->cta, c->ins, c->lane, chunk_at(c, k),
                          size, flags))
      return false;
  }
  if (c->kind != SIM_COPY_SHARED) return true;
  n[SIM_COUNTER_SHARED_READ] += c->bytes;
  return sim_async_access(c->warp, c->from, c->ins, c->lane, c->from_offset,
                          c->bytes, SIM_RACE_JUDGE | SIM_RACE_ASYNC);
}

static void mark(const sim_copy_t *c) {
  uint8_t what =
      c->kind == SIM_COPY_STORE ? SIM_MARK_SOURCE : SIM_MARK_DEST;
  for (uint32_t k = 0; k < c->bytes; k += 16)
    sim_marks_set(c->cta, chunk_at(c, k),
                  c->bytes - k < 16 ? c->bytes - k : 16, what);
  if (c->kind == SIM_COPY_SHARED)
    sim_marks_set(c->from, c->from_offset, c->bytes, SIM_MARK_SOURCE);
}

/* Source marks of others that overlap stay. */
static void unmark(const sim_copy_t *c) {
  if (c->kind != SIM_COPY_STORE) {
    for (uint32_t k = 0; k < c->bytes; k += 16)
      sim_marks_clear(c->cta, chunk_at(c, k),
                      c->bytes - k < 16 ? c->bytes - k : 16, SIM_MARK_DEST);
  }
  if (c->kind != SIM_COPY_STORE && c->kind != SIM_COPY_SHARED) return;
  sim_cta_t *cta = c->kind == SIM_COPY_STORE ? c->cta : c->from;
  if (c->kind == SIM_COPY_STORE) {
    for (uint32_t k = 0; k < c->bytes; k += 16)
      sim_marks_clear(cta, chunk_at(c, k), 16, SIM_MARK_SOURCE);
  } else {
    sim_marks_clear(cta, c->from_offset, c->bytes, SIM_MARK_SOURCE);
  }
  const sim_async_t *a = c->warp->cta->async;
  for (uint32_t n = 0; n < a->count; n++) {
    const sim_copy_t *o = a->copies[n];
    bool reads = o->kind == SIM_COPY_STORE ? !o->is_released
                                           : o->kind == SIM_COPY_SHARED;
    if (o != c && reads) mark(o);
  }
}

bool sim_copy_issue(const sim_copy_t *copy) {
  sim_warp_t *w = copy->warp;
  sim_cta_t *home = w->cta;
  sim_async_t *a = home->async;
  bool goes_on = w->cta->launch->options->is_warning;
  if (copy->bytes == 0) return true;
  if (!judge_shared(copy)) return false;
  if ((copy->kind == SIM_COPY_LOAD || copy->kind == SIM_COPY_STORE) &&
      !judge_global(copy))
    return goes_on;
  w->worker->counters[SIM_COUNTER_ASYNC_BYTES] += copy->bytes;
  if (a->count == a->capacity) {
    uint32_t capacity = a->capacity ? a->capacity * 2 : 16;
    sim_copy_t **copies =
        capacity > 65536 ? NULL
                         : realloc(a->copies, capacity * sizeof *copies);
    if (copies) {
      a->copies = copies;
      a->capacity = capacity;
    }
  }
  sim_copy_t *c =
      a->count < a->capacity ? malloc(sizeof *c) : NULL;
  if (!c) {
    sim_find(w, copy->ins, SIM_CHECK_ILLEGAL, copy->lane, PTX_SPACE_REG, 0,
             0, "more than %u bulk copies of a CTA are pending", a->capacity);
    return false;
  }
  *c = *copy;
  sim_async_tick(home);
  c->tick = a->tick;
  c->group = w->queue->bulk_commits[c->lane];
  a->copies[a->count++] = c;
  mark(c);
  switch (home->launch->options->async) {
  case SIM_ASYNC_IMMEDIATE: return sim_copy_move(c);
  case SIM_ASYNC_RANDOM: c->delay = 1 + sim_async_delay(home); break;
  case SIM_ASYNC_LATE: break;
  }
  return true;
}

/* -- moving -- */

/* Bytes of global memory with their definedness. */
static void fetch(const sim_copy_t *c, uint64_t address, uint32_t bytes,
                  uint8_t *data, uint8_t *defined) {
  sim_alloc_t *a =
      sim_alloc_find(c->warp->cta->launch->memory, address);
  uint64_t offset = a ? address - a->address : 0;
  if (!a || !a->is_live || offset + bytes > a->bytes) {
    memset(data, SIM_POISON, bytes);
    memset(defined, 0, bytes);
    return;
  }
  memset(defined, 1, bytes);
  if (!sim_is_defined(a, offset, bytes)) {
    sim_poison_range(a, offset, bytes);
    for (uint32_t k = 0; k < bytes; k += 16) {
      uint32_t n = bytes - k < 16 ? bytes - k : 16;
      uint32_t bad = sim_undefined_mask(a, offset + k, n);
      for (uint32_t j = 0; j < n; j++)
        if (bad >> j & 1) defined[k + j] = 0;
    }
  }
  memcpy(data, a->host + offset, bytes);
}

/* One element of a reduction, in place. */
static bool reduce(const sim_copy_t *c, uint8_t *to, bool to_defined,
                   const uint8_t *from, bool from_defined, bool is_global) {
  sim_launch_t *launch = c->warp->cta->launch;
  const sim_ins_t *e = &c->element;
  if ((!to_defined || !from_defined) &&
      (launch->options->checks & SIM_CHECK_INIT) &&
      !sim_find(c->warp, c->ins, SIM_CHECK_INIT_USE, c->lane,
                is_global ? PTX_SPACE_GLOBAL : PTX_SPACE_SHARED, 0, e->bytes,
                "the reduction %s bytes never written",
                to_defined ? "adds" : "is into"))
    return false;
  volatile int *lock =
      &launch->locks[(uintptr_t)to >> 4 & (SIM_LOCKS - 1)];
  uint64_t old = 0, value = 0;
  memcpy(&value, from, e->bytes);
  while (is_global && __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) {}
  memcpy(&old, to, e->bytes);
  uint64_t now = c->apply(e, old, value, 0, is_global);
  memcpy(to, &now, e->bytes);
  if (is_global) __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
  return true;
}

/* Writes bytes to global memory, or reduces into it. */
static bool put_global(const sim_copy_t *c, uint64_t address, uint32_t bytes,
                       const uint8_t *data, const uint8_t *defined) {
  sim_alloc_t *a =
      sim_alloc_find(c->warp->cta->launch->memory, address);
  uint64_t offset = a ? address - a->address : 0;
  if (!a || !a->is_live || offset + bytes > a->bytes) return true;
  sim_poison_range(a, offset, bytes);
  if (c->apply) {
    bool known = sim_is_defined(a, offset, bytes);
    uint32_t size = c->element.bytes;
    for (uint32_t k = 0; k < bytes; k += size) {
      bool ok = true;
      for (uint32_t j = 0; j < size; j++) ok = ok && defined[k + j];
      if (!reduce(c, a->host + offset + k, known, data + k, ok, true))
        return false;
    }
    sim_define(a, offset, bytes);
    return true;
  }
  memcpy(a->host + offset, data, bytes);
  sim_define(a, offset, bytes);
  for (uint32_t k = 0; k < bytes; k++)
    if (!defined[k]) sim_undefine(a, offset + k, 1);
  return true;
}

static bool judge_map(const sim_copy_t *c) {
  uint8_t now[128], defined[128];
  if (!c->is_tensor) return true;
  fetch(c, c->map_address, 128, now, defined);
  if (memcmp(now, c->map_bytes, 128) == 0) return true;
  return sim_find(c->warp, c->ins, SIM_CHECK_ASYNC_SOURCE, c->lane,
                  PTX_SPACE_GLOBAL, c->map_address, 128,
                  "the tensor map was changed while the copy used it");
}

static void flush_subnormals(uint8_t *data, uint32_t bytes) {
  for (uint32_t k = 0; k < bytes; k += 4) {
    uint32_t x;
    memcpy(&x, data + k, 4);
    if (!(x & 0x7F800000u)) x &= 0x80000000u;
    memcpy(data + k, &x, 4);
  }
}

/* What lies outside the tensor: zeros, or NaN of the element's type. */
static void fill(const sim_map_t *m, uint8_t *data, uint32_t bytes) {
  memset(data, 0, bytes);
  if (!m->fill) return;
  for (uint32_t k = 0; k < bytes; k += m->bytes) {
    memset(data + k, 0xFF, m->bytes);
    data[k + m->bytes - 1] = 0x7F;
  }
}

static void load_tensor(sim_copy_t *c) {
  const sim_map_t *m = &c->map;
  uint32_t pitch = m->extent[0] * m->bytes;
  uint8_t data[ROW_BYTES], defined[ROW_BYTES];
  row_t r;
  first_row(c, &r);
  do {
    fill(m, data, pitch);
    memset(defined, 1, pitch);
    if (r.low < r.high) {
      uint32_t skip = (uint32_t)(r.low - c->at[0]) * m->bytes;
      uint32_t bytes = (uint32_t)(r.high - r.low) * m->bytes;
      fetch(c, r.address + (uint64_t)r.low * m->bytes, bytes, data + skip,
            defined + skip);
      if (m->type == RCUDA_TENSOR_F32_FTZ) flush_subnormals(data + skip, bytes);
    }
    for (uint32_t k = 0; k < pitch; k += 16) {
      uint32_t to = chunk_at(c, r.number * pitch + k);
      memcpy(c->cta->shared + to, data + k, 16);
      memcpy(c->cta->shared_defined + to, defined + k, 16);
    }
  } while (next_row(c, &r));
}

static bool load(sim_copy_t *c) {
  uint8_t *to = c->cta->shared + c->shared;
  uint8_t *to_defined = c->cta->shared_defined + c->shared;
  const uint8_t *from = c->value, *from_defined = c->value_defined;
  if (c->is_tensor) {
    load_tensor(c);
    return true;
  }
  if (c->kind == SIM_COPY_LOAD) {
    fetch(c, c->global, c->bytes, to, to_defined);
    return true;
  }
  if (c->kind == SIM_COPY_SHARED) {
    from = c->from->shared + c->from_offset;
    from_defined = c->from->shared_defined + c->from_offset;
  }
  if (!c->apply) {
    memmove(to, from, c->bytes);
    memmove(to_defined, from_defined, c->bytes);
    return true;
  }
  uint32_t size = c->element.bytes;
  for (uint32_t k = 0; k < c->bytes; k += size) {
    bool known = true, given = true;
    for (uint32_t j = 0; j < size; j++) {
      known = known && to_defined[k + j];
      given = given && from_defined[k + j];
    }
    if (!reduce(c, to + k, known, from + k, given, false)) return false;
    memset(to_defined + k, 1, size);
  }
  return true;
}

bool sim_copy_read(sim_copy_t *c) {
  if (c->is_read) return true;
  c->is_read = true;
  c->staging = malloc((size_t)c->bytes * 2);
  if (!c->staging) {
    sim_find(c->warp, c->ins, SIM_CHECK_ILLEGAL, c->lane, PTX_SPACE_REG, 0,
             0, "the host has no memory for a copy of %u bytes", c->bytes);
    return false;
  }
  for (uint32_t k = 0; k < c->bytes; k += 16) {
    uint32_t from = chunk_at(c, k);
    memcpy(c->staging + k, c->cta->shared + from, 16);
    memcpy(c->staging + c->bytes + k, c->cta->shared_defined + from, 16);
  }
  return true;
}

static bool store(sim_copy_t *c) {
  const sim_map_t *m = &c->map;
  if (!sim_copy_read(c)) return false;
  const uint8_t *data = c->staging, *defined = c->staging + c->bytes;
  if (!c->is_tensor) return put_global(c, c->global, c->bytes, data, defined);
  uint32_t pitch = m->extent[0] * m->bytes;
  row_t r;
  first_row(c, &r);
  do {
    if (r.low >= r.high) continue;
    uint32_t skip = r.number * pitch + (uint32_t)(r.low - c->at[0]) * m->bytes;
    if (!put_global(c, r.address + (uint64_t)r.low * m->bytes,
                    (uint32_t)(r.high - r.low) * m->bytes, data + skip,
                    defined + skip))
      return false;
  } while (next_row(c, &r));
  return true;
}

bool sim_copy_move(sim_copy_t *c) {
  if (!judge_map(c)) return false;
  c->is_moved = true;
  if (c->kind == SIM_COPY_STORE) return store(c);
  if (!load(c)) return false;
  sim_mbar_t *m = c->mbar;
  sim_stamp_t stamp = {.clock = m->first_clock + m->phase + 1,
                       .line = (uint32_t)(c->ins - c->warp->code),
                       .agent = m->agent, .lane = 32,
                       .is_async = c->kind != SIM_COPY_VALUE,
                       .is_atomic = c->apply != NULL};
  for (uint32_t k = 0; k < c->bytes && c->cta->races; k += 16)
    sim_race_stamp(c->cta, chunk_at(c, k),
                   c->bytes - k < 16 ? c->bytes - k : 16, &stamp);
  c->is_read = true;
  c->phase = m->phase;
  return sim_mbar_complete(c->warp, c->ins, c->lane, m, c->bytes);
}

/* -- observation -- */

static void remove_done(sim_cta_t *cta, bool (*is_done)(const sim_copy_t *,
                                                        const void *),
                        const void *arg) {
  sim_async_t *a = cta->async;
  uint32_t left = 0;
  for (uint32_t n = 0; n < a->count; n++) {
    sim_copy_t *c = a->copies[n];
    if (is_done(c, arg))
      sim_copy_free(c);
    else
      a->copies[left++] = c;
  }
  a->count = left;
}

static bool is_observed(const sim_copy_t *c, const void *arg) {
  const sim_mbar_t *m = arg;
  return c->mbar == m && c->is_moved && c->phase < m->phase;
}

void sim_copy_observe(sim_mbar_t *m) {
  for (uint32_t r = 0; r < m->cta->cluster_count; r++) {
    sim_cta_t *cta = m->cta->cluster[r];
    if (!cta->async) continue;
    for (uint32_t n = 0; n < cta->async->count; n++)
      if (is_observed(cta->async->copies[n], m))
        unmark(cta->async->copies[n]);
    remove_done(cta, is_observed, m);
  }
}

static bool is_over(const sim_copy_t *c, const void *arg) {
  (void)arg;
  return c->kind == SIM_COPY_STORE && c->is_moved && c->is_released;
}

bool sim_copy_wait(sim_warp_t *w, uint32_t m, uint32_t n, bool only_read) {
  sim_cta_t *cta = w->cta;
  sim_async_t *a = cta->async;
  for (uint32_t k = 0; k < a->count; k++) {
    sim_copy_t *c = a->copies[k];
    if (c->kind != SIM_COPY_STORE || c->warp != w || !(m >> c->lane & 1) ||
        (uint64_t)c->group + n >= w->queue->bulk_commits[c->lane])
      continue;
    if (!(only_read ? sim_copy_read(c) : c->is_moved || sim_copy_move(c)))
      return false;
    if (c->is_released) continue;
    c->is_released = true;
    unmark(c);
    /* whoever writes there next must come after this wait */
    for (uint32_t j = 0; j < c->bytes && cta->races; j += 16)
      if (!sim_race_access(w, cta, c->ins, c->lane, chunk_at(c, j), 16, 0))
        return false;
  }
  if (!only_read) {
    /* immediate mode moved early: released now */
    remove_done(cta, is_over, NULL);
  }
  w->queue->wait_tick = a->tick;
  return true;
}
