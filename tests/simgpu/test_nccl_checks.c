/* What collectives refuse and report: each check with the correct program and
   with one fault in it, the codes of the interface, and ends that the other
   ranks notice. Ranks that wait too long give up after 300 ms here. */
#include "nccl_lab.h"

#define F32 COLL_NCCL_F32
#define SUM COLL_NCCL_SUM

typedef int (*comm1_t)(comm_t);
typedef int (*ask_t)(comm_t, int *);

static int async_error(comm_t c) {
  int code = -1;
  assert_int_equal(NCCL(ask_t, CommGetAsyncError)(c, &code), 0);
  return code;
}

/* A buffer of 64 floats on each rank. */
static void buffers(const world_t *w, u64 *p) {
  float x[64];
  for (int i = 0; i < 64; i++) x[i] = (float)i;
  for (int r = 0; r < w->n; r++) p[r] = copied_to(w, r, x, sizeof x);
}

static int reduce_all(const world_t *w, int r, u64 p, size_t count) {
  return all_reduce(p, p, count, F32, SUM, w->comm[r], w->stream[r]);
}

/* One rank differs in one respect. */
static void mismatch(void **state) {
  (void)state;
  for (int mutant = 0; mutant < 7; mutant++) {
    world_t w;
    u64 p[3];
    world_open(&w, 3);
    buffers(&w, p);
    for (int r = 0; r < 3; r++) {
      int is = r == 1 ? mutant : 0;
      comm_t c = w.comm[r];
      vp s = w.stream[r];
      int code =
          is == 1   ? all_reduce(p[r], p[r], 8, COLL_NCCL_I32, SUM, c, s)
          : is == 2 ? all_reduce(p[r], p[r], 9, F32, SUM, c, s)
          : is == 3 ? all_reduce(p[r], p[r], 8, F32, COLL_NCCL_MAX, c, s)
          : is == 4 ? reduce_to(p[r], p[r], 8, F32, SUM, 0, c, s)
          : is == 5 ? 0 /* sends instead */
                    : all_reduce(p[r], p[r], 8, F32, SUM, c, s);
      assert_int_equal(code, 0);
      if (mutant < 6) continue;
      /* 6: the second of two is a broadcast from another root */
      assert_int_equal(broadcast(p[r], p[r], 8, F32, r == 1, c, s), 0);
    }
    if (mutant == 5) {
      /* a receive of another count than the send */
      assert_int_equal(send_to(p[1], 8, F32, 0, w.comm[1], w.stream[1]), 0);
      assert_int_equal(receive(p[0], 7, F32, 1, w.comm[0], w.stream[0]), 0);
    }
    wait_all(&w, mutant ? 719 : 0);
    assert_int_equal(findings("coll.mismatch") > 0, mutant != 0);
    assert_int_equal(async_error(w.comm[0]), mutant ? 5 : 0);
    world_close(&w);
  }
}

static void bad_buffers(void **state) {
  (void)state;
  world_t w;
  u64 p[2];
  float host[8] = {0};
  world_open(&w, 2);
  buffers(&w, p);
  vp s = w.stream[0];
  comm_t c = w.comm[0];
#define BAD(...)                                                              \
  assert_int_equal(__VA_ARGS__, 4);                                           \
  assert_int_equal(findings("coll.buffer"), 1)
  BAD(all_reduce(p[0] + 8, p[0] + 8, 64, F32, SUM, c, s)); /* beyond */
  BAD(all_reduce(p[0], p[1], 8, F32, SUM, c, s)); /* the other device's */
  BAD(all_reduce((u64)(uintptr_t)host, p[0], 8, F32, SUM, c, s));
  BAD(all_reduce(p[0], p[0] + 4, 8, F32, SUM, c, s)); /* overlap */
  BAD(all_gather(p[0] + 4, p[0], 8, F32, c, s)); /* not at its own place */
  BAD(all_to_all(p[0], p[0], 8, F32, c, s)); /* never in place */
  BAD(receive(p[0] + 256, 1, F32, 1, c, s));
  /* the right forms are none of these */
  assert_int_equal(all_gather(p[0], p[0], 8, F32, c, s), 0);
  assert_int_equal(all_gather(p[1] + 32, p[1], 8, F32, w.comm[1],
                              w.stream[1]), 0);
  wait_all(&w, 0);
  assert_int_equal(findings("coll."), 0);
  /* memory that ends before the collective runs; values nobody wrote */
  u64 q = alloc_on(&w, 0, 256);
  assert_int_equal(all_reduce(q, q, 8, F32, SUM, c, s), 0);
  assert_int_equal(reduce_all(&w, 1, p[1], 8), 0);
  wait_all(&w, 0);
  assert_int_equal(findings("init.use"), 1);
  world_close(&w);
}

