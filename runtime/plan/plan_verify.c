/* plan_verify.c: what every plan must satisfy, whoever made it.
 *
 * 1. Every index is in range, every expression is a well-formed program over
 *    the variables it may mention.
 * 2. Loops nest; a launch gives its kernel what the kernel takes; nothing
 *    writes an argument that is only read; no kernel writes a buffer that
 *    another of its parameters is.
 * 3. What is read was written before, on every path: writes inside a loop do
 *    not count behind it, since it may run zero times.
 * 4. The memory plan.  A buffer lives from its first use to its last; if it
 *    is used both inside and outside of a loop, it lives throughout the loop,
 *    for the next iteration may need it.  Two buffers of the arena that live
 *    at one step share no byte, at sampled dims.  Lives are computed here
 *    from the steps and must be those that the plan states.
 *
 * The planner shares nothing with this file. */
#include "runtime/plan/plan.h"

#include "runtime/base/num.h"
#include "runtime/base/rng.h"

#define NEVER UINT32_MAX
enum { SAMPLES = 40, ALIGNMENT = 64 };

typedef struct verifier {
  td_task_t *task;
  td_arena_t scratch;
  const plan_t *plan;
  const plan_entry_t *entry; /* NULL: not inside one */
  const char *stage;
  bool from_text, has_failed;
  uint32_t *first, *last;    /* by buffer: life; first NEVER: not used */
} verifier_t;

/* Only the first fault is told: what follows may be its echo. */
static void fail(verifier_t *v, const char *format, ...) TD_PRINTF(2, 3);

static void fail(verifier_t *v, const char *format, ...) {
  if (v->has_failed) return;
  v->has_failed = true;
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(&v->task->arena, format, args);
  va_end(args);
  const char *entry = v->entry != NULL ? v->entry->name : "plan";
  if (v->from_text) {
    td_diag(v->task, TD_F70, TD_NO_LOC, "%s: %s", entry, text);
    return;
  }
  v->task->stage = v->stage;
  TD_ICE(v->task, "plan of %s: %s", entry, text);
}

/* ---- expressions --------------------------------------------------------- */

/* What an expression may mention. */
typedef struct scope {
  uint32_t vars;         /* VAR below this */
  const bool *is_open;   /* by var: loop variables in force; NULL: none */
  uint32_t dims;         /* below this always in force */
  bool has_scalars;      /* conditions: SCALAR, REAL, FLOAT */
} scope_t;

static bool token_ok(verifier_t *v, const plan_token_t *t, const scope_t *s) {
  if (t->op == PLAN_X_VAR) {
    if (t->value < 0 || t->value >= (int64_t)s->vars) return false;
    if (t->value < (int64_t)s->dims) return true;
    return s->is_open != NULL && s->is_open[t->value];
  }
  if (t->op == PLAN_X_SCALAR) {
    const plan_entry_t *e = v->entry;
    return s->has_scalars && e != NULL && t->value >= 0 &&
           t->value < (int64_t)e->slot_count &&
           e->slots[t->value].rank == 0 && e->slots[t->value].kind != PLAN_OUT;
  }
  if (t->op == PLAN_X_REAL || t->op == PLAN_X_FLOAT) return s->has_scalars;
  return t->op < PLAN_X_COUNT;
}

static void check_expr(verifier_t *v, const plan_expr_t *e, const scope_t *s,
                       const char *what) {
  static const uint32_t pops[] = {
#define PLAN_EXPR(id, text, count, ...) count,
#include "runtime/plan/plan_ops.def"
  };
  uint32_t depth = 0;
  for (uint32_t i = 0; i < e->count; i++) {
    const plan_token_t *t = &e->tokens[i];
    if (!token_ok(v, t, s)) {
      fail(v, "%s mentions what it may not", what);
      return;
    }
    if (depth < pops[t->op] || depth - pops[t->op] >= PLAN_STACK) {
      fail(v, "%s is no expression", what);
      return;
    }
    depth = depth - pops[t->op] + 1;
  }
  if (e->count > 0 && depth != 1) fail(v, "%s is no expression", what);
}

