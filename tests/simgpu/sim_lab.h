/* Bench for tests of the simulated GPU: the library is opened as a driver
   would be, kernels come as PTX text or, where NVRTC is there, as CUDA C.
   Nothing here knows the compiler, and expected values never come from a
   simulator run. */
#ifndef SIM_LAB_H
#define SIM_LAB_H

#include "runtime/cuda/cuda_types.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

/* The part of the driver that the tests call, by exported name. */
#define LAB_SYMBOLS(X)                                                        \
  X(cuInit, (unsigned))                                                       \
  X(cuDeviceGet, (int *, int))                                                \
  X(cuDeviceGetCount, (int *))                                                \
  X(cuDeviceGetAttribute, (int *, int, int))                                  \
  X(cuDeviceTotalMem_v2, (size_t *, int))                                     \
  X(cuDevicePrimaryCtxRetain, (rcuda_ctx_t **, int))                          \
  X(cuDevicePrimaryCtxRelease_v2, (int))                                      \
  X(cuDevicePrimaryCtxReset_v2, (int))                                        \
  X(cuCtxCreate_v4, (rcuda_ctx_t **, void *, unsigned, int))                  \
  X(cuCtxDestroy_v2, (rcuda_ctx_t *))                                         \
  X(cuCtxSetCurrent, (rcuda_ctx_t *))                                         \
  X(cuCtxGetCurrent, (rcuda_ctx_t **))                                        \
  X(cuCtxSynchronize, (void))                                                 \
  X(cuCtxEnablePeerAccess, (rcuda_ctx_t *, unsigned))                         \
  X(cuMemAlloc_v2, (uint64_t *, size_t))                                      \
  X(cuMemFree_v2, (uint64_t))                                                 \
  X(cuMemGetInfo_v2, (size_t *, size_t *))                                    \
  X(cuMemHostAlloc, (void **, size_t, unsigned))                              \
  X(cuMemFreeHost, (void *))                                                  \
  X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                        \
  X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                              \
  X(cuMemcpyDtoD_v2, (uint64_t, uint64_t, size_t))                            \
  X(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t,                    \
                           rcuda_stream_t *))                                 \
  X(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, rcuda_stream_t *))       \
  X(cuMemsetD8_v2, (uint64_t, unsigned char, size_t))                         \
  X(cuMemsetD32_v2, (uint64_t, unsigned, size_t))                             \
  X(cuModuleLoadData, (rcuda_module_t **, const void *))                      \
  X(cuModuleLoadDataEx, (rcuda_module_t **, const void *, unsigned, int *,    \
                         void **))                                            \
  X(cuModuleUnload, (rcuda_module_t *))                                       \
  X(cuModuleGetFunction, (rcuda_func_t **, rcuda_module_t *, const char *))   \
  X(cuFuncGetParamInfo, (rcuda_func_t *, size_t, size_t *, size_t *))         \
  X(cuModuleGetGlobal_v2, (uint64_t *, size_t *, rcuda_module_t *,            \
                           const char *))                                     \
  X(cuFuncGetAttribute, (int *, int, rcuda_func_t *))                         \
  X(cuFuncSetAttribute, (rcuda_func_t *, int, int))                           \
  X(cuLaunchKernel, (rcuda_func_t *, unsigned, unsigned, unsigned, unsigned,  \
                     unsigned, unsigned, unsigned, rcuda_stream_t *, void **, \
                     void **))                                                \
  X(cuLaunchKernelEx, (const rcuda_launch_config_t *, rcuda_func_t *,         \
                       void **, void **))                                     \
  X(cuStreamCreate, (rcuda_stream_t **, unsigned))                            \
  X(cuStreamDestroy_v2, (rcuda_stream_t *))                                   \
  X(cuStreamQuery, (rcuda_stream_t *))                                        \
  X(cuStreamSynchronize, (rcuda_stream_t *))                                  \
  X(cuStreamBeginCapture_v2, (rcuda_stream_t *, int))                         \
  X(cuStreamEndCapture, (rcuda_stream_t *, rcuda_graph_t **))                 \
  X(cuStreamWaitEvent, (rcuda_stream_t *, rcuda_event_t *, unsigned))         \
  X(cuEventCreate, (rcuda_event_t **, unsigned))                              \
  X(cuEventDestroy_v2, (rcuda_event_t *))                                     \
  X(cuEventRecord, (rcuda_event_t *, rcuda_stream_t *))                       \
  X(cuEventQuery, (rcuda_event_t *))                                          \
  X(cuEventElapsedTime_v2, (float *, rcuda_event_t *, rcuda_event_t *))       \
  X(cuGraphInstantiateWithFlags, (rcuda_exec_t **, rcuda_graph_t *,           \
                                  unsigned long long))                        \
  X(cuGraphLaunch, (rcuda_exec_t *, rcuda_stream_t *))                        \
  X(cuGraphExecDestroy, (rcuda_exec_t *))                                     \
  X(cuGraphDestroy, (rcuda_graph_t *))                                        \
  X(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))       \
  X(cuTensorMapEncodeTiled,                                                   \
    (rcuda_tensor_map_t *, int, unsigned, void *, const uint64_t *,           \
     const uint64_t *, const unsigned *, const unsigned *, int, int, int,     \
     int))                                                                    \
  X(cuTensorMapReplaceAddress, (rcuda_tensor_map_t *, void *))                \
  X(cuTexRefCreate, (void *))                                                 \
  X(simgpu_configure, (const char *))

