/* Programs through passes, tiling, planning and code generation, on both
   engines that run kernels, compared with the interpreter of the tensor IR.

   Whole-number data must give equal bits everywhere.  On other data the
   engines agree with each other bit for bit (where no function of the target
   is involved), whatever pass is off, and with the interpreter within a
   bound; with `--plan=serial` the bits are the interpreter's own. */
#include "pipe.h"

#include "pipe_cases.h"
#include "pipe_programs.h"

static const pipe_way_t ways[] = {
    {.label = "cpu, 3 threads", .threads = 3},
    {.label = "kir", .is_kir = true},
    {.label = "kir, gpu", .is_kir = true, .target = "sm_80"},
    {.label = "cpu, passes off", .off = PIPE_ALL_OFF},
    {.label = "cpu, serial", .serial = true},
    {.label = "kir, serial, v3", .serial = true, .is_kir = true,
     .target = "x86-64-v3"},
    {.label = "kir, no fuse", .off = "fuse-elementwise", .is_kir = true},
    {.label = "kir, no fold", .off = "fold-constants", .is_kir = true},
    {.label = "kir, no simplify", .off = "simplify-tensor", .is_kir = true},
    {.label = "kir, no share", .off = "share-common", .is_kir = true},
    {.label = "kir, no dead", .off = "eliminate-dead", .is_kir = true},
    {.label = "cpu, no safe loads", .off = "mark-safe-loads"},
};
enum { WAYS = sizeof ways / sizeof ways[0], FEW_WAYS = 10, LEAST_WAYS = 5 };

/* Under --full every program goes every way; else each takes the first ones
   and every other one of the rest, the name says which half. */
static bool is_taken(const pipe_program_t *p, uint32_t way) {
  unsigned sum = 0;
  for (const char *at = p->name; *at != '\0'; at++) sum += (unsigned char)*at;
  return way < 3 || getenv("TDSL_TEST_FULL") != NULL ||
         (sum + way) % 2 == 0;
}

/* ---- one program -------------------------------------------------------- */

typedef struct check {
  td_task_t *task;
  const pipe_program_t *program;
  const char *tir;
  tir_module_t *module;
  pipe_built_t built[WAYS];
  uint32_t way_count;
  int failures;
} check_t;

/* "M=3 N=0" by the names of the entry's dims; others are 0. */
static int64_t *read_dims(td_task_t *task, const tir_func_t *f,
                          const char *text) {
  int64_t *dims = TD_NEW_ARRAY(&task->arena, int64_t, f->dim_count + 1);
  for (uint32_t i = 0; i < f->dim_count; i++) {
    size_t n = strlen(f->dims[i]->name);
    const char *at = text;
    while (at != NULL && *at != '\0') {
      if (strncmp(at, f->dims[i]->name, n) == 0 && at[n] == '=') {
        dims[i] = strtoll(at + n + 1, NULL, 10);
      }
      at = strchr(at, ' ');
      if (at != NULL) at++;
    }
  }
  return dims;
}

static void compare(check_t *c, const plan_entry_t *e,
                    const pipe_result_t *want, const pipe_result_t *got,
                    double tolerance, const char *label, const char *dims,
                    pipe_data_t kind) {
  if (pipe_compare(c->task, e, want, got, tolerance, label)) return;
  c->failures++;
  (void)fprintf(stderr, "  program %s, entry %s, dims %s, data %d\n",
                c->program->name, e->name, dims, (int)kind);
}

static void check_dims(check_t *c, uint32_t entry, const char *text,
                       pipe_data_t kind) {
  const pipe_program_t *p = c->program;
  const plan_entry_t *e = &c->built[0].plan->entries[entry];
  const int64_t *dims = read_dims(c->task, c->module->funcs[entry], text);
  const hal_arg_t *args = pipe_args(c->task, e, dims, 3, kind);
  pipe_result_t want =
      pipe_reference(c->task, c->module, entry, dims, args);
  bool is_exact = kind != PIPE_RANDOM && (p->flags & PIPE_INEXACT) == 0;
  bool has_functions = (p->flags & PIPE_FUNCTIONS) != 0;
  pipe_result_t first[2] = {{NULL}, {NULL}}; /* machine, interpreter */
  for (uint32_t w = 0; w < c->way_count; w++) {
    const pipe_way_t *way = &ways[w];
    if (!is_taken(p, w)) continue;
    pipe_result_t got =
        pipe_run(c->task, &c->built[w], entry, dims, args);
    bool is_bitwise = is_exact || (way->serial && !has_functions);
    compare(c, e, &want, &got, is_bitwise ? 0 : 2e-5, way->label, text,
            kind);
    if (way->serial) continue;
    /* targets agree on all but functions of their own */
    bool is_other = has_functions && (way->is_kir || way->target != NULL);
    pipe_result_t *other = &first[is_other && way->is_kir];
    if (is_other && !way->is_kir) continue;
    if (other->slots == NULL) {
      *other = got;
    } else {
      compare(c, e, other, &got, 0, way->label, text, kind);
    }
  }
}

