/* api_compile.c: from a descriptor to a checked and lowered program. */
#include "driver/api.h"

#include "frontend/lower.h"
#include "runtime/base/env.h"

bool drv_desc_read(const tdsl_compile_desc_t *desc,
                   tdsl_compile_desc_t *out) {
  memset(out, 0, sizeof *out);
  if (desc == NULL || !drv_is_known(desc->struct_bytes, sizeof *out)) {
    return false;
  }
  memcpy(out, desc, desc->struct_bytes);
  return true;
}

static const sem_dim_value_t *copy_dims(td_arena_t *arena, uint32_t count,
                                        const tdsl_dim_value_t *dims) {
  sem_dim_value_t *out = TD_NEW_ARRAY(arena, sem_dim_value_t, count + 1);
  for (uint32_t i = 0; i < count; i++) {
    out[i].name = td_str_cstr(arena, dims[i].name);
    out[i].value = dims[i].value;
  }
  return out;
}

void drv_compile_init(drv_compile_t *c, td_task_t *task, td_arena_t *arena,
                      tdsl_context_t *context,
                      const tdsl_compile_desc_t *desc) {
  memset(c, 0, sizeof *c);
  c->context = context;
  c->desc = desc;
  c->task = task;
  c->arena = arena;
  c->checks = desc->checks;
  if (c->checks == TDSL_CHECKS_UNSET) {
    const char *text = td_env_text(TD_ENV_CHECKS);
    c->checks = strcmp(text, "none") == 0  ? TDSL_CHECKS_NONE
                : strcmp(text, "all") == 0 ? TDSL_CHECKS_ALL
                                           : TDSL_CHECKS_ENTRY;
  }
  c->dim_count = desc->dim_count;
  c->dims = copy_dims(arena, desc->dim_count, desc->dims);
  td_map_init(&c->files, arena);
  td_map_init(&c->imports, arena);
  td_map_init(&c->config.values, arena);
}

bool drv_compile_parse(drv_compile_t *c) {
  c->task->stage = "parse";
  c->ast = ast_parse(c->task, c->arena, c->source);
  return !c->ast->has_errors;
}

/* ---- the requested entry ------------------------------------------------- */

/* A test is an entry already; only a function of another kind has to be
 * instantiated for its arguments. */
static const ast_decl_t *find_function(const ast_file_t *ast, td_str_t name) {
  for (size_t i = 0; i < ast->decl_count; i++) {
    const ast_decl_t *d = ast->decls[i];
    if (d->kind == AST_DECL_FN && td_str_eqc(name, d->name.text)) return d;
  }
  return NULL;
}

/* What the arguments are, by parameter: from the inputs, or as listed. */
static void describe_arguments(drv_compile_t *c, const ast_decl_t *fn) {
  const tdsl_compile_desc_t *d = c->desc;
  if (d->inputs == NULL) {
    c->arg_count = d->argument_count;
    c->arg_dtypes = d->argument_dtypes;
    c->arg_ranks = d->argument_ranks;
    return;
  }
  size_t n = fn->param_count;
  tdsl_dtype_t *dtypes = TD_NEW_ARRAY(c->arena, tdsl_dtype_t, n + 1);
  int32_t *ranks = TD_NEW_ARRAY(c->arena, int32_t, n + 1);
  for (size_t i = 0; i < n; i++) {
    drv_inputs_kind(d->inputs, td_str(fn->params[i].name.text), &dtypes[i],
                    &ranks[i]);
  }
  c->arg_count = (uint32_t)n;
  c->arg_dtypes = dtypes;
  c->arg_ranks = ranks;
}

bool drv_compile_check(drv_compile_t *c, bool need_values) {
  const tdsl_compile_desc_t *d = c->desc;
  uint32_t before = td_task_errors(c->task);
  sem_options_t o = {.config = c->has_config ? drv_config : NULL,
                     .import = drv_import,
                     .user = c,
                     .need_values = need_values,
                     .mesh_none = d->mesh_none != 0,
                     .dim_count = c->dim_count,
                     .dims = c->dims,
                     .axis_count = d->axis_count};
  o.axes = copy_dims(c->arena, d->axis_count, d->axes);
  if (d->entry.length > 0) {
    o.entry = td_str_cstr(c->arena, d->entry);
    const ast_decl_t *fn = c->ast != NULL ? find_function(c->ast, d->entry)
                                          : NULL;
    if (fn != NULL) describe_arguments(c, fn);
    o.arg_count = c->arg_count;
    o.arg_dtypes = c->arg_dtypes;
    o.arg_ranks = c->arg_ranks;
  }
  c->task->stage = "check";
  c->sem = sem_check(c->task, c->arena, c->source, &o);
  if (c->has_config && c->origin == NULL &&
      td_task_errors(c->task) == before) {
    io_config_warn(c->task, &c->config);
  }
  return td_task_errors(c->task) == before;
}

/* ---- lowering ------------------------------------------------------------ */

