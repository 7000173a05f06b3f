/* report_large.c: W03, the values whose width the author never chose.
 *
 * A definition without a written type holds f32; where fusion could not
 * dissolve it and it is large, one annotation would halve what it costs.
 * Only sizes known when compiling are judged: a bound is no size. */
#include "passes/plan/planner.h"

/* Below this a value is not worth a line of anybody's attention. */
enum { LARGE_MIB = 64 };

static bool is_large(planner_t *p, const planner_life_t *l, int64_t *bytes) {
  const tir_value_t *v = l->value;
  if (v->is_written || v->is_kept || v->dtype != TDSL_DTYPE_F32 ||
      v->loc.line == 0) {
    return false;
  }
  uint32_t b = p->layout->value_buffer[v->id];
  if (b == PLANNER_NONE || p->layout->buffers[b].slot >= 0) return false;
  return ix_is_const(p->layout->buffers[b].bytes, bytes) &&
         *bytes >= (int64_t)LARGE_MIB * 1024 * 1024;
}

void planner_report_large(planner_t *p) {
  for (size_t i = 0; i < p->order.length; i++) {
    const planner_life_t *l = &p->lives[p->order.data[i]];
    int64_t bytes;
    if (!is_large(p, l, &bytes)) continue;
    td_diag_t *d = td_diag(p->task, TD_W03, l->value->loc,
                           "`%s` is materialised in %lld MiB of f32",
                           l->value->name, (long long)(bytes >> 20));
    td_diag_help(d, "write its type on the left, `: bf16` halves it");
  }
}
