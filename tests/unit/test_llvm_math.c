/* Conversions and functions as machine code: against the interpreter, the
   vectors, and libm over a sweep of all inputs.

     unit_llvm_math [STEP]   every STEP-th f32; 1 for all, which takes long */
#include "kir_llvm_lab.h"

#include <math.h>

/* ---- storage types ------------------------------------------------------- */

static const char *const dtypes[] = {"f64",    "f32", "f16", "bf16",
                                     "f8e4m3", "f8e5m2", "i64", "i32",
                                     "i8",     "u8",  "bool"};
enum { DTYPES = 11 };

static bool is_float_name(int t) {
  return t < 6;
}

/* Every type into every type: as a cast, and as a store of the value widened
   where that is allowed; all patterns of types up to 16 bits. */
static const char *conversion_kernel(td_task_t *task, int from) {
  td_buf_t head, body;
  td_buf_init(&head, task);
  td_buf_init(&body, task);
  td_buf_printf(&head, "kernel convert(in a: %s[N]", dtypes[from]);
  for (int to = 0; to < DTYPES; to++) {
    bool is_store = (is_float_name(from) && is_float_name(to)) ||
                    (from >= 6 && from < 10 && to >= 6 && to < 10);
    td_buf_printf(&head, ",\n  out c%d: %s[N]", to, dtypes[to]);
    td_buf_printf(&body, "  c%d[i] = cast.%s(a[i])\n", to, dtypes[to]);
    if (!is_store) continue;
    td_buf_printf(&head, ",\n  out s%d: %s[N]", to, dtypes[to]);
    td_buf_printf(&body, "  s%d[i] = a[i]\n", to);
  }
  td_buf_printf(&head,
                ") dims(N in 0..100000) {\n"
                " loop.serial i0 in 0 .. dim(N / 2 / 8 * 8) step 8 {\n"
                "  loop.lane l in 0 .. 8 { let i: i64 = i0 + l\n%s }\n }\n"
                " loop.serial i in dim(N / 2 / 8 * 8) .. N {\n%s }\n}\n",
                body.data, body.data);
  td_buf_free(&body);
  return td_buf_finish(&head, &task->arena);
}

TASK_TEST(test_conversions) {
  UNUSED_ARG;
  for (int from = 0; from < DTYPES; from++) {
    lab_t lab;
    size_t n = 3 << 15;
    lab_open(&lab, task, conversion_kernel(task, from), DIMS((int64_t)n));
    tdsl_dtype_t dtype = lab.kernel->params[0]->dtype;
    size_t bytes = td_dtype_bytes(dtype);
    for (size_t i = 0; i < n; i++) {
      uint64_t bits = bytes <= 2 ? i : lab_random(&lab);
      unsigned char *at = (unsigned char *)lab.data[0] + i * bytes;
      memcpy(at, &bits, bytes);
      if (dtype == TDSL_DTYPE_BOOL) *at &= 1;
      if (bytes <= 2) continue;
      if (is_float_name(from) && i % 4 < 3) {
        /* values near the ends and the ties of the narrow formats */
        double v = special(i / 4 % SPECIALS);
        double narrow = (double)td_bf16_to_f32((uint16_t)(bits >> 16));
        v = i % 4 == 0 ? v : i % 4 == 1 ? v * 1.0000001 : narrow + narrow / 256;
        td_store_f64(dtype, at, v);
      } else if (i % 4 < 2) {
        td_store_wrap(dtype, at, (int64_t)bits >> (i % 61));
      }
    }
    lab_agree(&lab);
    lab_close(&lab);
  }
}

