/* lower_impl.h: what the files of the lowering share.
 *
 *   lower.c        entry points: slots in, body, slots out
 *   lower_slot.c   leaves of structs, file names, requires, dims
 *   lower_view.c   names, fields and subscripts to views and places
 *   lower_expr.c   one element of a formula
 *   lower_reduce.c reductions, and formulas that must be stored
 *   lower_node.c   nodes from expressions over canonical indices
 *   lower_call.c   inlining
 *   lower_stmt.c   blocks and definitions
 *   lower_update.c := and +=
 *   lower_loop.c   for and each, and what their bodies assign
 *
 * The method.  A statement or reduction pushes a *canonical index* for each
 * of its indices on a stack; expressions mention canonical indices freely,
 * also those of mapped statements around an inlined call.  When a node is
 * emitted, the canonical indices that its expressions mention and that are
 * not its own become its leading dims, and each gets a fresh index of the
 * node.  So a node has exactly the outer indices that it depends on, and
 * nobody has to thread them through calls.
 *
 * A tensor is always a *view*: a value with one subscript for each of its
 * dims, fixed (an expression) or a slot of the view.  Arguments, locals with
 * outer indices, stack positions and `x[b, :, h, :]` are all views, and none
 * of them copies.
 *
 * Laziness.  `guard` is the conjunction of the conditions around the place
 * being lowered.  A reduction takes it into its own guard, a map becomes
 * select(guard, body, 0): every node is total. */
#ifndef TDSL_FRONTEND_LOWER_IMPL_H
#define TDSL_FRONTEND_LOWER_IMPL_H

#include "frontend/lower.h"
#include "runtime/base/num.h"

/* One subscript of the value under a view. */
typedef struct lo_sub {
  tir_expr_t *fixed; /* over canonical indices; NULL: the slot */
  uint32_t slot;     /* dim of the view */
} lo_sub_t;

/* Immutable.  value NULL: a rank-0 formula, `scalar`. */
typedef struct lo_view {
  tir_value_t *value;
  tir_expr_t *scalar;
  tdsl_dtype_t dtype; /* storage of value, or type of scalar */
  uint32_t rank;
  const ix_poly_t **dims; /* of the slots */
  lo_sub_t *subs;         /* one for each dim of value */
} lo_view_t;

/* A tensor or the leaves of a struct, depth first. */
typedef struct lo_value {
  uint32_t count;
  const lo_view_t **leaves;
} lo_value_t;

/* Storage of one leaf of a var or inout: its current version.  `now` may
 * still be any view of the right dims; lo_cell_value makes it a value. */
typedef struct lo_cell {
  const lo_view_t *now;
  const char *name;
  tdsl_dtype_t dtype;
  uint32_t rank;
  const ix_poly_t **dims;
  bool is_written;
  td_loc_t loc;
} lo_cell_t;

/* What a name stands for in a frame.  Values have leaves; vars and inouts
 * have cells, seen through fixed leading subscripts (stack positions of an
 * inout argument such as `m.blk[l]`). */
typedef struct lo_binding {
  uint32_t count;
  const lo_view_t **leaves; /* NULL if cells */
  lo_cell_t **cells;
  uint32_t prefix_count;
  tir_expr_t **prefix;
} lo_binding_t;

typedef TD_VEC(tir_index_t *) lo_indices_t;

/* The order of dims that a caller wants a result stored in: o[b, :, h, :]
 * wants b, dim 0, h, dim 1.  Only a wish: views make any order right. */
typedef struct lo_order {
  uint32_t count;
  struct {
    const tir_index_t *index; /* canonical; NULL: dim of the result */
    uint32_t dim;
  } items[IX_MAX_RANK];
} lo_order_t;

/* One function being inlined. */
typedef struct lo_frame lo_frame_t;
struct lo_frame {
  const sem_func_t *func;
  lo_frame_t *caller;
  uint32_t depth;
  td_map_t symbols; /* sem_symbol_t -> lo_binding_t */
  td_map_t indices; /* sem_index_t -> tir_expr_t */
  uint32_t binding_count;
  const ix_symbol_t **generics; /* of func, with what they stand for */
  const ix_poly_t **values;
  const char *prefix;        /* of the names of locals; NULL at an entry */
  const char **result_names; /* of an inlined call */
  const struct lo_order *result_orders; /* one a result, or NULL */
  bool is_scalar;            /* all parameters have rank 0: its scalar
                                definitions stay formulas */
  bool is_tf32, is_approx;
};

