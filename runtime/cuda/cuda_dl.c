/* cuda_dl.c: see cuda_dl.h. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* dladdr */
#endif
#include "runtime/cuda/cuda_dl.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>

#include "runtime/base/env.h"
#include "runtime/base/vec.h"

typedef TD_VEC(const char *) names_t;

/* ---- where to look ------------------------------------------------------- */

/* Files that match, in the order of their names turned round, so that the
 * newest version comes first. */
static void add_matches(td_arena_t *arena, names_t *out, const char *pattern) {
  glob_t found;
  if (glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = found.gl_pathc; i > 0; i--) {
      td_vec_push(arena, out, td_arena_strdup(arena, found.gl_pathv[i - 1]));
    }
  }
  globfree(&found);
}

static void add_driver_names(td_arena_t *arena, names_t *out) {
  td_vec_push(arena, out, "libcuda.so.1");
  td_vec_push(arena, out, "libcuda.so");
}

/* Folders below which Python packages and toolkits keep libraries. */
static void add_nvrtc_names(td_arena_t *arena, names_t *out) {
  static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                        "libnvrtc.so"};
  static const char *const packages[] = {
      "/usr/lib/python3*/*-packages", "/usr/local/lib/python3*/*-packages"};
  static const char *const wheels[] = {"nvidia/cu13/lib",
                                       "nvidia/cuda_nvrtc/lib"};
  static const char *const parts[] = {"lib64", "lib",
                                      "targets/x86_64-linux/lib"};
  names_t folders = {0};
  for (size_t i = 0; i < 3; i++) td_vec_push(arena, out, sonames[i]);
  const char *venv = getenv("VIRTUAL_ENV"), *home = getenv("HOME");
  names_t roots = {0};
  if (venv != NULL && venv[0] == '/') {
    td_vec_push(arena, &roots,
                td_arena_printf(arena, "%s/lib/python3*/site-packages", venv));
  }
  if (home != NULL && home[0] == '/') {
    td_vec_push(arena, &roots, td_arena_printf(
        arena, "%s/.local/lib/python3*/site-packages", home));
  }
  for (size_t i = 0; i < 2; i++) td_vec_push(arena, &roots, packages[i]);
  for (size_t r = 0; r < roots.length; r++) {
    for (size_t w = 0; w < 2; w++) {
      td_vec_push(arena, &folders,
                  td_arena_printf(arena, "%s/%s", roots.data[r], wheels[w]));
    }
  }
  const char *kits[3] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"),
                         "/usr/local/cuda*"};
  for (size_t k = 0; k < 3; k++) {
    for (size_t p = 0; kits[k] != NULL && kits[k][0] == '/' && p < 3; p++) {
      td_vec_push(arena, &folders,
                  td_arena_printf(arena, "%s/%s", kits[k], parts[p]));
    }
  }
  for (size_t f = 0; f < folders.length; f++) {
    add_matches(arena, out, td_arena_printf(arena, "%s/libnvrtc.so.[0-9]*",
                                            folders.data[f]));
  }
}

/* ---- opening ------------------------------------------------------------- */

typedef struct attempt {
  const char *name, *reason; /* reason NULL: it was opened */
} attempt_t;

typedef TD_VEC(attempt_t) attempts_t;

/* NVRTC loads its builtins by name and fails with a bare code if the loader
 * does not find them; having them open already is enough. */
