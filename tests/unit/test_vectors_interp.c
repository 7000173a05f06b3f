/* Every program of the reference vectors, from text through the checker and
 * lowering to the interpreter of the tensor IR.
 *
 * The expected values come from an independent evaluator and from formulas
 * written for the case (tests/vectors/README.md).  In the f64 mode narrow
 * results and integers must be exact and f32 results agree to 1e-8; in the
 * f32 mode the tolerance of the case holds.  The functions `with test` of the
 * samples carry their expectations in their text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <math.h>

#include <cmocka.h>

#include "frontend/lower.h"
#include "frontend/parse.h"
#include "runtime/base/num.h"
#include "runtime/base/os.h"
#include "runtime/io/config.h"
#include "runtime/io/values.h"
#include "vector_list.h"

typedef struct run {
  td_task_t *task;
  td_arena_t arena;
  const char *folder; /* of the program */
  io_config_t config;
  const io_case_t *c;
  bool is_test;     /* run the functions `with test` */
  int cases, tests; /* counted */
  int failures;
} run_t;

/* ---- sources and config ------------------------------------------------- */

static uint32_t add_source(run_t *r, const char *path) {
  td_str_t text;
  if (!td_os_exists(path) ||
      !td_os_read_file(r->task, path, 0, &r->arena, &text))
    return 0;
  return td_sources_add(r->task, path, text.data, text.length);
}

static uint32_t import_module(void *user, td_task_t *task, uint32_t from,
                              const char *name) {
  run_t *r = user;
  (void)task;
  (void)from;
  uint32_t file = add_source(
      r, td_arena_printf(&r->arena, "%s/%s.tdsl", r->folder, name));
  if (file != 0) return file;
  return add_source(r, td_arena_printf(&r->arena, "%s/stdlib/%s.tdsl",
                                       TDSL_SOURCE_DIR, name));
}

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

/* ---- tensors ------------------------------------------------------------ */

static bool is_wide(tir_mode_t mode, tdsl_dtype_t dtype) {
  return mode == TIR_F64 && dtype == TDSL_DTYPE_F32;
}

static size_t element_bytes(tir_mode_t mode, tdsl_dtype_t dtype) {
  return is_wide(mode, dtype) ? 8 : td_dtype_bytes(dtype);
}

static double get(tir_mode_t mode, tdsl_dtype_t dtype, const void *data,
                  size_t i) {
  const char *p = (const char *)data + i * element_bytes(mode, dtype);
  return td_load_f64(is_wide(mode, dtype) ? TDSL_DTYPE_F64 : dtype, p);
}

static size_t count_of(const tir_tensor_t *t) {
  size_t n = 1;
  for (uint32_t i = 0; i < t->rank; i++) n *= (size_t)t->dims[i];
  return n;
}

/* The interpreter's own copy of an input. */
static void copy_in(run_t *r, tir_mode_t mode, const io_tensor_t *from,
                    tdsl_dtype_t dtype, tir_tensor_t *to) {
  *to = (tir_tensor_t){.dtype = dtype, .rank = (uint32_t)from->rank};
  for (int i = 0; i < from->rank; i++) to->dims[i] = from->dims[i];
  size_t bytes = element_bytes(mode, dtype);
  to->data = td_arena_alloc(&r->arena, from->count * bytes + 1);
  for (size_t i = 0; i < from->count; i++) {
    const char *p =
        (const char *)from->data + i * td_dtype_bytes(from->dtype);
    char *q = (char *)to->data + i * bytes;
    if (td_dtype_is_float(dtype))
      td_store_f64(is_wide(mode, dtype) ? TDSL_DTYPE_F64 : dtype, q,
                   td_load_f64(from->dtype, p));
    else
      td_store_i64(dtype, q, td_load_i64(from->dtype, p));
  }
}

/* ---- dims of an entry --------------------------------------------------- */

typedef struct binding {
  const tir_func_t *func;
  int64_t *values;
  bool *bound;
  const ix_symbol_t *unknown; /* met by dim_value */
  bool several;               /* more than one */
  int64_t trial;
} binding_t;

