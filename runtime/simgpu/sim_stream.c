/* Exported cu* functions: streams and events. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

/* -- streams -- */

/* NULL without memory. */
static sim_stream_t *new_stream(const sim_ctx_t *ctx, unsigned flags,
                                int priority) {
  sim_stream_t *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->ctx = ctx->handle;
  s->flags = flags;
  s->priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
  s->id = ++sim_state()->streams;
  s->lane = sim_lane_new(ctx->handle, !(flags & RCUDA_STREAM_NON_BLOCKING),
                         false);
  s->handle = s->lane == UINT32_MAX ? 0 : sim_handle_new(SIM_TYPE_STREAM, s);
  if (!s->handle) {
    if (s->lane != UINT32_MAX) sim_lane_close(s->lane);
    free(s);
    return NULL;
  }
  return s;
}

/* One that ended with its context makes room for the next. */
sim_stream_t *sim_stream_of_thread(void) {
  const sim_ctx_t *ctx = sim_current();
  sim_thread_t *t = sim_thread();
  if (!ctx || !t) return NULL;
  uint32_t at = t->stream_count;
  for (uint32_t i = 0; i < t->stream_count; i++) {
    sim_stream_t *s = sim_handle_number(SIM_TYPE_STREAM, t->streams[i]);
    if (s && s->ctx == ctx->handle) return s;
    if (!s) at = i;
  }
  if (at == t->stream_count) {
    uint64_t *list = realloc(t->streams, (at + 1) * sizeof *list);
    if (!list) return NULL;
    t->streams = list;
  }
  sim_stream_t *s = new_stream(ctx, 0, 0);
  if (!s) return NULL;
  t->streams[at] = s->handle;
  if (at == t->stream_count) t->stream_count++;
  return s;
}

static int create_stream(const char *name, rcuda_stream_t **out,
                         unsigned flags, int priority) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!out || flags > 1) return sim_leave(RCUDA_INVALID_VALUE);
  const sim_stream_t *s = new_stream(ctx, flags, priority);
  if (!s) return sim_leave(RCUDA_OUT_OF_MEMORY);
  *out = (rcuda_stream_t *)(uintptr_t)s->handle;
  return sim_leave(0);
}

SIM_EXPORT int cuStreamCreateWithPriority(rcuda_stream_t **out,
                                          unsigned flags, int priority) {
  SIM_ARGS(out, flags, priority);
  return create_stream("cuStreamCreateWithPriority", out, flags, priority);
}

SIM_EXPORT int cuStreamCreate(rcuda_stream_t **out, unsigned flags) {
  SIM_ARGS(out, flags);
  return create_stream("cuStreamCreate", out, flags, 0);
}

/* Enters with a stream; *out is NULL for the default one. */
static int with_stream(const char *name, const void *handle,
                       sim_stream_t **out) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  return sim_stream_of(handle, out) ? 0 : sim_leave(RCUDA_INVALID_HANDLE);
}

void sim_stream_free(sim_stream_t *s) {
  sim_graph_t *g = sim_handle_number(SIM_TYPE_GRAPH, s->graph);
  if (g) g->is_broken = true; /* its capture can no longer end */
  sim_handle_drop(s->handle);
  sim_nodes_free(&s->last);
  free(s->lent);
  free(s->lent_edges);
  free(s);
}

SIM_EXPORT int cuStreamDestroy_v2(rcuda_stream_t *handle) {
  SIM_ARGS(handle);
  sim_stream_t *s;
  int code = with_stream("cuStreamDestroy_v2", handle, &s);
  if (code) return code;
  if (!s || handle == RCUDA_STREAM_PER_THREAD)
    return sim_leave(RCUDA_INVALID_HANDLE);
  sim_lane_close(s->lane); /* what is queued still runs */
  sim_stream_free(s);
  return sim_leave(0);
}

