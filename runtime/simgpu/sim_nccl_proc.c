/* Functions of the collective library that are not simulated: each says its
   name once and returns "internal error", as one that cannot be had. */
#include "runtime/simgpu/sim_comm.h"

#include <stdio.h>

static int missing(const char *name) {
  int code = sim_enter(name, false);
  if (code) return code;
  int *said =
      &sim_state()->said[td_hash_bytes(name, strlen(name), 0) % 1024];
  if (!*said) fprintf(stderr, "simgpu: %s is not simulated\n", name);
  *said = 1;
  return sim_leave(COLL_NCCL_INTERNAL_ERROR);
}

#define SIM_NCCL_MISSING(name)                                                \
  SIM_EXPORT int nccl##name(void);                                            \
  SIM_EXPORT int nccl##name(void) { return missing("nccl" #name); }           \
  SIM_NCCL_ALIAS(name)

SIM_NCCL_MISSING(CommRevoke)
SIM_NCCL_MISSING(CommShrink)
SIM_NCCL_MISSING(CommInitRankScalable)
SIM_NCCL_MISSING(CommWindowRegister)
SIM_NCCL_MISSING(CommWindowDeregister)
SIM_NCCL_MISSING(Gather)
SIM_NCCL_MISSING(Scatter)

/* Kept by the vendor for old programs; it does nothing there either. */
SIM_EXPORT void ncclResetDebugInit(void);
SIM_EXPORT void ncclResetDebugInit(void) {
  if (!sim_enter("ncclResetDebugInit", false)) sim_leave(0);
}
SIM_NCCL_ALIAS(ResetDebugInit)