/* f32 patterns to every narrower type, as the vectors say. */
TASK_TEST(test_cast_vectors) {
  static const char text[] =
      "kernel casts(in a: f32[N], out bf: bf16[N], out f: f16[N],\n"
      "    out p: f8e4m3[N], out q: f8e5m2[N], out i8: i8[N], out u8: u8[N],\n"
      "    out i32: i32[N]) dims(N in 0..100000) {\n"
      "  loop.serial i0 in 0 .. N step 16 {\n"
      "    loop.lane l in 0 .. 16 where i0 + l < N {\n"
      "      let i: i64 = i0 + l\n"
      "      bf[i] = a[i]\n      f[i] = a[i]\n"
      "      p[i] = a[i]\n      q[i] = a[i]\n"
      "      i8[i] = cast.i8(a[i])\n      u8[i] = cast.u8(a[i])\n"
      "      i32[i] = cast.i32(a[i])\n"
      "    }\n"
      "  }\n"
      "}\n";
  static const char *const keys[] = {"bf16",   "f16", "f8e4m3", "f8e5m2",
                                     "i8",     "u8",  "i32"};
  UNUSED_ARG;
  const char *file = unit_file(task, "vectors/casts.json").data;
  int64_t n = 0;
  for (const char *at = file; (at = strstr(at, "{\"f32\"")) != NULL; at++) n++;
  assert_true(n > 100);
  for (int t = 0; t < LAB_TARGETS; t++) {
    const ir_target_t *target = lab_target(t);
    if (target == NULL) continue;
    lab_t lab;
    lab_open(&lab, task, text, DIMS(n));
    const char *at = file;
    for (int64_t i = 0; i < n; i++, at++) {
      at = strstr(at, "{\"f32\"");
      ((uint32_t *)lab.data[0])[i] =
          (uint32_t)strtoul(at + strlen("{\"f32\":\""), NULL, 16);
    }
    lab_copy(&lab);
    lab_code_t c = lab_compile(&lab, target);
    lab_call(&lab, c, 0);
    at = file;
    for (int64_t i = 0; i < n; i++, at++) {
      at = strstr(at, "{\"f32\"");
      for (int k = 0; k < 7; k++) {
        const kir_buffer_t *b = lab.kernel->params[k + 1];
        size_t bytes = td_dtype_bytes(b->dtype);
        const char *key = text_of(task, "\"%s\":", keys[k]);
        const char *value = strstr(at, key) + strlen(key);
        static const int64_t nans[] = {TD_BF16_NAN, TD_F16_NAN, TD_F8E4M3_NAN,
                                       TD_F8E5M2_NAN};
        int64_t want = k >= 4 ? strtoll(value, NULL, 10)
                       : strncmp(value, "\"nan\"", 5) == 0
                           ? nans[k]
                           : (int64_t)strtoul(value + 1, NULL, 16);
        int64_t got = 0;
        memcpy(&got, (unsigned char *)lab.other[k + 1] + (size_t)i * bytes,
               bytes);
        if (k >= 4) got = td_load_i64(b->dtype, &got);
        if (got != want) {
          fail_msg("%s, %s of %.14s: %lld, not %lld", target->name, keys[k],
                   at + 8, (long long)got, (long long)want);
        }
      }
    }
    rcpu_code_destroy(c.code);
    lab_close(&lab);
  }
}

/* ---- functions ----------------------------------------------------------- */

static uint32_t sweep_step = 16381; /* argument 1: 1 for all inputs */

typedef struct function_t {
  const char *name;
  kir_x_t op;
  double (*exact)(double);
} function_t;

static double exact_rsqrt(double x) {
  return 1 / sqrt(x);
}

static const function_t functions[] = {
    {"exp", KIR_X_EXP, exp},       {"exp2", KIR_X_EXP2, exp2},
    {"log", KIR_X_LOG, log},       {"log2", KIR_X_LOG2, log2},
    {"rsqrt", KIR_X_RSQRT, exact_rsqrt},
    {"sin", KIR_X_SIN, sin},       {"cos", KIR_X_COS, cos},
    {"tanh", KIR_X_TANH, tanh},    {"erf", KIR_X_ERF, erf},
};

/* Allowed units of 2^-24 (2^-53) of the value. */
static double allowed(kir_x_t op, tdsl_dtype_t dtype) {
  static const struct { kir_x_t op; double f32, f64; } rows[] = {
#define TOLERANCE_FUNCTION(id, f32, f64) {KIR_X_##id, f32, f64},
#include "ir/tolerance.def"
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (rows[i].op == op) {
      return dtype == TDSL_DTYPE_F32 ? rows[i].f32 : rows[i].f64;
    }
  }
  fail_msg("no tolerance for %d", (int)op);
  return 0;
}

/* Units of 2^-24 of the value that `got` is away; infinite if it is of
   another kind.  A subnormal result may be 0. */
static double units(float got, double want) {
  if (want != want) return got != got ? 0 : (double)INFINITY;
  float rounded = (float)want;
  if (isinf(rounded) || isinf(got)) {
    return got == rounded ? 0 : (double)INFINITY;
  }
  if (want == 0) {
    return got == 0 && signbit(got) == signbit(rounded) ? 0
                                                        : (double)INFINITY;
  }
  double away = fabs((double)got - want);
  if (!(fabs(want) < 0x1p-126)) return away / fabs(want) * 0x1p24;
  return got == 0 ? 0 : away * 0x1p149;
}

