/* Programs of test_pipeline.c: the edges of each template. */
#ifndef TESTS_PIPE_PROGRAMS_H
#define TESTS_PIPE_PROGRAMS_H

enum {
  PIPE_DO_EXACT = 1u << PIPE_EXACT,
  PIPE_DO_RANDOM = 1u << PIPE_RANDOM,
  PIPE_DO_SPECIAL = 1u << PIPE_SPECIAL,
  PIPE_INEXACT = 16,   /* rounds even on whole numbers */
  PIPE_FUNCTIONS = 32, /* exp and the like: bits are the target's */
  PIPE_FEW = 64,       /* not every way */
  PIPE_LEAST = 128,    /* four ways */
};
#define PIPE_BOTH (PIPE_DO_EXACT | PIPE_DO_RANDOM)
#define PIPE_EVERY (PIPE_BOTH | PIPE_DO_SPECIAL)

typedef struct pipe_program {
  const char *name, *text;
  unsigned flags;
  const char *fixed;    /* dims made static: "M=3 N=4" */
  const char *dims[24]; /* values of dynamic dims; "" where there are none */
} pipe_program_t;

#define PRODUCT_TEXT                                                          \
  "dyn M <= 400, N <= 300, K <= 700\n"                                        \
  "export fn mm(a: f32[M, K], b: f32[K, N]) -> c: f32[M, N] {\n"              \
  "  c[m, n] = sum[k] a[m, k] * b[k, n]\n"                                    \
  "}\n"                                                                       \
  "export fn mt(a: f32[M, K], b: f32[N, K], r: f32[M, N], s: f32[N])\n"       \
  "    -> (c: f32[M, N], d: bf16[M, N]) {\n"                                  \
  "  p[m, n] = sum[k] a[m, k] * b[n, k]\n"                                    \
  "  c[m, n] = max(p[m, n] + s[n], 0) + r[m, n]\n"                            \
  "  d[m, n] = c[m, n] * 0.5\n"                                               \
  "}\n"

