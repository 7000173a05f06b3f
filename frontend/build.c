/* build.c: constructors of the syntax tree for tdsl.y.
 *
 * Each takes what the grammar rule has, already reduced, and puts it into a
 * zeroed node, so a field that a kind does not have is 0 or NULL.  Nothing
 * is checked here but depth: whether a left side is a place, a mark stands
 * where it may or a dtype can be stored is the checker's to say, with more
 * knowledge and a better message. */
#include "frontend/build.h"
#include "runtime/base/num.h"

#include <math.h>

td_loc_t ast_loc_end(td_loc_t loc) {
  loc.line = loc.end_line;
  loc.column = loc.end_column;
  return loc;
}

ast_list_t *ast_list(ast_parser_t *p, size_t item_bytes) {
  ast_list_t *list = TD_NEW(p->arena, ast_list_t);
  list->item_bytes = item_bytes;
  return list;
}

ast_list_t *ast_list_add(ast_parser_t *p, ast_list_t *list, const void *item) {
  if (list->count == list->capacity) {
    list->items =
        td_vec_grow(p->arena, list->items, list->count, list->count + 1,
                    &list->capacity, list->item_bytes);
  }
  memcpy((char *)list->items + list->count * list->item_bytes, item,
         list->item_bytes);
  list->count++;
  return list;
}

/* Copies a list's array and length into two fields of a node. */
#define PUT(list_, array_, count_)                                             \
  do {                                                                         \
    if (list_) (array_) = (list_)->items, (count_) = (list_)->count;           \
  } while (0)

/* ---- expressions ------------------------------------------------------ */

static ast_expr_t *expr(ast_parser_t *p, ast_expr_kind_t kind, td_loc_t loc) {
  ast_expr_t *e = TD_NEW(p->arena, ast_expr_t);
  e->kind = kind;
  e->loc = e->op_loc = loc;
  return e;
}

/* Unused kids are NULL and behind `count`. */
static void set_kids(ast_parser_t *p, ast_expr_t *e, size_t count,
                     ast_expr_t *a, ast_expr_t *b, ast_expr_t *c) {
  ast_expr_t *kids[3] = {a, b, c};
  e->kids = TD_NEW_ARRAY(p->arena, ast_expr_t *, count);
  memcpy(e->kids, kids, count * sizeof *kids);
  e->kid_count = count;
}

/* What is below a node counts one level more than it has itself. */
static void nest(unsigned *depth, const ast_expr_t *below) {
  if (below && below->depth + 1u > *depth) *depth = below->depth + 1u;
}

static void nest_range(unsigned *depth, const ast_range_t *range) {
  if (!range) return;
  nest(depth, range->lo);
  nest(depth, range->hi);
}

/* Sets the depth; NULL and L04 if it is beyond the limit.  The left operand
 * of a chain is not nesting (ast.h), so it does not add a level. */
static ast_expr_t *check_depth(ast_parser_t *p, ast_expr_t *e) {
  ast_expr_t *left = ast_left(e);
  unsigned depth = left ? left->depth : 0;
  for (size_t i = left ? 1 : 0; i < e->kid_count; i++) {
    nest(&depth, e->kids[i]);
  }
  nest(&depth, e->other);
  nest(&depth, e->where);
  for (size_t i = 0; i < e->sub_count; i++) {
    nest(&depth, e->subs[i].expr);
    nest_range(&depth, e->subs[i].range);
  }
  for (size_t i = 0; i < e->arg_count; i++) nest(&depth, e->args[i].value);
  for (size_t i = 0; i < e->binder_count; i++) {
    nest_range(&depth, e->binders[i].range);
  }
  if (depth > AST_MAX_DEPTH) {
    ast_too_deep(p, e->op_loc);
    return NULL;
  }
  e->depth = (uint16_t)depth;
  return e;
}

/* The scanner let through only what one of the two reads. */
ast_expr_t *ast_number(ast_parser_t *p, td_loc_t loc, const char *text) {
  ast_expr_t *e = expr(p, AST_FLOAT, loc);
  e->text = text;
  if (td_parse_i64(td_str(text), &e->i64)) {
    e->kind = AST_INT;
    e->f64 = (double)e->i64;
  } else if (!td_parse_f64(td_str(text), &e->f64)) {
    TD_ICE(p->task, "number `%s` does not read", text);
  }
  return e;
}

ast_expr_t *ast_literal(ast_parser_t *p, td_loc_t loc, int code) {
  ast_expr_t *e = expr(p, code == 2 ? AST_INF : AST_BOOL, loc);
  e->i64 = code == 1;
  e->f64 = code == 2 ? (double)INFINITY : 0.0;
  return e;
}

