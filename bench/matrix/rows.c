/* rows.c: shapes and programs of the matrix. The ids, shapes and bars are
 * those of the project's benchmark plan; a row's program is what a user
 * would write, with its dims as numbers. */
#include "bench/matrix/matrix.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- peers of the rows --------------------------------------------------- */

static void peer_product(const row_t *r, const peer_t *p, float **slots,
                         float *out) {
  size_t a = (size_t)r->m * (size_t)r->k, b = (size_t)r->k * (size_t)r->n;
  size_t c = (size_t)r->m * (size_t)r->n;
  for (size_t z = 0; z < (size_t)r->batch; z++) {
    p->gemm(p, 0, r->m, r->n, r->k, slots[0] + z * a, slots[1] + z * b,
            out + z * c);
  }
}

static void peer_linear(const row_t *r, const peer_t *p, float **slots,
                        float *out) {
  p->gemm(p, 1, r->m, r->n, r->k, slots[0], slots[1], out);
}

/* Scores, softmax and values by two products a head, with the T x T matrix
 * of one head in memory. */
static void peer_attention(const row_t *r, const peer_t *p, float **slots,
                           float *out) {
  size_t s = (size_t)r->n, d = (size_t)r->k, t = (size_t)r->m;
  float *scores = malloc(t * s * sizeof *scores);
  if (scores == NULL) exit(1);
  for (size_t h = 0; h < (size_t)r->heads; h++) {
    p->gemm(p, 1, r->m, r->n, r->k, slots[0] + h * t * d,
            slots[1] + h * s * d, scores);
    for (size_t i = 0; i < t; i++) {
      float *row = scores + i * s, most = -INFINITY, sum = 0;
      size_t end = r->is_causal ? i + 1 : s;
      for (size_t j = 0; j < end; j++) {
        row[j] *= 0.125f;
        most = row[j] > most ? row[j] : most;
      }
      for (size_t j = 0; j < end; j++) {
        row[j] = expf(row[j] - most);
        sum += row[j];
      }
      for (size_t j = 0; j < end; j++) row[j] /= sum;
      for (size_t j = end; j < s; j++) row[j] = 0;
    }
    p->gemm(p, 0, r->m, r->k, r->n, scores, slots[2] + h * s * d,
            out + h * t * d);
  }
  free(scores);
}

/* What processes are asked for: a word of bench/peers and its numbers. */
static void task(row_t *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)vsnprintf(r->task, sizeof r->task, format, args);
  va_end(args);
}

/* ---- programs ------------------------------------------------------------ */

static void product(row_t *r, const char *id, int m, int n, int k, int batch,
                    double share, double ratio) {
  r->id = id;
  r->m = m;
  r->n = n;
  r->k = k;
  r->batch = batch;
  r->work = 2.0 * m * n * k * batch;
  r->kind = OF_FMA;
  r->least_share = share;
  r->least_ratio = ratio;
  r->peer = peer_product;
  task(r, "gemm 0 %d %d %d %d", m, n, k, batch);
  if (batch == 1) {
    (void)snprintf(r->name, sizeof r->name, "product %dx%dx%d", m, n, k);
    (void)snprintf(r->source, sizeof r->source,
                   "dim M = %d, N = %d, K = %d\n"
                   "export fn mm(a: f32[M, K], b: f32[K, N]) -> c: f32[M, N] "
                   "{\n  c[m, n] = sum[k] a[m, k] * b[k, n]\n}\n",
                   m, n, k);
  } else {
    (void)snprintf(r->name, sizeof r->name, "%d products %dx%dx%d", batch, m,
                   n, k);
    (void)snprintf(r->source, sizeof r->source,
                   "dim B = %d, M = %d, N = %d, K = %d\n"
                   "export fn mm(a: f32[B, M, K], b: f32[B, K, N]) -> "
                   "c: f32[B, M, N] {\n"
                   "  c[z, m, n] = sum[k] a[z, m, k] * b[z, k, n]\n}\n",
                   batch, m, n, k);
  }
}

/* x w^T + bias, then GELU, weights bound from a file and constant; the peer
 * makes the product only, which no library composed of two steps can be
 * faster than. */
