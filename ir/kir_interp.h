/* kir_interp.h: what the files of the KIR interpreter share (kir_interp.c
 * kir_interp_code.c kir_interp_expr.c kir_interp_lane.c kir_interp_memory.c
 * kir_interp_async.c).
 *
 * How a kernel runs:
 *  1. It is compiled, for the dims of this call, to a flat program of steps.
 *     Each step is a function with pointers to its registers; dims and
 *     constants are registers filled once.
 *  2. A register holds one value, or one for each lane of the lane loop
 *     around.  Dispatch is paid once for all lanes.
 *  3. An expression is evaluated anew in each statement, its shared parts
 *     once.  An arm of select, and, or that loads is run under a jump if the
 *     condition is one value, under a narrower mask if lanes differ.
 *  4. Loads and stores of masked lanes are not made; arithmetic on what
 *     those lanes hold is harmless, since every operation is total.
 *
 * Lifetime: an arena of the call. */
#ifndef TDSL_IR_KIR_INTERP_H
#define TDSL_IR_KIR_INTERP_H

#include "ir/kir_text.h"

enum { KIR_WIDTH = 64 }; /* most lanes of a register */

/* How a register holds its values. */
typedef enum kir_rep {
  KIR_REP_S, /* float */
  KIR_REP_D, /* double */
  KIR_REP_I, /* int64_t */
  KIR_REP_B  /* uint8_t, 0 or 1 */
} kir_rep_t;

kir_rep_t kir_rep_of(tdsl_dtype_t arithmetic);
size_t kir_rep_bytes(kir_rep_t rep);

/* A buffer at run time. */
typedef struct kir_memory {
  const kir_buffer_t *buffer;
  unsigned char *data;
  size_t bytes;                 /* of an element */
  int64_t dims[IX_MAX_RANK], strides[IX_MAX_RANK];
  int64_t count;                /* elements */
  uint8_t *defined; /* checked runs: scratch elements, a kir_defined_t */
  struct kir_meeting *meetings; /* the same, of SHARED: who was there */
  uint32_t *reads;  /* the same: when each warp was, WARPS an element */
} kir_memory_t;

typedef enum kir_defined {
  KIR_UNDEFINED,
  KIR_DEFINED,
  KIR_COMING, /* an asynchronous copy brings it */
} kir_defined_t;

/* Who stored to a shared element last, and when: a warp counts the barriers
 * that it has passed.  Two warps, one of them storing, may not meet there
 * unless a barrier of both lies in between; one that both pass, or others
 * that order them. */
typedef struct kir_meeting {
  uint32_t time;   /* 0: never */
  int16_t writer;
  bool is_async;   /* the writer itself needs a barrier as well */
} kir_meeting_t;

enum { KIR_WARPS = 32 };

/* An asynchronous copy on its way. */
typedef struct kir_coming {
  const struct kir_access *to;
  const kir_memory_t *from; /* NULL: zeros come */
  int64_t to_offset, from_offset;
  uint32_t group, elements;
  int16_t warp;
  unsigned char bytes[16];
} kir_coming_t;

/* Subscripts of one load, store or fold.  `is_wide`: one value a lane.
 * `is_row`: the last subscript is that of lane 0 and moves by one. */
typedef struct kir_access {
  kir_memory_t *memory;
  uint32_t count;
  const int64_t *subs[IX_MAX_RANK];
  bool is_wide[IX_MAX_RANK];
  bool is_row, any_wide;
  td_loc_t loc;
} kir_access_t;

typedef struct kir_machine kir_machine_t;
typedef struct kir_step kir_step_t;
typedef void (*kir_step_fn)(kir_machine_t *, const kir_step_t *);

struct kir_step {
  kir_step_fn run;
  uint32_t n;            /* values of the result */
  uint32_t jump;         /* control */
  void *out;
  const void *a, *b, *c;
  const uint8_t *mask;   /* memory: lanes that count; NULL: all */
  kir_rep_t rep;         /* memory, cast: of the value */
  tdsl_dtype_t to;       /* cast */
  kir_x_t fold;
  int64_t number;        /* loop: step; uniform: counters */
  const void *more[3];   /* uniform: counters after the first */
  kir_access_t *access;
  kir_access_t *from;    /* of an asynchronous copy */
};

struct kir_machine {
  td_task_t *task;
  const kir_step_t *steps;
  uint32_t pc;
  bool checks, failed;
  uint32_t turns; /* of loops, between looks at the cancel hook */
  bool reversed;
  int16_t warp;
  uint32_t warps;
  /* times of each warp, from 1, and what of the others' it has met */
  uint32_t time[KIR_WARPS], met[KIR_WARPS][KIR_WARPS];
  td_arena_t *arena;
  TD_VEC(kir_coming_t) coming; /* oldest first */
  uint32_t groups;             /* closed */
};

/* Where an expression's value is. */
typedef struct kir_value {
  void *reg; /* NULL: none */
  bool is_wide;
} kir_value_t;

