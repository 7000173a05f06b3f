// Correct programs that look wrong to a careless checker, and one edit to each
// that makes it wrong: M(n) is true in the n-th mutant alone. Each writes to
// out what the host works out, and gives no finding in any schedule.
#define K extern "C" __global__ void
typedef unsigned u32;
typedef unsigned long long u64;
#define ALL 0xFFFFFFFFu
#define I (blockIdx.x * blockDim.x + threadIdx.x)
#define M(n) (MUTANT == (n))

// a tile loop with two barriers; 1: without the first, 2: without the second
K tile_loop(const u32 *in, u32 *out) {
  __shared__ u32 s[128];
  u32 t = threadIdx.x, sum = 0;
  for (u32 k = 0; k < 4; k++) {
    s[t] = in[k * 128u + t];
    if (!M(1)) __syncthreads();
    sum = sum * 3u + s[127u - t];
    if (!M(2)) __syncthreads();
  }
  out[t] = sum;
}

// two buffers, one barrier a round; 3: one buffer
K two_buffers(const u32 *in, u32 *out) {
  __shared__ u32 s[2][128];
  u32 t = threadIdx.x, sum = 0;
  for (u32 k = 0; k < 6; k++) {
    u32 b = M(3) ? 0 : k & 1u;
    s[b][t] = in[k * 128u + t];
    __syncthreads();
    sum = sum * 3u + s[b][(t + 64u) & 127u];
  }
  out[t] = sum;
}

// whole warps leave before the barrier; 4: half a warp takes it alone
K early_exit(const u32 *in, u32 *out) {
  u32 t = threadIdx.x;
  out[t] = in[t];
  if (t >= 64) return;
  if (M(4)) {
    if ((t & 31u) < 16u) asm volatile("bar.sync 0;" ::: "memory");
  } else {
    asm volatile("bar.sync 0;" ::: "memory");
  }
  out[t] += out[t ^ 32u] & 0u;
}

// 1000 elements; 5: without the guard of the tail
K tail(const u32 *in, u32 *out) {
  u32 i = I;
  if (i < 1000u || M(5)) out[i] = in[i] + 1u;
}

// a table of 32 rows; 6: one row further
K rows(const u32 *in, u32 *out) {
  u32 row = threadIdx.x / 4u + (M(6) ? 1u : 0u), r = 0;
  for (u32 c = threadIdx.x % 4u; c < 32u; c += 4u) r += in[row * 32u + c];
  out[threadIdx.x] = r;
}

// sums in shared memory; 7: that nobody set to zero
K accumulators(const u32 *in, u32 *out) {
  __shared__ u32 s[16];
  u32 t = threadIdx.x;
  if (t < 16u && !M(7)) s[t] = 0;
  __syncthreads();
  atomicAdd(&s[in[t] & 15u], 1u);
  __syncthreads();
  if (t < 16u) out[t] = s[t];
}

// two halves in a word; 8: the wrong way round
K pack(const u32 *in, u32 *out) {
  float a = (float)(in[threadIdx.x] & 511u), b = (float)(in[threadIdx.x] >> 9 & 511u);
  u32 r;
  if (M(8)) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(a), "f"(b));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  out[threadIdx.x] = r;
}

// 16 bytes at a time; 9: from a word further
K vectors(const u32 *in, u32 *out) {
  uint4 q = *(const uint4 *)(in + 4u * threadIdx.x + (M(9) ? 1u : 0u));
  out[threadIdx.x] = q.x ^ q.w;
}

// lanes exchange through memory without a block barrier; 10: without any
K warp_exchange(const u32 *in, u32 *out) {
  __shared__ u32 s[128];
  u32 t = threadIdx.x, v = in[t];
  for (int k = 0; k < 3; k++) {
    s[t] = v;
    if (!M(10)) __syncwarp();
    v = v * 3u + s[t ^ 1u];
    __syncwarp();
  }
  out[t] = v;
}

// two groups of lanes at one shuffle each; 11: a lane is not in its own mask,
// 12: one reads a lane that is not there
K shuffles(const u32 *in, u32 *out) {
  u32 t = threadIdx.x, lane = t & 31u, r;
  if (lane < 16u) r = __shfl_sync(M(11) ? 0xFFFEu : 0xFFFFu, in[t], M(12) ? 20 : 3);
  else r = __shfl_sync(0xFFFF0000u, in[t], 19);
  out[t] = r;
}

