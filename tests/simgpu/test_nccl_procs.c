/* Ranks in separate processes. Each scenario is this program again, once for
   each process, under a test of its own; the unique id goes from the first to
   the others through pipes. Values come from formulas, bytes from those of a
   ring, and what goes wrong must end with a code in every process that is
   left. */
#include "nccl_lab.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define F32 COLL_NCCL_F32
#define SUM COLL_NCCL_SUM

typedef int (*init_t)(comm_t *, int, coll_nccl_id_t, int);
typedef int (*comm1_t)(comm_t);
typedef int (*ask_t)(comm_t, int *);

static struct {
  int rank, n, per; /* ranks first..first+per are this process's */
  int in, out;      /* pipes from and to the parent */
  world_t w;
  coll_nccl_id_t id;
} me;

/* -- a process -- */

static void tell(const void *data, size_t bytes) {
  assert_int_equal(write(me.out, data, bytes), (ssize_t)bytes);
}

static void hear(void *data, size_t bytes) {
  char *p = data;
  while (bytes) {
    ssize_t n = read(me.in, p, bytes);
    assert_true(n > 0);
    p += n;
    bytes -= (size_t)n;
  }
}

/* Everyone waits for everyone, on the host alone. */
static void host_barrier(void) {
  char c = 'b';
  tell(&c, 1);
  hear(&c, 1);
}

static void get_id(void) {
  if (me.rank == 0)
    assert_int_equal(
        NCCL(int (*)(coll_nccl_id_t *), GetUniqueId)(&me.id), 0);
  tell(&me.id, sizeof me.id);
  hear(&me.id, sizeof me.id);
}

static void open_driver(const char *items) {
  char conf[200];
  snprintf(conf, sizeof conf, "model:h100,devices:%d,%s", me.per, items);
  assert_int_equal(driver_setup(conf), 0);
  memset(&me.w, 0, sizeof me.w);
  me.w.n = me.n;
  for (int k = 0; k < me.per; k++) {
    int r = me.rank * me.per + k;
    OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &me.w.ctx[r],
       NULL, 0, k);
    OK(cuStreamCreate, (vp *, unsigned), &me.w.stream[r], 1);
  }
}

static int init_ranks(comm_t *comms) {
  assert_int_equal(group_start(), 0);
  for (int k = 0; k < me.per; k++) {
    int r = me.rank * me.per + k;
    use(&me.w, r);
    int code = NCCL(init_t, CommInitRank)(&comms[r], me.n, me.id, r);
    if (code) return code;
  }
  return group_end();
}

static void open_ranks(const char *items) {
  open_driver(items);
  get_id();
  assert_int_equal(init_ranks(me.w.comm), 0);
}

static void no_findings(void) {
  size_t (*count)(void), (*report)(size_t, char *, size_t);
  any_t a = symbol("simgpu_report_count"), b = symbol("simgpu_report_get");
  char text[2048];
  memcpy(&count, &a, sizeof a);
  memcpy(&report, &b, sizeof b);
  if (!count()) return;
  report(0, text, sizeof text);
  fail_msg("%s", text);
}

static void close_ranks(void) {
  for (int k = 0; k < me.per; k++)
    assert_int_equal(
        NCCL(comm1_t, CommDestroy)(me.w.comm[me.rank * me.per + k]), 0);
  no_findings();
}

#define EACH(r)                                                               \
  for (int r = me.rank * me.per; r < me.rank * me.per + me.per; r++)

static void wait_mine(int code) {
  EACH(r) {
    use(&me.w, r);
    CODE(code, cuStreamSynchronize, (vp), me.w.stream[r]);
  }
}

static int async_error(comm_t c) {
  int code = -1;
  assert_int_equal(NCCL(ask_t, CommGetAsyncError)(c, &code), 0);
  return code;
}

/* -- values and bytes -- */

enum { COUNT = 37 };

static double value(int rank, size_t i) {
  return (double)((rank * 7 + (int)i * 3) % 5 + 1);
}

static double sum(int n, size_t i) {
  double v = 0;
  for (int r = 0; r < n; r++) v += value(r, i);
  return v;
}

static u64 filled(int rank, int type, size_t count) {
  char data[8 * COUNT * MAX_RANKS];
  for (size_t i = 0; i < count; i++) put(type, data, i, value(rank, i));
  return copied_to(&me.w, rank, data, count * (size_t)kinds[type].bytes);
}

