/* lower.c: entry points.
 *
 * A module holds one function for each entry asked for; each is lowered on
 * its own, from its parameters' slots to its results' slots, so two entries
 * share nothing but the pool of polynomials. */
#include "frontend/lower_impl.h"

/* Layouts and collectives come with a mesh; a mesh of one device is none. */
static bool refuse_mesh(td_task_t *task, const sem_program_t *program,
                        const sem_func_t *func) {
  for (uint32_t i = 0; i < program->axis_count; i++) {
    if (program->axis_sizes[i] <= 1) continue;
    td_diag_t *d = td_diag(task, TD_B01, func->loc,
                           "this version cannot compile for a mesh: axis "
                           "%s has size %lld",
                           program->axis_names[i],
                           (long long)program->axis_sizes[i]);
    td_diag_help(d, "--mesh none");
    return true;
  }
  return false;
}

/* lhs OP rhs over dims, and conjunctions of such, as facts p >= 0. */
static void assume(lo_t *lo, const sem_expr_t *cond) {
  for (; cond->kind == SEM_BINARY && cond->op == SEM_OP_AND;
       cond = cond->args[0])
    assume(lo, cond->args[1]);
  if (cond->kind != SEM_BINARY) return;
  const ix_poly_t *a = cond->args[0]->poly, *b = cond->args[1]->poly;
  const ix_poly_t *one = ix_const(lo->pool, 1), *fact = NULL;
  if (a == NULL || b == NULL) return;
  if (cond->op == SEM_OP_LE) fact = ix_sub(lo->pool, b, a);
  if (cond->op == SEM_OP_GE) fact = ix_sub(lo->pool, a, b);
  if (cond->op == SEM_OP_LT)
    fact = ix_sub(lo->pool, ix_sub(lo->pool, b, a), one);
  if (cond->op == SEM_OP_GT)
    fact = ix_sub(lo->pool, ix_sub(lo->pool, a, b), one);
  if (fact != NULL) ix_facts_add(lo->facts, fact);
}

/* The facts serve one purpose here: to see that an extent such as S - T is
 * not negative, so that no max(S - T, 0) clutters the dims made of it. */
static void assume_all(lo_t *lo, uint32_t count, const sem_require_t *list) {
  for (uint32_t i = 0; i < count; i++) assume(lo, list[i].cond);
}

/* One entry point.  Requires come before the body, while nothing has been
 * emitted: their expressions read parameters only.  Result slots come last,
 * because they take the values that the body has left. */
static tir_func_t *lower_func(lo_t *lo, const sem_func_t *func) {
  tir_func_t *out = TD_NEW(lo->arena, tir_func_t);
  lo_frame_t *frame = TD_NEW(lo->arena, lo_frame_t);
  frame->func = func;
  frame->is_tf32 = func->is_tf32;
  frame->is_approx = func->is_approx;
  td_map_init(&frame->symbols, lo->arena);
  td_map_init(&frame->indices, lo->arena);
  out->name = func->name;
  out->loc = func->loc;
  out->is_test = func->is_test;
  lo->func = out;
  lo->frame = frame;
  lo->block = &out->nodes;
  lo->guard = NULL;
  lo->name = func->name;
  lo->active.length = 0;
  lo->node_count = lo->nesting = 0;
  lo->slots.data = NULL;
  lo->slots.length = lo->slots.capacity = 0;

  size_t mark = ix_facts_mark(lo->facts);
  assume_all(lo, lo->program->require_count, lo->program->requires);
  assume_all(lo, func->require_count, func->requires);
  lo_param_slots(lo, func);
  lo_requires(lo, func);
  lo_block(lo, func->body);
  lo_result_slots(lo, func);
  out->slot_count = (uint32_t)lo->slots.length;
  out->slots = lo->slots.data;
  lo_func_dims(lo, func);
  ix_facts_release(lo->facts, mark);
  tir_renumber(out);
  return out;
}

/* Lowering refuses by unwinding: what follows a refusal in the same function
 * would only be reported because of it. */
typedef struct job {
  td_arena_t *arena;
  const sem_program_t *program;
  uint32_t count;
  const sem_func_t *const *funcs;
  tir_module_t *module;
} job_t;

static void work(td_task_t *task, void *arg) {
  job_t *job = arg;
  tir_module_t *module = TD_NEW(job->arena, tir_module_t);
  module->arena = job->arena;
  module->pool = job->program->pool;
  lo_t lo = {.task = task,
             .arena = job->arena,
             .program = job->program,
             .module = module,
             .pool = module->pool,
             .facts = ix_facts_create(module->pool)};
  for (uint32_t i = 0; i < job->count; i++) {
    if (refuse_mesh(task, job->program, job->funcs[i])) return;
    tir_module_add(module, lower_func(&lo, job->funcs[i]));
  }
  job->module = module;
}

tir_module_t *lower_funcs(td_task_t *task, td_arena_t *arena,
                          const sem_program_t *program, uint32_t count,
                          const sem_func_t *const *funcs) {
  job_t job = {.arena = arena,
               .program = program,
               .count = count,
               .funcs = funcs};
  const char *outer_stage = task->stage;
  uint32_t before = td_task_errors(task);
  task->stage = "lower";
  tdsl_status_t status = td_task_run(task, work, &job);
  task->stage = outer_stage;
  /* A refusal has said why; anything else goes on unwinding. */
  if (status != TDSL_STATUS_OK && td_task_errors(task) == before) {
    const char *text = td_arena_strdup(&task->arena, task->message);
    td_raise(task, status, "%s", text);
  }
  return td_task_errors(task) == before ? job.module : NULL;
}

tir_module_t *lower_program(td_task_t *task, td_arena_t *arena,
                            const sem_program_t *program,
                            const sem_func_t *entry) {
  if (entry != NULL) return lower_funcs(task, arena, program, 1, &entry);
  TD_VEC(const sem_func_t *) funcs = {0};
  for (uint32_t i = 0; i < program->func_count; i++)
    if (program->funcs[i]->is_exported || program->funcs[i]->is_test)
      td_vec_push(arena, &funcs, program->funcs[i]);
  return lower_funcs(task, arena, program, (uint32_t)funcs.length,
                     funcs.data);
}
