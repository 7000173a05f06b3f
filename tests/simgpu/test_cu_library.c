/* Correct kernels made with the vendor's C++ library (barriers, asynchronous
   copies, pipelines): no finding and right sums, in every mode. */
#include "cu_lab.h"

enum { TILES = 20, WIDTH = 128 };

static const struct {
  const char *arch, *model;
} machines[] = {{"compute_80", "a100"}, {"compute_90", "h100"}};

static bool has_library(char *folder, size_t bytes) {
  const char *include = cu_include();
  char header[400];
  if (!include) return false;
  snprintf(folder, bytes, "-I%s/cccl", include);
  snprintf(header, sizeof header, "%s/cuda/barrier", folder + 2);
  return access(header, R_OK) == 0;
}

static char *compile(const cu_nvrtc_t *n, const char *arch,
                     const char *folder) {
  char target[64], include[300];
  static char text[32768];
  FILE *f = fopen(TDSL_TESTS_DIR "/simgpu/kernels/library.cu", "rb");
  if (!f) fail_msg("library.cu cannot be read");
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
  snprintf(include, sizeof include, "-I%s", cu_include());
  const char *options[] = {target, "--std=c++17", "-lineinfo", include,
                           folder};
  void *program = NULL;
  size_t bytes = 0;
  assert_int_equal(n->create(&program, text, "library.cu", 0, NULL, NULL), 0);
  if (n->compile(program, 5, options)) {
    n->log_bytes(program, &bytes);
    char *log = calloc(1, bytes + 1);
    n->log(program, log);
    fail_msg("%s: %s", arch, log);
  }
  assert_int_equal(n->ptx_bytes(program, &bytes), 0);
  char *ptx = calloc(1, bytes + 1);
  assert_int_equal(n->ptx(program, ptx), 0);
  n->destroy(&program);
  return ptx;
}

static int child(const cu_nvrtc_t *n, unsigned which, const char *folder) {
  static const char *const modes[] = {
      "async:late,order:rr", "async:immediate,order:reverse",
      "async:random,order:random,seed:5", "async:late,order:rr,preempt:40",
      "async:immediate,order:rr,preempt:0"};
  static const char *const kernels[] = {"meet", "copy", "pipe", "pipe_block"};
  static uint32_t in[TILES * WIDTH], out[WIDTH];
  char conf[64], report[4096];
  int failed = 0;
  lab_t lab;
  snprintf(conf, sizeof conf, "model:%s", machines[which].model);
  lab_open(&lab, conf);
  for (uint32_t i = 0; i < TILES * WIDTH; i++) in[i] = i * 2654435761u;
  char *ptx = compile(n, machines[which].arch, folder);
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
      assert_int_equal(lab.simgpu_configure(modes[m]), 0);
      lab_renew(&lab);
      uint64_t pin = lab_copy_in(&lab, in, sizeof in);
      uint64_t pout = lab_alloc(&lab, sizeof out);
      void *params[] = {&pin, &pout};
      rcuda_func_t *f = lab_func(&lab, lab_load(&lab, ptx), kernels[k]);
      int code = lab_launch(&lab, f, 1, WIDTH, 0, params);
      unsigned bad = 0;
      if (!code) {
        lab_copy_out(&lab, out, pout, sizeof out);
        for (uint32_t t = 0; t < WIDTH; t++) {
          uint32_t sum = 0;
          for (uint32_t i = 0; i < TILES; i++)
            sum += in[i * WIDTH + (t + 37) % WIDTH];
          bad += sum != out[t];
        }
      }
      if (!code && !bad && !lab.report_count()) continue;
      printf("%s on %s, %s: %d, %u wrong %s\n", kernels[k],
             machines[which].model, modes[m], code, bad,
             lab_report(&lab, report, sizeof report));
      failed++;
    }
  }
  free(ptx);
  fflush(stdout);
  return failed;
}

static void all(void **state) {
  (void)state;
  char folder[320];
  cu_nvrtc_t n;
  int failed = 0;
  if (!cu_nvrtc_open(&n) || !has_library(folder, sizeof folder)) skip();
  for (unsigned k = 0; k < sizeof machines / sizeof *machines; k++) {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(child(&n, k, folder) != 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    failed += !WIFEXITED(status) || WEXITSTATUS(status);
  }
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
  return cmocka_run_group_tests_name("simgpu.cu_library", tests, NULL, NULL);
}
