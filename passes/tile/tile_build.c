/* tile_build.c: translating TIR expressions and building statements. */
#include "passes/tile/tile.h"

#include <stdarg.h>

#include "runtime/base/num.h"

static uint64_t key_of(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

/* ---- the card ----------------------------------------------------------- */

void tile_note(tile_t *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *line = td_arena_vprintf(t->arena, format, args);
  va_end(args);
  t->card = t->card == NULL
                ? line
                : td_arena_printf(t->arena, "%s\n%s", t->card, line);
}

const char *tile_describe(tile_t *t) {
  const char *text = NULL;
  for (uint32_t i = 0; i < t->node_count; i++) {
    const tir_node_t *n = t->nodes[i];
    bool is_kept = t->node_count > 1 && !tile_escapes(t, n->outs[0]);
    const char *one = td_arena_printf(t->arena, "%s%s", n->outs[0]->name,
                                      is_kept ? " (stays here)" : "");
    text = text == NULL ? one
                        : td_arena_printf(t->arena, "%s, %s", text, one);
  }
  return text;
}

/* ---- dims --------------------------------------------------------------- */

/* The dims that the range of a loop variable mentions come before it, used or
 * not: the text of the kernel names them there. */
static void use_symbol(tile_t *t, const ix_symbol_t *s) {
  for (size_t d = 0; d < t->dims.length; d++) {
    if (t->dims.data[d] == s) return;
  }
  if (s->kind == IX_SYM_LOOP) {
    if (s->lo != NULL) tile_use_dims(t, s->lo);
    if (s->hi != NULL) tile_use_dims(t, s->hi);
  }
  td_vec_push(t->arena, &t->dims, s);
}

void tile_use_dims(tile_t *t, const ix_poly_t *p) {
  for (uint32_t i = 0; i < p->term_count; i++) {
    for (uint32_t a = 0; a < p->terms[i].atom_count; a++) {
      const ix_atom_t *atom = p->terms[i].atoms[a];
      if (atom->kind != IX_ATOM_SYMBOL) {
        tile_use_dims(t, atom->p);
        tile_use_dims(t, atom->q);
        continue;
      }
      use_symbol(t, atom->symbol);
    }
  }
}

kir_expr_t *tile_dim(tile_t *t, const ix_poly_t *p) {
  tile_use_dims(t, p);
  return kir_dim(t->arena, p);
}

/* ---- homes -------------------------------------------------------------- */

void tile_set_home(tile_t *t, const tir_value_t *value, kir_buffer_t *buffer,
                   uint32_t dropped) {
  tile_home_t *home = TD_NEW(t->arena, tile_home_t);
  home->buffer = buffer;
  home->dropped = dropped;
  td_map_put_u64(&t->homes, key_of(value), home);
}

void tile_set_lead(tile_t *t, const tir_value_t *value,
                   kir_expr_t *const *lead, kir_expr_t *const *origin) {
  tile_home_t *home = td_map_get_u64(&t->homes, key_of(value));
  home->lead = lead;
  home->origin = origin;
}

/* Subscripts within a home; `out` has room for one more than count. */
static uint32_t home_subs(tile_t *t, const tile_home_t *home, uint32_t count,
                          kir_expr_t *const *subs, kir_expr_t **out) {
  uint32_t n = 0;
  if (home->lead != NULL) out[n++] = *home->lead;
  for (uint32_t i = 0; i < count; i++) {
    bool falls = home->mask != 0 ? (home->mask >> i & 1) != 0
                                 : i < home->dropped;
    if (!falls) out[n++] = subs[i];
  }
  if (home->origin != NULL) {
    out[n - 1] = tile_op2(t, KIR_X_SUB, TDSL_DTYPE_I64, out[n - 1],
                          *home->origin);
  }
  return n;
}

kir_buffer_t *tile_view_param(tile_t *t, const tir_value_t *value,
                              const tir_value_t *view) {
  for (uint32_t d = 0; d < view->rank; d++) tile_use_dims(t, view->dims[d]);
  kir_buffer_t *b =
      kir_buffer_create(t->kernel, value->name, value->dtype, KIR_GLOBAL,
                        view->rank, view->dims);
  b->id = (uint32_t)t->params.length;
  b->no_alias = true;
  b->loc = value->loc;
  td_vec_push(t->arena, &t->params, b);
  td_vec_push(t->arena, &t->param_values, value);
  tile_set_home(t, view, b, 0);
  return b;
}

void tile_set_element(tile_t *t, const tir_value_t *value, kir_expr_t *e) {
  td_map_put_u64(&t->elements, key_of(value), e);
  td_map_init(&t->done, t->arena);
}

bool tile_escapes(const tile_t *t, const tir_value_t *value) {
  return td_map_get_u64(t->escapes, key_of(value)) != NULL;
}

kir_buffer_t *tile_param(tile_t *t, const tir_value_t *value, bool is_read,
                         bool is_written) {
  tile_home_t *home = td_map_get_u64(&t->homes, key_of(value));
  if (home == NULL) {
    tile_view_param(t, value, value);
    home = td_map_get_u64(&t->homes, key_of(value));
  }
  home->buffer->is_read |= is_read;
  home->buffer->is_written |= is_written;
  return home->buffer;
}

/* ---- expressions -------------------------------------------------------- */

void tile_set_index(tile_t *t, const tir_index_t *index, kir_expr_t *value) {
  td_map_put_u64(&t->indices, key_of(index), value);
  td_map_init(&t->done, t->arena);
}

static kir_x_t op_of(tile_t *t, tir_x_t op) {
  switch (op) {
#define SAME(id) case TIR_X_##id: return KIR_X_##id;
    SAME(CONST) SAME(DIM) SAME(LOAD) SAME(NEG) SAME(NOT) SAME(ABS)
    SAME(FLOOR) SAME(CEIL) SAME(ROUND) SAME(EXP) SAME(EXP2) SAME(LOG)
    SAME(LOG2) SAME(SQRT) SAME(RSQRT) SAME(SIN) SAME(COS) SAME(TANH)
    SAME(ERF) SAME(ADD) SAME(SUB) SAME(MUL) SAME(DIV) SAME(MOD) SAME(POW)
    SAME(MIN) SAME(MAX) SAME(EQ) SAME(NE) SAME(LT) SAME(LE) SAME(GT)
    SAME(GE) SAME(AND) SAME(OR) SAME(SELECT) SAME(CAST) SAME(ROUND_TF32)
    SAME(UNIFORM)
#undef SAME
    case TIR_X_INDEX: case TIR_X_COUNT: break;
  }
  TD_ICE(t->task, "tensor operation %d has no kernel operation", (int)op);
}

static kir_expr_t *translate_load(tile_t *t, const tir_expr_t *e,
                                  kir_expr_t **args) {
  const tir_value_t *v = e->u.value;
  kir_expr_t *element = td_map_get_u64(&t->elements, key_of(v));
  if (element != NULL) return element;
  /* the variable of a program loop is a scalar argument */
  if (v->rank == 0 && v->def == NULL && v->symbol != NULL &&
      v->symbol->kind == IX_SYM_LOOP) {
    return tile_dim(t, ix_sym(t->module->pool, v->symbol));
  }
  tile_home_t *home = td_map_get_u64(&t->homes, key_of(v));
  bool is_plain = home == NULL || (home->dropped == 0 && home->mask == 0 &&
                                   home->lead == NULL && home->origin == NULL);
  if (is_plain) {
    kir_buffer_t *b = home == NULL ? tile_param(t, v, true, false)
                                   : home->buffer;
    if (b->space == KIR_GLOBAL) b->is_read = true;
    return kir_load(t->arena, b, e->arg_count, args);
  }
  kir_expr_t *subs[2 * IX_MAX_RANK];
  uint32_t count = home_subs(t, home, e->arg_count, args, subs);
  return kir_load(t->arena, home->buffer, count, subs);
}

static void translate(void *user, tir_expr_t *e) {
  tile_t *t = user;
  if (td_map_get_u64(&t->done, key_of(e)) != NULL) return;
  kir_expr_t **args = TD_NEW_ARRAY(t->arena, kir_expr_t *, e->arg_count + 1);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    args[i] = td_map_get_u64(&t->done, key_of(e->args[i]));
  }
  kir_expr_t *k = NULL;
  if (e->op == TIR_X_INDEX) {
    k = td_map_get_u64(&t->indices, key_of(e->u.index));
    TD_CHECK(t->task, k != NULL, "index %s is not set", e->u.index->name);
  } else if (e->op == TIR_X_LOAD) {
    k = translate_load(t, e, args);
  } else if (e->op == TIR_X_DIM) {
    k = tile_dim(t, e->u.dim);
  } else if (e->op == TIR_X_CONST) {
    bool is_float = e->type == TDSL_DTYPE_F32 || e->type == TDSL_DTYPE_F64;
    double f = e->type == TDSL_DTYPE_F32 ? (double)(float)e->u.f64
                                         : e->u.f64;
    k = is_float ? kir_const_f(t->arena, e->type, f)
                 : kir_const_i(t->arena, e->type, e->u.i64);
  } else if (e->op == TIR_X_ADD && e->type == TDSL_DTYPE_I64) {
    k = kir_add(t->arena, args[0], args[1]);
  } else if (e->op == TIR_X_MUL && e->type == TDSL_DTYPE_I64) {
    k = kir_mul(t->arena, args[0], args[1]);
  } else {
    k = kir_op(t->arena, op_of(t, e->op), e->type, e->arg_count, args);
    if (e->op == TIR_X_CAST) k->u.to = e->u.to;
  }
  if (k->loc.line == 0) k->loc = e->loc;
  td_map_put_u64(&t->done, key_of(e), k);
}