static void groups(void **state) {
  (void)state;
  world_t w;
  u64 p[2];
  world_open(&w, 2);
  buffers(&w, p);
  assert_int_equal(group_end(), 5); /* none is open */
  assert_int_equal(findings("coll.group"), 1);
  /* inside a group nothing is enqueued before its end */
  assert_int_equal(group_start(), 0);
  assert_int_equal(group_start(), 0);
  for (int r = 0; r < 2; r++)
    assert_int_equal(reduce_all(&w, r, p[r], 8), 0);
  assert_int_equal(group_end(), 0);
  use(&w, 0);
  OK(cuStreamQuery, (vp), w.stream[0]);
  float x = 0;
  OK(cuMemcpyDtoH_v2, (vp, u64, size_t), &x, p[0] + 12, 4);
  assert_true(x == 3);
  assert_int_equal(group_end(), 0);
  wait_all(&w, 0);
  copied_from(&w, 0, &x, p[0] + 12, 4);
  assert_true(x == 6);
  /* a call that fails inside makes the whole group fail */
  assert_int_equal(group_start(), 0);
  assert_int_equal(reduce_all(&w, 0, p[0], 8), 0);
  assert_int_equal(reduce_all(&w, 1, p[1], 9999), 4);
  assert_int_equal(group_end(), 4);
  findings("");
  /* initialisation may not share a group with communication */
  coll_nccl_id_t id;
  comm_t other[2];
  NCCL(int (*)(coll_nccl_id_t *), GetUniqueId)(&id);
  assert_int_equal(group_start(), 0);
  for (int r = 0; r < 2; r++) {
    use(&w, r);
    NCCL(int (*)(comm_t *, int, coll_nccl_id_t, int), CommInitRank)
    (&other[r], 2, id, r);
    reduce_all(&w, r, p[r], 8);
  }
  assert_int_equal(group_end(), 5);
  assert_int_equal(findings("coll.group"), 1);
  /* an estimate that nobody can give, and a group that never happened */
  coll_nccl_sim_t info = {sizeof info, COLL_NCCL_SIM_MAGIC, 22809, 3.0f};
  assert_int_equal(group_start(), 0);
  assert_int_equal(reduce_all(&w, 0, p[0], 8), 0);
  assert_int_equal(
      NCCL(int (*)(coll_nccl_sim_t *), GroupSimulateEnd)(&info), 0);
  assert_true(info.estimated_us == -1.0f);
  wait_all(&w, 0);
  copied_from(&w, 0, &x, p[0] + 12, 4);
  assert_true(x == 6);
  world_close(&w);
}

