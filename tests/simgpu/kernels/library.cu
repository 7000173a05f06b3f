// Barriers and pipelines of the vendor's C++ library: what it makes of them is
// correct, and most unlike what one writes by hand. All four sum, over 20
// tiles of 128 words, the word 37 places on.
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cooperative_groups.h>
extern "C" __global__ void meet(const unsigned *in, unsigned *out) {
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> b;
  __shared__ unsigned s[128];
  unsigned t = threadIdx.x;
  if (t == 0) init(&b, blockDim.x);
  __syncthreads();
  unsigned sum = 0;
  for (int i = 0; i < 20; i++) {
    s[t] = in[i * 128 + t];
    b.arrive_and_wait();
    sum += s[(t + 37) % 128];
    b.arrive_and_wait();
  }
  out[t] = sum;
}
extern "C" __global__ void copy(const unsigned *in, unsigned *out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> b;
  __shared__ alignas(16) unsigned s[128];
  unsigned t = threadIdx.x;
  if (t == 0) init(&b, blockDim.x);
  __syncthreads();
  unsigned sum = 0;
  for (int i = 0; i < 20; i++) {
    cuda::memcpy_async(s + t, in + i * 128 + t, sizeof(unsigned), b);
    b.arrive_and_wait();
    sum += s[(t + 37) % 128];
    __syncthreads();
  }
  out[t] = sum;
}
extern "C" __global__ void pipe(const unsigned *in, unsigned *out) {
  __shared__ alignas(16) unsigned s[3][128];
  unsigned t = threadIdx.x;
  auto p = cuda::make_pipeline();
  unsigned sum = 0;
  int f = 0;
  for (int i = 0; i < 20; i++) {
    for (; f < 20 && f < i + 3; f++) {
      p.producer_acquire();
      cuda::memcpy_async(&s[f % 3][t], in + f * 128 + t, sizeof(unsigned), p);
      p.producer_commit();
    }
    p.consumer_wait();
    __syncthreads();
    sum += s[i % 3][(t + 37) % 128];
    __syncthreads();
    p.consumer_release();
  }
  out[t] = sum;
}
extern "C" __global__ void pipe_block(const unsigned *in, unsigned *out) {
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> st;
  __shared__ alignas(16) unsigned s[2][128];
  auto g = cooperative_groups::this_thread_block();
  unsigned t = threadIdx.x;
  auto p = cuda::make_pipeline(g, &st);
  unsigned sum = 0;
  int f = 0;
  for (int i = 0; i < 20; i++) {
    for (; f < 20 && f < i + 2; f++) {
      p.producer_acquire();
      cuda::memcpy_async(g, s[f % 2], in + f * 128,
                         cuda::aligned_size_t<16>(512), p);
      p.producer_commit();
    }
    p.consumer_wait();
    sum += s[i % 2][(t + 37) % 128];
    p.consumer_release();
  }
  out[t] = sum;
}
