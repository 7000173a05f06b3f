/* kir_verify_expr.c: what statements mention: dims, buffers, expressions.
 *
 * Operands fit their operation, variables are visible and have one number
 * each, registers are named by constants or the lane. */
#include "ir/kir_verify.h"

#include "ir/dtype.h"

enum {
  MAX_DIM = 1 << 12,       /* of a register buffer */
  MAX_REGISTERS = 1 << 16, /* elements, of all warps and lanes */
};

void kir_fail(kir_verifier_t *v, td_loc_t loc, const char *format, ...) {
  if (!v->ok) return;
  v->ok = false;
  va_list args;
  va_start(args, format);
  const char *text = td_arena_vprintf(&v->arena, format, args);
  va_end(args);
  if (v->from_text) {
    (void)td_diag(v->task, TD_F70, loc, "%s", text);
  } else {
    TD_ICE(v->task, "kernel IR after %s, %s: %s", v->stage, v->kernel->name,
           text);
  }
}

/* ---- dims and buffers -----------------------------------------------------*/

typedef struct dim_check {
  const kir_kernel_t *kernel;
} dim_check_t;

/* Loop variables have symbols too, but no place in dims: a buffer has its
 * size before any loop runs. */
static bool is_kernel_dim(void *user, const ix_symbol_t *s) {
  const dim_check_t *c = user;
  for (uint32_t i = 0; i < c->kernel->dim_count; i++) {
    if (c->kernel->dims[i] == s) return true;
  }
  return false;
}

static void check_poly(kir_verifier_t *v, const ix_poly_t *p,
                       const char *what) {
  dim_check_t c = {v->kernel};
  if (p == NULL) {
    kir_fail(v, v->loc, "%s is missing or overflows", what);
  } else if (!ix_each_symbol(p, is_kernel_dim, &c)) {
    kir_fail(v, v->loc, "%s has a name that is no dim of the kernel", what);
  }
}

bool kir_is_power_of_two(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

/* Lanes of a register row; 0 after a failure. */
static int64_t row_width(const kir_buffer_t *b) {
  int64_t n = 0;
  if (b->rank == 0 || !ix_is_const(b->dims[b->rank - 1], &n)) return 0;
  return n < 1 || n > KIR_MAX_LANES ? 0 : n;
}

/* The cap on registers keeps what is unrolled over them small. */
void kir_check_buffer(kir_verifier_t *v, const kir_buffer_t *b) {
  int64_t n = 0, total = 1;
  if (b == NULL || b->name == NULL) {
    kir_fail(v, v->loc, "a buffer or its name is missing");
    return;
  }
  if (tir_dtype_class(b->dtype) == TIR_CLASS_NONE || b->rank > IX_MAX_RANK) {
    kir_fail(v, v->loc, "buffer %s has no dtype or rank %u", b->name, b->rank);
    return;
  }
  for (uint32_t d = 0; d < b->rank; d++) {
    check_poly(v, b->dims[d], "a dim of a buffer");
    if (!v->ok || b->space != KIR_REGISTER) continue;
    if (!ix_is_const(b->dims[d], &n) || n < 1 || n > MAX_DIM ||
        (total *= n) > MAX_REGISTERS) {
      kir_fail(v, v->loc, "register dims of %s are not small constants",
               b->name);
    }
  }
  if (v->ok && b->space == KIR_REGISTER && b->rank > 0 && row_width(b) == 0) {
    kir_fail(v, v->loc, "a register row of %s is wider than %d", b->name,
             KIR_MAX_LANES);
  }
}

/* Whole rows lie as they do under a tensor copy's swizzle of that width. */
void kir_check_swizzle(kir_verifier_t *v, const kir_buffer_t *b) {
  int64_t n = 0;
  bool is_row = b->space == KIR_SHARED && b->rank > 1 &&
                ix_is_const(b->dims[b->rank - 1], &n);
  int64_t bytes = is_row && n > 0 && n <= MAX_DIM
                      ? n * (int64_t)td_dtype_bytes(b->dtype)
                      : 0;
  if (bytes != 32 && bytes != 64 && bytes != 128) {
    kir_fail(v, v->loc, "swizzled %s has no rows of 32, 64 or 128 shared bytes",
             b->name);
  }
}

/* Parameters always, scratch from its alloc to the end of the block. */
bool kir_is_usable(kir_verifier_t *v, const kir_buffer_t *b) {
  if (b == NULL ||
      td_map_get_u64(&v->buffers, (uint64_t)(uintptr_t)b) == NULL) {
    kir_fail(v, v->loc, "buffer %s is used where it is not there",
             b == NULL ? "?" : b->name);
    return false;
  }
  return true;
}

void kir_set_usable(kir_verifier_t *v, const kir_buffer_t *b, bool is) {
  td_map_put_u64(&v->buffers, (uint64_t)(uintptr_t)b, is ? v : NULL);
}

/* ---- expressions ----------------------------------------------------------*/

/* True if the operands have these types and the result has type `result`.
 * UNSET as an operand type means the type of the result. */
static bool typed(const kir_expr_t *e, tdsl_dtype_t result, tdsl_dtype_t a,
                  tdsl_dtype_t b) {
  tdsl_dtype_t want[2] = {a, b};
  if (e->type != result) return false;
  for (uint32_t i = 0; i < e->arg_count && i < 2; i++) {
    if (e->args[i]->type !=
        (want[i] == TDSL_DTYPE_UNSET ? result : want[i])) {
      return false;
    }
  }
  return true;
}

static bool all_i64(const kir_expr_t *e) {
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (e->args[i]->type != TDSL_DTYPE_I64) return false;
  }
  return true;
}

