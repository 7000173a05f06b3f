/* define.c: definitions of names, whole and element by element. */
#include "frontend/check.h"

/* One left side. */
typedef struct left {
  const ast_lhs_t *ast;
  ast_name_t name;
  const ast_expr_t *subs; /* the SUBSCRIPT, or NULL */
  sem_entry_t *result;    /* entry of a declared result */
  bool has_type;          /* declared or annotated */
  bool has_dims;          /* dims of the place are known before the value */
  sem_type_t type;        /* then: of the place */
  sem_target_t *target;
  bool failed;
} left_t;

/* ---- whole values -------------------------------------------------------- */

/* E38 in terms of the `:` that the left side has, or should have. */
static void report_rank(sem_ctx_t *c, const sem_expr_t *e, uint32_t colons,
                        const char *name, td_loc_t loc) {
  td_diag_t *d = sem_report(c, TD_E38, loc,
                            "%u `:` on the left, the value has rank %u",
                            colons, e->type.rank);
  td_diag_label(d, e->loc, "%s", sem_type_text(c, &e->type));
  if (e->type.rank == 0) {
    td_diag_help(d, "define the elements: `%s[i, ...] = ...`", name);
  } else if (e->type.rank > colons) {
    td_diag_help(d, "give the value subscripts, or write more `:`");
  } else {
    td_diag_help(d, "keep as many dims of the value with `:`");
  }
}

/* 0 lies in the range of every integer leaf. */
static bool zero_fits(sem_ctx_t *c, const sem_struct_t *s, td_loc_t loc) {
  for (uint32_t i = 0; i < s->field_count; i++) {
    const sem_type_t *t = &s->fields[i].type;
    if (t->kind == SEM_STRUCT) {
      if (!zero_fits(c, t->record, loc)) return false;
    } else if (!sem_in_range(c, ix_const(c->pool, 0), t->lo, t->hi)) {
      td_diag_t *d = sem_report(c, TD_E42, loc,
                                "0 does not lie in the range of field %s",
                                s->fields[i].name);
      td_diag_label(d, s->fields[i].loc, "declared here");
      return false;
    }
  }
  return true;
}

/* Same declaration and dims; leaves may be narrower or wider, since a store
 * rounds. */
static sem_expr_t *struct_value(sem_ctx_t *c, sem_expr_t *e,
                                const sem_type_t *place, const char *name,
                                td_loc_t loc, bool fills) {
  if (sem_is_number_const(e) && fills) {
    sem_number_t n = sem_number_of(e);
    if (n.kind == SEM_NUMBER_INT ? n.i == 0 : n.f == 0) {
      if (!zero_fits(c, place->record, loc)) return NULL;
      return sem_adopt(c, e, TDSL_DTYPE_F32);
    }
  }
  if (!sem_is_struct(e)) {
    td_diag_t *d = sem_report(c, fills ? TD_E55 : TD_E46, loc,
                              fills ? "a struct can only be filled with 0: %s "
                                      "is %s"
                                    : "%s is %s, the value is a number", name,
                              sem_type_text(c, place));
    td_diag_label(d, e->loc, "%s", sem_type_text(c, &e->type));
    td_diag_help(d, "set the leaves: `each p in %s { p := ... }`", name);
    return NULL;
  }
  const char *where = NULL;
  bool same = place->rank == e->type.rank &&
              sem_differing_dim(c, place, &e->type) == (int)place->rank &&
              sem_same_structure(c, place->record, e->type.record, &where);
  if (same) return e;
  td_diag_t *d = sem_report(c, TD_E06, loc, "%s is %s, the value is %s", name,
                            sem_type_text(c, place),
                            sem_type_text(c, &e->type));
  td_diag_label(d, e->loc, "%s", sem_type_text(c, &e->type));
  if (where != NULL) td_diag_note(d, "they differ in field %s", where);
  return NULL;
}

/* Also for updates and the short form of functions. */
sem_expr_t *sem_whole_value(sem_ctx_t *c, sem_expr_t *e,
                            const sem_type_t *place, const char *name,
                            td_loc_t loc, bool fills) {
  if (place->kind == SEM_STRUCT) {
    return struct_value(c, e, place, name, loc, fills);
  }
  if (!sem_is_struct(e)) {
    bool spreads = e->type.rank == 0 && fills;
    if (e->type.rank != place->rank && !spreads) {
      report_rank(c, e, place->rank, name, loc);
      return NULL;
    }
    if (!spreads &&
        sem_differing_dim(c, place, &e->type) != (int)place->rank) {
      sem_report_dims(c, loc, "", place, loc, name, &e->type, e->loc,
                      "value");
      return NULL;
    }
  }
  return sem_for_store(c, e, place, name);
}

