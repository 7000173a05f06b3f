/* Memory that stays on a device, steps as graphs, contexts beside each other:
   the simulated GPU behind the public interface. */
#include <pthread.h>

#include "api.h"

enum { STEPS = 6, ROWS = 300 };

/* s is the state; w a weight; n decides how much is done. */
static const char program_text[] =
    "dyn N <= 1000\n"
    "export fn step(w: f32[N], s: inout f32[N], k: f32 = 2) -> "
    "(y: f32[N], t: f32) {\n"
    "  y[i] = k * s[i] + w[i]\n"
    "  t = sum[i] s[i]\n"
    "  s[i] := s[i] + w[i]\n"
    "}\n";

typedef struct gpu {
  tdsl_context_t *context;
  tdsl_program_t *program;
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  tdsl_error_t *error;
} gpu_t;

/* False where there is no NVRTC. */
static int open_gpu(gpu_t *g) {
  memset(g, 0, sizeof *g);
  tdsl_compile_desc_t desc = source(program_text, "sim:h100");
  must(tdsl_context_create(NULL, &g->context, &g->error), g->error);
  tdsl_status_t status =
      tdsl_program_compile(g->context, &desc, &g->program, &g->error);
  if (status == TDSL_STATUS_UNAVAILABLE) {
    must_fail(status, g->error, status, "B05");
    tdsl_context_destroy(g->context);
    return 0;
  }
  must(status, g->error);
  must(tdsl_executable_create(g->program, tdsl_program_get_entry(g->program, 0),
                              &g->exe, &g->error), g->error);
  must(tdsl_run_create(g->exe, &g->run, &g->error), g->error);
  return 1;
}

static void close_gpu(gpu_t *g) {
  tdsl_run_destroy(g->run);
  tdsl_executable_release(g->exe);
  tdsl_program_release(g->program);
  tdsl_context_destroy(g->context);
}

static tdsl_buffer_t *row_of(gpu_t *g, int64_t n) {
  tdsl_tensor_desc_t d = {TDSL_DTYPE_F32, 1, {n}};
  tdsl_buffer_t *b = NULL;
  must(tdsl_buffer_create(g->context, &d, &b, &g->error), g->error);
  return b;
}

static void set(gpu_t *g, uint32_t slot, tdsl_buffer_t *b) {
  must(tdsl_run_set_buffer(g->run, slot, b, &g->error), g->error);
}

static tdsl_run_stats_t execute(gpu_t *g) {
  tdsl_run_stats_t stats = {.struct_bytes = sizeof stats};
  must(tdsl_run_execute(g->run, &g->error), g->error);
  (void)tdsl_run_get_stats(g->run, &stats);
  return stats;
}

static void fill(tdsl_buffer_t *b, float value) {
  float *data = tdsl_buffer_get_data(b);
  for (uint64_t i = 0; i < tdsl_buffer_get_count(b); i++) data[i] = value;
}

static double result(gpu_t *g, uint32_t slot, uint64_t i) {
  return tdsl_buffer_read_float(tdsl_run_get_buffer(g->run, slot), i);
}

/* Values given as text: nobody has a pointer to them. */
static void inputs(gpu_t *g, int n, int state) {
  static char spec[16384];
  tdsl_inputs_t *in = NULL;
  must(tdsl_inputs_create(g->context, &in, &g->error), g->error);
  for (int which = 0; which < 2; which++) {
    int at = snprintf(spec, sizeof spec,
                      "%s={\"dtype\": \"f32\", \"shape\": [%d], \"data\": [",
                      which ? "s" : "w", n);
    for (int i = 0; i < n; i++) {
      at += snprintf(spec + at, sizeof spec - (size_t)at, "%s%d",
                     i ? "," : "", which ? state : 3);
    }
    (void)snprintf(spec + at, sizeof spec - (size_t)at, "]}");
    must(tdsl_inputs_add(in, text(spec), &g->error), g->error);
  }
  must(tdsl_run_set_inputs(g->run, in, &g->error), g->error);
  tdsl_inputs_destroy(in);
}

/* ---- what is copied ------------------------------------------------------ */

