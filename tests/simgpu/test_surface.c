/* The calls that the simulated driver promises, typed from its specification
   and not from the simulator's own table: each must be there, under this name,
   findable by its base name, and must not be one of those that only say that
   they are not simulated. */
#include "driver_lab.h"

static const char *const promised =
    "cuInit cuDriverGetVersion cuGetErrorName cuGetErrorString "
    "cuGetProcAddress_v2 "
    /* devices */
    "cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetUuid_v2 "
    "cuDeviceGetAttribute cuDeviceTotalMem_v2 cuDeviceGetPCIBusId "
    "cuDeviceCanAccessPeer cuDeviceGetP2PAttribute "
    /* contexts */
    "cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 "
    "cuDevicePrimaryCtxReset_v2 cuDevicePrimaryCtxSetFlags_v2 "
    "cuDevicePrimaryCtxGetState cuCtxCreate_v4 cuCtxDestroy_v2 "
    "cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxSetCurrent cuCtxGetCurrent "
    "cuCtxGetDevice cuCtxGetFlags cuCtxSynchronize cuCtxGetLimit "
    "cuCtxSetLimit cuCtxGetStreamPriorityRange cuCtxEnablePeerAccess "
    "cuCtxDisablePeerAccess "
    /* modules */
    "cuModuleLoadData cuModuleLoadDataEx cuModuleUnload cuModuleGetFunction "
    "cuModuleGetGlobal_v2 cuLibraryLoadData cuLibraryUnload "
    "cuLibraryGetKernel cuLibraryGetGlobal cuLibraryGetModule "
    "cuKernelGetFunction cuKernelGetAttribute cuKernelSetAttribute "
    /* functions */
    "cuFuncGetAttribute cuFuncSetAttribute cuFuncGetModule "
    "cuFuncGetParamInfo cuOccupancyMaxActiveBlocksPerMultiprocessor "
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags "
    "cuOccupancyMaxPotentialBlockSize cuOccupancyMaxActiveClusters "
    "cuOccupancyAvailableDynamicSMemPerBlock "
    /* launch */
    "cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel "
    "cuLaunchHostFunc "
    /* memory */
    "cuMemAlloc_v2 cuMemAllocPitch_v2 cuMemFree_v2 cuMemGetInfo_v2 "
    "cuMemGetAddressRange_v2 cuMemAllocHost_v2 cuMemFreeHost cuMemHostAlloc "
    "cuMemHostRegister_v2 cuMemHostUnregister cuMemHostGetDevicePointer_v2 "
    "cuMemAllocManaged cuPointerGetAttribute cuPointerGetAttributes "
    /* pools */
    "cuMemAllocAsync cuMemFreeAsync cuMemAllocFromPoolAsync cuMemPoolCreate "
    "cuMemPoolDestroy cuMemPoolTrimTo cuMemPoolSetAttribute "
    "cuMemPoolGetAttribute cuMemPoolSetAccess cuDeviceGetDefaultMemPool "
    "cuDeviceGetMemPool cuDeviceSetMemPool "
    /* virtual memory */
    "cuMemAddressReserve cuMemAddressFree cuMemCreate cuMemRelease cuMemMap "
    "cuMemUnmap cuMemSetAccess cuMemGetAllocationGranularity "
    /* copies, fills */
    "cuMemcpy cuMemcpyAsync cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2 "
    "cuMemcpyDtoH_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoD_v2 "
    "cuMemcpyDtoDAsync_v2 cuMemcpyPeer cuMemcpyPeerAsync cuMemcpy2D_v2 "
    "cuMemcpy2DAsync_v2 cuMemcpy3D_v2 cuMemsetD8_v2 cuMemsetD16_v2 "
    "cuMemsetD32_v2 cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async "
    "cuMemsetD2D8_v2 cuMemsetD2D32_v2 "
    /* streams */
    "cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2 "
    "cuStreamQuery cuStreamSynchronize cuStreamWaitEvent "
    "cuStreamGetPriority cuStreamGetFlags cuStreamGetId "
    "cuStreamBeginCapture_v2 cuStreamEndCapture cuStreamIsCapturing "
    "cuStreamGetCaptureInfo_v3 "
    /* events */
    "cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventRecordWithFlags "
    "cuEventQuery cuEventSynchronize cuEventElapsedTime_v2 "
    /* graphs */
    "cuGraphCreate cuGraphDestroy cuGraphClone cuGraphGetNodes "
    "cuGraphGetEdges_v2 cuGraphAddDependencies_v2 cuGraphAddKernelNode_v2 "
    "cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddHostNode "
    "cuGraphAddEmptyNode cuGraphAddChildGraphNode "
    "cuGraphAddEventRecordNode cuGraphAddEventWaitNode "
    "cuGraphAddMemAllocNode cuGraphAddMemFreeNode "
    "cuGraphInstantiateWithFlags cuGraphInstantiateWithParams "
    "cuGraphLaunch cuGraphUpload cuGraphExecUpdate_v2 "
    "cuGraphExecKernelNodeSetParams_v2 cuGraphExecDestroy "
    /* tensor maps */
    "cuTensorMapEncodeTiled cuTensorMapReplaceAddress";

