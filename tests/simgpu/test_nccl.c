/* Collectives: values in the twelve types against plain sums, on 2, 3, 4 and
   8 devices; in place and not; bytes by the formulas; ranks as threads. */
#include "nccl_lab.h"

#define COUNT 60 /* elements of a share: not a power of two */

/* Small numbers that every type holds, different everywhere. */
static double value(int rank, size_t i) {
  return (double)((rank * 7 + (int)i * 3) % 5 + 1);
}

static double folded(int op, int n, size_t i, double scalar) {
  double v = op == COLL_NCCL_PROD ? 1 : op == COLL_NCCL_MIN ? 1e9 : 0;
  for (int r = 0; r < n; r++) {
    double x = value(r, i);
    if (op == COLL_NCCL_PROD) v *= x;
    else if (op == COLL_NCCL_MAX) v = x > v ? x : v;
    else if (op == COLL_NCCL_MIN) v = x < v ? x : v;
    else v += x * scalar;
  }
  return op == COLL_NCCL_AVG ? v / n : v;
}

/* What the type makes of a value: wraps, truncates or rounds. */
static double as(int type, double v) {
  char one[8] = {0};
  if (type == COLL_NCCL_F8E4M3 && v > 448) v = 448;
  put(type, one, 0, v);
  return get(type, one, 0);
}

/* Elements of the type that hold value(rank, from..from+count). */
static u64 filled(const world_t *w, int rank, int type, size_t count) {
  char data[8 * COUNT * MAX_RANKS];
  for (size_t i = 0; i < count; i++) put(type, data, i, value(rank, i));
  return copied_to(w, rank, data, count * (size_t)kinds[type].bytes);
}

static void expect(const world_t *w, int rank, u64 p, int type, size_t i,
                   double want, const char *what) {
  char one[8];
  size_t bytes = (size_t)kinds[type].bytes;
  copied_from(w, rank, one, p + i * bytes, bytes);
  double have = get(type, one, 0);
  if (have != want)
    fail_msg("%s: rank %d of %d, type %d, element %zu: %g, not %g", what,
             rank, w->n, type, i, have, want);
}

static void all_types(const world_t *w, int type) {
  u64 in[MAX_RANKS], out[MAX_RANKS];
  size_t e = (size_t)kinds[type].bytes;
  int n = w->n;
  for (int r = 0; r < n; r++) {
    in[r] = filled(w, r, type, COUNT * (size_t)n);
    out[r] = alloc_on(w, r, COUNT * (size_t)n * e);
  }
  static const size_t some[] = {0, 1, 17, COUNT - 1};
  for (int op = 0; op < COLL_NCCL_OPS; op++) {
    assert_int_equal(group_start(), 0);
    for (int r = 0; r < n; r++)
      assert_int_equal(all_reduce(in[r], out[r], COUNT, type, op, w->comm[r],
                                  w->stream[r]),
                       0);
    assert_int_equal(group_end(), 0);
    wait_all(w, 0);
    for (int r = 0; r < n; r++)
      for (int k = 0; k < 4; k++)
        expect(w, r, out[r], type, some[k],
               as(type, folded(op, n, some[k], 1)), "all_reduce");
  }
  for (int r = 0; r < n; r++)
    assert_int_equal(reduce_scatter(in[r], out[r], COUNT, type,
                                    COLL_NCCL_SUM, w->comm[r], w->stream[r]),
                     0);
  wait_all(w, 0);
  for (int r = 0; r < n; r++)
    for (int k = 0; k < 4; k++)
      expect(w, r, out[r], type, some[k],
             as(type, folded(COLL_NCCL_SUM, n, (size_t)r * COUNT + some[k],
                             1)),
             "reduce_scatter");
  for (int r = 0; r < n; r++)
    assert_int_equal(reduce_to(in[r], r == 1 ? out[r] : 0, COUNT, type,
                               COLL_NCCL_MAX, 1, w->comm[r], w->stream[r]),
                     0);
  wait_all(w, 0);
  expect(w, 1, out[1], type, 5, folded(COLL_NCCL_MAX, n, 5, 1), "reduce");
  for (int r = 0; r < n; r++)
    assert_int_equal(
        all_gather(in[r], out[r], COUNT, type, w->comm[r], w->stream[r]), 0);
  wait_all(w, 0);
  for (int r = 0; r < n; r++)
    for (int from = 0; from < n; from++)
      expect(w, r, out[r], type, (size_t)from * COUNT + 9, value(from, 9),
             "all_gather");
  for (int r = 0; r < n; r++)
    assert_int_equal(
        all_to_all(in[r], out[r], COUNT, type, w->comm[r], w->stream[r]), 0);
  wait_all(w, 0);
  for (int r = 0; r < n; r++)
    for (int from = 0; from < n; from++)
      expect(w, r, out[r], type, (size_t)from * COUNT + 11,
             value(from, (size_t)r * COUNT + 11), "all_to_all");
  for (int r = 0; r < n; r++)
    assert_int_equal(broadcast(r == n - 1 ? in[r] : 0, out[r], COUNT, type,
                               n - 1, w->comm[r], w->stream[r]),
                     0);
  wait_all(w, 0);
  for (int r = 0; r < n; r++)
    expect(w, r, out[r], type, 3, value(n - 1, 3), "broadcast");
  for (int r = 0; r < n; r++) {
    use(w, r);
    OK(cuMemFree_v2, (u64), in[r]);
    OK(cuMemFree_v2, (u64), out[r]);
  }
}

