// Functions of binary32. exp, exp2, tanh and erf are polynomials in binary32;
// log, log2, pow, sin and cos go through binary64 and round once at the end.
// Coefficients and order of operations are those of the CPU back end, so
// that both give the same bits (but for erf on a CPU with AVX-512, which has a
// table for it). A subnormal result may be 0.

//: td_exp2_fraction
// 2^f for |f| <= 1/2.
__device__ __forceinline__ float td_exp2_fraction(float f) {
  float r = (float)0.00015345802;
  r = fmaf(r, f, (float)0.00133999311);
  r = fmaf(r, f, (float)0.00961848899);
  r = fmaf(r, f, (float)0.0555032878);
  r = fmaf(r, f, (float)0.240226469);
  r = fmaf(r, f, (float)0.693147206);
  return fmaf(r, f, 1.0f);
}

//: td_scale_by_bits
// p times two to the number in the low bits of z.
__device__ __forceinline__ float td_scale_by_bits(float p, float z) {
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(z) << 23));
}

//: td_exp_f32 td_exp2_fraction td_scale_by_bits
// Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low
// bits; the rest is exact up to the second constant of log2 e.
__device__ __forceinline__ float td_exp_f32(float x) {
  const float magic = 12582912.0f, hi = (float)1.44269502,
              lo = (float)1.92596299e-8;
  float z = fmaf(x, hi, magic);
  float n = z - magic;
  float f = fmaf(x, lo, fmaf(x, hi, -n));
  float r = td_scale_by_bits(td_exp2_fraction(f), z);
  if (x < (float)-87.33654) r = 0.0f;
  if (x > (float)88.72283) r = __uint_as_float(0x7f800000u);
  return x != x ? x : r;
}

//: td_exp2_f32 td_exp2_fraction td_scale_by_bits
__device__ __forceinline__ float td_exp2_f32(float x) {
  const float magic = 12582912.0f;
  float z = x + magic;
  float f = x - (z - magic);
  float r = td_scale_by_bits(td_exp2_fraction(f), z);
  if (x < -126.0f) r = 0.0f;
  if (x > (float)127.9999962) r = __uint_as_float(0x7f800000u);
  return x != x ? x : r;
}

//: td_tanh_f32 td_exp_f32
__device__ __forceinline__ float td_tanh_f32(float x) {
  float a = fabsf(x), s = x * x;
  float p = (float)-0.00505227268;
  p = fmaf(p, s, (float)0.0199865136);
  p = fmaf(p, s, (float)-0.0535124742);
  p = fmaf(p, s, (float)0.133282269);
  p = fmaf(p, s, (float)-0.33333122);
  p = fmaf(p, s, (float)(0.999999986 - 1));
  float small = fmaf(x, p, x);
  float e = td_exp_f32(a + a);
  float large = copysignf(1.0f - 2.0f / (e + 1.0f), x);
  float r = a < (float)0.7 ? small : large;
  return x != x ? x : r;
}

//: td_erf_f32 td_exp_f32
__device__ __forceinline__ float td_erf_f32(float x) {
  float a = fabsf(x), s = x * x;
  float p = (float)-9.68013123e-06;
  p = fmaf(p, s, (float)0.000112705427);
  p = fmaf(p, s, (float)-0.000848471121);
  p = fmaf(p, s, (float)0.00522107486);
  p = fmaf(p, s, (float)-0.0268654458);
  p = fmaf(p, s, (float)0.112837827);
  p = fmaf(p, s, (float)-0.376126385);
  p = fmaf(p, s, (float)(1.12837917 - 1));
  float small = fmaf(x, p, x);
  float t = a < (float)4.1 ? a : (float)4.1;
  float q = (float)1.23397517e-05;
  q = fmaf(q, t, (float)-0.000333963196);
  q = fmaf(q, t, (float)0.00368811987);
  q = fmaf(q, t, (float)-0.0238592964);
  q = fmaf(q, t, (float)0.106350593);
  q = fmaf(q, t, (float)0.635082016);
  q = fmaf(q, t, (float)1.1286657);
  float e = td_exp_f32(-(t * q));
  float large = copysignf(1.0f - e, x);
  float r = a < 1.0f ? small : large;
  return x != x ? x : r;
}

//: td_log2_core
// log2 of a positive finite normal binary64 2^e m, m in sqrt(1/2) .. sqrt(2).
__device__ __forceinline__ double td_log2_core(double x) {
  long long u = __double_as_longlong(x);
  long long e = (u - 0x3fe6a09e667f3bcdLL) >> 52;
  double m = __longlong_as_double(
      (long long)((unsigned long long)u - ((unsigned long long)e << 52)));
  double s = (m - 1.0) / (m + 1.0), w = s * s;
  double p = 0.24565029694332458;
  p = fma(p, w, 0.26119384357733083);
  p = fma(p, w, 0.32062493322571683);
  p = fma(p, w, 0.41219826989495689);
  p = fma(p, w, 0.577078018124623);
  p = fma(p, w, 0.96179669392261702);
  p = fma(p, w, 2.8853900817779281);
  return (double)e + s * p;
}

