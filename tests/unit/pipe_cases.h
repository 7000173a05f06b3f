/* Cases in files, as tests/oracle draws them: F.json beside F.tdsl.  Run by
   `unit_pipeline --cases F.json ...`; each is compiled in several ways and
   compared with the stored results, the interpreter, and the other ways. */
#ifndef TESTS_PIPE_CASES_H
#define TESTS_PIPE_CASES_H

#include "pipe.h"

#include "runtime/io/values.h"

typedef struct case_run {
  const char *path;
  td_task_t *task;
  const pipe_way_t *ways;
  uint32_t way_count;
  pipe_built_t built[8];
  int failures;
} case_run_t;

static const char *case_read(td_task_t *task, const char *path) {
  td_str_t text;
  if (!td_os_read_file(task, path, 0, &task->arena, &text)) {
    td_raise(task, TDSL_STATUS_IO, "cannot read %s", path);
  }
  return td_str_cstr(&task->arena, text);
}

/* Slot arguments from the case's; false if one is missing. */
static hal_arg_t *case_args(td_task_t *task, const plan_entry_t *e,
                            const io_case_t *c) {
  hal_arg_t *args = TD_NEW_ARRAY(&task->arena, hal_arg_t, e->slot_count + 1);
  for (uint32_t s = 0; s < e->slot_count; s++) {
    const plan_slot_t *slot = &e->slots[s];
    const io_leaf_t *leaf = io_leaves_find(&c->args, td_str(slot->name));
    hal_arg_t *a = &args[s];
    a->dtype = slot->dtype;
    a->rank = slot->rank;
    if (leaf == NULL) continue;
    const io_tensor_t *t = &leaf->tensor;
    for (uint32_t d = 0; d < a->rank; d++) a->dims[d] = t->dims[d];
    a->is_set = true;
    a->data = t->data;
    if (t->dtype != slot->dtype) { /* f32 where the case has f64 numbers */
      io_tensor_t other;
      io_tensor_convert(task, &task->arena, 0, t, slot->dtype, &other);
      a->data = other.data;
    }
  }
  return args;
}

static int64_t *case_dims(td_task_t *task, const tir_func_t *f,
                          const hal_arg_t *args) {
  int64_t *dims = TD_NEW_ARRAY(&task->arena, int64_t, f->dim_count + 1);
  for (uint32_t i = 0; i < f->dim_count; i++) {
    for (uint32_t s = 0; s < f->slot_count; s++) {
      const tir_value_t *v = f->slots[s].value;
      for (uint32_t d = 0; v != NULL && d < v->rank; d++) {
        if (v->dims[d] == NULL || !ix_mentions(v->dims[d], f->dims[i])) {
          continue;
        }
        int64_t c0 = 0, c1 = 1; /* the dims of random programs are linear */
        if (v->dims[d]->term_count == 1 &&
            v->dims[d]->terms[0].atom_count == 1 &&
            v->dims[d]->terms[0].coefficient == 1) {
          dims[i] = args[s].dims[d];
        } else if (v->dims[d]->terms[0].atom_count == 1 &&
                   v->dims[d]->term_count <= 2) {
          c1 = v->dims[d]->terms[0].coefficient;
          for (uint32_t k = 0; k < v->dims[d]->term_count; k++) {
            const ix_term_t *t = &v->dims[d]->terms[k];
            if (t->atom_count == 0) c0 = t->coefficient;
            else c1 = t->coefficient;
          }
          dims[i] = (args[s].dims[d] - c0) / c1;
        }
      }
    }
  }
  return dims;
}

static bool case_is_near(const io_case_t *c, const io_leaf_t *want,
                         const hal_arg_t *got, const char *label) {
  double absolute = 0, relative = 0;
  for (size_t i = 0; i < c->tolerances.length; i++) {
    if (strcmp(c->tolerances.data[i].path, want->name) != 0) continue;
    absolute = c->tolerances.data[i].absolute;
    relative = c->tolerances.data[i].relative;
  }
  size_t width = td_dtype_bytes(got->dtype);
  if (pipe_count(got) != want->tensor.count) {
    (void)fprintf(stderr, "  %s: shape of %s\n", label, want->name);
    return false;
  }
  for (size_t i = 0; i < want->tensor.count; i++) {
    double a = td_load_f64(got->dtype, (char *)got->data + i * width);
    double b = td_load_f64(want->tensor.dtype,
                           (char *)want->tensor.data +
                               i * td_dtype_bytes(want->tensor.dtype));
    if (a == b || (isnan(a) && isnan(b)) ||
        fabs(a - b) <= absolute + relative * fabs(b)) {
      continue;
    }
    (void)fprintf(stderr, "  %s: %s[%zu] is %.9g, not %.9g (+- %g)\n", label,
                  want->name, i, a, b, absolute + relative * fabs(b));
    return false;
  }
  return true;
}

