// Exchanges inside a warp, named barriers, votes of a block.
#define K extern "C" __global__ void
typedef unsigned u32;
typedef unsigned long long u64;
#define ALL 0xFFFFFFFFu
#define I (blockIdx.x * blockDim.x + threadIdx.x)
#define LANE (threadIdx.x & 31u)

K warp_shuffles(const u32 *in, u32 *out) {
  u32 i = I, a = in[i], r = 0;
  for (int w = 2; w <= 32; w *= 2) {
    r = r * 31u + __shfl_sync(ALL, a, (int)(a & 31u), w);
    r = r * 31u + __shfl_up_sync(ALL, a, (unsigned)w / 2u, w);
    r = r * 31u + __shfl_down_sync(ALL, a, (unsigned)w / 2u - 1u, w);
    r = r * 31u + __shfl_xor_sync(ALL, a, w - 1, w);
  }
  double d = (double)a * 3.0;
  d = __shfl_xor_sync(ALL, d, 5);
  u64 l = __shfl_down_sync(ALL, (u64)a << 9, 3);
  out[i] = r + (u32)(u64)d + (u32)(l >> 7);
}

// only lanes of the mask take part, in two groups at once
K warp_partial(const u32 *in, u32 *out) {
  u32 i = I, a = in[i], lane = LANE, r;
  if (lane % 3u == 0) {
    r = __shfl_sync(0x49249249u, a, (int)((lane + 6u) % 30u / 3u * 3u));
  } else {
    r = __shfl_sync(0xB6DB6DB6u, a, lane == 31 ? 1 : 31);
  }
  out[i] = r;
}

K warp_votes(const u32 *in, u32 *out) {
  u32 i = I, a = in[i];
  u32 r = __ballot_sync(ALL, a & 1u);
  r ^= __all_sync(ALL, a != 5u) ? 1u : 0u;
  r ^= __any_sync(ALL, (a & 0xFFu) == 17u) ? 2u : 0u;
  u32 uni;
  asm volatile("{.reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.uni.pred q, p, -1;"
               " selp.u32 %0, 4, 0, q;}" : "=r"(uni) : "r"(i & 32u));
  r ^= uni;
  if (LANE < 20) r += __ballot_sync(0xFFFFFu, a & 2u) * 8u;
  out[i] = r;
}

K warp_match(const u32 *in, u32 *out) {
  u32 i = I, a = in[i] % 7u;
  u32 any = __match_any_sync(ALL, a);
  u32 any64 = __match_any_sync(ALL, (u64)(in[i] % 3u) << 40);
  int same, other;
  u32 all = __match_all_sync(ALL, i >> 5, &same);
  u32 none = __match_all_sync(ALL, a, &other);
  out[4 * i] = any;
  out[4 * i + 1] = any64;
  out[4 * i + 2] = all + (same ? 1u : 0u);
  out[4 * i + 3] = none + (other ? 1u : 0u);
}

#if __CUDA_ARCH__ >= 800
K warp_reduce(const u32 *in, u32 *out) {
  u32 i = I, a = in[i];
  u32 *o = out + 8 * i;
  o[0] = __reduce_add_sync(ALL, a);
  o[1] = __reduce_min_sync(ALL, a), o[2] = __reduce_max_sync(ALL, a);
  o[3] = (u32)__reduce_min_sync(ALL, (int)a), o[4] = (u32)__reduce_max_sync(ALL, (int)a);
  o[5] = __reduce_and_sync(ALL, a | 0xFFFF0000u), o[6] = __reduce_xor_sync(ALL, a);
  o[7] = __reduce_or_sync(ALL, a & 0xFF00FFu);
}
#endif

// no value here depends on who happens to be active
K warp_active(const u32 *in, u32 *out) {
  u32 i = I, r = 0;
  if (in[i] & 1u) {
    u32 m = __activemask();
    r = (m >> LANE & 1u) + 2u;
  } else {
    u32 m = __activemask();
    r = (m >> LANE & 1u) * 5u;
  }
  out[i] = r;
}

