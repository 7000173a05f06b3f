/* Exported cu* functions: executable graphs. One holds its nodes in an order
   that respects all dependencies and is cut into chains, each of which owns a
   lane of the queue, so that what the graph does not order is as free as work
   of different streams. */
#include "runtime/simgpu/sim_graph.h"

#include <stdlib.h>

static int with_stream(const char *name, const void *handle,
                       sim_stream_t **out) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  return sim_stream_of(handle, out) ? 0 : sim_leave(RCUDA_INVALID_HANDLE);
}

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

/* Adds the graph's nodes in an order that respects the dependencies; those
   without one come after node `root` of x (UINT32_MAX: after nothing). A graph
   inside becomes two empty nodes with its own between them. *ends: what
   nothing of the graph comes after. */
static int flatten(const sim_graph_t *g, sim_graph_t *x, uint32_t root,
                   uint32_t depth, sim_nodes_t *ends);

/* One node; *place: the node of x that stands for it. */
static int flatten_node(const sim_node_t *from, sim_graph_t *x,
                        const sim_nodes_t *after, uint32_t depth,
                        uint32_t *place) {
  sim_op_run_t op = {.kind = SIM_RUN_EMPTY, .name = "cuGraphLaunch"};
  bool is_child = from->op.kind == SIM_RUN_CHILD;
  if (!is_child && !sim_op_copy(&op, &from->op))
    return from->op.kind == SIM_RUN_LAUNCH ? RCUDA_INVALID_HANDLE
                                           : RCUDA_OUT_OF_MEMORY;
  sim_node_t *n = sim_graph_add(x, &op, after, false);
  if (!n) return RCUDA_OUT_OF_MEMORY;
  n->origin = from->handle;
  *place = x->count - 1;
  if (!is_child) return 0;
  const sim_graph_t *child =
      sim_handle_number(SIM_TYPE_GRAPH, from->op.graph);
  if (!child || depth >= SIM_MAX_DEPTH) return RCUDA_INVALID_VALUE;
  sim_nodes_t ends = {0};
  int code = flatten(child, x, *place, depth + 1, &ends);
  if (!code && !sim_nodes_add(&ends, *place)) code = RCUDA_OUT_OF_MEMORY;
  if (!code && !sim_graph_add(x, &op, &ends, false))
    code = RCUDA_OUT_OF_MEMORY;
  sim_nodes_free(&ends);
  *place = x->count - 1;
  return code;
}

static int flatten(const sim_graph_t *g, sim_graph_t *x, uint32_t root,
                   uint32_t depth, sim_nodes_t *ends) {
  uint32_t *order = calloc(g->count + 1u, 4 * sizeof *order);
  if (!order) return RCUDA_OUT_OF_MEMORY;
  uint32_t *degree = order + g->count + 1, *place = degree + g->count;
  uint32_t *is_before = place + g->count;
  int code = 0;
  if (is_sorted(g))
    for (uint32_t i = 0; i < g->count; i++) order[i] = i;
  else if (!sort_nodes(g, order, degree))
    code = RCUDA_INVALID_VALUE;
  for (uint32_t i = 0; !code && i < g->count; i++) {
    const sim_node_t *from = g->nodes[order[i]];
    sim_nodes_t after = {0};
    bool ok = true;
    for (uint32_t k = 0; ok && k < from->after.count; k++) {
      ok = sim_nodes_add_port(&after, place[from->after.list[k]],
                              from->after.port[k]);
      is_before[from->after.list[k]] = 1;
    }
    if (ok && !after.count && root != UINT32_MAX)
      ok = sim_nodes_add(&after, root);
    code = ok ? flatten_node(from, x, &after, depth, &place[order[i]])
              : RCUDA_OUT_OF_MEMORY;
    sim_nodes_free(&after);
  }
  for (uint32_t i = 0; !code && i < g->count; i++)
    if (!is_before[i] && !sim_nodes_add(ends, place[i]))
      code = RCUDA_OUT_OF_MEMORY;
  free(order);
  return code;
}