static void *open_builtins(td_arena_t *arena, const char *path) {
  if (strchr(path, '/') == NULL) return NULL;
  names_t names = {0};
  const char *folder = td_os_folder_of(arena, path);
  /* links lead to folders where the builtins need not be linked too */
  const char *real = td_os_real_path(arena, path);
  add_matches(arena, &names, td_arena_printf(
      arena, "%s/libnvrtc-builtins.so.[0-9]*", folder));
  if (real != NULL) {
    add_matches(arena, &names,
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
static void *open_first(td_arena_t *arena, const names_t *names,
                        const char *needed, void **builtins,
                        attempts_t *attempts, const char **out_path) {
  for (size_t i = 0; i < names->length; i++) {
    attempt_t a = {names->data[i], NULL};
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

/* Loader messages repeat the name in front. */
static const char *short_reason(const attempt_t *a) {
  size_t n = strlen(a->name);
  if (a->reason == NULL) return "found";
  if (strncmp(a->reason, a->name, n) == 0 && a->reason[n] == ':') {
    return a->reason + n + 1 + (a->reason[n + 1] == ' ');
  }
  return a->reason;
}

static void note_attempts(td_diag_t *d, const attempts_t *attempts) {
  for (size_t i = 0; i < attempts->length; i++) {
    td_diag_note(d, "looked for %s: %s", attempts->data[i].name,
                 short_reason(&attempts->data[i]));
  }
}

static void put_attempts(td_buf_t *out, const attempts_t *attempts) {
  for (size_t i = 0; out != NULL && i < attempts->length; i++) {
    td_buf_printf(out, "  %s: %s\n", attempts->data[i].name,
                  short_reason(&attempts->data[i]));
  }
}

/* ---- the driver ---------------------------------------------------------- */

static void *open_driver(td_arena_t *arena, const char *path,
                         attempts_t *attempts, const char **out_path) {
  names_t names = {0};
  if (path == NULL) path = td_env_set(TD_ENV_LIBCUDA);
  if (path != NULL) td_vec_push(arena, &names, path);
  else add_driver_names(arena, &names);
  return open_first(arena, &names, "cuInit", NULL, attempts, out_path);
}

bool rcuda_driver_open(td_task_t *task, td_arena_t *arena, const char *path,
                       rcuda_driver_t *out) {
  attempts_t attempts = {0};
  memset(out, 0, sizeof *out);
  void *library = open_driver(arena, path, &attempts, &out->path);
  if (library == NULL) {
    td_diag_t *d = td_diag(task, TD_B05, TD_NO_LOC,
                           "the CUDA driver's library cannot be loaded");
    note_attempts(d, &attempts);
    td_diag_help(d, "TDSL_LIBCUDA names the file; --device sim needs no GPU");
    return false;
  }
  out->library = library;
  const char *missing = NULL;
  /* POSIX makes a pointer to data hold one to a function */
#define RCUDA_SYM(member, name, ...)                                  \
  do {                                                                \
    void *at = td_os_dlsym(library, name);                            \
    memcpy(&out->member, &at, sizeof at);                             \
    if (at == NULL && missing == NULL) missing = (name);              \
  } while (0);
#include "runtime/cuda/cuda_syms.def"
  if (missing == NULL) return true;
  td_diag_t *d = td_diag(task, TD_B05, TD_NO_LOC, "%s has no function %s",
                         out->path, missing);
  td_diag_note(d, "the driver is older than CUDA 12");
  rcuda_driver_close(out);
  return false;
}

void rcuda_driver_close(rcuda_driver_t *driver) {
  td_os_dlclose(driver->library);
  driver->library = NULL;
}

const char *rcuda_driver_describe(td_task_t *task, td_arena_t *arena,
                                  td_buf_t *places) {
  attempts_t attempts = {0};
  const char *path = NULL;
  (void)task;
  void *library = open_driver(arena, NULL, &attempts, &path);
  put_attempts(places, &attempts);
  if (library == NULL) return "not found";
  void *at = td_os_dlsym(library, "cuDriverGetVersion");
  int (*version)(int *) = NULL;
  int v = 0;
  memcpy(&version, &at, sizeof at);
  const char *text = path;
  if (version != NULL && version(&v) == 0) {
    text = td_arena_printf(arena, "%d.%d (%s)", v / 1000, v % 1000 / 10, path);
  }
  td_os_dlclose(library);
  return text;
}

/* ---- NVRTC --------------------------------------------------------------- */

static void *open_nvrtc(td_arena_t *arena, void **builtins,
                        attempts_t *attempts, const char **out_path) {
  names_t names = {0};
  const char *path = td_env_set(TD_ENV_LIBNVRTC);
  if (path != NULL) td_vec_push(arena, &names, path);
  else add_nvrtc_names(arena, &names);
  return open_first(arena, &names, "nvrtcCompileProgram", builtins, attempts,
                    out_path);
}

bool rcuda_nvrtc_open(td_task_t *task, td_arena_t *arena, rcuda_nvrtc_t *out) {
  attempts_t attempts = {0};
  memset(out, 0, sizeof *out);
  void *library = open_nvrtc(arena, &out->builtins, &attempts, &out->path);
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

const char *rcuda_nvrtc_describe(td_task_t *task, td_arena_t *arena,
                                 td_buf_t *places) {
  attempts_t attempts = {0};
  const char *path = NULL;
  void *builtins = NULL;
  (void)task;
  void *library = open_nvrtc(arena, &builtins, &attempts, &path);
  put_attempts(places, &attempts);
  if (library == NULL) return "not found";
  void *at = td_os_dlsym(library, "nvrtcVersion");
  int (*version)(int *, int *) = NULL;
  int major = 0, minor = 0;
  memcpy(&version, &at, sizeof at);
  const char *text = path;
  if (version != NULL && version(&major, &minor) == 0) {
    text = td_arena_printf(arena, "%d.%d (%s)", major, minor, path);
  }
  td_os_dlclose(library);
  td_os_dlclose(builtins);
  return text;
}

/* ---- the simulated driver ------------------------------------------------ */

const char *rcuda_simulator_path(td_arena_t *arena) {
  static const char file[] = "libtdsl_simgpu.so";
  static const char anchor = 0; /* an address of ours */
  const char *folders[2] = {NULL, NULL};
  Dl_info info;
  const char *program = td_os_real_path(arena, "/proc/self/exe");
  if (dladdr(&anchor, &info) != 0 && info.dli_fname != NULL) {
    const char *self = td_os_real_path(arena, info.dli_fname);
    if (self != NULL) folders[0] = td_os_folder_of(arena, self);
  }
  if (program != NULL) folders[1] = td_os_folder_of(arena, program);
  for (int i = 0; i < 2; i++) {
    static const char *const steps[] = {"", "../", "../lib/", "../lib64/"};
    for (size_t k = 0; folders[i] != NULL && k < 4; k++) {
      const char *path =
          td_arena_printf(arena, "%s/%s%s", folders[i], steps[k], file);
      if (td_os_exists(path)) return path;
    }
  }
  return file;
}
