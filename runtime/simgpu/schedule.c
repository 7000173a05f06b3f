#include "runtime/simgpu/schedule.h"

#include "runtime/simgpu/async.h"
#include "runtime/simgpu/cta.h"
#include "runtime/simgpu/grid.h"
#include "runtime/simgpu/l2.h"
#include "runtime/simgpu/race.h"
#include "runtime/simgpu/wgmma.h"

#include <fenv.h>

#define SLICE        (1 << 20)
#define SLICE_SHARED 20000 /* where blocks wait for each other */
#define IDLE_ROUNDS  200000u
#define IDLE_TURNS   4000000u
#define QUIET        UINT64_C(100000) /* instructions a warp of blocks that
                                         talk, without a store by any */
#define MBAR_ROUNDS  2000u /* where everyone waits for an mbarrier */

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
  case SIM_WARP_GRID: td_buf_puts(&buf, "launches before its own"); break;
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

/* Those that a held launch had stopped go on. */
static void release(const sim_worker_t *worker) {
  for (uint32_t c = 0; c < worker->cta_count; c++) {
    const sim_cta_t *cta = worker->ctas[c];
    for (uint32_t n = 0; cta->is_running && n < cta->warp_count; n++)
      if (cta->warps[n].state == SIM_WARP_GRID)
        cta->warps[n].state = SIM_WARP_READY;
  }
}

/* Runs the blocks that the worker holds in turn until the grid is used up, or
   until nothing of a held launch can go on. Blocks are taken `unit` at a time:
   a cluster comes and goes together. */
void sim_schedule_run(void *arg) {
  sim_worker_t *worker = arg;
  sim_launch_t *launch = worker->launch;
  uint32_t unit = sim_cluster_size(launch);
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
  if (!launch->is_held) release(worker);
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
          sim_cta_start(worker->ctas[n + k], first + k,
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
    if (!ended && hangs && launch->is_held) break;
    if (!ended && hangs) {
      for (uint32_t n = 0; n < worker->cta_count; n++)
        if (worker->ctas[n]->is_running) report_hang(worker->ctas[n]);
      break;
    }
  }
  __atomic_fetch_add(&launch->clock, worker->executed - worker->clocked,
                     __ATOMIC_RELAXED);
  worker->clocked = worker->executed;
  fesetenv(&env);
}
