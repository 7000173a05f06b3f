/* The handlers of one host variant, in the order of handlers.def. */
#include "runtime/simgpu/x.h"

#define SIM_TABLE SIM_GLUE(sim_table, SIM_VARIANT)
extern const sim_fn_t SIM_TABLE[SIM_HANDLER_COUNT];
const sim_fn_t SIM_TABLE[SIM_HANDLER_COUNT] = {
#define SIM_HANDLER(name, propagation) SIM_X(name),
#include "runtime/simgpu/handlers.def"
#undef SIM_HANDLER
};
