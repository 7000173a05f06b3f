/* build.h: constructors of the syntax tree, called by the actions of tdsl.y
 * and by nobody else, and the texts of syntax errors.
 *
 * A constructor that adds nesting returns NULL when AST_MAX_DEPTH is passed,
 * after reporting L04.  Lists are growing arrays in the parser's arena; a
 * NULL list is an empty one. */
#ifndef TDSL_FRONTEND_BUILD_H
#define TDSL_FRONTEND_BUILD_H

#include "frontend/scan.h"

typedef struct ast_list {
  void *items;
  size_t count, capacity, item_bytes;
} ast_list_t;

/* What stands between the brackets of a subscript. */
typedef struct ast_sub_list {
  ast_list_t *subs;
  ast_expr_t *other; /* behind |, or NULL */
} ast_sub_list_t;

#define NAME(text, loc) ((ast_name_t){(text), (loc)})
#define NO_NAME         ((ast_name_t){NULL, TD_NO_LOC})
#define WORD(p, text)   td_intern((p)->task, td_str(text))
#define SPAN(from, to)  td_loc_join((from), (to))
#define BINARY(op, loc, a, op_loc, b)                                          \
  ast_binary(p, AST_OP_##op, (loc), (a), (op_loc), (b))

/* The point right behind a span. */
td_loc_t ast_loc_end(td_loc_t loc);

ast_list_t *ast_list(ast_parser_t *p, size_t item_bytes);
/* Appends a copy of *item; returns list. */
ast_list_t *ast_list_add(ast_parser_t *p, ast_list_t *list, const void *item);

/* -- expressions -- */
ast_expr_t *ast_number(ast_parser_t *p, td_loc_t loc, const char *text);
ast_expr_t *ast_literal(ast_parser_t *p, td_loc_t loc, int code);
ast_expr_t *ast_string(ast_parser_t *p, td_loc_t loc, const char *text);
ast_expr_t *ast_name(ast_parser_t *p, td_loc_t loc, const char *text);
ast_expr_t *ast_parens(ast_expr_t *e);
ast_expr_t *ast_unary(ast_parser_t *p, ast_op_t op, td_loc_t loc,
                      td_loc_t op_loc, ast_expr_t *a);
ast_expr_t *ast_binary(ast_parser_t *p, ast_op_t op, td_loc_t loc,
                       ast_expr_t *a, td_loc_t op_loc, ast_expr_t *b);
ast_expr_t *ast_if(ast_parser_t *p, td_loc_t loc, td_loc_t if_loc,
                   ast_expr_t *condition, ast_expr_t *a, ast_expr_t *b);
ast_expr_t *ast_reduce(ast_parser_t *p, td_loc_t loc, td_loc_t op_loc, int op,
                       ast_list_t *binders, ast_expr_t *where,
                       ast_expr_t *body);
ast_expr_t *ast_redcall(ast_parser_t *p, td_loc_t loc, td_loc_t op_loc, int op,
                        ast_list_t *kids);
ast_expr_t *ast_cast(ast_parser_t *p, td_loc_t loc, td_loc_t op_loc,
                     const char *dtype, ast_expr_t *a);
ast_expr_t *ast_member(ast_parser_t *p, td_loc_t loc, ast_expr_t *base,
                       td_loc_t name_loc, const char *name);
ast_expr_t *ast_subscript(ast_parser_t *p, td_loc_t loc, ast_expr_t *base,
                          td_loc_t brackets, ast_sub_list_t *subs);
ast_expr_t *ast_call(ast_parser_t *p, td_loc_t loc, ast_expr_t *callee,
                     td_loc_t parens, ast_list_t *args);

/* -- parts of expressions and types -- */
ast_sub_list_t *ast_sub_list(ast_parser_t *p, ast_list_t *subs,
                             ast_expr_t *other);
ast_sub_t *ast_sub_expr(ast_parser_t *p, td_loc_t loc, ast_expr_t *e);
ast_sub_t *ast_sub_all(ast_parser_t *p, td_loc_t loc);
ast_sub_t *ast_sub_index(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                         ast_range_t *range, ast_shard_t *shard);
ast_binder_t *ast_binder(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                         ast_range_t *range);
ast_range_t *ast_range(ast_parser_t *p, td_loc_t loc, ast_expr_t *lo,
                       ast_expr_t *hi);
ast_arg_t *ast_arg(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                   ast_expr_t *value);
ast_arg_t *ast_arg_dtype(ast_parser_t *p, td_loc_t loc, const char *dtype);
ast_shard_t *ast_shard_axis(ast_parser_t *p, td_loc_t loc, ast_name_t axis);
ast_shard_t *ast_shard_axes(ast_parser_t *p, td_loc_t loc,
                            enum ast_shard_form form, ast_name_t fn,
                            ast_list_t *axes);
ast_dim_t *ast_dim(ast_parser_t *p, td_loc_t loc, ast_expr_t *e,
                   ast_name_t pack, ast_shard_t *shard);
/* The suffixes so far (NULL: none) and one more. */
ast_list_t *ast_suffix_as(ast_parser_t *p, ast_list_t *list, td_loc_t loc,
                          const char *dtype);
ast_list_t *ast_suffix_shard(ast_parser_t *p, ast_list_t *list, td_loc_t loc,
                             ast_shard_t *shard);
ast_list_t *ast_suffix_partial(ast_parser_t *p, ast_list_t *list, td_loc_t loc,
                               ast_list_t *axes);
ast_list_t *ast_suffix_in(ast_parser_t *p, ast_list_t *list, td_loc_t loc,
                          ast_range_t *range);
ast_type_t *ast_type(ast_parser_t *p, td_loc_t loc, ast_list_t *stacks,
                     ast_name_t elem, ast_list_t *dims, ast_list_t *suffixes);
ast_attr_t *ast_attr(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                     bool has_args, ast_list_t *args);

/* -- statements -- */
ast_block_t *ast_block(ast_parser_t *p, td_loc_t loc, ast_list_t *stmts);
ast_lhs_t *ast_lhs(ast_parser_t *p, td_loc_t loc, ast_expr_t *place,
                   ast_type_t *type);
ast_stmt_t *ast_define(ast_parser_t *p, td_loc_t loc, bool is_var,
                       ast_list_t *lhss, ast_expr_t *value);
ast_stmt_t *ast_update(ast_parser_t *p, td_loc_t loc, bool is_add,
                       ast_expr_t *place, ast_expr_t *value, ast_expr_t *where);
ast_stmt_t *ast_do(ast_parser_t *p, td_loc_t loc, ast_expr_t *e);
ast_stmt_t *ast_for(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                    ast_range_t *range, ast_list_t *attrs, ast_block_t *body);
ast_stmt_t *ast_each(ast_parser_t *p, td_loc_t loc, ast_list_t *names,
                     ast_list_t *exprs, ast_block_t *body);
ast_stmt_t *ast_checkpoint(ast_parser_t *p, td_loc_t loc, ast_block_t *body);
ast_stmt_t *ast_require(ast_parser_t *p, td_loc_t loc, ast_list_t *exprs);
ast_stmt_t *ast_assert(ast_parser_t *p, td_loc_t loc, ast_expr_t *e,
                       const char *text);

/* -- declarations -- */
ast_decl_t *ast_import(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                       ast_list_t *names);
ast_decl_t *ast_items(ast_parser_t *p, ast_decl_kind_t kind, td_loc_t loc,
                      ast_list_t *items);
ast_decl_t *ast_facts(ast_parser_t *p, td_loc_t loc, ast_list_t *exprs);
ast_decl_t *ast_struct(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                       ast_list_t *generics, ast_list_t *fields);
/* What stands behind the parameters; ast_fn completes it.  loc: up to the
 * end of the results. */
ast_decl_t *ast_tail(ast_parser_t *p, td_loc_t loc, ast_list_t *results,
                     ast_list_t *attrs, ast_block_t *body, ast_expr_t *value);
ast_decl_t *ast_fn(ast_parser_t *p, ast_decl_t *tail, td_loc_t loc,
                   bool is_export, ast_name_t name, ast_list_t *generics,
                   ast_list_t *params);
ast_item_t *ast_item(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                     ast_expr_t *value);
ast_generic_t *ast_generic(ast_parser_t *p, td_loc_t loc, bool is_pack,
                           ast_name_t name, ast_name_t what);
/* from: NULL, or the text and perhaps the field behind else. */
ast_field_t *ast_field(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                       ast_type_t *type, ast_list_t *from);
ast_param_t *ast_param(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                       bool is_inout, ast_type_t *type, ast_expr_t *value);
ast_file_t *ast_file_finish(ast_parser_t *p);

/* -- errors (syntax.c) -- */
enum { AST_EXPECTED_MAX = 24 };

/* What the parser could have gone on with, in words. */
typedef struct ast_expected {
  const char *words[AST_EXPECTED_MAX];
  size_t count;
  bool chained; /* a second comparison: P03 */
  bool value;   /* an expression is complete; an operator may follow */
  bool name;    /* a name may follow */
} ast_expected_t;

/* P03 or P04 for the last token of the filter. */
void ast_report_syntax(ast_parser_t *p, const ast_expected_t *expected);
/* P01: sum(i) x[i]. */
void ast_wrong_brackets(ast_parser_t *p, td_loc_t op_loc, int op,
                        td_loc_t parens, const ast_list_t *list);

#endif
