/* ast.c: walking and comparing syntax trees; words of ast.def.
 *
 * Depth.  A program may hold a sum of a million terms, so nothing here
 * recurses along ast_left().  Everything else is at most AST_MAX_DEPTH deep
 * by the parser's check, and so are blocks, which bounds the recursion that
 * is left.  Enumerations of kinds are spelled out in full: a new kind that
 * is forgotten here does not build. */
#include "frontend/ast.h"
#include "runtime/base/task.h"

ast_expr_t *ast_left(const ast_expr_t *e) {
  switch (e->kind) {
  case AST_BINARY: return e->op == AST_OP_POW ? NULL : e->kids[0];
  case AST_FIELD:
  case AST_CALL:
  case AST_SUBSCRIPT: return e->kids[0];
  case AST_NAME:
  case AST_INT:
  case AST_FLOAT:
  case AST_BOOL:
  case AST_INF:
  case AST_STRING:
  case AST_UNARY:
  case AST_IF:
  case AST_REDUCE:
  case AST_REDCALL:
  case AST_CAST: return NULL;
  }
  return NULL;
}

ast_spine_t ast_spine(td_arena_t *arena, ast_expr_t *e) {
  ast_spine_t spine = {0};
  for (ast_expr_t *x = e; x; x = ast_left(x)) spine.count++;
  spine.nodes = TD_NEW_ARRAY(arena, ast_expr_t *, spine.count);
  size_t i = spine.count;
  for (ast_expr_t *x = e; x; x = ast_left(x)) spine.nodes[--i] = x;
  return spine;
}

/* ---- visiting --------------------------------------------------------- */

/* The expressions still to be visited, the next one last.  The stack is in
 * memory of its own because a visit of a long chain makes it long, and the
 * caller's arena should not keep that. */
typedef struct work {
  td_arena_t arena;
  TD_VEC(ast_expr_t *) stack;
} work_t;

static void later(work_t *w, ast_expr_t *e) {
  if (e) td_vec_push(&w->arena, &w->stack, e);
}

static void later_range(work_t *w, const ast_range_t *range) {
  if (!range) return;
  later(w, range->hi);
  later(w, range->lo);
}

/* Pushes what is directly below e, the last first. */
static void later_kids(work_t *w, const ast_expr_t *e) {
  later(w, e->other);
  for (size_t i = e->sub_count; i-- > 0;) {
    later_range(w, e->subs[i].range);
    later(w, e->subs[i].expr);
  }
  for (size_t i = e->arg_count; i-- > 0;) later(w, e->args[i].value);
  for (size_t i = e->kid_count; i-- > 0;) later(w, e->kids[i]);
  later(w, e->where);
  for (size_t i = e->binder_count; i-- > 0;) {
    later_range(w, e->binders[i].range);
  }
}

void ast_visit(td_task_t *task, ast_expr_t *e, ast_visit_fn_t *fn, void *user) {
  work_t w = {0};
  td_arena_init(&w.arena, task);
  later(&w, e);
  while (w.stack.length > 0) {
    ast_expr_t *x = td_vec_pop(&w.stack);
    if (fn(x, user)) later_kids(&w, x);
  }
  td_arena_free_all(&w.arena);
}

/* ---- equality ---------------------------------------------------------
 * Two files of one task: names are the same pointers.  Recursion goes into
 * blocks and everything but the left spine, so at most twice AST_MAX_DEPTH. */

