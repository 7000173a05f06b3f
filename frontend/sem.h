/* sem.h: the checked program, as the checker hands it to lowering.
 *
 * The checker (sem_check) reads ASTs and makes this tree: every name is
 * resolved, every expression has a type, every index its range, every call
 * its callee and bindings; every subscript is proved.  Lowering walks it and
 * asks nothing again.  A function is checked once per *instance*: binding of
 * its dtype generics and length of its pack; its dim generics stay symbols
 * and calls carry what they stand for.  Static dims with values are already
 * numbers in every polynomial.
 *
 * Lifetime: all in the arena given to sem_check. */
#ifndef TDSL_FRONTEND_SEM_H
#define TDSL_FRONTEND_SEM_H

#include "frontend/ast.h"
#include "ir/shape.h"
#include "runtime/base/task.h"

typedef struct sem_program sem_program_t;
typedef struct sem_func sem_func_t; /* one instance of a function */
typedef struct sem_struct sem_struct_t;
typedef struct sem_symbol sem_symbol_t;
typedef struct sem_expr sem_expr_t;
typedef struct sem_stmt sem_stmt_t;
typedef struct sem_block sem_block_t;

/* ---- types ------------------------------------------------------------ */

/* A dim with the text that the user wrote for it and the place that bound
 * it; both serve messages only. */
typedef struct sem_dim {
  const ix_poly_t *size;
  const char *text;
  td_loc_t loc;
} sem_dim_t;

typedef enum sem_type_kind { SEM_TENSOR, SEM_STRUCT } sem_type_kind_t;

/* TENSOR: dtype and dims; rank 0 is a scalar.  STRUCT: a struct instance
 * with `rank` stack dims in front ([L] Block: rank 1).  dtype of an
 * expression: storage dtype for a read of a named tensor, else the
 * arithmetic type F32, F64, I32, I64 or BOOL. */
typedef struct sem_type {
  sem_type_kind_t kind;
  tdsl_dtype_t dtype; /* STRUCT: UNSET, or the dtype of `as` */
  uint32_t rank;
  sem_dim_t dims[IX_MAX_RANK];
  const sem_struct_t *record;
  /* integers: lo <= v < hi; NULL = unknown */
  const ix_poly_t *lo, *hi;
  const ast_type_t *syntax; /* layout marks live there; NULL if inferred */
} sem_type_t;

typedef struct sem_field {
  const char *name;
  sem_type_t type;
  const char *from;    /* checkpoint text, NULL: own name               */
  int32_t else_field;  /* index of the sibling it may fall back to, -1  */
  td_loc_t loc;
} sem_field_t;

/* A struct with its generics put in: fields are in the terms of the place
 * that mentioned it.  One object per distinct mention is fine. */
struct sem_struct {
  const char *name;
  const ast_decl_t *syntax; /* equal for mentions of one struct */
  uint32_t field_count;
  sem_field_t *fields;
  uint32_t leaf_count; /* tensors below, stacks counted once */
  uint32_t leaf_rank;  /* largest rank of one, stack dims inside included */
  td_loc_t loc;
};

/* ---- names ------------------------------------------------------------ */

typedef enum sem_symbol_kind {
  SEM_PARAM,  /* by value: never changes                                 */
  SEM_INOUT,  /* parameter that names the caller's place                 */
  SEM_RESULT, /* result of the function; may be `var`                    */
  SEM_LOCAL,  /* defined once                                            */
  SEM_VAR,    /* may be updated                                          */
  SEM_LOOP,   /* variable of a `for`: integer scalar                     */
  SEM_PLACE,  /* name of an `each` over one leaf: stands for `place`     */
} sem_symbol_kind_t;

struct sem_symbol {
  sem_symbol_kind_t kind;
  const char *name;
  sem_type_t type;    /* dtype = storage type if written, else arithmetic */
  /* dtype came from the text: stores round.  Else the name holds what the
   * formula gives, integers all 64 bits whatever `dtype` says. */
  bool is_written;
  bool is_var;        /* VAR, or a RESULT that is updated                   */
  uint32_t id;        /* unique in the instance, in order of declaration    */
  td_loc_t loc;
  const sem_expr_t *default_value; /* PARAM: constant, or NULL             */
  const ix_symbol_t *value; /* integer scalars: stands for it in polys     */
  const sem_expr_t *place;  /* PLACE: FIELD/SUBSCRIPT chain to a var leaf  */
};

