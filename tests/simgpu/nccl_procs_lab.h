/* Bench for ranks in separate processes. Each scenario is the test program
   again, once for each process, under a test of its own; the unique id goes
   from the first process to the others through pipes. A test program lists its
   scenarios in `scenarios` and ends with main_of_scenarios(). */
#ifndef NCCL_PROCS_LAB_H
#define NCCL_PROCS_LAB_H

#include "nccl_lab.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#define F32 COLL_NCCL_F32
#define SUM COLL_NCCL_SUM

/* Deadlines: one that ends no wait of a test that passes, and one that has to
   come, but not before all ranks are there, on however slow a machine. */
#define NEVER "deadline:250000"
#define SOON  "deadline:1500"

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

static inline void tell(const void *data, size_t bytes) {
  assert_int_equal(write(me.out, data, bytes), (ssize_t)bytes);
}

static inline void hear(void *data, size_t bytes) {
  char *p = data;
  while (bytes) {
    ssize_t n = read(me.in, p, bytes);
    assert_true(n > 0);
    p += n;
    bytes -= (size_t)n;
  }
}

/* Everyone waits for everyone, on the host alone. */
static inline void host_barrier(void) {
  char c = 'b';
  tell(&c, 1);
  hear(&c, 1);
}

static inline void get_id(void) {
  if (me.rank == 0)
    assert_int_equal(
        NCCL(int (*)(coll_nccl_id_t *), GetUniqueId)(&me.id), 0);
  tell(&me.id, sizeof me.id);
  hear(&me.id, sizeof me.id);
}

static inline void open_driver(const char *items) {
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

static inline int init_ranks(comm_t *comms) {
  assert_int_equal(group_start(), 0);
  for (int k = 0; k < me.per; k++) {
    int r = me.rank * me.per + k;
    use(&me.w, r);
    int code = NCCL(init_t, CommInitRank)(&comms[r], me.n, me.id, r);
    if (code) return code;
  }
  return group_end();
}

static inline void open_ranks(const char *items) {
  open_driver(items);
  get_id();
  assert_int_equal(init_ranks(me.w.comm), 0);
}

static inline void no_findings(void) {
  size_t (*count)(void), (*report)(size_t, char *, size_t);
  any_t a = symbol("simgpu_report_count"), b = symbol("simgpu_report_get");
  char text[2048];
  memcpy(&count, &a, sizeof a);
  memcpy(&report, &b, sizeof b);
  if (!count()) return;
  report(0, text, sizeof text);
  fail_msg("%s", text);
}

static inline void close_ranks(void) {
  for (int k = 0; k < me.per; k++)
    assert_int_equal(
        NCCL(comm1_t, CommDestroy)(me.w.comm[me.rank * me.per + k]), 0);
  no_findings();
}

#define EACH(r)                                                               \
  for (int r = me.rank * me.per; r < me.rank * me.per + me.per; r++)

static inline void wait_mine(int code) {
  EACH(r) {
    use(&me.w, r);
    CODE(code, cuStreamSynchronize, (vp), me.w.stream[r]);
  }
}

static inline int async_error(comm_t c) {
  int code = -1;
  assert_int_equal(NCCL(ask_t, CommGetAsyncError)(c, &code), 0);
  return code;
}

/* -- values and bytes -- */

enum { COUNT = 37 };

static inline double value(int rank, size_t i) {
  return (double)((rank * 7 + (int)i * 3) % 5 + 1);
}

static inline double sum(int n, size_t i) {
  double v = 0;
  for (int r = 0; r < n; r++) v += value(r, i);
  return v;
}

static inline u64 filled(int rank, int type, size_t count) {
  char data[8 * COUNT * MAX_RANKS];
  for (size_t i = 0; i < count; i++) put(type, data, i, value(rank, i));
  return copied_to(&me.w, rank, data, count * (size_t)kinds[type].bytes);
}

static inline void expect(int rank, u64 p, int type, size_t i, double want,
                   const char *what) {
  char one[8];
  size_t bytes = (size_t)kinds[type].bytes;
  copied_from(&me.w, rank, one, p + i * bytes, bytes);
  double have = get(type, one, 0);
  if (have != want)
    fail_msg("%s: rank %d of %d, type %d, element %zu: %g, not %g", what,
             rank, me.n, type, i, have, want);
}

static u64 in[MAX_RANKS]; /* a buffer a rank */

static inline void reduce_mine(size_t count, int code) {
  EACH(r) {
    in[r] = filled(r, F32, 64);
    use(&me.w, r);
    assert_int_equal(all_reduce(in[r], in[r], count, F32, SUM, me.w.comm[r],
                                me.w.stream[r]),
                     code);
  }
}

/* -- the parent -- */

typedef struct scenario_t {
  const char *name;
  void (*run)(void **);
  int processes, per, lost; /* lost: the last process dies */
} scenario_t;

typedef struct scenarios_t {
  const scenario_t *rows;
  size_t count;
} scenarios_t;

/* child SCENARIO PROCESS IN OUT */
static inline int child_main(scenarios_t all, char **argv) {
  const scenario_t *s = all.rows;
  while (strcmp(s->name, argv[2]) != 0)
    if (++s == all.rows + all.count) return 98;
  me.rank = atoi(argv[3]);
  me.in = atoi(argv[4]);
  me.out = atoi(argv[5]);
  me.per = s->per;
  me.n = s->processes * s->per;
  alarm(280); /* before the runner ends the parent */
  const struct CMUnitTest tests[] = {cmocka_unit_test(s->run)};
  return cmocka_run_group_tests_name(s->name, tests, NULL, NULL);
}

/* Ids go from the first process to all; a barrier waits for all. */
static inline void serve(const scenario_t *s, const int *to, const int *from) {
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
static inline void show(FILE *said, int process) {
  char line[512];
  rewind(said);
  while (fgets(line, sizeof line, said))
    print_message("# %d: %s", process, line);
}

static inline void scenario(void **state) {
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
      char number[3][16], title[64];
      int args[] = {p, down[0], up[1]};
      for (int i = 0; i < 3; i++)
        snprintf(number[i], sizeof number[i], "%d", args[i]);
      snprintf(title, sizeof title, "%s", s->name);
      char child[] = "child";
      char exe[] = "/proc/self/exe";
      char *argv[] = {exe, child, title, number[0], number[1], number[2],
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

/* The whole of a test program. */
static inline int main_of_scenarios(const char *name, scenarios_t all,
                                    int argc, char **argv) {
  struct CMUnitTest tests[32];
  if (argc == 6) return child_main(all, argv);
  if (all.count > sizeof tests / sizeof *tests) return 1;
  for (size_t i = 0; i < all.count; i++) {
    const scenario_t *s = &all.rows[i];
    void *at;
    memcpy(&at, &s, sizeof at);
    tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(scenario, at);
    tests[i].name = s->name;
  }
  return _cmocka_run_group_tests(name, tests, all.count, NULL, NULL);
}

#endif
