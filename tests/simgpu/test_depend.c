/* Programmatic dependent launch: a launch begins early, and its
   griddepcontrol.wait is where what it depends on has completed. Right pairs
   and chains in streams, graphs and behind events give the values of the
   formulas in every order and no finding; every mutant is told by order.race,
   with both launches, and the values show it where the beginning runs first. */
#include "cu_lab.h"

enum { N = 300, BLOCK = 128, GRID = 3 };

typedef uint64_t u64;
#define OK(call) assert_int_equal((call), 0)

typedef enum way_t { STREAM, EVENT, EVENT_AT_START, CAPTURE, NODES } way_t;

static lab_t lab;
static cu_nvrtc_t nvrtc;
static const char *const orders[] = {
    "streams:issue,diverge:stack", "streams:random,diverge:stack,seed:1",
    "streams:random,diverge:its,seed:9"};

typedef struct bench_t {
  rcuda_func_t *zeroth, *first, *closed, *second;
  rcuda_stream_t *s[2];
  u64 in, x, y, weight, before, z;
} bench_t;

static void *proc(const char *name) {
  void *fn = NULL;
  if (lab.cuGetProcAddress_v2(name, &fn, 13000, 0, NULL))
    fail_msg("no %s", name);
  return fn;
}

static char *compile(unsigned mutant) {
  char define[32];
  snprintf(define, sizeof define, "-DMUTANT=%u", mutant);
  return cu_compile_with(&nvrtc, "depend.cu", "sm_90a", define);
}

static int in_of(int i) { return i * 5 + 1; }
static int weight_of(int i) { return i % 7 + 2; }
static int before_of(int i) { return 1000 - i; }

static u64 filled(int (*of)(int)) {
  int data[N];
  for (int i = 0; i < N; i++) data[i] = of(i);
  return lab_copy_in(&lab, data, sizeof data);
}

static bench_t begin(const char *ptx) {
  bench_t b;
  lab_renew(&lab);
  rcuda_module_t *m = lab_load(&lab, ptx);
  b.zeroth = lab_func(&lab, m, "zeroth");
  b.first = lab_func(&lab, m, "first");
  b.closed = lab_func(&lab, m, "closed");
  b.second = lab_func(&lab, m, "second");
  OK(lab.cuStreamCreate(&b.s[0], RCUDA_STREAM_NON_BLOCKING));
  OK(lab.cuStreamCreate(&b.s[1], RCUDA_STREAM_NON_BLOCKING));
  b.in = filled(in_of);
  b.x = filled(in_of);
  b.y = filled(in_of);
  b.weight = filled(weight_of);
  b.before = filled(before_of);
  b.z = lab_alloc(&lab, 4 * N);
  OK(lab.cuMemsetD32_v2(b.z, 0, N));
  OK(lab.cuCtxSynchronize());
  return b;
}

/* A launch with any of the two attributes. */
static int launch(rcuda_func_t *f, rcuda_stream_t *s, bool is_early,
                  rcuda_event_t *event, bool at_start, void **params) {
  rcuda_launch_attr_t a[2];
  memset(a, 0, sizeof a);
  unsigned n = 0;
  if (is_early) {
    a[n].id = RCUDA_LAUNCH_PROGRAMMATIC;
    a[n++].value.number = 1;
  }
  if (event) {
    a[n].id = RCUDA_LAUNCH_PROGRAMMATIC_EVENT;
    a[n].value.event.event = event;
    a[n++].value.event.at_start = at_start;
  }
  rcuda_launch_config_t c = {{GRID, 1, 1}, {BLOCK, 1, 1}, 0, s, a, n};
  return lab.cuLaunchKernelEx(&c, f, params, NULL);
}

static int run_first(const bench_t *b, rcuda_func_t *f, bool is_early,
                     rcuda_event_t *e, bool at_start) {
  int n = N;
  u64 x = b->x, y = b->y;
  void *p[] = {&x, &y, &n};
  return launch(f, b->s[0], is_early, e, at_start, p);
}

static int run_second(const bench_t *b, rcuda_stream_t *s, u64 before,
                      bool is_early) {
  int n = N;
  u64 x = b->x, y = b->y, weight = b->weight, z = b->z;
  void *p[] = {&x, &y, &weight, &before, &z, &n};
  return launch(b->second, s, is_early, NULL, false, p);
}