// block b adds to what block b - 1 left
K chain(const u32 *in, u32 *out) {
  if (threadIdx.x) return;
  u32 b = blockIdx.x, flag = 1u, v = 0;
  if (b) {
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                   : "=r"(flag) : "l"(out + b - 1) : "memory");
    } while (!flag);
    v = out[16u + b - 1u];
  }
  out[16u + b] = v + in[b];
  asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(out + b), "r"(1u) : "memory");
}

// reads past the cache of what stays as it is; 14: of what this launch writes
K no_coherence(const u32 *in, u32 *out) {
  u32 t = threadIdx.x, v;
  out[t] = in[t] * 2u;
  __syncthreads();
  const u32 *p = M(14) ? out + (t ^ 64u) : in + (t ^ 64u);
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
  out[128u + t] = v;
}

// producers and consumers at barriers of their own; 15: one counts a warp too
// many
K pipeline(const u32 *in, u32 *out) {
  __shared__ u32 s[64];
  u32 t = threadIdx.x, v = 0;
  for (u32 k = 0; k < 3; k++) {
    if (t < 64u) {
      if (M(15)) asm volatile("bar.sync 1, 160;" ::: "memory");
      else asm volatile("bar.sync 1, 128;" ::: "memory");
      s[t] = in[k * 64u + t];
      asm volatile("bar.arrive 2, 128;" ::: "memory");
    } else {
      if (M(15)) asm volatile("bar.arrive 1, 160;" ::: "memory");
      else asm volatile("bar.arrive 1, 128;" ::: "memory");
      asm volatile("bar.sync 2, 128;" ::: "memory");
      v += s[t - 64u];
    }
  }
  out[t] = v;
}

// 16: by zero, in one lane
K divisions(const u32 *in, u32 *out) {
  u32 d = threadIdx.x + (M(16) ? 0u : 1u);
  out[threadIdx.x] = in[threadIdx.x] / d;
}

// 17: one element beyond an array of the thread
K own_array(const u32 *in, u32 *out) {
  u32 v[8];
  for (u32 k = 0; k < 8; k++) v[k] = in[threadIdx.x] >> k;
  u32 at = (in[threadIdx.x] & 7u) + (M(17) && threadIdx.x == 5u ? 64u : 0u);
  v[at] += 1u;
  out[threadIdx.x] = v[0] + 3u * v[3] + 5u * v[7];
}

