/* Binding of arguments and the step loop, on the device that records calls.
   Plans are texts written by hand; the messages are those of the language's
   table of errors. */
#include "tests/unit/unit.h"

#include "runtime/hal/exec.h"
#include "runtime/null/null_device.h"

#define HEAD                                                                  \
  "plan 1\ntarget \"\"\nfile \"a.tdsl\"\n"                                    \
  "module \"m\" kir \"\" bytes 1 hash xaf63dc4c8601ec8c data { x61 }\n"       \
  "kernel \"k\" module 0 symbol \"k\" { param read param write scalars 1 "    \
  "blocks $0 scratch 4 * $0 reads 0 writes 0 flops 0 card \"\" }\n"

/* x: f32[B, T], tok: i32[B, T + 1] in 0 .. 9, n: i64 = 3 in 0 .. 100,
   s: f32, w: f32[2] else v, v: f32[2], c: inout f32[B], y: out f32[B, T] */
static const char calls[] =
    HEAD
    "entry \"f\" {\n"
    "dim \"B\" <= 4 at 1:1:1-1:2\ndim \"T\" <= 100\n"
    "slot 0 in \"x\" f32[\"B\" = B max 4, \"T\" = T max 100] buffer 0\n"
    "slot 1 in \"tok\" i32[\"B\" = B max 4, \"T + 1\" = T + 1 max 101] "
    "in 0 .. 9 buffer 1\n"
    "slot 2 in \"n\" i64[] in 0 .. 100 default 3 real(0) buffer 2\n"
    "slot 3 in \"s\" f32[] buffer 3\n"
    "slot 4 in \"w\" f32[\"2\" = 2 max 2] else 5 buffer 4\n"
    "slot 5 in \"v\" f32[\"2\" = 2 max 2] buffer 5\n"
    "slot 6 inout \"c\" f32[\"B\" = B max 4] buffer 6\n"
    "slot 7 out \"y\" f32[\"B\" = B max 4, \"T\" = T max 100] buffer 7\n"
    "bind B slot 0 dim 0 scale 1 offset 0\n"
    "bind T slot 0 dim 1 scale 1 offset 0\n"
    "bind B slot 1 dim 0 scale 1 offset 0\n"
    "bind T slot 1 dim 1 scale 1 offset 1\n"
    "require T % 2 == 0 \"T % 2 == 0\" at 1:2:3-1:9\n"
    "require float(slot(2)) * slot(3) < real(50) \"n*s < 50\"\n"
    "buffer 0 \"x\" f32[B, T] bytes 4 * B * T slot 0 life 0 .. 0\n"
    "buffer 1 \"tok\" i32[B, T + 1] bytes 4 * B * (T + 1) slot 1 "
    "life 0 .. 0\n"
    "buffer 2 \"n\" i64[] bytes 8 slot 2 life 2 .. 2\n"
    "buffer 3 \"s\" f32[] bytes 4 slot 3 life 0 .. 0\n"
    "buffer 4 \"w\" f32[2] bytes 8 slot 4 life 0 .. 0\n"
    "buffer 5 \"v\" f32[2] bytes 8 slot 5 life 0 .. 0\n"
    "buffer 6 \"c\" f32[B] bytes 4 * B slot 6 life 0 .. 0\n"
    "buffer 7 \"y\" f32[B, T] bytes 4 * B * T slot 7 life 1 .. 4\n"
    "buffer 8 \"h\" f32[B, T] bytes 4 * B * T offset 64 life 0 .. 4\n"
    "arena 64 * ((4 * B * T + 63) / 64) + 64\n"
    "launch 0 (0, 8) [T]\n"
    "copy (7, 8)\n"
    "}\n";

typedef struct fixture {
  hal_device_t *device;
  hal_program_t *program;
  plan_t *plan;
  hal_exec_t *exec;
  hal_arg_t args[8];
} fixture_t;

