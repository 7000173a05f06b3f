#include "runtime/simgpu/sync.h"

#include "runtime/simgpu/places.h"

#include <stdlib.h>

#define NOBODY      UINT32_MAX
#define MAX_SECTORS (UINT32_C(1) << 20) /* beyond, new ones are not judged */

typedef struct word_t {
  uint32_t writer, write_clock, write_ins;
  uint32_t reader, read_clock, read_ins; /* the latest */
  uint8_t write_bytes, read_bytes;
  bool write_strong, read_strong;
  bool is_swapped; /* the write was a compare-and-swap */
} word_t;

typedef struct sector_t {
  uint64_t key; /* sector + 1 */
  word_t words[8];
} sector_t;

typedef struct agent_t {
  uint32_t *clock;   /* count entries; NULL until it acts */
  uint32_t *fenced;  /* at its last fence, or NULL */
  uint32_t *pending; /* what strong reads brought since, or NULL */
  bool wrote;        /* weakly, since that fence */
} agent_t;

struct sim_sync_t {
  uint32_t count;
  agent_t *agents;
  sector_t *sectors; /* open addressing */
  uint32_t sector_count, sector_capacity;
  sim_places_t places; /* words of strong operations */
};

struct sim_sync_t *sim_sync_new(sim_launch_t *launch) {
  uint64_t unit = (uint64_t)launch->cluster[0] * launch->cluster[1] *
                  launch->cluster[2];
  uint64_t count = launch->cta_total / unit;
  if (count > SIM_SYNC_CTAS) return NULL;
  struct sim_sync_t *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->count = (uint32_t)count;
  s->sector_capacity = 1024;
  s->places.words = s->count;
  s->agents = calloc((size_t)count, sizeof *s->agents);
  s->sectors = calloc(s->sector_capacity, sizeof *s->sectors);
  if (s->agents && s->sectors) return s;
  sim_sync_free(s);
  return NULL;
}

void sim_sync_free(struct sim_sync_t *s) {
  if (!s) return;
  for (uint32_t n = 0; s->agents && n < s->count; n++) {
    free(s->agents[n].clock);
    free(s->agents[n].fenced);
    free(s->agents[n].pending);
  }
  sim_places_free(&s->places);
  free(s->agents);
  free(s->sectors);
  free(s);
}

/* A vector of its own at *at; false without memory. */
static bool have(const struct sim_sync_t *s, uint32_t **at) {
  if (!*at) *at = calloc(s->count, sizeof **at);
  return *at != NULL;
}

static void join(const struct sim_sync_t *s, uint32_t *to,
                 const uint32_t *from) {
  for (uint32_t n = 0; from && n < s->count; n++)
    if (from[n] > to[n]) to[n] = from[n];
}

static agent_t *agent_of(struct sim_sync_t *s, uint32_t me) {
  agent_t *a = &s->agents[me];
  bool is_new = a->clock == NULL;
  if (!have(s, &a->clock)) return NULL;
  if (is_new) a->clock[me] = 1;
  return a;
}

static uint32_t slot_of(uint64_t key, uint32_t capacity) {
  return (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) &
         (capacity - 1);
}

static sector_t *sector_at(struct sim_sync_t *s, uint64_t number) {
  uint64_t key = number + 1;
  if (s->sector_count * 2 >= s->sector_capacity &&
      s->sector_capacity < 2 * MAX_SECTORS) {
    uint32_t capacity = s->sector_capacity * 2;
    sector_t *all = calloc(capacity, sizeof *all);
    if (!all) return NULL;
    for (uint32_t n = 0; n < s->sector_capacity; n++) {
      if (!s->sectors[n].key) continue;
      uint32_t at = slot_of(s->sectors[n].key, capacity);
      while (all[at].key) at = (at + 1) & (capacity - 1);
      all[at] = s->sectors[n];
    }
    free(s->sectors);
    s->sectors = all;
    s->sector_capacity = capacity;
  }
  uint32_t at = slot_of(key, s->sector_capacity);
  while (s->sectors[at].key && s->sectors[at].key != key)
    at = (at + 1) & (s->sector_capacity - 1);
  sector_t *out = &s->sectors[at];
  if (out->key) return out;
  if (s->sector_count >= MAX_SECTORS) return NULL;
  s->sector_count++;
  out->key = key;
  for (int k = 0; k < 8; k++)
    out->words[k] = (word_t){.writer = NOBODY, .reader = NOBODY};
  return out;
}

void sim_sync_fence(sim_warp_t *w) {
  struct sim_sync_t *s = w->cta->launch->sync;
  if (!s) return;
  uint32_t me = w->cta->owner;
  agent_t *a = agent_of(s, me);
  if (!a || !have(s, &a->fenced)) return;
  join(s, a->clock, a->pending);
  memcpy(a->fenced, a->clock, s->count * sizeof *a->clock);
  a->clock[me]++;
  a->wrote = false;
}

