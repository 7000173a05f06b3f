/* tir.c: building, walking and rewriting the tensor IR.
 *
 * Expressions are immutable and may be shared, so every walk here visits each
 * distinct one once and keeps its own stack: a sum of 200,000 terms is a
 * chain as deep as it is long, and doubling a value 40 times is a DAG of 40
 * nodes whose tree would have 2^40.
 *
 * Nodes and values are not immutable: passes change them in place, and call
 * tir_renumber when numbers have to be dense again.  Everything lies in the
 * arena of the module; what a pass drops stays there until the program is
 * done, which costs less than knowing who still points at it. */
#include "ir/tir.h"

#include "ir/dtype.h"

tdsl_dtype_t tir_arithmetic(tdsl_dtype_t storage) {
  return tir_dtype_row(storage)->arithmetic;
}

/* ---- building ------------------------------------------------------------ */

/* Copies the operands, so callers may pass a local array. The place in the
 * source is that of the first operand until the caller knows better. */
static tir_expr_t *new_expr(td_arena_t *arena, tir_x_t op, tdsl_dtype_t type,
                            uint32_t count, tir_expr_t *const *args) {
  tir_expr_t *e = TD_NEW(arena, tir_expr_t);
  e->op = op;
  e->type = type;
  e->arg_count = count;
  if (count > 0) {
    tir_expr_t **copy = TD_NEW_ARRAY(arena, tir_expr_t *, count);
    for (uint32_t i = 0; i < count; i++) copy[i] = args[i];
    e->args = copy;
    e->loc = args[0]->loc;
  }
  return e;
}

tir_expr_t *tir_const_f(td_arena_t *arena, tdsl_dtype_t type, double v) {
  tir_expr_t *e = new_expr(arena, TIR_X_CONST, type, 0, NULL);
  e->u.f64 = v;
  return e;
}

tir_expr_t *tir_const_i(td_arena_t *arena, tdsl_dtype_t type, int64_t v) {
  tir_expr_t *e = new_expr(arena, TIR_X_CONST, type, 0, NULL);
  e->u.i64 = type == TDSL_DTYPE_BOOL ? v != 0 : v;
  return e;
}

tir_expr_t *tir_index_ref(td_arena_t *arena, const tir_index_t *index) {
  tir_expr_t *e = new_expr(arena, TIR_X_INDEX, TDSL_DTYPE_I64, 0, NULL);
  e->u.index = index;
  e->loc = index->loc;
  return e;
}

tir_expr_t *tir_dim(td_arena_t *arena, const ix_poly_t *dim) {
  tir_expr_t *e = new_expr(arena, TIR_X_DIM, TDSL_DTYPE_I64, 0, NULL);
  e->u.dim = dim;
  return e;
}

tir_expr_t *tir_load(td_arena_t *arena, const tir_value_t *value,
                     uint32_t count, tir_expr_t *const *subs) {
  tir_expr_t *e = new_expr(arena, TIR_X_LOAD, tir_arithmetic(value->dtype),
                           count, subs);
  e->u.value = value;
  return e;
}

tir_expr_t *tir_op(td_arena_t *arena, tir_x_t op, tdsl_dtype_t type,
                   uint32_t arg_count, tir_expr_t *const *args) {
  return new_expr(arena, op, type, arg_count, args);
}

tir_expr_t *tir_cast(td_arena_t *arena, tdsl_dtype_t to, tir_expr_t *arg) {
  tir_expr_t *e =
      new_expr(arena, TIR_X_CAST, tir_arithmetic(to), 1, &arg);
  e->u.to = to;
  return e;
}

tir_value_t *tir_value_create(td_arena_t *arena, const char *name,
                              tdsl_dtype_t dtype, uint32_t rank,
                              const ix_poly_t *const *dims) {
  tir_value_t *v = TD_NEW(arena, tir_value_t);
  v->name = name;
  v->dtype = dtype;
  v->rank = rank;
  for (uint32_t i = 0; i < rank; i++) v->dims[i] = dims[i];
  return v;
}

/* The symbol stands for the index in polynomials, with its range. */
tir_index_t *tir_index_create(tir_module_t *module, const char *name,
                              const ix_poly_t *extent, bool is_reduction) {
  tir_index_t *index = TD_NEW(module->arena, tir_index_t);
  ix_symbol_t *symbol =
      ix_symbol_create(module->pool, name, IX_SYM_INDEX, TD_NO_LOC);
  symbol->lo = ix_const(module->pool, 0);
  symbol->hi = extent;
  index->name = name;
  index->extent = extent;
  index->symbol = symbol;
  index->is_reduction = is_reduction;
  return index;
}

