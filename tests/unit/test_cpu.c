/* The CPU run time below the device: thread pool and linker. */
#include "kir_llvm_lab.h"

#include "runtime/cpu/cpu_pool.h"

#include <stdatomic.h>

/* ---- pool ---------------------------------------------------------------- */

enum { MOST = 5000 };

typedef struct tally_t {
  atomic_int seen[MOST];
  atomic_int bad; /* pieces with a wrong worker or range */
  uint32_t threads;
} tally_t;

static void count_piece(void *context, uint32_t worker, int64_t begin,
                        int64_t end) {
  tally_t *t = context;
  if (worker >= t->threads || begin < 0 || end > MOST || begin >= end) {
    atomic_fetch_add(&t->bad, 1);
    return;
  }
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&t->seen[i], 1);
}

static void clear(tally_t *t, uint32_t threads) {
  t->threads = threads;
  atomic_init(&t->bad, 0);
  for (int i = 0; i < MOST; i++) atomic_init(&t->seen[i], 0);
}

static void test_pool_covers(void **state) {
  static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 1000, MOST};
  (void)state;
  tally_t *t = malloc(sizeof *t);
  assert_non_null(t);
  for (uint32_t threads = 1; threads <= 4; threads++) {
    rcpu_pool_t *pool = rcpu_pool_create(threads);
    assert_non_null(pool);
    assert_true(rcpu_pool_threads(pool) <= threads);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
      for (int repeat = 0; repeat < 20; repeat++) {
        clear(t, threads);
        rcpu_pool_run(pool, counts[c], count_piece, t);
        assert_int_equal(atomic_load(&t->bad), 0);
        for (int64_t i = 0; i < MOST; i++) {
          assert_int_equal(atomic_load(&t->seen[i]), i < counts[c]);
        }
      }
    }
    rcpu_pool_destroy(pool);
  }
  free(t);
  rcpu_pool_destroy(NULL);
}

typedef struct caller_t {
  rcpu_pool_t *pool;
  tally_t tally;
  bool ok;
} caller_t;

static void call_often(void *arg) {
  caller_t *c = arg;
  c->ok = true;
  for (int repeat = 0; repeat < 200; repeat++) {
    clear(&c->tally, rcpu_pool_threads(c->pool));
    rcpu_pool_run(c->pool, 37, count_piece, &c->tally);
    for (int64_t i = 0; i < MOST; i++) {
      c->ok &= atomic_load(&c->tally.seen[i]) == (i < 37);
    }
  }
}

/* Callers from several threads wait for each other. */
static void test_pool_callers(void **state) {
  (void)state;
  enum { CALLERS = 3 };
  rcpu_pool_t *pool = rcpu_pool_create(3);
  caller_t *callers = calloc(CALLERS, sizeof *callers);
  td_thread_t threads[CALLERS];
  assert_non_null(callers);
  for (int i = 0; i < CALLERS; i++) {
    callers[i].pool = pool;
    assert_true(td_thread_start(&threads[i], call_often, &callers[i], 0));
  }
  for (int i = 0; i < CALLERS; i++) {
    td_thread_join(&threads[i]);
    assert_true(callers[i].ok);
  }
  free(callers);
  rcpu_pool_destroy(pool);
}

/* ---- linker -------------------------------------------------------------- */

static const char add_text[] =
    "kernel add_one(in x: f32[N], out y: f32[N]) dims(N in 0..1000) {\n"
    "  loop.block i in 0 .. N { y[i] = x[i] + 1.0 }\n}\n";

TASK_TEST(test_refused_objects) {
  UNUSED_ARG;
  rcpu_code_t *code = rcpu_code_create(task);
  assert_non_null(code);
  static const char junk[64] = "this is no object file";
  bool added = rcpu_code_add(code, task, junk, sizeof junk);
  /* said when it is added or when something is asked of it */
  assert_true(!added || rcpu_code_find(code, task, "tk_add_one") == NULL);
  assert_true(task->diags.length > 0);
  assert_string_equal(unit_first_id(task), "B06");
  rcpu_code_destroy(code);
  rcpu_code_destroy(NULL);
}

