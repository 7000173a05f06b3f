/* Exported cu* functions: nodes added to a graph one by one. Parameters are
   copied when they are given. */
#include "runtime/simgpu/sim_graph.h"

#include <stdlib.h>

/* A launch from a node's parameters. */
int sim_node_launch(const rcuda_kernel_node_t *p, sim_op_run_t *op) {
  memset(op, 0, sizeof *op);
  if (!p) return RCUDA_INVALID_VALUE;
  sim_func_t *f = sim_func_of(p->function ? (const void *)p->function
                                          : (const void *)p->kernel);
  const sim_module_t *m =
      f ? sim_handle_number(SIM_TYPE_MODULE, f->module) : NULL;
  if (!m) return RCUDA_INVALID_HANDLE;
  rcuda_launch_config_t c = {.shared_bytes = p->shared_bytes};
  memcpy(c.grid, p->grid, sizeof c.grid);
  memcpy(c.block, p->block, sizeof c.block);
  op->name = "cuGraphLaunch";
  op->ctx = m->ctx;
  int code = sim_prepare_launch(f, &c, p->parameters, p->extra, op);
  if (code) sim_op_free(op);
  return code;
}

/* Adds a node for the operation, whose result code says whether there is
   one; leaves the call. */
static int add(sim_graph_t *g, rcuda_node_t **out, rcuda_node_t *const *after,
               size_t count, int code, sim_op_run_t *op) {
  sim_nodes_t list = {0};
  if (!code && !out) code = RCUDA_INVALID_VALUE;
  if (!code) code = sim_graph_after(g, after, count, &list);
  if (code) {
    sim_op_free(op);
  } else {
    op->name = "cuGraphLaunch";
    const sim_node_t *n = sim_graph_add(g, op, &list, true);
    if (n)
      *out = (rcuda_node_t *)(uintptr_t)n->handle;
    else
      code = RCUDA_OUT_OF_MEMORY;
  }
  sim_nodes_free(&list);
  return sim_leave(code);
}

SIM_EXPORT int cuGraphAddKernelNode_v2(rcuda_node_t **out,
                                       rcuda_graph_t *graph,
                                       rcuda_node_t *const *after,
                                       size_t count,
                                       const rcuda_kernel_node_t *params) {
  SIM_ARGS(out, graph, after, count, params);
  sim_graph_t *g;
  sim_op_run_t op = {.kind = SIM_RUN_EMPTY};
  int code = sim_with_graph("cuGraphAddKernelNode_v2", graph, &g);
  if (code) return code;
  return add(g, out, after, count, sim_node_launch(params, &op), &op);
}

SIM_EXPORT int cuGraphAddMemcpyNode(rcuda_node_t **out, rcuda_graph_t *graph,
                                    rcuda_node_t *const *after, size_t count,
                                    const rcuda_copy3d_t *params,
                                    rcuda_ctx_t *context) {
  SIM_ARGS(out, graph, after, count, params, context);
  sim_graph_t *g;
  sim_op_run_t op = {.kind = SIM_RUN_EMPTY};
  int code = sim_with_graph("cuGraphAddMemcpyNode", graph, &g);
  if (code) return code;
  const sim_ctx_t *ctx = sim_handle_get(SIM_TYPE_CTX, context);
  if (!params)
    code = RCUDA_INVALID_VALUE;
  else if (!ctx)
    code = RCUDA_INVALID_CONTEXT;
  else if (!params->width || !params->height || !params->depth)
    code = RCUDA_INVALID_VALUE;
  else
    code = sim_copy_op("cuGraphAddMemcpyNode", params, &op);
  if (!code) code = sim_check_ranges(ctx, &op, true);
  if (!code) op.ctx = ctx->handle;
  return add(g, out, after, count, code, &op);
}

SIM_EXPORT int cuGraphAddMemsetNode(rcuda_node_t **out, rcuda_graph_t *graph,
                                    rcuda_node_t *const *after, size_t count,
                                    const rcuda_memset_node_t *params,
                                    rcuda_ctx_t *context) {
  SIM_ARGS(out, graph, after, count, params, context);
  sim_graph_t *g;
  sim_op_run_t op = {.kind = SIM_RUN_EMPTY};
  int code = sim_with_graph("cuGraphAddMemsetNode", graph, &g);
  if (code) return code;
  const sim_ctx_t *ctx = sim_handle_get(SIM_TYPE_CTX, context);
  const rcuda_memset_node_t *p = params;
  if (!p)
    code = RCUDA_INVALID_VALUE;
  else if (!ctx)
    code = RCUDA_INVALID_CONTEXT;
  else if (!p->width || !p->height ||
           (p->element_bytes != 1 && p->element_bytes != 2 &&
            p->element_bytes != 4))
    code = RCUDA_INVALID_VALUE;
  else
    code = sim_fill_op("cuGraphAddMemsetNode", p->dst, p->pitch, p->value,
                       p->element_bytes, p->width, p->height, &op);
  if (!code) code = sim_check_ranges(ctx, &op, true);
  if (!code) op.ctx = ctx->handle;
  return add(g, out, after, count, code, &op);
}

