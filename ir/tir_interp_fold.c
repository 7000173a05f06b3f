/* tir_interp_fold.c: accumulators of reductions.
 *
 * Always left to right (the plan SERIAL): either every lane has an
 * accumulator of its own and is given its tuples one after the other, or
 * (is_serial) one accumulator takes the lanes in their order.  A product is
 * added with one rounding.  Lanes whose guard is false change nothing.
 *
 * Engines regroup sums by the plan of the node (tir.h); the interpreter
 * never does, so it is what `--plan=serial` of an engine must equal bit by
 * bit.  A maximum, a minimum and the positions have one answer in any order;
 * NaN and the zeros are settled by the scalar rules of tir_interp.h. */
#include "ir/tir_interp.h"

#include <math.h>

#include "runtime/base/num.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* The processor's fused multiply-add has the bits of fmaf and fma, which
 * also exist without one, so the choice does not show. */
#if defined(__x86_64__) && defined(__GNUC__)
#define TIR_HAS_FMA_LOOPS 1
#define FMA_TARGET __attribute__((target("avx2,fma")))
#define FMA_LOOPS(T, fused)                                                   \
  do {                                                                        \
    if (guard == NULL) {                                                      \
      for (uint32_t l = 0; l < n; l++) acc[l] = fused(a[l], b[l], acc[l]);    \
    } else {                                                                  \
      for (uint32_t l = 0; l < n; l++) {                                      \
        T z = fused(a[l], b[l], acc[l]);                                      \
        acc[l] = guard[l] ? z : acc[l];                                       \
      }                                                                       \
    }                                                                         \
  } while (0)
FMA_TARGET static void fma_loop_s(float *acc, const float *a, const float *b,
                                  const uint8_t *guard, uint32_t n) {
  FMA_LOOPS(float, __builtin_fmaf);
}
FMA_TARGET static void fma_loop_d(double *acc, const double *a,
                                  const double *b, const uint8_t *guard,
                                  uint32_t n) {
  FMA_LOOPS(double, __builtin_fma);
}
static bool has_fma(void) {
  return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
}
#else
#define TIR_HAS_FMA_LOOPS 0
#endif

/* Guarded lanes keep their accumulator; a fused add of a product that may be
 * NaN must not happen there at all, as far as the result shows. */
static void fma_s(float *acc, const float *a, const float *b,
                  const uint8_t *guard, uint32_t n, uint32_t step) {
#if TIR_HAS_FMA_LOOPS
  if (step == 1 && has_fma()) {
    fma_loop_s(acc, a, b, guard, n);
    return;
  }
#endif
  for (uint32_t l = 0; l < n; l++)
    if (guard == NULL || guard[l])
      acc[l * step] = fmaf(a[l], b[l], acc[l * step]);
}

static void fma_d(double *acc, const double *a, const double *b,
                  const uint8_t *guard, uint32_t n, uint32_t step) {
#if TIR_HAS_FMA_LOOPS
  if (step == 1 && has_fma()) {
    fma_loop_d(acc, a, b, guard, n);
    return;
  }
#endif
  for (uint32_t l = 0; l < n; l++)
    if (guard == NULL || guard[l])
      acc[l * step] = fma(a[l], b[l], acc[l * step]);
}

/* x: the lane; z: its accumulator. The three loops have one meaning. */
#define FOLD(T, next)                                                         \
  do {                                                                        \
    T *acc = fold->acc;                                                       \
    const T *xs = a;                                                          \
    if (fold->is_serial) {                                                    \
      T z = acc[0];                                                           \
      for (uint32_t l = 0; l < n; l++) {                                      \
        T x = xs[l];                                                          \
        if (guard == NULL || guard[l]) z = (next);                            \
      }                                                                       \
      acc[0] = z;                                                             \
    } else if (guard == NULL) {                                               \
      for (uint32_t l = 0; l < n; l++) {                                      \
        T x = xs[l], z = acc[l];                                              \
        acc[l] = (next);                                                      \
      }                                                                       \
    } else {                                                                  \
      for (uint32_t l = 0; l < n; l++) {                                      \
        T x = xs[l], z = acc[l];                                              \
        acc[l] = guard[l] ? (next) : z;                                       \
      }                                                                       \
    }                                                                         \
  } while (0)

#define BY_REP(s_next, d_next, i_next)                                        \
  do {                                                                        \
    if (fold->rep == TIR_REP_S) FOLD(float, s_next);                          \
    else if (fold->rep == TIR_REP_D) FOLD(double, d_next);                    \
    else FOLD(int64_t, i_next);                                               \
  } while (0)