typedef struct kir_code {
  td_task_t *task;
  td_arena_t *arena;
  const kir_kernel_t *kernel;
  const int64_t *scalars;
  bool checks, reversed;
  TD_VEC(kir_step_t) steps;
  TD_VEC(unsigned char *) slots; /* temporaries, taken and given back */
  size_t slots_used;
  td_map_t constants;  /* bits and type -> register of one value */
  td_map_t wide_constants; /* that register -> one of all lanes */
  td_map_t memories;   /* kir_buffer_t -> kir_memory_t */
  td_map_t traits;     /* kir_expr_t -> bits, see kir_interp_expr.c */
  kir_value_t *vars;   /* by id */
  /* values of the statement: kir_expr_t -> register, tagged */
  td_map_t memo;
  TD_VEC(uint64_t) memo_log;
  /* the lane loop around */
  uint32_t lanes;      /* 0: none */
  const kir_var_t *lane;
  const uint8_t *mask;
  uint32_t depth;      /* of choices and loads inside each other */
  bool failed;         /* a dim has no value, or memory is too large */
} kir_code_t;

/* ---- kir_interp_code.c ---- */
void kir_code_block(kir_code_t *, const kir_block_t *);
uint32_t kir_code_emit(kir_code_t *, kir_step_t step);
void *kir_code_register(kir_code_t *);

/* ---- kir_interp_expr.c ---- */
/* Value of a poly of the kernel's dims; false if it has none. */
bool kir_code_dim(const kir_code_t *, const ix_poly_t *, int64_t *out);
/* A register of its own, filled now, with a CONST or DIM. */
void *kir_code_constant(kir_code_t *, const kir_expr_t *);
/* What decides laziness and lanes: of each expression of a statement before
 * any of them is evaluated. */
void kir_code_traits(kir_code_t *, const kir_expr_t *);
kir_value_t kir_code_eval(kir_code_t *, const kir_expr_t *);
/* The same with a value for each lane, if there are lanes. */
kir_value_t kir_code_wide(kir_code_t *, const kir_expr_t *);
/* Evaluates subscripts, for lane 0 where the lanes are neighbours. */
kir_access_t *kir_code_access(kir_code_t *, const kir_buffer_t *,
                              uint32_t count, kir_expr_t *const *subs,
                              td_loc_t loc);
/* Lanes of the mask around for which cond chooses arm 0 (it holds) or 1. */
const uint8_t *kir_code_arm_mask(kir_code_t *, const void *cond, int arm);
/* Values of the statement end with it, and where memory changes. */
void kir_code_forget(kir_code_t *);

/* ---- kir_interp_memory.c ---- */
kir_memory_t *kir_code_memory(kir_code_t *, const kir_buffer_t *, void *data);
void kir_run_load(kir_machine_t *, const kir_step_t *);
void kir_run_store(kir_machine_t *, const kir_step_t *);
void kir_run_fold(kir_machine_t *, const kir_step_t *);
void kir_run_transpose(kir_machine_t *, const kir_step_t *);
void kir_run_alloc(kir_machine_t *, const kir_step_t *);
/* Faults if the element is no multiple of `number`. */
void kir_run_aligned(kir_machine_t *, const kir_step_t *);
/* The first fault only; the machine then stops at the next step.  `dim` at
 * which `value` was looked for, or more than there are. */
void kir_report(kir_machine_t *, const kir_access_t *, const char *what,
                int64_t value, uint32_t dim);
/* Place of one lane's element; -1 after a report. */
int64_t kir_offset(kir_machine_t *, const kir_access_t *, uint32_t lane,
                   bool is_load);

/* ---- kir_interp_async.c ---- */
/* What this warp does to a shared element now; false after a report. */
bool kir_meet(kir_machine_t *, const kir_access_t *, int64_t offset,
              bool is_load, bool is_async);
/* All warps begin a block iteration. */
void kir_begin_block(kir_machine_t *);
/* Nothing may be on its way. */
void kir_end_block(kir_machine_t *);
/* The warps number .. n - 1 meet. */
void kir_run_barrier(kir_machine_t *, const kir_step_t *);
/* `number` elements a lane, from `from` to `access`, zeros where b is false;
 * b NULL: never. */
void kir_run_async(kir_machine_t *, const kir_step_t *);
void kir_run_commit(kir_machine_t *, const kir_step_t *);
/* Until at most `number` groups are on their way. */
void kir_run_wait(kir_machine_t *, const kir_step_t *);

/* ---- kir_interp_lane.c ---- */
/* The step of an operation whose first operand is held as arg_rep. */
kir_step_fn kir_lane_fn(kir_x_t op, kir_rep_t rep, kir_rep_t arg_rep,
                        bool is_whole);
/* Copies value 0 to values 0 .. n-1. */
kir_step_fn kir_spread_fn(kir_rep_t rep);
kir_step_fn kir_copy_fn(kir_rep_t rep);
/* out[l] = a[l] op b[l] of fold operations. */
void kir_combine(kir_x_t op, kir_rep_t rep, void *out, const void *a,
                 const void *b, uint32_t n);
/* mask & condition, mask & not condition; a NULL mask is all true. */
void kir_run_mask_and(kir_machine_t *, const kir_step_t *);
void kir_run_mask_and_not(kir_machine_t *, const kir_step_t *);

/* ---- kir_interp.c: control ---- */
/* out = *a; to `jump` unless *out < *b. */
void kir_run_enter(kir_machine_t *, const kir_step_t *);
/* out += number; to `jump` if *out < *b. */
void kir_run_next(kir_machine_t *, const kir_step_t *);
/* The warp that runs from here on is number *a. */
void kir_run_warp(kir_machine_t *, const kir_step_t *);
/* out += number; to `jump` unless it is *b, where the loop ends. */
void kir_run_next_warp(kir_machine_t *, const kir_step_t *);
void kir_run_jump(kir_machine_t *, const kir_step_t *);
void kir_run_jump_unless(kir_machine_t *, const kir_step_t *);

#endif
