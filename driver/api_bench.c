/* api_bench.c: every kernel of a run measured several times, with spreads,
 * beside what the machine allows: the bytes and operations that the plan
 * predicts, over the ceilings of the same minute. */
#include "driver/api_measure.h"

#include "runtime/base/env.h"

enum { DEFAULT_REPEAT = 20, MOST_REPEAT = 10000 };

/* ---- samples ------------------------------------------------------------- */

static size_t samples_bytes(const tdsl_run_t *run, uint32_t most) {
  size_t n = run->exe->program->plan->kernel_count;
  return n * (sizeof(drv_samples_t) + most * sizeof(double)) + 16;
}

drv_samples_t *drv_samples_create(tdsl_run_t *run, uint32_t most) {
  const tdsl_program_t *p = run->exe->program;
  uint32_t n = p->plan->kernel_count;
  drv_samples_t *samples = drv_alloc(p->context, samples_bytes(run, most));
  if (samples == NULL) return NULL;
  double *room = (double *)(void *)(samples + n);
  for (uint32_t k = 0; k < n; k++) {
    samples[k].seconds = room + (size_t)k * most;
    samples[k].most = most;
  }
  return samples;
}

void drv_samples_destroy(tdsl_run_t *run, drv_samples_t *samples,
                         uint32_t most) {
  drv_free(run->exe->program->context, samples, samples_bytes(run, most));
}

tdsl_status_t drv_samples_take(tdsl_run_t *run, drv_samples_t *samples,
                               tdsl_error_t **out_error) {
  uint32_t n = run->exe->program->plan->kernel_count;
  memset(run->trace->rows, 0, n * sizeof *run->trace->rows);
  tdsl_status_t status = tdsl_run_execute(run, out_error);
  for (uint32_t k = 0; k < n && status == TDSL_STATUS_OK; k++) {
    const hal_trace_row_t *row = &run->trace->rows[k];
    drv_samples_t *s = &samples[k];
    s->launches = row->launches;
    s->bytes = row->bytes;
    s->flops = row->flops;
    if (s->count < s->most) s->seconds[s->count++] = row->seconds;
  }
  return status;
}

void drv_samples_sort(tdsl_run_t *run, drv_samples_t *samples) {
  for (uint32_t k = 0; k < run->exe->program->plan->kernel_count; k++) {
    drv_samples_t *s = &samples[k];
    for (uint32_t i = 1; i < s->count; i++) {
      double v = s->seconds[i];
      uint32_t at = i;
      for (; at > 0 && s->seconds[at - 1] > v; at--) {
        s->seconds[at] = s->seconds[at - 1];
      }
      s->seconds[at] = v;
    }
  }
}

double drv_samples_at(const drv_samples_t *s, double fraction) {
  if (s->count == 0) return 0;
  return s->seconds[(uint32_t)((double)(s->count - 1) * fraction + 0.5)];
}

bool drv_can_measure(td_task_t *task, const tdsl_run_t *run) {
  const drv_device_t *d = &run->exe->program->device;
  bool is_cpu = d->engine == DRV_PLAN && d->hal == DRV_HAL_CPU;
  bool is_cuda = d->engine == DRV_PLAN && d->hal == DRV_HAL_CUDA;
  if (is_cpu || is_cuda) return true;
  bool is_sim = d->engine == DRV_PLAN && d->hal == DRV_HAL_SIM;
  td_diag_t *diag = td_diag(
      task, TD_B04, TD_NO_LOC, "%s",
      is_sim ? "the simulated GPU has no clock: nothing is measured on it"
             : "this device is for answers: nothing is measured on it");
  td_diag_help(diag, is_sim ? "--counters counts what kernels do; --device "
                              "cpu and a GPU have clocks"
                            : "--device cpu");
  return false;
}

/* ---- printing ------------------------------------------------------------ */

typedef struct bench_call {
  tdsl_run_t *run;
  drv_samples_t *samples;
  uint32_t repeat;
  bool as_json;
  drv_ceiling_t ceilings[2]; /* before and after */
  tdsl_text_fn_t text;
  void *user;
} bench_call_t;

static double better(double a, double b) {
  return a > b ? a : b;
}