static void expect(int rank, u64 p, int type, size_t i, double want,
                   const char *what) {
  char one[8];
  size_t bytes = (size_t)kinds[type].bytes;
  copied_from(&me.w, rank, one, p + i * bytes, bytes);
  double have = get(type, one, 0);
  if (have != want)
    fail_msg("%s: rank %d of %d, type %d, element %zu: %g, not %g", what,
             rank, me.n, type, i, have, want);
}

static u64 in[MAX_RANKS], out[MAX_RANKS];

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
  open_ranks("deadline:60000");
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
  open_ranks("deadline:60000");
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
  open_ranks("deadline:60000,reduce:ring");
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
  open_ranks("deadline:60000");
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
  open_ranks("deadline:60000");
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

/* -- faults -- */

static void reduce_mine(size_t count, int code) {
  EACH(r) {
    in[r] = filled(r, F32, 64);
    use(&me.w, r);
    assert_int_equal(all_reduce(in[r], in[r], count, F32, SUM, me.w.comm[r],
                                me.w.stream[r]),
                     code);
  }
}

static void dies(void) {
  kill(getpid(), SIGKILL);
}

/* The last rank dies between two collectives: the others know at once. */
static void killed(void **state) {
  (void)state;
  open_ranks("deadline:60000");
  reduce_mine(8, 0);
  wait_mine(0);
  if (me.rank == me.n - 1) dies();
  time_t before = time(NULL);
  reduce_mine(8, 0);
  wait_mine(719);
  assert_true(time(NULL) - before < 20);
  assert_int_equal(findings("coll.deadlock"), 1);
  EACH(r) assert_int_equal(async_error(me.w.comm[r]), 6);
  reduce_mine(8, 6);
  EACH(r) assert_int_equal(NCCL(comm1_t, CommAbort)(me.w.comm[r]), 0);
}

/* It dies when it has come to a collective and the others have not: what it
   has sent is there, and the collective is carried out; the next is not. */
static void killed_inside(void **state) {
  (void)state;
  open_ranks("deadline:60000");
  if (me.rank == me.n - 1) {
    reduce_mine(8, 0);
    CODE(600, cuStreamQuery, (vp), me.w.stream[me.rank]);
    CODE(600, cuStreamQuery, (vp), me.w.stream[me.rank]);
    host_barrier();
    dies();
  }
  host_barrier();
  reduce_mine(8, 0);
  wait_mine(0);
  EACH(r) expect(r, in[r], F32, 3, sum(me.n, 3), "of the dead");
  reduce_mine(8, 0);
  wait_mine(719);
  EACH(r) assert_int_equal(async_error(me.w.comm[r]), 6);
  EACH(r) NCCL(comm1_t, CommAbort)(me.w.comm[r]);
  findings("");
}

/* A rank that ends in order, and one that never calls. */
static void missing(void **state) {
  (void)state;
  for (int how = 0; how < 2; how++) {
    if (how == 0) open_ranks("deadline:400");
    else {
      get_id();
      assert_int_equal(init_ranks(me.w.comm), 0);
    }
    bool is_away = me.rank == me.n - 1;
    if (!is_away) reduce_mine(8, 0);
    if (is_away && how == 1)
      EACH(r) NCCL(comm1_t, CommDestroy)(me.w.comm[r]);
    if (!is_away) {
      wait_mine(719);
      assert_int_equal(findings("coll.deadlock"), 1);
      EACH(r) assert_int_equal(async_error(me.w.comm[r]), 6);
    }
    host_barrier();
    if (!is_away || how == 0)
      EACH(r) NCCL(comm1_t, CommAbort)(me.w.comm[r]);
  }
  findings("");
}

