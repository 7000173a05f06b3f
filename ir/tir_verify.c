/* tir_verify.c: checks the rules at the top of tir.h.
 *
 * Run after lowering and after every pass, where a failure is our fault, and
 * on text read back, where it is a diagnostic.  One failure of a node is
 * enough: the rest of that node is not looked at.
 *
 * What is checked is form: types, scopes, counts, dims as identical normal
 * forms.  What would need a proof is not: that subscripts are in range, that
 * `distinct` is true, that a divisor is positive.  The front end proves
 * those, and checked runs test them. */
#include "ir/tir_text.h"

#include "ir/dtype.h"
#include "ir/tir_verify_runs.h"

typedef struct verifier {
  td_task_t *task;
  td_arena_t arena;
  const tir_module_t *module;
  const tir_func_t *func;
  const tir_node_t *node; /* NULL: slots and requires */
  const char *stage;
  bool from_text;
  bool ok; /* of the node or fact being looked at */
  bool all_ok;
  td_map_t scope; /* tir_value_t -> non-NULL while it may be read */
  td_map_t states; /* tir_value_t of a cascade, or what it was -> its node */
  td_map_t cascades; /* their numbers so far */
} verifier_t;

static uint64_t key_of(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

TD_PRINTF(3, 4)
static void fail(verifier_t *v, td_loc_t loc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(&v->arena, format, args);
  va_end(args);
  if (!v->ok) return;
  v->ok = false;
  v->all_ok = false;
  const char *what = v->node == NULL ? "" : tir_kind_text(v->node->kind);
  const char *name = v->node != NULL && v->node->out_count > 0 &&
                             v->node->outs[0] != NULL
                         ? v->node->outs[0]->name
                         : "";
  if (v->from_text)
    (void)td_diag(v->task, TD_F70, loc, "%s", text);
  else
    TD_ICE(v->task, "tensor IR after %s, @%s, %s %%%s: %s", v->stage,
           v->func->name, what, name, text);
}

/* ---- polynomials --------------------------------------------------------- */

/* Linear: a function has a handful of dynamic dims. */
static bool is_dim(const verifier_t *v, const ix_symbol_t *s) {
  for (uint32_t i = 0; i < v->func->dim_count; i++)
    if (v->func->dims[i] == s) return true;
  return false;
}

/* Atoms nest as deep as lowering or the parser built them (both capped). */
static bool over_dims(const verifier_t *v, const ix_poly_t *p, int depth) {
  if (p == NULL || depth > TIR_MAX_NESTING) return false;
  for (uint32_t i = 0; i < p->term_count; i++)
    for (uint32_t k = 0; k < p->terms[i].atom_count; k++) {
      const ix_atom_t *a = p->terms[i].atoms[k];
      if (a->kind == IX_ATOM_SYMBOL
              ? !is_dim(v, a->symbol)
              : !over_dims(v, a->p, depth + 1) ||
                    !over_dims(v, a->q, depth + 1))
        return false;
    }
  return true;
}

/* A dim, extent or range may speak of dynamic dims only: static ones have
 * their value since lowering, and no extent depends on an index or on data. */
static void check_poly(verifier_t *v, const ix_poly_t *p, td_loc_t loc,
                       const char *what) {
  if (p == NULL)
    fail(v, loc, "%s is missing or overflows", what);
  else if (!over_dims(v, p, 0))
    fail(v, loc, "%s has a name that is not a dim of the function", what);
}

/* ---- values -------------------------------------------------------------- */

/* The parts of a value that do not depend on where it is defined. */
static void check_type(verifier_t *v, const tir_value_t *value) {
  if (tir_dtype_class(value->dtype) == TIR_CLASS_NONE)
    fail(v, value->loc, "%%%s has no dtype", value->name);
  if (value->rank > IX_MAX_RANK) {
    fail(v, value->loc, "%%%s has rank %u", value->name, value->rank);
    return;
  }
  for (uint32_t i = 0; i < value->rank; i++)
    check_poly(v, value->dims[i], value->loc, "a dim");
  if (value->lo != NULL) check_poly(v, value->lo, value->loc, "a range");
  if (value->hi != NULL) check_poly(v, value->hi, value->loc, "a range");
  if ((value->lo != NULL || value->hi != NULL) &&
      tir_dtype_class(value->dtype) != TIR_CLASS_INT)
    fail(v, value->loc, "%%%s has a range but is no integer", value->name);
}

/* Enters a value into scope; SSA means that this happens once. */
static void define(verifier_t *v, const tir_value_t *value) {
  if (value == NULL) {
    fail(v, TD_NO_LOC, "a value is missing");
    return;
  }
  if (value->name == NULL) fail(v, value->loc, "a value has no name");
  if (td_map_get_u64(&v->scope, key_of(value)) != NULL)
    fail(v, value->loc, "%%%s is defined twice", value->name);
  check_type(v, value);
  td_map_put_u64(&v->scope, key_of(value), v);
}

/* False after a report, or where the value is not there at all. */
static bool is_readable(verifier_t *v, const tir_value_t *value,
                        td_loc_t loc) {
  if (value == NULL) {
    fail(v, loc, "an operand is missing");
    return false;
  }
  if (td_map_get_u64(&v->scope, key_of(value)) == NULL) {
    fail(v, loc, "%%%s is read where it is not defined", value->name);
    return false;
  }
  return true;
}

/* Equal dims means identical normal forms, and those are interned. */
static bool same_type(const tir_value_t *a, const tir_value_t *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (uint32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

/* Missing values were reported where they were read. */
static void check_same(verifier_t *v, const tir_value_t *a,
                       const tir_value_t *b, td_loc_t loc) {
  if (a != NULL && b != NULL && !same_type(a, b))
    fail(v, loc, "%%%s and %%%s differ in type", a->name, b->name);
}

/* ---- expressions --------------------------------------------------------- */

/* Indices are compared by pointer: two nodes never share one. */
static bool has_index(const verifier_t *v, const tir_index_t *index) {
  if (v->node == NULL) return false;
  for (uint32_t i = 0; i < v->node->index_count; i++)
    if (v->node->indices[i] == index) return true;
  return false;
}

/* A bool is stored as 0 or 1 everywhere, so that engines may compare bits. */
static void check_const(verifier_t *v, const tir_expr_t *e) {
  if (e->type == TDSL_DTYPE_BOOL && e->u.i64 != 0 && e->u.i64 != 1)
    fail(v, e->loc, "a bool is neither 0 nor 1");
}

/* Subscripts are checked against the rank only; that they are in range was
 * proved by the checker and is tested by checked runs. */
static void check_load(verifier_t *v, const tir_expr_t *e) {
  const tir_value_t *value = e->u.value;
  if (!is_readable(v, value, e->loc)) return;
  if (e->arg_count != value->rank)
    fail(v, e->loc, "%u subscripts on %%%s of rank %u", e->arg_count,
         value->name, value->rank);
  if (e->type != tir_arithmetic(value->dtype))
    fail(v, e->loc, "a load of %%%s has the wrong type", value->name);
}

/* True if the operands have these types and the result has type `result`.
 * UNSET as an operand type means the type of the result. */
static bool typed(const tir_expr_t *e, tdsl_dtype_t result, tdsl_dtype_t a,
                  tdsl_dtype_t b) {
  tdsl_dtype_t want[2] = {a, b};
  if (e->type != result) return false;
  for (uint32_t i = 0; i < e->arg_count && i < 2; i++)
    if (e->args[i]->type != (want[i] == TDSL_DTYPE_UNSET ? result : want[i]))
      return false;
  return true;
}

/* The typing rules of tir.h, one case a group of operations that share one.
 * No `default:`, so that a new row of tir_ops.def does not build without a
 * rule. */
static bool operands_fit(const tir_expr_t *e) {
  const tdsl_dtype_t same = TDSL_DTYPE_UNSET;
  tdsl_dtype_t first = e->arg_count > 0 ? e->args[0]->type : same;
  bool is_float = tir_dtype_class(e->type) == TIR_CLASS_FLOAT;
  bool is_number = is_float || e->type == TDSL_DTYPE_I64;
  bool whole = e->arg_count > 1 && e->args[1]->type == TDSL_DTYPE_I64;
  switch (e->op) {
  case TIR_X_CONST: case TIR_X_INDEX: case TIR_X_DIM: return true;
  case TIR_X_LOAD: case TIR_X_UNIFORM:
    for (uint32_t i = 0; i < e->arg_count; i++)
      if (e->args[i]->type != TDSL_DTYPE_I64) return false;
    return e->op == TIR_X_LOAD || (e->type == TDSL_DTYPE_F32 &&
                                   e->arg_count >= 2 && e->arg_count <= 5);
  case TIR_X_NOT: case TIR_X_AND: case TIR_X_OR:
    return typed(e, TDSL_DTYPE_BOOL, same, same);
  case TIR_X_NEG: case TIR_X_ABS: case TIR_X_ADD: case TIR_X_SUB:
  case TIR_X_MUL: case TIR_X_DIV: case TIR_X_MIN: case TIR_X_MAX:
    return is_number && typed(e, e->type, same, same);
  case TIR_X_FLOOR: case TIR_X_CEIL: case TIR_X_ROUND: case TIR_X_EXP:
  case TIR_X_EXP2: case TIR_X_LOG: case TIR_X_LOG2: case TIR_X_SQRT:
  case TIR_X_RSQRT: case TIR_X_SIN: case TIR_X_COS: case TIR_X_TANH:
  case TIR_X_ERF: return is_float && typed(e, e->type, same, same);
  case TIR_X_MOD: return typed(e, TDSL_DTYPE_I64, same, same);
  case TIR_X_POW:
    return is_number && typed(e, e->type, same, whole ? TDSL_DTYPE_I64 : same);
  case TIR_X_EQ: case TIR_X_NE:
    return typed(e, TDSL_DTYPE_BOOL, first, first);
  case TIR_X_LT: case TIR_X_LE: case TIR_X_GT: case TIR_X_GE:
    return first != TDSL_DTYPE_BOOL &&
           typed(e, TDSL_DTYPE_BOOL, first, first);
  case TIR_X_SELECT:
    return typed(e, e->type, TDSL_DTYPE_BOOL, same) &&
           e->args[2]->type == e->type;
  case TIR_X_CAST:
    return e->u.to != same && e->type == tir_arithmetic(e->u.to) &&
           tir_is_arithmetic(first);
  case TIR_X_ROUND_TF32: return typed(e, TDSL_DTYPE_F32, same, same);
  case TIR_X_COUNT: return false;
  }
  return false;
}

/* Visited once for each distinct expression, operands first. */
static void check_one(void *user, tir_expr_t *e) {
  verifier_t *v = user;
  if (!v->ok) return;
  int arity = tir_x_arity(e->op);
  if (e->op >= TIR_X_COUNT || !tir_is_arithmetic(e->type) ||
      (arity >= 0 && e->arg_count != (uint32_t)arity)) {
    fail(v, e->loc, "%s has %u operands or no arithmetic type",
         tir_x_text(e->op), e->arg_count);
    return;
  }
  if (!operands_fit(e)) {
    fail(v, e->loc, "the operands of %s do not fit", tir_x_text(e->op));
    return;
  }
  if (e->op == TIR_X_CONST) check_const(v, e);
  if (e->op == TIR_X_LOAD) check_load(v, e);
  if (e->op == TIR_X_DIM) check_poly(v, e->u.dim, e->loc, "a dim");
  if (e->op == TIR_X_INDEX && !has_index(v, e->u.index))
    fail(v, e->loc, "an index is used outside its node");
}

/* A root of a node: there, well typed, and of the class its place wants. */
static void check_expr(verifier_t *v, tir_expr_t *e, tir_class_t wanted,
                       const char *what) {
  if (e == NULL) {
    fail(v, v->node == NULL ? TD_NO_LOC : v->node->loc, "%s is missing",
         what);
    return;
  }
  td_arena_t scratch;
  td_arena_init(&scratch, v->task);
  tir_walk(&scratch, e, check_one, v);
  td_arena_free_all(&scratch);
  if (tir_dtype_class(e->type) != wanted)
    fail(v, e->loc, "%s has the wrong type", what);
}

/* ---- nodes --------------------------------------------------------------- */

/* Rule 2's order, parallel before reduction, is what lets engines count the
 * parallel indices instead of looking at each. */
static void check_indices(verifier_t *v, const tir_node_t *node) {
  bool reduction = false;
  for (uint32_t i = 0; i < node->index_count; i++) {
    const tir_index_t *index = node->indices[i];
    if (index->name == NULL || index->symbol == NULL)
      fail(v, node->loc, "an index has no name or symbol");
    check_poly(v, index->extent, node->loc, "the extent of an index");
    if (reduction && !index->is_reduction)
      fail(v, node->loc, "a parallel index follows a reduction index");
    reduction |= index->is_reduction;
    for (uint32_t k = 0; k < i; k++)
      if (node->indices[k] == index)
        fail(v, node->loc, "an index occurs twice");
  }
}

static uint32_t reduction_count(const tir_node_t *node) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < node->index_count; i++)
    n += node->indices[i]->is_reduction ? 1 : 0;
  return n;
}

/* Accumulation: what tir_assign_plan can have set. */
static void check_plan(verifier_t *v, const tir_node_t *node) {
  bool is_float = tir_dtype_class(node->body->type) == TIR_CLASS_FLOAT;
  bool is_sum = node->reduce == TIR_REDUCE_SUM || node->is_accumulate;
  if (node->is_fma && !(is_float && is_sum))
    fail(v, node->loc, "fma is of a float sum");
  if (node->plan == TIR_PLAN_LANES &&
      !(is_float && (node->reduce == TIR_REDUCE_SUM ||
                     node->reduce == TIR_REDUCE_PROD)))
    fail(v, node->loc, "lanes are of a float sum or product");
}

typedef struct transport {
  verifier_t *v;
  const tir_node_t *node;
} transport_t;

/* A transport is over the parallel indices, and all it reads is of the
 * cascade. */
static void check_moved(void *user, tir_expr_t *e) {
  const transport_t *t = user;
  if (e->op == TIR_X_INDEX && e->u.index->is_reduction)
    fail(t->v, t->node->loc, "a transport mentions a reduction index");
  if (e->op != TIR_X_LOAD) return;
  const tir_node_t *def = td_map_get_u64(&t->v->states, key_of(e->u.value));
  if (def == NULL || def->cascade != t->node->cascade)
    fail(t->v, t->node->loc, "a transport reads %%%s, which is no state",
         e->u.value->name);
}

/* `was` is readable in transports only. */
static void check_present(void *user, tir_expr_t *e) {
  const transport_t *t = user;
  if (e->op != TIR_X_LOAD) return;
  const tir_node_t *def = td_map_get_u64(&t->v->states, key_of(e->u.value));
  if (def != NULL && def->was == e->u.value)
    fail(t->v, t->node->loc, "%%%s is read outside of a transport",
         e->u.value->name);
}

static bool may_be_lazy(const tir_node_t *node) {
  return node->kind == TIR_MAP && node->reduce == TIR_REDUCE_MAX &&
         node->cascade != 0 && !node->is_merge && node->was != NULL &&
         (node->was->dtype == TDSL_DTYPE_F32 ||
          node->was->dtype == TDSL_DTYPE_F64);
}

/* States of one cascade, whose maxima stand before the sums that are
 * relative to them. */
static void check_cascade(verifier_t *v, tir_node_t *node) {
  transport_t t = {v, node};
  td_arena_t scratch;
  td_arena_init(&scratch, v->task);
  if (node->cascade == 0 &&
      (node->was != NULL || node->transport != NULL || node->is_tile ||
       node->is_first || node->is_merge))
    fail(v, node->loc, "a transport or a tile stands outside of a cascade");
  if (node->is_first && (node->is_tile || node->was != NULL))
    fail(v, node->loc, "what is first is neither a tile nor a state");
  if (node->is_merge && (node->is_tile || node->is_first))
    fail(v, node->loc, "what merges is a state");
  if (node->is_tile && node->was != NULL)
    fail(v, node->loc, "a tile has no state");
  if (node->is_lazy && !may_be_lazy(node))
    fail(v, node->loc, "what is lazy is a maximum of floats that moves");
  if (node->is_tile && node->index_count == reduction_count(node))
    fail(v, node->loc, "a tile has no index of the cascade");
  bool is_state = node->cascade != 0 && !node->is_tile && !node->is_first;
  if (is_state && reduction_count(node) == 0)
    fail(v, node->loc, "a state of a cascade is a reduction");
  if (node->was != NULL) {
    if (reduction_count(node) == 0)
      fail(v, node->loc, "a map has no state");
    if (v->ok) check_same(v, node->outs[0], node->was, node->loc);
    define(v, node->was);
    td_map_put_u64(&v->states, key_of(node->was), node);
  }
  bool is_after = v->states.length > 0; /* of any state */
  if (is_after) tir_walk(&scratch, node->body, check_present, &t);
  if (is_after && node->guard != NULL)
    tir_walk(&scratch, node->guard, check_present, &t);
  if (is_state)
    td_map_put_u64(&v->states, key_of(node->outs[0]), node);
  if (node->transport != NULL && v->ok) {
    bool is_place = node->reduce == TIR_REDUCE_ARGMAX ||
                    node->reduce == TIR_REDUCE_ARGMIN;
    if ((node->reduce != TIR_REDUCE_SUM && !is_place) || node->was == NULL)
      fail(v, node->loc,
           "a transport is of a sum or a place that names what it was");
    tir_walk(&scratch, node->transport, check_moved, &t);
    check_expr(v, node->transport, tir_dtype_class(node->outs[0]->dtype),
               "the transport");
  }
  td_arena_free_all(&scratch);
}

static void check_map(verifier_t *v, tir_node_t *node) {
  uint32_t reductions = reduction_count(node);
  uint32_t parallel = node->index_count - reductions;
  if (node->out_count != 1 || node->outs[0] == NULL) {
    fail(v, node->loc, "map has one output");
    return;
  }
  tir_value_t *out = node->outs[0];
  tir_class_t of_out = tir_dtype_class(out->dtype);
  tir_class_t of_body = of_out;
  switch (node->reduce) {
  case TIR_REDUCE_NONE:
    if (reductions > 0) fail(v, node->loc, "map has reduction indices");
    if (node->guard != NULL) fail(v, node->loc, "map has a guard");
    break;
  case TIR_REDUCE_SUM: case TIR_REDUCE_PROD: case TIR_REDUCE_MAX:
  case TIR_REDUCE_MIN:
    if (of_out == TIR_CLASS_BOOL) fail(v, node->loc, "reduction of bools");
    break;
  case TIR_REDUCE_ANY: case TIR_REDUCE_ALL:
    if (of_out != TIR_CLASS_BOOL) fail(v, node->loc, "any and all give bool");
    break;
  case TIR_REDUCE_ARGMAX: case TIR_REDUCE_ARGMIN:
    if (of_out != TIR_CLASS_INT || reductions != 1)
      fail(v, node->loc, "a position is an integer, of one index");
    if (node->body != NULL) of_body = tir_dtype_class(node->body->type);
    if (of_body == TIR_CLASS_BOOL) fail(v, node->loc, "position of bools");
    break;
  }
  if (out->rank != parallel) {
    fail(v, node->loc, "rank %u of %%%s with %u parallel indices", out->rank,
         out->name, parallel);
    return;
  }
  for (uint32_t i = 0; i < parallel; i++)
    if (out->dims[i] != node->indices[i]->extent)
      fail(v, node->loc, "dim %u of %%%s is not the extent of %s", i + 1,
           out->name, node->indices[i]->name);
  if (node->guard != NULL)
    check_expr(v, node->guard, TIR_CLASS_BOOL, "the guard");
  check_expr(v, node->body, of_body, "the body");
  if (v->ok) check_plan(v, node);
  if (v->ok) check_cascade(v, node);
}

/* The new version has the target's type; its dims are the target's own, so
 * no extent of the indices is compared with them. */
static void check_update(verifier_t *v, tir_node_t *node) {
  if (node->out_count != 1 || node->operand_count != 1 ||
      node->outs[0] == NULL) {
    fail(v, node->loc, "update has one target and one output");
    return;
  }
  const tir_value_t *target = node->operands[0];
  if (!is_readable(v, target, node->loc)) return;
  check_same(v, target, node->outs[0], node->loc);
  if (node->sub_count != target->rank)
    fail(v, node->loc, "%u subscripts on %%%s of rank %u", node->sub_count,
         target->name, target->rank);
  if (reduction_count(node) > 0)
    fail(v, node->loc, "update has reduction indices");
  if (node->is_accumulate && target->dtype == TDSL_DTYPE_BOOL)
    fail(v, node->loc, "sum of bools");
  if (node->guard != NULL)
    check_expr(v, node->guard, TIR_CLASS_BOOL, "the guard");
  for (uint32_t i = 0; i < node->sub_count; i++)
    check_expr(v, node->subs[i], TIR_CLASS_INT, "a subscript");
  check_expr(v, node->body, tir_dtype_class(target->dtype), "the body");
  if (v->ok) check_plan(v, node);
}

/* Both outputs have the operand's dims but for the last, which is k. */
static void check_topk(verifier_t *v, tir_node_t *node) {
  if (node->out_count != 2 || node->operand_count != 1 ||
      node->outs[0] == NULL || node->outs[1] == NULL) {
    fail(v, node->loc, "topk has one operand and two outputs");
    return;
  }
  if (node->is_tile || node->is_first || node->is_lazy ||
      node->was != NULL || (node->is_merge && node->cascade == 0))
    fail(v, node->loc, "topk is a state, which names nothing that it was");
  const tir_value_t *in = node->operands[0];
  const tir_value_t *values = node->outs[0], *places = node->outs[1];
  if (!is_readable(v, in, node->loc)) return;
  int64_t k = -1;
  bool fits = in->rank > 0 && values->rank == in->rank &&
              places->rank == in->rank && node->k >= 0 &&
              places->dtype == TDSL_DTYPE_I64 &&
              tir_dtype_class(in->dtype) != TIR_CLASS_BOOL &&
              tir_dtype_class(values->dtype) == tir_dtype_class(in->dtype);
  for (uint32_t i = 0; fits && i + 1 < in->rank; i++)
    fits = values->dims[i] == in->dims[i] && places->dims[i] == in->dims[i];
  if (fits)
    fits = places->dims[in->rank - 1] == values->dims[in->rank - 1] &&
           values->dims[in->rank - 1] != NULL &&
           ix_is_const(values->dims[in->rank - 1], &k) && k == node->k;
  if (!fits) fail(v, node->loc, "the outputs of topk do not fit its operand");
}

static void check_block(verifier_t *v, const tir_block_t *nodes, int depth);

/* Carried values keep their type from init to yield; that of a loop's
 * outputs is the same again. The bounds are read before the region's names
 * exist. */
static void check_loop(verifier_t *v, tir_node_t *node, int depth) {
  if (node->out_count != node->operand_count || node->iv == NULL ||
      node->iv->rank != 0 || node->iv->dtype != TDSL_DTYPE_I64) {
    fail(v, node->loc, "loop has an i64 variable and one output a value");
    return;
  }
  if (depth >= TIR_MAX_NESTING) {
    fail(v, node->loc, "loops nest deeper than %d", TIR_MAX_NESTING);
    return;
  }
  check_expr(v, node->lo, TIR_CLASS_INT, "the lower bound");
  check_expr(v, node->hi, TIR_CLASS_INT, "the upper bound");
  for (uint32_t i = 0; i < node->operand_count; i++)
    (void)is_readable(v, node->operands[i], node->loc);
  size_t outer = v->scope.length;
  define(v, node->iv);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    define(v, node->params[i]);
    check_same(v, node->params[i], node->operands[i], node->loc);
  }
  check_block(v, &node->body_nodes, depth + 1);
  v->node = node;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    if (!is_readable(v, node->yields[i], node->loc)) continue;
    check_same(v, node->params[i], node->yields[i], node->loc);
    check_same(v, node->params[i], node->outs[i], node->loc);
  }
  /* What the region defined ends with it. */
  for (size_t i = outer; i < v->scope.length; i++)
    v->scope.entries[i].value = NULL;
}

