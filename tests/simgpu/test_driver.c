/* The driver's surface: every exported call succeeds somewhere here, or in the
   test program that driver_lab.h names for it, and fails somewhere with the
   code that the interface gives it; a list taken from the simulator's table
   says which was forgotten. What the simulator does not have says so by
   name. */
#include "driver_lab.h"

#include <unistd.h>

/* -- in the order in which a process lives -- */

static void before_init(void **state) {
  (void)state;
  for (size_t i = 0; i < seen_count; i++) {
    const char *n = seen[i].name;
    int want = starts(n, "cuDriver") || starts(n, "cuGet") ? 1 : 3;
    if (strcmp(n, "cuInit") == 0 || starts(n, "cuTensorMap")) continue;
    int code = note(n, zeros(n));
    if (code != want) fail_msg("%s before cuInit: %d", n, code);
  }
}

static void start(void **state) {
  (void)state;
  assert_int_equal(configure("model:nothing"), 1);
  assert_int_equal(configure("devices:0"), 1);
  assert_int_equal(configure("devices:99"), 1);
  assert_int_equal(configure("color:red"), 1);
  assert_int_equal(configure("model:h100,devices:3,mem:1073741824"), 0);
  CODE(1, cuInit, (unsigned), 7);
  OK(cuInit, (unsigned), 0);
  OK(cuInit, (unsigned), 0);
  assert_int_equal(configure("model:a100"), 1); /* too late */
  int n = 0;
  OK(cuDriverGetVersion, (int *), &n);
  assert_int_equal(n, 13000);
  const char *text = NULL;
  OK(cuGetErrorName, (int, const char **), 700, &text);
  assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  OK(cuGetErrorString, (int, const char **), 2, &text);
  assert_string_equal(text, "out of memory");
  CODE(1, cuGetErrorName, (int, const char **), 12345, &text);
  CODE(1, cuGetErrorString, (int, const char **), 12345, &text);
  any_t fn = NULL;
  int how = -1;
  OK(cuGetProcAddress_v2, (const char *, any_t *, int, u64, int *),
     "cuMemAlloc", &fn, 13000, 0, &how);
  assert_true(fn == symbol("cuMemAlloc_v2"));
  assert_int_equal(how, RCUDA_PROC_FOUND);
  CODE(500, cuGetProcAddress_v2, (const char *, any_t *, int, u64, int *),
       "cuNoSuchCall", &fn, 13000, 0, &how);
  assert_int_equal(how, RCUDA_PROC_NOT_FOUND);
  for (size_t i = 0; i < seen_count; i++) {
    OK(cuGetProcAddress_v2, (const char *, any_t *, int, u64, int *),
       seen[i].base, &fn, 13000, 0, &how);
    assert_true(fn == symbol(seen[i].name));
  }
}

static void without_context(void **state) {
  (void)state;
  refused_without_context();
}

