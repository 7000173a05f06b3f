/* A launch: host threads take blocks one after another; a kernel whose blocks
   talk through global memory runs on one thread with all resident blocks
   interleaved. Within a block, a warp runs until it blocks or its slice ends.

   Nothing that a kernel can observe depends on the number of host threads:
   schedules derive from the seed and the block's number. */
#include "runtime/simgpu/grid.h"

#include "runtime/simgpu/l2.h"
#include "runtime/simgpu/pattern.h"
#include "runtime/simgpu/race.h"
#include "runtime/simgpu/async.h"
#include "runtime/simgpu/sectors.h"
#include "runtime/simgpu/wgmma.h"

#include <fenv.h>
#include <stdlib.h>

#define RESERVED     1024u /* shared bytes that the system keeps */
#define SLICE        (1 << 20)
#define SLICE_SHARED 20000 /* where blocks wait for each other */
#define HELD_BYTES   ((uint64_t)1 << 30)
#define IDLE_ROUNDS  200000u
#define IDLE_TURNS   4000000u
#define QUIET        UINT64_C(100000) /* instructions a warp of blocks that
                                         talk, without a store by any */
#define MBAR_ROUNDS  2000u /* where everyone waits for an mbarrier */

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

/* -- one block -- */

static uint32_t special_value(const sim_cta_t *cta, const sim_warp_t *w,
                              uint32_t lane, ptx_special_t id) {
  const sim_launch_t *launch = cta->launch;
  uint32_t thread = w->id * 32u + lane;
  const uint32_t *b = launch->block, *c = launch->cluster;
  switch (id) {
  case PTX_SREG_TID_X: return thread % b[0];
  case PTX_SREG_TID_Y: return thread / b[0] % b[1];
  case PTX_SREG_TID_Z: return thread / b[0] / b[1];
  case PTX_SREG_NTID_X: return b[0];
  case PTX_SREG_NTID_Y: return b[1];
  case PTX_SREG_NTID_Z: return b[2];
  case PTX_SREG_CTAID_X: return cta->index[0];
  case PTX_SREG_CTAID_Y: return cta->index[1];
  case PTX_SREG_CTAID_Z: return cta->index[2];
  case PTX_SREG_NCTAID_X: return launch->grid[0];
  case PTX_SREG_NCTAID_Y: return launch->grid[1];
  case PTX_SREG_NCTAID_Z: return launch->grid[2];
  case PTX_SREG_CLUSTERID_X: return cta->index[0] / c[0];
  case PTX_SREG_CLUSTERID_Y: return cta->index[1] / c[1];
  case PTX_SREG_CLUSTERID_Z: return cta->index[2] / c[2];
  case PTX_SREG_NCLUSTERID_X: return launch->grid[0] / c[0];
  case PTX_SREG_NCLUSTERID_Y: return launch->grid[1] / c[1];
  case PTX_SREG_NCLUSTERID_Z: return launch->grid[2] / c[2];
  case PTX_SREG_CLUSTER_CTAID_X: return cta->index[0] % c[0];
  case PTX_SREG_CLUSTER_CTAID_Y: return cta->index[1] % c[1];
  case PTX_SREG_CLUSTER_CTAID_Z: return cta->index[2] % c[2];
  case PTX_SREG_CLUSTER_NCTAID_X: return c[0];
  case PTX_SREG_CLUSTER_NCTAID_Y: return c[1];
  case PTX_SREG_CLUSTER_NCTAID_Z: return c[2];
  case PTX_SREG_CLUSTER_CTARANK: return cta->cluster_rank;
  case PTX_SREG_CLUSTER_NCTARANK: return c[0] * c[1] * c[2];
  case PTX_SREG_IS_EXPLICIT_CLUSTER: return c[0] * c[1] * c[2] > 1;
  case PTX_SREG_LANEID: return lane;
  case PTX_SREG_WARPID: return w->id;
  case PTX_SREG_NWARPID: return launch->row->warps;
  case PTX_SREG_SMID: return (uint32_t)(cta->linear % launch->row->sms);
  case PTX_SREG_NSMID: return launch->row->sms;
  case PTX_SREG_GRIDID: return (uint32_t)launch->number;
  case PTX_SREG_LANEMASK_EQ: return 1u << lane;
  case PTX_SREG_LANEMASK_LT: return (1u << lane) - 1;
  case PTX_SREG_LANEMASK_LE: return (2u << lane) - 1;
  case PTX_SREG_LANEMASK_GT: return ~((2u << lane) - 1);
  case PTX_SREG_LANEMASK_GE: return ~((1u << lane) - 1);
  case PTX_SREG_DYNAMIC_SMEM: return launch->dynamic_shared;
  case PTX_SREG_TOTAL_SMEM:
    return launch->shared_end - launch->shared_start;
  default: return 0;
  }
}