/* Takes and gives clocks through the location; true if the agent's clock must
   go on after the access, since it was given away. */
static bool synchronise(struct sim_sync_t *s, agent_t *a, uint32_t me,
                        uint64_t word, const sim_ins_t *ins,
                        unsigned flags) {
  bool atomic = flags & SIM_TOUCH_ATOMIC;
  bool reads = atomic || flags & SIM_TOUCH_READ;
  uint32_t *place = sim_place_at(&s->places, word);
  if (!place) return false;
  if (reads && ins->mods & SIM_MOD_ACQUIRE)
    join(s, a->clock, place);
  else if (reads && have(s, &a->pending))
    join(s, a->pending, place);
  if (!(flags & SIM_TOUCH_WRITE)) return false;
  bool releases = ins->mods & SIM_MOD_RELEASE;
  /* a plain store ends what the location carried, a read-modify-write goes
     on with it */
  if (!atomic) memset(place, 0, s->count * sizeof *place);
  join(s, place, releases ? a->clock : a->fenced);
  if (!releases && (!a->fenced || a->wrote)) return false;
  if (a->clock[me] > place[me]) place[me] = a->clock[me];
  return true;
}

/* Has the agent heard of the other's clock? What strong accesses read may
   come through a relaxed read that no fence has followed yet: the last block
   of a reduction reads its partial sums so. */
static bool knows(const agent_t *a, uint32_t other, uint32_t clock,
                  bool strong) {
  return a->clock[other] >= clock ||
         (strong && a->pending && a->pending[other] >= clock);
}

static bool report(sim_warp_t *w, const sim_ins_t *ins, uint64_t address,
                   uint32_t lane, uint32_t other, const char *what) {
  const sim_kernel_t *k = w->cta->launch->kernel;
  const sim_ins_t *o = &k->code[other < k->code_count ? other : 0];
  return sim_find(w, ins, SIM_CHECK_RACE_GLOBAL, lane, PTX_SPACE_GLOBAL,
                  address, 4,
                  "%s, and nothing orders the two (%.*s, PTX line %u)", what,
                  TD_STR_ARG(k->names.data[o->name]), o->line);
}

bool sim_sync_touch(sim_warp_t *w, const sim_ins_t *ins, uint64_t sector,
                    uint32_t bytes, unsigned flags, uint32_t lane) {
  struct sim_sync_t *s = w->cta->launch->sync;
  uint32_t me = w->cta->owner, line = (uint32_t)(ins - w->code);
  agent_t *a = agent_of(s, me);
  sector_t *all = a ? sector_at(s, sector) : NULL;
  /* a scope of the CTA says nothing to others */
  bool strong = flags & (SIM_TOUCH_STRONG | SIM_TOUCH_ATOMIC) &&
                !(ins->mods & SIM_MOD_CTA_SCOPE);
  bool writes = flags & SIM_TOUCH_WRITE, gives = false;
  /* a loop of compare-and-swap begins with an ordinary read */
  bool swaps =
      strong && flags & SIM_TOUCH_ATOMIC && ins->sub == SIM_ATOM_CAS;
  if (!all) return true;
  if (writes && !strong) a->wrote = true;
  for (uint32_t k = 0; k < 8; k++) {
    uint8_t b = (uint8_t)(bytes >> (4 * k) & 15);
    word_t *r = &all->words[k];
    uint64_t address = (sector << 5) + 4 * k;
    if (!b) continue;
    if (strong && synchronise(s, a, me, address >> 2, ins, flags))
      gives = true;
    if (r->writer != NOBODY && r->writer != me && r->write_bytes & b &&
        !knows(a, r->writer, r->write_clock, strong) &&
        !(strong && r->write_strong) && (writes || !r->is_swapped) &&
        !report(w, ins, address, lane, r->write_ins,
                writes ? "another CTA writes the same bytes"
                       : "another CTA writes what this reads"))
      return false;
    if (writes && r->reader != NOBODY && r->reader != me &&
        r->read_bytes & b &&
        !knows(a, r->reader, r->read_clock, strong) &&
        !(strong && r->read_strong) && !swaps &&
        !report(w, ins, address, lane, r->read_ins,
                "another CTA reads what this writes"))
      return false;
    if (writes) {
      bool again = r->writer == me && r->write_clock == a->clock[me] &&
                   r->write_strong == strong;
      r->write_bytes = again ? r->write_bytes | b : b;
      r->writer = me;
      r->write_clock = a->clock[me];
      r->write_ins = line;
      r->write_strong = strong;
      r->is_swapped = swaps;
      r->reader = NOBODY;
    } else {
      bool again = r->reader == me && r->read_clock == a->clock[me];
      r->read_strong = again ? r->read_strong && strong : strong;
      r->read_bytes = again ? r->read_bytes | b : b;
      r->reader = me;
      r->read_clock = a->clock[me];
      r->read_ins = line;
    }
  }
  if (gives) a->clock[me]++;
  return true;
}