static int by_name(const char *name, int version, u64 flags, void **out,
                   int *status) {
  typedef int (*find_t)(const char *, void **, int, u64, int *);
  *out = NULL;
  *status = -1;
  return ((find_t)symbol("cuGetProcAddress_v2"))(name, out, version, flags,
                                                 status);
}

/* Nothing but zeros: whatever is wrong with that, it is not that the call is
   not supported. */
static void promises(void **state) {
  (void)state;
  char name[80], base[80], text[2048] = "";
  int count = 0, at = 0;
  for (const char *p = promised; sscanf(p, "%79s%n", name, &at) == 1;
       p += at) {
    void *fn = NULL;
    int status, code = zeros(name);
    count++;
    strcpy(base, name);
    char *version = strrchr(base, '_');
    if (version && version[1] == 'v') *version = 0;
    if (strcmp(base, "cuGraphInstantiateWithFlags") == 0)
      strcpy(base, "cuGraphInstantiate");
    if (code == 801 || by_name(base, 13000, 0, &fn, &status) || !fn ||
        status != RCUDA_PROC_FOUND)
      snprintf(text + strlen(text), sizeof text - strlen(text), " %s", name);
  }
  assert_int_equal(count, 159);
  if (text[0]) fail_msg("promised and not there:%s", text);
}

/* By base name, and by how new a driver the caller was built for. */
static void names(void **state) {
  (void)state;
  void *a, *b;
  int status;
  assert_int_equal(by_name("cuMemAlloc", 13000, 0, &a, &status), 0);
  assert_int_equal(by_name("cuMemAlloc_v2", 13000, 0, &b, &status), 0);
  assert_ptr_equal(a, b);
  /* known to the real driver, not simulated; known to none */
  assert_int_equal(by_name("cuTexRefCreate", 13000, 0, &a, &status), 500);
  assert_int_equal(status, RCUDA_PROC_NOT_FOUND);
  assert_null(a);
  assert_int_equal(by_name("cuFrobnicate", 13000, 0, &a, &status), 500);
  /* newer than the caller */
  assert_int_equal(by_name("cuGraphAddKernelNode", 11000, 0, &a, &status),
                   500);
  assert_int_equal(status, RCUDA_PROC_VERSION_TOO_OLD);
  assert_int_equal(by_name("cuGraphAddKernelNode", 12000, 0, &a, &status),
                   0);
  assert_int_equal(by_name("cuLibraryLoadData", 11080, 0, &a, &status), 500);
  /* the forms for streams of threads do not exist; what has none is found */
  assert_int_equal(by_name("cuLaunchKernel", 13000, 2, &a, &status), 500);
  assert_int_equal(by_name("cuDeviceGet", 13000, 2, &a, &status), 0);
  assert_int_equal(by_name(NULL, 13000, 0, &a, &status), 1);
  assert_int_equal(by_name("cuInit", 13000, 3, &a, &status), 1);
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(promises),
                                     cmocka_unit_test(names)};
  return cmocka_run_group_tests_name("simgpu.surface", tests, setup, NULL);
}
