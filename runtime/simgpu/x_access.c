/* Judges the addresses of a warp's access and finds their storage. The usual
   cases, consecutive elements and one address, cost one test each. */
#include "runtime/simgpu/async.h"
#include "runtime/simgpu/pattern.h"
#include "runtime/simgpu/sectors.h"
#include "runtime/simgpu/x_mem.h"

/* The allocation of an address, by the one this instruction used last. */
static sim_alloc_t *lookup(sim_warp_t *w, const sim_ins_t *i,
                           uint64_t address) {
  sim_worker_t *worker = w->worker;
  size_t slot = (size_t)(i - w->code) & (SIM_CACHE - 1);
  sim_alloc_t *a = worker->cache[slot];
  if (a && address - a->address < a->bytes) return a;
  a = sim_alloc_find(worker->launch->memory, address);
  if (a) worker->cache[slot] = a;
  return a;
}

/* Reports what is wrong with one lane's global address; true in warn mode. */
static bool bad_global(sim_warp_t *w, const sim_ins_t *i, uint32_t lane,
                       uint64_t address, uint32_t size) {
  const sim_memory_t *memory = w->worker->launch->memory;
  sim_alloc_t *a = sim_alloc_find(memory, address);
  if (a && !a->is_live)
    return sim_find(w, i, SIM_CHECK_MEM_FREED, lane, PTX_SPACE_GLOBAL,
                    address, size,
                    "in allocation %u of %llu bytes, freed by call %llu",
                    a->id, (unsigned long long)a->bytes,
                    (unsigned long long)a->freed_by);
  a = sim_alloc_below(memory, address);
  if (a && address - a->address <= a->bytes + SIM_GUARD) {
    uint64_t end = address + size - a->address;
    return sim_find(
        w, i, SIM_CHECK_MEM_BOUNDS, lane, PTX_SPACE_GLOBAL, address, size,
        "ends %llu bytes beyond allocation %u%s%s of %llu bytes",
        (unsigned long long)(end - a->bytes), a->id, a->name ? " " : "",
        a->name ? a->name : "", (unsigned long long)a->bytes);
  }
  sim_alloc_t *next = sim_alloc_find(memory, address + SIM_GUARD / 2);
  if (next)
    return sim_find(w, i, SIM_CHECK_MEM_BOUNDS, lane, PTX_SPACE_GLOBAL,
                    address, size,
                    "starts %llu bytes before allocation %u of %llu bytes",
                    (unsigned long long)(next->address - address), next->id,
                    (unsigned long long)next->bytes);
  return sim_find(w, i, SIM_CHECK_MEM_BOUNDS, lane, PTX_SPACE_GLOBAL,
                  address, size, "is in no allocation");
}

static bool bad_align(sim_warp_t *w, const sim_ins_t *i, uint32_t lane,
                      ptx_space_t space, uint64_t address, uint32_t size) {
  return sim_find(w, i, SIM_CHECK_MEM_ALIGN, lane, space, address, size,
                  "is no multiple of %u", size);
}

/* The shape of the lanes' addresses. */
static void shape(uint32_t m, const uint64_t address[32], uint32_t size,
                  sim_access_t *out) {
  uint32_t first = (uint32_t)__builtin_ctz(m);
  uint64_t base = address[first] - (uint64_t)first * size;
  uint64_t step = 0, differ = 0;
  if (m == SIM_FULL) {
    SIM_LANES {
      step |= address[l] - (base + (uint64_t)l * size);
      differ |= address[l] ^ address[0];
    }
    out->is_run = step == 0;
    out->is_same = differ == 0;
  } else {
    SIM_LANES {
      uint64_t in = 0 - (uint64_t)(m >> l & 1);
      step |= (address[l] - (base + (uint64_t)l * size)) & in;
      differ |= (address[l] ^ address[first]) & in;
    }
    uint32_t mask = m >> first;
    out->is_run = step == 0 && ((mask + 1) & mask) == 0;
    out->is_same = differ == 0;
  }
  out->first = first;
  out->mask = m;
  out->size = size;
}

static bool may_use(const sim_launch_t *launch, const sim_alloc_t *a,
                    char kind) {
  return sim_alloc_may(a, launch->device, launch->peers, kind != 'r');
}

