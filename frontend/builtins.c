/* builtins.c: functions of the language, and casts. */
#include "frontend/check.h"

const char *const sem_builtin_names[] = {
    "exp",  "exp2", "log",   "log2", "sqrt",  "rsqrt", "sin",
    "cos",  "tanh", "erf",   "abs",  "floor", "ceil",  "round",
    "topk", "uniform", "rank", "config", "grad", NULL};

static const sem_op_t function_ops[] = {
    SEM_OP_EXP,  SEM_OP_EXP2, SEM_OP_LOG,  SEM_OP_LOG2, SEM_OP_SQRT,
    SEM_OP_RSQRT, SEM_OP_SIN, SEM_OP_COS,  SEM_OP_TANH, SEM_OP_ERF,
    SEM_OP_ABS,  SEM_OP_FLOOR, SEM_OP_CEIL, SEM_OP_ROUND};

enum { FUNCTION_COUNT = sizeof function_ops / sizeof *function_ops };

/* ORDER sem_builtin_names: the functions of one number come first. */
static int builtin_number(const char *name) {
  for (int i = 0; sem_builtin_names[i] != NULL; i++) {
    if (strcmp(sem_builtin_names[i], name) == 0) return i;
  }
  return -1;
}

/* A function of the text of this name hides it. */
bool sem_is_builtin(const char *name) {
  return builtin_number(name) >= 0;
}

/* All arguments positional values, from `least` to `most` of them. */
static bool check_arguments(sem_ctx_t *c, const ast_expr_t *e,
                            const char *name, size_t least, size_t most,
                            const char *form) {
  bool ok = e->arg_count >= least && e->arg_count <= most;
  for (size_t i = 0; i < e->arg_count; i++) {
    ok = ok && e->args[i].name.text == NULL && e->args[i].value != NULL;
  }
  if (ok) return true;
  td_diag_t *d = sem_report(c, TD_E47, e->loc,
                            "wrong arguments of %s: %zu given", name,
                            e->arg_count);
  td_diag_help(d, "write `%s`", form);
  return false;
}

/* ---- casts --------------------------------------------------------------- */

/* What looks like a dtype and is no place to convert to. */
static bool cast_target(sem_ctx_t *c, const ast_expr_t *e) {
  if (e->dtype == TDSL_DTYPE_UNSET) {
    td_diag_t *d = sem_report(c, TD_E43, e->op_loc,
                              "tf32 is not a storage type");
    td_diag_help(d, "write `with tf32` on the function whose sums may round "
                 "their factors");
    return false;
  }
  if (e->dtype == TDSL_DTYPE_BOOL) {
    td_diag_t *d = sem_report(c, TD_E46, e->op_loc, "bool is not a cast");
    td_diag_help(d, "write `x != 0`");
    return false;
  }
  return true;
}

/* The range behind a saturating conversion. i32 of a value without range has
 * none: as a subscript it would only be wrong elsewhere. */
static const ix_poly_t *clamped(sem_ctx_t *c, const sem_expr_t *a,
                                sem_expr_t *e, tdsl_dtype_t dtype) {
  const ix_poly_t *p = sem_element_poly(c, a), *lo = NULL, *hi = NULL;
  const ix_poly_t *least = ix_const(c->pool, td_dtype_min(dtype));
  if (dtype == TDSL_DTYPE_I64) return p;
  const ix_poly_t *most = ix_const(c->pool, td_dtype_max(dtype) + 1);
  if (sem_in_range(c, p, least, most)) return p;
  sem_ends(c, p, &lo, &hi);
  bool narrow = dtype != TDSL_DTYPE_I32;
  lo = lo != NULL ? ix_min(c->pool, ix_max(c->pool, lo, least), most)
                  : (narrow ? least : NULL);
  hi = hi != NULL ? ix_max(c->pool, ix_min(c->pool, hi, most), least)
                  : (narrow ? most : NULL);
  return sem_opaque(c, "a cast", e->loc, lo, hi);
}

