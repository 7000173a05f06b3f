/* bench_cpu.c: the first bars of the CPU back end, each beside its peer.
 *
 *   matmul   f32 1024 x 1024 x 1024, against OpenBLAS's sgemm
 *   chain    five elementwise operations over 64 Mi f32, against memcpy
 *   softmax  rows of 8192 x 4096 f32; reads and writes each element once
 *
 * Samples of ours and of the peer alternate in one run, first one first,
 * then the other; the ratio is that of the pairs' median.  Ceilings of
 * memory move by a third within an hour on shared machines, so only ratios
 * of one run mean something.  Results are checked before anything is timed.
 *
 *   bench_cpu [SAMPLES]
 *
 * OPENBLAS_CORETYPE should be unset: it may force a slow kernel. */
#include <tdsl/tdsl.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if TDSL_HAVE_OPENBLAS
#include <cblas.h>
extern char *openblas_get_config(void);
extern char *openblas_get_corename(void);
extern int openblas_get_num_threads(void);
#endif

enum { MATMUL = 1024, ROWS = 8192, COLUMNS = 4096, MAX_SAMPLES = 200 };
static const int64_t chain_length = 64 * 1024 * 1024;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static tdsl_string_t text(const char *s) {
  tdsl_string_t v = {s, strlen(s)};
  return v;
}

static void fail(tdsl_error_t *error) {
  tdsl_string_t m = tdsl_error_get_message(error);
  fprintf(stderr, "%.*s\n", (int)m.length, m.data);
  for (uint32_t i = 0; i < tdsl_error_get_diagnostic_count(error); i++) {
    const tdsl_diagnostic_t *d = tdsl_error_get_diagnostic(error, i);
    fprintf(stderr, "%.*s\n", (int)d->rendered.length, d->rendered.data);
  }
  exit(1);
}

/* One program with one entry, its run state and the memory of its slots. */
typedef struct job {
  tdsl_program_t *program;
  tdsl_executable_t *exe;
  tdsl_run_t *run;
  float *data[3];
  size_t bytes[3];
} job_t;

static void open_job(tdsl_context_t *context, const char *source, job_t *j) {
  tdsl_error_t *error = NULL;
  tdsl_compile_desc_t desc = TDSL_COMPILE_DESC_INIT;
  desc.file = text("bench.tdsl");
  desc.text = text(source);
  desc.device = text("cpu");
  if (tdsl_program_compile(context, &desc, &j->program, &error)) fail(error);
  const tdsl_entry_t *entry = tdsl_program_get_entry(j->program, 0);
  if (tdsl_executable_create(j->program, entry, &j->exe, &error)) fail(error);
  if (tdsl_run_create(j->exe, &j->run, &error)) fail(error);
  for (uint32_t s = 0; s < entry->slot_count; s++) {
    const tdsl_slot_t *slot = &entry->slots[s];
    tdsl_tensor_desc_t t = {slot->dtype, slot->rank, {0}};
    size_t count = 1;
    for (uint32_t d = 0; d < slot->rank; d++) {
      t.dims[d] = slot->dim_value[d];
      count *= (size_t)t.dims[d];
    }
    j->bytes[s] = count * sizeof(float);
    j->data[s] = aligned_alloc(64, j->bytes[s]);
    if (j->data[s] == NULL) exit(1);
    for (size_t i = 0; i < count; i++) {
      j->data[s][i] = (float)((i * 2654435761u) >> 8 & 0xffff) / 65536 - 0.5f;
    }
    tdsl_buffer_t *buffer = NULL;
    if (tdsl_buffer_wrap(context, &t, j->data[s], j->bytes[s], &buffer,
                         &error) ||
        tdsl_run_set_buffer(j->run, s, buffer, &error)) {
      fail(error);
    }
    tdsl_buffer_release(buffer);
  }
}

static void run_job(job_t *j) {
  tdsl_error_t *error = NULL;
  if (tdsl_run_execute(j->run, &error)) fail(error);
}

