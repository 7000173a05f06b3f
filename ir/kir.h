/* kir.h: the kernel IR, which says *how* one kernel computes.
 *
 * A kernel is a tree of statements over buffers in named memory spaces:
 * loops of a stated kind, stores, conditions, and scalar expressions.  What
 * TIR leaves open is spelled here: tiles, loop order, lanes, staging
 * buffers, accumulators.  Emitters (LLVM, CUDA C) translate statement by
 * statement and decide nothing.
 *
 * Meaning, shared by the interpreter and all emitters:
 *  1. loop.block: iterations are independent; any order, any thread.  Only
 *     the outermost statements may be block loops, perfectly nested.
 *     LOCAL, SHARED and REGISTER buffers are private to one block iteration
 *     and start undefined.
 *  2. loop.serial, loop.unroll: in order (unroll: constant trip count, all
 *     copies emitted).  step is a positive constant; the variable runs lo,
 *     lo+step, ... < hi.
 *  3. loop.lane: lo 0, constant hi (2..64): one vector statement each.  All
 *     lanes execute a statement before the next one starts.  Lanes whose
 *     mask is false do nothing.  No loop inside a lane loop; an `if` there
 *     narrows the mask (or branches, if its condition is uniform).
 *  4. select, and, or are lazy for loads: a load in an arm not chosen is not
 *     made, unless marked `is_safe` (in bounds whatever the guard).
 *  5. A load widens to the arithmetic type; a store rounds once to the
 *     buffer's dtype (integers keep the low bits).
 *  6. fma is one rounding; nothing else is contracted or reassociated.
 *  7. loop.warp: constant bounds within 0 .. W; iteration w is done by warp w
 *     of the block, in any order between two barriers.  W, the largest bound
 *     of all, is the block's number of warps: a loop over some of them gives
 *     those a part of their own.  In a kernel with warp loops lane loops and
 *     stores stand inside them, and what is outside is done by all threads
 *     alike.  What one warp stores another one may read behind a barrier that
 *     both pass, not before.
 *  8. copy moves n neighbours at once: a place in memory is a multiple of n
 *     elements from the start of its buffer.
 *  9. transpose turns a square register buffer; what was undefined stays so,
 *     in its new place.
 * 10. prefetch says that an element of a parameter is wanted soon. It may lie
 *     anywhere, also outside of the buffer, and changes no result.
 * 11. copy.async starts such a move from a parameter that the kernel does not
 *     write to a shared buffer.  copy.commit closes a group of all that was
 *     started since the last one; copy.wait n waits until at most the n
 *     newest groups are on their way.  Behind that and a barrier the elements
 *     are there, and until then nobody touches them; whoever used them before
 *     has passed a barrier too.  No copy is on its way when a block iteration
 *     ends.
 * 12. A swizzled buffer says where elements lie, not what they are.
 *
 * Lifetime: all in the kernel's arena. */
#ifndef TDSL_IR_KIR_H
#define TDSL_IR_KIR_H

#include "ir/shape.h"
#include "runtime/base/task.h"
#include "runtime/base/vec.h"

typedef struct kir_kernel kir_kernel_t;
typedef struct kir_buffer kir_buffer_t;
typedef struct kir_var kir_var_t;
typedef struct kir_expr kir_expr_t;
typedef struct kir_stmt kir_stmt_t;

typedef enum kir_space {
  KIR_GLOBAL,   /* parameter of the kernel */
  KIR_LOCAL,    /* scratch of a block: thread-local memory, stays in cache */
  KIR_SHARED,   /* scratch that a block's threads share (GPU) */
  KIR_REGISTER, /* small, constant dims; every leading index is constant
                   after unrolling, the last one is constant or the lane; of
                   one made outside of warp loops the first is the warp */
} kir_space_t;

struct kir_buffer {
  const char *name;
  tdsl_dtype_t dtype;
  kir_space_t space;
  uint32_t rank;
  const ix_poly_t *dims[IX_MAX_RANK]; /* over kernel dims; row-major */
  uint32_t id;              /* GLOBAL: position among the parameters */
  bool is_read, is_written; /* GLOBAL */
  bool no_alias;            /* GLOBAL: overlaps no other parameter */
  bool is_swizzled;         /* SHARED: rows of the last dim have 32, 64 or 128
                               bytes; pieces of 16 change places in them as
                               tensor copies of that width have it: address
                               bits 4.. ^= bits 7.. */
  bool is_streamed;         /* GLOBAL, written only: too large to be found in
                               a cache by who reads it; stores may go past
                               them. No effect on results */
  td_loc_t loc;
};