// the last block sums what all left
K last_block(const u32 *in, u32 *out) {
  __shared__ bool last;
  u32 t = threadIdx.x;
  if (t == 0) {
    u32 sum = 0;
    for (u32 k = 0; k < 32; k++) sum += in[blockIdx.x * 32u + k];
    out[2u + blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(out, 1u) == gridDim.x - 1u;
  }
  __syncthreads();
  if (last && t == 0) {
    __threadfence();
    u32 sum = 0;
    for (u32 b = 0; b < gridDim.x; b++) sum += out[2u + b];
    out[1] = sum;
  }
}

// loads a struct with holes, uses what was set; 19: uses a hole
struct __align__(16) holes_t { u32 a; unsigned char b; u32 c[2]; };
K holes(const u32 *in, u32 *out) {
  __shared__ holes_t s[128];
  u32 t = threadIdx.x;
  s[t].a = in[t], s[t].b = (unsigned char)t, s[t].c[0] = in[t] + 1u;
  if (!M(19)) s[t].c[1] = 7u;
  __syncthreads();
  uint4 q = *(const uint4 *)&s[t ^ 1u];
  out[t] = q.x + (q.y & 255u) + q.z + (q.w > 5u ? 1u : 0u);
}

// a value that is set on the way that uses it; 20: and on no other
K partly_set(const u32 *in, u32 *out) {
  __shared__ u32 s[128];
  u32 t = threadIdx.x;
  if (t & 1u) s[t] = in[t];
  __syncthreads();
  u32 v = s[M(20) ? t & ~1u : t | 1u]; // the odd ones were set
  out[t] = v > 1000u ? 5u : 9u;
}

// words of bytes that belong to different threads; 21: to the same ones
K bytes(const u32 *in, u32 *out) {
  __shared__ unsigned char s[128];
  u32 t = threadIdx.x;
  s[M(21) ? t & ~32u : t] = (unsigned char)in[t];
  __syncthreads();
  out[t] = s[t ^ 3u];
}

// blocks write neighbouring halves of one word; 22: the same half
K neighbours(const u32 *in, u32 *out) {
  if (threadIdx.x == 0)
    ((unsigned short *)out)[M(22) ? blockIdx.x & ~1u : blockIdx.x] =
        (unsigned short)in[blockIdx.x];
}

// 24: through a null pointer, never taken in the correct one
K dead_path(const u32 *in, u32 *out) {
  const u32 *p = in + threadIdx.x, *none;
  asm volatile("mov.u64 %0, 0;" : "=l"(none)); // unknown to the compiler
  if (in[threadIdx.x] == 0x12345678u || M(24)) p = none;
  out[threadIdx.x] = *p;
}

// a flag released by one warp, acquired by the others; 25: released by nothing,
// 26: acquired by nothing, 27: read weakly
__device__ static u32 word_of(const void *p) {
  return (u32)__cvta_generic_to_shared(p);
}
K shared_flag(const u32 *in, u32 *out) {
  __shared__ u32 s[32], flag;
  u32 t = threadIdx.x, up;
  if (t == 0) flag = 0;
  __syncthreads();
  if (t < 32u) {
    s[t] = in[t] * 3u;
    __syncwarp();
    if (t == 0) {
      if (M(25)) asm volatile("st.relaxed.cta.shared.u32 [%0], 1;" :: "r"(word_of(&flag)) : "memory");
      else asm volatile("st.release.cta.shared.u32 [%0], 1;" :: "r"(word_of(&flag)) : "memory");
    }
  } else {
    do {
      if (M(26)) asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(up) : "r"(word_of(&flag)) : "memory");
      else if (M(27)) asm volatile("ld.weak.shared.u32 %0, [%1];" : "=r"(up) : "r"(word_of(&flag)) : "memory");
      else asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(up) : "r"(word_of(&flag)) : "memory");
      if (!up) __nanosleep(20);
    } while (!up);
  }
  out[t] = s[t & 31u];
}

// the same by volatile accesses beside fences, and back again: the words are
// used a second time; 28, 29: without the fence of the writer, of the reader;
// 30: the second writer does not wait
K shared_fences(const u32 *in, u32 *out) {
  __shared__ u32 s[32];
  __shared__ volatile u32 full, empty;
  u32 t = threadIdx.x, sum = 0;
  if (t == 0) full = empty = 0;
  __syncthreads();
  if (t >= 64u) return;
  for (u32 k = 0; k < 3; k++) {
    if (t < 32u) {
      if (!M(30)) while (empty != k) __nanosleep(20);
      __threadfence_block();
      s[t] = in[k * 32u + t];
      __syncwarp();
      if (!M(28)) __threadfence_block();
      if (t == 0) full = k + 1;
    } else {
      while (full < k + 1) __nanosleep(20);
      if (!M(29)) __threadfence_block();
      sum = sum * 5u + s[t ^ 33u];
      __syncwarp();
      __threadfence_block();
      if (t == 32u) empty = k + 1;
    }
    __syncwarp();
  }
  if (t >= 32u) out[t] = sum;
}

// a lock in shared memory, and the last warp to count reads what all left;
// 31: unlocked without a fence, 32: counted without one
K shared_lock(const u32 *in, u32 *out) {
  __shared__ u32 lock, total, count, part[4];
  u32 t = threadIdx.x, w = t / 32u;
  if (t == 0) lock = total = count = 0;
  __syncthreads();
  if (t & 31u) return;
  while (atomicCAS(&lock, 0u, 1u)) __nanosleep(20);
  __threadfence_block();
  total += in[t];
  if (!M(31)) __threadfence_block();
  atomicExch(&lock, 0u);
  part[w] = in[t + 1u];
  if (!M(32)) __threadfence_block();
  if (atomicAdd(&count, 1u) != 3u) return;
  __threadfence_block();
  out[0] = total;
  out[1] = part[0] + 3u * part[1] + 5u * part[2] + 7u * part[3];
}