static void mismatch(void **state) {
  (void)state;
  open_driver("deadline:60000");
  for (int mutant = 0; mutant < 6; mutant++) {
    get_id();
    assert_int_equal(init_ranks(me.w.comm), 0);
    EACH(r) {
      in[r] = filled(r, F32, 64);
      comm_t c = me.w.comm[r];
      vp s = me.w.stream[r];
      int is = r == 1 ? mutant : 0;
      int code =
          is == 1   ? all_reduce(in[r], in[r], 8, COLL_NCCL_I32, SUM, c, s)
          : is == 2 ? all_reduce(in[r], in[r], 9, F32, SUM, c, s)
          : is == 3 ? all_reduce(in[r], in[r], 8, F32, COLL_NCCL_MAX, c, s)
          : is == 4 ? reduce_to(in[r], in[r], 8, F32, SUM, 0, c, s)
                    : all_reduce(in[r], in[r], 8, F32, SUM, c, s);
      assert_int_equal(code, 0);
      if (mutant == 5 && r < 2)
        assert_int_equal(r ? receive(in[r], 7, F32, 0, c, s)
                           : send_to(in[r], 8, F32, 1, c, s),
                         0);
    }
    EACH(r) {
      use(&me.w, r);
      int code = CALL(cuStreamSynchronize, (vp), me.w.stream[r]);
      if (mutant < 5 || r < 2) assert_int_equal(code, mutant ? 719 : 0);
    }
    EACH(r) {
      if (mutant < 5 || r < 2)
        assert_int_equal(async_error(me.w.comm[r]), mutant ? 5 : 0);
      else
        continue;
      assert_int_equal(findings("coll.mismatch") > 0, mutant != 0);
    }
    host_barrier();
    EACH(r) NCCL(comm1_t, CommAbort)(me.w.comm[r]);
    /* the contexts are broken: others */
    EACH(r) {
      OK(cuCtxDestroy_v2, (rcuda_ctx_t *), me.w.ctx[r]);
      OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &me.w.ctx[r],
         NULL, 0, r - me.rank * me.per);
      OK(cuStreamCreate, (vp *, unsigned), &me.w.stream[r], 1);
    }
    findings("");
    host_barrier();
  }
}

/* Both send first, outside a group; then two communicators in two orders. */
static void circles(void **state) {
  (void)state;
  open_driver("deadline:60000");
  comm_t second[MAX_RANKS];
  for (int how = 0; how < 2; how++) {
    get_id();
    assert_int_equal(init_ranks(me.w.comm), 0);
    get_id();
    assert_int_equal(init_ranks(second), 0);
    time_t before = time(NULL);
    EACH(r) {
      in[r] = filled(r, F32, 64);
      comm_t a = me.w.comm[r], b = second[r];
      vp s = me.w.stream[r];
      int other = (r + 1) % me.n, from = (r + me.n - 1) % me.n;
      if (how == 0) {
        send_to(in[r], 8, F32, other, a, s);
        receive(in[r] + 64, 8, F32, from, a, s);
      } else {
        all_reduce(in[r], in[r], 8, F32, SUM, r ? a : b, s);
        all_reduce(in[r], in[r], 8, F32, SUM, r ? b : a, s);
      }
    }
    wait_mine(719);
    assert_true(time(NULL) - before < 20);
    EACH(r) {
      assert_true(findings("coll.deadlock") > 0);
      /* two of three ranks may agree on an order: a third one's breaks it */
      assert_true(async_error(me.w.comm[r]) == 5 ||
                  async_error(second[r]) == 5);
    }
    host_barrier();
    EACH(r) {
      NCCL(comm1_t, CommAbort)(me.w.comm[r]);
      NCCL(comm1_t, CommAbort)(second[r]);
      OK(cuCtxDestroy_v2, (rcuda_ctx_t *), me.w.ctx[r]);
      OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &me.w.ctx[r],
         NULL, 0, r - me.rank * me.per);
      OK(cuStreamCreate, (vp *, unsigned), &me.w.stream[r], 1);
    }
    findings("");
    host_barrier();
  }
}

/* -- the shared memory itself -- */

/* The first rank is there, alone; what is there is changed; the second one
   must say so. Its own file is told from others by the id in it. */
static bool find_file(char *path, size_t bytes) {
  DIR *folder = opendir("/dev/shm");
  struct dirent *e;
  bool found = false;
  while (folder && !found && (e = readdir(folder)) != NULL) {
    char head[512];
    if (strncmp(e->d_name, "tdsl-coll-", 10) != 0) continue;
    snprintf(path, bytes, "/dev/shm/%s", e->d_name);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0) close(fd);
    for (ssize_t i = 0; !found && i + 128 <= n; i++)
      found = memcmp(head + i, me.id.bytes, 128) == 0;
  }
  if (folder) closedir(folder);
  return found;
}

