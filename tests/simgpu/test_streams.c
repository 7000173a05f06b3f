/* Streams, events, captured graphs: what the host did not wait for has not
   happened, every edge is kept in every order of execution, and the checks on
   order name a missing edge. Each mutant is a correct host program with one
   call left out. */
#include "sim_lab.h"

static lab_t lab;

#define BODY "{\n.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<4>;\n"          \
             "ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q];\n"                \
             "mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;\n"               \
             "add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;\n"

/* inc: q[i] = p[i] + 1; twice: q[i] = 2 * p[i]; count: 32 atomic ones */
static const char kernels[] =
    PTX_HEAD("sm_80")
    ".visible .entry inc(.param .u64 p, .param .u64 q) " BODY
    "ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, 1;\n"
    "st.global.u32 [%d2], %r2; ret; }\n"
    ".visible .entry twice(.param .u64 p, .param .u64 q) " BODY
    "ld.global.u32 %r2, [%d1]; shl.b32 %r2, %r2, 1;\n"
    "st.global.u32 [%d2], %r2; ret; }\n"
    ".visible .entry count(.param .u64 p, .param .u64 q) " BODY
    "ld.param.u64 %d1, [p]; red.global.add.u32 [%d1], 1; ret; }\n"
    ".visible .entry bad(.param .u64 p, .param .u64 q) " BODY
    "mov.u64 %d1, 64; st.global.u32 [%d1], %r1; ret; }\n";

typedef struct host_t {
  rcuda_module_t *module;
  rcuda_func_t *inc, *twice, *count, *bad;
  rcuda_stream_t *s[3];
  rcuda_event_t *e[3];
  uint64_t a, b, c; /* 32 words each */
  uint32_t *pinned; /* 64 words */
} host_t;

#define OK(call) assert_int_equal((call), 0)

static void *proc(const char *name) {
  void *fn = NULL;
  if (lab.cuGetProcAddress_v2(name, &fn, 13000, 0, NULL))
    fail_msg("no %s", name);
  return fn;
}

static host_t begin(unsigned stream_flags) {
  host_t h;
  lab_renew(&lab);
  memset(&h, 0, sizeof h);
  h.module = lab_load(&lab, kernels);
  h.inc = lab_func(&lab, h.module, "inc");
  h.twice = lab_func(&lab, h.module, "twice");
  h.count = lab_func(&lab, h.module, "count");
  h.bad = lab_func(&lab, h.module, "bad");
  for (int i = 0; i < 3; i++) {
    OK(lab.cuStreamCreate(&h.s[i], stream_flags));
    OK(lab.cuEventCreate(&h.e[i], 0));
  }
  h.a = lab_alloc(&lab, 128);
  h.b = lab_alloc(&lab, 128);
  h.c = lab_alloc(&lab, 128);
  OK(lab.cuMemsetD32_v2(h.a, 10, 32));
  OK(lab.cuMemsetD32_v2(h.b, 20, 32));
  OK(lab.cuMemsetD32_v2(h.c, 30, 32));
  OK(lab.cuMemHostAlloc((void **)&h.pinned, 256, 0));
  OK(lab.cuCtxSynchronize());
  return h;
}

static int launch(rcuda_func_t *f, uint64_t p, uint64_t q,
                  rcuda_stream_t *s) {
  void *params[] = {&p, &q};
  return lab.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, params, NULL);
}

static bool found(const char *id) {
  char report[8192], key[64];
  snprintf(key, sizeof key, "\"id\":\"%s\"", id);
  return strstr(lab_report(&lab, report, sizeof report), key) != NULL;
}

static void no_finding(void) {
  char report[8192];
  lab_report(&lab, report, sizeof report);
  if (report[0]) fail_msg("%s", report);
}

/* -- laziness -- */

