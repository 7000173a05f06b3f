/* Proofs of bounds: the programs of language.md, of the error vectors, of the
 * generator of random programs and of the examples; what must not be proved;
 * and soundness against brute force. Expected answers come from those texts
 * and from arithmetic. */
#include "tests/unit/ix_script.h"

#include "runtime/base/map.h"

typedef struct bounds_case {
  const char *script, *subscript, *dim;
  bool is_in_range;
} bounds_case_t;

static void check(const bounds_case_t *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    script_t t;
    script_open(&t);
    run(&t, cases[i].script);
    if (in_range(&t, cases[i].subscript, cases[i].dim) != cases[i].is_in_range)
      fail_msg("%s | [%s] of %s should%s be proved", cases[i].script,
               cases[i].subscript, cases[i].dim,
               cases[i].is_in_range ? "" : " not");
    script_close(&t);
  }
}

#define CHECK_CASES(cases) check((cases), sizeof(cases) / sizeof *(cases))

/* tests/vectors/errors.json: E08 is rejected, the rest accepted. */
static void test_error_vectors(void **state) {
  static const bounds_case_t cases[] = {
      {"gen N; index i in 0 .. N", "i + 1", "N", false},
      {"gen N; index i in 0 .. N", "i - 1", "N", false},
      {"gen N; index i in 0 .. N; guard i >= 0", "i + 1", "N", false},
      {"gen N M; index i in 0 .. N", "i", "M", false},
      {"gen N; index i in 0 .. N; guard i % 2 == 0", "i + 1", "N", false},
      {"gen N K; index i in 0 .. K; data k in 0 .. N + 1", "k", "N", false},
      {"gen N M; index i in 0 .. M; data k", "max(0, min(k, N - 1))", "N",
       false},
      {"gen N; index i in 0 .. N", "min(i + 1, N)", "N", false},
      {"gen N; index i in 0 .. N", "min(i + 1, N - 1)", "N", true},
      {"gen N; index i in 0 .. N", "max(i - 1, 0)", "N", true},
      {"gen N; index i in 0 .. N", "max(min(i + 3, N - 1), 0)", "N", true},
      {"gen N M; index i in 0 .. M; data k; require N >= 1",
       "max(0, min(k, N - 1))", "N", true},
      {"gen N; require N >= 1; index i in 0 .. N - 1", "i + 1", "N", true},
      {"gen N; require N >= 1; index i in 0 .. N - 1", "i", "N", true},
      {"gen N; index i in 0 .. N - 1", "i + 1", "N + 1", true},
      {"gen N; index i in 0 .. N; guard i > 0", "i - 1", "N", true},
      {"gen N; index i in 0 .. N; guard i + 1 < N", "i + 1", "N", true},
      {"gen N; index i in 0 .. N", "N - 1 - i", "N", true},
      {"gen N; index i in 0 .. N; guard i != 0", "i - 1", "N", true},
      {"gen N; index i in 0 .. N; index j in 0 .. N; guard j < i", "j", "N",
       true},
      {"gen N; index i in 0 .. N; index j in 0 .. N; guard j + i < N", "i + j",
       "N", true},
      {"gen N; index i in 0 .. N", "2*i", "2*N", true},
      {"gen N; index i in 0 .. N", "2*i + 1", "2*N", true},
      {"gen N; index i in 0 .. N", "2*i + 2", "2*N", false},
      {"gen N; index i in 0 .. N/2", "2*i", "N", true},
      {"gen N; index i in 0 .. N/2", "2*i + 1", "N", true},
      {"gen N; index i in 0 .. N/2", "2*i + 2", "N", false},
      {"gen N M; index i in 0 .. N*M", "i / M", "N", true},
      {"gen N M; index i in 0 .. N*M", "i % M", "M", true},
      {"gen N M; index i in 0 .. N*M", "i / M", "M", false},
      {"gen N M; index i in 0 .. N; index j in 0 .. M", "i*M + j", "N*M", true},
      {"gen N M; index i in 0 .. N; index j in 0 .. M", "i*N + j", "N*M",
       false},
      {"gen N M; index i in 0 .. M; data k in 0 .. N", "k", "N", true},
      {"gen N M; index i in 0 .. M; data k; guard k >= 0; guard k < N", "k",
       "N", true},
      {"gen N M; index i in 0 .. M; data k; guard k < N", "k", "N", false},
      {"gen N; index i in 0 .. N; data p in 0-1 .. N; guard p >= 0", "p", "N",
       true},
      {"gen N; index i in 0 .. N; data p in 0-1 .. N", "p", "N", false},
      {"dyn T 100000; dyn V 100000; index t in 0 .. T; data k in 0 .. V", "k",
       "V", true},
      {"gen N; index i in 0 .. N", "i + 1", "N + 1", true},
  };
  (void)state;
  CHECK_CASES(cases);
}

