/* Graphs built node by node: what each kind of node does, the order that the
   edges give and do not give, memory that a graph makes, and what an update
   may change. */
#include "driver_lab.h"

typedef void *vp;

static const char *const text =
    PTX_HEAD("sm_80")
    ".visible .entry add(.param .u64 p, .param .u32 v) {\n"
    ".reg .b64 %d<2>; .reg .b32 %r<3>;\n"
    "ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];\n"
    "ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, %r1;\n"
    "st.global.u32 [%d1], %r2; ret; }\n"
    ".visible .entry twice(.param .u64 p) {\n"
    ".reg .b64 %d<2>; .reg .b32 %r<3>;\n"
    "ld.param.u64 %d1, [p];\n"
    "ld.global.u32 %r2, [%d1]; shl.b32 %r2, %r2, 1;\n"
    "st.global.u32 [%d1], %r2; ret; }\n";

typedef struct bench_t {
  rcuda_ctx_t *old, *ctx;
  vp module, add, twice, stream;
  u64 p; /* 64 words of zeros */
} bench_t;

static void bench_open(bench_t *b) {
  OK(cuCtxGetCurrent, (rcuda_ctx_t **), &b->old);
  OK(cuCtxCreate_v4, (rcuda_ctx_t **, vp, unsigned, int), &b->ctx, NULL, 0,
     0);
  OK(cuModuleLoadData, (vp *, const void *), &b->module, text);
  OK(cuModuleGetFunction, (vp *, vp, const char *), &b->add, b->module,
     "add");
  OK(cuModuleGetFunction, (vp *, vp, const char *), &b->twice, b->module,
     "twice");
  OK(cuStreamCreate, (vp *, unsigned), &b->stream, 1);
  OK(cuMemAlloc_v2, (u64 *, size_t), &b->p, 256);
  OK(cuMemsetD32_v2, (u64, unsigned, size_t), b->p, 0, 64);
  SYNC(0);
  findings("");
}

static void bench_close(bench_t *b) {
  OK(cuCtxDestroy_v2, (rcuda_ctx_t *), b->ctx);
  OK(cuCtxSetCurrent, (rcuda_ctx_t *), b->old);
  findings("");
}

static unsigned word(u64 p) {
  unsigned v = 0;
  OK(cuMemcpyDtoH_v2, (vp, u64, size_t), &v, p, 4);
  return v;
}

static vp new_graph(void) {
  vp g = NULL;
  OK(cuGraphCreate, (vp *, unsigned), &g, 0);
  return g;
}

#define KERNEL_TYPES (vp *, vp, vp *, size_t, const void *)

static vp add_kernel(vp g, vp after, vp f, u64 p, unsigned v) {
  vp params[] = {&p, &v}, node = NULL;
  rcuda_kernel_node_t k = {.function = f, .grid = {1, 1, 1},
                           .block = {1, 1, 1}, .parameters = params};
  OK(cuGraphAddKernelNode_v2, KERNEL_TYPES, &node, g, &after,
     (size_t)(after != NULL), &k);
  p = 0, v = 0; /* they were copied */
  return node;
}

static vp make_exec(vp g) {
  vp x = NULL;
  OK(cuGraphInstantiateWithFlags, (vp *, vp, u64), &x, g, 0);
  return x;
}

static void launch(vp x, vp stream) {
  OK(cuGraphLaunch, (vp, vp), x, stream);
}

static int type_of(vp node) {
  int type = -1;
  OK(cuGraphNodeGetType, (vp, int *), node, &type);
  return type;
}

static void add_one(void *user) { ++*(int *)user; }

/* (0 + 5) * 2, then copied out, in a graph with every simple node. Built back
   to front: the edges give the order, not the order of adding. */
