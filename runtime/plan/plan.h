/* plan.h: the contract between compiler and run time.
 *
 * A plan says when and where: buffers with sizes and arena offsets, kernels
 * with their payloads and launch geometry, and the steps of each entry
 * point.  It is data only: nothing of the compiler is needed to run it.
 * Whatever depends on dynamic dims is an expression over them, evaluated
 * once when an entry's arguments have bound them.
 *
 * Lifetime: all in one arena.  A finished plan is immutable and may be read
 * by any number of threads. */
#ifndef TDSL_RUNTIME_PLAN_H
#define TDSL_RUNTIME_PLAN_H

#include "runtime/base/task.h"
#include "runtime/base/vec.h"

typedef struct plan plan_t;
typedef struct plan_entry plan_entry_t;

enum {
  PLAN_MAX_RANK = 12,
  PLAN_CELL_BYTES = 16, /* of a scalar that is given by value */
};

/* ---- expressions: postfix programs over 64-bit integers ----------------- */

typedef enum plan_x {
#define PLAN_EXPR(id, ...) PLAN_X_##id,
#include "runtime/plan/plan_ops.def"
  PLAN_X_COUNT
} plan_x_t;

typedef struct plan_token {
  plan_x_t op;
  int64_t value;   /* CONST; VAR: index into the entry's vars; SCALAR: slot */
  double real;     /* REAL */
} plan_token_t;

/* count 0: the number 0.  Verified: stack never under- or overflows
 * PLAN_STACK, divisors are tested when evaluated. */
typedef struct plan_expr {
  uint32_t count;
  const plan_token_t *tokens;
} plan_expr_t;
enum { PLAN_STACK = 128 };

/* A number while a condition is evaluated. */
typedef struct plan_number {
  bool is_real;
  int64_t i;
  double r;
} plan_number_t;

/* Values of an entry's vars (dynamic dims, then loop variables) and of its
 * rank-0 slots (NULL where not needed). */
typedef struct plan_env {
  const int64_t *vars;
  const plan_number_t *scalars;
} plan_env_t;

/* False on overflow, division by zero or an unset scalar. */
bool plan_eval(const plan_expr_t *e, const plan_env_t *env, int64_t *out);
bool plan_eval_number(const plan_expr_t *e, const plan_env_t *env,
                      plan_number_t *out);

/* ---- what an entry needs ------------------------------------------------ */

typedef struct plan_var {
  const char *name;
  bool is_loop;        /* set by a loop step, not at entry */
  int64_t bound;       /* dims: largest value allowed (R02) */
  td_loc_t loc;
} plan_var_t;

typedef enum plan_slot_kind { PLAN_IN, PLAN_OUT, PLAN_INOUT } plan_slot_kind_t;

/* One leaf of the entry's interface (language.md 15), in order. */
typedef struct plan_slot {
  const char *name;
  plan_slot_kind_t kind;
  tdsl_dtype_t dtype;
  uint32_t rank;
  plan_expr_t dims[PLAN_MAX_RANK];
  const char *dim_text[PLAN_MAX_RANK];
  int64_t dim_bound[PLAN_MAX_RANK];   /* largest value; = value if static */
  bool has_range;
  plan_expr_t lo, hi;                 /* integers: lo <= v < hi */
  bool has_default;
  int64_t default_i64;
  double default_f64;
  bool is_weight;
  const char *file_pattern;           /* NULL: not in a file */
  uint32_t stack_count;
  int32_t else_slot;                  /* -1: none */
  uint32_t buffer;                    /* where its bytes are during the run */
  td_loc_t loc;
} plan_slot_t;

/* Dim `var` is (extent of dim `dim` of slot `slot` - offset) / scale,
 * exactly; in order, the first rule for a var binds it, later ones check. */
typedef struct plan_bind {
  uint32_t var, slot, dim;
  int64_t scale, offset;
} plan_bind_t;

/* A condition at entry (R03): not 0 required. */
typedef struct plan_require {
  plan_expr_t cond;
  const char *text;
  td_loc_t loc;
} plan_require_t;

/* ---- buffers ------------------------------------------------------------ */