/* text with every %D replaced by the dim. */
static void put_dim(char *out, size_t room, const char *text, const char *dim) {
  size_t n = 0;
  out[0] = 0;
  for (; *text && n + 1 < room; text++) {
    if (text[0] == '%' && text[1] == 'D') {
      n += (size_t)snprintf(out + n, room - n, "(%s)", dim);
      text++;
    } else {
      out[n++] = *text;
      out[n] = 0;
    }
  }
}

/* The forms that tests/oracle/tdsl_random.py calls provable, over each form of
 * dim that it makes. */
static void test_random_program_forms(void **state) {
  static const char *const heads[] = {"dyn A 8", "static A", "gen A"};
  static const char *const dims[] = {"A", "2*A", "A + 1", "3*A"};
  static const char *const forms[][2] = {
      /* guard, subscript */
      {"0 <= i", "i"},
      {"0 <= i", "%D - 1 - i"},
      {"0 <= i", "i / 2"},
      {"0 <= i", "i / 3"},
      {"i > 0", "i - 1"},
      {"i + 1 < %D", "i + 1"},
      {"i - i % 2 >= 0", "i - i % 2"},
      {"0 <= i", "max(i - 2, 0)"},
      {"0 <= i", "min(i + 1, %D - 1)"},
      {"i + j < %D", "i + j"},
      {"j <= i", "i - j"},
  };
  static const char *const affine[] = {"i + 1",     "i - 1",      "2*i - 1",
                                       "i / 2",     "i + 3",      "3 - i",
                                       "i % 3 + 1", "(i - 2) / 3"};
  char script[300], guard[100], subscript[100];
  (void)state;
  for (size_t h = 0; h < 3; h++) {
    for (size_t d = 0; d < 4; d++) {
      for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        put_dim(guard, sizeof guard, forms[f][0], dims[d]);
        put_dim(subscript, sizeof subscript, forms[f][1], dims[d]);
        snprintf(script, sizeof script,
                 "%s; index i in 0 .. %s; index j in 0 .. %s; guard %s",
                 heads[h], dims[d], dims[d], guard);
        check(&(bounds_case_t){script, subscript, dims[d], true}, 1);
      }
      /* any affine form under the guard that it is in range, for a dim that
       * has nothing to do with the index */
      for (size_t a = 0; a < sizeof affine / sizeof *affine; a++) {
        snprintf(script, sizeof script,
                 "%s; gen B; index i in 0 .. %s; guard %s >= 0; guard %s < B",
                 heads[h], dims[d], affine[a], affine[a]);
        check(&(bounds_case_t){script, affine[a], "B", true}, 1);
      }
    }
  }
}

static void test_random_program_products(void **state) {
  static const bounds_case_t cases[] = {
      {"gen A; index i in 0 .. A", "2*i", "2*A", true},
      {"gen A; index i in 0 .. A", "2*i + 1", "2*A", true},
      {"gen A; index i in 0 .. A", "3*i + 1", "3*A", true},
      {"gen A; index i in 0 .. A", "i", "A + 1", true},
      {"dyn A 8; dyn B 8; index i in 0 .. A; index j in 0 .. B", "i*B + j",
       "A*B", true},
      {"dyn A 8; static B; index i in 0 .. A*B", "i / B", "A", true},
      {"dyn A 8; dyn B 8; index i in 0 .. A*B", "i / B", "A", true},
      {"dyn A 8; dyn B 8; index i in 0 .. A*B", "i % B", "B", true},
      {"gen N; index i in 0 .. N; static A", "i % A", "A", true},
      {"gen N; index i in 0 .. 3*N; static A", "i % A", "A", true},
      {"gen N; index i in 0 .. N; static A", "i / A", "A", false},
      {"static A", "0", "A", true},
      {"static A", "1", "A", false},
      {"gen A", "0", "A", false},
  };
  (void)state;
  CHECK_CASES(cases);
}

