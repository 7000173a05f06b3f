/* Exported cu* functions: libraries, which belong to no context, and their
   kernels. The text is judged when the library is loaded; each context gets a
   module of it when something of it is first used there. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

typedef struct library_t {
  uint64_t handle;
  char *text;
  uint64_t judged; /* module without a context: names and attributes */
} library_t;

typedef struct kernel_t {
  uint64_t handle, library;
  const char *name; /* of the judged module's function */
  /* set for a device before or after its function is made */
  int max_dynamic[SIM_MAX_DEVICES], non_portable[SIM_MAX_DEVICES];
} kernel_t;

static library_t *library_of(const void *handle) {
  return sim_handle_get(SIM_TYPE_LIBRARY, handle);
}

static sim_func_t *judged_func(const library_t *l, const char *name) {
  const sim_module_t *m = sim_handle_number(SIM_TYPE_MODULE, l->judged);
  return m ? sim_module_func(m, name) : NULL;
}

/* The library's module in a context; 0 and *out, or why there is none. */
static int module_in(library_t *l, sim_ctx_t *ctx, sim_module_t **out) {
  sim_state_t *s = sim_state();
  for (size_t i = 0; i < s->slot_count; i++) {
    sim_module_t *m = s->slots[i].object;
    if (!m || s->slots[i].type != SIM_TYPE_MODULE ||
        m->library != l->handle || m->ctx != ctx->handle)
      continue;
    *out = m;
    return 0;
  }
  uint64_t handle;
  int code = sim_module_load(ctx, l->text, &handle, NULL, NULL);
  if (code) return code;
  *out = sim_handle_number(SIM_TYPE_MODULE, handle);
  (*out)->library = l->handle;
  return 0;
}

SIM_EXPORT int cuLibraryLoadData(rcuda_library_t **out, const void *image,
                                 int *options, void **values, unsigned count,
                                 int *library_options, void **library_values,
                                 unsigned library_count) {
  SIM_ARGS(out, image, options, values, count, library_options, library_values,
           library_count);
  int code = sim_enter("cuLibraryLoadData", true);
  if (code) return code;
  if (!out || (library_count && (!library_options || !library_values)))
    return sim_leave(RCUDA_INVALID_VALUE);
  uint64_t judged = 0;
  code = sim_load_logged(NULL, image, count, options, values, &judged);
  if (code) return sim_leave(code);
  library_t *l = calloc(1, sizeof *l);
  if (l) l->text = strdup(image);
  if (l && l->text) l->handle = sim_handle_new(SIM_TYPE_LIBRARY, l);
  sim_module_t *m = sim_handle_number(SIM_TYPE_MODULE, judged);
  if (!l || !l->handle) {
    sim_handle_drop(judged);
    sim_module_free(m);
    if (l) free(l->text);
    free(l);
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  }
  l->judged = judged;
  m->library = l->handle;
  *out = (rcuda_library_t *)(uintptr_t)l->handle;
  return sim_leave(0);
}

/* Its kernels and modules go too. */
static void free_library(library_t *l) {
  sim_state_t *s = sim_state();
  for (size_t i = 0; i < s->slot_count; i++) {
    sim_slot_t *slot = &s->slots[i];
    if (!slot->object) continue;
    if (slot->type == SIM_TYPE_KERNEL &&
        ((kernel_t *)slot->object)->library == l->handle) {
      free(slot->object);
      slot->object = NULL;
    } else if (slot->type == SIM_TYPE_MODULE &&
               ((sim_module_t *)slot->object)->library == l->handle) {
      sim_module_t *m = slot->object;
      slot->object = NULL;
      sim_module_free(m);
    }
  }
  sim_handle_drop(l->handle);
  free(l->text);
  free(l);
}

void sim_libraries_free(sim_state_t *s) {
  for (size_t i = 0; i < s->slot_count; i++)
    if (s->slots[i].object && s->slots[i].type == SIM_TYPE_LIBRARY)
      free_library(s->slots[i].object);
}

SIM_EXPORT int cuLibraryUnload(rcuda_library_t *handle) {
  SIM_ARGS(handle);
  int code = sim_enter("cuLibraryUnload", true);
  if (code) return code;
  library_t *l = library_of(handle);
  if (!l) return sim_leave(RCUDA_INVALID_HANDLE);
  sim_state_t *s = sim_state();
  for (size_t i = 0; i < s->slot_count; i++) {
    const sim_module_t *m = s->slots[i].object;
    if (!m || s->slots[i].type != SIM_TYPE_MODULE ||
        m->library != l->handle || !m->ctx)
      continue;
    sim_module_report_queued(m);
    sim_queue_wait_ctx(m->ctx);
  }
  l = library_of(handle); /* a host function may have run meanwhile */
  if (l) free_library(l);
  return sim_leave(0);
}

