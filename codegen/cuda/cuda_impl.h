/* cuda_impl.h: state shared by the files of the CUDA emitter.
 *
 * How a kernel is laid out on the machine:
 *  1. A block iteration belongs to one worker.  A kernel with lane loops has
 *     warps as workers, or halves of warps if no loop has more than 16 lanes:
 *     lane l of a loop of n lanes is thread l mod 32 of the worker, in
 *     (n + 31) / 32 parts one after the other.  Other statements run in all
 *     threads alike; what they store to memory is stored by thread 0.
 *     A kernel with warp loops has the whole block as one worker: iteration w
 *     is done by warp w, barriers are the text's own.
 *  2. A kernel without lane loops and folds has threads as workers.
 *  3. A REGISTER row lies across the threads: element e in thread e mod 32.
 *     A row that is read or written at other places than the own lane lies
 *     in memory instead.
 *  4. LOCAL buffers lie in shared memory as long as there is room, the rest
 *     in a slab of global memory that each worker has of its own.
 *  5. Threads of a warp exchange values through memory only across a
 *     __syncwarp (cuda_sync.c decides where). */
#ifndef TDSL_CODEGEN_CUDA_IMPL_H
#define TDSL_CODEGEN_CUDA_IMPL_H

#include "codegen/cuda/cuda.h"
#include "codegen/emit.h"

typedef enum cgc_helper {
#define CGC_HELPER(id, name) CGC_##id,
#include "codegen/cuda/prelude.def"
  CGC_HELPER_COUNT
} cgc_helper_t;

enum { CGC_WARP = 32, CGC_HALF = 16 };

typedef enum cgc_place {
  CGC_PARAM,   /* global memory of the caller */
  CGC_SHARED,
  CGC_SCRATCH, /* slab of the worker */
  CGC_REGS,    /* variables: one element of each row a thread and part */
} cgc_place_t;

/* Who touches a buffer; two threads never touch the same element if both
 * accesses are of one kind other than ANY. */
enum {
  CGC_BY_ANY = 1,
  CGC_BY_ZERO = 2, /* thread 0 */
  CGC_BY_16 = 4,   /* last subscript mod 16 is the thread */
  CGC_BY_32 = 8,   /* last subscript mod 32 is the thread */
  CGC_BY_TWOS = 16,   /* last subscript / 2 mod 32 is */
  CGC_BY_FOURS = 32,  /* last subscript / 4 mod 32 is */
  CGC_BY_EIGHTS = 64, /* last subscript / 8 mod 32 is */
};

typedef struct cgc_touch {
  uint8_t read, write;
} cgc_touch_t;

typedef struct cgc_buffer {
  const kir_buffer_t *b;
  uint32_t index;     /* dense; into tables of cgc_touch_t */
  const char *name;   /* in the text */
  cgc_place_t place;
  bool is_read;       /* loaded or folded anywhere */
  bool is_written;
  uint32_t reads;     /* while a round of cgc_scan counts */
  uint32_t bytes;     /* of constant size, in whole lines of 16; 0: not so, or
                         more than shared memory */
  uint32_t at;        /* SHARED: from where the worker's begins */
  bool is_exchanged;  /* a REGISTER row used beside the own lane */
  bool has_warps;     /* a REGISTER buffer whose first dim is the warp */
} cgc_buffer_t;

/* What can be said of an expression wherever it stands. */
typedef struct cgc_trait {
  bool may_fault;   /* loads what may be out of bounds */
  bool is_wild;     /* an integer that may be any: arithmetic wraps */
  bool has_data;    /* an integer that comes from memory */
  bool is_positive; /* an integer that is not negative */
  bool is_const;    /* an integer known now */
  bool has_fold;
  bool has_range;   /* an integer in lo .. hi */
  int64_t value;
  int64_t lo, hi;
} cgc_trait_t;

/* Numbers up to here are `int`: a sum of two of them is one. */
enum { CGC_INT_MOST = KIR_INT_MOST };

/* Expressions of a kernel's text, repetitions included. */
enum { CGC_MAX_EXPRS = 1 << 20 };

