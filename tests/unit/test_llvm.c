/* Kernels as machine code: every statement and operation against the
   interpreter of the kernel IR, with equal bits wherever no transcendental
   function is involved, and against formulas written here. */
#include "kir_llvm_lab.h"

#include <math.h>
#include <stdio.h>

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
      "      loop.unroll u in 0 .. 3 {\n"
      "        alloc local w: f32[16]\n"
      "        loop.lane l in 0 .. 16 { w[l] = cast.f32(l * u) }\n"
      "        loop.serial i in u .. min(N, u + 1) { y[b, r, i] = w[u] }\n"
      "      }\n"
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

/* Copies of an unrolled lane loop, side by side where that is the same: what
   `body` does for lane l of copy u, 4 copies of 16. */
static void check_copies(td_task_t *task, const char *body) {
  lab_check(task,
            text_of(task,
                    "kernel k(in x: f32[R, 256], inout y: f32[R, 256],\n"
                    "    out s: f32[R], out t: f32[R]) dims(R in 0..9) {\n"
                    "  loop.block r in 0 .. R {\n"
                    "    alloc local e: f32[256]\n"
                    "    alloc register acc: f32[16]\n"
                    "    alloc register two: f32[16]\n"
                    "    alloc register one: f32\n"
                    "    one[] = 0.75\n"
                    "    loop.lane l in 0 .. 16 { acc[l] = 0.0 }\n"
                    "    loop.lane l in 0 .. 16 { two[l] = 1.0 }\n"
                    "    loop.serial i in 0 .. 256 step 64 {\n"
                    "      loop.unroll u in 0 .. 64 step 16 {\n%s"
                    "      }\n"
                    "    }\n"
                    "    s[r] = fold.add acc[]\n"
                    "    t[r] = fold.add two[]\n"
                    "  }\n"
                    "}\n",
                    body),
            DIMS(3));
}

TASK_TEST(test_copies_abreast) {
  UNUSED_ARG;
  /* one value of all lanes; its terms in the order of the copies */
  check_copies(task, "loop.lane l in 0 .. 16 {\n"
                     "  let v: f32 = x[r, i + u + l] * one[] - 3.0\n"
                     "  y[r, i + u + l] = v * v\n"
                     "  acc[l] = acc[l] * 0.5 + v\n"
                     "}\n");
  /* a name for a place, also one that grows by three */
  check_copies(task, "loop.lane l in 0 .. 16 {\n"
                     "  let at: i64 = (u + l) * 3\n"
                     "  let v: f32 = x[r, at] + cast.f32(at)\n"
                     "  e[i + l + u] = v\n"
                     "  acc[l] = fma(v, v, acc[l])\n"
                     "}\n");
  /* copies that differ in more than their lanes */
  check_copies(task, "loop.lane l in 0 .. 16 {\n"
                     "  let c: f32 = cast.f32(u)\n"
                     "  let v: f32 = x[r, i + u + l] * c\n"
                     "  let w: f32 = x[r, 2 * u + l] + 1.0\n"
                     "  let z: f32 = x[r, i + u + l] - x[r, i + l]\n"
                     "  y[r, i + u + l] = v + w * z\n"
                     "  acc[l] = acc[l] * 0.5 + z\n"
                     "}\n");
  /* what a copy stores the next one reads, in memory and in registers */
  check_copies(task, "loop.lane l in 0 .. 16 {\n"
                     "  let v: f32 = y[r, (i + u + l + 240) % 256] + 1.0\n"
                     "  y[r, i + u + l] = v * 0.5\n"
                     "  acc[l] = acc[l] + v\n"
                     "}\n");
  check_copies(task, "loop.lane l in 0 .. 16 {\n"
                     "  let v: f32 = x[r, i + u + l] + acc[l]\n"
                     "  acc[l] = v * 0.5\n"
                     "  two[l] = max(two[l], v)\n"
                     "}\n");
  check_copies(task, "loop.lane l in 0 .. 16 {\n"
                     "  let v: f32 = x[r, i + u + l] + 1.0\n"
                     "  y[r, i + l] = v\n"
                     "}\n");
  /* two loops: apart, and one that reads what the other stores */
  check_copies(task, "loop.lane l in 0 .. 16 {\n"
                     "  let v: f32 = x[r, i + u + l] * 2.0\n"
                     "  acc[l] = acc[l] * 0.5 + v\n"
                     "}\n"
                     "loop.lane j in 0 .. 16 {\n"
                     "  let w: f32 = x[r, 255 - (i + u + j)] + 2.0\n"
                     "  y[r, i + u + j] = w\n"
                     "  two[j] = two[j] * 0.5 + w\n"
                     "}\n");
  check_copies(task, "loop.lane l in 0 .. 16 {\n"
                     "  let v: f32 = x[r, i + u + l] * two[l]\n"
                     "  acc[l] = acc[l] * 0.5 + v\n"
                     "}\n"
                     "loop.lane j in 0 .. 16 {\n"
                     "  let w: f32 = x[r, i + u + j] + acc[j]\n"
                     "  two[j] = w * 0.25\n"
                     "}\n");
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

static void check_transpose(td_task_t *task, const char *type, int n) {
  char text[600];
  snprintf(text, sizeof text,
           "kernel turn(in x: %s[%d, %d], out y: %s[%d, %d]) {\n"
           "  alloc register t: %s[%d, %d]\n"
           "  loop.unroll i in 0 .. %d { loop.lane l in 0 .. %d {\n"
           "    t[i, l] = x[i, l] } }\n"
           "  transpose t\n"
           "  loop.unroll i in 0 .. %d { loop.lane l in 0 .. %d {\n"
           "    y[i, l] = t[i, l] } }\n"
           "}\n",
           type, n, n, type, n, n, type, n, n, n, n, n, n);
  lab_t lab;
  lab_open(&lab, task, text, DIMS(0));
  lab_agree(&lab); /* leaves both results in place */
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) {
      if (strcmp(type, "f32") == 0) {
        const float *x = lab.data[0], *y = lab.data[1];
        assert_memory_equal(&y[i * n + j], &x[j * n + i], sizeof *y);
      } else {
        const double *x = lab.data[0], *y = lab.data[1];
        assert_memory_equal(&y[i * n + j], &x[j * n + i], sizeof *y);
      }
    }
  }
  lab_close(&lab);
}

