/* shapes.c: equality of dims and structs, and how messages show them.
 *
 * Messages show polys as the user would write them: facts restored. */
#include "frontend/check.h"

/* Normal forms decide; there is no search for equality. */
bool sem_same_dim(sem_ctx_t *c, const ix_poly_t *a, const ix_poly_t *b) {
  return a == b || ix_equal(c->pool, a, b, c->facts);
}

/* Where to point at. Stack dims of structs count, their fields do not. */
int sem_differing_dim(sem_ctx_t *c, const sem_type_t *a,
                      const sem_type_t *b) {
  if (a->rank != b->rank) return -1;
  for (uint32_t i = 0; i < a->rank; i++) {
    if (!sem_same_dim(c, a->dims[i].size, b->dims[i].size)) return (int)i;
  }
  return (int)a->rank;
}

/* Dtypes may differ: a store rounds leaf by leaf. *out_where names the first
 * field that does not fit. */
bool sem_same_structure(sem_ctx_t *c, const sem_struct_t *a,
                        const sem_struct_t *b, const char **out_where) {
  if (a == b) return true;
  *out_where = a->name;
  if (a->syntax != b->syntax || a->field_count != b->field_count) {
    return false;
  }
  for (uint32_t i = 0; i < a->field_count; i++) {
    const sem_type_t *x = &a->fields[i].type, *y = &b->fields[i].type;
    *out_where = a->fields[i].name;
    if (x->kind != y->kind) return false;
    if (sem_differing_dim(c, x, y) != (int)x->rank) return false;
    if (x->kind == SEM_STRUCT &&
        !sem_same_structure(c, x->record, y->record, out_where)) {
      return false;
    }
  }
  return true;
}

/* ---- text ---------------------------------------------------------------- */

/* NULL is a poly that could not be formed. */
const char *sem_poly_text(sem_ctx_t *c, const ix_poly_t *p) {
  if (p == NULL) return "?";
  return ix_text(c->arena, ix_restore_facts(c->pool, p, c->facts));
}

/* The words of the author if there are any. */
const char *sem_dim_text(sem_ctx_t *c, const sem_dim_t *dim) {
  return dim->text != NULL ? dim->text : sem_poly_text(c, dim->size);
}

/* What a lone name is, in brackets behind it. */
static const char *kind_text(sem_ctx_t *c, const ix_symbol_t *s) {
  if (s->kind == IX_SYM_STATIC) return "static";
  if (s->kind == IX_SYM_GENERIC) return "generic";
  if (s->kind != IX_SYM_DYN) return NULL;
  int64_t hi = 0;
  if (s->hi != NULL && ix_is_const(s->hi, &hi)) {
    return td_arena_printf(c->arena, "dyn, <= %lld", (long long)(hi - 1));
  }
  return "dyn";
}

/* For the line that compares two dims: name, value, and what kind of thing
 * the name is. */
const char *sem_value_text(sem_ctx_t *c, const sem_dim_t *dim) {
  const ix_poly_t *p = ix_restore_facts(c->pool, dim->size, c->facts);
  const char *text = sem_dim_text(c, dim), *value = ix_text(c->arena, p);
  const ix_symbol_t *s = ix_as_symbol(p);
  const char *kind = s == NULL ? NULL : kind_text(c, s);
  if (strcmp(text, value) != 0) {
    return kind == NULL
               ? td_arena_printf(c->arena, "%s = %s", text, value)
               : td_arena_printf(c->arena, "%s = %s (%s)", text, value, kind);
  }
  return kind == NULL ? text
                      : td_arena_printf(c->arena, "%s (%s)", text, kind);
}

/* An atom as a poly of its own. */
static const ix_poly_t *atom_poly(sem_ctx_t *c, const ix_atom_t *a) {
  switch (a->kind) {
  case IX_ATOM_SYMBOL: return ix_sym(c->pool, a->symbol);
  case IX_ATOM_FLOOR: return ix_div(c->pool, a->p, a->q, NULL);
  case IX_ATOM_MOD: return ix_mod(c->pool, a->p, a->q, NULL);
  case IX_ATOM_MIN: return ix_min(c->pool, a->p, a->q);
  case IX_ATOM_MAX: return ix_max(c->pool, a->p, a->q);
  }
  return NULL;
}

/* Terms with a minus go to the other side. */
const char *sem_inequality_text(sem_ctx_t *c, const ix_poly_t *p) {
  const ix_poly_t *shown = ix_restore_facts(c->pool, p, c->facts);
  const ix_poly_t *left = ix_const(c->pool, 0), *right = left;
  for (uint32_t i = 0; i < shown->term_count; i++) {
    const ix_term_t *t = &shown->terms[i];
    const ix_poly_t *m = ix_const(c->pool, t->coefficient);
    for (uint32_t k = 0; k < t->atom_count; k++) {
      m = ix_mul(c->pool, m, atom_poly(c, t->atoms[k]));
    }
    if (t->coefficient > 0) left = ix_add(c->pool, left, m);
    if (t->coefficient < 0) right = ix_sub(c->pool, right, m);
  }
  if (left == NULL || right == NULL) {
    return td_arena_printf(c->arena, "%s >= 0", ix_text(c->arena, shown));
  }
  int64_t number = 0;
  if (ix_is_const(left, &number)) {
    return td_arena_printf(c->arena, "%s <= %s", ix_text(c->arena, right),
                           ix_text(c->arena, left));
  }
  return td_arena_printf(c->arena, "%s >= %s", ix_text(c->arena, left),
                         ix_text(c->arena, right));
}