static void linear_gelu(row_t *r, int m, int n, int k) {
  r->id = "C2";
  r->m = m;
  r->n = n;
  r->k = k;
  r->work = 2.0 * m * n * k;
  r->kind = OF_FMA;
  r->least_share = 0.84;
  r->least_ratio = 1.0;
  r->peer = peer_linear;
  r->peer_note = "product only";
  task(r, "linear_gelu %d %d %d", m, n, k);
  (void)snprintf(r->name, sizeof r->name, "linear+gelu %dx%dx%d", m, n, k);
  (void)snprintf(r->source, sizeof r->source,
                 "dim M = %d, N = %d, K = %d\n"
                 "struct Linear { w: f32[N, K] from \"w\"; "
                 "b: f32[N] from \"b\" }\n"
                 "export fn f(x: f32[M, K], l: Linear) -> y: f32[M, N] {\n"
                 "  h[m, n] = sum[k] x[m, k] * l.w[n, k]\n"
                 "  z[m, n] = h[m, n] + l.b[n]\n"
                 "  y[m, n] = 0.5 * z[m, n] * (1 + erf(z[m, n] * "
                 "0.70710678))\n}\n",
                 m, n, k);
}

/* Weights of 64 MiB that no cache holds. The ceiling is the lesser of the
 * two: M/2 FLOP for each byte read, or the multiply-adds. */
static void small_batch(row_t *r, int m) {
  enum { WIDE = 4096 };
  r->id = "C4";
  r->m = m;
  r->n = r->k = WIDE;
  r->work = 4.0 * WIDE * WIDE;
  r->kind = OF_STREAM;
  r->least_share = m <= 8 ? 0.85 : 0;
  r->least_ratio = m == 8 ? 1.5 : 0;
  r->sets = 4;
  r->rotating = 1u << 1;
  r->peer = peer_linear;
  task(r, "gemm 1 %d %d %d 1", m, WIDE, WIDE);
  (void)snprintf(r->name, sizeof r->name, "linear M=%d, cold 64 MiB", m);
  (void)snprintf(r->source, sizeof r->source,
                 "dim M = %d, N = 4096, K = 4096\n"
                 "export fn f(x: f32[M, K], w: f32[N, K]) -> y: f32[M, N] {\n"
                 "  y[m, n] = sum[k] x[m, k] * w[n, k]\n}\n",
                 m);
}

static void gemv(row_t *r, const char *dtype, double width, int n) {
  r->id = "C5";
  r->m = 1;
  r->n = n;
  r->k = 4096;
  r->work = width * n * 4096;
  r->kind = OF_STREAM;
  r->least_share = 0.9;
  r->sets = 4;
  r->rotating = 1u << 0;
  r->tolerance = width < 4 ? 2e-3 : 0; /* ggml rounds x to 16 bits */
  task(r, "gemv %s %d %d", dtype, n, r->k);
  (void)snprintf(r->name, sizeof r->name, "gemv %s 4096x%d, cold", dtype, n);
  (void)snprintf(r->source, sizeof r->source,
                 "dim N = %d, K = 4096\n"
                 "export fn f(w: %s[N, K], x: f32[K]) -> y: f32[N] {\n"
                 "  y[n] = sum[k] f32(w[n, k]) * x[k]\n}\n",
                 n, dtype);
}

/* Bound as weights, which are laid out once as their product likes; too many
 * for the caches. */
static void gemv_weights(row_t *r, const char *dtype, double width, int n) {
  gemv(r, dtype, width, n);
  r->sets = 1;
  r->rotating = 0;
  (void)snprintf(r->name, sizeof r->name, "gemv %s 4096x%d, weights", dtype,
                 n);
  (void)snprintf(r->source, sizeof r->source,
                 "dim N = %d, K = 4096\n"
                 "struct W { a: %s[N, K] from \"a\" }\n"
                 "export fn f(w: W, x: f32[K]) -> y: f32[N] {\n"
                 "  y[n] = sum[k] f32(w.a[n, k]) * x[k]\n}\n",
                 n, dtype);
}

/* Codes in groups of 32 with a scale of 16 bits each: 8 bits, or 4 with 8 for
 * zero, two to a byte, low half first. */
