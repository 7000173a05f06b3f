/* Copies on their way, swizzled buffers and warps with parts of their own:
   kernels as text, as CUDA C, and on the simulated GPU, which carries copies
   out as late as it may, at once, and in between. */
#include "kir_cuda_lab.h"

/* ---- a ring of stages ---------------------------------------------------- */

/* Sums of 4 neighbours over a row, tile by tile; two tiles are on their way
   while one is used. Rows of 12 * 64 that are cut off at N. */
static const char ring[] =
    "kernel ring(in x: f32[R, N], out y: f32[R, 64]) dims(R in 0..99,\n"
    "    N in 0..2000) {\n"
    "  loop.block r in 0 .. R {\n"
    "    alloc shared s: f32[3, 256]\n"
    "    alloc register acc: f32[2, 32]\n"
    "    loop.warp w in 0 .. 2 {\n"
    "      loop.lane l in 0 .. 32 { acc[w, l] = 0.0 }\n"
    "    }\n"
    "    loop.serial t in -2 .. (N + 255) / 256 {\n"
    "      copy.wait 1\n"
    "      barrier\n"
    "      if (t + 2) * 256 < N {\n"
    "        loop.warp w in 0 .. 2 {\n"
    "          loop.lane l in 0 .. 32 {\n"
    "            copy.async 4 s[(t + 2) % 3, w * 128 + l * 4] =\n"
    "              x[r, (t + 2) * 256 + w * 128 + l * 4]\n"
    "              where (t + 2) * 256 + w * 128 + l * 4 < N\n"
    "          }\n"
    "        }\n"
    "      }\n"
    "      copy.commit\n"
    "      if t >= 0 {\n"
    "        loop.warp w in 0 .. 2 {\n"
    "          loop.unroll u in 0 .. 4 {\n"
    "            loop.lane l in 0 .. 32 {\n"
    "              acc[w, l] = acc[w, l] + \n"
    "                s[t % 3, ((1 - w) * 32 + (31 - l)) * 4 + u]\n"
    "            }\n"
    "          }\n"
    "        }\n"
    "      }\n"
    "    }\n"
    "    loop.warp w in 0 .. 2 {\n"
    "      loop.lane l in 0 .. 32 { y[r, w * 32 + l] = acc[w, l] }\n"
    "    }\n"
    "  }\n"
    "}\n";

GPU_TEST(test_ring) {
  static const int64_t sizes[] = {0, 4, 252, 256, 260, 768, 1900};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    gpu_check(task, state, ring, DIMS(7, sizes[i]));
  }
}

/* Every size of copy, of every size of element. */
GPU_TEST(test_sizes) {
  static const struct { const char *type; int n; } kinds[] = {
      {"f32", 1}, {"f32", 2}, {"f32", 4}, {"f64", 1},  {"f64", 2},
      {"i32", 4}, {"f16", 2}, {"f16", 8}, {"bf16", 4}, {"i8", 4},
      {"u8", 16}, {"bool", 8}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    const char *t = kinds[i].type;
    int n = kinds[i].n;
    const char *text = td_arena_printf(
        &task->arena,
        "kernel sizes(in x: %s[B, %d], out y: %s[B, %d]) dims(B in 0..9) {\n"
        "  loop.block b in 0 .. B {\n"
        "    alloc shared s: %s[%d]\n"
        "    loop.warp w in 0 .. 2 {\n"
        "      loop.lane l in 0 .. 32 {\n"
        "        copy.async %d s[(w * 32 + l) * %d] = "
        "x[b, (63 - w * 32 - l) * %d] where l %% 5 != w\n"
        "      }\n"
        "    }\n"
        "    copy.commit\n"
        "    copy.wait 0\n"
        "    barrier\n"
        "    loop.warp w in 0 .. 2 {\n"
        "      loop.unroll u in 0 .. %d {\n"
        "        loop.lane l in 0 .. 32 {\n"
        "          y[b, (w * 32 + l) * %d + u] = s[(63 - w * 32 - l) * %d + "
        "u]\n"
        "        }\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n",
        t, 64 * n, t, 64 * n, t, 64 * n, n, n, n, n, n, n);
    gpu_check(task, state, text, DIMS(3));
  }
}

