/* lower_view.c: names, fields and subscripts, as views of values. */
#include "frontend/lower_impl.h"

/* ---- polynomials and types ---------------------------------------------- */

/* Only the generics of the function of the frame occur in its polys; the
 * values were put in terms of dynamic dims when it was entered. */
static const ix_poly_t *generic_value(void *user, const ix_symbol_t *s) {
  const lo_frame_t *f = user;
  for (uint32_t i = 0; i < f->binding_count; i++)
    if (f->generics[i] == s) return f->values[i];
  return NULL;
}

const ix_poly_t *lo_poly(lo_t *lo, const ix_poly_t *poly) {
  if (poly != NULL && lo->frame->binding_count > 0)
    poly = ix_subst(lo->pool, poly, generic_value, lo->frame, lo->facts);
  if (poly == NULL) {
    td_diag_t *d = td_diag(lo->task, TD_L01, lo->frame->func->loc,
                           "a dim of %s leaves 64 bits",
                           lo->frame->func->name);
    td_diag_help(d, "a dim holds at most 2147483647 elements: split it");
    td_raise(lo->task, TDSL_STATUS_INVALID_PROGRAM, "dim is too large");
  }
  return poly;
}

uint32_t lo_leaf_count(const sem_type_t *type) {
  if (type->kind == SEM_TENSOR) return 1;
  uint32_t n = 0;
  for (uint32_t i = 0; i < type->record->field_count; i++)
    n += lo_leaf_count(&type->record->fields[i].type);
  return n;
}

/* Number of leaves in front of a field. */
static uint32_t field_offset(const sem_struct_t *record, uint32_t field) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < field; i++)
    n += lo_leaf_count(&record->fields[i].type);
  return n;
}

/* Depth first in the order of declaration, which is the order of slots, of
 * `each`, and of all leaf lists here. */
static void add_leaves(lo_t *lo, const sem_type_t *type, lo_leaf_t at,
                       uint32_t depth, lo_leaves_t *out) {
  if (depth > LO_MAX_DEPTH) {
    td_diag_t *d = td_diag(lo->task, TD_L04, type->record->loc,
                           "structs nest deeper than %d", LO_MAX_DEPTH);
    td_diag_help(d, "put fields of inner structs into outer ones");
    td_raise(lo->task, TDSL_STATUS_INVALID_PROGRAM, "structs nest too deep");
  }
  for (uint32_t i = 0; i < type->rank; i++) {
    if (at.rank == IX_MAX_RANK) {
      td_diag_t *d = td_diag(lo->task, TD_L03, type->dims[i].loc,
                             "a leaf%s has a rank above %d with its stack "
                             "dims", at.path, IX_MAX_RANK);
      td_diag_help(d, "merge two dims of the leaf or two stack dims");
      td_raise(lo->task, TDSL_STATUS_INVALID_PROGRAM, "rank is too high");
    }
    at.dims[at.rank++] = &type->dims[i];
  }
  if (type->kind == SEM_TENSOR) {
    at.type = type;
    if (at.dtype == TDSL_DTYPE_UNSET || !td_dtype_is_float(type->dtype))
      at.dtype = type->dtype;
    td_vec_push(lo->arena, out, at);
    return;
  }
  /* The `as` of an outer struct wins over that of a field. */
  if (at.dtype == TDSL_DTYPE_UNSET) at.dtype = type->dtype;
  for (uint32_t i = 0; i < type->record->field_count; i++) {
    const sem_field_t *f = &type->record->fields[i];
    lo_leaf_t below = at;
    below.path = td_arena_printf(lo->arena, "%s.%s", at.path, f->name);
    add_leaves(lo, &f->type, below, depth + 1, out);
  }
}

void lo_leaves(lo_t *lo, const sem_type_t *type, lo_leaves_t *out) {
  lo_leaf_t at = {.path = ""};
  add_leaves(lo, type, at, 0, out);
}

/* ---- views -------------------------------------------------------------- */

/* A formula of rank 0, as the value of a name or argument. */
const lo_view_t *lo_view_scalar(lo_t *lo, tir_expr_t *e) {
  lo_view_t *v = TD_NEW(lo->arena, lo_view_t);
  v->scalar = e;
  v->dtype = e->type;
  return v;
}

