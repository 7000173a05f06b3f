/* Plans as data: expressions, text, verification, ledgers.
   The texts are written by hand; what a mutation must be refused for stands
   beside it. */
#include "tests/unit/unit.h"

#include "runtime/base/num.h"
#include "runtime/base/rng.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/plan_text.h"

/* One of everything.  Steps:
     0 launch scale (x, h)      h is born
     1 copy s <- h              s is born
     2 loop l in 0 .. 3
     3   launch add (s, t)      t is born, needs s
     4   copy s <- t            t ends
     5 }
     6 launch scale (s, y)      s ends
     7 launch test (y, ok)      ok is born
     8 assert ok                                                        */
static const char base[] =
    "plan 1\n"
    "target \"x86-64-v3\"\n"
    "file \"a.tdsl\"\n"
    "module \"m0\" kir \"\" bytes 5 hash xa430d84680aabd0b data {\n"
    "  x68656c6c6f\n"
    "}\n"
    "kernel \"scale\" module 0 symbol \"tk_scale\" at 1:2:3-2:5 {\n"
    "  param read\n"
    "  param write\n"
    "  scalars 1\n"
    "  blocks ($0 + 15) / 16\n"
    "  scratch 128\n"
    "  reads 4 * $0\n"
    "  writes 4 * $0\n"
    "  flops 2 * $0\n"
    "  card \"line one\\nline two\"\n"
    "}\n"
    "kernel \"add\" module 0 symbol \"tk_add\" {\n"
    "  param read\n"
    "  param write\n"
    "  scalars 2\n"
    "  blocks 1\n"
    "  scratch 0\n"
    "  reads 4 * $0\n"
    "  writes 4 * $0\n"
    "  flops $0 * $1\n"
    "  card \"\"\n"
    "}\n"
    "kernel \"test\" module 0 symbol \"tk_test\" {\n"
    "  param read\n"
    "  param write\n"
    "  scalars 0\n"
    "  blocks 1\n"
    "  scratch 0\n"
    "  reads 4\n"
    "  writes 1\n"
    "  flops 0\n"
    "  card \"\"\n"
    "}\n"
    "entry \"f\" at 1:1:1-9:2 {\n"
    "  dim \"T\" <= 1000 at 1:1:8-1:9\n"
    "  var \"l\"\n"
    "  slot 0 in \"x\" f32[\"T\" = T max 1000] buffer 0 at 1:1:10-1:11\n"
    "  slot 1 in \"n\" i32[] in -4 .. T + 1 default 5 real(0) buffer 1\n"
    "  slot 2 in \"w\" bf16[\"2*T + 1\" = 2 * T + 1 max 2001, \"3\" = 3 max 3] "
    "weight file \"blk.{}.w\" stack 1 buffer 2\n"
    "  slot 3 in \"u\" bf16[\"2*T + 1\" = 2 * T + 1 max 2001, \"3\" = 3 max 3] "
    "else 2 buffer 3\n"
    "  slot 4 out \"y\" f32[\"T\" = T max 1000] buffer 4\n"
    "  bind T slot 0 dim 0 scale 1 offset 0\n"
    "  bind T slot 2 dim 0 scale 2 offset 1\n"
    "  require T % 2 == 0 || float(slot(1)) > real(0.5) \"T even\" "
    "at 1:3:3-3:20\n"
    "  buffer 0 \"x\" f32[T] bytes 4 * T slot 0 life 0 .. 0\n"
    "  buffer 1 \"n\" i32[] bytes 4 slot 1 life 0 .. 0\n"
    "  buffer 2 \"w\" bf16[2 * T + 1, 3] bytes 2 * (2 * T + 1) * 3 slot 2 "
    "life 0 .. 0\n"
    "  buffer 3 \"u\" bf16[2 * T + 1, 3] bytes 2 * (2 * T + 1) * 3 slot 3 "
    "life 0 .. 0\n"
    "  buffer 4 \"y\" f32[T] bytes 4 * T slot 4 life 6 .. 7\n"
    "  buffer 5 \"h\" f32[T] bytes 4 * T offset 0 life 0 .. 1\n"
    "  buffer 6 \"s\" f32[T] bytes 4 * T offset 64 * ((4 * T + 63) / 64) "
    "life 1 .. 6\n"
    "  buffer 7 \"t\" f32[T] bytes 4 * T offset 0 life 3 .. 4\n"
    "  buffer 8 \"ok\" bool[] bytes 1 offset 0 life 7 .. 8\n"
    "  arena max(64, 2 * (64 * ((4 * T + 63) / 64)))\n"
    "  launch 0 (0, 5) [T] at 1:4:3-4:9\n"
    "  copy (6, 5)\n"
    "  loop l in 0 .. 3 at 1:5:3-5:9 {\n"
    "    launch 1 (6, 7) [T, l]\n"
    "    copy (6, 7)\n"
    "  } at 1:6:3-6:9\n"
    "  launch 0 (6, 4) [T]\n"
    "  launch 2 (4, 8)\n"
    "  assert (8) \"y is fine\" at 1:7:3-7:9\n"
    "}\n";