/* An index of a statement or reduction: runs over lo <= i < lo + extent;
 * extent may come out negative at run time for reductions: then empty. */
typedef struct sem_index {
  const char *name;
  const ix_symbol_t *symbol; /* its value in polys                         */
  const ix_poly_t *lo;       /* 0 unless `in A .. B`                       */
  const ix_poly_t *extent;
  uint32_t id;               /* unique in the instance                     */
  td_loc_t loc;
} sem_index_t;

/* ---- expressions ------------------------------------------------------ */

typedef enum sem_expr_kind {
  SEM_CONST,     /* number or bool, rounded to `type.dtype`; f32: not yet    */
  SEM_DIM,       /* value of a polynomial of dims: exact integer            */
  SEM_INDEX,     /* current value of an index                               */
  SEM_NAME,      /* a symbol: scalar, tensor, struct or stack               */
  SEM_FIELD,     /* args[0].field                                          */
  SEM_SUBSCRIPT, /* args[0][subs] of tensor or stack; `:` keeps a dim;      */
                 /* `otherwise` non-NULL: value when any subscript is out   */
  SEM_UNARY,     /* op over args[0]; elementwise if rank > 0                */
  SEM_BINARY,    /* op over args[0..1]; AND, OR lazy; scalars spread        */
  SEM_SELECT,    /* if args[0] then args[1] else args[2]; lazy              */
  SEM_CAST,      /* to type.dtype, rounding or saturating (language 8.4)    */
  SEM_WIDEN,     /* exact or implied conversion to type.dtype (int constant */
                 /* to float, bool never)                                   */
  SEM_REDUCE,    /* reduce over indices where guard of args[0]              */
  SEM_REDUCE_ALL,/* sum(t): all elements of args[0], row-major order        */
  SEM_UNIFORM,   /* uniform(seed, counters...)                              */
  SEM_CALL,      /* a function; several results only as a statement's rhs   */
  SEM_TOPK,      /* topk(args[0], k): two results, rhs of a definition only  */
  SEM_GRAD,      /* grad(args[0], args[1])                                  */
} sem_expr_kind_t;

/* Scalar operations.  The names match ir/tir_ops.def. */
typedef enum sem_op {
  SEM_OP_NONE = 0,
  /* unary */
  SEM_OP_NEG, SEM_OP_NOT, SEM_OP_ABS, SEM_OP_FLOOR, SEM_OP_CEIL,
  SEM_OP_ROUND, SEM_OP_EXP, SEM_OP_EXP2, SEM_OP_LOG, SEM_OP_LOG2,
  SEM_OP_SQRT, SEM_OP_RSQRT, SEM_OP_SIN, SEM_OP_COS, SEM_OP_TANH,
  SEM_OP_ERF,
  /* binary; DIV and MOD of integers floor; POW with a constant integer
   * exponent -8..8 means repeated products (language.md 7) */
  SEM_OP_ADD, SEM_OP_SUB, SEM_OP_MUL, SEM_OP_DIV, SEM_OP_MOD, SEM_OP_POW,
  SEM_OP_MIN, SEM_OP_MAX, SEM_OP_EQ, SEM_OP_NE, SEM_OP_LT, SEM_OP_LE,
  SEM_OP_GT, SEM_OP_GE, SEM_OP_AND, SEM_OP_OR,
} sem_op_t;

typedef enum sem_reduce {
  SEM_SUM, SEM_PROD, SEM_MAX, SEM_MIN, SEM_ANY, SEM_ALL, SEM_ARGMAX,
  SEM_ARGMIN,
} sem_reduce_t;

/* One subscript: an integer scalar expression, or `:` when expr is NULL. */
typedef struct sem_sub {
  const sem_expr_t *expr;
  td_loc_t loc;
} sem_sub_t;

/* What a generic dim of the callee stands for at a call. */
typedef struct sem_binding {
  const ix_symbol_t *generic;
  const ix_poly_t *value;
} sem_binding_t;

