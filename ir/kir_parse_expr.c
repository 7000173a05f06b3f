/* kir_parse_expr.c: expressions of the text form of kernels.
 *
 * Operators, calls and parentheses wait on a stack of their own for what is
 * still to be read, so that depth is bounded by the text alone.  Types are
 * given, not checked: a call has the type of its operands, and kir_verify
 * says whether they fit. */
#include "ir/kir_parse.h"

typedef enum open_kind { OPEN_PAREN, OPEN_CALL, OPEN_LOAD, OPEN_INFIX }
    open_kind_t;

/* Something whose last operand has not been read. */
typedef struct open {
  open_kind_t kind;
  kir_x_t op;
  int level;             /* INFIX */
  tdsl_dtype_t to;       /* CAST */
  kir_buffer_t *buffer;  /* LOAD and FOLD */
  kir_x_t fold;
  bool is_safe;
  td_loc_t loc;
  size_t first;          /* of its operands on the operand stack */
} open_t;

typedef struct state {
  TD_VEC(open_t) opens;
  TD_VEC(kir_expr_t *) operands;
} state_t;

/* What stands for an expression after a failure. */
static kir_expr_t *zero(kir_parser_t *p) {
  return kir_const_i(p->t.arena, TDSL_DTYPE_I64, 0);
}

/* ---- leaves ---------------------------------------------------------------*/

/* `0.5:f64`; without it a float is f32. */
static bool ends_in_f64(kir_parser_t *p) {
  if (!tir_take_punct(&p->t, ":")) return false;
  if (!tir_take_word(&p->t, "f64")) tir_fail(&p->t, "expected `f64`");
  return true;
}

/* f32 digits are rounded to f32 at once: by way of f64 they would be rounded
 * twice. */
static kir_expr_t *float_constant(kir_parser_t *p, bool is_negative) {
  td_str_t text = p->t.now.word;
  tir_next(&p->t);
  if (ends_in_f64(p)) {
    double v = 0;
    if (!td_parse_f64(text, &v)) tir_fail(&p->t, "malformed number");
    return kir_const_f(p->t.arena, TDSL_DTYPE_F64, is_negative ? -v : v);
  }
  float v = 0;
  if (!td_parse_f32(text, &v)) tir_fail(&p->t, "malformed number");
  return kir_const_f(p->t.arena, TDSL_DTYPE_F32,
                     (double)(is_negative ? -v : v));
}

/* The sign belongs to the digits: the smallest integer has no positive. */
static kir_expr_t *int_constant(kir_parser_t *p, bool is_negative) {
  int64_t value = 0;
  const char *text =
      td_arena_printf(&p->t.scratch, "%s%.*s", is_negative ? "-" : "",
                      TD_STR_ARG(p->t.now.word));
  if (!td_parse_i64(td_str(text), &value)) {
    tir_fail(&p->t, "integer does not fit i64");
  }
  tir_next(&p->t);
  return kir_const_i(p->t.arena, TDSL_DTYPE_I64, value);
}

static kir_expr_t *constant(kir_parser_t *p) {
  bool is_negative = tir_take_punct(&p->t, "-");
  if (p->t.now.token == TIR_T_INT) return int_constant(p, is_negative);
  if (p->t.now.token == TIR_T_FLOAT || tir_at_word(&p->t, "inf") ||
      tir_at_word(&p->t, "nan")) {
    return float_constant(p, is_negative);
  }
  bool is_true = tir_at_word(&p->t, "true");
  if (is_negative || !(is_true || tir_at_word(&p->t, "false"))) {
    tir_fail(&p->t, "expected a value, got `%.*s`",
             TD_STR_ARG(p->t.now.word));
  }
  tir_next(&p->t);
  return kir_const_i(p->t.arena, TDSL_DTYPE_BOOL, is_true);
}

/* Sharing comes back as sharing: the same node, not a copy. */
static kir_expr_t *let_use(kir_parser_t *p) {
  int64_t number = -1;
  if (!td_parse_i64(p->t.now.word, &number) || number < 0 ||
      (uint64_t)number >= p->lets.length) {
    tir_fail(&p->t, "$%.*s is not defined here", TD_STR_ARG(p->t.now.word));
    return zero(p);
  }
  tir_next(&p->t);
  return p->lets.data[number];
}

/* A word alone is a variable or a dim; buffers have brackets. */
static kir_expr_t *name_use(kir_parser_t *p, td_str_t text, td_loc_t loc) {
  const kir_name_t *name = td_map_get(&p->names, text);
  if (name != NULL && name->var != NULL) {
    return kir_var_ref(p->t.arena, name->var);
  }
  ix_symbol_t *dim = td_map_get(&p->t.dims, text);
  if (dim != NULL) {
    return kir_dim(p->t.arena, ix_sym(p->kernel->pool, dim));
  }
  p->t.now.loc = loc;
  tir_fail(&p->t, "`%.*s` is no variable or dim here", TD_STR_ARG(text));
  return zero(p);
}

