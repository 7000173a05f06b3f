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
  SIM_EXPORT int name(void);                                                  \
  SIM_EXPORT int name(void) { return missing(#name); }

SIM_NCCL_MISSING(ncclCommRevoke)
SIM_NCCL_MISSING(ncclCommShrink)
SIM_NCCL_MISSING(ncclCommInitRankScalable)
SIM_NCCL_MISSING(ncclCommWindowRegister)
SIM_NCCL_MISSING(ncclCommWindowDeregister)
SIM_NCCL_MISSING(ncclGather)
SIM_NCCL_MISSING(ncclScatter)
