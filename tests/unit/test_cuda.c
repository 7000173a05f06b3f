/* Kernels as CUDA C: what the threads of a warp make of lanes, against the
   interpreter of the kernel IR, with equal bits. */
#include "kir_cuda_lab.h"

/* ---- lanes -------------------------------------------------------------- */

GPU_TEST(test_masks) {
  static const char text[] =
      "kernel masks(in x: f32[N], in y: f16[N], out z: f32[N])\n"
      "    dims(N in 0..100000) {\n"
      "  loop.block b in 0 .. N step 64 {\n"
      "    loop.serial i in b .. min(b + 64, N) step 16 {\n"
      "      loop.lane l in 0 .. 16 where i + l < N {\n"
      "        z[i + l] = x[i + l] * 3.0 + y[i + l] / 7.0\n"
      "      }\n"
      "    }\n"
      "  }\n"
      "}\n";
  static const int64_t sizes[] = {0, 1, 15, 16, 17, 63, 64, 65, 1000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    gpu_check(task, state, text, DIMS(sizes[i]));
  }
}

/* All lanes execute a statement before the next one: what one lane writes
   another one reads. */
GPU_TEST(test_exchange) {
  static const char text[] =
      "kernel exchange(inout x: f32[B, 32], out y: f32[B, 32],\n"
      "    inout z: f32[B, 20]) dims(B in 0..100) {\n"
      "  loop.block b in 0 .. B {\n"
      "    alloc local w: f32[32]\n"
      "    loop.lane l in 0 .. 32 {\n"
      "      w[l] = x[b, l] * 2.0\n"
      "      let v: f32 = w[31 - l]\n"
      "      y[b, l] = v + w[l / 2]\n"
      "      w[31 - l] = v\n"
      "      x[b, l] = x[b, (l + 1) % 32]\n"
      "    }\n"
      "    loop.lane l in 0 .. 20 where l != 3 {\n"
      "      z[b, l] = w[(l * 7) % 32]\n"
      "      if l % 2 == 0 { w[l + 1] = z[b, l] } else { w[l - 1] = 5.0 }\n"
      "      z[b, l] = z[b, l] + w[l]\n"
      "    }\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(1));
  gpu_check(task, state, text, DIMS(13));
}

/* Lanes beyond the threads come in a second part. */
GPU_TEST(test_wide) {
  static const char text[] =
      "kernel wide(in x: f32[R, 64], in n: i64[R], out y: f32[R, 64],\n"
      "    out s: f32[R], out m: i64[R], out a: bool[R])\n"
      "    dims(R in 0..100) {\n"
      "  loop.block r in 0 .. R {\n"
      "    alloc register acc: f32[2, 64]\n"
      "    alloc register top: i64[64]\n"
      "    alloc register all: bool[64]\n"
      "    loop.unroll u in 0 .. 2 {\n"
      "      loop.lane l in 0 .. 64 {\n"
      "        acc[u, l] = x[r, l] + cast.f32(u)\n"
      "      }\n"
      "    }\n"
      "    loop.lane l in 0 .. 64 { all[l] = x[r, l] < 1.5 }\n"
      "    loop.lane l in 0 .. 64 {\n"
      "      let k: i64 = (l * 5) % 64\n"
      "      top[l] = k * n[r] % 61\n"
      "      if l < 40 { y[r, k] = acc[0, l] } else {\n"
      "        if l == 50 { y[r, k] = 1.0 } else { y[r, k] = acc[1, l] }\n"
      "      }\n"
      "    }\n"
      "    s[r] = fold.add acc[1]\n"
      "    m[r] = fold.max top[]\n"
      "    a[r] = fold.and all[]\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(1));
  gpu_check(task, state, text, DIMS(7));
}

