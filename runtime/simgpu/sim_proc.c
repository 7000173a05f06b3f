/* cuGetProcAddress, and an answer for every function of the real driver that
   is not simulated: it says its name once and returns "not supported". */
#include "runtime/simgpu/sim_cuda.h"

#include <stdio.h>
#include <stdlib.h>

static int missing(const char *name, int *said) {
  if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
    fprintf(stderr, "simgpu: %s is not simulated\n", name);
  return RCUDA_NOT_SUPPORTED;
}

#define SIM_CU_MISSING(name)                                                  \
  SIM_EXPORT int name(void);                                                  \
  SIM_EXPORT int name(void) {                                                 \
    return missing(#name, sim_said_flag(#name));                              \
  }

/* Which names were already printed: flags by hash, so that a rare collision
   only silences one line. */
static int *sim_said_flag(const char *name) {
  return &sim_state()->said[td_hash_bytes(name, strlen(name), 0) % 1024];
}

#include "runtime/simgpu/sim_missing.def"

typedef void (*proc_t)(void);

static const struct {
  const char *name, *export_name;
  proc_t fn;
} procs[] = {
#define SIM_CU(base, name) {#base, #name, (proc_t)name},
#include "runtime/simgpu/sim_cuda.def"
#undef SIM_CU
};

/* By base name ("cuMemAlloc"); the newest version that exists is the only
   one. Names of the table of functions that are not simulated: 500. */
SIM_EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version,
                                   uint64_t flags, int *status) {
  int code = sim_enter("cuGetProcAddress_v2", false);
  (void)flags;
  if (code) return code;
  sim_leave(0);
  if (!name || !out || version < 2000) return RCUDA_INVALID_VALUE;
  *out = NULL;
  for (size_t i = 0; i < sizeof procs / sizeof *procs; i++) {
    if (strcmp(procs[i].name, name) != 0 &&
        strcmp(procs[i].export_name, name) != 0)
      continue;
    memcpy(out, &procs[i].fn, sizeof *out);
    if (status) *status = RCUDA_PROC_FOUND;
    return 0;
  }
  if (status) *status = RCUDA_PROC_NOT_FOUND;
  return RCUDA_NOT_FOUND;
}
