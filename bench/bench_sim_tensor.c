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
#include "bench/sim_bench.h"

#define KERNELS "tests/simgpu/kernels/"

enum { SIZE = 512 };

static uint16_t a[SIZE * SIZE], b[SIZE * SIZE];
static float c[SIZE * SIZE];

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
      {"mma.sync", KERNELS "gemm_mma.cu", "-arch=compute_80", 128, 128, 128,
       0, 0},
      {"wgmma", KERNELS "gemm_wgmma.cu", "-arch=compute_90a", 64, 128, 128, 1,
       0},
      {"wgmma tma", KERNELS "gemm_ws.cu", "-arch=compute_90a", 128, 128, 384,
       1, 1}};
  static const struct {
    const char *name, *items;
    double bar;
  } modes[] = {{"exact, counters", "check:none,arith:exact", 10},
               {"exact, all checks", "check:all,arith:exact", 0},
               {"hw, counters", "check:none,arith:hw", 1}};
  int samples = argc > 1 ? atoi(argv[1]) : 5;
  open_device(argc > 2 ? argv[2] : "v3");
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
    char *ptx = compile(kernels[k].file, kernels[k].arch, "-DTILE=128");
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
        double start = now(CLOCK_PROCESS_CPUTIME_ID);
        int code = sim.cuLaunchKernel(f, SIZE / kernels[k].tile_n,
                                      SIZE / kernels[k].tile_m, 1,
                                      kernels[k].threads, 1, 1, shared, NULL,
                                      params, NULL);
        if (!code) code = sim.cuCtxSynchronize();
        need(code == 0, kernels[k].name);
        double took = now(CLOCK_PROCESS_CPUTIME_ID) - start;
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
