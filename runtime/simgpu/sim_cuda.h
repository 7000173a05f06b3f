/* Prototypes of everything the library exports, and what its parts need of
   each other. The cu* names are those that the vendor's macros map to. */
#ifndef SIM_CUDA_H
#define SIM_CUDA_H

#include "runtime/simgpu/sim_root.h"

int cuInit(unsigned flags);
int cuDriverGetVersion(int *out);
int cuGetErrorName(int code, const char **out);
int cuGetErrorString(int code, const char **out);
int cuDeviceGetCount(int *out);
int cuDeviceGet(int *out, int ordinal);
int cuDeviceGetName(char *out, int length, int device);
int cuDeviceGetUuid_v2(rcuda_uuid_t *out, int device);
int cuDeviceTotalMem_v2(size_t *out, int device);
int cuDeviceGetPCIBusId(char *out, int length, int device);
int cuDeviceCanAccessPeer(int *out, int device, int peer);
int cuDeviceGetP2PAttribute(int *out, int attribute, int device, int peer);
int cuDeviceGetAttribute(int *out, int attribute, int device);
int cuCtxCreate_v4(rcuda_ctx_t **out, const rcuda_ctx_params_t *params,
                   unsigned flags, int device);
int cuCtxCreate_v2(rcuda_ctx_t **out, unsigned flags, int device);
int cuCtxDestroy_v2(rcuda_ctx_t *handle);
int cuCtxPushCurrent_v2(rcuda_ctx_t *handle);
int cuCtxPopCurrent_v2(rcuda_ctx_t **out);
int cuCtxSetCurrent(rcuda_ctx_t *handle);
int cuCtxGetCurrent(rcuda_ctx_t **out);
int cuCtxGetDevice(int *out);
int cuCtxGetFlags(unsigned *out);
int cuCtxSynchronize(void);
int cuCtxGetLimit(size_t *out, int limit);
int cuCtxSetLimit(int limit, size_t value);
int cuCtxGetStreamPriorityRange(int *least, int *greatest);
int cuCtxEnablePeerAccess(rcuda_ctx_t *peer, unsigned flags);
int cuCtxDisablePeerAccess(rcuda_ctx_t *peer);
int cuDevicePrimaryCtxRetain(rcuda_ctx_t **out, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxReset_v2(int device);
int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags);
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
int cuMemAlloc_v2(uint64_t *out, size_t bytes);
int cuMemAllocManaged(uint64_t *out, size_t bytes, unsigned flags);
int cuMemAllocPitch_v2(uint64_t *out, size_t *pitch, size_t width,
    size_t height, unsigned element);
int cuMemFree_v2(uint64_t address);
int cuMemGetInfo_v2(size_t *available, size_t *total);
int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t address);
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
int cuMemAllocHost_v2(void **out, size_t bytes);
int cuMemFreeHost(void *host);
int cuMemHostRegister_v2(void *host, size_t bytes, unsigned flags);
int cuMemHostUnregister(void *host);
int cuMemHostGetDevicePointer_v2(uint64_t *out, void *host, unsigned flags);
int cuPointerGetAttribute(void *out, int attribute, uint64_t address);
int cuMemAllocAsync(uint64_t *out, size_t bytes, rcuda_stream_t *stream);
int cuMemFreeAsync(uint64_t address, rcuda_stream_t *stream);
int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes);
int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes);
int cuMemcpyDtoD_v2(uint64_t dst, uint64_t src, size_t bytes);
int cuMemcpy(uint64_t dst, uint64_t src, size_t bytes);
int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes,
    rcuda_stream_t *stream);
int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes,
    rcuda_stream_t *stream);
int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes,
    rcuda_stream_t *stream);
int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t bytes,
    rcuda_stream_t *stream);
int cuMemcpyPeer(uint64_t dst, rcuda_ctx_t *dst_ctx, uint64_t src,
    rcuda_ctx_t *src_ctx, size_t bytes);
int cuMemcpyPeerAsync(uint64_t dst, rcuda_ctx_t *dst_ctx, uint64_t src,
    rcuda_ctx_t *src_ctx, size_t bytes, rcuda_stream_t *stream);
