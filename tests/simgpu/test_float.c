/* f32, f64 and half arithmetic against the host's IEEE arithmetic, rounding
   modes against exact comparison in wider formats, and the approximate
   functions against their documented bounds. */
#include "sim_lab.h"

#include <fenv.h>

static lab_t lab;

static float f32_of(uint64_t x) {
  uint32_t bits = (uint32_t)x;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
static uint64_t bits32(float f) {
  uint32_t bits;
  if (f != f) return 0x7FFFFFFF;
  memcpy(&bits, &f, 4);
  return bits;
}
static double f64_of(uint64_t x) {
  double d;
  memcpy(&d, &x, 8);
  return d;
}
static uint64_t bits64(double d) {
  uint64_t bits;
  if (d != d) return UINT64_C(0x7FFFFFFFFFFFFFFF);
  memcpy(&bits, &d, 8);
  return bits;
}
static float ftz(float f) {
  return fpclassify(f) == FP_SUBNORMAL ? copysignf(0, f) : f;
}
static float sat(float f) {
  return f != f || f < 0 ? 0 : f > 1 ? 1 : f == 0 ? 0 : f;
}

#define OUTF "; mov.b32 %x, %f; cvt.u64.u32 %r64, %x;"
#define OUTD "; mov.b64 %r64, %d;"
#define A f32_of(a)
#define B f32_of(b)
#define C f32_of(c)
#define AD f64_of(a)
#define BD f64_of(b)
#define CD f64_of(c)

#define F(id, body, expr)                                                     \
  static uint64_t ref_##id(uint64_t a, uint64_t b, uint64_t c) {              \
    (void)a, (void)b, (void)c;                                                \
    return bits32(expr);                                                      \
  }
#define D(id, body, expr)                                                     \
  static uint64_t ref_##id(uint64_t a, uint64_t b, uint64_t c) {              \
    (void)a, (void)b, (void)c;                                                \
    return bits64(expr);                                                      \
  }
#define P(id, body, expr)                                                     \
  static uint64_t ref_##id(uint64_t a, uint64_t b, uint64_t c) {              \
    (void)a, (void)b, (void)c;                                                \
    return (uint64_t)(expr);                                                  \
  }

/* One NaN gives way; -0 is below +0. */
static float least(float a, float b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}
static float most(float a, float b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return signbit(a) ? b : a;
  return a > b ? a : b;
}
static float most_nan(float a, float b) {
  return a != a || b != b ? NAN : most(a, b);
}

#include "float_cases.def"
#undef F
#undef D
#undef P

static void all_cases(void **state) {
  (void)state;
#define F(id, body, expr) lab_case(&lab, body, LAB_F32, ref_##id);
#define D(id, body, expr) lab_case(&lab, body, LAB_F64, ref_##id);
#define P(id, body, expr) lab_case(&lab, body, LAB_F32, ref_##id);
#include "float_cases.def"
#undef F
#undef D
#undef P
}

/* -- directed rounding, by the host's own rounding control -- */

static float directed(char op, float a, float b, float c, int mode) {
  volatile float x = a, y = b, r = 0;
  volatile double dx = (double)a, dy = (double)b, dz = (double)c, dr;
  fesetround(mode);
  switch (op) {
  case '+': r = x + y; break;
  case '-': r = x - y; break;
  case '*': r = x * y; break;
  case '/': r = x / y; break;
  case 's': r = sqrtf(x); break;
  case 'r': r = 1.0f / x; break;
  default:
    /* the product is exact in double, and the sum in extended precision
       for these inputs */
    dr = 0;
    {
      volatile long double s = (long double)dx * (long double)dy;
      volatile long double t = s + (long double)dz;
      (void)dr;
      r = (float)t;
    }
    break;
  }
  fesetround(FE_TONEAREST);
  return r;
}