static int instantiate(const sim_graph_t *g, sim_graph_t *x) {
  sim_nodes_t ends = {0};
  int code = flatten(g, x, UINT32_MAX, 0, &ends);
  sim_nodes_free(&ends);
  if (!code && !make_chains(x)) code = RCUDA_OUT_OF_MEMORY;
  return code;
}

/* Of an executable graph: memory that a launch makes and leaves. */
static bool leaves(const sim_graph_t *x, const sim_node_t *n) {
  return n->op.kind == SIM_RUN_ALLOC && sim_graph_frees(x, n->op.dst);
}

static int make_exec(rcuda_exec_t **out, rcuda_graph_t *handle,
                     uint64_t flags) {
  sim_ctx_t *ctx = sim_current();
  sim_graph_t *g = sim_handle_get(SIM_TYPE_GRAPH, handle);
  if (!g || g->is_capturing) return RCUDA_INVALID_HANDLE;
  if (!out || flags & ~UINT64_C(0xB)) return RCUDA_INVALID_VALUE;
  sim_graph_t *x = sim_graph_new(SIM_TYPE_EXEC, ctx->handle);
  if (!x) return RCUDA_OUT_OF_MEMORY;
  x->frees_before = (flags & RCUDA_INSTANTIATE_AUTO_FREE) != 0;
  int code = instantiate(g, x);
  if (code)
    sim_graph_free(x);
  else
    *out = (rcuda_exec_t *)(uintptr_t)x->handle;
  return code;
}

SIM_EXPORT int cuGraphInstantiateWithFlags(rcuda_exec_t **out,
                                           rcuda_graph_t *handle,
                                           unsigned long long flags) {
  SIM_ARGS(out, handle, flags);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuGraphInstantiateWithFlags", &ctx);
  return code ? code : sim_leave(make_exec(out, handle, flags));
}

SIM_EXPORT int cuGraphInstantiateWithParams(rcuda_exec_t **out,
                                            rcuda_graph_t *handle,
                                            rcuda_instantiate_t *params) {
  SIM_ARGS(out, handle, params);
  sim_ctx_t *ctx;
  sim_stream_t *s;
  int code = sim_enter_ctx("cuGraphInstantiateWithParams", &ctx);
  if (code) return code;
  if (!params) return sim_leave(RCUDA_INVALID_VALUE);
  params->node = NULL;
  if (params->flags & RCUDA_INSTANTIATE_UPLOAD &&
      !sim_stream_of(params->upload, &s))
    code = RCUDA_INVALID_HANDLE;
  if (!code) code = make_exec(out, handle, params->flags);
  params->result = !code                         ? RCUDA_INSTANTIATED
                   : code == RCUDA_INVALID_VALUE ? RCUDA_INSTANTIATED_BAD_SHAPE
                                                 : RCUDA_INSTANTIATED_ERROR;
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
  SIM_ARGS(handle);
  sim_graph_t *x;
  int code = with_exec("cuGraphExecDestroy", handle, &x);
  if (code) return code;
  sim_graph_free(x);
  return sim_leave(0);
}