/* Which instruction forms the process has loaded, left for test_forms.py. */
static inline void lab_save_forms(void) {
  size_t (*count)(void), (*get)(size_t, char *, size_t);
  void *library = dlopen(TDSL_BUILD_DIR "/libtdsl_simgpu.so",
                         RTLD_NOW | RTLD_NOLOAD);
  void *a = library ? dlsym(library, "simgpu_forms_count") : NULL;
  void *b = library ? dlsym(library, "simgpu_forms_get") : NULL;
  char name[512], exe[256] = "", text[256];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (!a || !b || n <= 0 || !strrchr(exe, '/')) return;
  memcpy(&count, &a, sizeof a);
  memcpy(&get, &b, sizeof b);
  mkdir(TDSL_BUILD_DIR "/tests/forms", 0777);
  snprintf(name, sizeof name, TDSL_BUILD_DIR "/tests/forms/%s.txt",
           strrchr(exe, '/') + 1);
  FILE *f = fopen(name, "a");
  for (size_t i = 0; f && i < count(); i++)
    if (get(i, text, sizeof text) && text[0] == '1')
      fprintf(f, "%s\n", text + 2);
  if (f) fclose(f);
}

typedef struct lab_t {
#define X(name, args) int(*name) args;
  LAB_SYMBOLS(X)
#undef X
  size_t (*report_count)(void);
  size_t (*report_get)(size_t, char *, size_t);
  size_t (*counters_count)(void);
  size_t (*counters_get)(size_t, char *, size_t);
  size_t (*lines_get)(size_t, char *, size_t);
  void (*reset)(void);
  rcuda_ctx_t *ctx;
} lab_t;

/* TDSL_LAB_DRIVER names a real driver: tests that judge results then run on
   it. It has nothing to configure and nothing to report. */
static inline const char *lab_driver(void) {
  const char *path = getenv("TDSL_LAB_DRIVER");
  if (path && *path) return path;
  /* another build of the simulator: see self_mutation.py */
  path = getenv("TDSL_LAB_SIMULATOR");
  return path && *path ? path : TDSL_BUILD_DIR "/libtdsl_simgpu.so";
}

static inline int lab_zero(void) {
  return 0;
}

/* Serves for any of them: what it is given is not looked at. */
static inline void *lab_nothing(void) {
  int (*zero)(void) = lab_zero;
  void *out;
  memcpy(&out, &zero, sizeof out);
  return out;
}

/* Opens the library and, unless conf is NULL, device 0 of a machine so
   configured. Once a process. */