/* ---- left sides ---------------------------------------------------------- */

static bool report_left(sem_ctx_t *c, td_loc_t loc, const char *text) {
  td_diag_t *d = sem_report(c, TD_E48, loc, "%s", text);
  td_diag_help(d, "a left side is `y`, or `y[i, j]` with distinct new indices, "
               "`i in N`, or `:`; elements are updated with `:=`");
  return false;
}

/* A definition makes a name, so what stands here is one, perhaps with
 * subscripts. */
static bool read_place(sem_ctx_t *c, left_t *l) {
  const ast_expr_t *place = l->ast->place;
  if (place->kind == AST_SUBSCRIPT) {
    l->subs = place;
    if (place->other != NULL) {
      return report_left(c, place->loc, "`|` has no meaning on the left");
    }
    place = place->kids[0];
  }
  if (place->kind != AST_NAME) {
    return report_left(c, place->loc,
                       "a definition makes a new name, this is a place");
  }
  l->name = (ast_name_t){place->text, place->loc};
  sem_entry_t *e = sem_lookup(c, place->text);
  if (e != NULL && e->kind == SEM_ENTRY_SYMBOL && e->is_pending &&
      e->symbol->kind == SEM_RESULT) {
    l->result = e;
  }
  return true;
}

/* A result has its type already; saying it again is allowed, saying another
 * one is not. */
static bool read_annotation(sem_ctx_t *c, left_t *l) {
  sem_type_t type;
  if (!sem_read_type(c, l->ast->type, &type)) return false;
  sem_type_apply(c, &type);
  bool has_dims = l->ast->type->has_dims || l->ast->type->stack_count > 0 ||
                  type.kind == SEM_STRUCT;
  if (l->subs != NULL && type.kind == SEM_STRUCT) {
    sem_report(c, TD_E46, l->ast->type->loc,
               "elements are numbers or bools, not structs");
    return false;
  }
  if (l->result != NULL) {
    if (type.dtype == l->type.dtype && type.kind == l->type.kind &&
        (!has_dims ||
         sem_differing_dim(c, &type, &l->type) == (int)l->type.rank)) {
      return true;
    }
    td_diag_t *d = sem_report(c, TD_E12, l->ast->type->loc,
                              "result %s is declared as %s", l->name.text,
                              sem_type_text(c, &l->type));
    td_diag_label(d, l->result->loc, "declared here");
    td_diag_help(d, "leave out the annotation");
    return false;
  }
  l->has_type = true;
  l->has_dims = has_dims || l->subs == NULL;
  l->type = type;
  return true;
}

static bool read_left(sem_ctx_t *c, left_t *l) {
  if (!read_place(c, l)) return false;
  if (l->result != NULL) {
    l->type = l->result->symbol->type;
    l->has_type = l->has_dims = true;
  }
  if (l->ast->type != NULL && !read_annotation(c, l)) return false;
  if (l->subs == NULL || !l->has_dims) return true;
  if (l->type.kind == SEM_TENSOR && l->type.rank == l->subs->sub_count) {
    return true;
  }
  td_diag_t *d = sem_report(c, TD_E16, l->subs->loc, "%zu subscript%s on rank "
                            "%u", l->subs->sub_count,
                            l->subs->sub_count == 1 ? "" : "s",
                            l->type.rank);
  td_diag_label(d, l->result != NULL ? l->result->loc : l->ast->type->loc,
                "%s is %s", l->name.text, sem_type_text(c, &l->type));
  return false;
}

/* ---- the name that comes into being -------------------------------------- */

/* What an unannotated name holds. A var of integers holds 64 bits: later
 * updates may bring more than the first value. */
static tdsl_dtype_t held_dtype(tdsl_dtype_t dtype, bool is_var) {
  dtype = sem_arithmetic(dtype);
  if (is_var && dtype == TDSL_DTYPE_I32) dtype = TDSL_DTYPE_I64;
  return dtype;
}