/* Subscripts of examples/ and stdlib/. */
static void test_examples(void **state) {
  static const bounds_case_t cases[] = {
      /* nn.tdsl, rope */
      {"gen N; divides N by 2; index i in 0 .. N; guard i < N / 2", "i + N / 2",
       "N", true},
      {"gen N; divides N by 2; index i in 0 .. N; guard i < N / 2", "i",
       "N / 2", true},
      {"gen N; divides N by 2; index i in 0 .. N; guard i >= N / 2",
       "i - N / 2", "N / 2", true},
      {"gen N; divides N by 2; index i in 0 .. N; guard i >= N / 2",
       "i - N / 2", "N", true},
      {"gen N; index i in 0 .. N; guard i < N / 2", "i + N / 2", "N", true},
      {"gen N; index i in 0 .. N; guard i >= N / 2", "i - N / 2", "N / 2",
       false},
      /* rope_pairs */
      {"gen N; divides N by 2; index i in 0 .. N", "2 * (i / 2) + 1", "N",
       true},
      {"gen N; divides N by 2; index i in 0 .. N", "2 * (i / 2)", "N", true},
      {"gen N; divides N by 2; index i in 0 .. N", "i / 2", "N / 2", true},
      {"gen N; index i in 0 .. N", "2 * (i / 2) + 1", "N", false},
      {"gen N; index i in 0 .. N", "2 * (i / 2)", "N", true},
      /* attention.tdsl */
      {"static H G; divides H by G; index h in 0 .. H", "h / (H/G)", "G", true},
      {"static MP P; index u in 0 .. MP * P", "u / P", "MP", true},
      {"static MP P; index u in 0 .. MP * P", "u % P", "P", true},
      {"dyn NP 65536; static P; data slot in 0-1 .. NP * P; guard slot >= 0",
       "slot / P", "NP", true},
      {"dyn NP 65536; static P; data slot in 0-1 .. NP * P; guard slot >= 0",
       "slot % P", "P", true},
      {"dyn NP 65536; static P; data slot in 0-1 .. NP * P", "slot / P", "NP",
       false},
      /* bert.tdsl: T <= C */
      {"static C; dyn T 512; require T <= C; index t in 0 .. T", "t", "C",
       true},
      {"static C; dyn T 512; index t in 0 .. T", "t", "C", false},
      /* conv.tdsl */
      {"gen H R; require R <= H; index h in 0 .. H - R + 1; "
       "index r in 0 .. R",
       "h + r", "H", true},
      {"gen H; index h in 0 .. H / 2; index r in 0 .. 2", "2*h + r", "H", true},
      {"gen H; index h in 0 .. H / 2; index r in 0 .. 3", "2*h + r", "H",
       false},
      {"index j in 0 .. 400", "j / 25", "16", true},
      {"index j in 0 .. 400", "j / 5 % 5", "5", true},
      {"index j in 0 .. 400", "j % 5", "5", true},
      /* gpt_train.tdsl: D is H*K */
      {"static D H K; require H * K == D; index c in 0 .. 3; "
       "index n in 0 .. H; index k in 0 .. K",
       "c*D + n*K + k", "3*D", true},
      /* llama.tdsl */
      {"static S; dyn Q 8192; require Q <= S; index t in 0 .. Q; "
       "data pos in 0 .. S - Q + 1",
       "pos + t", "S", true},
      {"static S; dyn Q 8192; index t in 0 .. Q; data pos in 0 .. S", "pos + t",
       "S", false},
      {"dyn T 8192; index t in 0 .. T", "t + 1", "T + 1", true},
      /* quant.tdsl */
      {"static I Q; divides I by Q; index i in 0 .. I", "i / Q", "I / Q", true},
      {"static I Q; divides I by Q; index g in 0 .. I / Q; "
       "index j in 0 .. Q",
       "g*Q + j", "I", true},
      {"static I Q; index g in 0 .. I / Q; index j in 0 .. Q", "g*Q + j", "I",
       true},
      {"static I Q; index i in 0 .. I", "i / Q", "I / Q", false},
      {"static I; divides I by 2; index i in 0 .. I", "i / 2", "I / 2", true},
      /* losses.tdsl */
      {"static V; data y in 0-1 .. V; guard y >= 0", "y", "V", true},
      /* semantics.tdsl */
      {"index i in 0 .. 4", "i / 3", "2", true},
      {"index i in 0 .. 4; guard i > 0", "i - 1", "4", true},
      {"index i in 0 .. 4", "3 - i", "4", true},
  };
  (void)state;
  CHECK_CASES(cases);
}