const lo_view_t *lo_view_of(lo_t *lo, tir_value_t *value,
                            const lo_indices_t *outer) {
  uint32_t fixed = outer == NULL ? 0 : (uint32_t)outer->length;
  lo_view_t *v = TD_NEW(lo->arena, lo_view_t);
  v->value = value;
  v->dtype = value->dtype;
  v->rank = value->rank - fixed;
  v->dims = TD_NEW_ARRAY(lo->arena, const ix_poly_t *, v->rank);
  v->subs = TD_NEW_ARRAY(lo->arena, lo_sub_t, value->rank);
  for (uint32_t i = 0; i < fixed; i++)
    v->subs[i].fixed = tir_index_ref(lo->arena, outer->data[i]);
  for (uint32_t i = 0; i < v->rank; i++) {
    v->subs[fixed + i].slot = i;
    v->dims[i] = value->dims[fixed + i];
  }
  return v;
}

/* subs[k] NULL keeps slot k. */
static const lo_view_t *view_sub(lo_t *lo, const lo_view_t *view,
                                 uint32_t count, tir_expr_t *const *subs) {
  TD_CHECK(lo->task, count <= view->rank, "%u subscripts on rank %u", count,
           view->rank);
  if (view->value == NULL) return view;
  lo_view_t *v = TD_NEW(lo->arena, lo_view_t);
  uint32_t place[IX_MAX_RANK];
  v->value = view->value;
  v->dtype = view->dtype;
  v->dims = TD_NEW_ARRAY(lo->arena, const ix_poly_t *, view->rank);
  v->subs = TD_NEW_ARRAY(lo->arena, lo_sub_t, view->value->rank);
  for (uint32_t k = 0; k < view->rank; k++) {
    if (k < count && subs[k] != NULL) continue;
    place[k] = v->rank;
    v->dims[v->rank++] = view->dims[k];
  }
  for (uint32_t i = 0; i < view->value->rank; i++) {
    lo_sub_t s = view->subs[i];
    if (s.fixed == NULL) {
      if (s.slot < count && subs[s.slot] != NULL)
        s.fixed = subs[s.slot];
      else
        s.slot = place[s.slot];
    }
    v->subs[i] = s;
  }
  return v;
}

const lo_view_t *lo_view_fix(lo_t *lo, const lo_view_t *view, uint32_t count,
                             tir_expr_t *const *fixed) {
  return count == 0 ? view : view_sub(lo, view, count, fixed);
}

/* `at` has one coordinate a slot; NULL for rank 0. */
tir_expr_t *lo_view_load(lo_t *lo, const lo_view_t *view,
                         tir_expr_t *const *at, td_loc_t loc) {
  if (view->value == NULL) return view->scalar;
  tir_expr_t *subs[IX_MAX_RANK];
  for (uint32_t i = 0; i < view->value->rank; i++) {
    const lo_sub_t *s = &view->subs[i];
    subs[i] = s->fixed != NULL ? s->fixed : at[s->slot];
  }
  tir_expr_t *e = tir_load(lo->arena, view->value, view->value->rank, subs);
  e->loc = loc;
  return e;
}

/* ---- names -------------------------------------------------------------- */

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

lo_binding_t *lo_lookup(lo_t *lo, const sem_symbol_t *symbol) {
  return td_map_get_u64(&lo->frame->symbols, key_of(symbol));
}

void lo_bind(lo_t *lo, const sem_symbol_t *symbol, lo_binding_t *binding) {
  td_map_put_u64(&lo->frame->symbols, key_of(symbol), binding);
}

void lo_bind_value(lo_t *lo, const sem_symbol_t *symbol, lo_value_t value) {
  lo_binding_t *b = TD_NEW(lo->arena, lo_binding_t);
  b->count = value.count;
  b->leaves = value.leaves;
  lo_bind(lo, symbol, b);
}

lo_value_t lo_value_one(lo_t *lo, const lo_view_t *view) {
  lo_value_t v = {1, TD_NEW_ARRAY(lo->arena, const lo_view_t *, 1)};
  v.leaves[0] = view;
  return v;
}

/* The current version, for names with storage: whoever asks later may get a
 * later one. */
static const lo_view_t *binding_leaf(lo_t *lo, const lo_binding_t *b,
                                     uint32_t i) {
  if (b->cells == NULL) return b->leaves[i];
  return lo_view_fix(lo, b->cells[i]->now, b->prefix_count, b->prefix);
}

/* ---- chains ------------------------------------------------------------- */

static bool is_chain_link(const sem_expr_t *e) {
  return e->kind == SEM_FIELD ||
         (e->kind == SEM_SUBSCRIPT && e->otherwise == NULL);
}

/* Names of `each` stand for a chain themselves. */
static const sem_expr_t *through_place(const sem_expr_t *e) {
  while (e->kind == SEM_NAME && e->symbol->kind == SEM_PLACE)
    e = e->symbol->place;
  return e;
}

