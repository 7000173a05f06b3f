/* exec_steps.c: see exec_state.h. Loop variables live behind the dims in the
 * binding's vars; a loop's upper bound is read once, at its head. */
#include "runtime/hal/exec_state.h"

#include "runtime/base/num.h"
#include "runtime/base/os.h"

bool hal_exec_wait(hal_exec_t *x, td_task_t *task) {
  const hal_vtable_t *v = x->device->vtable;
  return v->wait == NULL || v->wait(x->device, task);
}

static double since(uint64_t start) {
  return (double)(td_os_now_ns() - start) * 1e-9;
}

static void touch(hal_exec_t *x, uint32_t buffer) {
  if (x->sizes[buffer] > 0 && x->ends[buffer] > x->stats.arena_bytes) {
    x->stats.arena_bytes = x->ends[buffer];
  }
}

/* What the plan says a launch moves and computes; 0 where it leaves 64
 * bits. */
static void count_ledger(hal_exec_t *x, const plan_kernel_t *k,
                         const plan_env_t *own) {
  int64_t n;
  if (plan_eval(&k->ledger.read_bytes, own, &n)) {
    x->stats.read_bytes += (uint64_t)n;
  }
  if (plan_eval(&k->ledger.written_bytes, own, &n)) {
    x->stats.written_bytes += (uint64_t)n;
  }
  if (plan_eval(&k->ledger.flops, own, &n)) x->stats.flops += (uint64_t)n;
}

/* A step alone on the device, by its own clock if it has one. */
static bool begin_timing(hal_exec_t *x, td_task_t *task, uint64_t *start) {
  const hal_vtable_t *v = x->device->vtable;
  *start = td_os_now_ns();
  return v->mark == NULL || v->mark(x->device, task, 0);
}

static bool end_timing(hal_exec_t *x, td_task_t *task, uint64_t start,
                       double *out_seconds) {
  const hal_vtable_t *v = x->device->vtable;
  if (v->mark != NULL && !v->mark(x->device, task, 1)) return false;
  if (!hal_exec_wait(x, task)) return false;
  *out_seconds = since(start);
  if (v->elapsed != NULL) {
    double measured;
    if (v->elapsed(x->device, &measured)) *out_seconds = measured;
  }
  return true;
}

static bool run_launch(hal_exec_t *x, td_task_t *task, const plan_step_t *s) {
  const plan_kernel_t *k = &x->plan->kernels[s->kernel];
  plan_env_t env = {x->binding.vars, NULL};
  for (uint32_t i = 0; i < s->scalar_count; i++) {
    if (!plan_eval(&s->scalars[i], &env, &x->launch_scalars[i])) {
      td_raise(task, TDSL_STATUS_LIMIT, "a scalar of %s leaves 64 bits",
               k->name);
    }
  }
  plan_env_t own = {x->launch_scalars, NULL};
  int64_t blocks, scratch;
  if (!plan_eval(&k->block_count, &own, &blocks) ||
      !plan_eval(&k->scratch_bytes, &own, &scratch) || scratch < 0) {
    td_raise(task, TDSL_STATUS_LIMIT, "the size of %s leaves 64 bits",
             k->name);
  }
  if (blocks <= 0) {
    x->stats.skipped++;
    return true;
  }
  if (s->is_once && x->has_kept) {
    for (uint32_t i = 0; i < s->buffer_count; i++) touch(x, s->buffers[i]);
    return true;
  }
  for (uint32_t i = 0; i < s->buffer_count; i++) {
    x->launch_places[i] = x->places[s->buffers[i]];
    x->launch_sizes[i] = x->sizes[s->buffers[i]];
    touch(x, s->buffers[i]);
  }
  hal_launch_t launch = {
      .kernel = k, .kernel_index = s->kernel, .buffers = x->launch_places,
      .buffer_bytes = x->launch_sizes, .scalars = x->launch_scalars,
      .block_count = blocks, .scratch_bytes = (size_t)scratch,
      .entry = x->entry, .tensors = s->buffers, .vars = x->binding.vars};
  x->stats.launches++;
  count_ledger(x, k, &own);
  uint64_t start = 0;
  if (x->trace != NULL && !begin_timing(x, task, &start)) return false;
  if (!x->device->vtable->launch(x->device, x->program, task, &launch)) {
    return false;
  }
  double seconds;
  if (x->trace == NULL) return true;
  if (!end_timing(x, task, start, &seconds)) return false;
  hal_trace_launch(x->trace, s->kernel, x->launch_scalars, seconds);
  return true;
}