/* What else language.md 8.3 says, a sentence a case. */
static void test_rules(void **state) {
  static const bounds_case_t cases[] = {
      /* a guard on the subscript itself always suffices */
      {"gen N M; index i in 0 .. M; guard 7*i - 3 >= 0; guard 7*i - 3 < N",
       "7*i - 3", "N", true},
      {"gen N M; index i in 0 .. M; index j in 0 .. M; "
       "guard i*j - 5 >= 0; guard i*j - 5 < N",
       "i*j - 5", "N", true},
      {"gen N M; index i in 0 .. M; data k; guard k*k + i >= 0; "
       "guard k*k + i < N",
       "k*k + i", "N", true},
      {"gen N M; index i in 0 .. M; guard (i - 7) / 3 >= 0; "
       "guard (i - 7) / 3 < N",
       "(i - 7) / 3", "N", true},
      {"gen N M; index i in 0 .. M; data k; guard (k + i) % 5 < N",
       "(k + i) % 5", "N", true},
      {"gen N M; index i in 0 .. M; data k; "
       "guard min(k, i) >= 0; guard min(k, i) < N",
       "min(k, i)", "N", true},
      /* a later guard simplifies what an earlier one said */
      {"gen N; index i in 0 .. 9; guard i % 3 < N; guard i < 3", "i % 3", "N",
       true},
      {"gen N; index i in 0 .. 9; index j in 0 .. 9; guard (i + j) % 3 < N; "
       "guard i + j < 3",
       "(i + j) % 3", "N", true},
      {"gen N M; index i in 0 .. M; guard i % M < N", "i", "N", true},
      /* a guard that is not known to be tighter takes nothing away */
      {"gen N M; index i in 0 .. N; guard i < M", "i", "N", true},
      {"gen N M; index i in 0 .. N; guard i < M", "i", "M", true},
      /* products are bounded factor by factor */
      {"gen N M; index i in 0 .. N; index j in 0 .. M", "i*j", "N*M", true},
      {"gen N; index i in 0 .. N", "i*i", "N*N", true},
      {"gen N; index i in 0 .. N", "i*i", "N*N - 2*N", false},
      /* a lower end below zero */
      {"gen N; index i in 0-2 .. N", "i + 2", "N + 2", true},
      {"gen N; index i in 0-2 .. N", "i", "N", false},
      /* facts chain */
      {"gen A B C; require A <= B; require B <= C; index i in 0 .. A", "i", "C",
       true},
      {"gen A B C D; require A <= B; require B <= C; require C <= D; "
       "index i in 0 .. A",
       "i", "D", true},
      {"gen A B C; require A <= B; require C <= B; index i in 0 .. A", "i", "C",
       false},
      /* strided windows */
      {"gen H R; static S; require R <= H; index h in 0 .. (H - R) / S + 1; "
       "index r in 0 .. R",
       "h*S + r", "H", true},
      {"gen H R; require R <= H; index h in 0 .. (H - R) / 2 + 1; "
       "index r in 0 .. R",
       "h*2 + r", "H", true},
      {"gen H R; require R <= H; index h in 0 .. (H - R) / 2 + 1; "
       "index r in 0 .. R + 1",
       "h*2 + r", "H", false},
      /* ceiling division */
      {"gen N; static P; index p in 0 .. N", "p / P", "(N + P - 1) / P", true},
      {"gen N; index p in 0 .. N", "p / 4", "(N + 3) / 4", true},
      {"gen N; index p in 0 .. N", "p / 4", "N / 4", false},
      /* min as an extent */
      {"gen N M; index i in 0 .. min(N, M)", "i", "N", true},
      {"gen N M; index i in 0 .. min(N, M)", "i", "M", true},
      {"gen N M; index i in 0 .. max(N, M)", "i", "M", false},
      /* nonempty ranges: N*M >= 1, N/2 >= 1 */
      {"gen N M; index i in 0 .. N*M", "0", "M", true},
      {"gen N; index i in 0 .. N/2", "1", "N", true},
      {"gen N; index i in 0 .. N/2", "2", "N", false},
      /* a guard on a dim; != counts at an end */
      {"gen N; guard N > 3", "3", "N", true},
      {"gen N; guard N != 0", "N - 1", "N", true},
      {"gen N; guard N != 1", "N - 1", "N", false},
      {"gen N; index i in 0 .. N; guard i != N - 1", "i + 1", "N", true},
      {"gen N; index i in 0 .. N; guard i != 3", "i + 1", "N", false},
      /* a divisor that varies */
      {"gen N; index i in 0 .. N; index j in 0 .. 4", "i / (j + 1)", "N", true},
      {"gen N; index i in 0 .. N; index j in 0 .. 4", "i % (j + 1)", "4", true},
      /* a loop whose end is data */
      {"gen N; data n in 0 .. N + 1; index i in 0 .. n", "i", "N", true},
      {"gen N; data n in 0 .. N + 2; index i in 0 .. n", "i", "N", false},
      /* equal dims */
      {"gen N M; require N == M; index i in 0 .. N", "i", "M", true},
      {"gen N M; require N == M + 1; index i in 0 .. M", "i + 1", "N", true},
      {"gen N M; require N + M == 9; index i in 0 .. N", "i + M", "9", true},
      {"gen N M; guard N == M; index i in 0 .. N", "i", "M", true},
  };
  (void)state;
  CHECK_CASES(cases);
}

