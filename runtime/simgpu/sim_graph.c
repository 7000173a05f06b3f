/* Exported cu* functions: captures, graphs, executable graphs.

   A capture keeps, for every stream in it, the nodes that its next node comes
   after; events carry such a set from stream to stream. An executable graph
   holds its nodes in an order that respects all dependencies and is cut into
   chains, each of which owns a lane of the queue, so that what the graph does
   not order is as free as work of different streams. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

/* -- sets of nodes -- */

bool sim_nodes_add(sim_nodes_t *nodes, uint32_t index) {
  for (uint32_t i = 0; i < nodes->count; i++)
    if (nodes->list[i] == index) return true;
  if (nodes->count == nodes->capacity) {
    uint32_t capacity = nodes->capacity ? nodes->capacity * 2 : 4;
    uint32_t *list = realloc(nodes->list, capacity * sizeof *list);
    if (!list) return false;
    nodes->list = list;
    nodes->capacity = capacity;
  }
  nodes->list[nodes->count++] = index;
  return true;
}

bool sim_nodes_join(sim_nodes_t *to, const sim_nodes_t *from) {
  for (uint32_t i = 0; i < from->count; i++)
    if (!sim_nodes_add(to, from->list[i])) return false;
  return true;
}

void sim_nodes_free(sim_nodes_t *nodes) {
  free(nodes->list);
  memset(nodes, 0, sizeof *nodes);
}

/* -- graphs -- */

