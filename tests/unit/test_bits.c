/* Two evaluations that must give equal bits (language.md 9.4): one row or
   many, static or dynamic dims, more masked terms, prefill or decode. */
#include "pipe.h"


static const pipe_way_t host = {.label = "cpu"};
static const pipe_way_t kernels = {.label = "kir", .is_kir = true};
static const pipe_way_t old = {.label = "v2", .target = "x86-64-v2"};
static const pipe_way_t *const all_ways[] = {&host, &kernels, &old};

static const char *tir_of(td_task_t *task, const char *text,
                          const char *fixed) {
  pipe_source_t source = {0};
  while (fixed != NULL && *fixed != '\0') {
    const char *equals = strchr(fixed, '=');
    source.dims[source.dim_count++] = (sem_dim_value_t){
        td_arena_strndup(&task->arena, fixed, (size_t)(equals - fixed)),
        strtoll(equals + 1, NULL, 10)};
    fixed = strchr(fixed, ' ');
    if (fixed != NULL) fixed++;
  }
  const char *tir = pipe_lower(task, "bits", text, &source);
  if (tir == NULL) {
    pipe_show(task);
    td_raise(task, TDSL_STATUS_INTERNAL, "refused");
  }
  return tir;
}

static size_t leaf_bytes(const hal_arg_t *a) {
  return pipe_count(a) * td_dtype_bytes(a->dtype);
}

/* Whether the leading dim of a slot is the one that is cut into rows. */
static bool is_cut(const plan_slot_t *s) {
  return s->rank > 0 && strcmp(s->dim_text[0], "M") == 0;
}

/* Row `row` of every argument with a leading M. */
static hal_arg_t *row_args(td_task_t *task, const plan_entry_t *e,
                           const hal_arg_t *args, int64_t row) {
  hal_arg_t *out = TD_NEW_ARRAY(&task->arena, hal_arg_t, e->slot_count + 1);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    out[s] = args[s];
    if (!is_cut(&e->slots[s])) continue;
    out[s].dims[0] = 1;
    size_t bytes = leaf_bytes(&out[s]);
    out[s].data = td_arena_alloc(&task->arena, bytes + 16);
    if (out[s].is_set) {
      memcpy(out[s].data, (char *)args[s].data + (size_t)row * bytes, bytes);
    }
  }
  return out;
}

/* Dims: the entry's are M and N, in the order of their names there. */
static int64_t *dims_of(td_task_t *task, const plan_entry_t *e, int64_t m,
                        int64_t n) {
  int64_t *dims = TD_NEW_ARRAY(&task->arena, int64_t, e->dim_count + 1);
  for (uint32_t i = 0; i < e->dim_count; i++) {
    dims[i] = strcmp(e->vars[i].name, "M") == 0 ? m : n;
  }
  return dims;
}

static bool has_equal_row(const hal_arg_t *whole, const hal_arg_t *one,
                          int64_t row) {
  size_t bytes = leaf_bytes(one);
  return memcmp((char *)whole->data + (size_t)row * bytes, one->data,
                bytes) == 0;
}

/* All rows at once against each row alone. */
static void check_rows(td_task_t *task, const char *text,
                       const pipe_way_t *way, int64_t m, int64_t n) {
  pipe_built_t built;
  pipe_build(task, tir_of(task, text, NULL), way, &built);
  const plan_entry_t *e = &built.plan->entries[0];
  const hal_arg_t *args =
      pipe_args(task, e, dims_of(task, e, m, n), 1, PIPE_RANDOM);
  pipe_result_t all = pipe_run(task, &built, 0, NULL, args);
  for (int64_t row = 0; row < m; row++) {
    const hal_arg_t *one = row_args(task, e, args, row);
    pipe_result_t got = pipe_run(task, &built, 0, NULL, one);
    for (uint32_t s = 0; s < e->slot_count; s++) {
      if (e->slots[s].kind == PLAN_IN || !is_cut(&e->slots[s])) continue;
      if (has_equal_row(&all.slots[s], &got.slots[s], row)) continue;
      print_error("%s: row %lld of %s alone is different\n", way->label,
                  (long long)row, e->slots[s].name);
      fail();
    }
  }
  pipe_close(&built);
}

static const char product[] =
    "dyn M <= 400, N <= 400\n"
    "dim K = 300\n"
    "export fn f(x: f32[M, K], w: f32[N, K], b: f32[N])\n"
    "    -> (y: f32[M, N], z: bf16[M, N]) {\n"
    "  y[m, n] = max((sum[k] x[m, k] * w[n, k]) + b[n], 0)\n"
    "  z[m, n] = y[m, n]\n"
    "}\n";

