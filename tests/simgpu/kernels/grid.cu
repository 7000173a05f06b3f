// Blocks and grids at work together: what programs are made of.
#define K extern "C" __global__ void
typedef unsigned u32;
typedef unsigned long long u64;
#define ALL 0xFFFFFFFFu
#define I (blockIdx.x * blockDim.x + threadIdx.x)

K block_reduce(const u32 *in, u32 *out) {
  __shared__ u32 s[4];
  u32 v = in[I];
  for (int n = 16; n; n /= 2) v += __shfl_down_sync(ALL, v, n);
  if (threadIdx.x % 32u == 0) s[threadIdx.x / 32u] = v;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = s[0] + s[1] + s[2] + s[3];
}

K block_scan(const u32 *in, u32 *out) {
  __shared__ u32 s[2][128];
  u32 t = threadIdx.x, from = 0;
  s[0][t] = in[I];
  __syncthreads();
  for (u32 n = 1; n < 128; n *= 2) {
    u32 v = s[from][t];
    if (t >= n) v += s[from][t - n];
    s[1 - from][t] = v;
    from = 1 - from;
    __syncthreads();
  }
  out[I] = s[from][t];
}

// work-efficient: up and down the tree
K block_scan_tree(const u32 *in, u32 *out) {
  __shared__ u32 s[128];
  u32 t = threadIdx.x;
  s[t] = in[I];
  for (u32 d = 1; d < 128; d *= 2) {
    __syncthreads();
    u32 k = (t + 1u) * 2u * d - 1u;
    if (k < 128) s[k] += s[k - d];
  }
  __syncthreads();
  if (t == 0) s[127] = 0;
  for (u32 d = 64; d; d /= 2) {
    __syncthreads();
    u32 k = (t + 1u) * 2u * d - 1u;
    if (k < 128) {
      u32 left = s[k - d];
      s[k - d] = s[k];
      s[k] += left;
    }
  }
  __syncthreads();
  out[I] = s[t];
}

K block_transpose(const u32 *in, u32 *out) { // 32 x 32, 32 x 8 threads
  __shared__ u32 tile[32][33];
  u32 x = threadIdx.x, y = threadIdx.y;
  for (u32 k = 0; k < 32; k += 8) tile[y + k][x] = in[(y + k) * 32u + x];
  __syncthreads();
  for (u32 k = 0; k < 32; k += 8) out[(y + k) * 32u + x] = tile[x][y + k];
}

K block_histogram(const u32 *in, u32 *out) {
  __shared__ u32 bins[64];
  for (u32 k = threadIdx.x; k < 64; k += blockDim.x) bins[k] = 0;
  __syncthreads();
  for (u32 k = I; k < 1024; k += gridDim.x * blockDim.x) atomicAdd(&bins[in[k] & 63u], 1u);
  __syncthreads();
  for (u32 k = threadIdx.x; k < 64; k += blockDim.x) atomicAdd(out + k, bins[k]);
}

K block_sort(const u32 *in, u32 *out) { // bitonic, 256 words
  __shared__ u32 s[256];
  u32 t = threadIdx.x;
  s[t] = in[t], s[t + 128] = in[t + 128];
  for (u32 k = 2; k <= 256; k *= 2) {
    for (u32 j = k / 2; j; j /= 2) {
      __syncthreads();
      u32 i = 2 * t - (t & (j - 1)), o = i + j;
      bool up = (i & k) == 0;
      if ((s[i] > s[o]) == up) {
        u32 x = s[i];
        s[i] = s[o], s[o] = x;
      }
    }
  }
  __syncthreads();
  out[t] = s[t], out[t + 128] = s[t + 128];
}

K block_stencil(const u32 *in, u32 *out) {
  __shared__ u32 s[128 + 6];
  u32 t = threadIdx.x, i = I;
  s[t + 3] = in[i];
  if (t < 3) s[t] = i >= 3 ? in[i - 3] : 0u;
  if (t >= 125) s[t + 6] = in[i + 3];
  __syncthreads();
  u32 r = 0;
  for (u32 k = 0; k < 7; k++) r += s[t + k] * (k + 1u);
  out[i] = r;
}

