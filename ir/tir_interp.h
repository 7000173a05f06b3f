/* tir_interp.h: what the files of the TIR interpreter share (tir_interp.c
 * tir_interp_code.c tir_interp_lane.c tir_interp_map.c tir_interp_state.c).
 *
 * How a node runs:
 *  1. Its expressions are compiled once to a straight program: one
 *     instruction and one register per distinct expression, operands first.
 *  2. A register holds one value for each of `width` lanes.  Lanes are
 *     consecutive tuples in index order: of the parallel indices, or, where
 *     there are few of those, of the reduction indices.  Dispatch is paid
 *     once for all lanes, and every lane still sees exactly the operations
 *     of its own tuple in their order.
 *  3. Instructions are sorted by level, the innermost loop they depend on,
 *     and rerun only when that loop moves.
 *  4. Nothing is skipped: both arms of a select are computed.  That is safe
 *     because loads check what is not proved (a lane out of range reads 0)
 *     and the other operations are total.  What is observable of laziness,
 *     that an arm not chosen reports nothing, is restored by `need`: when a
 *     checked instruction misbehaved in some lane, the program is walked
 *     backwards to see whether that lane's value was wanted at all. */
#ifndef TDSL_IR_TIR_INTERP_H
#define TDSL_IR_TIR_INTERP_H

#include <math.h>

#include "ir/tir.h"

/* How a register holds its lanes. In F64 mode F32 formulas are D. */
typedef enum tir_rep {
  TIR_REP_S, /* float */
  TIR_REP_D, /* double */
  TIR_REP_I, /* int64_t */
  TIR_REP_B  /* uint8_t, 0 or 1 */
} tir_rep_t;

/* One lane outside a register. */
typedef union tir_lane {
  float s;
  double d;
  int64_t i;
  uint8_t b;
} tir_lane_t;

enum { TIR_WIDTH = 128 }; /* most lanes of a register */

/* Storage that several values may share (a loop's init and its parameter).
 * Freed with the last reference; `is_borrowed` belongs to the caller. */
typedef struct tir_memory {
  void *data;
  uint32_t references;
  bool is_borrowed;
  bool is_writable; /* a borrowed inout buffer may be updated in place */
} tir_memory_t;

/* A value at run time. */
typedef struct tir_cell {
  tir_tensor_t tensor;
  int64_t strides[IX_MAX_RANK]; /* in elements */
  int64_t count;                /* elements */
  tir_memory_t *memory;         /* NULL: not alive */
  /* From the lifetime analysis: the node of its own block after which the
   * value is dead (NULL: never, a result or yield), and whether only a
   * nested block of that node reads it. */
  const tir_node_t *last_user;
  bool is_read_inside;
  bool is_kept;
  uint32_t depth; /* of its block */
} tir_cell_t;

typedef struct tir_interp {
  td_task_t *task;
  const tir_func_t *func;
  const int64_t *dim_values;
  tir_mode_t mode;
  bool is_checked; /* --checks=all */
  bool is_reversed;
  td_arena_t arena; /* tables of the whole run */
  td_map_t cells;   /* tir_value_t -> tir_cell_t */
  td_map_t deaths;  /* tir_node_t -> list of cells that die after it */
} tir_interp_t;

/* ---- programs ------------------------------------------------------------ */

/* One index of a node. Lane axes vary within a block, the others are loops
 * whose position is in `at`. */
typedef struct tir_axis {
  const tir_index_t *index;
  int64_t extent;
  int64_t at;
  bool is_lane;
  uint32_t level;
  int64_t *lanes; /* position in each lane; lane axes only */
} tir_axis_t;

/* A subscript that is not affine or not proved in range: read from a
 * register and checked in each lane. */
typedef struct tir_vector_sub {
  uint32_t reg, dim;
  int64_t extent, stride;
} tir_vector_sub_t;

typedef enum tir_pattern {
  TIR_ONE,    /* all lanes read the same element */
  TIR_DENSE,  /* lane l reads element l */
  TIR_GATHER, /* offsets differ in some other way */
} tir_pattern_t;