static inline void lab_open(lab_t *lab, const char *conf) {
  const char *path = lab_driver();
  /* findings are expected here: they go to the report, not to stderr */
  setenv("TDSL_SIM_REPORT", "/dev/null", 0);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail_msg("%s", dlerror());
  atexit(lab_save_forms);
  memset(lab, 0, sizeof *lab);
#define SYMBOL(field, name)                                                   \
  do {                                                                        \
    void *symbol_ = dlsym(library, name);                                     \
    if (!symbol_ && strncmp(name, "simgpu_", 7) == 0)                         \
      symbol_ = lab_nothing();                                                \
    if (!symbol_) fail_msg("%s is not exported", name);                       \
    memcpy(&lab->field, &symbol_, sizeof symbol_);                            \
  } while (0)
#define X(name, args) SYMBOL(name, #name);
  LAB_SYMBOLS(X)
#undef X
  SYMBOL(report_count, "simgpu_report_count");
  SYMBOL(report_get, "simgpu_report_get");
  SYMBOL(counters_count, "simgpu_counters_count");
  SYMBOL(counters_get, "simgpu_counters_get");
  SYMBOL(lines_get, "simgpu_lines_get");
  SYMBOL(reset, "simgpu_reset");
  if (!conf) return;
  assert_int_equal(lab->simgpu_configure(conf), 0);
  assert_int_equal(lab->cuInit(0), 0);
  assert_int_equal(lab->cuDevicePrimaryCtxRetain(&lab->ctx, 0), 0);
  assert_int_equal(lab->cuCtxSetCurrent(lab->ctx), 0);
}

/* After a fault the context is unusable: a fresh one, and an empty report. */
static inline void lab_renew(lab_t *lab) {
  lab->cuDevicePrimaryCtxReset_v2(0);
  lab->reset();
  assert_int_equal(lab->cuDevicePrimaryCtxRetain(&lab->ctx, 0), 0);
  assert_int_equal(lab->cuCtxSetCurrent(lab->ctx), 0);
}

static inline uint64_t lab_alloc(lab_t *lab, size_t bytes) {
  uint64_t p = 0;
  assert_int_equal(lab->cuMemAlloc_v2(&p, bytes), 0);
  return p;
}

static inline uint64_t lab_copy_in(lab_t *lab, const void *data,
                                   size_t bytes) {
  uint64_t p = lab_alloc(lab, bytes);
  assert_int_equal(lab->cuMemcpyHtoD_v2(p, data, bytes), 0);
  return p;
}

static inline void lab_copy_out(lab_t *lab, void *data, uint64_t p,
                                size_t bytes) {
  assert_int_equal(lab->cuMemcpyDtoH_v2(data, p, bytes), 0);
}

/* Loads or fails with the log. */
static inline rcuda_module_t *lab_load(lab_t *lab, const char *ptx) {
  char log[1024] = "";
  int options[] = {RCUDA_JIT_ERROR_LOG, RCUDA_JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  rcuda_module_t *m = NULL;
  int code = lab->cuModuleLoadDataEx(&m, ptx, 2, options, values);
  if (code) fail_msg("result %d: %s", code, log);
  return m;
}

/* Loads what must be refused; the log's text comes back. */
static inline int lab_refused(lab_t *lab, const char *ptx, char *log,
                              size_t bytes) {
  int options[] = {RCUDA_JIT_ERROR_LOG, RCUDA_JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)bytes};
  rcuda_module_t *m = NULL;
  log[0] = 0;
  int code = lab->cuModuleLoadDataEx(&m, ptx, 2, options, values);
  if (!code) lab->cuModuleUnload(m);
  return code;
}

static inline rcuda_func_t *lab_func(lab_t *lab, rcuda_module_t *m,
                                     const char *name) {
  rcuda_func_t *f = NULL;
  assert_int_equal(lab->cuModuleGetFunction(&f, m, name), 0);
  return f;
}

/* The result of the launch or of the synchronisation after it. */
static inline int lab_launch(lab_t *lab, rcuda_func_t *f, unsigned grid,
                             unsigned block, unsigned shared,
                             void **params) {
  int code = lab->cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, NULL,
                                 params, NULL);
  return code ? code : lab->cuCtxSynchronize();
}

/* The report as one text, in stored order; "" if nothing was found. */
static inline const char *lab_report(lab_t *lab, char *out, size_t bytes) {
  size_t at = 0;
  out[0] = 0;
  for (size_t i = 0; i < lab->report_count() && at + 1 < bytes; i++) {
    size_t n = lab->report_get(i, out + at, bytes - at);
    at = n < bytes - at ? at + n : bytes - 1;
  }
  return out;
}