static void devices(void **state) {
  (void)state;
  int n = 0, d = -1;
  size_t bytes = 0;
  char name[64];
  rcuda_uuid_t a, b;
  OK(cuDeviceGetCount, (int *), &n);
  assert_int_equal(n, 3);
  CODE(1, cuDeviceGetCount, (int *), NULL);
  OK(cuDeviceGet, (int *, int), &d, 2);
  CODE(101, cuDeviceGet, (int *, int), &d, 3);
  CODE(101, cuDeviceGet, (int *, int), &d, -1);
  OK(cuDeviceGetName, (char *, int, int), name, 64, 1);
  assert_true(starts(name, "Simulated H100"));
  OK(cuDeviceGetName, (char *, int, int), name, 5, 1);
  assert_string_equal(name, "Simu");
  CODE(1, cuDeviceGetName, (char *, int, int), name, 0, 1);
  CODE(101, cuDeviceGetName, (char *, int, int), name, 9, 5);
  OK(cuDeviceGetUuid_v2, (rcuda_uuid_t *, int), &a, 0);
  OK(cuDeviceGetUuid_v2, (rcuda_uuid_t *, int), &b, 1);
  assert_memory_not_equal(&a, &b, sizeof a);
  CODE(101, cuDeviceGetUuid_v2, (rcuda_uuid_t *, int), &a, 9);
  OK(cuDeviceTotalMem_v2, (size_t *, int), &bytes, 0);
  assert_int_equal(bytes, 1 << 30);
  CODE(101, cuDeviceTotalMem_v2, (size_t *, int), &bytes, 9);
  OK(cuDeviceGetPCIBusId, (char *, int, int), name, 64, 1);
  CODE(1, cuDeviceGetPCIBusId, (char *, int, int), name, 4, 1);
  OK(cuDeviceCanAccessPeer, (int *, int, int), &n, 0, 1);
  assert_int_equal(n, 1);
  OK(cuDeviceCanAccessPeer, (int *, int, int), &n, 1, 1);
  assert_int_equal(n, 0);
  CODE(101, cuDeviceCanAccessPeer, (int *, int, int), &n, 0, 3);
  OK(cuDeviceGetP2PAttribute, (int *, int, int, int), &n, 2, 0, 1);
  CODE(101, cuDeviceGetP2PAttribute, (int *, int, int, int), &n, 2, 1, 1);
  CODE(1, cuDeviceGetP2PAttribute, (int *, int, int, int), &n, 77, 0, 1);
  OK(cuDeviceGetAttribute, (int *, int, int), &n, RCUDA_DEV_CC_MAJOR, 0);
  assert_int_equal(n, 9);
  OK(cuDeviceGetAttribute, (int *, int, int), &n, RCUDA_DEV_WARP_SIZE, 2);
  assert_int_equal(n, 32);
  for (int k = 1; k < 140; k++)
    OK(cuDeviceGetAttribute, (int *, int, int), &n, k, 0);
  CODE(1, cuDeviceGetAttribute, (int *, int, int), &n, 0, 0);
  CODE(101, cuDeviceGetAttribute, (int *, int, int), &n, 1, 3);
}

static void contexts(void **state) {
  (void)state;
  rcuda_ctx_t *p = NULL, *q = NULL, *c = NULL, *now = NULL;
  unsigned flags = 9;
  int active = -1, device = -1, least = 9, most = 9;
  size_t limit = 0;
  OK(cuDevicePrimaryCtxGetState, (int, unsigned *, int *), 0, &flags,
     &active);
  assert_int_equal(active, 0);
  OK(cuDevicePrimaryCtxSetFlags_v2, (int, unsigned), 0, 4);
  CODE(101, cuDevicePrimaryCtxSetFlags_v2, (int, unsigned), 7, 4);
  OK(cuDevicePrimaryCtxRetain, (rcuda_ctx_t **, int), &p, 0);
  OK(cuDevicePrimaryCtxRetain, (rcuda_ctx_t **, int), &q, 0);
  assert_ptr_equal(p, q);
  CODE(101, cuDevicePrimaryCtxRetain, (rcuda_ctx_t **, int), &q, 3);
  OK(cuDevicePrimaryCtxGetState, (int, unsigned *, int *), 0, &flags,
     &active);
  assert_int_equal(flags, 4);
  assert_int_equal(active, 1);
  CODE(101, cuDevicePrimaryCtxGetState, (int, unsigned *, int *), 5, &flags,
       &active);
  /* retaining makes nothing current */
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &now);
  assert_null(now);
  CODE(1, cuCtxGetCurrent, (rcuda_ctx_t **), NULL);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), p);
  OK(cuCtxCreate_v4, (rcuda_ctx_t **, void *, unsigned, int), &c, NULL, 0, 1);
  CODE(101, cuCtxCreate_v4, (rcuda_ctx_t **, void *, unsigned, int), &c,
       NULL, 0, 8);
  OK(cuCtxGetDevice, (int *), &device);
  assert_int_equal(device, 1); /* creating makes current */
  OK(cuCtxGetFlags, (unsigned *), &flags);
  OK(cuCtxPopCurrent_v2, (rcuda_ctx_t **), &now);
  assert_ptr_equal(now, c);
  OK(cuCtxPushCurrent_v2, (rcuda_ctx_t *), c);
  CODE(201, cuCtxPushCurrent_v2, (rcuda_ctx_t *), (void *)&device);
  CODE(201, cuCtxSetCurrent, (rcuda_ctx_t *), (void *)&device);
  OK(cuCtxGetLimit, (size_t *, int), &limit, RCUDA_LIMIT_STACK);
  OK(cuCtxSetLimit, (int, size_t), RCUDA_LIMIT_STACK, 4096);
  OK(cuCtxGetLimit, (size_t *, int), &limit, RCUDA_LIMIT_STACK);
  assert_int_equal(limit, 4096);
  CODE(215, cuCtxGetLimit, (size_t *, int), &limit, 99);
  CODE(215, cuCtxSetLimit, (int, size_t), 99, 1);
  OK(cuCtxGetStreamPriorityRange, (int *, int *), &least, &most);
  assert_true(most < least);
  OK(cuCtxEnablePeerAccess, (rcuda_ctx_t *, unsigned), p, 0);
  CODE(704, cuCtxEnablePeerAccess, (rcuda_ctx_t *, unsigned), p, 0);
  CODE(1, cuCtxEnablePeerAccess, (rcuda_ctx_t *, unsigned), c, 0);
  OK(cuCtxDisablePeerAccess, (rcuda_ctx_t *), p);
  CODE(705, cuCtxDisablePeerAccess, (rcuda_ctx_t *), p);
  SYNC(0);
  OK(cuCtxDestroy_v2, (rcuda_ctx_t *), c);
  CODE(201, cuCtxDestroy_v2, (rcuda_ctx_t *), c);
  CODE(201, cuCtxDestroy_v2, (rcuda_ctx_t *), p); /* a primary one */
  OK(cuCtxGetDevice, (int *), &device);
  assert_int_equal(device, 0); /* the one below is current again */
  OK(cuDevicePrimaryCtxRelease_v2, (int), 0);
  SYNC(0); /* one use is left */
  OK(cuDevicePrimaryCtxRelease_v2, (int), 0);
  CODE(201, cuDevicePrimaryCtxRelease_v2, (int), 0);
  SYNC(201); /* current, and dead */
  CODE(101, cuDevicePrimaryCtxReset_v2, (int), 4);
  OK(cuDevicePrimaryCtxReset_v2, (int), 0);
  OK(cuDevicePrimaryCtxRetain, (rcuda_ctx_t **, int), &p, 0);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), p);
}

