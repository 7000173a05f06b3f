/* lower_loop.c: for and each.
 *
 * A loop node carries the cells that its body assigns, found by a scan of
 * the body and of what it calls.  A carried value has the same dims in every
 * iteration, so it gets all outer indices that the body can bring in: those
 * in the arguments of the function, in the guard, and in its first version.
 *
 * If the bounds themselves depend on outer indices (a mapped call that loops
 * `for i in n`), one loop runs over the hull of all ranges; each tuple takes
 * part in its own iterations and keeps its values in the others. */
#include "frontend/lower_impl.h"

/* ---- what a body assigns ------------------------------------------------ */

typedef TD_VEC(lo_cell_t *) cells_t;

/* inout parameters of a function that is scanned but not yet inlined, as
 * runs of cells; for the innermost, the frame itself knows. */
typedef struct scan {
  lo_t *lo;
  td_map_t *params; /* sem_symbol_t -> lo_binding_t; NULL: lo->frame */
  uint32_t depth;
  cells_t *out;
} scan_t;

static void scan_block(const scan_t *scan, const sem_block_t *block);

/* The cells behind a place; NULL if its root is local to the body. */
static lo_cell_t **cells_of(const scan_t *scan, const sem_expr_t *place,
                            uint32_t *count) {
  const sem_symbol_t *root;
  uint32_t first;
  if (!lo_place_range(place, &root, &first, count)) return NULL;
  const lo_binding_t *b =
      scan->params != NULL
          ? td_map_get_u64(scan->params, (uint64_t)(uintptr_t)root)
          : lo_lookup(scan->lo, root);
  return b == NULL || b->cells == NULL ? NULL : b->cells + first;
}

static void add_place(const scan_t *scan, const sem_expr_t *place) {
  uint32_t count;
  lo_cell_t **cells = cells_of(scan, place, &count);
  for (uint32_t i = 0; cells != NULL && i < count; i++) {
    bool known = false;
    for (size_t k = 0; k < scan->out->length && !known; k++)
      known = scan->out->data[k] == cells[i];
    if (!known) td_vec_push(scan->lo->arena, scan->out, cells[i]);
  }
}

/* Through the callee's eyes: its inout parameters are runs of the caller's
 * cells. */
static void scan_call(const scan_t *scan, const sem_expr_t *e) {
  if (e == NULL || e->kind != SEM_CALL || !e->callee->has_inout ||
      scan->depth > LO_MAX_DEPTH)
    return;
  td_map_t params;
  td_map_init(&params, scan->lo->arena);
  for (uint32_t i = 0; i < e->callee->param_count; i++) {
    const sem_symbol_t *p = e->callee->params[i];
    if (p->kind != SEM_INOUT) continue;
    lo_binding_t *b = TD_NEW(scan->lo->arena, lo_binding_t);
    b->cells = cells_of(scan, e->args[i], &b->count);
    td_map_put_u64(&params, (uint64_t)(uintptr_t)p, b);
  }
  scan_t inner = *scan;
  inner.params = &params;
  inner.depth++;
  scan_block(&inner, e->callee->body);
}

/* Writes only; reads need no carrying. */
static void scan_block(const scan_t *scan, const sem_block_t *block) {
  for (uint32_t i = 0; i < block->stmt_count; i++) {
    const sem_stmt_t *s = block->stmts[i];
    switch (s->kind) {
    case SEM_DEFINE:
    case SEM_CALL_STMT: scan_call(scan, s->value); break;
    case SEM_UPDATE:
      add_place(scan, s->place);
      scan_call(scan, s->value);
      break;
    case SEM_FOR:
    case SEM_SCOPE: scan_block(scan, s->body); break;
    case SEM_EACH:
      for (uint32_t k = 0; k < s->leaf_count; k++)
        scan_block(scan, s->leaves[k].body);
      break;
    case SEM_ASSERT: break;
    }
  }
}

/* ---- outer indices ------------------------------------------------------ */

