/* Conformance: one thread's arithmetic. What a kernel of kernels/integer.cu,
   float.cu and half.cu must give is worked out here with the host's own
   integers, its rounding modes, and a search for the nearest half. */
#include "cu_lab.h"

#include <fenv.h>

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

/* clang 14 makes wrong vector code of int_bytes: expected values must not
   depend on that. */
#if defined(__clang__)
#define IN_ORDER _Pragma("clang loop vectorize(disable)")
#else
#define IN_ORDER
#endif
#define EACH IN_ORDER for (uint32_t i = 0; i < 512; i++)

/* -- integers -- */

static uint32_t sx(uint32_t v, int bits) { /* sign extension */
  uint32_t m = 1u << (bits - 1);
  return ((v & (m * 2 - 1)) ^ m) - m;
}
static int32_t s32(uint32_t v) { return (int32_t)v; }
static int64_t s64(uint64_t v) { return (int64_t)v; }
static uint32_t min_u(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t max_u(uint32_t a, uint32_t b) { return a < b ? b : a; }

static void int_arith(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i], b = in[i + 512] | 1u, n = b & 31u;
    int64_t x = s32(a), y = s32(b);
    uint32_t r = a + b;
    r = r * 31u + (a - b);
    r = r * 31u + a * b;
    r = r * 31u + a / b;
    r = r * 31u + a % b;
    if (!(x == INT32_MIN && y == -1)) {
      r = r * 31u + (uint32_t)(x / y);
      r = r * 31u + (uint32_t)(x % y);
    }
    r = r * 31u + (uint32_t)(x < y ? x : y) + (uint32_t)(x < y ? y : x) * 3u;
    r = r * 31u + min_u(a, b) + max_u(a, b) * 3u +
        (uint32_t)llabs(x >= 0 ? x / 2 : -((1 - x) / 2));
    r = r * 31u + (uint32_t)(x >> n) + (a >> n) + (uint32_t)((uint64_t)a << n);
    out[i] = r;
  }
}

static void int_high(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i], b = in[i + 512];
    uint64_t w = (uint64_t)a << 32 | b, v = (uint64_t)b * a + 7u;
    int64_t p = (int64_t)s32(a) * s32(b);
    out[4 * i] = (uint32_t)((uint64_t)a * b >> 32) ^ (uint32_t)(p >> 32);
    out[4 * i + 1] = (uint32_t)((uint64_t)a * b >> 16) + (uint32_t)(p >> 9);
    out[4 * i + 2] = (uint32_t)((uint64_t)((u128)w * v >> 64) >> 3);
    int64_t high = s64((uint64_t)((s128)s64(w) * s64(v) >> 64));
    out[4 * i + 3] = (uint32_t)(high >> 5) +
                     (a & 0xFFFFFFu) * (b & 0xFFFFFFu) +
                     sx(a, 24) * sx(b, 24);
  }
}

static uint32_t count_bits(uint64_t v) {
  uint32_t n = 0;
  for (; v; v >>= 1) n += v & 1;
  return n;
}
static uint32_t zeros_above(uint64_t v, uint32_t width) {
  uint32_t n = 0;
  while (n < width && !(v >> (width - 1 - n) & 1)) n++;
  return n;
}
static uint32_t first_set(uint64_t v) {
  for (uint32_t n = 0; n < 64; n++)
    if (v >> n & 1) return n + 1;
  return 0;
}
static uint64_t reversed(uint64_t v, int width) {
  uint64_t r = 0;
  for (int n = 0; n < width; n++) r = r << 1 | (v >> n & 1);
  return r;
}

static void int_bits(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i], b = in[i + 512], c = in[(i * 7) % 1024], t = 0;
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = count_bits(a) + 40u * zeros_above(b, 32) +
                 1600u * first_set(a & b);
    r = r * 31u + (uint32_t)reversed(a, 32);
    for (int k = 0; k < 4; k++)
      t |= (uint32_t)(both >> ((c >> (4 * k) & 7u) * 8) & 0xFF) << (8 * k);
    r = r * 31u + t;
    r = r * 31u + (uint32_t)(both << (c & 31u) >> 32);
    r = r * 31u + (uint32_t)(both >> (c & 31u));
    uint32_t n = min_u(c & 63u, 32);
    r = r * 31u + (n == 32 ? a : (uint32_t)(both << n >> 32));
    r = r * 31u + (uint32_t)(both >> n);
    r = r * 31u + ((a & b) | (~c & a)) + (a ^ b ^ c);
    out[i] = r;
  }
}

