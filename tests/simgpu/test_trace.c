/* The record of calls: every call with its arguments and result, also those
   that fail, those that are made to fail, and those of other threads; and what
   a refused launch leaves in the report. */
#include "driver_lab.h"

#include <pthread.h>

typedef void *vp;

static size_t trace_count(void) {
  size_t (*count)(void);
  any_t fn = symbol("simgpu_trace_count");
  memcpy(&count, &fn, sizeof fn);
  return count();
}

static const char *trace_at(size_t i) {
  static char text[1024];
  size_t (*get)(size_t, char *, size_t);
  any_t fn = symbol("simgpu_trace_get");
  memcpy(&get, &fn, sizeof fn);
  if (!get(i, text, sizeof text)) fail_msg("no call %zu", i);
  return text;
}

/* The newest call: its name, arguments and result. */
static void newest(const char *name, const char *args, int result) {
  char want[512];
  const char *text = trace_at(trace_count() - 1);
  snprintf(want, sizeof want, "\"name\":\"%s\",\"args\":[%s],\"result\":%d}",
           name, args, result);
  if (!strstr(text, want)) fail_msg("%s\n  has not %s", text, want);
}

static void *elsewhere(void *arg) {
  (void)arg;
  int n = 0;
  OK(cuDriverGetVersion, (int *), &n);
  return NULL;
}

static void record(void **state) {
  (void)state;
  u64 p = 0, q = 0;
  char args[256];
  size_t before = trace_count();
  OK(cuMemAlloc_v2, (u64 *, size_t), &p, 1000);
  assert_int_equal(trace_count(), before + 1);
  snprintf(args, sizeof args, "%llu,1000",
           (unsigned long long)(uintptr_t)&p);
  newest("cuMemAlloc_v2", args, 0);
  OK(cuMemsetD16Async, (u64, unsigned short, size_t, vp), p, 65535, 7, NULL);
  snprintf(args, sizeof args, "%llu,65535,7,0", (unsigned long long)p);
  newest("cuMemsetD16Async", args, 0);
  SYNC(0);
  newest("cuCtxSynchronize", "", 0);
  CODE(1, cuMemFree_v2, (u64), p + 8);
  snprintf(args, sizeof args, "%llu", (unsigned long long)(p + 8));
  newest("cuMemFree_v2", args, 1);
  CODE(101, cuDeviceGet, (int *, int), (int *)&q, -1);
  assert_non_null(strstr(trace_at(trace_count() - 1),
                         ",18446744073709551615],\"result\":101}"));
  assert_int_equal(configure("fail:cuMemFree_v2@2=46"), 0);
  OK(cuMemFree_v2, (u64), 0);
  CODE(46, cuMemFree_v2, (u64), p);
  snprintf(args, sizeof args, "%llu", (unsigned long long)p);
  newest("cuMemFree_v2", args, 46);
  OK(cuMemFree_v2, (u64), p);
  /* another thread has another number */
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, elsewhere, NULL), 0);
  pthread_join(thread, NULL);
  assert_non_null(strstr(trace_at(trace_count() - 1), "\"thread\":2,"));
  assert_non_null(strstr(trace_at(trace_count() - 2), "\"thread\":1,"));
  /* calls of this interface itself are not in it */
  before = trace_count();
  findings("");
  assert_true(before > 0);
  assert_int_equal(trace_count(), 0); /* forgotten with the report */
}

static void every_call(void **state) {
  (void)state;
  char text[2048] = "", want[120];
  for (size_t i = 0; i < seen_count; i++) {
    const char *n = seen[i].name;
    if (starts(n, "cuInit") || starts(n, "cuDevicePrimaryCtxReset") ||
        starts(n, "cuDevicePrimaryCtxRelease"))
      continue;
    size_t before = trace_count();
    zeros(n);
    snprintf(want, sizeof want, "\"name\":\"%s\",\"args\":[", n);
    bool has = trace_count() == before + 1 &&
               strstr(trace_at(before), want) != NULL;
    bool takes = strcmp(n, "cuCtxSynchronize") != 0;
    if (!has || takes == (strstr(trace_at(before), "[]") != NULL))
      snprintf(text + strlen(text), sizeof text - strlen(text), " %s", n);
  }
  if (text[0]) fail_msg("not recorded:%s", text);
}