static void check_dims(verifier_t *v, uint32_t rank, const plan_expr_t *dims,
                       const scope_t *s, const char *what) {
  if (rank > PLAN_MAX_RANK) {
    fail(v, "%s has rank %u", what, rank);
    return;
  }
  for (uint32_t d = 0; d < rank; d++) check_expr(v, &dims[d], s, what);
}

/* ---- tables -------------------------------------------------------------- */

static bool dtype_ok(tdsl_dtype_t dtype) {
  return td_dtype_bytes(dtype) > 0;
}

static void check_kernels(verifier_t *v) {
  for (uint32_t k = 0; k < v->plan->kernel_count; k++) {
    const plan_kernel_t *kernel = &v->plan->kernels[k];
    scope_t s = {.vars = kernel->scalar_count, .dims = kernel->scalar_count};
    if (kernel->module >= v->plan->module_count) {
      fail(v, "kernel %s is of module %u", kernel->name, kernel->module);
    }
    check_expr(v, &kernel->block_count, &s, "a block count");
    check_expr(v, &kernel->scratch_bytes, &s, "a scratch size");
    check_expr(v, &kernel->ledger.read_bytes, &s, "a ledger");
    check_expr(v, &kernel->ledger.written_bytes, &s, "a ledger");
    check_expr(v, &kernel->ledger.flops, &s, "a ledger");
  }
}

static void check_slot(verifier_t *v, uint32_t number) {
  const plan_entry_t *e = v->entry;
  const plan_slot_t *s = &e->slots[number];
  scope_t dims = {.vars = e->dim_count, .dims = e->dim_count};
  check_dims(v, s->rank, s->dims, &dims, s->name);
  if (!dtype_ok(s->dtype)) fail(v, "slot %s has no dtype", s->name);
  if (s->has_range) {
    check_expr(v, &s->lo, &dims, "a range");
    check_expr(v, &s->hi, &dims, "a range");
  }
  if (s->has_default && s->rank != 0) {
    fail(v, "slot %s has a default and rank %u", s->name, s->rank);
  }
  if (s->else_slot >= (int32_t)e->slot_count || s->else_slot < -1) {
    fail(v, "slot %s falls back to slot %d", s->name, s->else_slot);
  } else if (s->else_slot >= 0) {
    const plan_slot_t *o = &e->slots[s->else_slot];
    if (o->dtype != s->dtype || o->rank != s->rank || o->kind != PLAN_IN ||
        s->kind != PLAN_IN) {
      fail(v, "slot %s cannot fall back to %s", s->name, o->name);
    }
  }
  if (s->buffer >= e->buffer_count ||
      e->buffers[s->buffer].place != PLAN_AT_SLOT ||
      e->buffers[s->buffer].slot != number) {
    fail(v, "slot %s has no buffer of its own", s->name);
  }
}

static void check_buffer(verifier_t *v, uint32_t number) {
  const plan_entry_t *e = v->entry;
  const plan_buffer_t *b = &e->buffers[number];
  scope_t dims = {.vars = e->dim_count, .dims = e->dim_count};
  check_dims(v, b->rank, b->dims, &dims, b->name);
  check_expr(v, &b->bytes, &dims, b->name);
  if (!dtype_ok(b->dtype)) fail(v, "buffer %s has no dtype", b->name);
  if (b->place == PLAN_AT_ARENA) {
    check_expr(v, &b->offset, &dims, b->name);
    return;
  }
  /* slots may not overlap, so a slot is one buffer */
  if (b->slot >= e->slot_count || e->slots[b->slot].buffer != number) {
    fail(v, "buffer %s is not that of its slot", b->name);
  }
}