static bool same_text(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

/* Compares two arrays of the nodes a and b element by element; `same` is an
 * expression over i_.  Leaves the enclosing function when they differ. */
#define SAME_ALL(same, a, b, count)                                            \
  do {                                                                         \
    if ((a)->count != (b)->count) return false;                                \
    for (size_t i_ = 0; i_ < (a)->count; i_++) {                               \
      if (!same) return false;                                                 \
    }                                                                          \
  } while (0)

static bool same_expr(const ast_expr_t *a, const ast_expr_t *b);

static bool same_range(const ast_range_t *a, const ast_range_t *b) {
  if (!a || !b) return a == b;
  return same_expr(a->lo, b->lo) && same_expr(a->hi, b->hi);
}

static bool same_shard(const ast_shard_t *a, const ast_shard_t *b) {
  if (!a || !b) return a == b;
  if (a->form != b->form || !same_text(a->fn.text, b->fn.text)) return false;
  SAME_ALL(same_text(a->axes[i_].text, b->axes[i_].text), a, b, axis_count);
  return true;
}

static bool same_sub(const ast_sub_t *a, const ast_sub_t *b) {
  return a->form == b->form && same_text(a->name.text, b->name.text) &&
         same_expr(a->expr, b->expr) && same_range(a->range, b->range) &&
         same_shard(a->shard, b->shard);
}

static bool same_binder(const ast_binder_t *a, const ast_binder_t *b) {
  return same_text(a->name.text, b->name.text) &&
         same_range(a->range, b->range);
}

static bool same_arg(const ast_arg_t *a, const ast_arg_t *b) {
  return same_text(a->name.text, b->name.text) &&
         same_text(a->dtype_text, b->dtype_text) &&
         same_expr(a->value, b->value);
}

/* Everything of a node but its left, which same_expr goes down in a loop.
 * f64 is not compared: it follows from the text. */
static bool same_node(const ast_expr_t *a, const ast_expr_t *b) {
  if (a->kind != b->kind || a->op != b->op || a->reduce != b->reduce ||
      a->i64 != b->i64 || !same_text(a->text, b->text)) {
    return false;
  }
  if (a->kid_count != b->kid_count) return false;
  for (size_t i = ast_left(a) ? 1 : 0; i < a->kid_count; i++) {
    if (!same_expr(a->kids[i], b->kids[i])) return false;
  }
  SAME_ALL(same_sub(&a->subs[i_], &b->subs[i_]), a, b, sub_count);
  SAME_ALL(same_arg(&a->args[i_], &b->args[i_]), a, b, arg_count);
  SAME_ALL(same_binder(&a->binders[i_], &b->binders[i_]), a, b, binder_count);
  return same_expr(a->other, b->other) && same_expr(a->where, b->where);
}

static bool same_expr(const ast_expr_t *a, const ast_expr_t *b) {
  while (a && b) {
    if (!same_node(a, b)) return false;
    a = ast_left(a);
    b = ast_left(b);
  }
  return a == b;
}

static bool same_dim(const ast_dim_t *a, const ast_dim_t *b) {
  return same_expr(a->expr, b->expr) && same_text(a->pack.text, b->pack.text) &&
         same_shard(a->shard, b->shard);
}

static bool same_suffix(const ast_suffix_t *a, const ast_suffix_t *b) {
  if (a->form != b->form || !same_text(a->dtype_text, b->dtype_text)) {
    return false;
  }
  SAME_ALL(same_text(a->axes[i_].text, b->axes[i_].text), a, b, axis_count);
  return same_shard(a->shard, b->shard) && same_range(a->range, b->range);
}

static bool same_type(const ast_type_t *a, const ast_type_t *b) {
  if (!a || !b) return a == b;
  if (!same_text(a->elem.text, b->elem.text) || a->has_dims != b->has_dims) {
    return false;
  }
  SAME_ALL(same_dim(&a->stacks[i_], &b->stacks[i_]), a, b, stack_count);
  SAME_ALL(same_dim(&a->dims[i_], &b->dims[i_]), a, b, dim_count);
  SAME_ALL(same_suffix(&a->suffixes[i_], &b->suffixes[i_]), a, b, suffix_count);
  return true;
}

static bool same_attr(const ast_attr_t *a, const ast_attr_t *b) {
  if (!same_text(a->name.text, b->name.text) || a->has_args != b->has_args) {
    return false;
  }
  SAME_ALL(same_arg(&a->args[i_], &b->args[i_]), a, b, arg_count);
  return true;
}

static bool same_lhs(const ast_lhs_t *a, const ast_lhs_t *b) {
  return same_expr(a->place, b->place) && same_type(a->type, b->type);
}

static bool same_block(const ast_block_t *a, const ast_block_t *b);

static bool same_stmt(const ast_stmt_t *a, const ast_stmt_t *b) {
  if (a->kind != b->kind || a->is_var != b->is_var || a->is_add != b->is_add ||
      !same_text(a->text, b->text)) {
    return false;
  }
  SAME_ALL(same_lhs(&a->lhss[i_], &b->lhss[i_]), a, b, lhs_count);
  SAME_ALL(same_text(a->names[i_].text, b->names[i_].text), a, b, name_count);
  SAME_ALL(same_attr(&a->attrs[i_], &b->attrs[i_]), a, b, attr_count);
  SAME_ALL(same_expr(a->exprs[i_], b->exprs[i_]), a, b, expr_count);
  return same_expr(a->value, b->value) && same_expr(a->where, b->where) &&
         same_range(a->range, b->range) && same_block(a->body, b->body);
}

static bool same_block(const ast_block_t *a, const ast_block_t *b) {
  if (!a || !b) return a == b;
  SAME_ALL(same_stmt(a->stmts[i_], b->stmts[i_]), a, b, count);
  return true;
}

static bool same_item(const ast_item_t *a, const ast_item_t *b) {
  return same_text(a->name.text, b->name.text) && same_expr(a->value, b->value);
}

static bool same_generic(const ast_generic_t *a, const ast_generic_t *b) {
  return same_text(a->name.text, b->name.text) && a->is_pack == b->is_pack &&
         same_text(a->what.text, b->what.text);
}

static bool same_field(const ast_field_t *a, const ast_field_t *b) {
  return same_text(a->name.text, b->name.text) && same_type(a->type, b->type) &&
         same_text(a->from, b->from) && same_text(a->other.text, b->other.text);
}

static bool same_param(const ast_param_t *a, const ast_param_t *b) {
  return same_text(a->name.text, b->name.text) && same_type(a->type, b->type) &&
         a->is_inout == b->is_inout && same_expr(a->value, b->value);
}

static bool same_result(const ast_result_t *a, const ast_result_t *b) {
  return same_text(a->name.text, b->name.text) && same_type(a->type, b->type);
}

static bool same_decl(const ast_decl_t *a, const ast_decl_t *b) {
  if (a->kind != b->kind || !same_text(a->name.text, b->name.text) ||
      a->has_names != b->has_names || a->is_export != b->is_export) {
    return false;
  }
  SAME_ALL(same_text(a->names[i_].text, b->names[i_].text), a, b, name_count);
  SAME_ALL(same_item(&a->items[i_], &b->items[i_]), a, b, item_count);
  SAME_ALL(same_expr(a->exprs[i_], b->exprs[i_]), a, b, expr_count);
  SAME_ALL(same_generic(&a->generics[i_], &b->generics[i_]), a, b,
           generic_count);
  SAME_ALL(same_field(&a->fields[i_], &b->fields[i_]), a, b, field_count);
  SAME_ALL(same_param(&a->params[i_], &b->params[i_]), a, b, param_count);
  SAME_ALL(same_result(&a->results[i_], &b->results[i_]), a, b, result_count);
  SAME_ALL(same_attr(&a->attrs[i_], &b->attrs[i_]), a, b, attr_count);
  return same_block(a->body, b->body) && same_expr(a->value, b->value);
}

bool ast_equal(const ast_file_t *a, const ast_file_t *b) {
  SAME_ALL(same_decl(a->decls[i_], b->decls[i_]), a, b, decl_count);
  return true;
}

/* ---- words ------------------------------------------------------------ */

const char *ast_op_text(ast_op_t op) {
  static const char *const texts[] = {
#define AST_OP_ROW(NAME, text, sentence) text,
#include "frontend/ast.def"
  };
  return texts[op];
}

const char *ast_reduce_text(ast_reduce_t op) {
  static const char *const texts[] = {
#define AST_REDUCE_ROW(NAME, text, sentence) text,
#include "frontend/ast.def"
  };
  return texts[op];
}

const char *ast_expr_word(ast_expr_kind_t kind) {
  static const char *const words[] = {
#define AST_EXPR_ROW(NAME, word, sentence) word,
#include "frontend/ast.def"
  };
  return words[kind];
}

const char *ast_stmt_word(ast_stmt_kind_t kind) {
  static const char *const words[] = {
#define AST_STMT_ROW(NAME, word, sentence) word,
#include "frontend/ast.def"
  };
  return words[kind];
}

const char *ast_decl_word(ast_decl_kind_t kind) {
  static const char *const words[] = {
#define AST_DECL_ROW(NAME, word, sentence) word,
#include "frontend/ast.def"
  };
  return words[kind];
}
