/* The kernel IR: text form, rules, interpreter. */
#include "kir_lab.h"

#include "ir/kir_text.h"

#include <math.h>
#include <stdio.h>

#define DIMS(...) ((const int64_t[]){__VA_ARGS__, 0, 0, 0, 0})

/* ---- text ---------------------------------------------------------------- */

static const char *printed(td_task_t *task, kir_kernel_t *const *kernels) {
  td_buf_t out;
  td_buf_init(&out, task);
  for (; *kernels != NULL; kernels++) kir_print(&out, *kernels);
  return td_buf_finish(&out, &task->arena);
}

static kir_kernel_t **parsed(td_task_t *task, const char *text) {
  uint32_t file = td_sources_add(task, "t.kir", text, strlen(text));
  kir_kernel_t **kernels = kir_parse(task, &task->arena, file);
  if (kernels == NULL) lab_show(task);
  assert_non_null(kernels);
  return kernels;
}

/* The printed form, exactly; what another reader wrote comes out so. */
static const char canonical[] =
    "kernel k03_norm(in x: bf16[R, 64], stream out y: f32[R, 64], inout n: "
    "i64,\n"
    "    alias in w: f8e4m3[2*R + 1])\n"
    "    dims(R in 0..4097, loop i in 0..12, data q) {\n"
    "  card \"softmax.tdsl:12\"\n"
    "  card \"reads \\\"x\\\" once\"\n"
    "  loop.block r in 0 .. R {\n"
    "    alloc local e: f32[64]\n"
    "    alloc register acc: f32[4, 16]\n"
    "    loop.unroll c in 0 .. 4 {\n"
    "      loop.lane l in 0 .. 16 {\n"
    "        let $0 = exp(x[r, 16 * c + l] - 0.1)\n"
    "        acc[c, l] = $0 / ($0 + 1.0)\n"
    "        let $0 = acc[c, l] * acc[c, l]\n"
    "        e[16 * c + l] = select($0 > 0.5, -$0, inf)\n"
    "      }\n"
    "    }\n"
    "    let top: f32 = fold.max acc[3]\n"
    "    alloc register square: f32[4, 4]\n"
    "    transpose square\n"
    "    prefetch x[r + 1, i + 64]\n"
    "    note \"a line\\n\"\n"
    "    if not(top < 3.0) and (i == 2 or q != -7) {\n"
    "      loop.serial l in 0 .. dim(R/2 + 1) step 3 {\n"
    "        y[r, l % 64] = cast.bf16(safe x[r, l / 2 % 64] * top)\n"
    "      }\n"
    "    } else {\n"
    "      n[] = max(n[], (3 - (i - 2)) * 5 - -1)\n"
    "    }\n"
    "    loop.lane l in 0 .. 16 where l + i < 9 {\n"
    "      y[r, l] = uniform(5, l, i) + min(0.25, nan)\n"
    "    }\n"
    "  }\n"
    "}\n"
    "kernel \"odd name\"() {\n"
    "}\n";

TASK_TEST(test_round_trip) {
  UNUSED_ARG;
  /* neg is a call, and the header is one line */
  char text[sizeof canonical + 64];
  const char *minus = strstr(canonical, "-$0");
  const char *at = strstr(canonical, "\n    alias");
  size_t before = (size_t)(at - canonical);
  snprintf(text, sizeof text, "%.*s %.*sneg($0)%s", (int)before, canonical,
           (int)(minus - at - 5), at + 5, minus + 3);
  const char *once = printed(task, parsed(task, text));
  assert_string_equal(once, text);
  const char *again = printed(task, parsed(task, once));
  assert_string_equal(again, once);
}