/* A loop variable (I64) or the name of a `let`. */
struct kir_var {
  const char *name;
  tdsl_dtype_t type;        /* F32, F64, I64, BOOL */
  uint32_t id;              /* dense in the kernel; kir_renumber */
  const ix_symbol_t *symbol; /* I64: in polys */
};

typedef enum kir_x {
#define KIR_SCALAR(id, ...) KIR_X_##id,
#include "ir/kir_ops.def"
  KIR_X_COUNT
} kir_x_t;

struct kir_expr {
  kir_x_t op;
  tdsl_dtype_t type;        /* F32, F64, I64, BOOL */
  td_loc_t loc;
  union {
    int64_t i64;            /* CONST of I64, BOOL */
    double f64;             /* CONST of F32, F64 */
    const kir_var_t *var;   /* VAR */
    const ix_poly_t *dim;   /* DIM: poly of kernel dims and scalars */
    const kir_buffer_t *buffer; /* LOAD; FOLD */
    tdsl_dtype_t to;        /* CAST */
  } u;
  kir_x_t fold;             /* FOLD: ADD, MUL, MAX, MIN, AND, OR */
  bool is_safe;             /* LOAD: in bounds whatever guards it */
  uint32_t arg_count;
  kir_expr_t *const *args;  /* LOAD, FOLD: subscripts (FOLD: all but the
                               last dim, over whose lanes it folds by
                               halves: lane l takes lane l + n/2, ...) */
};

typedef enum kir_kind {
#define KIR_STMT(id, ...) KIR_##id,
#include "ir/kir_ops.def"
  KIR_KIND_COUNT
} kir_kind_t;

typedef enum kir_loop {
  KIR_LOOP_BLOCK, KIR_LOOP_SERIAL, KIR_LOOP_UNROLL, KIR_LOOP_LANE,
  KIR_LOOP_WARP, /* warps of a block (GPU) */
} kir_loop_t;

typedef TD_VEC(kir_stmt_t *) kir_block_t;

/* LOOP   kind var in lo .. hi step: body (mask: LANE only, or NULL)
 * IF     cond: body, else orelse
 * LET    var = value; visible to the end of the block
 * STORE  buffer[subs] = value
 * ALLOC  buffer (LOCAL, SHARED, REGISTER), visible to the end of the block
 * COPY   buffer[subs] = value, a LOAD, and `step` - 1 neighbours: along the
 *        last dim, of a register buffer with rows along the one before
 * TRANSPOSE buffer, REGISTER [n, n]: element i, j and j, i change places
 * PREFETCH buffer[subs], GLOBAL; subscripts without loads
 * ASYNC  the same as COPY, later: see 11; where `mask` is false zeros come,
 *        and nothing is read.  Subscripts are evaluated in any case
 * COMMIT, WAIT `step`: see 11; outside of warp loops
 * BARRIER of all threads of the block; outside of warp loops.  With a number
 *        in `step`, 1 .. 15, of the warps lo .. hi - 1 alone
 * COMMENT text, carried into emitted code */
struct kir_stmt {
  kir_kind_t kind;
  td_loc_t loc;
  kir_loop_t loop;
  kir_var_t *var;           /* LOOP, LET */
  kir_expr_t *lo, *hi;      /* LOOP; BARRIER of a part */
  int64_t step;             /* LOOP; COPY, ASYNC: elements; WAIT; BARRIER */
  kir_expr_t *mask;         /* LOOP lane; IF: condition; ASYNC, or NULL */
  kir_block_t body, orelse;
  kir_buffer_t *buffer;     /* STORE, COPY, ASYNC, ALLOC, TRANSPOSE,
                               PREFETCH */
  uint32_t sub_count;
  kir_expr_t **subs;        /* STORE, COPY, ASYNC, PREFETCH */
  kir_expr_t *value;        /* STORE, COPY, ASYNC, LET */
  const char *text;         /* COMMENT */
};

struct kir_kernel {
  const char *name;         /* unique in the program: k03_softmax_rows */
  td_arena_t *arena;
  ix_pool_t *pool;
  uint32_t param_count;
  kir_buffer_t **params;
  uint32_t dim_count;       /* i64 scalar arguments: dynamic dims, then loop
                               variables of the surrounding program loops */
  const ix_symbol_t **dims;
  kir_block_t body;
  td_loc_t loc;
  const char *card;         /* header text: source lines, shapes, schedule,
                               ledgers; one fact a line */
  uint32_t var_count;
};

/* ---- building -------------------------------------------------------------*/