static void nodes(void **state) {
  (void)state;
  bench_t b;
  bench_open(&b);
  int calls = 0;
  unsigned host[4] = {0}, *pinned = NULL;
  OK(cuMemHostAlloc, (vp *, size_t, unsigned), (vp *)&pinned, 64, 0);
  memset(pinned, 0, 64);
  vp g = new_graph(), n[7], from[8], to[8];
  rcuda_copy3d_t c = {.src_type = RCUDA_MEMORY_DEVICE, .src_device = b.p,
                      .dst_type = RCUDA_MEMORY_HOST, .dst_host = pinned,
                      .width = 16, .height = 1, .depth = 1};
  OK(cuGraphAddMemcpyNode, (vp *, vp, vp *, size_t, const void *, vp), &n[0],
     g, NULL, 0, &c, b.ctx);
  n[1] = add_kernel(g, NULL, b.twice, b.p, 0);
  n[2] = add_kernel(g, NULL, b.add, b.p, 5);
  rcuda_memset_node_t m = {.dst = b.p, .value = 1, .element_bytes = 4,
                           .width = 4, .height = 1};
  OK(cuGraphAddMemsetNode, (vp *, vp, vp *, size_t, const void *, vp), &n[3],
     g, NULL, 0, &m, b.ctx);
  rcuda_host_node_t h = {add_one, &calls};
  OK(cuGraphAddHostNode, (vp *, vp, vp *, size_t, const void *), &n[4], g,
     &n[0], 1, &h);
  OK(cuGraphAddEmptyNode, (vp *, vp, vp *, size_t), &n[5], g, NULL, 0);
  vp before[] = {n[3], n[2], n[1]}, after[] = {n[2], n[1], n[0]};
  OK(cuGraphAddDependencies_v2, (vp, vp *, vp *, vp, size_t), g, before,
     after, NULL, 3);
  assert_int_equal(type_of(n[0]), RCUDA_NODE_MEMCPY);
  assert_int_equal(type_of(n[1]), RCUDA_NODE_KERNEL);
  assert_int_equal(type_of(n[3]), RCUDA_NODE_MEMSET);
  assert_int_equal(type_of(n[4]), RCUDA_NODE_HOST);
  assert_int_equal(type_of(n[5]), RCUDA_NODE_EMPTY);
  size_t count = 8;
  OK(cuGraphGetEdges_v2, (vp, vp *, vp *, vp, size_t *), g, from, to, NULL,
     &count);
  assert_int_equal(count, 4);
  int found = 0;
  for (size_t i = 0; i < count; i++)
    for (int k = 0; k < 3; k++)
      found += from[i] == before[k] && to[i] == after[k];
  assert_int_equal(found, 3);
  vp x = make_exec(g);
  for (int turn = 1; turn <= 2; turn++) {
    launch(x, b.stream);
    OK(cuStreamSynchronize, (vp), b.stream);
    memcpy(host, pinned, sizeof host);
    assert_int_equal(host[0], (1 + 5) * 2);
    assert_int_equal(host[1], 1);
    assert_int_equal(calls, turn);
  }
  assert_int_equal(findings("order.race"), 0);
  OK(cuMemFreeHost, (vp), pinned);
  bench_close(&b);
}

/* The same without one edge: whatever the order, it is no longer told. */
static void lost_edge(void **state) {
  (void)state;
  bench_t b;
  bench_open(&b);
  vp g = new_graph();
  add_kernel(g, NULL, b.add, b.p, 5);
  add_kernel(g, NULL, b.twice, b.p, 0);
  launch(make_exec(g), b.stream);
  SYNC(719);
  assert_int_equal(findings("order.race"), 1);
  bench_close(&b);
}

/* A graph inside, twice: copied when it was added, and its order is part of
   the outer one's. ((1 * 2 + 3) * 2 + 3) * 2 */
static void children(void **state) {
  (void)state;
  bench_t b;
  bench_open(&b);
  vp inner = new_graph(), g = new_graph(), copy = NULL, child[2], own = NULL;
  vp first = add_kernel(inner, NULL, b.twice, b.p, 0);
  add_kernel(inner, first, b.add, b.p, 3);
  OK(cuMemsetD32_v2, (u64, unsigned, size_t), b.p, 1, 1);
  SYNC(0);
  OK(cuGraphAddChildGraphNode, (vp *, vp, vp *, size_t, vp), &child[0], g,
     NULL, 0, inner);
  OK(cuGraphAddChildGraphNode, (vp *, vp, vp *, size_t, vp), &child[1], g,
     &child[0], 1, inner);
  add_kernel(inner, NULL, b.add, b.p, 100); /* too late to be seen */
  add_kernel(g, child[1], b.twice, b.p, 0);
  assert_int_equal(type_of(child[0]), RCUDA_NODE_GRAPH);
  OK(cuGraphChildGraphNodeGetGraph, (vp, vp *), child[0], &own);
  size_t count = 0;
  OK(cuGraphGetNodes, (vp, vp *, size_t *), own, NULL, &count);
  assert_int_equal(count, 2);
  OK(cuGraphClone, (vp *, vp), &copy, g);
  OK(cuGraphDestroy, (vp), inner);
  OK(cuGraphDestroy, (vp), g);
  launch(make_exec(copy), b.stream);
  OK(cuStreamSynchronize, (vp), b.stream);
  assert_int_equal(word(b.p), ((1 * 2 + 3) * 2 + 3) * 2);
  assert_int_equal(findings("order.race"), 0);
  bench_close(&b);
}