ast_expr_t *ast_string(ast_parser_t *p, td_loc_t loc, const char *text) {
  ast_expr_t *e = expr(p, AST_STRING, loc);
  e->text = text;
  return e;
}

ast_expr_t *ast_name(ast_parser_t *p, td_loc_t loc, const char *text) {
  ast_expr_t *e = expr(p, AST_NAME, loc);
  e->text = text;
  return e;
}

/* Parentheses make no node; the flag keeps (f)(x) apart from f(x). */
ast_expr_t *ast_parens(ast_expr_t *e) {
  e->in_parens = true;
  return e;
}

ast_expr_t *ast_unary(ast_parser_t *p, ast_op_t op, td_loc_t loc,
                      td_loc_t op_loc, ast_expr_t *a) {
  ast_expr_t *e = expr(p, AST_UNARY, loc);
  e->op = op;
  e->op_loc = op_loc;
  set_kids(p, e, 1, a, NULL, NULL);
  return check_depth(p, e);
}

ast_expr_t *ast_binary(ast_parser_t *p, ast_op_t op, td_loc_t loc,
                       ast_expr_t *a, td_loc_t op_loc, ast_expr_t *b) {
  ast_expr_t *e = expr(p, AST_BINARY, loc);
  e->op = op;
  e->op_loc = op_loc;
  set_kids(p, e, 2, a, b, NULL);
  return check_depth(p, e);
}

ast_expr_t *ast_if(ast_parser_t *p, td_loc_t loc, td_loc_t if_loc,
                   ast_expr_t *condition, ast_expr_t *a, ast_expr_t *b) {
  ast_expr_t *e = expr(p, AST_IF, loc);
  e->op_loc = if_loc;
  set_kids(p, e, 3, condition, a, b);
  return check_depth(p, e);
}

ast_expr_t *ast_reduce(ast_parser_t *p, td_loc_t loc, td_loc_t op_loc, int op,
                       ast_list_t *binders, ast_expr_t *where,
                       ast_expr_t *body) {
  ast_expr_t *e = expr(p, AST_REDUCE, loc);
  e->reduce = (ast_reduce_t)op;
  e->op_loc = op_loc;
  PUT(binders, e->binders, e->binder_count);
  e->where = where;
  set_kids(p, e, 1, body, NULL, NULL);
  return check_depth(p, e);
}

ast_expr_t *ast_redcall(ast_parser_t *p, td_loc_t loc, td_loc_t op_loc, int op,
                        ast_list_t *kids) {
  ast_expr_t *e = expr(p, AST_REDCALL, loc);
  e->reduce = (ast_reduce_t)op;
  e->op_loc = op_loc;
  PUT(kids, e->kids, e->kid_count);
  return check_depth(p, e);
}

ast_expr_t *ast_cast(ast_parser_t *p, td_loc_t loc, td_loc_t op_loc,
                     const char *dtype, ast_expr_t *a) {
  ast_expr_t *e = expr(p, AST_CAST, loc);
  e->op_loc = op_loc;
  e->text = dtype;
  e->dtype = td_dtype_parse(td_str(dtype));
  set_kids(p, e, 1, a, NULL, NULL);
  return check_depth(p, e);
}

ast_expr_t *ast_member(ast_parser_t *p, td_loc_t loc, ast_expr_t *base,
                       td_loc_t name_loc, const char *name) {
  ast_expr_t *e = expr(p, AST_FIELD, loc);
  e->op_loc = name_loc;
  e->text = name;
  set_kids(p, e, 1, base, NULL, NULL);
  return check_depth(p, e);
}

ast_expr_t *ast_subscript(ast_parser_t *p, td_loc_t loc, ast_expr_t *base,
                          td_loc_t brackets, ast_sub_list_t *subs) {
  ast_expr_t *e = expr(p, AST_SUBSCRIPT, loc);
  e->op_loc = brackets;
  PUT(subs->subs, e->subs, e->sub_count);
  e->other = subs->other;
  set_kids(p, e, 1, base, NULL, NULL);
  return check_depth(p, e);
}

ast_expr_t *ast_call(ast_parser_t *p, td_loc_t loc, ast_expr_t *callee,
                     td_loc_t parens, ast_list_t *args) {
  ast_expr_t *e = expr(p, AST_CALL, loc);
  e->op_loc = parens;
  PUT(args, e->args, e->arg_count);
  set_kids(p, e, 1, callee, NULL, NULL);
  return check_depth(p, e);
}