static void nothing_happens_unasked(void **state) {
  (void)state;
  host_t h = begin(RCUDA_STREAM_NON_BLOCKING);
  size_t before = lab.counters_count();
  h.pinned[0] = 5;
  OK(launch(h.inc, h.a, h.b, h.s[0]));
  OK(lab.cuMemcpyDtoHAsync_v2(h.pinned, h.b, 128, h.s[0]));
  assert_int_equal(lab.counters_count(), before);
  assert_int_equal(h.pinned[0], 0xFFFFFFFFu); /* poison until observed */
  assert_int_equal(lab.cuStreamQuery(h.s[0]), 600);
  int polls = 1;
  while (lab.cuStreamQuery(h.s[0]) == 600 && polls < 10) polls++;
  assert_true(polls < 10);
  assert_int_equal(h.pinned[0], 11);
  /* another stream's work is not run by that */
  OK(launch(h.inc, h.a, h.c, h.s[1]));
  OK(lab.cuStreamSynchronize(h.s[0]));
  assert_int_equal(lab.counters_count(), before + 1);
  OK(lab.cuCtxSynchronize());
  assert_int_equal(lab.counters_count(), before + 2);
  no_finding();
}

static void pageable_memory(void **state) {
  (void)state;
  host_t h = begin(0);
  uint32_t host[32];
  for (int i = 0; i < 32; i++) host[i] = 7;
  /* a source is taken at the call, a destination is there after it */
  OK(lab.cuMemcpyHtoDAsync_v2(h.a, host, 128, h.s[0]));
  for (int i = 0; i < 32; i++) host[i] = 9;
  OK(launch(h.inc, h.a, h.b, h.s[0]));
  OK(lab.cuMemcpyDtoHAsync_v2(host, h.b, 128, h.s[0]));
  assert_int_equal(host[31], 8);
  no_finding();
}

/* -- one program, mutated: two streams hand a buffer on -- */

enum { WAIT = 1, SYNC_HOST = 2, LAST_SYNC = 4, KEEP = 8, ALL = 15 };

static int two_streams(unsigned parts, uint32_t *result) {
  host_t h = begin(RCUDA_STREAM_NON_BLOCKING);
  int code = 0;
  for (int i = 0; i < 32; i++) h.pinned[i] = 3;
  OK(lab.cuMemcpyHtoDAsync_v2(h.a, h.pinned, 128, h.s[0]));
  OK(launch(h.inc, h.a, h.b, h.s[0]));
  OK(lab.cuEventRecord(h.e[0], h.s[0]));
  if (parts & WAIT) OK(lab.cuStreamWaitEvent(h.s[1], h.e[0], 0));
  OK(launch(h.twice, h.b, h.c, h.s[1]));
  OK(lab.cuMemcpyDtoHAsync_v2(h.pinned + 32, h.c, 128, h.s[1]));
  if (parts & SYNC_HOST) code = lab.cuStreamSynchronize(h.s[0]);
  for (int i = 0; i < 32; i++) h.pinned[i] = 100; /* the source, used again */
  if ((parts & LAST_SYNC) && !code) code = lab.cuStreamSynchronize(h.s[1]);
  *result = h.pinned[32];
  if (!(parts & KEEP)) code = lab.cuMemFree_v2(h.c);
  int last = lab.cuCtxSynchronize();
  lab.cuDevicePrimaryCtxReset_v2(0);
  return code ? code : last;
}

static const char *const modes[] = {
    "streams:issue", "streams:random,seed:1", "streams:random,seed:2",
    "streams:random,seed:5", "streams:random,seed:9"};
#define MODES (sizeof modes / sizeof *modes)

static void edges(void **state) {
  (void)state;
  uint32_t r;
  for (size_t m = 0; m < MODES; m++) {
    OK(lab.simgpu_configure(modes[m]));
    OK(two_streams(ALL, &r));
    assert_int_equal(r, 8);
    assert_false(found("order.race"));
    assert_false(found("order.host"));
    assert_false(found("order.lifetime"));
    /* the event wait is dropped */
    assert_int_equal(two_streams(ALL & ~WAIT, &r), 719);
    assert_true(found("order.race"));
    /* the host writes the source again before it waited for the copy; the
       other stream's wait would cover it, too late */
    two_streams(ALL & ~SYNC_HOST, &r);
    assert_true(found("order.host"));
    /* the host reads before it waits: poison, and nobody ever waited */
    two_streams(ALL & ~LAST_SYNC, &r);
    assert_int_equal(r, 0xFFFFFFFFu);
    /* freed while the copy that reads it is queued */
    two_streams((ALL & ~LAST_SYNC) & ~KEEP, &r);
    assert_true(found("order.lifetime"));
  }
  OK(lab.simgpu_configure("streams:issue,seed:1"));
}

