/* subscripts.c: fields and subscripts. */
#include "frontend/check.h"

/* A place is a path of fields and subscripts from a name. */
const sem_expr_t *sem_root(const sem_expr_t *place) {
  while (place->kind == SEM_FIELD || place->kind == SEM_SUBSCRIPT) {
    place = place->args[0];
  }
  return place->kind == SEM_NAME ? place : NULL;
}

/* The fields of the struct are the candidates for a misspelt one. */
sem_expr_t *sem_field(sem_ctx_t *c, sem_expr_t *base, const ast_expr_t *e) {
  if (base == NULL) return NULL;
  ast_name_t name = {e->text, e->op_loc};
  if (!sem_is_struct(base)) {
    td_diag_t *d = sem_report(c, TD_E01, e->op_loc, "%s has no field %s: it "
                              "is %s", sem_text(c, e->kids[0]), e->text,
                              sem_type_text(c, &base->type));
    td_diag_label(d, e->kids[0]->loc, "%s", sem_type_text(c, &base->type));
    return NULL;
  }
  const sem_struct_t *s = base->type.record;
  for (uint32_t i = 0; i < s->field_count; i++) {
    if (strcmp(s->fields[i].name, e->text) != 0) continue;
    sem_expr_t *f = sem_new_expr(c, SEM_FIELD, e->loc);
    f->field = i;
    f->type = sem_field_type(c, &base->type, i);
    f->arg_count = 1;
    f->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 1);
    f->args[0] = base;
    if (sem_is_int(f) && !sem_is_tensor(f)) f->poly = sem_datum(c, f);
    return f;
  }
  td_map_t fields;
  td_map_init(&fields, c->arena);
  for (uint32_t i = 0; i < s->field_count; i++) {
    td_map_put(&fields, td_str(s->fields[i].name), &s->fields[i]);
  }
  td_diag_t *d = sem_unknown(c, name, td_arena_printf(c->arena,
                             "field of struct %s:", s->name), &fields, NULL,
                             NULL);
  td_diag_label(d, s->loc, "struct %s", s->name);
  return NULL;
}

/* ---- subscripts ---------------------------------------------------------- */

/* A const that config has not given yet may be an integer. */
sem_expr_t *sem_check_subscript(sem_ctx_t *c, const ast_expr_t *e) {
  sem_expr_t *value = sem_check_expr(c, e);
  if (value == NULL) return NULL;
  const char *text = sem_text(c, e);
  if (sem_is_struct(value) || value->type.rank > 0) {
    td_diag_t *d = sem_report(c, TD_E38, e->loc,
                              "a subscript is one integer, %s is %s", text,
                              sem_type_text(c, &value->type));
    td_diag_help(d, "give it subscripts of its own");
    return NULL;
  }
  if (sem_is_int(value)) return value;
  if (sem_is_bool(value)) {
    sem_report(c, TD_E46, e->loc, "a subscript is an integer, %s is a bool",
               text);
    return NULL;
  }
  if (value->is_unknown && value->poly != NULL) {
    return sem_dim_value(c, value->poly, e->loc);
  }
  td_diag_t *d = sem_report(c, TD_E18, e->loc,
                            "an integer meets a float: the subscript %s is "
                            "%s", text, sem_type_text(c, &value->type));
  td_diag_help(d, "write `i32(%s)`, and guard its range", text);
  return NULL;
}

/* All subscripts are written; none is implied. */
static bool check_count(sem_ctx_t *c, const sem_expr_t *base,
                        const ast_expr_t *e) {
  uint32_t rank = base->type.rank;
  if (e->sub_count == rank) return true;
  td_diag_t *d = sem_report(c, TD_E16, e->loc,
                            "%zu subscript%s on rank %u", e->sub_count,
                            e->sub_count == 1 ? "" : "s", rank);
  td_diag_label(d, e->kids[0]->loc, "%s", sem_type_text(c, &base->type));
  if (rank == 0) {
    td_diag_help(d, "a scalar takes no subscripts");
  } else if (sem_is_struct(base)) {
    td_diag_help(d, "a stack takes its own subscripts, then the field its "
                 "own: `m.blk[l].w[i, j]`");
  } else {
    td_diag_help(d, "all %u subscripts are written: `:` keeps a dim", rank);
  }
  return false;
}

/* A `:` keeps the dim with its text. */
static void add_kept(sem_type_t *type, const sem_dim_t *dim) {
  type->dims[type->rank++] = *dim;
}

