/* cuda_find.c: see cuda_find.h. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* dladdr */
#endif
#include "runtime/cuda/cuda_find.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/process.h"

enum { VERSION_BYTES = 16384 };

void rcuda_add_matches(td_arena_t *arena, rcuda_names_t *out,
                       const char *pattern) {
  glob_t found;
  if (glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = found.gl_pathc; i > 0; i--) {
      td_vec_push(arena, out, td_arena_strdup(arena, found.gl_pathv[i - 1]));
    }
  }
  globfree(&found);
}

/* ---- folders ------------------------------------------------------------- */

/* An absolute path that a variable holds, or NULL. */
static const char *folder_in(const char *variable) {
  const char *value = getenv(variable);
  return value != NULL && value[0] == '/' ? value : NULL;
}

/* Where Python keeps packages; patterns. */
static void add_python_roots(td_arena_t *arena, rcuda_names_t *out) {
  static const struct {
    const char *variable, *below;
  } homes[] = {{"VIRTUAL_ENV", "lib/python3*/site-packages"},
               {"CONDA_PREFIX", "lib/python3*/site-packages"},
               {"HOME", ".local/lib/python3*/site-packages"},
               {"PYENV_ROOT", "versions/*/lib/python3*/site-packages"}};
  for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
    const char *root = folder_in(homes[i].variable);
    if (root == NULL) continue;
    td_vec_push(arena, out,
                td_arena_printf(arena, "%s/%s", root, homes[i].below));
  }
  td_vec_push(arena, out, "/usr/lib/python3*/*-packages");
  td_vec_push(arena, out, "/usr/local/lib/python3*/*-packages");
}

/* Folders of packages and toolkits; lists end with NULL. */
static void add_folders(td_arena_t *arena, rcuda_names_t *out,
                        const char *const *wheels, const char *const *parts) {
  rcuda_names_t roots = {0};
  add_python_roots(arena, &roots);
  for (size_t r = 0; r < roots.length; r++) {
    for (size_t w = 0; wheels[w] != NULL; w++) {
      td_vec_push(arena, out, td_arena_printf(arena, "%s/%s", roots.data[r],
                                              wheels[w]));
    }
  }
  const char *kits[4] = {folder_in("CUDA_HOME"), folder_in("CUDA_PATH"),
                         "/usr/local/cuda*", "/opt/cuda*"};
  for (size_t k = 0; k < 4; k++) {
    for (size_t p = 0; kits[k] != NULL && parts[p] != NULL; p++) {
      td_vec_push(arena, out,
                  td_arena_printf(arena, "%s/%s", kits[k], parts[p]));
    }
  }
}

/* ---- libraries ----------------------------------------------------------- */

void rcuda_driver_names(td_arena_t *arena, rcuda_names_t *out) {
  td_vec_push(arena, out, "libcuda.so.1");
  td_vec_push(arena, out, "libcuda.so");
  td_vec_push(arena, out, "/usr/lib/wsl/lib/libcuda.so.1");
}

void rcuda_nvrtc_names(td_arena_t *arena, rcuda_names_t *out) {
  static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                        "libnvrtc.so"};
  static const char *const wheels[] = {"nvidia/cu13/lib",
                                       "nvidia/cuda_nvrtc/lib", NULL};
  static const char *const parts[] = {"lib64", "lib",
                                      "targets/*-linux/lib", NULL};
  rcuda_names_t folders = {0};
  for (size_t i = 0; i < 3; i++) td_vec_push(arena, out, sonames[i]);
  add_folders(arena, &folders, wheels, parts);
  for (size_t f = 0; f < folders.length; f++) {
    rcuda_add_matches(arena, out,
                      td_arena_printf(arena, "%s/libnvrtc.so.[0-9]*",
                                      folders.data[f]));
  }
}

const char *rcuda_library_file(td_arena_t *arena, const void *symbol,
                               const char *name) {
  Dl_info info;
  if (symbol == NULL || dladdr(symbol, &info) == 0 ||
      info.dli_fname == NULL) {
    return name;
  }
  const char *real = td_os_real_path(arena, info.dli_fname);
  return real != NULL ? real : name;
}

const char *rcuda_attempt_text(const rcuda_attempt_t *a) {
  size_t n = strlen(a->name);
  if (a->reason == NULL) return "found";
  if (strncmp(a->reason, a->name, n) == 0 && a->reason[n] == ':') {
    return a->reason + n + 1 + (a->reason[n + 1] == ' ');
  }
  return a->reason;
}

void rcuda_attempts_put(td_buf_t *out, const rcuda_attempts_t *attempts) {
  for (size_t i = 0; i < attempts->length; i++) {
    td_buf_printf(out, "  %s: %s\n", attempts->data[i].name,
                  rcuda_attempt_text(&attempts->data[i]));
  }
}

/* ---- programs ------------------------------------------------------------ */

static bool is_program(td_arena_t *arena, const char *path,
                       rcuda_attempts_t *attempts) {
  rcuda_attempt_t a = {path, NULL};
  if (!td_os_exists(path) || td_os_is_folder(path)) a.reason = "not there";
  else if (access(path, X_OK) != 0) a.reason = "may not be started";
  td_vec_push(arena, attempts, a);
  return a.reason == NULL;
}

const char *rcuda_tool_path(td_arena_t *arena, const char *name,
                            rcuda_attempts_t *attempts) {
  static const char *const wheels[] = {
      "nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "nvidia/cuda_nvdisasm/bin",
      "nvidia/cuda_cuobjdump/bin", NULL};
  static const char *const parts[] = {"bin", NULL};
  rcuda_names_t folders = {0}, found = {0};
  const char *path = getenv("PATH");
  for (const char *at = path; at != NULL && *at != '\0';) {
    size_t n = strcspn(at, ":");
    if (at[0] == '/') {
      const char *file = td_arena_printf(arena, "%.*s/%s", (int)n, at, name);
      /* PATH is long: only what is there is worth a line */
      if (td_os_exists(file)) td_vec_push(arena, &found, file);
    }
    at += n + (at[n] == ':');
  }
  if (found.length == 0) {
    rcuda_attempt_t none = {td_arena_printf(arena, "%s in PATH", name),
                            "not there"};
    td_vec_push(arena, attempts, none);
  }
  add_folders(arena, &folders, wheels, parts);
  for (size_t f = 0; f < folders.length; f++) {
    size_t before = found.length;
    const char *pattern =
        td_arena_printf(arena, "%s/%s", folders.data[f], name);
    rcuda_add_matches(arena, &found, pattern);
    if (found.length > before || strchr(folders.data[f], '*') != NULL) {
      continue;
    }
    td_vec_push(arena, &found, pattern); /* named by a variable: reported */
  }
  for (size_t i = 0; i < found.length; i++) {
    if (is_program(arena, found.data[i], attempts)) return found.data[i];
  }
  return NULL;
}

const char *rcuda_tool_version(td_task_t *task, td_arena_t *arena,
                               const char *path) {
  const char *const argv[] = {path, "--version", NULL};
  td_buf_t out;
  int status = 0;
  td_buf_init(&out, task);
  const char *version = "";
  if (td_os_run(argv, VERSION_BYTES, &out, &status) && status == 0) {
    /* "Cuda compilation tools, release 13.0, V13.0.88" */
    const char *at = strstr(out.data, ", V");
    if (at != NULL) {
      size_t n = strspn(at + 3, "0123456789.");
      version = td_arena_strndup(arena, at + 3, n);
    }
  }
  td_buf_free(&out);
  return version;
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
