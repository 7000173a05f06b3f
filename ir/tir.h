/* tir.h: the tensor IR, which says *what* is computed.
 *
 * A module is a list of functions, one per entry point, each a straight list
 * of nodes over tensor values in SSA form; loops carry values in regions.
 * Functions of the source are inlined and views have vanished into
 * subscripts.  Nearly everything is one node, `map` (`reduce` if it has a
 * reduction): an iteration space of named indices, a guard, a scalar body,
 * and one output element per tuple of parallel indices.
 *
 * Rules every producer keeps (tir_verify checks them):
 *  1. All indices start at 0; a range A .. B is extent max(B-A, 0) with A
 *     added in the body.
 *  2. A map's output dims are the extents of its parallel indices, in order;
 *     reduction indices follow the parallel ones, in binder order.
 *  3. Bodies hold no reductions: a reduction inside an expression is a node
 *     of its own, over the indices that occur free in it, read back by load.
 *     What made it lazy (an `if` around it) is part of its guard, so every
 *     node is total: it reads in bounds whatever the inputs.
 *  4. Scalar arithmetic is F32, F64, I64 or BOOL.  Loads widen; stores round
 *     once to the output's dtype (integers keep the low bits).
 *  5. select, and, or are lazy: an operand not chosen reads nothing.
 *  6. State is values: `update` makes the next version of a tensor; planning
 *     makes it in place.  `inout` parameters are inputs whose last version is
 *     named in the function's outs.
 *  7. Node order is text order; a value is defined before it is used.
 *
 * Lifetime: all in the arena of the module.  Passes edit in place. */
#ifndef TDSL_IR_TIR_H
#define TDSL_IR_TIR_H

#include "ir/shape.h"
#include "runtime/base/task.h"
#include "runtime/base/vec.h"

/* Just below 8 ln 2: weights relative to a lazy maximum are less than 2^8. */
#define TIR_LAZY_MARGIN 5.5

typedef struct tir_module tir_module_t;
typedef struct tir_func tir_func_t;
typedef struct tir_node tir_node_t;
typedef struct tir_value tir_value_t;
typedef struct tir_index tir_index_t;
typedef struct tir_expr tir_expr_t;

/* ---- scalar expressions -------------------------------------------------- */

/* One enumerator per row of the scalar section of tir_ops.def:
 * TIR_X_CONST, TIR_X_INDEX, TIR_X_DIM, TIR_X_LOAD, then NEG NOT ABS FLOOR
 * CEIL ROUND EXP EXP2 LOG LOG2 SQRT RSQRT SIN COS TANH ERF, ADD SUB MUL DIV
 * MOD POW MIN MAX EQ NE LT LE GT GE AND OR, SELECT, CAST, ROUND_TF32,
 * UNIFORM.  Integer DIV and MOD floor.  POW of a float takes an exponent of
 * its own type (NaN for a base < 0) or of I64 (a whole power, any base); of
 * an integer an I64 >= 0.  Constant powers 0..8 are already products (left
 * to right), -8..-1 one over them.  CAST rounds or saturates through the
 * storage dtype `to`, its result has the arithmetic type of `to`;
 * float <-> int conversions are CASTs to F32, F64 or I64. */
typedef enum tir_x {
#define TIR_SCALAR(id, ...) TIR_X_##id,
#include "ir/tir_ops.def"
  TIR_X_COUNT
} tir_x_t;

/* Immutable once built; may be shared within one node (a DAG). */
struct tir_expr {
  tir_x_t op;
  tdsl_dtype_t type;        /* F32, F64, I64, BOOL */
  td_loc_t loc;
  union {
    int64_t i64;            /* CONST of I64, BOOL */
    /* CONST of F64, and of F32 before its one rounding: engines that
     * compute in f32 use (float)f64, the f64 mode uses it as it is. */
    double f64;
    const tir_index_t *index; /* INDEX */
    const ix_poly_t *dim;   /* DIM: symbols are dynamic dims only */
    const tir_value_t *value; /* LOAD: arg_count subscripts */
    tdsl_dtype_t to;        /* CAST */
  } u;
  uint32_t arg_count;
  tir_expr_t *const *args;  /* LOAD subscripts; UNIFORM seed, counters */
};

/* ---- values and nodes ---------------------------------------------------- */

struct tir_index {
  const char *name;         /* of the source; printing makes it unique */
  const ix_poly_t *extent;  /* clamped at 0 */
  const ix_symbol_t *symbol; /* stands for the index in polys (expr.h) */
  bool is_reduction;
  td_loc_t loc;
};