typedef struct cgc {
  td_task_t *task;
  td_arena_t *arena;        /* scratch of one kernel */
  cg_text_t text;
  const cgc_options_t *options;
  bool uses[CGC_HELPER_COUNT]; /* of the module so far */
  /* the kernel being emitted */
  const kir_kernel_t *kernel;
  bool is_warp;             /* workers are warps or halves of them */
  uint32_t width;           /* threads of a worker: 1, 16, 32 */
  bool has_mates;           /* the text names the threads of a half warp */
  uint32_t workers;
  uint32_t warps;           /* of a worker that is the block; 0: it is not */
  bool is_in_warp;          /* inside of a warp loop */
  td_map_t *buffers;        /* kir_buffer_t* -> cgc_buffer_t* */
  TD_VEC(cgc_buffer_t *) buffer_list;
  const kir_stmt_t **defs;  /* by var id: LOOP or LET that sets it */
  uint32_t *var_uses;       /* by var id */
  bool *lane_lets;          /* by var id: set inside a lane loop */
  const char **var_names;   /* by var id */
  const char **dim_names;
  const ix_poly_t *scratch_used;
  uint32_t shared_bytes;    /* of one worker */
  bool is_one_piece;        /* shared memory is one array; else by buffer */
  uint32_t temps;           /* numbers of temporaries */
  uint32_t budget;          /* expressions that may still be emitted */
  /* the lane loop around */
  uint32_t lanes;           /* 0: none */
  const kir_var_t *lane_var;
  uint32_t part, parts;
  bool is_split;            /* names of lane lets carry the part */
  /* expressions of the statement */
  td_map_t *memo;           /* kir_expr_t* -> text */
  TD_VEC(uint64_t) memo_log;
  td_map_t *counts;         /* kir_expr_t* -> times used, as a number */
  td_map_t *traits;
  kir_walker_t trait_walker;
  cgc_touch_t *pending;     /* by buffer, since the last __syncwarp: ahead of
                               this place */
  cgc_touch_t *carried;     /* the same, by iterations before this one */
  uint32_t depth;
} cgc_t;

