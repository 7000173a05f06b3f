/* bench_matrix.c: the CPU matrix. Each row beside all installed peers and
 * beside the machine's own ceiling, all of one run.
 *
 *   bench_matrix [--rows C1,C8] [--threads 1,2] [--samples N]
 *                [--budget SECONDS] [--out PREFIX]
 *
 * Each number of threads is measured by a process of its own, since libraries
 * read theirs once. What a sample is: bench/matrix/contend.c. Rows:
 * bench/matrix/rows.c. Peers: bench/matrix/peer.c and bench/peers. */
#define _GNU_SOURCE
#include "bench/matrix/matrix.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ROWS = 96, MOST_COUNTS = 4, MOST_SAMPLES = 200 };

typedef struct options {
  const char *rows, *out;
  int counts[MOST_COUNTS], count_count, samples;
  double budget;
} options_t;

static const char usage[] =
    "usage: bench_matrix [--rows C1,C8] [--threads 1,2] [--samples N]\n"
    "                    [--budget SECONDS] [--out PREFIX]\n"
    "Measures rows of the CPU matrix (all of them without --rows) beside the\n"
    "installed peers and the machine's own ceilings, on each of these numbers\n"
    "of threads (without --threads on all cores of the affinity mask). With\n"
    "--budget rows take fewer samples, at least three, and those for which\n"
    "no time is left are told. PREFIX.txt, .json and .svg keep the results.\n";

static int read_counts(options_t *o, const char *text) {
  o->count_count = 0;
  while (o->count_count < MOST_COUNTS) {
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || n < 1 || n > 64) return 0;
    o->counts[o->count_count++] = (int)n;
    if (*end == '\0') return 1;
    if (*end != ',') return 0;
    text = end + 1;
  }
  return 0;
}

static int read_options(int argc, char **argv, options_t *o) {
  for (int i = 1; i < argc; i += 2) {
    const char *name = argv[i];
    if (i + 1 == argc) return 0;
    const char *value = argv[i + 1];
    if (strcmp(name, "--rows") == 0) o->rows = value;
    else if (strcmp(name, "--out") == 0) o->out = value;
    else if (strcmp(name, "--samples") == 0) o->samples = atoi(value);
    else if (strcmp(name, "--budget") == 0) o->budget = strtod(value, NULL);
    else if (strcmp(name, "--threads") != 0) return 0;
    else if (!read_counts(o, value)) return 0;
  }
  return o->samples >= 3 && o->samples <= MOST_SAMPLES && o->budget >= 0;
}

static void set_threads(int threads) {
  char number[16];
  static const char *const knobs[] = {"TDSL_THREADS", "OPENBLAS_NUM_THREADS",
                                      "BLIS_NUM_THREADS", "OMP_NUM_THREADS"};
  (void)snprintf(number, sizeof number, "%d", threads);
  for (size_t i = 0; i < sizeof knobs / sizeof knobs[0]; i++) {
    (void)setenv(knobs[i], number, 1);
  }
  /* they force an old kernel where they are set */
  (void)unsetenv("OPENBLAS_CORETYPE");
  (void)unsetenv("OPENBLAS_L2_SIZE");
  (void)setenv("TDSL_CACHE", "off", 1);
}

/* ---- folders of the run, in memory and on disk --------------------------- */

static char folders[2][40] = {"/dev/shm/bench_matrix_XXXXXX",
                              "/tmp/bench_matrix_XXXXXX"};
static volatile sig_atomic_t is_stopped;

const char *job_folder(int on_disk) { return folders[on_disk]; }

static void stop(int signal_number) {
  (void)signal_number;
  is_stopped = 1;
}

/* A run that is stopped leaves nothing behind either. */
static int open_folders(void) {
  struct sigaction action = {.sa_handler = stop}; /* waits end with EINTR */
  (void)sigaction(SIGINT, &action, NULL);
  (void)sigaction(SIGTERM, &action, NULL);
  return mkdtemp(folders[0]) != NULL && mkdtemp(folders[1]) != NULL;
}

