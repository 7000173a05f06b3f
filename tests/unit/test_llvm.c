/* Kernels as machine code: every statement and operation against the
   interpreter of the kernel IR, with equal bits wherever no transcendental
   function is involved, and against formulas written here. */
#include "kir_llvm_lab.h"

#include <math.h>
#include <stdio.h>

#define DIMS(...) ((const int64_t[]){__VA_ARGS__, 0, 0, 0, 0})

static const char *text_of(td_task_t *task, const char *format, ...)
    TD_PRINTF(2, 3);
static const char *text_of(td_task_t *task, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(&task->arena, format, args);
  va_end(args);
  return text;
}

/* ---- loops and masks ----------------------------------------------------- */

TASK_TEST(test_elementwise) {
  static const char text[] =
      "kernel scale(in x: f32[N], in y: f32[N], out z: f32[N])\n"
      "    dims(N in 0..100000) {\n"
      "  loop.block b in 0 .. N step 64 {\n"
      "    loop.serial i in b .. min(b + 64, N) step 16 {\n"
      "      loop.lane l in 0 .. 16 where i + l < N {\n"
      "        z[i + l] = x[i + l] * 3.0 + y[i + l] / 7.0\n"
      "      }\n"
      "    }\n"
      "  }\n"
      "}\n";
  UNUSED_ARG;
  static const int64_t sizes[] = {0, 1, 15, 16, 17, 63, 64, 65, 1000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    lab_check(task, text, DIMS(sizes[i]));
  }
  /* against the formula, not our own interpreter */
  lab_t lab;
  lab_open(&lab, task, text, DIMS(77));
  lab_copy(&lab);
  lab_code_t c = lab_compile(&lab, ir_target_host());
  lab_call(&lab, c, 0);
  const float *x = lab.other[0], *y = lab.other[1], *z = lab.other[2];
  for (int i = 0; i < 77; i++) {
    volatile float product = x[i] * 3.0f, quotient = y[i] / 7.0f;
    assert_true(z[i] == product + quotient);
  }
  rcpu_code_destroy(c.code);
  lab_close(&lab);
}

TASK_TEST(test_access) {
  UNUSED_ARG;
  /* rows, columns, diagonals, gathers, scatters, reversed and strided */
  static const char text[] =
      "kernel access(in x: f32[M, N], in at: i32[N], out z: f32[7, M, N],\n"
      "    out w: f32[N, 3]) dims(M in 1..64, N in 1..1000) {\n"
      "  loop.block r in 0 .. M {\n"
      "    loop.serial i in 0 .. N step 8 {\n"
      "      loop.lane l in 0 .. 8 where i + l < N {\n"
      "        z[0, r, i + l] = x[r, i + l]\n"
      "        z[1, r, i + l] = x[r, N - 1 - (i + l)]\n"
      "        z[2, r, i + l] = x[(i + l) % M, r]\n"
      "        z[3, r, i + l] = x[r, min(at[i + l], N - 1)]\n"
      "        z[4, r, N - 1 - (i + l)] = x[r, 0]\n"
      "        z[5, r, i + l] = x[r, (i + l) / 2]\n"
      "        let k: i64 = l + i\n"
      "        z[6, M - 1 - r, k] = x[r, k] + x[0, l + i]\n"
      "        if r == 0 { w[i + l, 2] = x[0, i + l] }\n"
      "      }\n"
      "    }\n"
      "  }\n"
      "}\n";
  lab_check(task, text, DIMS(1, 1));
  lab_check(task, text, DIMS(3, 37));
  lab_check(task, text, DIMS(5, 64));
}

TASK_TEST(test_conditions) {
  UNUSED_ARG;
  /* guards are what keeps these loads in bounds */
  static const char text[] =
      "kernel guard(in x: f32[N], in n: i64, out y: f32[N],\n"
      "    inout z: i64[N], inout s: f32) dims(N in 1..1000) {\n"
      "  loop.block b in 0 .. 1 {\n"
      "    loop.serial i in 0 .. N step 16 {\n"
      "      loop.lane l in 0 .. 16 where i + l < N {\n"
      "        let k: i64 = i + l\n"
      "        if k % 3 == 0 {\n"
      "          y[k] = select(k >= 2, x[k - 2], -1.0)\n"
      "          z[k] = k\n"
      "        } else {\n"
      "          if k + 5 < N { y[k] = x[k + 5] } else { y[k] = 9.0 }\n"
      "          z[k] = select(k > 0 and x[k - 1] > 0.0, 1, 2)\n"
      "        }\n"
      "        if n[] > 3 { z[k] = z[k] + 10 } else { z[k] = z[k] - 10 }\n"
      "        if k < 1 or x[k - 1] < 0.5 { z[k] = z[k] * 2 }\n"
      "      }\n"
      "    }\n"
      "    loop.serial i in -3 .. N + 3 {\n"
      "      if i >= 0 and i < N and x[i] > 1.0 { z[i] = z[i] + 100 }\n"
      "      let v: f32 = select(i < 0 or i >= N, 0.5, x[i])\n"
      "      s[] = select(i == -3, v, s[] + v)\n"
      "    }\n"
      "  }\n"
      "}\n";
  lab_check(task, text, DIMS(1));
  lab_check(task, text, DIMS(50));
}