/* Bools are 0 and 1; floats can be anything that the type holds. */
static void int_range(sem_ctx_t *c, sem_expr_t *e, const sem_expr_t *a) {
  tdsl_dtype_t dtype = e->type.dtype;
  const ix_poly_t *p = NULL;
  if (sem_is_bool(a)) {
    p = sem_opaque(c, "a cast", e->loc, ix_const(c->pool, 0),
                   ix_const(c->pool, 2));
  } else if (sem_is_int(a)) {
    p = clamped(c, a, e, dtype);
  } else if (dtype == TDSL_DTYPE_I8 || dtype == TDSL_DTYPE_U8) {
    p = sem_opaque(c, "a cast", e->loc,
                   ix_const(c->pool, td_dtype_min(dtype)),
                   ix_const(c->pool, td_dtype_max(dtype) + 1));
  } else {
    p = sem_opaque(c, "a cast", e->loc, NULL, NULL);
  }
  if (e->type.rank == 0) {
    e->poly = p;
    if (ix_as_symbol(p) != NULL) sem_set_width(c, ix_as_symbol(p), dtype);
  } else {
    sem_ends(c, p, &e->type.lo, &e->type.hi);
  }
}

/* Constants are converted from what they are, not from the f32 they would
 * be. */
sem_expr_t *sem_cast(sem_ctx_t *c, const ast_expr_t *e) {
  bool ok = cast_target(c, e);
  sem_expr_t *a = sem_check_expr(c, e->kids[0]);
  if (!ok || a == NULL) return NULL;
  sem_expr_t *x = sem_new_expr(c, SEM_CAST, e->loc);
  x->arg_count = 1;
  x->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 1);
  x->type = a->type;
  x->type.syntax = NULL;
  x->type.lo = x->type.hi = NULL;
  x->type.dtype = e->dtype;
  if (sem_is_struct(a)) {
    if (!td_dtype_is_float(e->dtype)) {
      sem_report(c, TD_E46, e->op_loc, "a cast of a struct changes its float "
                 "leaves: %s is no float", e->text);
      return NULL;
    }
    x->type.record = sem_struct_as(c, a->type.record, e->dtype);
    x->args[0] = a;
    return x;
  }
  /* The operand is read as it is: no f32 between a constant and f16. */
  sem_expr_t *from = a;
  if (a->is_exact && sem_is_float(a) && a->kind != SEM_CONST) {
    from = sem_adopt(c, a, TDSL_DTYPE_F64);
    from->is_exact = false;
  } else if (a->is_exact) {
    from = sem_adopt(c, a, sem_is_int(a) ? TDSL_DTYPE_I64 : TDSL_DTYPE_F64);
  }
  x->args[0] = from;
  if (td_dtype_is_int(e->dtype)) int_range(c, x, a);
  return x;
}

/* ---- functions of one number --------------------------------------------- */

/* Elementwise over tensors, like all functions of one number. */
static sem_expr_t *function(sem_ctx_t *c, const ast_expr_t *e,
                            const char *name, sem_op_t op) {
  const char *form = td_arena_printf(c->arena, "%s(x)", name);
  if (!check_arguments(c, e, name, 1, 1, form)) return NULL;
  sem_expr_t *a = sem_check_expr(c, e->args[0].value);
  return a == NULL ? NULL : sem_unary(c, op, a, e->loc, name);
}

/* ---- the others ---------------------------------------------------------- */

/* Seed and counters are integers of any width; the draw depends on their
 * values alone. */
static sem_expr_t *uniform(sem_ctx_t *c, const ast_expr_t *e) {
  if (!check_arguments(c, e, "uniform", 2, 5, "uniform(seed, i)")) {
    return NULL;
  }
  sem_expr_t *x = sem_new_expr(c, SEM_UNIFORM, e->loc);
  x->type = sem_scalar(TDSL_DTYPE_F32);
  x->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, e->arg_count);
  bool ok = true;
  for (size_t i = 0; i < e->arg_count; i++) {
    sem_expr_t *a = sem_check_int(c, e->args[i].value);
    ok = ok && a != NULL;
    if (a != NULL) x->args[x->arg_count++] = sem_settle(c, a);
  }
  return ok ? x : NULL;
}