static void check_body(td_task_t *task, void *arg) {
  check_t *c = arg;
  const pipe_program_t *p = c->program;
  c->task = task;
  pipe_source_t source = {0};
  const char *at = p->fixed;
  while (at != NULL && *at != '\0') { /* static dims */
    const char *equals = strchr(at, '=');
    source.dims[source.dim_count++] = (sem_dim_value_t){
        td_arena_strndup(&task->arena, at, (size_t)(equals - at)),
        strtoll(equals + 1, NULL, 10)};
    at = strchr(at, ' ');
    if (at != NULL) at++;
  }
  c->tir = pipe_lower(task, p->name, p->text, &source);
  if (c->tir == NULL) {
    pipe_show(task);
    td_raise(task, TDSL_STATUS_INTERNAL, "%s is refused", p->name);
  }
  c->module = pipe_read(task, c->tir);
  c->way_count = (p->flags & PIPE_LEAST) != 0 ? LEAST_WAYS
                 : (p->flags & PIPE_FEW) != 0 ? FEW_WAYS
                                              : WAYS;
  for (uint32_t w = 0; w < c->way_count; w++) {
    if (is_taken(p, w)) pipe_build(task, c->tir, &ways[w], &c->built[w]);
  }
  for (uint32_t f = 0; f < c->module->func_count; f++) {
    for (int i = 0; p->dims[i] != NULL; i++) {
      for (int kind = 0; kind < 3; kind++) {
        if ((p->flags & (1u << kind)) == 0) continue;
        check_dims(c, f, p->dims[i], (pipe_data_t)kind);
      }
    }
  }
}

static void build_body(td_task_t *task, void *arg) {
  check_t *c = arg;
  pipe_build(task, c->tir, &ways[0], &c->built[0]);
}

/* True if all is well. */
static bool check_program(const pipe_program_t *p) {
  td_task_t task;
  check_t c = {.program = p};
  td_task_init(&task, NULL);
  tdsl_status_t status = td_task_run(&task, check_body, &c);
  if (status != TDSL_STATUS_OK) {
    (void)fprintf(stderr, "  program %s: %s\n", p->name, task.message);
    c.failures++;
  }
  for (uint32_t w = 0; w < WAYS; w++) pipe_close(&c.built[w]);
  td_task_free(&task);
  return c.failures == 0;
}

static void check_all(const pipe_program_t *list, size_t count) {
  int failures = 0;
  for (size_t i = 0; i < count; i++) failures += !check_program(&list[i]);
  assert_int_equal(failures, 0);
}

/* ---- long formulas ------------------------------------------------------ */

/* `count` terms joined by `join`; %d of a term is its number mod 7. */
static const char *long_text(td_task_t *task, const char *head,
                             const char *join, const char *even,
                             const char *odd, int count, const char *tail) {
  td_buf_t b;
  td_buf_init(&b, task);
  td_buf_puts(&b, head);
  for (int i = 0; i < count; i++) {
    if (i > 0) td_buf_puts(&b, join);
    for (const char *at = i % 2 ? odd : even; *at != '\0'; at++) {
      if (*at == '#') td_buf_printf(&b, "%d", i % 7);
      else td_buf_putc(&b, *at);
    }
  }
  td_buf_puts(&b, tail);
  return td_buf_finish(&b, &task->arena);
}

#define LONG_HEAD                                                             \
  "dyn N <= 100\nexport fn f(a: f32[N], b: f32[N]) -> (y: "