static void hostile(void **state) {
  (void)state;
  typedef int (*config_t)(comm_t *, int, coll_nccl_id_t, int,
                          coll_nccl_config_t *);
  typedef const char *(*last_t)(comm_t);
  open_driver("deadline:60000");
  for (int how = 0; how < 4; how++) {
    char path[300];
    get_id();
    coll_nccl_config_t config = {
        .bytes = sizeof config, .magic = COLL_NCCL_CONFIG_MAGIC,
        .version = 22809, .blocking = 0};
    comm_t c = NULL;
    use(&me.w, me.rank);
    if (me.rank == 0) {
      assert_int_equal(NCCL(config_t, CommInitRankConfig)(&c, me.n, me.id, 0,
                                                          &config),
                       7);
      assert_int_equal(async_error(c), 7); /* looks for the others */
      assert_true(find_file(path, sizeof path));
      struct stat st;
      assert_int_equal(stat(path, &st), 0);
      assert_int_equal(st.st_mode & 0777, 0600);
      int fd = open(path, O_RDWR);
      uint64_t bad = 99;
      if (how == 0) assert_int_equal(pwrite(fd, &bad, 8, 8), 8);
      if (how == 1) assert_int_equal(pwrite(fd, &bad, 8, 0), 8);
      if (how == 2) assert_int_equal(fchmod(fd, 0644), 0);
      close(fd);
    }
    host_barrier();
    if (me.rank == 1) {
      int n = how == 3 ? me.n + 1 : me.n; /* says another number of ranks */
      assert_int_equal(NCCL(init_t, CommInitRank)(&c, n, me.id, 1),
                       how == 3 ? 5 : 2);
      assert_true(strlen(NCCL(last_t, GetLastError)(NULL)) > 10);
      assert_int_equal(findings("coll.mismatch"), how == 3);
    }
    host_barrier();
    if (c) NCCL(comm1_t, CommAbort)(c);
    if (me.rank == 0 && how < 3) unlink(path);
    host_barrier();
  }
  findings("");
}

/* Anything at all in the ranks' words: calls end, with whatever code. */
static void scribbled(void **state) {
  (void)state;
  open_ranks("deadline:300");
  uint64_t random = 5 + (uint64_t)me.rank;
  int fd = -1;
  for (int i = 3; fd < 0 && i < 200; i++) {
    char link[64], to[300];
    snprintf(link, sizeof link, "/proc/self/fd/%d", i);
    ssize_t n = readlink(link, to, sizeof to - 1);
    if (n > 0 && (to[n] = 0, strstr(to, "tdsl-coll-"))) fd = i;
  }
  assert_true(fd >= 0);
  for (int turn = 0; turn < 6; turn++) {
    reduce_mine(8, 0);
    if (me.rank == 0) {
      for (int k = 0; k < 3000; k++) {
        uint64_t word = lab_random(&random);
        if (k % 3 == 0) word %= 7;
        off_t at = 200 + (off_t)(lab_random(&random) % 60000) * 8;
        assert_int_equal(pwrite(fd, &word, 8, at), 8);
      }
    }
    EACH(r) {
      use(&me.w, r);
      CALL(cuStreamSynchronize, (vp), me.w.stream[r]);
      if (async_error(me.w.comm[r])) turn = 6;
    }
  }
  EACH(r) NCCL(comm1_t, CommAbort)(me.w.comm[r]);
  findings("");
}