static const char *const kernels =
    PTX_HEAD("sm_90")
    ".visible .entry small(.param .u64 p) .maxntid 64, 1, 1 {\nret; }\n"
    ".visible .entry exact() .reqntid 32, 1, 1 {\nret; }\n"
    ".visible .entry pair() .reqnctapercluster 2, 1, 1 {\nret; }\n";

/* Each way to be refused, once: the code and the check that says why. */
static void refused(void **state) {
  (void)state;
  vp m = NULL, small = NULL, exact = NULL, pair = NULL;
  u64 p = 0;
  vp params[] = {&p}, none[] = {NULL};
  OK(cuModuleLoadData, (vp *, const void *), &m, kernels);
  OK(cuModuleGetFunction, (vp *, vp, const char *), &small, m, "small");
  OK(cuModuleGetFunction, (vp *, vp, const char *), &exact, m, "exact");
  OK(cuModuleGetFunction, (vp *, vp, const char *), &pair, m, "pair");
  findings("");
#define REFUSED(code, check, ...)                                             \
  CODE(code, cuLaunchKernel, LAUNCH, __VA_ARGS__);                            \
  assert_int_equal(findings(check), 1)
  REFUSED(1, "launch.geometry", small, 0, 1, 1, 32, 1, 1, 0, NULL, params,
          NULL);
  REFUSED(1, "launch.geometry", small, 1, 1, 1, 65, 1, 1, 0, NULL, params,
          NULL);
  REFUSED(1, "launch.geometry", exact, 1, 1, 1, 16, 1, 1, 0, NULL, NULL,
          NULL);
  REFUSED(1, "launch.shared", small, 1, 1, 1, 32, 1, 1, 50000, NULL, params,
          NULL);
  REFUSED(1, "launch.params", small, 1, 1, 1, 32, 1, 1, 0, NULL, none, NULL);
  REFUSED(912, "launch.cluster", pair, 3, 1, 1, 32, 1, 1, 0, NULL, NULL,
          NULL);
  CODE(720, cuLaunchCooperativeKernel,
       (vp, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
        unsigned, vp, vp *),
       small, 100000, 1, 1, 32, 1, 1, 0, NULL, params);
  assert_int_equal(findings("launch.cooperative"), 1);
  /* and none of them when all is well */
  OK(cuLaunchKernel, LAUNCH, small, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL);
  OK(cuLaunchKernel, LAUNCH, exact, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
  OK(cuLaunchKernel, LAUNCH, pair, 4, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
  SYNC(0);
  assert_int_equal(findings("launch."), 0);
  OK(cuModuleUnload, (vp), m);
}

/* A machine on which one block of a kernel that needs many registers does not
   fit: 701. */
static void resources(void **state) {
  (void)state;
  static char text[40000];
  size_t n = (size_t)snprintf(
      text, sizeof text,
      PTX_HEAD("sm_80") ".visible .entry k(.param .u64 p) {\n"
                        ".reg .b64 %%d<2>; .reg .b32 %%r<200>;\n"
                        "ld.param.u64 %%d1, [p];\n");
  for (int i = 0; i < 150; i++)
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "ld.global.u32 %%r%d, [%%d1+%d];\n", i, 4 * i);
  for (int i = 149; i >= 0; i--)
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "st.global.u32 [%%d1+%d], %%r%d;\n", 4 * i, i);
  snprintf(text + n, sizeof text - n, "ret; }\n");
  vp m = NULL, f = NULL;
  u64 p = 0;
  vp params[] = {&p};
  OK(cuModuleLoadData, (vp *, const void *), &m, text);
  OK(cuModuleGetFunction, (vp *, vp, const char *), &f, m, "k");
  findings("");
  REFUSED(701, "launch.resources", f, 1, 1, 1, 1024, 1, 1, 0, NULL, params,
          NULL);
  OK(cuModuleUnload, (vp), m);
}

/* What an assembler says counts instead, of kernels loaded from then on: as
   the function's attribute, for what fits, and in the record of the launch. */