static void int_long(const uint32_t *in, uint32_t *out) {
  EACH {
    uint64_t a = (uint64_t)in[i] << 32 | in[i + 512];
    uint64_t b =
        ((uint64_t)in[(i * 5) % 1024] << 13 | in[(i * 3) % 1024]) | 1u;
    s128 x = s64(a), y = s64(b >> 7 | 1);
    uint32_t n = b & 63u;
    uint64_t r = a + b;
    r = r * 31u + (a - b);
    r = r * 31u + a * b;
    r = r * 31u + a / b;
    r = r * 31u + a % b;
    r = r * 31u + (uint64_t)(x / y);
    r = r * 31u + (uint64_t)(x % y);
    r = r * 31u + (uint64_t)(x >> n) + (a >> n) + (uint64_t)((u128)a << n);
    r = r * 31u + count_bits(a) + 70u * zeros_above(b, 64) +
        4900u * first_set(a & b);
    r = r * 31u + reversed(a, 64);
    r = r * 31u + (x < y ? 5u : 9u) + (a < b ? 50u : 90u);
    s128 q = x >> 2;
    r = r * 31u + (uint64_t)(x < y ? x : y) + (uint64_t)(x < -y ? -y : x) +
        (a < b ? a : b) + (uint64_t)(q < 0 ? -q : q);
    out[2 * i] = (uint32_t)r;
    out[2 * i + 1] = (uint32_t)(r >> 32);
  }
}

static void int_carry(const uint32_t *in, uint32_t *out) {
  EACH {
    u128 a = 0, b = 0;
    for (uint32_t k = 0; k < 4; k++) {
      a = a << 32 | in[(i * 4 + k) % 1024];
      b = b << 32 | in[(i * 4 + k * 9 + 1) % 1024];
    }
    u128 s = a + b, d = a - b, p = a * b;
    uint64_t r = (uint64_t)(s >> 64) ^ (uint64_t)s * 3u ^
                 (uint64_t)(d >> 64) * 5u ^ (uint64_t)d * 7u ^
                 (uint64_t)(p >> 64) * 9u ^ (uint64_t)p * 11u;
    u128 x = (u128)in[i + 2] << 64 | (uint64_t)in[i + 1] << 32 | in[i];
    u128 y = (u128)in[i + 5] << 64 | (uint64_t)in[i + 4] << 32 | in[i + 3];
    for (int k = 0; k < 2; k++) {
      u128 t = k ? x - y : x + y;
      r = r * 31u + (uint32_t)t + 3u * (uint32_t)(t >> 32) +
          5u * (uint32_t)(t >> 64);
    }
    uint64_t t = (uint64_t)in[i] * in[i + 1] +
                 ((uint64_t)in[i + 3] << 32 | in[i + 2]);
    r = r * 31u + (uint32_t)t + 3u * (uint32_t)(t >> 32);
    out[2 * i] = (uint32_t)r;
    out[2 * i + 1] = (uint32_t)(r >> 32);
  }
}

static uint32_t byte_of(uint32_t v, int k) { return v >> (8 * k) & 255; }

static void int_bytes(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i], b = in[i + 512], c = in[(i * 7) % 1024];
    uint32_t u = c, s = c, add = 0, top = 0, low = 0, minus = 0;
    for (int k = 0; k < 4; k++) {
      uint32_t x = byte_of(a, k), y = byte_of(b, k);
      u += x * y;
      s += sx(x, 8) * sx(y, 8);
      add |= ((x + y) & 255) << (8 * k);
      top |= max_u(x, y) << (8 * k);
    }
    for (int k = 0; k < 2; k++) {
      int32_t x = s32(sx(a >> (16 * k), 16)), y = s32(sx(b >> (16 * k), 16));
      low |= (uint32_t)(x < y ? x : y) << 16 >> 16 << (16 * k);
      minus |= ((uint32_t)x - sx(c >> (16 * k), 16)) << 16 >> 16 << (16 * k);
    }
    int64_t p = s32(a) >> 1, q = s32(b) >> 1;
    uint32_t r = u;
    r = r * 31u + s;
    r = r * 31u + (max_u(a, b) - min_u(a, b) + c) +
        ((uint32_t)(p < q ? q - p : p - q) + c);
    r = r * 31u + add + top;
    r = r * 31u + low + minus;
    out[i] = r;
  }
}