static void fill_rows(const sim_cta_t *cta, sim_warp_t *w, bool is_first) {
  const sim_launch_t *launch = cta->launch;
  const sim_kernel_t *k = launch->kernel;
  *(sim_u32 *)(void *)w->r = SIM_FULL;
  for (size_t n = 0; n < k->consts.length; n++) {
    const sim_const_t *c = &k->consts.data[n];
    if (!is_first && c->kind != SIM_CONST_SPECIAL) continue;
    uint64_t value = c->value;
    if (c->kind == SIM_CONST_SHARED) value += launch->shared_start;
    if (c->kind == SIM_CONST_DYNAMIC) value += launch->dynamic_start;
    if (c->kind == SIM_CONST_PARAM)
      value += launch->param_alloc ? launch->param_alloc->address : 0;
    for (uint32_t l = 0; l < 32; l++) {
      if (c->kind == SIM_CONST_SPECIAL)
        value = special_value(cta, w, l, (ptx_special_t)c->value);
      if (c->row == SIM_ROW_64) {
        sim_row64(w, c->offset)[l] = value;
      } else if (c->row == SIM_ROW_32) {
        sim_row(w, c->offset)[l] = (uint32_t)value;
      } else {
        *sim_row(w, c->offset) = value ? SIM_FULL : 0;
        break;
      }
    }
  }
}

static void start_warp(sim_cta_t *cta, uint32_t id, bool is_first) {
  sim_launch_t *launch = cta->launch;
  const sim_kernel_t *k = launch->kernel;
  sim_warp_t *w = &cta->warps[id];
  uint32_t threads = launch->threads - id * 32u;
  w->live = threads >= 32 ? SIM_FULL : (1u << threads) - 1;
  w->active = w->live;
  w->code = k->code;
  w->ip = k->code + k->entry;
  w->reconv = SIM_NO_RECONV;
  w->state = SIM_WARP_READY;
  w->depth = w->call_depth = 0;
  w->carry = 0;
  w->executed = 0;
  w->waits_for = NULL;
  w->sync_clock = 1;
  w->serial = w->tensor_serial = 0;
  memset(w->clocks, 0, cta->clock_words * sizeof *w->clocks);
  if (w->fenced) {
    memset(w->fenced, 0, cta->clock_words * sizeof *w->fenced);
    memset(w->pending, 0, cta->clock_words * sizeof *w->pending);
  }
  w->agent = cta->cluster_rank * cta->warp_count + id;
  w->clocks[w->agent] = 1;
  w->cluster_arrived = w->cluster_passed = 0;
  fill_rows(cta, w, is_first);
  if (w->is_tainted) /* what the block before left behind */
    memset(w->u, 0, k->block_bytes / 4 + k->pred_bytes);
  w->is_tainted = false;
  for (size_t n = 0; n < k->undefined.length; n++) {
    uint32_t row = k->undefined.data[n] & 3u;
    uint32_t at = k->undefined.data[n] & ~3u;
    size_t bytes = row == SIM_ROW_64 ? 256 : row == SIM_ROW_32 ? 128 : 4;
    sim_poison_fill(launch->options, w->r + at, bytes, at + 1);
    if (!(launch->options->checks & SIM_CHECK_INIT)) continue;
    w->is_tainted = true;
    if (row == SIM_ROW_PRED)
      *sim_pred_shadow(w, at) = SIM_FULL;
    else
      memset(sim_shadow(w, at), 0xFF, 32);
  }
  if (k->local_bytes) {
    sim_poison_fill(launch->options, w->local, (size_t)k->local_bytes * 32,
                    cta->linear * 64 + id);
    memset(w->local_defined, 0, (size_t)k->local_bytes * 32);
  }
}

static uint32_t cluster_size(const sim_launch_t *launch) {
  return launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
}

static uint32_t group_count(const sim_launch_t *launch) {
  return launch->kernel->has_warpgroup ? launch->threads / 128 : 0;
}