static bool dim_value(void *user, const ix_symbol_t *s, int64_t *out) {
  binding_t *b = user;
  for (uint32_t i = 0; i < b->func->dim_count; i++) {
    if (b->func->dims[i] != s) continue;
    if (!b->bound[i] && b->unknown != NULL && b->unknown != s)
      b->several = true;
    if (!b->bound[i]) b->unknown = s;
    *out = b->bound[i] ? b->values[i] : b->trial;
    return true;
  }
  return false;
}

/* Solves a dim for its one unknown name, linearly, or compares.  A dim with
 * several waits for the second pass. */
static bool bind_dim(binding_t *b, const ix_poly_t *dim, int64_t size) {
  int64_t at0, at1;
  b->unknown = NULL;
  b->several = false;
  b->trial = 0;
  if (!ix_eval(dim, dim_value, b, &at0)) return false;
  if (b->several) return true;
  if (b->unknown == NULL) return at0 == size;
  b->trial = 1;
  if (!ix_eval(dim, dim_value, b, &at1) || at1 == at0) return true;
  for (uint32_t i = 0; i < b->func->dim_count; i++) {
    if (b->func->dims[i] != b->unknown) continue;
    b->values[i] = (size - at0) / (at1 - at0);
    b->bound[i] = true;
  }
  return true;
}

/* ---- one call ----------------------------------------------------------- */

static void complain(run_t *r, const char *what, const char *detail) {
  r->failures++;
  (void)fprintf(stderr, "  %s %s: %s %s\n", r->folder,
                r->c != NULL ? r->c->name : "", what, detail);
  for (size_t i = 0; i < r->task->diags.length; i++) {
    td_buf_t text;
    td_buf_init(&text, r->task);
    td_diag_render(&text, r->task, r->task->diags.data[i], false);
    (void)fputs(text.data, stderr);
    td_buf_free(&text);
  }
  r->task->diags.length = 0;
}

static const io_tolerance_t *tolerance(const run_t *r, const char *path) {
  for (size_t i = 0; i < r->c->tolerances.length; i++)
    if (strcmp(r->c->tolerances.data[i].path, path) == 0)
      return &r->c->tolerances.data[i];
  return NULL;
}

static void compare(run_t *r, tir_mode_t mode, const io_leaf_t *want,
                    const tir_tensor_t *got) {
  double absolute = 0, relative = 0;
  const io_tolerance_t *t = tolerance(r, want->name);
  bool is_f32 = got->dtype == TDSL_DTYPE_F32;
  if (mode == TIR_F64 && is_f32) relative = 1e-8;
  if (mode == TIR_F32 && t != NULL) {
    absolute = t->absolute;
    relative = t->relative;
  }
  size_t n = count_of(got);
  if (n != want->tensor.count) {
    complain(r, "shape of", want->name);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    double a = get(mode, got->dtype, got->data, i);
    double b = get(TIR_F32, want->tensor.dtype, want->tensor.data, i);
    bool is_near = a == b || (isnan(a) && isnan(b)) ||
                   fabs(a - b) <= absolute + relative * fabs(b);
    if (is_near) continue;
    complain(r, "value of",
             td_arena_printf(&r->arena, "%s[%zu]: got %g want %g (%s mode)",
                             want->name, i, a, b,
                             mode == TIR_F64 ? "f64" : "f32"));
    return;
  }
}

/* slot of a leaf, or -1 */
static int find_slot(const tir_func_t *f, const char *name) {
  for (uint32_t i = 0; i < f->slot_count; i++)
    if (strcmp(f->slots[i].name, name) == 0) return (int)i;
  return -1;
}

static void default_scalar(run_t *r, tir_mode_t mode, const tir_slot_t *slot,
                           tir_tensor_t *to) {
  io_tensor_t t = {.dtype = TDSL_DTYPE_F64, .count = 1};
  bool is_float = td_dtype_is_float(slot->value->dtype);
  t.dtype = is_float ? TDSL_DTYPE_F64 : TDSL_DTYPE_I64;
  t.data = td_arena_alloc(&r->arena, 16);
  if (is_float)
    td_store_f64(t.dtype, t.data, slot->default_f64);
  else
    td_store_i64(t.dtype, t.data, slot->default_i64);
  copy_in(r, mode, &t, slot->value->dtype, to);
}