/* Events as nodes: one graph waits for what another stream recorded, and its
   own record is waited for. */
static void events(void **state) {
  (void)state;
  for (int mutant = 0; mutant < 3; mutant++) {
    bench_t b;
    bench_open(&b);
    vp g = new_graph(), in = NULL, out = NULL, other = NULL, n = NULL;
    OK(cuStreamCreate, (vp *, unsigned), &other, 1);
    OK(cuEventCreate, (vp *, unsigned), &in, 2);
    OK(cuEventCreate, (vp *, unsigned), &out, 2);
    if (mutant == 1)
      OK(cuGraphAddEmptyNode, (vp *, vp, vp *, size_t), &n, g, NULL, 0);
    else
      OK(cuGraphAddEventWaitNode, (vp *, vp, vp *, size_t, vp), &n, g, NULL,
         0, in);
    n = add_kernel(g, n, b.twice, b.p, 0);
    vp before = mutant == 2 ? NULL : n; /* 2: records too early */
    OK(cuGraphAddEventRecordNode, (vp *, vp, vp *, size_t, vp), &n, g,
       &before, (size_t)(before != NULL), out);
    assert_int_equal(type_of(n), RCUDA_NODE_RECORD);
    vp x = make_exec(g);
    unsigned v = 7;
    vp params[] = {&b.p, &v};
    OK(cuLaunchKernel, LAUNCH, b.add, 1, 1, 1, 1, 1, 1, 0, other, params,
       NULL);
    OK(cuEventRecord, (vp, vp), in, other);
    launch(x, b.stream);
    OK(cuStreamWaitEvent, (vp, vp, unsigned), other, out, 0);
    OK(cuLaunchKernel, LAUNCH, b.add, 1, 1, 1, 1, 1, 1, 0, other, params,
       NULL);
    SYNC(mutant ? 719 : 0);
    if (!mutant) assert_int_equal(word(b.p), 7 * 2 + 7);
    assert_int_equal(findings("order.race") != 0, mutant != 0);
    bench_close(&b);
  }
}

static u64 alloc_node(vp g, size_t bytes, vp *node) {
  rcuda_alloc_node_t a = {
      .props = {.type = RCUDA_MEM_PINNED,
                .location = {RCUDA_LOCATION_DEVICE, 0}},
      .bytes = bytes};
  OK(cuGraphAddMemAllocNode, (vp *, vp, vp *, size_t, void *), node, g, NULL,
     0, &a);
  return a.address;
}

/* Memory that a graph makes and ends has the same address in each launch and
   holds nothing at its start. */
static void memory_nodes(void **state) {
  (void)state;
  bench_t b;
  bench_open(&b);
  vp g = new_graph(), n = NULL, x = NULL;
  u64 t = alloc_node(g, 64, &n);
  assert_int_equal(type_of(n), RCUDA_NODE_ALLOC);
  rcuda_memset_node_t m = {.dst = t, .value = 4, .element_bytes = 4,
                           .width = 1, .height = 1};
  rcuda_copy3d_t c = {.src_type = RCUDA_MEMORY_DEVICE, .src_device = t,
                      .dst_type = RCUDA_MEMORY_DEVICE, .dst_device = b.p,
                      .width = 4, .height = 1, .depth = 1};
  OK(cuGraphAddMemsetNode, (vp *, vp, vp *, size_t, const void *, vp), &n, g,
     &n, 1, &m, b.ctx);
  n = add_kernel(g, n, b.add, t, 9);
  OK(cuGraphAddMemcpyNode, (vp *, vp, vp *, size_t, const void *, vp), &n, g,
     &n, 1, &c, b.ctx);
  OK(cuGraphAddMemFreeNode, (vp *, vp, vp *, size_t, u64), &n, g, &n, 1, t);
  assert_int_equal(type_of(n), RCUDA_NODE_FREE);
  CODE(1, cuGraphAddMemFreeNode, (vp *, vp, vp *, size_t, u64), &n, g, NULL,
       0, t); /* twice */
  CODE(1, cuGraphClone, (vp *, vp), &x, g);
  x = make_exec(g);
  for (int turn = 0; turn < 3; turn++) {
    OK(cuMemsetD32_v2, (u64, unsigned, size_t), b.p, 0, 1);
    SYNC(0);
    launch(x, b.stream);
    OK(cuStreamSynchronize, (vp), b.stream);
    assert_int_equal(word(b.p), 13);
  }
  CODE(1, cuMemcpyDtoH_v2, (vp, u64, size_t), &m, t, 4); /* it ended */
  assert_int_equal(findings("mem.freed"), 1);
  bench_close(&b);
}