static bool has_root(const sem_expr_t *e) {
  return e->kind == SEM_NAME || e->type.kind == SEM_STRUCT;
}

bool lo_is_chain(const sem_expr_t *e) {
  for (e = through_place(e); is_chain_link(e);)
    e = through_place(e->args[0]);
  return has_root(e);
}

typedef TD_VEC(const sem_expr_t *) links_t;

/* The root, and the links above it from the root outwards. */
static const sem_expr_t *unwind(lo_t *lo, const sem_expr_t *e,
                                links_t *out) {
  links_t links = {0};
  for (e = through_place(e); is_chain_link(e);
       e = through_place(e->args[0]))
    td_vec_push(lo->arena, &links, e);
  for (size_t i = links.length; i-- > 0;)
    td_vec_push(lo->arena, out, links.data[i]);
  return e;
}

/* One expression for each subscript, NULL for `:`. */
static void eval_subs(lo_t *lo, const sem_expr_t *link, tir_expr_t **out) {
  for (uint32_t i = 0; i < link->sub_count; i++)
    out[i] = link->subs[i].expr == NULL ? NULL
                                        : lo_scalar(lo, link->subs[i].expr);
}

/* From the root outwards.  Subscripts of stacks wait until the leaves are
 * known, because a field may come behind them: m.ex[e].w1 is leaf w1 of m.ex
 * with its first slot fixed.  Once a tensor is subscripted, the rest of the
 * chain are subscripts of the view. */
static lo_value_t chain_value(lo_t *lo, const sem_expr_t *e) {
  links_t links = {0};
  const sem_expr_t *root = unwind(lo, e, &links);
  lo_binding_t formula, *b;
  if (root->kind == SEM_NAME) {
    b = lo_lookup(lo, root->symbol);
    TD_CHECK(lo->task, b != NULL, "%s has no value here",
             root->symbol->name);
  } else {
    lo_value_t v = lo_value(lo, root);
    formula = (lo_binding_t){.count = v.count, .leaves = v.leaves};
    b = &formula;
  }
  uint32_t first = 0, count = b->count, fixed_count = 0;
  tir_expr_t *fixed[IX_MAX_RANK]; /* stack positions met so far */
  const lo_view_t *view = NULL;   /* once a tensor is subscripted */
  for (size_t i = 0; i < links.length; i++) {
    const sem_expr_t *link = links.data[i];
    const sem_type_t *base = &link->args[0]->type;
    if (link->kind == SEM_FIELD) {
      first += field_offset(base->record, link->field);
      count = lo_leaf_count(&base->record->fields[link->field].type);
      continue;
    }
    tir_expr_t *subs[IX_MAX_RANK];
    eval_subs(lo, link, subs);
    if (base->kind == SEM_STRUCT) {
      TD_CHECK(lo->task, fixed_count + link->sub_count <= IX_MAX_RANK,
               "too many stack positions");
      for (uint32_t k = 0; k < link->sub_count; k++)
        fixed[fixed_count++] = subs[k];
      continue;
    }
    if (view == NULL)
      view = lo_view_fix(lo, binding_leaf(lo, b, first), fixed_count, fixed);
    view = view_sub(lo, view, link->sub_count, subs);
  }
  if (view != NULL) return lo_value_one(lo, view);
  lo_value_t v = {count, TD_NEW_ARRAY(lo->arena, const lo_view_t *, count)};
  for (uint32_t i = 0; i < count; i++)
    v.leaves[i] =
        lo_view_fix(lo, binding_leaf(lo, b, first + i), fixed_count, fixed);
  return v;
}

/* Cells are shared with the root's binding, so what is written through the
 * place is seen by every other path to it. */
