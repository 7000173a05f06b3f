/* grads.c: what may lie between a value and a derivative (E33).
 *
 * A GRAD asks for the derivative of its loss by a name p.  Statements before
 * it are walked in order with the names that p influences; a name is *broken*
 * if p reaches it through an element update, an update of an inout, or a call
 * that does such a thing inside.  A broken loss is E33, and so is a p that
 * was itself written before. */
#include "frontend/check.h"

typedef struct walk {
  sem_ctx_t *c;
  const sem_expr_t *grad;
  const sem_symbol_t *p;
  td_map_t state; /* symbol -> marks */
  bool found;     /* the statement with the grad was reached */
  td_loc_t written, broke;
} walk_t;

static const char touched_mark = 1, broken_mark = 2;

/* NULL: p does not reach the name. */
static const void *mark_of(const walk_t *w, const sem_symbol_t *s) {
  return td_map_get_u64(&w->state, (uint64_t)(uintptr_t)s);
}

/* A broken name stays broken. */
static void set_mark(walk_t *w, const sem_symbol_t *s,
                     const void *mark) {
  if (mark == NULL || mark_of(w, s) == &broken_mark) return;
  td_map_put_u64(&w->state, (uint64_t)(uintptr_t)s,
                 (void *)(uintptr_t)mark);
}

/* Places of `each` lead to the struct they are in. */
static const sem_symbol_t *root_symbol(const sem_expr_t *place) {
  const sem_expr_t *root = sem_root(place);
  while (root != NULL && root->symbol->kind == SEM_PLACE) {
    root = sem_root(root->symbol->place);
  }
  return root == NULL ? NULL : root->symbol;
}

/* ---- expressions, with a stack of our own -------------------------------- */

typedef TD_VEC(const sem_expr_t *) exprs_t;

/* Absent kids are left out. */
static void push(sem_ctx_t *c, exprs_t *todo, const sem_expr_t *e) {
  if (e != NULL) td_vec_push(c->arena, todo, e);
}

/* Everything an expression reads. */
static void push_kids(sem_ctx_t *c, exprs_t *todo, const sem_expr_t *e) {
  for (uint32_t i = 0; i < e->arg_count; i++) push(c, todo, e->args[i]);
  for (uint32_t i = 0; i < e->sub_count; i++) push(c, todo, e->subs[i].expr);
  push(c, todo, e->otherwise);
  push(c, todo, e->guard);
}

/* Is this the statement of the grad? */
static bool contains(sem_ctx_t *c, const sem_expr_t *e,
                     const sem_expr_t *wanted) {
  exprs_t todo = {0};
  push(c, &todo, e);
  while (todo.length > 0) {
    const sem_expr_t *x = td_vec_pop(&todo);
    if (x == wanted) return true;
    push_kids(c, &todo, x);
  }
  return false;
}

/* The worst mark of the names that are read. */
static const void *expr_mark(walk_t *w, const sem_expr_t *e) {
  exprs_t todo = {0};
  const void *mark = NULL;
  push(w->c, &todo, e);
  while (todo.length > 0) {
    const sem_expr_t *x = td_vec_pop(&todo);
    if (x->kind == SEM_NAME) {
      const sem_symbol_t *s = root_symbol(x);
      const void *m = s == NULL ? NULL : mark_of(w, s);
      if (m == &broken_mark) return m;
      if (m != NULL) mark = m;
    }
    if (x->kind == SEM_GRAD) continue; /* no second derivatives */
    push_kids(w->c, &todo, x);
  }
  return mark;
}

/* A call whose inside stops derivatives breaks what it makes of p. */
static const void *value_mark(walk_t *w, const sem_expr_t *e) {
  const void *mark = expr_mark(w, e);
  if (mark != &touched_mark) return mark;
  exprs_t todo = {0};
  push(w->c, &todo, e);
  while (todo.length > 0) {
    const sem_expr_t *x = td_vec_pop(&todo);
    if (x->kind == SEM_CALL) {
      const sem_instance_t *callee = (const sem_instance_t *)x->callee;
      if (callee->stops_grad) {
        for (uint32_t i = 0; i < x->arg_count; i++) {
          if (expr_mark(w, x->args[i]) == NULL) continue;
          w->broke = x->loc;
          return &broken_mark;
        }
      }
    }
    push_kids(w->c, &todo, x);
  }
  return mark;
}

/* ---- statements ---------------------------------------------------------- */

/* A call may write what p has reached, or p itself. */
static void mark_inouts(walk_t *w, const sem_expr_t *e,
                        const void *mark) {
  if (e == NULL || e->kind != SEM_CALL) return;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (e->callee->params[i]->kind != SEM_INOUT) continue;
    const sem_symbol_t *s = root_symbol(e->args[i]);
    if (s == w->p) w->written = e->loc;
    if (mark != NULL && s != NULL) {
      w->broke = e->loc;
      set_mark(w, s, &broken_mark);
    }
  }
}