static void contents_stay(void **state) {
  (void)state;
  gpu_t g;
  if (!open_gpu(&g)) skip();
  inputs(&g, ROWS, 1);
  for (int i = 0; i < STEPS; i++) {
    tdsl_run_stats_t stats = execute(&g);
    /* w and s go over once; the scalar in every run, in a cell of 16 bytes */
    assert_int_equal(stats.upload_bytes, i == 0 ? 2 * 4 * ROWS + 16 : 16);
    assert_int_equal(stats.download_bytes, 0);
    assert_int_equal(stats.is_replayed, i > 0);
    assert_int_equal(stats.arena_bytes, stats.planned_bytes);
    assert_true(stats.launch_count > 0);
  }
  /* s was 1, 4, 7 ...; y and t are of the last step's s */
  for (uint64_t k = 0; k < ROWS; k++) {
    assert_true(result(&g, 1, k) == 1 + 3 * STEPS);
    assert_true(result(&g, 3, k) == 2 * (1 + 3 * (STEPS - 1)) + 3);
  }
  assert_true(result(&g, 4, 0) == ROWS * (1 + 3 * (STEPS - 1)));
  /* reading does not end it */
  tdsl_run_stats_t stats = execute(&g);
  assert_int_equal(stats.upload_bytes, 16);
  assert_true(result(&g, 1, 0) == 1 + 3 * (STEPS + 1));
  close_gpu(&g);
}

/* A pointer that the host has is good at any time. */
static void pointers_are_good(void **state) {
  (void)state;
  gpu_t g;
  if (!open_gpu(&g)) skip();
  tdsl_buffer_t *w = row_of(&g, ROWS), *s = row_of(&g, ROWS);
  fill(w, 1);
  fill(s, 0);
  set(&g, 0, w);
  set(&g, 1, s);
  float *data = tdsl_buffer_get_data(s), *weight = tdsl_buffer_get_data(w);
  for (int i = 1; i <= STEPS; i++) {
    tdsl_run_stats_t stats = execute(&g);
    assert_int_equal(stats.upload_bytes, 2 * 4 * ROWS + 16);
    assert_int_equal(stats.download_bytes, 4 * ROWS);
    float want = (float)(10 * (i - 1) + i);
    for (int k = 0; k < ROWS; k++) assert_true(data[k] == want);
    for (int k = 0; k < ROWS; k++) data[k] += 10;
    assert_int_equal(stats.is_replayed, i > 1);
  }
  weight[7] = 100;
  (void)execute(&g);
  assert_true(data[7] - data[6] == 99);
  tdsl_buffer_release(w);
  tdsl_buffer_release(s);
  close_gpu(&g);
}

static void a_promise_keeps_it_there(void **state) {
  (void)state;
  gpu_t g;
  if (!open_gpu(&g)) skip();
  tdsl_buffer_t *w = row_of(&g, ROWS), *s = row_of(&g, ROWS);
  must(tdsl_buffer_set_resident(w, 1, &g.error), g.error);
  must(tdsl_buffer_set_resident(s, 1, &g.error), g.error);
  fill(w, 2);
  fill(s, 5);
  set(&g, 0, w);
  set(&g, 1, s);
  assert_int_equal(execute(&g).upload_bytes, 2 * 4 * ROWS + 16);
  tdsl_run_stats_t stats = execute(&g);
  assert_int_equal(stats.upload_bytes, 16);
  assert_int_equal(stats.download_bytes, 0);
  float *data = tdsl_buffer_get_data(s);
  for (int k = 0; k < ROWS; k++) assert_true(data[k] == 9);
  data[3] = 100; /* before the next run, as promised */
  assert_int_equal(execute(&g).upload_bytes, 4 * ROWS + 16);
  assert_true(tdsl_buffer_read_float(s, 3) == 102);
  assert_true(tdsl_buffer_read_float(s, 4) == 11);
  /* the promise is taken back */
  must(tdsl_buffer_set_resident(s, 0, &g.error), g.error);
  assert_int_equal(execute(&g).download_bytes, 4 * ROWS);
  tdsl_buffer_release(w);
  tdsl_buffer_release(s);
  close_gpu(&g);
}

