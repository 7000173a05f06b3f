/* ceiling.c: what the machine can do at this moment. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench/matrix/matrix.h"
#include "driver/fma_chains.h"

enum { MOST_THREADS = 64 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int ceiling_cores(void) {
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return n < MOST_THREADS ? n : MOST_THREADS;
}

/* ---- threads ------------------------------------------------------------- */

typedef struct part {
  void (*work)(struct part *);
  pthread_barrier_t *barrier;
  int number, count;
  double amount;    /* done by this part: FLOP or bytes */
  double seconds;   /* from the barrier to the end of the slowest part */
  volatile float sink;
} part_t;

/* Core `number` of those that this process may use: a thread just made
 * starts where its maker runs, and two parts on one core are no ceiling. */
static void pin(int number, cpu_set_t *before) {
  cpu_set_t one;
  if (sched_getaffinity(0, sizeof *before, before) != 0) return;
  int left = number % CPU_COUNT(before);
  for (size_t c = 0; c < CPU_SETSIZE; c++) {
    if (!CPU_ISSET(c, before) || left-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(c, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

/* All parts begin together, and the clock runs until the last one ends. */
static void *run_part(void *arg) {
  part_t *p = arg;
  cpu_set_t before;
  CPU_ZERO(&before);
  pin(p->number, &before);
  (void)pthread_barrier_wait(p->barrier);
  double start = now();
  p->work(p);
  (void)pthread_barrier_wait(p->barrier);
  p->seconds = now() - start;
  (void)sched_setaffinity(0, sizeof before, &before);
  return NULL;
}

/* Rate of all parts together. */
static double rate(void (*work)(part_t *), int threads) {
  pthread_t ids[MOST_THREADS];
  part_t parts[MOST_THREADS];
  pthread_barrier_t barrier;
  double amount = 0;
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  if (pthread_barrier_init(&barrier, NULL, (unsigned)threads) != 0) exit(1);
  for (int i = 0; i < threads; i++) {
    parts[i] = (part_t){.work = work, .barrier = &barrier, .number = i,
                        .count = threads};
  }
  for (int i = 1; i < threads; i++) {
    if (pthread_create(&ids[i], NULL, run_part, &parts[i]) != 0) exit(1);
  }
  (void)run_part(&parts[0]);
  for (int i = 1; i < threads; i++) pthread_join(ids[i], NULL);
  for (int i = 0; i < threads; i++) amount += parts[i].amount;
  (void)pthread_barrier_destroy(&barrier);
  return amount / parts[0].seconds;
}

/* ---- multiply-adds ------------------------------------------------------- */

enum { ROUNDS = 100000, SLICES = 3 };

static void fma_part(part_t *p) {
  float sink = 0;
  p->amount = fma_chains_run(ROUNDS, &sink);
  p->sink = sink;
}

/* Of several slices of less than a millisecond the best: an interrupt makes
 * no machine slower. */
double ceiling_fma(int threads) {
  double best = 0;
  for (int i = 0; i < SLICES; i++) {
    double r = rate(fma_part, threads);
    best = r > best ? r : best;
  }
  return best;
}

/* ---- memory -------------------------------------------------------------- */

static const size_t memory_bytes = (size_t)256 << 20;
typedef float wide_t __attribute__((vector_size(64)));

/* Kept: making them costs more than a measurement. */
static wide_t *memory(int which) {
  static wide_t *kept[2];
  if (kept[which] == NULL) {
    kept[which] = aligned_alloc((size_t)2 << 20, memory_bytes);
    if (kept[which] == NULL) exit(1);
    (void)madvise(kept[which], memory_bytes, MADV_HUGEPAGE);
    memset(kept[which], which + 1, memory_bytes);
  }
  return kept[which];
}

static void stream_part(part_t *p) {
  size_t n = memory_bytes / sizeof(wide_t) / (size_t)p->count;
  const wide_t *from = memory(0) + n * (size_t)p->number;
  wide_t sum[4] = {{0}};
  for (size_t i = 0; i + 4 <= n; i += 4) {
    for (int c = 0; c < 4; c++) sum[c] += from[i + (size_t)c];
  }
  sum[0] += sum[1] + sum[2] + sum[3];
  p->sink = sum[0][0];
  p->amount = (double)(n * sizeof(wide_t));
}

double ceiling_stream(int threads) {
  (void)memory(0);
  return rate(stream_part, threads);
}

static void copy_part(part_t *p) {
  size_t n = memory_bytes / sizeof(wide_t) / (size_t)p->count;
  const wide_t *from = memory(0) + n * (size_t)p->number;
  wide_t *to = memory(1) + n * (size_t)p->number;
#if defined(__x86_64__)
  for (size_t i = 0; i < n; i++) {
    const __m128 *f = (const __m128 *)(const void *)&from[i];
    float *t = (float *)(void *)&to[i];
    for (int c = 0; c < 4; c++) _mm_stream_ps(t + 4 * c, f[c]);
  }
  _mm_sfence();
#else
  memcpy(to, from, n * sizeof(wide_t));
#endif
  p->amount = 2.0 * (double)(n * sizeof(wide_t));
}

double ceiling_copy(int threads) {
  (void)memory(0);
  (void)memory(1);
  return rate(copy_part, threads);
}