static plan_t *parse(td_task_t *task, const char *text, size_t length) {
  uint32_t file = td_sources_add(task, "a.plan", text, length);
  return plan_parse(task, &task->arena, file);
}

static const char *print(td_task_t *task, const plan_t *plan) {
  td_buf_t b;
  td_buf_init(&b, task);
  plan_print(&b, plan, true);
  return td_buf_finish(&b, &task->arena);
}

static plan_t *base_plan(td_task_t *task) {
  plan_t *plan = parse(task, base, sizeof base - 1);
  if (plan == NULL) print_error("%s\n", task->diags.data[0]->text);
  assert_non_null(plan);
  return plan;
}

/* ---- text --------------------------------------------------------------- */

TASK_TEST(round_trip) {
  UNUSED_ARG;
  plan_t *plan = base_plan(task);
  assert_string_equal(print(task, plan), base);
  bool ok = plan_verify(task, plan, "test", true);
  if (!ok) print_error("%s\n", task->diags.data[0]->text);
  assert_true(ok);
}

TASK_TEST(once_is_text) {
  UNUSED_ARG;
  plan_t *plan = base_plan(task);
  plan->entries[0].steps[7].is_once = true;
  const char *text = print(task, plan);
  assert_non_null(strstr(text, "\n  launch once 2 (4, 8)\n"));
  plan_t *again = parse(task, text, strlen(text));
  assert_non_null(again);
  assert_true(again->entries[0].steps[7].is_once);
  assert_false(again->entries[0].steps[0].is_once);
}

/* Without payloads it keeps their sizes and hashes. */
TASK_TEST(round_trip_without_payload) {
  UNUSED_ARG;
  td_buf_t first, second;
  td_buf_init(&first, task);
  plan_print(&first, base_plan(task), false);
  assert_non_null(strstr(first.data, "bytes 5 hash xa430d84680aabd0b\n"));
  plan_t *plan = parse(task, first.data, first.length);
  assert_non_null(plan);
  assert_true(plan_verify(task, plan, "test", true));
  assert_null(plan->modules[0].data);
  td_buf_init(&second, task);
  plan_print(&second, plan, true);
  assert_string_equal(second.data, first.data);
  td_buf_free(&first);
  td_buf_free(&second);
}

TASK_TEST(bad_hash_without_payload) {
  UNUSED_ARG;
  static const char text[] =
      "plan 1\ntarget \"\"\nmodule \"m\" kir \"\" bytes 5 hash xa43\n";
  assert_null(parse(task, text, sizeof text - 1));
  assert_string_equal(unit_first_id(task), "F70");
}