/* Element offset of lane l: scalar + offsets[l] + vector subscripts. */
typedef struct tir_access {
  const tir_cell_t *cell;
  const tir_value_t *value;
  int64_t base;
  int64_t *strides; /* one an axis */
  uint32_t vector_count;
  tir_vector_sub_t *vectors;
  bool has_lanes, has_loops; /* some lane / loop axis has a stride */
  int64_t scalar;
  int64_t *offsets; /* of the lane axes; NULL if !has_lanes */
  tir_pattern_t pattern;
  /* A gather along whose innermost loop elements are neighbours reads them
   * TIR_STRIP at a time, lane by lane, or it would touch a cache line a
   * lane in every step.  Row d holds the lanes for scalar = base + d. */
  bool has_strip;
  unsigned char *strip;
  int64_t strip_base, strip_count;
} tir_access_t;

enum { TIR_STRIP = 16 };

typedef struct tir_instr {
  const tir_expr_t *e;
  tir_rep_t rep, arg_rep; /* of the result; of the first operand */
  uint32_t level;
  uint32_t arg_count;
  uint32_t *args; /* registers */
  uint32_t axis;  /* INDEX */
  tir_access_t *access; /* LOAD */
  /* Checked runs: lanes that went wrong, and whether any did. */
  uint8_t *bad;
  bool any_bad;
} tir_instr_t;

#define TIR_NO_REG UINT32_MAX

typedef struct tir_code {
  tir_interp_t *interp;
  td_arena_t *arena; /* dropped with the node */
  const tir_node_t *node;
  uint32_t axis_count;
  tir_axis_t *axes;
  tir_axis_t *inner; /* innermost loop axis, or NULL */
  TD_VEC(tir_instr_t) instrs; /* instruction i writes register i */
  td_map_t regs;    /* tir_expr_t -> register + 1 */
  td_map_t affines; /* tir_expr_t -> its affine form */
  TD_VEC(tir_access_t *) accesses;
  uint32_t *order;       /* instructions by level, operands first */
  uint32_t level_count;
  uint32_t *level_first; /* into order; level_count + 1 entries */
  uint32_t width;        /* lanes of a register */
  int64_t most;          /* no block is longer than this */
  unsigned char *data;   /* registers, width * 8 bytes each */
  /* Roots. A sum whose body is a product has factors instead of a body. */
  uint32_t guard, body, factor_a, factor_b;
  uint32_t sub_count;
  uint32_t *subs;
  bool is_fused; /* factors are set */
  tir_rep_t body_rep;
  uint8_t *need; /* checked runs: width bytes a register */
} tir_code_t;

/* Starts a program over the indices of `node` (which may be NULL).
 * lane_reductions says which indices are lanes. */
void tir_code_init(tir_code_t *, tir_interp_t *, td_arena_t *,
                   const tir_node_t *node, bool lane_reductions);
/* Adds an expression; the register it will be in. */
uint32_t tir_code_add(tir_code_t *, tir_expr_t *root);
/* The body of a node, or its factors where products are added fused. */
void tir_code_body(tir_code_t *, const tir_node_t *);
/* Sorts by level and takes registers; then runs level 0. */
void tir_code_finish(tir_code_t *);

static inline void *tir_reg(const tir_code_t *code, uint32_t reg) {
  return code->data + (size_t)reg * code->width * 8;
}

/* Runs the levels from `level` on, in lanes 0 .. n-1. */
void tir_code_run(tir_code_t *, uint32_t level, uint32_t n);
/* Positions of n tuples from number `first` on, in index order of the lane
 * axes; updates the offsets of all accesses. */
void tir_code_lanes(tir_code_t *, int64_t first, uint32_t n);
/* To be called after moving a loop axis. */
void tir_code_loops(tir_code_t *);
/* As a message shows a value: all digits, in the register's own type. */
void tir_put_lane(td_buf_t *, const tir_code_t *, uint32_t reg,
                  uint32_t lane);
/* False after an R10 if a wanted lane went wrong. */
bool tir_code_check(tir_code_t *, uint32_t n);

/* One value of an expression over no indices. */
typedef struct tir_scalar {
  tir_rep_t rep;
  double f64;
  int64_t i64; /* also bools */
} tir_scalar_t;
/* False after an R10. */
bool tir_eval_scalar(tir_interp_t *, tir_expr_t *, tir_scalar_t *out);