int cuMemcpy2D_v2(const rcuda_copy2d_t *c);
int cuMemcpy2DUnaligned_v2(const rcuda_copy2d_t *c);
int cuMemcpy2DAsync_v2(const rcuda_copy2d_t *c, rcuda_stream_t *stream);
int cuMemsetD8_v2(uint64_t dst, unsigned char v, size_t n);
int cuMemsetD16_v2(uint64_t dst, unsigned short v, size_t n);
int cuMemsetD32_v2(uint64_t dst, unsigned v, size_t n);
int cuMemsetD8Async(uint64_t dst, unsigned char v, size_t n,
    rcuda_stream_t *stream);
int cuMemsetD16Async(uint64_t dst, unsigned short v, size_t n,
    rcuda_stream_t *stream);
int cuMemsetD32Async(uint64_t dst, unsigned v, size_t n,
    rcuda_stream_t *stream);
int cuMemsetD2D8_v2(uint64_t dst, size_t pitch, unsigned char v, size_t width,
    size_t height);
int cuMemsetD2D32_v2(uint64_t dst, size_t pitch, unsigned v, size_t width,
    size_t height);
int cuModuleLoadDataEx(rcuda_module_t **out, const void *image, unsigned count,
    int *options, void **values);
int cuModuleLoadData(rcuda_module_t **out, const void *image);
int cuModuleUnload(rcuda_module_t *handle);
int cuModuleGetFunction(rcuda_func_t **out, rcuda_module_t *handle,
    const char *name);
int cuModuleGetGlobal_v2(uint64_t *out, size_t *bytes, rcuda_module_t *handle,
    const char *name);
int cuFuncGetAttribute(int *out, int attribute, rcuda_func_t *handle);
int cuFuncSetAttribute(rcuda_func_t *handle, int attribute, int value);
int cuFuncSetCacheConfig(rcuda_func_t *handle, int config);
int cuFuncGetModule(rcuda_module_t **out, rcuda_func_t *handle);
int cuFuncGetParamInfo(rcuda_func_t *handle, size_t index, size_t *offset,
    size_t *bytes);
int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags( int *out,
    rcuda_func_t *handle, int threads, size_t dynamic, unsigned flags);
int cuOccupancyMaxActiveBlocksPerMultiprocessor( int *out, rcuda_func_t *handle,
    int threads, size_t dynamic);
int cuOccupancyAvailableDynamicSMemPerBlock( size_t *out, rcuda_func_t *handle,
    int blocks, int threads);
int cuLaunchKernel(rcuda_func_t *function, unsigned gx, unsigned gy,
    unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    rcuda_stream_t *stream, void **params, void **extra);
int cuLaunchKernelEx(const rcuda_launch_config_t *config,
    rcuda_func_t *function, void **params, void **extra);
int cuLaunchCooperativeKernel(rcuda_func_t *function, unsigned gx, unsigned gy,
    unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    rcuda_stream_t *stream, void **params);
int cuTensorMapEncodeTiled(rcuda_tensor_map_t *out, int type, unsigned rank,
    void *address, const uint64_t *dims, const uint64_t *strides,
    const unsigned *box, const unsigned *steps, int interleave, int swizzle,
    int promotion, int fill);
int cuTensorMapReplaceAddress(rcuda_tensor_map_t *map, void *address);
int cuLaunchHostFunc(rcuda_stream_t *stream, void (*fn)(void *), void *user);
int cuStreamCreateWithPriority(rcuda_stream_t **out, unsigned flags,
    int priority);
