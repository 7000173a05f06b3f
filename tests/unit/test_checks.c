/* What --checks=all reports: the same ids on kernels as in the interpreter
   of the tensor IR, and nothing where nothing is wrong. */
#include "pipe.h"

static const pipe_way_t ways[] = {
    {.label = "cpu", .asserts = true},
    {.label = "kir", .is_kir = true, .asserts = true},
    {.label = "cpu, passes off", .off = PIPE_ALL_OFF, .asserts = true},
};

typedef struct fault {
  const char *text, *id; /* id NULL: no fault */
} fault_t;

#define F(params, results, body)                                              \
  "dyn N <= 64\nexport fn f(" params ") -> (" results ") {\n" body "\n}\n"

/* `id` runs over 0 .. 4 with repetitions, a over -4 .. 4; N is 40. */
static const fault_t faults[] = {
    {F("a: i64[N]", "y: i64[N]", "y[n] = a[n] * 4611686018427387904"), "R10"},
    {F("a: i64[N]", "y: i64[N]", "y[n] = a[n] * 1152921504606846976"), NULL},
    {F("a: i64[N]", "y: i64[N]", "y[n] = a[n] + 9223372036854775804"), "R10"},
    {F("a: i64[N]", "y: i64[N]", "y[n] = a[n] + 9223372036854775803"), NULL},
    {F("a: i64[N]", "y: i64[N]", "y[n] = a[n] - 9223372036854775807"), "R10"},
    {F("a: i64[N]", "y: i64[N]", "y[n] = max(a[n], 0) - 9223372036854775807"),
     NULL},
    {F("a: i64[N]", "y: i64[N]",
       "y[n] = if a[n] < 2 then a[n] else a[n] * 9223372036854775807"),
     "R10"},
    {F("a: i64[N]", "y: i64[N]",
       "y[n] = if a[n] < 9 then a[n] else a[n] * 9223372036854775807"),
     NULL},
    {F("a: i64[N]", "y: bool[N]",
       "y[n] = a[n] < 9 or a[n] * 9223372036854775807 > 3"),
     NULL},
    {F("a: i64[N]", "y: bool[N]",
       "y[n] = a[n] < 2 or a[n] * 9223372036854775807 > 3"),
     "R10"},
    {F("a: i64[N]", "y: i64",
       "y = sum[n where a[n] > 8] a[n] * 9223372036854775807"),
     NULL},
    {F("a: i64[N]", "y: i64",
       "y = sum[n where a[n] > 3] a[n] * 1152921504606846976"),
     "R10"},
    {F("a: i64[N]", "y: i64", "y = prod[n] max(a[n], 3)"), "R10"},
    {F("a: i64[N]", "y: i64", "y = prod[n where n < 20] max(a[n], 3)"), NULL},
    {F("a: i64[N]", "y: i64[N]", "y[n] = a[n] ^ 31"), NULL},
    {F("a: i64[N]", "y: i64[N]", "y[n] = a[n] ^ 32"), "R10"},
    {F("a: i32[N]", "y: i32[N]", "y[n] = a[n] * 1000000000"), "R10"},
    {F("a: i32[N]", "y: i32[N]", "y[n] = a[n] * 500000000"), NULL},
    {F("a: i64[N], id: i32[N] in 5", "y: i64[5]",
       "var c[v in 5] = 0\n  c[id[n]] := n\n  y = c"),
     "R05"},
    {F("a: i64[N], id: i32[N] in 5", "y: i64[5]",
       "var c[v in 5] = 0\n  c[id[n]] := n where n < 1\n  y = c"),
     NULL},
    {F("a: i64[N], id: i32[N] in 5", "y: i64[5]",
       "var c[v in 5] = 0\n  c[id[n]] += a[n]\n  y = c"),
     NULL},
    {F("a: i64[N], id: i32[N] in 5", "y: i64[5]",
       "var c[v in 5] = 9223372036854775800\n"
       "  c[id[n]] += max(a[n], 0)\n  y = c"),
     "R10"},
    {F("a: f32[N]", "y: f32[N]",
       "y[n] = a[n]\n  assert all[n] (y[n] < 4.0), \"small\""),
     "R06"},
    {F("a: f32[N]", "y: f32[N]",
       "y[n] = a[n]\n  assert all[n] (y[n] < 5.0), \"small\""),
     NULL},
    {F("a: f32[N]", "y: f32[N]",
       "y[n] = a[n]\n  for i in 3 { assert i < 2 }"),
     "R06"},
    {F("a: i64[N]", "y: i64",
       "var c = 1\n  for i in 70 { c := c * 2 }\n  y = c + (sum[n] a[n])"),
     "R10"},
};

typedef struct run {
  const fault_t *fault;
  const char *tir;
  pipe_built_t built;
  const pipe_way_t *way; /* NULL: the interpreter */
} run_t;

static void run_body(td_task_t *task, void *arg) {
  run_t *r = arg;
  int64_t dims[1] = {40};
  pipe_build(task, r->tir, r->way != NULL ? r->way : &ways[0], &r->built);
  const plan_entry_t *e = &r->built.plan->entries[0];
  hal_arg_t *args = pipe_args(task, e, dims, 3, PIPE_EXACT);
  if (r->way == NULL) {
    (void)pipe_reference(task, pipe_read(task, r->tir), 0, dims, args);
  } else {
    (void)pipe_run(task, &r->built, 0, dims, args);
  }
}

/* Runs one way in a task of its own; true if it reported what it should. */
static bool reports(const fault_t *fault, const char *tir,
                    const pipe_way_t *way) {
  run_t r = {.fault = fault, .tir = tir, .way = way};
  td_task_t task;
  td_task_init(&task, NULL);
  tdsl_status_t status = td_task_run(&task, run_body, &r);
  const char *label = way != NULL ? way->label : "interpreter";
  const char *got = unit_first_id(&task);
  bool ok = fault->id == NULL ? status == TDSL_STATUS_OK
                              : strcmp(got, fault->id) == 0;
  if (!ok) {
    print_error("%s: %s, not %s (%s):\n%s", label, got,
                fault->id != NULL ? fault->id : "fine", task.message,
                fault->text);
  }
  pipe_close(&r.built);
  td_task_free(&task);
  return ok;
}

TASK_TEST(test_faults) {
  (void)arg;
  int failures = 0;
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    pipe_source_t source = {0};
    const char *tir = pipe_lower(task, "fault", faults[i].text, &source);
    if (tir == NULL) {
      pipe_show(task);
      fail();
    }
    failures += !reports(&faults[i], tir, NULL);
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
      failures += !reports(&faults[i], tir, &ways[w]);
    }
  }
  assert_int_equal(failures, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
