/* types.c: types of the text, and what is done to types as wholes. */
#include "frontend/check.h"

/* Nothing is known of the range of an integer. */
sem_type_t sem_scalar(tdsl_dtype_t dtype) {
  return (sem_type_t){.kind = SEM_TENSOR, .dtype = dtype};
}

/* What a value is computed in; integers are computed in 64 bits and only
 * stored as i32. */
tdsl_dtype_t sem_arithmetic(tdsl_dtype_t dtype) {
  switch (dtype) {
  case TDSL_DTYPE_F64: return TDSL_DTYPE_F64;
  case TDSL_DTYPE_F32:
  case TDSL_DTYPE_F16:
  case TDSL_DTYPE_BF16:
  case TDSL_DTYPE_F8E4M3:
  case TDSL_DTYPE_F8E5M2: return TDSL_DTYPE_F32;
  case TDSL_DTYPE_I64: return TDSL_DTYPE_I64;
  case TDSL_DTYPE_I32:
  case TDSL_DTYPE_I8:
  case TDSL_DTYPE_U8: return TDSL_DTYPE_I32;
  case TDSL_DTYPE_BOOL: return TDSL_DTYPE_BOOL;
  default: return TDSL_DTYPE_UNSET;
  }
}

/* ---- dims and ranges ----------------------------------------------------- */

/* A float in place of a size and an index in place of a dim have different
 * cures. */
static void report_not_dim(sem_ctx_t *c, const ast_expr_t *e,
                           const sem_expr_t *value, const char *what) {
  const char *text = sem_text(c, e);
  td_diag_t *d;
  if (!sem_is_int(value) || value->type.rank > 0) {
    d = sem_report(c, TD_E45, e->loc, "%s %s is not an integer", what, text);
    if (sem_is_number_const(value) && sem_is_float(value)) {
      td_diag_help(d, "`/` of integers gives an integer: write the formula "
                   "without floats");
    }
    return;
  }
  d = sem_report(c, TD_E49, e->loc,
                 "%s %s depends on an index or on data", what, text);
  td_diag_help(d, "ranges and sizes are made of dims and consts: take a "
               "larger range and say the rest with `where`");
}

/* A size or the end of a range. Exactness is what tells dims from data and
 * indices: only dims and constants have it. */
const ix_poly_t *sem_dim_expr(sem_ctx_t *c, const ast_expr_t *e,
                              const char *what) {
  sem_expr_t *value = sem_check_expr(c, e);
  if (value == NULL) return NULL;
  if (value->is_unknown) {
    if (value->poly != NULL) return value->poly;
    return ix_sym(c->pool, ix_symbol_create(c->pool, sem_text(c, e),
                                            IX_SYM_STATIC, e->loc));
  }
  if (!sem_is_int(value) || value->type.rank > 0 || !value->is_exact ||
      value->kind == SEM_SELECT) {
    report_not_dim(c, e, value, what);
    return NULL;
  }
  return value->poly;
}

/* `in N` starts at 0. */
bool sem_read_range(sem_ctx_t *c, const ast_range_t *r, const char *what,
                    const ix_poly_t **out_lo, const ix_poly_t **out_hi) {
  *out_lo = ix_const(c->pool, 0);
  if (r->lo != NULL) *out_lo = sem_dim_expr(c, r->lo, what);
  *out_hi = sem_dim_expr(c, r->hi, what);
  return *out_lo != NULL && *out_hi != NULL;
}

/* The text and place of a dim are kept for messages: they show N where the
 * poly is a number. */
static bool add_dim(sem_ctx_t *c, sem_type_t *out, const ix_poly_t *size,
                    const char *text, td_loc_t loc) {
  if (out->rank >= IX_MAX_RANK) {
    td_diag_t *d = sem_report(c, TD_L03, loc, "more than %d dims",
                              IX_MAX_RANK);
    td_diag_help(d, "merge dims: `x[a * B + b]` for `x[a, b]`");
    return false;
  }
  out->dims[out->rank++] = (sem_dim_t){size, text, loc};
  return true;
}