TASK_TEST(test_missing_symbol) {
  UNUSED_ARG;
  lab_t lab;
  lab_open(&lab, task, add_text, ((const int64_t[]){4}));
  lab_code_t c = lab_compile(&lab, ir_target_host());
  assert_null(rcpu_code_find(c.code, task, "tk_other"));
  assert_string_equal(unit_first_id(task), "B06");
  assert_non_null(strstr(task->diags.data[0]->text, "tk_other"));
  rcpu_code_destroy(c.code);
  lab_close(&lab);
}

/* Kernels of two modules and of two code objects do not meet. */
TASK_TEST(test_two_libraries) {
  UNUSED_ARG;
  lab_t a, b;
  lab_open(&a, task, add_text, ((const int64_t[]){8}));
  lab_open(&b, task,
           "kernel add_one(in x: f32[N], out y: f32[N]) dims(N in 0..1000) {\n"
           "  loop.block i in 0 .. N { y[i] = x[i] + 2.0 }\n}\n",
           ((const int64_t[]){8}));
  lab_code_t ca = lab_compile(&a, ir_target_host());
  lab_code_t cb = lab_compile(&b, ir_target_host());
  lab_copy(&a);
  lab_copy(&b);
  lab_call(&a, ca, 0);
  rcpu_code_destroy(ca.code);
  lab_call(&b, cb, 0);
  rcpu_code_destroy(cb.code);
  for (int i = 0; i < 8; i++) {
    float x = ((float *)a.other[0])[i];
    assert_true(((float *)a.other[1])[i] == x + 1.0f);
    x = ((float *)b.other[0])[i];
    assert_true(((float *)b.other[1])[i] == x + 2.0f);
  }
  lab_close(&a);
  lab_close(&b);
}

typedef struct compile_t {
  const char *object;
  size_t bytes;
  bool ok;
} compile_t;

static void compile_body(td_task_t *task, void *arg) {
  compile_t *c = arg;
  td_arena_t arena;
  td_arena_init(&arena, task);
  const kir_kernel_t *kernels[1] = {lab_parse(task, &arena, add_text)};
  cgl_output_t out;
  cgl_compile(task, &arena, kernels, 1, ir_target_host(), CGL_OBJECT, &out);
  char *copy = malloc(out.bytes);
  assert_non_null(copy);
  memcpy(copy, out.data, out.bytes);
  c->object = copy;
  c->bytes = out.bytes;
  td_arena_free_all(&arena);
}

static void compile_thread(void *arg) {
  td_task_t task;
  td_task_init(&task, NULL);
  compile_t *c = arg;
  c->ok = td_task_run(&task, compile_body, arg) == TDSL_STATUS_OK;
  td_task_free(&task);
}

/* Compiles at the same time do not disturb each other, and the same kernel
   gives the same bytes. */
static void test_compile_threads(void **state) {
  enum { THREADS = 4 };
  (void)state;
  td_thread_t threads[THREADS];
  compile_t c[THREADS] = {{NULL, 0, false}};
  for (int i = 0; i < THREADS; i++) {
    assert_true(td_thread_start(&threads[i], compile_thread, &c[i], 0));
  }
  for (int i = 0; i < THREADS; i++) td_thread_join(&threads[i]);
  for (int i = 0; i < THREADS; i++) {
    assert_true(c[i].ok);
    assert_int_equal(c[i].bytes, c[0].bytes);
    assert_memory_equal(c[i].object, c[0].object, c[0].bytes);
  }
  for (int i = 0; i < THREADS; i++) free((void *)(uintptr_t)c[i].object);
}

/* Every allocation of the emitter fails once; what LLVM holds is closed. */
static void memory_body(td_task_t *task, void *arg) {
  td_arena_t arena;
  (void)arg;
  td_arena_init(&arena, task);
  const kir_kernel_t *kernels[1] = {lab_parse(task, &arena, add_text)};
  cgl_output_t out;
  cgl_compile(task, &arena, kernels, 1, ir_target_host(), CGL_OBJECT, &out);
  assert_true(out.bytes > 0);
  td_arena_free_all(&arena);
}

static void test_memory(void **state) {
  (void)state;
  unit_sweep(memory_body, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pool_covers),
      cmocka_unit_test(test_pool_callers),
      cmocka_unit_test(test_refused_objects),
      cmocka_unit_test(test_missing_symbol),
      cmocka_unit_test(test_two_libraries),
      cmocka_unit_test(test_compile_threads),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