TASK_TEST(test_idle_lanes) {
  UNUSED_ARG;
  /* what all lanes share is neither read nor divided by if none counts, and
     stays one value */
  static const char text[] =
      "kernel idle(in x: f32[N], in at: i64[N], in n: i64, out y: f32[16],\n"
      "    inout z: i64[16]) dims(N in 0..100) {\n"
      "  loop.lane l in 0 .. 16 {\n"
      "    y[l] = 0.0\n"
      "    if l < N { y[l] = x[at[0] % max(N, 1)] + x[0] }\n"
      "    z[l] = select(l < N and l > 3, 7 / n[] + l % n[], z[l])\n"
      "    if l < N { if at[0] > 2 { z[l] = at[N - 1] } else { z[l] = l } }\n"
      "  }\n"
      "}\n";
  for (int64_t n = 0; n < 6; n++) {
    lab_t lab;
    lab_open(&lab, task, text, DIMS(n));
    *(int64_t *)lab.data[2] = n;
    lab_agree(&lab);
    lab_close(&lab);
  }
}

TASK_TEST(test_scratch) {
  UNUSED_ARG;
  /* local rows, register rows, folds, unrolling, nested block loops */
  static const char text[] =
      "kernel rows(in x: bf16[B, R, N], out y: f32[B, R, N],\n"
      "    out m: f32[B, R]) dims(B in 0..8, R in 0..8, N in 0..1000) {\n"
      "  loop.block b in 0 .. B {\n"
      "    loop.block r in 0 .. R {\n"
      "      alloc local e: f32[N]\n"
      "      alloc local t: i8[3, N]\n"
      "      alloc register acc: f32[16]\n"
      "      alloc register top: f32\n"
      "      loop.lane l in 0 .. 16 { acc[l] = -inf }\n"
      "      loop.serial i in 0 .. N step 16 {\n"
      "        loop.lane l in 0 .. 16 where i + l < N {\n"
      "          acc[l] = max(acc[l], x[b, r, i + l])\n"
      "          t[1, i + l] = cast.i8(x[b, r, i + l])\n"
      "        }\n"
      "      }\n"
      "      top[] = fold.max acc[]\n"
      "      m[b, r] = top[]\n"
      "      loop.serial i in 0 .. N step 16 {\n"
      "        loop.lane l in 0 .. 16 where i + l < N {\n"
      "          e[i + l] = x[b, r, i + l] - top[]\n"
      "        }\n"
      "      }\n"
      "      loop.serial i in 0 .. N {\n"
      "        y[b, r, i] = e[N - 1 - i] + cast.f32(t[1, i])\n"
      "      }\n"
      "    }\n"
      "  }\n"
      "}\n";
  lab_check(task, text, DIMS(2, 3, 37));
  lab_check(task, text, DIMS(1, 1, 0));
  lab_check(task, text, DIMS(0, 5, 9));
}

TASK_TEST(test_micro_kernel) {
  UNUSED_ARG;
  static const char text[] =
      "kernel mm(in a: f32[M, K], in b: f32[K, 32], inout c: f32[M, 32])\n"
      "    dims(M in 1..100, K in 0..1000) {\n"
      "  loop.block i0 in 0 .. M step 3 {\n"
      "    alloc register acc: f32[3, 2, 16]\n"
      "    loop.unroll i in 0 .. 3 { loop.unroll j in 0 .. 2 {\n"
      "      loop.lane l in 0 .. 16 where i0 + i < M {\n"
      "        acc[i, j, l] = c[i0 + i, j * 16 + l]\n"
      "      }\n"
      "    } }\n"
      "    loop.serial k in 0 .. K {\n"
      "      loop.unroll i in 0 .. 3 { loop.unroll j in 0 .. 2 {\n"
      "        if i0 + i < M {\n"
      "          loop.lane l in 0 .. 16 {\n"
      "            acc[i, j, l] = fma(a[i0 + i, k], b[k, j * 16 + l],\n"
      "                               acc[i, j, l])\n"
      "          }\n"
      "        }\n"
      "      } }\n"
      "    }\n"
      "    loop.unroll i in 0 .. 3 { loop.unroll j in 0 .. 2 {\n"
      "      loop.lane l in 0 .. 16 where i0 + i < M {\n"
      "        c[i0 + i, j * 16 + l] = acc[i, j, l]\n"
      "      }\n"
      "    } }\n"
      "  }\n"
      "}\n";
  lab_check(task, text, DIMS(7, 20));
  lab_check(task, text, DIMS(3, 0));
}