/* ---- parts ------------------------------------------------------------ */

/* Returns a node of the given type in the arena, filled from a literal; the
 * last statement of a constructor. */
#define MAKE(type, ...)                                                        \
  type *made = TD_NEW(p->arena, type);                                         \
  *made = (type)__VA_ARGS__;                                                   \
  return made

ast_sub_list_t *ast_sub_list(ast_parser_t *p, ast_list_t *subs,
                             ast_expr_t *other) {
  MAKE(ast_sub_list_t, {subs, other});
}

ast_sub_t *ast_sub_expr(ast_parser_t *p, td_loc_t loc, ast_expr_t *e) {
  MAKE(ast_sub_t, {.loc = loc, .form = AST_SUB_EXPR, .expr = e});
}

ast_sub_t *ast_sub_all(ast_parser_t *p, td_loc_t loc) {
  MAKE(ast_sub_t, {.loc = loc, .form = AST_SUB_ALL});
}

ast_sub_t *ast_sub_index(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                         ast_range_t *range, ast_shard_t *shard) {
  MAKE(ast_sub_t, {.loc = loc,
                   .form = AST_SUB_INDEX,
                   .name = name,
                   .range = range,
                   .shard = shard});
}

ast_binder_t *ast_binder(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                         ast_range_t *range) {
  MAKE(ast_binder_t, {.name = name, .loc = loc, .range = range});
}

ast_range_t *ast_range(ast_parser_t *p, td_loc_t loc, ast_expr_t *lo,
                       ast_expr_t *hi) {
  MAKE(ast_range_t, {.loc = loc, .lo = lo, .hi = hi});
}

ast_arg_t *ast_arg(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                   ast_expr_t *value) {
  MAKE(ast_arg_t, {.loc = loc, .name = name, .value = value});
}

ast_arg_t *ast_arg_dtype(ast_parser_t *p, td_loc_t loc, const char *dtype) {
  MAKE(ast_arg_t, {.loc = loc,
                   .dtype = td_dtype_parse(td_str(dtype)),
                   .dtype_text = dtype});
}

ast_shard_t *ast_shard_axis(ast_parser_t *p, td_loc_t loc, ast_name_t axis) {
  ast_list_t *axes = ast_list_add(p, ast_list(p, sizeof axis), &axis);
  return ast_shard_axes(p, loc, AST_SHARD_AXIS, NO_NAME, axes);
}

ast_shard_t *ast_shard_axes(ast_parser_t *p, td_loc_t loc,
                            enum ast_shard_form form, ast_name_t fn,
                            ast_list_t *axes) {
  ast_shard_t *shard = TD_NEW(p->arena, ast_shard_t);
  shard->loc = loc;
  shard->form = form;
  shard->fn = fn;
  PUT(axes, shard->axes, shard->axis_count);
  return shard;
}

ast_dim_t *ast_dim(ast_parser_t *p, td_loc_t loc, ast_expr_t *e,
                   ast_name_t pack, ast_shard_t *shard) {
  MAKE(ast_dim_t, {.loc = loc, .expr = e, .pack = pack, .shard = shard});
}

static ast_list_t *suffix(ast_parser_t *p, ast_list_t *list,
                          ast_suffix_t item) {
  return ast_list_add(p, list ? list : ast_list(p, sizeof item), &item);
}

ast_list_t *ast_suffix_as(ast_parser_t *p, ast_list_t *list, td_loc_t loc,
                          const char *dtype) {
  return suffix(p, list,
                (ast_suffix_t){.loc = loc,
                               .form = AST_SUFFIX_AS,
                               .dtype = td_dtype_parse(td_str(dtype)),
                               .dtype_text = dtype});
}

ast_list_t *ast_suffix_shard(ast_parser_t *p, ast_list_t *list, td_loc_t loc,
                             ast_shard_t *shard) {
  return suffix(
      p, list,
      (ast_suffix_t){.loc = loc, .form = AST_SUFFIX_SHARD, .shard = shard});
}

ast_list_t *ast_suffix_partial(ast_parser_t *p, ast_list_t *list, td_loc_t loc,
                               ast_list_t *axes) {
  ast_suffix_t item = {.loc = loc, .form = AST_SUFFIX_PARTIAL};
  PUT(axes, item.axes, item.axis_count);
  return suffix(p, list, item);
}

ast_list_t *ast_suffix_in(ast_parser_t *p, ast_list_t *list, td_loc_t loc,
                          ast_range_t *range) {
  return suffix(
      p, list,
      (ast_suffix_t){.loc = loc, .form = AST_SUFFIX_IN, .range = range});
}

