/* lower_stmt.c: blocks, definitions, asserts.
 *
 * A definition is one map over its indices.  It needs none where a call
 * already made the value in the right type: then the name is a view of what
 * the call made. */
#include "frontend/lower_impl.h"

/* ---- types of places ---------------------------------------------------- */

/* Whether a place of dtype `to` holds every value of `from` exactly. */
static bool is_exact(tdsl_dtype_t from, tdsl_dtype_t to) {
  if (from == to) return true;
  switch (to) {
  case TDSL_DTYPE_F64: return td_dtype_is_float(from);
  case TDSL_DTYPE_F32:
    return td_dtype_is_float(from) && from != TDSL_DTYPE_F64;
  case TDSL_DTYPE_I64: return td_dtype_is_int(from);
  case TDSL_DTYPE_I32:
    return from == TDSL_DTYPE_I8 || from == TDSL_DTYPE_U8;
  default: return false;
  }
}

/* Whether a name of this type may be a view of a value of that dtype.  What
 * is not written keeps what the formula gives. */
static bool accepts(const sem_symbol_t *symbol, tdsl_dtype_t dtype,
                    tdsl_dtype_t from) {
  return symbol->is_written ? is_exact(from, dtype)
                            : tir_arithmetic(from) == tir_arithmetic(dtype);
}

static tdsl_dtype_t stored_dtype(const sem_symbol_t *symbol,
                                 tdsl_dtype_t dtype) {
  return symbol->is_written ? dtype : tir_arithmetic(dtype);
}

/* `p` in an entry, `o.p` in a call that defines o; a result has the name that
 * the caller gives it. */
const char *lo_symbol_name(lo_t *lo, const sem_symbol_t *symbol) {
  const lo_frame_t *f = lo->frame;
  if (f->caller == NULL) return symbol->name;
  for (uint32_t i = 0; i < f->func->result_count; i++)
    if (f->func->results[i] == symbol) return f->result_names[i];
  return td_arena_printf(lo->arena, "%s.%s", f->prefix, symbol->name);
}

/* Meant for what the body of an inlined function stores; an entry's results
 * are already in their own order. */
const lo_order_t *lo_symbol_order(const lo_t *lo,
                                  const sem_symbol_t *symbol) {
  const lo_frame_t *f = lo->frame;
  if (f->caller == NULL || f->result_orders == NULL) return NULL;
  for (uint32_t i = 0; i < f->func->result_count; i++)
    if (f->func->results[i] == symbol) return &f->result_orders[i];
  return NULL;
}

/* Range of an integer type, where it is over dims only. */
static const ix_poly_t *range_end(lo_t *lo, const ix_poly_t *end) {
  if (end == NULL || ix_mentions_kind(end, IX_SYM_INDEX) ||
      ix_mentions_kind(end, IX_SYM_LOOP) ||
      ix_mentions_kind(end, IX_SYM_DATA))
    return NULL;
  return lo_poly(lo, end);
}

/* ---- binding ------------------------------------------------------------ */

/* The name becomes the value, or a var with these first versions. */
static void bind_symbol(lo_t *lo, const sem_symbol_t *symbol,
                        lo_value_t value) {
  if (!symbol->is_var) {
    lo_bind_value(lo, symbol, value);
    return;
  }
  /* The first version may be any view: values never change, only the cell
   * moves on to the next one. */
  lo_binding_t *b = TD_NEW(lo->arena, lo_binding_t);
  lo_leaves_t leaves = {0};
  lo_leaves(lo, &symbol->type, &leaves);
  const char *name = lo_symbol_name(lo, symbol);
  b->count = value.count;
  b->cells = TD_NEW_ARRAY(lo->arena, lo_cell_t *, b->count);
  for (uint32_t i = 0; i < b->count; i++) {
    const lo_leaf_t *leaf = &leaves.data[i];
    lo_cell_t *cell = TD_NEW(lo->arena, lo_cell_t);
    cell->now = value.leaves[i];
    cell->name = td_arena_printf(lo->arena, "%s%s", name, leaf->path);
    /* The fields of a struct are written in its declaration. */
    bool is_field = symbol->type.kind == SEM_STRUCT;
    cell->dtype =
        is_field ? leaf->dtype : stored_dtype(symbol, leaf->dtype);
    cell->is_written = is_field || symbol->is_written;
    cell->loc = symbol->loc;
    cell->rank = leaf->rank;
    cell->dims = TD_NEW_ARRAY(lo->arena, const ix_poly_t *, leaf->rank);
    for (uint32_t k = 0; k < leaf->rank; k++)
      cell->dims[k] = lo_poly(lo, leaf->dims[k]->size);
    b->cells[i] = cell;
  }
  lo_bind(lo, symbol, b);
}