static const char norm[] =
    "import softmax (softmax)\n"
    "dyn M <= 400, N <= 400\n"
    "export fn f(x: f32[M, N], w: f32[N])\n"
    "    -> (y: f32[M, N], z: f32[M, N], s: f32[M], p: i64[M]) {\n"
    "  ms[m] = (sum[n] x[m, n] * x[m, n]) / f32(N)\n"
    "  y[m, n] = x[m, n] / sqrt(ms[m] + 0.5) * w[n]\n"
    "  z[m, :] = softmax(y[m, :])\n"
    "  s[m] = sum[n] exp(x[m, n])\n"
    "  p[m] = sum[n where z[m, n] > 0.001] n\n"
    "}\n";

static const char attention[] =
    "import softmax (softmax)\n"
    "dyn M <= 60, N <= 100\n"
    "dim H = 3, D = 16\n"
    "export fn f(q: f32[M, H, D], k: f32[N, H, D], v: f32[N, H, D],\n"
    "    pos: i32[M] in N) -> (o: f32[M, H, D]) {\n"
    "  s[m, h, n] = if n <= pos[m]\n"
    "      then (sum[d] q[m, h, d] * k[n, h, d]) / 4 else -inf\n"
    "  p[m, h, :] = softmax(s[m, h, :])\n"
    "  o[m, h, d] = sum[n] p[m, h, n] * v[n, h, d]\n"
    "}\n";

TASK_TEST(test_rows) {
  UNUSED_ARG;
  static const char *const texts[] = {product, norm, attention};
  static const int64_t sizes[][2] = {{128, 33}, {15, 90}, {7, 1}};
  for (size_t t = 0; t < 3; t++) {
    for (size_t i = 0; i < 3; i++) {
      int64_t m = t == 2 && sizes[i][0] > 60 ? 60 : sizes[i][0];
      for (size_t w = 0; w < 3; w++) {
        if (w == 1 && i == 0) continue; /* slow */
        check_rows(task, texts[t], all_ways[w], m, sizes[i][1]);
      }
    }
  }
}

/* A program with dims as arguments, and compiled for their values. */
TASK_TEST(test_static) {
  UNUSED_ARG;
  static const struct {
    const char *text, *fixed;
    int64_t m, n;
  } cases[] = {
      {product, "M=1 N=33", 1, 33},  {product, "M=17 N=64", 17, 64},
      {product, "N=40", 30, 40},     {norm, "M=5 N=64", 5, 64},
      {norm, "N=77", 5, 77},         {attention, "M=20 N=40", 20, 40},
      {attention, "M=1 N=77", 1, 77}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (size_t w = 0; w < 3; w++) {
      pipe_built_t a, b;
      pipe_build(task, tir_of(task, cases[i].text, NULL), all_ways[w], &a);
      pipe_build(task, tir_of(task, cases[i].text, cases[i].fixed),
                 all_ways[w], &b);
      const plan_entry_t *e = &a.plan->entries[0];
      const int64_t *dims = dims_of(task, e, cases[i].m, cases[i].n);
      const hal_arg_t *args = pipe_args(task, e, dims, 1, PIPE_RANDOM);
      pipe_result_t want = pipe_run(task, &a, 0, NULL, args);
      pipe_result_t got = pipe_run(task, &b, 0, NULL, args);
      assert_true(pipe_compare(task, e, &want, &got, 0, cases[i].fixed));
      pipe_close(&a);
      pipe_close(&b);
    }
  }
}

/* Keys behind the last position change nothing. */
TASK_TEST(test_longer) {
  UNUSED_ARG;
  for (size_t w = 0; w < 3; w++) {
    pipe_built_t built;
    pipe_build(task, tir_of(task, attention, NULL), all_ways[w], &built);
    const plan_entry_t *e = &built.plan->entries[0];
    hal_arg_t *args =
        pipe_args(task, e, dims_of(task, e, 9, 90), 1, PIPE_RANDOM);
    int32_t *pos = args[3].data;
    for (int i = 0; i < 9; i++) pos[i] %= 33;
    pipe_result_t want = pipe_run(task, &built, 0, NULL, args);
    for (int64_t n = 33; n < 90; n += 8) {
      args[1].dims[0] = args[2].dims[0] = n;
      pipe_result_t got = pipe_run(task, &built, 0, NULL, args);
      assert_true(pipe_compare(task, e, &want, &got, 0, "fewer keys"));
    }
    pipe_close(&built);
  }
}