int cuStreamCreate(rcuda_stream_t **out, unsigned flags);
int cuStreamDestroy_v2(rcuda_stream_t *handle);
int cuStreamQuery(rcuda_stream_t *handle);
int cuStreamSynchronize(rcuda_stream_t *handle);
int cuStreamGetPriority(rcuda_stream_t *handle, int *out);
int cuStreamGetFlags(rcuda_stream_t *handle, unsigned *out);
int cuStreamGetId(rcuda_stream_t *handle, unsigned long long *out);
int cuStreamGetCtx(rcuda_stream_t *handle, rcuda_ctx_t **out);
int cuEventCreate(rcuda_event_t **out, unsigned flags);
int cuEventDestroy_v2(rcuda_event_t *handle);
int cuEventRecordWithFlags(rcuda_event_t *handle, rcuda_stream_t *stream,
    unsigned flags);
int cuEventRecord(rcuda_event_t *event, rcuda_stream_t *stream);
int cuEventQuery(rcuda_event_t *handle);
int cuEventSynchronize(rcuda_event_t *handle);
int cuEventElapsedTime_v2(float *out, rcuda_event_t *start, rcuda_event_t *end);
int cuStreamWaitEvent(rcuda_stream_t *stream, rcuda_event_t *handle,
    unsigned flags);
int cuStreamBeginCapture_v2(rcuda_stream_t *stream, int mode);
int cuStreamEndCapture(rcuda_stream_t *stream, rcuda_graph_t **out);
int cuStreamIsCapturing(rcuda_stream_t *stream, int *out);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuGraphCreate(rcuda_graph_t **out, unsigned flags);
int cuGraphDestroy(rcuda_graph_t *handle);
int cuGraphGetNodes(rcuda_graph_t *handle, rcuda_node_t **nodes, size_t *count);
int cuGraphInstantiateWithFlags(rcuda_exec_t **out, rcuda_graph_t *handle,
    unsigned long long flags);
int cuGraphExecDestroy(rcuda_exec_t *handle);
int cuGraphUpload(rcuda_exec_t *handle, rcuda_stream_t *stream);
int cuGraphLaunch(rcuda_exec_t *handle, rcuda_stream_t *stream);
int cuGraphNodeGetType(rcuda_node_t *handle, int *out);
int cuGraphKernelNodeGetParams_v2(rcuda_node_t *handle,
    rcuda_kernel_node_t *out);
int cuGraphExecKernelNodeSetParams_v2(rcuda_exec_t *exec,
    rcuda_node_t *handle, const rcuda_kernel_node_t *params);
int cuGraphExecUpdate_v2(rcuda_exec_t *exec, rcuda_graph_t *graph,
    rcuda_update_info_t *info);
int cuStreamGetCaptureInfo_v3( rcuda_stream_t *stream, int *status, uint64_t
    *id, rcuda_graph_t **graph, rcuda_node_t *const **after, const
    rcuda_edge_t **edges, size_t *count);
int cuMemcpy3D_v2(const rcuda_copy3d_t *c);
int cuMemcpy3DAsync_v2(const rcuda_copy3d_t *c, rcuda_stream_t *stream);
int cuMemsetD2D16_v2(uint64_t dst, size_t pitch, unsigned short v, size_t
    width, size_t height);
int cuMemsetD2D8Async(uint64_t dst, size_t pitch, unsigned char v, size_t
    width, size_t height, rcuda_stream_t *stream);
int cuMemsetD2D16Async(uint64_t dst, size_t pitch, unsigned short v, size_t
    width, size_t height, rcuda_stream_t *stream);
int cuMemsetD2D32Async(uint64_t dst, size_t pitch, unsigned v, size_t width,
    size_t height, rcuda_stream_t *stream);
int cuGraphInstantiateWithParams(rcuda_exec_t **out, rcuda_graph_t *handle,
    rcuda_instantiate_t *params);
int cuGraphClone(rcuda_graph_t **out, rcuda_graph_t *handle);
int cuGraphGetEdges_v2(rcuda_graph_t *handle, rcuda_node_t **from,
    rcuda_node_t **to, rcuda_edge_t *data, size_t *count);
int cuGraphAddDependencies_v2(rcuda_graph_t *handle, rcuda_node_t *const
    *from, rcuda_node_t *const *to, const rcuda_edge_t *data, size_t count);
int cuLibraryLoadData(rcuda_library_t **out, const void *image, int *options,
    void **values, unsigned count, int *library_options, void
    **library_values, unsigned library_count);
