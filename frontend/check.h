/* check.h: what the files of the checker share; nobody else includes it.
 *
 *   check.c       the order of work, the program at the end
 *   report.c      diagnostics and the text that they show
 *   module.c      files, imports, tables of declarations
 *   names.c       scopes, unknown and hidden names
 *   dims.c        dims, consts, config, mesh axes, file-level requires
 *   consts.c      arithmetic of constants
 *   types.c       types of the text
 *   structs.c     structs with their generics put in
 *   shapes.c      equality and text of types, for checks and messages
 *   instances.c   functions for given dtypes and pack lengths, their heads
 *   body.c        bodies of functions; facts out of the finished tree
 *   exprs.c       expressions: dispatch, names, literals, if, left chains
 *   arith.c       operators, whole values
 *   convert.c     choices, stores, parameters
 *   subscripts.c  fields and subscripts
 *   bounds.c      proofs of subscripts, guards, ranges of integers
 *   ranges.c      where an index takes its range from
 *   reductions.c  reductions
 *   builtins.c    functions of the language
 *   calls.c       calls of functions of the text; binding.c their generics
 *   stmts.c       statements; define.c definitions; updates.c updates;
 *                 loops.c for and each
 *   layouts.c     layout marks and attributes
 *   grads.c       what may lie between a value and a derivative
 *
 * Failure.  Whoever finds a fault reports it and returns NULL (or false).
 * Who gets NULL from below returns NULL in silence, so a fault is reported
 * once.  A name whose definition failed is in scope without a type and makes
 * whatever reads it fail in silence too.
 *
 * Quiet.  While `quiet` is positive nothing is reported and nothing proved:
 * ranges of indices are found by typing bases before the indices have any.
 *
 * Polys are formed with the facts in force applied (b * (a/b) for a); the
 * tree handed out has them restored (body.c). */
#ifndef TDSL_FRONTEND_CHECK_H
#define TDSL_FRONTEND_CHECK_H

#include "frontend/parse.h"
#include "frontend/sem.h"
#include "runtime/base/map.h"
#include "runtime/base/num.h"
#include "runtime/base/vec.h"

typedef struct sem_ctx sem_ctx_t;
typedef struct sem_module sem_module_t;
typedef struct sem_instance sem_instance_t;

/* ---- constants (consts.c) ------------------------------------------------ */

typedef struct sem_number {
  enum {
    SEM_NUMBER_NONE,
    SEM_NUMBER_INT,
    SEM_NUMBER_FLOAT,
    SEM_NUMBER_BOOL,
    SEM_NUMBER_UNKNOWN /* of a config key that nobody has given yet */
  } kind;
  int64_t i; /* INT, BOOL */
  double f;  /* FLOAT */
} sem_number_t;

/* ---- declarations (module.c, dims.c) ------------------------------------- */

typedef enum sem_state { SEM_NEW, SEM_BUSY, SEM_DONE } sem_state_t;

/* A dim, dyn or const of a file. */
typedef struct sem_global {
  enum { SEM_GLOBAL_DIM, SEM_GLOBAL_DYN, SEM_GLOBAL_CONST } kind;
  const char *name;
  td_loc_t loc;
  const ast_item_t *item;
  sem_module_t *module;
  sem_state_t state;
  bool failed;            /* reported; readers stay silent */
  bool is_used;           /* some text mentions it */
  sem_number_t number;    /* NONE: a dim that stays a symbol */
  const ix_poly_t *poly;  /* dims, integer consts: value before facts */
  ix_symbol_t *symbol;    /* dims without a number */
  const ix_poly_t *bound; /* DYN */
  const char *config_key; /* where the value came from */
  uint32_t use;           /* number of a dynamic dim, for sem_instance.uses */
} sem_global_t;

typedef struct sem_fn {
  const char *name;
  const ast_decl_t *decl;
  sem_module_t *module;
  bool has_packs, has_dtypes, failed;
  TD_VEC(sem_instance_t *) instances;
} sem_fn_t;