static void check_interface(verifier_t *v) {
  const plan_entry_t *e = v->entry;
  if (e->dim_count > e->var_count) fail(v, "more dims than variables");
  for (uint32_t i = 0; i < e->var_count && !v->has_failed; i++) {
    if (e->vars[i].is_loop != (i >= e->dim_count)) {
      fail(v, "variable %s is out of place", e->vars[i].name);
    }
  }
  for (uint32_t i = 0; i < e->slot_count && !v->has_failed; i++) {
    check_slot(v, i);
  }
  for (uint32_t i = 0; i < e->bind_count; i++) {
    const plan_bind_t *b = &e->binds[i];
    bool ok = b->var < e->dim_count && b->slot < e->slot_count &&
              b->dim < e->slots[b->slot].rank && b->scale > 0 &&
              e->slots[b->slot].kind != PLAN_OUT;
    if (!ok) fail(v, "bind %u is of nothing", i);
  }
  for (uint32_t i = 0; i < e->require_count; i++) {
    scope_t s = {.vars = e->dim_count, .dims = e->dim_count,
                 .has_scalars = true};
    check_expr(v, &e->requires[i].cond, &s, "a require");
  }
  for (uint32_t i = 0; i < e->buffer_count && !v->has_failed; i++) {
    check_buffer(v, i);
  }
  scope_t dims = {.vars = e->dim_count, .dims = e->dim_count};
  check_expr(v, &e->arena_bytes, &dims, "the arena's size");
}

/* ---- steps --------------------------------------------------------------- */

typedef struct walk {
  bool *is_open;                /* by var */
  TD_VEC(uint32_t) loops;       /* open ones */
  bool *is_written;             /* by buffer */
  bool *is_once;                /* by buffer: a launch to be made once did */
  TD_VEC(bool *) saved;         /* is_written at each open loop's head */
} walk_t;

static void check_read(verifier_t *v, const walk_t *w, uint32_t buffer,
                       uint32_t at) {
  if (w->is_written[buffer]) return;
  fail(v, "step %u reads %s, which was not written", at,
       v->entry->buffers[buffer].name);
}

static void note_write(verifier_t *v, walk_t *w, uint32_t buffer,
                       uint32_t at) {
  const plan_buffer_t *b = &v->entry->buffers[buffer];
  if (b->place == PLAN_AT_SLOT &&
      v->entry->slots[b->slot].kind == PLAN_IN) {
    fail(v, "step %u writes the argument %s", at, b->name);
  }
  if (w->is_once[buffer]) fail(v, "step %u writes %s again", at, b->name);
  w->is_written[buffer] = true;
}

/* What is made once is made of weights, by this step alone. */
static void check_once(verifier_t *v, const walk_t *w, uint32_t at) {
  const plan_entry_t *e = v->entry;
  const plan_step_t *s = &e->steps[at];
  const plan_kernel_t *k = &v->plan->kernels[s->kernel];
  bool ok = s->scalar_count == 0 && w->loops.length == 0;
  for (uint32_t i = 0; i < s->buffer_count; i++) {
    uint32_t b = s->buffers[i];
    const plan_buffer_t *buffer = &e->buffers[b];
    if (k->is_written[i]) {
      ok &= !k->is_read[i] && buffer->place == PLAN_AT_ARENA &&
            !w->is_written[b];
    } else if (buffer->place == PLAN_AT_SLOT) {
      const plan_slot_t *slot = &e->slots[buffer->slot];
      ok &= slot->is_weight && slot->kind == PLAN_IN;
    } else {
      ok &= w->is_once[b];
    }
  }
  if (!ok) fail(v, "step %u is no launch to be made once", at);
}

static void check_launch(verifier_t *v, walk_t *w, uint32_t at) {
  const plan_step_t *s = &v->entry->steps[at];
  if (s->kernel >= v->plan->kernel_count) {
    fail(v, "step %u launches kernel %u", at, s->kernel);
    return;
  }
  const plan_kernel_t *k = &v->plan->kernels[s->kernel];
  if (s->buffer_count != k->buffer_count ||
      s->scalar_count != k->scalar_count) {
    fail(v, "step %u gives %s %u buffers and %u scalars", at, k->name,
         s->buffer_count, s->scalar_count);
    return;
  }
  for (uint32_t i = 0; i < s->buffer_count; i++) {
    if (k->is_read[i]) check_read(v, w, s->buffers[i], at);
    for (uint32_t j = 0; j < i; j++) {
      bool writes = k->is_written[i] || k->is_written[j];
      if (writes && s->buffers[i] == s->buffers[j]) {
        fail(v, "step %u gives %s one buffer twice", at, k->name);
      }
    }
  }
  if (s->is_once) check_once(v, w, at);
  for (uint32_t i = 0; i < s->buffer_count; i++) {
    if (!k->is_written[i]) continue;
    note_write(v, w, s->buffers[i], at);
    w->is_once[s->buffers[i]] |= s->is_once;
  }
}