static sim_graph_t *new_graph(sim_type_t type, uint64_t ctx) {
  sim_graph_t *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->ctx = ctx;
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
static sim_node_t *add_node(sim_graph_t *g, const sim_op_run_t *op,
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

/* -- captures -- */

int sim_capture(sim_stream_t *stream, const sim_op_run_t *op) {
  sim_graph_t *g = sim_handle_number(SIM_TYPE_GRAPH, stream->graph);
  sim_op_run_t mine = *op;
  if (!g || g->is_broken) {
    sim_op_free(&mine);
    return RCUDA_CAPTURE_INVALIDATED;
  }
  if (!add_node(g, &mine, &stream->last, true)) return RCUDA_OUT_OF_MEMORY;
  stream->last.count = 0;
  return sim_nodes_add(&stream->last, g->count - 1) ? 0
                                                    : RCUDA_OUT_OF_MEMORY;
}

/* True if the capture forbids the calling thread what may synchronise. */
static bool forbids(const sim_graph_t *g, int thread_mode) {
  bool is_mine = pthread_equal(g->thread, pthread_self());
  if (g->mode == RCUDA_CAPTURE_RELAXED ||
      thread_mode == RCUDA_CAPTURE_RELAXED)
    return false;
  if (g->mode == RCUDA_CAPTURE_THREAD_LOCAL ||
      thread_mode == RCUDA_CAPTURE_THREAD_LOCAL)
    return is_mine;
  return true;
}

int sim_no_capture(void) {
  sim_state_t *s = sim_state();
  const int *mode = NULL;
  int code = 0;
  for (size_t i = 0; i < s->slot_count; i++) {
    sim_graph_t *g = s->slots[i].object;
    if (!g || s->slots[i].type != SIM_TYPE_GRAPH || !g->is_capturing)
      continue;
    if (!mode) mode = sim_thread_mode();
    if (!forbids(g, mode ? *mode : RCUDA_CAPTURE_GLOBAL)) continue;
    g->is_broken = true;
    code = RCUDA_CAPTURE_UNSUPPORTED;
  }
  return code;
}

int sim_no_implicit(const sim_ctx_t *ctx) {
  sim_state_t *s = sim_state();
  int code = 0;
  for (size_t i = 0; i < s->slot_count; i++) {
    const sim_stream_t *stream = s->slots[i].object;
    if (!stream || s->slots[i].type != SIM_TYPE_STREAM || !stream->graph ||
        stream->ctx != ctx->handle ||
        (stream->flags & RCUDA_STREAM_NON_BLOCKING))
      continue;
    sim_graph_t *g = sim_handle_number(SIM_TYPE_GRAPH, stream->graph);
    if (g) g->is_broken = true;
    code = RCUDA_CAPTURE_IMPLICIT;
  }
  return code;
}

static int with_stream(const char *name, const void *handle,
                       sim_stream_t **out) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  return sim_stream_of(handle, out) ? 0 : sim_leave(RCUDA_INVALID_HANDLE);
}

SIM_EXPORT int cuStreamBeginCapture_v2(rcuda_stream_t *stream, int mode) {
  sim_stream_t *s;
  int code = with_stream("cuStreamBeginCapture_v2", stream, &s);
  if (code) return code;
  if (!s) return sim_leave(RCUDA_CAPTURE_UNSUPPORTED);
  if (mode < 0 || mode > 2) return sim_leave(RCUDA_INVALID_VALUE);
  if (s->graph) return sim_leave(RCUDA_ILLEGAL_STATE);
  sim_graph_t *g = new_graph(SIM_TYPE_GRAPH, s->ctx);
  if (!g) return sim_leave(RCUDA_OUT_OF_MEMORY);
  g->is_capturing = true;
  g->mode = mode;
  g->thread = pthread_self();
  s->graph = g->handle;
  s->is_origin = true;
  s->last.count = 0;
  return sim_leave(0);
}

/* Marks what the nodes come after, themselves included. */
static void mark(const sim_graph_t *g, uint8_t *seen,
                 const sim_nodes_t *from) {
  for (uint32_t i = 0; i < from->count; i++) seen[from->list[i]] = 1;
  /* a captured node comes after earlier ones only */
  for (uint32_t i = g->count; i-- > 0;) {
    const sim_nodes_t *after = &g->nodes[i]->after;
    for (uint32_t k = 0; seen[i] && k < after->count; k++)
      seen[after->list[k]] = 1;
  }
}

/* Takes every stream and event out of the capture. True if the work of all
   other streams was joined into the origin. */
static bool leave_capture(sim_graph_t *g, sim_stream_t *origin) {
  sim_state_t *st = sim_state();
  uint8_t *seen = calloc(1, g->count + 1u);
  bool is_joined = true;
  if (seen) mark(g, seen, &origin->last);
  for (size_t i = 0; i < st->slot_count; i++) {
    sim_stream_t *other = st->slots[i].object;
    sim_event_t *e = st->slots[i].object;
    if (!other) continue;
    if (st->slots[i].type == SIM_TYPE_STREAM && other->graph == g->handle) {
      for (uint32_t k = 0; seen && k < other->last.count; k++)
        if (!seen[other->last.list[k]]) is_joined = false;
      other->graph = 0;
      other->is_origin = false;
      sim_nodes_free(&other->last);
    }
    if (st->slots[i].type == SIM_TYPE_EVENT && e->graph == g->handle) {
      e->graph = 0;
      sim_nodes_free(&e->last);
    }
  }
  free(seen);
  return is_joined;
}

SIM_EXPORT int cuStreamEndCapture(rcuda_stream_t *stream,
                                  rcuda_graph_t **out) {
  sim_stream_t *s;
  int code = with_stream("cuStreamEndCapture", stream, &s);
  if (code) return code;
  if (!s || !s->graph) return sim_leave(RCUDA_ILLEGAL_STATE);
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  if (!s->is_origin) return sim_leave(RCUDA_CAPTURE_UNMATCHED);
  sim_graph_t *g = sim_handle_number(SIM_TYPE_GRAPH, s->graph);
  *out = NULL;
  if (g && g->mode != RCUDA_CAPTURE_RELAXED &&
      !pthread_equal(g->thread, pthread_self()))
    return sim_leave(RCUDA_CAPTURE_WRONG_THREAD);
  if (!g) {
    s->graph = 0;
    s->is_origin = false;
    return sim_leave(RCUDA_CAPTURE_INVALIDATED);
  }
  bool is_joined = leave_capture(g, s);
  if (g->is_broken || !is_joined) {
    code = g->is_broken ? RCUDA_CAPTURE_INVALIDATED : RCUDA_CAPTURE_UNJOINED;
    sim_graph_free(g);
    return sim_leave(code);
  }
  g->is_capturing = false;
  *out = (rcuda_graph_t *)(uintptr_t)g->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuStreamIsCapturing(rcuda_stream_t *stream, int *out) {
  sim_stream_t *s;
  int code = with_stream("cuStreamIsCapturing", stream, &s);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  sim_graph_t *g =
      s && s->graph ? sim_handle_number(SIM_TYPE_GRAPH, s->graph) : NULL;
  *out = !s || !s->graph      ? RCUDA_CAPTURE_NONE
         : g && !g->is_broken ? RCUDA_CAPTURE_ACTIVE
                              : RCUDA_CAPTURE_BROKEN;
  return sim_leave(0);
}

SIM_EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) {
  int code = sim_enter("cuThreadExchangeStreamCaptureMode", true);
  if (code) return code;
  if (!mode || *mode < 0 || *mode > 2) return sim_leave(RCUDA_INVALID_VALUE);
  int *mine = sim_thread_mode();
  if (!mine) return sim_leave(RCUDA_OUT_OF_MEMORY);
  int old = *mine;
  *mine = *mode;
  *mode = old;
  return sim_leave(0);
}

/* -- graphs and their nodes -- */

/* Enters with a graph that no capture holds. */
static int with_graph(const char *name, const void *handle,
                      sim_graph_t **out) {
  int code = sim_enter(name, true);
  if (code) return code;
  *out = sim_handle_get(SIM_TYPE_GRAPH, handle);
  return *out && !(*out)->is_capturing ? 0
                                       : sim_leave(RCUDA_INVALID_HANDLE);
}

SIM_EXPORT int cuGraphCreate(rcuda_graph_t **out, unsigned flags) {
  int code = sim_enter("cuGraphCreate", true);
  if (code) return code;
  if (!out || flags) return sim_leave(RCUDA_INVALID_VALUE);
  const sim_ctx_t *ctx = sim_current();
  sim_graph_t *g = new_graph(SIM_TYPE_GRAPH, ctx ? ctx->handle : 0);
  if (!g) return sim_leave(RCUDA_OUT_OF_MEMORY);
  *out = (rcuda_graph_t *)(uintptr_t)g->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuGraphDestroy(rcuda_graph_t *handle) {
  sim_graph_t *g;
  int code = with_graph("cuGraphDestroy", handle, &g);
  if (code) return code;
  sim_graph_free(g);
  return sim_leave(0);
}

/* The number of nodes, and as many of them as there is room for. */
SIM_EXPORT int cuGraphGetNodes(rcuda_graph_t *handle, rcuda_node_t **nodes,
                               size_t *count) {
  sim_graph_t *g;
  int code = with_graph("cuGraphGetNodes", handle, &g);
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
  case SIM_RUN_EMPTY:
  case SIM_RUN_ALLOC:
  case SIM_RUN_FREE:
  case SIM_RUN_EVENT: *out = RCUDA_NODE_EMPTY; break;
  }
  return sim_leave(0);
}

SIM_EXPORT int cuGraphKernelNodeGetParams_v2(rcuda_node_t *handle,
                                             rcuda_kernel_node_t *out) {
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

/* A launch from a node's parameters. */
static int node_launch(const rcuda_kernel_node_t *p, sim_op_run_t *op) {
  memset(op, 0, sizeof *op);
  if (!p) return RCUDA_INVALID_VALUE;
  sim_func_t *f = sim_func_of(p->function);
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

/* -- executable graphs -- */

/* The graph's nodes in an order that respects the dependencies, as indices;
   false if they are circular. order and degree hold count entries. */
static bool sort_nodes(const sim_graph_t *g, uint32_t *order,
                       uint32_t *degree) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->count; i++) {
    degree[i] = g->nodes[i]->after.count;
    if (!degree[i]) order[n++] = i;
  }
  for (uint32_t at = 0; at < n; at++) {
    for (uint32_t i = 0; i < g->count; i++) {
      const sim_nodes_t *after = &g->nodes[i]->after;
      for (uint32_t k = 0; degree[i] && k < after->count; k++)
        if (after->list[k] == order[at] && --degree[i] == 0) order[n++] = i;
    }
  }
  return n == g->count;
}

/* A captured graph is sorted already: the usual case, in linear time. */
static bool is_sorted(const sim_graph_t *g) {
  for (uint32_t i = 0; i < g->count; i++)
    for (uint32_t k = 0; k < g->nodes[i]->after.count; k++)
      if (g->nodes[i]->after.list[k] >= i) return false;
  return true;
}

/* Cuts the sorted nodes into chains: a node continues the chain of the first
   dependency that ends one. */
static bool make_chains(sim_graph_t *x) {
  uint32_t *last = calloc(x->count + 1u, sizeof *last);
  x->lanes = calloc(x->count + 1u, sizeof *x->lanes);
  bool ok = last && x->lanes;
  for (uint32_t i = 0; ok && i < x->count; i++) {
    sim_node_t *n = x->nodes[i];
    uint32_t chain = UINT32_MAX;
    for (uint32_t k = 0; k < n->after.count && chain == UINT32_MAX; k++) {
      uint32_t before = n->after.list[k];
      if (last[x->nodes[before]->chain] == before)
        chain = x->nodes[before]->chain;
    }
    if (chain == UINT32_MAX) {
      chain = x->lane_count;
      x->lanes[chain] = sim_lane_new(x->ctx, false, false);
      ok = x->lanes[chain] != UINT32_MAX;
      if (ok) x->lane_count++;
    }
    n->chain = chain;
    if (ok) last[chain] = i;
  }
  free(last);
  return ok;
}

static int instantiate(const sim_graph_t *g, sim_graph_t *x) {
  uint32_t *order = calloc(g->count + 1u, 3 * sizeof *order);
  if (!order) return RCUDA_OUT_OF_MEMORY;
  uint32_t *degree = order + g->count + 1, *place = degree + g->count;
  bool ok = true;
  if (is_sorted(g))
    for (uint32_t i = 0; i < g->count; i++) order[i] = i;
  else
    ok = sort_nodes(g, order, degree);
  int code = ok ? 0 : RCUDA_INVALID_VALUE;
  for (uint32_t i = 0; ok && i < g->count; i++) place[order[i]] = i;
  for (uint32_t i = 0; ok && i < g->count; i++) {
    const sim_node_t *from = g->nodes[order[i]];
    sim_nodes_t after = {0};
    sim_op_run_t op;
    for (uint32_t k = 0; ok && k < from->after.count; k++)
      ok = sim_nodes_add(&after, place[from->after.list[k]]);
    ok = ok && sim_op_copy(&op, &from->op);
    sim_node_t *n = ok ? add_node(x, &op, &after, false) : NULL;
    sim_nodes_free(&after);
    ok = n != NULL;
    if (ok)
      n->origin = from->handle;
    else
      code = from->op.kind == SIM_RUN_LAUNCH &&
                     !sim_handle_number(SIM_TYPE_FUNC, from->op.launch.func)
                 ? RCUDA_INVALID_HANDLE
                 : RCUDA_OUT_OF_MEMORY;
  }
  free(order);
  if (ok && !make_chains(x)) code = RCUDA_OUT_OF_MEMORY;
  return code;
}

SIM_EXPORT int cuGraphInstantiateWithFlags(rcuda_exec_t **out,
                                           rcuda_graph_t *handle,
                                           unsigned long long flags) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuGraphInstantiateWithFlags", &ctx);
  if (code) return code;
  sim_graph_t *g = sim_handle_get(SIM_TYPE_GRAPH, handle);
  if (!g || g->is_capturing) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out || flags & ~UINT64_C(0xB)) return sim_leave(RCUDA_INVALID_VALUE);
  sim_graph_t *x = new_graph(SIM_TYPE_EXEC, ctx->handle);
  if (!x) return sim_leave(RCUDA_OUT_OF_MEMORY);
  code = instantiate(g, x);
  if (code)
    sim_graph_free(x);
  else
    *out = (rcuda_exec_t *)(uintptr_t)x->handle;
  return sim_leave(code);
}

