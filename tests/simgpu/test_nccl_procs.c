/* Ranks in separate processes that do what they should: values come from
   formulas, bytes from those of a ring. */
#include "nccl_procs_lab.h"

#include <time.h>

static u64 out[MAX_RANKS];

static void each_op(int type) {
  size_t n = (size_t)me.n, share = COUNT;
  const world_t *w = &me.w;
  EACH(r) {
    in[r] = filled(r, type, share * n);
    out[r] = alloc_on(w, r, share * n * (size_t)kinds[type].bytes);
  }
  group_start();
  EACH(r) all_reduce(in[r], out[r], COUNT, type, SUM, w->comm[r], w->stream[r]);
  assert_int_equal(group_end(), 0);
  wait_mine(0);
  for (size_t i = 0; i < COUNT; i++)
    EACH(r) expect(r, out[r], type, i, sum(me.n, i), "all-reduce");
  group_start();
  EACH(r)
    reduce_scatter(in[r], out[r], COUNT, type, COLL_NCCL_MAX, w->comm[r],
                   w->stream[r]);
  assert_int_equal(group_end(), 0);
  wait_mine(0);
  EACH(r) {
    for (size_t i = 0; i < COUNT; i++) {
      double most = 0;
      for (int k = 0; k < me.n; k++)
        most = fmax(most, value(k, (size_t)r * COUNT + i));
      expect(r, out[r], type, i, most, "reduce-scatter");
    }
  }
  group_start();
  EACH(r) all_gather(in[r], out[r], COUNT, type, w->comm[r], w->stream[r]);
  assert_int_equal(group_end(), 0);
  wait_mine(0);
  for (size_t i = 0; i < COUNT * n; i++)
    EACH(r)
      expect(r, out[r], type, i, value((int)(i / COUNT), i % COUNT),
             "all-gather");
  group_start();
  EACH(r) all_to_all(in[r], out[r], COUNT, type, w->comm[r], w->stream[r]);
  assert_int_equal(group_end(), 0);
  wait_mine(0);
  for (size_t i = 0; i < COUNT * n; i++)
    EACH(r)
      expect(r, out[r], type, i,
             value((int)(i / COUNT), (size_t)r * COUNT + i % COUNT),
             "all-to-all");
  int root = me.n - 1;
  group_start();
  EACH(r)
    broadcast(in[r], out[r], COUNT, type, root, w->comm[r], w->stream[r]);
  assert_int_equal(group_end(), 0);
  wait_mine(0);
  for (size_t i = 0; i < COUNT; i++)
    EACH(r) expect(r, out[r], type, i, value(root, i), "broadcast");
  group_start();
  EACH(r)
    reduce_to(in[r], in[r], COUNT, type, SUM, root, w->comm[r], w->stream[r]);
  assert_int_equal(group_end(), 0);
  wait_mine(0);
  for (size_t i = 0; i < COUNT; i++)
    EACH(r)
      expect(r, in[r], type, i, r == root ? sum(me.n, i) : value(r, i),
             "reduce in place");
  /* a ring of sends, and one to itself */
  group_start();
  EACH(r) {
    int next = (r + 1) % me.n, before = (r + me.n - 1) % me.n;
    vp s = w->stream[r];
    size_t e = (size_t)kinds[type].bytes;
    send_to(in[r] + e * COUNT, COUNT, type, next, w->comm[r], s);
    receive(out[r], COUNT, type, before, w->comm[r], s);
    send_to(in[r] + e * COUNT, 3, type, r, w->comm[r], s);
    receive(out[r] + e * COUNT, 3, type, r, w->comm[r], s);
  }
  assert_int_equal(group_end(), 0);
  wait_mine(0);
  EACH(r) {
    int before = (r + me.n - 1) % me.n;
    for (size_t i = 0; i < COUNT; i++)
      expect(r, out[r], type, i, value(before, COUNT + i), "send");
    for (size_t i = 0; i < 3; i++)
      expect(r, out[r], type, COUNT + i, value(r, COUNT + i), "own send");
  }
}

static void values(void **state) {
  (void)state;
  static const int types[] = {F32, COLL_NCCL_I32, COLL_NCCL_BF16,
                              COLL_NCCL_F64, COLL_NCCL_U8};
  open_ranks(NEVER);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    each_op(types[t]);
  /* many in a row, of which nobody waits for any */
  EACH(r) in[r] = filled(r, F32, COUNT);
  for (int k = 0; k < 600; k++) {
    /* by now more are queued than have room; some of it becomes free */
    struct timespec pause = {0, 20000000};
    if (k == 400) nanosleep(&pause, NULL);
    group_start();
    EACH(r)
      broadcast(in[r], in[r], COUNT, F32, k % me.n, me.w.comm[r],
                me.w.stream[r]);
    assert_int_equal(group_end(), 0);
  }
  wait_mine(0);
  EACH(r) expect(r, in[r], F32, 5, value(0, 5), "many");
  close_ranks();
}

/* By the formulas of a ring: all-reduce 2 (n - 1) / n, all-gather and
   reduce-scatter (n - 1), broadcast its root all. */
