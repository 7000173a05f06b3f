// Attention of one head by wgmma: O = softmax(Q K^T / 8) V, 64 columns, all
// bfloat16 but O, which is f32. A warpgroup takes 64 rows of Q and blocks of
// 64 keys. Q K^T reads both operands from shared memory; P, made from its
// accumulators in place, is the register operand of P V, whose V lies with N
// running fastest. MUTANT picks one fault, 0 none.
#ifndef MUTANT
#define MUTANT 0
#endif
typedef unsigned u32;
typedef unsigned short u16;
typedef unsigned long long u64;

__device__ u32 shared_at(const void *p) {
  return (u32)__cvta_generic_to_shared(p);
}

// A [64][64] tile as it lies in memory, with a 128-byte swizzle.
__device__ void tile(u32 base, const u16 *from, int t) {
  for (int c = t; c < 64 * 8; c += 128) {
    u32 to = base + c / 8 * 128 + c % 8 * 16;
    to ^= (to >> 7 & 7) << 4;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
                 "l"(from + c / 8 * 64 + c % 8 * 8)
                 : "memory");
  }
}

__device__ u64 matrix(u32 at) {
  return (u64)(at >> 4 & 0x3FFF) | (u64)1 << 16 | (u64)64 << 32 |
         (u64)1 << 62;
}

#define D32                                                                   \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,"   \
  "%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define F(n) "+f"(d[n])
#define F8(n)                                                                 \
  F(n), F(n + 1), F(n + 2), F(n + 3), F(n + 4), F(n + 5), F(n + 6), F(n + 7)

__device__ void scores(float (&d)[32], u64 a, u64 b, int adds) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " D32
               ", %32, %33, p, 1, 1, 0, 0;}"
               : F8(0), F8(8), F8(16), F8(24)
               : "l"(a), "l"(b), "r"(adds));
}

__device__ void output(float (&d)[32], const u32 (&a)[4], u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " D32
               ", {%32,%33,%34,%35}, %36, 1, 1, 1, "
#if MUTANT == 1
               "0;"
#else
               "1;"
#endif
               : F8(0), F8(8), F8(16), F8(24)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ void commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ void wait() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
__device__ void hold(float (&d)[32]) {
  for (int i = 0; i < 32; i++) asm volatile("" : "+f"(d[i])::"memory");
}

__device__ u32 pack(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

extern "C" __global__ void __launch_bounds__(128)
attention(const u16 *Q, const u16 *K, const u16 *V, float *O, int keys) {
  __shared__ __align__(1024) u16 sq[64 * 64], sk[64 * 64], sv[64 * 64];
  int t = threadIdx.x;
  float o[32], s[32], top[2] = {-1e30f, -1e30f}, sum[2] = {0, 0};
  for (int i = 0; i < 32; i++) o[i] = 0;
  tile(shared_at(sq), Q + blockIdx.x * 64 * 64, t);
  for (int k0 = 0; k0 < keys; k0 += 64) {
    tile(shared_at(sk), K + k0 * 64, t);
    tile(shared_at(sv), V + k0 * 64, t);
    asm volatile("cp.async.wait_all;\n fence.proxy.async;" ::: "memory");
    __syncthreads();
    hold(s);
    fence();
    for (int k = 0; k < 64; k += 16)
      scores(s, matrix(shared_at(sq) + 2 * k), matrix(shared_at(sk) + 2 * k),
             k > 0);
    commit();
#if MUTANT != 2
    wait();
#endif
    hold(s);
    // Rows g and g + 8 of a warp: elements i with i / 2 even, and odd.
    for (int h = 0; h < 2; h++) {
      float m = top[h];
      for (int i = 2 * h; i < 32; i += 4) {
        s[i] *= 0.125f, s[i + 1] *= 0.125f;
        m = fmaxf(m, fmaxf(s[i], s[i + 1]));
      }
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
      float scale = exp2f((top[h] - m) * 1.44269504f), part = 0;
      for (int i = 2 * h; i < 32; i += 4)
        for (int e = 0; e < 2; e++) {
          s[i + e] = exp2f((s[i + e] - m) * 1.44269504f);
          part += s[i + e];
          o[i + e] *= scale;
        }
      sum[h] = sum[h] * scale + part;
      top[h] = m;
    }
    u32 p[4][4];
    for (int k = 0; k < 4; k++)
      for (int r = 0; r < 4; r++)
        p[k][r] = pack(s[8 * k + 2 * r], s[8 * k + 2 * r + 1]);
    hold(o);
#if MUTANT != 3
    fence();
#endif
    // 16 keys further: two groups of eight rows of V.
    for (int k = 0; k < 4; k++)
      output(o, p[k], matrix(shared_at(sv) + 2048 * k));
    commit();
    wait();
    hold(o);
    __syncthreads();
  }
  int row = blockIdx.x * 64 + t / 32 * 16 + t % 32 / 4, col = t % 4 * 2;
  for (int h = 0; h < 2; h++) {
    float all = sum[h];
    all += __shfl_xor_sync(~0u, all, 1);
    all += __shfl_xor_sync(~0u, all, 2);
    for (int i = 2 * h; i < 32; i += 4) {
      float2 v = {o[i] / all, o[i + 1] / all};
      *(float2 *)&O[(row + 8 * h) * 64 + i / 4 * 8 + col] = v;
    }
  }
}
