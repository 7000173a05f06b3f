/* bench_sim.c: how fast the simulated GPU runs, against its bars.
 *
 * Kernels of sim_kernels.cu, compiled by NVRTC, run on libtdsl_simgpu.so with
 * one host thread; a result is checked against a sum in double precision
 * before it is timed. Figures are million warp instructions a second of the
 * process's own CPU time (best of the samples), so a busy machine does not
 * change them much; the row of two threads needs two idle CPUs.
 *
 *   bench_sim [SAMPLES [HOST [KERNEL]]]
 *
 * HOST: v2, v3 (AVX2: what the bars are stated for) or v4; KERNEL: only that
 * one, for profiling. */
#include "bench/sim_bench.h"

#include <pthread.h>

/* -- kernels -- */

enum { ROWS = 512, WIDTH = 1024, SIZE = 256, LENGTH = 256, HEAD = 64,
       THREADS = 128 * 64, STEPS = 400, WIDE = 512, SPINS = 20000000 };

static float data[4][ROWS * WIDTH];

typedef struct job {
  const char *name;
  unsigned grid[2], block;
  int buffers, number; /* device buffers, and the last parameter if >= 0 */
  double (*want)(size_t i); /* of element i of the last buffer */
  size_t count;
  rcuda_func_t *f;
  double speed[2]; /* without and with checks */
  double instructions, seconds[2];
} job_t;

static double want_softmax(size_t i) {
  const float *x = data[0] + i / WIDTH * WIDTH;
  double sum = 0;
  for (int k = 0; k < WIDTH; k++) sum += exp((double)x[k]);
  return exp((double)x[i % WIDTH]) / sum;
}
static double want_norm(size_t i) {
  const float *x = data[0] + i / WIDTH * WIDTH;
  double sum = 0;
  for (int k = 0; k < WIDTH; k++) sum += (double)x[k] * (double)x[k];
  return (double)x[i % WIDTH] * (double)data[1][i % WIDTH] /
         sqrt(sum / WIDTH + 1e-5);
}
static double want_gemm(size_t i) {
  double sum = 0;
  for (size_t k = 0; k < SIZE; k++)
    sum += (double)data[0][i / SIZE * SIZE + k] *
           (double)data[1][k * SIZE + i % SIZE];
  return sum;
}
static double want_attention(size_t i) {
  double sum = 0, out = 0;
  for (size_t j = 0; j < LENGTH; j++) {
    double s = 0;
    for (size_t k = 0; k < HEAD; k++)
      s += (double)data[0][i / HEAD * HEAD + k] *
           (double)data[1][j * HEAD + k];
    s = exp(s * 0.125);
    sum += s;
    out += s * (double)data[2][j * HEAD + i % HEAD];
  }
  return out / sum;
}

static job_t jobs[] = {
    {"arithmetic", {64, 1}, 128, 1, STEPS, NULL, THREADS, 0, {0}, 0, {0}},
    {"softmax", {ROWS, 1}, 128, 2, -1, want_softmax, ROWS * WIDTH, 0, {0}, 0,
     {0}},
    {"rms_norm", {ROWS, 1}, 128, 3, -1, want_norm, ROWS * WIDTH, 0, {0}, 0,
     {0}},
    {"gemm", {4, 4}, 256, 3, SIZE, want_gemm, SIZE * SIZE, 0, {0}, 0, {0}},
    {"attention", {4, 1}, 64, 4, LENGTH, want_attention, LENGTH * HEAD, 0,
     {0}, 0, {0}},
};
enum { JOBS = sizeof jobs / sizeof *jobs };

static uint64_t buffer[4];

static void launch(const job_t *j) {
  void *params[5];
  int n = 0, number = j->number;
  for (; n < j->buffers; n++) params[n] = &buffer[n];
  if (number >= 0) params[n] = &number;
  int code = sim.cuLaunchKernel(j->f, j->grid[0], j->grid[1], 1, j->block, 1,
                                1, 0, NULL, params, NULL);
  if (!code) code = sim.cuCtxSynchronize();
  need(code == 0, j->name);
}

static double counter(const char *name) {
  char text[16384], key[64];
  sim.get(sim.count() - 1, text, sizeof text);
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *p = strstr(text, key);
  need(p != NULL, name);
  return strtod(p + strlen(key), NULL);
}