/* A pack spreads into as many dims as this instance has. */
static bool read_dim(sem_ctx_t *c, const ast_dim_t *dim, sem_type_t *out) {
  if (dim->expr != NULL) {
    bool outer = c->type_scope;
    c->type_scope = true;
    const ix_poly_t *size = sem_dim_expr(c, dim->expr, "dim");
    c->type_scope = outer;
    if (size == NULL) return false;
    return add_dim(c, out, size, sem_text(c, dim->expr), dim->expr->loc);
  }
  sem_entry_t *pack = sem_lookup(c, dim->pack.text);
  if (pack == NULL || pack->kind != SEM_ENTRY_PACK) {
    td_diag_t *d = sem_report(c, TD_E01, dim->loc, "unknown pack ...%s",
                              dim->pack.text);
    td_diag_help(d, "a pack is a generic of the function: `[...%s]`",
                 dim->pack.text);
    return false;
  }
  for (uint32_t i = 0; i < pack->count; i++) {
    const char *text =
        td_arena_printf(c->arena, "%s.%u", dim->pack.text, i);
    if (!add_dim(c, out, pack->polys[i], text, dim->loc)) return false;
  }
  return true;
}

/* ---- suffixes ------------------------------------------------------------ */

/* Small integers are in range by their type; larger ones need `in` to serve
 * as subscripts. */
static void natural_range(sem_ctx_t *c, sem_type_t *out) {
  if (out->dtype != TDSL_DTYPE_I8 && out->dtype != TDSL_DTYPE_U8) return;
  out->lo = ix_const(c->pool, td_dtype_min(out->dtype));
  out->hi = ix_const(c->pool, td_dtype_max(out->dtype) + 1);
}

/* Replaces the range that the dtype has by itself. */
static bool read_in(sem_ctx_t *c, const ast_suffix_t *s, sem_type_t *out) {
  if (out->kind != SEM_TENSOR || !td_dtype_is_int(out->dtype)) {
    td_diag_t *d = sem_report(c, TD_E45, s->loc,
                              "`in` gives the range of integers, and this "
                              "type holds none");
    td_diag_help(d, "leave out `in`, or use i32 or i64");
    return false;
  }
  return sem_read_range(c, s->range, "the bound", &out->lo, &out->hi);
}

/* Of a struct all float leaves change, its integers stay what they count. */
static bool read_as(sem_ctx_t *c, const ast_suffix_t *s, sem_type_t *out) {
  if (s->dtype == TDSL_DTYPE_UNSET) {
    td_diag_t *d = sem_report(c, TD_E43, s->loc,
                              "tf32 is not a storage type");
    td_diag_help(d, "sums of f32 products may round their factors to tf32 "
                 "in a function `with tf32`");
    return false;
  }
  if (!td_dtype_is_float(s->dtype)) {
    sem_report(c, TD_E46, s->loc, "`as` changes float leaves, %s is no float",
               td_dtype_name(s->dtype));
    return false;
  }
  if (out->kind == SEM_STRUCT) {
    out->record = sem_struct_as(c, out->record, s->dtype);
    out->dtype = s->dtype;
  } else if (td_dtype_is_float(out->dtype)) {
    out->dtype = s->dtype;
  }
  return true;
}

/* In any order, each at most once. */
static bool read_suffixes(sem_ctx_t *c, const ast_type_t *t,
                          sem_type_t *out) {
  bool ok = true;
  for (size_t i = 0; i < t->suffix_count; i++) {
    const ast_suffix_t *s = &t->suffixes[i];
    for (size_t k = 0; k < i; k++) {
      if (t->suffixes[k].form == s->form) {
        sem_report(c, TD_E40, s->loc, "this suffix is given twice");
        return false;
      }
    }
    if (s->form == AST_SUFFIX_IN) ok = read_in(c, s, out) && ok;
    if (s->form == AST_SUFFIX_AS) ok = read_as(c, s, out) && ok;
  }
  return ok;
}