/* The state of one lower_funcs. */
typedef struct lo {
  td_task_t *task;
  td_arena_t *arena;
  const sem_program_t *program;
  tir_module_t *module;
  ix_pool_t *pool;
  ix_facts_t *facts; /* what the file and the entry require */
  tir_func_t *func;
  lo_frame_t *frame;
  tir_block_t *block;  /* where nodes go */
  lo_indices_t active; /* canonical indices in scope, outermost first */
  tir_expr_t *guard;   /* BOOL, NULL: true */
  const char *name;    /* of the definition being lowered */
  TD_VEC(tir_slot_t) slots; /* of func */
  uint32_t node_count; /* emitted, against programs that explode */
  uint32_t call_count; /* inlined, for the same reason */
  uint32_t nesting;    /* of formulas, through calls */
} lo_t;

/* Calls, and formulas through them, deeper than this are L04; more nodes, or
 * more inlined calls (a call may leave no node of its own), are B01. */
enum {
  LO_MAX_DEPTH = 255,
  LO_MAX_NESTING = 2048,
  LO_MAX_NODES = 250000,
  LO_MAX_CALLS = 250000
};

/* ---- lower_node.c ------------------------------------------------------- */

/* A map, reduction or update to be emitted.  Expressions are over canonical
 * indices. */
typedef struct lo_spec {
  const char *name;
  td_loc_t loc;
  tdsl_dtype_t dtype;
  bool is_written;
  uint32_t own_count; /* parallel indices, in the order of the output */
  tir_index_t *const *own;
  uint32_t red_count;
  tir_index_t *const *red;
  tir_reduce_t reduce;
  tir_expr_t *guard; /* reductions, updates: with lo->guard already in it */
  tir_expr_t *body;
  /* Outer indices wanted although not mentioned: the versions of a loop's
   * carried value have the same dims in every iteration. */
  uint32_t outer_count;
  tir_index_t *const *outer;
  const lo_order_t *order;  /* dims are own's; NULL: outer, then own */
  const ix_poly_t *lo, *hi; /* range of an integer output, or NULL */
} lo_spec_t;

tir_index_t *lo_push_index(lo_t *lo, const char *name,
                           const ix_poly_t *extent, td_loc_t loc);
/* max(extent, 0), the max left out where it is provably idle: ranges of
 * reductions may come out negative, those of dims are proved not to. */
const ix_poly_t *lo_extent(lo_t *lo, const ix_poly_t *extent);

/* Canonical indices that the expressions mention, outermost first, those of
 * `own` left out. */
void lo_free_indices(lo_t *lo, uint32_t count, tir_expr_t *const *exprs,
                     uint32_t own_count, tir_index_t *const *own,
                     lo_indices_t *out);
/* Those that a view's fixed subscripts, or its formula, mention. */
void lo_view_indices(lo_t *lo, const lo_view_t *view, lo_indices_t *out);
/* out := those of a or b, in the order of the stack. */
void lo_join_indices(lo_t *lo, const lo_indices_t *a, const lo_indices_t *b,
                     lo_indices_t *out);

/* The output as a view whose slots are `own`. */
const lo_view_t *lo_emit_map(lo_t *lo, const lo_spec_t *spec);
/* The next version of a cell: subs are the subscripts behind the outer
 * indices; `own`, guard, body of the spec are used. */
void lo_emit_update(lo_t *lo, lo_cell_t *cell, const lo_spec_t *spec,
                    uint32_t sub_count, tir_expr_t *const *subs,
                    bool is_accumulate, bool is_distinct);
/* The current version as a value with the dims [outer..., dims...]. */
tir_value_t *lo_cell_value(lo_t *lo, lo_cell_t *cell, uint32_t outer_count,
                           tir_index_t *const *outer);
