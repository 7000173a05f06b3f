/* exec.c: see exec.h.
 *
 * 1. hal_bind gives dims values and checks the arguments.
 * 2. hal_exec_place evaluates every size and offset once; nothing of it
 *    depends on loop variables.
 * 3. run_again launches what the last run did as one graph, if it was made of
 *    the same; else hal_exec_steps walks the steps. */
#include "runtime/hal/exec.h"

#include "runtime/base/env.h"
#include "runtime/base/os.h"
#include "runtime/hal/exec_state.h"

enum { MOST_NODES = 8192 };

hal_exec_t *hal_exec_create(td_task_t *task, td_arena_t *arena,
                            hal_device_t *device, hal_program_t *program,
                            const plan_t *plan, uint32_t entry) {
  TD_CHECK(task, entry < plan->entry_count, "no entry %u", entry);
  hal_exec_t *x = TD_NEW(arena, hal_exec_t);
  x->device = device;
  x->program = program;
  x->plan = plan;
  x->entry = &plan->entries[entry];
  const plan_entry_t *e = x->entry;
  hal_binding_init(&x->binding, arena, plan, e);
  x->outputs = TD_NEW_ARRAY(arena, hal_block_t, e->slot_count + 1);
  x->slot_places = TD_NEW_ARRAY(arena, void *, e->slot_count + 1);
  x->places = TD_NEW_ARRAY(arena, void *, e->buffer_count + 1);
  x->sizes = TD_NEW_ARRAY(arena, size_t, e->buffer_count + 1);
  x->ends = TD_NEW_ARRAY(arena, uint64_t, e->buffer_count + 1);
  x->limits = TD_NEW_ARRAY(arena, int64_t, e->step_count + 1);
  x->kept_constants = TD_NEW_ARRAY(arena, uint64_t, e->slot_count + 1);
  x->kept_places = TD_NEW_ARRAY(arena, void *, e->buffer_count + 1);
  x->last_vars = TD_NEW_ARRAY(arena, int64_t, e->dim_count + 1);
  x->last_places = TD_NEW_ARRAY(arena, void *, e->buffer_count + 1);
  x->last_sizes = TD_NEW_ARRAY(arena, size_t, e->buffer_count + 1);
  x->regions = TD_NEW_ARRAY(arena, hal_region_t, e->buffer_count + 1);
  x->buffer_regions = TD_NEW_ARRAY(arena, uint32_t, e->buffer_count + 1);
  x->buffer_offsets = TD_NEW_ARRAY(arena, size_t, e->buffer_count + 1);
  uint32_t buffers = 0, scalars = 0;
  for (uint32_t i = 0; i < e->step_count; i++) {
    const plan_step_t *s = &e->steps[i];
    if (s->buffer_count > buffers) buffers = s->buffer_count;
    if (s->scalar_count > scalars) scalars = s->scalar_count;
  }
  x->launch_places = TD_NEW_ARRAY(arena, void *, buffers + 1);
  x->launch_sizes = TD_NEW_ARRAY(arena, size_t, buffers + 1);
  x->launch_scalars = TD_NEW_ARRAY(arena, int64_t, scalars + 1);
  return x;
}

static void drop_graph(hal_exec_t *x) {
  if (x->graph != NULL) x->device->vtable->graph_free(x->device, x->graph);
  x->graph = NULL;
}

void hal_exec_destroy(hal_exec_t *x) {
  if (x == NULL) return;
  const hal_vtable_t *v = x->device->vtable;
  drop_graph(x);
  hal_exec_drop_regions(x);
  for (uint32_t s = 0; s < x->entry->slot_count; s++) {
    if (x->outputs[s].data != NULL) v->free(x->device, x->outputs[s].data);
    x->outputs[s].data = NULL;
  }
  if (x->arena.data != NULL) v->free(x->device, x->arena.data);
  if (x->cells.data != NULL) v->free(x->device, x->cells.data);
  x->arena.data = x->cells.data = NULL;
}

const hal_arg_t *hal_exec_get(const hal_exec_t *x, uint32_t slot) {
  return &x->binding.args[slot];
}

const hal_stats_t *hal_exec_stats(const hal_exec_t *x) {
  return &x->stats;
}

/* What the plan says that these dims and arguments need of the device. */
static void predict_memory(hal_exec_t *x, td_task_t *task) {
  const hal_vtable_t *v = x->device->vtable;
  if (v->machine == NULL) return;
  plan_machine_t machine = {0};
  v->machine(x->device, x->program, &machine);
  bool *is_value = TD_NEW_ARRAY(&task->arena, bool, x->entry->slot_count + 1);
  for (uint32_t s = 0; s < x->entry->slot_count; s++) {
    is_value[s] = x->binding.args[s].is_value;
  }
  plan_memory_sum(task, x->plan, x->entry, x->binding.vars, is_value,
                  &machine, &x->last_memory);
}

/* ---- the same once more -------------------------------------------------- */

