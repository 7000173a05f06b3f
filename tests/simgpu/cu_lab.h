/* Kernels written by hand in CUDA C, compiled by NVRTC for several targets,
   each run on the smallest simulated machine that its target names. Every
   kernel is `name(const uint32_t *in, uint32_t *out)`; its row gives the
   shape of the launch and the function that works out, on the host and by
   another way, what must be in `out`.

   A machine's model is chosen before the driver starts, so each target runs
   in a process of its own; the parent gathers what they say. */
#ifndef CU_LAB_H
#define CU_LAB_H

#include "sim_lab.h"

#include <sys/wait.h>
#include <unistd.h>

#define CU_IN 1024 /* words of input, random */

typedef enum cu_compare_t {
  CU_EXACT,  /* words */
  CU_FLOAT,  /* f32, within `bound` of the larger of 1 and |want| */
  CU_DOUBLE, /* f64, likewise */
  CU_CHECK   /* `want` judges `out` itself and leaves it as it is */
} cu_compare_t;

typedef struct cu_row_t {
  const char *file, *name;
  unsigned grid[3], block[3], shared;
  uint32_t words; /* of out; 0 before the launch */
  void (*want)(const uint32_t *in, uint32_t *out);
  cu_compare_t compare;
  double bound;
  unsigned least; /* compute capability, 0: any */
} cu_row_t;

typedef struct cu_target_t {
  const char *arch, *model;
  unsigned cc;
} cu_target_t;

static const cu_target_t cu_targets[] = {
    {"compute_75", "t4", 75},    {"compute_80", "a100", 80},
    {"compute_86", "a10", 86},   {"compute_89", "l4", 89},
    {"compute_90a", "h100", 90}, {"compute_100", "b200", 100}};
#define CU_TARGETS (sizeof cu_targets / sizeof *cu_targets)

/* -- NVRTC, by name -- */

typedef struct cu_nvrtc_t {
  int (*create)(void **, const char *, const char *, int,
                const char *const *, const char *const *);
  int (*compile)(void *, int, const char *const *);
  int (*log_bytes)(void *, size_t *);
  int (*log)(void *, char *);
  int (*ptx_bytes)(void *, size_t *);
  int (*ptx)(void *, char *);
  int (*destroy)(void **);
} cu_nvrtc_t;

static inline bool cu_nvrtc_open(cu_nvrtc_t *n) {
  static const char *const names[] = {
      "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
      "/usr/local/cuda/lib64/libnvrtc.so"};
  const char *path = getenv("TDSL_LIBNVRTC");
  void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
  for (size_t i = 0; !library && i < 4; i++)
    library = dlopen(names[i], RTLD_NOW);
  if (!library) return false;
  static const char *const symbols[] = {
      "nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetProgramLogSize",
      "nvrtcGetProgramLog", "nvrtcGetPTXSize", "nvrtcGetPTX",
      "nvrtcDestroyProgram"};
  void *found[7];
  for (int i = 0; i < 7; i++)
    if ((found[i] = dlsym(library, symbols[i])) == NULL) return false;
  _Static_assert(sizeof *n == sizeof found, "one pointer a symbol");
  memcpy(n, found, sizeof found);
  return true;
}

/* Headers of the toolkit (halves), or NULL. */
static inline const char *cu_include(void) {
  static const char *const places[] = {"/usr/local/cuda/include",
                                       "/usr/include", "/opt/cuda/include"};
  for (size_t i = 0; i < 3; i++) {
    char file[256];
    snprintf(file, sizeof file, "%s/cuda_fp16.h", places[i]);
    if (access(file, R_OK) == 0) return places[i];
  }
  return NULL;
}

/* PTX of a file under one more option, malloc'd; fails with the log. */
static inline char *cu_compile_with(const cu_nvrtc_t *n, const char *file,
                                    const char *arch, const char *more) {
  char path[512], target[64], include[300];
  snprintf(path, sizeof path, TDSL_TESTS_DIR "/simgpu/kernels/%s", file);
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("%s cannot be read", path);
  static char text[200000];
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
  snprintf(include, sizeof include, "-I%s", cu_include());
  const char *options[] = {target, "--fmad=false", "--device-int128",
                           "-lineinfo", include, more};
  void *program = NULL;
  size_t bytes = 0;
  assert_int_equal(n->create(&program, text, file, 0, NULL, NULL), 0);
  if (n->compile(program, 6, options)) {
    n->log_bytes(program, &bytes);
    char *log = calloc(1, bytes + 1);
    n->log(program, log);
    fail_msg("%s for %s: %s", file, arch, log);
  }
  assert_int_equal(n->ptx_bytes(program, &bytes), 0);
  char *ptx = calloc(1, bytes + 1);
  assert_int_equal(n->ptx(program, ptx), 0);
  n->destroy(&program);
  return ptx;
}