static void close_job(job_t *j) {
  tdsl_run_destroy(j->run);
  tdsl_executable_release(j->exe);
  tdsl_program_release(j->program);
  for (int i = 0; i < 3; i++) free(j->data[i]);
}

/* ---- samples ------------------------------------------------------------- */

typedef void (*work_fn)(void *user);

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double middle(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, ascending);
  return v[n / 2];
}

static double timed(work_fn fn, void *user) {
  double start = now();
  fn(user);
  return now() - start;
}

/* Prints one row; ratio > 1: ours is faster. */
static double compare(const char *name, const char *peer_name, double work,
                      const char *unit, int samples, work_fn ours, void *a,
                      work_fn peer, void *b, double bar) {
  double mine[MAX_SAMPLES], other[MAX_SAMPLES], ratio[MAX_SAMPLES];
  ours(a);
  peer(b);
  for (int i = 0; i < samples; i++) {
    if (i % 2 == 0) mine[i] = timed(ours, a);
    other[i] = timed(peer, b);
    if (i % 2 != 0) mine[i] = timed(ours, a);
    ratio[i] = other[i] / mine[i];
  }
  double r = middle(ratio, samples);
  double low = ratio[samples / 10], high = ratio[samples - 1 - samples / 10];
  printf("%-9s %9.2f %9.2f %-9s %-9s %5.2f  %4.2f..%4.2f  bar %4.2f  %s\n",
         name, work / middle(mine, samples) * 1e-9,
         work / middle(other, samples) * 1e-9, unit, peer_name, r, low, high,
         bar, r >= bar ? "met" : "MISSED");
  return r;
}

static void run_ours(void *user) {
  run_job(user);
}

/* ---- the three rows ------------------------------------------------------ */

static const char matmul_source[] =
    "dim M = 1024, N = 1024, K = 1024\n"
    "export fn mm(a: f32[M, K], b: f32[K, N]) -> c: f32[M, N] {\n"
    "  c[m, n] = sum[k] a[m, k] * b[k, n]\n"
    "}\n";

static const char chain_source[] =
    "dim N = 67108864\n"
    "export fn chain(x: f32[N]) -> y: f32[N] {\n"
    "  a[i] = x[i] * 1.5\n"
    "  b[i] = a[i] + 0.25\n"
    "  c[i] = max(b[i], 0)\n"
    "  d[i] = c[i] * c[i]\n"
    "  y[i] = d[i] - x[i]\n"
    "}\n";

static const char softmax_source[] =
    "import softmax (softmax)\n"
    "dim R = 8192, C = 4096\n"
    "export fn rows(x: f32[R, C]) -> y: f32[R, C] {\n"
    "  y[r, :] = softmax(x[r, :])\n"
    "}\n";

static float *peer_result;

#if TDSL_HAVE_OPENBLAS
static void run_sgemm(void *user) {
  job_t *j = user;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, MATMUL, MATMUL,
              MATMUL, 1.0f, j->data[0], MATMUL, j->data[1], MATMUL, 0.0f,
              peer_result, MATMUL);
}
#endif

static void run_memcpy(void *user) {
  job_t *j = user;
  memcpy(peer_result, j->data[0], j->bytes[0]);
}

static int check_matmul(const job_t *j) {
  for (int t = 0; t < 1000; t++) {
    int m = t * 37 % MATMUL, n = t * 101 % MATMUL;
    double sum = 0, size = 0;
    for (int k = 0; k < MATMUL; k++) {
      double p = (double)j->data[0][m * MATMUL + k] *
                 (double)j->data[1][k * MATMUL + n];
      sum += p;
      size += fabs(p);
    }
    double d = fabs((double)j->data[2][m * MATMUL + n] - sum);
    if (!(d <= size * MATMUL * 0x1p-24)) return 0;
  }
  return 1;
}

