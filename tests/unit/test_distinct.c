/* Element updates: which sets of subscripts are proved to name distinct
 * elements, which certainly do not (language.md 5.2). */
#include "tests/unit/ix_script.h"

static ix_distinct_t distinct(script_t *t, const char *subscripts,
                              const char *indices, const ix_read_t *reads,
                              size_t read_count, const char **out_culprit) {
  const ix_poly_t *subs[8];
  const ix_symbol_t *names[8], *culprit = NULL;
  size_t n = 0, m = 0;
  ix_distinct_t answer;
  for (t->at = indices, skip_blanks(t); *t->at; skip_blanks(t))
    names[m++] = named(t, take_name(t));
  t->at = subscripts;
  do subs[n++] = read_sum(t);
  while (take(t, ","));
  answer = ix_prove_distinct(t->pool, subs, n, names, m, reads, read_count,
                             t->facts, &culprit);
  *out_culprit = culprit ? culprit->name : "";
  return answer;
}

static void test_distinct(void **state) {
  static const struct {
    const char *script, *subscripts, *indices, *culprit;
    ix_distinct_t want;
  } cases[] = {
      {"gen N; index i in 0 .. N", "i", "i", "", IX_DISTINCT_PROVED},
      {"gen N; index i in 0 .. N", "N - 1 - i", "i", "", IX_DISTINCT_PROVED},
      {"gen N; index i in 0 .. N", "3*i + 2", "i", "", IX_DISTINCT_PROVED},
      /* E11 of the vectors */
      {"gen N; index i in 0 .. N", "i / 2", "i", "i", IX_DISTINCT_SAME},
      {"gen N; index i in 0 .. N", "i % 4", "i", "i", IX_DISTINCT_SAME},
      {"gen N; index i in 0 .. N; index j in 0 .. N", "i", "i j", "j",
       IX_DISTINCT_SAME},
      /* accepted: c[i / M, i % M] */
      {"gen N M; index i in 0 .. N*M", "i / M, i % M", "i", "",
       IX_DISTINCT_PROVED},
      {"gen N M; index i in 0 .. N*M", "(i + 5) / 2, (i + 5) % 2", "i", "",
       IX_DISTINCT_PROVED},
      {"gen N M; index i in 0 .. N*M", "i / 2, i % 3", "i", "i",
       IX_DISTINCT_UNKNOWN},
      /* c*i + j with j in 0 .. c */
      {"gen N M; index i in 0 .. N; index j in 0 .. M", "i*M + j", "i j", "",
       IX_DISTINCT_PROVED},
      {"gen N M; index i in 0 .. N; index j in 0 .. M + 1", "i*M + j", "i j",
       "i", IX_DISTINCT_UNKNOWN},
      {"gen N; index i in 0 .. N; index j in 0 .. 3", "2*i + j", "i j", "i",
       IX_DISTINCT_UNKNOWN},
      {"gen N; index i in 0 .. N; index j in 0 .. 3", "3*i + j", "i j", "",
       IX_DISTINCT_PROVED},
      {"gen N M K; index i in 0 .. N; index j in 0 .. M; index k in 0 .. K",
       "(i*M + j)*K + k", "i j k", "", IX_DISTINCT_PROVED},
      {"gen N; index i in 0 .. N; index j in 0 .. 2", "2*i - j", "i j", "",
       IX_DISTINCT_PROVED},
      {"gen N; index i in 0 .. N; index j in 0 .. N", "i + j", "i j", "i",
       IX_DISTINCT_UNKNOWN},
      /* a later subscript tells what an earlier one needs */
      {"gen N; index i in 0 .. N; index j in 0 .. N", "i + j, j", "i j", "",
       IX_DISTINCT_PROVED},
      /* one value */
      {"gen N; index i in 0 .. N; index j in 0 .. 1", "i", "i j", "",
       IX_DISTINCT_PROVED},
      {"index i in 0 .. 9; guard i == 3", "7", "i", "", IX_DISTINCT_PROVED},
      /* a coefficient that may be zero */
      {"gen N M; index i in 0 .. N", "M*i", "i", "i", IX_DISTINCT_UNKNOWN},
      {"gen N; static M; index i in 0 .. N", "M*i", "i", "",
       IX_DISTINCT_PROVED},
      {"gen N; index i in 0 .. N; data z", "z*i", "i", "i",
       IX_DISTINCT_UNKNOWN},
      {"gen N; index i in 0 .. N", "i*i", "i", "i", IX_DISTINCT_UNKNOWN},
      {"gen N; index i in 0 .. N", "max(i, 3)", "i", "i", IX_DISTINCT_UNKNOWN},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    script_t t;
    const char *culprit;
    ix_distinct_t got;
    script_open(&t);
    run(&t, cases[i].script);
    got =
        distinct(&t, cases[i].subscripts, cases[i].indices, NULL, 0, &culprit);
    if (got != cases[i].want || strcmp(culprit, cases[i].culprit) != 0)
      fail_msg("%s | [%s]: got %d %s", cases[i].script, cases[i].subscripts,
               (int)got, culprit);
    script_close(&t);
  }
}

static void test_distinct_data(void **state) {
  script_t t;
  const char *culprit;
  const ix_symbol_t *b, *i;
  ix_read_t reads[2];
  (void)state;
  script_open(&t);
  run(&t, "gen B S Q N; index b in 0 .. B; index t in 0 .. Q;"
          "index i in 0 .. N; data pos in 0 .. S - Q + 1; data p in 0 .. N");
  b = named(&t, "b");
  i = named(&t, "i");
  reads[0] = (ix_read_t){named(&t, "pos"), &b, 1};
  reads[1] = (ix_read_t){named(&t, "p"), &i, 1};
  /* c.k[b, pos[b] + t] of llama.tdsl */
  assert_int_equal(distinct(&t, "b, pos + t", "b t", reads, 2, &culprit),
                   IX_DISTINCT_PROVED);
  /* without b the start is not known; c[p[i]] is a permutation at best */
  assert_int_equal(distinct(&t, "pos + t", "b t", reads, 2, &culprit),
                   IX_DISTINCT_UNKNOWN);
  assert_int_equal(distinct(&t, "pos + t, b + t", "b t", reads, 2, &culprit),
                   IX_DISTINCT_UNKNOWN);
  assert_int_equal(distinct(&t, "p", "i", reads, 2, &culprit),
                   IX_DISTINCT_UNKNOWN);
  assert_string_equal(culprit, "i");
  /* paged_write of attention.tdsl: slot[b] / P, slot[b] % P */
  assert_int_equal(distinct(&t, "p / 16, p % 16", "i", reads, 2, &culprit),
                   IX_DISTINCT_UNKNOWN);
  assert_int_equal(distinct(&t, "p / 16, i", "i", reads, 2, &culprit),
                   IX_DISTINCT_PROVED);
  /* a datum that is one value for all tuples */
  assert_int_equal(distinct(&t, "p + t", "t", NULL, 0, &culprit),
                   IX_DISTINCT_PROVED);
  script_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_distinct),
      cmocka_unit_test(test_distinct_data),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
