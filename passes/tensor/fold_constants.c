/* fold_constants.c
 *
 * Does: evaluates operations on constants as every engine would, and drops
 *   operations that change nothing: select of a known condition, x + 0 and
 *   x * 1 of integers, x * 1, x / 1, x - 0 of floats.
 * Needs: verified TIR.
 * Guarantees: nothing that can change a bit: no x + 0.0, no x * 0, no
 *   function whose value is a matter of the target (exp, log ...).  A product
 *   that its sum adds with one rounding stays one; where a factor 1 goes, the
 *   sum adds what is left with `add`.
 * Class: bitwise.
 * Ends because: one bottom-up walk of each expression.
 * Ledgers: compute. */
#include "passes/tensor/tensor.h"

#include "runtime/base/num.h"

static bool is_float(tdsl_dtype_t t) {
  return t == TDSL_DTYPE_F32 || t == TDSL_DTYPE_F64;
}

static bool is_const(const tir_expr_t *e) {
  return e->op == TIR_X_CONST;
}

static bool is_int(const tir_expr_t *e, int64_t value) {
  return is_const(e) && !is_float(e->type) && e->u.i64 == value;
}

static bool is_real(const tir_expr_t *e, double value) {
  /* +0 is wanted where 0 is asked for */
  return is_const(e) && is_float(e->type) && e->u.f64 == value &&
         !__builtin_signbit(e->u.f64);
}

/* A float constant as the engines see it. */
static double number(const tir_expr_t *e) {
  return e->type == TDSL_DTYPE_F32 ? (double)(float)e->u.f64 : e->u.f64;
}

static tir_expr_t *real(td_arena_t *arena, const tir_expr_t *like, double v) {
  if (like->type == TDSL_DTYPE_F32) v = (double)(float)v;
  tir_expr_t *e = tir_const_f(arena, like->type, v);
  e->loc = like->loc;
  return e;
}

static tir_expr_t *whole(td_arena_t *arena, const tir_expr_t *like,
                         int64_t v) {
  tir_expr_t *e = tir_const_i(arena, like->type, v);
  e->loc = like->loc;
  return e;
}

/* f32 operands are exact in f64, and one operation rounded to f64 and then
 * to f32 equals one rounded to f32 for + - * /. */
static tir_expr_t *fold_float(td_arena_t *arena, tir_expr_t *e) {
  double a = number(e->args[0]);
  double b = e->arg_count > 1 ? number(e->args[1]) : 0;
  switch ((int)e->op) {
    case TIR_X_ADD: return real(arena, e, a + b);
    case TIR_X_SUB: return real(arena, e, a - b);
    case TIR_X_MUL: return real(arena, e, a * b);
    case TIR_X_DIV: return real(arena, e, a / b);
    case TIR_X_NEG: return real(arena, e, -a);
    case TIR_X_EQ: return whole(arena, e, a == b);
    case TIR_X_NE: return whole(arena, e, a != b);
    case TIR_X_LT: return whole(arena, e, a < b);
    case TIR_X_LE: return whole(arena, e, a <= b);
    case TIR_X_GT: return whole(arena, e, a > b);
    case TIR_X_GE: return whole(arena, e, a >= b);
    default: return e;
  }
}

static tir_expr_t *fold_int(td_arena_t *arena, tir_expr_t *e) {
  int64_t a = e->args[0]->u.i64;
  int64_t b = e->arg_count > 1 ? e->args[1]->u.i64 : 0, r;
  switch ((int)e->op) {
    case TIR_X_ADD:
      return __builtin_add_overflow(a, b, &r) ? e : whole(arena, e, r);
    case TIR_X_SUB:
      return __builtin_sub_overflow(a, b, &r) ? e : whole(arena, e, r);
    case TIR_X_MUL:
      return __builtin_mul_overflow(a, b, &r) ? e : whole(arena, e, r);
    case TIR_X_DIV: case TIR_X_MOD: {
      if (b <= 0) return e;
      int64_t rest = a % b < 0 ? a % b + b : a % b;
      return whole(arena, e, e->op == TIR_X_MOD ? rest : (a - rest) / b);
    }
    case TIR_X_MIN: return whole(arena, e, a < b ? a : b);
    case TIR_X_MAX: return whole(arena, e, a > b ? a : b);
    case TIR_X_NOT: return whole(arena, e, !a);
    case TIR_X_EQ: return whole(arena, e, a == b);
    case TIR_X_NE: return whole(arena, e, a != b);
    case TIR_X_LT: return whole(arena, e, a < b);
    case TIR_X_LE: return whole(arena, e, a <= b);
    case TIR_X_GT: return whole(arena, e, a > b);
    case TIR_X_GE: return whole(arena, e, a >= b);
    default: return e;
  }
}

