/* Exported cu* functions: modules and functions. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

#define MAX_IMAGE ((size_t)1 << 28)

/* -- loading -- */

typedef struct load_t {
  sim_module_t *module;
  td_str_t text;
  uint32_t cc;
  ptx_error_t *error;
} load_t;

static void parse(td_task_t *task, void *arg) {
  load_t *load = arg;
  td_arena_init(&load->module->arena, task);
  load->module->ptx =
      ptx_parse(task, &load->module->arena, load->text, load->error);
}

/* Stops at the first byte that differs: a text may be shorter. */
static bool begins_with(const unsigned char *p, const char magic[4]) {
  for (int k = 0; k < 4; k++)
    if (p[k] != (unsigned char)magic[k]) return false;
  return true;
}

/* PTX text ends at its NUL; binaries are known by their first bytes. */
static int read_image(const void *image, td_str_t *out) {
  const unsigned char *p = image;
  if (!p) return RCUDA_INVALID_VALUE;
  if (begins_with(p, "\x7F\x45\x4C\x46") /* ELF */ ||
      begins_with(p, "\x50\xED\x55\xBA") || /* fat binaries */
      begins_with(p, "\xB1\x43\x62\x46"))
    return RCUDA_NO_BINARY_FOR_GPU;
  size_t n = strnlen(image, MAX_IMAGE);
  if (n == MAX_IMAGE) return RCUDA_INVALID_IMAGE;
  *out = td_str_n(image, n);
  return 0;
}

static int check_target(const ptx_module_t *m, ptx_error_t *error) {
  const sim_device_row_t *row = sim_state()->row;
  td_buf_t buf;
  td_buf_init_fixed(&buf, error->text, sizeof error->text);
  if (m->target_suffix && m->target != row->suffix) {
    td_buf_printf(&buf, ".target sm_%u%c does not suit %s", m->target,
                  m->target_suffix, row->name);
    return RCUDA_NO_BINARY_FOR_GPU;
  }
  if (m->target > row->targets) {
    td_buf_printf(&buf, ".target sm_%u is above sm_%u of %s", m->target,
                  row->targets, row->name);
    return RCUDA_NO_BINARY_FOR_GPU;
  }
  return 0;
}

/* Global and constant variables get device memory; addresses in initialisers
   are filled in once all have one. */
static int place_variables(sim_ctx_t *ctx, sim_module_t *module) {
  ptx_module_t *m = module->ptx;
  for (size_t i = 0; i < m->vars.length; i++) {
    ptx_var_t *var = m->vars.data[i];
    bool is_const = var->space == PTX_SPACE_CONST;
    if (var->space == PTX_SPACE_SHARED || var->is_extern) continue;
    if (!var->bytes) return RCUDA_INVALID_PTX;
    if (!ctx) { /* the text is only judged */
      var->place = 4096;
      var->is_placed = true;
      continue;
    }
    sim_alloc_t *a = sim_device_alloc(
        ctx, var->bytes, is_const ? SIM_ALLOC_CONST : SIM_ALLOC_MODULE);
    if (!a) return RCUDA_OUT_OF_MEMORY;
    a->name = var->name;
    if (var->init.length)
      memcpy(a->host, var->init.data, var->init.length);
    var->place = a->address;
    var->is_placed = true;
    a->made_by = module->handle;
  }
  for (size_t i = 0; i < m->vars.length; i++) {
    ptx_var_t *var = m->vars.data[i];
    for (size_t n = 0; n < var->fixups.length; n++) {
      const ptx_fixup_t *fix = &var->fixups.data[n];
      const ptx_var_t *to = ptx_find_var(m, fix->name);
      if (!to || !to->is_placed) return RCUDA_INVALID_PTX;
      if (!ctx) continue;
      sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, var->place);
      uint64_t value = to->place + fix->addend;
      memcpy(a->host + fix->offset, &value, 8);
    }
  }
  return 0;
}

static void write_log(void *log, size_t *bytes, const ptx_error_t *error) {
  td_buf_t buf;
  if (!log || !bytes || !*bytes) return;
  td_buf_init_fixed(&buf, log, *bytes);
  if (error->line)
    td_buf_printf(&buf, "ptx line %u: error: %s\n", error->line,
                  error->text);
  else
    td_buf_printf(&buf, "error: %s\n", error->text);
  *bytes = buf.length + 1;
}

