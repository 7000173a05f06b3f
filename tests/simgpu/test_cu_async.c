/* Whole pipelines in CUDA C: three stages of cp.async, and a producer thread
   of tensor copies with a consuming warpgroup. The right kernels must agree
   with sums on the host in every mode and give no finding; every mutant must
   be named. */
#include "cu_lab.h"

enum { M = 100, N = 72, K = 400 };

typedef struct mutant_t {
  unsigned number;
  const char *ids; /* one of these */
} mutant_t;

static const mutant_t cp_mutants[] = {
    {1, "async.early"},
    {2, "async.early"},
    {3, "race.shared|race.warp|async.early"},
    {4, "mem.bounds"},
    {5, "async.early"},
    {6, "async.group"}};

static const mutant_t tma_mutants[] = {
    {1, "mbar.tx|async.early"},
    {2, "init.use|async.early|race.shared|hang|async.source"},
    {3, "mbar.arrive|mbar.phase|race.shared|async.early|async.source"},
    {4, "proxy.fence"},
    {5, "async.exit"},
    {6, "race.shared|async.source"},
    {7, "mbar.init"},
    {8, "async.group"},
    {9, "mbar.arrive|mbar.phase|race.shared|hang|async.source"},
    {10, "hang"},
    {11, "race.shared"},
    {12, "async.source"}};

static const mutant_t pair_mutants[] = {
    {1, "mbar.tx|async.early"},
    {3, "mbar.arrive|mbar.phase|race.shared|async.early|async.source"},
    {6, "race.shared|async.source"},
    {7, "mbar.init"},
    {9, "mbar.arrive|mbar.phase|race.shared|hang|async.source"},
    {10, "hang"},
    {13, "cluster.exit|async.exit"}};

static char *compile(const cu_nvrtc_t *n, const char *file, const char *arch,
                     unsigned cluster, unsigned mutant) {
  char path[512], define[32], target[64], clusters[32];
  snprintf(clusters, sizeof clusters, "-DCLUSTER=%u", cluster);
  snprintf(path, sizeof path, TDSL_TESTS_DIR "/simgpu/kernels/%s", file);
  snprintf(define, sizeof define, "-DMUTANT=%u", mutant);
  snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("%s cannot be read", path);
  static char text[65536];
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  const char *options[] = {target, define, "--fmad=false", "-lineinfo",
                           "--std=c++17", clusters};
  void *program = NULL;
  size_t bytes = 0;
  assert_int_equal(n->create(&program, text, file, 0, NULL, NULL), 0);
  if (n->compile(program, 6, options)) {
    n->log_bytes(program, &bytes);
    char *log = calloc(1, bytes + 1);
    n->log(program, log);
    fail_msg("%s: %s", file, log);
  }
  assert_int_equal(n->ptx_bytes(program, &bytes), 0);
  char *ptx = calloc(1, bytes + 1);
  assert_int_equal(n->ptx(program, ptx), 0);
  n->destroy(&program);
  return ptx;
}

/* Small integers: every sum is exact in f32 and as bfloat16. */
static int value(unsigned which, unsigned i, unsigned k) {
  return (int)((i * 7 + k * (which ? 5 : 3) + i * k % 11) % 9) - 4;
}

static float c[M * N];

static unsigned wrong(void) {
  unsigned count = 0;
  for (unsigned i = 0; i < M; i++)
    for (unsigned j = 0; j < N; j++) {
      int sum = 0;
      for (unsigned k = 0; k < K; k++) sum += value(0, i, k) * value(1, j, k);
      if (!(c[i * N + j] == (float)sum)) count++;
    }
  return count;
}

