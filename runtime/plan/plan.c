/* plan.c: expressions of a plan: building them and evaluating them. */
#include "runtime/plan/plan.h"

static plan_expr_t one_token(td_arena_t *arena, plan_token_t token) {
  plan_token_t *tokens = TD_NEW(arena, plan_token_t);
  *tokens = token;
  plan_expr_t e = {1, tokens};
  return e;
}

plan_expr_t plan_const(td_arena_t *arena, int64_t value) {
  plan_token_t t = {.op = PLAN_X_CONST, .value = value};
  return one_token(arena, t);
}

plan_expr_t plan_var_expr(td_arena_t *arena, uint32_t var) {
  plan_token_t t = {.op = PLAN_X_VAR, .value = var};
  return one_token(arena, t);
}

static bool const_value(plan_expr_t e, int64_t *out) {
  if (e.count == 0) {
    *out = 0;
    return true;
  }
  if (e.count != 1 || e.tokens[0].op != PLAN_X_CONST) return false;
  *out = e.tokens[0].value;
  return true;
}

plan_expr_t plan_join(td_arena_t *arena, plan_x_t op, plan_expr_t a,
                      plan_expr_t b) {
  int64_t x = 0, y = 0;
  bool has_x = const_value(a, &x), has_y = const_value(b, &y);
  if (op == PLAN_X_ADD && has_x && x == 0) return b;
  if (op == PLAN_X_ADD && has_y && y == 0) return a;
  if (op == PLAN_X_MUL && has_x && x == 1) return b;
  if (op == PLAN_X_MUL && has_y && y == 1) return a;
  uint32_t left = a.count == 0 ? 1 : a.count;
  uint32_t right = b.count == 0 ? 1 : b.count;
  plan_token_t *tokens = TD_NEW_ARRAY(arena, plan_token_t, left + right + 1);
  for (uint32_t i = 0; i < a.count; i++) tokens[i] = a.tokens[i];
  for (uint32_t i = 0; i < b.count; i++) tokens[left + i] = b.tokens[i];
  tokens[left + right].op = op;
  plan_expr_t joined = {left + right + 1, tokens};
  int64_t value;
  plan_env_t none = {0};
  if (has_x && has_y && plan_eval(&joined, &none, &value)) {
    return plan_const(arena, value);
  }
  return joined;
}

static double as_real(plan_number_t n) {
  return n.is_real ? n.r : (double)n.i;
}

static plan_number_t truth(bool value) {
  plan_number_t n = {.i = value};
  return n;
}

static bool is_true(plan_number_t n) {
  return n.is_real ? n.r != 0 : n.i != 0;
}

/* Floor division and its remainder; b > 0 or b < 0 both floor. */
static bool divide_floor(int64_t a, int64_t b, int64_t *q, int64_t *r) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  *q = a / b;
  *r = a % b;
  if (*r != 0 && (*r < 0) != (b < 0)) {
    *q -= 1;
    *r += b;
  }
  return true;
}

static bool arithmetic_int(plan_x_t op, int64_t a, int64_t b, int64_t *out) {
  int64_t q, r;
  switch (op) {
    case PLAN_X_ADD: return !__builtin_add_overflow(a, b, out);
    case PLAN_X_SUB: return !__builtin_sub_overflow(a, b, out);
    case PLAN_X_MUL: return !__builtin_mul_overflow(a, b, out);
    case PLAN_X_DIV:
      if (!divide_floor(a, b, &q, &r)) return false;
      *out = q;
      return true;
    case PLAN_X_MOD:
      if (!divide_floor(a, b, &q, &r)) return false;
      *out = r;
      return true;
    case PLAN_X_MIN: *out = a < b ? a : b; return true;
    case PLAN_X_MAX: *out = a > b ? a : b; return true;
    case PLAN_X_CONST: case PLAN_X_REAL: case PLAN_X_VAR: case PLAN_X_SCALAR:
    case PLAN_X_NEG: case PLAN_X_NOT: case PLAN_X_EQ: case PLAN_X_NE:
    case PLAN_X_LT: case PLAN_X_LE: case PLAN_X_GT: case PLAN_X_GE:
    case PLAN_X_AND: case PLAN_X_OR: case PLAN_X_FLOAT: case PLAN_X_COUNT:
      break;
  }
  return false;
}

static bool arithmetic_real(plan_x_t op, double a, double b, double *out) {
  switch (op) {
    case PLAN_X_ADD: *out = a + b; return true;
    case PLAN_X_SUB: *out = a - b; return true;
    case PLAN_X_MUL: *out = a * b; return true;
    case PLAN_X_DIV: *out = a / b; return true;
    case PLAN_X_MIN: *out = a < b || a != a ? a : b; return true;
    case PLAN_X_MAX: *out = a > b || a != a ? a : b; return true;
    case PLAN_X_MOD:
    case PLAN_X_CONST: case PLAN_X_REAL: case PLAN_X_VAR: case PLAN_X_SCALAR:
    case PLAN_X_NEG: case PLAN_X_NOT: case PLAN_X_EQ: case PLAN_X_NE:
    case PLAN_X_LT: case PLAN_X_LE: case PLAN_X_GT: case PLAN_X_GE:
    case PLAN_X_AND: case PLAN_X_OR: case PLAN_X_FLOAT: case PLAN_X_COUNT:
      break;
  }
  return false;
}