static void check_node(verifier_t *v, tir_node_t *node, int depth) {
  v->node = node;
  v->ok = true;
  switch (node->kind) {
  case TIR_MAP: check_indices(v, node); check_map(v, node); break;
  case TIR_UPDATE: check_indices(v, node); check_update(v, node); break;
  case TIR_TOPK: check_topk(v, node); break;
  case TIR_LOOP: check_loop(v, node, depth); break;
  case TIR_ASSERT:
    if (node->out_count > 0 || node->index_count > 0)
      fail(v, node->loc, "assert has neither outputs nor indices");
    check_expr(v, node->body, TIR_CLASS_BOOL, "the condition");
    break;
  case TIR_KIND_COUNT: fail(v, node->loc, "unknown kind of node"); break;
  }
  for (uint32_t i = 0; i < node->out_count; i++) define(v, node->outs[i]);
}

static void check_block(verifier_t *v, const tir_block_t *nodes, int depth) {
  bool all = true;
  for (size_t i = 0; i < nodes->length; i++) {
    check_node(v, nodes->data[i], depth);
    all &= v->ok;
  }
  v->ok = true;
  const char *fault =
      all ? tir_verify_runs(&v->cascades, nodes, &v->node) : NULL;
  if (fault != NULL) fail(v, v->node->loc, "%s", fault);
}