GPU_TEST(test_odd_lanes) {
  static const char text[] =
      "kernel odd(in x: f64[N, 45], out y: f64[N, 45], out z: f64[N, 6])\n"
      "    dims(N in 0..9) {\n"
      "  loop.block r in 0 .. N {\n"
      "    loop.lane l in 0 .. 45 where l != 7 { y[r, 44 - l] = x[r, l] }\n"
      "    loop.lane l in 0 .. 6 { z[r, l] = x[r, l] * x[r, l + 39] }\n"
      "    y[r, 37] = x[r, 44] - cast.f64(r)\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(5));
}

/* ---- folds and rows ----------------------------------------------------- */

GPU_TEST(test_folds) {
  static const char text[] =
      "kernel folds(in x: f32[R, N], in n: i64[R, N], out s: f32[R, 8],\n"
      "    out t: i64[R, 4]) dims(R in 0..50, N in 1..500) {\n"
      "  loop.block r in 0 .. R {\n"
      "    alloc register a: f32[16]\n"
      "    alloc register b: f32[16]\n"
      "    alloc register c: i64[16]\n"
      "    alloc register d: bool[16]\n"
      "    loop.lane l in 0 .. 16 {\n"
      "      a[l] = 0.0\n"
      "      b[l] = -inf\n"
      "      c[l] = 0\n"
      "      d[l] = false\n"
      "    }\n"
      "    loop.serial i in 0 .. N step 16 {\n"
      "      loop.lane l in 0 .. 16 where i + l < N {\n"
      "        a[l] = fma(x[r, i + l], x[r, i + l], a[l])\n"
      "        b[l] = max(b[l], x[r, i + l])\n"
      "        c[l] = c[l] + n[r, i + l]\n"
      "        d[l] = d[l] or x[r, i + l] > 1.9\n"
      "      }\n"
      "    }\n"
      "    s[r, 0] = fold.add a[]\n"
      "    s[r, 1] = fold.max b[] + fold.add a[]\n"
      "    s[r, 2] = fold.mul a[]\n"
      "    s[r, 3] = select(fold.or d[], 1.0, 2.0)\n"
      "    t[r, 0] = fold.add c[]\n"
      "    t[r, 1] = fold.min c[]\n"
      "    if fold.add a[] > 3.0 { t[r, 2] = 1 } else { t[r, 2] = 0 }\n"
      "    t[r, 3] = 9\n"
      "    loop.lane l in 0 .. 4 { s[r, l + 4] = fold.add a[] + x[r, 0] }\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(1, 1));
  gpu_check(task, state, text, DIMS(9, 77));
}

/* Rows that scalar code looks into lie in memory. */
GPU_TEST(test_exchanged_rows) {
  static const char text[] =
      "kernel rows(in x: f32[R, 8], out y: f32[R, 8], out s: f32[R])\n"
      "    dims(R in 0..50) {\n"
      "  loop.block r in 0 .. R {\n"
      "    alloc register a: f32[2, 8]\n"
      "    alloc register top: bf16\n"
      "    alloc register k: i8\n"
      "    loop.lane l in 0 .. 8 { a[1, l] = x[r, l] }\n"
      "    a[0, 3] = a[1, 2] + 1.0\n"
      "    a[1, 5] = 4.0\n"
      "    top[] = x[r, 0]\n"
      "    k[] = cast.i64(x[r, 1] * 1000.0)\n"
      "    loop.lane l in 0 .. 8 {\n"
      "      y[r, l] = a[1, l] + a[0, 3] + top[] + cast.f32(k[])\n"
      "    }\n"
      "    s[r] = fold.add a[1]\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(6));
}

/* ---- memory ------------------------------------------------------------- */

