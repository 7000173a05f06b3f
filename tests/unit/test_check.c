/* The checker on the reference programs: every program of errors.json gives
 * the id at the line that is written beside it, or nothing; the samples are
 * accepted.  Then what files of frontend/err cannot show: sizes that must not
 * cost stack or time, modules from memory, values of dims, failing memory. */
#include "tests/unit/unit.h"

#include <stdio.h>

#include "frontend/parse.h"
#include "frontend/sem.h"
#include "runtime/base/num.h"
#include "runtime/io/json.h"

/* ---- modules from memory ------------------------------------------------- */

typedef struct text_file {
  const char *name, *text;
} text_file_t;

/* NULL name ends the list; library files are read from the tree. */
typedef struct host {
  const text_file_t *files;
  const char *folder;
} host_t;

static uint32_t add_path(td_task_t *task, const char *path) {
  td_str_t text;
  if (!td_os_exists(path)) return 0;
  if (!td_os_read_file(task, path, 0, &task->arena, &text)) return 0;
  return td_sources_add(task, path, text.data, text.length);
}

static uint32_t import_file(void *user, td_task_t *task, uint32_t from,
                            const char *name) {
  const host_t *h = user;
  (void)from;
  for (const text_file_t *f = h->files; f != NULL && f->name != NULL; f++) {
    if (strcmp(f->name, name) == 0) {
      return td_sources_add(task, td_arena_printf(&task->arena, "%s.tdsl",
                                                  name),
                            f->text, strlen(f->text));
    }
  }
  if (h->folder != NULL) {
    uint32_t file = add_path(task, td_arena_printf(&task->arena, "%s/%s.tdsl",
                                                   h->folder, name));
    if (file != 0) return file;
  }
  return add_path(task, td_arena_printf(&task->arena, "%s/stdlib/%s.tdsl",
                                        TDSL_SOURCE_DIR, name));
}

static sem_program_t *check_with(td_task_t *task, const char *text,
                                 const host_t *host,
                                 const sem_options_t *options) {
  td_arena_t *arena = TD_NEW(&task->arena, td_arena_t);
  sem_options_t o = {0};
  td_arena_init(arena, task);
  if (options != NULL) o = *options;
  o.import = import_file;
  o.user = (void *)(uintptr_t)host;
  uint32_t file = td_sources_add(task, "main.tdsl", text, strlen(text));
  return sem_check(task, arena, file, &o);
}

static sem_program_t *check(td_task_t *task, const char *text) {
  static const host_t none = {NULL, NULL};
  return check_with(task, text, &none, NULL);
}

/* ---- errors.json --------------------------------------------------------- */

typedef struct program {
  const char *id; /* NULL: must be accepted */
  uint32_t line;
  const char *source;
} program_t;

static void run_program(td_task_t *task, void *arg) {
  const program_t *p = arg;
  check(task, p->source);
}

/* Each in a task of its own: sources, names and errors start fresh. */
static bool judge(const program_t *p) {
  td_task_t task;
  td_task_init(&task, NULL);
  bool ok =
      td_task_run(&task, run_program, (void *)(uintptr_t)p) == TDSL_STATUS_OK;
  size_t errors = 0;
  for (size_t i = 0; i < task.diags.length; i++) {
    const td_diag_t *d = task.diags.data[i];
    if (d->severity != TDSL_SEVERITY_ERROR) continue;
    errors++;
    ok = ok && p->id != NULL && strcmp(td_diag_name(d->id), p->id) == 0 &&
         d->loc.line == p->line;
  }
  ok = ok && errors == (p->id != NULL ? 1u : 0u);
  if (p->id == NULL) ok = ok && task.diags.length == 0;
  if (!ok) {
    print_error("wanted %s at line %u of\n%s", p->id ? p->id : "nothing",
                p->line, p->source);
    for (size_t i = 0; i < task.diags.length; i++) {
      td_buf_t out;
      td_buf_init(&out, &task);
      td_diag_render(&out, &task, task.diags.data[i], false);
      print_error("%s", out.data);
      td_buf_free(&out);
    }
  }
  td_task_free(&task);
  return ok;
}