/* The same, always by a new node. */
tir_value_t *lo_cell_copy(lo_t *lo, lo_cell_t *cell, uint32_t outer_count,
                          tir_index_t *const *outer);
void lo_add_node(lo_t *lo, tir_node_t *node);
/* For a place of its own in a node: nodes share no expressions. */
tir_expr_t *lo_copy_expr(lo_t *lo, tir_expr_t *e);

/* ---- lower_expr.c ------------------------------------------------------- */

tir_expr_t *lo_op1(lo_t *lo, tir_x_t op, tdsl_dtype_t type, tir_expr_t *a,
                   td_loc_t loc);
tir_expr_t *lo_op2(lo_t *lo, tir_x_t op, tdsl_dtype_t type, tir_expr_t *a,
                   tir_expr_t *b, td_loc_t loc);
tir_expr_t *lo_select(lo_t *lo, tir_expr_t *c, tir_expr_t *a, tir_expr_t *b,
                      td_loc_t loc);
tir_expr_t *lo_int(lo_t *lo, int64_t value);
/* A poly over dynamic dims: a number or a DIM. */
tir_expr_t *lo_dim(lo_t *lo, const ix_poly_t *poly);
tir_expr_t *lo_zero(lo_t *lo, tdsl_dtype_t type);
/* Exact change of arithmetic type; to a float, the one rounding. */
tir_expr_t *lo_coerce(lo_t *lo, tir_expr_t *e, tdsl_dtype_t type);
/* lo->guard and c; either may be NULL. */
tir_expr_t *lo_and(lo_t *lo, tir_expr_t *a, tir_expr_t *b);

/* Element `at` (one expression for each dim of e, NULL for scalars) of a
 * formula, in the arithmetic type of e. */
tir_expr_t *lo_elem(lo_t *lo, const sem_expr_t *e, tir_expr_t *const *at);
/* Reports B01 at a grad and stops. */
_Noreturn void lo_refuse_grad(lo_t *lo, const sem_expr_t *e);
static inline tir_expr_t *lo_scalar(lo_t *lo, const sem_expr_t *e) {
  return lo_elem(lo, e, NULL);
}

/* ---- lower_reduce.c ----------------------------------------------------- */

/* REDUCE or REDUCE_ALL in pieces; its indices stay pushed until the caller
 * resets lo->active. */
typedef struct lo_reduction {
  lo_spec_t spec;
  tir_expr_t *offset; /* of ARGMAX, ARGMIN: the lower end, or NULL */
} lo_reduction_t;

/* What an index of the frame stands for from here on. */
void lo_bind_index(lo_t *lo, const sem_index_t *index, tir_expr_t *value);

void lo_reduction(lo_t *lo, const sem_expr_t *e, tir_expr_t *const *at,
                  lo_reduction_t *out);
/* As a node of its own, read back. */
tir_expr_t *lo_reduce(lo_t *lo, const sem_expr_t *e, tir_expr_t *const *at);
/* A tensor formula as a map named `name`. */
const lo_view_t *lo_store_formula(lo_t *lo, const sem_expr_t *e,
                                  const char *name);
/* The lines of topk: views of the values and of the positions. */
void lo_topk(lo_t *lo, const sem_expr_t *e, const char *const *names,
             const lo_view_t **values, const lo_view_t **positions);

/* ---- lower_view.c ------------------------------------------------------- */

const ix_poly_t *lo_poly(lo_t *lo, const ix_poly_t *poly);
uint32_t lo_leaf_count(const sem_type_t *type);
/* Calls fn for the leaves of a type, depth first, with the stack dims met on
 * the way in front of the leaf's own. */
typedef struct lo_leaf {
  const sem_type_t *type; /* a tensor */
  tdsl_dtype_t dtype;     /* with `as` of the structs around it */
  uint32_t rank;
  const sem_dim_t *dims[IX_MAX_RANK];
  const char *path; /* ".blk.wq"; "" for a tensor */
} lo_leaf_t;
typedef TD_VEC(lo_leaf_t) lo_leaves_t;
void lo_leaves(lo_t *lo, const sem_type_t *type, lo_leaves_t *out);