/* Two streams in one group: a barrier over both. */
static void two_streams(void **state) {
  (void)state;
  world_t w;
  u64 p[2], q[2];
  float x[2];
  world_open(&w, 2);
  buffers(&w, p);
  buffers(&w, q);
  vp more[2];
  for (int r = 0; r < 2; r++) {
    use(&w, r);
    OK(cuStreamCreate, (vp *, unsigned), &more[r], 1);
    OK(cuMemsetD32Async, (u64, unsigned, size_t, vp), q[r], 0x40000000, 8,
       more[r]); /* 2.0 */
  }
  assert_int_equal(group_start(), 0);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(reduce_all(&w, r, p[r], 8), 0);
    assert_int_equal(all_reduce(q[r], q[r], 8, F32, SUM, w.comm[r], more[r]),
                     0);
  }
  assert_int_equal(group_end(), 0);
  for (int r = 0; r < 2; r++) {
    use(&w, r);
    /* the first stream is behind the second's fill, too */
    OK(cuMemcpyDtoDAsync_v2, (u64, u64, size_t, vp), p[r] + 128, q[r], 4,
       w.stream[r]);
  }
  wait_all(&w, 0);
  copied_from(&w, 1, x, p[1] + 128, 4);
  assert_true(x[0] == 4);
  assert_int_equal(findings("order.race"), 0);
  world_close(&w);
}

static void count_call(void *user) { ++*(int *)user; }

/* Captured by all ranks: each launch is a collective. By one only: told. */
static void capture(void **state) {
  (void)state;
  for (int mutant = 0; mutant < 2; mutant++) {
    world_t w;
    u64 p[2];
    vp exec[2] = {NULL};
    float x = 0;
    world_open(&w, 2);
    buffers(&w, p);
    for (int r = 0; r < 2 - mutant; r++) {
      vp g = NULL;
      use(&w, r);
      OK(cuStreamBeginCapture_v2, (vp, int), w.stream[r], 1);
      assert_int_equal(reduce_all(&w, r, p[r], 8), 0);
      OK(cuStreamEndCapture, (vp, vp *), w.stream[r], &g);
      OK(cuGraphInstantiateWithFlags, (vp *, vp, u64), &exec[r], g, 0);
    }
    for (int turn = 0; turn < 3 - 2 * mutant; turn++) {
      for (int r = 0; r < 2; r++) {
        use(&w, r);
        if (exec[r])
          OK(cuGraphLaunch, (vp, vp), exec[r], w.stream[r]);
        else
          assert_int_equal(reduce_all(&w, r, p[r], 8), 0);
      }
    }
    wait_all(&w, mutant ? 719 : 0);
    assert_int_equal(findings("coll.capture"), mutant);
    if (!mutant) {
      copied_from(&w, 0, &x, p[0] + 4, 4);
      assert_true(x == 8); /* 1, doubled three times */
    }
    world_close(&w);
  }
}

/* Two communicators over the same two devices, in one order on the one and
   the other on the other: with streams of their own, nothing orders them. In
   one stream each, they block one another for ever. */
static void orders(void **state) {
  (void)state;
  for (int mutant = 0; mutant < 3; mutant++) {
    world_t w;
    u64 p[2], q[2];
    comm_t second[2];
    vp more[2];
    typedef int (*split_t)(comm_t, int, int, comm_t *, void *);
    world_open(&w, 2);
    buffers(&w, p);
    buffers(&w, q);
    assert_int_equal(group_start(), 0);
    for (int r = 0; r < 2; r++)
      NCCL(split_t, CommSplit)(w.comm[r], 0, r, &second[r], NULL);
    assert_int_equal(group_end(), 0);
    for (int r = 0; r < 2; r++) {
      use(&w, r);
      OK(cuStreamCreate, (vp *, unsigned), &more[r], 1);
      vp other = mutant == 2 ? w.stream[r] : more[r];
      bool swapped = mutant && r == 1;
      if (!swapped) assert_int_equal(reduce_all(&w, r, p[r], 8), 0);
      assert_int_equal(
          all_reduce(q[r], q[r], 8, F32, SUM, second[r], other), 0);
      if (swapped) assert_int_equal(reduce_all(&w, r, p[r], 8), 0);
    }
    wait_all(&w, mutant == 2 ? 719 : 0);
    for (int r = 0; r < 2; r++) {
      use(&w, r);
      if (mutant < 2) OK(cuStreamSynchronize, (vp), more[r]);
    }
    if (mutant == 2)
      assert_int_equal(findings("coll.deadlock"), 1);
    else
      assert_int_equal(findings("coll.order"), mutant);
    world_close(&w);
  }
}

