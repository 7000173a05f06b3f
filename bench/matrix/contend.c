/* contend.c: who computes a row is measured in turns, ours at another place
 * in each round, then the ceiling. Rates are medians; the ratio is the median
 * of the rounds' ratios. Results are compared before anything is timed. */
#define _GNU_SOURCE
#include "bench/matrix/matrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_SAMPLES = 200, LEAST_SAMPLES = 3 };

/* ---- numbers ------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Leaves v as it is. */
static double at_share(const double *v, int n, double share) {
  double copy[MOST_SAMPLES];
  memcpy(copy, v, (size_t)n * sizeof *v);
  qsort(copy, (size_t)n, sizeof *copy, ascending);
  return copy[(int)(share * (n - 1) + 0.5)];
}

static double ceiling(const row_t *row, int threads) {
  switch (row->kind) {
    case OF_FMA: return ceiling_fma(threads);
    case OF_COPY: return ceiling_copy(threads);
    default: return ceiling_stream(threads);
  }
}

/* ---- rounds -------------------------------------------------------------- */

/* Workers of whoever ran before may still be spinning on their core, for
 * up to a hundred milliseconds; they sleep after this. */
static void let_others_rest(int threads) {
  struct timespec t = {0, 120 * 1000 * 1000};
  if (threads > 1) (void)nanosleep(&t, NULL);
}

/* On a busy machine it takes tens of milliseconds until all threads of a
 * contender are awake and on cores of their own. */
static double warm_up_seconds(int threads) {
  return threads > 1 ? 0.05 : 0;
}

static double sample(const session_t *s, contender_t *c) {
  let_others_rest(s->threads);
  return c->run(c, warm_up_seconds(s->threads));
}

/* How many rounds there is time for, if the first took so long. */
static int rounds_for(const session_t *s, double round) {
  if (s->end <= 0) return s->samples;
  double share = (s->end - job_now()) / s->rows_left;
  double rounds = 1 + share / (round > 1e-6 ? round : 1e-6);
  if (rounds < LEAST_SAMPLES) return LEAST_SAMPLES;
  return rounds < s->samples ? (int)rounds : s->samples;
}

void contend(const session_t *s, const row_t *row, contender_t *all,
             int count, result_t *r) {
  static double seconds[CONTENDER_MOST][MOST_SAMPLES];
  double top[MOST_SAMPLES], pairs[MOST_SAMPLES];
  int rounds = s->samples;
  for (int i = 0; i < rounds; i++) {
    double start = job_now();
    for (int k = 0; k < count; k++) {
      /* ours is number 0 and takes place i of the round */
      int c = k == i % count ? 0 : k < i % count ? k + 1 : k;
      double t = sample(s, &all[c]);
      if (t < 0) {
        (void)fprintf(stderr, "bench_matrix: %s %s: %s has gone\n", row->id,
                      row->name, all[c].name);
        t = HUGE_VAL;
      }
      seconds[c][i] = t;
    }
    let_others_rest(s->threads);
    top[i] = ceiling(row, s->threads);
    if (i == 0) rounds = rounds_for(s, job_now() - start);
  }
  *r = (result_t){.row = row, .threads = s->threads, .samples = rounds};
  double mine = at_share(seconds[0], rounds, 0.5), best_seconds = HUGE_VAL;
  int best = -1;
  for (int c = 1; c < count; c++) {
    double t = at_share(seconds[c], rounds, 0.5);
    r->others[r->other_count] = all[c].name;
    r->other_rates[r->other_count++] = row->work / t;
    if (t >= best_seconds) continue;
    best = c;
    best_seconds = t;
  }
  if (best >= 0) {
    for (int i = 0; i < rounds; i++) {
      pairs[i] = seconds[best][i] / seconds[0][i];
    }
    r->peer = all[best].name;
    r->peer_rate = row->work / best_seconds;
    r->ratio = at_share(pairs, rounds, 0.5);
    r->low = at_share(pairs, rounds, 0.1);
    r->high = at_share(pairs, rounds, 0.9);
  }
  /* the rate of memory, which others use as well, changes while a row is
   * measured: each sample has a ceiling of its own */
  for (int i = 0; i < rounds; i++) {
    pairs[i] = row->work / seconds[0][i] / top[i];
  }
  r->ours = row->work / mine;
  r->ceiling = at_share(top, rounds, row->kind == OF_FMA ? 0.9 : 0.5);
  r->share = row->kind == OF_FMA ? r->ours / r->ceiling
                                 : at_share(pairs, rounds, 0.5);
  r->is_met = r->share >= row->least_share &&
              (r->peer == NULL || r->ratio >= row->least_ratio);
}

/* ---- the contenders of a program ----------------------------------------- */

static double run_ours(contender_t *c, double warm) {
  double end = job_now() + warm;
  do {
    (void)job_run(c->state);
  } while (job_now() < end);
  return job_run(c->state);
}

