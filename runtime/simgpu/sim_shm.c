#define _GNU_SOURCE 1 /* locks of open files, holes in them, getrandom */

#include "runtime/simgpu/sim_shm.h"

#include "runtime/base/map.h"
#include "runtime/base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX  "tdsl-coll-"
#define FOLDER  "/dev/shm"
#define MAGIC   UINT64_C(0x6c6c6f63736c6474)
#define VERSION 1u
#define AREA    (UINT64_C(1) << 36) /* of a rank; only what is used exists */
#define LOCKS   ((off_t)1 << 60)    /* far behind all bytes */
#define START   (LOCKS + SIM_SHM_RANKS) /* while the head is made */
#define TRIES   2000u /* milliseconds */

enum { EMPTY, HERE, GONE };

#define PART_WORDS (sizeof(sim_shm_part_t) / sizeof(uint64_t))

typedef struct slot_t {
  uint64_t version; /* odd: being written */
  uint64_t words[PART_WORDS];
} slot_t;

typedef struct rank_t {
  uint64_t token, phase, device, broken;
  uint64_t published, retired; /* entries [retired, published) exist */
  uint64_t collectives, received[SIM_SHM_RANKS];
  uint64_t splits;
  uint64_t colors[2], keys[2]; /* of the last two splits */
  slot_t slots[SIM_SHM_ENTRIES];
} rank_t;

typedef struct head_t {
  uint64_t magic, version, rank_bytes, size;
  uint64_t is_ready; /* all ranks have been there */
  char id[COLL_NCCL_ID_BYTES];
  rank_t ranks[SIM_SHM_RANKS];
} head_t;

#define HEAD_BYTES ((sizeof(head_t) + 65535) / 65536 * 65536)
#define FILE_BYTES (HEAD_BYTES + SIM_SHM_RANKS * AREA)

/* An own rank's entries as it wrote them: nobody else's word is taken. */
typedef struct own_t {
  uint64_t published, retired, next; /* next: free byte of its area */
  sim_shm_part_t parts[SIM_SHM_ENTRIES];
  bool is_done[SIM_SHM_ENTRIES];
  uint64_t unpublished; /* parts that found no room when they were queued */
} own_t;

struct sim_shm_t {
  int fd;
  head_t *head;
  char name[64];
  uint32_t size;
  uint64_t token, key;
  bool has_name;
  bool is_start_held; /* by an open that no claim has followed yet */
  pid_t process; /* not a child of it */
  own_t *own[SIM_SHM_RANKS];
};

static uint64_t get(const uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void set(uint64_t *word, uint64_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* -- locks of bytes -- */

#ifdef F_OFD_SETLK
#define SET_LOCK F_OFD_SETLK
#define GET_LOCK F_OFD_GETLK
#else
#define SET_LOCK F_SETLK
#define GET_LOCK F_GETLK
#endif

static bool lock(int fd, off_t at, short type) {
  struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = at,
                    .l_len = 1};
  return fcntl(fd, SET_LOCK, &l) == 0;
}

static void pause_a_little(void) {
  struct timespec pause = {0, 1000000};
  nanosleep(&pause, NULL);
}

static bool lock_soon(int fd, off_t at) {
  for (uint32_t tries = 0; tries < TRIES; tries++) {
    if (lock(fd, at, F_WRLCK)) return true;
    pause_a_little();
  }
  return false;
}

/* Somebody else holds it. */
static bool is_locked(int fd, off_t at) {
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at,
                    .l_len = 1};
  return fcntl(fd, GET_LOCK, &l) == 0 && l.l_type != F_UNLCK;
}

static bool has_living_rank(int fd) {
  for (uint32_t r = 0; r < SIM_SHM_RANKS; r++)
    if (is_locked(fd, LOCKS + (off_t)r)) return true;
  return false;
}

/* -- the file -- */

/* Names whose processes have all died before everyone was there. */
static void sweep(void) {
  DIR *folder = opendir(FOLDER);
  struct dirent *entry;
  while (folder && (entry = readdir(folder)) != NULL) {
    char name[300];
    struct stat st;
    if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0) continue;
    td_buf_t buf;
    td_buf_init_fixed(&buf, name, sizeof name);
    td_buf_printf(&buf, "/%s", entry->d_name);
    int fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) continue;
    /* looked at once it is locked: a file that has lost its name by then has
       given it to another one */
    if (lock(fd, START, F_WRLCK) && fstat(fd, &st) == 0 && st.st_nlink &&
        st.st_uid == geteuid() && !has_living_rank(fd))
      shm_unlink(name);
    close(fd);
  }
  if (folder) closedir(folder);
}

