/* ceiling.c: what the machine can do at this moment. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench/matrix/matrix.h"

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
  int number, count;
  double amount;    /* done by this part: FLOP or bytes */
  volatile float sink;
} part_t;

static void *run_part(void *arg) {
  part_t *p = arg;
  p->work(p);
  return NULL;
}

/* Rate of all parts together. */
static double rate(void (*work)(part_t *), int threads) {
  pthread_t ids[MOST_THREADS];
  part_t parts[MOST_THREADS];
  double amount = 0, start = now();
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  for (int i = 0; i < threads; i++) {
    parts[i] = (part_t){.work = work, .number = i, .count = threads};
  }
  for (int i = 1; i < threads; i++) {
    if (pthread_create(&ids[i], NULL, run_part, &parts[i]) != 0) exit(1);
  }
  work(&parts[0]);
  for (int i = 1; i < threads; i++) pthread_join(ids[i], NULL);
  for (int i = 0; i < threads; i++) amount += parts[i].amount;
  return amount / (now() - start);
}

/* ---- multiply-adds ------------------------------------------------------- */

enum { CHAINS = 12, ROUNDS = 200000 };

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float fma_512(void) {
  __m512 a[CHAINS], x = _mm512_set1_ps(0.9999f), y = _mm512_set1_ps(1e-4f);
  for (int c = 0; c < CHAINS; c++) a[c] = _mm512_set1_ps((float)c);
  for (int r = 0; r < ROUNDS; r++) {
    for (int c = 0; c < CHAINS; c++) a[c] = _mm512_fmadd_ps(a[c], x, y);
  }
  for (int c = 1; c < CHAINS; c++) a[0] = _mm512_add_ps(a[0], a[c]);
  return _mm512_reduce_add_ps(a[0]);
}

__attribute__((target("avx2,fma"))) static float fma_256(void) {
  __m256 a[CHAINS], x = _mm256_set1_ps(0.9999f), y = _mm256_set1_ps(1e-4f);
  for (int c = 0; c < CHAINS; c++) a[c] = _mm256_set1_ps((float)c);
  for (int r = 0; r < ROUNDS; r++) {
    for (int c = 0; c < CHAINS; c++) a[c] = _mm256_fmadd_ps(a[c], x, y);
  }
  for (int c = 1; c < CHAINS; c++) a[0] = _mm256_add_ps(a[0], a[c]);
  return _mm256_cvtss_f32(a[0]);
}
#endif

static void fma_part(part_t *p) {
  int width = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    p->sink = fma_512();
    width = 16;
  } else if (__builtin_cpu_supports("fma")) {
    p->sink = fma_256();
    width = 8;
  }
#endif
  p->amount = 2.0 * CHAINS * ROUNDS * width;
}

double ceiling_fma(int threads) {
  return rate(fma_part, threads);
}

/* ---- memory -------------------------------------------------------------- */

static const size_t memory_bytes = (size_t)256 << 20;
typedef float wide_t __attribute__((vector_size(64)));

/* Kept: making them costs more than a measurement. */
static wide_t *memory(int which) {
  static wide_t *kept[2];
  if (kept[which] == NULL) {
    kept[which] = aligned_alloc(64, memory_bytes);
    if (kept[which] == NULL) exit(1);
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