/* Sends that both wait for the other's receive, without a group. */
static void circle(void **state) {
  (void)state;
  for (int mutant = 0; mutant < 2; mutant++) {
    world_t w;
    u64 p[2];
    world_open(&w, 2);
    buffers(&w, p);
    for (int r = 0; r < 2; r++) {
      bool sends_first = r == 0 || mutant;
      comm_t c = w.comm[r];
      vp s = w.stream[r];
      if (sends_first)
        assert_int_equal(send_to(p[r], 8, F32, 1 - r, c, s), 0);
      assert_int_equal(receive(p[r] + 64, 8, F32, 1 - r, c, s), 0);
      if (!sends_first)
        assert_int_equal(send_to(p[r], 8, F32, 1 - r, c, s), 0);
    }
    wait_all(&w, mutant ? 719 : 0);
    assert_int_equal(findings("coll.deadlock"), mutant);
    world_close(&w);
  }
}

/* A rank that never calls: polling says so without end, waiting ends with the
   deadline; a rank that has ended is known at once. */
static void missing(void **state) {
  (void)state;
  for (int how = 0; how < 3; how++) {
    world_t w;
    u64 p[2];
    int calls = 0;
    world_open(&w, 2);
    buffers(&w, p);
    assert_int_equal(reduce_all(&w, 0, p[0], 8), 0);
    use(&w, 0);
    OK(cuLaunchHostFunc, (vp, void (*)(void *), vp), w.stream[0], count_call,
       &calls);
    if (how == 0) {
      for (int i = 0; i < 5; i++)
        CODE(600, cuStreamQuery, (vp), w.stream[0]);
      assert_int_equal(async_error(w.comm[0]), 0);
      assert_int_equal(reduce_all(&w, 1, p[1], 8), 0);
      use(&w, 0);
      OK(cuStreamQuery, (vp), w.stream[0]);
      assert_int_equal(calls, 1);
    } else {
      if (how == 2)
        assert_int_equal(NCCL(comm1_t, CommAbort)(w.comm[1]), 0);
      if (how == 2) w.comm[1] = NULL;
      CODE(719, cuStreamSynchronize, (vp), w.stream[0]);
      assert_int_equal(findings("coll.deadlock"), 1);
      assert_int_equal(async_error(w.comm[0]), 6);
      assert_int_equal(reduce_all(&w, 0, p[0], 8), 6);
      SYNC(0); /* the context is not broken by it */
      assert_int_equal(NCCL(comm1_t, CommAbort)(w.comm[0]), 0);
      w.comm[0] = NULL;
    }
    world_close(&w);
  }
}

/* An abort frees a stream that waits for others. */
static void aborted(void **state) {
  (void)state;
  world_t w;
  u64 p[2];
  world_open(&w, 2);
  buffers(&w, p);
  assert_int_equal(reduce_all(&w, 0, p[0], 8), 0);
  assert_int_equal(NCCL(comm1_t, CommAbort)(w.comm[0]), 0);
  use(&w, 0);
  OK(cuStreamSynchronize, (vp), w.stream[0]);
  assert_int_equal(NCCL(comm1_t, CommAbort)(w.comm[0]), 4); /* gone */
  w.comm[0] = NULL;
  world_close(&w);
}

typedef struct helper_t {
  world_t *w;
  u64 p;
  int code;
} helper_t;

static void *from_elsewhere(void *arg) {
  helper_t *h = arg;
  ((int (*)(rcuda_ctx_t *))symbol("cuCtxSetCurrent"))(h->w->ctx[0]);
  h->code = reduce_all(h->w, 0, h->p, 8);
  return NULL;
}

