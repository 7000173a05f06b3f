#include "runtime/simgpu/sfu.h"

#include <fenv.h>
#include <math.h>

const sim_format_t sim_format_f32 = {24, -126, 127, 32, true};
const sim_format_t sim_format_f16 = {11, -14, 15, 16, true};
const sim_format_t sim_format_bf16 = {8, -126, 127, 16, true};
const sim_format_t sim_format_e4m3 = {4, -6, 8, 8, false};
const sim_format_t sim_format_e5m2 = {3, -14, 15, 8, true};
/* 10 fraction bits in a 32-bit word: encoded as 19 bits and shifted */
const sim_format_t sim_format_tf32 = {11, -126, 127, 19, true};

const sim_format_t *sim_format_of(ptx_type_t type) {
  switch (type) {
  case PTX_F32: return &sim_format_f32;
  case PTX_F16:
  case PTX_F16X2: return &sim_format_f16;
  case PTX_BF16:
  case PTX_BF16X2: return &sim_format_bf16;
  case PTX_E4M3:
  case PTX_E4M3X2: return &sim_format_e4m3;
  case PTX_E5M2:
  case PTX_E5M2X2: return &sim_format_e5m2;
  case PTX_TF32: return &sim_format_tf32;
  default: return NULL;
  }
}

/* True if a value between kept and kept + 1 goes up. half: the first dropped
   bit; rest: any later one. */
static bool rounds_up(bool sign, bool is_odd, bool half, bool rest,
                      sim_round_t mode) {
  switch (mode) {
  case SIM_RN: return half && (rest || is_odd);
  case SIM_RNA: return half;
  case SIM_RZ: return false;
  case SIM_RM: return sign && (half || rest);
  case SIM_RP: return !sign && (half || rest);
  }
  return false;
}

typedef struct pieces_t {
  uint64_t kept;
  int exponent; /* of kept's last bit */
} pieces_t;

/* Keeps `precision` bits, fewer below emin. */
static pieces_t round_off(int precision, int emin, bool sign, uint64_t sig,
                          int exponent, bool sticky, sim_round_t mode) {
  int top = exponent + 63 - __builtin_clzll(sig);
  int last = (top >= emin ? top : emin) - (precision - 1);
  int shift = last - exponent;
  pieces_t out = {0, last};
  if (shift <= 0) {
    out.kept = sig << -shift;
    if (sticky && rounds_up(sign, out.kept & 1, false, true, mode))
      out.kept++;
    return out;
  }
  bool half, rest;
  if (shift > 64) {
    half = false;
    rest = true;
  } else {
    out.kept = shift == 64 ? 0 : sig >> shift;
    half = sig >> (shift - 1) & 1;
    rest = (sig & ((UINT64_C(1) << (shift - 1)) - 1)) != 0 || sticky;
  }
  if (rounds_up(sign, out.kept & 1, half, rest, mode)) out.kept++;
  if (out.kept >> precision) {
    out.kept >>= 1;
    out.exponent++;
  }
  return out;
}

static uint32_t max_code(const sim_format_t *f) {
  int fraction = f->precision - 1;
  uint32_t field = (uint32_t)(f->emax - f->emin + 1) << fraction;
  uint32_t ones = (1u << fraction) - 1;
  return field | (f->has_infinity ? ones : ones - 1);
}

static uint32_t overflow(const sim_format_t *f, bool sign, sim_round_t mode,
                         bool is_finite) {
  bool to_max = is_finite || mode == SIM_RZ || (mode == SIM_RM && !sign) ||
                (mode == SIM_RP && sign);
  uint32_t sign_bit = (uint32_t)sign << (f->bits - 1);
  return sign_bit | (max_code(f) + (to_max ? 0 : 1));
}

uint32_t sim_pack(const sim_format_t *f, bool sign, uint64_t sig,
                  int exponent, bool sticky, sim_round_t mode,
                  bool is_finite) {
  uint32_t sign_bit = (uint32_t)sign << (f->bits - 1);
  if (sig == 0) return sign_bit;
  pieces_t p = round_off(f->precision, f->emin, sign, sig, exponent, sticky,
                         mode);
  int fraction = f->precision - 1;
  if (p.kept >> fraction == 0) return sign_bit | (uint32_t)p.kept;
  int top = p.exponent + fraction;
  if (top > f->emax) return overflow(f, sign, mode, is_finite);
  uint32_t code = (uint32_t)(top - f->emin + 1) << fraction |
                  ((uint32_t)p.kept & ((1u << fraction) - 1));
  if (code > max_code(f)) return overflow(f, sign, mode, is_finite);
  return sign_bit | code;
}