/* ---- shapes of left sides ----------------------------------------------- */

/* A left side y[n, :, m]: its own indices in order, and the coordinates of
 * the value, which are those of `:` (for a whole y: all). */
typedef struct shape {
  uint32_t own_count, at_count;
  tir_index_t *own[IX_MAX_RANK];
  tir_expr_t *at[IX_MAX_RANK];
} shape_t;

/* The canonical index of a statement's index, from what it is bound to. */
tir_index_t *lo_canonical(lo_t *lo, const sem_index_t *index) {
  const tir_expr_t *e =
      td_map_get_u64(&lo->frame->indices, (uint64_t)(uintptr_t)index);
  if (e != NULL && e->op == TIR_X_ADD) e = e->args[0]; /* with a lower end */
  for (size_t i = lo->active.length; i-- > 0;)
    if (e != NULL && lo->active.data[i] == e->u.index)
      return lo->active.data[i];
  TD_ICE(lo->task, "index %s has no range here", index->name);
}

/* dims: of the value's coordinates. */
static void shape_of(lo_t *lo, const sem_target_t *t, uint32_t rank,
                     const ix_poly_t *const *dims, td_loc_t loc,
                     shape_t *out) {
  uint32_t count = t->sub_count == 0 ? rank : t->sub_count;
  *out = (shape_t){.own_count = count};
  for (uint32_t i = 0; i < count; i++) {
    const sem_index_t *index = t->sub_count == 0 ? NULL : t->subs[i];
    if (index != NULL) {
      out->own[i] = lo_canonical(lo, index);
      continue;
    }
    uint32_t k = out->at_count++;
    out->own[i] = lo_push_index(lo, "i", dims[k], loc);
    out->at[k] = tir_index_ref(lo->arena, out->own[i]);
  }
}

/* Left ranges start at 0; those of updates may have a lower end. */
void lo_push_indices(lo_t *lo, const sem_stmt_t *s) {
  for (uint32_t i = 0; i < s->index_count; i++) {
    const sem_index_t *index = s->indices[i];
    tir_index_t *canon = lo_push_index(
        lo, index->name, lo_poly(lo, index->extent), index->loc);
    tir_expr_t *value = tir_index_ref(lo->arena, canon);
    int64_t n;
    const ix_poly_t *low = lo_poly(lo, index->lo);
    if (!ix_is_const(low, &n) || n != 0)
      value = lo_op2(lo, TIR_X_ADD, TDSL_DTYPE_I64, value, lo_dim(lo, low),
                     index->loc);
    lo_bind_index(lo, index, value);
  }
}

/* The view as one whose slots are the dims of the left side, or NULL if an
 * index of the statement occurs in it in another way than as the subscript
 * of a dim of its own range. */
static const lo_view_t *reshaped(lo_t *lo, const sem_target_t *t,
                                 const lo_view_t *view) {
  if (t->sub_count == 0) return view;
  if (view->value == NULL) return NULL;
  lo_view_t *v = TD_NEW(lo->arena, lo_view_t);
  *v = *view;
  v->rank = t->sub_count;
  v->dims = TD_NEW_ARRAY(lo->arena, const ix_poly_t *, v->rank);
  v->subs = TD_NEW_ARRAY(lo->arena, lo_sub_t, view->value->rank);
  uint32_t slot_of[IX_MAX_RANK], colons = 0;
  for (uint32_t i = 0; i < t->sub_count; i++) {
    if (t->subs[i] != NULL) {
      v->dims[i] = lo_canonical(lo, t->subs[i])->extent;
      continue;
    }
    v->dims[i] = view->dims[colons];
    slot_of[colons++] = i;
  }
  for (uint32_t d = 0; d < view->value->rank; d++) {
    lo_sub_t s = view->subs[d];
    if (s.fixed == NULL) {
      v->subs[d].slot = slot_of[s.slot];
      continue;
    }
    lo_indices_t free = {0};
    lo_free_indices(lo, 1, &s.fixed, 0, NULL, &free);
    bool is_own = false;
    for (uint32_t i = 0; i < t->sub_count; i++) {
      if (t->subs[i] == NULL) continue;
      const tir_index_t *index = lo_canonical(lo, t->subs[i]);
      for (size_t k = 0; k < free.length; k++) {
        if (free.data[k] != index) continue;
        if (s.fixed->op != TIR_X_INDEX ||
            index->extent != view->value->dims[d])
          return NULL;
        is_own = true;
        v->subs[d].slot = i;
      }
    }
    if (!is_own) v->subs[d].fixed = s.fixed;
  }
  return v;
}

