/* Normal forms, text, values and intervals of dims and subscripts. What a form
 * must be worth is computed from the formula's text by an evaluator of its
 * own. */
#include "tests/unit/ix_script.h"

#include "runtime/base/map.h"

/* ---- values straight from the text -------------------------------------- */

typedef struct direct {
  script_t *t;
  const assignment_t *a;
  bool failed; /* division by something <= 0 */
} direct_t;

static int64_t direct_sum(direct_t *d);

static int64_t direct_factor(direct_t *d) {
  script_t *t = d->t;
  bool is_min;
  int64_t v = 0, w;
  skip_blanks(t);
  if (take(t, "-")) return -direct_factor(d);
  if (take(t, "(")) {
    v = direct_sum(d);
    need(t, ")");
    return v;
  }
  if (isdigit((unsigned char)*t->at)) {
    char *end;
    v = strtoll(t->at, &end, 10);
    t->at = end;
    return v;
  }
  is_min = take(t, "min");
  if (is_min || take(t, "max")) {
    need(t, "(");
    v = direct_sum(d);
    need(t, ",");
    w = direct_sum(d);
    need(t, ")");
    return (v < w) == is_min ? v : w;
  }
  assert_true(value_of((void *)(uintptr_t)d->a, named(t, take_name(t)), &v));
  return v;
}

static int64_t direct_product(direct_t *d) {
  int64_t v = direct_factor(d);
  for (;;) {
    bool is_div = false;
    if (take(d->t, "*")) {
      v *= direct_factor(d);
    } else if ((is_div = take(d->t, "/")) || take(d->t, "%")) {
      int64_t q = direct_factor(d), whole = 0;
      if (q <= 0) {
        d->failed = true;
        continue;
      }
      while (whole * q > v) whole--; /* floor by its definition */
      while ((whole + 1) * q <= v) whole++;
      v = is_div ? whole : v - whole * q;
    } else {
      return v;
    }
  }
}

static int64_t direct_sum(direct_t *d) {
  int64_t v = direct_product(d);
  for (;;) {
    if (take(d->t, "+")) v += direct_product(d);
    else if (take(d->t, "-"))
      v -= direct_product(d);
    else
      return v;
  }
}

static bool direct_value(script_t *t, const assignment_t *a, const char *text,
                         int64_t *out) {
  direct_t d = {t, a, false};
  t->at = text;
  *out = direct_sum(&d);
  return !d.failed;
}

/* ---- normal form --------------------------------------------------------- */