TASK_TEST(test_names) {
  UNUSED_ARG;
  td_arena_t *a = &task->arena;
  kir_kernel_t k = {.name = "k", .arena = a, .pool = ix_pool_create(a)};
  kir_expr_t *zero = kir_const_i(a, TDSL_DTYPE_I64, 0);
  kir_expr_t *four = kir_const_i(a, TDSL_DTYPE_I64, 4);
  kir_block_t *block = &k.body;
  const char *const names[] = {"i", "i", "step", "", "9x", "a b", "i"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    kir_var_t *var = kir_var_create(&k, names[i], TDSL_DTYPE_I64);
    kir_stmt_t *s =
        kir_loop_stmt(&k, KIR_LOOP_SERIAL, var, zero, four, 1);
    td_vec_push(a, block, s);
    if (i != 5) block = &s->body; /* the last two stand side by side */
  }
  kir_kernel_t *kernels[2] = {&k, NULL};
  const char *text = printed(task, kernels);
  static const char *const wanted[] = {"serial i in",   "serial i.1 in",
                                       "serial step.1 in", "serial _ in",
                                       "serial _x in",  "serial a_b in",
                                       "serial i.2 in"};
  const char *at = text;
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    at = strstr(at, wanted[i]);
    if (at == NULL) fail_msg("no `%s` in %s", wanted[i], text);
  }
  assert_string_equal(printed(task, parsed(task, text)), text);
}

/* ---- faults -------------------------------------------------------------- */

typedef struct fault_t {
  const char *text, *message;
} fault_t;

#define BODY(text) "kernel k(in x: f32[N], inout y: f32[N]) dims(N in 0..9) " \
                   "{\n" text "\n}\n"

/* A lane's copy of four, on its way. */
#define ASYNC(what)                                                    \
  "alloc shared s: f32[8]\nloop.warp w in 0 .. 2 {\n"                  \
  "loop.lane l in 0 .. 2 { copy.async 4 " what " } }"

static const fault_t malformed[] = {
    {BODY("barrier 0 of 0 .. 1"), "barrier 0 is that of all"},
    {BODY("barrier 1"), "expected `of`"},
    {BODY("copy.wait y"), "expected"},
    {BODY("copy.later 4 y[0] = x[0]"), "copy.later"},
    {BODY("copy 4 y[0] = x[0] where true"), "where"},
    {"kernel", "expected a name"},
    {"kernel k(", "expected"},
    {"kernel k(in x: f31)", "expected a type"},
    {"kernel k(in x: f32[M])", "expected a dim"},
    {"kernel k(f32 x)", "expected `in`"},
    {BODY("y[0 = 1.0"), "expected `]`"},
    {BODY("y[0] = (1.0"), "expected `)`"},
    {BODY("y[0] = 1.0 +"), "expected a value"},
    {BODY("y[0] = z[0]"), "no variable"},
    {BODY("y[0] = f(1.0)"), "no operation"},
    {BODY("y[0] = add(1.0, 2.0)"), "no operation"},
    {BODY("y[0] = select(true, 1.0)"), "takes 3"},
    {BODY("y[0] = $0"), "not defined here"},
    {BODY("let $1 = 3"), "expected $0"},
    {BODY("let $0 = 3"), "belongs to no"},
    {BODY("y[0] = 99999999999999999999"), "does not fit"},
    {BODY("loop.serial N in 0 .. 3 { }"), "expected a new name"},
    {BODY("loop.serial i in 0 .. 3 { loop.serial i in 0 .. 3 { } }"),
     "expected a new name"},
    {BODY("loop.serial i in 0 .. 3 { y[i] = 0.0"), "expected `}`"},
    {BODY("loop.serial i in 0 .. 3 { } y[i] = 0.0"), "no variable"},
    {BODY("alloc global e: f32"), "expected a memory space"},
    {BODY("alloc local e: f32[0/0]"), "not positive"},
    {BODY("y[0] = fold.neither x[]"), "no such fold"},
    {BODY("y[0] = x"), "expected `[`"},
    {BODY("note 5"), "expected a string"},
};

