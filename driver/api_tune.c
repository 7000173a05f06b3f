/* api_tune.c: a search for the sizes of tiles, group by group: a group has
 * one kernel, or on a GPU those that share its work out (contraction_split.c),
 * whose times are added.
 *
 * 1. The entry is compiled once with a tuning text that has no rows: its
 *    groups and their keys are known then, and its results are what every
 *    other form has to give, bit for bit.
 * 2. A step changes one size of every group at a time (groups do not meet),
 *    compiles, and runs the best form so far and the new one in turn.  A
 *    group takes the new size if its fastest run is faster by MARGIN.
 * 3. At the end the first and the best form run against each other once
 *    more; rows that gain less than MARGIN there are dropped.
 *
 * Forms whose text did not change are not judged. */
#include "driver/api_measure.h"
#include "driver/api_tuning.h"

#include "ir/target.h"

enum { DEFAULT_REPEAT = 7, MOST_REPEAT = 1000 };
static const double margin = 0.97;

/* A form of the program, ready to run with the arguments of the host's run. */
typedef struct form {
  tdsl_program_t *program;
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  drv_samples_t *samples;
} form_t;

/* What a run left in one slot of the host's or of its own memory. */
typedef struct kept {
  char *data;  /* NULL: nothing is written there */
  size_t bytes;
} kept_t;

typedef struct tune {
  tdsl_run_t *run; /* the host's */
  const ir_target_t *target;
  uint32_t group_count, slot_count, repeat, tried, kept_count;
  const cg_key_t *keys;   /* by group, of the first form */
  pass_sizes_t *best;     /* by group */
  pass_sizes_t *next;
  bool *changed;          /* by group: the step applies to it */
  double *gain;           /* by group, of the last comparison */
  form_t forms[3];        /* first, best, new */
  kept_t *before;         /* state, by slot */
  kept_t *wanted;         /* results and state of the first form */
  drv_tuned_list_t rows;  /* of the file, then with ours */
  td_arena_t *arena;
  td_task_t *task;
  const char *path;
  bool is_ending;         /* nothing may be raised */
  tdsl_text_fn_t text;
  void *user;
} tune_t;

enum { FIRST, BEST, NEW };

/* ---- forms --------------------------------------------------------------- */

static void close_form(tune_t *t, int which) {
  form_t *f = &t->forms[which];
  if (f->samples != NULL) drv_samples_destroy(f->run, f->samples, t->repeat);
  tdsl_run_destroy(f->run);
  tdsl_executable_release(f->exe);
  tdsl_program_release(f->program);
  memset(f, 0, sizeof *f);
}

static void must(tune_t *t, tdsl_status_t status, tdsl_error_t *error) {
  if (status == TDSL_STATUS_OK) return;
  tdsl_string_t words = tdsl_error_get_message(error);
  const char *text = td_str_cstr(t->arena, words);
  tdsl_error_release(error);
  td_raise(t->task, status, "%s", text);
}

static void set_arguments(tune_t *t, tdsl_run_t *run) {
  tdsl_error_t *error = NULL;
  for (uint32_t s = 0; s < t->slot_count; s++) {
    const drv_arg_t *arg = &t->run->args[s];
    tdsl_buffer_t *const *weights = t->run->exe->weights;
    tdsl_buffer_t *b = arg->buffer;
    if (b == NULL && !arg->is_value && weights != NULL) b = weights[s];
    if (b != NULL) {
      must(t, tdsl_run_set_buffer(run, s, b, &error), error);
    } else if (arg->is_value) {
      run->args[s] = *arg;
    }
  }
}