void sim_module_free(sim_module_t *m) {
  sim_state_t *s = sim_state();
  for (size_t i = 0; i < s->slot_count; i++) {
    sim_func_t *f = s->slots[i].object;
    if (f && s->slots[i].type == SIM_TYPE_FUNC && f->module == m->handle) {
      s->slots[i].object = NULL;
      free(f);
    }
  }
  for (size_t i = 0; m->ptx && i < m->ptx->vars.length; i++) {
    ptx_var_t *var = m->ptx->vars.data[i];
    if (!var->is_placed || (var->space != PTX_SPACE_GLOBAL &&
                            var->space != PTX_SPACE_CONST))
      continue;
    sim_alloc_t *a = sim_alloc_find(&s->memory, var->place);
    if (a && a->is_live) {
      a->name = NULL; /* the text goes with the module */
      sim_device_free(a);
    }
  }
  td_task_free(&m->task);
  free(m);
}

void sim_drop_object(sim_slot_t *slot, uint64_t ctx) {
  uint64_t *owner = NULL;
  sim_module_t *m = slot->object;
  if (slot->type == SIM_TYPE_MODULE) {
    if (m->ctx != ctx) return;
    slot->object = NULL;
    sim_module_free(m);
    return;
  }
  if (slot->type == SIM_TYPE_STREAM)
    owner = &((sim_stream_t *)slot->object)->ctx;
  if (slot->type == SIM_TYPE_EVENT)
    owner = &((sim_event_t *)slot->object)->ctx;
  if (slot->type == SIM_TYPE_GRAPH || slot->type == SIM_TYPE_EXEC)
    owner = &((sim_graph_t *)slot->object)->ctx;
  if (!owner || *owner != ctx) return;
  if (slot->type == SIM_TYPE_STREAM)
    sim_stream_free(slot->object);
  else if (slot->type == SIM_TYPE_EVENT)
    sim_event_free(slot->object);
  else
    sim_graph_free(slot->object);
}

typedef struct decode_t {
  sim_func_t *func;
  const sim_module_t *module;
  ptx_error_t *error;
} decode_t;

static void decode(td_task_t *task, void *arg) {
  decode_t *d = arg;
  d->func->kernel = sim_decode(
      task, (td_arena_t *)(uintptr_t)&d->module->arena, d->module->ptx,
      d->func->ptx, sim_state()->row->cc,
      sim_variant(sim_state()->options.host), d->error);
}

int sim_decode_func(sim_func_t *func, ptx_error_t *error) {
  sim_module_t *module = sim_handle_number(SIM_TYPE_MODULE, func->module);
  if (!module) return RCUDA_INVALID_HANDLE;
  if (func->kernel) return 0;
  decode_t d = {func, module, error};
  memset(error, 0, sizeof *error);
  if (td_task_run(&module->task, decode, &d) != TDSL_STATUS_OK)
    return RCUDA_OUT_OF_MEMORY;
  uint32_t given = func->kernel ? sim_registers_given(func->ptx->name) : 0;
  if (given) {
    func->kernel->registers = given;
    func->kernel->is_assembled = true;
  }
  for (size_t i = 0; func->kernel && i < func->kernel->forms.length; i++)
    sim_state()->forms[func->kernel->forms.data[i]] = 1;
  return func->kernel ? 0 : error->code ? error->code : RCUDA_INVALID_PTX;
}

/* Every entry is decoded at load, so that an unknown form fails there and
   the log can name its line. */
static int decode_all(sim_module_t *module, ptx_error_t *error) {
  for (size_t i = 0; i < module->ptx->funcs.length; i++) {
    const ptx_func_t *ptx = module->ptx->funcs.data[i];
    if (!ptx->is_entry || !ptx->is_defined) continue;
    sim_func_t *f = calloc(1, sizeof *f);
    if (!f) return RCUDA_OUT_OF_MEMORY;
    f->ptx = ptx;
    f->module = module->handle;
    f->handle = sim_handle_new(SIM_TYPE_FUNC, f);
    if (!f->handle) {
      free(f);
      return RCUDA_OUT_OF_MEMORY;
    }
    int code = sim_decode_func(f, error);
    if (code) return code;
  }
  return 0;
}