static void check_single(verifier_t *v, walk_t *w, uint32_t at,
                         uint32_t least, uint32_t most) {
  const plan_step_t *s = &v->entry->steps[at];
  if (s->buffer_count < least || s->buffer_count > most) {
    fail(v, "step %u has %u buffers", at, s->buffer_count);
    return;
  }
  if (s->kind == PLAN_STEP_COPY) {
    if (s->buffers[0] == s->buffers[1]) fail(v, "step %u copies in place", at);
    check_read(v, w, s->buffers[1], at);
    note_write(v, w, s->buffers[0], at);
  } else if (s->kind == PLAN_STEP_FILL) {
    note_write(v, w, s->buffers[0], at);
  } else {
    for (uint32_t i = 0; i < s->buffer_count; i++) {
      check_read(v, w, s->buffers[i], at);
    }
    const plan_buffer_t *b = &v->entry->buffers[s->buffers[0]];
    tdsl_dtype_t want = s->kind == PLAN_STEP_ASSERT ? TDSL_DTYPE_BOOL
                                                    : TDSL_DTYPE_I64;
    if (b->rank != 0 || b->dtype != want) {
      fail(v, "step %u tests %s", at, b->name);
    }
  }
}

static void open_loop(verifier_t *v, walk_t *w, uint32_t at) {
  const plan_entry_t *e = v->entry;
  const plan_step_t *s = &e->steps[at];
  bool ok = s->var < e->var_count && s->var >= e->dim_count &&
            !w->is_open[s->var] && s->other > at && s->other < e->step_count &&
            e->steps[s->other].kind == PLAN_STEP_END &&
            e->steps[s->other].other == at;
  if (!ok) {
    fail(v, "step %u opens no loop", at);
    return;
  }
  scope_t scope = {e->var_count, w->is_open, e->dim_count, false};
  const int32_t buffers[2] = {s->lo_buffer, s->hi_buffer};
  const plan_expr_t *exprs[2] = {&s->lo, &s->hi};
  for (int i = 0; i < 2; i++) {
    if (buffers[i] < 0) {
      check_expr(v, exprs[i], &scope, "a loop bound");
    } else if (buffers[i] >= (int32_t)e->buffer_count ||
               !td_dtype_is_int(e->buffers[buffers[i]].dtype)) {
      fail(v, "step %u has its bound in buffer %d", at, buffers[i]);
    } else {
      check_read(v, w, (uint32_t)buffers[i], at);
    }
  }
  bool *saved = TD_NEW_ARRAY(&v->scratch, bool, e->buffer_count + 1);
  memcpy(saved, w->is_written, e->buffer_count * sizeof *saved);
  td_vec_push(&v->scratch, &w->saved, saved);
  td_vec_push(&v->scratch, &w->loops, at);
  w->is_open[s->var] = true;
}

static void close_loop(verifier_t *v, walk_t *w, uint32_t at) {
  const plan_entry_t *e = v->entry;
  if (w->loops.length == 0 || td_vec_last(&w->loops) != e->steps[at].other) {
    fail(v, "step %u closes no loop", at);
    return;
  }
  uint32_t head = td_vec_pop(&w->loops);
  bool *saved = td_vec_pop(&w->saved);
  memcpy(w->is_written, saved, e->buffer_count * sizeof *saved);
  w->is_open[e->steps[head].var] = false;
}

