/* What the tests of kernels share: kernels as text, run by the interpreter
   and as machine code on the same inputs, and comparison of what they
   leave. */
#ifndef TESTS_KIR_LAB_H
#define TESTS_KIR_LAB_H

#include "unit.h"

#include "ir/kir.h"
#include "runtime/base/num.h"

enum { LAB_MAX_PARAMS = 24, LAB_MAX_DIMS = 4 };

/* A kernel, the values of its dims, and storage for its parameters. */
typedef struct lab_t {
  td_task_t *task;
  td_arena_t arena;
  kir_kernel_t *kernel;
  int64_t dims[LAB_MAX_DIMS];
  size_t counts[LAB_MAX_PARAMS];
  void *data[LAB_MAX_PARAMS];  /* as filled by the test */
  void *other[LAB_MAX_PARAMS]; /* copies, for a second engine */
  uint64_t seed;
} lab_t;

static inline void lab_show(td_task_t *task) {
  td_buf_t text;
  td_buf_init(&text, task);
  for (size_t i = 0; i < task->diags.length; i++) {
    td_diag_render(&text, task, task->diags.data[i], false);
  }
  if (text.length > 0) print_error("%s\n", text.data);
  td_buf_free(&text);
}

static inline kir_kernel_t *lab_parse(td_task_t *task, td_arena_t *arena,
                                      const char *text) {
  uint32_t file = td_sources_add(task, "test.kir", text, strlen(text));
  kir_kernel_t **kernels = kir_parse(task, arena, file);
  if (kernels == NULL || !kir_verify(task, kernels[0], "test", true)) {
    lab_show(task);
  }
  assert_non_null(kernels);
  assert_int_equal(td_task_errors(task), 0);
  return kernels[0];
}

static inline uint64_t lab_random(lab_t *lab) {
  lab->seed = lab->seed * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = lab->seed;
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdu;
  return x ^ (x >> 29);
}

/* A value in -2 .. 2 for floats, small integers, bools. */
static inline void lab_fill(lab_t *lab, uint32_t param) {
  tdsl_dtype_t dtype = lab->kernel->params[param]->dtype;
  size_t bytes = td_dtype_bytes(dtype);
  for (size_t i = 0; i < lab->counts[param]; i++) {
    unsigned char *at = (unsigned char *)lab->data[param] + i * bytes;
    uint64_t r = lab_random(lab);
    if (td_dtype_is_float(dtype)) {
      td_store_f64(dtype, at, (double)(int64_t)(r >> 11) * 0x1p-51 - 2.0);
    } else if (dtype == TDSL_DTYPE_BOOL) {
      *at = (unsigned char)(r >> 40 & 1);
    } else {
      td_store_wrap(dtype, at, (int64_t)(r >> 58));
    }
  }
}

static inline bool lab_dim(void *user, const ix_symbol_t *s, int64_t *out) {
  const lab_t *lab = user;
  for (uint32_t i = 0; i < lab->kernel->dim_count; i++) {
    if (lab->kernel->dims[i] == s) {
      *out = lab->dims[i];
      return true;
    }
  }
  return false;
}

static inline int64_t lab_value(lab_t *lab, const ix_poly_t *p) {
  int64_t v = 0;
  assert_true(ix_eval(p, lab_dim, lab, &v));
  return v;
}

/* Parses, binds dims (in order, ended by -1) and fills all parameters. */
static inline void lab_open(lab_t *lab, td_task_t *task, const char *text,
                            const int64_t *dims) {
  memset(lab, 0, sizeof *lab);
  lab->task = task;
  lab->seed = 12345;
  td_arena_init(&lab->arena, task);
  lab->kernel = lab_parse(task, &lab->arena, text);
  assert_true(lab->kernel->param_count <= LAB_MAX_PARAMS);
  for (uint32_t i = 0; i < lab->kernel->dim_count; i++) {
    lab->dims[i] = dims[i];
  }
  for (uint32_t i = 0; i < lab->kernel->param_count; i++) {
    const kir_buffer_t *b = lab->kernel->params[i];
    size_t count = 1;
    for (uint32_t d = 0; d < b->rank; d++) {
      count *= (size_t)lab_value(lab, b->dims[d]);
    }
    lab->counts[i] = count;
    /* exactly as long as it must be, so that a checker sees overruns */
    lab->data[i] = malloc(count * td_dtype_bytes(b->dtype) + 1);
    lab->other[i] = malloc(count * td_dtype_bytes(b->dtype) + 1);
    assert_non_null(lab->data[i]);
    assert_non_null(lab->other[i]);
    lab_fill(lab, i);
  }
}

static inline void lab_copy(lab_t *lab) {
  for (uint32_t i = 0; i < lab->kernel->param_count; i++) {
    memcpy(lab->other[i], lab->data[i],
           lab->counts[i] * td_dtype_bytes(lab->kernel->params[i]->dtype));
  }
}

static inline void lab_close(lab_t *lab) {
  for (uint32_t i = 0; i < lab->kernel->param_count; i++) {
    free(lab->data[i]);
    free(lab->other[i]);
  }
  td_arena_free_all(&lab->arena);
}

/* Runs the interpreter over `data`. */
static inline void lab_interpret(lab_t *lab, bool reversed) {
  bool ok = kir_interpret(lab->task, lab->kernel, lab->data, lab->dims, true,
                          reversed);
  if (!ok) lab_show(lab->task);
  assert_true(ok);
}

/* Element i of a parameter's storage: equal bits, or both NaN of a type
   whose NaNs have many patterns. */
static inline bool lab_same(tdsl_dtype_t dtype, const void *a, const void *b) {
  if (memcmp(a, b, td_dtype_bytes(dtype)) == 0) return true;
  if (dtype != TDSL_DTYPE_F32 && dtype != TDSL_DTYPE_F64) return false;
  double x = td_load_f64(dtype, a), y = td_load_f64(dtype, b);
  return x != x && y != y;
}

/* data and other agree; `what` names the run in a message. */
static inline void lab_compare(lab_t *lab, const char *what) {
  for (uint32_t i = 0; i < lab->kernel->param_count; i++) {
    const kir_buffer_t *b = lab->kernel->params[i];
    size_t bytes = td_dtype_bytes(b->dtype);
    for (size_t k = 0; k < lab->counts[i]; k++) {
      const unsigned char *x = (unsigned char *)lab->data[i] + k * bytes;
      const unsigned char *y = (unsigned char *)lab->other[i] + k * bytes;
      if (lab_same(b->dtype, x, y)) continue;
      char one[TD_F64_TEXT], two[TD_F64_TEXT];
      td_format_f64(one, td_load_f64(b->dtype, x));
      td_format_f64(two, td_load_f64(b->dtype, y));
      fail_msg("%s, kernel %s: element %zu of %s is %s and %s", what,
               lab->kernel->name, k, b->name, one, two);
    }
  }
}

#endif
