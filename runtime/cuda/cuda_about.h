/* cuda_about.h: what of the vendor's software is here, for people: the rows
 * of `tdslc doctor`, and why code is handed over in the form it is. */
#ifndef TDSL_RUNTIME_CUDA_ABOUT_H
#define TDSL_RUNTIME_CUDA_ABOUT_H

#include "runtime/cuda/cuda_dl.h"

typedef struct rcuda_about_row {
  const char *key;    /* "nvrtc" */
  const char *value;  /* "13.0 (PATH)", "not found" */
  const char *places; /* "  NAME: REASON" lines: what was tried */
} rcuda_about_row_t;

typedef TD_VEC(rcuda_about_row_t) rcuda_about_t;

/* nvrtc, driver, simulator; with `all` also the GPUs, the tools, and which
 * code the driver would get.  Opens the libraries for a moment. */
void rcuda_about(td_task_t *task, td_arena_t *arena, bool all,
                 rcuda_about_t *out);

/* One sentence: which form of code suits this driver, and why.  Versions as
 * 1000 * major + 10 * minor; 0: unknown. */
const char *rcuda_choice_text(td_arena_t *arena, int nvrtc, int driver);

#endif