K block_matmul(const u32 *in, u32 *out) { // 32 x 32 times its transpose
  __shared__ u32 a[16][17], b[16][16];
  u32 x = threadIdx.x, y = threadIdx.y, sum = 0;
  u32 row = blockIdx.y * 16u + y, col = blockIdx.x * 16u + x;
  for (u32 k = 0; k < 32; k += 16) {
    a[y][x] = in[row * 32u + k + x];
    b[y][x] = in[(blockIdx.x * 16u + y) * 32u + k + x];
    __syncthreads();
    for (u32 n = 0; n < 16; n++) sum += a[y][n] * b[x][n];
    __syncthreads();
  }
  out[row * 32u + col] = sum;
}

K block_large(const u32 *in, u32 *out) { // 1024 threads in three dimensions
  extern __shared__ u32 dynamic[];
  u32 t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  dynamic[t] = in[t];
  __syncthreads();
  for (u32 n = 512; n; n /= 2) {
    if (t < n) dynamic[t] ^= dynamic[t + n] * 3u;
    __syncthreads();
  }
  out[t] = dynamic[0] + t;
}

// the block that comes last adds up what all have left
K grid_last_block(const u32 *in, u32 *out) {
  __shared__ bool last;
  __shared__ u32 s[128];
  u32 t = threadIdx.x;
  s[t] = in[I];
  __syncthreads();
  for (u32 n = 64; n; n /= 2) {
    if (t < n) s[t] += s[t + n];
    __syncthreads();
  }
  if (t == 0) {
    out[2 + blockIdx.x] = s[0];
    __threadfence();
    last = atomicAdd(out, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) {
    u32 sum = 0;
    for (u32 b = 0; b < gridDim.x; b++) sum += ((volatile u32 *)out)[2 + b];
    out[1] = sum;
  }
}

// block b waits for the flag of block b - 1 and adds its share to the sum
K grid_chain(const u32 *in, u32 *out) {
  if (threadIdx.x == 0) {
    u32 b = blockIdx.x, flag, v = 0;
    if (b) {
      do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                      : "=r"(flag) : "l"(out + b - 1) : "memory");
      while (!flag);
      v = out[16 + b - 1];
    }
    out[16 + b] = v + in[b];
    asm volatile("st.release.gpu.global.u32 [%0], %1;"
                 :: "l"(out + b), "r"(1u) : "memory");
  }
}

// single-pass prefix sum with a look back: state 1 is a block's own sum,
// 2 the sum of everything up to it
K grid_look_back(const u32 *in, u32 *out) {
  __shared__ u32 s[64], block, before;
  u32 *state = out + 1024, *own = out + 1040, *total = out + 1056;
  u32 t = threadIdx.x;
  if (t == 0) block = atomicAdd(out + 1072, 1u); // in order of arrival
  __syncthreads();
  u32 b = block;
  s[t] = in[b * 64u + t];
  __syncthreads();
  for (u32 n = 1; n < 64; n *= 2) {
    u32 v = t >= n ? s[t - n] : 0u;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  if (t == 0) {
    own[b] = s[63];
    __threadfence();
    atomicExch(state + b, 1u);
    u32 sum = 0;
    for (int k = (int)b - 1; k >= 0;) {
      u32 st = atomicAdd(state + k, 0u);
      if (st == 0) continue;
      __threadfence();
      if (st == 2u) {
        sum += ((volatile u32 *)total)[k];
        break;
      }
      sum += ((volatile u32 *)own)[k];
      k--;
    }
    total[b] = sum + s[63];
    __threadfence();
    atomicExch(state + b, 2u);
    before = sum;
  }
  __syncthreads();
  out[b * 64u + t] = before + s[t];
}

// all blocks meet, twice
K grid_barrier(const u32 *in, u32 *out) {
  u32 i = I;
  out[8 + i] = in[i];
  for (u32 round = 0; round < 2; round++) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(out + round, 1u);
      while (atomicAdd(out + round, 0u) < gridDim.x) { }
      __threadfence();
    }
    __syncthreads();
    u32 v = ((volatile u32 *)out)[8 + round * 512u + 511u - i];
    out[8 + (round + 1u) * 512u + i] = v * 3u + round;
  }
}

// blocks take pieces of work until none is left
K grid_queue(const u32 *in, u32 *out) {
  __shared__ u32 piece;
  for (;;) {
    if (threadIdx.x == 0) piece = atomicAdd(out, 1u);
    __syncthreads();
    u32 p = piece;
    __syncthreads();
    if (p >= 16u) break;
    out[8 + p * 64u + threadIdx.x] = in[p * 64u + threadIdx.x] + p;
  }
}

K grid_stride(const u32 *in, u32 *out) {
  for (u32 k = I; k < 1000; k += gridDim.x * blockDim.x) out[k] = in[k] * in[999 - k];
}
