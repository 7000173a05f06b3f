/* cuda_expr.c: scalar expressions as C text.
 *
 * What is used once stands where it is used; what a statement uses more than
 * once, and what would grow long, becomes a constant tN in front of it.
 * select, and, or choose lazily as ?:, && and ||; if an arm needs constants
 * of its own, they stand in the branch of an `if`.
 *
 * Expressions are DAGs of any depth: operands are evaluated from an explicit
 * stack, and only choices and loads inside each other recurse. */
#include "codegen/cuda/cuda_impl.h"

#define F(...) td_arena_printf(g->arena, __VA_ARGS__)

enum {
  LONG_TEXT = 120,      /* columns of an expression that get a name */
  MAX_DEPTH = 255,
};

/* ---- memo ---------------------------------------------------------------- */

size_t cgc_memo_mark(const cgc_t *g) {
  return g->memo_log.length;
}

void cgc_memo_release(cgc_t *g, size_t mark) {
  while (g->memo_log.length > mark) {
    td_map_put_u64(g->memo, td_vec_pop(&g->memo_log), NULL);
  }
}

static void remember(cgc_t *g, const kir_expr_t *e, const char *text) {
  td_map_put_u64(g->memo, cgc_key(e), (void *)(uintptr_t)text);
  td_vec_push(g->arena, &g->memo_log, cgc_key(e));
}

static const char *find(const cgc_t *g, const kir_expr_t *e) {
  return td_map_get_u64(g->memo, cgc_key(e));
}

static void count_args(void *user, const kir_expr_t *e) {
  cgc_t *g = user;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    uint64_t key = cgc_key(e->args[i]);
    uintptr_t n = (uintptr_t)td_map_get_u64(g->counts, key);
    td_map_put_u64(g->counts, key, (void *)(n + 1));
  }
}

void cgc_begin(cgc_t *g, const kir_expr_t *const *roots, uint32_t count) {
  kir_walker_t walker;
  cgc_memo_release(g, 0);
  td_map_init(g->counts, g->arena);
  kir_walker_init(&walker, g->arena);
  for (uint32_t i = 0; i < count; i++) {
    if (roots[i] == NULL) continue;
    uintptr_t n = (uintptr_t)td_map_get_u64(g->counts, cgc_key(roots[i]));
    td_map_put_u64(g->counts, cgc_key(roots[i]), (void *)(n + 1));
    kir_walk_into(&walker, roots[i], count_args, g);
  }
}

static bool is_shared(const cgc_t *g, const kir_expr_t *e) {
  return (uintptr_t)td_map_get_u64(g->counts, cgc_key(e)) > 1;
}

/* ---- text ---------------------------------------------------------------- */

/* True if the first parenthesis closes at the end. */
static bool is_wrapped(const char *s, size_t n) {
  uint32_t depth = 0;
  if (n < 2 || s[0] != '(' || s[n - 1] != ')') return false;
  for (size_t i = 0; i + 1 < n; i++) {
    depth += s[i] == '(';
    depth -= s[i] == ')';
    if (depth == 0) return false;
  }
  return true;
}

const char *cgc_bare(cgc_t *g, const char *text) {
  size_t n = strlen(text);
  if (!is_wrapped(text, n)) return text;
  return td_arena_strndup(g->arena, text + 1, n - 2);
}

static const char *name_it(cgc_t *g, const kir_expr_t *e, const char *text) {
  uint32_t n = g->temps++;
  cg_line(&g->text, "const %s t%u = %s;", cgc_type_of(g, e), n,
          cgc_bare(g, text));
  return F("t%u", n);
}

/* ---- operations ---------------------------------------------------------- */

static const char *operator_of(kir_x_t op) {
  switch ((int)op) {
    case KIR_X_ADD: return "+";
    case KIR_X_SUB: return "-";
    case KIR_X_MUL: return "*";
    case KIR_X_DIV: return "/";
    case KIR_X_EQ: return "==";
    case KIR_X_NE: return "!=";
    case KIR_X_LT: return "<";
    case KIR_X_LE: return "<=";
    case KIR_X_GT: return ">";
    case KIR_X_GE: return ">=";
    default: return NULL;
  }
}

