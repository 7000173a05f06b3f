#include "runtime/simgpu/cta.h"

#include "runtime/simgpu/async.h"
#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/its.h"
#include "runtime/simgpu/race.h"
#include "runtime/simgpu/wgmma.h"

#include <stdlib.h>

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
  w->is_late = false;
  w->waited_at = 0;
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
  if (w->its) sim_its_start(w);
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

static uint32_t group_count(const sim_launch_t *launch) {
  return launch->kernel->has_warpgroup ? launch->threads / 128 : 0;
}

static uint32_t reader_count(const sim_launch_t *launch) {
  uint32_t warps = (launch->threads + 31) / 32;
  return sim_cluster_size(launch) * (warps + group_count(launch));
}

void sim_cta_start(sim_cta_t *cta, uint64_t linear, bool is_first) {
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
  cta->has_waited = false;
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
  return sim_cluster_size(launch) * mbars + reader_count(launch);
}

static uint32_t clock_words(const sim_launch_t *launch) {
  return agent_count(launch) * (launch->kernel->has_proxy ? 2 : 1);
}

/* Partial barriers order some warps and not others: tags cannot say that. */
static bool uses_records(const sim_kernel_t *k) {
  return k->has_partial_barrier || k->has_cluster || k->has_async ||
         k->has_flags;
}

static bool uses_its(const sim_launch_t *launch) {
  return launch->options->diverge == SIM_DIVERGE_ITS;
}

/* Bytes of the pieces of a block's one allocation. */
uint64_t sim_cta_bytes(const sim_launch_t *launch) {
  const sim_kernel_t *k = launch->kernel;
  uint64_t warps = (launch->threads + 31) / 32;
  uint64_t words = clock_words(launch);
  uint64_t a_warp = sizeof(sim_warp_t) + k->block_bytes +
                    k->block_bytes / 4 + k->pred_bytes +
                    (uint64_t)k->local_bytes * 64 +
                    words * 4 * (k->has_flags ? 3 : 1) + 1024 +
                    (uses_its(launch) ? sizeof(sim_its_t) + 64 : 0);
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

void sim_cta_free(sim_cta_t *cta) {
  if (!cta) return;
  for (uint32_t n = 0; n < cta->warp_count; n++) free(cta->warps[n].stack);
  free(cta->vectors.data);
  sim_places_free(&cta->places);
  sim_async_free(cta);
  sim_groups_free(cta);
  free(cta->l2_runs);
  free(cta->blocks);
}

sim_cta_t *sim_cta_new(sim_worker_t *worker) {
  sim_launch_t *launch = worker->launch;
  const sim_kernel_t *k = launch->kernel;
  uint32_t warps = (launch->threads + 31) / 32;
  uint64_t bytes = sim_cta_bytes(launch);
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
    if (uses_its(launch)) w->its = take(&at, sizeof *w->its);
    w->stack_capacity = 16;
    w->stack = malloc(16 * sizeof *w->stack);
    if (!w->stack) {
      sim_cta_free(cta);
      return NULL;
    }
  }
  if (!sim_async_new(cta) || !sim_groups_new(cta)) {
    sim_cta_free(cta);
    return NULL;
  }
  return cta;
}
