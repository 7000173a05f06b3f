/* cpu_helpers.c: what generated code calls: f64 functions of libm, integer
 * powers, and the memory functions that LLVM makes of fill and copy loops. */
#include "runtime/cpu/cpu_helpers.h"

#include <math.h>
#include <string.h>

static double pow_int(double x, int64_t n) {
  return pow(x, (double)n);
}

/* A float exponent of a negative base gives NaN (language.md 7). */
static double pow_float(double x, double y) {
  return x < 0 && y != 0 ? (double)NAN : pow(x, y);
}

/* x ^ n for n >= 0 by squaring; wraps at 64 bits. */
static int64_t int_pow(int64_t x, int64_t n) {
  uint64_t base = (uint64_t)x, result = 1;
  for (; n > 0; n >>= 1) {
    if (n & 1) result *= base;
    base *= base;
  }
  return (int64_t)result;
}

uint32_t rcpu_symbols(rcpu_symbol_t out[RCPU_SYMBOL_MAX]) {
  uint32_t n = 0;
#define ROW(text, function)             \
  do {                                  \
    out[n].name = (text);               \
    out[n].address = (uint64_t)(uintptr_t)(function); \
    n++;                                \
  } while (0)
  ROW("rcpu_exp", (double (*)(double))exp);
  ROW("rcpu_exp2", (double (*)(double))exp2);
  ROW("rcpu_log", (double (*)(double))log);
  ROW("rcpu_log2", (double (*)(double))log2);
  ROW("rcpu_sin", (double (*)(double))sin);
  ROW("rcpu_cos", (double (*)(double))cos);
  ROW("rcpu_tanh", (double (*)(double))tanh);
  ROW("rcpu_erf", (double (*)(double))erf);
  ROW("rcpu_pow", pow_float);
  ROW("rcpu_powi", pow_int);
  ROW("rcpu_ipow", int_pow);
  /* without an instruction LLVM calls these; fmax and fmin where it has shown
     that no operand is NaN */
  ROW("fma", (double (*)(double, double, double))fma);
  ROW("fmaf", (float (*)(float, float, float))fmaf);
  ROW("floor", (double (*)(double))floor);
  ROW("floorf", (float (*)(float))floorf);
  ROW("ceil", (double (*)(double))ceil);
  ROW("ceilf", (float (*)(float))ceilf);
  ROW("roundeven", (double (*)(double))rint);
  ROW("roundevenf", (float (*)(float))rintf);
  ROW("fmax", (double (*)(double, double))fmax);
  ROW("fmaxf", (float (*)(float, float))fmaxf);
  ROW("fmin", (double (*)(double, double))fmin);
  ROW("fminf", (float (*)(float, float))fminf);
  ROW("memset", memset);
  ROW("memcpy", memcpy);
  ROW("memmove", memmove);
#undef ROW
  return n;
}