/* ---- a whole type -------------------------------------------------------- */

static const char *const dtype_names[] = {"f64", "f32", "f16", "bf16",
                                          "f8e4m3", "f8e5m2", "i64", "i32",
                                          "i8", "u8", "bool", NULL};

/* Dtypes and structs share this place of the grammar, so both are
 * candidates. */
static bool unknown_type(sem_ctx_t *c, const ast_type_t *t) {
  if (c->module->is_incomplete) return false;
  sem_unknown(c, t->elem, "type", &c->module->records, NULL, dtype_names);
  return false;
}

/* Dims are formed with the facts in force; who keeps the type longer
 * restores them. */
bool sem_read_type(sem_ctx_t *c, const ast_type_t *t, sem_type_t *out) {
  *out = (sem_type_t){.syntax = t};
  if (t->is_tf32) {
    td_diag_t *d = sem_report(c, TD_E43, t->elem.loc,
                              "tf32 is not a storage type");
    td_diag_help(d, "store f32, and write `with tf32` on the function whose "
                 "sums may round their factors");
    return false;
  }
  bool ok = true;
  for (size_t i = 0; i < t->stack_count; i++) {
    ok = read_dim(c, &t->stacks[i], out) && ok;
  }
  sem_entry_t *generic = NULL;
  if (t->dtype == TDSL_DTYPE_UNSET) generic = sem_lookup(c, t->elem.text);
  if (t->dtype != TDSL_DTYPE_UNSET) {
    out->dtype = t->dtype;
  } else if (generic != NULL && generic->kind == SEM_ENTRY_DTYPE) {
    out->dtype = generic->dtype;
  } else {
    sem_record_t *record =
        td_map_get(&c->module->records, td_str(t->elem.text));
    if (record == NULL) return unknown_type(c, t);
    if (!sem_read_record(c, t, record, out)) return false;
    if (out->rank + out->record->leaf_rank > IX_MAX_RANK) {
      sem_report(c, TD_L03, t->loc, "with its stack dims a leaf of %s has "
                 "more than %d dims", record->name, IX_MAX_RANK);
      return false;
    }
  }
  if (out->kind == SEM_TENSOR) {
    for (size_t i = 0; i < t->dim_count; i++) {
      ok = read_dim(c, &t->dims[i], out) && ok;
    }
    natural_range(c, out);
  }
  ok = ok && read_suffixes(c, t, out);
  if (ok) sem_check_marks(c, t, out);
  return ok;
}

/* ---- maps over types ----------------------------------------------------- */

/* Dims of a stack come before those of its fields, as in memory. */
void sem_each_dim(sem_ctx_t *c, const sem_type_t *type, sem_dim_fn fn,
                  void *user) {
  for (uint32_t i = 0; i < type->rank; i++) fn(c, user, &type->dims[i]);
  if (type->kind == SEM_TENSOR) return;
  for (uint32_t i = 0; i < type->record->field_count; i++) {
    sem_each_dim(c, &type->record->fields[i].type, fn, user);
  }
}

typedef const ix_poly_t *(*poly_fn)(sem_ctx_t *c, const ix_poly_t *p,
                                    void *user);

/* The same struct if nothing changes; copies share by (struct, result). */
static const sem_struct_t *map_struct(sem_ctx_t *c, const sem_struct_t *s,
                                      poly_fn fn, void *user);