ast_type_t *ast_type(ast_parser_t *p, td_loc_t loc, ast_list_t *stacks,
                     ast_name_t elem, ast_list_t *dims, ast_list_t *suffixes) {
  ast_type_t *type = TD_NEW(p->arena, ast_type_t);
  type->loc = loc;
  PUT(stacks, type->stacks, type->stack_count);
  type->elem = elem;
  type->dtype = td_dtype_parse(td_str(elem.text));
  type->is_tf32 = strcmp(elem.text, "tf32") == 0;
  type->has_dims = dims != NULL;
  PUT(dims, type->dims, type->dim_count);
  PUT(suffixes, type->suffixes, type->suffix_count);
  return type;
}

ast_attr_t *ast_attr(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                     bool has_args, ast_list_t *args) {
  ast_attr_t *attr = TD_NEW(p->arena, ast_attr_t);
  attr->loc = loc;
  attr->name = name;
  attr->has_args = has_args;
  PUT(args, attr->args, attr->arg_count);
  return attr;
}

/* ---- statements ------------------------------------------------------- */

static ast_stmt_t *stmt(ast_parser_t *p, ast_stmt_kind_t kind, td_loc_t loc) {
  ast_stmt_t *s = TD_NEW(p->arena, ast_stmt_t);
  s->kind = kind;
  s->loc = loc;
  return s;
}

ast_block_t *ast_block(ast_parser_t *p, td_loc_t loc, ast_list_t *stmts) {
  ast_block_t *block = TD_NEW(p->arena, ast_block_t);
  block->loc = loc;
  PUT(stmts, block->stmts, block->count);
  return block;
}

ast_lhs_t *ast_lhs(ast_parser_t *p, td_loc_t loc, ast_expr_t *place,
                   ast_type_t *type) {
  MAKE(ast_lhs_t, {.loc = loc, .place = place, .type = type});
}

ast_stmt_t *ast_define(ast_parser_t *p, td_loc_t loc, bool is_var,
                       ast_list_t *lhss, ast_expr_t *value) {
  ast_stmt_t *s = stmt(p, AST_STMT_DEFINE, loc);
  s->is_var = is_var;
  PUT(lhss, s->lhss, s->lhs_count);
  s->value = value;
  return s;
}

/* The place of an update or call, kept where a definition has its left
 * sides, so that walks over places need no case for it. */
static void one_lhs(ast_parser_t *p, ast_stmt_t *s, ast_expr_t *place) {
  s->lhss = ast_lhs(p, place->loc, place, NULL);
  s->lhs_count = 1;
}

ast_stmt_t *ast_update(ast_parser_t *p, td_loc_t loc, bool is_add,
                       ast_expr_t *place, ast_expr_t *value,
                       ast_expr_t *where) {
  ast_stmt_t *s = stmt(p, AST_STMT_UPDATE, loc);
  s->is_add = is_add;
  one_lhs(p, s, place);
  s->value = value;
  s->where = where;
  return s;
}

ast_stmt_t *ast_do(ast_parser_t *p, td_loc_t loc, ast_expr_t *e) {
  ast_stmt_t *s = stmt(p, AST_STMT_CALL, loc);
  one_lhs(p, s, e);
  return s;
}

ast_stmt_t *ast_for(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                    ast_range_t *range, ast_list_t *attrs, ast_block_t *body) {
  ast_stmt_t *s = stmt(p, AST_STMT_FOR, loc);
  s->names = TD_NEW(p->arena, ast_name_t);
  s->names[0] = name;
  s->name_count = 1;
  s->range = range;
  PUT(attrs, s->attrs, s->attr_count);
  s->body = body;
  return s;
}

ast_stmt_t *ast_each(ast_parser_t *p, td_loc_t loc, ast_list_t *names,
                     ast_list_t *exprs, ast_block_t *body) {
  ast_stmt_t *s = stmt(p, AST_STMT_EACH, loc);
  PUT(names, s->names, s->name_count);
  PUT(exprs, s->exprs, s->expr_count);
  s->body = body;
  return s;
}

ast_stmt_t *ast_checkpoint(ast_parser_t *p, td_loc_t loc, ast_block_t *body) {
  ast_stmt_t *s = stmt(p, AST_STMT_CHECKPOINT, loc);
  s->body = body;
  return s;
}

ast_stmt_t *ast_require(ast_parser_t *p, td_loc_t loc, ast_list_t *exprs) {
  ast_stmt_t *s = stmt(p, AST_STMT_REQUIRE, loc);
  PUT(exprs, s->exprs, s->expr_count);
  return s;
}

