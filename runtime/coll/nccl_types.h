/* The types and numbers of the vendor's collective library that this project
   uses, declared here so that neither building nor installing needs its
   header. Read by whoever loads that library and by the simulated one; a test
   compares sizes, offsets and values with the vendor's header wherever it is
   installed. */
#ifndef COLL_NCCL_TYPES_H
#define COLL_NCCL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define COLL_NCCL_ID_BYTES     128
#define COLL_NCCL_UNDEF        ((int)0x80000000) /* a setting left alone */
#define COLL_NCCL_NO_COLOR     (-1)
#define COLL_NCCL_CONFIG_MAGIC 0xcafebeefu
#define COLL_NCCL_SIM_MAGIC    0x74685283u

typedef struct coll_nccl_comm_t coll_nccl_comm_t;

typedef struct coll_nccl_id_t {
  char bytes[COLL_NCCL_ID_BYTES];
} coll_nccl_id_t;

typedef enum coll_nccl_result_t {
  COLL_NCCL_SUCCESS = 0,
  COLL_NCCL_CUDA_ERROR = 1,
  COLL_NCCL_SYSTEM_ERROR = 2,
  COLL_NCCL_INTERNAL_ERROR = 3,
  COLL_NCCL_INVALID_ARGUMENT = 4,
  COLL_NCCL_INVALID_USAGE = 5,
  COLL_NCCL_REMOTE_ERROR = 6,
  COLL_NCCL_IN_PROGRESS = 7,
  COLL_NCCL_RESULTS = 8
} coll_nccl_result_t;

typedef enum coll_nccl_op_t {
  COLL_NCCL_SUM = 0,
  COLL_NCCL_PROD = 1,
  COLL_NCCL_MAX = 2,
  COLL_NCCL_MIN = 3,
  COLL_NCCL_AVG = 4,
  COLL_NCCL_OPS = 5 /* made ones begin here */
} coll_nccl_op_t;

typedef enum coll_nccl_dtype_t {
  COLL_NCCL_I8 = 0,
  COLL_NCCL_U8 = 1,
  COLL_NCCL_I32 = 2,
  COLL_NCCL_U32 = 3,
  COLL_NCCL_I64 = 4,
  COLL_NCCL_U64 = 5,
  COLL_NCCL_F16 = 6,
  COLL_NCCL_F32 = 7,
  COLL_NCCL_F64 = 8,
  COLL_NCCL_BF16 = 9,
  COLL_NCCL_F8E4M3 = 10,
  COLL_NCCL_F8E5M2 = 11,
  COLL_NCCL_DTYPES = 12
} coll_nccl_dtype_t;

/* Where the scalar of a made operator lies. */
typedef enum coll_nccl_scalar_t {
  COLL_NCCL_SCALAR_DEVICE = 0,
  COLL_NCCL_SCALAR_HOST = 1
} coll_nccl_scalar_t;

/* Grows with the library's version; bytes says how much of it there is. */
typedef struct coll_nccl_config_t {
  size_t bytes;
  unsigned magic, version;
  int blocking;
  int cluster, min_ctas, max_ctas;
  const char *net;
  int split_share, traffic_class;
  const char *name;
  int collnet, cta_policy, shrink_share, nvls_ctas, channels, nvlink_sched;
} coll_nccl_config_t;

typedef struct coll_nccl_sim_t {
  size_t bytes;
  unsigned magic, version;
  float estimated_us;
} coll_nccl_sim_t;

#endif