static void test_equal_forms(void **state) {
  static const char *const pairs[][2] = {
      {"N + M", "M + N"},
      {"(N + 1)*(N - 1)", "N*N - 1"},
      {"2*N - N - N", "0"},
      {"(N*M) / M", "N"},
      {"(N*M + M) / M", "N + 1"},
      {"(N*M) % M", "0"},
      {"(6*N + 4) / 2", "3*N + 2"},
      {"(6*N + 5) / 2", "3*N + 2"},
      {"(6*N + 5) % 2", "1"},
      {"(N + 5) / 2", "(N + 1) / 2 + 2"},
      {"(N - 1) / 2", "(N + 1) / 2 - 1"},
      {"(3*N) / 2", "N + N / 2"},
      {"(N + 7) % 4", "(N + 3) % 4"},
      {"-7 / 2", "-4"},
      {"-7 % 2", "1"},
      {"7 / 2", "3"},
      {"(N*M - 1) / M", "N - 1"},
      {"(N + M) / (N + M)", "1"},
      {"(2*N + 2*M) / (N + M)", "2"},
      {"(N + M) % (N + M)", "0"},
      {"i / N", "0"},
      {"i % N", "i"},
      {"(i + N) / N", "1"},
      {"(i + N) % N", "i"},
      {"(i + N*M) % N", "i"},
      {"(N*i + j) / N", "i"},
      {"min(N, N + 1)", "N"},
      {"max(N, N + 1)", "N + 1"},
      {"min(N, M)", "min(M, N)"},
      {"min(N, N)", "N"},
      {"N / 1", "N"},
      {"N % 1", "0"},
      {"(12*N) / (4*M*N) * 0", "0"},
      {"(8*N*M) / (4*M)", "2*N"},
      {"(9*N*M) / (4*M)", "2*N + (N*M) / (4*M)"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    script_t t;
    script_open(&t);
    run(&t, "static N M; index i in 0 .. N; index j in 0 .. N");
    if (formula(&t, pairs[i][0]) != formula(&t, pairs[i][1]))
      fail_msg("%s is %s, %s is %s", pairs[i][0],
               text_of(&t, formula(&t, pairs[i][0])), pairs[i][1],
               text_of(&t, formula(&t, pairs[i][1])));
    script_close(&t);
  }
}

static void test_different_forms(void **state) {
  static const char *const pairs[][2] = {
      {"N", "M"},
      {"N / 2 * 2", "N"},
      {"N / 2", "N / 3"},
      {"N % 2", "N / 2"},
      {"min(N, M)", "max(N, M)"},
      {"i / M", "0"},
      {"i % M", "i"},
      {"N - 1", "N"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    script_t t;
    script_open(&t);
    run(&t, "static N M; index i in 0 .. N");
    if (formula(&t, pairs[i][0]) == formula(&t, pairs[i][1]))
      fail_msg("%s, %s", pairs[i][0], pairs[i][1]);
    script_close(&t);
  }
}

static void test_text(void **state) {
  static const char *const cases[][2] = {
      {"2*N + T/4 - 1", "2*N + T/4 - 1"},
      {"T + N", "N + T"},
      {"N - N", "0"},
      {"3 - i", "3 - i"},
      {"N - 1 - i", "N - i - 1"},
      {"-N - 1", "-N - 1"},
      {"-(T/4)", "-(T/4)"},
      {"N - T/4", "N - T/4"},
      {"2*(T/4)*N", "2*N*(T/4)"},
      {"(T + N)/4 + 9", "(N + T)/4 + 9"},
      {"T % 3 + 1", "T % 3 + 1"},
      {"2*(T % 3)", "2*(T % 3)"},
      {"T/4/3", "(T/4)/3"},
      {"T/N", "T/N"},
      {"T/(N*K)", "T/(K*N)"},
      {"(T*K + 1)/N", "(K*T + 1)/N"},
      {"max(T - 2, 0)", "max(T - 2, 0)"},
      {"-9223372036854775807 - 1", "-9223372036854775808"},
      {"N*N*3", "3*N*N"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    script_t t;
    script_open(&t);
    run(&t, "static N T K; index i in 0 .. 9");
    assert_string_equal(text_of(&t, formula(&t, cases[i][0])), cases[i][1]);
    script_close(&t);
  }
}

/* Names print in the same order whatever was made first. */
static void test_text_ignores_history(void **state) {
  script_t t;
  const char *first;
  (void)state;
  script_open(&t);
  run(&t, "static Z Y X");
  first = text_of(&t, formula(&t, "X*Y + Z/X + min(Y, Z)"));
  script_close(&t);
  script_open(&t);
  run(&t, "static X Y Z");
  formula(&t, "Z*Y");
  formula(&t, "min(Z, Y)");
  formula(&t, "Y*X + Z");
  assert_string_equal(text_of(&t, formula(&t, "X*Y + Z/X + min(Y, Z)")),
                      "X*Y + Z/X + min(Y, Z)");
  script_close(&t);
  (void)first;
}

static void test_overflow(void **state) {
  script_t t;
  const ix_poly_t *most, *least, *n;
  int64_t lo, hi;
  (void)state;
  script_open(&t);
  run(&t, "static N");
  most = ix_const(t.pool, INT64_MAX);
  least = ix_const(t.pool, INT64_MIN);
  n = formula(&t, "N");
  assert_null(ix_add(t.pool, most, ix_const(t.pool, 1)));
  assert_null(ix_neg(t.pool, least));
  assert_null(ix_sub(t.pool, ix_const(t.pool, -2), most));
  assert_null(ix_mul(t.pool, most, ix_const(t.pool, 2)));
  assert_null(ix_mul(t.pool, ix_mul(t.pool, most, n), ix_const(t.pool, 2)));
  assert_non_null(ix_mul(t.pool, most, n));
  assert_null(ix_add(t.pool, NULL, n));
  assert_null(ix_min(t.pool, n, NULL));
  assert_null(ix_div(t.pool, n, ix_const(t.pool, 0), NULL));
  assert_null(ix_div(t.pool, n, ix_const(t.pool, -2), NULL));
  assert_null(ix_mod(t.pool, NULL, n, NULL));
  assert_false(ix_prove_nonnegative(t.pool, NULL, t.facts));
  /* the least number divides by all but what leaves i64 */
  assert_ptr_equal(ix_div(t.pool, least, ix_const(t.pool, 2), NULL),
                   ix_const(t.pool, INT64_MIN / 2));
  assert_ptr_equal(ix_mod(t.pool, least, ix_const(t.pool, 10), NULL),
                   ix_const(t.pool, 2));
  /* an interval that leaves i64 is unknown */
  assert_false(ix_interval(ix_mul(t.pool, most, n), &lo, &hi));
  script_close(&t);
}

static void test_parts(void **state) {
  script_t t;
  const ix_poly_t *c, *rest, *p;
  const ix_symbol_t *n;
  int64_t value;
  (void)state;
  script_open(&t);
  run(&t, "gen N M; index i in 0 .. N");
  n = named(&t, "N");
  assert_ptr_equal(ix_as_symbol(formula(&t, "N")), n);
  assert_null(ix_as_symbol(formula(&t, "2*N")));
  assert_null(ix_as_symbol(formula(&t, "N / 2")));
  assert_true(ix_is_const(formula(&t, "N - N - 4"), &value));
  assert_int_equal(value, -4);
  assert_true(ix_is_const(formula(&t, "0"), &value));
  assert_int_equal(value, 0);
  assert_false(ix_is_const(formula(&t, "N"), &value));
  p = formula(&t, "M + (M + min(N, 3)) / 7");
  assert_true(ix_mentions(p, n));
  assert_false(ix_mentions(p, named(&t, "i")));
  assert_true(ix_mentions_kind(p, IX_SYM_GENERIC));
  assert_false(ix_mentions_kind(p, IX_SYM_INDEX));
  assert_true(
      ix_split_linear(t.pool, formula(&t, "2*N + M*N - M + 1"), n, &c, &rest));
  assert_ptr_equal(c, formula(&t, "M + 2"));
  assert_ptr_equal(rest, formula(&t, "1 - M"));
  assert_true(ix_split_linear(t.pool, formula(&t, "M"), n, &c, &rest));
  assert_ptr_equal(c, formula(&t, "0"));
  assert_false(ix_split_linear(t.pool, formula(&t, "N*N"), n, &c, &rest));
  assert_false(ix_split_linear(t.pool, formula(&t, "N + N/2"), n, &c, &rest));
  assert_false(ix_split_linear(t.pool, formula(&t, "M*(N/2)"), n, &c, &rest));
  script_close(&t);
}

/* ---- facts that replace (8.1) -------------------------------------------- */

static void test_replacement(void **state) {
  script_t t;
  const ix_poly_t *before;
  size_t mark;
  (void)state;
  script_open(&t);
  run(&t, "static H G D K; index h in 0 .. H");
  before = formula(&t, "H + 1");
  mark = ix_facts_mark(t.facts);
  run(&t, "divides H by G; require H * K == D");
  assert_ptr_equal(formula(&t, "H % G"), formula(&t, "0"));
  assert_string_equal(text_of(&t, formula(&t, "H / G")), "H/G");
  assert_string_equal(text_of(&t, ix_apply_facts(t.pool, before, t.facts)),
                      "G*(H/G) + 1");
  assert_ptr_equal(ix_restore_facts(t.pool,
                                    ix_apply_facts(t.pool, before, t.facts),
                                    t.facts),
                   before);
  assert_true(proved(&t, "D == H*K"));
  assert_true(proved(&t, "D % H == 0"));
  assert_true(proved(&t, "D == G * (H/G) * K"));
  assert_true(ix_equal(t.pool, formula(&t, "D"), formula(&t, "K*H"), t.facts));
  /* one such fact of a name */
  run(&t, "divides H by K");
  assert_false(proved(&t, "H % K == 0"));
  ix_facts_release(t.facts, mark);
  assert_ptr_equal(ix_apply_facts(t.pool, before, t.facts), before);
  assert_false(proved(&t, "H % G == 0"));
  assert_false(proved(&t, "D == H*K"));
  script_close(&t);
}

typedef struct one_subst {
  const ix_symbol_t *from;
  const ix_poly_t *to;
} one_subst_t;

static const ix_poly_t *one_subst(void *user, const ix_symbol_t *s) {
  const one_subst_t *one = user;
  return s == one->from ? one->to : NULL;
}

static void test_substitution(void **state) {
  script_t t;
  one_subst_t one;
  (void)state;
  script_open(&t);
  run(&t, "gen N M; static P");
  one = (one_subst_t){named(&t, "N"), formula(&t, "2*P*M")};
  assert_ptr_equal(
      ix_subst(t.pool, formula(&t, "N / 2 + N % 2"), one_subst, &one, NULL),
      formula(&t, "P*M"));
  /* all at once: the N put in is not replaced again */
  one.to = formula(&t, "N + 1");
  assert_ptr_equal(
      ix_subst(t.pool, formula(&t, "N*N + M/N"), one_subst, &one, NULL),
      formula(&t, "(N + 1)*(N + 1) + M/(N + 1)"));
  one.to = formula(&t, "0");
  assert_null(ix_subst(t.pool, formula(&t, "M/N"), one_subst, &one, NULL));
  script_close(&t);
}

/* ---- random formulas ----------------------------------------------------- */

static uint64_t next_random(uint64_t *seed) {
  *seed = td_hash_u64(*seed, 7);
  return *seed >> 8;
}

static const char *make_formula(script_t *t, uint64_t *seed, int depth) {
  static const char *const leaves[] = {"A", "B", "i", "k", "1", "2", "5"};
  static const char *const divisors[] = {"2",     "3",       "A",
                                         "(2*A)", "(i + 1)", "(A*(B + 1))"};
  uint64_t r = next_random(seed) % 12;
  const char *a, *b;
  if (depth == 0 || r == 0) return leaves[next_random(seed) % 7];
  a = make_formula(t, seed, depth - 1);
  b = make_formula(t, seed, depth - 1);
  if (r >= 8 && r < 11)
    return td_arena_printf(&t->arena, "((%s) %s %s)", a, r < 10 ? "/" : "%",
                           divisors[next_random(seed) % 6]);
  if (r == 11)
    return td_arena_printf(&t->arena, "%s(%s, %s)",
                           next_random(seed) % 2 ? "min" : "max", a, b);
  if (r >= 6) return td_arena_printf(&t->arena, "%s*%s", a, b);
  return td_arena_printf(&t->arena, "(%s %s %s)", a, r < 4 ? "+" : "-", b);
}

/* A form has the value of its text at every small assignment within the
 * ranges, lies in its interval, and is printed as a formula of itself; with
 * another symbol put in it has the value of the changed assignment. */
static void test_values(void **state) {
  uint64_t seed = 4711;
  size_t count = 0;
  (void)state;
  for (int round = 0; round < 1500; round++) {
    const char *text;
    const ix_poly_t *p, *moved;
    assignment_t a;
    script_t t;
    one_subst_t one;
    int64_t lo = 0, hi = 0, *v = a.values;
    bool has_interval;
    script_open(&t);
    run(&t, "static A; dyn B 3; index i in 0 .. A; data k in 0-2 .. B + 1");
    text = make_formula(&t, &seed, 4);
    p = formula(&t, text);
    if (!p) {
      script_close(&t);
      continue;
    }
    count++;
    a.t = &t;
    assert_ptr_equal(formula(&t, text_of(&t, p)), p);
    has_interval = ix_interval(p, &lo, &hi);
    one = (one_subst_t){named(&t, "k"), formula(&t, "B - 2 - k")};
    moved = ix_subst(t.pool, p, one_subst, &one, NULL);
    for (v[0] = 1; v[0] <= 4; v[0]++)
      for (v[1] = 0; v[1] <= 3; v[1]++)
        for (v[2] = 0; v[2] < v[0]; v[2]++)
          for (v[3] = -2; v[3] < v[1] + 1; v[3]++) {
            int64_t want, got;
            assignment_t b = a;
            if (!direct_value(&t, &a, text, &want)) continue;
            assert_true(ix_eval(p, value_of, &a, &got));
            if (got != want)
              fail_msg("%s is %lld, its form %s is %lld", text, (long long)want,
                       text_of(&t, p), (long long)got);
            if (has_interval && (want < lo || want > hi))
              fail_msg("%s is %lld, not in %lld .. %lld", text, (long long)want,
                       (long long)lo, (long long)hi);
            /* k = B - 2 - k' has the old value at k' = B - 2 - k, which is
             * in the range of k again */
            b.values[3] = v[1] - 2 - v[3];
            if (moved) {
              assert_true(ix_eval(moved, value_of, &b, &got));
              assert_int_equal(got, want);
            }
          }
    script_close(&t);
  }
  assert_true(count > 1200);
}

/* p = (p / q) * q + p % q as forms, 0 <= p % q < q as proofs. */
static void test_division_identity(void **state) {
  static const char *const divisors[] = {"2", "7", "A", "3*A", "A*A"};
  uint64_t seed = 99;
  (void)state;
  for (int round = 0; round < 400; round++) {
    const char *text;
    const ix_poly_t *p, *q, *whole, *rest;
    script_t t;
    script_open(&t);
    run(&t, "static A; dyn B 3; index i in 0 .. A; data k in 0-2 .. B + 1");
    text = make_formula(&t, &seed, 3);
    p = formula(&t, text);
    q = formula(&t, divisors[round % 5]);
    whole = ix_div(t.pool, p, q, t.facts);
    rest = ix_mod(t.pool, p, q, t.facts);
    if (whole && rest) {
      assert_true(ix_prove_nonnegative(t.pool, rest, t.facts));
      assert_true(ix_prove_positive(t.pool, ix_sub(t.pool, q, rest), t.facts));
    }
    script_close(&t);
  }
}

/* ---- hostile input ------------------------------------------------------ */

static void test_long_chains(void **state) {
  script_t t;
  const ix_poly_t *n, *p, *q;
  (void)state;
  script_open(&t);
  run(&t, "gen N M; index i in 0 .. N");
  n = formula(&t, "N");
  p = n;
  for (int r = 1; r < 200000; r++) p = ix_add(t.pool, p, n);
  assert_ptr_equal(p, formula(&t, "200000*N"));
  /* deep nesting, wide sums and high powers end in NULL, not in a crash */
  p = formula(&t, "i");
  for (int r = 0; r < 500; r++)
    p = ix_div(t.pool, ix_add(t.pool, p, formula(&t, "M")),
               formula(&t, "N + 1"), t.facts);
  assert_null(p);
  p = formula(&t, "i");
  for (int r = 0; r < 60; r++) {
    q = ix_div(t.pool, p, ix_const(t.pool, 2), t.facts);
    p = ix_add(t.pool, q, ix_div(t.pool, p, ix_const(t.pool, 3), t.facts));
  }
  assert_null(p);
  p = n;
  for (int r = 0; r < 100; r++) p = ix_mul(t.pool, p, n);
  assert_null(p);
  p = n;
  for (int r = 0; r < 1000; r++) {
    char name[20];
    snprintf(name, sizeof name, "d%d", r);
    p = ix_add(
        t.pool, p,
        ix_sym(t.pool, ix_symbol_create(t.pool, name, IX_SYM_DATA, TD_NO_LOC)));
  }
  assert_null(p);
  script_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_forms),
      cmocka_unit_test(test_different_forms),
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_text_ignores_history),
      cmocka_unit_test(test_overflow),
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_replacement),
      cmocka_unit_test(test_substitution),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_division_identity),
      cmocka_unit_test(test_long_chains),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
