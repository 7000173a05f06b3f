/* The algebra of cascades: normal forms as text, against bodies evaluated in
 * f64, translations of gauges, and what has no split. x, y, v vary along the
 * axis; m, l, mu hold earlier results; k, t are row constants. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>

#include "passes/tensor/cascade_norm.h"

typedef struct lab {
  td_task_t *task;
  cascade_norm_t norm;
  tir_expr_t *body;
} lab_t;

static uint8_t classify(void *user, const tir_expr_t *leaf) {
  (void)user;
  if (leaf->op == TIR_X_INDEX) return CASCADE_U;
  if (leaf->op == TIR_X_DIM) return CASCADE_K;
  const char *name = leaf->u.value->name;
  return strcmp(name, "m") == 0 || strcmp(name, "l") == 0 ||
                 strcmp(name, "mu") == 0
             ? CASCADE_X
             : CASCADE_K;
}

static lab_t open_lab(td_task_t *task, const char *body) {
  lab_t lab = {.task = task};
  const char *text = td_arena_printf(
      &task->arena,
      "func @f(in x: f32[N], in y: f32[N], in v: f32[N], in m: f32,\n"
      "    in l: f32, in mu: f32, in k: f32, in t: f32, out r: f32)\n"
      "  dims(N in 0..100) {\n"
      "  %%r: f32 = reduce.sum [; i in N] %s\n  return r = %%r\n}\n",
      body);
  tir_module_t *m = tir_parse(
      task, &task->arena,
      td_sources_add(task, "<body>", text, strlen(text)));
  if (m == NULL) print_error("%s: %s\n", body, unit_first_id(task));
  assert_non_null(m);
  lab.body = m->funcs[0]->nodes.data[0]->body;
  cascade_norm_init(&lab.norm, task, &task->arena, classify, NULL);
  return lab;
}

static const char *text_of(lab_t *lab, const cascade_sum_t *sum) {
  td_buf_t b;
  td_buf_init(&b, lab->task);
  cascade_print(&b, sum);
  return td_buf_finish(&b, &lab->task->arena);
}

/* ---- normal forms -------------------------------------------------------- */

TASK_TEST(test_forms) {
  static const char *const cases[][2] = {
      {"exp(sub(%x[i], %m))", "exp(x[i])*exp(m)^-1"},
      {"div(exp(sub(%x[i], %m)), %l)", "exp(x[i])*exp(m)^-1*l^-1"},
      {"mul(div(exp(sub(%x[i], %m)), %l), %v[i])",
       "exp(x[i])*exp(m)^-1*l^-1*v[i]"},
      {"exp(mul(sub(%x[i], %m), 2.0))", "exp(x[i])^2*exp(m)^-2"},
      {"exp(mul(sub(%x[i], %m), %t))",
       "exp(mul(x[i], t))*exp(m*t)^-1"},
      {"mul(sub(%x[i], %mu), sub(%x[i], %mu))",
       "x[i]^2 - 2*x[i]*mu + mu^2"},
      {"select(eq(%m, -inf), 0.0, exp(sub(%x[i], %m)))",
       "[not(eq(m, -inf))]*exp(x[i])*exp(m)^-1"},
      {"select(lt(i, 3), sub(%x[i], %m), 0.0)",
       "[lt(i, 3)]*x[i] - [lt(i, 3)]*m"},
      {"exp(select(lt(i, 3), sub(%x[i], %m), -inf))",
       "[lt(i, 3)]*exp(x[i])*exp(m)^-1"},
      {"log(exp(sub(%x[i], %l)))", "x[i] - l"},
      {"mul(exp(sub(%x[i], %l)), log(exp(sub(%x[i], %l))))",
       "x[i]*exp(x[i])*exp(l)^-1 - l*exp(x[i])*exp(l)^-1"},
      {"mul(sub(sub(%x[i], %m), sub(%y[i], %l)), exp(%x[i]))",
       "sub(x[i], y[i])*exp(x[i]) + (-m + l)*exp(x[i])"},
      {"exp(add(%x[i], %y[i]))", "exp(add(x[i], y[i]))"},
      {"exp(sub(add(%x[i], %y[i]), %m))", "exp(add(x[i], y[i]))*exp(m)^-1"},
      {"sub(%x[i], %x[i])", "sub(x[i], x[i])"},
      {"sub(mul(%m, %x[i]), mul(%x[i], %m))", "0"},
      {"div(%x[i], %m)", "x[i]*m^-1"},
      {"div(sub(%x[i], %m), sub(%l, %m))",
       "x[i]*sub(l, m)^-1 - m*sub(l, m)^-1"},
      {"exp2(sub(%x[i], %m))", NULL},
  };
  (void)arg;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lab_t lab = open_lab(task, cases[i][0]);
    const cascade_sum_t *s = cascade_normalize(&lab.norm, lab.body, false);
    if (s == NULL) print_error("%s was refused\n", cases[i][0]);
    assert_non_null(s);
    if (cases[i][1] != NULL) {
      const char *text = text_of(&lab, s);
      if (strcmp(text, cases[i][1]) != 0) {
        print_error("%s\n  gave   %s\n  wanted %s\n", cases[i][0], text,
                    cases[i][1]);
      }
      assert_string_equal(text, cases[i][1]);
    }
  }
}

