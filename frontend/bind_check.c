/* bind_check.c: every leaf finds its tensors, of fitting dtype and shape. */
#include "frontend/bind.h"

#include "runtime/base/map.h"
#include "runtime/base/num.h"

typedef struct check {
  td_task_t *task;
  td_arena_t *arena;
  const sem_program_t *program;
  const bind_source_t *source;
  const bind_options_t *options;
  td_map_t used; /* names of tensors */
  bool ok;
} check_t;

/* ---- E13 ----------------------------------------------------------------- */

/* The field as its struct names it. */
static const char *last_field(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot == NULL ? path : dot + 1;
}

/* E13 shows the nearest name of the file: mostly a prefix is wrong. */
static void report_missing(check_t *k, const bind_leaf_t *leaf,
                           const char *name) {
  td_diag_t *d = td_diag(k->task, TD_E13, leaf->loc,
                         "checkpoint has no tensor %s", name);
  td_diag_note(d, "it is the field %s", leaf->path);
  td_nearest_t n = td_nearest_start(td_str(name));
  for (size_t i = 0; i < k->source->count; i++) {
    const bind_tensor_t *t = k->source->get(k->source->user, i);
    if (t != NULL) td_nearest_offer(&n, td_str(t->name));
  }
  if (n.best.data != NULL) {
    td_diag_note(d, "the nearest name is %.*s", TD_STR_ARG(n.best));
  }
  td_diag_help(d, "name it in the field: `%s: ... from \"NAME\"`; or let it "
               "be another field where it is absent: `else FIELD`",
               last_field(leaf->path));
}

/* ---- E14 ----------------------------------------------------------------- */

/* A shape of the file. */
static const char *dims_text(td_arena_t *arena, const int64_t *dims,
                             uint32_t rank) {
  td_buf_t out;
  td_buf_init(&out, arena->task);
  td_buf_putc(&out, '[');
  for (uint32_t i = 0; i < rank; i++) {
    td_buf_printf(&out, "%s%lld", i > 0 ? ", " : "", (long long)dims[i]);
  }
  td_buf_putc(&out, ']');
  return td_buf_finish(&out, arena);
}

/* As written and as values. */
static const char *declared_text(td_arena_t *arena, const bind_leaf_t *leaf,
                                 uint32_t first) {
  td_buf_t out;
  td_buf_init(&out, arena->task);
  td_buf_putc(&out, '[');
  for (uint32_t i = first; i < leaf->rank; i++) {
    if (i > first) td_buf_puts(&out, ", ");
    if (leaf->dim_text[i] != NULL) td_buf_puts(&out, leaf->dim_text[i]);
    else td_buf_printf(&out, "%lld", (long long)leaf->dims[i]);
  }
  td_buf_printf(&out, "] = %s", dims_text(arena, leaf->dims + first,
                                          leaf->rank - first));
  return td_buf_finish(&out, arena);
}

/* "H = 32 from config.json "num_attention_heads"" for names in dim texts. */
static void note_origins(check_t *k, td_diag_t *d, const bind_leaf_t *leaf,
                         uint32_t first) {
  td_buf_t out;
  td_buf_init(&out, k->task);
  for (uint32_t i = 0; k->program != NULL && i < k->program->dim_count; i++) {
    const sem_global_dim_t *dim = &k->program->dims[i];
    if (dim->is_dynamic || dim->value < 0) continue;
    bool mentioned = false;
    for (uint32_t j = first; j < leaf->rank && !mentioned; j++) {
      mentioned = leaf->dim_text[j] != NULL &&
                  strcmp(leaf->dim_text[j], dim->name) == 0;
    }
    if (!mentioned) continue;
    if (out.length > 0) td_buf_puts(&out, "; ");
    td_buf_printf(&out, "%s = %lld", dim->name, (long long)dim->value);
    if (dim->config_key != NULL) {
      td_buf_printf(&out, " from config.json \"%s\"", dim->config_key);
    }
  }
  if (out.length > 0) td_diag_note(d, "%s", out.data);
  td_buf_free(&out);
}

/* E14: both shapes, the dim at fault, where its value comes from, and the
 * value that would fit. */