static inline char *cu_compile(const cu_nvrtc_t *n, const char *file,
                               const char *arch) {
  return cu_compile_with(n, file, arch, "-DMUTANT=0");
}

/* -- comparison -- */

static inline bool cu_same(const cu_row_t *row, const uint32_t *out,
                           const uint32_t *want, uint32_t at) {
  if (row->compare == CU_FLOAT) {
    float a, b;
    memcpy(&a, out + at, 4);
    memcpy(&b, want + at, 4);
    double size = fabs((double)b) > 1 ? fabs((double)b) : 1;
    return (isnan(a) && isnan(b)) || a == b ||
           fabs((double)a - (double)b) <= row->bound * size;
  }
  if (row->compare == CU_DOUBLE) {
    double a, b;
    memcpy(&a, out + (at & ~1u), 8);
    memcpy(&b, want + (at & ~1u), 8);
    double size = fabs(b) > 1 ? fabs(b) : 1;
    return (isnan(a) && isnan(b)) || a == b ||
           fabs(a - b) <= row->bound * size;
  }
  return out[at] == want[at];
}

/* Runs a kernel on the usual input; out has row->words words. */
static inline int cu_launch(lab_t *lab, rcuda_module_t *m,
                            const cu_row_t *row, uint32_t in[CU_IN],
                            uint32_t *out) {
  uint64_t state = 77;
  for (size_t i = 0; i < CU_IN; i++) in[i] = (uint32_t)lab_random(&state);
  size_t bytes = row->words * 4u;
  memset(out, 0, bytes);
  uint64_t pin = lab_copy_in(lab, in, CU_IN * sizeof *in);
  uint64_t pout = lab_copy_in(lab, out, bytes);
  void *params[] = {&pin, &pout};
  rcuda_func_t *f = lab_func(lab, m, row->name);
  int code = 0;
  if (row->shared > 49152)
    code = lab->cuFuncSetAttribute(f, RCUDA_FUNC_MAX_DYNAMIC_SHARED,
                                   (int)row->shared);
  if (!code)
    code = lab->cuLaunchKernel(f, row->grid[0], row->grid[1], row->grid[2],
                               row->block[0], row->block[1], row->block[2],
                               row->shared, NULL, params, NULL);
  if (!code) code = lab->cuCtxSynchronize();
  if (!code) code = lab->cuMemcpyDtoH_v2(out, pout, bytes);
  if (!code) lab->cuMemFree_v2(pin);
  if (!code) lab->cuMemFree_v2(pout);
  return code;
}

/* One kernel; what is wrong with it goes to stdout. */
static inline bool cu_run(lab_t *lab, const cu_target_t *target,
                          rcuda_module_t *m, const cu_row_t *row) {
  uint32_t in[CU_IN];
  char report[4096];
  size_t bytes = row->words * 4u;
  uint32_t *out = calloc(1, bytes), *want = calloc(1, bytes);
  int code = cu_launch(lab, m, row, in, out);
  lab_report(lab, report, sizeof report);
  if (code || report[0]) {
    printf("%s %s: result %d %s\n", target->arch, row->name, code, report);
    lab_renew(lab);
    free(out);
    free(want);
    return false;
  }
  if (row->compare == CU_CHECK) memcpy(want, out, bytes);
  row->want(in, want);
  uint32_t bad = 0, first = 0;
  for (uint32_t i = row->words; i-- > 0;)
    if (!cu_same(row, out, want, i)) bad++, first = i;
  if (bad)
    printf("%s %s: %u words differ, first %u: %08x, not %08x\n",
           target->arch, row->name, bad, first, out[first], want[first]);
  free(out);
  free(want);
  return !bad;
}

/* -- inner agreement: schedules, poison, host threads and variants change
   neither bits nor counters -- */