TASK_TEST(test_memory_order) {
  UNUSED_ARG;
  /* what was stored is read back, also through a let and in lanes */
  static const char text[] =
      "kernel order(inout x: f32[N], out y: f32[N]) dims(N in 1..100) {\n"
      "  loop.serial i in 1 .. N {\n"
      "    let before: f32 = x[i]\n"
      "    x[i] = x[i] + x[i - 1]\n"
      "    y[i] = x[i] - before\n"
      "  }\n"
      "  loop.serial i in 0 .. N - 16 step 16 {\n"
      "    loop.lane l in 0 .. 16 {\n"
      "      let before: f32 = x[i + l]\n"
      "      x[i + l] = x[i + l + 1] * 2.0\n"
      "      y[i + l] = x[i + l] - before + x[i + 3]\n"
      "    }\n"
      "  }\n"
      "  loop.lane l in 0 .. 4 { x[0] = cast.f32(l) }\n"
      "}\n";
  lab_check(task, text, DIMS(90));
}

/* ---- scalar operations --------------------------------------------------- */

/* Interesting f32 and f64 values and all pairs of them. */
static const double specials[] = {
    0.0,       -0.0,      1.0,        -1.0,      0.5,      -0.5,    1.5,
    2.5,       -2.5,      3.0,        -7.0,      0x1p-126, 0x1p-149,
    -0x1p-149, 0x1p-130,  0x1.fffffep127, -0x1.fffffep127, 0x1p31, -0x1p31,
    0x1p63,    -0x1p63,   1e10,       -1e-10,    0.1,      12345.678};
enum { SPECIALS = sizeof specials / sizeof specials[0] + 3 };

static double special(size_t i) {
  size_t n = sizeof specials / sizeof specials[0];
  if (i < n) return specials[i];
  return i == n ? (double)INFINITY : i == n + 1 ? -(double)INFINITY
                                                : (double)NAN;
}

/* a, b, c: all pairs of special values (c: a third pattern). */
static void fill_pairs(lab_t *lab, tdsl_dtype_t dtype) {
  size_t bytes = td_dtype_bytes(dtype);
  for (size_t i = 0; i < SPECIALS * SPECIALS; i++) {
    double v[3] = {special(i / SPECIALS), special(i % SPECIALS),
                   special((i * 7 + i / SPECIALS) % SPECIALS)};
    for (int k = 0; k < 3; k++) {
      td_store_f64(dtype, (unsigned char *)lab->data[k] + i * bytes, v[k]);
    }
  }
}

static const char *pair_kernel(td_task_t *task, const char *type,
                               const char *out, const char *formula,
                               bool in_lanes) {
  const char *loop =
      in_lanes ? "loop.serial i0 in 0 .. N step 8 {\n"
                 "loop.lane l in 0 .. 8 where i0 + l < N {\n"
                 "let i: i64 = i0 + l\n"
               : "loop.serial i0 in 0 .. N { if true {\nlet i: i64 = i0\n";
  return text_of(task,
                 "kernel op(in a: %s[N], in b: %s[N], in c: %s[N],\n"
                 "    out z: %s[N]) dims(N in 0..100000) {\n"
                 "  %s z[i] = %s\n } }\n}\n",
                 type, type, type, out, loop, formula);
}

TASK_TEST(test_float_operations) {
  static const char *const forms[] = {
      "-x",          "a[i] + b[i]",       "a[i] - b[i]",
      "a[i] * b[i]", "a[i] / b[i]",       "neg(a[i])",
      "abs(a[i])",   "floor(a[i])",       "ceil(a[i])",
      "round(a[i])", "sqrt(a[i])",        "min(a[i], b[i])",
      "max(a[i], b[i])", "fma(a[i], b[i], c[i])",
      "select(a[i] < b[i], c[i], a[i] * b[i])",
      "select(not(a[i] == b[i]) and c[i] != a[i], a[i], b[i])",
      "a[i] * b[i] + c[i]"};
  static const char *const types[] = {"f32", "f64"};
  UNUSED_ARG;
  for (size_t f = 1; f < sizeof forms / sizeof forms[0]; f++) {
    for (int t = 0; t < 2; t++) {
      for (int lanes = 0; lanes < 2; lanes++) {
        lab_t lab;
        lab_open(&lab, task,
                 pair_kernel(task, types[t], types[t], forms[f], lanes),
                 DIMS(SPECIALS * SPECIALS));
        fill_pairs(&lab, t == 0 ? TDSL_DTYPE_F32 : TDSL_DTYPE_F64);
        lab_agree(&lab);
        lab_close(&lab);
      }
    }
  }
}

