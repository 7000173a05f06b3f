/* A stand-in for libcuda: every function that the run time calls, over the
   host's memory. Kernels do nothing. What a machine may do to the run time is
   set by variables:

     STAND_VERSION=12040        what cuDriverGetVersion says
     STAND_FAIL=NAME@N=CODE     the N-th call of NAME fails, @N+ also those
                                behind it, no @ every one; several by commas
     STAND_CUBIN=CODE           machine code is refused so; STAND_PTX likewise
     STAND_LOG=FILE             a line a call
     STAND_TIMES=N=MS,...       what a launch of N thread blocks takes; others
                                take 1.25 ms

   STAND_WITHOUT_LAUNCH makes a library without cuLaunchKernel, and
   STAND_WITHOUT_GRAPHS one without graphs. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda_types.h"

enum { CALLS = 128, SM_MAJOR = 9 };

typedef struct stand {
  struct {
    char name[64];
    int count;
  } calls[CALLS];
  int streams;            /* handles are numbers */
  void *capturing;        /* the stream, or NULL */
  int captured;           /* launches, copies and fills kept so far */
  int graph_nodes;        /* of the last graph */
  double now;             /* ms, of all launches so far */
} stand_t;

static stand_t *root(void) {
  static stand_t state;
  return &state;
}

static int count_call(const char *name) {
  stand_t *s = root();
  for (int i = 0; i < CALLS; i++) {
    if (s->calls[i].name[0] == '\0') {
      (void)snprintf(s->calls[i].name, sizeof s->calls[i].name, "%s", name);
    }
    if (strcmp(s->calls[i].name, name) == 0) return ++s->calls[i].count;
  }
  return 0;
}

static void note(const char *name, size_t bytes) {
  const char *path = getenv("STAND_LOG");
  FILE *f = path != NULL ? fopen(path, "ab") : NULL;
  if (f == NULL) return;
  (void)fprintf(f, "%s %zu\n", name, bytes);
  (void)fclose(f);
}

/* The code that this call has to fail with, or 0. */
static int begin(const char *name, size_t bytes) {
  int count = count_call(name);
  size_t n = strlen(name);
  note(name, bytes);
  for (const char *at = getenv("STAND_FAIL"); at != NULL && *at != '\0';) {
    const char *end = strchr(at, ',');
    if (strncmp(at, name, n) == 0 && at[n] == '=') return atoi(at + n + 1);
    bool is_it = strncmp(at, name, n) == 0 && at[n] == '@';
    const char *plus = is_it ? strchr(at, '+') : NULL;
    bool goes_on = plus != NULL && (end == NULL || plus < end);
    int first = is_it ? atoi(at + n + 1) : 0;
    if (is_it && (count == first || (goes_on && count > first))) {
      const char *equals = strchr(at, '=');
      return equals != NULL ? atoi(equals + 1) : 1;
    }
    at = end != NULL ? end + 1 : NULL;
  }
  return 0;
}

static int number(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text != NULL ? atoi(text) : otherwise;
}

#define CALL(name, bytes)          \
  do {                             \
    int code_ = begin(name, bytes); \
    if (code_ != 0) return code_;  \
  } while (0)

/* A launch, copy or fill: kept if its stream is being captured. */
static int submit(const char *name, size_t bytes, const void *stream) {
  char text[80];
  stand_t *s = root();
  bool is_kept = s->capturing != NULL && stream == s->capturing;
  (void)snprintf(text, sizeof text, "%s%s", is_kept ? "captured." : "", name);
  if (is_kept) s->captured++;
  return begin(text, bytes);
}

static void *handle(void) {
  static char place[16];
  return place;
}

/* ---- the device ---------------------------------------------------------- */

int cuGetErrorName(int code, const char **out) {
  *out = code == RCUDA_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                     : "CUDA_ERROR_STAND_IN";
  return 0;
}

int cuGetErrorString(int code, const char **out) {
  *out = code == RCUDA_OUT_OF_MEMORY ? "out of memory"
         : code == RCUDA_NO_DEVICE   ? "no CUDA-capable device is detected"
                                     : "the stand-in was told to fail";
  return 0;
}

int cuInit(unsigned flags) {
  CALL("cuInit", flags);
  return 0;
}

int cuDriverGetVersion(int *out) {
  *out = number("STAND_VERSION", 13000);
  return 0;
}

int cuDeviceGetCount(int *out) {
  CALL("cuDeviceGetCount", 0);
  *out = number("STAND_DEVICES", 1);
  return 0;
}

int cuDeviceGet(int *out, int ordinal) {
  CALL("cuDeviceGet", 0);
  *out = ordinal;
  return 0;
}