/* Value behind | : the type of the element, whatever it is read as. */
static bool check_otherwise(sem_ctx_t *c, const ast_expr_t *e,
                            sem_expr_t *x) {
  sem_expr_t *v = sem_check_expr(c, e->other);
  if (v == NULL) return false;
  if (v->type.rank > 0 || sem_is_struct(v)) {
    sem_report(c, TD_E38, e->other->loc, "the value behind `|` is one number");
    return false;
  }
  sem_type_t element = sem_scalar(sem_arithmetic(x->type.dtype));
  if (v->is_exact && sem_is_float(v) && td_dtype_is_float(x->type.dtype)) {
    element.dtype = sem_arithmetic(x->type.dtype);
  }
  if (td_dtype_is_float(element.dtype) &&
      !v->is_exact && sem_is_float(v) &&
      v->type.dtype == TDSL_DTYPE_F64) {
    element.dtype = TDSL_DTYPE_F64;
  }
  v = sem_for_store(c, v, &element, "the element");
  if (v == NULL) return false;
  x->otherwise = v;
  const ix_poly_t *lo = x->type.lo, *hi = x->type.hi, *vlo, *vhi;
  bool same = v->kind == SEM_CONST && td_dtype_is_float(x->type.dtype) &&
              td_round_to(x->type.dtype, v->f64) == v->f64;
  if (!same && td_dtype_is_float(element.dtype)) {
    x->type.dtype = element.dtype; /* not a value of the storage type */
  }
  if (!sem_is_int(x)) return true;
  sem_ends(c, sem_element_poly(c, v), &vlo, &vhi);
  x->type.lo = lo == NULL || vlo == NULL ? NULL : ix_min(c->pool, lo, vlo);
  x->type.hi = hi == NULL || vhi == NULL ? NULL : ix_max(c->pool, hi, vhi);
  x->type.dtype = element.dtype;
  x->poly = sem_opaque(c, sem_text(c, e), e->loc, x->type.lo, x->type.hi);
  return true;
}

/* With | no proof is needed: the value behind it is read instead. */
static bool check_sub(sem_ctx_t *c, const sem_expr_t *base,
                      const ast_expr_t *e, uint32_t i, sem_expr_t *x) {
  const ast_sub_t *sub = &e->subs[i];
  const sem_dim_t *dim = &base->type.dims[i];
  x->subs[i].loc = sub->loc;
  if (sub->form == AST_SUB_ALL) {
    add_kept(&x->type, dim);
    return true;
  }
  if (sub->form == AST_SUB_INDEX) {
    td_diag_t *d = sem_report(c, TD_E48, sub->loc,
                              "`%s in ...` and marks stand on the left side "
                              "of a statement", sub->name.text);
    td_diag_help(d, "write `%s` here", sub->name.text);
    return false;
  }
  sem_expr_t *value = sem_check_subscript(c, sub->expr);
  if (value == NULL) return false;
  if (value->is_exact) value = sem_settle(c, value);
  x->subs[i].expr = value;
  if (e->other != NULL) return true;
  return sem_prove_subscript(c, value, dim, e->kids[0], sub->expr);
}

/* The dims that are kept are the type of the result, in their order. */
sem_expr_t *sem_subscript(sem_ctx_t *c, sem_expr_t *base,
                          const ast_expr_t *e) {
  if (base == NULL) return NULL;
  if (!check_count(c, base, e)) return NULL;
  sem_expr_t *x = sem_new_expr(c, SEM_SUBSCRIPT, e->loc);
  x->type = base->type;
  x->type.rank = 0;
  x->type.syntax = NULL;
  x->arg_count = 1;
  x->args = TD_NEW_ARRAY(c->arena, const sem_expr_t *, 1);
  x->args[0] = base;
  x->sub_count = (uint32_t)e->sub_count;
  x->subs = TD_NEW_ARRAY(c->arena, sem_sub_t, e->sub_count);
  bool ok = true;
  bool keeps = false;
  for (uint32_t i = 0; i < x->sub_count; i++) {
    keeps = keeps || e->subs[i].form == AST_SUB_ALL;
  }
  if (e->other != NULL && (keeps || sem_is_struct(base))) {
    td_diag_t *d = sem_report(c, TD_E51, e->loc, keeps
                              ? "`|` gives one value and does not go with `:`"
                              : "`|` reads an element, this is a struct");
    td_diag_help(d, "write indices instead of `:`");
    return NULL;
  }
  for (uint32_t i = 0; i < x->sub_count; i++) {
    ok = check_sub(c, base, e, i, x) && ok;
  }
  if (!ok) return NULL;
  if (e->other != NULL) return check_otherwise(c, e, x) ? x : NULL;
  if (sem_is_int(x) && x->type.rank == 0) x->poly = sem_datum(c, x);
  return x;
}