/* By group; NULL: no other sizes. */
static void open_form(tune_t *t, int which, const pass_sizes_t *sizes) {
  static const pass_sizes_t none = {0};
  tdsl_program_t *p = t->run->exe->program;
  form_t *f = &t->forms[which];
  drv_tuned_list_t rows = {0};
  tdsl_error_t *error = NULL;
  tdsl_compile_desc_t desc = p->desc;
  for (uint32_t g = 0; sizes != NULL && g < t->group_count; g++) {
    drv_tuned_t row = {.key = t->keys[g], .target = t->target->name,
                       .sizes = sizes[g], .kernel = "k"};
    bool is_any = memcmp(&sizes[g], &none, sizeof none) != 0;
    if (is_any) td_vec_push(t->arena, &rows, row);
  }
  td_buf_t text;
  td_buf_init(&text, t->task);
  drv_tuning_print(&text, t->arena, &rows);
  size_t n = text.length;
  desc.tuning_text = td_str_n(td_buf_finish(&text, t->arena), n);
  desc.entry = p->entries[t->run->exe->index].name;
  must(t, drv_program_create(p->context, &desc, p, &f->program, &error),
       error);
  must(t, tdsl_executable_create(f->program,
                                 tdsl_program_get_entry(f->program, 0),
                                 &f->exe, &error), error);
  must(t, tdsl_run_create(f->exe, &f->run, &error), error);
  must(t, tdsl_run_set_trace(f->run, 1, &error), error);
  set_arguments(t, f->run);
  f->samples = drv_samples_create(f->run, t->repeat);
  if (f->samples == NULL) {
    td_raise(t->task, TDSL_STATUS_OUT_OF_MEMORY, "out of memory");
  }
}

/* ---- results ------------------------------------------------------------- */

/* What the library may read and write of it now, wherever it was. NULL: the
 * device failed and the search is at its end. */
static char *contents(tune_t *t, tdsl_buffer_t *b) {
  char *data = drv_buffer_open(b);
  if (data == NULL && !t->is_ending) {
    td_raise(t->task, TDSL_STATUS_INTERNAL,
             "contents of a buffer cannot be read back");
  }
  return data;
}

static void copy_state(tune_t *t, bool back) {
  const plan_entry_t *e = &t->forms[FIRST].program->plans[0];
  for (uint32_t s = 0; s < t->slot_count; s++) {
    if (e->slots[s].kind != PLAN_INOUT) continue;
    tdsl_buffer_t *b = t->run->args[s].buffer;
    if (b == NULL) b = t->run->exe->weights != NULL
                           ? t->run->exe->weights[s] : NULL;
    if (b == NULL || b->bytes == 0) continue;
    kept_t *k = &t->before[s];
    if (k->data != NULL && !back) continue;
    char *data = contents(t, b);
    if (data == NULL) continue;
    if (k->data != NULL) {
      memcpy(data, k->data, k->bytes);
      continue;
    }
    k->bytes = b->bytes;
    k->data = td_arena_alloc(t->arena, b->bytes);
    memcpy(k->data, data, b->bytes);
  }
}

static void run_once(tune_t *t, int which) {
  tdsl_error_t *error = NULL;
  copy_state(t, true);
  must(t, drv_samples_take(t->forms[which].run, t->forms[which].samples,
                           &error), error);
}

/* Keeps what the first form has made; later ones are compared with it. */
static void check_results(tune_t *t, int which) {
  tdsl_run_t *run = t->forms[which].run;
  const plan_entry_t *e = &t->forms[which].program->plans[0];
  for (uint32_t s = 0; s < t->slot_count; s++) {
    if (e->slots[s].kind == PLAN_IN) continue;
    tdsl_buffer_t *b = tdsl_run_get_buffer(run, s);
    kept_t *k = &t->wanted[s];
    if (b == NULL || b->bytes == 0) continue;
    if (which == FIRST) {
      k->bytes = b->bytes;
      k->data = td_arena_alloc(t->arena, b->bytes);
      memcpy(k->data, contents(t, b), b->bytes);
    } else if (b->bytes != k->bytes ||
               memcmp(contents(t, b), k->data, k->bytes) != 0) {
      TD_ICE(t->task, "other tiles gave other bits in %s", e->slots[s].name);
    }
  }
}

/* ---- one step ------------------------------------------------------------ */

/* Kernels of a group in a form: from, and the one behind the last. */
typedef struct range {
  uint32_t from, to;
} range_t;

static range_t kernels_of(const tune_t *t, int which, uint32_t g) {
  const tdsl_program_t *p = t->forms[which].program;
  bool is_last = g + 1 == t->group_count;
  return (range_t){p->tuning->firsts.data[g],
                   is_last ? p->plan->kernel_count
                           : p->tuning->firsts.data[g + 1]};
}