uint64_t sim_pack_f64(bool sign, uint64_t sig, int exponent,
                      sim_round_t mode) {
  uint64_t sign_bit = (uint64_t)sign << 63;
  if (sig == 0) return sign_bit;
  /* integers of at most 64 bits: never subnormal, never too large */
  pieces_t p = round_off(53, -1022, sign, sig, exponent, false, mode);
  return sign_bit | (uint64_t)(p.exponent + 52 + 1023) << 52 |
         (p.kept & ((UINT64_C(1) << 52) - 1));
}

typedef struct split_t {
  bool sign, is_nan, is_infinite;
  uint64_t sig;
  int exponent;
} split_t;

static split_t split(double value) {
  uint64_t bits;
  split_t s = {0};
  memcpy(&bits, &value, sizeof bits);
  s.sign = bits >> 63;
  int field = (int)(bits >> 52 & 0x7FF);
  uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
  if (field == 0x7FF) {
    s.is_nan = fraction != 0;
    s.is_infinite = fraction == 0;
  } else {
    s.sig = field ? fraction | UINT64_C(1) << 52 : fraction;
    s.exponent = (field ? field : 1) - 1075;
  }
  return s;
}

uint32_t sim_narrow(const sim_format_t *f, double value, sim_round_t mode,
                    bool is_finite) {
  split_t s = split(value);
  uint32_t all = (f->bits == 32 ? 0 : 1u << (f->bits - 1)) - 1;
  if (f->bits == 32) all = 0x7FFFFFFF;
  uint32_t sign_bit = (uint32_t)s.sign << (f->bits - 1);
  if (s.is_nan) return all;
  if (s.is_infinite) {
    if (is_finite) return sign_bit | max_code(f);
    return sign_bit | (max_code(f) + 1);
  }
  return sim_pack(f, s.sign, s.sig, s.exponent, false, mode, is_finite);
}

double sim_widen(const sim_format_t *f, uint32_t code) {
  int fraction = f->precision - 1;
  bool sign = code >> (f->bits - 1) & 1;
  uint32_t magnitude = code & ((1u << (f->bits - 1)) - 1);
  if (magnitude > max_code(f)) {
    if (f->has_infinity && magnitude == max_code(f) + 1)
      return sign ? -(double)INFINITY : (double)INFINITY;
    return sim_double_bits(UINT64_C(0x7FF8000000000000));
  }
  int field = (int)(magnitude >> fraction);
  uint64_t sig = magnitude & ((1u << fraction) - 1);
  if (field) sig |= UINT64_C(1) << fraction;
  int exponent = (field ? field : 1) - 1 + f->emin - fraction;
  return sim_double_bits(sim_pack_f64(sign, sig, exponent, SIM_RN));
}

double sim_round_integral(double value, sim_round_t mode) {
  split_t s = split(value);
  if (s.is_nan || s.is_infinite || s.sig == 0 || s.exponent >= 0)
    return value;
  uint64_t kept;
  bool half, rest;
  int shift = -s.exponent;
  if (shift > 63) {
    kept = 0;
    half = false;
    rest = true;
  } else {
    kept = s.sig >> shift;
    half = s.sig >> (shift - 1) & 1;
    rest = (s.sig & ((UINT64_C(1) << (shift - 1)) - 1)) != 0;
  }
  if (rounds_up(s.sign, kept & 1, half, rest, mode)) kept++;
  double out = (double)kept;
  return s.sign ? -out : out;
}

/* -- arithmetic by rounding to odd -- */

/* q is the nearest double to a value that lies above it (error > 0), below
   (error < 0) or equals it: the neighbour with an odd last bit if inexact. */
static double to_odd(double q, double error) {
  uint64_t bits;
  memcpy(&bits, &q, sizeof bits);
  if (error == 0 || error != error || (bits & 1)) return q;
  if (q == 0) return error > 0 ? sim_double_bits(1)
                               : sim_double_bits(UINT64_C(1) << 63 | 1);
  bool away = (error > 0) == (q > 0);
  return sim_double_bits(away ? bits + 1 : bits - 1);
}

static bool is_finite(double x) {
  return x - x == 0;
}

static double add_odd(double a, double b) {
  volatile double s = a + b;
  if (!is_finite(s)) return s;
  volatile double bb = s - a;
  volatile double t = s - bb;
  volatile double error = (a - t) + (b - bb);
  return to_odd(s, error);
}

double sim_fma_odd(double a, double b, double c) {
  return add_odd(a * b, c);
}

