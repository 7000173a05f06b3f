/* Virtual memory: reserve, make, map, let, and each step left out. */
#include "driver_lab.h"

#define PIECE ((size_t)2 << 20)

static const rcuda_memory_props_t props = {
    .type = RCUDA_MEM_PINNED, .location = {RCUDA_LOCATION_DEVICE, 0}};

static u64 make(size_t bytes) {
  u64 h = 0;
  OK(cuMemCreate, (u64 *, size_t, const void *, unsigned long long), &h,
     bytes, &props, 0);
  return h;
}

static void map(u64 at, size_t bytes, u64 h) {
  OK(cuMemMap, (u64, size_t, size_t, u64, unsigned long long), at, bytes, 0,
     h, 0);
}

static void let(u64 at, size_t bytes, int device, int flags) {
  rcuda_access_t a = {{RCUDA_LOCATION_DEVICE, device}, flags};
  OK(cuMemSetAccess, (u64, size_t, const void *, size_t), at, bytes, &a, 1);
}

/* A buffer that grows: pieces of memory side by side, copied across. */
static void grows(void **state) {
  (void)state;
  u64 at = 0, h[3];
  size_t unit = 0, before = 0, now = 0, total = 0;
  static unsigned char host[6 << 20], back[6 << 20];
  OK(cuMemGetAllocationGranularity, (size_t *, const void *, int), &unit,
     &props, RCUDA_GRANULARITY_MINIMUM);
  assert_int_equal(unit, PIECE);
  OK(cuMemGetInfo_v2, (size_t *, size_t *), &before, &total);
  OK(cuMemAddressReserve, (u64 *, size_t, size_t, u64, unsigned long long),
     &at, 4 * PIECE, 0, 0, 0);
  for (int i = 0; i < 3; i++) {
    h[i] = make(PIECE);
    map(at + (u64)i * PIECE, PIECE, h[i]);
    OK(cuMemRelease, (u64), h[i]); /* the mapping keeps it */
  }
  OK(cuMemGetInfo_v2, (size_t *, size_t *), &now, &total);
  assert_int_equal(before - now, 3 * PIECE);
  let(at, 3 * PIECE, 0, RCUDA_ACCESS_BOTH);
  for (size_t i = 0; i < sizeof host; i++)
    host[i] = (unsigned char)(i * 2654435761u >> 24);
  OK(cuMemcpyHtoD_v2, (u64, const void *, size_t), at, host, sizeof host);
  OK(cuMemsetD8_v2, (u64, unsigned char, size_t), at + PIECE - 3, 7, 6);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), back, at, sizeof back);
  memset(host + PIECE - 3, 7, 6);
  assert_memory_equal(host, back, sizeof host);
  /* the fourth piece is reserved and not there */
  CODE(1, cuMemcpyDtoH_v2, (void *, u64, size_t), back,
       at + 3 * PIECE - 8, 16);
  assert_int_equal(findings("mem.bounds"), 1);
  OK(cuMemUnmap, (u64, size_t), at, 3 * PIECE);
  OK(cuMemGetInfo_v2, (size_t *, size_t *), &now, &total);
  assert_int_equal(now, before);
  CODE(1, cuMemcpyDtoH_v2, (void *, u64, size_t), back, at, 16);
  assert_int_equal(findings("mem.freed"), 1);
  /* and the range can be used again, with other memory: undefined */
  u64 other = make(2 * PIECE);
  map(at, 2 * PIECE, other);
  let(at, 2 * PIECE, 0, RCUDA_ACCESS_BOTH);
  OK(cuMemcpyHtoD_v2, (u64, const void *, size_t), at + PIECE, host, 8);
  assert_int_equal(configure("check:warn"), 0);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), back, at + PIECE, 16);
  assert_int_equal(findings("init.use"), 1);
  assert_int_equal(configure("check:all"), 0);
  assert_int_equal(back[12], 0xFF);
  OK(cuMemUnmap, (u64, size_t), at, 2 * PIECE);
  OK(cuMemRelease, (u64), other);
  OK(cuMemAddressFree, (u64, size_t), at, 4 * PIECE);
}