static bool bind_inputs(run_t *r, tir_mode_t mode, const tir_func_t *f,
                        tir_tensor_t *tensors, binding_t *b) {
  for (uint32_t i = 0; i < f->slot_count; i++) {
    const tir_slot_t *slot = &f->slots[i];
    if (slot->kind == TIR_OUT) continue;
    const io_leaf_t *leaf = io_leaves_find(&r->c->args, td_str(slot->name));
    if (leaf == NULL && slot->else_slot >= 0)
      leaf = io_leaves_find(&r->c->args,
                            td_str(f->slots[slot->else_slot].name));
    if (leaf == NULL) {
      if (!slot->has_default) {
        complain(r, "no argument for", slot->name);
        return false;
      }
      default_scalar(r, mode, slot, &tensors[i]);
      continue;
    }
    copy_in(r, mode, &leaf->tensor, slot->value->dtype, &tensors[i]);
    if ((uint32_t)leaf->tensor.rank != slot->value->rank) {
      complain(r, "rank of", slot->name);
      return false;
    }
  }
  /* Twice, for dims with two names such as B*T. */
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < f->slot_count; i++) {
      const tir_slot_t *slot = &f->slots[i];
      for (uint32_t k = 0; slot->value != NULL && k < slot->value->rank; k++)
        if (!bind_dim(b, slot->value->dims[k], tensors[i].dims[k])) {
          complain(r, "dims of", slot->name);
          return false;
        }
    }
  return true;
}

static void compare_all(run_t *r, tir_mode_t mode, const tir_func_t *f,
                        const io_leaves_t *want,
                        const tir_tensor_t *tensors) {
  for (size_t i = 0; i < want->length; i++) {
    int slot = find_slot(f, want->data[i].name);
    if (slot < 0)
      complain(r, "no slot", want->data[i].name);
    else
      compare(r, mode, &want->data[i], &tensors[slot]);
  }
}

static void run_case(run_t *r, const tir_module_t *m, const tir_func_t *f,
                     tir_mode_t mode) {
  tir_tensor_t *tensors =
      TD_NEW_ARRAY(&r->arena, tir_tensor_t, f->slot_count);
  binding_t b = {f, TD_NEW_ARRAY(&r->arena, int64_t, f->dim_count),
                 TD_NEW_ARRAY(&r->arena, bool, f->dim_count), NULL, false, 0};
  if (!bind_inputs(r, mode, f, tensors, &b)) return;
  tir_interp_options_t options = {.mode = mode, .checks = 2};
  size_t calls = r->c->sequence.length > 0 ? r->c->sequence.length : 1;
  for (size_t call = 0; call < calls; call++) {
    if (!tir_interpret(r->task, &r->arena, m, f, b.values, tensors,
                       &options)) {
      complain(r, "cannot run", f->name);
      return;
    }
    if (r->c->sequence.length == 0) continue;
    for (uint32_t i = 0; i < f->slot_count; i++) {
      if (f->slots[i].kind != TIR_OUT) continue;
      io_leaf_t want = r->c->sequence.data[call];
      want.name = f->slots[i].name;
      double got = get(mode, tensors[i].dtype, tensors[i].data, 0);
      double listed = td_load_f64(want.tensor.dtype, want.tensor.data);
      if (fabs(got - listed) > 1e-5 * fabs(listed))
        complain(r, "call of a sequence", want.name);
    }
  }
  compare_all(r, mode, f, &r->c->results, tensors);
  compare_all(r, mode, f, &r->c->state, tensors);
}

/* ---- one program -------------------------------------------------------- */

static const ast_decl_t *find_decl(const ast_file_t *file, const char *fn) {
  for (size_t i = 0; i < file->decl_count; i++)
    if (file->decls[i]->kind == AST_DECL_FN &&
        strcmp(file->decls[i]->name.text, fn) == 0)
      return file->decls[i];
  return NULL;
}