/* The same formulas under names or not, stored or not. */
TASK_TEST(test_named) {
  UNUSED_ARG;
  static const char *const texts[] = {
      "dyn M <= 60, N <= 90\n"
      "export fn f(x: f32[M, N], w: f32[N]) -> (y: f32[M, N]) {\n"
      "  y[m, n] = (x[m, n] + (sum[k in N] x[m, k] * 0.37 * w[k])) * w[n]\n"
      "      + exp(x[m, n] * 0.1 + w[n])\n"
      "}\n",
      "dyn M <= 60, N <= 90\n"
      "export fn f(x: f32[M, N], w: f32[N]) -> (y: f32[M, N]) {\n"
      "  a[m, k] = x[m, k] * 0.37\n"
      "  s[m] = sum[k] a[m, k] * w[k]\n"
      "  t[m, n] = x[m, n] + s[m]\n"
      "  u[m, n] = x[m, n] * 0.1\n"
      "  v[m, n] = exp(u[m, n] + w[n])\n"
      "  y[m, n] = t[m, n] * w[n] + v[m, n]\n"
      "}\n"};
  for (size_t w = 0; w < 3; w++) {
    pipe_result_t first = {NULL};
    for (size_t t = 0; t < 2; t++) {
      for (int off = 0; off < 2; off++) {
        pipe_way_t way = *all_ways[w];
        if (off) way.off = PIPE_ALL_OFF;
        pipe_built_t built;
        pipe_build(task, tir_of(task, texts[t], NULL), &way, &built);
        const plan_entry_t *e = &built.plan->entries[0];
        const hal_arg_t *args =
            pipe_args(task, e, dims_of(task, e, 9, 77), 1, PIPE_RANDOM);
        pipe_result_t got = pipe_run(task, &built, 0, NULL, args);
        if (first.slots == NULL) first = got;
        assert_true(pipe_compare(task, e, &first, &got, 0, way.label));
        pipe_close(&built);
      }
    }
  }
}

/* A sum has one grouping, whether its terms lie in a row or in a column. */
TASK_TEST(test_transposed) {
  UNUSED_ARG;
  static const char text[] =
      "dyn M <= 90, N <= 90\n"
      "export fn f(x: f32[M, N], t: f32[N, M])\n"
      "    -> (a: f32[N], b: f32[N], c: f32[N], d: f32[N], e: f32[N],\n"
      "    g: f32[N], h: f32[N], i: f32[N]) {\n"
      "  a[n] = sum[m] x[m, n]\n"
      "  b[n] = sum[m] t[n, m]\n"
      "  c[n] = sum[m where x[m, n] > 0.2 and m % 5 != 2] x[m, n] * x[m, n]\n"
      "  d[n] = sum[m where t[n, m] > 0.2 and m % 5 != 2] t[n, m] * t[n, m]\n"
      "  e[n] = sum[k in 3, m] x[m, n] / f32(k + 1)\n"
      "  g[n] = sum[k in 3, m] t[n, m] / f32(k + 1)\n"
      "  h[n] = prod[m] (x[m, n] + 1)\n"
      "  i[n] = prod[m] (t[n, m] + 1)\n"
      "}\n";
  static const int64_t sizes[][2] = {{1, 1}, {15, 3}, {16, 17}, {17, 40},
                                     {0, 5}, {90, 90}, {47, 33}};
  for (size_t w = 0; w < 3; w++) {
    pipe_built_t built;
    pipe_build(task, tir_of(task, text, NULL), all_ways[w], &built);
    const plan_entry_t *e = &built.plan->entries[0];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      int64_t m = sizes[i][0], n = sizes[i][1];
      hal_arg_t *args =
          pipe_args(task, e, dims_of(task, e, m, n), 1, PIPE_RANDOM);
      for (int64_t k = 0; k < m * n; k++) {
        ((float *)args[1].data)[k] =
            ((const float *)args[0].data)[k % m * n + k / m];
      }
      pipe_result_t got = pipe_run(task, &built, 0, NULL, args);
      for (uint32_t s = 2; s < e->slot_count; s += 2) {
        assert_memory_equal(got.slots[s].data, got.slots[s + 1].data,
                            leaf_bytes(&got.slots[s]));
      }
    }
    pipe_close(&built);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_static),
      cmocka_unit_test(test_longer),
      cmocka_unit_test(test_named),
      cmocka_unit_test(test_transposed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