static fixture_t open_plan(td_task_t *task, const char *text) {
  fixture_t f = {0};
  uint32_t file = td_sources_add(task, "a.plan", text, strlen(text));
  f.plan = plan_parse(task, &task->arena, file);
  if (f.plan == NULL) print_error("%s\n", task->diags.data[0]->text);
  assert_non_null(f.plan);
  f.device = rnull_device_create(task);
  f.program = f.device->vtable->load(f.device, task, f.plan);
  f.exec = hal_exec_create(task, &task->arena, f.device, f.program, f.plan,
                           0);
  return f;
}

static void close_plan(fixture_t *f) {
  hal_exec_destroy(f->exec);
  f->device->vtable->unload(f->device, f->program);
  f->device->vtable->destroy(f->device);
}

static hal_arg_t tensor(td_task_t *task, tdsl_dtype_t dtype, uint32_t rank,
                        int64_t a, int64_t b) {
  hal_arg_t arg = {.is_set = true, .dtype = dtype, .rank = rank,
                   .dims = {a, b}};
  arg.data = td_arena_alloc(&task->arena, 4096);
  return arg;
}

/* Arguments that pass: B = 2, T = 4. */
static void good_args(td_task_t *task, hal_arg_t *args) {
  args[0] = tensor(task, TDSL_DTYPE_F32, 2, 2, 4);
  args[1] = tensor(task, TDSL_DTYPE_I32, 2, 2, 5);
  args[2] = (hal_arg_t){0};
  args[3] = (hal_arg_t){.is_set = true, .is_value = true,
                        .number = {.is_real = true, .r = 0.5}};
  args[4] = (hal_arg_t){0};
  args[5] = tensor(task, TDSL_DTYPE_F32, 1, 2, 0);
  args[6] = tensor(task, TDSL_DTYPE_F32, 1, 2, 0);
  args[7] = (hal_arg_t){0};
}

TASK_TEST(runs) {
  UNUSED_ARG;
  fixture_t f = open_plan(task, calls);
  good_args(task, f.args);
  assert_true(hal_exec_run(f.exec, task, f.args, NULL, NULL));
  /* the record names memory by order, so it is the same each time */
  assert_string_equal(
      rnull_device_record(f.device),
      "load 1 kernels\n"
      "alloc m1 192\n"           /* cells of 16 bytes for 8 slots, and 64 */
      "copy m1+32:16 h1+0:16\n"  /* n, the default */
      "copy m1+48:16 h1+0:16\n"  /* s */
      "alloc m2 32\n"            /* y */
      "alloc m3 128\n"
      "launch k h2+0:32 m3+64:32 scalars 4 blocks 4 scratch 16\n"
      "copy m2+0:32 m3+64:32\n"
      "wait\n");
  const hal_stats_t *s = hal_exec_stats(f.exec);
  assert_int_equal(s->launches, 1);
  assert_int_equal(s->copies, 1);
  assert_int_equal(s->planned_bytes, 128);
  assert_int_equal(s->arena_bytes, 128);
  assert_int_equal(hal_exec_get(f.exec, 7)->dims[1], 4);
  assert_ptr_equal(hal_exec_get(f.exec, 4)->data, f.args[5].data);
  /* again, and with fewer columns: nothing is allocated */
  rnull_device_clear(f.device);
  assert_true(hal_exec_run(f.exec, task, f.args, NULL, NULL));
  f.args[0].dims[1] = 2;
  f.args[1].dims[1] = 3;
  assert_true(hal_exec_run(f.exec, task, f.args, NULL, NULL));
  assert_null(strstr(rnull_device_record(f.device), "alloc"));
  assert_null(strstr(rnull_device_record(f.device), "free"));
  /* no columns: no blocks, no launch, nothing to copy */
  rnull_device_clear(f.device);
  f.args[0].dims[1] = 0;
  f.args[0].data = NULL;
  f.args[1].dims[1] = 1;
  assert_true(hal_exec_run(f.exec, task, f.args, NULL, NULL));
  assert_null(strstr(rnull_device_record(f.device), "launch"));
  assert_int_equal(hal_exec_stats(f.exec)->skipped, 1);
  assert_int_equal(task->diags.length, 0);
  close_plan(&f);
}