static void int_short(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = sx(in[i], 16), b = sx(in[i + 512], 16);
    uint32_t x = a & 0xFFFF, y = (b | 1) & 0xFFFF;
    uint32_t p = sx(in[i], 8), q = in[i + 512] & 255;
    uint32_t r = sx(a + b, 16);
    r = r * 31u + sx(a * b, 16) + x / y + x % y;
    r = r * 31u + (s32(a) < s32(b) ? a : b) + (x > y ? x : y);
    r = r * 31u + p * q + (uint32_t)(s32(p) >> 2) + (q >> 3);
    r = r * 31u + sx(x << 3, 16) + (~x & 0xFFFF);
    r = r * 31u + (s32(p) < 0) + (q > 200) + (a == b);
    out[i] = r;
  }
}

static uint64_t field(uint64_t v, uint32_t at, uint32_t n, uint32_t width,
                      bool is_signed) {
  uint64_t r = 0, fill = 0;
  uint32_t last = at + n - 1 < width ? at + n - 1 : width - 1;
  if (is_signed && n) fill = v >> last & 1;
  for (uint32_t k = 0; k < width; k++) {
    uint64_t bit = k < n && at + k < width ? v >> (at + k) & 1 : fill;
    r |= bit << k;
  }
  return r;
}

static uint32_t highest(uint64_t v, bool wants_shift) {
  for (uint32_t n = 32; n-- > 0;)
    if (v >> n & 1) return wants_shift ? 31 - n : n;
  return 0xFFFFFFFFu;
}

static void int_forms(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t a = in[i], b = in[i + 512], c = in[(i * 7) % 1024], t;
    uint64_t w = (uint64_t)a << 32 | b, both = (uint64_t)b << 32 | a;
    uint32_t r = (uint32_t)field(a, b & 63u, c & 63u, 32, false);
    r = r * 31u + (uint32_t)field(a, b & 63u, c & 63u, 32, true);
    t = b;
    for (uint32_t k = 0; k < (b >> 3 & 63u) && (c & 63u) + k < 32; k++) {
      uint32_t bit = 1u << ((c & 63u) + k);
      t = (t & ~bit) | (a >> k & 1 ? bit : 0);
    }
    r = r * 31u + t;
    uint64_t v = field(w, b & 127u, c & 127u, 64, false);
    r = r * 31u + (uint32_t)v + (uint32_t)(v >> 32);
    t = 0;
    for (int k = 0; k < 32; k++)
      t |= (0xD8u >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) &
            1u) << k;
    r = r * 31u + t;
    r = r * 31u + highest(a >> (b & 31u), false);
    int32_t x = s32(a) >> (b & 31u);
    r = r * 31u + highest((uint32_t)(x < 0 ? ~x : x), true);
    r = r * 31u + (uint32_t)(both >> (8 * (c & 3u)));
    t = 0;
    for (uint32_t k = 0; k < 4; k++)
      t |= byte_of(a, (int)max_u(k, c & 3u)) << (8 * k);
    r = r * 31u + t;
    int64_t sum = (int64_t)s32(a) + s32(b);
    sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    r = r * 31u + (uint32_t)sum;
    r = r * 31u + (uint32_t)((int64_t)s32(a) * s32(b) >> 32) + c;
    r = r * 31u + ((a >> (b & 31u) & 1) == 0);
    r = r * 31u + ((b & 63u) > 31 ? 0 : a << (b & 31u));
    r = r * 31u + (uint32_t)((int64_t)s32(a) >> (b & 63u));
    out[i] = r;
  }
}

/* -- f32, f64: the host's operations under its rounding modes -- */