static bool read_reject(td_task_t *task, io_json_t *j, program_t *p) {
  td_str_t key, text;
  int64_t line = 0;
  if (!io_json_object(j)) return false;
  while (io_json_key(j, &key)) {
    if (td_str_eqc(key, "id") && io_json_text(j, &text)) {
      p->id = td_str_cstr(&task->arena, text);
    } else if (td_str_eqc(key, "line") && io_json_int(j, &line)) {
      p->line = (uint32_t)line;
    } else if (td_str_eqc(key, "source") && io_json_text(j, &text)) {
      p->source = td_str_cstr(&task->arena, text);
    }
  }
  return true;
}

TASK_TEST(reference_errors) {
  (void)arg;
  td_str_t text = unit_file(task, "vectors/errors.json"), key, source;
  io_json_t j;
  int rejected = 0, accepted = 0, failed = 0;
  int64_t format = 0;
  io_json_begin(&j, task, &task->arena, 0, text);
  assert_true(io_json_object(&j));
  while (io_json_key(&j, &key)) {
    bool is_reject = td_str_eqc(key, "reject");
    if (td_str_eqc(key, "format")) {
      assert_true(io_json_int(&j, &format));
      continue;
    }
    assert_true(io_json_array(&j));
    while (io_json_item(&j)) {
      program_t p = {0};
      if (is_reject) {
        assert_true(read_reject(task, &j, &p));
        rejected++;
      } else {
        assert_true(io_json_text(&j, &source));
        p.source = td_str_cstr(&task->arena, source);
        accepted++;
      }
      if (!judge(&p)) failed++;
    }
  }
  assert_true(io_json_end(&j));
  assert_int_equal(failed, 0);
  assert_int_equal(rejected, 74);
  assert_int_equal(accepted, 29);
}

/* ---- samples ------------------------------------------------------------- */

static const struct {
  const char *path;
  uint32_t warnings;
} samples[] = {
    {"stdlib/softmax.tdsl", 0},        {"stdlib/nn.tdsl", 0},
    {"examples/attention/attention.tdsl", 2}, /* W01: slots from outside */
    {"examples/bert/bert.tdsl", 0},    {"examples/conv/conv.tdsl", 0},
    {"examples/gpt_train/gpt_train.tdsl", 0},
    {"examples/llama/llama.tdsl", 0},  {"examples/losses/losses.tdsl", 0},
    {"examples/moe/moe.tdsl", 0},      {"examples/pipeline/pipeline.tdsl", 0},
    {"examples/quant/quant.tdsl", 0},
    {"examples/ring_attention/ring_attention.tdsl", 0},
    {"examples/semantics/semantics.tdsl", 0},
    {"examples/tp_mlp/tp_mlp.tdsl", 0},
    {"examples/variants/variants.tdsl", 0}};

TASK_TEST(samples_are_accepted) {
  (void)arg;
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    const char *path = td_os_join(&task->arena, TDSL_SOURCE_DIR,
                                  samples[i].path);
    uint32_t file = add_path(task, path);
    uint32_t warnings = task->warnings;
    assert_true(file != 0);
    host_t host = {NULL, NULL};
    sem_options_t o = {.import = import_file, .user = &host};
    td_arena_t arena;
    td_arena_init(&arena, task);
    sem_program_t *p = sem_check(task, &arena, file, &o);
    if (task->errors > 0) print_error("%s\n", samples[i].path);
    assert_int_equal(task->errors, 0);
    assert_int_equal(task->warnings - warnings, samples[i].warnings);
    assert_true(p->func_count > 0);
    td_arena_free_all(&arena);
  }
}

/* ---- size ---------------------------------------------------------------- */

static const char *repeated(td_task_t *task, const char *before,
                            const char *part, size_t count,
                            const char *after) {
  td_buf_t out;
  td_buf_init(&out, task);
  td_buf_puts(&out, before);
  for (size_t i = 0; i < count; i++) td_buf_puts(&out, part);
  td_buf_puts(&out, after);
  return td_buf_finish(&out, &task->arena);
}

TASK_TEST(long_chains) {
  (void)arg;
  static const struct {
    const char *before, *part, *after;
  } chains[] = {
      {"fn f(a: f32) -> y: f32 {\n  y = a", " + a", "\n}\n"},
      {"fn f(a: i32) -> y: i64 {\n  y = a", " + a", "\n}\n"},
      {"fn f(a: i32) -> y: i64 {\n  y = a", " - 2 * a", "\n}\n"},
      {"fn f(a: bool) -> y: bool {\n  y = a", " and a", "\n}\n"},
      {"fn f(a: i32) -> y: bool {\n  y = a > 0", " or a < 7", "\n}\n"},
      {"fn f(a: f32) -> y: f32 {\n  y = a", " * 2.0", "\n}\n"},
  };
  for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
    check(task, repeated(task, chains[i].before, chains[i].part, 200000,
                         chains[i].after));
    assert_int_equal(task->errors, 0);
  }
}