/* ---- definitions -------------------------------------------------------- */

/* The place that a definition stores into. */
static lo_spec_t spec_for(lo_t *lo, const sem_symbol_t *symbol,
                          const shape_t *shape, td_loc_t loc) {
  const sem_type_t *type = &symbol->type;
  lo_spec_t spec = {.name = lo_symbol_name(lo, symbol),
                    .loc = loc,
                    .dtype = stored_dtype(symbol, type->dtype),
                    .is_written = symbol->is_written,
                    .own_count = shape->own_count,
                    .own = shape->own,
                    .order = lo_symbol_order(lo, symbol)};
  if (td_dtype_is_int(spec.dtype)) {
    spec.lo = range_end(lo, type->lo);
    spec.hi = range_end(lo, type->hi);
  }
  return spec;
}

const lo_view_t *lo_emit_formula(lo_t *lo, const sem_expr_t *e,
                                     tir_expr_t *const *at,
                                     lo_spec_t *spec) {
  if (e->kind != SEM_REDUCE && e->kind != SEM_REDUCE_ALL) {
    spec->body = lo_elem(lo, e, e->type.rank == 0 ? NULL : at);
    return lo_emit_map(lo, spec);
  }
  size_t mark = lo->active.length;
  lo_reduction_t r;
  lo_reduction(lo, e, at, &r);
  tir_expr_t *exprs[] = {r.spec.body, r.spec.guard};
  lo_indices_t free = {0};
  lo_free_indices(lo, 2, exprs, r.spec.red_count, r.spec.red, &free);
  bool is_direct = r.offset == NULL;
  for (uint32_t i = 0; i < spec->own_count; i++) {
    bool occurs = false;
    for (size_t k = 0; k < free.length; k++)
      if (free.data[k] == spec->own[i]) occurs = true;
    if (!occurs) is_direct = false;
  }
  if (is_direct) {
    lo_spec_t direct = r.spec;
    direct.name = spec->name;
    direct.dtype = spec->dtype;
    direct.is_written = spec->is_written;
    direct.own_count = spec->own_count;
    direct.own = spec->own;
    direct.order = spec->order;
    if (spec->lo != NULL) direct.lo = spec->lo;
    if (spec->hi != NULL) direct.hi = spec->hi;
    const lo_view_t *view = lo_emit_map(lo, &direct);
    lo->active.length = mark;
    return view;
  }
  const lo_view_t *sum = lo_emit_map(lo, &r.spec);
  lo->active.length = mark;
  spec->body = lo_view_load(lo, sum, NULL, e->loc);
  if (r.offset != NULL)
    spec->body = lo_op2(lo, TIR_X_ADD, TDSL_DTYPE_I64, spec->body, r.offset,
                        e->loc);
  return lo_emit_map(lo, spec);
}

/* Target := an existing view: the view itself, or a copy. */
static void define_view(lo_t *lo, const sem_stmt_t *s,
                        const sem_target_t *t, const lo_view_t *view) {
  const sem_symbol_t *symbol = t->symbol;
  const lo_view_t *mine = NULL;
  /* Scalars are worth a node of their name, except where all is formula. */
  if ((view->value != NULL || lo->frame->is_scalar) &&
      accepts(symbol, symbol->type.dtype, view->dtype))
    mine = reshaped(lo, t, view);
  if (mine == NULL) {
    size_t mark = lo->active.length;
    shape_t shape;
    shape_of(lo, t, view->rank, view->dims, s->loc, &shape);
    lo_spec_t spec = spec_for(lo, symbol, &shape, s->loc);
    spec.body = lo_view_load(lo, view, shape.at, s->loc);
    mine = lo_emit_map(lo, &spec);
    lo->active.length = mark;
  }
  bind_symbol(lo, symbol, lo_value_one(lo, mine));
}