static bool run_copy(hal_exec_t *x, td_task_t *task, const plan_step_t *s) {
  uint32_t to = s->buffers[0], from = s->buffers[1];
  if (x->sizes[to] != x->sizes[from]) {
    hal_exec_misfit(task, x->entry->buffers[to].name);
  }
  touch(x, to);
  touch(x, from);
  if (x->sizes[to] == 0 || x->places[to] == x->places[from]) return true;
  x->stats.copies++;
  uint64_t start = 0;
  if (x->trace != NULL && !begin_timing(x, task, &start)) return false;
  if (!x->device->vtable->copy(x->device, task, x->places[to],
                               x->places[from], x->sizes[to])) {
    return false;
  }
  double seconds;
  if (x->trace == NULL) return true;
  if (!end_timing(x, task, start, &seconds)) return false;
  hal_trace_copy(x->trace, x->sizes[to], seconds);
  return true;
}

static bool run_fill(hal_exec_t *x, td_task_t *task, const plan_step_t *s) {
  uint32_t to = s->buffers[0];
  touch(x, to);
  if (x->sizes[to] == 0) return true;
  return x->device->vtable->fill(x->device, task, x->places[to], 0,
                                 x->sizes[to]);
}

/* First element of a buffer, brought to the host. */
static bool fetch(hal_exec_t *x, td_task_t *task, uint32_t buffer,
                  uint64_t *out) {
  *out = 0;
  size_t width = td_dtype_bytes(x->entry->buffers[buffer].dtype);
  if (x->sizes[buffer] < width) return true;
  touch(x, buffer);
  return hal_exec_wait(x, task) &&
         hal_exec_download(x, task, out, x->places[buffer], width);
}

static bool loop_bound(hal_exec_t *x, td_task_t *task, const plan_expr_t *e,
                       int32_t buffer, int64_t *out) {
  if (buffer >= 0) {
    uint64_t bits;
    if (!fetch(x, task, (uint32_t)buffer, &bits)) return false;
    *out = td_load_i64(x->entry->buffers[buffer].dtype, &bits);
    return true;
  }
  plan_env_t env = {x->binding.vars, NULL};
  if (!plan_eval(e, &env, out)) {
    td_raise(task, TDSL_STATUS_LIMIT, "a loop bound leaves 64 bits");
  }
  return true;
}

static void put_side(td_buf_t *out, tdsl_dtype_t dtype, const void *data) {
  if (dtype == TDSL_DTYPE_F32) {
    td_buf_f32(out, (float)td_load_f64(dtype, data));
  } else if (td_dtype_is_float(dtype)) {
    td_buf_f64(out, td_load_f64(dtype, data));
  } else if (dtype == TDSL_DTYPE_BOOL) {
    td_buf_puts(out, td_load_i64(dtype, data) != 0 ? "true" : "false");
  } else {
    td_buf_printf(out, "%lld", (long long)td_load_i64(dtype, data));
  }
}

/* buffers[0] says whether it holds; [1] and [2], if there, are the sides of
 * the comparison. */
