/* api_cuda.c: see api_cuda.h. */
#include "driver/api_cuda.h"

#include "codegen/cuda/cuda.h"
#include "passes/remark.h"
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

/* ---- what a kernel takes ------------------------------------------------- */

static const ix_poly_t *rounds(ix_pool_t *pool, const ix_poly_t *of,
                               int64_t by) {
  return of == NULL ? NULL
                    : ix_div(pool, ix_add(pool, of, ix_const(pool, by - 1)),
                             ix_const(pool, by), NULL);
}

/* Of the row of the target, with an estimate of the registers: nothing is
 * compiled. */
static void report_occupancy(drv_backend_t *b, const kir_kernel_t *k,
                             const cgc_kernel_t *launch) {
  static const char *const limits[] = {
      [IR_LIMIT_REGISTERS] = "registers", [IR_LIMIT_SHARED] = "shared memory",
      [IR_LIMIT_WARPS] = "warps", [IR_LIMIT_BLOCKS] = "blocks"};
  const ir_target_t *t = b->target;
  ir_limit_t limit;
  if (b->state.remarks == NULL) return;
  uint32_t warps = (launch->threads + t->warp - 1) / t->warp;
  uint32_t blocks = ir_target_resident(t, launch->threads, launch->registers,
                                       launch->shared_bytes, &limit);
  remark_t *m = pass_remark(
      &b->state, "emit-cuda", REMARK_CODE_OCCUPANCY, k->loc,
      "kernel %s: blocks of %u threads, about %u registers each, and %u bytes "
      "of shared memory; a multiprocessor of %s holds %u of them, %u of its "
      "%u warps, limited by %s",
      k->name, launch->threads, launch->registers, launch->shared_bytes,
      t->name, blocks, blocks * warps, t->sm_warps, limits[limit]);
  if (m == NULL) return;
  ix_pool_t *pool = k->pool;
  const ix_poly_t *grid = rounds(pool, kir_block_count(k), launch->workers);
  const ix_poly_t *waves =
      blocks == 0 ? NULL
                  : rounds(pool, grid, (int64_t)blocks * t->sms);
  if (grid != NULL) pass_remark_number(m, "blocks", grid);
  if (waves != NULL) pass_remark_number(m, "waves", waves);
  pass_remark_number(m, "registers", ix_const(pool, launch->registers));
  pass_remark_number(m, "shared_bytes", ix_const(pool, launch->shared_bytes));
  pass_remark_number(m, "blocks_resident", ix_const(pool, blocks));
  pass_remark_number(m, "warps_resident", ix_const(pool, blocks * warps));
}

/* The kernels, those that were edited by hand in place of ours. */
static const kir_kernel_t **kernels_of(drv_backend_t *b) {
  uint32_t n = b->kernels.count;
  td_str_t text;
  const kir_kernel_t **out =
      TD_NEW_ARRAY(b->c->arena, const kir_kernel_t *, n + 1);
  for (uint32_t k = 0; k < n; k++) {
    const kir_kernel_t *edited =
        drv_debug_override(b, b->kernels.kernels[k], &text);
    out[k] = edited != NULL ? edited : b->kernels.kernels[k];
  }
  return out;
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
  td_str_t edited;
  const kir_kernel_t **kernels = kernels_of(b);
  for (uint32_t k = 0; k < n;) {
    uint32_t first = k;
    size_t bytes = 0;
    while (k < n && (k == first || bytes < PART_BYTES)) {
      td_buf_init(&text, b->c->task);
      kir_print(&text, kernels[k]);
      bytes += text.length;
      td_buf_free(&text);
      k++;
    }
    td_buf_init(&text, b->c->task);
    drv_cuda_text(b, kernels + first, k - first,
                  b->c->device.hal == DRV_HAL_SIM, &text,
                  out->launches + first);
    plan_module_t *m = &out->modules[out->module_count];
    m->name = td_arena_printf(arena, "m%u", out->module_count);
    m->payload = PLAN_PAYLOAD_CUDA;
    m->target = b->target->name;
    m->bytes = text.length;
    m->data = td_buf_finish(&text, arena);
    if (drv_debug_override_text(
            b, td_arena_printf(arena, "%s.cu", m->name), &edited)) {
      m->bytes = edited.length;
      m->data = td_arena_strndup(arena, edited.data, edited.length);
    }
    for (uint32_t i = first; i < k; i++) {
      report_occupancy(b, kernels[i], &out->launches[i]);
      out->kernels[i].module = out->module_count;
      out->kernels[i].symbol = out->launches[i].symbol;
    }
    out->module_count++;
  }
}
