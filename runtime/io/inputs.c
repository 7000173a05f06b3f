/* The forms of --in, and files of cases. */
#include "runtime/base/os.h"
#include "runtime/io/npy.h"
#include "runtime/io/values.h"

/* R07: the command line is an argument like any other. */
static bool malformed(td_task_t *task, const char *spec, const char *why) {
  td_diag_t *d = td_diag(task, TD_R07, TD_NO_LOC, "input '%s': %s", spec, why);
  td_diag_help(d, "NAME=VALUE, where VALUE is a number, true, false, F.npy, "
                  "F.json or random:SEED");
  return false;
}

/* -- scalars -- */

/* The type is known from the slot, so text that does not fit it is refused
   instead of guessed at: 1.5 is no i32, 2 is no bool. */
bool io_scalar_parse(td_task_t *task, td_arena_t *arena, const char *name,
                     td_str_t text, tdsl_dtype_t dtype, io_tensor_t *out) {
  *out = (io_tensor_t){.dtype = dtype};
  io_tensor_alloc(out, arena);
  double real;
  int64_t integer;
  bool ok = false;
  if (td_dtype_is_float(dtype)) {
    ok = td_parse_f64(text, &real);
    if (ok) td_store_f64(dtype, out->data, real);
  } else if (dtype == TDSL_DTYPE_BOOL) {
    bool is_true = td_str_eqc(text, "true") || td_str_eqc(text, "1");
    ok = is_true || td_str_eqc(text, "false") || td_str_eqc(text, "0");
    *(uint8_t *)out->data = is_true;
  } else {
    ok = td_parse_i64(text, &integer) && integer >= td_dtype_min(dtype) &&
         integer <= td_dtype_max(dtype);
    if (ok) td_store_i64(dtype, out->data, integer);
  }
  if (!ok) {
    td_diag(task, TD_R07, TD_NO_LOC, "%s: '%.*s' is no value of type %s",
            name, TD_STR_ARG(text), td_dtype_name(dtype));
  }
  return ok;
}

/* -- files -- */

/* The "args" of a case, or the whole object if it has none. */
static bool read_args(td_task_t *task, td_arena_t *arena, uint32_t file,
                      td_str_t text, io_leaves_t *out) {
  io_json_t j;
  td_str_t key;
  bool found = false;
  io_json_begin(&j, task, arena, file, text);
  if (io_json_object(&j)) {
    while (io_json_key(&j, &key)) {
      bool is_args = td_str_eqc(key, "args");
      found |= is_args;
      if (is_args ? !io_values_next(&j, "", out) : !io_json_skip(&j)) break;
    }
  }
  if (!io_json_end(&j)) return false;
  return found || io_values_parse(task, arena, file, text, "", out);
}

/* The text must outlive the call only: values are copied out of it. */
static bool read_json(td_task_t *task, td_arena_t *arena, const char *path,
                      io_input_t *out) {
  td_str_t text;
  if (!td_os_read_file(task, path, 0, arena, &text)) return false;
  uint32_t file = td_sources_add_file(task, path);
  if (strcmp(out->name, "@") == 0) {
    return read_args(task, arena, file, text, &out->leaves);
  }
  return io_values_parse(task, arena, file, text, out->name, &out->leaves);
}

/* The dtype is the file's; the caller converts if the slot differs. */
static bool read_npy(td_task_t *task, td_arena_t *arena, const char *path,
                     io_input_t *out) {
  io_leaf_t leaf = {.name = out->name};
  if (!io_npy_read(task, arena, path, &leaf.tensor)) return false;
  td_vec_push(arena, &out->leaves, leaf);
  return true;
}

