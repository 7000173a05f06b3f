/* kir_verify.c: checks the rules at the top of kir.h.
 *
 * Run on what passes make, where a failure is our fault, and on text read
 * back, where it is a diagnostic.  The first failure ends the check. */
#include "ir/kir_text.h"

#include "ir/dtype.h"
#include "runtime/base/num.h"

/* Statement copies that unrolling may make of one kernel. */
enum {
  MAX_COPIES = 1 << 16,
  MAX_LANES = 64,
  MAX_WARPS = 32,
  MAX_BARRIERS = 15,        /* of some warps; number 0 is that of all */
  MAX_GROUPS = 15,          /* of copies that a wait leaves on their way */
  MAX_BLOCK_LOOPS = 16,
  MAX_DIM = 1 << 12,        /* of a register buffer */
  MAX_REGISTERS = 1 << 16,  /* elements, of all warps and lanes */
};

/* What is known of a variable while it can be used. */
typedef enum visible {
  HIDDEN = 0,
  VISIBLE,
  FIXED, /* a constant once loops are unrolled */
  LANE,  /* differs between lanes */
} visible_t;

typedef struct verifier {
  td_task_t *task;
  td_arena_t arena;
  const kir_kernel_t *kernel;
  const char *stage;
  bool from_text, ok;
  visible_t *vars;          /* by id */
  const kir_var_t **known;  /* by id: the variable of that number */
  td_map_t buffers;         /* kir_buffer_t -> non-NULL while allocated */
  const kir_var_t *lane;    /* of the lane loop around, or NULL */
  int64_t lanes;
  const kir_var_t *warp;    /* of the warp loop around, or NULL */
  int64_t warps;            /* of the kernel; 0: no warp loops */
  int64_t meets[MAX_BARRIERS + 1][2]; /* warps of a barrier; hi 0: not met */
  td_loc_t loc;             /* of the statement looked at */
} verifier_t;

