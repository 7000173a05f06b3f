/* Any text as a module of the simulated GPU: it is refused or loads; what
 * loads runs, under a small budget, to an end or a finding.  Nothing may
 * crash, hang or leave memory behind, and a broken context must give way to a
 * new one. */
#include "runtime/cuda/cuda_types.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is called of libtdsl_simgpu.so, which the target links. */
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(rcuda_ctx_t **out, int device);
int cuDevicePrimaryCtxReset_v2(int device);
int cuCtxSetCurrent(rcuda_ctx_t *ctx);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(rcuda_ptr_t *out, size_t bytes);
int cuMemsetD8_v2(rcuda_ptr_t to, unsigned char value, size_t count);
int cuModuleLoadDataEx(rcuda_module_t **out, const void *image,
                       unsigned count, int *options, void **values);
int cuModuleGetFunction(rcuda_func_t **out, rcuda_module_t *module,
                        const char *name);
int cuFuncGetParamInfo(rcuda_func_t *function, size_t index, size_t *offset,
                       size_t *bytes);
int cuLaunchKernel(rcuda_func_t *function, unsigned gx, unsigned gy,
                   unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, rcuda_stream_t *stream, void **params,
                   void **extra);
int simgpu_configure(const char *items);
void simgpu_reset(void);

enum { BUFFER = 4096, MOST_PARAMS = 16, MOST_ENTRIES = 4 };

static void demand(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "fuzz_ptx: %s\n", what);
  abort();
}

/* The device and a buffer, fresh after everything that broke them. */
static rcuda_ptr_t renew(void) {
  rcuda_ctx_t *ctx = NULL;
  rcuda_ptr_t buffer = 0;
  cuDevicePrimaryCtxReset_v2(0);
  simgpu_reset();
  demand(cuDevicePrimaryCtxRetain(&ctx, 0) == 0, "no context");
  demand(cuCtxSetCurrent(ctx) == 0, "no current context");
  demand(cuMemAlloc_v2(&buffer, BUFFER) == 0, "no memory");
  demand(cuMemsetD8_v2(buffer, 1, BUFFER) == 0, "no fill");
  return buffer;
}

/* Launches the function on two blocks; every parameter of 8 bytes points to
 * the buffer, all others are small numbers. */
static void launch(rcuda_func_t *f, rcuda_ptr_t buffer) {
  static uint64_t words[MOST_PARAMS][512];
  void *params[MOST_PARAMS];
  for (size_t i = 0; i < MOST_PARAMS; i++) {
    size_t offset, bytes;
    params[i] = words[i];
    memset(words[i], 1, sizeof words[i]);
    if (cuFuncGetParamInfo(f, i, &offset, &bytes)) break;
    if (bytes > sizeof words[i] || i + 1 == MOST_PARAMS) return;
    if (bytes == 8) words[i][0] = buffer;
  }
  if (cuLaunchKernel(f, 2, 1, 1, 40, 1, 1, 0, NULL, params, NULL) == 0)
    cuCtxSynchronize();
}

/* Names behind ".entry", which need not be entries. */
static void run_entries(rcuda_module_t *module, const char *text,
                        rcuda_ptr_t buffer) {
  const char *at = text;
  for (int n = 0; n < MOST_ENTRIES; n++) {
    char name[64];
    size_t length;
    rcuda_func_t *f = NULL;
    at = strstr(at, ".entry");
    if (at == NULL) return;
    at += strlen(".entry");
    at += strspn(at, " \t\n");
    length = strcspn(at, " \t\n({");
    if (length == 0 || length >= sizeof name) continue;
    memcpy(name, at, length);
    name[length] = 0;
    if (cuModuleGetFunction(&f, module, name) == 0) launch(f, buffer);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool is_up;
  char log[256];
  int options[] = {RCUDA_JIT_ERROR_LOG, RCUDA_JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  rcuda_module_t *module = NULL;
  if (!is_up) {
    setenv("TDSL_SIM_REPORT", "/dev/null", 1);
    simgpu_configure("model:h100,threads:1,budget:20000,mem:268435456");
    demand(cuInit(0) == 0, "no driver");
    is_up = true;
  }
  char *text = malloc(size + 1);
  if (text == NULL) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  rcuda_ptr_t buffer = renew();
  int code = cuModuleLoadDataEx(&module, text, 2, options, values);
  demand(code != 0 || module != NULL, "no module and no error");
  demand(code == 0 || log[0] != 0, "refused without a word");
  if (code == 0) run_entries(module, text, buffer);
  free(text);
  return 0;
}