typedef struct sem_record {
  const char *name;
  const ast_decl_t *decl;
  sem_module_t *module;
  sem_state_t state;
  bool failed;
} sem_record_t;

typedef struct sem_axis {
  const char *name;
  td_loc_t loc;
  int64_t size; /* -1: no value */
} sem_axis_t;

struct sem_module {
  const char *name;
  uint32_t file;
  const ast_file_t *ast;
  sem_state_t state;
  td_map_t values;  /* name -> sem_global_t, imported ones too */
  td_map_t fns;     /* name -> sem_fn_t */
  td_map_t records; /* name -> sem_record_t */
  td_map_t axes;    /* name -> sem_axis_t */
  td_map_t places;  /* name -> td_loc_t of the declaration or import here */
  td_loc_t import_loc; /* of the import being followed, for cycles */
  sem_module_t *importer;
  uint32_t depth;      /* of imports */
  bool is_incomplete;  /* an import failed: any name may come from there */
};

/* ---- names in a function (names.c) --------------------------------------- */

typedef enum sem_entry_kind {
  SEM_ENTRY_GENERIC, /* dim generic: poly */
  SEM_ENTRY_DTYPE,   /* dtype generic: dtype */
  SEM_ENTRY_PACK,    /* count dims in polys */
  SEM_ENTRY_SYMBOL,
  SEM_ENTRY_INDEX,
  SEM_ENTRY_FAILED,  /* its declaration was reported */
} sem_entry_kind_t;

typedef struct sem_entry {
  sem_entry_kind_t kind;
  const char *name;
  td_loc_t loc;
  const ix_poly_t *poly;
  const ix_symbol_t *generic;
  tdsl_dtype_t dtype;
  uint32_t count;
  const ix_poly_t **polys;
  sem_symbol_t *symbol;
  sem_index_t *index;
  bool is_used;    /* read */
  bool is_pending; /* a result before its definition */
  bool is_exempt;  /* no W02: one of several left sides, a place of `each` */
} sem_entry_t;

/* A datum: an integer read from memory that stands for itself in polys. */
typedef struct sem_datum {
  const ix_symbol_t *symbol;
  const ix_poly_t **subs;
  uint32_t sub_count;
} sem_datum_t;

/* ---- functions (instances.c) --------------------------------------------- */

typedef struct sem_edge {
  sem_instance_t *callee;
  td_loc_t loc;
} sem_edge_t;

struct sem_instance {
  sem_func_t func; /* first: what the program shows */
  sem_fn_t *fn;
  const char *key;
  td_map_t generics;     /* name -> sem_entry_t */
  sem_type_t *params;    /* as declared, without facts, over the generics */
  sem_type_t *results;
  /* Integer scalar parameters as requires mean them; an inout changes and
   * has another value in the body. */
  const ix_symbol_t **head_values;
  TD_VEC(sem_require_t) conditions; /* all requires, for calls (E07) */
  TD_VEC(sem_edge_t) edges;
  TD_VEC(uint8_t) uses;  /* of dynamic dims, by sem_global.use */
  bool failed;           /* its head could not be read */
  bool is_default;       /* generics chosen by us: dtype faults stay silent */
  bool has_element_update, has_own_grad;
  bool stops_grad;       /* an update or grad inside, also of callees */
  sem_state_t state;     /* of the sort by calls */
  uint32_t next_id;      /* symbols and indices */
};

/* A reduction of the current statement that has ended, for E02. */
typedef struct sem_ended {
  const char *name;
  td_loc_t loc;
} sem_ended_t;

/* ---- the check ----------------------------------------------------------- */