int cuDeviceGetName(char *out, int bytes, int device) {
  (void)device;
  (void)snprintf(out, (size_t)bytes, "Stand-in");
  return 0;
}

int cuDeviceGetAttribute(int *out, int attribute, int device) {
  (void)device;
  *out = attribute == RCUDA_DEV_CC_MAJOR   ? number("STAND_SM", SM_MAJOR * 10) /
                                               10
         : attribute == RCUDA_DEV_CC_MINOR ? number("STAND_SM", 0) % 10
         : attribute == RCUDA_DEV_SM_COUNT ? 4
                                           : 0;
  return 0;
}

int cuDeviceTotalMem_v2(size_t *out, int device) {
  (void)device;
  *out = (size_t)8 << 30;
  return 0;
}

int cuDevicePrimaryCtxRetain(rcuda_ctx_t **out, int device) {
  (void)device;
  CALL("cuDevicePrimaryCtxRetain", 0);
  *out = handle();
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  return begin("cuDevicePrimaryCtxRelease_v2", 0);
}

int cuCtxPushCurrent_v2(rcuda_ctx_t *context) {
  return context == NULL ? RCUDA_INVALID_CONTEXT : 0;
}

int cuCtxPopCurrent_v2(rcuda_ctx_t **out) {
  *out = handle();
  return 0;
}

/* ---- modules, launches --------------------------------------------------- */

int cuModuleLoadDataEx(rcuda_module_t **out, const void *image,
                       unsigned count, int *options, void **values) {
  const char *text = image;
  int is_elf = memcmp(text, "\177ELF", 4) == 0;
  (void)count, (void)options, (void)values;
  CALL(is_elf ? "load.cubin" : "load.ptx", 0);
  *out = NULL;
  int code = is_elf ? number("STAND_CUBIN", 0) : number("STAND_PTX", 0);
  if (code == 0) *out = handle();
  return code;
}

int cuModuleUnload(rcuda_module_t *module) {
  (void)module;
  return begin("cuModuleUnload", 0);
}

/* Registers decide how many threads a block may have. */
int cuFuncGetAttribute(int *out, int attribute, rcuda_func_t *function) {
  (void)function;
  CALL("cuFuncGetAttribute", 0);
  *out = attribute == RCUDA_FUNC_MAX_THREADS ? number("STAND_MAX_THREADS", 1024)
         : attribute == RCUDA_FUNC_REGISTERS ? 255
                                             : 0;
  return 0;
}

int cuFuncSetAttribute(rcuda_func_t *function, int attribute, int value) {
  (void)function;
  CALL("cuFuncSetAttribute", 0);
  if (attribute != RCUDA_FUNC_MAX_DYNAMIC_SHARED) return RCUDA_INVALID_VALUE;
  return value > number("STAND_MAX_SHARED", 232448) ? RCUDA_INVALID_VALUE : 0;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out,
                                                rcuda_func_t *function,
                                                int threads, size_t bytes) {
  (void)function, (void)threads, (void)bytes;
  *out = 2;
  return 0;
}

int cuModuleGetFunction(rcuda_func_t **out, rcuda_module_t *module,
                        const char *name) {
  (void)module, (void)name;
  CALL("cuModuleGetFunction", 0);
  *out = handle();
  return 0;
}

#ifndef STAND_WITHOUT_LAUNCH
static double time_of(unsigned blocks) {
  for (const char *at = getenv("STAND_TIMES"); at != NULL && *at != '\0';) {
    char *rest;
    unsigned long n = strtoul(at, &rest, 10);
    double ms = *rest == '=' ? strtod(rest + 1, &rest) : 0;
    if (n == blocks) return ms;
    at = *rest == ',' ? rest + 1 : NULL;
  }
  return 1.25;
}

int cuLaunchKernel(rcuda_func_t *function, unsigned gx, unsigned gy,
                   unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, rcuda_stream_t *stream, void **params,
                   void **extra) {
  (void)function, (void)gy, (void)gz, (void)bx, (void)by, (void)bz;
  (void)shared, (void)params, (void)extra;
  root()->now += time_of(gx);
  return submit("cuLaunchKernel", 0, stream);
}
#endif

/* ---- memory -------------------------------------------------------------- */

int cuMemAlloc_v2(rcuda_ptr_t *out, size_t bytes) {
  CALL("cuMemAlloc_v2", bytes);
  void *p = NULL;
  if (posix_memalign(&p, 512, bytes) != 0) return RCUDA_OUT_OF_MEMORY;
  memset(p, 0, bytes);
  *out = (rcuda_ptr_t)(uintptr_t)p;
  return 0;
}

int cuMemFree_v2(rcuda_ptr_t p) {
  int code = begin("cuMemFree_v2", 0);
  free((void *)(uintptr_t)p);
  return code;
}