/* ---- refusals ------------------------------------------------------------ */

typedef void (*spoil_t)(td_task_t *task, hal_arg_t *args);

static void missing(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[0].is_set = false;
}
static void missing_both(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[5].is_set = false;
}
static void number_for_tensor(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[0].is_value = true;
}
static void float_for_int(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[2] = a[3];
}
static void no_memory(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[0].data = NULL;
}
static void dtype(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[0].dtype = TDSL_DTYPE_BF16;
}
static void rank(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[0].rank = 1;
}
static void unaligned(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[0].data = (char *)a[0].data + 8;
}
static void read_only(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[6].is_read_only = true;
}
static void too_large(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[0].dims[0] = INT64_MAX / 2;
}
static void negative(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[0].dims[0] = -1;
}
static void columns(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[1].dims[1] = 7;
}
static void rows(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[6].dims[0] = 3;
}
static void output(td_task_t *task, hal_arg_t *a) {
  a[7] = tensor(task, TDSL_DTYPE_F32, 2, 2, 5);
}
static void fixed(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[5].dims[0] = 3;
}
static void bound(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[0].dims[0] = a[1].dims[0] = a[6].dims[0] = 5;
}
static void odd(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[0].dims[1] = 3;
  a[1].dims[1] = 4;
}
static void product(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[3].number.r = 17.5;
}
static void token(td_task_t *task, hal_arg_t *a) {
  (void)task;
  ((int32_t *)a[1].data)[8] = 9;
}
static void scalar(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[2] = (hal_arg_t){.is_set = true, .is_value = true, .number = {.i = -1}};
}
static void in_and_inout(td_task_t *task, hal_arg_t *a) {
  (void)task;
  a[6].data = (char *)a[0].data + 16;
}
static void out_and_inout(td_task_t *task, hal_arg_t *a) {
  a[7] = tensor(task, TDSL_DTYPE_F32, 2, 2, 4);
  a[6].data = a[7].data;
}

static const struct {
  spoil_t spoil;
  const char *id, *message;
} faults[] = {
    {missing, "R07", "argument x is missing"},
    {missing_both, "R07", "argument w is missing"},
    {number_for_tensor, "R07",
     "x is a tensor of rank 2 and was given a number"},
    {float_for_int, "R07", "n is i64 and was given a float"},
    {no_memory, "R07", "x has no memory"},
    {dtype, "R08", "x has dtype bf16, wanted f32"},
    {rank, "R08", "x has rank 1, wanted 2"},
    {unaligned, "R08", "x is not aligned to 16 bytes"},
    {read_only, "R08", "c is written and its memory is read-only"},
    {too_large, "R08", "x is larger than memory can be"},
    {negative, "R08", "x has a negative extent"},
    {columns, "R01",
     "tok has shape [2, 7], wanted [B, T + 1] = [2, 5]: dim T = 4 from x"},
    {rows, "R01", "c has shape [3], wanted [B] = [2]: dim B = 2 from x"},
    {output, "R01",
     "y has shape [2, 5], wanted [B, T] = [2, 4]: dim T = 4 from x"},
    {fixed, "R01", "w has shape [3], wanted [2]"},
    {bound, "R02", "dim B = 5 from x exceeds its bound 4"},
    {odd, "R03", "require T % 2 == 0 fails: T = 3"},
    {product, "R03", "require n*s < 50 fails: n = 3, s = 17.5"},
    {token, "R04", "tok[1, 3] = 9 is not in 0 .. 9"},
    {scalar, "R04", "n = -1 is not in 0 .. 100"},
    {in_and_inout, "R09", "c is written and overlaps x"},
    {out_and_inout, "R09", "c is written and overlaps y"},
};