struct sem_ctx {
  td_task_t *task;
  td_arena_t *arena;
  const sem_options_t *options;
  ix_pool_t *pool;
  ix_facts_t *facts;      /* in force where we are */
  ix_facts_t *base_facts; /* those of files alone, for heads of functions */
  sem_program_t *program;
  sem_module_t *main;
  TD_VEC(sem_module_t *) modules;
  TD_VEC(sem_global_t *) dyns;      /* by use number */
  TD_VEC(sem_global_t *) globals;   /* all, in order of declaration */
  TD_VEC(sem_instance_t *) queue;   /* instances, in order of creation */
  TD_VEC(sem_instance_t *) sorted;  /* callees before callers */
  sem_instance_t *entry;            /* the requested one, unless exported */
  td_map_t structs;                 /* mention -> sem_struct_t */
  TD_VEC(sem_struct_t *) all_structs;
  TD_VEC(sem_require_t) requires;   /* of files, dynamic ones */
  TD_VEC(const sem_expr_t *) base_requires; /* of files, all that are open */
  bool is_inconsistent;             /* a require of a file is false */
  bool is_too_deep;                 /* a chain of dims was reported */
  uint32_t struct_depth, global_depth;
  sem_global_t *global;             /* whose value is being read */
  /* of the function being checked */
  sem_instance_t *inst;
  sem_module_t *module;
  td_map_t scope;                   /* number of a name -> sem_entry_t */
  TD_VEC(sem_entry_t *) stack;
  TD_VEC(sem_expr_t *) exprs;       /* made for it, for body.c */
  TD_VEC(sem_symbol_t *) symbols;
  TD_VEC(sem_index_t *) indices;
  TD_VEC(const ix_poly_t **) extents; /* other polys of the tree */
  uint32_t loop_depth;              /* for and each around the statement */
  uint32_t block_depth;
  bool type_scope;                  /* reading a dim of a type */
  /* of the statement being checked */
  td_map_t data;                    /* place and subscripts -> sem_datum_t */
  td_map_t datum_of;                /* symbol -> sem_datum_t */
  td_map_t widths;                  /* symbol -> bits, if fewer than 64 */
  TD_VEC(sem_ended_t) ended;
  const ast_stmt_t *stmt;
  const ast_expr_t *allowed_call;   /* may have inout arguments */
  const ast_expr_t *allowed_many;   /* may have several results */
  uint32_t many_count;              /* left sides waiting for them */
  TD_VEC(const ast_expr_t *) formula; /* roots being checked, for E02 */
  uint32_t quiet;
  uint32_t unproved;                /* positive: subscripts are not proved */
  const ast_expr_t *place_base;     /* left side whose reads are no reads */
  /* of messages */
  td_diag_t dummy;
  uint32_t lines_file;              /* whose lines these are */
  TD_VEC(const char *) lines;
};

/* ---- check.c, report.c --------------------------------------------------- */

/* Adds a diagnostic, or none while quiet; the record is then a dummy. */
td_diag_t *sem_report(sem_ctx_t *c, td_diag_id_t id, td_loc_t loc,
                      const char *format, ...) TD_PRINTF(4, 5);
/* Text of an expression or place, for messages; a long one is cut. */
const char *sem_text(sem_ctx_t *c, const ast_expr_t *e);
const char *sem_slice(sem_ctx_t *c, td_loc_t loc);
/* A line number as text: "line 4", "line 4 of nn.tdsl". */
const char *sem_line(sem_ctx_t *c, td_loc_t loc);

/* ---- module.c ------------------------------------------------------------ */

sem_module_t *sem_load(sem_ctx_t *c, uint32_t file, const char *name,
                       sem_module_t *importer, td_loc_t loc);

/* ---- names.c ------------------------------------------------------------- */

sem_entry_t *sem_lookup(const sem_ctx_t *c, const char *name);
sem_global_t *sem_lookup_global(const sem_ctx_t *c, const char *name);
/* Puts a name in scope; reports E05 or E10 and returns NULL if it is taken.
 * is_definition: a left side or parameter, where a second one is E10. */
sem_entry_t *sem_declare(sem_ctx_t *c, sem_entry_kind_t kind, ast_name_t name,
                         bool is_definition);
