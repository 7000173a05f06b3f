/* The reference vectors through passes, kernels and plans: the programs of
   tests/vectors, compiled in several ways, against results that come from an
   independent evaluator; and the functions `with test` of the samples, whose
   expectations stand in their text. */
#include "pipe.h"

#include "runtime/io/config.h"
#include "runtime/io/values.h"
#include "vector_list.h"

static const pipe_way_t ways[] = {
    {.label = "cpu", .asserts = true},
    {.label = "kir", .is_kir = true, .asserts = true},
    {.label = "kir, passes off", .is_kir = true, .off = PIPE_ALL_OFF,
     .separate = true, .asserts = true},
    {.label = "cpu, passes off, v2, 3 threads", .target = "x86-64-v2",
     .off = PIPE_ALL_OFF, .threads = 3, .asserts = true},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* The first way is that of `tdslc run`, which tests/harness/vectors.py takes
   for every case: here under --full alone. */
static uint32_t first_way(void) {
  return getenv("TDSL_TEST_FULL") != NULL ? 0 : 1;
}

typedef struct run {
  td_task_t *task;
  const char *name;    /* of the program */
  const char *folder;
  const io_case_t *c;  /* NULL: the program's tests */
  io_config_t config;
  pipe_built_t built[WAYS];
  int cases, failures;
} run_t;

static bool config_value(void *user, const char *key, bool *out_is_int,
                         int64_t *out_int, double *out_float) {
  run_t *r = user;
  const io_config_value_t *v = io_config_get(&r->config, td_str(key));
  if (v == NULL) return false;
  *out_is_int = v->kind != IO_CONFIG_REAL;
  *out_int = v->kind == IO_CONFIG_BOOL ? v->truth : v->integer;
  *out_float = v->real;
  return v->kind == IO_CONFIG_BOOL || v->kind == IO_CONFIG_INT ||
         v->kind == IO_CONFIG_REAL;
}

static uint32_t import_module(void *user, td_task_t *task, uint32_t from,
                              const char *name) {
  run_t *r = user;
  pipe_source_t source = {.folder = r->folder};
  return pipe_import(&source, task, from, name);
}

static const ast_decl_t *find_decl(const ast_file_t *file, const char *fn) {
  for (size_t i = 0; i < file->decl_count; i++) {
    if (file->decls[i]->kind == AST_DECL_FN &&
        strcmp(file->decls[i]->name.text, fn) == 0) {
      return file->decls[i];
    }
  }
  return NULL;
}

/* What the case says of the entry it wants: dims, types, ranks. */
static void describe(run_t *r, uint32_t file, sem_options_t *o) {
  td_arena_t *arena = &r->task->arena;
  TD_VEC(sem_dim_value_t) dims = {0};
  TD_VEC(tdsl_dtype_t) dtypes = {0};
  TD_VEC(int32_t) ranks = {0};
  for (size_t i = 0; i < r->c->dims.length; i++) {
    sem_dim_value_t row = {r->c->dims.data[i].name,
                           r->c->dims.data[i].value};
    td_vec_push(arena, &dims, row);
  }
  const ast_decl_t *decl =
      find_decl(ast_parse(r->task, arena, file), r->c->fn);
  for (size_t i = 0; decl != NULL && i < decl->param_count; i++) {
    const io_leaf_t *leaf =
        io_leaves_find(&r->c->args, td_str(decl->params[i].name.text));
    td_vec_push(arena, &dtypes,
                leaf != NULL ? leaf->tensor.dtype : TDSL_DTYPE_UNSET);
    td_vec_push(arena, &ranks,
                leaf != NULL ? (int32_t)leaf->tensor.rank : -1);
  }
  o->entry = r->c->fn;
  o->dims = dims.data;
  o->dim_count = (uint32_t)dims.length;
  o->arg_count = (uint32_t)dtypes.length;
  o->arg_dtypes = dtypes.data;
  o->arg_ranks = ranks.data;
}

/* TIR text; NULL if the program cannot be compiled yet (grad). */
static const char *lower(run_t *r, const char *path) {
  td_task_t *task = r->task;
  td_str_t text;
  if (!td_os_read_file(task, path, 0, &task->arena, &text)) {
    td_raise(task, TDSL_STATUS_IO, "cannot read %s", path);
  }
  uint32_t file = td_sources_add(task, path, text.data, text.length);
  sem_options_t o = {.config = config_value, .import = import_module,
                     .user = r, .mesh_none = true, .need_values = true};
  if (r->c != NULL) describe(r, file, &o);
  sem_program_t *p = sem_check(task, &task->arena, file, &o);
  if (td_task_errors(task) > 0) {
    pipe_show(task);
    td_raise(task, TDSL_STATUS_INVALID_PROGRAM, "%s is refused", path);
  }
  tir_module_t *m = NULL;
  if (r->c != NULL) {
    const sem_func_t *entry = sem_find_entry(p, r->c->fn);
    if (entry == NULL || entry->has_grad) return NULL;
    m = lower_program(task, &task->arena, p, entry);
  } else {
    TD_VEC(const sem_func_t *) tests = {0};
    for (uint32_t i = 0; i < p->func_count; i++) {
      if (!p->funcs[i]->is_test || p->funcs[i]->has_grad) continue;
      td_vec_push(&task->arena, &tests, p->funcs[i]);
    }
    m = lower_funcs(task, &task->arena, p, (uint32_t)tests.length,
                    tests.data);
  }
  td_buf_t b;
  td_buf_init(&b, task);
  tir_print(&b, m);
  return td_buf_finish(&b, &task->arena);
}

static hal_arg_t *arguments(run_t *r, const plan_entry_t *e) {
  td_arena_t *arena = &r->task->arena;
  hal_arg_t *args = TD_NEW_ARRAY(arena, hal_arg_t, e->slot_count + 1);
  for (uint32_t s = 0; s < e->slot_count && r->c != NULL; s++) {
    const plan_slot_t *slot = &e->slots[s];
    const io_leaf_t *leaf = io_leaves_find(&r->c->args, td_str(slot->name));
    hal_arg_t *a = &args[s];
    if (leaf == NULL || slot->kind == PLAN_OUT) continue;
    a->dtype = slot->dtype;
    a->rank = (uint32_t)leaf->tensor.rank;
    for (uint32_t d = 0; d < a->rank; d++) a->dims[d] = leaf->tensor.dims[d];
    a->is_set = true;
    a->data = td_arena_alloc(
        arena, leaf->tensor.count * td_dtype_bytes(slot->dtype) + 16);
    for (size_t i = 0; i < leaf->tensor.count; i++) {
      char *to = (char *)a->data + i * td_dtype_bytes(slot->dtype);
      const char *from = (const char *)leaf->tensor.data +
                         i * td_dtype_bytes(leaf->tensor.dtype);
      if (td_dtype_is_float(slot->dtype)) {
        td_store_f64(slot->dtype, to, td_load_f64(leaf->tensor.dtype, from));
      } else {
        td_store_i64(slot->dtype, to, td_load_i64(leaf->tensor.dtype, from));
      }
    }
  }
  return args;
}

static void compare_leaf(run_t *r, const io_leaf_t *want,
                         const plan_entry_t *e, const pipe_result_t *got,
                         const char *label) {
  double absolute = 0, relative = 0;
  for (size_t i = 0; i < r->c->tolerances.length; i++) {
    if (strcmp(r->c->tolerances.data[i].path, want->name) != 0) continue;
    absolute = r->c->tolerances.data[i].absolute;
    relative = r->c->tolerances.data[i].relative;
  }
  uint32_t s = 0;
  while (s < e->slot_count && strcmp(e->slots[s].name, want->name) != 0) s++;
  const hal_arg_t *a = &got->slots[s];
  if (s == e->slot_count || pipe_count(a) != want->tensor.count) {
    (void)fprintf(stderr, "  %s %s: shape of %s\n", r->name, r->c->name,
                  want->name);
    r->failures++;
    return;
  }
  for (size_t i = 0; i < want->tensor.count; i++) {
    double v = td_load_f64(a->dtype, (const char *)a->data +
                                         i * td_dtype_bytes(a->dtype));
    double w = td_load_f64(want->tensor.dtype,
                           (const char *)want->tensor.data +
                               i * td_dtype_bytes(want->tensor.dtype));
    if (v == w || (isnan(v) && isnan(w)) ||
        fabs(v - w) <= absolute + relative * fabs(w)) {
      continue;
    }
    (void)fprintf(stderr, "  %s %s, %s: %s[%zu] is %.9g, not %.9g\n", r->name,
                  r->c->name, label, want->name, i, v, w);
    r->failures++;
    return;
  }
}

static void work(td_task_t *task, void *arg) {
  run_t *r = arg;
  r->task = task;
  td_map_init(&r->config.values, &task->arena);
  bool is_library = strcmp(r->name, "nn") == 0 ||
                    strcmp(r->name, "softmax") == 0;
  r->folder = is_library ? TDSL_SOURCE_DIR "/stdlib"
                         : td_arena_printf(&task->arena, "%s/examples/%s",
                                           TDSL_SOURCE_DIR, r->name);
  if (strcmp(r->name, "lowering") == 0) r->folder = TDSL_TESTS_DIR "/exec";
  if (r->c != NULL && r->c->config.length > 0) {
    uint32_t file = td_sources_add(task, "config", r->c->config.data,
                                   r->c->config.length);
    (void)io_config_parse(task, &task->arena, file, r->c->config,
                          &r->config);
  }
  const char *tir = lower(r, td_arena_printf(&task->arena, "%s/%s.tdsl",
                                             r->folder, r->name));
  if (tir == NULL) return;
  pipe_result_t first = {NULL};
  for (uint32_t w = first_way(); w < WAYS; w++) {
    pipe_build(task, tir, &ways[w], &r->built[w]);
    for (uint32_t f = 0; f < r->built[w].plan->entry_count; f++) {
      const plan_entry_t *e = &r->built[w].plan->entries[f];
      pipe_result_t got =
          pipe_run(task, &r->built[w], f, NULL, arguments(r, e));
      if (r->c == NULL) continue;
      for (size_t i = 0; i < r->c->results.length; i++) {
        compare_leaf(r, &r->c->results.data[i], e, &got, ways[w].label);
      }
      for (size_t i = 0; i < r->c->state.length; i++) {
        compare_leaf(r, &r->c->state.data[i], e, &got, ways[w].label);
      }
      /* fused or not, in arena or apart: the interpreter's bits are equal */
      if (!ways[w].is_kir) continue;
      if (first.slots == NULL) {
        first = got;
      } else if (!pipe_compare(task, e, &first, &got, 0, r->c->name)) {
        r->failures++;
      }
    }
  }
  r->cases++;
}

static int run_one(const char *name, const io_case_t *c, int *counted) {
  td_task_t task;
  td_task_init(&task, NULL);
  run_t r = {.name = name, .c = c};
  tdsl_status_t status = td_task_run(&task, work, &r);
  if (status != TDSL_STATUS_OK) {
    (void)fprintf(stderr, "  %s %s: %s\n", name, c != NULL ? c->name : "",
                  task.message);
    r.failures++;
  }
  *counted += r.cases;
  for (uint32_t w = 0; w < WAYS; w++) pipe_close(&r.built[w]);
  td_task_free(&task);
  return r.failures;
}

typedef struct file_job {
  const char *name;
  int failures, counted;
} file_job_t;

static void run_file(td_task_t *task, void *arg) {
  file_job_t *job = arg;
  const char *path = td_arena_printf(&task->arena, "%s/vectors/%s.json",
                                     TDSL_TESTS_DIR, job->name);
  td_str_t text;
  io_cases_t cases = {0};
  assert_true(td_os_read_file(task, path, 0, &task->arena, &text));
  uint32_t file = td_sources_add_file(task, path);
  assert_true(io_cases_parse(task, &task->arena, file, text, &cases));
  for (size_t i = 0; i < cases.cases.length; i++) {
    const io_case_t *c = &cases.cases.data[i];
    if (c->sequence.length > 0) continue;
    job->failures += run_one(job->name, c, &job->counted);
  }
}

static void check_vectors(const char *name, int expected) {
  td_task_t task;
  td_task_init(&task, NULL);
  file_job_t job = {.name = name};
  tdsl_status_t status = td_task_run(&task, run_file, &job);
  td_task_free(&task);
  assert_int_equal(status, TDSL_STATUS_OK);
  assert_int_equal(job.failures, 0);
  assert_int_equal(job.counted, expected);
}

static void check_tests(const char *name) {
  int counted = 0;
  assert_int_equal(run_one(name, NULL, &counted), 0);
  assert_int_equal(counted, 1);
}

#define VECTORS(name, count)                                                  \
  static void vectors_##name(void **state) {                                  \
    (void)state;                                                              \
    check_vectors(#name, count);                                              \
  }
#define TESTS(name, count)                                                    \
  static void tests_##name(void **state) {                                    \
    (void)state;                                                              \
    check_tests(#name);                                                       \
  }

VECTOR_FILES(VECTORS)
TEST_FILES(TESTS)

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
#define VECTORS_ROW(name, count) cmocka_unit_test(vectors_##name),
#define TESTS_ROW(name, count) cmocka_unit_test(tests_##name),
      VECTOR_FILES(VECTORS_ROW) TEST_FILES(TESTS_ROW)
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
