/* llvm_impl.h: state shared by the files of the LLVM emitter. */
#ifndef TDSL_CODEGEN_LLVM_IMPL_H
#define TDSL_CODEGEN_LLVM_IMPL_H

#include <llvm-c/Core.h>

#include "codegen/llvm/llvm.h"

/* What can be said of an expression wherever it stands. */
typedef struct cgl_trait {
  bool may_fault;  /* for a lane or path that was not chosen */
  bool is_varying; /* may differ between the lanes of the loop around */
  uint64_t reads;  /* one bit a buffer read; see cgl_buffer_bit */
} cgl_trait_t;

typedef struct cgl {
  td_task_t *task;
  td_arena_t *arena;
  const ir_target_t *target;
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef builder;
  LLVMTypeRef i1, i8, i16, i32, i64, f32, f64, ptr, nothing;
  /* the kernel being emitted */
  const kir_kernel_t *kernel;
  LLVMValueRef function;
  LLVMBasicBlockRef entry;       /* allocas go here */
  LLVMValueRef *params;          /* base of each GLOBAL buffer */
  LLVMValueRef *dims;            /* value of each kernel dim */
  LLVMValueRef scratch;
  const ix_poly_t *scratch_used; /* bytes handed to LOCAL buffers so far */
  LLVMValueRef *vars;            /* by kir_var id; vector if lane-varying */
  const kir_stmt_t **lets;       /* definition of a LET var, by id */
  td_map_t *storage;             /* kir_buffer_t* -> base pointer */
  /* the lane loop around, if any */
  uint32_t lanes;                /* 0: scalar code */
  const kir_var_t *lane_var;
  LLVMValueRef mask;             /* <lanes x i1>, or NULL: all */
  bool at_lane0;                 /* evaluating addresses: lane var is 0 */
  /* Values of expressions already emitted.  A scope begins where code is
   * guarded (an arm, a loop body) and ends with it, so that a value is found
   * only where it dominates and where its loads were made. */
  td_map_t *memo;                /* kir_expr_t*, bit 0 at_lane0 -> value */
  TD_VEC(uint64_t) memo_log;     /* keys, newest last */
  TD_VEC(uint64_t) memo_loads;   /* keys of what a store may make stale */
  td_map_t *traits;              /* kir_expr_t* -> cgl_trait_t */
  kir_walker_t trait_walker;     /* what is known is not walked again */
  td_map_t *buffer_bits;         /* kir_buffer_t* -> bit number + 1 */
  td_map_t *dim_values;          /* ix_poly_t* -> value, whole function */
  /* stack room of llvm_masked.c, made when first needed */
  LLVMValueRef lane_values, lane_pointers, lane_thirds;
  uint32_t depth;                /* of choices and loads in each other */
  uint32_t emitted;              /* expressions, repetitions included */
} cgl_t;

/* ---- llvm_expr.c ---- */
LLVMValueRef cgl_expr(cgl_t *g, const kir_expr_t *e);
/* As a vector of g->lanes elements (scalar code: as it is). */
LLVMValueRef cgl_expr_wide(cgl_t *g, const kir_expr_t *e);
LLVMValueRef cgl_widen(cgl_t *g, LLVMValueRef v);
LLVMValueRef cgl_poly(cgl_t *g, const ix_poly_t *p);
bool cgl_is_vector(LLVMValueRef v);

/* ---- llvm_memo.c ---- */
/* True if the expression may differ between lanes. */
bool cgl_is_varying(cgl_t *g, const kir_expr_t *e);
/* True if evaluating for a lane or path that was not chosen could fault: a
 * load that may be out of bounds, or a division by what may be zero. */
bool cgl_may_fault(cgl_t *g, const kir_expr_t *e);
LLVMValueRef cgl_memo_find(const cgl_t *g, const kir_expr_t *e);
void cgl_memo_put(cgl_t *g, const kir_expr_t *e, LLVMValueRef v);
size_t cgl_memo_mark(const cgl_t *g);
void cgl_memo_release(cgl_t *g, size_t mark);
/* Forgets what was read from a buffer: it has been written. */
void cgl_memo_stale(cgl_t *g, const kir_buffer_t *b);

/* ---- llvm_func.c ---- */
/* CPU and features of a function of the module. */
void cgl_set_target(cgl_t *g, LLVMValueRef f);

/* ---- llvm_abreast.c ---- */
/* An unrolled loop with constant bounds whose copies may go side by side;
 * false, and nothing emitted: one after the other is as good. */
bool cgl_unroll_abreast(cgl_t *g, const kir_stmt_t *s);

/* ---- llvm_memory.c ---- */
LLVMValueRef cgl_load(cgl_t *g, const kir_expr_t *e);
LLVMValueRef cgl_fold(cgl_t *g, const kir_expr_t *e);
void cgl_store(cgl_t *g, const kir_stmt_t *s);
void cgl_prefetch(cgl_t *g, const kir_stmt_t *s);
void cgl_alloc(cgl_t *g, const kir_stmt_t *s);
/* A whole row of a register buffer of rank 2, as stored. */
LLVMValueRef cgl_get_row(cgl_t *g, const kir_buffer_t *b, uint32_t row);
void cgl_put_row(cgl_t *g, const kir_buffer_t *b, uint32_t row,
                 LLVMValueRef v);

/* ---- llvm_transpose.c ---- */
void cgl_transpose(cgl_t *g, const kir_buffer_t *b);

