/* Exported cu* functions: launches, judged against every limit. */
#include "runtime/simgpu/sim_cuda.h"

#include <stdlib.h>

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
  if (size == 1 && (o->cluster[0] & o->cluster[1] & o->cluster[2]) == 1)
    return 0;
  uint32_t most = row->max_cluster && !f->non_portable ? 8 : row->max_cluster;
  if (size == 0 || size > most || o->cluster[0] > most ||
      o->cluster[1] > most || o->cluster[2] > most)
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
  for (size_t i = 0; extra && i < 8 && extra[i] != RCUDA_PARAM_END; i += 2) {
    if (extra[i] == RCUDA_PARAM_BUFFER) buffer = extra[i + 1];
    if (extra[i] == RCUDA_PARAM_BYTES && extra[i + 1])
      memcpy(&have, extra[i + 1], 8);
  }
  if (!buffer || have < bytes)
    return refuse(SIM_CHECK_LAUNCH_PARAMS, f,
                  "%zu bytes of parameters given, %u needed", have, bytes);
  memcpy(*out, buffer, bytes);
  return 0;
}

/* Of a launch: it must not ask for times. */
static int check_event(rcuda_event_t *const *handle) {
  const sim_event_t *e = sim_handle_get(SIM_TYPE_EVENT, *handle);
  if (!e) return RCUDA_INVALID_HANDLE;
  return e->flags & RCUDA_EVENT_DISABLE_TIMING ? 0 : RCUDA_INVALID_VALUE;
}

int sim_prepare_geometry(sim_func_t *f, const rcuda_launch_config_t *c,
                         sim_op_run_t *op) {
  const sim_device_row_t *row = sim_state()->row;
  sim_op_launch_t *o = &op->launch;
  uint32_t cluster[3] = {0};
  int code;
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
      code = check_event(&a->value.event.event);
      if (code) return code;
      break;
    case RCUDA_LAUNCH_PROGRAMMATIC:
      o->is_programmatic = a->value.number != 0;
      break;
    case RCUDA_LAUNCH_IGNORE: /* these change nothing that is simulated */
    case RCUDA_LAUNCH_CLUSTER_POLICY:
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

/* Queues the launch, and the event that fires when its blocks have begun or
   let others begin: not before it completes if they never do. */
static int submit(sim_ctx_t *ctx, const rcuda_launch_config_t *c,
                  sim_op_run_t *op) {
  const rcuda_launch_attr_t *fires = NULL;
  sim_stream_t *s;
  sim_clock_t start = {0};
  for (unsigned i = 0; i < c->attribute_count; i++)
    if (c->attributes[i].id == RCUDA_LAUNCH_PROGRAMMATIC_EVENT)
      fires = &c->attributes[i];
  bool is_early = fires && (fires->value.event.at_start ||
                            sim_has_trigger(op));
  if (is_early && sim_stream_of(c->stream, &s) &&
      !sim_queue_begin(sim_lane_of_stream(ctx, s), op, &start)) {
    sim_op_free(op);
    return RCUDA_OUT_OF_MEMORY;
  }
  int code = sim_submit(ctx, c->stream, op);
  if (!code && is_early)
    code = sim_record_launch(fires->value.event.event, c->stream,
                             fires->value.event.at_start
                                 ? RCUDA_PORT_LAUNCH_ORDER
                                 : RCUDA_PORT_PROGRAMMATIC,
                             &start);
  else if (!code && fires)
    code = sim_record_event(fires->value.event.event, c->stream);
  sim_clock_free(&start);
  return code;
}

/* Function and stream belong to the context that launches. */
static bool is_of(const sim_ctx_t *ctx, const sim_func_t *f,
                  const sim_stream_t *stream) {
  const sim_module_t *m = sim_handle_number(SIM_TYPE_MODULE, f->module);
  return m && m->ctx == ctx->handle &&
         (!stream || stream->ctx == ctx->handle);
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
  sim_stream_t *stream;
  if (!f || !sim_stream_of(config->stream, &stream) ||
      !is_of(ctx, f, stream))
    return sim_leave(RCUDA_INVALID_HANDLE);
  sim_op_run_t op = {.name = name};
  code = sim_prepare_launch(f, config, params, extra, &op);
  if (code) {
    sim_op_free(&op);
    return sim_leave(code);
  }
  return sim_leave(submit(ctx, config, &op));
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