size_t sem_scope_mark(const sem_ctx_t *c);
/* Ends names; reports W02 for locals that nobody read. */
void sem_scope_release(sem_ctx_t *c, size_t mark);
/* E01 or E02 for a value. */
void sem_unknown_value(sem_ctx_t *c, const ast_expr_t *e);
/* E01 for others: nearest name among the keys of two maps (may be NULL) and
 * a list ending in NULL (may be NULL). */
td_diag_t *sem_unknown(sem_ctx_t *c, ast_name_t name, const char *what,
                       const td_map_t *a, const td_map_t *b,
                       const char *const *list);
sem_symbol_t *sem_new_symbol(sem_ctx_t *c, sem_symbol_kind_t kind,
                             const char *name, td_loc_t loc);
sem_index_t *sem_new_index(sem_ctx_t *c, const char *name, td_loc_t loc);
/* Is it the value of a scalar name, the same for all tuples? */
bool sem_is_name_value(const sem_ctx_t *c, const ix_symbol_t *s);

/* ---- dims.c -------------------------------------------------------------- */

/* Finds the value of a dim or const; false if that failed (reported). */
bool sem_resolve_global(sem_ctx_t *c, sem_global_t *g);
void sem_resolve_module(sem_ctx_t *c, sem_module_t *m);
/* E56 and E39 for what compiling needs. */
void sem_require_values(sem_ctx_t *c);
/* The value of a dim or const as an expression. */
sem_expr_t *sem_global_expr(sem_ctx_t *c, sem_global_t *g, td_loc_t loc);
/* A CONST or DIM for a poly of dims, with the facts applied. */
sem_expr_t *sem_dim_value(sem_ctx_t *c, const ix_poly_t *poly, td_loc_t loc);
/* config("key", default). */
sem_expr_t *sem_config(sem_ctx_t *c, const ast_expr_t *e);

/* ---- facts.c ------------------------------------------------------------- */

void sem_module_requires(sem_ctx_t *c, sem_module_t *m);
/* A `require` of a file or function: checks the operands (E54), decides it
 * (E36), puts it in force and appends it to *out unless it is decided. */
void sem_require_expr(sem_ctx_t *c, const ast_expr_t *e,
                      sem_instance_t *inst);
/* "A = 4, B = 5" for the names of an expression that have values. */
const char *sem_values_text(sem_ctx_t *c, const ast_expr_t *e);
/* A condition that is known to hold, as by `require`. */
void sem_assume_require(sem_ctx_t *c, const sem_expr_t *cond);
/* Static dims that are polys of others are at least 1. */
void sem_assume_sizes(sem_ctx_t *c);
/* Can the condition be proved, with symbols replaced by `map` (may be NULL)?
 * 1 proved, 0 unknown, -1 disproved. */
int sem_prove(sem_ctx_t *c, const sem_expr_t *cond, ix_subst_fn map,
              void *user);

/* ---- consts.c ------------------------------------------------------------ */

/* op on numbers; false after reporting E45, E37, E46 at loc. */
bool sem_fold_binary(sem_ctx_t *c, sem_op_t op, sem_number_t a,
                     sem_number_t b, td_loc_t loc, sem_number_t *out);
bool sem_fold_unary(sem_ctx_t *c, sem_op_t op, sem_number_t a, td_loc_t loc,
                    sem_number_t *out);
sem_number_t sem_number_of(const sem_expr_t *e);
sem_expr_t *sem_number_expr(sem_ctx_t *c, sem_number_t n, td_loc_t loc);
const char *sem_number_text(sem_ctx_t *c, sem_number_t n);

/* ---- types.c ------------------------------------------------------------- */

/* Type of the text in the scope of the current module and generics.  False
 * after a report. */
bool sem_read_type(sem_ctx_t *c, const ast_type_t *t, sem_type_t *out);
/* A mention of a struct as type; false after a report. */
bool sem_read_record(sem_ctx_t *c, const ast_type_t *t, sem_record_t *record,
                     sem_type_t *out);
/* Reads a struct with symbols for its generics, unless it was read before. */
void sem_check_record(sem_ctx_t *c, sem_record_t *record);
/* Integer expression over dims and consts (E45, E49); NULL after a report.
 * what: "dim" or "range of i". */