static float small_f(uint32_t w) {
  return (float)(w % 20011u) / 64.0f - 150.0f;
}
static float any_f(uint32_t w) {
  float f;
  memcpy(&f, &w, 4);
  return f;
}
static uint32_t bits(float f) {
  uint32_t w;
  memcpy(&w, &f, 4);
  return isnan(f) ? 0x7FFFFFFFu : w;
}
static void put(uint32_t *out, double d) {
  uint64_t w;
  memcpy(&w, &d, 8);
  if (isnan(d)) w = UINT64_C(0x7FFFFFFFFFFFFFFF);
  out[0] = (uint32_t)w;
  out[1] = (uint32_t)(w >> 32);
}

/* rn rz ru rd, in the kernels' order */
static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD,
                            FE_DOWNWARD};
#define ROUNDED(mode, expression)                                             \
  (fesetround(mode), result_ = (expression), fesetround(FE_TONEAREST),        \
   result_)

static void f_round(const uint32_t *in, uint32_t *out) {
  volatile float result_;
  EACH {
    volatile float a = any_f(in[i]), b = any_f(in[i + 512]);
    volatile float c = small_f(in[(i * 7) % 1024]);
    for (int k = 0; k < 4; k++) {
      out[12 * i + (uint32_t)k] = bits(ROUNDED(modes[k], a + b));
      out[12 * i + 4 + (uint32_t)k] = bits(ROUNDED(modes[k], a * c));
      out[12 * i + 8 + (uint32_t)k] = bits(ROUNDED(modes[k], fmaf(a, c, b)));
    }
  }
}

static void f_divide(const uint32_t *in, uint32_t *out) {
  volatile float result_;
  EACH {
    volatile float a = any_f(in[i]), c = small_f(in[i + 512]);
    for (int k = 0; k < 4; k++) {
      out[12 * i + (uint32_t)k] = bits(ROUNDED(modes[k], a / c));
      out[12 * i + 4 + (uint32_t)k] = bits(ROUNDED(modes[k], 1.0f / a));
      out[12 * i + 8 + (uint32_t)k] = bits(ROUNDED(modes[k], sqrtf(a)));
    }
  }
}

static float least(float a, float b) {
  if (isnan(a)) return b;
  if (isnan(b)) return a;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}

static void f_select(const uint32_t *in, uint32_t *out) {
  EACH {
    float a = any_f(in[i]), b = any_f(in[i + 512]);
    if (i % 5 == 0) a = NAN;
    if (i % 7 == 0) b = INFINITY;
    if (i % 11 == 0) a = -0.0f, b = 0.0f;
    uint32_t *o = out + 8 * i;
    o[0] = bits(least(a, b));
    o[1] = bits(-least(-a, -b));
    o[2] = isnan(a) ? 0x7FFFFFFFu : bits(a) & 0x7FFFFFFFu;
    o[3] = isnan(b) ? 0x7FFFFFFFu : bits(signbit(a) ? -fabsf(b) : fabsf(b));
    o[4] = bits(-b);
    bool known = !isnan(a) && !isnan(b), lt = known && a < b,
         gt = known && a > b, eq = known && !lt && !gt;
    o[5] = (uint32_t)lt | (uint32_t)(lt || eq) << 1 | (uint32_t)eq << 2 |
           (uint32_t)!eq << 3 |
           (uint32_t)(gt || eq) << 4 | (uint32_t)gt << 5 |
           (uint32_t)!lt << 6 | (uint32_t)!gt << 7;
    o[6] = bits(isnan(a) || a <= 0 ? 0.0f : a > 1 ? 1.0f : a);
    o[7] = bits(gt ? a : b);
  }
}

static uint32_t clamp_u(float f) {
  if (isnan(f) || f <= 0) return 0;
  return f >= 4294967296.0f ? 0xFFFFFFFFu : (uint32_t)rint((double)f);
}
static uint32_t clamp_s(double f) {
  if (isnan(f)) return 0;
  if (f >= 2147483647.0) return 0x7FFFFFFFu;
  return f <= -2147483648.0 ? 0x80000000u : (uint32_t)(int64_t)f;
}