kir_expr_t *tile_expr(tile_t *t, tir_expr_t *e) {
  tir_walk(t->arena, e, translate, t);
  return td_map_get_u64(&t->done, key_of(e));
}

/* ---- builders ----------------------------------------------------------- */

kir_expr_t *tile_int(tile_t *t, int64_t v) {
  return kir_const_i(t->arena, TDSL_DTYPE_I64, v);
}

kir_expr_t *tile_op2(tile_t *t, kir_x_t op, tdsl_dtype_t type, kir_expr_t *a,
                     kir_expr_t *b) {
  return kir_op(t->arena, op, type, 2, (kir_expr_t *[]){a, b});
}

kir_expr_t *tile_less(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_LT, TDSL_DTYPE_BOOL, a, b);
}

kir_expr_t *tile_min(tile_t *t, kir_expr_t *a, kir_expr_t *b) {
  return tile_op2(t, KIR_X_MIN, TDSL_DTYPE_I64, a, b);
}

kir_stmt_t *tile_push(tile_t *t, kir_block_t *block, kir_stmt_t *s) {
  td_vec_push(t->arena, block, s);
  return s;
}

kir_stmt_t *tile_if(tile_t *t, kir_expr_t *cond) {
  kir_stmt_t *s = TD_NEW(t->arena, kir_stmt_t);
  s->kind = KIR_IF;
  s->mask = cond;
  s->loc = cond->loc;
  return s;
}

