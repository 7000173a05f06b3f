/* exec.c: see exec.h.
 *
 * 1. hal_bind gives dims values and checks the arguments.
 * 2. place_buffers evaluates every size and offset once; nothing of it
 *    depends on loop variables.
 * 3. run_again launches what the last run did as one graph, if it was made of
 *    the same; else run_steps walks the steps.  Loop variables live behind the
 *    dims in the binding's vars; a loop's upper bound is read once, at its
 *    head. */
#include "runtime/hal/exec.h"

#include "runtime/base/env.h"
#include "runtime/base/num.h"
#include "runtime/base/os.h"

enum { LINE = 64, CELL = PLAN_CELL_BYTES, MOST_NODES = 8192 };

/* Device memory that grows and never shrinks. */
typedef struct block {
  void *data;
  size_t bytes;
} block_t;

struct hal_exec {
  hal_device_t *device;
  hal_program_t *program;
  const plan_t *plan;
  const plan_entry_t *entry;
  hal_binding_t binding;
  block_t arena;
  block_t cells;       /* rank-0 slots given by value, CELL bytes each */
  block_t *outputs;    /* by slot: memory on the device for what the caller
                          left out, or all slots if it has memory of its own */
  void **slot_places;  /* by slot: device address in this run */
  void **places;       /* by buffer: device address in this run */
  size_t *sizes;       /* by buffer */
  uint64_t *ends;      /* by buffer: end in the arena, whole lines; 0: slot */
  int64_t *limits;     /* by step: upper bound of a running loop */
  void **launch_places;     /* scratch of one launch */
  size_t *launch_sizes;
  int64_t *launch_scalars;
  hal_trace_t *trace;       /* of this run, or NULL */
  /* What launches to be made once have left in the arena, made of these
   * contents, between these addresses; see is_kept. */
  bool has_kept;
  uint64_t *kept_constants; /* by slot */
  void **kept_places;       /* by buffer */
  /* The last run: what it was made of, and its steps as one graph once they
   * were run again with the same. */
  bool has_last;
  uint32_t last_launches;   /* and copies */
  hal_checks_t last_checks;
  int64_t *last_vars;       /* dims */
  void **last_places;
  size_t *last_sizes;
  plan_memory_t last_memory; /* what it needed of the device, predicted */
  hal_graph_t *graph;       /* or NULL */
  hal_stats_t graph_stats;
  hal_stats_t stats;
};

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
  x->outputs = TD_NEW_ARRAY(arena, block_t, e->slot_count + 1);
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

/* ---- memory -------------------------------------------------------------- */

static void grow(hal_exec_t *x, td_task_t *task, block_t *block, size_t bytes,
                 const char *what) {
  if (block->data != NULL && block->bytes >= bytes) return;
  const hal_vtable_t *v = x->device->vtable;
  if (block->data != NULL) v->free(x->device, block->data);
  x->has_kept = false; /* another block may come to lie where it was */
  block->bytes = 0;
  block->data = v->alloc(x->device, bytes == 0 ? LINE : bytes);
  if (block->data == NULL) {
    td_raise(task, TDSL_STATUS_OUT_OF_MEMORY, "no memory on %s for %s: %zu "
             "bytes", v->name, what, bytes);
  }
  block->bytes = bytes;
}

/* An evaluated size or offset; the verifier has seen that it is one. */
static size_t size_of(hal_exec_t *x, td_task_t *task, const plan_expr_t *e,
                      const char *what) {
  plan_env_t env = {x->binding.vars, NULL};
  int64_t n = 0;
  if (!plan_eval(e, &env, &n) || n < 0) {
    td_raise(task, TDSL_STATUS_LIMIT, "the size of %s leaves 64 bits", what);
  }
  return (size_t)n;
}

/* Host to device and back; one copy where they share memory. */
static bool upload(hal_exec_t *x, td_task_t *task, void *to, const void *from,
                   size_t bytes) {
  const hal_vtable_t *v = x->device->vtable;
  x->stats.upload_bytes += bytes;
  return (v->shares_host_memory ? v->copy : v->upload)(x->device, task, to,
                                                       from, bytes);
}

