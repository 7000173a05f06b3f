/* The public interface: errors as values, runs, ownership, threads. */
#include <pthread.h>

#include "api.h"

static const char scale[] = "dyn N <= 64\n"
                            "export fn f(x: f32[N], k: f32 = 2.0, "
                            "i: i32 in 0 .. 4 = 1) -> y: f32[N] {\n"
                            "  y[j] = k * x[j] + f32(i)\n"
                            "}\n";
static const char *const devices[] = {"interp", "interp:f64", "interp:kir",
                                      "cpu"};
enum { DEVICES = sizeof devices / sizeof devices[0] };

/* ---- errors ------------------------------------------------------------- */

typedef struct seen {
  int count;
  char ids[8][8];
} seen_t;

static void see(const tdsl_diagnostic_t *d, void *user) {
  seen_t *s = user;
  if (s->count < 8) {
    (void)snprintf(s->ids[s->count], 8, "%.*s", (int)d->id.length,
                   d->id.data);
  }
  s->count++;
}

static void wrong_programs_are_values(void **state) {
  (void)state;
  tdsl_context_t *context;
  tdsl_error_t *error;
  tdsl_program_t *program;
  seen_t seen = {0};
  must(tdsl_context_create(NULL, &context, &error), error);
  tdsl_compile_desc_t desc = source("export fn f(x: f32[4]) -> y: f32[4] {\n"
                                    "  y[i] = x[i] + z\n"
                                    "}\n"
                                    "export fn g() -> r: f32 { r = q }\n",
                                    "interp");
  desc.diagnostic = see;
  desc.diagnostic_user = &seen;
  tdsl_status_t status =
      tdsl_program_compile(context, &desc, &program, &error);
  assert_int_equal(status, TDSL_STATUS_INVALID_PROGRAM);
  assert_null(program);
  assert_int_equal(seen.count, 2);
  assert_string_equal(seen.ids[0], "E01");
  assert_int_equal(tdsl_error_get_diagnostic_count(error), 2);
  assert_true(holds(tdsl_error_get_message(error), "E01"));
  const tdsl_diagnostic_t *d = tdsl_error_get_diagnostic(error, 0);
  assert_true(same(d->span.file, "test.tdsl"));
  assert_int_equal(d->span.line, 2);
  assert_int_equal(d->span.column, 17);
  assert_true(holds(d->rendered, "test.tdsl:2:17: error[E01]"));
  assert_false(holds(d->rendered, "\033"));
  assert_true(holds(d->rendered_color, "\033"));
  assert_true(holds(d->json, "\"E01\""));
  assert_null(tdsl_error_get_diagnostic(error, 2));
  tdsl_error_release(error);
  /* nobody is asked to take the error */
  assert_int_equal(tdsl_program_compile(context, &desc, &program, NULL),
                   TDSL_STATUS_INVALID_PROGRAM);
  tdsl_context_destroy(context);
}

static void each_kind_has_its_status(void **state) {
  (void)state;
  tdsl_context_t *context;
  tdsl_error_t *error;
  tdsl_program_t *program = NULL;
  must(tdsl_context_create(NULL, &context, &error), error);
  tdsl_compile_desc_t desc = source(scale, "no-such-device");
  tdsl_status_t status =
      tdsl_program_compile(context, &desc, &program, &error);
  must_fail(status, error, TDSL_STATUS_UNAVAILABLE, "B03");
  desc = source(scale, "interp");
  desc.text.data = NULL;
  desc.file = text("/no/such/file.tdsl");
  status = tdsl_program_compile(context, &desc, &program, &error);
  must_fail(status, error, TDSL_STATUS_IO, "F01");
  desc = source(scale, "interp");
  desc.struct_bytes = 100000; /* of a later library */
  status = tdsl_program_compile(context, &desc, &program, &error);
  must_fail(status, error, TDSL_STATUS_INVALID_ARGUMENT, NULL);
  desc = source(scale, "cpu");
  desc.disable_passes = text("no-such-pass");
  status = tdsl_program_compile(context, &desc, &program, &error);
  must_fail(status, error, TDSL_STATUS_UNAVAILABLE, "B11");
  tdsl_context_desc_t later = TDSL_CONTEXT_DESC_INIT;
  tdsl_context_t *none;
  later.struct_bytes = 100000;
  status = tdsl_context_create(&later, &none, &error);
  must_fail(status, error, TDSL_STATUS_INVALID_ARGUMENT, NULL);
  assert_null(none);
  tdsl_context_destroy(context);
  tdsl_context_destroy(NULL);
  tdsl_program_release(NULL);
  tdsl_executable_release(NULL);
  tdsl_run_destroy(NULL);
  tdsl_buffer_release(NULL);
  tdsl_error_release(NULL);
  tdsl_inputs_destroy(NULL);
}