static void rounding_modes(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int mode;
  } modes[] = {{"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO},
               {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  static const struct {
    char op;
    const char *text;
  } ops[] = {{'+', "add.%s.f32 %%f, %%fa, %%fb"},
             {'-', "sub.%s.f32 %%f, %%fa, %%fb"},
             {'*', "mul.%s.f32 %%f, %%fa, %%fb"},
             {'/', "div.%s.f32 %%f, %%fa, %%fb"},
             {'s', "sqrt.%s.f32 %%f, %%fa"},
             {'r', "rcp.%s.f32 %%f, %%fa"},
             {'f', "fma.%s.f32 %%f, %%fa, %%fb, %%fc"}};
  uint64_t a[LAB_LANES], b[LAB_LANES], c[LAB_LANES], out[LAB_LANES], s = 77;
  for (size_t i = 0; i < LAB_LANES; i++) {
    /* exponents near each other, so that fma's sum fits 64 bits */
    uint64_t x = lab_random(&s), y = lab_random(&s), z = lab_random(&s);
    a[i] = (x & 0x807FFFFF) | (120 + x % 12) << 23;
    b[i] = (y & 0x807FFFFF) | (120 + y % 12) << 23;
    c[i] = (z & 0x807FFFFF) | (120 + z % 12) << 23;
    if (i % 61 == 0) b[i] = a[i] ^ 0x80000000u;
    if (i % 67 == 1) a[i] = 0, b[i] = i % 2 ? 0 : 0x80000000u;
  }
  for (size_t n = 0; n < sizeof ops / sizeof *ops; n++) {
    for (int k = 0; k < 4; k++) {
      char op[96], body[160];
      snprintf(op, sizeof op, ops[n].text, modes[k].name);
      snprintf(body, sizeof body, "%s%s", op, OUTF);
      lab_run(&lab, body, a, b, c, out);
      for (size_t i = 0; i < LAB_LANES; i++) {
        uint64_t want =
            bits32(directed(ops[n].op, f32_of(a[i]), f32_of(b[i]),
                            f32_of(c[i]), modes[k].mode));
        if (out[i] != want)
          fail_msg("%s: %08llx %08llx %08llx: %08llx, not %08llx", op,
                   (unsigned long long)a[i], (unsigned long long)b[i],
                   (unsigned long long)c[i], (unsigned long long)out[i],
                   (unsigned long long)want);
      }
    }
  }
}

/* -- approximate functions: within the bound, special cases exact -- */

typedef double (*fn_t)(double);

static double rcp(double x) {
  return 1 / x;
}
static double rsqrt(double x) {
  return 1 / sqrt(x);
}

static void approximate(void **state) {
  (void)state;
  static const struct {
    const char *body;
    fn_t fn;
    double relative, absolute, low, high;
  } rows[] = {
      {"ex2.approx.f32 %f, %fa" OUTF, exp2, 2.4e-7, 0, -120, 120},
      {"ex2.approx.ftz.f32 %f, %fa" OUTF, exp2, 2.4e-7, 0, -120, 120},
      {"lg2.approx.f32 %f, %fa" OUTF, log2, 2.4e-7, 2.4e-7, 1e-30, 1e30},
      {"rcp.approx.f32 %f, %fa" OUTF, rcp, 1.2e-7, 0, -1e30, 1e30},
      {"rcp.approx.ftz.f32 %f, %fa" OUTF, rcp, 1.2e-7, 0, 1e-30, 1e30},
      {"sqrt.approx.f32 %f, %fa" OUTF, sqrt, 1.2e-7, 0, 0, 1e30},
      {"rsqrt.approx.f32 %f, %fa" OUTF, rsqrt, 1.3e-7, 0, 1e-30, 1e30},
      {"sin.approx.f32 %f, %fa" OUTF, sin, 0, 6.8e-7, -6.28, 6.28},
      {"cos.approx.f32 %f, %fa" OUTF, cos, 0, 6.8e-7, -6.28, 6.28},
      {"sin.approx.f32 %f, %fa" OUTF, sin, 0, 3.8e-5, -314, 314},
      {"tanh.approx.f32 %f, %fa" OUTF, tanh, 4.9e-4, 0, -30, 30}};
  uint64_t a[LAB_LANES], out[LAB_LANES], s = 21;
  for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
    for (size_t i = 0; i < LAB_LANES; i++) {
      double u = (double)(lab_random(&s) >> 11) / 9007199254740992.0;
      double x = rows[n].low + u * (rows[n].high - rows[n].low);
      /* spread over the magnitudes too */
      if (i % 2 && rows[n].low >= 0)
        x = (rows[n].low + 1e-30) * pow(rows[n].high /
                                        (rows[n].low + 1e-30), u);
      a[i] = bits32((float)x);
    }
    lab_run(&lab, rows[n].body, a, a, a, out);
    for (size_t i = 0; i < LAB_LANES; i++) {
      double want = rows[n].fn((double)f32_of(a[i]));
      double have = (double)f32_of(out[i]);
      double bound = rows[n].relative * fabs(want) + rows[n].absolute +
                     1.5e-45;
      if (!(fabs(have - want) <= bound))
        fail_msg("%s: %g gives %.9g, not %.9g", rows[n].body,
                 (double)f32_of(a[i]), have, want);
    }
  }
  static const struct {
    const char *body;
    float in;
    float out;
  } special[] = {
      {"ex2.approx.f32 %f, %fa" OUTF, -INFINITY, 0},
      {"ex2.approx.f32 %f, %fa" OUTF, INFINITY, INFINITY},
      {"ex2.approx.f32 %f, %fa" OUTF, -0.0f, 1},
      {"ex2.approx.ftz.f32 %f, %fa" OUTF, -140, 0},
      {"ex2.approx.f32 %f, %fa" OUTF, NAN, NAN},
      {"lg2.approx.f32 %f, %fa" OUTF, 0, -INFINITY},
      {"lg2.approx.f32 %f, %fa" OUTF, -0.0f, -INFINITY},
      {"lg2.approx.f32 %f, %fa" OUTF, -1, NAN},
      {"lg2.approx.f32 %f, %fa" OUTF, INFINITY, INFINITY},
      {"rcp.approx.f32 %f, %fa" OUTF, -0.0f, -INFINITY},
      {"rcp.approx.f32 %f, %fa" OUTF, INFINITY, 0},
      {"rsqrt.approx.f32 %f, %fa" OUTF, 0, INFINITY},
      {"rsqrt.approx.f32 %f, %fa" OUTF, -2, NAN},
      {"sin.approx.f32 %f, %fa" OUTF, INFINITY, NAN},
      {"cos.approx.f32 %f, %fa" OUTF, 0, 1},
      {"tanh.approx.f32 %f, %fa" OUTF, 1e-40f, 1e-40f},
      {"tanh.approx.f32 %f, %fa" OUTF, -INFINITY, -1}};
  for (size_t n = 0; n < sizeof special / sizeof *special; n++) {
    for (size_t i = 0; i < LAB_LANES; i++) a[i] = bits32(special[n].in);
    lab_run(&lab, special[n].body, a, a, a, out);
    if (out[0] != bits32(special[n].out))
      fail_msg("%s: %g gives %08llx", special[n].body,
               (double)special[n].in, (unsigned long long)out[0]);
  }
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_cases),
                                     cmocka_unit_test(rounding_modes),
                                     cmocka_unit_test(approximate)};
  return cmocka_run_group_tests_name("simgpu.float", tests, setup, NULL);
}
