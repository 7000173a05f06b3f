/* tir_parse_expr.c: expressions and polynomials of the text form.
 *
 * Expressions are prefix calls, read with a stack of open calls: their depth
 * is bounded by the text alone.  Types are not checked here (the verifier
 * does), only given: a call has the type of its operands.
 *
 * Polynomials are infix, since that is how dims are written, and are built by
 * the arithmetic of ir/shape, which keeps them in normal form.  A product of
 * sums grows with every factor and a quotient nests in the next, so both are
 * capped: a dim that people wrote is far below. */
#include "ir/tir_parse.h"

#include "ir/dtype.h"

/* Polynomials: parentheses nest to NESTING, a result has at most TERMS
 * terms, and there are at most DIVISIONS quotients, which nest inside. */
enum { POLY_NESTING = 32, POLY_TERMS = 256, POLY_DIVISIONS = 64 };

/* ---- polynomials --------------------------------------------------------- */

typedef struct poly_state {
  int depth, divisions;
} poly_state_t;

static const ix_poly_t *poly_sum(tir_parser_t *p, poly_state_t *s);

/* Stands for whatever could not be read. */
static const ix_poly_t *zero(const tir_parser_t *p) {
  return ix_const(p->module->pool, 0);
}

/* NULL is an overflow; too large a result would make the next one larger. */
static const ix_poly_t *keep(tir_parser_t *p, const ix_poly_t *q) {
  if (q != NULL && q->term_count <= POLY_TERMS) return q;
  tir_fail(p, "dim expression is too large");
  return zero(p);
}

static const ix_poly_t *poly_minmax(tir_parser_t *p, poly_state_t *s) {
  bool is_min = tir_at_word(p, "min");
  tir_next(p);
  tir_expect_punct(p, "(");
  const ix_poly_t *a = poly_sum(p, s);
  tir_expect_punct(p, ",");
  const ix_poly_t *b = poly_sum(p, s);
  tir_expect_punct(p, ")");
  ix_pool_t *pool = p->module->pool;
  if (++s->divisions > POLY_DIVISIONS)
    tir_fail(p, "dim expression is too deep");
  return keep(p, is_min ? ix_min(pool, a, b) : ix_max(pool, a, b));
}

/* Unary minus binds tighter than / and %, as in the language. */
static const ix_poly_t *poly_factor(tir_parser_t *p, poly_state_t *s) {
  const ix_poly_t *q = zero(p);
  if (++s->depth > POLY_NESTING) {
    tir_fail(p, "dim expression is nested too deep");
  } else if (tir_take_punct(p, "-")) {
    q = keep(p, ix_neg(p->module->pool, poly_factor(p, s)));
  } else if (tir_take_punct(p, "(")) {
    q = poly_sum(p, s);
    tir_expect_punct(p, ")");
  } else if (p->now.token == TIR_T_INT) {
    q = keep(p, ix_const(p->module->pool, tir_expect_int(p)));
  } else if (tir_at_word(p, "min") || tir_at_word(p, "max")) {
    q = poly_minmax(p, s);
  } else {
    ix_symbol_t *dim =
        p->now.token == TIR_T_WORD ? td_map_get(&p->dims, p->now.word) : NULL;
    if (dim == NULL)
      tir_fail(p, "expected a dim, got `%.*s`", TD_STR_ARG(p->now.word));
    else
      q = ix_sym(p->module->pool, dim);
    tir_next(p);
  }
  s->depth--;
  return q;
}

/* A divisor that is provably not positive has no meaning; one that may be is
 * taken at its word, as in the language. */
static const ix_poly_t *poly_divide(tir_parser_t *p, const ix_poly_t *a,
                                    const ix_poly_t *b, bool is_mod,
                                    poly_state_t *s) {
  int64_t value;
  if (ix_is_const(b, &value) && value <= 0) {
    tir_fail(p, "divisor is not positive");
    return zero(p);
  }
  if (++s->divisions > POLY_DIVISIONS) {
    tir_fail(p, "dim expression is too deep");
    return zero(p);
  }
  ix_pool_t *pool = p->module->pool;
  return keep(p, is_mod ? ix_mod(pool, a, b, NULL) : ix_div(pool, a, b, NULL));
}

static const ix_poly_t *poly_product(tir_parser_t *p, poly_state_t *s) {
  const ix_poly_t *a = poly_factor(p, s);
  while (!p->failed) {
    if (tir_take_punct(p, "*"))
      a = keep(p, ix_mul(p->module->pool, a, poly_factor(p, s)));
    else if (tir_take_punct(p, "/"))
      a = poly_divide(p, a, poly_factor(p, s), false, s);
    else if (tir_take_punct(p, "%"))
      a = poly_divide(p, a, poly_factor(p, s), true, s);
    else
      break;
  }
  return a;
}

static const ix_poly_t *poly_sum(tir_parser_t *p, poly_state_t *s) {
  const ix_poly_t *a = poly_product(p, s);
  while (!p->failed) {
    if (tir_take_punct(p, "+"))
      a = keep(p, ix_add(p->module->pool, a, poly_product(p, s)));
    else if (tir_take_punct(p, "-"))
      a = keep(p, ix_sub(p->module->pool, a, poly_product(p, s)));
    else
      break;
  }
  return a;
}

