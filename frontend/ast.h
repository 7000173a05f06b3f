/* ast.h: the syntax tree of a .tdsl file, as text says it.
 *
 * The parser makes it; the checker and lowering read it; `dump ast` prints
 * it.  Nothing here is resolved: a name is text, a left side is any
 * expression the grammar allows there, marks are kept as written.
 *
 * Lifetime: every node lives in the arena given to ast_parse and is dropped
 * with it.  Names are interned in the task, so two names of one task are
 * equal iff their pointers are.  A pointer that may be NULL says so; a list
 * that is empty has count 0 and any pointer.
 *
 * Location: `loc` of every node runs from its first token to the end of its
 * last one.  Parentheses around an expression are not part of its loc.
 *
 * Depth: the left operand of a binary operator (not of `^`) and the base of
 * a field, call or subscript are not nesting, so a chain of a million terms
 * is legal and goes down kids[0].  Everything else counts, and the parser
 * reports L04 where it would pass AST_MAX_DEPTH.  So a walk that recurses
 * into all kids except the one ast_left() names, and loops over that one,
 * never recurses deeper than AST_MAX_DEPTH.  ast_spine() does the loop. */
#ifndef TDSL_FRONTEND_AST_H
#define TDSL_FRONTEND_AST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/arena.h"
#include "runtime/base/diag.h"
#include "runtime/base/status.h"
#include "runtime/base/str.h"
#include <tdsl/base.h>

enum { AST_MAX_DEPTH = 255 };

typedef enum ast_expr_kind {
#define AST_EXPR_ROW(NAME, word, sentence) AST_##NAME,
#include "frontend/ast.def"
} ast_expr_kind_t;

typedef enum ast_stmt_kind {
#define AST_STMT_ROW(NAME, word, sentence) AST_STMT_##NAME,
#include "frontend/ast.def"
} ast_stmt_kind_t;

typedef enum ast_decl_kind {
#define AST_DECL_ROW(NAME, word, sentence) AST_DECL_##NAME,
#include "frontend/ast.def"
} ast_decl_kind_t;

typedef enum ast_op {
#define AST_OP_ROW(NAME, text, sentence) AST_OP_##NAME,
#include "frontend/ast.def"
} ast_op_t;

typedef enum ast_reduce {
#define AST_REDUCE_ROW(NAME, text, sentence) AST_REDUCE_##NAME,
#include "frontend/ast.def"
} ast_reduce_t;

typedef struct ast_expr ast_expr_t;
typedef struct ast_stmt ast_stmt_t;

/* A name where it is written. */
typedef struct ast_name {
  const char *text; /* interned */
  td_loc_t loc;
} ast_name_t;

/* `hi` (from 0) or `lo .. hi`, in types, binders, subscripts and for. */
typedef struct ast_range {
  td_loc_t loc;
  ast_expr_t *lo; /* NULL: the range starts at 0 */
  ast_expr_t *hi; /* first value behind the range */
} ast_range_t;

/* A layout mark behind `@`: dp, (dp, tp), zigzag(cp). */
typedef struct ast_shard {
  td_loc_t loc; /* without the @ */
  enum ast_shard_form {
    AST_SHARD_AXIS,  /* @dp, @none, @ring: axes[0], fn unset    */
    AST_SHARD_AXES,  /* @(dp, tp): axes, major first            */
    AST_SHARD_LAYOUT /* @zigzag(cp): fn and its axes            */
  } form;
  ast_name_t fn; /* text NULL unless AST_SHARD_LAYOUT */
  ast_name_t *axes;
  size_t axis_count;
} ast_shard_t;

/* One element between the brackets of a subscript. */
typedef struct ast_sub {
  td_loc_t loc;
  enum {
    AST_SUB_EXPR, /* e: a lone new index on a left side is AST_NAME */
    AST_SUB_ALL,  /* :                                               */
    AST_SUB_INDEX /* i in range, i@shard, i in range @shard          */
  } form;
  ast_expr_t *expr;   /* AST_SUB_EXPR */
  ast_name_t name;    /* AST_SUB_INDEX */
  ast_range_t *range; /* AST_SUB_INDEX, may be NULL */
  ast_shard_t *shard; /* AST_SUB_INDEX, may be NULL */
} ast_sub_t;

/* One index of a reduction. */
typedef struct ast_binder {
  ast_name_t name;
  td_loc_t loc;
  ast_range_t *range; /* may be NULL */
} ast_binder_t;