/* Waiting in a capture breaks it. */
static int no_capture(sim_stream_t *s) {
  if (!s || !s->graph) return 0;
  sim_graph_t *g = sim_handle_number(SIM_TYPE_GRAPH, s->graph);
  if (g) g->is_broken = true;
  return RCUDA_CAPTURE_UNSUPPORTED;
}

/* What a wait for the stream waits for; NULL without memory. */
static const sim_clock_t *stream_clock(const sim_stream_t *s, uint64_t *ctx) {
  const sim_ctx_t *current = sim_current();
  uint32_t lane = sim_lane_of_stream(current, s);
  *ctx = s ? s->ctx : current->handle;
  return sim_queue_implicit(lane) ? &sim_lane_of(lane)->clock : NULL;
}

/* Pending work is done after a bounded number of questions. */
SIM_EXPORT int cuStreamQuery(rcuda_stream_t *handle) {
  SIM_ARGS(handle);
  sim_stream_t *s;
  uint64_t ctx;
  int code = with_stream("cuStreamQuery", handle, &s);
  if (code) return code;
  code = s ? no_capture(s) : sim_no_implicit(sim_current());
  if (code) return sim_leave(code);
  const sim_clock_t *clock = stream_clock(s, &ctx);
  if (!clock) return sim_leave(RCUDA_OUT_OF_MEMORY);
  if (s && s->polls && !sim_queue_is_done(clock)) {
    s->polls--;
    return sim_leave(RCUDA_NOT_READY);
  }
  return sim_leave(sim_try(ctx, clock));
}

SIM_EXPORT int cuStreamSynchronize(rcuda_stream_t *handle) {
  SIM_ARGS(handle);
  sim_stream_t *s;
  uint64_t ctx;
  int code = with_stream("cuStreamSynchronize", handle, &s);
  if (code) return code;
  code = s ? no_capture(s) : sim_no_implicit(sim_current());
  if (code) return sim_leave(code);
  const sim_clock_t *clock = stream_clock(s, &ctx);
  if (!clock) return sim_leave(RCUDA_OUT_OF_MEMORY);
  if (s) s->polls = 0;
  return sim_leave(sim_wait(ctx, clock));
}

SIM_EXPORT int cuStreamGetPriority(rcuda_stream_t *handle, int *out) {
  SIM_ARGS(handle, out);
  sim_stream_t *s;
  int code = with_stream("cuStreamGetPriority", handle, &s);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = s ? s->priority : 0;
  return sim_leave(0);
}

SIM_EXPORT int cuStreamGetFlags(rcuda_stream_t *handle, unsigned *out) {
  SIM_ARGS(handle, out);
  sim_stream_t *s;
  int code = with_stream("cuStreamGetFlags", handle, &s);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = s ? s->flags : 0;
  return sim_leave(0);
}

SIM_EXPORT int cuStreamGetId(rcuda_stream_t *handle,
                             unsigned long long *out) {
  SIM_ARGS(handle, out);
  sim_stream_t *s;
  int code = with_stream("cuStreamGetId", handle, &s);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = s ? s->id : 0;
  return sim_leave(0);
}

SIM_EXPORT int cuStreamGetCtx(rcuda_stream_t *handle, rcuda_ctx_t **out) {
  SIM_ARGS(handle, out);
  sim_stream_t *s;
  int code = with_stream("cuStreamGetCtx", handle, &s);
  if (code) return code;
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  *out = (rcuda_ctx_t *)(uintptr_t)(s ? s->ctx : sim_current()->handle);
  return sim_leave(0);
}

/* -- events -- */

