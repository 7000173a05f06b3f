/* Machine code for kir_lab.h: compile, link, run, compare with the
   interpreter. */
#ifndef TESTS_KIR_LLVM_LAB_H
#define TESTS_KIR_LLVM_LAB_H

#include "kir_lab.h"

#include <math.h>

#include "codegen/llvm/llvm.h"
#include "runtime/cpu/cpu_orc.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__, 0, 0, 0, 0})

static inline const char *text_of(td_task_t *task, const char *format, ...)
    TD_PRINTF(2, 3);
static inline const char *text_of(td_task_t *task, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(&task->arena, format, args);
  va_end(args);
  return text;
}

/* Interesting f32 and f64 values and all pairs of them. */
static const double specials[] = {
    0.0,       -0.0,      1.0,        -1.0,      0.5,      -0.5,    1.5,
    2.5,       -2.5,      3.0,        -7.0,      0x1p-126, 0x1p-149,
    -0x1p-149, 0x1p-130,  0x1.fffffep127, -0x1.fffffep127, 0x1p31, -0x1p31,
    0x1p63,    -0x1p63,   1e10,       -1e-10,    0.1,      12345.678};
enum { SPECIALS = sizeof specials / sizeof specials[0] + 3 };

static inline double special(size_t i) {
  size_t n = sizeof specials / sizeof specials[0];
  if (i < n) return specials[i];
  return i == n ? (double)INFINITY : i == n + 1 ? -(double)INFINITY
                                                : (double)NAN;
}

static const char *const lab_targets[] = {"x86-64-v2", "x86-64-v3",
                                          "x86-64-v4", "arm64"};

/* The row if this host can run it; rows are ordered, and a host runs those
   below its own. */
static inline const ir_target_t *lab_target(int i) {
  const ir_target_t *host = ir_target_host();
  const ir_target_t *row = ir_target_find(td_str(lab_targets[i]));
  assert_non_null(host);
  bool is_arm = strcmp(host->name, "arm64") == 0;
  if (is_arm || strcmp(lab_targets[i], "arm64") == 0) {
    return strcmp(host->name, lab_targets[i]) == 0 ? row : NULL;
  }
  for (int k = 0; k < 3; k++) {
    if (strcmp(host->name, lab_targets[k]) == 0) return i <= k ? row : NULL;
  }
  return NULL;
}
enum { LAB_TARGETS = 4 };

typedef struct lab_code_t {
  rcpu_code_t *code;
  rcpu_kernel_fn fn;
} lab_code_t;

static inline lab_code_t lab_compile(lab_t *lab, const ir_target_t *target) {
  cgl_output_t out = {0, NULL};
  const kir_kernel_t *kernels[1] = {lab->kernel};
  cgl_compile(lab->task, &lab->arena, kernels, 1, target, CGL_OBJECT, &out);
  lab_code_t c = {rcpu_code_create(lab->task), NULL};
  assert_non_null(c.code);
  bool ok = rcpu_code_add(c.code, lab->task, out.data, out.bytes);
  if (ok) {
    c.fn = rcpu_code_find(c.code, lab->task,
                          cgl_symbol(&lab->arena, lab->kernel));
  }
  if (c.fn == NULL) lab_show(lab->task);
  assert_non_null(c.fn);
  return c;
}

/* Runs the code over `other`, `piece` blocks at a call (0: all). */
static inline void lab_call(lab_t *lab, lab_code_t c, int64_t piece) {
  int64_t blocks = lab_value(lab, kir_block_count(lab->kernel));
  int64_t bytes = lab_value(lab, kir_scratch_bytes(lab->kernel));
  unsigned char *raw = malloc((size_t)bytes + 128);
  assert_non_null(raw);
  unsigned char *scratch = raw + (64 - (uintptr_t)raw % 64) % 64;
  memset(raw, 0xff, (size_t)bytes + 128);
  if (piece <= 0) piece = blocks > 0 ? blocks : 1;
  for (int64_t at = 0; at < blocks; at += piece) {
    int64_t end = at + piece < blocks ? at + piece : blocks;
    c.fn(lab->other, lab->dims, scratch, at, end);
  }
  for (int i = 0; i < 64; i++) { /* the size was enough */
    assert_int_equal(scratch[bytes + i], 0xff);
  }
  free(raw);
}

/* Interpreter and every target that can run here leave equal bits. */
static inline void lab_agree(lab_t *lab) {
  void *keep[LAB_MAX_PARAMS];
  for (uint32_t i = 0; i < lab->kernel->param_count; i++) {
    size_t bytes =
        lab->counts[i] * td_dtype_bytes(lab->kernel->params[i]->dtype);
    keep[i] = malloc(bytes + 1);
    memcpy(keep[i], lab->data[i], bytes);
  }
  lab_interpret(lab, false);
  for (int t = 0; t < LAB_TARGETS; t++) {
    const ir_target_t *target = lab_target(t);
    if (target == NULL) continue;
    lab_code_t c = lab_compile(lab, target);
    for (int64_t piece = 0; piece < 3; piece++) {
      for (uint32_t i = 0; i < lab->kernel->param_count; i++) {
        size_t bytes =
            lab->counts[i] * td_dtype_bytes(lab->kernel->params[i]->dtype);
        memcpy(lab->other[i], keep[i], bytes);
      }
      lab_call(lab, c, piece);
      lab_compare(lab, target->name);
    }
    rcpu_code_destroy(c.code);
  }
  for (uint32_t i = 0; i < lab->kernel->param_count; i++) free(keep[i]);
}

/* One kernel of one dim set. */
static inline void lab_check(td_task_t *task, const char *text,
                             const int64_t *dims) {
  lab_t lab;
  lab_open(&lab, task, text, dims);
  lab_agree(&lab);
  lab_close(&lab);
}

#endif