static void pages_are_listed(void **state) {
  (void)state;
  assert_true(holds(tdsl_diagnostic_title(text("E06")), "dims"));
  assert_true(tdsl_diagnostic_explain(text("E06")).length > 40);
  assert_int_equal(tdsl_diagnostic_explain(text("E99")).length, 0);
  uint32_t n = 0;
  while (tdsl_diagnostic_list(n).length > 0) {
    assert_true(tdsl_diagnostic_title(tdsl_diagnostic_list(n)).length > 0);
    n++;
  }
  assert_true(n > 80);
  assert_true(same(tdsl_dtype_get_name(TDSL_DTYPE_BF16), "bf16"));
  assert_int_equal(tdsl_dtype_get_bytes(TDSL_DTYPE_BF16), 2);
  assert_true(same(tdsl_status_get_name(TDSL_STATUS_IO),
                   "input or output failed"));
}

/* ---- running ------------------------------------------------------------ */

static void entries_are_described(void **state) {
  (void)state;
  job_t job;
  open_job(&job, scale, "interp");
  const tdsl_entry_t *e = job.entry;
  assert_int_equal(tdsl_program_get_entry_count(job.program), 1);
  assert_true(same(e->name, "f"));
  assert_ptr_equal(tdsl_program_find_entry(job.program, text("f")), e);
  assert_null(tdsl_program_find_entry(job.program, text("g")));
  assert_null(tdsl_program_get_entry(job.program, 1));
  /* a name that is not there goes straight into the next call */
  tdsl_executable_t *none = NULL;
  tdsl_error_t *error = NULL;
  assert_int_equal(tdsl_executable_create(job.program, NULL, &none, &error),
                   TDSL_STATUS_INVALID_ARGUMENT);
  assert_null(none);
  assert_true(tdsl_error_get_message(error).length > 0);
  tdsl_error_release(error);
  assert_int_equal(e->slot_count, 4);
  assert_true(same(e->slots[0].name, "x"));
  assert_int_equal(e->slots[0].kind, TDSL_SLOT_IN);
  assert_int_equal(e->slots[0].dtype, TDSL_DTYPE_F32);
  assert_int_equal(e->slots[0].rank, 1);
  assert_true(same(e->slots[0].dim_text[0], "N"));
  assert_int_equal(e->slots[0].dim_value[0], -1);
  assert_int_equal(e->slots[0].dim_bound[0], 64);
  assert_int_equal(e->slots[1].rank, 0);
  assert_true(e->slots[1].has_default);
  assert_int_equal(e->slots[2].lo, 0);
  assert_int_equal(e->slots[2].hi, 4);
  assert_int_equal(e->slots[3].kind, TDSL_SLOT_OUT);
  close_job(&job);
}