int cuLibraryUnload(rcuda_library_t *handle);
int cuLibraryGetKernel(rcuda_kernel_t **out, rcuda_library_t *handle, const
    char *name);
int cuLibraryGetModule(rcuda_module_t **out, rcuda_library_t *handle);
int cuLibraryGetGlobal(uint64_t *out, size_t *bytes, rcuda_library_t *handle,
    const char *name);
int cuKernelGetFunction(rcuda_func_t **out, rcuda_kernel_t *handle);
int cuKernelGetAttribute(int *out, int attribute, rcuda_kernel_t *handle, int
    device);
int cuKernelSetAttribute(int attribute, int value, rcuda_kernel_t *handle, int
    device);
int cuPointerGetAttributes(unsigned count, int *attributes, void **data,
    uint64_t address);
int cuGraphAddKernelNode_v2(rcuda_node_t **out, rcuda_graph_t *graph,
    rcuda_node_t *const *after, size_t count, const rcuda_kernel_node_t
    *params);
int cuGraphAddMemcpyNode(rcuda_node_t **out, rcuda_graph_t *graph,
    rcuda_node_t *const *after, size_t count, const rcuda_copy3d_t *params,
    rcuda_ctx_t *context);
int cuGraphAddMemsetNode(rcuda_node_t **out, rcuda_graph_t *graph,
    rcuda_node_t *const *after, size_t count, const rcuda_memset_node_t
    *params, rcuda_ctx_t *context);
int cuGraphAddHostNode(rcuda_node_t **out, rcuda_graph_t *graph, rcuda_node_t
    *const *after, size_t count, const rcuda_host_node_t *params);
int cuGraphAddEmptyNode(rcuda_node_t **out, rcuda_graph_t *graph, rcuda_node_t
    *const *after, size_t count);
int cuGraphAddChildGraphNode(rcuda_node_t **out, rcuda_graph_t *graph,
    rcuda_node_t *const *after, size_t count, rcuda_graph_t *child);
int cuGraphChildGraphNodeGetGraph(rcuda_node_t *node, rcuda_graph_t **out);
int cuGraphAddEventRecordNode(rcuda_node_t **out, rcuda_graph_t *graph,
    rcuda_node_t *const *after, size_t count, rcuda_event_t *event);
int cuGraphAddEventWaitNode(rcuda_node_t **out, rcuda_graph_t *graph,
    rcuda_node_t *const *after, size_t count, rcuda_event_t *event);
int cuGraphAddMemAllocNode(rcuda_node_t **out, rcuda_graph_t *graph,
    rcuda_node_t *const *after, size_t count, rcuda_alloc_node_t *params);
int cuGraphAddMemFreeNode(rcuda_node_t **out, rcuda_graph_t *graph,
    rcuda_node_t *const *after, size_t count, uint64_t address);
int cuOccupancyMaxPotentialBlockSize( int *grid, int *block, rcuda_func_t
    *handle, size_t (*dynamic_of)(int threads), size_t dynamic, int limit);
int cuOccupancyMaxPotentialBlockSizeWithFlags( int *grid, int *block,
    rcuda_func_t *handle, size_t (*dynamic_of)(int threads), size_t dynamic,
    int limit, unsigned flags);
int cuOccupancyMaxActiveClusters(int *out, rcuda_func_t *handle, const
    rcuda_launch_config_t *c);
int cuMemAllocFromPoolAsync(uint64_t *out, size_t bytes, rcuda_pool_t *pool,
    rcuda_stream_t *stream);
int cuMemPoolCreate(rcuda_pool_t **out, const rcuda_pool_props_t *props);
int cuMemPoolDestroy(rcuda_pool_t *handle);
int cuMemPoolTrimTo(rcuda_pool_t *handle, size_t keep);
int cuMemPoolSetAttribute(rcuda_pool_t *handle, int attribute, const void
    *value);
int cuMemPoolGetAttribute(rcuda_pool_t *handle, int attribute, void *value);
int cuMemPoolSetAccess(rcuda_pool_t *handle, const rcuda_access_t *list,
    size_t count);