struct sem_expr {
  sem_expr_kind_t kind;
  sem_op_t op;           /* UNARY, BINARY */
  sem_reduce_t reduce;   /* REDUCE, REDUCE_ALL */
  sem_type_t type;       /* of the value; of result 0 for CALL, TOPK */
  td_loc_t loc;
  /* CONST, DIM that nothing has given a type yet; only the checker meets it,
   * except in requires and in the operands of integer comparisons */
  bool is_exact;
  bool is_unknown; /* CONST: of a config key without value; never compiled */
  /* constants: exact; type.dtype says which is meant */
  int64_t i64;
  double f64;
  const ix_poly_t *poly;        /* DIM; also any integer expression whose
                                   value is known in normal form; TOPK: k */
  const sem_index_t *index;     /* INDEX */
  sem_symbol_t *symbol;         /* NAME */
  uint32_t field;               /* FIELD */
  uint32_t arg_count;
  const sem_expr_t **args;      /* CALL: by parameter, defaults put in     */
  uint32_t sub_count;
  sem_sub_t *subs;              /* SUBSCRIPT */
  const sem_expr_t *otherwise;  /* SUBSCRIPT */
  uint32_t index_count;
  sem_index_t **indices;        /* REDUCE, in binder order */
  const sem_expr_t *guard;      /* REDUCE: where, or NULL */
  const sem_func_t *callee;     /* CALL */
  uint32_t binding_count;
  sem_binding_t *bindings;      /* CALL: all dim generics of the callee */
  int64_t k;                    /* TOPK: number of results, -1: see poly */
};

/* ---- statements ------------------------------------------------------- */

typedef enum sem_stmt_kind {
  SEM_DEFINE,  /* targets = value, for all tuples of indices             */
  SEM_UPDATE,  /* place := or += value; elements if sub_count > 0 or
                  index_count > 0, else the whole place (struct: leafwise)  */
  SEM_CALL_STMT, /* value: a CALL with inout arguments, results dropped     */
  SEM_FOR,     /* loop symbol from lo to hi - 1 over body                   */
  SEM_EACH,    /* leaves, already expanded                                  */
  SEM_SCOPE,   /* checkpoint { body }                                       */
  SEM_ASSERT,  /* value, text                                               */
} sem_stmt_kind_t;

/* Left side of a definition: dims of the symbol in order; each is a named
 * index of the statement or `:` (index NULL).  sub_count 0: the whole. */
typedef struct sem_target {
  sem_symbol_t *symbol;
  uint32_t sub_count;
  sem_index_t **subs;
} sem_target_t;

/* One leaf of an `each`: for all stack positions (loops nest in order) the
 * body with its names bound as SEM_PLACE symbols. */
typedef struct sem_leaf {
  uint32_t loop_count;
  sem_symbol_t **loops;       /* SEM_LOOP symbols */
  const ix_poly_t **extents;
  sem_block_t *body;
} sem_leaf_t;

struct sem_stmt {
  sem_stmt_kind_t kind;
  td_loc_t loc;
  uint32_t index_count;
  sem_index_t **indices;     /* DEFINE, UPDATE: named indices in order     */
  uint32_t target_count;
  sem_target_t *targets;     /* DEFINE */
  const sem_expr_t *value;   /* DEFINE, UPDATE, CALL_STMT, ASSERT          */
  const sem_expr_t *place;   /* UPDATE: NAME/FIELD/SUBSCRIPT chain without
                                the element subscripts                     */
  uint32_t sub_count;
  const sem_expr_t **subs;   /* UPDATE of elements: one integer each, NULL
                                for `:`, which the dims of value fill     */
  const sem_expr_t *guard;   /* UPDATE: where */
  bool is_accumulate;        /* UPDATE: += */
  bool is_distinct;          /* UPDATE: writes proved distinct             */
  sem_symbol_t *loop;        /* FOR */
  const sem_expr_t *lo, *hi; /* FOR */
  sem_block_t *body;         /* FOR, SCOPE */
  uint32_t leaf_count;
  sem_leaf_t *leaves;        /* EACH */
  const char *text;          /* ASSERT, or NULL */
};

struct sem_block {
  uint32_t stmt_count;
  sem_stmt_t **stmts;
};

/* ---- functions and the program ---------------------------------------- */

/* lhs OP rhs over dims, consts and scalar parameters; checked at entry of an
 * exported function (R03); already proved or decided elsewhere. */
