/* What a program does by mistake: words in the environment that mean nothing,
   objects of another context, host memory where a device's is wanted, flags
   and sizes that do not exist. Each is answered with a code, and nothing is
   touched. And what only looks like one: the stream of the calling thread. */
#include "driver_lab.h"

#include <pthread.h>
#include <sys/wait.h>

#define STORES                                                                \
  PTX_HEAD("sm_80")                                                           \
  ".visible .entry k(.param .u64 p, .param .u32 n) {\n"                       \
  " .reg .b32 %r<3>; .reg .b64 %d<4>; ld.param.u64 %d1, [p];\n"               \
  " ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;\n"  \
  " add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r2; ret; }\n"

/* -- the environment -- */

/* In a process of its own: the code of cuInit, and what it says. */
static int init_with(const char *name, const char *value, char *said,
                     size_t bytes) {
  int ends[2], state = 0;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    setenv(name, value, 1);
    void *lib = dlopen(lab_driver(), RTLD_NOW);
    int (*init)(unsigned) = NULL;
    void *p = lib ? dlsym(lib, "cuInit") : NULL;
    memcpy(&init, &p, sizeof p);
    _exit(init ? init(0) : 99);
  }
  close(ends[1]);
  ssize_t n = read(ends[0], said, bytes - 1);
  said[n > 0 ? n : 0] = 0;
  close(ends[0]);
  assert_int_equal(waitpid(child, &state, 0), child);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

/* A misspelled mode must not pass for the default one. Before the library is
   open here: a child has none of its state then. */
static void environment(void **state) {
  (void)state;
  static const struct {
    const char *name, *value, *word; /* word: NULL, it is a good one */
  } rows[] = {
      {"TDSL_SIM_MODE", "order:random,async:random", NULL},
      {"TDSL_SIM_MODE", "fail:cuMemAlloc@1=2", NULL},
      {"TDSL_SIM_CHECK", "mem+race", NULL},
      {"TDSL_SIM_CHECK", "warn,all", NULL},
      {"TDSL_SIM_SEED", "-3", NULL},
      {"TDSL_SIM_MODE", "order:random,asink:random", "asink:random"},
      {"TDSL_SIM_MODE", "order:sideways", "order:sideways"},
      {"TDSL_SIM_MODE", "preempt:4294967296", "preempt:4294967296"},
      {"TDSL_SIM_MODE", "fail:cuMemAllok@1=2", "cuMemAllok"},
      {"TDSL_SIM_MODE", "fail:ncclAllReduce@2=3", NULL},
      {"TDSL_SIM_MODE", "fail:ncclAllReduse@2=3", "ncclAllReduse"},
      {"TDSL_SIM_MODE", "fail:cuMemAlloc", "fail:cuMemAlloc"},
      {"TDSL_SIM_CHECK", "mem+raze", "mem+raze"},
      {"TDSL_SIM_SEED", "seven", "seven"},
      {"TDSL_SIM_REPORT", "/nonexistent/folder/file", "cannot write"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char said[512];
    int code = init_with(rows[i].name, rows[i].value, said, sizeof said);
    if (rows[i].word ? code != 1 || !strstr(said, rows[i].word)
                     : code != 0 || said[0])
      fail_msg("%s=%s: %d, %s", rows[i].name, rows[i].value, code, said);
  }
}

/* The same at run time: refused with the reason, and nothing else changes. */
static void options(void **state) {
  (void)state;
  static const struct {
    const char *items, *why;
  } rows[] = {
      {"fail:cuMemAllok@1=2", "no call is named cuMemAllok"},
      {"fail:ncclSendd@1=2", "no call is named ncclSendd"},
      {"fail:cuMemAlloc@1", "not an option: fail:cuMemAlloc@1"},
      {"report:/nonexistent/folder/file",
       "cannot write /nonexistent/folder/file"},
      {"order:random,order:sideways", "not an option: order:sideways"},
      {"model:k80", "no machine is named k80"},
      {"model:a100", "the machine is h100 since cuInit"},
      {"devices:none", "not a number of devices from 1 to 16: none"},
      {"devices:3", "there are 1 devices since cuInit"},
  };
  typedef size_t (*get_t)(size_t, char *, size_t);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char why[256] = "";
    if (configure(rows[i].items) != 1) fail_msg("%s", rows[i].items);
    ((get_t)symbol("simgpu_problem"))(0, why, sizeof why);
    assert_string_equal(why, rows[i].why);
  }
}

/* -- objects -- */

static rcuda_ctx_t *first;

static rcuda_func_t *load(rcuda_module_t **m) {
  rcuda_func_t *f = NULL;
  OK(cuModuleLoadData, (rcuda_module_t **, const void *), m, STORES);
  OK(cuModuleGetFunction, (rcuda_func_t **, void *, const char *), &f, *m,
     "k");
  return f;
}