static void never_waited_for(void **state) {
  (void)state;
  host_t h = begin(0);
  OK(lab.cuMemcpyDtoHAsync_v2(h.pinned, h.a, 128, h.s[0]));
  lab.cuDevicePrimaryCtxReset_v2(0);
  assert_true(found("order.host"));
}

/* -- which pairs conflict -- */

typedef struct pair_t {
  const char *id; /* NULL: none */
  int first, second;
} pair_t;

enum { INC_AB, INC_AC, TWICE_BA, COUNT_A, FILL_A, FILL_A_TAIL, COPY_BA };

static int one(const host_t *h, int what, rcuda_stream_t *s) {
  int (*fill)(uint64_t, unsigned, size_t, rcuda_stream_t *);
  int (*copy)(uint64_t, uint64_t, size_t, rcuda_stream_t *);
  void *p = proc("cuMemsetD32Async"), *q = proc("cuMemcpyDtoDAsync");
  memcpy(&fill, &p, sizeof p);
  memcpy(&copy, &q, sizeof q);
  switch (what) {
  case INC_AB: return launch(h->inc, h->a, h->b, s);
  case INC_AC: return launch(h->inc, h->a, h->c, s);
  case TWICE_BA: return launch(h->twice, h->b, h->a, s);
  case COUNT_A: return launch(h->count, h->a, 0, s);
  case FILL_A: return fill(h->a, 1, 1, s);
  case FILL_A_TAIL: return fill(h->a + 124, 1, 1, s);
  default: return copy(h->a, h->b, 128, s);
  }
}

static void pairs(void **state) {
  (void)state;
  static const pair_t list[] = {
      {NULL, INC_AB, INC_AC}, /* both read a */
      {"order.race", INC_AB, TWICE_BA},
      {"order.race", INC_AB, COUNT_A},
      {NULL, COUNT_A, COUNT_A}, /* atomics do not race with each other */
      {"order.race", INC_AB, FILL_A},
      {"order.race", COUNT_A, FILL_A},
      {NULL, COUNT_A, FILL_A_TAIL}, /* other bytes of the allocation */
      {NULL, FILL_A, FILL_A_TAIL},
      {"order.race", FILL_A, COPY_BA},
      {"order.race", COPY_BA, INC_AC},
      {NULL, COPY_BA, -1}};
  for (size_t m = 0; m < MODES; m++) {
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
      OK(lab.simgpu_configure(modes[m]));
      host_t h = begin(RCUDA_STREAM_NON_BLOCKING);
      OK(one(&h, list[i].first, h.s[0]));
      if (list[i].second >= 0) OK(one(&h, list[i].second, h.s[1]));
      int code = lab.cuCtxSynchronize();
      if (!list[i].id) {
        no_finding();
        assert_int_equal(code, 0);
      } else if (code != 719 || !found(list[i].id)) {
        fail_msg("pair %zu in mode %s: %d", i, modes[m], code);
      }
      if (list[i].second < 0) continue;
      /* the same with an edge: never a finding */
      h = begin(RCUDA_STREAM_NON_BLOCKING);
      OK(one(&h, list[i].first, h.s[0]));
      OK(lab.cuEventRecord(h.e[1], h.s[0]));
      OK(lab.cuStreamWaitEvent(h.s[2], h.e[1], 0));
      OK(lab.cuEventRecord(h.e[2], h.s[2])); /* handed on by a third one */
      OK(lab.cuStreamWaitEvent(h.s[1], h.e[2], 0));
      OK(one(&h, list[i].second, h.s[1]));
      OK(lab.cuCtxSynchronize());
      no_finding();
    }
  }
  OK(lab.simgpu_configure("streams:issue,seed:1"));
}

/* The legacy default stream and blocking streams wait for each other, and
   non-blocking ones do not. */