/* ---- functions ----------------------------------------------------------- */

/* The other one's memory is read as this slot's. */
static bool can_fall_back(const verifier_t *v, const tir_slot_t *slot) {
  const tir_slot_t *other = &v->func->slots[slot->else_slot];
  return slot->kind == TIR_IN && other->kind == TIR_IN &&
         slot->value != NULL && other->value != NULL &&
         slot->value->dtype == other->value->dtype &&
         slot->value->rank == other->value->rank;
}

/* A slot has a value to read, a result to leave, or both, by its kind. */
static void check_slot(verifier_t *v, uint32_t at) {
  const tir_slot_t *slot = &v->func->slots[at];
  v->ok = true;
  if (slot->name == NULL) {
    fail(v, slot->loc, "slot %u has no name", at + 1);
    return;
  }
  if ((slot->kind != TIR_OUT) != (slot->value != NULL))
    fail(v, slot->loc, "slot %s has no value", slot->name);
  if ((slot->kind == TIR_IN) != (slot->result == NULL))
    fail(v, slot->loc, "slot %s has no result", slot->name);
  if (slot->has_default && (slot->value == NULL || slot->value->rank != 0))
    fail(v, slot->loc, "slot %s has a default but is no scalar", slot->name);
  if (slot->else_slot >= 0 && (uint32_t)slot->else_slot >= v->func->slot_count)
    fail(v, slot->loc, "slot %s falls back to no slot", slot->name);
  else if (slot->else_slot >= 0 && !can_fall_back(v, slot))
    fail(v, slot->loc, "slot %s cannot fall back to %s", slot->name,
         v->func->slots[slot->else_slot].name);
  if (slot->lo != NULL) check_poly(v, slot->lo, slot->loc, "a range");
  if (slot->hi != NULL) check_poly(v, slot->hi, slot->loc, "a range");
  if (v->ok && slot->value != NULL) define(v, slot->value);
}