/* Nothing in between looks at what the device has made. */
static bool can_capture(const hal_exec_t *x, const hal_exec_options_t *o) {
  const plan_entry_t *e = x->entry;
  bool looks = false;
  for (uint32_t i = 0; i < e->step_count && !looks; i++) {
    const plan_step_t *s = &e->steps[i];
    looks = (s->kind == PLAN_STEP_LOOP &&
             (s->lo_buffer >= 0 || s->hi_buffer >= 0)) ||
            ((s->kind == PLAN_STEP_ASSERT || s->kind == PLAN_STEP_CHECK) &&
             o->checks == HAL_CHECKS_ALL);
  }
  return x->device->vtable->capture_begin != NULL && !looks &&
         o->trace == NULL && !o->poison && !x->is_separate &&
         e->step_count > 0 &&
         strcmp(td_env_text(TD_ENV_GRAPHS), "off") != 0;
}

/* Dims, addresses, sizes and what is kept decide all that is launched. */
static bool is_as_last(const hal_exec_t *x, hal_checks_t checks) {
  const plan_entry_t *e = x->entry;
  return x->has_last && x->last_checks == checks &&
         x->last_has_kept == x->has_kept &&
         memcmp(x->last_vars, x->binding.vars,
                e->dim_count * sizeof *x->last_vars) == 0 &&
         memcmp(x->last_places, x->places,
                e->buffer_count * sizeof *x->last_places) == 0 &&
         memcmp(x->last_sizes, x->sizes,
                e->buffer_count * sizeof *x->last_sizes) == 0;
}

static void remember(hal_exec_t *x, hal_checks_t checks) {
  const plan_entry_t *e = x->entry;
  x->has_last = true;
  x->last_checks = checks;
  x->last_has_kept = x->has_kept;
  memcpy(x->last_vars, x->binding.vars, e->dim_count * sizeof *x->last_vars);
  memcpy(x->last_places, x->places, e->buffer_count * sizeof *x->last_places);
  memcpy(x->last_sizes, x->sizes, e->buffer_count * sizeof *x->last_sizes);
}

static void stop_capture(void *arg) {
  hal_exec_t *x = arg;
  (void)x->device->vtable->capture_end(x->device, false);
}

/* The steps as a graph, in x->graph; without one if it cannot be had. */
static void capture(hal_exec_t *x, td_task_t *task, hal_checks_t checks) {
  const hal_vtable_t *v = x->device->vtable;
  hal_stats_t before = x->stats;
  td_defer(task, stop_capture, x);
  if (!v->capture_begin(x->device, task)) {
    td_undefer(task, false);
    return;
  }
  bool ok = hal_exec_steps(x, task, checks);
  td_undefer(task, false);
  x->graph = v->capture_end(x->device, ok);
  x->graph_stats = x->stats;
  x->stats = before; /* nothing was run */
}

/* The graph's share of the statistics. */
static void count_replay(hal_exec_t *x) {
  const hal_stats_t *g = &x->graph_stats;
  x->stats.is_replayed = true;
  x->stats.launches = g->launches;
  x->stats.skipped = g->skipped;
  x->stats.copies = g->copies;
  x->stats.arena_bytes = g->arena_bytes;
  x->stats.read_bytes = g->read_bytes;
  x->stats.written_bytes = g->written_bytes;
  x->stats.flops = g->flops;
}

static bool run_again(hal_exec_t *x, td_task_t *task,
                      const hal_exec_options_t *o) {
  const hal_vtable_t *v = x->device->vtable;
  bool can = can_capture(x, o) && x->last_launches <= MOST_NODES;
  bool is_same = can && is_as_last(x, o->checks);
  if (!is_same) drop_graph(x);
  if (!is_same) predict_memory(x, task);
  x->stats.memory = x->last_memory;
  x->has_last = false; /* until it went well */
  for (int tries = 0; is_same && tries < 2; tries++) {
    if (x->graph == NULL) capture(x, task, o->checks);
    if (x->graph == NULL) break;
    if (v->graph_launch(x->device, task, x->graph)) {
      count_replay(x);
      remember(x, o->checks);
      return true;
    }
    drop_graph(x);
  }
  if (!hal_exec_steps(x, task, o->checks)) return false;
  x->last_launches = x->stats.launches + x->stats.copies;
  if (can) remember(x, o->checks);
  return true;
}

bool hal_exec_run(hal_exec_t *x, td_task_t *task, const hal_arg_t *args,
                  const int64_t *preset, const hal_exec_options_t *options) {
  hal_exec_options_t o = {.checks = HAL_CHECKS_ENTRY};
  if (options != NULL) o = *options;
  x->trace = o.trace;
  memset(&x->stats, 0, sizeof x->stats);
  if (!hal_bind(&x->binding, task, args, preset, o.checks, true)) {
    return false;
  }
  hal_exec_drop_regions(x);
  x->poisons = o.poison;
  x->is_separate = strcmp(td_env_text(TD_ENV_PLAN_ALLOC), "separate") == 0;
  if (!hal_exec_place(x, task, o.poison)) return false;
  uint64_t start = td_os_now_ns();
  x->has_kept = !o.poison && !x->is_separate && hal_exec_is_kept(x);
  bool ok = run_again(x, task, &o);
  ok = hal_exec_wait(x, task) && ok;
  hal_exec_drop_regions(x);
  x->has_kept = ok && !x->is_separate;
  if (ok) hal_exec_keep(x);
  x->stats.seconds = (double)(td_os_now_ns() - start) * 1e-9;
  const hal_vtable_t *v = x->device->vtable;
  if (v->peak_bytes != NULL) x->stats.peak_bytes = v->peak_bytes(x->device);
  return ok && hal_exec_fetch(x, task);
}