/* Global memory that pending copies use. */
static bool judge_pending(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                          const uint64_t address[32], uint32_t size,
                          char kind) {
  const sim_async_t *a = w->cta->async;
  if (!a->count && (!a->cp_pending || kind == 'r')) return true;
  for (uint32_t l = 0; l < 32; l++) {
    if (SIM_BIT(m) &&
        !sim_async_global(w, i, l, address[l], size, kind != 'r'))
      return false;
  }
  return true;
}

/* A pattern for a request to global memory that is no run: copies have a
   place to remember it, others work it out in *own. NULL: none. */
static const sim_pattern_t *pattern_of(sim_warp_t *w, const sim_ins_t *i,
                                       uint32_t m,
                                       const uint64_t address[32],
                                       uint32_t size, sim_pattern_t *own) {
  const sim_pattern_t *p =
      i->handler == SIM_H_cp_async && w->worker->is_counting
          ? sim_usual(w, i, m, address, size, false)
          : NULL;
  if (p) return p->any_phase ? NULL : p;
  return sim_pattern_fill(own, m, address, size, false) ? own : NULL;
}

/* Counts a run of bytes. */
static void count_run(sim_worker_t *worker, uint32_t lanes, uint32_t size,
                      uint64_t address, uint64_t bytes, bool is_write) {
  uint64_t *c = worker->counters;
  c[SIM_COUNTER_GLOBAL_REQUESTS]++;
  c[is_write ? SIM_COUNTER_GLOBAL_WRITTEN : SIM_COUNTER_GLOBAL_READ] +=
      (uint64_t)lanes * size;
  if (!worker->is_counting) return;
  c[SIM_COUNTER_GLOBAL_SECTORS] +=
      ((address + bytes - 1) >> 5) - (address >> 5) + 1;
  c[SIM_COUNTER_GLOBAL_SECTORS_IDEAL] += (bytes + 31) / 32;
}

/* Counts a request by its pattern. */
static void count_pattern(sim_worker_t *worker, const sim_pattern_t *p,
                          bool is_write) {
  uint64_t *c = worker->counters;
  c[SIM_COUNTER_GLOBAL_REQUESTS]++;
  c[is_write ? SIM_COUNTER_GLOBAL_WRITTEN : SIM_COUNTER_GLOBAL_READ] +=
      (uint64_t)__builtin_popcount(p->mask) * p->size;
  if (!worker->is_counting) return;
  c[SIM_COUNTER_GLOBAL_SECTORS] += p->sectors;
  c[SIM_COUNTER_GLOBAL_SECTORS_IDEAL] +=
      ((uint64_t)p->distinct * p->size + 31) / 32;
}

/* The sectors of the request, whose pattern is p or NULL; lanes of several
   allocations one by one. */
static bool touch_sectors(sim_warp_t *w, const sim_ins_t *i,
                          const sim_access_t *x, const uint64_t address[32],
                          char kind, const sim_pattern_t *p) {
  unsigned flags = sim_touch_flags(i, kind);
  uint32_t first = x->first;
  sim_alloc_t *a = x->alloc[first];
  if (x->is_run || x->is_same)
    return sim_sectors_run(
        w, i, a, address[first],
        (uint64_t)(x->is_same ? 1 : __builtin_popcount(x->mask)) * x->size,
        flags, first);
  bool one = true;
  for (uint32_t l = 0; l < 32; l++)
    if (x->mask >> l & 1) one = one && x->alloc[l] == a;
  if (one && p)
    return sim_sectors_some(w, i, a, address[first], p->sector, p->bytes,
                            p->sectors, flags);
  for (uint32_t l = 0; l < 32; l++)
    if ((x->mask >> l & 1) &&
        !sim_sectors_run(w, i, x->alloc[l], address[l], x->size, flags, l))
      return false;
  return true;
}

/* Flags in global memory order what warps of a CTA do elsewhere too. */
static void pass_flags(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                       const uint64_t address[32], char kind) {
  bool gave = false;
  for (uint32_t l = 0; l < 32; l++)
    if (SIM_BIT(m))
      gave |= sim_flag_access(w, i, sim_flag_global(address[l]), kind);
  if (gave) sim_flag_given(w);
}