/* One argument of a call or attribute: e, name = e, or a bare dtype. */
typedef struct ast_arg {
  td_loc_t loc;
  ast_name_t name;        /* text NULL if positional */
  ast_expr_t *value;      /* NULL if a bare dtype */
  tdsl_dtype_t dtype;     /* of a bare dtype; UNSET for tf32 */
  const char *dtype_text; /* "f32", "tf32"; NULL unless a bare dtype */
} ast_arg_t;

/* An expression.  Which fields are set is said beside each. */
struct ast_expr {
  ast_expr_kind_t kind;
  uint16_t depth; /* nesting below this node, see the top of the file */
  bool in_parens; /* written ( ... ) */
  td_loc_t loc;
  td_loc_t op_loc;     /* UNARY, BINARY, REDUCE, REDCALL, CAST: the operator;
                          IF: `if`; FIELD: the field name;
                          CALL, SUBSCRIPT: ( ) or [ ] with what is inside */
  ast_op_t op;         /* UNARY, BINARY */
  ast_reduce_t reduce; /* REDUCE, REDCALL */
  const char *text;    /* NAME, FIELD: the name, interned;
                          INT, FLOAT: as written; STRING: without quotes;
                          CAST: the dtype as written, interned ("tf32") */
  int64_t i64;         /* INT; BOOL: 0 or 1 */
  double f64;          /* INT (rounded), FLOAT, INF */
  tdsl_dtype_t dtype;  /* CAST; UNSET for tf32, which is E43 */
  ast_expr_t **kids;
  size_t kid_count;
  ast_expr_t *other; /* SUBSCRIPT: v of [subs | v], or NULL */
  ast_sub_t *subs;   /* SUBSCRIPT */
  size_t sub_count;
  ast_arg_t *args; /* CALL */
  size_t arg_count;
  ast_binder_t *binders; /* REDUCE */
  size_t binder_count;
  ast_expr_t *where; /* REDUCE, or NULL */
};

/* A dim of a type: e, e@shard, ...S */
typedef struct ast_dim {
  td_loc_t loc;
  ast_expr_t *expr;   /* NULL if a pack */
  ast_name_t pack;    /* text NULL unless a pack */
  ast_shard_t *shard; /* may be NULL */
} ast_dim_t;

/* A suffix of a type, in the order written; repeats are the checker's. */
typedef struct ast_suffix {
  td_loc_t loc;
  enum {
    AST_SUFFIX_AS,      /* as f32: dtype, dtype_text */
    AST_SUFFIX_SHARD,   /* @dp: shard                */
    AST_SUFFIX_PARTIAL, /* partial(tp): axes         */
    AST_SUFFIX_IN       /* in N: range               */
  } form;
  tdsl_dtype_t dtype;     /* UNSET for tf32 */
  const char *dtype_text; /* interned */
  ast_shard_t *shard;
  ast_name_t *axes;
  size_t axis_count;
  ast_range_t *range;
} ast_suffix_t;

typedef struct ast_type {
  td_loc_t loc;
  ast_dim_t *stacks; /* [L] Block, outermost first */
  size_t stack_count;
  ast_name_t elem;    /* dtype, struct or dtype generic, as written */
  tdsl_dtype_t dtype; /* UNSET if elem is a name, or tf32 */
  bool is_tf32;       /* E43 */
  bool has_dims;      /* brackets are written */
  ast_dim_t *dims;
  size_t dim_count;
  ast_suffix_t *suffixes;
  size_t suffix_count;
} ast_type_t;

/* An attribute behind `with`. */
typedef struct ast_attr {
  td_loc_t loc;
  ast_name_t name; /* also "checkpoint", and dtypes such as "tf32" */
  bool has_args;
  ast_arg_t *args;
  size_t arg_count;
} ast_attr_t;

/* A left side: place, or place: type. */
typedef struct ast_lhs {
  td_loc_t loc;
  ast_expr_t *place;
  ast_type_t *type; /* may be NULL */
} ast_lhs_t;

typedef struct ast_block {
  td_loc_t loc; /* from { to } */
  ast_stmt_t **stmts;
  size_t count;
} ast_block_t;

struct ast_stmt {
  ast_stmt_kind_t kind;
  td_loc_t loc;
  bool is_var;     /* DEFINE: var */
  bool is_add;     /* UPDATE: += and not := */
  ast_lhs_t *lhss; /* DEFINE; lhss[0].place of UPDATE and CALL */
  size_t lhs_count;
  ast_expr_t *value; /* DEFINE, UPDATE; ASSERT: the condition */
  ast_expr_t *where; /* UPDATE, or NULL */
  ast_name_t *names; /* FOR: one; EACH */
  size_t name_count;
  ast_range_t *range; /* FOR */
  ast_attr_t *attrs;  /* FOR */
  size_t attr_count;
  ast_expr_t **exprs; /* EACH: the structs; REQUIRE: the facts */
  size_t expr_count;
  ast_block_t *body; /* FOR, EACH, CHECKPOINT */
  const char *text;  /* ASSERT: its text without quotes, or NULL */
};

