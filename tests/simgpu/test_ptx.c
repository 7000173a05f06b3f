/* Forms that NVRTC seldom or never writes, by hand: against integers, halves
   looked up by their definition, and the documented bounds. */
#include "sim_lab.h"

static lab_t lab;

#define A32 ((uint32_t)a)
#define B32 ((uint32_t)b)
#define C32 ((uint32_t)c)
#define OUT32 "; cvt.u64.u32 %r64, %x;"

static int64_t clamp(int64_t v, int64_t low, int64_t high) {
  return v < low ? low : v > high ? high : v;
}
static int64_t s32(uint64_t v) { return (int32_t)(uint32_t)v; }

/* -- integers -- */

static uint64_t sub_sat(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  return (uint32_t)clamp(s32(a) - s32(b), INT32_MIN, INT32_MAX);
}
static uint64_t mad_hi_u(uint64_t a, uint64_t b, uint64_t c) {
  return ((uint64_t)A32 * B32 >> 32) + C32; /* 33 bits: the carry on top */
}
static uint64_t mad_hi_s(uint64_t a, uint64_t b, uint64_t c) {
  return (uint64_t)(uint32_t)(s32(a) * s32(b) >> 32) + C32;
}
static uint64_t madc_hi_s(uint64_t a, uint64_t b, uint64_t c) {
  return (uint32_t)((uint32_t)(s32(a) * s32(b) >> 32) + C32 + (C32 >> 31));
}
static uint64_t pack16(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  return (uint32_t)clamp(s32(a), -32768, 32767) << 16 |
         ((uint32_t)clamp(s32(b), -32768, 32767) & 0xFFFF);
}
static uint64_t packu16(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  return (uint32_t)clamp(s32(a), 0, 65535) << 16 |
         (uint32_t)clamp(s32(b), 0, 65535);
}
static uint64_t pack8(uint64_t a, uint64_t b, uint64_t c) {
  return C32 << 16 | ((uint32_t)clamp(s32(a), -128, 127) & 0xFF) << 8 |
         ((uint32_t)clamp(s32(b), -128, 127) & 0xFF);
}

/* -- halves -- */

static double half(uint32_t w) { /* f16 */
  int e = (int)(w >> 10 & 31), m = (int)(w & 1023);
  double v = e == 31 ? (m ? (double)NAN : (double)INFINITY)
             : e     ? ldexp(1024 + m, e - 25)
                     : ldexp(m, -24);
  return w & 0x8000 ? -v : v;
}
static double brain(uint32_t w) { /* bf16 */
  uint32_t bits = w << 16;
  float f;
  memcpy(&f, &bits, 4);
  return (double)f;
}
/* The nearest bf16, for numbers whose exponent is in its normal range. */
static uint32_t to_brain(double v) {
  int e;
  float f;
  uint32_t bits;
  if (v == 0 || isinf(v)) {
    f = (float)v;
  } else {
    frexp(v, &e);
    f = (float)ldexp(rint(ldexp(v, 8 - e)), e - 8);
  }
  memcpy(&bits, &f, 4);
  return bits >> 16;
}
#define H2(op, from)                                                          \
  (uint64_t)((from(A32 & 0xFFFF) op from(B32 & 0xFFFF)) |                     \
             (from(A32 >> 16) op from(B32 >> 16)) << 1)
static uint64_t lt_half(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  return H2(<, half);
}
static uint64_t ge_brain(uint64_t a, uint64_t b, uint64_t c) {
  (void)c;
  return H2(>=, brain);
}
static uint64_t set_brain(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t two = ge_brain(a, b, c);
  return (two & 1 ? 0xFFFFu : 0) | (two & 2 ? 0xFFFF0000u : 0);
}
/* without NaN: exponents lose a bit */
#define NO_NAN "and.b32 %a, %a, 0xBFFFBFFF;"
static uint64_t abs_brain(uint64_t a, uint64_t b, uint64_t c) {
  (void)b, (void)c;
  return A32 & 0x3FFF3FFF;
}
static uint64_t neg_brain(uint64_t a, uint64_t b, uint64_t c) {
  (void)b, (void)c;
  return (A32 & 0xBFFFBFFF) ^ 0x80008000;
}
static uint64_t brain_s32(uint64_t a, uint64_t b, uint64_t c) {
  (void)b, (void)c;
  return to_brain((double)s32(a));
}
static uint64_t brain_u64(uint64_t a, uint64_t b, uint64_t c) {
  (void)b, (void)c;
  return to_brain((double)(a >> 12));
}
static uint64_t brain_half(uint64_t a, uint64_t b, uint64_t c) {
  (void)b, (void)c;
  return to_brain(half(A32 & 0xBFFF));
}
static uint64_t low_half(uint64_t a, uint64_t b, uint64_t c) {
  (void)b, (void)c;
  return a & 0xBFFF;
}
static uint64_t same_codes(uint64_t a, uint64_t b, uint64_t c) {
  (void)b, (void)c;
  return a & 0xF7F7;
}