TASK_TEST(test_functions) {
  enum { CHUNK = 1 << 16 };
  UNUSED_ARG;
  for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
    const char *text = text_of(
        task,
        "kernel f(in x: f32[N], out y: f32[N]) dims(N in 0..1000000) {\n"
        "  loop.serial i in 0 .. N step 16 {\n"
        "    loop.lane l in 0 .. 16 { y[i + l] = %s(x[i + l]) } }\n}\n",
        functions[f].name);
    double limit = allowed(functions[f].op, TDSL_DTYPE_F32);
    for (int t = 0; t < LAB_TARGETS; t++) {
      const ir_target_t *target = lab_target(t);
      if (target == NULL) continue;
      lab_t lab;
      double worst = 0;
      lab_open(&lab, task, text, DIMS(CHUNK));
      lab_code_t c = lab_compile(&lab, target);
      float *x = lab.other[0];
      const float *y = lab.other[1];
      for (uint64_t bits = 0; bits <= UINT32_MAX;) {
        for (size_t i = 0; i < CHUNK; i++, bits += sweep_step) {
          x[i] = bits == 0 && i < SPECIALS
                     ? (float)special(i)
                     : td_f32_from_bits((uint32_t)bits);
        }
        lab_call(&lab, c, 0);
        for (size_t i = 0; i < CHUNK; i++) {
          double want = functions[f].exact((double)x[i]);
          double away = units(y[i], want);
          if (away > worst) worst = away;
          if (!(away <= limit)) {
            fail_msg("%s, %s(%a) is %a, not %a: %g units", target->name,
                     functions[f].name, (double)x[i], (double)y[i], want,
                     away);
          }
        }
      }
      if (sweep_step == 1) {
        print_message("%s %s: %.4f\n", target->name, functions[f].name,
                      worst);
      }
      rcpu_code_destroy(c.code);
      lab_close(&lab);
    }
  }
}

/* The language's pow: a float exponent of a negative base is NaN. */
static double exact_pow(double x, double y) {
  if (y == 0) return 1;
  return x < 0 ? (double)NAN : pow(x, y);
}

TASK_TEST(test_powers) {
  static const char text[] =
      "kernel f(in x: f32[N], in y: f32[N], in n: i64[N], out p: f32[N],\n"
      "    out q: f32[N]) dims(N in 0..1000000) {\n"
      "  loop.serial i in 0 .. N step 16 { loop.lane l in 0 .. 16 {\n"
      "    p[i + l] = pow(x[i + l], y[i + l])\n"
      "    q[i + l] = pow(x[i + l], n[i + l]) } }\n}\n";
  enum { COUNT = 1 << 18 };
  UNUSED_ARG;
  double limit = allowed(KIR_X_POW, TDSL_DTYPE_F32);
  for (int t = 0; t < LAB_TARGETS; t++) {
    const ir_target_t *target = lab_target(t);
    if (target == NULL) continue;
    lab_t lab;
    lab_open(&lab, task, text, DIMS(COUNT));
    float *x = lab.data[0], *y = lab.data[1];
    int64_t *n = lab.data[2];
    for (size_t i = 0; i < COUNT; i++) {
      uint64_t r = lab_random(&lab);
      x[i] = td_f32_from_bits((uint32_t)r);
      if (i % 2 == 0) x[i] = fabsf(x[i]);
      /* exponents that keep most results in range */
      double range = 120 / (1 + fabs(log2(fabs((double)x[i]))));
      y[i] = (float)(((double)(r >> 40) * 0x1p-23 - 1) * range);
      n[i] = (int64_t)(r >> 57) - 64;
      if (i < SPECIALS * SPECIALS) {
        x[i] = (float)special(i / SPECIALS);
        y[i] = (float)special(i % SPECIALS);
      }
    }
    lab_copy(&lab);
    lab_code_t c = lab_compile(&lab, target);
    lab_call(&lab, c, 0);
    for (size_t i = 0; i < COUNT; i++) {
      const float *p = lab.other[3], *q = lab.other[4];
      double want[2] = {exact_pow((double)x[i], (double)y[i]),
                        pow((double)x[i], (double)n[i])};
      float got[2] = {p[i], q[i]};
      for (int k = 0; k < 2; k++) {
        double away = units(got[k], want[k]);
        if (away <= limit) continue;
        fail_msg("%s, pow(%a, %a | %lld) is %a, not %a: %g units",
                 target->name, (double)x[i], (double)y[i], (long long)n[i],
                 (double)got[k], want[k], away);
      }
    }
    rcpu_code_destroy(c.code);
    lab_close(&lab);
  }
}

