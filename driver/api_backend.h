/* api_backend.h: from the tensor IR to a plan: passes, kernels, payloads. */
#ifndef DRIVER_API_BACKEND_H
#define DRIVER_API_BACKEND_H

#include "driver/api_cache.h"
#include "driver/api_tuning.h"
#include "ir/memory.h"
#include "ir/target.h"
#include "passes/pass.h"

/* State of one trip through the back end; all in the compile's arena. */
typedef struct drv_backend {
  drv_compile_t *c;
  const ir_target_t *target;
  pass_options_t options;
  pass_state_t state;
  pass_kernels_t kernels;
  const mem_layout_t *const *layouts; /* one for each function */
  const plan_t *plan;
  uint32_t dump_count; /* files written so far */
  drv_tuning_t *tuning; /* NULL: sizes are those of the machine row */
} drv_backend_t;

/* Machine row, pass options (descriptor, then environment). False after
 * diagnostics. */
bool drv_backend_init(drv_backend_t *b, drv_compile_t *c);
void drv_backend_tensor(drv_backend_t *b);  /* tensor passes, in place */
void drv_backend_kernels(drv_backend_t *b); /* b->kernels */
/* b->layouts; kernels that work in place lose a parameter. */
void drv_backend_memory(drv_backend_t *b);

/* Where the code of each kernel is. */
typedef struct drv_payload {
  uint32_t module;
  const char *symbol;
} drv_payload_t;

typedef struct drv_payloads {
  uint32_t module_count;
  plan_module_t *modules;
  drv_payload_t *kernels; /* by kernel */
  struct cgc_kernel *launches; /* by kernel; NULL but for GPUs */
  TD_VEC(drv_object_t *) objects; /* a reference each; the program's */
} drv_payloads_t;

/* KIR text of all kernels as one module. */
void drv_payloads_kir(drv_backend_t *b, drv_payloads_t *out);
/* Machine code, from the cache where it is there; the rest is compiled in a
 * few modules, one thread each.  References in `out` are released by the
 * caller, also after an unwinding. */
void drv_payloads_object(drv_backend_t *b, drv_payloads_t *out);

/* b->plan, verified. */
void drv_backend_plan(drv_backend_t *b, const drv_payloads_t *payloads);

/* Developers' knobs: before the passes, after the plan; text of a kernel
 * that was edited by hand, and what it says (raises if it does not fit;
 * NULL: there is none). */
void drv_debug_begin(drv_backend_t *b);
void drv_debug_end(drv_backend_t *b);
/* The folder of --trace or TDSL_DUMP_DIR, or NULL: then the others do
 * nothing. Files that cannot be written give a diagnostic. */
const char *drv_trace_folder(const drv_backend_t *b);
void drv_trace_begin(drv_backend_t *b);
void drv_trace_end(drv_backend_t *b);
void drv_trace_write(drv_backend_t *b, const char *name, const char *text,
                     size_t length);
kir_kernel_t *drv_debug_override(drv_backend_t *b, const kir_kernel_t *kernel,
                                 td_str_t *out);
/* The same for a file of that folder which replaces a module's text. */
bool drv_debug_override_text(drv_backend_t *b, const char *name,
                             td_str_t *out);

/* The device that interprets KIR (payload PLAN_PAYLOAD_KIR). NULL: out of
 * memory. */
hal_device_t *drv_kir_device_create(const td_host_t *host);

#endif