static const fault_t broken[] = {
    {BODY("y[0] = 1"), "another class"},
    {BODY("y[true] = 1.0"), "wrong type"},
    {BODY("y[0, 0] = 1.0"), "2 subscripts"},
    {BODY("y[0] = x[]"), "0 subscripts"},
    {BODY("x[0] = 1.0"), "written but not declared"},
    {BODY("y[0] = 1.0 + 1"), "do not fit"},
    {BODY("y[0] = 1.0 + 1.0:f64"), "do not fit"},
    {BODY("y[0] = exp(1)"), "do not fit"},
    {BODY("y[0] = select(1, 2.0, 3.0)"), "do not fit"},
    {BODY("y[0] = select(1.0 < 2.0 < 3.0, 2.0, 3.0)"), "do not fit"},
    {BODY("let v: i32 = 1"), "wrong type"},
    {BODY("let v: f32 = 1"), "wrong type"},
    {BODY("if 1 { }"), "wrong type"},
    {BODY("y[0] = 1.0\nloop.block i in 0 .. 3 { }"), "not outermost"},
    {BODY("loop.serial j in 0 .. 3 { loop.block i in 0 .. 3 { } }"),
     "not outermost"},
    {BODY("loop.block i in 0 .. 3 { loop.block j in 0 .. i { } }"),
     "not dims"},
    {BODY("loop.unroll i in 0 .. N { }"), "not constants"},
    {BODY("loop.unroll i in 0 .. 1000000 { }"), "too long"},
    {BODY("loop.unroll i in 0 .. 999 { loop.unroll j in 0 .. 999 { } }"),
     "copies"},
    {BODY("loop.serial i in 0 .. 3 step 0 { }"), "not positive"},
    {BODY("loop.serial i in 0 .. 3 where i < 2 { }"), "only lane loops"},
    {BODY("loop.lane l in 0 .. 65 { }"), "lanes are not"},
    {BODY("loop.lane l in 1 .. 4 { }"), "lanes are not"},
    {BODY("loop.lane l in 0 .. N { }"), "lanes are not"},
    {BODY("loop.lane l in 0 .. 4 { loop.serial i in 0 .. 3 { } }"),
     "inside a lane loop"},
    {BODY("loop.lane l in 0 .. 4 { alloc local e: f32 }"), "in a lane loop"},
    {BODY("alloc register r: f32[N]"), "not small constants"},
    {BODY("alloc register r: f32[65]"), "wider"},
    {BODY("alloc register r: f32[4]\nloop.serial i in 0 .. 4 { r[i] = 1.0 }"),
     "not constant"},
    {BODY("alloc register r: f32[8]\nloop.lane l in 0 .. 4 { r[l] = 1.0 }"),
     "not constant"},
    {BODY("alloc register r: f32[4]\nloop.lane l in 0 .. 4 { r[0] = 1.0 }"),
     "one register"},
    {BODY("alloc register r: f32\nloop.lane l in 0 .. 4 { r[] = 1.0 }"),
     "one register"},
    {BODY("alloc register r: f32[3]\ny[0] = fold.add r[]"), "2^n"},
    {BODY("alloc register r: f32[4]\ny[0] = fold.and r[]"), "do not fit"},
    {BODY("alloc local r: f32[4]\ny[0] = fold.add r[]"), "no register row"},
    {BODY("y[0] = uniform(1)"), "do not fit"},
    {BODY("barrier"), "without any"},
    {BODY("loop.warp w in 0 .. 2 { barrier }"), "a barrier in a warp"},
    {BODY("loop.warp w in 0 .. N { y[0] = 1.0 }"), "warps are not"},
    {BODY("loop.warp w in 0 .. 33 { y[0] = 1.0 }"), "warps are not"},
    {BODY("loop.warp w in 2 .. 2 { y[0] = 1.0 }"), "warps are not"},
    {BODY("loop.warp w in 0 .. 2 { loop.warp v in 0 .. 2 { } }"),
     "warps are not"},
    {BODY("loop.warp w in 0 .. 2 { }\ny[0] = 1.0"), "beside warp loops"},
    {BODY("loop.warp w in 0 .. 2 { }\nloop.lane l in 0 .. 2 { }"),
     "beside warp loops"},
    {BODY("alloc shared s: f32[4]"), "of a block with warp loops"},
    {BODY("loop.warp w in 0 .. 2 { }\nalloc local s: f32[4]"),
     "in a block with warp loops"},
    {BODY("alloc register r: f32[2, 4]\nloop.warp w in 0 .. 2 {\n"
          "loop.lane l in 0 .. 4 { r[w + 0 * N, l] = 1.0 } }"),
     "not constant"},
    {BODY("copy 4 y[0] = 1.0"), "not from a place"},
    {BODY("copy 3 y[0] = x[0]"), "a copy of 3"},
    {BODY("copy 8 y[0] = x[0]"), "a copy of 8"},
    {BODY("copy 4 y[0, 1] = x[0]"), "2 subscripts"},
    {BODY("alloc local d: f64[4]\ncopy 2 d[0] = x[0]"), "between dtypes"},
    {BODY("transpose x"), "no square"},
    {BODY("alloc local t: f32[4, 4]\ntranspose t"), "no square"},
    {BODY("alloc register t: f32[4, 8]\ntranspose t"), "no square"},
    {BODY("alloc register t: i32[4, 4]\ntranspose t"), "no square"},
    {BODY("alloc register t: f32[3, 3]\ntranspose t"), "no square"},
    {BODY("alloc register t: f32[4, 4]\nloop.lane l in 0 .. 4 {\n"
          "transpose t }"), "in a lane loop"},
    {BODY("prefetch y[0, 1]"), "2 subscripts"},
    {BODY("alloc register d: f32[4]\nprefetch d[0]"), "no memory"},
    {BODY("loop.lane l in 0 .. 4 { prefetch x[l] }"), "in a lane loop"},
    {BODY("prefetch x[cast.i64(x[0])]"), "reads its place"},
    {BODY("y[0] = pow(true, 1)"), "do not fit"},
    {BODY(ASYNC("y[0] = x[0]")), "not from a parameter that stays"},
    {BODY(ASYNC("s[0] = s[4]")), "not from a parameter that stays"},
    {BODY(ASYNC("s[0] = 1.0")), "not from a place"},
    {BODY(ASYNC("s[0] = x[0] where l")), "the condition has the wrong type"},
    {BODY("loop.warp w in 0 .. 2 { }\ncopy.async 4 y[0] = x[0]"),
     "no lane's"},
    {BODY("alloc shared s: f32[8]\nloop.warp w in 0 .. 2 {\n"
          "loop.lane l in 0 .. 2 { copy.async 3 s[0] = x[0] } }"),
     "not of 4, 8 or 16 bytes"},
    {BODY("copy.commit"), "copy.commit in a warp or lane loop, or without"},
    {BODY("loop.warp w in 0 .. 2 { copy.wait 0 }"), "copy.wait in a warp"},
    {BODY("loop.warp w in 0 .. 2 { }\ncopy.wait 16"), "leaves 16 groups"},
    {BODY("loop.warp w in 0 .. 2 { }\nbarrier 16 of 0 .. 1"), "no number of"},
    {BODY("loop.warp w in 0 .. 2 { }\nbarrier 1 of 1 .. 3"),
     "not of some of the warps"},
    {BODY("loop.warp w in 0 .. 2 { }\nbarrier 1 of 0 .. 1\n"
          "barrier 1 of 1 .. 2"), "of other warps elsewhere"},
    {BODY("alloc shared swizzled s: f32[2, 12]\nloop.warp w in 0 .. 2 { }"),
     "no rows of 32, 64 or 128"},
    {BODY("alloc local swizzled s: f32[2, 8]"), "no rows of 32, 64 or 128"},
    {BODY("alloc shared swizzled s: f32[8]\nloop.warp w in 0 .. 2 { }"),
     "no rows of 32, 64 or 128"},
};