static void default_stream(void **state) {
  (void)state;
  for (unsigned flags = 0; flags <= RCUDA_STREAM_NON_BLOCKING; flags++) {
    host_t h = begin(flags);
    OK(launch(h.inc, h.a, h.b, h.s[0]));
    OK(launch(h.twice, h.b, h.c, NULL));
    OK(launch(h.inc, h.c, h.a, h.s[1]));
    int code = lab.cuCtxSynchronize();
    assert_int_equal(code, flags ? 719 : 0);
    assert_int_equal(found("order.race"), flags != 0);
  }
}

/* -- events -- */

static void event_results(void **state) {
  (void)state;
  host_t h = begin(0);
  float ms = -1;
  int (*wait)(rcuda_event_t *);
  void *p = proc("cuEventSynchronize");
  memcpy(&wait, &p, sizeof p);
  assert_int_equal(lab.cuEventElapsedTime_v2(&ms, h.e[0], h.e[1]), 400);
  OK(lab.cuEventRecord(h.e[0], h.s[0]));
  for (int i = 0; i < 50; i++) OK(launch(h.inc, h.a, h.b, h.s[0]));
  OK(lab.cuEventRecord(h.e[1], h.s[0]));
  assert_int_equal(lab.cuEventElapsedTime_v2(&ms, h.e[0], h.e[1]), 600);
  assert_int_equal(lab.cuEventQuery(h.e[1]), 600);
  OK(wait(h.e[1]));
  OK(lab.cuEventQuery(h.e[1]));
  OK(lab.cuEventElapsedTime_v2(&ms, h.e[0], h.e[1]));
  /* 50 launches of one warp and 12 instructions: a millionth of a
     millisecond each */
  assert_true(ms > 50 * 8e-6f && ms < 50 * 16e-6f);
  no_finding();
}

/* A fault shows at the next wait and breaks the context; what follows it in
   the stream does not run. */
static void late_faults(void **state) {
  (void)state;
  host_t h = begin(0);
  OK(launch(h.bad, 0, 0, h.s[0]));
  OK(launch(h.inc, h.a, h.b, h.s[0]));
  size_t before = lab.counters_count();
  assert_int_equal(lab.cuStreamSynchronize(h.s[0]), 700);
  assert_int_equal(lab.counters_count(), before + 1);
  assert_int_equal(lab.cuStreamQuery(h.s[1]), 700);
  assert_int_equal(lab.cuMemFree_v2(h.a), 700);
}

/* -- host functions -- */

typedef struct order_t {
  int count, seen[8], code;
} order_t;

static void host_first(void *user) {
  order_t *o = user;
  o->seen[o->count++] = 1;
  int n;
  o->code = lab.cuDeviceGetCount(&n); /* calls are not allowed here */
}

static void host_second(void *user) {
  order_t *o = user;
  o->seen[o->count++] = 2;
}

static void host_functions(void **state) {
  (void)state;
  int (*call)(rcuda_stream_t *, void (*)(void *), void *);
  void *p = proc("cuLaunchHostFunc");
  memcpy(&call, &p, sizeof p);
  for (size_t m = 0; m < MODES; m++) {
    OK(lab.simgpu_configure(modes[m]));
    host_t h = begin(0);
    order_t o = {0};
    OK(call(h.s[0], host_first, &o));
    OK(lab.cuEventRecord(h.e[0], h.s[0]));
    OK(lab.cuStreamWaitEvent(h.s[1], h.e[0], 0));
    OK(call(h.s[1], host_second, &o));
    assert_int_equal(o.count, 0);
    OK(lab.cuStreamSynchronize(h.s[1]));
    assert_int_equal(o.count, 2);
    assert_int_equal(o.seen[0], 1);
    assert_int_equal(o.code, 800);
    assert_int_equal(call(h.s[1], NULL, &o), 1);
  }
  OK(lab.simgpu_configure("streams:issue,seed:1"));
}

/* -- graphs -- */