tir_node_t *tir_node_create(td_arena_t *arena, tir_kind_t kind,
                            uint32_t outs) {
  tir_node_t *node = TD_NEW(arena, tir_node_t);
  node->kind = kind;
  node->out_count = outs;
  node->outs = TD_NEW_ARRAY(arena, tir_value_t *, outs);
  return node;
}

tir_module_t *tir_module_create(td_arena_t *arena) {
  tir_module_t *module = TD_NEW(arena, tir_module_t);
  module->arena = arena;
  module->pool = ix_pool_create(arena);
  return module;
}

void tir_module_add(tir_module_t *module, tir_func_t *func) {
  uint32_t n = module->func_count;
  /* Grown at powers of two, so that adding n functions copies O(n). */
  if ((n & (n - 1)) == 0) {
    tir_func_t **funcs =
        TD_NEW_ARRAY(module->arena, tir_func_t *, n == 0 ? 1 : 2 * n);
    for (uint32_t i = 0; i < n; i++) funcs[i] = module->funcs[i];
    module->funcs = funcs;
  }
  module->funcs[module->func_count++] = func;
}

/* ---- expressions of a node ----------------------------------------------- */

uint32_t tir_node_expr_count(const tir_node_t *node) {
  uint32_t n = node->sub_count;
  n += node->guard != NULL ? 1 : 0;
  n += node->body != NULL ? 1 : 0;
  n += node->lo != NULL ? 1 : 0;
  n += node->hi != NULL ? 1 : 0;
  return n;
}

/* In the order of evaluation: bounds, guard, subscripts, body. */
tir_expr_t **tir_node_expr(tir_node_t *node, uint32_t i) {
  tir_expr_t **slots[] = {&node->lo, &node->hi, &node->guard};
  for (size_t k = 0; k < sizeof slots / sizeof slots[0]; k++) {
    if (*slots[k] == NULL) continue;
    if (i == 0) return slots[k];
    i--;
  }
  if (i < node->sub_count) return &node->subs[i];
  return &node->body;
}

/* ---- walking ------------------------------------------------------------- */

typedef struct frame {
  tir_expr_t *e;
  uint32_t next; /* argument to look at next */
} frame_t;

typedef TD_VEC(frame_t) frames_t;

/* Expressions are compared by address; nothing iterates over these tables. */
static uint64_t key_of(const tir_expr_t *e) {
  return (uint64_t)(uintptr_t)e;
}

/* An expression is marked when it is first met, not when it is done: a DAG
 * has no cycles, and marking early keeps the stack as short as the DAG is
 * deep. */
void tir_walk_into(tir_walker_t *walker, tir_expr_t *root, tir_visit_fn visit,
                   void *user) {
  td_arena_t *arena = walker->seen.arena;
  frames_t stack = {0};
  if (td_map_get_u64(&walker->seen, key_of(root)) != NULL) return;
  td_map_put_u64(&walker->seen, key_of(root), root);
  td_vec_push(arena, &stack, (frame_t){root, 0});
  while (stack.length > 0) {
    frame_t *top = &td_vec_last(&stack);
    if (top->next == top->e->arg_count) {
      tir_expr_t *done = top->e;
      (void)td_vec_pop(&stack);
      visit(user, done);
      continue;
    }
    tir_expr_t *arg = top->e->args[top->next++];
    if (td_map_get_u64(&walker->seen, key_of(arg)) != NULL) continue;
    td_map_put_u64(&walker->seen, key_of(arg), arg);
    td_vec_push(arena, &stack, (frame_t){arg, 0});
  }
}

void tir_walker_init(tir_walker_t *walker, td_arena_t *scratch) {
  td_map_init(&walker->seen, scratch);
}

void tir_walk(td_arena_t *scratch, tir_expr_t *root, tir_visit_fn visit,
              void *user) {
  tir_walker_t walker;
  tir_walker_init(&walker, scratch);
  tir_walk_into(&walker, root, visit, user);
}

/* ---- rewriting ----------------------------------------------------------- */