static void foreign(void **state) {
  (void)state;
  rcuda_module_t *m;
  rcuda_func_t *f = load(&m);
  rcuda_stream_t *s;
  rcuda_ctx_t *other;
  u64 p;
  unsigned v = 7;
  OK(cuStreamCreate, (void *, unsigned), &s, 0);
  OK(cuMemAlloc_v2, (u64 *, size_t), &p, 512);
  void *params[] = {&p, &v};
  OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 32, 1, 1, 0, s, params, NULL);
  SYNC(0);
  OK(cuCtxCreate_v4, (rcuda_ctx_t **, void *, unsigned, int), &other, NULL, 0,
     0);
  /* its function, and then its stream with our function */
  CODE(400, cuLaunchKernel, LAUNCH, f, 1, 1, 1, 32, 1, 1, 0, NULL, params,
       NULL);
  rcuda_module_t *m2;
  rcuda_func_t *g = load(&m2);
  CODE(400, cuLaunchKernel, LAUNCH, g, 1, 1, 1, 32, 1, 1, 0, s, params, NULL);
  OK(cuLaunchKernel, LAUNCH, g, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
  SYNC(0);
  OK(cuCtxDestroy_v2, (rcuda_ctx_t *), other);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), first);
  OK(cuMemFree_v2, (u64), p);
  OK(cuStreamDestroy_v2, (void *), s);
  OK(cuModuleUnload, (void *), m);
}

static void parameters(void **state) {
  (void)state;
  rcuda_module_t *m;
  rcuda_func_t *f = load(&m);
  rcuda_ctx_t *c;
  void *none[] = {RCUDA_PARAM_BYTES, NULL, RCUDA_PARAM_END};
  void *half[] = {RCUDA_PARAM_BUFFER, NULL, RCUDA_PARAM_END};
  CODE(1, cuLaunchKernel, LAUNCH, f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, none);
  CODE(1, cuLaunchKernel, LAUNCH, f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, half);
  u64 p = 0;
  unsigned v = 0;
  void *params[] = {&p, &v};
  /* their product is 2 * 2^64 + 1 */
  rcuda_launch_attr_t a = {.id = RCUDA_LAUNCH_CLUSTER,
                           .value.cluster = {1229673, 3935371, 7623851}};
  rcuda_launch_config_t config = {{1, 1, 1}, {32, 1, 1}, 0, NULL, &a, 1};
  CODE(912, cuLaunchKernelEx, (void *, void *, void **, void **), &config, f,
       params, NULL);
  CODE(1, cuCtxCreate_v4, (rcuda_ctx_t **, void *, unsigned, int), &c, NULL,
       0x100, 0);
  CODE(1, cuCtxCreate_v4, (rcuda_ctx_t **, void *, unsigned, int), &c, NULL,
       3, 0); /* two ways to wait */
  rcuda_ctx_params_t share = {&v, 1, NULL};
  CODE(801, cuCtxCreate_v4, (rcuda_ctx_t **, void *, unsigned, int), &c,
       &share, 0, 0);
  CODE(1, cuDevicePrimaryCtxSetFlags_v2, (int, unsigned), 0, 0x1000);
  OK(cuModuleUnload, (void *), m);
  (void)findings("launch.params");
}

/* -- memory -- */

static void host_addresses(void **state) {
  (void)state;
  u64 p, low = 4096;
  uint32_t word = 5, kept = 5;
  void *pinned = NULL;
  u64 host = (u64)(uintptr_t)&word;
  OK(cuMemAlloc_v2, (u64 *, size_t), &p, 64);
  OK(cuMemsetD8_v2, (u64, unsigned char, size_t), p, 1, 64);
  (void)findings("");
  CODE(1, cuMemsetD8_v2, (u64, unsigned char, size_t), low, 1, 4);
  CODE(1, cuMemsetD32_v2, (u64, unsigned, size_t), host, 1, 1);
  CODE(1, cuMemcpyDtoD_v2, (u64, u64, size_t), p, host, 4);
  CODE(1, cuMemcpyDtoD_v2, (u64, u64, size_t), host, p, 4);
  CODE(1, cuMemcpyHtoD_v2, (u64, const void *, size_t), host, &kept, 4);
  CODE(1, cuMemcpyDtoH_v2, (void *, u64, size_t), &kept, low, 4);
  rcuda_copy2d_t box = {.src_type = RCUDA_MEMORY_HOST, .src_host = &kept,
                        .dst_type = RCUDA_MEMORY_DEVICE, .dst_device = host,
                        .width = 4, .height = 1};
  CODE(1, cuMemcpy2D_v2, (const rcuda_copy2d_t *), &box);
  rcuda_copy3d_t huge = {.src_type = RCUDA_MEMORY_DEVICE, .src_device = p,
                         .dst_type = RCUDA_MEMORY_DEVICE, .dst_device = p,
                         .width = 1, .height = (size_t)1 << 40,
                         .depth = (size_t)1 << 40};
  CODE(1, cuMemcpy3D_v2, (const rcuda_copy3d_t *), &huge);
  assert_int_equal(findings("mem.bounds"), 7);
  assert_int_equal(word, 5);
  /* what is pinned, and cuMemcpy, which looks at the addresses */
  OK(cuMemHostAlloc, (void **, size_t, unsigned), &pinned, 64, 0);
  OK(cuMemsetD32_v2, (u64, unsigned, size_t), (u64)(uintptr_t)pinned, 9, 16);
  OK(cuMemcpyDtoD_v2, (u64, u64, size_t), p, (u64)(uintptr_t)pinned, 64);
  OK(cuMemcpy, (u64, u64, size_t), host, p, 4);
  assert_int_equal(word, 9);
  CODE(1, cuMemsetD32_v2, (u64, unsigned, size_t), (u64)(uintptr_t)pinned, 9,
       17);
  OK(cuMemFreeHost, (void *), pinned);
  CODE(1, cuMemHostAlloc, (void **, size_t, unsigned), &pinned, 64, 8);
  CODE(2, cuMemHostAlloc, (void **, size_t, unsigned), &pinned,
       (size_t)1 << 46, 0);
  CODE(1, cuMemHostRegister_v2, (void *, size_t, unsigned), &word, 4, 16);
  CODE(1, cuMemHostRegister_v2, (void *, size_t, unsigned), &word, SIZE_MAX,
       0);
  char block[256];
  OK(cuMemHostRegister_v2, (void *, size_t, unsigned), block + 64, 64, 0);
  CODE(712, cuMemHostRegister_v2, (void *, size_t, unsigned), block, 128, 0);
  OK(cuMemHostUnregister, (void *), block + 64);
  OK(cuMemFree_v2, (u64), p);
}