TASK_TEST(refusals) {
  UNUSED_ARG;
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    td_task_t own;
    td_task_init(&own, NULL);
    fixture_t f = open_plan(&own, calls);
    good_args(&own, f.args);
    faults[i].spoil(&own, f.args);
    rnull_device_clear(f.device);
    assert_false(hal_exec_run(f.exec, &own, f.args, NULL, NULL));
    const char *text = own.diags.length > 0 ? own.diags.data[0]->text : "";
    assert_string_equal(text, faults[i].message);
    assert_string_equal(unit_first_id(&own), faults[i].id);
    assert_int_equal(td_task_status(&own), TDSL_STATUS_INVALID_ARGUMENT);
    /* nothing was written, nor was anything else done */
    assert_string_equal(rnull_device_record(f.device), "");
    close_plan(&f);
    td_task_free(&own);
  }
}

/* checks = none trusts the caller where memory safety allows it. */
TASK_TEST(unchecked) {
  UNUSED_ARG;
  fixture_t f = open_plan(task, calls);
  hal_exec_options_t none = {.checks = HAL_CHECKS_NONE};
  good_args(task, f.args);
  token(task, f.args);
  product(task, f.args);
  assert_true(hal_exec_run(f.exec, task, f.args, NULL, &none));
  columns(task, f.args);
  assert_false(hal_exec_run(f.exec, task, f.args, NULL, &none));
  close_plan(&f);
}

/* Contents that the caller vouches for are not read. */
TASK_TEST(vouched) {
  UNUSED_ARG;
  fixture_t f = open_plan(task, calls);
  good_args(task, f.args);
  token(task, f.args);
  f.args[1].is_checked = true;
  assert_true(hal_exec_run(f.exec, task, f.args, NULL, NULL));
  close_plan(&f);
}

/* ---- dims that are multiples, presets, places ---------------------------- */

TASK_TEST(scaled) {
  UNUSED_ARG;
  static const char text[] =
      HEAD
      "entry \"f\" {\ndim \"N\" <= 100\ndim \"M\" <= 100 at 1:4:2-4:3\n"
      "slot 0 in \"a\" f32[\"3*N + 2\" = 3 * N + 2 max 302] buffer 0\n"
      "slot 1 out \"y\" f32[\"M\" = M max 100] buffer 1\n"
      "bind N slot 0 dim 0 scale 3 offset 2\n"
      "buffer 0 \"a\" f32[3 * N + 2] bytes 4 * (3 * N + 2) slot 0 "
      "life 0 .. 0\n"
      "buffer 1 \"y\" f32[M] bytes 4 * M slot 1 life 0 .. 0\n"
      "arena 0\nlaunch 0 (0, 1) [N]\n}\n";
  fixture_t f = open_plan(task, text);
  f.args[0] = tensor(task, TDSL_DTYPE_F32, 1, 11, 0);
  int64_t preset[2] = {-1, 6};
  assert_true(hal_exec_run(f.exec, task, f.args, preset, NULL));
  assert_non_null(strstr(rnull_device_record(f.device), "scalars 3 "));
  assert_int_equal(hal_exec_get(f.exec, 1)->dims[0], 6);
  assert_false(hal_exec_run(f.exec, task, f.args, NULL, NULL));
  assert_string_equal(task->diags.data[0]->text,
                      "no argument gives dim M a value");
  /* the plan's file is not the task's: the place comes with its name */
  td_loc_t loc = task->diags.data[0]->loc;
  assert_string_equal(td_sources_get(task, loc.file)->name, "a.tdsl");
  assert_int_equal(loc.line, 4);
  f.args[0].dims[0] = 12;
  assert_false(hal_exec_run(f.exec, task, f.args, preset, NULL));
  assert_string_equal(task->diags.data[1]->text,
                      "a has shape [12], wanted [3*N + 2]: not divisible");
  f.args[0].dims[0] = 1;
  assert_false(hal_exec_run(f.exec, task, f.args, preset, NULL));
  assert_string_equal(task->diags.data[2]->text,
                      "a has shape [1], wanted [3*N + 2]: too small");
  close_plan(&f);
}