const ix_poly_t *sem_dim_expr(sem_ctx_t *c, const ast_expr_t *e,
                              const char *what);
bool sem_read_range(sem_ctx_t *c, const ast_range_t *r, const char *what,
                    const ix_poly_t **out_lo, const ix_poly_t **out_hi);
/* The struct with float leaves of another dtype. */
const sem_struct_t *sem_struct_as(sem_ctx_t *c, const sem_struct_t *s,
                                  tdsl_dtype_t dtype);
/* The struct of a derivative: float leaves in their arithmetic type. */
const sem_struct_t *sem_struct_gradient(sem_ctx_t *c, const sem_struct_t *s);
/* The dims of every field through a map. */
const sem_struct_t *sem_struct_subst(sem_ctx_t *c, const sem_struct_t *s,
                                     ix_subst_fn map, void *user);
void sem_type_subst(sem_ctx_t *c, sem_type_t *type, ix_subst_fn map,
                    void *user);
/* Applies the facts in force. */
void sem_type_apply(sem_ctx_t *c, sem_type_t *type);
/* Calls fn for the dims of all leaves. */
typedef void (*sem_dim_fn)(sem_ctx_t *c, void *user, const sem_dim_t *dim);
void sem_each_dim(sem_ctx_t *c, const sem_type_t *type, sem_dim_fn fn,
                  void *user);
sem_type_t sem_scalar(tdsl_dtype_t dtype);
/* A dim that a definition would create: E53, L01; L02, L03 of the type. */
bool sem_check_created(sem_ctx_t *c, const sem_type_t *type, td_loc_t loc,
                       const char *name);
bool sem_check_dim(sem_ctx_t *c, const sem_dim_t *dim, td_loc_t loc);
/* L02 alone, for what a parameter holds. */
bool sem_check_sizes(sem_ctx_t *c, const sem_type_t *type, td_loc_t loc,
                     const char *name);
/* Leaf or field as seen through the stack dims of its struct. */
sem_type_t sem_field_type(sem_ctx_t *c, const sem_type_t *base,
                          uint32_t field);

/* ---- shapes.c ------------------------------------------------------------ */

bool sem_same_dim(sem_ctx_t *c, const ix_poly_t *a, const ix_poly_t *b);
/* Index of the first dim that differs, rank if none does, -1: ranks. */
int sem_differing_dim(sem_ctx_t *c, const sem_type_t *a, const sem_type_t *b);
bool sem_same_structure(sem_ctx_t *c, const sem_struct_t *a,
                        const sem_struct_t *b, const char **out_where);
const char *sem_dim_text(sem_ctx_t *c, const sem_dim_t *dim);
/* A poly as the user would write it, and with what is known of its value:
 * "T (dyn, <= 8192)", "H*K = 4096". */
const char *sem_poly_text(sem_ctx_t *c, const ix_poly_t *p);
const char *sem_value_text(sem_ctx_t *c, const sem_dim_t *dim);
/* Some value of the dims makes them equal, as far as one sees. */
bool sem_may_be_equal(sem_ctx_t *c, const ix_poly_t *a, const ix_poly_t *b);
/* p >= 0 as an inequality that one may write: "N >= 1". */
const char *sem_inequality_text(sem_ctx_t *c, const ix_poly_t *p);
/* "[N, K]", "[N, K] = [3, 4]"; "a scalar" for rank 0. */
const char *sem_shape_text(sem_ctx_t *c, const sem_type_t *type);
/* "f32[N, K]", "[L] Block". */
const char *sem_type_text(sem_ctx_t *c, const sem_type_t *type);
/* E06: labels both sides, says which dim differs and what may cure it. */
void sem_report_dims(sem_ctx_t *c, td_loc_t loc, const char *where,
                     const sem_type_t *a, td_loc_t a_loc, const char *a_name,
                     const sem_type_t *b, td_loc_t b_loc, const char *b_name);

/* ---- instances.c --------------------------------------------------------- */

