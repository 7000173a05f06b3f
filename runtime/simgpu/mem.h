/* Memory of the simulated devices. Device d owns the addresses from
   SIM_WINDOW + d * 2^40; storage lies elsewhere in the host, so a host that
   dereferences a device address traps. Bounds are exact to the byte, at least
   64 KiB lie between two allocations, and a freed range is never given out
   again.

   Per byte a shadow bit says whether it was ever written. A page of 4 KiB is
   in one of three states, so that the usual question costs one test:
   untouched (its storage holds nothing, reads give poison), partly defined
   (bits count), defined. */
#ifndef SIM_MEM_H
#define SIM_MEM_H

#include "runtime/base/os.h"

#define SIM_WINDOW       UINT64_C(0x200000000000)
#define SIM_WINDOW_BYTES (UINT64_C(1) << 40)
#define SIM_GUARD        UINT64_C(65536)
#define SIM_POISON       0xFF
/* Generic addresses of shared and local memory. */
#define SIM_SHARED_BASE UINT64_C(0x100000000000)
#define SIM_LOCAL_BASE  UINT64_C(0x110000000000)
#define SIM_SPACE_BYTES (UINT64_C(1) << 32)
#define SIM_PAGE        4096u
/* Windows: one a device, and one of reserved ranges (sim_virtual.c). */
#define SIM_TOUCHES        6
#define SIM_WINDOWS        17u
#define SIM_VIRTUAL_WINDOW 16u

typedef enum sim_alloc_kind_t {
  SIM_ALLOC_DEVICE,
  SIM_ALLOC_HOST,   /* pinned: its address is the host's own */
  SIM_ALLOC_MODULE, /* a variable of a module */
  SIM_ALLOC_CONST,
  SIM_ALLOC_PARAM   /* parameters of a launch */
} sim_alloc_kind_t;

enum { SIM_PAGE_UNTOUCHED, SIM_PAGE_PARTLY, SIM_PAGE_DEFINED };

/* What a launch did to 32 bytes; see sectors.c. */
typedef struct sim_sector_t {
  uint32_t owner, read, written, meta;
} sim_sector_t;

typedef struct sim_alloc_t {
  uint64_t address, bytes;
  uint8_t *host;      /* NULL once freed */
  size_t host_bytes;  /* mapped */
  uint8_t *pages;     /* state of each page */
  uint64_t *bits;     /* a bit a byte; mapped on demand by the host */
  uint32_t *counts;   /* defined bytes of each page */
  td_mutex_t mutex;   /* of page state changes */
  uint32_t id, device;
  sim_alloc_kind_t kind;
  bool is_live, is_read_only;
  uint64_t context;   /* handle number of the owner */
  uint64_t freed_by;  /* number of the call that freed it */
  uint64_t made_by;
  const char *name;   /* of a module variable, else NULL */
  bool is_ending;     /* a stream-ordered free is queued */
  bool is_managed;    /* of the host, allocated for both */
  bool is_kept;       /* the record outlives its storage: graph memory */
  bool is_given;      /* graph memory whose allocating launch was submitted */
  bool is_mapped;     /* storage of a physical allocation, not its own */
  bool is_returned;   /* its pool has its bytes back already */
  uint64_t pool;      /* handle of the pool it came from, or 0 */
  uint64_t physical;  /* of a mapping: handle of its memory */
  bool has_rights;    /* these decide who may touch it, not peer access: */
  uint64_t readers, writers; /* a bit a device */
  uint64_t *touched[SIM_TOUCHES]; /* of a launch that notes what it touches:
                                     a bit a byte read, written, used
                                     atomically, then the same of what it
                                     touches early (depend.h); mapped */
  const struct sim_options_t *options; /* for poison */
  uint64_t unique[2]; /* bytes of the sectors that the running launch has read
                         and written here */
  sim_sector_t *sectors; /* one for each 32 bytes, mapped on demand */
  uint32_t *l2;          /* likewise: the step that used it last; see l2.c */
} sim_alloc_t;

/* All allocations of a process, by address. Freed ones stay a while, to be
   named in reports. Guarded by the driver's lock; kernels only read. */
typedef struct sim_memory_t {
  sim_alloc_t **list; /* sorted by address */
  size_t count, capacity, freed;
  uint64_t next[SIM_WINDOWS]; /* the next address of each window */
  uint32_t next_id;
  const struct sim_options_t *options; /* for poison; NULL: 0xFF */
  uint32_t stamp;     /* of the latest launch's sectors */
  uint32_t l2_step;   /* the latest of any launch */
} sim_memory_t;