/* The file, with its start locked, which stays so until a rank is there: who
   sweeps must not take it for one that was left. *st: what it is. -1: none to
   be had. */
static int open_locked(const char *name, struct stat *st) {
  for (uint32_t tries = 0; tries < TRIES; tries++) {
    int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    /* it may have lost its name before the lock was had */
    if (lock(fd, START, F_WRLCK) && fstat(fd, st) == 0 && st->st_nlink)
      return fd;
    close(fd);
    pause_a_little();
  }
  return -1;
}

/* Maps the head and, if nobody has, makes it. */
static int begin(sim_shm_t *s, const coll_nccl_id_t *id, const struct stat *st,
                 const char **why) {
  if (st->st_uid != geteuid() || (st->st_mode & 0777) != 0600) {
    *why = "the shared memory of this id is not this user's alone";
    return COLL_NCCL_SYSTEM_ERROR;
  }
  bool is_new = st->st_size == 0;
  if (!is_new && (uint64_t)st->st_size != FILE_BYTES) {
    *why = "the shared memory of this id has another size";
    return COLL_NCCL_SYSTEM_ERROR;
  }
  if (is_new && ftruncate(s->fd, (off_t)FILE_BYTES) != 0) {
    *why = "no room for shared memory";
    return COLL_NCCL_SYSTEM_ERROR;
  }
  s->head = mmap(NULL, HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd,
                 0);
  if (s->head == MAP_FAILED) {
    s->head = NULL;
    *why = "shared memory cannot be mapped";
    return COLL_NCCL_SYSTEM_ERROR;
  }
  head_t *h = s->head;
  if (get(&h->magic) == 0) {
    /* its pages exist from now on: no bus error later */
    if (posix_fallocate(s->fd, 0, (off_t)HEAD_BYTES) != 0) {
      *why = "no room for shared memory";
      return COLL_NCCL_SYSTEM_ERROR;
    }
    memset(h, 0, sizeof *h);
    h->version = VERSION;
    h->rank_bytes = sizeof(rank_t);
    h->size = s->size;
    memcpy(h->id, id->bytes, sizeof h->id);
    set(&h->magic, MAGIC);
  }
  if (get(&h->magic) != MAGIC || h->version != VERSION ||
      h->rank_bytes != sizeof(rank_t) ||
      memcmp(h->id, id->bytes, sizeof h->id) != 0) {
    *why = "the shared memory of this id is another version's";
    return COLL_NCCL_SYSTEM_ERROR;
  }
  if (h->size != s->size) {
    *why = "the ranks do not agree on how many they are";
    return COLL_NCCL_INVALID_USAGE;
  }
  return 0;
}

int sim_shm_open(const coll_nccl_id_t *id, uint32_t size, sim_shm_t **out,
                 const char **why) {
  *why = "no memory";
  sim_shm_t *s = calloc(1, sizeof *s);
  if (!s) return COLL_NCCL_SYSTEM_ERROR;
  s->size = size;
  s->key = td_hash_bytes(id->bytes, sizeof id->bytes, 0) | 1;
  if (getrandom(&s->token, sizeof s->token, 0) != sizeof s->token)
    s->token = (uint64_t)getpid();
  s->token |= 1;
  td_buf_t buf;
  td_buf_init_fixed(&buf, s->name, sizeof s->name);
  td_buf_printf(&buf, "/" PREFIX "%llx-%llx", (unsigned long long)s->key,
                (unsigned long long)td_hash_bytes(id->bytes,
                                                  sizeof id->bytes, 1));
  struct stat st;
  sweep();
  s->fd = open_locked(s->name, &st);
  if (s->fd < 0) {
    *why = "shared memory cannot be opened";
    free(s);
    return COLL_NCCL_INTERNAL_ERROR;
  }
  s->has_name = s->is_start_held = true;
  s->process = getpid();
  int code = begin(s, id, &st, why);
  if (code) {
    if (s->head) munmap(s->head, HEAD_BYTES);
    close(s->fd);
    free(s);
    return code;
  }
  *out = s;
  return 0;
}