static bool download(hal_exec_t *x, td_task_t *task, void *to,
                     const void *from, size_t bytes) {
  const hal_vtable_t *v = x->device->vtable;
  x->stats.download_bytes += bytes;
  return (v->shares_host_memory ? v->copy : v->download)(x->device, task, to,
                                                         from, bytes);
}

/* Rank-0 slots given by value get a cell; outputs left out get memory, as all
 * tensors do on a device that has its own. */
static bool place_slots(hal_exec_t *x, td_task_t *task, bool poison) {
  const hal_vtable_t *v = x->device->vtable;
  grow(x, task, &x->cells, (size_t)x->entry->slot_count * CELL + LINE,
       "scalars");
  for (uint32_t s = 0; s < x->entry->slot_count; s++) {
    const plan_slot_t *slot = &x->entry->slots[s];
    hal_arg_t *a = &x->binding.args[s];
    size_t bytes = x->binding.bytes[s];
    if (a->is_value) {
      uint64_t bits[2] = {0};
      if (a->number.is_real) {
        td_store_f64(slot->dtype, bits, a->number.r);
      } else {
        td_store_i64(slot->dtype, bits, a->number.i);
      }
      a->data = (char *)x->cells.data + (size_t)s * CELL;
      if (!upload(x, task, a->data, bits, sizeof bits)) return false;
    } else if (!a->is_set) {
      grow(x, task, &x->outputs[s], bytes, slot->name);
      a->data = x->outputs[s].data;
      if (poison && !v->fill(x->device, task, a->data, 0xFF, bytes)) {
        return false;
      }
    } else if (a->device_data != NULL) {
      x->slot_places[s] = a->device_data;
      continue;
    } else if (!v->shares_host_memory) {
      grow(x, task, &x->outputs[s], bytes, slot->name);
      x->slot_places[s] = x->outputs[s].data;
      if (slot->kind != PLAN_OUT && bytes > 0 &&
          !upload(x, task, x->slot_places[s], a->data, bytes)) {
        return false;
      }
      continue;
    }
    /* an empty tensor may have no memory, and a kernel wants an address */
    if (a->data == NULL) a->data = x->cells.data;
    x->slot_places[s] = a->data;
  }
  return true;
}

/* What the run has written, into the caller's memory. */
static bool fetch_slots(hal_exec_t *x, td_task_t *task) {
  if (x->device->vtable->shares_host_memory) return true;
  for (uint32_t s = 0; s < x->entry->slot_count; s++) {
    const hal_arg_t *a = &x->binding.args[s];
    if (x->entry->slots[s].kind == PLAN_IN || a->is_value ||
        a->data == x->slot_places[s] || a->device_data != NULL ||
        x->binding.bytes[s] == 0) {
      continue;
    }
    if (!download(x, task, a->data, x->slot_places[s],
                  x->binding.bytes[s])) {
      return false;
    }
  }
  return true;
}

/* The verifier samples dims; a plan that is wrong for others is stopped here
 * before it can touch memory that is not its own. */
static _Noreturn void misfit(td_task_t *task, const char *name) {
  td_raise(task, TDSL_STATUS_INTERNAL,
           "the memory plan does not hold for %s at these dims", name);
}

static bool place_buffers(hal_exec_t *x, td_task_t *task, bool poison) {
  const plan_entry_t *e = x->entry;
  const hal_vtable_t *v = x->device->vtable;
  size_t planned = size_of(x, task, &e->arena_bytes, "the arena");
  grow(x, task, &x->arena, planned, "intermediates");
  if (poison && planned > 0 &&
      !v->fill(x->device, task, x->arena.data, 0xFF, planned)) {
    return false;
  }
  x->stats.planned_bytes = planned;
  for (uint32_t i = 0; i < e->buffer_count; i++) {
    const plan_buffer_t *b = &e->buffers[i];
    x->sizes[i] = size_of(x, task, &b->bytes, b->name);
    x->ends[i] = 0;
    if (b->place == PLAN_AT_SLOT) {
      if (x->sizes[i] != x->binding.bytes[b->slot]) {
        misfit(task, b->name);
      }
      x->places[i] = x->slot_places[b->slot];
      continue;
    }
    size_t offset = size_of(x, task, &b->offset, b->name), end, lines;
    if (!td_add_size(offset, x->sizes[i], &end) ||
        !td_add_size(end, LINE - 1, &lines) || end > planned) {
      misfit(task, b->name);
    }
    x->ends[i] = lines / LINE * LINE;
    x->places[i] = (char *)x->arena.data + offset;
  }
  return true;
}