TASK_TEST(test_refusals) {
  static const struct {
    const char *body;
    cascade_reason_t reason;
    tir_x_t at;
  } cases[] = {
      {"tanh(sub(%x[i], %m))", CASCADE_FUNCTION, TIR_X_TANH},
      {"max(sub(%x[i], %mu), sub(%mu, %x[i]))", CASCADE_FUNCTION, TIR_X_MAX},
      {"min(%x[i], mul(3.0, %l))", CASCADE_FUNCTION, TIR_X_MIN},
      {"div(%x[i], add(1.0, exp(sub(%mu, %x[i]))))", CASCADE_FUNCTION,
       TIR_X_DIV},
      {"log(add(exp(sub(%x[i], %l)), 1e-6))", CASCADE_FUNCTION, TIR_X_LOG},
      {"exp(div(sub(%x[i], %m), %l))", CASCADE_EXPONENT, TIR_X_EXP},
      {"exp(exp(sub(%x[i], %l)))", CASCADE_EXPONENT, TIR_X_EXP},
      {"cast.f32(cast.i32(div(mul(127.0, %x[i]), %m)))", CASCADE_ROUNDING,
       TIR_X_CAST},
      {"floor(mul(%x[i], %m))", CASCADE_ROUNDING, TIR_X_FLOOR},
      {"select(gt(%x[i], %mu), 1.0, 0.0)", CASCADE_PREDICATE, TIR_X_GT},
      {"cast.f8e4m3(exp(sub(%x[i], %m)))", CASCADE_CLASS, TIR_X_CAST},
      {"abs(sub(%x[i], %mu))", CASCADE_FUNCTION, TIR_X_ABS},
      {"sqrt(mul(%x[i], %m))", CASCADE_FUNCTION, TIR_X_SQRT},
  };
  (void)arg;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lab_t lab = open_lab(task, cases[i].body);
    const cascade_sum_t *s = cascade_normalize(&lab.norm, lab.body, false);
    if (s != NULL) print_error("%s: %s\n", cases[i].body, text_of(&lab, s));
    assert_null(s);
    assert_string_equal(cascade_reason_text(lab.norm.reason),
                        cascade_reason_text(cases[i].reason));
    assert_int_equal(lab.norm.at->op, cases[i].at);
  }
}

/* ---- against evaluation -------------------------------------------------- */

typedef struct point {
  double x, y, v, m, l, mu, k, t, i;
} point_t;

static double leaf_value(const point_t *p, const char *name) {
  switch (name[0]) {
    case 'x': return p->x;
    case 'y': return p->y;
    case 'v': return p->v;
    case 'l': return p->l;
    case 'k': return p->k;
    case 't': return p->t;
    default: return name[1] == 'u' ? p->mu : p->m;
  }
}

