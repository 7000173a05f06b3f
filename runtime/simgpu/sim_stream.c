/* Exported cu* functions: streams, events, captured graphs. Operations run
   when they are submitted, in issue order, which respects every edge that
   streams and events make. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

/* -- streams -- */

SIM_EXPORT int cuStreamCreateWithPriority(rcuda_stream_t **out,
                                          unsigned flags, int priority) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuStreamCreateWithPriority", &ctx);
  if (code) return code;
  if (!out || flags > 1) return sim_leave(RCUDA_INVALID_VALUE);
  sim_stream_t *s = calloc(1, sizeof *s);
  if (!s) return sim_leave(RCUDA_OUT_OF_MEMORY);
  s->ctx = ctx->handle;
  s->flags = flags;
  s->priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
  s->id = ++sim_state()->streams;
  s->handle = sim_handle_new(SIM_TYPE_STREAM, s);
  if (!s->handle) {
    free(s);
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  }
  *out = (rcuda_stream_t *)(uintptr_t)s->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuStreamCreate(rcuda_stream_t **out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

/* Enters with a stream; *out is NULL for the default one. */
static int with_stream(const char *name, const void *handle,
                       sim_stream_t **out) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  return sim_stream_of(handle, out) ? 0 : sim_leave(RCUDA_INVALID_HANDLE);
}

SIM_EXPORT int cuStreamDestroy_v2(rcuda_stream_t *handle) {
  sim_stream_t *s;
  int code = with_stream("cuStreamDestroy_v2", handle, &s);
  if (code) return code;
  if (!s) return sim_leave(RCUDA_INVALID_HANDLE);
  sim_handle_drop(s->handle);
  free(s);
  return sim_leave(0);
}

/* Waiting in a capture breaks it. */
static int no_capture(sim_stream_t *s) {
  if (!s || !s->graph) return 0;
  sim_graph_t *g = sim_handle_number(SIM_TYPE_GRAPH, s->graph);
  if (g) g->is_broken = true;
  return RCUDA_CAPTURE_UNSUPPORTED;
}

SIM_EXPORT int cuStreamQuery(rcuda_stream_t *handle) {
  sim_stream_t *s;
  int code = with_stream("cuStreamQuery", handle, &s);
  if (code) return code;
  code = no_capture(s);
  if (!code && s && s->polls) {
    s->polls--;
    code = RCUDA_NOT_READY;
  }
  return sim_leave(code);
}

SIM_EXPORT int cuStreamSynchronize(rcuda_stream_t *handle) {
  sim_stream_t *s;
  int code = with_stream("cuStreamSynchronize", handle, &s);
  if (code) return code;
  code = no_capture(s);
  if (s) s->polls = 0;
  return sim_leave(code);
}

SIM_EXPORT int cuStreamGetPriority(rcuda_stream_t *handle, int *out) {
  sim_stream_t *s;
  int code = with_stream("cuStreamGetPriority", handle, &s);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = s ? s->priority : 0;
  return sim_leave(0);
}

SIM_EXPORT int cuStreamGetFlags(rcuda_stream_t *handle, unsigned *out) {
  sim_stream_t *s;
  int code = with_stream("cuStreamGetFlags", handle, &s);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = s ? s->flags : 0;
  return sim_leave(0);
}

SIM_EXPORT int cuStreamGetId(rcuda_stream_t *handle,
                             unsigned long long *out) {
  sim_stream_t *s;
  int code = with_stream("cuStreamGetId", handle, &s);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = s ? s->id : 0;
  return sim_leave(0);
}

SIM_EXPORT int cuStreamGetCtx(rcuda_stream_t *handle, rcuda_ctx_t **out) {
  sim_stream_t *s;
  int code = with_stream("cuStreamGetCtx", handle, &s);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = (rcuda_ctx_t *)(uintptr_t)(s ? s->ctx : sim_current()->handle);
  return sim_leave(0);
}

/* -- events -- */