static const pipe_program_t pipe_products[] = {
    {"product", PRODUCT_TEXT, PIPE_BOTH, NULL,
     {"M=1 N=1 K=1", "M=1 N=33 K=0", "M=0 N=8 K=8", "M=8 N=0 K=8",
      "M=2 N=7 K=15", "M=3 N=8 K=16", "M=4 N=16 K=17", "M=5 N=31 K=255",
      "M=6 N=32 K=256", "M=7 N=33 K=257", "M=13 N=255 K=31",
      "M=14 N=256 K=5", "M=15 N=257 K=3", "M=29 N=65 K=600",
      "M=168 N=15 K=9", "M=169 N=17 K=7", "M=337 N=100 K=40", NULL}},
    {"product m1", PRODUCT_TEXT, PIPE_BOTH | PIPE_FEW, "M=1 N=256 K=600",
     {"", NULL}},
    {"product m3", PRODUCT_TEXT, PIPE_BOTH | PIPE_FEW, "M=3 N=33 K=257",
     {"", NULL}},
    {"product m15", PRODUCT_TEXT, PIPE_BOTH | PIPE_FEW, "M=15 N=31 K=256",
     {"", NULL}},
    {"product n1", PRODUCT_TEXT, PIPE_BOTH | PIPE_FEW, "M=40 N=1 K=300",
     {"", NULL}},
    {"product n8", PRODUCT_TEXT, PIPE_BOTH | PIPE_FEW, "N=8 K=300",
     {"M=1", "M=14", "M=200", NULL}},
    {"product k", PRODUCT_TEXT, PIPE_BOTH | PIPE_FEW, "K=257",
     {"M=1 N=12", "M=14 N=257", "M=20 N=0", NULL}},
    {"batch",
     "dyn B <= 5, M <= 40, N <= 70, K <= 40\n"
     "export fn f(a: f32[B, M, K], r: f32[B, K, N], t: f32[B, N, K])\n"
     "    -> (c: f32[B, M, N], d: f32[M, B, N], e: f32[B, N, M]) {\n"
     "  c[b, m, n] = sum[k] a[b, m, k] * r[b, k, n]\n"
     "  d[m, b, n] = sum[k] a[b, m, k] * t[b, n, k]\n"
     "  e[b, n, m] = sum[k] a[b, m, k] * t[b, n, k]\n"
     "}\n",
     PIPE_BOTH, NULL,
     {"B=3 M=20 N=33 K=17", "B=0 M=4 N=4 K=4", "B=1 M=1 N=64 K=40",
      "B=5 M=15 N=16 K=0", NULL}},
    {"heads",
     "dim H = 6, G = 2, D = 24, E = 8\n"
     "dyn T <= 40, S <= 40\n"
     "export fn f(x: f32[T, D], wq: f32[H, E, D], wo: f32[D, H, E],\n"
     "    k: f32[S, G, E]) -> (y: f32[T, D], q: f32[T, H, E],\n"
     "    s: f32[H, T, S]) {\n"
     "  q[t, h, e] = sum[d] x[t, d] * wq[h, e, d]\n"
     "  y[t, d] = sum[h, e] q[t, h, e] * wo[d, h, e]\n"
     "  s[h, t, u] = if u <= t\n"
     "      then (sum[e] q[t, h, e] * k[u, h / (H / G), e]) * 0.5\n"
     "      else -inf\n"
     "}\n",
     PIPE_BOTH, NULL,
     {"T=1 S=1", "T=17 S=33", "T=40 S=40", "T=0 S=5", "T=5 S=0", NULL}},
    {"causal values",
     "dyn T <= 70, S <= 70\n"
     "dim E = 20\n"
     "export fn f(p: f32[T, S], v: f32[S, E]) -> (o: f32[T, E]) {\n"
     "  o[t, e] = sum[u in S where u <= t] p[t, u] * v[u, e]\n"
     "}\n",
     PIPE_BOTH, NULL,
     {"T=1 S=1", "T=33 S=17", "T=64 S=70", "T=3 S=0", NULL}},
    {"gather product",
     "dim V = 11, D = 40, F = 50\n"
     "dyn N <= 40\n"
     "export fn f(e: bf16[V, D], id: i32[N] in V, w: bf16[F, D])\n"
     "    -> (y: f16[N, F]) {\n"
     "  y[n, f] = sum[d] e[id[n], d] * w[f, d]\n"
     "}\n",
     PIPE_BOTH, NULL, {"N=1", "N=0", "N=37", NULL}},
    {"convolution",
     "dim C = 5, O = 20, R = 3\n"
     "dyn X <= 20, Y <= 20\n"
     "export fn f(x: f32[C, X, Y], w: f32[O, C, R, R])\n"
     "    -> (y: f32[O, X, Y]) {\n"
     "  y[o, i, j] = sum[c, r, s] x[c, i + r - 1, j + s - 1 | 0]\n"
     "      * w[o, c, r, s]\n"
     "}\n",
     PIPE_BOTH, NULL, {"X=1 Y=1", "X=9 Y=17", "X=20 Y=20", "X=0 Y=3", NULL}},
    {"deep prologue",
     "dyn M <= 40, N <= 40, K <= 70\n"
     "export fn f(a: f16[M, K], g: f32[K], b: i8[N, K], z: f32[N])\n"
     "    -> (c: f32[M, N]) {\n"
     "  h[m, k] = (a[m, k] + 1) * g[k]\n"
     "  w[n, k] = f32(b[n, k]) * z[n]\n"
     "  c[m, n] = sum[k] h[m, k] * w[n, k]\n"
     "}\n",
     PIPE_BOTH, NULL, {"M=17 N=33 K=64", "M=1 N=40 K=70", NULL}},
    {"wide product",
     "dyn M <= 40, N <= 40, K <= 300\n"
     "export fn f(a: f64[M, K], b: f64[K, N]) -> (c: f64[M, N]) {\n"
     "  c[m, n] = sum[k] a[m, k] * b[k, n]\n"
     "}\n",
     PIPE_BOTH, NULL, {"M=17 N=33 K=257", "M=1 N=40 K=70", "M=3 N=3 K=0",
                       NULL}},
    {"product guard",
     "dyn M <= 40, N <= 40, K <= 40\n"
     "export fn f(a: f32[M, K], b: f32[K, N], len: i32 in 41)\n"
     "    -> (c: f32[M, N], d: f32[M, N]) {\n"
     "  c[m, n] = if m + n < 30 then (sum[k] a[m, k] * b[k, n]) else 7\n"
     "  d[m, n] = sum[k in K where k < len and a[m, k] != 0] a[m, k] *\n"
     "      b[k, n]\n"
     "}\n",
     PIPE_BOTH, NULL, {"M=17 N=33 K=33", "M=40 N=1 K=7", NULL}},
    {"two products",
     "dyn M <= 60\n"
     "dim D = 48, F = 80\n"
     "export fn f(x: f32[M, D], w1: f32[F, D], w3: f32[F, D],\n"
     "    w2: f32[D, F]) -> (y: f32[M, D]) {\n"
     "  g[m, f] = sum[d] x[m, d] * w1[f, d]\n"
     "  u[m, f] = sum[d] x[m, d] * w3[f, d]\n"
     "  h[m, f] = max(g[m, f], 0) * u[m, f]\n"
     "  y[m, d] = x[m, d] + (sum[f] h[m, f] * w2[d, f])\n"
     "}\n",
     PIPE_BOTH, NULL, {"M=1", "M=14", "M=60", "M=0", NULL}},
    {"outer and vector",
     "dyn M <= 90, N <= 600\n"
     "export fn f(a: f32[M], b: f32[N], c: f32[M, N])\n"
     "    -> (o: f32[M, N], v: f32[M], w: f32[N], s: f32) {\n"
     "  o[m, n] = a[m] * b[n]\n"
     "  v[m] = sum[n] c[m, n] * b[n]\n"
     "  w[n] = sum[m] c[m, n] * a[m]\n"
     "  s = sum[m, n] a[m] * c[m, n]\n"
     "}\n",
     PIPE_BOTH, NULL, {"M=1 N=1", "M=90 N=513", "M=17 N=0", "M=0 N=17",
                       NULL}},
    {"views in place",
     "dim H = 4, E = 12, D = 20\n"
     "dyn T <= 40\n"
     "export fn f(x: f32[T, D], w: f32[H, E, D], r: f32[T, H, E])\n"
     "    -> (y: f32[T, H, E]) {\n"
     "  a[t, h, e] = r[t, h, e] * 2 + r[t, 0, 3]\n"
     "  b[t, h, e] = (sum[d] x[t, d] * w[h, e, d]) + a[t, h, e] + a[t, h, 0]\n"
     "  c[t, h, e] = (sum[d] x[t, d] * w[h, e, d]) + b[t, h, e]\n"
     "  y[t, h, e] = c[t, h, e] + b[t, 3 - h, e]\n"
     "}\n",
     PIPE_BOTH, NULL, {"T=1", "T=17", "T=40", NULL}},
    {"neutral factor",
     "dyn M <= 30, N <= 40, K <= 30\n"
     "export fn f(a: f32[M, K], b: f32[K, N])\n"
     "    -> (x: f32[M], y: f32[M, N], z: f32[M], w: f32[M]) {\n"
     "  p[m, k] = a[m, k] * a[m, K - 1 - k]\n"
     "  x[m] = sum[k] p[m, k] * 1.0\n"
     "  y[m, n] = sum[k] 1.0 * (a[m, k] * b[k, n])\n"
     "  z[m] = sum[k] (if k >= 0 then a[m, k] * a[m, k] else 0.0)\n"
     "  w[m] = sum[k] (a[m, k] * a[m, k] - 0.0)\n"
     "}\n",
     PIPE_BOTH, NULL, {"M=17 N=33 K=29", "M=1 N=40 K=30", NULL}},
    {"three factors",
     "dyn M <= 30, N <= 40, K <= 30\n"
     "export fn f(a: f32[M, K], b: f32[K, N], c: f32[K])\n"
     "    -> (x: f32[M, N], y: f32[M, N], z: f32[M]) {\n"
     "  x[m, n] = sum[k] a[m, k] * c[k] * b[k, n]\n"
     "  y[m, n] = sum[k] (a[m, k] * b[k, n]) / 2\n"
     "  z[m] = sum[k] a[m, k] * c[k]\n"
     "}\n",
     PIPE_BOTH, NULL, {"M=17 N=33 K=29", "M=1 N=40 K=30", NULL}},
};