const ix_poly_t *tir_parse_poly(tir_parser_t *p) {
  poly_state_t s = {0, 0};
  return poly_sum(p, &s);
}

/* ---- leaves -------------------------------------------------------------- */

static tir_expr_t *at(tir_expr_t *e, td_loc_t loc) {
  e->loc = loc;
  return e;
}

/* `:f64` behind a float; without it the constant is an f32. */
static bool ends_in_f64(tir_parser_t *p) {
  if (!tir_take_punct(p, ":")) return false;
  if (!tir_take_word(p, "f64")) tir_fail(p, "expected `f64`");
  return true;
}

static tir_expr_t *float_constant(tir_parser_t *p, double value) {
  tir_next(p);
  tdsl_dtype_t type = ends_in_f64(p) ? TDSL_DTYPE_F64 : TDSL_DTYPE_F32;
  return tir_const_f(p->arena, type, value);
}

/* The sign belongs to the digits: the smallest integer has no positive. */
static tir_expr_t *int_constant(tir_parser_t *p, bool is_negative) {
  int64_t value = 0;
  const char *text = td_arena_printf(&p->scratch, "%s%.*s",
                                     is_negative ? "-" : "",
                                     TD_STR_ARG(p->now.word));
  if (!td_parse_i64(td_str(text), &value))
    tir_fail(p, "integer does not fit i64");
  tir_next(p);
  return tir_const_i(p->arena, TDSL_DTYPE_I64, value);
}

tir_expr_t *tir_parse_constant(tir_parser_t *p) {
  td_loc_t loc = p->now.loc;
  bool is_negative = tir_take_punct(p, "-");
  double value = 0;
  tir_expr_t *e;
  if (p->now.token == TIR_T_INT) {
    e = int_constant(p, is_negative);
  } else if (p->now.token == TIR_T_FLOAT || tir_at_word(p, "inf") ||
             tir_at_word(p, "nan")) {
    if (!td_parse_f64(p->now.word, &value)) tir_fail(p, "malformed number");
    e = float_constant(p, is_negative ? -value : value);
  } else {
    if (is_negative || !(tir_at_word(p, "true") || tir_at_word(p, "false")))
      tir_fail(p, "expected a constant");
    e = tir_const_i(p->arena, TDSL_DTYPE_BOOL, tir_at_word(p, "true"));
    tir_next(p);
  }
  return at(e, loc);
}

tir_value_t *tir_parse_use(tir_parser_t *p) {
  tir_value_t *v =
      p->now.token == TIR_T_VALUE ? td_map_get(&p->values, p->now.word) : NULL;
  if (v == NULL)
    tir_fail(p, p->now.token == TIR_T_VALUE ? "%%%.*s is not defined here"
                                        : "expected a value, got `%.*s`",
             TD_STR_ARG(p->now.word));
  tir_next(p);
  return v;
}

/* The expression itself: sharing in the text is sharing in the DAG. */
static tir_expr_t *let_use(tir_parser_t *p) {
  int64_t number = -1;
  tir_expr_t *e = NULL;
  if (td_parse_i64(p->now.word, &number) && number >= 0 &&
      (uint64_t)number < p->lets.length)
    e = p->lets.data[number];
  if (e == NULL) {
    tir_fail(p, "$%.*s is not defined here", TD_STR_ARG(p->now.word));
    return tir_const_i(p->arena, TDSL_DTYPE_I64, 0);
  }
  tir_next(p);
  return e;
}

/* An index of the node or a dim of the function. */
static tir_expr_t *name_use(tir_parser_t *p, td_str_t name, td_loc_t loc) {
  for (size_t i = 0; i < p->indices.length; i++)
    if (td_str_eqc(name, p->indices.data[i]->name))
      return at(tir_index_ref(p->arena, p->indices.data[i]), loc);
  ix_symbol_t *dim = td_map_get(&p->dims, name);
  if (dim == NULL) {
    p->now.loc = loc;
    tir_fail(p, "`%.*s` is no index or dim here", TD_STR_ARG(name));
    return tir_const_i(p->arena, TDSL_DTYPE_I64, 0);
  }
  return at(tir_dim(p->arena, ix_sym(p->module->pool, dim)), loc);
}

/* ---- calls --------------------------------------------------------------- */

/* An open call or load. */
typedef struct call {
  tir_x_t op;
  tdsl_dtype_t to;    /* CAST */
  tir_value_t *value; /* LOAD */
  td_loc_t loc;
  size_t first; /* of its operands on the operand stack */
} call_t;

typedef struct expr_state {
  TD_VEC(call_t) calls;
  TD_VEC(tir_expr_t *) operands;
} expr_state_t;