bool sim_global_access(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                       const uint64_t address[32], uint32_t size, char kind,
                       sim_access_t *out) {
  const sim_launch_t *launch = w->worker->launch;
  if (w->cta->marks && !judge_pending(w, i, m, address, size, kind))
    return false;
  if (w->fenced && sim_strength(i, kind == 'a'))
    pass_flags(w, i, m, address, kind);
  shape(m, address, size, out);
  uint32_t first = out->first;
  if (out->is_run || out->is_same) {
    uint32_t lanes =
        out->is_run && !out->is_same ? (uint32_t)__builtin_popcount(m) : 1;
    sim_alloc_t *a = lookup(w, i, address[first]);
    uint64_t offset = a ? address[first] - a->address : 0;
    if (a && a->is_live && offset + (uint64_t)lanes * size <= a->bytes &&
        (address[first] & (size - 1)) == 0 && may_use(launch, a, kind) &&
        !(kind != 'r' && a->is_read_only)) {
      out->alloc[first] = a;
      out->offset[first] = offset;
      out->host[first] = a->host + offset;
      count_run(w->worker, (uint32_t)__builtin_popcount(m), size,
                address[first], (uint64_t)lanes * size, kind != 'r');
      if (launch->is_tracking)
        sim_touch(a, offset, (uint64_t)lanes * size, kind,
                  sim_is_early(w, launch));
      return !launch->uses_sectors ||
             touch_sectors(w, i, out, address, kind, NULL);
    }
  }
  out->is_run = out->is_same = false;
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    sim_alloc_t *a = lookup(w, i, address[l]);
    bool go_on = true, bad = true;
    if (!a || !a->is_live || address[l] - a->address + size > a->bytes)
      go_on = bad_global(w, i, l, address[l], size);
    else if (address[l] & (size - 1))
      go_on = bad_align(w, i, l, PTX_SPACE_GLOBAL, address[l], size);
    else if (!may_use(launch, a, kind))
      go_on = sim_find(w, i, SIM_CHECK_MEM_PEER, l, PTX_SPACE_GLOBAL,
                       address[l], size,
                       a->has_rights
                           ? "device %u did not let this one do that"
                           : "belongs to device %u, which is no peer",
                       a->device);
    else if (kind != 'r' && a->is_read_only)
      go_on = sim_find(w, i, SIM_CHECK_MEM_READONLY, l, PTX_SPACE_GLOBAL,
                       address[l], size, "is read-only");
    else
      bad = false;
    if (!go_on) return false;
    if (bad) {
      out->mask &= ~(1u << l);
      continue;
    }
    out->alloc[l] = a;
    out->offset[l] = address[l] - a->address;
    out->host[l] = a->host + out->offset[l];
    if (launch->is_tracking)
      sim_touch(a, out->offset[l], size, kind, sim_is_early(w, launch));
  }
  out->first = out->mask ? (uint32_t)__builtin_ctz(out->mask) : 0;
  if (!out->mask) return true;
  sim_pattern_t own;
  const sim_pattern_t *p =
      pattern_of(w, i, out->mask, address, size, &own);
  if (p)
    count_pattern(w->worker, p, kind != 'r');
  else
    sim_count_global(w->worker, out->mask, address, size, kind != 'r');
  if (launch->uses_sectors)
    return touch_sectors(w, i, out, address, kind, p);
  return true;
}

/* One number a word: void ones and repeated accesses pass at once. */
static bool judge_tags(sim_warp_t *w, const sim_ins_t *i,
                       const sim_access_t *x, char kind) {
  uint64_t *tags = x->cta->tags;
  uint32_t line = (uint32_t)(i - w->code), size = x->size;
  uint32_t words = size <= 4 ? 1 : size / 4;
  uint64_t first = sim_tag(w, line, 0, 15, kind != 'r', kind == 'a');
  for (uint32_t l = 0; l < 32; l++) {
    uint64_t offset = x->offset[l];
    if (!(x->mask >> l & 1)) continue;
    uint64_t now = first | (uint64_t)l << 24;
    if (size < 4) {
      uint64_t bytes = ((UINT64_C(1) << size) - 1) << (offset & 3);
      now = (now & ~(UINT64_C(15) << 20)) | bytes << 20;
    }
    for (uint32_t k = 0; k < words; k++) {
      uint64_t *tag = &tags[offset / 4 + k];
      uint64_t old = *tag;
      if (old >> 44 != first >> 44) {
        *tag = now;
      } else if (old != now &&
                 !sim_tag_meet(w, i, tag, now, l, (uint32_t)offset, size)) {
        return false;
      }
    }
  }
  return true;
}

