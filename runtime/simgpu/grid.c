/* A launch: host threads take blocks one after another; a kernel whose blocks
   talk through global memory runs on one thread with all resident blocks
   interleaved. Within a block, a warp runs until it blocks or its slice ends.

   Nothing that a kernel can observe depends on the number of host threads:
   schedules derive from the seed and the block's number. */
#include "runtime/simgpu/grid.h"

#include "runtime/simgpu/cta.h"
#include "runtime/simgpu/l2.h"
#include "runtime/simgpu/pattern.h"
#include "runtime/simgpu/schedule.h"
#include "runtime/simgpu/sectors.h"

#include <stdlib.h>

#define RESERVED     1024u /* shared bytes that the system keeps */
#define HELD_BYTES   ((uint64_t)1 << 30)

uint64_t sim_random(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

void sim_launch_layout(sim_launch_t *launch) {
  const sim_kernel_t *k = launch->kernel;
  uint32_t align = k->shared_align > k->dynamic_align ? k->shared_align
                                                      : k->dynamic_align;
  if (align < 16) align = 16;
  uint64_t state = launch->options->seed * 7919 + launch->number;
  uint32_t start = (RESERVED + align - 1) / align * align;
  /* an odd multiple of the alignment, so that a larger one is not assumed */
  start += align * (1 + 2 * (uint32_t)(sim_random(&state) % 4));
  if (start / align % 2 == 0) start += align;
  launch->shared_start = start;
  uint32_t dynamic = (start + k->static_shared + k->dynamic_align - 1) &
                     ~(k->dynamic_align - 1);
  launch->dynamic_start = dynamic;
  launch->shared_end = launch->dynamic_shared
                           ? dynamic + launch->dynamic_shared
                           : start + k->static_shared;
}

static void free_worker(sim_worker_t *worker) {
  for (uint32_t n = 0; n < worker->cta_count; n++)
    sim_cta_free(worker->ctas[n]);
  free(worker->ctas);
  free(worker->block_runs);
  free(worker->block_lanes);
  free(worker->patterns);
  free(worker->lines);
}

static bool make_worker(sim_worker_t *worker, sim_launch_t *launch,
                        uint32_t held) {
  size_t blocks = launch->kernel->blocks.length + 1;
  worker->launch = launch;
  worker->is_counting = launch->options->count == SIM_COUNT_FULL;
  worker->block_runs = calloc(blocks, sizeof *worker->block_runs);
  worker->block_lanes = calloc(blocks, sizeof *worker->block_lanes);
  worker->ctas = calloc(held, sizeof *worker->ctas);
  worker->patterns = calloc(launch->kernel->memory_count + 1u,
                            sizeof *worker->patterns);
  if (launch->options->has_lines)
    worker->lines = calloc(launch->kernel->code_count,
                           sizeof *worker->lines);
  if (!worker->patterns || !worker->block_runs || !worker->block_lanes ||
      !worker->ctas)
    return false;
  for (uint32_t n = 0; n < held; n++) {
    worker->ctas[n] = sim_cta_new(worker);
    if (!worker->ctas[n]) return false;
    worker->cta_count++;
  }
  uint32_t unit = sim_cluster_size(launch);
  for (uint32_t n = 0; n < held; n++) {
    worker->ctas[n]->cluster_count = unit;
    worker->ctas[n]->cluster = &worker->ctas[n / unit * unit];
  }
  return true;
}

static void add_worker(const sim_worker_t *worker, sim_totals_t *out) {
  const sim_kernel_t *k = worker->launch->kernel;
  uint64_t *c = out->counters;
  for (unsigned n = 0; n < SIM_COUNTER_COUNT; n++)
    c[n] += worker->counters[n];
  for (unsigned n = 0; n < SIM_CLASS_COUNT; n++)
    out->mix[n] += worker->mix[n];
  for (size_t b = 0; b < k->blocks.length; b++) {
    const sim_block_t *block = &k->blocks.data[b];
    uint64_t runs = worker->block_runs[b], lanes = worker->block_lanes[b];
    c[SIM_COUNTER_WARP_INST] += runs * block->count;
    c[SIM_COUNTER_LANE_INST] += lanes * block->unguarded;
    c[SIM_COUNTER_FLOP_F32] += lanes * block->flops[0];
    c[SIM_COUNTER_FLOP_F16] += lanes * block->flops[1];
    c[SIM_COUNTER_FLOP_F64] += lanes * block->flops[2];
    for (unsigned n = 0; n < 8; n++)
      c[SIM_COUNTER_SFU_RCP + n] += runs * block->sfu[n];
    for (size_t n = 0; n < block->mix.length; n++) {
      uint32_t cls = block->mix.data[n] >> 16;
      uint64_t times = runs * (block->mix.data[n] & 0xFFFFu);
      out->mix[cls] += times;
      if (cls == SIM_CLASS_SFU) c[SIM_COUNTER_SFU] += times;
    }
  }
  c[SIM_COUNTER_SHARED_CONFLICTS] =
      c[SIM_COUNTER_SHARED_WAVEFRONTS] > c[SIM_COUNTER_SHARED_IDEAL]
          ? c[SIM_COUNTER_SHARED_WAVEFRONTS] - c[SIM_COUNTER_SHARED_IDEAL]
          : 0;
}

/* All workers' counts by instruction; NULL without memory. */
static sim_line_t *add_lines(const sim_worker_t *workers, uint32_t count) {
  uint32_t codes = workers[0].launch->kernel->code_count;
  sim_line_t *out = calloc(codes, sizeof *out);
  for (uint32_t n = 0; out && n < count; n++) {
    for (uint32_t i = 0; workers[n].lines && i < codes; i++) {
      const sim_line_t *from = &workers[n].lines[i];
      out[i].warp_inst += from->warp_inst;
      out[i].lane_inst += from->lane_inst;
      out[i].sectors += from->sectors;
      out[i].wavefronts += from->wavefronts;
    }
  }
  return out;
}

static int by_number(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* The clusters to run, if not all; blocks that talk to each other all run. */
static void choose_sample(sim_launch_t *launch) {
  const sim_options_t *o = launch->options;
  uint64_t unit = sim_cluster_size(launch), units = launch->cta_total / unit;
  uint64_t want = (uint64_t)o->samples_first + o->samples_last +
                  o->samples_random, n = 0;
  launch->run_total = launch->cta_total;
  if (want == 0 || want >= units || launch->kernel->is_communicating) return;
  launch->sample = malloc((size_t)want * sizeof *launch->sample);
  if (!launch->sample) return;
  uint64_t state = o->seed * 31 + launch->number;
  if (o->samples_first) launch->sample[n++] = 0;
  if (o->samples_last) launch->sample[n++] = units - 1;
  while (n < want) launch->sample[n++] = sim_random(&state) % units;
  qsort(launch->sample, (size_t)n, sizeof *launch->sample, by_number);
  uint64_t kept = 1;
  for (uint64_t k = 1; k < n; k++)
    if (launch->sample[k] != launch->sample[kept - 1])
      launch->sample[kept++] = launch->sample[k];
  launch->run_total = kept * unit;
}

/* One thread holds as many blocks as the machine does, or less if they cost
   the host too much. */
static uint32_t held_blocks(const sim_launch_t *launch, uint64_t wave,
                            uint32_t unit) {
  uint64_t room = HELD_BYTES / sim_cta_bytes(launch), want = wave;
  if (want > room) want = room;
  if (want > launch->run_total) want = launch->run_total;
  uint32_t held = (uint32_t)(want / unit * unit);
  return held < unit ? unit : held;
}

static uint32_t thread_count(const sim_launch_t *launch, uint32_t unit) {
  uint64_t threads = launch->options->threads
                         ? launch->options->threads
                         : (uint64_t)td_os_cpu_count();
  uint64_t units = launch->run_total / unit;
  uint64_t count = threads < units ? threads : units;
  return count > 64 ? 64 : count ? (uint32_t)count : 1;
}

bool sim_launch_begin(sim_launch_t *launch) {
  const sim_kernel_t *k = launch->kernel;
  uint32_t unit = sim_cluster_size(launch);
  uint32_t held = unit, count = 1;
  sim_occupancy_t o =
      sim_occupancy(launch->row, launch->threads, k->registers,
                    launch->shared_end - launch->shared_start);
  uint64_t wave = (uint64_t)(o.ctas ? o.ctas : 1) * launch->row->sms;
  choose_sample(launch);
  if (k->is_communicating || launch->is_held)
    held = held_blocks(launch, wave, unit);
  else
    count = thread_count(launch, unit);
  sim_worker_t *workers = NULL;
  if (posix_memalign((void **)&workers, 64, count * sizeof *workers) != 0)
    return false;
  memset(workers, 0, count * sizeof *workers);
  if (!td_mutex_init(&launch->mutex)) {
    free(workers);
    return false;
  }
  launch->workers = workers;
  launch->worker_count = count;
  launch->is_threaded = count > 1;
  sim_sectors_begin(launch);
  sim_l2_begin(launch, wave);
  for (uint32_t n = 0; n < count; n++)
    if (!make_worker(&workers[n], launch, held)) return false;
  return true;
}

void sim_launch_go(sim_launch_t *launch) {
  sim_worker_t *workers = launch->workers;
  uint32_t started = 0;
  while (started + 1 < launch->worker_count &&
         td_thread_start(&workers[started + 1].thread, sim_schedule_run,
                         &workers[started + 1], 0))
    started++;
  sim_schedule_run(&workers[0]);
  for (uint32_t n = 1; n <= started; n++) td_thread_join(&workers[n].thread);
}

void sim_launch_end(sim_launch_t *launch, sim_totals_t *out) {
  sim_worker_t *workers = launch->workers;
  memset(out, 0, sizeof *out);
  free(launch->sample);
  launch->sample = NULL;
  if (!workers) return;
  for (uint32_t n = 0; n < launch->worker_count; n++)
    if (workers[n].block_lanes) add_worker(&workers[n], out);
  if (launch->options->has_lines)
    out->lines = add_lines(workers, launch->worker_count);
  for (uint32_t n = 0; n < launch->worker_count; n++)
    free_worker(&workers[n]);
  free(workers);
  launch->workers = NULL;
  sim_l2_end(launch, out->counters);
  sim_sectors_end(launch);
  td_mutex_free(&launch->mutex);
}