/* Expressions keep their tree, also where signs bind alike. */
TASK_TEST(expressions) {
  UNUSED_ARG;
  static const struct {
    const char *text;
    int64_t at_7; /* with T = 7 */
  } rows[] = {
      {"T - (3 - 1)", 5},
      {"T - 3 - 1", 3},
      {"(T + 1) * 2", 16},
      {"T + 1 * 2", 9},
      {"-9 / T", -2},
      {"-9 % T", 5},
      {"(0 - T) / 2", -4},
      {"T / (0 - 2)", -4},
      {"min(T, 3) - max(T, 9)", -6},
      {"neg(T) + not(T)", -7},
      {"T == 7 && T != 8 || T < 0", 1},
      {"T >= 8 == (T <= 6)", 1},
      {"T * (T * (T / 2 + 1) - 5) % 11", 7 * (7 * 4 - 5) % 11},
  };
  const char *at = strstr(base, "64 * ((4 * T + 63) / 64) life 1");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *text = td_arena_printf(
        &task->arena, "%.*s%s life 1%s", (int)(at - base), base, rows[i].text,
        at + strlen("64 * ((4 * T + 63) / 64) life 1"));
    plan_t *plan = parse(task, text, strlen(text));
    assert_non_null(plan);
    assert_string_equal(print(task, plan), text);
    int64_t dims[2] = {7, 0}, value;
    plan_env_t env = {dims, NULL};
    assert_true(plan_eval(&plan->entries[0].buffers[6].offset, &env, &value));
    assert_int_equal(value, rows[i].at_7);
  }
}

TASK_TEST(evaluation) {
  UNUSED_ARG;
  td_arena_t *a = &task->arena;
  plan_env_t none = {0};
  int64_t v;
  plan_expr_t big = plan_const(a, INT64_MAX), zero = {0};
  plan_expr_t sum = plan_join(a, PLAN_X_ADD, big, plan_const(a, 1));
  assert_false(plan_eval(&sum, &none, &v));
  plan_expr_t by0 = plan_join(a, PLAN_X_DIV, plan_const(a, 1), zero);
  assert_false(plan_eval(&by0, &none, &v));
  plan_expr_t low = plan_join(a, PLAN_X_DIV, plan_const(a, INT64_MIN),
                              plan_const(a, -1));
  assert_false(plan_eval(&low, &none, &v));
  plan_expr_t open = plan_var_expr(a, 0);
  assert_false(plan_eval(&open, &none, &v));
  assert_true(plan_eval(&zero, &none, &v));
  assert_int_equal(v, 0);
  assert_int_equal(plan_join(a, PLAN_X_MUL, plan_const(a, 6),
                             plan_const(a, 7)).tokens[0].value, 42);
}

/* Every prefix, and single bytes changed: refused or read, never a crash. */
TASK_TEST(hostile) {
  UNUSED_ARG;
  for (size_t n = 0; n < sizeof base - 2; n += 1 + n % 3) {
    td_task_t own;
    td_task_init(&own, NULL);
    plan_t *plan = parse(&own, base, n);
    /* what ends between two tables is a plan without entries */
    if (plan != NULL) assert_int_equal(plan->entry_count, 0);
    assert_string_equal(unit_first_id(&own), plan == NULL ? "F70" : "");
    td_task_free(&own);
  }
  for (int64_t round = 0; round < 1500; round++) {
    char text[sizeof base];
    memcpy(text, base, sizeof base);
    for (int64_t k = 0; k <= round % 4; k++) {
      int64_t c[2] = {round, k};
      size_t at = (size_t)(td_uniform(1, c, 2) * (float)(sizeof base - 2));
      text[at] = " 0192{}()[],$\"xTl-+*/%=.abmr"[(size_t)(
          td_uniform(2, c, 2) * 28.0f)];
    }
    td_task_t own;
    td_task_init(&own, NULL);
    plan_t *plan = parse(&own, text, sizeof base - 1);
    if (plan != NULL) (void)plan_verify(&own, plan, "test", true);
    td_task_free(&own);
  }
}

