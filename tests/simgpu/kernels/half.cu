// Halves, bfloat16 and 8-bit floats.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#define K extern "C" __global__ void
typedef unsigned u32;
typedef unsigned short u16;
#define I (blockIdx.x * blockDim.x + threadIdx.x)

__device__ __half h_of(u32 w) { return __ushort_as_half((u16)w); }
__device__ u32 bits(__half h) { return __hisnan(h) ? 0x7FFFu : __half_as_ushort(h); }
__device__ u32 bits(__nv_bfloat16 h) {
  return __hisnan(h) ? 0x7FFFu : __bfloat16_as_ushort(h);
}
__device__ float small_f(u32 w) { return (float)(int)(w % 20011u) / 64.0f - 150.0f; }

K h_arith(const u32 *in, u32 *out) {
  u32 i = I;
  __half a = h_of(in[i]), b = h_of(in[i] >> 16), c = h_of(in[i + 512]);
  u32 *o = out + 8 * i;
  o[0] = bits(__hadd_rn(a, b)), o[1] = bits(__hsub_rn(a, b));
  o[2] = bits(__hmul_rn(a, b)), o[3] = bits(__hfma(a, b, c));
  o[4] = bits(__habs(a)), o[5] = bits(__hneg(b));
  __half2 x = __halves2half2(a, b), y = __halves2half2(c, a);
  __half2 s = __hfma2(x, y, y);
  o[6] = bits(__low2half(s)) | bits(__high2half(s)) << 16;
  s = __hadd2_rn(x, y);
  o[7] = bits(__low2half(s)) | bits(__high2half(s)) << 16;
}

K h_compare(const u32 *in, u32 *out) {
  u32 i = I;
  __half a = h_of(in[i]), b = h_of(in[i + 512]);
  if (i % 9 == 0) a = b;
  __half2 x = __halves2half2(a, b), y = __halves2half2(b, b);
  u32 r = (u32)__hlt(a, b) | (u32)__hle(a, b) << 1 | (u32)__heq(a, b) << 2 |
          (u32)__hne(a, b) << 3 | (u32)__hge(a, b) << 4 | (u32)__hgt(a, b) << 5 |
          (u32)__hltu(a, b) << 6 | (u32)__hgeu(a, b) << 7 |
          (u32)__hequ(a, b) << 8 | (u32)__hbeq2(x, y) << 9 |
          (u32)__hbgeu2(x, y) << 10;
  out[3 * i] = r;
  out[3 * i + 1] = bits(__hmin(a, b)) | bits(__hmax(a, b)) << 16;
  __half2 g = __hgt2(x, y);
  out[3 * i + 2] = bits(__low2half(g)) | bits(__high2half(g)) << 16;
}

#if __CUDA_ARCH__ >= 800
K b_arith(const u32 *in, u32 *out) {
  u32 i = I;
  __nv_bfloat16 a = __ushort_as_bfloat16((u16)in[i]);
  __nv_bfloat16 b = __ushort_as_bfloat16((u16)(in[i] >> 16));
  __nv_bfloat16 c = __ushort_as_bfloat16((u16)in[i + 512]);
  u32 *o = out + 6 * i;
  o[0] = bits(__hadd_rn(a, b)), o[1] = bits(__hsub_rn(a, b));
  o[2] = bits(__hmul_rn(a, b)), o[3] = bits(__hfma(a, b, c));
  o[4] = bits(__hmin(a, b)) | bits(__hmax(a, b)) << 16;
  o[5] = (u32)__hlt(a, b) | (u32)__heq(a, b) << 1 | (u32)__hgeu(a, b) << 2;
}

#endif

K h_convert(const u32 *in, u32 *out) {
  u32 i = I;
  float f = __uint_as_float((in[i] & 0x9FFFFFFFu) | (in[i] & 0x100u ? 0x30000000u : 0));
  u32 *o = out + 8 * i;
  o[0] = bits(__float2half_rn(f)) | bits(__float2half_rz(f)) << 16;
  o[1] = bits(__float2half_ru(f)) | bits(__float2half_rd(f)) << 16;
  o[2] = bits(__float2bfloat16_rn(f)) | bits(__float2bfloat16_rz(f)) << 16;
  __half2 h = __floats2half2_rn(f, small_f(in[i + 512]));
  o[3] = bits(__low2half(h)) | bits(__high2half(h)) << 16;
  o[4] = __float_as_uint(__half2float(h_of(in[i])));
  if ((in[i] & 0x7C00u) == 0x7C00u) o[4] = 0;
  o[5] = __float_as_uint(small_f(in[i])) ^ (u32)__half2int_rz(__float2half_rn(small_f(in[i])));
  o[6] = bits(__int2half_rn((int)in[i] >> 14)) | bits(__uint2half_rn(in[i] >> 18)) << 16;
  __nv_bfloat162 b = __floats2bfloat162_rn(small_f(in[i]), f);
  o[7] = bits(__low2bfloat16(b)) | bits(__high2bfloat16(b)) << 16;
}

K fp8_convert(const u32 *in, u32 *out) {
  u32 i = I;
  float a = __uint_as_float((in[i] & 0x8FFFFFFFu) | 0x38000000u);
  float b = small_f(in[i + 512]);
  u32 *o = out + 4 * i;
  o[0] = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
  o[1] = __nv_cvt_float2_to_fp8x2(make_float2(b, a), __NV_SATFINITE, __NV_E5M2);
  __half_raw x = __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)in[i], __NV_E4M3);
  __half_raw y = __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)in[i], __NV_E5M2);
  o[2] = bits(__half(x)), o[3] = bits(__half(y));
}

K h_math(const u32 *in, u32 *out) {
  u32 i = I;
  float f = small_f(in[i]) / 16.0f;
  __half h = __float2half_rn(f), p = __habs(h) + __float2half_rn(0.25f);
  float *o = (float *)out + 6 * i;
  o[0] = __half2float(hexp2(h)), o[1] = __half2float(hlog2(p));
  o[2] = __half2float(hrsqrt(p)), o[3] = __half2float(hrcp(p));
  o[4] = __half2float(hsqrt(p)), o[5] = __half2float(hfloor(h));
}

K h_sum(const u32 *in, u32 *out) {
  __shared__ __half2 s[128];
  u32 t = threadIdx.x;
  s[t] = __halves2half2(__int2half_rn((int)(in[I] % 7u)), __int2half_rn((int)(in[I] % 5u)));
  __syncthreads();
  for (u32 n = 64; n; n >>= 1) {
    if (t < n) s[t] = __hadd2(s[t], s[t + n]);
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = (u32)__half2int_rn(__low2half(s[0])) << 16 |
                                (u32)__half2int_rn(__high2half(s[0]));
}