/* The name goes, if nobody who is alive still waits there. Others hold the
   lock for as long as a look takes. */
static void drop_name(sim_shm_t *s, bool is_ready) {
  struct stat st;
  if (!s->has_name || !lock_soon(s->fd, START)) return;
  s->has_name = false;
  if (fstat(s->fd, &st) == 0 && st.st_nlink &&
      (is_ready || !has_living_rank(s->fd)))
    shm_unlink(s->name);
  lock(s->fd, START, F_UNLCK);
}

void sim_shm_close(sim_shm_t *s) {
  if (!s) return;
  if (s->process == getpid()) drop_name(s, false);
  for (uint32_t r = 0; r < SIM_SHM_RANKS; r++) free(s->own[r]);
  munmap(s->head, HEAD_BYTES);
  close(s->fd);
  free(s);
}

/* -- ranks -- */

/* Between the lock and the new words a rank would look like the one that died
   there, so this is done with the start held, as are looks at all ranks. */
static int claim(sim_shm_t *s, uint32_t rank, uint32_t device) {
  rank_t *r = &s->head->ranks[rank];
  if (!lock(s->fd, LOCKS + (off_t)rank, F_WRLCK))
    return COLL_NCCL_INVALID_USAGE;
  s->own[rank] = calloc(1, sizeof *s->own[rank]);
  if (!s->own[rank]) return COLL_NCCL_SYSTEM_ERROR;
  /* whoever was here before has died */
  set(&r->phase, EMPTY);
  memset(r, 0, sizeof *r);
  r->token = s->token;
  r->device = device;
  set(&r->phase, HERE);
  return 0;
}

int sim_shm_claim(sim_shm_t *s, uint32_t rank, uint32_t device) {
  if (!s->is_start_held && !lock_soon(s->fd, START))
    return COLL_NCCL_SYSTEM_ERROR;
  int code = claim(s, rank, device);
  s->is_start_held = false;
  lock(s->fd, START, F_UNLCK);
  return code;
}

void sim_shm_leave(sim_shm_t *s, uint32_t rank) {
  if (!s->own[rank]) return;
  set(&s->head->ranks[rank].phase, GONE);
  lock(s->fd, LOCKS + (off_t)rank, F_UNLCK);
}

bool sim_shm_is_own(const sim_shm_t *s, uint32_t rank) {
  return s->own[rank] != NULL;
}

bool sim_shm_is_here(const sim_shm_t *s, uint32_t rank) {
  return get(&s->head->ranks[rank].phase) == HERE &&
         (s->own[rank] || is_locked(s->fd, LOCKS + (off_t)rank));
}

bool sim_shm_is_gone(const sim_shm_t *s, uint32_t rank) {
  return get(&s->head->ranks[rank].phase) == GONE ||
         (!s->own[rank] && !is_locked(s->fd, LOCKS + (off_t)rank));
}

uint32_t sim_shm_device(const sim_shm_t *s, uint32_t rank) {
  uint64_t device = get(&s->head->ranks[rank].device);
  return device < SIM_SHM_RANKS ? (uint32_t)device : 0;
}

static bool are_all_here(const sim_shm_t *s) {
  for (uint32_t r = 0; r < s->size; r++)
    if (!sim_shm_is_here(s, r)) return false;
  return true;
}

bool sim_shm_is_ready(sim_shm_t *s) {
  if (!get(&s->head->is_ready)) {
    if (!lock_soon(s->fd, START)) return false;
    bool is_ready = are_all_here(s);
    /* some may leave before others look */
    if (is_ready) set(&s->head->is_ready, 1);
    lock(s->fd, START, F_UNLCK);
    if (!is_ready) return false;
  }
  drop_name(s, true);
  return true;
}

uint64_t sim_shm_key(const sim_shm_t *s) {
  return s->key;
}

void sim_shm_break(sim_shm_t *s, uint32_t rank, uint32_t why) {
  set(&s->head->ranks[rank].broken, why);
}

uint32_t sim_shm_broken(const sim_shm_t *s, uint32_t *rank) {
  for (*rank = 0; *rank < s->size; ++*rank) {
    uint64_t why = get(&s->head->ranks[*rank].broken);
    if (why) return (uint32_t)why;
  }
  return 0;
}

