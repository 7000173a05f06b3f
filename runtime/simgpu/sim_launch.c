/* Operations of streams: how they are submitted and executed; launches. */
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

static int run_launch(const sim_op_run_t *op, sim_ctx_t *ctx,
                      bool is_tracking, uint64_t *work) {
  sim_state_t *s = sim_state();
  const sim_op_launch_t *o = &op->launch;
  sim_func_t *f = sim_handle_number(SIM_TYPE_FUNC, o->func);
  if (!f || !f->kernel) return RCUDA_INVALID_HANDLE;
  sim_launch_t *launch = calloc(1, sizeof *launch);
  sim_totals_t *totals = calloc(1, sizeof *totals);
  if (!launch || !totals) {
    free(launch);
    free(totals);
    return RCUDA_OUT_OF_MEMORY;
  }
  launch->kernel = f->kernel;
  launch->memory = &s->memory;
  launch->row = s->row;
  launch->device = ctx->device;
  launch->peers = ctx->peers;
  launch->options = &s->options;
  launch->is_tracking = is_tracking;
  launch->report = &s->report;
  launch->number = ++s->launches;
  memcpy(launch->grid, o->grid, sizeof launch->grid);
  memcpy(launch->block, o->block, sizeof launch->block);
  memcpy(launch->cluster, o->cluster, sizeof launch->cluster);
  launch->cta_total = (uint64_t)o->grid[0] * o->grid[1] * o->grid[2];
  launch->threads = o->block[0] * o->block[1] * o->block[2];
  launch->dynamic_shared = o->shared;
  launch->params = o->params;
  sim_launch_layout(launch);
  int code = 0;
  if (f->ptx->param_bytes) {
    launch->param_alloc =
        sim_alloc_new(&s->memory, ctx->device, f->ptx->param_bytes,
                      SIM_ALLOC_PARAM, NULL);
    if (launch->param_alloc)
      memcpy(launch->param_alloc->host, o->params, f->ptx->param_bytes);
    else
      code = RCUDA_OUT_OF_MEMORY;
  }
  if (!code) code = sim_launch_run(launch, totals);
  if (launch->param_alloc) sim_alloc_release(&s->memory, launch->param_alloc);
  *work += totals->counters[SIM_COUNTER_WARP_INST];
  keep_record(launch, code, totals);
  sim_flush_report();
  free(launch);
  free(totals->lines);
  free(totals);
  return code;
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
  if (!ctx || ctx->sticky) return; /* what follows a fault does not run */
  size_t findings = s->order_findings;
  bool tracks = false, writes_host = false;
  uint64_t host = op->dst, host_bytes = 0;
  int code = 0;
  switch (op->kind) {
  case SIM_RUN_LAUNCH:
    tracks = sim_order_must_track(item);
    writes_host = op->touches_host;
    if (writes_host) sim_order_host_write(0, 0, true);
    code = run_launch(op, ctx, tracks, work);
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
  if ((uintptr_t)handle <= 2) return true;
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
                    const sim_clock_t *after, bool *is_now) {
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
  return sim_queue_add(lane, op, after);
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
  code = sim_submit_lane(lane, op, NULL, &is_now);
  if (stream) stream->polls = 1;
  if (!code && is_now) code = sim_wait(owner, &sim_lane_of(lane)->clock);
  return code;
}

/* -- launching -- */

/* A launch that is refused: what the call answers, and in the report why. */
static int refuse(sim_check_t id, const sim_func_t *f, const char *format,
                  ...) TD_PRINTF(3, 4);
static int refuse(sim_check_t id, const sim_func_t *f, const char *format,
                  ...) {
  sim_state_t *s = sim_state();
  const sim_check_row_t *row = sim_check_row(id);
  if (!(s->options.checks & row->family)) return row->code;
  sim_finding_t finding = {.id = id, .lane = 32, .op = "launch"};
  td_buf_t buf;
  va_list args;
  td_buf_init_fixed(&buf, finding.kernel, sizeof finding.kernel);
  td_buf_puts(&buf, f->ptx->name);
  td_buf_init_fixed(&buf, finding.text, sizeof finding.text);
  va_start(args, format);
  td_buf_vprintf(&buf, format, args);
  va_end(args);
  finding.other_line = (uint32_t)s->calls; /* one for each call */
  sim_report_add(&s->report, &finding);
  sim_flush_report();
  return row->code;
}

static bool fits(const uint32_t *limit, const unsigned block[3]) {
  uint64_t most = (uint64_t)limit[0] * limit[1] * limit[2];
  return !limit[0] || (uint64_t)block[0] * block[1] * block[2] <= most;
}

static int check_cluster(const sim_func_t *f, sim_op_launch_t *o,
                         const uint32_t asked[3]) {
  const sim_device_row_t *row = sim_state()->row;
  const uint32_t *fixed = f->ptx->cluster;
  for (int n = 0; n < 3; n++)
    o->cluster[n] = asked[0] ? asked[n] : fixed[0] ? fixed[n] : 1;
  if (asked[0] && fixed[0] && memcmp(asked, fixed, sizeof o->cluster) != 0)
    return refuse(SIM_CHECK_LAUNCH_CLUSTER, f,
                  "clusters of %u x %u x %u asked for, %u x %u x %u compiled",
                  asked[0], asked[1], asked[2], fixed[0], fixed[1],
                  fixed[2]);
  uint64_t size = (uint64_t)o->cluster[0] * o->cluster[1] * o->cluster[2];
  if (size == 1) return 0;
  uint32_t most = row->max_cluster && !f->non_portable ? 8 : row->max_cluster;
  if (size == 0 || size > most)
    return refuse(SIM_CHECK_LAUNCH_CLUSTER, f,
                  "clusters of %llu blocks; the most is %u",
                  (unsigned long long)size, most);
  for (int n = 0; n < 3; n++)
    if (o->grid[n] % o->cluster[n])
      return refuse(SIM_CHECK_LAUNCH_CLUSTER, f,
                    "%u blocks are no multiple of the cluster's %u",
                    o->grid[n], o->cluster[n]);
  return 0;
}

static int copy_params(const sim_func_t *f, void **params, void **extra,
                       uint8_t **out) {
  uint32_t bytes = f->ptx->param_bytes;
  *out = calloc(1, bytes + 16u);
  if (!*out) return RCUDA_OUT_OF_MEMORY;
  if (!bytes) return 0;
  if (params) {
    for (size_t i = 0; i < f->ptx->params.length; i++) {
      const ptx_var_t *var = f->ptx->params.data[i];
      if (!params[i])
        return refuse(SIM_CHECK_LAUNCH_PARAMS, f, "parameter %zu is missing",
                      i);
      memcpy(*out + var->place, params[i], var->bytes);
    }
    return 0;
  }
  const void *buffer = NULL;
  size_t have = 0;
  for (size_t i = 0; extra && extra[i] != RCUDA_PARAM_END && i < 8; i += 2) {
    if (extra[i] == RCUDA_PARAM_BUFFER) buffer = extra[i + 1];
    if (extra[i] == RCUDA_PARAM_BYTES) memcpy(&have, extra[i + 1], 8);
  }
  if (!buffer || have < bytes)
    return refuse(SIM_CHECK_LAUNCH_PARAMS, f,
                  "%zu bytes of parameters given, %u needed", have, bytes);
  memcpy(*out, buffer, bytes);
  return 0;
}

int sim_prepare_geometry(sim_func_t *f, const rcuda_launch_config_t *c,
                         sim_op_run_t *op) {
  const sim_device_row_t *row = sim_state()->row;
  sim_op_launch_t *o = &op->launch;
  uint32_t cluster[3] = {0};
  op->kind = SIM_RUN_LAUNCH;
  o->func = f->handle;
  for (unsigned i = 0; i < c->attribute_count; i++) {
    const rcuda_launch_attr_t *a = &c->attributes[i];
    switch (a->id) {
    case RCUDA_LAUNCH_CLUSTER:
      memcpy(cluster, a->value.cluster, sizeof cluster);
      break;
    case RCUDA_LAUNCH_COOPERATIVE:
      o->is_cooperative = a->value.number != 0;
      break;
    case RCUDA_LAUNCH_CARVEOUT:
      if (a->value.number < -1 || a->value.number > 100)
        return RCUDA_INVALID_VALUE;
      break;
    case RCUDA_LAUNCH_PROGRAMMATIC_EVENT:
      if (!sim_handle_get(SIM_TYPE_EVENT, a->value.event.event))
        return RCUDA_INVALID_HANDLE;
      break;
    case RCUDA_LAUNCH_IGNORE: /* these change nothing that is simulated */
    case RCUDA_LAUNCH_CLUSTER_POLICY:
    case RCUDA_LAUNCH_PROGRAMMATIC:
    case RCUDA_LAUNCH_PRIORITY: break;
    default: return RCUDA_NOT_SUPPORTED;
    }
  }
  memcpy(o->grid, c->grid, sizeof o->grid);
  memcpy(o->block, c->block, sizeof o->block);
  o->shared = c->shared_bytes;
  uint64_t threads = (uint64_t)c->block[0] * c->block[1] * c->block[2];
  if (!c->grid[0] || !c->grid[1] || !c->grid[2] || !threads ||
      c->grid[0] > INT32_MAX || c->grid[1] > 65535 || c->grid[2] > 65535 ||
      c->block[0] > 1024 || c->block[1] > 1024 || c->block[2] > 64 ||
      threads > 1024)
    return refuse(SIM_CHECK_LAUNCH_GEOMETRY, f,
                  "grid %u x %u x %u, block %u x %u x %u", c->grid[0],
                  c->grid[1], c->grid[2], c->block[0], c->block[1],
                  c->block[2]);
  const uint32_t *need = f->ptx->required_threads;
  if (!fits(f->ptx->max_threads, c->block) ||
      (need[0] && memcmp(need, c->block, sizeof c->block) != 0))
    return refuse(SIM_CHECK_LAUNCH_GEOMETRY, f,
                  "a block of %u x %u x %u; compiled for %u x %u x %u%s",
                  c->block[0], c->block[1], c->block[2],
                  need[0] ? need[0] : f->ptx->max_threads[0],
                  need[0] ? need[1] : f->ptx->max_threads[1],
                  need[0] ? need[2] : f->ptx->max_threads[2],
                  need[0] ? "" : " at most");
  uint64_t shared = (uint64_t)f->kernel->static_shared + c->shared_bytes;
  uint64_t allowed = f->max_dynamic
                         ? (uint64_t)f->max_dynamic
                         : UINT64_C(49152) - f->kernel->static_shared;
  if (f->kernel->static_shared > 49152 || c->shared_bytes > allowed ||
      shared > row->shared_optin)
    return refuse(SIM_CHECK_LAUNCH_SHARED, f,
                  "%u bytes of dynamic shared memory beside %u; %llu are "
                  "allowed",
                  c->shared_bytes, f->kernel->static_shared,
                  (unsigned long long)allowed);
  sim_occupancy_t occupancy =
      sim_occupancy(row, (uint32_t)threads, f->kernel->registers,
                    (uint32_t)shared);
  if (occupancy.ctas == 0)
    return refuse(SIM_CHECK_LAUNCH_RESOURCES, f,
                  "%llu threads of %u registers and %llu bytes of shared "
                  "memory do not fit an SM: %s",
                  (unsigned long long)threads, f->kernel->registers,
                  (unsigned long long)shared, occupancy.limiter);
  uint64_t ctas = (uint64_t)c->grid[0] * c->grid[1] * c->grid[2];
  if (o->is_cooperative && ctas > (uint64_t)occupancy.ctas * row->sms)
    return refuse(SIM_CHECK_LAUNCH_COOPERATIVE, f,
                  "%llu blocks; %llu are resident at once",
                  (unsigned long long)ctas,
                  (unsigned long long)occupancy.ctas * row->sms);
  return check_cluster(f, o, cluster);
}

int sim_prepare_launch(sim_func_t *f, const rcuda_launch_config_t *c,
                       void **params, void **extra, sim_op_run_t *op) {
  if (params && extra) return RCUDA_INVALID_VALUE;
  int code = sim_prepare_geometry(f, c, op);
  return code ? code : copy_params(f, params, extra, &op->launch.params);
}

static int launch(const char *name, rcuda_func_t *handle,
                  const rcuda_launch_config_t *config, void **params,
                  void **extra) {
  sim_ctx_t *ctx;
  int code = sim_enter_ctx(name, &ctx);
  if (code) return code;
  if (!config || (config->attribute_count && !config->attributes))
    return sim_leave(RCUDA_INVALID_VALUE);
  sim_func_t *f = sim_func_of(handle);
  if (!f) return sim_leave(RCUDA_INVALID_HANDLE);
  sim_op_run_t op = {.name = name};
  code = sim_prepare_launch(f, config, params, extra, &op);
  if (code) {
    sim_op_free(&op);
    return sim_leave(code);
  }
  code = sim_submit(ctx, config->stream, &op);
  for (unsigned i = 0; !code && i < config->attribute_count; i++)
    if (config->attributes[i].id == RCUDA_LAUNCH_PROGRAMMATIC_EVENT)
      code = sim_record_event(config->attributes[i].value.event.event,
                              config->stream);
  return sim_leave(code);
}

SIM_EXPORT int cuLaunchKernel(rcuda_func_t *function, unsigned gx,
                              unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared,
                              rcuda_stream_t *stream, void **params,
                              void **extra) {
  SIM_ARGS(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
  rcuda_launch_config_t c = {{gx, gy, gz}, {bx, by, bz}, shared, stream,
                             NULL, 0};
  return launch("cuLaunchKernel", function, &c, params, extra);
}

SIM_EXPORT int cuLaunchKernelEx(const rcuda_launch_config_t *config,
                                rcuda_func_t *function, void **params,
                                void **extra) {
  SIM_ARGS(config, function, params, extra);
  return launch("cuLaunchKernelEx", function, config, params, extra);
}

SIM_EXPORT int cuLaunchCooperativeKernel(rcuda_func_t *function, unsigned gx,
                                         unsigned gy, unsigned gz,
                                         unsigned bx, unsigned by,
                                         unsigned bz, unsigned shared,
                                         rcuda_stream_t *stream,
                                         void **params) {
  SIM_ARGS(function, gx, gy, gz, bx, by, bz, shared, stream, params);
  rcuda_launch_attr_t a = {.id = RCUDA_LAUNCH_COOPERATIVE,
                           .value.number = 1};
  rcuda_launch_config_t c = {{gx, gy, gz}, {bx, by, bz}, shared, stream, &a,
                             1};
  return launch("cuLaunchCooperativeKernel", function, &c, params, NULL);
}

SIM_EXPORT int cuLaunchHostFunc(rcuda_stream_t *stream, void (*fn)(void *),
                                void *user) {
  SIM_ARGS(stream, fn, user);
  sim_ctx_t *ctx;
  int code = sim_enter_ctx("cuLaunchHostFunc", &ctx);
  if (code) return code;
  if (!fn) return sim_leave(RCUDA_INVALID_VALUE);
  sim_op_run_t op = {.kind = SIM_RUN_HOST, .name = "cuLaunchHostFunc",
                     .host = fn, .user = user};
  return sim_leave(sim_submit(ctx, stream, &op));
}