static void check(const job_t *j) {
  static float out[ROWS * WIDTH];
  if (!j->want) return;
  need(!sim.cuMemcpyDtoH_v2(out, buffer[j->buffers - 1],
                            j->count * sizeof *out),
       "copy");
  for (size_t i = 0; i < j->count; i += 257) {
    double w = j->want(i), d = fabs((double)out[i] - w);
    need(d <= 1e-4 * (1 + fabs(w)), j->name);
  }
}

/* Fresh buffers: what was written before is not in the way. */
static void prepare(const job_t *j) {
  for (int n = 0; n < 4; n++) {
    if (buffer[n]) sim.cuMemFree_v2(buffer[n]);
    need(!sim.cuMemAlloc_v2(&buffer[n], sizeof data[n]), "memory");
    if (n + 1 < j->buffers)
      sim.cuMemcpyHtoD_v2(buffer[n], data[n], sizeof data[n]);
  }
}

static void measure(job_t *j, int samples) {
  static const char *const modes[] = {"check:none", "check:all"};
  for (int with = 0; with < 2; with++) {
    double best = 1e9;
    need(!sim.simgpu_configure(modes[with]), "options");
    prepare(j);
    launch(j);
    check(j);
    j->instructions = counter("warp_inst");
    for (int s = 0; s < samples; s++) {
      double start = now(CLOCK_PROCESS_CPUTIME_ID);
      launch(j);
      double took = now(CLOCK_PROCESS_CPUTIME_ID) - start;
      if (took < best) best = took;
    }
    j->seconds[with] = best;
    j->speed[with] = j->instructions / best * 1e-6;
  }
}

static void row(const char *name, const char *what, double value,
                const char *unit, double bar, int at_most) {
  int met = at_most ? value <= bar : value >= bar;
  printf("%-11s %-24s %8.2f %-12s", name, what, value, unit);
  if (bar > 0)
    printf(" bar %s %.3g  %s", at_most ? "<=" : ">=", bar,
           met ? "met" : "MISSED");
  printf("\n");
}

/* A loop that touches no memory, and its time on two threads against one:
   what this machine gives at this moment. */
static void *spin(void *arg) {
  volatile double *out = arg;
  double v[4] = {1, 2, 3, 4};
  for (int k = 0; k < SPINS; k++)
    for (int i = 0; i < 4; i++) v[i] = v[i] * 0.999 + 0.5;
  *out = v[0] + v[1] + v[2] + v[3];
  return NULL;
}

static double spin_twice(int threads) {
  double start = now(CLOCK_MONOTONIC), sums[2];
  pthread_t other;
  if (threads == 2)
    need(!pthread_create(&other, NULL, spin, &sums[1]), "a thread");
  else
    spin(&sums[1]);
  spin(&sums[0]);
  if (threads == 2) pthread_join(other, NULL);
  return now(CLOCK_MONOTONIC) - start;
}

static double least(double a, double b) {
  return a < b ? a : b;
}

/* The same work on two host threads, 64 blocks of the matrix product: by the
   wall clock, which needs two idle CPUs; by what it costs in all, which bounds
   it from above anywhere; and what two threads are worth without memory, all
   in turns. */
static void two_threads(job_t *j, int samples) {
  double wall[2] = {1e9, 1e9}, cpu[2] = {1e9, 1e9}, spun[2] = {1e9, 1e9};
  job_t wide = *j;
  wide.grid[0] = wide.grid[1] = WIDE / 64;
  wide.number = WIDE;
  prepare(&wide);
  launch(&wide);
  for (int s = 0; s < samples; s++)
    for (int two = 0; two < 2; two++) {
      sim.simgpu_configure(two ? "threads:2" : "threads:1");
      double start = now(CLOCK_MONOTONIC);
      double spent = now(CLOCK_PROCESS_CPUTIME_ID);
      launch(&wide);
      cpu[two] = least(cpu[two], now(CLOCK_PROCESS_CPUTIME_ID) - spent);
      wall[two] = least(wall[two], now(CLOCK_MONOTONIC) - start);
      spun[two] = least(spun[two], spin_twice(two + 1));
    }
  sim.simgpu_configure("threads:1");
  row(j->name, "2 threads against 1", wall[0] / wall[1], "times", 1.8, 0);
  row(j->name, "at most, by CPU time", 2 * cpu[0] / cpu[1], "times", 0, 0);
  row("no memory", "2 threads against 1", spun[0] / spun[1], "times", 0, 0);
}