K warp_scan(const u32 *in, u32 *out) {
  u32 i = I, sum = in[i];
  for (u32 n = 1; n < 32; n *= 2) {
    u32 below = __shfl_up_sync(ALL, sum, n);
    if (LANE >= n) sum += below;
  }
  out[i] = sum;
}

K warp_sort(const u32 *in, u32 *out) {
  u32 i = I, v = in[i], lane = LANE;
  for (u32 k = 2; k <= 32; k *= 2) {
    for (u32 j = k / 2; j; j /= 2) {
      u32 other = __shfl_xor_sync(ALL, v, (int)j);
      bool up = (lane & k) == 0, low = (lane & j) == 0;
      v = (v < other) == (up == low) ? v : other;
    }
  }
  out[i] = v;
}

// keeps the odd values, in order, without gaps
K warp_compact(const u32 *in, u32 *out) {
  u32 i = I, a = in[i];
  u32 m = __ballot_sync(ALL, a & 1u), below;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  if (a & 1u) out[(i & ~31u) + (u32)__popc(m & below)] = a;
}

K warp_memory(const u32 *in, u32 *out) {
  __shared__ u32 s[128];
  u32 t = threadIdx.x, v = in[I];
  for (int k = 0; k < 5; k++) {
    s[t] = v;
    __syncwarp();
    v += s[t ^ 1u << k];
    __syncwarp();
  }
  if (LANE < 8) { // a part of the warp on its own
    s[t] = v * 3u;
    __syncwarp(0xFFu);
    v = s[(t & ~31u) + (LANE * 3u & 7u)];
  }
  out[I] = v;
}

K warp_registers(const u32 *in, u32 *out) {
  u32 lane, warp, eq, le, lt, ge, gt, nwarp, smid, nsmid, grid;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
  asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(nwarp));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(smid));
  asm volatile("mov.u32 %0, %%nsmid;" : "=r"(nsmid));
  asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(eq));
  asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(le));
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
  asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
  asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(gt));
  u64 id;
  asm volatile("mov.u64 %0, %%gridid;" : "=l"(id));
  long long t0 = clock64();
  unsigned c0 = clock(), c1;
  u64 g0, g1;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g0));
  __nanosleep(10);
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g1));
  c1 = clock();
  bool ok = id > 0 && clock64() > t0 && c1 != c0 && g1 >= g0 && smid < nsmid && warp < nwarp;
  grid = gridDim.x + 10u * gridDim.y + 100u * gridDim.z + 1000u * blockDim.x +
         100000u * blockDim.y + 1000000u * blockDim.z;
  u32 i = ((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * 192u +
          (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[i] = (ok ? lane : 99u) ^ (eq + 3u * le + 5u * lt + 7u * ge + 11u * gt) ^ grid ^
           in[threadIdx.z * 100u + blockIdx.y * 10u + blockIdx.z];
}

// two pairs of warps, each with a barrier of its own; then a producer and a
// consumer over two barriers
K bar_named(const u32 *in, u32 *out) {
  __shared__ u32 s[128];
  u32 t = threadIdx.x, half = t / 64u;
  s[t] = in[I];
  asm volatile("bar.sync %0, 64;" :: "r"(half + 1u) : "memory");
  u32 v = s[half * 64u + 63u - t % 64u];
  __syncthreads();
  for (u32 round = 0; round < 4; round++) {
    if (half == 0) {
      asm volatile("bar.sync 4, 128;" ::: "memory"); // the buffer is free
      s[t] = v + round;
      asm volatile("bar.arrive 3, 128;" ::: "memory"); // and full
    } else {
      asm volatile("bar.arrive 4, 128;" ::: "memory");
      asm volatile("bar.sync 3, 128;" ::: "memory");
      v = v * 3u + s[t - 64u];
    }
  }
  out[I] = v;
}

K bar_votes(const u32 *in, u32 *out) {
  u32 t = threadIdx.x, a = in[I];
  int n = __syncthreads_count((int)(a & 1u));
  int all = __syncthreads_and((int)(a != 3u));
  int any = __syncthreads_or((int)(t == 77u && (a & 2u)));
  out[I] = (u32)n * 4u + (all ? 1u : 0u) + (any ? 2u : 0u);
}