/* Who died before all were there is no hindrance: the id still serves. */
static void stale(void **state) {
  (void)state;
  open_driver("deadline:60000");
  get_id();
  pid_t child = me.rank == 0 ? fork() : 1;
  if (child == 0) {
    /* waits for the others, and dies */
    comm_t c;
    NCCL(init_t, CommInitRank)(&c, me.n, me.id, 0);
    _exit(0);
  }
  if (me.rank == 0) {
    int status = 0;
    char path[300];
    struct timespec pause = {0, 2000000};
    for (int i = 0; i < 1000 && !find_file(path, sizeof path); i++)
      nanosleep(&pause, NULL);
    assert_true(find_file(path, sizeof path));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  host_barrier();
  assert_int_equal(init_ranks(me.w.comm), 0);
  reduce_mine(8, 0);
  wait_mine(0);
  EACH(r) expect(r, in[r], F32, 3, sum(me.n, 3), "second try");
  char path[300];
  assert_false(find_file(path, sizeof path)); /* nothing is left behind */
  close_ranks();
}

/* -- the parent -- */

typedef struct scenario_t {
  const char *name;
  void (*run)(void **);
  int processes, per, lost; /* lost: the last process dies */
} scenario_t;

static const scenario_t scenarios[] = {
    {"values_2", values, 2, 1, 0},   {"values_3", values, 3, 1, 0},
    {"values_4", values, 4, 1, 0},   {"values_2x2", values, 2, 2, 0},
    {"bytes", bytes, 3, 1, 0},       {"orders", orders, 3, 1, 0},
    {"busy_host", busy_host, 3, 1, 0},
    {"splits_3", splits, 3, 1, 0},   {"splits_2x2", splits, 2, 2, 0},
    {"killed", killed, 3, 1, 1},     {"killed_inside", killed_inside, 3, 1, 1},
    {"missing", missing, 2, 1, 0},   {"mismatch", mismatch, 3, 1, 0},
    {"circles_2", circles, 2, 1, 0}, {"circles_3", circles, 3, 1, 0},
    {"hostile", hostile, 2, 1, 0},   {"scribbled", scribbled, 2, 1, 0},
    {"stale", stale, 2, 1, 0},
};
#define SCENARIOS (sizeof scenarios / sizeof *scenarios)

static int child_main(char **argv) {
  const scenario_t *s = &scenarios[atoi(argv[2])];
  me.rank = atoi(argv[3]);
  me.in = atoi(argv[4]);
  me.out = atoi(argv[5]);
  me.per = s->per;
  me.n = s->processes * s->per;
  alarm(120);
  const struct CMUnitTest tests[] = {cmocka_unit_test(s->run)};
  return cmocka_run_group_tests_name(s->name, tests, NULL, NULL);
}

/* Ids go from the first process to all; a barrier waits for all. */
static void serve(const scenario_t *s, const int *to, const int *from) {
  int alive = s->processes;
  for (;;) {
    char id[128];
    memset(id, 0, sizeof id);
    for (int p = 0; p < alive; p++) {
      char one[128];
      ssize_t n = read(from[p], one, sizeof one);
      if (n <= 0) {
        /* the one that is to die has; or all have ended */
        if (s->lost && p == s->processes - 1) alive = p;
        else return;
        continue;
      }
      for (ssize_t more = n; n > 1 && n < 128; n += more) {
        more = read(from[p], one + n, sizeof one - (size_t)n);
        if (more <= 0) return;
      }
      if (p == 0) memcpy(id, one, 128);
      if (p == alive - 1)
        for (int k = 0; k < alive; k++)
          if (write(to[k], id, n == 1 ? 1 : 128) < 0) continue;
    }
  }
}

/* What a process has said, as comments. */
static void show(FILE *said, int process) {
  char line[512];
  rewind(said);
  while (fgets(line, sizeof line, said))
    print_message("# %d: %s", process, line);
}

static void scenario(void **state) {
  const scenario_t *s = *state;
  int to[8], from[8];
  pid_t pids[8];
  FILE *said[8];
  signal(SIGPIPE, SIG_IGN);
  for (int p = 0; p < s->processes; p++) {
    int down[2], up[2];
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    for (int i = 0; i < 2; i++) {
      int mine = i ? down[1] : up[0];
      fcntl(mine, F_SETFD, FD_CLOEXEC);
    }
    said[p] = tmpfile();
    assert_non_null(said[p]);
    pids[p] = fork();
    if (pids[p] == 0) {
      dup2(fileno(said[p]), 1);
      dup2(fileno(said[p]), 2);
      setenv("CMOCKA_MESSAGE_OUTPUT", "STDOUT", 1);
      char number[4][16];
      int args[] = {(int)(s - scenarios), p, down[0], up[1]};
      for (int i = 0; i < 4; i++)
        snprintf(number[i], sizeof number[i], "%d", args[i]);
      char child[] = "child";
      char exe[] = "/proc/self/exe";
      char *argv[] = {exe, child, number[0], number[1], number[2], number[3],
                      NULL};
      execv(exe, argv);
      _exit(99);
    }
    close(down[0]);
    close(up[1]);
    to[p] = down[1];
    from[p] = up[0];
  }
  serve(s, to, from);
  int failed = 0;
  for (int p = 0; p < s->processes; p++) {
    int status = 0;
    close(to[p]);
    close(from[p]);
    assert_int_equal(waitpid(pids[p], &status, 0), pids[p]);
    bool is_lost = s->lost && p == s->processes - 1;
    bool is_bad = is_lost ? !WIFSIGNALED(status)
                          : !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (is_bad) {
      print_message("# %d: status %x\n", p, (unsigned)status);
      show(said[p], p);
    }
    failed += is_bad;
    fclose(said[p]);
  }
  assert_int_equal(failed, 0);
}

int main(int argc, char **argv) {
  if (argc == 6) return child_main(argv);
  struct CMUnitTest tests[SCENARIOS];
  for (size_t i = 0; i < SCENARIOS; i++) {
    tests[i] = (struct CMUnitTest)cmocka_unit_test(scenario);
    tests[i].name = scenarios[i].name;
    void *at;
    const scenario_t *s = &scenarios[i];
    memcpy(&at, &s, sizeof at);
    tests[i].initial_state = at;
  }
  return cmocka_run_group_tests_name("simgpu.nccl_procs", tests, NULL, NULL);
}
