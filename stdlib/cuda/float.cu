// Larger and smaller of two: NaN if either is NaN, +0 above -0. Where both
// are equal their bits are combined: "and" lets +0 win, "or" lets -0 win.

//: td_max_f32
__device__ __forceinline__ float td_max_f32(float a, float b) {
  float r = a > b ? a : b;
  if (a == b) r = __uint_as_float(__float_as_uint(a) & __float_as_uint(b));
  return a != a ? a : r;
}

//: td_min_f32
__device__ __forceinline__ float td_min_f32(float a, float b) {
  float r = a < b ? a : b;
  if (a == b) r = __uint_as_float(__float_as_uint(a) | __float_as_uint(b));
  return a != a ? a : r;
}

//: td_max_f64
__device__ __forceinline__ double td_max_f64(double a, double b) {
  double r = a > b ? a : b;
  if (a == b) {
    r = __longlong_as_double(__double_as_longlong(a) &
                             __double_as_longlong(b));
  }
  return a != a ? a : r;
}

//: td_min_f64
__device__ __forceinline__ double td_min_f64(double a, double b) {
  double r = a < b ? a : b;
  if (a == b) {
    r = __longlong_as_double(__double_as_longlong(a) |
                             __double_as_longlong(b));
  }
  return a != a ? a : r;
}

//: td_round_tf32
// The last 13 fraction bits rounded away, to nearest even.
__device__ __forceinline__ float td_round_tf32(float v) {
  unsigned u = __float_as_uint(v);
  unsigned r = (u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u;
  return (u & 0x7fffffffu) < 0x7f800000u ? __uint_as_float(r) : v;
}