static int run_cp(lab_t *lab, const char *ptx) {
  static float a[M * K], b[K * N];
  for (unsigned k = 0; k < K; k++) {
    for (unsigned i = 0; i < M; i++) a[i * K + k] = (float)value(0, i, k);
    for (unsigned j = 0; j < N; j++) b[k * N + j] = (float)value(1, j, k);
  }
  uint64_t pa = lab_copy_in(lab, a, sizeof a);
  uint64_t pb = lab_copy_in(lab, b, sizeof b);
  uint64_t pc = lab_alloc(lab, sizeof c);
  int m = M, n = N, k = K;
  void *params[] = {&pa, &pb, &pc, &m, &n, &k};
  rcuda_func_t *f = lab_func(lab, lab_load(lab, ptx), "gemm");
  int code = lab->cuLaunchKernel(f, (N + 31) / 32, (M + 31) / 32, 1, 128, 1,
                                 1, 0, NULL, params, NULL);
  if (!code) code = lab->cuCtxSynchronize();
  return code ? code : lab->cuMemcpyDtoH_v2(c, pc, sizeof c);
}

static uint16_t bf16_of(int v) {
  float f = (float)v;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return (uint16_t)(bits >> 16);
}

static void make_map(lab_t *lab, rcuda_tensor_map_t *map, uint64_t address,
                     int type, unsigned bytes, uint64_t rows, uint64_t width,
                     unsigned box_rows, unsigned box_width, int swizzle) {
  uint64_t dims[] = {width, rows}, strides[] = {width * bytes};
  unsigned box[] = {box_width, box_rows}, steps[] = {1, 1};
  assert_int_equal(lab->cuTensorMapEncodeTiled(
                       map, type, 2, (void *)(uintptr_t)address, dims,
                       strides, box, steps, 0, swizzle, 2, 0),
                   0);
}

static int run_map(lab_t *lab, const char *ptx, unsigned box_b) {
  static uint16_t a[M * K], b[N * K];
  rcuda_tensor_map_t ma, mb, mc;
  for (unsigned k = 0; k < K; k++) {
    for (unsigned i = 0; i < M; i++) a[i * K + k] = bf16_of(value(0, i, k));
    for (unsigned j = 0; j < N; j++) b[j * K + k] = bf16_of(value(1, j, k));
  }
  uint64_t pa = lab_copy_in(lab, a, sizeof a);
  uint64_t pb = lab_copy_in(lab, b, sizeof b);
  uint64_t pc = lab_alloc(lab, sizeof c);
  make_map(lab, &ma, pa, RCUDA_TENSOR_BF16, 2, M, K, 64, 64, 3);
  make_map(lab, &mb, pb, RCUDA_TENSOR_BF16, 2, N, K, box_b, 64, 3);
  make_map(lab, &mc, pc, RCUDA_TENSOR_F32, 4, M, N, 64, 32, 0);
  int k = K;
  void *params[] = {&ma, &mb, &mc, &k};
  rcuda_func_t *f = lab_func(lab, lab_load(lab, ptx), "gemm");
  int code = lab->cuLaunchKernel(f, (N + 31) / 32, (M + 63) / 64, 1, 160, 1,
                                 1, 0, NULL, params, NULL);
  if (!code) code = lab->cuCtxSynchronize();
  return code ? code : lab->cuMemcpyDtoH_v2(c, pc, sizeof c);
}

static int run_tma(lab_t *lab, const char *ptx) {
  return run_map(lab, ptx, 32);
}

/* A block loads half of B's tile. */
static int run_pair(lab_t *lab, const char *ptx) {
  return run_map(lab, ptx, 16);
}

typedef struct suite_t {
  const char *file, *arch, *model;
  int (*run)(lab_t *lab, const char *ptx);
  const mutant_t *mutants;
  size_t count;
  uint64_t bytes; /* of asynchronous copies */
  unsigned cluster;
} suite_t;

/* Bytes by hand. cp.async reads what lies in A and B: for each of the 3
   column blocks all of A, for each of the 4 row blocks all of B. Tensor copies
   count whole boxes: 2 x 3 blocks of 7 tiles, and the result's boxes. */
