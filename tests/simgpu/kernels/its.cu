// Lanes of one warp that need a turn of their own: they wait for each other,
// or meet only where they are told to. M(n): the n-th kernel's fault.
#define K extern "C" __global__ void
typedef unsigned u32;
#define LANE (threadIdx.x & 31u)
#define I (blockIdx.x * blockDim.x + threadIdx.x)
#define ALL 0xFFFFFFFFu
#define M(n) (MUTANT == (n))

// a lock that every lane of every block takes in a loop of its own
K lane_lock(const u32 *in, u32 *out) {
  u32 v = in[I] & 255u;
  while (atomicCAS(&out[0], 0u, 1u) != 0u) {
  }
  __threadfence();
  volatile u32 *sum = out + 1;
  sum[0] = sum[0] * 1u + v;
  sum[1] = sum[1] + 1u;
  __threadfence();
  atomicExch(&out[0], 0u);
}

// the same in shared memory
K lane_lock_shared(const u32 *in, u32 *out) {
  __shared__ u32 lock, sum, taken;
  u32 t = threadIdx.x;
  if (t == 0) lock = sum = taken = 0;
  __syncthreads();
  while (atomicCAS(&lock, 0u, 1u) != 0u) {
  }
  __threadfence_block();
  sum += in[t] & 1023u;
  taken++;
  __threadfence_block();
  atomicExch(&lock, 0u);
  __syncthreads();
  if (t == 0) out[0] = sum, out[1] = taken;
}

// lane l waits for what lane l - 1 leaves behind
K lane_chain(const u32 *in, u32 *out) {
  __shared__ u32 flag[32], value[32];
  u32 l = LANE, v = 0, f;
  flag[l] = 0;
  __syncwarp();
  u32 at = (u32)__cvta_generic_to_shared(flag) + 4u * l;
  if (l) {
    do {
      asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(f) : "r"(at - 4u) : "memory");
    } while (f == 0u);
    v = value[l - 1u];
  }
  value[l] = v * 3u + in[l];
  asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(at), "r"(1u) : "memory");
  out[l] = v * 3u + in[l];
}

// lanes leave a loop at different times and then exchange through memory;
// 1: without waiting for each other
K exchange(const u32 *in, u32 *out) {
  u32 i = I, a = in[i] | 1u, steps = 0;
  while (a > 1u) {
    a = a & 1u ? a - 1u : a / 2u;
    steps++;
  }
  volatile u32 *v = out;
  v[i] = steps + 100u;
  if (!M(1)) __syncwarp();
  u32 other = v[i ^ 1u];
  __syncwarp();
  v[i] = other * 2u + steps;
}

// who is active after a loop is for the schedule to say; 2: taken for all
K opportunist(const u32 *in, u32 *out) {
  u32 i = I, a = in[i] & 63u, n = 0;
  for (u32 k = 0; k < a; k++) n += in[(i + k) & 1023u] & 7u;
  u32 m = M(2) ? __activemask() : ALL;
  u32 total = 0;
  for (u32 w = 16; w; w /= 2) n += __shfl_xor_sync(m, n, (int)w);
  total = n;
  out[i] = total;
}

// whoever happens to be there counts together: right for any company
K together(const u32 *in, u32 *out) {
  u32 i = I, a = in[i], n = a & 15u;
  for (u32 k = 0; k < n; k++) a = a * 5u + 1u;
  u32 m = __activemask(), lead = (u32)__ffs((int)m) - 1u, at = 0;
  if (LANE == lead) at = atomicAdd(out, (u32)__popc(m));
  at = __shfl_sync(m, at, (int)lead);
  at += (u32)__popc(m & ((1u << LANE) - 1u));
  out[1u + at] = a;
}

// one shuffle, that lanes reach from two places
__device__ __noinline__ u32 from_left(u32 v) {
  return __shfl_sync(ALL, v, (int)((LANE + 31u) & 31u));
}
K two_callers(const u32 *in, u32 *out) {
  u32 i = I, v = in[i], r;
  if (v & 1u) r = from_left(v * 2u);
  else r = from_left(v * 3u) + 1u;
  out[i] = r;
}

// lanes leave one by one; who stays names all (the compiler would make of the
// loop several shuffles, a lane's way through which depends on its number)
K thinning(const u32 *in, u32 *out) {
  u32 i = I, v = in[i];
#pragma unroll 1
  for (u32 k = 0; k < 31u; k++) {
    if (LANE == k) {
      out[i] = v;
      return;
    }
    v = v * 3u + __shfl_sync(ALL, v, 31);
  }
  out[i] = v;
}