/* [a, b] as written. */
static void put_dims(sem_ctx_t *c, td_buf_t *out, const sem_type_t *type) {
  td_buf_putc(out, '[');
  for (uint32_t i = 0; i < type->rank; i++) {
    if (i > 0) td_buf_puts(out, ", ");
    td_buf_puts(out, sem_dim_text(c, &type->dims[i]));
  }
  td_buf_putc(out, ']');
}

/* As written, and as values where that says more. */
const char *sem_shape_text(sem_ctx_t *c, const sem_type_t *type) {
  if (type->rank == 0) return "a scalar";
  td_buf_t out;
  td_buf_init(&out, c->task);
  put_dims(c, &out, type);
  bool differs = false;
  for (uint32_t i = 0; i < type->rank; i++) {
    const char *text = sem_dim_text(c, &type->dims[i]);
    differs = differs ||
              strcmp(text, sem_poly_text(c, type->dims[i].size)) != 0;
  }
  if (differs) {
    td_buf_puts(&out, " = [");
    for (uint32_t i = 0; i < type->rank; i++) {
      if (i > 0) td_buf_puts(&out, ", ");
      td_buf_puts(&out, sem_poly_text(c, type->dims[i].size));
    }
    td_buf_putc(&out, ']');
  }
  return td_buf_finish(&out, c->arena);
}

/* In the syntax of the language. */
const char *sem_type_text(sem_ctx_t *c, const sem_type_t *type) {
  td_buf_t out;
  td_buf_init(&out, c->task);
  if (type->kind == SEM_STRUCT) {
    if (type->rank > 0) {
      put_dims(c, &out, type);
      td_buf_putc(&out, ' ');
    }
    td_buf_puts(&out, type->record->name);
    if (type->dtype != TDSL_DTYPE_UNSET) {
      td_buf_printf(&out, " as %s", td_dtype_name(type->dtype));
    }
  } else {
    td_buf_puts(&out, td_dtype_name(type->dtype));
    if (type->rank > 0) put_dims(c, &out, type);
  }
  return td_buf_finish(&out, c->arena);
}

/* ---- E06 ----------------------------------------------------------------- */

/* Two dims in the wrong order is the likeliest slip with matrices. */
static bool is_transposed(sem_ctx_t *c, const sem_type_t *a,
                          const sem_type_t *b) {
  return a->rank == 2 && b->rank == 2 &&
         sem_same_dim(c, a->dims[0].size, b->dims[1].size) &&
         sem_same_dim(c, a->dims[1].size, b->dims[0].size);
}

/* Dims that differ by a number never are; `require` would only move the
 * error. */
bool sem_may_be_equal(sem_ctx_t *c, const ix_poly_t *a, const ix_poly_t *b) {
  int64_t difference = 0;
  const ix_poly_t *d = ix_sub(c->pool, a, b);
  return d != NULL && (!ix_is_const(d, &difference) || difference == 0);
}

/* Both shapes with names and values, the dim at fault, where both come from,
 * and the nearest cure. */
void sem_report_dims(sem_ctx_t *c, td_loc_t loc, const char *where,
                     const sem_type_t *a, td_loc_t a_loc, const char *a_name,
                     const sem_type_t *b, td_loc_t b_loc,
                     const char *b_name) {
  int k = sem_differing_dim(c, a, b);
  td_diag_t *d = sem_report(c, TD_E06, loc,
                            "dims do not match%s: %s and %s", where,
                            sem_shape_text(c, a), sem_shape_text(c, b));
  if (a_loc.line != 0) {
    td_diag_label(d, a_loc, "%s: %s", a_name, sem_shape_text(c, a));
  }
  if (b_loc.line != 0) {
    td_diag_label(d, b_loc, "%s: %s", b_name, sem_shape_text(c, b));
  }
  if (k < 0) {
    td_diag_note(d, "the ranks differ: %u and %u", a->rank, b->rank);
    if (a->rank == 0 || b->rank == 0) return;
    td_diag_help(d, "only a scalar spreads over a tensor: write the indices, "
                 "as in `y[i, j] = x[i, j] + w[j]`");
    return;
  }
  const sem_dim_t *x = &a->dims[k], *y = &b->dims[k];
  td_diag_note(d, "dim %d differs: %s against %s", k, sem_value_text(c, x),
               sem_value_text(c, y));
  td_loc_t none = TD_NO_LOC;
  if (memcmp(&x->loc, &none, sizeof none) != 0) {
    td_diag_label(d, x->loc, "%s is from here", sem_dim_text(c, x));
  }
  if (memcmp(&y->loc, &none, sizeof none) != 0) {
    td_diag_label(d, y->loc, "%s is from here", sem_dim_text(c, y));
  }
  if (is_transposed(c, a, b)) {
    td_diag_help(d, "one is the other transposed: exchange the indices, "
                 "as in `t[j, i] = x[i, j]`");
  } else if (sem_may_be_equal(c, x->size, y->size)) {
    td_diag_help(d, "if they are always equal: `require %s == %s`",
                 sem_poly_text(c, x->size), sem_poly_text(c, y->size));
  }
}