void tir_rewriter_init(tir_rewriter_t *rewriter, td_arena_t *arena,
                       tir_map_fn map, void *user) {
  rewriter->arena = arena;
  rewriter->map = map;
  rewriter->user = user;
  td_map_init(&rewriter->done, arena);
  tir_walker_init(&rewriter->walker, arena);
}

/* The copy is made even if nothing changes, since map may write to it. */
static void rewrite_one(void *user, tir_expr_t *e) {
  tir_rewriter_t *rw = user;
  tir_expr_t *copy = TD_NEW(rw->arena, tir_expr_t);
  *copy = *e;
  if (e->arg_count > 0) {
    tir_expr_t **args = TD_NEW_ARRAY(rw->arena, tir_expr_t *, e->arg_count);
    for (uint32_t i = 0; i < e->arg_count; i++)
      args[i] = td_map_get_u64(&rw->done, key_of(e->args[i]));
    copy->args = args;
  }
  td_map_put_u64(&rw->done, key_of(e), rw->map(rw->user, copy));
}

tir_expr_t *tir_rewrite_into(tir_rewriter_t *rewriter, tir_expr_t *root) {
  tir_walk_into(&rewriter->walker, root, rewrite_one, rewriter);
  return td_map_get_u64(&rewriter->done, key_of(root));
}

tir_expr_t *tir_rewrite(td_arena_t *arena, tir_expr_t *root, tir_map_fn map,
                        void *user) {
  tir_rewriter_t rewriter;
  tir_rewriter_init(&rewriter, arena, map, user);
  return tir_rewrite_into(&rewriter, root);
}

/* ---- accumulation plans -------------------------------------------------- */

typedef struct mentions {
  const tir_node_t *node;
  bool *found; /* one a parallel index */
} mentions_t;

static void note_index(void *user, tir_expr_t *e) {
  const mentions_t *m = user;
  if (e->op != TIR_X_INDEX || e->u.index->is_reduction) return;
  for (uint32_t i = 0; i < m->node->index_count; i++)
    if (m->node->indices[i] == e->u.index) m->found[i] = true;
}

/* A product whose factors do not mention the same parallel indices. */
static bool is_contraction(td_arena_t *scratch, const tir_node_t *node) {
  bool differ = false;
  bool *found[2];
  for (int k = 0; k < 2; k++) {
    found[k] = TD_NEW_ARRAY(scratch, bool, node->index_count);
    mentions_t m = {node, found[k]};
    tir_walk(scratch, node->body->args[k], note_index, &m);
  }
  for (uint32_t i = 0; i < node->index_count; i++)
    differ |= found[0][i] != found[1][i];
  return differ;
}

void tir_assign_plan(td_arena_t *scratch, tir_node_t *node) {
  bool is_float = tir_dtype_class(node->body->type) == TIR_CLASS_FLOAT;
  bool is_sum = node->reduce == TIR_REDUCE_SUM ||
                (node->kind == TIR_UPDATE && node->is_accumulate);
  node->is_fma = is_float && is_sum && node->body->op == TIR_X_MUL;
  node->plan = TIR_PLAN_SERIAL;
  if (node->kind == TIR_UPDATE || !is_float) return;
  if (node->reduce == TIR_REDUCE_PROD ||
      (is_sum && !(node->is_fma && is_contraction(scratch, node))))
    node->plan = TIR_PLAN_LANES;
}

/* ---- numbering ----------------------------------------------------------- */

/* Nesting of loops is bounded by the parser and by lowering (255). */
static void number_block(tir_func_t *func, tir_block_t *block) {
  for (size_t i = 0; i < block->length; i++) {
    tir_node_t *node = block->data[i];
    node->id = func->node_count++;
    if (node->kind == TIR_LOOP) {
      node->iv->id = func->value_count++;
      for (uint32_t k = 0; k < node->operand_count; k++)
        node->params[k]->id = func->value_count++;
      number_block(func, &node->body_nodes);
    }
    if (node->was != NULL) node->was->id = func->value_count++;
    for (uint32_t k = 0; k < node->out_count; k++) {
      node->outs[k]->id = func->value_count++;
      node->outs[k]->def = node;
    }
  }
}

/* In text order, parameters first, so that equal modules get equal numbers. */
void tir_renumber(tir_func_t *func) {
  func->value_count = 0;
  func->node_count = 0;
  for (uint32_t i = 0; i < func->slot_count; i++)
    if (func->slots[i].value != NULL)
      func->slots[i].value->id = func->value_count++;
  number_block(func, &func->nodes);
}