static void expect_fault(td_task_t *task, const fault_t *f, bool is_parse) {
  uint32_t file = td_sources_add(task, "t.kir", f->text, strlen(f->text));
  kir_kernel_t **k = kir_parse(task, &task->arena, file);
  if (is_parse && k != NULL) fail_msg("parsed: %s", f->text);
  if (!is_parse) {
    if (k == NULL) lab_show(task);
    assert_non_null(k);
    if (kir_verify(task, k[0], "test", true)) {
      fail_msg("accepted: %s", f->text);
    }
  }
  size_t n = task->diags.length;
  assert_true(n > 0);
  const td_diag_t *d = task->diags.data[n - 1];
  assert_int_equal(d->id, TD_F70);
  if (strstr(d->text, f->message) == NULL) {
    fail_msg("`%s` instead of `%s` for %s", d->text, f->message, f->text);
  }
}

static void fault_body(td_task_t *task, void *arg) {
  const fault_t *f = ((void **)arg)[0];
  expect_fault(task, f, ((void **)arg)[1] != NULL);
}

static void run_faults(const fault_t *faults, size_t count, bool is_parse) {
  for (size_t i = 0; i < count; i++) {
    td_task_t task; /* a new one each: errors are counted up to a limit */
    td_task_init(&task, NULL);
    void *arg[2] = {(void *)(uintptr_t)&faults[i], is_parse ? arg : NULL};
    assert_int_equal(td_task_run(&task, fault_body, arg), TDSL_STATUS_OK);
    td_task_free(&task);
  }
}