/* Parsing a module of many kernels and decoding every one. */
static void parse(const char *ptx, int samples) {
  const char *body = strstr(ptx, ".visible");
  size_t head = (size_t)(body - ptx), length = strlen(body);
  enum { COPIES = 24 };
  char *text = calloc(1, head + (length + 4096) * COPIES + 1), *at = text;
  need(text != NULL, "memory");
  const char *debug = strstr(body, ".section");
  if (debug) length = (size_t)(debug - body);
  at += sprintf(at, "%.*s", (int)head, ptx);
  for (int c = 0; c < COPIES; c++) {
    /* each copy's kernels get a letter of their own */
    for (const char *p = body; p < body + length;) {
      const char *name = strstr(p, ".entry ");
      size_t part = name && name < body + length
                        ? (size_t)(name + 7 - p)
                        : (size_t)(body + length - p);
      memcpy(at, p, part);
      at += part;
      p += part;
      if (name && name < body + length) *at++ = (char)('a' + c);
    }
  }
  *at = 0;
  double best = 1e9;
  for (int s = 0; s < samples; s++) {
    rcuda_module_t *m = NULL;
    rcuda_func_t *f = NULL;
    double start = now(CLOCK_PROCESS_CPUTIME_ID);
    need(!sim.cuModuleLoadData(&m, text), "the module of many kernels");
    for (int c = 0; c < COPIES; c++)
      for (int k = 0; k < JOBS; k++) {
        char name[64];
        int registers;
        snprintf(name, sizeof name, "%c%s", 'a' + c, jobs[k].name);
        need(!sim.cuModuleGetFunction(&f, m, name) &&
                 !sim.cuFuncGetAttribute(&registers, 4, f),
             name);
      }
    double took = now(CLOCK_PROCESS_CPUTIME_ID) - start;
    if (took < best) best = took;
    sim.cuModuleUnload(m);
  }
  row("load", "parse and decode", (double)(at - text) / best * 1e-6, "MB/s",
      20, 0);
  free(text);
}

int main(int argc, char **argv) {
  int samples = argc > 1 ? atoi(argv[1]) : 5;
  const char *host = argc > 2 ? argv[2] : "v3";
  const char *only = argc > 3 ? argv[3] : NULL;
  if (samples < 1 || samples > 100) {
    fprintf(stderr, "usage: bench_sim [SAMPLES [v2|v3|v4 [KERNEL]]]\n");
    return 2;
  }
  double start_ms = open_device(host);
  uint64_t state = 1;
  for (size_t n = 0; n < 4; n++)
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
      state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
      data[n][i] = (float)(state >> 40) * 0x1p-23f - 1.0f;
    }
  char *ptx = compile("bench/sim_kernels.cu", "-arch=compute_80", "-lineinfo");
  rcuda_module_t *module = NULL;
  need(!sim.cuModuleLoadData(&module, ptx), "the PTX does not load");
  printf("host x86-64-%s, %d samples\n", host, samples);
  double instructions = 0, seconds[2] = {0, 0};
  for (int k = 0; k < JOBS; k++) {
    job_t *j = &jobs[k];
    if (only && strcmp(only, j->name) != 0) continue;
    need(!sim.cuModuleGetFunction(&j->f, module, j->name), j->name);
    measure(j, samples);
    row(j->name, "counters", j->speed[0], "M warp inst/s", 0, 0);
    row(j->name, "counters, all checks", j->speed[1], "M warp inst/s",
        k == 0 ? 20 : 0, 0);
    if (k == 0) continue;
    /* the mix: every kernel with the same number of instructions */
    instructions += 1;
    for (int w = 0; w < 2; w++) seconds[w] += 1 / j->speed[w];
  }
  if (!only) {
    row("mix", "counters", instructions / seconds[0], "M warp inst/s", 20, 0);
    row("mix", "counters, all checks", instructions / seconds[1],
        "M warp inst/s", 10, 0);
    two_threads(&jobs[3], samples);
    parse(ptx, samples);
    row("load", "library and device", start_ms, "ms", 5, 1);
  }
  free(ptx);
  return 0;
}
