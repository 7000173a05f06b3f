/* Stream-ordered memory: bytes in use follow the calls, bytes that a pool
   keeps are used again only by what comes after their free, and what lies
   above the threshold goes when the host synchronises. The machine has
   1,000,000 bytes. */
#include "driver_lab.h"

typedef void *vp;

static u64 attribute(vp pool, int which) {
  u64 value = 0;
  OK(cuMemPoolGetAttribute, (vp, int, vp), pool, which, &value);
  return value;
}

#define USED(pool)     attribute(pool, RCUDA_POOL_USED)
#define RESERVED(pool) attribute(pool, RCUDA_POOL_RESERVED)

static vp new_pool(size_t most) {
  rcuda_pool_props_t props = {.type = RCUDA_MEM_PINNED,
                              .location = {RCUDA_LOCATION_DEVICE, 0},
                              .max_bytes = most};
  vp pool = NULL;
  OK(cuMemPoolCreate, (vp *, const rcuda_pool_props_t *), &pool, &props);
  return pool;
}

static vp new_stream(void) {
  vp s = NULL;
  OK(cuStreamCreate, (vp *, unsigned), &s, 1);
  return s;
}

static u64 take(vp pool, size_t bytes, vp stream) {
  u64 p = 0;
  OK(cuMemAllocFromPoolAsync, (u64 *, size_t, vp, vp), &p, bytes, pool,
     stream);
  return p;
}

static void give(u64 p, vp stream) {
  OK(cuMemFreeAsync, (u64, vp), p, stream);
}

static void reuse_follows_edges(void **state) {
  (void)state;
  vp pool = new_pool(0), a = new_stream(), b = new_stream(), e = NULL;
  u64 keep = 1000000;
  OK(cuMemPoolSetAttribute, (vp, int, const void *), pool,
     RCUDA_POOL_RELEASE_THRESHOLD, &keep);
  OK(cuEventCreate, (vp *, unsigned), &e, 2);
  give(take(pool, 1000, a), a);
  assert_int_equal(USED(pool), 0);
  assert_int_equal(RESERVED(pool), 1000);
  /* the same stream: what it freed is its own again, in pieces */
  u64 p = take(pool, 400, a), q = take(pool, 600, a);
  assert_true(p != q);
  assert_int_equal(RESERVED(pool), 1000);
  give(p, a);
  give(q, a);
  /* another stream, no edge: more is reserved */
  p = take(pool, 600, b);
  assert_int_equal(RESERVED(pool), 1600);
  /* an event between: the bytes of the first stream serve */
  OK(cuEventRecord, (vp, vp), e, a);
  OK(cuStreamWaitEvent, (vp, vp, unsigned), b, e, 0);
  q = take(pool, 400, b);
  assert_int_equal(RESERVED(pool), 1600);
  assert_int_equal(USED(pool), 1000);
  /* unless the pool was told not to follow events */
  int no = 0;
  OK(cuMemPoolSetAttribute, (vp, int, const void *), pool,
     RCUDA_POOL_REUSE_EVENTS, &no);
  u64 r = take(pool, 600, b);
  assert_int_equal(RESERVED(pool), 2200);
  give(r, b);
  give(p, b);
  give(q, b);
  assert_int_equal(attribute(pool, RCUDA_POOL_USED_HIGH), 1600);
  assert_int_equal(attribute(pool, RCUDA_POOL_RESERVED_HIGH), 2200);
  /* the host's wait is an edge to everything */
  SYNC(0);
  p = take(pool, 600, a);
  assert_int_equal(RESERVED(pool), 2200);
  give(p, a);
  SYNC(0);
  /* trimming and the marks */
  OK(cuMemPoolTrimTo, (vp, size_t), pool, 700);
  assert_int_equal(RESERVED(pool), 700);
  u64 zero = 0;
  OK(cuMemPoolSetAttribute, (vp, int, const void *), pool,
     RCUDA_POOL_RESERVED_HIGH, &zero);
  assert_int_equal(attribute(pool, RCUDA_POOL_RESERVED_HIGH), 700);
  OK(cuMemPoolSetAttribute, (vp, int, const void *), pool,
     RCUDA_POOL_RELEASE_THRESHOLD, &zero);
  SYNC(0); /* the threshold is 0 now */
  assert_int_equal(RESERVED(pool), 0);
  OK(cuMemPoolDestroy, (vp), pool);
  OK(cuStreamDestroy_v2, (vp), a);
  OK(cuStreamDestroy_v2, (vp), b);
  OK(cuEventDestroy_v2, (vp), e);
}

/* What is reserved counts against the device: 600,000 bytes that another
   stream freed are no use to one that does not come after. */