static float narrow_f32(double value, sim_round_t mode) {
  uint32_t bits = sim_narrow(&sim_format_f32, value, mode, false);
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Exact zeros of a sum are -0 when rounding down, unless both were +0. */
static double fix_zero(double sum, double a, double b, sim_round_t mode) {
  if (sum != 0 || mode != SIM_RM) return sum;
  bool both_plus = !signbit(a) && !signbit(b) && a == 0 && b == 0;
  return both_plus ? 0.0 : -0.0;
}

float sim_add_f32(float a, float b, sim_round_t mode) {
  double s = add_odd((double)a, (double)b);
  return narrow_f32(fix_zero(s, (double)a, (double)b, mode), mode);
}

float sim_mul_f32(float a, float b, sim_round_t mode) {
  return narrow_f32((double)a * (double)b, mode);
}

float sim_fma_f32(float a, float b, float c, sim_round_t mode) {
  double p = (double)a * (double)b;
  double s = add_odd(p, (double)c);
  return narrow_f32(fix_zero(s, p, (double)c, mode), mode);
}

float sim_div_f32(float a, float b, sim_round_t mode) {
  double x = (double)a, y = (double)b, q = x / y;
  if (!is_finite(q) || q == 0 || !is_finite(y)) return narrow_f32(q, mode);
  double r = fma(-q, y, x);
  return narrow_f32(to_odd(q, y > 0 ? r : -r), mode);
}

float sim_sqrt_f32(float a, sim_round_t mode) {
  double x = (double)a, q = sqrt(x);
  if (!is_finite(q) || q == 0) return narrow_f32(q, mode);
  return narrow_f32(to_odd(q, fma(-q, q, x)), mode);
}

double sim_op_f64(char op, double a, double b, double c, sim_round_t mode) {
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD,
                              FE_UPWARD, FE_TONEAREST};
  volatile double x = a, y = b, z = c, r = 0;
  fesetround(modes[mode]);
  switch (op) {
  case '+': r = x + y; break;
  case '-': r = x - y; break;
  case '*': r = x * y; break;
  case '/': r = x / y; break;
  case 's': r = sqrt(x); break;
  case 'f': r = fma(x, y, z); break;
  default: break;
  }
  fesetround(FE_TONEAREST);
  return r;
}

/* -- trigonometric -- */

/* Quadrant and rest of x, |rest| <= pi/4. pi/2 in three parts, the first two
   of 33 bits, so that multiples by up to 2^20 are exact. */
static double reduce(double x, int *quadrant) {
  if (fabs(x) > 1e6) {
    /* outside every documented bound: only the range of the result counts */
    x = fmod(x, 6.283185307179586477);
  }
  double k = sim_round_integral(x * 0.63661977236758134308, SIM_RN);
  double r = x - k * 1.57079632673412561417;
  r = r - k * 6.07710050630396597660e-11;
  r = r - k * 2.02226624871116645580e-21;
  *quadrant = (int)((int64_t)k & 3);
  return r;
}

static double sine(double r) {
  double q = r * r;
  double p = -1.0 / 1307674368000.0;
  p = p * q + 1.0 / 6227020800.0;
  p = p * q - 1.0 / 39916800.0;
  p = p * q + 1.0 / 362880.0;
  p = p * q - 1.0 / 5040.0;
  p = p * q + 1.0 / 120.0;
  p = p * q - 1.0 / 6.0;
  return r + r * q * p;
}

static double cosine(double r) {
  double q = r * r;
  double p = 1.0 / 20922789888000.0;
  p = p * q - 1.0 / 87178291200.0;
  p = p * q + 1.0 / 479001600.0;
  p = p * q - 1.0 / 3628800.0;
  p = p * q + 1.0 / 40320.0;
  p = p * q - 1.0 / 720.0;
  p = p * q + 1.0 / 24.0;
  p = p * q - 0.5;
  return 1.0 + q * p;
}

static float circular(float x, int add) {
  double d = (double)x;
  if (!is_finite(d)) return narrow_f32((double)NAN, SIM_RN);
  int quadrant;
  double r = reduce(d, &quadrant);
  quadrant = (quadrant + add) & 3;
  double v = quadrant & 1 ? cosine(r) : sine(r);
  return (float)(quadrant & 2 ? -v : v);
}

float sim_sin(float x) {
  return x == 0 ? x : circular(x, 0);
}

float sim_cos(float x) {
  return circular(x, 1);
}

float sim_tanh(float x) {
  double d = (double)x, m = fabs(d);
  if (d != d) return narrow_f32((double)NAN, SIM_RN);
  if (m < 0.02) {
    double q = d * d;
    return (float)(d + d * q * (-1.0 / 3.0 +
                                q * (2.0 / 15.0 - q * (17.0 / 315.0))));
  }
  if (m > 20) return d > 0 ? 1.0f : -1.0f;
  double e = sim_exp2(m * 2.8853900817779268147);
  double t = 1.0 - 2.0 / (e + 1.0);
  return (float)(d > 0 ? t : -t);
}