static const suite_t suites[] = {
    {"pipeline_cp.cu", "compute_80", "a100", run_cp, cp_mutants,
     sizeof cp_mutants / sizeof *cp_mutants,
     3u * M * K * 4 + 4u * K * N * 4, 1},
    {"pipeline_cp.cu", "compute_90", "h100", run_cp, cp_mutants,
     sizeof cp_mutants / sizeof *cp_mutants,
     3u * M * K * 4 + 4u * K * N * 4, 1},
    {"pipeline_tma.cu", "compute_90a", "h100", run_tma, tma_mutants,
     sizeof tma_mutants / sizeof *tma_mutants,
     6u * (7 * (64 + 32) * 64 * 2 + 64 * 32 * 4), 1},
    {"pipeline_tma.cu", "compute_90a", "h100", run_pair, pair_mutants,
     sizeof pair_mutants / sizeof *pair_mutants,
     6u * (7 * (64 + 32) * 64 * 2 + 64 * 32 * 4), 2}};

static bool is_named(const char *report, const char *ids) {
  char id[64];
  while (*ids) {
    size_t n = strcspn(ids, "|");
    snprintf(id, sizeof id, "\"id\":\"%.*s\"", (int)n, ids);
    if (strstr(report, id)) return true;
    ids += n + (ids[n] == '|');
  }
  return false;
}

static int child(const cu_nvrtc_t *n, const suite_t *s) {
  static const char *const modes[] = {
      "async:late,order:rr",
      "async:immediate,order:rr",
      "async:random,order:random,seed:3",
      "async:late,order:reverse",
      "async:random,order:random,seed:7",
      "async:late,order:rr,preempt:50"};
  char conf[128], report[8192];
  int failed = 0;
  lab_t lab;
  snprintf(conf, sizeof conf, "model:%s", s->model);
  lab_open(&lab, conf);
  char *ptx = compile(n, s->file, s->arch, s->cluster, 0);
  for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
    assert_int_equal(lab.simgpu_configure(modes[k]), 0);
    lab_renew(&lab);
    int code = s->run(&lab, ptx);
    unsigned bad = code ? 0 : wrong();
    lab_report(&lab, report, sizeof report);
    if (code || bad || report[0]) {
      printf("%s %s: %d, %u wrong %s\n", s->file, modes[k], code, bad,
             report);
      failed++;
    } else if (lab_counter(&lab, "async.bytes") != s->bytes) {
      printf("%s: %llu bytes, not %llu\n", s->file,
             (unsigned long long)lab_counter(&lab, "async.bytes"),
             (unsigned long long)s->bytes);
      failed++;
    }
  }
  free(ptx);
  lab.simgpu_configure("preempt:0");
  for (size_t k = 0; k < s->count; k++) {
    ptx = compile(n, s->file, s->arch, s->cluster, s->mutants[k].number);
    for (size_t mode = 0; mode < 4; mode++) {
      lab.simgpu_configure(modes[mode]);
      lab_renew(&lab);
      int code = s->run(&lab, ptx);
      lab_report(&lab, report, sizeof report);
      if (code && is_named(report, s->mutants[k].ids)) continue;
      printf("%s %s mutant %u is not caught by %s: %d %s\n", s->file,
             modes[mode], s->mutants[k].number, s->mutants[k].ids, code,
             report);
      failed++;
    }
    free(ptx);
  }
  fflush(stdout);
  return failed;
}

static void all(void **state) {
  (void)state;
  cu_nvrtc_t n;
  int failed = 0;
  if (!cu_nvrtc_open(&n)) skip();
  for (size_t k = 0; k < sizeof suites / sizeof *suites; k++) {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(child(&n, &suites[k]) != 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    failed += !WIFEXITED(status) || WEXITSTATUS(status);
  }
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
  return cmocka_run_group_tests_name("simgpu.cu_async", tests, NULL, NULL);
}