/* A library of this process, which works with our operands. */
typedef struct library {
  const peer_t *peer;
  const row_t *row;
  job_t *job;
  float *out;
} library_t;

static double once(const library_t *l) {
  float *slots[JOB_SLOTS];
  job_t *j = l->job;
  if (j->set_count > 1) j->next_set = (j->next_set + 1) % j->set_count;
  for (int s = 0; s < JOB_SLOTS; s++) {
    slots[s] = j->data[s][(l->row->rotating >> s & 1) ? j->next_set : 0];
  }
  double start = job_now();
  l->row->peer(l->row, l->peer, slots, l->out);
  return job_now() - start;
}

static double run_library(contender_t *c, double warm) {
  double end = job_now() + warm;
  do {
    (void)once(c->state);
  } while (job_now() < end);
  return once(c->state);
}

static double run_server(contender_t *c, double warm) {
  return server_run(c->state, warm);
}

/* ---- equal results ------------------------------------------------------- */

static double difference(const float *mine, const float *theirs, size_t n) {
  double worst = 0, size = 0;
  for (size_t i = 0; i < n; i++) {
    double d = fabs((double)mine[i] - (double)theirs[i]);
    if (!(d <= worst)) worst = d;
    size = fmax(size, fabs((double)theirs[i]));
  }
  return size > 0 ? worst / size : worst;
}

/* What a peer computes otherwise is no peer: the matrix ends. */
static void compare(const row_t *row, const job_t *j, const float *theirs,
                    const char *name) {
  size_t n;
  const float *mine = job_result(j, &n);
  double most = row->tolerance > 0 ? row->tolerance : 1e-4;
  double d = difference(mine, theirs, n);
  if (d <= most) return;
  (void)fprintf(stderr, "bench_matrix: %s %s: %s has another result (%.2g)\n",
                row->id, row->name, name, d);
  exit(1);
}

static float *read_result(const char *folder, const char *engine, size_t n) {
  char path[256];
  float *out = calloc(n, sizeof *out);
  (void)snprintf(path, sizeof path, "%s/%s.out", folder, engine);
  FILE *f = fopen(path, "rb");
  if (out == NULL || f == NULL || fread(out, sizeof *out, n, f) != n) {
    (void)fprintf(stderr, "bench_matrix: no result in %s\n", path);
    exit(1);
  }
  (void)fclose(f);
  (void)remove(path);
  return out;
}

/* ---- one row ------------------------------------------------------------- */

static void remove_folder(const job_t *j, const char *folder) {
  char path[256];
  for (uint32_t s = 0; s < j->slot_count; s++) {
    (void)snprintf(path, sizeof path, "%s/%u.bin", folder, s);
    (void)remove(path);
  }
  (void)rmdir(folder);
}

/* Those that can compute the row; their results have been compared. */
static int open_servers(session_t *s, const row_t *row, const job_t *j,
                        contender_t *out) {
  char folder[80];
  int count = 0;
  size_t n;
  if (row->task[0] == '\0') return 0;
  (void)snprintf(folder, sizeof folder, "%s/row_XXXXXX", job_folder(0));
  if (mkdtemp(folder) == NULL) {
    (void)fprintf(stderr, "bench_matrix: cannot make a folder\n");
    exit(1);
  }
  job_write(j, folder);
  for (int i = 0; i < SERVER_MOST; i++) {
    server_t *server = &s->servers[i];
    if (!server_open(server, row->sets, folder, row->task)) continue;
    (void)job_result(j, &n);
    float *theirs = read_result(folder, server->engine, n);
    compare(row, j, theirs, server->name);
    free(theirs);
    out[count++] = (contender_t){server->name, run_server, server};
  }
  remove_folder(j, folder);
  return count;
}

void contend_row(session_t *s, const row_t *row, result_t *r) {
  contender_t all[CONTENDER_MOST];
  library_t libraries[PEER_MOST];
  job_t j;
  int count = 1;
  job_open(s->context, row, &j);
  float *out = calloc(j.bytes[j.slot_count - 1] + 64, 1);
  if (out == NULL) exit(1);
  all[0] = (contender_t){"tdsl", run_ours, &j};
  j.next_set = -1; /* all results to be compared are of set 0 */
  (void)job_run(&j);
  for (int p = 0; p < s->peer_count && row->peer != NULL; p++) {
    libraries[p] = (library_t){&s->peers[p], row, &j, out};
    j.next_set = -1;
    (void)once(&libraries[p]);
    if (row->peer_note == NULL || strcmp(row->peer_note, "product only")) {
      compare(row, &j, out, s->peers[p].name);
    }
    all[count++] = (contender_t){s->peers[p].name, run_library,
                                 &libraries[p]};
  }
  count += open_servers(s, row, &j, all + count);
  contend(s, row, all, count, r);
  for (int i = 0; i < SERVER_MOST && row->task[0] != '\0'; i++) {
    server_close(&s->servers[i]);
  }
  free(out);
  job_close(&j);
}