SIM_EXPORT int cuEventCreate(rcuda_event_t **out, unsigned flags) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuEventCreate", &ctx);
  if (code) return code;
  if (!out || flags > 7) return sim_leave(RCUDA_INVALID_VALUE);
  sim_event_t *e = calloc(1, sizeof *e);
  if (!e) return sim_leave(RCUDA_OUT_OF_MEMORY);
  e->ctx = ctx->handle;
  e->flags = flags;
  e->handle = sim_handle_new(SIM_TYPE_EVENT, e);
  if (!e->handle) {
    free(e);
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  }
  *out = (rcuda_event_t *)(uintptr_t)e->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuEventDestroy_v2(rcuda_event_t *handle) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuEventDestroy_v2", &ctx);
  if (code) return code;
  sim_event_t *e = sim_handle_get(SIM_TYPE_EVENT, handle);
  if (!e) return sim_leave(RCUDA_INVALID_HANDLE);
  sim_handle_drop(e->handle);
  free(e);
  return sim_leave(0);
}

SIM_EXPORT int cuEventRecordWithFlags(rcuda_event_t *handle,
                                      rcuda_stream_t *stream,
                                      unsigned flags) {
  sim_stream_t *s;
  int code = with_stream("cuEventRecordWithFlags", stream, &s);
  if (code) return code;
  sim_event_t *e = sim_handle_get(SIM_TYPE_EVENT, handle);
  if (!e) return sim_leave(RCUDA_INVALID_HANDLE);
  if (flags > 1) return sim_leave(RCUDA_INVALID_VALUE);
  if (s && s->graph) {
    e->graph = s->graph;
    e->is_recorded = false;
    return sim_leave(0);
  }
  sim_state_t *st = sim_state();
  e->graph = 0;
  e->is_recorded = true;
  e->polls = s ? s->polls : 0;
  e->work = 0;
  for (size_t i = 0; i < st->record_count; i++)
    e->work += st->records[i].totals.counters[SIM_COUNTER_WARP_INST];
  return sim_leave(0);
}

SIM_EXPORT int cuEventRecord(rcuda_event_t *event, rcuda_stream_t *stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}

static int with_event(const char *name, const void *handle,
                      sim_event_t **out) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  *out = sim_handle_get(SIM_TYPE_EVENT, handle);
  if (!*out) return sim_leave(RCUDA_INVALID_HANDLE);
  return (*out)->graph ? sim_leave(RCUDA_CAPTURED_EVENT) : 0;
}

SIM_EXPORT int cuEventQuery(rcuda_event_t *handle) {
  sim_event_t *e;
  int code = with_event("cuEventQuery", handle, &e);
  if (code) return code;
  if (e->polls) {
    e->polls--;
    return sim_leave(RCUDA_NOT_READY);
  }
  return sim_leave(0);
}

SIM_EXPORT int cuEventSynchronize(rcuda_event_t *handle) {
  sim_event_t *e;
  int code = with_event("cuEventSynchronize", handle, &e);
  if (code) return code;
  e->polls = 0;
  return sim_leave(0);
}

/* Work, not time: a millisecond for a million warp instructions. */
SIM_EXPORT int cuEventElapsedTime_v2(float *out, rcuda_event_t *start,
                                     rcuda_event_t *end) {
  sim_event_t *a, *b;
  int code = with_event("cuEventElapsedTime_v2", start, &a);
  if (code) return code;
  b = sim_handle_get(SIM_TYPE_EVENT, end);
  if (!b || !a->is_recorded || !b->is_recorded ||
      ((a->flags | b->flags) & RCUDA_EVENT_DISABLE_TIMING))
    return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  double work = (double)b->work - (double)a->work;
  *out = (float)(work / 1e6);
  return sim_leave(0);
}