/* Memory that a launch leaves: to be freed before the next, by hand or by
   the graph itself. */
static void memory_left(void **state) {
  (void)state;
  bench_t b;
  bench_open(&b);
  vp g = new_graph(), n = NULL, x = NULL, y = NULL;
  u64 t = alloc_node(g, 64, &n);
  rcuda_memset_node_t m = {.dst = t, .value = 4, .element_bytes = 4,
                           .width = 1, .height = 1};
  OK(cuGraphAddMemsetNode, (vp *, vp, vp *, size_t, const void *, vp), &n, g,
     &n, 1, &m, b.ctx);
  x = make_exec(g);
  CODE(1, cuMemFreeAsync, (u64, vp), t, b.stream); /* not made yet */
  findings("");
  launch(x, b.stream);
  CODE(1, cuGraphLaunch, (vp, vp), x, b.stream);
  OK(cuStreamSynchronize, (vp), b.stream);
  assert_int_equal(word(t), 4);
  OK(cuMemFreeAsync, (u64, vp), t, b.stream);
  launch(x, b.stream);
  OK(cuStreamSynchronize, (vp), b.stream);
  OK(cuMemFree_v2, (u64), t);
  rcuda_instantiate_t how = {.flags = RCUDA_INSTANTIATE_AUTO_FREE};
  OK(cuGraphInstantiateWithParams, (vp *, vp, void *), &y, g, &how);
  assert_int_equal(how.result, RCUDA_INSTANTIATED);
  launch(y, b.stream);
  launch(y, b.stream);
  OK(cuStreamSynchronize, (vp), b.stream);
  assert_int_equal(word(t), 4);
  OK(cuMemFree_v2, (u64), t);
  assert_int_equal(findings("order.lifetime"), 0);
  bench_close(&b);
}

/* Memory in a capture becomes nodes; what the stream would come after next
   can be asked, and extended. */
static void captured(void **state) {
  (void)state;
  bench_t b;
  bench_open(&b);
  u64 t = 0, id = 0, second = 0;
  unsigned v = 6;
  int status = -1;
  vp g = NULL, now = NULL, list[8], e = NULL;
  rcuda_node_t *const *after = NULL;
  size_t count = 9;
  vp params[] = {&t, &v};
#define INFO (vp, int *, u64 *, vp *, rcuda_node_t *const **, vp, size_t *)
  OK(cuStreamGetCaptureInfo_v3, INFO, b.stream, &status, &id, &now, &after,
     NULL, &count);
  assert_int_equal(status, RCUDA_CAPTURE_NONE);
  OK(cuEventCreate, (vp *, unsigned), &e, 2);
  OK(cuStreamBeginCapture_v2, (vp, int), b.stream, 0);
  OK(cuMemAllocAsync, (u64 *, size_t, vp), &t, 64, b.stream);
  OK(cuMemsetD32Async, (u64, unsigned, size_t, vp), t, 30, 1, b.stream);
  OK(cuLaunchKernel, LAUNCH, b.add, 1, 1, 1, 1, 1, 1, 0, b.stream, params,
     NULL);
  OK(cuStreamGetCaptureInfo_v3, INFO, b.stream, &status, &id, &now, &after,
     NULL, &count);
  assert_int_equal(status, RCUDA_CAPTURE_ACTIVE);
  assert_int_equal(count, 1);
  assert_int_equal(type_of((vp)(uintptr_t)after[0]), RCUDA_NODE_KERNEL);
  OK(cuMemcpyDtoDAsync_v2, (u64, u64, size_t, vp), b.p, t, 4, b.stream);
  OK(cuMemFreeAsync, (u64, vp), t, b.stream);
  CODE(1, cuMemFreeAsync, (u64, vp), b.p, b.stream); /* not the capture's */
  OK(cuEventRecordWithFlags, (vp, vp, unsigned), e, b.stream,
     RCUDA_EVENT_EXTERNAL);
  OK(cuStreamEndCapture, (vp, vp *), b.stream, &g);
  assert_ptr_equal(g, now);
  count = 8;
  OK(cuGraphGetNodes, (vp, vp *, size_t *), g, list, &count);
  static const int types[] = {RCUDA_NODE_ALLOC, RCUDA_NODE_MEMSET,
                              RCUDA_NODE_KERNEL, RCUDA_NODE_MEMCPY,
                              RCUDA_NODE_FREE, RCUDA_NODE_RECORD};
  assert_int_equal(count, 6);
  for (size_t i = 0; i < count; i++)
    assert_int_equal(type_of(list[i]), types[i]);
  launch(make_exec(g), b.stream);
  OK(cuEventSynchronize, (vp), e); /* the graph's record */
  assert_int_equal(word(b.p), 36);
  OK(cuStreamBeginCapture_v2, (vp, int), b.stream, 0);
  OK(cuStreamGetCaptureInfo_v3, INFO, b.stream, &status, &second, &now,
     &after, NULL, &count);
  assert_true(second != id);
  assert_int_equal(count, 0);
  OK(cuStreamEndCapture, (vp, vp *), b.stream, &g);
  bench_close(&b);
}