/* The name of a failed definition is in scope and silent. */
static void fail_name(sem_ctx_t *c, left_t *l) {
  if (l->name.text == NULL) return;
  if (l->result != NULL) {
    l->result->is_pending = false;
    return;
  }
  if (sem_lookup(c, l->name.text) != NULL ||
      sem_lookup_global(c, l->name.text) != NULL) {
    return;
  }
  sem_declare(c, SEM_ENTRY_FAILED, l->name, true);
}

/* A result is defined once, and the body of a loop is not run once. */
static void report_loop_result(sem_ctx_t *c, const left_t *l) {
  td_diag_t *d = sem_report(c, TD_E30, l->name.loc,
                            "result %s would be defined once in every "
                            "iteration", l->name.text);
  td_diag_help(d, "define `var %s = ...` before the loop and update it here "
               "with `:=`", l->name.text);
}

/* Makes the symbol of type `l->type` and its target; false if the name is
 * taken. */
static bool make_name(sem_ctx_t *c, left_t *l, const ast_stmt_t *s,
                      size_t left_count) {
  if (l->result != NULL) {
    l->result->is_pending = false;
    if (c->loop_depth > 0) {
      report_loop_result(c, l);
      return false;
    }
    l->target->symbol = l->result->symbol;
    if (s->is_var) l->result->symbol->is_var = true;
    return true;
  }
  sem_entry_t *e = sem_declare(c, SEM_ENTRY_SYMBOL, l->name, true);
  if (e == NULL) return false;
  sem_symbol_t *symbol = sem_new_symbol(c, s->is_var ? SEM_VAR : SEM_LOCAL,
                                        l->name.text, l->name.loc);
  symbol->type = l->type;
  symbol->is_written = l->has_type;
  symbol->is_var = s->is_var;
  e->symbol = symbol;
  e->is_exempt = left_count > 1;
  l->target->symbol = symbol;
  return true;
}

/* A scalar integer stands for itself in polys while it does not change. */
static void make_value(sem_ctx_t *c, const left_t *l, bool is_var) {
  sem_symbol_t *s = l->target->symbol;
  if (s->type.kind != SEM_TENSOR || s->type.rank > 0 ||
      !td_dtype_is_int(s->type.dtype)) {
    return;
  }
  if (is_var && !l->has_type) s->type.lo = s->type.hi = NULL;
  ix_symbol_t *v = ix_symbol_create(c->pool, s->name, IX_SYM_DATA, s->loc);
  v->lo = s->type.lo;
  v->hi = s->type.hi;
  s->value = v;
  if (s->is_written) sem_set_width(c, v, s->type.dtype);
}

/* ---- y = e --------------------------------------------------------------- */

/* A call with inout arguments may be the whole right side of a definition
 * without subscripts only. */
static sem_expr_t *value_of(sem_ctx_t *c, const ast_stmt_t *s, bool is_whole) {
  c->allowed_call = is_whole ? s->value : NULL;
  c->allowed_many = s->lhs_count > 1 ? s->value : NULL;
  c->many_count = (uint32_t)s->lhs_count;
  sem_expr_t *e = sem_check_formula(c, s->value);
  c->allowed_call = c->allowed_many = NULL;
  if (e == NULL || s->lhs_count == 1) return e;
  if ((e->kind == SEM_CALL || e->kind == SEM_TOPK) &&
      sem_result_count(e) == s->lhs_count) {
    return e;
  }
  td_diag_t *d = sem_report(c, TD_E47, s->value->loc,
                            "%zu left sides, but this is one value",
                            s->lhs_count);
  td_diag_help(d, "write one statement for each");
  return NULL;
}

/* Value i of the right side, as an expression to be checked. */
static sem_expr_t *result_value(sem_ctx_t *c, const ast_stmt_t *s,
                                sem_expr_t *e, size_t i) {
  if (s->lhs_count == 1) return e;
  sem_expr_t *r = sem_new_expr(c, SEM_CALL, e->loc);
  r->type = sem_result_type(c, e, (uint32_t)i);
  if (sem_is_int(r) && r->type.rank == 0) {
    r->poly = sem_opaque(c, "a result", e->loc, r->type.lo, r->type.hi);
  }
  return r;
}