TASK_TEST(test_transpose) {
  UNUSED_ARG;
  for (int n = 2; n <= 16; n *= 2) {
    check_transpose(task, "f32", n);
    check_transpose(task, "f64", n);
  }
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
      "a[i] + b[i]", "a[i] - b[i]",
      "a[i] * b[i]", "a[i] / b[i]",       "neg(a[i])",
      "abs(a[i])",   "floor(a[i])",       "ceil(a[i])",
      "round(a[i])", "sqrt(a[i])",        "min(a[i], b[i])",
      "max(a[i], b[i])", "fma(a[i], b[i], c[i])",
      "select(a[i] < b[i], c[i], a[i] * b[i])",
      "select(not(a[i] == b[i]) and c[i] != a[i], a[i], b[i])",
      "a[i] * b[i] + c[i]"};
  static const char *const types[] = {"f32", "f64"};
  UNUSED_ARG;
  for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
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

TASK_TEST(test_round_tf32) {
  UNUSED_ARG;
  lab_t lab;
  lab_open(&lab, task,
           pair_kernel(task, "f32", "f32", "round_tf32(a[i])", true),
           DIMS(1 << 14));
  for (size_t i = SPECIALS * SPECIALS; i < 1 << 14; i++) {
    ((uint32_t *)lab.data[0])[i] = (uint32_t)lab_random(&lab);
  }
  fill_pairs(&lab, TDSL_DTYPE_F32);
  lab_agree(&lab);
  lab_close(&lab);
}

TASK_TEST(test_comparisons) {
  static const char *const forms[] = {
      /* eq, ne, lt, le, gt, ge */
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
      /* div and mod floor */
      "a[i] / max(b[i], 1)", "a[i] % max(b[i], 1)", "a[i] / 7", "a[i] % 8",
      "a[i] / 16", "a[i] % 5",
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elementwise),
      cmocka_unit_test(test_access),
      cmocka_unit_test(test_conditions),
      cmocka_unit_test(test_idle_lanes),
      cmocka_unit_test(test_scratch),
      cmocka_unit_test(test_copies_abreast),
      cmocka_unit_test(test_micro_kernel),
      cmocka_unit_test(test_transpose),
      cmocka_unit_test(test_memory_order),
      cmocka_unit_test(test_float_operations),
      cmocka_unit_test(test_round_tf32),
      cmocka_unit_test(test_comparisons),
      cmocka_unit_test(test_integer_operations),
      cmocka_unit_test(test_uniform),
      cmocka_unit_test(test_long_sum),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
