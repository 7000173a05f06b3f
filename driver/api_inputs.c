/* api_inputs.c: values given as text, and how they become arguments. */
#include "driver/api.h"

#include "runtime/base/num.h"

/* ---- lists --------------------------------------------------------------- */

typedef struct inputs_call {
  tdsl_inputs_t *inputs;
  tdsl_string_t spec;
} inputs_call_t;

tdsl_status_t tdsl_inputs_create(tdsl_context_t *context,
                                 tdsl_inputs_t **out_inputs,
                                 tdsl_error_t **out_error) {
  if (out_error != NULL) *out_error = NULL;
  tdsl_inputs_t *in = *out_inputs = drv_alloc(context, sizeof *in);
  if (in == NULL) {
    return drv_refuse(context, TDSL_STATUS_OUT_OF_MEMORY, "out of memory",
                      out_error);
  }
  in->context = context;
  drv_context_retain(context);
  return TDSL_STATUS_OK;
}

/* What was added before stays when this one fails. */
static void add_work(td_task_t *task, void *arg) {
  inputs_call_t *c = arg;
  tdsl_inputs_t *in = c->inputs;
  td_arena_t *arena = &in->arena;
  io_input_t one;
  const char *spec = td_str_cstr(&task->arena, c->spec);
  if (io_input_read(task, arena, spec, &one)) {
    td_vec_push(arena, &in->list, one);
  }
}

static void add_frame(td_task_t *task, void *arg) {
  inputs_call_t *c = arg;
  td_arena_attach(&c->inputs->arena, task);
  tdsl_status_t status = td_task_run(task, add_work, arg);
  td_arena_detach(&c->inputs->arena);
  if (status != TDSL_STATUS_OK) {
    char message[sizeof task->message];
    memcpy(message, task->message, sizeof message);
    td_raise(task, status, "%s", message);
  }
}

tdsl_status_t tdsl_inputs_add(tdsl_inputs_t *inputs, tdsl_string_t spec,
                              tdsl_error_t **out_error) {
  inputs_call_t c = {inputs, spec};
  drv_call_t call = {.context = inputs->context};
  return drv_call(&call, add_frame, &c, out_error);
}

void tdsl_inputs_destroy(tdsl_inputs_t *in) {
  if (in == NULL) return;
  tdsl_context_t *context = in->context;
  td_task_t task;
  td_task_init(&task, &context->host);
  td_arena_attach(&in->arena, &task);
  td_task_free(&task);
  drv_free(context, in, sizeof *in);
  drv_context_release(context);
}

/* ---- reading ------------------------------------------------------------- */

void drv_inputs_kind(const tdsl_inputs_t *inputs, td_str_t name,
                     tdsl_dtype_t *out_dtype, int32_t *out_rank) {
  *out_dtype = TDSL_DTYPE_UNSET;
  *out_rank = -1;
  for (size_t i = 0; i < inputs->list.length; i++) {
    const io_input_t *in = &inputs->list.data[i];
    const io_leaf_t *leaf = io_leaves_find(&in->leaves, name);
    if (leaf != NULL) {
      *out_dtype = leaf->tensor.dtype;
      *out_rank = leaf->tensor.rank;
    } else if (in->kind == IO_INPUT_SCALAR && td_str_eqc(name, in->name)) {
      *out_rank = 0;
    }
  }
}

/* "m" of "m.blk.wq" */
static td_str_t parameter_of(const char *slot) {
  const char *dot = strchr(slot, '.');
  return td_str_n(slot, dot != NULL ? (size_t)(dot - slot) : strlen(slot));
}

typedef struct filler {
  td_task_t *task;
  td_arena_t arena; /* of the call */
  tdsl_run_t *run;
  const plan_entry_t *entry;
  const tdsl_inputs_t *inputs;
} filler_t;

static bool is_input(const filler_t *f, uint32_t s) {
  return f->entry->slots[s].kind != PLAN_OUT;
}

