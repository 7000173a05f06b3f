/* One executable in many threads, contexts beside each other, objects that
   end in other threads than they began in: on every engine, all at a time.
   Data are small integers, so that sums are exact and any difference is a
   fault. */
#include <pthread.h>

#include "api.h"

enum { THREADS = 4, WEIGHTS = 2, MOST = 64 };

static const char program_text[] =
    "dyn M <= 64, N <= 64\n"
    "export fn f(w: f32[M, N], s: inout f32[M], x: f32[N], k: f32 = 2) ->\n"
    "    (y: f32[M], t: f32) {\n"
    "  y[i] = k * (sum[j] w[i, j] * x[j]) + s[i]\n"
    "  t = sum[i] y[i]\n"
    "  s[i] := s[i] + 1\n"
    "}\n";

/* interp tells what a fault of the shared state above the engines is */
static const struct {
  const char *name;
  int rounds;
} devices[] = {
    {"interp", 10}, {"interp:kir", 10}, {"cpu", 60}, {"sim:h100", 8}};
enum { DEVICES = sizeof devices / sizeof devices[0] };

static const int64_t shapes[WEIGHTS][2] = {{5, 7}, {64, 33}};

static float weight(int which, int64_t i, int64_t j) {
  return (float)((i * 7 + j * 3 + which) % 5 - 2);
}

static float input(int thread, int round, int64_t j) {
  return (float)((j * 5 + thread + round) % 7 - 3);
}

typedef struct shared {
  tdsl_context_t *context;
  tdsl_program_t *program;
  tdsl_executable_t *exe;
  tdsl_buffer_t *weights[WEIGHTS];
  tdsl_error_t *error;
} shared_t;

static tdsl_buffer_t *make(tdsl_context_t *context, uint32_t rank, int64_t a,
                           int64_t b) {
  tdsl_tensor_desc_t desc = {TDSL_DTYPE_F32, rank, {a, b}};
  tdsl_buffer_t *buffer = NULL;
  tdsl_error_t *error = NULL;
  must(tdsl_buffer_create(context, &desc, &buffer, &error), error);
  return buffer;
}

/* 0 where the device is not to be had. */
static int open_shared(shared_t *s, const char *device) {
  memset(s, 0, sizeof *s);
  tdsl_compile_desc_t desc = source(program_text, device);
  must(tdsl_context_create(NULL, &s->context, &s->error), s->error);
  tdsl_status_t status =
      tdsl_program_compile(s->context, &desc, &s->program, &s->error);
  if (status == TDSL_STATUS_UNAVAILABLE) {
    tdsl_error_release(s->error);
    tdsl_context_destroy(s->context);
    return 0;
  }
  must(status, s->error);
  must(tdsl_executable_create(s->program,
                              tdsl_program_get_entry(s->program, 0), &s->exe,
                              &s->error),
       s->error);
  for (int w = 0; w < WEIGHTS; w++) {
    int64_t m = shapes[w][0], n = shapes[w][1];
    s->weights[w] = make(s->context, 2, m, n);
    float *data = tdsl_buffer_get_data(s->weights[w]);
    for (int64_t i = 0; i < m * n; i++) data[i] = weight(w, i / n, i % n);
    /* stays on the device, whichever thread needs it first */
    must(tdsl_buffer_set_resident(s->weights[w], 1, &s->error), s->error);
  }
  return 1;
}

static void close_shared(shared_t *s) {
  for (int w = 0; w < WEIGHTS; w++) tdsl_buffer_release(s->weights[w]);
  tdsl_executable_release(s->exe);
  tdsl_program_release(s->program);
  tdsl_context_destroy(s->context);
}

/* ---- one thread's runs --------------------------------------------------- */

typedef struct caller {
  pthread_t thread;
  shared_t shared; /* references of its own */
  int number, rounds, good, want;
} caller_t;

