/* trace.c: see trace.h. */
#include "runtime/hal/trace.h"

void hal_trace_init(hal_trace_t *t, td_arena_t *arena, const plan_t *plan) {
  memset(t, 0, sizeof *t);
  t->plan = plan;
  t->rows = TD_NEW_ARRAY(arena, hal_trace_row_t, plan->kernel_count + 1);
}

static void add(hal_trace_row_t *row, double seconds, double bytes,
                double flops) {
  if (row->launches == 0 || seconds < row->least) row->least = seconds;
  row->launches++;
  row->seconds += seconds;
  row->bytes += bytes;
  row->flops += flops;
}

static double amount(const plan_expr_t *e, const int64_t *scalars) {
  plan_env_t env = {scalars, NULL};
  int64_t n;
  return plan_eval(e, &env, &n) && n > 0 ? (double)n : 0;
}

void hal_trace_launch(hal_trace_t *t, uint32_t kernel, const int64_t *scalars,
                      double seconds) {
  const plan_ledger_t *l = &t->plan->kernels[kernel].ledger;
  add(&t->rows[kernel], seconds,
      amount(&l->read_bytes, scalars) + amount(&l->written_bytes, scalars),
      amount(&l->flops, scalars));
}

void hal_trace_copy(hal_trace_t *t, size_t bytes, double seconds) {
  add(&t->copies, seconds, 2 * (double)bytes, 0);
}

/* Three digits behind the point; enough for a person. */
static void put_fixed(td_buf_t *out, int width, double value) {
  uint64_t n = value < 1e15 ? (uint64_t)(value * 1000 + 0.5) : 0;
  char storage[32];
  td_buf_t text;
  td_buf_init_fixed(&text, storage, sizeof storage);
  td_buf_printf(&text, "%llu.%03llu", (unsigned long long)(n / 1000),
                (unsigned long long)(n % 1000));
  td_buf_printf(out, "%*s", width, text.data);
}

static void put_row(td_buf_t *out, const hal_trace_row_t *r, double all,
                    const char *name) {
  double s = r->seconds > 0 ? r->seconds : 1e-9;
  put_fixed(out, 8, all > 0 ? 100 * r->seconds / all : 0);
  td_buf_printf(out, "%10llu", (unsigned long long)r->launches);
  put_fixed(out, 14, r->seconds * 1e3);
  put_fixed(out, 12, r->least * 1e6);
  put_fixed(out, 10, r->bytes / s * 1e-9);
  put_fixed(out, 12, r->flops / s * 1e-9);
  td_buf_printf(out, "  %s\n", name);
}

void hal_trace_print(td_buf_t *out, const hal_trace_t *t) {
  td_arena_t scratch;
  td_arena_init(&scratch, out->task);
  uint32_t count = t->plan->kernel_count;
  bool *done = TD_NEW_ARRAY(&scratch, bool, count + 1);
  double all = t->copies.seconds;
  for (uint32_t k = 0; k < count; k++) all += t->rows[k].seconds;
  td_buf_puts(out, " share %  launches      total ms    least us      GB/s"
                   "     GFLOP/s  kernel\n");
  for (uint32_t n = 0; n < count; n++) {
    uint32_t next = count;
    for (uint32_t k = 0; k < count; k++) {
      if (done[k] || t->rows[k].launches == 0) continue;
      if (next == count || t->rows[k].seconds > t->rows[next].seconds) {
        next = k;
      }
    }
    if (next == count) break;
    done[next] = true;
    put_row(out, &t->rows[next], all, t->plan->kernels[next].name);
  }
  if (t->copies.launches > 0) put_row(out, &t->copies, all, "(copies)");
  td_arena_free_all(&scratch);
}
