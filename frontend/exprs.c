/* exprs.c: expressions of the text to typed expressions.
 *
 * Left chains (a + b + c ..., x[i].f[j] ...) are laid flat and combined in a
 * loop, so only nesting that the parser has capped uses the stack. */
#include "frontend/check.h"

#include <math.h>

/* Every expression is listed, for body.c. */
sem_expr_t *sem_new_expr(sem_ctx_t *c, sem_expr_kind_t kind, td_loc_t loc) {
  sem_expr_t *e = TD_NEW(c->arena, sem_expr_t);
  e->kind = kind;
  e->loc = loc;
  td_vec_push(c->arena, &c->exprs, e);
  return e;
}

/* ---- names --------------------------------------------------------------- */

/* An integer scalar that has no symbol of its own is a datum like any other
 * read. */
sem_expr_t *sem_name_expr(sem_ctx_t *c, sem_symbol_t *symbol, td_loc_t loc) {
  sem_expr_t *e = sem_new_expr(c, SEM_NAME, loc);
  e->symbol = symbol;
  e->type = symbol->type;
  if (sem_is_int(e) && !sem_is_tensor(e)) {
    e->poly = symbol->value != NULL ? ix_sym(c->pool, symbol->value)
                                    : sem_datum(c, e);
  }
  return e;
}

/* Indices are i64: a sum over them never wraps. */
sem_expr_t *sem_index_expr(sem_ctx_t *c, sem_index_t *index, td_loc_t loc) {
  sem_expr_t *e = sem_new_expr(c, SEM_INDEX, loc);
  e->index = index;
  e->type = sem_scalar(TDSL_DTYPE_I64);
  e->poly = ix_sym(c->pool, index->symbol);
  return e;
}

/* Whether the name is read matters to W02 alone. */
static sem_expr_t *name_value(sem_ctx_t *c, const ast_expr_t *e) {
  sem_entry_t *entry = sem_lookup(c, e->text);
  if (entry == NULL) {
    sem_global_t *g = sem_lookup_global(c, e->text);
    if (g != NULL) return sem_global_expr(c, g, e->loc);
    if (!c->module->is_incomplete) sem_unknown_value(c, e);
    return NULL;
  }
  switch (entry->kind) {
  case SEM_ENTRY_FAILED: return NULL;
  case SEM_ENTRY_GENERIC: return sem_dim_value(c, entry->poly, e->loc);
  case SEM_ENTRY_DTYPE:
  case SEM_ENTRY_PACK:
    if (entry->kind == SEM_ENTRY_PACK) {
      sem_report(c, TD_E50, e->loc, "...%s is a list of dims, not a value",
                 e->text);
    } else {
      sem_report(c, TD_E50, e->loc, "%s is a dtype, not a value", e->text);
    }
    return NULL;
  case SEM_ENTRY_INDEX: return sem_index_expr(c, entry->index, e->loc);
  case SEM_ENTRY_SYMBOL: break;
  }
  if (entry->is_pending) {
    td_diag_t *d = sem_report(c, TD_E01, e->loc,
                              "%s is read before it is defined", e->text);
    td_diag_label(d, entry->loc, "declared here as a result");
    return NULL;
  }
  if (c->quiet == 0 && e != c->place_base) entry->is_used = true;
  return sem_name_expr(c, entry->symbol, e->loc);
}

/* ---- leaves of the tree -------------------------------------------------- */

/* Constants stay exact until they meet a type. */
static sem_expr_t *literal(sem_ctx_t *c, const ast_expr_t *e) {
  sem_number_t n = {SEM_NUMBER_INT, e->i64, e->f64};
  if (e->kind == AST_FLOAT) n.kind = SEM_NUMBER_FLOAT;
  if (e->kind == AST_BOOL) n.kind = SEM_NUMBER_BOOL;
  if (e->kind == AST_INF) {
    n = (sem_number_t){SEM_NUMBER_FLOAT, 0, (double)INFINITY};
  }
  return sem_number_expr(c, n, e->loc);
}

/* Reported where it stands, whatever was expected there. */
static sem_expr_t *string_value(sem_ctx_t *c, const ast_expr_t *e) {
  td_diag_t *d = sem_report(c, TD_E50, e->loc,
                            "text in quotes is not a value");
  td_diag_help(d, "texts stand after `from`, in `config`, in attributes and "
               "in `assert` only");
  return NULL;
}

/* ---- if ------------------------------------------------------------------ */

/* Only the chosen arm is evaluated, so its guard may be used in it, and its
 * range is what holds under the guard. */
static sem_expr_t *check_arm(sem_ctx_t *c, const sem_expr_t *cond,
                             bool truth, const ast_expr_t *arm) {
  size_t mark = ix_facts_mark(c->facts);
  bool dead = cond != NULL && !sem_assume(c, cond, truth);
  if (dead) c->unproved++;
  sem_expr_t *e = sem_check_expr(c, arm);
  if (e != NULL && sem_is_int(e) && !sem_is_tensor(e) && e->poly != NULL) {
    /* What the guard says of its range is known here only. */
    sem_ends(c, e->poly, &e->type.lo, &e->type.hi);
  }
  if (dead) c->unproved--;
  ix_facts_release(c->facts, mark);
  return e;
}