SIM_EXPORT int cuGraphAddHostNode(rcuda_node_t **out, rcuda_graph_t *graph,
                                  rcuda_node_t *const *after, size_t count,
                                  const rcuda_host_node_t *params) {
  SIM_ARGS(out, graph, after, count, params);
  sim_graph_t *g;
  int code = sim_with_graph("cuGraphAddHostNode", graph, &g);
  if (code) return code;
  sim_op_run_t op = {.kind = SIM_RUN_HOST};
  if (!params || !params->fn) {
    code = RCUDA_INVALID_VALUE;
  } else {
    op.host = params->fn;
    op.user = params->user;
  }
  return add(g, out, after, count, code, &op);
}

SIM_EXPORT int cuGraphAddEmptyNode(rcuda_node_t **out, rcuda_graph_t *graph,
                                   rcuda_node_t *const *after,
                                   size_t count) {
  SIM_ARGS(out, graph, after, count);
  sim_graph_t *g;
  int code = sim_with_graph("cuGraphAddEmptyNode", graph, &g);
  if (code) return code;
  sim_op_run_t op = {.kind = SIM_RUN_EMPTY};
  return add(g, out, after, count, 0, &op);
}

/* The child is copied: later changes to it are not seen. */
SIM_EXPORT int cuGraphAddChildGraphNode(rcuda_node_t **out,
                                        rcuda_graph_t *graph,
                                        rcuda_node_t *const *after,
                                        size_t count, rcuda_graph_t *child) {
  SIM_ARGS(out, graph, after, count, child);
  sim_graph_t *g, *copy;
  int code = sim_with_graph("cuGraphAddChildGraphNode", graph, &g);
  if (code) return code;
  const sim_graph_t *from = sim_handle_get(SIM_TYPE_GRAPH, child);
  sim_op_run_t op = {.kind = SIM_RUN_CHILD};
  if (!from || from->is_capturing || from == g)
    code = from == g ? RCUDA_INVALID_VALUE : RCUDA_INVALID_HANDLE;
  else
    code = sim_graph_copy(from, &copy);
  if (!code) op.graph = copy->handle;
  return add(g, out, after, count, code, &op);
}

SIM_EXPORT int cuGraphChildGraphNodeGetGraph(rcuda_node_t *node,
                                             rcuda_graph_t **out) {
  SIM_ARGS(node, out);
  int code = sim_enter("cuGraphChildGraphNodeGetGraph", true);
  if (code) return code;
  const sim_graph_t *g = sim_handle_get(SIM_TYPE_NODE, node);
  if (!g) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  for (uint32_t i = 0; i < g->count; i++) {
    const sim_node_t *n = g->nodes[i];
    if (n->handle != (uint64_t)(uintptr_t)node ||
        n->op.kind != SIM_RUN_CHILD)
      continue;
    *out = (rcuda_graph_t *)(uintptr_t)n->op.graph;
    return sim_leave(0);
  }
  return sim_leave(RCUDA_INVALID_VALUE);
}

static int event_node(const char *name, sim_run_kind_t kind,
                      rcuda_node_t **out, rcuda_graph_t *graph,
                      rcuda_node_t *const *after, size_t count,
                      rcuda_event_t *event) {
  sim_graph_t *g;
  int code = sim_with_graph(name, graph, &g);
  if (code) return code;
  const sim_event_t *e = sim_handle_get(SIM_TYPE_EVENT, event);
  sim_op_run_t op = {.kind = kind, .event = e ? e->handle : 0};
  return add(g, out, after, count, e ? 0 : RCUDA_INVALID_HANDLE, &op);
}

SIM_EXPORT int cuGraphAddEventRecordNode(rcuda_node_t **out,
                                         rcuda_graph_t *graph,
                                         rcuda_node_t *const *after,
                                         size_t count,
                                         rcuda_event_t *event) {
  SIM_ARGS(out, graph, after, count, event);
  return event_node("cuGraphAddEventRecordNode", SIM_RUN_EVENT, out, graph,
                    after, count, event);
}