/* Callers bind arguments by name, and `return` names results. */
static void check_slot_names(verifier_t *v) {
  td_map_t names;
  td_map_init(&names, &v->arena);
  v->ok = true;
  for (uint32_t i = 0; i < v->func->slot_count; i++) {
    const tir_slot_t *slot = &v->func->slots[i];
    if (slot->name != NULL &&
        td_map_put(&names, td_str(slot->name), v) != NULL)
      fail(v, slot->loc, "two slots are called %s", slot->name);
  }
}

/* Results are read at the very end, when every top-level value is defined. */
static void check_results(verifier_t *v) {
  for (uint32_t i = 0; i < v->func->slot_count; i++) {
    const tir_slot_t *slot = &v->func->slots[i];
    v->ok = true;
    v->node = NULL;
    if (slot->result == NULL) continue;
    if (!is_readable(v, slot->result, slot->loc)) continue;
    check_same(v, slot->value, slot->result, slot->loc);
  }
}

static void check_func(verifier_t *v, const tir_func_t *func) {
  v->func = func;
  v->node = NULL;
  td_map_init(&v->scope, &v->arena);
  td_map_init(&v->states, &v->arena);
  td_map_init(&v->cascades, &v->arena);
  check_slot_names(v);
  for (uint32_t i = 0; i < func->slot_count; i++) check_slot(v, i);
  for (uint32_t i = 0; i < func->require_count; i++) {
    v->ok = true;
    check_expr(v, func->requires[i].cond, TIR_CLASS_BOOL, "a requirement");
  }
  check_block(v, &func->nodes, 0);
  check_results(v);
}

bool tir_verify(td_task_t *task, const tir_module_t *module,
                const char *stage, bool from_text) {
  verifier_t v = {.task = task,
                  .module = module,
                  .stage = stage,
                  .from_text = from_text,
                  .all_ok = true};
  td_arena_init(&v.arena, task);
  for (uint32_t i = 0; i < module->func_count; i++)
    check_func(&v, module->funcs[i]);
  td_arena_free_all(&v.arena);
  return v.all_ok;
}
