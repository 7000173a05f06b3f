// Kernels of bench_sim, written by hand as a careful programmer would: one
// arithmetic loop, and the mix of row softmax, RMS norm, SIMT matrix product
// and SIMT attention.
extern "C" __global__ void arithmetic(float *out, int n) {
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  float a = t * 0.001f, b = 1.0f, c = 0.5f;
  unsigned h = t;
  for (int i = 0; i < n; i++) {
    a = fmaf(a, 0.999f, b);
    b = b * 0.998f + c;
    h = (h ^ (h >> 7)) * 2654435761u + i;
    c = fmaxf(c * 0.5f, a - b);
    h += h << 3;
  }
  out[t] = a + b + c + (h & 255);
}

__device__ float reduce(float v, bool is_max, float *part) {
  for (int d = 16; d; d >>= 1) {
    float o = __shfl_xor_sync(~0u, v, d);
    v = is_max ? fmaxf(v, o) : v + o;
  }
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = part[0];
  for (int w = 1; w < 4; w++) v = is_max ? fmaxf(v, part[w]) : v + part[w];
  __syncthreads();
  return v;
}

// 128 threads, a row of 1024
extern "C" __global__ void softmax(const float *in, float *out) {
  __shared__ float part[4];
  const float *x = in + blockIdx.x * 1024ull;
  float v[8], top = -1e38f, sum = 0;
  for (int i = 0; i < 8; i++) {
    v[i] = x[threadIdx.x + i * 128];
    top = fmaxf(top, v[i]);
  }
  top = reduce(top, true, part);
  for (int i = 0; i < 8; i++) sum += v[i] = exp2f((v[i] - top) * 1.44269504f);
  float r = 1.0f / reduce(sum, false, part);
  for (int i = 0; i < 8; i++)
    out[blockIdx.x * 1024ull + threadIdx.x + i * 128] = v[i] * r;
}

// 128 threads, a row of 1024, four neighbours a thread
extern "C" __global__ void rms_norm(const float4 *in, const float4 *scale,
                                    float4 *out) {
  __shared__ float part[4];
  float4 v[2];
  float sum = 0;
  for (int i = 0; i < 2; i++) {
    v[i] = in[blockIdx.x * 256ull + threadIdx.x + i * 128];
    sum += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z +
           v[i].w * v[i].w;
  }
  float r = rsqrtf(reduce(sum, false, part) / 1024 + 1e-5f);
  for (int i = 0; i < 2; i++) {
    float4 s = scale[threadIdx.x + i * 128];
    v[i].x *= r * s.x;
    v[i].y *= r * s.y;
    v[i].z *= r * s.z;
    v[i].w *= r * s.w;
    out[blockIdx.x * 256ull + threadIdx.x + i * 128] = v[i];
  }
}

// C = A B, tiles of 64 x 64 x 16, 256 threads, 4 x 4 a thread
extern "C" __global__ void gemm(const float *a, const float *b, float *c,
                                int n) {
  __shared__ float as[16][68], bs[16][64];
  int t = threadIdx.x, tx = t % 16, ty = t / 16;
  int row = blockIdx.y * 64, col = blockIdx.x * 64;
  float acc[4][4] = {};
  for (int k = 0; k < n; k += 16) {
    float4 va = *(const float4 *)&a[(row + t / 4) * n + k + t % 4 * 4];
    float4 vb = *(const float4 *)&b[(k + ty) * n + col + tx * 4];
    as[t % 4 * 4 + 0][t / 4] = va.x;
    as[t % 4 * 4 + 1][t / 4] = va.y;
    as[t % 4 * 4 + 2][t / 4] = va.z;
    as[t % 4 * 4 + 3][t / 4] = va.w;
    *(float4 *)&bs[ty][tx * 4] = vb;
    __syncthreads();
    for (int j = 0; j < 16; j++) {
      float4 x = *(const float4 *)&as[j][ty * 4];
      float4 y = *(const float4 *)&bs[j][tx * 4];
      float p[4] = {x.x, x.y, x.z, x.w}, q[4] = {y.x, y.y, y.z, y.w};
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 4; s++) acc[r][s] = fmaf(p[r], q[s], acc[r][s]);
    }
    __syncthreads();
  }
  for (int r = 0; r < 4; r++)
    *(float4 *)&c[(row + ty * 4 + r) * n + col + tx * 4] =
        make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
}

// One query a thread, head size 64, keys and values in tiles of 32
extern "C" __global__ void attention(const float *q, const float *k,
                                     const float *v, float *out, int length) {
  __shared__ float4 ks[32][16], vs[32][16];
  int t = threadIdx.x, query = blockIdx.x * blockDim.x + t;
  const float4 *mine = (const float4 *)q + query * 16;
  float4 x[16], acc[16];
  float top = -1e38f, sum = 0;
  for (int i = 0; i < 16; i++) {
    x[i] = mine[i];
    acc[i] = make_float4(0, 0, 0, 0);
  }
  for (int base = 0; base < length; base += 32) {
    for (int i = t; i < 512; i += blockDim.x) {
      ks[i / 16][i % 16] = ((const float4 *)k)[base * 16 + i];
      vs[i / 16][i % 16] = ((const float4 *)v)[base * 16 + i];
    }
    __syncthreads();
    for (int j = 0; j < 32; j++) {
      float s = 0;
      for (int i = 0; i < 16; i++) {
        float4 y = ks[j][i];
        s += x[i].x * y.x + x[i].y * y.y + x[i].z * y.z + x[i].w * y.w;
      }
      s *= 0.125f * 1.44269504f;
      if (s > top) {
        float f = exp2f(top - s);
        sum *= f;
        for (int i = 0; i < 16; i++) {
          acc[i].x *= f;
          acc[i].y *= f;
          acc[i].z *= f;
          acc[i].w *= f;
        }
        top = s;
      }
      float p = exp2f(s - top);
      sum += p;
      for (int i = 0; i < 16; i++) {
        float4 y = vs[j][i];
        acc[i].x = fmaf(p, y.x, acc[i].x);
        acc[i].y = fmaf(p, y.y, acc[i].y);
        acc[i].z = fmaf(p, y.z, acc[i].z);
        acc[i].w = fmaf(p, y.w, acc[i].w);
      }
    }
    __syncthreads();
  }
  float r = 1 / sum;
  float4 *to = (float4 *)out + query * 16;
  for (int i = 0; i < 16; i++)
    to[i] = make_float4(acc[i].x * r, acc[i].y * r, acc[i].z * r,
                        acc[i].w * r);
}