/* One piece of memory at two addresses. */
static void alias(void **state) {
  (void)state;
  u64 a = 0, b = 0, h = make(PIECE);
  unsigned word = 0;
  OK(cuMemAddressReserve, (u64 *, size_t, size_t, u64, unsigned long long),
     &a, PIECE, 0, 0, 0);
  OK(cuMemAddressReserve, (u64 *, size_t, size_t, u64, unsigned long long),
     &b, PIECE, 4 * PIECE, 0, 0);
  assert_int_equal(b % (4 * PIECE), 0);
  map(a, PIECE, h);
  map(b, PIECE, h);
  let(a, PIECE, 0, RCUDA_ACCESS_BOTH);
  let(b, PIECE, 0, RCUDA_ACCESS_READ);
  OK(cuMemsetD32_v2, (u64, unsigned, size_t), a + 4096, 0xABCD, 1);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), &word, b + 4096, 4);
  assert_int_equal(word, 0xABCD);
  CODE(1, cuMemsetD32_v2, (u64, unsigned, size_t), b + 4096, 1, 1);
  assert_int_equal(findings("mem.peer"), 1); /* it may only read there */
  OK(cuMemUnmap, (u64, size_t), a, PIECE);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), &word, b + 4096, 4);
  OK(cuMemUnmap, (u64, size_t), b, PIECE);
  map(a, PIECE, h); /* the memory is still held, with what it holds */
  let(a, PIECE, 0, RCUDA_ACCESS_READ);
  word = 0;
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), &word, a + 4096, 4);
  assert_int_equal(word, 0xABCD);
  OK(cuMemUnmap, (u64, size_t), a, PIECE);
  OK(cuMemRelease, (u64), h);
  OK(cuMemAddressFree, (u64, size_t), a, PIECE);
  OK(cuMemAddressFree, (u64, size_t), b, PIECE);
}

#define ADD                                                                   \
  PTX_HEAD("sm_80")                                                           \
  ".visible .entry k(.param .u64 p, .param .u64 q) {\n"                       \
  ".reg .b64 %d<3>; .reg .b32 %r<2>;\n"                                       \
  "ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q];\n"                           \
  "ld.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1;\n"                          \
  "st.global.u32 [%d2], %r1; ret; }\n"

/* Kernels need a mapping and the right: which is left out, and what says so.
   Peer access to the memory's device is not the right. */
static void kernels(void **state) {
  (void)state;
  static const struct {
    const char *what, *check;
    int device, flags, code;
    bool unmapped, writes;
  } cases[] = {
      {"own device, both", NULL, 0, RCUDA_ACCESS_BOTH, 0, false, true},
      {"own device, reading", NULL, 0, RCUDA_ACCESS_READ, 0, false, false},
      {"writing what may be read", "mem.peer", 0, RCUDA_ACCESS_READ, 700,
       false, true},
      {"no right", "mem.peer", 0, RCUDA_ACCESS_NONE, 700, false, false},
      {"no mapping", "mem.freed", 0, RCUDA_ACCESS_BOTH, 700, true, false},
      {"other device, let", NULL, 1, RCUDA_ACCESS_BOTH, 0, false, true},
      {"other device, not let", "mem.peer", 1, RCUDA_ACCESS_NONE, 700, false,
       false}};
  rcuda_ctx_t *here = NULL;
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &here);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rcuda_ctx_t *ctx = NULL;
    void *m = NULL, *f = NULL;
    u64 at = 0, h = make(PIECE), mine = 0, to;
    unsigned word = 0;
    int device = cases[i].device;
    OK(cuMemAddressReserve, (u64 *, size_t, size_t, u64, unsigned long long),
       &at, PIECE, 0, 0, 0);
    map(at, PIECE, h);
    let(at, PIECE, 0, RCUDA_ACCESS_BOTH);
    OK(cuMemsetD32_v2, (u64, unsigned, size_t), at, 41, 1);
    SYNC(0);
    OK(cuCtxCreate_v4, (rcuda_ctx_t **, void *, unsigned, int), &ctx, NULL,
       0, device);
    if (device)
      OK(cuCtxEnablePeerAccess, (rcuda_ctx_t *, unsigned), here, 0);
    let(at, PIECE, device, cases[i].flags);
    unsigned long long have = 9;
    rcuda_location_t where = {RCUDA_LOCATION_DEVICE, device};
    OK(cuMemGetAccess, (unsigned long long *, const void *, u64), &have,
       &where, at);
    assert_int_equal(have, cases[i].flags);
    OK(cuMemAlloc_v2, (u64 *, size_t), &mine, 4);
    OK(cuModuleLoadData, (void **, const void *), &m, ADD);
    OK(cuModuleGetFunction, (void **, void *, const char *), &f, m, "k");
    to = cases[i].writes ? at + 8 : mine;
    void *params[] = {&at, &to};
    findings("");
    if (cases[i].unmapped) OK(cuMemUnmap, (u64, size_t), at, PIECE);
    OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    SYNC(cases[i].code);
    if (cases[i].check && findings(cases[i].check) != 1)
      fail_msg("%s: no %s", cases[i].what, cases[i].check);
    if (!cases[i].code) {
      OK(cuMemcpyDtoH_v2, (void *, u64, size_t), &word, to, 4);
      assert_int_equal(word, 42);
    }
    OK(cuCtxDestroy_v2, (rcuda_ctx_t *), ctx);
    OK(cuCtxSetCurrent, (rcuda_ctx_t *), here);
    if (!cases[i].unmapped) OK(cuMemUnmap, (u64, size_t), at, PIECE);
    OK(cuMemRelease, (u64), h);
    OK(cuMemAddressFree, (u64, size_t), at, PIECE);
  }
}

