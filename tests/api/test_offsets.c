/* Memory of the caller on every engine: bases at any multiple of 16 bytes,
   sizes around every width of a vector, nothing written beyond an end; what is
   not aligned or not dense is refused. */
#include "api.h"

static const char *const hosts[] = {"interp", "interp:f64", "interp:kir",
                                    "cpu", "null"};
/* A process has one machine at a time, and under AddressSanitizer a library
   stays loaded, so there the first is the only one. */
static const char *const gpus[] = {
    "sim:a100",
#if !defined(__SANITIZE_ADDRESS__)
    "sim:h100",
#endif
};
enum { HOSTS = sizeof hosts / sizeof hosts[0],
       GPUS = sizeof gpus / sizeof gpus[0] };

static const char program[] =
    "dyn N <= 1000\n"
    "export fn f(x: f32[N], h: u8[N, 3], s: inout f32[N])\n"
    "    -> (y: f32[N], z: i8[3, N], t: f64) {\n"
    "  y[i] = 2 * x[i] + s[i]\n"
    "  z[c, i] = i8(i32(h[i, c]) - 7)\n"
    "  t = sum[i] f64(x[i]) * f64(i + 1)\n"
    "  s[i] += x[i]\n"
    "}\n";

enum { MOST = 65, GUARD = 64, MARK = 0xA5 };
static const int sizes[] = {0, 1, 2, 3, 5, 15, 16, 17, 31, 33, 64, 65};

/* A caller's buffer between two guards. */
typedef struct place {
  _Alignas(256) unsigned char room[GUARD + 256 + MOST * 8 + GUARD];
  unsigned char *data;
  size_t bytes;
} place_t;

/* `step` sixteenths after a multiple of 256. */
static void settle(place_t *p, int step, size_t bytes) {
  memset(p->room, MARK, sizeof p->room);
  p->data = p->room + GUARD + step * 16;
  p->bytes = bytes;
}

static void check_guards(const place_t *p, const char *device,
                         const char *name, int n) {
  for (const unsigned char *at = p->room; at < p->room + sizeof p->room;
       at++) {
    if (at >= p->data && at < p->data + p->bytes) continue;
    if (*at != MARK) {
      fail_msg("%s: N = %d: %s is written at %td, its end is %zu", device, n,
               name, at - p->data, p->bytes);
    }
  }
}

enum { X, H, S, Y, Z, T, SLOTS };
static const char *const names[SLOTS] = {"x", "h", "s", "y", "z", "t"};

static void bind(job_t *job, place_t places[SLOTS], int n, int step) {
  const tdsl_tensor_desc_t descs[SLOTS] = {
      {TDSL_DTYPE_F32, 1, {n}},    {TDSL_DTYPE_U8, 2, {n, 3}},
      {TDSL_DTYPE_F32, 1, {n}},    {TDSL_DTYPE_F32, 1, {n}},
      {TDSL_DTYPE_I8, 2, {3, n}},  {TDSL_DTYPE_F64, 0, {0}}};
  static const size_t each[SLOTS] = {4, 3, 4, 4, 3, 8};
  for (int s = 0; s < SLOTS; s++) {
    tdsl_buffer_t *b = NULL;
    settle(&places[s], (step + 5 * s) % 16,
           each[s] * (size_t)(s == T ? 1 : n));
    must(tdsl_buffer_wrap(job->context, &descs[s], places[s].data,
                          places[s].bytes, &b, &job->error),
         job->error);
    must(tdsl_run_set_buffer(job->run, (uint32_t)s, b, &job->error),
         job->error);
    tdsl_buffer_release(b);
  }
}

/* Whole numbers, so that every engine is exact. */
static float x_of(int i) {
  return (float)(i * 7 % 23 - 11);
}

static float s_of(int i) {
  return (float)(i * 5 % 17 - 8);
}

static unsigned char h_of(int i, int c) {
  return (unsigned char)((i * 3 + c * 11) % 97);
}