/* ---- loops, asserts ------------------------------------------------------ */

/* Nested loops, one with its bound in a buffer. */
static const char loops[] =
    HEAD
    "entry \"f\" {\nvar \"i\"\nvar \"j\"\n"
    "slot 0 in \"n\" i64[] buffer 0\n"
    "slot 1 in \"x\" f32[\"4\" = 4 max 4] buffer 1\n"
    "slot 2 in \"ok\" bool[] buffer 2\n"
    "slot 3 in \"l\" f32[] buffer 3\n"
    "buffer 0 \"n\" i64[] bytes 8 slot 0 life 0 .. 0\n"
    "buffer 1 \"x\" f32[4] bytes 16 slot 1 life 0 .. 0\n"
    "buffer 2 \"ok\" bool[] bytes 1 slot 2 life 0 .. 0\n"
    "buffer 3 \"l\" f32[] bytes 4 slot 3 life 0 .. 0\n"
    "buffer 4 \"h\" f32[4] bytes 16 offset 0 life 0 .. 0\n"
    "arena 64\n"
    "loop i in 1 .. buffer(0) {\n"
    "loop j in i .. 3 {\nlaunch 0 (1, 4) [10 * i + j]\n}\n}\n"
    "assert (2, 3, 3) \"l holds\" at 1:7:3-7:5\n"
    "}\n";

TASK_TEST(nests) {
  UNUSED_ARG;
  fixture_t f = open_plan(task, loops);
  int64_t n = 4;
  f.args[0] = (hal_arg_t){.is_set = true, .is_value = true,
                          .number = {.i = n}};
  f.args[1] = tensor(task, TDSL_DTYPE_F32, 1, 4, 0);
  f.args[2] = (hal_arg_t){.is_set = true, .is_value = true};
  f.args[3] = (hal_arg_t){.is_set = true, .is_value = true,
                          .number = {.is_real = true, .r = 0.1}};
  assert_true(hal_exec_run(f.exec, task, f.args, NULL, NULL));
  static const char *const order[] = {"scalars 11 ", "scalars 12 ",
                                      "scalars 22 "};
  const char *at = rnull_device_record(f.device);
  for (size_t i = 0; i < 3; i++) {
    at = strstr(at, order[i]);
    assert_non_null(at);
  }
  assert_int_equal(hal_exec_stats(f.exec)->launches, 3);
  /* no trips */
  f.args[0].number.i = 1;
  assert_true(hal_exec_run(f.exec, task, f.args, NULL, NULL));
  assert_int_equal(hal_exec_stats(f.exec)->launches, 0);
  assert_int_equal(hal_exec_stats(f.exec)->arena_bytes, 0);
  f.args[0].number.i = INT64_MIN;
  assert_true(hal_exec_run(f.exec, task, f.args, NULL, NULL));
  /* asserts count in checked runs only */
  hal_exec_options_t all = {.checks = HAL_CHECKS_ALL};
  assert_false(hal_exec_run(f.exec, task, f.args, NULL, &all));
  assert_string_equal(unit_first_id(task), "R06");
  assert_string_equal(task->diags.data[0]->text, "assertion failed: l holds");
  assert_string_equal(task->diags.data[0]->notes.data[0],
                      "left is 0.1, right is 0.1");
  f.args[2].number.i = 1;
  assert_true(hal_exec_run(f.exec, task, f.args, NULL, &all));
  close_plan(&f);
}

