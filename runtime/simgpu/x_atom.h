/* The arithmetic of atomic operations, for reductions in bulk too. */
#ifndef SIM_X_ATOM_H
#define SIM_X_ATOM_H

#include "runtime/simgpu/x.h"

/* The new value at a place that held `old`; type, width and operation are the
   instruction's. */
#define sim_atom_apply SIM_X(atom_apply)
uint64_t sim_atom_apply(const sim_ins_t *i, uint64_t old, uint64_t b,
                        uint64_t c, bool is_global);

#endif