static int with_exec(const char *name, const void *handle,
                     sim_graph_t **out) {
  int code = sim_enter(name, true);
  if (code) return code;
  *out = sim_handle_get(SIM_TYPE_EXEC, handle);
  return *out ? 0 : sim_leave(RCUDA_INVALID_HANDLE);
}

/* What was launched still runs. */
SIM_EXPORT int cuGraphExecDestroy(rcuda_exec_t *handle) {
  sim_graph_t *x;
  int code = with_exec("cuGraphExecDestroy", handle, &x);
  if (code) return code;
  sim_graph_free(x);
  return sim_leave(0);
}

SIM_EXPORT int cuGraphUpload(rcuda_exec_t *handle, rcuda_stream_t *stream) {
  sim_graph_t *x;
  sim_stream_t *s;
  int code = with_exec("cuGraphUpload", handle, &x);
  if (code) return code;
  return sim_leave(sim_stream_of(stream, &s) ? 0 : RCUDA_INVALID_HANDLE);
}

/* Replaces the parameters of the node made from `handle`; work that was
   launched keeps the old ones. */
SIM_EXPORT int cuGraphExecKernelNodeSetParams_v2(
    rcuda_exec_t *exec, rcuda_node_t *handle,
    const rcuda_kernel_node_t *params) {
  sim_graph_t *x;
  int code = with_exec("cuGraphExecKernelNodeSetParams_v2", exec, &x);
  if (code) return code;
  for (uint32_t i = 0; handle && i < x->count; i++) {
    sim_node_t *n = x->nodes[i];
    sim_op_run_t op;
    if (n->origin != (uint64_t)(uintptr_t)handle) continue;
    if (n->op.kind != SIM_RUN_LAUNCH) return sim_leave(RCUDA_INVALID_VALUE);
    code = node_launch(params, &op);
    if (code) return sim_leave(code);
    if (op.ctx != n->op.ctx) { /* a node stays in its context */
      sim_op_free(&op);
      return sim_leave(RCUDA_INVALID_VALUE);
    }
    sim_op_free(&n->op);
    n->op = op;
    return sim_leave(0);
  }
  return sim_leave(RCUDA_INVALID_VALUE);
}

