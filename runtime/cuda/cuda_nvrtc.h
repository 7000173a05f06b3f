/* cuda_nvrtc.h: CUDA C to PTX and machine code. */
#ifndef TDSL_RUNTIME_CUDA_NVRTC_H
#define TDSL_RUNTIME_CUDA_NVRTC_H

#include "runtime/cuda/cuda_dl.h"
#include "runtime/hal/cache.h"
#include "runtime/plan/plan.h"

typedef struct rcuda_source {
  const char *text;  /* NUL-terminated ASCII */
  const char *name;  /* of the module; for messages */
  const char *arch;  /* "sm_90a"; an older one is taken if NVRTC lacks it */
  bool has_lines;    /* .loc lines in the output */
  const plan_t *plan; /* whose files #line names mean; or NULL */
} rcuda_source_t;

/* All in the arena given. */
typedef struct rcuda_code {
  const char *arch; /* it was made for */
  size_t ptx_bytes, cubin_bytes;
  const char *ptx;  /* NUL-terminated */
  const void *cubin;
  const char *log;  /* "" unless the compiler had something to say */
} rcuda_code_t;

/* What decides the code besides the text, for the key of a cache: fields
 * nvrtc, arch, options. */
enum { RCUDA_CODE_FIELDS = 3 };
void rcuda_code_fields(td_arena_t *arena, const rcuda_nvrtc_t *nvrtc,
                       const rcuda_source_t *source,
                       hal_field_t out[RCUDA_CODE_FIELDS]);

/* False after B06 at the program's line.  May be called from several threads
 * with tasks of their own. */
bool rcuda_compile(td_task_t *task, td_arena_t *arena,
                   const rcuda_nvrtc_t *nvrtc, const rcuda_source_t *source,
                   rcuda_code_t *out);

#endif