static double eval(const tir_expr_t *e, const point_t *p) {
  double a[3] = {0, 0, 0};
  if (e->op == TIR_X_LOAD) return leaf_value(p, e->u.value->name);
  if (e->op == TIR_X_INDEX) return p->i;
  if (e->op == TIR_X_CONST) {
    return e->type == TDSL_DTYPE_F32 ? e->u.f64 : (double)e->u.i64;
  }
  for (uint32_t k = 0; k < e->arg_count && k < 3; k++) {
    a[k] = eval(e->args[k], p);
  }
  switch (e->op) {
    case TIR_X_ADD: return a[0] + a[1];
    case TIR_X_SUB: return a[0] - a[1];
    case TIR_X_MUL: return a[0] * a[1];
    case TIR_X_DIV: return a[0] / a[1];
    case TIR_X_NEG: return -a[0];
    case TIR_X_NOT: return a[0] == 0;
    case TIR_X_EXP: return exp(a[0]);
    case TIR_X_EXP2: return exp2(a[0]);
    case TIR_X_LOG: return log(a[0]);
    case TIR_X_SQRT: return sqrt(a[0]);
    case TIR_X_RSQRT: return 1 / sqrt(a[0]);
    case TIR_X_POW: return pow(a[0], a[1]);
    case TIR_X_EQ: return a[0] == a[1];
    case TIR_X_LT: return a[0] < a[1];
    case TIR_X_GT: return a[0] > a[1];
    case TIR_X_AND: return a[0] != 0 && a[1] != 0;
    case TIR_X_SELECT: return a[0] != 0 ? a[1] : a[2];
    default: fail_msg("the evaluator lacks operation %d", (int)e->op);
  }
  return 0;
}

/* Numbers in -2 .. 2 of a fixed sequence. */
static double next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 33) / 2147483648.0 * 4 - 2;
}

static void want_close(double a, double b, const char *body) {
  if (fabs(a - b) > 1e-9 * (1 + fabs(a) + fabs(b))) {
    fail_msg("%s: %.17g is not %.17g", body, a, b);
  }
}

TASK_TEST(test_values) {
  static const char *const bodies[] = {
      "mul(div(exp(sub(%x[i], %m)), exp(%l)), %v[i])",
      "exp(mul(sub(%x[i], %m), %t))",
      "mul(sub(%x[i], %mu), mul(sub(%x[i], %mu), sub(%x[i], %mu)))",
      ("mul(sub(mul(%y[i], %l), %m), sub(sub(%x[i], %mu), mul(%l, "
       "sub(%y[i], %m))))"),
      "mul(exp(sub(%x[i], %l)), mul(sub(%x[i], %mu), sub(%x[i], %mu)))",
      "mul(exp(sub(%x[i], %m)), sub(sub(%x[i], %m), sub(%y[i], %l)))",
      "div(sub(%x[i], %m), sub(%l, add(%m, 5.0)))",
      "exp2(sub(mul(3.0, %x[i]), %m))",
      "exp2(sub(add(%x[i], %y[i]), mul(%m, %l)))",
      "log(div(exp(sub(%x[i], %l)), exp(%k)))",
      "select(lt(i, 3), mul(%m, %x[i]), mul(%l, %y[i]))",
      "select(and(lt(i, 3), lt(%m, %l)), mul(%m, %x[i]), %y[i])",
      "mul(add(mul(mul(sub(%x[i], %mu), %l), %v[i]), %y[i]), %k)",
  };
  uint64_t state = 7;
  (void)arg;
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    lab_t lab = open_lab(task, bodies[i]);
    const cascade_sum_t *s = cascade_normalize(&lab.norm, lab.body, false);
    if (s == NULL) fail_msg("%s was refused", bodies[i]);
    tir_expr_t *built = cascade_to_expr(&lab.norm, s, TDSL_DTYPE_F32);
    for (int k = 0; k < 20; k++) {
      point_t p = {next(&state), next(&state), next(&state), next(&state),
                   next(&state), next(&state), next(&state), next(&state),
                   (double)(k % 6)};
      want_close(eval(lab.body, &p), eval(built, &p), bodies[i]);
    }
    /* what was built is in normal form already */
    const cascade_sum_t *again =
        cascade_normalize(&lab.norm, built, false);
    assert_non_null(again);
  }
}