/* Both arms are read even if the condition is wrong: their faults are their
 * own. */
static sem_expr_t *check_if(sem_ctx_t *c, const ast_expr_t *e) {
  sem_expr_t *cond = sem_check_cond(c, e->kids[0]);
  sem_expr_t *a = check_arm(c, cond, true, e->kids[1]);
  sem_expr_t *b = check_arm(c, cond, false, e->kids[2]);
  if (cond == NULL || a == NULL || b == NULL) return NULL;
  return sem_select(c, cond, a, b, e->loc);
}

/* ---- chains -------------------------------------------------------------- */

/* The same operators by other numbers: ast.def belongs to the text, sem_op
 * to the tree. */
static sem_op_t binary_op(sem_ctx_t *c, ast_op_t op) {
  switch (op) {
  case AST_OP_ADD: return SEM_OP_ADD;
  case AST_OP_SUB: return SEM_OP_SUB;
  case AST_OP_MUL: return SEM_OP_MUL;
  case AST_OP_DIV: return SEM_OP_DIV;
  case AST_OP_MOD: return SEM_OP_MOD;
  case AST_OP_POW: return SEM_OP_POW;
  case AST_OP_EQ: return SEM_OP_EQ;
  case AST_OP_NE: return SEM_OP_NE;
  case AST_OP_LT: return SEM_OP_LT;
  case AST_OP_LE: return SEM_OP_LE;
  case AST_OP_GT: return SEM_OP_GT;
  case AST_OP_GE: return SEM_OP_GE;
  case AST_OP_AND: return SEM_OP_AND;
  case AST_OP_OR: return SEM_OP_OR;
  case AST_OP_NEG:
  case AST_OP_NOT: break;
  }
  TD_ICE(c->task, "operator %d has one operand", (int)op);
}

/* The right side is read even if the left one failed. */
static sem_expr_t *join(sem_ctx_t *c, const ast_expr_t *node, sem_expr_t *a) {
  sem_expr_t *b = sem_check_expr(c, node->kids[1]);
  if (a == NULL || b == NULL) return NULL;
  return sem_binary(c, binary_op(c, node->op), a, b, node->loc,
                    node->op_loc);
}

/* a and b and c ...: what is on the left is known on the right.  Facts of a
 * run of one operator pile up and go at its end. */
static sem_expr_t *join_lazy(sem_ctx_t *c, const ast_spine_t *spine,
                             size_t *i, sem_expr_t *a) {
  ast_op_t op = spine->nodes[*i]->op;
  size_t mark = ix_facts_mark(c->facts);
  size_t facts = 0;
  uint32_t unproved = c->unproved;
  sem_expr_t *newest = a;
  for (;; (*i)++) {
    const ast_expr_t *node = spine->nodes[*i];
    if (newest != NULL && facts++ < 64 &&
        !sem_assume(c, newest, op == AST_OP_AND)) {
      c->unproved++;
    }
    newest = sem_check_expr(c, node->kids[1]);
    a = a == NULL || newest == NULL
            ? NULL
            : sem_binary(c, binary_op(c, op), a, newest, node->loc,
                         node->op_loc);
    bool more = *i + 1 < spine->count &&
                spine->nodes[*i + 1]->kind == AST_BINARY &&
                spine->nodes[*i + 1]->op == op;
    if (!more) break;
  }
  c->unproved = unproved;
  ix_facts_release(c->facts, mark);
  return a;
}

static sem_expr_t *check_leaf(sem_ctx_t *c, const ast_expr_t *e);

/* A call names its function, which is no value; the chain then begins behind
 * it. */
static sem_expr_t *check_chain(sem_ctx_t *c, const ast_expr_t *e) {
  ast_spine_t spine = ast_spine(c->arena, (ast_expr_t *)(uintptr_t)e);
  size_t i = 1;
  sem_expr_t *value = NULL;
  if (spine.count > 1 && spine.nodes[1]->kind == AST_CALL) {
    value = sem_call(c, spine.nodes[1]);
    i = 2;
  } else {
    value = check_leaf(c, spine.nodes[0]);
  }
  for (; i < spine.count; i++) {
    const ast_expr_t *node = spine.nodes[i];
    if (node->kind == AST_BINARY) {
      bool lazy = node->op == AST_OP_AND || node->op == AST_OP_OR;
      value = lazy ? join_lazy(c, &spine, &i, value) : join(c, node, value);
    } else if (node->kind == AST_FIELD) {
      value = sem_field(c, value, node);
    } else if (node->kind == AST_SUBSCRIPT) {
      value = sem_subscript(c, value, node);
    } else {
      sem_report(c, TD_E01, node->loc, "%s is not a function",
                 sem_text(c, node->kids[0]));
      value = NULL;
    }
    if ((i & 1023) == 0) td_task_poll(c->task);
  }
  return value;
}