/* ---- scalar rules -------------------------------------------------------- */

/* NaN if either is; of zeros the positive (negative) one. Equal numbers that
 * are not zero have equal bits, so the sign test picks either. */
static inline float tir_max_s(float x, float y) {
  if (x != x) return x;
  if (y != y) return y;
  if (x == y) return signbit(x) ? y : x;
  return x > y ? x : y;
}
static inline float tir_min_s(float x, float y) {
  if (x != x) return x;
  if (y != y) return y;
  if (x == y) return signbit(x) ? x : y;
  return x < y ? x : y;
}
static inline double tir_max_d(double x, double y) {
  if (x != x) return x;
  if (y != y) return y;
  if (x == y) return signbit(x) ? y : x;
  return x > y ? x : y;
}
static inline double tir_min_d(double x, double y) {
  if (x != x) return x;
  if (y != y) return y;
  if (x == y) return signbit(x) ? x : y;
  return x < y ? x : y;
}

/* ---- lanes --------------------------------------------------------------- */

void tir_exec(tir_code_t *, tir_instr_t *, uint32_t n);

tir_rep_t tir_rep_of(tir_mode_t mode, tdsl_dtype_t arithmetic);
/* Bytes of one element as the interpreter stores it. */
size_t tir_element_bytes(tir_mode_t mode, tdsl_dtype_t dtype);
/* Writes lanes 0 .. n-1 of a register to consecutive elements; a store keeps
 * the low bits of integers and rounds floats once. */
void tir_store(tir_mode_t mode, tdsl_dtype_t dtype, void *to, tir_rep_t rep,
               const void *reg, uint32_t n);
/* Reads one element, widened, into lane 0. */
void tir_fetch(tir_mode_t mode, tdsl_dtype_t dtype, const void *from,
               void *reg);

/* Copies lane 0 to lanes 1 .. n-1. */
void tir_spread(tir_rep_t rep, void *reg, uint32_t n);
/* A LOAD instruction; marks `bad` the lanes that are out of range. */
void tir_exec_load(const tir_code_t *, tir_instr_t *, void *reg, uint32_t n);

/* Accumulators of a reduction: one a lane, or one for all lanes in order. */
typedef struct tir_fold {
  tir_reduce_t reduce;
  tir_rep_t rep;
  bool is_serial;
  void *acc;       /* rep */
  int64_t *places; /* of positions */
  uint8_t *seen;   /* positions: some tuple passed */
  bool *wrapped;   /* checked integer sums and products, else NULL */
} tir_fold_t;

void tir_fold_start(const tir_fold_t *, uint32_t n);
/* a, b: factors if fused, else a is the body and b NULL. guard: a B register
 * or NULL. places: positions of the lanes (positions only). */
void tir_fold_step(const tir_fold_t *, const void *a, const void *b,
                   const uint8_t *guard, const int64_t *places, uint32_t n);

/* ---- nodes --------------------------------------------------------------- */

/* The cell of a value; NULL only for one never defined. */
tir_cell_t *tir_cell(tir_interp_t *, const tir_value_t *);
/* Gives a cell fresh storage for the dims of its value. Not zeroed. */
void tir_cell_allocate(tir_interp_t *, const tir_value_t *);
void tir_cell_share(tir_interp_t *, tir_cell_t *to, const tir_cell_t *from);
void tir_cell_release(tir_interp_t *, tir_cell_t *);
int64_t tir_dim_value(tir_interp_t *, const ix_poly_t *);
int64_t tir_extent(tir_interp_t *, const ix_poly_t *); /* 0 if negative */

bool tir_run_map(tir_interp_t *, const tir_node_t *);
bool tir_run_update(tir_interp_t *, const tir_node_t *);
bool tir_run_topk(tir_interp_t *, const tir_node_t *);
bool tir_run_assert(tir_interp_t *, const tir_node_t *);
/* The reduce.all node of the same block whose bool an assert reads as a
 * whole, NULL if e is something else: a failure is explained by its tuples,
 * so what it reads must live until the assert. */
const tir_node_t *tir_asserted_all(const tir_expr_t *e);

#endif