static void gemv_groups(row_t *r, int bits, int n) {
  double bytes = bits == 4 ? 18.0 / 32 : 34.0 / 32;
  gemv_weights(r, bits == 4 ? "q4" : "q8", bytes, n);
  r->tolerance = 6e-2; /* peers round x to 8 bits */
  (void)snprintf(
      r->source, sizeof r->source,
      "dim N = %d, K = 4096\n"
      "struct W { w: %s from \"w\"; s: f16[N, K / 32] from \"s\" }\n"
      "export fn f(m: W, x: f32[K]) -> y: f32[N] {\n"
      "  y[n] = sum[k] (f32(%s) * f32(m.s[n, k / 32])) * x[k]\n}\n",
      n, bits == 4 ? "u8[N, K / 2]" : "i8[N, K]",
      bits == 4 ? "(if k % 2 == 0 then m.w[n, k / 2] % 16 "
                  "else m.w[n, k / 2] / 16) - 8"
                : "m.w[n, k]");
}

static void row_wise(row_t *r, const char *what, const char *word,
                     const char *body, int rows, int columns, int reads) {
  r->id = "C6";
  r->m = rows;
  r->n = columns;
  r->work = 4.0 * rows * columns * (reads + 1);
  r->kind = OF_COPY;
  /* what stays in a cache is only compared */
  bool is_cold = 4.0 * rows * columns >= 64 << 20;
  r->least_share = is_cold ? 0.9 : 0;
  r->least_ratio = is_cold ? 1.2 : 1.5;
  task(r, "%s %d %d", word, rows, columns);
  (void)snprintf(r->name, sizeof r->name, "%s %dx%d", what, rows, columns);
  (void)snprintf(r->source, sizeof r->source,
                 "import softmax (softmax)\ndim R = %d, C = %d\n%s", rows,
                 columns, body);
}

static const char softmax_body[] =
    "export fn f(x: f32[R, C]) -> y: f32[R, C] {\n"
    "  y[r, :] = softmax(x[r, :])\n}\n";
static const char norm_body[] =
    "export fn f(x: f32[R, C], s: f32[R, C], w: f32[C]) -> y: f32[R, C] {\n"
    "  h[r, c] = x[r, c] + s[r, c]\n"
    "  q[r] = sum[c] h[r, c] * h[r, c]\n"
    "  y[r, c] = h[r, c] * rsqrt(q[r] / f32(C) + 1e-5) * w[c]\n}\n";
static const char layer_body[] =
    "export fn f(x: f32[R, C], w: f32[C], b: f32[C]) -> y: f32[R, C] {\n"
    "  m[r] = (sum[c] x[r, c]) / f32(C)\n"
    "  v[r] = (sum[c] (x[r, c] - m[r]) * (x[r, c] - m[r])) / f32(C)\n"
    "  z[r, c] = (x[r, c] - m[r]) * rsqrt(v[r] + 1e-5) * w[c] + b[c]\n"
    "  y[r, c] = 0.5 * z[r, c] * (1 + erf(z[r, c] * 0.70710678))\n}\n";

static void attention(row_t *r, const char *id, int queries, int keys,
                      int width, int is_causal) {
  r->id = id;
  r->m = queries;
  r->n = keys;
  r->k = width;
  r->heads = 12;
  r->is_causal = is_causal;
  if (queries == 1) {
    r->work = 2.0 * 4.0 * r->heads * keys * width; /* keys and values */
    r->kind = OF_STREAM;
    r->least_share = 0.9;
  } else {
    r->work = 4.0 * r->heads * queries * (double)keys * width;
    if (is_causal) r->work *= 0.5 * (keys + 1.0) / keys;
    r->kind = OF_FMA;
    r->least_share = width == 64 ? 0.75 : 0.80;
    r->least_ratio = 1.15;
    r->peer = peer_attention;
    r->peer_note = "two products and a softmax";
    task(r, "attention 12 12 %d %d %d %s", queries, keys, width,
         is_causal ? "causal" : "full");
  }
  (void)snprintf(r->name, sizeof r->name, "attention H12 D%d S%d%s", width,
                 keys, queries == 1 ? " one query" : is_causal ? " causal"
                                                               : "");
  (void)snprintf(
      r->source, sizeof r->source,
      "dim H = 12, T = %d, S = %d, D = %d\n"
      "export fn f(q: f32[H, T, D], k: f32[H, S, D], v: f32[H, S, D]) -> "
      "o: f32[H, T, D] {\n"
      "  r[h, t, j] = (sum[d] q[h, t, d] * k[h, j, d]) * 0.125\n"
      "  s[h, t, j] = %s\n"
      "  m[h, t] = max[j] s[h, t, j]\n"
      "  e[h, t, j] = exp(s[h, t, j] - m[h, t])\n"
      "  l[h, t] = sum[j] e[h, t, j]\n"
      "  o[h, t, d] = (sum[j] e[h, t, j] * v[h, j, d]) / l[h, t]\n}\n",
      queries, keys, width,
      is_causal ? "if j <= t then r[h, t, j] else -inf" : "r[h, t, j]");
}

