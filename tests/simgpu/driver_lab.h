/* Bench for tests of the driver's calls: every call is made by its exported
   name and noted, so that a program can ask whether each one of its family has
   succeeded and has failed. */
#ifndef DRIVER_LAB_H
#define DRIVER_LAB_H

#include "sim_lab.h"

typedef void (*any_t)(void);
typedef struct seen_t {
  char base[80], name[80];
  bool ok, bad;
} seen_t;

static seen_t seen[300];
static size_t seen_count;
static void *library;

static inline any_t symbol(const char *name) {
  void *p = dlsym(library, name);
  any_t fn;
  if (!p) fail_msg("%s is not exported", name);
  memcpy(&fn, &p, sizeof fn);
  return fn;
}

static inline int note(const char *name, int code) {
  for (size_t i = 0; i < seen_count; i++) {
    if (strcmp(seen[i].name, name) != 0) continue;
    seen[i].ok |= code == 0;
    seen[i].bad |= code != 0;
    return code;
  }
  fail_msg("%s is not in sim_cuda.def", name);
  return code;
}

#define CALL(name, types, ...)                                                \
  note(#name, ((int(*) types)symbol(#name))(__VA_ARGS__))
#define OK(...)         assert_int_equal(CALL(__VA_ARGS__), 0)
#define CODE(code, ...) assert_int_equal(CALL(__VA_ARGS__), code)

#define SYNC(code)                                                            \
  assert_int_equal(note("cuCtxSynchronize",                                   \
                        ((int (*)(void))symbol("cuCtxSynchronize"))()),       \
                   code)

/* SIM_CU(base, name) rows of the table. */
static inline void read_table(void) {
  static char text[40000];
  FILE *f = fopen(TDSL_SOURCE_DIR "/runtime/simgpu/sim_cuda.def", "rb");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  for (char *p = text; (p = strstr(p, "SIM_CU(cu")) != NULL; p++) {
    char *comma = strchr(p, ','), *end = strchr(p, ')');
    seen_t *s = &seen[seen_count++];
    assert_true(seen_count < 300 && comma && end && comma < end);
    snprintf(s->base, sizeof s->base, "%.*s", (int)(comma - p - 7), p + 7);
    do comma++;
    while (*comma == ' ' || *comma == '\n');
    snprintf(s->name, sizeof s->name, "%.*s", (int)(end - comma), comma);
  }
  assert_true(seen_count > 100);
}

typedef uint64_t u64;
typedef int (*nulls_t)(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64,
                       u64);
/* Any call with nothing but zeros. */
static inline int zeros(const char *name) {
  nulls_t fn = (nulls_t)symbol(name);
  return fn(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static inline bool starts(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

/* Calls that work on no context. */
static inline bool is_free(const char *n) {
  return starts(n, "cuDevice") || starts(n, "cuGet") ||
         starts(n, "cuDriver") || starts(n, "cuInit") ||
         starts(n, "cuThread") || starts(n, "cuCtxCreate") ||
         starts(n, "cuCtxDestroy") || starts(n, "cuCtxPushCurrent") ||
         starts(n, "cuCtxPopCurrent") || starts(n, "cuCtxSetCurrent") ||
         starts(n, "cuCtxGetCurrent") ||
         (starts(n, "cuGraph") && !starts(n, "cuGraphInst") &&
          !starts(n, "cuGraphLaunch")) ||
         starts(n, "cuTensorMap") || starts(n, "cuMemPool") ||
         starts(n, "cuMemAddress") || starts(n, "cuMemCreate") ||
         starts(n, "cuMemRelease") || starts(n, "cuMemMap") ||
         starts(n, "cuMemUnmap") || starts(n, "cuMemSetAccess") ||
         starts(n, "cuMemGetAccess") ||
         starts(n, "cuMemGetAllocationGran") ||
         starts(n, "cuLibraryLoad") || starts(n, "cuLibraryUnload") ||
         starts(n, "cuLibraryGetKernel") || starts(n, "cuKernelGetA") ||
         starts(n, "cuKernelSetA");
}

/* No call that needs a context works without one. None may be current. */
static inline void refused_without_context(void) {
  for (size_t i = 0; i < seen_count; i++) {
    const char *n = seen[i].name;
    if (is_free(n)) continue;
    int code = note(n, zeros(n));
    if (code != 201) fail_msg("%s without a context: %d", n, code);
  }
}

/* The test program that exercises a call. */
static inline const char *family(const char *n) {
  if (starts(n, "cuMemPool") || starts(n, "cuMemAllocAsync") ||
      starts(n, "cuMemAllocFromPool") || starts(n, "cuMemFreeAsync") ||
      strstr(n, "MemPool"))
    return "pools";
  if (starts(n, "cuLibrary") || starts(n, "cuKernel") ||
      starts(n, "cuOccupancyMaxPotential") ||
      starts(n, "cuOccupancyMaxActiveClusters"))
    return "library";
  if (starts(n, "cuGraphAdd") || starts(n, "cuGraphClone") ||
      starts(n, "cuGraphGetEdges") || starts(n, "cuGraphChild") ||
      starts(n, "cuGraphInstantiateWithParams") ||
      starts(n, "cuStreamGetCaptureInfo"))
    return "graphs";
  if (starts(n, "cuTensorMap")) return "tensor";
  if (is_free(n) && starts(n, "cuMem")) return "virtual";
  if (starts(n, "cuModule") || starts(n, "cuLaunch") || starts(n, "cuFunc") ||
      starts(n, "cuStream") || starts(n, "cuEvent") || starts(n, "cuGraph") ||
      starts(n, "cuOccupancy") || starts(n, "cuThread"))
    return "driver_work";
  return "driver";
}

/* Every call of the family has succeeded and has failed. */
static inline void all_were_made(const char *who) {
  char text[4096] = "";
  for (size_t i = 0; i < seen_count; i++) {
    const seen_t *s = &seen[i];
    if ((s->ok && s->bad) || strcmp(family(s->name), who) != 0) continue;
    snprintf(text + strlen(text), sizeof text - strlen(text), " %s (%s)",
             s->name, s->ok ? "no error" : "no success");
  }
  if (text[0]) fail_msg("not exercised:%s", text);
}

typedef int (*configure_t)(const char *);
static inline int configure(const char *items) {
  return ((configure_t)symbol("simgpu_configure"))(items);
}

typedef int (*launch_t)(void *, unsigned, unsigned, unsigned, unsigned,
                        unsigned, unsigned, unsigned, void *, void **,
                        void **);
#define LAUNCH                                                                \
  (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
   unsigned, void *, void **, void **)

#define KERNEL                                                                \
  PTX_HEAD("sm_80")                                                           \
  ".visible .global .align 4 .u32 word = 41;\n"                               \
  ".visible .entry k(.param .u64 p, .param .u32 v) .maxntid 64, 1, 1 {\n"     \
  ".reg .b64 %d<3>; .reg .b32 %r<3>; .shared .b32 s[32];\n"                   \
  "ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v]; atom.global.add.u32 %r2, "   \
  "[%d1], %r1; ret; }\n"

/* How many findings name the check, and all of them forgotten. */
static inline int findings(const char *check) {
  size_t (*count)(void), (*get)(size_t, char *, size_t);
  void (*reset)(void);
  any_t a = symbol("simgpu_report_count"), b = symbol("simgpu_report_get");
  any_t c = symbol("simgpu_reset");
  char text[4096], key[64];
  int n = 0;
  memcpy(&count, &a, sizeof a);
  memcpy(&get, &b, sizeof b);
  memcpy(&reset, &c, sizeof c);
  snprintf(key, sizeof key, "\"%s\"", check);
  for (size_t i = 0; i < count(); i++) {
    get(i, text, sizeof text);
    n += strstr(text, key) != NULL;
  }
  reset();
  return n;
}

/* The library, a machine, and a current context of device 0. */
static inline int driver_setup(const char *items) {
  rcuda_ctx_t *ctx = NULL;
  setenv("TDSL_SIM_REPORT", "/dev/null", 0);
  library = dlopen(lab_driver(), RTLD_NOW);
  if (!library) return -1;
  read_table();
  assert_int_equal(configure(items), 0);
  OK(cuInit, (unsigned), 0);
  OK(cuDevicePrimaryCtxRetain, (rcuda_ctx_t **, int), &ctx, 0);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), ctx);
  return 0;
}

#endif