/* The instance for these dtypes (one for each dtype generic, in order) and
 * pack length; made and queued if new.  NULL if its head is wrong. */
sem_instance_t *sem_instantiate(sem_ctx_t *c, sem_fn_t *fn,
                                const tdsl_dtype_t *dtypes, uint32_t pack,
                                bool is_entry);
void sem_check_body(sem_ctx_t *c, sem_instance_t *inst);
/* Does an equality put something else for the dynamic dim? */
bool sem_is_replaced(sem_ctx_t *c, const sem_global_t *g,
                     const ix_facts_t *facts);
/* Puts requires into the function, or the program if func is NULL, in the
 * form in which an entry point can check them. */
void sem_settle_requires(sem_ctx_t *c, uint32_t count,
                         const sem_require_t *from, sem_func_t *func);
void sem_use_global(sem_ctx_t *c, const sem_global_t *g);

/* ---- exprs.c ------------------------------------------------------------- */

sem_expr_t *sem_new_expr(sem_ctx_t *c, sem_expr_kind_t kind, td_loc_t loc);
/* Types an expression; NULL after a report. */
sem_expr_t *sem_check_expr(sem_ctx_t *c, const ast_expr_t *e);
/* The same for the root of a formula, so that E02 can look around. */
sem_expr_t *sem_check_formula(sem_ctx_t *c, const ast_expr_t *e);
/* One bool, one integer, one number (E46, E18, E38). */
sem_expr_t *sem_check_cond(sem_ctx_t *c, const ast_expr_t *e);
sem_expr_t *sem_check_int(sem_ctx_t *c, const ast_expr_t *e);
sem_expr_t *sem_name_expr(sem_ctx_t *c, sem_symbol_t *symbol, td_loc_t loc);
sem_expr_t *sem_index_expr(sem_ctx_t *c, sem_index_t *index, td_loc_t loc);

/* ---- arith.c ------------------------------------------------------------- */

bool sem_is_float(const sem_expr_t *e);
bool sem_is_int(const sem_expr_t *e);
bool sem_is_bool(const sem_expr_t *e);
bool sem_is_tensor(const sem_expr_t *e); /* rank > 0 */
bool sem_is_struct(const sem_expr_t *e);
bool sem_is_number_const(const sem_expr_t *e); /* exact CONST */
sem_expr_t *sem_binary(sem_ctx_t *c, sem_op_t op, sem_expr_t *a,
                       sem_expr_t *b, td_loc_t loc, td_loc_t op_loc);
sem_expr_t *sem_unary(sem_ctx_t *c, sem_op_t op, sem_expr_t *a,
                      td_loc_t loc, const char *what);
sem_expr_t *sem_select(sem_ctx_t *c, sem_expr_t *cond, sem_expr_t *a,
                       sem_expr_t *b, td_loc_t loc);
/* max(a, b), min(a, b). */
sem_expr_t *sem_choice(sem_ctx_t *c, sem_op_t op, sem_expr_t *a,
                       sem_expr_t *b, td_loc_t loc);
/* A value as operand of arithmetic type dtype: constants take it on. */
sem_expr_t *sem_adopt(sem_ctx_t *c, sem_expr_t *e, tdsl_dtype_t dtype);
/* An expression on its own: exact floats are f32, exact integers i64. */
sem_expr_t *sem_settle(sem_ctx_t *c, sem_expr_t *e);
/* A value for a place of a written dtype: E12, E18, E46; stores round.
 * name: what is stored into, for messages. */
sem_expr_t *sem_for_store(sem_ctx_t *c, sem_expr_t *e,
                          const sem_type_t *place, const char *name);
/* A value for a parameter: exact, or E12, E18, E46, E42. */
sem_expr_t *sem_for_param(sem_ctx_t *c, sem_expr_t *e,
                          const sem_type_t *param, const char *name);
