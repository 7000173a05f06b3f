/* Whole bfloat16 kernels in CUDA C, GEMM by mma.sync and by wgmma and
   attention by wgmma, against sums in double precision; and mutants of them,
   each with the check that names its fault. */
#include "cu_lab.h"

enum { M = 128, N = 128, K = 192 };

typedef struct gemm_t {
  const char *file, *arch, *model;
  bool is_transposed; /* B is [N][K] */
  unsigned tile_n;
} gemm_t;

static const gemm_t gemms[] = {
    {"gemm_mma.cu", "compute_80", "a100", false, 64},
    {"gemm_mma.cu", "compute_90a", "h100", false, 64},
    {"gemm_wgmma.cu", "compute_90a", "h100", true, 128}};

typedef struct mutant_t {
  unsigned gemm, number;
  const char *id; /* the check, or "values" */
} mutant_t;

static const mutant_t mutants[] = {
    {0, 1, "values"},      {0, 2, "values"},      {0, 3, "async.early"},
    {0, 4, "race.shared"}, {0, 5, "warp.matrix"}, {0, 6, "init.use"},
    {2, 1, "wgmma.fence"}, {2, 2, "wgmma.regs"},  {2, 3, "wgmma.desc"},
    {2, 4, "values"},      {2, 5, "proxy.fence"}, {2, 6, "async.source"},
    {2, 7, "values"}};

static uint16_t a[M * K], b[N * K];
static float c[M * N];