static void memory(void **state) {
  (void)state;
  u64 a = 0, b = 0, base = 0, device = 0;
  size_t bytes = 0, pitch = 0, total = 0;
  char host[256];
  void *pinned = NULL, *more = NULL;
  OK(cuMemAlloc_v2, (u64 *, size_t), &a, 1000);
  CODE(1, cuMemAlloc_v2, (u64 *, size_t), &b, 0);
  CODE(2, cuMemAlloc_v2, (u64 *, size_t), &b, (size_t)2 << 30);
  OK(cuMemAllocManaged, (u64 *, size_t, unsigned), &b, 64, 1);
  int managed = 0, is_managed = 0;
  OK(cuMemsetD32_v2, (u64, unsigned, size_t), b, 77, 16);
  SYNC(0);
  memcpy(&managed, (const void *)(uintptr_t)b, 4); /* the host may look */
  assert_int_equal(managed, 77);
  OK(cuPointerGetAttribute, (void *, int, u64), &is_managed,
     RCUDA_POINTER_IS_MANAGED, b);
  assert_int_equal(is_managed, 1);
  CODE(1, cuMemFreeHost, (void *), (void *)(uintptr_t)b);
  OK(cuMemFree_v2, (u64), b);
  CODE(1, cuMemFree_v2, (u64), b);
  CODE(1, cuMemAllocManaged, (u64 *, size_t, unsigned), &b, 0, 1);
  CODE(1, cuMemAllocManaged, (u64 *, size_t, unsigned), &b, 4, 3);
  OK(cuMemAllocPitch_v2, (u64 *, size_t *, size_t, size_t, unsigned), &b,
     &pitch, 100, 5, 4);
  assert_true(pitch >= 100 && pitch % 4 == 0);
  CODE(1, cuMemAllocPitch_v2, (u64 *, size_t *, size_t, size_t, unsigned),
       &b, &pitch, 100, 5, 3);
  OK(cuMemGetInfo_v2, (size_t *, size_t *), &bytes, &total);
  assert_int_equal(total, 1 << 30);
  assert_int_equal(total - bytes, 1000 + pitch * 5);
  OK(cuMemGetAddressRange_v2, (u64 *, size_t *, u64), &base, &bytes,
     a + 999);
  assert_int_equal(base, a);
  assert_int_equal(bytes, 1000);
  CODE(500, cuMemGetAddressRange_v2, (u64 *, size_t *, u64), &base, &bytes,
       a + 1000);
  OK(cuMemHostAlloc, (void **, size_t, unsigned), &pinned, 4096, 0);
  CODE(1, cuMemHostAlloc, (void **, size_t, unsigned), &pinned, 0, 0);
  OK(cuMemAllocHost_v2, (void **, size_t), &more, 64);
  OK(cuMemHostGetDevicePointer_v2, (u64 *, void *, unsigned), &device,
     pinned, 0);
  CODE(1, cuMemHostGetDevicePointer_v2, (u64 *, void *, unsigned), &device,
       host, 0);
  OK(cuMemHostRegister_v2, (void *, size_t, unsigned), host, 256, 0);
  CODE(712, cuMemHostRegister_v2, (void *, size_t, unsigned), host, 256, 0);
  CODE(1, cuMemFreeHost, (void *), host);
  OK(cuMemHostUnregister, (void *), host);
  CODE(713, cuMemHostUnregister, (void *), host);
  OK(cuMemFreeHost, (void *), more);
  CODE(1, cuMemFreeHost, (void *), more);
  int ordinal = -1, type = -1;
  OK(cuPointerGetAttribute, (void *, int, u64), &ordinal,
     RCUDA_POINTER_DEVICE_ORDINAL, a);
  assert_int_equal(ordinal, 0);
  OK(cuPointerGetAttribute, (void *, int, u64), &type,
     RCUDA_POINTER_MEMORY_TYPE, (u64)(uintptr_t)pinned);
  assert_int_equal(type, RCUDA_MEMORY_HOST);
  CODE(1, cuPointerGetAttribute, (void *, int, u64), &type,
       RCUDA_POINTER_MEMORY_TYPE, 4096);
  int which[] = {RCUDA_POINTER_MEMORY_TYPE, RCUDA_POINTER_RANGE_BYTES,
                 RCUDA_POINTER_HOST_POINTER};
  u64 range = 0, where = 7;
  void *into[] = {&type, &range, &where};
  OK(cuPointerGetAttributes, (unsigned, int *, void **, u64), 3, which, into,
     a + 8);
  assert_int_equal(type, RCUDA_MEMORY_DEVICE);
  assert_int_equal(range, 1000);
  assert_int_equal(where, 0); /* it has none: no error here */
  OK(cuPointerGetAttributes, (unsigned, int *, void **, u64), 3, which, into,
     4096);
  assert_int_equal(type, 0);
  CODE(1, cuPointerGetAttributes, (unsigned, int *, void **, u64), 0, which,
       into, a);
  /* copies and fills */
  memset(host, 7, sizeof host);
  OK(cuMemcpyHtoD_v2, (u64, const void *, size_t), a, host, 256);
  OK(cuMemcpyDtoD_v2, (u64, u64, size_t), a + 256, a, 128);
  OK(cuMemcpy, (u64, u64, size_t), a + 384, a, 128);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), host, a + 384, 128);
  assert_int_equal(host[127], 7);
  OK(cuMemcpyHtoDAsync_v2, (u64, const void *, size_t, void *), a, host, 8,
     NULL);
  OK(cuMemcpyDtoHAsync_v2, (void *, u64, size_t, void *), host, a, 8, NULL);
  OK(cuMemcpyDtoDAsync_v2, (u64, u64, size_t, void *), a, a + 64, 8, NULL);
  OK(cuMemcpyAsync, (u64, u64, size_t, void *), a, a + 64, 8, NULL);
  rcuda_ctx_t *now = NULL;
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &now);
  OK(cuMemcpyPeer, (u64, void *, u64, void *, size_t), a, now, a + 64, now,
     8);
  OK(cuMemcpyPeerAsync, (u64, void *, u64, void *, size_t, void *), a, now,
     a + 64, now, 8, NULL);
  CODE(201, cuMemcpyPeer, (u64, void *, u64, void *, size_t), a, NULL, a + 64,
       now, 8);
  CODE(1, cuMemcpyHtoD_v2, (u64, const void *, size_t), a, host, 1001);
  CODE(1, cuMemcpyDtoH_v2, (void *, u64, size_t), host, a + 999, 2);
  CODE(1, cuMemcpyDtoD_v2, (u64, u64, size_t), a, 0, 4);
  CODE(1, cuMemcpy, (u64, u64, size_t), 0, a, 4);
  CODE(400, cuMemcpyAsync, (u64, u64, size_t, void *), a, a + 64, 8, host);
  CODE(400, cuMemcpyHtoDAsync_v2, (u64, const void *, size_t, void *), a,
       host, 8, pinned);
  CODE(400, cuMemcpyDtoHAsync_v2, (void *, u64, size_t, void *), host, a, 8,
       pinned);
  CODE(400, cuMemcpyDtoDAsync_v2, (u64, u64, size_t, void *), a, a + 64, 8,
       pinned);
  CODE(1, cuMemcpyPeer, (u64, void *, u64, void *, size_t), a, now, 0, now,
       8);
  CODE(1, cuMemcpyPeerAsync, (u64, void *, u64, void *, size_t, void *), a,
       now, 0, now, 8, NULL);
  rcuda_copy2d_t c = {.src_type = RCUDA_MEMORY_HOST, .src_host = host,
                      .src_pitch = 16, .dst_type = RCUDA_MEMORY_DEVICE,
                      .dst_device = b, .dst_pitch = pitch, .dst_y = 1,
                      .dst_x = 4, .width = 12, .height = 4};
  for (int k = 0; k < 64; k++) host[k] = (char)k;
  OK(cuMemcpy2D_v2, (const rcuda_copy2d_t *), &c);
  OK(cuMemcpy2DUnaligned_v2, (const rcuda_copy2d_t *), &c);
  OK(cuMemcpy2DAsync_v2, (const rcuda_copy2d_t *, void *), &c, NULL);
  char back[12];
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), back, b + 3 * pitch + 4, 12);
  assert_int_equal(back[11], 2 * 16 + 11);
  c.height = 5;
  CODE(1, cuMemcpy2D_v2, (const rcuda_copy2d_t *), &c);
  /* a box: planes of 3 rows of 4 bytes out of planes of 4 rows of 16 */
  rcuda_copy3d_t box = {.src_type = RCUDA_MEMORY_HOST, .src_host = host,
                        .src_pitch = 16, .src_height = 4, .src_x = 5,
                        .src_y = 1, .src_z = 1,
                        .dst_type = RCUDA_MEMORY_UNIFIED, .dst_device = a,
                        .dst_pitch = 8, .dst_height = 3, .width = 4,
                        .height = 3, .depth = 2};
  for (int k = 0; k < 192; k++) host[k] = (char)(k / 2);
  OK(cuMemcpy3D_v2, (const rcuda_copy3d_t *), &box);
  unsigned char three[48];
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), three, a, 48);
  for (int z = 0; z < 2; z++)
    for (int y = 0; y < 3; y++)
      for (int x = 0; x < 4; x++)
        assert_int_equal(three[(z * 3 + y) * 8 + x],
                         (((z + 1) * 4 + y + 1) * 16 + x + 5) / 2);
  OK(cuMemcpy3DAsync_v2, (const rcuda_copy3d_t *, void *), &box, NULL);
  box.dst_height = 2; /* planes that overlap */
  CODE(1, cuMemcpy3D_v2, (const rcuda_copy3d_t *), &box);
  box.dst_height = 3;
  box.dst_z = 41;
  CODE(1, cuMemcpy3DAsync_v2, (const rcuda_copy3d_t *, void *), &box, NULL);
  box.dst_type = 3; /* arrays do not exist */
  CODE(1, cuMemcpy3D_v2, (const rcuda_copy3d_t *), &box);
  c.src_pitch = 8;
  CODE(1, cuMemcpy2DUnaligned_v2, (const rcuda_copy2d_t *), &c);
  CODE(1, cuMemcpy2DAsync_v2, (const rcuda_copy2d_t *, void *), NULL, NULL);
  OK(cuMemsetD8_v2, (u64, unsigned char, size_t), a, 1, 10);
  OK(cuMemsetD16_v2, (u64, unsigned short, size_t), a, 0x1234, 10);
  OK(cuMemsetD32_v2, (u64, unsigned, size_t), a, 5, 10);
  OK(cuMemsetD8Async, (u64, unsigned char, size_t, void *), a, 1, 10, NULL);
  OK(cuMemsetD16Async, (u64, unsigned short, size_t, void *), a, 1, 10,
     NULL);
  OK(cuMemsetD32Async, (u64, unsigned, size_t, void *), a, 0x01020304, 10,
     NULL);
  OK(cuMemsetD2D8_v2, (u64, size_t, unsigned char, size_t, size_t), b, pitch,
     9, 3, 5);
  OK(cuMemsetD2D32_v2, (u64, size_t, unsigned, size_t, size_t), b, pitch, 9,
     3, 5);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), back, a + 36, 4);
  assert_int_equal(back[0], 4);
  CODE(1, cuMemsetD8_v2, (u64, unsigned char, size_t), a, 1, 1001);
  CODE(1, cuMemsetD16_v2, (u64, unsigned short, size_t), a + 1, 1, 1);
  CODE(1, cuMemsetD32_v2, (u64, unsigned, size_t), a + 2, 1, 1);
  CODE(1, cuMemsetD8Async, (u64, unsigned char, size_t, void *), 0, 1, 1,
       NULL);
  CODE(400, cuMemsetD16Async, (u64, unsigned short, size_t, void *), a, 1, 1,
       pinned);
  CODE(1, cuMemsetD32Async, (u64, unsigned, size_t, void *), a + 1000, 1, 1,
       NULL);
  CODE(1, cuMemsetD2D8_v2, (u64, size_t, unsigned char, size_t, size_t), b,
       pitch, 9, 3, 6);
  CODE(1, cuMemsetD2D32_v2, (u64, size_t, unsigned, size_t, size_t), b + 1,
       pitch, 9, 3, 5);
  OK(cuMemsetD2D16_v2, (u64, size_t, unsigned short, size_t, size_t), b,
     pitch, 0x0102, 7, 2);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), back, b + pitch + 10, 4);
  assert_int_equal(back[3], 1);
  assert_int_equal(back[0], 2);
  CODE(1, cuMemsetD2D16_v2, (u64, size_t, unsigned short, size_t, size_t), b,
       12, 1, 7, 2); /* rows that overlap */
  OK(cuMemsetD2D8Async, (u64, size_t, unsigned char, size_t, size_t, void *),
     b, pitch, 1, 2, 2, NULL);
  OK(cuMemsetD2D16Async,
     (u64, size_t, unsigned short, size_t, size_t, void *), b, pitch, 1, 2, 2,
     NULL);
  OK(cuMemsetD2D32Async, (u64, size_t, unsigned, size_t, size_t, void *), b,
     pitch, 1, 2, 2, NULL);
  CODE(1, cuMemsetD2D8Async,
       (u64, size_t, unsigned char, size_t, size_t, void *), 0, pitch, 1, 2,
       2, NULL);
  CODE(1, cuMemsetD2D16Async,
       (u64, size_t, unsigned short, size_t, size_t, void *), b + 1, pitch, 1,
       2, 2, NULL);
  CODE(400, cuMemsetD2D32Async,
       (u64, size_t, unsigned, size_t, size_t, void *), b, pitch, 1, 2, 2,
       pinned);
  OK(cuMemAllocAsync, (u64 *, size_t, void *), &base, 100, NULL);
  OK(cuMemFreeAsync, (u64, void *), base, NULL);
  CODE(400, cuMemAllocAsync, (u64 *, size_t, void *), &base, 100, pinned);
  CODE(1, cuMemFreeAsync, (u64, void *), base, NULL);
  OK(cuMemFree_v2, (u64), a);
  CODE(1, cuMemFree_v2, (u64), a);
  OK(cuMemFree_v2, (u64), b);
  OK(cuMemFree_v2, (u64), 0);
  OK(cuMemFreeHost, (void *), pinned);
  SYNC(0);
}