/* ---- llvm_masked.c ---- */
/* One element a lane: the lanes' neighbours from `where` on, or where each
 * lane of `where` points. */
typedef struct cgl_place {
  LLVMTypeRef element;
  LLVMValueRef where;
  uint32_t align; /* of an element */
  LLVMValueRef mask;
} cgl_place_t;

/* Lanes that do not count read 0. */
LLVMValueRef cgl_masked_load(cgl_t *g, const cgl_place_t *p);
void cgl_masked_store(cgl_t *g, const cgl_place_t *p, LLVMValueRef bits);
/* Calls f for the lanes of the mask, one after the other; up to 3 arguments
 * of 8 bytes a lane. Other lanes hold anything. */
LLVMValueRef cgl_call_lanes(cgl_t *g, LLVMValueRef f, LLVMTypeRef signature,
                            LLVMTypeRef result, LLVMValueRef *args,
                            uint32_t count, LLVMValueRef mask);

/* ---- llvm_convert.c: between stored bits and arithmetic values; scalars
 * and vectors alike ---- */
LLVMTypeRef cgl_storage_type(cgl_t *g, tdsl_dtype_t dtype);
LLVMTypeRef cgl_value_type(cgl_t *g, tdsl_dtype_t type);
/* `element`, or the vector type of as many elements as `like` has. */
LLVMTypeRef cgl_like(LLVMTypeRef element, LLVMValueRef like);
LLVMValueRef cgl_decode(cgl_t *g, tdsl_dtype_t dtype, LLVMValueRef bits);
LLVMValueRef cgl_encode(cgl_t *g, tdsl_dtype_t dtype, LLVMValueRef value,
                        tdsl_dtype_t type);
/* v, the value of an integer expression, in 32 bits if lanes of it are known
 * to fit. */
LLVMValueRef cgl_narrow(cgl_t *g, const kir_expr_t *e, LLVMValueRef v);
/* e is one of sixteen numbers that follow each other, from *lo on. */
bool cgl_is_one_of_16(const kir_expr_t *e, int64_t *lo);
LLVMValueRef cgl_cast(cgl_t *g, tdsl_dtype_t to, LLVMValueRef value,
                      tdsl_dtype_t from);
/* Toward zero, saturating at the ends of i32 or i64; NaN to zero. */
LLVMValueRef cgl_float_to_int(cgl_t *g, LLVMValueRef value, LLVMTypeRef to);
LLVMValueRef cgl_round_tf32(cgl_t *g, LLVMValueRef value);

/* ---- llvm_math.c: functions of f32 and f64 values ---- */
LLVMValueRef cgl_math(cgl_t *g, kir_x_t op, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cgl_uniform(cgl_t *g, LLVMValueRef seed, LLVMValueRef *counters,
                         uint32_t count);

/* 2^f for |f| <= 1/2, f32. */
LLVMValueRef cgl_exp2_fraction(cgl_t *g, LLVMValueRef f);

/* ---- llvm_wide.c: f32 where the target has AVX-512, any lanes or none ---- */
LLVMValueRef cgl_wide_exp(cgl_t *g, LLVMValueRef x);
/* f32 of i64 lanes that are lo .. lo + 15, looked up by what they are a sum
 * or a part of; NULL: they are neither, and a conversion is as good. */
LLVMValueRef cgl_wide_f32_of_16(cgl_t *g, LLVMValueRef v, int64_t lo);
LLVMValueRef cgl_wide_exp2(cgl_t *g, LLVMValueRef x);
LLVMValueRef cgl_wide_erf(cgl_t *g, LLVMValueRef x);
LLVMValueRef cgl_range_max(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                           bool is_min);

/* ---- llvm_divide.c ---- */
/* Each lane of `a` by the same number `b`, correctly rounded; NULL if a plain
 * division is as good. */
LLVMValueRef cgl_divide_by_one(cgl_t *g, LLVMValueRef a, LLVMValueRef b);

/* ---- helpers ---- */
LLVMValueRef cgl_splat(cgl_t *g, LLVMValueRef scalar, LLVMValueRef like);
LLVMValueRef cgl_const_f32(cgl_t *g, float v, LLVMValueRef like);
LLVMValueRef cgl_const_f64(cgl_t *g, double v, LLVMValueRef like);
LLVMValueRef cgl_const_int(cgl_t *g, LLVMTypeRef element, int64_t v,
                           LLVMValueRef like);
/* True if a bool, or any lane of a vector of them, is. */
LLVMValueRef cgl_any_lane(cgl_t *g, LLVMValueRef c);
/* Calls the overloaded intrinsic NAME at the type of args[0]. */
LLVMValueRef cgl_intrinsic(cgl_t *g, const char *name, LLVMValueRef *args,
                           uint32_t count);
/* Calls a function of the helper library, lane by lane; of vectors only the
 * lanes of `mask` (NULL: all). Arguments and result have 8 bytes a lane. */
LLVMValueRef cgl_helper(cgl_t *g, const char *name, LLVMTypeRef result,
                        LLVMValueRef *args, uint32_t count,
                        LLVMValueRef mask);
/* a * b + c with one rounding, also where the target has no instruction. */
LLVMValueRef cgl_fma(cgl_t *g, LLVMValueRef a, LLVMValueRef b,
                     LLVMValueRef c);
/* max and min with the NaN and zero rules of the language. */
LLVMValueRef cgl_max(cgl_t *g, LLVMValueRef a, LLVMValueRef b, bool is_min);

#endif