static const pipe_program_t pipe_nests[] = {
    {"softmax rows",
     "import softmax (softmax)\n"
     "dyn R <= 20, N <= 700\n"
     "export fn f(x: f32[R, N]) -> (y: f32[R, N], z: bf16[R, N]) {\n"
     "  y[r, :] = softmax(x[r, :])\n"
     "  z[r, :] = softmax(2 * x[r, :])\n"
     "}\n",
     PIPE_EVERY | PIPE_INEXACT | PIPE_FUNCTIONS, NULL,
     {"R=1 N=1", "R=3 N=17", "R=20 N=513", "R=5 N=0", "R=0 N=5", NULL}},
    {"softmax columns",
     "import softmax (softmax)\n"
     "dyn R <= 70, N <= 70\n"
     "export fn f(x: f32[R, N]) -> (y: f32[R, N]) {\n"
     "  y[:, n] = softmax(x[:, n])\n"
     "}\n",
     PIPE_BOTH | PIPE_INEXACT | PIPE_FUNCTIONS, NULL,
     {"R=1 N=1", "R=3 N=17", "R=65 N=33", "R=5 N=0", "R=0 N=5", NULL}},
    {"norm",
     "dyn T <= 40\n"
     "dim D = 100\n"
     "export fn f(x: f32[T, D], w: f32[D]) -> (y: f32[T, D]) {\n"
     "  ms[t] = (sum[d] x[t, d] * x[t, d]) / D\n"
     "  y[t, d] = x[t, d] / sqrt(ms[t] + 0.5) * w[d]\n"
     "}\n",
     PIPE_BOTH | PIPE_INEXACT, NULL, {"T=1", "T=0", "T=33", NULL}},
    {"sums",
     "dyn M <= 40, N <= 300, K <= 40\n"
     "export fn f(x: f32[M, N, K], i: i32[M, N])\n"
     "    -> (a: f32[M, N], b: f32[M, K], c: f32[N, K], d: f32[M],\n"
     "    e: f32[N], g: f32[K], h: f32, j: f32[M], q: i64, l: i64[N]) {\n"
     "  a[m, n] = sum[k] x[m, n, k]\n"
     "  b[m, k] = sum[n] x[m, n, k]\n"
     "  c[n, k] = sum[m] x[m, n, k]\n"
     "  d[m] = sum[n, k] x[m, n, k]\n"
     "  e[n] = sum[m, k] x[m, n, k]\n"
     "  g[k] = sum[m, n] x[m, n, k]\n"
     "  h = sum[m, n, k] x[m, n, k]\n"
     "  j[m] = sum[n, k where n % 3 == 1 and x[m, n, k] > 0] x[m, n, k]\n"
     "  q = sum[m, n] i[m, n]\n"
     "  l[n] = sum[m where i[m, n] > 0] i[m, n] * i[m, n]\n"
     "}\n",
     PIPE_BOTH, NULL,
     {"M=1 N=1 K=1", "M=3 N=17 K=5", "M=5 N=33 K=16", "M=0 N=3 K=3",
      "M=3 N=0 K=3", "M=3 N=3 K=0", "M=20 N=100 K=3", NULL}},
    {"orders",
     "dyn M <= 40, N <= 300\n"
     "export fn f(x: f32[M, N], y: f32[M, N])\n"
     "    -> (a: f32[M], b: f32[M], c: f32[N], d: f32[N], p: f32[M],\n"
     "    q: bool[M], r: bool[M], s: bool[N], t: f32[M, N], u: f32[M, N]) {\n"
     "  a[m] = max[n] x[m, n]\n"
     "  b[m] = min[n] x[m, n]\n"
     "  c[n] = max[m] x[m, n]\n"
     "  d[n] = min[m where y[m, n] > 0] x[m, n]\n"
     "  p[m] = prod[n where n < 5] x[m, n]\n"
     "  q[m] = any[n] (x[m, n] > 3)\n"
     "  r[m] = all[n] (x[m, n] > -4)\n"
     "  s[n] = any[m] (x[m, n] == y[m, n])\n"
     "  t[m, n] = max(x[m, n], y[m, n])\n"
     "  u[m, n] = min(x[m, n], y[m, n])\n"
     "}\n",
     PIPE_EVERY, NULL,
     {"M=1 N=1", "M=3 N=17", "M=33 N=16", "M=0 N=3", "M=3 N=0", "M=9 N=257",
      NULL}},
    {"positions",
     "dyn M <= 40, N <= 300\n"
     "dim C = 9\n"
     "export fn f(x: f32[M, C], y: i32[M, C], w: f64[C, 5])\n"
     "    -> (o1: i64[M], o2: i64[M], o3: i64[C], o4: i64[M], o5: i64[M],\n"
     "    o6: i64[M]) {\n"
     "  o1[m] = argmax[c] x[m, c]\n"
     "  o2[m] = argmin[c] x[m, c]\n"
     "  o3[c] = argmax[k in 5] w[c, k]\n"
     "  o4[m] = argmax[c where x[m, c] < 0] x[m, c]\n"
     "  o5[m] = argmin[c] y[m, c]\n"
     "  o6[m] = argmax[c where c > 3 and y[m, c] > 1] y[m, c]\n"
     "}\n",
     PIPE_EVERY, NULL, {"M=1", "M=0", "M=33", NULL}},
    {"long positions",
     "dyn M <= 9\n"
     "dim N = 203\n"
     "export fn f(x: f32[M, N], h: bf16[N, M])\n"
     "    -> (a: i64[M], b: i64[M], c: i64) {\n"
     "  a[m] = argmax[n] (x[m, n] + 0.5)\n"
     "  b[m] = argmin[n] h[n, m]\n"
     "  c = argmax[n in N] h[n, 0 | -1.0]\n"
     "}\n",
     PIPE_EVERY, NULL, {"M=1", "M=0", "M=7", NULL}},
    {"topk",
     "dyn M <= 40\n"
     "dim N = 37\n"
     "export fn f(x: f32[M, N], y: i32[N]) -> (v: f32[M, 5], p: i64[M, 5],\n"
     "    w: f32[37], q: i64[37], z: f32[M, 1], r: i64[M, 1]) {\n"
     "  v[m, :], p[m, :] = topk(x[m, :], 5)\n"
     "  t[n] = f32(y[n])\n"
     "  w, q = topk(t, 37)\n"
     "  z[m, :], r[m, :] = topk(x[m, :], 1)\n"
     "}\n",
     PIPE_EVERY, NULL, {"M=1", "M=0", "M=33", NULL}},
    {"views",
     "dyn M <= 40, N <= 70\n"
     "export fn f(x: f32[M, N], id: i32[N] in M)\n"
     "    -> (a: f32[N, M], b: f32[M, N], c: f32[N], d: f32[M, 2*N],\n"
     "    e: f32[M*N], g: f32[N, 3], h: f32[M, N]) {\n"
     "  a[n, m] = x[m, n]\n"
     "  b[m, n] = x[M - 1 - m, N - 1 - n]\n"
     "  c[n] = x[id[n], n]\n"
     "  d[m, k] = x[m, k / 2] + x[m, k - N | 0.25]\n"
     "  e[k] = x[k / N, k % N]\n"
     "  g[n, j in 3] = x[n + j - 1, n - j | -1]\n"
     "  h[m, n] = if m > 0 and x[m - 1, n] > 0 then x[m - 1, n]\n"
     "      else if n >= 2 then x[m, n - 2] else 5\n"
     "}\n",
     PIPE_EVERY, NULL,
     {"M=1 N=1", "M=3 N=17", "M=33 N=16", "M=0 N=0", "M=3 N=0", "M=9 N=65",
      NULL}},
    {"chain",
     "dyn N <= 5000\n"
     "export fn f(x: f32[N], y: f32[N]) -> (z: f32[N], w: f16[N]) {\n"
     "  a[i] = x[i] * y[i]\n"
     "  b[i] = a[i] + 0.5\n"
     "  c[i]: bf16 = b[i]\n"
     "  d[i] = if c[i] > 0 then c[i] else -c[i]\n"
     "  e[i] = abs(floor(d[i] * 3) + ceil(d[i]) - round(d[i]))\n"
     "  z[i] = e[i] / 4 - x[i]\n"
     "  w[i] = min(max(d[i], -1), 1)\n"
     "}\n",
     PIPE_EVERY, NULL,
     {"N=0", "N=1", "N=15", "N=16", "N=17", "N=2047", "N=2048", "N=2049",
      "N=4999", NULL}},
    {"functions",
     "dyn N <= 300\n"
     "export fn f(x: f32[N]) -> (a: f32[N], b: f32[N], c: f32[N],\n"
     "    d: f32[N], e: f32[N], g: f32[N], h: f32[N], k: f32[N],\n"
     "    l: f32[N], m: f32[N], n: f32) {\n"
     "  a[i] = exp(x[i])\n"
     "  b[i] = log(abs(x[i]) + 0.1)\n"
     "  c[i] = tanh(x[i])\n"
     "  d[i] = erf(x[i])\n"
     "  e[i] = sin(x[i]) + cos(3 * x[i])\n"
     "  g[i] = exp2(x[i]) + log2(abs(x[i]) + 1)\n"
     "  h[i] = rsqrt(abs(x[i]) + 1)\n"
     "  k[i] = (abs(x[i]) + 0.5) ^ x[i]\n"
     "  l[i] = x[i] ^ 3 + 1 / (1 + exp(-x[i]))\n"
     "  m[i] = x[i] ^ 11\n"
     "  n = sum[i] exp(x[i])\n"
     "}\n",
     PIPE_BOTH | PIPE_INEXACT | PIPE_FUNCTIONS, NULL,
     {"N=0", "N=1", "N=17", "N=300", NULL}},
    {"still lanes",
     "dim B = 1, C = 7\n"
     "dyn N <= 40\n"
     "export fn f(x: f32[B, C], id: i32[N] in C, n: i32[C] in N)\n"
     "    -> (y: f32[N], z: f32[N, C], w: i64[C]) {\n"
     "  y[r] = sum[s in B where x[s, id[r]] > 0] x[s - s % 2, r % C]\n"
     "  z[r, c] = if r < n[id[r]] then x[0, id[r]] else x[0, c]\n"
     "  w[c] = sum[r in N where r < n[c]] 1\n"
     "}\n",
     PIPE_EVERY, NULL, {"N=1", "N=17", "N=40", NULL}},
    {"random numbers",
     "dyn N <= 300\n"
     "export fn f(s: i64) -> (a: f32[N, 7], b: f32[N]) {\n"
     "  a[i, j in 7] = uniform(s, i, j)\n"
     "  b[i] = uniform(s + 1, i) + (sum[j in 7] a[i, j])\n"
     "}\n",
     PIPE_BOTH | PIPE_INEXACT, "N=200", {"", NULL}},
};