/* The number behind "name": in the counters of the latest launch. */
static inline uint64_t lab_counter(lab_t *lab, const char *name) {
  char text[8192], key[64];
  size_t n = lab->counters_count();
  if (!n) fail_msg("no launch was counted");
  lab->counters_get(n - 1, text, sizeof text);
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *counters = strstr(text, "\"counters\":");
  const char *p = counters ? strstr(counters, key) : NULL;
  if (!p) p = strstr(text, key); /* of the launch as a whole */
  if (!p) fail_msg("no counter %s in %s", name, text);
  return strtoull(p + strlen(key), NULL, 10);
}

/* Chooses one side of every {{X|Y}}: X in the correct kernel, Y in a
   mutant. */
static inline void lab_choose(char *out, size_t bytes, const char *text,
                              bool mutant) {
  size_t n = 0;
  for (const char *p = text; *p;) {
    if (p[0] == '{' && p[1] == '{') {
      const char *bar = strchr(p, '|'), *end = strstr(p, "}}");
      const char *from = mutant ? bar + 1 : p + 2;
      const char *to = mutant ? end : bar;
      while (from < to && n + 1 < bytes) out[n++] = *from++;
      p = end + 2;
    } else if (n + 1 < bytes) {
      out[n++] = *p++;
    } else {
      break;
    }
  }
  out[n] = 0;
}

