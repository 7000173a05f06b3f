/* Reading tensors and structs, writing results. */
#include "runtime/io/values.h"

#include "runtime/base/rng.h"

/* "uniform" makes elements that the file does not hold, so they are bounded
   over the whole document: enough for tests, which they are for. */
#define MOST_UNIFORM ((size_t)1 << 20)

/* -- one tensor -- */

/* What the keys of a tensor have said so far. */
typedef struct draft_t {
  io_tensor_t tensor;
  bool has_dtype, has_shape, has_data, has_uniform;
  size_t data_start, data_end; /* of the "data" value in the text */
  int64_t seed;
  double lo, hi;
} draft_t;

/* The language's own spellings: "f32", not "float32". */
static bool read_dtype(io_json_t *j, draft_t *d) {
  td_str_t text;
  if (!io_json_text(j, &text)) return false;
  d->tensor.dtype = td_dtype_parse(text);
  d->has_dtype = true;
  if (d->tensor.dtype != TDSL_DTYPE_UNSET) return true;
  return io_json_fail(j, TD_F63, "\"%.*s\" is no dtype of tdsl",
                      TD_STR_ARG(text));
}

/* [] is a scalar. */
static bool read_shape(io_json_t *j, draft_t *d) {
  io_tensor_t *t = &d->tensor;
  d->has_shape = true;
  if (!io_json_array(j)) return false;
  while (io_json_item(j)) {
    int64_t dim;
    if (!io_json_int(j, &dim)) return false;
    if (dim < 0) return io_json_fail(j, TD_F60, "a dim is negative");
    if (t->rank == IO_MAX_RANK) {
      return io_json_fail(j, TD_F60, "more than %d dims", IO_MAX_RANK);
    }
    t->dims[t->rank++] = dim;
  }
  return !j->failed;
}

/* All three keys; the reader has refused repetitions. */
static bool read_uniform(io_json_t *j, draft_t *d) {
  td_str_t key;
  int seen = 0;
  d->has_uniform = true;
  if (!io_json_object(j)) return false;
  while (io_json_key(j, &key)) {
    bool ok;
    if (td_str_eqc(key, "seed")) ok = io_json_int(j, &d->seed);
    else if (td_str_eqc(key, "lo")) ok = io_json_number(j, &d->lo);
    else if (td_str_eqc(key, "hi")) ok = io_json_number(j, &d->hi);
    else ok = io_json_fail(j, TD_F60, "uniform has no key \"%.*s\"",
                           TD_STR_ARG(key));
    if (!ok) return false;
    seen++;
  }
  if (j->failed) return false;
  return seen == 3 ||
         io_json_fail(j, TD_F60, "uniform needs seed, lo and hi");
}

static bool does_not_fit(io_json_t *j, const io_tensor_t *t, size_t i,
                         td_str_t text) {
  return io_json_fail(j, TD_F62, "element %zu is %.*s, which %s cannot hold",
                      i, TD_STR_ARG(text), td_dtype_name(t->dtype));
}

/* Rounds once from binary64, as the vectors define. A finite number that
   becomes infinite is a mistake of the file, not a value. */
static bool read_float(io_json_t *j, io_tensor_t *t, size_t i, void *place) {
  td_str_t text;
  double value;
  bool is_text = io_json_peek(j) == IO_JSON_TEXT;
  if (is_text ? !io_json_text(j, &text) : !io_json_number_text(j, &text)) {
    return false;
  }
  if (!td_parse_f64(text, &value)) return does_not_fit(j, t, i, text);
  /* Names are for what JSON cannot write, and only for that. */
  bool is_finite = value - value == 0;
  if (is_text == is_finite) return does_not_fit(j, t, i, text);
  td_store_f64(t->dtype, place, value);
  double stored = td_load_f64(t->dtype, place);
  if (is_finite && stored - stored != 0) return does_not_fit(j, t, i, text);
  return true;
}

/* As written: 3.0 and 3e0 are no integers here. */
static bool read_int(io_json_t *j, io_tensor_t *t, size_t i, void *place) {
  td_str_t text;
  int64_t value;
  if (!io_json_number_text(j, &text)) return false;
  if (!td_parse_i64(text, &value) || value < td_dtype_min(t->dtype) ||
      value > td_dtype_max(t->dtype)) {
    return does_not_fit(j, t, i, text);
  }
  td_store_i64(t->dtype, place, value);
  return true;
}