TASK_TEST(deep_and_long) {
  UNUSED_ARG;
  td_buf_t b;
  td_buf_init(&b, task);
  const char *at = strstr(base, "64 * ((4 * T + 63) / 64) life 1");
  const char *after = at + strlen("64 * ((4 * T + 63) / 64)");
  td_buf_put(&b, base, (size_t)(at - base));
  for (int i = 0; i < 100000; i++) td_buf_puts(&b, "T + ");
  td_buf_puts(&b, "T");
  td_buf_puts(&b, after);
  plan_t *plan = parse(task, b.data, b.length);
  assert_non_null(plan);
  assert_string_equal(print(task, plan), b.data);
  td_buf_clear(&b);
  td_buf_put(&b, base, (size_t)(at - base));
  for (int i = 0; i < 100000; i++) td_buf_putc(&b, '(');
  assert_null(parse(task, b.data, b.length));
  td_buf_free(&b);
}

/* ---- verification ------------------------------------------------------- */

typedef void (*mutate_t)(td_task_t *task, plan_t *plan);

static plan_expr_t number(td_task_t *task, int64_t n) {
  return plan_const(&task->arena, n);
}

static void overlap(td_task_t *task, plan_t *p) {
  p->entries[0].buffers[6].offset = number(task, 0);
}
static void partial_overlap(td_task_t *task, plan_t *p) {
  p->entries[0].buffers[6].offset = number(task, 64);
  (void)task;
}
static void misaligned(td_task_t *task, plan_t *p) {
  p->entries[0].buffers[7].offset = number(task, 32);
}
static void small_arena(td_task_t *task, plan_t *p) {
  p->entries[0].arena_bytes = number(task, 64);
}
static void short_life(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].buffers[6].last_step = 4;
}
static void short_size(td_task_t *task, plan_t *p) {
  p->entries[0].buffers[5].bytes = number(task, 4);
}
static void no_copy(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[1].kind = PLAN_STEP_FILL;
  p->entries[0].steps[1].buffers[0] = 5;
  p->entries[0].steps[1].buffer_count = 1;
}
static void late_write(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[3].buffers[0] = 7;
  p->entries[0].steps[3].buffers[1] = 6;
}
static void no_result(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[6].buffers[1] = 7;
}
static void result_in_loop(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[4].buffers[0] = 4;
  p->entries[0].steps[6].buffers[1] = 5;
}
static void writes_argument(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[1].buffers[0] = 0;
}
static void twice(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[3].buffers[1] = 6;
}
static void kernel_number(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[0].kernel = 3;
}
static void buffer_number(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[0].buffers[0] = 9;
}
static void few_buffers(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[0].buffer_count = 1;
}
static void few_scalars(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[3].scalar_count = 1;
}
static void stray_variable(td_task_t *task, plan_t *p) {
  p->entries[0].steps[6].scalars[0] = plan_var_expr(&task->arena, 1);
}
static void stray_end(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[5].other = 1;
}
static void open_loop(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[5].kind = PLAN_STEP_FILL;
}
static void same_variable(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[2].var = 0;
}
static void copy_size(td_task_t *task, plan_t *p) {
  p->entries[0].buffers[7].dims[0] = number(task, 1);
  p->entries[0].buffers[7].bytes = number(task, 4);
}
static void assert_float(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[8].buffers[0] = 4;
}
static void slot_elsewhere(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].slots[0].buffer = 5;
}
static void slot_shared(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].buffers[5].place = PLAN_AT_SLOT;
}
static void fallback(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].slots[3].else_slot = 0;
}
static void zero_scale(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].binds[1].scale = 0;
}
static void binds_output(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].binds[0].slot = 4;
}
static void underflow(td_task_t *task, plan_t *p) {
  static const plan_token_t add = {.op = PLAN_X_ADD};
  (void)task;
  p->kernels[0].block_count = (plan_expr_t){1, &add};
}
static void scalar_in_size(td_task_t *task, plan_t *p) {
  static const plan_token_t s = {.op = PLAN_X_SCALAR, .value = 1};
  (void)task;
  p->entries[0].arena_bytes = (plan_expr_t){1, &s};
}
static void module_number(td_task_t *task, plan_t *p) {
  (void)task;
  p->kernels[1].module = 1;
}

