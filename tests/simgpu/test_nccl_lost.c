/* Ranks in separate processes of which one dies, is away, calls something else
   or finds the shared memory damaged: what goes wrong must end with a code in
   every process that is left. */
#include "nccl_procs_lab.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

static void dies(void) {
  kill(getpid(), SIGKILL);
}

/* The last rank dies between two collectives: the others know at once. */
static void killed(void **state) {
  (void)state;
  open_ranks(NEVER);
  reduce_mine(8, 0);
  wait_mine(0);
  if (me.rank == me.n - 1) dies();
  time_t before = time(NULL);
  reduce_mine(8, 0);
  wait_mine(719);
  assert_true(time(NULL) - before < 100);
  assert_int_equal(findings("coll.deadlock"), 1);
  EACH(r) assert_int_equal(async_error(me.w.comm[r]), 6);
  reduce_mine(8, 6);
  EACH(r) assert_int_equal(NCCL(comm1_t, CommAbort)(me.w.comm[r]), 0);
}

/* It dies when it has come to a collective and the others have not: what it
   has sent is there, and the collective is carried out; the next is not. */
static void killed_inside(void **state) {
  (void)state;
  open_ranks(NEVER);
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
    if (how == 0) open_ranks(SOON);
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

/* A context and a stream in place of broken ones. */
static void renew(int r) {
  OK(cuCtxDestroy_v2, (rcuda_ctx_t *), me.w.ctx[r]);
  OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &me.w.ctx[r], NULL,
     0, r - me.rank * me.per);
  OK(cuStreamCreate, (vp *, unsigned), &me.w.stream[r], 1);
}

static void mismatch(void **state) {
  (void)state;
  open_driver(NEVER);
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
    EACH(r) renew(r);
    findings("");
    host_barrier();
  }
}

/* Both send first, outside a group; then two communicators in two orders. */
static void circles(void **state) {
  (void)state;
  open_driver(NEVER);
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
    assert_true(time(NULL) - before < 100);
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
      renew(r);
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
  open_driver(NEVER);
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
  open_ranks(SOON);
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
  open_driver(NEVER);
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
    for (int i = 0; i < 50000 && !find_file(path, sizeof path); i++)
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

static const scenario_t scenarios[] = {
    {"killed", killed, 3, 1, 1},     {"killed_inside", killed_inside, 3, 1, 1},
    {"missing", missing, 2, 1, 0},   {"mismatch", mismatch, 3, 1, 0},
    {"circles_2", circles, 2, 1, 0}, {"circles_3", circles, 3, 1, 0},
    {"hostile", hostile, 2, 1, 0},   {"scribbled", scribbled, 2, 1, 0},
    {"stale", stale, 2, 1, 0},
};

int main(int argc, char **argv) {
  scenarios_t all = {scenarios, sizeof scenarios / sizeof *scenarios};
  return main_of_scenarios("simgpu.nccl_lost", all, argc, argv);
}
