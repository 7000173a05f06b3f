/* stmts.c: blocks and the small statements.
 *
 * A statement that fails leaves nothing in the tree; its names are in scope
 * as failed ones, so that only it is reported. */
#include "frontend/check.h"

/* The caller fills the rest. */
sem_stmt_t *sem_new_stmt(sem_ctx_t *c, sem_stmt_kind_t kind, td_loc_t loc) {
  sem_stmt_t *s = TD_NEW(c->arena, sem_stmt_t);
  s->kind = kind;
  s->loc = loc;
  return s;
}

/* By the text, before there is an instance. */
static bool has_inout(const sem_fn_t *fn) {
  for (size_t i = 0; i < fn->decl->param_count; i++) {
    if (fn->decl->params[i].is_inout) return true;
  }
  return false;
}

/* f(c, x): a call for what it does to its arguments. */
static sem_stmt_t *check_call(sem_ctx_t *c, const ast_stmt_t *s) {
  const ast_expr_t *e = s->lhss[0].place;
  const sem_fn_t *fn = NULL;
  if (e->kind == AST_CALL && e->kids[0]->kind == AST_NAME) {
    const char *name = e->kids[0]->text;
    fn = td_map_get(&c->module->fns, td_str(name));
    if (fn != NULL && fn->failed) return NULL;
    if (fn == NULL && !sem_is_builtin(name)) {
      sem_call(c, e); /* reports the unknown function */
      return NULL;
    }
  }
  if (fn == NULL || !has_inout(fn)) {
    td_diag_t *d = sem_report(c, TD_E50, e->loc, "this has no effect");
    td_diag_help(d, "a statement defines (`y = ...`), updates (`y := ...`), "
                 "or calls a function with an `inout` argument");
    return NULL;
  }
  sem_stmt_t *stmt = sem_new_stmt(c, SEM_CALL_STMT, s->loc);
  c->allowed_call = e;
  stmt->value = sem_check_formula(c, e);
  c->allowed_call = NULL;
  return stmt->value == NULL ? NULL : stmt;
}

/* Gives no facts: facts are `require`. */
static sem_stmt_t *check_assert(sem_ctx_t *c, const ast_stmt_t *s) {
  td_vec_push(c->arena, &c->formula, s->value);
  sem_expr_t *cond = sem_check_cond(c, s->value);
  (void)td_vec_pop(&c->formula);
  if (cond == NULL) return NULL;
  sem_stmt_t *stmt = sem_new_stmt(c, SEM_ASSERT, s->loc);
  stmt->value = cond;
  if (s->text != NULL) stmt->text = td_arena_strdup(c->arena, s->text);
  return stmt;
}

/* Names end with the block, results that it defines do not. */
static sem_stmt_t *check_checkpoint(sem_ctx_t *c, const ast_stmt_t *s) {
  sem_stmt_t *stmt = sem_new_stmt(c, SEM_SCOPE, s->loc);
  stmt->body = sem_check_block(c, s->body);
  return stmt;
}

/* Those of the top level were read with the head of the function. */
static sem_stmt_t *check_require(sem_ctx_t *c, const ast_stmt_t *s) {
  if (c->block_depth > 1) {
    td_diag_t *d = sem_report(c, TD_E54, s->loc, "`require` is a precondition "
                              "of the function: it stands outside of blocks");
    td_diag_help(d, "move it to the beginning of the function");
  }
  return NULL;
}

/* Data are known by what they are read from for one statement only: the next
 * may find other values. */
static sem_stmt_t *check_stmt(sem_ctx_t *c, const ast_stmt_t *s) {
  c->stmt = s;
  c->ended.length = 0;
  td_map_init(&c->data, c->arena);
  td_map_init(&c->datum_of, c->arena);
  switch (s->kind) {
  case AST_STMT_DEFINE: return sem_check_define(c, s);
  case AST_STMT_UPDATE: return sem_check_update(c, s);
  case AST_STMT_CALL: return check_call(c, s);
  case AST_STMT_FOR: return sem_check_for(c, s);
  case AST_STMT_EACH: return sem_check_each(c, s);
  case AST_STMT_CHECKPOINT: return check_checkpoint(c, s);
  case AST_STMT_REQUIRE: return check_require(c, s);
  case AST_STMT_ASSERT: return check_assert(c, s);
  }
  TD_ICE(c->task, "statement %d", (int)s->kind);
}

/* The stack of names is that of the text. */
sem_block_t *sem_check_block(sem_ctx_t *c, const ast_block_t *b) {
  sem_block_t *block = TD_NEW(c->arena, sem_block_t);
  block->stmts = TD_NEW_ARRAY(c->arena, sem_stmt_t *, b->count);
  size_t scope = sem_scope_mark(c);
  c->block_depth++;
  for (size_t i = 0; i < b->count; i++) {
    sem_stmt_t *s = check_stmt(c, b->stmts[i]);
    if (s != NULL) block->stmts[block->stmt_count++] = s;
    td_task_poll(c->task);
  }
  c->block_depth--;
  /* The names of the function's own block go with its head: its results are
   * looked up once more. */
  if (c->block_depth > 0) sem_scope_release(c, scope);
  return block;
}