int sim_module_load(sim_ctx_t *ctx, const void *image, uint64_t *out,
                    void *log, size_t *log_bytes) {
  ptx_error_t error = {0};
  td_str_t text;
  int code = read_image(image, &text);
  if (code) {
    td_buf_t buf;
    td_buf_init_fixed(&buf, error.text, sizeof error.text);
    td_buf_puts(&buf, "the simulated GPU loads PTX text only");
    write_log(log, log_bytes, &error);
    return code;
  }
  sim_module_t *m = calloc(1, sizeof *m);
  if (!m) return RCUDA_OUT_OF_MEMORY;
  m->ctx = ctx ? ctx->handle : 0;
  m->handle = sim_handle_new(SIM_TYPE_MODULE, m);
  if (!m->handle) {
    free(m);
    return RCUDA_OUT_OF_MEMORY;
  }
  td_task_init(&m->task, NULL);
  load_t l = {m, text, sim_state()->row->cc, &error};
  if (td_task_run(&m->task, parse, &l) != TDSL_STATUS_OK)
    code = RCUDA_OUT_OF_MEMORY;
  else if (!m->ptx)
    code = error.code ? error.code : RCUDA_INVALID_PTX;
  if (!code) code = check_target(m->ptx, &error);
  if (!code) code = place_variables(ctx, m);
  if (!code) code = decode_all(m, &error);
  if (code) {
    write_log(log, log_bytes, &error);
    sim_handle_drop(m->handle);
    sim_module_free(m);
    return code;
  }
  if (log && log_bytes && *log_bytes) {
    *(char *)log = 0;
    *log_bytes = 1;
  }
  *out = m->handle;
  return 0;
}

int sim_load_logged(sim_ctx_t *ctx, const void *image, unsigned count,
                    const int *options, void **values, uint64_t *out) {
  if (count && (!options || !values)) return RCUDA_INVALID_VALUE;
  void *log = NULL;
  size_t bytes = 0;
  unsigned size_at = count;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == RCUDA_JIT_ERROR_LOG) log = values[i];
    if (options[i] == RCUDA_JIT_ERROR_LOG_BYTES) {
      bytes = (size_t)(uintptr_t)values[i] & UINT32_MAX;
      size_at = i;
    }
    if (options[i] == RCUDA_JIT_INFO_LOG_BYTES) values[i] = NULL;
  }
  int code = sim_module_load(ctx, image, out, log, &bytes);
  if (size_at < count) values[size_at] = (void *)(uintptr_t)bytes;
  return code;
}

static int load_data(const char *name, rcuda_module_t **out,
                     const void *image, unsigned count, const int *options,
                     void **values) {
  sim_ctx_t *ctx;
  uint64_t handle = 0;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  code = sim_load_logged(ctx, image, count, options, values, &handle);
  if (!code) *out = (rcuda_module_t *)(uintptr_t)handle;
  return sim_leave(code);
}

SIM_EXPORT int cuModuleLoadDataEx(rcuda_module_t **out, const void *image,
                                  unsigned count, int *options,
                                  void **values) {
  SIM_ARGS(out, image, count, options, values);
  return load_data("cuModuleLoadDataEx", out, image, count, options, values);
}

SIM_EXPORT int cuModuleLoadData(rcuda_module_t **out, const void *image) {
  SIM_ARGS(out, image);
  return load_data("cuModuleLoadData", out, image, 0, NULL, NULL);
}

/* Launches of the module's functions that nobody has waited for. */
void sim_module_report_queued(const sim_module_t *m) {
  const sim_queue_t *q = &sim_state()->queue;
  for (uint32_t i = 0; i < q->lane_count; i++) {
    for (const sim_queued_t *p = q->lanes[i]->head; p; p = p->next) {
      const sim_func_t *f =
          p->op.kind == SIM_RUN_LAUNCH
              ? sim_handle_number(SIM_TYPE_FUNC, p->op.launch.func)
              : NULL;
      if (!f || f->module != m->handle) continue;
      sim_host_finding(SIM_CHECK_ORDER_LIFETIME, "cuModuleUnload", 0, 0,
                       "call %llu %s launched %s and nobody waited for it",
                       (unsigned long long)p->op.call, p->op.name,
                       f->ptx->name);
      return;
    }
  }
}

