/* plan_memory.c: what an entry needs of a device's memory, at given dims,
 * before anything is allocated.
 *
 * 1. While an entry runs, all of it is held at once: its tensors, the arena,
 *    the cells of scalars, and one scratch that is as large as the launch
 *    that needs most.
 * 2. Scratch is a share for each worker, and how many workers run at a time
 *    is the device's: plan_grid decides it for the device and for the
 *    prediction alike.
 * 3. Inside a loop a launch is looked at for the first and for the last
 *    value of the loop's variable; sizes grow or shrink along it. */
#include "runtime/plan/plan.h"

enum {
  LINE = 64,
  BLOCKS_A_SM = 32, /* more are not started: workers take turns */
};
static const size_t scratch_most = (size_t)512 << 20;

/* With scratch a block that waits for another to end only costs memory, so
 * that no more are started than are resident; without it the device's own
 * scheduler balances better than turns do. */
void plan_grid(const plan_kernel_t *kernel, int64_t block_count,
               size_t scratch_bytes, uint32_t sms, uint32_t resident,
               plan_grid_t *out) {
  int64_t each = kernel->workers > 0 ? kernel->workers : 1;
  int64_t blocks = block_count > 0 ? (block_count - 1) / each + 1 : 0;
  uint32_t of_sm = BLOCKS_A_SM;
  out->scratch_stride =
      scratch_bytes / LINE * LINE + (scratch_bytes % LINE > 0 ? LINE : 0);
  if (scratch_bytes > 0 && resident > 0 && resident < of_sm) of_sm = resident;
  int64_t most = (int64_t)sms * of_sm;
  if (blocks > most) blocks = most;
  out->workers = blocks * each;
  if (out->workers > block_count) out->workers = block_count;
  if (out->scratch_stride > 0) {
    int64_t fit = (int64_t)(scratch_most / out->scratch_stride);
    if (fit < 1) fit = 1;
    if (out->workers > fit) out->workers = fit;
  }
  if (out->workers < 0) out->workers = 0;
  out->blocks =
      out->workers > 0 ? (uint32_t)((out->workers - 1) / each + 1) : 0;
}

static uint64_t add_capped(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t bytes_of(const plan_expr_t *e, const plan_env_t *env) {
  int64_t n;
  return plan_eval(e, env, &n) && n > 0 ? (uint64_t)n : 0;
}

/* Device memory comes in pieces that are never empty. */
static uint64_t piece(uint64_t bytes) {
  return bytes > 0 ? bytes : LINE;
}

typedef struct walk {
  const plan_t *plan;
  const plan_entry_t *entry;
  const plan_machine_t *machine;
  int64_t *vars, *scalars;
  uint64_t scratch;
} walk_t;

static void see_launch(walk_t *w, const plan_step_t *s) {
  const plan_kernel_t *k = &w->plan->kernels[s->kernel];
  plan_env_t env = {w->vars, NULL}, own = {w->scalars, NULL};
  int64_t blocks, bytes;
  for (uint32_t i = 0; i < s->scalar_count; i++) {
    if (!plan_eval(&s->scalars[i], &env, &w->scalars[i])) return;
  }
  if (!plan_eval(&k->block_count, &own, &blocks) ||
      !plan_eval(&k->scratch_bytes, &own, &bytes) || blocks <= 0 ||
      bytes <= 0) {
    return;
  }
  const uint32_t *resident = w->machine->resident;
  plan_grid_t grid;
  plan_grid(k, blocks, (size_t)bytes, w->machine->sms,
            resident != NULL ? resident[s->kernel] : 0, &grid);
  uint64_t all = (uint64_t)grid.scratch_stride * (uint64_t)grid.workers;
  if (all > w->scratch) w->scratch = all;
}

/* All launches with every loop at its first or at its last value. */
static void see_steps(walk_t *w, bool at_last) {
  const plan_entry_t *e = w->entry;
  for (uint32_t i = 0; i < e->step_count; i++) {
    const plan_step_t *s = &e->steps[i];
    if (s->kind == PLAN_STEP_LAUNCH) see_launch(w, s);
    if (s->kind != PLAN_STEP_LOOP) continue;
    plan_env_t env = {w->vars, NULL};
    int64_t lo = 0, hi = 1;
    if (s->lo_buffer < 0) (void)plan_eval(&s->lo, &env, &lo);
    if (s->hi_buffer < 0) (void)plan_eval(&s->hi, &env, &hi);
    w->vars[s->var] = at_last && hi > lo && s->lo_buffer < 0 &&
                              s->hi_buffer < 0
                          ? hi - 1
                          : lo;
  }
}

static uint64_t scratch_of(const plan_t *plan, const plan_entry_t *e,
                           td_arena_t *arena, const int64_t *dims,
                           const plan_machine_t *machine) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < e->step_count; i++) {
    if (e->steps[i].scalar_count > most) most = e->steps[i].scalar_count;
  }
  walk_t w = {.plan = plan, .entry = e, .machine = machine,
              .vars = TD_NEW_ARRAY(arena, int64_t, e->var_count + 1),
              .scalars = TD_NEW_ARRAY(arena, int64_t, most + 1)};
  for (uint32_t d = 0; d < e->dim_count; d++) w.vars[d] = dims[d];
  see_steps(&w, false);
  see_steps(&w, true);
  return w.scratch;
}

void plan_memory_sum(td_task_t *task, const plan_t *plan,
                     const plan_entry_t *e, const int64_t *dims,
                     const bool *is_value, const plan_machine_t *machine,
                     plan_memory_t *out) {
  plan_env_t env = {dims, NULL};
  memset(out, 0, sizeof *out);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const plan_slot_t *slot = &e->slots[s];
    bool in_cell = is_value != NULL
                       ? is_value[s]
                       : slot->rank == 0 && slot->kind == PLAN_IN;
    if (in_cell) continue;
    uint64_t bytes = bytes_of(&e->buffers[slot->buffer].bytes, &env);
    uint64_t *to = slot->kind == PLAN_OUT ? &out->results : &out->arguments;
    *to = add_capped(*to, piece(bytes));
  }
  out->scalars = (uint64_t)e->slot_count * PLAN_CELL_BYTES + LINE;
  out->arena = piece(bytes_of(&e->arena_bytes, &env));
  td_arena_t arena;
  td_arena_init(&arena, task);
  out->scratch = scratch_of(plan, e, &arena, dims, machine);
  td_arena_free_all(&arena);
  const uint64_t parts[] = {out->arguments, out->results, out->scalars,
                            out->arena, out->scratch};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    out->all = add_capped(out->all, parts[i]);
  }
}