/* ---- losses over a vocabulary -------------------------------------------- */

static const char loss_body[] =
    "export fn f(x: f32[R, V], y: i32[R] in V) -> l: f32[R] {\n"
    "  m[r] = max[v] x[r, v]\n"
    "  s[r] = sum[v] exp(x[r, v] - m[r])\n"
    "  l[r] = m[r] + log(s[r]) - x[r, y[r]]\n}\n";
static const char fused_loss_body[] =
    "export fn f(h: f32[R, D], w: f32[V, D], y: i32[R] in V) -> l: f32[R] {\n"
    "  x[r, v] = sum[d] h[r, d] * w[v, d]\n"
    "  m[r] = max[v] x[r, v]\n"
    "  s[r] = sum[v] exp(x[r, v] - m[r])\n"
    "  l[r] = m[r] + log(s[r]) - x[r, y[r]]\n}\n";

static void loss(row_t *r, int rows, int labels) {
  r->id = "C7";
  r->m = rows;
  r->n = labels;
  r->work = 4.0 * rows * labels;
  r->kind = OF_STREAM;
  r->least_share = 0.9;
  r->sets = 2;
  r->rotating = 1u << 0;
  task(r, "cross_entropy %d %d", rows, labels);
  (void)snprintf(r->name, sizeof r->name, "cross-entropy %dx%d", rows,
                 labels);
  (void)snprintf(r->source, sizeof r->source, "dim R = %d, V = %d\n%s", rows,
                 labels, loss_body);
}

static void fused_loss(row_t *r, int rows, int depth, int labels) {
  r->id = "C7";
  r->m = rows;
  r->n = labels;
  r->k = depth;
  r->work = 2.0 * rows * labels * depth;
  r->kind = OF_FMA;
  r->least_ratio = 1.2;
  task(r, "linear_cross_entropy %d %d %d", rows, depth, labels);
  (void)snprintf(r->name, sizeof r->name, "linear+loss %dx%d, %d", rows,
                 depth, labels);
  (void)snprintf(r->source, sizeof r->source,
                 "dim R = %d, D = %d, V = %d\n%s", rows, depth, labels,
                 fused_loss_body);
}

/* A quarter of the logits, which PyTorch keeps at least once. */
static void loss_memory(row_t *r, int rows, int depth, int labels) {
  fused_loss(r, rows, depth, labels);
  r->kind = OF_MEMORY;
  r->work = 4.0 * rows * labels / 4;
  r->least_share = 1;
  r->least_ratio = 0;
  r->task[0] = '\0';
  r->measure = memory_measure;
  (void)snprintf(r->name, sizeof r->name, "linear+loss, intermediates");
}

/* ---- models -------------------------------------------------------------- */

static void model(row_t *r, const char *arch, const char *dtype, int tokens) {
  int is_llama = strcmp(arch, "llama") == 0;
  r->id = "C11";
  r->m = tokens;
  r->file = arch;
  r->dtype = dtype;
  r->kind = tokens > 1 ? OF_FMA : OF_STREAM;
  r->least_share = tokens > 1 ? 0 : 0.88;
  r->least_ratio = tokens > 1 ? 1.1 : 1.0;
  r->tolerance = strcmp(dtype, "f32") == 0 ? 2e-3 : 6e-2;
  r->measure = model_measure;
  if (tokens > 1) {
    (void)snprintf(r->name, sizeof r->name, "%s %s prefill %d",
                   is_llama ? "Llama-1B/4" : "GPT-2", dtype, tokens);
  } else {
    (void)snprintf(r->name, sizeof r->name, "%s %s decode",
                   is_llama ? "Llama-1B/4" : "GPT-2", dtype);
  }
}