static void count_memory(hal_exec_t *x) {
  uint64_t sum = x->arena.bytes + x->cells.bytes;
  for (uint32_t s = 0; s < x->entry->slot_count; s++) {
    sum += x->outputs[s].bytes;
  }
  x->stats.device_bytes = sum;
}

/* ---- steps --------------------------------------------------------------- */

static bool wait(hal_exec_t *x, td_task_t *task) {
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
  if (!wait(x, task)) return false;
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
      .block_count = blocks, .scratch_bytes = (size_t)scratch};
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
    misfit(task, x->entry->buffers[to].name);
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
  return wait(x, task) &&
         download(x, task, out, x->places[buffer], width);
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

static bool run_steps(hal_exec_t *x, td_task_t *task, hal_checks_t checks) {
  const plan_entry_t *e = x->entry;
  bool ok = true;
  for (uint32_t at = 0; ok && at < e->step_count;) {
    const plan_step_t *s = &e->steps[at];
    uint32_t next = at + 1;
    td_task_poll(task);
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
    at = next;
  }
  return ok;
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

/* ---- what is made once --------------------------------------------------- */

/* Whether what the last run made of weights is still there: of contents that
 * have not changed, at addresses that have not moved. */
static bool is_kept(const hal_exec_t *x) {
  const plan_entry_t *e = x->entry;
  bool has_any = false;
  if (!x->has_kept) return false;
  for (uint32_t i = 0; i < e->step_count; i++) {
    const plan_step_t *s = &e->steps[i];
    if (!s->is_once) continue;
    has_any = true;
    for (uint32_t k = 0; k < s->buffer_count; k++) {
      uint32_t b = s->buffers[k];
      if (x->kept_places[b] != x->places[b]) return false;
      if (e->buffers[b].place != PLAN_AT_SLOT) continue;
      uint64_t now = x->binding.args[e->buffers[b].slot].constant;
      if (now == 0 || now != x->kept_constants[e->buffers[b].slot]) {
        return false;
      }
    }
  }
  return has_any;
}

static void keep(hal_exec_t *x) {
  const plan_entry_t *e = x->entry;
  for (uint32_t s = 0; s < e->slot_count; s++) {
    x->kept_constants[s] = x->binding.args[s].constant;
  }
  memcpy(x->kept_places, x->places, e->buffer_count * sizeof *x->places);
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
         o->trace == NULL && !o->poison && e->step_count > 0 &&
         strcmp(td_env_text(TD_ENV_GRAPHS), "off") != 0;
}

/* Dims, addresses and sizes decide everything that is launched. */
static bool is_as_last(const hal_exec_t *x, hal_checks_t checks) {
  const plan_entry_t *e = x->entry;
  return x->has_last && x->last_checks == checks &&
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
  bool ok = run_steps(x, task, checks);
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
  if (!run_steps(x, task, o->checks)) return false;
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
  if (!place_slots(x, task, o.poison)) return false;
  if (!place_buffers(x, task, o.poison)) return false;
  count_memory(x);
  uint64_t start = td_os_now_ns();
  x->has_kept = !o.poison && is_kept(x);
  bool ok = run_again(x, task, &o);
  ok = wait(x, task) && ok;
  x->has_kept = ok;
  if (ok) keep(x);
  x->stats.seconds = since(start);
  const hal_vtable_t *v = x->device->vtable;
  if (v->peak_bytes != NULL) x->stats.peak_bytes = v->peak_bytes(x->device);
  return ok && fetch_slots(x, task);
}