static void check_step(verifier_t *v, walk_t *w, uint32_t at) {
  const plan_entry_t *e = v->entry;
  const plan_step_t *s = &e->steps[at];
  scope_t scope = {e->var_count, w->is_open, e->dim_count, false};
  for (uint32_t i = 0; i < s->buffer_count; i++) {
    if (s->buffers[i] >= e->buffer_count) {
      fail(v, "step %u uses buffer %u", at, s->buffers[i]);
      return;
    }
  }
  for (uint32_t i = 0; i < s->scalar_count; i++) {
    check_expr(v, &s->scalars[i], &scope, "a scalar of a launch");
  }
  if (v->has_failed) return;
  switch (s->kind) {
    case PLAN_STEP_LAUNCH: check_launch(v, w, at); break;
    case PLAN_STEP_COPY: check_single(v, w, at, 2, 2); break;
    case PLAN_STEP_FILL: check_single(v, w, at, 1, 1); break;
    case PLAN_STEP_ASSERT: check_single(v, w, at, 1, 3); break;
    case PLAN_STEP_CHECK: check_single(v, w, at, 1, 1); break;
    case PLAN_STEP_LOOP: open_loop(v, w, at); break;
    case PLAN_STEP_END: close_loop(v, w, at); break;
    case PLAN_STEP_COUNT: fail(v, "step %u is none", at); break;
  }
}

/* Whether the buffer has no element at any dims: nothing writes or reads it,
 * and the steps that would are left out of the plan. */
static bool is_always_empty(const plan_buffer_t *b) {
  for (uint32_t i = 0; i < b->bytes.count; i++) {
    plan_x_t op = b->bytes.tokens[i].op;
    if (op == PLAN_X_VAR || op == PLAN_X_SCALAR) return false;
  }
  const plan_env_t none = {NULL, NULL};
  int64_t bytes = 0;
  return plan_eval(&b->bytes, &none, &bytes) && bytes == 0;
}

static void check_steps(verifier_t *v) {
  const plan_entry_t *e = v->entry;
  walk_t w = {0};
  w.is_open = TD_NEW_ARRAY(&v->scratch, bool, e->var_count + 1);
  w.is_written = TD_NEW_ARRAY(&v->scratch, bool, e->buffer_count + 1);
  w.is_once = TD_NEW_ARRAY(&v->scratch, bool, e->buffer_count + 1);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (e->slots[s].kind != PLAN_OUT) w.is_written[e->slots[s].buffer] = true;
  }
  for (uint32_t b = 0; b < e->buffer_count; b++) {
    if (is_always_empty(&e->buffers[b])) w.is_written[b] = true;
  }
  for (uint32_t i = 0; i < e->step_count && !v->has_failed; i++) {
    check_step(v, &w, i);
  }
  if (w.loops.length > 0) fail(v, "a loop is not closed");
  for (uint32_t s = 0; s < e->slot_count; s++) {
    if (!w.is_written[e->slots[s].buffer]) {
      fail(v, "result %s is not written", e->slots[s].name);
    }
  }
}

/* ---- lives --------------------------------------------------------------- */

static void note_use(verifier_t *v, uint32_t buffer, uint32_t at) {
  if (v->first[buffer] == NEVER) v->first[buffer] = at;
  v->last[buffer] = at;
}

/* Inner loops first, for a life that was widened to an inner loop may then
 * cross the border of an outer one no less than before. */
