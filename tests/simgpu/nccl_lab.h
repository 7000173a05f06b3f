/* Bench for tests of collectives: the calls by their exported names, a thread
   for each rank or one thread with a group, and numbers of the twelve types
   made and read by their definitions, apart from the simulator's. */
#ifndef NCCL_LAB_H
#define NCCL_LAB_H

#include "driver_lab.h"
#include "runtime/coll/nccl_types.h"

#include <pthread.h>

#define MAX_RANKS 8

typedef coll_nccl_comm_t *comm_t;
typedef void *vp;
typedef int (*reduce_t)(u64, u64, size_t, int, int, comm_t, vp);
typedef int (*gather_t)(u64, u64, size_t, int, comm_t, vp);
typedef int (*root_t)(u64, u64, size_t, int, int, comm_t, vp);
typedef int (*reduce_root_t)(u64, u64, size_t, int, int, int, comm_t, vp);
typedef int (*pair_t)(u64, size_t, int, int, comm_t, vp);
typedef int (*plain_t)(void);

#define NCCL(type, name) ((type)symbol("nccl" #name))
#define all_reduce       NCCL(reduce_t, AllReduce)
#define reduce_scatter   NCCL(reduce_t, ReduceScatter)
#define all_gather       NCCL(gather_t, AllGather)
#define all_to_all       NCCL(gather_t, AlltoAll)
#define broadcast        NCCL(root_t, Broadcast)
#define reduce_to        NCCL(reduce_root_t, Reduce)
#define send_to          NCCL(pair_t, Send)
#define receive          NCCL(pair_t, Recv)
#define group_start      NCCL(plain_t, GroupStart)
#define group_end        NCCL(plain_t, GroupEnd)

/* -- the types -- */

static const struct {
  int bytes, exponent, mantissa; /* of a float; exponent 0: an integer */
  bool is_signed;
} kinds[COLL_NCCL_DTYPES] = {
    {1, 0, 0, true},  {1, 0, 0, false}, {4, 0, 0, true}, {4, 0, 0, false},
    {8, 0, 0, true},  {8, 0, 0, false}, {2, 5, 10, true}, {4, 8, 23, true},
    {8, 11, 52, true}, {2, 8, 7, true}, {1, 4, 3, true},  {1, 5, 2, true}};

/* The value of a finite code, by the definition of the format. */
static inline double code_value(int type, uint64_t code) {
  int m = kinds[type].mantissa, e = kinds[type].exponent;
  int bias = (1 << (e - 1)) - 1;
  uint64_t sign = code >> (e + m) & 1;
  int64_t exponent = (int64_t)(code >> m & ((UINT64_C(1) << e) - 1));
  double fraction = ldexp((double)(code & ((UINT64_C(1) << m) - 1)), -m);
  double v = exponent ? ldexp(1 + fraction, (int)exponent - bias)
                      : ldexp(fraction, 1 - bias);
  return sign ? -v : v;
}

/* The code nearest to a value, by search among the codes of its sign: what
   rounding to nearest even means. Narrow types only. */
static inline uint64_t nearest_code(int type, double v) {
  int bits = kinds[type].exponent + kinds[type].mantissa;
  uint64_t sign = v < 0 ? UINT64_C(1) << bits : 0, best = 0;
  uint64_t top = type == COLL_NCCL_F8E4M3
                     ? 126 /* 127 is its NaN */
                     : (((UINT64_C(1) << kinds[type].exponent) - 1)
                        << kinds[type].mantissa) - 1;
  uint64_t high = top; /* codes of one sign grow with their values */
  while (best < high) {
    uint64_t middle = best + (high - best + 1) / 2;
    if (code_value(type, middle) <= fabs(v)) best = middle;
    else high = middle - 1;
  }
  if (best == top) return best | sign;
  double below = fabs(v) - code_value(type, best);
  double above = code_value(type, best + 1) - fabs(v);
  if (above < below || (above == below && best % 2)) best++;
  return best | sign;
}