static void test_malformed(void **state) {
  (void)state;
  run_faults(malformed, sizeof malformed / sizeof malformed[0], true);
}

static void test_broken(void **state) {
  (void)state;
  run_faults(broken, sizeof broken / sizeof broken[0], false);
}

static void deep_text_body(td_task_t *task, void *arg) {
  td_buf_t text;
  (void)arg;
  td_buf_init(&text, task);
  td_buf_puts(&text, "kernel k() {\n");
  for (int i = 0; i < 300; i++) td_buf_puts(&text, "if true {\n");
  uint32_t file = td_sources_add(task, "t.kir", text.data, text.length);
  assert_null(kir_parse(task, &task->arena, file));
  assert_string_equal(unit_first_id(task), "F70");
  /* 100,000 brackets are read without a stack of ours */
  td_buf_clear(&text);
  td_buf_puts(&text, "kernel k(out y: f32) {\ny[] = ");
  for (int i = 0; i < 100000; i++) td_buf_puts(&text, "neg((");
  td_buf_puts(&text, "1.0");
  for (int i = 0; i < 100000; i++) td_buf_puts(&text, "))");
  td_buf_puts(&text, "\n}\n");
  kir_kernel_t **k = parsed(task, text.data);
  assert_true(kir_verify(task, k[0], "test", true));
  float y = 0;
  void *buffers[1] = {&y};
  assert_true(kir_interpret(task, k[0], buffers, NULL, true, false));
  assert_true(y == 1.0f);
  assert_true(strlen(printed(task, k)) > 500000);
  td_buf_free(&text);
}

static void in_small_stack(void *arg) {
  (void)arg;
  unit_run(deep_text_body);
}

static void test_deep(void **state) {
  td_thread_t thread;
  (void)state;
  assert_true(td_thread_start(&thread, in_small_stack, NULL, 256 << 10));
  td_thread_join(&thread);
}

/* ---- sizes --------------------------------------------------------------- */

TASK_TEST(test_sizes) {
  static const char text[] =
      "kernel k(in x: f32[N]) dims(N in 0..1000) {\n"
      "  loop.block i in 2 .. N step 3 { loop.block j in 0 .. 5 {\n"
      "    alloc local a: f32[N]\n"
      "    if true { alloc local b: i8[3] alloc register c: f32[4] }\n"
      "  } }\n}\n";
  UNUSED_ARG;
  lab_t lab;
  lab_open(&lab, task, text, DIMS(33));
  assert_int_equal(lab_value(&lab, kir_block_count(lab.kernel)), 11 * 5);
  /* 33 floats are 132 bytes, in lines of 64 */
  assert_int_equal(lab_value(&lab, kir_scratch_bytes(lab.kernel)), 192 + 64);
  lab.dims[0] = 1;
  assert_int_equal(lab_value(&lab, kir_block_count(lab.kernel)), 0);
  lab_close(&lab);
}

/* ---- interpreter --------------------------------------------------------- */

TASK_TEST(test_softmax_rows) {
  static const char text[] =
      "kernel rows(in x: f32[R, N], out y: f32[R, N])\n"
      "    dims(R in 0..100, N in 0..1000) {\n"
      "  loop.block r in 0 .. R {\n"
      "    alloc local e: f32[N]\n"
      "    alloc register m: f32[16]\n"
      "    alloc register s: f32[16]\n"
      "    loop.lane l in 0 .. 16 { m[l] = -inf s[l] = 0.0 }\n"
      "    loop.serial i in 0 .. N step 16 {\n"
      "      loop.lane l in 0 .. 16 where i + l < N {\n"
      "        m[l] = max(m[l], x[r, i + l]) } }\n"
      "    let top: f32 = fold.max m[]\n"
      "    loop.serial i in 0 .. N step 16 {\n"
      "      loop.lane l in 0 .. 16 where i + l < N {\n"
      "        e[i + l] = exp(x[r, i + l] - top)\n"
      "        s[l] = s[l] + e[i + l] } }\n"
      "    let sum: f32 = fold.add s[]\n"
      "    loop.serial i in 0 .. N { y[r, i] = e[i] / sum }\n"
      "  }\n}\n";
  UNUSED_ARG;
  lab_t lab;
  enum { R = 5, N = 37 };
  lab_open(&lab, task, text, DIMS(R, N));
  lab_copy(&lab);
  lab_interpret(&lab, false);
  const float *x = lab.data[0], *y = lab.data[1];
  for (int r = 0; r < R; r++) {
    double top = -1e30, sum = 0;
    for (int i = 0; i < N; i++) top = fmax(top, (double)x[r * N + i]);
    for (int i = 0; i < N; i++) sum += exp((double)x[r * N + i] - top);
    for (int i = 0; i < N; i++) {
      double want = exp((double)x[r * N + i] - top) / sum;
      assert_true(fabs(want - (double)y[r * N + i]) < 1e-6 * want + 1e-9);
    }
  }
  /* blocks are independent: backwards they leave the same */
  void *forward = lab.data[1];
  lab.data[1] = lab.other[1];
  lab.other[1] = forward;
  lab_interpret(&lab, true);
  lab_compare(&lab, "reversed");
  lab_close(&lab);
}