SIM_EXPORT int cuGraphUpload(rcuda_exec_t *handle, rcuda_stream_t *stream) {
  SIM_ARGS(handle, stream);
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
  SIM_ARGS(exec, handle, params);
  sim_graph_t *x;
  int code = with_exec("cuGraphExecKernelNodeSetParams_v2", exec, &x);
  if (code) return code;
  for (uint32_t i = 0; handle && i < x->count; i++) {
    sim_node_t *n = x->nodes[i];
    sim_op_run_t op;
    if (n->origin != (uint64_t)(uintptr_t)handle) continue;
    if (n->op.kind != SIM_RUN_LAUNCH) return sim_leave(RCUDA_INVALID_VALUE);
    code = sim_node_launch(params, &op);
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
      same = a->after.list[k] == b->after.list[k] &&
             a->after.port[k] == b->after.port[k];
    *result = same ? RCUDA_UPDATE_NOT_SUPPORTED
                   : RCUDA_UPDATE_TOPOLOGY_CHANGED;
    if ((a->op.kind == SIM_RUN_ALLOC || a->op.kind == SIM_RUN_FREE) &&
        a->op.dst != b->op.dst)
      return i; /* memory has an owner */
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
  SIM_ARGS(exec, graph, info);
  sim_graph_t *x;
  int code = with_exec("cuGraphExecUpdate_v2", exec, &x), result;
  if (code) return code;
  sim_graph_t *g = sim_handle_get(SIM_TYPE_GRAPH, graph);
  if (!g || g->is_capturing) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!info) return sim_leave(RCUDA_INVALID_VALUE);
  memset(info, 0, sizeof *info);
  sim_graph_t *now = sim_graph_new(SIM_TYPE_NONE, x->ctx);
  sim_nodes_t ends = {0};
  if (!now) return sim_leave(RCUDA_OUT_OF_MEMORY);
  code = flatten(g, now, UINT32_MAX, 0, &ends);
  sim_nodes_free(&ends);
  uint32_t at = code ? UINT32_MAX : first_change(now, x, &result);
  if (at != UINT32_MAX) {
    info->result = result;
    if (at < now->count)
      info->node = (rcuda_node_t *)(uintptr_t)now->nodes[at]->origin;
    code = RCUDA_GRAPH_UPDATE_FAILURE;
  }
  for (uint32_t i = 0; !code && i < now->count; i++) {
    sim_op_run_t old = x->nodes[i]->op;
    x->nodes[i]->op = now->nodes[i]->op;
    x->nodes[i]->origin = now->nodes[i]->origin;
    now->nodes[i]->op = old; /* freed with it */
  }
  sim_graph_free(now);
  return sim_leave(code);
}

/* The event's newest record is the lane's last operation. */
static bool recorded(sim_event_t *e, uint64_t serial, uint32_t lane) {
  sim_clock_free(&e->clock);
  sim_nodes_free(&e->last);
  e->graph = 0;
  e->has_start = false;
  e->serial = serial;
  e->polls = 1;
  e->is_recorded = sim_clock_join(&e->clock, &sim_lane_of(lane)->clock);
  return e->is_recorded;
}

/* Memory that an earlier launch left must have ended, or ends now, on the
   lane. What the graph ends of others' memory is given away. */
static int settle_memory(const sim_graph_t *x, uint32_t lane, uint64_t ctx) {
  const sim_memory_t *m = &sim_state()->memory;
  for (uint32_t i = 0; i < x->count; i++) {
    const sim_op_run_t *op = &x->nodes[i]->op;
    if (op->kind != SIM_RUN_ALLOC && op->kind != SIM_RUN_FREE) continue;
    sim_alloc_t *a = sim_alloc_find(m, op->dst);
    if (!a || !a->is_kept) return RCUDA_INVALID_VALUE;
    if (op->kind == SIM_RUN_FREE) {
      a->is_given = false;
      continue;
    }
    if (!leaves(x, x->nodes[i])) continue;
    if (a->is_given && !x->frees_before) return RCUDA_INVALID_VALUE;
    if (a->is_given) {
      sim_op_run_t end = {.kind = SIM_RUN_FREE, .name = "cuGraphLaunch",
                          .ctx = ctx, .call = sim_state()->calls,
                          .dst = a->address, .bytes = a->bytes};
      int code = sim_queue_add(lane, &end, NULL, NULL);
      if (code) return code;
    }
    a->is_given = true;
  }
  return 0;
}

/* Of a launch of an executable graph: what comes before each node, then after
   it; and, of launches, before it begins. */
typedef struct launching_t {
  sim_clock_t *clocks, *starts;
} launching_t;

