/* Operations of streams: how they are submitted and how they are executed,
   launches among them. */
#include "runtime/simgpu/depend.h"
#include "runtime/simgpu/sim_graph.h"

#include <stdlib.h>

/* -- launches -- */

static void keep_record(const sim_launch_t *launch, int result,
                        const sim_totals_t *totals) {
  sim_state_t *s = sim_state();
  const sim_kernel_t *k = launch->kernel;
  if (s->options.count == SIM_COUNT_OFF) return;
  if (s->record_count == s->record_capacity) {
    size_t capacity = s->record_capacity ? s->record_capacity * 2 : 64;
    /* old records go when nobody takes them away */
    if (capacity > 65536) {
      size_t half = s->record_count / 2;
      for (size_t n = 0; n < half; n++) {
        free(s->records[n].lines);
        free(s->records[n].allocations);
      }
      memmove(s->records, s->records + half,
              (s->record_count - half) * sizeof *s->records);
      s->record_count -= half;
    } else {
      sim_record_t *records =
          realloc(s->records, capacity * sizeof *records);
      if (!records) return;
      s->records = records;
      s->record_capacity = capacity;
    }
  }
  sim_record_t *r = &s->records[s->record_count++];
  td_buf_t buf;
  memset(r, 0, sizeof *r);
  td_buf_init_fixed(&buf, r->kernel, sizeof r->kernel);
  td_buf_puts(&buf, k->name);
  r->number = launch->number;
  r->device = launch->device;
  memcpy(r->grid, launch->grid, sizeof r->grid);
  memcpy(r->block, launch->block, sizeof r->block);
  memcpy(r->cluster, launch->cluster, sizeof r->cluster);
  r->shared_static = k->static_shared;
  r->shared_dynamic = launch->dynamic_shared;
  r->registers = k->registers;
  r->is_assembled = k->is_assembled;
  r->local = k->local_bytes;
  r->occupancy =
      sim_occupancy(launch->row, launch->threads, k->registers,
                    k->static_shared + launch->dynamic_shared);
  r->live_bytes = s->live_bytes[launch->device];
  r->peak_bytes = s->peak_bytes[launch->device];
  r->result = result;
  r->totals = *totals;
  if (totals->lines) r->lines = sim_lines_text(k, totals->lines);
  r->totals.lines = NULL;
  r->allocations = sim_allocations_text(&s->memory);
  if (s->options.report[0]) sim_write_record(r);
}

/* A launch that has begun. */
typedef struct sim_flight_t {
  sim_launch_t launch;
  sim_totals_t totals;
  int code;
  sim_aside_t *aside; /* while it is held and another one runs */
  size_t aside_count;
} sim_flight_t;

static int fill_launch(sim_launch_t *launch, const sim_op_launch_t *o,
                       const sim_ctx_t *ctx, const sim_func_t *f) {
  sim_state_t *s = sim_state();
  launch->kernel = f->kernel;
  launch->memory = &s->memory;
  launch->row = s->row;
  launch->device = ctx->device;
  launch->peers = ctx->peers;
  launch->options = &s->options;
  launch->report = &s->report;
  memcpy(launch->grid, o->grid, sizeof launch->grid);
  memcpy(launch->block, o->block, sizeof launch->block);
  memcpy(launch->cluster, o->cluster, sizeof launch->cluster);
  launch->cta_total = (uint64_t)o->grid[0] * o->grid[1] * o->grid[2];
  launch->threads = o->block[0] * o->block[1] * o->block[2];
  launch->dynamic_shared = o->shared;
  launch->params = o->params;
  sim_launch_layout(launch);
  if (!f->ptx->param_bytes) return 0;
  launch->param_alloc =
      sim_alloc_new(&s->memory, ctx->device, f->ptx->param_bytes,
                    SIM_ALLOC_PARAM, NULL);
  if (!launch->param_alloc) return RCUDA_OUT_OF_MEMORY;
  memcpy(launch->param_alloc->host, o->params, f->ptx->param_bytes);
  return 0;
}

