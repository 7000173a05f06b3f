/* Exported cu* functions: graphs, their nodes and edges. */
#include "runtime/simgpu/sim_graph.h"

#include <stdlib.h>

/* -- sets of nodes -- */

bool sim_nodes_add_port(sim_nodes_t *nodes, uint32_t index, uint8_t port) {
  for (uint32_t i = 0; i < nodes->count; i++) {
    if (nodes->list[i] != index) continue;
    if (port < nodes->port[i]) nodes->port[i] = port; /* the stricter one */
    return true;
  }
  if (nodes->count == nodes->capacity) {
    uint32_t capacity = nodes->capacity ? nodes->capacity * 2 : 4;
    uint32_t *list = realloc(nodes->list, capacity * sizeof *list);
    if (list) nodes->list = list;
    uint8_t *ports = realloc(nodes->port, capacity);
    if (ports) nodes->port = ports;
    if (!list || !ports) return false;
    nodes->capacity = capacity;
  }
  nodes->port[nodes->count] = port;
  nodes->list[nodes->count++] = index;
  return true;
}

bool sim_nodes_add(sim_nodes_t *nodes, uint32_t index) {
  return sim_nodes_add_port(nodes, index, RCUDA_PORT_DEFAULT);
}

bool sim_nodes_join(sim_nodes_t *to, const sim_nodes_t *from) {
  for (uint32_t i = 0; i < from->count; i++)
    if (!sim_nodes_add_port(to, from->list[i], from->port[i])) return false;
  return true;
}

void sim_nodes_free(sim_nodes_t *nodes) {
  free(nodes->list);
  free(nodes->port);
  memset(nodes, 0, sizeof *nodes);
}

/* -- graphs -- */

sim_graph_t *sim_graph_new(sim_type_t type, uint64_t ctx) {
  sim_graph_t *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->ctx = ctx;
  g->number = ++sim_state()->graphs;
  g->handle = sim_handle_new(type, g);
  if (g->handle) return g;
  free(g);
  return NULL;
}

static void free_node(sim_node_t *n) {
  if (!n) return;
  if (n->handle) sim_handle_drop(n->handle);
  sim_op_free(&n->op);
  sim_nodes_free(&n->after);
  free(n);
}

void sim_graph_free(sim_graph_t *g) {
  for (uint32_t i = 0; i < g->count; i++) free_node(g->nodes[i]);
  for (uint32_t i = 0; i < g->lane_count; i++) sim_lane_close(g->lanes[i]);
  sim_handle_drop(g->handle);
  free(g->nodes);
  free(g->lanes);
  free(g);
}

/* A node at the end; takes what op owns, also if it fails. */
sim_node_t *sim_graph_add(sim_graph_t *g, const sim_op_run_t *op,
                          const sim_nodes_t *after, bool has_handle) {
  sim_node_t *n = calloc(1, sizeof *n);
  if (!n) {
    sim_op_run_t gone = *op;
    sim_op_free(&gone);
    return NULL;
  }
  n->op = *op;
  bool ok = sim_nodes_join(&n->after, after);
  if (ok && g->count == g->capacity) {
    uint32_t capacity = g->capacity ? g->capacity * 2 : 16;
    sim_node_t **nodes = realloc(g->nodes, capacity * sizeof(sim_node_t *));
    ok = nodes != NULL;
    if (ok) {
      g->nodes = nodes;
      g->capacity = capacity;
    }
  }
  if (ok && has_handle) n->handle = sim_handle_new(SIM_TYPE_NODE, g);
  if (!ok || (has_handle && !n->handle)) {
    free_node(n);
    return NULL;
  }
  g->nodes[g->count++] = n;
  return n;
}

/* Index of a node of the graph; UINT32_MAX for any other handle. */
static uint32_t index_of(const sim_graph_t *g, const void *handle) {
  uint64_t number = (uint64_t)(uintptr_t)handle;
  if (sim_handle_get(SIM_TYPE_NODE, handle) != g) return UINT32_MAX;
  for (uint32_t i = 0; i < g->count; i++)
    if (g->nodes[i]->handle == number) return i;
  return UINT32_MAX;
}