/* By the kind of the dtype. */
static bool read_element(io_json_t *j, io_tensor_t *t, size_t i) {
  void *place = (char *)t->data + i * td_dtype_bytes(t->dtype);
  if (td_dtype_is_float(t->dtype)) return read_float(j, t, i, place);
  if (t->dtype != TDSL_DTYPE_BOOL || io_json_peek(j) != IO_JSON_BOOL) {
    return read_int(j, t, i, place); /* 0 and 1 do for bool */
  }
  bool truth;
  if (!io_json_bool(j, &truth)) return false;
  *(uint8_t *)place = truth;
  return true;
}

/* "data" may stand before "dtype", so its text is read when all is known. */
static bool fill_data(io_json_t *j, draft_t *d) {
  io_tensor_t *t = &d->tensor;
  io_json_t again;
  size_t end = j->at;
  /* Two characters an element at least: no memory for a shape that the text
     cannot fill. */
  if (t->count > (d->data_end - d->data_start) / 2 + 1) {
    return io_json_fail(j, TD_F61, "the shape has %zu elements, data fewer",
                        t->count);
  }
  io_tensor_alloc(t, j->arena);
  io_json_begin(&again, j->task, j->arena, j->file, j->text);
  again.at = d->data_start;
  size_t i = 0;
  if (io_json_array(&again)) {
    while (io_json_item(&again)) {
      if (i == t->count) {
        io_json_fail(&again, TD_F61, "more elements than the %zu of the "
                                     "shape",
                     t->count);
        break;
      }
      if (!read_element(&again, t, i)) break;
      i++;
    }
  }
  if (again.failed) {
    io_json_end(&again);
    j->failed = true;
    return false;
  }
  j->at = end;
  return i == t->count ||
         io_json_fail(j, TD_F61, "the shape has %zu elements, data %zu",
                      t->count, i);
}

/* The counter is the row-major position. */
static bool fill_uniform(io_json_t *j, draft_t *d) {
  io_tensor_t *t = &d->tensor;
  if (t->count > MOST_UNIFORM - j->made) {
    return io_json_fail(j, TD_F61, "uniform makes at most %zu elements",
                        MOST_UNIFORM);
  }
  j->made += t->count;
  io_tensor_alloc(t, j->arena);
  for (size_t i = 0; i < t->count; i++) {
    int64_t at = (int64_t)i;
    double u = (double)td_uniform(d->seed, &at, 1);
    td_store_f64(t->dtype, (char *)t->data + i * td_dtype_bytes(t->dtype),
                 d->lo + (d->hi - d->lo) * u);
  }
  return true;
}

static bool read_tensor_key(io_json_t *j, draft_t *d, td_str_t key) {
  if (td_str_eqc(key, "dtype")) return read_dtype(j, d);
  if (td_str_eqc(key, "shape")) return read_shape(j, d);
  if (td_str_eqc(key, "uniform")) return read_uniform(j, d);
  if (td_str_eqc(key, "data")) {
    if (io_json_peek(j) != IO_JSON_ARRAY) {
      return io_json_fail(j, TD_F60, "data is not an array");
    }
    d->has_data = true;
    d->data_start = j->at;
    if (!io_json_skip(j)) return false;
    d->data_end = j->at;
    return true;
  }
  return io_json_fail(j, TD_F60, "a tensor has no key \"%.*s\"",
                      TD_STR_ARG(key));
}

/* The object is open and its first key read. */
static bool read_tensor(io_json_t *j, td_str_t key, const char *name,
                        io_leaves_t *out) {
  draft_t d = {.has_dtype = false};
  do {
    if (!read_tensor_key(j, &d, key)) return false;
  } while (io_json_key(j, &key));
  if (j->failed) return false;
  if (!d.has_dtype || !d.has_shape || d.has_data == d.has_uniform) {
    return io_json_fail(j, TD_F60, "a tensor has dtype, shape, and either "
                                   "data or uniform");
  }
  if (!io_tensor_size(&d.tensor)) {
    return io_json_fail(j, TD_F60, "the size of the shape overflows");
  }
  if (!(d.has_data ? fill_data(j, &d) : fill_uniform(j, &d))) return false;
  io_leaf_t leaf = {name, d.tensor, TDSL_DTYPE_UNSET};
  td_vec_push(j->arena, out, leaf);
  return true;
}