const lo_view_t *lo_view_of(lo_t *lo, tir_value_t *value,
                            const lo_indices_t *outer);
const lo_view_t *lo_view_scalar(lo_t *lo, tir_expr_t *e);
tir_expr_t *lo_view_load(lo_t *lo, const lo_view_t *view,
                         tir_expr_t *const *at, td_loc_t loc);
/* The view with its first `count` slots fixed. */
const lo_view_t *lo_view_fix(lo_t *lo, const lo_view_t *view, uint32_t count,
                             tir_expr_t *const *fixed);

lo_binding_t *lo_lookup(lo_t *lo, const sem_symbol_t *symbol);
void lo_bind(lo_t *lo, const sem_symbol_t *symbol, lo_binding_t *binding);
void lo_bind_value(lo_t *lo, const sem_symbol_t *symbol, lo_value_t value);
lo_value_t lo_value_one(lo_t *lo, const lo_view_t *view);

/* What NAME, FIELD and SUBSCRIPT chains (without `|`) denote, as leaves. */
bool lo_is_chain(const sem_expr_t *e);
/* Leaves of any expression; a formula is stored, as `name`, or under a name
 * made from that of the definition if NULL. */
lo_value_t lo_value_named(lo_t *lo, const sem_expr_t *e, const char *name);
lo_value_t lo_value(lo_t *lo, const sem_expr_t *e);
const lo_view_t *lo_view(lo_t *lo, const sem_expr_t *e);
/* A chain that starts at a var or inout: its cells and leading subscripts. */
lo_binding_t *lo_place(lo_t *lo, const sem_expr_t *e);
/* Root name and range of leaves of a place, nothing evaluated, for the scan
 * of a loop's body.  False if no name is at its root. */
bool lo_place_range(const sem_expr_t *e, const sem_symbol_t **root,
                    uint32_t *first, uint32_t *count);

/* ---- lower_call.c ------------------------------------------------------- */

/* Inlines a CALL; results[j] is result j.  names: of the results; orders:
 * their wanted orders, or NULL. */
void lo_inline(lo_t *lo, const sem_expr_t *call, const char *const *names,
               const lo_order_t *orders, lo_value_t *results);
/* Result 0 of a call inside a formula. */
lo_value_t lo_call_value(lo_t *lo, const sem_expr_t *call);

/* ---- lower_stmt.c ------------------------------------------------------- */

void lo_block(lo_t *lo, const sem_block_t *block);
void lo_define(lo_t *lo, const sem_stmt_t *s);
/* Pushes the indices of a statement and binds them. */
void lo_push_indices(lo_t *lo, const sem_stmt_t *s);
tir_index_t *lo_canonical(lo_t *lo, const sem_index_t *index);
/* A formula into the place that spec describes.  A lone reduction over which
 * every index of the place matters is the node itself. */
const lo_view_t *lo_emit_formula(lo_t *lo, const sem_expr_t *e,
                                 tir_expr_t *const *at, lo_spec_t *spec);
const char *lo_symbol_name(lo_t *lo, const sem_symbol_t *symbol);
/* The order in which the caller wants a result of this frame; NULL: none. */
const lo_order_t *lo_symbol_order(const lo_t *lo,
                                  const sem_symbol_t *symbol);

/* ---- lower_update.c ----------------------------------------------------- */

void lo_update(lo_t *lo, const sem_stmt_t *s);

/* ---- lower_loop.c ------------------------------------------------------- */

void lo_for(lo_t *lo, const sem_stmt_t *s);
void lo_each(lo_t *lo, const sem_stmt_t *s);

/* ---- lower_slot.c ------------------------------------------------------- */

/* Slots of an entry's parameters, bound to names of lo->frame. */
void lo_param_slots(lo_t *lo, const sem_func_t *func);
/* Slots of its results, and the last versions of inout parameters. */
void lo_result_slots(lo_t *lo, const sem_func_t *func);
void lo_requires(lo_t *lo, const sem_func_t *func);
/* The dynamic dims that occur in lo->func. */
void lo_func_dims(lo_t *lo, const sem_func_t *func);

#endif
