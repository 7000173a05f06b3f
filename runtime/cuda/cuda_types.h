/* The types and numbers of the CUDA driver interface that this project uses,
   declared here so that neither building nor installing needs the vendor's
   headers. Read by the run time's loader and by the simulated driver, which
   therefore could agree on the same mistake: a test compares sizes, offsets
   and values with the vendor's header wherever a toolkit is installed.

   Handles are pointers to types that are never completed. Enumerations are
   plain numbers, since a newer driver may return values that we lack. */
#ifndef RCUDA_TYPES_H
#define RCUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int rcuda_result_t; /* one of rcuda_error_t, or newer */
typedef int rcuda_device_t; /* an ordinal */
typedef uint64_t rcuda_ptr_t; /* an address of device memory */

typedef struct rcuda_ctx_t rcuda_ctx_t;
typedef struct rcuda_module_t rcuda_module_t;
typedef struct rcuda_func_t rcuda_func_t;
typedef struct rcuda_library_t rcuda_library_t;
typedef struct rcuda_kernel_t rcuda_kernel_t;
typedef struct rcuda_stream_t rcuda_stream_t;
typedef struct rcuda_event_t rcuda_event_t;
typedef struct rcuda_graph_t rcuda_graph_t;
typedef struct rcuda_node_t rcuda_node_t;
typedef struct rcuda_exec_t rcuda_exec_t;
typedef struct rcuda_pool_t rcuda_pool_t;

typedef struct rcuda_uuid_t {
  char bytes[16];
} rcuda_uuid_t;

/* Results that are told apart by somebody. */
typedef enum rcuda_error_t {
  RCUDA_SUCCESS = 0,
  RCUDA_INVALID_VALUE = 1,
  RCUDA_OUT_OF_MEMORY = 2,
  RCUDA_NOT_INITIALIZED = 3,
  RCUDA_DEINITIALIZED = 4,
  RCUDA_STUB_LIBRARY = 34, /* a toolkit's link library: there is no GPU */
  RCUDA_NO_DEVICE = 100,
  RCUDA_INVALID_DEVICE = 101,
  RCUDA_INVALID_IMAGE = 200,
  RCUDA_INVALID_CONTEXT = 201,
  RCUDA_NO_BINARY_FOR_GPU = 209,
  RCUDA_PEER_UNSUPPORTED = 217,
  RCUDA_INVALID_PTX = 218,
  RCUDA_UNSUPPORTED_PTX_VERSION = 222,
  RCUDA_OPERATING_SYSTEM = 304,
  RCUDA_INVALID_HANDLE = 400,
  RCUDA_ILLEGAL_STATE = 401,
  RCUDA_LOSSY_QUERY = 402,
  RCUDA_NOT_FOUND = 500,
  RCUDA_NOT_READY = 600,
  RCUDA_ILLEGAL_ADDRESS = 700,
  RCUDA_OUT_OF_RESOURCES = 701,
  RCUDA_LAUNCH_TIMEOUT = 702,
  RCUDA_PEER_ENABLED = 704,
  RCUDA_PEER_NOT_ENABLED = 705,
  RCUDA_PRIMARY_ACTIVE = 708,
  RCUDA_CONTEXT_DESTROYED = 709,
  RCUDA_ASSERT = 710,
  RCUDA_HOST_REGISTERED = 712,
  RCUDA_HOST_NOT_REGISTERED = 713,
  RCUDA_ILLEGAL_INSTRUCTION = 715,
  RCUDA_MISALIGNED_ADDRESS = 716,
  RCUDA_INVALID_SPACE = 717,
  RCUDA_LAUNCH_FAILED = 719,
  RCUDA_COOPERATIVE_TOO_LARGE = 720,
  RCUDA_NOT_PERMITTED = 800,
  RCUDA_NOT_SUPPORTED = 801,
  RCUDA_CAPTURE_UNSUPPORTED = 900,
  RCUDA_CAPTURE_INVALIDATED = 901,
  RCUDA_CAPTURE_MERGE = 902,
  RCUDA_CAPTURE_UNMATCHED = 903,
  RCUDA_CAPTURE_UNJOINED = 904,
  RCUDA_CAPTURE_ISOLATION = 905,
  RCUDA_CAPTURE_IMPLICIT = 906,
  RCUDA_CAPTURED_EVENT = 907,
  RCUDA_CAPTURE_WRONG_THREAD = 908,
  RCUDA_GRAPH_UPDATE_FAILURE = 910,
  RCUDA_INVALID_CLUSTER = 912,
  RCUDA_UNKNOWN = 999
} rcuda_error_t;