static uint32_t reader_count(const sim_launch_t *launch) {
  uint32_t warps = (launch->threads + 31) / 32;
  return cluster_size(launch) * (warps + group_count(launch));
}

static void start_cta(sim_cta_t *cta, uint64_t linear, bool is_first) {
  sim_launch_t *launch = cta->launch;
  const uint32_t *g = launch->grid, *c = launch->cluster;
  cta->linear = linear;
  cta->owner = (uint32_t)(linear / cta->cluster_count);
  cta->l2_count = 0;
  if (cta->cluster_count > 1) {
    /* linear counts cluster after cluster */
    uint64_t size = (uint64_t)c[0] * c[1] * c[2];
    uint64_t cluster = linear / size;
    uint32_t rank = (uint32_t)(linear % size);
    uint32_t gx = g[0] / c[0], gy = g[1] / c[1];
    cta->index[0] = (uint32_t)(cluster % gx) * c[0] + rank % c[0];
    cta->index[1] =
        (uint32_t)(cluster / gx % gy) * c[1] + rank / c[0] % c[1];
    cta->index[2] =
        (uint32_t)(cluster / gx / gy) * c[2] + rank / c[0] / c[1];
    cta->cluster_rank = rank;
  } else {
    cta->index[0] = (uint32_t)(linear % g[0]);
    cta->index[1] = (uint32_t)(linear / g[0] % g[1]);
    cta->index[2] = (uint32_t)(linear / g[0] / g[1]);
    cta->cluster_rank = 0;
  }
  cta->group_agents = cta->cluster_count * cta->warp_count +
                      cta->cluster_rank * group_count(launch);
  cta->done = 0;
  cta->turn = 0;
  cta->epoch = 0;
  sim_new_stamp(cta);
  cta->generation++;
  cta->is_running = true;
  cta->random = launch->options->seed * UINT64_C(0x2545F4914F6CDD1D) +
                linear * 1315423911u + launch->number;
  memset(cta->barriers, 0, sizeof cta->barriers);
  memset(cta->barrier_clocks, 0,
         sizeof *cta->barrier_clocks * SIM_BARRIERS * cta->clock_words);
  memset(cta->cluster_clocks, 0,
         2 * cta->clock_words * sizeof *cta->cluster_clocks);
  memset(cta->remote, 0, cta->reader_count * sizeof *cta->remote);
  sim_race_restart(cta);
  sim_places_clear(&cta->places);
  sim_async_start(cta);
  sim_poison_fill(launch->options, cta->shared, cta->shared_bytes, linear);
  memset(cta->shared_defined, 0, cta->shared_bytes);
  for (uint32_t n = 0; n < cta->warp_count; n++)
    start_warp(cta, n, is_first);
  sim_groups_start(cta);
  cta->worker->counters[SIM_COUNTER_CTAS]++;
  cta->worker->counters[SIM_COUNTER_WARPS] += cta->warp_count;
}

static uint32_t agent_count(const sim_launch_t *launch) {
  uint32_t mbars = launch->kernel->has_mbar ? SIM_MBARS : 0;
  return cluster_size(launch) * mbars + reader_count(launch);
}

static uint32_t clock_words(const sim_launch_t *launch) {
  return agent_count(launch) * (launch->kernel->has_proxy ? 2 : 1);
}

/* Partial barriers order some warps and not others: tags cannot say that. */
static bool uses_records(const sim_kernel_t *k) {
  return k->has_partial_barrier || k->has_cluster || k->has_async ||
         k->has_flags;
}

/* Bytes of the pieces of a block's one allocation. */
static uint64_t cta_bytes(const sim_launch_t *launch) {
  const sim_kernel_t *k = launch->kernel;
  uint64_t warps = (launch->threads + 31) / 32;
  uint64_t words = clock_words(launch);
  uint64_t a_warp = sizeof(sim_warp_t) + k->block_bytes +
                    k->block_bytes / 4 + k->pred_bytes +
                    (uint64_t)k->local_bytes * 64 +
                    words * 4 * (k->has_flags ? 3 : 1) + 1024;
  uint64_t shared = launch->shared_end + 64u;
  uint64_t races = launch->options->checks & SIM_CHECK_RACE
                       ? (shared / 4 + 1) *
                             (uses_records(k) ? sizeof(sim_race_word_t)
                                              : sizeof(uint64_t))
                       : 0;
  return sizeof(sim_cta_t) + warps * a_warp + shared * 2 + races +
         (SIM_BARRIERS + 3) * words * 4 + 4096;
}