static void unknown_name(filler_t *f, const char *name) {
  td_diag_t *d = td_diag(f->task, TD_R07, f->entry->loc,
                         "%s has no parameter called '%s'", f->entry->name,
                         name);
  td_nearest_t nearest = td_nearest_start(td_str(name));
  for (uint32_t s = 0; s < f->entry->slot_count; s++) {
    if (!is_input(f, s)) continue;
    td_nearest_offer(&nearest, td_str(f->entry->slots[s].name));
    td_nearest_offer(&nearest, parameter_of(f->entry->slots[s].name));
  }
  if (nearest.best.data != NULL) {
    td_diag_help(d, "did you mean '%.*s'?", TD_STR_ARG(nearest.best));
  }
}

static void set_tensor(filler_t *f, uint32_t s, const io_tensor_t *t) {
  const plan_slot_t *slot = &f->entry->slots[s];
  io_tensor_t fit = *t;
  if (t->dtype != slot->dtype) {
    bool is_float = td_dtype_is_float(t->dtype);
    bool is_int = td_dtype_is_int(t->dtype);
    if (is_float != td_dtype_is_float(slot->dtype) ||
        is_int != td_dtype_is_int(slot->dtype)) {
      td_diag(f->task, TD_R08, slot->loc, "%s: is %s, wanted %s", slot->name,
              td_dtype_name(t->dtype), td_dtype_name(slot->dtype));
      return;
    }
    uint32_t file = td_sources_add_file(f->task, slot->name);
    if (!io_tensor_convert(f->task, &f->arena, file, t, slot->dtype, &fit)) {
      return;
    }
  }
  tdsl_tensor_desc_t desc = {.dtype = fit.dtype, .rank = (uint32_t)fit.rank};
  for (int d = 0; d < fit.rank; d++) desc.dims[d] = fit.dims[d];
  tdsl_buffer_t *b =
      drv_buffer_new(f->task, f->inputs->context, &desc);
  if (fit.bytes > 0) memcpy(b->data, fit.data, fit.bytes);
  drv_arg_set(&f->run->args[s], b);
}

static int64_t find_slot(const filler_t *f, const char *name) {
  for (uint32_t s = 0; s < f->entry->slot_count; s++) {
    if (is_input(f, s) && strcmp(f->entry->slots[s].name, name) == 0) return s;
  }
  return -1;
}

static void set_leaves(filler_t *f, const io_input_t *in) {
  for (size_t i = 0; i < in->leaves.length; i++) {
    const io_leaf_t *leaf = &in->leaves.data[i];
    int64_t s = find_slot(f, leaf->name);
    if (s >= 0) set_tensor(f, (uint32_t)s, &leaf->tensor);
    else unknown_name(f, leaf->name);
  }
}

static void set_scalar(filler_t *f, const io_input_t *in) {
  int64_t s = find_slot(f, in->name);
  io_tensor_t t;
  if (s < 0) {
    unknown_name(f, in->name);
    return;
  }
  const plan_slot_t *slot = &f->entry->slots[s];
  if (slot->rank > 0) {
    td_diag_t *d = td_diag(f->task, TD_R07, slot->loc,
                           "%s: a tensor of rank %u is wanted, not '%s'",
                           slot->name, slot->rank, in->text);
    td_diag_help(d, "give F.npy, F.json or random:SEED");
    return;
  }
  if (io_scalar_parse(f->task, &f->arena, slot->name, td_str(in->text),
                      slot->dtype, &t)) {
    set_tensor(f, (uint32_t)s, &t);
  }
}

/* ---- random -------------------------------------------------------------- */

static bool has_value(const filler_t *f, uint32_t s) {
  const drv_arg_t *arg = &f->run->args[s];
  if (arg->buffer != NULL || arg->is_value) return true;
  tdsl_buffer_t **weights = f->run->exe->weights;
  return weights != NULL && weights[s] != NULL;
}

/* Seed of slot s, if some input names it or its parameter, or '*' does. */
static bool seed_of(const filler_t *f, uint32_t s, int64_t *out) {
  const plan_slot_t *slot = &f->entry->slots[s];
  bool found = false;
  for (size_t i = 0; i < f->inputs->list.length; i++) {
    const io_input_t *in = &f->inputs->list.data[i];
    if (in->kind != IO_INPUT_RANDOM) continue;
    bool is_named = strcmp(in->name, slot->name) == 0 ||
                    td_str_eqc(parameter_of(slot->name), in->name);
    bool is_rest = strcmp(in->name, "*") == 0 && !found &&
                   !slot->has_default && !has_value(f, s);
    if (is_named || is_rest) {
      *out = in->seed;
      found = true;
    }
  }
  return found;
}