/* ---- where elements lie -------------------------------------------------- */

/* A transposition of 32 x 32, of rows of 32, 64 and 128 bytes. */
GPU_TEST(test_swizzled) {
  static const struct { const char *type; int row; int n; } kinds[] = {
      {"f32", 8, 4},   {"f32", 16, 4}, {"f32", 32, 4}, {"f32", 32, 2},
      {"f16", 64, 8},  {"i8", 32, 16}, {"f64", 16, 2}, {"f64", 4, 1},
      {"bf16", 32, 2}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    const char *t = kinds[i].type;
    int row = kinds[i].row, n = kinds[i].n, each = row / n;
    const char *move =
        n == 1 ? "" : td_arena_printf(&task->arena, "copy %d ", n);
    const char *text = td_arena_printf(
        &task->arena,
        "kernel turn(in x: %s[B, 2, 32, %d], out y: %s[B, %d, 32, 2],\n"
        "    out z: %s[B, 2, 32, %d]) dims(B in 0..9) {\n"
        "  loop.block b in 0 .. B {\n"
        "    alloc shared swizzled s: %s[2, 32, %d]\n"
        "    loop.warp w in 0 .. 2 {\n"
        "      loop.unroll c in 0 .. %d {\n"
        "        loop.lane l in 0 .. 32 {\n"
        "          %ss[w, l, c * %d] = x[b, w, l, c * %d]\n"
        "        }\n"
        "      }\n"
        "    }\n"
        "    barrier\n"
        "    loop.warp w in 0 .. 2 {\n"
        "      loop.unroll c in 0 .. %d {\n"
        "        loop.lane l in 0 .. 32 {\n"
        "          y[b, c, l, w] = s[1 - w, 31 - l, c]\n"
        "          %sz[b, w, l, c / %d * %d] = s[w, (l * 5) %% 32, c / %d * "
        "%d]\n"
        "        }\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n",
        t, row, t, row, t, row, t, row, each, move, n, n, row, move, n, n, n,
        n);
    gpu_check(task, state, text, DIMS(2));
  }
}

/* Where it says: the piece's number exclusive or the row's low bits. */
TASK_TEST(test_swizzle_text) {
  static const char text[] =
      "kernel t(in x: f32[2, 16], out y: f32[64]) {\n"
      "  alloc shared swizzled s: f32[64, 16]\n"
      "  loop.warp w in 0 .. 2 {\n"
      "    loop.lane l in 0 .. 32 { s[w * 32 + l, 3] = x[w, l / 2] }\n"
      "  }\n"
      "  barrier\n"
      "  loop.warp w in 0 .. 2 {\n"
      "    loop.lane l in 0 .. 32 { y[w * 32 + l] = s[l + w * 32, 3] }\n"
      "  }\n"
      "}\n";
  lab_t lab;
  cgc_kernel_t k;
  (void)arg;
  lab_open(&lab, task, text, DIMS(0));
  const char *out = gpu_text(&lab, &k);
  assert_non_null(strstr(out, "__align__(512) float m2_s[1024]"));
  assert_non_null(strstr(out, "((warp * 32) + lane) * 16 + (3 ^ (int)"));
  assert_non_null(strstr(out, "(int)((unsigned)lane / 2 % 4 * 4))]"));
  lab_close(&lab);
}

/* ---- parts of their own -------------------------------------------------- */

/* Warp 4 brings tiles while warps 0 .. 4 work on the one before; these change
   it first, and meet for that by themselves. */
