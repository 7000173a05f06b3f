/* attend.c: rows of attention with masks, with few heads of keys, and of one
 * query.  How a masked row is judged: it may take the share of a full one's
 * time that it has of its elements, and a tenth of a full one's more; so its
 * bar is 75 % of the ceiling, of elements that count, times f / (f + 0.1). */
#include <stdio.h>

#include "bench/matrix/matrix.h"

enum { HEADS = 12, WINDOW = 256 };

/* Elements of T x T that a mask leaves. */
static double elements(const char *mask, double t) {
  if (mask[0] == 'w') {
    return WINDOW * t - 0.5 * WINDOW * (WINDOW - 1.0);
  }
  return t * t;
}

/* mask: "full", "window" or "alibi". */
void row_masked(row_t *r, const char *mask, int kv_heads, int length,
                int width) {
  const char *score = "r[h, t, j]";
  double n = length, share = elements(mask, n) / (n * n);
  r->id = "C8";
  r->m = r->n = length;
  r->k = width;
  r->heads = HEADS;
  r->kind = OF_FMA;
  r->work = 4.0 * HEADS * width * elements(mask, n);
  r->least_share = width == 64 ? 0.75 : 0.80;
  if (mask[0] == 'w') {
    score = "if j <= t and t - j < 256 then r[h, t, j] else -inf";
  } else if (mask[0] == 'a') {
    score = "r[h, t, j] - f32(t - j) * 2.0 ^ (-8.0 * f32(h + 1) / 12)";
  }
  if (mask[0] != 'f') r->least_share *= share / (share + 0.1);
  if (kv_heads < HEADS) {
    r->least_ratio = 1.15;
    (void)snprintf(r->task, sizeof r->task, "attention %d %d %d %d %d full",
                   HEADS, kv_heads, length, length, width);
  }
  (void)snprintf(r->name, sizeof r->name, "attention H12/%d D%d S%d %s",
                 kv_heads, width, length, mask);
  (void)snprintf(
      r->source, sizeof r->source,
      "dim H = %d, T = %d, D = %d\n"
      "export fn f(q: f32[H, T, D], k: f32[%d, T, D], v: f32[%d, T, D]) -> "
      "o: f32[H, T, D] {\n"
      "  r[h, t, j] = (sum[d] q[h, t, d] * k[h / %d, j, d]) * 0.125\n"
      "  s[h, t, j] = %s\n"
      "  m[h, t] = max[j] s[h, t, j]\n"
      "  e[h, t, j] = exp(s[h, t, j] - m[h, t])\n"
      "  l[h, t] = sum[j] e[h, t, j]\n"
      "  o[h, t, d] = (sum[j] e[h, t, j] * v[h / %d, j, d]) / l[h, t]\n}\n",
      HEADS, length, width, kv_heads, kv_heads, HEADS / kv_heads, score,
      HEADS / kv_heads);
}

/* One query for each of 32 heads, 8 of keys: in one piece, or in pages of 16
 * that a table finds. */
void row_decode(row_t *r, const char *dtype, int is_paged, int keys) {
  int pages = keys / 16, bytes = dtype[1] == '1' ? 2 : 4;
  const char *shape = is_paged ? "[P, 16, 8, D]" : "[8, S, D]";
  const char *at = is_paged ? "[page[j / 16], j % 16, h / 4, d]"
                            : "[h / 4, j, d]";
  r->id = "C9";
  r->m = 1;
  r->n = is_paged ? pages : keys; /* a table's numbers are below it */
  r->k = 128;
  r->heads = 32;
  r->kind = OF_STREAM;
  r->work = 2.0 * bytes * 8 * keys * 128.0;
  r->least_share = 0.9;
  r->sets = 4;
  r->rotating = 1u << 1 | 1u << 2;
  (void)snprintf(r->name, sizeof r->name, "decode 32/8 D128 S%d %s%s", keys,
                 dtype, is_paged ? " pages" : "");
  (void)snprintf(
      r->source, sizeof r->source,
      "dim H = 32, S = %d, D = 128, P = %d\n"
      "export fn f(q: f32[H, D], k: %s%s, v: %s%s%s) -> o: f32[H, D] {\n"
      "  r[h, j in S] = (sum[d] q[h, d] * f32(k%s)) * 0.0883883476\n"
      "  m[h] = max[j] r[h, j]\n"
      "  e[h, j] = exp(r[h, j] - m[h])\n"
      "  l[h] = sum[j] e[h, j]\n"
      "  o[h, d] = (sum[j] e[h, j] * f32(v%s)) / l[h]\n}\n",
      keys, pages, dtype, shape, dtype, shape,
      is_paged ? ", page: i32[P] in P" : "", at, at);
}