int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  CALL("cuMemHostAlloc", bytes);
  *out = malloc(bytes);
  return *out != NULL ? 0 : RCUDA_OUT_OF_MEMORY;
}

int cuMemFreeHost(void *p) {
  int code = begin("cuMemFreeHost", 0);
  free(p);
  return code;
}

int cuMemcpyHtoDAsync_v2(rcuda_ptr_t to, const void *from, size_t bytes,
                         rcuda_stream_t *stream) {
  (void)stream;
  CALL("cuMemcpyHtoDAsync_v2", bytes);
  memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, rcuda_ptr_t from, size_t bytes,
                         rcuda_stream_t *stream) {
  (void)stream;
  CALL("cuMemcpyDtoHAsync_v2", bytes);
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return 0;
}

int cuMemcpyDtoDAsync_v2(rcuda_ptr_t to, rcuda_ptr_t from, size_t bytes,
                         rcuda_stream_t *stream) {
  int code = submit("cuMemcpyDtoDAsync_v2", bytes, stream);
  if (code != 0) return code;
  memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
  return 0;
}

int cuMemsetD8Async(rcuda_ptr_t to, unsigned char byte, size_t bytes,
                    rcuda_stream_t *stream) {
  int code = submit("cuMemsetD8Async", bytes, stream);
  if (code != 0) return code;
  memset((void *)(uintptr_t)to, byte, bytes);
  return 0;
}

/* ---- streams, events ----------------------------------------------------- */

int cuStreamCreate(rcuda_stream_t **out, unsigned flags) {
  (void)flags;
  CALL("cuStreamCreate", 0);
  *out = (rcuda_stream_t *)(uintptr_t)(0x1000 + 16 * ++root()->streams);
  return 0;
}

int cuStreamDestroy_v2(rcuda_stream_t *stream) {
  (void)stream;
  return begin("cuStreamDestroy_v2", 0);
}

int cuStreamSynchronize(rcuda_stream_t *stream) {
  (void)stream;
  return begin("cuStreamSynchronize", 0);
}

/* An event is the time at which it was recorded. */
int cuEventCreate(rcuda_event_t **out, unsigned flags) {
  CALL("cuEventCreate", flags);
  *out = calloc(1, sizeof(double));
  return *out != NULL ? 0 : RCUDA_OUT_OF_MEMORY;
}

int cuEventDestroy_v2(rcuda_event_t *event) {
  free(event);
  return begin("cuEventDestroy_v2", 0);
}

int cuEventRecord(rcuda_event_t *event, rcuda_stream_t *stream) {
  (void)stream;
  *(double *)(void *)event = root()->now;
  return begin("cuEventRecord", 0);
}

int cuEventSynchronize(rcuda_event_t *event) {
  (void)event;
  return begin("cuEventSynchronize", 0);
}

int cuEventElapsedTime(float *out, rcuda_event_t *a, rcuda_event_t *b) {
  *out = (float)(*(double *)(void *)b - *(double *)(void *)a);
  return begin("cuEventElapsedTime", 0);
}

/* ---- graphs -------------------------------------------------------------- */

#ifndef STAND_WITHOUT_GRAPHS
int cuStreamBeginCapture_v2(rcuda_stream_t *stream, int mode) {
  CALL("cuStreamBeginCapture_v2", (size_t)mode);
  root()->capturing = stream;
  root()->captured = 0;
  return 0;
}

int cuStreamEndCapture(rcuda_stream_t *stream, rcuda_graph_t **out) {
  stand_t *s = root();
  bool is_same = stream == s->capturing;
  s->capturing = NULL;
  s->graph_nodes = s->captured;
  CALL("cuStreamEndCapture", (size_t)s->captured);
  if (!is_same) return RCUDA_CAPTURE_UNMATCHED;
  *out = handle();
  return 0;
}

int cuGraphInstantiateWithFlags(rcuda_exec_t **out, rcuda_graph_t *graph,
                                unsigned long long flags) {
  (void)graph, (void)flags;
  CALL("cuGraphInstantiateWithFlags", 0);
  *out = handle();
  return 0;
}

int cuGraphLaunch(rcuda_exec_t *exec, rcuda_stream_t *stream) {
  (void)exec, (void)stream;
  return begin("cuGraphLaunch", (size_t)root()->graph_nodes);
}

int cuGraphDestroy(rcuda_graph_t *graph) {
  (void)graph;
  return begin("cuGraphDestroy", 0);
}

int cuGraphExecDestroy(rcuda_exec_t *exec) {
  (void)exec;
  return begin("cuGraphExecDestroy", 0);
}
#endif