/* Captures: s0: inc a->b; s1 (joined): twice a->c; s0: inc c->a. */
static rcuda_graph_t *capture(const host_t *h, bool has_join) {
  rcuda_graph_t *g = NULL;
  OK(lab.cuStreamBeginCapture_v2(h->s[0], RCUDA_CAPTURE_GLOBAL));
  OK(lab.cuEventRecord(h->e[0], h->s[0]));
  OK(lab.cuStreamWaitEvent(h->s[1], h->e[0], 0));
  OK(launch(h->inc, h->a, h->b, h->s[0]));
  OK(launch(h->twice, h->a, h->c, h->s[1]));
  if (has_join) {
    OK(lab.cuEventRecord(h->e[1], h->s[1]));
    OK(lab.cuStreamWaitEvent(h->s[0], h->e[1], 0));
  }
  OK(launch(h->inc, h->c, h->a, h->s[0]));
  int code = lab.cuStreamEndCapture(h->s[0], &g);
  assert_int_equal(code, has_join ? 0 : 904);
  return g;
}

static void graphs(void **state) {
  (void)state;
  int (*update)(rcuda_exec_t *, rcuda_graph_t *, rcuda_update_info_t *);
  int (*set)(rcuda_exec_t *, rcuda_node_t *, const rcuda_kernel_node_t *);
  int (*nodes_of)(rcuda_graph_t *, rcuda_node_t **, size_t *);
  int (*type_of)(rcuda_node_t *, int *);
  void *p = proc("cuGraphExecUpdate");
  memcpy(&update, &p, sizeof p);
  p = proc("cuGraphExecKernelNodeSetParams");
  memcpy(&set, &p, sizeof p);
  p = proc("cuGraphGetNodes");
  memcpy(&nodes_of, &p, sizeof p);
  p = proc("cuGraphNodeGetType");
  memcpy(&type_of, &p, sizeof p);
  for (size_t m = 0; m < MODES; m++) {
    OK(lab.simgpu_configure(modes[m]));
    host_t h = begin(RCUDA_STREAM_NON_BLOCKING);
    uint32_t host[32];
    rcuda_exec_t *x = NULL;
    capture(&h, false);
    rcuda_graph_t *g = capture(&h, true);
    OK(lab.cuGraphInstantiateWithFlags(&x, g, 0));
    /* nothing ran during the capture; each launch: a = 2a + 1 */
    for (int i = 0; i < 3; i++) OK(lab.cuGraphLaunch(x, h.s[2]));
    OK(lab.cuMemcpyDtoHAsync_v2(host, h.a, 128, h.s[2]));
    assert_int_equal(host[7], 87); /* 10 21 43 87 */
    /* nodes and their parameters */
    rcuda_node_t *nodes[4];
    size_t count = 4;
    int type = -1;
    OK(nodes_of(g, NULL, &count));
    assert_int_equal(count, 3);
    count = 4;
    OK(nodes_of(g, nodes, &count));
    assert_int_equal(count, 3);
    assert_null(nodes[3]);
    OK(type_of(nodes[2], &type));
    assert_int_equal(type, RCUDA_NODE_KERNEL);
    uint64_t from = h.b, to = h.a;
    void *params[] = {&from, &to};
    rcuda_kernel_node_t k = {.function = h.inc, .grid = {1, 1, 1},
                             .block = {32, 1, 1}, .parameters = params};
    OK(set(x, nodes[2], &k)); /* the last one: a = b + 1 = a + 2 */
    OK(lab.cuGraphLaunch(x, h.s[2]));
    OK(lab.cuMemcpyDtoHAsync_v2(host, h.a, 128, h.s[2]));
    assert_int_equal(host[0], 89);
    k.block[0] = 2048;
    assert_int_equal(set(x, nodes[2], &k), 1);
    assert_int_equal(set(x, (rcuda_node_t *)h.e[0], &k), 1);
    lab.cuGraphDestroy(g);
    lab.cuGraphExecDestroy(x);

    /* an update takes over parameters, and refuses another shape */
    h = begin(RCUDA_STREAM_NON_BLOCKING);
    g = capture(&h, true);
    OK(lab.cuGraphInstantiateWithFlags(&x, g, 0));
    host_t other = h;
    other.a = lab_alloc(&lab, 128);
    OK(lab.cuMemsetD32_v2(other.a, 1, 32));
    OK(lab.cuCtxSynchronize());
    rcuda_graph_t *g2 = capture(&other, true), *g3 = NULL;
    rcuda_update_info_t info;
    OK(update(x, g2, &info));
    assert_int_equal(info.result, RCUDA_UPDATE_SUCCESS);
    OK(lab.cuGraphLaunch(x, h.s[2]));
    OK(lab.cuMemcpyDtoHAsync_v2(host, other.a, 128, h.s[2]));
    assert_int_equal(host[0], 3);
    OK(lab.cuMemcpyDtoHAsync_v2(host, h.a, 128, h.s[2]));
    assert_int_equal(host[0], 10);
    OK(lab.cuStreamBeginCapture_v2(h.s[0], RCUDA_CAPTURE_RELAXED));
    OK(launch(h.inc, h.a, h.b, h.s[0]));
    OK(lab.cuStreamEndCapture(h.s[0], &g3));
    assert_int_equal(update(x, g3, &info), 910);
    assert_int_equal(info.result, RCUDA_UPDATE_TOPOLOGY_CHANGED);
    no_finding();
  }
  OK(lab.simgpu_configure("streams:issue,seed:1"));
}