/* NULL if the host has no memory. bytes > 0. */
sim_alloc_t *sim_alloc_new(sim_memory_t *memory, uint32_t device,
                           uint64_t bytes, sim_alloc_kind_t kind,
                           void *host);
/* Storage that no address has yet (NULL without memory), its end, and a
   record at an address that shares it. */
sim_alloc_t *sim_storage_new(const sim_memory_t *memory, uint32_t device,
                             uint64_t bytes);
void sim_storage_free(sim_alloc_t *storage);
sim_alloc_t *sim_alloc_map(sim_memory_t *memory, uint64_t address,
                           sim_alloc_t *storage);
/* New storage, undefined, for a kept record that has none. */
bool sim_alloc_revive(sim_memory_t *memory, sim_alloc_t *alloc);

/* True if kernels and copies of the device may touch it. peers: devices whose
   memory they may use. */
static inline bool sim_alloc_may(const sim_alloc_t *a, uint32_t device,
                                 uint64_t peers, bool is_write) {
  if (a->has_rights)
    return (is_write ? a->writers : a->readers) >> device & 1;
  return a->kind == SIM_ALLOC_HOST || (peers >> a->device & 1);
}

/* Storage goes, the record stays. */
void sim_alloc_release(sim_memory_t *memory, sim_alloc_t *alloc);
/* Forgets everything, storage included. */
void sim_memory_free(sim_memory_t *memory);

/* The allocation that holds the address, live or freed; NULL if none. */
sim_alloc_t *sim_alloc_find(const sim_memory_t *memory, uint64_t address);
/* The one that starts nearest below, for "N bytes beyond"; may be NULL. */
sim_alloc_t *sim_alloc_below(const sim_memory_t *memory, uint64_t address);

/* Maps the sectors, or the cache's entries; NULL without memory. */
sim_sector_t *sim_alloc_sectors(sim_alloc_t *a);
uint32_t *sim_alloc_l2(sim_alloc_t *a);
/* Unmaps both everywhere. */
void sim_memory_forget_sectors(sim_memory_t *memory);

/* Notes bytes that a launch touches. kind: 'r', 'w', 'a'. is_early: before it
   has waited for what it depends on. */
void sim_touch(sim_alloc_t *a, uint64_t offset, uint64_t bytes, char kind,
               bool is_early);

/* -- definedness; ranges lie inside the allocation -- */
bool sim_is_defined_slow(const sim_alloc_t *a, uint64_t offset,
                         uint64_t bytes);
void sim_define_slow(sim_alloc_t *a, uint64_t offset, uint64_t bytes);
/* Marks bytes undefined again (an undefined value was stored). */
void sim_undefine(sim_alloc_t *a, uint64_t offset, uint64_t bytes);
/* One bit of `mask` a byte is set if that byte is undefined; bytes <= 16. */
uint32_t sim_undefined_mask(const sim_alloc_t *a, uint64_t offset,
                            uint32_t bytes);
/* Makes the storage of untouched pages readable as poison before the host
   reads it directly. */
void sim_poison_range(sim_alloc_t *a, uint64_t offset, uint64_t bytes);

static inline bool sim_is_defined(const sim_alloc_t *a, uint64_t offset,
                                  uint64_t bytes) {
  if (!a->pages) return true;
  uint64_t first = offset / SIM_PAGE, last = (offset + bytes - 1) / SIM_PAGE;
  if (first == last)
    return __atomic_load_n(&a->pages[first], __ATOMIC_ACQUIRE) ==
               SIM_PAGE_DEFINED ||
           sim_is_defined_slow(a, offset, bytes);
  return sim_is_defined_slow(a, offset, bytes);
}

static inline void sim_define(sim_alloc_t *a, uint64_t offset,
                              uint64_t bytes) {
  if (!a->pages) return;
  uint64_t first = offset / SIM_PAGE, last = (offset + bytes - 1) / SIM_PAGE;
  if (first == last && __atomic_load_n(&a->pages[first], __ATOMIC_ACQUIRE) ==
                           SIM_PAGE_DEFINED)
    return;
  sim_define_slow(a, offset, bytes);
}

#endif