/* -- splits -- */

void sim_shm_split(sim_shm_t *s, uint32_t rank, uint64_t n, int color,
                   int key) {
  rank_t *r = &s->head->ranks[rank];
  set(&r->colors[n % 2], (uint64_t)(int64_t)color);
  set(&r->keys[n % 2], (uint64_t)(int64_t)key);
  set(&r->splits, n);
}

bool sim_shm_split_of(const sim_shm_t *s, uint32_t rank, uint64_t n,
                      int *color, int *key) {
  const rank_t *r = &s->head->ranks[rank];
  if (get(&r->splits) < n) return false;
  *color = (int)(int64_t)get(&r->colors[n % 2]);
  *key = (int)(int64_t)get(&r->keys[n % 2]);
  return true;
}

/* -- entries -- */

static void write_slot(slot_t *slot, const sim_shm_part_t *part) {
  uint64_t words[PART_WORDS];
  memcpy(words, part, sizeof words);
  uint64_t version = __atomic_load_n(&slot->version, __ATOMIC_RELAXED) | 1;
  __atomic_store_n(&slot->version, version, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  for (size_t i = 0; i < PART_WORDS; i++)
    __atomic_store_n(&slot->words[i], words[i], __ATOMIC_RELAXED);
  set(&slot->version, version + 1);
}

/* False if its writer is at it, or died there. */
static bool read_slot(const slot_t *slot, sim_shm_part_t *part) {
  uint64_t words[PART_WORDS];
  for (int tries = 0; tries < 64; tries++) {
    uint64_t version = get(&slot->version);
    if (version & 1) continue;
    for (size_t i = 0; i < PART_WORDS; i++)
      words[i] = __atomic_load_n(&slot->words[i], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&slot->version, __ATOMIC_RELAXED) != version)
      continue;
    memcpy(part, words, sizeof words);
    return true;
  }
  return false;
}

/* Everyone who reads the entry has done so. */
static bool is_read(const sim_shm_t *s, uint32_t rank,
                    const sim_shm_part_t *p) {
  if (p->kind == SIM_SHM_RECV) return true;
  if (p->kind == SIM_SHM_SEND)
    return sim_shm_received(s, (uint32_t)p->peer, rank) > p->number ||
           sim_shm_is_gone(s, (uint32_t)p->peer);
  for (uint32_t r = 0; r < s->size; r++)
    if (r != rank && sim_shm_collectives(s, r) <= p->number &&
        !sim_shm_is_gone(s, r))
      return false;
  return true;
}

static uint64_t padded(uint64_t bytes) {
  return (bytes + 65535) / 65536 * 65536;
}

static uint64_t area_of(uint32_t rank) {
  return HEAD_BYTES + rank * AREA;
}

/* Entries that nobody needs go, with their bytes. */
static void retire(sim_shm_t *s, uint32_t rank) {
  own_t *o = s->own[rank];
  while (o->retired < o->published) {
    uint64_t i = o->retired % SIM_SHM_ENTRIES;
    const sim_shm_part_t *p = &o->parts[i];
    if (!o->is_done[i] || !is_read(s, rank, p)) return;
#ifdef FALLOC_FL_PUNCH_HOLE
    if (p->bytes)
      (void)!fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       (off_t)(area_of(rank) + p->offset),
                       (off_t)padded(p->bytes));
#endif
    set(&s->head->ranks[rank].retired, ++o->retired);
  }
  o->next = 0; /* all of the area is free again */
}

uint64_t sim_shm_publish(sim_shm_t *s, uint32_t rank,
                         const sim_shm_part_t *part, bool is_late) {
  own_t *o = s->own[rank];
  rank_t *r = &s->head->ranks[rank];
  retire(s, rank);
  /* entries go in order: one that came before those it runs after would hold
     the room that they need */
  bool is_full = o->published - o->retired == SIM_SHM_ENTRIES;
  if (is_full || (!is_late && o->unpublished > 0)) {
    o->unpublished += !is_late;
    return 0;
  }
  if (is_late && o->unpublished > 0) o->unpublished--;
  uint64_t i = o->published % SIM_SHM_ENTRIES;
  o->parts[i] = *part;
  o->is_done[i] = false;
  write_slot(&r->slots[i], part);
  set(&r->published, ++o->published);
  return o->published;
}