typedef enum plan_place {
  PLAN_AT_SLOT,     /* the caller's (or an output's) memory */
  PLAN_AT_ARENA,    /* offset into the entry's arena */
} plan_place_t;

typedef struct plan_buffer {
  const char *name;
  tdsl_dtype_t dtype;
  uint32_t rank;
  plan_expr_t dims[PLAN_MAX_RANK];
  plan_expr_t bytes;
  plan_place_t place;
  uint32_t slot;        /* AT_SLOT */
  plan_expr_t offset;   /* AT_ARENA; a multiple of 64 */
  /* Steps at which it is first written and last used, inclusive (AT_ARENA);
   * inside a loop the whole loop.  The verifier recomputes them. */
  uint32_t first_step, last_step;
} plan_buffer_t;

/* ---- kernels ------------------------------------------------------------ */

typedef enum plan_payload {
  PLAN_PAYLOAD_OBJECT,  /* machine code, ELF relocatable */
  PLAN_PAYLOAD_KIR,     /* KIR text */
  PLAN_PAYLOAD_CUDA,    /* CUDA C */
} plan_payload_t;

typedef struct plan_module {
  const char *name;
  plan_payload_t payload;
  const char *target;   /* "x86-64-v4"; NULL if it does not matter */
  size_t bytes;
  const void *data;     /* NULL: a text that names it by its hash alone */
  uint64_t hash;        /* of the bytes; read only where data is NULL */
} plan_module_t;

/* What one launch moves and computes; expressions over vars. */
typedef struct plan_ledger {
  plan_expr_t read_bytes, written_bytes; /* unique bytes of global buffers */
  plan_expr_t flops;
} plan_ledger_t;

typedef struct plan_kernel {
  const char *name;
  uint32_t module;
  const char *symbol;
  uint32_t buffer_count;   /* parameters */
  bool *is_written;        /* per parameter */
  bool *is_read;
  uint32_t scalar_count;
  plan_expr_t block_count; /* over the kernel's scalars, not entry vars */
  plan_expr_t scratch_bytes; /* per worker, same */
  /* GPU: threads of a block, and workers: how many block iterations it works
   * on at a time; 0 elsewhere. */
  uint32_t threads, workers;
  uint32_t shared_bytes;     /* GPU: what a launch has to ask for */
  plan_ledger_t ledger;    /* over the kernel's scalars */
  const char *card;        /* text of the kernel card */
  td_loc_t loc;
} plan_kernel_t;

/* ---- steps -------------------------------------------------------------- */

typedef enum plan_step_kind {
#define PLAN_STEP(id, ...) PLAN_STEP_##id,
#include "runtime/plan/plan_ops.def"
  PLAN_STEP_COUNT
} plan_step_kind_t;

/* LAUNCH  kernel on buffers[], scalars[] (expressions over entry vars).
 *         is_once: it reads weights and what such launches wrote, and nobody
 *         else ever uses the arena where it writes. While the weights stay
 *         and the arena too, a run need not repeat it.
 * COPY    buffers[0] (destination) from buffers[1]; equal bytes
 * FILL    buffers[0] with zero bytes
 * LOOP    var runs lo .. hi - 1 over the steps up to `other` (its END); a
 *         bound is an expression, or element 0 of an i64 buffer
 * END     closes LOOP `other`
 * ASSERT  buffers[0]: bool; false is R06 with text and loc; under checks=all
 * CHECK   buffers[0]: i64 fault word that a checked kernel wrote: R04, R05 */
typedef struct plan_step {
  plan_step_kind_t kind;
  uint32_t kernel;
  bool is_once;
  uint32_t buffer_count;
  uint32_t *buffers;
  uint32_t scalar_count;
  plan_expr_t *scalars;
  uint32_t var, other;
  plan_expr_t lo, hi;
  int32_t lo_buffer, hi_buffer; /* -1: use the expression */
  const char *text;
  td_loc_t loc;
} plan_step_t;