static void capacity(void **state) {
  (void)state;
  vp a = new_stream(), b = new_stream(), pool = NULL;
  size_t before = 0, now = 0, total = 0;
  u64 p = 0, q = 0;
  OK(cuMemGetInfo_v2, (size_t *, size_t *), &before, &total);
  OK(cuDeviceGetDefaultMemPool, (vp *, int), &pool, 0);
  OK(cuMemAllocAsync, (u64 *, size_t, vp), &p, 600000, a);
  OK(cuMemGetInfo_v2, (size_t *, size_t *), &now, &total);
  assert_int_equal(before - now, 600000);
  give(p, a);
  OK(cuMemGetInfo_v2, (size_t *, size_t *), &now, &total);
  assert_int_equal(before - now, 600000); /* the pool still has it */
  /* the last resort is to wait, after which the bytes are free */
  OK(cuMemAllocAsync, (u64 *, size_t, vp), &q, 600000, b);
  assert_int_equal(RESERVED(pool), 600000);
  CODE(2, cuMemAllocAsync, (u64 *, size_t, vp), &p, 600000, b);
  CODE(2, cuMemAlloc_v2, (u64 *, size_t), &p, 600000);
  give(q, b);
  OK(cuMemAlloc_v2, (u64 *, size_t), &p, 600000); /* waits and trims */
  assert_int_equal(RESERVED(pool), 0);
  OK(cuMemFree_v2, (u64), p);
  /* cuMemFree ends pool memory as well */
  OK(cuMemAllocAsync, (u64 *, size_t, vp), &p, 1000, a);
  OK(cuStreamSynchronize, (vp), a);
  OK(cuMemFree_v2, (u64), p);
  assert_int_equal(USED(pool), 0);
  OK(cuMemGetInfo_v2, (size_t *, size_t *), &now, &total);
  assert_int_equal(now, before);
  /* a pool with a limit of its own */
  vp small = new_pool(5000);
  p = take(small, 4000, a);
  CODE(2, cuMemAllocFromPoolAsync, (u64 *, size_t, vp, vp), &q, 2000, small,
       a);
  give(p, a);
  SYNC(0);
  OK(cuMemPoolDestroy, (vp), small);
  OK(cuStreamDestroy_v2, (vp), a);
  OK(cuStreamDestroy_v2, (vp), b);
}

#define FILL                                                                  \
  PTX_HEAD("sm_80")                                                           \
  ".visible .entry k(.param .u64 p, .param .u32 v) {\n"                       \
  ".reg .b64 %d<2>; .reg .b32 %r<2>;\n"                                       \
  "ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];\n"                           \
  "st.global.u32 [%d1], %r1; ret; }\n"

/* Memory used in another stream before it begins, and after it ends. */
static void lifetime(void **state) {
  (void)state;
  for (int mutant = 0; mutant < 3; mutant++) {
    rcuda_ctx_t *own = NULL, *old = NULL;
    vp m = NULL, f = NULL, e = NULL;
    u64 p = 0;
    unsigned v = 1;
    void *params[] = {&p, &v};
    OK(cuCtxGetCurrent, (rcuda_ctx_t **), &old);
    OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &own, NULL, 0,
       0);
    OK(cuModuleLoadData, (vp *, const void *), &m, FILL);
    OK(cuModuleGetFunction, (vp *, vp, const char *), &f, m, "k");
    OK(cuEventCreate, (vp *, unsigned), &e, 2);
    vp a = new_stream(), b = new_stream();
    findings("");
    OK(cuMemAllocAsync, (u64 *, size_t, vp), &p, 64, a);
    OK(cuEventRecord, (vp, vp), e, a);
    if (mutant != 1) /* 1: the launch does not wait for the memory */
      OK(cuStreamWaitEvent, (vp, vp, unsigned), b, e, 0);
    OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 1, 1, 1, 0, b, params, NULL);
    OK(cuEventRecord, (vp, vp), e, b);
    if (mutant != 2) /* 2: the end does not wait for the launch */
      OK(cuStreamWaitEvent, (vp, vp, unsigned), a, e, 0);
    give(p, a);
    SYNC(mutant ? 719 : 0);
    assert_int_equal(findings("order.lifetime"), mutant != 0);
    OK(cuCtxDestroy_v2, (rcuda_ctx_t *), own);
    OK(cuCtxSetCurrent, (rcuda_ctx_t *), old);
  }
}