static void *take(uint8_t **at, size_t bytes) {
  void *out = *at;
  *at += (bytes + 63) & ~(size_t)63;
  return out;
}

static void free_cta(sim_cta_t *cta) {
  if (!cta) return;
  for (uint32_t n = 0; n < cta->warp_count; n++) free(cta->warps[n].stack);
  free(cta->vectors.data);
  sim_places_free(&cta->places);
  sim_async_free(cta);
  sim_groups_free(cta);
  free(cta->l2_runs);
  free(cta->blocks);
}

static sim_cta_t *new_cta(sim_worker_t *worker) {
  sim_launch_t *launch = worker->launch;
  const sim_kernel_t *k = launch->kernel;
  uint32_t warps = (launch->threads + 31) / 32;
  uint64_t bytes = cta_bytes(launch);
  uint8_t *block = calloc(1, (size_t)bytes + 64);
  if (!block) return NULL;
  uint8_t *at =
      block + (64 - ((uintptr_t)block & 63)) % 64;
  sim_cta_t *cta = take(&at, sizeof *cta);
  cta->blocks = block;
  cta->worker = worker;
  cta->launch = launch;
  cta->warp_count = warps;
  cta->warps = take(&at, warps * sizeof *cta->warps);
  cta->shared_bytes = launch->shared_end;
  cta->shared = take(&at, cta->shared_bytes);
  cta->shared_defined = take(&at, cta->shared_bytes);
  cta->agent_count = agent_count(launch);
  cta->reader_count = reader_count(launch);
  uint32_t words = cta->clock_words = clock_words(launch);
  cta->places.words = words;
  cta->barrier_clocks = take(&at, (size_t)SIM_BARRIERS * words * 4);
  cta->cluster_clocks = take(&at, (size_t)words * 8);
  cta->remote = take(&at, (size_t)cta->reader_count * 4);
  if ((launch->options->checks & SIM_CHECK_RACE) && uses_records(k))
    cta->races =
        take(&at, (cta->shared_bytes / 4 + 1) * sizeof *cta->races);
  else if (launch->options->checks & SIM_CHECK_RACE)
    cta->tags = take(&at, (cta->shared_bytes / 4 + 1) * sizeof *cta->tags);
  for (uint32_t n = 0; n < warps; n++) {
    sim_warp_t *w = &cta->warps[n];
    w->id = (uint16_t)n;
    w->cta = cta;
    w->worker = worker;
    w->r = take(&at, k->block_bytes);
    w->u = take(&at, k->block_bytes / 4 + k->pred_bytes);
    w->clocks = take(&at, words * sizeof *w->clocks);
    if (cta->races && k->has_flags) {
      w->fenced = take(&at, words * sizeof *w->fenced);
      w->pending = take(&at, words * sizeof *w->pending);
    }
    w->local = take(&at, (size_t)k->local_bytes * 32);
    w->local_defined = take(&at, (size_t)k->local_bytes * 32);
    w->stack_capacity = 16;
    w->stack = malloc(16 * sizeof *w->stack);
    if (!w->stack) {
      free_cta(cta);
      return NULL;
    }
  }
  if (!sim_async_new(cta) || !sim_groups_new(cta)) {
    free_cta(cta);
    return NULL;
  }
  return cta;
}

/* -- scheduling -- */

static void run_warp(sim_warp_t *w, int32_t slice) {
  sim_worker_t *worker = w->worker;
  uint64_t before = w->executed;
  w->state = SIM_WARP_READY;
  w->slice = slice;
  sim_warp_run(w);
  worker->executed += w->executed - before;
  if (w->state == SIM_WARP_DONE) {
    w->cta->done++;
    worker->progress++;
    sim_group_exit(w);
    sim_barrier_exit(w);
  }
}