/* Without an annotation the name takes the type of the value, in its
 * arithmetic type. */
static bool define_whole(sem_ctx_t *c, const ast_stmt_t *s, left_t *l,
                         sem_expr_t *e, sem_expr_t **out) {
  if (l->has_type) {
    bool fills = l->ast->type != NULL && e->is_exact;
    *out = sem_whole_value(c, e, &l->type, l->name.text, l->ast->loc, fills);
    return *out != NULL;
  }
  e = sem_settle(c, e);
  *out = e;
  l->type = e->type;
  l->type.syntax = NULL;
  if (l->type.kind == SEM_STRUCT) return true;
  l->type.dtype = held_dtype(e->type.dtype, s->is_var);
  if (sem_is_int(e) && e->type.rank == 0) {
    sem_ends(c, e->poly, &l->type.lo, &l->type.hi);
  }
  if (s->is_var) l->type.lo = l->type.hi = NULL;
  return true;
}

/* The names come into being behind the right side, which cannot mention
 * them. */
static sem_stmt_t *check_whole(sem_ctx_t *c, const ast_stmt_t *s,
                               sem_stmt_t *stmt, left_t *lefts) {
  sem_expr_t *e = value_of(c, s, true);
  bool ok = e != NULL;
  for (size_t i = 0; i < s->lhs_count; i++) {
    left_t *l = &lefts[i];
    sem_expr_t *value = NULL;
    bool good = e != NULL && !l->failed &&
                define_whole(c, s, l, result_value(c, s, e, i), &value);
    if (good && l->has_type && l->result == NULL) {
      good = sem_check_created(c, &l->type, l->name.loc, l->name.text);
    }
    if (!good) {
      fail_name(c, l);
      ok = false;
      continue;
    }
    if (s->lhs_count == 1) stmt->value = value;
    if (make_name(c, l, s, s->lhs_count)) {
      make_value(c, l, s->is_var);
    } else {
      ok = false;
    }
  }
  if (s->lhs_count > 1) stmt->value = e;
  return ok ? stmt : NULL;
}

/* ---- y[i, :] = e --------------------------------------------------------- */

static size_t find_seek(const sem_seek_t *seeks, size_t count,
                        const char *name) {
  size_t i = 0;
  while (i < count && strcmp(seeks[i].index->name, name) != 0) i++;
  return i;
}

typedef struct elements {
  sem_seek_t *seeks;
  size_t count;
  size_t declared; /* names in scope since then */
} elements_t;

/* With or without a range or mark. */
static bool left_index(sem_ctx_t *c, const ast_sub_t *sub, ast_name_t *name) {
  if (sub->form == AST_SUB_INDEX) {
    *name = sub->name;
    return true;
  }
  if (sub->form == AST_SUB_EXPR && sub->expr->kind == AST_NAME) {
    *name = (ast_name_t){sub->expr->text, sub->expr->loc};
    return true;
  }
  return report_left(c, sub->loc,
                     "a subscript on the left of `=` is a new index");
}

/* The first left side introduces the indices, the others must have the same
 * ones, in any order. */
static bool read_indices(sem_ctx_t *c, left_t *l, elements_t *e,
                         bool is_first) {
  const ast_expr_t *subs = l->subs;
  size_t used = 0;
  l->target->sub_count = (uint32_t)subs->sub_count;
  l->target->subs = TD_NEW_ARRAY(c->arena, sem_index_t *, subs->sub_count);
  if (subs->sub_count > IX_MAX_RANK) {
    sem_report(c, TD_L03, subs->loc, "more than %d dims", IX_MAX_RANK);
    return false;
  }
  for (size_t i = 0; i < subs->sub_count; i++) {
    const ast_sub_t *sub = &subs->subs[i];
    ast_name_t name;
    if (sub->form == AST_SUB_ALL) continue;
    if (!left_index(c, sub, &name)) return false;
    size_t k = find_seek(e->seeks, e->count, name.text);
    for (size_t j = 0; k < e->count && j < i; j++) {
      if (l->target->subs[j] == e->seeks[k].index) {
        return report_left(c, sub->loc,
                           td_arena_printf(c->arena, "index %s stands twice "
                                           "on the left", name.text));
      }
    }
    if (k == e->count) {
      if (!is_first) {
        return report_left(c, sub->loc,
                           "all left sides have the same indices");
      }
      sem_entry_t *entry = sem_declare(c, SEM_ENTRY_INDEX, name, false);
      if (entry == NULL) return false;
      e->seeks[e->count++].index = sem_new_index(c, name.text, name.loc);
      entry->index = e->seeks[k].index;
    }
    used++;
    l->target->subs[i] = e->seeks[k].index;
    if (sub->form == AST_SUB_INDEX && sub->range != NULL) {
      e->seeks[k].range = sub->range;
    }
    if (l->has_dims && e->seeks[k].declared == NULL) {
      e->seeks[k].declared = &l->type.dims[i];
    }
  }
  return used == e->count ||
         report_left(c, subs->loc, "all left sides have the same indices");
}