/* ---- start --------------------------------------------------------------- */

static const char block_source[] =
    "import softmax (softmax)\n"
    "dim T = 64, E = 256, H = 4, D = 64, F = 1024\n"
    "export fn block(x: f32[T, E], wq: f32[E, E], wo: f32[E, E], "
    "w1: f32[F, E], w2: f32[E, F]) -> y: f32[T, E] {\n"
    "  m[t] = (sum[e] x[t, e] * x[t, e]) / f32(E)\n"
    "  n[t, e] = x[t, e] * rsqrt(m[t] + 1e-5)\n"
    "  q[t, e] = sum[i] n[t, i] * wq[e, i]\n"
    "  s[h in H, t, u] = (sum[d in D] q[t, h * D + d] * q[u, h * D + d]) "
    "* 0.125\n"
    "  p[h, t, :] = softmax(s[h, t, :])\n"
    "  a[t, h in H, d in D] = sum[u] p[h, t, u] * q[u, h * D + d]\n"
    "  o[t, e] = sum[i in E] a[t, i / D, i % D] * wo[e, i]\n"
    "  r[t, e] = x[t, e] + o[t, e]\n"
    "  f[t, k] = max(sum[e] r[t, e] * w1[k, e], 0)\n"
    "  y[t, e] = r[t, e] + (sum[k] f[t, k] * w2[e, k])\n}\n";

/* From text to the first result, cold or with kernels on disk. */
static void start(row_t *r, const char *what, const char *source,
                  const char *cache, double bar) {
  r->id = "C12";
  r->kind = OF_TIME;
  r->work = bar;
  r->least_share = 1;
  r->dtype = cache;
  r->measure = start_measure;
  (void)snprintf(r->name, sizeof r->name, "%s, %s", what, cache);
  if (source != r->source) {
    (void)snprintf(r->source, sizeof r->source, "%s", source);
  }
}

static void start_product(row_t *r, const char *cache, double bar) {
  product(r, "C12", 256, 256, 256, 1, 0, 0);
  start(r, "product 256x256x256", r->source, cache, bar);
  r->task[0] = '\0';
}

/* The bar is of the cold start: binding reads half a gigabyte either way. */
static void start_model(row_t *r, int is_cached) {
  model(r, "gpt2", "f32", 1);
  r->id = "C12";
  r->k = is_cached;
  r->kind = OF_TIME;
  r->work = 1.5;
  r->least_share = 1;
  r->least_ratio = 0;
  r->measure = model_start;
  (void)snprintf(r->name, sizeof r->name, "GPT-2, first token, %s",
                 is_cached ? "cached" : "cold");
}

/* ---- the list ------------------------------------------------------------ */

static int wanted(const char *ids, const char *id) {
  if (ids == NULL) return 1;
  size_t n = strlen(id);
  for (const char *at = ids; *at != '\0'; at++) {
    int begins = at == ids || at[-1] == ',';
    if (begins && strncmp(at, id, n) == 0 &&
        (at[n] == ',' || at[n] == '\0')) {
      return 1;
    }
  }
  return 0;
}