/* The same buffers on a device with memory of its own and on the host's. */
static void devices_take_turns(void **state) {
  (void)state;
  gpu_t g;
  if (!open_gpu(&g)) skip();
  tdsl_compile_desc_t desc = source(program_text, "interp");
  tdsl_program_t *program = NULL;
  tdsl_executable_t *exe = NULL;
  tdsl_run_t *other = NULL;
  must(tdsl_program_compile(g.context, &desc, &program, &g.error), g.error);
  must(tdsl_executable_create(program, tdsl_program_get_entry(program, 0),
                              &exe, &g.error), g.error);
  must(tdsl_run_create(exe, &other, &g.error), g.error);
  tdsl_buffer_t *w = row_of(&g, ROWS), *s = row_of(&g, ROWS);
  for (int i = 0; i < 2; i++) {
    tdsl_buffer_t *b = i ? s : w;
    must(tdsl_buffer_set_resident(b, 1, &g.error), g.error);
    fill(b, 1);
    set(&g, (uint32_t)i, b);
    must(tdsl_run_set_buffer(other, (uint32_t)i, b, &g.error), g.error);
  }
  for (int i = 0; i < STEPS; i++) {
    (void)execute(&g);
    must(tdsl_run_execute(other, &g.error), g.error);
  }
  assert_true(tdsl_buffer_read_float(s, 0) == 1 + 2 * STEPS);
  tdsl_buffer_release(w);
  tdsl_buffer_release(s);
  tdsl_run_destroy(other);
  tdsl_executable_release(exe);
  tdsl_program_release(program);
  close_gpu(&g);
}

/* ---- graphs -------------------------------------------------------------- */

/* Replayed only where everything is the same, and to the bit what the steps
   make one by one. */
static void graphs_are_invalidated(void **state) {
  (void)state;
  gpu_t g, plain;
  if (!open_gpu(&g)) skip();
  assert_int_equal(setenv("TDSL_GRAPHS", "off", 1), 0);
  assert_true(open_gpu(&plain));
  assert_int_equal(unsetenv("TDSL_GRAPHS"), 0);
  static const int sizes[] = {64, 64, 64, 65, 65, 64, 64, 0, 0, 1, 1, 1};
  int last = -1;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    if (sizes[i] != last) {
      inputs(&g, sizes[i], (int)i);
      inputs(&plain, sizes[i], (int)i);
    }
    tdsl_run_stats_t stats = execute(&g);
    assert_int_equal(setenv("TDSL_GRAPHS", "off", 1), 0);
    assert_int_equal(execute(&plain).is_replayed, 0);
    assert_int_equal(unsetenv("TDSL_GRAPHS"), 0);
    assert_int_equal(stats.is_replayed, sizes[i] == last);
    last = sizes[i];
    for (uint32_t slot = 1; slot < 5; slot++) {
      if (slot == 2) continue;
      uint64_t n = slot == 4 ? 1 : (uint64_t)sizes[i];
      for (uint64_t k = 0; k < n; k++) {
        double a = result(&g, slot, k), b = result(&plain, slot, k);
        assert_memory_equal(&a, &b, sizeof a);
      }
    }
  }
  /* a scalar may change, a buffer may not */
  inputs(&g, 10, 4);
  (void)execute(&g);
  must(tdsl_run_set_float(g.run, 2, 5, &g.error), g.error);
  assert_int_equal(execute(&g).is_replayed, 1);
  assert_true(result(&g, 3, 9) == 5 * 7 + 3);
  tdsl_buffer_t *w = row_of(&g, 10);
  fill(w, 1);
  set(&g, 0, w);
  assert_int_equal(execute(&g).is_replayed, 0);
  assert_true(result(&g, 3, 9) == 5 * 10 + 1);
  assert_int_equal(execute(&g).is_replayed, 1);
  assert_true(result(&g, 3, 9) == 5 * 11 + 1);
  tdsl_buffer_release(w);
  close_gpu(&g);
  close_gpu(&plain);
}

/* ---- contexts beside each other ------------------------------------------ */

typedef struct worker {
  pthread_t thread;
  int number, good;
} worker_t;

static void *work(void *arg) {
  worker_t *w = arg;
  gpu_t g;
  if (!open_gpu(&g)) return NULL;
  inputs(&g, 40 + w->number, w->number);
  for (int i = 0; i < STEPS; i++) (void)execute(&g);
  w->good = result(&g, 1, 39) == w->number + 3 * STEPS;
  close_gpu(&g);
  return NULL;
}

static void two_contexts_two_threads(void **state) {
  (void)state;
  gpu_t g;
  if (!open_gpu(&g)) skip();
  worker_t workers[2] = {{.number = 1}, {.number = 2}};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(
        pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    assert_true(workers[i].good);
  }
  close_gpu(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contents_stay),
      cmocka_unit_test(pointers_are_good),
      cmocka_unit_test(a_promise_keeps_it_there),
      cmocka_unit_test(devices_take_turns),
      cmocka_unit_test(graphs_are_invalidated),
      cmocka_unit_test(two_contexts_two_threads),
  };
  return cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
