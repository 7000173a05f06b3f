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

/* Where the version in use is newer than the function's first one: the
   driver version that brought it. A caller built for an older driver would
   call it by another signature. */
static const struct {
  const char *name;
  int version;
} since[] = {
    {"cuCtxCreate", 12050},
    {"cuDeviceGetUuid", 11040},
    {"cuEventElapsedTime", 12080},
    {"cuGraphAddDependencies", 12030},
    {"cuGraphAddKernelNode", 12000},
    {"cuGraphExecKernelNodeSetParams", 12000},
    {"cuGraphExecUpdate", 12000},
    {"cuGraphGetEdges", 12030},
    {"cuGraphInstantiate", 11040},
    {"cuGraphInstantiateWithParams", 12000},
    {"cuGraphKernelNodeGetParams", 12000},
    {"cuKernelGetAttribute", 12000},
    {"cuKernelGetFunction", 12000},
    {"cuKernelSetAttribute", 12000},
    {"cuLaunchKernelEx", 11060},
    {"cuLibraryGetGlobal", 12000},
    {"cuLibraryGetKernel", 12000},
    {"cuLibraryGetModule", 12000},
    {"cuLibraryLoadData", 12000},
    {"cuLibraryUnload", 12000},
    {"cuMemAllocAsync", 11020},
    {"cuMemAllocFromPoolAsync", 11020},
    {"cuMemFreeAsync", 11020},
    {"cuStreamBeginCapture", 10010},
    {"cuStreamGetCaptureInfo", 12030},
    {"cuTensorMapEncodeTiled", 12000},
    {"cuTensorMapReplaceAddress", 12000},
};

/* Calls of the collective library, which have no versions. */
static const char *const collective[] = {
    "GetVersion", "GetUniqueId", "GetLastError", "CommInitRank",
    "CommInitRankConfig", "CommInitAll", "CommSplit", "CommFinalize",
    "CommDestroy", "CommAbort", "CommGetAsyncError", "CommCount",
    "CommUserRank", "CommCuDevice", "AllReduce", "ReduceScatter", "AllGather",
    "Broadcast", "Bcast", "Reduce", "AlltoAll", "Send", "Recv", "GroupStart",
    "GroupEnd", "GroupSimulateEnd", "RedOpCreatePreMulSum", "RedOpDestroy",
    "MemAlloc", "MemFree", "CommRegister", "CommDeregister", "CommRevoke",
    "CommShrink", "CommInitRankScalable", "CommWindowRegister",
    "CommWindowDeregister", "Gather", "Scatter", "ResetDebugInit"};

bool sim_call_name(char *name, size_t bytes) {
  if (strncmp(name, "nccl", 4) == 0) {
    for (size_t i = 0; i < sizeof collective / sizeof *collective; i++)
      if (strcmp(collective[i], name + 4) == 0) return true;
    return false;
  }
  for (size_t i = 0; i < sizeof procs / sizeof *procs; i++) {
    size_t n = strlen(procs[i].export_name);
    if ((strcmp(procs[i].name, name) != 0 &&
         strcmp(procs[i].export_name, name) != 0) ||
        n >= bytes)
      continue;
    memcpy(name, procs[i].export_name, n + 1);
    return true;
  }
  return false;
}

static int first_version(const char *base) {
  for (size_t i = 0; i < sizeof since / sizeof *since; i++)
    if (strcmp(since[i].name, base) == 0) return since[i].version;
  return 2000;
}

/* True if the real driver has a form of the function that works on the
   calling thread's stream, which is not simulated. */
static bool has_thread_form(const char *export_name) {
  static const char *const missing_names[] = {
#undef SIM_CU_MISSING
#define SIM_CU_MISSING(name) #name,
#include "runtime/simgpu/sim_missing.def"
#undef SIM_CU_MISSING
  };
  size_t n = strlen(export_name);
  for (size_t i = 0; i < sizeof missing_names / sizeof(char *); i++)
    if (strncmp(missing_names[i], export_name, n) == 0 &&
        (strcmp(missing_names[i] + n, "_ptsz") == 0 ||
         strcmp(missing_names[i] + n, "_ptds") == 0))
      return true;
  return false;
}

/* By base name ("cuMemAlloc"); the newest version that exists is the only
   one. Names of the table of functions that are not simulated: 500. flags: 1
   asks for functions of the legacy default stream, 2 of the thread's. */
SIM_EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version,
                                   uint64_t flags, int *status) {
  SIM_ARGS(name, out, version, flags, status);
  int code = sim_enter("cuGetProcAddress_v2", false);
  if (code) return code;
  if (!name || !out || version < 2000 || flags > 2)
    return sim_leave(RCUDA_INVALID_VALUE);
  *out = NULL;
  int found = RCUDA_PROC_NOT_FOUND;
  for (size_t i = 0; i < sizeof procs / sizeof *procs; i++) {
    if (strcmp(procs[i].name, name) != 0 &&
        strcmp(procs[i].export_name, name) != 0)
      continue;
    if (flags == 2 && has_thread_form(procs[i].export_name)) break;
    found = version < first_version(procs[i].name)
                ? RCUDA_PROC_VERSION_TOO_OLD
                : RCUDA_PROC_FOUND;
    if (found == RCUDA_PROC_FOUND) memcpy(out, &procs[i].fn, sizeof *out);
    break;
  }
  if (status) *status = found;
  return sim_leave(*out ? 0 : RCUDA_NOT_FOUND);
}
