/* cuda_dl.c: see cuda_dl.h. */
#include "runtime/cuda/cuda_dl.h"

#include "runtime/base/env.h"

/* ---- opening ------------------------------------------------------------- */

/* NVRTC loads its builtins by name and fails with a bare code if the loader
 * does not find them; having them open already is enough. */
static void *open_builtins(td_arena_t *arena, const char *path) {
  if (strchr(path, '/') == NULL) return NULL;
  rcuda_names_t names = {0};
  const char *folder = td_os_folder_of(arena, path);
  /* links lead to folders where the builtins need not be linked too */
  const char *real = td_os_real_path(arena, path);
  rcuda_add_matches(arena, &names, td_arena_printf(
      arena, "%s/libnvrtc-builtins.so.[0-9]*", folder));
  if (real != NULL) {
    rcuda_add_matches(arena, &names,
                      td_arena_printf(arena, "%s/libnvrtc-builtins.so.[0-9]*",
                                      td_os_folder_of(arena, real)));
  }
  for (size_t i = 0; i < names.length; i++) {
    void *library = td_os_dlopen(arena, names.data[i], NULL);
    if (library != NULL) return library;
  }
  return NULL;
}

/* `needed`: a symbol without which it is not the library meant. */
static void *open_first(td_arena_t *arena, const rcuda_names_t *names,
                        const char *needed, void **builtins,
                        rcuda_attempts_t *attempts, const char **out_path) {
  for (size_t i = 0; i < names->length; i++) {
    rcuda_attempt_t a = {names->data[i], NULL};
    if (builtins != NULL) *builtins = open_builtins(arena, a.name);
    void *library = td_os_dlopen(arena, a.name, &a.reason);
    if (library != NULL && td_os_dlsym(library, needed) == NULL) {
      td_os_dlclose(library);
      library = NULL;
      a.reason = td_arena_printf(arena, "has no %s", needed);
    }
    td_vec_push(arena, attempts, a);
    if (library != NULL) {
      *out_path = a.name;
      return library;
    }
    if (builtins != NULL) td_os_dlclose(*builtins);
  }
  return NULL;
}

static void note_attempts(td_diag_t *d, const rcuda_attempts_t *attempts) {
  for (size_t i = 0; i < attempts->length; i++) {
    td_diag_note(d, "looked for %s: %s", attempts->data[i].name,
                 rcuda_attempt_text(&attempts->data[i]));
  }
}

/* ---- the driver ---------------------------------------------------------- */

bool rcuda_driver_find(td_arena_t *arena, const char *path,
                       rcuda_attempts_t *attempts, rcuda_driver_t *out,
                       const char **out_missing) {
  rcuda_names_t names = {0};
  memset(out, 0, sizeof *out);
  *out_missing = NULL;
  if (path == NULL) path = td_env_set(TD_ENV_LIBCUDA);
  if (path != NULL) td_vec_push(arena, &names, path);
  else rcuda_driver_names(arena, &names);
  out->library =
      open_first(arena, &names, "cuInit", NULL, attempts, &out->path);
  if (out->library == NULL) return false;
  /* POSIX makes a pointer to data hold one to a function */
#define RCUDA_SYM_OPTIONAL(member, name, ...)                         \
  do {                                                                \
    void *at = td_os_dlsym(out->library, name);                       \
    memcpy(&out->member, &at, sizeof at);                             \
  } while (0);
#define RCUDA_SYM(member, name, ...)                                  \
  RCUDA_SYM_OPTIONAL(member, name, __VA_ARGS__)                       \
  if (out->member == NULL && *out_missing == NULL) {                  \
    *out_missing = (name);                                            \
  }
#include "runtime/cuda/cuda_syms.def"
  return true;
}

bool rcuda_driver_open(td_task_t *task, td_arena_t *arena, const char *path,
                       rcuda_driver_t *out) {
  rcuda_attempts_t attempts = {0};
  const char *missing = NULL;
  bool found = rcuda_driver_find(arena, path, &attempts, out, &missing);
  if (found && missing == NULL) return true;
  if (!found) {
    td_diag_t *d = td_diag(task, TD_B05, TD_NO_LOC,
                           path == NULL
                               ? "the CUDA driver's library cannot be loaded"
                               : "the simulated GPU's library cannot be "
                                 "loaded");
    note_attempts(d, &attempts);
    td_diag_help(d, path == NULL ? "TDSL_LIBCUDA names the file; --device "
                                   "sim needs no GPU"
                                 : "it is built and installed with tdslc");
    return false;
  }
  td_diag_t *d = td_diag(task, TD_B05, TD_NO_LOC, "%s has no function %s",
                         out->path, missing);
  td_diag_note(d, "the driver is older than CUDA 12");
  td_diag_help(d, "--device sim needs no driver");
  rcuda_driver_close(out);
  return false;
}

void rcuda_driver_close(rcuda_driver_t *driver) {
  td_os_dlclose(driver->library);
  driver->library = NULL;
}

/* ---- NVRTC --------------------------------------------------------------- */

void *rcuda_nvrtc_find(td_arena_t *arena, void **builtins,
                       rcuda_attempts_t *attempts, const char **out_path) {
  rcuda_names_t names = {0};
  const char *path = td_env_set(TD_ENV_LIBNVRTC);
  if (path != NULL) td_vec_push(arena, &names, path);
  else rcuda_nvrtc_names(arena, &names);
  return open_first(arena, &names, "nvrtcCompileProgram", builtins, attempts,
                    out_path);
}

bool rcuda_nvrtc_open(td_task_t *task, td_arena_t *arena, rcuda_nvrtc_t *out) {
  rcuda_attempts_t attempts = {0};
  memset(out, 0, sizeof *out);
  void *library =
      rcuda_nvrtc_find(arena, &out->builtins, &attempts, &out->path);
  if (library == NULL) {
    td_diag_t *d = td_diag(task, TD_B05, TD_NO_LOC,
                           "NVRTC, the compiler of CUDA C, cannot be loaded");
    note_attempts(d, &attempts);
    td_diag_help(d, "install the CUDA toolkit or the Python package "
                    "nvidia-cuda-nvrtc, or set TDSL_LIBNVRTC");
    return false;
  }
  out->library = library;
  const char *missing = NULL;
  void *text = td_os_dlsym(library, "nvrtcGetErrorString");
  memcpy(&out->error_text, &text, sizeof text);
  if (text == NULL) missing = "nvrtcGetErrorString";
#define RNVRTC_SYM(member, name, ...)                                 \
  do {                                                                \
    void *at = td_os_dlsym(library, name);                            \
    memcpy(&out->member, &at, sizeof at);                             \
    if (at == NULL && missing == NULL) missing = (name);              \
  } while (0);
#include "runtime/cuda/nvrtc_syms.def"
  if (missing == NULL) return true;
  td_diag(task, TD_B05, TD_NO_LOC, "%s has no function %s", out->path,
          missing);
  rcuda_nvrtc_close(out);
  return false;
}

void rcuda_nvrtc_close(rcuda_nvrtc_t *nvrtc) {
  td_os_dlclose(nvrtc->library);
  td_os_dlclose(nvrtc->builtins);
  nvrtc->library = nvrtc->builtins = NULL;
}