static void values(void **state) {
  (void)state;
  static const int sizes[] = {2, 3, 4, 8};
  for (int k = 0; k < 4; k++) {
    world_t w;
    world_open(&w, sizes[k]);
    for (int type = 0; type < COLL_NCCL_DTYPES; type++) all_types(&w, type);
    assert_int_equal(findings("coll."), 0);
    world_close(&w);
  }
}

/* Sums that need the accumulator: 1 + 2^-8 as bf16 in f32 keeps what bf16
   would drop, and rounds once. */
static void rounding(void **state) {
  (void)state;
  static const char *const orders[] = {"reduce:rank", "reduce:ring",
                                       "reduce:random"};
  for (int k = 0; k < 3; k++) {
    world_t w;
    world_open(&w, 4);
    assert_int_equal(configure(orders[k]), 0);
    u64 p[4];
    for (int r = 0; r < 4; r++) {
      unsigned short x[4];
      for (int i = 0; i < 4; i++)
        put(COLL_NCCL_BF16, x, (size_t)i, r == 0 ? 1 : ldexp(1, -9));
      p[r] = copied_to(&w, r, x, 8);
    }
    for (int r = 0; r < 4; r++)
      assert_int_equal(all_reduce(p[r], p[r], 4, COLL_NCCL_BF16,
                                  COLL_NCCL_SUM, w.comm[r], w.stream[r]),
                       0);
    wait_all(&w, 0);
    /* 1 + 3 * 2^-9 lies between 1 and 1 + 2^-7, nearer to the latter. A ring
       rounds at each hop: a chunk that starts at rank 0 loses each 2^-9 to
       1, one that ends there has 3 * 2^-9 whole first */
    for (int i = 0; i < 4; i++) {
      double want = 1 + ldexp(1, -7);
      if (k == 1 && (i + 1) % 4 == 0) want = 1;
      if (k == 1 && i == 2) want = 1; /* 2^-9, then 1, then twice lost */
      if (k == 1 && i == 1) want = 1; /* 2^-8 and 1: a tie, to even */
      expect(&w, 2, p[2], COLL_NCCL_BF16, (size_t)i, want, orders[k]);
    }
    world_close(&w);
  }
  assert_int_equal(configure("reduce:rank"), 0);
}

/* In place as the interface defines it, a scalar before the sum, and counts
   of nothing. */