static void run_on(const char *device) {
  job_t job;
  _Alignas(16) float x[4] = {1, 2, 3, 4}, y[4] = {0};
  open_job(&job, scale, device);
  tdsl_buffer_t *in = vector(job.context, x, 3);
  must(tdsl_run_set_buffer(job.run, 0, in, &job.error), job.error);
  assert_null(tdsl_run_get_buffer(job.run, 3));
  assert_null(tdsl_buffer_get_data(tdsl_run_get_buffer(job.run, 3)));
  /* defaults, and a result of ours */
  must(tdsl_run_execute(job.run, &job.error), job.error);
  tdsl_buffer_t *out = tdsl_run_get_buffer(job.run, 3);
  assert_int_equal(tdsl_buffer_get_count(out), 3);
  assert_true(tdsl_buffer_read_float(out, 2) == 7.0);
  assert_true(tdsl_buffer_read_int(out, 2) == 7);
  assert_true(tdsl_buffer_read_float(out, 3) == 0.0);
  /* a result that the host keeps is not written again */
  tdsl_buffer_retain(out);
  must(tdsl_run_set_float(job.run, 1, 10.0, &job.error), job.error);
  must(tdsl_run_set_int(job.run, 2, 3, &job.error), job.error);
  must(tdsl_run_execute(job.run, &job.error), job.error);
  assert_true(tdsl_buffer_read_float(out, 2) == 7.0);
  tdsl_buffer_t *again = tdsl_run_get_buffer(job.run, 3);
  assert_true(tdsl_buffer_read_float(again, 2) == 33.0);
  tdsl_buffer_release(out);
  /* memory of the host, other dims */
  tdsl_buffer_t *longer = vector(job.context, x, 4);
  tdsl_buffer_t *mine = vector(job.context, y, 4);
  must(tdsl_run_set_buffer(job.run, 0, longer, &job.error), job.error);
  must(tdsl_run_set_buffer(job.run, 3, mine, &job.error), job.error);
  must(tdsl_run_execute(job.run, &job.error), job.error);
  assert_true(y[0] == 13.0f && y[3] == 43.0f);
  tdsl_run_stats_t stats = {.struct_bytes = sizeof stats};
  assert_int_equal(tdsl_run_get_stats(job.run, &stats), TDSL_STATUS_OK);
  assert_true(stats.seconds > 0);
  assert_true(stats.arena_bytes == stats.planned_bytes);
  tdsl_buffer_release(in);
  tdsl_buffer_release(longer);
  tdsl_buffer_release(mine);
  close_job(&job);
}

static void runs_on_every_engine(void **state) {
  (void)state;
  for (int i = 0; i < DEVICES; i++) run_on(devices[i]);
}

static void arguments_are_checked(void **state) {
  (void)state;
  for (int i = 0; i < DEVICES; i++) {
    job_t job;
    _Alignas(16) float x[80] = {0};
    _Alignas(16) int32_t whole[4] = {0};
    tdsl_buffer_t *b = NULL;
    open_job(&job, scale, devices[i]);
    tdsl_status_t status = tdsl_run_execute(job.run, &job.error);
    must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R07");
    status = tdsl_run_set_buffer(job.run, 9, NULL, &job.error);
    must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R07");
    b = vector(job.context, x, 65);
    must(tdsl_run_set_buffer(job.run, 0, b, &job.error), job.error);
    status = tdsl_run_execute(job.run, &job.error);
    must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R02");
    tdsl_buffer_release(b);
    tdsl_tensor_desc_t ints = {TDSL_DTYPE_I32, 1, {4}};
    must(tdsl_buffer_wrap(job.context, &ints, whole, sizeof whole, &b,
                          &job.error),
         job.error);
    must(tdsl_run_set_buffer(job.run, 0, b, &job.error), job.error);
    status = tdsl_run_execute(job.run, &job.error);
    must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R08");
    tdsl_buffer_release(b);
    b = vector(job.context, x, 4);
    must(tdsl_run_set_buffer(job.run, 0, b, &job.error), job.error);
    must(tdsl_run_set_buffer(job.run, 3, b, &job.error), job.error);
    status = tdsl_run_execute(job.run, &job.error);
    must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R09");
    must(tdsl_run_set_buffer(job.run, 3, NULL, &job.error), job.error);
    must(tdsl_run_set_int(job.run, 2, 4, &job.error), job.error);
    status = tdsl_run_execute(job.run, &job.error);
    must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R04");
    /* the run state is usable after each of them */
    must(tdsl_run_set_int(job.run, 2, 0, &job.error), job.error);
    must(tdsl_run_execute(job.run, &job.error), job.error);
    tdsl_buffer_release(b);
    close_job(&job);
  }
}

