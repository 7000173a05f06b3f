#include "runtime/simgpu/sectors.h"

#include "runtime/simgpu/l2.h"
#include "runtime/simgpu/sync.h"

#include <stdlib.h>

/* meta: bits 0-17 code index of the last access, then flags, 23-31 the
   launch's stamp. */
#define INS_MASK UINT32_C(0x3FFFF)
#define NC       (UINT32_C(1) << 18) /* some bytes were read by .nc */
#define PLAIN    (UINT32_C(1) << 19) /* some were read otherwise */
#define MANY     (UINT32_C(1) << 20) /* several CTAs; owner: the bytes that
                                        two or more used */
#define DETAIL   (UINT32_C(1) << 21) /* owner: number of a record by byte */
#define ATOMIC   (UINT32_C(1) << 22) /* every write was atomic */
#define STAMP    23
#define LOCKED   UINT32_MAX
#define STAMPS   510u

/* By byte: CTA + 1, or one of these. */
#define NOBODY  0u
#define SEVERAL UINT32_MAX
#define UNKNOWN (UINT32_MAX - 1)

typedef struct sim_detail_t {
  uint32_t writer[32], reader[32];
  uint32_t atomic; /* bytes whose every write was atomic */
} sim_detail_t;

#define CHUNK      256u  /* records by byte of one allocation */
#define MAX_CHUNKS 4096u /* 264 MiB of them */

struct sim_details_t {
  sim_detail_t **chunks;
  uint32_t count, chunk_count;
  td_mutex_t mutex;
};

void sim_sectors_begin(sim_launch_t *launch) {
  sim_memory_t *memory = launch->memory;
  launch->is_judging = (launch->options->checks & SIM_CHECK_RACE) != 0;
  launch->uses_sectors =
      launch->is_judging || launch->options->count == SIM_COUNT_FULL;
  if (++memory->stamp > STAMPS) {
    memory->stamp = 1;
    sim_memory_forget_sectors(memory);
  }
  launch->stamp = memory->stamp;
  launch->details = launch->is_judging
                        ? calloc(1, sizeof *launch->details)
                        : NULL;
  if (launch->details && !td_mutex_init(&launch->details->mutex)) {
    free(launch->details);
    launch->details = NULL;
  }
  if (!launch->details) launch->is_judging = false;
  launch->sync = launch->is_judging && launch->kernel->is_communicating
                     ? sim_sync_new(launch)
                     : NULL;
}

void sim_sectors_end(sim_launch_t *launch) {
  sim_sync_free(launch->sync);
  launch->sync = NULL;
  if (!launch->details) return;
  for (uint32_t n = 0; n < launch->details->chunk_count; n++)
    free(launch->details->chunks[n]);
  free(launch->details->chunks);
  td_mutex_free(&launch->details->mutex);
  free(launch->details);
  launch->details = NULL;
}

/* A fresh record by byte, and its number; NULL without memory. */
static sim_detail_t *detail_new(sim_launch_t *launch, uint32_t *number) {
  struct sim_details_t *d = launch->details;
  sim_detail_t *out = NULL;
  td_mutex_lock(&d->mutex);
  if (d->count == d->chunk_count * CHUNK && d->chunk_count < MAX_CHUNKS) {
    sim_detail_t **chunks =
        realloc(d->chunks, (d->chunk_count + 1u) * sizeof *chunks);
    if (chunks) {
      d->chunks = chunks;
      chunks[d->chunk_count] = calloc(CHUNK, sizeof **chunks);
      if (chunks[d->chunk_count]) d->chunk_count++;
    }
  }
  if (d->count < d->chunk_count * CHUNK) {
    *number = d->count++;
    out = &d->chunks[*number / CHUNK][*number % CHUNK];
  }
  td_mutex_unlock(&d->mutex);
  return out;
}

static sim_detail_t *detail_at(sim_launch_t *launch, uint32_t number) {
  struct sim_details_t *d = launch->details;
  td_mutex_lock(&d->mutex);
  sim_detail_t *out = &d->chunks[number / CHUNK][number % CHUNK];
  td_mutex_unlock(&d->mutex);
  return out;
}

/* -- reports -- */

typedef struct touch_t {
  sim_warp_t *w;
  const sim_ins_t *ins;
  uint64_t address; /* of the sector */
  uint32_t bytes;   /* mask */
  unsigned flags;
  uint32_t lane;
} touch_t;

/* An atomic operation that those of other CTAs may meet. */
static bool meets(const touch_t *t) {
  return t->flags & SIM_TOUCH_ATOMIC &&
         !(t->ins->mods & SIM_MOD_CTA_SCOPE);
}

