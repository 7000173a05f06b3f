/* api_device.c: the string that selects where to run. */
#include "driver/api_cuda.h"

#include "ir/target.h"
#include "runtime/base/env.h"

static const char *const devices[] = {"cpu", "cuda", "interp", "interp:f64",
                                      "interp:kir", "null", "sim"};

static bool unknown(td_task_t *task, td_str_t text) {
  td_diag_t *d = td_diag(task, TD_B03, TD_NO_LOC, "no device is called '%.*s'",
                         TD_STR_ARG(text));
  td_nearest_t nearest = td_nearest_start(text);
  for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
    td_nearest_offer(&nearest, td_str(devices[i]));
  }
  if (nearest.best.data != NULL) {
    td_diag_help(d, "did you mean '%.*s'?", TD_STR_ARG(nearest.best));
  }
  td_diag_note(d, "devices: cpu, cpu:TARGET, cuda, cuda:N, interp, "
                  "interp:f64, interp:kir, null, sim, sim:MACHINE");
  return false;
}

/* cpu:x86-64-v3 */
static bool set_target(td_task_t *task, td_arena_t *arena, td_str_t name,
                       drv_device_t *out) {
  out->target = td_str_cstr(arena, name);
  const ir_target_t *row = ir_target_find(name);
  if (row != NULL && row->sm == 0) return true;
  td_diag_t *d = td_diag(task, TD_B03, TD_NO_LOC,
                         "no machine is called '%.*s'", TD_STR_ARG(name));
  for (uint32_t i = 0; ir_target_get(i) != NULL; i++) {
    if (ir_target_get(i)->sm == 0) {
      td_diag_note(d, "%s", ir_target_get(i)->name);
    }
  }
  return false;
}

bool drv_device_parse(td_task_t *task, td_arena_t *arena, td_str_t text,
                      drv_device_t *out) {
  if (text.length == 0) text = td_str(td_env_text(TD_ENV_DEVICE));
  *out = (drv_device_t){.engine = DRV_PLAN, .target = ""};
  if (td_str_eqc(text, "interp") || td_str_eqc(text, "interp:f64")) {
    out->engine = DRV_INTERP;
    out->mode = text.length > 6 ? TIR_F64 : TIR_F32;
    return true;
  }
  if (td_str_eqc(text, "interp:kir") || td_str_eqc(text, "null") ||
      td_str_eqc(text, "cpu")) {
    out->hal = td_str_eqc(text, "cpu")    ? DRV_HAL_CPU
               : td_str_eqc(text, "null") ? DRV_HAL_NULL
                                          : DRV_HAL_KIR;
    return true;
  }
  if (td_str_starts(text, "cpu:")) {
    out->hal = DRV_HAL_CPU;
    return set_target(task, arena, td_str_n(text.data + 4, text.length - 4),
                      out);
  }
  bool is_cuda = td_str_eqc(text, "cuda") || td_str_starts(text, "cuda:");
  if (is_cuda || td_str_eqc(text, "sim") || td_str_starts(text, "sim:")) {
    out->hal = is_cuda ? DRV_HAL_CUDA : DRV_HAL_SIM;
    return drv_gpu_parse(task, text, out);
  }
  if (!td_str_eqc(text, "interp:bound")) return unknown(task, text);
  td_diag_t *d = td_diag(task, TD_B04, TD_NO_LOC,
                         "this version has no device '%.*s'",
                         TD_STR_ARG(text));
  td_diag_note(d, "cpu and interp always work");
  return false;
}