static bool run_assert(hal_exec_t *x, td_task_t *task, const plan_step_t *s) {
  uint64_t bits[3];
  uint32_t count = s->buffer_count < 3 ? 1 : 3;
  for (uint32_t i = 0; i < count; i++) {
    if (!fetch(x, task, s->buffers[i], &bits[i])) return false;
  }
  if (td_load_i64(TDSL_DTYPE_BOOL, &bits[0]) != 0) return true;
  td_loc_t loc = hal_locate(task, x->plan, s->loc);
  td_diag_t *d =
      s->text == NULL
          ? td_diag(task, TD_R06, loc, "assertion failed")
          : td_diag(task, TD_R06, loc, "assertion failed: %s", s->text);
  if (count < 3) return false;
  td_buf_t note;
  td_buf_init(&note, task);
  td_buf_puts(&note, "left is ");
  put_side(&note, x->entry->buffers[s->buffers[1]].dtype, &bits[1]);
  td_buf_puts(&note, ", right is ");
  put_side(&note, x->entry->buffers[s->buffers[2]].dtype, &bits[2]);
  td_diag_note(d, "%s", note.data);
  td_buf_free(&note);
  return false;
}

/* A checked kernel leaves 0, or the number of the R id that it found. */
static bool run_check(hal_exec_t *x, td_task_t *task, const plan_step_t *s) {
  uint64_t bits;
  if (!fetch(x, task, s->buffers[0], &bits)) return false;
  int64_t fault = td_load_i64(x->entry->buffers[s->buffers[0]].dtype, &bits);
  if (fault == 0) return true;
  td_diag(task, fault == 4 ? TD_R04 : fault == 5 ? TD_R05 : TD_R10,
          hal_locate(task, x->plan, s->loc), "%s",
          s->text != NULL ? s->text : "a checked kernel found a fault");
  return false;
}

/* Enters, repeats or leaves a loop; *next is the step to go on with. */
static bool run_loop(hal_exec_t *x, td_task_t *task, uint32_t at,
                     uint32_t *next) {
  const plan_step_t *s = &x->entry->steps[at];
  int64_t lo;
  if (s->kind == PLAN_STEP_LOOP) {
    if (!loop_bound(x, task, &s->lo, s->lo_buffer, &lo) ||
        !loop_bound(x, task, &s->hi, s->hi_buffer, &x->limits[at])) {
      return false;
    }
    x->binding.vars[s->var] = lo;
    if (lo >= x->limits[at]) *next = s->other + 1;
    return true;
  }
  uint32_t var = x->entry->steps[s->other].var;
  /* in two steps: the last value may be the largest integer */
  if (x->limits[s->other] - 1 > x->binding.vars[var]) {
    x->binding.vars[var]++;
    *next = s->other + 1;
  }
  return true;
}

bool hal_exec_steps(hal_exec_t *x, td_task_t *task, hal_checks_t checks) {
  const plan_entry_t *e = x->entry;
  bool ok = true;
  for (uint32_t at = 0; ok && at < e->step_count;) {
    const plan_step_t *s = &e->steps[at];
    uint32_t next = at + 1;
    td_task_poll(task);
    if (x->is_separate && !hal_exec_begin_step(x, task, at)) return false;
    switch (s->kind) {
      case PLAN_STEP_LAUNCH: ok = run_launch(x, task, s); break;
      case PLAN_STEP_COPY: ok = run_copy(x, task, s); break;
      case PLAN_STEP_FILL: ok = run_fill(x, task, s); break;
      case PLAN_STEP_LOOP:
      case PLAN_STEP_END: ok = run_loop(x, task, at, &next); break;
      case PLAN_STEP_ASSERT:
        if (checks == HAL_CHECKS_ALL) ok = run_assert(x, task, s);
        break;
      case PLAN_STEP_CHECK:
        if (checks == HAL_CHECKS_ALL) ok = run_check(x, task, s);
        break;
      case PLAN_STEP_COUNT: break;
    }
    if (ok && x->is_separate) hal_exec_end_step(x, next);
    at = next;
  }
  return ok;
}