/* -- copies of graphs -- */

/* Graphs with memory nodes have no copies: an address has one owner. */
static bool has_memory(const sim_graph_t *g) {
  for (uint32_t i = 0; i < g->count; i++)
    if (g->nodes[i]->op.kind == SIM_RUN_ALLOC ||
        g->nodes[i]->op.kind == SIM_RUN_FREE)
      return true;
  return false;
}

static uint32_t depth_of(const sim_graph_t *g, uint32_t level) {
  uint32_t most = level;
  for (uint32_t i = 0; level < SIM_MAX_DEPTH && i < g->count; i++) {
    const sim_graph_t *child =
        sim_handle_number(SIM_TYPE_GRAPH, g->nodes[i]->op.graph);
    uint32_t n = child ? depth_of(child, level + 1) : level;
    if (n > most) most = n;
  }
  return most;
}

int sim_graph_copy(const sim_graph_t *from, sim_graph_t **out) {
  if (has_memory(from)) return RCUDA_INVALID_VALUE;
  if (depth_of(from, 0) >= SIM_MAX_DEPTH) return RCUDA_NOT_SUPPORTED;
  sim_graph_t *g = sim_graph_new(SIM_TYPE_GRAPH, from->ctx);
  bool ok = g != NULL;
  for (uint32_t i = 0; ok && i < from->count; i++) {
    sim_op_run_t op;
    ok = sim_op_copy(&op, &from->nodes[i]->op) &&
         sim_graph_add(g, &op, &from->nodes[i]->after, true);
  }
  if (!ok && g) sim_graph_free(g);
  *out = ok ? g : NULL;
  return ok ? 0 : RCUDA_OUT_OF_MEMORY;
}

/* -- calls -- */

/* Enters with a graph that no capture holds. */
int sim_with_graph(const char *name, const void *handle,
                   sim_graph_t **out) {
  int code = sim_enter(name, true);
  if (code) return code;
  *out = sim_handle_get(SIM_TYPE_GRAPH, handle);
  return *out && !(*out)->is_capturing ? 0
                                       : sim_leave(RCUDA_INVALID_HANDLE);
}