/* Work that nobody waited for still uses what is unmapped. */
static void unmapped_early(void **state) {
  (void)state;
  rcuda_ctx_t *here = NULL, *ctx = NULL;
  u64 at = 0, h = make(PIECE);
  void *s = NULL;
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &here);
  OK(cuCtxCreate_v4, (rcuda_ctx_t **, void *, unsigned, int), &ctx, NULL, 0,
     0);
  OK(cuStreamCreate, (void **, unsigned), &s, 1);
  OK(cuMemAddressReserve, (u64 *, size_t, size_t, u64, unsigned long long),
     &at, PIECE, 0, 0, 0);
  map(at, PIECE, h);
  let(at, PIECE, 0, RCUDA_ACCESS_BOTH);
  findings("");
  OK(cuMemsetD8Async, (u64, unsigned char, size_t, void *), at, 1, 64, s);
  CODE(719, cuMemUnmap, (u64, size_t), at, PIECE);
  assert_int_equal(findings("order.lifetime"), 1);
  OK(cuCtxDestroy_v2, (rcuda_ctx_t *), ctx);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), here);
  OK(cuMemRelease, (u64), h);
  OK(cuMemAddressFree, (u64, size_t), at, PIECE);
}

static void codes(void **state) {
  (void)state;
  u64 at = 0, h = make(PIECE), other = 0;
  size_t unit;
  unsigned long long flags;
  rcuda_memory_props_t bad = props;
  rcuda_access_t a = {{RCUDA_LOCATION_DEVICE, 0}, 2};
  rcuda_location_t where = {RCUDA_LOCATION_DEVICE, 0};
  CODE(1, cuMemAddressReserve,
       (u64 *, size_t, size_t, u64, unsigned long long), &at, 4096, 0, 0, 0);
  CODE(1, cuMemAddressReserve,
       (u64 *, size_t, size_t, u64, unsigned long long), &at, PIECE, 3, 0, 0);
  OK(cuMemAddressReserve, (u64 *, size_t, size_t, u64, unsigned long long),
     &at, 2 * PIECE, 0, 0, 0);
  CODE(1, cuMemCreate, (u64 *, size_t, const void *, unsigned long long),
       &other, 4096, &props, 0);
  CODE(2, cuMemCreate, (u64 *, size_t, const void *, unsigned long long),
       &other, (size_t)1 << 40, &props, 0);
  bad.location.id = 9;
  CODE(101, cuMemCreate, (u64 *, size_t, const void *, unsigned long long),
       &other, PIECE, &bad, 0);
  CODE(1, cuMemGetAllocationGranularity, (size_t *, const void *, int), &unit,
       &props, 5);
  CODE(1, cuMemMap, (u64, size_t, size_t, u64, unsigned long long), at,
       PIECE, 0, h + 1, 0);
  CODE(1, cuMemMap, (u64, size_t, size_t, u64, unsigned long long), at,
       PIECE / 2, 0, h, 0);
  CODE(1, cuMemMap, (u64, size_t, size_t, u64, unsigned long long),
       at + 2 * PIECE, PIECE, 0, h, 0); /* beyond the range */
  map(at, PIECE, h);
  CODE(1, cuMemMap, (u64, size_t, size_t, u64, unsigned long long), at,
       PIECE, 0, h, 0); /* taken */
  CODE(1, cuMemSetAccess, (u64, size_t, const void *, size_t), at, PIECE, &a,
       1);
  a.flags = RCUDA_ACCESS_BOTH;
  CODE(1, cuMemSetAccess, (u64, size_t, const void *, size_t), at,
       2 * PIECE, &a, 1); /* the second half is not mapped */
  CODE(1, cuMemGetAccess, (unsigned long long *, const void *, u64), &flags,
       &where, at + PIECE);
  CODE(1, cuMemFree_v2, (u64), at); /* not what it is for */
  CODE(1, cuMemAddressFree, (u64, size_t), at, 2 * PIECE);
  CODE(1, cuMemUnmap, (u64, size_t), at, PIECE / 2);
  OK(cuMemUnmap, (u64, size_t), at, PIECE);
  CODE(1, cuMemUnmap, (u64, size_t), at, PIECE);
  CODE(1, cuMemAddressFree, (u64, size_t), at, PIECE);
  OK(cuMemAddressFree, (u64, size_t), at, 2 * PIECE);
  OK(cuMemRelease, (u64), h);
  CODE(1, cuMemRelease, (u64), h);
  all_were_made("virtual");
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100,devices:2");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(grows), cmocka_unit_test(alias),
      cmocka_unit_test(kernels), cmocka_unit_test(unmapped_early),
      cmocka_unit_test(codes)};
  return cmocka_run_group_tests_name("simgpu.virtual", tests, setup, NULL);
}
