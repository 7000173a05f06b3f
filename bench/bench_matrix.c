/* bench_matrix.c: the CPU matrix. Each row beside the best installed peer and
 * beside the machine's own ceiling, all of one run.
 *
 *   bench_matrix [--rows C1,C8] [--samples N] [--threads N]
 *                [--json FILE] [--svg FILE]
 *
 * A sample is the peers, ours among them at a place that moves, each several
 * times of which the last counts, then the ceiling; rates are medians, the
 * ratio is the median of the pairs'. Results are compared with the peer's
 * before anything is timed. Cold rows rotate operand sets. Rows:
 * bench/matrix/rows.c. C12 is the time from text to first result. */
#define _GNU_SOURCE
#include <tdsl/tdsl.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/matrix/matrix.h"

enum { MOST_ROWS = 64, MOST_SAMPLES = 200, MOST_SLOTS = 8, MOST_SETS = 4 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static tdsl_string_t text(const char *s) {
  return (tdsl_string_t){s, strlen(s)};
}

static void fail(tdsl_error_t *error) {
  tdsl_string_t m = tdsl_error_get_message(error);
  (void)fprintf(stderr, "bench_matrix: %.*s\n", (int)m.length, m.data);
  for (uint32_t i = 0; i < tdsl_error_get_diagnostic_count(error); i++) {
    const tdsl_diagnostic_t *d = tdsl_error_get_diagnostic(error, i);
    (void)fprintf(stderr, "%.*s\n", (int)d->rendered.length,
                  d->rendered.data);
  }
  exit(1);
}

/* ---- one program and its operands ---------------------------------------- */

typedef struct job {
  tdsl_program_t *program;
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  uint32_t slot_count;
  size_t bytes[MOST_SLOTS];
  void *data[MOST_SLOTS];              /* set 0 */
  tdsl_buffer_t *sets[MOST_SETS];      /* of the rotating slot */
  void *set_data[MOST_SETS];
  int set_count, next_set, rotating;
} job_t;

static void *fill(tdsl_dtype_t dtype, size_t count, size_t bytes, int seed) {
  unsigned char *data = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (data == NULL) exit(1);
  for (size_t i = 0; i < count; i++) {
    uint32_t h = (uint32_t)(i + (size_t)seed * 977) * 2654435761u;
    float f = (float)(h >> 8 & 0xffff) / 65536 - 0.5f;
    if (dtype == TDSL_DTYPE_F32) ((float *)(void *)data)[i] = f;
    else if (dtype == TDSL_DTYPE_I8) data[i] = (unsigned char)(h >> 12 & 15);
    /* halves between 0.5 and 1 */
    else ((uint16_t *)(void *)data)[i] = (uint16_t)(0x3800 | (h >> 12 & 1023));
  }
  return data;
}

static tdsl_buffer_t *wrap(tdsl_context_t *context,
                           const tdsl_tensor_desc_t *t, void *data,
                           size_t bytes) {
  tdsl_error_t *error = NULL;
  tdsl_buffer_t *buffer = NULL;
  if (tdsl_buffer_wrap(context, t, data, bytes, &buffer, &error)) fail(error);
  return buffer;
}

/* Weights go the way of a checkpoint: a file of f32 or i8 tensors, named as
 * the fields are, which is bound once and does not change. */
static void bind_weights(const tdsl_entry_t *entry, const job_t *j) {
  char path[] = "/tmp/bench_matrix_XXXXXX.safetensors", head[1024] = "{";
  tdsl_error_t *error = NULL;
  size_t n = 1, at = 0;
  for (uint32_t s = 0; s < entry->slot_count; s++) {
    const tdsl_slot_t *slot = &entry->slots[s];
    if (!slot->is_weight) continue;
    const char *field = strrchr(slot->name.data, '.');
    n += (size_t)snprintf(
        head + n, sizeof head - n,
        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", n > 1 ? "," : "",
        field != NULL ? field + 1 : slot->name.data,
        slot->dtype == TDSL_DTYPE_I8 ? "I8" : "F32");
    for (uint32_t d = 0; d < slot->rank; d++) {
      n += (size_t)snprintf(head + n, sizeof head - n, d > 0 ? ",%lld" : "%lld",
                            (long long)slot->dim_value[d]);
    }
    n += (size_t)snprintf(head + n, sizeof head - n,
                          "],\"data_offsets\":[%zu,%zu]}", at,
                          at + j->bytes[s]);
    at += j->bytes[s];
  }
  if (n == 1) return;
  n += (size_t)snprintf(head + n, sizeof head - n, "}");
  while (n % 8 != 0) head[n++] = ' ';
  int file = mkstemps(path, (int)strlen(".safetensors"));
  FILE *out = file < 0 ? NULL : fdopen(file, "wb");
  uint64_t length = n;
  int ok = out != NULL && fwrite(&length, sizeof length, 1, out) == 1 &&
           fwrite(head, n, 1, out) == 1;
  for (uint32_t s = 0; s < entry->slot_count && ok; s++) {
    if (!entry->slots[s].is_weight) continue;
    ok = fwrite(j->data[s], j->bytes[s], 1, out) == 1;
  }
  if (out == NULL || fclose(out) != 0 || !ok) {
    (void)fprintf(stderr, "bench_matrix: cannot write %s\n", path);
    exit(1);
  }
  if (tdsl_executable_bind_weights(j->exe, text(path), 1, 0, &error)) {
    fail(error);
  }
  (void)remove(path); /* it stays mapped */
}

static void open_job(tdsl_context_t *context, const row_t *row, job_t *j) {
  tdsl_error_t *error = NULL;
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  memset(j, 0, sizeof *j);
  desc.file = text("bench.tdsl");
  desc.text = text(row->source);
  desc.device = text("cpu");
  if (tdsl_program_compile(context, &desc, &j->program, &error)) fail(error);
  const tdsl_entry_t *entry = tdsl_program_get_entry(j->program, 0);
  if (tdsl_executable_create(j->program, entry, &j->exe, &error)) fail(error);
  if (tdsl_run_create(j->exe, &j->run, &error)) fail(error);
  j->slot_count = entry->slot_count;
  j->rotating = row->rotating_slot;
  for (uint32_t s = 0; s < entry->slot_count && s < MOST_SLOTS; s++) {
    const tdsl_slot_t *slot = &entry->slots[s];
    tdsl_tensor_desc_t t = {slot->dtype, slot->rank, {0}};
    size_t count = 1;
    for (uint32_t d = 0; d < slot->rank; d++) {
      t.dims[d] = slot->dim_value[d];
      count *= (size_t)t.dims[d];
    }
    size_t bytes = j->bytes[s] = count * tdsl_dtype_get_bytes(slot->dtype);
    int sets = (int)s == row->rotating_slot ? row->sets : 1;
    for (int i = 0; i < sets; i++) {
      void *data = fill(slot->dtype, count, bytes, (int)s * 7 + i);
      tdsl_buffer_t *buffer = wrap(context, &t, data, bytes);
      if (i == 0) {
        j->data[s] = data;
        if (!slot->is_weight &&
            tdsl_run_set_buffer(j->run, s, buffer, &error)) {
          fail(error);
        }
      }
      if ((int)s == row->rotating_slot) {
        j->sets[i] = buffer;
        j->set_data[i] = data;
        j->set_count = sets;
      } else {
        tdsl_buffer_release(buffer);
      }
    }
  }
  bind_weights(entry, j);
}

static void close_job(job_t *j) {
  tdsl_run_destroy(j->run);
  tdsl_executable_release(j->exe);
  tdsl_program_release(j->program);
  for (int i = 0; i < j->set_count; i++) {
    tdsl_buffer_release(j->sets[i]);
    if (i > 0) free(j->set_data[i]);
  }
  for (int s = 0; s < MOST_SLOTS; s++) free(j->data[s]);
}

/* The next operand set becomes the rotating slot's. */
static void rotate(job_t *j) {
  tdsl_error_t *error = NULL;
  if (j->set_count < 2) return;
  j->next_set = (j->next_set + 1) % j->set_count;
  if (tdsl_run_set_buffer(j->run, (uint32_t)j->rotating,
                          j->sets[j->next_set], &error)) {
    fail(error);
  }
}

/* ---- samples ------------------------------------------------------------- */

/* Workers of whoever ran before may still be spinning on their core, for
 * up to a hundred milliseconds; they sleep after this. */
static void let_others_rest(int threads) {
  struct timespec t = {0, 120 * 1000 * 1000};
  if (threads > 1) (void)nanosleep(&t, NULL);
}

static double seconds_of_ours(job_t *j) {
  tdsl_error_t *error = NULL;
  rotate(j);
  double start = now();
  if (tdsl_run_execute(j->run, &error)) fail(error);
  return now() - start;
}

/* The last of several: on a busy machine it takes tens of milliseconds until
 * all threads of a contender are awake and on cores of their own. */
static double warm_up_seconds(int threads) {
  return threads > 1 ? 0.05 : 0;
}

static double sample_ours(job_t *j, int threads) {
  let_others_rest(threads);
  double start = now();
  do {
    (void)seconds_of_ours(j);
  } while (now() - start < warm_up_seconds(threads));
  return seconds_of_ours(j);
}

static double seconds_of_peer(const row_t *row, const peer_t *p, job_t *j,
                              float *out) {
  float *slots[MOST_SLOTS];
  for (int s = 0; s < MOST_SLOTS; s++) slots[s] = j->data[s];
  if (j->set_count > 1) {
    j->next_set = (j->next_set + 1) % j->set_count;
    slots[j->rotating] = j->set_data[j->next_set];
  }
  double start = now();
  row->peer(row, p, slots, out);
  return now() - start;
}

static double sample_peer(const row_t *row, const peer_t *p, job_t *j,
                          float *out, int threads) {
  let_others_rest(threads);
  double start = now();
  do {
    (void)seconds_of_peer(row, p, j, out);
  } while (now() - start < warm_up_seconds(threads));
  return seconds_of_peer(row, p, j, out);
}

static double ceiling(const row_t *row, int threads) {
  switch (row->kind) {
    case OF_FMA: return ceiling_fma(threads);
    case OF_STREAM: return ceiling_stream(threads);
    case OF_COPY: break;
  }
  return ceiling_copy(threads);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double at_share(double *v, int n, double share) {
  qsort(v, (size_t)n, sizeof *v, ascending);
  return v[(int)(share * (n - 1) + 0.5)];
}

/* Both computed the same, but for the peer that stops at the product. */
static int agrees(const row_t *row, const job_t *j, const float *theirs) {
  if (row->peer_note != NULL && strcmp(row->peer_note, "product only") == 0) {
    return 1;
  }
  const float *mine = j->data[j->slot_count - 1];
  size_t n = j->bytes[j->slot_count - 1] / sizeof *mine;
  double worst = 0, size = 0;
  for (size_t i = 0; i < n; i++) {
    double d = fabs((double)mine[i] - (double)theirs[i]);
    if (!(d <= worst)) worst = d;
    size = fmax(size, fabs((double)theirs[i]));
  }
  return worst <= 1e-4 * size;
}

static void measure(tdsl_context_t *context, const row_t *row,
                    const peer_t *peers, int peer_count, int samples,
                    int threads, result_t *r) {
  static double mine[MOST_SAMPLES], other[PEER_MOST][MOST_SAMPLES];
  static double pairs[MOST_SAMPLES], top[MOST_SAMPLES];
  job_t j;
  if (row->peer == NULL) peer_count = 0;
  open_job(context, row, &j);
  float *out = calloc(j.bytes[j.slot_count - 1] + 64, 1);
  if (out == NULL) exit(1);
  (void)seconds_of_ours(&j);
  for (int p = 0; p < peer_count; p++) {
    j.next_set = 0; /* so that the peer takes the set that ours took */
    (void)seconds_of_peer(row, &peers[p], &j, out);
    if (!agrees(row, &j, out)) {
      (void)fprintf(stderr, "bench_matrix: %s %s: %s has another result\n",
                    row->id, row->name, peers[p].name);
      exit(1);
    }
  }
  for (int i = 0; i < samples; i++) {
    for (int p = 0; p < peer_count; p++) {
      other[p][i] = sample_peer(row, &peers[p], &j, out, threads);
      /* ours, at another place in the round each time */
      if (p == i % peer_count) mine[i] = sample_ours(&j, threads);
    }
    if (peer_count == 0) mine[i] = sample_ours(&j, threads);
    let_others_rest(threads);
    top[i] = ceiling(row, threads);
  }
  int best = -1;
  double best_seconds = 0;
  for (int p = 0; p < peer_count; p++) {
    static double copy[MOST_SAMPLES];
    memcpy(copy, other[p], sizeof copy);
    double s = at_share(copy, samples, 0.5);
    if (best < 0 || s < best_seconds) {
      best = p;
      best_seconds = s;
    }
  }
  *r = (result_t){.row = row};
  if (best >= 0) {
    for (int i = 0; i < samples; i++) pairs[i] = other[best][i] / mine[i];
    r->peer = peers[best].name;
    r->peer_rate = row->work / best_seconds;
    r->ratio = at_share(pairs, samples, 0.5);
    r->low = at_share(pairs, samples, 0.1);
    r->high = at_share(pairs, samples, 0.9);
  }
  /* the rate of memory, which others use as well, changes while a row is
   * measured: each sample has a ceiling of its own */
  for (int i = 0; i < samples; i++) pairs[i] = row->work / mine[i] / top[i];
  r->ours = row->work / at_share(mine, samples, 0.5);
  r->ceiling = at_share(top, samples, row->kind == OF_FMA ? 0.9 : 0.5);
  r->share = row->kind == OF_FMA ? r->ours / r->ceiling
                                 : at_share(pairs, samples, 0.5);
  r->is_met = r->share >= row->least_share &&
              (r->peer == NULL || r->ratio >= row->least_ratio);
  free(out);
  close_job(&j);
}

/* ---- C12: from text to the first result ---------------------------------- */

static int start_time(const char *name, const char *source, double bar) {
  tdsl_error_t *error = NULL;
  tdsl_context_t *context = NULL;
  row_t row = {.id = "C12", .sets = 1, .rotating_slot = -1};
  job_t j;
  (void)snprintf(row.source, sizeof row.source, "%s", source);
  double start = now();
  if (tdsl_context_create(NULL, &context, &error)) fail(error);
  open_job(context, &row, &j);
  (void)seconds_of_ours(&j);
  double seconds = now() - start;
  printf("C12 %-30s %8.3f s       text to first result, bar %.1f s  %s\n",
         name, seconds, bar, seconds <= bar ? "met" : "MISSED");
  close_job(&j);
  tdsl_context_destroy(context);
  return seconds <= bar;
}

static const char block_source[] =
    "import softmax (softmax)\n"
    "dim T = 64, E = 256, H = 4, D = 64, F = 1024\n"
    "export fn block(x: f32[T, E], wq: f32[E, E], wo: f32[E, E], "
    "w1: f32[F, E], w2: f32[E, F]) -> y: f32[T, E] {\n"
    "  m[t] = (sum[e] x[t, e] * x[t, e]) / f32(E)\n"
    "  n[t, e] = x[t, e] * rsqrt(m[t] + 1e-5)\n"
    "  q[t, e] = sum[i] n[t, i] * wq[e, i]\n"
    "  s[h in H, t, u] = (sum[d in D] q[t, h * D + d] * q[u, h * D + d]) "
    "* 0.125\n"
    "  p[h, t, :] = softmax(s[h, t, :])\n"
    "  a[t, h in H, d in D] = sum[u] p[h, t, u] * q[u, h * D + d]\n"
    "  o[t, e] = sum[i in E] a[t, i / D, i % D] * wo[e, i]\n"
    "  r[t, e] = x[t, e] + o[t, e]\n"
    "  f[t, k] = max(sum[e] r[t, e] * w1[k, e], 0)\n"
    "  y[t, e] = r[t, e] + (sum[k] f[t, k] * w2[e, k])\n}\n";

/* ---- options ------------------------------------------------------------- */

static const char *option(int argc, char **argv, const char *name) {
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return NULL;
}

static void set_threads(int threads) {
  char number[16];
  static const char *const knobs[] = {"TDSL_THREADS", "OPENBLAS_NUM_THREADS",
                                      "BLIS_NUM_THREADS", "OMP_NUM_THREADS"};
  (void)snprintf(number, sizeof number, "%d", threads);
  for (size_t i = 0; i < sizeof knobs / sizeof knobs[0]; i++) {
    (void)setenv(knobs[i], number, 1);
  }
}

static const char usage[] =
    "usage: bench_matrix [--rows C1,C8] [--samples N] [--threads N]\n"
    "                    [--json FILE] [--svg FILE]\n"
    "Measures rows of the CPU matrix (all of them without --rows) beside the\n"
    "installed peers and the machine's own ceilings, on the same number of\n"
    "threads (all cores of the affinity mask without --threads).\n";

/* Every argument is an option of the list and its value. */
static int is_known(int argc, char **argv) {
  static const char *const names[] = {"--rows", "--samples", "--threads",
                                      "--json", "--svg"};
  for (int i = 1; i < argc; i += 2) {
    int found = 0;
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
      found |= strcmp(argv[i], names[k]) == 0;
    }
    if (!found || i + 1 == argc) return 0;
  }
  return 1;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) {
    (void)fputs(usage, stdout);
    return 0;
  }
  if (!is_known(argc, argv)) {
    (void)fputs(usage, stderr);
    return 2;
  }
  static row_t rows[MOST_ROWS];
  static result_t results[MOST_ROWS];
  peer_t peers[PEER_MOST];
  const char *ids = option(argc, argv, "--rows");
  const char *given = option(argc, argv, "--samples");
  const char *json = option(argc, argv, "--json");
  const char *svg = option(argc, argv, "--svg");
  int samples = given != NULL ? atoi(given) : 15;
  given = option(argc, argv, "--threads");
  int threads = given != NULL ? atoi(given) : ceiling_cores();
  tdsl_error_t *error = NULL;
  tdsl_context_t *context = NULL;
  if (samples < 3 || samples > MOST_SAMPLES || threads < 1) {
    (void)fprintf(stderr, "bench_matrix: 3 to %d samples, 1 or more threads\n",
                  MOST_SAMPLES);
    return 2;
  }
  set_threads(threads);
  int peer_count = peer_open(peers);
  int count = matrix_rows(ids, rows, MOST_ROWS), missed = 0;
  printf("%d threads, %d samples\n", threads, samples);
  for (int p = 0; p < peer_count; p++) {
    printf("peer %s: %s\n", peers[p].name, peers[p].version);
  }
  printf("ceilings now: fma %.1f GFLOP/s, read %.1f GB/s, copy %.1f GB/s\n\n",
         ceiling_fma(threads) * 1e-9, ceiling_stream(threads) * 1e-9,
         ceiling_copy(threads) * 1e-9);
  if (tdsl_context_create(NULL, &context, &error)) fail(error);
  report_head();
  for (int i = 0; i < count; i++) {
    measure(context, &rows[i], peers, peer_count, samples, threads,
            &results[i]);
    report_row(&results[i]);
    missed += !results[i].is_met;
  }
  tdsl_context_destroy(context);
  if (ids == NULL || strstr(ids, "C12") != NULL) {
    missed += !start_time("transformer block", block_source, 0.3);
  }
  printf("\n%d of the rows missed a bar\n", missed);
  if (json != NULL && !report_json(json, results, count, threads)) return 1;
  if (svg != NULL && !report_svg(svg, results, count)) return 1;
  return 0;
}