/* Every warp that can run gets one turn. True if any could. */
static bool run_round(sim_cta_t *cta, int32_t slice, bool *only_spins) {
  const sim_options_t *options = cta->launch->options;
  uint32_t n = cta->warp_count, start = 0, step = 1;
  bool ran = false;
  if (options->order == SIM_ORDER_RANDOM && n > 1) {
    start = (uint32_t)(sim_random(&cta->random) % n);
    step = (uint32_t)(sim_random(&cta->random) % (n - 1)) + 1;
    /* a step without a common factor visits every warp */
    for (uint32_t a = n, b = step; b != 1;) {
      uint32_t r = a % b;
      if (r == 0) {
        step = step % (n - 1) + 1;
        a = n;
        b = step;
        continue;
      }
      a = b;
      b = r;
    }
  }
  for (uint32_t k = 0; k < n; k++) {
    uint32_t at = options->order == SIM_ORDER_REVERSE
                      ? n - 1 - k
                      : (uint32_t)((start + (uint64_t)k * step) % n);
    sim_warp_t *w = &cta->warps[at];
    if (w->state != SIM_WARP_READY && w->state != SIM_WARP_SPIN) continue;
    run_warp(w, slice);
    ran = true;
    if (w->state != SIM_WARP_SPIN) *only_spins = false;
    if (__atomic_load_n(&cta->launch->stop, __ATOMIC_ACQUIRE)) return true;
  }
  return ran;
}

static const char *waits_for(const sim_warp_t *w, char *text, size_t bytes) {
  td_buf_t buf;
  td_buf_init_fixed(&buf, text, bytes);
  switch ((sim_warp_state_t)w->state) {
  case SIM_WARP_BARRIER:
    td_buf_printf(&buf, "barrier %u", w->wait);
    break;
  case SIM_WARP_SPIN:
    if (w->waits_for) {
      sim_mbar_text(w->waits_for, text, bytes);
      return text;
    }
    td_buf_puts(&buf, "a failed wait");
    break;
  case SIM_WARP_CLUSTER: td_buf_puts(&buf, "the cluster's barrier"); break;
  case SIM_WARP_GROUP: td_buf_puts(&buf, "its warpgroup"); break;
  default: td_buf_puts(&buf, "its turn"); break;
  }
  return text;
}

/* The instruction that blocked the warp. */
static const sim_ins_t *stopped_at(const sim_warp_t *w) {
  if (!w->ip) return w->code;
  return w->state == SIM_WARP_CLUSTER ? w->ip : w->ip - 1;
}

/* Nothing can run: one finding that tells what the first warps wait for. */
static void report_hang(sim_cta_t *cta) {
  sim_warp_t *first = NULL;
  char text[200], part[120];
  td_buf_t buf;
  td_buf_init_fixed(&buf, text, sizeof text);
  for (uint32_t n = 0; n < cta->warp_count; n++) {
    sim_warp_t *w = &cta->warps[n];
    if (w->state == SIM_WARP_DONE) continue;
    if (!first) first = w;
    const sim_ins_t *at = stopped_at(w);
    td_buf_printf(&buf, "%swarp %u waits for %s at PTX line %u",
                  buf.length ? "; " : "", n, waits_for(w, part, sizeof part),
                  at->line);
  }
  if (!first) return;
  uint64_t begun = __atomic_load_n(&cta->launch->next_cta, __ATOMIC_RELAXED);
  /* only what spins on memory could be helped by a block yet to come */
  bool spins = false;
  for (uint32_t n = 0; n < cta->warp_count; n++) {
    const sim_warp_t *w = &cta->warps[n];
    spins = spins || (w->state == SIM_WARP_SPIN && !w->waits_for) ||
            w->state == SIM_WARP_READY;
  }
  if (spins && begun < cta->launch->run_total)
    sim_find(first, stopped_at(first), SIM_CHECK_HANG_GRID, 32,
             PTX_SPACE_REG, 0, 0,
             "%llu of %llu blocks cannot start before these end: %s",
             (unsigned long long)(cta->launch->run_total - begun),
             (unsigned long long)cta->launch->run_total, text);
  else
    sim_find(first, stopped_at(first), SIM_CHECK_HANG, 32, PTX_SPACE_REG, 0,
             0, "%s", text);
  if (first->state == SIM_WARP_BARRIER && cta->done &&
      !cta->barriers[first->wait].is_all)
    sim_find(first, stopped_at(first), SIM_CHECK_BAR_EXIT, 32, PTX_SPACE_REG,
             first->wait, 0,
             "%u warps have exited while others wait at barrier %u for %u "
             "threads",
             cta->done, first->wait, cta->barriers[first->wait].expected);
  for (uint32_t n = 0; n < cta->warp_count; n++) {
    sim_warp_t *w = &cta->warps[n];
    const sim_mbar_t *m = w->waits_for;
    if (w->state != SIM_WARP_SPIN || !m || m->pending || m->tx <= 0) continue;
    sim_mbar_text(m, part, sizeof part);
    sim_find(w, stopped_at(w), SIM_CHECK_MBAR_TX, 32, PTX_SPACE_SHARED,
             m->offset - cta->launch->shared_start, 8,
             "no copy is left that could bring them: %s", part);
  }
}