static void run_at(job_t *job, const char *device, int n, int step) {
  static place_t places[SLOTS];
  bind(job, places, n, step);
  double total = 0;
  for (int i = 0; i < n; i++) {
    ((float *)(void *)places[X].data)[i] = x_of(i);
    ((float *)(void *)places[S].data)[i] = s_of(i);
    for (int c = 0; c < 3; c++) places[H].data[i * 3 + c] = h_of(i, c);
    total += (double)x_of(i) * (i + 1);
  }
  must(tdsl_run_execute(job->run, &job->error), job->error);
  for (int s = 0; s < SLOTS; s++) check_guards(&places[s], device, names[s], n);
  if (strcmp(device, "null") == 0) return; /* computes nothing */
  assert_true(*(double *)(void *)places[T].data == total);
  for (int i = 0; i < n; i++) {
    const float *y = (float *)(void *)places[Y].data;
    const float *s = (float *)(void *)places[S].data;
    if (y[i] != 2 * x_of(i) + s_of(i) || s[i] != s_of(i) + x_of(i)) {
      fail_msg("%s: N = %d, offset %d: y[%d] is %g, s[%d] is %g", device, n,
               16 * step, i, (double)y[i], i, (double)s[i]);
    }
    for (int c = 0; c < 3; c++) {
      assert_int_equal((signed char)places[Z].data[c * n + i],
                       h_of(i, c) - 7);
    }
  }
}

/* False where NVRTC is missing. */
static int can_run(const char *device) {
  tdsl_context_t *context;
  tdsl_program_t *p = NULL;
  tdsl_executable_t *exe = NULL;
  tdsl_error_t *error;
  must(tdsl_context_create(NULL, &context, &error), error);
  tdsl_compile_desc_t desc = source(program, device);
  must(tdsl_program_compile(context, &desc, &p, &error), error);
  tdsl_status_t status = tdsl_executable_create(
      p, tdsl_program_get_entry(p, 0), &exe, &error);
  int is_absent = status == TDSL_STATUS_UNAVAILABLE &&
                  tdsl_error_get_diagnostic_count(error) > 0 &&
                  same(tdsl_error_get_diagnostic(error, 0)->id, "B05");
  if (status != TDSL_STATUS_OK && !is_absent) must(status, error);
  tdsl_error_release(error);
  tdsl_executable_release(exe);
  tdsl_program_release(p);
  tdsl_context_destroy(context);
  return !is_absent;
}

static void run_all(const char *device) {
  job_t job;
  open_job(&job, program, device);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    for (int step = 0; step < 16; step += sizes[i] < 16 ? 5 : 3) {
      run_at(&job, device, sizes[i], step);
    }
  }
  for (int step = 0; step < 16; step++) run_at(&job, device, 37, step);
  close_job(&job);
}

/* What is not aligned to 16 bytes is R08, and the run as good as before. */
static void refuse_others(const char *device) {
  job_t job;
  static place_t place;
  tdsl_buffer_t *b = NULL;
  open_job(&job, program, device);
  tdsl_tensor_desc_t desc = {TDSL_DTYPE_F32, 1, {8}};
  settle(&place, 0, 64);
  for (int away = 1; away < 16; away++) {
    tdsl_status_t status = tdsl_buffer_wrap(
        job.context, &desc, place.data + away, 32, &b, &job.error);
    must_fail(status, job.error, TDSL_STATUS_INVALID_ARGUMENT, "R08");
    assert_null(b);
  }
  run_at(&job, device, 3, 1);
  close_job(&job);
}

static void any_multiple_of_sixteen(void **state) {
  (void)state;
  for (int d = 0; d < HOSTS; d++) run_all(hosts[d]);
}

static void the_rest_is_refused(void **state) {
  (void)state;
  for (int d = 0; d < HOSTS; d++) refuse_others(hosts[d]);
}

static void on_gpus(void **state) {
  (void)state;
  if (!can_run(gpus[0])) skip();
  for (int d = 0; d < GPUS; d++) {
    run_all(gpus[d]);
    refuse_others(gpus[d]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_multiple_of_sixteen),
      cmocka_unit_test(the_rest_is_refused),
      cmocka_unit_test(on_gpus),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