/* Leaf by leaf: views where the types agree, maps where they do not, and a
 * constant where the value is one. */
static void define_struct(lo_t *lo, const sem_stmt_t *s,
                          const sem_symbol_t *symbol, const lo_value_t *from) {
  lo_leaves_t leaves = {0};
  lo_leaves(lo, &symbol->type, &leaves);
  uint32_t count = (uint32_t)leaves.length;
  lo_value_t to = {count,
                   TD_NEW_ARRAY(lo->arena, const lo_view_t *, count)};
  const char *name = lo_symbol_name(lo, symbol);
  for (uint32_t i = 0; i < count; i++) {
    const lo_leaf_t *leaf = &leaves.data[i];
    if (from != NULL && is_exact(from->leaves[i]->dtype, leaf->dtype)) {
      to.leaves[i] = from->leaves[i];
      continue;
    }
    size_t mark = lo->active.length;
    tir_index_t *own[IX_MAX_RANK];
    tir_expr_t *at[IX_MAX_RANK];
    for (uint32_t k = 0; k < leaf->rank; k++) {
      own[k] = lo_push_index(lo, "i", lo_poly(lo, leaf->dims[k]->size),
                             s->loc);
      at[k] = tir_index_ref(lo->arena, own[k]);
    }
    lo_spec_t spec = {
        .name = td_arena_printf(lo->arena, "%s%s", name, leaf->path),
        .loc = s->loc,
        .dtype = leaf->dtype,
        .is_written = true,
        .own_count = leaf->rank,
        .own = own,
        .body = from != NULL
                    ? lo_view_load(lo, from->leaves[i], at, s->loc)
                    : lo_zero(lo, tir_arithmetic(leaf->dtype))};
    to.leaves[i] = lo_emit_map(lo, &spec);
    lo->active.length = mark;
  }
  bind_symbol(lo, symbol, to);
}

/* A scalar that stays a formula, as the place would hold it; NULL if its
 * place keeps low bits, which no formula says. */
static tir_expr_t *stored_formula(lo_t *lo, const sem_symbol_t *symbol,
                                  tir_expr_t *e) {
  tdsl_dtype_t dtype = stored_dtype(symbol, symbol->type.dtype);
  tdsl_dtype_t type = tir_arithmetic(dtype);
  if (td_dtype_is_float(dtype)) {
    if (!td_dtype_is_float(e->type)) e = lo_coerce(lo, e, type);
    return dtype == type && e->type == type ? e
                                            : tir_cast(lo->arena, dtype, e);
  }
  return dtype == type && e->type == type ? e : NULL;
}

/* Definitions that need no node: those of scalar functions, and numbers. */
static bool stays_formula(const lo_t *lo, const sem_stmt_t *s) {
  const sem_symbol_t *symbol = s->targets[0].symbol;
  if (symbol->is_var || symbol->type.rank > 0 || s->index_count > 0)
    return false;
  if (lo->frame->is_scalar) return true;
  /* Numbers and dims, so that subscripts made of them stay affine. */
  return !symbol->is_written && symbol->kind != SEM_RESULT &&
         (s->value->kind == SEM_CONST || s->value->kind == SEM_DIM);
}

/* Apart from define_formula, which takes much stack: scalar functions call
 * each other through here. */
static bool define_scalar(lo_t *lo, const sem_stmt_t *s) {
  const sem_symbol_t *symbol = s->targets[0].symbol;
  if (!stays_formula(lo, s)) return false;
  tir_expr_t *e = stored_formula(lo, symbol, lo_scalar(lo, s->value));
  if (e == NULL) return false;
  bind_symbol(lo, symbol, lo_value_one(lo, lo_view_scalar(lo, e)));
  return true;
}