/* May a value of the first dtype be passed as the second? */
bool sem_dtype_passes(tdsl_dtype_t from, tdsl_dtype_t to, bool is_inout);
/* E06 unless the dims are equal or one is a scalar. */
bool sem_dims_agree(sem_ctx_t *c, sem_expr_t *a, sem_expr_t *b, td_loc_t loc,
                    const char *what);
/* A DATA symbol holds values of this dtype only. */
void sem_set_width(sem_ctx_t *c, const ix_symbol_t *s, tdsl_dtype_t dtype);
/* New integer value of a known range (either end may be NULL). */
const ix_poly_t *sem_opaque(sem_ctx_t *c, const char *name, td_loc_t loc,
                            const ix_poly_t *lo, const ix_poly_t *hi);
/* Value of an element of an integer expression, for ranges. */
const ix_poly_t *sem_element_poly(sem_ctx_t *c, const sem_expr_t *e);

/* ---- subscripts.c -------------------------------------------------------- */

sem_expr_t *sem_field(sem_ctx_t *c, sem_expr_t *base, const ast_expr_t *e);
sem_expr_t *sem_subscript(sem_ctx_t *c, sem_expr_t *base,
                          const ast_expr_t *e);
/* One subscript that is an expression: integer, E18, E46. */
sem_expr_t *sem_check_subscript(sem_ctx_t *c, const ast_expr_t *e);
/* NAME, FIELD and SUBSCRIPT down to a NAME; NULL otherwise. */
const sem_expr_t *sem_root(const sem_expr_t *place);

/* ---- bounds.c ------------------------------------------------------------ */

/* Proves 0 <= sub < dim or reports E08, E09. */
bool sem_prove_subscript(sem_ctx_t *c, const sem_expr_t *sub,
                         const sem_dim_t *dim, const ast_expr_t *base,
                         const ast_expr_t *ast);
/* A guard holds (or its negation) until the facts are released.  False if it
 * never can: what it guards is never evaluated and needs no proofs. */
bool sem_assume(sem_ctx_t *c, const sem_expr_t *cond, bool truth);
bool sem_nonneg(sem_ctx_t *c, const ix_poly_t *p);
bool sem_positive(sem_ctx_t *c, const ix_poly_t *p);
/* lo <= p < hi free of what varies; NULL ends are unknown. */
void sem_ends(sem_ctx_t *c, const ix_poly_t *p, const ix_poly_t **out_lo,
              const ix_poly_t **out_hi);
/* p lies in lo .. hi. */
bool sem_in_range(sem_ctx_t *c, const ix_poly_t *p, const ix_poly_t *lo,
                  const ix_poly_t *hi);
/* The datum that an integer element read is. */
const ix_poly_t *sem_datum(sem_ctx_t *c, const sem_expr_t *read);

/* ---- ranges.c ------------------------------------------------------------ */

/* An index whose range is sought. */
typedef struct sem_seek {
  sem_index_t *index;
  const ast_range_t *range;   /* written, or NULL */
  const sem_dim_t *declared;  /* of the left side, or NULL */
  sem_dim_t dim;              /* found: extent as a dim of a new tensor */
  td_loc_t from;              /* what it was found from */
  const char *from_text;
  const ast_expr_t *guarded;  /* an access with | where it stands alone */
  size_t guarded_at;
  bool base_failed;           /* a base has no type: not E03 */
  bool failed;
} sem_seek_t;

/* Gives every index its range from the formulas; those that fail are marked
 * and reported (E03, E04, E45, E49). left: a left range starts at 0. */
void sem_find_ranges(sem_ctx_t *c, sem_seek_t *seeks, size_t count,
                     const ast_expr_t *const *formulas, size_t formula_count,
                     bool is_left);
/* The ranges hold an element inside a formula; false if they cannot. */
bool sem_assume_nonempty(sem_ctx_t *c, const sem_index_t *index);

/* ---- reductions.c -------------------------------------------------------- */

sem_expr_t *sem_reduction(sem_ctx_t *c, const ast_expr_t *e);
sem_expr_t *sem_reduction_call(sem_ctx_t *c, const ast_expr_t *e);