/* ---- dispatch ------------------------------------------------------------ */

/* Everything that is no left chain. What it recurses into is nesting, which
 * the parser has capped. */
static sem_expr_t *check_leaf(sem_ctx_t *c, const ast_expr_t *e) {
  switch (e->kind) {
  case AST_NAME: return name_value(c, e);
  case AST_INT:
  case AST_FLOAT:
  case AST_BOOL:
  case AST_INF: return literal(c, e);
  case AST_STRING: return string_value(c, e);
  case AST_UNARY: {
    bool is_not = e->op == AST_OP_NOT;
    sem_expr_t *a = is_not ? sem_check_cond(c, e->kids[0])
                           : sem_check_expr(c, e->kids[0]);
    return a == NULL ? NULL
                     : sem_unary(c, is_not ? SEM_OP_NOT : SEM_OP_NEG, a,
                                 e->loc, ast_op_text(e->op));
  }
  case AST_IF: return check_if(c, e);
  case AST_REDUCE: return sem_reduction(c, e);
  case AST_REDCALL: return sem_reduction_call(c, e);
  case AST_CAST: return sem_cast(c, e);
  case AST_BINARY: return join(c, e, sem_check_expr(c, e->kids[0])); /* ^ */
  case AST_FIELD:
  case AST_CALL:
  case AST_SUBSCRIPT: break;
  }
  TD_ICE(c->task, "expression %d is no leaf of a chain", (int)e->kind);
}

/* The entry of all; quiet and unproved say how much is done. */
sem_expr_t *sem_check_expr(sem_ctx_t *c, const ast_expr_t *e) {
  if (e == NULL) return NULL;
  if (ast_left(e) != NULL) return check_chain(c, e);
  return check_leaf(c, e);
}

/* Remembered while it is read: E02 looks for the operator at which a
 * reduction ended. */
sem_expr_t *sem_check_formula(sem_ctx_t *c, const ast_expr_t *e) {
  td_vec_push(c->arena, &c->formula, e);
  sem_expr_t *value = sem_check_expr(c, e);
  (void)td_vec_pop(&c->formula);
  return value;
}

/* Tensors and structs where one number is wanted have different cures. */
static bool one_value(sem_ctx_t *c, const ast_expr_t *e,
                      const sem_expr_t *value, const char *what) {
  if (sem_is_struct(value)) {
    sem_report(c, TD_E46, e->loc, "expected %s here, %s is a struct", what,
               sem_text(c, e));
    return false;
  }
  if (value->type.rank == 0) return true;
  td_diag_t *d =
      sem_report(c, TD_E38, e->loc, "expected %s here, %s is %s", what,
                 sem_text(c, e), sem_type_text(c, &value->type));
  td_diag_help(d, "give it subscripts, or reduce it");
  return false;
}

/* A bool of rank 0. There is no truth of numbers. */
sem_expr_t *sem_check_cond(sem_ctx_t *c, const ast_expr_t *e) {
  sem_expr_t *value = sem_check_expr(c, e);
  if (value == NULL) return NULL;
  if (!sem_is_bool(value)) {
    td_diag_t *d = sem_report(c, TD_E46, e->loc,
                              "expected a bool here, %s is %s",
                              sem_text(c, e),
                              sem_type_text(c, &value->type));
    td_diag_help(d, "compare it: `%s != 0`", sem_text(c, e));
    return NULL;
  }
  if (value->type.rank > 0) {
    td_diag_t *d = sem_report(c, TD_E46, e->loc,
                              "expected one bool here, %s has dims %s",
                              sem_text(c, e),
                              sem_shape_text(c, &value->type));
    td_diag_help(d, "give it subscripts, or `all(...)`, `any(...)`");
    return NULL;
  }
  return value;
}

/* E45 for a constant that is no integer, E18 for a float that could be cast. */
sem_expr_t *sem_check_int(sem_ctx_t *c, const ast_expr_t *e) {
  sem_expr_t *value = sem_check_expr(c, e);
  if (value == NULL || !one_value(c, e, value, "one integer")) return NULL;
  if (sem_is_int(value)) return value;
  if (sem_is_bool(value)) {
    sem_report(c, TD_E46, e->loc, "expected a number here, %s is a bool",
               sem_text(c, e));
  } else if (sem_is_number_const(value)) {
    sem_report(c, TD_E45, e->loc, "%s is not an integer", sem_text(c, e));
  } else {
    td_diag_t *d = sem_report(c, TD_E18, e->loc,
                              "an integer meets a float: %s is %s",
                              sem_text(c, e),
                              sem_type_text(c, &value->type));
    td_diag_help(d, "write `i32(%s)`", sem_text(c, e));
  }
  return NULL;
}
