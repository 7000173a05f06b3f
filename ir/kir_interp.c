/* kir_interp.c: runs one kernel as kir.h says; see kir_interp.h. */
#include "ir/kir_interp.h"

/* ---- control --------------------------------------------------------------*/

void kir_run_enter(kir_machine_t *m, const kir_step_t *s) {
  int64_t lo = *(const int64_t *)s->a;
  *(int64_t *)s->out = lo;
  if (lo >= *(const int64_t *)s->b) m->pc = s->jump;
}

void kir_run_next(kir_machine_t *m, const kir_step_t *s) {
  int64_t *var = s->out;
  if ((++m->turns & 0xffffu) == 0) td_task_poll(m->task);
  bool past = __builtin_add_overflow(*var, s->number, var);
  if (!past && *var < *(const int64_t *)s->b) m->pc = s->jump;
}

void kir_run_warp(kir_machine_t *m, const kir_step_t *s) {
  m->warp = (int16_t)*(const int64_t *)s->a;
}

void kir_run_next_warp(kir_machine_t *m, const kir_step_t *s) {
  int64_t *var = s->out;
  *var += s->number;
  if (*var != *(const int64_t *)s->b) m->pc = s->jump;
}

void kir_run_jump(kir_machine_t *m, const kir_step_t *s) {
  m->pc = s->jump;
}

void kir_run_jump_unless(kir_machine_t *m, const kir_step_t *s) {
  if (*(const uint8_t *)s->a == 0) m->pc = s->jump;
}

/* ---- block loops ----------------------------------------------------------*/

enum { MAX_NEST = 16 };

typedef struct nest {
  uint32_t depth;
  int64_t lo[MAX_NEST], step[MAX_NEST], trips[MAX_NEST];
  int64_t *vars[MAX_NEST];
  int64_t total;
} nest_t;

/* Bounds of block loops are constants or dims (kir_verify). */
static bool bound(const kir_code_t *c, const kir_expr_t *e, int64_t *out) {
  if (e->op == KIR_X_DIM) return kir_code_dim(c, e->u.dim, out);
  *out = e->u.i64;
  return e->op == KIR_X_CONST;
}

/* Variables, trip counts and the innermost body of the block loops. */
static const kir_block_t *open_nest(kir_code_t *c, nest_t *n) {
  const kir_block_t *body = &c->kernel->body;
  n->total = 1;
  while (body->length == 1 && body->data[0]->kind == KIR_LOOP &&
         body->data[0]->loop == KIR_LOOP_BLOCK) {
    const kir_stmt_t *s = body->data[0];
    int64_t lo = 0, hi = 0, span = 0;
    TD_CHECK(c->task, n->depth < MAX_NEST, "block loops nest too deep");
    if (!bound(c, s->lo, &lo) || !bound(c, s->hi, &hi)) c->failed = true;
    if (hi > lo && __builtin_sub_overflow(hi, lo, &span)) c->failed = true;
    uint32_t d = n->depth++;
    n->lo[d] = lo;
    n->step[d] = s->step;
    n->trips[d] = span <= 0 ? 0 : (span - 1) / s->step + 1;
    n->vars[d] = kir_code_register(c);
    c->vars[s->var->id] = (kir_value_t){n->vars[d], false};
    if (__builtin_mul_overflow(n->total, n->trips[d], &n->total)) {
      c->failed = true;
    }
    body = &s->body;
  }
  return body;
}

/* The innermost block loop moves fastest, as in emitted code. */
static void set_vars(const nest_t *n, int64_t number) {
  for (uint32_t d = n->depth; d > 0; d--) {
    *n->vars[d - 1] =
        n->lo[d - 1] + number % n->trips[d - 1] * n->step[d - 1];
    number /= n->trips[d - 1];
  }
}

/* Compiling takes milliseconds, so nothing is kept between calls: a program
 * holds the numbers of its dims. */
bool kir_interpret(td_task_t *task, const kir_kernel_t *kernel,
                   void *const *buffers, const int64_t *scalars, bool checks,
                   bool reversed) {
  td_arena_t arena;
  td_arena_init(&arena, task);
  kir_code_t c = {.task = task,
                  .arena = &arena,
                  .kernel = kernel,
                  .scalars = scalars,
                  .checks = checks,
                  .reversed = reversed};
  nest_t nest = {0};
  td_map_init(&c.constants, &arena);
  td_map_init(&c.wide_constants, &arena);
  td_map_init(&c.memories, &arena);
  td_map_init(&c.traits, &arena);
  td_map_init(&c.memo, &arena);
  c.vars = TD_NEW_ARRAY(&arena, kir_value_t, kernel->var_count + 1u);
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    (void)kir_code_memory(&c, kernel->params[i], buffers[i]);
  }
  const kir_block_t *body = open_nest(&c, &nest);
  kir_code_block(&c, body);
  if (c.failed) {
    td_arena_free_all(&arena);
    td_raise(task, TDSL_STATUS_LIMIT, "a dim of kernel %s has no value",
             kernel->name);
  }
  kir_machine_t m = {
      .task = task, .steps = c.steps.data, .checks = checks,
      .reversed = reversed, .arena = &arena,
      .warps = kir_warp_count(kernel)};
  TD_CHECK(task, m.warps <= KIR_WARPS, "%u warps", m.warps);
  for (int64_t i = 0; i < nest.total && !m.failed; i++) {
    set_vars(&nest, reversed ? nest.total - 1 - i : i);
    m.pc = 0;
    kir_begin_block(&m);
    while (m.pc < c.steps.length) {
      const kir_step_t *s = &m.steps[m.pc++];
      s->run(&m, s);
    }
    kir_end_block(&m);
    td_task_poll(task);
  }
  td_arena_free_all(&arena);
  return !m.failed;
}
