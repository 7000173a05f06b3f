/* The plan of a sum of products on a target with warps has splits of 1024
   tuples (language.md 9.3). Kernels for it, interpreted with all checks, have
   its bits however splits are shared out to blocks: those of a chain of fma
   for each split and a chain of additions, written out here. */
#include "pipe.h"

#include <math.h>

static const pipe_way_t ways[] = {
    {.label = "blocks go through", .is_kir = true, .target = "sm_90a",
     .splits = PASS_SPLITS_OFF},
    {.label = "each its block", .is_kir = true, .target = "sm_90a",
     .splits = PASS_SPLITS_ALL},
    {.label = "by dims", .is_kir = true, .target = "sm_90a", .separate = true},
    {.label = "older", .is_kir = true, .target = "sm_75"}};
enum { WAYS = sizeof ways / sizeof ways[0], SPLIT = 1024 };

static float chain(const float *x, const float *w, int64_t depth) {
  float total = -0.0f, sum = 0.0f;
  for (int64_t k = 0; k < depth; k++) {
    if (k > 0 && k % SPLIT == 0) {
      total += sum;
      sum = 0.0f;
    }
    sum = fmaf(x[k], w[k], sum);
  }
  return total + sum;
}

static const char *plain =
    "func @f(\n"
    "    in x: f32[M, K],\n"
    "    in w: f32[24, K],\n"
    "    in b: f32[24],\n"
    "    out y: f32[M, 24],\n"
    "    out z: f32[M, 3])\n"
    "  dims(M in 0..9000, K in 0..4097) {\n"
    "  %s: f32[M, 24] = reduce.sum fma [m in M, n in 24; k in K] "
    "mul(%x[m, k], %w[n, k])\n"
    "  %y: f32[M, 24] written = map [m in M, n in 24] add(%s[m, n], %b[n])\n"
    "  %z: f32[M, 3] written = reduce.sum fma [m in M, n in 3; k in K] "
    "mul(%x[m, k], %w[n, k])\n"
    "  return y = %y, z = %z\n"
    "}\n";

/* Rows y of a product with tiles, z of one with nested loops. */
static void check_plain(td_task_t *task, const pipe_way_t *way, int64_t m,
                        int64_t k) {
  pipe_built_t built = {0};
  int64_t dims[2] = {m, k};
  pipe_build(task, plain, way, &built);
  const plan_entry_t *e = &built.plan->entries[0];
  assert_string_equal(e->vars[0].name, "M");
  hal_arg_t *args = pipe_args(task, e, dims, 7, PIPE_RANDOM);
  pipe_result_t got = pipe_run(task, &built, 0, dims, args);
  const float *x = args[0].data, *w = args[1].data, *b = args[2].data;
  const float *y = got.slots[3].data, *z = got.slots[4].data;
  for (int64_t i = 0; i < m; i++) {
    for (int64_t n = 0; n < 24; n++) {
      float want = chain(&x[i * k], &w[n * k], k);
      if (n < 3) assert_memory_equal(&z[i * 3 + n], &want, sizeof want);
      want += b[n];
      assert_memory_equal(&y[i * 24 + n], &want, sizeof want);
    }
  }
  pipe_close(&built);
}

static void plain_work(td_task_t *task, void *unused) {
  static const int64_t depths[] = {0, 1, 1023, 1024, 1025, 2049};
  (void)unused;
  for (uint32_t w = 0; w < WAYS; w++) {
    for (uint32_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
      check_plain(task, &ways[w], 2, depths[d]);
    }
  }
  /* many tiles: nothing is shared out */
  check_plain(task, &ways[2], 70, 1030);
}

static const char *sides =
    "func @f(\n"
    "    in x: f32[M, 5, 410],\n"
    "    in w: f64[40, 5, 410],\n"
    "    in v: f32[24, 5, 410],\n"
    "    in u: bf16[40, 5, 410],\n"
    "    out y: bf16[M, 40],\n"
    "    out z: f32[M, 24],\n"
    "    out t: f64[M, 40])\n"
    "  dims(M in 0..65) {\n"
    "  %y.s: f32[M, 40] = reduce.sum fma [m in M, n in 40; h in 5, k in 410] "
    "mul(%x[m, h, k], %u[n, h, k])\n"
    "  %z: f32[M, 24] written = reduce.sum fma [m in M, n in 24; h in 5, "
    "k in 410] mul(%x[m, h, k], %v[n, h, k])\n"
    "  %y: bf16[M, 40] written = map [m in M, n in 40] cast.bf16(%y.s[m, n])\n"
    "  %t: f64[M, 40] written = reduce.sum fma [m in M, n in 40; h in 5, "
    "k in 410] mul(cast.f64(%x[m, h, k]), %w[n, h, k])\n"
    "  return y = %y, z = %z, t = %t\n"
    "}\n";

/* Whole numbers, whose sums are exact: what the interpreter of TIR says. */
static void sides_work(td_task_t *task, void *unused) {
  (void)unused;
  tir_module_t *m = pipe_read(task, sides);
  for (uint32_t w = 0; w < WAYS; w++) {
    pipe_built_t built = {0};
    int64_t dims[1] = {3};
    pipe_build(task, sides, &ways[w], &built);
    const plan_entry_t *e = &built.plan->entries[0];
    hal_arg_t *args = pipe_args(task, e, dims, 3, PIPE_EXACT);
    pipe_result_t want = pipe_reference(task, m, 0, dims, args);
    pipe_result_t got = pipe_run(task, &built, 0, dims, args);
    assert_true(pipe_compare(task, e, &want, &got, 0, ways[w].label));
    pipe_close(&built);
  }
}

/* Which kernels there are: one that goes through, or two, or all three. */
static uint32_t kernels_of(td_task_t *task, const char *dims,
                           const pipe_way_t *way) {
  pipe_built_t built = {0};
  char text[2048];
  const char *at = strstr(plain, "M in 0..9000");
  (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - plain), plain, dims,
                 strchr(at, ','));
  pipe_build(task, text, way, &built);
  uint32_t count = built.plan->kernel_count - 1; /* z has its own */
  pipe_close(&built);
  return count;
}

static void forms_work(td_task_t *task, void *unused) {
  (void)unused;
  assert_int_equal(kernels_of(task, "M in 0..9000", &ways[0]), 1);
  assert_int_equal(kernels_of(task, "M in 0..9000", &ways[1]), 2);
  assert_int_equal(kernels_of(task, "M in 0..9000", &ways[2]), 3);
  /* K alone decides */
  assert_int_equal(kernels_of(task, "M in 0..17", &ways[2]), 3);
}

static void test_plain(void **state) {
  (void)state;
  unit_run(plain_work);
}

static void test_sides(void **state) {
  (void)state;
  unit_run(sides_work);
}

static void test_forms(void **state) {
  (void)state;
  unit_run(forms_work);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain),
                                     cmocka_unit_test(test_sides),
                                     cmocka_unit_test(test_forms)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
