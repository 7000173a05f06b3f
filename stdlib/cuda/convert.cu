// Between the bits of narrow floats and binary32. One rounding, to nearest
// even; NaN becomes the one pattern of its type; f16 and bf16 overflow to
// infinity, 8-bit floats saturate.

//: td_from_f16
__device__ __forceinline__ float td_from_f16(unsigned short h) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
  return r;
}

//: td_to_f16
__device__ __forceinline__ unsigned short td_to_f16(float v) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return v != v ? (unsigned short)0x7e00u : h;
}

//: td_from_bf16
__device__ __forceinline__ float td_from_bf16(unsigned short h) {
  return __uint_as_float((unsigned)h << 16);
}

//: td_to_bf16
__device__ __forceinline__ unsigned short td_to_bf16(float v) {
  unsigned u = __float_as_uint(v);
  unsigned r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (unsigned short)(v != v ? 0x7fc0u : r);
}

//: td_round_magnitude
// A binary32 magnitude as a format with `fraction` bits whose smallest normal
// number has exponent `least`. Below that, adding a power of two puts the
// last kept bit at the end of the sum, so that the addition rounds.
__device__ __forceinline__ unsigned td_round_magnitude(unsigned magnitude,
                                                       int fraction,
                                                       int least) {
  int cut = 23 - fraction;
  unsigned odd = (magnitude >> cut) & 1u;
  unsigned normal = (magnitude + ((1u << (cut - 1)) - 1u) + odd) >> cut;
  normal -= (unsigned)(127 + least - 1) << fraction;
  unsigned magic = (unsigned)(127 + least + cut) << 23;
  float sum = __uint_as_float(magnitude) + __uint_as_float(magic);
  unsigned subnormal = __float_as_uint(sum) - magic;
  return magnitude >= (unsigned)(127 + least) << 23 ? normal : subnormal;
}

//: td_to_f8
__device__ __forceinline__ unsigned char td_to_f8(float v, int fraction,
                                                  int least, unsigned largest,
                                                  unsigned nan) {
  unsigned u = __float_as_uint(v), magnitude = u & 0x7fffffffu;
  unsigned r = td_round_magnitude(magnitude, fraction, least);
  if (r > largest || magnitude > 0x7f7fffffu) r = largest;
  return (unsigned char)(v != v ? nan : r | ((u >> 24) & 0x80u));
}

//: td_to_f8e4m3 td_to_f8 td_round_magnitude
__device__ __forceinline__ unsigned char td_to_f8e4m3(float v) {
  return td_to_f8(v, 3, -6, 0x7eu, 0x7fu);
}

//: td_to_f8e5m2 td_to_f8 td_round_magnitude
__device__ __forceinline__ unsigned char td_to_f8e5m2(float v) {
  return td_to_f8(v, 2, -14, 0x7bu, 0x7eu);
}

//: td_from_f8e4m3
__device__ __forceinline__ float td_from_f8e4m3(unsigned char h) {
  unsigned magnitude = h & 0x7fu, sign = (unsigned)(h & 0x80u) << 24;
  unsigned u = __float_as_uint(__uint_as_float(magnitude << 20) * 0x1p120f);
  if (magnitude == 0x7fu) u = 0x7fc00000u;
  return __uint_as_float(u | sign);
}

//: td_from_f8e5m2
__device__ __forceinline__ float td_from_f8e5m2(unsigned char h) {
  unsigned magnitude = h & 0x7fu, sign = (unsigned)(h & 0x80u) << 24;
  unsigned moved = magnitude << 21;
  unsigned u = __float_as_uint(__uint_as_float(moved) * 0x1p112f);
  if (magnitude >= 0x7cu) u = moved | 0x7f800000u;
  return __uint_as_float(u | sign);
}

//: td_to_odd
// binary64 cut to binary32 with the last bit set if anything was lost: what
// a second rounding must know is kept.
__device__ __forceinline__ float td_to_odd(double v) {
  float t = (float)v;
  double back = (double)t;
  unsigned u = __float_as_uint(t);
  if (back < v || back > v) {
    if (fabs(back) > fabs(v)) u -= 1u;
    u |= 1u;
  }
  return __uint_as_float(u);
}