/* One communicator from two threads at once. */
static void two_threads(void **state) {
  (void)state;
  for (int mutant = 0; mutant < 2; mutant++) {
    world_t w;
    u64 p[2];
    pthread_t thread;
    world_open(&w, 2);
    buffers(&w, p);
    helper_t h = {&w, p[0], -1};
    if (mutant) assert_int_equal(group_start(), 0);
    assert_int_equal(reduce_all(&w, 0, p[0], 8), 0);
    assert_int_equal(pthread_create(&thread, NULL, from_elsewhere, &h), 0);
    pthread_join(thread, NULL);
    assert_int_equal(h.code, 0);
    if (mutant) assert_int_equal(group_end(), 0);
    for (int i = 0; i < 2; i++)
      assert_int_equal(reduce_all(&w, 1, p[1], 8), 0);
    wait_all(&w, 0);
    assert_int_equal(findings("coll.order"), mutant);
    world_close(&w);
  }
}

static void codes(void **state) {
  (void)state;
  world_t w;
  u64 p[2];
  coll_nccl_id_t id;
  comm_t c = NULL, d = NULL;
  int n = 0;
  typedef int (*init_t)(comm_t *, int, coll_nccl_id_t, int);
  typedef int (*config_t)(comm_t *, int, coll_nccl_id_t, int,
                          coll_nccl_config_t *);
  typedef int (*reg_t)(comm_t, vp, size_t, vp *);
  world_open(&w, 2);
  buffers(&w, p);
  vp s = w.stream[0];
  assert_int_equal(NCCL(ask_t, GetVersion)((comm_t)&n, NULL), 0);
  assert_int_equal(n, 22809);
  assert_int_equal(all_reduce(p[0], p[0], 8, 12, SUM, w.comm[0], s), 4);
  assert_int_equal(all_reduce(p[0], p[0], 8, -1, SUM, w.comm[0], s), 4);
  assert_int_equal(all_reduce(p[0], p[0], 8, F32, 5, w.comm[0], s), 4);
  assert_int_equal(broadcast(p[0], p[0], 8, F32, 2, w.comm[0], s), 4);
  assert_int_equal(send_to(p[0], 8, F32, -1, w.comm[0], s), 4);
  assert_int_equal(all_reduce(p[0], p[0], 8, F32, SUM, NULL, s), 4);
  assert_int_equal(all_reduce(p[0], p[0], 8, F32, SUM, w.comm[0], &n), 1);
  assert_int_equal(
      all_reduce(p[0], p[0], 8, F32, SUM, w.comm[0], w.stream[1]), 4);
  typedef const char *(*text_t)(int);
  typedef const char *(*last_t)(comm_t);
  assert_string_equal(NCCL(text_t, GetErrorString)(4), "invalid argument");
  assert_non_null(strstr(NCCL(last_t, GetLastError)(w.comm[0]), "stream"));
  NCCL(int (*)(coll_nccl_id_t *), GetUniqueId)(&id);
  assert_int_equal(NCCL(init_t, CommInitRank)(&c, 2, id, 2), 4);
  assert_int_equal(NCCL(init_t, CommInitRank)(&c, 0, id, 0), 4);
  assert_int_equal(NCCL(init_t, CommInitRank)(NULL, 2, id, 0), 4);
  /* without blocking: in progress until the other is there */
  coll_nccl_config_t config = {
      .bytes = sizeof config, .magic = COLL_NCCL_CONFIG_MAGIC,
      .version = 22809, .blocking = 0};
  use(&w, 0);
  assert_int_equal(NCCL(config_t, CommInitRankConfig)(&c, 2, id, 0, &config),
                   7);
  assert_int_equal(async_error(c), 7);
  assert_int_equal(all_reduce(p[0], p[0], 8, F32, SUM, c, s), 4);
  assert_int_equal(NCCL(config_t, CommInitRankConfig)(&d, 2, id, 1, &config),
                   5); /* the same device twice */
  use(&w, 1);
  assert_int_equal(NCCL(config_t, CommInitRankConfig)(&d, 3, id, 1, &config),
                   5); /* three ranks, says one */
  assert_int_equal(findings("coll.mismatch"), 1);
  assert_int_equal(NCCL(config_t, CommInitRankConfig)(&d, 2, id, 1, &config),
                   0);
  assert_int_equal(async_error(c), 0);
  config.magic = 1;
  assert_int_equal(NCCL(config_t, CommInitRankConfig)(&d, 2, id, 1, &config),
                   4);
  assert_int_equal(NCCL(comm1_t, CommDestroy)(c), 0);
  assert_int_equal(NCCL(comm1_t, CommDestroy)(d), 0);
  assert_int_equal(NCCL(comm1_t, CommDestroy)(d), 4);
  /* a rank that waits alone */
  NCCL(int (*)(coll_nccl_id_t *), GetUniqueId)(&id);
  assert_int_equal(NCCL(init_t, CommInitRank)(&c, 2, id, 0), 6);
  assert_int_equal(findings("coll.deadlock"), 1);
  /* memory and registration */
  vp mine = NULL, handle = NULL;
  use(&w, 0);
  assert_int_equal(NCCL(int (*)(vp *, size_t), MemAlloc)(&mine, 64), 0);
  assert_int_equal(
      NCCL(reg_t, CommRegister)(w.comm[0], mine, 64, &handle), 0);
  assert_int_equal(
      NCCL(reg_t, CommRegister)(w.comm[0], mine, 65, &handle), 4);
  typedef int (*unreg_t)(comm_t, vp);
  assert_int_equal(NCCL(unreg_t, CommDeregister)(w.comm[0], handle), 0);
  assert_int_equal(NCCL(unreg_t, CommDeregister)(w.comm[0], handle), 4);
  assert_int_equal(NCCL(int (*)(vp), MemFree)(mine), 0);
  assert_int_equal(NCCL(int (*)(vp), MemFree)(mine), 4);
  /* all at once, in the devices' primary contexts */
  comm_t all[2];
  int devices[] = {1, 0};
  typedef int (*all_t)(comm_t *, int, const int *);
  assert_int_equal(NCCL(all_t, CommInitAll)(all, 2, devices), 0);
  assert_int_equal(NCCL(ask_t, CommCuDevice)(all[0], &n), 0);
  assert_int_equal(n, 1);
  devices[1] = 1;
  assert_int_equal(NCCL(all_t, CommInitAll)(all, 2, devices), 5);
  /* finalized: nothing more */
  assert_int_equal(NCCL(comm1_t, CommFinalize)(w.comm[0]), 0);
  assert_int_equal(NCCL(comm1_t, CommFinalize)(w.comm[0]), 5);
  assert_int_equal(reduce_all(&w, 0, p[0], 8), 5);
  /* what is not simulated; what is made to fail */
  assert_int_equal(zeros("ncclGather"), 3);
  assert_int_equal(configure("fail:ncclAllReduce@2=1"), 0);
  assert_int_equal(reduce_all(&w, 1, p[1], 0), 0);
  assert_int_equal(reduce_all(&w, 1, p[1], 0), 1);
  world_close(&w);
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100,devices:4,deadline:1000");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mismatch),    cmocka_unit_test(bad_buffers),
      cmocka_unit_test(groups),      cmocka_unit_test(two_streams),
      cmocka_unit_test(capture),     cmocka_unit_test(orders),
      cmocka_unit_test(circle),      cmocka_unit_test(missing),
      cmocka_unit_test(aborted),     cmocka_unit_test(two_threads),
      cmocka_unit_test(codes)};
  return cmocka_run_group_tests_name("simgpu.nccl_checks", tests, setup,
                                     NULL);
}