/* -- f32, f64 -- */

static float f32_of(uint64_t w) {
  uint32_t bits = (uint32_t)w;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
static uint64_t mad_f32(uint64_t a, uint64_t b, uint64_t c) {
  float f = fmaf(f32_of(a), f32_of(b), f32_of(c));
  uint32_t w;
  memcpy(&w, &f, 4);
  return isnan(f) ? 0x7FFFFFFF : w;
}
static double f64_of(uint64_t w) {
  double d;
  memcpy(&d, &w, 8);
  return d;
}
static uint64_t mad_f64(uint64_t a, uint64_t b, uint64_t c) {
  double d = fma(f64_of(a), f64_of(b), f64_of(c));
  uint64_t w;
  memcpy(&w, &d, 8);
  return isnan(d) ? UINT64_C(0x7FFFFFFFFFFFFFFF) : w;
}

/* 1.5 is 0x3FC00000, 0.1 is 0x3FB999999999999A */
static uint64_t decimals(uint64_t a, uint64_t b, uint64_t c) {
  (void)a, (void)b, (void)c;
  return (uint32_t)(0x3FC00000u + 0x3FB99999u + 0x9999999Au);
}

static void exact_forms(void **state) {
  (void)state;
  static const struct {
    const char *body;
    lab_kind_t kind;
    lab_formula_t formula;
  } rows[] = {
      {"sub.sat.s32 %x, %a, %b" OUT32, LAB_BITS, sub_sat},
      {"mad.hi.cc.u32 %x, %a, %b, %c; addc.u32 %y, 0, 0;"
       "mov.b64 %r64, {%x, %y};", LAB_BITS, mad_hi_u},
      {"mad.hi.cc.s32 %x, %a, %b, %c; addc.u32 %y, 0, 0;"
       "mov.b64 %r64, {%x, %y};", LAB_BITS, mad_hi_s},
      {"add.cc.u32 %z, %c, %c; madc.hi.s32 %x, %a, %b, %c" OUT32, LAB_BITS,
       madc_hi_s},
      {"cvt.pack.sat.s16.s32 %x, %a, %b" OUT32, LAB_BITS, pack16},
      {"cvt.pack.sat.u16.s32 %x, %a, %b" OUT32, LAB_BITS, packu16},
      {"cvt.pack.sat.s8.s32.b32 %x, %a, %b, %c" OUT32, LAB_BITS, pack8},
      {"setp.lt.f16x2 %p|%q, %a, %b; selp.u32 %x, 1, 0, %p;"
       "selp.u32 %y, 2, 0, %q; or.b32 %x, %x, %y" OUT32, LAB_BITS, lt_half},
      {"setp.ge.bf16x2 %p|%q, %a, %b; selp.u32 %x, 1, 0, %p;"
       "selp.u32 %y, 2, 0, %q; or.b32 %x, %x, %y" OUT32, LAB_BITS, ge_brain},
      {"set.ge.u32.bf16x2 %x, %a, %b" OUT32, LAB_BITS, set_brain},
      {NO_NAN "abs.bf16x2 %x, %a" OUT32, LAB_BITS, abs_brain},
      {NO_NAN "neg.bf16x2 %x, %a" OUT32, LAB_BITS, neg_brain},
      {"cvt.rn.bf16.s32 %h, %a; cvt.u64.u16 %r64, %h;", LAB_BITS, brain_s32},
      {"shr.u64 %w, %a64, 12; cvt.rn.bf16.u64 %h, %w;"
       "cvt.u64.u16 %r64, %h;", LAB_BITS, brain_u64},
      {"and.b16 %ah, %ah, 0xBFFF; cvt.rn.bf16.f16 %h, %ah;"
       "cvt.u64.u16 %r64, %h;", LAB_BITS, brain_half},
      {"and.b16 %ah, %ah, 0xBFFF; cvt.bf16.bf16 %h, %ah;"
       "cvt.u64.u16 %r64, %h;", LAB_BITS, low_half},
      /* codes of e4m3 without NaN: widened and narrowed again */
      {"and.b16 %ah, %ah, 0xF7F7; cvt.rn.f16x2.e4m3x2 %x, %ah;"
       "cvt.rn.satfinite.e4m3x2.f16x2 %h, %x; cvt.u64.u16 %r64, %h;",
       LAB_BITS, same_codes},
      {"mov.f32 %f, 1.5; mov.b32 %x, %f; mov.f64 %d, 0.1;"
       "mov.b64 {%y, %z}, %d; add.u32 %x, %x, %y; add.u32 %x, %x, %z" OUT32,
       LAB_BITS, decimals},
      {"mad.rn.f32 %f, %fa, %fb, %fc; setp.nan.f32 %p, %f, %f;"
       "mov.b32 %x, %f; selp.b32 %x, 0x7FFFFFFF, %x, %p" OUT32, LAB_F32,
       mad_f32},
      {"mad.rn.f64 %d, %da, %db, %dc; setp.nan.f64 %p, %d, %d;"
       "mov.b64 %w, %d; selp.b64 %r64, 0x7FFFFFFFFFFFFFFF, %w, %p;",
       LAB_F64, mad_f64}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    lab_case(&lab, rows[i].body, rows[i].kind, rows[i].formula);
}

/* -- within a bound -- */

static double div_of(double a, double b) { return a / b; }
static double rsqrt_of(double a, double b) {
  (void)b;
  return 1 / sqrt(fabs(a));
}
static double exp2_of(double a, double b) {
  (void)b;
  return exp2(a);
}
static double tanh_of(double a, double b) {
  (void)b;
  return tanh(a);
}

static void bounded_forms(void **state) {
  (void)state;
  static const struct {
    const char *body; /* a and b are halves of the words, exact in f32 */
    double (*formula)(double, double);
    double relative, absolute;
  } rows[] = {
      {"div.full.f32 %f, %fa, %fb; mov.b32 %x, %f" OUT32, div_of, 0x1p-22,
       0},
      {"cvt.f64.f32 %da, %fa; abs.f64 %da, %da; rsqrt.approx.f64 %d, %da;"
       "cvt.rn.f32.f64 %f, %d; mov.b32 %x, %f" OUT32, rsqrt_of, 0x1p-21, 0},
      {"cvt.rn.f16.f32 %h, %fa; ex2.approx.f16 %h, %h; cvt.f32.f16 %f, %h;"
       "mov.b32 %x, %f" OUT32, exp2_of, 0x1p-9, 0x1p-24},
      {"cvt.rn.f16x2.f32 %y, %fb, %fa; ex2.approx.f16x2 %y, %y;"
       "mov.b32 {%h, %ah}, %y; cvt.f32.f16 %f, %h; mov.b32 %x, %f" OUT32,
       exp2_of, 0x1p-9, 0x1p-24},
      {"cvt.rn.bf16.f32 %h, %fa; ex2.approx.ftz.bf16 %h, %h;"
       "cvt.f32.bf16 %f, %h; mov.b32 %x, %f" OUT32, exp2_of, 0x1p-5, 0},
      {"cvt.rn.f16.f32 %h, %fa; tanh.approx.f16 %h, %h;"
       "cvt.f32.f16 %f, %h; mov.b32 %x, %f" OUT32, tanh_of, 0, 0x1p-9},
      {"cvt.rn.bf16.f32 %h, %fa; tanh.approx.bf16 %h, %h;"
       "cvt.f32.bf16 %f, %h; mov.b32 %x, %f" OUT32, tanh_of, 0, 0x1p-7}};
  static uint64_t a[LAB_LANES], b[LAB_LANES], c[LAB_LANES], out[LAB_LANES];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (int k = 0; k < LAB_LANES; k++) {
      /* -8 to 8 in steps that f16 and bf16 hold */
      float x = (float)(k % 257 - 128) / 16, y = (float)(k % 31 + 1);
      if (x == 0) x = 0.5f;
      uint32_t w;
      memcpy(&w, &x, 4);
      a[k] = w;
      memcpy(&w, &y, 4);
      b[k] = w;
    }
    lab_run(&lab, rows[i].body, a, b, c, out);
    for (int k = 0; k < LAB_LANES; k++) {
      double got = (double)f32_of(out[k]);
      double want = rows[i].formula((double)f32_of(a[k]),
                                    (double)f32_of(b[k]));
      if (fabs(got - want) >
          rows[i].relative * fabs(want) + rows[i].absolute)
        fail_msg("%s: %g, not %g", rows[i].body, got, want);
    }
  }
}

/* -- memory, barriers, hints -- */

#define WARP                                                                  \
  PTX_HEAD("sm_90")                                                           \
  ".visible .entry k(.param .u64 pin, .param .u64 pout) {\n"                  \
  ".shared .align 16 .b8 s[256]; .reg .pred %p, %q; .reg .b16 %h<8>;\n"       \
  ".reg .b32 %r<16>; .reg .b64 %d<16>;\n"                                     \
  "ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout];\n"                      \
  "mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;\n"                          \
  "add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"

/* 64 threads; out starts as 64 zeros. */
static void run(const char *body, const uint32_t *in, uint32_t *out) {
  char text[4096], report[2048];
  snprintf(text, sizeof text, "%s%s\nret; }\n", WARP, body);
  memset(out, 0, 256);
  rcuda_module_t *m = lab_load(&lab, text);
  uint64_t pin = lab_copy_in(&lab, in, 256);
  uint64_t pout = lab_copy_in(&lab, out, 256);
  void *params[] = {&pin, &pout};
  int code = lab_launch(&lab, lab_func(&lab, m, "k"), 1, 64, 0, params);
  lab_report(&lab, report, sizeof report);
  if (code || report[0]) fail_msg("%s: %d %s", body, code, report);
  lab_copy_out(&lab, out, pout, 256);
  lab.cuMemFree_v2(pin);
  lab.cuMemFree_v2(pout);
  lab.cuModuleUnload(m);
}

static void memory_forms(void **state) {
  (void)state;
  uint32_t in[64], out[64], sum = 0;
  for (uint32_t t = 0; t < 64; t++) in[t] = t * t + 3, sum += in[t];
  run("ldu.global.u32 %r2, [%d4]; st.global.u32 [%d5], %r2;", in, out);
  for (uint32_t t = 0; t < 64; t++) assert_int_equal(out[t], in[t]);
  /* hints change nothing */
  run("prefetch.global.L1 [%d4]; prefetch.global.L2 [%d4];\n"
      "prefetch.global.L2::evict_last [%d4]; prefetchu.L1 [%d4];\n"
      "applypriority.global.L2::evict_normal [%d1], 128;\n"
      "createpolicy.fractional.L2::evict_first.b64 %d7, 1.0;\n"
      "ld.global.L2::cache_hint.u32 %r2, [%d4], %d7; fence.acq_rel.gpu;\n"
      "fence.sc.cta; pmevent 3; brkpt; griddepcontrol.wait;\n"
      "griddepcontrol.launch_dependents; st.global.u32 [%d5], %r2;",
      in, out);
  for (uint32_t t = 0; t < 64; t++) assert_int_equal(out[t], in[t]);
  /* a counter that wraps at 9, and one that counts down from 20 */
  run("red.global.inc.u32 [%d2], 9; red.global.dec.u32 [%d2+4], 20;", in,
      out);
  assert_int_equal(out[0], 64 % 10);
  assert_int_equal(out[1], (21 - 64 % 21) % 21);
  /* 16 bits of a word swapped by one thread of many; halves added */
  run("mov.u16 %h1, 0; cvt.u16.u32 %h2, %r1; add.u16 %h2, %h2, 1;\n"
      "atom.global.cas.b16 %h3, [%d2+2], %h1, %h2;\n"
      "setp.eq.u16 %p, %h3, 0; @%p st.global.u16 [%d2], %h2;",
      in, out);
  assert_true(out[0] >> 16 != 0 && out[0] >> 16 == (out[0] & 0xFFFF));
  run("mov.u16 %h1, 0x3C00; atom.global.add.noftz.f16 %h2, [%d2], %h1;\n"
      "mov.b32 %r2, 0x40003C00;\n"
      "atom.global.add.noftz.f16x2 %r3, [%d2+4], %r2;\n"
      "mov.u16 %h1, 0x3F80; red.global.add.noftz.bf16 [%d2+8], %h1;\n"
      "mov.b32 %r2, 0x40003F80;\n"
      "red.global.max.noftz.bf16x2 [%d2+12], %r2;",
      in, out);
  assert_int_equal(out[0], 0x5400);     /* 64 */
  assert_int_equal(out[1], 0x58005400); /* 128, 64 */
  assert_int_equal(out[2], 0x4280);     /* 64 */
  assert_int_equal(out[3], 0x40003F80); /* the larger of 0 and it */
}

/* What a generic atomic returns, from shared and from global memory. */
static void generic_atomics(void **state) {
  (void)state;
  static const char *const places[] = {
      "mov.u32 %r3, s; cvt.u64.u32 %d6, %r3;\n"
      "cvta.shared.u64 %d6, %d6; setp.eq.u32 %p, %r1, 0;\n"
      "@%p st.shared.u32 [s], 0; bar.sync 0;\n",
      "add.s64 %d6, %d1, 0;\n"};
  uint32_t in[64] = {0}, out[64];
  char body[512];
  for (int n = 0; n < 2; n++) {
    uint64_t seen = 0;
    snprintf(body, sizeof body,
             "%satom.add.u32 %%r2, [%%d6], 6; st.global.u32 [%%d5], %%r2;",
             places[n]);
    run(body, in, out);
    for (uint32_t t = 0; t < 64; t++) {
      assert_int_equal(out[t] % 6, 0);
      assert_in_range(out[t] / 6, 0, 63);
      seen |= UINT64_C(1) << out[t] / 6;
    }
    assert_true(seen == UINT64_MAX);
  }
}

/* Roots of powers of four, which are exact. */
static void inverse_roots(void **state) {
  (void)state;
  uint32_t in[64], out[64];
  for (uint32_t t = 0; t < 64; t++) in[t] = (1023 + 2 * (t % 32)) << 20;
  run("setp.ge.u32 %p, %r1, 32; ld.global.u32 %r2, [%d4]; mov.u32 %r3, 0;\n"
      "mov.b64 %d6, {%r3, %r2}; rsqrt.approx.f64 %d7, %d6;\n"
      "mov.b64 {%r4, %r5}, %d7; selp.b32 %r4, %r4, %r5, %p;\n"
      "st.global.u32 [%d5], %r4;",
      in, out);
  for (uint32_t t = 0; t < 32; t++) {
    assert_int_equal(out[t], (1023 - t) << 20);
    assert_int_equal(out[32 + t], 0);
  }
}

/* A clock counts 4 for each instruction of its warp up to its own. */
static void clocks(void **state) {
  (void)state;
  static const char text[] =
      PTX_HEAD("sm_90")
      ".visible .entry k(.param .u64 pout) { .reg .b32 %r<4>;\n"
      ".reg .b64 %d<4>; mov.u32 %r1, %clock; mov.u64 %d1, %clock64;\n"
      "ld.param.u64 %d2, [pout]; mov.u32 %r2, %clock;\n"
      "st.global.u32 [%d2], %r1; st.global.u64 [%d2+8], %d1;\n"
      "st.global.u32 [%d2+4], %r2; ret; }";
  uint32_t out[4];
  uint64_t p = lab_alloc(&lab, sizeof out);
  void *params[] = {&p};
  assert_int_equal(lab_launch(&lab,
                              lab_func(&lab, lab_load(&lab, text), "k"), 1,
                              1, 0, params),
                   0);
  lab_copy_out(&lab, out, p, sizeof out);
  assert_int_equal(out[0], 4);
  assert_int_equal(out[2], 8);
  assert_int_equal(out[1], 16);
  assert_int_equal(out[3], 0);
}

static void barrier_forms(void **state) {
  (void)state;
  uint32_t in[64], out[64];
  for (uint32_t t = 0; t < 64; t++) in[t] = t * 7 + 1;
  /* a barrier that lanes reach on two ways */
  run("mov.u32 %r3, s; shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4;\n"
      "ld.global.u32 %r2, [%d4]; st.shared.u32 [%r4], %r2;\n"
      "and.b32 %r5, %r1, 1; setp.eq.u32 %p, %r5, 0; @%p bra L;\n"
      "add.u32 %r2, %r2, 1;\nL: barrier.sync 0;\n"
      "xor.b32 %r6, %r4, 0; sub.u32 %r6, %r4, %r3; mov.u32 %r7, 252;\n"
      "sub.u32 %r7, %r7, %r6; add.u32 %r7, %r7, %r3;\n"
      "ld.shared.u32 %r8, [%r7]; st.global.u32 [%d5], %r8;",
      in, out);
  for (uint32_t t = 0; t < 64; t++) assert_int_equal(out[t], in[63 - t]);
  /* one warp arrives, the other waits */
  run("mov.u32 %r3, s; setp.lt.u32 %p, %r1, 32; @!%p bra W;\n"
      "ld.global.u32 %r2, [%d4]; shl.b32 %r4, %r1, 2;\n"
      "add.u32 %r4, %r3, %r4; st.shared.u32 [%r4], %r2;\n"
      "barrier.arrive 2, 64; bra E;\n"
      "W: barrier.sync 2, 64; sub.u32 %r4, %r1, 32; shl.b32 %r4, %r4, 2;\n"
      "add.u32 %r4, %r3, %r4; ld.shared.u32 %r2, [%r4];\n"
      "st.global.u32 [%d5], %r2;\nE:",
      in, out);
  for (uint32_t t = 32; t < 64; t++) assert_int_equal(out[t], in[t - 32]);
  /* votes of a barrier */
  run("setp.lt.u32 %p, %r1, 40; barrier.red.popc.u32 %r2, 1, 64, %p;\n"
      "barrier.red.and.pred %q, 1, 64, %p; selp.u32 %r3, 1000, 0, %q;\n"
      "barrier.red.or.pred %q, 1, 64, %p; selp.u32 %r4, 2000, 0, %q;\n"
      "add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;\n"
      "st.global.u32 [%d5], %r2;",
      in, out);
  for (uint32_t t = 0; t < 64; t++) assert_int_equal(out[t], 2040);
}

/* Initial values against the bytes that ptxas 13.0 puts into a cubin, and
   those it refuses. */
static void initial_values(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint32_t words[4]; /* none: refused */
    size_t bytes;
  } rows[] = {
      {".f32 g = 1.5;", {0x3FC00000}, 4},
      {".f32 g = -1.5;", {0xBFC00000}, 4},
      {".f32 g = 1.00000006;", {0x3F800001}, 4},
      {".f32 g = 0d3FF0000000000001;", {0x3F800000}, 4},
      {".b32 g = 1.5;", {0x3FC00000}, 4},
      {".b32 g = 0f3F800000;", {0x3F800000}, 4},
      {".f64 g = 0f3F800000;", {0x3F800000, 0}, 8},
      {".b64 g = 1.5;", {0, 0x3FF80000}, 8},
      {".u32 g = 5000000000;", {0x2A05F200}, 4},
      {".f32 g[2][2] = {{1.5}, {2.5}};", {0x3FC00000, 0x40200000}, 16},
      {".v2 .f32 g = {1.5, 2.5};", {0x3FC00000, 0x40200000}, 8},
      {".s16 g[6] = {-1, 2, 0x7FFF};", {0x0002FFFF, 0x7FFF}, 12},
      {".f32 g = 1;", {0}, 0},
      {".s32 g = 0f3F800000;", {0}, 0},
      {".f16 g = 1.5;", {0}, 0},
      {".f32 g = -0f3F800000;", {0}, 0},
      {".u64 g = -g;", {0}, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[256], log[256];
    uint8_t got[16] = {0};
    uint64_t at = 0;
    size_t bytes = 0;
    snprintf(text, sizeof text, PTX_HEAD("sm_90") ".visible .global %s",
             rows[i].text);
    if (rows[i].bytes == 0) {
      int code = lab_refused(&lab, text, log, sizeof log);
      if (code != 218) fail_msg("%s: result %d", rows[i].text, code);
      continue;
    }
    rcuda_module_t *m = lab_load(&lab, text);
    assert_int_equal(lab.cuModuleGetGlobal_v2(&at, &bytes, m, "g"), 0);
    assert_int_equal(bytes, rows[i].bytes);
    assert_int_equal(lab.cuMemcpyDtoH_v2(got, at, bytes), 0);
    if (memcmp(got, rows[i].words, bytes)) fail_msg("%s", rows[i].text);
    lab.cuModuleUnload(m);
  }
}

static int setup(void **state) {
  (void)state;
  lab_open(&lab, "model:h100,budget:3000000");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_forms), cmocka_unit_test(bounded_forms),
      cmocka_unit_test(memory_forms), cmocka_unit_test(barrier_forms),
      cmocka_unit_test(generic_atomics),
      cmocka_unit_test(inverse_roots), cmocka_unit_test(clocks),
      cmocka_unit_test(initial_values)};
  return cmocka_run_group_tests_name("simgpu.ptx", tests, setup, NULL);
}