static float of_bf16(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static char *compile(const cu_nvrtc_t *n, const gemm_t *g, unsigned mutant) {
  char path[512], define[32], target[64];
  snprintf(path, sizeof path, TDSL_TESTS_DIR "/simgpu/kernels/%s", g->file);
  snprintf(define, sizeof define, "-DMUTANT=%u", mutant);
  snprintf(target, sizeof target, "--gpu-architecture=%s", g->arch);
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("%s cannot be read", path);
  static char text[65536];
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  const char *options[] = {target, define, "--fmad=false", "-lineinfo",
                           "--std=c++17"};
  void *program = NULL;
  size_t bytes = 0;
  assert_int_equal(n->create(&program, text, g->file, 0, NULL, NULL), 0);
  if (n->compile(program, 5, options)) {
    n->log_bytes(program, &bytes);
    char *log = calloc(1, bytes + 1);
    n->log(program, log);
    fail_msg("%s: %s", g->file, log);
  }
  assert_int_equal(n->ptx_bytes(program, &bytes), 0);
  char *ptx = calloc(1, bytes + 1);
  assert_int_equal(n->ptx(program, ptx), 0);
  n->destroy(&program);
  return ptx;
}

/* The result of the launch; C comes back if there was one. */
static int run(lab_t *lab, const gemm_t *g, const char *ptx) {
  uint64_t pa = lab_copy_in(lab, a, sizeof a);
  uint64_t pb = lab_copy_in(lab, b, sizeof b);
  uint64_t pc = lab_alloc(lab, sizeof c);
  int m = M, n = N, k = K;
  void *params[] = {&pa, &pb, &pc, &m, &n, &k};
  rcuda_func_t *f = lab_func(lab, lab_load(lab, ptx), "gemm");
  int code = lab->cuLaunchKernel(f, N / g->tile_n, M / 64, 1, 128, 1, 1, 0,
                                 NULL, params, NULL);
  if (!code) code = lab->cuCtxSynchronize();
  if (!code) code = lab->cuMemcpyDtoH_v2(c, pc, sizeof c);
  return code;
}

static unsigned wrong(const gemm_t *g) {
  unsigned count = 0;
  for (unsigned i = 0; i < M; i++)
    for (unsigned j = 0; j < N; j++) {
      double sum = 0, size = 0;
      for (unsigned k = 0; k < K; k++) {
        float y = of_bf16(g->is_transposed ? b[j * K + k] : b[k * N + j]);
        double p = (double)of_bf16(a[i * K + k]) * (double)y;
        sum += p;
        size += fabs(p);
      }
      /* K / 16 roundings of f32 */
      if (!(fabs((double)c[i * N + j] - sum) <= size * 1e-6)) count++;
    }
  return count;
}

static int child(const cu_nvrtc_t *n, unsigned which, const char *mode) {
  const gemm_t *g = &gemms[which];
  char conf[128], report[8192], id[64];
  uint64_t state = 3;
  int failed = 0;
  lab_t lab;
  snprintf(conf, sizeof conf, "model:%s", g->model);
  lab_open(&lab, conf);
  for (unsigned k = 0; k < M * K; k++) {
    a[k] = (uint16_t)(0x3E80 + (lab_random(&state) & 0x81FF));
    b[k] = (uint16_t)(0x3E80 + (lab_random(&state) & 0x81FF));
  }
  char *ptx = compile(n, g, 0);
  for (unsigned turn = 0; turn < 3; turn++) {
    static const char *const moments[] = {"async:late", "async:immediate",
                                          "async:random"};
    if (lab.simgpu_configure(moments[turn]) || lab.simgpu_configure(mode))
      fail_msg("options");
    int code = run(&lab, g, ptx);
    unsigned bad = code ? 0 : wrong(g);
    lab_report(&lab, report, sizeof report);
    if (code || bad || report[0]) {
      printf("%s %s %s: %d, %u wrong %s\n", g->file, g->arch, moments[turn],
             code, bad, report);
      failed++;
      lab_renew(&lab);
      continue;
    }
    uint64_t flop = 2ull * M * N * K;
    if (lab_counter(&lab, "tensor_flop") != flop) {
      printf("%s: %llu operations\n", g->file,
             (unsigned long long)lab_counter(&lab, "tensor_flop"));
      failed++;
    }
  }
  /* every host instruction set gives the same bits */
  static float first[M * N];
  memcpy(first, c, sizeof c);
  for (unsigned k = 0; k < 6; k++) {
    static const char *const hosts[] = {"host:v2", "host:v3", "host:v4"};
    if (lab.simgpu_configure(hosts[k % 3])) continue; /* not this host */
    lab.simgpu_configure(k < 3 ? "arith:exact" : "arith:hw");
    int code = run(&lab, g, ptx);
    if (k == 3) memcpy(first, c, sizeof c);
    if (code || memcmp(first, c, sizeof c) != 0) {
      printf("%s %s: %d, other bits\n", g->file, hosts[k % 3], code);
      failed++;
    }
  }
  free(ptx);
  lab.simgpu_configure("async:late,arith:exact");
  for (size_t k = 0; k < sizeof mutants / sizeof *mutants; k++) {
    if (mutants[k].gemm != which) continue;
    lab_renew(&lab);
    ptx = compile(n, g, mutants[k].number);
    int code = run(&lab, g, ptx);
    lab_report(&lab, report, sizeof report);
    snprintf(id, sizeof id, "\"id\":\"%s\"", mutants[k].id);
    bool is_caught = strcmp(mutants[k].id, "values") == 0
                         ? !code && wrong(g) > M
                         : strstr(report, id) != NULL;
    if (!is_caught) {
      printf("%s mutant %u is not caught by %s: %d %s\n", g->file,
             mutants[k].number, mutants[k].id, code, report);
      failed++;
    }
    free(ptx);
  }
  fflush(stdout);
  return failed;
}

/* -- attention: 128 queries, 192 keys, 64 columns -- */

enum { QUERIES = 128, KEYS = 192, HEAD = 64 };

static uint16_t q[QUERIES * HEAD], k_[KEYS * HEAD], v_[KEYS * HEAD];
static float o[QUERIES * HEAD];

static int run_attention(lab_t *lab, const char *ptx) {
  uint64_t pq = lab_copy_in(lab, q, sizeof q);
  uint64_t pk = lab_copy_in(lab, k_, sizeof k_);
  uint64_t pv = lab_copy_in(lab, v_, sizeof v_);
  uint64_t po = lab_alloc(lab, sizeof o);
  int keys = KEYS;
  void *params[] = {&pq, &pk, &pv, &po, &keys};
  rcuda_func_t *f = lab_func(lab, lab_load(lab, ptx), "attention");
  int code = lab_launch(lab, f, QUERIES / 64, 128, 0, params);
  return code ? code : lab->cuMemcpyDtoH_v2(o, po, sizeof o);
}

static unsigned wrong_attention(void) {
  unsigned count = 0;
  for (unsigned i = 0; i < QUERIES; i++) {
    double p[KEYS], sum = 0;
    for (unsigned j = 0; j < KEYS; j++) {
      double s = 0;
      for (unsigned k = 0; k < HEAD; k++)
        s += (double)of_bf16(q[i * HEAD + k]) *
             (double)of_bf16(k_[j * HEAD + k]);
      sum += p[j] = exp(s / 8);
    }
    for (unsigned k = 0; k < HEAD; k++) {
      double want = 0, size = 0;
      for (unsigned j = 0; j < KEYS; j++) {
        double x = p[j] / sum * (double)of_bf16(v_[j * HEAD + k]);
        want += x;
        size += fabs(x);
      }
      /* probabilities were rounded to eight bits */
      double d = fabs((double)o[i * HEAD + k] - want);
      if (!(d <= size / 256 + 1e-5)) count++;
    }
  }
  return count;
}

static int attend(const cu_nvrtc_t *n) {
  static const gemm_t kernel = {"attention_wgmma.cu", "compute_90a", "h100",
                                false, 0};
  /* the first reads V as if K ran fastest, beyond the end */
  static const char *const ids[] = {"mem.bounds", "wgmma.regs",
                                    "wgmma.fence"};
  static const char *const moments[] = {"async:late", "async:immediate",
                                        "async:random,order:random"};
  char report[8192];
  uint64_t state = 11;
  int failed = 0;
  lab_t lab;
  lab_open(&lab, "model:h100");
  for (unsigned e = 0; e < QUERIES * HEAD; e++)
    q[e] = (uint16_t)(0x3E80 + (lab_random(&state) & 0x81FF));
  for (unsigned e = 0; e < KEYS * HEAD; e++) {
    k_[e] = (uint16_t)(0x3E80 + (lab_random(&state) & 0x81FF));
    v_[e] = (uint16_t)(0x3E80 + (lab_random(&state) & 0x81FF));
  }
  char *ptx = compile(n, &kernel, 0);
  for (unsigned turn = 0; turn < 3; turn++) {
    lab.simgpu_configure(moments[turn]);
    int code = run_attention(&lab, ptx);
    unsigned bad = code ? 0 : wrong_attention();
    lab_report(&lab, report, sizeof report);
    if (!code && !bad && !report[0]) continue;
    printf("attention %s: %d, %u wrong %s\n", moments[turn], code, bad,
           report);
    failed++;
    lab_renew(&lab);
  }
  free(ptx);
  lab.simgpu_configure("async:late,order:rr");
  for (unsigned m = 1; m <= 3; m++) {
    char id[64];
    lab_renew(&lab);
    ptx = compile(n, &kernel, m);
    int code = run_attention(&lab, ptx);
    lab_report(&lab, report, sizeof report);
    snprintf(id, sizeof id, "\"id\":\"%s\"", ids[m - 1]);
    if (!code || !strstr(report, id)) {
      printf("attention mutant %u is not caught by %s: %d %s\n", m,
             ids[m - 1], code, report);
      failed++;
    }
    free(ptx);
  }
  fflush(stdout);
  return failed;
}

/* -- producer and consumers that trade registers -- */

enum { LONG_K = 448 };

static uint16_t wide_a[M * LONG_K], wide_b[N * LONG_K];

static void make_map(lab_t *lab, rcuda_tensor_map_t *map, uint64_t address,
                     uint64_t rows) {
  uint64_t dims[] = {LONG_K, rows}, strides[] = {LONG_K * 2};
  unsigned box[] = {64, 128}, steps[] = {1, 1};
  assert_int_equal(lab->cuTensorMapEncodeTiled(
                       map, RCUDA_TENSOR_BF16, 2,
                       (void *)(uintptr_t)address, dims, strides, box, steps,
                       0, 3, 2, 0),
                   0);
}

static int run_specialised(lab_t *lab, const char *ptx) {
  rcuda_tensor_map_t ma, mb;
  enum { SHARED = 8 * 16384 };
  uint64_t pa = lab_copy_in(lab, wide_a, sizeof wide_a);
  uint64_t pb = lab_copy_in(lab, wide_b, sizeof wide_b);
  uint64_t pc = lab_alloc(lab, sizeof c);
  make_map(lab, &ma, pa, M);
  make_map(lab, &mb, pb, N);
  int n = N, k = LONG_K;
  void *params[] = {&ma, &mb, &pc, &n, &k};
  rcuda_func_t *f = lab_func(lab, lab_load(lab, ptx), "gemm");
  assert_int_equal(lab->cuFuncSetAttribute(f, RCUDA_FUNC_MAX_DYNAMIC_SHARED,
                                           SHARED),
                   0);
  int code = lab_launch(lab, f, 1, 384, SHARED, params);
  return code ? code : lab->cuMemcpyDtoH_v2(c, pc, sizeof c);
}

static unsigned wrong_specialised(void) {
  unsigned count = 0;
  for (unsigned i = 0; i < M; i++)
    for (unsigned j = 0; j < N; j++) {
      double sum = 0, size = 0;
      for (unsigned k = 0; k < LONG_K; k++) {
        double p = (double)of_bf16(wide_a[i * LONG_K + k]) *
                   (double)of_bf16(wide_b[j * LONG_K + k]);
        sum += p;
        size += fabs(p);
      }
      if (!(fabs((double)c[i * N + j] - sum) <= size * 1e-6)) count++;
    }
  return count;
}

static int specialise(const cu_nvrtc_t *n) {
  static const gemm_t kernel = {"gemm_ws.cu", "compute_90a", "h100", true, 0};
  static const char *const ids[] = {"hang", "wgmma.fence", "race.shared",
                                    "wgmma.regs"};
  static const char *const moments[] = {"async:late", "async:immediate",
                                        "async:random,order:random",
                                        "async:late,preempt:7"};
  char report[8192];
  uint64_t state = 21;
  int failed = 0;
  lab_t lab;
  lab_open(&lab, "model:h100");
  for (unsigned e = 0; e < M * LONG_K; e++) {
    wide_a[e] = (uint16_t)(0x3E80 + (lab_random(&state) & 0x81FF));
    wide_b[e] = (uint16_t)(0x3E80 + (lab_random(&state) & 0x81FF));
  }
  char *ptx = compile(n, &kernel, 0);
  for (unsigned turn = 0; turn < 4; turn++) {
    lab.simgpu_configure(moments[turn]);
    int code = run_specialised(&lab, ptx);
    unsigned bad = code ? 0 : wrong_specialised();
    lab_report(&lab, report, sizeof report);
    if (!code && !bad && !report[0]) continue;
    printf("gemm_ws %s: %d, %u wrong %s\n", moments[turn], code, bad,
           report);
    failed++;
    lab_renew(&lab);
  }
  free(ptx);
  lab.simgpu_configure("async:late,order:rr,preempt:0");
  for (unsigned m = 1; m <= 4; m++) {
    char id[64];
    lab_renew(&lab);
    ptx = compile(n, &kernel, m);
    int code = run_specialised(&lab, ptx);
    lab_report(&lab, report, sizeof report);
    snprintf(id, sizeof id, "\"id\":\"%s\"", ids[m - 1]);
    if (!code || !strstr(report, id)) {
      printf("gemm_ws mutant %u is not caught by %s: %d %s\n", m, ids[m - 1],
             code, report);
      failed++;
    }
    free(ptx);
  }
  fflush(stdout);
  return failed;
}

static void in_child(int (*run_all)(const cu_nvrtc_t *)) {
  cu_nvrtc_t n;
  int status = 1;
  if (!cu_nvrtc_open(&n)) skip();
  fflush(stdout);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) _exit(run_all(&n) != 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void attention(void **state) {
  (void)state;
  in_child(attend);
}

static void specialised(void **state) {
  (void)state;
  in_child(specialise);
}

static void all(void **state) {
  (void)state;
  static const char *const modes[] = {"order:rr", "order:random",
                                      "order:reverse"};
  cu_nvrtc_t n;
  int failed = 0;
  if (!cu_nvrtc_open(&n)) skip();
  for (unsigned k = 0; k < sizeof gemms / sizeof *gemms; k++) {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(child(&n, k, modes[k]) != 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    failed += !WIFEXITED(status) || WEXITSTATUS(status);
  }
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all),
                                     cmocka_unit_test(attention),
                                     cmocka_unit_test(specialised)};
  return cmocka_run_group_tests_name("simgpu.cu_gemm", tests, NULL, NULL);
}
