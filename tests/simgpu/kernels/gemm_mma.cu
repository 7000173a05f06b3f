// C = A B, bfloat16 to f32: A [M][K], B [K][N], C [M][N], all row-major; a
// tile of TILE x TILE a block of four warps, cp.async into two stages,
// ldmatrix, mma.sync. MUTANT picks one fault, 0 none.
#ifndef TILE
#define TILE 64
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
typedef unsigned u32;
typedef unsigned short u16;

#define BK 32
#define PITCH_A (BK + 8)
#define PITCH_B (TILE + 8)

__device__ u32 shared_at(const void *p) {
  return (u32)__cvta_generic_to_shared(p);
}

__device__ void copy16(u16 *to, const u16 *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   shared_at(to)),
               "l"(from)
               : "memory");
}

__device__ void commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> __device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ void load4(u32 r[4], const u16 *row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(shared_at(row))
      : "memory");
}

__device__ void load4t(u32 r[4], const u16 *row) {
#if MUTANT == 2
  load4(r, row);
#else
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(shared_at(row))
      : "memory");
#endif
}

__device__ void multiply(float d[4], const u32 a[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#if MUTANT == 1
      : "r"(a[1]), "r"(a[0]), "r"(a[3]), "r"(a[2]), "r"(b0), "r"(b1));
#else
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

extern "C" __global__ void __launch_bounds__(128)
gemm(const u16 *A, const u16 *B, float *C, int M, int N, int K) {
  __shared__ __align__(16) u16 sa[2][TILE * PITCH_A], sb[2][BK * PITCH_B];
  int t = threadIdx.x, warp = t / 32, lane = t % 32;
  int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE;
  int wm = warp / 2 * (TILE / 2), wn = warp % 2 * (TILE / 2);
  float acc[TILE / 32][TILE / 16][4] = {};
#if MUTANT == 6
  __shared__ float never[128];
  acc[0][1][3] = ((volatile float *)never)[t];
#endif
  auto stage = [&](int s, int k0) {
    for (int c = t; c < TILE * BK / 8; c += 128) {
      int r = c / (BK / 8), q = c % (BK / 8) * 8;
      copy16(&sa[s][r * PITCH_A + q], A + (size_t)(m0 + r) * K + k0 + q);
    }
    for (int c = t; c < BK * TILE / 8; c += 128) {
      int r = c / (TILE / 8), q = c % (TILE / 8) * 8;
      copy16(&sb[s][r * PITCH_B + q], B + (size_t)(k0 + r) * N + n0 + q);
    }
  };
  stage(0, 0);
  commit();
  for (int k0 = 0, s = 0; k0 < K; k0 += BK, s ^= 1) {
    if (k0 + BK < K) stage(s ^ 1, k0 + BK);
    commit();
#if MUTANT == 3
    wait<2>();
#else
    wait<1>();
#endif
#if MUTANT == 4
    __syncwarp();
#else
    __syncthreads();
#endif
    for (int k = 0; k < BK; k += 16) {
      u32 a[TILE / 32][4], b[TILE / 32][4];
      for (int i = 0; i < TILE / 32; i++)
        load4(a[i], &sa[s][(wm + 16 * i + lane % 16) * PITCH_A + k +
                           lane / 16 * 8]);
      for (int j = 0; j < TILE / 32; j++)
        load4t(b[j], &sb[s][(k + lane % 16) * PITCH_B + wn + 16 * j +
                            lane / 16 * 8]);
#if MUTANT == 5
      if (lane < 31)
#endif
        for (int i = 0; i < TILE / 32; i++)
          for (int j = 0; j < TILE / 16; j++)
            multiply(acc[i][j], a[i], b[j / 2][j % 2 * 2],
                     b[j / 2][j % 2 * 2 + 1]);
    }
    __syncthreads();
  }
  for (int i = 0; i < TILE / 32; i++)
    for (int j = 0; j < TILE / 16; j++)
      for (int h = 0; h < 2; h++) {
        int row = m0 + wm + 16 * i + lane / 4 + 8 * h;
        int col = n0 + wn + 8 * j + lane % 4 * 2;
        float2 v = {acc[i][j][2 * h], acc[i][j][2 * h + 1]};
        *(float2 *)&C[(size_t)row * N + col] = v;
      }
}