static const pipe_program_t pipe_types[] = {
    {"storage",
     "dyn N <= 300\n"
     "export fn f(a: f64[N], b: f32[N], c: f16[N], d: bf16[N], e: f8e4m3[N],\n"
     "    g: f8e5m2[N], h: i64[N], i: i32[N], j: i8[N], k: u8[N], l: bool[N])\n"
     "    -> (oa: f64[N], ob: f32[N], oc: f16[N], od: bf16[N],\n"
     "    oe: f8e4m3[N], og: f8e5m2[N], oh: i64[N], oi: i32[N], oj: i8[N],\n"
     "    ok: u8[N], ol: bool[N]) {\n"
     "  oa[n] = a[n] + b[n] * 0.5\n"
     "  ob[n] = c[n] * 1.25 + d[n]\n"
     "  oc[n] = b[n] * 3.3\n"
     "  od[n] = b[n] * 1.7 + e[n]\n"
     "  oe[n] = a[n] * 1.1\n"
     "  og[n] = b[n] * 30.3 + g[n]\n"
     "  oh[n] = h[n] * 3 + i[n]\n"
     "  oi[n] = i[n] * i[n] - j[n]\n"
     "  oj[n] = i8(i32(b[n] * 100))\n"
     "  ok[n] = u8(k[n] / 2 + k[n] % 3)\n"
     "  ol[n] = l[n] and b[n] > 0 or not l[n] and k[n] < 4\n"
     "}\n",
     PIPE_EVERY | PIPE_INEXACT, NULL,
     {"N=0", "N=1", "N=17", "N=300", NULL}},
    {"narrow sums",
     "dyn N <= 3000\n"
     "export fn f(a: f16[N], b: bf16[N], c: f8e4m3[N], d: f64[N], j: i8[N],\n"
     "    k: u8[N]) -> (sa: f16, sb: bf16, sc: f32, sd: f64, sj: i64,\n"
     "    sk: i64, ma: f16, mb: bf16, mj: i64, mk: i64, pd: f64) {\n"
     "  sa = sum[n] a[n]\n"
     "  sb = sum[n] b[n]\n"
     "  sc = sum[n] c[n] * b[n]\n"
     "  sd = sum[n] d[n]\n"
     "  sj = sum[n] j[n]\n"
     "  sk = sum[n] k[n] * k[n]\n"
     "  ma = max[n] a[n]\n"
     "  mb = min[n] b[n]\n"
     "  mj = max[n] j[n]\n"
     "  mk = min[n] k[n]\n"
     "  pd = prod[n where n < 4] d[n]\n"
     "}\n",
     PIPE_BOTH, NULL, {"N=0", "N=1", "N=17", "N=2999", NULL}},
    {"casts",
     "dyn N <= 300\n"
     "export fn f(x: f32[N], w: f64[N], i: i64[N])\n"
     "    -> (a: i64[N], b: i32[N], c: i8[N], d: u8[N], e: f32[N],\n"
     "    g: f16[N], h: f32[N], k: bool[N]) {\n"
     "  a[n] = i64(x[n] * 3.7)\n"
     "  b[n] = i32(w[n] * 1e9)\n"
     "  c[n] = i8(x[n] * 99)\n"
     "  d[n] = u8(x[n] * 99)\n"
     "  e[n] = f32(i[n]) / 3\n"
     "  g[n] = f16(w[n] * 10000)\n"
     "  h[n] = f32(w[n]) + bf16(x[n])\n"
     "  k[n] = i[n] % 2 != 0\n"
     "}\n",
     PIPE_EVERY | PIPE_INEXACT, NULL,
     {"N=0", "N=1", "N=17", "N=300", NULL}},
    {"integers",
     "dyn N <= 300\n"
     "export fn f(x: i64[N], y: i32[N]) -> (a: i64[N], b: i64[N],\n"
     "    c: i64[N], d: i64[N], e: i64, g: i64, h: i64) {\n"
     "  a[n] = x[n] / 3 + x[n] % 3\n"
     "  b[n] = (x[n] - 7) / 4 * n + (y[n] - 9) % 5\n"
     "  c[n] = max(x[n], y[n]) - min(x[n], n)\n"
     "  d[n] = abs(x[n]) ^ 3 - x[n] ^ 2\n"
     "  e = prod[n where n < 7] x[n]\n"
     "  g = max[n where x[n] < 0] x[n]\n"
     "  h = min[n] x[n]\n"
     "}\n",
     PIPE_DO_EXACT, NULL, {"N=0", "N=1", "N=17", "N=300", NULL}},
};