/* What prints must read back and print the same. */
static void check_text(run_t *r, const tir_module_t *m) {
  td_buf_t first, second;
  td_buf_init(&first, r->task);
  td_buf_init(&second, r->task);
  tir_print(&first, m);
  uint32_t file =
      td_sources_add(r->task, "printed.tir", first.data, first.length);
  const tir_module_t *back = tir_parse(r->task, &r->arena, file);
  if (back == NULL || !tir_verify(r->task, back, "parse", true)) {
    complain(r, "printed text is refused", "");
    return;
  }
  tir_print(&second, back);
  if (!td_str_eq(td_buf_view(&first), td_buf_view(&second)))
    complain(r, "print, parse, print differs", "");
}

/* Lowers FN of the program in `path` (NULL: its tests). */
static tir_module_t *compile(run_t *r, const char *path, const char *fn) {
  uint32_t file = add_source(r, path);
  if (file == 0) {
    complain(r, "cannot read", path);
    return NULL;
  }
  sem_options_t o = {.config = config_value,
                     .import = import_module,
                     .user = r,
                     .mesh_none = true,
                     .need_values = true,
                     .entry = fn};
  TD_VEC(sem_dim_value_t) dims = {0};
  TD_VEC(tdsl_dtype_t) dtypes = {0};
  TD_VEC(int32_t) ranks = {0};
  if (r->c != NULL) {
    for (size_t i = 0; i < r->c->dims.length; i++)
      td_vec_push(&r->arena, &dims,
                  (sem_dim_value_t){r->c->dims.data[i].name,
                                    r->c->dims.data[i].value});
    const ast_decl_t *decl =
        find_decl(ast_parse(r->task, &r->arena, file), fn);
    for (size_t i = 0; decl != NULL && i < decl->param_count; i++) {
      const io_leaf_t *leaf =
          io_leaves_find(&r->c->args, td_str(decl->params[i].name.text));
      td_vec_push(&r->arena, &dtypes,
                  leaf != NULL ? leaf->tensor.dtype : TDSL_DTYPE_UNSET);
      td_vec_push(&r->arena, &ranks,
                  leaf != NULL ? (int32_t)leaf->tensor.rank : -1);
    }
  }
  o.dim_count = (uint32_t)dims.length;
  o.dims = dims.data;
  o.arg_count = (uint32_t)dtypes.length;
  o.arg_dtypes = dtypes.data;
  o.arg_ranks = ranks.data;
  sem_program_t *p = sem_check(r->task, &r->arena, file, &o);
  if (td_task_errors(r->task) > 0) {
    complain(r, "refused", path);
    return NULL;
  }
  tir_module_t *m;
  if (fn != NULL) {
    const sem_func_t *entry = sem_find_entry(p, fn);
    if (entry == NULL) {
      complain(r, "no entry", fn);
      return NULL;
    }
    if (entry->has_grad) return NULL; /* refused with B01 */
    m = lower_program(r->task, &r->arena, p, entry);
  } else {
    TD_VEC(const sem_func_t *) tests = {0};
    for (uint32_t i = 0; i < p->func_count; i++)
      if (p->funcs[i]->is_test)
        td_vec_push(&r->arena, &tests, p->funcs[i]);
    m = lower_funcs(r->task, &r->arena, p, (uint32_t)tests.length,
                    tests.data);
  }
  if (m == NULL) {
    complain(r, "cannot lower", path);
    return NULL;
  }
  tir_verify(r->task, m, "lower", false);
  check_text(r, m);
  return m;
}

static const char *program_path(run_t *r, const char *name) {
  if (strcmp(name, "nn") == 0 || strcmp(name, "softmax") == 0) {
    r->folder = TDSL_SOURCE_DIR "/stdlib";
  } else if (strcmp(name, "lowering") == 0) {
    r->folder = TDSL_TESTS_DIR "/exec";
  } else {
    r->folder = td_arena_printf(&r->arena, "%s/examples/%s",
                                TDSL_SOURCE_DIR, name);
  }
  return td_arena_printf(&r->arena, "%s/%s.tdsl", r->folder, name);
}