SIM_EXPORT int cuGraphAddEventWaitNode(rcuda_node_t **out,
                                       rcuda_graph_t *graph,
                                       rcuda_node_t *const *after,
                                       size_t count, rcuda_event_t *event) {
  SIM_ARGS(out, graph, after, count, event);
  return event_node("cuGraphAddEventWaitNode", SIM_RUN_WAIT, out, graph,
                    after, count, event);
}

/* -- memory: the address is known when the node is added, and the same in
   every launch -- */

sim_alloc_t *sim_graph_memory(const sim_ctx_t *ctx, uint32_t device,
                              uint64_t bytes) {
  sim_state_t *s = sim_state();
  sim_alloc_t *a =
      sim_alloc_new(&s->memory, device, bytes, SIM_ALLOC_DEVICE, NULL);
  if (!a) return NULL;
  a->is_kept = true;
  a->has_rights = true;
  a->readers = a->writers = UINT64_C(1) << device;
  a->context = ctx->handle;
  a->made_by = s->calls;
  sim_alloc_release(&s->memory, a);
  return a;
}

SIM_EXPORT int cuGraphAddMemAllocNode(rcuda_node_t **out,
                                      rcuda_graph_t *graph,
                                      rcuda_node_t *const *after,
                                      size_t count,
                                      rcuda_alloc_node_t *params) {
  SIM_ARGS(out, graph, after, count, params);
  sim_graph_t *g;
  int code = sim_with_graph("cuGraphAddMemAllocNode", graph, &g);
  if (code) return code;
  const sim_ctx_t *ctx = sim_current();
  const rcuda_alloc_node_t *p = params;
  sim_op_run_t op = {.kind = SIM_RUN_ALLOC};
  uint64_t readers = 0, writers = 0;
  if (!p || !p->bytes || p->props.type != RCUDA_MEM_PINNED ||
      p->props.location.type != RCUDA_LOCATION_DEVICE ||
      p->props.location.id < 0 ||
      (uint32_t)p->props.location.id >= sim_state()->device_count ||
      (p->access_count && !p->access))
    code = RCUDA_INVALID_VALUE;
  else if (!ctx)
    code = RCUDA_INVALID_CONTEXT;
  for (size_t i = 0; !code && i < p->access_count; i++)
    if (!sim_access_apply(&p->access[i], &readers, &writers))
      code = RCUDA_INVALID_VALUE;
  sim_alloc_t *a = NULL;
  if (!code) {
    a = sim_graph_memory(ctx, (uint32_t)p->props.location.id, p->bytes);
    if (!a) code = RCUDA_OUT_OF_MEMORY;
  }
  if (a) {
    a->readers |= readers;
    a->writers |= writers;
    op.ctx = ctx->handle;
    op.dst = a->address;
    op.bytes = a->bytes;
    params->address = a->address;
  }
  return add(g, out, after, count, code, &op);
}

/* How often the graph makes, less how often it ends, the memory. */
static int balance(const sim_graph_t *g, uint64_t address, bool *is_ended) {
  int n = 0;
  for (uint32_t i = 0; i < g->count; i++) {
    const sim_op_run_t *op = &g->nodes[i]->op;
    if (op->dst != address) continue;
    n += op->kind == SIM_RUN_ALLOC;
    if (op->kind == SIM_RUN_FREE) *is_ended = true;
  }
  return n;
}

bool sim_graph_frees(const sim_graph_t *g, uint64_t address) {
  bool is_ended = false;
  return balance(g, address, &is_ended) > 0 && !is_ended;
}

/* Of memory that this or another graph makes; once in a graph. */
SIM_EXPORT int cuGraphAddMemFreeNode(rcuda_node_t **out,
                                     rcuda_graph_t *graph,
                                     rcuda_node_t *const *after,
                                     size_t count, uint64_t address) {
  SIM_ARGS(out, graph, after, count, address);
  sim_graph_t *g;
  int code = sim_with_graph("cuGraphAddMemFreeNode", graph, &g);
  if (code) return code;
  const sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, address);
  sim_op_run_t op = {.kind = SIM_RUN_FREE, .dst = address};
  bool is_ended = false;
  if (!a || !a->is_kept || a->address != address ||
      (balance(g, address, &is_ended), is_ended)) {
    code = RCUDA_INVALID_VALUE;
  } else {
    op.ctx = a->context;
    op.bytes = a->bytes;
  }
  return add(g, out, after, count, code, &op);
}