SIM_EXPORT int cuModuleUnload(rcuda_module_t *handle) {
  SIM_ARGS(handle);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuModuleUnload", &ctx);
  if (code) return code;
  sim_module_t *m = sim_handle_get(SIM_TYPE_MODULE, handle);
  if (!m || m->library) return sim_leave(RCUDA_INVALID_HANDLE);
  sim_module_report_queued(m);
  code = sim_wait_ctx(ctx->handle);
  m = sim_handle_get(SIM_TYPE_MODULE, handle);
  if (!m) return sim_leave(RCUDA_INVALID_HANDLE);
  sim_handle_drop(m->handle);
  sim_module_free(m);
  return sim_leave(code);
}

sim_func_t *sim_module_func(const sim_module_t *m, const char *name) {
  sim_state_t *s = sim_state();
  for (size_t i = 0; i < s->slot_count; i++) {
    sim_func_t *f = s->slots[i].object;
    if (f && s->slots[i].type == SIM_TYPE_FUNC && f->module == m->handle &&
        strcmp(f->ptx->name, name) == 0)
      return f;
  }
  return NULL;
}

SIM_EXPORT int cuModuleGetFunction(rcuda_func_t **out,
                                   rcuda_module_t *handle,
                                   const char *name) {
  SIM_ARGS(out, handle, name);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuModuleGetFunction", &ctx);
  if (code) return code;
  const sim_module_t *m = sim_handle_get(SIM_TYPE_MODULE, handle);
  if (!m) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out || !name) return sim_leave(RCUDA_INVALID_VALUE);
  const sim_func_t *f = sim_module_func(m, name);
  if (!f) return sim_leave(RCUDA_NOT_FOUND);
  *out = (rcuda_func_t *)(uintptr_t)f->handle;
  return sim_leave(0);
}

int sim_module_global(const sim_module_t *m, const char *name, uint64_t *out,
                      size_t *bytes) {
  const ptx_var_t *var = ptx_find_var(m->ptx, td_str(name));
  if (!var || !var->is_placed || var->space == PTX_SPACE_SHARED)
    return RCUDA_NOT_FOUND;
  if (out) *out = var->place;
  if (bytes) *bytes = var->bytes;
  return 0;
}

SIM_EXPORT int cuModuleGetGlobal_v2(uint64_t *out, size_t *bytes,
                                    rcuda_module_t *handle,
                                    const char *name) {
  SIM_ARGS(out, bytes, handle, name);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuModuleGetGlobal_v2", &ctx);
  if (code) return code;
  sim_module_t *m = sim_handle_get(SIM_TYPE_MODULE, handle);
  if (!m) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!name) return sim_leave(RCUDA_INVALID_VALUE);
  return sim_leave(sim_module_global(m, name, out, bytes));
}

/* -- functions -- */

sim_func_t *sim_func_of(const void *handle) {
  sim_func_t *f = sim_handle_get(SIM_TYPE_FUNC, handle);
  return f ? f : sim_kernel_func(handle);
}

static uint32_t most_threads(const sim_func_t *f) {
  const uint32_t *limit = f->ptx->required_threads[0]
                              ? f->ptx->required_threads
                              : f->ptx->max_threads;
  uint32_t by_registers =
      sim_state()->row->registers / ((f->kernel->registers + 7) / 8 * 8);
  uint64_t n = limit[0] ? (uint64_t)limit[0] * limit[1] * limit[2] : 1024;
  by_registers = by_registers / 32 * 32;
  if (n > by_registers) n = by_registers;
  return n > 1024 ? 1024 : (uint32_t)n;
}