static void in_place(void **state) {
  (void)state;
  world_t w;
  world_open(&w, 3);
  u64 p[3];
  int op[3];
  float scalar[3] = {2, 3, 5};
  for (int r = 0; r < 3; r++) p[r] = filled(&w, r, COLL_NCCL_F32, 3 * COUNT);
  for (int r = 0; r < 3; r++)
    assert_int_equal(reduce_scatter(p[r], p[r] + (u64)r * COUNT * 4, COUNT,
                                    COLL_NCCL_F32, COLL_NCCL_SUM, w.comm[r],
                                    w.stream[r]),
                     0);
  for (int r = 0; r < 3; r++)
    assert_int_equal(all_gather(p[r] + (u64)r * COUNT * 4, p[r], COUNT,
                                COLL_NCCL_F32, w.comm[r], w.stream[r]),
                     0);
  wait_all(&w, 0);
  for (int r = 0; r < 3; r++)
    for (size_t i = 0; i < 3 * COUNT; i += 7)
      expect(&w, r, p[r], COLL_NCCL_F32, i, folded(COLL_NCCL_SUM, 3, i, 1),
             "in place");
  /* rank r's values times scalar[r]: one from the host, two on the device */
  for (int r = 0; r < 3; r++) {
    u64 q = filled(&w, r, COLL_NCCL_F32, COUNT);
    u64 on_device = copied_to(&w, r, &scalar[r], 4);
    assert_int_equal(
        NCCL(int (*)(int *, const void *, int, int, comm_t),
             RedOpCreatePreMulSum)(&op[r],
                                   r ? (vp)(uintptr_t)on_device : &scalar[r],
                                   COLL_NCCL_F32, r == 0, w.comm[r]),
        0);
    assert_int_equal(all_reduce(q, p[r], COUNT, COLL_NCCL_F32, op[r],
                                w.comm[r], w.stream[r]),
                     0);
    assert_int_equal(NCCL(int (*)(int, comm_t), RedOpDestroy)(op[r],
                                                              w.comm[r]),
                     0);
  }
  wait_all(&w, 0);
  expect(&w, 0, p[0], COLL_NCCL_F32, 8,
         2 * value(0, 8) + 3 * value(1, 8) + 5 * value(2, 8), "premulsum");
  assert_int_equal(all_reduce(p[0], p[0], 1, COLL_NCCL_F32, op[0], w.comm[0],
                              w.stream[0]),
                   4); /* destroyed */
  for (int r = 0; r < 3; r++)
    assert_int_equal(all_reduce(p[r], p[r], 0, COLL_NCCL_F32, COLL_NCCL_SUM,
                                w.comm[r], w.stream[r]),
                     0);
  wait_all(&w, 0);
  world_close(&w);
}

/* Bytes that each rank sends, to whom, in how many steps: by the formulas. */
static void bytes(void **state) {
  (void)state;
  static const int sizes[] = {2, 3, 4, 8};
  for (int k = 0; k < 4; k++) {
    world_t w;
    u64 n = (u64)sizes[k], b = 24 * 4; /* 24 f32: divides by all four */
    world_open(&w, sizes[k]);
    u64 in[MAX_RANKS], out[MAX_RANKS];
    findings("");
    for (int r = 0; r < w.n; r++) {
      in[r] = filled(&w, r, COLL_NCCL_F32, 24 * n);
      out[r] = alloc_on(&w, r, n * b);
    }
    for (int r = 0; r < w.n; r++) {
      comm_t c = w.comm[r];
      vp s = w.stream[r];
      int f = COLL_NCCL_F32;
      all_reduce(in[r], out[r], 24, f, 0, c, s);
      all_gather(in[r], out[r], 24, f, c, s);
      reduce_scatter(in[r], out[r], 24 / n, f, 0, c, s);
      all_to_all(in[r], out[r], 24 / n, f, c, s);
      broadcast(in[r], out[r], 24, f, 1, c, s);
    }
    wait_all(&w, 0);
    for (int r = 0; r < w.n; r++) {
      char key[64];
#define SENT(op, bytes_, steps_)                                              \
  snprintf(key, sizeof key, "\"rank\":%d,\"device\":%d,\"op\":\"" op "\"", r, \
           r);                                                                \
  assert_int_equal(total(key, "coll.bytes"), bytes_);                         \
  assert_int_equal(total(key, "coll.steps"), steps_)
      SENT("all_reduce", 2 * (n - 1) * b / n, 2 * (n - 1));
      SENT("all_gather", (n - 1) * b, n - 1);
      SENT("reduce_scatter", (n - 1) * b / n, n - 1);
      SENT("all_to_all", (n - 1) * b / n, n - 1);
      SENT("broadcast", r == 1 ? b : 0, n - 1);
      /* the link to the next rank carries the rings', and one share */
      snprintf(key, sizeof key, "\"from\":%d,\"to\":%d", r, (r + 1) % w.n);
      assert_int_equal(total(key, "bytes"),
                       2 * (n - 1) * b / n + (n - 1) * b + (n - 1) * b / n +
                           b / n + (r == 1 ? b : 0));
    }
    world_close(&w);
  }
}