static const char *binary_text(cgc_t *g, const char *op, const char *a,
                               const char *b) {
  return F("(%s %s %s)", a, op, b);
}

static const char *power(cgc_t *g, const kir_expr_t *e, const char *a,
                         const char *b) {
  bool is_whole = e->args[1]->type == TDSL_DTYPE_I64;
  if (e->type == TDSL_DTYPE_F64 && is_whole) {
    return F("pow(%s, (double)%s)", cgc_bare(g, a), b);
  }
  cgc_helper_t h = e->type == TDSL_DTYPE_I64   ? CGC_IPOW
                   : e->type == TDSL_DTYPE_F64 ? CGC_POW_F64
                   : is_whole                  ? CGC_POWI_F32
                                               : CGC_POW_F32;
  return F("%s(%s, %s)", cgc_call(g, h), cgc_bare(g, a), cgc_bare(g, b));
}

static const char *int_binary(cgc_t *g, const kir_expr_t *e, const char *a,
                              const char *b) {
  const cgc_trait_t *t = cgc_trait(g, e);
  const cgc_trait_t *ta = cgc_trait(g, e->args[0]);
  const cgc_trait_t *tb = cgc_trait(g, e->args[1]);
  cgc_helper_t h = CGC_ADD;
  switch ((int)e->op) {
    case KIR_X_ADD: h = CGC_ADD; break;
    case KIR_X_SUB: h = CGC_SUB; break;
    case KIR_X_MUL: h = CGC_MUL; break;
    case KIR_X_MIN: case KIR_X_MAX:
      return cgc_extreme(g, e->op == KIR_X_MIN, TDSL_DTYPE_I64, a, b);
    case KIR_X_DIV: case KIR_X_MOD: {
      bool is_plain = ta->is_positive && tb->is_const && tb->value > 0;
      return cgc_floor(g, e->op == KIR_X_MOD, a, b, is_plain, tb->is_const,
                       tb->value);
    }
    default: return binary_text(g, operator_of(e->op), a, b);
  }
  if (e->op != KIR_X_MUL && tb->is_const && tb->value == 0) return a;
  if (!t->is_wild) {
    /* what no longer fits an int is computed in a long long */
    bool is_grown = !cgc_is_int(g, e) && cgc_is_int(g, e->args[0]) &&
                    cgc_is_int(g, e->args[1]);
    return binary_text(g, operator_of(e->op),
                       is_grown ? F("(long long)%s", a) : a, b);
  }
  return F("%s(%s, %s)", cgc_call(g, h), cgc_bare(g, a), cgc_bare(g, b));
}

static const char *binary(cgc_t *g, const kir_expr_t *e) {
  const char *a = cgc_expr(g, e->args[0]), *b = cgc_expr(g, e->args[1]);
  if (e->op == KIR_X_POW) return power(g, e, a, b);
  tdsl_dtype_t t = e->args[0]->type;
  if (t == TDSL_DTYPE_I64) return int_binary(g, e, a, b);
  if (e->op == KIR_X_MIN || e->op == KIR_X_MAX) {
    return cgc_extreme(g, e->op == KIR_X_MIN, t, a, b);
  }
  const char *op = operator_of(e->op);
  TD_CHECK(g->task, op != NULL, "operation %d on dtype %d", (int)e->op,
           (int)t);
  return binary_text(g, op, a, b);
}