static void once_of_argument(td_task_t *task, plan_t *p) {
  (void)task;
  p->entries[0].steps[0].is_once = true;
}
static void once_of_weight(td_task_t *task, plan_t *p) {
  (void)task; /* rightly, but what it makes has to live throughout */
  p->entries[0].steps[7].is_once = true;
  p->entries[0].steps[7].buffers[0] = 2;
  p->entries[0].buffers[2].first_step = p->entries[0].buffers[2].last_step = 7;
  p->entries[0].buffers[4].last_step = 6;
}

static const struct {
  mutate_t mutate;
  const char *message; /* part of it */
} mutants[] = {
    {once_of_argument, "step 0 is no launch to be made once"},
    {once_of_weight, "ok lives from step 0 to 8, not from 7 to 8"},
    {overlap, "share memory"},
    {partial_overlap, "share memory"},
    {misaligned, "t is at offset 32"},
    {small_arena, "ends behind the arena"},
    {short_life, "s lives from step 1 to 6, not from 1 to 4"},
    {short_size, "h is stated to have 4 bytes"},
    {no_copy, "reads s, which was not written"},
    {late_write, "reads t, which was not written"},
    {no_result, "which was not written"},
    {result_in_loop, "which was not written"},
    {writes_argument, "writes the argument x"},
    {twice, "one buffer twice"},
    {kernel_number, "launches kernel 3"},
    {buffer_number, "uses buffer 9"},
    {few_buffers, "gives scale 1 buffers"},
    {few_scalars, "gives add 2 buffers and 1 scalars"},
    {stray_variable, "mentions what it may not"},
    {stray_end, "opens no loop"},
    {open_loop, "opens no loop"},
    {same_variable, "opens no loop"},
    {copy_size, "another size"},
    {assert_float, "tests y"},
    {slot_elsewhere, "no buffer of its own"},
    {slot_shared, "not that of its slot"},
    {fallback, "cannot fall back"},
    {zero_scale, "bind 1"},
    {binds_output, "bind 0"},
    {underflow, "no expression"},
    {scalar_in_size, "mentions what it may not"},
    {module_number, "of module 1"},
};

TASK_TEST(refused) {
  UNUSED_ARG;
  for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
    td_task_t own;
    td_task_init(&own, NULL);
    plan_t *plan = base_plan(&own);
    mutants[i].mutate(&own, plan);
    bool ok = plan_verify(&own, plan, "test", true);
    const char *text = own.diags.length > 0 ? own.diags.data[0]->text : "";
    if (ok || strstr(text, mutants[i].message) == NULL) {
      print_error("mutant %zu: wanted \"%s\", got \"%s\"\n", i,
                  mutants[i].message, text);
    }
    assert_false(ok);
    assert_non_null(strstr(text, mutants[i].message));
    td_task_free(&own);
  }
}

/* A plan of our own that is wrong is our fault, not the user's. */
static void verify_ours(td_task_t *task, void *arg) {
  (void)plan_verify(task, arg, "my-stage", false);
}

TASK_TEST(ours) {
  UNUSED_ARG;
  plan_t *plan = base_plan(task);
  overlap(task, plan);
  td_task_t own;
  td_task_init(&own, NULL);
  assert_int_equal(td_task_run(&own, verify_ours, plan),
                   TDSL_STATUS_INTERNAL);
  assert_non_null(strstr(own.message, "my-stage"));
  td_task_free(&own);
}

/* ---- ledger and chart --------------------------------------------------- */

