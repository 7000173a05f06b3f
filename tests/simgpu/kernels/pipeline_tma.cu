// C = A B^T, bfloat16 to f32, A [M][K], B [N][K], C [M][N], all by tensor
// copies: a producer thread fills three stages, a warpgroup multiplies, and
// the result leaves through shared memory. A tile of 64 x 32 a block of 160
// threads; edges are the copies' business. With CLUSTER 2, two blocks on top
// of each other load half of B's tile each, for both, and one thread of a
// warpgroup releases a stage in each of them. MUTANT picks one fault, 0 none.
#ifndef MUTANT
#define MUTANT 0
#endif
typedef unsigned u32;
typedef unsigned short u16;
typedef unsigned long long u64;

#ifndef CLUSTER
#define CLUSTER 1
#endif

#define STAGES 3
#define BM 64
#define BN 32
#define BK 64

struct __align__(64) map_t {
  u64 opaque[16];
};

__device__ u32 shared_at(const void *p) {
  return (u32)__cvta_generic_to_shared(p);
}

__device__ void init(u64 *b, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(b)),
               "r"(count)
               : "memory");
}

__device__ void wait(u64 *b, u32 parity) {
  asm volatile("{\n.reg .pred p;\n"
               "LAB_WAIT:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@p bra DONE;\n"
               "bra LAB_WAIT;\n"
               "DONE:\n}" ::"r"(shared_at(b)),
               "r"(parity)
               : "memory");
}

__device__ void arrive(u64 *b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_at(b))
               : "memory");
}

__device__ void expect(u64 *b, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_at(b)),
               "r"(bytes)
               : "memory");
}

__device__ void load(void *to, const map_t *map, int x, int y, u64 *b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier"
               "::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                   shared_at(to)),
               "l"(map), "r"(x), "r"(y), "r"(shared_at(b))
               : "memory");
}

__device__ void load_all(void *to, const map_t *map, int x, int y, u64 *b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier"
               "::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}],"
               " [%4], %5;" ::"r"(shared_at(to)),
               "l"(map), "r"(x), "r"(y), "r"(shared_at(b)), "h"((u16)3)
               : "memory");
}

__device__ void meet() {
#if CLUSTER > 1
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
#else
  __syncthreads();
#endif
}

// Tells whoever fills the stage that it has been read.
__device__ void release(u64 *b, int t) {
#if CLUSTER > 1
  if (t < CLUSTER)
    asm volatile("{\n.reg .b32 at;\n"
                 "mapa.shared::cluster.u32 at, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, "
                 "[at];\n}" ::"r"(shared_at(b)),
                 "r"(t)
                 : "memory");
#else
  arrive(b);
#endif
}

__device__ u64 matrix(u32 at) {
  return (u64)(at >> 4 & 0x3FFF) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 |
         (u64)1 << 62;
}

__device__ void multiply(float (&d)[16], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15},"
      " %16, %17, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),
        "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
        "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
        "+f"(d[15])
      : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(160)
#if CLUSTER > 1
    __cluster_dims__(1, CLUSTER, 1)
#endif
gemm(const __grid_constant__ map_t A, const __grid_constant__ map_t B,
     const __grid_constant__ map_t C, int K) {
  __shared__ __align__(1024) u16 sa[STAGES][BM * BK], sb[STAGES][BN * BK];
  __shared__ __align__(128) float sc[BM * BN];
  __shared__ u64 full[STAGES], empty[STAGES];
  int t = threadIdx.x, warp = t / 32;
  int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  int tiles = (K + BK - 1) / BK;
  if (t == 0) {
    for (int s = 0; s < STAGES; s++) {
      init(&full[s], 1);
      int count = CLUSTER > 1 ? CLUSTER : 128;
#if MUTANT == 9
      count--;
#elif MUTANT == 10
      count++;
#endif
      init(&empty[s], count);
    }
    asm volatile("fence.proxy.async.shared::cta;\n"
                 "fence.mbarrier_init.release.cluster;" ::
                     : "memory");
  }
#if MUTANT != 7
  meet();
#endif
  if (warp == 4) {
    for (int i = 0; t == 128 && i < tiles; i++) {
      int s = i % STAGES, parity = i / STAGES & 1;
#if MUTANT != 3
      wait(&empty[s], parity ^ 1);
#endif
#if MUTANT == 1
      expect(&full[s], BM * BK * 2);
#else
      expect(&full[s], (BM + BN) * BK * 2);
#endif
      load(sa[s], &A, i * BK, m0, &full[s]);
#if CLUSTER > 1
      int half = blockIdx.y % CLUSTER * (BN / CLUSTER);
      load_all(sb[s] + half * BK, &B, i * BK, n0 + half, &full[s]);
#else
      load(sb[s], &B, i * BK, n0, &full[s]);
#endif
    }
#if CLUSTER > 1 && MUTANT != 13
    __syncwarp();
    meet();
#endif
    return;
  }
  float d[16] = {0};
  for (int i = 0; i < tiles; i++) {
    int s = i % STAGES, parity = i / STAGES & 1;
#if MUTANT == 2
    wait(&full[s], parity ^ 1);
#else
    wait(&full[s], parity);
#endif
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < BK; k += 16)
      multiply(d, matrix(shared_at(sa[s]) + k * 2),
               matrix(shared_at(sb[s]) + k * 2));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#if MUTANT == 6
    release(&empty[s], t);
#endif
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#if MUTANT != 6
    release(&empty[s], t);
#endif
  }
  int g = t % 32 / 4, q = t % 4;
  for (int i = 0; i < 16; i++)
    sc[(16 * warp + g + 8 * (i >> 1 & 1)) * BN + 2 * q + (i & 1) +
       8 * (i >> 2)] = d[i];
#if MUTANT != 4
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
#if MUTANT != 11
  asm volatile("bar.sync 1, 128;" ::: "memory");
#endif
  if (t == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                 "[%0, {%1, %2}], [%3];" ::"l"(&C),
                 "r"(n0), "r"(m0), "r"(shared_at(sc))
                 : "memory");
#if MUTANT != 8
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
#if MUTANT == 12
    sc[5] = 1.0f;
#endif
#if MUTANT != 5
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
  }
#if CLUSTER > 1 && MUTANT != 13
  __syncwarp();
  meet();
#endif
}