static void find_lives(verifier_t *v) {
  const plan_entry_t *e = v->entry;
  v->first = TD_NEW_ARRAY(&v->scratch, uint32_t, e->buffer_count + 1);
  v->last = TD_NEW_ARRAY(&v->scratch, uint32_t, e->buffer_count + 1);
  for (uint32_t b = 0; b < e->buffer_count; b++) v->first[b] = NEVER;
  for (uint32_t i = 0; i < e->step_count; i++) {
    const plan_step_t *s = &e->steps[i];
    for (uint32_t k = 0; k < s->buffer_count; k++) {
      note_use(v, s->buffers[k], i);
    }
    if (s->kind != PLAN_STEP_LOOP) continue;
    if (s->lo_buffer >= 0) note_use(v, (uint32_t)s->lo_buffer, i);
    if (s->hi_buffer >= 0) note_use(v, (uint32_t)s->hi_buffer, i);
  }
  for (uint32_t end = 0; end < e->step_count; end++) {
    if (e->steps[end].kind != PLAN_STEP_END) continue;
    uint32_t head = e->steps[end].other;
    for (uint32_t b = 0; b < e->buffer_count; b++) {
      if (v->first[b] == NEVER) continue;
      bool before = v->first[b] <= head, after = v->last[b] > end;
      bool inside = v->last[b] > head && v->first[b] < end;
      if (inside && before && v->last[b] < end) v->last[b] = end;
      if (inside && after && v->first[b] > head) v->first[b] = head;
    }
  }
  for (uint32_t i = 0; i < e->step_count; i++) {
    const plan_step_t *s = &e->steps[i];
    const plan_kernel_t *k = &v->plan->kernels[s->kernel];
    for (uint32_t n = 0; s->is_once && n < s->buffer_count; n++) {
      if (!k->is_written[n]) continue;
      v->first[s->buffers[n]] = 0;
      v->last[s->buffers[n]] = e->step_count - 1;
    }
  }
  for (uint32_t b = 0; b < e->buffer_count; b++) {
    bool is_used = v->first[b] != NEVER;
    uint32_t first = is_used ? v->first[b] : 0, last = is_used ? v->last[b] : 0;
    if (e->buffers[b].first_step == first && e->buffers[b].last_step == last) {
      continue;
    }
    fail(v, "%s lives from step %u to %u, not from %u to %u",
         e->buffers[b].name, first, last, e->buffers[b].first_step,
         e->buffers[b].last_step);
  }
}

/* ---- the memory plan at given dims --------------------------------------- */

/* Dims of sample n: all equal at first, then mixes. */
static void sample_dims(const plan_entry_t *e, int n, int64_t *dims) {
  static const int64_t values[] = {1, 0, 2, 3, 5, 64, 77, 1000, 4097};
  int plain = (int)(sizeof values / sizeof values[0]);
  for (uint32_t d = 0; d < e->dim_count; d++) {
    int64_t bound = e->vars[d].bound;
    int64_t counters[2] = {n, d};
    double r = (double)td_uniform(7, counters, 2);
    int64_t x;
    if (n < plain) {
      x = values[n];
    } else if (n == plain) {
      x = bound;
    } else if (r < 0.6) {
      x = values[(int)(r / 0.6 * plain) % plain];
    } else {
      x = (int64_t)((r - 0.6) / 0.4 * (double)(bound < 100000 ? bound
                                                              : 100000));
    }
    dims[d] = x > bound ? bound : x;
  }
}

/* Dims that no call could have prove nothing: negative extents, a require
 * over dims that fails, sizes beyond 64 bits. */
static bool is_possible(const plan_entry_t *e, const plan_env_t *env,
                        int64_t *bytes) {
  int64_t n;
  plan_number_t cond;
  for (uint32_t r = 0; r < e->require_count; r++) {
    if (plan_eval_number(&e->requires[r].cond, env, &cond) &&
        !(cond.is_real ? cond.r != 0 : cond.i != 0)) {
      return false;
    }
  }
  for (uint32_t s = 0; s < e->slot_count; s++) {
    for (uint32_t d = 0; d < e->slots[s].rank; d++) {
      if (!plan_eval(&e->slots[s].dims[d], env, &n) || n < 0) return false;
    }
  }
  for (uint32_t b = 0; b < e->buffer_count; b++) {
    const plan_buffer_t *buffer = &e->buffers[b];
    bytes[b] = (int64_t)td_dtype_bytes(buffer->dtype);
    bool is_empty = false;
    for (uint32_t d = 0; d < buffer->rank; d++) {
      if (!plan_eval(&buffer->dims[d], env, &n) || n < 0) return false;
      is_empty |= n == 0;
      if (!is_empty && __builtin_mul_overflow(bytes[b], n, &bytes[b])) {
        return false;
      }
    }
    if (is_empty) bytes[b] = 0;
  }
  return plan_eval(&e->arena_bytes, env, &n);
}

static bool live_together(const verifier_t *v, uint32_t a, uint32_t b) {
  return v->first[a] != NEVER && v->first[b] != NEVER &&
         v->first[a] <= v->last[b] && v->first[b] <= v->last[a];
}

