/* cuda_about.c: see cuda_about.h. */
#include "runtime/cuda/cuda_about.h"

enum { NAME_BYTES = 128, MOST_GPUS = 16 };

static const char *version_text(td_arena_t *arena, int version) {
  return td_arena_printf(arena, "%d.%d", version / 1000, version % 1000 / 10);
}

/* Machine code runs on every driver of its major version and on later ones;
 * PTX on drivers that are no older than what wrote it. */
const char *rcuda_choice_text(td_arena_t *arena, int nvrtc, int driver) {
  const char *n = version_text(arena, nvrtc);
  const char *d = version_text(arena, driver);
  if (nvrtc == 0 || driver == 0) {
    return "machine code first, PTX if the driver refuses it";
  }
  if (nvrtc / 1000 > driver / 1000) {
    return td_arena_printf(
        arena, "NVRTC %s is a major version ahead of the driver (CUDA %s), "
        "which may refuse both machine code and PTX: take a newer driver or "
        "NVRTC %d", n, d, driver / 1000);
  }
  if (nvrtc > driver) {
    return td_arena_printf(
        arena, "machine code: NVRTC %s is newer than the driver (CUDA %s) "
        "within one major version, so its machine code runs and its PTX is "
        "refused", n, d);
  }
  if (nvrtc < driver) {
    return td_arena_printf(
        arena, "machine code where NVRTC %s knows the GPU, else PTX of the "
        "newest one that it knows, which the newer driver (CUDA %s) compiles",
        n, d);
  }
  return td_arena_printf(
      arena, "machine code, PTX as a second choice: NVRTC and driver are of "
      "one version (CUDA %s)", d);
}

/* ---- rows ---------------------------------------------------------------- */

typedef struct about {
  td_task_t *task;
  td_arena_t *arena;
  rcuda_about_t *out;
  int nvrtc, driver; /* versions; 0: not here */
} about_t;

static void add(about_t *a, const char *key, const char *value,
                const rcuda_attempts_t *attempts) {
  td_buf_t places;
  td_buf_init(&places, a->task);
  if (attempts != NULL) rcuda_attempts_put(&places, attempts);
  rcuda_about_row_t row = {key, value, td_buf_finish(&places, a->arena)};
  td_vec_push(a->arena, a->out, row);
}

static void about_nvrtc(about_t *a) {
  rcuda_attempts_t attempts = {0};
  const char *path = NULL, *text = "not found: no CUDA C is compiled here";
  void *builtins = NULL;
  void *library = rcuda_nvrtc_find(a->arena, &builtins, &attempts, &path);
  void *at = library != NULL ? td_os_dlsym(library, "nvrtcVersion") : NULL;
  int (*version)(int *, int *) = NULL;
  int major = 0, minor = 0;
  memcpy(&version, &at, sizeof at);
  if (library != NULL) text = path;
  if (version != NULL && version(&major, &minor) == 0) {
    a->nvrtc = major * 1000 + minor * 10;
    text = td_arena_printf(a->arena, "%d.%d (%s)", major, minor,
                           rcuda_library_file(a->arena, at, path));
  }
  td_os_dlclose(library);
  td_os_dlclose(builtins);
  add(a, "nvrtc", text, &attempts);
}

/* "NVIDIA H200, compute capability 9.0, 139 GiB" */
static const char *gpu_text(td_arena_t *arena, const rcuda_driver_t *d,
                            int ordinal) {
  rcuda_device_t device = 0;
  char name[NAME_BYTES] = "";
  int major = 0, minor = 0;
  size_t bytes = 0;
  if (d->device_get(&device, ordinal) != 0 ||
      d->device_name(name, sizeof name, device) != 0 ||
      d->device_attribute(&major, RCUDA_DEV_CC_MAJOR, device) != 0 ||
      d->device_attribute(&minor, RCUDA_DEV_CC_MINOR, device) != 0 ||
      d->device_memory(&bytes, device) != 0) {
    return td_arena_printf(arena, "%d: cannot be asked", ordinal);
  }
  name[sizeof name - 1] = '\0';
  return td_arena_printf(arena, "%d: %s, compute capability %d.%d, %zu GiB",
                         ordinal, name, major, minor, bytes >> 30);
}