static const char *unary(cgc_t *g, const kir_expr_t *e) {
  const char *a = cgc_expr(g, e->args[0]);
  if (e->op == KIR_X_NOT) return F("(!%s)", a);
  if (e->type == TDSL_DTYPE_I64) {
    bool is_neg = e->op == KIR_X_NEG;
    TD_CHECK(g->task, is_neg || e->op == KIR_X_ABS, "integer operation %d",
             (int)e->op);
    return F("%s(%s)", cgc_call(g, is_neg ? CGC_NEG : CGC_ABS),
             cgc_bare(g, a));
  }
  if (e->op == KIR_X_NEG) return F("(-%s)", a);
  return cgc_math(g, e->op, e->type, a);
}

static const char *uniform(cgc_t *g, const kir_expr_t *e) {
  const char *a[5] = {"0", "0", "0", "0", "0"};
  uint32_t n = e->arg_count; /* seed, then up to four counters */
  TD_CHECK(g->task, n >= 2 && n <= 5, "uniform with %u counters", n - 1);
  a[0] = cgc_expr(g, e->args[0]);
  for (uint32_t i = 1; i < n; i++) a[i] = cgc_expr(g, e->args[n - i]);
  return F("%s(%s, %s, %s, %s, %s)", cgc_call(g, CGC_UNIFORM),
           cgc_bare(g, a[0]), cgc_bare(g, a[1]), cgc_bare(g, a[2]),
           cgc_bare(g, a[3]), cgc_bare(g, a[4]));
}

/* ---- choices ------------------------------------------------------------- */

static bool may_fault(cgc_t *g, const kir_expr_t *e) {
  return cgc_trait(g, e)->may_fault;
}

static bool is_lazy(cgc_t *g, const kir_expr_t *e) {
  if (e->op != KIR_X_SELECT && e->op != KIR_X_AND && e->op != KIR_X_OR) {
    return false;
  }
  for (uint32_t i = 1; i < e->arg_count; i++) {
    if (may_fault(g, e->args[i])) return true;
  }
  return false;
}

/* Operands that are evaluated before e itself, whatever it chooses; loads
 * have their own way with subscripts. */
static uint32_t strict_count(cgc_t *g, const kir_expr_t *e) {
  if (e->op == KIR_X_LOAD || e->op == KIR_X_FOLD) return 0;
  return is_lazy(g, e) ? 1 : e->arg_count;
}

/* What both arms need whatever they choose is evaluated before the choice,
 * or chains of choices would double it at every link. */
static void eval_common(cgc_t *g, const kir_expr_t *a, const kir_expr_t *b) {
  const kir_expr_t *roots[2] = {a, b};
  td_map_t seen[2];
  TD_VEC(const kir_expr_t *) stack = {0};
  for (int arm = 0; arm < 2; arm++) {
    td_map_init(&seen[arm], g->arena);
    td_vec_push(g->arena, &stack, roots[arm]);
    while (stack.length > 0) {
      const kir_expr_t *e = td_vec_pop(&stack);
      uint64_t key = cgc_key(e);
      if (e->arg_count == 0) continue;
      if (arm == 1 && td_map_get_u64(&seen[0], key) != NULL) {
        (void)cgc_expr(g, e);
        continue;
      }
      if (td_map_get_u64(&seen[arm], key) != NULL) continue;
      td_map_put_u64(&seen[arm], key, g);
      for (uint32_t i = 0; i < strict_count(g, e); i++) {
        td_vec_push(g->arena, &stack, e->args[i]);
      }
    }
  }
}

/* Lines of an arm go into *lines. */
static const char *arm_text(cgc_t *g, const kir_expr_t *e,
                            const char *otherwise, td_buf_t *lines) {
  if (e == NULL) return otherwise;
  td_buf_t *before = g->text.out;
  size_t mark = cgc_memo_mark(g);
  g->text.out = lines;
  g->text.indent++;
  const char *text = cgc_expr(g, e);
  g->text.indent--;
  g->text.out = before;
  cgc_memo_release(g, mark);
  return text;
}

static void put_arm(cgc_t *g, const td_buf_t *lines, uint32_t temp,
                    const char *text) {
  td_buf_put(g->text.out, lines->data, lines->length);
  g->text.indent++;
  cg_line(&g->text, "t%u = %s;", temp, cgc_bare(g, text));
  g->text.indent--;
}