/* Different data make a poly with a term for each. */
TASK_TEST(many_data_in_one_sum) {
  (void)arg;
  td_buf_t out;
  td_buf_init(&out, task);
  td_buf_puts(&out, "fn f(k: i32[20000]) -> y: i64 {\n  y = k[0]");
  for (int i = 1; i < 20000; i++) td_buf_printf(&out, " + k[%d]", i);
  td_buf_puts(&out, "\n}\n");
  check(task, td_buf_finish(&out, &task->arena));
  assert_int_equal(task->errors, 0);
}

/* Calls are checked from a queue, dims have a stated limit. */
TASK_TEST(deep_chains_of_names) {
  (void)arg;
  td_buf_t out;
  td_buf_init(&out, task);
  for (int i = 20000; i > 0; i--) {
    td_buf_printf(&out, "fn call_%d(x: f32) -> f32 = call_%d(x)\n", i, i - 1);
  }
  td_buf_puts(&out, "fn call_0(x: f32) -> f32 = x\n");
  check(task, td_buf_finish(&out, &task->arena));
  assert_int_equal(task->errors, 0);
  td_buf_init(&out, task);
  for (int i = 1; i < 2000; i++) {
    td_buf_printf(&out, "dim d%d = d%d\n", i, i + 1);
  }
  td_buf_puts(&out, "dim d2000 = 1\n");
  check(task, td_buf_finish(&out, &task->arena));
  assert_string_equal(unit_first_id(task), "L04");
  assert_int_equal(task->errors, 1);
}

/* A struct that doubles at each level is refused, not unfolded. */
TASK_TEST(exploding_structs) {
  (void)arg;
  td_buf_t out;
  td_buf_init(&out, task);
  td_buf_puts(&out, "struct s0 { a: f32 }\n");
  for (int i = 1; i < 60; i++) {
    td_buf_printf(&out, "struct s%d { a: s%d; b: s%d }\n", i, i - 1, i - 1);
  }
  check(task, td_buf_finish(&out, &task->arena));
  assert_string_equal(unit_first_id(task), "L04");
}

TASK_TEST(errors_are_capped) {
  (void)arg;
  check(task, repeated(task, "fn f(x: f32) -> y: f32 {\n", "  _a = p\n", 100,
                       "  y = x\n}\n"));
  assert_int_equal(task->diags.length, TD_MAX_ERRORS);
}

/* ---- modules ------------------------------------------------------------- */

TASK_TEST(modules) {
  (void)arg;
  static const text_file_t files[] = {
      {"lib", "dim N = 3\nconst C = 2.5\nstruct S { a: f32[N] }\n"
              "fn g(x: f32) -> f32 = x * C\nfn hidden(x: f32) -> f32 = x\n"},
      {"one", "import two\nfn a(x: f32) -> f32 = x\n"},
      {"two", "import one\nfn b(x: f32) -> f32 = x\n"},
      {"bad", "fn a(x: f32) -> f32 = x +\n"},
      {NULL, NULL}};
  host_t host = {files, NULL};
  check_with(task, "import lib (g, S, N)\nfn f(s: S) -> y: f32[N] {\n"
                   "  y[i] = g(s.a[i])\n}\n", &host, NULL);
  assert_int_equal(task->errors, 0);
  check_with(task, "import lib (g)\nfn f(x: f32) -> f32 = hidden(x)\n", &host,
             NULL);
  assert_int_equal(task->errors, 1); /* not in the list */
  check_with(task, "import one\nfn f(x: f32) -> f32 = a(x)\n", &host, NULL);
  assert_int_equal(task->errors, 2);
  assert_string_equal(td_diag_name(task->diags.data[1]->id), "E34");
  /* A syntax error of a module: nothing follows from it. */
  check_with(task, "import bad (a)\nfn f(x: f32) -> f32 = a(x)\n", &host,
             NULL);
  assert_int_equal(task->errors, 3);
}

/* ---- values of dims ------------------------------------------------------ */