/* Every call can be made to fail, once, at a chosen time. */
static void injected(void **state) {
  (void)state;
  char items[160];
  for (size_t i = 0; i < seen_count; i++) {
    const char *n = seen[i].name;
    snprintf(items, sizeof items, "fail:%s@1=999", n);
    assert_int_equal(configure(items), 0);
    int code = zeros(n);
    if (code != 999) fail_msg("%s with a failure injected: %d", n, code);
    if (strcmp(n, "cuInit") != 0 && zeros(n) == 999)
      fail_msg("%s fails twice", n);
  }
  int n = 0;
  assert_int_equal(configure("fail:cuDeviceGetCount@3=46"), 0);
  OK(cuDeviceGetCount, (int *), &n);
  OK(cuDeviceGetCount, (int *), &n);
  CODE(46, cuDeviceGetCount, (int *), &n);
  OK(cuDeviceGetCount, (int *), &n);
}

static void every_call_was_made(void **state) {
  (void)state;
  all_were_made("driver");
}

/* What is not simulated prints its name, once, and returns 801. */
static void unknown_calls(void **state) {
  (void)state;
  char text[512];
  FILE *f = tmpfile();
  assert_non_null(f);
  int old = dup(2);
  fflush(stderr);
  dup2(fileno(f), 2);
  int a = zeros("cuTexRefCreate"), b = zeros("cuTexRefCreate");
  fflush(stderr);
  dup2(old, 2);
  close(old);
  rewind(f);
  size_t n = fread(text, 1, sizeof text - 1, f);
  text[n] = 0;
  fclose(f);
  assert_int_equal(a, 801);
  assert_int_equal(b, 801);
  assert_string_equal(text, "simgpu: cuTexRefCreate is not simulated\n");
}

