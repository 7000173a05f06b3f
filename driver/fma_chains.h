/* fma_chains.h: independent chains of multiply-adds that stay in registers:
 * the ceiling of a core. Shared by the driver's bounds and the benchmarks. */
#ifndef TDSL_DRIVER_FMA_CHAINS_H
#define TDSL_DRIVER_FMA_CHAINS_H

#if defined(__x86_64__)
#include <immintrin.h>

/* Twelve names rather than an array: a compiler that does not unroll the
 * loop over an array keeps it in memory, and a half of the rate is lost. */
#define FMA_EACH_CHAIN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) \
    X(10) X(11)

__attribute__((target("avx512f"))) static inline float fma_chains_512(
    int rounds) {
  __m512 x = _mm512_set1_ps(0.9999f), y = _mm512_set1_ps(1e-4f);
#define BEGIN(n) __m512 a##n = _mm512_set1_ps((float)(n));
#define STEP(n) a##n = _mm512_fmadd_ps(a##n, x, y);
#define TAKE(n) x = _mm512_add_ps(x, a##n);
  FMA_EACH_CHAIN(BEGIN)
  for (int r = 0; r < rounds; r++) { FMA_EACH_CHAIN(STEP) }
  FMA_EACH_CHAIN(TAKE)
#undef BEGIN
#undef STEP
#undef TAKE
  return _mm512_reduce_add_ps(x);
}

__attribute__((target("avx2,fma"))) static inline float fma_chains_256(
    int rounds) {
  __m256 x = _mm256_set1_ps(0.9999f), y = _mm256_set1_ps(1e-4f);
#define BEGIN(n) __m256 a##n = _mm256_set1_ps((float)(n));
#define STEP(n) a##n = _mm256_fmadd_ps(a##n, x, y);
#define TAKE(n) x = _mm256_add_ps(x, a##n);
  FMA_EACH_CHAIN(BEGIN)
  for (int r = 0; r < rounds; r++) { FMA_EACH_CHAIN(STEP) }
  FMA_EACH_CHAIN(TAKE)
#undef BEGIN
#undef STEP
#undef TAKE
  return _mm256_cvtss_f32(x);
}

#endif

/* Runs the chains of the widest registers here, `rounds` times; operations
 * done, 0 if this machine has no such loop. *sink keeps them from vanishing. */
static inline double fma_chains_run(int rounds, float *sink) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    *sink += fma_chains_512(rounds);
    return 2.0 * 12 * 16 * rounds;
  }
  if (__builtin_cpu_supports("fma")) {
    *sink += fma_chains_256(rounds);
    return 2.0 * 12 * 8 * rounds;
  }
#else
  (void)rounds;
  (void)sink;
#endif
  return 0;
}

#endif