static rcuda_event_t *new_event(unsigned flags) {
  rcuda_event_t *e = NULL;
  OK(lab.cuEventCreate(&e, flags));
  return e;
}

/* Both launches in one graph, captured or built. */
static void run_graph(const bench_t *b, way_t way) {
  rcuda_graph_t *g = NULL;
  rcuda_exec_t *x = NULL;
  if (way == CAPTURE) {
    OK(lab.cuStreamBeginCapture_v2(b->s[0], RCUDA_CAPTURE_GLOBAL));
    OK(run_first(b, b->first, false, NULL, false));
    OK(run_second(b, b->s[0], b->before, true));
    OK(lab.cuStreamEndCapture(b->s[0], &g));
  } else {
    int (*create)(rcuda_graph_t **, unsigned);
    int (*add)(rcuda_node_t **, rcuda_graph_t *, rcuda_node_t *const *,
               size_t, const rcuda_kernel_node_t *);
    int (*depend)(rcuda_graph_t *, rcuda_node_t *const *,
                  rcuda_node_t *const *, const rcuda_edge_t *, size_t);
    void *fn[] = {proc("cuGraphCreate"), proc("cuGraphAddKernelNode"),
                  proc("cuGraphAddDependencies")};
    memcpy(&create, &fn[0], sizeof create);
    memcpy(&add, &fn[1], sizeof add);
    memcpy(&depend, &fn[2], sizeof depend);
    int n = N;
    bench_t v = *b;
    void *p[] = {&v.x, &v.y, &n};
    void *q[] = {&v.x, &v.y, &v.weight, &v.before, &v.z, &n};
    rcuda_kernel_node_t k = {.function = b->first, .grid = {GRID, 1, 1},
                             .block = {BLOCK, 1, 1}, .parameters = p};
    rcuda_node_t *from, *to;
    rcuda_edge_t edge = {.from_port = RCUDA_PORT_PROGRAMMATIC,
                         .type = RCUDA_EDGE_PROGRAMMATIC};
    OK(create(&g, 0));
    OK(add(&from, g, NULL, 0, &k));
    k.function = b->second;
    k.parameters = q;
    OK(add(&to, g, NULL, 0, &k));
    OK(depend(g, &from, &to, &edge, 1));
  }
  /* the edge says what it is, and is not told without saying so */
  int (*edges)(rcuda_graph_t *, rcuda_node_t **, rcuda_node_t **,
               rcuda_edge_t *, size_t *);
  void *fn = proc("cuGraphGetEdges");
  memcpy(&edges, &fn, sizeof edges);
  rcuda_node_t *from = NULL, *to = NULL;
  rcuda_edge_t data;
  size_t count = 1;
  OK(edges(g, &from, &to, &data, &count));
  assert_int_equal(data.from_port, RCUDA_PORT_PROGRAMMATIC);
  assert_int_equal(data.type, RCUDA_EDGE_PROGRAMMATIC);
  assert_int_equal(edges(g, &from, &to, NULL, &count), 402);
  OK(lab.cuGraphInstantiateWithFlags(&x, g, 0));
  OK(lab.cuGraphLaunch(x, b->s[0]));
}

static void run_pair(const bench_t *b, way_t way, bool is_early) {
  if (way >= CAPTURE) {
    run_graph(b, way);
    return;
  }
  bool has_event = way != STREAM;
  rcuda_event_t *e = has_event ? new_event(2) : NULL;
  OK(run_first(b, b->first, is_early, e, way == EVENT_AT_START));
  if (has_event) OK(lab.cuStreamWaitEvent(b->s[1], e, 0));
  OK(run_second(b, has_event ? b->s[1] : b->s[0], b->before, !has_event));
}

static char report[16384];

static bool has_finding(const char *id) {
  char key[64];
  snprintf(key, sizeof key, "\"id\":\"%s\"", id);
  lab_report(&lab, report, sizeof report);
  return strstr(report, key) != NULL;
}

static void no_finding(void) {
  lab_report(&lab, report, sizeof report);
  if (report[0]) fail_msg("%s", report);
}

