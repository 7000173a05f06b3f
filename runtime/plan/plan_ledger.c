/* plan_ledger.c: what an entry moves and computes, and where its buffers
 * lie, at given dims. */
#include "runtime/plan/plan_text.h"

#include "runtime/base/num.h"

enum { CHART = 64 }; /* columns of the chart of lives */

/* ---- totals -------------------------------------------------------------- */

static uint64_t add_capped(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t mul_capped(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t amount(const plan_expr_t *e, const plan_env_t *env) {
  int64_t n;
  return plan_eval(e, env, &n) && n > 0 ? (uint64_t)n : 0;
}

/* `times`: how often the step runs. */
static bool count_launch(const plan_t *plan, const plan_step_t *s,
                         const plan_env_t *env, uint64_t times,
                         int64_t *scalars, plan_totals_t *out) {
  const plan_kernel_t *k = &plan->kernels[s->kernel];
  for (uint32_t i = 0; i < s->scalar_count; i++) {
    if (!plan_eval(&s->scalars[i], env, &scalars[i])) return false;
  }
  plan_env_t own = {scalars, NULL};
  if (amount(&k->block_count, &own) == 0) return true;
  const plan_ledger_t *l = &k->ledger;
  out->launches = add_capped(out->launches, times);
  out->read_bytes = add_capped(
      out->read_bytes, mul_capped(times, amount(&l->read_bytes, &own)));
  out->written_bytes = add_capped(
      out->written_bytes, mul_capped(times, amount(&l->written_bytes, &own)));
  out->flops = add_capped(out->flops,
                          mul_capped(times, amount(&l->flops, &own)));
  return true;
}

static void count_copy(const plan_entry_t *e, const plan_step_t *s,
                       const plan_env_t *env, uint64_t times,
                       plan_totals_t *out) {
  uint64_t bytes = amount(&e->buffers[s->buffers[0]].bytes, env);
  uint64_t all = mul_capped(times, bytes);
  out->written_bytes = add_capped(out->written_bytes, all);
  if (s->kind == PLAN_STEP_COPY) {
    out->read_bytes = add_capped(out->read_bytes, all);
  }
}

/* Trips of a loop, its variable left at the first value; a bound in a buffer
 * is not known here and counts as one trip. */
static bool count_trips(const plan_step_t *s, int64_t *vars,
                        uint64_t *times) {
  plan_env_t env = {vars, NULL};
  int64_t lo = 0, hi = 1;
  if (s->lo_buffer < 0 && !plan_eval(&s->lo, &env, &lo)) return false;
  vars[s->var] = lo;
  if (s->lo_buffer >= 0 || s->hi_buffer >= 0) return true;
  if (!plan_eval(&s->hi, &env, &hi)) return false;
  uint64_t trips = hi > lo ? (uint64_t)hi - (uint64_t)lo : 0;
  *times = mul_capped(*times, trips);
  return true;
}

/* Memory for one call: variables, the scalars of one launch, and the factor
 * of each open loop. */
static bool sum_steps(const plan_t *plan, const plan_entry_t *e,
                      td_arena_t *scratch, const int64_t *dims,
                      plan_totals_t *out) {
  int64_t *vars = TD_NEW_ARRAY(scratch, int64_t, e->var_count + 1);
  uint32_t most = 0;
  for (uint32_t i = 0; i < e->step_count; i++) {
    if (e->steps[i].scalar_count > most) most = e->steps[i].scalar_count;
  }
  int64_t *scalars = TD_NEW_ARRAY(scratch, int64_t, most + 1);
  for (uint32_t d = 0; d < e->dim_count; d++) vars[d] = dims[d];
  TD_VEC(uint64_t) outer = {0};
  uint64_t times = 1;
  plan_env_t env = {vars, NULL};
  for (uint32_t i = 0; i < e->step_count; i++) {
    const plan_step_t *s = &e->steps[i];
    if (s->kind == PLAN_STEP_LOOP) {
      td_vec_push(scratch, &outer, times);
      if (!count_trips(s, vars, &times)) return false;
    } else if (s->kind == PLAN_STEP_END) {
      times = td_vec_pop(&outer);
    } else if (times == 0) {
      continue;
    } else if (s->kind == PLAN_STEP_LAUNCH) {
      if (!count_launch(plan, s, &env, times, scalars, out)) return false;
    } else if (s->kind == PLAN_STEP_COPY || s->kind == PLAN_STEP_FILL) {
      count_copy(e, s, &env, times, out);
    }
  }
  out->arena_bytes = amount(&e->arena_bytes, &env);
  return true;
}

bool plan_ledger_sum(td_task_t *task, const plan_t *plan,
                     const plan_entry_t *entry, const int64_t *dims,
                     plan_totals_t *out) {
  memset(out, 0, sizeof *out);
  td_arena_t scratch;
  td_arena_init(&scratch, task);
  bool ok = sum_steps(plan, entry, &scratch, dims, out);
  td_arena_free_all(&scratch);
  return ok;
}

/* ---- memory -------------------------------------------------------------- */

/* One column a step, or a stretch of steps if there are many: `#` where the
 * buffer lives. */
static void put_chart(td_buf_t *out, const plan_entry_t *e,
                      const plan_buffer_t *b) {
  uint32_t columns = e->step_count < CHART ? e->step_count : CHART;
  for (uint32_t c = 0; c < columns; c++) {
    uint64_t from = (uint64_t)c * e->step_count / columns;
    uint64_t to = ((uint64_t)c + 1) * e->step_count / columns;
    bool lives = b->first_step < to && b->last_step >= from;
    td_buf_putc(out, lives ? '#' : '.');
  }
}

static void put_buffer(td_buf_t *out, const plan_entry_t *e, uint32_t number,
                       const plan_env_t *env) {
  const plan_buffer_t *b = &e->buffers[number];
  int64_t bytes = 0, offset = 0;
  (void)plan_eval(&b->bytes, env, &bytes);
  td_buf_printf(out, "%5u  ", number);
  if (b->place == PLAN_AT_SLOT) {
    td_buf_printf(out, "%12s", "slot");
  } else {
    (void)plan_eval(&b->offset, env, &offset);
    td_buf_printf(out, "%12lld", (long long)offset);
  }
  td_buf_printf(out, "  %12lld  %5u %5u  ", (long long)bytes, b->first_step,
                b->last_step);
  put_chart(out, e, b);
  td_buf_printf(out, "  %s: %s[", b->name, td_dtype_name(b->dtype));
  for (uint32_t d = 0; d < b->rank; d++) {
    if (d > 0) td_buf_puts(out, ", ");
    plan_print_expr(out, &b->dims[d], e->vars, e->var_count);
  }
  td_buf_puts(out, "]\n");
}

void plan_print_memory(td_buf_t *out, const plan_entry_t *e,
                       const int64_t *dims) {
  plan_env_t env = {dims, NULL};
  int64_t arena = 0;
  uint64_t separate = 0;
  (void)plan_eval(&e->arena_bytes, &env, &arena);
  for (uint32_t b = 0; b < e->buffer_count; b++) {
    if (e->buffers[b].place != PLAN_AT_ARENA) continue;
    separate = add_capped(separate, amount(&e->buffers[b].bytes, &env));
  }
  td_buf_printf(out, "entry %s", e->name);
  for (uint32_t d = 0; d < e->dim_count; d++) {
    td_buf_printf(out, "%s%s = %lld", d == 0 ? " at " : ", ", e->vars[d].name,
                  (long long)dims[d]);
  }
  td_buf_printf(out, ": arena of %lld bytes, %llu without reuse, %u steps\n",
                (long long)arena, (unsigned long long)separate,
                e->step_count);
  td_buf_puts(out, "    #        offset         bytes  first  last  steps\n");
  for (uint32_t b = 0; b < e->buffer_count; b++) put_buffer(out, e, b, &env);
}