/* What a guard's arm established ends with it. */
static void test_scopes_end(void **state) {
  script_t t;
  size_t mark;
  (void)state;
  script_open(&t);
  run(&t, "gen N M; index i in 0 .. N");
  mark = ix_facts_mark(t.facts);
  run(&t, "guard i + 1 < N; require M == N; guard N >= 5");
  assert_true(in_range(&t, "i + 1", "M"));
  assert_true(proved(&t, "N >= 5"));
  ix_facts_release(t.facts, mark);
  assert_false(in_range(&t, "i + 1", "N"));
  assert_false(in_range(&t, "i", "M"));
  assert_false(proved(&t, "N >= 5"));
  assert_true(in_range(&t, "i", "N"));
  script_close(&t);
}

/* Divisors (E37), new dims (E53), stores (E12), preconditions (E07). */
static void test_other_questions(void **state) {
  static const struct {
    const char *script, *claim;
    bool is_proved;
  } cases[] = {
      {"dyn T 8", "T > 0", false},
      {"static T", "T > 0", true},
      {"gen N", "N - 1 >= 0", false},
      {"gen N; require N >= 1", "N - 1 >= 0", true},
      {"gen H R; require R <= H", "H - R + 1 >= 0", true},
      {"gen H R; require R <= H", "(H - R) / 2 + 1 >= 0", true},
      {"gen H R; static S; require R <= H", "(H - R) / S + 1 >= 0", true},
      {"gen H R", "H - R + 1 >= 0", false},
      {"gen H W R; require R <= H; require R <= W",
       "(H - R + 1) * (W - R + 1) >= 0", true},
      {"gen H W R; require R <= H", "(H - R + 1) * (W - R + 1) >= 0", false},
      {"dyn B 64", "B <= 64", true},
      {"dyn B 64", "B < 64", false},
      {"gen N; index i in 0 .. N", "i <= 2147483646", true},
      {"gen N; index i in 0 .. N", "i <= 2147483645", false},
      {"gen N; index i in 0 .. N", "2*i <= 2147483647", false},
      {"dyn T 100; dyn S 200; require T <= S", "T <= 200", true},
      {"static A B; require A == 4*B", "4*B <= 2147483647", true},
      {"static A B; require A == 4*B", "4*B <= 2147483646", false},
      {"static H G; divides H by G", "H / G > 0", true},
      {"gen H G; require G >= 1; divides H by G", "H / G > 0", false},
      {"gen H G; divides H by G; index h in 0 .. H", "H / G > 0", true},
      {"gen N M", "N*M >= 0", true},
      {"gen N M", "N*M >= N", false},
      {"gen N; static M", "N*M >= N", true},
      {"gen N M; require N <= M", "N*N <= M*M", true},
      {"gen N", "N / 2 <= N", true},
      {"gen N", "N - 2*(N / 2) >= 0", true},
      {"gen N", "2*N - 4*(N / 2) >= 0", true},
      {"gen N", "N - 2*(N / 2) <= 1", true},
      {"gen N", "N - 2*(N / 2) <= 0", false},
      {"gen N", "N % 7 <= 6", true},
      {"gen N; data k", "k >= 0", false},
      {"gen N; data k; require k >= 3", "k >= 3", true},
      {"gen N; divides N by 6", "N % 3 == 0", true},
      {"gen N; divides N by 6", "N % 4 == 0", false},
      {"gen N M; divides N by M", "N % M == 0", true},
      {"gen N", "N % 2 == 0", false},
      {"gen N; guard N < 0", "0 >= N + 1", true},
      {"static A; gen B C; require A == B*C", "B > 0", true},
      /* neither a divisor nor a remainder rises with its max */
      {"gen B", "9 / max(B, 1) >= 9", false},
      {"gen B", "max(B, 3) % 4 >= 3", false},
      /* three facts, not four */
      {"data a; data b; data c; data d; guard a <= b; guard b <= c; "
       "guard c <= d",
       "a <= d", true},
      {"data a; data b; data c; data d; data e; guard a <= b; guard b <= c; "
       "guard c <= d; guard d <= e",
       "a <= e", false},
      /* a product >= 1 of factors that may both be negative */
      {"gen A B; static C; index i in 0 .. ((A - B)/C)*((A - B)/C)",
       "(A - B)/C >= 1", false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    script_t t;
    script_open(&t);
    run(&t, cases[i].script);
    if (proved(&t, cases[i].claim) != cases[i].is_proved)
      fail_msg("%s | %s should%s be proved", cases[i].script, cases[i].claim,
               cases[i].is_proved ? "" : " not");
    script_close(&t);
  }
}

static void test_ends(void **state) {
  static const struct {
    const char *script, *formula, *lo, *hi;
  } cases[] = {
      {"gen N; index i in 0 .. N", "2*i + 1", "1", "2*N"},
      {"gen N; index i in 0 .. N", "N - 1 - i", "0", "N"},
      {"gen N; index i in 0 .. N; data k", "min(i, k)", "?", "N"},
      {"gen N; index i in 0 .. N; data k", "max(i, k)", "0", "?"},
      {"gen N; index i in 0 .. N", "i % 3 + 1", "1", "4"},
      {"gen N M; index i in 0 .. N*M", "i / M", "0", "N"},
      {"data k in 0-3 .. 5", "-2*k", "-8", "7"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    script_t t;
    const ix_poly_t *lo, *hi;
    script_open(&t);
    run(&t, cases[i].script);
    ix_ends(t.pool, formula(&t, cases[i].formula), t.facts, &lo, &hi);
    assert_string_equal(text_of(&t, lo), cases[i].lo);
    assert_string_equal(text_of(&t, hi), cases[i].hi);
    script_close(&t);
  }
}

/* ---- soundness --------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed) {
  *seed = td_hash_u64(*seed, 99);
  return *seed >> 8;
}

/* A random formula over A B (dims), i j k. */
static const char *make_formula(script_t *t, uint64_t *seed, int depth) {
  static const char *const leaves[] = {"A", "B", "i", "j", "k", "1", "2", "3"};
  static const char *const divisors[] = {"2", "3", "A", "4"};
  uint64_t r = next_random(seed) % 10;
  const char *a, *b;
  if (depth == 0 || r == 0) return leaves[next_random(seed) % 8];
  a = make_formula(t, seed, depth - 1);
  b = make_formula(t, seed, depth - 1);
  if (r == 7 || r == 8)
    return td_arena_printf(&t->arena, "((%s) %s %s)", a, r == 7 ? "/" : "%",
                           divisors[next_random(seed) % 4]);
  if (r == 9)
    return td_arena_printf(&t->arena, "%s(%s, %s)",
                           next_random(seed) % 2 ? "min" : "max", a, b);
  if (r == 6) return td_arena_printf(&t->arena, "%s*%s", a, b);
  return td_arena_printf(&t->arena, "(%s %s %s)", a, r < 4 ? "+" : "-", b);
}

/* Whether p >= 0 at every small assignment that meets the ranges of
 * test_soundness and f >= 0, g >= 0. */
static bool holds_everywhere(const script_t *t, const ix_poly_t *f,
                             const ix_poly_t *g, const ix_poly_t *p) {
  assignment_t a = {t, {0}};
  int64_t *v = a.values; /* A B i j k, in order of declaration */
  for (v[0] = 1; v[0] <= 4; v[0]++)
    for (v[1] = 0; v[1] <= 3; v[1]++)
      for (v[2] = 0; v[2] < v[0]; v[2]++)
        for (v[3] = 1; v[3] < v[1] + 1; v[3]++)
          for (v[4] = -1; v[4] < v[0] + v[1]; v[4]++) {
            int64_t value;
            assert_true(ix_eval(f, value_of, &a, &value));
            if (value < 0) continue;
            assert_true(ix_eval(g, value_of, &a, &value));
            if (value < 0) continue;
            assert_true(ix_eval(p, value_of, &a, &value));
            if (value < 0) return false;
          }
  return true;
}

/* Ranges i in 0 .. A, j in 1 .. B + 1, k in -1 .. A + B; two facts and a claim
 * at random. What is proved must hold. */
static void test_soundness(void **state) {
  uint64_t seed = 20240607;
  size_t proved_count = 0, true_count = 0, count = 0;
  (void)state;
  for (int round = 0; round < 2500; round++) {
    const char *claim, *fact, *guard;
    const ix_poly_t *p, *f, *g;
    bool is_proved, is_true;
    script_t t;
    script_open(&t);
    run(&t, "static A; gen B; index i in 0 .. A; index j in 1 .. B + 1;"
            "data k in 0-1 .. A + B");
    fact = make_formula(&t, &seed, 2);
    guard = make_formula(&t, &seed, 2);
    claim = make_formula(&t, &seed, 3);
    f = formula(&t, fact);
    ix_facts_guard(t.facts, f);
    g = formula(&t, guard);
    ix_facts_guard(t.facts, g);
    p = formula(&t, claim);
    if (p) {
      is_proved = ix_prove_nonnegative(t.pool, p, t.facts);
      is_true = holds_everywhere(&t, f, g, p);
      if (is_proved && !is_true)
        fail_msg("%s >= 0, %s >= 0 | %s >= 0 is proved but false", fact, guard,
                 claim);
      proved_count += is_proved;
      true_count += is_true;
      count++;
    }
    script_close(&t);
  }
  /* the test means nothing if one of the answers hardly occurs */
  assert_true(proved_count > count / 4);
  assert_true(true_count < count * 3 / 4);
}

/* ---- hostile input ------------------------------------------------------ */

static void test_work_is_bounded(void **state) {
  script_t t;
  char text[4000] = "k";
  (void)state;
  script_open(&t);
  run(&t, "gen A B C D E F; index i in 0 .. A; data k; data m");
  for (int r = 0; r < 30; r++) {
    char guard[120];
    snprintf(guard, sizeof guard,
             "guard (k + %d*m) / %d + (i*%d) %% 7 >= min(B*%d, m)", r, r + 2,
             r + 1, r + 1);
    run(&t, guard);
  }
  /* nested choices: 2^20 cases */
  for (int r = 0; r < 20; r++) {
    char inner[sizeof text];
    memcpy(inner, text, sizeof inner);
    snprintf(text, sizeof text, "%s(%.900s + %d, m*%d)", r % 2 ? "max" : "min",
             inner, r, r + 1);
  }
  assert_false(ix_prove_nonnegative(t.pool, formula(&t, text), t.facts));
  assert_false(proved(&t, "(A+B+C)*(D+E+F)*(A+D)*(B+E) >= k"));
  /* thousands of terms are refused, not formed */
  assert_null(formula(&t, "(A+1)*(B+1)*(C+1)*(D+1)*(E+1)*(F+1)*(A+B)*(C+D)*"
                          "(E+F)*(A+C)*(B+D)*(C+E)"));
  script_close(&t);
}

/* Many facts: the answers stay right; a chain of more than three is beyond
 * the procedure. */
static void test_many_facts(void **state) {
  script_t t;
  (void)state;
  script_open(&t);
  run(&t, "gen A B C D E F G H");
  for (int r = 1; r <= 8; r++) {
    char text[200];
    snprintf(text, sizeof text,
             "require A <= B + %d; require B <= C + %d; require C <= D + %d; "
             "require D <= E + %d; require E <= F + %d; require F <= G + %d",
             r, r, r, r, r, r);
    run(&t, text);
  }
  assert_true(proved(&t, "A <= D + 3"));
  assert_false(proved(&t, "A <= D + 2"));
  assert_false(proved(&t, "A <= H"));
  script_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_error_vectors),
      cmocka_unit_test(test_random_program_forms),
      cmocka_unit_test(test_random_program_products),
      cmocka_unit_test(test_examples),
      cmocka_unit_test(test_rules),
      cmocka_unit_test(test_scopes_end),
      cmocka_unit_test(test_other_questions),
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_soundness),
      cmocka_unit_test(test_work_is_bounded),
      cmocka_unit_test(test_many_facts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