SIM_EXPORT int cuGraphCreate(rcuda_graph_t **out, unsigned flags) {
  SIM_ARGS(out, flags);
  int code = sim_enter("cuGraphCreate", true);
  if (code) return code;
  if (!out || flags) return sim_leave(RCUDA_INVALID_VALUE);
  const sim_ctx_t *ctx = sim_current();
  sim_graph_t *g = sim_graph_new(SIM_TYPE_GRAPH, ctx ? ctx->handle : 0);
  if (!g) return sim_leave(RCUDA_OUT_OF_MEMORY);
  *out = (rcuda_graph_t *)(uintptr_t)g->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuGraphDestroy(rcuda_graph_t *handle) {
  SIM_ARGS(handle);
  sim_graph_t *g;
  int code = sim_with_graph("cuGraphDestroy", handle, &g);
  if (code) return code;
  sim_graph_free(g);
  return sim_leave(0);
}

/* The number of nodes, and as many of them as there is room for. */
SIM_EXPORT int cuGraphGetNodes(rcuda_graph_t *handle, rcuda_node_t **nodes,
                               size_t *count) {
  SIM_ARGS(handle, nodes, count);
  sim_graph_t *g;
  int code = sim_with_graph("cuGraphGetNodes", handle, &g);
  if (code) return code;
  if (!count) return sim_leave(RCUDA_INVALID_VALUE);
  for (size_t i = 0; nodes && i < *count; i++)
    nodes[i] = i < g->count
                   ? (rcuda_node_t *)(uintptr_t)g->nodes[i]->handle
                   : NULL;
  if (!nodes || *count > g->count) *count = g->count;
  return sim_leave(0);
}

/* Enters with a node: its graph and its index there. */
static int with_node(const char *name, const void *handle, sim_graph_t **out,
                     uint32_t *index) {
  int code = sim_enter(name, true);
  if (code) return code;
  *out = sim_handle_get(SIM_TYPE_NODE, handle);
  if (!*out) return sim_leave(RCUDA_INVALID_HANDLE);
  *index = index_of(*out, handle);
  return *index == UINT32_MAX ? sim_leave(RCUDA_INVALID_HANDLE) : 0;
}

SIM_EXPORT int cuGraphNodeGetType(rcuda_node_t *handle, int *out) {
  SIM_ARGS(handle, out);
  sim_graph_t *g;
  uint32_t i;
  int code = with_node("cuGraphNodeGetType", handle, &g, &i);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  switch (g->nodes[i]->op.kind) {
  case SIM_RUN_LAUNCH: *out = RCUDA_NODE_KERNEL; break;
  case SIM_RUN_COPY: *out = RCUDA_NODE_MEMCPY; break;
  case SIM_RUN_FILL: *out = RCUDA_NODE_MEMSET; break;
  case SIM_RUN_HOST: *out = RCUDA_NODE_HOST; break;
  case SIM_RUN_CHILD: *out = RCUDA_NODE_GRAPH; break;
  case SIM_RUN_EVENT: *out = RCUDA_NODE_RECORD; break;
  case SIM_RUN_WAIT: *out = RCUDA_NODE_WAIT; break;
  case SIM_RUN_ALLOC: *out = RCUDA_NODE_ALLOC; break;
  case SIM_RUN_FREE: *out = RCUDA_NODE_FREE; break;
  case SIM_RUN_COLL: /* the real one makes kernels of it */
    *out = RCUDA_NODE_KERNEL;
    break;
  case SIM_RUN_UNMAP: /* never in a graph */
  case SIM_RUN_EMPTY: *out = RCUDA_NODE_EMPTY; break;
  }
  return sim_leave(0);
}

SIM_EXPORT int cuGraphKernelNodeGetParams_v2(rcuda_node_t *handle,
                                             rcuda_kernel_node_t *out) {
  SIM_ARGS(handle, out);
  sim_graph_t *g;
  uint32_t i;
  int code = with_node("cuGraphKernelNodeGetParams_v2", handle, &g, &i);
  if (code) return code;
  const sim_op_run_t *op = &g->nodes[i]->op;
  if (!out || op->kind != SIM_RUN_LAUNCH)
    return sim_leave(RCUDA_INVALID_VALUE);
  memset(out, 0, sizeof *out);
  out->function = (rcuda_func_t *)(uintptr_t)op->launch.func;
  memcpy(out->grid, op->launch.grid, sizeof out->grid);
  memcpy(out->block, op->launch.block, sizeof out->block);
  out->shared_bytes = op->launch.shared;
  out->context = (rcuda_ctx_t *)(uintptr_t)op->ctx;
  return sim_leave(0);
}

SIM_EXPORT int cuGraphClone(rcuda_graph_t **out, rcuda_graph_t *handle) {
  SIM_ARGS(out, handle);
  sim_graph_t *g, *copy;
  int code = sim_with_graph("cuGraphClone", handle, &g);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  code = sim_graph_copy(g, &copy);
  if (!code) *out = (rcuda_graph_t *)(uintptr_t)copy->handle;
  return sim_leave(code);
}

/* -- edges -- */

/* An edge's port, or -1 of what is no edge between the two: programmatic ones
   join launches. */
static int port_of(const rcuda_edge_t *e, const sim_node_t *from,
                   const sim_node_t *to) {
  if (!e || (!e->from_port && !e->to_port && !e->type)) return 0;
  if (e->type != RCUDA_EDGE_PROGRAMMATIC || e->to_port ||
      e->from_port > RCUDA_PORT_LAUNCH_ORDER || !e->from_port ||
      from->op.kind != SIM_RUN_LAUNCH || to->op.kind != SIM_RUN_LAUNCH)
    return -1;
  return e->from_port;
}

rcuda_edge_t sim_edge_of(uint8_t port) {
  rcuda_edge_t e = {.from_port = port};
  e.type = port ? RCUDA_EDGE_PROGRAMMATIC : RCUDA_EDGE_DEFAULT;
  return e;
}

/* The number of edges, and as many as there is room for. */
SIM_EXPORT int cuGraphGetEdges_v2(rcuda_graph_t *handle, rcuda_node_t **from,
                                  rcuda_node_t **to, rcuda_edge_t *data,
                                  size_t *count) {
  SIM_ARGS(handle, from, to, data, count);
  sim_graph_t *g;
  int code = sim_with_graph("cuGraphGetEdges_v2", handle, &g);
  if (code) return code;
  if (!count || !from != !to) return sim_leave(RCUDA_INVALID_VALUE);
  size_t room = from ? *count : 0, n = 0;
  bool is_lossy = false; /* ports are not said */
  for (uint32_t i = 0; i < g->count; i++) {
    const sim_nodes_t *after = &g->nodes[i]->after;
    for (uint32_t k = 0; k < after->count; k++, n++) {
      if (!data && after->port[k]) is_lossy = true;
      if (n >= room) continue;
      from[n] =
          (rcuda_node_t *)(uintptr_t)g->nodes[after->list[k]]->handle;
      to[n] = (rcuda_node_t *)(uintptr_t)g->nodes[i]->handle;
      if (data) data[n] = sim_edge_of(after->port[k]);
    }
  }
  for (size_t i = n; i < room; i++) from[i] = to[i] = NULL;
  if (!from || room > n) *count = n;
  return sim_leave(from && is_lossy ? RCUDA_LOSSY_QUERY : 0);
}

/* True if the node comes after the other one, or is it. */
static bool reaches(const sim_graph_t *g, uint32_t node, uint32_t other,
                    uint8_t *seen) {
  bool grows = true;
  memset(seen, 0, g->count);
  seen[node] = 1;
  while (grows) {
    grows = false;
    for (uint32_t i = 0; i < g->count; i++) {
      const sim_nodes_t *after = &g->nodes[i]->after;
      for (uint32_t k = 0; seen[i] && k < after->count; k++) {
        if (seen[after->list[k]]) continue;
        seen[after->list[k]] = 1;
        grows = true;
      }
    }
  }
  return seen[other];
}

SIM_EXPORT int cuGraphAddDependencies_v2(rcuda_graph_t *handle,
                                         rcuda_node_t *const *from,
                                         rcuda_node_t *const *to,
                                         const rcuda_edge_t *data,
                                         size_t count) {
  SIM_ARGS(handle, from, to, data, count);
  sim_graph_t *g;
  int code = sim_with_graph("cuGraphAddDependencies_v2", handle, &g);
  if (code) return code;
  if (count && (!from || !to)) return sim_leave(RCUDA_INVALID_VALUE);
  uint8_t *seen = malloc(g->count + 1u);
  if (!seen) return sim_leave(RCUDA_OUT_OF_MEMORY);
  for (size_t i = 0; !code && i < count; i++) {
    uint32_t a = index_of(g, from[i]), b = index_of(g, to[i]);
    int port = a == UINT32_MAX || b == UINT32_MAX
                   ? -1
                   : port_of(data ? &data[i] : NULL, g->nodes[a],
                             g->nodes[b]);
    if (port < 0) {
      code = RCUDA_INVALID_VALUE;
    } else {
      const sim_nodes_t *after = &g->nodes[b]->after;
      for (uint32_t k = 0; k < after->count; k++)
        if (after->list[k] == a) code = RCUDA_INVALID_VALUE; /* twice */
      if (!code && reaches(g, a, b, seen)) code = RCUDA_INVALID_VALUE;
      if (!code &&
          !sim_nodes_add_port(&g->nodes[b]->after, a, (uint8_t)port))
        code = RCUDA_OUT_OF_MEMORY;
    }
  }
  free(seen);
  return sim_leave(code);
}

int sim_graph_after(const sim_graph_t *g, rcuda_node_t *const *list,
                    size_t count, sim_nodes_t *out) {
  memset(out, 0, sizeof *out);
  if (count && !list) return RCUDA_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    uint32_t at = index_of(g, list[i]), before = out->count;
    if (at == UINT32_MAX) return RCUDA_INVALID_VALUE;
    if (!sim_nodes_add(out, at)) return RCUDA_OUT_OF_MEMORY;
    if (out->count == before) return RCUDA_INVALID_VALUE; /* named twice */
  }
  return 0;
}