bool drv_compile_lower(drv_compile_t *c) {
  const tdsl_compile_desc_t *d = c->desc;
  TD_VEC(const sem_func_t *) list = {0};
  for (uint32_t i = 0; i < c->sem->func_count; i++) {
    const sem_func_t *f = c->sem->funcs[i];
    bool is_wanted = d->tests != 0 ? f->is_test : f->is_entry && !f->is_test;
    if (d->entry.length > 0) {
      is_wanted = (f->is_entry || f->is_test) && td_str_eqc(d->entry, f->name);
    }
    if (is_wanted) td_vec_push(c->arena, &list, f);
  }
  if (list.length == 0 && d->tests == 0) {
    td_loc_t loc = {c->source, 0, 0, 0, 0};
    td_diag_t *diag = td_diag(c->task, TD_E01, loc,
                              "the file exports no function");
    td_diag_help(diag, "write `export fn`, or name a function as the entry");
    return false;
  }
  c->task->stage = "lower";
  c->tir = lower_funcs(c->task, c->arena, c->sem, (uint32_t)list.length,
                       list.data);
  c->funcs = list.data;
  if (c->tir == NULL) return false;
  tir_verify(c->task, c->tir, "lower", false);
  return true;
}

bool drv_compile_all(drv_compile_t *c) {
  return drv_compile_source(c) && drv_config_read(c) &&
         drv_compile_parse(c) && drv_compile_solve(c) &&
         drv_compile_check(c, true) && drv_compile_lower(c);
}

/* ---- public -------------------------------------------------------------- */

typedef struct compile_call {
  tdsl_context_t *context;
  tdsl_compile_desc_t desc;
  tdsl_program_t *program;
  const tdsl_program_t *origin;
  tdsl_function_fn_t function;
  void *user;
} compile_call_t;

static void check_work(td_task_t *task, void *arg) {
  compile_call_t *call = arg;
  drv_compile_t c;
  td_arena_t arena;
  td_arena_init(&arena, task);
  drv_compile_init(&c, task, &arena, call->context, &call->desc);
  if (!drv_compile_source(&c) || !drv_config_read(&c)) return;
  (void)drv_compile_check(&c, false);
}

tdsl_status_t tdsl_program_check(tdsl_context_t *context,
                                 const tdsl_compile_desc_t *desc,
                                 tdsl_error_t **out_error) {
  compile_call_t work = {.context = context};
  if (!drv_desc_read(desc, &work.desc)) {
    return drv_refuse(context, TDSL_STATUS_INVALID_ARGUMENT,
                      "the descriptor is of another version", out_error);
  }
  drv_call_t call = {context, desc->diagnostic, desc->diagnostic_user, NULL};
  return drv_call(&call, check_work, &work, out_error);
}

static bool has_attribute(const ast_decl_t *d, const char *name) {
  for (size_t i = 0; i < d->attr_count; i++) {
    if (strcmp(d->attrs[i].name.text, name) == 0) return true;
  }
  return false;
}

static void list_work(td_task_t *task, void *arg) {
  compile_call_t *call = arg;
  drv_compile_t c;
  td_arena_t arena;
  td_arena_init(&arena, task);
  drv_compile_init(&c, task, &arena, call->context, &call->desc);
  if (!drv_compile_source(&c) || !drv_compile_parse(&c)) return;
  for (size_t i = 0; i < c.ast->decl_count; i++) {
    const ast_decl_t *d = c.ast->decls[i];
    if (d->kind != AST_DECL_FN) continue;
    call->function(td_str(d->name.text), d->is_export,
                   has_attribute(d, "test"), call->user);
  }
}

tdsl_status_t tdsl_source_list(tdsl_context_t *context,
                               const tdsl_compile_desc_t *desc,
                               tdsl_function_fn_t function, void *user,
                               tdsl_error_t **out_error) {
  compile_call_t work = {
      .context = context, .function = function, .user = user};
  if (!drv_desc_read(desc, &work.desc)) {
    return drv_refuse(context, TDSL_STATUS_INVALID_ARGUMENT,
                      "the descriptor is of another version", out_error);
  }
  drv_call_t call = {context, desc->diagnostic, desc->diagnostic_user, NULL};
  return drv_call(&call, list_work, &work, out_error);
}

static tdsl_string_t keep_text(td_arena_t *arena, tdsl_string_t s) {
  return td_str_n(td_str_cstr(arena, s), s.length);
}

/* Of the descriptor what a later variant asks for: sources and config are
 * those that were read, so paths and callbacks are dropped. */