/* An update takes over parameters, and refuses another shape. */
static void update(void **state) {
  (void)state;
  bench_t b;
  bench_open(&b);
  vp g = new_graph(), h = new_graph(), k = new_graph(), n;
  rcuda_update_info_t info;
  n = add_kernel(g, NULL, b.add, b.p, 5);
  add_kernel(g, n, b.twice, b.p, 0);
  vp x = make_exec(g);
  n = add_kernel(h, NULL, b.add, b.p, 8);
  add_kernel(h, n, b.add, b.p, 1);
  OK(cuGraphExecUpdate_v2, (vp, vp, void *), x, h, &info);
  assert_int_equal(info.result, RCUDA_UPDATE_SUCCESS);
  launch(x, b.stream);
  OK(cuStreamSynchronize, (vp), b.stream);
  assert_int_equal(word(b.p), 9);
  /* another edge, another kind, another count */
  add_kernel(k, NULL, b.add, b.p, 8);
  vp late = add_kernel(k, NULL, b.add, b.p, 1);
  CODE(910, cuGraphExecUpdate_v2, (vp, vp, void *), x, k, &info);
  assert_int_equal(info.result, RCUDA_UPDATE_TOPOLOGY_CHANGED);
  assert_ptr_equal(info.node, late);
  OK(cuGraphAddEmptyNode, (vp *, vp, vp *, size_t), &n, h, NULL, 0);
  CODE(910, cuGraphExecUpdate_v2, (vp, vp, void *), x, h, &info);
  assert_int_equal(info.result, RCUDA_UPDATE_TOPOLOGY_CHANGED);
  vp kind = new_graph();
  OK(cuGraphAddEmptyNode, (vp *, vp, vp *, size_t), &n, kind, NULL, 0);
  add_kernel(kind, n, b.add, b.p, 1);
  CODE(910, cuGraphExecUpdate_v2, (vp, vp, void *), x, kind, &info);
  assert_int_equal(info.result, RCUDA_UPDATE_TYPE_CHANGED);
  launch(x, b.stream); /* as it was */
  OK(cuStreamSynchronize, (vp), b.stream);
  assert_int_equal(word(b.p), 18);
  bench_close(&b);
}