/* `no` NULL stands for false, `yes` NULL for true. */
static const char *choose(cgc_t *g, const kir_expr_t *cond,
                          const kir_expr_t *yes, const kir_expr_t *no,
                          const char *type) {
  const char *c = cgc_expr(g, cond);
  bool guard = (yes != NULL && may_fault(g, yes)) ||
               (no != NULL && may_fault(g, no));
  if (guard && yes != NULL && no != NULL) eval_common(g, yes, no);
  td_buf_t lines[2];
  td_buf_init(&lines[0], g->task);
  td_buf_init(&lines[1], g->task);
  const char *a = arm_text(g, yes, "true", &lines[0]);
  const char *b = arm_text(g, no, "false", &lines[1]);
  const char *result;
  if (lines[0].length == 0 && lines[1].length == 0) {
    result = no == NULL    ? F("(%s && %s)", c, a)
             : yes == NULL ? F("(%s || %s)", c, b)
                           : F("(%s ? %s : %s)", c, a, b);
  } else {
    uint32_t n = g->temps++;
    cg_line(&g->text, "%s t%u;", type, n);
    cg_line(&g->text, "if (%s) {", cgc_bare(g, c));
    put_arm(g, &lines[0], n, a);
    cg_line(&g->text, "} else {");
    put_arm(g, &lines[1], n, b);
    cg_line(&g->text, "}");
    result = F("t%u", n);
  }
  td_buf_free(&lines[0]);
  td_buf_free(&lines[1]);
  return result;
}

/* ---- all of it ----------------------------------------------------------- */

static const char *variable(cgc_t *g, const kir_var_t *var) {
  if (var == g->lane_var) {
    return g->part == 0 ? "lane" : F("(lane + %u)", g->part * g->width);
  }
  const char *name = g->var_names[var->id];
  TD_CHECK(g->task, name != NULL, "variable %s is used before it is set",
           var->name);
  bool by_part = g->is_split && g->lane_lets[var->id];
  return by_part ? F("%s_%u", name, g->part) : name;
}

static const char *emit(cgc_t *g, const kir_expr_t *e) {
  const cgc_trait_t *t = cgc_trait(g, e);
  if (t->is_const && e->type == TDSL_DTYPE_I64) return cgc_int(g, t->value);
  switch (e->op) {
    case KIR_X_CONST:
      if (e->type == TDSL_DTYPE_BOOL) return e->u.i64 != 0 ? "true" : "false";
      return e->type == TDSL_DTYPE_I64 ? cgc_int(g, e->u.i64)
                                       : cgc_float(g, e->type, e->u.f64);
    case KIR_X_VAR: return variable(g, e->u.var);
    case KIR_X_DIM: {
      const char *text = cgc_poly(g, e->u.dim);
      bool is_short = !cgc_is_int(g, e) && cgc_is_int_poly(e->u.dim);
      return is_short ? F("((long long)%s)", text) : text;
    }
    case KIR_X_LOAD: return cgc_load(g, e);
    case KIR_X_FOLD: return cgc_fold(g, e);
    case KIR_X_SELECT:
      return choose(g, e->args[0], e->args[1], e->args[2],
                    cgc_type_of(g, e));
    case KIR_X_AND: return choose(g, e->args[0], e->args[1], NULL, "bool");
    case KIR_X_OR: return choose(g, e->args[0], NULL, e->args[1], "bool");
    case KIR_X_CAST:
      return cgc_cast(g, e->u.to, cgc_expr(g, e->args[0]), e->args[0]->type);
    case KIR_X_ROUND_TF32:
      return F("%s(%s)", cgc_call(g, CGC_ROUND_TF32),
               cgc_bare(g, cgc_expr(g, e->args[0])));
    case KIR_X_NEG: case KIR_X_NOT: case KIR_X_ABS: case KIR_X_FLOOR:
    case KIR_X_CEIL: case KIR_X_ROUND: case KIR_X_EXP: case KIR_X_EXP2:
    case KIR_X_LOG: case KIR_X_LOG2: case KIR_X_SQRT: case KIR_X_RSQRT:
    case KIR_X_SIN: case KIR_X_COS: case KIR_X_TANH: case KIR_X_ERF:
      return unary(g, e);
    case KIR_X_ADD: case KIR_X_SUB: case KIR_X_MUL: case KIR_X_DIV:
    case KIR_X_MOD: case KIR_X_POW: case KIR_X_MIN: case KIR_X_MAX:
    case KIR_X_EQ: case KIR_X_NE: case KIR_X_LT: case KIR_X_LE:
    case KIR_X_GT: case KIR_X_GE:
      return binary(g, e);
    case KIR_X_FMA: {
      const char *a = cgc_bare(g, cgc_expr(g, e->args[0]));
      const char *b = cgc_bare(g, cgc_expr(g, e->args[1]));
      const char *c = cgc_bare(g, cgc_expr(g, e->args[2]));
      return F("%s(%s, %s, %s)", e->type == TDSL_DTYPE_F64 ? "fma" : "fmaf",
               a, b, c);
    }
    case KIR_X_UNIFORM: return uniform(g, e);
    case KIR_X_COUNT: break;
  }
  TD_ICE(g->task, "kernel operation %d", (int)e->op);
}