/* A constant: of a leaf inside `each` the rank that its field declares. */
static sem_expr_t *rank_of(sem_ctx_t *c, const ast_expr_t *e) {
  if (!check_arguments(c, e, "rank", 1, 1, "rank(x)")) return NULL;
  sem_expr_t *a = sem_check_expr(c, e->args[0].value);
  if (a == NULL) return NULL;
  if (sem_is_struct(a)) {
    sem_report(c, TD_E47, e->args[0].loc, "rank wants a tensor, this is %s",
               sem_type_text(c, &a->type));
    return NULL;
  }
  sem_number_t n = {SEM_NUMBER_INT, a->type.rank, 0};
  return sem_number_expr(c, n, e->loc);
}

/* k is static: the results have k elements. */
static bool check_topk(sem_ctx_t *c, const ast_expr_t *e, const sem_expr_t *a,
                       const sem_expr_t *k) {
  td_loc_t loc = e->args[1].loc;
  if (!sem_is_int(k) || k->type.rank > 0) {
    sem_report(c, TD_E45, loc, "the second argument of topk is a number of "
               "elements, not %s", sem_type_text(c, &k->type));
    return false;
  }
  if (!k->is_exact || k->kind == SEM_SELECT ||
      ix_mentions_kind(k->poly, IX_SYM_DYN)) {
    td_diag_t *d = sem_report(c, TD_E49, loc,
                              "the second argument of topk is known when "
                              "compiling");
    td_diag_help(d, "give the largest number, and use fewer of the results");
    return false;
  }
  if (c->quiet > 0 || c->unproved > 0) return true;
  const ix_poly_t *n = a->type.dims[0].size;
  if (sem_nonneg(c, k->poly) && sem_nonneg(c, ix_sub(c->pool, n, k->poly))) {
    return true;
  }
  td_diag_t *d = sem_report(c, TD_E41, e->loc,
                            "topk takes %s elements of a dim that has %s",
                            sem_poly_text(c, k->poly),
                            sem_dim_text(c, &a->type.dims[0]));
  td_diag_label(d, e->args[0].loc, "%s", sem_type_text(c, &a->type));
  td_diag_help(d, "add `require %s`",
               sem_inequality_text(c, ix_sub(c->pool, n, k->poly)));
  return false;
}

/* Two results, so it stands alone on the right of two left sides. */
static sem_expr_t *topk(sem_ctx_t *c, const ast_expr_t *e) {
  if (!check_arguments(c, e, "topk", 2, 2, "v, p = topk(x, 4)")) return NULL;
  sem_expr_t *a = sem_check_expr(c, e->args[0].value);
  sem_expr_t *k = sem_check_expr(c, e->args[1].value);
  if (a == NULL || k == NULL) return NULL;
  if (sem_is_struct(a) || sem_is_bool(a) || a->type.rank != 1) {
    td_diag_t *d = sem_report(c, TD_E47, e->args[0].loc,
                              "topk takes a vector of numbers, this is %s",
                              sem_type_text(c, &a->type));
    td_diag_help(d, "map it: `v[n, :], p[n, :] = topk(x[n, :], 4)`");
    return NULL;
  }
  if (k->is_unknown && k->poly != NULL) k = sem_dim_value(c, k->poly, k->loc);
  if (!check_topk(c, e, a, k)) return NULL;
  if (c->quiet == 0 && (c->allowed_many != e || c->many_count != 2)) {
    td_diag_t *d = sem_report(c, TD_E47, e->loc,
                              "topk has 2 results, values and positions");
    td_diag_help(d, "write two left sides: `v, p = topk(x, 4)`");
    return NULL;
  }
  sem_expr_t *x = sem_new_expr(c, SEM_TOPK, e->loc);
  x->arg_count = 1;
  x->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 1);
  x->args[0] = a;
  x->poly = k->poly;
  x->k = k->kind == SEM_CONST ? k->i64 : -1;
  x->type = sem_scalar(sem_arithmetic(a->type.dtype));
  x->type.rank = 1;
  x->type.dims[0] = (sem_dim_t){k->poly, sem_text(c, e->args[1].value),
                                e->args[1].loc};
  if (sem_is_int(a)) {
    x->type.lo = a->type.lo;
    x->type.hi = a->type.hi;
  }
  return x;
}