static void codes(void **state) {
  (void)state;
  bench_t b;
  bench_open(&b);
  vp g = new_graph(), h = new_graph(), n = NULL, m = NULL, dead = new_graph();
  vp foreign = add_kernel(h, NULL, b.add, b.p, 1), twice[2];
  vp params[] = {&b.p, &n};
  rcuda_kernel_node_t k = {.function = b.add, .grid = {1, 1, 1},
                           .block = {1, 1, 1}, .parameters = params};
  OK(cuGraphDestroy, (vp), dead);
  OK(cuGraphAddKernelNode_v2, KERNEL_TYPES, &n, g, NULL, 0, &k);
  CODE(1, cuGraphAddKernelNode_v2, KERNEL_TYPES, &m, g, &foreign, 1, &k);
  twice[0] = twice[1] = n;
  CODE(1, cuGraphAddKernelNode_v2, KERNEL_TYPES, &m, g, twice, 2, &k);
  k.block[0] = 2000;
  CODE(1, cuGraphAddKernelNode_v2, KERNEL_TYPES, &m, g, NULL, 0, &k);
  k.function = b.module;
  CODE(400, cuGraphAddKernelNode_v2, KERNEL_TYPES, &m, g, NULL, 0, &k);
  CODE(400, cuGraphAddEmptyNode, (vp *, vp, vp *, size_t), &m, dead, NULL,
       0);
  CODE(1, cuGraphAddEmptyNode, (vp *, vp, vp *, size_t), NULL, g, NULL, 0);
  rcuda_copy3d_t c = {.src_type = 3, .width = 4, .height = 1, .depth = 1};
  CODE(1, cuGraphAddMemcpyNode, (vp *, vp, vp *, size_t, const void *, vp),
       &m, g, NULL, 0, &c, b.ctx);
  rcuda_memset_node_t s = {.dst = b.p, .element_bytes = 4, .width = 65,
                           .height = 1};
  CODE(1, cuGraphAddMemsetNode, (vp *, vp, vp *, size_t, const void *, vp),
       &m, g, NULL, 0, &s, b.ctx); /* beyond the allocation */
  s.width = 1;
  CODE(201, cuGraphAddMemsetNode, (vp *, vp, vp *, size_t, const void *, vp),
       &m, g, NULL, 0, &s, b.stream);
  rcuda_host_node_t host = {NULL, NULL};
  CODE(1, cuGraphAddHostNode, (vp *, vp, vp *, size_t, const void *), &m, g,
       NULL, 0, &host);
  CODE(400, cuGraphAddChildGraphNode, (vp *, vp, vp *, size_t, vp), &m, g,
       NULL, 0, dead);
  CODE(1, cuGraphAddChildGraphNode, (vp *, vp, vp *, size_t, vp), &m, g,
       NULL, 0, g);
  CODE(1, cuGraphChildGraphNodeGetGraph, (vp, vp *), n, &m);
  CODE(400, cuGraphAddEventRecordNode, (vp *, vp, vp *, size_t, vp), &m, g,
       NULL, 0, b.stream);
  CODE(400, cuGraphAddEventWaitNode, (vp *, vp, vp *, size_t, vp), &m, g,
       NULL, 0, b.stream);
  rcuda_alloc_node_t a = {.bytes = 0};
  CODE(1, cuGraphAddMemAllocNode, (vp *, vp, vp *, size_t, void *), &m, g,
       NULL, 0, &a);
  CODE(1, cuGraphAddMemFreeNode, (vp *, vp, vp *, size_t, u64), &m, g, NULL,
       0, b.p);
  /* a circle, an edge twice, edges of other kinds */
  OK(cuGraphAddEmptyNode, (vp *, vp, vp *, size_t), &m, g, &n, 1);
  CODE(1, cuGraphAddDependencies_v2, (vp, vp *, vp *, vp, size_t), g, &m, &n,
       NULL, 1);
  CODE(1, cuGraphAddDependencies_v2, (vp, vp *, vp *, vp, size_t), g, &n, &m,
       NULL, 1);
  CODE(1, cuGraphGetEdges_v2, (vp, vp *, vp *, vp, size_t *), g, NULL, NULL,
       NULL, NULL);
  CODE(400, cuGraphClone, (vp *, vp), &m, dead);
  CODE(1, cuGraphInstantiateWithParams, (vp *, vp, void *), &m, g, NULL);
  CODE(1, cuStreamGetCaptureInfo_v3, INFO, b.stream, NULL, NULL, NULL, NULL,
       NULL, NULL);
  bench_close(&b);
  all_were_made("graphs");
}

static int setup(void **state) {
  (void)state;
  return driver_setup("model:h100");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nodes),        cmocka_unit_test(lost_edge),
      cmocka_unit_test(children),     cmocka_unit_test(events),
      cmocka_unit_test(memory_nodes), cmocka_unit_test(memory_left),
      cmocka_unit_test(captured),     cmocka_unit_test(update),
      cmocka_unit_test(codes)};
  return cmocka_run_group_tests_name("simgpu.graphs", tests, setup, NULL);
}