static void f_to_int(const uint32_t *in, uint32_t *out) {
  volatile float result_;
  EACH {
    float a = small_f(in[i]), b = any_f(in[i + 512]);
    double d = (double)small_f(in[(i * 3) % 1024]) * 1e7;
    volatile uint32_t w = in[i];
    volatile int32_t n = s32(w);
    uint32_t *o = out + 12 * i;
    o[0] = (uint32_t)(int32_t)rintf(a), o[1] = (uint32_t)(int32_t)a;
    o[2] = (uint32_t)(int32_t)ceilf(a), o[3] = (uint32_t)(int32_t)floorf(a);
    o[4] = clamp_u(b), o[5] = clamp_s((double)b);
    o[6] = clamp_s(rint(d)), o[7] = clamp_s(floor(d));
    o[8] = bits((float)n), o[9] = bits(ROUNDED(FE_TOWARDZERO, (float)n));
    o[10] = bits(ROUNDED(FE_UPWARD, (float)w));
    o[11] = bits(ROUNDED(FE_DOWNWARD, (float)w));
  }
}

static void f_long(const uint32_t *in, uint32_t *out) {
  volatile float result_;
  EACH {
    volatile uint64_t w = (uint64_t)in[i] << 32 | in[i + 512];
    volatile int64_t s = s64(w);
    volatile float a = small_f(in[i]) * 1e9f;
    volatile double d, r;
    uint64_t raw = w;
    memcpy((void *)&d, &raw, 8);
    uint64_t n = (uint64_t)(int64_t)rint((double)a);
    uint32_t *o = out + 12 * i;
    o[0] = (uint32_t)n, o[1] = (uint32_t)(n >> 32);
    o[2] = bits((float)s), o[3] = bits(ROUNDED(FE_TOWARDZERO, (float)w));
    put(o + 4, (double)w);
    fesetround(FE_DOWNWARD);
    r = (double)s;
    fesetround(FE_TONEAREST);
    put(o + 6, r);
    o[8] = bits((float)d), o[9] = bits(ROUNDED(FE_TOWARDZERO, (float)d));
    n = (uint64_t)(int64_t)((double)small_f(in[i]) * 1e12);
    o[10] = (uint32_t)n, o[11] = (uint32_t)(n >> 32);
  }
}

static void f_double(const uint32_t *in, uint32_t *out) {
  volatile double result_;
  EACH {
    uint64_t raw = (uint64_t)in[i] << 32 | in[i + 512];
    volatile double a, b = (double)small_f(in[(i * 3) % 1024]);
    volatile double c = (double)small_f(in[i]) / 3.0;
    memcpy((void *)&a, &raw, 8);
    uint32_t *o = out + 28 * i;
    for (int k = 0; k < 4; k++) put(o + 2 * k, ROUNDED(modes[k], b + c));
    put(o + 8, a * c), put(o + 10, ROUNDED(FE_UPWARD, a * c));
    put(o + 12, fma(b, c, a));
    put(o + 14, ROUNDED(FE_DOWNWARD, fma(b, c, a)));
    put(o + 16, a / c), put(o + 18, ROUNDED(FE_TOWARDZERO, b / c));
    put(o + 20, sqrt(c)), put(o + 22, 1.0 / c);
    put(o + 24, isnan(a) ? b + b : a + b);
    put(o + 26, (isnan(a) ? (double)NAN : fabs(a)) - a);
  }
}

static void f_whole(const uint32_t *in, uint32_t *out) {
  EACH {
    float a = small_f(in[i]), b = small_f(in[i + 512]);
    double d = (double)a * 1.75;
    uint32_t *o = out + 14 * i;
    o[0] = bits(floorf(a)), o[1] = bits(ceilf(a)), o[2] = bits(truncf(a));
    o[3] = bits(rintf(a)), o[4] = bits(roundf(a)), o[5] = bits(fmodf(a, b));
    o[6] = bits(remainderf(a, b));
    o[7] = bits(a * (float)pow(2, (int)(in[i] % 40u) - 20));
    put(o + 8, floor(d)), put(o + 10, rint(d));
    put(o + 12, trunc(d) + ceil(d));
  }
}

static void f_class(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t w = in[i];
    if (i % 4 == 1) w &= 0x807FFFFFu;
    if (i % 4 == 2) w |= 0x7F800000u;
    if (i % 8 == 3) w = (w & 0x80000000u) | 0x7F800000u;
    bool top = (w >> 23 & 255) == 255, is_nan = top && (w & 0x7FFFFF);
    out[i] = (is_nan ? 17u : 0) | (top && !is_nan ? 2u : 0) |
             (top ? 0 : 4u) | (w >> 31 ? 8u : 0) |
             (!is_nan && (w & 0x7FFFFFFF) > 0x3F800000u ? 64u : 0);
  }
}