lo_binding_t *lo_place(lo_t *lo, const sem_expr_t *e) {
  links_t links = {0};
  const sem_expr_t *root = unwind(lo, e, &links);
  lo_binding_t *b =
      root->kind == SEM_NAME ? lo_lookup(lo, root->symbol) : NULL;
  TD_CHECK(lo->task, b != NULL && b->cells != NULL,
           "the place has no storage");
  lo_binding_t *p = TD_NEW(lo->arena, lo_binding_t);
  *p = *b;
  p->prefix = TD_NEW_ARRAY(lo->arena, tir_expr_t *, IX_MAX_RANK);
  for (uint32_t i = 0; i < b->prefix_count; i++) p->prefix[i] = b->prefix[i];
  for (size_t i = 0; i < links.length; i++) {
    const sem_expr_t *link = links.data[i];
    if (link->kind == SEM_FIELD) {
      const sem_struct_t *record = link->args[0]->type.record;
      p->cells += field_offset(record, link->field);
      p->count = lo_leaf_count(&record->fields[link->field].type);
      continue;
    }
    tir_expr_t *subs[IX_MAX_RANK];
    eval_subs(lo, link, subs);
    /* A leaf's own dims may be spelled as `:` behind its stack position. */
    for (uint32_t k = 0; k < link->sub_count && subs[k] != NULL; k++) {
      TD_CHECK(lo->task, p->prefix_count < IX_MAX_RANK,
               "too many stack positions");
      p->prefix[p->prefix_count++] = subs[k];
    }
  }
  return p;
}

bool lo_place_range(const sem_expr_t *e, const sem_symbol_t **root,
                    uint32_t *first, uint32_t *count) {
  *first = 0;
  *count = lo_leaf_count(&e->type);
  for (e = through_place(e); is_chain_link(e);
       e = through_place(e->args[0]))
    if (e->kind == SEM_FIELD)
      *first += field_offset(e->args[0]->type.record, e->field);
  *root = e->symbol;
  return e->kind == SEM_NAME;
}

/* ---- values of any expression ------------------------------------------- */

/* Float leaves through a cast to the dtype of e; the others as they are. */
static lo_value_t cast_struct(lo_t *lo, const sem_expr_t *e) {
  lo_value_t from = lo_value(lo, e->args[0]);
  lo_value_t to = {from.count, TD_NEW_ARRAY(lo->arena, const lo_view_t *,
                                            from.count)};
  lo_leaves_t leaves = {0};
  lo_leaves(lo, &e->args[0]->type, &leaves);
  for (uint32_t i = 0; i < from.count; i++) {
    const lo_view_t *view = from.leaves[i];
    to.leaves[i] = view;
    if (!td_dtype_is_float(view->dtype) || view->dtype == e->type.dtype)
      continue;
    size_t mark = lo->active.length;
    tir_index_t *own[IX_MAX_RANK];
    tir_expr_t *at[IX_MAX_RANK];
    for (uint32_t k = 0; k < view->rank; k++) {
      own[k] = lo_push_index(lo, "i", view->dims[k], e->loc);
      at[k] = tir_index_ref(lo->arena, own[k]);
    }
    lo_spec_t spec = {.name = td_arena_printf(lo->arena, "%s%s", lo->name,
                                              leaves.data[i].path),
                      .loc = e->loc,
                      .dtype = e->type.dtype,
                      .is_written = true,
                      .own_count = view->rank,
                      .own = own,
                      .body = lo_view_load(lo, view, at, e->loc)};
    to.leaves[i] = lo_emit_map(lo, &spec);
    lo->active.length = mark;
  }
  return to;
}

/* Reads of names are views; calls give views of what they made; the rest is a
 * formula and must be stored to be seen as a tensor. */
lo_value_t lo_value_named(lo_t *lo, const sem_expr_t *e, const char *name) {
  if (lo_is_chain(e) && (e->kind == SEM_NAME || is_chain_link(e)))
    return chain_value(lo, e);
  if (e->kind == SEM_CALL) return lo_call_value(lo, e);
  if (e->type.kind == SEM_STRUCT) {
    if (e->kind == SEM_CAST) return cast_struct(lo, e);
    if (e->kind == SEM_GRAD) lo_refuse_grad(lo, e);
    TD_CHECK(lo->task, e->kind == SEM_WIDEN, "struct expression of kind %d",
             (int)e->kind);
    return lo_value_named(lo, e->args[0], name);
  }
  if (e->type.rank == 0)
    return lo_value_one(lo, lo_view_scalar(lo, lo_scalar(lo, e)));
  /* A load widens by itself. */
  if (e->kind == SEM_WIDEN &&
      td_dtype_is_float(e->type.dtype) ==
          td_dtype_is_float(e->args[0]->type.dtype))
    return lo_value_named(lo, e->args[0], name);
  if (name == NULL)
    name = td_arena_printf(lo->arena, "%s.arg", lo->name);
  return lo_value_one(lo, lo_store_formula(lo, e, name));
}

lo_value_t lo_value(lo_t *lo, const sem_expr_t *e) {
  return lo_value_named(lo, e, NULL);
}

const lo_view_t *lo_view(lo_t *lo, const sem_expr_t *e) {
  return lo_value(lo, e).leaves[0];
}