/* The laws L1 and L3: seen from another gauge, members are what the
 * translation says. The gauge is k, and was t. */
TASK_TEST(test_translation) {
  static const struct {
    const char *body;
    cascade_relation_t relation;
  } cases[] = {
      {"exp(%x[i])", CASCADE_MINUS},
      {"mul(exp(%x[i]), %v[i])", CASCADE_MINUS},
      {"mul(mul(%x[i], %x[i]), exp(%x[i]))", CASCADE_MINUS},
      {"mul(mul(sub(%x[i], %mu), sub(%x[i], %mu)), exp(mul(2.0, %x[i])))",
       CASCADE_MINUS},
      {"mul(%x[i], mul(%x[i], %x[i]))", CASCADE_MINUS},
      {"mul(div(%x[i], %m), div(%x[i], %m))", CASCADE_OVER},
  };
  uint64_t state = 3;
  (void)arg;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lab_t lab = open_lab(
        task, td_arena_printf(&task->arena,
                              "add(%s, mul(0.0, add(mul(%%x[i], %%l), "
                              "add(%%k, %%t))))",
                              cases[i].body));
    cascade_norm_t *n = &lab.norm;
    tir_expr_t *body = lab.body->args[0];
    tir_expr_t *extra = lab.body->args[1]->args[1];
    tir_expr_t *x = extra->args[0]->args[0];
    tir_expr_t *now = extra->args[1]->args[0];
    tir_expr_t *before = extra->args[1]->args[1];
    const cascade_sum_t *raw = cascade_normalize(n, body, false);
    cascade_gauge_t *g =
        cascade_add_gauge(n, cases[i].relation, x, now, before);
    const cascade_sum_t *seen = cascade_normalize(n, body, true);
    assert_non_null(seen);
    const cascade_sum_t *moved = cascade_translate(n, seen);
    assert_non_null(moved);
    tir_expr_t *e[3] = {cascade_to_expr(n, raw, TDSL_DTYPE_F32),
                        cascade_to_expr(n, seen, TDSL_DTYPE_F32),
                        cascade_to_expr(n, moved, TDSL_DTYPE_F32)};
    for (int k = 0; k < 20; k++) {
      point_t p = {next(&state), next(&state), next(&state), next(&state),
                   next(&state), next(&state), next(&state), next(&state),
                   1};
      /* the value does not depend on the gauge */
      want_close(eval(e[0], &p), eval(e[1], &p), cases[i].body);
      /* f seen from `before`, whose distances are shorter by the step */
      point_t old = p;
      old.x = cases[i].relation == CASCADE_MINUS ? p.x + p.t - p.k
                                                 : p.x * p.t / p.k;
      tir_expr_t *value = g->value->expr;
      assert_ptr_equal(value, now);
      want_close(eval(e[2], &p), eval(e[1], &old), cases[i].body);
    }
  }
}

TASK_TEST(test_term_limit) {
  (void)arg;
  const char *body = "sub(%x[i], %mu)";
  for (int i = 0; i < 5; i++) {
    body = td_arena_printf(&task->arena, "mul(%s, add(mul(%s, %%m), %%y[i]))",
                           body, body);
    if (i == 1) break;
  }
  lab_t lab = open_lab(task, body);
  (void)cascade_normalize(&lab.norm, lab.body, false);
  body = td_arena_printf(&task->arena, "mul(%s, mul(%s, %s))", body, body,
                         body);
  lab = open_lab(task, body);
  assert_null(cascade_normalize(&lab.norm, lab.body, false));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forms),       cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_values),      cmocka_unit_test(test_translation),
      cmocka_unit_test(test_term_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