static void define_formula(lo_t *lo, const sem_stmt_t *s) {
  const sem_target_t *t = &s->targets[0];
  const sem_symbol_t *symbol = t->symbol;
  /* The dims of the value; of the name, if a constant fills it. */
  const sem_type_t *type =
      s->value->type.rank > 0 ? &s->value->type : &symbol->type;
  const ix_poly_t *dims[IX_MAX_RANK];
  for (uint32_t i = 0; i < type->rank; i++)
    dims[i] = lo_poly(lo, type->dims[i].size);
  size_t mark = lo->active.length;
  shape_t shape;
  shape_of(lo, t, type->rank, dims, s->loc, &shape);
  lo_spec_t spec = spec_for(lo, symbol, &shape, s->loc);
  const lo_view_t *view = lo_emit_formula(lo, s->value, shape.at, &spec);
  lo->active.length = mark;
  bind_symbol(lo, symbol, lo_value_one(lo, view));
}

/* The order of dims of a left side; where it is itself a result, put into
 * the order that the caller of this frame wants. */
static void order_of(lo_t *lo, const sem_target_t *t, lo_order_t *out) {
  lo_order_t mine = {.count = 0};
  uint32_t colons = 0;
  mine.count = t->sub_count == 0 ? t->symbol->type.rank : t->sub_count;
  for (uint32_t i = 0; i < mine.count; i++) {
    if (t->sub_count > 0 && t->subs[i] != NULL)
      mine.items[i].index = lo_canonical(lo, t->subs[i]);
    else
      mine.items[i].dim = colons++;
  }
  *out = mine;
  const lo_order_t *outer = lo_symbol_order(lo, t->symbol);
  if (outer == NULL || outer->count == 0) return;
  *out = *outer;
  for (uint32_t i = 0; i < outer->count; i++) {
    uint32_t dim = outer->items[i].dim;
    if (outer->items[i].index == NULL && dim < mine.count)
      out->items[i] = mine.items[dim];
  }
}

/* The one result of a call, in a narrower type: h: bf16 = rmsnorm(...).  If
 * the last node that the call made is that result and computes in f32, it
 * may as well round at its store: nobody else has seen what it made. */
static const lo_view_t *narrowed(lo_t *lo, const sem_expr_t *call,
                                 size_t first_node, const lo_view_t *view,
                                 const sem_symbol_t *symbol) {
  tdsl_dtype_t dtype = symbol->type.dtype;
  const tir_block_t *block = lo->block;
  if (!symbol->is_written || !td_dtype_is_float(dtype) ||
      call->callee->has_inout || call->callee->result_count != 1 ||
      block->length <= first_node)
    return view;
  tir_node_t *last = td_vec_last(block);
  if (last->kind != TIR_MAP || last->outs[0] != view->value ||
      view->dtype != TDSL_DTYPE_F32 || last->body->type != TDSL_DTYPE_F32)
    return view;
  last->outs[0]->dtype = dtype;
  last->outs[0]->is_written = true;
  lo_view_t *v = TD_NEW(lo->arena, lo_view_t);
  *v = *view;
  v->dtype = dtype;
  return v;
}

static void define_call(lo_t *lo, const sem_stmt_t *s) {
  uint32_t count = s->value->callee->result_count;
  size_t first_node = lo->block->length;
  const char **names = TD_NEW_ARRAY(lo->arena, const char *, count);
  lo_value_t *results = TD_NEW_ARRAY(lo->arena, lo_value_t, count);
  for (uint32_t i = 0; i < count; i++)
    names[i] = i < s->target_count
                   ? lo_symbol_name(lo, s->targets[i].symbol)
                   : lo->name;
  lo_order_t *orders = TD_NEW_ARRAY(lo->arena, lo_order_t, count);
  for (uint32_t i = 0; i < count && i < s->target_count; i++)
    order_of(lo, &s->targets[i], &orders[i]);
  lo_inline(lo, s->value, names, orders, results);
  for (uint32_t i = 0; i < s->target_count; i++) {
    const sem_target_t *t = &s->targets[i];
    if (t->symbol->type.kind == SEM_STRUCT)
      define_struct(lo, s, t->symbol, &results[i]);
    else
      define_view(lo, s, t,
                  narrowed(lo, s->value, first_node, results[i].leaves[0],
                           t->symbol));
  }
}

/* The positions have no other name if only the values are wanted. */
static void define_topk(lo_t *lo, const sem_stmt_t *s) {
  const char *names[2];
  const lo_view_t *views[2];
  for (uint32_t i = 0; i < 2; i++)
    names[i] = i < s->target_count
                   ? lo_symbol_name(lo, s->targets[i].symbol)
                   : td_arena_printf(lo->arena, "%s.at", lo->name);
  lo_topk(lo, s->value, names, &views[0], &views[1]);
  for (uint32_t i = 0; i < s->target_count && i < 2; i++)
    define_view(lo, s, &s->targets[i], views[i]);
}