/* Operations whose order of halves is defined, of a type that has them. */
static bool folds(const kir_expr_t *e) {
  switch ((int)e->fold) {
    case KIR_X_ADD: case KIR_X_MUL: case KIR_X_MAX: case KIR_X_MIN:
      return e->type != TDSL_DTYPE_BOOL;
    case KIR_X_AND: case KIR_X_OR: return e->type == TDSL_DTYPE_BOOL;
    default: return false;
  }
}

static bool operands_fit(const kir_expr_t *e) {
  const tdsl_dtype_t same = TDSL_DTYPE_UNSET, boolean = TDSL_DTYPE_BOOL;
  tdsl_dtype_t first = e->arg_count > 0 ? e->args[0]->type : same;
  bool is_float = tir_dtype_class(e->type) == TIR_CLASS_FLOAT;
  bool is_number = is_float || e->type == TDSL_DTYPE_I64;
  bool whole = e->arg_count > 1 && e->args[1]->type == TDSL_DTYPE_I64;
  switch (e->op) {
    case KIR_X_CONST: case KIR_X_VAR: return e->arg_count == 0;
    case KIR_X_DIM: return e->arg_count == 0 && e->type == TDSL_DTYPE_I64;
    case KIR_X_LOAD: return all_i64(e);
    case KIR_X_FOLD: return all_i64(e) && folds(e);
    case KIR_X_UNIFORM:
      return all_i64(e) && e->type == TDSL_DTYPE_F32 && e->arg_count >= 2 &&
             e->arg_count <= 5;
    case KIR_X_NOT: case KIR_X_AND: case KIR_X_OR:
      return typed(e, boolean, same, same);
    case KIR_X_NEG: case KIR_X_ABS: case KIR_X_ADD: case KIR_X_SUB:
    case KIR_X_MUL: case KIR_X_DIV: case KIR_X_MIN: case KIR_X_MAX:
      return is_number && typed(e, e->type, same, same);
    case KIR_X_FLOOR: case KIR_X_CEIL: case KIR_X_ROUND: case KIR_X_EXP:
    case KIR_X_EXP2: case KIR_X_LOG: case KIR_X_LOG2: case KIR_X_SQRT:
    case KIR_X_RSQRT: case KIR_X_SIN: case KIR_X_COS: case KIR_X_TANH:
    case KIR_X_ERF: return is_float && typed(e, e->type, same, same);
    case KIR_X_MOD: return typed(e, TDSL_DTYPE_I64, same, same);
    case KIR_X_POW:
      return is_number &&
             typed(e, e->type, same, whole ? TDSL_DTYPE_I64 : same);
    case KIR_X_FMA:
      return is_float && typed(e, e->type, same, same) &&
             e->args[2]->type == e->type;
    case KIR_X_EQ: case KIR_X_NE: return typed(e, boolean, first, first);
    case KIR_X_LT: case KIR_X_LE: case KIR_X_GT: case KIR_X_GE:
      return first != boolean && typed(e, boolean, first, first);
    case KIR_X_SELECT:
      return typed(e, e->type, boolean, same) && e->args[2]->type == e->type;
    case KIR_X_CAST:
      return e->u.to != same && tir_is_arithmetic(first) &&
             tir_dtype_class(e->u.to) != TIR_CLASS_NONE &&
             e->type == kir_arithmetic(e->u.to);
    case KIR_X_ROUND_TF32: return typed(e, TDSL_DTYPE_F32, same, same);
    case KIR_X_COUNT: return false;
  }
  return false;
}

/* Also finds variables of another kernel, whose numbers may coincide. */
static kir_visible_t state_of(const kir_verifier_t *v, const kir_var_t *var) {
  if (var == NULL || var->id >= v->kernel->var_count ||
      v->known[var->id] != var) {
    return KIR_HIDDEN;
  }
  return v->vars[var->id];
}

static void see(void *user, const kir_expr_t *e) {
  kir_trait_t *t = ((void **)user)[0];
  const kir_verifier_t *v = ((void **)user)[1];
  if (e->op == KIR_X_LOAD || e->op == KIR_X_DIM || e->op == KIR_X_FOLD) {
    t->fixed = false;
  }
  if (e->op != KIR_X_VAR) return;
  kir_visible_t s = state_of(v, e->u.var);
  if (s != KIR_FIXED) t->fixed = false;
  if (s == KIR_LANE) t->varying = true;
}