/* Everything in a type that is a poly. True if one changed. */
static bool map_type(sem_ctx_t *c, sem_type_t *type, poly_fn fn,
                     void *user) {
  bool changed = false;
  for (uint32_t i = 0; i < type->rank; i++) {
    const ix_poly_t *p = fn(c, type->dims[i].size, user);
    changed = changed || p != type->dims[i].size;
    type->dims[i].size = p;
  }
  if (type->lo != NULL) {
    const ix_poly_t *p = fn(c, type->lo, user);
    changed = changed || p != type->lo;
    type->lo = p;
  }
  if (type->hi != NULL) {
    const ix_poly_t *p = fn(c, type->hi, user);
    changed = changed || p != type->hi;
    type->hi = p;
  }
  if (type->kind == SEM_STRUCT) {
    const sem_struct_t *s = map_struct(c, type->record, fn, user);
    changed = changed || s != type->record;
    type->record = s;
  }
  return changed;
}

/* Most maps change nothing, so a copy is made at the first change only. */
static const sem_struct_t *map_struct(sem_ctx_t *c, const sem_struct_t *s,
                                      poly_fn fn, void *user) {
  sem_field_t *fields = NULL;
  for (uint32_t i = 0; i < s->field_count; i++) {
    sem_type_t type = s->fields[i].type;
    if (!map_type(c, &type, fn, user)) continue;
    if (fields == NULL) {
      fields = TD_NEW_ARRAY(c->arena, sem_field_t, s->field_count);
      memcpy(fields, s->fields, s->field_count * sizeof *fields);
    }
    fields[i].type = type;
  }
  if (fields == NULL) return s;
  sem_struct_t *copy = TD_NEW(c->arena, sem_struct_t);
  *copy = *s;
  copy->fields = fields;
  return copy;
}

typedef struct subst_arg {
  ix_subst_fn map;
  void *user;
} subst_arg_t;

/* Simplified under the facts of the caller, whose terms the result is in. */
static const ix_poly_t *subst_poly(sem_ctx_t *c, const ix_poly_t *p,
                                   void *user) {
  const subst_arg_t *a = user;
  p = ix_subst(c->pool, p, a->map, a->user, c->facts);
  return p == NULL ? NULL : ix_apply_facts(c->pool, p, c->facts);
}

/* For what a struct parameter of a callee means at a call. */
const sem_struct_t *sem_struct_subst(sem_ctx_t *c, const sem_struct_t *s,
                                     ix_subst_fn map, void *user) {
  subst_arg_t a = {map, user};
  return map_struct(c, s, subst_poly, &a);
}

/* The text of dims stays: the caller knows whether it still says the same. */
void sem_type_subst(sem_ctx_t *c, sem_type_t *type, ix_subst_fn map,
                    void *user) {
  subst_arg_t a = {map, user};
  map_type(c, type, subst_poly, &a);
}

/* From the form that outlives functions to that of this one. */
static const ix_poly_t *apply_poly(sem_ctx_t *c, const ix_poly_t *p,
                                   void *user) {
  (void)user;
  return p == NULL ? NULL : ix_apply_facts(c->pool, p, c->facts);
}

/* What was read with the head of a function, or memoised, is kept without
 * facts; the body works with them. */
void sem_type_apply(sem_ctx_t *c, sem_type_t *type) {
  map_type(c, type, apply_poly, NULL);
}

/* Back from the form of this function. */
static const ix_poly_t *restore_poly(sem_ctx_t *c, const ix_poly_t *p,
                                     void *user) {
  (void)user;
  return p == NULL ? NULL : ix_restore_facts(c->pool, p, c->facts);
}

/* Before a type is kept where other functions see it. */
void sem_restore_type(sem_ctx_t *c, sem_type_t *type) {
  map_type(c, type, restore_poly, NULL);
}

/* ---- fields -------------------------------------------------------------- */

/* A field of a stack that has no subscript yet has the stack's dims in front
 * of its own. */
sem_type_t sem_field_type(sem_ctx_t *c, const sem_type_t *base,
                          uint32_t field) {
  sem_type_t type = base->record->fields[field].type;
  if (base->rank == 0) return type;
  sem_type_t out = type;
  out.rank = 0;
  for (uint32_t i = 0; i < base->rank + type.rank; i++) {
    if (out.rank >= IX_MAX_RANK) break;
    out.dims[out.rank++] =
        i < base->rank ? base->dims[i] : type.dims[i - base->rank];
  }
  (void)c;
  return out;
}

