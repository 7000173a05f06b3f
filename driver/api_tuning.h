/* api_tuning.h: sizes of tiles that were measured, in a file.
 *
 * A row says which sizes the kernel of one content has on one machine.  The
 * content is the kernel's text as the machine row alone makes it, without its
 * name, so a row serves every program that has the same kernel.  Sizes choose
 * among forms of equal bits: a file that is missing, old or wrong costs time
 * and nothing else. */
#ifndef DRIVER_API_TUNING_H
#define DRIVER_API_TUNING_H

#include "codegen/kernel_key.h"
#include "driver/api.h"
#include "ir/target.h"
#include "passes/pass.h"

typedef struct drv_tuned {
  cg_key_t key;
  const char *target; /* name of the machine row */
  pass_sizes_t sizes;
  uint32_t gain;      /* thousandths: 1250 is 1.25 times as fast */
  const char *kernel; /* whose it was, for people */
} drv_tuned_t;

typedef TD_VEC(drv_tuned_t) drv_tuned_list_t;

/* What one compilation takes from a file, and which kernels it had. */
typedef struct drv_tuning {
  td_arena_t *arena;
  td_task_t *task;
  const ir_target_t *target;
  drv_tuned_list_t rows;
  /* of each group of kernels, in their order: the key, the first one */
  TD_VEC(cg_key_t) keys;
  TD_VEC(uint32_t) firsts;
} drv_tuning_t;

/* CPU: registers, lanes and blocks allow it. GPU: there is such a tile. */
bool drv_sizes_fit(const ir_target_t *target, const pass_sizes_t *sizes);
/* What pass_sizes_t.splits is called. */
const char *drv_splits_name(uint32_t splits);

/* Rows of a file's text. False after W07: nothing of it is used. `name` is
 * for messages. */
bool drv_tuning_read(td_task_t *task, td_arena_t *arena, const char *name,
                     td_str_t text, drv_tuned_list_t *out);
/* A file's text, rows sorted; a later row replaces an earlier one of its
 * key and target. */
void drv_tuning_print(td_buf_t *out, td_arena_t *arena,
                      const drv_tuned_list_t *rows);

/* A pass_sizes_fn; user is a drv_tuning_t. */
void drv_tuning_sizes(void *user, const kir_kernel_t *kernel,
                      uint32_t number, pass_sizes_t *out);

/* ---- api_tune_step.c: what a search tries -------------------------------- */

uint32_t drv_tune_steps(const ir_target_t *target);
/* Where it begins: the sizes of a compilation without a file. */
pass_sizes_t drv_tune_first(const ir_target_t *target);
/* Change number `step` of the sizes so far; false: it is none. */
bool drv_tune_change(const ir_target_t *target, uint32_t step,
                     pass_sizes_t *sizes);
void drv_tune_print(td_buf_t *out, const ir_target_t *target,
                    const pass_sizes_t *sizes);

#endif
