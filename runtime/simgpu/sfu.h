/* Rounding, conversions and approximate functions. All from integers and
   plain double arithmetic, so that results do not depend on the host. The
   inline part is what handlers want vectorized. */
#ifndef SIM_SFU_H
#define SIM_SFU_H

#include "runtime/simgpu/decode.h"

/* A binary floating-point format. */
typedef struct sim_format_t {
  int precision; /* significand bits, the hidden one included */
  int emin, emax; /* exponents of the smallest and largest normal number */
  int bits;       /* of the encoding */
  bool has_infinity; /* else the largest code is NaN (e4m3) */
} sim_format_t;

extern const sim_format_t sim_format_f32, sim_format_f16, sim_format_bf16,
    sim_format_e4m3, sim_format_e5m2, sim_format_tf32;
/* NULL if the type is no narrow float. */
const sim_format_t *sim_format_of(ptx_type_t type);

/* Encodes (-1)^sign * significand * 2^exponent, plus a little more if sticky,
   rounded once. is_finite: overflow gives the largest finite value. */
uint32_t sim_pack(const sim_format_t *f, bool sign, uint64_t significand,
                  int exponent, bool sticky, sim_round_t mode,
                  bool is_finite);
/* As sim_pack, for binary64. */
uint64_t sim_pack_f64(bool sign, uint64_t significand, int exponent,
                      sim_round_t mode);
/* A double into a narrow format; NaN becomes the format's canonical one. */
uint32_t sim_narrow(const sim_format_t *f, double value, sim_round_t mode,
                    bool is_finite);
/* A code of a narrow format as the double it stands for. */
double sim_widen(const sim_format_t *f, uint32_t code);
/* To an integral value. */
double sim_round_integral(double value, sim_round_t mode);

/* f32 arithmetic in a given rounding mode. */
float sim_add_f32(float a, float b, sim_round_t mode);
float sim_mul_f32(float a, float b, sim_round_t mode);
float sim_fma_f32(float a, float b, float c, sim_round_t mode);
float sim_div_f32(float a, float b, sim_round_t mode);
float sim_sqrt_f32(float a, sim_round_t mode);
/* f64 in a directed mode, through the host's rounding control. */
double sim_op_f64(char op, double a, double b, double c, sim_round_t mode);

/* a*b + c with a*b exact in double (operands of at most 26 bits), rounded to
   odd: rounding the result again to at most 51 bits gives the right value. */
double sim_fma_odd(double a, double b, double c);

/* Approximate functions of f32, correctly rounded nearly everywhere. */
float sim_sin(float x);
float sim_cos(float x);
float sim_tanh(float x);

static inline double sim_double_bits(uint64_t bits) {
  double d;
  memcpy(&d, &bits, sizeof d);
  return d;
}

/* 2^x for |x| < 1020: integer part by the exponent, the rest by the series
   of e^(f ln 2), |f| <= 1/2, whose remainder is below 1e-14. */
static inline double sim_exp2(double x) {
  double magic = 6755399441055744.0; /* 1.5 * 2^52: rounds to an integer */
  double shifted = x + magic;
  uint64_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  double f = (x - (shifted - magic)) * 0.69314718055994530942;
  double p = 1.0 / 479001600.0;
  p = p * f + 1.0 / 39916800.0;
  p = p * f + 1.0 / 3628800.0;
  p = p * f + 1.0 / 362880.0;
  p = p * f + 1.0 / 40320.0;
  p = p * f + 1.0 / 5040.0;
  p = p * f + 1.0 / 720.0;
  p = p * f + 1.0 / 120.0;
  p = p * f + 1.0 / 24.0;
  p = p * f + 1.0 / 6.0;
  p = p * f + 0.5;
  p = p * f + 1.0;
  p = p * f + 1.0;
  /* the integer part sits in the low bits of the shifted value */
  return p * sim_double_bits((bits << 52) + (UINT64_C(1023) << 52));
}

/* log2 of a positive normal double. */
static inline double sim_log2(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  /* m in [sqrt(1/2), sqrt(2)) */
  uint64_t shifted = bits - UINT64_C(0x3FE6A09E667F3BCD);
  int64_t e = (int64_t)shifted >> 52;
  double m = sim_double_bits(bits - ((uint64_t)e << 52));
  double s = (m - 1.0) / (m + 1.0), q = s * s;
  double p = 1.0 / 19.0;
  p = p * q + 1.0 / 17.0;
  p = p * q + 1.0 / 15.0;
  p = p * q + 1.0 / 13.0;
  p = p * q + 1.0 / 11.0;
  p = p * q + 1.0 / 9.0;
  p = p * q + 1.0 / 7.0;
  p = p * q + 0.2;
  p = p * q + 1.0 / 3.0;
  p = p * q + 1.0;
  return (double)(int32_t)e + 2.8853900817779268147 * s * p;
}

#endif