static void work(td_task_t *task, void *arg) {
  run_t *r = arg;
  r->task = task;
  td_arena_init(&r->arena, task);
  td_map_init(&r->config.values, &r->arena);
  const char *path = program_path(r, r->folder);
  if (r->is_test) {
    tir_module_t *m = compile(r, path, NULL);
    if (m == NULL) return;
    for (uint32_t i = 0; i < m->func_count; i++) {
      for (int mode = 0; mode < 2; mode++) {
        tir_interp_options_t o = {.mode = (tir_mode_t)mode, .checks = 2};
        if (!tir_interpret(task, &r->arena, m, m->funcs[i], NULL, NULL, &o))
          complain(r, "test failed:", m->funcs[i]->name);
      }
      r->tests++;
    }
    return;
  }
  if (r->c->config.length > 0) {
    uint32_t file = td_sources_add(task, "config", r->c->config.data,
                                   r->c->config.length);
    if (!io_config_parse(task, &r->arena, file, r->c->config, &r->config)) {
      complain(r, "config", "");
      return;
    }
  }
  tir_module_t *m = compile(r, path, r->c->fn);
  if (m == NULL) return;
  run_case(r, m, m->funcs[0], TIR_F64);
  run_case(r, m, m->funcs[0], TIR_F32);
  r->cases++;
}

/* Each case in a task of its own, so that one fault does not hide others. */
static int run_one(const char *name, const io_case_t *c, int *counted) {
  td_task_t task;
  td_task_init(&task, NULL);
  run_t r = {.folder = name, .c = c, .is_test = c == NULL};
  tdsl_status_t status = td_task_run(&task, work, &r);
  if (status != TDSL_STATUS_OK) complain(&r, "unwound:", task.message);
  *counted += r.cases + r.tests;
  td_task_free(&task);
  return r.failures;
}

typedef struct file_job {
  const char *name;
  int failures, counted;
} file_job_t;

static void run_file(td_task_t *task, void *arg) {
  file_job_t *job = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  const char *path = td_arena_printf(&arena, "%s/vectors/%s.json",
                                     TDSL_TESTS_DIR, job->name);
  td_str_t text;
  io_cases_t cases = {0};
  assert_true(td_os_read_file(task, path, 0, &arena, &text));
  uint32_t file = td_sources_add_file(task, path);
  assert_true(io_cases_parse(task, &arena, file, text, &cases));
  /* f32 results are listed to nine digits, which reading them as f64 keeps;
   * what they are compared with has not been rounded to f32 either. */
  char *copy = td_arena_alloc(&arena, text.length + 1);
  memcpy(copy, text.data, text.length);
  for (char *p = copy; (p = strstr(p, "\"f32\"")) != NULL;)
    memcpy(p, "\"f64\"", 5);
  io_cases_t wide = {0};
  assert_true(io_cases_parse(task, &arena, file,
                             td_str_n(copy, text.length), &wide));
  for (size_t i = 0; i < cases.cases.length; i++) {
    io_case_t *c = &cases.cases.data[i];
    c->results = wide.cases.data[i].results;
    c->state = wide.cases.data[i].state;
    c->sequence = wide.cases.data[i].sequence;
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

static void check_tests(const char *name, int expected) {
  int counted = 0;
  assert_int_equal(run_one(name, NULL, &counted), 0);
  assert_int_equal(counted, expected);
}

#define VECTORS(name, count)                                                  \
  static void vectors_##name(void **state) {                                  \
    (void)state;                                                              \
    check_vectors(#name, count);                                              \
  }
#define TESTS(name, count)                                                    \
  static void tests_##name(void **state) {                                    \
    (void)state;                                                              \
    check_tests(#name, count);                                                \
  }

/* The number of cases that need no grad. */
VECTOR_FILES(VECTORS)
TEST_FILES(TESTS)

int main(void) {
  const struct CMUnitTest tests[] = {
#define VECTORS_ROW(name, count) cmocka_unit_test(vectors_##name),
#define TESTS_ROW(name, count) cmocka_unit_test(tests_##name),
      VECTOR_FILES(VECTORS_ROW) TEST_FILES(TESTS_ROW)
  };
  return cmocka_run_group_tests_name("vectors", tests, NULL, NULL);
}
