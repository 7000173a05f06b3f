/* cuda_dl.h: the vendor's libraries, opened at run time from the places that
 * cuda_find.h lists.
 *
 * Opened libraries are never unloaded while a table of them is in use; the
 * holder closes. */
#ifndef TDSL_RUNTIME_CUDA_DL_H
#define TDSL_RUNTIME_CUDA_DL_H

#include "runtime/cuda/cuda_find.h"
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

/* The same without a word: what was tried is told.  Of the driver, *missing
 * is the first function that it has to have and lacks, or NULL. */
bool rcuda_driver_find(td_arena_t *arena, const char *path,
                       rcuda_attempts_t *attempts, rcuda_driver_t *out,
                       const char **out_missing);
void *rcuda_nvrtc_find(td_arena_t *arena, void **builtins,
                       rcuda_attempts_t *attempts, const char **out_path);

#endif