/* The type of the whole from ranges and the value's own dims. */
static bool make_type(sem_ctx_t *c, left_t *l, const elements_t *e,
                      const sem_expr_t *value) {
  sem_type_t type = sem_scalar(l->has_type ? l->type.dtype
                                           : value->type.dtype);
  type.syntax = l->has_type ? l->type.syntax : NULL;
  if (l->has_type) {
    type.lo = l->type.lo;
    type.hi = l->type.hi;
  }
  uint32_t next = 0;
  type.rank = (uint32_t)l->subs->sub_count;
  for (uint32_t i = 0; i < type.rank; i++) {
    const sem_index_t *index = l->target->subs[i];
    if (index == NULL) {
      type.dims[i] = value->type.dims[next++];
    } else {
      type.dims[i] = e->seeks[find_seek(e->seeks, e->count, index->name)].dim;
    }
  }
  sem_check_left_marks(c, l->subs, &type);
  if (l->has_dims &&
      sem_differing_dim(c, &l->type, &type) != (int)type.rank) {
    td_loc_t at = l->result != NULL ? l->result->loc : l->ast->type->loc;
    sem_report_dims(c, l->ast->loc, "", &l->type, at, l->name.text, &type,
                    value->loc, "value");
    return false;
  }
  if (!l->has_dims) l->type = type;
  if (l->result != NULL) return true;
  return sem_check_created(c, &l->type, l->name.loc, l->name.text);
}

/* Element and dims are checked apart: the element as a store, the dims
 * against the declaration. */
static bool define_elements(sem_ctx_t *c, const ast_stmt_t *s, left_t *l,
                            const elements_t *e, sem_expr_t *value,
                            sem_expr_t **out) {
  uint32_t colons = 0;
  for (size_t i = 0; i < l->subs->sub_count; i++) {
    colons += l->subs->subs[i].form == AST_SUB_ALL;
  }
  if (sem_is_struct(value)) {
    sem_report(c, TD_E46, value->loc,
               "an element is a number or bool, this is a struct %s",
               value->type.record->name);
    return false;
  }
  if (value->type.rank != colons) {
    report_rank(c, value, colons, l->name.text, l->ast->loc);
    return false;
  }
  if (l->has_type) {
    sem_type_t element = sem_scalar(l->type.dtype);
    element.lo = l->type.lo;
    element.hi = l->type.hi;
    value = sem_for_store(c, value, &element, l->name.text);
    if (value == NULL) return false;
  } else {
    value = sem_settle(c, value);
  }
  *out = value;
  if (!make_type(c, l, e, value)) return false;
  if (!l->has_type) {
    l->type.dtype = held_dtype(value->type.dtype, s->is_var);
    l->type.lo = l->type.hi = NULL;
    if (sem_is_int(value) && !s->is_var) {
      sem_ends(c, sem_element_poly(c, value), &l->type.lo, &l->type.hi);
    }
  }
  return true;
}

/* A second definition is said to be one before its indices are sought: those
 * of an update need no range, and a range is not what is missing. */
static bool is_new_name(sem_ctx_t *c, const left_t *l) {
  const sem_entry_t *e = sem_lookup(c, l->name.text);
  if (l->result != NULL || e == NULL) return true;
  if (e->kind != SEM_ENTRY_SYMBOL && e->kind != SEM_ENTRY_FAILED) return true;
  return sem_declare(c, SEM_ENTRY_SYMBOL, l->name, true) != NULL;
}

/* All left sides are read before the ranges are sought: each may declare
 * some. */
