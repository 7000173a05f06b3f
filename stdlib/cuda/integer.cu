// Integers of 64 bits as the language has them: overflow wraps, division
// floors, conversions from float saturate. C++ leaves overflow of signed
// numbers undefined, so what could overflow goes through unsigned ones.
//
// A line "//: NAME NEEDED..." begins a helper; the emitter copies the ones
// that a kernel calls, and those that they need, in front of it.

//: td_add
__device__ __forceinline__ long long td_add(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
}

//: td_sub
__device__ __forceinline__ long long td_sub(long long a, long long b) {
  return (long long)((unsigned long long)a - (unsigned long long)b);
}

//: td_mul
__device__ __forceinline__ long long td_mul(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}

//: td_neg
__device__ __forceinline__ long long td_neg(long long a) {
  return (long long)(0ULL - (unsigned long long)a);
}

//: td_abs td_neg
__device__ __forceinline__ long long td_abs(long long a) {
  return a < 0 ? td_neg(a) : a;
}

// Operands are int or long long; the result is the wider one.

//: td_min
template <class A, class B>
__device__ __forceinline__ auto td_min(A a, B b) -> decltype(a + b) {
  return a < b ? a : b;
}

//: td_max
template <class A, class B>
__device__ __forceinline__ auto td_max(A a, B b) -> decltype(a + b) {
  return a > b ? a : b;
}

//: td_div
// The floor of a / b; by zero: no particular value.
template <class A, class B>
__device__ __forceinline__ auto td_div(A a, B b) -> decltype(a + b) {
  decltype(a + b) q = a / b, r = a % b;
  return r != 0 && (r ^ b) < 0 ? q - 1 : q;
}

//: td_mod
template <class A, class B>
__device__ __forceinline__ auto td_mod(A a, B b) -> decltype(a + b) {
  decltype(a + b) r = a % b;
  return r != 0 && (r ^ b) < 0 ? r + b : r;
}

//: td_ipow
// n >= 0
__device__ __forceinline__ long long td_ipow(long long x, long long n) {
  unsigned long long base = (unsigned long long)x, result = 1;
  for (; n > 0; n >>= 1) {
    if (n & 1) result *= base;
    base *= base;
  }
  return (long long)result;
}

//: td_clamp
__device__ __forceinline__ long long td_clamp(long long v, long long lo,
                                              long long hi) {
  return v < lo ? lo : v > hi ? hi : v;
}

//: td_f64_to_i64
// Toward zero, saturating; NaN to 0.
__device__ __forceinline__ long long td_f64_to_i64(double v) {
  if (v != v) return 0;
  if (v >= 9223372036854775808.0) return 0x7fffffffffffffffLL;
  if (v < -9223372036854775808.0) return -0x7fffffffffffffffLL - 1;
  return (long long)v;
}

//: td_f32_to_i64
__device__ __forceinline__ long long td_f32_to_i64(float v) {
  if (v != v) return 0;
  if (v >= 9223372036854775808.0f) return 0x7fffffffffffffffLL;
  if (v < -9223372036854775808.0f) return -0x7fffffffffffffffLL - 1;
  return (long long)v;
}