/* Each rank to its right neighbour, and a pair that both ask first: inside a
   group they do not wait for one another. */
static void transfers(void **state) {
  (void)state;
  world_t w;
  world_open(&w, 4);
  u64 in[4], out[4];
  for (int r = 0; r < 4; r++) {
    in[r] = filled(&w, r, COLL_NCCL_I32, COUNT);
    out[r] = alloc_on(&w, r, COUNT * 4);
  }
  for (int r = 0; r < 4; r++) {
    assert_int_equal(group_start(), 0);
    assert_int_equal(send_to(in[r], COUNT, COLL_NCCL_I32, (r + 1) % 4,
                             w.comm[r], w.stream[r]),
                     0);
    assert_int_equal(receive(out[r], COUNT, COLL_NCCL_I32, (r + 3) % 4,
                             w.comm[r], w.stream[r]),
                     0);
    assert_int_equal(group_end(), 0);
  }
  wait_all(&w, 0);
  for (int r = 0; r < 4; r++)
    expect(&w, r, out[r], COLL_NCCL_I32, 21, value((r + 3) % 4, 21), "ring");
  /* without a group: the order of one is the other's order */
  assert_int_equal(send_to(in[0], 5, COLL_NCCL_I32, 1, w.comm[0],
                           w.stream[0]), 0);
  assert_int_equal(receive(out[0], 5, COLL_NCCL_I32, 1, w.comm[0],
                           w.stream[0]), 0);
  assert_int_equal(receive(out[1], 5, COLL_NCCL_I32, 0, w.comm[1],
                           w.stream[1]), 0);
  assert_int_equal(send_to(in[1], 5, COLL_NCCL_I32, 0, w.comm[1],
                           w.stream[1]), 0);
  wait_all(&w, 0);
  expect(&w, 0, out[0], COLL_NCCL_I32, 4, value(1, 4), "pair");
  assert_int_equal(findings("coll."), 0);
  world_close(&w);
}

/* Split by parity, the order within turned round. */
static void split(void **state) {
  (void)state;
  world_t w;
  world_open(&w, 4);
  comm_t half[4] = {NULL};
  typedef int (*split_t)(comm_t, int, int, comm_t *, void *);
  typedef int (*ask_t)(comm_t, int *);
  assert_int_equal(group_start(), 0);
  for (int r = 0; r < 4; r++)
    assert_int_equal(
        NCCL(split_t, CommSplit)(w.comm[r], r == 3 ? -1 : r % 2, -r, &half[r],
                                 NULL),
        0);
  assert_int_equal(group_end(), 0);
  assert_null(half[3]);
  int n = 0, rank = 9, device = 9;
  NCCL(ask_t, CommCount)(half[0], &n);
  NCCL(ask_t, CommUserRank)(half[0], &rank);
  NCCL(ask_t, CommCuDevice)(half[0], &device);
  assert_int_equal(n, 2);
  assert_int_equal(rank, 1); /* key 0 comes after key -2 */
  assert_int_equal(device, 0);
  NCCL(ask_t, CommCount)(half[1], &n);
  assert_int_equal(n, 1);
  u64 p[4];
  for (int r = 0; r < 4; r++) p[r] = filled(&w, r, COLL_NCCL_U8, COUNT);
  for (int r = 0; r < 3; r++)
    assert_int_equal(all_reduce(p[r], p[r], COUNT, COLL_NCCL_U8,
                                COLL_NCCL_SUM, half[r], w.stream[r]),
                     0);
  wait_all(&w, 0);
  expect(&w, 2, p[2], COLL_NCCL_U8, 4, value(0, 4) + value(2, 4), "half");
  expect(&w, 1, p[1], COLL_NCCL_U8, 4, value(1, 4), "alone");
  world_close(&w);
}