/* Before the step itself, which wraps: only checked runs pay for it. */
static void note_wraps(const tir_fold_t *fold, const int64_t *a,
                       const uint8_t *guard, uint32_t n) {
  const int64_t *acc = fold->acc;
  int64_t z = acc[0], t;
  for (uint32_t l = 0; l < n; l++) {
    if (guard != NULL && !guard[l]) continue;
    if (!fold->is_serial) z = acc[l];
    if (fold->reduce == TIR_REDUCE_SUM ? !td_add_i64(z, a[l], &t)
                                       : !td_mul_i64(z, a[l], &t))
      *fold->wrapped = true;
    z = fold->reduce == TIR_REDUCE_SUM ? td_wrap_add(z, a[l])
                                       : td_wrap_mul(z, a[l]);
  }
}

/* Whether x takes the place of the best so far: the first NaN wins and
 * stays; ties, those of -0 and +0 included, keep the earlier one. */
#define BETTER(x, z)                                                          \
  (is_max ? (x) > (z) || ((x) != (x) && (z) == (z))                           \
          : (x) < (z) || ((x) != (x) && (z) == (z)))
#define PLACE(T)                                                              \
  do {                                                                        \
    T *acc = fold->acc;                                                       \
    const T *xs = a;                                                          \
    for (uint32_t l = 0; l < n; l++) {                                        \
      uint32_t k = fold->is_serial ? 0 : l;                                   \
      if (guard != NULL && !guard[l]) continue;                               \
      if (fold->seen[k] && !BETTER(xs[l], acc[k])) continue;                  \
      fold->seen[k] = 1;                                                      \
      acc[k] = xs[l];                                                         \
      fold->places[k] = places[l];                                            \
    }                                                                         \
  } while (0)

/* The places of lanes: positions of the one reduction index. */
static void fold_place(const tir_fold_t *fold, const void *a,
                       const uint8_t *guard, const int64_t *places,
                       uint32_t n) {
  bool is_max = fold->reduce == TIR_REDUCE_ARGMAX;
  if (fold->rep == TIR_REP_S)
    PLACE(float);
  else if (fold->rep == TIR_REP_D)
    PLACE(double);
  else
    PLACE(int64_t);
}

void tir_fold_step(const tir_fold_t *fold, const void *a, const void *b,
                   const uint8_t *guard, const int64_t *places, uint32_t n) {
  uint32_t step = fold->is_serial ? 0 : 1;
  if (fold->wrapped != NULL) note_wraps(fold, a, guard, n);
  switch (fold->reduce) {
  case TIR_REDUCE_NONE: break;
  case TIR_REDUCE_SUM:
    if (b != NULL && fold->rep == TIR_REP_S)
      fma_s(fold->acc, a, b, guard, n, step);
    else if (b != NULL)
      fma_d(fold->acc, a, b, guard, n, step);
    else
      BY_REP(z + x, z + x, td_wrap_add(z, x));
    break;
  case TIR_REDUCE_PROD: BY_REP(z * x, z * x, td_wrap_mul(z, x)); break;
  case TIR_REDUCE_MAX:
    BY_REP(tir_max_s(z, x), tir_max_d(z, x), z > x ? z : x);
    break;
  case TIR_REDUCE_MIN:
    BY_REP(tir_min_s(z, x), tir_min_d(z, x), z < x ? z : x);
    break;
  case TIR_REDUCE_ANY: FOLD(uint8_t, z | x); break;
  case TIR_REDUCE_ALL: FOLD(uint8_t, z & x); break;
  case TIR_REDUCE_ARGMAX:
  case TIR_REDUCE_ARGMIN: fold_place(fold, a, guard, places, n); break;
  }
}

#define FILL(T, value)                                                        \
  do {                                                                        \
    T *z = fold->acc;                                                         \
    for (uint32_t l = 0; l < n; l++) z[l] = (value);                          \
  } while (0)

static void fill(const tir_fold_t *fold, double f, int64_t i, uint32_t n) {
  switch (fold->rep) {
  case TIR_REP_S: FILL(float, (float)f); break;
  case TIR_REP_D: FILL(double, f); break;
  case TIR_REP_I: FILL(int64_t, i); break;
  case TIR_REP_B: FILL(uint8_t, i != 0); break;
  }
}

/* The identities of language 9.3. Positions start at 0, which is also what
 * an empty reduction gives. */
void tir_fold_start(const tir_fold_t *fold, uint32_t n) {
  switch (fold->reduce) {
  case TIR_REDUCE_NONE:
  case TIR_REDUCE_SUM: case TIR_REDUCE_ANY: fill(fold, 0, 0, n); break;
  case TIR_REDUCE_PROD: case TIR_REDUCE_ALL: fill(fold, 1, 1, n); break;
  case TIR_REDUCE_MAX: fill(fold, -(double)INFINITY, INT64_MIN, n); break;
  case TIR_REDUCE_MIN: fill(fold, (double)INFINITY, INT64_MAX, n); break;
  case TIR_REDUCE_ARGMAX: case TIR_REDUCE_ARGMIN:
    fill(fold, 0, 0, n);
    memset(fold->places, 0, n * sizeof *fold->places);
    memset(fold->seen, 0, n);
    break;
  }
}