TASK_TEST(test_lanes_in_step) {
  /* all lanes execute a statement before the next one starts */
  static const char text[] =
      "kernel k(inout x: i64[17]) {\n"
      "  loop.lane l in 0 .. 16 { x[l + 1] = x[l] }\n"
      "  loop.lane l in 0 .. 16 { x[0] = l }\n"
      "}\n";
  UNUSED_ARG;
  lab_t lab;
  lab_open(&lab, task, text, DIMS(0));
  int64_t *x = lab.data[0];
  for (int64_t i = 0; i < 17; i++) x[i] = 100 + i;
  lab_interpret(&lab, false);
  assert_int_equal(x[0], 15); /* the last lane comes last */
  for (int64_t i = 1; i < 17; i++) assert_int_equal(x[i], 99 + i);
  lab_close(&lab);
}

/* Two warps, what each does, and what stands between. */
#define MEETING(between, first, second)                               \
  "alloc shared s: f32[2]\n"                                          \
  "loop.warp w in 0 .. 2 { " first " }\n" between "\n"                \
  "loop.warp w in 0 .. 2 { " second " }"

/* One warp's copy of four elements to shared memory. */
#define BRINGING_MORE(what)                                            \
  "loop.warp w in 0 .. 1 { loop.lane l in 0 .. 2 where l == 0 {\n"     \
  "copy.async 4 " what " } }"
#define BRINGING(what) "alloc shared s: f32[8]\n" BRINGING_MORE(what)

/* The same, used by its own warp and by another one behind two statements. */
#define COMING(first, second)                                          \
  BRINGING("s[0] = x[4]") "\n" first "\n" second "\n"                  \
  "loop.warp w in 0 .. 2 { y[w] = s[w] }"