kir_expr_t *kir_const_f(td_arena_t *, tdsl_dtype_t type, double v);
kir_expr_t *kir_const_i(td_arena_t *, tdsl_dtype_t type, int64_t v);
kir_expr_t *kir_var_ref(td_arena_t *, const kir_var_t *);
kir_expr_t *kir_dim(td_arena_t *, const ix_poly_t *);
kir_expr_t *kir_load(td_arena_t *, const kir_buffer_t *, uint32_t count,
                     kir_expr_t *const *subs);
kir_expr_t *kir_op(td_arena_t *, kir_x_t op, tdsl_dtype_t type,
                   uint32_t count, kir_expr_t *const *args);
/* Folds constants and drops x+0, x*1 of integers while building. */
kir_expr_t *kir_add(td_arena_t *, kir_expr_t *, kir_expr_t *);
kir_expr_t *kir_mul(td_arena_t *, kir_expr_t *, kir_expr_t *);
kir_var_t *kir_var_create(kir_kernel_t *, const char *name, tdsl_dtype_t);
kir_buffer_t *kir_buffer_create(kir_kernel_t *, const char *name,
                                tdsl_dtype_t, kir_space_t, uint32_t rank,
                                const ix_poly_t *const *dims);
kir_stmt_t *kir_loop_stmt(kir_kernel_t *, kir_loop_t, kir_var_t *,
                          kir_expr_t *lo, kir_expr_t *hi, int64_t step);
kir_stmt_t *kir_store_stmt(kir_kernel_t *, kir_buffer_t *, uint32_t count,
                           kir_expr_t *const *subs, kir_expr_t *value);
/* `load` is a LOAD of equal dtype. */
kir_stmt_t *kir_copy_stmt(kir_kernel_t *, int64_t elements, kir_buffer_t *,
                          uint32_t count, kir_expr_t *const *subs,
                          kir_expr_t *load);
/* Places up to here are 32 bits wide on a GPU: a sum of two of them is too. */
enum { KIR_INT_MOST = 1 << 30 };
/* Its elements are proved to be no more than that. */
bool kir_is_int_sized(const kir_buffer_t *);
/* The dim along which a copy moves. */
uint32_t kir_copy_dim(const kir_buffer_t *);
/* Warps of a block: the largest bound of the warp loops, 0: there is none. */
uint32_t kir_warp_count(const kir_kernel_t *);
void kir_renumber(kir_kernel_t *);

/* Calls `visit` once for each distinct expression of a DAG, operands first;
 * explicit stack, so depth does not matter.  A walker remembers what it has
 * visited, for several roots that share. */
typedef void (*kir_visit_fn)(void *user, const kir_expr_t *e);
typedef struct kir_walker {
  td_map_t seen;
} kir_walker_t;
void kir_walker_init(kir_walker_t *, td_arena_t *scratch);
void kir_walk_into(kir_walker_t *, const kir_expr_t *root, kir_visit_fn visit,
                   void *user);
/* The expressions of a statement, nested ones not included: lo, hi, mask,
 * subscripts, value, those that are set. */
uint32_t kir_stmt_expr_count(const kir_stmt_t *);
const kir_expr_t *kir_stmt_expr(const kir_stmt_t *, uint32_t i);
/* The arithmetic type of a storage type: F32, F64, I64 or BOOL. */
tdsl_dtype_t kir_arithmetic(tdsl_dtype_t dtype);

/* ---- text, verification, interpretation -----------------------------------*/

void kir_print(td_buf_t *out, const kir_kernel_t *);
/* One or more kernels; NULL-terminated array in arena; NULL on error. */
kir_kernel_t **kir_parse(td_task_t *, td_arena_t *, uint32_t file);
bool kir_verify(td_task_t *, const kir_kernel_t *, const char *stage,
                bool from_text);

/* Runs one kernel.  buffers[i] is the storage of params[i] in its dtype;
 * scalars parallel to dims.  checks: every load and store is tested against
 * the buffer's dims and reads of undefined scratch are reported (R10).
 * Block iterations and warps run forwards, or backwards if `reversed` (no
 * answer may change).  False after diagnostics. */
bool kir_interpret(td_task_t *, const kir_kernel_t *, void *const *buffers,
                   const int64_t *scalars, bool checks, bool reversed);

/* Scratch bytes one block iteration needs (all LOCAL buffers live at once,
 * each aligned to 64) as a polynomial of the dims. */
const ix_poly_t *kir_scratch_bytes(const kir_kernel_t *);
/* Number of block iterations (product of block loops' trip counts). */
const ix_poly_t *kir_block_count(const kir_kernel_t *);

#endif