TASK_TEST(totals) {
  UNUSED_ARG;
  plan_t *plan = base_plan(task);
  int64_t dims[1] = {10};
  plan_totals_t t;
  assert_true(plan_ledger_sum(task, plan, &plan->entries[0], dims, &t));
  /* scale twice, add three times, test once; copies: 1 + 3 of 40 bytes */
  assert_int_equal(t.launches, 6);
  assert_int_equal(t.read_bytes, 2 * 40 + 3 * 40 + 4 + 4 * 40);
  assert_int_equal(t.written_bytes, 2 * 40 + 3 * 40 + 1 + 4 * 40);
  assert_int_equal(t.flops, 2 * 20); /* add: T * l, at the first l = 0 */
  assert_int_equal(t.arena_bytes, 128);
  dims[0] = 0; /* scale has no blocks */
  assert_true(plan_ledger_sum(task, plan, &plan->entries[0], dims, &t));
  assert_int_equal(t.launches, 4);
  assert_int_equal(t.arena_bytes, 64);
}

TASK_TEST(chart) {
  UNUSED_ARG;
  plan_t *plan = base_plan(task);
  int64_t dims[1] = {10};
  td_buf_t b;
  td_buf_init(&b, task);
  plan_print_memory(&b, &plan->entries[0], dims);
  assert_non_null(strstr(b.data, "entry f at T = 10: arena of 128 bytes, "
                                 "121 without reuse, 9 steps\n"));
  assert_non_null(strstr(b.data, "    6            64            40      1"
                                 "     6  .######..  s: f32[T]\n"));
  assert_non_null(strstr(b.data, "    8             0             1      7"
                                 "     8  .......##  ok: bool[]\n"));
  td_buf_free(&b);
}

/* Workers of a launch: a turn for every block iteration, up to 32 blocks a
 * multiprocessor; where each holds scratch, no more than are resident, and no
 * more than 512 MiB. */
static void grids(void **state) {
  (void)state;
  static const struct {
    int64_t block_count;
    uint32_t each;
    size_t scratch;
    uint32_t resident;
    int64_t workers;
    uint32_t blocks;
  } rows[] = {
      {0, 8, 0, 2, 0, 0},          {1, 8, 100, 2, 1, 1},
      {17, 8, 0, 2, 17, 3},        {100000, 8, 0, 2, 2560, 320},
      {100000, 8, 64, 2, 160, 20}, {100000, 8, 64, 0, 2560, 320},
      {100000, 8, 64, 99, 2560, 320},
      {100000, 8, (size_t)100 << 20, 2, 5, 1},
      {100000, 8, (size_t)1 << 30, 2, 1, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plan_kernel_t k = {.workers = rows[i].each, .threads = 128};
    plan_grid_t grid;
    plan_grid(&k, rows[i].block_count, rows[i].scratch, 10, rows[i].resident,
              &grid);
    assert_int_equal(grid.workers, rows[i].workers);
    assert_int_equal(grid.blocks, rows[i].blocks);
    assert_int_equal(grid.scratch_stride, (rows[i].scratch + 63) / 64 * 64);
  }
}

static void parse_all(td_task_t *task, void *arg) {
  (void)arg;
  plan_t *plan = base_plan(task);
  (void)plan_verify(task, plan, "test", true);
  (void)print(task, plan);
}

TASK_TEST(memory) {
  UNUSED_ARG;
  unit_sweep(parse_all, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(once_is_text),
      cmocka_unit_test(round_trip_without_payload),
      cmocka_unit_test(bad_hash_without_payload),
      cmocka_unit_test(expressions),
      cmocka_unit_test(evaluation), cmocka_unit_test(hostile),
      cmocka_unit_test(deep_and_long), cmocka_unit_test(refused),
      cmocka_unit_test(ours),       cmocka_unit_test(totals),
      cmocka_unit_test(chart),      cmocka_unit_test(memory),
      cmocka_unit_test(grids),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