int cuMemPoolGetAccess(int *flags, rcuda_pool_t *handle, const
    rcuda_location_t *location);
int cuDeviceGetDefaultMemPool(rcuda_pool_t **out, int device);
int cuDeviceGetMemPool(rcuda_pool_t **out, int device);
int cuDeviceSetMemPool(int device, rcuda_pool_t *handle);
int cuMemAddressReserve(uint64_t *out, size_t bytes, size_t alignment,
    uint64_t address, unsigned long long flags);
int cuMemAddressFree(uint64_t address, size_t bytes);
int cuMemGetAllocationGranularity( size_t *out, const rcuda_memory_props_t
    *props, int option);
int cuMemCreate(uint64_t *out, size_t bytes, const rcuda_memory_props_t
    *props, unsigned long long flags);
int cuMemRelease(uint64_t handle);
int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle,
    unsigned long long flags);
int cuMemUnmap(uint64_t address, size_t bytes);
int cuMemSetAccess(uint64_t address, size_t bytes, const rcuda_access_t *list,
    size_t count);
int cuMemGetAccess(unsigned long long *flags, const rcuda_location_t
    *location, uint64_t address);
size_t simgpu_totals_get(char *out, size_t bytes);
size_t simgpu_trace_count(void);
size_t simgpu_trace_get(size_t index, char *out, size_t bytes);
size_t simgpu_coll_count(void);
size_t simgpu_coll_get(size_t index, char *out, size_t bytes);
size_t simgpu_allocations_get(size_t index, char *out, size_t bytes);
const char *simgpu_version(void);
int simgpu_configure(const char *text);
size_t simgpu_problem(size_t index, char *out, size_t bytes);
size_t simgpu_report_count(void);
size_t simgpu_report_get(size_t index, char *out, size_t bytes);
size_t simgpu_report_text(size_t index, char *out, size_t bytes);
size_t simgpu_counters_count(void);
size_t simgpu_counters_get(size_t index, char *out, size_t bytes);
size_t simgpu_lines_get(size_t index, char *out, size_t bytes);
void simgpu_reset(void);
int simgpu_registers(const char *kernel, unsigned count);
size_t simgpu_forms_count(void);
size_t simgpu_forms_get(size_t index, char *out, size_t bytes);
int cuGetProcAddress_v2(const char *name, void **out, int version,
    uint64_t flags, int *status);

/* Frees what a context owns of one handle's object (sim_module.c). */
void sim_drop_object(sim_slot_t *slot, uint64_t ctx);
/* -- modules: ctx NULL judges the text without placing it; library: modules
   of one are its own -- */
int sim_module_load(sim_ctx_t *ctx, const void *image, uint64_t *out,
                    void *log, size_t *log_bytes);
/* With the log that the caller's options ask for. */
int sim_load_logged(sim_ctx_t *ctx, const void *image, unsigned count,
                    const int *options, void **values, uint64_t *out);
void sim_module_free(sim_module_t *m);
/* Launches of its functions that nobody has waited for: a finding. */
void sim_module_report_queued(const sim_module_t *m);
sim_func_t *sim_module_func(const sim_module_t *m, const char *name);
int sim_module_global(const sim_module_t *m, const char *name, uint64_t *out,
                      size_t *bytes);
int sim_func_attribute(const sim_func_t *f, int attribute, int *out);
int sim_func_set(sim_func_t *f, int attribute, int value);
/* Of a library's kernel, its function in the current context, loaded if need
   be; NULL for any other handle. */
sim_func_t *sim_kernel_func(const void *handle);
void sim_libraries_free(sim_state_t *state);
/* The same without parameters. */
int sim_prepare_geometry(sim_func_t *f, const rcuda_launch_config_t *c,
                         sim_op_run_t *op);
/* Checks a launch against every limit and fills the operation. */
int sim_prepare_launch(sim_func_t *f, const rcuda_launch_config_t *c,
                       void **params, void **extra, sim_op_run_t *op);

#endif