//: td_log_ends
// Zero gives -inf, infinity itself, negatives and NaN a NaN.
__device__ __forceinline__ double td_log_ends(double x, double r) {
  const double inf = __longlong_as_double(0x7ff0000000000000LL);
  if (x == inf) r = x;
  if (x == 0.0) r = -inf;
  return x >= 0.0 ? r : __longlong_as_double(0x7ff8000000000000LL);
}

//: td_log2_f32 td_log2_core td_log_ends
__device__ __forceinline__ float td_log2_f32(float x) {
  double wide = (double)x;
  return (float)td_log_ends(wide, td_log2_core(wide));
}

//: td_log_f32 td_log2_core td_log_ends
__device__ __forceinline__ float td_log_f32(float x) {
  double wide = (double)x;
  return (float)td_log_ends(wide, td_log2_core(wide) * 0.69314718055994531);
}

//: td_exp2_core
// 2^t; t beyond -1000 .. 1000 is clamped, which is beyond binary32.
__device__ __forceinline__ double td_exp2_core(double t) {
  const double magic = 6755399441055744.0;
  if (t < -1000.0) t = -1000.0;
  if (t > 1000.0) t = 1000.0;
  double z = t + magic;
  double f = t - (z - magic);
  double p = 1.0168213626716384e-07;
  p = fma(p, f, 1.3259011422694585e-06);
  p = fma(p, f, 1.5252880835443957e-05);
  p = fma(p, f, 0.00015403437170210166);
  p = fma(p, f, 0.0013333557819389321);
  p = fma(p, f, 0.0096181291879563983);
  p = fma(p, f, 0.055504108667269778);
  p = fma(p, f, 0.24022650695675313);
  p = fma(p, f, 0.69314718055989322);
  p = fma(p, f, 1.0000000000000093);
  return __longlong_as_double(
      (long long)((unsigned long long)__double_as_longlong(p) +
                  ((unsigned long long)__double_as_longlong(z) << 52)));
}

//: td_pow_core td_log2_core td_log_ends td_exp2_core
// |x| ^ y, with 1 for y = 0 and for |x| = 1.
__device__ __forceinline__ float td_pow_core(float a, double y) {
  double wide = (double)a;
  double t = y * td_log_ends(wide, td_log2_core(wide));
  float r = (float)td_exp2_core(t);
  if (t != t) r = __uint_as_float(0x7fc00000u);
  return y == 0.0 || wide == 1.0 ? 1.0f : r;
}

//: td_pow_f32 td_pow_core td_log2_core td_log_ends td_exp2_core
// A float exponent of a negative base gives NaN; -0 to an odd power keeps
// its sign.
__device__ __forceinline__ float td_pow_f32(float x, float y) {
  float r = td_pow_core(fabsf(x), (double)y);
  if (x < 0.0f && y != 0.0f) r = __uint_as_float(0x7fc00000u);
  if (x == 0.0f && fabsf(y) < 0x1p24f) {
    long long n = (long long)y;
    if ((n & 1) != 0 && (float)n == y) r = copysignf(r, x);
  }
  return r;
}

//: td_powi_f32 td_pow_core td_log2_core td_log_ends td_exp2_core
__device__ __forceinline__ float td_powi_f32(float x, long long n) {
  float r = td_pow_core(fabsf(x), (double)n);
  return (n & 1) != 0 ? copysignf(r, x) : r;
}

//: td_sine_core
// pi/2 is cut in two so that its multiples by up to 2^20 are exact.
__device__ __forceinline__ double td_sine_core(double x, long long quarter) {
  const double magic = 6755399441055744.0;
  double z = fma(x, 0.63661977236758134, magic);
  double n = z - magic;
  double r = x - n * 1.5707963267341256;
  r = r - n * 6.0771005065061922e-11;
  double w = r * r;
  double s = -2.4753944825400265e-08;
  s = fma(s, w, 2.7555237101205446e-06);
  s = fma(s, w, -0.00019841263141634968);
  s = fma(s, w, 0.0083333333236049415);
  s = fma(s, w, -0.16666666666615132);
  s = fma(s, w, 0.99999999999999556);
  s = r * s;
  double c = -2.7169772943921464e-07;
  c = fma(c, w, 2.4798877901359704e-05);
  c = fma(c, w, -0.0013888880149285851);
  c = fma(c, w, 0.041666666539187276);
  c = fma(c, w, -0.49999999999319811);
  c = fma(c, w, 0.99999999999994249);
  long long q = __double_as_longlong(z) + quarter;
  double v = (q & 1) != 0 ? c : s;
  return (q & 2) != 0 ? -v : v;
}

//: td_sin_f32 td_sine_core
__device__ __forceinline__ float td_sin_f32(float x) {
  if (!(fabsf(x) <= 1.0e6f)) return (float)sin((double)x);
  return x == 0.0f ? x : (float)td_sine_core((double)x, 0);
}

//: td_cos_f32 td_sine_core
__device__ __forceinline__ float td_cos_f32(float x) {
  if (!(fabsf(x) <= 1.0e6f)) return (float)cos((double)x);
  return (float)td_sine_core((double)x, 1);
}

//: td_pow_f64
__device__ __forceinline__ double td_pow_f64(double x, double y) {
  return x < 0.0 && y != 0.0 ? __longlong_as_double(0x7ff8000000000000LL)
                             : pow(x, y);
}