static void memory_is_checked(void **state) {
  (void)state;
  tdsl_context_t *context;
  tdsl_error_t *error;
  tdsl_buffer_t *b = NULL;
  _Alignas(16) float x[8];
  must(tdsl_context_create(NULL, &context, &error), error);
  tdsl_tensor_desc_t desc = {TDSL_DTYPE_F32, 2, {2, 3}};
  tdsl_status_t status =
      tdsl_buffer_wrap(context, &desc, x, sizeof x, &b, &error);
  must_fail(status, error, TDSL_STATUS_INVALID_ARGUMENT, "R08");
  assert_null(b);
  status = tdsl_buffer_wrap(context, &desc, x + 1, 24, &b, &error);
  must_fail(status, error, TDSL_STATUS_INVALID_ARGUMENT, "R08");
  desc.dims[0] = INT64_MAX;
  status = tdsl_buffer_create(context, &desc, &b, &error);
  must_fail(status, error, TDSL_STATUS_INVALID_ARGUMENT, NULL);
  desc.dims[0] = -1;
  status = tdsl_buffer_create(context, &desc, &b, &error);
  must_fail(status, error, TDSL_STATUS_INVALID_ARGUMENT, NULL);
  desc.dims[0] = 2;
  must(tdsl_buffer_create(context, &desc, &b, &error), error);
  assert_int_equal(tdsl_buffer_get_bytes(b), 24);
  for (int i = 0; i < 6; i++) {
    assert_true(((float *)tdsl_buffer_get_data(b))[i] == 0.0f);
  }
  tdsl_buffer_release(b);
  tdsl_context_destroy(context);
}

/* State belongs to the host and lives on from call to call. */
static void state_is_kept(void **state) {
  static const char program[] =
      "export fn step(s: inout f32[3], x: f32[3]) -> r: f32 {\n"
      "  s[i] += x[i]\n"
      "  r = sum[i] s[i]\n"
      "}\n";
  (void)state;
  for (int i = 0; i < DEVICES; i++) {
    job_t job;
    _Alignas(16) float s[3] = {0}, x[3] = {1, 2, 3};
    open_job(&job, program, devices[i]);
    tdsl_buffer_t *a = vector(job.context, s, 3);
    tdsl_buffer_t *b = vector(job.context, x, 3);
    must(tdsl_run_set_buffer(job.run, 0, a, &job.error), job.error);
    must(tdsl_run_set_buffer(job.run, 1, b, &job.error), job.error);
    for (int n = 1; n <= 3; n++) {
      must(tdsl_run_execute(job.run, &job.error), job.error);
      assert_true(s[2] == 3.0f * (float)n);
      assert_true(tdsl_buffer_read_float(tdsl_run_get_buffer(job.run, 2),
                                         0) == 6.0 * n);
      assert_true(tdsl_buffer_read_float(tdsl_run_get_buffer(job.run, 0),
                                         2) == 3.0 * n);
    }
    tdsl_buffer_release(a);
    tdsl_buffer_release(b);
    close_job(&job);
  }
}

/* Objects keep what they need: the order of release does not matter. */
static void objects_hold_each_other(void **state) {
  (void)state;
  for (int i = 0; i < DEVICES; i++) {
    job_t job;
    _Alignas(16) float x[2] = {1, 2};
    open_job(&job, scale, devices[i]);
    tdsl_buffer_t *in = vector(job.context, x, 2);
    tdsl_context_destroy(job.context);
    tdsl_program_release(job.program);
    tdsl_executable_release(job.exe);
    must(tdsl_run_set_buffer(job.run, 0, in, &job.error), job.error);
    tdsl_buffer_release(in);
    must(tdsl_run_execute(job.run, &job.error), job.error);
    tdsl_buffer_t *out = tdsl_run_get_buffer(job.run, 3);
    tdsl_buffer_retain(out);
    tdsl_run_destroy(job.run);
    assert_true(tdsl_buffer_read_float(out, 1) == 5.0);
    tdsl_buffer_release(out);
  }
}

