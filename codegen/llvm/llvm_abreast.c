/* llvm_abreast.c: copies of an unrolled lane loop side by side.
 *
 * A formula is a long chain of operations, each of which waits for the one
 * before, and a processor looks only so far ahead: one copy after the other
 * leaves it waiting.  What the copies of an unrolled loop u name, and what
 * they store to memory, is computed as one value of all their lanes where u
 * and the lane l occur as u + l alone; operations of all copies then follow
 * each other.  What changes registers, as the terms of a sum do, keeps the
 * order of the copies, with its lanes out of that value.  Bits are equal.
 *
 * Only where registers hold them, and statements may change places: a buffer
 * that is stored is stored once and not read, and a register belongs to one
 * lane loop. */
#include "codegen/llvm/llvm_impl.h"

enum { MOST_LANES = 64 };

/* How an index grows with the copy's variable and with the lane. */
typedef struct growth {
  int64_t by_copy, by_lane;
  bool is_split; /* somewhere inside they do not grow together */
} growth_t;

typedef struct abreast {
  cgl_t *g;
  const kir_stmt_t *loop;  /* over u */
  const kir_stmt_t *lanes; /* the lane loop that is looked at */
  td_map_t growths;        /* kir_expr_t* -> growth_t */
  td_map_t apart;          /* kir_var_t* of lets that each copy has */
  td_map_t stored;         /* kir_buffer_t* -> kir_stmt_t* lane loop */
  kir_walker_t walker;
  bool is_refused;
} abreast_t;

static uint64_t key_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

/* ---- what may change places ---------------------------------------------- */

static bool is_plain(const kir_stmt_t *s, const kir_stmt_t *l) {
  if (l->kind != KIR_LOOP || l->loop != KIR_LOOP_LANE || l->mask != NULL ||
      l->hi->op != KIR_X_CONST || l->hi->u.i64 != s->step) {
    return false;
  }
  for (size_t i = 0; i < l->body.length; i++) {
    const kir_stmt_t *inner = l->body.data[i];
    if (inner->kind != KIR_LET && inner->kind != KIR_STORE) return false;
  }
  return true;
}

static bool note_stores(abreast_t *a, const kir_stmt_t *l) {
  for (size_t i = 0; i < l->body.length; i++) {
    const kir_stmt_t *s = l->body.data[i];
    if (s->kind != KIR_STORE) continue;
    uint64_t key = key_of(s->buffer);
    const kir_stmt_t *before = td_map_get_u64(&a->stored, key);
    if (before != NULL &&
        (before != l || s->buffer->space != KIR_REGISTER)) {
      return false;
    }
    td_map_put_u64(&a->stored, key, (void *)(uintptr_t)l);
  }
  return true;
}

static void note_read(void *user, const kir_expr_t *e) {
  abreast_t *a = user;
  if (e->op != KIR_X_LOAD && e->op != KIR_X_FOLD) return;
  const kir_stmt_t *by = td_map_get_u64(&a->stored, key_of(e->u.buffer));
  if (by == NULL) return;
  a->is_refused |= by != a->lanes || e->u.buffer->space != KIR_REGISTER;
}

static bool may_move(abreast_t *a) {
  const kir_stmt_t *s = a->loop;
  int64_t all = s->hi->u.i64 - s->lo->u.i64;
  /* a formula has about four values in each of so many registers */
  int64_t room = a->g->target->registers / 8 * a->g->target->lanes;
  if (s->step < 2 || all > MOST_LANES || all > room || all <= s->step ||
      all % s->step != 0) {
    return false;
  }
  for (size_t i = 0; i < s->body.length; i++) {
    const kir_stmt_t *l = s->body.data[i];
    if (!is_plain(s, l) || !note_stores(a, l)) return false;
  }
  for (size_t i = 0; i < s->body.length; i++) {
    a->lanes = s->body.data[i];
    /* of each loop anew: expressions are shared */
    kir_walker_init(&a->walker, a->g->arena);
    for (size_t k = 0; k < a->lanes->body.length; k++) {
      const kir_stmt_t *inner = a->lanes->body.data[k];
      for (uint32_t e = 0; e < kir_stmt_expr_count(inner); e++) {
        kir_walk_into(&a->walker, kir_stmt_expr(inner, e), note_read, a);
      }
    }
  }
  return !a->is_refused;
}