/* Members are fields of the parameter, or with '@' the parameters. */
static bool read_npz(td_task_t *task, td_arena_t *arena, const char *path,
                     io_input_t *out) {
  if (!io_npz_read(task, arena, path, 0, &out->leaves)) return false;
  for (size_t i = 0; i < out->leaves.length; i++) {
    io_leaf_t *leaf = &out->leaves.data[i];
    if (strcmp(out->name, "@") == 0) continue;
    leaf->name = td_arena_printf(arena, "%s.%s", out->name, leaf->name);
  }
  return true;
}

/* The forms are told apart by prefix and suffix alone, so a missing file is
   an error and never taken for a scalar. */
bool io_input_read(td_task_t *task, td_arena_t *arena, const char *spec,
                   io_input_t *out) {
  const char *equals = strchr(spec, '=');
  memset(out, 0, sizeof *out);
  if (!equals || equals == spec || !equals[1]) {
    return malformed(task, spec, "NAME=VALUE is wanted");
  }
  out->name = td_arena_strndup(arena, spec, (size_t)(equals - spec));
  const char *value = td_arena_strdup(arena, equals + 1);
  td_str_t text = td_str(value);
  bool is_all = strcmp(out->name, "*") == 0;
  bool is_args = strcmp(out->name, "@") == 0;
  if (td_str_starts(text, "random:")) {
    out->kind = IO_INPUT_RANDOM;
    if (is_args) return malformed(task, spec, "write '*=random:SEED'");
    return td_parse_i64(td_str(value + 7), &out->seed) ||
           malformed(task, spec, "the seed is not a 64-bit integer");
  }
  if (is_all) return malformed(task, spec, "'*' takes random:SEED only");
  out->kind = IO_INPUT_LEAVES;
  if (td_str_ends(text, ".npz")) return read_npz(task, arena, value, out);
  if (td_str_ends(text, ".json")) return read_json(task, arena, value, out);
  if (!is_args && td_str_ends(text, ".npy")) {
    return read_npy(task, arena, value, out);
  }
  if (value[0] == '{') {
    uint32_t file = td_sources_add_file(task, "<command line>");
    return io_values_parse(task, arena, file, text,
                           is_args ? "" : out->name, &out->leaves);
  }
  if (is_args) return malformed(task, spec, "'@' takes F.json or F.npz");
  out->kind = IO_INPUT_SCALAR;
  out->text = value;
  return true;
}

/* -- cases -- */

/* A text that outlives the document. */
static bool read_text(io_json_t *j, const char **out) {
  td_str_t text;
  if (!io_json_text(j, &text)) return false;
  *out = td_str_cstr(j->arena, text);
  return true;
}

/* In the order of the file, as --dim would give them. */
static bool read_dims(io_json_t *j, io_case_t *c) {
  td_str_t key;
  if (!io_json_object(j)) return false;
  while (io_json_key(j, &key)) {
    io_named_int_t dim = {td_str_cstr(j->arena, key), 0};
    if (!io_json_int(j, &dim.value)) return false;
    td_vec_push(j->arena, &c->dims, dim);
  }
  return !j->failed;
}

/* Two numbers a path; the path is dotted like a leaf's name. */
static bool read_tolerances(io_json_t *j, io_case_t *c) {
  td_str_t key;
  if (!io_json_object(j)) return false;
  while (io_json_key(j, &key)) {
    double bound[2] = {0, 0};
    int count = 0;
    if (!io_json_array(j)) return false;
    while (io_json_item(j)) {
      if (count == 2) return io_json_fail(j, TD_F64, "tol is [ABS, REL]");
      if (!io_json_number(j, &bound[count++])) return false;
    }
    if (j->failed) return false;
    if (count != 2) return io_json_fail(j, TD_F64, "tol is [ABS, REL]");
    io_tolerance_t t = {td_str_cstr(j->arena, key), bound[0], bound[1]};
    td_vec_push(j->arena, &c->tolerances, t);
  }
  return !j->failed;
}

