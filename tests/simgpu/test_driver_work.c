/* Modules, launches, streams, events and graphs of the driver, beside
   test_driver.c: every call succeeds somewhere here and fails somewhere. */
#include "driver_lab.h"

static void modules(void **state) {
  (void)state;
  rcuda_module_t *m = NULL, *other = NULL;
  rcuda_func_t *f = NULL;
  u64 p = 0;
  size_t bytes = 0, offset = 9;
  int n = 0;
  char log[256] = "", elf[64] = "\177ELF\2\1\1";
  int options[] = {RCUDA_JIT_ERROR_LOG, RCUDA_JIT_ERROR_LOG_BYTES,
                   RCUDA_JIT_INFO_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log, NULL};
  typedef const void *cp;
  OK(cuModuleLoadData, (rcuda_module_t **, cp), &m, KERNEL);
  OK(cuModuleLoadDataEx, (rcuda_module_t **, cp, unsigned, int *, void **),
     &other, KERNEL, 3, options, values);
  CODE(209, cuModuleLoadData, (rcuda_module_t **, cp), &other, elf);
  for (size_t k = 4; k < sizeof elf; k++) elf[k] = (char)(k * 37);
  CODE(209, cuModuleLoadData, (rcuda_module_t **, cp), &other, elf);
  values[1] = (void *)(uintptr_t)sizeof log; /* it holds what was used */
  CODE(218, cuModuleLoadDataEx,
       (rcuda_module_t **, cp, unsigned, int *, void **), &other,
       PTX_HEAD("sm_80") "\n.entry k() { frob.u32 %r1; }", 2, options,
       values);
  if (!strstr(log, "line 5")) fail_msg("%s", log);
  CODE(222, cuModuleLoadData, (rcuda_module_t **, cp), &other,
       ".version 99.0\n.target sm_80\n.address_size 64\n");
  CODE(209, cuModuleLoadData, (rcuda_module_t **, cp), &other,
       PTX_HEAD("sm_100"));
  CODE(209, cuModuleLoadData, (rcuda_module_t **, cp), &other,
       PTX_HEAD("sm_80a"));
  CODE(1, cuModuleLoadData, (rcuda_module_t **, cp), NULL, KERNEL);
  OK(cuModuleGetFunction, (rcuda_func_t **, void *, const char *), &f, m,
     "k");
  CODE(500, cuModuleGetFunction, (rcuda_func_t **, void *, const char *), &f,
       m, "l");
  CODE(400, cuModuleGetFunction, (rcuda_func_t **, void *, const char *), &f,
       f, "k");
  OK(cuModuleGetGlobal_v2, (u64 *, size_t *, void *, const char *), &p,
     &bytes, m, "word");
  assert_int_equal(bytes, 4);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), &n, p, 4);
  assert_int_equal(n, 41);
  CODE(500, cuModuleGetGlobal_v2, (u64 *, size_t *, void *, const char *),
       &p, &bytes, m, "k");
  OK(cuFuncGetAttribute, (int *, int, void *), &n, RCUDA_FUNC_SHARED_BYTES,
     f);
  assert_int_equal(n, 128);
  OK(cuFuncGetAttribute, (int *, int, void *), &n, RCUDA_FUNC_MAX_THREADS,
     f);
  assert_int_equal(n, 64);
  CODE(1, cuFuncGetAttribute, (int *, int, void *), &n, 99, f);
  CODE(400, cuFuncGetAttribute, (int *, int, void *), &n, 0, m);
  OK(cuFuncSetAttribute, (void *, int, int), f,
     RCUDA_FUNC_MAX_DYNAMIC_SHARED, 100000);
  CODE(1, cuFuncSetAttribute, (void *, int, int), f,
       RCUDA_FUNC_MAX_DYNAMIC_SHARED, 300000);
  CODE(1, cuFuncSetAttribute, (void *, int, int), f, 0, 3);
  OK(cuFuncSetCacheConfig, (void *, int), f, 1);
  CODE(400, cuFuncSetCacheConfig, (void *, int), m, 1);
  OK(cuFuncGetModule, (rcuda_module_t **, void *), &other, f);
  assert_ptr_equal(other, m);
  CODE(1, cuFuncGetModule, (rcuda_module_t **, void *), NULL, f);
  OK(cuFuncGetParamInfo, (void *, size_t, size_t *, size_t *), f, 1, &offset,
     &bytes);
  assert_int_equal(offset, 8);
  assert_int_equal(bytes, 4);
  CODE(1, cuFuncGetParamInfo, (void *, size_t, size_t *, size_t *), f, 2,
       &offset, &bytes);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor,
     (int *, void *, int, size_t), &n, f, 64, 0);
  assert_int_equal(n, 32);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
     (int *, void *, int, size_t, unsigned), &n, f, 64, 100000, 0);
  assert_int_equal(n, 2);
  OK(cuOccupancyAvailableDynamicSMemPerBlock, (size_t *, void *, int, int),
     &bytes, f, 2, 64);
  assert_true(bytes > 100000 && bytes < 116736);
  CODE(1, cuOccupancyMaxActiveBlocksPerMultiprocessor,
       (int *, void *, int, size_t), &n, f, 0, 0);
  CODE(1, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
       (int *, void *, int, size_t, unsigned), &n, f, 64, 0, 9);
  CODE(400, cuOccupancyAvailableDynamicSMemPerBlock,
       (size_t *, void *, int, int), &bytes, m, 2, 64);
  OK(cuModuleUnload, (void *), m);
  CODE(400, cuModuleUnload, (void *), m);
  CODE(400, cuFuncGetAttribute, (int *, int, void *), &n, 0, f);
}