/* Words that asynchronous operations use. */
static bool judge_marks(sim_warp_t *w, const sim_ins_t *i,
                        const sim_access_t *x, char kind) {
  const uint8_t *marks = x->cta->marks;
  uint32_t words = x->size <= 4 ? 1 : x->size / 4, any = 0;
  for (uint32_t l = 0; l < 32; l++) {
    if (!(x->mask >> l & 1)) continue;
    for (uint32_t k = 0; k < words; k++) any |= marks[x->offset[l] / 4 + k];
  }
  if (!any) return true;
  for (uint32_t l = 0; l < 32; l++) {
    if ((x->mask >> l & 1) &&
        !sim_async_touch(w, x->cta, i, l, (uint32_t)x->offset[l], x->size,
                         kind == 'r'   ? 0
                         : kind == 'w' ? SIM_RACE_WRITE
                                       : SIM_RACE_WRITE | SIM_RACE_ATOMIC))
      return false;
  }
  return true;
}

/* The CTA of an address that names one; out->mask becomes 0 if there is none
   and the launch may go on. False if it must end. */
static bool other_cta(sim_warp_t *w, const sim_ins_t *i, uint64_t address,
                      uint32_t size, sim_access_t *out, sim_cta_t **cta) {
  uint32_t offset, lane = out->first;
  sim_cta_t *found = sim_cluster_resolve(w->cta, address, &offset);
  if (found == w->cta) return true;
  bool knows = (i->mods & SIM_MOD_CLUSTER) || i->space != PTX_SPACE_SHARED;
  if (found && knows && !sim_cluster_is_gone(found)) {
    sim_cluster_touch(w, found);
    *cta = found;
    return true;
  }
  out->mask = 0;
  if (!found)
    return sim_find(w, i, SIM_CHECK_MEM_BOUNDS, lane, PTX_SPACE_SHARED,
                    address, size, "names no CTA of the cluster of %u",
                    w->cta->cluster_count);
  if (!knows)
    return sim_find(w, i, SIM_CHECK_MEM_SPACE, lane, PTX_SPACE_SHARED,
                    address, size,
                    "lies in CTA %u of the cluster, and the instruction "
                    "reaches its own CTA only",
                    found->cluster_rank);
  return sim_find(w, i, SIM_CHECK_CLUSTER_EXIT, lane, PTX_SPACE_SHARED,
                  address, size, "CTA %u of the cluster has exited",
                  found->cluster_rank);
}