static void draw(filler_t *f, uint32_t s, int64_t seed, int64_t param,
                 int64_t leaf, const int64_t *dims, const bool *bound) {
  const plan_slot_t *slot = &f->entry->slots[s];
  tdsl_tensor_desc_t desc;
  if (!drv_slot_dims(f->entry, slot, dims, bound, &desc)) {
    td_diag_t *d = td_diag(f->task, TD_R07, slot->loc,
                           "%s: a random value needs all dims of its shape",
                           slot->name);
    for (uint32_t v = 0; v < f->entry->dim_count; v++) {
      if (bound[v]) continue;
      td_diag_help(d, "--dim %s=VALUE", f->entry->vars[v].name);
    }
    return;
  }
  int64_t lo = 0, hi = 0;
  plan_env_t env = {.vars = dims};
  if (slot->has_range && (!plan_eval(&slot->lo, &env, &lo) ||
                          !plan_eval(&slot->hi, &env, &hi))) {
    td_diag(f->task, TD_R04, slot->loc, "%s: its range has no value",
            slot->name);
    return;
  }
  io_tensor_t t;
  tdsl_buffer_t *b = drv_buffer_new(f->task, f->inputs->context, &desc);
  drv_arg_set(&f->run->args[s], b);
  drv_buffer_tensor(f->task, b, &t);
  (void)io_random_fill(f->task, slot->name, &t, seed, param, leaf,
                       slot->has_range, lo, hi);
}

static const hal_arg_t *known_args(filler_t *f) {
  hal_arg_t *args =
      TD_NEW_ARRAY(&f->arena, hal_arg_t, f->entry->slot_count + 1);
  drv_run_args(f->run, args);
  return args;
}

static void fill_random(filler_t *f) {
  uint32_t n = f->entry->var_count;
  int64_t *dims = TD_NEW_ARRAY(&f->arena, int64_t, n + 1);
  bool *bound = TD_NEW_ARRAY(&f->arena, bool, n + 1);
  int64_t param = -1, leaf = 0;
  td_str_t last = {0};
  drv_entry_bind(f->entry, known_args(f), dims, bound);
  for (uint32_t s = 0; s < f->entry->slot_count; s++) {
    int64_t seed;
    if (!is_input(f, s)) continue;
    td_str_t name = parameter_of(f->entry->slots[s].name);
    if (param < 0 || !td_str_eq(name, last)) {
      param++;
      leaf = 0;
      last = name;
    }
    if (seed_of(f, s, &seed)) draw(f, s, seed, param, leaf, dims, bound);
    leaf++;
  }
}

static bool is_parameter(const filler_t *f, const char *name) {
  for (uint32_t s = 0; s < f->entry->slot_count; s++) {
    const char *slot = f->entry->slots[s].name;
    if (!is_input(f, s)) continue;
    if (strcmp(slot, name) == 0 || td_str_eqc(parameter_of(slot), name)) {
      return true;
    }
  }
  return false;
}

static void fill_work(td_task_t *task, void *arg) {
  filler_t *f = arg;
  f->task = task;
  td_arena_init(&f->arena, task);
  for (size_t i = 0; i < f->inputs->list.length; i++) {
    const io_input_t *in = &f->inputs->list.data[i];
    switch (in->kind) {
      case IO_INPUT_SCALAR: set_scalar(f, in); break;
      case IO_INPUT_LEAVES: set_leaves(f, in); break;
      case IO_INPUT_RANDOM:
        if (strcmp(in->name, "*") != 0 && !is_parameter(f, in->name)) {
          unknown_name(f, in->name);
        }
        break;
    }
  }
  if (td_task_errors(task) == 0) fill_random(f);
}

tdsl_status_t tdsl_run_set_inputs(tdsl_run_t *run,
                                  const tdsl_inputs_t *inputs,
                                  tdsl_error_t **out_error) {
  const tdsl_program_t *program = run->exe->program;
  filler_t f = {.run = run,
                .entry = &program->plans[run->exe->index],
                .inputs = inputs};
  drv_call_t call = {.context = program->context, .sources = &program->task};
  return drv_call(&call, fill_work, &f, out_error);
}