static const pipe_program_t pipe_updates[] = {
    {"scatter",
     "dyn N <= 60, M <= 60\n"
     "export fn f(c: inout f32[M, 20], x: f32[N, 20], id: i32[N] in M,\n"
     "    h: inout bf16[M]) -> (y: f32[M, 20]) {\n"
     "  c[id[n], d] += x[n, d] * 0.5\n"
     "  h[id[n]] += x[n, 3]\n"
     "  y[m, d] = c[m, d] + 1\n"
     "}\n",
     PIPE_BOTH, NULL,
     {"N=1 M=1", "N=0 M=4", "N=60 M=7", "N=20 M=60", NULL}},
    {"scatter shapes",
     "dyn N <= 60, M <= 60\n"
     "export fn f(a: inout f32[M, 5, 20], b: inout f32[20, M], x: f32[N, 20],\n"
     "    id: i32[N] in M, k: i32[N, 20] in M, c: inout f32[20, 20],\n"
     "    e: inout i32[M, 3]) {\n"
     "  a[id[n], j in 5, d] += x[n, d] * f32(j) where n != j\n"
     "  b[d, id[n]] += x[n, d] * x[n, d]\n"
     "  b[d, k[n, d]] += x[n, d] where x[n, d] > 0\n"
     "  a[k[n, d], 2, d] += x[n, d]\n"
     "  c[d, d] += x[0, d | 0]\n"
     "  e[id[n], j in 3] += i32(1 + j)\n"
     "}\n",
     PIPE_BOTH, NULL,
     {"N=1 M=1", "N=0 M=4", "N=60 M=7", "N=20 M=60", NULL}},
    {"mixed sums",
     "dyn N <= 60, M <= 60\n"
     "export fn f(c: inout f64[M], x: f32[N], y: f64[N], id: i32[N] in M,\n"
     "    h: inout bf16[M], g: inout f32[2*N], k: inout i32[M],\n"
     "    w: inout f64[N])\n"
     "{\n"
     "  c[id[n]] += x[n] * 0.37\n"
     "  h[id[n]] += y[n] * 0.37\n"
     "  g[2*n] += y[n] * y[n]\n"
     "  w[n] += x[n] * x[n]\n"
     "  k[id[n]] += i32(x[n])\n"
     "}\n",
     PIPE_BOTH | PIPE_INEXACT, NULL, {"N=1 M=1", "N=60 M=7", NULL}},
    {"distinct",
     "dyn N <= 60\n"
     "export fn f(c: inout f32[2*N + 1, 20], x: f32[N, 20])\n"
     "    -> (y: f32[2*N + 1]) {\n"
     "  c[2*n + 1, d] := x[n, d] where d != 3\n"
     "  c[2*n, d] += x[n, d] * x[n, d]\n"
     "  y[m] = c[m, 0]\n"
     "}\n",
     PIPE_BOTH, NULL, {"N=1", "N=0", "N=60", NULL}},
    {"distinct lanes",
     "dyn N <= 60\n"
     "export fn f(c: inout f32[N, 40], x: f32[N, 40], u: inout f32[7, N],\n"
     "    r: inout f32[N, 2]) {\n"
     "  c[n, d] := x[n, d] * 2 where d % 3 != 1 and x[n, d] > -2\n"
     "  c[N - 1 - n, 39 - d] += x[n, d]\n"
     "  u[d, n] := x[n, d + 3] where n > 2\n"
     "  r[n, 1] := x[n, 5]\n"
     "}\n",
     PIPE_BOTH, NULL, {"N=1", "N=0", "N=60", NULL}},
    {"in place",
     "dyn N <= 60\n"
     "export fn f(x: inout f32[N, N]) { x[i, j] := x[i, j] + x[j, i] }\n"
     "export fn g(x: inout f32[N]) { t = sum[i] x[i]\n"
     "  x[i] := x[i] + t }\n"
     "export fn h(x: inout f32[N]) { x[N - 1 - i] := x[i] }\n"
     "export fn k(x: inout f32[N], y: inout f32[N]) -> (z: f32[N]) {\n"
     "  a = x\n"
     "  x := y\n"
     "  y := a\n"
     "  x[i] += 1\n"
     "  z = x + 2 * y + a\n"
     "}\n"
     "export fn l(x: inout f32[N]) -> (z: f32[N]) {\n"
     "  z[i] = x[i] * 2\n"
     "  x[i] := z[i] + x[N - 1 - i] where i > 0\n"
     "}\n",
     PIPE_BOTH, NULL, {"N=1", "N=0", "N=2", "N=33", "N=60", NULL}},
    {"locals",
     "dyn N <= 60\n"
     "export fn f(x: f32[N], p: i32[N] in N) -> (y: f32[N], z: f32[N]) {\n"
     "  var a[i] = x[i] * 2\n"
     "  b[i] = a[i] + 1\n"
     "  a[i] := b[N - 1 - i] where i % 2 == 0\n"
     "  var c = b\n"
     "  c += a\n"
     "  c[p[i]] += x[i]\n"
     "  y = a + c\n"
     "  z = b\n"
     "}\n",
     PIPE_BOTH, NULL, {"N=1", "N=0", "N=2", "N=33", "N=60", NULL}},
    {"caches",
     "dim L = 3, G = 2, K = 8\n"
     "dyn B <= 4, T <= 9, S <= 40\n"
     "export fn f(c: inout bf16[L, B, S, G, K], x: f32[B, T, G, K],\n"
     "    pos: i32[B] in S) -> (y: f32[B, S]) {\n"
     "  for l in L {\n"
     "    c[l, b, pos[b] + t, g, k] := x[b, t, g, k] + f32(l)\n"
     "        where pos[b] + t < S\n"
     "  }\n"
     "  y[b, s] = sum[l in L, g, k] c[l, b, s, g, k] * c[l, b, s, g, k]\n"
     "}\n",
     PIPE_BOTH, NULL,
     {"B=1 T=1 S=1", "B=4 T=9 S=40", "B=0 T=3 S=3", "B=3 T=0 S=5", NULL}},
};