/* Scalars that follow each other, and rows between them and lanes. */
GPU_TEST(test_order) {
  static const char text[] =
      "kernel order(inout x: f32[N], out y: f32[N], inout s: f32)\n"
      "    dims(N in 1..1000) {\n"
      "  alloc local e: f32[N]\n"
      "  alloc local t: i8[3, N]\n"
      "  loop.serial i in 0 .. N { e[i] = x[N - 1 - i] }\n"
      "  loop.serial i in 0 .. N step 16 {\n"
      "    loop.lane l in 0 .. 16 where i + l < N {\n"
      "      x[i + l] = e[i + l] + 1.0\n"
      "      t[1, i + l] = cast.i8(e[i + l] * 50.0)\n"
      "    }\n"
      "    s[] = s[] + x[i]\n"
      "    x[i] = s[]\n"
      "  }\n"
      "  loop.serial i in 1 .. N {\n"
      "    x[i] = x[i - 1] * 0.5 + x[i]\n"
      "    if x[i] > 1.0 { e[i - 1] = x[i] } else { e[i] = s[] }\n"
      "  }\n"
      "  loop.serial i in 0 .. N step 32 {\n"
      "    loop.lane l in 0 .. 32 where i + l < N {\n"
      "      y[i + l] = e[N - 1 - (i + l)] + cast.f32(t[1, i + l])\n"
      "    }\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(1));
  gpu_check(task, state, text, DIMS(49));
}

/* No lanes: each thread takes block iterations of its own. */
GPU_TEST(test_threads) {
  static const char text[] =
      "kernel threads(in x: f32[R, N], out best: f32[R], out at: i64[R],\n"
      "    out y: f32[R, N]) dims(R in 0..1000, N in 1..40) {\n"
      "  loop.block r in 0 .. R {\n"
      "    alloc register b: f32\n"
      "    alloc register k: i64\n"
      "    alloc register h: f32[4]\n"
      "    alloc local w: f32[N]\n"
      "    b[] = -inf\n"
      "    k[] = -1\n"
      "    loop.unroll u in 0 .. 4 { h[u] = cast.f32(u * r) }\n"
      "    loop.serial i in 0 .. N {\n"
      "      w[i] = x[r, i] * 2.0 + h[2]\n"
      "      if x[r, i] > b[] { b[] = x[r, i] k[] = i }\n"
      "    }\n"
      "    loop.serial i in 0 .. N { y[r, i] = w[N - 1 - i] + h[3] }\n"
      "    best[r] = b[]\n"
      "    at[r] = k[]\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(1, 5));
  gpu_check(task, state, text, DIMS(300, 7));
}

/* A guard is what keeps a load in bounds. */
GPU_TEST(test_guards) {
  static const char text[] =
      "kernel guard(in x: f32[N], in at: i32[N], inout z: i64[N])\n"
      "    dims(N in 1..1000) {\n"
      "  loop.serial i in 0 .. N step 16 {\n"
      "    loop.lane l in 0 .. 16 where i + l < N {\n"
      "      let k: i64 = i + l\n"
      "      z[k] = select(k > 0 and x[k - 1] > 0.0, 1, 2)\n"
      "      if k < 1 or x[k - 1] < 0.5 { z[k] = z[k] * 2 }\n"
      "      z[k] = z[k] + select(at[k] < N, cast.i64(x[at[k]] * 8.0), -5)\n"
      "    }\n"
      "  }\n"
      "  loop.serial i in -3 .. N + 3 {\n"
      "    if i >= 0 and i < N and x[i] > 1.0 { z[i] = z[i] + 100 }\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(1));
  gpu_check(task, state, text, DIMS(50));
}

/* ---- numbers ------------------------------------------------------------ */

GPU_TEST(test_integers) {
  static const char text[] =
      "kernel integers(in a: i64[16], in b: i64[16], out y: i64[9, 16],\n"
      "    out n: i8[2, 16]) {\n"
      "  loop.lane l in 0 .. 16 {\n"
      "    let p: i64 = (a[l] - 31) * 9223372036854775783\n"
      "    let q: i64 = b[l] - 31\n"
      "    y[0, l] = p + q * p\n"
      "    y[1, l] = p / (b[l] + 1)\n"
      "    y[2, l] = p % (b[l] + 1)\n"
      "    y[3, l] = q / 8 - q % 8\n"
      "    y[4, l] = q / 7 + q % 7\n"
      "    y[5, l] = min(p, q) - max(p, q)\n"
      "    y[6, l] = abs(p) + neg(q)\n"
      "    y[7, l] = cast.i64(cast.f32(p)) + cast.i32(p)\n"
      "    y[8, l] = pow(q, l % 5)\n"
      "    n[0, l] = p\n"
      "    n[1, l] = cast.i8(p)\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(0));
}