/* Launches and copies are counted with what their ledgers say. */
TASK_TEST(trace) {
  UNUSED_ARG;
  fixture_t f = open_plan(task, calls);
  hal_trace_t trace;
  hal_trace_init(&trace, &task->arena, f.plan);
  hal_exec_options_t options = {.trace = &trace};
  good_args(task, f.args);
  for (int i = 0; i < 3; i++) {
    assert_true(hal_exec_run(f.exec, task, f.args, NULL, &options));
  }
  assert_int_equal(trace.rows[0].launches, 3);
  assert_int_equal(trace.copies.launches, 3);
  assert_true(trace.copies.bytes > 191.5 && trace.copies.bytes < 192.5);
  assert_true(trace.rows[0].least <= trace.rows[0].seconds);
  trace.rows[0] = (hal_trace_row_t){4, 0.5, 0.1, 2e9, 1e9};
  trace.copies = (hal_trace_row_t){0};
  td_buf_t b;
  td_buf_init(&b, task);
  hal_trace_print(&b, &trace);
  assert_string_equal(
      b.data,
      " share %  launches      total ms    least us      GB/s     GFLOP/s"
      "  kernel\n"
      " 100.000         4       500.000  100000.000     4.000       2.000"
      "  k\n");
  td_buf_free(&b);
  close_plan(&f);
}

/* A host that asks to stop is heard between two steps. */
static int stop(void *user) {
  return --*(int *)user < 0;
}

static void run_all(td_task_t *task, void *arg) {
  fixture_t *f = arg;
  (void)hal_exec_run(f->exec, task, f->args, NULL, NULL);
}

TASK_TEST(cancel) {
  UNUSED_ARG;
  fixture_t f = open_plan(task, loops);
  f.args[0] = (hal_arg_t){.is_set = true, .is_value = true,
                          .number = {.i = INT64_MAX}};
  f.args[1] = tensor(task, TDSL_DTYPE_F32, 1, 4, 0);
  f.args[2] = f.args[3] = f.args[0];
  f.args[2].number.i = 1;
  int polls = 1000;
  td_host_t host = {.cancel = {stop, &polls}};
  td_task_t own;
  td_task_init(&own, &host);
  assert_int_equal(td_task_run(&own, run_all, &f), TDSL_STATUS_CANCELLED);
  td_task_free(&own);
  close_plan(&f);
}

/* ---- memory that runs out ------------------------------------------------ */

static void close_any(void *arg) {
  fixture_t *f = arg;
  if (f->device == NULL) return;
  hal_exec_destroy(f->exec);
  f->device->vtable->unload(f->device, f->program);
  f->device->vtable->destroy(f->device);
  f->device = NULL;
}

/* What was opened is closed also if a later step finds no memory. */
static void whole(td_task_t *task, void *arg) {
  fixture_t *f = arg;
  memset(f, 0, sizeof *f);
  td_defer(task, close_any, f);
  uint32_t file = td_sources_add(task, "a.plan", calls, sizeof calls - 1);
  f->plan = plan_parse(task, &task->arena, file);
  f->device = rnull_device_create(task);
  f->program = f->device->vtable->load(f->device, task, f->plan);
  f->exec = hal_exec_create(task, &task->arena, f->device, f->program,
                            f->plan, 0);
  good_args(task, f->args);
  assert_true(hal_exec_run(f->exec, task, f->args, NULL, NULL));
  td_undefer(task, true);
}

/* The record of the null device may end early, which is no failure. */
TASK_TEST(memory) {
  UNUSED_ARG;
  unit_memory_t m = {0, 0, false, 0};
  td_host_t host = {.allocator = {unit_alloc, &m}};
  size_t count = 1;
  for (size_t n = 0; n <= count; n++) {
    fixture_t f;
    td_task_t own;
    m = (unit_memory_t){0, n, true, 0};
    td_task_init(&own, &host);
    tdsl_status_t status = td_task_run(&own, whole, &f);
    if (n == 0) count = m.calls;
    assert_true(status == TDSL_STATUS_OK ||
                (n > 0 && status == TDSL_STATUS_OUT_OF_MEMORY));
    td_task_free(&own);
    assert_int_equal(m.held, 0);
  }
  assert_true(count > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs),     cmocka_unit_test(refusals),
      cmocka_unit_test(unchecked), cmocka_unit_test(vouched),
      cmocka_unit_test(scaled),   cmocka_unit_test(nests),
      cmocka_unit_test(cancel),   cmocka_unit_test(memory),
      cmocka_unit_test(trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