/* Whether a run's results are the formula's. */
static int is_right(tdsl_run_t *run, int which, const caller_t *c, int round,
                    int steps) {
  int64_t m = shapes[which][0], n = shapes[which][1];
  double total = 0, k = c->number + 1;
  const tdsl_buffer_t *s = tdsl_run_get_buffer(run, 1);
  const tdsl_buffer_t *y = tdsl_run_get_buffer(run, 4);
  for (int64_t i = 0; i < m; i++) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
      sum += (double)weight(which, i, j) *
             (double)input(c->number, round, j);
    }
    double want = k * sum + (double)(c->number + steps);
    total += want;
    if (tdsl_buffer_read_float(y, (uint64_t)i) != want ||
        tdsl_buffer_read_float(s, (uint64_t)i) != c->number + steps + 1) {
      return 0;
    }
  }
  return tdsl_buffer_read_float(tdsl_run_get_buffer(run, 5), 0) == total;
}

/* Runs of both shapes in turn, one of which also as a variant of its own. */
static void *call(void *arg) {
  caller_t *c = arg;
  const shared_t *g = &c->shared;
  tdsl_run_t *run = NULL;
  tdsl_buffer_t *states[WEIGHTS], *inputs[WEIGHTS];
  int ok = tdsl_run_create(g->exe, &run, NULL) == TDSL_STATUS_OK;
  for (int w = 0; w < WEIGHTS; w++) {
    states[w] = make(g->context, 1, shapes[w][0], 0);
    inputs[w] = make(g->context, 1, shapes[w][1], 0);
    float *s = tdsl_buffer_get_data(states[w]);
    for (int64_t i = 0; i < shapes[w][0]; i++) s[i] = (float)c->number;
  }
  for (int round = 0; round < c->rounds && ok; round++) {
    int w = (round + c->number) % WEIGHTS;
    if (round == c->rounds / 2 && c->number == 1) {
      tdsl_dim_value_t dims[2] = {{text("M"), shapes[w][0]},
                                  {text("N"), shapes[w][1]}};
      tdsl_status_t status = tdsl_executable_specialize(g->exe, 2, dims, NULL);
      ok = status == TDSL_STATUS_OK || status == TDSL_STATUS_UNAVAILABLE;
    }
    float *x = tdsl_buffer_get_data(inputs[w]);
    for (int64_t j = 0; j < shapes[w][1]; j++) {
      x[j] = input(c->number, round, j);
    }
    ok = ok && tdsl_run_set_buffer(run, 0, g->weights[w], NULL) == 0 &&
         tdsl_run_set_buffer(run, 1, states[w], NULL) == 0 &&
         tdsl_run_set_buffer(run, 2, inputs[w], NULL) == 0 &&
         tdsl_run_set_float(run, 3, c->number + 1, NULL) == 0 &&
         tdsl_run_execute(run, NULL) == 0 &&
         is_right(run, w, c, round, round / WEIGHTS);
    c->good += ok;
  }
  tdsl_run_destroy(run);
  for (int w = 0; w < WEIGHTS; w++) {
    tdsl_buffer_release(states[w]);
    tdsl_buffer_release(inputs[w]);
    tdsl_buffer_release(g->weights[w]);
  }
  tdsl_executable_release(g->exe);
  return NULL;
}

static void start(caller_t *c, const shared_t *s, int number, int rounds) {
  *c = (caller_t){.shared = *s, .number = number, .rounds = rounds};
  tdsl_executable_retain(s->exe);
  for (int w = 0; w < WEIGHTS; w++) tdsl_buffer_retain(s->weights[w]);
  assert_int_equal(pthread_create(&c->thread, NULL, call, c), 0);
}

static void finish(caller_t *c) {
  assert_int_equal(pthread_join(c->thread, NULL), 0);
  assert_int_equal(c->good, c->rounds);
}

/* ---- tests --------------------------------------------------------------- */

/* Whoever started the threads lets go of everything before they end. */
static void one_executable_many_threads(void **state) {
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    shared_t s;
    caller_t callers[THREADS];
    if (!open_shared(&s, devices[d].name)) continue;
    for (int i = 0; i < THREADS; i++) {
      start(&callers[i], &s, i, devices[d].rounds);
    }
    close_shared(&s);
    for (int i = 0; i < THREADS; i++) finish(&callers[i]);
  }
}

typedef struct owner {
  pthread_t thread;
  const char *device;
  int number, rounds, good;
} owner_t;