/* Attributes of a device, by the vendor's numbers. */
typedef enum rcuda_device_attr_t {
  RCUDA_DEV_MAX_THREADS_PER_BLOCK = 1,
  RCUDA_DEV_MAX_BLOCK_X = 2,
  RCUDA_DEV_MAX_BLOCK_Y = 3,
  RCUDA_DEV_MAX_BLOCK_Z = 4,
  RCUDA_DEV_MAX_GRID_X = 5,
  RCUDA_DEV_MAX_GRID_Y = 6,
  RCUDA_DEV_MAX_GRID_Z = 7,
  RCUDA_DEV_SHARED_PER_BLOCK = 8,
  RCUDA_DEV_CONSTANT_BYTES = 9,
  RCUDA_DEV_WARP_SIZE = 10,
  RCUDA_DEV_MAX_PITCH = 11,
  RCUDA_DEV_REGISTERS_PER_BLOCK = 12,
  RCUDA_DEV_CLOCK_KHZ = 13,
  RCUDA_DEV_TEXTURE_ALIGN = 14,
  RCUDA_DEV_OVERLAP = 15,
  RCUDA_DEV_SM_COUNT = 16,
  RCUDA_DEV_INTEGRATED = 18,
  RCUDA_DEV_MAP_HOST_MEMORY = 19,
  RCUDA_DEV_COMPUTE_MODE = 20,
  RCUDA_DEV_SURFACE_ALIGN = 30,
  RCUDA_DEV_CONCURRENT_KERNELS = 31,
  RCUDA_DEV_ECC = 32,
  RCUDA_DEV_PCI_BUS = 33,
  RCUDA_DEV_PCI_DEVICE = 34,
  RCUDA_DEV_MEMORY_CLOCK_KHZ = 36,
  RCUDA_DEV_MEMORY_BUS_BITS = 37,
  RCUDA_DEV_L2_BYTES = 38,
  RCUDA_DEV_THREADS_PER_SM = 39,
  RCUDA_DEV_COPY_ENGINES = 40,
  RCUDA_DEV_UNIFIED_ADDRESSING = 41,
  RCUDA_DEV_PCI_DOMAIN = 50,
  RCUDA_DEV_TEXTURE_PITCH_ALIGN = 51,
  RCUDA_DEV_CC_MAJOR = 75,
  RCUDA_DEV_CC_MINOR = 76,
  RCUDA_DEV_STREAM_PRIORITIES = 78,
  RCUDA_DEV_GLOBAL_L1 = 79,
  RCUDA_DEV_LOCAL_L1 = 80,
  RCUDA_DEV_SHARED_PER_SM = 81,
  RCUDA_DEV_REGISTERS_PER_SM = 82,
  RCUDA_DEV_MANAGED_MEMORY = 83,
  RCUDA_DEV_BOARD_GROUP = 85,
  RCUDA_DEV_DOUBLE_RATIO = 87,
  RCUDA_DEV_PAGEABLE_ACCESS = 88,
  RCUDA_DEV_CONCURRENT_MANAGED = 89,
  RCUDA_DEV_COMPUTE_PREEMPTION = 90,
  RCUDA_DEV_HOST_POINTERS = 91,
  RCUDA_DEV_COOPERATIVE_LAUNCH = 95,
  RCUDA_DEV_SHARED_PER_BLOCK_OPTIN = 97,
  RCUDA_DEV_HOST_REGISTER = 99,
  RCUDA_DEV_VIRTUAL_MEMORY = 102,
  RCUDA_DEV_BLOCKS_PER_SM = 106,
  RCUDA_DEV_RESERVED_SHARED = 111,
  RCUDA_DEV_MEMORY_POOLS = 115,
  RCUDA_DEV_CLUSTER_LAUNCH = 120,
  RCUDA_DEV_MEMORY_DOMAINS = 126,
  RCUDA_DEV_TENSOR_MAP = 127,
  RCUDA_DEV_NUMA_ID = 131,
  RCUDA_DEV_HOST_NUMA_ID = 134,
  RCUDA_DEV_LAST = 147
} rcuda_device_attr_t;