struct plan_entry {
  const char *name;
  bool is_test;
  uint32_t var_count;
  plan_var_t *vars;          /* dynamic dims first, then loop variables */
  uint32_t dim_count;        /* how many of them are dims */
  uint32_t slot_count;
  plan_slot_t *slots;
  uint32_t bind_count;
  plan_bind_t *binds;
  uint32_t require_count;
  plan_require_t *requires;
  uint32_t buffer_count;
  plan_buffer_t *buffers;
  uint32_t step_count;
  plan_step_t *steps;
  plan_expr_t arena_bytes;   /* high-water mark, from the offsets */
  td_loc_t loc;
};

struct plan {
  td_arena_t *arena;
  const char *target;        /* machine row it was made for */
  const char **files;        /* names for td_loc_t.file (1-based); messages */
  uint32_t file_count;
  uint32_t module_count;
  plan_module_t *modules;
  uint32_t kernel_count;
  plan_kernel_t *kernels;
  uint32_t entry_count;
  plan_entry_t *entries;
};

/* ---- building, text, verification, ledger ------------------------------- */

/* Postfix builder helpers: literals and combination in an arena. */
plan_expr_t plan_const(td_arena_t *, int64_t value);
plan_expr_t plan_var_expr(td_arena_t *, uint32_t var);
plan_expr_t plan_join(td_arena_t *, plan_x_t op, plan_expr_t a,
                      plan_expr_t b);

/* Text without payload bytes (a hash and a size stand for them) unless
 * `with_payload` (hexadecimal). What was parsed without payload can be judged
 * and printed again, and no device loads it. */
void plan_print(td_buf_t *out, const plan_t *, bool with_payload);
plan_t *plan_parse(td_task_t *, td_arena_t *, uint32_t file);
/* Structure, step nesting, kernel signatures, and the memory plan: no two
 * buffers that live at the same step may overlap at sampled dims (0, 1, odd
 * values, bounds), offsets are aligned, everything read was written.  Knows
 * lifetimes and offsets, not the planner. */
bool plan_verify(td_task_t *, const plan_t *, const char *stage,
                 bool from_text);
/* Offsets and sizes of every buffer at given dims, and who lives when; the
 * text of `dump memory`. */
void plan_print_memory(td_buf_t *out, const plan_entry_t *,
                       const int64_t *dims);
/* Totals over all steps at given dims (loops counted by their trips where
 * bounds are expressions). */
typedef struct plan_totals {
  uint64_t launches, read_bytes, written_bytes, flops, arena_bytes;
} plan_totals_t;
bool plan_ledger_sum(td_task_t *, const plan_t *, const plan_entry_t *,
                     const int64_t *dims, plan_totals_t *out);

/* ---- memory of a device -------------------------------------------------- */

/* How many block iterations a launch works on at a time, in how many blocks,
 * and the scratch of each worker in whole lines. */
typedef struct plan_grid {
  int64_t workers;
  uint32_t blocks;
  size_t scratch_stride;
} plan_grid_t;
/* resident: blocks of the kernel that a multiprocessor holds at a time; 0:
 * not known. */
void plan_grid(const plan_kernel_t *, int64_t block_count,
               size_t scratch_bytes, uint32_t sms, uint32_t resident,
               plan_grid_t *out);

typedef struct plan_machine {
  uint32_t sms;             /* multiprocessors */
  const uint32_t *resident; /* by kernel, see plan_grid; NULL: not known */
} plan_machine_t;

/* Bytes that a run holds while it runs, where tensors do not stay in the
 * host's memory. */
typedef struct plan_memory {
  uint64_t arguments; /* parameters, weights and state */
  uint64_t results;
  uint64_t arena;     /* intermediates */
  uint64_t scalars;   /* cells of scalars */
  uint64_t scratch;   /* of the launch that needs most */
  uint64_t all;
} plan_memory_t;
/* is_value: by slot, whether a cell holds it; NULL: scalar parameters. Each
 * slot counts by itself, also where two have one buffer. Without `resident`
 * scratch is the most that it can be. */
void plan_memory_sum(td_task_t *, const plan_t *, const plan_entry_t *,
                     const int64_t *dims, const bool *is_value,
                     const plan_machine_t *, plan_memory_t *out);

#endif