/* Deterministic input: a few edge values first, then a sequence. */
static inline uint64_t lab_random(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

#define PTX_HEAD(target)                                                      \
  ".version 8.5\n.target " target "\n.address_size 64\n"

/* -- one instruction against a formula --

   The body sees a, b, c of its thread as %a64 %b64 %c64, %a %b %c (32 bits),
   %ah %bh %ch (16), %fa %fb %fc (f32), %da %db %dc (f64), and leaves its
   result in %r64 (zero before); %p, %q, %x, %y, %z, %h, %f, %w are free. */
#define LAB_LANES 1024

typedef uint64_t (*lab_formula_t)(uint64_t a, uint64_t b, uint64_t c);

static inline void lab_text(char *out, size_t bytes, const char *body) {
  snprintf(out, bytes,
           PTX_HEAD("sm_90") "%s%s%s",
           ".visible .entry k(.param .u64 pa, .param .u64 pb,\n"
           " .param .u64 pc, .param .u64 pd) {\n"
           ".reg .pred %p, %q; .reg .b16 %ah, %bh, %ch, %h, %h2;\n"
           ".reg .b32 %a, %b, %c, %x, %y, %z, %t; .reg .f32 %fa, %fb, %fc,\n"
           " %f; .reg .f64 %da, %db, %dc, %d;\n"
           ".reg .b64 %a64, %b64, %c64, %r64, %w, %o, %s1, %s2, %s3, %s4;\n"
           "mov.u32 %t, %ctaid.x; mov.u32 %x, %ntid.x; mov.u32 %y, %tid.x;\n"
           "mad.lo.u32 %t, %t, %x, %y; mul.wide.u32 %o, %t, 8;\n"
           "ld.param.u64 %s1, [pa]; add.s64 %s1, %s1, %o;\n"
           "ld.param.u64 %s2, [pb]; add.s64 %s2, %s2, %o;\n"
           "ld.param.u64 %s3, [pc]; add.s64 %s3, %s3, %o;\n"
           "ld.param.u64 %s4, [pd]; add.s64 %s4, %s4, %o;\n"
           "ld.global.b64 %a64, [%s1]; ld.global.b64 %b64, [%s2];\n"
           "ld.global.b64 %c64, [%s3];\n"
           "cvt.u32.u64 %a, %a64; cvt.u32.u64 %b, %b64;\n"
           "cvt.u32.u64 %c, %c64; cvt.u16.u64 %ah, %a64;\n"
           "cvt.u16.u64 %bh, %b64; cvt.u16.u64 %ch, %c64;\n"
           "mov.b32 %fa, %a; mov.b32 %fb, %b; mov.b32 %fc, %c;\n"
           "mov.b64 %da, %a64; mov.b64 %db, %b64; mov.b64 %dc, %c64;\n"
           "mov.b64 %r64, 0;\n",
           body, "\nst.global.b64 [%s4], %r64; ret; }\n");
}

/* count: a multiple of 128 */
static inline void lab_run_n(lab_t *lab, const char *body, const uint64_t *a,
                             const uint64_t *b, const uint64_t *c,
                             uint64_t *out, size_t count) {
  char text[8192];
  lab_text(text, sizeof text, body);
  rcuda_module_t *m = lab_load(lab, text);
  size_t bytes = count * sizeof *a;
  uint64_t pa = lab_copy_in(lab, a, bytes), pb = lab_copy_in(lab, b, bytes);
  uint64_t pc = lab_copy_in(lab, c, bytes), pd = lab_alloc(lab, bytes);
  void *params[] = {&pa, &pb, &pc, &pd};
  int code = lab_launch(lab, lab_func(lab, m, "k"),
                        (unsigned)(count / 128), 128, 0, params);
  if (code) {
    char report[2048];
    fail_msg("%s: result %d %s", body, code,
             lab_report(lab, report, sizeof report));
  }
  lab_copy_out(lab, out, pd, bytes);
  lab->cuMemFree_v2(pa);
  lab->cuMemFree_v2(pb);
  lab->cuMemFree_v2(pc);
  lab->cuMemFree_v2(pd);
  lab->cuModuleUnload(m);
}

static inline void lab_run(lab_t *lab, const char *body, const uint64_t *a,
                           const uint64_t *b, const uint64_t *c,
                           uint64_t *out) {
  lab_run_n(lab, body, a, b, c, out, LAB_LANES);
}

/* Inputs of a case: raw bits for integers, or floating-point values. */
typedef enum lab_kind_t { LAB_BITS, LAB_F32, LAB_F64, LAB_SMALL } lab_kind_t;

static inline uint64_t lab_input(uint64_t *state, size_t i,
                                 lab_kind_t kind) {
  static const uint64_t edges[] = {
      0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF,
      0x80000000u, 0xFFFFFFFFu, UINT64_C(0x7FFFFFFFFFFFFFFF),
      UINT64_C(0x8000000000000000), UINT64_MAX, 31, 32, 33, 63, 64};
  static const float floats[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 3.0f,
                                 1e-40f, -1e-42f, 1.17549435e-38f, 3e38f,
                                 -3e38f, 1e-20f, 16777217.0f, 0.1f};
  uint64_t r = lab_random(state);
  if (kind == LAB_BITS) {
    size_t n = sizeof edges / sizeof *edges;
    return i < n * n ? edges[(i + (*state >> 60)) % n] ^ (r & (r >> 63))
                     : r >> (r & 63);
  }
  if (kind == LAB_SMALL) return r % 64;
  float f;
  uint32_t bits = (uint32_t)r;
  memcpy(&f, &bits, 4);
  size_t n = sizeof floats / sizeof *floats;
  if (i < n * n) f = floats[r % n];
  if (i % 97 == 5) f = INFINITY;
  if (i % 97 == 6) f = -INFINITY;
  if (i % 97 == 7) f = NAN;
  if (i % 3 == 0 && f == f && fabsf(f) < 1e30f)
    f = (float)(r % 2000003) / 1000.0f - 1000.0f;
  if (kind == LAB_F32) {
    memcpy(&bits, &f, 4);
    return bits;
  }
  double d = (double)f;
  uint64_t wide;
  if (i % 5 == 1) {
    wide = lab_random(state);
    memcpy(&d, &wide, 8);
  }
  memcpy(&wide, &d, 8);
  return wide;
}

/* Runs the body on generated inputs and compares with the formula. */
static inline void lab_case(lab_t *lab, const char *body, lab_kind_t kind,
                            lab_formula_t formula) {
  static uint64_t a[LAB_LANES], b[LAB_LANES], c[LAB_LANES], out[LAB_LANES];
  uint64_t state = 12345;
  for (size_t i = 0; i < LAB_LANES; i++) {
    a[i] = lab_input(&state, i, kind);
    b[i] = lab_input(&state, i + 7, kind);
    c[i] = lab_input(&state, i + 13, kind);
  }
  lab_run(lab, body, a, b, c, out);
  for (size_t i = 0; i < LAB_LANES; i++) {
    uint64_t want = formula(a[i], b[i], c[i]);
    if (out[i] != want)
      fail_msg("%s\n  a %016llx b %016llx c %016llx: %016llx, not %016llx",
               body, (unsigned long long)a[i], (unsigned long long)b[i],
               (unsigned long long)c[i], (unsigned long long)out[i],
               (unsigned long long)want);
  }
}

#endif