static int64_t dim_value(const sem_program_t *p, const char *name) {
  for (uint32_t i = 0; i < p->dim_count; i++) {
    if (strcmp(p->dims[i].name, name) == 0) return p->dims[i].value;
  }
  return -2;
}

static bool config(void *user, const char *key, bool *out_is_int,
                   int64_t *out_int, double *out_float) {
  (void)user;
  *out_float = 0;
  *out_is_int = strcmp(key, "f") != 0;
  *out_int = 7;
  if (strcmp(key, "f") == 0) *out_float = 1.5;
  return strcmp(key, "absent") != 0;
}

TASK_TEST(values_of_dims) {
  (void)arg;
  static const host_t none = {NULL, NULL};
  const char *text = "dim A = config(\"a\"), B = A * 2, C = config(\"absent\""
                     ", 9), D\ndyn T <= 64\n"
                     "fn f(x: f32[A]) -> y: f32[A] {\n  y = x\n}\n";
  const sem_dim_value_t dims[] = {{"D", 5}, {"T", 16}, {"B", 3}};
  sem_options_t o = {.config = config, .dim_count = 3, .dims = dims,
                     .need_values = true};
  sem_program_t *p = check_with(task, text, &none, &o);
  assert_int_equal(task->errors, 0);
  assert_int_equal(dim_value(p, "A"), 7);
  assert_int_equal(dim_value(p, "B"), 3); /* --dim overrides */
  assert_int_equal(dim_value(p, "C"), 9);
  assert_int_equal(dim_value(p, "D"), 5);
  assert_int_equal(dim_value(p, "T"), 16);
  o.dim_count = 0;
  check_with(task, text, &none, &o);
  assert_string_equal(unit_first_id(task), "E56");
  assert_int_equal(task->errors, 1);
}

/* With values a require decides, and proofs see numbers. */
TASK_TEST(groups_that_do_not_divide) {
  (void)arg;
  static const host_t none = {NULL, NULL};
  const char *text =
      "dim H, G\nrequire H % G == 0\n"
      "fn f(v: f32[G]) -> o: f32[H] {\n  o[h] = v[h / (H / G)]\n}\n";
  const sem_dim_value_t pairs[][2] = {
      {{"H", 4}, {"G", 2}}, {{"H", 6}, {"G", 2}},  {{"H", 8}, {"G", 8}},
      {{"H", 8}, {"G", 1}}, {{"H", 12}, {"G", 4}}, {{"H", 5}, {"G", 2}}};
  for (size_t i = 0; i < 6; i++) {
    sem_options_t o = {.dim_count = 2, .dims = pairs[i]};
    assert_int_equal(task->errors, 0);
    check_with(task, text, &none, &o);
  }
  assert_int_equal(task->errors, 1);
  const td_diag_t *d = task->diags.data[0];
  assert_string_equal(td_diag_name(d->id), "E36");
  assert_non_null(strstr(d->text, "H = 5"));
  assert_non_null(strstr(d->text, "G = 2"));
}

/* ---- entries ------------------------------------------------------------- */

TASK_TEST(any_function_as_entry) {
  (void)arg;
  static const host_t none = {NULL, NULL};
  const char *text = "fn f[N, M, ...S, E: dtype](x: E[N, M], y: f32[...S]) -> "
                     "(z: E[N, M], w: f32[...S]) {\n  z = x\n  w = y\n}\n";
  const sem_dim_value_t dims[] = {{"M", 4}};
  const tdsl_dtype_t dtypes[] = {TDSL_DTYPE_BF16, TDSL_DTYPE_F32};
  const int32_t ranks[] = {2, 3};
  sem_options_t o = {.entry = "f", .dim_count = 1, .dims = dims,
                     .arg_count = 2, .arg_dtypes = dtypes,
                     .arg_ranks = ranks, .need_values = true};
  sem_program_t *p = check_with(task, text, &none, &o);
  assert_int_equal(task->errors, 0);
  const sem_func_t *f = sem_find_entry(p, "f");
  assert_non_null(f);
  assert_int_equal(f->generic_count, 0);
  assert_int_equal(f->params[0]->type.dtype, TDSL_DTYPE_BF16);
  assert_int_equal(f->params[1]->type.rank, 3);
  int64_t m = 0;
  assert_true(ix_is_const(f->params[0]->type.dims[1].size, &m));
  assert_int_equal(m, 4);
  const ix_symbol_t *n = ix_as_symbol(f->params[0]->type.dims[0].size);
  assert_non_null(n);
  assert_int_equal(n->kind, IX_SYM_DYN);
  o.entry = "g";
  check_with(task, text, &none, &o);
  assert_string_equal(unit_first_id(task), "E44");
}