SIM_EXPORT int cuLibraryGetKernel(rcuda_kernel_t **out,
                                  rcuda_library_t *handle,
                                  const char *name) {
  SIM_ARGS(out, handle, name);
  int code = sim_enter("cuLibraryGetKernel", true);
  if (code) return code;
  const library_t *l = library_of(handle);
  if (!l) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out || !name) return sim_leave(RCUDA_INVALID_VALUE);
  const sim_func_t *f = judged_func(l, name);
  if (!f) return sim_leave(RCUDA_NOT_FOUND);
  sim_state_t *s = sim_state();
  for (size_t i = 0; i < s->slot_count; i++) {
    const kernel_t *k = s->slots[i].object;
    if (!k || s->slots[i].type != SIM_TYPE_KERNEL ||
        k->library != l->handle || strcmp(k->name, name) != 0)
      continue;
    *out = (rcuda_kernel_t *)(uintptr_t)k->handle;
    return sim_leave(0);
  }
  kernel_t *k = calloc(1, sizeof *k);
  if (k) k->handle = sim_handle_new(SIM_TYPE_KERNEL, k);
  if (!k || !k->handle) {
    free(k);
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  }
  k->library = l->handle;
  k->name = f->ptx->name;
  *out = (rcuda_kernel_t *)(uintptr_t)k->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuLibraryGetModule(rcuda_module_t **out,
                                  rcuda_library_t *handle) {
  SIM_ARGS(out, handle);
  sim_ctx_t *ctx;
  sim_module_t *m;
  int code = sim_enter_ctx("cuLibraryGetModule", &ctx);
  if (code) return code;
  library_t *l = library_of(handle);
  if (!l) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  code = module_in(l, ctx, &m);
  if (!code) *out = (rcuda_module_t *)(uintptr_t)m->handle;
  return sim_leave(code);
}

SIM_EXPORT int cuLibraryGetGlobal(uint64_t *out, size_t *bytes,
                                  rcuda_library_t *handle,
                                  const char *name) {
  SIM_ARGS(out, bytes, handle, name);
  sim_ctx_t *ctx;
  sim_module_t *m;
  int code = sim_enter_ctx("cuLibraryGetGlobal", &ctx);
  if (code) return code;
  library_t *l = library_of(handle);
  if (!l) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!name) return sim_leave(RCUDA_INVALID_VALUE);
  code = module_in(l, ctx, &m);
  if (!code) code = sim_module_global(m, name, out, bytes);
  return sim_leave(code);
}

/* -- kernels -- */

sim_func_t *sim_kernel_func(const void *handle) {
  const kernel_t *k = sim_handle_get(SIM_TYPE_KERNEL, handle);
  sim_ctx_t *ctx = sim_current();
  sim_module_t *m;
  library_t *l =
      k ? sim_handle_number(SIM_TYPE_LIBRARY, k->library) : NULL;
  if (!l || !ctx || module_in(l, ctx, &m)) return NULL;
  sim_func_t *f = sim_module_func(m, k->name);
  if (f && k->max_dynamic[ctx->device])
    f->max_dynamic = k->max_dynamic[ctx->device];
  if (f && k->non_portable[ctx->device]) f->non_portable = 1;
  return f;
}

SIM_EXPORT int cuKernelGetFunction(rcuda_func_t **out,
                                   rcuda_kernel_t *handle) {
  SIM_ARGS(out, handle);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuKernelGetFunction", &ctx);
  if (code) return code;
  if (!sim_handle_get(SIM_TYPE_KERNEL, handle))
    return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  const sim_func_t *f = sim_kernel_func(handle);
  if (!f) return sim_leave(RCUDA_OUT_OF_MEMORY);
  *out = (rcuda_func_t *)(uintptr_t)f->handle;
  return sim_leave(0);
}

/* The judged function with what was set for the device. */
static int with_kernel(const char *name, const void *handle, int device,
                       kernel_t **out, sim_func_t *f) {
  int code = sim_enter(name, true);
  if (code) return code;
  kernel_t *k = sim_handle_get(SIM_TYPE_KERNEL, handle);
  if (!k) return sim_leave(RCUDA_INVALID_HANDLE);
  if (device < 0 || (uint32_t)device >= sim_state()->device_count)
    return sim_leave(RCUDA_INVALID_DEVICE);
  *f = *judged_func(sim_handle_number(SIM_TYPE_LIBRARY, k->library),
                    k->name);
  f->max_dynamic = k->max_dynamic[device];
  f->non_portable = k->non_portable[device];
  *out = k;
  return 0;
}

SIM_EXPORT int cuKernelGetAttribute(int *out, int attribute,
                                    rcuda_kernel_t *handle, int device) {
  SIM_ARGS(out, attribute, handle, device);
  kernel_t *k;
  sim_func_t f;
  int code = with_kernel("cuKernelGetAttribute", handle, device, &k, &f);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  return sim_leave(sim_func_attribute(&f, attribute, out));
}

SIM_EXPORT int cuKernelSetAttribute(int attribute, int value,
                                    rcuda_kernel_t *handle, int device) {
  SIM_ARGS(attribute, value, handle, device);
  kernel_t *k;
  sim_func_t f;
  int code = with_kernel("cuKernelSetAttribute", handle, device, &k, &f);
  if (code) return code;
  code = sim_func_set(&f, attribute, value);
  k->max_dynamic[device] = f.max_dynamic;
  k->non_portable[device] = f.non_portable;
  return sim_leave(code);
}