typedef struct sem_require {
  const sem_expr_t *cond; /* bool expression, for values in the message */
  td_loc_t loc;
} sem_require_t;

struct sem_func {
  const char *name;
  td_loc_t loc;
  const ast_decl_t *syntax;
  bool is_exported, is_test, is_tf32, is_approx;
  bool is_entry; /* exported by the checked file, or the requested one */
  bool has_grad; /* itself or in a callee */
  bool has_inout;
  uint32_t generic_count;
  const ix_symbol_t **generics; /* dim generics, the pack's dims included  */
  uint32_t param_count;
  sem_symbol_t **params;
  uint32_t result_count;
  sem_symbol_t **results;       /* the unnamed result is called "_"        */
  uint32_t require_count;
  sem_require_t *requires;
  sem_block_t *body;
};

/* A global dim.  `value` is -1 while unknown. */
typedef struct sem_global_dim {
  const char *name;
  const ix_symbol_t *symbol;
  bool is_dynamic;
  int64_t value;            /* static */
  const ix_poly_t *bound;   /* dynamic: largest value, a number at compile  */
  const char *config_key;   /* where the value came from, or NULL           */
  td_loc_t loc;
} sem_global_dim_t;

struct sem_program {
  ix_pool_t *pool;
  uint32_t dim_count;
  sem_global_dim_t *dims;
  uint32_t require_count;
  sem_require_t *requires;  /* file level, dynamic ones                    */
  uint32_t func_count;
  sem_func_t **funcs;       /* all instances, callees before callers        */
  bool has_mesh;
  uint32_t axis_count;
  const char **axis_names;
  int64_t *axis_sizes;      /* -1: without value */
};

/* Value of a config key; false: no such number.  Bools give 0 and 1. */
typedef bool (*sem_config_fn)(void *user, const char *key, bool *out_is_int,
                              int64_t *out_int, double *out_float);
/* Source text of module NAME imported from file FROM; the callee registers
 * it with td_sources_add and returns the file id, or 0. */
typedef uint32_t (*sem_import_fn)(void *user, td_task_t *task,
                                  uint32_t from_file, const char *name);

typedef struct sem_dim_value {
  const char *name; /* a global dim, or a generic of the requested entry */
  int64_t value;    /* dynamic dims become static by it                  */
} sem_dim_value_t;

typedef struct sem_options {
  sem_config_fn config;   /* NULL: config("k") without default has no value */
  sem_import_fn import;
  void *user;
  uint32_t dim_count;
  const sem_dim_value_t *dims;     /* --dim */
  bool mesh_none;                  /* all axes 1 */
  uint32_t axis_count;
  const sem_dim_value_t *axes;     /* --mesh dp=2 */
  bool need_values;  /* compiling: static dims without value are E56,
                        config keys without value E39                      */
  /* Function to instantiate as entry although it is not exported or has
   * generics (NULL: exported ones only).  dtype generics are bound by
   * parameter: arg_dtypes[i] is the dtype of argument i (UNSET: unknown),
   * arg_ranks[i] its rank (pack generics); dim generics without a value in
   * `dims` become dynamic dims bound at entry. */
  const char *entry;
  uint32_t arg_count;
  const tdsl_dtype_t *arg_dtypes;
  const int32_t *arg_ranks;
} sem_options_t;

/* Checks FILE and what it imports.  Diagnostics go to the task; the program
 * is returned even with errors (then only good for inspection); lowering
 * asks td_task_errors first. */
sem_program_t *sem_check(td_task_t *task, td_arena_t *arena, uint32_t file,
                         const sem_options_t *options);

/* Instance that serves as entry point NAME, or NULL. */
const sem_func_t *sem_find_entry(const sem_program_t *program,
                                 const char *name);

/* Arithmetic type of a storage type: F32 for narrow floats, F64, I32 for
 * I8, U8, I32; I64; BOOL. */
tdsl_dtype_t sem_arithmetic(tdsl_dtype_t dtype);

/* As a program writes it: "sum". */
const char *sem_reduce_text(sem_reduce_t op);
/* Deterministic text of the tree, for tests and `dump`. */
void sem_print(td_buf_t *out, const sem_program_t *program);

#endif