static void report_shape(check_t *k, const bind_leaf_t *leaf,
                         const bind_tensor_t *t, uint32_t first, uint32_t at) {
  uint32_t rank = leaf->rank - first;
  td_diag_t *d = td_diag(k->task, TD_E14, leaf->loc,
                         "checkpoint tensor %s is %s, declared %s", t->name,
                         dims_text(k->arena, t->dims, t->rank),
                         declared_text(k->arena, leaf, first));
  td_diag_note(d, "file      %s   %s %s%s%s", t->name,
               td_dtype_name(t->dtype),
               dims_text(k->arena, t->dims, t->rank),
               t->file != NULL ? "   " : "", t->file != NULL ? t->file : "");
  td_diag_note(d, "declared  %s; adjacent dims may split and merge",
               declared_text(k->arena, leaf, first));
  if (at < rank) {
    const char *text = leaf->dim_text[first + at];
    td_diag_note(d, "the declared dim %u%s%s = %lld is the first that does "
                 "not fit", at, text != NULL ? ", " : "",
                 text != NULL ? text : "",
                 (long long)leaf->dims[first + at]);
  }
  note_origins(k, d, leaf, first);
  int64_t have = 1, want = 1;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (!td_mul_i64(have, t->dims[i], &have)) return;
  }
  for (uint32_t i = first; i < leaf->rank; i++) {
    if (i != first + at && !td_mul_i64(want, leaf->dims[i], &want)) return;
  }
  if (at < rank && want > 0 && have % want == 0 &&
      have / want != leaf->dims[first + at]) {
    const char *text = leaf->dim_text[first + at];
    td_diag_help(d, "with %s = %lld the number of elements would fit",
                 text != NULL ? text : "it", (long long)(have / want));
  }
}

/* ---- E15 ----------------------------------------------------------------- */

/* Exact widening by itself, narrowing only on demand. */
static bool dtype_fits(const check_t *k, tdsl_dtype_t file,
                       tdsl_dtype_t declared) {
  if (file == declared) return true;
  if (!td_dtype_is_float(file) || !td_dtype_is_float(declared)) return false;
  if (k->options->convert || declared == TDSL_DTYPE_F64) return true;
  if (declared == TDSL_DTYPE_F32) return file != TDSL_DTYPE_F64;
  return (file == TDSL_DTYPE_F8E4M3 || file == TDSL_DTYPE_F8E5M2) &&
         (declared == TDSL_DTYPE_F16 || declared == TDSL_DTYPE_BF16);
}

/* E15. Integers and floats never convert into each other. */
static void report_dtype(check_t *k, const bind_leaf_t *leaf,
                         const bind_tensor_t *t) {
  td_diag_t *d = td_diag(k->task, TD_E15, leaf->loc,
                         "checkpoint tensor %s is %s, declared %s", t->name,
                         td_dtype_name(t->dtype), td_dtype_name(leaf->dtype));
  bool floats = td_dtype_is_float(t->dtype) && td_dtype_is_float(leaf->dtype);
  if (floats) {
    td_diag_help(d, "declare the field as %s, or load with `--convert`, which "
                 "rounds", td_dtype_name(t->dtype));
  } else {
    td_diag_help(d, "declare the field as %s", td_dtype_name(t->dtype));
  }
}

/* ---- a leaf -------------------------------------------------------------- */

/* Dims that are dynamic are compared at entry, by the run time. */
static bool check_tensor(check_t *k, const bind_leaf_t *leaf,
                         const bind_tensor_t *t, uint32_t first) {
  td_map_put(&k->used, td_str(t->name), (void *)(uintptr_t)t);
  if (!dtype_fits(k, t->dtype, leaf->dtype)) {
    report_dtype(k, leaf, t);
    return false;
  }
  for (uint32_t i = first; i < leaf->rank; i++) {
    if (leaf->dims[i] < 0) return true; /* dynamic: known at entry only */
  }
  uint32_t at = 0;
  if (bind_match(leaf->dims + first, leaf->rank - first, t->dims, t->rank,
                 NULL, NULL, &at)) {
    return true;
  }
  report_shape(k, leaf, t, first, at);
  return false;
}