static void f_fast(const uint32_t *in, uint32_t *out) {
  EACH {
    double a = (double)small_f(in[i]), p = fabs(a) + 0.125;
    float f[8] = {(float)exp2(a / 16), (float)log2(p), (float)sin(a / 32),
                  (float)cos(a / 32), (float)(1 / sqrt(p)), (float)(a / p),
                  (float)tanh(a / 64), (float)(1 / p)};
    memcpy(out + 8 * i, f, sizeof f);
  }
}

static void f_math(const uint32_t *in, uint32_t *out) {
  EACH {
    double a = (double)small_f(in[i]), p = fabs(a) + 0.125;
    float f[10] = {(float)exp(a / 4), (float)log(p), (float)sin(a),
                   (float)cos((double)((float)a * 1000.0f)),
                   (float)tanh((double)((float)a / 50.0f)),
                   (float)pow(p, 1.5),
                   (float)erf((double)((float)a / 90.0f)),
                   (float)atan2(a, p - 3), (float)cbrt(a), (float)log1p(p)};
    memcpy(out + 10 * i, f, sizeof f);
  }
}

static void f_math64(const uint32_t *in, uint32_t *out) {
  EACH {
    double a = (double)small_f(in[i]) / 7.0, p = fabs(a) + 0.125;
    double f[8] = {exp(a),       log(p),  sin(a * 100.0), cos(a),
                   pow(p, 1.75), tanh(a), cbrt(a),        erf(a / 30.0)};
    memcpy(out + 16 * i, f, sizeof f);
  }
}

/* -- narrow floats: a format is its table of values -- */

typedef struct narrow_t {
  int ebits, fbits, bias;
  bool has_infinity;
} narrow_t;
static const narrow_t f16 = {5, 10, 15, true}, b16 = {8, 7, 127, true};
static const narrow_t e4m3 = {4, 3, 7, false}, e5m2 = {5, 2, 15, true};

static double value(const narrow_t *f, uint32_t code) {
  uint32_t e = code >> f->fbits & ((1u << f->ebits) - 1);
  uint32_t m = code & ((1u << f->fbits) - 1), top = (1u << f->ebits) - 1;
  double v = e ? ldexp(m + (double)(1u << f->fbits), (int)e - f->bias -
                                                          f->fbits)
               : ldexp(m, 1 - f->bias - f->fbits);
  if (f->has_infinity && e == top) v = m ? (double)NAN : (double)INFINITY;
  if (!f->has_infinity && e == top && m == (1u << f->fbits) - 1)
    v = (double)NAN;
  return code >> (f->ebits + f->fbits) & 1 ? -v : v;
}

/* The code for x by bisection over the codes of one sign. mode: as in the
   array above. An exact tie and the sign of zero follow IEEE 754. */
static uint32_t code_of(const narrow_t *f, double x, int mode,
                        bool saturates) {
  uint32_t sign = signbit(x) ? 1u << (f->ebits + f->fbits) : 0;
  uint32_t top = (1u << f->ebits) - 1, max_code;
  if (isnan(x))
    return f->has_infinity ? (1u << (f->ebits + f->fbits)) - 1
                           : (1u << (f->ebits + f->fbits)) - 1;
  max_code = f->has_infinity ? (top << f->fbits) - 1
                             : (top << f->fbits | ((1u << f->fbits) - 2));
  double a = fabs(x);
  bool up = (mode == FE_UPWARD && !sign) || (mode == FE_DOWNWARD && sign);
  bool nearest = mode == FE_TONEAREST;
  double last = value(f, max_code), step = last - value(f, max_code - 1);
  if (a > last) {
    bool over = nearest ? a >= last + step / 2 : up;
    return sign | (over && !saturates ? max_code + 1 : max_code);
  }
  uint32_t low = 0, high = max_code; /* value(low) <= a <= value(high) */
  while (high - low > 1) {
    uint32_t mid = (low + high) / 2;
    if (value(f, mid) <= a) low = mid;
    else high = mid;
  }
  double down = a - value(f, low), rest = value(f, high) - a;
  if (down == 0) return sign | low;
  if (rest == 0) return sign | high;
  if (nearest)
    return sign | (down < rest ? low : down > rest ? high : low + (low & 1));
  return sign | (up ? high : low);
}

