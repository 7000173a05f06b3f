/* Libraries belong to no context: each context gets their variables anew when
   it first uses them. And what occupancy says of their kernels. */
#include "driver_lab.h"

typedef void *vp;

static const char *const text =
    PTX_HEAD("sm_90")
    ".visible .global .align 4 .u32 word = 41;\n"
    ".visible .entry k() .maxntid 256, 1, 1 {\n"
    ".reg .b32 %r<2>; .shared .align 4 .b8 s[1000];\n"
    "ld.global.u32 %r1, [word]; add.u32 %r1, %r1, 1;\n"
    "st.global.u32 [word], %r1; ret; }\n"
    ".visible .entry wide() {\nret; }\n";

#define LOAD                                                                  \
  (vp *, const void *, int *, vp *, unsigned, int *, vp *, unsigned)

static unsigned word_of(vp lib) {
  u64 p = 0;
  size_t bytes = 0;
  unsigned v = 0;
  OK(cuLibraryGetGlobal, (u64 *, size_t *, vp, const char *), &p, &bytes,
     lib, "word");
  assert_int_equal(bytes, 4);
  OK(cuMemcpyDtoH_v2, (vp, u64, size_t), &v, p, 4);
  return v;
}

static void libraries(void **state) {
  (void)state;
  rcuda_ctx_t *old = NULL, *own = NULL;
  vp l = NULL, k = NULL, same = NULL, f = NULL, m = NULL, g = NULL;
  u64 p = 0;
  size_t bytes = 0;
  int n = 0;
  char log[256] = "";
  int options[] = {RCUDA_JIT_ERROR_LOG, RCUDA_JIT_ERROR_LOG_BYTES};
  vp values[] = {log, (vp)(uintptr_t)sizeof log};
  CODE(218, cuLibraryLoadData, LOAD, &l,
       PTX_HEAD("sm_80") "\n.entry k() { frob.u32 %r1; }", options, values,
       2, NULL, NULL, 0);
  if (!strstr(log, "line 5")) fail_msg("%s", log);
  CODE(209, cuLibraryLoadData, LOAD, &l, "\177ELF\2\1\1", NULL, NULL, 0,
       NULL, NULL, 0);
  CODE(1, cuLibraryLoadData, LOAD, NULL, text, NULL, NULL, 0, NULL, NULL, 0);
  OK(cuLibraryLoadData, LOAD, &l, text, NULL, NULL, 0, NULL, NULL, 0);
  OK(cuLibraryGetKernel, (vp *, vp, const char *), &k, l, "k");
  OK(cuLibraryGetKernel, (vp *, vp, const char *), &same, l, "k");
  assert_ptr_equal(k, same);
  CODE(500, cuLibraryGetKernel, (vp *, vp, const char *), &same, l, "z");
  CODE(400, cuLibraryGetKernel, (vp *, vp, const char *), &same, k, "k");
  /* launched by the kernel's handle, in two contexts */
  OK(cuLaunchKernel, LAUNCH, k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
  assert_int_equal(word_of(l), 42);
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &old);
  OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &own, NULL, 0, 0);
  assert_int_equal(word_of(l), 41);
  OK(cuLaunchKernel, LAUNCH, k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
  OK(cuKernelGetFunction, (vp *, vp), &f, k);
  OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
  assert_int_equal(word_of(l), 43);
  OK(cuLibraryGetModule, (vp *, vp), &m, l);
  OK(cuModuleGetFunction, (vp *, vp, const char *), &g, m, "k");
  assert_ptr_equal(f, g);
  CODE(400, cuModuleUnload, (vp), m); /* the library's, not the caller's */
  CODE(500, cuLibraryGetGlobal, (u64 *, size_t *, vp, const char *), &p,
       &bytes, l, "k");
  CODE(400, cuLibraryGetModule, (vp *, vp), &m, k);
  CODE(400, cuKernelGetFunction, (vp *, vp), &f, l);
  OK(cuCtxDestroy_v2, (rcuda_ctx_t *), own);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), old);
  /* attributes by device, without a context there */
  OK(cuKernelGetAttribute, (int *, int, vp, int), &n,
     RCUDA_FUNC_SHARED_BYTES, k, 0);
  assert_int_equal(n, 1000);
  OK(cuKernelSetAttribute, (int, int, vp, int),
     RCUDA_FUNC_MAX_DYNAMIC_SHARED, 100000, k, 0);
  OK(cuKernelGetAttribute, (int *, int, vp, int), &n,
     RCUDA_FUNC_MAX_DYNAMIC_SHARED, k, 0);
  assert_int_equal(n, 100000);
  OK(cuKernelGetAttribute, (int *, int, vp, int), &n,
     RCUDA_FUNC_MAX_DYNAMIC_SHARED, k, 1);
  assert_int_equal(n, 49152 - 1000);
  CODE(1, cuKernelSetAttribute, (int, int, vp, int),
       RCUDA_FUNC_MAX_DYNAMIC_SHARED, 300000, k, 0);
  CODE(101, cuKernelGetAttribute, (int *, int, vp, int), &n, 0, k, 9);
  OK(cuLaunchKernel, LAUNCH, k, 1, 1, 1, 1, 1, 1, 100000, NULL, NULL, NULL);
  SYNC(0);
  OK(cuLibraryUnload, (vp), l);
  CODE(400, cuLibraryUnload, (vp), l);
  CODE(400, cuLaunchKernel, LAUNCH, k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static size_t dynamic_of(int threads) { return (size_t)threads * 512; }

/* Of an h100: 132 SMs of 64 warps, 32 blocks, 228 KiB of shared memory, of
   which each block takes 1 KiB more. */
static void occupancy(void **state) {
  (void)state;
  vp m = NULL, k = NULL, wide = NULL;
  int grid = 0, block = 0, clusters = 0;
  OK(cuModuleLoadData, (vp *, const void *), &m, text);
  OK(cuModuleGetFunction, (vp *, vp, const char *), &k, m, "k");
  OK(cuModuleGetFunction, (vp *, vp, const char *), &wide, m, "wide");
#define SIZE (int *, int *, vp, vp, size_t, int)
  OK(cuOccupancyMaxPotentialBlockSize, SIZE, &grid, &block, wide, NULL, 0, 0);
  assert_int_equal(block, 1024); /* 2 of 32 warps fill an SM */
  assert_int_equal(grid, 2 * 132);
  OK(cuOccupancyMaxPotentialBlockSize, SIZE, &grid, &block, k, NULL, 0, 0);
  assert_int_equal(block, 256); /* .maxntid */
  assert_int_equal(grid, 8 * 132);
  OK(cuOccupancyMaxPotentialBlockSize, SIZE, &grid, &block, wide, NULL, 0,
     100);
  assert_int_equal(block, 64); /* 21 of 3 warps are 63; 32 of 2 are 64 */
  assert_int_equal(grid, 32 * 132);
  /* 512 bytes a thread: of 228 KiB, one block of 448 threads takes 225 and
     two of 224 take 226; 13 of 32 hold 416 threads, 6 of 64 hold 384 */
  OK(cuOccupancyMaxPotentialBlockSizeWithFlags,
     (int *, int *, vp, vp, size_t, int, unsigned), &grid, &block, wide,
     (vp)(uintptr_t)dynamic_of, 0, 0, 0);
  assert_int_equal(grid / 132 * block, 448);
  CODE(400, cuOccupancyMaxPotentialBlockSize, SIZE, &grid, &block, m, NULL, 0,
       0);
  CODE(1, cuOccupancyMaxPotentialBlockSizeWithFlags,
       (int *, int *, vp, vp, size_t, int, unsigned), &grid, &block, wide,
       NULL, 0, 0, 7);
  rcuda_launch_attr_t cluster = {.id = RCUDA_LAUNCH_CLUSTER,
                                 .value.cluster = {4, 1, 1}};
  rcuda_launch_config_t c = {{64, 1, 1}, {1024, 1, 1}, 0, NULL, &cluster, 1};
  OK(cuOccupancyMaxActiveClusters, (int *, vp, const void *), &clusters, wide,
     &c);
  assert_int_equal(clusters, 2 * 132 / 4);
  cluster.value.cluster[0] = 16;
  CODE(912, cuOccupancyMaxActiveClusters, (int *, vp, const void *),
       &clusters, wide, &c);
  CODE(1, cuOccupancyMaxActiveClusters, (int *, vp, const void *), &clusters,
       wide, NULL);
  OK(cuModuleUnload, (vp), m);
  all_were_made("library");
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100,devices:2");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(libraries),
                                     cmocka_unit_test(occupancy)};
  return cmocka_run_group_tests_name("simgpu.library", tests, setup, NULL);
}