/* ---- the tree ------------------------------------------------------------ */

TASK_TEST(conversions_of_the_tree) {
  (void)arg;
  sem_program_t *p = check(task,
      "dyn N <= 8\n"
      "fn f(x: bf16[N], k: i32, d: f64) -> (y: bf16[N], z: f64, b: f32) {\n"
      "  y[i] = x[i] * 0.1 + f32(k)\n"
      "  z = d * 0.1 + N\n"
      "  b = if k > 2 then 1 else x[0 | 0] / N\n"
      "}\n");
  assert_int_equal(task->errors, 0);
  td_buf_t out;
  td_buf_init(&out, task);
  sem_print(&out, p);
  assert_non_null(strstr(out.data, "((x[i] * 0.1:f32):f32 + f32(k))"));
  assert_non_null(strstr(out.data, "((d * 0.1:f64) + widen.f64(N))"));
  assert_non_null(
      strstr(out.data, "if((k > 2), 1:f32, (x[0 | 0:f32] / widen.f32(N))"));
  td_buf_free(&out);
}

/* Facts are out of the tree: lowering sees N, not a new dim N/2. */
TASK_TEST(restored_dims) {
  (void)arg;
  sem_program_t *p = check(task,
      "fn f[N](x: f32[N]) -> y: f32[N] {\n  require N % 2 == 0\n"
      "  a[i in N / 2] = x[2*i] + x[2*i + 1]\n"
      "  y[i] = a[i / 2]\n}\n");
  assert_int_equal(task->errors, 0);
  const sem_func_t *f = p->funcs[0];
  const sem_type_t *a = &f->body->stmts[0]->targets[0].symbol->type;
  assert_string_equal(ix_text(&task->arena, a->dims[0].size), "N/2");
  const sem_type_t *y = &f->results[0]->type;
  assert_string_equal(ix_text(&task->arena, y->dims[0].size), "N");
  assert_ptr_equal(f->body->stmts[1]->indices[0]->extent, y->dims[0].size);
}

TASK_TEST(callees_first) {
  (void)arg;
  sem_program_t *p = check(task, "fn a(x: f32) -> f32 = b(x) + c(x)\n"
                                 "fn b(x: f32) -> f32 = c(x)\n"
                                 "fn c(x: f32) -> f32 = x\n");
  assert_int_equal(p->func_count, 3);
  assert_string_equal(p->funcs[0]->name, "c");
  assert_string_equal(p->funcs[1]->name, "b");
  assert_string_equal(p->funcs[2]->name, "a");
}

/* ---- memory -------------------------------------------------------------- */

static void check_small(td_task_t *task, void *arg) {
  (void)arg;
  td_buf_t out;
  sem_program_t *p = check(task,
      "dim N = 4\nstruct S { a: f32[N]; b: f32[N] }\n"
      "fn g(s: inout S, x: f32[N]) -> y: f32 {\n  s.a[i] := x[i]\n"
      "  y = sum[i where i > 1] s.a[i] * x[i]\n}\n"
      "fn f(s: inout S, x: f32[N]) -> y: f32 {\n  y = g(s, x)\n"
      "  each p in s { p := p * 2 }\n}\n");
  td_buf_init(&out, task);
  sem_print(&out, p);
  td_buf_free(&out);
}

static void failing_memory(void **state) {
  (void)state;
  unit_sweep(check_small, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reference_errors),
      cmocka_unit_test(samples_are_accepted),
      cmocka_unit_test(long_chains),
      cmocka_unit_test(many_data_in_one_sum),
      cmocka_unit_test(deep_chains_of_names),
      cmocka_unit_test(exploding_structs),
      cmocka_unit_test(errors_are_capped),
      cmocka_unit_test(modules),
      cmocka_unit_test(values_of_dims),
      cmocka_unit_test(groups_that_do_not_divide),
      cmocka_unit_test(any_function_as_entry),
      cmocka_unit_test(conversions_of_the_tree),
      cmocka_unit_test(restored_dims),
      cmocka_unit_test(callees_first),
      cmocka_unit_test(failing_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