static void add_view(lo_t *lo, const lo_view_t *view, lo_indices_t *all) {
  lo_indices_t found = {0};
  lo_view_indices(lo, view, &found);
  lo_join_indices(lo, all, &found, all);
}

/* Those that statements of the frame can bring in. */
static void frame_indices(lo_t *lo, lo_indices_t *all) {
  const sem_func_t *func = lo->frame->func;
  if (lo->active.length == 0) return;
  for (uint32_t i = 0; i < func->param_count; i++) {
    const lo_binding_t *b = lo_lookup(lo, func->params[i]);
    for (uint32_t k = 0; k < b->count; k++)
      add_view(lo, b->cells != NULL ? b->cells[k]->now : b->leaves[k], all);
  }
  if (lo->guard == NULL) return;
  lo_indices_t found = {0};
  lo_free_indices(lo, 1, &lo->guard, 0, NULL, &found);
  lo_join_indices(lo, all, &found, all);
}

/* ---- the loop ----------------------------------------------------------- */

/* The smallest or largest of a bound over the outer indices around it. */
static tir_expr_t *hull(lo_t *lo, td_loc_t loc, tir_expr_t *bound,
                        tir_reduce_t op, const lo_indices_t *over) {
  lo_spec_t spec = {.name = op == TIR_REDUCE_MIN ? "first" : "last",
                    .loc = loc,
                    .dtype = TDSL_DTYPE_I64,
                    .red_count = (uint32_t)over->length,
                    .red = over->data,
                    .reduce = op,
                    .guard = lo->guard,
                    .body = bound};
  return lo_view_load(lo, lo_emit_map(lo, &spec), NULL, loc);
}

/* Makes the bounds expressions over no indices.  Where they were not, the
 * iterations of a tuple are those with *in_range. */
static void settle_bounds(lo_t *lo, td_loc_t loc, tir_expr_t *iv,
                          tir_expr_t **first, tir_expr_t **last,
                          tir_expr_t **in_range) {
  tir_expr_t *exprs[] = {*first, *last, lo->guard}, *zero = lo_int(lo, 0);
  lo_indices_t of_bounds = {0}, all = {0};
  lo_free_indices(lo, 2, exprs, 0, NULL, &of_bounds);
  lo_free_indices(lo, 3, exprs, 0, NULL, &all);
  *in_range = NULL;
  if (of_bounds.length > 0) {
    tir_expr_t *low =
        lo_op2(lo, TIR_X_GE, TDSL_DTYPE_BOOL, iv, *first, loc);
    tir_expr_t *high =
        lo_op2(lo, TIR_X_LT, TDSL_DTYPE_BOOL, iv, *last, loc);
    *in_range = lo_and(lo, low, high);
  }
  if (all.length > 0) {
    *first = hull(lo, loc, *first, TIR_REDUCE_MIN, &all);
    *last = hull(lo, loc, *last, TIR_REDUCE_MAX, &all);
  } else if (lo->guard != NULL) {
    /* Where the guard is false the bounds may not be read: no iteration. */
    *first = lo_select(lo, lo->guard, *first, zero, loc);
    *last = lo_select(lo, lo->guard, *last, zero, loc);
  }
}

/* The number of a bound, for the range of the loop variable. */
static const ix_poly_t *known_bound(lo_t *lo, const tir_expr_t *e) {
  if (e->op == TIR_X_CONST) return ix_const(lo->pool, e->u.i64);
  return e->op == TIR_X_DIM ? e->u.dim : NULL;
}

/* The variable of the node; its range follows when the bounds are known. */
static tir_value_t *loop_variable(lo_t *lo, const sem_symbol_t *symbol,
                                  td_loc_t loc) {
  tir_value_t *iv = tir_value_create(lo->arena, symbol->name,
                                     TDSL_DTYPE_I64, 0, NULL);
  iv->loc = loc;
  return iv;
}