#define CU_MODES 216 /* all, under --full; a few of them otherwise */
#define CU_ITS   72  /* of them with diverge:its too, likewise */

/* Numbers below CU_MODES have the stack, those from there on its. */
static inline void cu_mode(unsigned n, char *out, size_t bytes) {
  static const char *const orders[] = {
      "order:rr,preempt:0", "order:reverse,preempt:0",
      "order:random,preempt:0", "order:random,preempt:5"};
  static const char *const poisons[] = {"ff", "00", "random"};
  static const char *const moments[] = {"late", "immediate", "random"};
  snprintf(out, bytes,
           "host:v%u,threads:%u,poison:%s,async:%s,%s,diverge:%s,seed:%u",
           2 + n % 3, 1 + n / 3 % 2, poisons[n / 6 % 3], moments[n / 18 % 3],
           orders[n / 54 % 4], n < CU_MODES ? "stack" : "its", n + 1);
}

/* What the latest launch counted; nothing of warps that wait for each other in
   a loop, since how often they look depends on the schedule. */
static inline char *cu_counters(lab_t *lab, const cu_row_t *row) {
  char *text = calloc(1, 16384);
  lab->counters_get(lab->counters_count() - 1, text, 16384);
  char *from = strstr(text, "\"counters\":");
  if (from) memmove(text, from, strlen(from) + 1);
  static const char *const loops[] = {"grid_chain", "grid_look_back",
                                      "grid_barrier", "atom_wide",
                                      "atom_lock"};
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
    if (strcmp(row->name, loops[i]) == 0) text[0] = 0;
  return text;
}

/* Of these, what counts lanes and bytes: the same although strands issue
   instructions that a whole warp issues once. */
static inline char *cu_of_lanes(const char *counters) {
  static const char *const names[] = {
      "lane_inst", "flop.f32", "flop.f16", "flop.f64", "tensor_flop",
      "global.bytes_read", "global.bytes_written", "global.unique_read",
      "global.unique_written", "shared.bytes_read", "shared.bytes_written",
      "local.bytes", "async.bytes", "ctas", "warps"};
  char *out = calloc(1, 2048), key[64];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(key, sizeof key, "\"%s\":", names[i]);
    const char *at = strstr(counters, key);
    if (at) strncat(out, at, strcspn(at, ",}"));
  }
  return out;
}

static inline bool cu_same_counters(const char *a, const char *b,
                                    bool of_lanes) {
  char *x = of_lanes ? cu_of_lanes(a) : NULL;
  char *y = of_lanes ? cu_of_lanes(b) : NULL;
  bool same = strcmp(of_lanes ? x : a, of_lanes ? y : b) == 0;
  free(x);
  free(y);
  return same;
}

/* The rows of one file under many modes; the number of failures. */
static inline int cu_agree(lab_t *lab, const char *ptx, unsigned cc,
                           const cu_row_t *rows, size_t count,
                           unsigned salt) {
  uint32_t **first = calloc(count, sizeof *first);
  char **counted = calloc(count, sizeof *counted), mode[160];
  const char *full = getenv("TDSL_TEST_FULL");
  bool is_full = full && *full;
  unsigned most = is_full ? CU_MODES : 3, its = is_full ? CU_ITS : 1;
  int failed = 0;
  for (unsigned n = 0; n < most + its; n++) {
    uint32_t in[CU_IN];
    bool is_its = n >= most;
    unsigned number = is_its ? (n - most) * (CU_MODES / CU_ITS) + CU_MODES +
                                   (is_full ? 0 : salt * 37 % CU_MODES)
                      : is_full ? n
                                : (salt * 37 + n * 71) % CU_MODES;
    cu_mode(number, mode, sizeof mode);
    if (lab->simgpu_configure(mode)) continue; /* not on this host */
    lab_renew(lab);
    rcuda_module_t *m = lab_load(lab, ptx);
    for (size_t k = 0; k < count; k++) {
      const cu_row_t *row = &rows[k];
      char report[4096];
      if (strcmp(row->file, rows[0].file) != 0 || cc < row->least) continue;
      uint32_t *out = calloc(row->words, 4);
      int code = cu_launch(lab, m, row, in, out);
      char *text = cu_counters(lab, row);
      lab_report(lab, report, sizeof report);
      const char *what = code || report[0] ? report
                         : first[k] && memcmp(out, first[k],
                                              row->words * 4u) != 0
                             ? "other bits"
                         : counted[k] &&
                                 !cu_same_counters(text, counted[k], is_its)
                             ? "other counters"
                             : NULL;
      if (what) {
        printf("%s, %s: %d %s\n", row->name, mode, code, what);
        failed++;
      }
      if (code || report[0]) {
        lab_renew(lab);
        m = lab_load(lab, ptx);
      }
      if (first[k] || code) {
        free(out);
        free(text);
      } else {
        first[k] = out;
        counted[k] = text;
      }
    }
  }
  for (size_t k = 0; k < count; k++) {
    free(first[k]);
    free(counted[k]);
  }
  free(first);
  free(counted);
  return failed;
}

