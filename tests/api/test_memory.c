/* Memory at the public interface: every request that can fail does, nothing
   leaks, and tensors of other libraries are taken over and given back. */
#include "api.h"
#include "dlpack_layout.h"

/* ---- an allocator that counts ------------------------------------------- */

typedef struct memory {
  long calls, fail_at; /* number of the request that fails; 0: none */
  long held;           /* blocks */
  size_t bytes;
  int has_wrong_size;  /* a block came back with another size */
} memory_t;

/* The size stands in front of each block, to be compared on the way back. */
typedef struct head {
  size_t bytes;
  size_t unused;
} head_t;

static void *allocate(void *old, size_t old_bytes, size_t new_bytes,
                      void *user) {
  memory_t *m = user;
  head_t *head = old != NULL ? (head_t *)old - 1 : NULL;
  if (head != NULL && head->bytes != old_bytes) m->has_wrong_size = 1;
  if (new_bytes == 0) {
    if (head != NULL) {
      m->held--;
      m->bytes -= head->bytes;
      free(head);
    }
    return NULL;
  }
  if (++m->calls == m->fail_at) return NULL;
  size_t before = head != NULL ? head->bytes : 0;
  head_t *made = realloc(head, sizeof *head + new_bytes);
  if (made == NULL) return NULL;
  if (head == NULL) m->held++;
  m->bytes += new_bytes - before;
  made->bytes = new_bytes;
  return made + 1;
}

/* ---- a whole life, which may fail anywhere ------------------------------ */

static const char program_text[] =
    "import softmax (softmax)\n"
    "dyn N <= 32\n"
    "struct M {\n  w: f32[3] from \"w\"\n  b: f32[3] from \"b\"\n}\n"
    "export fn f(m: M, x: f32[N, 3], s: inout f32[3], k: f32 = 2) -> "
    "(y: f32[N, 3], t: f32) {\n"
    "  s[j] += sum[n] x[n, j]\n"
    "  y[n, :] = softmax(x[n, :])\n"
    "  var a = 0.0\n"
    "  for i in 0 .. 2 { a := a + k * m.w[i] * m.b[i] }\n"
    "  t = a\n"
    "}\n";

static void nowhere(tdsl_string_t s, void *user) {
  size_t *n = user;
  *n += s.length;
}

/* OK, or the status of the step that failed. */
static tdsl_status_t live(memory_t *memory, const char *device,
                          const char *weights, const char *file) {
  tdsl_context_desc_t cd = TDSL_CONTEXT_DESC_INIT;
  tdsl_context_t *context = NULL;
  tdsl_program_t *p = NULL;
  tdsl_executable_t *exe = NULL;
  tdsl_run_t *run = NULL;
  tdsl_inputs_t *in = NULL;
  tdsl_buffer_t *b = NULL;
  tdsl_error_t *error = NULL;
  void *managed = NULL;
  size_t printed = 0;
  cd.allocator.function = allocate;
  cd.allocator.user = memory;
  cd.thread_count = 1;
  tdsl_compile_desc_t desc = source(program_text, device);
  tdsl_status_t s = tdsl_context_create(&cd, &context, &error);
#define STEP(call)                                                            \
  do {                                                                        \
    if (s == TDSL_STATUS_OK) s = (call);                                      \
  } while (0)
  STEP(tdsl_inputs_create(context, &in, &error));
  STEP(tdsl_inputs_add(in, text("*=random:3"), &error));
  STEP(tdsl_inputs_add(in,
                       text("x={\"dtype\": \"f32\", \"shape\": [2, 3], "
                            "\"data\": [1, 2, 3, 4, 5, 6]}"),
                       &error));
  desc.inputs = in;
  STEP(tdsl_program_compile(context, &desc, &p, &error));
  STEP(tdsl_executable_create(p, tdsl_program_get_entry(p, 0), &exe, &error));
  STEP(tdsl_executable_bind_weights(exe, text(weights), 1, 0, &error));
  STEP(tdsl_run_create(exe, &run, &error));
  STEP(tdsl_run_set_inputs(run, in, &error));
  STEP(tdsl_run_execute(run, &error));
  STEP(tdsl_run_execute(run, &error));
  STEP(tdsl_run_write_results(run, nowhere, &printed, &error));
  STEP(tdsl_buffer_save_npy(tdsl_run_get_buffer(run, 5), text(file), &error));
  STEP(tdsl_buffer_load_npy(context, text(file), TDSL_DTYPE_F64, &b,
                            &error));
  STEP(tdsl_buffer_export_dlpack(b, &managed, &error));
  tdsl_buffer_release(b);
  b = NULL;
  STEP(tdsl_buffer_import_dlpack(context, managed, 1, &b, &error));
  if (s == TDSL_STATUS_OK) assert_int_equal(tdsl_buffer_get_count(b), 6);
  /* an import that failed has called the deleter already */
#undef STEP
  if (s == TDSL_STATUS_OK) {
    assert_null(error);
    assert_true(printed > 0);
  } else {
    assert_non_null(error);
    assert_int_equal(tdsl_error_get_status(error), s);
    assert_true(tdsl_error_get_message(error).length > 0);
  }
  tdsl_error_release(error);
  tdsl_buffer_release(b);
  tdsl_run_destroy(run);
  tdsl_executable_release(exe);
  tdsl_program_release(p);
  tdsl_inputs_destroy(in);
  tdsl_context_destroy(context);
  return s;
}