/* -- structs -- */

/* Whether the object that comes next is {"seed": 1, ...} and not a struct. */
static bool is_uniform(const io_json_t *j) {
  io_json_t ahead;
  td_str_t key;
  io_json_begin(&ahead, j->task, j->arena, j->file, j->text);
  ahead.at = j->at;
  bool found = io_json_object(&ahead) && io_json_key(&ahead, &key) &&
               io_json_peek(&ahead) == IO_JSON_NUMBER;
  ahead.failed = true; /* what follows is not its business */
  io_json_end(&ahead);
  return found;
}

/* A tensor gives itself away by its first key: text under dtype, an array
   under shape or data. A field of a struct is an object. */
static bool opens_tensor(io_json_t *j, td_str_t key) {
  io_json_kind_t kind = io_json_peek(j);
  if (td_str_eqc(key, "dtype")) return kind == IO_JSON_TEXT;
  if (td_str_eqc(key, "shape") || td_str_eqc(key, "data")) {
    return kind == IO_JSON_ARRAY;
  }
  return td_str_eqc(key, "uniform") && kind == IO_JSON_OBJECT &&
         is_uniform(j);
}

/* Field names on the way down. Structs nest as deeply as JSON may. */
bool io_values_next(io_json_t *j, const char *name, io_leaves_t *out) {
  const char *prefix[IO_JSON_MAX_DEPTH + 1];
  int base = j->depth;
  const char *next = name;
  for (;;) {
    td_str_t key;
    if (!io_json_object(j)) return false;
    prefix[j->depth - base] = next;
    bool more = io_json_key(j, &key);
    if (more && opens_tensor(j, key)) {
      if (!read_tensor(j, key, next, out)) return false;
      more = false;
    } else if (more) {
      goto field;
    }
    if (j->failed) return false;
    /* The object is closed; on in the one around it. */
    for (;;) {
      if (j->depth == base) return true;
      if (io_json_key(j, &key)) break;
      if (j->failed) return false;
    }
  field:
    next = prefix[j->depth - base];
    next = next[0] ? td_arena_printf(j->arena, "%s.%.*s", next,
                                     TD_STR_ARG(key))
                   : td_str_cstr(j->arena, key);
  }
}

/* A whole document that is one value. */
bool io_values_parse(td_task_t *task, td_arena_t *arena, uint32_t file,
                     td_str_t text, const char *name, io_leaves_t *out) {
  io_json_t j;
  io_json_begin(&j, task, arena, file, text);
  io_values_next(&j, td_arena_strdup(arena, name), out);
  return io_json_end(&j);
}

/* -- random -- */

bool io_random_fill(td_task_t *task, const char *name, io_tensor_t *t,
                    int64_t seed, int64_t param, int64_t leaf,
                    bool has_range, int64_t lo, int64_t hi) {
  if (!has_range) {
    bool is_byte = t->dtype == TDSL_DTYPE_I8 || t->dtype == TDSL_DTYPE_U8;
    lo = is_byte ? td_dtype_min(t->dtype) : -8;
    hi = is_byte ? td_dtype_max(t->dtype) + 1 : 9;
  }
  bool is_int = td_dtype_is_int(t->dtype);
  if (is_int && hi <= lo && t->count) {
    td_diag(task, TD_R04, TD_NO_LOC, "%s: no integer is in %lld .. %lld",
            name, (long long)lo, (long long)hi);
    return false;
  }
  double width = (double)((uint64_t)hi - (uint64_t)lo);
  for (size_t i = 0; i < t->count; i++) {
    int64_t counters[3] = {param, leaf, (int64_t)i};
    double u = (double)td_uniform(seed, counters, 3);
    void *place = (char *)t->data + i * td_dtype_bytes(t->dtype);
    if (is_int) {
      /* u and width are not negative, so truncation is floor. */
      int64_t step = td_f64_to_i64(u * width);
      td_store_i64(t->dtype, place, td_wrap_add(lo, step));
    } else if (t->dtype == TDSL_DTYPE_BOOL) {
      *(uint8_t *)place = u < 0.5;
    } else {
      td_store_f64(t->dtype, place, 2 * u - 1);
    }
  }
  return true;
}