kir_expr_t *tile_let(tile_t *t, kir_block_t *block, const char *name,
                     kir_expr_t *e) {
  if (e->op == KIR_X_CONST || e->op == KIR_X_VAR) return e;
  kir_stmt_t *let = TD_NEW(t->arena, kir_stmt_t);
  let->kind = KIR_LET;
  let->var = kir_var_create(t->kernel, name, e->type);
  let->value = e;
  tile_push(t, block, let);
  return kir_var_ref(t->arena, let->var);
}

kir_block_t *tile_loop(tile_t *t, kir_block_t *block, kir_loop_t kind,
                       const char *name, kir_expr_t *lo, kir_expr_t *hi,
                       int64_t step, kir_expr_t **out_var) {
  kir_var_t *var = kir_var_create(t->kernel, name, TDSL_DTYPE_I64);
  kir_stmt_t *s = kir_loop_stmt(t->kernel, kind, var, lo, hi, step);
  *out_var = kir_var_ref(t->arena, var);
  return &tile_push(t, block, s)->body;
}

kir_block_t *tile_lanes(tile_t *t, kir_block_t *block, kir_expr_t *mask,
                        kir_expr_t **out_var) {
  kir_block_t *body = tile_loop(t, block, KIR_LOOP_LANE, "l", tile_int(t, 0),
                                tile_int(t, TILE_LANES), 1, out_var);
  td_vec_last(block)->mask = mask;
  return body;
}

kir_block_t *tile_lanes_of(tile_t *t, kir_block_t *block, int64_t lanes,
                           kir_expr_t **out_var) {
  return tile_loop(t, block, KIR_LOOP_LANE, "j", tile_int(t, 0),
                   tile_int(t, lanes), 1, out_var);
}

kir_buffer_t *tile_alloc(tile_t *t, kir_block_t *block, const char *name,
                         tdsl_dtype_t dtype, kir_space_t space, uint32_t rank,
                         const ix_poly_t *const *dims) {
  for (uint32_t i = 0; i < rank; i++) tile_use_dims(t, dims[i]);
  kir_stmt_t *s = TD_NEW(t->arena, kir_stmt_t);
  s->kind = KIR_ALLOC;
  s->buffer = kir_buffer_create(t->kernel, name, dtype, space, rank, dims);
  tile_push(t, block, s);
  return s->buffer;
}