/* The first node that differs in more than parameters; UINT32_MAX if none
   does. result: why. */
static uint32_t first_change(const sim_graph_t *g, const sim_graph_t *x,
                             int *result) {
  uint32_t n = g->count < x->count ? g->count : x->count;
  for (uint32_t i = 0; i < n; i++) {
    const sim_node_t *a = g->nodes[i], *b = x->nodes[i];
    if (a->op.kind != b->op.kind) {
      *result = RCUDA_UPDATE_TYPE_CHANGED;
      return i;
    }
    bool same = a->after.count == b->after.count;
    for (uint32_t k = 0; same && k < a->after.count; k++)
      same = a->after.list[k] == b->after.list[k];
    *result = same ? RCUDA_UPDATE_NOT_SUPPORTED
                   : RCUDA_UPDATE_TOPOLOGY_CHANGED;
    if (!same || (a->op.kind == SIM_RUN_COPY &&
                  (sim_is_device_address(a->op.src) !=
                       sim_is_device_address(b->op.src) ||
                   sim_is_device_address(a->op.dst) !=
                       sim_is_device_address(b->op.dst))))
      return i;
  }
  *result = RCUDA_UPDATE_TOPOLOGY_CHANGED;
  return g->count == x->count ? UINT32_MAX : n;
}

