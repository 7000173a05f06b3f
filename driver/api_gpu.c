/* api_gpu.c: GPUs and their stand-in as devices. */
#include "driver/api_cuda.h"

#include "runtime/cuda/cuda_device.h"

/* What a dump for a machine that is not here is made for. */
typedef struct machine {
  const char *name;
  uint32_t sm; /* ten times the compute capability */
} machine_t;

static const machine_t machines[] = {
    {"h100", 90}, {"a100", 80}, {"h200", 90}, {"b200", 100},
    {"t4", 75},   {"a10", 86},  {"l4", 89}};

enum {
  MACHINE_COUNT = sizeof machines / sizeof machines[0],
  DUMP_SM = 80,
  MOST_DEVICES = 16, /* of a simulated machine */
};

static bool unknown_machine(td_task_t *task, td_str_t name) {
  td_diag_t *d = td_diag(task, TD_B03, TD_NO_LOC,
                         "no simulated machine is called '%.*s'",
                         TD_STR_ARG(name));
  td_nearest_t nearest = td_nearest_start(name);
  for (int i = 0; i < MACHINE_COUNT; i++) {
    td_nearest_offer(&nearest, td_str(machines[i].name));
    td_diag_note(d, "%s", machines[i].name);
  }
  if (nearest.best.data != NULL) {
    td_diag_help(d, "did you mean '%.*s'?", TD_STR_ARG(nearest.best));
  }
  return false;
}

/* A small number after a colon, at the end of the text. */
static bool take_number(td_str_t text, uint32_t *out) {
  if (text.length == 0 || text.length > 3) return false;
  *out = 0;
  for (size_t i = 0; i < text.length; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return false;
    *out = *out * 10 + (uint32_t)(text.data[i] - '0');
  }
  return true;
}

static bool bad_number(td_task_t *task, td_str_t text) {
  td_diag(task, TD_B03, TD_NO_LOC, "'%.*s' is no number of a device",
          TD_STR_ARG(text));
  return false;
}

static bool parse_sim(td_task_t *task, td_str_t rest, drv_device_t *out) {
  td_str_t name = rest;
  const char *colon = memchr(rest.data, ':', rest.length);
  out->count = 1;
  if (colon != NULL) {
    name.length = (size_t)(colon - rest.data);
    td_str_t number = td_str_n(colon + 1, rest.length - name.length - 1);
    if (!take_number(number, &out->count) || out->count == 0) {
      return bad_number(task, number);
    }
    if (out->count > MOST_DEVICES) {
      td_diag(task, TD_B03, TD_NO_LOC,
              "%u devices; a simulated machine has at most %d", out->count,
              MOST_DEVICES);
      return false;
    }
  }
  for (int i = 0; i < MACHINE_COUNT; i++) {
    if (!td_str_eqc(name, machines[i].name)) continue;
    out->machine = machines[i].name;
    out->target = ir_target_gpu(machines[i].sm)->name;
    return true;
  }
  return unknown_machine(task, name);
}

bool drv_gpu_parse(td_task_t *task, td_str_t text, drv_device_t *out) {
  size_t n = out->hal == DRV_HAL_SIM ? 3 : 4; /* of "sim", "cuda" */
  td_str_t rest = td_str_n(text.data + n, text.length - n);
  if (rest.length > 0) rest = td_str_n(rest.data + 1, rest.length - 1);
  if (out->hal == DRV_HAL_SIM) {
    return parse_sim(task, rest.length > 0 ? rest : td_str(machines[0].name),
                     out);
  }
  out->target = ir_target_gpu(DUMP_SM)->name;
  if (text.length == n) return true;
  return take_number(rest, &out->ordinal) || bad_number(task, rest);
}

hal_device_t *drv_gpu_create(td_task_t *task, const drv_device_t *device,
                             hal_cache_t *disk) {
  rcuda_device_desc_t desc = {.ordinal = device->ordinal, .cache = disk};
  if (device->hal == DRV_HAL_SIM) {
    desc.library = rcuda_simulator_path(&task->arena);
    desc.simulated = td_arena_printf(&task->arena, "model:%s,devices:%u",
                                     device->machine, device->count);
  }
  return rcuda_device_create(task, &desc);
}

bool drv_gpu_target(td_task_t *task, hal_device_t *device,
                    drv_device_t *out) {
  uint32_t sm = rcuda_device_sm(device);
  const ir_target_t *row = ir_target_gpu(sm);
  if (row != NULL) {
    out->target = row->name;
    return true;
  }
  td_diag(task, TD_B04, TD_NO_LOC,
          "the GPU has compute capability %u.%u; 7.5 is the least", sm / 10,
          sm % 10);
  return false;
}