/* Clocks before the node and, if edges let it begin early, before that. */
static bool before_node(const sim_graph_t *x, uint32_t i,
                        const sim_clock_t *base, const launching_t *l,
                        bool *is_early) {
  const sim_nodes_t *after = &x->nodes[i]->after;
  bool ok = sim_clock_join(&l->clocks[i], base) &&
            sim_clock_join(&l->starts[i], base);
  *is_early = false;
  for (uint32_t k = 0; ok && k < after->count; k++) {
    uint32_t from = after->list[k];
    bool lets = after->port[k] == RCUDA_PORT_LAUNCH_ORDER ||
                (after->port[k] && sim_has_trigger(&x->nodes[from]->op));
    *is_early = *is_early || lets;
    ok = sim_clock_join(&l->clocks[i], &l->clocks[from]) &&
         sim_clock_join(&l->starts[i],
                        lets ? &l->starts[from] : &l->clocks[from]);
  }
  return ok;
}

/* Queues the nodes after what the lane holds. */
static int launch_nodes(const sim_graph_t *x, uint64_t ctx,
                        const sim_clock_t *base, const launching_t *l,
                        sim_clock_t *all) {
  for (uint32_t i = 0; i < x->count; i++) {
    const sim_node_t *n = x->nodes[i];
    uint32_t lane = x->lanes[n->chain];
    sim_op_run_t op;
    bool is_now = false, is_early;
    sim_clock_t *clock = &l->clocks[i];
    bool ok = before_node(x, i, base, l, &is_early);
    sim_event_t *e =
        n->op.event ? sim_handle_number(SIM_TYPE_EVENT, n->op.event) : NULL;
    if (n->op.event && !e) return RCUDA_INVALID_HANDLE;
    if (n->op.kind == SIM_RUN_WAIT)
      ok = ok && sim_clock_join(clock, &e->clock);
    if (!ok || !sim_op_copy(&op, &n->op)) return RCUDA_OUT_OF_MEMORY;
    op.call = sim_state()->calls;
    if (!op.ctx) op.ctx = ctx; /* a node that names none */
    if (op.kind == SIM_RUN_EVENT) op.serial = ++sim_state()->serial;
    int code = sim_submit_lane(lane, &op, clock,
                               is_early ? &l->starts[i] : NULL, &is_now);
    if (code) return code;
    if (n->op.kind == SIM_RUN_EVENT && !recorded(e, op.serial, lane))
      return RCUDA_OUT_OF_MEMORY;
    if (!sim_clock_join(clock, &sim_lane_of(lane)->clock) ||
        !sim_clock_join(all, clock))
      return RCUDA_OUT_OF_MEMORY;
  }
  return 0;
}

SIM_EXPORT int cuGraphLaunch(rcuda_exec_t *handle, rcuda_stream_t *stream) {
  SIM_ARGS(handle, stream);
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
  sim_clock_t *clocks = calloc(x->count + 1u, 2 * sizeof *clocks);
  launching_t l = {clocks, clocks ? clocks + x->count + 1 : NULL};
  if (!clocks || !sim_queue_implicit(lane)) {
    free(clocks);
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  }
  uint64_t owner = s ? s->ctx : ctx->handle;
  code = settle_memory(x, lane, owner);
  /* an executable graph does not run beside itself */
  for (uint32_t i = 0; !code && i < x->lane_count; i++)
    if (!sim_clock_join(&all, &sim_lane_of(x->lanes[i])->clock))
      code = RCUDA_OUT_OF_MEMORY;
  if (!code && !sim_clock_join(&all, &sim_lane_of(lane)->clock))
    code = RCUDA_OUT_OF_MEMORY;
  sim_clock_t base = {0};
  if (!code && !sim_clock_join(&base, &all)) code = RCUDA_OUT_OF_MEMORY;
  if (!code) code = launch_nodes(x, owner, &base, &l, &all);
  for (uint32_t i = 0; i < x->count; i++) {
    sim_clock_free(&l.clocks[i]);
    sim_clock_free(&l.starts[i]);
  }
  free(clocks);
  sim_clock_free(&base);
  sim_op_run_t end = {.kind = SIM_RUN_EMPTY, .name = "cuGraphLaunch",
                       .ctx = owner, .call = sim_state()->calls};
  if (!code) code = sim_queue_add(lane, &end, &all, NULL);
  sim_clock_free(&all);
  if (s) s->polls = 1;
  return sim_leave(code);
}
