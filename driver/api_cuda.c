/* api_cuda.c: see api_cuda.h. */
#include "driver/api_cuda.h"

#include "codegen/cuda/cuda.h"
#include "runtime/cuda/cuda_nvrtc.h"
#include "runtime/cuda/cuda_sass.h"

enum { PART_BYTES = 32 * 1024 };

void drv_cuda_text(drv_backend_t *b, const kir_kernel_t *const *kernels,
                   uint32_t count, bool has_lines, td_buf_t *out,
                   cgc_kernel_t *described) {
  cgc_options_t options = {.target = b->target, .has_lines = has_lines};
  if (described == NULL) {
    described = TD_NEW_ARRAY(b->c->arena, cgc_kernel_t, count + 1);
  }
  cgc_emit(b->c->task, b->c->arena, kernels, count, &options, out, described);
}

typedef struct making {
  rcuda_nvrtc_t nvrtc;
} making_t;

static void close_nvrtc(void *arg) {
  making_t *m = arg;
  if (m->nvrtc.library != NULL) rcuda_nvrtc_close(&m->nvrtc);
}

bool drv_cuda_code(drv_backend_t *b, const char *text, drv_code_t form,
                   td_buf_t *out) {
  making_t *m = TD_NEW(b->c->arena, making_t);
  rcuda_code_t code;
  rcuda_source_t source = {.text = text,
                           .name = "dump",
                           .arch = b->target->name,
                           .has_lines = b->c->device.hal == DRV_HAL_SIM};
  td_defer(b->c->task, close_nvrtc, m);
  bool ok =
      rcuda_nvrtc_open(b->c->task, b->c->arena, &m->nvrtc) &&
      rcuda_compile(b->c->task, b->c->arena, &m->nvrtc, &source, &code);
  td_undefer(b->c->task, true);
  if (ok && code.log[0] != '\0') {
    /* text of ours that a compiler wonders about is a fault */
    td_diag_t *d = td_diag(b->c->task, TD_B06, TD_NO_LOC,
                           "NVRTC has remarks about our text");
    td_diag_note(d, "%s", code.log);
  }
  if (!ok) return false;
  switch (form) {
    case DRV_CODE_PTX: td_buf_put(out, code.ptx, code.ptx_bytes); break;
    case DRV_CODE_CUBIN:
      td_buf_put(out, code.cubin, code.cubin_bytes);
      break;
    case DRV_CODE_SASS:
      return rcuda_disassemble(b->c->task, b->c->arena, code.cubin,
                               code.cubin_bytes, out);
  }
  return true;
}

/* Kernels go into a module until its text is long; what goes where depends on
 * the text alone. */
void drv_payloads_cuda(drv_backend_t *b, drv_payloads_t *out) {
  td_arena_t *arena = b->c->arena;
  uint32_t n = b->kernels.count;
  out->kernels = TD_NEW_ARRAY(arena, drv_payload_t, n + 1);
  out->modules = TD_NEW_ARRAY(arena, plan_module_t, n + 1);
  out->launches = TD_NEW_ARRAY(arena, cgc_kernel_t, n + 1);
  b->c->task->stage = "emit-cuda";
  td_buf_t text;
  for (uint32_t k = 0; k < n;) {
    uint32_t first = k;
    size_t bytes = 0;
    while (k < n && (k == first || bytes < PART_BYTES)) {
      td_buf_init(&text, b->c->task);
      kir_print(&text, b->kernels.kernels[k]);
      bytes += text.length;
      td_buf_free(&text);
      k++;
    }
    td_buf_init(&text, b->c->task);
    drv_cuda_text(b, (const kir_kernel_t *const *)b->kernels.kernels + first,
                  k - first, b->c->device.hal == DRV_HAL_SIM, &text,
                  out->launches + first);
    plan_module_t *m = &out->modules[out->module_count];
    m->name = td_arena_printf(arena, "m%u", out->module_count);
    m->payload = PLAN_PAYLOAD_CUDA;
    m->target = b->target->name;
    m->bytes = text.length;
    m->data = td_buf_finish(&text, arena);
    for (uint32_t i = first; i < k; i++) {
      out->kernels[i].module = out->module_count;
      out->kernels[i].symbol = out->launches[i].symbol;
    }
    out->module_count++;
  }
}