static bool is_other(const tune_t *t, int a, int b, uint32_t g) {
  range_t in_a = kernels_of(t, a, g), in_b = kernels_of(t, b, g);
  bool is_same = in_a.to - in_a.from == in_b.to - in_b.from;
  for (uint32_t k = 0; is_same && k < in_a.to - in_a.from; k++) {
    is_same = strcmp(t->forms[a].program->plan->kernels[in_a.from + k].symbol,
                     t->forms[b].program->plan->kernels[in_b.from + k]
                         .symbol) == 0;
  }
  return !is_same;
}

/* Which groups are others in the new form; false: none. */
static bool find_changed(tune_t *t, int than) {
  bool any = false;
  TD_CHECK(t->task,
           t->forms[NEW].program->tuning->keys.length == t->group_count,
           "other sizes made other groups");
  for (uint32_t g = 0; g < t->group_count; g++) {
    t->changed[g] = is_other(t, than, NEW, g);
    any |= t->changed[g];
  }
  return any;
}

/* Seconds of a group in its fastest run. */
static double least_of(const tune_t *t, int which, uint32_t g) {
  const form_t *f = &t->forms[which];
  range_t in = kernels_of(t, which, g);
  double least = 0;
  for (uint32_t i = 0; i < t->repeat; i++) {
    double sum = 0;
    for (uint32_t k = in.from; k < in.to; k++) {
      sum += f->samples[k].seconds[i];
    }
    if (i == 0 || sum < least) least = sum;
  }
  return least;
}

/* `a` and `b` in turn; gain[g]: how many times as fast b is. */
static void race(tune_t *t, int a, int b) {
  for (int side = 0; side < 2; side++) {
    form_t *f = &t->forms[side ? b : a];
    uint32_t n = f->program->plan->kernel_count;
    for (uint32_t k = 0; k < n; k++) f->samples[k].count = 0;
  }
  for (uint32_t i = 0; i < t->repeat; i++) {
    run_once(t, a);
    run_once(t, b);
  }
  check_results(t, b);
  for (uint32_t g = 0; g < t->group_count; g++) {
    double was = least_of(t, a, g), is = least_of(t, b, g);
    t->gain[g] = is > 0 ? was / is : 1;
  }
}

static void try_step(tune_t *t, uint32_t step) {
  bool any = false, better = false;
  for (uint32_t g = 0; g < t->group_count; g++) {
    t->next[g] = t->best[g];
    if (!drv_tune_change(t->target, step, &t->next[g])) t->next[g] = t->best[g];
    else any = true;
  }
  if (!any) return;
  open_form(t, NEW, t->next);
  if (find_changed(t, BEST)) {
    t->tried++;
    race(t, BEST, NEW);
    for (uint32_t g = 0; g < t->group_count; g++) {
      if (!t->changed[g] || t->gain[g] * margin < 1) continue;
      t->best[g] = t->next[g];
      better = true;
    }
  }
  close_form(t, NEW);
  if (!better) return;
  close_form(t, BEST);
  open_form(t, BEST, t->best);
}

/* ---- the file ------------------------------------------------------------ */

static void read_file(tune_t *t) {
  td_str_t text;
  if (!td_os_exists(t->path)) return;
  if (!td_os_read_file(t->task, t->path, 0, t->arena, &text)) {
    td_raise(t->task, TDSL_STATUS_IO, "%s cannot be read", t->path);
  }
  (void)drv_tuning_read(t->task, t->arena, t->path, text, &t->rows);
}

static void write_file(tune_t *t) {
  td_buf_t text;
  td_buf_init(&text, t->task);
  drv_tuning_print(&text, t->arena, &t->rows);
  if (!td_os_write_atomic(t->task, t->path, text.data, text.length)) {
    td_raise(t->task, TDSL_STATUS_IO, "%s cannot be written", t->path);
  }
  td_buf_free(&text);
}

