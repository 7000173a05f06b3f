/* Forms of clusters. */
#include "runtime/simgpu/decoder.h"

bool sim_form_mapa(sim_decoder_t *d) {
  ptx_type_t type = d->op->form.types[0];
  bool is_rank = d->ins.handler == SIM_H_getctarank;
  uint32_t count = is_rank ? 2 : 3;
  if (d->ptx->count != count)
    return SIM_FAIL(d, "%u operands where %u are meant", d->ptx->count,
                    count);
  sim_slot(d, 0, sim_dest(d, sim_operand(d, 0), is_rank ? PTX_U32 : type));
  d->ins.writes |= SIM_WRITES_D;
  sim_slot(d, 1, sim_source(d, sim_operand(d, 1), type));
  if (!is_rank) sim_slot(d, 2, sim_source(d, sim_operand(d, 2), PTX_U32));
  d->kernel->has_cluster = true;
  return true;
}

bool sim_form_cluster(sim_decoder_t *d) {
  if (d->ptx->count)
    return SIM_FAIL(d, "%u operands where 0 are meant", d->ptx->count);
  d->kernel->has_cluster = true;
  return true;
}