sim_shm_part_t *sim_shm_own(sim_shm_t *s, uint32_t rank, uint64_t entry) {
  return &s->own[rank]->parts[(entry - 1) % SIM_SHM_ENTRIES];
}

void sim_shm_update(sim_shm_t *s, uint32_t rank, uint64_t entry) {
  write_slot(&s->head->ranks[rank].slots[(entry - 1) % SIM_SHM_ENTRIES],
             sim_shm_own(s, rank, entry));
}

/* A place in the area that no entry still uses; AREA if there is none. */
static uint64_t find_place(const own_t *o, uint64_t bytes) {
  uint64_t at = o->next;
  for (int turn = 0; turn < 2; turn++) {
    for (uint64_t e = o->retired; e < o->published;) {
      const sim_shm_part_t *p = &o->parts[e % SIM_SHM_ENTRIES];
      uint64_t end = p->offset + padded(p->bytes);
      bool is_hit = p->bytes && at < end && p->offset < at + bytes;
      e = is_hit ? o->retired : e + 1; /* from the first again */
      if (is_hit) at = end;
    }
    if (at + bytes <= AREA) return at;
    at = 0;
  }
  return AREA;
}

uint8_t *sim_shm_put(sim_shm_t *s, uint32_t rank, uint64_t entry,
                     uint64_t bytes) {
  own_t *o = s->own[rank];
  sim_shm_part_t *p = sim_shm_own(s, rank, entry);
  uint64_t room = padded(bytes);
  if (room < bytes || room > AREA) return NULL;
  retire(s, rank);
  uint64_t at = find_place(o, room);
  if (at == AREA) return NULL;
  off_t place = (off_t)(area_of(rank) + at);
  /* pages exist before they are written: no bus error */
  if (posix_fallocate(s->fd, place, (off_t)room) != 0) return NULL;
  void *out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd,
                   place);
  if (out == MAP_FAILED) return NULL;
  p->offset = at;
  p->bytes = bytes;
  o->next = at + room;
  return out;
}

void sim_shm_done(sim_shm_t *s, uint32_t rank, uint64_t entry) {
  s->own[rank]->is_done[(entry - 1) % SIM_SHM_ENTRIES] = true;
  retire(s, rank);
}

void sim_shm_set_collectives(sim_shm_t *s, uint32_t rank, uint64_t number) {
  set(&s->head->ranks[rank].collectives, number);
}

void sim_shm_set_received(sim_shm_t *s, uint32_t rank, uint32_t from,
                          uint64_t number) {
  set(&s->head->ranks[rank].received[from], number);
}

uint64_t sim_shm_collectives(const sim_shm_t *s, uint32_t rank) {
  return get(&s->head->ranks[rank].collectives);
}

uint64_t sim_shm_received(const sim_shm_t *s, uint32_t rank, uint32_t from) {
  return from < SIM_SHM_RANKS ? get(&s->head->ranks[rank].received[from])
                              : 0;
}

bool sim_shm_find(const sim_shm_t *s, uint32_t rank, sim_shm_test_t test,
                  const void *arg, sim_shm_part_t *out) {
  const rank_t *r = &s->head->ranks[rank];
  uint64_t end = get(&r->published), at = get(&r->retired);
  if (end < at || end - at > SIM_SHM_ENTRIES) return false;
  for (; at < end; at++)
    if (read_slot(&r->slots[at % SIM_SHM_ENTRIES], out) &&
        get(&r->retired) <= at && test(out, arg))
      return true;
  return false;
}

const uint8_t *sim_shm_map(const sim_shm_t *s, uint32_t rank,
                           const sim_shm_part_t *p, uint64_t bytes) {
  struct stat st;
  if (p->bytes != bytes || p->offset % 65536 || p->offset > AREA ||
      bytes > AREA - p->offset || fstat(s->fd, &st) != 0 ||
      (uint64_t)st.st_size != FILE_BYTES)
    return NULL;
  const void *out = mmap(NULL, bytes, PROT_READ, MAP_SHARED, s->fd,
                         (off_t)(area_of(rank) + p->offset));
  return out == MAP_FAILED ? NULL : out;
}

void sim_shm_unmap(const void *bytes, uint64_t count) {
  void *p;
  memcpy(&p, &bytes, sizeof p);
  if (p) munmap(p, count);
}