static void name_variable(lo_t *lo, tir_node_t *loop) {
  tir_value_t *iv = loop->iv;
  ix_symbol_t *s =
      ix_symbol_create(lo->pool, iv->name, IX_SYM_LOOP, iv->loc);
  s->lo = iv->lo = known_bound(lo, loop->lo);
  s->hi = iv->hi = known_bound(lo, loop->hi);
  iv->symbol = s;
}

/* The first version of a carried cell in the region. */
static void enter_cell(lo_t *lo, tir_node_t *loop, uint32_t i,
                       lo_cell_t *cell, const lo_indices_t *outer) {
  tir_value_t *init =
      lo_cell_value(lo, cell, (uint32_t)outer->length, outer->data);
  tir_value_t *param = tir_value_create(lo->arena, cell->name, cell->dtype,
                                        init->rank, init->dims);
  param->loc = loop->loc;
  param->is_written = cell->is_written;
  loop->operands[i] = init;
  loop->params[i] = param;
  cell->now = lo_view_of(lo, param, outer);
}

static bool is_made_here(const tir_block_t *block, const tir_value_t *v) {
  for (size_t i = block->length; i-- > 0;)
    if (block->data[i] == v->def) return v->def != NULL;
  return false;
}

/* The last version; where a tuple takes no part, the one it came with. */
static void yield_cell(lo_t *lo, tir_node_t *loop, uint32_t i,
                       lo_cell_t *cell, const lo_indices_t *outer,
                       tir_expr_t *in_range) {
  const lo_view_t *before = lo_view_of(lo, loop->params[i], outer);
  uint32_t count = (uint32_t)outer->length;
  bool is_changed = cell->now->value != loop->params[i];
  if (in_range != NULL && is_changed) {
    size_t mark = lo->active.length;
    tir_index_t *own[IX_MAX_RANK];
    tir_expr_t *at[IX_MAX_RANK];
    for (uint32_t k = 0; k < cell->rank; k++) {
      own[k] = lo_push_index(lo, "i", cell->dims[k], loop->loc);
      at[k] = tir_index_ref(lo->arena, own[k]);
    }
    tir_expr_t *now = lo_view_load(lo, cell->now, at, loop->loc);
    tir_expr_t *old = lo_view_load(lo, before, at, loop->loc);
    lo_spec_t spec = {.name = cell->name,
                      .loc = loop->loc,
                      .dtype = cell->dtype,
                      .is_written = cell->is_written,
                      .own_count = cell->rank,
                      .own = own,
                      .body = lo_select(lo, in_range,
                                        lo_coerce(lo, now, old->type), old,
                                        loop->loc),
                      .outer_count = count,
                      .outer = outer->data};
    cell->now = lo_emit_map(lo, &spec);
    lo->active.length = mark;
  }
  tir_value_t *last = lo_cell_value(lo, cell, count, outer->data);
  /* Each carried value is its own parameter or a value of its own, made in
   * the region: so the next iteration can take its place over. */
  bool is_taken = false;
  for (uint32_t k = 0; k < i; k++)
    if (loop->yields[k] == last) is_taken = true;
  if (last != loop->params[i] &&
      (is_taken || !is_made_here(&loop->body_nodes, last)))
    last = lo_cell_copy(lo, cell, count, outer->data);
  loop->yields[i] = last;
  tir_value_t *out = tir_value_create(lo->arena, cell->name, cell->dtype,
                                      last->rank, last->dims);
  out->loc = loop->loc;
  out->is_written = cell->is_written;
  out->def = loop;
  loop->outs[i] = out;
}

/* What the body of a loop is: a block, or further loops around it. */
typedef struct nest {
  const sem_block_t *body;
  uint32_t loop_count; /* of an `each` */
  sem_symbol_t *const *loops;
  const ix_poly_t *const *extents;
  td_loc_t loc;
} nest_t;

static void lower_nest(lo_t *lo, const nest_t *nest);

/* In this order: bounds, because they are read once before the loop; carried
 * cells with their first versions; the body in a block of its own; what it
 * yields; and the loop's outputs as the versions that follow. */