/* z = (x + 1) * weight + before, x and before as given */
static int wrong_values(const bench_t *b, int (*before)(int), int factor) {
  int z[N], wrong = 0;
  lab_copy_out(&lab, z, b->z, sizeof z);
  for (int i = 0; i < N; i++)
    wrong += z[i] != (in_of(i) * factor + 1) * weight_of(i) + before(i);
  return wrong;
}

static void right_pairs(void **state) {
  (void)state;
  if (!nvrtc.create) skip();
  char *ptx = compile(0);
  for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
    OK(lab.simgpu_configure(orders[o]));
    for (int way = STREAM; way <= NODES; way++) {
      bench_t b = begin(ptx);
      run_pair(&b, (way_t)way, false);
      OK(lab.cuCtxSynchronize());
      no_finding();
      assert_int_equal(wrong_values(&b, before_of, 1), 0);
    }
  }
  free(ptx);
}

static void mutants(void **state) {
  (void)state;
  if (!nvrtc.create) skip();
  for (unsigned mutant = 2; mutant <= 6; mutant++) {
    char *ptx = compile(mutant);
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
      for (int way = STREAM; way <= NODES; way++) {
        OK(lab.simgpu_configure(orders[o]));
        bench_t b = begin(ptx);
        run_pair(&b, (way_t)way, false);
        int code = lab.cuCtxSynchronize();
        if (code != 719)
          fail_msg("mutant %u, %s, way %d: %d", mutant, orders[o], way, code);
        if (!has_finding("order.race"))
          fail_msg("mutant %u, way %d: %s", mutant, way, report);
        assert_non_null(strstr(report, "first"));
        assert_non_null(strstr(report, "second"));
        bool has_wait = mutant != 2;
        assert_int_equal(
            strstr(report, "before griddepcontrol.wait") != NULL, has_wait);
      }
    }
    free(ptx);
  }
}

/* What the first depends on in turn. */
static void chains(void **state) {
  (void)state;
  if (!nvrtc.create) skip();
  for (unsigned mutant = 0; mutant <= 7; mutant++) {
    if (mutant >= 2 && mutant <= 6) continue;
    char *ptx = compile(mutant);
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
      OK(lab.simgpu_configure(orders[o]));
      bench_t b = begin(ptx);
      int n = N;
      u64 in = b.in, x = b.x;
      void *p[] = {&in, &x, &n};
      OK(launch(b.zeroth, b.s[0], false, NULL, false, p));
      OK(run_first(&b, b.first, true, NULL, false));
      /* 7: reads early what the zeroth has written */
      OK(run_second(&b, b.s[0], mutant == 7 ? b.x : b.before, true));
      assert_int_equal(lab.cuCtxSynchronize(), mutant ? 719 : 0);
      if (mutant) {
        assert_true(has_finding("order.race"));
        assert_non_null(strstr(report, "zeroth"));
        if (mutant == 7) assert_null(strstr(report, "first"));
      } else {
        no_finding();
        assert_int_equal(wrong_values(&b, before_of, 3), 0);
      }
    }
    free(ptx);
  }
}

static int tripled(int i) { return in_of(i) * 3; }

/* Every block of the first has waited before it lets the second begin, so that
   what came before the first is there from the second one's beginning. */
static void begins_late(void **state) {
  (void)state;
  if (!nvrtc.create) skip();
  char *ptx = compile(0);
  for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
    OK(lab.simgpu_configure(orders[o]));
    bench_t b = begin(ptx);
    int n = N;
    u64 in = b.in, x = b.x;
    void *p[] = {&in, &x, &n};
    OK(launch(b.zeroth, b.s[0], false, NULL, false, p));
    OK(run_first(&b, b.first, true, NULL, false));
    OK(run_second(&b, b.s[0], b.x, true));
    OK(lab.cuCtxSynchronize());
    no_finding();
    assert_int_equal(wrong_values(&b, tripled, 3), 0);
  }
  free(ptx);
}

/* Where nobody asks for it there is no overlap: without the attribute, after a
   launch whose text lets nobody begin, behind an ordinary event. */