static inline uint64_t cgc_key(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- cuda_text.c ---- */
/* B13 at the statement that the kernel is of: "kernel NAME " and the text. */
TD_PRINTF(2, 3)
_Noreturn void cgc_refuse(cgc_t *g, const char *format, ...);

/* ---- cuda_prelude.c ---- */
/* Name of a helper, which then goes into the module. */
const char *cgc_call(cgc_t *g, cgc_helper_t helper);
/* Texts of all helpers used, those that they need first. */
void cgc_put_helpers(const cgc_t *g, td_buf_t *out);

/* ---- cuda_expr.c ---- */
/* Counts uses in the statement's expressions; forgets the last statement. */
void cgc_begin(cgc_t *g, const kir_expr_t *const *roots, uint32_t count);
/* A C expression that can stand as any operand.  May emit lines before. */
const char *cgc_expr(cgc_t *g, const kir_expr_t *e);
/* Evaluates folds of e, which all threads must do together. */
void cgc_hoist_folds(cgc_t *g, const kir_expr_t *e);
/* Without the parentheses around all of it. */
const char *cgc_bare(cgc_t *g, const char *text);
const char *cgc_type(cgc_t *g, tdsl_dtype_t arithmetic);
size_t cgc_memo_mark(const cgc_t *g);
void cgc_memo_release(cgc_t *g, size_t mark);

/* ---- cuda_trait.c ---- */
const cgc_trait_t *cgc_trait(cgc_t *g, const kir_expr_t *e);
/* An integer that `int` holds; others are `long long`. */
bool cgc_is_int(cgc_t *g, const kir_expr_t *e);
/* Type of e in the text. */
const char *cgc_type_of(cgc_t *g, const kir_expr_t *e);
/* A polynomial of dims, and all its terms, are `int`. */
bool cgc_is_int_poly(const ix_poly_t *p);
/* A multiple of n whatever its variables are. */
bool cgc_is_multiple(cgc_t *g, const kir_expr_t *e, int64_t n);
/* Who touches the element at these subscripts, in the loop around. */
uint8_t cgc_who(cgc_t *g, const kir_buffer_t *b, uint32_t count,
                kir_expr_t *const *subs);

/* ---- cuda_number.c ---- */
const char *cgc_float(cgc_t *g, tdsl_dtype_t type, double v);
const char *cgc_int(cgc_t *g, int64_t v);
const char *cgc_poly(cgc_t *g, const ix_poly_t *p);
const char *cgc_floor(cgc_t *g, bool is_mod, const char *a, const char *b,
                      bool is_positive, bool has_divisor, int64_t divisor);
const char *cgc_cast(cgc_t *g, tdsl_dtype_t to, const char *v,
                     tdsl_dtype_t from);
const char *cgc_math(cgc_t *g, kir_x_t op, tdsl_dtype_t type, const char *a);
const char *cgc_extreme(cgc_t *g, bool is_min, tdsl_dtype_t type,
                        const char *a, const char *b);
/* Between a stored element and its arithmetic value. */
const char *cgc_storage_type(cgc_t *g, tdsl_dtype_t dtype);
const char *cgc_decode(cgc_t *g, tdsl_dtype_t dtype, const char *bits);
const char *cgc_encode(cgc_t *g, tdsl_dtype_t dtype, const char *v,
                       tdsl_dtype_t type);
/* What a store to dtype and a load back would give. */
const char *cgc_rounded(cgc_t *g, tdsl_dtype_t dtype, const char *v,
                        tdsl_dtype_t type);

/* ---- cuda_memory.c ---- */
cgc_buffer_t *cgc_buffer(cgc_t *g, const kir_buffer_t *b);
/* ---- cuda_place.c ---- */
/* Decides where buffers lie, and how many workers a block has. */
void cgc_place_buffers(cgc_t *g);
/* Shared memory of all workers, at the kernel's top. */
void cgc_declare_shared(cgc_t *g);
/* Bytes of a block, and what of them a launch has to ask for. */
uint32_t cgc_block_shared(const cgc_t *g);
uint32_t cgc_dynamic_shared(const cgc_t *g);
/* Emits what makes a SHARED buffer visible where it is allocated. */
void cgc_alloc_shared(cgc_t *g, const cgc_buffer_t *c);
/* ---- cuda_memory.c ---- */
/* Emits what an ALLOC makes visible. */
void cgc_alloc(cgc_t *g, const kir_buffer_t *b);
const char *cgc_load(cgc_t *g, const kir_expr_t *e);
const char *cgc_fold(cgc_t *g, const kir_expr_t *e);
/* Element as an lvalue. */
const char *cgc_element(cgc_t *g, const kir_buffer_t *b, uint32_t count,
                        kir_expr_t *const *subs);
/* Emits the store of a value that has been evaluated. */
void cgc_put_store(cgc_t *g, const kir_stmt_t *s, const char *value);
/* Emits a COPY: one access of up to 16 bytes. */
void cgc_put_copy(cgc_t *g, const kir_stmt_t *s);
/* Emits the start of an asynchronous one. */
void cgc_put_async(cgc_t *g, const kir_stmt_t *s);
bool cgc_is_own_lane(const cgc_t *g, const kir_buffer_t *b,
                     kir_expr_t *const *subs);

/* ---- cuda_sync.c ---- */
/* Adds what an expression, or a statement with all inside, touches. */
void cgc_touch_expr(cgc_t *g, const kir_expr_t *e, uint8_t who,
                    cgc_touch_t *out);
void cgc_touch_stmt(cgc_t *g, const kir_stmt_t *s, cgc_touch_t *out);
/* The statement itself, without what is inside. */
void cgc_touch_own(cgc_t *g, const kir_stmt_t *s, cgc_touch_t *out);
cgc_touch_t *cgc_touches(cgc_t *g); /* a table, nothing touched */
/* __syncthreads, after which nothing is pending. */
void cgc_barrier(cgc_t *g);
/* The statement: of all threads, or of some warps. */
void cgc_put_barrier(cgc_t *g, const kir_stmt_t *s);
/* Warps lo .. hi - 1, as a condition; NULL: all there are. */
const char *cgc_some_warps(cgc_t *g, const kir_stmt_t *s);
/* Mask of the threads of a worker. */
const char *cgc_mates(cgc_t *g);
void cgc_put_sync(cgc_t *g);
bool cgc_conflict(const cgc_t *g, const cgc_touch_t *before,
                  const cgc_touch_t *after);
void cgc_add_touches(const cgc_t *g, cgc_touch_t *to, const cgc_touch_t *from);
/* __syncwarp if what comes could meet what was done since the last one. */
void cgc_sync_before(cgc_t *g, const cgc_touch_t *next);
/* What an iteration of a loop leaves for the next one: all it touches behind
 * its last barrier. */
void cgc_touch_turn(cgc_t *g, const kir_block_t *body, cgc_touch_t *out);
/* The same for what was done ahead of a loop; then `turn` counts as done by
 * iterations before. */
void cgc_sync_loop(cgc_t *g, const cgc_touch_t *inside,
                   const cgc_touch_t *turn);

/* ---- cuda_stmt.c ---- */
void cgc_block(cgc_t *g, const kir_block_t *block);
/* One statement's expressions: begins it and evaluates its folds. */
void cgc_begin_stmt(cgc_t *g, const kir_stmt_t *s);
void cgc_let(cgc_t *g, const kir_stmt_t *s);
/* A store whose value nobody reads, a let that is a constant. */
bool cgc_is_idle(cgc_t *g, const kir_stmt_t *s);
/* ---- cuda_lane.c ---- */
void cgc_lane_loop(cgc_t *g, const kir_stmt_t *s);

/* ---- cuda_scan.c ---- */
/* Fills tables about variables and buffers; decides is_warp. */
void cgc_scan(cgc_t *g);

/* ---- cuda_estimate.c ---- */

/* Registers of a thread, about, once buffers have their places. */
uint32_t cgc_registers(const cgc_t *g);

#endif