SIM_EXPORT int cuStreamWaitEvent(rcuda_stream_t *stream,
                                 rcuda_event_t *handle, unsigned flags) {
  sim_stream_t *s;
  int code = with_stream("cuStreamWaitEvent", stream, &s);
  if (code) return code;
  sim_event_t *e = sim_handle_get(SIM_TYPE_EVENT, handle);
  if (!e) return sim_leave(RCUDA_INVALID_HANDLE);
  if (flags > 1) return sim_leave(RCUDA_INVALID_VALUE);
  if (e->graph) {
    if (!s) return sim_leave(RCUDA_CAPTURE_IMPLICIT);
    if (s->graph && s->graph != e->graph)
      return sim_leave(RCUDA_CAPTURE_MERGE);
    s->graph = e->graph; /* the stream joins the capture */
  } else if (s && s->graph) {
    return sim_leave(RCUDA_CAPTURE_ISOLATION);
  }
  return sim_leave(0);
}

/* -- capture -- */

static sim_graph_t *new_graph(sim_type_t type) {
  sim_graph_t *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->handle = sim_handle_new(type, g);
  if (g->handle) return g;
  free(g);
  return NULL;
}

static void free_graph(sim_graph_t *g) {
  for (size_t i = 0; i < g->count; i++) sim_op_free(&g->ops[i]);
  sim_handle_drop(g->handle);
  free(g->ops);
  free(g);
}

SIM_EXPORT int cuStreamBeginCapture_v2(rcuda_stream_t *stream, int mode) {
  sim_stream_t *s;
  int code = with_stream("cuStreamBeginCapture_v2", stream, &s);
  if (code) return code;
  if (!s) return sim_leave(RCUDA_CAPTURE_UNSUPPORTED);
  if (mode < 0 || mode > 2) return sim_leave(RCUDA_INVALID_VALUE);
  if (s->graph) return sim_leave(RCUDA_ILLEGAL_STATE);
  sim_graph_t *g = new_graph(SIM_TYPE_GRAPH);
  if (!g) return sim_leave(RCUDA_OUT_OF_MEMORY);
  s->graph = g->handle;
  s->is_origin = true;
  return sim_leave(0);
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
  sim_state_t *st = sim_state();
  for (size_t i = 0; i < st->slot_count; i++) {
    sim_stream_t *other = st->slots[i].object;
    sim_event_t *e = st->slots[i].object;
    if (!other) continue;
    if (st->slots[i].type == SIM_TYPE_STREAM && other->graph == s->graph &&
        other != s)
      other->graph = 0;
    if (st->slots[i].type == SIM_TYPE_EVENT && e->graph == s->graph)
      e->graph = 0;
  }
  s->graph = 0;
  s->is_origin = false;
  *out = NULL;
  if (!g) return sim_leave(RCUDA_CAPTURE_INVALIDATED);
  if (g->is_broken) {
    free_graph(g);
    return sim_leave(RCUDA_CAPTURE_INVALIDATED);
  }
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
  *out = !s || !s->graph        ? RCUDA_CAPTURE_NONE
         : g && !g->is_broken ? RCUDA_CAPTURE_ACTIVE
                              : RCUDA_CAPTURE_BROKEN;
  return sim_leave(0);
}

SIM_EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) {
  if (!mode || *mode < 0 || *mode > 2) return RCUDA_INVALID_VALUE;
  *mode = RCUDA_CAPTURE_GLOBAL;
  return 0;
}

/* -- graphs -- */

SIM_EXPORT int cuGraphCreate(rcuda_graph_t **out, unsigned flags) {
  int code = sim_enter("cuGraphCreate", true);
  if (code) return code;
  if (!out || flags) return sim_leave(RCUDA_INVALID_VALUE);
  sim_graph_t *g = new_graph(SIM_TYPE_GRAPH);
  if (!g) return sim_leave(RCUDA_OUT_OF_MEMORY);
  *out = (rcuda_graph_t *)(uintptr_t)g->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuGraphDestroy(rcuda_graph_t *handle) {
  int code = sim_enter("cuGraphDestroy", true);
  if (code) return code;
  sim_graph_t *g = sim_handle_get(SIM_TYPE_GRAPH, handle);
  if (!g) return sim_leave(RCUDA_INVALID_HANDLE);
  free_graph(g);
  return sim_leave(0);
}

/* Only counts: nodes of a captured graph are not handed out. */
SIM_EXPORT int cuGraphGetNodes(rcuda_graph_t *handle, rcuda_node_t **nodes,
                               size_t *count) {
  int code = sim_enter("cuGraphGetNodes", true);
  if (code) return code;
  sim_graph_t *g = sim_handle_get(SIM_TYPE_GRAPH, handle);
  if (!g) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!count) return sim_leave(RCUDA_INVALID_VALUE);
  if (nodes) return sim_leave(RCUDA_NOT_SUPPORTED);
  *count = g->count;
  return sim_leave(0);
}