/* -- a thread for each rank -- */

typedef struct rank_t {
  pthread_t thread;
  int rank, n;
  coll_nccl_id_t id;
  double first;
  int code;
} rank_t;

static void *work(void *arg) {
  rank_t *me = arg;
  rcuda_ctx_t *ctx = NULL;
  comm_t comm = NULL;
  vp s = NULL;
  u64 p = 0, q = 0;
  float x[COUNT];
  typedef int (*ctx_t)(rcuda_ctx_t **, int);
  typedef int (*set_t)(rcuda_ctx_t *);
  ((ctx_t)symbol("cuDevicePrimaryCtxRetain"))(&ctx, me->rank);
  ((set_t)symbol("cuCtxSetCurrent"))(ctx);
  me->code = NCCL(int (*)(comm_t *, int, coll_nccl_id_t, int),
                  CommInitRank)(&comm, me->n, me->id, me->rank);
  if (me->code) return NULL;
  ((int (*)(vp *, unsigned))symbol("cuStreamCreate"))(&s, 1);
  ((int (*)(u64 *, size_t))symbol("cuMemAlloc_v2"))(&p, sizeof x);
  ((int (*)(u64 *, size_t))symbol("cuMemAlloc_v2"))(&q, sizeof x);
  for (size_t i = 0; i < COUNT; i++) x[i] = (float)value(me->rank, i);
  ((int (*)(u64, const void *, size_t))symbol("cuMemcpyHtoD_v2"))(p, x,
                                                                  sizeof x);
  ((int (*)(void))symbol("cuCtxSynchronize"))();
  for (int turn = 0; turn < 5 && !me->code; turn++) {
    me->code = all_reduce(p, q, COUNT, COLL_NCCL_F32, COLL_NCCL_SUM, comm, s);
    if (!me->code)
      me->code = ((int (*)(vp))symbol("cuStreamSynchronize"))(s);
  }
  ((int (*)(void *, u64, size_t))symbol("cuMemcpyDtoH_v2"))(x, q, sizeof x);
  me->first = (double)x[1];
  ((int (*)(u64))symbol("cuMemFree_v2"))(p);
  ((int (*)(u64))symbol("cuMemFree_v2"))(q);
  NCCL(int (*)(comm_t), CommDestroy)(comm);
  ((int (*)(int))symbol("cuDevicePrimaryCtxRelease_v2"))(me->rank);
  return NULL;
}

static void threads(void **state) {
  (void)state;
  static const int sizes[] = {2, 3, 8};
  for (int k = 0; k < 3; k++) {
    rank_t ranks[MAX_RANKS];
    coll_nccl_id_t id;
    NCCL(int (*)(coll_nccl_id_t *), GetUniqueId)(&id);
    for (int r = 0; r < sizes[k]; r++) {
      rank_t one = {.rank = r, .n = sizes[k], .id = id};
      ranks[r] = one;
      assert_int_equal(
          pthread_create(&ranks[r].thread, NULL, work, &ranks[r]), 0);
    }
    for (int r = 0; r < sizes[k]; r++) pthread_join(ranks[r].thread, NULL);
    for (int r = 0; r < sizes[k]; r++) {
      assert_int_equal(ranks[r].code, 0);
      assert_true(ranks[r].first == folded(COLL_NCCL_SUM, sizes[k], 1, 1));
    }
    assert_int_equal(findings("coll."), 0);
  }
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100,devices:8");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values),    cmocka_unit_test(rounding),
      cmocka_unit_test(in_place),  cmocka_unit_test(bytes),
      cmocka_unit_test(transfers), cmocka_unit_test(split),
      cmocka_unit_test(threads)};
  return cmocka_run_group_tests_name("simgpu.nccl", tests, setup, NULL);
}