static void about_gpus(about_t *a, const rcuda_driver_t *d) {
  int count = 0;
  int code = d->init(0);
  if (code == 0) code = d->device_count(&count);
  if (code != 0) {
    const char *text = NULL;
    if (d->error_text(code, &text) != 0 || text == NULL) text = "no reason";
    add(a, "gpu", td_arena_printf(a->arena, "none: %s (%d)",
                                  code == RCUDA_STUB_LIBRARY
                                      ? "this library is for linking only"
                                      : text, code), NULL);
    return;
  }
  if (count < 1) add(a, "gpu", "none", NULL);
  for (int i = 0; i < count && i < MOST_GPUS; i++) {
    add(a, "gpu", gpu_text(a->arena, d, i), NULL);
  }
}

static void about_driver(about_t *a, bool all) {
  rcuda_attempts_t attempts = {0};
  rcuda_driver_t driver = {0};
  const char *missing = NULL;
  if (!rcuda_driver_find(a->arena, NULL, &attempts, &driver, &missing)) {
    add(a, "driver", "not found: there is no GPU to run on", &attempts);
    return;
  }
  if (missing != NULL) {
    add(a, "driver", td_arena_printf(a->arena, "too old, has no %s (%s)",
                                     missing, driver.path), &attempts);
  } else {
    (void)driver.driver_version(&a->driver);
    add(a, "driver", td_arena_printf(a->arena, "CUDA %s (%s)",
                                     version_text(a->arena, a->driver),
                                     driver.path), &attempts);
    if (all) about_gpus(a, &driver);
  }
  rcuda_driver_close(&driver);
}

static void about_simulator(about_t *a) {
  rcuda_attempt_t tried = {rcuda_simulator_path(a->arena), NULL};
  rcuda_attempts_t attempts = {0};
  const char *text = "not found";
  void *library = td_os_dlopen(a->arena, tried.name, &tried.reason);
  void *at = library != NULL ? td_os_dlsym(library, "simgpu_version") : NULL;
  const char *(*version)(void) = NULL;
  memcpy(&version, &at, sizeof at);
  if (version != NULL) {
    text = td_arena_printf(a->arena, "version %s (%s)", version(),
                           tried.name);
    if (a->nvrtc == 0) {
      text = td_arena_printf(a->arena, "%s, cannot run without NVRTC", text);
    }
  }
  td_os_dlclose(library);
  td_vec_push(a->arena, &attempts, tried);
  add(a, "simulator", text, &attempts);
}

static void about_tools(about_t *a) {
  static const char *const tools[] = {"ptxas", "nvdisasm", "cuobjdump"};
  for (size_t i = 0; i < 3; i++) {
    rcuda_attempts_t attempts = {0};
    const char *path = rcuda_tool_path(a->arena, tools[i], &attempts);
    const char *text = "not found";
    if (path != NULL) {
      const char *version = rcuda_tool_version(a->task, a->arena, path);
      text = version[0] == '\0'
                 ? path
                 : td_arena_printf(a->arena, "%s (%s)", version, path);
    }
    add(a, tools[i], text, &attempts);
  }
}

void rcuda_about(td_task_t *task, td_arena_t *arena, bool all,
                 rcuda_about_t *out) {
  about_t a = {.task = task, .arena = arena, .out = out};
  about_nvrtc(&a);
  about_driver(&a, all);
  about_simulator(&a);
  if (!all) return;
  about_tools(&a);
  if (a.driver != 0 && a.nvrtc != 0) {
    add(&a, "gpu code", rcuda_choice_text(arena, a.nvrtc, a.driver), NULL);
  }
}
