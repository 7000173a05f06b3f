/* MAP_ANONYMOUS and MAP_NORESERVE are no part of POSIX. */
#define _DEFAULT_SOURCE 1

#include "runtime/simgpu/mem.h"

#include "runtime/simgpu/options.h"

#include <stdlib.h>
#include <sys/mman.h>

#define FREED_KEPT 4096u /* records of freed allocations */

/* Zero pages that cost nothing until touched. */
static void *map_pages(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static size_t page_count(const sim_alloc_t *a) {
  return (size_t)((a->bytes + SIM_PAGE - 1) / SIM_PAGE);
}

static size_t sector_count(const sim_alloc_t *a) {
  return (size_t)(((a->address + a->bytes - 1) >> 5) - (a->address >> 5) + 1);
}

static void drop_sectors(sim_alloc_t *a) {
  if (a->sectors) munmap(a->sectors, sector_count(a) * sizeof *a->sectors);
  if (a->l2) munmap(a->l2, sector_count(a) * sizeof *a->l2);
  a->sectors = NULL;
  a->l2 = NULL;
}

static void drop_storage(sim_alloc_t *a) {
  size_t pages = page_count(a);
  if (!a->is_mapped) {
    if (a->kind != SIM_ALLOC_HOST && a->host) munmap(a->host, a->host_bytes);
    if (a->pages) munmap(a->pages, pages);
    if (a->bits) munmap(a->bits, pages * (SIM_PAGE / 8));
    if (a->counts) munmap(a->counts, pages * sizeof *a->counts);
  }
  for (int k = 0; k < SIM_TOUCHES; k++) {
    if (a->touched[k])
      munmap(a->touched[k], (size_t)((a->bytes + 63) / 64 * 8));
    a->touched[k] = NULL;
  }
  drop_sectors(a);
  a->host = NULL;
  a->pages = NULL;
  a->bits = NULL;
  a->counts = NULL;
}

static void drop(sim_alloc_t *a) {
  drop_storage(a);
  td_mutex_free(&a->mutex);
  free(a);
}

/* Index of the first allocation that starts above the address. */
static size_t upper(const sim_memory_t *m, uint64_t address) {
  size_t low = 0, high = m->count;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (m->list[mid]->address > address)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

static bool insert(sim_memory_t *m, sim_alloc_t *a) {
  if (m->count == m->capacity) {
    size_t capacity = m->capacity ? m->capacity * 2 : 64;
    sim_alloc_t **list = realloc(m->list, capacity * sizeof *list);
    if (!list) return false;
    m->list = list;
    m->capacity = capacity;
  }
  size_t at = upper(m, a->address);
  memmove(m->list + at + 1, m->list + at,
          (m->count - at) * sizeof *m->list);
  m->list[at] = a;
  m->count++;
  return true;
}

static void remove_at(sim_memory_t *m, size_t at) {
  memmove(m->list + at, m->list + at + 1,
          (m->count - at - 1) * sizeof *m->list);
  m->count--;
}

/* Host ranges may be handed out again by malloc, reserved ones mapped again:
   old records go. */
static void remove_overlaps(sim_memory_t *m, uint64_t address,
                            uint64_t bytes) {
  for (size_t i = 0; i < m->count;) {
    sim_alloc_t *a = m->list[i];
    if (!a->is_live && !a->is_kept && a->address < address + bytes &&
        address < a->address + a->bytes) {
      remove_at(m, i);
      m->freed--;
      drop(a);
    } else {
      i++;
    }
  }
}

static sim_alloc_t *new_record(const sim_memory_t *m, uint32_t device,
                               uint64_t bytes, sim_alloc_kind_t kind) {
  sim_alloc_t *a = calloc(1, sizeof *a);
  if (!a) return NULL;
  a->bytes = bytes;
  a->kind = kind;
  a->device = device;
  a->is_live = true;
  a->is_read_only = kind == SIM_ALLOC_CONST || kind == SIM_ALLOC_PARAM;
  a->options = m->options;
  if (td_mutex_init(&a->mutex)) return a;
  free(a);
  return NULL;
}

static bool give_storage(sim_alloc_t *a) {
  a->host_bytes = page_count(a) * SIM_PAGE;
  a->host = map_pages(a->host_bytes);
  if (a->kind != SIM_ALLOC_DEVICE || !a->host) return a->host != NULL;
  a->pages = map_pages(page_count(a));
  a->bits = map_pages(page_count(a) * (SIM_PAGE / 8));
  a->counts = map_pages(page_count(a) * sizeof *a->counts);
  return a->pages && a->bits && a->counts;
}

sim_alloc_t *sim_alloc_new(sim_memory_t *m, uint32_t device, uint64_t bytes,
                           sim_alloc_kind_t kind, void *host) {
  sim_alloc_t *a = new_record(m, device, bytes, kind);
  if (!a) return NULL;
  a->id = ++m->next_id;
  bool ok = true;
  if (kind == SIM_ALLOC_HOST) {
    a->host = host;
    a->address = (uint64_t)(uintptr_t)host;
    remove_overlaps(m, a->address, bytes);
  } else {
    uint64_t *next = &m->next[device];
    if (*next == 0) *next = SIM_WINDOW + device * SIM_WINDOW_BYTES + SIM_GUARD;
    /* a multiple of 256 that is none of 512 */
    a->address = ((*next + 511) & ~UINT64_C(511)) + 256;
    *next = a->address + bytes + SIM_GUARD;
    ok = give_storage(a);
  }
  if (!ok || !insert(m, a)) {
    drop(a);
    return NULL;
  }
  return a;
}

sim_alloc_t *sim_storage_new(const sim_memory_t *m, uint32_t device,
                             uint64_t bytes) {
  sim_alloc_t *a = new_record(m, device, bytes, SIM_ALLOC_DEVICE);
  if (!a || give_storage(a)) return a;
  drop(a);
  return NULL;
}

void sim_storage_free(sim_alloc_t *a) {
  drop(a);
}

sim_alloc_t *sim_alloc_map(sim_memory_t *m, uint64_t address,
                           sim_alloc_t *storage) {
  sim_alloc_t *a =
      new_record(m, storage->device, storage->bytes, SIM_ALLOC_DEVICE);
  if (!a) return NULL;
  /* page states change under a record's own mutex: two records that share
     storage must find no page untouched */
  sim_poison_range(storage, 0, storage->bytes);
  a->id = ++m->next_id;
  a->address = address;
  a->is_mapped = true;
  a->has_rights = true;
  a->host = storage->host;
  a->pages = storage->pages;
  a->bits = storage->bits;
  a->counts = storage->counts;
  remove_overlaps(m, address, a->bytes);
  if (insert(m, a)) return a;
  drop(a);
  return NULL;
}

bool sim_alloc_revive(sim_memory_t *m, sim_alloc_t *a) {
  if (!give_storage(a)) {
    drop_storage(a);
    return false;
  }
  a->is_live = true;
  m->freed--;
  return true;
}

void sim_alloc_release(sim_memory_t *m, sim_alloc_t *a) {
  drop_storage(a);
  a->is_live = false;
  m->freed++;
  if (m->freed <= FREED_KEPT) return;
  /* the oldest half goes at once, so that the cost is spread */
  uint32_t newest_dropped = m->next_id;
  size_t kept = 0, freed_kept = 0;
  uint32_t *ids = malloc(m->count * sizeof *ids);
  if (!ids) return;
  size_t n = 0;
  for (size_t i = 0; i < m->count; i++) {
    if (!m->list[i]->is_live && !m->list[i]->is_kept)
      ids[n++] = m->list[i]->id;
  }
  /* the median by counting: ids are small and dense enough to bisect */
  uint32_t low = 0, high = m->next_id;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    size_t below = 0;
    for (size_t i = 0; i < n; i++) below += ids[i] <= mid;
    if (below * 2 >= n)
      high = mid;
    else
      low = mid + 1;
  }
  newest_dropped = low;
  free(ids);
  for (size_t i = 0; i < m->count; i++) {
    sim_alloc_t *x = m->list[i];
    if (!x->is_live && !x->is_kept && x->id <= newest_dropped && x != a) {
      drop(x);
      continue;
    }
    freed_kept += !x->is_live;
    m->list[kept++] = x;
  }
  m->count = kept;
  m->freed = freed_kept;
}

void sim_memory_free(sim_memory_t *m) {
  for (size_t i = 0; i < m->count; i++) drop(m->list[i]);
  free(m->list);
  memset(m, 0, sizeof *m);
}

sim_alloc_t *sim_alloc_below(const sim_memory_t *m, uint64_t address) {
  size_t at = upper(m, address);
  return at ? m->list[at - 1] : NULL;
}

sim_alloc_t *sim_alloc_find(const sim_memory_t *m, uint64_t address) {
  sim_alloc_t *a = sim_alloc_below(m, address);
  return a && address - a->address < a->bytes ? a : NULL;
}

/* -- what a launch touches -- */

sim_sector_t *sim_alloc_sectors(sim_alloc_t *a) {
  td_mutex_lock(&a->mutex);
  if (!a->sectors)
    __atomic_store_n(&a->sectors,
                     map_pages(sector_count(a) * sizeof *a->sectors),
                     __ATOMIC_RELEASE);
  td_mutex_unlock(&a->mutex);
  return a->sectors;
}

uint32_t *sim_alloc_l2(sim_alloc_t *a) {
  if (!a->l2) a->l2 = map_pages(sector_count(a) * sizeof *a->l2);
  return a->l2;
}

void sim_memory_forget_sectors(sim_memory_t *m) {
  for (size_t n = 0; n < m->count; n++) drop_sectors(m->list[n]);
}

static uint64_t word_mask(uint64_t offset, uint64_t end, uint64_t word);

void sim_touch(sim_alloc_t *a, uint64_t offset, uint64_t bytes, char kind,
               bool is_early) {
  int row = kind == 'r' ? 0 : kind == 'w' ? 1 : 2;
  uint64_t **at = &a->touched[row + (is_early ? SIM_TOUCHES / 2 : 0)];
  uint64_t *bits = __atomic_load_n(at, __ATOMIC_ACQUIRE);
  if (!bits) {
    td_mutex_lock(&a->mutex);
    if (!*at)
      __atomic_store_n(at, map_pages((size_t)((a->bytes + 63) / 64 * 8)),
                       __ATOMIC_RELEASE);
    bits = *at;
    td_mutex_unlock(&a->mutex);
    if (!bits) return;
  }
  for (uint64_t w = offset / 64; w * 64 < offset + bytes; w++) {
    uint64_t mask = word_mask(offset, offset + bytes, w);
    if ((__atomic_load_n(&bits[w], __ATOMIC_RELAXED) & mask) != mask)
      __atomic_fetch_or(&bits[w], mask, __ATOMIC_RELAXED);
  }
}

/* -- definedness -- */

/* Calls with the part of the range in each 64-byte word of bits. */
static uint64_t word_mask(uint64_t offset, uint64_t end, uint64_t word) {
  uint64_t low = word * 64, mask = ~UINT64_C(0);
  if (offset > low) mask &= ~UINT64_C(0) << (offset - low);
  if (end < low + 64) mask &= ~UINT64_C(0) >> (low + 64 - end);
  return mask;
}

bool sim_is_defined_slow(const sim_alloc_t *a, uint64_t offset,
                         uint64_t bytes) {
  if (!a->pages) return true;
  uint64_t end = offset + bytes;
  while (offset < end) {
    uint64_t page = offset / SIM_PAGE;
    uint64_t stop = (page + 1) * SIM_PAGE < end ? (page + 1) * SIM_PAGE : end;
    uint8_t state = __atomic_load_n(&a->pages[page], __ATOMIC_ACQUIRE);
    if (state == SIM_PAGE_UNTOUCHED) return false;
    if (state == SIM_PAGE_PARTLY) {
      for (uint64_t w = offset / 64; w * 64 < stop; w++) {
        uint64_t mask = word_mask(offset, stop, w);
        uint64_t have = __atomic_load_n(&a->bits[w], __ATOMIC_RELAXED);
        if ((have & mask) != mask) return false;
      }
    }
    offset = stop;
  }
  return true;
}

/* Poison is written before the first partial store, under the mutex, so that
   no other thread's store is overwritten by it. */
static void touch_page(sim_alloc_t *a, uint64_t page) {
  td_mutex_lock(&a->mutex);
  if (a->pages[page] == SIM_PAGE_UNTOUCHED) {
    sim_poison_fill(a->options, a->host + page * SIM_PAGE, SIM_PAGE,
                    a->address + page * SIM_PAGE);
    __atomic_store_n(&a->pages[page], SIM_PAGE_PARTLY, __ATOMIC_RELEASE);
  }
  td_mutex_unlock(&a->mutex);
}

void sim_define_slow(sim_alloc_t *a, uint64_t offset, uint64_t bytes) {
  uint64_t end = offset + bytes;
  while (offset < end) {
    uint64_t page = offset / SIM_PAGE;
    uint64_t start = page * SIM_PAGE;
    uint64_t stop = start + SIM_PAGE < end ? start + SIM_PAGE : end;
    uint64_t limit = start + SIM_PAGE < a->bytes ? start + SIM_PAGE
                                                 : a->bytes;
    uint8_t state = __atomic_load_n(&a->pages[page], __ATOMIC_ACQUIRE);
    if (state == SIM_PAGE_UNTOUCHED) {
      touch_page(a, page);
      state = SIM_PAGE_PARTLY;
    }
    if (state != SIM_PAGE_DEFINED) {
      uint32_t added = 0;
      for (uint64_t w = offset / 64; w * 64 < stop; w++) {
        uint64_t mask = word_mask(offset, stop, w);
        uint64_t old =
            __atomic_fetch_or(&a->bits[w], mask, __ATOMIC_RELAXED);
        added += (uint32_t)__builtin_popcountll(mask & ~old);
      }
      uint32_t now =
          __atomic_add_fetch(&a->counts[page], added, __ATOMIC_ACQ_REL);
      if (now == limit - start)
        __atomic_store_n(&a->pages[page], SIM_PAGE_DEFINED,
                         __ATOMIC_RELEASE);
    }
    offset = stop;
  }
}

void sim_undefine(sim_alloc_t *a, uint64_t offset, uint64_t bytes) {
  if (!a->pages) return;
  uint64_t end = offset + bytes;
  for (uint64_t page = offset / SIM_PAGE; page * SIM_PAGE < end; page++)
    if (__atomic_load_n(&a->pages[page], __ATOMIC_ACQUIRE) ==
        SIM_PAGE_UNTOUCHED)
      touch_page(a, page);
  td_mutex_lock(&a->mutex);
  for (uint64_t w = offset / 64; w * 64 < end; w++) {
    uint64_t mask = word_mask(offset, end, w);
    uint64_t old = __atomic_fetch_and(&a->bits[w], ~mask, __ATOMIC_RELAXED);
    uint64_t page = w * 64 / SIM_PAGE;
    uint32_t gone = (uint32_t)__builtin_popcountll(mask & old);
    __atomic_sub_fetch(&a->counts[page], gone, __ATOMIC_ACQ_REL);
    if (gone)
      __atomic_store_n(&a->pages[page], SIM_PAGE_PARTLY, __ATOMIC_RELEASE);
  }
  td_mutex_unlock(&a->mutex);
}

uint32_t sim_undefined_mask(const sim_alloc_t *a, uint64_t offset,
                            uint32_t bytes) {
  if (!a->pages) return 0;
  uint32_t out = 0;
  for (uint32_t i = 0; i < bytes; i++) {
    uint64_t at = offset + i;
    uint8_t state =
        __atomic_load_n(&a->pages[at / SIM_PAGE], __ATOMIC_ACQUIRE);
    bool is_defined =
        state == SIM_PAGE_DEFINED ||
        (state == SIM_PAGE_PARTLY &&
         (__atomic_load_n(&a->bits[at / 64], __ATOMIC_RELAXED) >>
              (at % 64) &
          1));
    out |= (uint32_t)!is_defined << i;
  }
  return out;
}

void sim_poison_range(sim_alloc_t *a, uint64_t offset, uint64_t bytes) {
  if (!a->pages || !bytes) return;
  for (uint64_t page = offset / SIM_PAGE;
       page <= (offset + bytes - 1) / SIM_PAGE; page++) {
    if (__atomic_load_n(&a->pages[page], __ATOMIC_ACQUIRE) ==
        SIM_PAGE_UNTOUCHED)
      touch_page(a, page);
  }
}