SIM_EXPORT int cuGraphExecUpdate_v2(rcuda_exec_t *exec, rcuda_graph_t *graph,
                                    rcuda_update_info_t *info) {
  sim_graph_t *x;
  int code = with_exec("cuGraphExecUpdate_v2", exec, &x), result;
  if (code) return code;
  sim_graph_t *g = sim_handle_get(SIM_TYPE_GRAPH, graph);
  if (!g || g->is_capturing) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!info) return sim_leave(RCUDA_INVALID_VALUE);
  memset(info, 0, sizeof *info);
  uint32_t at = is_sorted(g) ? first_change(g, x, &result) : 0;
  if (at != UINT32_MAX) {
    info->result = is_sorted(g) ? result : RCUDA_UPDATE_TOPOLOGY_CHANGED;
    if (at < g->count)
      info->node = (rcuda_node_t *)(uintptr_t)g->nodes[at]->handle;
    return sim_leave(RCUDA_GRAPH_UPDATE_FAILURE);
  }
  for (uint32_t i = 0; i < g->count; i++) {
    sim_op_run_t op;
    if (!sim_op_copy(&op, &g->nodes[i]->op))
      return sim_leave(RCUDA_OUT_OF_MEMORY);
    sim_op_free(&x->nodes[i]->op);
    x->nodes[i]->op = op;
    x->nodes[i]->origin = g->nodes[i]->handle;
  }
  return sim_leave(0);
}