struct tir_value {
  uint32_t id;              /* dense in the function; set by tir_renumber */
  const char *name;         /* source name or a derived one, never NULL */
  tdsl_dtype_t dtype;       /* storage */
  uint32_t rank;
  const ix_poly_t *dims[IX_MAX_RANK];
  bool is_written;          /* dtype was written in the text (no W03) */
  tir_node_t *def;          /* NULL: parameter or region parameter */
  /* integers: constant bounds lo <= v < hi if known (from `in`, dtype) */
  const ix_poly_t *lo, *hi;
  const ix_symbol_t *symbol; /* rank 0 integers: stands for it in polys */
  /* Weights as panels of so many columns (passes/tensor/pack_operands.c);
   * 0: none. A hint how to compute and when, which text does not carry. */
  uint32_t panel;
  bool is_kept;             /* panels of weights: once for all runs */
  td_loc_t loc;
};

typedef enum tir_reduce {
  TIR_REDUCE_NONE = 0,
  TIR_REDUCE_SUM,   /* see is_fma */
  TIR_REDUCE_PROD, TIR_REDUCE_MAX, TIR_REDUCE_MIN, TIR_REDUCE_ANY,
  TIR_REDUCE_ALL,
  TIR_REDUCE_ARGMAX, TIR_REDUCE_ARGMIN, /* one index; output I64 position */
} tir_reduce_t;

/* Accumulation plan of a reduction (language.md 9.3): a pure function of
 * operator, form of the body as written, and dtypes; set by tir_assign_plan
 * at lowering, before any pass, and never changed afterwards, so that no
 * extent, fusion or schedule moves a bit.  The interpreter runs everything
 * as SERIAL; engines run the plan.
 *   SERIAL  left to right in index order. On targets with warps such a sum of
 *           products (is_fma) restarts with each GROUP_DEPTH tuples, and what
 *           these gave is added left to right (passes/tile).
 *   LANES   TIR_LANES partial accumulators; a tuple belongs to lane
 *           (value of the last reduction index) mod TIR_LANES; a lane adds its
 *           tuples in index order; lanes are folded by halves: lane l takes
 *           lane l + 8, then l + 4, l + 2, l + 1.
 * A float SUM whose body is a product of two factors that differ in the
 * parallel indices they mention (a contraction) is SERIAL, so that lanes can
 * run over an output index; other float SUMs and PRODs are LANES; MAX, MIN,
 * ANY, ALL, integer sums and arg-reductions give equal bits in any order. */
typedef enum tir_plan { TIR_PLAN_SERIAL = 0, TIR_PLAN_LANES } tir_plan_t;
enum { TIR_LANES = 16 };
/* Largest k of a topk that is a state of a sweep. */
enum { TIR_MAX_TOP = 16 };

typedef enum tir_kind {
#define TIR_NODE(id, ...) TIR_##id,
#include "ir/tir_ops.def"
  TIR_KIND_COUNT
} tir_kind_t;

typedef TD_VEC(tir_node_t *) tir_block_t;

/* MAP     out[par] = body, or reduce over red where guard of body.
 * UPDATE  out = target with target[subs] = body (or += the sum of all
 *         contributions, in index order, added and rounded once) for the
 *         tuples that pass guard.  All indices are parallel.
 * TOPK    outs = (values, positions I64) of the k largest along the last dim
 *         of operand; descending, ties by lower position, NaN first.
 * LOOP    for iv in lo .. hi: region.  carried: operands are the inits,
 *         params the region's names, yields the next values, outs the last.
 * ASSERT  body is a BOOL over no indices; evaluated under --checks=all.
 * (later kinds: CASCADE, COLLECTIVE, EXTERN) */
struct tir_node {
  tir_kind_t kind;
  uint32_t id;              /* dense, text order; set by tir_renumber */
  td_loc_t loc;
  uint32_t out_count;
  tir_value_t **outs;
  /* MAP, UPDATE */
  uint32_t index_count;
  tir_index_t **indices;    /* parallel first, then reduction indices */
  tir_reduce_t reduce;
  tir_plan_t plan;
  bool is_fma;              /* float SUM: body is a MUL as written; each
                               product is added with one rounding */
  uint32_t group;           /* kernel it belongs to, from 1; 0: not grouped.
                               Nodes of a group are adjacent in the block */
  tir_expr_t *guard;        /* BOOL over all indices, or NULL */
  tir_expr_t *body;
  /* UPDATE: target; TOPK: the vector tensor; LOOP: inits of carried values */
  uint32_t operand_count;
  tir_value_t **operands;
  uint32_t sub_count;
  tir_expr_t **subs;        /* UPDATE: one per dim of the target */
  bool is_accumulate;       /* UPDATE */
  bool is_distinct;         /* UPDATE: no two tuples write one element */
  int64_t k;                /* TOPK */
  bool uses_tf32;           /* products of a SUM may round factors to tf32 */
  bool is_approx;
  /* CASCADE (docs/cascades.md): nodes of one number, from 1, may be computed
   * by one sweep over their common reduction index, in parts of any size. A
   * part starts from the identities; `was` is what the output was before the
   * part, and the output then counts for `transport` in place of `was`: how
   * the sum so far is seen from maxima that moved. NULL: as it is. Tiles are
   * maps and sums over rows and the index, which come last among the parallel
   * indices: they need exist in parts only. What is first is known before
   * the first part, and the same in all. A merge has one element of the axis
   * in each part, which is what another cascade left. A lazy maximum stays what
   * it was until a part exceeds it by TIR_LAZY_MARGIN: some number that sums
   * may be relative to, and no maximum inside the sweep. What any of them
   * computes is said by guard and body alone. */
  uint32_t cascade;
  bool is_tile, is_first, is_merge, is_lazy;
  tir_value_t *was;
  tir_expr_t *transport;    /* over the parallel indices; reads outputs and
                               `was` of its cascade. Not one of tir_node_expr */
  /* LOOP */
  tir_value_t *iv;          /* rank 0 I64 */
  tir_expr_t *lo, *hi;      /* over no indices */
  tir_value_t **params, **yields; /* operand_count of each */
  tir_block_t body_nodes;
  /* ASSERT */
  const char *text;         /* or NULL */
};