/* ---- what a definition creates ------------------------------------------- */

/* E53: a negative size has no meaning, and no guard could help. An empty one
 * is fine. */
bool sem_check_dim(sem_ctx_t *c, const sem_dim_t *dim, td_loc_t loc) {
  int64_t value = 0;
  if (ix_is_const(dim->size, &value) && value > 2147483647) {
    sem_report(c, TD_L01, loc, "dim %s is %lld, above 2^31-1", dim->text,
               (long long)value);
    return false;
  }
  if (c->quiet > 0 || c->unproved > 0 || sem_nonneg(c, dim->size)) {
    return true;
  }
  td_diag_t *d = sem_report(c, TD_E53, loc, "dim %s may be negative",
                            sem_dim_text(c, dim));
  td_diag_help(d, "add `require %s`",
               sem_inequality_text(c, dim->size));
  return false;
}

/* Largest number of elements, as far as bounds are numbers; 0: unknown. */
static double bound_of(const sem_type_t *type) {
  double elements = 1;
  for (uint32_t i = 0; i < type->rank; i++) {
    int64_t lo = 0, hi = 0;
    if (type->dims[i].size->below.has & (1u << IX_SYM_GENERIC)) return 0;
    if (type->dims[i].size->below.has & (1u << IX_SYM_STATIC)) return 0;
    if (!ix_interval(type->dims[i].size, &lo, &hi)) return 0;
    elements *= (double)hi;
  }
  return elements;
}

/* L02. Byte counts are computed in 64 bits with room to spare below this
 * limit. */
static bool check_bytes(sem_ctx_t *c, const sem_type_t *type, td_loc_t loc,
                        const char *name) {
  /* Generics that have become dims of a requested entry have no bound. */
  bool is_open = c->inst != NULL && c->inst == c->entry &&
                 c->inst->fn->decl->generic_count > 0;
  if (is_open) return true;
  double bytes = bound_of(type) * (double)td_dtype_bytes(type->dtype);
  if (bytes <= 4611686018427387904.0) return true;
  td_diag_t *d = sem_report(c, TD_L02, loc,
                            "%s may take more than 2^62 bytes: %s", name,
                            sem_shape_text(c, type));
  td_diag_help(d, "a smaller bound of a dynamic dim, or a smaller dim");
  return false;
}

/* A parameter's dims are sizes of something that exists; only their product
 * may be too large. */
bool sem_check_sizes(sem_ctx_t *c, const sem_type_t *type, td_loc_t loc,
                     const char *name) {
  if (type->kind == SEM_TENSOR) return check_bytes(c, type, loc, name);
  for (uint32_t i = 0; i < type->record->field_count; i++) {
    sem_type_t field = sem_field_type(c, type, i);
    if (!sem_check_sizes(c, &field, loc, type->record->fields[i].name)) {
      return false;
    }
  }
  return true;
}

/* What a definition or result would make: sizes that are not negative, and
 * not too large. */
bool sem_check_created(sem_ctx_t *c, const sem_type_t *type, td_loc_t loc,
                       const char *name) {
  bool ok = true;
  for (uint32_t i = 0; i < type->rank; i++) {
    td_loc_t at = type->dims[i].loc.line != 0 ? type->dims[i].loc : loc;
    ok = sem_check_dim(c, &type->dims[i], at) && ok;
  }
  if (!ok) return false;
  if (type->kind == SEM_TENSOR) return check_bytes(c, type, loc, name);
  for (uint32_t i = 0; i < type->record->field_count; i++) {
    sem_type_t field = sem_field_type(c, type, i);
    if (!sem_check_created(c, &field, type->record->fields[i].loc,
                           type->record->fields[i].name)) {
      return false;
    }
  }
  return true;
}
