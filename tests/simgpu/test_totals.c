/* Counters that belong to no single launch, by hand counts: bytes that devices
   hold now and held at most, bytes copied by direction and by link, and what a
   launch read and wrote of each allocation. */
#include "nccl_lab.h"

static u64 bytes_of(const char *key) { return total("\"kind\":", key); }

static void held(void **state) {
  (void)state;
  u64 p = 0, q = 0, r = 0;
  assert_int_equal(total("\"device\":0", "device.live"), 0);
  OK(cuMemAlloc_v2, (u64 *, size_t), &p, 1000);
  OK(cuMemAlloc_v2, (u64 *, size_t), &q, 5000);
  assert_int_equal(total("\"device\":0", "device.live"), 6000);
  OK(cuMemFree_v2, (u64), q);
  OK(cuMemAllocAsync, (u64 *, size_t, vp), &r, 300, NULL);
  assert_int_equal(total("\"device\":0", "device.live"), 1300);
  assert_int_equal(total("\"device\":0", "device.peak"), 6000);
  assert_int_equal(total("\"device\":1", "device.live"), 0);
  OK(cuMemFreeAsync, (u64, vp), r, NULL);
  assert_int_equal(total("\"device\":0", "device.live"), 1000);
  assert_int_equal(total("\"device\":0", "device.cached"), 300);
  SYNC(0);
  assert_int_equal(total("\"device\":0", "device.cached"), 0);
  OK(cuMemFree_v2, (u64), p);
}

static void copied(void **state) {
  (void)state;
  world_t w = {.n = 2};
  for (int d = 0; d < 2; d++)
    OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &w.ctx[d], NULL,
       0, d);
  char host[400] = {0};
  u64 a = alloc_on(&w, 0, 400), b = alloc_on(&w, 1, 400);
  findings("");
  use(&w, 0);
  OK(cuMemcpyHtoD_v2, (u64, const void *, size_t), a, host, 400);
  OK(cuMemcpyDtoD_v2, (u64, u64, size_t), a + 200, a, 150);
  OK(cuMemcpyPeer, (u64, vp, u64, vp, size_t), b, w.ctx[1], a, w.ctx[0], 70);
  SYNC(0);
  OK(cuMemcpyPeer, (u64, vp, u64, vp, size_t), a, w.ctx[0], b, w.ctx[1], 30);
  rcuda_copy2d_t box = {.src_type = RCUDA_MEMORY_DEVICE, .src_device = a,
                        .src_pitch = 40, .dst_type = RCUDA_MEMORY_HOST,
                        .dst_host = host, .dst_pitch = 8, .width = 8,
                        .height = 5};
  OK(cuMemcpy2D_v2, (const rcuda_copy2d_t *), &box);
  SYNC(0);
  assert_int_equal(bytes_of("copy.h2d"), 400);
  assert_int_equal(bytes_of("copy.d2d"), 150);
  assert_int_equal(bytes_of("copy.p2p"), 100);
  assert_int_equal(bytes_of("copy.d2h"), 40);
  assert_int_equal(total("\"from\":0,\"to\":1", "bytes"), 70);
  assert_int_equal(total("\"from\":1,\"to\":0", "bytes"), 30);
  for (int d = 0; d < 2; d++)
    OK(cuCtxDestroy_v2, (rcuda_ctx_t *), w.ctx[d]);
  findings("");
}

/* 256 threads read 4 bytes each of one allocation, every other one writes 4
   bytes of another, and all read one word of a third. */
static void by_allocation(void **state) {
  (void)state;
  rcuda_ctx_t *ctx = NULL;
  vp m = NULL, f = NULL;
  u64 p[3];
  OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &ctx, NULL, 0, 0);
  OK(cuModuleLoadData, (vp *, const void *), &m,
     PTX_HEAD("sm_80")
     ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {\n"
     ".reg .b64 %d<6>; .reg .b32 %r<6>; .reg .pred %p;\n"
     "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b];\n"
     "ld.param.u64 %d3, [c]; mov.u32 %r1, %tid.x;\n"
     "mul.wide.u32 %d4, %r1, 4; add.s64 %d1, %d1, %d4;\n"
     "add.s64 %d2, %d2, %d4; ld.global.u32 %r2, [%d1];\n"
     "ld.global.u32 %r3, [%d3]; add.u32 %r2, %r2, %r3;\n"
     "and.b32 %r4, %r1, 8; setp.eq.u32 %p, %r4, 0;\n"
     "@%p st.global.u32 [%d2], %r2; ret; }\n");
  OK(cuModuleGetFunction, (vp *, vp, const char *), &f, m, "k");
  for (int i = 0; i < 3; i++) {
    OK(cuMemAlloc_v2, (u64 *, size_t), &p[i], 1024);
    OK(cuMemsetD32_v2, (u64, unsigned, size_t), p[i], 1, 256);
  }
  SYNC(0);
  findings("");
  vp params[] = {&p[0], &p[1], &p[2]};
  for (int turn = 0; turn < 2; turn++) {
    OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL);
    SYNC(0);
    size_t (*list)(size_t, char *, size_t);
    any_t fn = symbol("simgpu_allocations_get");
    char text[2048], key[64];
    memcpy(&list, &fn, sizeof fn);
    assert_true(list((size_t)turn, text, sizeof text) > 0);
    /* eight threads of sixteen fill whole sectors of 32 bytes */
    static const char *const want[] = {
        "\"unique_read\":1024,\"unique_written\":0}",
        "\"unique_read\":0,\"unique_written\":512}",
        "\"unique_read\":32,\"unique_written\":0}"};
    for (int i = 0; i < 3; i++) {
      snprintf(key, sizeof key, "\"address\":%llu,",
               (unsigned long long)p[i]);
      const char *at = strstr(text, key);
      if (!at || strncmp(strstr(at, "\"unique_read"), want[i],
                         strlen(want[i])) != 0)
        fail_msg("allocation %d: not %s in %s", i, want[i], text);
    }
  }
  OK(cuCtxDestroy_v2, (rcuda_ctx_t *), ctx);
  findings("");
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100,devices:2");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(held),
                                     cmocka_unit_test(copied),
                                     cmocka_unit_test(by_allocation)};
  return cmocka_run_group_tests_name("simgpu.totals", tests, setup, NULL);
}