static uint32_t h(double x) { return code_of(&f16, x, FE_TONEAREST, false); }
static uint32_t b(double x) { return code_of(&b16, x, FE_TONEAREST, false); }
static double hv(uint32_t code) { return value(&f16, code & 0xFFFF); }
static double bv(uint32_t code) { return value(&b16, code & 0xFFFF); }
static uint32_t nan_or(uint32_t code, const narrow_t *f) {
  return isnan(value(f, code)) ? 0x7FFF : code;
}

/* a * b + c of halves, rounded once to 53 bits by odd: exact enough to be
   rounded again to 11. */
static double fused(double x, double y, double z) {
  volatile double p = x * y, r, e;
  r = p + z;
  if (isnan(r) || isinf(r)) return r;
  e = (p - (r - (r - p))) + (z - (r - p)); /* what the sum lost */
  uint64_t w;
  double s = r;
  memcpy(&w, &s, 8);
  if (e != 0 && !(w & 1)) {
    bool away = (e > 0) == (s > 0);
    w = away ? w | 1 : w - 1;
    memcpy(&s, &w, 8);
  }
  return s;
}

static void h_arith(const uint32_t *in, uint32_t *out) {
  EACH {
    double x = hv(in[i]), y = hv(in[i] >> 16), z = hv(in[i + 512]);
    uint32_t *o = out + 8 * i;
    o[0] = h(x + y), o[1] = h(x - y), o[2] = h(x * y);
    o[3] = h(fused(x, y, z));
    o[4] = nan_or(in[i] & 0x7FFF, &f16);
    o[5] = nan_or((in[i] >> 16) ^ 0x8000, &f16);
    o[6] = h(fused(x, z, z)) | h(fused(y, x, x)) << 16;
    o[7] = h(x + z) | h(y + x) << 16;
  }
}

static double low_of(double x, double y) {
  if (isnan(x) || isnan(y)) return isnan(x) ? y : x;
  if (x == y) return signbit(x) ? x : y;
  return x < y ? x : y;
}

static void h_compare(const uint32_t *in, uint32_t *out) {
  EACH {
    double x = hv(in[i]), y = hv(in[i + 512]);
    if (i % 9 == 0) x = y;
    bool known = !isnan(x) && !isnan(y), lt = known && x < y,
         gt = known && x > y, eq = known && x == y, self = !isnan(y);
    out[3 * i] = lt | (uint32_t)(lt || eq) << 1 | (uint32_t)eq << 2 |
                 (uint32_t)(known && !eq) << 3 | (uint32_t)(gt || eq) << 4 |
                 (uint32_t)gt << 5 | (uint32_t)(lt || !known) << 6 |
                 (uint32_t)(!lt || !known) << 7 |
                 (uint32_t)(eq || !known) << 8 |
                 (uint32_t)(eq && self) << 9 |
                 (uint32_t)(!lt || !known) << 10;
    out[3 * i + 1] = h(low_of(x, y)) | h(-low_of(-x, -y)) << 16;
    out[3 * i + 2] = gt ? 0x3C00u : 0;
  }
}

static void b_arith(const uint32_t *in, uint32_t *out) {
  EACH {
    double x = bv(in[i]), y = bv(in[i] >> 16), z = bv(in[i + 512]);
    bool known = !isnan(x) && !isnan(y);
    uint32_t *o = out + 6 * i;
    o[0] = b(fused(x, 1, y)), o[1] = b(fused(x, 1, -y)), o[2] = b(x * y);
    o[3] = b(fused(x, y, z));
    o[4] = b(low_of(x, y)) | b(-low_of(-x, -y)) << 16;
    o[5] = (uint32_t)(known && x < y) | (uint32_t)(known && x == y) << 1 |
           (uint32_t)(!known || x >= y) << 2;
  }
}