static void remove_folders(void) {
  for (int i = 0; i < 2; i++) {
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folders[i]);
    if (system(command) != 0) {
      (void)fprintf(stderr, "bench_matrix: %s is left\n", folders[i]);
    }
  }
}

/* Its exit status, or that of a process that was stopped. */
static int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
    if (is_stopped) (void)kill(child, SIGKILL);
  }
  return status;
}

/* All rows on one number of threads, in a process of its own. */
static void measure_all(const options_t *o, int threads, const row_t *rows,
                        int count, result_t *results, FILE *copy) {
  tdsl_error_t *error = NULL;
  session_t s = {.threads = threads, .samples = o->samples};
  set_threads(threads);
  s.peer_count = peer_open(s.peers);
  server_start_all(s.servers, threads);
  report_begin(copy, &s);
  if (tdsl_context_create(NULL, &s.context, &error)) job_fail(error);
  if (o->budget > 0) s.end = job_now() + o->budget / o->count_count;
  for (int i = 0; i < count; i++) {
    s.rows_left = count - i;
    results[i] = (result_t){.row = &rows[i], .threads = threads,
                            .is_skipped = 1};
    if (s.end <= 0 || job_now() < s.end) {
      if (rows[i].measure != NULL) rows[i].measure(&s, &rows[i], &results[i]);
      else contend_row(&s, &rows[i], &results[i]);
    }
    report_row(copy, &results[i]);
  }
  tdsl_context_destroy(s.context);
  server_stop_all(s.servers);
}

static FILE *open_copy(const char *prefix) {
  char path[512];
  if (prefix == NULL) return NULL;
  (void)snprintf(path, sizeof path, "%s.txt", prefix);
  FILE *f = fopen(path, "w");
  if (f == NULL) {
    (void)fprintf(stderr, "bench_matrix: cannot write %s\n", path);
    exit(3);
  }
  return f;
}

static int write_files(const char *prefix, const result_t *results,
                       int count) {
  char path[512];
  if (prefix == NULL) return 1;
  (void)snprintf(path, sizeof path, "%s.json", prefix);
  if (!report_json(path, results, count)) return 0;
  (void)snprintf(path, sizeof path, "%s.svg", prefix);
  return report_svg(path, results, count);
}

int main(int argc, char **argv) {
  static row_t rows[MOST_ROWS];
  options_t o = {.samples = 15, .counts = {ceiling_cores()}, .count_count = 1};
  if (argc == 2 && strcmp(argv[1], "--help") == 0) {
    (void)fputs(usage, stdout);
    return 0;
  }
  if (!read_options(argc, argv, &o)) {
    (void)fputs(usage, stderr);
    return 2;
  }
  int count = matrix_rows(o.rows, rows, MOST_ROWS), missed = 0, skipped = 0;
  FILE *copy = open_copy(o.out);
  size_t room = sizeof(result_t) * MOST_ROWS * MOST_COUNTS;
  /* what the processes find out is read here when they have ended; rows and
   * names lie at the same addresses in all of them */
  result_t *results = mmap(NULL, room, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (results == MAP_FAILED) return 5;
  if (!open_folders()) return 3;
  int bad = 0;
  for (int t = 0; t < o.count_count && !bad; t++) {
    if (t > 0) (void)putchar('\n');
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
      (void)signal(SIGINT, SIG_DFL);
      (void)signal(SIGTERM, SIG_DFL);
      measure_all(&o, o.counts[t], rows, count, results + t * count, copy);
      (void)fflush(NULL);
      _exit(0);
    }
    bad = child < 0 || wait_for(child) != 0;
  }
  remove_folders();
  if (bad) return 1;
  for (int i = 0; i < count * o.count_count; i++) {
    skipped += results[i].is_skipped;
    missed += !results[i].is_skipped && !results[i].is_met;
  }
  printf("\n%d of the rows missed a bar, %d were not measured\n", missed,
         skipped);
  return write_files(o.out, results, count * o.count_count) ? 0 : 3;
}