static void check_sizes(verifier_t *v, const plan_env_t *env,
                        const int64_t *bytes, int64_t *offsets) {
  const plan_entry_t *e = v->entry;
  int64_t arena = 0, n;
  (void)plan_eval(&e->arena_bytes, env, &arena);
  for (uint32_t b = 0; b < e->buffer_count; b++) {
    const plan_buffer_t *buffer = &e->buffers[b];
    if (!plan_eval(&buffer->bytes, env, &n) || n != bytes[b]) {
      fail(v, "%s is stated to have %lld bytes, not %lld", buffer->name,
           (long long)n, (long long)bytes[b]);
    }
    if (buffer->place != PLAN_AT_ARENA) continue;
    int64_t end;
    if (!plan_eval(&buffer->offset, env, &offsets[b]) || offsets[b] < 0 ||
        offsets[b] % ALIGNMENT != 0) {
      fail(v, "%s is at offset %lld", buffer->name, (long long)offsets[b]);
    } else if (__builtin_add_overflow(offsets[b], bytes[b], &end) ||
               end > arena) {
      fail(v, "%s ends behind the arena of %lld bytes", buffer->name,
           (long long)arena);
    }
  }
}

static void check_overlaps(verifier_t *v, const int64_t *bytes,
                           const int64_t *offsets) {
  const plan_entry_t *e = v->entry;
  for (uint32_t a = 0; a < e->buffer_count; a++) {
    if (e->buffers[a].place != PLAN_AT_ARENA || bytes[a] == 0) continue;
    for (uint32_t b = 0; b < a; b++) {
      if (e->buffers[b].place != PLAN_AT_ARENA || bytes[b] == 0) continue;
      if (offsets[a] >= offsets[b] + bytes[b] ||
          offsets[b] >= offsets[a] + bytes[a]) {
        continue;
      }
      if (!live_together(v, a, b)) continue;
      fail(v, "%s and %s share memory and live at one step",
           e->buffers[b].name, e->buffers[a].name);
      return;
    }
  }
}

static void check_copies(verifier_t *v, const int64_t *bytes) {
  const plan_entry_t *e = v->entry;
  for (uint32_t i = 0; i < e->step_count; i++) {
    const plan_step_t *s = &e->steps[i];
    if (s->kind != PLAN_STEP_COPY) continue;
    if (bytes[s->buffers[0]] != bytes[s->buffers[1]]) {
      fail(v, "step %u copies %s to %s, which has another size", i,
           e->buffers[s->buffers[1]].name, e->buffers[s->buffers[0]].name);
    }
  }
}

static void check_memory(verifier_t *v) {
  const plan_entry_t *e = v->entry;
  int64_t *dims = TD_NEW_ARRAY(&v->scratch, int64_t, e->var_count + 1);
  int64_t *bytes = TD_NEW_ARRAY(&v->scratch, int64_t, e->buffer_count + 1);
  int64_t *offsets = TD_NEW_ARRAY(&v->scratch, int64_t, e->buffer_count + 1);
  int samples = e->dim_count == 0 ? 1 : SAMPLES;
  for (int n = 0; n < samples && !v->has_failed; n++) {
    sample_dims(e, n, dims);
    plan_env_t env = {dims, NULL};
    if (!is_possible(e, &env, bytes)) continue;
    check_sizes(v, &env, bytes, offsets);
    if (!v->has_failed) check_overlaps(v, bytes, offsets);
    if (!v->has_failed) check_copies(v, bytes);
  }
}

bool plan_verify(td_task_t *task, const plan_t *plan, const char *stage,
                 bool from_text) {
  verifier_t v = {.task = task, .plan = plan, .stage = stage,
                  .from_text = from_text};
  td_arena_init(&v.scratch, task);
  check_kernels(&v);
  for (uint32_t i = 0; i < plan->entry_count && !v.has_failed; i++) {
    v.entry = &plan->entries[i];
    check_interface(&v);
    if (!v.has_failed) check_steps(&v);
    if (!v.has_failed) find_lives(&v);
    if (!v.has_failed) check_memory(&v);
  }
  td_arena_free_all(&v.scratch);
  return !v.has_failed;
}