TD_PRINTF(3, 4)
static void fail(verifier_t *v, td_loc_t loc, const char *format, ...) {
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

static void check_poly(verifier_t *v, const ix_poly_t *p, const char *what) {
  dim_check_t c = {v->kernel};
  if (p == NULL) {
    fail(v, v->loc, "%s is missing or overflows", what);
  } else if (!ix_each_symbol(p, is_kernel_dim, &c)) {
    fail(v, v->loc, "%s has a name that is no dim of the kernel", what);
  }
}

static bool is_power_of_two(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

/* Lanes of a register row; 0 after a failure. */
static int64_t row_width(const kir_buffer_t *b) {
  int64_t n = 0;
  if (b->rank == 0 || !ix_is_const(b->dims[b->rank - 1], &n)) return 0;
  return n < 1 || n > MAX_LANES ? 0 : n;
}

/* The cap on registers keeps what is unrolled over them small. */
static void check_buffer(verifier_t *v, const kir_buffer_t *b) {
  int64_t n = 0, total = 1;
  if (b == NULL || b->name == NULL) {
    fail(v, v->loc, "a buffer or its name is missing");
    return;
  }
  if (tir_dtype_class(b->dtype) == TIR_CLASS_NONE || b->rank > IX_MAX_RANK) {
    fail(v, v->loc, "buffer %s has no dtype or rank %u", b->name, b->rank);
    return;
  }
  for (uint32_t d = 0; d < b->rank; d++) {
    check_poly(v, b->dims[d], "a dim of a buffer");
    if (!v->ok || b->space != KIR_REGISTER) continue;
    if (!ix_is_const(b->dims[d], &n) || n < 1 || n > MAX_DIM ||
        (total *= n) > MAX_REGISTERS) {
      fail(v, v->loc, "register dims of %s are not small constants", b->name);
    }
  }
  if (v->ok && b->space == KIR_REGISTER && b->rank > 0 && row_width(b) == 0) {
    fail(v, v->loc, "a register row of %s is wider than %d", b->name,
         MAX_LANES);
  }
}

/* Whole rows lie as they do under a tensor copy's swizzle of that width. */
static void check_swizzle(verifier_t *v, const kir_buffer_t *b) {
  int64_t n = 0;
  bool is_row = b->space == KIR_SHARED && b->rank > 1 &&
                ix_is_const(b->dims[b->rank - 1], &n);
  int64_t bytes = is_row && n > 0 && n <= MAX_DIM
                      ? n * (int64_t)td_dtype_bytes(b->dtype)
                      : 0;
  if (bytes != 32 && bytes != 64 && bytes != 128) {
    fail(v, v->loc, "swizzled %s has no rows of 32, 64 or 128 shared bytes",
         b->name);
  }
}

/* Parameters always, scratch from its alloc to the end of the block. */
static bool is_usable(verifier_t *v, const kir_buffer_t *b) {
  if (b == NULL ||
      td_map_get_u64(&v->buffers, (uint64_t)(uintptr_t)b) == NULL) {
    fail(v, v->loc, "buffer %s is used where it is not there",
         b == NULL ? "?" : b->name);
    return false;
  }
  return true;
}

static void set_usable(verifier_t *v, const kir_buffer_t *b, bool is) {
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
static visible_t state_of(const verifier_t *v, const kir_var_t *var) {
  if (var == NULL || var->id >= v->kernel->var_count ||
      v->known[var->id] != var) {
    return HIDDEN;
  }
  return v->vars[var->id];
}

/* Marks of an expression: constant after unrolling, or lane-varying. Of a
 * load nothing is known beyond its subscripts. */
typedef struct trait {
  bool fixed, varying;
} trait_t;

static void see(void *user, const kir_expr_t *e) {
  trait_t *t = ((void **)user)[0];
  const verifier_t *v = ((void **)user)[1];
  if (e->op == KIR_X_LOAD || e->op == KIR_X_DIM || e->op == KIR_X_FOLD) {
    t->fixed = false;
  }
  if (e->op != KIR_X_VAR) return;
  visible_t s = state_of(v, e->u.var);
  if (s != FIXED) t->fixed = false;
  if (s == LANE) t->varying = true;
}

/* Few and small: asked of subscripts of registers and of lets. */
static trait_t trait_of(verifier_t *v, const kir_expr_t *e) {
  trait_t t = {true, false};
  kir_walker_t walker;
  kir_walker_init(&walker, &v->arena);
  kir_walk_into(&walker, e, see, (void *[]){&t, v});
  return t;
}

/* Exactly the lane: `l + 0` would have to be understood by every emitter. */
static bool is_lane(const verifier_t *v, const kir_expr_t *e) {
  return e->op == KIR_X_VAR && v->lane != NULL && e->u.var == v->lane;
}

static bool is_warp(const verifier_t *v, const kir_expr_t *e) {
  return e->op == KIR_X_VAR && v->warp != NULL && e->u.var == v->warp;
}

/* Register rows are named by constants; the last subscript is a constant, or
 * the lane of a loop as wide as the row. */
static void check_register(verifier_t *v, const kir_buffer_t *b,
                           uint32_t count, kir_expr_t *const *subs) {
  for (uint32_t d = 0; d < count && v->ok; d++) {
    bool is_last = d + 1 == b->rank;
    if (d == 0 && is_warp(v, subs[d])) continue;
    if (is_last && is_lane(v, subs[d]) && row_width(b) == v->lanes) continue;
    if (!trait_of(v, subs[d]).fixed) {
      fail(v, v->loc, "subscript %u of register %s is not constant", d,
           b->name);
    }
  }
}

static void check_load(verifier_t *v, const kir_expr_t *e) {
  const kir_buffer_t *b = e->u.buffer;
  if (!is_usable(v, b)) return;
  uint32_t rank = b->rank;
  if (e->op == KIR_X_FOLD) {
    if (b->space != KIR_REGISTER || rank == 0 ||
        !is_power_of_two(row_width(b))) {
      fail(v, v->loc, "fold of %s, which is no register row of 2^n lanes",
           b->name);
      return;
    }
    rank--;
  }
  if (e->arg_count != rank || e->type != kir_arithmetic(b->dtype)) {
    fail(v, v->loc, "%u subscripts on %s of rank %u, or another type",
         e->arg_count, b->name, rank);
  } else if (b->space == KIR_REGISTER) {
    check_register(v, b, e->arg_count, e->args);
  } else if (b->space == KIR_GLOBAL && !b->is_read) {
    fail(v, v->loc, "%s is read but not declared so", b->name);
  }
}

/* Emitters take the number as it is, so it must be a value of its type. */
static void check_const(verifier_t *v, const kir_expr_t *e) {
  if (e->type == TDSL_DTYPE_BOOL && e->u.i64 != 0 && e->u.i64 != 1) {
    fail(v, v->loc, "a bool is neither 0 nor 1");
  }
  if (e->type == TDSL_DTYPE_F32 && e->u.f64 == e->u.f64 &&
      (double)(float)e->u.f64 != e->u.f64) {
    fail(v, v->loc, "a constant of type f32 is no f32 value");
  }
}

static void check_one(void *user, const kir_expr_t *e) {
  verifier_t *v = user;
  if (!v->ok) return;
  int arity = kir_x_arity(e->op);
  if (e->op >= KIR_X_COUNT || !tir_is_arithmetic(e->type) ||
      (arity >= 0 && e->arg_count != (uint32_t)arity)) {
    fail(v, v->loc, "%s has %u operands or no arithmetic type",
         kir_x_text(e->op), e->arg_count);
    return;
  }
  if (!operands_fit(e)) {
    fail(v, v->loc, "the operands of %s do not fit", kir_x_text(e->op));
    return;
  }
  if (e->op == KIR_X_CONST) check_const(v, e);
  if (e->op == KIR_X_LOAD || e->op == KIR_X_FOLD) check_load(v, e);
  if (e->op == KIR_X_DIM) check_poly(v, e->u.dim, "a dim");
  if (e->op == KIR_X_VAR &&
      (state_of(v, e->u.var) == HIDDEN || e->type != e->u.var->type)) {
    fail(v, v->loc, "variable %s is not visible here, or of another type",
         e->u.var == NULL ? "?" : e->u.var->name);
  }
}

/* `type` UNSET: any. */
static void check_expr(verifier_t *v, const kir_expr_t *e, tdsl_dtype_t type,
                       const char *what) {
  if (!v->ok) return;
  if (e == NULL) {
    fail(v, v->loc, "%s is missing", what);
    return;
  }
  kir_walker_t walker;
  kir_walker_init(&walker, &v->arena);
  kir_walk_into(&walker, e, check_one, v);
  if (type != TDSL_DTYPE_UNSET && e->type != type) {
    fail(v, v->loc, "%s has the wrong type", what);
  }
}

/* ---- statements -----------------------------------------------------------*/

/* What the run time can evaluate before a launch. */
static bool is_dim_only(const kir_expr_t *e) {
  return e->op == KIR_X_CONST || e->op == KIR_X_DIM;
}

static bool is_const_i64(const kir_expr_t *e) {
  return e->op == KIR_X_CONST && e->type == TDSL_DTYPE_I64;
}

/* One variable a number and one definition at a time, so that emitters may
 * keep values in an array. */
static void define(verifier_t *v, const kir_var_t *var, visible_t state) {
  if (var == NULL || var->name == NULL || !tir_is_arithmetic(var->type) ||
      var->id >= v->kernel->var_count) {
    fail(v, v->loc, "a variable is missing or has no name, type or number");
    return;
  }
  if (v->known[var->id] != NULL && v->known[var->id] != var) {
    fail(v, v->loc, "variables %s and %s have one number", var->name,
         v->known[var->id]->name);
    return;
  }
  if (v->vars[var->id] != HIDDEN) {
    fail(v, v->loc, "variable %s is set inside its own scope", var->name);
    return;
  }
  v->known[var->id] = var;
  v->vars[var->id] = state;
}

/* Copies one loop makes of its body. */
static int64_t copies_of(verifier_t *v, const kir_stmt_t *s, int64_t around) {
  int64_t span;
  if (__builtin_sub_overflow(s->hi->u.i64, s->lo->u.i64, &span) ||
      span > MAX_COPIES) {
    fail(v, v->loc, "loop over %s is too long to unroll", s->var->name);
    return around;
  }
  if (span <= 0) return around;
  int64_t trips = (span - 1) / s->step + 1;
  if (trips > MAX_COPIES / around) {
    fail(v, v->loc, "unrolling makes more than %d copies", MAX_COPIES);
    return around;
  }
  return around * trips;
}

/* `block_loops` is passed on while the block is one statement, so that block
 * loops nest directly in each other. */
static void check_block(verifier_t *v, const kir_block_t *block, int depth,
                        int64_t copies, uint32_t block_loops);

/* `block_loops`: block loops around, if this may be one more; else
 * UINT32_MAX. */
static void check_loop(verifier_t *v, const kir_stmt_t *s, int depth,
                       int64_t copies, uint32_t block_loops) {
  visible_t state = VISIBLE;
  uint32_t inner = UINT32_MAX;
  check_expr(v, s->lo, TDSL_DTYPE_I64, "the lower bound");
  check_expr(v, s->hi, TDSL_DTYPE_I64, "the upper bound");
  if (s->step < 1) fail(v, v->loc, "the step is not positive");
  if (v->lane != NULL) fail(v, v->loc, "a loop inside a lane loop");
  if (s->loop == KIR_LOOP_LANE && v->warps > 0 && v->warp == NULL) {
    fail(v, v->loc, "a lane loop beside warp loops");
  }
  if (s->mask != NULL && s->loop != KIR_LOOP_LANE) {
    fail(v, v->loc, "only lane loops have a mask");
  }
  if (s->var == NULL || s->var->type != TDSL_DTYPE_I64) {
    fail(v, v->loc, "the loop variable is no integer");
  }
  if (!v->ok) return;
  bool is_const = is_const_i64(s->lo) && is_const_i64(s->hi);
  switch (s->loop) {
    case KIR_LOOP_BLOCK:
      if (block_loops >= MAX_BLOCK_LOOPS) {
        fail(v, v->loc, "a block loop that is not outermost");
      }
      if (!is_dim_only(s->lo) || !is_dim_only(s->hi)) {
        fail(v, v->loc, "bounds of a block loop are not dims");
      }
      inner = block_loops + 1;
      break;
    case KIR_LOOP_UNROLL:
      state = FIXED;
      if (is_const) {
        copies = copies_of(v, s, copies);
      } else {
        fail(v, v->loc, "bounds of an unrolled loop are not constants");
      }
      break;
    case KIR_LOOP_LANE:
      state = LANE;
      if (!is_const || s->lo->u.i64 != 0 || s->hi->u.i64 < 2 ||
          s->hi->u.i64 > MAX_LANES || s->step != 1) {
        fail(v, v->loc, "lanes are not 0 .. n, 2 <= n <= %d", MAX_LANES);
      }
      break;
    case KIR_LOOP_WARP:
      if (!is_const || s->lo->u.i64 < 0 || s->step != 1 ||
          s->hi->u.i64 <= s->lo->u.i64 || v->warps > MAX_WARPS ||
          v->warp != NULL) {
        fail(v, v->loc, "warps are not some of 0 .. n, n <= %d", MAX_WARPS);
      }
      break;
    case KIR_LOOP_SERIAL: break;
  }
  define(v, s->var, state);
  if (!v->ok) return;
  if (s->loop == KIR_LOOP_LANE) {
    v->lane = s->var;
    v->lanes = s->hi->u.i64;
    if (s->mask != NULL) {
      check_expr(v, s->mask, TDSL_DTYPE_BOOL, "the mask");
    }
  }
  if (s->loop == KIR_LOOP_WARP) v->warp = s->var;
  check_block(v, &s->body, depth + 1, copies, inner);
  if (s->loop == KIR_LOOP_LANE) v->lane = NULL;
  if (s->loop == KIR_LOOP_WARP) v->warp = NULL;
  v->vars[s->var->id] = HIDDEN;
}

/* Floats round and integers keep low bits; nothing else converts itself. */
static bool value_fits(const kir_buffer_t *b, const kir_expr_t *value) {
  tir_class_t c = tir_dtype_class(b->dtype);
  return c == tir_dtype_class(value->type);
}

/* In a lane loop registers change only lane by lane: lanes that all store to
 * one register would need an order that vectors do not have. */
static void check_store(verifier_t *v, const kir_stmt_t *s) {
  const kir_buffer_t *b = s->buffer;
  if (!is_usable(v, b)) return;
  if (v->warps > 0 && v->warp == NULL) {
    fail(v, v->loc, "a store beside warp loops");
  }
  check_expr(v, s->value, TDSL_DTYPE_UNSET, "the value");
  if (s->sub_count != b->rank) {
    fail(v, v->loc, "%u subscripts on %s of rank %u", s->sub_count, b->name,
         b->rank);
  }
  for (uint32_t i = 0; i < s->sub_count; i++) {
    check_expr(v, s->subs[i], TDSL_DTYPE_I64, "a subscript");
  }
  if (!v->ok) return;
  if (!value_fits(b, s->value)) {
    fail(v, v->loc, "the value of %s is of another class", b->name);
  }
  if (b->space == KIR_GLOBAL && !b->is_written) {
    fail(v, v->loc, "%s is written but not declared so", b->name);
  }
  if (b->space != KIR_REGISTER) return;
  check_register(v, b, s->sub_count, s->subs);
  if (v->lane != NULL &&
      (b->rank == 0 || !is_lane(v, s->subs[b->rank - 1]))) {
    fail(v, v->loc, "lanes store to one register of %s", b->name);
  }
}

/* At most 16 bytes, which every memory moves at once. */
static void check_copy(verifier_t *v, const kir_stmt_t *s) {
  const kir_expr_t *from = s->value;
  int64_t n = s->step;
  if (from == NULL || from->op != KIR_X_LOAD) {
    fail(v, v->loc, "a copy is not from a place");
    return;
  }
  check_store(v, s);
  if (!v->ok) return;
  int64_t bytes = n * (int64_t)td_dtype_bytes(s->buffer->dtype);
  if (from->u.buffer->dtype != s->buffer->dtype) {
    fail(v, v->loc, "a copy between dtypes");
  } else if (s->buffer->rank == 0 || from->u.buffer->rank == 0 || n < 2 ||
             !is_power_of_two(n) || bytes > 16) {
    fail(v, v->loc, "a copy of %lld elements", (long long)n);
  }
}

/* A square of 2^n floats, whole: what shuffles of a few vectors do. */
static void check_transpose(verifier_t *v, const kir_stmt_t *s) {
  const kir_buffer_t *b = s->buffer;
  int64_t rows = 0, lanes = 0;
  if (!is_usable(v, b)) return;
  if (v->lane != NULL || v->warps > 0) {
    fail(v, v->loc, "transpose of %s in a lane loop or beside warp loops",
         b->name);
  } else if (b->space != KIR_REGISTER || b->rank != 2 ||
             (b->dtype != TDSL_DTYPE_F32 && b->dtype != TDSL_DTYPE_F64) ||
             !ix_is_const(b->dims[0], &rows) ||
             !ix_is_const(b->dims[1], &lanes) || rows != lanes || rows < 2 ||
             rows > 16 || !is_power_of_two(rows)) {
    fail(v, v->loc, "%s is no square of up to 16 registers of floats",
         b->name);
  }
}

static void note_load(void *user, const kir_expr_t *e) {
  bool *found = user;
  *found |= e->op == KIR_X_LOAD || e->op == KIR_X_FOLD;
}

/* A place outside of the buffer is no fault, so its subscripts must be none
 * either. */
static void check_prefetch(verifier_t *v, const kir_stmt_t *s) {
  const kir_buffer_t *b = s->buffer;
  if (!is_usable(v, b)) return;
  if (b->space != KIR_GLOBAL || v->lane != NULL || v->warps > 0) {
    fail(v, v->loc, "prefetch of %s, which is no parameter, in a lane loop or "
                    "beside warp loops", b->name);
    return;
  }
  if (s->sub_count != b->rank) {
    fail(v, v->loc, "%u subscripts on %s of rank %u", s->sub_count, b->name,
         b->rank);
  }
  for (uint32_t i = 0; i < s->sub_count; i++) {
    bool reads = false;
    kir_walker_t walker;
    check_expr(v, s->subs[i], TDSL_DTYPE_I64, "a subscript");
    kir_walker_init(&walker, &v->arena);
    kir_walk_into(&walker, s->subs[i], note_load, &reads);
    if (reads) fail(v, v->loc, "prefetch of %s reads its place", b->name);
  }
}

/* From memory that stays as it is to memory that all see. */
static void check_async(verifier_t *v, const kir_stmt_t *s) {
  const kir_expr_t *from = s->value;
  if (from == NULL || from->op != KIR_X_LOAD || v->lane == NULL ||
      v->warp == NULL) {
    fail(v, v->loc, "a copy on its way is not from a place, or no lane's");
    return;
  }
  if (s->mask != NULL) {
    check_expr(v, s->mask, TDSL_DTYPE_BOOL, "the condition");
  }
  check_store(v, s);
  if (!v->ok) return;
  int64_t bytes = s->step * (int64_t)td_dtype_bytes(s->buffer->dtype);
  if (from->u.buffer->dtype != s->buffer->dtype) {
    fail(v, v->loc, "a copy between dtypes");
  } else if (s->buffer->space != KIR_SHARED ||
             from->u.buffer->space != KIR_GLOBAL ||
             from->u.buffer->is_written) {
    fail(v, v->loc, "a copy on its way is not from a parameter that stays "
                    "to shared memory");
  } else if (s->buffer->rank == 0 || from->u.buffer->rank == 0 ||
             s->step < 1 || s->step > 16 ||
             (bytes != 4 && bytes != 8 && bytes != 16)) {
    fail(v, v->loc, "a copy on its way of %lld elements, not of 4, 8 or 16 "
                    "bytes", (long long)s->step);
  }
}

/* All threads, or some warps that always meet under this number. */
static void check_barrier(verifier_t *v, const kir_stmt_t *s) {
  if (v->warps == 0 || v->warp != NULL || v->lane != NULL) {
    fail(v, v->loc, "a barrier in a warp or lane loop, or without any");
  }
  if (s->step == 0 || !v->ok) return;
  if (s->step < 1 || s->step > MAX_BARRIERS || s->lo == NULL ||
      s->hi == NULL || !is_const_i64(s->lo) || !is_const_i64(s->hi) ||
      s->lo->u.i64 < 0 || s->hi->u.i64 <= s->lo->u.i64 ||
      s->hi->u.i64 > v->warps) {
    fail(v, v->loc, "barrier %lld is not of some of the warps, or no number "
                    "of 1 .. %d", (long long)s->step, MAX_BARRIERS);
    return;
  }
  int64_t *met = v->meets[s->step];
  if (met[1] > 0 && (met[0] != s->lo->u.i64 || met[1] != s->hi->u.i64)) {
    fail(v, v->loc, "barrier %lld is of other warps elsewhere",
         (long long)s->step);
  }
  met[0] = s->lo->u.i64;
  met[1] = s->hi->u.i64;
}

static void check_stmt(verifier_t *v, const kir_stmt_t *s, int depth,
                       int64_t copies, uint32_t block_loops) {
  switch (s->kind) {
    case KIR_LOOP: check_loop(v, s, depth, copies, block_loops); return;
    case KIR_IF:
      check_expr(v, s->mask, TDSL_DTYPE_BOOL, "the condition");
      check_block(v, &s->body, depth + 1, copies, UINT32_MAX);
      check_block(v, &s->orelse, depth + 1, copies, UINT32_MAX);
      return;
    case KIR_LET: {
      check_expr(v, s->value,
                 s->var == NULL ? TDSL_DTYPE_UNSET : s->var->type,
                 "the value");
      if (!v->ok) return;
      trait_t t = trait_of(v, s->value);
      define(v, s->var, t.fixed ? FIXED : t.varying ? LANE : VISIBLE);
      return;
    }
    case KIR_STORE: check_store(v, s); return;
    case KIR_COPY: check_copy(v, s); return;
    case KIR_TRANSPOSE: check_transpose(v, s); return;
    case KIR_PREFETCH: check_prefetch(v, s); return;
    case KIR_ASYNC: check_async(v, s); return;
    case KIR_BARRIER: check_barrier(v, s); return;
    case KIR_COMMIT: case KIR_WAIT:
      if (v->warps == 0 || v->warp != NULL || v->lane != NULL) {
        fail(v, v->loc, "%s in a warp or lane loop, or without any",
             kir_kind_text(s->kind));
      }
      if (s->kind == KIR_WAIT && (s->step < 0 || s->step > MAX_GROUPS)) {
        fail(v, v->loc, "a wait leaves %lld groups, not 0 .. %d",
             (long long)s->step, MAX_GROUPS);
      }
      return;
    case KIR_ALLOC:
      check_buffer(v, s->buffer);
      if (v->ok && s->buffer->is_swizzled) check_swizzle(v, s->buffer);
      if (!v->ok) return;
      if (v->lane != NULL || s->buffer->space == KIR_GLOBAL) {
        fail(v, v->loc, "alloc of %s in a lane loop or of a parameter",
             s->buffer->name);
      }
      if (s->buffer->space == KIR_SHARED &&
          (v->warps == 0 || v->warp != NULL)) {
        fail(v, v->loc, "shared %s is not of a block with warp loops",
             s->buffer->name);
      }
      if (s->buffer->space == KIR_LOCAL && v->warps > 0) {
        fail(v, v->loc, "local %s in a block with warp loops",
             s->buffer->name);
      }
      if (td_map_get_u64(&v->buffers, (uint64_t)(uintptr_t)s->buffer)) {
        fail(v, v->loc, "%s is allocated twice", s->buffer->name);
      }
      set_usable(v, s->buffer, true);
      return;
    case KIR_COMMENT: return;
    case KIR_KIND_COUNT: break;
  }
  fail(v, v->loc, "no statement has number %d", (int)s->kind);
}

static void check_block(verifier_t *v, const kir_block_t *block, int depth,
                        int64_t copies, uint32_t block_loops) {
  if (depth > KIR_MAX_NESTING) {
    fail(v, v->loc, "statements nest deeper than %d", KIR_MAX_NESTING);
  }
  if (block->length != 1) block_loops = UINT32_MAX;
  for (size_t i = 0; i < block->length && v->ok; i++) {
    const kir_stmt_t *s = block->data[i];
    if (s->loc.line != 0) v->loc = s->loc;
    check_stmt(v, s, depth, copies, block_loops);
  }
  /* what the block made is gone after it */
  for (size_t i = 0; i < block->length && v->ok; i++) {
    const kir_stmt_t *s = block->data[i];
    if (s->kind == KIR_LET) v->vars[s->var->id] = HIDDEN;
    if (s->kind == KIR_ALLOC) set_usable(v, s->buffer, false);
  }
}

bool kir_verify(td_task_t *task, const kir_kernel_t *kernel,
                const char *stage, bool from_text) {
  verifier_t v = {.task = task,
                  .kernel = kernel,
                  .stage = stage,
                  .from_text = from_text,
                  .ok = true,
                  .loc = kernel->loc};
  td_arena_init(&v.arena, task);
  td_map_init(&v.buffers, &v.arena);
  v.vars = TD_NEW_ARRAY(&v.arena, visible_t, kernel->var_count + 1u);
  v.known = TD_NEW_ARRAY(&v.arena, const kir_var_t *, kernel->var_count + 1u);
  if (kernel->name == NULL || kernel->name[0] == '\0') {
    fail(&v, v.loc, "a kernel has no name");
  }
  for (uint32_t i = 0; i < kernel->param_count && v.ok; i++) {
    const kir_buffer_t *b = kernel->params[i];
    check_buffer(&v, b);
    if (!v.ok) break;
    if (b->space != KIR_GLOBAL || b->id != i) {
      fail(&v, v.loc, "parameter %s is not number %u", b->name, i);
    }
    set_usable(&v, b, true);
  }
  if (v.ok) {
    v.warps = kir_warp_count(kernel);
    check_block(&v, &kernel->body, 0, 1, 0);
  }
  td_arena_free_all(&v.arena);
  return v.ok;
}
