/* bench_sim_tensor.c: tensor operations a second of the simulated GPU.
 *
 * The bfloat16 GEMM kernels of tests/simgpu/kernels, by mma.sync with
 * ldmatrix, by wgmma with tiles from cp.async, and by wgmma with tiles from
 * tensor copies and specialised warps, 512 x 512 x 512 on one host thread;
 * some elements of the product are checked against sums in double precision
 * before anything is timed. Figures are 2 M N K over the process's own CPU
 * time, best of the samples.
 *
 *   bench_sim_tensor [SAMPLES [HOST [ROW]]]
 *
 * HOST: v2, v3 (AVX2: what the bars are stated for) or v4; ROW: only those
 * whose name holds it, for profiling. */
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
  X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                        \
  X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                              \
  X(cuModuleLoadData, (rcuda_module_t **, const void *))                      \
  X(cuModuleGetFunction, (rcuda_func_t **, rcuda_module_t *, const char *))   \
  X(cuLaunchKernel, (rcuda_func_t *, unsigned, unsigned, unsigned, unsigned,  \
                     unsigned, unsigned, unsigned, rcuda_stream_t *, void **, \
                     void **))                                                \
  X(cuFuncSetAttribute, (rcuda_func_t *, int, int))                           \
  X(cuTensorMapEncodeTiled,                                                   \
    (rcuda_tensor_map_t *, int, unsigned, void *, const uint64_t *,           \
     const uint64_t *, const unsigned *, const unsigned *, int, int, int,     \
     int))                                                                    \
  X(simgpu_configure, (const char *))

static struct {
#define X(name, args) int(*name) args;
  DRIVER(X)
#undef X
} sim;

enum { SIZE = 512 };

static uint16_t a[SIZE * SIZE], b[SIZE * SIZE];
static float c[SIZE * SIZE];

static void need(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "bench_sim_tensor: %s\n", what);
  exit(1);
}