static const pipe_program_t pipe_loops[] = {
    {"carried",
     "dyn N <= 60\n"
     "export fn f(x: f32[N], k: i32 in 9) -> (y: f32[N], s: f32, z: i64) {\n"
     "  var a = x\n"
     "  var t = 1.0\n"
     "  var n = 0\n"
     "  for i in 1 .. 4 {\n"
     "    a[j] := a[N - 1 - j] * 0.5 + f32(i)\n"
     "    t := t + (sum[j] a[j])\n"
     "    for q in k { n += q * i }\n"
     "  }\n"
     "  y = a\n"
     "  s = t\n"
     "  z = n\n"
     "}\n",
     PIPE_BOTH | PIPE_INEXACT, NULL, {"N=1", "N=0", "N=33", NULL}},
    {"swap",
     "dyn N <= 60\n"
     "export fn f(x: f32[N], y: f32[N], k: i32 in 9)\n"
     "    -> (p: f32[N], q: f32[N]) {\n"
     "  var a = x\n"
     "  var b = y\n"
     "  for i in k {\n"
     "    c = a\n"
     "    a := b\n"
     "    b := c\n"
     "    a[j] += 1\n"
     "  }\n"
     "  p = a\n"
     "  q = b\n"
     "}\n",
     PIPE_BOTH, NULL, {"N=1", "N=0", "N=33", NULL}},
    {"layers",
     "dim L = 3, D = 40, F = 24\n"
     "dyn T <= 20\n"
     "export fn f(x: f32[T, D], w: f32[L, F, D], v: f32[L, D, F])\n"
     "    -> (y: f32[T, D]) {\n"
     "  var h = x\n"
     "  for l in L {\n"
     "    a[t, f] = max(sum[d] h[t, d] * w[l, f, d], 0) * 0.125\n"
     "    h[t, d] := h[t, d] + (sum[f] a[t, f] * v[l, d, f]) * 0.125\n"
     "  }\n"
     "  y = h\n"
     "}\n",
     PIPE_BOTH | PIPE_INEXACT, NULL, {"T=1", "T=0", "T=20", NULL}},
    {"data bounds",
     "dyn N <= 60\n"
     "export fn f(x: f32[N], first: i32, to: i32[2]) -> (y: f32[N]) {\n"
     "  var a = x\n"
     "  for i in first * 2 .. to[0] + to[1] { a[j] += f32(i) }\n"
     "  y = a\n"
     "}\n",
     PIPE_BOTH, NULL, {"N=1", "N=33", NULL}},
};

#endif
