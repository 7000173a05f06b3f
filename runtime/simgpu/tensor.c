#include "runtime/simgpu/tensor.h"

uint32_t sim_element_bits(ptx_type_t type) {
  switch (type) {
  case PTX_F64: return 64;
  case PTX_TF32: return 32;
  case PTX_F16:
  case PTX_BF16: return 16;
  case PTX_E4M3:
  case PTX_E5M2:
  case PTX_S8:
  case PTX_U8: return 8;
  case PTX_S4:
  case PTX_U4: return 4;
  case PTX_B1: return 1;
  default: return 0;
  }
}

void sim_tensor_count(sim_worker_t *worker, ptx_type_t a, uint64_t flop) {
  sim_counter_t which = SIM_COUNTER_TENSOR_B1;
  switch (sim_element_bits(a)) {
  case 64: which = SIM_COUNTER_TENSOR_F64; break;
  case 32: which = SIM_COUNTER_TENSOR_TF32; break;
  case 16:
    which = a == PTX_F16 ? SIM_COUNTER_TENSOR_F16 : SIM_COUNTER_TENSOR_BF16;
    break;
  case 8:
    which = a == PTX_E4M3 || a == PTX_E5M2 ? SIM_COUNTER_TENSOR_F8
                                           : SIM_COUNTER_TENSOR_I8;
    break;
  case 4: which = SIM_COUNTER_TENSOR_I4; break;
  default: break;
  }
  worker->counters[SIM_COUNTER_TENSOR_FLOP] += flop;
  worker->counters[which] += flop;
}

void sim_tensor_format(ptx_type_t type, uint32_t *fraction, int32_t *emin) {
  switch (type) {
  case PTX_F16: *fraction = 10, *emin = -14; return;
  case PTX_BF16: *fraction = 7, *emin = -126; return;
  case PTX_TF32: *fraction = 10, *emin = -126; return;
  case PTX_E4M3: *fraction = 3, *emin = -6; return;
  case PTX_E5M2: *fraction = 2, *emin = -14; return;
  default: *fraction = 23, *emin = -126; return;
  }
}

sim_tensor_model_t sim_tensor_model(const sim_device_row_t *row,
                                    const sim_tensor_types_t *types) {
  bool is_hopper = row->cc >= 90, is_f8 = sim_element_bits(types->a) == 8;
  bool is_half = types->d == PTX_F16;
  sim_tensor_model_t m = {0};
  m.block = types->a == PTX_TF32 ? (is_hopper ? 8 : 4) : is_hopper ? 16 : 8;
  m.fraction = is_hopper ? 25 : 24;
  m.least = is_hopper ? (is_half ? -21 : -133) : (is_half ? -20 : -132);
  m.is_nearest = is_half;
  if (is_f8) {
    m.block = 32;
    m.fraction = m.keep = 13;
    m.is_open_with_c = true;
    m.is_open = !is_hopper || is_half;
  }
  return m;
}