#define COOPERATIVE                                                           \
  (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
   unsigned, void *, void **)

static void count_call(void *user) { ++*(int *)user; }

static void launches(void **state) {
  (void)state;
  rcuda_module_t *m = NULL;
  rcuda_func_t *f = NULL;
  u64 p = 0;
  unsigned v = 2, sum = 0;
  int calls = 0;
  OK(cuModuleLoadData, (rcuda_module_t **, const void *), &m, KERNEL);
  OK(cuModuleGetFunction, (rcuda_func_t **, void *, const char *), &f, m,
     "k");
  OK(cuMemAlloc_v2, (u64 *, size_t), &p, 4);
  OK(cuMemsetD32_v2, (u64, unsigned, size_t), p, 0, 1);
  void *params[] = {&p, &v};
  struct { u64 p; unsigned v; } packed = {p, 3};
  size_t size = sizeof packed;
  void *extra[] = {RCUDA_PARAM_BUFFER, &packed, RCUDA_PARAM_BYTES, &size,
                   RCUDA_PARAM_END};
  OK(cuLaunchKernel, LAUNCH, f, 2, 1, 1, 32, 2, 1, 0, NULL, params, NULL);
  OK(cuLaunchKernel, LAUNCH, f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra);
  OK(cuLaunchCooperativeKernel, COOPERATIVE, f, 2, 1, 1, 4, 1, 1, 0, NULL,
     params);
  rcuda_launch_config_t c = {{1, 1, 1}, {8, 1, 1}, 0, NULL, NULL, 0};
  OK(cuLaunchKernelEx, (const void *, void *, void **, void **), &c, f,
     params, NULL);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), &sum, p, 4);
  assert_int_equal(sum, 2 * 128 + 3 + 2 * 8 + 2 * 8);
  /* geometry and resources */
  CODE(1, cuLaunchKernel, LAUNCH, f, 0, 1, 1, 32, 1, 1, 0, NULL, params,
       NULL);
  CODE(1, cuLaunchKernel, LAUNCH, f, 1, 1, 1, 65, 1, 1, 0, NULL, params,
       NULL);
  CODE(1, cuLaunchKernel, LAUNCH, f, 1, 65536, 1, 32, 1, 1, 0, NULL, params,
       NULL);
  CODE(1, cuLaunchKernel, LAUNCH, f, 1, 1, 1, 32, 1, 1, 60000, NULL, params,
       NULL); /* without opting in */
  CODE(1, cuLaunchKernel, LAUNCH, f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
  CODE(400, cuLaunchKernel, LAUNCH, m, 1, 1, 1, 32, 1, 1, 0, NULL, params,
       NULL);
  CODE(400, cuLaunchKernel, LAUNCH, f, 1, 1, 1, 32, 1, 1, 0, params, params,
       NULL);
  CODE(720, cuLaunchCooperativeKernel, COOPERATIVE, f, 100000, 1, 1, 32, 1,
       1, 0, NULL, params);
  rcuda_launch_attr_t cluster = {.id = RCUDA_LAUNCH_CLUSTER,
                                 .value.cluster = {16, 1, 1}};
  c.attributes = &cluster;
  c.attribute_count = 1;
  c.grid[0] = 16;
  CODE(912, cuLaunchKernelEx, (const void *, void *, void **, void **), &c,
       f, params, NULL); /* above the portable size */
  CODE(1, cuLaunchKernelEx, (const void *, void *, void **, void **), NULL,
       f, params, NULL);
  /* an event of the launch is recorded with it; hints are taken; what is not
     known is refused */
  rcuda_event_t *event = NULL;
  OK(cuEventCreate, (rcuda_event_t **, unsigned), &event, 2);
  rcuda_launch_attr_t more[] = {
      {.id = RCUDA_LAUNCH_PROGRAMMATIC_EVENT, .value.event.event = event},
      {.id = RCUDA_LAUNCH_PRIORITY, .value.number = -2},
      {.id = RCUDA_LAUNCH_CARVEOUT, .value.number = 50}};
  c.attributes = more;
  c.attribute_count = 3;
  c.grid[0] = 1;
  OK(cuLaunchKernelEx, (const void *, void *, void **, void **), &c, f,
     params, NULL);
  OK(cuEventSynchronize, (void *), event);
  OK(cuMemcpyDtoH_v2, (void *, u64, size_t), &sum, p, 4);
  assert_int_equal(sum, 2 * 128 + 3 + 2 * 8 + 2 * 8 + 2 * 8);
  more[2].value.number = 101;
  CODE(1, cuLaunchKernelEx, (const void *, void *, void **, void **), &c, f,
       params, NULL);
  more[2].id = 77;
  CODE(801, cuLaunchKernelEx, (const void *, void *, void **, void **), &c,
       f, params, NULL);
  OK(cuEventDestroy_v2, (void *), event);
  more[2].id = RCUDA_LAUNCH_IGNORE;
  CODE(400, cuLaunchKernelEx, (const void *, void *, void **, void **), &c,
       f, params, NULL);
  OK(cuLaunchHostFunc, (void *, void (*)(void *), void *), NULL, count_call,
     &calls);
  CODE(1, cuLaunchHostFunc, (void *, void (*)(void *), void *), NULL, NULL,
       NULL);
  SYNC(0);
  assert_int_equal(calls, 1);
  OK(cuMemFree_v2, (u64), p);
}