typedef enum rcuda_func_attr_t {
  RCUDA_FUNC_MAX_THREADS = 0,
  RCUDA_FUNC_SHARED_BYTES = 1, /* static */
  RCUDA_FUNC_CONST_BYTES = 2,
  RCUDA_FUNC_LOCAL_BYTES = 3, /* of a thread */
  RCUDA_FUNC_REGISTERS = 4,
  RCUDA_FUNC_PTX_VERSION = 5,
  RCUDA_FUNC_BINARY_VERSION = 6,
  RCUDA_FUNC_CACHE_MODE_CA = 7,
  RCUDA_FUNC_MAX_DYNAMIC_SHARED = 8, /* may be set */
  RCUDA_FUNC_SHARED_CARVEOUT = 9,    /* may be set */
  RCUDA_FUNC_CLUSTER_MUST_BE_SET = 10,
  RCUDA_FUNC_CLUSTER_WIDTH = 11,
  RCUDA_FUNC_CLUSTER_HEIGHT = 12,
  RCUDA_FUNC_CLUSTER_DEPTH = 13,
  RCUDA_FUNC_NON_PORTABLE_CLUSTER = 14,
  RCUDA_FUNC_CLUSTER_POLICY = 15
} rcuda_func_attr_t;

/* Options of module loading, with their values cast to pointers. */
typedef enum rcuda_jit_option_t {
  RCUDA_JIT_INFO_LOG = 3,
  RCUDA_JIT_INFO_LOG_BYTES = 4,
  RCUDA_JIT_ERROR_LOG = 5,
  RCUDA_JIT_ERROR_LOG_BYTES = 6,
  RCUDA_JIT_LOG_VERBOSE = 12,
  RCUDA_JIT_LINE_INFO = 13
} rcuda_jit_option_t;

typedef enum rcuda_limit_t {
  RCUDA_LIMIT_STACK = 0,
  RCUDA_LIMIT_PRINTF = 1,
  RCUDA_LIMIT_HEAP = 2
} rcuda_limit_t;

typedef enum rcuda_pointer_attr_t {
  RCUDA_POINTER_CONTEXT = 1,
  RCUDA_POINTER_MEMORY_TYPE = 2,
  RCUDA_POINTER_DEVICE_POINTER = 3,
  RCUDA_POINTER_HOST_POINTER = 4,
  RCUDA_POINTER_BUFFER_ID = 7,
  RCUDA_POINTER_IS_MANAGED = 8,
  RCUDA_POINTER_DEVICE_ORDINAL = 9,
  RCUDA_POINTER_RANGE_START = 11,
  RCUDA_POINTER_RANGE_BYTES = 12,
  RCUDA_POINTER_MAPPED = 13,
  RCUDA_POINTER_ACCESS_FLAGS = 16,
  RCUDA_POINTER_MEMPOOL = 17
} rcuda_pointer_attr_t;

typedef enum rcuda_flag_t {
  RCUDA_MEMORY_HOST = 1,
  RCUDA_MEMORY_DEVICE = 2,
  RCUDA_MEMORY_UNIFIED = 4,
  RCUDA_STREAM_NON_BLOCKING = 1,
  RCUDA_EVENT_EXTERNAL = 1, /* of records and waits in captures */
  RCUDA_EVENT_BLOCKING_SYNC = 1,
  RCUDA_EVENT_DISABLE_TIMING = 2,
  RCUDA_CAPTURE_NONE = 0,   /* states of a stream */
  RCUDA_CAPTURE_ACTIVE = 1,
  RCUDA_CAPTURE_BROKEN = 2,
  RCUDA_CAPTURE_GLOBAL = 0, /* modes of beginning */
  RCUDA_CAPTURE_THREAD_LOCAL = 1,
  RCUDA_CAPTURE_RELAXED = 2,
  RCUDA_PROC_FOUND = 0, /* cuGetProcAddress */
  RCUDA_PROC_NOT_FOUND = 1,
  RCUDA_PROC_VERSION_TOO_OLD = 2
} rcuda_flag_t;