/* ---- blocks of warps ----------------------------------------------------- */

/* Every warp reads what the others left; registers live across barriers, and
   so do those of one value a warp. */
GPU_TEST(test_warps) {
  static const char text[] =
      "kernel warps(in x: f32[B, 4, 32], out y: f32[B, 4, 32],\n"
      "    out z: f32[B, 4]) dims(B in 0..300) {\n"
      "  loop.block b in 0 .. B {\n"
      "    alloc shared s: f32[4, 32]\n"
      "    alloc register r: f32[4, 2, 32]\n"
      "    alloc register n: f32[4]\n"
      "    loop.warp w in 0 .. 4 {\n"
      "      n[w] = cast.f32(w) + 0.5\n"
      "      loop.lane l in 0 .. 32 {\n"
      "        r[w, 0, l] = x[b, w, l] * 2.0\n"
      "        r[w, 1, l] = n[w]\n"
      "        s[w, l] = x[b, w, l]\n"
      "      }\n"
      "    }\n"
      "    loop.serial i in 0 .. 3 {\n"
      "      barrier\n"
      "      loop.warp w in 0 .. 4 {\n"
      "        loop.lane l in 0 .. 32 {\n"
      "          r[w, 1, l] = r[w, 1, l] + s[(w + i) % 4, 31 - l]\n"
      "        }\n"
      "      }\n"
      "      barrier\n"
      "      loop.warp w in 0 .. 4 {\n"
      "        loop.lane l in 0 .. 32 where l % 3 != i {\n"
      "          s[w, l] = s[w, l] + cast.f32(i)\n"
      "        }\n"
      "      }\n"
      "    }\n"
      "    loop.warp w in 0 .. 4 {\n"
      "      loop.unroll u in 0 .. 2 {\n"
      "        loop.lane l in 0 .. 32 where r[w, u, l] > 0.0 {\n"
      "          r[w, u, l] = r[w, u, l] + n[w]\n"
      "        }\n"
      "      }\n"
      "      loop.lane l in 0 .. 32 {\n"
      "        y[b, w, l] = r[w, 0, l] - r[w, 1, l]\n"
      "      }\n"
      "      z[b, w] = fold.add r[w, 1]\n"
      "    }\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(1));
  gpu_check(task, state, text, DIMS(200));
}

/* Neighbours of every size of element, between all spaces. */
GPU_TEST(test_copies) {
  static const struct { const char *type; int n; } kinds[] = {
      {"f32", 2},  {"f32", 4},  {"f64", 2}, {"i64", 2}, {"i32", 2},
      {"i32", 4},  {"f16", 2},  {"f16", 4}, {"f16", 8}, {"bf16", 8},
      {"i8", 2},   {"i8", 4},   {"i8", 16}, {"u8", 8},  {"bool", 16},
      {"f8e4m3", 4}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    const char *t = kinds[i].type;
    int n = kinds[i].n;
    const char *text = td_arena_printf(
        &task->arena,
        "kernel copies(in x: %s[B, %d], out y: %s[B, %d],\n"
        "    out z: %s[B, %d]) dims(B in 0..300) {\n"
        "  loop.block b in 0 .. B {\n"
        "    alloc shared s: %s[2, %d]\n"
        "    loop.warp w in 0 .. 2 {\n"
        "      alloc register r: %s[%d, 32]\n"
        "      loop.lane l in 0 .. 32 where l > 2 {\n"
        "        copy %d r[0, l] = x[b, w * %d + l * %d]\n"
        "        copy %d y[b, w * %d + l * %d] = r[0, l]\n"
        "      }\n"
        "      loop.lane l in 0 .. 32 where l < 3 {\n"
        "        copy %d y[b, w * %d + l * %d] = x[b, w * %d]\n"
        "      }\n"
        "      loop.lane l in 0 .. 32 {\n"
        "        copy %d s[w, l * %d] = x[b, w * %d + (31 - l) * %d]\n"
        "      }\n"
        "    }\n"
        "    barrier\n"
        "    loop.warp w in 0 .. 2 {\n"
        "      loop.lane l in 0 .. 32 {\n"
        "        copy %d z[b, w * %d + l * %d] = s[1 - w, l * %d]\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n",
        t, 64 * n, t, 64 * n, t, 64 * n, t, 32 * n, t, n, n, 32 * n, n, n,
        32 * n, n, n, 32 * n, n, 32 * n, n, n, 32 * n, n, n, 32 * n, n, n);
    gpu_check(task, state, text, DIMS(5));
  }
}