SIM_EXPORT int cuGraphInstantiateWithFlags(rcuda_exec_t **out,
                                           rcuda_graph_t *handle,
                                           unsigned long long flags) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuGraphInstantiateWithFlags", &ctx);
  (void)flags;
  if (code) return code;
  sim_graph_t *g = sim_handle_get(SIM_TYPE_GRAPH, handle);
  if (!g) return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  sim_graph_t *x = new_graph(SIM_TYPE_EXEC);
  if (!x) return sim_leave(RCUDA_OUT_OF_MEMORY);
  x->ops = calloc(g->count + 1, sizeof *x->ops);
  if (!x->ops) {
    free_graph(x);
    return sim_leave(RCUDA_OUT_OF_MEMORY);
  }
  x->capacity = g->count + 1;
  for (size_t i = 0; i < g->count; i++) {
    x->ops[i] = g->ops[i];
    x->ops[i].launch.params = NULL;
    x->count++;
    if (g->ops[i].kind != SIM_RUN_LAUNCH) continue;
    const sim_func_t *f =
        sim_handle_number(SIM_TYPE_FUNC, g->ops[i].launch.func);
    uint8_t *copy = f ? calloc(1, f->ptx->param_bytes + 16u) : NULL;
    if (!copy) {
      free_graph(x);
      return sim_leave(f ? RCUDA_OUT_OF_MEMORY : RCUDA_INVALID_HANDLE);
    }
    memcpy(copy, g->ops[i].launch.params, f->ptx->param_bytes);
    x->ops[i].launch.params = copy;
  }
  *out = (rcuda_exec_t *)(uintptr_t)x->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuGraphExecDestroy(rcuda_exec_t *handle) {
  int code = sim_enter("cuGraphExecDestroy", true);
  if (code) return code;
  sim_graph_t *x = sim_handle_get(SIM_TYPE_EXEC, handle);
  if (!x) return sim_leave(RCUDA_INVALID_HANDLE);
  free_graph(x);
  return sim_leave(0);
}

SIM_EXPORT int cuGraphUpload(rcuda_exec_t *handle, rcuda_stream_t *stream) {
  int code = sim_enter("cuGraphUpload", true);
  (void)stream;
  if (code) return code;
  return sim_leave(sim_handle_get(SIM_TYPE_EXEC, handle)
                       ? 0
                       : RCUDA_INVALID_HANDLE);
}

SIM_EXPORT int cuGraphLaunch(rcuda_exec_t *handle, rcuda_stream_t *stream) {
  sim_stream_t *s;
  int code = with_stream("cuGraphLaunch", stream, &s);
  if (code) return code;
  sim_graph_t *x = sim_handle_get(SIM_TYPE_EXEC, handle);
  if (!x) return sim_leave(RCUDA_INVALID_HANDLE);
  if (s && s->graph) return sim_leave(RCUDA_CAPTURE_UNSUPPORTED);
  for (size_t i = 0; i < x->count && !code; i++) {
    code = sim_run(&x->ops[i]);
    sim_ctx_t *ctx = sim_handle_number(SIM_TYPE_CTX, x->ops[i].ctx);
    if (ctx && ctx->sticky) break;
  }
  if (s) s->polls = 1;
  return sim_leave(code);
}