SIM_EXPORT int cuEventCreate(rcuda_event_t **out, unsigned flags) {
  SIM_ARGS(out, flags);
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

void sim_event_free(sim_event_t *e) {
  sim_handle_drop(e->handle);
  sim_nodes_free(&e->last);
  sim_clock_free(&e->clock);
  sim_clock_free(&e->start);
  free(e);
}

SIM_EXPORT int cuEventDestroy_v2(rcuda_event_t *handle) {
  SIM_ARGS(handle);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuEventDestroy_v2", &ctx);
  if (code) return code;
  sim_event_t *e = sim_handle_get(SIM_TYPE_EVENT, handle);
  if (!e) return sim_leave(RCUDA_INVALID_HANDLE);
  sim_event_free(e);
  return sim_leave(0);
}

/* The event stands for what the stream holds now. */
int sim_record_event(const void *handle, const void *stream) {
  sim_stream_t *s;
  sim_event_t *e = sim_handle_get(SIM_TYPE_EVENT, handle);
  if (!e || !sim_stream_of(stream, &s)) return RCUDA_INVALID_HANDLE;
  sim_nodes_free(&e->last);
  e->has_start = false;
  if (s && s->graph) {
    e->graph = s->graph;
    e->is_recorded = false;
    return sim_nodes_join(&e->last, &s->last) ? 0 : RCUDA_OUT_OF_MEMORY;
  }
  e->graph = 0;
  e->serial = ++sim_state()->serial;
  sim_op_run_t op = {.kind = SIM_RUN_EVENT, .name = "cuEventRecord",
                     .event = e->handle, .serial = e->serial};
  uint32_t lane = sim_lane_of_stream(sim_current(), s);
  int code = sim_submit(sim_current(), stream, &op);
  sim_clock_free(&e->clock);
  e->is_recorded = !code &&
                   sim_clock_join(&e->clock, &sim_lane_of(lane)->clock);
  e->polls = 1;
  return code;
}

int sim_record_launch(const void *handle, const void *stream, uint8_t port,
                      const sim_clock_t *start) {
  sim_stream_t *s;
  sim_event_t *e = sim_handle_get(SIM_TYPE_EVENT, handle);
  if (!e || !sim_stream_of(stream, &s)) return RCUDA_INVALID_HANDLE;
  sim_nodes_free(&e->last);
  e->has_start = false;
  if (s && s->graph) {
    e->graph = s->graph;
    e->is_recorded = false;
    for (uint32_t i = 0; i < s->last.count; i++)
      if (!sim_nodes_add_port(&e->last, s->last.list[i], port))
        return RCUDA_OUT_OF_MEMORY;
    return 0;
  }
  uint32_t lane = sim_lane_of_stream(sim_current(), s);
  e->graph = 0;
  e->serial = ++sim_state()->serial;
  e->polls = 1;
  e->has_start = e->is_recorded =
      sim_clock_copy(&e->clock, &sim_lane_of(lane)->clock) &&
      sim_clock_copy(&e->start, start);
  return e->is_recorded ? 0 : RCUDA_OUT_OF_MEMORY;
}

static int record_event(const char *name, rcuda_event_t *handle,
                        rcuda_stream_t *stream, unsigned flags) {
  sim_stream_t *s;
  int code = with_stream(name, stream, &s);
  if (code) return code;
  sim_event_t *e = sim_handle_get(SIM_TYPE_EVENT, handle);
  if (!e) return sim_leave(RCUDA_INVALID_HANDLE);
  if (flags > 1) return sim_leave(RCUDA_INVALID_VALUE);
  if (e->ctx != (s ? s->ctx : sim_current()->handle))
    return sim_leave(RCUDA_INVALID_HANDLE);
  if (s && s->graph && flags == RCUDA_EVENT_EXTERNAL) {
    sim_op_run_t node = {.kind = SIM_RUN_EVENT, .name = name,
                         .event = e->handle};
    return sim_leave(sim_submit(sim_current(), stream, &node));
  }
  return sim_leave(sim_record_event(handle, stream));
}

SIM_EXPORT int cuEventRecordWithFlags(rcuda_event_t *event,
                                      rcuda_stream_t *stream,
                                      unsigned flags) {
  SIM_ARGS(event, stream, flags);
  return record_event("cuEventRecordWithFlags", event, stream, flags);
}

SIM_EXPORT int cuEventRecord(rcuda_event_t *event, rcuda_stream_t *stream) {
  SIM_ARGS(event, stream);
  return record_event("cuEventRecord", event, stream, 0);
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

/* What comes before it fires. */
static const sim_clock_t *fires_at(const sim_event_t *e) {
  return e->has_start ? &e->start : &e->clock;
}

SIM_EXPORT int cuEventQuery(rcuda_event_t *handle) {
  SIM_ARGS(handle);
  sim_event_t *e;
  int code = with_event("cuEventQuery", handle, &e);
  if (code) return code;
  if (e->polls && !sim_queue_is_done(fires_at(e))) {
    e->polls--;
    return sim_leave(RCUDA_NOT_READY);
  }
  return sim_leave(sim_try(e->ctx, fires_at(e)));
}

SIM_EXPORT int cuEventSynchronize(rcuda_event_t *handle) {
  SIM_ARGS(handle);
  sim_event_t *e;
  int code = with_event("cuEventSynchronize", handle, &e);
  if (code) return code;
  e->polls = 0;
  return sim_leave(sim_wait(e->ctx, fires_at(e)));
}

/* Work, not time: a millisecond for a million warp instructions. */
SIM_EXPORT int cuEventElapsedTime_v2(float *out, rcuda_event_t *start,
                                     rcuda_event_t *end) {
  SIM_ARGS(out, start, end);
  sim_event_t *a, *b;
  int code = with_event("cuEventElapsedTime_v2", start, &a);
  if (code) return code;
  b = sim_handle_get(SIM_TYPE_EVENT, end);
  if (!b || !a->is_recorded || !b->is_recorded ||
      ((a->flags | b->flags) & RCUDA_EVENT_DISABLE_TIMING))
    return sim_leave(RCUDA_INVALID_HANDLE);
  if (!out) return sim_leave(RCUDA_INVALID_VALUE);
  if (!sim_queue_is_done(&a->clock) || !sim_queue_is_done(&b->clock))
    return sim_leave(RCUDA_NOT_READY);
  double work = (double)b->work - (double)a->work;
  *out = (float)(work / 1e6);
  return sim_leave(0);
}

SIM_EXPORT int cuStreamWaitEvent(rcuda_stream_t *stream,
                                 rcuda_event_t *handle, unsigned flags) {
  SIM_ARGS(stream, handle, flags);
  sim_stream_t *s;
  int code = with_stream("cuStreamWaitEvent", stream, &s);
  if (code) return code;
  sim_event_t *e = sim_handle_get(SIM_TYPE_EVENT, handle);
  if (!e) return sim_leave(RCUDA_INVALID_HANDLE);
  if (flags > 1) return sim_leave(RCUDA_INVALID_VALUE);
  if (s && s->graph && flags == RCUDA_EVENT_EXTERNAL) {
    sim_op_run_t node = {.kind = SIM_RUN_WAIT, .name = "cuStreamWaitEvent",
                         .event = e->handle};
    return sim_leave(sim_submit(sim_current(), stream, &node));
  }
  if (e->graph) {
    if (!s) return sim_leave(RCUDA_CAPTURE_IMPLICIT);
    if (s->graph && s->graph != e->graph)
      return sim_leave(RCUDA_CAPTURE_MERGE);
    s->graph = e->graph; /* the stream joins the capture */
    return sim_leave(sim_nodes_join(&s->last, &e->last)
                         ? 0
                         : RCUDA_OUT_OF_MEMORY);
  }
  if (s && s->graph) return sim_leave(RCUDA_CAPTURE_ISOLATION);
  /* an event that was never recorded is no wait */
  uint32_t lane = sim_lane_of_stream(sim_current(), s);
  return sim_leave(sim_lane_join(lane, &e->clock, fires_at(e))
                       ? 0
                       : RCUDA_OUT_OF_MEMORY);
}