static void bytes(void **state) {
  (void)state;
  open_ranks(NEVER);
  size_t count = 60 * (size_t)me.n, b = count * 4, n = (size_t)me.n;
  EACH(r) {
    in[r] = alloc_on(&me.w, r, b * n);
    OK(cuMemsetD8_v2, (u64, unsigned char, size_t), in[r], 0, b * n);
    out[r] = alloc_on(&me.w, r, b * n);
    SYNC(0);
    comm_t c = me.w.comm[r];
    vp s = me.w.stream[r];
    all_reduce(in[r], in[r], count, F32, SUM, c, s);
    all_gather(in[r], out[r], count, F32, c, s);
    reduce_scatter(in[r], out[r], count, F32, SUM, c, s);
    broadcast(in[r], in[r], count, F32, 1, c, s);
  }
  wait_mine(0);
  EACH(r) {
    char key[64];
#define BYTES(op)                                                             \
  (snprintf(key, sizeof key, "\"rank\":%d,\"device\":0,\"op\":\"" op "\"", r), \
   total(key, "coll.bytes"))
    assert_int_equal(BYTES("all_reduce"), 2 * (n - 1) * b / n);
    assert_int_equal(BYTES("all_gather"), (n - 1) * b);
    assert_int_equal(BYTES("reduce_scatter"), (n - 1) * b);
    assert_int_equal(BYTES("broadcast"), r == 1 ? b : 0);
  }
  close_ranks();
}

/* The order of folding shows in the last bits of f32: by rank, or by the ring
   that ends at the chunk's owner. */
static void orders(void **state) {
  (void)state;
  open_ranks(NEVER ",reduce:ring");
  enum { EACH_CHUNK = 5 };
  int n = me.n, count = EACH_CHUNK * n;
  float data[EACH_CHUNK * MAX_RANKS];
  for (int way = 0; way < 2; way++) {
    assert_int_equal(configure(way ? "reduce:ring" : "reduce:rank"), 0);
    EACH(r) {
      for (int i = 0; i < count; i++)
        data[i] = (float)(1 + r * 1000003 + i) / (float)(3 + r * 7919);
      in[r] = copied_to(&me.w, r, data, (size_t)count * 4);
      all_reduce(in[r], in[r], (size_t)count, F32, SUM, me.w.comm[r],
                 me.w.stream[r]);
    }
    wait_mine(0);
    EACH(r) {
      copied_from(&me.w, r, data, in[r], (size_t)count * 4);
      for (int i = 0; i < count; i++) {
        volatile float want = 0;
        for (int k = 0; k < n; k++) {
          int from = way ? (i / EACH_CHUNK + 1 + k) % n : k;
          volatile float x = (float)(1 + from * 1000003 + i) /
                             (float)(3 + from * 7919);
          want = k ? want + x : x;
        }
        assert_true(data[i] == want);
      }
    }
  }
  close_ranks();
}

/* The host goes on to something else without having waited; the others do not
   wait for it in vain. */
static void busy_host(void **state) {
  (void)state;
  open_ranks(NEVER);
  for (int turn = 0; turn < 3; turn++) {
    EACH(r) {
      in[r] = filled(r, F32, 64);
      out[r] = alloc_on(&me.w, r, 256);
      assert_int_equal(all_reduce(in[r], out[r], 8, F32, SUM, me.w.comm[r],
                                  me.w.stream[r]),
                       0);
    }
    if (me.rank != turn % me.n) wait_mine(0);
    host_barrier();
    wait_mine(0);
    EACH(r) expect(r, out[r], F32, 3, sum(me.n, 3), "busy host");
  }
  close_ranks();
}

/* -- splits -- */

static void splits(void **state) {
  (void)state;
  typedef int (*split_t)(comm_t, int, int, comm_t *, vp);
  open_ranks(NEVER);
  comm_t child[MAX_RANKS] = {NULL};
  for (int turn = 0; turn < 3; turn++) {
    /* 0: odd and even, ranks reversed; 1: all; 2: rank 0 takes no part */
    group_start();
    EACH(r) {
      int color = turn == 0 ? r % 2 : turn == 1 ? 5 : r ? 1 : -1;
      assert_int_equal(NCCL(split_t, CommSplit)(me.w.comm[r], color, -r,
                                                &child[r], NULL),
                       0);
    }
    assert_int_equal(group_end(), 0);
    EACH(r) {
      int size = 0, rank = 0;
      if (turn == 2 && r == 0) {
        assert_null(child[r]);
        continue;
      }
      double want = 0;
      for (int k = 0; k < me.n; k++) {
        if ((turn == 0 && k % 2 != r % 2) || (turn == 2 && k == 0)) continue;
        size++;
        rank += k > r;
        want += value(k, 4);
      }
      int got = -1;
      NCCL(ask_t, CommCount)(child[r], &got);
      assert_int_equal(got, size);
      NCCL(ask_t, CommUserRank)(child[r], &got);
      assert_int_equal(got, rank);
      in[r] = filled(r, F32, COUNT);
      assert_int_equal(all_reduce(in[r], in[r], COUNT, F32, SUM, child[r],
                                  me.w.stream[r]),
                       0);
      out[r] = (u64)want;
    }
    wait_mine(0);
    EACH(r) {
      if (!child[r]) continue;
      expect(r, in[r], F32, 4, (double)out[r], "child");
      NCCL(comm1_t, CommDestroy)(child[r]);
    }
  }
  close_ranks();
}

static const scenario_t scenarios[] = {
    {"values_2", values, 2, 1, 0},   {"values_3", values, 3, 1, 0},
    {"values_4", values, 4, 1, 0},   {"values_2x2", values, 2, 2, 0},
    {"bytes", bytes, 3, 1, 0},       {"orders", orders, 3, 1, 0},
    {"busy_host", busy_host, 3, 1, 0},
    {"splits_3", splits, 3, 1, 0},   {"splits_2x2", splits, 2, 2, 0},
};

int main(int argc, char **argv) {
  scenarios_t all = {scenarios, sizeof scenarios / sizeof *scenarios};
  return main_of_scenarios("simgpu.nccl_procs", all, argc, argv);
}
