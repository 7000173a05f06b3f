/* sim_bench.h: what the benches of the simulated GPU share: its entry points,
 * opened by name, CUDA C to PTX by NVRTC, clocks. Each includes it once. */
#ifndef TDSL_SIM_BENCH_H
#define TDSL_SIM_BENCH_H

#include "runtime/cuda/cuda_types.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DRIVER(X)                                                             \
  X(cuInit, (unsigned))                                                       \
  X(cuDevicePrimaryCtxRetain, (rcuda_ctx_t **, int))                          \
  X(cuCtxSetCurrent, (rcuda_ctx_t *))                                         \
  X(cuCtxSynchronize, (void))                                                 \
  X(cuMemAlloc_v2, (uint64_t *, size_t))                                      \
  X(cuMemFree_v2, (uint64_t))                                                 \
  X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                        \
  X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                              \
  X(cuModuleLoadData, (rcuda_module_t **, const void *))                      \
  X(cuModuleUnload, (rcuda_module_t *))                                       \
  X(cuModuleGetFunction, (rcuda_func_t **, rcuda_module_t *, const char *))   \
  X(cuFuncGetAttribute, (int *, int, rcuda_func_t *))                         \
  X(cuFuncSetAttribute, (rcuda_func_t *, int, int))                           \
  X(cuLaunchKernel, (rcuda_func_t *, unsigned, unsigned, unsigned, unsigned,  \
                     unsigned, unsigned, unsigned, rcuda_stream_t *, void **, \
                     void **))                                                \
  X(cuTensorMapEncodeTiled,                                                   \
    (rcuda_tensor_map_t *, int, unsigned, void *, const uint64_t *,           \
     const uint64_t *, const unsigned *, const unsigned *, int, int, int,     \
     int))                                                                    \
  X(simgpu_configure, (const char *))

static struct {
#define X(name, args) int(*name) args;
  DRIVER(X)
#undef X
  size_t (*count)(void);
  size_t (*get)(size_t, char *, size_t);
} sim;

static inline double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void need(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "bench: %s\n", what);
  exit(1);
}

static inline void symbol(void *library, const char *name, void *to) {
  void *at = dlsym(library, name);
  need(at != NULL, name);
  memcpy(to, &at, sizeof at);
}

/* An H100 of one host thread on the handlers of `host`. Milliseconds from
 * nothing to a current context. */
static inline double open_device(const char *host) {
  char option[32];
  rcuda_ctx_t *ctx;
  double start = now(CLOCK_MONOTONIC);
  void *library =
      dlopen(TDSL_BUILD_DIR "/libtdsl_simgpu.so", RTLD_NOW | RTLD_LOCAL);
  need(library != NULL, "no libtdsl_simgpu.so");
#define X(name, args) symbol(library, #name, &sim.name);
  DRIVER(X)
#undef X
  symbol(library, "simgpu_counters_count", &sim.count);
  symbol(library, "simgpu_counters_get", &sim.get);
  snprintf(option, sizeof option, "host:%s", host);
  need(!sim.simgpu_configure("model:h100,threads:1"), "options");
  need(!sim.simgpu_configure(option), "this host has no such variant");
  need(!sim.cuInit(0) && !sim.cuDevicePrimaryCtxRetain(&ctx, 0) &&
           !sim.cuCtxSetCurrent(ctx),
       "no device");
  return (now(CLOCK_MONOTONIC) - start) * 1e3;
}

/* PTX of a file of the source tree, malloc'd. `more`: a further option. */
static inline char *compile(const char *file, const char *arch,
                            const char *more) {
  static const char *const names[] = {
      "libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13",
      "libnvrtc.so.12", "libnvrtc.so"};
  static char text[1 << 18];
  char path[512];
  void *nvrtc = NULL, *program = NULL;
  int (*create)(void **, const char *, const char *, int, const void *,
                const void *);
  int (*build)(void *, int, const char *const *);
  int (*bytes)(void *, size_t *);
  int (*ptx)(void *, char *);
  snprintf(path, sizeof path, TDSL_SOURCE_DIR "/%s", file);
  FILE *f = fopen(path, "rb");
  need(f != NULL, path);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  for (size_t i = 0; !nvrtc && i < sizeof names / sizeof *names; i++)
    nvrtc = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  need(nvrtc != NULL, "no NVRTC");
  symbol(nvrtc, "nvrtcCreateProgram", &create);
  symbol(nvrtc, "nvrtcCompileProgram", &build);
  symbol(nvrtc, "nvrtcGetPTXSize", &bytes);
  symbol(nvrtc, "nvrtcGetPTX", &ptx);
  const char *options[] = {arch, "-fmad=false", "-std=c++17", more};
  size_t n = 0;
  need(!create(&program, text, file, 0, NULL, NULL) &&
           !build(program, 4, options) && !bytes(program, &n),
       file);
  char *out = malloc(n);
  need(out && !ptx(program, out), "NVRTC");
  return out;
}

#endif