/* ---- compiling ---------------------------------------------------------- */

static int import(tdsl_string_t name, tdsl_string_t from,
                  tdsl_string_t *out_file, tdsl_string_t *out_text,
                  void *user) {
  int *count = user;
  if (!same(name, "twice") || !same(from, "test.tdsl")) return 0;
  (*count)++;
  *out_file = text("memory/twice.tdsl");
  *out_text = text("fn twice(x: f32) -> f32 = 2 * x\n");
  return 1;
}

static void modules_come_from_the_host(void **state) {
  (void)state;
  tdsl_context_t *context;
  tdsl_error_t *error;
  tdsl_program_t *program;
  int count = 0;
  must(tdsl_context_create(NULL, &context, &error), error);
  tdsl_compile_desc_t desc =
      source("import twice (twice)\nimport softmax (softmax)\n"
             "export fn f(x: f32[3]) -> y: f32[3] {\n"
             "  p = softmax(x)\n"
             "  y[i] = twice(p[i])\n"
             "}\n",
             "interp");
  desc.import = import;
  desc.import_user = &count;
  must(tdsl_program_compile(context, &desc, &program, &error), error);
  assert_int_equal(count, 1);
  tdsl_program_release(program);
  must(tdsl_program_check(context, &desc, &error), error);
  tdsl_context_destroy(context);
}

/* Any function is an entry; a generic one by what its arguments are. */
static void generics_are_bound(void **state) {
  static const char generic[] =
      "fn total[E: dtype, N](x: E[N]) -> r: f32 {\n"
      "  r = sum[i] f32(x[i])\n"
      "}\n";
  (void)state;
  tdsl_context_t *context;
  tdsl_error_t *error;
  tdsl_program_t *program;
  must(tdsl_context_create(NULL, &context, &error), error);
  tdsl_dtype_t dtype = TDSL_DTYPE_BF16;
  int32_t rank = 1;
  tdsl_compile_desc_t desc = source(generic, "interp");
  desc.entry = text("total");
  desc.argument_count = 1;
  desc.argument_dtypes = &dtype;
  desc.argument_ranks = &rank;
  must(tdsl_program_compile(context, &desc, &program, &error), error);
  const tdsl_entry_t *e = tdsl_program_get_entry(program, 0);
  assert_int_equal(e->slots[0].dtype, TDSL_DTYPE_BF16);
  tdsl_program_release(program);
  tdsl_context_destroy(context);
}

typedef struct sink {
  char data[1 << 16];
  size_t length;
} sink_t;

static void keep(tdsl_string_t s, void *user) {
  sink_t *sink = user;
  if (sink->length + s.length < sizeof sink->data) {
    memcpy(sink->data + sink->length, s.data, s.length);
  }
  sink->length += s.length;
}

