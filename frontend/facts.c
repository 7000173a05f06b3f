/* facts.c: `require`, and what can be proved of a condition.
 *
 * A condition over numbers is decided (E36 if false).  Any other is a fact
 * that proofs may use; those with dynamic dims or parameters are checked at
 * entry, those of a function also at each of its calls. */
#include "frontend/check.h"

/* ---- what may stand in a require (E54) ----------------------------------- */

typedef struct operands {
  sem_ctx_t *c;
  const ast_expr_t *bad; /* first operand of another kind */
} operands_t;

/* Dims, consts and generics are no symbols of a function; of symbols scalar
 * parameters alone are known at a call. */
static bool is_operand(const sem_ctx_t *c, const ast_expr_t *e) {
  const sem_entry_t *entry = sem_lookup(c, e->text);
  if (entry == NULL || entry->kind != SEM_ENTRY_SYMBOL) return true;
  sem_symbol_kind_t kind = entry->symbol->kind;
  return (kind == SEM_PARAM || kind == SEM_INOUT) &&
         entry->symbol->type.kind == SEM_TENSOR &&
         entry->symbol->type.rank == 0;
}

/* Only what both a call and an entry check can evaluate without memory. */
static bool visit_operand(ast_expr_t *e, void *user) {
  operands_t *o = user;
  if (o->bad != NULL) return false;
  switch (e->kind) {
  case AST_NAME:
    if (!is_operand(o->c, e)) o->bad = e;
    return true;
  case AST_INT:
  case AST_FLOAT:
  case AST_BOOL:
  case AST_INF:
  case AST_STRING:
  case AST_UNARY:
  case AST_BINARY:
  case AST_IF:
  case AST_CAST: return true;
  case AST_REDCALL:
    if (e->kid_count != 2) o->bad = e;
    return true;
  case AST_REDUCE:
  case AST_FIELD:
  case AST_CALL:
  case AST_SUBSCRIPT: o->bad = e; return false;
  }
  return true;
}

/* The first fault is enough: its cure is the same for all. */
static bool check_operands(sem_ctx_t *c, const ast_expr_t *e) {
  operands_t o = {c, NULL};
  ast_visit(c->task, (ast_expr_t *)(uintptr_t)e, visit_operand, &o);
  if (o.bad == NULL) return true;
  td_diag_t *d = sem_report(c, TD_E54, o.bad->loc,
                            "`require` speaks of dims, consts and scalar "
                            "parameters, not of %s", sem_text(c, o.bad));
  td_diag_help(d, "`assert` tests values while a test or a checked build "
               "runs");
  return false;
}

/* ---- deciding ------------------------------------------------------------ */

typedef struct name_list {
  sem_ctx_t *c;
  td_buf_t text;
  TD_VEC(const char *) seen;
} name_list_t;

/* Each name once, in the order of the text. */
static bool visit_value(ast_expr_t *e, void *user) {
  name_list_t *l = user;
  if (e->kind != AST_NAME) return true;
  for (size_t i = 0; i < l->seen.length; i++) {
    if (l->seen.data[i] == e->text) return true;
  }
  td_vec_push(l->c->arena, &l->seen, e->text);
  const sem_global_t *g = sem_lookup_global(l->c, e->text);
  const sem_entry_t *entry = sem_lookup(l->c, e->text);
  const char *value = NULL;
  if (entry != NULL && entry->kind == SEM_ENTRY_GENERIC) {
    value = ix_text(l->c->arena, entry->poly);
  } else if (g != NULL && g->number.kind != SEM_NUMBER_NONE) {
    value = sem_number_text(l->c, g->number);
  }
  if (value == NULL) return true;
  if (l->text.length > 0) td_buf_puts(&l->text, ", ");
  td_buf_printf(&l->text, "%s = %s", e->text, value);
  return true;
}

/* "A = 4, B = 5" for the names of an expression. */
const char *sem_values_text(sem_ctx_t *c, const ast_expr_t *e) {
  name_list_t l = {.c = c};
  td_buf_init(&l.text, c->task);
  ast_visit(c->task, (ast_expr_t *)(uintptr_t)e, visit_value, &l);
  return td_buf_finish(&l.text, c->arena);
}