int matrix_rows(const char *ids, row_t *out, int most) {
  int count = 0;
  static row_t none;
/* A row is made in place and stays only if it is asked for. */
#define ADD(call)                                                     \
  do {                                                                \
    row_t *r = &out[count];                                           \
    *r = none;                                                        \
    r->sets = r->batch = 1;                                           \
    call;                                                             \
    if (wanted(ids, r->id) && count + 1 < most) count++;              \
  } while (0)
  ADD(product(r, "C1", 256, 256, 256, 1, 0, 0.97));
  ADD(product(r, "C1", 512, 512, 512, 1, 0, 0.97));
  ADD(product(r, "C1", 1024, 1024, 1024, 1, 0.92, 0.97));
  ADD(product(r, "C1", 2048, 2048, 2048, 1, 0.92, 0.97));
  ADD(linear_gelu(r, 128, 768, 768));
  ADD(linear_gelu(r, 128, 3072, 768));
  ADD(linear_gelu(r, 128, 768, 3072));
  ADD(linear_gelu(r, 512, 4096, 1024));
  ADD(product(r, "C3", 37, 1021, 509, 1, 0.83, 1.0));
  ADD(product(r, "C3", 1000, 1000, 1000, 1, 0.83, 1.0));
  ADD(product(r, "C3", 127, 127, 127, 1, 0.83, 1.0));
  ADD(product(r, "C3", 129, 129, 129, 1, 0.83, 1.0));
  ADD(product(r, "C3", 4096, 128, 64, 1, 0.92, 1.0));
  ADD(product(r, "C3", 64, 64, 64, 256, 0.83, 1.0));
  for (int m = 2; m <= 32; m *= 2) ADD(small_batch(r, m));
  ADD(gemv(r, "f32", 4, 4096));
  ADD(gemv(r, "f32", 4, 11008));
  ADD(gemv(r, "f16", 2, 11008));
  ADD(gemv_weights(r, "f16", 2, 16384));
  ADD(gemv_weights(r, "i8", 1, 32768));
  ADD(gemv_groups(r, 8, 32768));
  ADD(gemv_groups(r, 4, 65536));
  ADD(row_wise(r, "softmax", "softmax", softmax_body, 4096, 4096, 1));
  ADD(row_wise(r, "residual+norm", "residual_norm", norm_body, 4096, 4096, 2));
  ADD(row_wise(r, "layernorm+gelu", "layernorm_gelu", layer_body, 4096, 4096,
               1));
  ADD(row_wise(r, "softmax", "softmax", softmax_body, 512, 1024, 1));
  ADD(row_wise(r, "residual+norm", "residual_norm", norm_body, 512, 1024, 2));
  ADD(row_wise(r, "layernorm+gelu", "layernorm_gelu", layer_body, 512, 1024,
               1));
  ADD(loss(r, 512, 32000));
  ADD(fused_loss(r, 512, 768, 50257));
  ADD(loss_memory(r, 512, 768, 50257));
  ADD(attention(r, "C8", 512, 512, 64, 0));
  ADD(attention(r, "C8", 2048, 2048, 64, 0));
  ADD(attention(r, "C8", 2048, 2048, 64, 1));
  ADD(attention(r, "C8", 2048, 2048, 128, 0));
  ADD(row_masked(r, "full", 12, 8192, 64));
  ADD(row_masked(r, "window", 12, 2048, 64));
  ADD(row_masked(r, "alibi", 12, 2048, 64));
  ADD(row_masked(r, "full", 3, 2048, 64));
  ADD(attention(r, "C9", 1, 4096, 128, 0));
  ADD(attention(r, "C9", 1, 32768, 128, 0));
  for (int keys = 4096; keys <= 32768; keys *= 8) {
    for (int is_paged = 0; is_paged < 2; is_paged++) {
      ADD(row_decode(r, "f32", is_paged, keys));
      ADD(row_decode(r, "f16", is_paged, keys));
    }
  }
  static const char *const types[] = {"f32", "f16", "i8"};
  for (int t = 0; t < 3; t++) {
    ADD(model(r, "llama", types[t], 128));
    ADD(model(r, "llama", types[t], 512));
    ADD(model(r, "llama", types[t], 1));
  }
  for (int t = 0; t < 2; t++) {
    ADD(model(r, "gpt2", types[t], 128));
    ADD(model(r, "gpt2", types[t], 512));
    ADD(model(r, "gpt2", types[t], 1));
  }
  ADD(start_product(r, "cold", 0.3));
  ADD(start_product(r, "cached", 0.01));
  ADD(start(r, "transformer block", block_source, "cold", 0.3));
  ADD(start(r, "transformer block", block_source, "cached", 0.01));
  ADD(start_model(r, 0));
  ADD(start_model(r, 1));
#undef ADD
  return count;
}
