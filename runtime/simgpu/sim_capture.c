/* Exported cu* functions: captures. A capture keeps, for every stream in it,
   the nodes that its next node comes after; events carry such a set from
   stream to stream. */
#include "runtime/simgpu/sim_graph.h"

#include <stdlib.h>

int sim_capture(sim_stream_t *stream, const sim_op_run_t *op) {
  sim_graph_t *g = sim_handle_number(SIM_TYPE_GRAPH, stream->graph);
  sim_op_run_t mine = *op;
  if (!g || g->is_broken) {
    sim_op_free(&mine);
    return RCUDA_CAPTURE_INVALIDATED;
  }
  /* between launches, a programmatic edge; else none that begins early */
  bool is_launch = mine.kind == SIM_RUN_LAUNCH;
  for (uint32_t i = 0; i < stream->last.count; i++) {
    const sim_node_t *n = g->nodes[stream->last.list[i]];
    uint8_t *port = &stream->last.port[i];
    if (!is_launch || n->op.kind != SIM_RUN_LAUNCH)
      *port = RCUDA_PORT_DEFAULT;
    else if (mine.launch.is_programmatic && !*port)
      *port = RCUDA_PORT_PROGRAMMATIC;
  }
  mine.launch.is_programmatic = false; /* the edges say it now */
  if (!sim_graph_add(g, &mine, &stream->last, true)) return RCUDA_OUT_OF_MEMORY;
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
  SIM_ARGS(stream, mode);
  sim_stream_t *s;
  int code = with_stream("cuStreamBeginCapture_v2", stream, &s);
  if (code) return code;
  if (!s) return sim_leave(RCUDA_CAPTURE_UNSUPPORTED);
  if (mode < 0 || mode > 2) return sim_leave(RCUDA_INVALID_VALUE);
  if (s->graph) return sim_leave(RCUDA_ILLEGAL_STATE);
  sim_graph_t *g = sim_graph_new(SIM_TYPE_GRAPH, s->ctx);
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
  SIM_ARGS(stream, out);
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
  SIM_ARGS(stream, out);
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
  SIM_ARGS(mode);
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

int sim_capture_free(sim_stream_t *stream, const char *name,
                     uint64_t address) {
  sim_graph_t *g = sim_handle_number(SIM_TYPE_GRAPH, stream->graph);
  if (!g || g->is_broken) return RCUDA_CAPTURE_INVALIDATED;
  if (!sim_graph_frees(g, address)) return RCUDA_INVALID_VALUE;
  sim_op_run_t op = {.kind = SIM_RUN_FREE, .name = name, .ctx = stream->ctx,
                     .call = sim_state()->calls, .dst = address,
                     .bytes = sim_alloc_find(&sim_state()->memory,
                                             address)->bytes};
  return sim_capture(stream, &op);
}

/* What the stream's next node comes after is lent until the next call. */
SIM_EXPORT int cuStreamGetCaptureInfo_v3(
    rcuda_stream_t *stream, int *status, uint64_t *id, rcuda_graph_t **graph,
    rcuda_node_t *const **after, const rcuda_edge_t **edges, size_t *count) {
  SIM_ARGS(stream, status, id, graph, after, edges, count);
  sim_stream_t *s;
  int code = with_stream("cuStreamGetCaptureInfo_v3", stream, &s);
  if (code) return code;
  if (!status) return sim_leave(RCUDA_INVALID_VALUE);
  if (!s) {
    code = sim_no_implicit(sim_current());
    *status = RCUDA_CAPTURE_NONE;
    return sim_leave(code);
  }
  const sim_graph_t *g = sim_handle_number(SIM_TYPE_GRAPH, s->graph);
  *status = !s->graph            ? RCUDA_CAPTURE_NONE
            : g && !g->is_broken ? RCUDA_CAPTURE_ACTIVE
                                 : RCUDA_CAPTURE_BROKEN;
  if (*status != RCUDA_CAPTURE_ACTIVE) return sim_leave(0);
  uint32_t n = s->last.count;
  bool is_plain = true;
  if (after || edges) {
    rcuda_node_t **lent = realloc(s->lent, (n + 1u) * sizeof *lent);
    if (!lent) return sim_leave(RCUDA_OUT_OF_MEMORY);
    s->lent = lent;
    rcuda_edge_t *data = realloc(s->lent_edges, (n + 1u) * sizeof *data);
    if (!data) return sim_leave(RCUDA_OUT_OF_MEMORY);
    s->lent_edges = data;
    for (uint32_t i = 0; i < n; i++) {
      lent[i] = (rcuda_node_t *)(uintptr_t)g->nodes[s->last.list[i]]->handle;
      data[i] = sim_edge_of(s->last.port[i]);
      is_plain = is_plain && !s->last.port[i];
    }
  }
  if (id) *id = g->number;
  if (graph) *graph = (rcuda_graph_t *)(uintptr_t)g->handle;
  if (after) *after = s->lent;
  if (edges) *edges = is_plain ? NULL : s->lent_edges;
  if (count) *count = n;
  return sim_leave(after && !edges && !is_plain ? RCUDA_LOSSY_QUERY : 0);
}