/* Three devices: contexts of their own, peer access, copies between. */
static void several_devices(void **state) {
  (void)state;
  rcuda_ctx_t *c[3];
  rcuda_module_t *m;
  rcuda_func_t *f;
  u64 p[3], from = 0;
  unsigned v = 5, sum = 0;
  for (int d = 0; d < 3; d++) {
    OK(cuDevicePrimaryCtxRetain, (rcuda_ctx_t **, int), &c[d], d);
    OK(cuCtxSetCurrent, (rcuda_ctx_t *), c[d]);
    OK(cuMemAlloc_v2, (u64 *, size_t), &p[d], 4);
    OK(cuMemsetD32_v2, (u64, unsigned, size_t), p[d], 100, 1);
    SYNC(0);
  }
  /* a kernel of device 2 on memory of device 0 */
  OK(cuModuleLoadData, (rcuda_module_t **, const void *), &m, KERNEL);
  OK(cuModuleGetFunction, (rcuda_func_t **, void *, const char *), &f, m,
     "k");
  void *params[] = {&p[0], &v};
  OK(cuCtxEnablePeerAccess, (rcuda_ctx_t *, unsigned), c[0], 0);
  OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 2, 1, 1, 0, NULL, params, NULL);
  SYNC(0);
  OK(cuMemcpyPeer, (u64, void *, u64, void *, size_t), p[1], c[1], p[0],
     c[0], 4);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), &sum, p[1], 4);
  assert_int_equal(sum, 110);
  OK(cuPointerGetAttribute, (void *, int, u64), &from,
     RCUDA_POINTER_CONTEXT, p[1]);
  assert_true((rcuda_ctx_t *)(uintptr_t)from == c[1]);
  /* without the right: a fault of that context alone */
  params[0] = &p[1];
  OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 2, 1, 1, 0, NULL, params, NULL);
  SYNC(700);
  char report[2048];
  size_t last = ((size_t(*)(void))symbol("simgpu_report_count"))();
  ((size_t(*)(size_t, char *, size_t))symbol("simgpu_report_get"))(
      last - 1, report, sizeof report);
  assert_non_null(strstr(report, "\"mem.peer\""));
  CODE(700, cuMemFree_v2, (u64), p[2]); /* broken until it ends */
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), c[0]);
  OK(cuMemFree_v2, (u64), p[0]);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), c[1]);
  OK(cuMemFree_v2, (u64), p[1]);
  OK(cuDevicePrimaryCtxReset_v2, (int), 2);
  OK(cuDevicePrimaryCtxRetain, (rcuda_ctx_t **, int), &c[2], 2);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), c[2]);
  OK(cuMemAlloc_v2, (u64 *, size_t), &p[2], 4);
  OK(cuMemFree_v2, (u64), p[2]);
  for (int d = 0; d < 3; d++)
    OK(cuDevicePrimaryCtxRelease_v2, (int), d);
}

static int setup(void **state) {
  (void)state;
  setenv("TDSL_SIM_REPORT", "/dev/null", 0);
  library = dlopen(TDSL_BUILD_DIR "/libtdsl_simgpu.so", RTLD_NOW);
  if (!library) return -1;
  read_table();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(before_init),     cmocka_unit_test(start),
      cmocka_unit_test(without_context), cmocka_unit_test(devices),
      cmocka_unit_test(contexts),        cmocka_unit_test(memory),
      cmocka_unit_test(injected),        cmocka_unit_test(unknown_calls),
      cmocka_unit_test(several_devices), cmocka_unit_test(every_call_was_made)};
  return cmocka_run_group_tests_name("simgpu.driver", tests, setup, NULL);
}