/* Few and small: asked of subscripts of registers and of lets. */
kir_trait_t kir_trait_of(kir_verifier_t *v, const kir_expr_t *e) {
  kir_trait_t t = {true, false};
  kir_walker_t walker;
  kir_walker_init(&walker, &v->arena);
  kir_walk_into(&walker, e, see, (void *[]){&t, v});
  return t;
}

bool kir_is_lane(const kir_verifier_t *v, const kir_expr_t *e) {
  return e->op == KIR_X_VAR && v->lane != NULL && e->u.var == v->lane;
}

static bool is_warp(const kir_verifier_t *v, const kir_expr_t *e) {
  return e->op == KIR_X_VAR && v->warp != NULL && e->u.var == v->warp;
}

/* Register rows are named by constants; the last subscript is a constant, or
 * the lane of a loop as wide as the row. */
void kir_check_register(kir_verifier_t *v, const kir_buffer_t *b,
                        uint32_t count, kir_expr_t *const *subs) {
  for (uint32_t d = 0; d < count && v->ok; d++) {
    bool is_last = d + 1 == b->rank;
    if (d == 0 && is_warp(v, subs[d])) continue;
    if (is_last && kir_is_lane(v, subs[d]) && row_width(b) == v->lanes) {
      continue;
    }
    if (!kir_trait_of(v, subs[d]).fixed) {
      kir_fail(v, v->loc, "subscript %u of register %s is not constant", d,
               b->name);
    }
  }
}

static void check_load(kir_verifier_t *v, const kir_expr_t *e) {
  const kir_buffer_t *b = e->u.buffer;
  if (!kir_is_usable(v, b)) return;
  uint32_t rank = b->rank;
  if (e->op == KIR_X_FOLD) {
    if (b->space != KIR_REGISTER || rank == 0 ||
        !kir_is_power_of_two(row_width(b))) {
      kir_fail(v, v->loc, "fold of %s, which is no register row of 2^n lanes",
               b->name);
      return;
    }
    rank--;
  }
  if (e->arg_count != rank || e->type != kir_arithmetic(b->dtype)) {
    kir_fail(v, v->loc, "%u subscripts on %s of rank %u, or another type",
             e->arg_count, b->name, rank);
  } else if (b->space == KIR_REGISTER) {
    kir_check_register(v, b, e->arg_count, e->args);
  } else if (b->space == KIR_GLOBAL && !b->is_read) {
    kir_fail(v, v->loc, "%s is read but not declared so", b->name);
  }
}

/* Emitters take the number as it is, so it must be a value of its type. */
static void check_const(kir_verifier_t *v, const kir_expr_t *e) {
  if (e->type == TDSL_DTYPE_BOOL && e->u.i64 != 0 && e->u.i64 != 1) {
    kir_fail(v, v->loc, "a bool is neither 0 nor 1");
  }
  if (e->type == TDSL_DTYPE_F32 && e->u.f64 == e->u.f64 &&
      (double)(float)e->u.f64 != e->u.f64) {
    kir_fail(v, v->loc, "a constant of type f32 is no f32 value");
  }
}

static void check_one(void *user, const kir_expr_t *e) {
  kir_verifier_t *v = user;
  if (!v->ok) return;
  int arity = kir_x_arity(e->op);
  if (e->op >= KIR_X_COUNT || !tir_is_arithmetic(e->type) ||
      (arity >= 0 && e->arg_count != (uint32_t)arity)) {
    kir_fail(v, v->loc, "%s has %u operands or no arithmetic type",
             kir_x_text(e->op), e->arg_count);
    return;
  }
  if (!operands_fit(e)) {
    kir_fail(v, v->loc, "the operands of %s do not fit", kir_x_text(e->op));
    return;
  }
  if (e->op == KIR_X_CONST) check_const(v, e);
  if (e->op == KIR_X_LOAD || e->op == KIR_X_FOLD) check_load(v, e);
  if (e->op == KIR_X_DIM) check_poly(v, e->u.dim, "a dim");
  if (e->op == KIR_X_VAR &&
      (state_of(v, e->u.var) == KIR_HIDDEN || e->type != e->u.var->type)) {
    kir_fail(v, v->loc, "variable %s is not visible here, or of another type",
             e->u.var == NULL ? "?" : e->u.var->name);
  }
}

void kir_check_expr(kir_verifier_t *v, const kir_expr_t *e, tdsl_dtype_t type,
                    const char *what) {
  if (!v->ok) return;
  if (e == NULL) {
    kir_fail(v, v->loc, "%s is missing", what);
    return;
  }
  kir_walker_t walker;
  kir_walker_init(&walker, &v->arena);
  kir_walk_into(&walker, e, check_one, v);
  if (type != TDSL_DTYPE_UNSET && e->type != type) {
    kir_fail(v, v->loc, "%s has the wrong type", what);
  }
}