static bool compare(plan_x_t op, plan_number_t a, plan_number_t b) {
  if (a.is_real || b.is_real) {
    double x = as_real(a), y = as_real(b);
    if (op == PLAN_X_EQ) return x == y;
    if (op == PLAN_X_NE) return x != y;
    if (op == PLAN_X_LT) return x < y;
    if (op == PLAN_X_LE) return x <= y;
    if (op == PLAN_X_GT) return x > y;
    return x >= y;
  }
  if (op == PLAN_X_EQ) return a.i == b.i;
  if (op == PLAN_X_NE) return a.i != b.i;
  if (op == PLAN_X_LT) return a.i < b.i;
  if (op == PLAN_X_LE) return a.i <= b.i;
  if (op == PLAN_X_GT) return a.i > b.i;
  return a.i >= b.i;
}

/* One binary operation; the operands are values, not addresses. */
static bool apply_binary(plan_x_t op, plan_number_t a, plan_number_t b,
                         plan_number_t *out) {
  switch (op) {
    case PLAN_X_EQ: case PLAN_X_NE: case PLAN_X_LT: case PLAN_X_LE:
    case PLAN_X_GT: case PLAN_X_GE:
      *out = truth(compare(op, a, b));
      return true;
    case PLAN_X_AND: *out = truth(is_true(a) && is_true(b)); return true;
    case PLAN_X_OR: *out = truth(is_true(a) || is_true(b)); return true;
    case PLAN_X_ADD: case PLAN_X_SUB: case PLAN_X_MUL: case PLAN_X_DIV:
    case PLAN_X_MOD: case PLAN_X_MIN: case PLAN_X_MAX: {
      plan_number_t n = {.is_real = a.is_real || b.is_real};
      bool ok = n.is_real
                    ? arithmetic_real(op, as_real(a), as_real(b), &n.r)
                    : arithmetic_int(op, a.i, b.i, &n.i);
      *out = n;
      return ok;
    }
    case PLAN_X_CONST: case PLAN_X_REAL: case PLAN_X_VAR: case PLAN_X_SCALAR:
    case PLAN_X_NEG: case PLAN_X_NOT: case PLAN_X_FLOAT: case PLAN_X_COUNT:
      break;
  }
  return false;
}

bool plan_eval_number(const plan_expr_t *e, const plan_env_t *env,
                      plan_number_t *out) {
  plan_number_t stack[PLAN_STACK];
  uint32_t depth = 0;
  plan_number_t zero = {0};
  *out = zero;
  if (e->count == 0) return true;
  for (uint32_t i = 0; i < e->count; i++) {
    const plan_token_t *t = &e->tokens[i];
    plan_number_t n = {0};
    switch (t->op) {
      case PLAN_X_CONST: n.i = t->value; break;
      case PLAN_X_REAL: n.is_real = true; n.r = t->real; break;
      case PLAN_X_VAR:
        if (env->vars == NULL) return false;
        n.i = env->vars[t->value];
        break;
      case PLAN_X_SCALAR:
        if (env->scalars == NULL) return false;
        n = env->scalars[t->value];
        break;
      case PLAN_X_NEG: case PLAN_X_NOT: case PLAN_X_FLOAT:
        if (depth < 1) return false;
        n = stack[--depth];
        if (t->op == PLAN_X_NOT) {
          n = truth(!is_true(n));
        } else if (t->op == PLAN_X_FLOAT) {
          n.r = as_real(n);
          n.is_real = true;
        } else if (n.is_real) {
          n.r = -n.r;
        } else if (__builtin_sub_overflow((int64_t)0, n.i, &n.i)) {
          return false;
        }
        break;
      case PLAN_X_ADD: case PLAN_X_SUB: case PLAN_X_MUL: case PLAN_X_DIV:
      case PLAN_X_MOD: case PLAN_X_MIN: case PLAN_X_MAX: case PLAN_X_EQ:
      case PLAN_X_NE: case PLAN_X_LT: case PLAN_X_LE: case PLAN_X_GT:
      case PLAN_X_GE: case PLAN_X_AND: case PLAN_X_OR:
        if (depth < 2) return false;
        depth -= 2;
        if (!apply_binary(t->op, stack[depth], stack[depth + 1], &n)) {
          return false;
        }
        break;
      case PLAN_X_COUNT: return false;
    }
    if (depth == PLAN_STACK) return false;
    stack[depth++] = n;
  }
  if (depth != 1) return false;
  *out = stack[0];
  return true;
}

bool plan_eval(const plan_expr_t *e, const plan_env_t *env, int64_t *out) {
  plan_number_t n;
  if (!plan_eval_number(e, env, &n) || n.is_real) return false;
  *out = n.i;
  return true;
}