/* Seconds that the ceilings allow, and which of them it is. */
static double bound_of(const bench_call_t *c, const drv_samples_t *s,
                       const char **out_kind) {
  double flops = better(c->ceilings[0].flops, c->ceilings[1].flops);
  double stream = better(c->ceilings[0].stream, c->ceilings[1].stream);
  double by_flops = flops > 0 ? s->flops / flops : 0;
  double by_bytes = stream > 0 ? s->bytes / stream : 0;
  *out_kind = by_flops <= 0 && by_bytes <= 0 ? "-"
              : by_flops > by_bytes          ? "arithmetic"
                                             : "memory";
  return better(by_flops, by_bytes);
}

/* Digits behind the point: 3 below a hundred, else one. */
static void put_number(td_buf_t *out, int width, double value) {
  char storage[40];
  td_buf_t text;
  uint64_t scale = value < 100 ? 1000 : 10;
  uint64_t n = value < 1e14 ? (uint64_t)(value * (double)scale + 0.5) : 0;
  td_buf_init_fixed(&text, storage, sizeof storage);
  td_buf_printf(&text, scale == 10 ? "%llu.%llu" : "%llu.%03llu",
                (unsigned long long)(n / scale),
                (unsigned long long)(n % scale));
  td_buf_printf(out, "%*s", width, text.data);
}

static void put_row(td_buf_t *out, const bench_call_t *c, uint32_t k) {
  const drv_samples_t *s = &c->samples[k];
  const plan_kernel_t *kernel = &c->run->exe->program->plan->kernels[k];
  const char *kind;
  double median = drv_samples_at(s, 0.5), bound = bound_of(c, s, &kind);
  double spread = drv_samples_at(s, 0.9) - drv_samples_at(s, 0.1);
  double safe = median > 0 ? median : 1e-9;
  put_number(out, 10, median * 1e6);
  put_number(out, 10, drv_samples_at(s, 0) * 1e6);
  put_number(out, 9, 100 * spread / safe);
  td_buf_printf(out, "%9llu", (unsigned long long)s->launches);
  put_number(out, 9, s->bytes / safe * 1e-9);
  put_number(out, 9, s->flops / safe * 1e-9);
  put_number(out, 10, bound * 1e6);
  put_number(out, 8, 100 * bound / safe);
  td_buf_printf(out, "  %-10s  %s\n", kind, kernel->name);
}

static void put_json_number(td_buf_t *out, const char *name, double value) {
  td_buf_printf(out, "\"%s\": ", name);
  td_buf_f64(out, value);
}

static void put_json_row(td_buf_t *out, const bench_call_t *c, uint32_t k) {
  const drv_samples_t *s = &c->samples[k];
  const char *kind;
  double bound = bound_of(c, s, &kind);
  td_buf_printf(out, "{\"kernel\": \"%s\", \"launches\": %llu, ",
                c->run->exe->program->plan->kernels[k].name,
                (unsigned long long)s->launches);
  put_json_number(out, "median", drv_samples_at(s, 0.5));
  td_buf_puts(out, ", ");
  put_json_number(out, "least", drv_samples_at(s, 0));
  td_buf_puts(out, ", ");
  put_json_number(out, "p10", drv_samples_at(s, 0.1));
  td_buf_puts(out, ", ");
  put_json_number(out, "p90", drv_samples_at(s, 0.9));
  td_buf_puts(out, ", ");
  put_json_number(out, "bytes", s->bytes);
  td_buf_puts(out, ", ");
  put_json_number(out, "flops", s->flops);
  td_buf_puts(out, ", ");
  put_json_number(out, "bound", bound);
  td_buf_printf(out, ", \"bound_by\": \"%s\"}", kind);
}

/* Slowest first; those that did not run are left out. */
static void put_rows(td_buf_t *out, const bench_call_t *c, td_arena_t *arena) {
  uint32_t n = c->run->exe->program->plan->kernel_count, put = 0;
  bool *done = TD_NEW_ARRAY(arena, bool, n + 1);
  for (;;) {
    uint32_t next = n;
    for (uint32_t k = 0; k < n; k++) {
      const drv_samples_t *s = &c->samples[k];
      if (done[k] || s->launches == 0) continue;
      if (next == n || drv_samples_at(s, 0.5) >
                           drv_samples_at(&c->samples[next], 0.5)) {
        next = k;
      }
    }
    if (next == n) return;
    done[next] = true;
    if (!c->as_json) {
      put_row(out, c, next);
      continue;
    }
    td_buf_puts(out, put++ > 0 ? ",\n " : "\n ");
    put_json_row(out, c, next);
  }
}