/* ---- functions ----------------------------------------------------------- */

typedef enum tir_slot_kind { TIR_IN, TIR_OUT, TIR_INOUT } tir_slot_kind_t;

/* One leaf of a parameter or result, in the order of language.md 15. */
typedef struct tir_slot {
  const char *name;         /* "m.blk.wq", "_" for the unnamed result */
  tir_slot_kind_t kind;
  tir_value_t *value;       /* IN, INOUT: the input value                  */
  tir_value_t *result;      /* OUT, INOUT: the value to leave in the buffer */
  const char *dim_text[IX_MAX_RANK]; /* as declared: "T + 1"               */
  const ix_poly_t *lo, *hi; /* integer slots with `in`: lo <= v < hi       */
  bool has_default;         /* scalar that may be left out                 */
  double default_f64;
  int64_t default_i64;
  bool is_weight;           /* has a checkpoint name                       */
  /* Checkpoint name with `{}` for each stack position; stack_count leading
   * dims are stack dims.  NULL if not bound to a file. */
  const char *file_pattern;
  uint32_t stack_count;
  int32_t else_slot;        /* slot it falls back to when absent, or -1    */
  td_loc_t loc;
} tir_slot_t;

/* A condition over dims and rank-0 integer or float parameters. */
typedef struct tir_require {
  tir_expr_t *cond;         /* loads are of rank 0 parameters only */
  const char *text;         /* source text, for R03 */
  td_loc_t loc;
} tir_require_t;

struct tir_func {
  const char *name;
  td_loc_t loc;
  bool is_test;
  uint32_t dim_count;
  const ix_symbol_t **dims; /* dynamic dims that occur, hi = bound + 1 */
  uint32_t slot_count;
  tir_slot_t *slots;        /* params in order, then results */
  uint32_t require_count;
  tir_require_t *requires;
  tir_block_t nodes;
  uint32_t value_count, node_count; /* after tir_renumber */
};

struct tir_module {
  td_arena_t *arena;
  ix_pool_t *pool;
  uint32_t func_count;
  tir_func_t **funcs;
};

/* ---- building, walking --------------------------------------------------- */

tir_module_t *tir_module_create(td_arena_t *); /* with a pool of its own */
void tir_module_add(tir_module_t *, tir_func_t *);

tir_expr_t *tir_const_f(td_arena_t *, tdsl_dtype_t type, double v);
tir_expr_t *tir_const_i(td_arena_t *, tdsl_dtype_t type, int64_t v);
tir_expr_t *tir_index_ref(td_arena_t *, const tir_index_t *);
tir_expr_t *tir_dim(td_arena_t *, const ix_poly_t *);
tir_expr_t *tir_load(td_arena_t *, const tir_value_t *, uint32_t count,
                     tir_expr_t *const *subs);
tir_expr_t *tir_op(td_arena_t *, tir_x_t op, tdsl_dtype_t type,
                   uint32_t arg_count, tir_expr_t *const *args);
tir_expr_t *tir_cast(td_arena_t *, tdsl_dtype_t to, tir_expr_t *arg);
tdsl_dtype_t tir_arithmetic(tdsl_dtype_t storage); /* F32 F64 I64 BOOL */

tir_value_t *tir_value_create(td_arena_t *, const char *name,
                              tdsl_dtype_t dtype, uint32_t rank,
                              const ix_poly_t *const *dims);
tir_index_t *tir_index_create(tir_module_t *, const char *name,
                              const ix_poly_t *extent, bool is_reduction);