/* With values at hand the reader sees at once which number is wrong. */
static void report_false(sem_ctx_t *c, const ast_expr_t *e) {
  const char *values = sem_values_text(c, e);
  td_diag_t *d;
  if (values[0] == '\0') {
    d = sem_report(c, TD_E36, e->loc, "`require` is false");
  } else {
    d = sem_report(c, TD_E36, e->loc, "`require` is false: %s", values);
  }
  td_diag_beside(d, "%s", sem_text(c, e));
  if (e->kind == AST_BINARY) {
    for (int i = 0; i < 2; i++) {
      const ast_expr_t *kid = e->kids[i];
      if (kid->kind != AST_NAME) continue;
      const sem_global_t *g = sem_lookup_global(c, kid->text);
      if (g != NULL && g->loc.line != 0) {
        td_diag_label(d, g->loc, "%s = %s", kid->text,
                      sem_number_text(c, g->number));
      }
    }
  }
}

/* ---- facts --------------------------------------------------------------- */

/* ORDER sem_op: the comparisons are neighbours. */
static bool is_comparison(sem_op_t op) {
  return op >= SEM_OP_EQ && op <= SEM_OP_GE;
}

/* A comparison of integers whose values are known in normal form. */
static bool comparison_polys(const sem_expr_t *e, const ix_poly_t **a,
                             const ix_poly_t **b) {
  if (e->kind != SEM_BINARY || !is_comparison(e->op)) return false;
  *a = e->args[0]->poly;
  *b = e->args[1]->poly;
  return *a != NULL && *b != NULL && sem_is_int(e->args[0]) &&
         sem_is_int(e->args[1]);
}

/* mod(p, q) alone, compared with 0. */
static bool as_divides(const ix_poly_t *a, const ix_poly_t *b,
                       const ix_poly_t **p, const ix_poly_t **q) {
  int64_t zero = 1;
  if (!ix_is_const(b, &zero) || zero != 0) return false;
  if (a->term_count != 1 || a->terms[0].coefficient != 1 ||
      a->terms[0].atom_count != 1 ||
      a->terms[0].atoms[0]->kind != IX_ATOM_MOD) {
    return false;
  }
  *p = a->terms[0].atoms[0]->p;
  *q = a->terms[0].atoms[0]->q;
  return true;
}

/* Equalities replace names, divisibility splits them, inequalities are
 * facts. The facts in force are applied first, so that a second equality
 * meets the first. */
static void assume_comparison(sem_ctx_t *c, sem_op_t op, const ix_poly_t *a,
                              const ix_poly_t *b) {
  const ix_poly_t *one = ix_const(c->pool, 1);
  const ix_poly_t *p, *q;
  a = ix_apply_facts(c->pool, a, c->facts);
  b = ix_apply_facts(c->pool, b, c->facts);
  if (a == NULL || b == NULL) return;
  const ix_poly_t *ab = ix_sub(c->pool, a, b), *ba = ix_sub(c->pool, b, a);
  switch (op) {
  case SEM_OP_EQ:
    if (as_divides(a, b, &p, &q) || as_divides(b, a, &p, &q)) {
      ix_facts_require_divides(c->facts, p, q);
    } else {
      ix_facts_require_equal(c->facts, a, b);
    }
    break;
  case SEM_OP_LE: ix_facts_add(c->facts, ba); break;
  case SEM_OP_GE: ix_facts_add(c->facts, ab); break;
  case SEM_OP_LT: ix_facts_add(c->facts, ix_sub(c->pool, ba, one)); break;
  case SEM_OP_GT: ix_facts_add(c->facts, ix_sub(c->pool, ab, one)); break;
  default: break; /* != says nothing that a proof can use */
  }
}