static bool start_elements(sem_ctx_t *c, const ast_stmt_t *s, left_t *lefts,
                           elements_t *e) {
  size_t room = 1;
  for (size_t i = 0; i < s->lhs_count; i++) {
    room += lefts[i].subs->sub_count;
  }
  e->seeks = TD_NEW_ARRAY(c->arena, sem_seek_t, room);
  bool ok = true;
  for (size_t i = 0; i < s->lhs_count; i++) {
    bool is_new = lefts[i].failed || is_new_name(c, &lefts[i]);
    if (lefts[i].failed || !read_indices(c, &lefts[i], e, i == 0) || !is_new) {
      lefts[i].failed = true;
      ok = false;
    }
  }
  return ok;
}

/* With ranges missing the right side is read all the same, for faults of its
 * own. */
static sem_stmt_t *check_elements(sem_ctx_t *c, const ast_stmt_t *s,
                                  sem_stmt_t *stmt, left_t *lefts) {
  size_t scope = sem_scope_mark(c), mark = ix_facts_mark(c->facts);
  elements_t e = {0};
  bool ok = start_elements(c, s, lefts, &e), ranged = ok;
  const ast_expr_t *formula = s->value;
  sem_expr_t *value = NULL;
  if (ok) {
    sem_find_ranges(c, e.seeks, e.count, &formula, 1, true);
    uint32_t unproved = c->unproved;
    for (size_t i = 0; i < e.count; i++) {
      ranged = ranged && !e.seeks[i].failed;
      if (e.seeks[i].failed) continue;
      if (!sem_assume_nonempty(c, e.seeks[i].index)) c->unproved++;
    }
    if (!ranged) c->unproved++;
    value = value_of(c, s, false);
    c->unproved = unproved;
  }
  ok = ok && value != NULL && ranged;
  for (size_t i = 0; i < s->lhs_count; i++) {
    sem_expr_t *stored = NULL;
    if (!ok || !define_elements(c, s, &lefts[i], &e,
                                result_value(c, s, value, i), &stored)) {
      lefts[i].failed = true;
    }
    if (s->lhs_count == 1) stmt->value = stored;
  }
  if (s->lhs_count > 1) stmt->value = value;
  ix_facts_release(c->facts, mark);
  sem_scope_release(c, scope);
  for (size_t i = 0; i < s->lhs_count; i++) {
    if (lefts[i].failed) {
      fail_name(c, &lefts[i]);
      ok = false;
    } else if (make_name(c, &lefts[i], s, s->lhs_count)) {
      make_value(c, &lefts[i], s->is_var);
    } else {
      ok = false;
    }
  }
  if (!ok) return NULL;
  stmt->indices = TD_NEW_ARRAY(c->arena, sem_index_t *, e.count);
  for (size_t i = 0; i < e.count; i++) {
    stmt->indices[stmt->index_count++] = e.seeks[i].index;
  }
  return stmt;
}

/* ---- both ---------------------------------------------------------------- */

/* Left sides first, then the right one, then the names. */
sem_stmt_t *sem_check_define(sem_ctx_t *c, const ast_stmt_t *s) {
  sem_stmt_t *stmt = sem_new_stmt(c, SEM_DEFINE, s->loc);
  left_t *lefts = TD_NEW_ARRAY(c->arena, left_t, s->lhs_count);
  stmt->target_count = (uint32_t)s->lhs_count;
  stmt->targets = TD_NEW_ARRAY(c->arena, sem_target_t, s->lhs_count);
  bool mixed = false, shaped = true;
  for (size_t i = 0; i < s->lhs_count; i++) {
    lefts[i].ast = &s->lhss[i];
    lefts[i].target = &stmt->targets[i];
    lefts[i].failed = !read_left(c, &lefts[i]);
    if (lefts[i].name.text == NULL) shaped = false;
    mixed = mixed || (lefts[i].subs == NULL) != (lefts[0].subs == NULL);
  }
  if (mixed && shaped) {
    report_left(c, s->lhss[0].loc, "all left sides have the same indices");
  }
  if (mixed || !shaped) {
    for (size_t i = 0; i < s->lhs_count; i++) fail_name(c, &lefts[i]);
    return NULL;
  }
  return lefts[0].subs == NULL ? check_whole(c, s, stmt, lefts)
                               : check_elements(c, s, stmt, lefts);
}