bool sim_shared_access(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                       const uint64_t address[32], uint32_t size, char kind,
                       sim_access_t *out) {
  sim_cta_t *cta = w->cta;
  const sim_launch_t *launch = w->worker->launch;
  uint32_t start = launch->shared_start, end = launch->shared_end;
  shape(m, address, size, out);
  uint64_t bias = address[out->first] & ~(uint64_t)SIM_OFFSET_MASK;
  if (bias && !other_cta(w, i, address[out->first], size, out, &cta))
    return false;
  if (out->mask == 0) return true;
  out->cta = cta;
  uint64_t bad_bits = 0, low = ~UINT64_C(0), high = 0;
  SIM_LANES {
    bool in = m >> l & 1;
    uint64_t a = address[l] - bias;
    bad_bits |= in ? a & (size - 1) : 0;
    low = in && a < low ? a : low;
    high = in && a > high ? a : high;
  }
  if (bad_bits == 0 && low >= start && high + size <= end) {
    SIM_LANES {
      uint64_t a = SIM_BIT(m) ? address[l] - bias : start;
      out->offset[l] = a;
      out->host[l] = cta->shared + a;
    }
  } else {
    for (uint32_t l = 0; l < 32; l++) {
      if (!SIM_BIT(m)) continue;
      uint64_t a = address[l] - bias;
      bool go_on = true, bad = true;
      if (a < start || a + size > end)
        go_on = sim_find(w, i, SIM_CHECK_MEM_BOUNDS, l, PTX_SPACE_SHARED,
                         a - start, size,
                         "is outside the %u bytes of shared memory",
                         end - start);
      else if (a & (size - 1))
        go_on = bad_align(w, i, l, PTX_SPACE_SHARED, a, size);
      else
        bad = false;
      if (!go_on) return false;
      if (bad) {
        out->mask &= ~(1u << l);
        continue;
      }
      out->offset[l] = a;
      out->host[l] = cta->shared + a;
    }
    out->is_run = out->is_same = false;
    if (!out->mask) return true;
    out->first = (uint32_t)__builtin_ctz(out->mask);
  }
  const sim_pattern_t *p =
      (i->handler == SIM_H_ldmatrix || i->handler == SIM_H_stmatrix) &&
              w->worker->is_counting
          ? sim_usual(w, i, out->mask, address, size, true)
          : NULL;
  if (p) {
    uint64_t *c = w->worker->counters;
    c[kind == 'r' ? SIM_COUNTER_SHARED_READ : SIM_COUNTER_SHARED_WRITTEN] +=
        (uint64_t)__builtin_popcount(out->mask) * size;
    c[SIM_COUNTER_SHARED_WAVEFRONTS] += p->wavefronts;
    c[SIM_COUNTER_SHARED_IDEAL] += (p->words + 31u) / 32;
  } else {
    sim_count_shared(w->worker, out->mask, address, size, kind != 'r');
  }
  if (cta->marks && !judge_marks(w, i, out, kind)) return false;
  if (cta->tags) return judge_tags(w, i, out, kind);
  if (!cta->races) return true;
  w->serial++;
  unsigned flags = kind == 'r'   ? 0
                   : kind == 'w' ? SIM_RACE_WRITE
                                 : SIM_RACE_WRITE | SIM_RACE_ATOMIC;
  bool is_flag = w->fenced && sim_strength(i, kind == 'a'), gave = false;
  for (uint32_t l = 0; l < 32 && is_flag; l++) {
    if (out->mask >> l & 1)
      gave |= sim_flag_access(
          w, i, sim_flag_shared(cta->cluster_rank, out->offset[l]), kind);
  }
  for (uint32_t l = 0; l < 32; l++) {
    if ((out->mask >> l & 1) &&
        !sim_race_access(w, cta, i, l, (uint32_t)out->offset[l], size, flags))
      return false;
  }
  if (gave) sim_flag_given(w);
  return true;
}

bool sim_local_access(sim_warp_t *w, const sim_ins_t *i, uint32_t m,
                      const uint64_t address[32], uint32_t size, char kind,
                      sim_access_t *out) {
  uint32_t frame = w->cta->launch->kernel->local_bytes;
  (void)kind;
  out->mask = m;
  out->size = size;
  out->is_run = out->is_same = false;
  out->first = (uint32_t)__builtin_ctz(m);
  for (uint32_t l = 0; l < 32; l++) {
    if (!SIM_BIT(m)) continue;
    bool go_on = true, bad = true;
    if (address[l] > frame || address[l] + size > frame)
      go_on = sim_find(w, i, SIM_CHECK_MEM_BOUNDS, l, PTX_SPACE_LOCAL,
                       address[l], size,
                       "is outside the frame of %u bytes", frame);
    else if (address[l] & (size - 1))
      go_on = bad_align(w, i, l, PTX_SPACE_LOCAL, address[l], size);
    else
      bad = false;
    if (!go_on) return false;
    if (bad) {
      out->mask &= ~(1u << l);
      continue;
    }
    out->offset[l] = (uint64_t)l * frame + address[l];
    out->host[l] = w->local + out->offset[l];
  }
  w->worker->counters[SIM_COUNTER_LOCAL_BYTES] +=
      (uint64_t)__builtin_popcount(out->mask) * size;
  return true;
}