/* Queues the nodes after what the lane holds; clocks has count entries. */
static int launch_nodes(const sim_graph_t *x, const sim_clock_t *base,
                        sim_clock_t *clocks, sim_clock_t *all) {
  for (uint32_t i = 0; i < x->count; i++) {
    const sim_node_t *n = x->nodes[i];
    uint32_t lane = x->lanes[n->chain];
    sim_op_run_t op;
    bool is_now = false;
    bool ok = sim_clock_join(&clocks[i], base);
    for (uint32_t k = 0; ok && k < n->after.count; k++)
      ok = sim_clock_join(&clocks[i], &clocks[n->after.list[k]]);
    if (!ok || !sim_op_copy(&op, &n->op)) return RCUDA_OUT_OF_MEMORY;
    op.call = sim_state()->calls;
    int code = sim_submit_lane(lane, &op, &clocks[i], &is_now);
    if (code) return code;
    if (!sim_clock_join(&clocks[i], &sim_lane_of(lane)->clock) ||
        !sim_clock_join(all, &clocks[i]))
      return RCUDA_OUT_OF_MEMORY;
  }
  return 0;
}

SIM_EXPORT int cuGraphLaunch(rcuda_exec_t *handle, rcuda_stream_t *stream) {
  sim_stream_t *s;
  int code = with_stream("cuGraphLaunch", stream, &s);
  if (code) return code;
  sim_graph_t *x = sim_handle_get(SIM_TYPE_EXEC, handle);
  if (!x) return sim_leave(RCUDA_INVALID_HANDLE);
  if (s && s->graph) return sim_leave(RCUDA_CAPTURE_UNSUPPORTED);
  sim_ctx_t *ctx = sim_current();
  if (!s && (code = sim_no_implicit(ctx)) != 0) return sim_leave(code);
  uint32_t lane = sim_lane_of_stream(ctx, s);
  sim_clock_t all = {0};
  sim_clock_t *clocks = calloc(x->count + 1u, sizeof *clocks);
  if (!clocks || !sim_queue_implicit(lane)) {
    free(clocks);
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  }
  /* an executable graph does not run beside itself */
  for (uint32_t i = 0; !code && i < x->lane_count; i++)
    if (!sim_clock_join(&all, &sim_lane_of(x->lanes[i])->clock))
      code = RCUDA_OUT_OF_MEMORY;
  if (!code && !sim_clock_join(&all, &sim_lane_of(lane)->clock))
    code = RCUDA_OUT_OF_MEMORY;
  sim_clock_t base = {0};
  if (!code && !sim_clock_join(&base, &all)) code = RCUDA_OUT_OF_MEMORY;
  if (!code) code = launch_nodes(x, &base, clocks, &all);
  for (uint32_t i = 0; i < x->count; i++) sim_clock_free(&clocks[i]);
  free(clocks);
  sim_clock_free(&base);
  sim_op_run_t end = {.kind = SIM_RUN_EMPTY, .name = "cuGraphLaunch",
                      .ctx = s ? s->ctx : ctx->handle,
                      .call = sim_state()->calls};
  if (!code) code = sim_queue_add(lane, &end, &all);
  sim_clock_free(&all);
  if (s) s->polls = 1;
  return sim_leave(code);
}