/* Who may use a pool's memory: its device, and those that were let. */
static void rights(void **state) {
  (void)state;
  rcuda_ctx_t *here = NULL, *there = NULL;
  vp pool = new_pool(0), m = NULL, f = NULL;
  rcuda_location_t other = {RCUDA_LOCATION_DEVICE, 1};
  rcuda_access_t access = {other, RCUDA_ACCESS_BOTH};
  int flags = -1;
  u64 p = take(pool, 64, NULL);
  unsigned v = 9, got = 0;
  void *params[] = {&p, &v};
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &here);
  SYNC(0);
  OK(cuMemPoolGetAccess, (int *, vp, const rcuda_location_t *), &flags, pool,
     &other);
  assert_int_equal(flags, RCUDA_ACCESS_NONE);
  for (int may = 0; may < 2; may++) {
    if (may)
      OK(cuMemPoolSetAccess, (vp, const rcuda_access_t *, size_t), pool,
         &access, 1);
    OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &there, NULL, 0,
       1);
    OK(cuModuleLoadData, (vp *, const void *), &m, FILL);
    OK(cuModuleGetFunction, (vp *, vp, const char *), &f, m, "k");
    OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    SYNC(may ? 0 : 700);
    assert_int_equal(findings("mem.peer"), !may);
    OK(cuCtxDestroy_v2, (rcuda_ctx_t *), there);
    OK(cuCtxSetCurrent, (rcuda_ctx_t *), here);
  }
  OK(cuMemPoolGetAccess, (int *, vp, const rcuda_location_t *), &flags, pool,
     &other);
  assert_int_equal(flags, RCUDA_ACCESS_BOTH);
  OK(cuMemcpyDtoH_v2, (vp, u64, size_t), &got, p, 4);
  assert_int_equal(got, 9);
  give(p, NULL);
  SYNC(0);
  OK(cuMemPoolDestroy, (vp), pool);
}

static void codes(void **state) {
  (void)state;
  vp pool = new_pool(0), mine = NULL, now = NULL;
  u64 value = 5, p = 0;
  rcuda_pool_props_t props = {.type = 9};
  rcuda_location_t host = {2, 0};
  rcuda_access_t none = {{RCUDA_LOCATION_DEVICE, 0}, RCUDA_ACCESS_NONE};
  int flags;
  CODE(1, cuMemPoolCreate, (vp *, const rcuda_pool_props_t *), &mine,
       &props);
  CODE(1, cuMemPoolCreate, (vp *, const rcuda_pool_props_t *), &mine, NULL);
  props.type = RCUDA_MEM_PINNED;
  props.location.type = RCUDA_LOCATION_DEVICE;
  props.location.id = 7;
  CODE(101, cuMemPoolCreate, (vp *, const rcuda_pool_props_t *), &mine,
       &props);
  CODE(1, cuMemPoolGetAttribute, (vp, int, vp), pool, 99, &value);
  CODE(1, cuMemPoolSetAttribute, (vp, int, const void *), pool,
       RCUDA_POOL_USED, &value);
  CODE(1, cuMemPoolSetAttribute, (vp, int, const void *), pool,
       RCUDA_POOL_USED_HIGH, &value);
  CODE(1, cuMemPoolSetAccess, (vp, const rcuda_access_t *, size_t), pool,
       &none, 1); /* its own device keeps the right */
  CODE(1, cuMemPoolGetAccess, (int *, vp, const rcuda_location_t *), &flags,
       pool, &host);
  OK(cuDeviceSetMemPool, (int, vp), 0, pool);
  OK(cuDeviceGetMemPool, (vp *, int), &now, 0);
  assert_ptr_equal(now, pool);
  OK(cuMemAllocAsync, (u64 *, size_t, vp), &p, 100, NULL);
  assert_int_equal(USED(pool), 100);
  CODE(1, cuMemFreeAsync, (u64, vp), p + 4, NULL);
  give(p, NULL);
  CODE(1, cuMemFreeAsync, (u64, vp), p, NULL);
  SYNC(0);
  CODE(1, cuMemAllocAsync, (u64 *, size_t, vp), &p, 0, NULL);
  CODE(400, cuMemAllocFromPoolAsync, (u64 *, size_t, vp, vp), &p, 8, &p,
       NULL);
  CODE(1, cuDeviceSetMemPool, (int, vp), 1, pool);
  CODE(101, cuDeviceGetMemPool, (vp *, int), &now, 5);
  CODE(101, cuDeviceGetDefaultMemPool, (vp *, int), &now, 5);
  OK(cuMemPoolDestroy, (vp), pool);
  CODE(400, cuMemPoolDestroy, (vp), pool);
  CODE(400, cuMemPoolTrimTo, (vp, size_t), pool, 0);
  OK(cuDeviceGetMemPool, (vp *, int), &now, 0); /* its own one again */
  OK(cuDeviceGetDefaultMemPool, (vp *, int), &mine, 0);
  assert_ptr_equal(now, mine);
  CODE(1, cuMemPoolDestroy, (vp), mine);
  all_were_made("pools");
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100,devices:2,mem:1000000");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reuse_follows_edges), cmocka_unit_test(capacity),
      cmocka_unit_test(lifetime),            cmocka_unit_test(rights),
      cmocka_unit_test(codes)};
  return cmocka_run_group_tests_name("simgpu.pools", tests, setup, NULL);
}