static tir_x_t find_op(tir_parser_t *p, td_str_t name, td_loc_t loc,
                       tdsl_dtype_t *to) {
  const size_t prefix = strlen("cast.");
  if (td_str_starts(name, "cast.")) {
    *to = td_dtype_parse(
        td_str_n(name.data + prefix, name.length - prefix));
    if (*to != TDSL_DTYPE_UNSET) return TIR_X_CAST;
  }
  for (tir_x_t op = TIR_X_NEG; op < TIR_X_COUNT; op++) /* ORDER TIR */
    if (op != TIR_X_CAST && td_str_eqc(name, tir_x_text(op))) return op;
  p->now.loc = loc;
  tir_fail(p, "`%.*s` is no operation", TD_STR_ARG(name));
  return TIR_X_COUNT;
}
_Static_assert(TIR_X_NEG == TIR_X_LOAD + 1, "ORDER TIR: leaves come first");

/* Ill-typed operands may give a wrong type here; the verifier, which runs on
 * every text, looks at each operation by itself. */
static tdsl_dtype_t type_of(const call_t *call, uint32_t count,
                            tir_expr_t *const *args) {
  switch (call->op) {
  case TIR_X_NOT: case TIR_X_AND: case TIR_X_OR: case TIR_X_EQ:
  case TIR_X_NE: case TIR_X_LT: case TIR_X_LE: case TIR_X_GT:
  case TIR_X_GE: return TDSL_DTYPE_BOOL;
  case TIR_X_UNIFORM: return TDSL_DTYPE_F32;
  case TIR_X_SELECT: return args[1]->type;
  default: return count > 0 ? args[0]->type : TDSL_DTYPE_I64;
  }
}

/* All operands are there: replaces them by the call. */
static void close_call(tir_parser_t *p, expr_state_t *s) {
  call_t call = td_vec_pop(&s->calls);
  uint32_t count = (uint32_t)(s->operands.length - call.first);
  tir_expr_t *const *args = s->operands.data + call.first;
  int arity = call.op == TIR_X_LOAD ? (int)call.value->rank
                                    : tir_x_arity(call.op);
  tir_expr_t *e;
  if (arity >= 0 && count != (uint32_t)arity) {
    tir_fail(p, "%u operands of %s, which takes %d", count,
             tir_x_text(call.op), arity);
    e = tir_const_i(p->arena, TDSL_DTYPE_I64, 0);
  } else if (call.op == TIR_X_LOAD) {
    e = tir_load(p->arena, call.value, count, args);
  } else if (call.op == TIR_X_CAST) {
    e = tir_cast(p->arena, call.to, args[0]);
  } else {
    e = tir_op(p->arena, call.op, type_of(&call, count, args), count, args);
  }
  e->loc = call.loc;
  s->operands.length = call.first;
  td_vec_push(&p->scratch, &s->operands, e);
}

static void open_call(tir_parser_t *p, expr_state_t *s, call_t call) {
  call.first = s->operands.length;
  td_vec_push(&p->scratch, &s->calls, call);
}

/* Reads a leaf or the head of a call. True: a call was opened. */
static bool operand(tir_parser_t *p, expr_state_t *s) {
  td_loc_t loc = p->now.loc;
  tir_expr_t *e;
  if (p->now.token == TIR_T_VALUE) {
    tir_value_t *v = tir_parse_use(p);
    if (v == NULL) return false;
    if (v->rank > 0) {
      tir_expect_punct(p, "[");
      open_call(p, s, (call_t){.op = TIR_X_LOAD, .value = v, .loc = loc});
      return true;
    }
    e = at(tir_load(p->arena, v, 0, NULL), loc);
  } else if (p->now.token == TIR_T_LET) {
    e = let_use(p);
  } else if (p->now.token == TIR_T_WORD && !tir_is_reserved(p->now.word)) {
    td_str_t name = p->now.word;
    tir_next(p);
    if (!tir_take_punct(p, "(")) {
      e = name_use(p, name, loc);
    } else if (td_str_eqc(name, "dim")) {
      e = at(tir_dim(p->arena, tir_parse_poly(p)), loc);
      tir_expect_punct(p, ")");
    } else {
      call_t call = {.loc = loc};
      call.op = find_op(p, name, loc, &call.to);
      if (call.op != TIR_X_COUNT) open_call(p, s, call);
      return true;
    }
  } else {
    e = tir_parse_constant(p);
  }
  td_vec_push(&p->scratch, &s->operands, e);
  return false;
}

tir_expr_t *tir_parse_expr(tir_parser_t *p) {
  expr_state_t s = {0};
  do {
    if (operand(p, &s)) continue;
    /* A whole operand: close the calls that it ends. */
    while (s.calls.length > 0 && !p->failed && !tir_take_punct(p, ",")) {
      bool is_load = td_vec_last(&s.calls).op == TIR_X_LOAD;
      tir_expect_punct(p, is_load ? "]" : ")");
      if (!p->failed) close_call(p, &s);
      if (s.calls.length == 0) break;
    }
  } while (s.calls.length > 0 && !p->failed);
  if (p->failed || s.operands.length == 0)
    return tir_const_i(p->arena, TDSL_DTYPE_I64, 0);
  return s.operands.data[0];
}
