/* pass.h: the table of passes and their runner.
 *
 * passes.def has one row a pass; pipeline.c calls them in order.  The runner
 * verifies after each pass, prints the IR only if it changed, times it, and
 * honours the options below.  A pass edits its module in place and says
 * whether it changed anything. */
#ifndef TDSL_PASSES_PASS_H
#define TDSL_PASSES_PASS_H

#include "ir/kir.h"
#include "ir/target.h"
#include "ir/tir.h"

typedef enum pass_level { PASS_TIR, PASS_KIR } pass_level_t;
typedef enum pass_class {
  PASS_BITWISE,      /* no answer changes */
  PASS_REASSOCIATED, /* sums may be regrouped by the accumulation plan */
  PASS_APPROXIMATE,  /* only when asked for */
} pass_class_t;

typedef enum pass_id {
#define PASS(id, ...) PASS_ID_##id,
#include "passes/passes.def"
  PASS_COUNT
} pass_id_t;

typedef struct pass_info {
  const char *name;   /* "fold-constants": flags and dumps spell it so */
  pass_level_t level;
  pass_class_t numerics;
  bool is_optional;   /* may be switched off; answers stay the same */
  const char *sentence;
} pass_info_t;

extern const pass_info_t pass_table[PASS_COUNT];

/* Receives one text per stage that a dump asked for. */
typedef void (*pass_dump_fn)(void *user, const char *pass, const char *text,
                             size_t length);

/* Whether long sums of products are shared out to blocks of a GPU: what pays,
 * all that can be, none. No result depends on it. */
typedef enum pass_splits {
  PASS_SPLITS_PAY, PASS_SPLITS_ALL, PASS_SPLITS_OFF,
} pass_splits_t;

/* Sizes that stand for those of the machine row, or that the tile passes
 * choose, in the kernels of one group.  They choose among forms that give the
 * same bits; 0: no other. */
typedef struct pass_sizes {
  uint32_t mr, nr;         /* CPU: of the micro-kernel */
  uint32_t mc, nc, kc;     /* CPU: of blocks; GPU: the tile of a thread block,
                              and the depth at a time */
  uint32_t stages;         /* GPU: of the depth in shared memory */
  uint32_t splits;         /* GPU: 1 more than a pass_splits_t */
} pass_sizes_t;
/* kernel: the group's as no sizes make it, complete; number: which of all
 * kernels the group's first one will be. */
typedef void (*pass_sizes_fn)(void *user, const kir_kernel_t *kernel,
                              uint32_t number, pass_sizes_t *out);
/* GPU: mc and nc of tiles that products may be asked to have, by number.
 * False past the last. */
bool pass_product_tile(uint32_t number, pass_sizes_t *out);

typedef struct pass_options {
  const char *target;      /* machine row: "cpu:x86-64-v3", ... */
  const char *disabled;    /* comma-separated names; NULL: none */
  const char *stop_after;  /* name, or NULL */
  int verify;              /* 0 off, 1 verifier, 2 also print-parse-print */
  int checks;              /* 2: keep and lower run-time checks */
  bool plan_serial;        /* every reduction is one chunk, left to right */
  pass_dump_fn dump;       /* NULL: no dumps; called after a pass that
                              changed the IR */
  void *dump_user;
  bool all_cascades;       /* one sweep even where it does not pay */
  bool lazy_gauges;        /* maxima that are gauges only move by leaps */
  pass_splits_t splits;
  pass_sizes_fn sizes;     /* asked for each group; NULL: no other sizes */
  void *sizes_user;
} pass_options_t;

typedef struct pass_timing {
  uint32_t runs, changes;
  double seconds;
} pass_timing_t;

typedef struct pass_state {
  td_task_t *task;
  const pass_options_t *options;
  pass_timing_t timing[PASS_COUNT];
  bool has_stopped;        /* stop_after was reached: later ones do nothing */
  struct pass_remarks *remarks; /* remark.h; NULL: nobody listens */
} pass_state_t;

/* Id of a name, or PASS_COUNT. */
pass_id_t pass_find(const char *name, size_t length);
bool pass_is_enabled(const pass_options_t *options, pass_id_t id);

typedef bool (*pass_tir_fn)(pass_state_t *state, tir_module_t *module);
typedef bool (*pass_kir_fn)(pass_state_t *state, kir_kernel_t *kernel);

/* Runs one pass over the module (over each kernel), with all of the above.
 * An unknown name in `disabled` or a mandatory pass there is refused by
 * pass_check_options. */
void pass_run_tir(pass_state_t *state, pass_id_t id, pass_tir_fn fn,
                  tir_module_t *module);
void pass_run_kir(pass_state_t *state, pass_id_t id, pass_kir_fn fn,
                  kir_kernel_t **kernels, uint32_t kernel_count);
bool pass_check_options(td_task_t *task, const pass_options_t *options);

/* All tensor passes, in order (pipeline.c).  Afterwards every node belongs
 * to a group. */
void pass_tensor_pipeline(pass_state_t *state, tir_module_t *module);

/* Kernel of one group, and all tile passes over the kernels of a module. */
typedef struct pass_kernels {
  uint32_t count;
  kir_kernel_t **kernels;   /* in order of function, then group */
  /* Parallel to kernels: which group each one is, and the TIR value behind
   * each parameter (param_count of the kernel). */
  const tir_func_t **funcs;
  uint32_t *groups;
  const tir_value_t ***param_values;
  /* TIR values that each scalar argument stands for: dims by symbol, loop
   * variables by the symbol of their rank-0 value (kernel->dims). */
} pass_kernels_t;

void pass_tile_pipeline(pass_state_t *state, td_arena_t *arena,
                        const tir_module_t *module, const ir_target_t *target,
                        pass_kernels_t *out);
/* Its first step: KIR of each group, untuned. */
void pass_lower_to_tiles(pass_state_t *state, td_arena_t *arena,
                         const tir_module_t *module,
                         const ir_target_t *target, pass_kernels_t *out);

/* Declarations of the passes themselves. */
#define PASS(id, name, level, numerics, optional, sentence) \
  PASS_DECLARE_##level(id)
#define PASS_DECLARE_TIR(id) bool pass_##id(pass_state_t *, tir_module_t *);
#define PASS_DECLARE_KIR(id) bool pass_##id(pass_state_t *, kir_kernel_t *);
#include "passes/passes.def"
#undef PASS_DECLARE_TIR
#undef PASS_DECLARE_KIR

#endif