/* f64 functions are those of libm; what is measured is libm. */
TASK_TEST(test_wide_functions) {
  enum { COUNT = 1 << 12 };
  UNUSED_ARG;
  for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
    const char *text = text_of(
        task,
        "kernel f(in x: f64[N], out y: f64[N]) dims(N in 0..1000000) {\n"
        "  loop.serial i in 0 .. N step 8 {\n"
        "    loop.lane l in 0 .. 8 { y[i + l] = %s(x[i + l]) } }\n}\n",
        functions[f].name);
    double limit = allowed(functions[f].op, TDSL_DTYPE_F64) * 0x1p-53;
    lab_t lab;
    lab_open(&lab, task, text, DIMS(COUNT));
    lab_code_t c = lab_compile(&lab, ir_target_host());
    lab_copy(&lab);
    lab_call(&lab, c, 0);
    for (size_t i = 0; i < COUNT; i++) {
      double x = ((double *)lab.other[0])[i], y = ((double *)lab.other[1])[i];
      double want = functions[f].exact(x);
      bool same = want != want ? y != y : fabs(y - want) <= limit * fabs(want);
      assert_true(same);
    }
    rcpu_code_destroy(c.code);
    lab_close(&lab);
  }
}

/* ---- many quotients by one divisor --------------------------------------- */

enum { QUOTIENTS = 256 };

/* Inverse of an odd number modulo 2^25: each step doubles the right bits. */
static uint32_t inverse(uint32_t odd) {
  uint32_t x = odd;
  for (int i = 0; i < 4; i++) x *= 2 - odd * x;
  return x & 0x1ffffff;
}

/* Dividends whose quotients by b * 2^e are as near to the middle between two
   floats as any: m b = 1 (or -1) modulo 2^25 with a 25-bit m, so a / b is
   m / 2^25 but for 2^-25 / b.  Then numbers of every kind, in groups of 64
   that are all harmless, mixed, or all at the ends of the range. */
static void fill_dividends(lab_t *lab, uint32_t b, float *x) {
  for (int i = 0; i < QUOTIENTS; i++) {
    uint64_t r = lab_random(lab);
    uint32_t m = i % 2 == 0 ? inverse(b) : 0x2000000 - inverse(b);
    uint64_t change = i % 2 == 0 ? UINT64_MAX : 1;
    uint32_t a = (uint32_t)(((uint64_t)m * b + change) >> 25);
    int scale = (int)(r >> 40) % 60 - 30;
    if (i < 64) x[i] = (float)ldexp((double)a, scale);
    else if (i < 128) x[i] = (float)ldexp((double)(r >> 40) + 1, scale);
    else if (i < 192) x[i] = td_f32_from_bits((uint32_t)r);
    else x[i] = (float)special((size_t)(i + scale + 30) % SPECIALS);
    if (i % 7 == 3 && i < 128) x[i] = i % 2 == 0 ? 0.0F : -0.0F;
    if (i % 5 == 0) x[i] = -x[i];
  }
}

