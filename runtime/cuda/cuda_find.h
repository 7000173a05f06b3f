/* cuda_find.h: where the vendor's files are looked for.
 *
 * In order: the knob, which alone counts if it is set; the loader's path (or
 * PATH, for programs), newest soname first; folders of Python packages; roots
 * of toolkits. */
#ifndef TDSL_RUNTIME_CUDA_FIND_H
#define TDSL_RUNTIME_CUDA_FIND_H

#include "runtime/base/os.h"
#include "runtime/base/task.h"

typedef TD_VEC(const char *) rcuda_names_t;

/* One place that was tried. */
typedef struct rcuda_attempt {
  const char *name, *reason; /* reason NULL: it was taken */
} rcuda_attempt_t;

typedef TD_VEC(rcuda_attempt_t) rcuda_attempts_t;

/* Names to hand to the loader, in order. */
void rcuda_driver_names(td_arena_t *arena, rcuda_names_t *out);
void rcuda_nvrtc_names(td_arena_t *arena, rcuda_names_t *out);
/* Files that match, names turned round: the newest version comes first. */
void rcuda_add_matches(td_arena_t *arena, rcuda_names_t *out,
                       const char *pattern);

/* The file that an open library's symbol came from; `name` if the loader does
 * not know. */
const char *rcuda_library_file(td_arena_t *arena, const void *symbol,
                               const char *name);

/* Path of a program of the toolkit ("ptxas"), NULL if it is nowhere. */
const char *rcuda_tool_path(td_arena_t *arena, const char *name,
                            rcuda_attempts_t *attempts);
/* "13.0.88" as the program says with --version, "" if it does not. */
const char *rcuda_tool_version(td_task_t *task, td_arena_t *arena,
                               const char *path);

/* Path of libtdsl_simgpu.so: beside the running program or our own library,
 * or in a `lib` folder next to it; the bare name if it is in neither. */
const char *rcuda_simulator_path(td_arena_t *arena);

/* "found", or the loader's words without the name that they repeat. */
const char *rcuda_attempt_text(const rcuda_attempt_t *attempt);
/* "  NAME: REASON" lines. */
void rcuda_attempts_put(td_buf_t *out, const rcuda_attempts_t *attempts);

#endif