static bool report(const touch_t *t, sim_check_t id, uint32_t bytes,
                   uint32_t other, const char *what) {
  const sim_kernel_t *k = t->w->cta->launch->kernel;
  char place[128];
  sim_place_text(k, other, place, sizeof place);
  return sim_find(t->w, t->ins, id, t->lane, PTX_SPACE_GLOBAL,
                  t->address + (uint32_t)__builtin_ctz(bytes),
                  (uint32_t)__builtin_popcount(bytes), "%s (%s)", what, place);
}

static bool race(const touch_t *t, uint32_t bytes, uint32_t other,
                 bool other_wrote) {
  bool writes = t->flags & SIM_TOUCH_WRITE;
  return report(t, SIM_CHECK_RACE_GLOBAL, bytes, other,
                other_wrote && writes ? "another CTA writes the same bytes"
                : other_wrote         ? "another CTA writes what this reads"
                                      : "another CTA reads what this writes");
}

/* -- one sector -- */

/* Splits a record that no longer says enough into bytes. */
static sim_detail_t *split(sim_launch_t *launch, sim_sector_t *r) {
  uint32_t number = 0, owner = r->owner;
  sim_detail_t *d = detail_new(launch, &number);
  if (!d) return NULL;
  bool many = r->meta & MANY;
  for (uint32_t k = 0; k < 32; k++) {
    uint32_t who = !many              ? owner + 1
                   : owner >> k & 1 ? SEVERAL
                                      : UNKNOWN;
    d->reader[k] = r->read >> k & 1 ? who : NOBODY;
    d->writer[k] = r->written >> k & 1 ? who : NOBODY;
  }
  d->atomic = r->meta & ATOMIC ? r->written : 0;
  r->owner = number;
  r->meta = (r->meta & ~MANY) | DETAIL;
  return d;
}

static bool is_other(uint32_t who, uint32_t me) {
  return who != NOBODY && who != UNKNOWN && who != me;
}

static bool judge_bytes(const touch_t *t, sim_detail_t *d, uint32_t me,
                        uint32_t other) {
  bool writes = t->flags & SIM_TOUCH_WRITE;
  bool atomic = meets(t);
  uint32_t by_writer = 0, by_reader = 0;
  for (uint32_t k = 0; k < 32; k++) {
    if (!(t->bytes >> k & 1)) continue;
    bool both = atomic && d->atomic >> k & 1;
    if (is_other(d->writer[k], me) && !both) by_writer |= 1u << k;
    if (!writes) {
      uint32_t r = d->reader[k];
      d->reader[k] = r == NOBODY || r == me ? me
                     : r == UNKNOWN         ? UNKNOWN
                                            : SEVERAL;
      continue;
    }
    if (is_other(d->reader[k], me)) by_reader |= 1u << k;
    if (d->writer[k] == NOBODY)
      d->atomic |= (uint32_t)atomic << k;
    else if (!atomic)
      d->atomic &= ~(1u << k);
    d->writer[k] = d->writer[k] == NOBODY || d->writer[k] == me ? me
                                                                : SEVERAL;
  }
  if (by_writer && !race(t, by_writer, other, true)) return false;
  return !by_reader || race(t, by_reader, other, false);
}

/* A second CTA comes to a sector; the record may stay as it is. */
static bool judge_new_owner(const touch_t *t, sim_sector_t *r, bool *ok) {
  bool writes = t->flags & SIM_TOUCH_WRITE;
  bool atomic = meets(t);
  uint32_t b = t->bytes, shared = r->meta & MANY ? r->owner : UINT32_MAX;
  uint32_t other = r->meta & INS_MASK;
  bool reads_only = r->written == 0 && !writes;
  bool atomics_only = r->read == 0 && atomic && r->meta & ATOMIC;
  *ok = true;
  if (reads_only || atomics_only) {
    /* exact while every byte was used by two or more */
    uint32_t before = reads_only ? r->read : r->written;
    if (!(r->meta & MANY) && before == b) {
      r->owner = b;
      r->meta |= MANY;
      return true;
    }
    return r->meta & MANY && !(b & ~r->owner);
  }
  /* bytes that certainly another CTA used in a way that conflicts */
  uint32_t wrote = r->written & b & shared;
  uint32_t read = writes ? r->read & b & shared : 0;
  if (atomic && r->meta & ATOMIC) wrote = 0;
  if (wrote) *ok = race(t, wrote, other, true);
  if (*ok && read) *ok = race(t, read, other, false);
  return false;
}

