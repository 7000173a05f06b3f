#include "runtime/simgpu/l2.h"

#include <stdlib.h>

#define STEP_SECTORS (65536u / 32)
#define CHANGED      (UINT32_C(1) << 31) /* of an allocation's l2 entry */

typedef struct stream_t {
  sim_l2_run_t *runs;
  size_t count;
  size_t at;      /* while replaying */
  uint32_t taken; /* sectors of runs[at] that earlier steps had */
} stream_t;

typedef struct wave_t {
  stream_t *streams;
  uint64_t done;
} wave_t;

/* A sector in order of use; void if it was used again later. */
typedef struct used_t {
  sim_alloc_t *alloc;
  uint32_t sector, step;
} used_t;

struct sim_l2_t {
  td_mutex_t mutex;
  uint64_t wave, wave_count, next; /* CTAs a wave; waves; the next to replay */
  wave_t *waves;
  uint64_t stored; /* bytes of streams kept */
  uint64_t capacity, resident, changed; /* sectors */
  used_t *used;
  size_t head, count, used_capacity;
  uint32_t step, first_step;
  uint64_t requested, fetched, written; /* sectors */
  bool is_broken;
};

void sim_l2_begin(sim_launch_t *launch, uint64_t wave) {
  launch->has_l2 = false;
  launch->l2 = NULL;
  if (launch->options->count != SIM_COUNT_FULL || launch->options->no_l2)
    return;
  struct sim_l2_t *l2 = calloc(1, sizeof *l2);
  if (!l2) return;
  l2->wave = wave ? wave : 1;
  l2->wave_count = (launch->run_total + l2->wave - 1) / l2->wave;
  l2->waves = calloc((size_t)l2->wave_count, sizeof *l2->waves);
  if (!l2->waves || !td_mutex_init(&l2->mutex)) {
    free(l2->waves);
    free(l2);
    return;
  }
  l2->capacity = launch->row->l2 / 32;
  /* entries of earlier launches are older than first_step */
  if (launch->memory->l2_step > (UINT32_C(1) << 30)) {
    launch->memory->l2_step = 0;
    sim_memory_forget_sectors(launch->memory);
  }
  l2->step = launch->memory->l2_step;
  l2->first_step = l2->step + 1;
  launch->l2 = l2;
  launch->has_l2 = true;
}

static void free_wave(struct sim_l2_t *l2, wave_t *wave) {
  for (uint64_t n = 0; wave->streams && n < l2->wave; n++) {
    l2->stored -= wave->streams[n].count * sizeof(sim_l2_run_t);
    free(wave->streams[n].runs);
  }
  free(wave->streams);
  wave->streams = NULL;
}

void sim_l2_end(sim_launch_t *launch, uint64_t *c) {
  struct sim_l2_t *l2 = launch->l2;
  if (!l2) return;
  if (l2->step > launch->memory->l2_step)
    launch->memory->l2_step = l2->step;
  if (!l2->is_broken) {
    c[SIM_COUNTER_HBM_READ] = l2->fetched * 32;
    c[SIM_COUNTER_HBM_WRITTEN] = (l2->written + l2->changed) * 32;
    c[SIM_COUNTER_L2_HIT] = l2->requested - l2->fetched;
    c[SIM_COUNTER_L2_MISS] = l2->fetched;
  }
  for (uint64_t n = 0; n < l2->wave_count; n++) free_wave(l2, &l2->waves[n]);
  free(l2->waves);
  free(l2->used);
  td_mutex_free(&l2->mutex);
  free(l2);
  launch->l2 = NULL;
}

void sim_l2_note(sim_cta_t *cta, sim_alloc_t *a, uint64_t sector,
                 uint32_t count, bool is_write) {
  sim_l2_run_t *last =
      cta->l2_count ? &cta->l2_runs[cta->l2_count - 1] : NULL;
  if (last && last->alloc == a && last->is_write == is_write &&
      last->sector + (uint64_t)last->count == sector &&
      last->count + count <= UINT16_MAX) {
    last->count = (uint16_t)(last->count + count);
    return;
  }
  while (count) {
    uint32_t part = count < UINT16_MAX ? count : UINT16_MAX;
    if (cta->l2_count == cta->l2_capacity) {
      size_t capacity = cta->l2_capacity ? cta->l2_capacity * 2 : 256;
      sim_l2_run_t *runs =
          realloc(cta->l2_runs, capacity * sizeof *cta->l2_runs);
      if (!runs) return;
      cta->l2_runs = runs;
      cta->l2_capacity = capacity;
    }
    cta->l2_runs[cta->l2_count++] =
        (sim_l2_run_t){a, (uint32_t)sector, (uint16_t)part, is_write};
    sector += part;
    count -= part;
  }
}

/* -- replay -- */