static void lower_loop(lo_t *lo, const sem_symbol_t *symbol,
                       tir_expr_t *first, tir_expr_t *last,
                       const nest_t *inside) {
  td_loc_t loc = inside->loc;
  tir_value_t *iv = loop_variable(lo, symbol, loc);
  tir_expr_t *iv_load = tir_load(lo->arena, iv, 0, NULL), *in_range;
  settle_bounds(lo, loc, iv_load, &first, &last, &in_range);

  cells_t cells = {0};
  scan_t scan = {.lo = lo, .out = &cells};
  scan_block(&scan, inside->body);
  lo_indices_t around = {0}, of_range = {0};
  frame_indices(lo, &around);
  lo_free_indices(lo, 1, &in_range, 0, NULL, &of_range);
  lo_join_indices(lo, &around, &of_range, &around);

  uint32_t count = (uint32_t)cells.length;
  tir_node_t *loop = tir_node_create(lo->arena, TIR_LOOP, count);
  loop->loc = loc;
  loop->iv = iv;
  loop->lo = lo_copy_expr(lo, first);
  loop->hi = lo_copy_expr(lo, last);
  loop->operand_count = count;
  loop->operands = TD_NEW_ARRAY(lo->arena, tir_value_t *, count);
  loop->params = TD_NEW_ARRAY(lo->arena, tir_value_t *, count);
  loop->yields = TD_NEW_ARRAY(lo->arena, tir_value_t *, count);
  name_variable(lo, loop);
  lo_indices_t *outer = TD_NEW_ARRAY(lo->arena, lo_indices_t, count);
  for (uint32_t i = 0; i < count; i++) {
    outer[i] = around;
    add_view(lo, cells.data[i]->now, &outer[i]);
    enter_cell(lo, loop, i, cells.data[i], &outer[i]);
  }

  tir_block_t *outer_block = lo->block;
  tir_expr_t *outer_guard = lo->guard;
  lo->block = &loop->body_nodes;
  lo->guard = lo_and(lo, outer_guard, in_range);
  lo_bind_value(lo, symbol,
                lo_value_one(lo, lo_view_scalar(lo, iv_load)));
  lower_nest(lo, inside);
  lo->guard = outer_guard;
  for (uint32_t i = 0; i < count; i++)
    yield_cell(lo, loop, i, cells.data[i], &outer[i], in_range);
  lo->block = outer_block;
  for (uint32_t i = 0; i < count; i++)
    cells.data[i]->now = lo_view_of(lo, loop->outs[i], &outer[i]);
  lo_add_node(lo, loop);
}

/* The loops of a nest, outermost first, then its body.  There are at most as
 * many as a tensor has dims. */
static void lower_nest(lo_t *lo, const nest_t *nest) {
  if (nest->loop_count == 0) {
    lo_block(lo, nest->body);
    return;
  }
  nest_t inside = *nest;
  inside.loop_count--;
  inside.loops++;
  inside.extents++;
  lower_loop(lo, nest->loops[0], lo_int(lo, 0),
             lo_dim(lo, lo_poly(lo, nest->extents[0])), &inside);
}

void lo_for(lo_t *lo, const sem_stmt_t *s) {
  lo->name = s->loop->name;
  tir_expr_t *first = lo_coerce(lo, lo_scalar(lo, s->lo), TDSL_DTYPE_I64);
  tir_expr_t *last = lo_coerce(lo, lo_scalar(lo, s->hi), TDSL_DTYPE_I64);
  nest_t inside = {.body = s->body, .loc = s->loc};
  lower_loop(lo, s->loop, first, last, &inside);
}

/* The checker has expanded the leaves: a body for each, with its names as
 * places. */
void lo_each(lo_t *lo, const sem_stmt_t *s) {
  for (uint32_t i = 0; i < s->leaf_count; i++) {
    const sem_leaf_t *leaf = &s->leaves[i];
    nest_t nest = {.body = leaf->body,
                   .loop_count = leaf->loop_count,
                   .loops = leaf->loops,
                   .extents = leaf->extents,
                   .loc = s->loc};
    lower_nest(lo, &nest);
  }
}