static tir_expr_t *drop_neutral(tir_expr_t *e) {
  tir_expr_t *a = e->args[0], *b = e->arg_count > 1 ? e->args[1] : NULL;
  switch ((int)e->op) {
    case TIR_X_ADD:
      if (is_int(a, 0)) return b;
      return is_int(b, 0) ? a : e;
    case TIR_X_SUB: return is_int(b, 0) || is_real(b, 0) ? a : e;
    case TIR_X_MUL:
      if (is_int(a, 1) || is_real(a, 1)) return b;
      return is_int(b, 1) || is_real(b, 1) ? a : e;
    case TIR_X_DIV: return is_int(b, 1) || is_real(b, 1) ? a : e;
    case TIR_X_AND:
      if (is_int(a, 1)) return b;
      return is_int(a, 0) || is_int(b, 1) ? a : e;
    case TIR_X_OR:
      if (is_int(a, 0)) return b;
      return is_int(a, 1) || is_int(b, 0) ? a : e;
    case TIR_X_SELECT:
      if (is_int(a, 1)) return e->args[1];
      return is_int(a, 0) ? e->args[2] : e;
    case TIR_X_CAST: return e->u.to == a->type ? a : e;
    default: return e;
  }
}

static tir_expr_t *fold(void *user, tir_expr_t *e) {
  td_arena_t *arena = user;
  if (e->arg_count == 0 || e->op == TIR_X_LOAD || e->op == TIR_X_UNIFORM) {
    return e;
  }
  tir_expr_t *simple = drop_neutral(e);
  if (simple != e) return simple;
  if (e->arg_count > 2 || e->op == TIR_X_CAST || e->op == TIR_X_POW) return e;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (!is_const(e->args[i])) return e;
  }
  return is_float(e->args[0]->type) ? fold_float(arena, e)
                                    : fold_int(arena, e);
}

typedef struct folding {
  td_arena_t *arena;
  bool has_changed;
} folding_t;

/* fma(x, 1, acc) has the bits of x + acc, but fma(x, y, acc) not those of
 * round(x * y) + acc: the product at the root is no ordinary one. */
static bool fold_product(tir_node_t *n, tir_expr_t *fresh[2]) {
  for (int i = 0; i < 2; i++) {
    if (!is_real(fresh[i], 1) && !is_int(fresh[i], 1)) continue;
    n->body = fresh[1 - i];
    n->is_fma = false;
    return true;
  }
  return false;
}

static void fold_node(void *user, tir_func_t *func, tir_block_t *block,
                      tir_node_t *n) {
  (void)func;
  (void)block;
  folding_t *f = user;
  uint32_t count = tir_node_expr_count(n);
  if (count == 0) return;
  td_arena_t scratch;
  td_arena_init(&scratch, f->arena->task);
  tir_interner_t interner;
  tir_interner_init(&interner, &scratch);
  tir_rewriter_t rewriter;
  tir_rewriter_init(&rewriter, f->arena, fold, f->arena);
  for (uint32_t i = 0; i < count; i++) {
    tir_expr_t **slot = tir_node_expr(n, i), *old = *slot, *fresh;
    if (slot == &n->body && n->is_fma && old->op == TIR_X_MUL) {
      tir_expr_t *factors[2] = {tir_rewrite_into(&rewriter, old->args[0]),
                                tir_rewrite_into(&rewriter, old->args[1])};
      if (fold_product(n, factors)) {
        f->has_changed = true;
        continue;
      }
      fresh = tir_op(f->arena, TIR_X_MUL, old->type, 2, factors);
      fresh->loc = old->loc;
    } else {
      fresh = tir_rewrite_into(&rewriter, old);
    }
    if (tir_intern(&interner, fresh) == tir_intern(&interner, old)) continue;
    *slot = fresh;
    f->has_changed = true;
  }
  td_arena_free_all(&scratch);
}

bool pass_fold_constants(pass_state_t *state, tir_module_t *module) {
  (void)state;
  folding_t f = {module->arena, false};
  tensor_each_node(module, fold_node, &f);
  return f.has_changed;
}