/* The legacy default stream is NULL as well; these two are special values. */
#define RCUDA_STREAM_LEGACY     ((rcuda_stream_t *)1)
#define RCUDA_STREAM_PER_THREAD ((rcuda_stream_t *)2)

/* Names in the `extra` list of a launch. */
#define RCUDA_PARAM_END     ((void *)0)
#define RCUDA_PARAM_BUFFER  ((void *)1)
#define RCUDA_PARAM_BYTES   ((void *)2)

typedef enum rcuda_launch_attr_id_t {
  RCUDA_LAUNCH_IGNORE = 0,
  RCUDA_LAUNCH_COOPERATIVE = 2,
  RCUDA_LAUNCH_CLUSTER = 4,
  RCUDA_LAUNCH_CLUSTER_POLICY = 5,
  RCUDA_LAUNCH_PROGRAMMATIC = 6,
  RCUDA_LAUNCH_PROGRAMMATIC_EVENT = 7,
  RCUDA_LAUNCH_PRIORITY = 8,
  RCUDA_LAUNCH_CARVEOUT = 14
} rcuda_launch_attr_id_t;

typedef struct rcuda_launch_attr_t {
  int id; /* rcuda_launch_attr_id_t */
  int unused;
  union {
    char bytes[64];
    int number; /* cooperative, programmatic, priority, carve-out */
    uint32_t cluster[3];
    struct {
      rcuda_event_t *event;
      int flags, at_start;
    } event;
  } value;
} rcuda_launch_attr_t;

/* Of cuCtxCreate: shares of a device and graphics, neither simulated. */
typedef struct rcuda_ctx_params_t {
  void *affinities;
  int affinity_count;
  void *graphics;
} rcuda_ctx_params_t;

typedef struct rcuda_launch_config_t {
  unsigned grid[3], block[3];
  unsigned shared_bytes; /* dynamic */
  rcuda_stream_t *stream;
  rcuda_launch_attr_t *attributes;
  unsigned attribute_count;
} rcuda_launch_config_t;

/* A rectangle copy; sides are host or device, an array is never used. */
typedef struct rcuda_copy2d_t {
  size_t src_x, src_y;
  int src_type; /* RCUDA_MEMORY_* */
  const void *src_host;
  rcuda_ptr_t src_device;
  void *src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  int dst_type;
  void *dst_host;
  rcuda_ptr_t dst_device;
  void *dst_array;
  size_t dst_pitch;
  size_t width, height; /* bytes, rows */
} rcuda_copy2d_t;

/* A box copy; level of detail and arrays are never used. */
typedef struct rcuda_copy3d_t {
  size_t src_x, src_y, src_z, src_lod;
  int src_type; /* RCUDA_MEMORY_* */
  const void *src_host;
  rcuda_ptr_t src_device;
  void *src_array, *unused0;
  size_t src_pitch, src_height;
  size_t dst_x, dst_y, dst_z, dst_lod;
  int dst_type;
  void *dst_host;
  rcuda_ptr_t dst_device;
  void *dst_array, *unused1;
  size_t dst_pitch, dst_height;
  size_t width, height, depth; /* bytes, rows, planes */
} rcuda_copy3d_t;

/* Where memory lies, and who may do what with it. */
typedef struct rcuda_location_t {
  int type; /* RCUDA_LOCATION_* */
  int id;
} rcuda_location_t;

typedef struct rcuda_access_t {
  rcuda_location_t location;
  int flags; /* RCUDA_ACCESS_* */
} rcuda_access_t;