static void streams(void **state) {
  (void)state;
  rcuda_stream_t *s = NULL, *t = NULL;
  rcuda_event_t *e = NULL, *g = NULL;
  rcuda_ctx_t *c = NULL;
  rcuda_graph_t *graph = NULL;
  rcuda_exec_t *exec = NULL;
  rcuda_node_t *node = NULL;
  rcuda_kernel_node_t kernel = {0};
  rcuda_update_info_t info;
  unsigned flags = 9;
  unsigned long long id = 0, second = 0;
  int n = 9, mode = RCUDA_CAPTURE_RELAXED;
  size_t count = 1;
  float ms = 0;
  OK(cuStreamCreate, (rcuda_stream_t **, unsigned), &s, 1);
  CODE(1, cuStreamCreate, (rcuda_stream_t **, unsigned), &s, 8);
  OK(cuStreamCreateWithPriority, (rcuda_stream_t **, unsigned, int), &t, 0,
     -99);
  CODE(1, cuStreamCreateWithPriority, (rcuda_stream_t **, unsigned, int),
       NULL, 0, 0);
  OK(cuStreamGetPriority, (void *, int *), t, &n);
  assert_int_equal(n, -5); /* clamped */
  CODE(1, cuStreamGetPriority, (void *, int *), t, NULL);
  OK(cuStreamGetFlags, (void *, unsigned *), s, &flags);
  assert_int_equal(flags, 1);
  CODE(400, cuStreamGetFlags, (void *, unsigned *), &flags, &flags);
  OK(cuStreamGetId, (void *, unsigned long long *), s, &id);
  OK(cuStreamGetId, (void *, unsigned long long *), t, &second);
  assert_true(id != second);
  CODE(1, cuStreamGetId, (void *, unsigned long long *), s, NULL);
  OK(cuStreamGetCtx, (void *, rcuda_ctx_t **), s, &c);
  assert_non_null(c);
  CODE(1, cuStreamGetCtx, (void *, rcuda_ctx_t **), s, NULL);
  OK(cuStreamQuery, (void *), s);
  CODE(400, cuStreamQuery, (void *), &n);
  OK(cuStreamSynchronize, (void *), NULL);
  CODE(400, cuStreamSynchronize, (void *), &n);
  OK(cuEventCreate, (rcuda_event_t **, unsigned), &e, 0);
  OK(cuEventCreate, (rcuda_event_t **, unsigned), &g, 2);
  CODE(1, cuEventCreate, (rcuda_event_t **, unsigned), &e, 64);
  OK(cuEventRecord, (void *, void *), e, s);
  OK(cuEventRecordWithFlags, (void *, void *, unsigned), g, s, 0);
  CODE(400, cuEventRecord, (void *, void *), s, s);
  CODE(1, cuEventRecordWithFlags, (void *, void *, unsigned), e, s, 8);
  OK(cuStreamWaitEvent, (void *, void *, unsigned), t, e, 0);
  CODE(400, cuStreamWaitEvent, (void *, void *, unsigned), t, s, 0);
  OK(cuEventSynchronize, (void *), e);
  OK(cuEventQuery, (void *), e);
  CODE(400, cuEventSynchronize, (void *), s);
  CODE(400, cuEventQuery, (void *), s);
  OK(cuEventElapsedTime_v2, (float *, void *, void *), &ms, e, e);
  CODE(400, cuEventElapsedTime_v2, (float *, void *, void *), &ms, e, g);
  OK(cuEventDestroy_v2, (void *), g);
  CODE(400, cuEventDestroy_v2, (void *), g);
  /* captures and graphs */
  OK(cuThreadExchangeStreamCaptureMode, (int *), &mode);
  assert_int_equal(mode, RCUDA_CAPTURE_GLOBAL);
  OK(cuThreadExchangeStreamCaptureMode, (int *), &mode);
  assert_int_equal(mode, RCUDA_CAPTURE_RELAXED);
  mode = 5;
  CODE(1, cuThreadExchangeStreamCaptureMode, (int *), &mode);
  OK(cuStreamBeginCapture_v2, (void *, int), s, 0);
  CODE(401, cuStreamBeginCapture_v2, (void *, int), s, 0);
  OK(cuStreamIsCapturing, (void *, int *), s, &n);
  assert_int_equal(n, RCUDA_CAPTURE_ACTIVE);
  CODE(1, cuStreamIsCapturing, (void *, int *), s, NULL);
  OK(cuLaunchHostFunc, (void *, void (*)(void *), void *), s, count_call,
     &n);
  OK(cuStreamEndCapture, (void *, rcuda_graph_t **), s, &graph);
  CODE(401, cuStreamEndCapture, (void *, rcuda_graph_t **), s, &graph);
  count = 1;
  OK(cuGraphGetNodes, (void *, rcuda_node_t **, size_t *), graph, &node,
     &count);
  assert_int_equal(count, 1);
  CODE(1, cuGraphGetNodes, (void *, rcuda_node_t **, size_t *), graph, &node,
       NULL);
  OK(cuGraphNodeGetType, (void *, int *), node, &n);
  assert_int_equal(n, RCUDA_NODE_HOST);
  CODE(400, cuGraphNodeGetType, (void *, int *), graph, &n);
  CODE(1, cuGraphKernelNodeGetParams_v2, (void *, void *), node, &kernel);
  OK(cuGraphInstantiateWithFlags, (rcuda_exec_t **, void *, u64), &exec,
     graph, 0);
  CODE(400, cuGraphInstantiateWithFlags, (rcuda_exec_t **, void *, u64),
       &exec, node, 0);
  n = 0;
  OK(cuGraphUpload, (void *, void *), exec, s);
  CODE(400, cuGraphUpload, (void *, void *), graph, s);
  OK(cuGraphLaunch, (void *, void *), exec, s);
  OK(cuGraphLaunch, (void *, void *), exec, NULL);
  CODE(400, cuGraphLaunch, (void *, void *), graph, s);
  SYNC(0);
  assert_int_equal(n, 2);
  OK(cuGraphExecUpdate_v2, (void *, void *, void *), exec, graph, &info);
  CODE(1, cuGraphExecUpdate_v2, (void *, void *, void *), exec, graph, NULL);
  CODE(1, cuGraphExecKernelNodeSetParams_v2, (void *, void *, void *), exec,
       node, &kernel);
  OK(cuGraphExecDestroy, (void *), exec);
  CODE(400, cuGraphExecDestroy, (void *), exec);
  OK(cuGraphDestroy, (void *), graph);
  CODE(400, cuGraphDestroy, (void *), graph);
  OK(cuGraphCreate, (rcuda_graph_t **, unsigned), &graph, 0);
  CODE(1, cuGraphCreate, (rcuda_graph_t **, unsigned), &graph, 1);
  OK(cuGraphDestroy, (void *), graph);
  /* the same with a kernel */
  rcuda_module_t *m = NULL;
  rcuda_func_t *f = NULL;
  u64 p = 0;
  unsigned v = 2;
  void *params[] = {&p, &v};
  OK(cuMemAlloc_v2, (u64 *, size_t), &p, 4);
  OK(cuModuleLoadData, (rcuda_module_t **, const void *), &m, KERNEL);
  OK(cuModuleGetFunction, (rcuda_func_t **, void *, const char *), &f, m,
     "k");
  OK(cuStreamBeginCapture_v2, (void *, int), t, 1);
  OK(cuLaunchKernel, LAUNCH, f, 3, 1, 1, 32, 1, 1, 0, t, params, NULL);
  OK(cuStreamEndCapture, (void *, rcuda_graph_t **), t, &graph);
  OK(cuGraphInstantiateWithFlags, (rcuda_exec_t **, void *, u64), &exec,
     graph, 0);
  count = 1;
  OK(cuGraphGetNodes, (void *, rcuda_node_t **, size_t *), graph, &node,
     &count);
  OK(cuGraphKernelNodeGetParams_v2, (void *, void *), node, &kernel);
  assert_int_equal(kernel.grid[0], 3);
  assert_ptr_equal(kernel.function, f);
  kernel.parameters = params;
  OK(cuGraphExecKernelNodeSetParams_v2, (void *, void *, void *), exec, node,
     &kernel);
  OK(cuGraphExecDestroy, (void *), exec);
  OK(cuGraphDestroy, (void *), graph);
  OK(cuMemFree_v2, (u64), p);
  OK(cuStreamDestroy_v2, (void *), t);
  OK(cuStreamDestroy_v2, (void *), s);
  CODE(400, cuStreamDestroy_v2, (void *), s);
  CODE(400, cuStreamQuery, (void *), s); /* use after destroy is seen */
  OK(cuEventDestroy_v2, (void *), e);
}

static void without_context(void **state) {
  (void)state;
  rcuda_ctx_t *ctx = NULL;
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &ctx);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), NULL);
  refused_without_context();
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), ctx);
}

static void every_call_was_made(void **state) {
  (void)state;
  all_were_made("driver_work");
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100,mem:1073741824");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_context), cmocka_unit_test(modules),
      cmocka_unit_test(launches),        cmocka_unit_test(streams),
      cmocka_unit_test(every_call_was_made)};
  return cmocka_run_group_tests_name("simgpu.driver_work", tests, setup,
                                     NULL);
}
