"""cuda_types.h and the simulated driver against the vendor's toolkit, where
one is installed: sizes, offsets and numbers as its cuda.h has them, error
names as the simulator answers them, and every name that the real driver
exports. Run time and simulator share cuda_types.h, so only this can see a
mistake in it."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(TESTS, "lint"), os.path.join(TESTS, "harness")]
from _tree import BUILD, ROOT, read, rows  # noqa: E402
from report import expect, finish, skip  # noqa: E402

INCLUDE = [p for p in ("/usr/local/cuda/include", "/opt/cuda/include",
                       "/usr/include")
           if os.path.exists(os.path.join(p, "cuda.h"))]

# Ours: the vendor's, where it is not RCUDA_X: CUDA_ERROR_X.
NAMES = {
    "SUCCESS": "CUDA_SUCCESS",
    "PEER_UNSUPPORTED": "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
    "PEER_ENABLED": "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
    "PEER_NOT_ENABLED": "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
    "PRIMARY_ACTIVE": "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
    "CONTEXT_DESTROYED": "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "HOST_REGISTERED": "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
    "HOST_NOT_REGISTERED": "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
    "OUT_OF_RESOURCES": "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "INVALID_SPACE": "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "UNSUPPORTED_PTX_VERSION": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "COOPERATIVE_TOO_LARGE": "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
    "GRAPH_UPDATE_FAILURE": "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
    "INVALID_CLUSTER": "CUDA_ERROR_INVALID_CLUSTER_SIZE",
    "CAPTURED_EVENT": "CUDA_ERROR_CAPTURED_EVENT",
    "CAPTURE_UNSUPPORTED": "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    "CAPTURE_INVALIDATED": "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
    "CAPTURE_MERGE": "CUDA_ERROR_STREAM_CAPTURE_MERGE",
    "CAPTURE_UNMATCHED": "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
    "CAPTURE_UNJOINED": "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
    "CAPTURE_ISOLATION": "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
    "CAPTURE_IMPLICIT": "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
    "CAPTURE_WRONG_THREAD": "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
    "CAPTURE_NONE": "CU_STREAM_CAPTURE_STATUS_NONE",
    "CAPTURE_ACTIVE": "CU_STREAM_CAPTURE_STATUS_ACTIVE",
    "CAPTURE_BROKEN": "CU_STREAM_CAPTURE_STATUS_INVALIDATED",
    "CAPTURE_GLOBAL": "CU_STREAM_CAPTURE_MODE_GLOBAL",
    "CAPTURE_THREAD_LOCAL": "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL",
    "CAPTURE_RELAXED": "CU_STREAM_CAPTURE_MODE_RELAXED",
    "MEMORY_HOST": "CU_MEMORYTYPE_HOST",
    "MEMORY_DEVICE": "CU_MEMORYTYPE_DEVICE",
    "MEMORY_UNIFIED": "CU_MEMORYTYPE_UNIFIED",
    "LOCATION_DEVICE": "CU_MEM_LOCATION_TYPE_DEVICE",
    "MEM_PINNED": "CU_MEM_ALLOCATION_TYPE_PINNED",
    "ACCESS_NONE": "CU_MEM_ACCESS_FLAGS_PROT_NONE",
    "ACCESS_READ": "CU_MEM_ACCESS_FLAGS_PROT_READ",
    "ACCESS_BOTH": "CU_MEM_ACCESS_FLAGS_PROT_READWRITE",
    "GRANULARITY_MINIMUM": "CU_MEM_ALLOC_GRANULARITY_MINIMUM",
    "GRANULARITY_RECOMMENDED": "CU_MEM_ALLOC_GRANULARITY_RECOMMENDED",
    "ATTACH_GLOBAL": "CU_MEM_ATTACH_GLOBAL",
    "ATTACH_HOST": "CU_MEM_ATTACH_HOST",
    "ATTACH_SINGLE": "CU_MEM_ATTACH_SINGLE",
    "POOL_REUSE_EVENTS": "CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES",
    "POOL_REUSE_OPPORTUNISTIC": "CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC",
    "POOL_REUSE_INTERNAL":
        "CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES",
    "POOL_RELEASE_THRESHOLD": "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD",
    "POOL_RESERVED": "CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT",
    "POOL_RESERVED_HIGH": "CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH",
    "POOL_USED": "CU_MEMPOOL_ATTR_USED_MEM_CURRENT",
    "POOL_USED_HIGH": "CU_MEMPOOL_ATTR_USED_MEM_HIGH",
    "NODE_WAIT": "CU_GRAPH_NODE_TYPE_WAIT_EVENT",
    "NODE_RECORD": "CU_GRAPH_NODE_TYPE_EVENT_RECORD",
    "NODE_ALLOC": "CU_GRAPH_NODE_TYPE_MEM_ALLOC",
    "NODE_FREE": "CU_GRAPH_NODE_TYPE_MEM_FREE",
    "INSTANTIATE_AUTO_FREE":
        "CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH",
    "INSTANTIATE_UPLOAD": "CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD",
    "INSTANTIATE_PRIORITY": "CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY",
    "INSTANTIATED": "CUDA_GRAPH_INSTANTIATE_SUCCESS",
    "INSTANTIATED_ERROR": "CUDA_GRAPH_INSTANTIATE_ERROR",
    "INSTANTIATED_BAD_SHAPE": "CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE",
    "INSTANTIATED_UNSUPPORTED":
        "CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED",
    "EVENT_EXTERNAL": "CU_EVENT_RECORD_EXTERNAL",
    "POINTER_BUFFER_ID": "CU_POINTER_ATTRIBUTE_BUFFER_ID",
    "POINTER_IS_MANAGED": "CU_POINTER_ATTRIBUTE_IS_MANAGED",
    "POINTER_MAPPED": "CU_POINTER_ATTRIBUTE_MAPPED",
    "POINTER_ACCESS_FLAGS": "CU_POINTER_ATTRIBUTE_ACCESS_FLAGS",
    "POINTER_MEMPOOL": "CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE",
    "STREAM_NON_BLOCKING": "CU_STREAM_NON_BLOCKING",
    "EVENT_BLOCKING_SYNC": "CU_EVENT_BLOCKING_SYNC",
    "EVENT_DISABLE_TIMING": "CU_EVENT_DISABLE_TIMING",
    "PROC_FOUND": "CU_GET_PROC_ADDRESS_SUCCESS",
    "PROC_NOT_FOUND": "CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND",
    "PROC_VERSION_TOO_OLD": "CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT",
    "LIMIT_STACK": "CU_LIMIT_STACK_SIZE",
    "LIMIT_PRINTF": "CU_LIMIT_PRINTF_FIFO_SIZE",
    "LIMIT_HEAP": "CU_LIMIT_MALLOC_HEAP_SIZE",
    "JIT_INFO_LOG": "CU_JIT_INFO_LOG_BUFFER",
    "JIT_INFO_LOG_BYTES": "CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES",
    "JIT_ERROR_LOG": "CU_JIT_ERROR_LOG_BUFFER",
    "JIT_ERROR_LOG_BYTES": "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES",
    "JIT_LOG_VERBOSE": "CU_JIT_LOG_VERBOSE",
    "JIT_LINE_INFO": "CU_JIT_GENERATE_LINE_INFO",
    "POINTER_CONTEXT": "CU_POINTER_ATTRIBUTE_CONTEXT",
    "POINTER_MEMORY_TYPE": "CU_POINTER_ATTRIBUTE_MEMORY_TYPE",
    "POINTER_DEVICE_POINTER": "CU_POINTER_ATTRIBUTE_DEVICE_POINTER",
    "POINTER_HOST_POINTER": "CU_POINTER_ATTRIBUTE_HOST_POINTER",
    "POINTER_DEVICE_ORDINAL": "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL",
    "POINTER_RANGE_START": "CU_POINTER_ATTRIBUTE_RANGE_START_ADDR",
    "POINTER_RANGE_BYTES": "CU_POINTER_ATTRIBUTE_RANGE_SIZE",
    "LAUNCH_IGNORE": "CU_LAUNCH_ATTRIBUTE_IGNORE",
    "LAUNCH_COOPERATIVE": "CU_LAUNCH_ATTRIBUTE_COOPERATIVE",
    "LAUNCH_CLUSTER": "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION",
    "LAUNCH_CLUSTER_POLICY":
        "CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE",
    "LAUNCH_PROGRAMMATIC":
        "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION",
    "LAUNCH_PROGRAMMATIC_EVENT": "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT",
    "PORT_DEFAULT": "CU_GRAPH_KERNEL_NODE_PORT_DEFAULT",
    "PORT_PROGRAMMATIC": "CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC",
    "PORT_LAUNCH_ORDER": "CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER",
    "EDGE_DEFAULT": "CU_GRAPH_DEPENDENCY_TYPE_DEFAULT",
    "EDGE_PROGRAMMATIC": "CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC",
    "LAUNCH_PRIORITY": "CU_LAUNCH_ATTRIBUTE_PRIORITY",
    "LAUNCH_CARVEOUT":
        "CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT",
    "UPDATE_SUCCESS": "CU_GRAPH_EXEC_UPDATE_SUCCESS",
    "UPDATE_ERROR": "CU_GRAPH_EXEC_UPDATE_ERROR",
    "UPDATE_TYPE_CHANGED": "CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED",
    "TENSOR_U8": "CU_TENSOR_MAP_DATA_TYPE_UINT8",
    "TENSOR_U16": "CU_TENSOR_MAP_DATA_TYPE_UINT16",
    "TENSOR_U32": "CU_TENSOR_MAP_DATA_TYPE_UINT32",
    "TENSOR_I32": "CU_TENSOR_MAP_DATA_TYPE_INT32",
    "TENSOR_U64": "CU_TENSOR_MAP_DATA_TYPE_UINT64",
    "TENSOR_I64": "CU_TENSOR_MAP_DATA_TYPE_INT64",
    "TENSOR_F16": "CU_TENSOR_MAP_DATA_TYPE_FLOAT16",
    "TENSOR_F32": "CU_TENSOR_MAP_DATA_TYPE_FLOAT32",
    "TENSOR_F64": "CU_TENSOR_MAP_DATA_TYPE_FLOAT64",
    "TENSOR_BF16": "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
    "TENSOR_F32_FTZ": "CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ",
    "TENSOR_TF32": "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32",
    "TENSOR_TF32_FTZ": "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ",
}
DEVICE = {
    "MAX_THREADS_PER_BLOCK": "MAX_THREADS_PER_BLOCK",
    "MAX_BLOCK_X": "MAX_BLOCK_DIM_X", "MAX_BLOCK_Y": "MAX_BLOCK_DIM_Y",
    "MAX_BLOCK_Z": "MAX_BLOCK_DIM_Z", "MAX_GRID_X": "MAX_GRID_DIM_X",
    "MAX_GRID_Y": "MAX_GRID_DIM_Y", "MAX_GRID_Z": "MAX_GRID_DIM_Z",
    "SHARED_PER_BLOCK": "MAX_SHARED_MEMORY_PER_BLOCK",
    "CONSTANT_BYTES": "TOTAL_CONSTANT_MEMORY", "WARP_SIZE": "WARP_SIZE",
    "MAX_PITCH": "MAX_PITCH",
    "REGISTERS_PER_BLOCK": "MAX_REGISTERS_PER_BLOCK",
    "CLOCK_KHZ": "CLOCK_RATE", "SM_COUNT": "MULTIPROCESSOR_COUNT",
    "INTEGRATED": "INTEGRATED", "MAP_HOST_MEMORY": "CAN_MAP_HOST_MEMORY",
    "COMPUTE_MODE": "COMPUTE_MODE", "CONCURRENT_KERNELS":
    "CONCURRENT_KERNELS", "ECC": "ECC_ENABLED", "PCI_BUS": "PCI_BUS_ID",
    "PCI_DEVICE": "PCI_DEVICE_ID", "MEMORY_CLOCK_KHZ": "MEMORY_CLOCK_RATE",
    "MEMORY_BUS_BITS": "GLOBAL_MEMORY_BUS_WIDTH", "L2_BYTES":
    "L2_CACHE_SIZE", "THREADS_PER_SM": "MAX_THREADS_PER_MULTIPROCESSOR",
    "COPY_ENGINES": "ASYNC_ENGINE_COUNT", "UNIFIED_ADDRESSING":
    "UNIFIED_ADDRESSING", "PCI_DOMAIN": "PCI_DOMAIN_ID",
    "CC_MAJOR": "COMPUTE_CAPABILITY_MAJOR",
    "CC_MINOR": "COMPUTE_CAPABILITY_MINOR",
    "STREAM_PRIORITIES": "STREAM_PRIORITIES_SUPPORTED",
    "SHARED_PER_SM": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "REGISTERS_PER_SM": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "MANAGED_MEMORY": "MANAGED_MEMORY",
    "PAGEABLE_ACCESS": "PAGEABLE_MEMORY_ACCESS",
    "CONCURRENT_MANAGED": "CONCURRENT_MANAGED_ACCESS",
    "COOPERATIVE_LAUNCH": "COOPERATIVE_LAUNCH",
    "SHARED_PER_BLOCK_OPTIN": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "HOST_REGISTER": "HOST_REGISTER_SUPPORTED",
    "VIRTUAL_MEMORY": "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
    "BLOCKS_PER_SM": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "RESERVED_SHARED": "RESERVED_SHARED_MEMORY_PER_BLOCK",
    "MEMORY_POOLS": "MEMORY_POOLS_SUPPORTED",
    "CLUSTER_LAUNCH": "CLUSTER_LAUNCH",
    "TEXTURE_ALIGN": "TEXTURE_ALIGNMENT", "OVERLAP": "GPU_OVERLAP",
    "SURFACE_ALIGN": "SURFACE_ALIGNMENT",
    "TEXTURE_PITCH_ALIGN": "TEXTURE_PITCH_ALIGNMENT",
    "GLOBAL_L1": "GLOBAL_L1_CACHE_SUPPORTED",
    "LOCAL_L1": "LOCAL_L1_CACHE_SUPPORTED",
    "BOARD_GROUP": "MULTI_GPU_BOARD_GROUP_ID",
    "DOUBLE_RATIO": "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO",
    "COMPUTE_PREEMPTION": "COMPUTE_PREEMPTION_SUPPORTED",
    "HOST_POINTERS": "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM",
    "MEMORY_DOMAINS": "MEM_SYNC_DOMAIN_COUNT", "NUMA_ID": "NUMA_ID",
    "HOST_NUMA_ID": "HOST_NUMA_ID", "LAST": "MAX - 1",
    "TENSOR_MAP": "TENSOR_MAP_ACCESS_SUPPORTED",
}
FUNC = {
    "MAX_THREADS": "MAX_THREADS_PER_BLOCK", "SHARED_BYTES":
    "SHARED_SIZE_BYTES", "CONST_BYTES": "CONST_SIZE_BYTES", "LOCAL_BYTES":
    "LOCAL_SIZE_BYTES", "REGISTERS": "NUM_REGS",
    "MAX_DYNAMIC_SHARED": "MAX_DYNAMIC_SHARED_SIZE_BYTES",
    "SHARED_CARVEOUT": "PREFERRED_SHARED_MEMORY_CARVEOUT",
    "CLUSTER_MUST_BE_SET": "CLUSTER_SIZE_MUST_BE_SET",
    "CLUSTER_WIDTH": "REQUIRED_CLUSTER_WIDTH",
    "CLUSTER_HEIGHT": "REQUIRED_CLUSTER_HEIGHT",
    "CLUSTER_DEPTH": "REQUIRED_CLUSTER_DEPTH",
    "NON_PORTABLE_CLUSTER": "NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
    "CLUSTER_POLICY": "CLUSTER_SCHEDULING_POLICY_PREFERENCE",
}
# Our struct: the vendor's, and our fields by the vendor's.
STRUCTS = {
    "rcuda_uuid_t": ("CUuuid", {"bytes": "bytes"}),
    "rcuda_launch_attr_t": ("CUlaunchAttribute",
                            {"id": "id", "value": "value",
                             "value.cluster": "value.clusterDim",
                             "value.event.event":
                             "value.programmaticEvent.event",
                             "value.event.flags":
                             "value.programmaticEvent.flags"}),
    "rcuda_ctx_params_t": ("CUctxCreateParams",
                           {"affinities": "execAffinityParams",
                            "affinity_count": "numExecAffinityParams",
                            "graphics": "cigParams"}),
    "rcuda_launch_config_t": ("CUlaunchConfig",
                              {"grid": "gridDimX", "block": "blockDimX",
                               "shared_bytes": "sharedMemBytes",
                               "stream": "hStream", "attributes": "attrs",
                               "attribute_count": "numAttrs"}),
    "rcuda_copy2d_t": ("CUDA_MEMCPY2D",
                       {"src_x": "srcXInBytes", "src_type": "srcMemoryType",
                        "src_host": "srcHost", "src_device": "srcDevice",
                        "src_pitch": "srcPitch", "dst_y": "dstY",
                        "dst_type": "dstMemoryType", "dst_host": "dstHost",
                        "dst_device": "dstDevice", "dst_pitch": "dstPitch",
                        "width": "WidthInBytes", "height": "Height"}),
    "rcuda_kernel_node_t": ("CUDA_KERNEL_NODE_PARAMS_v2",
                            {"function": "func", "grid": "gridDimX",
                             "block": "blockDimX",
                             "shared_bytes": "sharedMemBytes",
                             "parameters": "kernelParams", "extra": "extra",
                             "kernel": "kern", "context": "ctx"}),
    "rcuda_memset_node_t": ("CUDA_MEMSET_NODE_PARAMS",
                            {"dst": "dst", "pitch": "pitch",
                             "value": "value",
                             "element_bytes": "elementSize",
                             "width": "width", "height": "height"}),
    "rcuda_copy3d_t": ("CUDA_MEMCPY3D",
                       {"src_x": "srcXInBytes", "src_z": "srcZ",
                        "src_lod": "srcLOD", "src_type": "srcMemoryType",
                        "src_host": "srcHost", "src_device": "srcDevice",
                        "src_pitch": "srcPitch", "src_height": "srcHeight",
                        "dst_x": "dstXInBytes", "dst_z": "dstZ",
                        "dst_type": "dstMemoryType", "dst_host": "dstHost",
                        "dst_device": "dstDevice", "dst_pitch": "dstPitch",
                        "dst_height": "dstHeight", "width": "WidthInBytes",
                        "height": "Height", "depth": "Depth"}),
    "rcuda_location_t": ("CUmemLocation", {"type": "type", "id": "id"}),
    "rcuda_access_t": ("CUmemAccessDesc", {"location": "location",
                                           "flags": "flags"}),
    "rcuda_pool_props_t": ("CUmemPoolProps",
                           {"type": "allocType", "handles": "handleTypes",
                            "location": "location", "max_bytes": "maxSize",
                            "usage": "usage"}),
    "rcuda_memory_props_t": ("CUmemAllocationProp",
                             {"type": "type",
                              "handles": "requestedHandleTypes",
                              "location": "location",
                              "flags.compression":
                              "allocFlags.compressionType",
                              "flags.usage": "allocFlags.usage"}),
    "rcuda_host_node_t": ("CUDA_HOST_NODE_PARAMS_v1",
                          {"fn": "fn", "user": "userData"}),
    "rcuda_alloc_node_t": ("CUDA_MEM_ALLOC_NODE_PARAMS",
                           {"props": "poolProps", "access": "accessDescs",
                            "access_count": "accessDescCount",
                            "bytes": "bytesize", "address": "dptr"}),
    "rcuda_edge_t": ("CUgraphEdgeData", {"from_port": "from_port",
                                         "to_port": "to_port",
                                         "type": "type"}),
    "rcuda_instantiate_t": ("CUDA_GRAPH_INSTANTIATE_PARAMS",
                            {"flags": "flags", "upload": "hUploadStream",
                             "node": "hErrNode_out",
                             "result": "result_out"}),
    "rcuda_update_info_t": ("CUgraphExecUpdateResultInfo",
                            {"result": "result", "node": "errorNode",
                             "from": "errorFromNode"}),
    "rcuda_tensor_map_t": ("CUtensorMap", {"opaque": "opaque"}),
}


# Of nccl.h: ours without COLL_NCCL_, and the vendor's.
NCCL_NAMES = {
    "SUCCESS": "ncclSuccess", "CUDA_ERROR": "ncclUnhandledCudaError",
    "SYSTEM_ERROR": "ncclSystemError",
    "INTERNAL_ERROR": "ncclInternalError",
    "INVALID_ARGUMENT": "ncclInvalidArgument",
    "INVALID_USAGE": "ncclInvalidUsage",
    "REMOTE_ERROR": "ncclRemoteError", "IN_PROGRESS": "ncclInProgress",
    "RESULTS": "ncclNumResults", "SUM": "ncclSum", "PROD": "ncclProd",
    "MAX": "ncclMax", "MIN": "ncclMin", "AVG": "ncclAvg",
    "OPS": "ncclNumOps", "I8": "ncclInt8", "U8": "ncclUint8",
    "I32": "ncclInt32", "U32": "ncclUint32", "I64": "ncclInt64",
    "U64": "ncclUint64", "F16": "ncclFloat16", "F32": "ncclFloat32",
    "F64": "ncclFloat64", "BF16": "ncclBfloat16",
    "F8E4M3": "ncclFloat8e4m3", "F8E5M2": "ncclFloat8e5m2",
    "DTYPES": "ncclNumTypes", "SCALAR_DEVICE": "ncclScalarDevice",
    "SCALAR_HOST": "ncclScalarHostImmediate",
    "ID_BYTES": "NCCL_UNIQUE_ID_BYTES", "UNDEF": "NCCL_CONFIG_UNDEF_INT",
    "NO_COLOR": "NCCL_SPLIT_NOCOLOR",
}
NCCL_STRUCTS = {
    "coll_nccl_id_t": ("ncclUniqueId", {"bytes": "internal"}),
    "coll_nccl_config_t": ("ncclConfig_t",
                           {"bytes": "size", "magic": "magic",
                            "version": "version", "blocking": "blocking",
                            "cluster": "cgaClusterSize",
                            "min_ctas": "minCTAs", "max_ctas": "maxCTAs",
                            "net": "netName", "split_share": "splitShare",
                            "traffic_class": "trafficClass",
                            "name": "commName",
                            "collnet": "collnetEnable",
                            "cta_policy": "CTAPolicy",
                            "shrink_share": "shrinkShare",
                            "nvls_ctas": "nvlsCTAs",
                            "channels": "nChannelsPerNetPeer",
                            "nvlink_sched": "nvlinkCentricSched"}),
    "coll_nccl_sim_t": ("ncclSimInfo_t",
                        {"bytes": "size", "magic": "magic",
                         "version": "version",
                         "estimated_us": "estimatedTime"}),
}


def vendor_name(name):
    """The vendor's enumerator for one of ours, without RCUDA_."""
    if name in NAMES:
        return NAMES[name]
    head, _, tail = name.partition("_")
    if head == "DEV":
        return "CU_DEVICE_ATTRIBUTE_" + DEVICE[tail]
    if head == "FUNC":
        return "CU_FUNC_ATTRIBUTE_" + FUNC.get(tail, tail)
    if head == "NODE":
        return "CU_GRAPH_NODE_TYPE_" + tail
    if head == "UPDATE":
        return "CU_GRAPH_EXEC_UPDATE_ERROR_" + tail
    return "CUDA_ERROR_" + name