typedef struct rcuda_pool_props_t {
  int type;    /* RCUDA_MEM_PINNED */
  int handles; /* to export: none */
  rcuda_location_t location;
  void *security;
  size_t max_bytes; /* 0: no limit */
  unsigned short usage;
  unsigned char unused[54];
} rcuda_pool_props_t;

typedef struct rcuda_memory_props_t {
  int type;    /* RCUDA_MEM_PINNED */
  int handles; /* to export: none */
  rcuda_location_t location;
  void *metadata;
  struct {
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char unused[4];
  } flags;
} rcuda_memory_props_t;

typedef enum rcuda_pool_attr_t {
  RCUDA_POOL_REUSE_EVENTS = 1,
  RCUDA_POOL_REUSE_OPPORTUNISTIC = 2,
  RCUDA_POOL_REUSE_INTERNAL = 3,
  RCUDA_POOL_RELEASE_THRESHOLD = 4,
  RCUDA_POOL_RESERVED = 5,
  RCUDA_POOL_RESERVED_HIGH = 6,
  RCUDA_POOL_USED = 7,
  RCUDA_POOL_USED_HIGH = 8
} rcuda_pool_attr_t;

typedef enum rcuda_memory_word_t {
  RCUDA_LOCATION_DEVICE = 1,
  RCUDA_MEM_PINNED = 1,
  RCUDA_ACCESS_NONE = 0,
  RCUDA_ACCESS_READ = 1,
  RCUDA_ACCESS_BOTH = 3,
  RCUDA_GRANULARITY_MINIMUM = 0,
  RCUDA_GRANULARITY_RECOMMENDED = 1,
  RCUDA_ATTACH_GLOBAL = 1,
  RCUDA_ATTACH_HOST = 2,
  RCUDA_ATTACH_SINGLE = 4
} rcuda_memory_word_t;

/* Parameters of a kernel node of a graph. */
typedef struct rcuda_kernel_node_t {
  rcuda_func_t *function;
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void **parameters;
  void **extra;
  rcuda_kernel_t *kernel; /* used when function is NULL */
  rcuda_ctx_t *context;
} rcuda_kernel_node_t;

typedef enum rcuda_node_type_t {
  RCUDA_NODE_KERNEL = 0,
  RCUDA_NODE_MEMCPY = 1,
  RCUDA_NODE_MEMSET = 2,
  RCUDA_NODE_HOST = 3,
  RCUDA_NODE_GRAPH = 4,
  RCUDA_NODE_EMPTY = 5,
  RCUDA_NODE_WAIT = 6,
  RCUDA_NODE_RECORD = 7,
  RCUDA_NODE_ALLOC = 10,
  RCUDA_NODE_FREE = 11
} rcuda_node_type_t;

/* Why an executable graph could not take over another graph's parameters. */
typedef enum rcuda_update_result_t {
  RCUDA_UPDATE_SUCCESS = 0,
  RCUDA_UPDATE_ERROR = 1,
  RCUDA_UPDATE_TOPOLOGY_CHANGED = 2,
  RCUDA_UPDATE_TYPE_CHANGED = 3,
  RCUDA_UPDATE_FUNCTION_CHANGED = 4,
  RCUDA_UPDATE_PARAMETERS_CHANGED = 5,
  RCUDA_UPDATE_NOT_SUPPORTED = 6
} rcuda_update_result_t;

typedef struct rcuda_update_info_t {
  int result; /* rcuda_update_result_t */
  rcuda_node_t *node, *from;
} rcuda_update_info_t;

typedef struct rcuda_memset_node_t {
  rcuda_ptr_t dst;
  size_t pitch;
  unsigned value;
  unsigned element_bytes; /* 1, 2 or 4 */
  size_t width, height;   /* elements, rows */
} rcuda_memset_node_t;

typedef struct rcuda_host_node_t {
  void (*fn)(void *user);
  void *user;
} rcuda_host_node_t;

typedef struct rcuda_alloc_node_t {
  rcuda_pool_props_t props;
  const rcuda_access_t *access;
  size_t access_count, bytes;
  rcuda_ptr_t address; /* filled in */
} rcuda_alloc_node_t;