/* Both sides of `and` hold. `or` says nothing that the procedure could use. */
void sem_assume_require(sem_ctx_t *c, const sem_expr_t *cond) {
  const ix_poly_t *a, *b;
  while (cond->kind == SEM_BINARY && cond->op == SEM_OP_AND) {
    sem_assume_require(c, cond->args[1]);
    cond = cond->args[0];
  }
  if (comparison_polys(cond, &a, &b)) assume_comparison(c, cond->op, a, b);
}

/* ---- proofs of conditions ------------------------------------------------ */

/* 1 if p >= 0, -1 if p <= -1, 0 if neither can be shown. */
static int prove_sign(sem_ctx_t *c, const ix_poly_t *p) {
  if (sem_nonneg(c, p)) return 1;
  const ix_poly_t *minus = ix_sub(c->pool, ix_const(c->pool, -1), p);
  return sem_nonneg(c, minus) ? -1 : 0;
}

/* Identical normal forms, or squeezed from both sides. */
static int prove_equal(sem_ctx_t *c, const ix_poly_t *a, const ix_poly_t *b) {
  if (a == NULL || b == NULL) return 0;
  if (sem_same_dim(c, a, b)) return 1;
  const ix_poly_t *d = ix_sub(c->pool, a, b);
  const ix_poly_t *one = ix_const(c->pool, 1);
  if (sem_nonneg(c, d) && sem_nonneg(c, ix_neg(c->pool, d))) return 1;
  if (sem_nonneg(c, ix_sub(c->pool, d, one))) return -1;
  if (sem_nonneg(c, ix_sub(c->pool, ix_neg(c->pool, d), one))) return -1;
  return 0;
}

/* All comparisons are signs of one difference. */
static int prove_comparison(sem_ctx_t *c, sem_op_t op, const ix_poly_t *a,
                            const ix_poly_t *b) {
  const ix_poly_t *one = ix_const(c->pool, 1);
  const ix_poly_t *ab = ix_sub(c->pool, a, b), *ba = ix_sub(c->pool, b, a);
  switch (op) {
  case SEM_OP_EQ: return prove_equal(c, a, b);
  case SEM_OP_NE: return -prove_equal(c, a, b);
  case SEM_OP_LE: return prove_sign(c, ba);
  case SEM_OP_GE: return prove_sign(c, ab);
  case SEM_OP_LT: return prove_sign(c, ix_sub(c->pool, ba, one));
  case SEM_OP_GT: return prove_sign(c, ix_sub(c->pool, ab, one));
  default: return 0;
  }
}

/* The condition of a callee in the terms of the call. */
static const ix_poly_t *mapped(sem_ctx_t *c, const ix_poly_t *p,
                               ix_subst_fn map, void *user) {
  if (map != NULL && p != NULL) {
    p = ix_subst(c->pool, p, map, user, c->facts);
  }
  return p == NULL ? NULL : ix_apply_facts(c->pool, p, c->facts);
}

/* Comparisons of floats prove nothing: their operands are parameters. */
static int prove_one(sem_ctx_t *c, const sem_expr_t *e, ix_subst_fn map,
                     void *user) {
  const ix_poly_t *a, *b;
  if (e->kind == SEM_CONST) return e->i64 ? 1 : -1;
  if (e->kind == SEM_UNARY && e->op == SEM_OP_NOT) {
    return -sem_prove(c, e->args[0], map, user);
  }
  if (!comparison_polys(e, &a, &b)) return 0;
  a = mapped(c, a, map, user);
  b = mapped(c, b, map, user);
  if (a == NULL || b == NULL) return 0;
  return prove_comparison(c, e->op, a, b);
}

/* Lazy operators need no laziness here: a condition has no effects. */
int sem_prove(sem_ctx_t *c, const sem_expr_t *e, ix_subst_fn map, void *user) {
  if (e->kind != SEM_BINARY ||
      (e->op != SEM_OP_AND && e->op != SEM_OP_OR)) {
    return prove_one(c, e, map, user);
  }
  /* The left chain of one operator, so that a long one needs no stack. */
  sem_op_t op = e->op;
  int decisive = op == SEM_OP_AND ? -1 : 1;
  int result = -decisive;
  for (bool more = true; more;) {
    const sem_expr_t *part = e;
    more = e->kind == SEM_BINARY && e->op == op;
    if (more) {
      part = e->args[1];
      e = e->args[0];
    }
    int r = sem_prove(c, part, map, user);
    if (r == decisive) return decisive;
    if (r == 0) result = 0;
  }
  return result;
}