/* Every stage of the list prints something; those of passes with a name. */
static void stages_print(void **state) {
  (void)state;
  tdsl_context_t *context;
  tdsl_error_t *error;
  static sink_t a, b;
  must(tdsl_context_create(NULL, &context, &error), error);
  tdsl_compile_desc_t desc = source(scale, "cpu:x86-64-v3");
  tdsl_string_t list = tdsl_stage_get_list();
  int count = 0;
  for (const char *at = list.data; at < list.data + list.length;) {
    const char *end = strchr(at, '\n');
    char stage[64];
    (void)snprintf(stage, sizeof stage, "%.*s", (int)(end - at), at);
    char *pass = strstr(stage, "PASS");
    if (pass != NULL) {
      (void)strcpy(pass, stage[0] == 't' ? "fold-constants"
                                         : "mark-safe-loads");
    }
    char *line = strstr(stage, "LINE");
    if (line != NULL) (void)strcpy(line, "2");
    a.length = b.length = 0;
    tdsl_status_t first = tdsl_program_dump(
        context, &desc, text(stage), text(""), keep, &a, &error);
    int is_vendor = strstr("ptx cubin sass", stage) != NULL;
    if (is_vendor && first == TDSL_STATUS_UNAVAILABLE) {
      /* without NVRTC or a disassembler; B05 says what was looked for */
      must_fail(first, error, TDSL_STATUS_UNAVAILABLE, "B05");
      at = end + 1;
      continue;
    }
    must(first, error);
    must(tdsl_program_dump(context, &desc, text(stage), text(""), keep, &b,
                           &error),
         error);
    assert_true(a.length > 20 || line != NULL); /* remarks are few */
    assert_int_equal(a.length, b.length);
    assert_memory_equal(a.data, b.data, a.length);
    count++;
    at = end + 1;
  }
  assert_true(count >= 12);
  tdsl_status_t status = tdsl_program_dump(context, &desc, text("kri"),
                                           text(""), keep, &a, &error);
  must_fail(status, error, TDSL_STATUS_UNAVAILABLE, "B11");
  status = tdsl_program_dump(context, &desc, text("kir"), text("nope"), keep,
                             &a, &error);
  must_fail(status, error, TDSL_STATUS_UNAVAILABLE, "B11");
  a.length = 0;
  must(tdsl_source_format(context, text("x"), text("fn  f( )   {\n}\n"), keep,
                          &a, &error),
       error);
  assert_true(a.length > 0 && a.length < 14);
  a.length = 0;
  must(tdsl_system_describe(context, 1, 1, keep, &a, &error), error);
  assert_true(a.data[0] == '{' && a.data[a.length - 2] == '}');
  tdsl_context_destroy(context);
}

static void inputs_as_text(void **state) {
  (void)state;
  for (int i = 0; i < DEVICES; i++) {
    job_t job;
    tdsl_inputs_t *in;
    static sink_t out;
    open_job(&job, scale, devices[i]);
    must(tdsl_inputs_create(job.context, &in, &job.error), job.error);
    must(tdsl_inputs_add(in,
                         text("x={\"dtype\": \"f32\", \"shape\": [2], "
                              "\"data\": [1, 2.5]}"),
                         &job.error),
         job.error);
    must(tdsl_inputs_add(in, text("i=2"), &job.error), job.error);
    tdsl_status_t status = tdsl_inputs_add(in, text("x"), &job.error);
    must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R07");
    must(tdsl_run_set_inputs(job.run, in, &job.error), job.error);
    must(tdsl_run_execute(job.run, &job.error), job.error);
    out.length = 0;
    must(tdsl_run_write_results(job.run, keep, &out, &job.error), job.error);
    tdsl_string_t json = {out.data, out.length};
    assert_true(holds(json, "\"y\": {\"dtype\": \"f32\", \"shape\": [2], "
                            "\"data\": [4.0, 7.0]}") ||
                holds(json, "\"data\": [4, 7]"));
    must(tdsl_inputs_add(in, text("q=1"), &job.error), job.error);
    status = tdsl_run_set_inputs(job.run, in, &job.error);
    must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R07");
    tdsl_inputs_destroy(in);
    close_job(&job);
  }
}

/* ---- threads ------------------------------------------------------------ */

typedef struct thread_job {
  pthread_t thread;
  tdsl_context_t *context; /* NULL: one of its own */
  const char *device;
  float factor;
  int good;
} thread_job_t;