/* Runs it to the end, or if is_held to its waits. */
static int begin_launch(sim_queued_t *item, const sim_ctx_t *ctx,
                        bool is_held) {
  const sim_func_t *f =
      sim_handle_number(SIM_TYPE_FUNC, item->op.launch.func);
  if (!f || !f->kernel) return RCUDA_INVALID_HANDLE;
  sim_flight_t *flight = calloc(1, sizeof *flight);
  if (!flight) return RCUDA_OUT_OF_MEMORY;
  sim_launch_t *launch = &flight->launch;
  item->flight = flight;
  launch->number = item->number;
  launch->is_tracking = sim_order_must_track(item);
  launch->has_early = item->has_early;
  launch->is_held = is_held;
  flight->code = fill_launch(launch, &item->op.launch, ctx, f);
  if (!flight->code && !sim_launch_begin(launch))
    flight->code = RCUDA_OUT_OF_MEMORY;
  if (!flight->code) sim_launch_go(launch);
  return 0;
}

/* Of a held launch, the rest; counts, and what it did to order. */
static int end_launch(sim_queued_t *item, bool goes_on, uint64_t *work) {
  sim_flight_t *flight = item->flight;
  sim_launch_t *launch = &flight->launch;
  sim_memory_t *memory = launch->memory;
  if (flight->aside_count)
    sim_aside_give(memory, flight->aside, flight->aside_count);
  bool was_held = launch->is_held;
  launch->is_held = false;
  if (was_held && goes_on && !flight->code && !launch->stop)
    sim_launch_go(launch);
  sim_launch_end(launch, &flight->totals);
  if (launch->param_alloc) sim_alloc_release(memory, launch->param_alloc);
  *work += flight->totals.counters[SIM_COUNTER_WARP_INST];
  int code = flight->code ? flight->code : launch->result;
  if (goes_on) keep_record(launch, code, &flight->totals);
  if (was_held) sim_memory_forget_sectors(memory);
  sim_flush_report();
  item->was_tracked = launch->is_tracking;
  item->has_waited = launch->has_waited;
  item->has_early_trigger = launch->has_early_trigger;
  free(flight->totals.lines);
  free(flight);
  item->flight = NULL;
  return code;
}

void sim_run_held(sim_queued_t *item) {
  sim_ctx_t *ctx = sim_handle_number(SIM_TYPE_CTX, item->op.ctx);
  if (!ctx || ctx->sticky || begin_launch(item, ctx, true)) return;
  sim_flight_t *flight = item->flight;
  flight->aside =
      sim_aside_take(flight->launch.memory, &flight->aside_count);
}

static int run_launch(sim_queued_t *item, const sim_ctx_t *ctx,
                      uint64_t *work) {
  int code = item->flight ? 0 : begin_launch(item, ctx, false);
  return code ? code : end_launch(item, true, work);
}

/* -- operations -- */

/* Another thread may use the driver meanwhile; this one must not. */
static void run_host(const sim_op_run_t *op) {
  sim_state_t *s = sim_state();
  sim_order_host_write(0, 0, true);
  s->queue.in_host = true;
  pthread_mutex_unlock(&s->mutex);
  op->host(op->user);
  pthread_mutex_lock(&s->mutex);
  s->queue.in_host = false;
  sim_order_host_write(0, 0, false);
}

static void run_event(const sim_op_run_t *op, uint64_t work) {
  sim_event_t *e = sim_handle_number(SIM_TYPE_EVENT, op->event);
  if (e && e->serial == op->serial) e->work = work;
}

static void run_free(const sim_op_run_t *op) {
  sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, op->dst);
  if (a && a->is_live && a->address == op->dst) sim_device_free(a);
}