/* A static dim that is defined by others is a size as well, whatever its
 * formula says. */
void sem_assume_sizes(sem_ctx_t *c) {
  for (size_t i = 0; i < c->globals.length; i++) {
    const sem_global_t *g = c->globals.data[i];
    int64_t number = 0;
    if (g->kind != SEM_GLOBAL_DIM || g->failed || g->symbol != NULL) continue;
    if (g->poly == NULL || ix_is_const(g->poly, &number)) continue;
    const ix_poly_t *p = ix_apply_facts(c->pool, g->poly, c->facts);
    ix_facts_add(c->facts, ix_sub(c->pool, p, ix_const(c->pool, 1)));
  }
}

/* ---- require ------------------------------------------------------------- */

/* One dim alone, with coefficient 1. */
static bool is_dim(const sem_expr_t *e) {
  return e->poly != NULL && ix_as_symbol(e->poly) != NULL;
}

/* `A == B` with a name that was replaced: nothing mentions it any more, the
 * shapes of the arguments say the rest. */
static bool is_replaced(sem_ctx_t *c, const sem_expr_t *cond) {
  if (cond->kind != SEM_BINARY || cond->op != SEM_OP_EQ) return false;
  const ix_poly_t *a, *b;
  if (!comparison_polys(cond, &a, &b)) return false;
  if (!is_dim(cond->args[0]) && !is_dim(cond->args[1])) return false;
  return sem_same_dim(c, a, b);
}

/* Does evaluating the condition need dims of these kinds or a parameter?
 * Then it is checked at entry. */
static bool mentions(const sem_expr_t *e, uint32_t has) {
  while (e != NULL) {
    if (e->poly != NULL && (e->poly->below.has & has) != 0) return true;
    if (e->kind == SEM_NAME) return true; /* a parameter */
    for (uint32_t i = 1; i < e->arg_count; i++) {
      if (mentions(e->args[i], has)) return true;
    }
    e = e->arg_count > 0 ? e->args[0] : NULL;
  }
  return false;
}

/* Conditions are kept as the text says them, without the facts in force: a
 * call proves them in its own terms, and every body assumes them anew. */
void sem_require_expr(sem_ctx_t *c, const ast_expr_t *e,
                      sem_instance_t *inst) {
  if (!check_operands(c, e)) return;
  size_t first = c->exprs.length;
  sem_expr_t *cond = sem_check_cond(c, e);
  if (cond == NULL) return;
  int known = cond->kind == SEM_CONST ? (cond->i64 ? 1 : -1) : 0;
  if (known > 0) return;
  if (known < 0) {
    report_false(c, e);
    /* Proofs would miss it and report what follows from it. */
    if (inst == NULL) c->is_inconsistent = true;
    return;
  }
  sem_require_t r = {cond, e->loc};
  sem_restore_exprs(c, first);
  sem_assume_require(c, cond);
  uint32_t dynamic = 1u << IX_SYM_DYN | 1u << IX_SYM_DATA;
  if (inst != NULL) {
    td_vec_push(c->arena, &inst->conditions, r);
    return;
  }
  td_vec_push(c->arena, &c->base_requires, cond);
  if (mentions(cond, dynamic) && !is_replaced(c, cond)) {
    td_vec_push(c->arena, &c->requires, r);
  }
}

/* Facts of imported files hold as well: their dims are bound, or do not
 * occur, in every entry point. */
void sem_module_requires(sem_ctx_t *c, sem_module_t *m) {
  c->module = m;
  for (size_t i = 0; i < m->ast->decl_count; i++) {
    const ast_decl_t *d = m->ast->decls[i];
    if (d->kind != AST_DECL_REQUIRE) continue;
    for (size_t k = 0; k < d->expr_count; k++) {
      sem_require_expr(c, d->exprs[k], NULL);
    }
  }
}