static void walk_block(walk_t *w, const sem_block_t *b);

/* Whole updates of a var are followed, element updates are not. */
static void walk_update(walk_t *w, const sem_stmt_t *s) {
  const sem_symbol_t *root = root_symbol(s->place);
  const void *mark = value_mark(w, s->value);
  mark_inouts(w, s->value, mark);
  if (root == w->p) w->written = s->loc;
  bool breaks = (s->sub_count > 0 && !s->is_accumulate) ||
                (root != NULL && root->kind == SEM_INOUT);
  if (root == NULL) return;
  if (mark == NULL) mark = mark_of(w, root);
  if (mark == &touched_mark && breaks) {
    w->broke = s->loc;
    mark = &broken_mark;
  }
  set_mark(w, root, mark);
}

/* Up to the statement that holds the grad. */
static void walk_stmt(walk_t *w, const sem_stmt_t *s) {
  if (s->value != NULL && contains(w->c, s->value, w->grad)) {
    w->found = true;
    return;
  }
  switch (s->kind) {
  case SEM_DEFINE: {
    const void *mark = value_mark(w, s->value);
    mark_inouts(w, s->value, mark);
    for (uint32_t i = 0; i < s->target_count; i++) {
      set_mark(w, s->targets[i].symbol, mark);
    }
    break;
  }
  case SEM_UPDATE: walk_update(w, s); break;
  case SEM_CALL_STMT:
    mark_inouts(w, s->value, value_mark(w, s->value));
    break;
  case SEM_FOR:
  case SEM_SCOPE: walk_block(w, s->body); break;
  case SEM_EACH:
    for (uint32_t i = 0; i < s->leaf_count && !w->found; i++) {
      walk_block(w, s->leaves[i].body);
    }
    break;
  case SEM_ASSERT: break;
  }
}

/* In the order of the text; a loop is walked once. */
static void walk_block(walk_t *w, const sem_block_t *b) {
  for (uint32_t i = 0; i < b->stmt_count && !w->found; i++) {
    walk_stmt(w, b->stmts[i]);
  }
}

/* ---- every grad of a function -------------------------------------------- */

/* Two faults with two cures: p itself changed, or something between. */
static void report(sem_ctx_t *c, const walk_t *w) {
  const char *name = w->p->name;
  td_diag_t *d;
  if (w->written.line != 0) {
    d = sem_report(c, TD_E33, w->grad->loc,
                   "grad with respect to %s, which was written before", name);
    td_diag_label(d, w->written, "%s is updated here", name);
    td_diag_help(d, "name the value that is meant: `p = %s` before its use",
                 name);
    return;
  }
  d = sem_report(c, TD_E33, w->grad->loc,
                 "grad cannot follow %s to the loss: it is behind an update",
                 name);
  if (w->broke.line != 0) {
    td_diag_label(d, w->broke, "an element update, an update of an `inout`, "
                  "or a call that has one or a grad");
  }
  td_diag_help(d, "define a new value instead: `y[i] = if ... then ... else "
               "x[i]`");
}

/* From the beginning of the function: what p reaches is not kept between
 * grads. */
static void check_one(sem_ctx_t *c, sem_instance_t *inst,
                      const sem_expr_t *grad) {
  walk_t w = {.c = c, .grad = grad, .p = grad->args[1]->symbol};
  td_map_init(&w.state, c->arena);
  set_mark(&w, w.p, &touched_mark);
  walk_block(&w, inst->func.body);
  if (!w.found) return;
  if (w.p->kind == SEM_INOUT && w.written.line != 0) {
    report(c, &w);
  } else if (value_mark(&w, grad->args[0]) == &broken_mark) {
    w.written.line = 0;
    report(c, &w);
  }
}

/* In the order of the text. */
static void collect(sem_ctx_t *c, const sem_block_t *b, exprs_t *out) {
  for (uint32_t i = 0; i < b->stmt_count; i++) {
    const sem_stmt_t *s = b->stmts[i];
    exprs_t todo = {0};
    push(c, &todo, s->value);
    while (todo.length > 0) {
      const sem_expr_t *x = td_vec_pop(&todo);
      if (x->kind == SEM_GRAD) td_vec_push(c->arena, out, x);
      push_kids(c, &todo, x);
    }
    if (s->body != NULL) collect(c, s->body, out);
    for (uint32_t k = 0; k < s->leaf_count; k++) {
      collect(c, s->leaves[k].body, out);
    }
  }
}

/* Called when all bodies are checked, so that callees are known to stop
 * derivatives or not. */
void sem_check_grads(sem_ctx_t *c, sem_instance_t *inst) {
  if (!inst->has_own_grad || inst->func.body == NULL) return;
  exprs_t grads = {0};
  c->inst = inst;
  c->module = inst->fn->module;
  collect(c, inst->func.body, &grads);
  for (size_t i = 0; i < grads.length; i++) {
    check_one(c, inst, grads.data[i]);
  }
}