static void symbol(void *library, const char *name, void *to) {
  void *at = dlsym(library, name);
  need(at != NULL, name);
  memcpy(to, &at, sizeof at);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char *compile(const char *file, const char *arch) {
  static const char *const names[] = {
      "libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13",
      "libnvrtc.so.12", "libnvrtc.so"};
  static char text[65536];
  char path[512];
  void *nvrtc = NULL, *program = NULL;
  snprintf(path, sizeof path, TDSL_SOURCE_DIR "/tests/simgpu/kernels/%s",
           file);
  FILE *f = fopen(path, "rb");
  need(f != NULL, path);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  for (size_t i = 0; !nvrtc && i < sizeof names / sizeof *names; i++)
    nvrtc = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  need(nvrtc != NULL, "no NVRTC");
  int (*create)(void **, const char *, const char *, int, const void *,
                const void *);
  int (*build)(void *, int, const char *const *);
  int (*bytes)(void *, size_t *);
  int (*ptx)(void *, char *);
  symbol(nvrtc, "nvrtcCreateProgram", &create);
  symbol(nvrtc, "nvrtcCompileProgram", &build);
  symbol(nvrtc, "nvrtcGetPTXSize", &bytes);
  symbol(nvrtc, "nvrtcGetPTX", &ptx);
  const char *options[] = {arch, "-fmad=false", "-std=c++17", "-DTILE=128"};
  size_t n = 0;
  need(!create(&program, text, file, 0, NULL, NULL) &&
           !build(program, 4, options) && !bytes(program, &n),
       file);
  char *out = malloc(n);
  need(out && !ptx(program, out), "NVRTC");
  return out;
}

static float of_bf16(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static void check(int is_transposed) {
  for (size_t n = 0; n < SIZE * SIZE; n += 509) {
    size_t i = n / SIZE, j = n % SIZE;
    double sum = 0, size = 0;
    for (size_t k = 0; k < SIZE; k++) {
      double p = (double)of_bf16(a[i * SIZE + k]) *
                 (double)of_bf16(is_transposed ? b[j * SIZE + k]
                                               : b[k * SIZE + j]);
      sum += p;
      size += fabs(p);
    }
    need(fabs((double)c[n] - sum) <= size * 1e-5, "a wrong product");
  }
}

int main(int argc, char **argv) {
  static const struct {
    const char *name, *file, *arch;
    unsigned tile_m, tile_n, threads;
    int is_transposed, has_maps;
  } kernels[] = {
      {"mma.sync", "gemm_mma.cu", "-arch=compute_80", 128, 128, 128, 0, 0},
      {"wgmma", "gemm_wgmma.cu", "-arch=compute_90a", 64, 128, 128, 1, 0},
      {"wgmma tma", "gemm_ws.cu", "-arch=compute_90a", 128, 128, 384, 1, 1}};
  static const struct {
    const char *name, *items;
    double bar;
  } modes[] = {{"exact, counters", "check:none,arith:exact", 10},
               {"exact, all checks", "check:all,arith:exact", 0},
               {"hw, counters", "check:none,arith:hw", 1}};
  int samples = argc > 1 ? atoi(argv[1]) : 5;
  char option[32];
  rcuda_ctx_t *ctx;
  void *library =
      dlopen(TDSL_BUILD_DIR "/libtdsl_simgpu.so", RTLD_NOW | RTLD_LOCAL);
  need(library != NULL, "no libtdsl_simgpu.so");
#define X(name, args) symbol(library, #name, &sim.name);
  DRIVER(X)
#undef X
  snprintf(option, sizeof option, "host:%s", argc > 2 ? argv[2] : "v3");
  need(!sim.simgpu_configure("model:h100,threads:1") &&
           !sim.simgpu_configure(option),
       "options");
  need(!sim.cuInit(0) && !sim.cuDevicePrimaryCtxRetain(&ctx, 0) &&
           !sim.cuCtxSetCurrent(ctx),
       "no device");
  uint32_t state = 1;
  for (size_t n = 0; n < SIZE * SIZE; n++) {
    state = state * 1664525u + 1013904223u;
    a[n] = (uint16_t)(0x3E80u + (state >> 16 & 0x81FFu));
    state = state * 1664525u + 1013904223u;
    b[n] = (uint16_t)(0x3E80u + (state >> 16 & 0x81FFu));
  }
  uint64_t pa = 0, pb = 0, pc = 0;
  need(!sim.cuMemAlloc_v2(&pa, sizeof a) && !sim.cuMemAlloc_v2(&pb, sizeof b) &&
           !sim.cuMemAlloc_v2(&pc, sizeof c) &&
           !sim.cuMemcpyHtoD_v2(pa, a, sizeof a) &&
           !sim.cuMemcpyHtoD_v2(pb, b, sizeof b),
       "memory");
  rcuda_tensor_map_t maps[2];
  for (int n = 0; n < 2; n++) {
    uint64_t dims[] = {SIZE, SIZE}, strides[] = {SIZE * 2};
    unsigned box[] = {64, 128}, steps[] = {1, 1};
    need(!sim.cuTensorMapEncodeTiled(
             &maps[n], RCUDA_TENSOR_BF16, 2,
             (void *)(uintptr_t)(n ? pb : pa), dims, strides, box, steps, 0,
             3, 2, 0),
         "tensor map");
  }
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
    char *ptx = compile(kernels[k].file, kernels[k].arch);
    rcuda_module_t *module = NULL;
    rcuda_func_t *f = NULL;
    need(!sim.cuModuleLoadData(&module, ptx) &&
             !sim.cuModuleGetFunction(&f, module, "gemm"),
         kernels[k].file);
    free(ptx);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
      int size = SIZE;
      char row[64];
      snprintf(row, sizeof row, "%-9s %-18s", kernels[k].name, modes[m].name);
      if (argc > 3 && !strstr(row, argv[3])) continue;
      void *plain[] = {&pa, &pb, &pc, &size, &size, &size};
      void *mapped[] = {&maps[0], &maps[1], &pc, &size, &size};
      void **params = kernels[k].has_maps ? mapped : plain;
      unsigned shared = kernels[k].has_maps ? 131072 : 0;
      if (shared)
        need(!sim.cuFuncSetAttribute(f, RCUDA_FUNC_MAX_DYNAMIC_SHARED,
                                     (int)shared),
             "shared memory");
      double best = 1e9;
      need(!sim.simgpu_configure(modes[m].items), "options");
      for (int s = 0; s <= samples; s++) {
        double start = now();
        int code = sim.cuLaunchKernel(f, SIZE / kernels[k].tile_n,
                                      SIZE / kernels[k].tile_m, 1,
                                      kernels[k].threads, 1, 1, shared, NULL,
                                      params, NULL);
        if (!code) code = sim.cuCtxSynchronize();
        need(code == 0, kernels[k].name);
        double took = now() - start;
        if (s && took < best) best = took;
        if (s) continue;
        need(!sim.cuMemcpyDtoH_v2(c, pc, sizeof c), "copy");
        check(kernels[k].is_transposed);
      }
      double speed = 2.0 * SIZE * SIZE * SIZE / best * 1e-9;
      printf("%s %7.2f GFLOP/s  %6.1f ms", row, speed, best * 1e3);
      if (modes[m].bar > 0)
        printf("  bar >= %g  %s", modes[m].bar,
               speed >= modes[m].bar ? "met" : "MISSED");
      printf("\n");
    }
  }
  return 0;
}
