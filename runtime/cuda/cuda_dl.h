/* cuda_dl.h: the vendor's libraries, opened at run time.
 *
 * Where they are looked for, in order: the knob (TDSL_LIBCUDA,
 * TDSL_LIBNVRTC), which alone counts if it is set; the loader's path, newest
 * soname first; for NVRTC the folders of Python packages and of toolkits.
 *
 * Opened libraries are never unloaded while a table of them is in use; the
 * holder closes. */
#ifndef TDSL_RUNTIME_CUDA_DL_H
#define TDSL_RUNTIME_CUDA_DL_H

#include "runtime/base/os.h"
#include "runtime/base/task.h"
#include "runtime/cuda/cuda_types.h"

typedef struct rcuda_driver {
  void *library;
  const char *path; /* as it was opened; in the arena given */
#define RCUDA_SYM(member, name, ...) rcuda_result_t (*member)(__VA_ARGS__);
#include "runtime/cuda/cuda_syms.def"
} rcuda_driver_t;

typedef struct rcuda_program_t rcuda_program_t; /* of NVRTC */

typedef struct rcuda_nvrtc {
  void *library, *builtins; /* builtins: NULL if the loader finds them */
  const char *path;
  const char *(*error_text)(int);
#define RNVRTC_SYM(member, name, ...) int (*member)(__VA_ARGS__);
#include "runtime/cuda/nvrtc_syms.def"
} rcuda_nvrtc_t;

/* path NULL: the search above.  False after B05, which says what was looked
 * for.  `arena` keeps the path. */
bool rcuda_driver_open(td_task_t *task, td_arena_t *arena, const char *path,
                       rcuda_driver_t *out);
void rcuda_driver_close(rcuda_driver_t *driver);
bool rcuda_nvrtc_open(td_task_t *task, td_arena_t *arena, rcuda_nvrtc_t *out);
void rcuda_nvrtc_close(rcuda_nvrtc_t *nvrtc);

/* For `doctor`: one line a place that was tried, with what became of it;
 * returns "13.0 (PATH)" or "not found".  `places` may be NULL. */
const char *rcuda_nvrtc_describe(td_task_t *task, td_arena_t *arena,
                                 td_buf_t *places);
const char *rcuda_driver_describe(td_task_t *task, td_arena_t *arena,
                                  td_buf_t *places);

/* Path of libtdsl_simgpu.so: beside the running program or our own library,
 * or in a `lib` folder next to it; the bare name if it is in neither. */
const char *rcuda_simulator_path(td_arena_t *arena);

#endif