static bool judge(const touch_t *t, sim_sector_t *r, uint32_t me) {
  sim_launch_t *launch = t->w->cta->launch;
  bool writes = t->flags & SIM_TOUCH_WRITE;
  bool atomic = meets(t);
  uint32_t b = t->bytes, other = r->meta & INS_MASK;
  /* the read-only path does not see what the launch writes */
  if (t->flags & SIM_TOUCH_NC && r->written & b &&
      !report(t, SIM_CHECK_MEM_NC, r->written & b, other,
              "the launch writes these bytes"))
    return false;
  if (writes && (r->meta & (NC | PLAIN)) == NC && r->read & b &&
      !report(t, SIM_CHECK_MEM_NC, r->read & b, other,
              "the launch reads these bytes by a read-only load"))
    return false;
  if (launch->kernel->is_communicating) return true;
  if (r->meta & DETAIL)
    return judge_bytes(t, detail_at(launch, r->owner), me + 1, other);
  bool mixes = writes && r->written && atomic != ((r->meta & ATOMIC) != 0);
  if (!(r->meta & MANY) && r->owner == me) {
    if (!mixes) return true;
  } else {
    bool ok;
    if (judge_new_owner(t, r, &ok)) return true;
    if (!ok) return false;
  }
  sim_detail_t *d = split(launch, r);
  if (!d) {
    /* without memory: what is not sure is not judged */
    if (!(r->meta & MANY)) r->owner = 0;
    r->meta |= MANY;
    return true;
  }
  /* conflicts were judged above: here the bytes are only written down */
  for (uint32_t k = 0; k < 32; k++) {
    if (!(b >> k & 1)) continue;
    uint32_t *who = writes ? &d->writer[k] : &d->reader[k];
    if (writes && !(atomic && (d->atomic >> k & 1 || *who == NOBODY)))
      d->atomic &= ~(1u << k);
    else if (writes)
      d->atomic |= 1u << k;
    *who = *who == NOBODY || *who == me + 1 ? me + 1
           : *who == UNKNOWN                ? UNKNOWN
                                            : SEVERAL;
  }
  return true;
}

static inline uint32_t lock(const sim_launch_t *launch, sim_sector_t *r) {
  if (!launch->is_threaded) return r->meta;
  uint32_t meta;
  while ((meta = __atomic_exchange_n(&r->meta, LOCKED, __ATOMIC_ACQUIRE)) ==
         LOCKED) {}
  return meta;
}

/* True if the record already says all that the access could add: read by
   several CTAs before, or used by this one alone in the same way. Nothing is
   written then, so that host threads that read the same sectors keep them in
   their caches. Fields that another thread changes meanwhile only say more. */
static inline bool says_all(const touch_t *t, const sim_sector_t *r) {
  const sim_launch_t *launch = t->w->cta->launch;
  uint32_t meta = __atomic_load_n(&r->meta, __ATOMIC_ACQUIRE);
  if (meta >> STAMP != launch->stamp || meta & (DETAIL | ATOMIC) ||
      launch->sync)
    return false;
  uint32_t b = t->bytes;
  uint32_t owner = __atomic_load_n(&r->owner, __ATOMIC_RELAXED);
  uint32_t read = __atomic_load_n(&r->read, __ATOMIC_RELAXED);
  uint32_t written = __atomic_load_n(&r->written, __ATOMIC_RELAXED);
  bool is_mine = !launch->is_judging ||
                 (!(meta & MANY) && owner == t->w->cta->owner);
  if (t->flags & SIM_TOUCH_READ) {
    uint32_t kind = t->flags & SIM_TOUCH_NC ? NC : PLAIN;
    if (b & ~read || !(meta & kind)) return false;
    if (!is_mine && (!(meta & MANY) || b & ~owner || written)) return false;
    if (written && kind == NC) return false;
  } else if (t->flags != SIM_TOUCH_WRITE || !is_mine || b & ~written ||
             meta & NC) {
    return false;
  }
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return __atomic_load_n(&r->meta, __ATOMIC_RELAXED) == meta;
}