static void ordinary(void **state) {
  (void)state;
  if (!nvrtc.create) skip();
  char *ptx = compile(2); /* never waits */
  for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
    OK(lab.simgpu_configure(orders[o]));
    for (int way = 0; way < 4; way++) {
      bench_t b = begin(ptx);
      rcuda_event_t *e = new_event(2);
      OK(run_first(&b, way == 1 ? b.closed : b.first, false, NULL, false));
      if (way == 2) {
        OK(lab.cuEventRecord(e, b.s[0]));
        OK(lab.cuStreamWaitEvent(b.s[1], e, 0));
      }
      if (way == 3) OK(lab.cuStreamSynchronize(b.s[0]));
      OK(run_second(&b, b.s[way == 2], b.before, way == 1 || way == 3));
      OK(lab.cuCtxSynchronize());
      no_finding();
      assert_int_equal(wrong_values(&b, before_of, 1), 0);
    }
  }
  free(ptx);
}

/* A host that has waited for the event of a launch knows that it has begun,
   no more; a copy that the event lets go has no wait in it. */
static void copies(void **state) {
  (void)state;
  if (!nvrtc.create) skip();
  char *ptx = compile(0);
  for (int mutant = 0; mutant < 3; mutant++) {
    bench_t b = begin(ptx);
    rcuda_event_t *e = new_event(2), *done = new_event(2);
    OK(lab.simgpu_configure("streams:issue"));
    OK(run_first(&b, b.first, false, e, false));
    OK(lab.cuEventRecord(done, b.s[0]));
    int (*copy)(u64, u64, size_t, rcuda_stream_t *), (*wait)(rcuda_event_t *);
    void *fn[] = {proc("cuMemcpyDtoDAsync"), proc("cuEventSynchronize")};
    memcpy(&copy, &fn[0], sizeof copy);
    memcpy(&wait, &fn[1], sizeof wait);
    if (mutant < 2)
      OK(lab.cuStreamWaitEvent(b.s[1], mutant ? e : done, 0));
    else
      OK(wait(e));
    OK(copy(b.z, b.y, 4 * N, b.s[1]));
    assert_int_equal(lab.cuCtxSynchronize(), mutant ? 719 : 0);
    assert_int_equal(has_finding("order.race"), mutant != 0);
  }
  bench_t b = begin(ptx);
  rcuda_event_t *timed = new_event(0);
  assert_int_equal(run_first(&b, b.first, false, timed, false), 1);
  free(ptx);
}

/* The beginning of a mutant that never waits runs before the first does, and
   the values show it; in order of issue they happen to be right. */
static void values(void **state) {
  (void)state;
  if (!nvrtc.create) skip();
  char *ptx = compile(2);
  for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
    OK(lab.simgpu_configure(orders[o]));
    OK(lab.simgpu_configure("check:warn"));
    bench_t b = begin(ptx);
    run_pair(&b, STREAM, false);
    OK(lab.cuCtxSynchronize());
    assert_true(has_finding("order.race"));
    assert_int_equal(wrong_values(&b, before_of, 1) > 0, o > 0);
    OK(lab.simgpu_configure("check:all"));
  }
  free(ptx);
}

/* Counters do not depend on what ran first. */
static void counters(void **state) {
  (void)state;
  if (!nvrtc.create) skip();
  char *ptx = compile(0);
  static char text[2][2][8192];
  for (int o = 0; o < 2; o++) {
    OK(lab.simgpu_configure(o ? "streams:random,seed:1"
                              : "streams:issue,seed:1"));
    bench_t b = begin(ptx);
    run_pair(&b, STREAM, false);
    OK(lab.cuCtxSynchronize());
    for (size_t i = 0; i < 2; i++) {
      lab.counters_get(lab.counters_count() - 2 + i, text[o][i], 8192);
      char *p = strstr(text[o][i], "\"counters\"");
      assert_non_null(p);
      memmove(text[o][i], p, strlen(p) + 1);
    }
  }
  for (int i = 0; i < 2; i++) assert_string_equal(text[0][i], text[1][i]);
  free(ptx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(right_pairs), cmocka_unit_test(mutants),
      cmocka_unit_test(chains),      cmocka_unit_test(begins_late),
      cmocka_unit_test(ordinary),    cmocka_unit_test(copies),
      cmocka_unit_test(counters),    cmocka_unit_test(values),
  };
  if (cu_nvrtc_open(&nvrtc) && !cu_include()) nvrtc.create = NULL;
  lab_open(&lab, "model:h100");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