static inline void put(int type, void *array, size_t i, double v) {
  uint64_t code;
  float f = (float)v;
  int64_t n = (int64_t)v;
  char *p = (char *)array + i * (size_t)kinds[type].bytes;
  if (type == COLL_NCCL_F64) memcpy(p, &v, 8);
  else if (type == COLL_NCCL_F32) memcpy(p, &f, 4);
  else if (kinds[type].exponent)
    code = nearest_code(type, v), memcpy(p, &code, (size_t)kinds[type].bytes);
  else memcpy(p, &n, (size_t)kinds[type].bytes);
}

static inline double get(int type, const void *array, size_t i) {
  uint64_t code = 0;
  size_t bytes = (size_t)kinds[type].bytes;
  memcpy(&code, (const char *)array + i * bytes, bytes);
  if (kinds[type].exponent) return code_value(type, code);
  if (!kinds[type].is_signed) return (double)code;
  return (double)((int64_t)(code << (64 - 8 * bytes)) >> (64 - 8 * bytes));
}

/* -- ranks -- */

typedef struct world_t {
  int n;
  comm_t comm[MAX_RANKS];
  rcuda_ctx_t *ctx[MAX_RANKS];
  vp stream[MAX_RANKS];
} world_t;

static inline void use(const world_t *w, int rank) {
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), w->ctx[rank]);
}

/* All ranks, in contexts of their own, from one thread. */
static inline void world_open(world_t *w, int n) {
  coll_nccl_id_t id;
  memset(w, 0, sizeof *w);
  w->n = n;
  assert_int_equal(NCCL(int (*)(coll_nccl_id_t *), GetUniqueId)(&id), 0);
  assert_int_equal(group_start(), 0);
  for (int r = 0; r < n; r++) {
    OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &w->ctx[r], NULL,
       0, r);
    OK(cuStreamCreate, (vp *, unsigned), &w->stream[r], 1);
    assert_int_equal(NCCL(int (*)(comm_t *, int, coll_nccl_id_t, int),
                          CommInitRank)(&w->comm[r], n, id, r),
                     0);
  }
  assert_int_equal(group_end(), 0);
}

static inline void world_close(world_t *w) {
  for (int r = 0; r < w->n; r++) {
    if (w->comm[r])
      NCCL(int (*)(comm_t), CommAbort)(w->comm[r]);
    OK(cuCtxDestroy_v2, (rcuda_ctx_t *), w->ctx[r]);
  }
  findings("");
}

static inline u64 alloc_on(const world_t *w, int rank, size_t bytes) {
  u64 p = 0;
  use(w, rank);
  OK(cuMemAlloc_v2, (u64 *, size_t), &p, bytes);
  return p;
}

static inline u64 copied_to(const world_t *w, int rank, const void *data,
                            size_t bytes) {
  u64 p = alloc_on(w, rank, bytes);
  OK(cuMemcpyHtoD_v2, (u64, const void *, size_t), p, data, bytes);
  SYNC(0);
  return p;
}

static inline void copied_from(const world_t *w, int rank, void *data, u64 p,
                               size_t bytes) {
  use(w, rank);
  OK(cuMemcpyDtoH_v2, (vp, u64, size_t), data, p, bytes);
}

/* Every rank's stream is waited for: the code that each one gives. */
static inline void wait_all(const world_t *w, int code) {
  for (int r = 0; r < w->n; r++) {
    use(w, r);
    CODE(code, cuStreamSynchronize, (vp), w->stream[r]);
  }
}

/* A number in the JSON of the totals, after a text that must be there. */
static inline u64 total(const char *after, const char *name) {
  static char text[65536];
  size_t (*totals)(char *, size_t);
  any_t fn = symbol("simgpu_totals_get");
  char key[64];
  memcpy(&totals, &fn, sizeof fn);
  assert_true(totals(text, sizeof text) < sizeof text);
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *p = strstr(text, after);
  if (p) p = strstr(p, key);
  if (!p) return UINT64_MAX;
  return strtoull(p + strlen(key), NULL, 10);
}

#endif