static void *work(void *arg) {
  thread_job_t *t = arg;
  tdsl_context_t *context = t->context;
  _Alignas(16) float x[5] = {1, 2, 3, 4, 5};
  tdsl_tensor_desc_t shape = {TDSL_DTYPE_F32, 1, {5}};
  if (context == NULL &&
      tdsl_context_create(NULL, &context, NULL) != TDSL_STATUS_OK) {
    return NULL;
  }
  for (int n = 0; n < 5; n++) {
    tdsl_program_t *p = NULL;
    tdsl_executable_t *exe = NULL;
    tdsl_run_t *run = NULL;
    tdsl_buffer_t *in = NULL;
    tdsl_compile_desc_t desc = source(scale, t->device);
    int ok = tdsl_program_compile(context, &desc, &p, NULL) == 0 &&
             tdsl_executable_create(p, tdsl_program_get_entry(p, 0), &exe,
                                    NULL) == 0 &&
             tdsl_run_create(exe, &run, NULL) == 0 &&
             tdsl_buffer_wrap(context, &shape, x, sizeof x, &in, NULL) == 0;
    for (int k = 0; k < 20 && ok; k++) {
      ok = tdsl_run_set_buffer(run, 0, in, NULL) == 0 &&
           tdsl_run_set_float(run, 1, (double)t->factor, NULL) == 0 &&
           tdsl_run_execute(run, NULL) == 0 &&
           tdsl_buffer_read_float(tdsl_run_get_buffer(run, 3), 4) ==
               (double)(5 * t->factor + 1);
    }
    t->good += ok;
    tdsl_buffer_release(in);
    tdsl_run_destroy(run);
    tdsl_executable_release(exe);
    tdsl_program_release(p);
  }
  if (t->context == NULL) tdsl_context_destroy(context);
  return NULL;
}

static void run_threads(tdsl_context_t *shared) {
  enum { THREADS = 4 };
  thread_job_t jobs[THREADS];
  for (int i = 0; i < THREADS; i++) {
    jobs[i] = (thread_job_t){.context = shared,
                             .device = devices[i % DEVICES],
                             .factor = (float)(i + 2)};
    assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]),
                     0);
  }
  for (int i = 0; i < THREADS; i++) {
    (void)pthread_join(jobs[i].thread, NULL);
    assert_int_equal(jobs[i].good, 5);
  }
}

static void contexts_share_nothing(void **state) {
  (void)state;
  run_threads(NULL);
}

static void one_context_serves_many_threads(void **state) {
  (void)state;
  tdsl_context_t *context;
  tdsl_error_t *error;
  must(tdsl_context_create(NULL, &context, &error), error);
  run_threads(context);
  tdsl_context_destroy(context);
}

static int stop(void *user) {
  int *left = user;
  return --*left < 0;
}

static void hosts_can_cancel(void **state) {
  (void)state;
  for (int n = 0; n < 6; n++) {
    tdsl_context_desc_t desc = TDSL_CONTEXT_DESC_INIT;
    tdsl_context_t *context;
    tdsl_error_t *error;
    tdsl_program_t *program;
    int left = n;
    desc.cancel.function = stop;
    desc.cancel.user = &left;
    must(tdsl_context_create(&desc, &context, &error), error);
    tdsl_compile_desc_t program_desc = source(scale, "interp:kir");
    tdsl_status_t status =
        tdsl_program_compile(context, &program_desc, &program, &error);
    must_fail(status, error, TDSL_STATUS_CANCELLED, NULL);
    tdsl_context_destroy(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_programs_are_values),
      cmocka_unit_test(each_kind_has_its_status),
      cmocka_unit_test(pages_are_listed),
      cmocka_unit_test(entries_are_described),
      cmocka_unit_test(runs_on_every_engine),
      cmocka_unit_test(arguments_are_checked),
      cmocka_unit_test(memory_is_checked),
      cmocka_unit_test(state_is_kept),
      cmocka_unit_test(objects_hold_each_other),
      cmocka_unit_test(modules_come_from_the_host),
      cmocka_unit_test(generics_are_bound),
      cmocka_unit_test(stages_print),
      cmocka_unit_test(inputs_as_text),
      cmocka_unit_test(contexts_share_nothing),
      cmocka_unit_test(one_context_serves_many_threads),
      cmocka_unit_test(hosts_can_cancel),
  };
  return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