/* A graph whose nodes lack an edge is a race like any other. */
static void graph_races(void **state) {
  (void)state;
  host_t h = begin(RCUDA_STREAM_NON_BLOCKING);
  rcuda_graph_t *g = NULL;
  rcuda_exec_t *x = NULL;
  OK(lab.cuStreamBeginCapture_v2(h.s[0], RCUDA_CAPTURE_GLOBAL));
  OK(lab.cuEventRecord(h.e[0], h.s[0]));
  OK(lab.cuStreamWaitEvent(h.s[1], h.e[0], 0));
  OK(launch(h.inc, h.a, h.b, h.s[0]));
  OK(launch(h.twice, h.b, h.c, h.s[1])); /* reads what s0 writes */
  OK(lab.cuEventRecord(h.e[1], h.s[1]));
  OK(lab.cuStreamWaitEvent(h.s[0], h.e[1], 0));
  OK(lab.cuStreamEndCapture(h.s[0], &g));
  OK(lab.cuGraphInstantiateWithFlags(&x, g, 0));
  OK(lab.cuGraphLaunch(x, h.s[2]));
  assert_int_equal(lab.cuStreamSynchronize(h.s[2]), 719);
  assert_true(found("order.race"));
}

static void capture_errors(void **state) {
  (void)state;
  rcuda_graph_t *g = NULL;
  uint64_t p;
  host_t h = begin(0);
  assert_int_equal(lab.cuStreamBeginCapture_v2(NULL, 0), 900);
  assert_int_equal(lab.cuStreamBeginCapture_v2(h.s[0], 3), 1);
  assert_int_equal(lab.cuStreamEndCapture(h.s[0], &g), 401);
  OK(lab.cuStreamBeginCapture_v2(h.s[0], RCUDA_CAPTURE_GLOBAL));
  assert_int_equal(lab.cuStreamBeginCapture_v2(h.s[0], 0), 401);
  /* waiting breaks it */
  assert_int_equal(lab.cuStreamSynchronize(h.s[0]), 900);
  assert_int_equal(launch(h.inc, h.a, h.b, h.s[0]), 901);
  assert_int_equal(lab.cuStreamEndCapture(h.s[0], &g), 901);
  assert_null(g);
  /* so does memory, unless the capture is relaxed */
  OK(lab.cuStreamBeginCapture_v2(h.s[0], RCUDA_CAPTURE_GLOBAL));
  assert_int_equal(lab.cuMemAlloc_v2(&p, 4), 900);
  assert_int_equal(lab.cuStreamEndCapture(h.s[0], &g), 901);
  OK(lab.cuStreamBeginCapture_v2(h.s[0], RCUDA_CAPTURE_RELAXED));
  OK(lab.cuMemAlloc_v2(&p, 4));
  OK(lab.cuStreamEndCapture(h.s[0], &g));
  OK(lab.cuGraphDestroy(g));
  /* the default stream would wait for the capture */
  OK(lab.cuStreamBeginCapture_v2(h.s[0], RCUDA_CAPTURE_RELAXED));
  assert_int_equal(launch(h.inc, h.a, h.b, NULL), 906);
  assert_int_equal(lab.cuStreamEndCapture(h.s[0], &g), 901);
  /* events cross captures in neither direction */
  OK(lab.cuEventRecord(h.e[2], h.s[2]));
  OK(lab.cuStreamBeginCapture_v2(h.s[0], RCUDA_CAPTURE_RELAXED));
  assert_int_equal(lab.cuStreamWaitEvent(h.s[0], h.e[2], 0), 905);
  OK(lab.cuEventRecord(h.e[0], h.s[0]));
  assert_int_equal(lab.cuEventQuery(h.e[0]), 907);
  OK(lab.cuStreamBeginCapture_v2(h.s[1], RCUDA_CAPTURE_RELAXED));
  assert_int_equal(lab.cuStreamWaitEvent(h.s[1], h.e[0], 0), 902);
  OK(lab.cuStreamWaitEvent(h.s[2], h.e[0], 0));
  assert_int_equal(lab.cuStreamEndCapture(h.s[2], &g), 903);
  OK(lab.cuStreamEndCapture(h.s[0], &g));
  OK(lab.cuGraphDestroy(g));
  assert_int_equal(lab.cuGraphDestroy(g), 400);
}