void sim_run_queued(sim_queued_t *item, uint64_t *work) {
  const sim_op_run_t *op = &item->op;
  sim_ctx_t *ctx = sim_handle_number(SIM_TYPE_CTX, op->ctx);
  sim_state_t *s = sim_state();
  if (!ctx || ctx->sticky) { /* what follows a fault does not run */
    if (item->flight) end_launch(item, false, work);
    return;
  }
  size_t findings = s->order_findings;
  bool tracks = false, writes_host = false;
  uint64_t host = op->dst, host_bytes = 0;
  int code = 0;
  switch (op->kind) {
  case SIM_RUN_LAUNCH:
    writes_host = op->touches_host;
    if (writes_host) sim_order_host_write(0, 0, true);
    code = run_launch(item, ctx, work);
    tracks = item->was_tracked;
    host = 0;
    break;
  case SIM_RUN_COPY:
    sim_order_check_hash(op);
    writes_host = !sim_is_device_address(op->dst);
    host_bytes = sim_op_dst_end(op) - host;
    if (writes_host) sim_order_host_write(host, host_bytes, true);
    code = sim_run_copy(op, ctx);
    break;
  case SIM_RUN_FILL:
    writes_host = !sim_is_device_address(op->dst);
    host_bytes = sim_op_dst_end(op) - host;
    if (writes_host) sim_order_host_write(host, host_bytes, true);
    code = sim_run_fill(op, ctx);
    break;
  case SIM_RUN_HOST: run_host(op); break;
  case SIM_RUN_EVENT: run_event(op, *work); break;
  case SIM_RUN_FREE:
    sim_order_executed(item, false);
    run_free(op);
    break;
  case SIM_RUN_UNMAP:
    sim_order_executed(item, false);
    sim_unmap(op->dst, op->bytes);
    break;
  case SIM_RUN_ALLOC: code = sim_run_alloc(op); break;
  case SIM_RUN_EMPTY:
  case SIM_RUN_WAIT:
  case SIM_RUN_COLL: /* was done when it could be; see sim_coll.c */
  case SIM_RUN_CHILD: break;
  }
  if (writes_host) sim_order_host_write(host, host_bytes, false);
  if (op->kind != SIM_RUN_FREE && op->kind != SIM_RUN_UNMAP)
    sim_order_executed(item, tracks);
  if (op->kind == SIM_RUN_LAUNCH) sim_order_inform(item);
  if (s->order_findings != findings && !code && !s->options.is_warning)
    code = sim_check_row(SIM_CHECK_ORDER_RACE)->code;
  /* a fault shows at a later call; a host function may have ended ctx */
  ctx = sim_handle_number(SIM_TYPE_CTX, op->ctx);
  if (ctx && code && !ctx->sticky) ctx->sticky = code;
}

void sim_op_free(sim_op_run_t *op) {
  sim_graph_t *child =
      op->graph ? sim_handle_number(SIM_TYPE_GRAPH, op->graph) : NULL;
  if (child) sim_graph_free(child);
  op->graph = 0;
  if (op->coll) sim_coll_free(op->coll);
  op->coll = NULL;
  free(op->launch.params);
  free(op->staged);
  op->launch.params = NULL;
  op->staged = NULL;
}

bool sim_op_copy(sim_op_run_t *to, const sim_op_run_t *from) {
  *to = *from;
  to->staged = NULL;
  to->launch.params = NULL;
  if (from->kind == SIM_RUN_CHILD) {
    const sim_graph_t *child =
        sim_handle_number(SIM_TYPE_GRAPH, from->graph);
    sim_graph_t *copy = NULL;
    to->graph = 0;
    if (!child || sim_graph_copy(child, &copy)) return false;
    to->graph = copy->handle;
    return true;
  }
  if (from->coll) { /* of a graph: each launch is a call of its own */
    to->coll = sim_coll_copy(from->coll);
    return to->coll != NULL;
  }
  if (!from->launch.params) return true;
  const sim_func_t *f = sim_handle_number(SIM_TYPE_FUNC, from->launch.func);
  if (!f) return false;
  to->launch.params = calloc(1, f->ptx->param_bytes + 16u);
  if (!to->launch.params) return false;
  memcpy(to->launch.params, from->launch.params, f->ptx->param_bytes);
  return true;
}

bool sim_stream_of(const void *handle, sim_stream_t **out) {
  *out = NULL;
  if ((const rcuda_stream_t *)handle == RCUDA_STREAM_PER_THREAD) {
    *out = sim_stream_of_thread();
    return *out != NULL;
  }
  if ((uintptr_t)handle <= 1) return true;
  *out = sim_handle_get(SIM_TYPE_STREAM, handle);
  return *out != NULL;
}

/* -- submission -- */

const sim_alloc_t *sim_pinned_at(uint64_t address) {
  const sim_alloc_t *a = sim_alloc_find(&sim_state()->memory, address);
  return a && a->is_live && a->kind == SIM_ALLOC_HOST ? a : NULL;
}

/* A pageable source is taken at the call. */
static bool take_source(sim_op_run_t *op) {
  uint8_t *to = malloc((size_t)(op->bytes * sim_op_rows(op)));
  if (!to) return false;
  op->staged = to;
  for (uint64_t row = 0; row < sim_op_rows(op); row++)
    memcpy(to + row * op->bytes,
           (const void *)(uintptr_t)sim_op_src(op, row), (size_t)op->bytes);
  op->src = (uint64_t)(uintptr_t)to;
  op->src_pitch = op->bytes;
  op->src_plane = op->bytes * op->rows;
  return true;
}

/* A pinned destination holds poison until the copy ran, unless something
   queued may still want its bytes. */