/* A context from its beginning to its end, several times. */
static void *own(void *arg) {
  owner_t *o = arg;
  for (int n = 0; n < 2; n++) {
    shared_t s;
    caller_t c;
    if (!open_shared(&s, o->device)) {
      o->good++;
      continue;
    }
    c = (caller_t){.shared = s, .number = o->number + n, .rounds = o->rounds};
    tdsl_executable_retain(s.exe);
    for (int w = 0; w < WEIGHTS; w++) tdsl_buffer_retain(s.weights[w]);
    (void)call(&c);
    o->good += c.good == c.rounds;
    close_shared(&s);
  }
  return NULL;
}

/* Two of each device at a time: nothing is shared but the process. */
static void contexts_in_threads(void **state) {
  (void)state;
  owner_t owners[2 * DEVICES];
  for (int i = 0; i < 2 * DEVICES; i++) {
    owners[i] = (owner_t){.device = devices[i % DEVICES].name,
                          .number = i,
                          .rounds = devices[i % DEVICES].rounds / 4};
    assert_int_equal(pthread_create(&owners[i].thread, NULL, own, &owners[i]),
                     0);
  }
  for (int i = 0; i < 2 * DEVICES; i++) {
    assert_int_equal(pthread_join(owners[i].thread, NULL), 0);
    assert_int_equal(owners[i].good, 2);
  }
}

typedef struct compiler {
  pthread_t thread;
  tdsl_context_t *context;
  const char *device;
  int number, good;
} compiler_t;

/* Programs that differ in a number, so that each is compiled. */
static void *compile(void *arg) {
  compiler_t *c = arg;
  for (int n = 0; n < 4; n++) {
    char body[160];
    (void)snprintf(body, sizeof body,
                   "export fn g(x: f32[3]) -> y: f32[3] {\n"
                   "  y[i] = %d * x[i] + %d\n}\n",
                   c->number + 2, n);
    tdsl_compile_desc_t desc = source(body, c->device);
    tdsl_program_t *p = NULL;
    tdsl_executable_t *exe = NULL;
    tdsl_run_t *run = NULL;
    _Alignas(16) float x[3] = {1, 2, 3};
    tdsl_tensor_desc_t shape = {TDSL_DTYPE_F32, 1, {3}};
    tdsl_buffer_t *in = NULL;
    int ok = tdsl_program_compile(c->context, &desc, &p, NULL) == 0 &&
             tdsl_executable_create(p, tdsl_program_get_entry(p, 0), &exe,
                                    NULL) == 0 &&
             tdsl_run_create(exe, &run, NULL) == 0 &&
             tdsl_buffer_wrap(c->context, &shape, x, sizeof x, &in,
                              NULL) == 0 &&
             tdsl_run_set_buffer(run, 0, in, NULL) == 0 &&
             tdsl_run_execute(run, NULL) == 0 &&
             tdsl_buffer_read_float(tdsl_run_get_buffer(run, 1), 2) ==
                 3 * (c->number + 2) + n;
    c->good += ok;
    tdsl_buffer_release(in);
    tdsl_run_destroy(run);
    tdsl_executable_release(exe);
    tdsl_program_release(p);
  }
  return NULL;
}

/* Compiling and running on one context at the same time. */
static void compiles_beside_runs(void **state) {
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    shared_t s;
    caller_t callers[2];
    compiler_t compilers[2];
    if (!open_shared(&s, devices[d].name)) continue;
    for (int i = 0; i < 2; i++) {
      start(&callers[i], &s, i, devices[d].rounds);
      compilers[i] = (compiler_t){.context = s.context,
                                  .device = devices[d].name,
                                  .number = i};
      assert_int_equal(pthread_create(&compilers[i].thread, NULL, compile,
                                      &compilers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
      finish(&callers[i]);
      assert_int_equal(pthread_join(compilers[i].thread, NULL), 0);
      assert_int_equal(compilers[i].good, 4);
    }
    close_shared(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_executable_many_threads),
      cmocka_unit_test(contexts_in_threads),
      cmocka_unit_test(compiles_beside_runs),
  };
  return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