/* Number of tensors, or -1 if a numbered stack dim has no value. */
static int64_t tensor_count(const bind_leaf_t *leaf, uint32_t holes) {
  enum { MOST = 1 << 20 };
  int64_t n = 1;
  if (holes > leaf->rank) return -1;
  for (uint32_t i = 0; i < holes; i++) {
    if (leaf->dims[i] < 0 || !td_mul_i64(n, leaf->dims[i], &n)) return -1;
    if (n > MOST) return -1;
  }
  return n;
}

/* Like an odometer, the innermost stack fastest. */
static void next_position(const bind_leaf_t *leaf, uint32_t holes,
                          int64_t *positions) {
  for (uint32_t i = holes; i > 0; i--) {
    if (++positions[i - 1] < leaf->dims[i - 1]) return;
    positions[i - 1] = 0;
  }
}

/* A stack is complete or at fault; a tied field is absent as a whole. */
static void check_leaf(check_t *k, const bind_leaf_t *leaves, size_t number,
                       bind_place_t *place) {
  const bind_leaf_t *leaf = &leaves[number];
  uint32_t holes = bind_hole_count(leaf->pattern);
  int64_t count = tensor_count(leaf, holes);
  int64_t positions[IX_MAX_RANK] = {0};
  place->alias = -1;
  if (count < 0) {
    td_diag_t *d = td_diag(k->task, TD_E56, leaf->loc,
                           "the number of stack positions of %s is not known",
                           leaf->path);
    td_diag_help(d, "give the stack's dim a value; it is not guessed from the "
                 "checkpoint");
    k->ok = false;
    return;
  }
  place->tensors = TD_NEW_ARRAY(k->arena, const bind_tensor_t *, count);
  for (int64_t i = 0; i < count; i++) {
    const char *name = bind_name(k->arena, leaf->pattern, positions);
    const bind_tensor_t *t = k->source->find(k->source->user, name);
    if (t == NULL && i == 0 && leaf->else_leaf >= 0) {
      place->alias = leaf->else_leaf;
      return;
    }
    if (t == NULL) {
      report_missing(k, leaf, name);
      k->ok = false;
      return;
    }
    if (!check_tensor(k, leaf, t, holes)) {
      k->ok = false;
      return;
    }
    place->tensors[place->tensor_count++] = t;
    next_position(leaf, holes, positions);
  }
}

/* ---- W04 ----------------------------------------------------------------- */

/* W04. Three names are enough to recognise what they are. */
static void check_unused(check_t *k, td_loc_t loc) {
  size_t unused = 0;
  td_buf_t names;
  td_buf_init(&names, k->task);
  for (size_t i = 0; i < k->source->count; i++) {
    const bind_tensor_t *t = k->source->get(k->source->user, i);
    if (t == NULL || td_map_has(&k->used, td_str(t->name))) continue;
    if (unused++ < 3) {
      td_buf_printf(&names, "%s%s", unused > 1 ? ", " : "", t->name);
    }
  }
  if (unused > 0) {
    td_diag_t *d = td_diag(k->task, TD_W04, loc,
                           "%zu tensor%s of the checkpoint %s not used",
                           unused, unused == 1 ? "" : "s",
                           unused == 1 ? "is" : "are");
    td_diag_note(d, "%s%s", names.data, unused > 3 ? ", ..." : "");
    if (k->options->strict) {
      d->severity = TDSL_SEVERITY_ERROR;
      k->task->warnings--;
      k->task->errors++;
      k->ok = false;
    }
  }
  td_buf_free(&names);
}

/* All leaves are tried: one run shows all that does not fit. */
bool bind_check(td_task_t *task, td_arena_t *arena,
                const sem_program_t *program, const bind_leaf_t *leaves,
                size_t count, const bind_source_t *source,
                const bind_options_t *options, bind_place_t **out_places) {
  static const bind_options_t none = {0};
  check_t k = {.task = task, .arena = arena, .program = program,
               .source = source,
               .options = options != NULL ? options : &none, .ok = true};
  td_map_init(&k.used, arena);
  *out_places = TD_NEW_ARRAY(arena, bind_place_t, count);
  for (size_t i = 0; i < count; i++) {
    check_leaf(&k, leaves, i, &(*out_places)[i]);
  }
  if (k.ok) check_unused(&k, count > 0 ? leaves[0].loc : TD_NO_LOC);
  return k.ok;
}