/* Whether a real GPU, if one is named, takes this target. */
static inline bool cu_suits(const cu_target_t *target) {
  lab_t lab;
  int major = 0, minor = 0;
  if (getenv("TDSL_LAB_DRIVER") == NULL) return true;
  lab_open(&lab, "");
  lab.cuDeviceGetAttribute(&major, RCUDA_DEV_CC_MAJOR, 0);
  lab.cuDeviceGetAttribute(&minor, RCUDA_DEV_CC_MINOR, 0);
  unsigned cc = (unsigned)(major * 10 + minor);
  size_t n = strlen(target->arch);
  return target->arch[n - 1] == 'a' ? cc == target->cc : cc >= target->cc;
}

/* Everything for one target, in a child: the number of failures. */
static inline int cu_child(const cu_nvrtc_t *n, const cu_target_t *target,
                           const cu_row_t *rows, size_t count,
                           const char *mode) {
  char conf[256];
  lab_t lab;
  int failed = 0;
  snprintf(conf, sizeof conf, "model:%s,budget:20000000%s%s", target->model,
           *mode ? "," : "", mode);
  lab_open(&lab, conf);
  for (size_t i = 0; i < count; i++) {
    const cu_row_t *row = &rows[i];
    if (i && strcmp(row->file, rows[i - 1].file) == 0) continue;
    char *ptx = cu_compile(n, row->file, target->arch);
    rcuda_module_t *m = lab_load(&lab, ptx);
    for (size_t k = i; k < count; k++) {
      if (strcmp(rows[k].file, row->file) != 0 ||
          target->cc < rows[k].least)
        continue;
      rcuda_ctx_t *before = lab.ctx;
      failed += !cu_run(&lab, target, m, &rows[k]);
      if (lab.ctx != before) m = lab_load(&lab, ptx); /* after a fault */
    }
    /* machines of one architecture suffice, and it has every kernel */
    if (target->cc == 90 && getenv("TDSL_LAB_DRIVER") == NULL) {
      failed += cu_agree(&lab, ptx, target->cc, row, count - i, (unsigned)i);
      lab.simgpu_configure("threads:2,poison:ff,order:rr,preempt:0,seed:1");
      lab.simgpu_configure(mode);
      lab_renew(&lab);
    }
    free(ptx);
  }
  fflush(stdout);
  lab_save_forms(); /* the child ends without its exit handlers */
  return failed;
}

/* Runs the rows for every target, each under its own schedule as well. */
static inline void cu_all(const cu_row_t *rows, size_t count) {
  static const char *const modes[CU_TARGETS] = {
      "", "order:reverse", "order:random,seed:3", "preempt:7", "",
      "order:random,preempt:13,seed:5"};
  cu_nvrtc_t n;
  if (!cu_nvrtc_open(&n) || !cu_include()) skip();
  pid_t child[CU_TARGETS];
  fflush(stdout);
  for (size_t t = 0; t < CU_TARGETS; t++) {
    child[t] = fork();
    assert_true(child[t] >= 0);
    if (child[t] == 0 && !cu_suits(&cu_targets[t])) _exit(0);
    if (child[t] == 0)
      _exit(cu_child(&n, &cu_targets[t], rows, count, modes[t]) != 0);
  }
  int failed = 0;
  for (size_t t = 0; t < CU_TARGETS; t++) {
    int status = 0;
    assert_int_equal(waitpid(child[t], &status, 0), child[t]);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
      print_error("%s failed\n", cu_targets[t].arch);
      failed++;
    }
  }
  assert_int_equal(failed, 0);
}

#endif