int sim_func_attribute(const sim_func_t *f, int attribute, int *out) {
  const sim_module_t *m = sim_handle_number(SIM_TYPE_MODULE, f->module);
  switch (attribute) {
  case RCUDA_FUNC_MAX_THREADS: *out = (int)most_threads(f); break;
  case RCUDA_FUNC_SHARED_BYTES: *out = (int)f->kernel->static_shared; break;
  case RCUDA_FUNC_CONST_BYTES: *out = 0; break;
  case RCUDA_FUNC_LOCAL_BYTES: *out = (int)f->kernel->local_bytes; break;
  case RCUDA_FUNC_REGISTERS: *out = (int)f->kernel->registers; break;
  case RCUDA_FUNC_PTX_VERSION: *out = (int)m->ptx->version; break;
  case RCUDA_FUNC_BINARY_VERSION: *out = (int)sim_state()->row->cc; break;
  case RCUDA_FUNC_CACHE_MODE_CA: *out = 0; break;
  case RCUDA_FUNC_MAX_DYNAMIC_SHARED:
    *out = f->max_dynamic ? f->max_dynamic
                          : 49152 - (int)f->kernel->static_shared;
    break;
  case RCUDA_FUNC_SHARED_CARVEOUT: *out = -1; break;
  case RCUDA_FUNC_CLUSTER_MUST_BE_SET:
    *out = f->ptx->is_cluster_explicit && !f->ptx->cluster[0];
    break;
  case RCUDA_FUNC_CLUSTER_WIDTH: *out = (int)f->ptx->cluster[0]; break;
  case RCUDA_FUNC_CLUSTER_HEIGHT: *out = (int)f->ptx->cluster[1]; break;
  case RCUDA_FUNC_CLUSTER_DEPTH: *out = (int)f->ptx->cluster[2]; break;
  case RCUDA_FUNC_NON_PORTABLE_CLUSTER: *out = f->non_portable; break;
  case RCUDA_FUNC_CLUSTER_POLICY: *out = 0; break;
  default: return RCUDA_INVALID_VALUE;
  }
  return 0;
}

SIM_EXPORT int cuFuncGetAttribute(int *out, int attribute,
                                  rcuda_func_t *handle) {
  SIM_ARGS(out, attribute, handle);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuFuncGetAttribute", &ctx);
  if (code) return code;
  sim_func_t *f = sim_func_of(handle);
  if (!f) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  return sim_leave(sim_func_attribute(f, attribute, out));
}

int sim_func_set(sim_func_t *f, int attribute, int value) {
  uint32_t optin = sim_state()->row->shared_optin;
  switch (attribute) {
  case RCUDA_FUNC_MAX_DYNAMIC_SHARED:
    if (value < 0 || (uint32_t)value + f->kernel->static_shared > optin)
      return RCUDA_INVALID_VALUE;
    f->max_dynamic = value;
    return 0;
  case RCUDA_FUNC_SHARED_CARVEOUT:
    return value < -1 || value > 100 ? RCUDA_INVALID_VALUE : 0;
  case RCUDA_FUNC_NON_PORTABLE_CLUSTER: f->non_portable = value != 0; return 0;
  case RCUDA_FUNC_CLUSTER_POLICY: return 0;
  default: return RCUDA_INVALID_VALUE;
  }
}

SIM_EXPORT int cuFuncSetAttribute(rcuda_func_t *handle, int attribute,
                                  int value) {
  SIM_ARGS(handle, attribute, value);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuFuncSetAttribute", &ctx);
  if (code) return code;
  sim_func_t *f = sim_func_of(handle);
  if (!f) return sim_leave(RCUDA_INVALID_HANDLE);
  return sim_leave(sim_func_set(f, attribute, value));
}

SIM_EXPORT int cuFuncSetCacheConfig(rcuda_func_t *handle, int config) {
  SIM_ARGS(handle, config);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuFuncSetCacheConfig", &ctx);
  (void)config;
  if (code) return code;
  return sim_leave(sim_func_of(handle) ? 0 : RCUDA_INVALID_HANDLE);
}

SIM_EXPORT int cuFuncGetModule(rcuda_module_t **out, rcuda_func_t *handle) {
  SIM_ARGS(out, handle);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuFuncGetModule", &ctx);
  if (code) return code;
  sim_func_t *f = sim_func_of(handle);
  if (!f || !out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = (rcuda_module_t *)(uintptr_t)f->module;
  return sim_leave(0);
}

SIM_EXPORT int cuFuncGetParamInfo(rcuda_func_t *handle, size_t index,
                                  size_t *offset, size_t *bytes) {
  SIM_ARGS(handle, index, offset, bytes);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuFuncGetParamInfo", &ctx);
  if (code) return code;
  sim_func_t *f = sim_func_of(handle);
  if (!f || !offset || index >= f->ptx->params.length)
    return sim_leave(RCUDA_INVALID_VALUE);
  *offset = f->ptx->params.data[index]->place;
  if (bytes) *bytes = f->ptx->params.data[index]->bytes;
  return sim_leave(0);
}