/* Rows that hold in the last comparison, a line for each group. */
static void settle(tune_t *t, td_buf_t *out) {
  const pass_sizes_t row = drv_tune_first(t->target);
  const plan_t *plan = t->forms[FIRST].program->plan;
  for (uint32_t g = 0; g < t->group_count; g++) {
    const char *name = plan->kernels[kernels_of(t, FIRST, g).from].name;
    uint32_t gain = (uint32_t)(t->gain[g] * 1000 + 0.5);
    td_buf_printf(out, "%s: ", name);
    if (!is_other(t, FIRST, BEST, g) || t->gain[g] * margin < 1) {
      td_buf_puts(out, "as it is\n");
      continue;
    }
    drv_tune_print(out, t->target, &row);
    td_buf_puts(out, " -> ");
    drv_tune_print(out, t->target, &t->best[g]);
    td_buf_printf(out, ", x%u.%03u\n", gain / 1000, gain % 1000);
    drv_tuned_t made = {.key = t->keys[g], .target = t->target->name,
                        .sizes = t->best[g], .gain = gain, .kernel = name};
    td_vec_push(t->arena, &t->rows, made);
    t->kept_count++;
  }
  td_buf_printf(out, "%u forms tried, %u kernels of %u faster; %s\n",
                t->tried, t->kept_count, t->group_count, t->path);
}

/* ---- the call ------------------------------------------------------------ */

static void close_all(void *arg) {
  tune_t *t = arg;
  t->is_ending = true;
  copy_state(t, true);
  for (int i = 0; i < 3; i++) close_form(t, i);
}

static void search(tune_t *t) {
  open_form(t, FIRST, NULL);
  const drv_tuning_t *made = t->forms[FIRST].program->tuning;
  TD_CHECK(t->task, made != NULL, "keys of kernels are missing");
  t->group_count = (uint32_t)made->keys.length;
  t->keys = made->keys.data;
  t->best = TD_NEW_ARRAY(t->arena, pass_sizes_t, t->group_count + 1);
  t->next = TD_NEW_ARRAY(t->arena, pass_sizes_t, t->group_count + 1);
  t->changed = TD_NEW_ARRAY(t->arena, bool, t->group_count + 1);
  t->gain = TD_NEW_ARRAY(t->arena, double, t->group_count + 1);
  for (uint32_t g = 0; g < t->group_count; g++) {
    t->best[g] = drv_tune_first(t->target);
  }
  copy_state(t, false);
  run_once(t, FIRST);
  check_results(t, FIRST);
  open_form(t, BEST, t->best);
  uint32_t steps = drv_tune_steps(t->target);
  for (uint32_t step = 0; step < steps; step++) try_step(t, step);
  race(t, FIRST, BEST);
}

typedef struct tune_call {
  tdsl_run_t *run;
  tdsl_string_t path;
  uint32_t repeat;
  tdsl_text_fn_t text;
  void *user;
} tune_call_t;

static void tune_work(td_task_t *task, void *arg) {
  const tune_call_t *c = arg;
  const tdsl_program_t *p = c->run->exe->program;
  if (!drv_can_measure(task, c->run)) return;
  if (c->path.length == 0 || c->repeat > MOST_REPEAT) {
    td_raise(task, TDSL_STATUS_INVALID_ARGUMENT, "%s",
             c->path.length == 0 ? "no tuning file is named"
                                 : "at most 1000 runs of a form");
  }
  td_arena_t *arena = &task->arena;
  tune_t *t = TD_NEW(arena, tune_t);
  *t = (tune_t){.run = c->run, .task = task, .arena = arena,
                .target = ir_target_find(td_str(p->plan->target)),
                .slot_count = p->plans[c->run->exe->index].slot_count,
                .repeat = c->repeat > 0 ? c->repeat : DEFAULT_REPEAT,
                .path = td_str_cstr(arena, c->path),
                .text = c->text, .user = c->user};
  TD_CHECK(task, t->target != NULL, "no machine row of the plan");
  t->before = TD_NEW_ARRAY(arena, kept_t, t->slot_count + 1);
  t->wanted = TD_NEW_ARRAY(arena, kept_t, t->slot_count + 1);
  read_file(t);
  td_defer(task, close_all, t);
  search(t);
  td_buf_t out;
  td_buf_init(&out, task);
  settle(t, &out);
  if (t->kept_count > 0 || !td_os_exists(t->path)) write_file(t);
  t->text(td_buf_view(&out), t->user);
  td_buf_free(&out);
  td_undefer(task, true);
}

tdsl_status_t tdsl_run_tune(tdsl_run_t *run, tdsl_string_t path,
                            uint32_t repeat, tdsl_text_fn_t text, void *user,
                            tdsl_error_t **out_error) {
  tune_call_t c = {run, path, repeat, text, user};
  drv_call_t call = {.context = run->exe->program->context};
  return drv_call(&call, tune_work, &c, out_error);
}