static bool over_budget(sim_worker_t *worker, sim_cta_t *cta) {
  uint64_t budget = worker->launch->options->budget;
  if (!budget || worker->executed <= budget) return false;
  sim_warp_t *w = &cta->warps[0];
  for (uint32_t n = 0; n < cta->warp_count; n++)
    if (cta->warps[n].state != SIM_WARP_DONE) w = &cta->warps[n];
  sim_find(w, w->ip ? w->ip : w->code, SIM_CHECK_BUDGET, 32, PTX_SPACE_REG,
           0, 0, "more than %llu warp instructions",
           (unsigned long long)budget);
  return true;
}

/* Every warp of the held blocks is blocked or tries an mbarrier again. */
static bool only_mbars(const sim_worker_t *worker) {
  for (uint32_t c = 0; c < worker->cta_count; c++) {
    const sim_cta_t *cta = worker->ctas[c];
    for (uint32_t n = 0; cta->is_running && n < cta->warp_count; n++) {
      const sim_warp_t *w = &cta->warps[n];
      if (w->state == SIM_WARP_READY ||
          (w->state == SIM_WARP_SPIN && !w->waits_for))
        return false;
    }
  }
  return true;
}

static bool is_stopped(const sim_worker_t *worker) {
  return __atomic_load_n(&worker->launch->stop, __ATOMIC_ACQUIRE) != 0;
}

static uint64_t quiet_limit(const sim_worker_t *worker) {
  uint64_t limit = QUIET * worker->cta_count * worker->ctas[0]->warp_count;
  return limit > 1000 * QUIET ? limit : 1000 * QUIET;
}

/* Runs the held blocks in turn until the grid is used up. Blocks are taken
   `unit` at a time: a cluster comes and goes together. */
static void work(void *arg) {
  sim_worker_t *worker = arg;
  sim_launch_t *launch = worker->launch;
  uint32_t unit = cluster_size(launch);
  bool shares = worker->cta_count > unit;
  const sim_options_t *options = launch->options;
  int32_t slice = options->preempt ? (int32_t)options->preempt
                  : shares || unit > 1 ? SLICE_SHARED
                                       : SLICE;
  uint32_t idle = 0, rounds = 0;
  uint64_t quiet = 0;
  fenv_t env;
  fegetenv(&env);
  fesetenv(FE_DFL_ENV);
  for (;;) {
    /* start blocks in every free unit */
    bool any = false;
    for (uint32_t n = 0; n < worker->cta_count; n += unit) {
      bool free_unit = true;
      for (uint32_t k = 0; k < unit; k++)
        free_unit = free_unit && !worker->ctas[n + k]->is_running;
      if (free_unit) {
        uint64_t linear = __atomic_fetch_add(&launch->next_cta, unit,
                                             __ATOMIC_RELAXED);
        if (linear >= launch->run_total) continue;
        uint64_t first =
            launch->sample ? launch->sample[linear / unit] * unit : linear;
        for (uint32_t k = 0; k < unit; k++) {
          worker->ctas[n + k]->ordinal = linear + k;
          start_cta(worker->ctas[n + k], first + k,
                    worker->ctas[n + k]->generation == 0);
        }
      }
      any = true;
    }
    if (!any) break;
    bool ran = false, only_spins = true;
    uint64_t progress = worker->progress;
    for (uint32_t n = 0; n < worker->cta_count; n++) {
      sim_cta_t *cta = worker->ctas[n];
      if (!cta->is_running) continue;
      if (cta->done < cta->warp_count)
        ran = run_round(cta, slice, &only_spins) || ran;
      if (is_stopped(worker)) break;
      if (over_budget(worker, cta)) break;
    }
    if (is_stopped(worker)) break;
    bool ended = false;
    for (uint32_t n = 0; n < worker->cta_count; n += unit) {
      bool all_done = true;
      for (uint32_t k = 0; k < unit; k++) {
        sim_cta_t *cta = worker->ctas[n + k];
        all_done = all_done && cta->done == cta->warp_count;
      }
      for (uint32_t k = 0; k < unit; k++) {
        sim_cta_t *cta = worker->ctas[n + k];
        if (!cta->is_running || !all_done) continue;
        ended = true;
        sim_async_end(cta);
        if (launch->has_l2) sim_l2_cta_end(cta, cta->ordinal);
        cta->is_running = false;
      }
    }
    idle = ran && only_spins && progress == worker->progress ? idle + 1 : 0;
    /* plain loops on a flag never count as waiting */
    if (progress != worker->progress || ended) {
      quiet = worker->executed;
      rounds = 0;
    } else {
      rounds++;
    }
    /* who waits without anything changing has waited long enough sooner the
       more there are */
    uint64_t turns = (uint64_t)idle * worker->cta_count *
                     worker->ctas[0]->warp_count;
    bool hangs = !ran || idle > IDLE_ROUNDS ||
                 (idle > 250 && turns > IDLE_TURNS) ||
                 ((launch->kernel->is_communicating ||
                   launch->kernel->has_flags) &&
                  rounds > 100 &&
                  worker->executed - quiet > quiet_limit(worker)) ||
                 (idle == MBAR_ROUNDS && only_mbars(worker));
    if (!ended && hangs) {
      for (uint32_t n = 0; n < worker->cta_count; n++)
        if (worker->ctas[n]->is_running) report_hang(worker->ctas[n]);
      break;
    }
  }
  __atomic_fetch_add(&launch->clock, worker->executed, __ATOMIC_RELAXED);
  fesetenv(&env);
}