static void keep_desc(tdsl_program_t *p, const drv_compile_t *c) {
  const tdsl_compile_desc_t *d = c->desc;
  td_arena_t *arena = &p->arena;
  tdsl_compile_desc_t out = TDSL_COMPILE_DESC_INIT;
  tdsl_dim_value_t *dims =
      TD_NEW_ARRAY(arena, tdsl_dim_value_t, c->dim_count + 1);
  tdsl_dim_value_t *axes =
      TD_NEW_ARRAY(arena, tdsl_dim_value_t, d->axis_count + 1);
  for (uint32_t i = 0; i < c->dim_count; i++) {
    dims[i] = (tdsl_dim_value_t){td_str(c->dims[i].name), c->dims[i].value};
  }
  for (uint32_t i = 0; i < d->axis_count; i++) {
    axes[i].name = keep_text(arena, d->axes[i].name);
    axes[i].value = d->axes[i].value;
  }
  tdsl_dtype_t *dtypes = TD_NEW_ARRAY(arena, tdsl_dtype_t, c->arg_count + 1);
  int32_t *ranks = TD_NEW_ARRAY(arena, int32_t, c->arg_count + 1);
  for (uint32_t i = 0; i < c->arg_count; i++) {
    dtypes[i] = c->arg_dtypes[i];
    ranks[i] = c->arg_ranks[i];
  }
  out.checks = c->checks;
  out.device = keep_text(arena, d->device);
  out.dim_count = c->dim_count;
  out.dims = dims;
  out.axis_count = d->axis_count;
  out.axes = axes;
  out.mesh_none = d->mesh_none;
  out.plan_free = d->plan_free;
  out.argument_count = c->arg_count;
  out.argument_dtypes = dtypes;
  out.argument_ranks = ranks;
  out.disable_passes = keep_text(arena, d->disable_passes);
  out.stop_after = keep_text(arena, d->stop_after);
  out.tuning = keep_text(arena, d->tuning);
  p->desc = out;
}

/* Everything that a program keeps lies in its own arena and task. */
static void compile_work(td_task_t *task, void *arg) {
  compile_call_t *call = arg;
  tdsl_program_t *p = call->program;
  td_arena_init(&p->arena, task);
  drv_compile_t *c = TD_NEW(&p->arena, drv_compile_t);
  drv_compile_init(c, task, &p->arena, call->context, &call->desc);
  c->origin = call->origin;
  if (!drv_device_parse(task, c->arena, call->desc.device, &c->device)) {
    return;
  }
  p->device = c->device;
  p->checks = c->checks;
  if (!drv_compile_all(c)) return;
  p->sem = c->sem;
  p->funcs = c->funcs;
  p->made = c;
  keep_desc(p, c);
  drv_program_build(p, c);
  c->desc = NULL; /* the caller's */
}

/* A folder for the report of an internal error, if the host wants one. */
static void report(tdsl_program_t *p, const tdsl_compile_desc_t *desc,
                   tdsl_error_t **out_error) {
  char folder[1024];
  const char *knob = td_env_set(TD_ENV_REPRO_DIR);
  tdsl_string_t to = desc->reproducer_dir;
  if (to.length == 0 && knob != NULL) to = td_str(knob);
  if (to.length == 0 || to.length >= sizeof folder) return;
  memcpy(folder, to.data, to.length);
  folder[to.length] = '\0';
  if (drv_reproduce(p->context, desc, folder, p->task.message) &&
      out_error != NULL) {
    drv_error_note(*out_error, folder);
  }
}

/* What a variant has to say was said by its origin. */
static void silence(const tdsl_diagnostic_t *d, void *user) {
  (void)d;
  (void)user;
}

tdsl_status_t drv_program_create(tdsl_context_t *context,
                                 const tdsl_compile_desc_t *desc,
                                 const tdsl_program_t *origin,
                                 tdsl_program_t **out_program,
                                 tdsl_error_t **out_error) {
  compile_call_t work = {.context = context, .desc = *desc, .origin = origin};
  tdsl_program_t *p = work.program = drv_alloc(context, sizeof *p);
  if (p == NULL) {
    return drv_refuse(context, TDSL_STATUS_OUT_OF_MEMORY, "out of memory",
                      out_error);
  }
  atomic_init(&p->references, 1);
  p->context = context;
  drv_context_retain(context);
  td_task_init(&p->task, &context->host);
  drv_call_t call = {context, desc->diagnostic, desc->diagnostic_user, NULL};
  if (origin != NULL) call.diagnostic = silence;
  tdsl_status_t status =
      drv_call_on(&p->task, &call, compile_work, &work, out_error);
  if (status == TDSL_STATUS_INTERNAL) report(p, &work.desc, out_error);
  if (status == TDSL_STATUS_OK) *out_program = p;
  else tdsl_program_release(p);
  return status;
}

tdsl_status_t tdsl_program_compile(tdsl_context_t *context,
                                   const tdsl_compile_desc_t *desc,
                                   tdsl_program_t **out_program,
                                   tdsl_error_t **out_error) {
  tdsl_compile_desc_t complete;
  *out_program = NULL;
  if (!drv_desc_read(desc, &complete)) {
    return drv_refuse(context, TDSL_STATUS_INVALID_ARGUMENT,
                      "the descriptor is of another version", out_error);
  }
  return drv_program_create(context, &complete, NULL, out_program, out_error);
}