/* ---- grad ---------------------------------------------------------------- */

/* Same structure, float leaves as accumulated; integers have derivative 0. */
static sem_type_t gradient_type(sem_ctx_t *c, const sem_type_t *p) {
  sem_type_t t = *p;
  t.syntax = NULL;
  if (t.kind == SEM_STRUCT) {
    t.record = sem_struct_gradient(c, t.record);
    t.dtype = TDSL_DTYPE_UNSET;
  } else if (td_dtype_is_float(t.dtype)) {
    t.dtype = sem_arithmetic(t.dtype);
  } else {
    t.lo = t.hi = NULL;
  }
  return t;
}

/* E33: a name that changes has no one value to differentiate by. */
static bool check_grad_name(sem_ctx_t *c, const ast_expr_t *arg,
                            const sem_expr_t *p) {
  if (p->kind != SEM_NAME) {
    td_diag_t *d = sem_report(c, TD_E33, arg->loc,
                              "grad is taken with respect to a name, this is "
                              "%s", sem_text(c, arg));
    td_diag_help(d, "name the value: `p = %s`", sem_text(c, arg));
    return false;
  }
  const sem_symbol_t *s = p->symbol;
  if (s->kind == SEM_VAR || s->is_var || s->kind == SEM_PLACE ||
      s->kind == SEM_LOOP) {
    td_diag_t *d = sem_report(c, TD_E33, arg->loc,
                              "grad with respect to %s, which changes",
                              s->name);
    td_diag_label(d, s->loc, "%s is a var", s->name);
    td_diag_help(d, "define the value with `=`, and start the var from it");
    return false;
  }
  return true;
}

/* What lies between the name and the loss is looked at when all bodies are
 * checked. */
static sem_expr_t *grad(sem_ctx_t *c, const ast_expr_t *e) {
  if (!check_arguments(c, e, "grad", 2, 2, "grad(loss, p)")) return NULL;
  sem_expr_t *loss = sem_check_expr(c, e->args[0].value);
  sem_expr_t *p = sem_check_expr(c, e->args[1].value);
  if (loss == NULL || p == NULL) return NULL;
  if (!sem_is_float(loss) || loss->type.rank > 0 || loss->is_exact) {
    td_diag_t *d = sem_report(c, TD_E33, e->args[0].loc,
                              "grad: the loss is not a float scalar, it is %s",
                              sem_type_text(c, &loss->type));
    td_diag_help(d, "sum it first: `loss = sum(l)`");
    return NULL;
  }
  if (!check_grad_name(c, e->args[1].value, p)) return NULL;
  if (c->inst != NULL) c->inst->func.has_grad = c->inst->has_own_grad = true;
  sem_expr_t *x = sem_new_expr(c, SEM_GRAD, e->loc);
  x->type = gradient_type(c, &p->type);
  x->arg_count = 2;
  x->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 2);
  x->args[0] = loss;
  x->args[1] = p;
  return x;
}

/* ORDER sem_builtin_names. */
sem_expr_t *sem_builtin(sem_ctx_t *c, const ast_expr_t *e,
                        const char *name) {
  int n = builtin_number(name);
  if (n < FUNCTION_COUNT) return function(c, e, name, function_ops[n]);
  if (strcmp(name, "uniform") == 0) return uniform(c, e);
  if (strcmp(name, "rank") == 0) return rank_of(c, e);
  if (strcmp(name, "topk") == 0) return topk(c, e);
  if (strcmp(name, "config") == 0) return sem_config(c, e);
  return grad(c, e);
}
