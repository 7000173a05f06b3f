// C = A B^T, bfloat16 to f32, A [M][K], B [N][K], C [M][N], in the manner of
// Hopper libraries: of three warpgroups one gives its registers away and lets
// one thread fill four stages by tensor copies, two multiply 64 rows each of
// a 128 x 128 tile, with one product still on its way when the stage before
// is released, by one thread of each. MUTANT picks one fault, 0 none.
#ifndef MUTANT
#define MUTANT 0
#endif
typedef unsigned u32;
typedef unsigned short u16;
typedef unsigned long long u64;

#define STAGES 4
#define BM 128
#define BN 128
#define BK 64
#define TILE_BYTES (128 * BK * 2)

struct __align__(64) map_t {
  u64 opaque[16];
};

__device__ u32 shared_at(const void *p) {
  return (u32)__cvta_generic_to_shared(p);
}

__device__ void init(u32 b, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(count)
               : "memory");
}

__device__ void wait(u32 b, u32 parity) {
  asm volatile("{\n.reg .pred p;\n"
               "LAB_WAIT:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@!p bra LAB_WAIT;\n}" ::"r"(b),
               "r"(parity)
               : "memory");
}

__device__ void load(u32 to, const map_t *map, int x, int y, u32 b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier"
               "::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(b)
               : "memory");
}

__device__ u64 matrix(u32 at) {
  return (u64)(at >> 4 & 0x3FFF) | (u64)1 << 16 | (u64)64 << 32 |
         (u64)1 << 62;
}

#define F(n) "+f"(d[n])
#define F8(n)                                                                 \
  F(n), F(n + 1), F(n + 2), F(n + 3), F(n + 4), F(n + 5), F(n + 6), F(n + 7)

__device__ void multiply(float (&d)[64], u64 a, u64 b, int adds) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},"
      " %64, %65, p, 1, 1, 0, 0;}"
      : F8(0), F8(8), F8(16), F8(24), F8(32), F8(40), F8(48), F8(56)
      : "l"(a), "l"(b), "r"(adds));
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ map_t A, const __grid_constant__ map_t B,
     float *C, int N, int K) {
  extern __shared__ __align__(1024) char tiles[];
  __shared__ u64 barriers[2 * STAGES];
  u32 full = shared_at(barriers), empty = full + 8 * STAGES;
  u32 sa = shared_at(tiles), sb = sa + STAGES * TILE_BYTES;
  int t = threadIdx.x, group = t / 128, steps = K / BK;
  int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  if (t == 0) {
    for (int s = 0; s < STAGES; s++) {
      init(full + 8 * s, 1);
      init(empty + 8 * s, 2);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    for (int i = 0; t == 0 && i < steps; i++) {
      int s = i % STAGES;
      wait(empty + 8 * s, (i / STAGES & 1) ^ 1);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::
                       "r"(full + 8 * s),
                   "r"(2 * TILE_BYTES)
                   : "memory");
      load(sa + s * TILE_BYTES, &A, i * BK, m0, full + 8 * s);
      load(sb + s * TILE_BYTES, &B, i * BK, n0, full + 8 * s);
    }
    return;
  }
#if MUTANT == 1
  asm volatile("setmaxnreg.inc.sync.aligned.u32 248;");
#else
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
#endif
  float d[64];
  for (int i = 0; i < steps; i++) {
    int s = i % STAGES;
    wait(full + 8 * s, i / STAGES & 1);
#if MUTANT == 2
    if (i != 0)
#endif
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    u32 a = sa + s * TILE_BYTES + (group - 1) * 64 * 128;
    for (int k = 0; k < BK; k += 16)
      multiply(d, matrix(a + 2 * k), matrix(sb + s * TILE_BYTES + 2 * k),
               i + k > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    // The products of the step before are complete, and its stage is free.
#if MUTANT == 3
    asm volatile("wgmma.wait_group.sync.aligned 2;" ::: "memory");
#else
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#endif
    if (i > 0 && t % 128 == 0)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(
                       empty + 8 * ((i - 1) % STAGES))
                   : "memory");
  }
#if MUTANT == 4
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#else
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
  for (int i = 0; i < 64; i++) asm volatile("" : "+f"(d[i])::"memory");
  int row = m0 + (group - 1) * 64 + t % 128 / 32 * 16 + t % 32 / 4;
  int col = n0 + t % 4 * 2;
  for (int i = 0; i < 64; i += 2) {
    float2 v = {d[i], d[i + 1]};
    *(float2 *)&C[(size_t)(row + (i / 2 % 2) * 8) * N + col + i / 4 * 8] = v;
  }
#if MUTANT == 4
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
}