void tile_store(tile_t *t, kir_block_t *block, kir_buffer_t *buffer,
                uint32_t count, kir_expr_t *const *subs, kir_expr_t *value) {
  tile_push(t, block,
            kir_store_stmt(t->kernel, buffer, count, subs, value));
}

kir_buffer_t *tile_output(tile_t *t, const tir_value_t *value) {
  kir_buffer_t *b = td_map_get_u64(&t->outputs, key_of(value));
  if (b != NULL) return b;
  tir_value_t *view = TD_NEW(t->arena, tir_value_t);
  *view = *value;
  b = tile_view_param(t, value, view);
  b->is_written = true;
  td_map_put_u64(&t->outputs, key_of(value), b);
  return b;
}

/* What goes to memory and to scratch is evaluated once: memory may be that of
 * an operand. */
void tile_store_value(tile_t *t, kir_block_t *block, const tir_value_t *value,
                      uint32_t count, kir_expr_t *const *subs,
                      kir_expr_t *v) {
  tile_home_t *home = td_map_get_u64(&t->homes, key_of(value));
  kir_buffer_t *b = home == NULL ? tile_param(t, value, false, true)
                                 : home->buffer;
  if (b->space == KIR_GLOBAL) {
    b->is_written = true;
  } else if (tile_escapes(t, value)) {
    v = tile_let(t, block, value->name, v);
    tile_store(t, block, tile_output(t, value), count, subs, v);
  }
  if (home == NULL) {
    tile_store(t, block, b, count, subs, v);
    return;
  }
  kir_expr_t *at[2 * IX_MAX_RANK];
  uint32_t n = home_subs(t, home, count, subs, at);
  tile_store(t, block, b, n, at, v);
}

/* ---- reductions --------------------------------------------------------- */

kir_expr_t *tile_identity(tile_t *t, tir_reduce_t reduce, tdsl_dtype_t type) {
  bool is_float = type == TDSL_DTYPE_F32 || type == TDSL_DTYPE_F64;
  double inf = (double)__builtin_inf();
  switch (reduce) {
    case TIR_REDUCE_SUM:
      return is_float ? kir_const_f(t->arena, type, 0.0)
                      : kir_const_i(t->arena, type, 0);
    case TIR_REDUCE_PROD:
      return is_float ? kir_const_f(t->arena, type, 1.0)
                      : kir_const_i(t->arena, type, 1);
    case TIR_REDUCE_MAX: case TIR_REDUCE_ARGMAX:
      return is_float ? kir_const_f(t->arena, type, -inf)
                      : kir_const_i(t->arena, type, INT64_MIN);
    case TIR_REDUCE_MIN: case TIR_REDUCE_ARGMIN:
      return is_float ? kir_const_f(t->arena, type, inf)
                      : kir_const_i(t->arena, type, INT64_MAX);
    case TIR_REDUCE_ANY: return kir_const_i(t->arena, TDSL_DTYPE_BOOL, 0);
    case TIR_REDUCE_ALL: return kir_const_i(t->arena, TDSL_DTYPE_BOOL, 1);
    case TIR_REDUCE_NONE: break;
  }
  TD_ICE(t->task, "no identity of reduction %d", (int)reduce);
}

kir_x_t tile_fold_op(tir_reduce_t reduce) {
  switch (reduce) {
    case TIR_REDUCE_PROD: return KIR_X_MUL;
    case TIR_REDUCE_MAX: case TIR_REDUCE_ARGMAX: return KIR_X_MAX;
    case TIR_REDUCE_MIN: case TIR_REDUCE_ARGMIN: return KIR_X_MIN;
    case TIR_REDUCE_ANY: return KIR_X_OR;
    case TIR_REDUCE_ALL: return KIR_X_AND;
    case TIR_REDUCE_NONE: case TIR_REDUCE_SUM: break;
  }
  return KIR_X_ADD;
}

kir_expr_t *tile_combine(tile_t *t, const tir_node_t *node, kir_expr_t *acc,
                         kir_expr_t *term) {
  if (node->is_fma && term->op == KIR_X_MUL) {
    return kir_op(t->arena, KIR_X_FMA, acc->type, 3,
                  (kir_expr_t *[]){term->args[0], term->args[1], acc});
  }
  return tile_op2(t, tile_fold_op(node->reduce), acc->type, acc, term);
}