kir_buffer_t *kir_parse_buffer(kir_parser_t *p) {
  const kir_name_t *name = p->t.now.token == TIR_T_WORD
                               ? td_map_get(&p->names, p->t.now.word)
                               : NULL;
  if (name == NULL || name->buffer == NULL) {
    tir_fail(&p->t, "expected a buffer, got `%.*s`",
             TD_STR_ARG(p->t.now.word));
    return NULL;
  }
  tir_next(&p->t);
  return name->buffer;
}

/* ---- calls and operators --------------------------------------------------*/

/* Operations written between their operands are not calls. */
static kir_x_t find_op(kir_parser_t *p, td_str_t name, td_loc_t loc,
                       tdsl_dtype_t *to) {
  const size_t prefix = strlen("cast.");
  if (td_str_starts(name, "cast.")) {
    *to = td_dtype_parse(td_str_n(name.data + prefix, name.length - prefix));
    if (*to != TDSL_DTYPE_UNSET) return KIR_X_CAST;
  }
  for (kir_x_t op = KIR_X_FOLD + 1; op < KIR_X_COUNT; op++) { /* ORDER KIR */
    int level;
    if (op != KIR_X_CAST && td_str_eqc(name, kir_x_text(op)) &&
        kir_x_infix(op, &level) == NULL) {
      return op;
    }
  }
  p->t.now.loc = loc;
  tir_fail(&p->t, "`%.*s` is no operation", TD_STR_ARG(name));
  return KIR_X_COUNT;
}
_Static_assert(KIR_X_NEG == KIR_X_FOLD + 1, "ORDER KIR: leaves come first");

static tdsl_dtype_t type_of(const open_t *o, uint32_t count,
                            kir_expr_t *const *args) {
  kir_class_t c = kir_x_class(o->op);
  if (c == KIR_CLASS_compare || c == KIR_CLASS_logic || o->op == KIR_X_NOT) {
    return TDSL_DTYPE_BOOL;
  }
  if (o->op == KIR_X_CAST) return kir_arithmetic(o->to);
  if (o->op == KIR_X_UNIFORM) return TDSL_DTYPE_F32;
  if (o->op == KIR_X_SELECT) return args[1]->type;
  return count > 0 ? args[0]->type : TDSL_DTYPE_I64;
}

/* All operands are there: replaces them by the whole. */
static void reduce(kir_parser_t *p, state_t *s) {
  open_t o = td_vec_pop(&s->opens);
  uint32_t count = (uint32_t)(s->operands.length - o.first);
  kir_expr_t *const *args =
      count == 0 ? NULL : s->operands.data + o.first;
  int arity = o.kind == OPEN_INFIX ? 2 : kir_x_arity(o.op);
  kir_expr_t *e;
  if (o.kind == OPEN_PAREN) return;
  if (arity >= 0 && count != (uint32_t)arity) {
    tir_fail(&p->t, "%u operands of %s, which takes %d", count,
             kir_x_text(o.op), arity);
    e = zero(p);
  } else if (o.kind == OPEN_LOAD) {
    e = kir_load(p->t.arena, o.buffer, count, args);
    e->op = o.op;
    e->fold = o.fold;
    e->is_safe = o.is_safe;
  } else {
    e = kir_op(p->t.arena, o.op, type_of(&o, count, args), count, args);
    if (o.op == KIR_X_CAST) e->u.to = o.to;
  }
  e->loc = o.loc;
  s->operands.length = o.first;
  td_vec_push(&p->t.scratch, &s->operands, e);
}

/* An infix operator takes the operand before it as its first. */
static void push_open(kir_parser_t *p, state_t *s, open_t o) {
  o.first = s->operands.length - (o.kind == OPEN_INFIX ? 1 : 0);
  td_vec_push(&p->t.scratch, &s->opens, o);
}

static void push_operand(kir_parser_t *p, state_t *s, kir_expr_t *e,
                         td_loc_t loc) {
  e->loc = e->op == KIR_X_VAR || e->loc.line == 0 ? loc : e->loc;
  td_vec_push(&p->t.scratch, &s->operands, e);
}

/* True if nothing stands between the brackets just opened. */
static bool open_load(kir_parser_t *p, state_t *s, open_t o) {
  o.kind = OPEN_LOAD;
  o.buffer = kir_parse_buffer(p);
  tir_expect_punct(&p->t, "[");
  if (o.buffer == NULL) return false;
  push_open(p, s, o);
  if (!tir_take_punct(&p->t, "]")) return false;
  reduce(p, s);
  return true;
}

/* Reads a leaf, or the beginning of something longer. True: the operand is
 * whole. */