static void print_work(td_task_t *task, void *arg) {
  bench_call_t *c = arg;
  td_buf_t out;
  td_buf_init(&out, task);
  double flops = better(c->ceilings[0].flops, c->ceilings[1].flops);
  double stream = better(c->ceilings[0].stream, c->ceilings[1].stream);
  if (c->as_json) {
    td_buf_printf(&out, "{\"schema\": 1, \"runs\": %u, ", c->repeat);
    put_json_number(&out, "ceiling_flops", flops);
    td_buf_puts(&out, ", ");
    put_json_number(&out, "ceiling_bytes", stream);
    td_buf_puts(&out, ", \"kernels\": [");
    put_rows(&out, c, &task->arena);
    td_buf_puts(&out, "]}\n");
  } else {
    td_buf_printf(&out, "%u runs", c->repeat);
    if (flops > 0 || stream > 0) {
      td_buf_puts(&out, "; the machine now: ");
      put_number(&out, 0, flops * 1e-9);
      td_buf_puts(&out, " GFLOP/s of f32, ");
      put_number(&out, 0, stream * 1e-9);
      td_buf_puts(&out, " GB/s read");
    }
    td_buf_puts(&out, "\n\n median us  least us spread %  launches    GB/s"
                      "  GFLOP/s  bound us       %  bound by    kernel\n");
    put_rows(&out, c, &task->arena);
  }
  c->text(td_buf_view(&out), c->user);
  td_buf_free(&out);
}

/* ---- the call ------------------------------------------------------------ */

static void check_work(td_task_t *task, void *arg) {
  const bench_call_t *c = arg;
  if (!drv_can_measure(task, c->run)) return;
  if (c->repeat > MOST_REPEAT) {
    td_raise(task, TDSL_STATUS_INVALID_ARGUMENT, "at most %d runs",
             MOST_REPEAT);
  }
}

static bool has_ceilings(const tdsl_run_t *run) {
  return run->exe->program->device.hal == DRV_HAL_CPU;
}

tdsl_status_t tdsl_run_bench(tdsl_run_t *run, uint32_t repeat,
                             uint32_t as_json, tdsl_text_fn_t text,
                             void *user, tdsl_error_t **out_error) {
  tdsl_context_t *context = run->exe->program->context;
  bench_call_t c = {.run = run, .text = text, .user = user,
                    .as_json = as_json != 0,
                    .repeat = repeat > 0 ? repeat : DEFAULT_REPEAT};
  drv_call_t call = {.context = context};
  tdsl_status_t status = drv_call(&call, check_work, &c, out_error);
  if (status == TDSL_STATUS_OK) status = tdsl_run_set_trace(run, 1, out_error);
  if (status != TDSL_STATUS_OK) return status;
  uint32_t threads = context->thread_count;
  if (threads == 0) threads = (uint32_t)td_env_int(TD_ENV_THREADS);
  c.samples = drv_samples_create(run, c.repeat);
  if (c.samples == NULL) {
    return drv_refuse(context, TDSL_STATUS_OUT_OF_MEMORY, "out of memory",
                      out_error);
  }
  /* once unmeasured: pages and caches are as in the runs that follow */
  status = tdsl_run_execute(run, out_error);
  if (status == TDSL_STATUS_OK && has_ceilings(run)) {
    (void)drv_ceiling_measure(context, threads, &c.ceilings[0]);
  }
  for (uint32_t i = 0; i < c.repeat && status == TDSL_STATUS_OK; i++) {
    status = drv_samples_take(run, c.samples, out_error);
  }
  if (status == TDSL_STATUS_OK) {
    if (has_ceilings(run)) {
      (void)drv_ceiling_measure(context, threads, &c.ceilings[1]);
    }
    drv_samples_sort(run, c.samples);
    status = drv_call(&call, print_work, &c, out_error);
  }
  drv_samples_destroy(run, c.samples, c.repeat);
  return status;
}