static void remember(struct sim_l2_t *l2, sim_alloc_t *a, uint32_t sector) {
  if (l2->head + l2->count == l2->used_capacity) {
    /* drop what is void; grow if little was */
    size_t kept = 0;
    for (size_t n = 0; n < l2->count; n++) {
      used_t u = l2->used[l2->head + n];
      if ((u.alloc->l2[u.sector] & ~CHANGED) == u.step) l2->used[kept++] = u;
    }
    l2->head = 0;
    l2->count = kept;
    if (kept * 2 >= l2->used_capacity) {
      size_t capacity = l2->used_capacity ? l2->used_capacity * 2 : 4096;
      used_t *used = realloc(l2->used, capacity * sizeof *used);
      if (!used) {
        l2->is_broken = true;
        return;
      }
      l2->used = used;
      l2->used_capacity = capacity;
    }
  }
  l2->used[l2->head + l2->count++] = (used_t){a, sector, l2->step};
}

static void use(struct sim_l2_t *l2, sim_alloc_t *a, uint32_t sector,
                bool is_write) {
  uint32_t *entry = &a->l2[sector], step = *entry & ~CHANGED;
  bool is_here = step >= l2->first_step;
  if (!is_here) {
    *entry = 0;
    l2->resident++;
    if (!is_write) l2->fetched++;
  }
  if (is_write && !(*entry & CHANGED)) l2->changed++;
  *entry = l2->step | (*entry & CHANGED) | (is_write ? CHANGED : 0);
  if (step != l2->step) remember(l2, a, sector);
}

static void evict(struct sim_l2_t *l2) {
  while (l2->resident > l2->capacity && l2->count) {
    used_t u = l2->used[l2->head++];
    uint32_t *entry = &u.alloc->l2[u.sector];
    l2->count--;
    if ((*entry & ~CHANGED) != u.step) continue;
    if (*entry & CHANGED) {
      l2->changed--;
      l2->written++;
    }
    *entry = 0;
    l2->resident--;
  }
}

/* The part of a stream that belongs to this step: reads of all streams come
   first, then writes, so each stream is walked twice from one place. */
static void walk(struct sim_l2_t *l2, stream_t *s, bool writes, bool moves) {
  size_t at = s->at;
  uint32_t taken = s->taken, left = STEP_SECTORS;
  while (at < s->count && left) {
    const sim_l2_run_t *r = &s->runs[at];
    uint32_t n = r->count - taken < left ? r->count - taken : left;
    if (r->is_write == writes && (r->alloc->l2 || sim_alloc_l2(r->alloc))) {
      for (uint32_t k = 0; k < n; k++)
        use(l2, r->alloc, r->sector + taken + k, writes);
    }
    if (moves) l2->requested += r->is_write ? 0 : n;
    left -= n;
    taken += n;
    if (taken == r->count) {
      at++;
      taken = 0;
    }
  }
  if (!moves) return;
  s->at = at;
  s->taken = taken;
}

static void replay(struct sim_l2_t *l2, wave_t *wave) {
  for (bool any = true; any && !l2->is_broken;) {
    any = false;
    l2->step++;
    for (int writes = 0; writes < 2; writes++)
      for (uint64_t n = 0; n < l2->wave; n++)
        if (wave->streams[n].at < wave->streams[n].count)
          walk(l2, &wave->streams[n], writes != 0, writes != 0);
    evict(l2);
    for (uint64_t n = 0; n < l2->wave && !any; n++)
      any = wave->streams[n].at < wave->streams[n].count;
  }
}

void sim_l2_cta_end(sim_cta_t *cta, uint64_t n) {
  struct sim_l2_t *l2 = cta->launch->l2;
  wave_t *wave = &l2->waves[n / l2->wave];
  td_mutex_lock(&l2->mutex);
  if (!wave->streams)
    wave->streams = calloc((size_t)l2->wave, sizeof *wave->streams);
  size_t bytes = cta->l2_count * sizeof *cta->l2_runs;
  if (!wave->streams || l2->stored + bytes > SIM_L2_MAX_BYTES)
    l2->is_broken = true;
  sim_l2_run_t *runs = l2->is_broken || !bytes ? NULL : malloc(bytes);
  if (runs) {
    memcpy(runs, cta->l2_runs, bytes);
    wave->streams[n % l2->wave] = (stream_t){.runs = runs,
                                             .count = cta->l2_count};
    l2->stored += bytes;
  }
  wave->done++;
  while (l2->next < l2->wave_count) {
    uint64_t size = l2->next + 1 < l2->wave_count
                        ? l2->wave
                        : cta->launch->run_total - l2->next * l2->wave;
    wave = &l2->waves[l2->next];
    if (wave->done < size) break;
    if (!l2->is_broken) replay(l2, wave);
    free_wave(l2, wave);
    l2->next++;
  }
  td_mutex_unlock(&l2->mutex);
  cta->l2_count = 0;
}