static bool operand(kir_parser_t *p, state_t *s) {
  tir_parser_t *t = &p->t;
  td_loc_t loc = t->now.loc;
  open_t o = {.loc = loc, .op = KIR_X_LOAD};
  if (tir_take_punct(t, "(")) {
    o.kind = OPEN_PAREN;
    push_open(p, s, o);
    return false;
  }
  if (t->now.token == TIR_T_LET) {
    push_operand(p, s, let_use(p), loc);
    return true;
  }
  bool is_word = t->now.token == TIR_T_WORD;
  if (is_word && tir_take_word(t, "safe")) {
    o.is_safe = true;
    return open_load(p, s, o);
  }
  if (is_word && td_str_starts(t->now.word, "fold.")) {
    td_str_t name = td_str_n(t->now.word.data + 5, t->now.word.length - 5);
    o.op = KIR_X_FOLD;
    o.fold = KIR_X_COUNT;
    for (kir_x_t op = 0; op < KIR_X_COUNT; op++) {
      if (td_str_eqc(name, kir_x_text(op))) o.fold = op;
    }
    if (o.fold == KIR_X_COUNT) tir_fail(t, "no such fold");
    tir_next(t);
    return open_load(p, s, o);
  }
  if (!is_word || kir_is_reserved(t->now.word)) {
    bool is_minmax = tir_at_word(t, "min") || tir_at_word(t, "max");
    if (!is_minmax) {
      push_operand(p, s, constant(p), loc);
      return true;
    }
  }
  const kir_name_t *known = td_map_get(&p->names, t->now.word);
  if (known != NULL && known->buffer != NULL) return open_load(p, s, o);
  td_str_t name = t->now.word;
  tir_next(t);
  if (!tir_take_punct(t, "(")) {
    push_operand(p, s, name_use(p, name, loc), loc);
    return true;
  }
  if (td_str_eqc(name, "dim")) {
    push_operand(p, s, kir_dim(t->arena, tir_parse_poly(t)), loc);
    tir_expect_punct(t, ")");
    return true;
  }
  o.kind = OPEN_CALL;
  o.op = find_op(p, name, loc, &o.to);
  if (o.op != KIR_X_COUNT) push_open(p, s, o);
  return false;
}

/* Reduces the operators that bind at least as tightly as `level`. */
static void reduce_infix(kir_parser_t *p, state_t *s, int level) {
  while (s->opens.length > 0 && !p->t.failed) {
    const open_t *top = &td_vec_last(&s->opens);
    if (top->kind != OPEN_INFIX || top->level < level) return;
    reduce(p, s);
  }
}

/* Operators of the same level group to the left. */
static bool take_infix(kir_parser_t *p, state_t *s) {
  open_t o = {.kind = OPEN_INFIX, .loc = p->t.now.loc};
  bool is_word = p->t.now.token == TIR_T_WORD;
  if ((!is_word && p->t.now.token != TIR_T_PUNCT) ||
      !kir_x_find_infix(p->t.now.word, &o.op)) {
    return false;
  }
  (void)kir_x_infix(o.op, &o.level);
  reduce_infix(p, s, o.level);
  tir_next(&p->t);
  push_open(p, s, o);
  return true;
}

/* After a whole operand. True: another one follows. */
static bool go_on(kir_parser_t *p, state_t *s) {
  for (;;) {
    if (p->t.failed) return false;
    if (take_infix(p, s)) return true;
    reduce_infix(p, s, 0);
    if (s->opens.length == 0 || p->t.failed) return false;
    open_kind_t kind = td_vec_last(&s->opens).kind;
    if (kind != OPEN_PAREN && tir_take_punct(&p->t, ",")) return true;
    tir_expect_punct(&p->t, kind == OPEN_LOAD ? "]" : ")");
    if (!p->t.failed) reduce(p, s);
  }
}

kir_expr_t *kir_parse_expr(kir_parser_t *p) {
  state_t s = {0};
  do {
    while (!p->t.failed && !operand(p, &s)) {
    }
  } while (go_on(p, &s));
  if (p->t.failed || s.operands.length == 0) return zero(p);
  return s.operands.data[0];
}

/* Of a store; those of loads are read as operands. */
uint32_t kir_parse_subs(kir_parser_t *p, kir_expr_t ***out) {
  TD_VEC(kir_expr_t *) subs = {0};
  tir_expect_punct(&p->t, "[");
  if (!tir_at_punct(&p->t, "]")) {
    do {
      kir_expr_t *e = kir_parse_expr(p);
      td_vec_push(p->t.arena, &subs, e);
    } while (!p->t.failed && tir_take_punct(&p->t, ","));
  }
  tir_expect_punct(&p->t, "]");
  *out = subs.data;
  return (uint32_t)subs.length;
}