TASK_TEST(test_comparisons) {
  static const char *const forms[] = {
      "a[i] == b[i]", "a[i] != b[i]", "a[i] < b[i]",
      "a[i] <= b[i]", "a[i] > b[i]",  "a[i] >= b[i]",
      "a[i] < b[i] or b[i] < c[i]", "not(a[i] < b[i]) and c[i] > a[i]"};
  static const char *const types[] = {"f32", "f64", "i64", "i32"};
  UNUSED_ARG;
  for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
    for (int t = 0; t < 4; t++) {
      for (int lanes = 0; lanes < 2; lanes++) {
        lab_t lab;
        lab_open(&lab, task,
                 pair_kernel(task, types[t], "bool", forms[f], lanes),
                 DIMS(SPECIALS * SPECIALS));
        if (t < 2) {
          fill_pairs(&lab, t == 0 ? TDSL_DTYPE_F32 : TDSL_DTYPE_F64);
        }
        lab_agree(&lab);
        lab_close(&lab);
      }
    }
  }
}

static const int64_t whole[] = {0, 1, -1, 2, 3, -3, 7, -7, 64, 255, -128,
                                32767, 65536, INT32_MAX, INT32_MIN,
                                INT64_MAX, INT64_MIN, 0x123456789abcdef};
enum { WHOLES = sizeof whole / sizeof whole[0] };

TASK_TEST(test_integer_operations) {
  static const char *const forms[] = {
      "a[i] + b[i]", "a[i] - b[i]", "a[i] * b[i]", "neg(a[i])", "abs(a[i])",
      "min(a[i], b[i])", "max(a[i], b[i])",
      "a[i] / max(b[i], 1)", "a[i] % max(b[i], 1)", "a[i] / 7", "a[i] % 8",
      "pow(a[i], min(max(b[i], 0), 70))", "select(b[i] > 0, a[i] / b[i], 5)"};
  UNUSED_ARG;
  for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
    for (int lanes = 0; lanes < 2; lanes++) {
      lab_t lab;
      lab_open(&lab, task, pair_kernel(task, "i64", "i64", forms[f], lanes),
               DIMS(WHOLES * WHOLES));
      for (size_t i = 0; i < WHOLES * WHOLES; i++) {
        ((int64_t *)lab.data[0])[i] = whole[i / WHOLES];
        ((int64_t *)lab.data[1])[i] = whole[i % WHOLES];
      }
      lab_agree(&lab);
      lab_close(&lab);
    }
  }
}

TASK_TEST(test_uniform) {
  static const char text[] =
      "kernel random(in s: i64[N], out z: f32[N], out w: f32[N],\n"
      "    out v: f32[N]) dims(N in 0..1000) {\n"
      "  loop.serial i in 0 .. N step 16 {\n"
      "    loop.lane l in 0 .. 16 where i + l < N {\n"
      "      z[i + l] = uniform(7, i + l)\n"
      "      w[i + l] = uniform(s[i + l] * 1099511627777, -3, i + l, 2, l)\n"
      "    }\n"
      "  }\n"
      "  loop.serial i in 0 .. N { v[i] = uniform(s[i], i, 5, neg(i)) }\n"
      "}\n";
  UNUSED_ARG;
  lab_check(task, text, DIMS(200));
}

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

/* A sum of many terms in one statement. */
TASK_TEST(test_long_sum) {
  enum { TERMS = 30000 };
  UNUSED_ARG;
  td_buf_t text;
  td_buf_init(&text, task);
  td_buf_puts(&text, "kernel k(in x: f32[16], out y: f32[16]) {\n"
                     "loop.lane l in 0 .. 16 { y[l] = x[l]");
  for (int i = 1; i < TERMS; i++) td_buf_printf(&text, " + x[%d]", i % 16);
  td_buf_puts(&text, " }\n}\n");
  lab_check(task, text.data, DIMS(0));
  td_buf_free(&text);
}

int main(int argc, char **argv) {
  if (argc > 1) sweep_step = (uint32_t)strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elementwise),
      cmocka_unit_test(test_access),
      cmocka_unit_test(test_conditions),
      cmocka_unit_test(test_idle_lanes),
      cmocka_unit_test(test_scratch),
      cmocka_unit_test(test_micro_kernel),
      cmocka_unit_test(test_memory_order),
      cmocka_unit_test(test_float_operations),
      cmocka_unit_test(test_comparisons),
      cmocka_unit_test(test_integer_operations),
      cmocka_unit_test(test_uniform),
      cmocka_unit_test(test_conversions),
      cmocka_unit_test(test_cast_vectors),
      cmocka_unit_test(test_functions),
      cmocka_unit_test(test_powers),
      cmocka_unit_test(test_wide_functions),
      cmocka_unit_test(test_long_sum),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