/* -- launches -- */

static void free_worker(sim_worker_t *worker) {
  for (uint32_t n = 0; n < worker->cta_count; n++)
    free_cta(worker->ctas[n]);
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
    worker->ctas[n] = new_cta(worker);
    if (!worker->ctas[n]) return false;
    worker->cta_count++;
  }
  uint32_t unit = cluster_size(launch);
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
  uint64_t unit = cluster_size(launch), units = launch->cta_total / unit;
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

int sim_launch_run(sim_launch_t *launch, sim_totals_t *out) {
  const sim_kernel_t *k = launch->kernel;
  uint32_t unit = cluster_size(launch);
  uint32_t held = unit, count = 1;
  memset(out, 0, sizeof *out);
  sim_occupancy_t o =
      sim_occupancy(launch->row, launch->threads, k->registers,
                    launch->shared_end - launch->shared_start);
  uint64_t wave = (uint64_t)(o.ctas ? o.ctas : 1) * launch->row->sms;
  choose_sample(launch);
  if (k->is_communicating) {
    uint64_t want = wave;
    uint64_t room = HELD_BYTES / cta_bytes(launch);
    if (want > room) want = room;
    if (want > launch->cta_total) want = launch->cta_total;
    held = (uint32_t)(want / unit * unit);
    if (held < unit) held = unit;
  } else {
    uint64_t threads = launch->options->threads
                           ? launch->options->threads
                           : (uint64_t)td_os_cpu_count();
    uint64_t units = launch->run_total / unit;
    count = (uint32_t)(threads < units ? threads : units);
    if (count > 64) count = 64;
    if (count == 0) count = 1;
  }
  sim_worker_t *workers = NULL;
  if (posix_memalign((void **)&workers, 64, count * sizeof *workers) == 0)
    memset(workers, 0, count * sizeof *workers);
  else
    workers = NULL;
  bool ok = workers != NULL && td_mutex_init(&launch->mutex);
  if (!ok) {
    free(workers);
    return 2;
  }
  launch->is_threaded = count > 1;
  sim_sectors_begin(launch);
  sim_l2_begin(launch, wave);
  for (uint32_t n = 0; n < count && ok; n++)
    ok = make_worker(&workers[n], launch, held);
  if (ok) {
    uint32_t started = 0;
    while (started + 1 < count &&
           td_thread_start(&workers[started + 1].thread, work,
                           &workers[started + 1], 0))
      started++;
    work(&workers[0]);
    for (uint32_t n = 1; n <= started; n++)
      td_thread_join(&workers[n].thread);
    for (uint32_t n = 0; n < count; n++) add_worker(&workers[n], out);
    if (launch->options->has_lines) out->lines = add_lines(workers, count);
  }
  for (uint32_t n = 0; n < count; n++) free_worker(&workers[n]);
  free(workers);
  sim_l2_end(launch, out->counters);
  sim_sectors_end(launch);
  free(launch->sample);
  launch->sample = NULL;
  td_mutex_free(&launch->mutex);
  return ok ? launch->result : 2;
}