/* -- the stream of the calling thread -- */

static u64 shared;

/* Fills with v on this thread's stream; with out, waits and gives its id. */
static void on_own_stream(unsigned v, unsigned long long *id) {
  rcuda_stream_t *mine = RCUDA_STREAM_PER_THREAD;
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), first);
  OK(cuMemsetD32Async, (u64, unsigned, size_t, void *), shared, v, 16, mine);
  OK(cuStreamGetId, (void *, unsigned long long *), mine, id);
}

static void *of_thread(void *id) {
  on_own_stream(2, id);
  return NULL;
}

static void per_thread(void **state) {
  (void)state;
  rcuda_stream_t *mine = RCUDA_STREAM_PER_THREAD;
  unsigned long long a = 0, b = 0;
  unsigned flags = 9;
  uint32_t out[16];
  pthread_t t;
  OK(cuMemAlloc_v2, (u64 *, size_t), &shared, 64);
  (void)findings("");
  /* in order with the default stream, as every blocking one */
  OK(cuMemsetD32Async, (u64, unsigned, size_t, void *), shared, 1, 16, NULL);
  on_own_stream(3, &a);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), out, shared, 64);
  assert_int_equal(out[15], 3);
  assert_int_equal(findings("order.race"), 0);
  CODE(400, cuStreamDestroy_v2, (void *), mine);
  OK(cuStreamGetFlags, (void *, unsigned *), mine, &flags);
  assert_int_equal(flags, 0);
  OK(cuStreamSynchronize, (void *), mine);
  /* two threads have two of them: nothing orders these fills */
  on_own_stream(3, &a);
  assert_int_equal(pthread_create(&t, NULL, of_thread, &b), 0);
  assert_int_equal(pthread_join(t, NULL), 0);
  assert_true(a && b && a != b);
  SYNC(719);
  assert_int_equal(findings("order.race"), 1);
  OK(cuDevicePrimaryCtxReset_v2, (int), 0);
}

static void attributes(void **state) {
  (void)state;
  static const struct {
    int id, want;
  } rows[] = {{RCUDA_DEV_OVERLAP, 1}, {RCUDA_DEV_DOUBLE_RATIO, 2},
              {RCUDA_DEV_HOST_POINTERS, 1}, {RCUDA_DEV_NUMA_ID, -1},
              {RCUDA_DEV_MEMORY_DOMAINS, 4}, {RCUDA_DEV_GLOBAL_L1, 1},
              {RCUDA_DEV_TEXTURE_ALIGN, 512}, {RCUDA_DEV_LAST, 0}};
  int n = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    OK(cuDeviceGetAttribute, (int *, int, int), &n, rows[i].id, 0);
    assert_int_equal(n, rows[i].want);
  }
  CODE(1, cuDeviceGetAttribute, (int *, int, int), &n, RCUDA_DEV_LAST + 1, 0);
}

static int setup(void **state) {
  if (*state) return 0;
  if (driver_setup("model:h100,threads:1")) return -1;
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &first);
  return 0;
}

int main(void) {
  const struct CMUnitTest before[] = {cmocka_unit_test(environment)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options),
      cmocka_unit_test(foreign), cmocka_unit_test(parameters),
      cmocka_unit_test(attributes), cmocka_unit_test(host_addresses),
      cmocka_unit_test(per_thread)};
  int failed = cmocka_run_group_tests_name("simgpu.misuse", before, NULL,
                                           NULL);
  return failed + cmocka_run_group_tests_name("simgpu.misuse", tests, setup,
                                              NULL);
}