static bool case_has_functions(const char *tir) {
  static const char *const names[] = {"exp(", "exp2(", "log(", "log2(",
                                      "sin(", "cos(", "tanh(", "erf(",
                                      "pow(", "rsqrt("};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strstr(tir, names[i]) != NULL) return true;
  }
  return false;
}

static void case_body(td_task_t *task, void *arg) {
  case_run_t *r = arg;
  td_arena_t *arena = &task->arena;
  const char *json = case_read(task, r->path);
  char *path = td_arena_alloc(arena, strlen(r->path) + 8);
  memcpy(path, r->path, strlen(r->path) - 5);
  strcat(path, ".tdsl");
  const char *text = case_read(task, path);
  uint32_t file = td_sources_add(task, r->path, json, strlen(json));
  io_cases_t cases = {0};
  if (!io_cases_parse(task, arena, file, td_str(json), &cases)) {
    pipe_show(task);
    td_raise(task, TDSL_STATUS_IO, "cannot read the case");
  }
  const io_case_t *c = &cases.cases.data[0];
  pipe_source_t source = {0};
  const char *tir = pipe_lower(task, path, text, &source);
  if (tir == NULL) {
    const char *id = unit_first_id(task);
    if (strcmp(id, "B01") != 0) pipe_show(task);
    td_raise(task, TDSL_STATUS_INVALID_PROGRAM, "refused");
  }
  tir_module_t *m = pipe_read(task, tir);
  if (m->func_count == 0) {
    td_raise(task, TDSL_STATUS_INVALID_PROGRAM, "refused");
  }
  bool has_functions = case_has_functions(tir);
  hal_arg_t *args = NULL;
  int64_t *dims = NULL;
  pipe_result_t want = {NULL}, first[2] = {{NULL}, {NULL}};
  for (uint32_t w = 0; w < r->way_count; w++) {
    const pipe_way_t *way = &r->ways[w];
    pipe_build(task, tir, way, &r->built[w]);
    const plan_entry_t *e = &r->built[w].plan->entries[0];
    if (args == NULL) {
      args = case_args(task, e, c);
      dims = case_dims(task, m->funcs[0], args);
      plan_env_t env = {dims, NULL};
      for (uint32_t s = 0; s < e->slot_count; s++) {
        if (e->slots[s].kind != PLAN_OUT) continue;
        for (uint32_t d = 0; d < args[s].rank; d++) {
          (void)plan_eval(&e->slots[s].dims[d], &env, &args[s].dims[d]);
        }
        args[s].data = td_arena_alloc(arena, 16);
      }
      for (uint32_t s = 0; s < e->slot_count; s++) {
        if (args[s].is_set || e->slots[s].kind == PLAN_OUT) continue;
        td_raise(task, TDSL_STATUS_IO, "no argument %s", e->slots[s].name);
      }
      for (uint32_t s = 0; s < e->slot_count; s++) {
        if (args[s].is_set) continue;
        args[s].data = td_arena_alloc(
            arena, pipe_count(&args[s]) * td_dtype_bytes(args[s].dtype) + 16);
      }
      want = pipe_reference(task, m, 0, dims, args);
    }
    pipe_result_t got = pipe_run(task, &r->built[w], 0, dims, args);
    bool ok = pipe_compare(task, e, &want, &got,
                           way->serial && !has_functions ? 0 : 1e-4,
                           way->label);
    for (size_t i = 0; i < c->results.length; i++) {
      for (uint32_t s = 0; s < e->slot_count; s++) {
        if (strcmp(e->slots[s].name, c->results.data[i].name) != 0) continue;
        ok &= case_is_near(c, &c->results.data[i], &got.slots[s],
                           way->label);
      }
    }
    if (!way->serial) {
      pipe_result_t *other = &first[has_functions && way->is_kir];
      if (other->slots == NULL) {
        *other = got;
      } else if (!has_functions || way->target == NULL) {
        ok &= pipe_compare(task, e, other, &got, 0, way->label);
      }
    }
    r->failures += !ok;
  }
}

/* 0 if all agree. */
static int case_files(int count, char **paths, const pipe_way_t *ways,
                      uint32_t way_count) {
  int failures = 0, refused = 0;
  for (int i = 0; i < count; i++) {
    case_run_t r = {.path = paths[i], .ways = ways, .way_count = way_count};
    td_task_t task;
    td_task_init(&task, NULL);
    tdsl_status_t status = td_task_run(&task, case_body, &r);
    if (status == TDSL_STATUS_INVALID_PROGRAM) {
      refused++;
    } else if (status != TDSL_STATUS_OK) {
      (void)fprintf(stderr, "  %s\n", task.message);
      r.failures++;
    }
    for (uint32_t w = 0; w < 8; w++) pipe_close(&r.built[w]);
    td_task_free(&task);
    if (r.failures > 0) (void)fprintf(stderr, "FAILED %s\n", paths[i]);
    failures += r.failures > 0;
  }
  (void)fprintf(stderr, "%d cases, %d refused, %d failed\n", count, refused,
                failures);
  return failures > 0;
}

#endif