TASK_TEST(test_quotients) {
  static const char text[] =
      "kernel f(in x: f32[N], in z: f32[1], out y: f32[N], out t: f32[N])\n"
      "    dims(N in 0..1000000) {\n"
      "  loop.serial i in 0 .. dim(N / 64 * 64) step 64 {\n"
      "    loop.lane l in 0 .. 64 { y[i + l] = x[i + l] / z[0] } }\n"
      "  loop.serial i in 0 .. N step 16 {\n"
      "    loop.lane l in 0 .. 16 where i + l < N - 5 {\n"
      "      t[i + l] = x[i + l] / z[0] } }\n}\n";
  enum { DIVISORS = 4000 };
  UNUSED_ARG;
  for (int t = 0; t < LAB_TARGETS; t++) {
    const ir_target_t *target = lab_target(t);
    if (target == NULL) continue;
    lab_t lab;
    lab_open(&lab, task, text, DIMS(QUOTIENTS));
    lab_code_t c = lab_compile(&lab, target);
    float *x = lab.other[0], *z = lab.other[1];
    const float *y[2] = {lab.other[2], lab.other[3]};
    for (int d = 0; d < DIVISORS; d++) {
      uint64_t r = lab_random(&lab);
      uint32_t b = (uint32_t)(r >> 41) | 0x800001;
      z[0] = (float)ldexp((double)b, (int)(r % 16) - 30);
      if (d % 50 == 1) z[0] = -z[0];
      if (d % 50 == 2) z[0] = td_f32_from_bits((uint32_t)(r >> 8));
      if (d < SPECIALS) z[0] = (float)special((size_t)d);
      fill_dividends(&lab, b, x);
      lab_call(&lab, c, 0);
      for (int i = 0; i < 2 * QUOTIENTS; i++) {
        int at = i % QUOTIENTS;
        if (i >= 2 * QUOTIENTS - 5) break;
        float want = x[at] / z[0], got = y[i / QUOTIENTS][at];
        bool same = want != want ? got != got
                                 : memcmp(&got, &want, sizeof got) == 0;
        if (same) continue;
        fail_msg("%s, %a / %a is %a, not %a", target->name, (double)x[at],
                 (double)z[0], (double)got, (double)want);
      }
    }
    rcpu_code_destroy(c.code);
    lab_close(&lab);
  }
}

/* An element has the same bits in lanes of every width, and in none; but for
   erf those of every target that has multiply-adds, which a GPU has too. */
TASK_TEST(test_widths) {
  static const char *const forms[] = {"exp(%s)", "exp2(%s)", "erf(%s)",
                                      "tanh(%s)", "max(%s, x[0])",
                                      "min(%s, x[0])"};
  enum { COUNT = 1 << 12 };
  UNUSED_ARG;
  for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
    float *first[LAB_TARGETS] = {NULL};
    for (int lanes = 1; lanes <= 64; lanes *= 2) {
      const char *value = text_of(task, forms[f], "x[i + l]");
      const char *text = text_of(
          task,
          "kernel f(in x: f32[N], out y: f32[N]) dims(N in 0..1000000) {\n"
          "  loop.serial i in 0 .. N step %d {\n"
          "    loop.%s l in 0 .. %d { y[i + l] = %s } }\n}\n",
          lanes, lanes == 1 ? "serial" : "lane", lanes, value);
      for (int t = 0; t < LAB_TARGETS; t++) {
        const ir_target_t *target = lab_target(t);
        if (target == NULL) continue;
        lab_t lab;
        lab_open(&lab, task, text, DIMS(COUNT));
        lab_code_t c = lab_compile(&lab, target);
        float *x = lab.other[0];
        const float *y = lab.other[1];
        for (size_t i = 0; i < COUNT; i++) {
          x[i] = i < SPECIALS ? (float)special(i)
                              : td_f32_from_bits((uint32_t)i * 1048573u);
        }
        lab_call(&lab, c, 0);
        bool is_like_v3 = strcmp(target->name, "x86-64-v4") == 0 &&
                          strncmp(forms[f], "erf", 3) != 0;
        if (first[t] == NULL && is_like_v3) first[t] = first[t - 1];
        if (first[t] == NULL) {
          first[t] = td_arena_alloc(&task->arena, COUNT * sizeof *y);
          memcpy(first[t], y, COUNT * sizeof *y);
        }
        for (size_t i = 0; i < COUNT; i++) {
          bool same = y[i] != y[i] ? first[t][i] != first[t][i]
                                   : memcmp(&y[i], &first[t][i], 4) == 0;
          if (same) continue;
          fail_msg("%s, %d lanes: %s of %a is %a, alone %a", target->name,
                   lanes, forms[f], (double)x[i], (double)y[i],
                   (double)first[t][i]);
        }
        rcpu_code_destroy(c.code);
        lab_close(&lab);
      }
    }
  }
}

int main(int argc, char **argv) {
  if (argc > 1) sweep_step = (uint32_t)strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conversions),
      cmocka_unit_test(test_cast_vectors),
      cmocka_unit_test(test_functions),
      cmocka_unit_test(test_powers),
      cmocka_unit_test(test_wide_functions),
      cmocka_unit_test(test_quotients),
      cmocka_unit_test(test_widths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
