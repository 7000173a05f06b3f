// C = A B^T, bfloat16 to f32: A [M][K], B [N][K], C [M][N], all row-major; a
// tile of 64 x 128 a warpgroup, both operands in two swizzled stages of 64 k.
// MUTANT picks one fault, 0 none.
#ifndef MUTANT
#define MUTANT 0
#endif
typedef unsigned u32;
typedef unsigned short u16;
typedef unsigned long long u64;

#define BM 64
#define BN 128
#define BK 64

__device__ u32 shared_at(const void *p) {
  return (u32)__cvta_generic_to_shared(p);
}

// Row r, chunk c of 8 elements, at the place that a 128-byte swizzle gives.
__device__ void copy16(u32 base, int r, int c, const u16 *from) {
  u32 to = base + r * 128 + c * 16;
#if MUTANT != 7
  to ^= (to >> 7 & 7) << 4;
#endif
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
               "l"(from)
               : "memory");
}

__device__ u64 matrix(u32 at) {
#if MUTANT == 3
  u64 width = 2;
#else
  u64 width = 1;
#endif
#if MUTANT == 4
  u64 sbo = 512;
#else
  u64 sbo = 1024;
#endif
  return (u64)(at >> 4 & 0x3FFF) | (u64)1 << 16 | sbo >> 4 << 32 |
         width << 62;
}

__device__ void multiply(float (&d)[64], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},"
      " %64, %65, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),
        "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
        "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
        "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
        "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]),
        "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),
        "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),
        "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
        "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128)
gemm(const u16 *A, const u16 *B, float *C, int M, int N, int K) {
  __shared__ __align__(1024) u16 sa[2][BM * BK], sb[2][BN * BK];
  int t = threadIdx.x;
  int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  float d[64];
  for (int i = 0; i < 64; i++) d[i] = 0;
  auto stage = [&](int s, int k0) {
    for (int c = t; c < BM * 8; c += 128)
      copy16(shared_at(sa[s]), c / 8, c % 8,
             A + (size_t)(m0 + c / 8) * K + k0 + c % 8 * 8);
    for (int c = t; c < BN * 8; c += 128)
      copy16(shared_at(sb[s]), c / 8, c % 8,
             B + (size_t)(n0 + c / 8) * K + k0 + c % 8 * 8);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  stage(0, 0);
  for (int k0 = 0, s = 0; k0 < K; k0 += BK, s ^= 1) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#if MUTANT != 5
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
#if MUTANT != 1
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
    for (int k = 0; k < BK; k += 16)
      multiply(d, matrix(shared_at(sa[s]) + 2 * k),
               matrix(shared_at(sb[s]) + 2 * k));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#if MUTANT == 6
    __syncthreads(); // this stage is refilled while it is read
    if (k0 + BK < K) stage(s, k0 + BK);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#else
    if (k0 + BK < K) stage(s ^ 1, k0 + BK);
#if MUTANT == 2
    if (k0 + BK < K)
#endif
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
    __syncthreads();
  }
  int row = m0 + t / 32 * 16 + t % 32 / 4, col = n0 + t % 4 * 2;
  for (int i = 0; i < 64; i += 2) {
    float2 v = {d[i], d[i + 1]};
    *(float2 *)&C[(size_t)(row + (i / 2 % 2) * 8) * N + col + i / 4 * 8] = v;
  }
#if MUTANT == 2
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
}