static const fault_t unsafe[] = {
    {BODY("y[0] = x[9]"), "load out of range of x"},
    {BODY("y[-1] = 0.0"), "store out of range of y"},
    {BODY("loop.lane l in 0 .. 16 { y[0] = x[l] }"), "load out of range"},
    {BODY("loop.lane l in 0 .. 16 { y[l * 3] = 0.0 }"), "store out of range"},
    {BODY("alloc local e: f32[4]\ny[0] = e[1]"), "undefined element of e"},
    {BODY("alloc register e: f32[4]\nloop.lane l in 0 .. 4 where l < 3 {\n"
          "e[l] = 0.0 }\ny[0] = fold.add e[]"), "undefined element of e"},
    {BODY("loop.serial i in 0 .. 2 { alloc local e: f32[4]\n"
          "if i == 0 { e[0] = 1.0 } y[0] = e[0] }"), "undefined element"},
    {BODY("if x[0] != x[0] or x[100] > 0.0 { y[0] = 0.0 }"),
     "load out of range"},
    {BODY("alloc register t: f32[2, 2]\nt[1, 0] = 1.0\ntranspose t\n"
          "y[0] = t[1, 0]"), "undefined element of t"},
    {BODY("copy 4 y[2] = x[0]"), "no multiple of it"},
    {BODY("copy 4 y[0] = x[2]"), "no multiple of it"},
    {BODY("copy 4 y[0] = x[8]"), "load out of range"},
    {BODY(MEETING("", "s[w] = 1.0", "y[w] = s[1 - w]")), "two warps without"},
    {BODY(MEETING("barrier", "s[w] = 1.0", "s[1 - w] = 2.0 y[w] = s[w]")),
     "two warps without"},
    {BODY(MEETING("barrier", "s[0] = 1.0", "y[w] = s[0]")),
     "two warps without"},
    {BODY(MEETING("barrier", "s[w] = 1.0", "y[w] = s[0] s[0] = 3.0")),
     "two warps without"},
    {BODY(MEETING("barrier 1 of 0 .. 1", "s[w] = 1.0", "y[w] = s[1 - w]")),
     "two warps without"},
    /* 0 and 1 have met 2 before, not each other */
    {BODY("alloc shared s: f32[3]\nloop.warp w in 0 .. 3 { s[w] = 1.0 }\n"
          "barrier 1 of 1 .. 3\nloop.warp w in 2 .. 3 { y[w] = s[1] }\n"
          "loop.warp w in 0 .. 1 { y[w] = s[1] }"), "two warps without"},
    {BODY(COMING("", "")), "a copy is on its way to an element of s"},
    {BODY(COMING("copy.wait 0", "barrier")), "is on its way"},
    {BODY(COMING("copy.commit copy.wait 1", "barrier")), "is on its way"},
    {BODY(COMING("copy.commit copy.wait 0", "")), "two warps without"},
    {BODY(COMING("copy.commit barrier copy.wait 0", "")), "two warps without"},
    {BODY(COMING("copy.commit copy.wait 0", "barrier 1 of 1 .. 2")),
     "two warps without"},
    {BODY(BRINGING("s[0] = x[0]") "\nbarrier"), "nobody waits"},
    {BODY(BRINGING("s[0] = x[8]")), "load out of range of x"},
    {BODY(BRINGING("s[8] = x[0]")), "store out of range of s"},
    {BODY(BRINGING("s[0] = x[2]")), "no multiple of it of x"},
    {BODY(BRINGING("s[1] = x[0]")), "no multiple of it of s"},
    {BODY(BRINGING("s[0] = x[0] where l < 3")
          "\ncopy.commit\ncopy.wait 0\nbarrier\n"
          BRINGING_MORE("s[0] = x[4]")
          "\ncopy.commit\ncopy.wait 0\nloop.warp w in 0 .. 1 {\n"
          "y[w] = s[3] }"), "two warps without"},
};

/* The same accesses where a guard, a mask or a choice keeps them away. */
static const char *const safe[] = {
    BODY("y[0] = select(N > 9, x[9], 1.0)"),
    BODY("if N > 9 { y[0] = x[9] } else { y[0] = 1.0 }"),
    BODY("loop.lane l in 0 .. 16 where l < N { y[l] = x[l] }"),
    BODY("loop.lane l in 0 .. 16 { if l < N { y[l] = x[l] } }"),
    BODY("loop.lane l in 0 .. 16 { if l < N and x[l] > 5.0 { y[l] = 0.0 } }"),
    BODY("loop.lane l in 0 .. 16 where l < N { y[l] = select(l + 1 < N, "
         "x[l + 1], x[l]) }"),
    BODY("loop.lane l in 0 .. 4 where N > 99 { y[l] = x[100] }"),
    BODY("if N == 8 or x[100] > 0.0 { y[0] = 0.0 }"),
    BODY("copy 4 y[4] = x[0]"),
    BODY("alloc local d: f32[4] prefetch d[9]\n"
         "prefetch x[100] prefetch x[-100]"),
    BODY("alloc register t: f32[2, 2]\nt[1, 0] = 1.0\ntranspose t\n"
         "y[0] = t[0, 1]"),
    BODY(MEETING("barrier", "s[w] = 1.0", "y[w] = s[0] + s[1]")),
    BODY(MEETING("", "s[w] = 1.0", "s[w] = s[w] + 1.0 y[w] = s[w]")),
    BODY(MEETING("barrier 3 of 0 .. 2", "s[w] = 1.0", "y[w] = s[1 - w]")),
    /* 0 meets 1, and 1 meets 2: so 2 sees what 0 did */
    BODY("alloc shared s: f32[3]\nloop.warp w in 0 .. 3 { s[w] = 1.0 }\n"
         "barrier 1 of 0 .. 2\nbarrier 2 of 1 .. 3\n"
         "loop.warp w in 2 .. 3 { y[w] = s[0] + s[1] }"),
    BODY(COMING("copy.commit copy.wait 0", "barrier")),
    BODY(COMING("copy.commit", "copy.commit copy.wait 1 barrier")),
    /* nothing is read where the condition is false */
    BODY(BRINGING("s[4] = x[400] where l > 5")
         "\ncopy.commit\ncopy.wait 0\nbarrier\n"
         "loop.warp w in 0 .. 2 { y[w] = s[4] + s[7] }"),
};