static int check_chain(const job_t *j) {
  for (int64_t i = 0; i < chain_length; i += 12345) {
    float x = j->data[0][i];
    float b = x * 1.5f + 0.25f; /* exact for these inputs */
    float c = b > 0 ? b : 0;
    float y = c * c - x;
    if (!(fabsf(j->data[1][i] - y) <= 1e-6f)) return 0;
  }
  return 1;
}

static int check_softmax(const job_t *j) {
  for (int r = 0; r < ROWS; r += 511) {
    double sum = 0, worst = 0;
    for (int c = 0; c < COLUMNS; c++) {
      sum += exp((double)j->data[0][r * COLUMNS + c]);
    }
    for (int c = 0; c < COLUMNS; c++) {
      double want = exp((double)j->data[0][r * COLUMNS + c]) / sum;
      double d = fabs((double)j->data[1][r * COLUMNS + c] - want) / want;
      if (!(d <= worst)) worst = d;
    }
    if (!(worst <= 1e-5)) return 0;
  }
  return 1;
}

static int bench_matmul(tdsl_context_t *context, int samples) {
  job_t j = {0};
  open_job(context, matmul_source, &j);
  run_job(&j);
  if (!check_matmul(&j)) return 0;
#if TDSL_HAVE_OPENBLAS
  double flop = 2.0 * MATMUL * MATMUL * MATMUL;
  compare("matmul", "OpenBLAS", flop, "GFLOP/s", samples, run_ours, &j,
          run_sgemm, &j, 0.5);
#else
  (void)samples;
  printf("matmul    no OpenBLAS in this build: no peer, no figure\n");
#endif
  close_job(&j);
  return 1;
}

static int bench_bytes(tdsl_context_t *context, const char *name,
                       const char *source, int (*check)(const job_t *),
                       int samples, double bar) {
  job_t j = {0};
  open_job(context, source, &j);
  run_job(&j);
  if (!check(&j)) return 0;
  double bytes = (double)j.bytes[0] + (double)j.bytes[1];
  compare(name, "memcpy", bytes, "GB/s", samples, run_ours, &j, run_memcpy,
          &j, bar);
  tdsl_run_stats_t stats = {.struct_bytes = sizeof stats};
  tdsl_run_get_stats(j.run, &stats);
  printf("          %u kernel%s, ledger: %.2f reads and %.2f writes of each "
         "element\n",
         stats.launch_count, stats.launch_count == 1 ? "" : "s",
         (double)stats.read_bytes / (double)j.bytes[0],
         (double)stats.written_bytes / (double)j.bytes[1]);
  close_job(&j);
  return 1;
}

int main(int argc, char **argv) {
  int samples = argc > 1 ? atoi(argv[1]) : 15;
  if (samples < 3 || samples > MAX_SAMPLES) {
    fprintf(stderr, "usage: bench_cpu [SAMPLES]  (3 to %d)\n", MAX_SAMPLES);
    return 2;
  }
  tdsl_error_t *error = NULL;
  tdsl_context_t *context = NULL;
  if (tdsl_context_create(NULL, &context, &error)) fail(error);
  peer_result = aligned_alloc(64, (size_t)chain_length * sizeof(float));
  if (peer_result == NULL) return 1;
  memset(peer_result, 0, (size_t)chain_length * sizeof(float));
#if TDSL_HAVE_OPENBLAS
  printf("peer: %s, kernel %s, %d threads\n", openblas_get_config(),
         openblas_get_corename(), openblas_get_num_threads());
#endif
  printf("%-9s %9s %9s %-9s %-9s %5s  %s\n", "row", "ours", "peer", "unit",
         "peer", "ratio", "spread (10..90 %)");
  int ok = bench_matmul(context, samples) &&
           bench_bytes(context, "chain", chain_source, check_chain, samples,
                       0.7) &&
           bench_bytes(context, "softmax", softmax_source, check_softmax,
                       samples, 0.0);
  if (!ok) fprintf(stderr, "a result is wrong: nothing more is timed\n");
  free(peer_result);
  tdsl_context_destroy(context);
  return ok ? 0 : 1;
}