/* -- writing -- */

/* Digits that identify the binary64 value, whatever the type: whoever reads
   them as binary64 then has the stored value itself. */
static void put_element(td_buf_t *buf, const io_tensor_t *t, size_t i) {
  const char *place = (const char *)t->data + i * td_dtype_bytes(t->dtype);
  if (t->dtype == TDSL_DTYPE_BOOL) {
    td_buf_puts(buf, *place ? "true" : "false");
  } else if (td_dtype_is_int(t->dtype)) {
    td_buf_printf(buf, "%lld", (long long)td_load_i64(t->dtype, place));
  } else {
    double v = td_load_f64(t->dtype, place);
    const char *quote = v - v == 0 ? "" : "\"";
    td_buf_printf(buf, "%s%g%s", quote, v, quote);
    /* readers take -0 for an integer, which has no sign */
    if (v == 0 && td_f64_bits(v) != 0) td_buf_puts(buf, ".0");
  }
}

void io_tensor_put(td_buf_t *buf, const io_leaf_t *leaf) {
  const io_tensor_t *t = &leaf->tensor;
  tdsl_dtype_t dtype =
      leaf->declared != TDSL_DTYPE_UNSET ? leaf->declared : t->dtype;
  td_buf_printf(buf, "{\"dtype\": \"%s\", \"shape\": ",
                td_dtype_name(dtype));
  io_put_dims(buf, t->dims, t->rank);
  td_buf_puts(buf, ", \"data\": [");
  for (size_t i = 0; i < t->count; i++) {
    if (i) td_buf_puts(buf, ", ");
    put_element(buf, t, i);
  }
  td_buf_puts(buf, "]}");
}

/* Bytes of the whole components that both names begin with, the point behind
   the last one included. */
static size_t common_prefix(const char *a, const char *b) {
  size_t end = 0;
  for (size_t i = 0; a[i] && a[i] == b[i]; i++) {
    if (a[i] == '.') end = i + 1;
  }
  return end;
}

/* Levels of nesting that a name opens. */
static size_t points_in(const char *text) {
  size_t count = 0;
  for (; *text; text++) count += *text == '.';
  return count;
}

/* Dotted names become nested objects: between two leaves what they do not
   share is closed and opened. */
static void put_leaves(td_buf_t *buf, const io_leaf_t *leaves, size_t count) {
  const char *last = "";
  td_buf_putc(buf, '{');
  for (size_t i = 0; i < count; i++) {
    const char *name = leaves[i].name;
    size_t shared = common_prefix(last, name);
    for (size_t n = points_in(last + shared); n; n--) td_buf_putc(buf, '}');
    if (i) td_buf_puts(buf, ", ");
    for (const char *p = name + shared;;) {
      const char *point = strchr(p, '.');
      size_t n = point ? (size_t)(point - p) : strlen(p);
      td_buf_json(buf, td_str_n(p, n));
      td_buf_puts(buf, ": ");
      if (!point) break;
      td_buf_putc(buf, '{');
      p = point + 1;
    }
    io_tensor_put(buf, &leaves[i]);
    last = name;
  }
  td_buf_pad(buf, '}', points_in(last) + 1);
}

/* One line for each of results and state, so that two files compare well. */
void io_results_put(td_buf_t *buf, const char *fn, const io_leaf_t *results,
                    size_t result_count, const io_leaf_t *state,
                    size_t state_count) {
  td_buf_puts(buf, "{\"format\": 1, \"fn\": ");
  td_buf_json(buf, td_str(fn));
  td_buf_puts(buf, ",\n \"results\": ");
  put_leaves(buf, results, result_count);
  td_buf_puts(buf, ",\n \"state\": ");
  put_leaves(buf, state, state_count);
  td_buf_puts(buf, "}\n");
}