/* ---- builtins.c, calls.c, binding.c -------------------------------------- */

sem_expr_t *sem_call(sem_ctx_t *c, const ast_expr_t *e);
sem_expr_t *sem_cast(sem_ctx_t *c, const ast_expr_t *e);
bool sem_is_builtin(const char *name);
sem_expr_t *sem_builtin(sem_ctx_t *c, const ast_expr_t *e, const char *name);
extern const char *const sem_builtin_names[];
sem_expr_t *sem_call_fn(sem_ctx_t *c, const ast_expr_t *e, sem_fn_t *fn);
/* Types of the results of a CALL or TOPK. */
uint32_t sem_result_count(const sem_expr_t *call);
sem_type_t sem_result_type(sem_ctx_t *c, const sem_expr_t *call, uint32_t i);

/* What generics stand for while a call is matched. */
typedef struct sem_matching {
  sem_instance_t *callee;
  uint32_t count;
  const ix_symbol_t **generics;
  const ix_poly_t **values; /* NULL: not bound yet */
  td_loc_t *locs;           /* argument that bound it */
  const char **by;          /* its dim in the argument */
  /* scalar integer parameters, for requires */
  uint32_t scalar_count;
  const ix_symbol_t **scalars;
  const ix_poly_t **scalar_values;
} sem_matching_t;

const ix_poly_t *sem_matching_map(void *user, const ix_symbol_t *s);
/* Binds generics from argument types and compares all dims (E06, E16, E47).
 * args[i] NULL: no such argument or failed. */
bool sem_match_args(sem_ctx_t *c, sem_matching_t *m,
                    sem_expr_t *const *args, td_loc_t call_loc);

/* ---- stmts.c, define.c, updates.c ---------------------------------------- */

sem_block_t *sem_check_block(sem_ctx_t *c, const ast_block_t *b);
sem_stmt_t *sem_new_stmt(sem_ctx_t *c, sem_stmt_kind_t kind, td_loc_t loc);
sem_stmt_t *sem_check_define(sem_ctx_t *c, const ast_stmt_t *s);
/* A value for a whole place (not its elements): dims, dtype, structure; fills:
 * a constant may fill all of it (E06, E38, E55 and those of a store). */
sem_expr_t *sem_whole_value(sem_ctx_t *c, sem_expr_t *e,
                            const sem_type_t *place, const char *name,
                            td_loc_t loc, bool fills);
sem_stmt_t *sem_check_update(sem_ctx_t *c, const ast_stmt_t *s);
sem_stmt_t *sem_check_for(sem_ctx_t *c, const ast_stmt_t *s);
sem_stmt_t *sem_check_each(sem_ctx_t *c, const ast_stmt_t *s);
/* May the place be updated?  E19 if not. */
bool sem_check_updatable(sem_ctx_t *c, const sem_expr_t *place, td_loc_t loc);
/* Overlap of two places of one function. */
bool sem_places_overlap(sem_ctx_t *c, const sem_expr_t *a,
                        const sem_expr_t *b);

/* ---- layouts.c, grads.c, body.c ------------------------------------------ */

void sem_check_marks(sem_ctx_t *c, const ast_type_t *t,
                     const sem_type_t *type);
void sem_check_left_marks(sem_ctx_t *c, const ast_expr_t *left,
                          const sem_type_t *type);
void sem_check_attributes(sem_ctx_t *c, sem_instance_t *inst);
void sem_loop_attributes(sem_ctx_t *c, const ast_stmt_t *s);
void sem_mesh(sem_ctx_t *c, sem_module_t *m);

/* After all bodies: what lies between the value and the loss of every GRAD of
 * a function (E33). */
void sem_check_grads(sem_ctx_t *c, sem_instance_t *inst);

/* Restores facts in all that was made for the current function. */
void sem_finish_function(sem_ctx_t *c);
/* The same in the expressions made since there were `first`. */
void sem_restore_exprs(sem_ctx_t *c, size_t first);
void sem_restore_type(sem_ctx_t *c, sem_type_t *type);

#endif