/* Formulas that are cut into parts; whole numbers, so nothing rounds. */
TASK_TEST(test_long) {
  (void)arg;
  pipe_program_t list[] = {
      {"long sum", NULL, PIPE_DO_EXACT | PIPE_LEAST, NULL, {"N=1", "N=37"}},
      {"long product", NULL, PIPE_DO_EXACT | PIPE_LEAST, NULL, {"N=9"}},
      {"long arm", NULL, PIPE_DO_EXACT | PIPE_LEAST, NULL, {"N=37", "N=0"}},
      {"long and", NULL, PIPE_DO_EXACT | PIPE_LEAST, NULL, {"N=37"}},
      {"long update", NULL, PIPE_DO_EXACT | PIPE_LEAST, NULL, {"N=37"}},
  };
  list[0].text = long_text(task, LONG_HEAD "f32[N]) { y[i] = ", " + ",
                           "a[i]", "b[i] * #", 1500, " }\n");
  list[1].text =
      long_text(task,
                LONG_HEAD "f32[N]) { y[i] = sum[k in N where k <= i] (",
                " + ", "a[i - k]", "b[k] * #", 900, ") * b[k] }\n");
  list[2].text = long_text(task, LONG_HEAD "f32[N]) { y[i] = if i > 3 then ",
                           " + ", "a[i - 2]", "b[i - #/2]", 900,
                           " else 1 }\n");
  list[3].text = long_text(task, LONG_HEAD "bool[N]) { y[i] = i >= 3 and ",
                           " and ", "a[i - 3] != # + 10", "b[i] > -9 + #",
                           900, " }\n");
  list[4].text =
      long_text(task,
                LONG_HEAD "f32[N]) {\n  var c[i] = a[i]\n"
                          "  c[N - 1 - i] := ",
                " + ", "a[i]", "c[i] * #", 900, "\n  y = c\n}\n");
  check_all(list, sizeof list / sizeof list[0]);
}

/* The sum of many parameters is cut where kernels have too many. */
TASK_TEST(test_inputs) {
  (void)arg;
  static const int counts[] = {2, 511, 700};
  for (int k = 0; k < 3; k++) {
    td_buf_t b;
    td_buf_init(&b, task);
    td_buf_puts(&b, "dyn N <= 4096\nexport fn f(");
    for (int i = 0; i < counts[k]; i++) {
      td_buf_printf(&b, "%sx%d: f32[N]", i > 0 ? ", " : "", i);
    }
    td_buf_puts(&b, ") -> y: f32[N] { y[i] = ");
    for (int i = 0; i < counts[k]; i++) {
      td_buf_printf(&b, "%sx%d[i]", i > 0 ? " + " : "", i);
    }
    td_buf_puts(&b, " }\n");
    pipe_program_t p = {"inputs", b.data, PIPE_DO_EXACT | PIPE_LEAST, NULL,
                        {"N=5", "N=0", NULL}};
    assert_true(check_program(&p));
    td_buf_free(&b);
  }
}

/* Beyond that it is one error that says where. */
TASK_TEST(test_too_long) {
  (void)arg;
  pipe_source_t source = {0};
  const char *text =
      long_text(task, LONG_HEAD "f32[N]) {\n  y[i] = ", " + ", "a[i]", "b[i]",
                60000, " }\n");
  const char *tir = pipe_lower(task, "long", text, &source);
  td_task_t other;
  td_task_init(&other, NULL);
  check_t c = {.tir = tir};
  assert_int_equal(td_task_run(&other, build_body, &c),
                   TDSL_STATUS_UNAVAILABLE);
  assert_int_equal(td_task_errors(&other), 1);
  assert_string_equal(unit_first_id(&other), "B01");
  td_task_free(&other);
}

#define GROUP(name)                                                           \
  static void test_##name(void **state) {                                     \
    (void)state;                                                              \
    check_all(pipe_##name, sizeof pipe_##name / sizeof pipe_##name[0]);       \
  }
GROUP(products)
GROUP(nests)
GROUP(types)
GROUP(updates)
GROUP(loops)
#undef GROUP

/* Cases in files go this way. */
static const pipe_way_t case_ways[] = {
    {.label = "cpu"},
    {.label = "kir", .is_kir = true},
    {.label = "kir, gpu", .is_kir = true, .target = "sm_90a"},
    {.label = "cpu, passes off, v2", .target = "x86-64-v2",
     .off = PIPE_ALL_OFF},
    {.label = "kir, passes off, separate", .is_kir = true,
     .off = PIPE_ALL_OFF, .separate = true},
    {.label = "cpu, serial, v3", .target = "x86-64-v3", .serial = true},
};

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products), cmocka_unit_test(test_nests),
      cmocka_unit_test(test_types),    cmocka_unit_test(test_updates),
      cmocka_unit_test(test_loops),    cmocka_unit_test(test_long),
      cmocka_unit_test(test_inputs),   cmocka_unit_test(test_too_long),
  };
  if (argc > 1 && strcmp(argv[1], "--cases") == 0) {
    return case_files(argc - 2, argv + 2, case_ways,
                      sizeof case_ways / sizeof case_ways[0]);
  }
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