/* Of an edge; all zero is the ordinary one. */
typedef enum rcuda_edge_port_t {
  RCUDA_PORT_DEFAULT = 0,
  RCUDA_PORT_PROGRAMMATIC = 1, /* once all blocks let others begin */
  RCUDA_PORT_LAUNCH_ORDER = 2, /* once all blocks have begun */
  RCUDA_EDGE_DEFAULT = 0, /* types */
  RCUDA_EDGE_PROGRAMMATIC = 1
} rcuda_edge_port_t;

typedef struct rcuda_edge_t {
  unsigned char from_port, to_port, type, unused[5];
} rcuda_edge_t;

typedef struct rcuda_instantiate_t {
  uint64_t flags; /* RCUDA_INSTANTIATE_* */
  rcuda_stream_t *upload;
  rcuda_node_t *node; /* out: where it failed */
  int result;         /* out: RCUDA_INSTANTIATED_* */
} rcuda_instantiate_t;

typedef enum rcuda_instantiate_word_t {
  RCUDA_INSTANTIATE_AUTO_FREE = 1,
  RCUDA_INSTANTIATE_UPLOAD = 2,
  RCUDA_INSTANTIATE_PRIORITY = 8,
  RCUDA_INSTANTIATED = 0,
  RCUDA_INSTANTIATED_ERROR = 1,
  RCUDA_INSTANTIATED_BAD_SHAPE = 2,
  RCUDA_INSTANTIATED_UNSUPPORTED = 3
} rcuda_instantiate_word_t;

/* An encoded tensor map. Opaque: only the driver that made it reads it. */
typedef struct rcuda_tensor_map_t {
  _Alignas(64) uint64_t opaque[16];
} rcuda_tensor_map_t;

typedef enum rcuda_tensor_type_t {
  RCUDA_TENSOR_U8 = 0,
  RCUDA_TENSOR_U16,
  RCUDA_TENSOR_U32,
  RCUDA_TENSOR_I32,
  RCUDA_TENSOR_U64,
  RCUDA_TENSOR_I64,
  RCUDA_TENSOR_F16,
  RCUDA_TENSOR_F32,
  RCUDA_TENSOR_F64,
  RCUDA_TENSOR_BF16,
  RCUDA_TENSOR_F32_FTZ,
  RCUDA_TENSOR_TF32,
  RCUDA_TENSOR_TF32_FTZ
} rcuda_tensor_type_t;

/* What a simulated driver exports besides: settings, before cuInit, as a list
   of items like "model:h100,devices:2,seed:7" (0: taken); what its checks
   have found so far, and the counters of each launch, as lines of JSON (or,
   of the findings, as text for people). A getter copies as much as fits,
   ends it with a NUL, and returns the length of the whole. Looked up, never
   linked. */
typedef int (*rcuda_sim_configure_t)(const char *items);
typedef size_t (*rcuda_sim_count_t)(void);
typedef size_t (*rcuda_sim_get_t)(size_t index, char *out, size_t bytes);
typedef void (*rcuda_sim_reset_t)(void);
#define RCUDA_SIM_CONFIGURE      "simgpu_configure"
#define RCUDA_SIM_REPORT_COUNT   "simgpu_report_count"   /* count */
#define RCUDA_SIM_REPORT_GET     "simgpu_report_get"     /* get */
#define RCUDA_SIM_REPORT_TEXT    "simgpu_report_text"    /* get, to read */
#define RCUDA_SIM_COUNTERS_COUNT "simgpu_counters_count" /* count */
#define RCUDA_SIM_COUNTERS_GET   "simgpu_counters_get"   /* get */
#define RCUDA_SIM_TRACE_COUNT    "simgpu_trace_count"    /* count */
#define RCUDA_SIM_TRACE_GET      "simgpu_trace_get"      /* get */
#define RCUDA_SIM_PROBLEM        "simgpu_problem"        /* get, 0: why not */
#define RCUDA_SIM_RESET          "simgpu_reset"
/* Registers of a thread of a kernel, as the assembler has it; 0: taken. */
typedef int (*rcuda_sim_registers_t)(const char *kernel, unsigned count);
#define RCUDA_SIM_REGISTERS      "simgpu_registers"

#endif