/* dim, dyn, const: name and value; mesh: axis and size. */
typedef struct ast_item {
  td_loc_t loc;
  ast_name_t name;
  ast_expr_t *value; /* NULL: none (dim, mesh) */
} ast_item_t;

typedef struct ast_generic {
  td_loc_t loc;
  ast_name_t name;
  bool is_pack;    /* ...S */
  ast_name_t what; /* E: dtype has "dtype" here; text NULL for a dim */
} ast_generic_t;

typedef struct ast_field {
  td_loc_t loc;
  ast_name_t name;
  ast_type_t *type;
  const char *from; /* text without quotes, or NULL */
  td_loc_t from_loc;
  ast_name_t other; /* else NAME; text NULL if none */
} ast_field_t;

typedef struct ast_param {
  td_loc_t loc;
  ast_name_t name;
  ast_type_t *type;
  bool is_inout;
  ast_expr_t *value; /* default, or NULL */
} ast_param_t;

typedef struct ast_result {
  td_loc_t loc;
  ast_name_t name; /* text NULL in the form `-> type = expr` */
  ast_type_t *type;
} ast_result_t;

typedef struct ast_decl {
  ast_decl_kind_t kind;
  td_loc_t loc;
  ast_name_t name;   /* IMPORT, STRUCT, FN */
  bool has_names;    /* IMPORT: a list is written */
  ast_name_t *names; /* IMPORT */
  size_t name_count;
  ast_item_t *items; /* DIM, DYN, CONST, MESH */
  size_t item_count;
  ast_expr_t **exprs; /* REQUIRE */
  size_t expr_count;
  ast_generic_t *generics; /* STRUCT, FN */
  size_t generic_count;
  ast_field_t *fields; /* STRUCT */
  size_t field_count;
  bool is_export;    /* FN, and the rest below */
  td_loc_t head_loc; /* from fn or export to the end of the results */
  ast_param_t *params;
  size_t param_count;
  ast_result_t *results;
  size_t result_count;
  ast_attr_t *attrs;
  size_t attr_count;
  ast_block_t *body; /* NULL in the short form */
  ast_expr_t *value; /* of the short form `-> type = expr`, else NULL */
} ast_decl_t;

typedef struct ast_file {
  uint32_t source; /* index in the task's source table */
  td_loc_t loc;
  ast_decl_t **decls;
  size_t decl_count;
  bool has_errors; /* a syntax error was reported; decls are partial */
} ast_file_t;

/* The kid that is not nesting, or NULL: left of a binary operator other
 * than ^, base of a field, call or subscript. */
ast_expr_t *ast_left(const ast_expr_t *e);

/* A left chain laid flat, in arena memory: nodes[0] has no ast_left(), and
 * ast_left(nodes[i]) == nodes[i - 1]; nodes[count - 1] is the given node.
 * To evaluate: take nodes[0], then for each further node combine what one
 * has with the node's other kids. */
typedef struct ast_spine {
  ast_expr_t **nodes;
  size_t count;
} ast_spine_t;
ast_spine_t ast_spine(td_arena_t *arena, ast_expr_t *e);

/* Calls fn on every expression below e, e included, parents first, operands
 * from left to right, in constant stack; fn returns false to leave out what
 * is below a node.  Ranges, wheres, subscripts, arguments are visited. */
typedef bool ast_visit_fn_t(ast_expr_t *e, void *user);
void ast_visit(td_task_t *task, ast_expr_t *e, ast_visit_fn_t *fn, void *user);

/* Equal in everything but locations (and the parentheses that precedence
 * makes needless).  For tests of fmt; constant stack per spine. */
bool ast_equal(const ast_file_t *a, const ast_file_t *b);

/* Words of ast.def, for messages and dumps. */
const char *ast_op_text(ast_op_t op);
const char *ast_reduce_text(ast_reduce_t op);
const char *ast_expr_word(ast_expr_kind_t kind);
const char *ast_stmt_word(ast_stmt_kind_t kind);
const char *ast_decl_word(ast_decl_kind_t kind);

/* `dump ast`: indented, with line:column of every node, same bytes for the
 * same source. */
void ast_print(td_task_t *task, td_buf_t *out, const ast_file_t *file);

/* One expression back as text on one line, with the parentheses it needs
 * and no others: for messages (`E08: X[S] may read ...`). */
void ast_print_expr(td_task_t *task, td_buf_t *out, ast_expr_t *e);

#endif