static void h_convert(const uint32_t *in, uint32_t *out) {
  EACH {
    uint32_t w = (in[i] & 0x9FFFFFFFu) | (in[i] & 0x100u ? 0x30000000u : 0);
    double f = (double)any_f(w), s = (double)small_f(in[i]);
    uint32_t *o = out + 8 * i;
    o[0] = h(f) | code_of(&f16, f, FE_TOWARDZERO, false) << 16;
    o[1] = code_of(&f16, f, FE_UPWARD, false) |
           code_of(&f16, f, FE_DOWNWARD, false) << 16;
    o[2] = b(f) | code_of(&b16, f, FE_TOWARDZERO, false) << 16;
    o[3] = h(f) | h((double)small_f(in[i + 512])) << 16;
    float wide = (float)hv(in[i]);
    o[4] = (in[i] & 0x7C00) == 0x7C00 ? 0 : bits(wide);
    o[5] = bits(small_f(in[i])) ^ (uint32_t)(int32_t)hv(h(s));
    o[6] = h((double)(s32(in[i]) >> 14)) | h((double)(in[i] >> 18)) << 16;
    o[7] = b(s) | b(f) << 16;
  }
}

static void fp8_convert(const uint32_t *in, uint32_t *out) {
  EACH {
    double x = (double)any_f((in[i] & 0x8FFFFFFFu) | 0x38000000u);
    double y = (double)small_f(in[i + 512]);
    uint32_t *o = out + 4 * i;
    o[0] = code_of(&e4m3, x, FE_TONEAREST, true) |
           code_of(&e4m3, y, FE_TONEAREST, true) << 8;
    o[1] = code_of(&e5m2, y, FE_TONEAREST, true) |
           code_of(&e5m2, x, FE_TONEAREST, true) << 8;
    o[2] = h(value(&e4m3, in[i] & 255));
    o[3] = h(value(&e5m2, in[i] & 255));
  }
}

static void h_math(const uint32_t *in, uint32_t *out) {
  EACH {
    double x = hv(h((double)(small_f(in[i]) / 16.0f)));
    double p = hv(h(fabs(x) + 0.25));
    float f[6] = {(float)exp2(x),        (float)log2(p), (float)(1 / sqrt(p)),
                  (float)(1 / p), (float)sqrt(p), (float)floor(x)};
    memcpy(out + 6 * i, f, sizeof f);
  }
}

static void h_sum(const uint32_t *in, uint32_t *out) {
  EACH {
    out[i / 128] += (in[i] % 7u) << 16;
    out[i / 128] += in[i] % 5u;
  }
}

#define ROW(file, name, words) \
  {file ".cu", #name, {4, 1, 1}, {128, 1, 1}, 0, words, name, CU_EXACT, 0, 0}
#define NEAR(file, name, words, how, bound)                                   \
  {file ".cu", #name, {4, 1, 1}, {128, 1, 1}, 0, words, name, how, bound, 0}

static const cu_row_t rows[] = {
    ROW("integer", int_arith, 512),
    ROW("integer", int_high, 2048),
    ROW("integer", int_bits, 512),
    ROW("integer", int_long, 1024),
    ROW("integer", int_carry, 1024),
    ROW("integer", int_bytes, 512),
    ROW("integer", int_short, 512),
    ROW("integer", int_forms, 512),
    ROW("float", f_round, 6144),
    ROW("float", f_divide, 6144),
    ROW("float", f_select, 4096),
    ROW("float", f_to_int, 6144),
    ROW("float", f_long, 6144),
    ROW("float", f_double, 14336),
    ROW("float", f_whole, 7168),
    ROW("float", f_class, 512),
    NEAR("float", f_fast, 4096, CU_FLOAT, 0x1p-10),
    NEAR("float", f_math, 5120, CU_FLOAT, 0x1p-20),
    NEAR("float", f_math64, 8192, CU_DOUBLE, 0x1p-49),
    ROW("half", h_arith, 4096),
    ROW("half", h_compare, 1536),
    {"half.cu", "b_arith", {4, 1, 1}, {128, 1, 1}, 0, 3072, b_arith,
     CU_EXACT, 0, 80},
    ROW("half", h_convert, 4096),
    ROW("half", fp8_convert, 2048),
    NEAR("half", h_math, 3072, CU_FLOAT, 0x1p-9),
    ROW("half", h_sum, 4)};

static void conformance(void **state) {
  (void)state;
  cu_all(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(conformance)};
  return cmocka_run_group_tests_name("simgpu.cu_scalar", tests, NULL, NULL);
}