/* ---- text --------------------------------------------------------------- */

/* Subscripts are `int` where every place of the buffer is one. */
TASK_TEST(test_widths) {
  static const char text[] =
      "kernel w(in x: f32[M, N], out y: f32[M, 4], in z: f32[N])\n"
      "    dims(M in 0..100000, N in 0..100000) {\n"
      "  loop.block m in 0 .. M {\n"
      "    y[m, 1] = x[m, N - 1] + z[m * 0 + N - 1]\n"
      "  }\n"
      "}\n";
  lab_t lab;
  cgc_kernel_t k;
  (void)arg;
  lab_open(&lab, task, text, DIMS(3, 4));
  const char *out = gpu_text(&lab, &k);
  assert_non_null(strstr(out, "int d0_M,"));
  assert_non_null(strstr(out, "const int v0_m = block;"));
  assert_non_null(strstr(out, "p1_y[v0_m * 4 + 1]"));
  assert_non_null(strstr(out, "p0_x[(long long)v0_m * d1_N + "));
  lab_close(&lab);
}

/* Fixed text: no device is needed. */
TASK_TEST(test_text) {
  static const char text[] =
      "kernel t(in x: f32[N], out y: f32[N]) dims(N in 0..100) {\n"
      "  card \"a \\\\ b\"\n"
      "  loop.serial i in 0 .. N step 32 {\n"
      "    loop.lane l in 0 .. 32 where i + l < N {\n"
      "      y[i + l] = x[i + l] * 0.1 + inf\n"
      "    }\n"
      "  }\n"
      "}\n";
  lab_t lab;
  cgc_kernel_t k;
  (void)arg;
  lab_open(&lab, task, text, DIMS(3));
  const char *out = gpu_text(&lab, &k);
  assert_non_null(strstr(out, "// a <5c> b\n"));
  assert_non_null(strstr(out, "0x1.99999ap-4f"));
  assert_non_null(strstr(out, "__int_as_float(0x7f800000)"));
  assert_null(strstr(out, "\\"));
  assert_int_equal(k.threads, 128);
  assert_int_equal(k.workers, 4);
  for (const char *at = out; *at != '\0'; at++) {
    assert_true((*at >= 0x20 && *at < 0x7f) || *at == '\n');
  }
  lab_close(&lab);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_masks),    cmocka_unit_test(test_exchange),
      cmocka_unit_test(test_wide),     cmocka_unit_test(test_odd_lanes),
      cmocka_unit_test(test_folds),    cmocka_unit_test(test_exchanged_rows),
      cmocka_unit_test(test_order),    cmocka_unit_test(test_threads),
      cmocka_unit_test(test_guards),   cmocka_unit_test(test_integers),
      cmocka_unit_test(test_warps),    cmocka_unit_test(test_copies),
      cmocka_unit_test(test_widths),   cmocka_unit_test(test_text)};
  return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