static void registers(void **state) {
  (void)state;
  static const char text[] =
      PTX_HEAD("sm_80") ".visible .entry told() { ret; }\n"
                        ".visible .entry other() { ret; }\n"
                        ".visible .entry capped() .maxnreg 40 { ret; }\n";
  static const struct {
    const char *kernel;
    unsigned told;
    int blocks;       /* of 256 threads on an H100: 65,536 registers in all,
                         eight of them given out at a time */
    const char *json;
  } cases[] = {{"told", 168, 1, "\"registers\":168,"},
               {"told", 121, 2, "\"registers\":121,"},
               {"told", 0, 8, "\"registers_est\":"},
               {"other", 0, 8, "\"registers_est\":"},
               {"capped", 33, 6, "\"registers\":33,"}};
  int (*tell)(const char *, unsigned);
  size_t (*get)(size_t, char *, size_t);
  any_t fn = symbol("simgpu_registers");
  memcpy(&tell, &fn, sizeof fn);
  fn = symbol("simgpu_counters_get");
  memcpy(&get, &fn, sizeof fn);
  assert_int_equal(tell(NULL, 8), 1);
  assert_int_equal(tell("", 8), 1);
  assert_int_equal(tell("told", 256), 1);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    vp m = NULL, f = NULL;
    int value = 0;
    char got[4096];
    assert_int_equal(tell(cases[i].kernel, cases[i].told), 0);
    OK(cuModuleLoadData, (vp *, const void *), &m, text);
    OK(cuModuleGetFunction, (vp *, vp, const char *), &f, m,
       cases[i].kernel);
    OK(cuFuncGetAttribute, (int *, int, vp), &value,
       RCUDA_FUNC_REGISTERS, f);
    if (cases[i].told) assert_int_equal(value, cases[i].told);
    else assert_in_range(value, 1, 32);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor,
       (int *, vp, int, size_t), &value, f, 256, 0);
    assert_int_equal(value, cases[i].blocks);
    findings("");
    OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    SYNC(0);
    assert_true(get(0, got, sizeof got) > 0);
    if (!strstr(got, cases[i].json)) fail_msg("%s\n  %s", cases[i].json, got);
    OK(cuModuleUnload, (vp), m);
  }
  assert_int_equal(tell("capped", 0), 0);
}

/* The first fault answers for everything until the context ends. */
static void sticky(void **state) {
  (void)state;
  rcuda_ctx_t *old = NULL, *own = NULL, *now = NULL;
  u64 p = 0;
  int n = 0;
  vp m = NULL, f = NULL, s = NULL;
  vp params[] = {&p};
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &old);
  OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &own, NULL, 0, 0);
  OK(cuModuleLoadData, (vp *, const void *), &m,
     PTX_HEAD("sm_80") ".visible .entry k(.param .u64 p) {\n"
                       ".reg .b64 %d<2>;\nld.param.u64 %d1, [p];\n"
                       "st.global.u64 [%d1+4], %d1; ret; }\n");
  OK(cuModuleGetFunction, (vp *, vp, const char *), &f, m, "k");
  OK(cuMemAlloc_v2, (u64 *, size_t), &p, 64);
  OK(cuStreamCreate, (vp *, unsigned), &s, 0);
  OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL);
  CODE(716, cuStreamSynchronize, (vp), s); /* shows where it is waited for */
  CODE(716, cuMemAlloc_v2, (u64 *, size_t), &p, 64);
  CODE(716, cuLaunchKernel, LAUNCH, f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL);
  CODE(716, cuStreamQuery, (vp), s);
  SYNC(716);
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &now); /* needs no context's health */
  OK(cuDeviceGetCount, (int *), &n);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), old);
  SYNC(0); /* another context is another matter */
  OK(cuCtxDestroy_v2, (rcuda_ctx_t *), own);
  findings("");
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(record), cmocka_unit_test(refused),
      cmocka_unit_test(resources),
      cmocka_unit_test(registers), cmocka_unit_test(sticky),
      cmocka_unit_test(every_call)};
  return cmocka_run_group_tests_name("simgpu.trace", tests, setup, NULL);
}