def compiles(text):
    """The compiler's complaints about a C file, "" if there are none."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "abi.c")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        run = subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-w",
                              "-I" + INCLUDE[0], "-I" + ROOT,
                              "-fsyntax-only", path],
                             capture_output=True, text=True, check=False)
        return run.stderr if run.returncode else ""


def nccl():
    """nccl_types.h against nccl.h, and the names that the library exports
    against the vendor's functions of today's header."""
    path = next((p for p in INCLUDE
                 if os.path.exists(os.path.join(p, "nccl.h"))), None)
    if not path:
        print("skip collectives: no nccl.h")
        return True
    head = ('#include <nccl.h>\n#include <stddef.h>\n'
            '#include "runtime/coll/nccl_types.h"\n')
    assertion = '_Static_assert((long)(%s) == (long)(%s), "%s");\n'
    text = read("runtime/coll/nccl_types.h")
    enums = "".join(re.findall(r"typedef enum \w+ \{(.*?)\}", text, re.S))
    enums = re.sub(r"/\*.*?\*/", "", enums, flags=re.S)
    names = re.findall(r"\bCOLL_NCCL_(\w+)", enums)
    names += ["ID_BYTES", "UNDEF", "NO_COLOR"]
    trouble = "".join("no vendor's name for COLL_NCCL_%s\n" % n
                      for n in names if n not in NCCL_NAMES)
    body = head + "".join(assertion % ("COLL_NCCL_" + n, NCCL_NAMES[n], n)
                          for n in names if n in NCCL_NAMES)
    body += ("static const ncclConfig_t c = NCCL_CONFIG_INITIALIZER;\n"
             "static const ncclSimInfo_t i = NCCL_SIM_INFO_INITIALIZER;\n")
    with open(os.path.join(path, "nccl.h"), encoding="utf-8") as f:
        vendor = f.read()
    for magic in ("0xcafebeef", "0x74685283"):
        if magic + "u" not in text or magic not in vendor:
            trouble += "magic %s is not in both\n" % magic
    structs = set(re.findall(r"typedef struct (coll_nccl_\w+) \{", text))
    trouble += "".join("not compared: %s\n" % s
                       for s in sorted(structs - set(NCCL_STRUCTS)))
    for ours, (theirs, fields) in NCCL_STRUCTS.items():
        body += assertion % ("sizeof(%s)" % ours, "sizeof(%s)" % theirs,
                             ours)
        for mine, other in fields.items():
            body += assertion % ("offsetof(%s, %s)" % (ours, mine),
                                 "offsetof(%s, %s)" % (theirs, other),
                                 ours + "." + mine)
    trouble += compiles(body)
    expect("collectives", not trouble, trouble)
    real = set(re.findall(r"\b(p?nccl[A-Z]\w*)\(", vendor))
    real |= {"p" + name for name in real if name[0] == "n"}
    out = subprocess.run(["nm", "-D", "--defined-only",
                          os.path.join(BUILD, "libtdsl_simgpu.so")],
                         capture_output=True, text=True, check=True).stdout
    have = {line.split()[-1] for line in out.split("\n") if line.strip()}
    lacking = sorted(real - have)
    expect("collective exports", not lacking,
           "not exported: " + ", ".join(lacking))


def main():
    if not INCLUDE:
        skip("needs the vendor's cuda.h")
    head = ('#include <cuda.h>\n#include <stddef.h>\n'
            '#include "runtime/cuda/cuda_types.h"\n')
    assertion = '_Static_assert((long)(%s) == (long)(%s), "%s");\n'
    text = read("runtime/cuda/cuda_types.h")
    enums = "".join(re.findall(r"typedef enum \w+ \{(.*?)\}", text, re.S))
    enums = re.sub(r"/\*.*?\*/", "", enums, flags=re.S)
    names = re.findall(r"\bRCUDA_(\w+)", enums)
    trouble = "" if len(names) > 130 else "only %d names" % len(names)
    body = head
    for name in names:
        try:
            body += assertion % ("RCUDA_" + name, vendor_name(name), name)
        except KeyError:
            trouble += "no vendor's name for RCUDA_%s\n" % name
    trouble += compiles(body)
    expect("numbers", not trouble, trouble)
    body = head
    for ours, (theirs, fields) in STRUCTS.items():
        body += assertion % ("sizeof(%s)" % ours, "sizeof(%s)" % theirs,
                             ours)
        for mine, other in fields.items():
            body += assertion % ("offsetof(%s, %s)" % (ours, mine),
                                 "offsetof(%s, %s)" % (theirs, other),
                                 ours + "." + mine)
    structs = set(re.findall(r"typedef struct (rcuda_\w+) \{", text))
    left = structs - set(STRUCTS)
    trouble = compiles(body)
    expect("structs", not left and not trouble,
           "not compared: %s\n%s" % (", ".join(sorted(left)), trouble))
    body = head
    for code, name, _ in rows("runtime/simgpu/sim_errors.def", "SIM_ERROR"):
        body += assertion % (name, code, name)
    trouble = compiles(body)
    expect("errors", not trouble, trouble)
    stub = os.path.join(os.path.dirname(INCLUDE[0]), "lib64", "stubs",
                        "libcuda.so")
    if os.path.exists(stub):
        def exported(path):
            out = subprocess.run(["nm", "-D", "--defined-only", path],
                                 capture_output=True, text=True,
                                 check=True).stdout
            return {line.split()[-1].split("@")[0]
                    for line in out.split("\n") if line.strip()}
        real = {n for n in exported(stub) if n.startswith("cu")}
        have = exported(os.path.join(BUILD, "libtdsl_simgpu.so"))
        lacking = sorted(real - have)
        expect("exports", not lacking, "not exported: " + ", ".join(lacking))
    nccl()
    finish()


if __name__ == "__main__":
    main()