/* ---- what is one value --------------------------------------------------- */

static const growth_t *growth_of(const abreast_t *a, const kir_expr_t *e) {
  return td_map_get_u64(&a->growths, key_of(e));
}

static void grow_by_op(const abreast_t *a, const kir_expr_t *e,
                       growth_t *out) {
  const growth_t *x = growth_of(a, e->args[0]), *y = growth_of(a, e->args[1]);
  bool fails = false;
  int64_t by[2][2] = {{x->by_copy, x->by_lane}, {y->by_copy, y->by_lane}};
  int64_t sum[2];
  for (int k = 0; k < 2; k++) {
    if (e->op == KIR_X_MUL) {
      const kir_expr_t *c = e->args[0]->op == KIR_X_CONST ? e->args[0]
                                                          : e->args[1];
      int64_t other = c == e->args[0] ? by[1][k] : by[0][k];
      fails |= __builtin_mul_overflow(c->u.i64, other, &sum[k]);
    } else if (e->op == KIR_X_ADD) {
      fails |= __builtin_add_overflow(by[0][k], by[1][k], &sum[k]);
    } else {
      fails |= __builtin_sub_overflow(by[0][k], by[1][k], &sum[k]);
    }
  }
  out->by_copy = sum[0];
  out->by_lane = sum[1];
  out->is_split |= fails;
}

/* Operands come first. */
static void find_growth(void *user, const kir_expr_t *e) {
  abreast_t *a = user;
  growth_t *out = TD_NEW(a->g->arena, growth_t);
  td_map_put_u64(&a->growths, key_of(e), out);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    out->is_split |= growth_of(a, e->args[i])->is_split;
  }
  bool has_const = e->arg_count == 2 && (e->args[0]->op == KIR_X_CONST ||
                                         e->args[1]->op == KIR_X_CONST);
  bool is_linear = e->type == TDSL_DTYPE_I64 &&
                   (e->op == KIR_X_ADD || e->op == KIR_X_SUB ||
                    (e->op == KIR_X_MUL && has_const));
  if (is_linear) {
    grow_by_op(a, e, out);
    return;
  }
  for (uint32_t i = 0; i < e->arg_count; i++) {
    const growth_t *arg = growth_of(a, e->args[i]);
    out->is_split |= arg->by_copy != arg->by_lane;
  }
  if (e->op == KIR_X_VAR) {
    out->by_copy = e->u.var == a->loop->var;
    out->by_lane = e->u.var == a->lanes->var;
    out->is_split |= td_map_get_u64(&a->apart, key_of(e->u.var)) != NULL;
  } else if (e->op == KIR_X_LOAD || e->op == KIR_X_FOLD) {
    const kir_buffer_t *b = e->u.buffer;
    out->is_split |= (e->op == KIR_X_LOAD && b->space == KIR_REGISTER &&
                      b->rank > 0) ||
                     td_map_get_u64(&a->stored, key_of(b)) != NULL;
  }
}

static bool is_joint(abreast_t *a, const kir_expr_t *e) {
  kir_walk_into(&a->walker, e, find_growth, a);
  const growth_t *g = growth_of(a, e);
  return !g->is_split && g->by_copy == g->by_lane;
}

static bool is_one_value(abreast_t *a, const kir_stmt_t *s) {
  if (s->kind == KIR_STORE && s->buffer->space == KIR_REGISTER) return false;
  for (uint32_t i = 0; i < s->sub_count; i++) {
    if (!is_joint(a, s->subs[i])) return false;
  }
  return is_joint(a, s->value);
}

/* ---- emission ------------------------------------------------------------ */

static void set_lanes(cgl_t *g, const kir_stmt_t *l, uint32_t lanes) {
  LLVMValueRef numbers[MOST_LANES];
  for (uint32_t i = 0; i < lanes; i++) {
    numbers[i] = LLVMConstInt(g->i64, i, 0);
  }
  g->lanes = lanes;
  g->lane_var = l->var;
  g->mask = NULL;
  g->vars[l->var->id] = LLVMConstVector(numbers, lanes);
}