static bool touch(const touch_t *t, sim_sector_t *r, bool judging) {
  if (says_all(t, r)) return true;
  sim_launch_t *launch = t->w->cta->launch;
  uint64_t *c = t->w->worker->counters;
  uint32_t me = t->w->cta->owner, line = (uint32_t)(t->ins - t->w->code);
  uint32_t reads = t->flags & SIM_TOUCH_READ ? t->bytes : 0;
  uint32_t writes = t->flags & SIM_TOUCH_WRITE ? t->bytes : 0;
  bool atomic = t->flags & SIM_TOUCH_ATOMIC, ok = true;
  uint32_t meta = lock(launch, r);
  sim_sector_t now = {r->owner, r->read, r->written, meta};
  if (now.meta >> STAMP != launch->stamp) {
    now = (sim_sector_t){me, 0, 0, launch->stamp << STAMP};
    if (atomic) now.meta |= ATOMIC;
  } else if (judging) {
    ok = judge(t, &now, me);
  }
  if (ok && launch->sync)
    ok = sim_sync_touch(t->w, t->ins, t->address >> 5, t->bytes, t->flags,
                        t->lane);
  /* an atomic operation reads the sector too */
  if ((reads && !now.read && !(now.meta & ATOMIC && now.written)) ||
      (atomic && !now.read && !now.written))
    c[SIM_COUNTER_UNIQUE_READ] += 32;
  if (writes && !now.written) {
    c[SIM_COUNTER_UNIQUE_WRITTEN] += 32;
    if (atomic && !(now.meta & DETAIL)) now.meta |= ATOMIC;
  }
  if (!atomic && writes) now.meta &= ~ATOMIC;
  now.read |= reads;
  now.written |= writes;
  if (reads) now.meta |= t->flags & SIM_TOUCH_NC ? NC : PLAIN;
  now.meta = (now.meta & ~INS_MASK) | (line < INS_MASK ? line : INS_MASK);
  r->owner = now.owner;
  r->read = now.read;
  r->written = now.written;
  if (launch->is_threaded)
    __atomic_store_n(&r->meta, now.meta, __ATOMIC_RELEASE);
  else
    r->meta = now.meta;
  return ok;
}

/* -- requests -- */

static sim_sector_t *records(sim_alloc_t *a) {
  sim_sector_t *s = __atomic_load_n(&a->sectors, __ATOMIC_ACQUIRE);
  return s ? s : sim_alloc_sectors(a);
}

/* What the worker's counters grew by belongs to the allocation. */
static void charge(sim_alloc_t *a, const uint64_t *c, uint64_t read,
                   uint64_t written) {
  if (c[SIM_COUNTER_UNIQUE_READ] != read)
    __atomic_fetch_add(&a->unique[0], c[SIM_COUNTER_UNIQUE_READ] - read,
                       __ATOMIC_RELAXED);
  if (c[SIM_COUNTER_UNIQUE_WRITTEN] != written)
    __atomic_fetch_add(&a->unique[1],
                       c[SIM_COUNTER_UNIQUE_WRITTEN] - written,
                       __ATOMIC_RELAXED);
}

bool sim_sectors_run(sim_warp_t *w, const sim_ins_t *ins, sim_alloc_t *a,
                     uint64_t address, uint64_t bytes, unsigned flags,
                     uint32_t lane) {
  sim_launch_t *launch = w->cta->launch;
  sim_sector_t *s = records(a);
  uint64_t first = address >> 5, last = (address + bytes - 1) >> 5;
  uint64_t origin = a->address >> 5;
  touch_t t = {w, ins, 0, 0, flags, lane};
  const uint64_t *c = w->worker->counters;
  uint64_t read = c[SIM_COUNTER_UNIQUE_READ];
  uint64_t written = c[SIM_COUNTER_UNIQUE_WRITTEN];
  if (launch->has_l2)
    sim_l2_note(w->cta, a, first - origin, (uint32_t)(last - first + 1),
                (flags & SIM_TOUCH_WRITE) != 0);
  if (!s) return true;
  for (uint64_t n = first; n <= last; n++) {
    uint32_t low = n == first ? (uint32_t)address & 31 : 0;
    uint32_t high = n == last ? (uint32_t)(address + bytes - 1) & 31 : 31;
    t.bytes = UINT32_MAX << low & UINT32_MAX >> (31 - high);
    t.address = n << 5;
    if (!touch(&t, &s[n - origin], launch->is_judging)) return false;
  }
  charge(a, c, read, written);
  return true;
}

bool sim_sectors_some(sim_warp_t *w, const sim_ins_t *ins, sim_alloc_t *a,
                      uint64_t address, const int32_t *sector,
                      const uint32_t *bytes, uint32_t count,
                      unsigned flags) {
  sim_launch_t *launch = w->cta->launch;
  sim_sector_t *s = records(a);
  uint64_t first = (address >> 5) - (a->address >> 5);
  touch_t t = {w, ins, 0, 0, flags, 32};
  const uint64_t *c = w->worker->counters;
  uint64_t read = c[SIM_COUNTER_UNIQUE_READ];
  uint64_t written = c[SIM_COUNTER_UNIQUE_WRITTEN];
  for (uint32_t n = 0; n < count; n++) {
    uint64_t at = first + (uint64_t)(int64_t)sector[n];
    if (launch->has_l2)
      sim_l2_note(w->cta, a, at, 1, (flags & SIM_TOUCH_WRITE) != 0);
    if (!s) continue;
    t.bytes = bytes[n];
    t.address = ((a->address >> 5) + at) << 5;
    if (!touch(&t, &s[at], launch->is_judging)) return false;
  }
  charge(a, c, read, written);
  return true;
}