static void access_body(td_task_t *task, void *arg) {
  const fault_t *f = arg;
  lab_t lab;
  lab_open(&lab, task, f->text, DIMS(8));
  bool ok = kir_interpret(task, lab.kernel, lab.data, lab.dims, true, false);
  if (f->message == NULL) {
    if (!ok) lab_show(task);
    assert_true(ok);
  } else {
    if (ok) fail_msg("not found: %s", f->text);
    assert_string_equal(unit_first_id(task), "R10");
    if (strstr(task->diags.data[0]->text, f->message) == NULL) {
      fail_msg("`%s` for %s", task->diags.data[0]->text, f->text);
    }
  }
  lab_close(&lab);
}

static void test_checks(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++) {
    td_task_t task;
    td_task_init(&task, NULL);
    fault_t f = unsafe[i];
    assert_int_equal(td_task_run(&task, access_body, &f), TDSL_STATUS_OK);
    td_task_free(&task);
  }
  for (size_t i = 0; i < sizeof safe / sizeof safe[0]; i++) {
    td_task_t task;
    td_task_init(&task, NULL);
    fault_t f = {safe[i], NULL};
    assert_int_equal(td_task_run(&task, access_body, &f), TDSL_STATUS_OK);
    td_task_free(&task);
  }
}

/* A chain of choices whose arms share all that came before: linear work. */
TASK_TEST(test_shared_choices) {
  UNUSED_ARG;
  td_buf_t text;
  td_buf_init(&text, task);
  td_buf_puts(&text, "kernel k(in x: f32[4], out y: f32[8]) {\n"
                     "loop.lane l in 0 .. 4 {\nlet $0 = x[l] + 0.5\n");
  for (int i = 1; i <= 60; i++) {
    td_buf_printf(&text, "let $%d = select(x[l] > %d.0, $%d + x[l], "
                         "$%d - x[l])\n", i, i, i - 1, i - 1);
  }
  td_buf_puts(&text, "y[l] = $60\n} }\n");
  lab_t lab;
  lab_open(&lab, task, text.data, DIMS(0));
  for (int i = 0; i < 4; i++) ((float *)lab.data[0])[i] = (float)i * 20;
  lab_interpret(&lab, false);
  for (int i = 0; i < 4; i++) {
    float x = (float)i * 20, v = x + 0.5f;
    for (int k = 1; k <= 60; k++) v = x > (float)k ? v + x : v - x;
    assert_true(((float *)lab.data[1])[i] == v);
  }
  lab_close(&lab);
  td_buf_free(&text);
}

/* Every allocation fails once: nothing is held, nothing is half done. */
static void memory_body(td_task_t *task, void *arg) {
  td_arena_t arena;
  td_buf_t out;
  (void)arg;
  td_arena_init(&arena, task);
  td_buf_init(&out, task);
  kir_kernel_t *k = lab_parse(
      task, &arena,
      "kernel k(in x: f32[16], out y: f32[16]) {\n"
      "  loop.lane l in 0 .. 16 where l < 9 {\n"
      "    y[l] = select(x[l] > 0.0, exp(x[l]) * exp(x[l]), x[15 - l])\n"
      "  }\n}\n");
  float x[16] = {1}, y[16];
  void *buffers[2] = {x, y};
  assert_true(kir_interpret(task, k, buffers, NULL, true, false));
  kir_print(&out, k);
  assert_true(out.length > 0);
  td_buf_free(&out);
  td_arena_free_all(&arena);
}

static void test_memory(void **state) {
  (void)state;
  unit_sweep(memory_body, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_malformed),
      cmocka_unit_test(test_broken),
      cmocka_unit_test(test_deep),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_softmax_rows),
      cmocka_unit_test(test_lanes_in_step),
      cmocka_unit_test(test_checks),
      cmocka_unit_test(test_shared_choices),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