static void emit(cgl_t *g, const kir_stmt_t *s) {
  if (s->kind == KIR_LET) {
    g->lets[s->var->id] = s;
    g->vars[s->var->id] = cgl_expr(g, s->value);
    return;
  }
  cgl_store(g, s);
  cgl_memo_stale(g, s->buffer);
}

static LLVMValueRef part_of(cgl_t *g, LLVMValueRef v, uint32_t first,
                            uint32_t lanes) {
  LLVMValueRef order[MOST_LANES];
  if (!cgl_is_vector(v)) return v;
  for (uint32_t i = 0; i < lanes; i++) {
    order[i] = LLVMConstInt(g->i32, first + i, 0);
  }
  return LLVMBuildShuffleVector(g->builder, v, LLVMGetPoison(LLVMTypeOf(v)),
                                LLVMConstVector(order, lanes), "");
}

/* Statements of one lane loop: those that are one value, then the others of
 * each copy. */
static void emit_lanes(abreast_t *a, const kir_stmt_t *l, const bool *joint) {
  cgl_t *g = a->g;
  const kir_stmt_t *s = a->loop;
  int64_t first = s->lo->u.i64, all = s->hi->u.i64 - first;
  LLVMValueRef *wide =
      TD_NEW_ARRAY(g->arena, LLVMValueRef, l->body.length + 1);
  g->vars[s->var->id] = LLVMConstInt(g->i64, (unsigned long long)first, 1);
  set_lanes(g, l, (uint32_t)all);
  size_t mark = cgl_memo_mark(g);
  for (size_t i = 0; i < l->body.length; i++) {
    const kir_stmt_t *inner = l->body.data[i];
    if (!joint[i]) continue;
    emit(g, inner);
    if (inner->kind == KIR_LET) wide[i] = g->vars[inner->var->id];
  }
  cgl_memo_release(g, mark);
  for (int64_t u = 0; u < all; u += s->step) {
    g->vars[s->var->id] =
        LLVMConstInt(g->i64, (unsigned long long)(first + u), 1);
    set_lanes(g, l, (uint32_t)s->step);
    mark = cgl_memo_mark(g);
    for (size_t i = 0; i < l->body.length; i++) {
      const kir_stmt_t *inner = l->body.data[i];
      if (!joint[i]) {
        emit(g, inner);
      } else if (inner->kind == KIR_LET) {
        g->vars[inner->var->id] =
            part_of(g, wide[i], (uint32_t)u, (uint32_t)s->step);
      }
    }
    cgl_memo_release(g, mark);
  }
  g->lanes = 0;
  g->lane_var = NULL;
  g->vars[l->var->id] = NULL;
}

bool cgl_unroll_abreast(cgl_t *g, const kir_stmt_t *s) {
  abreast_t a = {.g = g, .loop = s};
  td_map_init(&a.growths, g->arena);
  td_map_init(&a.apart, g->arena);
  td_map_init(&a.stored, g->arena);
  if (g->lanes != 0 || s->body.length == 0 || !may_move(&a)) return false;
  bool **joint = TD_NEW_ARRAY(g->arena, bool *, s->body.length);
  bool has_let = false;
  for (size_t i = 0; i < s->body.length; i++) {
    const kir_stmt_t *l = s->body.data[i];
    a.lanes = l;
    td_map_init(&a.growths, g->arena);
    kir_walker_init(&a.walker, g->arena);
    joint[i] = TD_NEW_ARRAY(g->arena, bool, l->body.length + 1);
    for (size_t k = 0; k < l->body.length; k++) {
      const kir_stmt_t *inner = l->body.data[k];
      joint[i][k] = is_one_value(&a, inner);
      if (inner->kind != KIR_LET) continue;
      has_let |= joint[i][k];
      if (!joint[i][k]) {
        td_map_put_u64(&a.apart, key_of(inner->var),
                       (void *)(uintptr_t)inner);
      }
    }
  }
  if (!has_let) return false;
  for (size_t i = 0; i < s->body.length; i++) {
    emit_lanes(&a, s->body.data[i], joint[i]);
  }
  g->vars[s->var->id] = NULL;
  return true;
}