static void poison_destination(const sim_op_run_t *op) {
  const sim_state_t *s = sim_state();
  if (!(s->options.checks & SIM_CHECK_ORDER)) return;
  uint64_t end = sim_op_dst_end(op);
  for (uint32_t i = 0; i < s->queue.lane_count; i++) {
    const sim_queued_t *p = s->queue.lanes[i]->head;
    for (; p; p = p->next) {
      const sim_op_run_t *o = &p->op;
      if (o->kind == SIM_RUN_HOST || o->touches_host) return;
      if (o->kind == SIM_RUN_COPY && o->src < end &&
          op->dst < sim_op_src_end(o))
        return;
    }
  }
  for (uint64_t row = 0; row < sim_op_rows(op); row++)
    memset((void *)(uintptr_t)sim_op_dst(op, row),
           s->options.poison, (size_t)op->bytes);
}

static bool points_to_host(const sim_op_run_t *op) {
  const sim_func_t *f = sim_handle_number(SIM_TYPE_FUNC, op->launch.func);
  for (uint32_t at = 0; f && at + 8 <= f->ptx->param_bytes; at += 8) {
    uint64_t word;
    memcpy(&word, op->launch.params + at, 8);
    if (!sim_is_device_address(word) && sim_pinned_at(word)) return true;
  }
  return false;
}

int sim_submit_lane(uint32_t lane, sim_op_run_t *op,
                    const sim_clock_t *after, const sim_clock_t *early,
                    bool *is_now) {
  if (op->kind == SIM_RUN_LAUNCH) op->touches_host = points_to_host(op);
  if (op->kind == SIM_RUN_COPY && !sim_is_device_address(op->src)) {
    if (sim_pinned_at(op->src)) {
      sim_order_hash(op);
    } else if (!take_source(op)) {
      sim_op_free(op);
      return RCUDA_OUT_OF_MEMORY;
    }
  }
  if (op->kind == SIM_RUN_COPY && !sim_is_device_address(op->dst)) {
    if (sim_pinned_at(op->dst))
      poison_destination(op);
    else
      *is_now = true;
  }
  return sim_queue_add(lane, op, after, early);
}

uint32_t sim_lane_of_stream(const sim_ctx_t *ctx, const sim_stream_t *s) {
  return s ? s->lane : ctx->lane;
}

/* What a wait that is over answers. */
static int wait_result(uint64_t handle) {
  sim_ctx_t *ctx = sim_handle_number(SIM_TYPE_CTX, handle);
  if (!ctx) return RCUDA_CONTEXT_DESTROYED;
  int once = ctx->once;
  ctx->once = 0;
  return ctx->sticky ? ctx->sticky : once;
}

int sim_wait(uint64_t handle, const sim_clock_t *clock) {
  sim_queue_wait(clock);
  return wait_result(handle);
}

int sim_try(uint64_t handle, const sim_clock_t *clock) {
  return sim_queue_try(clock) ? wait_result(handle) : RCUDA_NOT_READY;
}

int sim_wait_ctx(uint64_t handle) {
  sim_queue_wait_ctx(handle);
  return wait_result(handle);
}

void sim_wait_others(uint64_t ctx, uint32_t lane) {
  const sim_queue_t *q = &sim_state()->queue;
  sim_clock_t all = {0};
  bool ok = true;
  for (uint32_t i = 0; ok && i < q->lane_count; i++)
    if (i != lane && q->lanes[i]->ctx == ctx)
      ok = sim_clock_join(&all, &q->lanes[i]->clock);
  if (ok) sim_queue_wait(&all);
  sim_clock_free(&all);
}

int sim_submit(sim_ctx_t *ctx, const void *handle, sim_op_run_t *op) {
  sim_stream_t *stream;
  uint64_t owner = ctx->handle;
  bool is_now = false;
  if (!sim_stream_of(handle, &stream)) {
    sim_op_free(op);
    return RCUDA_INVALID_HANDLE;
  }
  if (stream) owner = stream->ctx;
  op->ctx = owner;
  op->call = sim_state()->calls;
  if (stream && stream->graph) return sim_capture(stream, op);
  int code = stream ? 0 : sim_no_implicit(ctx);
  if (code) {
    sim_op_free(op);
    return code;
  }
  uint32_t lane = sim_lane_of_stream(ctx, stream);
  code = sim_submit_lane(lane, op, NULL, NULL, &is_now);
  if (stream) stream->polls = 1;
  if (!code && is_now) code = sim_wait(owner, &sim_lane_of(lane)->clock);
  return code;
}