/* -- stream-ordered memory -- */

static void stream_memory(void **state) {
  (void)state;
  int (*get)(uint64_t *, size_t, rcuda_stream_t *);
  int (*put)(uint64_t, rcuda_stream_t *);
  void *p = proc("cuMemAllocAsync"), *q = proc("cuMemFreeAsync");
  memcpy(&get, &p, sizeof p);
  memcpy(&put, &q, sizeof q);
  /* 0: correct; 1: used in another stream without an edge; 2: freed without
     one; 3: freed twice; 4: used after the free, in order */
  for (int what = 0; what < 5; what++) {
    host_t h = begin(RCUDA_STREAM_NON_BLOCKING);
    uint64_t m = 0;
    OK(get(&m, 128, h.s[0]));
    OK(launch(h.inc, h.a, m, h.s[what == 1]));
    OK(launch(h.inc, m, h.b, h.s[what == 1]));
    OK(put(m, h.s[what == 2]));
    if (what == 3) assert_int_equal(put(m, h.s[0]), 1);
    if (what == 4) OK(launch(h.inc, m, h.b, h.s[0]));
    int code = lab.cuCtxSynchronize();
    if (what == 0) no_finding();
    assert_int_equal(code, what == 4               ? 700
                           : what == 1 || what == 2 ? 719
                                                    : 0);
    if (what == 1 || what == 2) assert_true(found("order.lifetime"));
    if (what == 3) assert_true(found("mem.free"));
    if (what == 4) assert_true(found("mem.freed"));
  }
}

/* A module goes while a launch of it is queued. */
static void module_lifetime(void **state) {
  (void)state;
  host_t h = begin(0);
  OK(launch(h.inc, h.a, h.b, h.s[0]));
  OK(lab.cuStreamSynchronize(h.s[0]));
  OK(lab.cuModuleUnload(h.module));
  no_finding();
  h = begin(0);
  OK(launch(h.inc, h.a, h.b, h.s[0]));
  OK(lab.cuModuleUnload(h.module));
  assert_true(found("order.lifetime"));
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:a100,seed:1");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_happens_unasked),
      cmocka_unit_test(pageable_memory),
      cmocka_unit_test(edges),
      cmocka_unit_test(never_waited_for),
      cmocka_unit_test(pairs),
      cmocka_unit_test(default_stream),
      cmocka_unit_test(event_results),
      cmocka_unit_test(late_faults),
      cmocka_unit_test(host_functions),
      cmocka_unit_test(graphs),
      cmocka_unit_test(graph_races),
      cmocka_unit_test(capture_errors),
      cmocka_unit_test(stream_memory),
      cmocka_unit_test(module_lifetime)};
  return cmocka_run_group_tests_name("simgpu.streams", tests, setup, NULL);
}