/* A node with one output; the caller fills the rest. */
tir_node_t *tir_node_create(td_arena_t *, tir_kind_t kind, uint32_t outs);

/* Integer expression as a polynomial over index, dim and value symbols.
 * What has no such form (a load of rank > 0, a select) is asked of `opaque`;
 * NULL comes back where that is NULL or returns NULL. */
typedef const ix_poly_t *(*tir_opaque_fn)(void *user, const tir_expr_t *e);
const ix_poly_t *tir_expr_poly(ix_pool_t *, td_arena_t *scratch,
                               const tir_expr_t *, tir_opaque_fn opaque,
                               void *user);

/* The expressions of a node: lo, hi, guard, subs, body, those that are set.
 * The slot may be assigned through. */
uint32_t tir_node_expr_count(const tir_node_t *);
tir_expr_t **tir_node_expr(tir_node_t *, uint32_t i);

/* Calls `visit` once for each distinct expression of a DAG, operands first;
 * explicit stack, so depth does not matter. A walker remembers what it has
 * visited, for several roots that share. */
typedef void (*tir_visit_fn)(void *user, tir_expr_t *e);
typedef struct tir_walker {
  td_map_t seen;
} tir_walker_t;
void tir_walker_init(tir_walker_t *, td_arena_t *scratch);
void tir_walk_into(tir_walker_t *, tir_expr_t *root, tir_visit_fn visit,
                   void *user);
void tir_walk(td_arena_t *scratch, tir_expr_t *root, tir_visit_fn visit,
              void *user);
/* Rebuilds a DAG bottom-up: `map` gets a copy whose args are already mapped
 * and returns it or a replacement. Sharing is kept, with a rewriter also
 * between roots. */
typedef tir_expr_t *(*tir_map_fn)(void *user, tir_expr_t *e);
typedef struct tir_rewriter {
  td_arena_t *arena; /* of the results and of the tables */
  tir_map_fn map;
  void *user;
  tir_walker_t walker;
  td_map_t done;
} tir_rewriter_t;
void tir_rewriter_init(tir_rewriter_t *, td_arena_t *, tir_map_fn map,
                       void *user);
tir_expr_t *tir_rewrite_into(tir_rewriter_t *, tir_expr_t *root);
tir_expr_t *tir_rewrite(td_arena_t *, tir_expr_t *root, tir_map_fn map,
                        void *user);

void tir_renumber(tir_func_t *); /* dense ids of values and nodes */

/* Sets plan and is_fma of a freshly lowered reduction or += update. */
void tir_assign_plan(td_arena_t *scratch, tir_node_t *node);

/* ---- text, verification, interpretation ---------------------------------- */

void tir_print(td_buf_t *out, const tir_module_t *);
/* The same with a `loc("name":line:column)` after each slot, fact and node. */
void tir_print_locs(td_buf_t *out, const tir_module_t *);
/* What a print of the function now would call its values: tir_value_t* ->
 * const char *, in `arena`. */
void tir_print_names(td_arena_t *arena, const tir_module_t *,
                     const tir_func_t *func, td_map_t *names);
/* Reads what tir_print wrote (print, parse, print is the identity).  NULL
 * after diagnostics. Hostile input is refused, never trusted. */
tir_module_t *tir_parse(td_task_t *, td_arena_t *, uint32_t file);
/* Checks all rules above; a failure is an internal error naming `stage`,
 * or a diagnostic if `from_text`. */
bool tir_verify(td_task_t *, const tir_module_t *, const char *stage,
                bool from_text);

typedef enum tir_mode { TIR_F32, TIR_F64 } tir_mode_t;

/* A tensor of the interpreter: storage bytes in dtype, row-major.  In F64
 * mode values of dtype F32 are held as doubles (data is then 8 bytes an
 * element): narrow written types are rounded, F32 is not. */
typedef struct tir_tensor {
  tdsl_dtype_t dtype;
  uint32_t rank;
  int64_t dims[IX_MAX_RANK];
  void *data;
} tir_tensor_t;

typedef struct tir_interp_options {
  tir_mode_t mode;
  int checks;               /* 0 none, 1 entry, 2 all */
  bool order_reversed;      /* evaluates independent nodes' tuples backwards;
                               no answer may change (tests) */
} tir_interp_options_t;

/* Runs FUNC on slots' tensors: tensors[s] for IN and INOUT given by the
 * caller (INOUT written in place), OUT allocated from `arena`.  dim_values
 * parallel to func->dims (already bound).  False after R diagnostics.
 * Entry checks (dims, require, in) are the caller's. */
bool tir_interpret(td_task_t *, td_arena_t *, const tir_module_t *,
                   const tir_func_t *, const int64_t *dim_values,
                   tir_tensor_t *tensors, const tir_interp_options_t *);

#endif