/* The right side decides: what a call made, what topk made, a struct, another
 * name for a view, or a formula. */
void lo_define(lo_t *lo, const sem_stmt_t *s) {
  size_t mark = lo->active.length;
  const sem_target_t *first = &s->targets[0];
  lo->name = lo_symbol_name(lo, first->symbol);
  lo_push_indices(lo, s);
  if (s->value->kind == SEM_CALL) {
    define_call(lo, s);
  } else if (s->value->kind == SEM_TOPK) {
    define_topk(lo, s);
  } else if (first->symbol->type.kind == SEM_STRUCT) {
    bool is_struct = s->value->type.kind == SEM_STRUCT;
    lo_value_t v = {0, NULL};
    if (is_struct) v = lo_value(lo, s->value);
    define_struct(lo, s, first->symbol, is_struct ? &v : NULL);
  } else if (first->sub_count == 0 && s->value->type.rank > 0 &&
             lo_is_chain(s->value)) {
    define_view(lo, s, first, lo_view(lo, s->value));
  } else if (!define_scalar(lo, s)) {
    define_formula(lo, s);
  }
  lo->active.length = mark;
}

/* ---- the rest ----------------------------------------------------------- */

/* In a mapped call the condition must hold for every tuple of the outer
 * indices at which the call is evaluated. */
static void lower_assert(lo_t *lo, const sem_stmt_t *s) {
  lo->name = "assert";
  tir_expr_t *cond = lo_scalar(lo, s->value);
  tir_expr_t *exprs[] = {cond, lo->guard};
  lo_indices_t free = {0};
  lo_free_indices(lo, 2, exprs, 0, NULL, &free);
  if (free.length > 0) {
    lo_spec_t spec = {.name = "assert_all",
                      .loc = s->loc,
                      .dtype = TDSL_DTYPE_BOOL,
                      .red_count = (uint32_t)free.length,
                      .red = free.data,
                      .reduce = TIR_REDUCE_ALL,
                      .guard = lo->guard,
                      .body = cond};
    cond = lo_view_load(lo, lo_emit_map(lo, &spec), NULL, s->loc);
  } else if (lo->guard != NULL) {
    tir_expr_t *off = lo_op1(lo, TIR_X_NOT, TDSL_DTYPE_BOOL, lo->guard,
                             s->loc);
    cond = lo_op2(lo, TIR_X_OR, TDSL_DTYPE_BOOL, off, cond, s->loc);
  }
  tir_node_t *node = tir_node_create(lo->arena, TIR_ASSERT, 0);
  node->loc = s->value->loc;
  node->body = lo_copy_expr(lo, cond);
  node->text = s->text;
  lo_add_node(lo, node);
}

/* A call for its effect on inout arguments. */
static void lower_call(lo_t *lo, const sem_stmt_t *s) {
  const sem_func_t *callee = s->value->callee;
  lo->name = callee->name;
  const char **names =
      TD_NEW_ARRAY(lo->arena, const char *, callee->result_count);
  lo_value_t *results =
      TD_NEW_ARRAY(lo->arena, lo_value_t, callee->result_count);
  for (uint32_t i = 0; i < callee->result_count; i++)
    names[i] = td_arena_printf(lo->arena, "%s.%s", callee->name,
                               callee->results[i]->name);
  lo_inline(lo, s->value, names, NULL, results);
}

void lo_block(lo_t *lo, const sem_block_t *block) {
  const char *outer = lo->name;
  for (uint32_t i = 0; i < block->stmt_count; i++) {
    const sem_stmt_t *s = block->stmts[i];
    switch (s->kind) {
    case SEM_DEFINE: lo_define(lo, s); break;
    case SEM_UPDATE: lo_update(lo, s); break;
    case SEM_CALL_STMT: lower_call(lo, s); break;
    case SEM_FOR: lo_for(lo, s); break;
    case SEM_EACH: lo_each(lo, s); break;
    case SEM_SCOPE: lo_block(lo, s->body); break;
    case SEM_ASSERT: lower_assert(lo, s); break;
    }
  }
  lo->name = outer;
}
