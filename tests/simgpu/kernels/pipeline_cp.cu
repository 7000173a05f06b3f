// C = A B in f32: A [M][K], B [K][N], any M, N and K that are multiples of 4;
// a tile of 32 x 32 a block of 128 threads, three stages of 16 k filled by
// cp.async, zeros beyond the edges. MUTANT picks one fault, 0 none.
#ifndef MUTANT
#define MUTANT 0
#endif
typedef unsigned u32;

#define STAGES 3
#define BK 16

__device__ u32 shared_at(const void *p) {
  return (u32)__cvta_generic_to_shared(p);
}

// bytes: 16, or 0 for zeros
__device__ void copy16(float *to, const float *from, u32 bytes) {
#if MUTANT == 4
  bytes = 16;
#endif
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   shared_at(to)),
               "l"(from), "r"(bytes)
               : "memory");
}

__device__ void commit() {
#if MUTANT != 6
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int N> __device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
gemm(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ __align__(16) float sa[STAGES][32][BK], sb[STAGES][BK][32];
  int t = threadIdx.x, m0 = blockIdx.y * 32, n0 = blockIdx.x * 32;
  int tiles = (K + BK - 1) / BK;
  float sum[8] = {0};
  auto load = [&](int tile) {
    int s = tile % STAGES, r = t / 4, c = t % 4 * 4;
    int m = m0 + r, k = tile * BK + c;
    bool in = m < M && k < K;
    copy16(&sa[s][r][c], in ? A + (size_t)m * K + k : A, in ? 16 : 0);
    int kr = t / 8, nc = t % 8 * 4;
    k = tile * BK + kr;
    in = k < K && n0 + nc < N;
#if MUTANT == 4
    const float *from = B + (size_t)k * N + n0 + nc;
#else
    const float *from = in ? B + (size_t)k * N + n0 + nc : B;
#endif
    copy16(&sb[s][kr][nc], from, in ? 16 : 0);
  };
  for (int p = 0; p < STAGES - 1; p++) {
    if (p < tiles) load(p);
    commit();
  }
  for (int tile = 0; tile < tiles; tile++) {
#if MUTANT == 1
    wait<STAGES - 1>();
#else
    wait<STAGES - 2>();
#endif
#if MUTANT != 3
    __syncthreads();
#endif
    if (tile + STAGES - 1 < tiles) {
      load(tile + STAGES - 1);
#if MUTANT == 5
      commit();
#endif
    }
#if MUTANT != 2 && MUTANT != 5
    // an empty group counts too
    commit();
#endif
    int s = tile % STAGES;
    for (int k = 0; k < BK; k++)
      for (int j = 0; j < 8; j++)
        sum[j] += sa[s][t / 4][k] * sb[s][k][t % 4 * 8 + j];
  }
  int m = m0 + t / 4;
  for (int j = 0; j < 8; j++) {
    int n = n0 + t % 4 * 8 + j;
    if (m < M && n < N) C[(size_t)m * N + n] = sum[j];
  }
}