static bool is_leaf(const kir_expr_t *e) {
  return e->op == KIR_X_CONST || e->op == KIR_X_VAR || e->op == KIR_X_DIM;
}

static const char *finish(cgc_t *g, const kir_expr_t *e) {
  if (g->budget-- == 0) {
    cgc_refuse(g, "is too long to be written out: more than %d expressions",
               CGC_MAX_EXPRS);
  }
  const char *text = emit(g, e);
  bool is_name = text[0] == 't' && text[1] >= '0' && text[1] <= '9' &&
                 strpbrk(text, " (") == NULL;
  bool is_number = cgc_trait(g, e)->is_const;
  if (!is_name && !is_number && (is_shared(g, e) || strlen(text) > LONG_TEXT)) {
    text = name_it(g, e, text);
  }
  remember(g, e, text);
  return text;
}

const char *cgc_expr(cgc_t *g, const kir_expr_t *root) {
  typedef struct frame { const kir_expr_t *e; uint32_t next; } frame_t;
  TD_VEC(frame_t) stack = {0};
  if (is_leaf(root)) return emit(g, root);
  const char *v = find(g, root);
  if (v != NULL) return v;
  if (++g->depth > MAX_DEPTH) {
    cgc_refuse(g, "has expressions that nest deeper than %d", MAX_DEPTH);
  }
  td_vec_push(g->arena, &stack, (frame_t){root, 0});
  while (stack.length > 0) {
    frame_t *top = &td_vec_last(&stack);
    const kir_expr_t *e = top->e;
    if (top->next == 0 && (v = find(g, e)) != NULL) {
      (void)td_vec_pop(&stack);
    } else if (top->next < strict_count(g, e)) {
      const kir_expr_t *arg = e->args[top->next++]; /* the push moves top */
      if (!is_leaf(arg)) td_vec_push(g->arena, &stack, (frame_t){arg, 0});
    } else {
      v = finish(g, e);
      (void)td_vec_pop(&stack);
    }
  }
  g->depth--;
  return v;
}

/* ---- folds --------------------------------------------------------------- */

static void hoist(void *user, const kir_expr_t *e) {
  if (e->op == KIR_X_FOLD) (void)cgc_expr(user, e);
}

void cgc_hoist_folds(cgc_t *g, const kir_expr_t *e) {
  if (e == NULL || !cgc_trait(g, e)->has_fold) return;
  kir_walker_t walker;
  kir_walker_init(&walker, g->arena);
  kir_walk_into(&walker, e, hoist, g);
}