/* A checkpoint of two tensors, written by hand. */
static void write_weights(const char *path) {
  static const char header[] =
      "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,24]}}";
  const float data[6] = {1, 2, 3, 4, 5, 6};
  unsigned char length[8] = {(unsigned char)(sizeof header - 1)};
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  (void)fwrite(length, 1, 8, f);
  (void)fwrite(header, 1, sizeof header - 1, f);
  (void)fwrite(data, 1, sizeof data, f);
  assert_int_equal(fclose(f), 0);
}

/* `stride` 1: every request fails once. */
static void sweep(const char *device, long stride) {
  char weights[128], file[128];
  memory_t memory = {0};
  (void)snprintf(weights, sizeof weights, "memory-%s.safetensors", device);
  (void)snprintf(file, sizeof file, "memory-%s.npy", device);
  write_weights(weights);
  assert_int_equal(live(&memory, device, weights, file), TDSL_STATUS_OK);
  assert_int_equal(memory.held, 0);
  assert_int_equal(memory.bytes, 0);
  assert_false(memory.has_wrong_size);
  long total = memory.calls;
  assert_true(total > 50);
  for (long n = 1; n <= total; n += stride) {
    memory_t m = {.fail_at = n};
    tdsl_status_t s = live(&m, device, weights, file);
    /* the failing request may be one that something does without */
    if (s != TDSL_STATUS_OK && s != TDSL_STATUS_OUT_OF_MEMORY) {
      print_error("%s: request %ld of %ld: status %d\n", device, n, total,
                  (int)s);
    }
    assert_true(s == TDSL_STATUS_OK || s == TDSL_STATUS_OUT_OF_MEMORY);
    if (m.held != 0 || m.has_wrong_size) {
      print_error("%s: request %ld leaves %ld blocks\n", device, n, m.held);
    }
    assert_int_equal(m.held, 0);
    assert_false(m.has_wrong_size);
  }
  (void)remove(weights);
  (void)remove(file);
}

static void every_request_may_fail_interp(void **state) {
  (void)state;
  sweep("interp", 1);
}

static void every_request_may_fail_kir(void **state) {
  (void)state;
  sweep("interp:kir", 1);
}

/* Code generation takes its time; a prime keeps the samples spread. */
static void requests_may_fail_cpu(void **state) {
  (void)state;
  sweep("cpu", 7);
}

/* A GPU's run time over stand-ins for the vendor's libraries: memory that
 * stays on the device, graphs, the stage. */
static void every_request_may_fail_cuda(void **state) {
  (void)state;
  assert_int_equal(setenv("TDSL_LIBCUDA",
                          TDSL_BUILD_DIR "/tests/stand_driver.so", 1), 0);
  assert_int_equal(setenv("TDSL_LIBNVRTC",
                          TDSL_BUILD_DIR "/tests/stand_nvrtc.so", 1), 0);
  sweep("cuda", 3);
  assert_int_equal(unsetenv("TDSL_LIBCUDA"), 0);
  assert_int_equal(unsetenv("TDSL_LIBNVRTC"), 0);
}

/* ---- DLPack ------------------------------------------------------------- */

static void count_down(managed_t *m) {
  --*(int *)m->manager;
}

static void count_down_versioned(versioned_t *v) {
  --*(int *)v->manager;
}

typedef struct fixture {
  tdsl_context_t *context;
  int alive;
  _Alignas(64) float data[12];
  int64_t shape[13], strides[2];
  managed_t m;
} fixture_t;

static void set_up(fixture_t *f) {
  memset(f, 0, sizeof *f);
  tdsl_error_t *error;
  must(tdsl_context_create(NULL, &f->context, &error), error);
  f->alive = 1;
  f->shape[0] = 2;
  f->shape[1] = 3;
  f->strides[0] = 3;
  f->strides[1] = 1;
  for (int i = 0; i < 12; i++) f->data[i] = (float)i;
  f->m = (managed_t){.tensor = {.data = f->data,
                                .device_type = 1,
                                .rank = 2,
                                .code = 2,
                                .bits = 32,
                                .lanes = 1,
                                .shape = f->shape},
                     .manager = &f->alive,
                     .deleter = count_down};
}

static tdsl_status_t take(fixture_t *f, tdsl_buffer_t **b,
                          tdsl_error_t **error) {
  return tdsl_buffer_import_dlpack(f->context, &f->m, 0, b, error);
}