ast_stmt_t *ast_assert(ast_parser_t *p, td_loc_t loc, ast_expr_t *e,
                       const char *text) {
  ast_stmt_t *s = stmt(p, AST_STMT_ASSERT, loc);
  s->value = e;
  s->text = text;
  return s;
}

/* ---- declarations ----------------------------------------------------- */

static ast_decl_t *decl(ast_parser_t *p, ast_decl_kind_t kind, td_loc_t loc) {
  ast_decl_t *d = TD_NEW(p->arena, ast_decl_t);
  d->kind = kind;
  d->loc = loc;
  return d;
}

ast_decl_t *ast_import(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                       ast_list_t *names) {
  ast_decl_t *d = decl(p, AST_DECL_IMPORT, loc);
  d->name = name;
  d->has_names = names != NULL;
  PUT(names, d->names, d->name_count);
  return d;
}

ast_decl_t *ast_items(ast_parser_t *p, ast_decl_kind_t kind, td_loc_t loc,
                      ast_list_t *items) {
  ast_decl_t *d = decl(p, kind, loc);
  PUT(items, d->items, d->item_count);
  return d;
}

ast_decl_t *ast_facts(ast_parser_t *p, td_loc_t loc, ast_list_t *exprs) {
  ast_decl_t *d = decl(p, AST_DECL_REQUIRE, loc);
  PUT(exprs, d->exprs, d->expr_count);
  return d;
}

ast_decl_t *ast_struct(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                       ast_list_t *generics, ast_list_t *fields) {
  ast_decl_t *d = decl(p, AST_DECL_STRUCT, loc);
  d->name = name;
  PUT(generics, d->generics, d->generic_count);
  PUT(fields, d->fields, d->field_count);
  return d;
}

ast_decl_t *ast_tail(ast_parser_t *p, td_loc_t loc, ast_list_t *results,
                     ast_list_t *attrs, ast_block_t *body, ast_expr_t *value) {
  ast_decl_t *d = decl(p, AST_DECL_FN, loc);
  if (!results) { /* the head ends where the parameters do */
    loc.end_line = loc.line;
    loc.end_column = loc.column;
  }
  d->head_loc = loc;
  PUT(results, d->results, d->result_count);
  PUT(attrs, d->attrs, d->attr_count);
  d->body = body;
  d->value = value;
  return d;
}

ast_decl_t *ast_fn(ast_parser_t *p, ast_decl_t *tail, td_loc_t loc,
                   bool is_export, ast_name_t name, ast_list_t *generics,
                   ast_list_t *params) {
  (void)p;
  tail->loc = loc;
  tail->head_loc = td_loc_join(loc, tail->head_loc);
  tail->is_export = is_export;
  tail->name = name;
  PUT(generics, tail->generics, tail->generic_count);
  PUT(params, tail->params, tail->param_count);
  return tail;
}

ast_item_t *ast_item(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                     ast_expr_t *value) {
  MAKE(ast_item_t, {.loc = loc, .name = name, .value = value});
}

ast_generic_t *ast_generic(ast_parser_t *p, td_loc_t loc, bool is_pack,
                           ast_name_t name, ast_name_t what) {
  MAKE(ast_generic_t,
       {.loc = loc, .name = name, .is_pack = is_pack, .what = what});
}

ast_field_t *ast_field(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                       ast_type_t *type, ast_list_t *from) {
  ast_field_t *field = TD_NEW(p->arena, ast_field_t);
  field->loc = loc;
  field->name = name;
  field->type = type;
  if (from) {
    const ast_name_t *parts = from->items;
    field->from = parts[0].text;
    field->from_loc = parts[0].loc;
    if (from->count > 1) field->other = parts[1];
  }
  return field;
}

ast_param_t *ast_param(ast_parser_t *p, td_loc_t loc, ast_name_t name,
                       bool is_inout, ast_type_t *type, ast_expr_t *value) {
  MAKE(ast_param_t, {.loc = loc,
                     .name = name,
                     .type = type,
                     .is_inout = is_inout,
                     .value = value});
}

ast_file_t *ast_file_finish(ast_parser_t *p) {
  ast_file_t *file = TD_NEW(p->arena, ast_file_t);
  file->source = p->scanner.source;
  file->decls = p->decls.data;
  file->decl_count = p->decls.length;
  file->has_errors = ast_parse_errors(p) > 0;
  file->loc = (td_loc_t){file->source, 1, 1, p->scanner.last.end_line,
                         p->scanner.last.end_column};
  return file;
}