/* Scalars by call: {"loss": [2.9, 0.9]}. */
static bool read_sequence(io_json_t *j, io_case_t *c) {
  td_str_t key;
  if (!io_json_object(j)) return false;
  while (io_json_key(j, &key)) {
    TD_VEC(double) values = {NULL, 0, 0};
    if (!io_json_array(j)) return false;
    while (io_json_item(j)) {
      double value;
      if (!io_json_number(j, &value)) return false;
      td_vec_push(j->arena, &values, value);
    }
    if (j->failed) return false;
    io_leaf_t leaf = {.name = td_str_cstr(j->arena, key)};
    leaf.tensor.dtype = TDSL_DTYPE_F64;
    leaf.tensor.rank = 1;
    leaf.tensor.dims[0] = (int64_t)values.length;
    io_tensor_alloc(&leaf.tensor, j->arena);
    if (values.length) {
      memcpy(leaf.tensor.data, values.data, leaf.tensor.bytes);
    }
    td_vec_push(j->arena, &c->sequence, leaf);
  }
  return !j->failed;
}

/* Keys that only people read ("checked", "note") are skipped. config stays
   text: its reader is io_config_parse. */
static bool read_case_key(io_json_t *j, td_str_t key, io_case_t *c) {
  if (td_str_eqc(key, "name")) return read_text(j, &c->name);
  if (td_str_eqc(key, "fn")) return read_text(j, &c->fn);
  if (td_str_eqc(key, "dims")) return read_dims(j, c);
  if (td_str_eqc(key, "tol")) return read_tolerances(j, c);
  if (td_str_eqc(key, "sequence")) return read_sequence(j, c);
  if (td_str_eqc(key, "args")) return io_values_next(j, "", &c->args);
  if (td_str_eqc(key, "results")) {
    return io_values_next(j, "", &c->results);
  }
  if (td_str_eqc(key, "state")) return io_values_next(j, "", &c->state);
  bool is_config = td_str_eqc(key, "config");
  if (is_config && io_json_peek(j) != IO_JSON_OBJECT) {
    return io_json_fail(j, TD_F64, "config is not an object");
  }
  size_t start = j->at;
  if (!io_json_skip(j)) return false;
  if (is_config) c->config = td_str_n(j->text.data + start, j->at - start);
  return true;
}

/* name and fn are what a report needs; all else may be absent. */
static bool read_case(io_json_t *j, io_cases_t *out) {
  io_case_t c;
  td_str_t key;
  memset(&c, 0, sizeof c);
  if (!io_json_object(j)) return false;
  while (io_json_key(j, &key)) {
    if (!read_case_key(j, key, &c)) return false;
  }
  if (j->failed) return false;
  if (!c.name || !c.fn) return io_json_fail(j, TD_F64, "a case needs name "
                                                       "and fn");
  td_vec_push(j->arena, &out->cases, c);
  return true;
}

/* The list, in the order of the file. */
static bool read_cases(io_json_t *j, io_cases_t *out) {
  if (!io_json_array(j)) return false;
  while (io_json_item(j)) {
    if (!read_case(j, out)) return false;
  }
  return !j->failed;
}

/* A later format may mean other things by the same keys. */
static bool read_format(io_json_t *j) {
  int64_t format;
  if (!io_json_int(j, &format)) return false;
  return format == 1 || io_json_fail(j, TD_F64, "format %lld is not known",
                                     (long long)format);
}

/* Other keys of the document are allowed and skipped. */
bool io_cases_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                    td_str_t text, io_cases_t *out) {
  io_json_t j;
  td_str_t key;
  memset(out, 0, sizeof *out);
  io_json_begin(&j, task, arena, file, text);
  if (io_json_object(&j)) {
    while (io_json_key(&j, &key)) {
      bool ok = td_str_eqc(key, "format")   ? read_format(&j)
                : td_str_eqc(key, "source") ? read_text(&j, &out->source)
                : td_str_eqc(key, "cases")  ? read_cases(&j, out)
                                            : io_json_skip(&j);
      if (!ok) break;
    }
  }
  return io_json_end(&j);
}