static void dlpack_in(void **state) {
  (void)state;
  fixture_t f;
  tdsl_buffer_t *b;
  tdsl_error_t *error;
  set_up(&f); /* no strides: compact */
  must(take(&f, &b, &error), error);
  assert_ptr_equal(tdsl_buffer_get_data(b), f.data);
  assert_int_equal(tdsl_buffer_get_desc(b)->dims[1], 3);
  assert_int_equal(f.alive, 1);
  tdsl_buffer_retain(b);
  tdsl_buffer_release(b);
  assert_int_equal(f.alive, 1);
  tdsl_buffer_release(b);
  assert_int_equal(f.alive, 0);
  tdsl_context_destroy(f.context);
  set_up(&f); /* an offset, strides, no deleter */
  f.m.tensor.strides = f.strides;
  f.m.tensor.byte_offset = 16;
  f.m.deleter = NULL;
  must(take(&f, &b, &error), error);
  assert_true(tdsl_buffer_read_float(b, 0) == 4.0);
  tdsl_buffer_release(b);
  tdsl_context_destroy(f.context);
}

/* What cannot be taken is given back at once, exactly once. */
static void dlpack_refusals(void **state) {
  (void)state;
  for (int n = 0; n < 8; n++) {
    fixture_t f;
    tdsl_buffer_t *b;
    tdsl_error_t *error;
    set_up(&f);
    f.m.tensor.strides = f.strides;
    if (n == 0) f.strides[0] = 4;          /* padded rows */
    if (n == 1) f.strides[0] = 0;          /* broadcast */
    if (n == 2) f.m.tensor.device_type = 2; /* a GPU's */
    if (n == 3) f.m.tensor.lanes = 4;
    if (n == 4) f.m.tensor.code = 5;       /* complex */
    if (n == 5) f.m.tensor.rank = 13;
    if (n == 6) f.m.tensor.byte_offset = 4;
    if (n == 7) f.shape[0] = -1;
    tdsl_status_t s = take(&f, &b, &error);
    must_fail(s, error,
              TDSL_STATUS_INVALID_ARGUMENT, "R08");
    assert_null(b);
    assert_int_equal(f.alive, 0);
    tdsl_context_destroy(f.context);
  }
}

static void dlpack_versions(void **state) {
  static const char update[] =
      "export fn f(s: inout f32[2, 3]) { s[i, j] += 1 }\n";
  (void)state;
  fixture_t f;
  tdsl_buffer_t *b;
  tdsl_error_t *error;
  set_up(&f);
  versioned_t v = {.major = 1,
                   .manager = &f.alive,
                   .deleter = count_down_versioned,
                   .flags = 1,
                   .tensor = f.m.tensor};
  must(tdsl_buffer_import_dlpack(f.context, &v, 1, &b, &error), error);
  /* read-only memory cannot be state */
  job_t job;
  open_job(&job, update, "interp");
  must(tdsl_run_set_buffer(job.run, 0, b, &error), error);
  tdsl_status_t s = tdsl_run_execute(job.run, &error);
  must_fail(s, error, TDSL_STATUS_INVALID_ARGUMENT, "R08");
  close_job(&job);
  tdsl_buffer_release(b);
  assert_int_equal(f.alive, 0);
  f.alive = 1;
  v.major = 2;
  memset(&v.tensor, 0xFF, sizeof v.tensor); /* not ours to read */
  s = tdsl_buffer_import_dlpack(f.context, &v, 1, &b, &error);
  must_fail(s, error, TDSL_STATUS_INVALID_ARGUMENT, "R08");
  assert_int_equal(f.alive, 0);
  tdsl_context_destroy(f.context);
}

static void dlpack_out(void **state) {
  (void)state;
  tdsl_context_t *context;
  tdsl_error_t *error;
  tdsl_buffer_t *b;
  void *managed;
  must(tdsl_context_create(NULL, &context, &error), error);
  tdsl_tensor_desc_t desc = {TDSL_DTYPE_BF16, 3, {2, 0, 5}};
  must(tdsl_buffer_create(context, &desc, &b, &error), error);
  must(tdsl_buffer_export_dlpack(b, &managed, &error), error);
  versioned_t *v = managed;
  tdsl_buffer_release(b);
  tdsl_context_destroy(context); /* the export keeps all of it */
  assert_int_equal(v->major, 1);
  assert_int_equal(v->tensor.rank, 3);
  assert_int_equal(v->tensor.code, 4);
  assert_int_equal(v->tensor.bits, 16);
  assert_int_equal(v->tensor.lanes, 1);
  assert_int_equal(v->tensor.shape[2], 5);
  assert_int_equal(v->tensor.strides[2], 1);
  assert_int_equal(v->tensor.strides[1], 5);
  assert_int_equal(v->flags & 1, 0);
  v->deleter(v);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_request_may_fail_interp),
      cmocka_unit_test(every_request_may_fail_kir),
      cmocka_unit_test(requests_may_fail_cpu),
      cmocka_unit_test(every_request_may_fail_cuda),
      cmocka_unit_test(dlpack_in),
      cmocka_unit_test(dlpack_refusals),
      cmocka_unit_test(dlpack_versions),
      cmocka_unit_test(dlpack_out),
  };
  return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