GPU_TEST(test_roles) {
  static const char text[] =
      "kernel roles(in x: f32[B, N, 128], out y: f32[B, 128],\n"
      "    out n: i64[B]) dims(B in 0..99, N in 0..50) {\n"
      "  loop.block b in 0 .. B {\n"
      "    alloc shared s: f32[2, 128]\n"
      "    alloc register acc: f32[5, 32]\n"
      "    alloc register count: i64[5]\n"
      "    loop.warp w in 0 .. 4 {\n"
      "      loop.lane l in 0 .. 32 { acc[w, l] = 0.0 }\n"
      "    }\n"
      "    loop.warp w in 4 .. 5 { count[w] = 0 }\n"
      "    loop.serial t in -1 .. N {\n"
      "      if t + 1 < N {\n"
      "        loop.warp w in 4 .. 5 {\n"
      "          loop.lane l in 0 .. 32 {\n"
      "            copy.async 4 s[(t + 1) % 2, l * 4] = x[b, t + 1, l * 4]\n"
      "          }\n"
      "          count[w] = count[w] + 1\n"
      "        }\n"
      "      }\n"
      "      copy.commit\n"
      "      if t >= 0 {\n"
      "        loop.warp w in 0 .. 4 {\n"
      "          loop.lane l in 0 .. 32 {\n"
      "            s[t % 2, w * 32 + l] = s[t % 2, w * 32 + l] * 2.0\n"
      "          }\n"
      "        }\n"
      "        barrier 1 of 0 .. 4\n"
      "        loop.warp w in 0 .. 4 {\n"
      "          loop.lane l in 0 .. 32 {\n"
      "            acc[w, l] = acc[w, l] * 0.5 + s[t % 2, 127 - w * 32 - l]\n"
      "          }\n"
      "        }\n"
      "      }\n"
      "      copy.wait 0\n"
      "      barrier\n"
      "    }\n"
      "    loop.warp w in 0 .. 4 {\n"
      "      loop.lane l in 0 .. 32 { y[b, w * 32 + l] = acc[w, l] }\n"
      "    }\n"
      "    loop.warp w in 4 .. 5 { n[b] = count[w] }\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(1, 0));
  gpu_check(task, state, text, DIMS(1, 1));
  gpu_check(task, state, text, DIMS(70, 9));
}

/* Two pairs of warps, each with a barrier of its own. */
GPU_TEST(test_pairs) {
  static const char text[] =
      "kernel pairs(in x: f32[B, 128], out y: f32[B, 128]) dims(B in 0..99) "
      "{\n"
      "  loop.block b in 0 .. B {\n"
      "    alloc shared s: f32[128]\n"
      "    loop.warp w in 0 .. 4 {\n"
      "      loop.lane l in 0 .. 32 { s[w * 32 + l] = x[b, w * 32 + l] }\n"
      "    }\n"
      "    barrier 1 of 0 .. 2\n"
      "    barrier 15 of 2 .. 4\n"
      "    loop.warp w in 0 .. 4 {\n"
      "      loop.lane l in 0 .. 32 {\n"
      "        y[b, w * 32 + l] = s[(w / 2 * 2 + 1 - w % 2) * 32 + 31 - l]\n"
      "      }\n"
      "    }\n"
      "  }\n"
      "}\n";
  gpu_check(task, state, text, DIMS(40));
}

static int open_late(void **state) {
  return gpu_open_as(state, "model:a100,devices:1,async:late");
}

static int open_soon(void **state) {
  return gpu_open_as(state, "model:h100,devices:1,async:immediate");
}

static int open_drawn(void **state) {
  return gpu_open_as(state, "model:h100,devices:1,async:random,preempt:7");
}

int main(void) {
  const struct CMUnitTest all[] = {
      cmocka_unit_test(test_ring),     cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_swizzled), cmocka_unit_test(test_roles),
      cmocka_unit_test(test_pairs),    cmocka_unit_test(test_swizzle_text)};
  const struct CMUnitTest in_time[] = {cmocka_unit_test(test_ring),
                                       cmocka_unit_test(test_roles)};
  return cmocka_run_group_tests(all, open_late, gpu_close) +
         cmocka_run_group_tests(in_time, open_soon, gpu_close) +
         cmocka_run_group_tests(in_time, open_drawn, gpu_close);
}
